"""Layers in parts on several devices: equal to one device, and no device has the whole weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from maxlab import nn
from maxlab.driver import Device
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, GraphError, ModuleError, ShapeError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType, Weight, ops
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.opset.quantized import random_blocks
from tests.devices.places import load, places, put, refs_of, signal_types, signals, taken
from tests.ids import stable
from tests.nn.running import Array, filled, ran, random

F32 = DType.float32
CPU = DeviceRef.CPU()
PLACES = ("2 cpus", "4 cpus", "2 gpus")


def largest(graph: Graph) -> int:
    """The elements of the largest weight of ``graph``, that is of what one device gets."""
    sizes = [
        math.prod(int(dim) for dim in op.result.tensor_type.shape)
        for op in graph.function.ops
        if op.name == "mo.constant.external"
    ]
    return max(sizes)


def each(
    graph: Graph, devices: Sequence[Device], state: dict[str, Any], x: Array, more: bool
) -> list[Array]:
    """The outputs of ``graph``, which takes ``x`` on each device, and signals if ``more``."""
    given = [put(x, device) for device in devices] + (signals(devices) if more else [])
    return [taken(y) for y in load(graph, devices, **state)(*given)]


@pytest.mark.parametrize("told", [True, False], ids=["signals", "copies"])
@pytest.mark.parametrize("which", PLACES)
def test_column_parallel_linear_is_a_linear(which: str, told: bool) -> None:
    with places(which) as devices:
        refs = refs_of(devices)
        layer = nn.ColumnParallelLinear(6, 10, F32, refs, has_bias=True)
        state, x = filled(layer), random(3, 6)
        assert list(state) == ["weight", "bias"]
        types: list[Any] = [TensorType(F32, ["n", 6], ref) for ref in refs]
        with Graph("g", input_types=types + (signal_types(refs) if told else [])) as graph:
            values: Any = graph.inputs
            buffers = values[len(refs) :] if told else None
            graph.output(*layer([v.tensor for v in values[: len(refs)]], buffers))
        made = each(graph, devices, state, x, told)
        assert len(made) == len(refs)
        assert largest(graph) <= -(-10 // len(refs)) * 6
        for y in made:
            assert np.allclose(y, x @ state["weight"].T + state["bias"], atol=1e-5)


@pytest.mark.parametrize("told", [True, False], ids=["signals", "copies"])
@pytest.mark.parametrize("which", PLACES)
def test_vocab_parallel_embedding_is_an_embedding(which: str, told: bool) -> None:
    with places(which) as devices:
        refs = refs_of(devices)
        table = nn.VocabParallelEmbedding(9, 4, F32, refs, name="table")
        state = filled(table)
        ids = np.array([[0, 8, -1], [5, 4, -9]], np.int64)
        types: list[Any] = [TensorType(DType.int64, ["b", 3], ref) for ref in refs]
        with Graph("g", input_types=types + (signal_types(refs) if told else [])) as graph:
            values: Any = graph.inputs
            buffers = values[len(refs) :] if told else None
            graph.output(*table([v.tensor for v in values[: len(refs)]], buffers))
        assert largest(graph) <= -(-9 // len(refs)) * 4
        for y in each(graph, devices, state, ids, told):
            np.testing.assert_array_equal(y, state["table"][ids])


@pytest.mark.parametrize("bad", [9, -10])
def test_an_index_that_no_device_has_is_an_error(bad: int) -> None:
    with places("2 cpus") as devices:
        refs = refs_of(devices)
        table = nn.VocabParallelEmbedding(9, 4, F32, refs)
        state = filled(table)
        with Graph("g", input_types=[TensorType(DType.int64, ["n"], refs[0])]) as graph:
            graph.output(*table(graph.inputs[0].tensor))
        model = load(graph, devices, **state)
        assert np.array_equal(taken(model(np.array([8]))[1]), state["weight"][[8]])
        with pytest.raises(Exception, match=r"out of range|index"):
            model(np.array([bad]))


def test_a_tied_weight_is_of_its_owner() -> None:
    refs = [DeviceRef.CPU(0), DeviceRef.CPU(1)]

    class Model(nn.Module):
        def __init__(self) -> None:
            self.embed = nn.VocabParallelEmbedding(8, 4, F32, refs)
            self.head = nn.ColumnParallelLinear(4, 8, F32, refs, tied_weight=self.embed.weight)

    assert list(Model().raw_state_dict()) == ["embed.weight"]
    with pytest.raises(ModuleError, match="ML707"):
        nn.ColumnParallelLinear(4, 8, F32, refs, tied_weight=Weight("w", F32, [4, 8]))
    loose: Any = nn
    with pytest.raises(ArgumentTypeError, match="ML712"):
        loose.ColumnParallelLinear(4, 8, F32, refs, tied_weight=np.zeros((8, 4)))


def added(parts: Sequence[Any]) -> Any:
    made = parts[0]
    for part in parts[1:]:
        made = made + ops.transfer_to(part, made.device)
    return made


def on_own(shards: Any, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of the shards, each for its input, which is brought to it."""
    pairs = zip(shards, inputs, strict=True)
    return [shard(ops.transfer_to(x, shard.device)) for shard, x in pairs]


