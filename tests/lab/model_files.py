"""Kept models, written member by member, for tests of what is shown of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxlab.dtype import DType
from maxlab.engine.kept.manifest import (
    Argument,
    KernelEntry,
    LibraryEntry,
    MachineEntry,
    Manifest,
    MemberEntry,
    WeightEntry,
)
from maxlab.graph import Graph, TensorType, Weight, ops
from maxlab.stored import Writing


def small_graph() -> Graph:
    """A product with a weight, and an activation."""
    with Graph("scores", input_types=[TensorType(DType.float32, ["n", 64])]) as graph:
        graph.output(ops.gelu(graph.inputs[0] @ Weight("w", DType.float32, [64, 32])))
    return graph


def write_model(path: Path, graph: str | bytes | None = None, **fields: Any) -> Manifest:
    """Writes a model at ``path``, whose machine code is no code; its manifest.

    Args:
        path: The file.
        graph: The text of the graph; by default, that of `small_graph`.
        **fields: Of the manifest, instead of those of the small graph.
    """
    text = small_graph().document.text() if graph is None else graph
    parts = {
        "graph.mlgraph": text.encode() if isinstance(text, str) else text,
        "plan.txt": b"maxlab plan 2\n" * 100,
        "weights.safetensors": bytes(64 * 32 * 4 + 80),
        "libraries/0.so": b"\x7fELF no code at all" * 200,
    }
    given: dict[str, Any] = {
        "name": "scores",
        "maxlab": "0.1.0",
        "operations": 3,
        "inputs": (Argument("x", "float32", ("n", "64")),),
        "outputs": (Argument("output0", "float32", ("n", "32")),),
        "weights": (WeightEntry("w", "float32", (64, 32), 0, 64 * 32 * 4),),
        "kernels": (KernelEntry("k_1", "matmul", "c", ("k1",), "libraries/0.so"),),
        "libraries": (LibraryEntry("libraries/0.so", "kernels", "a.b.c.d.e.so"),),
        "machine": MachineEntry("0.1.0", "maxlab plan 2", "r", "x86_64", ("avx2", "fma"), "gcc 12"),
        "members": entries(parts),
    }
    told = Manifest(**{**given, **fields})
    write_members(path, told.text(), parts)
    return told


def entries(parts: Mapping[str, bytes]) -> dict[str, MemberEntry]:
    """What a manifest says of the members ``parts``."""
    return {
        name: MemberEntry(len(data), hashlib.sha256(data).hexdigest())
        for name, data in parts.items()
    }


def write_members(path: Path, manifest: str, parts: Mapping[str, bytes]) -> None:
    """Writes an archive with ``manifest``, its digest and ``parts``."""
    text = manifest.encode("utf-8", "backslashreplace")  # half of a pair becomes an escape of JSON
    with path.open("wb") as file:
        archive = Writing(file)
        archive.add("maxlab.json", [text])
        archive.add("digest", [hashlib.sha256(text).hexdigest().encode()])
        for name, data in parts.items():
            archive.add(name, [data])
        archive.close()
