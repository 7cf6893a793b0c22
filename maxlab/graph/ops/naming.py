"""Arithmetic and comparison by the names that NumPy and PyTorch have, and what composes of them."""

from __future__ import annotations

import math
from typing import Final

from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.graph.build import cast, staged, tensor
from maxlab.graph.ops import elementwise, reduction, unary
from maxlab.graph.ops.dims import worded
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "elementwise"
"""Of the functions here that are no rows of the op table themselves."""

multiply = elementwise.mul
subtract = elementwise.sub
divide = true_divide = elementwise.div
power = elementwise.pow
remainder = elementwise.mod
floor_divide = elementwise.floordiv
neg = negative = unary.negate
absolute = unary.abs
rint = unary.round
isnan = unary.is_nan
isinf = unary.is_inf
eq = elementwise.equal
ne = elementwise.not_equal
gt = elementwise.greater
ge = elementwise.greater_equal
swish = unary.silu


@staged
def less(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """Whether ``lhs`` is less than ``rhs``; see ``greater``."""
    return elementwise.greater(rhs, lhs)


@staged
def less_equal(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """Whether ``lhs`` is less than or equal to ``rhs``; see ``greater_equal``."""
    return elementwise.greater_equal(rhs, lhs)


lt, le = less, less_equal


@staged
def maximum(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The larger elements of two tensors, broadcast; see ``max``."""
    return elementwise.elementwise_max(lhs, rhs)


@staged
def minimum(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The smaller elements of two tensors, broadcast; see ``min``."""
    return elementwise.elementwise_min(lhs, rhs)


@worded(a_min="min", a_max="max")
@staged
def clip(
    x: TensorValueLike, min: TensorValueLike | None = None, max: TensorValueLike | None = None
) -> TensorValue:
    """``x`` with what is below ``min`` raised to it and what is above ``max`` lowered to it.

    Args:
        x: A tensor of numbers.
        min: The least that stays; None for no bound.
        max: The most that stays; None for no bound.

    Raises:
        ArgumentError: ML967, neither bound is given.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(ops.clip(graph.inputs[0], -1, 1))
    """
    if min is None and max is None:
        raise ArgumentError("ML967", "clip: neither bound is given", fix="write ops.clip(x, -1, 1)")
    made = tensor(x, "clip: the operand")
    if min is not None:
        made = elementwise.elementwise_max(made, min)
    return made if max is None else elementwise.elementwise_min(made, max)


clamp = clip


@staged
def square(x: TensorValueLike) -> TensorValue:
    """The squares of the elements."""
    value = tensor(x, "square: the operand")
    return elementwise.mul(value, value)


@staged
def reciprocal(x: TensorValueLike) -> TensorValue:
    """One divided by each element; integers are divided as float64."""
    return elementwise.div(1, tensor(x, "reciprocal: the operand"))


@staged
def sign(x: TensorValueLike) -> TensorValue:
    """-1, 0 or 1 in the dtype of ``x``, as an element is negative, zero or positive; NaN for
    NaN."""
    value = tensor(x, "sign: the operand")
    up = cast(elementwise.greater(value, 0), value.dtype)
    down = cast(elementwise.greater(0, value), value.dtype)
    made = elementwise.sub(up, down)
    if not value.dtype.is_float():
        return made
    return elementwise.where(unary.is_nan(value), value, made)


@staged
def ceil(x: TensorValueLike) -> TensorValue:
    """The least integers that are not below the elements of a float tensor."""
    return unary.negate(unary.floor(unary.negate(x)))


@staged
def isfinite(x: TensorValueLike) -> TensorValue:
    """Whether the elements of a float tensor are neither NaN nor infinite."""
    value = tensor(x, "isfinite: the operand")
    return unary.logical_not(elementwise.logical_or(unary.is_nan(value), unary.is_inf(value)))


@staged
def exp2(x: TensorValueLike) -> TensorValue:
    """2 to the power of the elements of a float tensor."""
    return elementwise.pow(2.0, tensor(x, "exp2: the operand"))


@staged
def expm1(x: TensorValueLike) -> TensorValue:
    """``exp(x) - 1`` of a float tensor, exact near 0 too: ``2 t / (1 - t)`` with
    ``t = tanh(x / 2)`` where ``x`` lies within 1 of it."""
    value = tensor(x, "expm1: the operand")
    half = unary.tanh(elementwise.mul(value, 0.5))
    near = elementwise.div(elementwise.mul(half, 2.0), elementwise.sub(1.0, half))
    small = elementwise.greater(1.0, unary.abs(value))
    return elementwise.where(small, near, elementwise.sub(unary.exp(value), 1.0))


@staged
def log2(x: TensorValueLike) -> TensorValue:
    """The logarithms to base 2 of a float tensor."""
    return elementwise.mul(unary.log(x), 1 / math.log(2))


@staged
def log10(x: TensorValueLike) -> TensorValue:
    """The logarithms to base 10 of a float tensor."""
    return elementwise.mul(unary.log(x), 1 / math.log(10))


@staged
def tan(x: TensorValueLike) -> TensorValue:
    """The tangents of a float tensor: sine over cosine."""
    return elementwise.div(unary.sin(x), unary.cos(x))


@staged
def sinh(x: TensorValueLike) -> TensorValue:
    """The hyperbolic sines of a float tensor, exact near 0 too."""
    value = tensor(x, "sinh: the operand")
    grown = expm1(unary.abs(value))
    made = elementwise.mul(
        elementwise.add(grown, elementwise.div(grown, elementwise.add(grown, 1.0))), 0.5
    )
    return elementwise.mul(sign(value), made)


@staged
def cosh(x: TensorValueLike) -> TensorValue:
    """The hyperbolic cosines of a float tensor."""
    value = tensor(x, "cosh: the operand")
    both = elementwise.add(unary.exp(value), unary.exp(unary.negate(value)))
    return elementwise.mul(both, 0.5)


@staged
def masked_fill(x: TensorValueLike, mask: TensorValueLike, value: TensorValueLike) -> TensorValue:
    """``x`` with ``value``, a number, where ``mask`` is true."""
    return elementwise.where(mask, value, x)


log_softmax = reduction.logsoftmax


def bools(x: TensorValueLike, what: str) -> TensorValue:
    """Whether the elements of ``x`` differ from 0, as a bool tensor."""
    return cast(tensor(x, f"{what}: the operand"), DType.bool)


__all__ = [
    "absolute",
    "bools",
    "ceil",
    "clamp",
    "clip",
    "cosh",
    "divide",
    "eq",
    "exp2",
    "expm1",
    "floor_divide",
    "ge",
    "gt",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "less",
    "less_equal",
    "log10",
    "log2",
    "log_softmax",
    "lt",
    "masked_fill",
    "maximum",
    "minimum",
    "multiply",
    "ne",
    "neg",
    "negative",
    "power",
    "reciprocal",
    "remainder",
    "rint",
    "sign",
    "sinh",
    "square",
    "subtract",
    "swish",
    "tan",
    "true_divide",
]
