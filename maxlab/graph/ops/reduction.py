"""Ops that fold or normalise along one axis; a folded axis stays, with size 1."""

from __future__ import annotations

from typing import Final

import numpy as np

from maxlab.errors import ArgumentTypeError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import is_weak, literal, staged, tensor
from maxlab.graph.ops.dims import along, converted, folding, paired
from maxlab.graph.ops.elementwise import elementwise_max, elementwise_min
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "reduce"
"""Of the functions here that are no rows of the op table themselves."""


def _reduce(name: str, what: str, x: TensorValueLike, axis: int) -> TensorValue:
    return add_op(name, [tensor(x, f"{what}: the operand")], axis=axis)


@folding
@staged
def sum(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """The sums along ``axis``, which stays with size 1; in the dtype of ``x``, so integers wrap.

    Args:
        x: A tensor of numbers, of rank 1 or more.
        axis: The axis to fold; negative from the end.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``x`` has rank 0.
        DTypeError: ML106, ``x`` is a bool tensor.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 3])]) as graph:
        ...     ops.sum(graph.inputs[0]).shape
        [Dim('n'), Dim(1)]
    """
    return _reduce("reduce.sum", "sum", x, axis)


@folding
@staged
def mean(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """The means along ``axis``, which stays with size 1, in the dtype of ``x``.

    A mean of integers is the true mean without its fraction (towards zero), whatever the sum is:
    unlike ``ops.sum``, it never wraps. The mean of no floats is NaN; of no integers there is none.

    Args:
        x: A tensor of numbers, of rank 1 or more.
        axis: The axis to fold; negative from the end.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``x`` has rank 0.
        DTypeError: ML106, ``x`` is a bool tensor.
        ShapeError: ML207, an axis of integers is empty; ML217, it has more elements than are added
            exactly: 2^31 of 32 and 64 bits, 2^47 of 16, 2^55 of 8. Where only a run knows the size,
            the run raises InputError ML603.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.int8, [3])]) as graph:
        ...     graph.output(ops.mean(graph.inputs[0]))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.array([127, 127, -5], np.int8))[0].to_numpy()
        array([83], dtype=int8)
    """
    return _reduce("mean", "mean", x, axis)


@folding
@staged
def argmax(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """The int64 index of the first largest element along ``axis``, which stays with size 1.

    Args:
        x: A tensor of numbers, of rank 1 or more. A NaN counts as the largest.
        axis: The axis to search; negative from the end.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``x`` has rank 0.
        ShapeError: ML207, the axis is empty.
        DTypeError: ML106, ``x`` is a bool tensor.
    """
    return _reduce("argmax", "argmax", x, axis)


@folding
@staged
def argmin(x: TensorValueLike, axis: int = -1) -> TensorValue:
    """The int64 index of the first smallest element along ``axis``, which stays with size 1.

    Args:
        x: A tensor of numbers, of rank 1 or more. A NaN counts as the smallest.
        axis: The axis to search; negative from the end.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``x`` has rank 0.
        ShapeError: ML207, the axis is empty.
        DTypeError: ML106, ``x`` is a bool tensor.
    """
    return _reduce("argmin", "argmin", x, axis)


@paired("argmax")
@folding
@staged
def max(
    x: TensorValueLike, y: TensorValueLike | None = None, /, axis: int | None = None
) -> TensorValue:
    """The larger elements of two tensors, or the largest along an axis of one, which stays with
    size 1.

    NaN where either operand is NaN, or where the axis has one.

    Args:
        x: A tensor, or beside a tensor ``y`` a number or array.
        y: The other operand; None to fold ``x``.
        axis: The axis to fold, the last one when it is left out. Beside ``y`` it says nothing.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``x`` has rank 0.
        ShapeError: ML201, the operands do not broadcast; ML207, the axis is empty.
        DTypeError: ML101, no common dtype; ML102, a value that does not fit; ML106, bools.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 3])]) as graph:
        ...     x = graph.inputs[0]
        ...     ops.max(x, axis=0).shape, ops.max(x, 0).shape
        ([Dim(1), Dim(3)], [Dim('n'), Dim(3)])
    """
    if y is not None:
        return elementwise_max(x, y)
    return _reduce("reduce.max", "max", x, -1 if axis is None else axis)


@paired("argmin")
@folding
@staged
def min(
    x: TensorValueLike, y: TensorValueLike | None = None, /, axis: int | None = None
) -> TensorValue:
    """The smaller elements of two tensors, or the smallest along an axis of one, which stays with
    size 1.

    NaN where either operand is NaN, or where the axis has one.

    Args:
        x: A tensor, or beside a tensor ``y`` a number or array.
        y: The other operand; None to fold ``x``.
        axis: The axis to fold, the last one when it is left out. Beside ``y`` it says nothing.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``x`` has rank 0.
        ShapeError: ML201, the operands do not broadcast; ML207, the axis is empty.
        DTypeError: ML101, no common dtype; ML102, a value that does not fit; ML106, bools.
    """
    if y is not None:
        return elementwise_min(x, y)
    return _reduce("reduce.min", "min", x, -1 if axis is None else axis)


@along
@converted
@staged
def softmax(value: TensorValueLike, axis: int = -1) -> TensorValue:
    """Probabilities along ``axis``: exp(x - max) over their sum, in the shape and dtype of
    ``value``.

    Args:
        value: A float tensor of rank 1 or more.
        axis: The axis along which the results sum to 1; negative from the end.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``value`` has rank 0.
        DTypeError: ML107, ``value`` is not a float tensor.
    """
    return add_op("softmax", [tensor(value, "softmax: the operand")], axis=axis)


@along
@converted
@staged
def logsoftmax(value: TensorValueLike, axis: int = -1) -> TensorValue:
    """The logarithm of ``softmax`` along ``axis``, computed without forming it, in the shape and
    dtype of ``value``.

    Args:
        value: A float tensor of rank 1 or more.
        axis: The axis along which the probabilities sum to 1; negative from the end.

    Raises:
        AxisError: ML303, ``axis`` is out of range, or ``value`` has rank 0.
        DTypeError: ML107, ``value`` is not a float tensor.
    """
    return add_op("logsoftmax", [tensor(value, "logsoftmax: the operand")], axis=axis)


@staged
def layer_norm(
    input: TensorValueLike, gamma: TensorValueLike, beta: TensorValueLike, epsilon: float
) -> TensorValue:
    """Each last-axis row shifted to mean 0 and scaled to variance 1, times ``gamma`` plus ``beta``.

    Args:
        input: A float tensor ``[..., n]``.
        gamma: The scale ``[n]``: a tensor of the same dtype, or an array.
        beta: The shift ``[n]``: a tensor of the same dtype, or an array.
        epsilon: A positive number added to the variance.

    The variance is a number of the dtype of ``input``, float32 for halves: a row in which the sum
    of squares overflows, as of numbers beyond 1e19, has an infinite one and becomes ``beta``.

    Raises:
        ShapeError: ML208, ``gamma`` or ``beta`` is not ``[n]``.
        ArgumentError: ML310, ``epsilon`` is not positive; ML304, ``gamma`` or ``beta`` is on
            another device.
        DTypeError: ML107, ``input`` is not a float tensor; ML110, the dtypes differ.
        ArgumentTypeError: ML302, ``epsilon`` is not a number.
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float, np.number)):
        raise ArgumentTypeError(
            "ML302",
            f"layer_norm: epsilon must be a float, got {epsilon!r}",
            fix="pass a small number, after gamma and beta: ops.layer_norm(x, v, v, 1e-5)",
        )
    x = tensor(input, "layer_norm: the input")
    scale, shift = (
        literal(v, x.dtype, x.device) if is_weak(v) else tensor(v, f"layer_norm: {name}")
        for name, v in (("gamma", gamma), ("beta", beta))
    )
    return add_op("layer_norm", [x, scale, shift], epsilon=float(epsilon))
