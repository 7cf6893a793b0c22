"""Sharded weights: what each shard takes, and where it comes to lie."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import driver, nn
from maxlab.driver import CPU, Tensor
from maxlab.dtype import DType
from maxlab.engine.shards import cut, is_whole_rows, shape_of, view_of
from maxlab.errors import MaxlabError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType, Weight, ops
from maxlab.graph.quantization import QuantizationEncoding
from tests.devices.places import load, places, put, refs_of, signal_types, signals, taken

F32, U8 = DType.float32, DType.uint8
C0, C1, C2 = (DeviceRef.CPU(n) for n in range(3))
RNG = np.random.default_rng(13)
HEADS, HEAD = 6, 4

STRATEGIES: dict[str, tuple[Callable[[int], ShardingStrategy], tuple[int, ...]]] = {
    "rowwise": (ShardingStrategy.rowwise, (8, 5)),
    "rowwise uneven": (ShardingStrategy.rowwise, (7, 5)),
    "rowwise of rank 1": (ShardingStrategy.rowwise, (9,)),
    "columnwise": (ShardingStrategy.columnwise, (5, 8)),
    "columnwise uneven": (ShardingStrategy.columnwise, (3, 9)),
    "columnwise of rank 3": (ShardingStrategy.columnwise, (2, 8, 3)),
    "last axis": (lambda n: ShardingStrategy.axiswise(-1, n), (2, 3, 8)),
    "replicate": (ShardingStrategy.replicate, (4, 3)),
    "heads": (
        lambda n: ShardingStrategy.head_aware_columnwise(n, HEADS, HEAD),
        (5, HEADS * HEAD),
    ),
    "qkv": (lambda n: ShardingStrategy.stacked_qkv(n, HEADS, HEAD), (3 * HEADS * HEAD, 5)),
}


def in_numpy(name: str, array: Any, count: int) -> list[Any]:
    """The shards of ``array``, as NumPy cuts it."""
    if name == "replicate":
        return [array] * count
    if name == "heads":
        heads = array.reshape(-1, HEADS, HEAD)
        return [h.reshape(len(array), -1) for h in np.array_split(heads, count, axis=1)]
    if name == "qkv":
        heads = array.reshape(3, HEADS, HEAD, -1)
        parts = np.array_split(heads, count, axis=1)
        return [h.reshape(-1, array.shape[1]) for h in parts]
    axis = {"rowwise": 0, "columnwise": 1, "last axis": -1}[
        name.removesuffix(" uneven").split(" of ")[0]
    ]
    return np.array_split(array, count, axis=axis)


@pytest.mark.parametrize("which", ["2 cpus", "4 cpus", "2 gpus", "mixed"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_each_device_has_its_shard(which: str, name: str) -> None:
    make, shape = STRATEGIES[name]
    array = RNG.normal(size=shape).astype(np.float32)
    with places(which) as devices:
        count = len(devices)
        weight = Weight("w", F32, shape, C0, sharding_strategy=make(count))
        shards = weight.shard(refs_of(devices))
        wanted = in_numpy(name, array, count)
        assert [s.shard_idx for s in shards] == list(range(count))
        assert [s.device for s in shards] == refs_of(devices)
        assert [tuple(map(int, s.shape)) for s in shards] == [x.shape for x in wanted]
        with Graph("g", input_types=[]) as graph:
            graph.output(*(s * 1 for s in shards), *shards)
        found = load(graph, devices, w=array)()
        for x, y in zip(found, wanted * 2, strict=True):
            np.testing.assert_array_equal(taken(x), y)


@pytest.mark.parametrize("which", ["2 cpus", "4 cpus", "2 gpus", "mixed"])
def test_a_tensor_parallel_mlp(which: str) -> None:
    hidden, inner = 48, 120
    up, down = (
        RNG.normal(size=s).astype(np.float32) / 8 for s in ((inner, hidden), (hidden, inner))
    )
    bias = RNG.normal(size=hidden).astype(np.float32)
    with places(which) as devices:
        refs = refs_of(devices)
        first = Weight("up.weight", F32, up.shape, C0)
        first.sharding_strategy = ShardingStrategy.rowwise(len(refs))
        second = Weight("down.weight", F32, down.shape, C0)
        second.sharding_strategy = ShardingStrategy.columnwise(len(refs))
        add = Weight("bias", F32, bias.shape, C0)
        add.sharding_strategy = ShardingStrategy.replicate(len(refs))
        types = [TensorType(F32, ["n", hidden], refs[0]), *signal_types(refs)]
        with Graph("mlp", input_types=types) as graph:
            xs = [ops.transfer_to(graph.inputs[0].tensor, ref) for ref in refs]
            rows = zip(xs, first.shard(refs), second.shard(refs), strict=True)
            parts = [ops.silu(x @ a.T) @ b.T for x, a, b in rows]
            sums = ops.allreduce.sum(parts, [v.buffer for v in graph.inputs[1:]])
            graph.output(*(s + b for s, b in zip(sums, add.shard(refs), strict=True)))
        weights: dict[str, Any] = {"up.weight": up, "down.weight": down, "bias": bias}
        model = load(graph, devices, **weights)
        for n in (5, 1):
            x = RNG.normal(size=(n, hidden)).astype(np.float32)
            mid = x @ up.T
            wanted = mid / (1 + np.exp(-mid)) @ down.T + bias
            found = model(put(x, devices[0]), *signals(devices))
            assert [y.device for y in found] == devices
            for y in found:
                np.testing.assert_allclose(taken(y), wanted, rtol=1e-4, atol=1e-5)
        assert len({taken(y).tobytes() for y in found}) == 1 or which == "mixed"
        again = model.reload()
        y = again(put(x, devices[0]), *signals(devices))[-1]
        np.testing.assert_array_equal(taken(y), taken(found[-1]))


# ---------------------------------------------------------------- memory
@pytest.mark.parametrize("name", ["rowwise", "columnwise"])
def test_no_device_gets_the_whole_weight(name: str) -> None:
    shape = (64, 64)
    array = RNG.normal(size=shape).astype(np.float32)
    with driver.virtual_cpus(5, memory_limit=array.nbytes // 2) as cpus:
        weight = Weight("w", F32, shape, C0)
        weight.sharding_strategy = getattr(ShardingStrategy, name)(4)
        with Graph("g", input_types=[]) as graph:
            graph.output(*(ops.sum(s)[0] for s in weight.shard(refs_of(cpus[1:]))))
        model = load(graph, cpus, w=array)
        peaks = [cpu.stats["peak_memory"] for cpu in cpus[1:]]
        assert peaks == [array.nbytes // 4] * 4
        wanted = [s[0].sum() for s in in_numpy(name, array, 4)]
        np.testing.assert_allclose([taken(x)[0] for x in model()], wanted, rtol=1e-4)
        del model
        gc.collect()
        assert {cpu.stats["used_memory"] for cpu in cpus[1:]} == {0}


def test_uploads_to_gpus_are_shards_only() -> None:
    array = RNG.normal(size=(64, 64)).astype(np.float32)
    with places("2 gpus") as devices:
        weight = Weight("w", F32, array.shape, C0)
        weight.sharding_strategy = ShardingStrategy.columnwise(2)
        with Graph("g", input_types=[]) as graph:
            graph.output(*(s * 2 for s in weight.shard(refs_of(devices))))
        model = load(graph, devices, w=array)
        uploads = [device.stats["upload_bytes"] for device in devices]
        assert uploads == [array.nbytes // 2] * 2
        model()
        assert [device.stats["upload_bytes"] for device in devices] == uploads, "at load only"


def test_rows_on_the_host_are_used_in_place() -> None:
    array = np.arange(8, dtype=np.float32).reshape(4, 2)
    weight = Weight("w", F32, array.shape, C0)
    weight.sharding_strategy = ShardingStrategy.rowwise(2)
    with Graph("g", input_types=[]) as graph:
        graph.output(*(s * 2 for s in weight.shard([C0, C0])))
    model = load(graph, [CPU()], w=array)
    array[3] = 50  # which the model sees, as of any weight
    np.testing.assert_array_equal(taken(model()[1]), [[8, 10], [100, 100]])


def test_shards_of_memory_that_nobody_writes_are_shared() -> None:
    array = RNG.normal(size=(8, 8)).astype(np.float32)
    array.flags.writeable = False
    weight = Weight("w", F32, array.shape, C0)
    weight.sharding_strategy = ShardingStrategy.columnwise(2)
    with driver.virtual_cpus(3) as cpus:
        with Graph("g", input_types=[]) as graph:
            graph.output(*(s * 2 for s in weight.shard([C1, C1])))
        first = load(graph, cpus, w=array)
        used = cpus[1].stats["used_memory"]
        second = load(graph, cpus, w=array)
        assert cpus[1].stats["used_memory"] == used == 2 * 128
        for model in (first, second):
            np.testing.assert_array_equal(taken(model()[1]), array[:, 4:] * 2)


PARTS: list[tuple[Any, bool]] = [
    ((((0, 2),), ((0, 6),)), True),
    ((((1, 4),), ((0, 6),)), True),
    ((((0, 4),), ((2, 4),)), False),
    ((((2, 2),), ((0, 6),)), True),
    ((((0, 1), (3, 4)), ((0, 6),)), False),
    ((((0, 1), (2, 4)), ((0, 2), (4, 5))), False),
]


@pytest.mark.parametrize(("part", "whole_rows"), PARTS)
@pytest.mark.parametrize("where", ["2 cpus", "2 gpus"])
def test_parts_of_arrays(part: Any, whole_rows: bool, where: str) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    index = [np.concatenate([np.arange(*r) for r in axis]) for axis in part]
    wanted = array[np.ix_(*index)]
    tensor = Tensor.from_numpy(array)
    assert shape_of(part) == wanted.shape
    assert is_whole_rows(part, array.shape) == whole_rows
    if whole_rows and wanted.size:
        view = view_of(tensor, part)
        assert view.is_contiguous
        assert np.shares_memory(view.to_numpy(), array)
    with places(where) as devices:
        made = cut(tensor, part, devices[1])
        assert made.device is devices[1]
        np.testing.assert_array_equal(taken(made), wanted)


# ---------------------------------------------------------------- graphs
def test_shards_follow_the_whole_weight() -> None:
    weight = Weight("w", F32, [4, 6], C0)
    weight.sharding_strategy = ShardingStrategy.columnwise(2)
    shard = weight.shard([C1, C2])[1]
    weight.name, weight.dtype, weight.shape = "layer.w", DType.float16, [4, 8]
    assert shard.name == "layer.w[1]"
    assert shard.dtype is DType.float16
    assert list(shard.shape) == [4, 4]
    shard.device = C0
    assert shard.device == C0
    assert shard.type == TensorType(DType.float16, [4, 4], C0)


def test_whole_weight_and_shards_in_one_graph(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    weight = Weight("w", F32, array.shape, C0)
    weight.sharding_strategy = ShardingStrategy.columnwise(2)
    shards = weight.shard([C1, C2])
    with Graph("g", input_types=[]) as graph:
        graph.output(weight + 1, shards[1] * 2, shards[0] @ np.ones((2, 2), np.float32))
    graph.save(tmp_path / "g.mlir")
    with driver.virtual_cpus(3) as cpus:
        for one in (graph, Graph(path=tmp_path / "g.mlir")):
            a, b, c = load(one, cpus, w=array)()
            np.testing.assert_array_equal(taken(a), array + 1)
            np.testing.assert_array_equal(taken(b), array[:, 2:] * 2)
            np.testing.assert_array_equal(taken(c), array[:, :2] @ np.ones((2, 2)))


class Parallel(nn.Module):
    """A product whose weight is cut for several devices."""

    def __init__(self, refs: list[DeviceRef]) -> None:
        self.weight = Weight("weight", F32, [8, 4], C0)
        self.weight.sharding_strategy = ShardingStrategy.rowwise(len(refs))
        self.shards = self.weight.shard(refs)
        self.last = self.shards[-1]  # a shard is no weight of the module's own

    def __call__(self, x: Any, *signals: Any) -> Any:
        parts = [ops.transfer_to(x, s.device) @ s.T for s in self.shards]
        return ops.allgather(parts, signals, axis=-1)[0]


class Model(nn.Module):
    """Two of them."""

    def __init__(self, refs: list[DeviceRef]) -> None:
        self.first, self.second = Parallel(refs), Parallel(refs)

    def __call__(self, x: Any, *signals: Any) -> Any:
        return self.second(self.first(x, *signals)[:, :4], *signals)


def test_shards_in_modules_have_the_names_of_their_weights() -> None:
    refs = [C0, C1]
    model = Model(refs)
    assert list(model.raw_state_dict()) == ["first.weight", "second.weight"]
    types = [TensorType(F32, ["n", 4]), *signal_types(refs)]
    graph = Graph("model", model, types)
    arrays = [RNG.normal(size=(8, 4)).astype(np.float32) for _ in range(2)]
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    with driver.virtual_cpus(2) as cpus:
        weights = {"first.weight": arrays[0], "second.weight": arrays[1]}
        (found,) = load(graph, cpus, **weights)(x, *signals(cpus))
        wanted = (x @ arrays[0].T)[:, :4] @ arrays[1].T
        np.testing.assert_allclose(taken(found), wanted, rtol=1e-5, atol=1e-5)


def test_shards_in_a_subgraph_that_is_called_with_prefixes() -> None:
    refs = [C0, C1]
    one, other = (RNG.normal(size=(8, 4)).astype(np.float32) for _ in range(2))
    model = Model(refs)
    model.load_state_dict({"first.weight": one, "second.weight": other})
    types = [TensorType(F32, ["n", 4]), *signal_types(refs)]
    with Graph("g", input_types=types) as graph:
        sub = model.first.build_subgraph("layer", types, weight_prefix="first.")
        prefixes = ("first.", "second.", "first.")
        graph.output(*(ops.call(sub, *graph.inputs, prefix=p)[0] for p in prefixes))
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    with driver.virtual_cpus(2) as cpus:
        made = load(graph, cpus, **model.state_dict())(x, *signals(cpus))
        for y, w in zip(made, (one, other, one), strict=True):
            np.testing.assert_allclose(taken(y), x @ w.T, rtol=1e-5, atol=1e-5)


def test_a_shard_of_what_the_registry_has_is_checked() -> None:
    weight = Weight("w", F32, [4, 6], C0, sharding_strategy=ShardingStrategy.columnwise(2))
    with Graph("g", input_types=[]) as graph:
        graph.output(*(s * 2 for s in weight.shard([C0, C1])))
    for code, given in (
        ("ML613", {}),
        ("ML613", {"w[0]": np.zeros((4, 3), np.float32)}),
        ("ML614", {"w": np.zeros((4, 6))}),
        ("ML615", {"w": np.zeros((4, 3), np.float32)}),
        ("ML611", {"w": np.zeros((6, 4), np.float32).T}),
    ):
        with driver.virtual_cpus(2) as cpus, pytest.raises(ValueError, match=code):
            load(graph, cpus, **given)


def test_blocks_of_quantised_weights_stay_whole() -> None:
    blocks = RNG.integers(0, 255, (4, 3 * 18)).astype(np.uint8)
    weight = Weight("w", U8, blocks.shape, C0, QuantizationEncoding.Q4_0)
    weight.sharding_strategy = ShardingStrategy.columnwise(3)
    shards = weight.shard([C0, C0, C0])
    assert {s.quantization_encoding for s in shards} == {QuantizationEncoding.Q4_0}
    with Graph("g", input_types=[]) as graph:
        graph.output(*shards)
    for n, x in enumerate(load(graph, [CPU()], w=blocks)()):
        np.testing.assert_array_equal(taken(x), blocks[:, 18 * n : 18 * n + 18])
    weight.sharding_strategy = ShardingStrategy.rowwise(2)
    assert [list(s.shape) for s in weight.shard([C0, C1])] == [[2, 54], [2, 54]]


# ---------------------------------------------------------------- errors
def weight(strategy: Any = None, shape: Any = (6, 8), encoding: Any = None) -> Weight:
    dtype = F32 if encoding is None else U8
    return Weight("w", dtype, shape, C0, encoding, sharding_strategy=strategy)


S, Q = ShardingStrategy, QuantizationEncoding
REFUSED: list[tuple[str, type[Exception], Callable[[], Any]]] = [
    ("ML382", ValueError, lambda: weight().shard([C0])),
    ("ML381", ValueError, lambda: weight("rows")),
    ("ML795", ValueError, lambda: S.rowwise(0)),
    ("ML795", ValueError, lambda: S.columnwise(True)),
    ("ML795", ValueError, lambda: S.replicate("2")),  # type: ignore[arg-type]
    ("ML795", ValueError, lambda: S.axiswise("0", 2)),  # type: ignore[arg-type]
    ("ML795", ValueError, lambda: S.head_aware_columnwise(2, 0, 4)),
    ("ML795", ValueError, lambda: S.stacked_qkv(2, 4, -1)),
    ("ML796", ValueError, lambda: weight(S.rowwise(2)).shard([C0])),
    ("ML796", ValueError, lambda: weight(S.rowwise(2)).shard([])),
    ("ML397", TypeError, lambda: weight(S.rowwise(2)).shard(["cpu", "tpu"])),  # type: ignore[list-item]
    ("ML797", ValueError, lambda: weight(S.rowwise(1)).shard([C0])[0].shard([C0])),
    ("ML797", ValueError, lambda: setattr(weight(S.rowwise(1)).shard([C0])[0], "dtype", U8)),
    ("ML797", ValueError, lambda: setattr(weight(S.rowwise(1)).shard([C0])[0], "shape", [1])),
    (
        "ML797",
        ValueError,
        lambda: setattr(weight(S.rowwise(1)).shard([C0])[0], "sharding_strategy", S.rowwise(1)),
    ),
    ("ML798", ValueError, lambda: weight(S.columnwise(1), (3,)).shard([C0])),
    ("ML798", ValueError, lambda: weight(S.rowwise(1), ()).shard([C0])),
    ("ML798", ValueError, lambda: weight(S.rowwise(1), ("n", 4)).shard([C0])),
    ("ML798", ValueError, lambda: weight(S.rowwise(2), (1, 4)).shard([C0, C1])),
    ("ML798", ValueError, lambda: weight(S.stacked_qkv(1, 2, 2)).shard([C0])),
    ("ML798", ValueError, lambda: weight(S.head_aware_columnwise(1, 2, 2)).shard([C0])),
    ("ML798", ValueError, lambda: weight(S.head_aware_columnwise(3, 2, 4)).shard([C0, C1, C2])),
    ("ML798", ValueError, lambda: weight(S.columnwise(2), (2, 54), Q.Q4_0).shard([C0, C1])),
    ("ML798", ValueError, lambda: weight(S.columnwise(2), (2, 64), Q.GPTQ).shard([C0, C1])),
]


@pytest.mark.parametrize(("code", "kind", "make"), REFUSED)
def test_what_is_refused(code: str, kind: type[Exception], make: Callable[[], Any]) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert isinstance(caught.value, MaxlabError)
    assert caught.value.code == code


def test_strategies_say_what_they_are() -> None:
    made = [S.rowwise(1), S.columnwise(1), S.replicate(1), S.head_aware_columnwise(1, 1, 1)]
    made.append(S.stacked_qkv(1, 1, 1))
    words = ("is_rowwise", "is_colwise", "is_replicate", "is_head_aware_colwise", "is_stacked_qkv")
    told = [[getattr(strategy, word) for word in words] for strategy in made]
    assert told == np.eye(5, dtype=bool).tolist()
