"""The common part of the functions of ``graph.ops``: they make tensors of operands, and add ops to
the builder in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType, promote
from maxlab.errors import ArgumentTypeError, DTypeError
from maxlab.graph.operands import (
    as_dtype,
    as_int,
    as_name,
    is_array,
    is_number,
    is_weak,
    no_tensor,
    own_copy,
    to_numpy,
)
from maxlab.graph.origins import explain
from maxlab.graph.staged import placed, staged
from maxlab.graph.value import BufferValue, HasBufferValue, TensorValue, Value
from maxlab.ir import Constant, DeviceRef, Dim, Shape
from maxlab.opset.builder import Builder, builder, current


def add(name: str, operands: Sequence[Any], /, **attrs: Any) -> TensorValue:
    """The result of a new op ``mo.<name>`` in the builder in use; of several, the tuple of them.

    Raises:
        NoGraphError: ML313, no graph is being built.
        GraphError: ML314, an operand belongs to another graph.
        MaxlabError: What the op's type rule says.
    """
    b = current(*operands)
    if b is None:
        b = builder(what=f"ops.{name}")
    made: Any = b.op(name, operands, **attrs)
    found: TensorValue = made[0] if len(made) == 1 else made
    return found


def literal(x: Any, dtype: DType, device: DeviceRef) -> TensorValue:
    """The constant ``x`` in ``dtype``, checked to fit.

    Raises:
        DTypeError: ML102, a value that ``dtype`` cannot hold.
    """
    made: TensorValue = builder(what="ops.constant").literal(x, dtype, device)
    return made


def constant_array(array: np.ndarray[Any, Any], device: DeviceRef) -> TensorValue:
    """The constant ``array``, whose dtype is taken as it is; the array is not copied."""
    return add("constant", [], value=Constant(array), device=device)


def tensor(x: Any, what: str = "the operand") -> TensorValue:
    """``x`` as a ``TensorValue``: one already, or a dim, shape, weight or array that stands for
    one.

    An array keeps its own dtype. A bare number has none, so it is refused.

    Raises:
        ArgumentTypeError: ML317, anything else.
    """
    b = current(x)
    made: TensorValue = as_tensor(None, x, what) if b is None else b.tensor(x, what)
    return made


def as_tensor(b: Builder[Any] | None, x: Any, what: str) -> TensorValue:
    """``x`` as a ``TensorValue`` of ``b``: what ``tensor`` of a builder of such values does."""
    if isinstance(x, TensorValue):
        if b is None:
            x._ir()  # a weight that has no graph says so, before an op that it meets does
        return x
    if isinstance(x, Dim):
        return add("dim", [], dim=x)
    if isinstance(x, Shape):
        return shape_tensor(x)
    convert = getattr(x, "__tensorvalue__", None)
    if convert is not None:
        return as_tensor(b, convert(), what)
    if is_array(x):
        array = to_numpy(x)
        DType.from_numpy(array.dtype)
        return constant_array(own_copy(np.asarray(array, order="C"), x), DeviceRef.CPU())
    raise no_tensor(x, what)


def shape_tensor(shape: Shape) -> TensorValue:
    """The sizes of ``shape`` as an int64 tensor of rank 1."""
    if Shape.is_static(shape):
        return constant_array(np.array(shape.static_dims, np.int64), DeviceRef.CPU())
    parts = [add("unsqueeze", [add("dim", [], dim=dim)], axis=0) for dim in shape]
    return parts[0] if len(parts) == 1 else add("concat", parts, axis=0)


def known_dim(x: TensorValue) -> Dim | None:
    """The dim whose size ``x``, a rank-0 integer tensor, always is; None when only a run can
    tell."""
    return builder(x, what="a dim").known_dim(x)


def buffer(x: Any, what: str) -> BufferValue:
    """``x`` as a buffer of the graph: one already, or an object that stands for one.

    Raises:
        ArgumentTypeError: ML776, anything else.
    """
    if isinstance(x, HasBufferValue):
        x = x.__buffervalue__()
    if isinstance(x, BufferValue):
        return x
    found = f"{type(x).__name__} of {x.type}" if isinstance(x, Value) else type(x).__name__
    raise ArgumentTypeError(
        "ML776",
        f"{what} must be a buffer of the graph, got {found}",
        fix="make one with ops.buffer_create(type), or give the graph an input of BufferType",
    )


def cast(x: TensorValue, dtype: DType) -> TensorValue:
    """``x`` in ``dtype``; ``x`` itself when it is."""
    return x if x.dtype is dtype else add("cast", [x], dtype=dtype)


def pair(what: str, lhs: Any, rhs: Any) -> tuple[TensorValue, TensorValue]:
    """Both operands of a binary op as tensors of one dtype.

    A number or array takes the dtype of its partner; two tensors are promoted to the smallest dtype
    that holds both without loss.

    Raises:
        ArgumentTypeError: ML318, neither operand is a tensor.
        DTypeError: A value that does not fit, or two dtypes that no dtype holds.
    """
    if lhs.__class__ is TensorValue and rhs.__class__ is TensorValue and lhs.dtype is rhs.dtype:
        return lhs, rhs
    left, right = sides(what, lhs, rhs)
    if left is None:
        assert right is not None
        return literal(lhs, right.dtype, right.device), right
    if right is None:
        return left, literal(rhs, left.dtype, left.device)
    if left.dtype is not right.dtype:
        dtype = _common(left, right)
        left, right = cast(left, dtype), cast(right, dtype)
    return left, right


def _common(left: TensorValue, right: TensorValue) -> DType:
    try:
        return promote(left.dtype, right.dtype)
    except DTypeError as error:
        explain(error, [left._ir(), right._ir()])
        raise


def float_pair(what: str, lhs: Any, rhs: Any) -> tuple[TensorValue, TensorValue]:
    """As ``pair``, with integers turned into float64 once they have a common dtype.

    Raises:
        ArgumentTypeError: ML318, neither operand is a tensor.
        DTypeError: As ``pair``, and ML106 for bools.
    """
    left, right = sides(what, lhs, rhs)
    if left is not None and right is not None:
        dtype = _common(left, right)
    else:
        dtype = (left if left is not None else right).dtype  # type: ignore[union-attr]
    if dtype is DType.bool:
        raise DTypeError(
            "ML106", f"{what} needs numbers, got bool", fix="cast it: ops.cast(x, DType.int32)"
        )
    if not dtype.is_float():
        dtype = DType.float64
    device = (left if left is not None else right).device  # type: ignore[union-attr]
    return (
        literal(lhs, dtype, device) if left is None else cast(left, dtype),
        literal(rhs, dtype, device) if right is None else cast(right, dtype),
    )


def sides(what: str, lhs: Any, rhs: Any) -> tuple[TensorValue | None, TensorValue | None]:
    """Both operands as tensors; None for the one that is only a number or an array.

    Raises:
        ArgumentTypeError: ML318, neither operand is a tensor; ML317, an operand is no such thing.
    """
    left_weak, right_weak = is_weak(lhs), is_weak(rhs)
    if left_weak and right_weak:
        raise ArgumentTypeError(
            "ML318",
            f"{what}: neither operand is a tensor of the graph "
            f"({type(lhs).__name__} and {type(rhs).__name__})",
            fix="make one with ops.constant, or compute it with Python or NumPy; 1 where a mask is "
            "true and else 0: ops.cast(b, DType.float32)",
        )
    return (
        None if left_weak else tensor(lhs, f"{what}: the left operand"),
        None if right_weak else tensor(rhs, f"{what}: the right operand"),
    )


__all__ = [
    "add",
    "as_dtype",
    "as_int",
    "as_name",
    "as_tensor",
    "buffer",
    "builder",
    "cast",
    "constant_array",
    "explain",
    "float_pair",
    "is_array",
    "is_number",
    "is_weak",
    "known_dim",
    "literal",
    "own_copy",
    "pair",
    "placed",
    "shape_tensor",
    "sides",
    "staged",
    "tensor",
    "to_numpy",
]
