"""GGUF files: metadata, dims, dtypes, blocks, alignment, several files; beside the package gguf."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import MissingWeightError, WeightError
from maxlab.graph import DeviceRef, Graph, Shape, TensorType, ops
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.weights import GGUFWeights, Weights, load_weights
from maxlab.graph.weights.gguf_file import ENCODINGS, KINDS, GGUFFile
from tests.graph.weight_files import array, gguf, gguf_of, info, pair, text

F32 = DType.float32
NOISE = np.random.default_rng(0)
TENSORS: dict[str, np.ndarray[Any, Any]] = {
    "token_embd.weight": NOISE.standard_normal((5, 4)).astype(np.float32),
    "blk.1.attn_q.weight": NOISE.standard_normal((2, 3, 4)).astype(np.float16),
    "blk.10.attn_q.weight": NOISE.standard_normal(3).astype(ml_dtypes.bfloat16),
    "i8": np.arange(-3, 3, dtype=np.int8),
    "i16": np.arange(5, dtype=np.int16),
    "i32": np.arange(5, dtype=np.int32),
    "i64": np.arange(5, dtype=np.int64),
    "f64": NOISE.standard_normal((1, 7)),
    "scalar": np.array(2.5, np.float32),
    "nothing": np.zeros((0, 3), np.float32),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf_of(TENSORS))
    return file


def quantised(tmp_path: Path, name: str, raw: np.ndarray[Any, Any]) -> Path:
    """A file with the rows ``raw`` of blocks."""
    number, kind = next((n, k) for n, k in KINDS.items() if k.name == name)
    rows, nbytes = raw.shape
    path = tmp_path / f"{name}.gguf"
    dims = (nbytes // kind.nbytes * kind.numbers, rows)
    path.write_bytes(gguf(infos=[info("w", dims, number, 0)], data=raw.tobytes()))
    return path


def test_every_dtype_comes_back(path: Path) -> None:
    weights = load_weights([path])
    assert isinstance(weights, GGUFWeights)
    assert isinstance(weights, Weights)
    assert [name for name, _ in weights.items()] == list(TENSORS)
    for name, expected in TENSORS.items():
        weight = weights[name]
        assert (weight.dtype, weight.shape) == (
            DType.from_numpy(expected.dtype),
            list(expected.shape),
        )
        assert weight.quantization_encoding is None
        data = weight.data()
        assert (data.name, data.dtype, data.shape) == (name, weight.dtype, weight.shape)
        assert data.data.tobytes() == expected.tobytes()  # type: ignore[attr-defined]


def test_names_and_mapping(path: Path) -> None:
    weights = GGUFWeights(path)
    assert [name for name, _ in weights.blk[1].items()] == ["attn_q.weight"]
    assert weights.blk[1].attn_q.weight.exists()
    assert not weights.blk[1].exists()
    assert not weights._read
    data: Any = weights.token_embd.weight.data().data
    assert not data.flags.writeable
    assert not data.flags.owndata
    made = weights.blk[1].attn_q.weight.allocate(DType.float16, [2, 3, 4], device=DeviceRef.GPU())
    assert made.device == DeviceRef.GPU()
    assert list(weights.allocated_weights) == ["blk.1.attn_q.weight"]
    with pytest.raises(MissingWeightError, match="did you mean"):
        weights.blk[10].attn_k.weight.data()
    with pytest.raises(WeightError, match="expected"):
        weights.i8.allocate(F32)


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_blocks_come_with_their_encoding(name: str, tmp_path: Path) -> None:
    encoding = QuantizationEncoding[name]
    raw = NOISE.integers(0, 256, (3, 2 * encoding.block_size), np.uint8)
    weights = GGUFWeights(quantised(tmp_path, name, raw))
    data = weights.w.data()
    assert (data.dtype, data.shape) == (DType.uint8, list(raw.shape))
    assert data.quantization_encoding is weights.w.quantization_encoding is encoding
    np.testing.assert_array_equal(data.data, raw)
    logical = Shape([3, 2 * encoding.elements_per_block])
    for shape in (None, raw.shape, logical):
        made = weights.w.allocate(DType.uint8, shape, encoding)
        assert made.quantization_encoding is encoding
        assert made.shape == list(raw.shape)
        assert made.original_dtype_and_shape == (F32, logical)
    for wrong in (
        {"dtype": F32},
        {"shape": [3, 7]},
        {"quantization_encoding": QuantizationEncoding.GPTQ},
    ):
        with pytest.raises(WeightError, match="expected"):
            weights.w.allocate(**wrong)
    assert weights.w.allocate_as_bytes().shape == list(raw.shape)
    half = data.astype(DType.bfloat16)
    assert (half.dtype, half.shape, half.quantization_encoding) == (DType.bfloat16, logical, None)
    assert data.astype(DType.uint8) is data


def test_a_quantised_product(tmp_path: Path) -> None:
    """From the file to the number: blocks are multiplied as they lie in the file."""
    raw = NOISE.integers(0, 256, (8, 2 * 18), np.uint8)
    raw[:, [0, 18]] = 0
    raw[:, [1, 19]] = 0x3C  # a scale of 1
    weights = GGUFWeights(quantised(tmp_path, "Q4_0", raw))
    weight = weights.w.allocate()
    assert weight.quantization_encoding is not None
    with Graph("g", input_types=[TensorType(F32, ["n", 64])]) as graph:
        graph.output(
            ops.qmatmul(weight.quantization_encoding, None, graph.inputs[0].tensor, weight)
        )
    model = engine.InferenceSession().load(graph, weights_registry=weights.allocated_weights)
    x = NOISE.standard_normal((3, 64)).astype(np.float32)
    numbers: Any = weights.w.data().astype(F32).data
    (found,) = model(x)
    np.testing.assert_allclose(found.to_numpy(), x @ numbers.T, atol=0.01 * np.abs(x).max() * 64)


def test_types_without_an_encoding(tmp_path: Path) -> None:
    path = quantised(tmp_path, "Q8_0", np.zeros((2, 34), np.uint8))
    for weights in (GGUFWeights(path), GGUFWeights(path, GGUFFile(path).tensors)):
        assert weights.w.exists()
        for ask in (weights.w.data, weights.w.allocate, lambda w=weights: w.w.dtype):
            with pytest.raises(WeightError, match="type Q8_0") as caught:
                ask()
            assert caught.value.code == "ML634"
    new = tmp_path / "new.gguf"
    new.write_bytes(gguf(infos=[info("w", [4], 99, 0), info("v", [2], 0, 0)], data=bytes(32)))
    found = GGUFWeights(new)
    assert found.v.data().shape == [2]
    with pytest.raises(WeightError, match="type 99"):
        found.w.data()


def test_metadata(tmp_path: Path) -> None:
    numbers = {
        0: (np.uint8, 200), 1: (np.int8, -3), 2: (np.uint16, 60000), 3: (np.int16, -300),
        4: (np.uint32, 2**32 - 1), 5: (np.int32, -(2**31)), 6: (np.float32, 0.5),
        10: (np.uint64, 2**64 - 1), 11: (np.int64, -(2**63)), 12: (np.float64, 0.1),
    }  # fmt: skip
    pairs = [pair(f"n{k}", k, np.array(v, t).tobytes()) for k, (t, v) in numbers.items()]
    pairs += [
        pair("yes", 7, b"\1"),
        pair("no", 7, b"\0"),
        pair("text", 8, text("größe")),
        pair("wrong", 8, text(b"\xff")),
        pair("texts", 9, array(8, 3, text("a") + text("") + text("bc"))),
        pair("floats", 9, array(6, 2, struct.pack("<2f", 1.5, 2.5))),
        pair("bools", 9, array(7, 2, b"\0\1")),
        pair("none", 9, array(4, 0, b"")),
        pair("nested", 9, array(9, 2, array(5, 1, struct.pack("<i", 7)) + array(8, 1, text("x")))),
    ]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(pairs))
    found = GGUFFile(path).metadata
    for kind, (_, value) in numbers.items():
        assert found[f"n{kind}"] == value
    assert (found["yes"], found["no"], found["text"]) == (True, False, "größe")
    assert found["texts"] == ["a", "", "bc"]
    assert found["floats"].tolist() == [1.5, 2.5]
    assert found["bools"].tolist() == [False, True]
    assert found["none"].shape == (0,)
    assert [list(x) for x in found["nested"]] == [[7], ["x"]]
    assert len(found) == len(list(found)) == len(pairs)
    assert "nope" not in found
    with pytest.raises(WeightError, match="not UTF-8"):
        found["wrong"]


def test_versions_alignment_and_odd_places(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_of(TENSORS, version=2))
    assert GGUFFile(path).version == 2
    values = np.arange(3, dtype=np.float32)
    for alignment in (1, 8, 256):
        pairs = [pair("general.alignment", 4, struct.pack("<I", alignment))]
        data = bytes(alignment) + values.tobytes()
        path.unlink()
        path.write_bytes(gguf(pairs, [info("w", [3], 0, alignment)], data, alignment=alignment))
        found: Any = GGUFWeights(path).w.data().data
        assert found.tolist() == values.tolist()
        assert found.flags.aligned
    for version in (1, 4, 0x03000000):
        path.unlink()
        path.write_bytes(gguf(version=version))
        with pytest.raises(WeightError) as caught:
            GGUFWeights(path)
        assert caught.value.code == "ML637"


def test_several_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.gguf" for n in "ab"]
    for path in paths:
        path.write_bytes(gguf_of({f"{path.stem}.w": np.ones(2, np.float32)}))
    weights = load_weights(paths)
    assert [name for name, _ in weights.items()] == ["a.w", "b.w"]
    assert weights.b.w.data().shape == [2]
    paths[1].unlink()
    paths[1].write_bytes(paths[0].read_bytes())
    with pytest.raises(WeightError, match="stands in") as caught:
        load_weights(paths)
    assert caught.value.code == "ML635"


# ---------------------------------------------------------------- beside the package gguf
def test_files_of_the_package_gguf(tmp_path: Path) -> None:
    package = pytest.importorskip("gguf", reason="gguf not installed")
    kinds = package.GGMLQuantizationType
    path = tmp_path / "model.gguf"
    writer = package.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 2)
    writer.add_string("general.name", "tiny")
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "ä", ""])
    writer.add_array("tokenizer.ggml.scores", [0.0, -1.5])
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    plain = {n: t for n, t in TENSORS.items() if t.ndim and t.size and t.dtype.kind != "V"}
    for name, tensor in plain.items():
        writer.add_tensor(name, tensor)
    raw = {}
    for name in ENCODINGS:
        nbytes = 2 * QuantizationEncoding[name].block_size
        raw[name] = NOISE.integers(0, 256, (3, nbytes), np.uint8)
        writer.add_tensor(name, raw[name], raw_dtype=kinds[name])
    bf16 = TENSORS["blk.10.attn_q.weight"]
    writer.add_tensor("bf16", bf16.view(np.uint8), raw_dtype=kinds.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    metadata = GGUFFile(path).metadata
    assert metadata["general.architecture"] == "llama"
    assert metadata["llama.block_count"] == 2
    assert metadata["tokenizer.ggml.tokens"] == ["<s>", "ä", ""]
    assert metadata["tokenizer.ggml.scores"].tolist() == [0.0, -1.5]
    assert metadata["tokenizer.ggml.add_bos_token"] is True
    reader = package.GGUFReader(path)
    for weights in (load_weights([path]), GGUFWeights(reader)):
        assert {name for name, _ in weights.items()} == {*plain, *raw, "bf16"}
        for name, tensor in plain.items():
            found: Any = weights[name].data().data
            assert (found.shape, found.tobytes()) == (tensor.shape, tensor.tobytes())
        np.testing.assert_array_equal(weights.bf16.data().data, bf16)
        for name, blocks in raw.items():
            data = weights[name].data()
            assert data.quantization_encoding is QuantizationEncoding[name]
            np.testing.assert_array_equal(data.data, blocks)
            with np.errstate(all="ignore"):
                expected = package.quants.dequantize(blocks, kinds[name])
            numbers: Any = data.astype(F32).data
            np.testing.assert_allclose(numbers, expected, rtol=1e-5)
    some = {t.name: t for t in reader.tensors if t.name == "bf16"}
    assert [name for name, _ in GGUFWeights(reader, some).items()] == ["bf16"]
    reader.byte_order = "S"
    with pytest.raises(WeightError, match="byte order"):
        GGUFWeights(reader)


def test_the_sizes_of_blocks_are_those_of_the_package_gguf() -> None:
    package = pytest.importorskip("gguf", reason="gguf not installed")
    for number, kind in KINDS.items():
        theirs = package.GGMLQuantizationType(number)
        assert (theirs.name, *package.GGML_QUANT_SIZES[theirs]) == kind[:3]
