"""What graphs of thousands of ops and kernels cost: ``python -m benchmarks.slow_spots [CASE ...]``.

    python -m benchmarks.slow_spots [--old PATH] [--rounds 3] [--json FILE]

Every sample is a process of its own. With ``--old``, processes with the maxlab of that checkout and
of this one take turns: old, new, new, old in each round. Told are medians of CPU times, of the
process itself and of the compilers it starts, garbage collections included: on a machine that
others use, wall times say what the others do. They are in the JSON too.

- ``flat N``: a cold load of N ops on one input that become N different kernels;
- ``chain N``: building and loading N products in a row, which are one kernel; N steps;
- ``pipeline N``: the same of N ops that fuse as far as they may;
- ``reload``: two graphs of 1,000 ops, one op of which differs, are built and loaded again in
  turns, as by a person who goes back and forth: their plans are found. The parts of a load are
  told beside it, without building. ``benchmarks.edits`` has changes that nobody made before;
- ``folding``: one run of a graph that reads what depends on weights and constants alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
CASES = (
    "flat 1000", "flat 4000", "chain 5000", "chain 20000", "pipeline 5000", "pipeline 20000",
    "reload", "folding",
)  # fmt: skip


# ---------------------------------------------------------------- one side, in a process of its own
def spent() -> dict[str, float]:
    """Seconds until now: the wall clock, and the CPU of this process and of its compilers."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall": time.perf_counter(),
        "own": own.ru_utime + own.ru_stime,
        "compilers": others.ru_utime + others.ru_stime,
    }


