"""A graph that becomes another version of itself, by the fewest changes: operations that both have
stay the very ones they were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from maxlab.graph.graph import Graph
from maxlab.ir import Block, Function, Op, Value
from maxlab.ir.core import copied
from maxlab.ir.edit_objects import block_data


def become(graph: Graph, wanted: Function) -> None:
    """Lets ``graph`` have the operations, inputs and notes of ``wanted``, which has been checked.

    Operations and values are the same ones where their ids are. It stands in a step of an editor,
    which takes everything back when something fails.
    """
    function = graph.function
    _Becoming(function, wanted).run()
    for table in {*function.notes, *wanted.notes}:
        _become_notes(function, table, wanted.notes.get(table, {}))


class _Becoming:
    def __init__(self, function: Function, wanted: Function) -> None:
        self._function = function
        self._wanted = wanted
        self._known = {op.id: op for op in function.ops}
        self._values: dict[Value, Value] = {}

    def run(self) -> None:
        """Changes the function."""
        function, wanted = self._function, self._wanted
        for op in wanted.walk():
            for id in (op.id, *(value.id for value in op.results)):
                function.reserve(id)
        function.rename(wanted.name)
        self._add_inputs()
        order = [self._op(op) for op in wanted.ops]
        for op, twin in zip(wanted.ops, order, strict=True):
            self._change(op, twin)
        kept = set(order)
        for op in reversed([op for op in function.ops if op not in kept]):
            function.block.remove(op)
        self._sort(order)
        inputs = [self._values[value] for value in wanted.inputs]
        for value in [value for value in function.inputs if value not in inputs]:
            function.block.remove_argument(value)
        function.block.order_arguments(inputs)
        function.set_parameters(wanted.parameters)

    def _add_inputs(self) -> None:
        function = self._function
        known = {value.id: value for value in function.inputs}
        for value in self._wanted.inputs:
            twin = known.get(value.id)
            if twin is None:
                twin = function.block.add_argument(value.id, value.type, value.name)
            self._values[value] = _like(value, twin)

    def _op(self, op: Op) -> Op:
        """The operation that ``op`` is here: the one that has its id, or a new one."""
        twin = self._known.get(op.id)
        is_same = (
            twin is not None
            and twin.name == op.name
            and [v.id for v in twin.results] == [v.id for v in op.results]
            and [block_data(r) for r in twin.regions] == [block_data(r) for r in op.regions]
        )
        if twin is None or not is_same:
            twin = self._made(op, op.id if twin is None else f"n{self._function.fresh()}")
        self._values.update(zip(op.results, twin.results, strict=True))
        return twin

    def _made(self, op: Op, id: str) -> Op:
        ids = [value.id for value in op.results]
        if id != op.id:
            ids = [f"v{id[1:]}" + (f"_{n}" if n else "") for n in range(len(ids))]
        made = Op(
            id,
            op.name,
            [self._values[value] for value in op.operands],
            [value.type for value in op.results],
            op.attrs,
            result_ids=ids,
            loc=op.loc,
            scope=op.scope,
            origins=tuple(id if origin == op.id else origin for origin in op.origins),
        )
        for value, twin in zip(op.results, made.results, strict=True):
            twin.name = value.name
        for region in op.regions:
            inner = Block()
            copied(region, inner, dict(self._values))
            made.add_region(inner)
        # Behind all there is; it is put in its place when all is there.
        self._function.block.insert(made, self._function.output)
        return made

    def _change(self, op: Op, twin: Op) -> None:
        operands = [self._values[value] for value in op.operands]
        if list(twin.operands) != operands:
            twin.set_operands(operands)
        if dict(twin.attrs) != dict(op.attrs):
            twin.set_attrs(op.attrs)
        origins = tuple(twin.id if origin == op.id else origin for origin in op.origins)
        twin.set_whole_source((op.loc, op.scope, origins))
        for value, result in zip(op.results, twin.results, strict=True):
            _like(value, result)

    def _sort(self, order: list[Op]) -> None:
        block = self._function.block
        before: Op | None = None
        for op in reversed(order):
            place = block.ops.index(op)
            following = block.ops[place + 1] if place + 1 < len(block.ops) else None
            if following is not before:
                block.move(op, before)
            before = op


def _like(value: Value, twin: Value) -> Value:
    """``twin`` with the type and the name of ``value``."""
    if twin.type != value.type:
        twin.retype(value.type)
    if twin.name != value.name:
        twin.rename(value.name)
    return twin


def _become_notes(function: Function, table: str, wanted: Mapping[str, str]) -> None:
    """Lets the notes of ``table`` be ``wanted``, in its order."""
    now = function.notes.get(table, {})
    if list(now.items()) == list(wanted.items()):
        return
    kept: Iterable[str] = [key for key in now if key in wanted]
    if list(kept) != [key for key in wanted if key in now]:
        kept = ()
    for key in [key for key in reversed(list(now)) if key not in set(kept)]:
        function.set_note(table, key, None)
    following: str | None = None
    for key in reversed(list(wanted)):
        function.set_note(table, key, wanted[key], following)
        following = key


__all__ = ["become"]
