"""Type rules that many ops share: broadcasting, axes, dtype demands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, AxisError, DTypeError, ShapeError
from maxlab.ir import Dim, Shape, StaticDim, TensorType

ONE_DIM = StaticDim(1)


def axis_of(axis: object, rank: int, what: str, *, extra: int = 0) -> int:
    """``axis`` counted from the front; ``extra`` axes beyond the rank are allowed.

    Raises:
        ArgumentTypeError: ML302, not an int.
        AxisError: ML303, out of range, or the operand has rank 0.
    """
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise ArgumentTypeError(
            "ML302",
            f"{what}: the axis must be an int, got {axis!r}",
            fix="pass an int, such as -1 for the last axis",
        )
    limit = rank + extra
    if limit == 0:
        raise AxisError(
            "ML303", f"{what}: a rank-0 tensor has no axis", fix="reshape it to rank 1 first"
        )
    if not -limit <= axis < limit:
        raise AxisError(
            "ML303",
            f"{what}: axis {axis} is out of range for rank {rank}",
            fix=f"use an axis from {-limit} to {limit - 1}",
        )
    return int(axis) + limit if axis < 0 else int(axis)


def broadcast_dims(left: Dim, right: Dim) -> Dim | None:
    """The dim of two dims that provably fit: equal, or one of them statically 1."""
    if left == right or right == ONE_DIM:
        return left
    return right if left == ONE_DIM else None


def broadcast(what: str, types: Sequence[TensorType]) -> Shape:
    """The shape that all ``types`` broadcast to.

    Raises:
        ShapeError: ML201, two dims are neither provably equal nor statically 1.
    """
    first = types[0].shape
    if all(type.shape == first for type in types):
        return Shape(first)
    rank = max(t.rank for t in types)
    dims: list[Dim] = []
    for position in range(rank):
        current: Dim = ONE_DIM
        for type in types:
            index = position - (rank - type.rank)
            if index < 0:
                continue
            dim = type.shape[index]
            fitted = broadcast_dims(current, dim)
            if fitted is None:
                static = isinstance(current, StaticDim) and isinstance(dim, StaticDim)
                shapes = " and ".join(f"[{', '.join(map(str, t.shape))}]" for t in types)
                raise ShapeError(
                    "ML201",
                    f"{what}: the shapes {shapes} do not broadcast: {current} ≠ {dim} "
                    f"at axis {position - rank}",
                    fix="make the sizes equal, or one of them 1"
                    if static
                    else f"if {current} and {dim} are always equal, say so: insert an explicit "
                    "rebind of one operand",
                )
            current = fitted
        dims.append(current)
    return Shape(dims)


def require_float(what: str, type: TensorType) -> None:
    """Raises ML107 unless the dtype is a float.

    Raises:
        DTypeError: ML107.
    """
    if not type.dtype.is_float():
        raise DTypeError(
            "ML107",
            f"{what} needs a float, got {type.dtype.name}",
            fix="cast it first: ops.cast(x, DType.float32)",
        )


def require_dtype(what: str, type: TensorType, dtype: DType) -> None:
    """Raises unless the element type is ``dtype``.

    Raises:
        DTypeError: ML108.
    """
    if type.dtype is not dtype:
        raise DTypeError(
            "ML108",
            f"{what} needs {dtype.name}, got {type.dtype.name}",
            fix=f"compare, or cast: ops.cast(x, DType.{dtype.name})",
        )


def require_integral(what: str, type: TensorType) -> None:
    """Raises unless the element type is an integer.

    Raises:
        DTypeError: ML109.
    """
    if not type.dtype.is_integral():
        raise DTypeError(
            "ML109",
            f"{what} must be integers, got {type.dtype.name}",
            fix="cast them: ops.cast(x, DType.int64)",
        )


def same_dtype(what: str, types: Sequence[TensorType]) -> DType:
    """The one element type of all ``types``.

    Raises:
        DTypeError: ML110.
    """
    first = types[0].dtype
    for type in types[1:]:
        if type.dtype is not first:
            names = ", ".join(t.dtype.name for t in types)
            raise DTypeError(
                "ML110",
                f"{what}: the operands must have one dtype, got {names}",
                fix="cast them with ops.cast",
            )
    return first


def same_device(what: str, types: Sequence[TensorType]) -> None:
    """Raises unless all ``types`` live on one device.

    Raises:
        ArgumentError: ML304.
    """
    first = types[0].device
    for type in types[1:]:
        if type.device != first:
            places = ", ".join(str(t.device) for t in types)
            raise ArgumentError(
                "ML304",
                f"{what}: the operands live on different devices: {places}",
                fix="move one of them: ops.transfer_to(x, device)",
            )


def scalar_bounds(types: Sequence[TensorType]) -> None:
    """Raises unless the bounds of a range are of rank 0 and of one dtype.

    Raises:
        DTypeError: Their dtypes differ.
        ShapeError: ML209, one has a rank.
    """
    same_dtype("range", types)
    for type in types:
        if type.rank:
            raise ShapeError(
                "ML209",
                f"range: bounds are rank 0, got rank {type.rank}",
                fix="pass a number, or a tensor of rank 0",
            )
