"""The arithmetic of products of bytes: how weights and activations are rounded, and the ops that
multiply them.

Weights are signed bytes with a scale for each column of the product, symmetric around zero.
Activations are unsigned bytes with a scale and a zero point, for each row as it comes (dynamic), or
for a whole tensor as calibration saw it (calibrated) [1]_. Products of bytes are summed in 32 bits,
without rounding.

.. [1] B. Jacob et al., "Quantization and Training of Neural Networks for Efficient
   Integer-Arithmetic-Only Inference", CVPR 2018. https://arxiv.org/abs/1712.05877
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from maxlab.dtype import DType
from maxlab.ir import TensorType
from maxlab.opset.builder import Ops, one

Array = np.ndarray[Any, Any]
V = TypeVar("V")
LEAST = 2.0**-126
"""The least scale: the least float32 whose inverse is finite."""


class Range(NamedTuple):
    """The scale and the zero point of the bytes of an activation, for ``(q - zero) * scale``."""

    scale: float
    zero: int


def rounded_rows(rows: Array) -> tuple[Array, Array]:
    """The signed bytes of ``rows``, float32 [columns, depth], and the scale of each row, float32.

    The largest number of a row becomes 127 or -127; a row of zeros has the scale 1.

    Example:
        >>> q, scales = rounded_rows(np.array([[1.0, -0.5], [0.0, 0.0]], np.float32))
        >>> q.tolist(), scales.tolist()
        ([[127, -64], [0, 0]], [0.007874015718698502, 1.0])
    """
    most = np.abs(rows).max(axis=1)
    scales = (most / np.float32(127)).astype(np.float32)
    scales[scales < LEAST] = 1.0
    return np.clip(np.rint(rows / scales[:, None]), -127, 127).astype(np.int8), scales


def range_of(low: float, high: float) -> Range:
    """The scale and the zero point with which 256 bytes span ``low``, ``high`` and 0.

    Example:
        >>> range_of(-1.0, 1.55)
        Range(scale=0.009999999776482582, zero=100)
    """
    f = np.float32
    least, most = f(min(low, 0.0)), f(max(high, 0.0))
    scale = max(most / f(255) - least / f(255), f(LEAST))
    return Range(float(scale), int(np.rint(-least / scale)))


def product(
    b: Ops[V],
    x: V,
    weight: V,
    scales: V,
    given: Range | None,
    bias: V | None = None,
    activation: str = "none",
) -> V:
    """The value of ``x``, float32 [..., depth], times ``weight``, signed bytes [columns, depth]
    with ``scales`` [columns], plus ``bias`` [columns], after ``activation``: ``x`` is rounded to
    bytes row by row, or as ``given`` says."""
    typed = b.type_of(scales)
    assert isinstance(typed, TensorType)
    if bias is None:
        zeros = np.zeros([int(n) for n in typed.shape], np.float32)
        bias = b.literal(zeros, DType.float32, typed.device)
    numbers = np.array([] if given is None else given, np.float32)
    known = b.literal(numbers, DType.float32, typed.device)
    return one(b, "matmul_int8", [x, weight, scales, bias, known], activation=activation)


__all__ = ["Range", "product", "range_of", "rounded_rows"]
