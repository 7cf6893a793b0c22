"""Times compilations: ``python -m benchmarks.compile_times [--json FILE]``.

* Every op of the op table alone, on its first sample, with no kernel in the cache. The run-time
  library is there already, as it is after the first load on a machine.
* A graph of 200 ops that becomes 40 different kernels.
* A body that is called once, and one that is called 50 times, with and without kernels in the
  cache.
* Turns of a loop.

A row has the wall time and the CPU time, which includes the compiler's: on a machine that others
use too, the CPU time says what a compilation costs. Two cores can halve the wall time of a graph of
several kernels.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maxlab import config, engine
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.ir import Shape
from maxlab.opset import OPSET, OpDef, Sample

CPU = DeviceRef.CPU()
KINDS = ("output", "chain", "constant", "external", "transfer", "host", "program")
"""Kinds of ops that have no kernel of their own on the CPU."""


def clocks() -> tuple[float, float]:
    """The wall clock, and the CPU time of this process and of compilers that have ended, in ms."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    used = sum(usage.ru_utime + usage.ru_stime for usage in found)
    return time.perf_counter() * 1e3, used * 1e3


class Cache:
    """A cache of kernels that is emptied before each measurement, but for the run-time library."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="maxlab-compile-"))
        os.environ["MAXLAB_CACHE_DIR"] = str(self.folder)
        config._config = None
        square = TensorType(DType.float32, ["n", 8], CPU)
        with Graph("warm", input_types=[square]) as graph:
            x = graph.inputs[0].tensor
            graph.output(ops.exp(x @ ops.constant(np.ones((8, 8), np.float32))))
        engine.InferenceSession().load(graph)
        self.kept = {path for path in self.folder.rglob("*") if path.is_file()}

    def empty(self) -> None:
        """Forget all kernels."""
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in self.kept:
                path.unlink()

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def timed(cache: Cache | None, make: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Milliseconds of ``make``: the median of the wall times, and of the CPU times.

    Each round is a process of its own, forked here, so that no round finds what another one has
    loaded; without ``cache``, ``make`` has run once before.
    """
    walls, used = [], []
    for _ in range(rounds):
        if cache is not None:
            cache.empty()
        wall, cpu = _forked(make, warm=cache is None)
        walls.append(wall)
        used.append(cpu)
    return {
        "wall_ms": round(statistics.median(walls), 2),
        "wall_ms_min": round(min(walls), 2),
        "cpu_ms": round(statistics.median(used), 2),
    }


def _forked(make: Callable[[], Any], warm: bool) -> tuple[float, float]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if warm:
                make()
            before = clocks()
            make()
            after = clocks()
            text = f"{after[0] - before[0]} {after[1] - before[1]}"
            os.write(writing, text.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        wall, cpu = map(float, file.read().split())
    os.waitpid(child, 0)
    return wall, cpu


# ---------------------------------------------------------------- single ops
def single(row: OpDef, sample: Sample) -> Graph:
    """A graph of ``row`` alone, for the arrays and attributes of ``sample``."""
    types = [TensorType(DType.from_numpy(a.dtype), Shape(a.shape), CPU) for a in sample.arrays]
    with Graph(row.name.removeprefix("mo."), input_types=types) as graph:
        function = graph.function
        made = row.infer(types, sample.attrs)
        op = function.create(row.name, function.inputs, made, dict(sample.attrs))
        function.block.append(op)
        function.block.append(function.create("mo.output", op.results, []))
    return graph


def single_ops(cache: Cache, rounds: int) -> dict[str, dict[str, float]]:
    """Of each op, the time of a cold load."""
    found = {}
    for name, row in OPSET.items():
        if row.kind in KINDS or row.samples is None or row.effect:
            continue
        samples = row.samples()
        if samples:
            session = engine.InferenceSession()
            graph = single(row, samples[0])
            found[name] = timed(cache, partial(session.load, graph), rounds)
    return found


# ---------------------------------------------------------------- whole graphs
def many_kernels() -> Graph:
    """A graph of 200 ops that becomes 40 kernels, no two of them alike."""
    unary = (ops.exp, ops.tanh, ops.sin, ops.sigmoid)
    with Graph("many", input_types=[TensorType(DType.float32, ["n", 64], CPU)]) as graph:
        x = graph.inputs[0].tensor
        for part in range(20):
            y = unary[part % 4](x * (1 + part / 64)) + part
            y = ops.tanh(y * 0.5) * y
            x = (y - ops.max(y, axis=0) * (part + 2)) * 0.1  # a reduction of columns stands alone
        graph.output(x)
    return graph


def called(times: int) -> tuple[Graph, dict[str, Any]]:
    """A graph that calls one transformer layer ``times`` times, and its weights."""
    width = 64
    rows = TensorType(DType.float32, ["b", 16, width], CPU)
    shapes = {"q": (width, width), "k": (width, width), "v": (width, width), "o": (width, width)}
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width)}

    def layer(x: Any) -> Any:
        w = {
            name: Weight(name, DType.float32, shape, CPU, _placeholder=True)
            for name, shape in shapes.items()
        }
        one, zero = (ops.constant(np.full(width, v, np.float32)) for v in (1, 0))
        h = ops.layer_norm(x, one, zero, 1e-5)
        scores = ops.softmax((h @ w["q"]) @ (h @ w["k"]).transpose(1, 2) / 8.0)
        x = x + (scores @ (h @ w["v"])) @ w["o"]
        h = ops.layer_norm(x, one, zero, 1e-5)
        return x + ops.gelu(h @ w["up"]) @ w["down"]

    with Graph("calls", input_types=[rows]) as graph:
        body = graph.add_subgraph("layer", layer, [rows])
        x: Any = graph.inputs[0]
        for n in range(times):
            (x,) = ops.call(body, x, prefix=f"{n}.")
        graph.output(x)
    rng = np.random.default_rng(0)
    data = {
        f"{n}.{name}": rng.standard_normal(shape).astype(np.float32)
        for n in range(times)
        for name, shape in shapes.items()
    }
    return graph, data


