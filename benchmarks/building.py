"""What it costs to build, check, rewrite, show and change a graph, beside another checkout.

    python -m benchmarks.building --old PATH [CASE ...] [--rounds 40] [--json FILE]

Two processes, one with the maxlab of this checkout and one with that at PATH, take turns: old, new,
new, old in each round. Every five rounds two new processes begin, since where its memory lies makes
a process some per cent faster or slower for all of its life. A sample is the CPU time of a process
for one run of a case, garbage collections included, which hardly depends on what else the machine
does. A ratio is that of the sums of a round, ``new / old``: below 1 this checkout is faster. Told
are the medians of both, the median ratio, and where it lies with 95 % (bootstrap over pairs of
processes). A case is no slower than it was when its interval begins at 1 or below.

- ``record``: ``ops.add`` in a graph, an op with its location, on 1,000 ops;
- ``verify``: the verifier on 10,000 ops, types included;
- ``canonicalise`` and ``pipeline``: the pass, and all passes, on a fresh copy of 10,000 ops;
- ``picture``: the Python side of a first view of 1,000 ops: the saved document, its text, a live
  view, and the answer to the page's request for the document;
- ``load``: ``InferenceSession.load`` of a graph of 1,000 ops whose kernels are compiled;
- ``compile``: the same with kernels that nobody has compiled, without the compiler's own processes;
- ``run``: a program of three small kernels, 5,000 times;
- ``dispatch``: one kernel on 16 numbers, 20,000 times;
- ``loop``: one of three turns, 5,000 times;
- ``computed``: ``nonzero`` and its computed dim, 2,000 times;
- ``simulated``: three kernels on a simulated GPU, 1,000 times;
- ``minilm``: the tutorial's model on 1 × 16 tokens, one thread, 10 times;
- ``edit``: one op of 1,000 reads another value; the view shows it again;
- ``rerun``: the view gets a graph of a cell that ran again, of whose 1,000 ops one is another op.

The last two also say how many bytes the kernel sends to the page, as JSON and buffers.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

CASES = (
    "record",
    "verify",
    "canonicalise",
    "pipeline",
    "picture",
    "load",
    "compile",
    "run",
    "dispatch",
    "loop",
    "computed",
    "simulated",
    "minilm",
    "edit",
    "rerun",
)
UNITS = {
    "record": ("µs an op", 1e6),  # of 1,000 ops, in nanoseconds
    "dispatch": ("µs a run", 2e7),  # of 20,000 runs
    "run": ("µs a run", 5e6),
    "loop": ("µs a run", 5e6),
    "computed": ("µs a run", 2e6),
    "simulated": ("µs a run", 1e6),
    "minilm": ("ms a run", 1e7),
}
ROUNDS = 5
"""Rounds of a pair of processes."""

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[1]


# ---------------------------------------------------------------- one side, in a process of its own
def graph_of(count: int, other_at: int = -1) -> Any:
    """A graph of about ``count`` ops, a tenth of which passes remove.

    Args:
        count: How many ops, a multiple of 10.
        other_at: The number of the block of ten ops that ends with another op than its fellows.
    """
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType, ops

    with Graph("large", input_types=[TensorType(DType.float32, ["rows", 64])]) as graph:
        x = graph.inputs[0].tensor
        skip = x
        for number in range(count // 10):
            y = ops.tanh(ops.add(x, skip))
            z = ops.sigmoid(x)
            twice = ops.mul(ops.add(y, z), ops.add(y, z))
            flat = ops.reshape(ops.reshape(twice, ["rows", 8, 8]), ["rows", 64])
            last = ops.exp if number == other_at else ops.tanh
            x, skip = last(ops.sub(flat, z)), y
        graph.output(x)
    return graph


def function_of(graph: Any) -> Any:
    """The IR of ``graph``."""
    found = getattr(graph, "function", None)
    return graph.function if found is None else found


class Wire:
    """Counts what a view sends: bytes of JSON and of buffers."""

    def __init__(self, view: Any) -> None:
        self.bytes = 0
        view.comm.send = self.send

    def send(self, data: Any = None, buffers: Any = None, **_: Any) -> None:
        """Take one message of the view's channel."""
        self.bytes += len(json.dumps(data)) + sum(len(part) for part in buffers or ())


