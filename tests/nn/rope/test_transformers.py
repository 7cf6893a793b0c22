"""Rotary embeddings beside those of transformers, for each type of scaling that both know.

Transformers multiplies positions and frequencies in float32: far positions have angles that are off
by some 1e-7 of themselves, and the tolerance of a cosine grows with its angle.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType
from maxlab.nn import rotary_embedding as rope

pytestmark = pytest.mark.oracle

Array = np.ndarray[Any, Any]
F32, I64 = DType.float32, DType.int64
HEADS, DIM, ORIGINAL, THETA = 4, 16, 64, 10000.0
SIZE = (HEADS * DIM, HEADS, THETA, 256)
RNG = np.random.default_rng(3)
SHORT = [1.0 + 0.05 * i for i in range(DIM // 2)]
LONG = [1.0 + 3.0 * i for i in range(DIM // 2)]

TYPES: dict[str, tuple[dict[str, Any], rope.RotaryEmbedding]] = {
    "default": ({}, rope.RotaryEmbedding(*SIZE, interleaved=False)),
    "linear": (
        {"factor": 4.0},
        rope.Llama3RotaryEmbedding(
            *SIZE, interleaved=False, scaling_params=rope.LinearScalingParams(4.0)
        ),
    ),
    "llama3": (
        {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": ORIGINAL,
        },
        rope.Llama3RotaryEmbedding(
            *SIZE,
            interleaved=False,
            scaling_params=rope.Llama3RopeScalingParams(8.0, 1.0, 4.0, ORIGINAL),
        ),
    ),
    "yarn": (
        {"factor": 4.0, "original_max_position_embeddings": ORIGINAL, "beta_fast": 8.0},
        rope.YarnRotaryEmbedding(
            *SIZE,
            interleaved=False,
            scaling_params=rope.YarnScalingParams(4.0, 8.0, 1.0, ORIGINAL, True),
        ),
    ),
    "yarn, exact bounds": (
        {
            "factor": 4.0,
            "original_max_position_embeddings": ORIGINAL,
            "beta_fast": 8.0,
            "truncate": False,
        },
        rope.YarnRotaryEmbedding(
            *SIZE,
            interleaved=False,
            scaling_params=rope.YarnScalingParams(4.0, 8.0, 1.0, ORIGINAL, False),
        ),
    ),
    "longrope": (
        {
            "short_factor": SHORT,
            "long_factor": LONG,
            "original_max_position_embeddings": ORIGINAL,
            "factor": 4.0,
        },
        rope.LongRoPERotaryEmbedding(
            *SIZE,
            interleaved=False,
            scaling_params=rope.LongRoPEScalingParams(SHORT, LONG, ORIGINAL, 4 * ORIGINAL),
        ),
    ),
}


def theirs(kind: str, given: dict[str, Any]) -> Any:
    """The rotary embedding of transformers' Llama."""
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding

    parameters = {"rope_type": kind.partition(",")[0], "rope_theta": THETA, **given}
    long = {} if kind == "default" else {"rope_scaling": parameters}
    config = LlamaConfig(
        hidden_size=HEADS * DIM,
        num_attention_heads=HEADS,
        head_dim=DIM,
        max_position_embeddings=ORIGINAL if kind == "dynamic" else 4 * ORIGINAL,
        rope_theta=THETA,
        **long,
    )
    return LlamaRotaryEmbedding(config)


