"""The operations and values of a graph by their ids and names."""

from __future__ import annotations

from typing import Any

from maxlab.errors import GraphError, shown
from maxlab.graph.graph import Graph
from maxlab.graph.rearranging import short_name
from maxlab.graph.staged import placed
from maxlab.graph.value import Value, wrap
from maxlab.ir import ChainType, Op
from maxlab.ir import Value as IrValue

OpLike = Op | str
"""An operation of the graph, or its id."""
ValueLike = Value | str
"""A value of the graph, its id, or the only name of one."""


class Finder:
    """Finds what people name of ``graph``: operations by ids, values by ids or names.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @placed
    def value(self, value: ValueLike) -> Value:
        """The value with that id, or the only one with that name.

        Raises:
            GraphError: ML300, there is none, or several.
        """
        found: Value = wrap(self._value(value))
        return found

    @placed
    def in_function(self, value: ValueLike) -> IrValue:
        """The value of ``graph.function`` for ``value``, with an id and an operation.

        Raises:
            GraphError: ML300, there is none, or several.
        """
        return self._value(value)

    @placed
    def op(self, op: OpLike) -> Op:
        """The operation with that id.

        Raises:
            GraphError: ML300, there is none, or it stands in a branch or loop.
        """
        return self._op(op)

    @placed
    def operands(self, op: OpLike) -> list[Value]:
        """The operands of ``op``, in order.

        Raises:
            GraphError: ML300, there is no such operation.
        """
        found = self._op(op).operands
        return [wrap(v) for v in found if not isinstance(v.type, ChainType)]

    @placed
    def operand(self, op: OpLike, number: int) -> Value:
        """The operand ``number`` of ``op``.

        Raises:
            GraphError: ML300, there is no such operation or operand.
        """
        reader, place = self._operand(op, number)
        found: Value = wrap(reader.operands[place])
        return found

    def _op(self, op: OpLike) -> Op:
        found = self.graph.function.find(op) if isinstance(op, str) else op
        if not isinstance(found, Op) or found.block is not self.graph.function.block:
            inside = isinstance(found, Op) and found.block is not None
            raise GraphError(
                "ML300",
                f"the operation {shown(op)} stands in a branch or loop"
                if inside
                else f"the graph {self.graph.name!r} has no operation {shown(op)}",
                fix="ids are those in print(graph) and in views, such as 'n12'",
            )
        return found

    def _value(self, value: Any) -> IrValue:
        function = self.graph.function
        if isinstance(value, Value):
            found = value._ir()
            if found.block is function.block:
                return found
        elif isinstance(value, str):
            values = [*function.inputs, *(v for op in function.ops for v in op.results)]
            named = [v for v in values if v.id == value] or [v for v in values if v.name == value]
            if len(named) == 1:
                return named[0]
            if named:
                raise GraphError(
                    "ML300",
                    f"{len(named)} values are called {value!r}: "
                    f"{', '.join(v.id for v in named[:4])}",
                    fix="name it by its id",
                )
        raise GraphError(
            "ML300",
            f"the graph {self.graph.name!r} has no value {shown(value)}",
            fix="ids are those in print(graph), such as 'v12'; inputs have names too",
        )

    def _operand(self, op: OpLike, number: int) -> tuple[Op, int]:
        found = self._op(op)
        count = sum(not isinstance(v.type, ChainType) for v in found.operands)
        if not isinstance(number, int) or not 0 <= number < count:
            raise GraphError(
                "ML300",
                f"{short_name(found)} {found.id} has {count} operands, and none is number "
                f"{shown(number)}",
                at=found.loc,
                fix="operands are counted from 0",
            )
        return found, number


__all__ = ["Finder", "OpLike", "ValueLike"]
