"""Attention: the masks that say which keys a query sees."""

from __future__ import annotations

from maxlab.nn.attention import mask_config
from maxlab.nn.attention.mask_config import (
    AttentionMaskVariant,
    MHAMaskConfig,
    MHAMaskVariant,
    PositionalEncodingVariant,
)
from maxlab.nn.attention.masks import AttentionMask, alibi_slopes, attention_mask

__all__ = [
    "AttentionMask",
    "AttentionMaskVariant",
    "MHAMaskConfig",
    "MHAMaskVariant",
    "PositionalEncodingVariant",
    "alibi_slopes",
    "attention_mask",
    "mask_config",
]
