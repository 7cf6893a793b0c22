"""The examples of ``graph.weights``, on small files of each format."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, Shape
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.weights import (
    GGUFWeights,
    PytorchWeights,
    SafetensorWeights,
    WeightsFormat,
    load_weights,
    weights_format,
)
from tests.graph.weight_files import gguf, gguf_of, info, torch_of
from tests.reference.examples import Array, example

Printed = pytest.CaptureFixture[str]
Q4_K = 12
"""The number that GGUF files give the encoding."""
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the examples find their files in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def safetensors(*names: str, value: Array = ROWS) -> Any:
    """The weights of a file that has ``value`` under each name."""
    save_file(dict.fromkeys(names, value), "model.safetensors")
    return SafetensorWeights([Path("model.safetensors")])


# ---------------------------------------------------------------- GGUF
@example("graph.weights", 1)
def test_gguf_weights(capsys: Printed) -> None:
    names = ["attention.wq", "feed_forward.w1"]
    infos = [
        info(f"model.layers.0.{name}", [256, 4], Q4_K, number * 4 * 144)
        for number, name in enumerate(names)
    ]
    Path("model-q4_k.gguf").write_bytes(gguf(infos=infos, data=bytes(2 * 4 * 144)))

    gguf_path = Path("model-q4_k.gguf")
    weights = GGUFWeights(gguf_path)
    assert weights.model.layers[0].attention.wq.exists()
    if weights.model.layers[0].attention.wq.exists():
        wq_weight = weights.model.layers[0].attention.wq.allocate(
            dtype=DType.uint8,
            device=DeviceRef.CPU(),  # the page does not import it
        )
    weight_data = weights.model.layers[0].attention.wq.data()
    print(f"Quantization: {weight_data.quantization_encoding}")
    print(f"Shape: {weight_data.shape}")
    ffn_weight = weights.model.layers[0].feed_forward.w1.allocate(
        quantization_encoding=QuantizationEncoding.Q4_K, device=DeviceRef.GPU(0)
    )
    for name, weight in weights.model.layers[0].items():
        if weight.exists():
            print(f"Found weight: {name}")
    assert capsys.readouterr().out.splitlines() == [
        "Quantization: QuantizationEncoding.Q4_K",
        "Shape: [4, 144]",
        "Found weight: attention.wq",
        "Found weight: feed_forward.w1",
    ]
    assert wq_weight.dtype is DType.uint8
    assert wq_weight.shape == [4, 144]
    assert wq_weight.original_dtype_and_shape == (DType.float32, Shape([4, 256]))
    assert str(ffn_weight.device) == "gpu:0"
    assert sorted(weights.allocated_weights) == [f"model.layers.0.{name}" for name in names]
    with pytest.raises(ValueError, match="ML746"):
        weights.model.layers[0].feed_forward.w1.allocate(
            quantization_encoding=QuantizationEncoding.Q6_K
        )


@example("graph.weights", 2)
def test_gguf_data(capsys: Printed) -> None:
    Path("model.gguf").write_bytes(gguf_of({"model.embeddings.weight": ROWS}))
    weights = GGUFWeights(Path("model.gguf"))  # the page has it from elsewhere, here and below
    weight_data = weights.model.embeddings.weight.data()
    print(f"Shape: {weight_data.shape}")
    print(f"Dtype: {weight_data.dtype}")
    fp16_data = weight_data.astype(DType.float16)
    assert capsys.readouterr().out == "Shape: [2, 3]\nDtype: DType.float32\n"
    assert fp16_data.dtype is DType.float16
    assert np.asarray(fp16_data.data).tolist() == ROWS.tolist()
    with pytest.raises(KeyError, match=r"model\.embeddings\.bias"):
        weights.model.embeddings.bias.data()


@example("graph.weights", 3)
@pytest.mark.parametrize("there", [True, False])
def test_gguf_exists(there: bool, capsys: Printed) -> None:
    name = "model.classifier.weight" if there else "model.embeddings.weight"
    Path("model.gguf").write_bytes(gguf_of({name: ROWS}))
    weights = GGUFWeights(Path("model.gguf"))
    if weights.model.classifier.weight.exists():
        classifier = weights.model.classifier.weight.allocate()  # the page writes `...`
        assert classifier.shape == [2, 3]
    else:
        print("Classifier weight not found")
    assert capsys.readouterr().out == ("" if there else "Classifier weight not found\n")


# ---------------------------------------------------------------- PyTorch
@example("graph.weights", 4)
def test_pytorch_weights(capsys: Printed) -> None:
    tensors: dict[str, Array] = {
        "model.decoder.layers.0.self_attn.q_proj.weight": ROWS,
        # the page's embedding has 50257 rows
        "embeddings.weight": np.ones((5, 768), np.float16),
    }
    Path("pytorch_model.bin").write_bytes(torch_of(tensors))
    checkpoint_path = Path("pytorch_model.bin")
    weights = PytorchWeights(checkpoint_path)
    assert weights.model.decoder.layers[0].self_attn.q_proj.weight.exists()
    if weights.model.decoder.layers[0].self_attn.q_proj.weight.exists():
        q_weight = weights.model.decoder.layers[0].self_attn.q_proj.weight.allocate(
            dtype=DType.float32, device=DeviceRef.CPU()
        )
    if weights.embeddings.weight.exists():
        print(f"Embedding shape: {weights.embeddings.weight.shape}")
        print(f"Embedding dtype: {weights.embeddings.weight.dtype}")
    embedding_weight = weights.embeddings.weight.allocate(dtype=DType.float16, shape=(5, 768))
    assert capsys.readouterr().out == "Embedding shape: [5, 768]\nEmbedding dtype: DType.float16\n"
    assert q_weight.dtype is DType.float32
    assert q_weight.shape == [2, 3]
    assert embedding_weight.name == "embeddings.weight"
    with pytest.raises(ValueError, match="ML631"):
        weights.embeddings.weight.allocate(dtype=DType.float16, shape=(50257, 768))


# ---------------------------------------------------------------- safetensors
@example("graph.weights", 5)
def test_safetensor_weights() -> None:
    names = ["model.embeddings.weight", "transformer.layers.0.attention.weight"]
    save_file({names[0]: ROWS, names[1]: ROWS.astype(np.float16)}, "model.safetensors")
    weight_files = [Path("model.safetensors")]
    weights = SafetensorWeights(weight_files)
    assert weights.model.embeddings.weight.exists()
    if weights.model.embeddings.weight.exists():
        embedding_weight = weights.model.embeddings.weight.allocate(
            dtype=DType.float32, device=DeviceRef.CPU()
        )
    attn_weight = weights.transformer.layers[0].attention.weight.allocate(dtype=DType.float16)
    assert embedding_weight.name == names[0]
    assert embedding_weight.shape == [2, 3]
    assert (attn_weight.name, attn_weight.dtype) == (names[1], DType.float16)
    with Graph("sum") as graph:
        graph.output(embedding_weight + attn_weight)
    registry = weights.allocated_weights
    model = engine.InferenceSession().load(graph, weights_registry=registry)
    assert model.execute()[0].to_numpy().tolist() == (ROWS * 2).tolist()


@example("graph.weights", 6)
def test_safetensor_data(capsys: Printed) -> None:
    weights = safetensors("model.embeddings.weight")
    weight_data = weights.model.embeddings.weight.data()
    print(f"Shape: {weight_data.shape}")
    print(f"Dtype: {weight_data.dtype}")
    fp16_data = weight_data.astype(DType.float16)
    assert capsys.readouterr().out == "Shape: [2, 3]\nDtype: DType.float32\n"
    assert np.asarray(fp16_data.data).dtype == np.float16
    with pytest.raises(KeyError, match=r"model\.embeddings\.bias"):
        weights.model.embeddings.bias.data()


@example("graph.weights", 7)
@pytest.mark.parametrize("there", [True, False])
def test_safetensor_exists(there: bool, capsys: Printed) -> None:
    weights = safetensors("model.classifier.weight" if there else "model.classifier.weight2")
    if weights.model.classifier.weight.exists():
        classifier = weights.model.classifier.weight.allocate()  # the page writes `...`
        assert classifier.name == "model.classifier.weight"
    else:
        print("Classifier weight not found")
    assert capsys.readouterr().out == ("" if there else "Classifier weight not found\n")


# ---------------------------------------------------------------- data, the protocol
@example("graph.weights", 8)
def test_astype() -> None:
    weights = safetensors("model.layer.weight")
    weight_data = weights.model.layer.weight.data()
    fp16_data = weight_data.astype(DType.float16)
    assert (fp16_data.dtype, fp16_data.name) == (DType.float16, "model.layer.weight")
    assert np.asarray(fp16_data.data).nbytes == ROWS.nbytes // 2
    assert weight_data.dtype is DType.float32


@example("graph.weights", 9)
def test_weights_of_a_graph() -> None:
    graph = Graph("my_model")
    weights = graph.weights()
    attn_weight = weights.transformer.layers[0].attention.weight.allocate(
        dtype=DType.float32, shape=(768, 768)
    )
    assert attn_weight.name == "transformer.layers.0.attention.weight"
    assert not weights.transformer.layers[0].mlp.weight.exists()
    if not weights.transformer.layers[0].mlp.weight.exists():  # the page has it declared before
        mlp_weight = weights.transformer.layers[0].mlp.weight.allocate(
            dtype=DType.float16, shape=(768, 3072)
        )
    assert weights.transformer.layers[0].mlp.weight.exists()
    with graph:
        assert graph.add_weight(attn_weight).shape == [768, 768]
        assert graph.add_weight(mlp_weight).dtype is DType.float16


@example("graph.weights", 10)
def test_allocate() -> None:
    graph = Graph("my_model")
    weights = graph.weights()
    weight = weights.model.layers[0].weight.allocate(
        dtype=DType.float16,
        shape=(768, 768),
        device=DeviceRef.GPU(0),
    )
    with graph:
        weight_tensor = graph.add_weight(weight)
    assert weight_tensor.dtype is DType.float16
    assert weight_tensor.shape == [768, 768]
    assert str(weight_tensor.device) == "gpu:0"


@example("graph.weights", 11)
def test_data(capsys: Printed) -> None:
    safetensors("model.embeddings.weight")
    weights: Any = load_weights([Path("model.safetensors")])
    weight_data = weights.model.embeddings.weight.data()
    print(f"Shape: {weight_data.shape}")
    print(f"Dtype: {weight_data.dtype}")
    fp16_data = weight_data.astype(DType.float16)
    assert capsys.readouterr().out == "Shape: [2, 3]\nDtype: DType.float32\n"
    assert fp16_data.shape == [2, 3]
    assert fp16_data.quantization_encoding is None


@example("graph.weights", 12)
def test_exists(capsys: Printed) -> None:
    weights = Graph("my_model").weights()
    for _ in range(2):
        if weights.model.classifier.weight.exists():
            classifier = weights.model.classifier.weight.allocate()  # the page writes `...`
            assert classifier.shape == [4]
        else:
            print("Classifier weight not found")
            weights.model.classifier.weight.allocate(DType.float32, [4])
    assert capsys.readouterr().out == "Classifier weight not found\n"


@example("graph.weights", 13)
def test_items(capsys: Printed) -> None:
    names = ["transformer.layers.0.w", "transformer.layers.0.b", "transformer.layers.01.w"]
    weights = safetensors(*names)
    for name, weight in weights.transformer.layers[0].items():
        print(f"Found weight: {name}")
        assert weight.name == f"transformer.layers.0.{name}"
    assert sorted(capsys.readouterr().out.splitlines()) == ["Found weight: b", "Found weight: w"]


# ---------------------------------------------------------------- files
def sparse(path: Path, name: str, shape: tuple[int, ...]) -> None:
    """A safetensors file of zeros that takes no space on the disk."""
    nbytes = 4 * int(np.prod(shape))
    header = {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, nbytes]}}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + nbytes)


@example("graph.weights", 14)
def test_load_weights() -> None:
    sharded_paths = [
        Path("model-00001-of-00003.safetensors"),
        Path("model-00002-of-00003.safetensors"),
        Path("model-00003-of-00003.safetensors"),
    ]
    save_file({"model.layers.0.w": ROWS}, sharded_paths[0])
    save_file({"model.layers.1.w": ROWS}, sharded_paths[1])
    sparse(sharded_paths[2], "model.layers.23.mlp.gate_proj.weight", (4096, 14336))

    weights: Any = load_weights(sharded_paths)
    layer_weight = weights.model.layers[23].mlp.gate_proj.weight.allocate(
        dtype=DType.float32, shape=[4096, 14336], device=DeviceRef.GPU(0)
    )
    assert layer_weight.shape == [4096, 14336]
    assert str(layer_weight.device) == "gpu:0"
    assert weights.model.layers[1].w.exists()


@example("graph.weights", 15)
def test_weights_format(capsys: Printed) -> None:
    paths = [Path("model-00001.safetensors"), Path("model-00002.safetensors")]
    format = weights_format(paths)
    print(format)
    assert capsys.readouterr().out == "WeightsFormat.safetensors\n"
    assert format is WeightsFormat.safetensors
