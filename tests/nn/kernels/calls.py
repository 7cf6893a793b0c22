"""One good call of every function of `maxlab.nn.kernels`, and what is passed instead of its
arguments: values that nobody should pass, and tensors of another rank or dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.graph import BufferType, DeviceRef, Graph, TensorValue, Weight, ops
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.nn import kernels
from maxlab.nn.float8_config import (
    Float8InputScaleSpec,
    Float8ScaleGranularity,
    Float8ScaleOrigin,
    Float8WeightScaleSpec,
)
from tests.graph.bad_values import BAD, Finding, Undone, answer
from tests.nn.kernels.caches import Array, Cache, Params, Values

CPU, F32, U32, I32, I64 = DeviceRef.CPU(), DType.float32, DType.uint32, DType.int32, DType.int64
F8, BYTES = DType.float8_e4m3fn, DType.uint8
RNG = np.random.default_rng(23)
PARAMS = Params()
LATENT = Params(n_kv_heads_per_device=1, head_dim=11, is_mla=True)
TOKENS = 7


class Setting:
    """A graph with a cache for two sequences, of 5 and 2 cached tokens and 3 and 4 new ones."""

    def __init__(self, params: Params = PARAMS) -> None:
        self.params = params
        sizes: dict[str, int] = {"batch": 2, "ends": 3}
        types = [
            type(each)(each.dtype, [sizes.get(str(dim), dim) for dim in each.shape], each.device)
            for each in Cache(params, [5, 2], [3, 4]).types(CPU)
        ]
        more = [BufferType(F32, [2, 9]), BufferType(I32, ["unique", 2])]
        self.graph = Graph("call", input_types=[*types, *more])
        pages, lengths, table, most, offsets, layer, logits, counts = self.graph.inputs
        self.offsets, self.layer = offsets.tensor, layer.tensor
        self.logits, self.counts = logits.buffer, counts.buffer
        self.cache = Values(pages.buffer, lengths.tensor, table.tensor, most.tensor)
        self.weights: dict[str, Array] = {}

    def of(self, dtype: DType, *shape: int, fill: Any = None) -> TensorValue:
        """A tensor of the graph, of the numbers ``fill``, or of random floats."""
        name = f"given{len(self.weights)}"
        filled = RNG.standard_normal(shape) if dtype.is_float() and fill is None else fill or 0
        self.weights[name] = np.broadcast_to(np.asarray(filled), shape).astype(dtype.ml_numpy)
        return self.graph.add_weight(Weight(name, dtype, shape, CPU))

    def with_cache(self, **more: Any) -> dict[str, Any]:
        """The arguments of most functions, and ``more``."""
        return {
            "kv_params": self.params, "kv_collection": self.cache, "layer_idx": self.layer,
            "input_row_offsets": self.offsets, **more,
        }  # fmt: skip


def _attention(s: Setting) -> dict[str, Any]:
    return s.with_cache(
        input=s.of(F32, TOKENS, 4, 8), mask_variant="0", scale=0.5, local_window_size=-1,
        sink_weights=s.of(F32, 4),
    )  # fmt: skip


def _cross(s: Setting) -> dict[str, Any]:
    return s.with_cache(
        input=s.of(F32, TOKENS, 4, 8), mask_variant="2", scale=0.5, local_window_size=-1,
        kv_input_row_offsets=s.offsets, q_max_seq_len=s.of(U32, 1),
    )  # fmt: skip


def _adapters(s: Setting, outputs: int, ranks: int = 6) -> dict[str, Any]:
    return {
        "input": s.of(F32, TOKENS, 10), "lora_a": s.of(F32, 3, ranks, 10),
        "lora_b": s.of(F32, 3, outputs, 6), "lora_ids": s.of(I32, 2),
        "lora_ranks": s.of(U32, 2, fill=2),
        "bias": s.of(F32, 3, outputs),
    }  # fmt: skip


def _adapter(s: Setting) -> dict[str, Any]:
    found = _adapters(s, 6)
    found.pop("lora_b")
    lora = found.pop("lora_a")
    return found | {"lora": lora, "input_row_offsets": s.of(U32, 3), "max_lora_seq_len": 4}


def _specs(kind: str = "rows") -> dict[str, Any]:
    one, other = {"rows": ("COLWISE", "ROWWISE"), "blocks": ("BLOCK", "BLOCK")}[kind]
    sizes: Any = ((1, 4), (4, 4)) if kind == "blocks" else (None, None)
    return {
        "input_scale_spec": Float8InputScaleSpec(
            Float8ScaleGranularity[one], Float8ScaleOrigin.DYNAMIC, F32, block_size=sizes[0]
        ),
        "weight_scale_spec": Float8WeightScaleSpec(Float8ScaleGranularity[other], F32, sizes[1]),
    }


def _groups(s: Setting) -> dict[str, Any]:
    return {
        "expert_start_indices": s.of(U32, 4), "expert_ids": s.of(I32, 3),
        "expert_usage_stats_host": s.of(U32, 2),
    }  # fmt: skip


def _chunk(s: Setting) -> dict[str, Any]:
    return {
        "kv_params": s.params, "kv_collection": s.cache, "layer_idx": s.layer,
        "buffer_row_offsets_1d": s.offsets, "cache_offsets_1d": s.cache.cache_lengths,
        "buffer_length": s.of(I64, fill=7), "buffer_size": 16,
    }  # fmt: skip


def _rounded(s: Setting, *shape: int) -> dict[str, Any]:
    return {
        "input": s.of(F32, *shape), "scale_ub": 1200.0, "group_size_or_per_token": -1,
        "out_type": F8, "scales_type": F32, **_specs(),
    }  # fmt: skip


def _attention_of(s: Setting, *shape: int) -> dict[str, Any]:
    found = {key: s.of(F32, *shape, heads, 8) for key, heads in (("q", 4), ("k", 2), ("v", 2))}
    return found | {"mask_variant": "0", "scale": 0.5, "local_window_size": -1}


GGUF = QuantizationEncoding.Q4_0
Good = Callable[[Setting], dict[str, Any]]
CALLS: dict[str, Good] = {
    "apply_penalties_to_logits": lambda s: {
        "logits_buffer": s.logits, "frequency_data": s.of(I32, 4, 2),
        "frequency_offsets": s.of(U32, 3), "frequency_penalty": 0.5, "presence_penalty": 0.5,
        "repetition_penalty": 1.5,
    },
    "batched_dynamic_scaled_fp8_matmul": lambda s: {
        "a": s.of(F8, 2, 3, 8), "b": s.of(F8, 2, 5, 8), "a_scales": s.of(F32, 2, 1, 3),
        "b_scales": s.of(F32, 2, 5, 1), "out_type": F32, **_specs(),
    },
    "batched_quantize_dynamic_scaled_float8": lambda s: _rounded(s, 2, 3, 8),
    "convert_weights_to_fp8_fnuz_if_needed": lambda s: {
        "weight": s.of(F8, 5, 8), "weight_scale": s.of(F32),
    },
    "cross_attention_ragged": _cross,
    "dynamic_scaled_matmul": lambda s: {
        "a": s.of(F8, 3, 8), "b": s.of(F8, 5, 8), "a_scales": s.of(F32, 1, 3),
        "b_scales": s.of(F32, 5, 1), "out_type": F32, **_specs(),
    },
    "flare_mla_decode_ragged": lambda s: s.with_cache(
        input=s.of(F32, TOKENS, 3, 11), mask_variant="0", scale=0.5, qk_rope_dim=4
    ),
    "flare_mla_decompress_k_cache": lambda s: _chunk(s) | {"weight": s.of(F32, 30, 7)},
    "flare_mla_prefill_plan": lambda s: s.with_cache(buffer_size=8, max_chunks=4),
    "flare_mla_prefill_ragged": lambda s: s.with_cache(
        input=s.of(F32, TOKENS, 3, 9), k=s.of(F32, 16, 3, 5), v=s.of(F32, 16, 3, 6),
        buffer_row_offsets=s.offsets, cache_offsets=s.cache.cache_lengths, mask_variant="0",
        scale=0.5, qk_rope_dim=4, prev_output=s.of(F32, TOKENS, 3, 6),
        prev_softmax_info=s.of(F32, TOKENS, 3, 2),
    ),
    "flash_attention_gpu": lambda s: _attention_of(s, 2, 5) | {"valid_length": s.of(U32, 2)},
    "flash_attention_ragged": _attention,
    "flash_attention_ragged_gpu": lambda s: _attention_of(s, TOKENS)
    | {"input_row_offsets": s.offsets, "max_seq_len": s.of(U32, 1)},
    "fused_qk_ragged_rope": lambda s: s.with_cache(
        input=s.of(F32, TOKENS, 4, 8), freqs_cis=s.of(F32, 40, 8), interleaved=True,
        position_ids=s.of(U32, 2, TOKENS), mrope_section=[3, 1],
    ),
    "fused_qkv_ragged_matmul": lambda s: s.with_cache(
        input=s.of(F32, TOKENS, 6), wqkv=s.of(F32, 64, 6), n_heads=4, bias=s.of(F32, 64)
    ),
    "fused_qkv_ragged_matmul_scaled_float8": lambda s: s.with_cache(
        input=s.of(F8, TOKENS, 6), wqkv=s.of(F8, 64, 6), n_heads=4, bias=s.of(F32, 64),
        input_scale=s.of(F32, 1, TOKENS), weight_scale=s.of(F32, 64, 1),
    ),
    "fused_qkv_ragged_matmul_quantized": lambda s: s.with_cache(
        input=s.of(F32, TOKENS, 64), wqkv=s.of(BYTES, 36, 64), n_heads=4, bias=s.of(F32, 64),
        quantization_config=QuantizationConfig("gptq", 4, 32, sym=True, desc_act=True),
        perm_idx=s.of(I32, 64),
    ),
    "grouped_dynamic_scaled_fp8_matmul": lambda s: {
        "hidden_states": s.of(F8, TOKENS, 8), "weight": s.of(F8, 3, 6, 8), "out_type": F32,
        "a_scales": s.of(F32, 1, TOKENS), "b_scales": s.of(F32, 3, 6, 1), **_groups(s), **_specs(),
    },
    "grouped_matmul_ragged": lambda s: {
        "hidden_states": s.of(F32, TOKENS, 4), "weight": s.of(F32, 3, 6, 4), **_groups(s),
    },
    "k_cache_to_buffer": lambda s: _chunk(s) | {"weight_dim": 7},
    "kv_cache_get_max_seq_len": lambda s: {"kv_params": s.params, "kv_collection": s.cache},
    "kv_cache_ragged_radd": lambda s: s.with_cache(
        a=s.of(F32, TOKENS, 32), batch_offset=s.of(U32), layer_idx=1
    ),
    "lora_kv_cache_add": lambda s: s.with_cache(
        **_adapters(s, 16), lora_grouped_offsets=s.of(U32, 3, fill=[0, 3, 7]), part=0
    ),
    "matmul_k_cache_ragged": lambda s: s.with_cache(
        hidden_states=s.of(F32, TOKENS, 6), weight=s.of(F32, 16, 6)
    ),
    "matmul_k_cache_ragged_scaled_float8": lambda s: s.with_cache(
        hidden_states=s.of(F8, TOKENS, 32), weight=s.of(F8, 16, 32), input_scale=s.of(F32, 2, 8),
        weight_scale=s.of(F32, 2, 2), scales_granularity_mnk=(1, 8, 16),
    ),
    "matmul_kv_cache_ragged": lambda s: s.with_cache(
        hidden_states=s.of(F32, TOKENS, 6), weight=s.of(F32, 32, 6)
    ),
    "matmul_static_scaled_float8": lambda s: {
        "input": s.of(F8, 3, 8), "weight": s.of(F8, 5, 8), "input_scale": s.of(F32),
        "weight_scale": s.of(F32, 1),
    },
    "merge_ragged_tensors": lambda s: {
        "a": s.of(F32, 5, 3), "a_row_offsets": s.of(U32, 3), "b": s.of(F32, 4, 3),
        "b_row_offsets": s.of(U32, 3),
    },
    "moe_create_indices": lambda s: {"topk_ids": s.of(I32, 8), "num_local_experts": 4},
    "normalize_e4m3fn_to_e4m3fnuz": lambda s: {
        "weight": s.of(F8, 5, 8), "weight_scale": s.of(F32),
    },
    "quantize_dynamic_scaled_float8": lambda s: _rounded(s, 3, 8),
    "quantize_static_scaled_float8": lambda s: {
        "x": s.of(F32, 3, 8), "scale": s.of(F32), "scale_is_inverted": True, "out_type": F8,
    },
    "rms_norm_key_cache": lambda s: s.with_cache(
        gamma=s.of(F32, 6), epsilon=1e-5, total_seq_len=TOKENS, weight_offset=1.0,
        rms_norm_cols=6, multiply_before_cast=True, per_head_norm=True,
    ),
    "scatter_set_constant": lambda s: {
        "data": s.logits, "indices": s.of(I64, 3, 2), "fill_val": 1.0,
    },
    "sgmv_kernel": _adapter,
    "sgmv_lora_kernel": lambda s: _adapters(s, 20)
    | {"grouped_row_offsets": s.of(U32, 3), "max_lora_seq_len": 4},
    "sgmv_qkv_lora_kernel": lambda s: s.with_cache(
        **_adapters(s, 64, 18), lora_grouped_offsets=s.of(U32, 3, fill=[0, 3, 7]),
        max_lora_seq_len=4, max_rank=6, q_dim=32, kv_dim=16,
    ),
    "store_rows": lambda s: s.with_cache(rows=s.of(F32, TOKENS, 16), part=1),
    "swish_glu": lambda s: {"a": s.of(F32, 3, 6), "b0": s.of(F32, 5, 6), "b1": s.of(F32, 5, 6)},
    "topk_fused_sampling": lambda s: {
        "logits": s.of(F32, 2, 9), "top_k": s.of(I64, 2), "temperature": s.of(F32, 2), "max_k": 5,
        "min_top_p": 0.5, "top_p": s.of(F32, 2), "seed": s.of(DType.uint64, 2),
    },
    "update_frequency_data": lambda s: {
        "frequency_data": s.counts, "frequency_offsets": s.of(U32, 3), "tokens": s.of(I32, 2),
    },
    "unfused_qkv_ragged_matmul_gguf_quantized": lambda s: s.with_cache(
        input=s.of(F32, TOKENS, 32), n_heads=4, q_weight=s.of(BYTES, 32, 18),
        k_weight=s.of(BYTES, 16, 18), v_weight=s.of(BYTES, 16, 18), quantization_encoding_q=GGUF,
        quantization_encoding_k=GGUF, quantization_encoding_v=GGUF,
    ),
}  # fmt: skip
"""The arguments of a good call, by name."""

OF_LATENTS = frozenset(name for name in CALLS if "mla" in name or name == "k_cache_to_buffer")
"""Functions whose cache has latent vectors."""


def setting(name: str) -> Setting:
    """A graph for calls of the function ``name``."""
    return Setting(LATENT if name in OF_LATENTS else PARAMS)


def called(name: str, arguments: Mapping[str, Any]) -> Any:
    """The result of the function ``name``."""
    return getattr(kernels, name)(**arguments)


def swept(name: str) -> Iterator[Finding]:
    """What is no typed error when each argument of ``name`` is each value of ``BAD``."""
    given = setting(name)
    with given.graph as graph:
        good = CALLS[name](given)
        for key in good:
            for label, make in BAD.items():
                arguments = {**good, key: make()}
                with suppress(Undone), graph.transaction():
                    found = answer(f"{name}({key})", label, partial(called, name, arguments))
                    raise Undone
                if found is not None:
                    yield found


TENSORS: dict[str, Callable[[TensorValue], TensorValue]] = {
    "one more dim": lambda x: ops.unsqueeze(x, 0),
    "two more dims": lambda x: ops.unsqueeze(ops.unsqueeze(x, 0), 0),
    "truth values": lambda x: ops.equal(ops.cast(x, F32), 0.0),
    "one element more": lambda x: ops.concat([x, x[..., :1]], -1),
    "one row more": lambda x: ops.concat([x, x[:1]], 0),
}
"""Other tensors than the good one."""


def misfits(name: str) -> Iterator[tuple[str, str, BaseException | None]]:
    """What comes of each tensor of a good call of ``name`` that is another one: the argument, what
    is wrong with it, and the error."""
    given = setting(name)
    with given.graph as graph:
        good = CALLS[name](given)
        for key, value in good.items():
            for label, make in TENSORS.items() if isinstance(value, TensorValue) else ():
                if (label == "one row more" and value.rank < 2) or (
                    label == "one element more" and not value.rank
                ):
                    continue
                error: BaseException | None = None
                with suppress(Undone), graph.transaction():
                    wrong = make(value)
                    before = len(graph.function.ops)
                    try:
                        called(name, {**good, key: wrong})
                    except Exception as caught:
                        error = caught
                        assert len(graph.function.ops) == before, "it leaves nothing behind"
                    raise Undone
                yield key, label, error
