"""NumPy's functions that are several ops of a graph: differences, norms, diagonals, sums, pieces,
and ufuncs such as ``hypot``. They do what NumPy does, as those of ``as_numpy``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.graph.build import as_int, cast, literal, tensor
from maxlab.graph.ops import (
    arranging,
    elementwise,
    folds,
    indexing,
    joining,
    making,
    naming,
    reduction,
    shaping,
    sorting,
    unary,
)
from maxlab.graph.value import TensorValue
from maxlab.opset.rules import axis_of


def _every(x: TensorValue, axis: Any) -> Any:
    return tuple(range(x.rank)) if axis is None else axis


def _cut(x: TensorValue, axis: int, part: slice) -> TensorValue:
    """``part`` of ``x`` along ``axis``."""
    return indexing.slice_tensor(x, [*[slice(None)] * axis, part])


# ---------------------------------------------------------------- joining and cutting
def _append(x: Any, values: Any, axis: int | None = None) -> TensorValue:
    if axis is None:
        return joining.concat([_flat(x), _flat(values)], 0)
    return joining.concat([x, values], axis)


def _flat(x: Any) -> Any:
    return np.ravel(x) if isinstance(x, (np.ndarray, int, float, list)) else arranging.ravel(x)


def _column_stack(arrays: Sequence[Any]) -> TensorValue:
    values = [tensor(one, "column_stack: an operand") for one in arrays]
    return joining.concat([shaping.unsqueeze(v, 1) if v.rank < 2 else v for v in values], 1)


def _dstack(arrays: Sequence[Any]) -> TensorValue:
    values = [_at_least(2, tensor(one, "dstack: an operand")) for one in arrays]
    return joining.concat([shaping.unsqueeze(v, 2) if v.rank < 3 else v for v in values], 2)


def _at_least(rank: int, x: TensorValue) -> TensorValue:
    while x.rank < rank:
        x = shaping.unsqueeze(x, 0)
    return x


def _at_least_of(rank: int) -> Callable[..., Any]:
    def made(*arrays: Any) -> Any:
        found = tuple(_at_least(rank, tensor(one)) for one in arrays)
        return found[0] if len(found) == 1 else found

    return made


def _array_split(x: Any, sections: int | Sequence[int], axis: int = 0) -> list[TensorValue]:
    value = tensor(x, "array_split: the operand")
    if not isinstance(sections, int):
        return arranging.cut_evenly(value, sections, axis)
    place = axis_of(axis, value.rank, "array_split")
    size = as_int("array_split", value.shape[place], "the size of the axis")
    least, more = divmod(size, sections)
    sizes = [least + 1] * more + [least] * (sections - more)
    return joining.split(value, sizes, place)


def _vsplit(x: Any, sections: Any) -> list[TensorValue]:
    return arranging.cut_evenly(x, sections, 0)


def _hsplit(x: Any, sections: Any) -> list[TensorValue]:
    value = tensor(x, "hsplit: the operand")
    return arranging.cut_evenly(value, sections, 1 if value.rank > 1 else 0)


def _broadcast_arrays(*arrays: Any) -> tuple[TensorValue, ...]:
    values = [tensor(one, "broadcast_arrays: an operand") for one in arrays]
    whole = making.zeros_like(values[0], DType.bool)
    for value in values[1:]:
        whole = elementwise.logical_or(whole, making.zeros_like(value, DType.bool))
    return tuple(shaping.broadcast_to(value, whole.shape) for value in values)


# ---------------------------------------------------------------- places
def _rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> TensorValue:
    value, (first, second) = tensor(x, "rot90: the operand"), axes
    for _ in range(k % 4):
        value = arranging.swapaxes(folds.flip(value, second), first, second)
    return value


def _expand_dims(x: Any, axis: int | Sequence[int]) -> TensorValue:
    value = tensor(x, "expand_dims: the operand")
    if isinstance(axis, int):
        return shaping.unsqueeze(value, axis)
    rank = value.rank + len(axis)
    for place in sorted(axis_of(one, rank, "expand_dims") for one in axis):
        value = shaping.unsqueeze(value, place)
    return value


def _diagonal(x: Any, offset: int = 0) -> TensorValue:
    value = tensor(x, "diagonal: the operand")
    if value.rank != 2:
        raise ArgumentError(
            "ML965",
            f"np.diagonal needs a matrix, got a tensor of rank {value.rank}",
            fix="of a result: np.diagonal(np.asarray(result))",
        )
    rows, columns = (as_int("diagonal", dim, "a size") for dim in value.shape)
    size = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first = max(offset, 0) - min(offset, 0) * columns
    places = literal(np.arange(size) * (columns + 1) + first, DType.int64, value.device)
    return indexing.gather(arranging.ravel(value), places, 0)


def _diag(x: Any, k: int = 0) -> TensorValue:
    value = tensor(x, "diag: the operand")
    if value.rank != 1:
        return _diagonal(value, k)
    size = as_int("diag", value.shape[0], "the size of the vector") + abs(k)
    row = joining.pad(value, [max(k, 0), -min(k, 0)])
    on_it = literal(np.eye(size, k=k, dtype=bool), DType.bool, value.device)
    return elementwise.where(on_it, shaping.broadcast_to(row, [size, size]), 0)


def _trace(x: Any, offset: int = 0) -> TensorValue:
    fold: Any = reduction.sum
    made: TensorValue = fold(_diagonal(x, offset), axis=(0,), keepdims=False)
    return made


# ---------------------------------------------------------------- folds
def _norm(
    x: Any, ord: Any = None, axis: int | Sequence[int] | None = None, keepdims: bool = False
) -> TensorValue:
    value = tensor(x, "norm: the operand")
    several = value.rank > 1 if axis is None else isinstance(axis, (tuple, list))
    if ord not in (None, 2, 1, math.inf) and not (ord == "fro" and several):
        raise _no_norm(ord)
    if several and ord not in (None, "fro"):  # that of a matrix
        raise _no_norm(ord)
    fold: Any = reduction.max if ord == math.inf else reduction.sum
    inner = unary.abs(value) if ord in (1, math.inf) else naming.square(value)
    made: TensorValue = fold(inner, axis=_every(value, axis), keepdims=keepdims)
    return made if ord in (1, math.inf) else unary.sqrt(made)


def _no_norm(ord: object) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML965",
        f"np.linalg.norm with ord={ord!r} has no counterpart among the operations of a graph",
        fix="of a result: np.linalg.norm(np.asarray(result), 2)",
    )


def _ptp(x: Any, axis: Any = None, *, keepdims: bool = False) -> TensorValue:
    value = tensor(x, "ptp: the operand")
    most, least = (
        fold(value, axis=_every(value, axis), keepdims=keepdims)
        for fold in (_any_fold(reduction.max), _any_fold(reduction.min))
    )
    return elementwise.sub(most, least)


def _any_fold(op: Any) -> Callable[..., TensorValue]:
    made: Callable[..., TensorValue] = op
    return made


def _average(
    x: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False
) -> TensorValue:
    value = tensor(x, "average: the operand")
    if weights is None:
        mean = _any_fold(reduction.mean)
        return mean(_floats(value), axis=_every(value, axis), keepdims=keepdims)
    total = _any_fold(reduction.sum)
    every = _every(value, axis)
    weighted = elementwise.mul(value, weights)
    shares = elementwise.mul(making.ones_like(value), weights)
    return elementwise.div(
        total(weighted, axis=every, keepdims=keepdims),
        total(shares, axis=every, keepdims=keepdims),
    )


def _floats(x: TensorValue) -> TensorValue:
    return x if x.dtype.is_float() else cast(x, DType.float64)


def _without_nan(op: Any, filler: float) -> Callable[..., TensorValue]:
    def fold(x: Any, axis: Any = None, *, keepdims: bool = False) -> TensorValue:
        value = tensor(x)
        kept = elementwise.where(unary.is_nan(value), filler, value)
        made: TensorValue = op(kept, axis=_every(value, axis), keepdims=keepdims)
        return made

    return fold


def _nanmean(x: Any, axis: Any = None, *, keepdims: bool = False) -> TensorValue:
    value = tensor(x, "nanmean: the operand")
    there = cast(unary.logical_not(unary.is_nan(value)), value.dtype)
    total = _without_nan(reduction.sum, 0.0)(value, axis, keepdims=keepdims)
    count: Any = reduction.sum
    return elementwise.div(total, count(there, axis=_every(value, axis), keepdims=keepdims))


def _diff(x: Any, n: int = 1, axis: int = -1) -> TensorValue:
    value = tensor(x, "diff: the operand")
    place = axis_of(axis, value.rank, "diff")
    for _ in range(n):
        value = elementwise.sub(
            _cut(value, place, slice(1, None)), _cut(value, place, slice(None, -1))
        )
    return value


def _vdot(a: Any, b: Any) -> TensorValue:
    total: Any = reduction.sum
    made: TensorValue = total(elementwise.mul(_flat(a), _flat(b)), axis=(0,), keepdims=False)
    return made


# ---------------------------------------------------------------- order
def _argsort(x: Any, axis: int | None = -1) -> TensorValue:
    value = tensor(x, "argsort: the operand")
    if axis is None or value.rank == 1:
        return sorting.argsort(arranging.ravel(value))
    place = axis_of(axis, value.rank, "argsort")
    size = as_int("argsort", value.shape[place], "the size of the axis")
    # `top_k` puts the first of equal elements first, and the largest: both the other way round.
    _, indices = sorting.top_k(folds.flip(value, place), size, place)
    return folds.flip(elementwise.sub(size - 1, indices), place)


def _take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> TensorValue:
    """NumPy's, in which the other dims of the indices broadcast."""
    value, places = tensor(x, "take_along_axis: the operand"), indices
    if axis is None:
        return folds.take_along_axis(arranging.ravel(value), places, 0)
    if not isinstance(places, TensorValue):
        places = literal(np.asarray(places), DType.int64, value.device)
    if places.rank == value.rank:
        at = axis_of(axis, value.rank, "take_along_axis")
        shape = [places.shape[i] if i == at else size for i, size in enumerate(value.shape)]
        places = shaping.broadcast_to(places, shape)
    return folds.take_along_axis(value, places, axis)


