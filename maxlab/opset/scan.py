"""Ops that go along an axis and keep what they passed: running sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import DTypeError
from maxlab.ir import Poly, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.core import Array, Attrs, Call, Cost, Sample, define, elements
from maxlab.opset.kernel import Site
from maxlab.opset.rules import axis_of

_WRAPPING = {DType.int64: "u64", DType.uint64: "u64"}
THREADS = 256


def _infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    axis_of(attrs["axis"], x.rank, "cumsum")
    if x.dtype is DType.bool:
        raise DTypeError(
            "ML106", "cumsum needs numbers, got bool", fix="cast it: ops.cast(x, DType.int32)"
        )
    return [x]


def _reference(call: Call, x: Array) -> Array:
    axis = call.attrs["axis"]
    wide = x.astype(np.float64) if x.dtype.kind not in "iu" else x
    if call.attrs["reverse"]:
        wide = np.flip(wide, axis)
    with np.errstate(over="ignore"):
        total = np.cumsum(wide, axis=axis, dtype=wide.dtype)
    if call.attrs["exclusive"]:
        total = np.roll(total, 1, axis)
        first = [slice(None)] * total.ndim
        first[axis] = slice(0, 1)
        total[tuple(first)] = 0
    return np.flip(total, axis) if call.attrs["reverse"] else total


def _kernel(at: Site) -> None:
    x, y = at.operands[0], at.results[0]
    sizes = x.type.sizes
    axis = axis_of(at.attrs["axis"], len(sizes), "cumsum")
    outer, inner, depth = ONE, ONE, sizes[axis]
    for size in sizes[:axis]:
        outer = outer * size
    for size in sizes[axis + 1 :]:
        inner = inner * size
    kind = x.compute
    n, m = at.size(depth), at.size(inner)
    place = f"j * {m} + c" if inner != ONE else "j"
    if at.attrs["reverse"]:
        place = f"({n} - 1 - j) * {m} + c" if inner != ONE else f"{n} - 1 - j"

    def added(one: str, other: str) -> str:
        if kind in ("f32", "f64"):
            return f"{one} + {other}"
        wide = _WRAPPING.get(x.dtype, "u32")
        return f"({kind})(({wide}){one} + ({wide}){other})"

    step = (f"{y.store('at', 'a')} a = {added('a', 'v')};" if at.attrs["exclusive"]
            else f"a = {added('a', 'v')}; {y.store('at', 'a')}")  # fmt: skip
    walk = f"const i64 at = base + {place}; const {kind} v = {x.load('at')}; {step}"
    start = f"const i64 base = i / {m} * {n} * {m}, c = i % {m};" if inner != ONE else (
        f"const i64 base = i * {n};")  # fmt: skip
    if at.target == "c" or inner != ONE:
        # A column a thread: neighbours read neighbours.
        text = f"{start}\n{kind} a = 0;\nfor (i64 j = 0; j < {n}; j++) {{ {walk} }}"
        at.part(text, outer * inner, work=depth)
        return
    # Rows: each thread sums a piece, the sums before it are its start, and it walks again.
    text = f"""\
{kind} *const sums = ({kind} *){at.shared};
{start}
const i64 each = ({n} + blockDim.x - 1) / blockDim.x;
const i64 first = threadIdx.x * each, last = first + each < {n} ? first + each : {n};
{kind} a = 0;
for (i64 j = first; j < last; j++) {{
  const {kind} v = {x.load(f"base + {place}")};
  a = {added("a", "v")};
}}
sums[threadIdx.x] = a;
__syncthreads();
for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {{
  const {kind} v = threadIdx.x >= distance ? sums[threadIdx.x - distance] : ({kind})0;
  __syncthreads();
  sums[threadIdx.x] = {added("sums[threadIdx.x]", "v")};
  __syncthreads();
}}
a = threadIdx.x ? sums[threadIdx.x - 1] : ({kind})0;
for (i64 j = first; j < last; j++) {{ {walk} }}
__syncthreads();"""
    at.part(text, outer, block=True, threads=THREADS, shared=THREADS * 8, work=depth)


def _samples() -> list[Sample]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 5, 70)).astype(np.float32)
    plain = {"exclusive": False, "reverse": False}
    found = [
        Sample((x,), {"axis": -1, **plain}, (("a", "b", "c"),), "last"),
        Sample((x,), {"axis": 1, **plain}, (("a", "b", "c"),), "middle"),
        Sample((x,), {"axis": 0, "exclusive": True, "reverse": False}, label="exclusive"),
        Sample((x,), {"axis": 2, "exclusive": False, "reverse": True}, label="reverse"),
        Sample((x,), {"axis": 1, "exclusive": True, "reverse": True}, label="both"),
        Sample((x.astype(np.float64),), {"axis": -1, **plain}, label="f64"),
        Sample((x.astype(np.float16),), {"axis": -1, **plain}, label="f16"),
        Sample((x.astype(DType.bfloat16.ml_numpy),), {"axis": 0, **plain}, label="bf16"),
        Sample((np.zeros((2, 0), np.float32),), {"axis": 1, **plain}, label="empty"),
        Sample(
            (rng.standard_normal((2, 1300)).astype(np.float32),), {"axis": 1, **plain}, label="long"
        ),
    ]
    for kind in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
        numbers = rng.integers(0, 100, (4, 300)).astype(kind)
        found.append(Sample((numbers,), {"axis": 1, **plain}, label=kind))
    return found


define(
    "cumsum",
    "kernel",
    "scan",
    "The running sum along an axis; integers wrap.",
    infer=_infer,
    reference=_reference,
    kernel=_kernel,
    cost=lambda operands, results, attrs: Cost(elements(operands[0]) * Poly.constant(1)),
    samples=_samples,
    terms=lambda arrays, attrs: arrays[0].shape[attrs["axis"]],
)
