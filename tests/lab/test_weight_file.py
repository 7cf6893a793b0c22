"""Weight files that are looked into: what is told of them, whatever is in them."""

from __future__ import annotations

import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, EncodingError, FileError, WeightError, WeightFileError
from maxlab.graph.weights import GGUFWeights
from maxlab.lab.protocol import files as protocol
from maxlab.lab.protocol.reader import check
from maxlab.lab.server import weight_file
from maxlab.lab.server.files import range_of
from maxlab.lab.server.places import place_of, require_same
from maxlab.lab.server.weight_file import WeightFile
from maxlab.opset.quantized import random_blocks
from tests.graph import weight_files as made


def safetensors(path: Path, header: Any, data: bytes = b"") -> Path:
    """A file with this header, JSON or bytes."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)
    return path


def numbers(file: WeightFile, tensor: int, *asked: Any) -> np.ndarray[Any, Any]:
    body, raw = file.slice(tensor, *asked)
    check(body, protocol.TensorSlice, closed=True)
    return np.frombuffer(raw, "<f8").reshape(body["rows"]["count"], body["columns"]["count"])


# ---------------------------------------------------------------- what is told


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float16", "float64", "int8", "uint16", "int64", "bool", "bfloat16",
     "float8_e4m3fn", "float8_e5m2"],
)  # fmt: skip
def test_numbers_of_each_type(dtype: str, tmp_path: Path) -> None:
    kind = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    grid = (np.arange(2 * 3 * 5) % 7).reshape(2, 3, 5).astype(kind)
    spelled = {"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
    path = tmp_path / "w.safetensors"
    if dtype in spelled:
        entry = {"dtype": spelled[dtype], "shape": [2, 3, 5], "data_offsets": [0, grid.nbytes]}
        safetensors(path, {"w": entry}, grid.tobytes())
    else:
        save_file({"w": grid}, path)
    file = WeightFile(path)
    wanted = grid.astype(np.float64)
    np.testing.assert_array_equal(numbers(file, 0, 1, 2, [1, 0, 0]), wanted[1])
    np.testing.assert_array_equal(numbers(file, 0, 2, 0, [0, 2, 0]), wanted[:, 2].T)
    np.testing.assert_array_equal(numbers(file, 0, -1, 2, [1, 1, 0]), wanted[1, 1][None])
    np.testing.assert_array_equal(
        numbers(file, 0, 1, 2, [0, 0, 0], (1, 2, 2, 3)), wanted[0, 1:3, 2:5]
    )
    facts = file.facts(0)
    check(facts, protocol.TensorFacts, closed=True)
    assert (facts["count"], facts["seen"]) == (30, 30)
    assert (facts["low"], facts["high"]) == (wanted.min(), wanted.max())
    assert facts["histogram"] is not None
    assert sum(facts["histogram"]["counts"]) == 30


@pytest.mark.parametrize("encoding", ["Q4_0", "Q4_K", "Q5_K", "Q6_K"])
def test_blocks_are_decoded(encoding: str, tmp_path: Path) -> None:
    number = {"Q4_0": 2, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14}[encoding]
    blocks = random_blocks(np.random.default_rng(3), encoding, (6, 2)).reshape(6, -1)
    each = 32 if encoding == "Q4_0" else 256
    path = tmp_path / "w.gguf"
    infos = [made.info("w", [2 * each, 6], number, 0)]
    path.write_bytes(made.gguf((), infos, blocks.tobytes()))
    wanted = GGUFWeights(path).w.data().astype(DType.float32).data
    file = WeightFile(path)
    assert file.tensors[0].shape == (6, 2 * each)
    every = -(-2 * each // 256)
    np.testing.assert_array_equal(
        numbers(file, 0, 0, 1, [0, 0]), np.asarray(wanted, np.float64)[:, ::every]
    )
    assert file.facts(0)["mean"] == pytest.approx(float(np.mean(np.asarray(wanted, np.float64))))


def test_the_description_of_gguf(tmp_path: Path) -> None:
    texts = made.array(8, 9, b"".join(made.text(f"t{n}") for n in range(9)))
    pairs = [
        made.text("general.name") + struct.pack("<I", 8) + made.text("tiny"),
        made.text("tokens") + struct.pack("<I", 9) + texts,
    ]
    path = tmp_path / "w.gguf"
    path.write_bytes(made.gguf_of({"a": np.zeros((3, 4), np.float32)}, pairs))
    file = WeightFile(path)
    assert file.metadata == [
        ("general.name", "tiny"),
        ("tokens", "[t0, t1, t2, t3, t4, t5, …] (9)"),
    ]
    ((name, dtype, shape, _, nbytes, problem),) = file.rows()
    assert (name, dtype, shape, nbytes, problem) == ("a", "F32", [3, 4], 48, "")


def test_strange_numbers_and_empty_tensors(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    odd = np.array([np.nan, np.inf, -np.inf, 0, -2, 1.7e308, -1.7e308])
    save_file(
        {"odd": odd, "none": np.zeros((0, 3), np.float32), "one": np.array(4, np.float32)}, path
    )
    file = WeightFile(path)
    at = {tensor.name: n for n, tensor in enumerate(file.tensors)}
    facts = file.facts(at["odd"])
    assert (facts["nans"], facts["infinities"], facts["zeros"]) == (1, 2, 1)
    assert (facts["low"], facts["high"], facts["deviation"]) == (-1.7e308, 1.7e308, None)
    json.dumps(facts, allow_nan=False)
    assert facts["histogram"] is not None
    assert sum(facts["histogram"]["counts"]) == 4
    assert file.facts(at["none"])["histogram"] is None
    assert numbers(file, at["none"], 0, 1, [0, 0]).shape == (0, 3)
    assert numbers(file, at["one"], -1, -1, []).tolist() == [[4]]


def test_a_large_tensor_is_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_file, "MOST_SEEN", 4096)
    path = tmp_path / "w.safetensors"
    save_file({"w": np.arange(300 * 1000, dtype=np.float32).reshape(300, 1000)}, path)
    file = WeightFile(path)
    facts = file.facts(0)
    assert facts["count"] == 300_000
    assert facts["seen"] == 4096
    assert (facts["low"], facts["high"]) == (0, 299_999)
    seen = numbers(file, 0, 0, 1, [0, 0])
    assert seen.shape == (150, 250)
    assert seen[1, 1] == 2 * 1000 + 4


# ---------------------------------------------------------------- hostile files

ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "header",
    [
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a": NaN}',
        b'{"a": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": "F32", "shape": [1e1], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 8]}}',
        b'{"\xff": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
        json.dumps({"a": {**ENTRY, "shape": [-2]}}).encode(),
        json.dumps({"a": {**ENTRY, "data_offsets": [8, 0]}}).encode(),
        json.dumps({"a": {**ENTRY, "data_offsets": [0, 1 << 60]}}).encode(),
        json.dumps({"a": ENTRY, "b": ENTRY}).encode(),
        json.dumps({"a": {**ENTRY, "shape": [1 << 62, 1 << 62]}}).encode(),
    ],
)
def test_hostile_headers_of_safetensors(header: bytes, tmp_path: Path) -> None:
    path = safetensors(tmp_path / "w.safetensors", header, bytes(8))
    with pytest.raises(WeightError) as caught:
        WeightFile(path)
    assert caught.value.code == "ML633"


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 1 << 40, 9])
def test_a_length_beyond_the_file(length: int, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(WeightError, match="ML633"):
        WeightFile(path)


def test_a_description_that_would_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    array = made.text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 0, 1 << 33)
    path.write_bytes(made.gguf([array], counts=(0, 1)))
    os.truncate(path, 1 << 34)
    with pytest.raises(WeightError, match="description takes more than"):
        WeightFile(path)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = safetensors(
        tmp_path / "w.safetensors", b'{"\\ud800": ' + json.dumps(ENTRY).encode() + b"}", bytes(8)
    )
    file = WeightFile(path)
    json.dumps(file.rows()).encode("ascii")
    assert numbers(file, 0, -1, 0, [0]).tolist() == [[0, 0]]


def test_types_that_are_not_decoded_are_listed(tmp_path: Path) -> None:
    entry = {"dtype": "F4_E2M1", "shape": [16], "data_offsets": [0, 8]}
    file = WeightFile(safetensors(tmp_path / "w.safetensors", {"a": entry}, bytes(8)))
    assert "F4_E2M1" in file.rows()[0][5]
    with pytest.raises(EncodingError, match="ML634"):
        file.facts(0)


@pytest.mark.parametrize(
    "asked",
    [(1, 0, 1, [0, 0]), (0, 2, 1, [0, 0]), (0, 0, 0, [0, 0]), (0, 0, 1, [0]), (-1, 0, 1, [0, 0]),
     (0, 0, 1, [0, 0], (1, 0, 2, 3)), (0, 0, 1, [0, 0], (-1, 0, 1, 1)), (0, -1, 1, [5, 0])],
)  # fmt: skip
def test_questions_beyond_a_tensor(asked: tuple[Any, ...], tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"w": np.zeros((2, 3), np.float32)}, path)
    with pytest.raises(ArgumentError, match="ML892"):
        WeightFile(path).slice(*asked)


# ---------------------------------------------------------------- files that change


def test_a_file_that_is_cut_off_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"w": np.zeros((64, 64), np.float32)}, path)
    file = WeightFile(path)
    os.truncate(path, 1000)
    for work in (lambda: file.facts(0), lambda: file.slice(0, 0, 1, [0, 0])):
        with pytest.raises(WeightFileError, match="ML639"):
            work()


def test_a_file_that_is_written_to_or_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(b"one")
    stamp = require_same("w", str(path), "")
    assert require_same("w", str(path), stamp) == stamp
    path.write_bytes(b"other")
    with pytest.raises(FileError, match="has changed"):
        require_same("w", str(path), stamp)
    path.unlink()
    with pytest.raises(FileError, match="no longer there"):
        require_same("w", str(path), stamp)


# ---------------------------------------------------------------- places


def test_places_below_the_root(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.gguf"
    (root / "a" / ".hidden").mkdir(parents=True)
    outside.write_bytes(b"x")
    for name in ("a/w.gguf", ".w.gguf", "a/.hidden/w.gguf"):
        (root / name).write_bytes(b"x")
    (root / "in.gguf").symlink_to(root / "a" / "w.gguf")
    (root / "out.gguf").symlink_to(outside)
    (root / "tohidden.gguf").symlink_to(root / ".w.gguf")
    (root / "up").symlink_to(tmp_path)
    os.mkfifo(root / "pipe.gguf")
    assert place_of("a/w.gguf", str(root)) == str(root / "a" / "w.gguf")
    assert place_of("/in.gguf", str(root)) == str(root / "a" / "w.gguf")
    assert place_of(".w.gguf", str(root), allow_hidden=True) == str(root / ".w.gguf")
    refused = [
        "../outside.gguf", "a/../../outside.gguf", "out.gguf", "up/outside.gguf", "missing.gguf",
        ".w.gguf", "a/.hidden/w.gguf", "tohidden.gguf", "a", "", "pipe.gguf", "a\0b", "\ud800",
        str(outside), "//etc/passwd", "a/w.gguf/..",
    ]  # fmt: skip
    for path in refused:
        with pytest.raises(FileError) as caught:
            place_of(path, str(root))
        assert caught.value.code == "ML890"


@pytest.mark.parametrize(
    ("asked", "found"),
    [("bytes=0-9", (0, 10)), ("bytes=95-", (95, 100)), ("bytes=-7", (93, 100)),
     ("bytes=-700", (0, 100)), ("bytes=100-", None), ("bytes=9-3", None), ("bytes=-", None),
     ("bytes=0-1,5-6", None), ("bytes=-0", None), ("lines=0-1", None),
     ("bytes=" + "9" * 40 + "-", None)],
)  # fmt: skip
def test_ranges(asked: str, found: tuple[int, int] | None) -> None:
    assert range_of(asked, 100) == found


def test_ten_gigabytes(tmp_path: Path) -> None:
    """Neither its size nor its tensors are read; a picture and statistics are of parts of it."""
    path = tmp_path / "w.safetensors"
    size = 10**10
    safetensors(
        path, {"w": {"dtype": "BF16", "shape": [50_000, 100_000], "data_offsets": [0, size]}}
    )
    os.truncate(path, path.stat().st_size + size)
    file = WeightFile(path)
    assert file.nbytes > size
    assert numbers(file, 0, 1, 0, [0, 0]).shape[0] <= 256
    facts = file.facts(0)
    assert facts["seen"] < facts["count"] == math.prod((50_000, 100_000))
