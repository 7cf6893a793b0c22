"""Convolutions over two or three spatial dims, and the transposed one.

The images are channels-last (NHWC, with filters RSCF) or channels-first (NCHW, with filters FCRS);
the public functions bring other filters into the order that belongs to the image. A convolution
that only mixes channels is a product of matrices, and becomes one; others have kernels of their
own, which ``convolution_kernels`` writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ShapeError
from maxlab.ir import Op, Poly, Shape, StaticDim, TensorType, Type, Value, from_poly
from maxlab.ir.types import Typed
from maxlab.opset.attributes import BOOL, INT, INTS, Schema
from maxlab.opset.builder import Ops, one
from maxlab.opset.convolution_kernels import write_joined, write_transposed, write_windows
from maxlab.opset.core import (
    Array,
    Attrs,
    Call,
    Check,
    Cost,
    Sample,
    define,
    elements,
)
from maxlab.opset.facts import foreign_names
from maxlab.opset.rules import same_device, same_dtype
from maxlab.opset.windows import (
    known,
    number,
    product,
    require_counts,
    require_numbers,
    require_rank,
    require_some,
    size_checks,
    wide,
)

AXES = {2: ("height", "width"), 3: ("depth", "height", "width")}
IMAGE = {2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
FILTER = {2: ("RSCF", "FCRS"), 3: ("QRSCF", "FCQRS")}


# ---------------------------------------------------------------- types
def _parts(type: TensorType, first: bool) -> tuple[Poly, Poly, tuple[Poly, ...]]:
    """Batch, channels and spatial sizes of an image."""
    sizes = type.sizes
    return (sizes[0], sizes[1], sizes[2:]) if first else (sizes[0], sizes[-1], sizes[1:-1])


def _filter_parts(type: Typed, first: bool) -> tuple[Poly, Poly, tuple[Poly, ...]]:
    """Channels in, channels out and spatial sizes of a filter."""
    sizes = type.sizes
    return (sizes[1], sizes[0], sizes[2:]) if first else (sizes[-2], sizes[-1], sizes[:-2])


def _common(what: str, types: Sequence[TensorType], attrs: Attrs, rank: int) -> None:
    """The demands that all convolutions make."""
    first = attrs["channels_first"]
    require_numbers(what, types[0])
    require_rank(what, "the input", types[0], rank + 2, IMAGE[rank][first])
    require_rank(what, "the filter", types[1], rank + 2, FILTER[rank][first])
    same_dtype(what, types)
    same_device(what, types)
    require_counts(what, "stride", attrs["stride"], rank, 1)
    require_counts(what, "dilation", attrs["dilation"], rank, 1)
    require_counts(what, "padding", attrs["padding"], 2 * rank, 0)


def _bias(what: str, types: Sequence[TensorType], channels: Poly) -> None:
    if len(types) < 3:
        return
    require_rank(what, "the bias", types[2], 1, "one number for each channel of the result")
    if types[2].sizes[0] != channels:
        raise ShapeError(
            "ML369",
            f"{what}: the bias has {types[2].shape[0]} elements, the result {channels} channels",
            fix="the bias must have one element for each channel of the result",
        )


def _infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    rank = len(attrs["stride"])
    what, first = f"conv{rank}d", attrs["channels_first"]
    _common(what, types, attrs, rank)
    (groups,) = require_counts(what, "groups", attrs["groups"], 1, 1)
    _, channels, image = _parts(types[0], first)
    depth, filters, window = _filter_parts(types[1], first)
    if channels != depth * number(groups):
        times = f", in {groups} groups," if groups > 1 else ""
        raise ShapeError(
            "ML369",
            f"{what}: the input has {channels} channels, the filter{times} needs "
            f"{depth * number(groups)}",
            fix=f"the input ({IMAGE[rank][first]}) must have groups * C channels, of a filter "
            f"that is {FILTER[rank][first]}",
        )
    if filters.is_constant and filters.value % groups:
        raise ShapeError(
            "ML369",
            f"{what}: {filters} channels of the result cannot be cut into {groups} groups",
            fix="groups must divide the filter's F",
        )
    _bias(what, types, filters)
    spatial = []
    for n, axis in enumerate(AXES[rank]):
        before, after = attrs["padding"][2 * n : 2 * n + 2]
        padded = image[n] + number(before + after)
        require_some(what, f"window {axis}", window[n], "the filter is empty")
        reach = (window[n] - number(1)) * number(attrs["dilation"][n]) + number(1)
        size = (padded - reach).floordiv(number(attrs["stride"][n])) + number(1)
        why = f"the window reaches over {reach} of {padded} elements, the padding among them"
        spatial.append(require_some(what, axis, size, why))
    batch_dim = types[0].shape[0]
    out = types[1].shape[0 if first else -1]
    shape = [batch_dim, out, *spatial] if first else [batch_dim, *spatial, out]
    return [TensorType(types[0].dtype, shape, types[0].device)]


def _checks(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    what = f"conv{len(attrs['stride'])}d"
    (result,) = results
    assert isinstance(result, TensorType)
    found = size_checks(what, operands, result.shape)
    _, filters, window = _filter_parts(operands[1], attrs["channels_first"])
    for size in window:
        if not size.is_constant:
            found.append(Check(number(1), "<=", size, f"{what}: the filter is empty"))
    groups = number(attrs["groups"])
    if not filters.is_constant and filters.floordiv(groups) * groups != filters:
        text = f"{what}: the channels {filters} of the result must be divisible by {groups}"
        found.append(Check(filters.floordiv(groups) * groups, "==", filters, text))
    return found


# ---------------------------------------------------------------- references
def _last(x: Array, first: bool) -> Array:
    return np.moveaxis(x, 1, -1) if first else x


def _reference(call: Call, x: Array, w: Array, bias: Array | None = None) -> Array:
    attrs = call.attrs
    first, groups = attrs["channels_first"], attrs["groups"]
    x, w = _last(wide(x), first), wide(w)
    if first:
        w = np.moveaxis(w, (0, 1), (-1, -2))  # [..., C, F]
    pads = attrs["padding"]
    x = np.pad(x, [(0, 0), *zip(pads[::2], pads[1::2], strict=True), (0, 0)])
    shape = call.shapes[0]
    out = shape[2:] if first else shape[1:-1]
    depth, filters = w.shape[-2:]
    total = np.zeros((x.shape[0], *out, groups, filters // groups), x.dtype)
    for tap in np.ndindex(*w.shape[:-2]):
        starts = [t * attrs["dilation"][n] for n, t in enumerate(tap)]
        steps = attrs["stride"]
        cuts = [slice(a, a + (size - 1) * s + 1, s)
                for a, size, s in zip(starts, out, steps, strict=True)]  # fmt: skip
        part = x[(slice(None), *cuts)].reshape(x.shape[0], *out, groups, depth)
        weights = w[tap].reshape(depth, groups, filters // groups)
        total += np.einsum("...gc,cgf->...gf", part, weights)
    made = total.reshape(x.shape[0], *out, filters)
    if bias is not None:
        made = made + wide(bias)
    return np.moveaxis(made, -1, 1) if first else made


def _cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    depth, _, window = _filter_parts(operands[1], attrs["channels_first"])
    each = depth * product(window) * number(2) + number(len(operands) - 2)  # and the bias
    return Cost(elements(results[0]) * each)


def _terms(arrays: Sequence[Array], attrs: Attrs) -> int:
    shape = arrays[1].shape
    channels = shape[0] if attrs["channels_first"] else shape[-1]
    return int(arrays[1].size // max(channels, 1) + 1)


# ---------------------------------------------------------------- lowering
def _is_product(operands: Sequence[Value], attrs: Attrs) -> bool:
    """Whether a convolution only mixes the channels of each pixel, so that it is a product."""
    x, w, *bias = (v.tensor_type for v in operands)
    _, _, window = _filter_parts(w, attrs["channels_first"])
    plain = all(known(size) == 1 for size in window) and attrs["groups"] == 1
    unmoved = set(attrs["stride"]) == {1} and not any(attrs["padding"])
    if not (plain and unmoved) or (bias and x.dtype.size_in_bytes < 4):
        return False  # a product of halves is rounded before the bias could be added
    # With the channels first the image is the right operand, which the CPU has to pack for each
    # one of the batch; the kernel of windows does that in parallel.
    return not attrs["channels_first"] or x.device.is_gpu()


def _is_finished(image: Typed) -> bool:
    """Whether the kernel calls what follows a convolution of ``image``, which has the channels
    last: on the CPU, of float32."""
    return image.dtype is DType.float32 and not image.device.is_gpu()


def _finishes(op: Op) -> bool:
    return not op.attrs["channels_first"] and _is_finished(op.operands[0].tensor_type)


def _decompose(b: Ops[Value], op: Op) -> Value:
    if not op.attrs["channels_first"]:
        return _of_last(b, op.operands, op.attrs)
    if not _is_product(op.operands, op.attrs):
        return one(b, "conv.window", op.operands, **op.attrs)
    x, w, *bias = op.operands
    image, result = x.tensor_type, op.result.tensor_type
    depth, count = w.tensor_type.shape[1], w.tensor_type.shape[0]
    pixels = product(image.sizes[2:])
    rows = one(b, "reshape", [x], shape=Shape([image.shape[0], depth, from_poly(pixels)]))
    filters = one(b, "reshape", [w], shape=Shape([count, depth]))
    made = one(b, "matmul", [filters, rows])
    if bias:
        column = one(b, "reshape", [bias[0]], shape=Shape([count, StaticDim(1)]))
        made = one(b, "add", [made, column])
    return one(b, "reshape", [made], shape=Shape(result.shape))


def _of_last(b: Ops[Value], operands: Sequence[Value], attrs: Attrs) -> Value:
    """The convolution of an image that has its channels last."""
    x, w, *bias = operands
    if _is_product(operands, attrs):
        filters = one(b, "reshape", [w], shape=Shape(w.tensor_type.shape[-2:]))
        made = one(b, "matmul", [x, filters])
    elif bias and not _is_finished(x.tensor_type):
        return one(b, "conv.window", operands, **attrs)
    else:  # the bias is added with whatever else follows, in one pass
        made = one(b, "conv.window", [x, w], **attrs)
    return one(b, "add", [made, bias[0]]) if bias else made


def _turned(b: Ops[Value], op: Op, image: Value) -> Value:
    """The result of ``op``, which has the channels first, for its image with them last."""
    _, filter, *bias = op.operands
    order = (*range(2, filter.tensor_type.rank), 1, 0)
    turned = one(b, "permute", [filter], dims=order)
    return _of_last(b, [image, turned, *bias], {**op.attrs, "channels_first": False})


# ---------------------------------------------------------------- samples
def _attrs(rank: int, first: bool = False, **more: Any) -> dict[str, Any]:
    plain = {"stride": (1,) * rank, "dilation": (1,) * rank, "padding": (0,) * 2 * rank}
    return {**plain, "groups": 1, "channels_first": first, **more}


def _samples() -> list[Sample]:
    rng = np.random.default_rng(31)

    def f(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    def turned(x: Array, w: Array, *bias: Array) -> tuple[Array, ...]:
        """The same with the channels first."""
        return np.moveaxis(x, -1, 1).copy(), np.moveaxis(w, (-1, -2), (0, 1)).copy(), *bias

    found: list[Sample] = []

    def both(label: str, arrays: tuple[Array, ...], shapes: Any = None, **attrs: Any) -> None:
        rank = arrays[0].ndim - 2
        named = shapes
        found.append(Sample(arrays, _attrs(rank, **attrs), named, label))
        if named is not None:
            x, w, *rest = named
            named = ((x[0], x[-1], *x[1:-1]), (w[-1], w[-2], *w[:-2]), *rest)
        arrays = turned(*arrays)
        found.append(Sample(arrays, _attrs(rank, True, **attrs), named, f"{label} first"))

    free = (("n", "h", "w", 5), (3, 2, 5, 33))
    named = (("n", "h", "w", "c"), ("r", "s", "c", "f"))
    same = {"padding": (1, 1, 1, 1)}
    both("3x2", (f(2, 7, 6, 5), f(3, 2, 5, 33)), free)
    both("bias", (f(2, 7, 6, 5), f(3, 3, 5, 32), f(32)), (("n", "h", "w", 5), (3, 3, 5, 32), (32,)),
         **same)  # fmt: skip
    both("all symbolic", (f(1, 8, 7, 3), f(2, 3, 3, 18)), named,
         padding=(1, 0, 2, 1), stride=(2, 3))  # fmt: skip
    both("stride", (f(1, 11, 9, 3), f(3, 3, 3, 16)), padding=(1, 0, 2, 1), stride=(2, 3))
    both("dilation", (f(1, 11, 12, 4), f(3, 2, 4, 40)), padding=(2, 2, 1, 0), dilation=(2, 3))
    both("stride dilation", (f(1, 13, 12, 2), f(3, 3, 2, 17), f(17)), padding=(2, 1, 3, 2),
         dilation=(2, 3), stride=(3, 2))  # fmt: skip
    both("groups", (f(2, 6, 7, 12), f(3, 3, 4, 48), f(48)),
         (("n", "h", 7, 12), (3, 3, 4, 48), (48,)), groups=3, **same)  # fmt: skip
    both("small groups", (f(2, 6, 7, 8), f(3, 3, 2, 4)), groups=4, padding=(1, 0, 0, 1))
    both("depthwise", (f(2, 6, 7, 20), f(3, 3, 1, 20), f(20)), groups=20, stride=(1, 2), **same)
    both("depthwise wide", (f(1, 5, 31, 27), f(3, 5, 1, 27)), groups=27, dilation=(1, 2),
         padding=(1, 1, 4, 4))  # fmt: skip
    both("depthwise of free pixels", (f(2, 6, 17, 24), f(3, 3, 1, 24)),
         (("n", "h", "w", 24), (3, 3, 1, 24)), groups=24, stride=(2, 2), **same)  # fmt: skip
    both("depthwise twice", (f(1, 5, 5, 6), f(3, 3, 1, 12)), groups=6)
    both("pointwise", (f(2, 5, 9, 24), f(1, 1, 24, 40), f(40)),
         (("n", "h", 9, 24), (1, 1, 24, 40), (40,)))  # fmt: skip
    both("pointwise stride", (f(2, 5, 9, 24), f(1, 1, 24, 40)), stride=(2, 2))
    both("wide", (f(1, 20, 23, 16), f(3, 3, 16, 70)), **same)
    both("empty", (f(0, 5, 5, 3), f(3, 3, 3, 16)))
    both("no channels", (f(1, 4, 4, 0), f(3, 3, 0, 16), f(16)))
    both("3d", (f(2, 5, 6, 7, 3), f(3, 2, 3, 3, 18), f(18)),
         (("n", "d", "h", "w", 3), (3, 2, 3, 3, 18), (18,)), padding=(1, 1, 0, 1, 1, 0),
         stride=(1, 2, 1), dilation=(1, 1, 2))  # fmt: skip
    both("3d groups", (f(1, 4, 5, 6, 4), f(2, 2, 2, 2, 6)), groups=2)
    for dtype in (DType.float64, DType.float16, DType.bfloat16):
        arrays = tuple(a.astype(dtype.ml_numpy) for a in (f(1, 6, 5, 4), f(3, 3, 4, 9), f(9)))
        both(dtype.name, arrays, padding=(1, 0, 1, 1), stride=(1, 2))
    half = tuple(a.astype(np.float16) for a in (f(1, 6, 5, 4), f(1, 1, 4, 9)))
    both("pointwise f16", half)
    for kind in ("int8", "uint8", "int32", "int64"):
        whole = tuple(rng.integers(0, 100, s).astype(kind) for s in ((1, 5, 5, 2), (3, 3, 2, 4)))
        both(kind, whole, padding=(1, 1, 0, 0))
    return found


ATTRIBUTES: Schema = {
    "stride": INTS,
    "dilation": INTS,
    "padding": INTS,
    "groups": INT,
    "channels_first": BOOL,
}
define(
    "conv",
    "composite",
    "spatial",
    "The convolution of images with a filter.",
    attrs=ATTRIBUTES,
    foreign=foreign_names("convolution", "Conv"),
    infer=_infer,
    reference=_reference,
    decompose=_decompose,
    checks=_checks,
    cost=_cost,
    terms=_terms,
    samples=_samples,
)
define(
    "conv.window",
    "kernel",
    "spatial",
    "A convolution whose windows are read where they lie.",
    attrs=ATTRIBUTES,
    infer=_infer,
    reference=_reference,
    kernel=write_windows,
    finishes=_finishes,
    channels_last=_turned,
    joined="conv.joined",
    checks=_checks,
    cost=_cost,
    terms=_terms,
    samples=_samples,
)


# ---------------------------------------------------------------- of two images
def _whole(types: Sequence[TensorType]) -> list[TensorType]:
    """The image that two images are, the channels of the second behind those of the first, and the
    filter."""
    left, right, filter = types
    require_rank("conv.joined", "the second input", right, left.rank, IMAGE[left.rank - 2][False])
    same_dtype("conv.joined", types)
    same_device("conv.joined", types)
    if left.sizes[:-1] != right.sizes[:-1]:
        raise ShapeError(
            "ML369",
            f"conv.joined: images of {left.shape} and {right.shape} have other pixels",
            fix="only their channels, the last dim, may differ in number",
        )
    channels = from_poly(left.sizes[-1] + right.sizes[-1])
    return [TensorType(left.dtype, [*left.shape[:-1], channels], left.device), filter]


def _joined_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    return _infer(_whole(types), attrs)


def _joined_reference(call: Call, left: Array, right: Array, w: Array) -> Array:
    return _reference(call, np.concatenate([left, right], -1), w)


def _joined_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    return _checks(_whole(operands), results, attrs)


def _joined_cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    return _cost(_whole(operands), results, attrs)


def _joined_terms(arrays: Sequence[Array], attrs: Attrs) -> int:
    return _terms(arrays[1:], attrs)


def _joined_samples() -> list[Sample]:
    """The samples of one image of more channels than one, cut in two."""
    found = []
    for sample in _samples():
        (x, w, *bias), attrs = sample.arrays, sample.attrs
        if attrs["channels_first"] or bias or attrs["groups"] > 1 or x.shape[-1] < 2:
            continue
        cut = x.shape[-1] // 2
        arrays = (x[..., :cut].copy(), x[..., cut:].copy(), w)
        shapes = None
        if sample.shapes is not None and not isinstance(sample.shapes[0][-1], str):
            lead, window = sample.shapes[0][:-1], sample.shapes[1]
            shapes = ((*lead, cut), (*lead, x.shape[-1] - cut), window)
        found.append(Sample(arrays, attrs, shapes, sample.label))
    return found


define(
    "conv.joined",
    "kernel",
    "spatial",
    "The convolution of the channels of two images, those of the second behind the first's.",
    attrs=ATTRIBUTES,
    infer=_joined_infer,
    reference=_joined_reference,
    kernel=write_joined,
    finishes=_finishes,
    checks=_joined_checks,
    cost=_joined_cost,
    terms=_joined_terms,
    samples=_joined_samples,
)


# ---------------------------------------------------------------- transposed
def _transposed_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    what = "conv2d_transpose"
    _common(what, types, attrs, 2)
    _, channels, image = _parts(types[0], False)
    depth, filters, window = _filter_parts(types[1], False)
    if channels != depth:
        raise ShapeError(
            "ML369",
            f"{what}: the input has {channels} channels, the filter needs {depth}",
            fix="the filter is (height, width, out_channels, in_channels) in the layout RSCF",
        )
    _bias(what, types, filters)
    spatial = []
    for n, axis in enumerate(AXES[2]):
        before, after = attrs["padding"][2 * n : 2 * n + 2]
        require_some(what, f"window {axis}", window[n], "the filter is empty")
        reach = (window[n] - number(1)) * number(attrs["dilation"][n]) + number(1)
        spread = (image[n] - number(1)) * number(attrs["stride"][n]) + reach
        size = spread - number(before + after)
        why = f"{spread} elements, of which the padding cuts {before + after}"
        spatial.append(require_some(what, axis, size, why))
    shape = [types[0].shape[0], *spatial, types[1].shape[-1]]
    return [TensorType(types[0].dtype, shape, types[0].device)]


def _transposed_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    (result,) = results
    assert isinstance(result, TensorType)
    return size_checks("conv2d_transpose", operands, result.shape)


def _transposed(call: Call, x: Array, w: Array, bias: Array | None = None) -> Array:
    attrs = call.attrs
    (sh, sw), (dh, dw), pads = attrs["stride"], attrs["dilation"], attrs["padding"]
    x, w = wide(x), wide(w)
    count, height, width, _ = x.shape
    rows, columns, _, filters = w.shape
    _, out_h, out_w, _ = call.shapes[0]
    full = np.zeros((count, out_h + pads[0] + pads[1], out_w + pads[2] + pads[3], filters), x.dtype)
    for r, s in np.ndindex(rows, columns):
        if x.size:
            full[:, r * dh : r * dh + (height - 1) * sh + 1 : sh,
                 s * dw : s * dw + (width - 1) * sw + 1 : sw] += x @ w[r, s]  # fmt: skip
    made = full[:, pads[0] : pads[0] + out_h, pads[2] : pads[2] + out_w]
    return made if bias is None else made + wide(bias)


def _transposed_cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    _, filters, window = _filter_parts(operands[1], False)
    return Cost(elements(operands[0]) * filters * product(window) * number(2))


def _transposed_samples() -> list[Sample]:
    rng = np.random.default_rng(32)

    def f(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    def made(label: str, arrays: tuple[Array, ...], shapes: Any = None, **more: Any) -> Sample:
        attrs = _attrs(2, **more)
        del attrs["groups"]
        return Sample(arrays, attrs, shapes, label)

    found = [
        made("plain", (f(2, 4, 5, 3), f(3, 2, 3, 17)), (("n", "h", "w", 3), (3, 2, 3, 17))),
        made("bias", (f(2, 4, 5, 3), f(3, 2, 3, 17), f(17)),
             (("n", "h", "w", 3), (3, 2, 3, 17), (17,)), stride=(2, 2), padding=(1, 0, 0, 1)),
        made("all symbolic", (f(2, 4, 5, 3), f(3, 3, 3, 8)),
             (("n", "h", "w", "c"), ("r", "s", "c", "f")), stride=(2, 3), padding=(1, 1, 1, 0)),
        made("stride", (f(1, 5, 4, 6), f(4, 4, 6, 32)), stride=(2, 2), padding=(1, 1, 1, 1)),
        made("side by side", (f(2, 3, 17, 6), f(2, 3, 6, 35), f(35)), stride=(2, 3)),
        made("side by side, symbolic", (f(2, 3, 4, 6), f(2, 2, 6, 16)),
             (("n", "h", "w", 6), (2, 2, 6, 16)), stride=(2, 2)),
        made("gaps", (f(1, 3, 3, 2), f(2, 1, 2, 5)), stride=(3, 2)),
        made("dilation", (f(1, 5, 4, 6), f(3, 2, 6, 9)), dilation=(2, 3), stride=(1, 2)),
        made("dilation stride", (f(1, 5, 4, 6), f(3, 3, 6, 9), f(9)), dilation=(2, 2),
             stride=(2, 2), padding=(2, 1, 1, 2)),
        made("empty", (f(0, 3, 3, 2), f(2, 2, 2, 5))),
        made("no channels", (f(1, 3, 3, 0), f(2, 2, 0, 5), f(5))),
    ]  # fmt: skip
    for dtype in (DType.float64, DType.float16, DType.bfloat16):
        arrays = tuple(a.astype(dtype.ml_numpy) for a in (f(1, 4, 3, 4), f(3, 3, 4, 9), f(9)))
        found.append(made(dtype.name, arrays, stride=(2, 1), padding=(1, 0, 0, 0)))
    for kind in ("uint8", "int32", "int64"):
        whole = tuple(rng.integers(0, 100, s).astype(kind) for s in ((1, 4, 4, 2), (3, 3, 2, 4)))
        found.append(made(kind, whole, stride=(2, 2)))
    return found


define(
    "conv_transpose",
    "kernel",
    "spatial",
    "The transposed convolution of images with a filter [R, S, in, out].",
    attrs={"stride": INTS, "dilation": INTS, "padding": INTS, "channels_first": BOOL},
    foreign=foreign_names("conv_transpose2d", "ConvTranspose"),
    infer=_transposed_infer,
    reference=_transposed,
    checks=_transposed_checks,
    kernel=write_transposed,
    cost=_transposed_cost,
    terms=_terms,
    samples=_transposed_samples,
)
