"""Transformers on several devices: equal to one device, and no device has a weight that is cut
whole."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from maxlab import nn
from maxlab.driver import Device
from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    ModuleError,
    ShapeError,
    ShardCountError,
)
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType, ops
from maxlab.nn.attention import (
    AttentionWithRope,
    DataParallelAttentionWithRope,
    DistributedAttentionImpl,
    TensorParallelAttentionWithRope,
)
from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues
from maxlab.nn.linear import DistributedGemmConfig
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.transformer import (
    DistributedTransformer,
    DistributedTransformerBlock,
    ReturnLogits,
    Transformer,
    TransformerBlock,
)
from maxlab.nn.transformer.distributed_transformer import (
    ShardableCallable,
    distribute_value,
    forward_sharded_layers,
    take,
)
from tests.devices.places import load, places, put, refs_of, signal_types, signals, taken
from tests.nn.kernels.caches import Array, Cache
from tests.nn.running import filled

F32, U32, CPU = DType.float32, DType.uint32, DeviceRef.CPU()
HIDDEN, HEADS, KEYS, SIZE, INNER, WORDS, LAYERS = 20, 24, 12, 4, 22, 29, 3
CACHED, NEW = [5, 0, 3], [2, 1, 3]
TOKENS = np.array([3, 28, 0, 14, 7, 21], np.int64)
LIMITS = np.array([[3, 7]], np.uint32)
ROPE = RotaryEmbedding(HEADS * SIZE, HEADS, 100.0, 16, interleaved=False)
CLOSE: Any = {"rtol": 1e-5, "atol": 1e-5}


def params(**more: Any) -> KVCacheParams:
    return KVCacheParams(F32, n_kv_heads=KEYS, head_dim=SIZE, page_size=4, **more)


def attention(kind: Any = AttentionWithRope, cache: Any = None, **more: Any) -> Any:
    given = {"kv_params": cache or params(), "hidden_size": HIDDEN, "rope": ROPE}
    return kind(**{"num_attention_heads": HEADS, "num_key_value_heads": KEYS, **given, **more})


def mlp(refs: Sequence[DeviceRef] = (CPU,)) -> nn.MLP:
    return nn.MLP(F32, None, HIDDEN, INNER, refs)


def one_device(return_logits: ReturnLogits = ReturnLogits.ALL) -> Transformer:
    layers = [
        TransformerBlock(attention(), mlp(), nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN))
        for _ in range(LAYERS)
    ]
    head, table = nn.Linear(HIDDEN, WORDS), nn.Embedding(WORDS, HIDDEN)
    return Transformer(
        HIDDEN, HEADS, layers, nn.RMSNorm(HIDDEN), head, table, params(), ROPE, return_logits,
        logits_scaling=2.0,
    )  # fmt: skip


def parallel_block(refs: Sequence[DeviceRef], **more: Any) -> DistributedTransformerBlock:
    given = {
        "attention": attention(
            TensorParallelAttentionWithRope, params(n_devices=len(refs)), devices=refs
        ),
        "mlp": mlp(refs),
        "attention_norm": nn.RMSNorm(HIDDEN),
        "mlp_norm": nn.RMSNorm(HIDDEN),
        "devices": list(refs),
    }
    return DistributedTransformerBlock(**{**given, **more})


def several_devices(refs: Sequence[DeviceRef], **more: Any) -> DistributedTransformer:
    given: dict[str, Any] = {
        "dim": HIDDEN,
        "n_heads": HEADS,
        "layers": [parallel_block(refs) for _ in range(LAYERS)],
        "norm": nn.RMSNorm(HIDDEN),
        "output": nn.ColumnParallelLinear(HIDDEN, WORDS, F32, refs),
        "embedding": nn.VocabParallelEmbedding(WORDS, HIDDEN, F32, refs),
        "kv_params": params(n_devices=len(refs)),
        "devices": list(refs),
        "rope": ROPE,
        "return_logits": ReturnLogits.ALL,
        "logits_scaling": 2.0,
    }
    return DistributedTransformer(**{**given, **more})


def part(start: int, stop: int) -> Cache:
    """The pages of some of the texts."""
    return Cache(params(), CACHED[start:stop], NEW[start:stop], layers=LAYERS)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole() -> tuple[dict[str, Any], Cache, Array, Array]:
    """Weights, the cache before, and the logits of all tokens and the cache after on one CPU."""
    model = one_device()
    state = {
        name: value * 0.3 if value.ndim > 1 else 1 + value * 0.1
        for name, value in filled(model).items()
    }
    cache = part(0, 3)
    types = [TensorType(DType.int64, ["n"], CPU), TensorType(DType.int64, [1], CPU)]
    with Graph("one", input_types=[*types, *cache.types(CPU)[:5]]) as graph:
        tokens, count, *rest, offsets = graph.inputs
        graph.output(*model(tokens.tensor, PagedCacheValues.of(rest), count.tensor, offsets.tensor))
    with places("2 cpus") as devices:
        pages = put(cache.blocks, devices[0])
        found = load(graph, devices[:1], **state)(
            TOKENS, np.ones(1, np.int64), pages, cache.lengths, cache.table, LIMITS, cache.offsets
        )
        return state, cache, taken(found[1]), taken(pages)


def inputs_on(cache: Cache, blocks: Array, device: Device) -> list[Any]:
    lengths, table = put(cache.lengths, device), put(cache.table, device)
    return [put(blocks, device), lengths, table, LIMITS]


CASES: dict[str, tuple[bool, dict[str, Any]]] = {
    "2 cpus": (True, {}),
    "2 gpus": (True, {"use_subgraphs": True}),
    "3 cpus": (False, {"use_subgraphs": True}),
    "4 cpus": (True, {"use_subgraphs": True, "subgraph_layer_groups": [[0, 2]]}),
}


@pytest.mark.parametrize("which", CASES)
def test_tensor_parallel_is_one_device(
    which: str, whole: tuple[dict[str, Any], Cache, Array, Array]
) -> None:
    told, more = CASES[which]
    state, cache, logits, after = whole
    with places(which) as devices:
        refs, many = refs_of(devices), len(devices)
        model = several_devices(refs, **more)
        model.load_state_dict(state)
        split = Cache(params(n_devices=many), CACHED, NEW, layers=LAYERS)  # type: ignore[arg-type]
        types: list[Any] = [TensorType(DType.int64, ["n"], refs[0])]
        types += [TensorType(DType.int64, [1], CPU), TensorType(U32, ["ends"], refs[0])]
        types += [kind for ref in refs for kind in split.types(ref)[:4]]
        types += signal_types(refs) if told else []
        with Graph("parallel", input_types=types) as graph:
            tokens, count, offsets, *rest = graph.inputs
            caches = [PagedCacheValues.of(rest[4 * n : 4 * n + 4]) for n in range(many)]
            buffers: Any = rest[4 * many :] or None
            graph.output(*model(tokens.tensor, buffers, caches, count.tensor, offsets.tensor))
        assert_cut(graph, many)
        assert list(graph.subgraphs) == (["layers_0"] if more else [])
        before = np.split(cache.blocks, many, axis=4)
        given: list[Any] = [put(TOKENS, devices[0]), np.ones(1, np.int64)]
        given.append(put(cache.offsets, devices[0]))
        for device, blocks in zip(devices, before, strict=True):
            given += inputs_on(cache, np.ascontiguousarray(blocks), device)
        pages = given[3::4][:many]
        found = load(graph, devices, **model.state_dict())(
            *given, *(signals(devices) if told else [])
        )
        np.testing.assert_allclose(taken(found[1]), logits, **CLOSE)
        np.testing.assert_array_equal(taken(found[0]), taken(found[1])[cache.offsets[1:] - 1])
        stored = np.concatenate([taken(page) for page in pages], axis=4)
        np.testing.assert_allclose(stored, after, **CLOSE)


def assert_cut(graph: Graph, many: int) -> None:
    """Raises unless every matrix is there once in all, in parts of about the same size."""
    sizes: dict[str, list[int]] = {}
    wholes: dict[str, int] = {}
    for op in graph.function.ops:
        if op.name == "mo.constant.external":
            name = op.attrs["of"]
            wholes[name] = math.prod(op.attrs["whole"])
            sizes.setdefault(name, []).append(
                math.prod(int(dim) for dim in op.result.tensor_type.shape)
            )
    assert len(sizes) == 2 + 9 * LAYERS + 1
    for name, parts in sizes.items():
        if "norm" in name:  # one of each device; the last one is used on the first device alone
            assert parts == [HIDDEN] * (1 if name == "norm.weight" else many)
        else:
            assert len(parts) == many
            assert sum(parts) == wholes[name]
            assert max(parts) <= -(-min(INNER, WORDS) // many) * 2 * wholes[name] // INNER


class Replicas(nn.Module):
    """A transformer that each device has whole, for texts of its own."""

    def __init__(self, refs: Sequence[DeviceRef]) -> None:
        count = len(refs)
        cache = params(n_devices=count, data_parallel_degree=count)
        blocks = []
        for _ in range(LAYERS):
            perceptron = mlp(refs)
            perceptron.sharding_strategy = ShardingStrategy.replicate(count)
            layer = attention(DataParallelAttentionWithRope, cache, devices=refs)
            blocks.append(parallel_block(refs, attention=layer, mlp=perceptron))
        self.layers = nn.LayerList(blocks)
        self.embed_tokens = nn.Embedding(WORDS, HIDDEN)
        self.norm, self.lm_head = nn.RMSNorm(HIDDEN), nn.Linear(HIDDEN, WORDS)
        self.embed_tokens.weight.sharding_strategy = ShardingStrategy.replicate(count)
        self.norm.sharding_strategy = ShardingStrategy.replicate(count)
        self.lm_head.sharding_strategy = ShardingStrategy.replicate(count)
        self.refs = list(refs)

    def __call__(self, tokens: Any, caches: Any, offsets: Any) -> Any:
        tables = self.embed_tokens.weight.shard(self.refs)
        xs = [ops.gather(t, ids, 0) for t, ids in zip(tables, tokens, strict=True)]
        turns = distribute_value(ROPE.freqs_cis, self.refs)
        layers: Any = self.layers
        for number, layer in enumerate(layers):
            idx = ops.constant(number, U32, CPU)
            xs = layer(idx, xs, None, caches, turns, offsets)
        xs = forward_sharded_layers(self.norm.shard(self.refs), xs)
        return [y / 2.0 for y in forward_sharded_layers(self.lm_head.shard(self.refs), xs)]


def test_data_parallel_is_one_device(whole: tuple[dict[str, Any], Cache, Array, Array]) -> None:
    """Each device has texts of its own, whose offsets begin at 0."""
    state, cache, logits, after = whole
    with places("2 cpus") as devices:
        refs = refs_of(devices)
        model = Replicas(refs)
        model.load_state_dict(state)
        texts, rows = [(0, 1), (1, 3)], [(0, 2), (2, 6)]
        types: list[Any] = []
        for number, ref in enumerate(refs):
            types.append(TensorType(DType.int64, [f"n{number}"], ref))
            for kind in cache.types(ref)[:5]:
                dims = [f"{dim}{number}" if dim in ("batch", "ends") else dim for dim in kind.shape]
                types.append(type(kind)(kind.dtype, dims, kind.device))
        with Graph("replicas", input_types=types) as graph:
            parts = [graph.inputs[6 * n : 6 * n + 6] for n in range(2)]
            caches = [PagedCacheValues.of(one[1:5]) for one in parts]
            offsets = [one[5].tensor for one in parts]
            graph.output(*model([one[0].tensor for one in parts], caches, offsets))
        given: list[Any] = []
        for device, (first, last), (start, stop) in zip(devices, texts, rows, strict=True):
            ends = cache.offsets[first : last + 1]
            given += [put(TOKENS[start:stop], device), put(cache.blocks, device)]
            given += [put(cache.lengths[first:last], device), put(cache.table[first:last], device)]
            given += [LIMITS, put(ends - ends[0], device)]
        found = load(graph, devices, **model.state_dict())(*given)
        np.testing.assert_allclose(np.concatenate([taken(y) for y in found]), logits, **CLOSE)
        for number, (first, last) in enumerate(texts):
            pages = cache.table[first:last].ravel()
            pages = pages[pages < len(cache.blocks)]
            stored = taken(given[6 * number + 1])
            np.testing.assert_allclose(stored[pages], after[pages], **CLOSE)


def test_parts_of_the_interface() -> None:
    two = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
    kinds: dict[Any, int] = {TensorParallelAttentionWithRope: 1, DataParallelAttentionWithRope: 2}
    for kind, degree in kinds.items():
        assert issubclass(kind, DistributedAttentionImpl)
        own, known = (inspect.signature(one).parameters for one in (kind, AttentionWithRope))
        assert [*own] == [name for name in known if name != "sharding_strategy"]
        layer = attention(kind, params(n_devices=2, data_parallel_degree=degree), devices=two)
        assert sorted(layer.state_dict()) == [f"{name}_proj.weight" for name in "koqv"]
    layers: list[ShardableCallable] = [mlp(), nn.RMSNorm(3)]
    assert [layer.sharding_strategy for layer in layers] == [None, None]
    loose: Any = take
    letters = iter("abcde")
    assert [loose(letters, 2), loose(letters, 0), loose(letters, 9)] == [
        ["a", "b"],
        [],
        ["c", "d", "e"],
    ]


def build(change: Callable[[dict[str, Any]], None]) -> None:
    """Builds a block for two devices whose arguments ``change`` has changed."""
    refs = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
    cache = Cache(params(n_devices=2), CACHED, NEW, layers=LAYERS)  # type: ignore[arg-type]
    block = parallel_block(refs)
    types: list[Any] = [
        kind
        for ref in refs
        for kind in (*cache.types(ref)[:5], TensorType(F32, ["n", HIDDEN], ref))
    ]
    with Graph("block", input_types=types) as graph:
        parts = [graph.inputs[6 * n : 6 * n + 6] for n in range(2)]
        given: dict[str, Any] = {
            "layer_idx": ops.constant(0, U32, CPU),
            "xs": [one[5].tensor for one in parts],
            "signal_buffers": None,
            "kv_collections": [PagedCacheValues.of(one[:4]) for one in parts],
            "freqs_cis": distribute_value(ROPE.freqs_cis, refs),
            "input_row_offsets": [one[4].tensor for one in parts],
        }
        change(given)
        block(**given)


def drop(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda given: given[name].pop()


def on_the_first(name: str) -> Callable[[dict[str, Any]], None]:
    def change(given: dict[str, Any]) -> None:
        given[name][1] = given[name][0]

    return change


TWO = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "one device": (
        ValueError,
        "ML466",
        lambda: attention(TensorParallelAttentionWithRope, devices=[CPU]),
    ),
    "another strategy": (
        ModuleError,
        "ML719",
        lambda: attention(
            DataParallelAttentionWithRope,
            devices=[CPU],
            sharding_strategy=ShardingStrategy.rowwise(1),
        ),
    ),
    "a cache of one device": (
        ModuleError,
        "ML719",
        lambda: attention(TensorParallelAttentionWithRope, devices=TWO),
    ),
    "a cache in parts": (
        ModuleError,
        "ML719",
        lambda: attention(DataParallelAttentionWithRope, params(n_devices=2), devices=TWO),
    ),
    "numbers of inputs": (AssertionError, "ML467", lambda: forward_sharded_layers([abs], [])),
    "no device": (ArgumentError, "ML721", lambda: parallel_block(TWO, devices=[])),
    "a fused kernel": (
        ModuleError,
        "ML717",
        lambda: parallel_block(TWO, distributed_gemm_config=DistributedGemmConfig(True)),
    ),
    "few rows": (
        ShapeError,
        "ML798",
        lambda: parallel_block(TWO, mlp=nn.MLP(F32, None, HIDDEN, 1, TWO)),
    ),
    "no group": (ValueError, "ML468", lambda: several_devices(TWO, subgraph_layer_groups=[[3]])),
    "twice": (ValueError, "ML468", lambda: several_devices(TWO, subgraph_layer_groups=[[0], [0]])),
    "no ReturnLogits": (ArgumentTypeError, "ML520", lambda: several_devices(TWO, return_logits=1)),
    "inputs of attention": (ArgumentError, "ML437", lambda: build(drop("kv_collections"))),
    "inputs": (ShardCountError, "ML467", lambda: build(drop("xs"))),
    "rows of another device": (ArgumentError, "ML304", lambda: build(on_the_first("xs"))),
    "a cache of another device": (
        ArgumentError,
        "ML304",
        lambda: build(on_the_first("kv_collections")),
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_is_refused(which: str) -> None:
    kind, code, make = REFUSED[which]
    with pytest.raises(kind, match=code):
        make()
