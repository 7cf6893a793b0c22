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
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ExecutionError,
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
from maxlab.ir.poly import ONE, ZERO
from maxlab.opset.attributes import DIMS, INTS, PAIRS, TEXT, TYPE, Attribute
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, OpDef, define, elements
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.rules import same_device

CHAIN = "mo.chain"
_STATE = threading.local()
MISMATCH = -1
"""In a fault of a computed slice, ``MISMATCH - size`` stands for the size that it must have."""


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


# ---------------------------------------------------------------- store of a slice
def _slice_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    """``starts``, ``stops``, ``steps`` and ``shape`` have one entry for each dim of the buffer.
    ``computed`` says of each further operand which axis it is for, and what it is there: the
    ``"index"`` of one element, or the ``"start"`` or ``"stop"`` of a slice.
    """
    to, source, *bounds = types
    what = "buffer_store_slice"
    buffer = require_buffer(f"{what}: the destination", to)
    require_source(what, buffer, source)
    if len(attrs["shape"]) != buffer.rank or len(bounds) != len(attrs["computed"]):
        raise ArgumentError("ML344", f"{what}: the slice does not fit the buffer's rank")
    count, wanted = elements(source), ONE
    for size in attrs["shape"]:
        wanted = wanted * Dim(size).poly
    if count != wanted:
        require_shape(what, "the slice", [Dim(d) for d in attrs["shape"]], source.shape)
    for bound in bounds:
        same_device(what, [buffer.as_tensor(), bound])
        if bound.dtype is not DType.int64 or bound.rank:
            raise DTypeError("ML109", f"{what}: a bound must be one int64, got {bound}")
    return []


