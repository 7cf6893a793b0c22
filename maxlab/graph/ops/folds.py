"""Folds of an axis that compose of others: variance, any, all, norms, sorting. As with ``sum``, a
folded axis stays with size 1; ``keepdims=False`` drops it."""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_int, cast, literal, staged, tensor
from maxlab.graph.ops import elementwise, indexing, naming, reduction, shaping, sorting, unary
from maxlab.graph.ops.dims import along, folding
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import Dim
from maxlab.opset.rules import axis_of, require_float


@folding
@staged
def var(x: TensorValueLike, axis: int = -1, ddof: int = 0) -> TensorValue:
    """The variance along ``axis``: the squared deviations from the mean, summed, over the number of
    elements less ``ddof``. NumPy's ``ddof`` is 0, PyTorch's ``var`` has 1.

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
def norm(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """The Euclidean length along ``axis``: the root of the sum of squares."""
    return unary.sqrt(reduction.sum(naming.square(x), axis))


@along
@staged
def normalize(x: TensorValueLike, axis: int = 1, eps: float = 1e-12) -> TensorValue:
    """``x`` over its length along ``axis``, or over ``eps`` where that is less."""
    value = tensor(x, "normalize: the operand")
    return elementwise.div(value, elementwise.elementwise_max(norm(value, axis), eps))


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


@along
def topk(x: TensorValueLike, k: int, axis: int = -1) -> tuple[TensorValue, TensorValue]:
    """``top_k``, as PyTorch writes it."""
    return sorting.top_k(x, k, axis)


@staged
def flip(x: TensorValueLike, axis: int | tuple[int, ...] | None = None) -> TensorValue:
    """``x`` backwards along ``axis``, along several, or along all."""
    value = tensor(x, "flip: the operand")
    several = range(value.rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = {axis_of(one, value.rank, "flip") for one in several}
    entries = [slice(None, None, -1) if i in axes else slice(None) for i in range(value.rank)]
    return indexing.slice_tensor(value, entries)


@staged
def index_select(x: TensorValueLike, axis: int, indices: TensorValueLike) -> TensorValue:
    """``gather`` with the order of arguments of PyTorch."""
    return indexing.gather(x, indices, axis)


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
    "topk",
    "var",
]
