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
from maxlab.ir import Dim, Poly, Shape, TensorType, Type
from maxlab.opset.attributes import DIMS, TEXT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.facts import foreign_names
from maxlab.opset.kernel import Site
from maxlab.opset.rules import require_float
from maxlab.opset.windows import declared, number, product, require_rank, require_some, wide

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
def _place(kind: str, mode: str, out: str, size: str, count: str, name: str) -> str:
    """Statements that declare the first tap of ``out``, ``name``, and its weights, ``name_0 …``."""
    if mode == "nearest":
        return f"const i64 {name} = {out} * {size} / {count};"
    lines = f"""\
const i64 {name}_at = (2 * {out} + 1) * {size} - {count} + 4 * {count};
const i64 {name} = {name}_at / (2 * {count}) - 2;
const {kind} {name}_t = ({kind})({name}_at % (2 * {count})) / ({kind})(2 * {count});"""
    t, u = f"{name}_t", f"{name}_u"
    if mode == "bilinear":
        return f"{lines}\nconst {kind} {name}_0 = 1 - {t}, {name}_1 = {t};"
    suffix = "f" if kind == "f32" else ""
    slope, two, three = (f"({v!r}{suffix})" for v in (CUBIC, CUBIC + 2, CUBIC + 3))
    return f"""\
{lines}
const {kind} {u} = 1 - {t};
const {kind} {name}_0 = {slope} * {t} * {u} * {u}, {name}_3 = {slope} * {u} * {t} * {t};
const {kind} {name}_1 = ({two} * {t} - {three}) * {t} * {t} + 1;
const {kind} {name}_2 = ({two} * {u} - {three}) * {u} * {u} + 1;"""


def _taps(mode: str, name: str, size: str) -> list[str]:
    """The places of the taps that begin at ``name``, held inside of the image."""
    if mode == "nearest":
        return [name]
    reach = (0, 1) if mode == "bilinear" else (-1, 0, 1, 2)
    return [
        f"({name} + {n} < 0 ? 0 : {name} + {n} >= {size} ? {size} - 1 : {name} + {n})"
        for n in reach
    ]


def _kernel(at: Site) -> None:
    x, y = at.operands[0], at.results[0]
    mode, kind = at.attrs["mode"], x.compute
    sizes: dict[str, Poly | int] = {
        "IH": x.type.sizes[2], "IW": x.type.sizes[3], "OH": y.type.sizes[2], "OW": y.type.sizes[3],
    }  # fmt: skip
    count = TAPS[mode]
    down, across = (
        _place(kind, mode, out, size, total, name)
        for out, size, total, name in (("oh", "IH", "OH", "v"), ("ow", "IW", "OW", "h"))
    )
    rows = "\n".join(f"const i64 v_p{n} = {p};" for n, p in enumerate(_taps(mode, "v", "IH")))
    columns = _taps(mode, "h", "IW")
    if at.target == "cuda":
        lines = []
        for m in range(count):
            parts = [f"h_{n} * " * (count > 1) + x.load(f"(plane * IH + v_p{m}) * IW + h_p{n}")
                     for n in range(count)]  # fmt: skip
            total = " + ".join(parts)
            lines.append(f"v_{m} * ({total})" if count > 1 else total)
        places = "\n".join(f"const i64 h_p{n} = {p};" for n, p in enumerate(columns))
        text = f"""\
const i64 ow = i % OW, oh = i / OW % OH, plane = i / (OW * OH);
{down}
{rows}
{across}
{places}
{y.store("i", " + ".join(lines))}"""
        work = number(count * count)
        at.part(text, elements(y.type), before=declared(at, sizes, text), work=work)
        return
    # What the columns read is found once for each chunk of rows; a row is first put together from
    # the rows of the image that it lies between.
    table = f"{kind} *RS weight = ({kind} *){at.scratch};\n"
    pad = "((OW + 15) / 16 * 16)"
    table += f"{kind} *RS line = weight + {count} * {pad};\n"
    table += "i64 *RS place = (i64 *)(line + (IW + 15) / 16 * 16);\n"
    store = [f"place[{n} * {pad} + ow] = {p};" for n, p in enumerate(columns)]
    if count > 1:
        store += [f"weight[{n} * {pad} + ow] = h_{n};" for n in range(count)]
    table += f"for (i64 ow = 0; ow < OW; ow++) {{\n{across}\n" + "\n".join(store) + "\n}"
    line = [x.load(f"(plane * IH + v_p{n}) * IW + c") for n in range(count)]
    mixed = " + ".join(f"v_{n} * {e}" for n, e in enumerate(line)) if count > 1 else line[0]
    parts = [f"line[place[{n} * {pad} + ow]]" for n in range(count)]
    total = parts[0]
    if count > 1:
        total = " + ".join(f"weight[{n} * {pad} + ow] * {e}" for n, e in enumerate(parts))
    text = f"""\
const i64 oh = i % OH, plane = i / OH;
{down}
{rows}
#pragma omp simd
for (i64 c = 0; c < IW; c++) line[c] = {mixed};
#pragma omp simd
for (i64 ow = 0; ow < OW; ow++) {y.store("i * OW + ow", total)}"""
    width, source = y.type.sizes[3], x.type.sizes[3]
    at.part(
        text,
        product(y.type.sizes[:3]),
        before=declared(at, sizes, text + table) + "\n" + table,
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
