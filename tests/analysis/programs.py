"""Models whose plans branch, turn and call: what every analysis is tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, Weight, ops

CPU = DeviceRef.CPU()
SIZE = 8
loop: Any = ops.while_loop
branch: Any = ops.cond
call: Any = ops.call


@dataclass(frozen=True)
class Case:
    """A graph, the data of its weights, and inputs to run it on."""

    graph: Graph
    weights: dict[str, Any]
    inputs: tuple[Any, ...]

    def load(self, *devices: driver.Accelerator) -> engine.Model:
        """The model, on the CPU or on ``devices``."""
        session = engine.InferenceSession(devices=list(devices)) if devices else None
        made: engine.Model = (session or engine.InferenceSession()).load(
            self.graph, weights_registry=self.weights
        )
        return made

    def placed(self, model: engine.Model) -> list[Any]:
        """The inputs where ``model`` takes them."""
        return list(model.placed(self.inputs))


def tensors(graph: Graph) -> list[Any]:
    return [v.tensor for v in graph.inputs if isinstance(v, TensorValue)]


def integer(value: int) -> Any:
    return ops.constant(value, DType.int64, CPU)


def rows(device: DeviceRef) -> TensorType:
    return TensorType(DType.float32, ["n", SIZE], device)


def data(seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.5, 2, (5, SIZE)).astype(np.float32)


def branches(device: DeviceRef) -> Case:
    """A branch of which one side runs, between ops that are always computed."""
    flag = TensorType(DType.bool, [], CPU)
    with Graph("branches", input_types=[rows(device), flag]) as graph:
        x, chosen = tensors(graph)
        x = ops.exp(x)
        (y,) = branch(
            chosen, [rows(device)], lambda: ops.softmax(x * 2), lambda: ops.sqrt(x) - ops.sin(x)
        )
        graph.output(y + 1)
    return Case(graph, {}, (data(), True))


def newton(device: DeviceRef) -> Case:
    """Square roots by Newton's method, so many turns; a weight is read in each."""
    count = TensorType(DType.int64, [], CPU)
    with Graph("newton", input_types=[rows(device), count]) as graph:
        a, turns = tensors(graph)
        scale = Weight("scale", DType.float32, [SIZE], device)

        def step(i: Any, y: Any) -> Any:
            return i + 1, (y + a / y) * scale

        _, y = loop((integer(0), a), lambda i, y: i < turns, step)
        graph.output(ops.tanh(y))
    return Case(graph, {"scale": np.full(SIZE, 0.5, np.float32)}, (data(), 6))


def nested(device: DeviceRef) -> Case:
    """A loop and a branch in a loop."""
    with Graph("nested", input_types=[rows(device)]) as graph:
        (x,) = tensors(graph)

        def outer(i: Any, y: Any) -> Any:
            _, z = loop(
                (integer(0), y), lambda j, z: j < i, lambda j, z: (j + 1, ops.sqrt(z * z + x))
            )
            (z,) = branch(i > 1, [rows(device)], lambda: z + ops.exp(-z), lambda: z)
            return i + 1, z

        _, y = loop((integer(0), x), lambda i, y: i < 4, outer)
        graph.output(y)
    return Case(graph, {}, (data(),))


def calls(device: DeviceRef) -> Case:
    """A subgraph with weights of its own, called three times."""

    def layer(x: Any) -> Any:
        w = Weight("w", DType.float32, [SIZE, SIZE], device, _placeholder=True)
        b = Weight("b", DType.float32, [SIZE], device, _placeholder=True)
        return x + ops.tanh(ops.softmax(x @ w) + b)

    with Graph("calls", input_types=[rows(device)]) as graph:
        body = graph.add_subgraph("layer", layer, [rows(device)])
        x: Any = graph.inputs[0]
        for n in range(3):
            (x,) = call(body, x, prefix=f"layers.{n}.")
        graph.output(x)
    rng = np.random.default_rng(0)
    weights: dict[str, Any] = {}
    for n in range(3):
        weights[f"layers.{n}.w"] = rng.standard_normal((SIZE, SIZE)).astype(np.float32)
        weights[f"layers.{n}.b"] = rng.standard_normal(SIZE).astype(np.float32)
    return Case(graph, weights, (data(),))


CASES: dict[str, Callable[[DeviceRef], Case]] = {
    "branches": branches,
    "newton": newton,
    "nested": nested,
    "calls": calls,
}