def _sort(x: Any, axis: int | None = -1) -> TensorValue:
    return folds.sort(arranging.ravel(x), -1) if axis is None else folds.sort(x, axis)


# ---------------------------------------------------------------- comparison
def _isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> TensorValue:
    off = unary.abs(elementwise.sub(a, b))
    allowed = unary.abs(tensor(b)) * rtol + atol if not isinstance(b, (int, float)) else None
    limit = abs(b) * rtol + atol if allowed is None else allowed
    near = naming.less_equal(off, limit)
    # Infinities that are equal have no distance, and are not near what is finite.
    near = elementwise.logical_and(near, naming.isfinite(off))
    made = elementwise.logical_or(near, elementwise.equal(a, b))
    if equal_nan:
        both = elementwise.logical_and(unary.is_nan(tensor(a)), unary.is_nan(tensor(b)))
        made = elementwise.logical_or(made, both)
    return made


def _allclose(a: Any, b: Any, **how: Any) -> TensorValue:
    return _all(_isclose(a, b, **how))


def _array_equal(a: Any, b: Any) -> TensorValue:
    return _all(elementwise.equal(a, b))


def _all(x: TensorValue) -> TensorValue:
    fold: Any = folds.all
    made: TensorValue = fold(x, axis=_every(x, None), keepdims=False)
    return made


