"""Checks what the compiler takes for granted of a function: SSA form, uses, ids and types."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maxlab.errors import GraphError
from maxlab.ir.core import Block, Op, Value
from maxlab.ir.function import Function
from maxlab.ir.types import Type, Typed

Infer = Callable[[Op], Sequence[Type]]
"""The types that an op's results must have; the op table stands above this layer."""


def verify(function: Function, infer: Infer | None = None) -> None:
    """Raises unless ``function`` is well formed.

    Args:
        function: The function, with or without an output.
        infer: Gives the result types that an op must have; types are not checked without it.

    Raises:
        GraphError: ML356, a value is read where it is not made yet, or by an op it does not know;
            ML357, ids, owners or blocks that contradict each other; ML358, a result type that is
            not what the op makes.
    """
    _Verifier(infer).function(function)


class _Verifier:
    def __init__(self, infer: Infer | None) -> None:
        self._infer = infer
        self._op_ids: dict[str, Op] = {}
        self._value_ids: dict[str, Value] = {}
        self._visible: set[Value] = set()
        self._uses: dict[Value, dict[Op, int]] = {}

    def function(self, function: Function) -> None:
        self._block(function.block, None, True)
        for value in self._value_ids.values():
            if value.uses != self._uses.get(value, {}):
                real = self._uses.get(value, {})
                strangers = [
                    op for op in {**value.uses, **real} if value.uses.get(op) != real.get(op)
                ]
                raise GraphError(
                    "ML356",
                    f"the uses of %{value.id} are not what the ops read: {strangers[0]!r} is "
                    f"recorded {value.uses.get(strangers[0], 0)} times, "
                    f"reads it {real.get(strangers[0], 0)} times",
                    at=strangers[0].loc,
                )
        for value in function.inputs:
            if isinstance(value.type, Typed):
                for dim in value.type.shape.parameters:
                    if dim.name not in function.parameters:
                        raise GraphError(
                            "ML357",
                            f"the input %{value.id} has the dim {dim}, which is not a parameter "
                            f"of {function.name!r}",
                        )
        for name, subgraph in function.subgraphs.items():
            if subgraph.name != name:
                raise GraphError("ML357", f"the subgraph {subgraph.name!r} is filed as {name!r}")
            _Verifier(self._infer).function(subgraph)

    def _block(self, block: Block, parent: Op | None, top: bool) -> None:
        if block.parent is not parent:
            raise GraphError("ML357", f"a region of {parent!r} has the parent {block.parent!r}")
        mine: list[Value] = []
        for index, value in enumerate(block.args):
            if value.owner is not block or value.index != index:
                raise GraphError(
                    "ML357", f"the argument %{value.id} is not argument {index} of its block"
                )
            self._define(value, None)
            mine.append(value)
        for position, op in enumerate(block.ops):
            self._op(op, block)
            mine.extend(op.results)
            if top and op.ends_block and position != len(block.ops) - 1:
                raise GraphError(
                    "ML357", f"{op.name} {op.id} is not the last op of the graph", at=op.loc
                )
        if not top:
            self._visible.difference_update(mine)

    def _op(self, op: Op, block: Block) -> None:
        if op.block is not block:
            raise GraphError(
                "ML357", f"{op.name} {op.id} does not know that it stands in its block", at=op.loc
            )
        if self._op_ids.setdefault(op.id, op) is not op:
            raise GraphError(
                "ML357",
                f"two ops have the id {op.id}: {self._op_ids[op.id]!r} and {op!r}",
                at=op.loc,
            )
        for value in op.operands:
            if value not in self._visible:
                raise GraphError(
                    "ML356",
                    f"{op.name} {op.id} reads %{value.id}, which is not made before it",
                    at=op.loc,
                    fix="an operand is an input, or the result of an earlier op of the same or an "
                    "enclosing block",
                )
            uses = self._uses.setdefault(value, {})
            uses[op] = uses.get(op, 0) + 1
        for region in op.regions:
            self._block(region, op, False)
        for index, value in enumerate(op.results):
            if value.owner is not op or value.index != index:
                raise GraphError(
                    "ML357", f"%{value.id} is not result {index} of {op.name} {op.id}", at=op.loc
                )
            self._define(value, op)
        if self._infer is not None:
            self._types(op, self._infer(op))

    def _define(self, value: Value, op: Op | None) -> None:
        if self._value_ids.setdefault(value.id, value) is not value or value in self._visible:
            raise GraphError(
                "ML357", f"two values have the id {value.id}", at=op.loc if op is not None else None
            )
        self._visible.add(value)

    def _types(self, op: Op, expected: Sequence[Type]) -> None:
        if len(expected) != len(op.results):
            raise GraphError(
                "ML358",
                f"{op.name} {op.id} has {len(op.results)} results, expected {len(expected)}",
                at=op.loc,
            )
        for value, wanted in zip(op.results, expected, strict=True):
            if value.type != wanted:
                raise GraphError(
                    "ML358",
                    f"{op.name} {op.id}: the result %{value.id} is {value.type}, expected {wanted}",
                    at=op.loc,
                )
