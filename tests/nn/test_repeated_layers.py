"""Layers that are built once as a subgraph: their code is compiled once, however many there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab import nn
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.nn.running import Array, filled, random

F32, CPU = DType.float32, DeviceRef.CPU()
ROWS = TensorType(F32, ["rows", 6])


class Block(nn.Module):
    """A norm, two products and what goes past them."""

    def __init__(self, width: int = 10) -> None:
        self.norm = nn.RMSNorm(6, F32, eps=1e-3)
        self.up = nn.Linear(6, width, F32, CPU)
        self.down = nn.Linear(width, 6, F32, CPU)

    def __call__(self, x: Any) -> Any:
        return x + self.down(ops.silu(self.up(self.norm(x))))


class Stack(nn.Module):
    """Blocks one behind the other, as calls of one subgraph."""

    def __init__(self, count: int) -> None:
        self.layers = nn.LayerList([Block() for _ in range(count)])

    def __call__(self, x: Any) -> Any:
        body = self.layers[0].build_subgraph("block", [ROWS], weight_prefix="layers.0.")
        for number in range(len(self.layers)):
            (x,) = ops.call(body, x, prefix=f"layers.{number}.")
        return x


class Different(nn.Module):
    """Blocks that are not alike."""

    def __init__(self, count: int) -> None:
        self.layers = nn.LayerList([Block(10 + number) for number in range(count)])

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def _loaded(stack: Stack | Different) -> Model:
    return InferenceSession().load(
        Graph("stack", stack, [ROWS]), weights_registry=stack.state_dict()
    )


def _code(model: Model) -> int:
    """The letters of the C code of all kernels; equal ones are one."""
    texts = {step.printed.symbol: step.printed.text for step in model.plan.steps if step.printed}
    return sum(map(len, texts.values()))


def test_code_does_not_grow_with_the_number_of_layers() -> None:
    small, large = Stack(2), Stack(40)
    for stack in (small, large):
        filled(stack)
    few, many = _loaded(small), _loaded(large)
    assert len(many.plan.steps) > 10 * len(few.plan.steps)
    assert 0 < _code(many) <= 1.05 * _code(few)


def test_code_of_layers_that_differ_grows() -> None:
    two, eight = Different(2), Different(8)
    for stack in (two, eight):
        filled(stack)
    assert _code(_loaded(eight)) > 2 * _code(_loaded(two))


def test_each_call_has_weights_of_its_own() -> None:
    stack = Stack(3)
    state: dict[str, Array] = filled(stack)
    x = random(5, 6)
    (found,) = _loaded(stack)(x)
    wanted = x.astype(np.float64)
    for n in range(3):
        norm, up, down = (
            state[f"layers.{n}.{name}.weight"].astype(np.float64) for name in ("norm", "up", "down")
        )
        rows = wanted / np.sqrt((wanted**2).mean(-1, keepdims=True) + 1e-3) * norm
        middle = rows @ up.T
        wanted = wanted + (middle / (1 + np.exp(-middle))) @ down.T
    np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-4, atol=1e-4)
