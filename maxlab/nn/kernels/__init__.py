"""Functions of graphs for ragged batches: products whose keys and values go into the pages of a
cache, and attention over these pages.
"""

from __future__ import annotations

from maxlab.nn.kernels.attending import flash_attention_ragged
from maxlab.nn.kernels.projecting import (
    fused_qkv_ragged_matmul,
    matmul_k_cache_ragged,
    matmul_kv_cache_ragged,
)

__all__ = [
    "flash_attention_ragged",
    "fused_qkv_ragged_matmul",
    "matmul_k_cache_ragged",
    "matmul_kv_cache_ragged",
]
