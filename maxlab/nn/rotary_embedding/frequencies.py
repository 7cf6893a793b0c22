"""Rotary frequencies in float64: radians a token, one for each pair of dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.nn.rotary_embedding.scaling import (
    LinearScalingParams,
    Llama3RopeScalingParams,
    LongRoPEScalingParams,
)

Array = np.ndarray[Any, Any]


def plain(dim: int, theta: float) -> Array:
    """The frequencies ``theta ** (-2 * i / dim)``, float64 ``[dim / 2]``.

    Example:
        >>> plain(4, 100.0)
        array([1. , 0.1])
    """
    made: Array = float(theta) ** -(np.arange(0, dim, 2, dtype=np.float64) / dim)
    return made


def linear(frequencies: Array, params: LinearScalingParams) -> Array:
    """``frequencies`` divided by one factor, float64 ``[dim / 2]``."""
    return frequencies / params.factor


def llama3(frequencies: Array, params: Llama3RopeScalingParams) -> Array:
    """``frequencies`` with the low ones divided by a factor, float64 ``[dim / 2]``."""
    turns = params.orig_max_position * frequencies / (2 * math.pi)
    # 0 where a pair turns less often than `low`, 1 where it turns more often than `high`.
    low, high = params.low_freq_factor, params.high_freq_factor
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    made: Array = (1 - kept) * frequencies / params.factor + kept * frequencies
    return made


def yarn(
    frequencies: Array,
    theta: float,
    factor: float,
    fast: float,
    slow: float,
    original: int,
    truncate: bool,
) -> Array:
    """``frequencies`` with those of seldom turning pairs divided by ``factor``, float64
    ``[dim / 2]``.

    Args:
        frequencies: Plain ones, of the base ``theta``.
        theta: The base, above 1.
        factor: The divisor.
        fast: Pairs that turn more often within ``original`` tokens stay.
        slow: Pairs that turn less often are divided.
        original: The longest context of the training, in tokens.
        truncate: Whether the bounds between the two are rounded outwards.
    """
    dim = 2 * len(frequencies)

    def pair_of(turns: float) -> float:
        """The place of the pair that turns ``turns`` times within the original context."""
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_of(fast), pair_of(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001  # the published formula's guard against a division by zero
    divided = np.clip((np.arange(dim // 2, dtype=np.float64) - low) / (high - low), 0.0, 1.0)
    made: Array = divided * frequencies / factor + (1 - divided) * frequencies
    return made


def long_rope(frequencies: Array, factors: Sequence[float]) -> Array:
    """``frequencies`` divided by ``factors``, one each, float64 ``[dim / 2]``."""
    return frequencies / np.asarray(factors, np.float64)


def long_rope_factor(params: LongRoPEScalingParams) -> float:
    """The factor of cosines and sines: 1 where the context is not longer than the original one.

    Example:
        >>> from maxlab.nn.rotary_embedding import LongRoPEScalingParams
        >>> round(long_rope_factor(LongRoPEScalingParams([1.0], [4.0], 4096, 131072)), 4)
        1.1902
    """
    factor = params.max_position_embeddings / params.original_max_position
    if factor <= 1:
        return 1.0
    return math.sqrt(1 + math.log(factor) / math.log(params.original_max_position))


def yarn_factor(factor: float, weight: float = 1.0) -> float:
    """``0.1 * weight * ln(factor) + 1``, by which YaRN sharpens attention; 1 where ``factor`` is
    not above 1.

    Example:
        >>> round(yarn_factor(40.0), 4)
        1.3689
    """
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def dynamic_ratio(length: Any, original: int, factor: float) -> Any:
    """The ratio by which dynamic scaling raises the base, before its exponent: 1 for sequences of
    the original length.

    Args:
        length: The length of the sequence in tokens, at least ``original``: a float, or a float64
            tensor of a graph.
        original: The longest context of the training, in tokens.
        factor: The scaling factor.
    """
    return length * (factor / original) - (factor - 1)


def dynamic_exponents(dim: int) -> Array:
    """The exponents ``-2 * i / (dim - 2)`` of the ratio in each frequency, float64
    ``[dim / 2]``."""
    return -np.arange(0, dim, 2, dtype=np.float64) / (dim - 2)
