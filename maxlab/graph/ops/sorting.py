"""Elements in order: the largest along an axis, and the indices that sort."""

from __future__ import annotations

from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_int, staged, tensor
from maxlab.graph.ops.dims import along
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.opset.rules import axis_of


@along
@staged
def top_k(input: TensorValueLike, k: int, axis: int = -1) -> tuple[TensorValue, TensorValue]:
    """The ``k`` largest elements along ``axis``, the largest first, and their indices.

    Both have the shape of ``input`` with ``k`` for the size of the axis; the values have its dtype,
    the indices are int64. Of equal elements the one with the lowest index comes first; NaN is
    larger than all numbers.

    Args:
        input: A tensor of rank 1 or more.
        k: How many; from 0 to the size of the axis. Where that is symbolic, it is compared when the
            model is called.
        axis: The axis to select from; negative from the end.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``input`` has rank 0.
        ArgumentError: ML360, ``k`` is negative or larger than the axis.
        ArgumentTypeError: ML302, ``k`` or ``axis`` is not an int.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(*ops.top_k(graph.inputs[0], 2))
        >>> model = engine.InferenceSession().load(graph)
        >>> values, indices = model(np.array([1, 5, 3, 5], np.float32))
        >>> values.to_numpy(), indices.to_numpy()
        (array([5., 5.], dtype=float32), array([1, 3]))
    """
    x = tensor(input, "top_k: the input")
    count = as_int("top_k", k, "k")
    last, position = x.rank - 1, axis_of(axis, x.rank, "top_k")
    if position != last:
        x = add_op("transpose", [x], axis_1=position, axis_2=last)
    values, indices = add_op("top_k", [x], k=count)
    if position != last:
        values = add_op("transpose", [values], axis_1=position, axis_2=last)
        indices = add_op("transpose", [indices], axis_1=position, axis_2=last)
    return values, indices


@staged
def argsort(x: TensorValueLike, ascending: bool = True) -> TensorValue:
    """The indices that sort ``x``, int64, in its shape; equal elements keep their order.

    NaN is larger than all numbers: it comes last, or first when the order is descending.

    Args:
        x: A tensor of rank 1.
        ascending: Whether the smallest element comes first, else the largest.

    Raises:
        ShapeError: ML361, ``x`` is not of rank 1.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(ops.argsort(graph.inputs[0], ascending=False))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.array([1, 5, 3, 5], np.float32))[0].to_numpy()
        array([1, 3, 2, 0])
    """
    return add_op("argsort", [tensor(x, "argsort: the operand")], ascending=bool(ascending))


__all__ = ["argsort", "top_k"]
