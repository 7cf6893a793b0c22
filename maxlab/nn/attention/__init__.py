"""Attention: its layers, and the masks that say which keys a query sees."""

from __future__ import annotations

from maxlab.nn.attention import mask_config
from maxlab.nn.attention.attention_with_rope import (
    AttentionWithRope,
    AttentionWithRopeNoOpaque,
    DataParallelAttentionWithRope,
    GGUFQAttentionWithRope,
    GPTQAttentionWithRope,
    TensorParallelAttentionWithRope,
)
from maxlab.nn.attention.interfaces import DistributedAttentionImpl
from maxlab.nn.attention.mask_config import (
    AttentionMaskVariant,
    MHAMaskConfig,
    MHAMaskVariant,
    PositionalEncodingVariant,
)
from maxlab.nn.attention.masks import AttentionMask, alibi_slopes, attention_mask
from maxlab.nn.attention.multi_latent_attention import (
    DataParallelLatentAttentionWithRope,
    LatentAttentionWithRope,
    TensorParallelLatentAttentionWithRope,
)
from maxlab.nn.attention.multihead_attention import MultiheadAttention
from maxlab.nn.attention.ragged_attention import RaggedAttention

__all__ = [
    "AttentionMask",
    "AttentionMaskVariant",
    "AttentionWithRope",
    "AttentionWithRopeNoOpaque",
    "DataParallelAttentionWithRope",
    "DataParallelLatentAttentionWithRope",
    "DistributedAttentionImpl",
    "GGUFQAttentionWithRope",
    "GPTQAttentionWithRope",
    "LatentAttentionWithRope",
    "MHAMaskConfig",
    "MHAMaskVariant",
    "MultiheadAttention",
    "PositionalEncodingVariant",
    "RaggedAttention",
    "TensorParallelAttentionWithRope",
    "TensorParallelLatentAttentionWithRope",
    "alibi_slopes",
    "attention_mask",
    "mask_config",
]
