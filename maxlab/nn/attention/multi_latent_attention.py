"""Multi-head latent attention with rotary embeddings, on one device and on several."""

from __future__ import annotations

from maxlab.nn.attention.latent_attention import LatentAttentionWithRope
from maxlab.nn.attention.latent_devices import (
    DataParallelLatentAttentionWithRope,
    TensorParallelLatentAttentionWithRope,
)

__all__ = [
    "DataParallelLatentAttentionWithRope",
    "LatentAttentionWithRope",
    "TensorParallelLatentAttentionWithRope",
]
