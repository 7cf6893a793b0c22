"""Six small graphs as programs, word for word: what a person would have written.

With ``MAXLAB_WRITE_GOLDEN=1`` the programs are written anew; whoever does so reads them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.graph import (
    BufferType,
    Comment,
    DeviceRef,
    Dim,
    Graph,
    TensorType,
    TensorValue,
    Weight,
    ops,
)
from tests.graph.code.rebuilt import rebuilt

FOLDER = Path(__file__).parent / "golden"
F32, I64 = DType.float32, DType.int64
HOST = DeviceRef.CPU()


def linear(x: TensorValue, name: str, width: int, out: int) -> TensorValue:
    w = Weight(f"{name}.weight", F32, [width, out])
    return x @ w + Weight(f"{name}.bias", F32, [out])


def classifier() -> Graph:
    """Layers in a loop, a comment, and a name that was given."""
    with Graph("classifier", input_types=[TensorType(F32, ["batch", 64])]) as graph:
        x = graph.inputs[0].tensor
        for number in range(3):
            x = ops.relu(linear(x, f"layers.{number}", 64, 64))
        logits = linear(x, "head", 64, 10)
        graph.name_values(logits=logits)
        graph.output(ops.softmax(logits), ops.argmax(logits))
    softmax = next(op for op in graph.function.ops if op.name == "mo.softmax")
    graph.document.comments.append(Comment(id="c0", text="one probability a class", on=softmax.id))
    return graph


def attention(x: TensorValue, mask: TensorValue, name: str) -> TensorValue:
    heads, size = 4, 16

    def split(part: str) -> TensorValue:
        w = Weight(f"{name}.{part}", F32, [64, 64])
        return (x @ w).reshape(["batch", "tokens", heads, size]).transpose(1, 2)

    scores = split("q") @ split("k").T * 0.25
    scores = ops.where(mask, scores, float("-inf"))
    mixed = (ops.softmax(scores) @ split("v")).transpose(1, 2)
    return mixed.reshape(["batch", "tokens", heads * size]) @ Weight(f"{name}.o", F32, [64, 64])


def mlp(x: TensorValue, name: str) -> TensorValue:
    return linear(ops.gelu(linear(x, f"{name}.up", 64, 128)), f"{name}.down", 128, 64)


def block(x: TensorValue, mask: TensorValue, name: str) -> TensorValue:
    ones, zeros = np.ones(64, np.float32), np.zeros(64, np.float32)
    x = x + attention(ops.layer_norm(x, ones, zeros, 1e-5), mask, f"{name}.attention")
    return x + mlp(ops.layer_norm(x, ones, zeros, 1e-5), f"{name}.mlp")


def transformer() -> Graph:
    """Scopes in scopes."""
    types = [
        TensorType(I64, ["batch", "tokens"]),
        TensorType(DType.bool, ["batch", 1, "tokens", "tokens"]),
    ]
    with Graph("transformer", input_types=types) as graph:
        tokens, mask = (value.tensor for value in graph.inputs)
        graph.name_values(tokens=tokens, mask=mask)
        table = Weight("embedding", F32, [1000, 64])
        x = ops.gather(table, tokens, axis=0)
        for number in range(6):
            x = block(x, mask, f"blocks.{number}")
        graph.output(x @ table.T)
    return graph


def collatz() -> Graph:
    """A branch in a loop."""
    number = TensorType(I64, [])
    with Graph("collatz", input_types=[number]) as graph:

        def turn(n: TensorValue, steps: TensorValue) -> tuple[TensorValue, TensorValue]:
            (n,) = ops.cond(n % 2 == 0, [number], lambda: n // 2, lambda: n * 3 + 1)
            return n, steps + 1

        start, zero = graph.inputs[0].tensor, ops.constant(0, I64, HOST)
        _, steps = ops.while_loop((start, zero), lambda n, steps: n > 1, turn)
        graph.output(steps)
    return graph


def cache() -> Graph:
    """A buffer that is read and written in parts."""
    types = [BufferType(F32, [128, 64]), TensorType(F32, [64]), TensorType(I64, [])]
    with Graph("cache", input_types=types) as graph:
        keys, row, at = graph.inputs[0].buffer, graph.inputs[1].tensor, graph.inputs[2].tensor
        keys[at] = row
        scores = ops.buffer_load(keys) @ ops.unsqueeze(row, 1)
        seen = ops.range(0, 128, dtype=I64, device=HOST) <= at
        scores = ops.where(ops.unsqueeze(seen, 1), scores, float("-inf"))
        graph.output(ops.softmax(scores, axis=0), keys[0], keys[-4:, :8])
    return graph


def shared() -> Graph:
    """A subgraph that is called, and a kernel of the user's."""
    matrix = TensorType(F32, ["n", 8])
    kernel = """
// @op swish(x: float32[*shape]) -> (y: float32[*shape])
// @both
f32 v = load(x, i);
store(y, i, v / (1 + exp(-v)));
"""

    def layer(x: TensorValue) -> TensorValue:
        w = Weight("w", F32, [8, 8], _placeholder=True)
        (y,) = ops.custom("swish", HOST, [x @ w], [matrix])
        return x + y

    with Graph("shared", input_types=[matrix], custom_extensions=[kernel]) as graph:
        x = graph.inputs[0].tensor
        body = graph.add_subgraph("layer", layer, [matrix])
        for number in range(2):
            x = ops.call(body, x, prefix=f"layers.{number}.")[0].tensor
        graph.output(x)
    return graph


def windows() -> Graph:
    """Sizes that are computed from names."""
    with Graph("windows", input_types=[TensorType(F32, ["n", "width"])]) as graph:
        x = graph.inputs[0].tensor
        n, half = x.shape[0], x.shape[1] // 2
        left, right = x[:, :half], x[:, half : half * 2]
        ramp = ops.range(0, n, dtype=F32, device=HOST) / TensorValue(n).cast(F32)
        rows = ops.concat([x[-1:], x[:-1]]).reshape([n * Dim("width")])
        ops.random.set_seed(3)
        noise = ops.random.normal(TensorType(F32, ["n", Dim("width") // 2]), std=0.1)
        mean = ops.mean(left * right + noise, axis=0)
        graph.output(mean - ops.unsqueeze(ramp, 1), rows.rebind(["cells"]))
    return graph


GRAPHS: tuple[Callable[[], Graph], ...] = (
    classifier,
    transformer,
    collatz,
    cache,
    shared,
    windows,
)


@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_the_program_reads_as_it_should(make: Callable[[], Graph], tmp_path: Path) -> None:
    golden = FOLDER / f"{make.__name__}.txt"
    text = rebuilt(make(), tmp_path / f"{make.__name__}.py")
    if os.environ.get("MAXLAB_WRITE_GOLDEN"):
        golden.write_text(text, "utf-8")
    assert golden.read_text("utf-8") == text
