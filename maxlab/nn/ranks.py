"""Tensors that are passed to functions of graphs: of which rank they are, and where."""

from __future__ import annotations

from typing import Any

from maxlab.errors import DTypeError, ShapeError
from maxlab.graph import DeviceRef, TensorValue, ops
from maxlab.graph.build import tensor


def require_rank(what: str, name: str, x: Any, rank: int) -> TensorValue:
    """``x``, a tensor of the graph of rank ``rank``.

    Raises:
        ArgumentTypeError: ML317, another value.
        ShapeError: ML659 (a ValueError), another rank.
    """
    value: TensorValue = tensor(x, f"{what}: {name}")
    if value.rank != rank:
        raise ShapeError(
            "ML659",
            f"{what}: {name} must have rank {rank}, got {value.rank}: {value.type}",
            fix=f"reshape it to rank {rank}",
        )
    return value


def require_integers(what: str, name: str, x: Any, rank: int) -> TensorValue:
    """``x``, a tensor of integers of rank ``rank``.

    Raises:
        ArgumentTypeError: ML317, another value.
        ShapeError: ML659 (a ValueError), another rank.
        DTypeError: ML666 (a ValueError), another dtype.
    """
    value = require_rank(what, name, x, rank)
    if not value.dtype.is_integral():
        raise _other_dtype(what, name, value, "integers", "int64")
    return value


def require_floats(what: str, name: str, x: Any, rank: int) -> TensorValue:
    """``x``, a tensor of floats of rank ``rank``.

    Raises:
        ArgumentTypeError: ML317, another value.
        ShapeError: ML659 (a ValueError), another rank.
        DTypeError: ML666 (a ValueError), another dtype.
    """
    value = require_rank(what, name, x, rank)
    if not value.dtype.is_float():
        raise _other_dtype(what, name, value, "floats", "float32")
    return value


def _other_dtype(what: str, name: str, x: TensorValue, kind: str, dtype: str) -> DTypeError:
    return DTypeError(
        "ML666",
        f"{what}: {name} must be {kind}, got {x.dtype.name}",
        fix=f"cast: ops.cast(x, DType.{dtype})",
    )


def moved(x: TensorValue, device: DeviceRef) -> TensorValue:
    """``x`` on ``device``."""
    return x if x.device == device else ops.transfer_to(x, device)


__all__ = ["moved", "require_floats", "require_integers", "require_rank"]
