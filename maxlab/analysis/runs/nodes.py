"""Which op of one graph is which op of another.

Ids number the ops of a graph in the order in which they were built, so one line more gives every
later op another id. Ops are matched by what they compute instead: two are the same when they do
the same to operands that are the same, back to the inputs; or, counted from the other end, when
the same becomes of their results, up to the outputs. An edit in the middle of a graph breaks the
first behind it and the second before it. What is between two edits is matched in the order in
which it was written.

Source lines, types, attributes and scopes count first and are dropped one after the other, so that
a graph in another dtype, or one that moved into a module, is still matched op by op.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from maxlab.analysis.runs.aligned import aligned

Node = Mapping[str, Any]
Document = Mapping[str, Any]


class Part(NamedTuple):
    """An op, as far as it matters for what it is.

    Attributes:
        op: Its op.
        scope: The scopes it stands in.
        attrs: Its attributes, with the names of the weights and the values of the constants that
            it makes: they are its data.
        types: The types of its results.
        text: Its source text.
        reads: The place of the op that makes each operand and the number of its result; for an
            input of the graph its number and -1.
        gives: The number of each result that is an output of the graph, and that of the output.
    """

    op: str
    scope: str
    attrs: Hashable
    types: tuple[str, ...]
    text: str
    reads: tuple[tuple[int, int], ...]
    gives: tuple[tuple[int, int], ...]


LEVELS: tuple[Callable[[Part], Hashable], ...] = (
    lambda part: (part.op, part.scope, part.attrs, part.types, part.text),
    lambda part: (part.op, part.scope, part.attrs, part.types),
    lambda part: (part.op, part.attrs, part.types),
    lambda part: (part.op, part.scope),
    lambda part: part.op,
)
"""Keys that two ops must share, the strictest first, when all above or below them is the same."""

IN_ORDER: tuple[Callable[[Part], Hashable], ...] = (
    LEVELS[0],
    lambda part: (part.scope, part.op, part.text),
    lambda part: (part.scope, part.op),
)
"""Keys that two ops must share when all that they have in common is their order."""


def match_nodes(before: Document, after: Document) -> dict[str, str]:
    """For ops of the document ``before`` that are also in ``after``, the id they have there.

    Example:
        >>> def graph(*ops):
        ...     nodes = [
        ...         {"id": f"n{i}", "op": op, "operands": [f"v{i - 1}"], "results": [f"v{i}"],
        ...          "scope": "", "attrs": {}, "source": None}
        ...         for i, op in enumerate(ops, 1)
        ...     ]
        ...     return {"nodes": nodes, "values": [], "inputs": ["v0"], "outputs": [f"v{len(ops)}"]}
        >>> match_nodes(graph("exp", "neg", "abs"), graph("exp", "sqrt", "neg", "abs"))
        {'n1': 'n1', 'n2': 'n3', 'n3': 'n4'}
    """
    one, other = sound_nodes(before), sound_nodes(after)
    found = match_parts(parts_of(before), parts_of(after))
    return {one[n]["id"]: other[m]["id"] for n, m in sorted(found.items())}


def parts_of(document: Document) -> list[Part]:
    """The ops of ``document``, in its order, without those that could not be built."""
    values = {value["id"]: value for value in document["values"]}
    makers = {id: (n, -1) for n, id in enumerate(document["inputs"])}
    nodes = sound_nodes(document)
    for place, node in enumerate(nodes):
        makers.update({id: (place, number) for number, id in enumerate(node["results"])})
    ends: dict[str, list[int]] = defaultdict(list)
    for n, id in enumerate(document["outputs"]):
        ends[id].append(n)
    found = []
    for node in nodes:
        made = [values.get(id, {}) for id in node["results"]]
        attrs, source = node["attrs"], node.get("source")
        told = tuple(sorted((key, str(value)) for key, value in attrs.items())) if attrs else ()
        data = tuple([v.get("name", "") for v in made if v.get("kind") in ("weight", "constant")])
        found.append(
            Part(
                node["op"],
                node["scope"],
                (told, data),
                tuple([value.get("type", "") for value in made]),
                source["text"].strip() if source is not None else "",
                tuple([makers.get(id, (-1, -1)) for id in node["operands"]]),
                tuple(
                    [(n, end) for n, id in enumerate(node["results"]) for end in ends.get(id, ())]
                ),
            )
        )
    return found


def sound_nodes(document: Document) -> list[Node]:
    """The ops of ``document`` that could be built, which are all but one at most."""
    return [node for node in document["nodes"] if not node.get("error")]


def match_parts(before: Sequence[Part], after: Sequence[Part]) -> dict[int, int]:
    """For the places in ``before`` of ops that are also in ``after``, their place there."""
    matching = _Matching(before, after)
    matching.by_start()
    for level in LEVELS:
        matching.by_surroundings(level, is_above=True)
        matching.by_surroundings(level, is_above=False)
    for key in IN_ORDER:
        matching.by_order(key)
    matching.by_occurrence(IN_ORDER[-1])
    return matching.found


class _Side:
    """The ops of a graph, and what reads them."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        # The number of the pair that an op is in; -1 while it is in none.
        self.pair = [-1] * len(parts)
        self.left = list(range(len(parts)))

    @cached_property
    def readers(self) -> list[list[tuple[int, int, int]]]:
        """For each op its results that are read, by which op, and as which operand."""
        found: list[list[tuple[int, int, int]]] = [[] for _ in self.parts]
        for index, part in enumerate(self.parts):
            for place, (maker, number) in enumerate(part.reads):
                if number >= 0:
                    found[maker].append((number, index, place))
        return found

    @cached_property
    def order(self) -> list[int]:
        """The ops, each behind those it reads; those of a cycle in the order of the graph."""
        waits = [len({m for m, number in part.reads if number >= 0}) for part in self.parts]
        ready = [index for index, count in enumerate(waits) if count == 0][::-1]
        order: list[int] = []
        while ready:
            index = ready.pop()
            order.append(index)
            for follower in dict.fromkeys(reader for _, reader, _ in self.readers[index]):
                waits[follower] -= 1
                if waits[follower] == 0:
                    ready.append(follower)
        placed = set(order)
        return order + [n for n in range(len(self.parts)) if n not in placed]

    def above(self, index: int, known: Sequence[int]) -> Hashable:
        """The operands of ``index``."""
        return tuple(
            (known[maker], number) if number >= 0 else (maker, number)
            for maker, number in self.parts[index].reads
        )

    def below(self, index: int, known: Sequence[int]) -> Hashable:
        """The readers of ``index``, and the outputs that it is."""
        readers = [(number, known[one], place) for number, one, place in self.readers[index]]
        return tuple(sorted(readers)), self.parts[index].gives