def viewed(graph: Any) -> tuple[Any, Wire]:
    """A live view of ``graph`` whose page has asked for the document, and what it sends through."""
    from maxlab.lab import protocol
    from maxlab.lab.widget import GraphView

    view = GraphView(graph)
    wire = Wire(view)
    # Checkouts before the first numbered protocol do not look at the number.
    number = getattr(protocol, "PROTOCOL", 1)
    view._received(view, {"type": "need_document", "protocol": number}, [])
    assert wire.bytes > 10_000, "the document went somewhere else"
    return view, wire


Timed = Callable[[Callable[[], object]], None]


def record(timed: Timed) -> Iterator[int]:
    """1,000 times ``ops.add``."""
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType, ops

    kind = TensorType(DType.float32, ["rows", 64])
    while True:
        with Graph("adds", input_types=[kind, kind]) as graph:
            x, y = (value.tensor for value in graph.inputs)

            def adds(x: Any = x, y: Any = y) -> None:
                for _ in range(1000):
                    x = ops.add(x, y)

            timed(adds)
        yield 0


def verify(timed: Timed) -> Iterator[int]:
    """The verifier on 10,000 ops."""
    from maxlab.opset.verify import verify

    function = function_of(graph_of(10_000))
    while True:
        timed(lambda: verify(function))
        yield 0


def passes(timed: Timed, only: str | None) -> Iterator[int]:
    """The pass ``only``, or all of them, on a fresh copy of 10,000 ops."""
    from maxlab.compiler.passes import PIPELINE, run

    function = function_of(graph_of(10_000))
    chosen = [(name, one) for name, one in PIPELINE if only in (None, name)]
    while True:
        copy = function.clone()
        timed(partial(run, copy, chosen))
        yield 0


def picture(timed: Timed) -> Iterator[int]:
    """A first view of 1,000 ops."""
    from maxlab.lab.display import mimebundle
    from maxlab.lab.protocol import GRAPH_MIME

    def show(graph: Any) -> None:
        bundle = mimebundle(graph, include={GRAPH_MIME, "text/plain"})
        assert set(bundle) == {GRAPH_MIME, "text/plain"}
        wires.append(viewed(graph)[1])

    wires: list[Wire] = []
    graph = graph_of(1000)
    while True:
        timed(lambda: show(graph))
        yield wires.pop().bytes


def load(timed: Timed) -> Iterator[int]:
    """A graph of 1,000 ops that was loaded before."""
    from maxlab.engine import InferenceSession

    session, graph = InferenceSession(num_threads=1), graph_of(1000)
    while True:
        timed(partial(session.load, graph))
        yield 0


def small(factor: float) -> Any:
    """A graph of three kernels."""
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType, ops

    kind = TensorType(DType.float32, [4, 8])
    with Graph("small", input_types=[kind]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(x * factor), ops.sum(x), ops.softmax(ops.sum(x + factor)))
    return graph


def compile_new(timed: Timed) -> Iterator[int]:
    """Kernels that nobody has compiled."""
    from maxlab.engine import InferenceSession

    session = InferenceSession(num_threads=1)
    while True:
        timed(partial(session.load, small(time.time())))
        yield 0


def run(timed: Timed) -> Iterator[int]:
    """A small model, 5,000 times."""
    from maxlab.engine import InferenceSession

    model = InferenceSession(num_threads=1).load(small(2.0))
    x = np.ones((4, 8), np.float32)

    def runs() -> None:
        for _ in range(5000):
            model.execute(x)

    while True:
        timed(runs)
        yield 0


def repeated(timed: Timed, call: Callable[[], object], runs: int) -> Iterator[int]:
    """``call``, so many times."""

    def calls() -> None:
        for _ in range(runs):
            call()

    call()  # what is bound and recorded first counts for nobody
    call()
    while True:
        timed(calls)
        yield 0


def model_of(body: Callable[[Any], Any], shape: list[Any]) -> Any:
    """The model of ``body`` on one thread, which takes floats of ``shape``."""
    from maxlab.dtype import DType
    from maxlab.engine import InferenceSession
    from maxlab.graph import Graph, TensorType

    with Graph("timed", input_types=[TensorType(DType.float32, shape)]) as graph:
        graph.output(body(graph.inputs[0].tensor))
    return InferenceSession(num_threads=1).load(graph)


def dispatch(timed: Timed) -> Iterator[int]:
    """One kernel on 16 numbers."""
    from maxlab.driver import Tensor

    model, x = model_of(lambda x: x + 1, [16]), Tensor.from_numpy(np.ones(16, np.float32))
    return repeated(timed, lambda: model(x), 20_000)


