"""How rotary frequencies are scaled for contexts that are longer than those of the training."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TypeGuard

from maxlab.errors import ArgumentError, shown

MOST_TOKENS = 2**31
"""The longest sequence; its positions are numbers of 32 bits."""
LEAST = 2.0**-31
"""The smallest factor or base."""


def is_number(value: object) -> TypeGuard[float]:
    """Whether ``value`` is an int or float that a float64 can hold, and no bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= sys.float_info.max  # False for NaN


def _refuse(what: str, name: str, value: object, expected: str) -> ArgumentError:
    return ArgumentError(
        "ML689",
        f"{what}: {name} must be {expected}, got {shown(value)}",
        fix="pass the value of the model's config.json",
    )


def _positive(what: str, **values: Any) -> None:
    """Raises unless all are positive numbers with which frequencies stay above 0."""
    for name, value in values.items():
        if not is_number(value) or not LEAST <= value <= MOST_TOKENS:
            raise _refuse(what, name, value, f"a number from {LEAST:.1g} to {MOST_TOKENS}")


def _lengths(what: str, **values: Any) -> None:
    """Raises unless all are positive ints: numbers of tokens."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST_TOKENS:
            raise _refuse(what, name, value, f"an int of 1 to {MOST_TOKENS}")


@dataclass(frozen=True)
class LinearScalingParams:
    """Scaling of all frequencies by one factor.

    Attributes:
        factor: Every frequency is divided by it, so that a position ``factor`` times as far turns
            a pair by the same angle.

    Raises:
        ArgumentError: ML689, ``factor`` is not a positive number.
    """

    factor: float

    def __post_init__(self) -> None:
        _positive("LinearScalingParams", factor=self.factor)


@dataclass(frozen=True)
class Llama3RopeScalingParams:
    """Scaling of low frequencies only, as Llama 3.1 does.

    Attributes:
        factor: Low frequencies are divided by it.
        low_freq_factor: Wavelengths above ``orig_max_position / low_freq_factor`` tokens are low
            frequencies.
        high_freq_factor: Wavelengths below ``orig_max_position / high_freq_factor`` tokens stay as
            they are; those in between are interpolated.
        orig_max_position: The longest context of the training, in tokens.

    Raises:
        ArgumentError: ML689, a value that is not positive, or ``high_freq_factor`` that is not
            above ``low_freq_factor``.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    orig_max_position: int

    def __post_init__(self) -> None:
        what = "Llama3RopeScalingParams"
        _positive(what, factor=self.factor, low_freq_factor=self.low_freq_factor)
        _positive(what, high_freq_factor=self.high_freq_factor)
        _lengths(what, orig_max_position=self.orig_max_position)
        if self.high_freq_factor <= self.low_freq_factor:
            low = self.low_freq_factor
            raise _refuse(what, "high_freq_factor", self.high_freq_factor, f"above {low}")


@dataclass(frozen=True)
class YarnScalingParams:
    """Scaling by YaRN [1]_: pairs that turn often stay, pairs that turn seldom are divided by a
    factor, and those in between are interpolated.

    Attributes:
        factor: Frequencies of seldom turning pairs are divided by it.
        beta_fast: Pairs that turn more often than this within the original context stay.
        beta_slow: Pairs that turn less often than this are divided by ``factor``.
        original_max_position_embeddings: The longest context of the training, in tokens.
        truncate: Whether the first and the last interpolated pair are rounded to whole numbers,
            outwards.

    Raises:
        ArgumentError: ML689, a value that is not positive, or ``beta_fast`` below ``beta_slow``.

    .. [1] B. Peng, J. Quesnelle, H. Fan, E. Shippole, "YaRN: Efficient Context Window Extension of
       Large Language Models", ICLR 2024.
    """

    factor: float
    beta_fast: float
    beta_slow: float
    original_max_position_embeddings: int
    truncate: bool

    def __post_init__(self) -> None:
        what = "YarnScalingParams"
        _positive(what, factor=self.factor, beta_fast=self.beta_fast, beta_slow=self.beta_slow)
        _lengths(what, original_max_position_embeddings=self.original_max_position_embeddings)
        if not isinstance(self.truncate, bool):
            raise _refuse(what, "truncate", self.truncate, "True or False")
        _ordered(what, self.beta_fast, self.beta_slow)


