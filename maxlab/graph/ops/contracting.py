"""Products of tensors by the names that NumPy and PyTorch have, ``einsum`` among them: all are
``matmul`` of tensors whose dims were brought into order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from maxlab.errors import ArgumentError, shown
from maxlab.graph.build import as_int, cast, is_array, staged, tensor
from maxlab.graph.ops import (
    activations,
    elementwise,
    indexing,
    linalg,
    making,
    reduction,
    shaping,
    unary,
)
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import Dim, DimLike, Shape
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "contract"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def linear(
    x: TensorValueLike, weight: TensorValueLike, bias: TensorValueLike | None = None
) -> TensorValue:
    """``x @ weight.T + bias``, of a weight ``[out, in]``, as ``torch.nn.functional.linear``.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> types = [TensorType(DType.float32, ["n", 4]), TensorType(DType.float32, [3, 4])]
        >>> with Graph("g", input_types=types) as graph:
        ...     ops.linear(*graph.inputs).shape
        [Dim('n'), Dim(3)]
    """
    made = linalg.matmul(x, shaping.transpose(tensor(weight, "linear: the weight"), -1, -2))
    return made if bias is None else elementwise.add(made, bias)


@staged
def dot(a: TensorValueLike, b: TensorValueLike) -> TensorValue:
    """The product of two vectors or matrices; see ``matmul``."""
    return linalg.matmul(a, b)


mm = bmm = mv = dot


@staged
def inner(a: TensorValueLike, b: TensorValueLike) -> TensorValue:
    """The sums of products along the last dims of both, for each pair of rows."""
    left, right = tensor(a, "inner: the left operand"), tensor(b, "inner: the right operand")
    return tensordot(left, right, ([left.rank - 1], [right.rank - 1]))


@staged
def tensordot(
    a: TensorValueLike, b: TensorValueLike, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> TensorValue:
    """The sums of products along ``axes``: the last of ``a`` with the first of ``b``, that many, or
    those of ``a`` with those of ``b``."""
    left, right = (
        tensor(a, "tensordot: the left operand"),
        tensor(b, "tensordot: the right operand"),
    )
    if isinstance(axes, int):
        axes = (range(left.rank - axes, left.rank), range(axes))
    first = list(range(left.rank))
    second = list(range(left.rank, left.rank + right.rank))
    for i, j in zip(*axes, strict=True):
        second[j] = first[i]
    kept = [x for x in first if x not in second] + [x for x in second if x not in first]
    return _contracted([left, right], [first, second], kept)


@staged
def einsum(subscripts: str, *operands: TensorValueLike) -> TensorValue:
    """The sums of products that ``subscripts`` names, as NumPy and PyTorch read it.

    Args:
        subscripts: A letter for each dim of each operand, then after ``->`` those of the result.
            Dims of one letter are one; what is not in the result is summed. Without ``->``, the
            result has the letters that stand once, in the order of the alphabet. ``...`` stands for
            dims that several operands share.
        operands: Tensors, as many as there are groups of letters.

    Raises:
        ArgumentError: ML967, ``subscripts`` does not fit the operands.
        ShapeError: ML203, dims of one letter differ.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 4])] * 2) as graph:
        ...     ops.einsum("ij,kj->ik", *graph.inputs).shape
        [Dim('n'), Dim('n')]
    """
    values = [tensor(x, "einsum: an operand") for x in operands]
    text = subscripts.replace(" ", "") if isinstance(subscripts, str) else ""
    given, arrow, wanted = text.partition("->")
    groups = given.split(",")
    if not values or len(groups) != len(values):
        raise _unread(subscripts, values)
    names: list[list[int]] = []
    shared: list[int] = []
    for group, value in zip(groups, values, strict=True):
        before, dots, after = group.partition("...")
        free = value.rank - len(before) - len(after)
        letters = before + after
        if (free < 0 or (free and not dots)) or (letters and not letters.isalpha()):
            raise _unread(subscripts, values)
        middle = [-i for i in range(free, 0, -1)]
        shared = max(shared, middle, key=len)
        names.append([*map(ord, before), *middle, *map(ord, after)])
    if arrow:
        before, dots, after = wanted.partition("...")
        result = [*map(ord, before), *(shared if dots else []), *map(ord, after)]
    else:
        every = [name for one in names for name in one if name > 0]
        result = [*shared, *sorted(name for name in set(every) if every.count(name) == 1)]
    known = {name for one in names for name in one}
    if not known.issuperset(result) or len(set(result)) != len(result):
        raise _unread(subscripts, values)
    return _contracted(values, names, result)


def _unread(subscripts: object, values: Sequence[TensorValue]) -> ArgumentError:
    ranks = " and ".join(str(value.rank) for value in values) or "none"
    return ArgumentError(
        "ML967",
        f"einsum: {shown(subscripts)} does not fit operands of rank {ranks}",
        fix="give each dim of each operand a letter: ops.einsum('ij,jk->ik', x, m)",
    )


def _contracted(
    values: list[TensorValue], names: list[list[int]], result: list[int]
) -> TensorValue:
    """The sums of products of ``values``, whose dims have ``names``, with the dims ``result``."""
    parts = [_diagonal(value, one) for value, one in zip(values, names, strict=True)]
    made, have = parts[0]
    for i, (value, one) in enumerate(parts[1:], 1):
        later = {*result, *(name for _, rest in parts[i + 1 :] for name in rest)}
        made, have = _product(made, have, value, one, later)
    made, have = _summed(made, have, set(result))
    return _ordered(made, have, result)


def _diagonal(value: TensorValue, names: list[int]) -> tuple[TensorValue, list[int]]:
    """``value`` with dims of one name made one: its diagonal."""
    names = list(names)
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            at = names.index(name)
            again = names.index(name, at + 1)
            order = [i for i in range(len(names)) if i not in (at, again)]
            value = shaping.permute(value, [*order, at, again])
            eye = making.eye(value.shape[-2], value.shape[-1], value.dtype, value.device)
            value = shaping.squeeze(reduction.sum(elementwise.mul(value, eye), -1), -1)
            names = [names[i] for i in order] + [name]
    return value, names


def _summed(value: TensorValue, names: list[int], keep: set[int]) -> tuple[TensorValue, list[int]]:
    """``value`` without the dims whose names are not in ``keep``, summed over them."""
    for at in reversed(range(len(names))):
        if names[at] not in keep:
            value = shaping.squeeze(reduction.sum(value, at), at)
            names = names[:at] + names[at + 1 :]
    return value, names


def _ordered(value: TensorValue, names: list[int], wanted: list[int]) -> TensorValue:
    if names == wanted:
        return value
    return shaping.permute(value, [names.index(name) for name in wanted])


def _product(
    left: TensorValue, a: list[int], right: TensorValue, b: list[int], later: set[int]
) -> tuple[TensorValue, list[int]]:
    """One matrix product of two tensors, summed over the names that both have and nobody needs
    later."""
    left, a = _summed(left, a, {*b, *later})
    right, b = _summed(right, b, {*a, *later})
    both = [name for name in a if name in b]
    batch = [name for name in both if name in later]
    folded = [name for name in both if name not in later]
    rows = [name for name in a if name not in both]
    columns = [name for name in b if name not in both]
    left = _ordered(left, a, [*batch, *rows, *folded])
    right = _ordered(right, b, [*batch, *folded, *columns])
    outer = list(left.shape[: len(batch)])
    height, depth = _split(left.shape[len(batch) :], len(rows))
    deep, width = _split(right.shape[len(batch) :], len(folded))
    product = linalg.matmul(
        shaping.reshape(left, [*outer, _size(height), _size(depth)]),
        shaping.reshape(right, [*outer, _size(deep), _size(width)]),
    )
    return shaping.reshape(product, [*outer, *height, *width]), [*batch, *rows, *columns]


def _split(dims: Sequence[Dim], at: int) -> tuple[list[Dim], list[Dim]]:
    return list(dims[:at]), list(dims[at:])


def _size(dims: Sequence[Dim]) -> Dim:
    return Shape(dims).num_elements


# ---------------------------------------------------------------- layers without weights
@staged
def batch_norm(
    x: TensorValueLike,
    running_mean: TensorValueLike,
    running_var: TensorValueLike,
    weight: TensorValueLike | None = None,
    bias: TensorValueLike | None = None,
    eps: float = 1e-5,
) -> TensorValue:
    """Each channel of ``x``, ``[n, channels, ...]``, less its mean, over the root of its variance,
    times ``weight`` plus ``bias``, as ``torch.nn.functional.batch_norm`` in inference."""
    value = tensor(x, "batch_norm: the operand")
    shape: list[DimLike] = [1, value.shape[1], *[1] * (value.rank - 2)]

    def channels(given: TensorValueLike) -> TensorValue:
        made = tensor(given, "batch_norm: a number for each channel")
        return shaping.reshape(cast(made, value.dtype) if is_array(given) else made, shape)

    off = elementwise.sub(value, channels(running_mean))
    made = elementwise.mul(off, unary.rsqrt(elementwise.add(channels(running_var), eps)))
    if weight is not None:
        made = elementwise.mul(made, channels(weight))
    return made if bias is None else elementwise.add(made, channels(bias))


@staged
def rms_norm(
    x: TensorValueLike, weight: TensorValueLike | None = None, eps: float | None = None
) -> TensorValue:
    """Each last-axis row over the root of the mean of its squares, times ``weight``; ``eps`` is
    added to the mean, the distance of 1 to the next number of the dtype when left out."""
    value = tensor(x, "rms_norm: the operand")
    small = 2.0 ** (1 - value.dtype.significand_bits) if eps is None else eps
    mean = reduction.mean(elementwise.mul(value, value), -1)
    made = elementwise.mul(value, unary.rsqrt(elementwise.add(mean, small)))
    return made if weight is None else elementwise.mul(made, weight)


@staged
def mse_loss(x: TensorValueLike, target: TensorValueLike) -> TensorValue:
    """The mean of the squared differences of two tensors of one shape, of rank 0."""
    off = elementwise.sub(x, target)
    return _mean(elementwise.mul(off, off))


@staged
def l1_loss(x: TensorValueLike, target: TensorValueLike) -> TensorValue:
    """The mean of the absolute differences of two tensors of one shape, of rank 0."""
    off = elementwise.sub(x, target)
    return _mean(elementwise.elementwise_max(off, elementwise.sub(target, x)))


def _mean(x: TensorValue) -> TensorValue:
    return shaping.squeeze(reduction.mean(shaping.reshape(x, (-1,)), 0), 0)


@staged
def cosine_similarity(
    x: TensorValueLike, y: TensorValueLike, dim: int = 1, eps: float = 1e-8
) -> TensorValue:
    """The products of ``x`` and ``y`` along ``dim`` over the product of their lengths, which are
    ``eps`` at least; ``dim`` is dropped."""
    left, right = tensor(x, "cosine_similarity: x"), tensor(y, "cosine_similarity: y")

    def length(value: TensorValue) -> TensorValue:
        total = reduction.sum(elementwise.mul(value, value), dim)
        floor = elementwise.elementwise_max(total, eps * eps)
        return elementwise.mul(floor, unary.rsqrt(floor))

    both = reduction.sum(elementwise.mul(left, right), dim)
    made = elementwise.div(both, elementwise.mul(length(left), length(right)))
    return shaping.squeeze(made, dim)


@staged
def embedding(indices: TensorValueLike, weight: TensorValueLike) -> TensorValue:
    """The rows of ``weight`` that ``indices`` name; see ``gather``."""
    return indexing.gather(tensor(weight, "embedding: the weight"), indices, 0)


@staged
def scaled_dot_product_attention(
    query: TensorValueLike,
    key: TensorValueLike,
    value: TensorValueLike,
    attn_mask: TensorValueLike | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
) -> TensorValue:
    """``softmax(query @ key.T * scale) @ value`` of ``[..., length, width]``, as PyTorch's.

    Args:
        query: The queries.
        key: The keys.
        value: The values.
        attn_mask: Bools that are true where a query may see a key, or numbers that are added.
        is_causal: Whether a query sees only the keys up to its own place.
        scale: What products are multiplied with; one over the root of the width when left out.
        dropout_p: 0: nothing is dropped in inference.

    Raises:
        ArgumentError: ML968, ``dropout_p`` is not 0.
    """
    if dropout_p:
        activations.dropout(query, dropout_p, training=True)
    q, k = tensor(query, "attention: the query"), tensor(key, "attention: the key")
    if scale is None:
        scale = float(as_int("attention", q.shape[-1], "the width")) ** -0.5
    scores = elementwise.mul(linalg.matmul(q, shaping.transpose(k, -1, -2)), scale)
    if is_causal:
        rows = making.arange(0, q.shape[-2], device=q.device)
        columns = making.arange(0, k.shape[-2], device=q.device)
        hidden = elementwise.greater(columns, shaping.unsqueeze(rows, 1))
        scores = elementwise.where(hidden, float("-inf"), scores)
    if attn_mask is not None:
        mask = tensor(attn_mask, "attention: the mask")
        if mask.dtype.is_float():
            scores = elementwise.add(scores, mask)
        else:
            scores = elementwise.where(mask, scores, float("-inf"))
    return linalg.matmul(reduction.softmax(scores), value)


__all__ = [
    "batch_norm",
    "bmm",
    "cosine_similarity",
    "dot",
    "einsum",
    "embedding",
    "inner",
    "l1_loss",
    "linear",
    "mm",
    "mse_loss",
    "mv",
    "rms_norm",
    "scaled_dot_product_attention",
    "tensordot",
]
