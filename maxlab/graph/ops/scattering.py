"""Reading and writing at many indices at once."""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_int, is_weak, literal, staged, tensor
from maxlab.graph.value import TensorValue, TensorValueLike


def _indices(what: str, indices: Any, x: TensorValue) -> TensorValue:
    if is_weak(indices):
        return literal(indices, DType.int64, x.device)
    return tensor(indices, f"{what}: the indices")


def _updates(what: str, updates: Any, x: TensorValue) -> TensorValue:
    if is_weak(updates):
        return literal(updates, x.dtype, x.device)
    return tensor(updates, f"{what}: the updates")


@staged
def gather_nd(input: TensorValueLike, indices: TensorValueLike, batch_dims: int = 0) -> TensorValue:
    """The parts of ``input`` that rows of indices name.

    The last dim of ``indices`` is a row: its numbers index the dims of ``input`` that follow the
    first ``batch_dims``, which both have in common. The result has the dtype of ``input`` and the
    shape ``indices.shape[:-1] + input.shape[batch_dims + indices.shape[-1]:]``.

    An index counts from the end when it is negative; one that is out of range is an error when the
    model runs.

    Args:
        input: A tensor.
        indices: Integers, a tensor or array, whose last dim is of known size.
        batch_dims: How many leading dims both have in common; they do not broadcast.

    Raises:
        DTypeError: ML109, the indices are not integers.
        ArgumentError: ML304, the operands live on different devices; ML362, ``batch_dims`` is
            negative or larger than the rank.
        ShapeError: ML362, the batch dims differ; ML363, the last dim of the indices is not known,
            or larger than the rank that is left.
        ArgumentTypeError: ML302, ``batch_dims`` is not an int.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> table = TensorType(DType.bfloat16, ["a", "b", "c", "d", "e"])
        >>> rows = TensorType(DType.int32, ["a", "f", 3])
        >>> with Graph("gather_nd", input_types=[table, rows]) as graph:
        ...     ops.gather_nd(*graph.inputs, batch_dims=1).shape
        [Dim('a'), Dim('f'), Dim('e')]
    """
    x = tensor(input, "gather_nd: the input")
    batch = as_int("gather_nd", batch_dims, "batch_dims")
    return add_op("gather_nd", [x, _indices("gather_nd", indices, x)], batch_dims=batch)


@staged
def scatter(
    input: TensorValueLike,
    updates: TensorValueLike,
    indices: TensorValueLike,
    axis: int = -1,
) -> TensorValue:
    """``input`` with each update written to where its index says along ``axis``.

    An update stands, along the other axes, where it stands in ``updates``. Of several updates for
    one place the last in row-major order stays. An index counts from the end when it is negative;
    one that is out of range is an error when the model runs.

    Args:
        input: A tensor of rank 1 or more.
        updates: A tensor of its dtype and rank, or an array; along the axes other than ``axis`` not
            longer than ``input``.
        indices: Integers in the shape of ``updates``, a tensor or array.
        axis: The axis that is indexed; negative from the end.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``input`` has rank 0.
        DTypeError: ML109, the indices are not integers; ML110, the updates have another dtype.
        ArgumentError: ML304, the operands live on different devices.
        ShapeError: ML364, the shapes do not fit.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, [4])]) as graph:
        ...     x = graph.inputs[0]
        ...     graph.output(ops.scatter(x, np.array([7, 8, 9]), np.array([0, -1, 0])))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.array([1, 2, 3, 4], np.float32))[0].to_numpy()
        array([9., 2., 3., 8.], dtype=float32)
    """
    x = tensor(input, "scatter: the input")
    operands = [x, _updates("scatter", updates, x), _indices("scatter", indices, x)]
    return add_op("scatter", operands, axis=axis)


@staged
def scatter_nd(
    input: TensorValueLike, updates: TensorValueLike, indices: TensorValueLike
) -> TensorValue:
    """``input`` with each update written to the place that its row of indices names.

    The last dim of ``indices`` is a row: its numbers index the first dims of ``input``, and the
    update is an element or, where they index fewer dims than there are, a slice. Of several updates
    for one place the last in row-major order stays. An index counts from the end when it is
    negative; one that is out of range is an error when the model runs.

    Args:
        input: A tensor.
        updates: A tensor of its dtype, or an array, of the shape
            ``indices.shape[:-1] + input.shape[indices.shape[-1]:]``.
        indices: Integers, a tensor or array, whose last dim is of known size.

    Raises:
        DTypeError: ML109, the indices are not integers; ML110, the updates have another dtype.
        ArgumentError: ML304, the operands live on different devices.
        ShapeError: ML363, the last dim of the indices is not known, or larger than the rank;
            ML364, the updates have another shape.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, [3, 2])]) as graph:
        ...     x = graph.inputs[0]
        ...     graph.output(ops.scatter_nd(x, np.array([[7, 8]]), np.array([[-1]])))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.zeros((3, 2), np.float32))[0].to_numpy()
        array([[0., 0.],
               [0., 0.],
               [7., 8.]], dtype=float32)
    """
    x = tensor(input, "scatter_nd: the input")
    operands = [x, _updates("scatter_nd", updates, x), _indices("scatter_nd", indices, x)]
    return add_op("scatter_nd", operands)


__all__ = ["gather_nd", "scatter", "scatter_nd"]
