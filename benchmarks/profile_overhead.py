"""What profiling costs while it is on, what it costs while it is off, and what it leaves out.

    python -m benchmarks.profile_overhead [CASE ...] [--rounds 60] [--threads N]

For each case, runs with and without timing take turns, forwards and backwards by rounds (ABBA), so
that what else the machine does meets both alike. Told are

- ``on``: how much longer a run takes while every kernel and thread is timed, the median over the
  rounds of the ratio of the two in one round, and where it lies with 95 % (bootstrap);
- ``off``: how much longer ``model.execute`` takes for the question whether somebody records runs:
  what asking it a second time adds;
- ``recorded``: the same for a run inside of ``maxlab.record()``, its bookkeeping included;
- ``kernels_of_the_run``: the kernels of a run together, as a fraction of the run as its caller sees
  it;
- ``spans``: nanoseconds of an empty span of ``maxlab.profiler``, off and on.

With one thread, ratios are of the CPU's time for the thread, which hardly depends on what else is
running; with more, of the time on the wall, and only a quiet machine tells something.

Written as JSON to standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab import engine, profiler, trace
from maxlab.analysis.recording import record
from maxlab.dtype import DType
from maxlab.engine.stamps import stacked
from maxlab.graph import Graph, TensorType, ops

Array = np.ndarray[Any, Any]
Clock = Callable[[], int]
Case = tuple[engine.Model, list[Array]]

TURN_NS = 10_000_000
"""A turn repeats a run until it lasted about so long."""


def dispatch(session: engine.InferenceSession) -> Case:
    """One kernel of 16 items: all of it is the cost of a call."""
    with Graph("dispatch", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(graph.inputs[0].tensor + 1)
    return session.load(graph), [np.zeros(16, np.float32)]


def hundred(session: engine.InferenceSession) -> Case:
    """A hundred small kernels of rows, which nothing fuses."""
    with Graph("hundred", input_types=[TensorType(DType.float32, [64, 256])]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(100):
            x = ops.transpose(ops.softmax(x), 0, 1)
        graph.output(x)
    return session.load(graph), [np.random.default_rng(0).random((64, 256), np.float32)]


def minilm(session: engine.InferenceSession, batch: int, length: int) -> Case:
    """The sentence embedder of the tutorial, with random tokens."""
    from benchmarks.tutorial import minilm as build
    from benchmarks.tutorial import minilm_graph

    names = build()
    model = session.load(minilm_graph(names), weights_registry=names["minilm"].state_dict())
    tokens = np.random.default_rng(0).integers(0, 30000, (batch, length))
    return model, [tokens.astype(np.int64), np.ones((batch, length), np.int64)]


CASES: dict[str, Callable[[engine.InferenceSession], Case]] = {
    "dispatch": dispatch,
    "hundred_kernels": hundred,
    "minilm_1x16": lambda session: minilm(session, 1, 16),
    "minilm_8x64": lambda session: minilm(session, 8, 64),
}


def ratios(
    first: Callable[[], object], second: Callable[[], object], rounds: int, clock: Clock
) -> Array:
    """How much longer ``second`` takes than ``first``, minus 1, in each of ``rounds`` rounds."""
    start = time.perf_counter_ns()
    for call in (first, second):
        call()
    once = (time.perf_counter_ns() - start) / 2
    repeats = max(1, int(TURN_NS / max(once, 1)))

    def turn(call: Callable[[], object]) -> int:
        begin = clock()
        for _ in range(repeats):
            call()
        return clock() - begin

    found = []
    for _ in range(rounds):
        a, b = turn(first), turn(second)
        b, a = b + turn(second), a + turn(first)
        found.append(b / a - 1)
    return np.array(found)


def told(samples: Array) -> dict[str, float]:
    """The median of ``samples``, and the interval in which it lies with 95 % (bootstrap)."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(samples, (4000, len(samples))), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return {"median": float(np.median(samples)), "low": float(low), "high": float(high)}


def measure(case: Case, rounds: int) -> dict[str, Any]:
    """What is told of one case."""
    model, inputs = case
    tensors = model.inputs_of(inputs)
    timer = model.timer()

    def plain() -> None:
        model.execute(*tensors)

    def asked_twice() -> None:
        if trace.run_watcher is not None or trace.run_recorder is not None:
            raise RuntimeError("somebody records runs: the numbers would be of that")
        model.execute(*tensors)

    def timed() -> None:
        timer.run(tensors)

    clock = time.thread_time_ns if model.num_threads == 1 else time.perf_counter_ns
    on = ratios(plain, timed, rounds, clock)
    off = ratios(plain, asked_twice, rounds, clock)
    rows = []
    for _ in range(rounds):
        timed()
        rows.append(timer.taken())
    stamps = stacked(rows)
    calls = stamps.calls[:, 1] - stamps.calls[:, 0]
    profile = model.profile(*tensors, runs=rounds)
    return {
        "kernels": len(model.compiled.plan.steps),
        "run_us": profile.wall_ns / 1e3,
        "on": told(on),
        "off": told(off),
        "recorded": told(recorded(model, tensors, rounds, clock)),
        "kernels_of_the_run": told(stamps.spent.sum(axis=1) / calls),
        "profile_kernels_over_wall": profile.kernel_ns / profile.wall_ns,
        "profile_fastest_over_fastest": sum(k.ns_min for k in profile.kernels)
        / profile.wall_ns_min,
    }


def recorded(model: engine.Model, tensors: Sequence[Any], rounds: int, clock: Clock) -> Array:
    """How much longer a call takes while it is recorded."""
    with record():
        recorder = trace.run_recorder

        def plain() -> None:
            trace.run_recorder = None
            model(*tensors)

        def inside() -> None:
            trace.run_recorder = recorder
            model(*tensors)

        return ratios(plain, inside, rounds, clock)


def spans(count: int = 20_000) -> dict[str, float]:
    """Nanoseconds of one empty span, while profiling is off and while it is on."""
    found = {}
    before = profiler.is_enabled()
    for name, on in (("off_ns", False), ("on_ns", True)):
        profiler.enable(on)
        tracer = profiler.Tracer()
        times = []
        for _ in range(9):
            begin = time.perf_counter_ns()
            for _ in range(count):
                tracer.push("x")
                tracer.pop()
            times.append((time.perf_counter_ns() - begin) / count)
        found[name] = float(np.median(times))
    profiler.enable(before)
    return found


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown case {min(unknown)!r}; there are {', '.join(CASES)}")
    session = engine.InferenceSession(num_threads=options.threads)
    found: dict[str, Any] = {"threads": session.num_threads, "load_before": os.getloadavg()[0]}
    for name in options.cases or CASES:
        found[name] = measure(CASES[name](session), options.rounds)
    found["spans"] = spans()
    found["load_after"] = os.getloadavg()[0]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
