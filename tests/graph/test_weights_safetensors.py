"""Safetensors files: the index of several, and damaged ones."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from maxlab.dtype import DType
from maxlab.errors import WeightError
from maxlab.graph.weights import SafetensorWeights, load_weights

F32 = DType.float32


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    save_file({"a": numbers(7, 4), "b": numbers(3).astype(np.float16)}, file)
    return file


# ---------------------------------------------------------------- an index of several files
def index_of(folder: Path, **files: str) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 8}, "weight_map": files}))
    return path


def test_an_index_names_the_files_beside_it(tmp_path: Path) -> None:
    save_file({"a": numbers(2), "more": numbers(1)}, tmp_path / "1.safetensors")
    save_file({"b": numbers(3)}, tmp_path / "2.safetensors")
    path = index_of(tmp_path, a="1.safetensors", b="2.safetensors")
    for paths in ([path], [path, tmp_path / "1.safetensors"]):
        weights: Any = load_weights(paths)
        assert {n for n, _ in weights.items()} == {"a", "b", "more"}
        np.testing.assert_array_equal(weights.b.data().data, numbers(3))


def test_an_index_that_does_not_fit_its_files(tmp_path: Path) -> None:
    save_file({"a": numbers(2)}, tmp_path / "1.safetensors")
    for files, code in (
        ({"a": "1.safetensors", "b": "1.safetensors"}, "ML749"),
        ({"a": "2.safetensors"}, "ML632"),
        ({"a": "../1.safetensors"}, "ML633"),
        ({"a": "/1.safetensors"}, "ML633"),
        ({"a": ".."}, "ML633"),
        ({"a": "1.bin"}, "ML633"),
        ({}, "ML633"),
    ):
        with pytest.raises(WeightError) as caught:
            load_weights([index_of(tmp_path, **files)])
        assert caught.value.code == code
    path = tmp_path / "model.safetensors.index.json"
    for text in ("", "{", "[1]", '{"weight_map": [1]}', '{"weight_map": {"a": 3}}', "[" * 99_999):
        path.write_text(text)
        with pytest.raises(WeightError) as caught:
            load_weights([path])
        assert caught.value.code == "ML633"
    known = SafetensorWeights([tmp_path / "1.safetensors"], tensors_to_file_idx={"b": 0, "c": 4})
    for name in "bc":
        with pytest.raises(WeightError, match="the index puts the weight"):
            known[name].data()


# ---------------------------------------------------------------- damaged files
def file_of(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "short": b"\x01\x02",
    "header beyond the file": file_of({"a": entry()}, b"\0" * 8, length=10**6),
    "huge header": file_of({}, length=2**63),
    "no JSON": file_of(b"{nonsense"),
    "not UTF-8": file_of(b"\xff\xfe\x00"),
    "a list": file_of([]),
    "deep": file_of(b"[" * 100_000),
    "an entry that is no object": file_of({"a": 3}),
    "no dtype": file_of({"a": {"shape": [2], "data_offsets": [0, 8]}}, b"\0" * 8),
    "negative size": file_of({"a": entry(shape=(-2,))}, b"\0" * 8),
    "a float size": file_of({"a": entry(shape=(2.0,))}, b"\0" * 8),
    "a bool size": file_of({"a": entry(shape=(True,), offsets=(0, 4))}, b"\0" * 4),
    "a huge size": file_of({"a": entry(shape=(2**62, 2**62))}, b"\0" * 8),
    "no elements, too many to address": file_of(
        {"a": entry(shape=(2**62, 2**62, 0), offsets=(0, 0))}
    ),
    "too many dims": file_of({"a": entry(shape=(1,) * 33)}, b"\0" * 4),
    "very many dims": file_of({"a": entry(shape=(2**62,) * 99_999)}, b"\0" * 4),
    "an unknown dtype, too large": file_of({"a": entry("X", (2**62, 2**62), (0, 0))}),
    "three offsets": file_of({"a": entry(offsets=(0, 4, 8))}, b"\0" * 8),
    "backwards": file_of({"a": entry(offsets=(8, 0))}, b"\0" * 8),
    "wrong count": file_of({"a": entry(offsets=(0, 4))}, b"\0" * 4),
    "truncated": file_of({"a": entry()}, b"\0" * 7),
    "trailing bytes": file_of({"a": entry()}, b"\0" * 9),
    "overlap": file_of({"a": entry(), "b": entry(offsets=(4, 12))}, b"\0" * 12),
    "gap": file_of({"a": entry(), "b": entry(offsets=(12, 20))}, b"\0" * 20),
    "a name twice": file_of(
        b'{"a": %s, "a": %s}' % ((json.dumps(entry()).encode(),) * 2), b"\0" * 8
    ),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=list(DAMAGED))
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(WeightError, match="not a whole safetensors file") as caught:
        load_weights([path])
    assert caught.value.code == "ML633"
    assert caught.value.at is not None


def test_every_truncation_is_refused(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    cut = tmp_path / "cut.safetensors"
    for size in {*range(0, len(content), 37), len(content) - 1}:
        cut.write_bytes(content[:size])
        with pytest.raises(WeightError):
            load_weights([cut])


def test_misaligned_data_is_copied(tmp_path: Path) -> None:
    path = tmp_path / "odd.safetensors"
    header = json.dumps({"a": entry()}).encode()
    header += b" " * (1 + -len(header) % 8)  # the data begins at an odd byte
    path.write_bytes(file_of(header, np.array([1.5, 2.5], np.float32).tobytes()))
    data: Any = load_weights([path]).a.data().data
    assert data.flags.aligned
    assert data.tolist() == [1.5, 2.5]
    assert not data.flags.writeable


def test_a_dtype_that_no_tensor_has(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    path.write_bytes(
        file_of({"c": entry("C64", (1,), (0, 8)), "d": entry(offsets=(8, 16))}, b"\0" * 16)
    )
    weights = load_weights([path])
    assert weights.d.data().dtype is F32
    with pytest.raises(WeightError, match="C64"):
        weights.c.data()


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(WeightError, match="No such file"):
        load_weights([tmp_path / "none.safetensors"])
    folder = tmp_path / "folder.safetensors"
    folder.mkdir()
    with pytest.raises(WeightError, match="it is a folder"):
        load_weights([folder])
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    for suffix in ("safetensors", "gguf", "pt"):  # opening a pipe would wait for ever
        with pytest.raises(WeightError, match="not a regular file"):
            load_weights([pipe.rename(tmp_path / f"pipe.{suffix}")])
        (tmp_path / f"pipe.{suffix}").rename(pipe)