def timed(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What ``call`` gives, and the seconds it took."""
    before = spent()
    found = call()
    after = spent()
    return found, {name: after[name] - before[name] for name in after}


def rows() -> Any:
    """The type of all inputs here."""
    from maxlab.dtype import DType
    from maxlab.graph import TensorType

    return TensorType(DType.float32, ["rows", 64])


def flat(count: int) -> Any:
    """A graph of ``count`` different kernels that read the same input."""
    from maxlab.graph import Graph, ops

    unary = (ops.exp, ops.tanh, ops.sigmoid, ops.sqrt, ops.abs)
    with Graph("flat", input_types=[rows()]) as graph:
        x = graph.inputs[0].tensor
        graph.output(*(unary[n % 5](x * (1 + n / 64)) for n in range(count)))
    return graph


def chain(count: int) -> Any:
    """A graph of ``count`` products in a row."""
    from maxlab.graph import Graph, ops

    with Graph("chain", input_types=[rows()]) as graph:
        x = graph.inputs[0].tensor
        right = ops.constant(np.eye(64, dtype=np.float32))
        for _ in range(count):
            x = x @ right
        graph.output(x)
    return graph


def pipeline(count: int) -> Any:
    """A graph of ``count`` ops that fuse into kernels as large as kernels may be."""
    from maxlab.graph import Graph, ops

    with Graph("pipeline", input_types=[rows()]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(count // 4):
            x = ops.tanh(ops.transpose(ops.transpose(x, 0, 1), 0, 1) + x)
        graph.output(x)
    return graph


def layers(count: int, other_at: int = -1) -> Any:
    """A graph of ``count`` ops, ten a layer; that layer number ``other_at`` ends with another op.

    A layer is a product with a weight, norm, softmax and activation, so as models have them.
    """
    from maxlab.dtype import DType
    from maxlab.graph import DeviceRef, Graph, Weight, ops

    with Graph("layers", input_types=[rows()]) as graph:
        x = graph.inputs[0].tensor
        for n in range(count // 10):
            w = Weight(f"w{n}", DType.float32, [64, 64], DeviceRef.CPU())
            y = ops.softmax(x @ ops.transpose(w, 0, 1))
            z = ops.reshape(ops.reshape(y * 2.0, ["rows", 8, 8]), ["rows", 64])
            last = ops.exp if n == other_at else ops.tanh
            x = last(ops.sub(ops.gelu(z + x), y))
        graph.output(x)
    return graph


def weights_of(count: int) -> dict[str, Any]:
    """The weights of `layers`."""
    return {f"w{n}": np.full((64, 64), 0.01, np.float32) for n in range(count // 10)}


def folding(width: int) -> tuple[Any, dict[str, Any]]:
    """A graph whose run makes a weight and a constant ready that do not change, and its weights."""
    from maxlab.dtype import DType
    from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops

    one_row = TensorType(DType.float32, [1, width])
    with Graph("folding", input_types=[one_row]) as graph:
        x = graph.inputs[0].tensor
        for name in ("a", "b", "c", "d"):
            stored = Weight(name, DType.int8, [width, width], DeviceRef.CPU())
            scale = Weight(name + ".scale", DType.float32, [width, 1], DeviceRef.CPU())
            right = ops.transpose(ops.cast(stored, DType.float32) * scale, 0, 1)
            x = ops.tanh(x @ right)
        graph.output(x)
    rng = np.random.default_rng(0)
    data: dict[str, Any] = {}
    for name in ("a", "b", "c", "d"):
        data[name] = rng.integers(-127, 127, (width, width)).astype(np.int8)
        data[name + ".scale"] = np.full((width, 1), 1e-4, np.float32)
    return graph, data


def answer(case: str) -> dict[str, Any]:
    """The sample of ``case``: seconds by name, and what was counted."""
    os.environ["MAXLAB_CACHE_DIR"] = tempfile.mkdtemp(prefix="maxlab-slow-spots-")
    from maxlab.engine import InferenceSession

    session = InferenceSession(num_threads=2)
    session.load(chain(1))  # the run-time library
    name, _, size = case.partition(" ")
    if name in ("flat", "chain", "pipeline"):
        make = {"flat": flat, "chain": chain, "pipeline": pipeline}[name]
        graph, building = timed(lambda: make(int(size)))
        model, loading = timed(lambda: session.load(graph))
        kernels = len({kernel.symbol for kernel in model.kernels.values()})
        phases = {phase: ns / 1e9 for phase, ns in model.compiled.timings_ns.items()}
        return {"build": building, "load": loading, "kernels": kernels, "phases": phases}
    if name == "reload":
        data = weights_of(1000)
        for at in (-1, 50):
            session.load(layers(1000, at), weights_registry=data)
        samples: list[tuple[float, float, dict[str, int]]] = []
        for turn in range(7):
            graph, building = timed(lambda at=turn: layers(1000, 50 if at % 2 else -1))  # type: ignore[misc]
            model, loading = timed(lambda g=graph: session.load(g, weights_registry=data))  # type: ignore[misc]
            samples.append((building["own"], loading["own"], dict(model.compiled.timings_ns)))
        phases = {
            phase: statistics.median(s[2][phase] / 1e9 for s in samples) for phase in samples[0][2]
        }
        return {
            "build": {"own": statistics.median(s[0] for s in samples)},
            "load": {"own": statistics.median(s[1] for s in samples)},
            "phases": phases,
        }
    graph, data = folding(1024)
    model, loading = timed(lambda: session.load(graph, weights_registry=data))
    x = np.ones((1, 1024), np.float32)
    model.execute(x)
    _, running = timed(lambda: [model.execute(x) for _ in range(50)])
    run = {name: value / 50 for name, value in running.items()}
    return {"load": loading, "run": run}


# ---------------------------------------------------------------- both sides
def sample(checkout: Path, case: str) -> dict[str, Any]:
    """One sample of ``case`` with the maxlab of ``checkout``."""
    done = subprocess.run(
        [sys.executable, __file__, "--worker", case],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        cwd=tempfile.gettempdir(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def samples_of(
    sample: Callable[[Path], dict[str, Any]], old: Path | None, rounds: int
) -> dict[str, list[dict[str, Any]]]:
    """What ``sample`` gives for this checkout and, where it is given, for that at ``old``, by side;
    the two take turns."""
    sides = {"new": ROOT} | ({} if old is None else {"old": old.resolve()})
    turns = ["new"] if old is None else ["old", "new", "new", "old"]
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in turns:
            found[side].append(sample(sides[side]))
    return found


def medians(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Of dicts with the same names, the median of each number in them."""
    found: dict[str, Any] = {}
    for name, first in samples[0].items():
        column = [one[name] for one in samples]
        found[name] = medians(column) if isinstance(first, dict) else statistics.median(column)
    return found


def cpu_of_this_machine() -> str:
    """What ``lscpu`` calls the CPU, and how many it has."""
    lines = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    pairs = dict(line.split(":", 1) for line in lines.splitlines() if ":" in line)
    return f"{pairs.get('Model name', 'unknown').strip()}, {os.cpu_count()} CPUs"


def told(row: dict[str, Any]) -> str:
    """``row`` in a line."""
    parts = []
    for name in ("build", "load", "run"):
        if name in row:
            compilers = row[name].get("compilers", 0.0)
            more = f" + {compilers:.2f} s of compilers" if compilers > 0.01 else ""
            parts.append(f"{name} {row[name]['own'] * 1e3:.1f} ms{more}")
    return ", ".join(parts)


def main() -> None:
    """Measure, print, and write JSON when asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--old", type=Path, help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found: dict[str, Any] = {
        "cpu": cpu_of_this_machine(), "rounds": chosen.rounds, "load_before": os.getloadavg(),
        "unit": "seconds; medians", "cases": {},
    }  # fmt: skip
    for case in chosen.cases or CASES:
        samples = samples_of(partial(sample, case=case), chosen.old, chosen.rounds)
        found["cases"][case] = {side: medians(ones) for side, ones in samples.items()}
        for side, row in found["cases"][case].items():
            print(f"{case:16} {side}: {told(row)}", flush=True)
    found["load_after"] = os.getloadavg()
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(answer(sys.argv[2])))
    else:
        main()
