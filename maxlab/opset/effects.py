"""Ops with effects: memory that is changed in place, and what is printed while a model runs.

Such an op takes a *chain* and makes the next one: values without data that put the effects of a
device in the order in which they were written. Rows say in ``effect`` what an op does; passes
neither drop, merge nor fold an op that has one, and never move one over another. A load is a copy:
what reads it may run at any later time, whatever is stored in the meantime.

The operands of ``infer`` and ``reference`` are those with data; a reference changes the array of
the buffer in place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentTypeError,
    DTypeError,
    ShapeError,
)
from maxlab.ir import (
    BufferType,
    ChainType,
    DeviceRef,
    Dim,
    HostCall,
    Op,
    Poly,
    TensorType,
    Type,
)
from maxlab.opset.attributes import TEXT, TYPE, Attribute
from maxlab.opset.core import Array, Attrs, Call, Cost, OpDef, define, elements
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.rules import same_device
from maxlab.opset.silence import is_silent

CHAIN = "mo.chain"


def _nothing(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> Cost:
    return Cost(Poly.constant(0))


def devices_of(row: OpDef, types: Sequence[Any], attrs: Attrs) -> list[DeviceRef]:
    """The devices on which an op of the kind ``row`` has an effect: none if it has no effect."""
    if not row.effect or row.name == CHAIN:
        return []
    if "device" in attrs:
        return [attrs["device"]]
    if row.effect == "make":
        return [attrs["type"].device]
    if row.effect == "print":
        return [DeviceRef.CPU()]
    if row.effect == "sync":
        return list(dict.fromkeys(type.device for type in types))
    return [types[0].device]


# ---------------------------------------------------------------- chains
define(
    "chain",
    "chain",
    "effect",
    "The chain before all effects of a device; without a device, the one that is always ready.",
    attrs={"device": Attribute("device", optional=True)},
    role="chain",
    infer=lambda types, attrs: [ChainType()],
    reference=lambda call: [],
    effect="chain",
    cost=_nothing,
)


# ---------------------------------------------------------------- rules
def require_buffer(what: str, type: Type) -> BufferType:
    """``type``, when it is a buffer.

    Raises:
        ArgumentTypeError: ML776.
    """
    if not isinstance(type, BufferType):
        raise ArgumentTypeError(
            "ML776",
            f"{what} must be a buffer, got {type}",
            fix="make one with ops.buffer_create(type), or give the graph an input of BufferType",
        )
    return type


def require_source(what: str, buffer: BufferType, source: Any) -> None:
    same_device(what, [buffer.as_tensor(), source])
    if source.dtype is not buffer.dtype:
        raise DTypeError(
            "ML110",
            f"{what}: the buffer holds {buffer.dtype.name}, the source is {source.dtype.name}",
            fix=f"cast it: ops.cast(x, DType.{buffer.dtype.name})",
        )


def require_shape(what: str, place: str, wanted: Sequence[Dim], got: Sequence[Dim]) -> None:
    if list(wanted) != list(got):
        left, right = (f"[{', '.join(map(str, s))}]" for s in (wanted, got))
        raise ShapeError(
            "ML777",
            f"{what}: {place} has the shape {left}, the source has {right}",
            fix="stores do not broadcast: use ops.broadcast_to, reshape, or rebind sizes that are "
            "always equal",
        )


# ---------------------------------------------------------------- create
def _create_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    return [require_buffer("buffer_create: the type", attrs["type"])]


def _create_kernel(at: Site) -> None:
    y = at.results[0]
    at.part(f"{y.name}[i] = 0;", elements(y.type))


define(
    "buffer.create",
    "kernel",
    "effect",
    "A new buffer, which holds zeros at the beginning of each run.",
    attrs={"type": TYPE},
    infer=_create_infer,
    reference=lambda call: np.zeros(call.shapes[0], call.dtypes[0].ml_numpy),
    kernel=_create_kernel,
    effect="make",
    cost=_nothing,
)


# ---------------------------------------------------------------- load and store
def _load_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    (x,) = types
    return [require_buffer("buffer_load: the operand", x).as_tensor()]


def _copy(at: Site, to: Buffer, source: Buffer) -> None:
    at.part(f"{to.name}[i] = {source.name}[i];", elements(source.type))


define(
    "buffer.load",
    "kernel",
    "effect",
    "A copy of what a buffer holds.",
    infer=_load_infer,
    reference=lambda call, x: x.copy(),
    kernel=lambda at: _copy(at, at.results[0], at.operands[0]),
    effect="read",
    cost=_nothing,
)


def _store_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    to, source = types
    what = "buffer_store"
    buffer = require_buffer(f"{what}: the destination", to)
    require_source(what, buffer, source)
    require_shape(what, "the buffer", buffer.shape, source.shape)
    return []


def _store_reference(call: Call, to: Array, source: Array) -> list[Array]:
    to[...] = source
    return []


define(
    "buffer.store",
    "kernel",
    "effect",
    "Copies a tensor into a buffer.",
    infer=_store_infer,
    reference=_store_reference,
    kernel=lambda at: _copy(at, at.operands[0], at.operands[1]),
    effect="write",
    cost=_nothing,
)


# ---------------------------------------------------------------- print
def _print_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    same = [TensorType(DType.bool, []), *types]
    same_device("print", same)
    return []


def shown(label: str, array: Array, dtype: DType) -> str:
    """The line, or lines, that ``print`` writes for a tensor."""
    text = np.array2string(array, separator=", ", prefix=f"{label} = tensor(")
    return f"{label} = tensor({text}, dtype={dtype.name}, shape={list(array.shape)})"


def _print_text(attrs: Attrs, arrays: Sequence[Array], dtypes: Sequence[DType]) -> str:
    if not arrays:
        return str(attrs["text"])
    return shown(attrs["label"], arrays[0], dtypes[0])


def _print_call(op: Op) -> HostCall:
    """A call that prints when a kernel runs: on the model's thread, to ``sys.stdout``."""
    dtypes = [v.tensor_type.dtype for v in op.operands if not isinstance(v.type, ChainType)]
    attrs = dict(op.attrs)

    def run(addresses: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> None:
        arrays = [
            _array_at(address, dtype, shape)
            for address, dtype, shape in zip(addresses, dtypes, shapes, strict=True)
        ]
        if is_silent():
            return
        sys.stdout.write(_print_text(attrs, arrays, dtypes) + "\n")

    shown_as = attrs["label"] if dtypes else attrs["text"]
    return HostCall("print", "print", f"print({shown_as!r})", run)


def watch_call(label: str, dtype: DType, fn: Callable[[Array], object]) -> HostCall:
    """A call that gives ``fn`` a copy of a tensor of ``dtype`` when a model runs."""

    def run(addresses: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> None:
        if not is_silent():
            fn(_array_at(addresses[0], dtype, shapes[0]).copy())

    return HostCall("watch", "watch", f"watch({label!r})", run)


def _array_at(address: int, dtype: DType, shape: tuple[int, ...]) -> Array:
    import ctypes

    count = int(np.prod(shape, dtype=np.int64))
    kind = np.dtype(dtype.ml_numpy)
    if not count:
        return np.zeros(shape, kind)
    memory: Any = (ctypes.c_ubyte * (count * kind.itemsize)).from_address(address)
    made: Array = np.frombuffer(memory, kind)
    return made.reshape(shape)


define(
    "print",
    "host",
    "effect",
    "Prints a tensor, or a text, while the model runs.",
    attrs={"label": TEXT, "text": TEXT},
    infer=_print_infer,
    reference=lambda call, *arrays: [],
    host=_print_call,
    effect="print",
    cost=_nothing,
)

define(
    "watch",
    "host",
    "effect",
    "Gives a tensor to a function of Python while the model runs.",
    attrs={"call": Attribute("function")},
    infer=_print_infer,
    reference=lambda call, *arrays: [],
    host=lambda op: op.attrs["call"],
    effect="print",
    cost=_nothing,
)
