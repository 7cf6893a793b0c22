"""What the start of a process costs: ``python -m benchmarks.starts [--old CHECKOUT]``.

Each sample is a process of its own. Processes take turns: every case once with this checkout, once
with the one at ``--old``, in an order that is reversed in each round. Byte code, kernels and plans
are in caches, one for each checkout, that are filled before. NumPy's BLAS has one thread: more of
them spin for tens of milliseconds, and nothing here gives them work.

- ``python`` and ``numpy``: the interpreter alone, and with ``import numpy``: nothing that reads
  arrays can be faster;
- ``import …``: the interpreter with that import;
- ``run a kept model``: ``python -m maxlab run minilm.mlmodel --trusted``, to its first number;
- ``of it loading``, ``of it the first run``: parts of a program that takes the same way;
- ``20 operations``: from the first operation on tensors to the result, in a process that has
  imported everything; another process has computed the same before.

``wall`` and ``cpu`` are milliseconds: the median, and its interval at 95 % by the binomial
distribution; ``best`` is the shortest sample, which other load changes least. ``ratio`` is the time
of processors of this checkout divided by that of the old one, pair by pair.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.eager import CLOCKS, interval
from benchmarks.kept_models import INSIDE, first_number
from benchmarks.slow_spots import cpu_of_this_machine

ROOT = Path(__file__).resolve().parent.parent
IMPORTS = (
    "maxlab",
    "maxlab.interfaces",
    "maxlab.experimental.tensor",
    "maxlab.engine, maxlab.graph",
)
CHAIN = """
import numpy as np
from benchmarks.eager import chain
from maxlab.experimental import functional as F
from maxlab.experimental.tensor import Tensor
x, y = (Tensor.from_dlpack(np.ones(1000, np.float32)) for _ in range(2))
a = now()
chain(x, y, F.relu).realize
say(a)
"""
SAVE = """
import pathlib, sys
from benchmarks.kept_models import save
save(pathlib.Path(sys.argv[1]))
"""

Sample = dict[str, tuple[float, float]]
"""Of each row of a case, milliseconds by the clock and of processors."""


@dataclass(frozen=True)
class Side:
    """A checkout with caches of its own, and the kept model that it saved."""

    checkout: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment that its processes have."""
        return {
            **os.environ,
            "PYTHONPATH": str(self.checkout),
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "MAXLAB_CACHE_DIR": str(self.folder / "cache"),
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }

    @property
    def inputs(self) -> list[str]:
        """The inputs of the kept model, as paths."""
        return [str(self.folder / f"input{number}.npy") for number in (0, 1)]

    def output(self, program: str, *arguments: str) -> str:
        """What ``program`` prints."""
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=self.checkout, env=self.environment, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip


def whole(name: str, program: str) -> Callable[[Side], Sample]:
    """A case that runs ``program`` from the start of Python to its end."""

    def measure(side: Side) -> Sample:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", program], cwd=side.checkout, env=side.environment
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{program} failed")
        return {name: (wall * 1e3, (used.ru_utime + used.ru_stime) * 1e3)}

    return measure


def chained(side: Side) -> Sample:
    """The case of 20 operations."""
    wall, cpu = side.output(CLOCKS + CHAIN).split()
    return {"20 operations": (float(wall), float(cpu))}


def kept(side: Side) -> Sample:
    """The case of a kept model."""
    model = str(side.folder / "minilm.mlmodel")
    given = [part for one in side.inputs for part in ("--input", one)]
    command = [sys.executable, "-m", "maxlab", "run", model, *given, "--trusted"]
    wall, cpu = first_number(command, side.checkout, side.environment)
    parts = json.loads(side.output(INSIDE, model, *side.inputs))
    rows = {"of it loading": parts["loading"], "of it the first run": parts["running"]}
    return {
        "run a kept model": (wall * 1e3, cpu * 1e3),
        **{name: (seconds[0] * 1e3, seconds[1] * 1e3) for name, seconds in rows.items()},
    }


CASES: dict[str, Callable[[Side], Sample]] = {
    "python": whole("python", "pass"),
    "numpy": whole("numpy", "import numpy"),
    **{f"import {name}": whole(f"import {name}", f"import {name}") for name in IMPORTS},
    "20 operations": chained,
    "run a kept model": kept,
}


def told(samples: list[tuple[float, float]]) -> dict[str, Any]:
    """Of the times by the clock and of processors in ``samples``: the median with its interval, and
    the best."""
    wall, cpu = ([one[which] for one in samples] for which in (0, 1))
    return {
        "wall": interval(wall),
        "cpu": interval(cpu),
        "best": (min(wall), min(cpu)),
    }


def measured(sides: dict[str, Side], cases: list[str], rounds: int) -> dict[str, dict[str, Any]]:
    """The rows of ``cases``, each with what was found for each of ``sides``."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for turn in range(rounds + 1):
        order = list(sides) if turn % 2 else list(reversed(sides))
        for case in cases:
            for side in order:
                for row, times in CASES[case](sides[side]).items():
                    if turn:  # the first ones fill caches
                        found.setdefault(row, {}).setdefault(side, []).append(times)
    rows: dict[str, dict[str, Any]] = {}
    for row, by_side in found.items():
        rows[row] = {side: told(samples) for side, samples in by_side.items()}
        if "old" in by_side:
            pairs = zip(by_side["new"], by_side["old"], strict=True)
            rows[row]["ratio"] = interval([new[1] / old[1] for new, old in pairs])
    return rows


def prepared(checkout: Path, folder: Path, cases: list[str]) -> Side:
    """``checkout`` with caches and a kept model in ``folder``."""
    side = Side(checkout.resolve(), folder)
    folder.mkdir()
    if "run a kept model" in cases:
        side.output(SAVE, str(folder))
        time.sleep(3)  # a file that was just written is read again by each load
    return side


def main() -> None:
    """Measure, print, and write JSON when asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--old", type=Path, help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    cases = chosen.cases or list(CASES)
    begin = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="maxlab-starts-") as name:
        places = {"new": ROOT} | ({} if chosen.old is None else {"old": chosen.old})
        sides = {
            side: prepared(checkout, Path(name) / side, cases) for side, checkout in places.items()
        }
        rows = measured(sides, cases, chosen.rounds)
    for row, found in rows.items():
        for side in sides:
            (wall, *ends), (cpu, *limits) = found[side]["wall"], found[side]["cpu"]
            best = found[side]["best"][0]
            print(
                f"{row:34} {side}: {wall:7.1f} ms [{ends[0]:.1f}, {ends[1]:.1f}], best {best:.1f}, "
                f"of processors {cpu:.1f} ms [{limits[0]:.1f}, {limits[1]:.1f}]"
            )
        if "ratio" in found:
            print("{:34} ratio {:.3f} [{:.3f}, {:.3f}]".format(row, *found["ratio"]))
    load = [begin, os.getloadavg()[0]]
    print(f"load of the machine {load[0]:.1f} to {load[1]:.1f}")
    if chosen.json is not None:
        told_all = {"cpu": cpu_of_this_machine(), "rounds": chosen.rounds, "load": load}
        chosen.json.write_text(json.dumps({**told_all, "ms": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
