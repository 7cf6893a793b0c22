"""The cast, and its rule for numbers that the other dtype does not have; and the cast of bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.dtype import DType, round_to
from maxlab.errors import ArgumentTypeError, ShapeError
from maxlab.ir import Poly, StaticDim, TensorType, Type
from maxlab.opset.attributes import DTYPE
from maxlab.opset.core import Array, Attrs, Call, Sample, define, elements
from maxlab.opset.elementwise import _wide
from maxlab.opset.identities import Idle
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel


def _cast_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    return [TensorType(attrs["dtype"], x.shape, x.device)]


def _cast_reference(call: Call, x: Array) -> Array:
    return convert(x, call.dtypes[0])


def convert(x: Array, dtype: DType) -> Array:
    """``x`` cast by maxlab's rule, which has no undefined case.

    float → int truncates towards zero; NaN, infinities and values out of range become the most
    negative number of a 32- or 64-bit integer (what x86 does), and narrower integers are cut from
    the 32-bit result. int → int wraps. Anything → bool asks whether it differs from 0: NaN does.
    Anything → float rounds once, to nearest even, and to an infinity beyond the largest, or to NaN
    where the dtype has no infinity, as 8-bit floats.
    """
    target = dtype.ml_numpy
    wide = _wide(x)
    if dtype is DType.bool:
        return np.not_equal(wide, 0)
    if wide.dtype.kind == "f" and dtype.is_integral():
        bits = 64 if dtype in (DType.int64, DType.uint64, DType.uint32) else 32
        low = -(2.0 ** (bits - 1))
        top = 2.0 ** (64 if dtype is DType.uint64 else bits - 1)
        cut = np.trunc(wide.astype(np.float64))
        good = (cut >= low) & (cut < top)
        signed = np.int64 if bits == 64 else np.int32
        if dtype is DType.uint64:
            high = good & (cut >= 2.0**63)
            small = np.where(good & ~high, cut, 0).astype(np.int64).view(np.uint64)
            big = (np.where(high, cut - 2.0**63, 0).astype(np.int64)).view(np.uint64) + np.uint64(
                2**63
            )
            return np.where(high, big, np.where(good, small, np.uint64(2**63)))
        inner = np.where(good, cut, low).astype(signed)
        return inner.astype(target)
    return round_to(wide, dtype)


def _cast_samples() -> list[Sample]:
    values = np.array([0, 1.5, -2.5, 3.99, 127, -128, 300.7, -1e9], np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 1e20, -0.0], np.float32)
    found = []
    for dtype in (
        DType.bool, DType.int8, DType.uint8, DType.int16, DType.uint16, DType.int32, DType.uint32,
        DType.int64, DType.uint64, DType.float16, DType.bfloat16, DType.float32, DType.float64,
    ):  # fmt: skip
        found.append(Sample((values,), {"dtype": dtype}, label=f"f32 to {dtype.name}"))
        if dtype not in (DType.uint8, DType.uint16, DType.uint32, DType.int8, DType.int16):
            found.append(Sample((special,), {"dtype": dtype}, label=f"special to {dtype.name}"))
        whole = np.array([0, 1, -1, 127, 128, -129, 70000], np.int64)
        found.append(Sample((whole,), {"dtype": dtype}, label=f"i64 to {dtype.name}"))
        found.append(
            Sample((np.array([True, False]),), {"dtype": dtype}, label=f"bool to {dtype.name}")
        )
        half = values[:6].astype(DType.bfloat16.ml_numpy)
        found.append(Sample((half,), {"dtype": dtype}, label=f"bf16 to {dtype.name}"))
    return found


define(
    "cast",
    "map",
    "elementwise",
    "The elements converted to another dtype.",
    infer=_cast_infer,
    reference=_cast_reference,
    samples=_cast_samples,
    weight=0,  # it moves data, and computes none
    role="cast",
    attrs={"dtype": DTYPE},
    identities=(Idle("same_cast"),),
    foreign={"aten": ("aten._to_copy",), "onnx": ("Cast",)},
)


# ---------------------------------------------------------------- the cast of bits
def _bitcast_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    dtype = attrs["dtype"]
    if DType.bool in (x.dtype, dtype):
        raise ArgumentTypeError(
            "ML523",
            f"bitcast: bits of {x.dtype.name} are no bits of {dtype.name}, as a bool is 0 or 1",
            fix="cast bools to uint8, or compare: ops.cast(x, DType.uint8), ops.not_equal(x, 0)",
        )
    old, new = x.dtype.size_in_bytes, dtype.size_in_bytes
    if old == new:
        return [TensorType(dtype, x.shape, x.device)]
    last = x.shape[-1] if x.rank else None
    if last is None or (
        old < new and not (isinstance(last, StaticDim) and int(last) * old % new == 0)
    ):
        raise ShapeError(
            "ML523",
            f"bitcast: {x} has no last dim that is whole numbers of {dtype.name}, of {new} bytes",
            fix="the last dim becomes as many numbers as have its bytes: give it a known size that "
            "they divide",
        )
    made = last * (old // new) if old > new else int(last) * old // new
    return [TensorType(dtype, [*x.shape[:-1], made], x.device)]


def _bitcast_reference(call: Call, x: Array) -> Array:
    made = np.ascontiguousarray(x).reshape(-1).view(call.dtypes[0].ml_numpy)
    return made.reshape(call.shapes[0])


def _bitcast_kernel(at: Site) -> None:
    (x,), (y,) = at.operands, at.results
    n, m = elements(x.type), elements(y.type)
    sizes = {"BYTES": n * Poly.constant(x.type.dtype.size_in_bytes)}
    OwnKernel(at, "bits.c", "bitcast", dims={"n": n, "m": m}, sizes=sizes).write()


def _bitcast_samples() -> list[Sample]:
    rng = np.random.default_rng(3)
    found = []
    for dtype, shape, other, names in (
        (DType.int32, (3, 2), DType.uint8, ("a", "b")),
        (DType.uint8, (3, 8), DType.int32, ("a", 8)),
        (DType.float16, (2, 3), DType.uint8, ("a", 3)),
        (DType.uint8, (5, 6), DType.float16, ("a", 6)),
        (DType.float32, (4,), DType.int32, ("a",)),
        (DType.int64, (), DType.float64, ()),
        (DType.float32, (0, 3), DType.int32, ("a", "b")),
        (DType.int8, (16,), DType.int64, (16,)),
    ):
        numbers = rng.integers(-90, 90, shape).astype(dtype.ml_numpy)
        if other.is_float() and dtype.is_integral():  # bits of plain numbers, and of no NaN
            many = [*shape[:-1], shape[-1] // other.size_in_bytes] if shape else []
            whole = rng.integers(-90, 90, many).astype(other.ml_numpy)
            numbers = np.atleast_1d(whole).view(dtype.ml_numpy).reshape(shape)
        label = f"{dtype.name} as {other.name}"
        found.append(Sample((numbers,), {"dtype": other}, (names,), label))
    return found


define(
    "bitcast",
    "kernel",
    "elementwise",
    "The same bytes, as numbers of another dtype.",
    infer=_bitcast_infer,
    reference=_bitcast_reference,
    kernel=_bitcast_kernel,
    samples=_bitcast_samples,
    attrs={"dtype": DTYPE},
)
