"""Functions of graphs for ragged batches: products whose keys and values go into the pages of a
cache, and attention over these pages.
"""

from __future__ import annotations

from maxlab.nn.float8.products import (
    batched_dynamic_scaled_fp8_matmul,
    dynamic_scaled_matmul,
    grouped_dynamic_scaled_fp8_matmul,
    matmul_static_scaled_float8,
)
from maxlab.nn.float8.quantizing import (
    batched_quantize_dynamic_scaled_float8,
    convert_weights_to_fp8_fnuz_if_needed,
    needs_fp8_fnuz_conversion,
    normalize_e4m3fn_to_e4m3fnuz,
    quantize_dynamic_scaled_float8,
    quantize_static_scaled_float8,
)
from maxlab.nn.kernels.adapting import (
    lora_kv_cache_add,
    sgmv_kernel,
    sgmv_lora_kernel,
    sgmv_qkv_lora_kernel,
)
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
from maxlab.nn.kernels.filling import (
    scatter_set_constant,
)
from maxlab.nn.kernels.gated import (
    swish_glu,
)
from maxlab.nn.kernels.latent import (
    flare_mla_decode_ragged,
    flare_mla_decompress_k_cache,
    flare_mla_prefill_plan,
    flare_mla_prefill_ragged,
    k_cache_to_buffer,
)
from maxlab.nn.kernels.lengths import (
    kv_cache_get_max_seq_len,
    merge_ragged_tensors,
)
from maxlab.nn.kernels.packed_projecting import (
    fused_qkv_ragged_matmul_quantized,
)
from maxlab.nn.kernels.projecting import (
    fused_qkv_ragged_matmul,
    matmul_k_cache_ragged,
    matmul_kv_cache_ragged,
    store_rows,
    unfused_qkv_ragged_matmul_gguf_quantized,
)
from maxlab.nn.kernels.routing import (
    grouped_matmul_ragged,
    moe_create_indices,
)
from maxlab.nn.kernels.sampling import (
    apply_penalties_to_logits,
    topk_fused_sampling,
    update_frequency_data,
)
from maxlab.nn.kernels.scaled_projecting import (
    fused_qkv_ragged_matmul_scaled_float8,
    matmul_k_cache_ragged_scaled_float8,
)

__all__ = [
    "apply_penalties_to_logits",
    "batched_dynamic_scaled_fp8_matmul",
    "batched_quantize_dynamic_scaled_float8",
    "convert_weights_to_fp8_fnuz_if_needed",
    "cross_attention_ragged",
    "dynamic_scaled_matmul",
    "flare_mla_decode_ragged",
    "flare_mla_decompress_k_cache",
    "flare_mla_prefill_plan",
    "flare_mla_prefill_ragged",
    "flash_attention_gpu",
    "flash_attention_ragged",
    "flash_attention_ragged_gpu",
    "fused_qk_ragged_rope",
    "fused_qkv_ragged_matmul",
    "fused_qkv_ragged_matmul_quantized",
    "fused_qkv_ragged_matmul_scaled_float8",
    "grouped_dynamic_scaled_fp8_matmul",
    "grouped_matmul_ragged",
    "k_cache_to_buffer",
    "kv_cache_get_max_seq_len",
    "kv_cache_ragged_radd",
    "lora_kv_cache_add",
    "matmul_k_cache_ragged",
    "matmul_k_cache_ragged_scaled_float8",
    "matmul_kv_cache_ragged",
    "matmul_static_scaled_float8",
    "merge_ragged_tensors",
    "moe_create_indices",
    "needs_fp8_fnuz_conversion",
    "normalize_e4m3fn_to_e4m3fnuz",
    "quantize_dynamic_scaled_float8",
    "quantize_static_scaled_float8",
    "rms_norm_key_cache",
    "scatter_set_constant",
    "sgmv_kernel",
    "sgmv_lora_kernel",
    "sgmv_qkv_lora_kernel",
    "store_rows",
    "swish_glu",
    "topk_fused_sampling",
    "unfused_qkv_ragged_matmul_gguf_quantized",
    "update_frequency_data",
]
