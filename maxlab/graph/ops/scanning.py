"""Ops that go along an axis and keep what they passed."""

from __future__ import annotations

from maxlab.graph.build import add as add_op
from maxlab.graph.build import staged, tensor
from maxlab.graph.ops.dims import along
from maxlab.graph.value import TensorValue, TensorValueLike


@along
@staged
def cumsum(
    x: TensorValueLike, axis: int = -1, exclusive: bool = False, reverse: bool = False
) -> TensorValue:
    """The running sums along ``axis``, in the shape and dtype of ``x``; integers wrap.

    Args:
        x: A tensor of numbers, of rank 1 or more.
        axis: The axis to go along; negative from the end.
        exclusive: Whether each sum leaves out its own element, so that the first is 0.
        reverse: Whether to begin at the end of the axis.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``x`` has rank 0.
        DTypeError: ML106, ``x`` is a bool tensor.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(ops.cumsum(graph.inputs[0], exclusive=True))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.array([1, 2, 3], np.float32))[0].to_numpy()
        array([0., 1., 3.], dtype=float32)
    """
    return add_op(
        "cumsum",
        [tensor(x, "cumsum: the operand")],
        axis=axis,
        exclusive=bool(exclusive),
        reverse=bool(reverse),
    )


__all__ = ["cumsum"]