class _Matching:
    """The matches so far, and the ops that are left."""

    def __init__(self, before: Sequence[Part], after: Sequence[Part]) -> None:
        self.found: dict[int, int] = {}
        self._one, self._other = _Side(before), _Side(after)

    def by_start(self) -> None:
        """Match the ops that both begin with: they read the same, so all above them is the same."""
        for place, (one, other) in enumerate(zip(self._one.parts, self._other.parts, strict=False)):
            if one[:-1] != other[:-1]:
                break
            self._keep(place, place)
        self._settle()

    def by_surroundings(self, level: Callable[[Part], Hashable], is_above: bool) -> None:
        """Match ops that are the same, and all above them or below them is. Ops that are matched
        already are the same."""
        if not self._one.left or not self._other.left:
            return
        # Equal numbers for what is equal; pairs have the first ones.
        numbers: dict[Hashable, int] = {}
        first = len(self.found)
        places: list[dict[int, list[int]]] = []
        for side in (self._one, self._other):
            known = list(side.pair)
            around = side.above if is_above else side.below
            found: dict[int, list[int]] = defaultdict(list)
            for index in side.order if is_above else reversed(side.order):
                if known[index] < 0:
                    key = (level(side.parts[index]), around(index, known))
                    number = known[index] = first + numbers.setdefault(key, len(numbers))
                    found[number].append(index)
            places.append(found)
        for number, mine in places[0].items():
            theirs = places[1].get(number, [])
            # Equal ones, such as two branches that do the same, in the order they were written.
            # With one more on a side there is no telling which it is; a later rule may know.
            if len(mine) == len(theirs):
                for pair in zip(sorted(mine), sorted(theirs), strict=True):
                    self._keep(*pair)
        self._settle()

    def by_order(self, key: Callable[[Part], Hashable]) -> None:
        """Match ops with the same ``key`` so that their order is kept."""
        mine, theirs = self._one.left, self._other.left
        if mine and theirs:
            one, other = self._one.parts, self._other.parts
            for n, m in aligned([key(one[n]) for n in mine], [key(other[n]) for n in theirs]):
                self._keep(mine[n], theirs[m])
            self._settle()

    def by_occurrence(self, key: Callable[[Part], Hashable]) -> None:
        """Match the first op of each ``key`` with the first: what was moved."""
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        for place in reversed(self._other.left):
            waiting[key(self._other.parts[place])].append(place)
        for place in self._one.left:
            theirs = waiting.get(key(self._one.parts[place]))
            if theirs:
                self._keep(place, theirs.pop())
        self._settle()

    def _keep(self, one: int, other: int) -> None:
        self._one.pair[one] = self._other.pair[other] = len(self.found)
        self.found[one] = other

    def _settle(self) -> None:
        for side in (self._one, self._other):
            side.left = [n for n in side.left if side.pair[n] < 0]
