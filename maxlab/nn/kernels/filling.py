"""Numbers that are put into buffers at computed places."""

from __future__ import annotations

from maxlab.errors import ArgumentError, ShapeError, shown
from maxlab.graph import BufferValue, TensorValue, TensorValueLike, ops
from maxlab.graph.build import buffer, is_number, staged, tensor
from maxlab.graph.value import HasBufferValue


@staged
def scatter_set_constant(
    data: BufferValue | HasBufferValue, indices: TensorValueLike, fill_val: float
) -> None:
    """Puts ``fill_val`` into the buffer ``data`` at each row of ``indices``.

    A negative index counts from the end; one that is out of range ends the run with ML652.

    Args:
        data: A buffer.
        indices: Integers [count, rank of ``data``].
        fill_val: The number, which the dtype of ``data`` must hold.

    Raises:
        ArgumentTypeError: ML776, ``data`` is not a buffer; ML317, ``indices`` are no tensor.
        ShapeError: ML659, ``indices`` of other sizes (a ValueError).
        ArgumentError: ML667, ``fill_val`` is not a number (a ValueError).

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import BufferType, Graph
        >>> with Graph("fill", input_types=[BufferType(DType.float32, [2, 3])]) as graph:
        ...     scatter_set_constant(graph.inputs[0].buffer, np.array([[0, 2], [1, 0]]), -10)
        ...     graph.output()
        >>> logits = np.ones((2, 3), np.float32)
        >>> _ = InferenceSession().load(graph)(logits)
        >>> logits.tolist()
        [[1.0, 1.0, -10.0], [-10.0, 1.0, 1.0]]
    """
    what = "scatter_set_constant"
    to = buffer(data, f"{what}: data")
    held = ops.buffer_load(to)
    places: TensorValue = tensor(indices, f"{what}: indices")
    if places.rank != 2 or places.shape[1] != held.rank:
        raise ShapeError(
            "ML659",
            f"{what}: indices must be [count, {held.rank}], got {places.type}",
            fix="pass a row with an index of each dim for each element",
        )
    if not is_number(fill_val):
        raise ArgumentError(
            "ML667",
            f"{what}: fill_val must be a number, got {shown(fill_val)}",
            fix="pass a float, such as -10000.0",
        )
    filled = ops.broadcast_to(ops.constant(fill_val, held.dtype, held.device), [places.shape[0]])
    ops.buffer_store(to, ops.scatter_nd(held, filled, places))


__all__ = ["scatter_set_constant"]
