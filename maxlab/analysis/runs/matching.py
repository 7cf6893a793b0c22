"""Which kernels of one run do the work of which kernels of another.

Kernels have numbers, and a kernel more gives every later one another number; they are matched by
the ops that they compute. Where the compiler cut the same ops differently, say into one kernel that
were two, both sides are a group and their times are compared together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Protocol


class Kernel(Protocol):
    """The part of a kernel that matters for matching."""

    @property
    def name(self) -> str:
        """The name of its computation."""

    @property
    def kind(self) -> str:
        """The kind of kernel."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The ops that it computes."""


@dataclass(frozen=True, slots=True)
class Match:
    """Kernels that do the same work.

    Attributes:
        before: Their indices in the one run; none for new work.
        after: Their indices in the other; none for work that is gone.
        same_nodes: Whether both sides compute the same ops, as far as these could be matched.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    same_nodes: bool


def match_kernels(
    before: Sequence[Kernel], after: Sequence[Kernel], nodes: Mapping[str, str]
) -> list[Match]:
    """The kernels of two runs, put together: every kernel stands in one ``Match``, in the order in
    which they run.

    Args:
        before: The kernels of the one run.
        after: Those of the other.
        nodes: For ops of the one graph, the id that they have in the other.
    """
    left = [frozenset(nodes.get(n, f"gone {n}") for n in k.nodes) for k in before]
    right = [frozenset(k.nodes) for k in after]
    pairs = _pairs_of_equals(
        [(ops, k.kind) if ops else None for ops, k in zip(left, before, strict=True)],
        [(ops, k.kind) if ops else None for ops, k in zip(right, after, strict=True)],
    )
    found = [Match((one,), (other,), True) for one, other in pairs]
    lefts = _without(range(len(before)), (one for one, _ in pairs))
    rights = _without(range(len(after)), (other for _, other in pairs))
    for ones, others in _groups(lefts, rights, left, right):
        if ones and others:
            same = _union(left, ones) == _union(right, others)
            found.append(Match(tuple(ones), tuple(others), same))
            lefts = _without(lefts, ones)
            rights = _without(rights, others)
    # What is left computes no op of the graph, such as the packing of a weight, or only lost ones.
    idle = [n for n in lefts if not left[n]]
    free = [n for n in rights if not right[n]]
    blocks = SequenceMatcher(
        None,
        [(before[n].kind, before[n].name) for n in idle],
        [(after[n].kind, after[n].name) for n in free],
        autojunk=False,
    ).get_matching_blocks()
    for block in blocks:
        for n in range(block.size):
            one, other = idle[block.a + n], free[block.b + n]
            found.append(Match((one,), (other,), True))
            lefts.remove(one)
            rights.remove(other)
    found += [Match((one,), (), False) for one in lefts]
    found += [Match((), (other,), False) for other in rights]
    return sorted(found, key=lambda m: (m.after or (_place(m, found),), m.before))


def _place(match: Match, found: Sequence[Match]) -> int:
    """Where a kernel that is gone would stand: behind the one that ran before it."""
    earlier = [m.after[-1] for m in found if m.after and m.before and m.before < match.before]
    return max(earlier, default=-1)


def _pairs_of_equals(
    left: Sequence[Hashable | None], right: Sequence[Hashable | None]
) -> list[tuple[int, int]]:
    """Indices with equal keys, in order; keys that are None are equal to nothing."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for n, key in enumerate(right):
        if key is not None:
            places[key].append(n)
    ends = {key: iter(found) for key, found in places.items()}
    return [
        (n, m)
        for n, key in enumerate(left)
        if key is not None and key in ends and (m := next(ends[key], -1)) >= 0
    ]


def _groups(
    lefts: Sequence[int],
    rights: Sequence[int],
    left: Sequence[frozenset[str]],
    right: Sequence[frozenset[str]],
) -> list[tuple[list[int], list[int]]]:
    """Kernels that share ops, put together.

    Several kernels may compute the same op each for itself, such as a mask that all layers read.
    Such ops would put everything into one group, so they count only for a kernel that has no op of
    its own in common with the other side: it goes to the one it shares most with.
    """
    of_left, of_right = _owners(lefts, left), _owners(rights, right)
    parent = {("a", n): ("a", n) for n in lefts} | {("b", n): ("b", n) for n in rights}

    def root(key: tuple[str, int]) -> tuple[str, int]:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    joined: set[tuple[str, int]] = set()
    for op, owners in of_left.items():
        others = of_right.get(op, [])
        if len(owners) == 1 and len(others) == 1:
            one, other = ("a", owners[0]), ("b", others[0])
            parent[root(one)] = root(other)
            joined |= {one, other}
    for n in lefts:
        if ("a", n) not in joined:
            near = sorted({m for op in left[n] for m in of_right.get(op, ())})
            best = max(near, key=lambda m: _alike(left[n], right[m]), default=None)
            if best is not None and ("b", best) not in joined:
                parent[root(("a", n))] = root(("b", best))
                joined |= {("a", n), ("b", best)}
    members: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
    for side, n in parent:
        mine = members.setdefault(root((side, n)), ([], []))
        mine[0 if side == "a" else 1].append(n)
    return [(sorted(ones), sorted(others)) for ones, others in members.values()]


def _owners(chosen: Iterable[int], ops: Sequence[frozenset[str]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for n in chosen:
        for op in ops[n]:
            found[op].append(n)
    return found


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    """How much of two sets they have in common, from 0 to 1."""
    return len(one & other) / len(one | other) if one or other else 0.0


def _union(ops: Sequence[frozenset[str]], chosen: Iterable[int]) -> frozenset[str]:
    return frozenset().union(*(ops[n] for n in chosen))


def _without(indices: Iterable[int], taken: Iterable[int]) -> list[int]:
    gone = set(taken)
    return [n for n in indices if n not in gone]
