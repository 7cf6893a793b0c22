"""Graphs that the tests of the notebook side look at."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, Weight, ops

HIDDEN = 16


def small(name: str = "small") -> Graph:
    """``softmax(gelu(x * 2 + 1))`` of a ``[n, 8]`` tensor."""
    with Graph(name, input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(ops.gelu(x * 2.0 + 1.0)))
    return graph


def weight(name: str, *shape: int) -> Weight:
    """A float32 weight."""
    return Weight(name, DType.float32, shape, DeviceRef.CPU())


def layer(x: TensorValue, number: int, epsilon: float = 1e-5) -> TensorValue:
    """One residual layer with weights of its own."""
    up = weight(f"layers.{number}.up", HIDDEN, 4 * HIDDEN)
    down = weight(f"layers.{number}.down", 4 * HIDDEN, HIDDEN)
    scale = weight(f"layers.{number}.scale", HIDDEN)
    shift = weight(f"layers.{number}.shift", HIDDEN)
    made = ops.matmul(ops.gelu(ops.matmul(x, up)), down)
    return ops.layer_norm(x + made, scale, shift, epsilon)


def layered(layers: int = 6, odd: int | None = None) -> Graph:
    """``layers`` calls of ``layer``; the one numbered ``odd`` has another epsilon."""
    types = [TensorType(DType.float32, ["batch", "seq", HIDDEN])]
    with Graph("layered", input_types=types) as graph:
        x = graph.inputs[0].tensor
        for number in range(layers):
            x = layer(x, number, 1e-3 if number == odd else 1e-5)
        graph.output(x)
    return graph


def registry(layers: int = 6) -> dict[str, Any]:
    """Data for the weights of ``layered``."""
    rng = np.random.default_rng(0)
    shapes = {
        "up": (HIDDEN, 4 * HIDDEN),
        "down": (4 * HIDDEN, HIDDEN),
        "scale": (HIDDEN,),
        "shift": (HIDDEN,),
    }
    return {
        f"layers.{n}.{name}": rng.standard_normal(shape, np.float32)
        for n in range(layers)
        for name, shape in shapes.items()
    }


def load(graph: Graph, **options: Any) -> engine.Model:
    """The compiled ``graph`` with one thread."""
    return engine.InferenceSession(num_threads=1).load(graph, **options)
