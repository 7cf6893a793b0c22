"""Ops that make or move data: constants, weights, ranges, gather, concat, pad, matmul and the end
of a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.dtype import DType, check_scalar
from maxlab.errors import ArgumentError, DTypeError, ExecutionError, ShapeError
from maxlab.ir import Constant, DeviceRef, Dim, Poly, Shape, StaticDim, TensorType, Type
from maxlab.ir.poly import ZERO
from maxlab.opset.attributes import BOOL, DEVICE, DIM, DIMS, DTYPE, INT, TEXT, TYPE, Attribute
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.elementwise import _wide
from maxlab.opset.facts import everywhere, foreign_names
from maxlab.opset.rules import (
    axis_of,
    broadcast_dims,
    require_integral,
    same_device,
    same_dtype,
    scalar_bounds,
)


# ---------------------------------------------------------------- constants
def _constant_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    data: Constant = attrs["value"]
    return [
        TensorType(DType.from_numpy(data.array.dtype), Shape(data.array.shape), attrs["device"])
    ]


define(
    "constant",
    "constant",
    "data",
    "Data kept in the graph.",
    attrs={"value": Attribute("constant"), "device": DEVICE},
    role="data",
    foreign=foreign_names(onnx="Constant"),
    infer=_constant_infer,
    reference=lambda call: call.attrs["value"].array,
)


def _external_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    return [attrs["type"]]


def _external_reference(call: Call) -> Array:
    raise ValueError(f"the weight {call.attrs['name']!r} has no data here")


define(
    "constant.external",
    "external",
    "data",
    "Data that the weights registry has under a name.",
    attrs={
        "name": TEXT,
        "type": TYPE,
        "placeholder": BOOL,
        "align": Attribute("int", optional=True),
        "of": Attribute("text", optional=True),
        "whole": Attribute("dims", optional=True),
        "part": Attribute("pairs", optional=True),
    },
    role="weight",
    shown=lambda attrs: {"weight": attrs.get("name", "")},
    infer=_external_infer,
    reference=_external_reference,
)


def _dim_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    return [TensorType(DType.int64, [], attrs.get("device", DeviceRef.CPU()))]


define(
    "dim",
    "iota",
    "data",
    "The size of a dim, a rank-0 int64; on the CPU unless a device is given.",
    attrs={"dim": DIM, "device": Attribute("device", optional=True, default=DeviceRef.CPU())},
    role="dim",
    position=lambda attrs, index: Dim(attrs["dim"]).poly,
    foreign=foreign_names("sym_size", "Size"),
    infer=_dim_infer,
    reference=lambda call: np.asarray(call.size(call.attrs["dim"]), np.int64),
    samples=lambda: [Sample((), {"dim": 7})],
)


def _iota_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    return [TensorType(attrs["dtype"], attrs["shape"], attrs["device"])]


def _iota(call: Call) -> Array:
    (shape,) = call.shapes
    axis = call.attrs["axis"]
    line = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(line, shape)


define(
    "iota",
    "iota",
    "data",
    "The index along one axis.",
    attrs={"shape": DIMS, "axis": INT, "dtype": DTYPE, "device": DEVICE},
    position=lambda attrs, index: index[attrs["axis"]],
    infer=_iota_infer,
    reference=_iota,
)


# ---------------------------------------------------------------- range
def _range_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    if types:
        scalar_bounds(types)
    return [TensorType(attrs["dtype"], [attrs["size"]], attrs["device"])]


def _range_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    """The size is not negative: the step leads from start to stop."""
    size = Dim(attrs["size"])
    if isinstance(size, StaticDim):
        return []
    return [Check(ZERO, "<=", size.poly, f"range: the size {size} is negative")]


def _range(call: Call, *bounds: Array) -> Array:
    (shape,) = call.shapes
    steps = np.arange(shape[0])
    if bounds:
        start, _, step = (_wide(b) for b in bounds)
        return np.asarray(start + steps.astype(start.dtype) * step)
    return np.asarray(call.size(call.attrs["start"]) + steps * call.size(call.attrs["step"]))


def range_size(start: Dim, stop: Dim, step: int) -> Dim:
    """The number of elements of a range: ``ceil((stop - start) / step)``."""
    if step > 0:
        return (stop - start + (step - 1)) // step
    return (start - stop + (-step - 1)) // -step


def _range_position(attrs: Attrs, index: tuple[Poly, ...]) -> Poly:
    return Dim(attrs["start"]).poly + index[0] * Dim(attrs["step"]).poly


define(
    "range",
    "iota",
    "data",
    "start, start + step, … up to but not including stop.",
    attrs={
        "start": Attribute("dim", optional=True),
        "step": Attribute("dim", optional=True),
        "size": DIM,
        "dtype": DTYPE,
        "device": Attribute("device", none=True),
    },
    position=_range_position,
    foreign=foreign_names("arange", "Range"),
    infer=_range_infer,
    reference=_range,
    checks=_range_checks,
    samples=lambda: [
        Sample(
            (),
            {"start": Dim(0), "step": Dim(3), "size": Dim(4), "dtype": DType.int32, "device": None},
        ),
        Sample(
            (),
            {
                "start": Dim(5),
                "step": Dim(-2),
                "size": Dim(3),
                "dtype": DType.float32,
                "device": None,
            },
        ),
    ],
)


# ---------------------------------------------------------------- gather
def _gather_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, indices = types
    require_integral("gather: the indices", indices)
    same_device("gather", types)
    axis = axis_of(attrs["axis"], x.rank, "gather")
    return [TensorType(x.dtype, [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]], x.device)]


def _gather(call: Call, x: Array, indices: Array) -> Array:
    axis = call.attrs["axis"]
    size = x.shape[axis]
    if indices.size and (indices.min() < -size or indices.max() >= size):
        bad = indices[(indices < -size) | (indices >= size)].ravel()[0]
        raise ExecutionError(
            "ML652",
            f"gather: the index {bad} is out of range for a dim of size {size}",
            fix=f"indices go from {-size} to {size - 1}",
        )
    places = indices.astype(np.int64)  # a narrow dtype may not hold the size
    return np.take(x, np.where(places < 0, places + size, places), axis=axis)


def _gather_samples() -> list[Sample]:
    x = np.arange(60, dtype=np.float32).reshape(5, 12)
    i = np.array([[0, 4, -1], [2, 2, 1]], np.int64)
    return [
        Sample((x, i), {"axis": 0}, (("v", 12), ("a", "b")), "rows"),
        Sample((x, i.astype(np.int32)), {"axis": 1}, label="columns"),
        Sample((x.reshape(5, 4, 3), i[1]), {"axis": -2}, label="middle"),
        Sample((x, np.array(3, np.int32)), {"axis": 0}, label="rank 0"),
        Sample((x, np.zeros((0,), np.int64)), {"axis": 0}, label="none"),
        Sample((x.astype(DType.bfloat16.ml_numpy), i), {"axis": 0}, label="bf16"),
    ]


define(
    "gather",
    "gather",
    "index",
    "The operand's slices at the given indices of one axis; a negative index counts from the end.",
    attrs={"axis": INT},
    foreign=foreign_names("index_select", "Gather"),
    infer=_gather_infer,
    reference=_gather,
    samples=_gather_samples,
)


# ---------------------------------------------------------------- concat
def _concat_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    if not types:
        raise ArgumentError(
            "ML311", "concat: there is nothing to concatenate", fix="pass one tensor or more"
        )
    dtype = same_dtype("concat", types)
    same_device("concat", types)
    first = types[0]
    axis = axis_of(attrs["axis"], first.rank, "concat")
    total = first.shape[axis]
    for number, type in enumerate(types[1:], 1):
        if type.rank != first.rank:
            raise ShapeError(
                "ML210",
                f"concat: operand {number} has rank {type.rank}, operand 0 has rank {first.rank}",
                fix="give all operands one rank, with ops.unsqueeze for example",
            )
        for position, (a, b) in enumerate(zip(first.shape, type.shape, strict=True)):
            if position != axis and a != b:
                raise ShapeError(
                    "ML210",
                    f"concat: operand {number} has the size {b} at axis {position}, "
                    f"operand 0 has {a}",
                    fix=f"only axis {axis} may differ",
                )
        total = total + type.shape[axis]
    shape = [*first.shape[:axis], total, *first.shape[axis + 1 :]]
    return [TensorType(dtype, shape, first.device)]


def _concat_samples() -> list[Sample]:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = a[:2] + 100
    return [
        Sample((a, b, a), {"axis": 0}, (("m", 4), ("n", 4), ("m", 4))),
        Sample((a, a[:, :1]), {"axis": -1}),
        Sample((a.astype(np.int64),), {"axis": 1}),
        Sample((a, np.zeros((0, 4), np.float32)), {"axis": 0}, label="empty part"),
    ]


define(
    "concat",
    "concat",
    "view",
    "The operands side by side along one axis.",
    attrs={"axis": INT},
    foreign=foreign_names("cat", "Concat"),
    infer=_concat_infer,
    reference=lambda call, *xs: np.concatenate(xs, axis=call.attrs["axis"]),
    samples=_concat_samples,
)


# ---------------------------------------------------------------- pad
def pad_types(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    pads = attrs["paddings"]
    check_scalar(attrs["value"], x.dtype)
    if len(pads) != 2 * x.rank:
        raise ArgumentError(
            "ML312",
            f"pad: {len(pads)} paddings for rank {x.rank}, expected {2 * x.rank}",
            fix="give (before, after) for each dim" + _of_last(pads, x.rank),
        )
    for p in pads:
        dim = Dim(p)
        if isinstance(dim, StaticDim) and dim.dim < 0:
            raise ArgumentError(
                "ML312",
                f"pad: a padding must not be negative, got {p}",
                fix="slice the tensor to make it smaller",
            )
    shape = [d + Dim(pads[2 * i]) + Dim(pads[2 * i + 1]) for i, d in enumerate(x.shape)]
    return [TensorType(x.dtype, shape, x.device)]


def _of_last(pads: Sequence[object], rank: int) -> str:
    """How the paddings of PyTorch, which are those of the last dims, are written here."""
    if not pads or len(pads) % 2 or len(pads) > 2 * rank:
        return ""
    pairs = [pads[i : i + 2] for i in range(0, len(pads), 2)]  # the last dim first
    whole = [0] * (2 * rank - len(pads)) + [size for pair in reversed(pairs) for size in pair]
    return f"; PyTorch's {list(pads)}, of the last dims: ops.pad(x, {whole})"


def _pad(call: Call, x: Array) -> Array:
    pads = [call.size(Dim(p)) for p in call.attrs["paddings"]]
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    return np.pad(x, pairs, constant_values=call.attrs["value"]) if pairs else x


define(
    "pad",
    "pad",
    "view",
    "The operand surrounded by a constant.",
    attrs={"paddings": DIMS, "value": Attribute("number")},
    foreign=foreign_names("constant_pad_nd", "Pad"),
    infer=pad_types,
    reference=_pad,
    samples=lambda: [
        Sample(
            (np.arange(6, dtype=np.float32).reshape(2, 3),),
            {"paddings": (1, 0, 2, 1), "value": 0.5},
            (("a", "b"),),
        ),
        Sample((np.arange(3, dtype=np.int32),), {"paddings": (0, 2), "value": -1}),
    ],
)


# ---------------------------------------------------------------- matmul
def _matmul_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, y = types
    dtype = same_dtype("matmul", types)
    same_device("matmul", types)
    if dtype is DType.bool:
        raise DTypeError("ML106", "matmul needs numbers, got bool", fix="cast it first")
    if x.rank < 2 or y.rank < 2:
        raise ShapeError(
            "ML211",
            f"matmul: operands of rank {x.rank} and {y.rank}, expected 2 or more",
            fix="give the operand a second dim, with ops.unsqueeze for example",
        )
    if x.shape[-1] != y.shape[-2]:
        turned = (
            "; the right operand would fit transposed: use y.T"
            if y.rank == 2 and x.shape[-1] == y.shape[-1]
            else ""
        )
        raise ShapeError(
            "ML203",
            f"matmul: the inner dims differ, {x.shape[-1]} ≠ {y.shape[-2]}: "
            f"[{', '.join(map(str, x.shape))}] @ [{', '.join(map(str, y.shape))}]",
            fix="the left operand's last dim must equal the right operand's second to last"
            + turned,
        )
    batch: list[Dim] = []
    rank = max(x.rank, y.rank)
    xs = [StaticDim(1)] * (rank - x.rank) + list(x.shape[:-2])
    ys = [StaticDim(1)] * (rank - y.rank) + list(y.shape[:-2])
    for a, b in zip(xs, ys, strict=True):
        fitted = broadcast_dims(a, b)
        if fitted is None:
            raise ShapeError(
                "ML212",
                f"matmul: the batch dims {a} and {b} do not broadcast",
                fix="make them equal or 1, or rebind one operand",
            )
        batch.append(fitted)
    return [TensorType(dtype, [*batch, x.shape[-2], y.shape[-1]], x.device)]


def _matmul(call: Call, x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu":
        return np.asarray(np.matmul(x, y))
    return np.asarray(np.matmul(_wide(x).astype(np.float64), _wide(y).astype(np.float64)))


def _matmul_cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    return Cost(elements(results[0]) * operands[0].shape[-1].poly * Poly.constant(2))


def _matmul_samples() -> list[Sample]:
    rng = np.random.default_rng(17)

    def f(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    half = DType.bfloat16.ml_numpy
    return [
        Sample((f(7, 13), f(13, 37)), {}, (("m", 13), (13, 37)), "f32"),
        Sample((f(7, 13), f(13, 37)), {}, (("m", "k"), ("k", "n")), "symbolic"),
        Sample((f(2, 3, 5, 8), f(3, 8, 6)), {}, (("b", 3, "m", 8), (3, 8, "n")), "batched"),
        Sample((f(4, 5, 8), f(8, 9)), {}, (("b", "m", 8), (8, 9)), "shared right"),
        Sample((f(5, 8), f(2, 8, 3)), {}, label="shared left"),
        Sample((f(1, 64), f(64, 130)), {}, label="row"),
        Sample((f(70, 33), f(33, 1)), {}, label="column"),
        Sample((f(3, 0), f(0, 4)), {}, label="empty k"),
        Sample((f(0, 5), f(5, 4)), {}, label="empty m"),
        Sample((f(6, 9).astype(np.float64), f(9, 5).astype(np.float64)), {}, label="f64"),
        Sample((f(6, 9).astype(half), f(9, 5).astype(half)), {}, label="bf16"),
        Sample((f(6, 9).astype(np.float16), f(9, 5).astype(np.float16)), {}, label="f16"),
        Sample(
            (
                rng.integers(-9, 9, (4, 6)).astype(np.int32),
                rng.integers(-9, 9, (6, 3)).astype(np.int32),
            ),
            {},
            label="i32",
        ),
    ]


define(
    "matmul",
    "contract",
    "contract",
    "The matrix product over the last two dims; leading dims broadcast.",
    foreign=foreign_names("matmul", "MatMul"),
    infer=_matmul_infer,
    reference=_matmul,
    cost=_matmul_cost,
    samples=_matmul_samples,
)


# ---------------------------------------------------------------- helpers of the compiler, output
def _recip_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    return [types[0]]


define(
    "recip",
    "map",
    "elementwise",
    "One over each element.",
    scalar_text={"recip": everywhere("{one} / {0}")},
    foreign=foreign_names("reciprocal", "Reciprocal"),
    infer=_recip_infer,
    reference=lambda call, x: 1 / _wide(x),
    weight=4,
)
define(
    "output",
    "output",
    "data",
    "The end of a graph: its operands are the results.",
    role="output",
    infer=lambda types, attrs: [],
    reference=lambda call, *xs: [],
)