def joined(parts: Sequence[Any], axis: int) -> Any:
    return ops.concat([ops.transfer_to(part, parts[0].device) for part in parts], axis)


def in_parts(layer: Any, devices: Sequence[Device], x: Array, how: Any) -> tuple[Array, Graph]:
    """What ``how`` makes of the outputs of the shards of ``layer`` for their inputs."""
    refs = refs_of(devices)
    with Graph("g", input_types=[TensorType(F32, x.shape, refs[0])]) as graph:
        graph.output(how(layer.shard(refs), graph.inputs[0].tensor))
    model = load(graph, devices, **layer.state_dict())
    return taken(model(put(x, devices[0]))[0]), graph


@pytest.mark.parametrize("which", PLACES)
def test_shards_of_linear(which: str) -> None:
    with places(which) as devices:
        count = len(devices)
        layer = nn.Linear(8, 7, F32, CPU, has_bias=True)
        filled(layer)
        x = random(3, 8)
        want = ran(layer, CPU, x)

        def rows(shards: Any, x: Any) -> Any:
            return joined(on_own(shards, [x] * count), -1)

        def columns(shards: Any, x: Any) -> Any:
            assert [s.bias is not None for s in shards] == [True] + [False] * (count - 1)
            size = 8 // count
            cut = [x[:, n * size : (n + 1) * size] for n in range(count)]
            return added(
                [s(ops.transfer_to(c, s.device)) for s, c in zip(shards, cut, strict=True)]
            )

        for make, how in (
            (ShardingStrategy.rowwise, rows),
            (ShardingStrategy.columnwise, columns),
        ):
            layer.sharding_strategy = make(count)
            made, graph = in_parts(layer, devices, x, how)
            assert np.allclose(made, want, atol=1e-5)
            assert largest(graph) <= max(-(-7 // count) * 8, 7 * 8 // count)
        layer.sharding_strategy = ShardingStrategy.replicate(count)
        last = layer.shard(refs_of(devices))[-1]
        assert list(last.weight.shape) == [7, 8]
        assert last.device == refs_of(devices)[-1]
        assert list(layer.state_dict()) == ["weight", "bias"]
        assert not last.raw_state_dict()


@pytest.mark.parametrize("which", PLACES)
def test_shards_of_mlp_add_up(which: str) -> None:
    with places(which) as devices:
        layer = nn.MLP(F32, None, 4, 9, [CPU], has_bias=True, activation_function="gelu")
        filled(layer)
        layer.sharding_strategy = ShardingStrategy.rowwise(len(devices))
        x = random(3, 4)

        def how(shards: Any, x: Any) -> Any:
            places = [s.gate_proj.device for s in shards]
            return added([s(ops.transfer_to(x, p)) for s, p in zip(shards, places, strict=True)])

        made, graph = in_parts(layer, devices, x, how)
        assert np.allclose(made, ran(layer, CPU, x), atol=1e-5)
        assert largest(graph) <= -(-9 // len(devices)) * 4


@pytest.mark.parametrize("permute", [False, True])
def test_shards_of_conv2d_are_channels(permute: bool) -> None:
    with places("4 cpus") as devices:
        layer = nn.Conv2d(3, 2, 6, F32, padding=1, has_bias=True, permute=permute)
        filled(layer)
        axis = 0 if permute else 3
        layer.sharding_strategy = ShardingStrategy.axiswise(axis, 4)
        x = random(1, 2, 5, 2) if permute else random(1, 5, 2, 2)

        def how(shards: Any, x: Any) -> Any:
            return joined(on_own(shards, [x] * 4), 1 if permute else 3)

        made, graph = in_parts(layer, devices, x, how)
        assert np.allclose(made, ran(layer, CPU, x), atol=1e-5)
        assert largest(graph) == 2 * 3 * 3 * 2


def test_shards_are_named_by_the_whole_layer() -> None:
    refs = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
    mlp = nn.MLP(F32, None, 4, 6, refs)
    mlp.sharding_strategy = ShardingStrategy.rowwise(2)
    first, second = mlp.shard(refs)
    graph = Graph(
        "g",
        lambda x: first(x) + ops.transfer_to(second(ops.transfer_to(x, refs[1])), refs[0]),
        [TensorType(F32, ["n", 4], refs[0])],
    )
    found = [op.attrs["of"] for op in graph.function if op.name == "mo.constant.external"]
    assert sorted(found) == sorted(2 * list(mlp.state_dict()))


def test_norms_are_replicated() -> None:
    refs = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
    for layer in (nn.LayerNorm(4, [CPU], F32), nn.RMSNorm(4, F32, weight_offset=1.0)):
        layer.sharding_strategy = ShardingStrategy.replicate(2)
        shards = layer.shard(refs)
        assert [s.weight.device for s in shards] == refs
        assert [s.eps for s in shards] == [layer.eps] * 2
        with pytest.raises(ModuleError, match="ML719"):
            layer.sharding_strategy = ShardingStrategy.rowwise(2)


def test_packed_shards_are_of_whole_blocks() -> None:
    encoding = QuantizationEncoding.Q4_0
    blocks = random_blocks(np.random.default_rng(1), "Q4_0", (6, 4))
    layer = nn.Linear(128, 6, DType.uint8, CPU, quantization_encoding=encoding)
    layer.load_state_dict({"weight": blocks})
    x = random(2, 128)
    want = ran(layer, CPU, x)
    with places("2 cpus") as devices:
        layer.sharding_strategy = ShardingStrategy.columnwise(2)

        def how(shards: Any, x: Any) -> Any:
            cut = [x[:, :64], x[:, 64:]]
            return added(
                [s(ops.transfer_to(c, s.device)) for s, c in zip(shards, cut, strict=True)]
            )

        made, graph = in_parts(layer, devices, x, how)
        assert np.allclose(made, want, atol=1e-4)
        assert largest(graph) == 6 * 36
    with pytest.raises(ShapeError, match="ML798"):
        layer.sharding_strategy = ShardingStrategy.columnwise(3)


def test_layers_are_refused_that_cannot_be_cut() -> None:
    two = [CPU, DeviceRef.CPU(1)]
    layers: list[Any] = [
        nn.Linear(4, 4, F32, CPU),
        nn.MLP(F32, None, 4, 4, [CPU]),
        nn.LayerNorm(4, [CPU], F32),
        nn.RMSNorm(4, F32),
        nn.Conv2d(3, 4, 4, F32),
    ]
    for layer in layers:
        assert isinstance(layer, nn.Shardable)
        assert layer.sharding_strategy is None
        with pytest.raises(GraphError, match="ML381"):
            layer.sharding_strategy = "rows"
        with pytest.raises(ModuleError, match="ML719"):
            layer.shard(two)
        layer.sharding_strategy = ShardingStrategy.replicate(2)
        assert len(layer.shard(two)) == 2
        with pytest.raises(GraphError, match="ML796"):
            layer.shard([CPU])


BAD: list[tuple[Any, ShardingStrategy, type[Exception]]] = [
    (nn.MLP(F32, None, 4, 4, [CPU]), ShardingStrategy.columnwise(2), ModuleError),
    (nn.Conv2d(3, 4, 4, F32), ShardingStrategy.rowwise(2), ModuleError),
    (nn.Conv2d(3, 4, 4, F32, num_groups=2), ShardingStrategy.axiswise(3, 2), ModuleError),
    (nn.Linear(4, 4, F32, CPU), ShardingStrategy.rowwise(5), ShapeError),
]


@pytest.mark.parametrize(("layer", "strategy", "error"), BAD, ids=stable)
def test_strategies_are_refused_when_they_are_set(
    layer: Any, strategy: ShardingStrategy, error: type[Exception]
) -> None:
    with pytest.raises(error):
        layer.sharding_strategy = strategy
    assert layer.sharding_strategy is None


def test_arguments_that_do_not_fit_are_refused() -> None:
    refs = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
    with pytest.raises(ArgumentError, match="ML721"):
        nn.ColumnParallelLinear(4, 4, F32, [])
    with pytest.raises(ShapeError, match="ML798"):
        nn.ColumnParallelLinear(4, 1, F32, refs)
    with pytest.raises(ShapeError, match="ML798"):
        nn.VocabParallelEmbedding(1, 4, F32, refs)
    layer = nn.ColumnParallelLinear(4, 4, F32, refs)
    one = TensorType(F32, [2, 4], refs[0])
    with pytest.raises(ArgumentError, match="ML437"):
        Graph("g", lambda x: layer([x]), [one])
