"""Collectives: ops on one tensor of each of several devices, which give one to each of them.

An op takes the tensors, then a signal buffer of each device, then the chain of each device, and
makes the results and the next chains: it has its place among the effects of all devices that take
part. The compiler writes it out in transfers and in kernels of each device, which add or join what
has arrived, in the order of the operands, so that all devices come to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.ir import BufferType, Op, Poly, TensorType, Type, Value
from maxlab.opset.attributes import INT
from maxlab.opset.builder import Ops, one
from maxlab.opset.core import Array, Attrs, Call, Cost, define, elements
from maxlab.opset.rules import axis_of, same_dtype


def _split(what: str, types: Sequence[Any]) -> list[TensorType]:
    """The types of the tensors among ``types``, when each is on a device of its own, where a signal
    buffer is.

    Raises:
        ArgumentError: ML435.
    """
    tensors = [t for t in types if isinstance(t, TensorType)]
    buffers = [t for t in types if isinstance(t, BufferType)]
    devices = [t.device for t in tensors]
    if len(tensors) != len(buffers):
        raise ArgumentError(
            "ML435",
            f"{what}: there are {len(tensors)} inputs and {len(buffers)} signal buffers",
            fix="pass one signal buffer for each input, on its device",
        )
    if len(set(devices)) < len(devices):
        raise ArgumentError(
            "ML435",
            f"{what}: the inputs must be on different devices, got {_listed(devices)}",
            fix="pass one tensor of each device; join those of one device before",
        )
    if [b.device for b in buffers] != devices:
        raise ArgumentError(
            "ML435",
            f"{what}: the inputs are on {_listed(devices)}, the signal buffers on "
            f"{_listed([b.device for b in buffers])}",
            fix="pass the signal buffers in the order of the inputs",
        )
    return tensors


def _listed(devices: Sequence[Any]) -> str:
    return ", ".join(map(str, devices))


def _shapes_differ(what: str, number: int, type: TensorType, first: TensorType, but: str) -> None:
    left, right = (f"[{', '.join(map(str, t.shape))}]" for t in (type, first))
    raise ShapeError(
        "ML436",
        f"{what}: input {number} has the shape {left}, input 0 has {right}{but}",
        fix="if the sizes are always equal, say so with ops.rebind",
    )


def _on_each(op: Op, b: Ops[Value], combine: Callable[[Sequence[Value]], Value]) -> list[Value]:
    """For each result of ``op``, what ``combine`` makes of all inputs on the device of it."""
    made: list[Value] = []
    inputs = [v for v in op.operands if isinstance(v.type, TensorType)]
    for result in op.results:
        if not isinstance(result.type, TensorType):
            continue
        place = result.type.device
        here = [
            v if v.tensor_type.device == place else one(b, "transfer", [v], device=place)
            for v in inputs
        ]
        made.append(combine(here) if len(here) > 1 else here[0])
    return made


# ---------------------------------------------------------------- allgather
def _gather_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    tensors = _split("allgather", types)
    same_dtype("allgather", tensors)
    first = tensors[0]
    axis = axis_of(attrs["axis"], first.rank, "allgather")
    total = first.shape[axis]
    for number, type in enumerate(tensors[1:], 1):
        same = type.rank == first.rank and all(
            n == axis or a == b
            for n, (a, b) in enumerate(zip(type.shape, first.shape, strict=True))
        )
        if not same:
            but = f": only axis {axis} may differ"
            _shapes_differ("allgather", number, type, first, but)
        total = total + type.shape[axis]
    shape = [*first.shape[:axis], total, *first.shape[axis + 1 :]]
    return [TensorType(first.dtype, shape, t.device) for t in tensors]


def _gather_reference(call: Call, *arrays: Array) -> list[Array]:
    inputs = arrays[: len(call.shapes)]
    return [np.concatenate(inputs, axis=call.attrs["axis"]) for _ in inputs]


def _gather_decompose(b: Ops[Value], op: Op) -> list[Value]:
    return _on_each(op, b, lambda here: one(b, "concat", here, axis=op.attrs["axis"]))


define(
    "allgather",
    "composite",
    "device",
    "The operands of all devices laid side by side along one axis, on each of them.",
    attrs={"axis": INT},
    infer=_gather_infer,
    reference=_gather_reference,
    decompose=_gather_decompose,
    effect="sync",
    cost=lambda operands, results, attrs: Cost(Poly.constant(0)),
)


# ---------------------------------------------------------------- allreduce
def _sum_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what = "allreduce.sum"
    tensors = _split(what, types)
    if same_dtype(what, tensors) is DType.bool:
        raise DTypeError(
            "ML106", f"{what} needs numbers, got bool", fix="cast them: ops.cast(x, DType.int32)"
        )
    first = tensors[0]
    for number, type in enumerate(tensors[1:], 1):
        if list(type.shape) != list(first.shape):
            _shapes_differ(what, number, type, first, "")
    return [TensorType(first.dtype, first.shape, t.device) for t in tensors]


def _sum_reference(call: Call, *arrays: Array) -> list[Array]:
    inputs = arrays[: len(call.shapes)]
    wide = np.float32 if _is_narrow(call.dtypes[0]) else inputs[0].dtype
    total = inputs[0].astype(wide)
    for x in inputs[1:]:
        total = total + x.astype(wide)
    return [total.astype(inputs[0].dtype) for _ in inputs]


def _is_narrow(dtype: DType) -> bool:
    """Whether sums are made in float32, and rounded once."""
    return dtype.is_float() and dtype.size_in_bytes < 4


def _sum_decompose(b: Ops[Value], op: Op) -> list[Value]:
    dtype = op.operands[0].tensor_type.dtype

    def add(here: Sequence[Value]) -> Value:
        if _is_narrow(dtype):
            here = [one(b, "cast", [v], dtype=DType.float32) for v in here]
        total = here[0]
        for value in here[1:]:
            total = one(b, "add", [total, value])
        return one(b, "cast", [total], dtype=dtype) if _is_narrow(dtype) else total

    return _on_each(op, b, add)


def _sum_cost(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> Cost:
    count = sum(isinstance(t, TensorType) for t in operands)
    return Cost(elements(operands[0]) * Poly.constant(count * (count - 1)))


define(
    "allreduce.sum",
    "composite",
    "device",
    "The sum of the operands of all devices, on each of them.",
    family="reduce",
    infer=_sum_infer,
    reference=_sum_reference,
    decompose=_sum_decompose,
    effect="sync",
    cost=_sum_cost,
)
