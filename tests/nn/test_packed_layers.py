"""Layers with weights in blocks of few bits: against ggml's decoding, and packed in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import ModuleError
from maxlab.graph import DeviceRef, Graph, Shape, TensorType, Weight, ops
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.graph.weights import WeightData
from maxlab.graph.weights.declared import DeclaredWeights
from maxlab.opset.quantized import random_blocks
from tests.cpu_and_gpu import session
from tests.ids import stable
from tests.nn.running import Array, ran, random

F32, U8 = DType.float32, DType.uint8
CPU = DeviceRef.CPU()
GGUF = [e for e in QuantizationEncoding if e.is_gguf]
Q4_0, Q6_K = QuantizationEncoding.Q4_0, QuantizationEncoding.Q6_K


def blocks_of(encoding: QuantizationEncoding, rows: int, columns: int) -> Array:
    """Random rows of blocks, as a GGUF file has them."""
    count = columns // encoding.elements_per_block
    return random_blocks(np.random.default_rng(3), str(encoding.value), (rows, count))


def data(blocks: Array, encoding: QuantizationEncoding | None, name: str = "weight") -> WeightData:
    return WeightData(blocks, name, DType.from_numpy(blocks.dtype), Shape(blocks.shape), encoding)


def numbers(encoding: QuantizationEncoding, blocks: Array) -> Array:
    """The numbers of ``blocks``, as ggml's own package reads them."""
    gguf = pytest.importorskip("gguf", reason="gguf not installed; scripts/test --oracle")
    kind = gguf.GGMLQuantizationType[str(encoding.value)]
    return np.asarray(gguf.quants.dequantize(blocks, kind))


def near(made: Array, want: Array, *terms: Array) -> bool:
    """Whether ``made`` is a product that rounds its left side to 8 bits, or rounds nothing."""
    return bool((np.abs(made - want) <= 0.012 * (np.abs(terms[0]) @ np.abs(terms[1]).T)).all())


@pytest.mark.parametrize("encoding", GGUF, ids=stable)
def test_linear(encoding: QuantizationEncoding, place: DeviceRef) -> None:
    layer = nn.Linear(512, 20, U8, place, has_bias=True, quantization_encoding=encoding)
    blocks, bias = blocks_of(encoding, 20, 512), random(20)
    layer.load_state_dict({"weight": data(blocks, encoding), "bias": bias})
    assert layer.state_dict()["weight"] is blocks
    x = random(3, 512)
    w = numbers(encoding, blocks)
    made = ran(layer, place, x, ["n", 512])
    assert near(made, x @ w.T + bias, x, w)
    if encoding is QuantizationEncoding.Q5_K:
        assert np.allclose(made, x @ w.T + bias, atol=1e-3)


def test_bytes_alone_are_taken_and_halves_come_out_as_halves() -> None:
    half = DType.float16
    layer = nn.Linear(64, 4, half, CPU, has_bias=True, quantization_encoding=Q4_0)
    blocks = blocks_of(Q4_0, 4, 64)
    layer.load_state_dict({"weight": blocks, "bias": np.ones(4, np.float16)})
    graph = Graph("g", layer, [TensorType(half, ["n", 64])])
    assert graph.output_types == [TensorType(half, ["n", 4])]
    x = random(2, 64).astype(np.float16)
    w = numbers(Q4_0, blocks)
    made = ran(layer, CPU, x).astype(np.float32)
    assert near(made, x.astype(np.float32) @ w.T + 1, x.astype(np.float32), w)


@pytest.mark.parametrize("encoding", GGUF, ids=stable)
def test_weights_stay_packed_in_memory(encoding: QuantizationEncoding) -> None:
    layer = nn.Linear(4096, 1024, U8, CPU, quantization_encoding=encoding)
    blocks = blocks_of(encoding, 1024, 4096)
    layer.load_state_dict({"weight": data(blocks, encoding)})
    graph = Graph("g", layer, [TensorType(F32, [1, 4096])])
    model = session(CPU).load(graph, weights_registry=layer.state_dict())
    sizes = {s.kind: 0 for s in model.plan.slots}
    for slot in model.plan.slots:
        sizes[slot.kind] += slot.nbytes.evaluate({})
    assert sizes["weight"] == blocks.nbytes
    assert sum(sizes.values()) < 2.5 * blocks.nbytes  # as floats: 4.9 to 7.1 times as much


def test_a_file_may_have_other_encodings_and_numbers() -> None:
    blocks, floats = blocks_of(Q6_K, 6, 256), random(6, 256)
    x = random(2, 256)
    for value, encoding, w in (
        (blocks, Q6_K, numbers(Q6_K, blocks)),
        (floats.astype(np.float16), None, floats.astype(np.float16).astype(np.float32)),
    ):
        layer = nn.Linear(256, 6, U8, CPU, quantization_encoding=Q4_0)
        given = {"weight": data(value, encoding)}
        with pytest.raises(ModuleError, match="ML709"):
            layer.load_state_dict(given)
        assert layer.weight.quantization_encoding is Q4_0
        layer.load_state_dict(given, override_quantization_encoding=True)
        assert layer.weight.quantization_encoding is encoding
        assert near(ran(layer, CPU, x, ["n", 256]), x @ w.T, x, w)


