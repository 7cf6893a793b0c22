"""Weight files: names, mapping, dtypes, several files, damaged files; weights in graphs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from maxlab.dtype import DType
from maxlab.errors import MaxlabError, MissingWeightError, WeightError
from maxlab.graph import DeviceRef, Graph, Shape, TensorType, Weight, ops
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.weights import (
    SafetensorWeights,
    WeightData,
    Weights,
    WeightsFormat,
    load_weights,
    weights_format,
)
from tests.graph.interpreter import run

F32, BF16 = DType.float32, DType.bfloat16
CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


TENSORS: dict[str, np.ndarray[Any, Any]] = {
    "embed.weight": numbers(7, 4),
    "layers.0.attention.wq": numbers(4, 4),
    "layers.1.attention.wq": numbers(4, 4) + 1,
    "layers.1.bias": numbers(4).astype(ml_dtypes.bfloat16),
    "layers.10.attention.wq": numbers(4, 4) + 10,
    "half": numbers(3).astype(np.float16),
    "ids": np.arange(5, dtype=np.int64),
    "bytes": np.arange(3, dtype=np.uint8),
    "mask": np.array([True, False]),
    "scale": np.array(2.5, np.float32),
    "nothing": np.zeros((0, 3), np.float32),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    save_file(TENSORS, file, metadata={"made": "here"})
    return file


@pytest.fixture
def weights(path: Path) -> SafetensorWeights:
    return SafetensorWeights([path])


def test_names(weights: SafetensorWeights) -> None:
    assert isinstance(weights, Weights)
    wq = weights.layers[1].attention.wq
    assert wq.name == "layers.1.attention.wq"
    assert weights["layers"]["1"]["attention.wq"].name == wq.name
    assert wq.exists()
    assert not weights.layers[1].exists()
    assert not weights.layers[1].attention.exists()
    assert not weights.layers[2].attention.wq.exists()
    np.testing.assert_array_equal(wq.data().data, TENSORS["layers.1.attention.wq"])


def test_items_are_relative_and_know_1_from_10(weights: SafetensorWeights) -> None:
    assert {name for name, _ in weights.items()} == set(TENSORS)
    found = dict(weights.layers[1].items())
    assert set(found) == {"attention.wq", "bias"}
    assert found["bias"].name == "layers.1.bias"
    assert found["bias"].exists()
    assert list(weights.layers[7].items()) == []


def test_every_dtype_comes_back(weights: SafetensorWeights) -> None:
    for name, expected in TENSORS.items():
        data = weights[name].data()
        assert isinstance(data, WeightData)
        assert data.name == name
        assert data.dtype is DType.from_numpy(expected.dtype)
        assert data.shape == list(expected.shape)
        assert isinstance(data.data, np.ndarray)
        assert data.data.dtype == expected.dtype
        assert data.data.tobytes() == expected.tobytes()
        assert data.data.flags.aligned


def test_data_is_mapped_and_read_only(weights: SafetensorWeights) -> None:
    data: Any = weights.embed.weight.data().data
    assert not data.flags.writeable
    assert not data.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 1
    again: Any = weights.embed.weight.data().data
    assert np.shares_memory(data, again)


def test_opening_reads_no_tensor(path: Path) -> None:
    weights = SafetensorWeights([path])
    assert not weights._read
    weights.half.data()
    assert list(weights._read) == ["half"]


def test_missing(weights: SafetensorWeights) -> None:
    for kind in (KeyError, AttributeError, ValueError, MissingWeightError):
        with pytest.raises(kind):
            weights.layers[1].attention.wk.data()
    with pytest.raises(MissingWeightError, match=r"did you mean 'layers.1.attention.wq'"):
        weights.layers[1].attention.qw.data()
    with pytest.raises(MissingWeightError, match="is a prefix; go on to a weight such as"):
        weights.layers[1].allocate()
    with pytest.raises(MissingWeightError) as caught:
        weights.nope.data()
    assert caught.value.at is not None
    assert caught.value.at.file.endswith("test_weights.py")


def test_allocate(weights: SafetensorWeights) -> None:
    wq = weights.layers[0].attention.wq
    made = wq.allocate()
    assert (made.name, made.type) == ("layers.0.attention.wq", TensorType(F32, [4, 4]))
    assert wq.allocate(F32, [4, 4], device=GPU).device == GPU
    for wrong in ({"dtype": DType.float16}, {"shape": [4, 5]}, {"shape": ["n", 4]}):
        with pytest.raises(ValueError, match="expected"):
            wq.allocate(**wrong)
    with pytest.raises(ValueError, match="quantised"):
        wq.allocate(quantization_encoding=QuantizationEncoding.Q4_0)
    weights.embed.weight.allocate()
    registry = weights.layers[1].allocated_weights
    assert set(registry) == {"layers.0.attention.wq", "embed.weight"}
    assert registry is weights.allocated_weights


def test_a_failed_allocation_is_not_recorded(weights: SafetensorWeights) -> None:
    with pytest.raises(WeightError):
        weights.embed.weight.allocate(DType.int8)
    assert weights.allocated_weights == {}


def test_allocate_as_bytes(weights: SafetensorWeights) -> None:
    made = weights.embed.weight.allocate_as_bytes()
    assert made.type == TensorType(DType.uint8, [7, 16])
    assert made.original_dtype_and_shape == (F32, Shape([7, 4]))
    raw: Any = weights.allocated_weights["embed.weight"]
    assert raw.tobytes() == TENSORS["embed.weight"].tobytes()
    assert weights.scale.allocate_as_bytes().shape == [4]
    assert weights.layers[1].bias.allocate_as_bytes(BF16).shape == [8]
    assert weights.nothing.allocate_as_bytes().shape == [0, 12]
    with pytest.raises(ValueError, match="dtype"):
        weights.half.allocate_as_bytes(F32)


def test_several_files(tmp_path: Path) -> None:
    save_file({"a.w": numbers(2)}, tmp_path / "1.safetensors")
    save_file({"b.w": numbers(3)}, tmp_path / "2.safetensors")
    paths = [tmp_path / "1.safetensors", tmp_path / "2.safetensors"]
    weights: Any = load_weights(paths)
    assert {n for n, _ in weights.items()} == {"a.w", "b.w"}
    assert weights.b.w.data().shape == [3]
    only = SafetensorWeights(paths, tensors={"b.w"})
    assert [n for n, _ in only.items()] == ["b.w"]
    known = SafetensorWeights(paths, tensors_to_file_idx={"b.w": 1}, prefix="b")
    assert not known._files, "with an index given no file is opened"
    assert known.w.data().shape == [3]
    save_file({"a.w": numbers(2)}, tmp_path / "3.safetensors")
    with pytest.raises(WeightError, match="stands in"):
        SafetensorWeights([*paths, tmp_path / "3.safetensors"])


def test_facts_are_known_before_data_is_read(weights: SafetensorWeights) -> None:
    assert weights.embed.weight.dtype is F32
    assert weights.embed.weight.shape == [7, 4]
    assert weights.embed.weight.quantization_encoding is None
    assert not weights._read
    for ask in ("dtype", "shape", "quantization_encoding"):
        with pytest.raises(MissingWeightError, match="no weight named 'nope'") as caught:
            getattr(weights.nope, ask)
        assert caught.value.at is not None
    with pytest.raises(WeightError, match="float32, not quantised") as wrong:
        weights.embed.weight.allocate(quantization_encoding=QuantizationEncoding.Q4_0)
    assert wrong.value.code == "ML746"


def test_a_missing_name_is_reported_at_once_in_a_large_checkpoint() -> None:
    names = {
        f"model.layers.{i}.experts.{j}.gate_proj.weight": 0 for i in range(64) for j in range(999)
    }
    weights = SafetensorWeights([], tensors_to_file_idx={**names, "x" * 1_000_000: 0})
    begun = time.perf_counter()
    with pytest.raises(MissingWeightError, match=r"did you mean .*'model.layers.63.experts.7.gate"):
        weights.model.layers[63].experts[7].gate_pro.weight.data()
    with pytest.raises(MissingWeightError):
        weights["y" * 1_000_000].data()
    assert time.perf_counter() - begun < 5


# ---------------------------------------------------------------- formats
def test_formats() -> None:
    assert (
        weights_format([Path("a.safetensors"), Path("b.safetensors")]) is WeightsFormat.safetensors
    )
    assert weights_format([Path("a.gguf")]) is WeightsFormat.gguf
    for suffix in ("bin", "pt", "pth", "PT"):
        assert weights_format([Path(f"a.{suffix}")]) is WeightsFormat.pytorch
    for paths in ([], ["a.txt"], ["a"], ["a.gguf", "b.safetensors"]):
        with pytest.raises(ValueError, match="weight"):
            weights_format([Path(p) for p in paths])
    for single in ("a.gguf", Path("a.gguf")):
        with pytest.raises(
            ValueError, match="expected a list of weight files, got the path 'a.gguf'"
        ):
            load_weights(single)  # type: ignore[arg-type]
    for name in ("model.safetensors", "model.SAFETENSORS"):
        assert weights_format([Path(f"{name}.index.json")]) is WeightsFormat.safetensors
    assert weights_format([Path("pytorch_model.bin.index.json")]) is WeightsFormat.pytorch
    for path in ("a.gguf", "a.bin", "a.safetensors.index.json"):
        with pytest.raises(WeightError, match="No such file"):
            load_weights([Path(path)])


# ---------------------------------------------------------------- data
def test_astype() -> None:
    array = np.array([1.00390625, -2.5, 3e38, 1e-40], np.float32)
    data = WeightData.from_numpy(array, "w")
    half = data.astype(BF16)
    assert half.dtype is BF16
    np.testing.assert_array_equal(half.data, array.astype(ml_dtypes.bfloat16))
    back = half.astype(F32)
    assert back.data.dtype == np.float32  # type: ignore[attr-defined]
    assert data.astype(F32) is data
    assert np.isinf(data.astype(DType.float16).data[2])  # type: ignore[index]
    assert data.astype(DType.int32).data.tolist()[:2] == [1, -2]  # type: ignore[attr-defined]
    assert repr(half) == "WeightData('w', dtype=DType.bfloat16, shape=[Dim(4)])"
    np.testing.assert_array_equal(np.from_dlpack(data), array)


@pytest.mark.parametrize("dtype", [d for d in DType if d is not DType.bool], ids=lambda d: d.name)
def test_astype_converts_between_all_dtypes(dtype: DType) -> None:
    numbers = np.array([1, 2, 4], dtype.ml_numpy)  # in every dtype
    data = WeightData.from_numpy(numbers, "w")
    for other in DType:
        made = data.astype(other)
        assert (made.dtype, made.shape, made.name) == (other, Shape([3]), "w")
        assert made.data.dtype == other.ml_numpy  # type: ignore[attr-defined]
        back: Any = made.astype(F32).data
        assert back.tolist() == ([1, 1, 1] if other is DType.bool else [1, 2, 4])


@pytest.mark.oracle
def test_astype_rounds_as_pytorch() -> None:
    torch = pytest.importorskip(
        "torch", reason="torch not installed; scripts/test --oracle installs it"
    )
    array = np.random.default_rng(0).standard_normal(1000).astype(np.float32) * 10
    array = np.concatenate([array, np.array([0, -0.0, 1e-9, np.nan, 448, 464], np.float32)])
    data = WeightData.from_numpy(array, "w")
    for dtype in (BF16, DType.float16, DType.float8_e4m3fn, DType.float8_e5m2):
        expected = torch.from_numpy(array).to(dtype.to_torch()).float().numpy()
        np.testing.assert_array_equal(data.astype(dtype).astype(F32).data, expected)


def test_weight_data_needs_a_dtype() -> None:
    with pytest.raises(TypeError, match="must be a DType"):
        WeightData.from_numpy(numbers(2), "w").astype("flaot16")  # type: ignore[arg-type]


# ---------------------------------------------------------------- weights in graphs
def test_a_weight_is_added_when_it_is_used() -> None:
    weight = Weight("w", F32, [4, 2])
    assert (weight.rank, weight.type) == (2, TensorType(F32, [4, 2]))
    with Graph("g", input_types=[TensorType(F32, ["n", 4])]) as graph:
        assert not graph.weight_table.weights
        graph.output(graph.inputs[0].tensor @ weight, weight[0], weight.T * weight[0, 0])
        assert list(graph.weight_table.weights) == ["w"]
        names = [op.name for op in graph.function.ops]
        assert names.count("mo.constant.external") == 1
        assert graph.add_weight(weight)._ir() is graph.add_weight(weight)._ir()
    w, x = numbers(4, 2), numbers(3, 4)
    found = run(graph, x, weights={"w": w})
    np.testing.assert_allclose(found[0], x @ w, rtol=1e-5)
    np.testing.assert_allclose(found[2], w.T * w[0, 0], rtol=1e-6)
    with Graph("h") as other:
        other.output(weight)  # a weight may be used in many graphs
    np.testing.assert_array_equal(run(other, weights={"w": w})[0], w)


def test_a_weight_of_another_device_starts_on_the_host() -> None:
    for on_host in (True, False):
        weight = Weight("w", F32, [4], GPU)
        with Graph("g") as graph:
            value = graph.add_weight(weight, force_initial_weight_on_host=on_host)
            assert value.device == GPU
            ops_now = [op.name for op in graph.function.ops]
            assert ops_now == ["mo.constant.external", *["mo.transfer"] * on_host]
            assert graph.function.ops[0].attrs["type"].device == (CPU if on_host else GPU)


def test_add_weight_outside_of_the_context() -> None:
    graph = Graph("g")
    value = graph.add_weight(Weight("w", F32, [4]))
    assert value.shape == [4]
    with pytest.raises(ValueError, match="another weight named 'w'"):
        graph.add_weight(Weight("w", F32, [4]))
    assert len(graph.function.ops) == 1


def test_facts_of_weights() -> None:
    weight = Weight("w", F32, ["n", 4], align=64)
    assert weight.original_dtype_and_shape == (F32, Shape(["n", 4]))
    weight.original_dtype_and_shape = (BF16, Shape([2]))
    assert weight.original_dtype_and_shape == (BF16, Shape([2]))
    assert weight.sharding_strategy is None
    assert weight.shard_idx is None
    assert weight.align == 64
    assert (
        repr(weight) == "Weight('w', dtype=DType.float32, shape=[Dim('n'), Dim(4)], device=cpu:0)"
    )
    with Graph("g") as graph:
        op = graph.add_weight(weight)._ir().op
    assert op is not None
    assert op.attrs["align"] == 64
    with pytest.raises(ValueError, match="no sharding strategy"):
        weight.shard([CPU])
    with pytest.raises(LookupError):
        weight + 1


def test_declared_weights() -> None:
    graph = Graph("g")
    weights = graph.weights()
    assert isinstance(weights, Weights)
    accessor = weights.transformer.layers[0].attention.weight
    assert not accessor.exists()
    made = accessor.allocate(F32, (768, 768))
    assert made.name == "transformer.layers.0.attention.weight"
    assert accessor.exists()
    assert accessor.allocate() is made
    assert [n for n, _ in weights.transformer.layers[0].items()] == ["attention.weight"]
    assert weights.allocated_weights == {}
    blocks = weights.blocks.allocate(DType.uint8, [4, 18], QuantizationEncoding.Q4_0)
    assert blocks.quantization_encoding is QuantizationEncoding.Q4_0
    assert weights.blocks.allocate(quantization_encoding=QuantizationEncoding.Q4_0) is blocks
    for bad in (
        lambda: weights.blocks.allocate(quantization_encoding=QuantizationEncoding.Q4_K),
        lambda: accessor.allocate(BF16),
        weights.a.allocate,
        lambda: weights.a.allocate(F32),
        accessor.data,
    ):
        with pytest.raises(WeightError):
            bad()


# ---------------------------------------------------------------- subgraphs
def layer_of(weight: Weight) -> Callable[[Any], Any]:
    return lambda x: ops.relu(x @ weight)


def test_calls_with_placeholder_weights() -> None:
    row = TensorType(F32, ["n", 4])
    with Graph("main", input_types=[row]) as graph:
        body = graph.add_subgraph(
            "layer", layer_of(Weight("w", F32, [4, 4], _placeholder=True)), [row]
        )
        x: Any = graph.inputs[0]
        for number in range(3):
            (x,) = ops.call(body, x, prefix=f"layers.{number}.")
        (x,) = ops.call(body, x, prefix="layers.0.")
        graph.output(x)
    assert list(graph.weight_table.weights) == ["layers.0.w", "layers.1.w", "layers.2.w"]
    w = {name: numbers(4, 4) + i for i, name in enumerate(graph.weight_table.weights)}
    a = numbers(2, 4)
    expected = a
    for name in [*w, "layers.0.w"]:
        expected = np.maximum(expected @ w[name], 0)
    np.testing.assert_allclose(run(graph, a, weights=w)[0], expected, rtol=1e-4)
    scopes = {op.scope for op in graph.function.ops if op.name == "mo.matmul"}
    assert all("layer" in scope for scope in scopes)


def test_calls_share_weights_that_are_no_placeholders() -> None:
    row = TensorType(F32, ["n", 4])
    weight = Weight("w", F32, [4, 4])
    with Graph("main", input_types=[row]) as graph:
        body = graph.add_subgraph("layer", layer_of(weight), [row])
        (x,) = ops.call(body, graph.inputs[0])
        (x,) = ops.call(body, x)
        graph.output(x.tensor @ weight)
        other = graph.add_subgraph("other", layer_of(Weight("w", F32, [4, 4])), [row])
        before = list(graph.function.ops)
        with pytest.raises(ValueError, match="another weight named 'w'"):
            ops.call(other, x)
        assert graph.function.ops == before
    assert [op.name for op in graph.function.ops].count("mo.constant.external") == 1


def test_calls_on_another_device() -> None:
    row = TensorType(F32, [4], GPU)
    with Graph("main", input_types=[row]) as graph:
        placed = Weight("w", F32, [4], GPU, _placeholder=True)
        body = graph.add_subgraph("layer", lambda x: x * placed, [row])
        (x,) = ops.call(body, graph.inputs[0], prefix="a.")
        (x,) = ops.call(body, x, prefix="a.")
        graph.output(x)
    names = [op.name for op in graph.function.ops]
    assert names.count("mo.constant.external") == 1
    assert graph.weight_table.weights["a.w"].name == "a.w"


def test_a_call_keeps_the_line_of_the_body() -> None:
    def body(x: Any) -> Any:
        return ops.exp(x)

    row = TensorType(F32, ["n"])
    with Graph("main", input_types=[row]) as graph:
        sub = graph.add_subgraph("sub", body, [row])
        (y,) = ops.call(sub, graph.inputs[0])
        graph.output(y)
    op = y.to_mlir().op
    assert op is not None
    assert op.loc is not None
    assert op.loc.line == body.__code__.co_firstlineno + 1


def test_a_graph_cannot_call_itself() -> None:
    row = TensorType(F32, ["n"])
    with Graph("main", input_types=[row]) as graph:
        sub = graph.add_subgraph("sub", None, [row])
        with sub:
            sub.output(sub.inputs[0])
            with pytest.raises(MaxlabError, match="not a subgraph"):
                ops.call(sub, sub.inputs[0])
