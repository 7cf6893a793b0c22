"""Changes of a graph since its cell built it: the graph as it was beside the graph as it is.

Ids tell what is the same. What was changed and changed back is no change, in whatever way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from maxlab.ir import Function, Op, Value
from maxlab.ir.edit_objects import op_data


@dataclass(slots=True)
class Changes:
    """The differences between two states of a graph.

    Attributes:
        base: The graph as the cell built it.
        now: The graph as it is.
        attributes: Operations with other attributes.
        removed: Operations that are gone.
        added: Operations that are new, in the order of the graph.
        exchanged: Operations that are gone, and the new ones that everything reads instead.
        types: Inputs that have another type.
        inputs: Inputs that are new.
        gone: Inputs that are gone.
        names: Values of operations that have another name, and that name.
    """

    base: Function
    now: Function
    attributes: list[Op] = field(default_factory=list)
    removed: list[Op] = field(default_factory=list)
    added: list[Op] = field(default_factory=list)
    exchanged: dict[str, Op] = field(default_factory=dict)
    types: list[Value] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    gone: list[Value] = field(default_factory=list)
    names: list[Value] = field(default_factory=list)
    rewired: bool = False
    inner: list[Op] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many things differ, what reads others left out."""
        ops = len(self.attributes) + len(self.removed) + len(self.added) - len(self.exchanged)
        inputs = len(self.types) + len(self.inputs) + len(self.gone)
        return ops + inputs + len(self.names) + len(self.inner) or int(self.rewired)

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return self.count == 0


def changes_between(base: Function, now: Function) -> Changes:
    """The differences between ``base`` and ``now``, which came of it by edits."""
    found = Changes(base, now)
    before = {op.id: op for op in base.ops}
    after = {op.id: op for op in now.ops}
    for id, op in after.items():
        old = before.get(id)
        if old is None:
            found.added.append(op)
            continue
        if dict(old.attrs) != dict(op.attrs):
            found.attributes.append(op)
        if [v.id for v in old.operands] != [v.id for v in op.operands]:
            found.rewired = True
        if old.regions and op_data(old).regions != op_data(op).regions:
            found.inner.append(op)
        for was, is_ in zip(old.results, op.results, strict=False):
            if was.name != is_.name:
                found.names.append(is_)
    found.removed = [op for id, op in before.items() if id not in after]
    were = {value.id: value for value in base.inputs}
    are = {value.id: value for value in now.inputs}
    found.inputs = [value for id, value in are.items() if id not in were]
    found.gone = [value for id, value in were.items() if id not in are]
    found.types = [v for id, v in are.items() if id in were and were[id].type != v.type]
    for old in found.removed:
        new = _instead(old, after, found.added)
        if new is not None and new not in found.exchanged.values():
            found.exchanged[old.id] = new
    return found


def _readers(op: Op) -> Iterator[tuple[Op, int, int]]:
    """Readers of the results of ``op``: the reader, the number of its operand and of the result."""
    for number, value in enumerate(op.results):
        for reader in value.uses:
            for operand, read in enumerate(reader.operands):
                if read is value:
                    yield reader, operand, number


def _instead(old: Op, after: dict[str, Op], added: list[Op]) -> Op | None:
    """The new operation that all readers of ``old`` read now; None where they read several, or
    none."""
    found: set[str] = set()
    for reader, operand, number in _readers(old):
        now = after.get(reader.id)
        if now is None:
            continue
        read = now.operands[operand] if operand < len(now.operands) else None
        maker = read.op if read is not None else None
        if read is None or maker is None or read is not maker.results[number % len(maker.results)]:
            return None
        found.add(maker.id)
    made = {op.id: op for op in added}
    if len(found) != 1:
        return None
    new = made.get(found.pop())
    return new if new is not None and len(new.results) == len(old.results) else None


__all__ = ["Changes", "changes_between"]
