"""What changed in a graph between two runs of the cell that shows it.

Ids say nothing here: a cell that runs again builds a new graph. Nodes are paired by what they are:
the op, its attributes, its types, its scope, its source text, and the nodes around them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from maxlab.analysis.runs.nodes import Part, match_parts, parts_of, sound_nodes
from maxlab.ir.cells import running_cell
from maxlab.lab import protocol

RECENT = 64
"""Graphs of cells that are remembered; of each what its nodes are, not the graph."""

NOTHING: protocol.Marks = {"added": [], "changed": [], "removed": 0}


def compared(old: Sequence[Part], new: Sequence[Part]) -> tuple[list[int], list[int], int]:
    """The places in ``new`` of nodes that were added and of those that changed, and how many nodes
    of ``old`` are gone.

    A node has changed when it says something else of itself than its counterpart, has another type,
    or reads from nodes that are no pair.
    """
    back = {place: was for was, place in match_parts(old, new).items()}
    added = [place for place in range(len(new)) if place not in back]
    changed = [
        place
        for place in range(len(new))
        if place in back
        and (not _is_same(old[back[place]], new[place]) or not _reads_alike(old, new, back, place))
    ]
    return added, changed, len(old) - len(back)


def _is_same(old: Part, new: Part) -> bool:
    """Whether two nodes say the same of themselves."""
    return old[:5] == new[:5]


def _reads_alike(
    old: Sequence[Part], new: Sequence[Part], pair: Mapping[int, int], place: int
) -> bool:
    """Whether the node at ``place`` and its counterpart read from pairs, or the same inputs. Of
    equal constants and weights any is as good as another, and one that changed says so itself."""
    before, now = old[pair[place]].reads, new[place].reads

    def alike(left: tuple[int, int], right: tuple[int, int]) -> bool:
        (was, result), (is_, number) = left, right
        if result != number or number < 0:
            return left == right
        if pair.get(is_) == was:
            return True
        if old[was].reads or new[is_].reads:
            return False
        found = pair.get(is_)
        is_changed = found is not None and not _is_same(old[found], new[is_])
        return _is_same(old[was], new[is_]) or (
            is_changed and (old[was].op, old[was].scope) == (new[is_].op, new[is_].scope)
        )

    return len(before) == len(now) and all(map(alike, before, now))


def marks(document: protocol.GraphDocument, old: Sequence[Part]) -> protocol.Marks:
    """What is to be marked in ``document``, whose nodes were ``old`` in the run before."""
    nodes = sound_nodes(document)

    def ids(places: Iterable[int]) -> list[str]:
        return [nodes[place]["id"] for place in places]

    added, changed, removed = compared(old, parts_of(document))
    return {"added": ids(added), "changed": ids(changed), "removed": removed}


# ---------------------------------------------------------------- cells


@dataclass(slots=True)
class _Shown:
    """The graphs of one name that a cell showed, in this run and in the one before."""

    run: str
    now: list[list[Part]] = field(default_factory=list)
    before: list[list[Part]] = field(default_factory=list)


_cells: OrderedDict[tuple[str, str], _Shown] = OrderedDict()


def marks_in_cell(document: protocol.GraphDocument) -> protocol.Marks | None:
    """What changed in ``document`` since the cell that is running ran before; None in its first
    run, and outside of a notebook. The graph is remembered for the next run."""
    cell, run = running_cell()
    if not cell:
        return None
    key = (cell, document["name"])
    shown = _cells.pop(key, None) or _Shown(run)
    if shown.run != run:
        shown.run, shown.before, shown.now = run, shown.now, []
    _cells[key] = shown
    while len(_cells) > RECENT:
        _cells.popitem(last=False)
    number = len(shown.now)
    shown.now.append(parts_of(document))
    if number >= len(shown.before):
        return None
    return marks(document, shown.before[number])
