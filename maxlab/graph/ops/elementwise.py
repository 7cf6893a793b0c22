"""Elementwise ops of several operands: arithmetic, comparison, logic, ``where``; and ``cast``."""

from __future__ import annotations

from typing import Final

from maxlab.dtype import DType
from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_dtype, float_pair, literal, pair, staged, tensor
from maxlab.graph.build import cast as cast_op
from maxlab.graph.build import is_weak as is_weak_operand
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "elementwise"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def add(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The sums of two tensors, broadcast; integers wrap.

    Args:
        lhs: A tensor, or a number or array that takes the other operand's dtype.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML101, the dtypes have no common dtype; ML102, a value that does not fit; ML106,
            bools.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> row = TensorType(DType.float32, [1, "m"])
        >>> column = TensorType(DType.float32, ["n", 1])
        >>> with Graph("g", input_types=[row, column]) as graph:
        ...     ops.add(*graph.inputs).shape
        [Dim('n'), Dim('m')]
    """
    return add_op("add", pair("add", lhs, rhs))


@staged
def sub(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The differences of two tensors, broadcast; integers wrap.

    Args:
        lhs: A tensor, or a number or array that takes the other operand's dtype.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML101, the dtypes have no common dtype; ML102, a value that does not fit; ML106,
            bools.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("sub", pair("sub", lhs, rhs))


@staged
def mul(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The products of two tensors, broadcast; integers wrap.

    Args:
        lhs: A tensor, or a number or array that takes the other operand's dtype.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML101, the dtypes have no common dtype; ML102, a value that does not fit; ML106,
            bools.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("mul", pair("mul", lhs, rhs))


@staged
def mod(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The remainders of two tensors, broadcast, with the sign of the divisor: 5.5 mod -3 is -0.5.

    Args:
        lhs: A tensor, or a number or array that takes the other operand's dtype.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML101, the dtypes have no common dtype; ML102, a value that does not fit; ML106,
            bools.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("mod", pair("mod", lhs, rhs))


@staged
def pow(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """``lhs`` to the power ``rhs``, broadcast; an integer to a negative power is 0.

    Args:
        lhs: A tensor, or a number or array that takes the other operand's dtype.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML101, the dtypes have no common dtype; ML102, a value that does not fit; ML106,
            bools.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("pow", pair("pow", lhs, rhs))


@staged
def equal(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """Whether the elements of two tensors are equal: a bool tensor, broadcast. NaN equals nothing.

    Args:
        lhs: A tensor, or a number or array that takes the other operand's dtype.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML101, the dtypes have no common dtype; ML102, a value that does not fit.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("equal", pair("equal", lhs, rhs))


@staged
def not_equal(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """Whether the elements of two tensors differ: a bool tensor, broadcast. NaN differs from
    itself.

    Args:
        lhs: A tensor, or a number or array that takes the other operand's dtype.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML101, the dtypes have no common dtype; ML102, a value that does not fit.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("not_equal", pair("not_equal", lhs, rhs))


@staged
def greater(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """Whether ``lhs`` is greater than ``rhs``: a bool tensor, broadcast.

    Args:
        lhs: A tensor, or a number or array that takes the other operand's dtype.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML101, the dtypes have no common dtype; ML102, a value that does not fit.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("greater", pair("greater", lhs, rhs))


@staged
def greater_equal(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """Whether ``lhs`` is greater than or equal to ``rhs``: a bool tensor, broadcast.

    Args:
        lhs: A tensor, or a number or array that takes the other operand's dtype.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML101, the dtypes have no common dtype; ML102, a value that does not fit.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("greater_equal", pair("greater_equal", lhs, rhs))


@staged
def logical_and(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """Whether both of two bools are true, broadcast.

    Args:
        lhs: A bool tensor, or a bool.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML108, an operand is not a bool tensor.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("logical_and", pair("logical_and", lhs, rhs))


@staged
def logical_or(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """Whether any of two bools is true, broadcast.

    Args:
        lhs: A bool tensor, or a bool.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML108, an operand is not a bool tensor.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("logical_or", pair("logical_or", lhs, rhs))


@staged
def logical_xor(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """Whether exactly one of two bools is true, broadcast.

    Args:
        lhs: A bool tensor, or a bool.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML108, an operand is not a bool tensor.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    return add_op("logical_xor", pair("logical_xor", lhs, rhs))


@staged
def floordiv(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The quotients of two tensors, broadcast, rounded down: the operator ``//``."""
    return add_op("floordiv", pair("//", lhs, rhs))


@staged
def divmod(lhs: TensorValueLike, rhs: TensorValueLike) -> tuple[TensorValue, TensorValue]:
    """The quotients of two tensors, rounded down, and the remainders: Python's ``divmod``."""
    left, right = pair("divmod", lhs, rhs)
    return add_op("floordiv", [left, right]), add_op("mod", [left, right])


@staged
def div(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The true quotients of two tensors, broadcast; integers are divided as float64.

    Args:
        lhs: A tensor, or a number or array that takes the other operand's dtype.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML101, the dtypes have no common dtype; ML102, a value that does not fit; ML106,
            bools.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.int32, ["n"])]) as graph:
        ...     ops.div(graph.inputs[0], 2).dtype
        DType.float64
    """
    return add_op("div", float_pair("div", lhs, rhs))


def elementwise_max(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The larger elements of two tensors, broadcast; NaN where either is NaN."""
    return add_op("max", pair("max", lhs, rhs))


def elementwise_min(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The smaller elements of two tensors, broadcast; NaN where either is NaN."""
    return add_op("min", pair("min", lhs, rhs))


@staged
def where(condition: TensorValueLike, x: TensorValueLike, y: TensorValueLike) -> TensorValue:
    """The elements of ``x`` where ``condition`` is true and of ``y`` elsewhere, broadcast.

    Args:
        condition: A bool tensor or array.
        x: A tensor, or a number or array that takes the dtype of ``y``.
        y: As ``x``; one of the two must be a tensor of the graph.

    Raises:
        DTypeError: ML108, the condition is not bool; ML101, ``x`` and ``y`` have no common dtype;
            ML102, a value that does not fit.
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
        ArgumentTypeError: ML318, neither ``x`` nor ``y`` is a tensor of the graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("relu", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     x = graph.inputs[0].tensor
        ...     graph.output(ops.where(x > 0, x, 0))
    """
    left, right = pair("where", x, y)
    if is_weak_operand(condition):
        condition = literal(condition, DType.bool, left.device)
    return add_op("where", [tensor(condition, "where: the condition"), left, right])


@staged
def cast(x: TensorValueLike, dtype: DType) -> TensorValue:
    """The elements of ``x`` converted to ``dtype``, in the same shape.

    A float becomes an integer by dropping its fraction; NaN, infinities and values out of range
    become the lowest value of int32, or of int64 for uint32 and 64 bits, of which narrower and
    unsigned integers take the low bits. Integers wrap. Anything becomes a float by rounding once,
    to nearest even, and the bool of whether it differs from 0, as NaN does.

    Args:
        x: A tensor of any shape and dtype.
        dtype: The dtype of the result.

    Raises:
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph; ML399, ``dtype`` is not a
            ``DType``.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, [4])]) as graph:
        ...     ops.cast(graph.inputs[0], DType.int8).dtype
        DType.int8
    """
    return cast_op(tensor(x, "cast: the operand"), as_dtype("cast", dtype))


@staged
def bitcast(x: TensorValueLike, dtype: DType) -> TensorValue:
    """The bytes of ``x``, as the numbers of ``dtype`` that they are.

    The shape is that of ``x`` where numbers of both have as many bytes. Otherwise the last dim
    becomes as many numbers as there are in its bytes, lowest byte first, as NumPy's ``view`` and
    PyTorch's have it.

    Args:
        x: A tensor of any shape, whose dtype is not bool.
        dtype: The dtype of the result, not bool.

    Raises:
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph; ML399, ``dtype`` is not a
            ``DType``; ML523, one of the dtypes is bool.
        ShapeError: ML523, the bytes of the last dim are no whole numbers of ``dtype``, or nobody
            knows how many they are.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("bytes", input_types=[TensorType(DType.float16, ["n", 4])]) as graph:
        ...     ops.bitcast(graph.inputs[0], DType.uint8).shape
        [Dim('n'), Dim(8)]
    """
    operand = tensor(x, "bitcast: the operand")
    return add_op("bitcast", [operand], dtype=as_dtype("bitcast", dtype))
