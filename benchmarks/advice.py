"""What advice predicts beside what its actions save, on models with one thing planted in each.

    python -m benchmarks.advice
    python -m benchmarks.advice --slow-layer 10

For each model the first action of ``advice`` is tried. It should be the planted one, and save at
least 70 % of what was predicted.

``--slow-layer`` profiles the model of ``notebooks/profiling/01_reading_a_profile.ipynb``, one of
whose layers is four times as wide as its equals, so many times in a process each: as the machine
is, and with two more processes that spin. Told is how often the first advice is about the two
products of that layer and nothing else, how often about no other kernels, and how often the hottest
kernel is one of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
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
        graph, weights_registry={"w": _normal(size, size)}, options=Options(at_load=False)
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


NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks/profiling/01_reading_a_profile.ipynb"
REPETITION = "from benchmarks.advice import slow_layer_found; slow_layer_found()"
SPIN = "while True: pass"


def slow_layer() -> tuple[Model, Any]:
    """The model of the notebook's first code cell, and what it is run on."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    source = "".join(next(cell for cell in cells if cell["cell_type"] == "code")["source"])
    names: dict[str, Any] = {}
    exec(compile(source, str(NOTEBOOK), "exec"), names)
    return names["model"], names["data"]


def slow_layer_found() -> None:
    """Profile the model with the slow layer once, and print as JSON what was found in it."""
    model, data = slow_layer()
    profile = model.profile(data)
    products = sorted((k for k in profile.kernels if k.kind == "contract"), key=lambda k: -k.flops)
    planted = {kernel.id for kernel in products[:2]}
    actions = advice(profile)
    hottest = profile.hottest
    first = actions[0] if actions else None
    found = {
        "first": first is not None and planted == set(first.kernels),
        "part": first is not None and bool(first.kernels) and planted.issuperset(first.kernels),
        "hottest": hottest is not None and hottest.id in planted,
        "id": first.id if first is not None else "",
        "actions": len(actions),
        "spread": float(np.percentile(profile.wall_samples_ns, 75) / profile.wall_ns_min),
    }
    print(json.dumps(found))


@contextlib.contextmanager
def spinning(count: int) -> Iterator[None]:
    """``count`` processes that do nothing but use a processor."""
    started = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def repeated(times: int) -> int:
    """Print how often the slow layer comes first; 1 when that is in fewer than nine of ten."""
    failed = False
    for beside in (0, 2):
        with spinning(beside):
            found = [
                json.loads(subprocess.check_output([sys.executable, "-c", REPETITION], text=True))
                for _ in range(times)
            ]
            load = os.getloadavg()[0]
        first, part, hottest = (
            sum(row[name] for row in found) for name in ("first", "part", "hottest")
        )
        failed |= first < 0.9 * times
        spread = sorted(row["spread"] for row in found)
        print(
            f"{beside} spinning beside, load {load:.1f}: slow layer first in {first} of {times}, "
            f"in part {part}, hottest in {hottest} of {times}; "
            f"{sum(row['actions'] for row in found) / times:.1f} actions each; "
            f"slower quarter over fastest run {spread[0]:.2f} … {spread[-1]:.2f}; "
            f"first {', '.join(sorted({row['id'] or 'none' for row in found}))}"
        )
    return int(failed)


def main() -> int:
    """What the command line asks for; 1 when it is worse than promised."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--slow-layer", type=int, metavar="TIMES")
    times = parser.parse_args().slow_layer
    return repeated(times) if times else planted_cases()


def planted_cases() -> int:
    """Print a row for each planted case; 1 when an action was another one or saved too little."""
    print(
        f"{'planted':32}{'first action':16}{'predicted':>10}{'saved':>10}{'of it':>7}  "
        "predicted interval  of what was saved"
    )
    failed = False
    for case in PLANTED:
        trial = tried(case)
        action, predicted = trial.action, trial.predicted_ns
        failed |= action.id != case.action
        if predicted is None or action.low_ns is None or action.high_ns is None:
            print(f"{case.name:32}{action.id:16}no prediction: {action.withheld}")
            continue
        share = trial.saved_ns / predicted
        failed |= share < ENOUGH
        # Two intervals that do not meet: the prediction promised something else.
        apart = trial.low_ns > action.high_ns or trial.high_ns < action.low_ns
        print(
            f"{case.name:32}{action.id:16}{time_text(predicted):>10}"
            f"{time_text(trial.saved_ns):>10}{share:7.0%}  "
            f"{time_text(action.low_ns)} … {time_text(action.high_ns)}  "
            f"{time_text(trial.low_ns)} … {time_text(trial.high_ns)}"
            f"{'  outside' if apart else ''}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
