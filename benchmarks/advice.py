"""What advice predicts beside what its actions save, on models with one thing planted in each.

    python -m benchmarks.advice

For each model the first action of ``advice`` is tried. It should be the planted one, and save at
least 70 % of what was predicted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.analysis.advice import advice
from maxlab.analysis.trial import Trial, try_action
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.engine.times import time_text
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, Weight, ops

ENOUGH = 0.7


@dataclass(frozen=True, slots=True)
class Planted:
    """A model with one thing that is slow, and the action that mends it.

    Attributes:
        name: What is planted.
        action: The id of the action that should come first.
        make: Builds the model and inputs, ``scale`` times as small as the benchmark's.
    """

    name: str
    action: str
    make: Callable[[int], tuple[Model, list[Any]]]


def _normal(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


def weights_computed_in_every_run(scale: int = 1) -> tuple[Model, list[Any]]:
    """A weight is normalised in the graph, for a product of a few rows."""
    size = 1024 // scale
    w = Weight("w", DType.float32, [size, size], DeviceRef.CPU())
    with Graph("normalised weight", input_types=[TensorType(DType.float32, [4, size])]) as graph:
        x = graph.inputs[0].tensor
        scaled = ops.tanh(w) * ops.rsqrt(ops.sum(w * w, axis=-1) + 1e-6)
        graph.output(x @ scaled)
    model = engine.InferenceSession(num_threads=1).load(
        graph, weights_registry={"w": _normal(size, size)}
    )
    return model, [_normal(4, size)]


def weight_passed_as_input(scale: int = 1) -> tuple[Model, list[Any]]:
    """The matrix of a product is an input, and is laid out in every run."""
    size = 1024 // scale
    types = [TensorType(DType.float32, shape) for shape in ([8, size], [size, 2 * size])]
    with Graph("weight as input", input_types=types) as graph:
        x, w = (value.tensor for value in graph.inputs)
        graph.output(ops.relu(x @ w))
    model = engine.InferenceSession(num_threads=1).load(graph)
    return model, [_normal(8, size), _normal(size, 2 * size)]


def fusion_turned_off(scale: int = 1) -> tuple[Model, list[Any]]:
    """A chain of maps, each a kernel that goes through memory."""
    size = (4 << 20) // scale
    with Graph("chain", input_types=[TensorType(DType.float32, [size])]) as graph:
        x = graph.inputs[0].tensor
        for step in range(8):
            x = ops.abs(x * 1.25 - 0.5 * (step + 1))
        graph.output(x)
    session = engine.InferenceSession(num_threads=1)
    return session.load(graph, options=Options(fuse=False)), [_normal(size)]


def doubles(scale: int = 1) -> tuple[Model, list[Any]]:
    """NumPy's own dtype in a small network."""
    size = 256 // scale

    def layer(x: TensorValue, width: int) -> TensorValue:
        w = ops.constant(_normal(size, width, dtype=np.float64) / 16, DType.float64)
        return ops.tanh(x @ w)

    with Graph("doubles", input_types=[TensorType(DType.float64, [64, size])]) as graph:
        graph.output(layer(layer(graph.inputs[0].tensor, size), size))
    model = engine.InferenceSession(num_threads=1).load(graph)
    return model, [_normal(64, size, dtype=np.float64)]


def one_row_at_a_time(scale: int = 1) -> tuple[Model, list[Any]]:
    """Large weights, read for a single row."""
    size = 2048 // scale
    with Graph("one row", input_types=[TensorType(DType.float32, ["rows", size])]) as graph:
        x = graph.inputs[0].tensor
        w = ops.constant(_normal(size, 4 * size), DType.float32)
        graph.output(ops.relu(x @ w))
    return engine.InferenceSession(num_threads=1).load(graph), [_normal(1, size)]


PLANTED = (
    Planted("weights computed in every run", "hoist", weights_computed_in_every_run),
    Planted("weight passed as an input", "freeze:1", weight_passed_as_input),
    Planted("fusion turned off", "fuse", fusion_turned_off),
    Planted("float64", "dtype:float32", doubles),
    Planted("one row at a time", "batch:rows", one_row_at_a_time),
)


def tried(case: Planted, scale: int = 1) -> Trial:
    """The trial of the first action for ``case``."""
    model, inputs = case.make(scale)
    profile = model.profile(*inputs, runs=20)
    return try_action(profile, advice(profile)[0])


def main() -> int:
    """Print a row for each planted case; 1 when an action was another one or saved too little."""
    print(
        f"{'planted':32}{'first action':16}{'predicted':>10}{'saved':>10}{'of it':>7}  95 % of runs"
    )
    failed = False
    for case in PLANTED:
        trial = tried(case)
        share = trial.saved_ns / trial.predicted_ns
        failed |= trial.action.id != case.action or share < ENOUGH
        print(
            f"{case.name:32}{trial.action.id:16}{time_text(trial.predicted_ns):>10}"
            f"{time_text(trial.saved_ns):>10}{share:7.0%}  "
            f"{time_text(trial.low_ns)} … {time_text(trial.high_ns)}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
