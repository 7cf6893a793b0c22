"""The order of things that two sides put in order: what both have stays as it was, and what one
added stands behind what it stood behind there."""

from __future__ import annotations

from collections.abc import Sequence, Set


def merged_order(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str], present: Set[str]
) -> list[str]:
    """The keys of ``present`` in the order that both sides made; the same with the sides swapped.

    Example:
        >>> merged_order("ab", "axb", "aby", set("abxy"))
        ['a', 'x', 'b', 'y']
    """
    known = [set(side) for side in (base, ours, theirs)]
    common = present & known[0] & known[1] & known[2]
    kept = [[key for key in side if key in common] for side in (base, ours, theirs)]
    was, mine, other = kept
    order = other if mine == was else mine if other == was else min(mine, other)
    behind: dict[str, list[list[str]]] = {}
    placed: set[str] = set()
    for side in sorted((list(ours), list(theirs), list(base))):
        run: list[str] = []
        anchor = ""
        for key in side:
            if key in common:
                behind.setdefault(anchor, []).append(run)
                anchor, run = key, []
            elif key in present and key not in placed:
                placed.add(key)
                run.append(key)
        behind.setdefault(anchor, []).append(run)
    made: list[str] = []
    for anchor in ("", *order):
        if anchor:
            made.append(anchor)
        for run in sorted(filter(None, behind.get(anchor, ()))):
            made += run
    return made


__all__ = ["merged_order"]
