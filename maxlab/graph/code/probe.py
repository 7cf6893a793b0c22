"""Whether an expression makes an operation: it is evaluated in a graph of its own, and compared.

What is written is never guessed. Each way to write an operation is tried, and the first one that
makes exactly this operation is the one that is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.graph import ops
from maxlab.graph.code.canonical import told_attrs
from maxlab.graph.code.text import Node, smaller
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.type import (
    BufferType,
    ConvInputLayout,
    DeviceRef,
    FilterLayout,
    TensorType,
)
from maxlab.graph.value import TensorValue, Value, wrap
from maxlab.ir import ChainType, Constant, Dim, Op, Type
from maxlab.ir import Value as IrValue
from maxlab.ir.types import OpaqueType

NAMES: Mapping[str, Any] = {
    "BufferType": BufferType,
    "Constant": Constant,
    "ConvInputLayout": ConvInputLayout,
    "DType": DType,
    "DeviceRef": DeviceRef,
    "Dim": Dim,
    "FilterLayout": FilterLayout,
    "OpaqueType": OpaqueType,
    "QuantizationEncoding": QuantizationEncoding,
    "TensorType": TensorType,
    "TensorValue": TensorValue,
    "np": np,
    "ops": ops,
}
"""Names that expressions may use, besides values, ``Graph`` and ``InterpolationMode``."""


class Probe:
    """A graph in which expressions are tried.

    Args:
        make: Makes a graph.
        like: The inputs whose dims are known in it.
        more: What expressions may name besides.
    """

    def __init__(
        self, make: Callable[[], Any], like: Sequence[IrValue], more: Mapping[str, Any]
    ) -> None:
        self._make = make
        self._like = like
        self._names = {**NAMES, **more}
        self._graph: Any = None
        self._pool: dict[Type, list[Value]] = {}
        self._known: dict[Any, bool] = {}
        self._lists: set[str] = set()
        self.why = ""
        """The message of the newest exception."""

    def makes(
        self,
        node: Node,
        operands: Mapping[str, IrValue],
        wanted: Sequence[Op],
        *,
        alone: bool = False,
    ) -> bool:
        """Whether ``node``, in which ``operands`` stand for values, makes exactly the operations
        ``wanted``, of which the last one has the results.

        Args:
            node: An expression.
            operands: What its names stand for.
            wanted: Operations that read ``operands`` and each other.
            alone: Whether it is tried in a graph that knows no dims but those of the operands.
        """
        text = node.flat()
        names = {value: name for name, value in operands.items()}
        key = (
            text,
            tuple((name, value.type) for name, value in operands.items()),
            tuple(_told(op, names) for op in wanted),
            alone,
        )
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._tried(text, operands, wanted, alone)
        return found

    def least(
        self,
        node: Node,
        operands: Mapping[str, IrValue],
        wanted: Sequence[Op],
        *,
        alone: bool = False,
    ) -> Node:
        """``node``, which makes ``wanted``, without the arguments that say what is so anyway."""
        again = True
        while again:
            again = False
            for shorter in smaller(node):
                if self.makes(shorter, operands, wanted, alone=alone):
                    node, again = shorter, True
                    break
        return node

    def gives_list(self, node: Node, operands: Mapping[str, IrValue]) -> bool:
        """Whether ``node``, which was found right, gives its results as a list."""
        return node.flat() in self._lists

    def draws(self, node: Node, wanted: Op) -> bool:
        """Whether ``node`` draws as ``wanted`` does, with whatever seed."""
        graph = self._fresh(self._like)
        try:
            with graph:
                ops.random.set_seed(0)
                eval(node.flat(), {**self._names, "__builtins__": _BUILTINS})
        except Exception:  # not a way to write it
            return False
        made = graph.function.ops
        return len(made) == 1 and _drawn(made[0]) == _drawn(wanted)

    def _tried(
        self, text: str, operands: Mapping[str, IrValue], wanted: Sequence[Op], alone: bool
    ) -> bool:
        graph = self._fresh(()) if alone else self._usual()
        pool: dict[Type, list[Value]] = {} if alone else self._pool
        given: dict[str, Value] = {}
        stands: dict[IrValue, IrValue] = {}  # by what is given, what it is in the function
        used: dict[Type, int] = {}
        known: dict[IrValue, Value] = {}
        for name, value in operands.items():
            if value not in known:
                count = used[value.type] = used.get(value.type, 0) + 1
                of_type = pool.setdefault(value.type, [])
                if len(of_type) < count:
                    of_type.append(wrap(graph.function.add_input(value.type)))
                known[value] = of_type[count - 1]
                stands[known[value]._ir()] = value
            given[name] = known[value]
        before = len(graph.function.ops)
        try:
            with graph:
                made = eval(text, {**self._names, "__builtins__": _BUILTINS}, given)
        except Exception as error:  # not a way to write it
            self.why = str(error)
            return False
        results = made if isinstance(made, (list, tuple)) else [made]
        if isinstance(made, (list, tuple)):
            self._lists.add(text)
        added = [op for op in graph.function.ops[before:] if not _begins_chain(op)]
        last = wanted[-1]
        own = [r for r in last.results if not isinstance(r.type, ChainType)]
        if made is None:
            results = []
        if len(results) != len(own) or len(added) != len(wanted):
            return False
        twins: dict[Op, Op] = {}
        if not own:
            return bool(added) and _same(added[-1], last, stands, twins)
        for result, value in zip(results, own, strict=True):
            if not isinstance(result, Value):
                return False
            twin = result._ir()
            if twin.op is None or twin.index != value.index:
                return False
            if not _same(twin.op, last, stands, twins):
                return False
        return len(twins) == len(wanted)

    def _usual(self) -> Any:
        if self._graph is None:
            self._graph = self._fresh(self._like)
        return self._graph

    def _fresh(self, like: Sequence[IrValue]) -> Any:
        graph = self._make()
        for value in like:
            graph.function.add_input(value.type)
        return graph


_BUILTINS = {"float": float, "bytes": bytes, "slice": slice}


def _begins_chain(op: Op) -> bool:
    """Whether ``op`` is the beginning of an order of effects, which nobody writes."""
    return len(op.results) == 1 and isinstance(op.results[0].type, ChainType) and not op.operands


def _drawn(op: Op) -> list[tuple[str, str]]:
    """The attributes of ``op`` without those of its seed."""
    return [each for each in told_attrs(op) if each[0] not in ("seed", "stream")]


def _told(op: Op, names: Mapping[IrValue, str]) -> Any:
    operands = tuple(
        names.get(v) or (v.op.id if v.op is not None else v.id)
        for v in op.operands
        if not isinstance(v.type, ChainType)
    )
    return op.name, operands, tuple(told_attrs(op)), tuple(map(str, (r.type for r in op.results)))


def _same(made: Op, wanted: Op, stands: Mapping[IrValue, IrValue], twins: dict[Op, Op]) -> bool:
    """Whether ``made`` is ``wanted``, and reads the same."""
    known = twins.get(made)
    if known is not None:
        return known is wanted
    twins[made] = wanted
    if made.name != wanted.name or len(made.results) != len(wanted.results):
        return False
    if [str(r.type) for r in made.results] != [str(r.type) for r in wanted.results]:
        return False
    if told_attrs(made) != told_attrs(wanted):
        return False
    left = [v for v in made.operands if not isinstance(v.type, ChainType)]
    right = [v for v in wanted.operands if not isinstance(v.type, ChainType)]
    if len(left) != len(right):
        return False
    for mine, its in zip(left, right, strict=True):
        if mine in stands:
            if stands[mine] is not its:
                return False
        elif (
            mine.op is None
            or its.op is None
            or mine.index != its.index
            or not _same(mine.op, its.op, stands, twins)
        ):
            return False
    return True


__all__ = ["NAMES", "Probe"]