def test_other_encodings_of_other_sizes_are_refused_and_change_nothing() -> None:
    layer = nn.Linear(512, 6, U8, CPU, has_bias=True, quantization_encoding=Q4_0)
    short, fitting = blocks_of(Q6_K, 6, 256), blocks_of(Q6_K, 6, 512)
    bias = random(6)
    for weight, other in ((data(short, Q6_K), bias), (data(fitting, Q6_K), bias[:5])):
        with pytest.raises(ModuleError, match="ML707"):
            layer.load_state_dict(
                {"weight": weight, "bias": other}, override_quantization_encoding=True
            )
        assert layer.weight.quantization_encoding is Q4_0
        assert list(layer.weight.shape) == [6, 512 // 32 * 18]
    plain = nn.Linear(256, 6, F32, CPU)
    for override in (False, True):
        with pytest.raises(ModuleError, match="ML709"):
            plain.load_state_dict(
                {"weight": data(short, Q6_K)}, override_quantization_encoding=override
            )


@pytest.mark.parametrize("encoding", GGUF, ids=stable)
def test_embedding(encoding: QuantizationEncoding, place: DeviceRef) -> None:
    table = nn.Embedding(9, 512, F32, place, encoding)
    blocks = blocks_of(encoding, 9, 512)
    table.load_state_dict({"weight": data(blocks, encoding)})
    ids = np.array([[0, 8, -1], [3, 3, 1]], np.int64)
    made = ran(table, place, ids, ["b", 3])
    np.testing.assert_array_equal(made, numbers(encoding, blocks)[ids])


def test_only_the_vectors_that_are_looked_up_become_numbers() -> None:
    table = nn.Embedding(1000, 256, F32, CPU, Q6_K)
    graph = Graph("g", table, [TensorType(DType.int64, [2])])
    found = [op.result.tensor_type.shape for op in graph.function.ops if op.name == "mo.dequantize"]
    assert [list(shape) for shape in found] == [[2, 256]]


def test_an_mlp_and_its_names() -> None:
    mlp = nn.MLP(U8, Q4_0, 64, 96, [CPU])
    state = {
        name: blocks_of(Q4_0, int(weight.shape[0]), int(weight.shape[1]) // 18 * 32)
        for name, weight in mlp.raw_state_dict().items()
    }
    mlp.load_state_dict({name: data(value, Q4_0) for name, value in state.items()})
    x = random(2, 64)
    w = {name.split("_")[0]: numbers(Q4_0, value) for name, value in state.items()}
    gate = x @ w["gate"].T
    inner = gate / (1 + np.exp(-gate)) * (x @ w["up"].T)
    made = ran(mlp, CPU, x)
    assert np.abs(made - inner @ w["down"].T).max() < 0.03 * np.abs(made).max()


def test_older_layers_take_packed_weights(place: DeviceRef) -> None:
    blocks, bias, floats = blocks_of(Q4_0, 8, 64), random(8), random(8, 64)

    class Old(nn.Module):
        def __init__(self) -> None:
            weight = Weight("w", U8, blocks.shape, CPU, Q4_0)
            self.w, self.b = weight, Weight("b", F32, [8], CPU)
            self.f = Weight("f", F32, [8, 64], CPU)

        def __call__(self, x: Any) -> Any:
            packed = nn.LinearV1.create(U8, Q4_0, 64, 8, self.w, self.b)
            assert isinstance(packed, nn.QLinearV1)
            plain = nn.LinearV1.create(F32, None, 64, 8, self.f)
            return packed(x) + plain(ops.transfer_to(x, CPU)).to(x.device)

    model = Old()
    model.load_state_dict({"w": data(blocks, Q4_0), "b": bias, "f": floats})
    x, w = random(3, 64), numbers(Q4_0, blocks)
    want = x @ w.T + bias + x @ floats.T
    assert near(ran(model, place, x), want, x, w)


def test_older_layers_find_the_data_of_weights() -> None:
    weights = DeclaredWeights()
    made = nn.LinearV1.create(U8, Q4_0, 64, 8, weights.layer.weight, weights.layer.bias)
    found: Any = made.weight
    assert (found.name, list(found.shape), found.quantization_encoding) == (
        "layer.weight",
        [8, 36],
        Q4_0,
    )
    assert made.bias.dtype is F32  # type: ignore[union-attr]


loose: Any = nn
"""The layers, for calls whose types are wrong."""


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: nn.Linear(65, 4, U8, CPU, quantization_encoding=Q4_0), "ML782"),
        (lambda: nn.Linear(64, 4, U8, CPU, quantization_encoding=Q6_K), "ML782"),
        (lambda: nn.Embedding(4, 64, U8, CPU, Q6_K), "ML782"),
        (lambda: loose.Linear(64, 4, U8, CPU, quantization_encoding="Q4_0"), "ML717"),
        (
            lambda: nn.Linear(64, 4, U8, quantization_encoding=QuantizationEncoding.GPTQ),
            "GPTQLinear",
        ),
        (lambda: nn.Linear(64, 4, U8, clip_weight=1.0, quantization_encoding=Q4_0), "ML717"),
        (lambda: loose.Linear(64, 4, F32, float8_config=object()), "ML717"),
        (lambda: nn.QLinearV1(np.zeros((4, 18), np.uint8)), "ML717"),
        (
            lambda: nn.LinearV1.create(
                U8, Q4_0, 64, 4, Weight("w", U8, [4, 36]), None, QuantizationConfig("gptq", 4, 32)
            ),
            "ML717",
        ),
        (lambda: nn.MLP(U8, Q4_0, 64, 65, [CPU]), "ML782"),
        (
            lambda: nn.MLP(
                F32, None, 4, 4, [CPU], dist_gemm_config=nn.linear.DistributedGemmConfig(True)
            ),
            "ML717",
        ),
    ],
    ids=stable,
)
def test_layers_that_cannot_be_packed_are_refused(make: Any, code: str) -> None:
    with pytest.raises(ModuleError, match=code):
        make()


def test_plain_configs_of_products_are_taken() -> None:
    config = nn.linear.DistributedGemmConfig.generate()
    assert len(nn.MLP(F32, None, 4, 4, [CPU], dist_gemm_config=config).state_dict()) == 3
