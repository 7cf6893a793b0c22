"""Folds of an axis that compose of others: variance, any, all, norms, sorting. As with ``sum``, a
folded axis stays with size 1; ``keepdims=False`` drops it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, ShapeError, shown
from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_int, cast, is_weak, literal, staged, tensor
from maxlab.graph.ops import (
    elementwise,
    indexing,
    joining,
    making,
    naming,
    reduction,
    scattering,
    shaping,
    sorting,
    unary,
)
from maxlab.graph.ops.dims import along, folding, paired, worded
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import Dim
from maxlab.opset.facts import Family
from maxlab.opset.rules import axis_of, require_float

FAMILY: Final[Family] = "reduce"
"""Of the functions here that are no rows of the op table themselves."""


@worded(correction="ddof", unbiased="ddof")
@folding
@staged
def var(x: TensorValueLike, axis: int = -1, ddof: int = 0) -> TensorValue:
    """The variance along ``axis``: the squared deviations from the mean, summed, over the number of
    elements less ``ddof``. NumPy's ``ddof`` is 0, PyTorch's ``var`` has 1, and calls it
    ``correction``, or ``unbiased=True``.

    Raises:
        DTypeError: ML107, not a float tensor.
        AxisError: ML303, ``axis`` is out of range.
    """
    value = tensor(x, "var: the operand")
    require_float("var", value.type)
    off = elementwise.sub(value, reduction.mean(value, axis))
    made = reduction.mean(elementwise.mul(off, off), axis)
    if not ddof:
        return made
    size = value.shape[axis_of(axis, value.rank, "var")]
    count = _count(size, value)
    return elementwise.div(elementwise.mul(made, count), elementwise.sub(count, float(ddof)))


def _count(size: Dim, like: TensorValue) -> TensorValue:
    """``size`` as a number of the dtype and device of ``like``."""
    made = cast(tensor(size), like.dtype)
    return made if made.device == like.device else add_op("transfer", [made], device=like.device)


@worded(correction="ddof", unbiased="ddof")
@folding
@staged
def std(x: TensorValueLike, axis: int = -1, ddof: int = 0) -> TensorValue:
    """The standard deviation along ``axis``: the root of ``var``."""
    return unary.sqrt(var(x, axis, ddof))


@folding
@staged
def any(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """Whether any element along ``axis`` differs from 0: a bool tensor."""
    return cast(reduction.max(cast(naming.bools(x, "any"), DType.uint8), axis=axis), DType.bool)


@folding
@staged
def all(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """Whether all elements along ``axis`` differ from 0: a bool tensor."""
    return cast(reduction.min(cast(naming.bools(x, "all"), DType.uint8), axis=axis), DType.bool)


@folding
@staged
def amax(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """The largest along ``axis``; see ``max``."""
    return reduction.max(x, axis=axis)


@folding
@staged
def amin(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """The smallest along ``axis``; see ``min``."""
    return reduction.min(x, axis=axis)


@folding
@staged
def count_nonzero(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """How many elements along ``axis`` differ from 0, int64."""
    return reduction.sum(cast(naming.bools(x, "count_nonzero"), DType.int64), axis)


@folding
@staged
def logsumexp(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """The logarithm of the sum of the exponentials along ``axis``, which overflows nowhere."""
    value = tensor(x, "logsumexp: the operand")
    most = reduction.max(value, axis=axis)
    # The difference of infinities would be NaN.
    most = elementwise.where(naming.isfinite(most), most, 0.0)
    total = reduction.sum(unary.exp(elementwise.sub(value, most)), axis)
    return elementwise.add(unary.log(total), most)


@folding
@staged
def norm(x: TensorValueLike, axis: int = -1, p: float | str = 2) -> TensorValue:
    """The length along ``axis``: the root of the sum of squares; with ``p=1`` the sum of the
    absolute values, with ``p=math.inf`` the largest of them.

    Raises:
        ArgumentTypeError: ML965, another ``p``.
    """
    if p in (1, math.inf):
        parts = unary.abs(tensor(x, "norm: the operand"))
        return reduction.sum(parts, axis) if p == 1 else reduction.max(parts, axis=axis)
    if p not in (2, "fro"):
        raise ArgumentTypeError(
            "ML965",
            f"norm: no operation raises to p={shown(p)}",
            fix="use p=2, p=1 or p=math.inf; of a result: np.linalg.norm(np.asarray(result), 2)",
        )
    return unary.sqrt(reduction.sum(naming.square(x), axis))


@along
@staged
def normalize(x: TensorValueLike, axis: int = 1, eps: float = 1e-12) -> TensorValue:
    """``x`` over its length along ``axis``, or over ``eps`` where that is less."""
    value = tensor(x, "normalize: the operand")
    return elementwise.div(value, elementwise.elementwise_max(norm(value, axis), eps))


@paired("argsort")
@along
@staged
def sort(x: TensorValueLike, axis: int = -1, descending: bool = False) -> TensorValue:
    """The elements in order along ``axis``, whose size must be known: ``top_k`` of all of them.

    Unlike PyTorch's, which also returns where they came from: that is ``ops.argsort``.

    Raises:
        AxisError: ML303, ``axis`` is out of range.
        ArgumentTypeError: ML302, the size of ``axis`` is not known.
    """
    value = tensor(x, "sort: the operand")
    axis = axis_of(axis, value.rank, "sort")
    size = as_int("sort", value.shape[axis], "the size of the axis")
    made, _ = sorting.top_k(value, size, axis)
    return made if descending else flip(made, axis)


class TopK(NamedTuple):
    """The largest elements, and where they are.

    Attributes:
        values: The elements.
        indices: Their places along the axis, int64.
    """

    values: TensorValue
    indices: TensorValue


@along
@staged
def topk(
    x: TensorValueLike, k: int, axis: int = -1, largest: bool = True, sorted: bool = True
) -> TopK:
    """``top_k``, as PyTorch writes it: its results are ``.values`` and ``.indices`` too, and with
    ``largest=False`` they are the smallest. They are always sorted.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``x`` has rank 0.
        ArgumentError: ML360, ``k`` is negative or larger than the axis.
        ArgumentTypeError: ML302, ``k`` or ``axis`` is not an int.
    """
    value = tensor(x, "topk: the operand")
    if largest:
        return TopK(*sorting.top_k(value, k, axis))
    # -1 - n turns the order of integers without leaving their range, as -n would.
    whole = not value.dtype.is_float()
    most = value.dtype.largest if value.dtype.is_unsigned_integral() else -1
    turned = elementwise.sub(most, value) if whole else unary.negate(value)
    found, indices = sorting.top_k(turned, k, axis)
    return TopK(elementwise.sub(most, found) if whole else unary.negate(found), indices)


@worded(dims="axis", dim="axis")
@staged
def flip(x: TensorValueLike, axis: int | Sequence[int] | None = None) -> TensorValue:
    """``x`` backwards along ``axis``, along several, or along all."""
    value = tensor(x, "flip: the operand")
    several = (
        range(value.rank) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    )
    axes = {axis_of(one, value.rank, "flip") for one in several}
    entries = [slice(None, None, -1) if i in axes else slice(None) for i in range(value.rank)]
    return indexing.slice_tensor(value, entries)


@worded(dim="axis", index="indices")
@staged
def index_select(x: TensorValueLike, axis: int, indices: TensorValueLike) -> TensorValue:
    """``gather`` with the order of arguments of PyTorch."""
    return indexing.gather(x, indices, axis)


@worded(dim="axis", index="indices")
@staged
def take(x: TensorValueLike, indices: TensorValueLike, axis: int | None = None) -> TensorValue:
    """The elements of ``x`` at ``indices`` along ``axis``; of the flattened tensor when it is
    None."""
    value = tensor(x, "take: the operand")
    if axis is None:
        value, axis = shaping.flatten(value), 0
    if isinstance(indices, (int, list)):
        indices = literal(indices, DType.int64, value.device)
    return indexing.gather(value, indices, axis)


@along
@staged
def take_along_axis(x: TensorValueLike, indices: TensorValueLike, axis: int = -1) -> TensorValue:
    """For each index the element of ``x`` at that place along ``axis`` and, along the other dims,
    at the place of the index: PyTorch's ``gather``.

    Args:
        x: A tensor of rank 1 or more.
        indices: Integers of the rank of ``x``; of the other dims they may have fewer than ``x``.
        axis: The axis that is indexed; negative from the end.

    Raises:
        ShapeError: ML214, ``indices`` has another rank than ``x``.
        AxisError: ML303, ``axis`` is out of range.
        DTypeError: ML109, the indices are not integers.
    """
    value = tensor(x, "take_along_axis: the operand")
    if is_weak(indices):
        indices = literal(indices, DType.int64, value.device)
    places = tensor(indices, "take_along_axis: the indices")
    if places.rank != value.rank:
        raise ShapeError(
            "ML214",
            f"take_along_axis: the indices have rank {places.rank}, the operand {value.rank}",
            fix="give an index for each element that is taken; to take whole rows or columns: "
            "ops.gather(x, i[0], axis=1)",
        )
    at = axis_of(axis, value.rank, "take_along_axis")
    parts = []
    for i, size in enumerate(places.shape):
        if i != at:
            steps = making.arange(0, size, dtype=places.dtype, device=value.device)
            shape = [size if j == i else Dim(1) for j in range(value.rank)]
            part = shaping.broadcast_to(shaping.reshape(steps, shape), places.shape)
        parts.append(places if i == at else part)
    return scattering.gather_nd(value, joining.stack(parts, -1))


__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "count_nonzero",
    "flip",
    "index_select",
    "logsumexp",
    "norm",
    "normalize",
    "sort",
    "std",
    "take",
    "take_along_axis",
    "topk",
    "var",
]
