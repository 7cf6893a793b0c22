"""Reductions, softmax and norms of ATen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from maxlab.dtype import DType
from maxlab.graph import TensorValue, ops
from maxlab.ir import Dim, Shape, StaticDim
from maxlab.torch.aten import HOST, NotImported, Site, aten, axes_of, axis_of, tensor

Fold = Callable[[TensorValue, int], TensorValue]


# ---------------------------------------------------------------- folds
def fold(x: TensorValue, axes: Sequence[int], by: Fold) -> TensorValue:
    """``x`` folded along ``axes``, each of which stays with size 1.

    Neighbouring axes are folded as one: a row that is long is one kernel, not two.
    """
    if not x.rank:
        return x
    shape = Shape(1 if n in axes else d for n, d in enumerate(x.shape))
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    for run in reversed(runs):  # from the end, so that axes before it keep their number
        if len(run) > 1:
            dims = list(x.shape)
            merged = Dim(1)
            for axis in run:
                merged = merged * dims[axis]
            x = ops.reshape(x, [*dims[: run[0]], merged, *dims[run[-1] + 1 :]])
        x = by(x, run[0])
    return x if Shape(x.shape) == shape else ops.reshape(x, shape)


def _shaped(at: Site, x: TensorValue) -> TensorValue:
    """``x``, whose folded axes have size 1, in the shape of the result."""
    return x if Shape(x.shape) == at.shape else ops.reshape(x, at.shape)


@aten("sum.dim_IntList", "sum.default")
def _sum(
    at: Site, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> TensorValue:
    return _shaped(at, fold(at.value(tensor(x)), axes_of(dim, tensor(x).rank), ops.sum))


@aten("mean.dim", "mean.default")
def _mean(
    at: Site, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> TensorValue:
    return _shaped(at, fold(at.value(tensor(x)), axes_of(dim, tensor(x).rank), ops.mean))


def _largest(x: TensorValue, axis: int) -> TensorValue:
    return ops.max(x, axis=axis)


def _smallest(x: TensorValue, axis: int) -> TensorValue:
    return ops.min(x, axis=axis)


@aten("amax.default", "max.default")
def _amax(at: Site, x: Any, dim: Any = None, keepdim: bool = False) -> TensorValue:
    return _shaped(at, fold(_numbers(x), axes_of(dim, tensor(x).rank), _largest))


@aten("amin.default", "min.default")
def _amin(at: Site, x: Any, dim: Any = None, keepdim: bool = False) -> TensorValue:
    return _shaped(at, fold(_numbers(x), axes_of(dim, tensor(x).rank), _smallest))


@aten("linalg_vector_norm.default")
def _vector_norm(
    at: Site, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> TensorValue:
    value = tensor(x)
    axes = axes_of(dim, value.rank)
    if abs(ord) == math.inf:
        by = _largest if ord > 0 else _smallest
        return _shaped(at, fold(ops.abs(at.value(value)), axes, by))
    # Squares of halves would not fit into halves.
    wide = at.dtype if at.dtype is DType.float64 else DType.float32
    value = at.value(value, wide)
    if ord == 2:
        made = ops.sqrt(fold(ops.mul(value, value), axes, ops.sum))
    elif ord == 1:
        made = fold(ops.abs(value), axes, ops.sum)
    else:
        raise NotImported(f"it is a norm of the order {ord}")
    return _shaped(at, at.value(made))


@aten("cumsum.default")
def _cumsum(at: Site, x: Any, dim: int, dtype: Any = None) -> TensorValue:
    value = at.value(tensor(x))
    return ops.cumsum(value, axis_of(dim, value.rank)) if value.rank else value


@aten("topk.default")
def _topk(
    at: Site, x: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[TensorValue, ...]:
    value = _numbers(x)
    if not largest or not isinstance(k, int) or not value.rank:
        raise NotImported("it wants the smallest, a number that is not known, or has rank 0")
    return ops.top_k(value, k, axis_of(dim, value.rank))


def _numbers(x: Any) -> TensorValue:
    if tensor(x).dtype is DType.bool:
        raise NotImported("bools are compared")
    return tensor(x)


@aten("max.dim")
def _max_dim(at: Site, x: Any, dim: int, keepdim: bool = False) -> tuple[TensorValue, ...]:
    return _both(at, x, dim, _largest, ops.argmax)


@aten("min.dim")
def _min_dim(at: Site, x: Any, dim: int, keepdim: bool = False) -> tuple[TensorValue, ...]:
    return _both(at, x, dim, _smallest, ops.argmin)


def _both(at: Site, x: Any, dim: int, by: Fold, where: Fold) -> tuple[TensorValue, ...]:
    value = _numbers(x)
    if not value.rank:
        raise NotImported("its operand has rank 0")
    axis = axis_of(dim, value.rank)
    return _shaped(at, by(value, axis)), _shaped(at, where(value, axis))


@aten("argmax.default")
def _argmax(at: Site, x: Any, dim: int | None = None, keepdim: bool = False) -> TensorValue:
    return _place(at, x, dim, ops.argmax)


@aten("argmin.default")
def _argmin(at: Site, x: Any, dim: int | None = None, keepdim: bool = False) -> TensorValue:
    return _place(at, x, dim, ops.argmin)


def _place(at: Site, x: Any, dim: int | None, by: Fold) -> TensorValue:
    value = _numbers(x)
    if not value.rank:
        raise NotImported("its operand has rank 0")
    if dim is None:
        value, dim = ops.flatten(value), 0
    return _shaped(at, by(value, axis_of(dim, value.rank)))


def _truths(at: Site, x: Any, dim: Any, by: Fold) -> TensorValue:
    # bools are no numbers: the largest of 0 and 1 says whether any is true
    value = ops.cast(at.value(tensor(x), DType.bool), DType.int32)
    found = fold(value, axes_of(dim, value.rank), by)
    return _shaped(at, ops.cast(found, DType.bool))


@aten("any.default", "any.dim", "any.dims")
def _any(at: Site, x: Any, dim: Any = None, keepdim: bool = False) -> TensorValue:
    return _truths(at, x, dim, _largest)


@aten("all.default", "all.dim", "all.dims")
def _all(at: Site, x: Any, dim: Any = None, keepdim: bool = False) -> TensorValue:
    return _truths(at, x, dim, _smallest)


def _count(x: TensorValue, axes: Sequence[int]) -> int:
    total = 1
    for axis in axes:
        size = x.shape[axis]
        if not isinstance(size, StaticDim):
            raise NotImported("it divides by a number of elements that only a run can tell")
        total *= size.dim
    return total


def _centred(x: TensorValue, axes: Sequence[int]) -> TensorValue:
    return ops.sub(x, fold(x, axes, ops.mean))


@aten("var.correction")
def _var(
    at: Site, x: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False
) -> TensorValue:
    value = at.value(tensor(x))
    axes = axes_of(dim, value.rank)
    off = _centred(value, axes)
    squares = ops.mul(off, off)
    if correction == 0:
        return _shaped(at, fold(squares, axes, ops.mean))
    count = _count(value, axes) - (1 if correction is None else correction)
    if count <= 0:
        raise NotImported("there are no more elements than its correction")
    return _shaped(at, ops.mul(fold(squares, axes, ops.sum), 1 / count))


# ---------------------------------------------------------------- softmax
@aten("softmax.int")
def _softmax(at: Site, x: Any, dim: int, dtype: Any = None) -> TensorValue:
    return ops.softmax(at.value(tensor(x)), axis_of(dim, at.type.rank))


@aten("log_softmax.int")
def _log_softmax(at: Site, x: Any, dim: int, dtype: Any = None) -> TensorValue:
    return ops.logsoftmax(at.value(tensor(x)), axis_of(dim, at.type.rank))


# ---------------------------------------------------------------- norms
def _number(value: float, size: Any, dtype: DType) -> TensorValue:
    return ops.broadcast_to(ops.constant(value, dtype, HOST), [size])


@aten("layer_norm.default")
def _layer_norm(
    at: Site,
    x: Any,
    normalized: Sequence[Any],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn: bool = True,
) -> TensorValue:
    value = tensor(x)
    lead = list(value.shape[: value.rank - len(normalized)])
    size = Dim(1)
    for d in value.shape[len(lead) :]:
        size = size * d
    rows = ops.reshape(value, [*lead, size]) if len(normalized) != 1 else value
    scale, shift = (
        _number(default, size, at.dtype)
        if given is None
        else ops.reshape(at.value(given), [size])
        if len(normalized) != 1
        else at.value(given)
        for given, default in ((weight, 1.0), (bias, 0.0))
    )
    return _shaped(at, ops.layer_norm(rows, scale, shift, eps))


@aten("rms_norm.default")
def _rms_norm(
    at: Site, x: Any, normalized: Sequence[Any], weight: Any = None, eps: float | None = None
) -> TensorValue:
    wide = DType.float32 if at.dtype.is_half() else at.dtype
    value = at.value(tensor(x), wide)
    axes = range(value.rank - len(normalized), value.rank)
    if eps is None:
        eps = torch.finfo(torch.float64 if wide is DType.float64 else torch.float32).eps
    squares = fold(ops.mul(value, value), list(axes), ops.mean)
    made = ops.mul(value, ops.rsqrt(ops.add(squares, eps)))
    if weight is not None:
        made = ops.mul(made, at.value(weight, wide))
    return at.value(made)


@aten("group_norm.default")
def _group_norm(
    at: Site,
    x: Any,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn: bool = True,
) -> TensorValue:
    value = tensor(x)
    batch, channels, *rest = value.shape
    size = channels // groups
    for d in rest:
        size = size * d
    rows = ops.reshape(value, [batch, Dim(groups), size])
    off = _centred(rows, [2])
    made = ops.mul(off, ops.rsqrt(ops.add(fold(ops.mul(off, off), [2], ops.mean), eps)))
    made = ops.reshape(made, value.shape)
    column = [channels, *(Dim(1) for _ in rest)]
    if weight is not None:
        made = ops.mul(made, ops.reshape(at.value(weight), column))
    return made if bias is None else ops.add(made, ops.reshape(at.value(bias), column))


@aten("_native_batch_norm_legit_no_training.default")
def _batch_norm(
    at: Site,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    at.only_first()
    value = tensor(x)
    column = [value.shape[1], *(Dim(1) for _ in range(value.rank - 2))]
    scale = ops.rsqrt(ops.add(at.value(mean if variance is None else variance), eps))
    if weight is not None:
        scale = ops.mul(scale, at.value(weight))
    shift = ops.negate(ops.mul(at.value(mean), scale))
    if bias is not None:
        shift = ops.add(shift, at.value(bias))
    made = ops.add(ops.mul(value, ops.reshape(scale, column)), ops.reshape(shift, column))
    return made, None, None
