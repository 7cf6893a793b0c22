"""Weights cut for several devices: which part each has, and that models load no more than it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.errors import GraphError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType, Weight, ops
from maxlab.graph.quantization import QuantizationEncoding

Array = np.ndarray[Any, Any]
F32, U8 = DType.float32, DType.uint8
CPU = DeviceRef.CPU()


def weight(shape: Sequence[Any], strategy: ShardingStrategy | None, dtype: DType = F32) -> Weight:
    return Weight("w", dtype, shape, CPU, sharding_strategy=strategy)


def shards(whole: Weight, devices: Sequence[DeviceRef] | None = None) -> list[Array]:
    """What a model sees of each shard of ``whole``, whose data counts up."""
    assert whole.sharding_strategy is not None
    places = devices or [CPU] * whole.sharding_strategy.num_devices
    with Graph("shards") as graph:
        graph.output(*[ops.transfer_to(s, CPU) for s in whole.shard(places)])
    found = load(graph, {"w": data_of(whole)}).execute()
    return [out.to_numpy() for out in found]


def data_of(whole: Weight) -> Array:
    sizes = whole.shape.static_dims
    return np.arange(np.prod(sizes)).reshape(sizes).astype(whole.dtype.ml_numpy)


def load(graph: Graph, registry: dict[str, Any]) -> engine.Model:
    devices: list[Any] = [driver.CPU()]
    devices += [driver.Accelerator(i) for i in range(driver.accelerator_count())]
    return engine.InferenceSession(devices).load(graph, weights_registry=registry)


S = ShardingStrategy
CASES: list[tuple[str, ShardingStrategy, tuple[int, ...], list[Any]]] = [
    ("rows", S.rowwise(2), (4, 3), [np.s_[:2], np.s_[2:]]),
    ("uneven rows", S.rowwise(3), (5, 2), [np.s_[:2], np.s_[2:4], np.s_[4:]]),
    ("columns", S.columnwise(2), (3, 4), [np.s_[:, :2], np.s_[:, 2:]]),
    ("vector", S.rowwise(3), (3,), [np.s_[:1], np.s_[1:2], np.s_[2:]]),
    ("last axis", S.axiswise(-1, 2), (2, 3, 3), [np.s_[..., :2], np.s_[..., 2:]]),
    ("heads", S.heads(2, head_dim=2), (2, 6), [np.s_[:, :4], np.s_[:, 4:]]),
    ("rows of heads", S.heads(2, 4, axis=0), (12, 2), [np.s_[:8], np.s_[8:]]),
    (
        "qkv",
        S.stacked_qkv(2, head_dim=2),
        (18, 2),
        [np.s_[[0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15]], np.s_[[4, 5, 10, 11, 16, 17]]],
    ),
    ("everything", S.replicate(2), (2, 3), [np.s_[:], np.s_[:]]),
    ("a number", S.replicate(2), (), [np.s_[()], np.s_[()]]),
    ("one device", S.stacked_qkv(1, 1), (6, 2), [np.s_[:]]),
]


@pytest.mark.parametrize(
    ("strategy", "shape", "parts"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
@pytest.mark.parametrize("dtype", [F32, DType.float64, U8])
def test_the_part_of_each_device(
    strategy: ShardingStrategy, shape: tuple[int, ...], parts: list[Any], dtype: DType
) -> None:
    whole = weight(shape, strategy, dtype)
    for got, part in zip(shards(whole), parts, strict=True):
        np.testing.assert_array_equal(got, data_of(whole)[part])
        assert got.dtype == dtype.to_numpy()


def test_shards_are_weights() -> None:
    whole = weight([5, 2], S.rowwise(2))
    first, second = whole.shard([DeviceRef.GPU(0), DeviceRef.GPU(1)])
    assert isinstance(first, Weight)
    assert (first.shard_idx, second.shard_idx, whole.shard_idx) == (0, 1, None)
    assert first.shape == [3, 2]
    assert second.shape == [2, 2]
    assert whole.shape == [5, 2]
    assert [str(s.device) for s in (first, second, whole)] == ["gpu:0", "gpu:1", "cpu:0"]
    assert first.dtype is F32
    assert first.sharding_strategy is None
    assert whole.sharding_strategy == S.rowwise(2)
    with pytest.raises(GraphError, match=r"is a shard[\s\S]*ML382"):
        first.shard([CPU])
    with pytest.raises(GraphError, match=r"is a shard[\s\S]*ML382"):
        first.sharding_strategy = S.rowwise(2)


def test_halves_of_a_bfloat16_weight() -> None:
    whole = weight([2, 4], S.columnwise(2), DType.bfloat16)
    data = data_of(whole)
    assert data.dtype == ml_dtypes.bfloat16
    with Graph("cast") as graph:
        graph.output(*[ops.cast(s, F32) for s in whole.shard([CPU, CPU])])
    given = driver.Tensor.from_numpy(data.view(np.uint16)).view(DType.bfloat16)
    left, right = (out.to_numpy() for out in load(graph, {"w": given}).execute())
    np.testing.assert_array_equal(np.hstack([left, right]), data.astype(np.float32))


def test_a_product_on_two_devices_is_that_of_one() -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((4, 6), (5, 6)))
    with driver.simulated(2):
        gpus = [DeviceRef.GPU(0), DeviceRef.GPU(1)]
        rows, columns = (weight([5, 6], s) for s in (S.rowwise(2), S.columnwise(2)))
        for whole in (rows, columns):
            with Graph("parallel", input_types=[TensorType(F32, [4, 6])]) as graph:
                given = graph.inputs[0].tensor
                parts = whole.shard(gpus)
                made = []
                for number, part in enumerate(parts):
                    mine = given if whole is rows else given[:, 3 * number : 3 * number + 3]
                    made.append(ops.transfer_to(mine.to(part.device) @ part.T, CPU))
                graph.output(ops.concat(made, 1) if whole is rows else made[0] + made[1])
            (found,) = load(graph, {"w": w}).execute(x)
            np.testing.assert_allclose(found.to_numpy(), x @ w.T, rtol=1e-5, atol=1e-5)


def test_no_device_holds_the_whole() -> None:
    with driver.simulated(2):
        gpus = [DeviceRef.GPU(0), DeviceRef.GPU(1)]
        before = [driver.Accelerator(i).stats["used_memory"] for i in range(2)]
        with Graph("hold") as graph:
            graph.output(*[s + 1 for s in weight([1000, 100], S.columnwise(2)).shard(gpus)])
        model = load(graph, {"w": np.ones((1000, 100), np.float32)})
        held = [driver.Accelerator(i).stats["used_memory"] for i in range(2)]
        for now, then in zip(held, before, strict=True):
            assert 200_000 <= now - then < 300_000
        assert [out.shape for out in model.execute()] == [(1000, 50)] * 2


def test_rows_are_not_copied() -> None:
    data = np.zeros((4, 2), np.float32)
    with Graph("rows") as graph:
        graph.output(*[s + 0 for s in weight([4, 2], S.rowwise(2)).shard([CPU, CPU])])
    model = load(graph, {"w": data})
    data[3] = 7
    assert [out.to_numpy().max() for out in model.execute()] == [0, 7]


def test_shards_and_the_whole_in_one_graph() -> None:
    whole = weight([4, 2], S.rowwise(2))
    with Graph("both") as graph:
        twice = [whole.shard([CPU, CPU]) for _ in range(2)]  # other objects, the same parts
        graph.output(whole + 0, twice[0][1] + twice[1][1])
    kinds = [op.attrs["name"] for op in graph._function.ops if op.name == "mo.constant.external"]
    assert sorted(kinds) == ["w", "w[1]"]
    data = data_of(whole)
    one, two = (out.to_numpy() for out in load(graph, {"w": data}).execute())
    np.testing.assert_array_equal(one, data)
    np.testing.assert_array_equal(two, 2 * data[2:])


def test_parts_that_differ_need_names_that_do() -> None:
    with Graph("both") as graph:
        graph.output(weight([4, 4], S.rowwise(2)).shard([CPU, CPU])[0] + 0)
        with pytest.raises(GraphError, match="ML321"):
            _ = weight([4, 4], S.columnwise(2)).shard([CPU, CPU])[0] + 0


def test_shards_of_a_graph_that_was_saved(tmp_path: Path) -> None:
    whole = weight([6, 2], S.stacked_qkv(2, 1))
    with Graph("saved") as graph:
        graph.output(*[s + 0 for s in whole.shard([CPU, CPU])])
    graph.save(tmp_path / "saved.mlir")
    again = Graph(path=tmp_path / "saved.mlir")
    made = [
        [o.to_numpy() for o in load(g, {"w": data_of(whole)}).execute()] for g in (graph, again)
    ]
    np.testing.assert_array_equal(made[0], made[1])
    np.testing.assert_array_equal(made[0][1], data_of(whole)[1::2])


def test_shards_in_subgraphs_have_the_prefix_of_the_call() -> None:
    whole = Weight("w", F32, [4], CPU, sharding_strategy=S.rowwise(2), _placeholder=True)
    part = whole.shard([CPU, CPU])[1]
    types = [TensorType(F32, [2])]
    with Graph("main", input_types=types) as graph:
        layer = graph.add_subgraph("layer", lambda x: x + part, types)
        x = graph.inputs[0]
        for prefix in ("a.", "b.", "a."):
            (x,) = ops.call(layer, x, prefix=prefix)
        graph.output(x)
    registry = {"a.w": np.array([0, 0, 1, 2], np.float32), "b.w": np.arange(4, dtype=np.float32)}
    (found,) = load(graph, registry).execute(np.zeros(2, np.float32))
    assert found.to_numpy().tolist() == [1 + 2 + 1, 2 + 3 + 2]


Q4_0, GPTQ = QuantizationEncoding.Q4_0, QuantizationEncoding.GPTQ


def quantised(shape: Sequence[Any], strategy: ShardingStrategy, encoding: Any = Q4_0) -> Weight:
    made = Weight("w", U8, shape, CPU, quantization_encoding=encoding)
    made.sharding_strategy = strategy
    return made


def test_blocks_stay_whole() -> None:
    for strategy, shape in (
        (S.columnwise(2), [4, 54]),  # of three blocks, two and one
        (S.rowwise(2), [2, 108]),
        (S.heads(3, head_dim=64), [4, 36]),  # a head is two blocks
    ):
        parts = quantised([4, 108], strategy).shard([CPU] * strategy.num_devices)
        assert parts[0].shape == shape
        assert parts[0].quantization_encoding is Q4_0
    left, right = quantised([4, 54], S.columnwise(2)).shard([CPU, CPU])
    assert left.shape == [4, 36]
    assert right.shape == [4, 18]


WRONG: list[tuple[str, Weight, int, str]] = [
    ("two devices for three", weight([6], S.rowwise(3)), 2, "is cut for 3 devices, got 2"),
    ("fewer rows", weight([2, 2], S.rowwise(3)), 3, "2 elements at axis 0"),
    ("broken heads", weight([2, 7], S.heads(2, 2)), 2, "7 elements at axis 1"),
    ("broken blocks", weight([7, 2], S.stacked_qkv(2, 1)), 2, "in 3 blocks"),
    ("a symbolic axis", weight(["n", 2], S.rowwise(2)), 2, "has the size n at axis 0"),
    ("GPTQ", quantised([4, 8], S.columnwise(2), GPTQ), 2, "GPTQ, whose last axis"),
]


@pytest.mark.parametrize(
    ("whole", "count", "words"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG]
)
def test_weights_that_cannot_be_cut(whole: Weight, count: int, words: str) -> None:
    with pytest.raises(ValueError, match=rf"{words}[\s\S]*ML785"):
        whole.shard([CPU] * count)


def test_an_axis_that_is_not_there() -> None:
    with pytest.raises(IndexError, match="ML303"):
        weight([4], S.columnwise(2)).shard([CPU, CPU])


@pytest.mark.parametrize("number", [0, -1])
def test_strategies_for_no_devices(number: int) -> None:
    with pytest.raises(ValueError, match="ML785"):
        S.rowwise(number)
    with pytest.raises(TypeError, match="ML302"):
        S.rowwise(1.5)  # type: ignore[arg-type]


def test_what_is_no_strategy() -> None:
    with pytest.raises(GraphError, match=r"no ShardingStrategy[\s\S]*ML381"):
        Weight("w", F32, [4], CPU, sharding_strategy=lambda w, i: w)


def test_the_registry_has_the_whole() -> None:
    with Graph("missing") as graph:
        graph.output(weight([4, 2], S.rowwise(2)).shard([CPU, CPU])[0] + 0)
    with pytest.raises(KeyError, match="the weight 'w' is not in"):
        load(graph, {})
    with pytest.raises(
        ValueError, match=r"'w' has the shape \[2, 2\], the graph declares \[4, 2\]"
    ):
        load(graph, {"w": np.zeros((2, 2), np.float32)})
