"""Models that write text, against transformers with the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab.pipelines.architectures import (
    deepseek_v2,
    gemma3,
    gpt_oss,
    granite,
    llama,
    mistral,
    olmo,
    olmo2,
    phi3,
    qwen2,
    qwen3,
    qwen3_moe,
)
from maxlab.pipelines.lib.architecture import SupportedArchitecture
from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.registry import PipelineRegistry
from tests.pipelines.decoders.running import Run, compare, decoder_of
from tests.pipelines.decoders.tiny import SIZES, decoder_folder


@dataclass(frozen=True)
class Row:
    """An architecture with entries of its config.json."""

    name: str
    architecture: SupportedArchitecture
    entries: dict[str, Any] = field(default_factory=dict)
    seed: int = 0


LATENT: dict[str, Any] = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
    "first_k_dense_replace": 1,
}
ROWS = [
    Row(
        "llama-3.1",
        llama.ARCHITECTURES[0],
        {
            "rms_norm_eps": 0.02,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
    ),
    Row(
        "llama-biased-tied",
        llama.ARCHITECTURES[0],
        {
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "head_dim": 16,
            "num_key_value_heads": 4,
            "hidden_act": "gelu_pytorch_tanh",
        },
    ),
    Row(
        "mistral",
        mistral.ARCHITECTURES[0],
        {"head_dim": 12, "sliding_window": 16, "rope_theta": 500.0},
    ),
    Row("qwen2", qwen2.ARCHITECTURES[0]),
    Row(
        "qwen2-window",
        qwen2.ARCHITECTURES[0],
        {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    ),
    Row(
        "qwen3",
        qwen3.ARCHITECTURES[0],
        {"head_dim": 16, "attention_bias": True, "rms_norm_eps": 0.02},
        seed=1,
    ),
    Row("olmo", olmo.ARCHITECTURES[0], {"clip_qkv": 0.5}),
    Row("olmo2", olmo2.ARCHITECTURES[0], {"rms_norm_eps": 0.02}, seed=5),
    Row(
        "granite",
        granite.ARCHITECTURES[0],
        {
            "rms_norm_eps": 0.02,
            "attention_multiplier": 0.2,
            "residual_multiplier": 0.8,
            "embedding_multiplier": 3.0,
            "logits_scaling": 2.0,
        },
    ),
    Row("phi3", phi3.ARCHITECTURES[0], {"sliding_window": 100, "rms_norm_eps": 0.02}),
    Row(
        "phi3-long",
        phi3.ARCHITECTURES[0],
        {
            "original_max_position_embeddings": 256,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "short_factor": [1.0, 1.1, 1.3, 1.7, 2.0, 2.5],
                "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            },
        },
    ),
    Row(
        "gemma3",
        gemma3.ARCHITECTURES[0],
        {
            "head_dim": 16,
            "sliding_window": 20,
            "query_pre_attn_scalar": 12,
            "rms_norm_eps": 0.02,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
            },
        },
    ),
    Row(
        "qwen3-moe",
        qwen3_moe.ARCHITECTURES[0],
        {
            "head_dim": 16,
            "num_experts": 8,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 24,
            "norm_topk_prob": True,
            "mlp_only_layers": [0],
        },
    ),
    Row(
        "gpt-oss",
        gpt_oss.ARCHITECTURES[0],
        {
            "head_dim": 12,
            "num_local_experts": 6,
            "num_experts_per_tok": 2,
            "sliding_window": 16,
            "swiglu_limit": 2.0,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 64,
            },
        },
    ),
    Row(
        "deepseek-v2-lite",
        deepseek_v2.ARCHITECTURES[0],
        {
            **LATENT,
            "q_lora_rank": None,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "beta_fast": 32,
                "beta_slow": 1,
                "mscale": 0.707,
                "mscale_all_dim": 0.4,
                "original_max_position_embeddings": 64,
            },
        },
    ),
    Row(
        "deepseek-v2",
        deepseek_v2.ARCHITECTURES[0],
        {
            **LATENT,
            "q_lora_rank": 20,
            "attention_bias": True,
            "topk_method": "group_limited_greedy",
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 2.5,
        },
    ),
]
COUNT = 30
"""Tokens that are drawn."""


@pytest.fixture(autouse=True, scope="module")
def known() -> Iterator[None]:
    """A registry with the architectures of all rows."""
    before, mine = current(), PipelineRegistry([])
    use_registry(mine)
    for row in ROWS:
        mine.register(row.architecture, allow_override=True)
    yield
    use_registry(before)


def prompts(seed: int, *lengths: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(3, SIZES["vocab_size"], length) for length in lengths]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_logits_and_tokens_are_those_of_transformers(row: Row, tmp_path: Path) -> None:
    """A batch of mixed lengths, a prompt in chunks beside others, and a prefix that is cached."""
    model = decoder_folder(tmp_path, row.architecture.name, row.seed, **row.entries)
    run = Run(decoder_of(tmp_path, row.architecture))
    short, long, one = (run.begin(prompt) for prompt in prompts(row.seed, 7, 140, 1))
    run.write(short, long, one, count=COUNT)
    distinct = max(len(set(text.tokens[-COUNT:])) for text in (short, long, one))
    assert distinct >= 20, f"{distinct} distinct tokens: take another seed"
    assert run.computed == 7 + 140 + 1 + 3 * (COUNT - 1)
    ties = sum(compare(text, COUNT, model) for text in (short, long, one))

    # The first page of the long text is shared, and the rest of the prompt is read in parts.
    before = run.computed
    second = run.begin([*long.tokens[:128], *prompts(row.seed + 1, 70)[0]])
    run.step(second, short, most=50)
    assert run.computed == before + 50 + 1
    assert min(second.rows) == 128, "the tokens of the page are not computed again"
    run.write(second, short, count=COUNT)
    ties += compare(second, COUNT, model) + compare(short, 2 * COUNT + 1, model)
    assert ties <= 0.02 * (6 * COUNT)
    run.end(short, long, one, second)


NARROW = {"bfloat16": 0.025, "float16": 0.003}
"""How far logits of 16 bits may be from those in float32, as a fraction of their norm; transformers
in the same dtypes are as far."""
FIRST = list({row.architecture.name: row for row in reversed(ROWS)}.values())
"""One row of each architecture."""


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("row", FIRST, ids=lambda row: row.name)
def test_numbers_of_16_bits(row: Row, name: str, tmp_path: Path) -> None:
    """Near the model in float32, and not equal to it. Few tokens may be further away: those that
    rounding sends to other experts."""
    import torch

    model = decoder_folder(tmp_path, row.architecture.name, row.seed, **row.entries)
    model.to(getattr(torch, name)).save_pretrained(tmp_path)
    run = Run(decoder_of(tmp_path, row.architecture, quantization_encoding=name))
    text = run.begin(list(range(3, 40)))
    run.step(text)
    with torch.no_grad():
        wanted = model.float()(torch.tensor([text.tokens[:-1]])).logits[0].numpy()
    made = np.stack([text.rows[place] for place in range(len(wanted))])
    off = np.linalg.norm(made - wanted, axis=-1) / np.linalg.norm(wanted, axis=-1)
    assert 1e-4 < np.quantile(off, 0.25) < NARROW[name]