def _nan_to_num(
    x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> TensorValue:
    value = tensor(x, "nan_to_num: the operand")
    high = value.dtype.largest if posinf is None else posinf
    low = value.dtype.lowest if neginf is None else neginf
    made = elementwise.where(unary.is_nan(value), nan, value)
    made = elementwise.where(elementwise.equal(value, math.inf), high, made)
    return elementwise.where(elementwise.equal(value, -math.inf), low, made)


# ---------------------------------------------------------------- elements
def _hypot(x: Any, y: Any) -> TensorValue:
    return unary.sqrt(elementwise.add(naming.square(x), naming.square(y)))


def _logaddexp(x: Any, y: Any) -> TensorValue:
    most = naming.maximum(x, y)
    return most + unary.log1p(unary.exp(-unary.abs(elementwise.sub(x, y))))


def _heaviside(x: Any, at_zero: Any) -> TensorValue:
    value = tensor(x, "heaviside: the operand")
    steps = cast(elementwise.greater(value, 0), value.dtype)
    made = elementwise.where(elementwise.equal(value, 0), at_zero, steps)
    return elementwise.where(unary.is_nan(value), value, made)


def _scaled(by: float) -> Callable[[Any], TensorValue]:
    def made(x: Any) -> TensorValue:
        return elementwise.mul(x, by)

    return made


def _itself(x: Any) -> TensorValue:
    return tensor(x)


def _clip(x: Any, a_min: Any = None, a_max: Any = None, **names: Any) -> TensorValue:
    return naming.clip(x, names.get("min", a_min), names.get("max", a_max))


UFUNCS: dict[str, Callable[..., Any]] = {
    "hypot": _hypot,
    "logaddexp": _logaddexp,
    "heaviside": _heaviside,
    "conjugate": _itself,
    **dict.fromkeys(("deg2rad", "radians"), _scaled(math.pi / 180)),
    **dict.fromkeys(("rad2deg", "degrees"), _scaled(180 / math.pi)),
}
"""The composition for each ufunc of NumPy that is several ops, by its name."""

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.append: _append,
    np.column_stack: _column_stack,
    np.dstack: _dstack,
    np.atleast_1d: _at_least_of(1),
    np.atleast_2d: _at_least_of(2),
    np.array_split: _array_split,
    np.vsplit: _vsplit,
    np.hsplit: _hsplit,
    np.broadcast_arrays: _broadcast_arrays,
    np.fliplr: lambda x: folds.flip(x, 1),
    np.flipud: lambda x: folds.flip(x, 0),
    np.rot90: _rot90,
    np.expand_dims: _expand_dims,
    np.roll: arranging.roll,
    np.diagonal: _diagonal,
    np.diag: _diag,
    np.trace: _trace,
    np.linalg.norm: _norm,
    np.ptp: _ptp,
    np.average: _average,
    np.nansum: _without_nan(reduction.sum, 0.0),
    np.nanmax: _without_nan(reduction.max, -math.inf),
    np.nanmin: _without_nan(reduction.min, math.inf),
    np.nanmean: _nanmean,
    np.diff: _diff,
    np.vdot: _vdot,
    np.argsort: _argsort,
    np.sort: _sort,
    np.take_along_axis: _take_along_axis,
    np.isclose: _isclose,
    np.allclose: _allclose,
    np.array_equal: _array_equal,
    np.nan_to_num: _nan_to_num,
    np.clip: _clip,
    np.fix: unary.trunc,
    np.copy: _itself,
    np.real: _itself,
    np.empty_like: making.zeros_like,
}
"""The composition for each function of NumPy that is several ops."""

__all__ = ["FUNCTIONS", "UFUNCS"]
