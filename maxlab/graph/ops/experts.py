"""Mixtures of experts: the order of rows by expert, and the products of each expert's rows."""

from __future__ import annotations

from typing import Final

from maxlab.graph.build import add as add_op
from maxlab.graph.build import staged, tensor
from maxlab.graph.operands import as_int
from maxlab.graph.value import TensorValue
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "index"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def expert_indices(
    ids: TensorValue, experts: int
) -> tuple[TensorValue, TensorValue, TensorValue, TensorValue, TensorValue]:
    """The order of rows by the expert that each of them goes to, and the group of each expert.

    Rows of one expert keep their order, and groups come in the order of experts. An id that is out
    of range ends the run with ML652.

    Args:
        ids: The expert of each row, int32, int64 or uint32 [rows].
        experts: How many experts there are.

    Returns:
        Five tensors: the rows in their new order, uint32 [rows]; where the group of each expert
        that has rows begins in it, and the end, uint32 [experts + 1]; the place of each row in the
        new order, uint32 [rows]; the experts of the groups, int32 [experts], -1 behind the last
        group; and the rows of the largest group with the number of groups, uint32 [2].

    Raises:
        DTypeError: ML666, ids of another dtype.
        ShapeError: ML659, ids of another rank.
        ArgumentError: ML667, not a positive number of experts.
        ArgumentTypeError: ML302, ``experts`` is not an int.

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import Graph, ops
        >>> with Graph("sort", input_types=[]) as graph:
        ...     graph.output(*ops.expert_indices(np.array([3, 0, 3, 1], np.int32), 4))
        >>> [x.to_numpy().tolist() for x in InferenceSession().load(graph)()]
        [[1, 3, 0, 2], [0, 1, 2, 4, 4], [2, 0, 3, 1], [0, 1, 3, -1], [2, 3]]
    """
    what = "expert_indices"
    count = as_int(what, experts, "experts")
    made = add_op("experts.indices", [tensor(ids, f"{what}: the ids")], experts=count)
    order, starts, restore, chosen, usage = made
    return order, starts, restore, chosen, usage


@staged
def grouped_matmul(
    x: TensorValue,
    weight: TensorValue,
    starts: TensorValue,
    ids: TensorValue,
    usage: TensorValue,
) -> TensorValue:
    """The product of each group of rows with the transposed matrix of its expert, [rows, n].

    Matrices of experts without rows are not read. A group of the expert -1 gives zeros. Groups that
    are not all rows, and an expert that is not there, end the run with ML652.

    Args:
        x: The rows, floats [rows, k], those of a group one after the other.
        weight: The matrices, [experts, n, k], of the same dtype.
        starts: Where groups begin, and the end, uint32 [groups + 1].
        ids: The expert of each group, int32 [groups].
        usage: The rows of the largest group, and the number of groups that have rows, uint32 [2];
            these are the first ones.

    Raises:
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> types = [TensorType(DType.float32, ["rows", 8]), TensorType(DType.int32, ["rows"]),
        ...          TensorType(DType.float32, [4, 16, 8])]
        >>> with Graph("experts", input_types=types) as graph:
        ...     x, expert, weight = (v.tensor for v in graph.inputs)
        ...     order, starts, restore, ids, usage = ops.expert_indices(expert, 4)
        ...     rows = ops.gather(x, order, 0)
        ...     y = ops.grouped_matmul(rows, weight, starts, ids, usage)
        ...     graph.output(ops.gather(y, restore, 0))
        >>> graph.output_types[0].shape
        [Dim('rows'), Dim(16)]
    """
    names = ("rows", "matrices", "starts", "expert ids", "usage")
    values = (x, weight, starts, ids, usage)
    operands = [
        tensor(value, f"grouped_matmul: the {name}")
        for name, value in zip(names, values, strict=True)
    ]
    return add_op("experts.matmul", operands)


__all__ = ["expert_indices", "grouped_matmul"]
