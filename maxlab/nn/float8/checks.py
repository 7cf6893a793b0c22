"""Tensors that products of 8-bit floats take: their dtypes, ranks and sizes."""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.errors import DTypeError, ShapeError
from maxlab.graph import Dim, StaticDim, TensorValue, ops
from maxlab.graph.build import tensor
from maxlab.nn.float8.quantizing import CODES, FLOATS
from maxlab.nn.ranks import require_rank


def require_codes(what: str, name: str, x: Any, rank: int) -> TensorValue:
    """``x``, 8-bit floats of rank ``rank``.

    Raises:
        ArgumentTypeError: ML317, no tensor.
        ShapeError: ML659, another rank.
        DTypeError: ML666, another dtype.
    """
    value = require_rank(what, name, x, rank)
    if value.dtype not in CODES:
        raise DTypeError(
            "ML666",
            f"{what}: {name} must be {' or '.join(d.name for d in CODES)}, got {value.dtype.name}",
            fix="round it first: quantize_dynamic_scaled_float8",
        )
    return value


def require_scales(what: str, name: str, x: Any, rank: int | None = None) -> TensorValue:
    """``x``, floats, of rank ``rank`` where it is given.

    Raises:
        ArgumentTypeError: ML317, no tensor.
        ShapeError: ML659, another rank.
        DTypeError: ML666, no floats.
    """
    value: TensorValue = tensor(x, f"{what}: {name}")
    if rank is not None:
        value = require_rank(what, name, value, rank)
    if value.dtype not in FLOATS:
        raise DTypeError(
            "ML666",
            f"{what}: {name} must be {', '.join(d.name for d in FLOATS)}, got {value.dtype.name}",
            fix="cast it: ops.cast(x, DType.float32)",
        )
    return ops.cast(value, DType.float32)


def require_numbers(what: str, name: str, x: Any, dtype: DType) -> TensorValue:
    value = require_rank(what, name, x, 1)
    if value.dtype is not dtype:
        raise DTypeError(
            "ML666",
            f"{what}: {name} must be {dtype.name}, got {value.dtype.name}",
            fix=f"cast it: ops.cast(x, DType.{dtype.name})",
        )
    return value


def require_equal(what: str, name: str, have: Any, want: Any) -> None:
    """Raises when static dims differ, or there are not as many."""
    have, want = list(have), list(want)
    if len(have) != len(want) or any(
        a != b and isinstance(a, StaticDim) and isinstance(b, StaticDim)
        for a, b in zip(have, want, strict=True)
    ):
        raise ShapeError(
            "ML659",
            f"{what}: {name}: expected [{', '.join(map(str, want))}], got "
            f"[{', '.join(map(str, have))}]",
            fix="weights are [n, k], their scales one for each block, and those of inputs "
            "[groups, rows]",
        )


def cast_to(what: str, x: TensorValue, dtype: DType) -> TensorValue:
    if dtype not in FLOATS:
        raise DTypeError(
            "ML666",
            f"{what}: out_type must be {', '.join(d.name for d in FLOATS)}, got {dtype}",
            fix="use DType.float32 or DType.bfloat16",
        )
    return ops.cast(x, dtype)


def require_rows(what: str, have: Dim, rows: Dim) -> None:
    if isinstance(have, StaticDim) and isinstance(rows, StaticDim) and int(have) < int(rows):
        raise ShapeError(
            "ML659",
            f"{what}: scales of {have} rows for an input of {rows}",
            fix="pass the scales as quantize_dynamic_scaled_float8 makes them",
        )


__all__ = [
    "cast_to",
    "require_codes",
    "require_equal",
    "require_numbers",
    "require_rows",
    "require_scales",
]