def loop(timed: Timed) -> Iterator[int]:
    """Three turns of a loop."""
    from maxlab.dtype import DType
    from maxlab.graph import DeviceRef, ops

    def body(x: Any) -> Any:
        zero = ops.constant(0, DType.int64, DeviceRef.CPU())
        return ops.while_loop([zero, x], lambda i, _: i < 3, lambda i, y: [i + 1, y * 2 + x])[1]

    model, x = model_of(body, [16]), np.ones(16, np.float32)
    return repeated(timed, lambda: model(x), 5000)


def computed(timed: Timed) -> Iterator[int]:
    """A dim whose size is computed."""
    from maxlab.graph import ops

    model, x = (
        model_of(lambda x: ops.nonzero(x, "hits"), ["n"]),
        np.eye(4, dtype=np.float32).ravel(),
    )
    return repeated(timed, lambda: model(x), 2000)


def simulated(timed: Timed) -> Iterator[int]:
    """Kernels on a simulated GPU, and what they make."""
    from maxlab import driver
    from maxlab.dtype import DType
    from maxlab.engine import InferenceSession
    from maxlab.graph import DeviceRef, Graph, TensorType, ops

    driver.use_simulator()
    gpu = driver.Accelerator()
    kind = TensorType(DType.float32, [4, 8], DeviceRef.GPU())
    with Graph("timed", input_types=[kind]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(x * 2), ops.softmax(ops.sum(x + 2)))
    model = InferenceSession(devices=[gpu], num_threads=1).load(graph)
    given = driver.Tensor.from_numpy(np.ones((4, 8), np.float32)).to(gpu)
    return repeated(timed, lambda: model.run_to_the_end(given), 1000)


def minilm(timed: Timed) -> Iterator[int]:
    """The tutorial's model on one sentence."""
    from benchmarks import tutorial
    from maxlab.engine import InferenceSession

    with contextlib.redirect_stdout(sys.stderr):  # the tutorial says what it loads
        names = tutorial.minilm()
    network, rng = names["minilm"], np.random.default_rng(0)
    ids, mask = rng.integers(1000, 20000, (1, 16)), np.ones((1, 16), np.int64)
    graph = tutorial.minilm_graph(names)
    model = InferenceSession(num_threads=1).load(graph, weights_registry=network.state_dict())
    return repeated(timed, lambda: model(ids, mask), 10)


