"""Ops whose results have sizes that only a run tells.

Each takes an ``out_dim``. A name that is new in the graph becomes the dim of the result, and every
later op may use it; a number, or a dim that has a size already, is asserted when the model runs.
"""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.graph.build import add as add_op
from maxlab.graph.build import cast, is_weak, literal, staged, tensor
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import DeviceRef, Dim, DimLike, Shape
from maxlab.opset.dynamic import out_dim_of
from maxlab.opset.rules import require_dtype, same_dtype


@staged
def nonzero(x: TensorValueLike, out_dim: DimLike) -> TensorValue:
    """The indices of the elements of ``x`` that are not zero: int64, ``[out_dim, rank]``, in
    row-major order. NaN is not zero.

    Args:
        x: A tensor of any shape and dtype.
        out_dim: The dim of the result. A new name is defined by the number of such elements, which
            may be 0, and may be used from here on; everything else is asserted when the model runs
            (ML726).

    Raises:
        ArgumentError: ML728, ``out_dim`` is negative.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Dim, Graph, TensorType, ops
        >>> with Graph("hits", input_types=[TensorType(DType.float32, ["n", 3])]) as graph:
        ...     found = ops.nonzero(graph.inputs[0], "hits")
        ...     number = ops.range(0, Dim("hits"), dtype=DType.int64, device=DeviceRef.CPU())
        ...     graph.output(found, number)
        >>> model = engine.InferenceSession().load(graph)
        >>> found, number = model(np.array([[0, 5, 0], [7, 0, 0]], np.float32))
        >>> found.to_numpy().tolist(), number.to_numpy().tolist()
        ([[0, 1], [1, 0]], [0, 1])
    """
    value = tensor(x, "nonzero: the operand")
    starts, total = count_nonzero(value)
    dim = out_dim_of(out_dim)
    return add_op("nonzero", [value, starts, bind_dim(total, dim, "nonzero")], out_dim=dim)


@staged
def masked_scatter(
    input: TensorValueLike,
    mask: TensorValueLike,
    updates: TensorValueLike,
    out_dim: DimLike,
) -> TensorValue:
    """``input`` with the elements of ``updates``, in row-major order, where ``mask`` is true.

    Args:
        input: A tensor of any shape.
        mask: Bools that broadcast to the shape of ``input``.
        updates: As many elements as ``mask`` has true ones, of the dtype of ``input``, in any
            shape. Numbers and arrays take its dtype.
        out_dim: The number of true elements: a new name is defined by it, everything else is
            asserted when the model runs (ML726). ``updates`` must have so many elements (ML603).

    Raises:
        DTypeError: ML108, ``mask`` is not bool; ML110, ``updates`` have another dtype.
        ShapeError: ML205, ``mask`` does not broadcast to the shape of ``input``; ML206,
            ``updates`` cannot have ``out_dim`` elements.
        ArgumentError: ML728, ``out_dim`` is negative.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> row, some = TensorType(DType.float32, ["n"]), TensorType(DType.float32, ["k"])
        >>> with Graph("fill", input_types=[row, some]) as graph:
        ...     x, new = graph.inputs
        ...     graph.output(ops.masked_scatter(x, ops.is_nan(x), new, "holes"))
        >>> model = engine.InferenceSession().load(graph)
        >>> x = np.array([1, np.nan, 3, np.nan], np.float32)
        >>> model(x, np.array([20, 40], np.float32))[0].to_numpy()
        array([ 1., 20.,  3., 40.], dtype=float32)
    """
    value = tensor(input, "masked_scatter: the input")
    where = literal(mask, DType.bool, value.device) if is_weak(mask) else tensor(mask)
    require_dtype("masked_scatter: the mask", where.type, DType.bool)
    if list(where.shape) != list(value.shape):
        where = add_op("broadcast_to", [where], shape=value.shape)
    if is_weak(updates):
        new = literal(updates, value.dtype, value.device)
    else:
        new = tensor(updates, "masked_scatter: the updates")
    same_dtype("masked_scatter", [value.type, new.type])
    starts, total = count_nonzero(where)
    dim = out_dim_of(out_dim)
    bound = bind_dim(total, dim, "masked_scatter")
    if new.rank != 1:
        new = add_op("reshape", [new], shape=Shape([new.shape.num_elements]))
    if new.shape[0] != dim:
        message = "masked_scatter: the number of updates"
        new = add_op("rebind", [new], shape=Shape([dim]), message=message, layout=None)
    return add_op("masked_scatter", [value, where, new, starts, bound])


def count_nonzero(x: TensorValue) -> tuple[TensorValue, TensorValue]:
    """Where the elements of each chunk of ``x`` that are not zero begin, and how many there are."""
    made: Any = add_op("nonzero.count", [x])
    starts, total = made
    return starts, total


def bind_dim(size: TensorValue, dim: Dim, what: str, negative: str = "") -> TensorValue:
    """``size``, an int64 of rank 0, which becomes the size of ``dim`` or is asserted to be it.

    Args:
        size: What is computed.
        dim: A dim; a name that is new is defined.
        what: What the error of a failed assertion begins with.
        negative: What is wrong when ``size`` is negative.
    """
    return add_op("bind_dim", [size], dim=dim, what=what, negative=negative)


def to_device(x: TensorValue, device: DeviceRef) -> TensorValue:
    """``x`` on ``device``."""
    return x if x.device == device else add_op("transfer", [x], device=device)


def one_int(x: Any, device: DeviceRef) -> TensorValue:
    """``x``, a number, dim or integer tensor of rank 0, as an int64 on ``device``."""
    value = literal(x, DType.int64, device) if is_weak(x) else tensor(x)
    return to_device(cast(value, DType.int64), device)


__all__ = ["masked_scatter", "nonzero"]
