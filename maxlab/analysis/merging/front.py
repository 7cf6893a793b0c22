"""``maxlab.merge``: what two sides changed in a document since the version that both come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxlab import files
from maxlab.analysis.merging.changes import GRAPH, Item, Unit, items_of, units_of
from maxlab.analysis.merging.given import graph_of_given
from maxlab.analysis.merging.identity import apart, ids_in, like, notes_apart
from maxlab.analysis.merging.ordering import merged_order
from maxlab.collector import paused
from maxlab.errors import GraphError
from maxlab.graph import Graph
from maxlab.graph.checked import checked
from maxlab.graph.conflicts import Conflict, ConflictPart
from maxlab.graph.document import Notes
from maxlab.graph.parted import ALL, Entity, Parted, split
from maxlab.graph.reading import graph_with
from maxlab.ir import Function

_SIGHT = "what was merged"


class Merged:
    """The result of ``maxlab.merge``: a document, and the conflicts that are left.

    Attributes:
        graph: The graph with what both sides changed; what is in conflict is as ``ours`` has it.
        conflicts: What both sides changed in different ways; they are in ``graph.document`` too.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @property
    def conflicts(self) -> list[Conflict]:
        """Conflicts that are left to decide, with what each side has."""
        return list(self.graph.document.conflicts)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left to decide."""
        return not self.graph.document.conflicts

    def text(self) -> str:
        """The text of the ``.mlgraph`` file: it opens, also with conflicts."""
        return self.graph.document.text()

    def save(self, path: Path | str) -> None:
        """Writes the document to the file at ``path``.

        Raises:
            FileError: ML001, it is there and is no regular file; ML003, it cannot be written.
        """
        files.write_text(path, self.text(), "the merged graph")

    def to_dict(self) -> dict[str, Any]:
        """The conflicts as plain JSON, and the name of the graph."""
        return {
            "name": self.graph.name,
            "clean": self.is_clean,
            "conflicts": [conflict.to_dict() for conflict in self.conflicts],
        }

    def __str__(self) -> str:
        conflicts = self.conflicts
        count = len(conflicts)
        head = f"{self.graph.name}: "
        head += "merged" if not count else f"{count} conflict{'s' if count > 1 else ''}"
        return "\n".join([head, *map(str, conflicts)])

    def __repr__(self) -> str:
        return f"Merged({self.graph!r}, {len(self.conflicts)} conflicts)"


def merge(
    base: Graph | Path | str | None, ours: Graph | Path | str, theirs: Graph | Path | str
) -> Merged:
    """The ``Merged`` document that has what both sides changed since ``base``.

    Operations, attributes, inputs and notes that one side alone changed are as that side has them.
    What both changed in different ways, or does not fit together, is a conflict: the document has
    it as ``ours`` does, opens and runs, and keeps what the other side had. In an editor, or with
    ``editor.resolve``, a side is taken.

    Args:
        base: The version that both come from: a graph, or the path of a file; None, or an empty
            file, where there was none.
        ours: One side.
        theirs: The other side. Without conflicts it makes no difference which is which.

    Raises:
        ParseError: A file has no graph.
        FileError: A file cannot be read.
        ArgumentTypeError: ML856, something is neither a graph nor a path.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Editor, Graph, TensorType, ops
        >>> row = TensorType(DType.float32, ["n", 8])
        >>> def build():
        ...     return Graph("scores", lambda x: ops.softmax(ops.exp(x)), [row])
        >>> base, ours, theirs = build(), build(), build()
        >>> Editor(ours).set_attribute("n1", "axis", 0)
        >>> _ = Editor(theirs).insert("relu", "n0", 0)
        >>> merged = merge(base, ours, theirs)
        >>> [op.name for op in merged.graph.function.ops], merged.is_clean
        (['mo.relu', 'mo.exp', 'mo.softmax', 'mo.output'], True)
        >>> Editor(theirs).set_attribute("n1", "axis", 1)
        >>> print(merge(base, ours, theirs))
        scores: 1 conflict
        m0: softmax n1: axis
            n1 attr axis: base -1, ours 0, theirs 1
    """
    with paused():  # all that is made stays until the end
        return _merged(base, ours, theirs)


def _merged(base: object, ours: object, theirs: object) -> Merged:
    given = [graph_of_given(one, name) for one, name in ((ours, "ours"), (theirs, "theirs"))]
    mine, other = (_data(graph) for graph in given)
    origin = graph_of_given(base, "base", may_be_empty=True) if base else None
    was = _data(origin) if origin else None
    if was is not None:
        if was == mine:
            return Merged(_again(given[1]))
        if was == other:
            return Merged(_again(given[0]))
    if mine == other:
        return Merged(_again(given[0]))
    function, notes = merge_parts(None if was is None else split(was), split(mine), split(other))
    if notes.weights.files:  # numbers in files are looked for where those of ours are
        notes.weights.folder = given[0].document.notes.weights.folder
    return Merged(graph_with(function, notes))


def _data(graph: Graph) -> Any:
    return graph.document.data()


def _again(graph: Graph) -> Graph:
    """``graph`` as it would be read from its file: another one."""
    made = graph_with(*checked(split(_data(graph)), _SIGHT))
    made.document.notes.weights.folder = graph.document.notes.weights.folder
    return made


# ---------------------------------------------------------------- the merge itself
def merge_parts(base: Parted | None, ours: Parted, theirs: Parted) -> tuple[Function, Notes]:
    """The graph that has what both sides changed, and what stands beside it."""
    if base is None:
        theirs = like(ours, theirs)
        items = [_added(item) for item in items_of(ours, ours, theirs)]
        units = [Unit(items)]
        base = ours
    else:
        ours, theirs = apart(base, like(base, ours), like(base, theirs))
        ours, theirs = notes_apart(base, ours, theirs)
        found = list(items_of(base, ours, theirs))
        units = units_of(found, base, theirs)
    return _Merge(base, ours, theirs).run(units)


def _added(item: Item) -> Item:
    return Item(item.entity, item.name, None, item.ours, item.theirs, item.theirs, "added")


class _Merge:
    """Takes units of ``theirs`` into ``ours``, as many as fit."""

    def __init__(self, base: Parted, ours: Parted, theirs: Parted) -> None:
        self._sides = base, ours, theirs
        self._taken: list[Unit] = []
        self._why: dict[int, str] = {}
        self._last: tuple[Function, Notes] | None = None

    def run(self, units: Sequence[Unit]) -> tuple[Function, Notes]:
        """The merged document."""
        clear = [unit for unit in units if not unit.kind]
        # Places and comments fit anything.
        self._taken = [unit for unit in clear if not unit.is_graph]
        open_units = [unit for unit in clear if unit.is_graph]
        while open_units:
            left = self._take(open_units)
            if len(left) == len(open_units):
                break
            open_units = left  # with what was taken meanwhile, one may fit that did not
        conflicts = [unit for unit in units if unit.kind or unit in open_units]
        if not conflicts and self._last is not None:
            return self._last
        made = self._made(self._taken)
        for unit in conflicts:
            self._keep(made, unit)
        return checked(made, _SIGHT)

    def _take(self, units: Sequence[Unit]) -> list[Unit]:
        """Takes those of ``units`` that fit; returns the others."""
        try:
            made = checked(self._made([*self._taken, *units]), _SIGHT)
        except GraphError as error:
            if len(units) == 1:
                self._why[id(units[0])] = error.what
                return list(units)
            half = len(units) // 2
            return [*self._take(units[:half]), *self._take(units[half:])]
        self._taken += units
        self._last = made
        return []

    def _made(self, taken: Sequence[Unit]) -> Parted:
        base, ours, theirs = self._sides
        made = ours.copy()
        for unit in taken:
            for item in unit.items:
                made.put(item.entity, item.name, item.taken)
        _tidy(base, made)
        for order in dict.fromkeys([*ours.orders, *theirs.orders]):
            section = order if order in ("inputs", "subgraphs") else ""
            section = order if order in ("comments", "drafts", "conflicts") else section
            section = section[:-1] or "op"
            was, mine, other = (side.orders.get(order, []) for side in self._sides)
            present = {key for one, key in made.parts if one == section}
            made.orders[order] = merged_order(was, mine, other, present)
        made.constants = base.constants | ours.constants | theirs.constants
        return made

    def _keep(self, made: Parted, unit: Unit) -> None:
        """Lets the document have the conflict that ``unit`` is."""
        items = [item for item in unit.items if not item.is_quiet] or unit.items
        taken = [key for one, key in made.parts if one == "conflict"]
        numbers = [int(key[1:]) for key in taken if key[1:].isdecimal() and len(key) < 19]
        key = f"m{max(numbers, default=-1) + 1}"
        whole = [*items, *(item for item in unit.items if item not in items)]
        parts = tuple(
            ConflictPart(item.entity, item.name, item.base, item.ours, item.theirs)
            for item in whole
        )
        pool = made.constants
        names = {name for part in parts for name in _hashes(part)}
        on = [_key_of(item.entity) for item in items]
        conflict = Conflict(
            id=key,
            kind=unit.kind or "unfit",
            says=self._says(unit, items),
            on=tuple(dict.fromkeys(one for one in on if one)),
            parts=parts,
            constants={name: pool[name] for name in sorted(names) if name in pool},
        )
        made.parts["conflict", key] = {ALL: conflict.to_dict()}
        made.orders["conflicts"] = [*made.orders.get("conflicts", []), key]

    def _says(self, unit: Unit, items: Sequence[Item]) -> str:
        head = [self._name(item) for item in items if item.entity[0] in GRAPH or len(items) == 1]
        told = ", ".join(dict.fromkeys(head[:4])) or self._name(items[0])
        told += ", …" if len(head) > 4 else ""
        why = self._why.get(id(unit), "")
        return f"{told}: {why}" if why else told

    def _name(self, item: Item) -> str:
        section, key = item.entity
        fields = next((s.parts[item.entity] for s in self._sides if item.entity in s.parts), {})
        name = str(fields.get("name", "")).removeprefix("mo.") if section == "op" else section
        told = f"{name} {key}".strip()
        if item.name:
            return f"{told}: {item.name.removeprefix('attr ')}"
        if item.theirs is None:
            return f"{told} removed"
        return f"{told} added" if item.base is None else told


def _key_of(entity: Entity) -> str:
    section, key = entity
    if section in ("op", "draft", "place"):
        return key
    return f"in:{key}" if section == "input" else ""


def _hashes(part: ConflictPart) -> set[str]:
    """The constants that ``part`` names."""
    found: set[str] = set()
    for side in (part.base, part.ours, part.theirs):
        values = [side, *(side.values() if isinstance(side, dict) else ())]
        for value in values:
            if isinstance(value, dict) and isinstance(value.get("constant"), str):
                found.add(value["constant"])
    return found


def _tidy(base: Parted, made: Parted) -> None:
    """Takes out the notes of what ``base`` had and ``made`` has no more."""
    gone: set[str] = set()
    values: set[str] = set()
    for (section, key), fields in base.parts.items():
        if section in ("op", "input") and (section, key) not in made.parts:
            results = [key] if section == "input" else fields.get("results", [])
            gone.update([key, f"in:{key}", *(f"out:{value}" for value in results)])
            values.update(results)
    if not gone:
        return
    for entity, fields in list(made.parts.items()):
        section, key = entity
        if (section == "place" and key in gone) or (
            section == "comment" and fields.get("on") in gone
        ):
            del made.parts[entity]
        elif section == "draft" and not values.isdisjoint(ids_in(fields.get("operands"))):
            operands = [None if v in values else v for v in fields["operands"]]
            made.parts[entity] = {**fields, "operands": operands}


__all__ = ["Merged", "merge", "merge_parts"]
