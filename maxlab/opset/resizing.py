"""Images read at other sizes: nearest, bilinear and bicubic.

Element ``o`` of a result of ``n`` lies at ``(2 o + 1) m / (2 n) - 1/2`` in an input of ``m``:
pixels are squares, corners are not aligned. That is reckoned in integers, so it is exact. Taps
outside of the image are those at its edge. ``nearest`` takes element ``o m // n``, as torch does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ShapeError
from maxlab.ir import Dim, Shape, TensorType, Type
from maxlab.opset.attributes import DIMS, TEXT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.facts import foreign_names
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.rules import require_float
from maxlab.opset.windows import number, product, require_rank, require_some, wide

TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
CUBIC = -0.75
"""The slope of the cubic convolution beside its centre."""


def _infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    mode = attrs["mode"]
    if mode not in TAPS:
        raise ArgumentError(
            "ML376",
            f"resize: {mode!r} is no interpolation",
            fix="pass a member of ops.InterpolationMode",
        )
    require_rank("resize", "the input", x, 4, "NCHW")
    if mode != "nearest":
        require_float(f"resize ({mode})", x)
    shape = Shape(attrs["shape"])
    if len(shape) != 4 or tuple(shape[:2]) != tuple(x.shape[:2]):
        given = ", ".join(map(str, shape))
        raise ShapeError(
            "ML375",
            f"resize: the shape must be (N, C, H, W) with the batch {x.shape[0]} and the "
            f"{x.shape[1]} channels of the input, got ({given})",
            fix="resize changes height and width only: pass (x.shape[0], x.shape[1], H, W)",
        )
    for axis, dim, own in zip(("height", "width"), shape[2:], x.shape[2:], strict=True):
        require_some("resize", axis, dim.poly, "an image has at least one row and column")
        require_some("resize", f"{axis} to read", own.poly, "there is nothing to read")
    return [TensorType(x.dtype, shape, x.device)]


def _checks(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    dims = [*operands[0].shape[2:], *(Dim(d) for d in tuple(attrs["shape"])[2:])]
    return [
        Check(number(1), "<=", dim.poly, f"resize: the size {dim} must be 1 or more")
        for dim in dict.fromkeys(dims)
        if not dim.poly.is_constant
    ]


# ---------------------------------------------------------------- reference
def _cubic(distance: Array) -> Array:
    """The weight of a tap at this distance, 0 to 2."""
    t = np.abs(distance)
    near = ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1
    far = CUBIC * (((t - 5) * t + 8) * t - 4)
    return np.where(t <= 1, near, far)


def _weights(mode: str, size: int, count: int) -> Array:
    """The matrix [count, size] by which an axis is resized."""
    made = np.zeros((count, size))
    out = np.arange(count)
    if mode == "nearest":
        made[out, out * size // count] = 1
        return made
    place = (2 * out + 1) * size - count
    first, rest = place // (2 * count), place % (2 * count) / (2 * count)
    reach = (0, 1) if mode == "bilinear" else (-1, 0, 1, 2)
    for tap in reach:
        distance = np.abs(tap - rest)
        weight = 1 - distance if mode == "bilinear" else _cubic(distance)
        np.add.at(made, (out, np.clip(first + tap, 0, size - 1)), weight)
    return made


def _reference(call: Call, x: Array) -> Array:
    _, _, height, width = call.shapes[0]
    mode = call.attrs["mode"]
    if mode == "nearest":
        rows = np.arange(height) * x.shape[2] // height
        columns = np.arange(width) * x.shape[3] // width
        return x[:, :, rows[:, None], columns]
    rows, columns = _weights(mode, x.shape[2], height), _weights(mode, x.shape[3], width)
    return np.asarray(np.einsum("ph,nchw,qw->ncpq", rows, wide(x), columns, optimize=True))


# ---------------------------------------------------------------- kernel
def _kernel(at: Site) -> None:
    x, y = at.operands[0], at.results[0]
    mode = at.attrs["mode"]
    count = TAPS[mode]
    sizes = {
        "IH": x.type.sizes[2], "IW": x.type.sizes[3], "OH": y.type.sizes[2], "OW": y.type.sizes[3],
    }  # fmt: skip
    kernel = OwnKernel(
        at, "resizing.c", "resize", sizes=sizes, MODE=mode, COUNT=count, SLOPE=CUBIC, TWO=CUBIC + 2,
        THREE=CUBIC + 3,
    )  # fmt: skip
    if at.target == "cuda":
        kernel.write()
        return
    width, source = sizes["OW"], sizes["IW"]
    kernel.write(
        extent=product(y.type.sizes[:3]),
        work=source * number(count) + width * number(count * 2),
        scratch=(width + number(16)) * number(16 * count) + (source + number(16)) * number(8),
    )


def _cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    taps = TAPS[attrs["mode"]]
    return Cost(elements(results[0]) * number(0 if taps == 1 else 4 * taps))


def _samples() -> list[Sample]:
    rng = np.random.default_rng(35)
    # Positive, as pixels are: the weights of a cubic are not, and what they cancel is not measured.
    x = (rng.random((2, 3, 6, 7)) + 0.5).astype(np.float32)
    found: list[Sample] = []
    sizes = {"larger": (13, 15), "smaller": (4, 3), "mixed": (3, 20), "same": (6, 7), "one": (1, 1)}
    for mode in TAPS:
        for label, size in sizes.items():
            attrs = {"shape": (2, 3, *size), "mode": mode}
            found.append(Sample((x,), attrs, ((2, 3, "h", "w"),), f"{mode} {label}"))
        named = {"shape": (Dim("n"), Dim("c"), Dim("h") * 2, Dim("w") + 3), "mode": mode}
        found.append(Sample((x,), named, (("n", "c", "h", "w"),), f"{mode} named"))
        tiny = (rng.random((1, 2, 1, 2)) + 0.5).astype(np.float32)
        found.append(Sample((tiny,), {"shape": (1, 2, 5, 5), "mode": mode}, label=f"{mode} tiny"))
        none = {"shape": (0, 3, 4, 4), "mode": mode}
        found.append(Sample((x[:0],), none, label=f"{mode} empty"))
        for dtype in (DType.float64, DType.float16, DType.bfloat16):
            attrs = {"shape": (2, 3, 9, 5), "mode": mode}
            found.append(Sample((x.astype(dtype.ml_numpy),), attrs, label=f"{mode} {dtype.name}"))
    for kind in ("bool", "uint8", "int32", "int64"):
        whole = rng.integers(0, 2, (1, 2, 4, 5)).astype(kind)
        found.append(Sample((whole,), {"shape": (1, 2, 6, 3), "mode": "nearest"}, label=kind))
    return found


define(
    "resize",
    "kernel",
    "spatial",
    "An image read at another height and width.",
    attrs={"shape": DIMS, "mode": TEXT},
    family="index",
    foreign=foreign_names(onnx="Resize"),
    infer=_infer,
    reference=_reference,
    checks=_checks,
    kernel=_kernel,
    cost=_cost,
    samples=_samples,
    terms=lambda arrays, attrs: TAPS[attrs["mode"]] ** 2,
)
