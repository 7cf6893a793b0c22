"""Graphs whose products multiply bytes, and graphs that measure what this costs in accuracy.

The graphs that these are made of stay as they are; what is made keeps the ids of what it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from maxlab.analysis.quantizing.products import Array, Product, rows_of
from maxlab.analysis.quantizing.rounding import Range, product, rounded_rows
from maxlab.analysis.rewrites import graph_of
from maxlab.compiler.passes.dce import eliminate_dead_code
from maxlab.dtype import DType
from maxlab.graph import Graph
from maxlab.ir import (
    Constant,
    DeviceRef,
    Function,
    Op,
    Rewriting,
    TensorType,
    Type,
    Value,
)
from maxlab.opset import is_weight, lookup, named
from maxlab.opset.builder import one
from maxlab.opset.inference import inferred
from maxlab.opset.int8 import ACTIVATIONS

Registry = dict[str, Any]


class Writing:
    """The part of a builder that puts ops before ``place``, in the scope and at the line of
    ``source``.

    With ``keeps_id``, the op with a kernel of its own gets the ids of ``source``, whose place it
    takes.
    """

    def __init__(
        self, rewriting: Rewriting, place: Op, source: Op, *, keeps_id: bool = False
    ) -> None:
        self._rewriting = rewriting
        self._place = place
        self._source = source
        self.keeps_id = keeps_id

    def op(self, name: str, operands: Sequence[Value], /, **attrs: Any) -> tuple[Value, ...]:
        """The results of a new op ``mo.<name>``."""
        row, source = lookup(f"mo.{name}"), self._source
        types = inferred(row, [v.tensor_type for v in operands], attrs)
        told: dict[str, Any] = {"loc": source.loc, "scope": source.scope}
        if self.keeps_id and row.kind == "kernel":
            ids = [source.result.id]
            made = Op(source.id, row.name, operands, types, attrs, result_ids=ids, **told)
        else:
            made = self._rewriting.function.create(row.name, operands, types, attrs, **told)
        self._rewriting.insert(made, self._place)
        return tuple(made.results)

    def literal(self, x: Any, dtype: DType, device: DeviceRef) -> Value:
        """A constant."""
        data = Constant(np.asarray(x).astype(dtype.ml_numpy))
        return one(self, "constant", [], value=data, device=device)

    def type_of(self, value: Value) -> Type:
        """The type of ``value``."""
        return value.type


class Bytes(NamedTuple):
    """The weight of a product in bytes.

    Attributes:
        rows: Signed bytes [columns, depth].
        scales: The scale of each row.
    """

    rows: Array
    scales: Array


class Made(NamedTuple):
    """A graph that was made of another one.

    Attributes:
        graph: The graph.
        registry: Its weights by name.
    """

    graph: Graph
    registry: Registry


class Source(NamedTuple):
    """A graph with its weights and products.

    Attributes:
        function: The graph.
        weights: Tensors by the names of weights.
        products: The products that may become products of bytes.
        bytes_of: Their weights in bytes, by name.
        factors: By the ids of activations that are smoothed, a factor for each number of a row, by
            which it is divided, and the weights that it meets are multiplied.
    """

    function: Function
    weights: Mapping[str, Any]
    products: Sequence[Product]
    bytes_of: Mapping[str, Bytes]
    factors: Mapping[str, Array]


class Ending(NamedTuple):
    """The ops behind a product that the product of bytes does at once.

    Attributes:
        last: The last of them; the product itself where there are none.
        bias: A vector that is added; None where there is none.
        activation: The name of what is done to the sum then.
    """

    last: Op
    bias: Value | None = None
    activation: str = "none"


def ending_of(op: Op) -> Ending:
    """The ending of the product ``op``."""
    columns = op.result.tensor_type.shape[-1]
    added = _only_reader(op)
    if added is None or _called(added) != "add" or op.result.tensor_type.dtype is not DType.float32:
        return Ending(op)
    bias = next((v for v in added.operands if v is not op.result), op.result)
    typed = bias.tensor_type
    if typed.rank != 1 or typed.shape[0] != columns or added.result.type != op.result.type:
        return Ending(op)
    then = _only_reader(added)
    if then is None or _called(then) not in ACTIVATIONS:
        return Ending(added, bias)
    return Ending(then, bias, _called(then))


def _only_reader(op: Op) -> Op | None:
    """The op that reads the result of ``op`` and is alone in that, beside it; None otherwise."""
    readers = list(op.result.uses.items())
    if len(readers) != 1 or readers[0][1] != 1 or readers[0][0].block is not op.block:
        return None
    return readers[0][0]


def _called(op: Op) -> str:
    """The name of the function of one element that ``op`` is; of others, the name of its row."""
    row = lookup(op.name)
    found = row.scalar(op.attrs) if callable(row.scalar) else row.scalar
    return found or op.name.removeprefix("mo.")


def source_of(
    function: Function,
    weights: Mapping[str, Any],
    found: Sequence[Product],
    factors: Mapping[str, Array],
) -> Source:
    """The source for ``function``, the weights of all ``found`` products rounded to bytes after
    they were multiplied with ``factors``."""
    made: dict[str, Bytes] = {}
    for p in found:
        rows, factor = weight_rows(function, weights, p), factors.get(p.activation)
        made[p.name] = Bytes(*rounded_rows(rows if factor is None else rows * factor))
    return Source(function, weights, found, made, factors)


def weight_rows(function: Function, weights: Mapping[str, Any], which: Product) -> Array:
    """The weight of a product, float32 [columns, depth]."""
    op = function.find(which.node)
    assert op is not None
    return rows_of(weights, op.operands[1])


def quantised(source: Source, kept: Collection[str], ranges: Mapping[str, Range] | None) -> Made:
    """The graph in which all products but those called as in ``kept`` multiply bytes.

    Args:
        source: The graph.
        kept: Names of products that stay.
        ranges: The scale and zero point of each product's activation, by name; None for those of
            each row as it comes.
    """
    function = source.function.clone()
    registry: Registry = dict(source.weights)
    ops = {op.id: op for op in function.ops}
    smooth: dict[str, Value] = {}
    with Rewriting(function) as rewriting:
        for which in source.products:
            if which.name in kept:
                continue
            op = ops[which.node]
            x = _activation(Writing(rewriting, op, op), source, which, op, registry, smooth)
            end = ending_of(op)
            b = Writing(rewriting, end.last, op, keeps_id=True)
            given = None if ranges is None else ranges[which.name]
            made = _bytes_product(b, source, which, op, x, given, registry, end)
            rewriting.replace(end.last, [made])
    return _finished(function, registry)


def extremes(source: Source) -> Made:
    """The graph whose outputs are, for each product in turn, the least and the largest number of
    its activation, smoothed if it is to be, and the largest size of each place in its rows."""
    registry: Registry = dict(source.weights)
    smooth: dict[str, Value] = {}

    def measured(b: Writing, which: Product, op: Op) -> list[Value]:
        x = _activation(b, source, which, op, registry, smooth)
        sizes = one(b, "abs", [x])
        for axis in range(sizes.tensor_type.rank - 1):
            sizes = one(b, "reduce.max", [sizes], axis=axis)
        return [_over_all(b, x, "reduce.min"), _over_all(b, x, "reduce.max"), sizes]

    return _measuring(source, registry, measured)


def errors(source: Source, ranges: Mapping[str, Range] | None) -> Made:
    """The graph whose outputs are, for each product in turn, sums over all elements of its result
    ``y`` and of the result ``q`` of the product of bytes on the same activation: of ``(y - q)²``,
    ``y²``, ``q²`` and ``y q``."""
    registry = dict(source.weights)
    smooth: dict[str, Value] = {}

    def measured(b: Writing, which: Product, op: Op) -> list[Value]:
        given = None if ranges is None else ranges[which.name]
        y = _wide(b, op.result)
        x = _activation(b, source, which, op, registry, smooth)
        q = _wide(b, _bytes_product(b, source, which, op, x, given, registry, Ending(op)))
        apart = one(b, "sub", [y, q])
        pairs = ((apart, apart), (y, y), (q, q), (y, q))
        return [_over_all(b, one(b, "mul", pair), "reduce.sum") for pair in pairs]

    return _measuring(source, registry, measured)


def _measuring(
    source: Source, registry: Registry, measured: Callable[[Writing, Product, Op], list[Value]]
) -> Made:
    """The graph of ``source`` with what ``measured`` makes of each product for its outputs."""
    function = source.function.clone()
    output = function.output
    assert output is not None
    ops = {op.id: op for op in function.ops}
    found: list[Value] = []
    with Rewriting(function) as rewriting:
        b = Writing(rewriting, output, output)
        for which in source.products:
            found += measured(b, which, ops[which.node])
    function.block.remove(output)
    function.block.append(function.ending(found))
    return _finished(function, registry)


def _bytes_product(
    b: Writing,
    source: Source,
    which: Product,
    op: Op,
    x: Value,
    given: Range | None,
    registry: Registry,
    end: Ending,
) -> Value:
    """The product ``op`` as one of ``x`` in bytes, in its dtype, with what ``end`` has of it."""
    rows, scales = source.bytes_of[which.name]
    weight = _weight(b, source, f"{which.name}.int8", rows, op, registry)
    factors = _weight(b, source, f"{which.name}.scales", scales, op, registry)
    made = product(b, x, weight, factors, given, end.bias, end.activation)
    dtype = op.result.tensor_type.dtype
    return made if dtype is DType.float32 else one(b, "cast", [made], dtype=dtype)


def _activation(
    b: Writing,
    source: Source,
    which: Product,
    op: Op,
    registry: Registry,
    smooth: dict[str, Value],
) -> Value:
    """The activation of the product ``op`` in float32, smoothed if it is to be; ``smooth`` has
    those that were made before, which products share."""
    x, factor = _wide(b, op.operands[0]), source.factors.get(which.activation)
    if factor is None:
        return x
    if which.activation not in smooth:
        inverse = (np.float32(1) / factor).astype(np.float32)
        vector = _weight(b, source, f"{which.name}.smoothing", inverse, op, registry)
        smooth[which.activation] = one(b, "mul", [x, vector])
    return smooth[which.activation]


def _weight(
    b: Writing, source: Source, name: str, array: Array, op: Op, registry: Registry
) -> Value:
    """The weight ``array``, called ``name``, or longer where the graph has one of that name."""
    while name in source.weights:
        name += "_"
    registry[name] = array
    dtype = DType.int8 if array.dtype == np.int8 else DType.float32
    typed = TensorType(dtype, array.shape, op.result.tensor_type.device)
    row = named("weight").removeprefix("mo.")
    return one(b, row, [], name=name, type=typed, placeholder=False)


def _wide(b: Writing, x: Value) -> Value:
    """``x`` in float32."""
    return x if x.tensor_type.dtype is DType.float32 else one(b, "cast", [x], dtype=DType.float32)


def _over_all(b: Writing, x: Value, reduction: str) -> Value:
    """The result of ``reduction`` over all axes of ``x``, each of which keeps the size 1."""
    for axis in reversed(range(x.tensor_type.rank)):
        x = one(b, reduction, [x], axis=axis)
    return x


def _finished(function: Function, registry: Registry) -> Made:
    """``function`` without what leads to no output, and the weights that it then has."""
    with Rewriting(function) as rewriting:
        eliminate_dead_code(rewriting)
    names = {op.attrs["name"] for op in function.walk() if is_weight(op)}
    return Made(graph_of(function), {n: t for n, t in registry.items() if n in names})


__all__ = ["Bytes", "Made", "Source", "errors", "extremes", "quantised", "source_of", "weight_rows"]
