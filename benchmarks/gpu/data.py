"""Random operands, and whether a result is right before its time is taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from maxlab.dtype import DType

Array = np.ndarray[Any, Any]

COLD_BYTES = 256 << 20
"""What is read between two uses of the same memory: more than twice the largest L2 cache (126 MB
on B200), so that it holds nothing from the last time.
"""
_FRESH = 1 << 22
"""Elements that are drawn; larger arrays repeat them, for drawing is slower than everything else.
An odd number is left out each time, so that rows do not repeat.
"""
TOLERANCE = {DType.float32: 1e-5, DType.bfloat16: 1e-2, DType.float16: 2e-3}
"""Largest ||got - want|| / ||want||, which tf32 (3e-4) does not meet for float32."""


class WrongResultError(ArithmeticError):
    """What was to be timed does not compute what it should."""


def normal(seed: int, shape: tuple[int, ...], dtype: DType, scale: float = 1.0) -> Array:
    """Normally distributed numbers; bfloat16 in ml_dtypes' type."""
    count = int(np.prod(shape))
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal(min(count, _FRESH), np.float32)
    drawn = (drawn * np.float32(scale)).astype(dtype.ml_numpy)
    if count > _FRESH:
        drawn = np.resize(drawn[: _FRESH - 77], count)
    return drawn.reshape(shape)


def number_of_sets(nbytes: int, *, tiny: bool) -> int:
    """How many operands take turns, so that none is in the cache when its turn comes."""
    return 1 if tiny else max(1, min(48, -(-COLD_BYTES // nbytes)))


def sample(count: int, size: int, seed: int = 0) -> Array:
    """Up to ``count`` places below ``size``, the first and the last among them, sorted."""
    if size <= count:
        return np.arange(size)
    inner = np.random.default_rng(seed).choice(size, count - 2, replace=False)
    return np.unique(np.r_[0, inner, size - 1])


def gelu(x: Array) -> Array:
    """The exact GELU in float64."""
    flat = [0.5 * v * (1.0 + math.erf(v * math.sqrt(0.5))) for v in x.reshape(-1).tolist()]
    return np.array(flat).reshape(x.shape)


def check(got: Array, want: Array, dtype: DType, what: str) -> float:
    """The relative error of ``got`` in the norm; ``want`` is float64.

    Raises:
        WrongResultError: it is above `TOLERANCE`, or not a number.
    """
    wide = got.astype(np.float64)
    error = float(np.linalg.norm(wide - want) / max(float(np.linalg.norm(want)), 1e-300))
    if not error <= TOLERANCE[dtype]:
        raise WrongResultError(
            f"{what}: the relative error is {error:.3g}, allowed is {TOLERANCE[dtype]}"
        )
    return error


def check_rows(
    got: Array, reference: Callable[[Array], Array], dtype: DType, what: str, rows: int = 64
) -> float:
    """The relative error of some rows, the last ones among them; every element must be a number,
    for the memory was poisoned with NaN before.

    Args:
        got: [rows, ...], all of the result.
        reference: from row numbers to what these rows should be, in float64.

    Raises:
        WrongResultError: an element was not written, or rows are wrong.
    """
    if not finite(got):
        raise WrongResultError(f"{what}: elements were not written, or are not numbers")
    places = sample(rows, len(got))
    return check(got[places], reference(places), dtype, what)


def finite(array: Array) -> bool:
    """True if every element is a finite number; in parts, for bfloat16 takes a copy."""
    flat = array.reshape(-1)
    return all(
        bool(np.isfinite(flat[at : at + _FRESH].astype(np.float32)).all())
        for at in range(0, flat.size, _FRESH)
    )
