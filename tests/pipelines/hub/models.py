"""Small models in folders, for tests: safetensors, GGUF and PyTorch files of few numbers."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from maxlab.graph.weights.writing import safetensors_head
from tests.graph.weight_files import gguf, info, pair, torch_of

Array = np.ndarray[Any, Any]
DTYPES: dict[str, Any] = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8": ml_dtypes.float8_e4m3fn,
    "I32": np.int32,
    "F64": np.float64,
}
# The number of a type of blocks in GGUF files, and the elements and bytes of a block.
BLOCKS = {"F32": (0, 1, 4), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144),
          "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210)}  # fmt: skip


def safetensors(tensors: Mapping[str, tuple[str, int]]) -> bytes:
    """A file of vectors, each a dtype and a length."""
    arrays = {name: np.zeros(count, DTYPES[kind]) for name, (kind, count) in tensors.items()}
    data = b"".join(array.tobytes() for array in arrays.values())
    return safetensors_head(arrays) + data


def plain(kind: str = "F32", count: int = 8) -> bytes:
    """A safetensors file of one matrix."""
    return safetensors({"w": (kind, count)})


def pytorch(kind: str = "F32") -> bytes:
    """A PyTorch file of one vector."""
    return torch_of({"w": np.zeros(8, DTYPES[kind])})


def gguf_file(rows: Mapping[str, tuple[str, int]], file_type: int | None = None) -> bytes:
    """A GGUF file of matrices, each a type of blocks and a number of rows of 256 numbers."""
    infos, data = [], b""
    for name, (kind, count) in rows.items():
        number, elements, nbytes = BLOCKS[kind]
        data += bytes(-len(data) % 32)
        infos.append(info(name, (256, count), number, len(data)))
        data += bytes(256 // elements * nbytes * count)
    pairs = [pair("general.architecture", 8, struct.pack("<Q", 5) + b"llama")]
    if file_type is not None:
        pairs.append(pair("general.file_type", 4, struct.pack("<I", file_type)))
    return gguf(pairs, infos, data)


def config(**more: Any) -> bytes:
    """A ``config.json``."""
    return json.dumps({"model_type": "llama", **more}).encode()


def folder(root: Path, files: Mapping[str, bytes]) -> Path:
    """``root``, made, with ``files`` in it."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def cached(cache: Path, repo_id: str, files: Mapping[str, bytes], commit: str = "a" * 40) -> Path:
    """The snapshot of a repository in a cache, laid out as ``huggingface_hub`` does."""
    repo = cache / f"models--{repo_id.replace('/', '--')}"
    snapshot = repo / "snapshots" / commit
    snapshot.mkdir(parents=True)
    folder(repo, {"refs/main": commit.encode()})
    (repo / "blobs").mkdir(exist_ok=True)
    for number, (name, content) in enumerate(files.items()):
        blob = repo / "blobs" / f"{commit}-{number}"
        blob.write_bytes(content)
        path = snapshot / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(blob)
    return snapshot
