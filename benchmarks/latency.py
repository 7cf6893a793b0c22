"""Times what a person waits for: ``python -m benchmarks.latency [CASE …] [--json FILE]``.

Every run of a case is a process of its own; the cold ones begin with an empty kernel cache, so that
the run-time library is compiled too. A row has the median and the extremes of the wall time, and
the median of the CPU time, which includes the compiler's: on a busy machine only that one says what
a case costs. Cases of one process time many repetitions and give their median. Python's byte code
is kept between the runs, as it is for everybody who imports something twice.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BYTE_CODE = Path(tempfile.gettempdir()) / f"maxlab-latency-pyc-{os.getuid()}"

CLOCKS = """
import resource, sys, time
def now():
    t = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = time.process_time_ns() / 1e6
    return time.monotonic_ns() / 1e6, own + (t.ru_utime + t.ru_stime) * 1e3
def fine():
    return time.perf_counter_ns() / 1e6, time.process_time_ns() / 1e6
def took(a, b):
    return [b[0] - a[0], b[1] - a[1]]
def say(**rows):
    import json
    print(json.dumps(rows), flush=True)
"""

SMALL = """
def small(factor=0.5):
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType, ops
    with Graph("small", input_types=[TensorType(DType.float32, ["rows", 64])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.exp(x * factor + 1.0))
    return graph
weights = None
build = small
"""

MINILM = """
import contextlib, io
from benchmarks.tutorial import minilm, minilm_graph
with contextlib.redirect_stdout(io.StringIO()):
    names = minilm()
weights = names["minilm"].state_dict()
def build(factor=None):
    if factor is not None:
        ops = names["ops"]
        def call(self, x, bias):
            x = self.attention_norm(x + self.attention(x, bias))
            return self.output_norm(x + self.down(ops.gelu(self.up(x) * factor)))
        names["Block"].__call__ = call
    return minilm_graph(names)
"""

FIRST = """
graph = build()
from maxlab import engine
a = now()
model = engine.InferenceSession().load(graph, weights_registry=weights)
b = now()
say(load=took(a, b), process=[b[0] - float(sys.argv[1]), b[1]])
"""

AGAIN = """
from maxlab import engine
import statistics
graph, session = build(), engine.InferenceSession()
models, rows = [], []
for n in range(21):
    a = fine()
    models.append(session.load(graph, weights_registry=weights))
    rows.append(took(a, fine()))
say(load=[statistics.median(r[i] for r in rows[1:]) for i in (0, 1)])
"""

EDIT = """
from maxlab import engine
session = engine.InferenceSession()
models = [session.load(build(), weights_registry=weights)]
graph = build(1.25)
a = now()
models.append(session.load(graph, weights_registry=weights))
say(load=took(a, now()))
"""

IMPORT = """
a = fine()
import maxlab
b = fine()
from maxlab import engine, graph
c = fine()
say(maxlab=took(a, b), graph_and_engine=took(a, c))
"""

DISPATCH = """
import statistics
import numpy as np
from maxlab import engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType
with Graph("one", input_types=[TensorType(DType.float32, ["n"])]) as graph:
    graph.output(graph.inputs[0].tensor + 1)
model, x = engine.InferenceSession().load(graph), Tensor.from_numpy(np.zeros(16, np.float32))
execute, array, rows, called = model.execute, np.zeros(16, np.float32), [], []
for given, kept in ((x, rows), (array, called)):
    for _ in range(41):
        a = fine()
        for _ in range(2000):
            execute(given)
        kept.append([t / 2000 for t in took(a, fine())])
def middle(rows):
    return [statistics.median(r[i] for r in rows[1:]) for i in (0, 1)]
say(tensor=middle(rows), array=middle(called))
"""


@dataclass(frozen=True)
class Case:
    """What one process does: its code, its goals in milliseconds by part, and whether it starts
    from an empty cache."""

    code: str
    goals: dict[str, float | None]
    cold: bool = False


CASES = {
    "import": Case(IMPORT, {"maxlab": 200.0, "graph_and_engine": None}),
    "small_cold": Case(SMALL + FIRST, {"load": 500.0, "process": None}, cold=True),
    "minilm_cold": Case(MINILM + FIRST, {"load": 3000.0, "process": None}, cold=True),
    "small_new_process": Case(SMALL + FIRST, {"load": 10.0, "process": None}),
    "minilm_new_process": Case(MINILM + FIRST, {"load": 50.0, "process": None}),
    "small_again": Case(SMALL + AGAIN, {"load": 10.0}),
    "minilm_again": Case(MINILM + AGAIN, {"load": 50.0}),
    "small_one_op_edited": Case(SMALL + EDIT, {"load": 150.0}),
    "minilm_one_op_edited": Case(MINILM + EDIT, {"load": 150.0}),
    "dispatch": Case(DISPATCH, {"tensor": 0.005, "array": None}),
}


def run_once(case: Case, cache: Path) -> dict[str, list[float]]:
    """The wall and CPU milliseconds of each part of ``case``, run with the kernel cache ``cache``.

    Raises:
        RuntimeError: The process failed.
    """
    env = {**os.environ, "MAXLAB_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["PYTHONPYCACHEPREFIX"] = str(BYTE_CODE)
    start = time.monotonic_ns() / 1e6
    done = subprocess.run(
        [sys.executable, "-c", CLOCKS + case.code, str(start)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    parts: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return parts


def measure(name: str, repeats: int) -> list[dict[str, Any]]:
    """The rows of a case, one for each part."""
    case = CASES[name]
    made: dict[str, list[list[float]]] = {}
    shared = Path(tempfile.mkdtemp(prefix="maxlab-latency-"))
    try:
        run_once(case, shared)  # fills the cache, and that of byte code
        for number in range(repeats):
            edited = name.endswith("edited")
            cache = shared / str(number) if case.cold or edited else shared
            if edited:  # everything but the edit is in the cache
                run_once(CASES[name.replace("one_op_edited", "new_process")], cache)
            for part, times in run_once(case, cache).items():
                made.setdefault(part, []).append(times)
            if cache != shared:
                shutil.rmtree(cache, ignore_errors=True)
    finally:
        shutil.rmtree(shared, ignore_errors=True)
    return [
        {
            "case": f"{name}.{part}",
            "median_ms": statistics.median(wall for wall, _ in times),
            "min_ms": min(wall for wall, _ in times),
            "max_ms": max(wall for wall, _ in times),
            "cpu_ms": statistics.median(cpu for _, cpu in times),
            "goal_ms": case.goals[part],
            "runs": len(times),
        }
        for part, times in made.items()
    ]


def shown(ms: float | None) -> str:
    """``ms`` with a fitting unit."""
    if ms is None:
        return ""
    return f"{ms * 1e3:.2f} µs" if ms < 0.1 else f"{ms:.2f} ms" if ms < 10 else f"{ms:.0f} ms"


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| case | goal | median | min–max | CPU | met |", "|---|---:|---:|---:|---:|---|"]
    for row in rows:
        goal = row["goal_ms"]
        met = "" if goal is None else "yes" if row["median_ms"] < goal else "no"
        lines.append(
            f"| {row['case']} | {shown(goal)} | {shown(row['median_ms'])} "
            f"| {shown(row['min_ms'])} – {shown(row['max_ms'])} | {shown(row['cpu_ms'])} | {met} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all when none is named")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    before = os.getloadavg()[0]
    rows = [row for name in options.cases or CASES for row in measure(name, options.repeats)]
    print(table(rows))
    load = (before, os.getloadavg()[0])
    cores = len(os.sched_getaffinity(0))
    print(f"\nload before and after: {load[0]:.1f}, {load[1]:.1f}; {cores} cores")
    if options.json:
        date = dt.datetime.now(dt.UTC).date().isoformat()
        record = {"date": date, "load": load, "python": sys.version.split()[0], "rows": rows}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
