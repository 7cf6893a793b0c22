"""Times tensors that are computed when they are read, beside torch: ``python -m benchmarks.eager
[--rounds N] [--json FILE]``.

Both run the same chain of 20 operations on one thread, in one process and in turns: one chain of
maxlab, one of torch under ``inference_mode``. A chain of maxlab ends with the read of its result.
What happens once, such as a first import and a first compilation, is timed in processes of its own,
by the clock, and by the time of processors that it and the compiler take, which depends less on
what else is running. Each row has the median, and its interval at 95 % by the binomial
distribution.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SIZES = (16, 4096, 1 << 20)
OPS = 20

CLOCKS = """
import resource, time
def now():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), time.process_time() + children.ru_utime + children.ru_stime
def say(since):
    print(*[(then - now) * 1e3 for now, then in zip(since, now())])
"""

ONCE = {
    "import": """
a = now()
import maxlab.experimental.tensor
say(a)
""",
    "first": """
import numpy as np
from maxlab.experimental import functional as F
from maxlab.experimental.tensor import Tensor
x = Tensor.from_dlpack(np.ones(1000, np.float32))
y = Tensor.from_dlpack(np.ones(1000, np.float32))
a = now()
z = F.tanh(x * 1.5 + y)
z = F.exp(z - 0.25) / (F.abs(y) + 1.0)
z = F.sqrt(F.relu(z))
z.realize
say(a)
""",
    "unseen": """
import numpy as np
from maxlab.experimental import functional as F
from maxlab.experimental.tensor import Tensor
x = Tensor.from_dlpack(np.ones(1000, np.float32))
y = Tensor.from_dlpack(np.ones(1000, np.float32))
(x + y).realize
a = now()
z = F.tanh(x * 1.5 + y)
z = F.exp(z - 0.25) / (F.abs(y) + 1.0)
z = F.sqrt(F.relu(z))
z.realize
say(a)
""",
}
"""Programs that print how many milliseconds something takes, by the clock and of processors; the
chains have 10 operations."""


def interval(times: Sequence[float]) -> tuple[float, float, float]:
    """The median of ``times``, and the ends of its interval at 95 %."""
    ordered = sorted(times)
    count = len(ordered)
    reach = 0.98 * math.sqrt(count)
    low = max(0, math.floor(count / 2 - reach))
    high = min(count - 1, math.ceil(count / 2 + reach))
    return statistics.median(ordered), ordered[low], ordered[high]


def chain(x: Any, y: Any, relu: Callable[[Any], Any]) -> Any:
    """20 operations on ``x`` and ``y``."""
    for _ in range(OPS // 4):
        x = x * 1.01
        x = x + y
        x = x - 0.5
        x = relu(x)
    return x


def chains(rounds: int) -> dict[str, Any]:
    """The times of chains, in microseconds."""
    import torch

    from maxlab.experimental import functional as F  # noqa: N812 - as everybody calls it
    from maxlab.experimental.tensor import Tensor

    torch.set_num_threads(1)
    rows: dict[str, Any] = {}
    clock = time.perf_counter_ns
    with torch.inference_mode():
        for size in SIZES:
            a, b = (np.random.default_rng(n).random(size, np.float32) for n in (0, 1))
            ours = Tensor.from_dlpack(a), Tensor.from_dlpack(b)
            theirs = torch.from_numpy(a), torch.from_numpy(b)
            times: dict[str, list[float]] = {"recorded": [], "maxlab": [], "torch": []}
            made = chain(*ours, F.relu)
            np.testing.assert_allclose(made.numpy(), chain(*theirs, torch.relu), rtol=1e-5)
            for turn in range(rounds + 20):
                start = clock()
                made = chain(*ours, F.relu)
                between = clock()
                made.realize  # noqa: B018 - reading it computes
                end = clock()
                peer = clock()
                chain(*theirs, torch.relu)
                last = clock()
                if turn >= 20:
                    times["recorded"].append((between - start) / OPS / 1e3)
                    times["maxlab"].append((end - start) / 1e3)
                    times["torch"].append((last - peer) / 1e3)
            row = {name: interval(found) for name, found in times.items()}
            pairs = [t / m for t, m in zip(times["torch"], times["maxlab"], strict=True)]
            rows[str(size)] = {**row, "ratio": interval(pairs)}
    return rows


def once(rounds: int) -> dict[str, Any]:
    """The times of what happens once in a process, in milliseconds."""
    rows: dict[str, list[list[float]]] = {}

    def run(name: str, program: str, cache: str) -> None:
        made = subprocess.run(
            [sys.executable, "-c", CLOCKS + program],
            env={**os.environ, "MAXLAB_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        rows.setdefault(name, []).append([float(one) for one in made.stdout.split()])

    with tempfile.TemporaryDirectory() as warm:
        run("warming", ONCE["first"], warm)
        for _ in range(rounds):
            run("import maxlab.experimental.tensor", ONCE["import"], warm)
            run("10 operations seen by another process", ONCE["first"], warm)
            with tempfile.TemporaryDirectory() as empty:
                run("10 operations, and all that an empty cache lacks", ONCE["first"], empty)
            with tempfile.TemporaryDirectory() as empty:
                run("10 operations that nobody has seen", ONCE["unseen"], empty)
    del rows["warming"]
    return {
        name: dict(zip(("wall", "cpu"), map(interval, zip(*found, strict=True)), strict=True))
        for name, found in rows.items()
    }


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="of chains (default: 300)")
    parser.add_argument("--processes", type=int, default=7, help="of each kind (default: 7)")
    parser.add_argument("--json", help="write the numbers here")
    given = parser.parse_args()
    os.environ["MAXLAB_NUM_THREADS"] = "1"
    before = os.getloadavg()[0]
    found: dict[str, Any] = {"chains of 20, µs": chains(given.rounds), "once, ms": {}}
    for size, row in found["chains of 20, µs"].items():
        print(f"\n{size} elements")
        for name, (middle, low, high) in row.items():
            print(f"  {name:9} {middle:9.2f}  [{low:.2f}, {high:.2f}]")
    found["once, ms"] = once(given.processes)
    print()
    for name, row in found["once, ms"].items():
        (wall, *ends), (cpu, *limits) = row["wall"], row["cpu"]
        print(f"{name:50} {wall:8.1f} ms {ends}, of processors {cpu:.1f} ms {limits}")
    found["load"] = [before, os.getloadavg()[0]]
    print(f"\nload {before:.1f} before, {found['load'][1]:.1f} after")
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main()
