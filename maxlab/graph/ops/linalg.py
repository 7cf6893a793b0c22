"""Products of vectors and matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from maxlab.errors import ShapeError, missing
from maxlab.graph.build import add as add_op
from maxlab.graph.build import pair, staged
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import Shape
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "contract"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def matmul(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The matrix product over the last two dims: ``[..., m, k] @ [..., k, n]`` is ``[..., m, n]``.

    Leading dims broadcast. A vector on the left counts as ``[1, k]``, one on the right as ``[k,
    1]``; the 1 is gone from the result. Half-precision floats are summed in float32.

    Args:
        lhs: A tensor of rank 1 or more, or an array that takes the dtype of ``rhs``.
        rhs: As ``lhs``; one of the two must be a tensor of the graph.

    Raises:
        ShapeError: ML203, the inner dims differ; ML212, the leading dims do not broadcast; ML211,
            rank 0.
        DTypeError: ML101, no common dtype; ML102, a value that does not fit; ML106, bools.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> x = TensorType(DType.float32, ["batch", 64])
        >>> w = TensorType(DType.float32, [64, 10])
        >>> with Graph("linear", input_types=[x, w]) as graph:
        ...     ops.matmul(*graph.inputs).shape
        [Dim('batch'), Dim(10)]
    """
    left, right = pair("matmul", lhs, rhs)
    if not left.rank or not right.rank:
        raise ShapeError(
            "ML211",
            f"matmul: operands of rank {left.rank} and {right.rank}, expected 1 or more",
            fix="multiply by a number with *",
        )
    row, column = left.rank == 1, right.rank == 1
    if row:
        left = add_op("unsqueeze", [left], axis=0)
    if column:
        right = add_op("unsqueeze", [right], axis=1)
    product = add_op("matmul", [left, right])
    if row:
        product = add_op("squeeze", [product], axis=-2)
    if column:
        product = add_op("squeeze", [product], axis=-1)
    return product


@staged
def outer(lhs: TensorValueLike, rhs: TensorValueLike) -> TensorValue:
    """The products of each element of ``lhs`` with each of ``rhs``: ``[m, n]``.

    Args:
        lhs: A tensor with ``m`` elements, flattened first, or an array that takes the dtype of
            ``rhs``.
        rhs: A tensor with ``n`` elements, flattened first; one of the two must be a tensor of the
            graph.

    Raises:
        DTypeError: ML101, no common dtype; ML102, a value that does not fit; ML106, bools.
        ArgumentTypeError: ML318, neither operand is a tensor of the graph.
    """
    left, right = pair("outer", lhs, rhs)
    column = add_op("reshape", [left], shape=Shape([left.shape.num_elements, 1]))
    row = add_op("reshape", [right], shape=Shape([1, right.shape.num_elements]))
    return add_op("mul", [column, row])


__all__ = ["matmul", "outer"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Raises the error for a name that is not there, with the name to use instead."""
        from maxlab.graph.elsewhere import LINALG

        raise missing("ops.linalg", name, __all__, LINALG)
