"""One-thread kernels as compilers of several families make them, beside another checkout.

Each pair of a checkout and a compiler is a process of its own. They take turns by rounds, forwards
and backwards, and a turn is the least processor time of some calls: what else the machine does
hardly counts. A ratio is the median over the rounds, with its interval of 95 % by bootstrap.

    python -m benchmarks.families --cc gcc --cc clang --old PATH --json result.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 25
TURN_S = 0.03
SEED = 5


def cases() -> dict[str, Callable[[], Callable[[], object]]]:
    """What is called and timed, by name."""
    from maxlab import engine
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType, ops

    rng = np.random.default_rng(SEED)
    weight = rng.normal(size=(512, 2048)).astype("f4")

    def made(shape: tuple[int, ...], body: Callable[[Any], Any]) -> Callable[[], Any]:
        def start() -> Callable[[], object]:
            graph = Graph("case", body, [TensorType(DType.float32, list(shape))])
            model = engine.InferenceSession(num_threads=1).load(graph)
            x = rng.normal(size=shape).astype("f4")
            return lambda: model.execute(x)

        return start

    def normed(x: Any) -> Any:
        one = ops.constant(np.ones(2048, "f4"), DType.float32)
        return ops.layer_norm(x, one, one, 1e-5)

    return {
        "tanh 1M": made((1 << 20,), ops.tanh),
        "max of rows 64x2048": made((64, 2048), lambda x: ops.max(x, axis=1)),
        "max and min of exp(x) 64x2048": made(
            (64, 2048), lambda x: (ops.max(ops.exp(x), axis=1), ops.min(ops.exp(x), axis=1))
        ),
        "softmax 64x2048": made((64, 2048), ops.softmax),
        "softmax(gelu) 64x2048": made((64, 2048), lambda x: ops.softmax(ops.gelu(x))),
        "layer_norm 64x2048": made((64, 2048), normed),
        "matmul 64x512x2048": made((64, 512), lambda x: x @ ops.constant(weight, DType.float32)),
        "top_k 64x2048": made((64, 2048), lambda x: ops.top_k(x, 5, axis=1)),
    }


def work() -> None:
    """Answer each name on standard input with microseconds of one call."""
    calls = {name: start() for name, start in cases().items()}
    for call in calls.values():
        call()
    print("ready", flush=True)
    for line in sys.stdin:
        call = calls[line.rstrip("\n")]
        best, end = float("inf"), time.monotonic() + TURN_S
        while time.monotonic() < end:
            begin = time.thread_time_ns()
            call()
            best = min(best, time.thread_time_ns() - begin)
        print(best / 1e3, flush=True)


def started(checkout: Path, cc: str, place: str) -> subprocess.Popen[str]:
    """A process for one checkout and compiler."""
    env = {**os.environ, "PYTHONPATH": f"{checkout}:{os.environ.get('PYTHONPATH', '')}"}
    env |= {"MAXLAB_CC": cc, "MAXLAB_CACHE_DIR": place, "MAXLAB_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True, cwd=checkout)


def interval(values: np.ndarray[Any, Any]) -> tuple[float, float, float]:
    """The median, and the ends of its interval of 95 %."""
    rng = np.random.default_rng(SEED)
    drawn = np.median(rng.choice(values, (2000, len(values))), axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(np.median(values)), float(low), float(high)


def main() -> None:
    """Time all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cc", action="append", default=[], help="a compiler, as MAXLAB_CC")
    parser.add_argument("--old", type=Path, help="another checkout")
    parser.add_argument("--cache", type=Path, help="where kernels are kept; zig is slow at first")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.worker:
        work()
        return
    here = Path(__file__).resolve().parents[1]
    checkouts = {"new": here} | ({"old": options.old.resolve()} if options.old else {})
    with tempfile.TemporaryDirectory() as folder:
        workers: dict[tuple[str, str], subprocess.Popen[str]] = {}
        for cc in options.cc or ["gcc"]:
            for name, checkout in checkouts.items():
                process = started(checkout, cc, str((options.cache or Path(folder)) / name))
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n", f"{name} {cc} did not start"
                workers[name, cc] = process
        found: dict[str, dict[tuple[str, str], list[float]]] = {}
        for case in cases():
            rows = found[case] = {key: [] for key in workers}
            for number in range(options.rounds):
                order = list(workers)
                for key in order[:: -1 if number % 2 else 1]:
                    process = workers[key]
                    assert process.stdin is not None
                    assert process.stdout is not None
                    process.stdin.write(f"{case}\n")
                    process.stdin.flush()
                    rows[key].append(float(process.stdout.readline()))
        for process in workers.values():
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
    result: dict[str, Any] = {"load": os.getloadavg()[0], "rounds": options.rounds, "cases": {}}
    first = options.cc[0] if options.cc else "gcc"
    for case, timed in found.items():
        arrays = {key: np.array(values) for key, values in timed.items()}
        kept = result["cases"][case] = {}
        print(case)
        for (name, cc), values in arrays.items():
            entry: dict[str, Any] = {"us": float(np.median(values))}
            line = f"  {name} {Path(cc.split()[0]).name:6} {np.median(values):9.1f} us"
            if cc != first:
                entry["over " + first] = interval(values / arrays[name, first])
            if name == "new" and ("old", cc) in arrays:
                entry["over old"] = interval(values / arrays["old", cc])
            for what, (middle, low, high) in list(entry.items())[1:]:
                line += f"   {what} {middle:.3f} [{low:.3f}, {high:.3f}]"
            kept[f"{name} {Path(cc.split()[0]).name}"] = entry
            print(line)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
