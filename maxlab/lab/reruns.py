"""What changed in a graph between two runs of the cell that shows it.

Ids say nothing here: a cell that runs again builds a new graph. Nodes are paired by what they are:
the op, its attributes, its scope, its source text, and the nodes whose results they read.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from maxlab.ir.cells import running_cell
from maxlab.lab import protocol

RECENT = 64
"""Graphs of cells that are remembered; of each what its nodes are, not the graph."""

NOTHING: protocol.Marks = {"added": [], "changed": [], "removed": 0}


@dataclass(frozen=True, slots=True)
class Trait:
    """What a node is.

    Attributes:
        kind: The op and its scope.
        itself: All that the node says of itself.
        reads: The place of the node that makes each operand and the number of its result; for an
            input of the graph, its number and -1.
        ancestry: A hash of the node and of all nodes that it depends on.
    """

    kind: Hashable
    itself: Hashable
    reads: tuple[tuple[int, int], ...]
    ancestry: int


def traits_of(document: protocol.GraphDocument) -> list[Trait]:
    """The traits of the nodes of ``document``, in its order."""
    makers = {id: (n, -1) for n, id in enumerate(document["inputs"])}
    for place, node in enumerate(document["nodes"]):
        makers.update({id: (place, number) for number, id in enumerate(node["results"])})
    found: list[Trait] = []
    for place, node in enumerate(document["nodes"]):
        source = node["source"]
        kind = (node["op"], node["scope"])
        text = source["text"].strip() if source is not None else ""
        itself = (*kind, tuple(sorted(node["attrs"].items())), text)
        reads = tuple(makers.get(id, (-1, -1)) for id in node["operands"])
        # What a loop gives itself stands behind it: such a way back is left out here.
        above = tuple(
            (found[maker].ancestry, number) if number >= 0 else (maker, number)
            for maker, number in reads
            if number < 0 or maker < place
        )
        found.append(Trait(kind, itself, reads, hash((itself, above))))
    return found


def compared(old: Sequence[Trait], new: Sequence[Trait]) -> tuple[list[int], list[int], int]:
    """The places in ``new`` of nodes that were added and of those that changed, and how many nodes
    of ``old`` are gone.

    Nodes are paired in three rounds, the first of each kind with the first: those that are the same
    with all they depend on, those that say the same of themselves, and those that are at least the
    same op in the same scope, which have changed. A pair of the second round has changed when it
    reads from nodes that are no pair.
    """
    pair: dict[int, int] = {}
    left = list(range(len(old)))
    unpaired = list(range(len(new)))
    changed: list[int] = []
    for key in (_with_ancestors, _alone, _at_least):
        waiting: dict[Hashable, deque[int]] = defaultdict(deque)
        for place in left:
            waiting[key(old[place])].append(place)
        found = []
        for place in unpaired:
            candidates = waiting[key(new[place])]
            if candidates:
                pair[place] = candidates.popleft()
                found.append(place)
        taken = set(pair.values())
        left = [place for place in left if place not in taken]
        unpaired = [place for place in unpaired if place not in pair]
        if key is not _with_ancestors:
            changed += found
    differs = [
        place
        for place in sorted(changed)
        if old[pair[place]].itself != new[place].itself or not _reads_alike(old, new, pair, place)
    ]
    return unpaired, differs, len(left)


def _with_ancestors(trait: Trait) -> Hashable:
    return trait.ancestry


def _alone(trait: Trait) -> Hashable:
    return trait.itself


def _at_least(trait: Trait) -> Hashable:
    return trait.kind


def _reads_alike(
    old: Sequence[Trait], new: Sequence[Trait], pair: Mapping[int, int], place: int
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
        is_changed = found is not None and old[found].itself != new[is_].itself
        return old[was].itself == new[is_].itself or (is_changed and old[was].kind == new[is_].kind)

    return len(before) == len(now) and all(map(alike, before, now))


def marks(document: protocol.GraphDocument, old: Sequence[Trait]) -> protocol.Marks:
    """What is to be marked in ``document``, whose nodes were ``old`` in the run before."""
    nodes = document["nodes"]

    def ids(places: Iterable[int]) -> list[str]:
        return [nodes[place]["id"] for place in places]

    added, changed, removed = compared(old, traits_of(document))
    return {"added": ids(added), "changed": ids(changed), "removed": removed}


# ---------------------------------------------------------------- cells


@dataclass(slots=True)
class _Shown:
    """The graphs of one name that a cell showed, in this run and in the one before."""

    run: str
    now: list[list[Trait]] = field(default_factory=list)
    before: list[list[Trait]] = field(default_factory=list)


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
    shown.now.append(traits_of(document))
    if number >= len(shown.before):
        return None
    return marks(document, shown.before[number])