def _slice_checks(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    """The first and the last index of each dim stand inside of the buffer, unless nothing is
    stored."""
    computed = {axis for axis, _ in attrs["computed"]}
    found: list[Check] = []
    for axis, (size, start, step, length) in enumerate(
        zip(operands[0].shape, attrs["starts"], attrs["steps"], attrs["shape"], strict=True)
    ):
        if axis in computed:
            continue
        low = Dim(start).poly
        high = low + (Dim(length).poly - ONE) * Poly.constant(step)
        if step < 0:
            low, high = high, low
        text = f"buffer_store_slice: axis {axis} of size {size} is written out of its bounds"
        for left, relation, right in ((ZERO, "<=", low), (high, "<", size.poly)):
            gap = right - left
            if gap.is_constant and gap.value >= (1 if relation == "<" else 0):
                continue
            found.append(Check(left, relation, right, text))  # type: ignore[arg-type]
    return found


def _slice_reference(call: Call, to: Array, source: Array, *bounds: Array) -> list[Array]:
    attrs = call.attrs
    given = {place: int(b) for place, b in zip(attrs["computed"], bounds, strict=True)}
    grids = []
    for axis, (start, stop, step, length) in enumerate(
        zip(attrs["starts"], attrs["stops"], attrs["steps"], attrs["shape"], strict=True)
    ):
        size, count = to.shape[axis], call.size(Dim(length))
        first, last = call.size(Dim(start)), call.size(Dim(stop))
        if (axis, "index") in given:
            first = _inside(given[axis, "index"], -size, size - 1, size)
        elif (axis, "start") in given or (axis, "stop") in given:
            low, high = (-size - 1, size - 1) if step < 0 else (-size, size)
            if (axis, "start") in given:
                first = _inside(given[axis, "start"], low, high, size)
            if (axis, "stop") in given:
                last = _inside(given[axis, "stop"], low, high, size)
            if max(-(-(last - first) // step), 0) != count:
                raise ArgumentError("ML779", f"axis {axis} has another size than the source")
        grids.append(first + step * np.arange(count))
    if grids:
        to[np.ix_(*grids)] = source.reshape([len(g) for g in grids])
    else:
        to[...] = source.reshape(())
    return []


def _inside(bound: int, low: int, high: int, size: int) -> int:
    if not low <= bound <= high:
        raise ArgumentError("ML652", f"the bound {bound} is out of range for a size of {size}")
    return bound + size if bound < 0 else bound


def _slice_kernel(at: Site) -> None:
    to, source = at.operands[:2]
    attrs, sizes = at.attrs, at.operands[0].type.sizes
    before, starts = _first_places(at)
    counts = [Dim(d).poly for d in attrs["shape"]]
    # The innermost dims that lie together in the buffer are one run.
    run, width, offset = ONE, ONE, "0"
    rest = len(sizes)
    while rest:
        axis = rest - 1
        if attrs["steps"][axis] != 1:
            break
        run, offset = counts[axis] * width, f"({starts[axis]}) * {at.size(width)}"
        rest, width = axis, width * sizes[axis]
        if starts[axis] != "0" or counts[axis] != sizes[axis]:
            break
    outer = ONE
    for count in counts[:rest]:
        outer = outer * count
    if outer == ONE:  # one run
        place, span = offset, width
        for axis in reversed(range(rest)):
            place += f" + ({starts[axis]}) * {at.size(span)}"
            span = span * sizes[axis]
        before += f"\nconst i64 to = {place};"
        at.part(f"{to.name}[to + i] = {source.name}[i];", run, before=before)
        return
    whole = at.target == "cuda"
    lines = [f"i64 o = i / {at.size(run)};" if whole else "i64 o = i;", f"i64 to = {offset};"]
    lines.append(f"i64 unit = {at.size(width)};")
    for axis in reversed(range(rest)):
        many = at.size(counts[axis])
        lines.append(f"to += (({starts[axis]}) + o % {many} * {attrs['steps'][axis]}) * unit;")
        lines.append(f"o /= {many}; unit *= {at.size(sizes[axis])};")
    if whole:
        lines.append(f"{to.name}[to + i % {at.size(run)}] = {source.name}[i];")
        at.part("\n".join(lines), outer * run, before=before)
        return
    lines.append(f"const i64 from = i * {at.size(run)};")
    lines.append(f"for (i64 j = 0; j < {at.size(run)}; j++)")
    lines.append(f"  {to.name}[to + j] = {source.name}[from + j];")
    at.part("\n".join(lines), outer, before=before, work=run)


def _first_places(at: Site) -> tuple[str, list[str]]:
    """Statements that find and test what is computed, and where each axis begins as text."""
    attrs, lines = at.attrs, []
    sizes = at.operands[0].type.sizes
    starts = [at.size(Dim(start).poly) if Dim(start) != 0 else "0" for start in attrs["starts"]]
    places = {place: n for n, place in enumerate(attrs["computed"])}
    on_gpu = at.target == "cuda"
    for axis in dict.fromkeys(axis for axis, _ in attrs["computed"]):
        size, step = at.size(sizes[axis]), int(attrs["steps"][axis])
        count = at.size(Dim(attrs["shape"][axis]).poly)
        if (axis, "index") in places:
            index = at.operands[2 + places[axis, "index"]].load("0")
            lines.append(at.wrap(f"first{axis}", index, size))
        else:
            low, high = (f"(-{size} - 1)", f"({size} - 1)") if step < 0 else (f"-{size}", size)
            for word, known in (("start", "starts"), ("stop", "stops")):
                name = {"start": "first", "stop": "last"}[word] + str(axis)
                if (axis, word) not in places:
                    lines.append(f"const i64 {name} = {at.size(Dim(attrs[known][axis]).poly)};")
                    continue
                bound = at.operands[2 + places[axis, word]].load("0")
                lines.append(f"i64 {name} = {bound};")
                stop = at.fault(name, size)
                again = f"{{ {stop} return; }}" if on_gpu else stop
                lines.append(f"if ({name} < {low} || {name} > {high}) {again}")
                lines.append(f"if ({name} < 0) {name} += {size};")
            way = f"last{axis} - first{axis}" if step > 0 else f"first{axis} - last{axis}"
            lines.append(f"const i64 way{axis} = {way};")
            lines.append(
                f"const i64 found{axis} = "
                f"way{axis} > 0 ? (way{axis} + {abs(step) - 1}) / {abs(step)} : 0;"
            )
            stop = at.fault(f"found{axis}", f"({MISMATCH} - {count})")
            again = f"{{ {stop} return; }}" if on_gpu else stop
            lines.append(f"if (found{axis} != {count}) {again}")
        starts[axis] = f"first{axis}"
    return "\n".join(lines), starts


def _slice_fault(op: Op, value: int, limit: int) -> ExecutionError:
    if limit < 0:
        return ExecutionError(
            "ML779",
            f"buffer_store_slice: the slice has {value} elements along an axis where the "
            f"source has {MISMATCH - limit}",
            at=op.loc,
            fix="let the bounds of the slice fit the source",
        )
    return ExecutionError(
        "ML652",
        f"buffer_store_slice: the index {value} is out of range for a dim of size {limit}",
        at=op.loc,
        fix=f"indices go from {-limit} to {limit - 1}, bounds to {limit}; they are not clamped",
    )


define(
    "buffer.store_slice",
    "kernel",
    "effect",
    "Copies a tensor into the elements at start + i * step of each dim of a buffer.",
    attrs={"starts": DIMS, "stops": DIMS, "steps": INTS, "shape": DIMS, "computed": PAIRS},
    infer=_slice_infer,
    reference=_slice_reference,
    kernel=_slice_kernel,
    fault=_slice_fault,
    checks=_slice_checks,
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


@contextmanager
def silent() -> Iterator[None]:
    """Let nothing that this thread runs be printed: a run that is only made to know its sizes."""
    before = getattr(_STATE, "silent", False)
    _STATE.silent = True
    try:
        yield
    finally:
        _STATE.silent = before


def _print_call(op: Op) -> HostCall:
    """What prints when a kernel runs: on the thread that runs the model, to ``sys.stdout``."""
    dtypes = [v.tensor_type.dtype for v in op.operands if not isinstance(v.type, ChainType)]
    attrs = dict(op.attrs)

    def run(addresses: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> None:
        arrays = [
            _array_at(address, dtype, shape)
            for address, dtype, shape in zip(addresses, dtypes, shapes, strict=True)
        ]
        if getattr(_STATE, "silent", False):
            return
        sys.stdout.write(_print_text(attrs, arrays, dtypes) + "\n")

    shown_as = attrs["label"] if dtypes else attrs["text"]
    return HostCall("print", "print", f"print({shown_as!r})", run)


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
