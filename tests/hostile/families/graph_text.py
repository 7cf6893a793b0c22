"""Graph files: text that is nearly MLIR, and text that is not."""

from __future__ import annotations

from pathlib import Path
from random import Random

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.hostile.harness import Case, Family, mutated


def _whole() -> bytes:
    """A graph file with what graph files have: dims, constants, attributes, a loop."""
    kind = TensorType(DType.float32, ["n", 4], DeviceRef.CPU())

    def body(i: object, x: object) -> list[object]:
        return [ops.add(i, 1), ops.mul(x, 0.5)]  # type: ignore[arg-type]

    with Graph("whole", input_types=[kind, kind]) as graph:
        x, y = (value.tensor for value in graph.inputs)
        z = ops.softmax(x @ ops.transpose(y, 0, 1)) @ y
        start = ops.constant(0, DType.int32, DeviceRef.CPU())
        turns = ops.while_loop([start, z], lambda i, _: ops.greater(3, i), body)
        graph.output(turns[1], ops.reshape(x, [-1]))
    from maxlab.ir.printer import generic

    return generic(graph.function).encode()


_made: list[bytes] = []


def _ready() -> None:
    _made[:] = [_whole()]


def _read(text: bytes) -> Case:
    def run(folder: Path) -> None:
        file = folder / "graph.mlir"
        file.write_bytes(text)
        graph = Graph("read", path=file)
        str(graph)

    return Case(f"a graph file that is {text[:60]!r}…", run)


def _draw(random: Random) -> Case:
    return _read(mutated(_made[0], random))


SEEDS = [
    _read(text)
    for text in (b"", b"x", b"{}", b"\0" * 64, b"(" * 100_000, b"module {" * 10_000, b"9" * 100_000)
]

FAMILIES = (Family("graph_text", SEEDS, _draw, 3000, _ready),)
