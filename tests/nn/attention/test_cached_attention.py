"""Layers of attention over a paged cache: against NumPy, what they refuse, and in shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ModuleError, ShapeError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType, TensorValue
from maxlab.nn.attention import (
    AttentionWithRope,
    AttentionWithRopeNoOpaque,
    MHAMaskVariant,
    RaggedAttention,
)
from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues
from maxlab.nn.rotary_embedding import RotaryEmbedding
from tests.devices.places import load, places, put, refs_of, taken
from tests.nn.kernels.caches import Array, Cache, Values, run
from tests.nn.running import filled, random

F32, U32, CPU = DType.float32, DType.uint32, DeviceRef.CPU()
HIDDEN, HEADS, KEYS, SIZE, LAYER = 20, 6, 2, 8, 1
CACHED, NEW = [5, 0, 9], [3, 1, 6]
CLOSE: Any = {"rtol": 1e-4, "atol": 1e-4}


def params(keys: int = KEYS, **more: Any) -> KVCacheParams:
    return KVCacheParams(F32, n_kv_heads=keys, head_dim=SIZE, page_size=4, **more)


def rope(interleaved: bool = False) -> RotaryEmbedding:
    return RotaryEmbedding(HEADS * SIZE, HEADS, 100.0, 32, interleaved=interleaved)


def roped(kind: type[Any] = AttentionWithRope, interleaved: bool = False, **more: Any) -> Any:
    given = {"num_key_value_heads": KEYS, "kv_params": params(), "rope": rope(interleaved)}
    return kind(**{"num_attention_heads": HEADS, "hidden_size": HIDDEN, **given, **more})


def turned(x: Array, positions: Array, interleaved: bool) -> Array:
    """``x``, [tokens, heads, size], whose pairs are turned."""
    angles = positions[:, None, None] * 100.0 ** (-np.arange(0, SIZE, 2) / SIZE)
    cos, sin = np.cos(angles), np.sin(angles)
    first = x[..., 0::2] if interleaved else x[..., : SIZE // 2]
    second = x[..., 1::2] if interleaved else x[..., SIZE // 2 :]
    made = np.stack([first * cos - second * sin, second * cos + first * sin], -1)
    return (made if interleaved else made.swapaxes(-1, -2)).reshape(x.shape)


def normal(x: Array, weight: Array, eps: float) -> Array:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight)


def wanted(
    state: dict[str, Array],
    cache: Cache,
    x: Array,
    *,
    clip: float | None = None,
    eps: float = 1e-6,
    scale: float = SIZE**-0.5,
    turns: bool | None = False,
    sees: Callable[[int, int], bool] = lambda i, j: j <= i,
) -> Array:
    """What the layer makes of ``x``, in float64; its keys and values are put into ``cache``."""
    names = ("q_proj", "k_proj", "v_proj")
    if "qkv_proj.weight" in state:
        ends = [HEADS * SIZE, (HEADS + KEYS) * SIZE]
        matrices = np.split(state["qkv_proj.weight"], ends)
    else:
        matrices = [state[f"{name}.weight"] for name in names]
    made = []
    for name, matrix in zip(names, matrices, strict=True):
        limited = matrix if clip is None else np.clip(matrix, -clip, clip)
        rows = x.astype(float) @ limited.T + state.get(f"{name}.bias", 0)
        made.append(rows.reshape(len(x), -1, SIZE))
    q, k, v = made
    if "q_norm.weight" in state:
        q, k = (normal(y, state[f"{n}_norm.weight"], eps) for y, n in ((q, "q"), (k, "k")))
    if turns is not None:
        positions = np.array([position for _, _, position in cache.rows()])
        q, k = (turned(y, positions, turns) for y in (q, k))
    cache.stored(LAYER, 0, k)
    cache.stored(LAYER, 1, v)
    attended = cache.attended(q, LAYER, scale, sees)
    return np.asarray(attended.reshape(len(x), -1) @ state["o_proj.weight"].T)


def check(layer: Any, place: DeviceRef, **how: Any) -> None:
    """Raises unless a layer computes what NumPy does, and changes the cache as it does."""
    state = filled(layer)
    cache, expected = (Cache(layer.kv_params, CACHED, NEW) for _ in range(2))
    x = random(cache.tokens, HIDDEN)

    def body(
        values: Values, offsets: TensorValue, number: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        if isinstance(layer, RaggedAttention):
            return [layer(number, rest[0], values, offsets)]  # type: ignore[arg-type]
        return [layer(number, rest[0], values, layer.rope.freqs_cis, offsets)]

    (y,) = run(cache, place, LAYER, [x], body, layer.state_dict())
    np.testing.assert_allclose(y, wanted(state, expected, x, **how), **CLOSE)
    np.testing.assert_allclose(cache.blocks, expected.blocks, **CLOSE)


ROPED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "neighbours": ({"interleaved": True}, {"turns": True}),
    "biases": ({"has_bias": True}, {}),
    "stacked": ({"stacked_qkv": True}, {}),
    "clipped": ({"clip_qkv": 0.4}, {"clip": 0.4}),
    "norms": ({"use_qk_norm": True, "rms_norm_eps": 0.1}, {"eps": 0.1}),
    "scale": ({"scale": 0.05, "has_bias": True, "clip_qkv": 0.7}, {"scale": 0.05, "clip": 0.7}),
    "not opaque": ({"kind": AttentionWithRopeNoOpaque}, {}),
    "not opaque, neighbours": (
        {"kind": AttentionWithRopeNoOpaque, "interleaved": True, "scale": 0.2},
        {"turns": True, "scale": 0.2},
    ),
}


@pytest.mark.parametrize("which", ROPED)
def test_attention_with_rope(place: DeviceRef, which: str) -> None:
    given, how = ROPED[which]
    check(roped(devices=[place], **given), place, **how)


RAGGED: dict[str, tuple[MHAMaskVariant, int, Callable[[int, int], bool]]] = {
    "causal": (MHAMaskVariant.CAUSAL_MASK, -1, lambda i, j: j <= i),
    "null": (MHAMaskVariant.NULL_MASK, -1, lambda i, j: True),
    "window": (MHAMaskVariant.SLIDING_WINDOW_CAUSAL_MASK, 4, lambda i, j: i - 4 < j <= i),
}


@pytest.mark.parametrize("which", RAGGED)
def test_ragged_attention(place: DeviceRef, which: str) -> None:
    mask, window, sees = RAGGED[which]
    layer = roped_less(mask_variant=mask, has_bias=True, devices=[place])
    layer.local_window_size = window
    check(layer, place, turns=None, sees=sees)


def roped_less(**more: Any) -> RaggedAttention:
    given = {"num_key_value_heads": KEYS, "kv_params": params()}
    return RaggedAttention(num_attention_heads=HEADS, hidden_size=HIDDEN, **{**given, **more})


def test_weights_and_biases_in_one() -> None:
    layer = roped(has_bias=True, clip_qkv=0.5)
    state = filled(layer)
    with Graph("weights", input_types=[]) as graph:
        assert layer.wqkv_bias is not None
        graph.output(layer.wqkv, layer.wqkv_bias)
    with places("2 cpus") as devices:
        found = [taken(y) for y in load(graph, devices[:1], **layer.state_dict())()]
    names = ("q_proj", "k_proj", "v_proj")
    weights = np.concatenate([state[f"{name}.weight"] for name in names])
    np.testing.assert_array_equal(found[0], np.clip(weights, -0.5, 0.5))
    np.testing.assert_array_equal(found[1], np.concatenate([state[f"{n}.bias"] for n in names]))
    plain = roped(stacked_qkv=True)
    with Graph("stacked", input_types=[]) as graph:
        assert plain.wqkv_bias is None
        assert plain.qkv_input_scale is None
        graph.output(plain.wqkv)
    kind: Any = graph.output_types[0]
    assert kind.shape == [(HEADS + 2 * KEYS) * SIZE, HIDDEN]
    with pytest.raises(ModuleError, match="no scale"):
        assert plain.qkv_weight_scale is None


def cut_alibi() -> None:
    mask = MHAMaskVariant.CAUSAL_ALIBI_MASK
    layer = roped_less(mask_variant=mask, kv_params=params(n_devices=2))
    layer.sharding_strategy = ShardingStrategy.rowwise(2)


REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "stacked biases": (ValueError, "ML519", lambda: roped(stacked_qkv=True, has_bias=True)),
    "stacked limits": (ValueError, "ML519", lambda: roped(stacked_qkv=True, clip_qkv=1.0)),
    "heads": (ValueError, "ML519", lambda: roped(num_key_value_heads=4, kv_params=params(4))),
    "cache": (ValueError, "ML519", lambda: roped(kv_params=params(3))),
    "rope": (ValueError, "ML519", lambda: roped(rope=RotaryEmbedding(64, 4, 100.0, 32))),
    "none": (ArgumentError, "ML716", lambda: roped(hidden_size=0)),
    "limit": (ArgumentError, "ML718", lambda: roped(clip_qkv=-1.0)),
    "devices": (ArgumentError, "ML721", lambda: roped(devices=[])),
    "eps": (ArgumentError, "ML722", lambda: roped(use_qk_norm=True, rms_norm_eps=0.0)),
    "float8": (ModuleError, "ML717", lambda: roped(float8_config=object())),
    "columns": (
        ModuleError,
        "ML719",
        lambda: roped(sharding_strategy=ShardingStrategy.columnwise(2)),
    ),
    "one device's cache": (
        ModuleError,
        "ML719",
        lambda: roped(sharding_strategy=ShardingStrategy.rowwise(2)),
    ),
    "cut cache": (
        ModuleError,
        "ML719",
        lambda: roped(
            sharding_strategy=ShardingStrategy.replicate(2), kv_params=params(n_devices=2)
        ),
    ),
    "no strategy": (ModuleError, "ML719", lambda: roped().shard([CPU])),
    "alibi": (ModuleError, "ML719", cut_alibi),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_is_refused(which: str) -> None:
    kind, code, make = REFUSED[which]
    with pytest.raises(kind, match=code):
        make()


def test_rows_of_another_size_are_refused() -> None:
    layer = roped()
    cache = Cache(layer.kv_params, CACHED, NEW)

    def body(
        values: Values, offsets: TensorValue, number: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        return [layer(number, rest[0], values, layer.rope.freqs_cis, offsets)]

    with pytest.raises(ShapeError, match="ML203"):
        run(cache, CPU, LAYER, [random(cache.tokens, HIDDEN + 1)], body, filled(layer))


@pytest.mark.parametrize("which", ["plain", "biases", "stacked", "norms", "neighbours"])
@pytest.mark.parametrize("name", ["2 cpus", "2 gpus"])
def test_shards_add_up(name: str, which: str) -> None:
    """Each device has some of the heads, in its weights and in its cache."""
    given, how = ROPED[which]
    with places(name) as devices:
        refs = refs_of(devices)
        whole = roped(**{**given, "kv_params": params(n_devices=2)})
        state = filled(whole)
        whole.sharding_strategy = ShardingStrategy.rowwise(2)
        expected = Cache(params(), CACHED, NEW)  # type: ignore[arg-type]
        before = [np.ascontiguousarray(part) for part in np.split(expected.blocks, 2, axis=4)]
        own = Cache(params(1), CACHED, NEW)  # type: ignore[arg-type]
        types: list[Any] = []
        for ref in refs:
            types += [*own.types(ref), TensorType(F32, [own.tokens, HIDDEN], ref)]
        x = random(own.tokens, HIDDEN)
        with Graph("shards", input_types=types) as graph:
            outputs = []
            for number, shard in enumerate(whole.shard(refs)):
                assert shard.n_heads == HEADS // 2
                blocks, lengths, table, most, offsets, layer, rows = graph.inputs[
                    7 * number : 7 * number + 7
                ]
                cache = PagedCacheValues.of([blocks, lengths, table, most])
                turns = whole.rope.freqs_cis
                outputs.append(shard(layer.tensor, rows.tensor, cache, turns, offsets.tensor))
            graph.output(*outputs)
        inputs: list[Any] = []
        pages = [put(part, device) for part, device in zip(before, devices, strict=True)]
        limits = np.array([[6, 15]], np.uint32)
        for page, device in zip(pages, devices, strict=True):
            inputs += [page, put(own.lengths, device), put(own.table, device), limits]
            inputs += [put(own.offsets, device), np.array(LAYER, np.uint32), put(x, device)]
        found = [taken(y) for y in load(graph, devices, **state)(*inputs)]
        y = wanted(state, expected, x, **how)
        np.testing.assert_allclose(sum(found), y, **CLOSE)
        stored = np.concatenate([taken(page) for page in pages], axis=4)
        np.testing.assert_allclose(stored, expected.blocks, **CLOSE)
