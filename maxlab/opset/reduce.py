"""Ops that fold or normalise along one axis. The reduced dim stays, with size 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.ir import DeviceRef, Dim, Op, Poly, Shape, StaticDim, TensorType, Type, Value
from maxlab.opset.attributes import FLOAT, INT
from maxlab.opset.builder import Ops, one
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
from maxlab.opset.elementwise import _wide
from maxlab.opset.facts import foreign_names
from maxlab.opset.rules import axis_of, require_float, same_device, same_dtype


def reduced(x: TensorType, axis: int) -> Shape:
    """The shape of ``x`` with ``axis`` of size 1."""
    return Shape([*x.shape[:axis], 1, *x.shape[axis + 1 :]])


def _cost(
    each: Callable[[DType], int], row: Callable[[DType], int]
) -> Callable[[Sequence[TensorType], Sequence[Type], Attrs], Cost]:
    """The cost of a composite that does ``each`` operations for an element and ``row`` for a row:
    as many as the ops that it is written out in, for the element type that it has.
    """

    def cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
        x = operands[0]
        axis = axis_of(attrs.get("axis", -1), x.rank, "cost")
        rows = elements(TensorType(x.dtype, reduced(x, axis), x.device))
        many, few = Poly.constant(each(x.dtype)), Poly.constant(row(x.dtype))
        return Cost(elements(x) * many + rows * few)

    return cost


def _infer(
    what: str, result: DType | None = None
) -> Callable[[Sequence[TensorType], Attrs], list[Type]]:
    def infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
        (x,) = types
        axis = axis_of(attrs["axis"], x.rank, what)
        if x.dtype is DType.bool:
            raise DTypeError(
                "ML106", f"{what} needs numbers, got bool", fix="cast it: ops.cast(x, DType.int32)"
            )
        needed = what in ("max", "min", "argmax", "argmin") or _whole_mean(what, x)
        if needed and x.shape[axis] == StaticDim(0):
            raise ShapeError(
                "ML207",
                f"{what}: axis {axis} is empty, it has no {what}",
                fix="reduce an axis that has elements",
            )
        return [TensorType(result or x.dtype, reduced(x, axis), x.device)]

    return infer


def _not_empty(
    what: str,
) -> Callable[[Sequence[TensorType], Sequence[Type], Attrs], list[Check]]:
    def checks(
        operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
    ) -> list[Check]:
        """The axis has an element; a static one was looked at when the types were inferred."""
        (x,) = operands
        size = x.shape[axis_of(attrs["axis"], x.rank, what)]
        if isinstance(size, StaticDim):
            return []
        message = f"{what}: axis {attrs['axis']} is empty, it has no {what}"
        return [Check(Poly.constant(1), "<=", size.poly, message)]

    return checks


def _samples(ints: bool = True, ties: bool = False) -> Callable[[], list[Sample]]:
    def samples() -> list[Sample]:
        rng = np.random.default_rng(3)
        x = rng.standard_normal((3, 5, 19)).astype(np.float32)
        if ties:
            x = np.round(x)
        nan = x[0].copy()
        nan[2, 4] = np.nan
        found = [
            Sample((x,), {"axis": -1}, (("a", "b", "c"),), "last"),
            Sample((x,), {"axis": 1}, (("a", "b", "c"),), "middle"),
            Sample((x,), {"axis": 0}, label="first"),
            Sample((nan,), {"axis": -1}, label="nan"),
            Sample((x.astype(np.float64),), {"axis": -1}, label="f64"),
            Sample((x.astype(DType.bfloat16.ml_numpy),), {"axis": -1}, label="bf16"),
            Sample((x.astype(np.float16),), {"axis": 1}, label="f16"),
            Sample((x[0, 0],), {"axis": 0}, label="rank 1"),
            Sample((np.ones((2, 1, 3), np.float32),), {"axis": 1}, label="size 1"),
        ]
        if ints:
            found.append(
                Sample(
                    (rng.integers(-50, 50, (4, 33)).astype(np.int32),), {"axis": -1}, label="i32"
                )
            )
            found.append(
                Sample((rng.integers(0, 200, (4, 33)).astype(np.uint8),), {"axis": 0}, label="u8")
            )
            for kind in (np.int8, np.int64, np.uint64):
                ends = np.iinfo(kind)
                whole = rng.integers(ends.min, ends.max, (4, 33), kind, endpoint=True)
                found.append(Sample((whole,), {"axis": -1}, (("a", "b"),), f"large {whole.dtype}"))
        return found

    return samples


def _fold(fn: Callable[..., Array]) -> Callable[[Call, Array], Array]:
    def reference(call: Call, x: Array) -> Array:
        return fn(_wide(x), axis=call.attrs["axis"], keepdims=True)

    return reference


def _sum(x: Array, axis: int, keepdims: bool) -> Array:
    if x.dtype.kind == "f":
        return np.sum(x, axis=axis, keepdims=keepdims, dtype=np.float64).astype(x.dtype)
    return np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


define(
    "reduce.sum",
    "reduce",
    "reduce",
    "The sum along an axis; integers wrap.",
    attrs={"axis": INT},
    foreign=foreign_names("sum", "ReduceSum"),
    infer=_infer("sum"),
    reference=_fold(_sum),
    reduce="sum",
    samples=_samples(),
)
define(
    "reduce.max",
    "reduce",
    "reduce",
    "The largest along an axis; NaN if there is one.",
    attrs={"axis": INT},
    foreign=foreign_names("amax", "ReduceMax"),
    infer=_infer("max"),
    reference=_fold(np.max),
    reduce="max",
    samples=_samples(),
)
define(
    "reduce.min",
    "reduce",
    "reduce",
    "The smallest along an axis; NaN if there is one.",
    attrs={"axis": INT},
    foreign=foreign_names("amin", "ReduceMin"),
    infer=_infer("min"),
    reference=_fold(np.min),
    reduce="min",
    samples=_samples(),
)


# ---------------------------------------------------------------- mean
def _total(x: Array, axis: int, dtype: np.dtype[Any]) -> Array:
    """The sums in double precision, but infinite where those of ``dtype``, a kernel's, overflow."""
    total = np.sum(x, axis=axis, keepdims=True, dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.where(np.isinf(total.astype(dtype)), np.copysign(np.inf, total), total)


def _mean(call: Call, x: Array) -> Array:
    axis = call.attrs["axis"]
    if x.dtype.kind in "iu":
        total = np.sum(x, axis=axis, keepdims=True, dtype=object)  # Python's integers never wrap
        size = x.shape[axis]
        return np.asarray(np.where(total < 0, -(-total // size), total // size)).astype(x.dtype)
    w = _wide(x)
    return np.asarray(_total(w, axis, w.dtype) / w.shape[axis])


def _whole_mean(what: str, x: TensorType) -> bool:
    """Whether ``what`` is a mean of integers."""
    return what == "mean" and x.dtype.is_integral()


def _most_added(dtype: DType) -> int:
    """How many integers of ``dtype`` a mean adds up without wrapping: in 64 bits, or in sums of 64
    bits for the upper and for the lower halves of int64 and uint64."""
    return int(2 ** (63 - min(dtype.size_in_bits, 32)))


def _in_halves(dtype: DType) -> bool:
    """Whether a mean of ``dtype`` adds up two halves of each element."""
    return dtype in (DType.int64, DType.uint64)


def _mean_row(dtype: DType) -> int:
    """Operations of a mean for each sum: divisions, and what joins and rounds their results."""
    if dtype.is_float():
        return 4
    return (18 if _in_halves(dtype) else 4) + (8 if dtype.is_signed_integral() else 0)


def _mean_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    results = _infer("mean")(types, attrs)
    (x,) = types
    axis = axis_of(attrs["axis"], x.rank, "mean")
    size, most = x.shape[axis], _most_added(x.dtype)
    if x.dtype.is_integral() and isinstance(size, StaticDim) and size.dim > most:
        raise ShapeError(
            "ML217",
            f"mean: axis {axis} has {size} elements of {x.dtype.name}, and at most {most} are "
            "added without wrapping",
            fix="cast to float64",
        )
    return results


def _mean_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    """An axis of integers has an element, and no more than are added without wrapping."""
    (x,) = operands
    if not x.dtype.is_integral():
        return []
    size = x.shape[axis_of(attrs["axis"], x.rank, "mean")]
    if isinstance(size, StaticDim):
        return []
    text = f"mean: axis {attrs['axis']} has more elements of {x.dtype.name} than are added exactly"
    most = Check(size.poly, "<=", Poly.constant(_most_added(x.dtype)), text)
    return [*_not_empty("mean")(operands, results, attrs), most]


def _mean_decompose(b: Ops[Value], op: Op) -> Value:
    (x,) = op.operands
    type = x.tensor_type
    axis = axis_of(op.attrs["axis"], type.rank, "mean")
    size = type.shape[axis]
    if type.dtype.is_integral():
        return _mean_of_integers(b, x, axis)
    wide = type.dtype if type.dtype.size_in_bits >= 32 else DType.float32
    narrow = type.dtype is not wide
    total = one(b, "reduce.sum", [one(b, "cast", [x], dtype=wide) if narrow else x], axis=axis)
    quotient = one(b, "div", [total, dim_value(b, size, wide, type.device)])
    return one(b, "cast", [quotient], dtype=type.dtype) if narrow else quotient


def _mean_of_integers(b: Ops[Value], x: Value, axis: int) -> Value:
    """The true mean without its fraction.

    Up to 32 bits, elements are added in int64. Wider ones are x = h * 2^32 + l, with l from 0 to
    2^32 - 1. Their sum is H * 2^32 + L: H, the sum of all h, does not wrap, and neither does L,
    which is what the wrapped sum of all x has beyond H * 2^32. What H leaves over when it is
    divided by the size n joins L, and the rest is one more division of 64 bits: of a number below
    n * 2^32 + n * 2^32, which is at most 2^64.
    """
    dtype, device = x.tensor_type.dtype, x.tensor_type.device
    wide = DType.uint64 if dtype is DType.uint64 else DType.int64
    size = one(b, "dim", [], dim=x.tensor_type.shape[axis], device=device)
    count = one(b, "cast", [size], dtype=wide)
    if not _in_halves(dtype):
        total = one(b, "reduce.sum", [one(b, "cast", [x], dtype=wide)], axis=axis)
        quotient, divided = one(b, "floordiv", [total, count]), (total, count)
    else:
        half = b.literal(2**32, DType.uint64, device)
        upper = one(b, "floordiv", [x, b.literal(2**32, dtype, device)])
        high = one(b, "reduce.sum", [upper], axis=axis)
        wrapped = one(b, "cast", [one(b, "reduce.sum", [x], axis=axis)], dtype=DType.uint64)
        shifted = one(b, "mul", [one(b, "cast", [high], dtype=DType.uint64), half])
        left = one(b, "cast", [one(b, "mod", [high, count])], dtype=DType.uint64)
        low = one(b, "add", [one(b, "mul", [left, half]), one(b, "sub", [wrapped, shifted])])
        positive = one(b, "cast", [size], dtype=DType.uint64)
        first = one(b, "cast", [one(b, "floordiv", [high, count])], dtype=DType.uint64)
        second = one(b, "floordiv", [low, positive])
        quotient = one(b, "add", [one(b, "mul", [first, half]), second])
        quotient, divided = one(b, "cast", [quotient], dtype=wide), (low, positive)
    if dtype.is_signed_integral():  # it was rounded down, and shall be rounded towards zero
        rest = one(b, "mod", divided)
        below = one(b, "greater", [b.literal(0, wide, device), quotient])
        inexact = one(b, "not_equal", [rest, b.literal(0, rest.tensor_type.dtype, device)])
        step = one(b, "cast", [one(b, "logical_and", [below, inexact])], dtype=wide)
        quotient = one(b, "add", [quotient, step])
    return one(b, "cast", [quotient], dtype=dtype)


def dim_value(b: Ops[Value], dim: Dim, dtype: DType, device: DeviceRef) -> Value:
    """``dim`` as a rank-0 value of ``dtype`` on ``device``."""
    if isinstance(dim, StaticDim):
        return b.literal(float(dim.dim), dtype, device)
    return one(b, "cast", [one(b, "dim", [], dim=dim, device=device)], dtype=dtype)


define(
    "mean",
    "composite",
    "reduce",
    "The mean along an axis; of integers, the true one without its fraction: no sum wraps.",
    attrs={"axis": INT},
    foreign=foreign_names("mean", "ReduceMean"),
    infer=_mean_infer,
    reference=_mean,
    decompose=_mean_decompose,
    checks=_mean_checks,
    # The sum and a quotient; of 64 bits, the upper half and its sum too; of integers, the rounding.
    cost=_cost(lambda dtype: 6 if _in_halves(dtype) else 1, _mean_row),
    samples=_samples(),
)


# ---------------------------------------------------------------- argmax
def _arg(fn: Callable[..., Array]) -> Callable[[Call, Array], Array]:
    return lambda call, x: fn(_wide(x), axis=call.attrs["axis"], keepdims=True)


def _arg_decompose(kind: str) -> Callable[[Ops[Value], Op], Value]:
    def decompose(b: Ops[Value], op: Op) -> Value:
        """The smallest index at which the extreme stands; a NaN counts as the extreme."""
        (x,) = op.operands
        type = x.tensor_type
        axis = axis_of(op.attrs["axis"], type.rank, kind)
        best = one(b, f"reduce.{kind}", [x], axis=axis)
        here = one(b, "equal", [x, best])
        if type.dtype.is_float():
            here = one(b, "logical_or", [here, one(b, "is_nan", [x])])
        shape = Shape([1] * axis + [type.shape[axis]] + [1] * (type.rank - axis - 1))
        index = one(b, "iota", [], shape=shape, axis=axis, dtype=DType.int64, device=type.device)
        far = b.literal(2**62, DType.int64, type.device)
        return one(b, "reduce.min", [one(b, "where", [here, index, far])], axis=axis)

    return decompose


define(
    "argmax",
    "composite",
    "reduce",
    "The index of the first largest element along an axis, int64.",
    attrs={"axis": INT},
    foreign=foreign_names("argmax", "ArgMax"),
    infer=_infer("argmax", DType.int64),
    reference=_arg(np.argmax),
    decompose=_arg_decompose("max"),
    checks=_not_empty("argmax"),
    # The extreme, where it stands, the index there, the least of these; of floats, NaN too.
    cost=_cost(lambda dtype: 6 if dtype.is_float() else 4, lambda dtype: 0),
    samples=_samples(ties=True),
)
define(
    "argmin",
    "composite",
    "reduce",
    "The index of the first smallest element along an axis, int64.",
    attrs={"axis": INT},
    foreign=foreign_names("argmin", "ArgMin"),
    infer=_infer("argmin", DType.int64),
    reference=_arg(np.argmin),
    decompose=_arg_decompose("min"),
    checks=_not_empty("argmin"),
    # The extreme, where it stands, the index there, the least of these; of floats, NaN too.
    cost=_cost(lambda dtype: 6 if dtype.is_float() else 4, lambda dtype: 0),
    samples=_samples(ties=True),
)


# ---------------------------------------------------------------- softmax
def _soft_infer(what: str) -> Callable[[Sequence[TensorType], Attrs], list[Type]]:
    def infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
        (x,) = types
        require_float(what, x)
        axis_of(attrs["axis"], x.rank, what)
        return [x]

    return infer


def _softmax(call: Call, x: Array) -> Array:
    w = _wide(x).astype(np.float64)
    e = np.exp(w - w.max(axis=call.attrs["axis"], keepdims=True))
    return np.asarray(e / e.sum(axis=call.attrs["axis"], keepdims=True))


def _logsoftmax(call: Call, x: Array) -> Array:
    axis = call.attrs["axis"]
    w = _wide(x).astype(np.float64)
    w = w - w.max(axis=axis, keepdims=True)
    return np.asarray(w - np.log(np.exp(w).sum(axis=axis, keepdims=True)))


def _widen(b: Ops[Value], x: Value) -> tuple[Value, DType | None]:
    """``x`` in float32 when it is narrower, and the dtype to come back to."""
    dtype = x.tensor_type.dtype
    if dtype.size_in_bits >= 32:
        return x, None
    return one(b, "cast", [x], dtype=DType.float32), dtype


def _narrow(b: Ops[Value], x: Value, dtype: DType | None) -> Value:
    return x if dtype is None else one(b, "cast", [x], dtype=dtype)


def _softmax_decompose(b: Ops[Value], op: Op) -> Value:
    x, back = _widen(b, op.operands[0])
    axis = axis_of(op.attrs["axis"], x.tensor_type.rank, "softmax")
    shifted = one(b, "sub", [x, one(b, "reduce.max", [x], axis=axis)])
    e = one(b, "exp", [shifted])
    total = one(b, "reduce.sum", [e], axis=axis)
    return _narrow(b, one(b, "mul", [e, one(b, "recip", [total])]), back)


def _logsoftmax_decompose(b: Ops[Value], op: Op) -> Value:
    x, back = _widen(b, op.operands[0])
    axis = axis_of(op.attrs["axis"], x.tensor_type.rank, "logsoftmax")
    shifted = one(b, "sub", [x, one(b, "reduce.max", [x], axis=axis)])
    total = one(b, "reduce.sum", [one(b, "exp", [shifted])], axis=axis)
    return _narrow(b, one(b, "sub", [shifted, one(b, "log", [total])]), back)


define(
    "softmax",
    "composite",
    "reduce",
    "Probabilities along an axis: exp(x - max) over their sum.",
    attrs={"axis": INT},
    family="activation",
    foreign=foreign_names("_softmax", "Softmax"),
    infer=_soft_infer("softmax"),
    reference=_softmax,
    decompose=_softmax_decompose,
    # Max, difference, exp (8), sum and product; a reciprocal (4) for each row.
    cost=_cost(lambda dtype: 12, lambda dtype: 4),
    samples=_samples(ints=False),
)
define(
    "logsoftmax",
    "composite",
    "reduce",
    "The logarithm of softmax, computed without forming it.",
    attrs={"axis": INT},
    family="activation",
    foreign=foreign_names("_log_softmax", "LogSoftmax"),
    infer=_soft_infer("logsoftmax"),
    reference=_logsoftmax,
    decompose=_logsoftmax_decompose,
    # Max, two differences, exp (8) and sum; a logarithm (8) for each row.
    cost=_cost(lambda dtype: 12, lambda dtype: 8),
    samples=_samples(ints=False),
)


# ---------------------------------------------------------------- layer norm
def _layer_norm_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, gamma, beta = types
    require_float("layer_norm", x)
    same_dtype("layer_norm", types)
    same_device("layer_norm", types)
    axis_of(-1, x.rank, "layer_norm")
    for name, t in (("gamma", gamma), ("beta", beta)):
        if t.rank != 1 or t.shape[0] != x.shape[-1]:
            raise ShapeError(
                "ML208",
                f"layer_norm: {name} has the shape [{', '.join(map(str, t.shape))}], expected "
                f"[{x.shape[-1]}], the last dim of the input",
                fix="pass one number for each element of the last dim",
            )
    if not attrs["epsilon"] > 0:
        raise ArgumentError(
            "ML310",
            f"layer_norm: epsilon must be positive, got {attrs['epsilon']}",
            fix="pass a small number, such as 1e-5",
        )
    return [x]


def _layer_norm(call: Call, x: Array, gamma: Array, beta: Array) -> Array:
    w = _wide(x)
    centred = w - _total(w, -1, w.dtype) / w.shape[-1]
    variance = _total(centred**2, -1, w.dtype) / w.shape[-1]
    scale = 1 / np.sqrt(variance + call.attrs["epsilon"])
    return np.asarray(centred * scale * _wide(gamma) + _wide(beta))


def _layer_norm_decompose(b: Ops[Value], op: Op) -> Value:
    x, back = _widen(b, op.operands[0])
    gamma, beta = (_widen(b, v)[0] for v in op.operands[1:])
    type = x.tensor_type
    axis, size = type.rank - 1, dim_value(b, type.shape[-1], type.dtype, type.device)
    mean = one(b, "div", [one(b, "reduce.sum", [x], axis=axis), size])
    centred = one(b, "sub", [x, mean])
    squares = one(b, "reduce.sum", [one(b, "mul", [centred, centred])], axis=axis)
    variance = one(b, "div", [squares, size])
    epsilon = b.literal(op.attrs["epsilon"], type.dtype, type.device)
    scale = one(b, "rsqrt", [one(b, "add", [variance, epsilon])])
    scaled = one(b, "mul", [one(b, "mul", [centred, scale]), gamma])
    return _narrow(b, one(b, "add", [scaled, beta]), back)


def _layer_norm_samples() -> list[Sample]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 4, 24)).astype(np.float32) * 3 + 1
    g, b = (rng.standard_normal(24).astype(np.float32) for _ in range(2))
    half = DType.bfloat16.ml_numpy
    return [
        Sample((x, g, b), {"epsilon": 1e-5}, (("a", "b", 24), (24,), (24,)), "f32"),
        Sample((x, g, b), {"epsilon": 1e-5}, (("a", "b", "h"), ("h",), ("h",)), "symbolic"),
        Sample((x.astype(half), g.astype(half), b.astype(half)), {"epsilon": 1e-3}, label="bf16"),
        Sample(tuple(v.astype(np.float64) for v in (x, g, b)), {"epsilon": 1e-5}, label="f64"),
    ]


define(
    "layer_norm",
    "composite",
    "reduce",
    "Each last-axis row shifted to mean 0 and scaled to variance 1, times gamma plus beta "
    "(Ba et al., 2016).",
    attrs={"epsilon": FLOAT},
    family="norm",
    foreign=foreign_names("native_layer_norm", "LayerNormalization"),
    infer=_layer_norm_infer,
    reference=_layer_norm,
    decompose=_layer_norm_decompose,
    # Two sums, a difference, a square, two products and a sum; for each row two quotients (4 each),
    # a sum and the root.
    cost=_cost(lambda dtype: 7, lambda dtype: 10),
    samples=_layer_norm_samples,
)