def edit(timed: Timed) -> Iterator[int]:
    """One op of 1,000 reads another value."""
    graph = graph_of(1000)
    view, wire = viewed(graph)
    ops = function_of(graph).ops
    op = next(op for op in ops[len(ops) // 2 :] if op.name == "mo.sub")
    values = [op.operands[1], op.operands[0]]
    turn = 0
    while True:
        turn += 1
        wire.bytes = 0

        def change(turn: int = turn) -> None:
            op.set_operand(1, values[turn % 2])
            view.update()

        timed(change)
        yield wire.bytes


def rerun(timed: Timed) -> Iterator[int]:
    """A cell that ran again, with one op of 1,000 changed."""
    turn = 0
    view, wire = viewed(graph_of(1000))
    while True:
        turn += 1
        graph = graph_of(1000, 50 if turn % 2 else -1)
        wire.bytes = 0
        timed(partial(view.update, graph))
        yield wire.bytes


WORK: dict[str, Callable[[Timed], Iterator[int]]] = {
    "record": record,
    "verify": verify,
    "canonicalise": lambda timed: passes(timed, "canonicalise"),
    "pipeline": lambda timed: passes(timed, None),
    "picture": picture,
    "load": load,
    "compile": compile_new,
    "run": run,
    "dispatch": dispatch,
    "loop": loop,
    "computed": computed,
    "simulated": simulated,
    "minilm": minilm,
    "edit": edit,
    "rerun": rerun,
}


def answer_lines() -> None:
    """Run the case that each line of standard input names; print its nanoseconds and bytes."""
    import maxlab

    spent: list[int] = []

    def timed(call: Callable[[], object]) -> None:
        gc.collect()
        begin = time.process_time_ns()
        call()
        spent.append(time.process_time_ns() - begin)

    print(json.dumps({"maxlab": str(Path(str(maxlab.__file__)).parent)}), flush=True)
    running: dict[str, Iterator[int]] = {}
    for line in sys.stdin:
        name = line.strip()
        sent = next(running.setdefault(name, WORK[name](timed)))
        print(json.dumps({"ns": spent.pop(), "bytes": sent}), flush=True)


# ---------------------------------------------------------------- both sides
class Side:
    """A process that runs cases with the maxlab of ``checkout``."""

    def __init__(self, checkout: Path, seed: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONHASHSEED": str(seed)},
            cwd=tempfile.gettempdir(),  # far from both: paths in documents are equally long
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = Path(self._answer()["maxlab"])
        assert found == checkout.resolve() / "maxlab", f"{found} is not below {checkout}"

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker ended with {self.process.wait()}")
        return json.loads(line)

    def run(self, case: str) -> tuple[int, int]:
        """Nanoseconds and bytes of one run of ``case``."""
        assert self.process.stdin is not None
        print(case, file=self.process.stdin, flush=True)
        told = self._answer()
        return told["ns"], told["bytes"]

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def interval(ratios: Array) -> tuple[float, float, float]:
    """The median of ``ratios``, [pairs of processes, rounds], and the bounds between which it lies
    with 95 %, whichever pairs there had been."""
    rng = np.random.default_rng(0)
    drawn = ratios[rng.integers(len(ratios), size=(4000, len(ratios)))]
    low, high = np.percentile(np.median(drawn, axis=(1, 2)), [2.5, 97.5])
    return float(np.median(ratios)), float(low), float(high)


def compared(old: Path, new: Path, case: str, pairs: int) -> dict[str, Any]:
    """The row of ``case`` over so many pairs of processes: medians, ratio and bytes."""
    ns: dict[Path, list[int]] = {old: [], new: []}
    sent: dict[Path, list[int]] = {old: [], new: []}
    ratios = np.empty((pairs, ROUNDS))
    for pair in range(pairs):
        sides = {path: Side(path, pair) for path in (old, new)}
        for side in sides.values():  # what the first run of a case prepares counts for nobody
            side.run(case)
        for turn in range(ROUNDS):
            for path in (old, new, new, old):
                spent, size = sides[path].run(case)
                ns[path].append(spent)
                sent[path].append(size)
            ratios[pair, turn] = sum(ns[new][-2:]) / sum(ns[old][-2:])
        for side in sides.values():
            side.close()
    ratio, low, high = interval(ratios)
    unit, scale = UNITS.get(case, ("ms", 1e6))
    row = {
        "case": case,
        "unit": unit,
        "old": float(np.median(ns[old])) / scale,
        "new": float(np.median(ns[new])) / scale,
        "ratio": ratio,
        "low": low,
        "high": high,
    }
    if any(sent[old]):
        row |= {"old_bytes": max(sent[old]), "new_bytes": max(sent[new])}
    return row


def line_of(row: dict[str, Any]) -> str:
    """``row`` as a line of the table."""
    sent = f"{row['old_bytes']:,} → {row['new_bytes']:,}" if "old_bytes" in row else ""
    return (
        f"| {row['case']} | {row['old']:.2f} {row['unit']} | {row['new']:.2f} {row['unit']} "
        f"| {row['ratio']:.3f} ({row['low']:.3f} … {row['high']:.3f}) | {sent} |"
    )


def commit_of(checkout: Path) -> str:
    """The commit of ``checkout``, with a ``+`` when files of it differ from that."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=10"],
        cwd=checkout, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return told.stdout.strip() or "unknown"


def main() -> None:
    """Measure, print the table, and write JSON when asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--old", type=Path, required=True, help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown case {min(unknown)!r}; there are {', '.join(CASES)}")
    checkout = options.old.resolve()
    found: dict[str, Any] = {
        "old": commit_of(checkout),
        "new": commit_of(ROOT),
        "rounds": options.rounds,
        "load_before": os.getloadavg()[0],
        "rows": [],
    }
    print("| case | old | new | new / old, with 95 % | bytes sent |\n|---|---:|---:|---:|---:|")
    for case in options.cases or CASES:
        found["rows"].append(compared(checkout, ROOT, case, -(-options.rounds // ROUNDS)))
        print(line_of(found["rows"][-1]), flush=True)
    found["load_after"] = os.getloadavg()[0]
    print(f"load {found['load_before']:.1f} before, {found['load_after']:.1f} after")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    answer_lines() if sys.argv[1:] == ["--worker"] else main()
