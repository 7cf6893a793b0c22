"""Products with transposed matrices of signed bytes, of which each row has a scale: what a linear
layer is when its weights and its inputs have 8 bits.

Left rows are bytes already, with one scale and zero for all of them, or floats that become bytes
first. The sums are integers and exact; scales, bias and activation come after them, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, ShapeError
from maxlab.ir import Poly, Shape, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.attributes import TEXT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.quantized import same_size
from maxlab.opset.rules import same_device

HEADER = "ops/int8.cuh"
ACTIVATIONS = (
    "none", "relu", "gelu", "gelu_tanh", "gelu_quick", "silu", "sigmoid", "tanh",
)  # fmt: skip
"""The functions that results may go through, each at the place of its number in
``kernels/c/mx_abi.h``."""
LEFT = (DType.float32, DType.uint8, DType.int8)
"""The dtypes of left operands, likewise."""
MOST = 65536
"""The most columns of a matrix: sums of so many products fit into 32 bits."""
PANEL, ROWS, TILE = 32, 128, 32
"""Columns and rows of an item on the CPU, ``MX_NR`` and ``MX_INT8_ROWS``; both on a GPU."""
_NAMES = ("x", "w", "scales", "bias", "given")


def _infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    what = "matmul_int8"
    x, w, scales, bias, given = types
    same_device(what, types)
    wrong = x.dtype not in LEFT or w.dtype is not DType.int8
    if wrong or any(t.dtype is not DType.float32 for t in (scales, bias, given)):
        got = ", ".join(t.dtype.name for t in types)
        raise ArgumentTypeError(
            "ML738",
            f"{what}: expected float32, uint8 or int8, then int8, and three times float32, got "
            f"{got}",
            fix="cast the left operand, the scales and the bias: ops.cast(x, DType.float32)",
        )
    if not x.rank or w.rank != 2 or any(t.rank != 1 for t in (scales, bias, given)):
        raise ShapeError(
            "ML739",
            f"{what}: operands of rank {[t.rank for t in types]}, expected 1 or more, 2, 1, 1, 1",
            fix="the right operand is a matrix [n, k], with n scales and n numbers of the bias",
        )
    (n, k), some = w.shape, given.shape[0]
    pairs = [(x.shape[-1], k), (scales.shape[0], n), (bias.shape[0], n)]
    if any(isinstance(a, StaticDim) and isinstance(b, StaticDim) and a != b for a, b in pairs):
        shapes = ", ".join(f"{name} [{', '.join(map(str, t.shape))}]"
                           for name, t in zip(_NAMES, types, strict=True))  # fmt: skip
        raise ShapeError(
            "ML741",
            f"{what}: {shapes} do not fit",
            fix="weights are [n, k], of the rows' last dim k, with a scale and a bias for each n",
        )
    if isinstance(k, StaticDim) and int(k) > MOST:
        raise ShapeError(
            "ML231",
            f"{what}: sums of {k} products, of which 32 bits hold {MOST}",
            fix="cut the inner dim into parts, and add their products",
        )
    if not isinstance(some, StaticDim) or int(some) not in ((0, 2) if x.dtype is LEFT[0] else (2,)):
        raise ShapeError(
            "ML231",
            f"{what}: the left operand's range has {some} numbers; it is a scale and a zero"
            + (", or empty" if x.dtype is LEFT[0] else ""),
            fix="pass ops.constant([scale, zero], DType.float32, device)"
            + (", or nothing" if x.dtype is LEFT[0] else ""),
        )
    if attrs["activation"] not in ACTIVATIONS:
        raise ArgumentError(
            "ML230",
            f"{what}: there is no activation {attrs['activation']!r}",
            fix=f"one of {', '.join(ACTIVATIONS)}",
        )
    return [TensorType(DType.float32, Shape([*x.shape[:-1], n]), x.device)]


def _checks(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    x, w, scales, bias = operands[:4]
    n, k = w.sizes
    found = same_size(x.shape[-1].poly, k, "matmul_int8: the inner dims differ")
    text = "matmul_int8: there is not one {} for each row of the matrix"
    found += same_size(scales.sizes[0], n, text.format("scale"))
    found += same_size(bias.sizes[0], n, text.format("bias"))
    if not k.is_constant:
        most = Poly.constant(MOST)
        found.append(Check(k, "<=", most, f"matmul_int8: more than {MOST} columns of the matrix"))
    return found


# ---------------------------------------------------------------- meaning
def quantized_rows(x: Array, given: Array | None = None) -> tuple[Array, Array, Array]:
    """The rows ``x[m, k]`` as a product sees them: bytes, a scale and a zero for each row.

    A byte ``q`` stands for ``(q - zero) * scale``.

    Args:
        x: float32, uint8 or int8.
        given: The scale and the zero of all rows. Without them, those of a row are such that 0 and
            255 stand for its least and its largest number, or for 0.
    """
    f, rows = np.float32, len(x)
    if given is not None and len(given):
        low = -128 if x.dtype == np.int8 else 0
        zero = np.full(rows, np.rint(np.clip(np.nan_to_num(given[1], nan=low), low, low + 255)))
        scale = np.full(rows, given[0] if given[0] > 0 else np.nan, f)
        if x.dtype != np.float32:
            return (x.astype(np.int64) - low).astype(np.uint8), scale, zero.astype(np.int64) - low
        scale = np.where(np.isnan(x).any(1), f(np.nan), scale)
    else:
        low_, high = np.minimum(x.min(1, initial=0), 0), np.maximum(x.max(1, initial=0), 0)
        scale = np.maximum(high / f(255) - low_ / f(255), f(2.0**-126))
        zero = np.rint(-low_ / scale)
        scale = np.where(np.isfinite(x).all(1), scale, f(np.nan))
    wide = np.clip(np.rint(x * (f(1) / scale)[:, None]) + zero[:, None].astype(f), 0, 255)
    bad = np.isnan(scale)
    q = np.where(bad[:, None], 0, np.nan_to_num(wide)).astype(np.uint8)
    return q, scale.astype(f), np.where(bad, 0, np.nan_to_num(zero)).astype(np.int64)


def _erf(x: Array) -> Array:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x) if x.size else x


def _activated(v: Array, activation: str) -> Array:
    def sigmoid(x: Array) -> Array:
        return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))

    def curve(x: Array) -> Array:
        return np.asarray(x * sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    functions: dict[str, Callable[[Array], Array]] = {
        "none": lambda x: x,
        "relu": lambda x: np.maximum(x, 0),
        "gelu": lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2))),
        "gelu_tanh": curve,
        "gelu_quick": lambda x: x * sigmoid(1.702 * x),
        "silu": lambda x: x * sigmoid(x),
        "sigmoid": sigmoid,
        "tanh": np.tanh,
    }
    return np.asarray(functions[activation](v))


def _reference(call: Call, x: Array, w: Array, scales: Array, bias: Array, given: Array) -> Array:
    rows = int(np.prod(x.shape[:-1], dtype=np.int64))
    with np.errstate(all="ignore"):
        q, d, z = quantized_rows(x.reshape(rows, x.shape[-1]), given)
        whole = (q.astype(np.int64) - z[:, None]) @ w.astype(np.int64).T
        wide = whole * (d[:, None].astype(np.float64) * scales) + bias
        made = _activated(wide, call.attrs["activation"])
    return made.astype(np.float32).reshape(call.shapes[0])


def _magnitude(arrays: Sequence[Array], attrs: Attrs) -> Array:
    x, w, scales, bias, given = arrays
    rows = int(np.prod(x.shape[:-1], dtype=np.int64))
    q, d, z = quantized_rows(x.reshape(rows, x.shape[-1]), given)
    wide = np.abs((q.astype(np.int64) - z[:, None]) * d[:, None].astype(np.float64))
    made = wide @ np.abs(w.astype(np.float64)).T * np.abs(scales) + np.abs(bias) + 1
    return np.asarray(made.reshape(*x.shape[:-1], len(w)))


def _cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    return Cost(elements(results[0]) * operands[0].shape[-1].poly * Poly.constant(2))


# ---------------------------------------------------------------- kernel
def _kernel(at: Site) -> None:
    x, w, given = at.operands[0], at.operands[1], at.operands[4]
    n, k = w.type.sizes
    m = ONE
    for size in x.type.sizes[:-1]:
        m = m * size
    lines = (k + Poly.constant(63)).floordiv(Poly.constant(64))
    # An odd number of lines: see mx_int8_step.
    step = (lines.floordiv(Poly.constant(2)) * Poly.constant(2) + ONE) * Poly.constant(64)
    on_gpu = at.target == "cuda"
    buffers = {
        "q": at.temporary(DType.int8 if on_gpu else DType.uint8, m * step),
        "d": at.temporary(DType.float32, m),
        "z": at.temporary(DType.int32, m),
    }
    known = None
    if not on_gpu:
        sums, line = Poly.constant(4 * PANEL), Poly.constant(64 * PANEL)
        nbytes = sums + lines * line
        constant = nbytes.value if nbytes.is_constant else 0
        known = at.packed_blocks(w, "mx_k_pack_int8", PANEL, (k, n), constant)
        panels = (n + Poly.constant(PANEL - 1)).floordiv(Poly.constant(PANEL))
        packed = at.temporary(DType.uint8, panels * nbytes) if known is None else known
        buffers["packed"] = packed
    at.header(HEADER)
    kernel = OwnKernel(
        at, "int8.c", "matmul_int8", dims={"m": m, "k": k, "n": n, "r": given.type.sizes[0]},
        sizes={"STEP": step}, buffers=buffers, KIND=LEFT.index(x.dtype),
        ACTIVATION=ACTIVATIONS.index(at.attrs["activation"]),
        GIVEN=given.type.sizes[0] != Poly.constant(0), ROWS=ROWS, PANEL=PANEL, TILE=TILE,
    )  # fmt: skip
    if on_gpu:
        kernel.part("left_gpu")
        kernel.part("product_gpu")
        return
    kernel.part("left")
    if known is None:
        kernel.part("pack")
    kernel.part("product")


# ---------------------------------------------------------------- samples
def _samples() -> list[Sample]:
    rng = np.random.default_rng(31)

    def sample(
        label: str, shape: tuple[int, ...], n: int, activation: str = "none",
        given: tuple[float, float] | None = None, kind: DType = DType.float32, names: bool = False,
    ) -> Sample:  # fmt: skip
        k = shape[-1]
        if kind is DType.float32:
            x = rng.standard_normal(shape).astype(np.float32)
        else:
            low = 0 if kind is DType.uint8 else -128
            x = rng.integers(low, low + 256, shape).astype(kind.to_numpy())
        w = rng.integers(-127, 128, (n, k)).astype(np.int8)
        scales = rng.uniform(1e-3, 4e-3, n).astype(np.float32)
        bias = rng.standard_normal(n).astype(np.float32)
        numbers = np.array(given or (), np.float32)
        shapes = ((*"abc"[: len(shape) - 1], "k"), ("n", "k"), ("n",), ("n",), (len(numbers),))
        arrays = (x, w, scales, bias, numbers)
        return Sample(arrays, {"activation": activation}, shapes if names else None, label)

    wrong = sample("not a number", (3, 40), 5)
    wrong.arrays[0][1, 7] = np.nan
    return [
        sample("floats", (5, 70), 37, names=True),
        sample("batch, relu", (2, 3, 128), 32, "relu", names=True),
        sample("given range, gelu", (4, 33), 9, "gelu", (0.03, 117.0)),
        sample("unsigned, silu", (35, 64), 34, "silu", (0.02, 11.0), DType.uint8, True),
        sample("signed, tanh", (7, 31), 3, "tanh", (0.01, -3.0), DType.int8),
        sample("gelu_tanh", (1, 96), 8, "gelu_tanh"),
        sample("gelu_quick", (2, 16), 40, "gelu_quick"),
        sample("vector, sigmoid", (20,), 4, "sigmoid"),
        sample("no rows", (0, 8), 3, names=True),
        sample("no columns", (2, 0), 3),
        wrong,
    ]


define(
    "matmul_int8",
    "kernel",
    "quantized",
    "A product of bytes with a transposed matrix of signed bytes; scales, bias and activation.",
    attrs={"activation": TEXT},
    infer=_infer,
    reference=_reference,
    kernel=_kernel,
    checks=_checks,
    cost=_cost,
    samples=_samples,
    terms=lambda arrays, attrs: 8,
    magnitude=_magnitude,
)

__all__ = ["ACTIVATIONS", "LEFT", "MOST", "quantized_rows"]
