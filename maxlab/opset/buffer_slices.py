"""Parts of buffers: ``buffer.load_slice`` and ``buffer.store_slice`` move what a slice names, and
nothing else of the buffer.

Both have one entry for each dim of the buffer in ``starts``, ``steps`` and ``shape``. ``computed``
says of each further operand which axis it is for and what it is there: the ``"index"`` of one
element, counted from either end; the ``"first"`` of the elements, tested before; or, of a store,
the ``"start"`` or ``"stop"`` of a slice whose size is that of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError
from maxlab.ir import Dim, Op, Poly, Shape, TensorType, Type
from maxlab.ir.poly import ONE, ZERO
from maxlab.opset.attributes import DIMS, INTS, PAIRS
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, define, elements
from maxlab.opset.effects import require_buffer, require_shape, require_source
from maxlab.opset.faults import MISMATCH, Fault
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.rules import same_device


def _store_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
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
    _require_bounds(what, buffer.as_tensor(), bounds)
    return []


def _load_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    x, *bounds = types
    what = "buffer_load_slice"
    buffer = require_buffer(f"{what}: the operand", x)
    if len(attrs["shape"]) != buffer.rank or len(bounds) != len(attrs["computed"]):
        raise ArgumentError("ML344", f"{what}: the slice does not fit the buffer's rank")
    _require_bounds(what, buffer.as_tensor(), bounds)
    return [TensorType(buffer.dtype, Shape(attrs["shape"]), buffer.device)]


def _require_bounds(what: str, buffer: TensorType, bounds: Sequence[Any]) -> None:
    for bound in bounds:
        same_device(what, [buffer, bound])
        if bound.dtype is not DType.int64 or bound.rank:
            raise DTypeError("ML109", f"{what}: a bound must be one int64, got {bound}")


def _name(attrs: Attrs) -> str:
    return "buffer_store_slice" if "stops" in attrs else "buffer_load_slice"


def _slice_checks(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    """The first and the last index of each dim stand inside of the buffer, unless nothing is
    moved."""
    what, verb = _name(attrs), "written" if "stops" in attrs else "read"
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
        text = f"{what}: axis {axis} of size {size} is {verb} out of its bounds"
        for left, relation, right in ((ZERO, "<=", low), (high, "<", size.poly)):
            gap = right - left
            if gap.is_constant and gap.value >= (1 if relation == "<" else 0):
                continue
            found.append(Check(left, relation, right, text))  # type: ignore[arg-type]
    return found


def _places(call: Call, buffer: Array, bounds: Sequence[Array]) -> list[Array]:
    """The indices along each axis of ``buffer``."""
    attrs = call.attrs
    given = {place: int(b) for place, b in zip(attrs["computed"], bounds, strict=True)}
    stops = attrs.get("stops", attrs["starts"])
    found: list[Array] = []
    for axis, (start, stop, step, length) in enumerate(
        zip(attrs["starts"], stops, attrs["steps"], attrs["shape"], strict=True)
    ):
        size, count = buffer.shape[axis], call.size(Dim(length))
        first, last = call.size(Dim(start)), call.size(Dim(stop))
        if (axis, "index") in given:
            first = _inside(given[axis, "index"], -size, size - 1, size)
        elif (axis, "first") in given:
            first = given[axis, "first"]
        elif (axis, "start") in given or (axis, "stop") in given:
            low, high = (-size - 1, size - 1) if step < 0 else (-size, size)
            if (axis, "start") in given:
                first = _inside(given[axis, "start"], low, high, size)
            if (axis, "stop") in given:
                last = _inside(given[axis, "stop"], low, high, size)
            if max(-(-(last - first) // step), 0) != count:
                raise ArgumentError("ML779", f"axis {axis} has another size than the source")
        found.append(first + step * np.arange(count))
    return found


def _store_reference(call: Call, to: Array, source: Array, *bounds: Array) -> list[Array]:
    if places := _places(call, to, bounds):
        to[np.ix_(*places)] = source.reshape([len(place) for place in places])
    else:
        to[...] = source.reshape(())
    return []


def _load_reference(call: Call, x: Array, *bounds: Array) -> Array:
    places = _places(call, x, bounds)
    found: Array = x[np.ix_(*places)] if places else x.copy()
    return found


def _inside(bound: int, low: int, high: int, size: int) -> int:
    if not low <= bound <= high:
        raise ArgumentError("ML652", f"the bound {bound} is out of range for a size of {size}")
    return bound + size if bound < 0 else bound


def _store_kernel(at: Site) -> None:
    to, source = at.operands[:2]
    _move(at, at.operands[2:], lambda place, item: f"{to.name}[{place}] = {source.name}[{item}];")


def _load_kernel(at: Site) -> None:
    source, to = at.operands[0], at.results[0]
    _move(at, at.operands[1:], lambda place, item: f"{to.name}[{item}] = {source.name}[{place}];")


def _move(at: Site, bounds: Sequence[Buffer], statement: Callable[[str, str], str]) -> None:
    """Parts that move the slice: ``statement`` is the text that moves one element, given its place
    in the buffer and its number in the slice."""
    attrs, sizes = at.attrs, at.operands[0].type.sizes
    before, starts = _first_places(at, bounds)
    counts = [Dim(d).poly for d in attrs["shape"]]
    many = ONE
    for count in counts:
        many = many * count
    touched = {at.operands[0].name: many}
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
        before += f"\nconst i64 place = {place};"
        at.part(statement("place + i", "i"), run, before=before, touched=touched)
        return
    whole = at.target == "cuda"
    lines = [f"i64 o = i / {at.size(run)};" if whole else "i64 o = i;", f"i64 place = {offset};"]
    lines.append(f"i64 unit = {at.size(width)};")
    for axis in reversed(range(rest)):
        size = at.size(counts[axis])
        lines.append(f"place += (({starts[axis]}) + o % {size} * {attrs['steps'][axis]}) * unit;")
        lines.append(f"o /= {size}; unit *= {at.size(sizes[axis])};")
    if whole:
        lines.append(statement(f"place + i % {at.size(run)}", "i"))
        at.part("\n".join(lines), outer * run, before=before, touched=touched)
        return
    lines.append(f"const i64 from = i * {at.size(run)};")
    lines.append(f"for (i64 j = 0; j < {at.size(run)}; j++)")
    lines.append("  " + statement("place + j", "from + j"))
    at.part("\n".join(lines), outer, before=before, work=run, touched=touched)


def _first_places(at: Site, bounds: Sequence[Buffer]) -> tuple[str, list[str]]:
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
            index = bounds[places[axis, "index"]].load("0")
            lines.append(at.wrap(f"first{axis}", index, size))
        elif (axis, "first") in places:
            first = bounds[places[axis, "first"]].load("0")
            lines.append(f"const i64 first{axis} = {first};")
        else:
            low, high = (f"(-{size} - 1)", f"({size} - 1)") if step < 0 else (f"-{size}", size)
            for word, known in (("start", "starts"), ("stop", "stops")):
                name = {"start": "first", "stop": "last"}[word] + str(axis)
                if (axis, word) not in places:
                    lines.append(f"const i64 {name} = {at.size(Dim(attrs[known][axis]).poly)};")
                    continue
                bound = bounds[places[axis, word]].load("0")
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


def _slice_fault(op: Op) -> Fault:
    return Fault(_name(op.attrs), "slice")


define(
    "buffer.load_slice",
    "kernel",
    "effect",
    "A copy of the elements at start + i * step of each dim of a buffer.",
    attrs={"starts": DIMS, "steps": INTS, "shape": DIMS, "computed": PAIRS},
    infer=_load_infer,
    reference=_load_reference,
    kernel=_load_kernel,
    fault=_slice_fault,
    checks=_slice_checks,
    effect="read",
    cost=lambda operands, results, attrs: Cost(ZERO),
)


define(
    "buffer.store_slice",
    "kernel",
    "effect",
    "Copies a tensor into the elements at start + i * step of each dim of a buffer.",
    attrs={"starts": DIMS, "stops": DIMS, "steps": INTS, "shape": DIMS, "computed": PAIRS},
    infer=_store_infer,
    reference=_store_reference,
    kernel=_store_kernel,
    fault=_slice_fault,
    checks=_slice_checks,
    effect="write",
    cost=lambda operands, results, attrs: Cost(ZERO),
)
