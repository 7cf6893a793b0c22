"""Windows that are folded to one number, the largest or the mean, and blocks laid back into an
image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ShapeError
from maxlab.ir import Dim, Poly, TensorType, Type, from_poly
from maxlab.opset.attributes import BOOL, DIMS, INTS
from maxlab.opset.core import Array, Attrs, Call, Check, Checks, Cost, Sample, define, elements
from maxlab.opset.facts import foreign_names
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.rules import require_float
from maxlab.opset.windows import (
    number,
    product,
    require_counts,
    require_numbers,
    require_rank,
    require_some,
    size_checks,
    wide,
)

AXES = ("height", "width")
MOST_WRITTEN = 16
"""Elements of a window up to which each has a statement of its own."""


# ---------------------------------------------------------------- pools
def pooled(size: Poly, window: int, stride: int, dilation: int, padding: int, ceil: bool) -> Poly:
    """How many windows there are along an axis.

    With ``ceil`` the last one may reach beyond the padding, but has to begin before it.
    """
    reach = dilation * (window - 1) + 1
    free = size + number(2 * padding - reach)
    if not ceil:
        return free.floordiv(number(stride)) + number(1)
    if reach - padding >= stride:  # then none can begin in the padding behind
        return (free + number(stride - 1)).floordiv(number(stride)) + number(1)
    return (size + number(padding - 1)).floordiv(number(stride)) + number(1)


def _demands(what: str, attrs: Attrs) -> None:
    kernel = require_counts(what, "kernel_size", attrs["kernel_size"], 2, 1)
    require_counts(what, "stride", attrs["stride"], 2, 1)
    dilation = require_counts(what, "dilation", attrs["dilation"], 2, 1)
    padding = require_counts(what, "padding", attrs["padding"], 2, 0)
    for size, apart, pad in zip(kernel, dilation, padding, strict=True):
        reach = apart * (size - 1) + 1
        if 2 * pad > reach:
            raise ArgumentError(
                "ML373",
                f"{what}: a padding of {pad} is more than half of a window that reaches over "
                f"{reach}",
                fix="some windows would see the padding alone: pad less, or use ops.pad",
            )


def _pool_infer(what: str, types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    require_rank(what, "the input", x, 4, "NHWC")
    _demands(what, attrs)
    spatial = []
    for n, axis in enumerate(AXES):
        window, stride, dilation, padding = (
            attrs[name][n] for name in ("kernel_size", "stride", "dilation", "padding")
        )
        ceil = attrs["ceil_mode"]
        size = pooled(x.sizes[n + 1], window, stride, dilation, padding, ceil)
        why = f"the window does not fit into {x.shape[n + 1]} elements and their padding"
        spatial.append(require_some(what, axis, size, why))
    return [TensorType(x.dtype, [x.shape[0], *spatial, x.shape[3]], x.device)]


def _max_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    require_numbers("max_pool2d", types[0])
    return _pool_infer("max_pool2d", types, attrs)


def _avg_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    require_float("avg_pool2d", types[0])
    return _pool_infer("avg_pool2d", types, attrs)


def _taps(attrs: Attrs, axis: int, count: int) -> Array:
    """The places that each of ``count`` windows looks at: [windows, taps]."""
    starts = np.arange(count) * attrs["stride"][axis] - attrs["padding"][axis]
    taps = np.arange(attrs["kernel_size"][axis]) * attrs["dilation"][axis]
    return np.asarray(starts[:, None] + taps)


def _looked_at(call: Call, x: Array) -> tuple[Array, Array]:
    """The elements of each window, [N, OH, OW, taps, C], and whether they lie in the image."""
    _, height, width, _ = x.shape
    rows = _taps(call.attrs, 0, call.shapes[0][1])[:, None, :, None]
    columns = _taps(call.attrs, 1, call.shapes[0][2])[None, :, None, :]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    at = np.clip(rows, 0, max(height - 1, 0)), np.clip(columns, 0, max(width - 1, 0))
    seen = (
        x[:, at[0], at[1]]
        if height and width
        else np.zeros((x.shape[0], *inside.shape, x.shape[3]))
    )
    flat = (*inside.shape[:2], inside.shape[2] * inside.shape[3])
    return seen.reshape(x.shape[0], *flat, x.shape[3]), inside.reshape(*flat, 1)


def lowest(dtype: DType) -> float | int:
    """A value below every other of ``dtype``, or equal to the least."""
    if dtype.is_float():
        return float("-inf")
    return int(np.iinfo(dtype.ml_numpy).min)


def _max(call: Call, x: Array) -> Array:
    seen, inside = _looked_at(call, wide(x))
    return np.asarray(np.where(inside, seen, lowest(call.dtypes[0])).max(axis=3))


def _counts(call: Call, x: Array) -> Array:
    """By what the sum of each window is divided: [OH, OW]."""
    parts = []
    for axis in range(2):
        size = x.shape[axis + 1]
        taps = _taps(call.attrs, axis, call.shapes[0][axis + 1])
        pad = call.attrs["padding"][axis] if call.attrs["count_boundary"] else 0
        parts.append(((taps >= -pad) & (taps < size + pad)).sum(axis=1))
    return np.asarray(np.maximum(parts[0][:, None] * parts[1], 1))


def _avg(call: Call, x: Array) -> Array:
    seen, inside = _looked_at(call, wide(x))
    total = np.where(inside, seen, 0).sum(axis=3)
    return np.asarray(total / _counts(call, x)[..., None])


def _window_sizes(at: Site) -> dict[str, Poly]:
    x, y = at.operands[0].type.sizes, at.results[0].type.sizes
    found = {"NC": x[3], "IH": x[1], "IW": x[2], "OH": y[1], "OW": y[2]}
    for n, axis in enumerate("HW"):
        for letter, name in zip(
            "KSDP", ("kernel_size", "stride", "dilation", "padding"), strict=True
        ):
            found[letter + axis] = number(at.attrs[name][n])
    return found


def _pool_kernel(at: Site, start: str, *, mean: bool) -> None:
    """One pixel of all channels at a time; on a GPU, one element."""
    few = math.prod(at.attrs["kernel_size"]) <= MOST_WRITTEN and at.target != "cuda"
    texts = {"START": start, "FOLDED": _folded(at, mean) if few else ""}
    kernel = OwnKernel(
        at, "pooling.c", "pool", sizes=_window_sizes(at), texts=texts, MEAN=mean, FEW=few,
        INSIDE=mean and not at.attrs["count_boundary"],
    )  # fmt: skip
    kernel.write(**({} if at.target == "cuda" else {"extent": _pixels(at)}))


def _folded(at: Site, mean: bool) -> str:
    """The statements that fold the elements of a window, which begins at ``from``, to ``v``: one
    behind the other, so that a loop over channels around them becomes one of vectors."""
    x = at.operands[0]
    height, width = at.attrs["kernel_size"]
    lines: list[str] = []
    for r, s in np.ndindex(height, width):
        element = x.load(f"from + ({r} * DH * IW + {s} * DW) * NC + c")
        if not lines:
            lines.append(f"{x.compute} v = {element};")
        elif mean:
            lines.append(f"v += {element};")
        elif x.dtype.is_float():
            lines.append(f"v = mx_max_{x.compute}(v, {element});")
        else:
            lines.append(f"v = {element} > v ? {element} : v;")
    return " ".join(lines)


def _pixels(at: Site) -> Poly:
    """Elements of the result but for its last axis."""
    return product(at.results[0].type.sizes[:3])


def _max_kernel(at: Site) -> None:
    dtype = at.operands[0].dtype
    _pool_kernel(at, at.literal(lowest(dtype), dtype), mean=False)


def _avg_kernel(at: Site) -> None:
    _pool_kernel(at, "0", mean=True)


def _pool_cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    height, width = attrs["kernel_size"]
    return Cost(elements(results[0]) * number(height * width))


def _pool_samples(floats: bool) -> list[Sample]:
    rng = np.random.default_rng(33)
    found: list[Sample] = []
    plain = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0), "ceil_mode": False}
    if floats:
        plain["count_boundary"] = True
    named = ("n", "h", "w", 5)

    def add(label: str, shape: tuple[int, ...], symbolic: bool = False, **more: Any) -> None:
        x = rng.standard_normal(shape).astype(np.float32)
        attrs = {**plain, "kernel_size": (3, 2), **more}
        found.append(Sample((x,), attrs, (named,) if symbolic else None, label))

    add("plain", (2, 7, 6, 5), True)
    add("stride padding", (2, 7, 6, 5), True, stride=(2, 3), padding=(1, 1))
    add("ceil", (2, 8, 7, 5), True, stride=(2, 3), padding=(1, 0), ceil_mode=True)
    add("ceil past", (1, 5, 6, 5), True, kernel_size=(2, 3), stride=(3, 3), padding=(1, 1),
        ceil_mode=True)  # fmt: skip
    add("ceil wide", (1, 5, 6, 5), True, kernel_size=(1, 2), stride=(4, 5), ceil_mode=True)
    add("dilation", (1, 9, 9, 4), dilation=(2, 3), padding=(2, 1), stride=(1, 2))
    add("resnet", (1, 12, 12, 33), kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))
    add("large", (1, 9, 8, 18), kernel_size=(5, 4), stride=(2, 1), padding=(2, 1))
    add("empty", (0, 5, 5, 2))
    if floats:
        add("valid only", (2, 7, 6, 5), True, padding=(1, 1), count_boundary=False)
        add("valid ceil", (2, 5, 6, 5), True, padding=(1, 1), stride=(2, 2), ceil_mode=True,
            count_boundary=False)  # fmt: skip
    special = rng.standard_normal((1, 5, 5, 3)).astype(np.float32)
    special[0, 1, 2] = np.nan
    if not floats:
        special[0, 3, 3] = -np.inf
    found.append(Sample((special,), {**plain, "kernel_size": (2, 2)}, label="special"))
    x = rng.standard_normal((1, 6, 5, 4))
    attrs = {**plain, "kernel_size": (3, 3), "padding": (1, 1), "stride": (2, 1)}
    floating = (DType.float64, DType.float16, DType.bfloat16)
    found += [Sample((x.astype(d.ml_numpy),), attrs, label=d.name) for d in floating]
    if not floats:
        for kind in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
            whole = rng.integers(0, 100, (1, 6, 5, 4)).astype(kind)
            whole = whole - 50 if kind[0] == "i" else whole
            found.append(Sample((whole.astype(kind),), attrs, label=kind))
    return found


def _pool_checks(what: str) -> Checks:
    def checks(
        operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
    ) -> list[Check]:
        (result,) = results
        assert isinstance(result, TensorType)
        return size_checks(what, operands, result.shape)

    return checks


define(
    "max_pool2d",
    "kernel",
    "spatial",
    "The largest element of each window.",
    attrs={
        "kernel_size": INTS,
        "stride": INTS,
        "dilation": INTS,
        "padding": INTS,
        "ceil_mode": BOOL,
    },
    family="reduce",
    foreign=foreign_names("max_pool2d", "MaxPool"),
    infer=_max_infer,
    reference=_max,
    checks=_pool_checks("max_pool2d"),
    kernel=_max_kernel,
    cost=_pool_cost,
    samples=lambda: _pool_samples(False),
)
define(
    "avg_pool2d",
    "kernel",
    "spatial",
    "The mean of each window.",
    attrs={
        "kernel_size": INTS,
        "stride": INTS,
        "dilation": INTS,
        "padding": INTS,
        "ceil_mode": BOOL,
        "count_boundary": BOOL,
    },
    family="reduce",
    foreign=foreign_names("avg_pool2d", "AveragePool"),
    infer=_avg_infer,
    reference=_avg,
    checks=_pool_checks("avg_pool2d"),
    kernel=_avg_kernel,
    cost=_pool_cost,
    samples=lambda: _pool_samples(True),
    terms=lambda arrays, attrs: attrs["kernel_size"][0] * attrs["kernel_size"][1],
)


# ---------------------------------------------------------------- fold
def _blocks(attrs: Attrs, size: Sequence[Dim]) -> tuple[Poly, Poly]:
    """How many blocks there are along each axis of the image."""
    found = []
    for n in range(2):
        reach = attrs["dilation"][n] * (attrs["kernel_size"][n] - 1) + 1
        free = size[n].poly + number(2 * attrs["padding"][n] - reach)
        found.append(free.floordiv(number(attrs["stride"][n])) + number(1))
    return found[0], found[1]


def _fold_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    require_numbers("fold", x)
    require_rank("fold", "the input", x, 3, "(N, C * kernel sizes, L)")
    kernel = require_counts("fold", "kernel_size", attrs["kernel_size"], 2, 1)
    for name, least in (("stride", 1), ("dilation", 1), ("padding", 0)):
        require_counts("fold", name, attrs[name], 2, least)
    size = tuple(Dim(d) for d in attrs["output_size"])
    for axis, dim in zip(AXES, size, strict=True):
        require_some("fold", axis, dim.poly, "it is output_size")
    taps = number(kernel[0] * kernel[1])
    channels = x.sizes[1].floordiv(taps)
    if x.sizes[1].is_constant and channels * taps != x.sizes[1]:
        raise ShapeError(
            "ML374",
            f"fold: {x.shape[1]} rows are no whole number of channels of blocks of "
            f"{kernel[0]} × {kernel[1]}",
            fix="dim 1 of the input must be C * kernel_size[0] * kernel_size[1]",
        )
    high, broad = _blocks(attrs, size)
    for axis, count in zip(AXES, (high, broad), strict=True):
        require_some("fold", axis, count, "no block fits into output_size and its padding")
    if (high * broad).is_constant and x.sizes[2].is_constant and high * broad != x.sizes[2]:
        raise ShapeError(
            "ML374",
            f"fold: the input has {x.shape[2]} blocks, output_size has place for {high} × {broad}",
            fix="output_size, kernel_size, stride, dilation and padding must be those that the "
            "blocks were taken with",
        )
    return [TensorType(x.dtype, [x.shape[0], from_poly(channels), *size], x.device)]


def _fold_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    x, size = operands[0], tuple(Dim(d) for d in attrs["output_size"])
    taps = number(attrs["kernel_size"][0] * attrs["kernel_size"][1])
    high, broad = _blocks(attrs, size)
    found = []
    for count, dim in zip((high, broad), size, strict=True):
        if not count.is_constant:
            found.append(Check(number(1), "<=", count, f"fold: no block fits into {dim}"))
        if not dim.poly.is_constant:
            found.append(Check(number(1), "<=", dim.poly, f"fold: output_size {dim} is empty"))
    if high * broad != x.sizes[2]:
        text = f"fold: {x.shape[2]} blocks for {high} × {broad} places"
        found.append(Check(high * broad, "==", x.sizes[2], text))
    whole = x.sizes[1].floordiv(taps) * taps
    if whole != x.sizes[1]:
        text = f"fold: {x.shape[1]} rows are no whole number of channels of {taps} elements"
        found.append(Check(whole, "==", x.sizes[1], text))
    return found


def _fold(call: Call, x: Array) -> Array:
    attrs = call.attrs
    (kh, kw), (sh, sw) = attrs["kernel_size"], attrs["stride"]
    (dh, dw), (ph, pw) = attrs["dilation"], attrs["padding"]
    count, channels, height, width = call.shapes[0]
    high = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    broad = (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    parts = wide(x).reshape(count, channels, kh, kw, high, broad)
    full = np.zeros((count, channels, height + 2 * ph, width + 2 * pw), parts.dtype)
    for r, s in np.ndindex(kh, kw):
        rows = slice(r * dh, r * dh + (high - 1) * sh + 1, sh)
        columns = slice(s * dw, s * dw + (broad - 1) * sw + 1, sw)
        full[:, :, rows, columns] += parts[:, :, r, s]
    return full[:, :, ph : ph + height, pw : pw + width]


def _fold_kernel(at: Site) -> None:
    y = at.results[0]
    shape = y.type.sizes
    high, broad = _blocks(at.attrs, y.type.shape[2:])
    sizes: dict[str, Poly] = {
        "CH": shape[1], "OH": shape[2], "OW": shape[3], "BH": high, "BW": broad,
    }  # fmt: skip
    for n, axis in enumerate("HW"):
        for letter, name in zip(
            "KSDP", ("kernel_size", "stride", "dilation", "padding"), strict=True
        ):
            sizes[letter + axis] = number(at.attrs[name][n])
    kernel = OwnKernel(at, "pooling.c", "fold", sizes=sizes)
    kernel.write(**({} if at.target == "cuda" else {"extent": _pixels(at)}))


def _fold_samples() -> list[Sample]:
    rng = np.random.default_rng(34)

    def made(
        label: str,
        size: tuple[Any, Any],
        kernel: tuple[int, int],
        blocks: int,
        shapes: Any = None,
        dtype: DType = DType.float32,
        channels: int = 2,
        **more: Any,
    ) -> Sample:
        shape = (2, channels * kernel[0] * kernel[1], blocks)
        x = rng.standard_normal(shape) if dtype.is_float() else rng.integers(0, 50, shape)
        plain = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0)}
        attrs = {**plain, "output_size": size, "kernel_size": kernel, **more}
        return Sample((x.astype(dtype.ml_numpy),), attrs, shapes, label)

    found = [
        made("plain", (5, 6), (2, 3), 16, (("n", 12, 16),)),
        made("symbolic", (5, 6), (2, 3), 16, (("n", "c", "l"),)),
        made("stride", (7, 9), (3, 3), 16, stride=(2, 2), padding=(1, 0)),
        made("dilation", (8, 9), (3, 2), 48, dilation=(2, 3), padding=(1, 1), stride=(1, 1)),
        made("gaps", (6, 7), (1, 2), 6, stride=(3, 2)),
        made("empty", (5, 6), (2, 3), 16, channels=0),
    ]
    floating = [DType.float64, DType.float16, DType.bfloat16]
    dtypes = [*floating, DType.int8, DType.uint16, DType.int32, DType.int64]
    found += [made(d.name, (5, 5), (3, 3), 9, dtype=d) for d in dtypes]
    return found


define(
    "fold",
    "kernel",
    "spatial",
    "Blocks added up in the image that they are taken from.",
    attrs={
        "output_size": DIMS,
        "kernel_size": INTS,
        "stride": INTS,
        "dilation": INTS,
        "padding": INTS,
    },
    family="reduce",
    foreign=foreign_names("col2im", "Col2Im"),
    infer=_fold_infer,
    reference=_fold,
    checks=_fold_checks,
    kernel=_fold_kernel,
    cost=lambda operands, results, attrs: Cost(elements(operands[0])),
    samples=_fold_samples,
    terms=lambda arrays, attrs: attrs["kernel_size"][0] * attrs["kernel_size"][1],
)
