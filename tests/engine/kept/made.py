"""Models that the tests of kept models save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.graph.weights.load import load_weights
from maxlab.graph.weights.writing import write_safetensors

F32 = DType.float32
CPU = DeviceRef.CPU()
Array = np.ndarray[Any, Any]

KERNEL = """
// @op double_it(x: float32[n]) -> (y: float32[n])
// @both
store(y, i, 2 * load(x, i));
"""


def numbers(*shape: int, seed: int = 1) -> Array:
    """The same numbers each time, of ``shape``."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X = numbers(3, 64, seed=7)


def scores_graph() -> Graph:
    """A product with a weight, a softmax, and a constant that is too large for a plan's text."""
    with Graph("scores", input_types=[TensorType(F32, ["n", 64], CPU)]) as graph:
        table = ops.constant(numbers(32, 32, seed=3), F32, CPU)
        x = graph.inputs[0].tensor @ Weight("w", F32, [64, 32], CPU)
        graph.output(ops.softmax(x) @ table, ops.sum(x, -1))
    return graph


def scores_weights() -> dict[str, Array]:
    """Its weights."""
    return {"w": numbers(64, 32, seed=5)}


def scores() -> Model:
    """The model of `scores_graph`."""
    return engine.InferenceSession().load(scores_graph(), weights_registry=scores_weights())


def from_file(folder: Path) -> Model:
    """The same, its weights mapped from ``weights.safetensors`` in ``folder``."""
    path = folder / "weights.safetensors"
    write_safetensors(path, {"other": numbers(3), **scores_weights()})
    weights = load_weights([path])
    return engine.InferenceSession().load(
        scores_graph(), weights_registry={"w": weights.w.data().data}
    )


def dequantised() -> Model:
    """A model that computes something of its weights when it is loaded: one result is packed and
    gone, another one is read by kernels."""
    with Graph("ahead", input_types=[TensorType(F32, ["n", 64], CPU)]) as graph:
        stored = Weight("a", DType.int8, [64, 64], CPU)
        scale = Weight("scale", F32, [64, 1], CPU)
        x = graph.inputs[0].tensor @ ops.transpose(ops.cast(stored, F32) * scale, 0, 1)
        graph.output(x + ops.exp(ops.cast(Weight("b", DType.int8, [64], CPU), F32)))
    rng = np.random.default_rng(2)
    weights = {
        "a": rng.integers(-9, 9, (64, 64)).astype(np.int8),
        "b": rng.integers(-3, 3, 64).astype(np.int8),
        "scale": numbers(64, 1),
    }
    return engine.InferenceSession().load(graph, weights_registry=weights)


def outputs(model: Model, *arrays: Array) -> list[bytes]:
    """The bytes of the outputs of ``model``."""
    return [x.to_numpy().tobytes() for x in model(*(arrays or (X,)))]
