"""Functions of graphs for ragged batches: products whose keys and values go into the pages of a
cache, and attention over these pages.
"""

from __future__ import annotations

from maxlab.nn.kernels.attending import (
    cross_attention_ragged,
    flash_attention_gpu,
    flash_attention_ragged,
    flash_attention_ragged_gpu,
)
from maxlab.nn.kernels.changing import (
    fused_qk_ragged_rope,
    kv_cache_ragged_radd,
    rms_norm_key_cache,
)
from maxlab.nn.kernels.filling import scatter_set_constant
from maxlab.nn.kernels.gated import swish_glu
from maxlab.nn.kernels.lengths import kv_cache_get_max_seq_len, merge_ragged_tensors
from maxlab.nn.kernels.projecting import (
    fused_qkv_ragged_matmul,
    matmul_k_cache_ragged,
    matmul_kv_cache_ragged,
)

__all__ = [
    "cross_attention_ragged",
    "flash_attention_gpu",
    "flash_attention_ragged",
    "flash_attention_ragged_gpu",
    "fused_qk_ragged_rope",
    "fused_qkv_ragged_matmul",
    "kv_cache_get_max_seq_len",
    "kv_cache_ragged_radd",
    "matmul_k_cache_ragged",
    "matmul_kv_cache_ragged",
    "merge_ragged_tensors",
    "rms_norm_key_cache",
    "scatter_set_constant",
    "swish_glu",
]