@dataclass(frozen=True)
class DeepseekYarnRopeScalingParams:
    """Scaling by YaRN as Deepseek does, which also scales the attention.

    Attributes:
        scaling_factor: Frequencies of seldom turning pairs are divided by it.
        original_max_position_embeddings: The longest context of the training, in tokens.
        beta_fast: Pairs that turn more often than this within the original context stay.
        beta_slow: Pairs that turn less often than this are divided by ``scaling_factor``.
        mscale: Weight of ``0.1 * ln(scaling_factor)`` in the factor of the cosines and sines.
        mscale_all_dim: Weight of ``0.1 * ln(scaling_factor)`` in the divisor of the cosines and
            sines, and in the attention's scale; 0 leaves the scale as it is.

    Raises:
        ArgumentError: ML689, a value that is not positive, a negative weight, or ``beta_fast``
            below ``beta_slow``.
    """

    scaling_factor: float
    original_max_position_embeddings: int
    beta_fast: int
    beta_slow: int
    mscale: float
    mscale_all_dim: float

    def __post_init__(self) -> None:
        what = "DeepseekYarnRopeScalingParams"
        _positive(what, scaling_factor=self.scaling_factor)
        _positive(what, beta_fast=self.beta_fast, beta_slow=self.beta_slow)
        _lengths(what, original_max_position_embeddings=self.original_max_position_embeddings)
        for name in ("mscale", "mscale_all_dim"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value <= MOST_TOKENS:
                raise _refuse(what, name, value, f"a number of 0 to {MOST_TOKENS}")
        _ordered(what, self.beta_fast, self.beta_slow)


def _ordered(what: str, fast: float, slow: float) -> None:
    """Raises when the bounds of YaRN are swapped."""
    if fast < slow:
        raise _refuse(what, "beta_fast", fast, f"at least beta_slow = {slow}")


@dataclass(frozen=True)
class LongRoPEScalingParams:
    """Scaling of each frequency by a factor of its own, as Phi-3.5 does.

    Attributes:
        short_factor: Divisors of the frequencies at positions below ``original_max_position``,
            one for each pair of dimensions.
        long_factor: Divisors of the frequencies at the other positions.
        original_max_position: The longest context of the training, in tokens.
        max_position_embeddings: The longest context after scaling, in tokens.

    Raises:
        ArgumentError: ML689, a factor that is not positive, lists of different lengths, or an
            ``original_max_position`` of 1, whose logarithm is divided by.
    """

    short_factor: list[float]
    long_factor: list[float]
    original_max_position: int
    max_position_embeddings: int

    def __post_init__(self) -> None:
        what = "LongRoPEScalingParams"
        for name in ("short_factor", "long_factor"):
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)) or not value:
                raise _refuse(what, name, value, "a list of positive numbers")
            _positive(what, **{f"{name}[{i}]": factor for i, factor in enumerate(value)})
        if len(self.short_factor) != len(self.long_factor):
            count = len(self.short_factor)
            raise _refuse(what, "long_factor", self.long_factor, f"a list of {count} numbers")
        _lengths(what, original_max_position=self.original_max_position)
        _lengths(what, max_position_embeddings=self.max_position_embeddings)
        if self.original_max_position == 1:
            raise _refuse(what, "original_max_position", 1, "2 tokens or more")


__all__ = [
    "DeepseekYarnRopeScalingParams",
    "LinearScalingParams",
    "LEAST",
    "Llama3RopeScalingParams",
    "LongRoPEScalingParams",
    "MOST_TOKENS",
    "YarnScalingParams",
    "is_number",
]
