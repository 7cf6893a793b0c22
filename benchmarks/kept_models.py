"""What a kept model costs: ``python -m benchmarks.kept_models [--rounds 15] [--json FILE]``.

The sentence embedder of the second tutorial, with its real weights, is saved with
``model.save("minilm.mlmodel")``. Then processes take turns, each from its start to the first
number:

- ``python``: the interpreter alone, which prints a digit;
- ``numpy``: the same, after ``import numpy``: nothing that reads arrays can be faster;
- ``trusted``: ``python -m maxlab run minilm.mlmodel --input … --trusted``;
- ``untrusted``: the same without ``--trusted``: the graph is compiled here, its kernels are in the
  cache;
- ``graph``: a program that builds the graph, loads the weights and runs it, its plan and kernels in
  the cache: what one does without a kept model.

``modules``, ``loading`` and ``running`` are seconds inside of a process of ``trusted``, from a
program that takes the same way: what is imported, then what makes a model of the file, then its
first run. The machine's load is told with them, and beside the time on the wall the seconds of CPU,
which a machine that others use changes less: of the whole process, and of each part. Bars, on the
wall of a machine that is idle: 0.350 s to the first number of ``trusted``,
0.015 s of it ``loading``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
TOKENS = (1, 16)
BARS = {"trusted": 0.350, "loading": 0.015}

GRAPH = """
import numpy as np
from benchmarks.tutorial import minilm, minilm_graph
from maxlab import engine
names = minilm()
weights = names["minilm"].state_dict()
model = engine.InferenceSession().load(minilm_graph(names), weights_registry=weights)
print(model(*[np.load(path) for path in sys.argv[1:]])[0].to_numpy().reshape(-1)[0])
"""
INSIDE = """
import json, sys, time
def now():
    return time.perf_counter(), time.process_time()

begin = now()
import numpy as np
import maxlab.engine.kept.command as command
from maxlab.driver.device import CPU
from maxlab.engine.kept.loading import is_loadable, load_kept
from maxlab.engine.kept.opening import misfit, options_of
arrays = [np.load(path) for path in sys.argv[2:]]
imported = now()
model = command.loaded(sys.argv[1], True, None)
loaded = now()
first = model(*arrays)[0].to_numpy().reshape(-1)[0]
ran = now()
steps = {"modules": (begin, imported), "loading": (imported, loaded), "running": (loaded, ran)}
print(json.dumps({name: [b - a for a, b in zip(*two)] for name, two in steps.items()}))
"""


def save(folder: Path) -> tuple[Path, list[Path]]:
    """The kept model and its inputs, in ``folder``."""
    from benchmarks.tutorial import minilm, minilm_graph
    from maxlab import engine

    names = minilm()
    weights = names["minilm"].state_dict()
    model = engine.InferenceSession().load(minilm_graph(names), weights_registry=weights)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(1000, 20000, TOKENS), np.ones(TOKENS, np.int64)]
    paths = []
    for number, array in enumerate(arrays):
        paths.append(folder / f"input{number}.npy")
        np.save(paths[-1], array.astype(np.int64))
    model(*[np.load(path) for path in paths])
    model.save(folder / "minilm.mlmodel")
    return folder / "minilm.mlmodel", paths


def first_number(
    command: list[str], checkout: Path = ROOT, environment: dict[str, str] | None = None
) -> list[float]:
    """Seconds from the start of ``command`` in ``checkout`` to the first byte that it prints, and
    the seconds of CPU that all of it took."""
    given = {**(os.environ if environment is None else environment), "PYTHONUNBUFFERED": "1"}
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=checkout, env=given)
    assert process.stdout is not None
    byte = process.stdout.read(1)
    found = time.perf_counter() - begin
    process.stdout.read()
    process.stdout.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or not byte:
        raise RuntimeError(f"{command} failed")
    return [found, used.ru_utime + used.ru_stime]


def told(samples: list[list[float]]) -> dict[str, dict[str, float]]:
    """Of the time on the wall and of CPU of ``samples``: the median, and the quarter and three
    quarters of them."""
    found = {}
    for name, seconds in zip(("wall", "cpu"), zip(*samples, strict=True), strict=True):
        low, middle, high = statistics.quantiles(seconds, n=4)
        found[name] = {"median": middle, "low": low, "high": high, "best": min(seconds)}
    return found


def main() -> None:
    """Measures, and prints or writes what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="maxlab-kept-") as name:
        path, inputs = save(Path(name))
        time.sleep(3)  # a file that was just written is read again by each load
        given = [part for one in inputs for part in ("--input", str(one))]
        run = [sys.executable, "-m", "maxlab", "run", str(path), *given]
        commands = {
            "python": [sys.executable, "-c", "print(1)"],
            "numpy": [sys.executable, "-c", "import numpy; print(1)"],
            "trusted": [*run, "--trusted"],
            "untrusted": run,
            "graph": [sys.executable, "-c", "import sys" + GRAPH, *map(str, inputs)],
        }
        inside = [sys.executable, "-c", INSIDE, str(path), *map(str, inputs)]
        rows: dict[str, list[list[float]]] = {name: [] for name in commands}
        parts: dict[str, list[list[float]]] = {"modules": [], "loading": [], "running": []}
        for one in (*commands.values(), inside):  # once before, so that files are in memory
            subprocess.run(one, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        begin = os.getloadavg()[0]
        for _ in range(options.rounds):
            for name, command in commands.items():
                rows[name].append(first_number(command))
            done = subprocess.run(inside, cwd=ROOT, check=True, capture_output=True, text=True)
            for name, seconds in json.loads(done.stdout).items():
                parts[name].append(seconds)
        found: dict[str, Any] = {
            "rounds": options.rounds,
            "bytes": path.stat().st_size,
            "load": [begin, os.getloadavg()[0]],
            "seconds": {name: told(column) for name, column in {**rows, **parts}.items()},
            "bars": BARS,
        }
    for name, row in found["seconds"].items():
        bar = f"  bar {BARS[name] * 1e3:.0f}" if name in BARS else ""
        columns = [
            f"{one['median'] * 1e3:7.1f} ms {kind} ({one['low'] * 1e3:.1f} to "
            f"{one['high'] * 1e3:.1f}, best {one['best'] * 1e3:.1f})"
            for kind, one in row.items()
        ]
        print(f"{name:10} {'  '.join(columns)}{bar}")
    print(f"load of the machine {begin:.1f} to {found['load'][1]:.1f}, {found['bytes']:,} bytes")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
