"""Which keys a query sees, by name, as attention kernels are told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from maxlab.errors import ArgumentError, ArgumentTypeError, shown


class AttentionMaskVariant(StrEnum):
    """Rules that say which keys a query sees."""

    NULL_MASK = "null"
    """Every query sees all keys."""
    CAUSAL_MASK = "causal"
    """A query sees itself and the keys before it."""
    TENSOR_MASK = "tensor_mask"
    """An array says it."""
    CHUNKED_CAUSAL_MASK = "chunked_causal"
    """A query sees itself and the keys before it in its own chunk; chunks count from position 0."""
    SLIDING_WINDOW_CAUSAL_MASK = "sliding_window_causal"
    """A query sees itself and as many keys before it as fill the window."""


class PositionalEncodingVariant(StrEnum):
    """Positions that are added to the products of queries and keys."""

    NO_POS = "no_pos"
    """No position is added."""
    ALIBI_POS = "alibi_pos"
    """The distance of the key times a slope of the head is subtracted."""


class MHAMaskVariant(StrEnum):
    """Masks that attention kernels have, with the numbers that name them."""

    CAUSAL_MASK = "0"
    """A query sees itself and the keys before it."""
    CAUSAL_ALIBI_MASK = "1"
    """The same, with the distance times a slope of the head subtracted."""
    NULL_MASK = "2"
    """Every query sees all keys, cached and new."""
    CHUNKED_CAUSAL_MASK = "3"
    """A query sees itself and the keys before it in its own chunk; chunks count from position 0."""
    SLIDING_WINDOW_CAUSAL_MASK = "4"
    """A query sees itself and as many keys before it as fill the window."""

    @property
    def config(self) -> MHAMaskConfig:
        """The mask's rule, and the position that it adds.

        Example:
            >>> MHAMaskVariant.CAUSAL_ALIBI_MASK.config.positional_encoding_variant.value
            'alibi_pos'
        """
        return _CONFIGS[self]


@dataclass(frozen=True)
class MHAMaskConfig:
    """A rule that says which keys a query sees, and the position that is added.

    Attributes:
        attention_mask_variant: The rule.
        positional_encoding_variant: The position.

    Raises:
        ArgumentTypeError: ML694, a value of another class.
    """

    attention_mask_variant: AttentionMaskVariant
    positional_encoding_variant: PositionalEncodingVariant

    def __post_init__(self) -> None:
        for name, kind in (
            ("attention_mask_variant", AttentionMaskVariant),
            ("positional_encoding_variant", PositionalEncodingVariant),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ArgumentTypeError(
                    "ML694",
                    f"MHAMaskConfig: {name} must be of {kind.__name__}, got {shown(value)}",
                    fix="pass one of " + ", ".join(f"{kind.__name__}.{one.name}" for one in kind),
                )

    @property
    def variant(self) -> MHAMaskVariant:
        """The mask of kernels that follows this rule and adds this position.

        Raises:
            ArgumentError: ML694, no kernel has one.

        Example:
            >>> rule = AttentionMaskVariant.NULL_MASK
            >>> MHAMaskConfig(rule, PositionalEncodingVariant.NO_POS).variant.name
            'NULL_MASK'
        """
        for variant, config in _CONFIGS.items():
            if config == self:
                return variant
        raise ArgumentError(
            "ML694",
            f"no kernel has the mask {self.attention_mask_variant.value!r} with the position "
            f"{self.positional_encoding_variant.value!r}",
            fix="use one of " + ", ".join(f"MHAMaskVariant.{one.name}" for one in _CONFIGS),
        )


_RULE, _POSITION = AttentionMaskVariant, PositionalEncodingVariant
_CONFIGS = {
    MHAMaskVariant.CAUSAL_MASK: MHAMaskConfig(_RULE.CAUSAL_MASK, _POSITION.NO_POS),
    MHAMaskVariant.CAUSAL_ALIBI_MASK: MHAMaskConfig(_RULE.CAUSAL_MASK, _POSITION.ALIBI_POS),
    MHAMaskVariant.NULL_MASK: MHAMaskConfig(_RULE.NULL_MASK, _POSITION.NO_POS),
    MHAMaskVariant.CHUNKED_CAUSAL_MASK: MHAMaskConfig(_RULE.CHUNKED_CAUSAL_MASK, _POSITION.NO_POS),
    MHAMaskVariant.SLIDING_WINDOW_CAUSAL_MASK: MHAMaskConfig(
        _RULE.SLIDING_WINDOW_CAUSAL_MASK, _POSITION.NO_POS
    ),
}

__all__ = [
    "AttentionMaskVariant",
    "MHAMaskConfig",
    "MHAMaskVariant",
    "PositionalEncodingVariant",
]
