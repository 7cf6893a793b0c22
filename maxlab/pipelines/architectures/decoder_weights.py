"""The weights of checkpoints by the names of ``nn.transformer.Transformer``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.graph.weights import WeightData

_NO_NAMES: Mapping[str, str] = MappingProxyType({})


def convert_safetensor_state_dict(
    state_dict: Mapping[str, Any], huggingface_config: Any = None, **unused_kwargs: Any
) -> dict[str, WeightData]:
    """The weights of a checkpoint by the names of ``nn.transformer.Transformer``.

    Args:
        state_dict: The weights by the names of the checkpoint.
        huggingface_config: The configuration of the checkpoint, which says whether the logits have
            a weight of their own.
        **unused_kwargs: Other configurations, which the names do not depend on.
    """
    tied = getattr(huggingface_config, "tie_word_embeddings", False)
    found: dict[str, WeightData] = {}
    for full, weight in state_dict.items():
        name = full.removeprefix("model.")
        if name.endswith("rotary_emb.inv_freq") or (tied and name == "lm_head.weight"):
            continue
        found[name] = weight.data()
    return found


_GGUF_NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
"""The layers of ``nn.transformer.Transformer`` by their names in GGUF files."""
_GGUF_TABLES = ("rope_freqs", "rope_factors_long", "rope_factors_short")
"""Tables of angles in GGUF files, which config.json describes too."""


def convert_gguf_state_dict(
    state_dict: Mapping[str, Any],
    huggingface_config: Any = None,
    *,
    names: Mapping[str, str] = _NO_NAMES,
    norm_offset: float = 0.0,
    **unused_kwargs: Any,
) -> dict[str, WeightData]:
    """The weights of a GGUF file by the names of ``nn.transformer.Transformer``.

    Args:
        state_dict: The weights by the names of the file.
        huggingface_config: The configuration of the checkpoint, which says whether the logits have
            a weight of their own.
        names: Layers that this architecture names otherwise, by their names in the file.
        norm_offset: What the file has added to the weights of norms.
        **unused_kwargs: Other configurations, which the names do not depend on.
    """
    tied = getattr(huggingface_config, "tie_word_embeddings", False)
    known = {**_GGUF_NAMES, **names}
    found: dict[str, WeightData] = {}
    for full, weight in state_dict.items():
        # blk.3.attn_q.weight is layers.3.self_attn.q_proj.weight
        *block, layer, kind = full.split(".")
        if layer in _GGUF_TABLES or (tied and layer == "output"):
            continue
        path = ["layers" if part == "blk" else part for part in block]
        name, data = ".".join([*path, known.get(layer, layer), kind]), weight.data()
        if norm_offset and layer.endswith("norm"):
            less = np.asarray(data.astype(DType.float32).data) - np.float32(norm_offset)
            data = WeightData.from_numpy(less, name)
        found[name] = data
    return found


__all__ = ["convert_gguf_state_dict", "convert_safetensor_state_dict"]
