"""Attention whose projections have weights of 8-bit floats, and the weights as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from maxlab.engine import InferenceSession
from maxlab.errors import ModuleError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType
from maxlab.nn.attention import AttentionWithRope
from maxlab.nn.kv_cache import KVCacheParams
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.opset.float8 import float8_numbers
from tests.nn.attention.test_cached_attention import turned
from tests.nn.float8.test_layers import CONFIGS, CPU, F32, FN, Array, reference, rounded, weights
from tests.nn.kernels.caches import Cache, Values, run

HIDDEN, HEADS, KEYS, SIZE = 32, 4, 2, 8
ROWS = {"q_proj": HEADS * SIZE, "k_proj": KEYS * SIZE, "v_proj": KEYS * SIZE, "o_proj": HIDDEN}


def attention(name: str, place: DeviceRef = CPU, **more: Any) -> tuple[Any, dict[str, Array]]:
    """A layer with the scales of a name, and its weights."""
    devices = more.pop("n_devices", 1)
    layer = AttentionWithRope(
        rope=RotaryEmbedding(HEADS * SIZE, HEADS, 100.0, 32, interleaved=False),
        num_attention_heads=HEADS,
        num_key_value_heads=KEYS,
        hidden_size=HIDDEN,
        kv_params=KVCacheParams(F32, KEYS, SIZE, page_size=4, n_devices=devices),
        devices=[place],
        dtype=FN,
        float8_config=CONFIGS[name],
        **more,
    )
    state: dict[str, Array] = {}
    for seed, (part, rows) in enumerate(ROWS.items()):
        made = weights(CONFIGS[name], rows, HEADS * SIZE, seed, f"{part}.")
        for key in made:
            if not key.endswith(".weight"):
                made[key] = np.asarray(made[key] * np.float32(1 + 0.3 * seed))  # each another
        state |= made
    if more.get("use_qk_norm"):
        for key in ("q_norm.weight", "k_norm.weight"):
            state[key] = np.linspace(0.5, 2, SIZE, dtype=np.float32)
    layer.load_state_dict(state)
    return layer, state


@pytest.mark.parametrize("name", ["tensor static", "tokens", "blocks"])
def test_attention(place: DeviceRef, name: str) -> None:
    layer, state = attention(name, place)
    cache, expected = (Cache(layer.kv_params, [5, 0, 9], [3, 1, 6]) for _ in range(2))
    x = np.random.default_rng(6).standard_normal((cache.tokens, HIDDEN)).astype(np.float32)

    def body(values: Values, offsets: Any, number: Any, rest: list[Any]) -> list[Any]:
        return [layer(number, rest[0], values, layer.rope.freqs_cis, offsets)]

    (y,) = run(cache, place, 1, [x], body, layer.state_dict())
    q, k, v = (
        reference(CONFIGS[name], x, state, f"{part}_proj.").reshape(len(x), -1, SIZE)
        for part in "qkv"
    )
    positions = np.array([position for _, _, position in expected.rows()])
    expected.stored(1, 0, turned(k, positions, False))
    expected.stored(1, 1, v)
    attended = expected.attended(turned(q, positions, False), 1, SIZE**-0.5).reshape(len(x), -1)
    wanted = reference(CONFIGS[name], attended.astype(np.float32), state, "o_proj.")
    # A sum of the attention beside a middle may be rounded to the other side.
    error = np.abs(y - wanted) / np.abs(wanted).max()
    assert np.median(error) < 1e-5
    assert error.max() < 2e-2
    np.testing.assert_allclose(cache.blocks, expected.blocks, rtol=1e-4, atol=1e-4)


def weights_as_one(layer: Any) -> list[Array]:
    """The weight, its scale and that of the input, if there is one, as bytes and floats."""

    def build() -> list[Any]:
        found = [layer.wqkv, layer.qkv_weight_scale, layer.qkv_input_scale]
        return [one for one in found if one is not None]

    graph = Graph("g", build, [])
    model = InferenceSession().load(graph, weights_registry=layer.state_dict())
    return [y.to_numpy() for y in model.execute()]


def test_one_scale_is_the_largest_and_numbers_are_rounded_anew() -> None:
    layer, state = attention("tensor static")
    codes, scale, of_input = weights_as_one(layer)
    parts = [f"{part}_proj." for part in "qkv"]
    assert scale == max(state[f"{part}weight_scale"] for part in parts)
    assert of_input == max(state[f"{part}input_scale"] for part in parts)
    wide = np.concatenate([
        state[f"{part}weight"].astype(np.float32) * state[f"{part}weight_scale"] for part in parts
    ])  # fmt: skip
    made = torch.from_numpy(codes).view(torch.float8_e4m3fn).float().numpy() * scale
    np.testing.assert_array_equal(made, rounded(wide, float(scale)))
    assert codes.shape == ((HEADS + 2 * KEYS) * SIZE, HIDDEN)


def test_scales_of_rows_stand_below_each_other() -> None:
    layer, state = attention("tokens")
    codes, scale = weights_as_one(layer)
    parts = [f"{part}_proj." for part in "qkv"]
    for name, made in (("weight", codes), ("weight_scale", scale)):
        wanted = np.concatenate([state[f"{part}{name}"] for part in parts])
        np.testing.assert_array_equal(made, wanted.view(made.dtype))
    layer, _ = attention("blocks")
    with pytest.raises(ModuleError, match="ML717"):  # keys are 16 rows, half a block
        weights_as_one(layer)


def test_norms_have_the_dtype_of_the_cache() -> None:
    layer, _ = attention("tokens", use_qk_norm=True)
    assert layer.q_norm.weight.dtype is F32


def test_heads_in_shards() -> None:
    layer, state = attention("tokens", n_devices=2)
    layer.sharding_strategy = ShardingStrategy.rowwise(2)
    places = [DeviceRef.CPU(0), DeviceRef.CPU(0)]

    def build(x: Any) -> list[Any]:
        parts = layer.shard(places)
        return [parts[1].q_proj(x), parts[1].o_proj(x[:, 16:])]

    x = np.random.default_rng(7).standard_normal((2, HIDDEN)).astype(np.float32)
    model = InferenceSession().load(
        Graph("g", build, [TensorType(F32, x.shape)]), weights_registry=layer.state_dict()
    )
    q, o = (y.to_numpy() for y in model.execute(x))
    np.testing.assert_allclose(
        q, reference(CONFIGS["tokens"], x, state, "q_proj.")[:, 16:], rtol=1e-4, atol=1e-4
    )
    left = rounded(x[:, 16:], torch.from_numpy(x[:, 16:]).abs().amax(-1, keepdim=True) / 448)
    matrix = float8_numbers(state["o_proj.weight"], state["o_proj.weight_scale"], 1, 0)
    np.testing.assert_allclose(o, left @ matrix[:, 16:].T, rtol=1e-4, atol=1e-4)


def test_what_does_not_go_together() -> None:
    for more in ({"stacked_qkv": True}, {"clip_qkv": 0.5}):
        with pytest.raises(ModuleError, match="ML717"):
            attention("tokens", **more)