def cos_sin(module: Any, positions: Array) -> Array:
    """Its cosines and sines, ``[positions, pairs, 2]``; the second half repeats the first."""
    import torch

    cos, sin = module(torch.zeros(1), torch.from_numpy(positions)[None])
    return np.stack([part[0, :, : DIM // 2].numpy() for part in (cos, sin)], axis=-1)


def table(layer: rope.RotaryEmbedding) -> Array:
    with Graph("table", input_types=[]) as graph:
        graph.output(layer.freqs_cis_base())
    found: Array = engine.InferenceSession().load(graph)()[0].to_numpy()
    return found


def same(found: Array, want: Array, positions: Array) -> None:
    """Asserts that cosines and sines agree as far as float32 angles do."""
    room = 2e-6 + 4e-7 * positions[:, None, None]
    assert np.all(np.abs(found - want) <= room)


@pytest.mark.parametrize("kind", TYPES)
def test_tables(kind: str) -> None:
    given, layer = TYPES[kind]
    other, found = theirs(kind, given), table(layer)
    early = np.array([0, 1, ORIGINAL - 1])
    late = np.array([ORIGINAL, ORIGINAL + 1, 4 * ORIGINAL - 1])
    same(found[early], cos_sin(other, early), early)  # short sequences
    same(found[late], cos_sin(other, late), late)  # of long ones, LongRoPE's later rows


@pytest.mark.parametrize("kind", TYPES)
def test_queries_and_keys(kind: str) -> None:
    import torch
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    given, layer = TYPES[kind]
    with Graph("both", input_types=[TensorType(F32, [1, "seq", HEADS, DIM])] * 2) as graph:
        q, k = (value.tensor for value in graph.inputs)
        graph.output(layer(q), layer(k))
    x, y = RNG.standard_normal((2, 1, ORIGINAL, HEADS, DIM)).astype(np.float32)
    found = engine.InferenceSession().load(graph)(x, y)
    angles = theirs(kind, given)(torch.zeros(1), torch.arange(ORIGINAL)[None])
    want = apply_rotary_pos_emb(torch.from_numpy(x), torch.from_numpy(y), *angles, unsqueeze_dim=2)
    for made, expected in zip(found, want, strict=True):
        assert np.abs(made.to_numpy() - expected.numpy()).max() < 1e-4


@pytest.mark.parametrize("kind", TYPES)
def test_embeddings_of_configs(kind: str) -> None:
    given, layer = TYPES[kind]
    config = theirs(kind, given).config
    found = rope.rotary_embedding_of(config, max_seq_len=256)
    assert type(found) is type(layer) or kind == "default"
    assert np.array_equal(table(found), table(layer))
    old: dict[str, Any] = {
        "hidden_size": 64,
        "num_attention_heads": HEADS,
        "max_position_embeddings": 4 * ORIGINAL,
        "rope_theta": THETA,
    }
    if given:
        old["rope_scaling"] = {"type": kind.partition(",")[0], **given}
    assert np.array_equal(table(rope.rotary_embedding_of(old)), table(layer))


def test_dynamic() -> None:
    other = theirs("dynamic", {"factor": 2.0})
    layer = rope.rotary_embedding_of(other.config)
    assert isinstance(layer, rope.DynamicRotaryEmbedding)
    for n in (5, ORIGINAL, ORIGINAL + 1, 2 * ORIGINAL, ORIGINAL + 9, ORIGINAL, ORIGINAL - 1):
        positions = np.arange(n)
        want = cos_sin(other, positions)
        layer.maybe_update_freqs(positions)
        same(table(layer)[:n], want, positions)


@pytest.mark.parametrize(("mscale", "all_dim"), [(1.0, 1.0), (0.707, 1.2), (1.0, 0.5)])
def test_deepseek(mscale: float, all_dim: float) -> None:
    import torch
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as v3

    scaling = {
        "rope_type": "yarn", "rope_theta": THETA, "factor": 40.0, "mscale": mscale,
        "mscale_all_dim": all_dim, "beta_fast": 32, "beta_slow": 1,
        "original_max_position_embeddings": ORIGINAL,
    }  # fmt: skip
    config = v3.DeepseekV3Config(
        hidden_size=64, num_attention_heads=HEADS, qk_rope_head_dim=DIM, qk_nope_head_dim=8,
        max_position_embeddings=40 * ORIGINAL, rope_theta=THETA, rope_scaling=scaling,
    )  # fmt: skip
    params = rope.DeepseekYarnRopeScalingParams(40.0, ORIGINAL, 32, 1, mscale, all_dim)
    layer = rope.DeepseekYarnRotaryEmbedding(DIM, HEADS, THETA, ORIGINAL + 2, scaling_params=params)
    other = v3.DeepseekV3RotaryEmbedding(config)
    positions = np.array([0, 1, ORIGINAL - 1, ORIGINAL, ORIGINAL + 1])
    same(table(layer)[positions], cos_sin(other, positions), positions)
    scale = v3.yarn_apply_mscale(config.rope_parameters, 24**-0.5)
    assert layer.compute_scale(24**-0.5) == pytest.approx(scale, rel=1e-12)
    read = rope.rotary_embedding_of(config, ORIGINAL + 2, interleaved=True)
    assert np.array_equal(table(read), table(layer))
    assert read.compute_scale() == pytest.approx(scale, rel=1e-12)

    # Theirs gives the pairs' halves behind each other; products of q and k are the same.
    x, y = RNG.standard_normal((2, 1, 6, HEADS, DIM)).astype(np.float32)
    with Graph("both", input_types=[TensorType(F32, [1, 6, HEADS, DIM])] * 2) as graph:
        q, k = (value.tensor for value in graph.inputs)
        graph.output((layer(q) * layer(k)).sum(-1))
    (found,) = engine.InferenceSession().load(graph)(x, y)
    angles = other(torch.zeros(1), torch.arange(6)[None])
    q, k = v3.apply_rotary_pos_emb_interleave(
        torch.from_numpy(x), torch.from_numpy(y), *angles, unsqueeze_dim=2
    )
    assert np.allclose(found.to_numpy()[..., 0], (q * k).sum(-1).numpy(), atol=1e-4)


def test_sections_are_those_of_qwen() -> None:
    import torch
    from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen

    sections = [2, 3, 3]
    text = qwen.Qwen2VLTextConfig(
        hidden_size=HEADS * DIM, num_attention_heads=HEADS, max_position_embeddings=256,
        rope_theta=THETA,
        rope_scaling={
            "rope_type": "default", "type": "default", "rope_theta": THETA,
            "mrope_section": sections,
        },
    )  # fmt: skip
    positions = RNG.integers(0, 200, (3, 1, 5))
    module = qwen.Qwen2VLRotaryEmbedding(text)
    cos, sin = module(torch.zeros(1), torch.from_numpy(positions))
    x = RNG.standard_normal((1, 5, HEADS, DIM)).astype(np.float32)
    q = torch.from_numpy(x).transpose(1, 2)
    if cos.ndim == 4:  # one set of angles for each section, which the rotation then mixes
        want, _ = qwen.apply_multimodal_rotary_pos_emb(q, q, cos, sin, sections)
    else:
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        want, _ = apply_rotary_pos_emb(q, q, cos, sin)

    layer = rope.RotaryEmbedding(*SIZE, interleaved=False)
    types = [TensorType(F32, [1, 5, HEADS, DIM]), TensorType(I64, [3, 1, 5])]
    with Graph("sections", input_types=types) as graph:
        value, at = (value.tensor for value in graph.inputs)
        graph.output(layer(value, position_ids=at, mrope_section=sections))
    (found,) = engine.InferenceSession().load(graph)(x, positions)
    assert np.abs(found.to_numpy() - want.transpose(1, 2).numpy()).max() < 2e-4


def test_the_scale_of_longrope_is_in_the_table() -> None:
    given, layer = TYPES["longrope"]
    factor = float(theirs("longrope", given).attention_scaling)
    assert factor > 1.1
    assert table(layer)[0, 0, 0] == pytest.approx(factor, rel=1e-6)
    assert layer.compute_scale() == pytest.approx(1 / math.sqrt(DIM))
