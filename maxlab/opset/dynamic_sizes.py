"""Ops that compute sizes from the numbers in tensors: of repetitions, of ranges, of slices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError
from maxlab.ir import Dim, Op, TensorType, Type
from maxlab.ir.poly import ONE, Poly
from maxlab.opset.attributes import DIM, INT, Attribute
from maxlab.opset.core import Array, Attrs, Call, Cost, Sample, define
from maxlab.opset.dynamic import require_count
from maxlab.opset.dynamic_elements import CHUNK, require_starts
from maxlab.opset.facts import foreign_names
from maxlab.opset.faults import Fault
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.rules import require_integral, same_device, scalar_bounds


# ---------------------------------------------------------------- repeat_interleave
def _repeat_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    ends, total = types
    same_device("repeat_interleave", types)
    require_starts("repeat_interleave", ends, total)
    return [TensorType(DType.int64, [Dim(attrs["out_dim"])], ends.device)]


def _repeat(call: Call, ends: Array, total: Array) -> Array:
    return np.searchsorted(ends, np.arange(call.shapes[0][0]), side="right")


def _repeat_kernel(at: Site) -> None:
    n, count = at.operands[0].type.sizes[0], at.results[0].type.sizes[0]
    kernel = OwnKernel(at, "dynamic.cu", "repeat_index", dims={"N": n, "COUNT": count}, CHUNK=CHUNK)
    if at.target == "cuda":
        kernel.write()
        return
    chunks = (count + Poly.constant(CHUNK - 1)).floordiv(Poly.constant(CHUNK))
    kernel.write(extent=chunks, work=Poly.constant(2 * CHUNK))


def _repeat_sample(counts: Sequence[int], label: str) -> Sample:
    ends = np.cumsum(np.array(counts, np.int64), dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return Sample((ends, np.array(total)), {"out_dim": Dim(total)}, (("n",), ()), label)


define(
    "repeat.index",
    "kernel",
    "index",
    "For each element of the result of repeat_interleave, which element it repeats.",
    attrs={"out_dim": DIM},
    foreign=foreign_names("repeat_interleave"),
    infer=_repeat_infer,
    reference=_repeat,
    kernel=_repeat_kernel,
    cost=lambda operands, results, attrs: Cost(Dim(attrs["out_dim"]).poly),
    samples=lambda: [
        _repeat_sample((2, 0, 3, 0, 1), "some"),
        _repeat_sample((), "empty"),
        _repeat_sample((0, 0), "none"),
        _repeat_sample(tuple(n % 7 for n in range(2000)), "long"),
    ],
)


# ---------------------------------------------------------------- range
def _range_size_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    scalar_bounds(types)
    same_device("range", types)
    for type in types:
        if type.dtype is DType.bool:
            raise DTypeError("ML106", "range needs numbers, got bool", fix="cast the bounds")
    return [TensorType(DType.int64, [], types[0].device)]


def _range_size(call: Call, *bounds: Array) -> Array:
    plain = int if bounds[0].dtype.kind in "iu" else float
    start, stop, step = (plain(x) for x in bounds)
    distance = stop - start
    if not step or distance * step < 0 or not np.isfinite(distance) or not np.isfinite(step):
        return np.asarray(-1)
    if plain is int:
        return np.asarray(-(-abs(distance) // abs(step)))
    return np.asarray(int(np.ceil(distance / step)))


def _range_size_kernel(at: Site) -> None:
    start, stop, step = at.operands
    y = at.results[0]
    whole = start.compute not in ("f32", "f64")
    kind = "i64" if whole else "f64"
    head = (
        f"const {kind} by = ({kind}){step.load('0')}, "
        f"d = ({kind}){stop.load('0')} - ({kind}){start.load('0')};\n"
    )
    if whole:
        text = (
            "const i64 size = by == 0 || (d != 0 && (d > 0) != (by > 0)) ? -1 : by > 0 "
            "? d / by + (d % by != 0) : -d / -by + (-d % -by != 0);\n"
        )
    else:
        # What is no number, and what no memory holds, has no size.
        text = (
            "const f64 q = d / by;\n"
            "i64 size = -1;\n"
            "if (by != 0 && q >= 0 && q < 9e15) { size = (i64)q; size += (f64)size < q; }\n"
            "if (by - by != 0) size = -1;\n"
        )
    at.part(f"{head}{text}{y.store('i', 'size')}", ONE)


def _range_size_samples() -> list[Sample]:
    rows = [(0, 10, 3), (10, 0, -3), (5, 5, 1), (0, 10, 0), (0, 10, -1), (3, -3, -2), (-1, 0, 3)]
    found = []
    for row in rows:
        for dtype in (np.int64, np.int32, np.float32, np.float64):
            label = f"{np.dtype(dtype).name} {row}"
            found.append(Sample(tuple(np.array(x, dtype) for x in row), {}, label=label))
    odd = [(0, np.inf, 1), (0, np.nan, 1), (0.5, 2.1, 0.5), (0, 10, np.inf)]
    for number, floats in enumerate(odd):
        arrays = tuple(np.array(x, np.float32) for x in floats)
        found.append(Sample(arrays, {}, label=f"odd {number}"))
    return found


define(
    "range.size",
    "kernel",
    "index",
    "The size of a range whose bounds are computed; -1 where the step does not lead to stop.",
    infer=_range_size_infer,
    reference=_range_size,
    kernel=_range_size_kernel,
    cost=lambda operands, results, attrs: Cost(ONE),
    samples=_range_size_samples,
)


# ---------------------------------------------------------------- slices
def _slice_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    same_device("slice_tensor", types)
    for type in types:
        require_integral("slice_tensor: a bound", type)
        require_count("slice_tensor: a bound", type)
    if not attrs["step"]:
        raise ArgumentError("ML345", "the step of a slice is 0", fix="use 1 or -1")
    Dim(attrs["size"])
    scalar = TensorType(DType.int64, [], types[0].device)
    return [scalar, scalar]


def _slice_bounds(call: Call, start: Array, stop: Array) -> tuple[Array, Array]:
    size, step = call.size(call.attrs["size"]), call.attrs["step"]
    low, high = (-size - 1, size - 1) if step < 0 else (-size, size)
    bounds = []
    for bound, raw in zip((int(start), int(stop)), call.attrs["raw"], strict=True):
        if raw and not low <= bound <= high:
            raise ArgumentError("ML652", f"the bound {bound} is out of range for a size of {size}")
        bounds.append(bound + size if raw and bound < 0 else bound)
    count = max(-(-(bounds[1] - bounds[0]) // step), 0)
    return np.asarray(bounds[0]), np.asarray(count)


def _slice_kernel(at: Site) -> None:
    step, size = int(at.attrs["step"]), at.size(Dim(at.attrs["size"]).poly)
    low, high = (f"(-{size} - 1)", f"({size} - 1)") if step < 0 else (f"-{size}", size)
    lines = []
    for name, bound, raw in zip(("start", "stop"), at.operands, at.attrs["raw"], strict=True):
        lines.append(f"i64 {name} = {bound.load('0')};")
        if raw:
            stop = at.fault(name, size)
            again = f"{{ {stop} {name} = 0; }}" if at.target == "cuda" else stop
            lines.append(f"if ({name} < {low} || {name} > {high}) {again}")
            lines.append(f"if ({name} < 0) {name} += {size};")
    distance = "stop - start" if step > 0 else "start - stop"
    lines.append(f"const i64 d = {distance};")
    first, count = at.results
    lines.append(first.store("i", "start"))
    lines.append(count.store("i", f"d > 0 ? (d + {abs(step) - 1}) / {abs(step)} : 0"))
    at.part("\n".join(lines), ONE)


def _slice_samples() -> list[Sample]:
    found = []
    for start, stop, step in (
        (1, 4, 1),
        (0, 5, 2),
        (-4, -1, 1),
        (4, 1, 1),
        (4, -6, -1),
        (-1, 0, -2),
    ):
        attrs = {"size": Dim(5), "step": step, "raw": (True, True)}
        arrays = (np.array(start), np.array(stop))
        found.append(Sample(arrays, attrs, label=f"{start} {stop} {step}"))
    arrays = (np.array(4), np.array(-1))
    found.append(
        Sample(arrays, {"size": Dim(5), "step": -1, "raw": (True, False)}, label="to the front")
    )
    return found


def _slice_fault(op: Op) -> Fault:
    return Fault("slice_tensor", "reversed bounds" if op.attrs["step"] < 0 else "bounds")


define(
    "slice.bounds",
    "kernel",
    "index",
    "Where a slice whose bounds are computed begins, and how many elements it has.",
    attrs={"size": DIM, "step": INT, "raw": Attribute("bools")},
    infer=_slice_infer,
    reference=_slice_bounds,
    kernel=_slice_kernel,
    fault=_slice_fault,
    cost=lambda operands, results, attrs: Cost(ONE),
    samples=_slice_samples,
)