def calls(cache: Cache, rounds: int) -> dict[str, dict[str, float]]:
    """Loads of graphs that call a body once, and 50 times."""
    found = {}
    for times in (1, 50):
        graph, data = called(times)
        session = engine.InferenceSession()
        for name, options in (("", Options()), (" (written out)", Options(outline=False))):
            if times == 1 and name:
                continue

            def load(g: Graph = graph, d: Any = data, o: Options = options) -> None:
                session.load(g, weights_registry=d, options=o)  # noqa: B023 - called at once

            found[f"{times} calls{name}, cold"] = timed(cache, load, rounds)
            found[f"{times} calls{name}, warm"] = timed(None, load, rounds)
    return found


# ---------------------------------------------------------------- control flow
def turns(rounds: int) -> dict[str, dict[str, float]]:
    """Nanoseconds of a turn of a loop that counts, and of a call with one branch."""
    number = TensorType(DType.int64, [], CPU)

    def zero() -> Any:
        return ops.constant(0, DType.int64, CPU)

    with Graph("count", input_types=[number]) as graph:
        end = graph.inputs[0].tensor
        graph.output(*ops.while_loop(zero(), lambda i: i < end, lambda i: i + 1))
    with Graph("sum", input_types=[number]) as summing:
        end = summing.inputs[0].tensor
        graph_sum = ops.while_loop(
            (zero(), zero()), lambda i, s: i < end, lambda i, s: (i + 1, s + i * i)
        )
        summing.output(graph_sum[1])
    found = {}
    count = 1_000_000
    for name, one in (("count", graph), ("sum of squares", summing)):
        model = engine.InferenceSession().load(one)
        model(10)
        samples = []
        for _ in range(max(rounds, 5)):
            before = time.perf_counter()
            model(count)
            samples.append((time.perf_counter() - before) / count * 1e9)
        found[f"a turn: {name}"] = {
            "ns": round(statistics.median(samples), 2), "ns_min": round(min(samples), 2)
        }  # fmt: skip
    return found


def main() -> None:
    """Run everything and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    cache = Cache()
    try:
        single_rows = single_ops(cache, chosen.rounds)
        graph = many_kernels()
        session = engine.InferenceSession()
        times = timed(cache, lambda: session.load(graph), chosen.rounds)
        model = session.load(graph)
        distinct = len({k.symbol for k in model.kernels.values()})
        written = len([op for op in graph.function.ops if op.name != "mo.constant"]) - 1
        whole = {f"{written} ops, {distinct} kernels": times}
        whole |= calls(cache, chosen.rounds)
        loops = turns(chosen.rounds)
    finally:
        cache.remove()
    slow = sorted(single_rows.items(), key=lambda item: -item[1]["cpu_ms"])
    print(f"{len(single_rows)} ops alone, cold; the slowest:")
    for name, row in slow[:12]:
        print(f"  {name:28} {row['wall_ms']:8.1f} ms wall, {row['cpu_ms']:8.1f} ms CPU")
    for name, row in {**whole, **loops}.items():
        print(f"{name:32}", ", ".join(f"{key} {value}" for key, value in row.items()))
    if chosen.json is not None:
        result = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "machine": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
            "ops": single_rows,
            "graphs": whole,
            "control": loops,
        }
        chosen.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
