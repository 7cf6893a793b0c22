"""The Llama of ``benchmarks.serve`` as a folder that maxlab and its peers read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from benchmarks.llm_shapes import Array, Sizes, weights
from benchmarks.serve_cases import LONGEST


def checkpoint(sizes: Sizes) -> dict[str, Array]:
    """The weights by the names of checkpoints, float32."""
    wide, narrow = sizes.heads * sizes.dim, sizes.kv_heads * sizes.dim
    parts = {
        "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "gate_up": ("mlp.gate_proj", "mlp.up_proj"), "out": ("self_attn.o_proj",),
        "down": ("mlp.down_proj",), "norm1": ("input_layernorm",),
        "norm2": ("post_attention_layernorm",),
        "embed": ("embed_tokens",), "norm": ("norm",),
    }  # fmt: skip
    cuts = {"qkv": [wide, wide + narrow], "gate_up": [sizes.between]}
    made = {}
    for name, w in weights(sizes):
        at, _, part = name.rpartition(".")
        prefix = f"model.{at}." if at else "model."
        for one, rows in zip(parts[part], np.split(w, cuts.get(part, [])), strict=True):
            made[f"{prefix}{one}.weight"] = np.ascontiguousarray(rows)
    return made


def write(sizes: Sizes, folder: Path, longest: int = LONGEST) -> None:
    """Write a checkpoint of float32 with a tokenizer of bytes, whose other tokens are unused.

    Args:
        sizes: The sizes.
        folder: Where; it exists.
        longest: The most tokens of a text.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": sizes.vocab,
        "hidden_size": sizes.hidden, "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads, "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.dim, "intermediate_size": sizes.between, "rms_norm_eps": sizes.eps,
        "rope_theta": sizes.theta, "max_position_embeddings": longest, "hidden_act": "silu",
        "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1,
        "torch_dtype": "float32",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(
        json.dumps({"do_sample": False, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1})
    )
    save_file(checkpoint(sizes), folder / "model.safetensors", {"format": "pt"})
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    named = ["<s>", "</s>", *letters]
    named += [f"unused {n}" for n in range(sizes.vocab - len(named))]
    made = Tokenizer(models.BPE({one: n for n, one in enumerate(named)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>",
                "eos_token": "</s>", "pad_token": "</s>", "model_max_length": longest,
            }
        )
    )  # fmt: skip


__all__ = ["checkpoint", "write"]
