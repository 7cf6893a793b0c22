"""Layers of multi-head latent attention: against transformers, both ways to the numbers against
each other, and several devices against one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ModuleError, ShapeError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType
from maxlab.nn.attention.multi_latent_attention import (
    DataParallelLatentAttentionWithRope,
    LatentAttentionWithRope,
    TensorParallelLatentAttentionWithRope,
)
from maxlab.nn.kv_cache import KVCacheParams
from maxlab.nn.rotary_embedding import RotaryEmbedding
from tests.cpu_and_gpu import at, numpy, session
from tests.devices.places import load, places, put, refs_of, signal_types, signals, taken
from tests.nn.kernels.caches import Array, Cache, Params, Values
from tests.nn.test_sharded_layers import largest

F32, CPU = DType.float32, DeviceRef.CPU()
HEADS, HIDDEN, LATENT, ROPE, NOPE, VALUE = 4, 24, 10, 6, 8, 7
DIM = LATENT + ROPE
RNG = np.random.default_rng(23)
CACHED, NEW = [5, 0, 9], [3, 1, 6]


def _rope() -> RotaryEmbedding:
    return RotaryEmbedding(HEADS * ROPE, HEADS, 100.0, 64, head_dim=ROPE)


def _arguments(dtype: DType = F32, **more: Any) -> dict[str, Any]:
    params = KVCacheParams(dtype, n_kv_heads=1, head_dim=DIM, page_size=4, is_mla=True)
    return {
        "rope": _rope(), "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
        "hidden_size": HIDDEN, "kv_params": params, "dtype": dtype, "kv_lora_rank": LATENT,
        "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "v_head_dim": VALUE, **more,
    }  # fmt: skip


def _state(layer: LatentAttentionWithRope, seed: int = 5) -> dict[str, Any]:
    """Random weights, which the layer now has."""
    rng = np.random.default_rng(seed)
    state = {
        name: (rng.standard_normal(old.shape) / np.sqrt(old.shape[-1])).astype(old.dtype)
        for name, old in layer.state_dict().items()
    }
    for name, old in state.items():
        if "layernorm" in name:
            state[name] = (1 + 0.2 * rng.standard_normal(old.shape)).astype(old.dtype)
    layer.load_state_dict(state)
    return state


def _cache(
    dtype: DType = F32, cached: Sequence[int] = CACHED, new: Sequence[int] = NEW, seed: int = 1
) -> Cache:
    params = Params(dtype, n_kv_heads_per_device=1, head_dim=DIM, page_size=4, is_mla=True)
    return Cache(params, cached, new, seed=seed)


def _run(
    layer: LatentAttentionWithRope,
    cache: Cache,
    x: Array,
    place: DeviceRef = CPU,
) -> Array:
    """The output of ``layer`` for ``x``, with ``cache``, which is changed."""
    dtype = DType.from_numpy(x.dtype)
    types = [*cache.types(place), TensorType(dtype, ["tokens", HIDDEN], place)]
    with Graph("layer", input_types=types) as graph:
        blocks, lengths, table, most, offsets, number, rows = graph.inputs
        values: Any = Values(blocks.buffer, lengths.tensor, table.tensor, most.tensor)
        turns = layer.rope.freqs_cis.to(place)
        graph.output(layer(number.tensor, rows.tensor, values, turns, offsets.tensor))
    model = session(place).load(graph, weights_registry=layer.state_dict())
    return _called(model, cache, x, place)


def _called(model: Any, cache: Cache, x: Array, place: DeviceRef) -> Array:
    new = np.diff(cache.offsets.astype(np.int64))
    longest = int(new.max(initial=0))
    limits = np.array([[longest, longest + int(cache.lengths.max(initial=0))]], np.uint32)
    blocks = at(cache.blocks, place)
    (found,) = model(
        blocks, at(cache.lengths, place), at(cache.table, place), limits,
        at(cache.offsets, place), np.array(1, np.uint32), at(x, place),
    )  # fmt: skip
    cache.blocks = numpy(blocks)
    return numpy(found)


def _rows(count: int, dtype: DType = F32) -> Array:
    return RNG.standard_normal((count, HIDDEN)).astype(dtype.ml_numpy)


@pytest.mark.parametrize("mode", ["prefill", "decode", "auto"])
@pytest.mark.parametrize("rank", [None, 9])
def test_it_is_the_attention_of_transformers(mode: str, rank: int | None) -> None:
    """Whole texts, without a cache on that side, and two tokens at a time on this one."""
    torch = pytest.importorskip("torch", reason="torch not installed")
    transformers = pytest.importorskip("transformers", reason="transformers not installed")
    from transformers.models.deepseek_v2 import modeling_deepseek_v2 as theirs

    config = transformers.DeepseekV2Config(
        hidden_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=HEADS,
        q_lora_rank=rank, kv_lora_rank=LATENT, qk_nope_head_dim=NOPE, qk_rope_head_dim=ROPE,
        v_head_dim=VALUE, max_position_embeddings=64, num_hidden_layers=1,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
    )  # fmt: skip
    config._attn_implementation = "eager"
    layer = LatentAttentionWithRope(**_arguments(q_lora_rank=rank, buffer_size=8, graph_mode=mode))
    state = _state(layer)
    module = theirs.DeepseekV2Attention(config, 0)
    module.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
    x = _rows(11)
    turns = theirs.DeepseekV2RotaryEmbedding(config)(torch.zeros(1), torch.arange(11)[None])
    hidden = torch.full((11, 11), float("-inf")).triu(1)[None, None]
    with torch.no_grad():
        wanted = module(torch.tensor(x)[None], hidden, position_embeddings=turns)[0][0].numpy()
    cache = _cache(cached=[0], new=[11])
    found = []
    for start in range(0, 11, 4):
        part = x[start : start + 4]
        cache.lengths[0], cache.offsets[1] = start, len(part)
        found.append(_run(layer, cache, part))
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-4, atol=1e-5)


def test_prefill_and_decode_and_buffers_agree(place: DeviceRef) -> None:
    """Also for sequences whose beginnings are in the cache, of several lengths."""
    x = _rows(10)
    made, caches = [], []
    for mode, size in (("prefill", 8), ("prefill", 4096), ("decode", 8), ("auto", 3)):
        layer = LatentAttentionWithRope(
            **_arguments(buffer_size=size, graph_mode=mode, devices=[place])
        )
        _state(layer)
        cache = _cache()
        made.append(_run(layer, cache, x, place))
        caches.append(cache.blocks)
    for other, blocks in zip(made[1:], caches[1:], strict=True):
        np.testing.assert_allclose(other, made[0], rtol=1e-4, atol=2e-6)
        np.testing.assert_array_equal(blocks, caches[0])


@pytest.mark.parametrize("dtype", [DType.bfloat16, DType.float16, DType.float64], ids=str)
def test_each_dtype_is_near_float64(dtype: DType) -> None:
    wide = LatentAttentionWithRope(**_arguments(DType.float64, graph_mode="decode"))
    state, x = _state(wide), RNG.standard_normal((10, HIDDEN))
    rounded = {name: value.astype(dtype.ml_numpy) for name, value in state.items()}
    wide.load_state_dict({name: value.astype(np.float64) for name, value in rounded.items()})
    x = x.astype(dtype.ml_numpy)
    wanted = _run(wide, _cache(DType.float64, [0, 0], [4, 6]), x.astype(np.float64))
    layer = LatentAttentionWithRope(**_arguments(dtype, buffer_size=4))
    layer.load_state_dict(rounded)
    found = _run(layer, _cache(dtype, [0, 0], [4, 6]), x)
    assert found.dtype == dtype.ml_numpy
    close = {DType.bfloat16: 4e-2, DType.float16: 5e-3, DType.float64: 1e-6}[dtype]
    np.testing.assert_allclose(found.astype(float), wanted, rtol=close, atol=close)


def test_which_way_is_taken_is_decided_in_each_run() -> None:
    """The steps of one way run where each text has one new token, those of the other otherwise."""
    layer = LatentAttentionWithRope(**_arguments(buffer_size=8))
    _state(layer)
    cache = _cache()
    types = [*cache.types(CPU), TensorType(F32, ["tokens", HIDDEN], CPU)]
    with Graph("layer", input_types=types) as graph:
        blocks, lengths, table, most, offsets, number, rows = graph.inputs
        values: Any = Values(blocks.buffer, lengths.tensor, table.tensor, most.tensor)
        turns = layer.rope.freqs_cis
        graph.output(layer(number.tensor, rows.tensor, values, turns, offsets.tensor))
    model = session(CPU).load(graph, weights_registry=layer.state_dict())
    one = _cache(new=[1, 1, 1])
    for given in (cache, one):
        x = _rows(given.tokens)
        alone = []
        for mode in ("prefill", "decode"):
            other = LatentAttentionWithRope(**_arguments(buffer_size=8, graph_mode=mode))
            other.load_state_dict(layer.state_dict())
            alone.append(_run(other, _cache(new=np.diff(given.offsets).tolist()), x))
        assert not np.array_equal(alone[0], alone[1]), "the two ways round differently"
        found = _called(model, given, x, CPU)
        wanted = alone[0] if given is cache else alone[1]
        np.testing.assert_array_equal(found, wanted)


def test_the_buffer_is_what_prefill_holds() -> None:
    """The memory of a run grows with ``buffer_size``, by keys and values of so many tokens, and
    with nothing that is cached."""
    peaks = []
    for size in (8, 1000):
        layer = LatentAttentionWithRope(**_arguments(buffer_size=size, graph_mode="prefill"))
        _state(layer)
        types = [*_cache().types(CPU), TensorType(F32, ["tokens", HIDDEN], CPU)]
        with Graph("layer", input_types=types) as graph:
            blocks, lengths, table, most, offsets, number, rows = graph.inputs
            values: Any = Values(blocks.buffer, lengths.tensor, table.tensor, most.tensor)
            turns = layer.rope.freqs_cis
            graph.output(layer(number.tensor, rows.tensor, values, turns, offsets.tensor))
        model = session(CPU).load(graph, weights_registry=layer.state_dict())
        for cached in (5, 40):
            cache = _cache(cached=[cached, 0, 9])
            _called(model, cache, _rows(10), CPU)
            env = {
                "pages": len(cache.blocks), "batch": 3, "most": cache.table.shape[1], "steps": 1,
                "ends": 4, "tokens": 10,
            }  # fmt: skip
            peaks.append(sum(nbytes for _, nbytes in model.arenas(env) or []))
    assert peaks[0] == peaks[1] > 0
    assert peaks[2] == peaks[3]
    both = 992 * HEADS * (NOPE + VALUE) * 4
    assert both - 4096 <= peaks[2] - peaks[0] <= both + 4096


def _on_devices(layer: Any, which: Any, caches: list[Cache], rows: list[Array]) -> list[Array]:
    """The outputs of a layer on several devices, of which each has a cache and rows."""
    refs, count = refs_of(which), len(which)
    divided = isinstance(layer, TensorParallelLatentAttentionWithRope)
    types: list[Any] = []
    for index, (cache, ref) in enumerate(zip(caches, refs, strict=True)):
        names = {name: f"{name}{index}" for name in ("pages", "batch", "most", "steps", "ends")}
        for one in cache.types(ref):
            shape = [names.get(str(dim), dim) for dim in one.shape]
            types.append(type(one)(one.dtype, shape, one.device))
        types.append(TensorType(F32, ["tokens" if divided else f"tokens{index}", HIDDEN], ref))
    with Graph("layers", input_types=[*types, *signal_types(refs)]) as graph:
        values: list[Any] = [graph.inputs[7 * n : 7 * n + 7] for n in range(count)]
        given = [
            Values(pages.buffer, lengths.tensor, table.tensor, most.tensor)
            for pages, lengths, table, most, *_ in values
        ]
        xs = [each[6].tensor for each in values]
        offsets = [each[4].tensor for each in values]
        turns = [layer.rope.freqs_cis.to(ref) for ref in refs]
        buffers = [value.buffer for value in graph.inputs[7 * count :]]
        graph.output(*layer(values[0][5].tensor, xs, buffers, given, turns, offsets))
    model = load(graph, which, **layer.state_dict())
    arguments: list[Any] = []
    for cache, device, x in zip(caches, which, rows, strict=True):
        longest = int(np.diff(cache.offsets.astype(np.int64)).max(initial=0))
        limits = np.array([[longest, 64]], np.uint32)
        arguments += [put(a, device) for a in (cache.blocks, cache.lengths, cache.table)]
        arguments += [limits, put(cache.offsets, device), np.array(1, np.uint32), put(x, device)]
    made = [taken(y) for y in model(*arguments, *signals(which))]
    for index, cache in enumerate(caches):
        cache.blocks = taken(arguments[7 * index])
    if divided:
        queries = -(-HEADS // count) * (NOPE + ROPE) * HIDDEN
        assert largest(graph) <= max(queries, DIM * HIDDEN)
    return made


@pytest.mark.parametrize("which", ["2 cpus", "3 cpus", "4 cpus", "2 gpus"])
@pytest.mark.parametrize("rank", [None, 9])
def test_heads_on_several_devices_are_one_layer(which: str, rank: int | None) -> None:
    """Also where devices get different numbers of heads; each has the vectors of all tokens."""
    x, alone = _rows(10), LatentAttentionWithRope(**_arguments(q_lora_rank=rank))
    state = _state(alone)
    one = _cache()
    wanted = _run(alone, one, x)
    with places(which) as devices:
        refs = refs_of(devices)
        layer = TensorParallelLatentAttentionWithRope(**_arguments(q_lora_rank=rank, devices=refs))
        assert list(layer.state_dict()) == list(state)
        layer.load_state_dict(state)
        caches = [_cache() for _ in refs]
        for found in _on_devices(layer, devices, caches, [x] * len(refs)):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-6)
        for cache in caches:
            np.testing.assert_allclose(cache.blocks, one.blocks, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("which", ["3 cpus", "2 gpus"])
def test_each_device_has_sequences_of_its_own(which: str) -> None:
    alone = LatentAttentionWithRope(**_arguments(buffer_size=6))
    state = _state(alone)
    batches = [([5, 0, 9], [3, 1, 6]), ([2], [1]), ([0, 4], [2, 5])]
    with places(which) as devices:
        refs = refs_of(devices)
        layer = DataParallelLatentAttentionWithRope(**_arguments(buffer_size=6, devices=refs))
        layer.load_state_dict(state)
        some = batches[: len(refs)]
        caches = [_cache(F32, *batch, seed=n) for n, batch in enumerate(some)]
        rows = [_rows(cache.tokens) for cache in caches]
        made = _on_devices(layer, devices, caches, rows)
    for n, (batch, x, found) in enumerate(zip(some, rows, made, strict=True)):
        cache = _cache(F32, *batch, seed=n)
        np.testing.assert_allclose(found, _run(alone, cache, x), rtol=1e-4, atol=2e-6)
        np.testing.assert_allclose(caches[n].blocks, cache.blocks, rtol=1e-5, atol=1e-6)


def test_a_shard_has_its_part_of_the_heads() -> None:
    layer = LatentAttentionWithRope(**_arguments(q_lora_rank=9))
    refs = [DeviceRef.CPU(n) for n in range(3)]
    with pytest.raises(ModuleError, match="ML719"):
        layer.shard(refs)
    layer.sharding_strategy = ShardingStrategy.rowwise(3)
    shards = layer.shard(refs)
    assert [shard.n_heads for shard in shards] == [2, 1, 1]
    assert [shard.device for shard in shards] == refs
    assert [int(shard.q_b_proj.weight.shape[0]) for shard in shards] == [28, 14, 14]
    assert [int(shard.o_proj.weight.shape[1]) for shard in shards] == [14, 7, 7]
    assert [int(shard.kv_a_proj_with_mqa.weight.shape[0]) for shard in shards] == [DIM] * 3
    layer.sharding_strategy = ShardingStrategy.head_aware_columnwise(2, HEADS, VALUE)
    assert [shard.n_heads for shard in layer.shard(refs[:2])] == [2, 2]
    with pytest.raises(ModuleError, match="ML719"):
        layer.sharding_strategy = ShardingStrategy.columnwise(2)
    with pytest.raises(ShapeError, match="ML798"):
        layer.sharding_strategy = ShardingStrategy.rowwise(5)
    with pytest.raises(ShapeError, match="ML798"):
        TensorParallelLatentAttentionWithRope(**_arguments(devices=[*refs, *refs]))


def test_the_weights_of_keys_and_values() -> None:
    """Of each head, the rows of keys as they are, and those of values turned."""
    layer = LatentAttentionWithRope(**_arguments())
    state = _state(layer)
    with Graph("weights", input_types=[]) as graph:
        graph.output(*layer.w_uk_uv)
    found = session(CPU).load(graph, weights_registry=layer.state_dict())()
    parts = state["kv_b_proj.weight"].reshape(HEADS, NOPE + VALUE, LATENT)
    np.testing.assert_array_equal(numpy(found[0]), parts[:, :NOPE])
    np.testing.assert_array_equal(numpy(found[1]), parts[:, NOPE:].transpose(0, 2, 1))


def _params(**more: Any) -> KVCacheParams:
    given = {"n_kv_heads": 1, "head_dim": DIM, "page_size": 4, "is_mla": True, **more}
    return KVCacheParams(given.pop("dtype", F32), **given)


BAD: list[tuple[str, dict[str, Any]]] = [
    ("ML519", {"kv_params": _params(is_mla=False)}),
    ("ML519", {"kv_params": _params(n_kv_heads=2)}),
    ("ML519", {"kv_params": _params(head_dim=LATENT)}),
    ("ML519", {"kv_params": _params(dtype=DType.bfloat16)}),
    ("ML519", {"rope": RotaryEmbedding(32, 4, 100.0, 64)}),
    ("ML519", {"num_key_value_heads": 2}),
    ("ML519", {"graph_mode": "both"}),
    ("ML716", {"buffer_size": 0}),
    ("ML716", {"q_lora_rank": 0}),
    ("ML716", {"v_head_dim": -1}),
    ("ML721", {"devices": []}),
]


@pytest.mark.parametrize(("code", "given"), BAD, ids=lambda x: x if isinstance(x, str) else "")
def test_arguments_that_do_not_fit_are_refused(code: str, given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=code):
        LatentAttentionWithRope(**{**_arguments(), **given})


def test_one_input_of_each_device() -> None:
    layer = DataParallelLatentAttentionWithRope(**_arguments(devices=[CPU, DeviceRef.CPU(1)]))
    loose: Any = layer
    with pytest.raises(ArgumentError, match="ML437"):
        loose(None, [None], None, [None, None], None, [None, None])
