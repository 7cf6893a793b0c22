"""What changing one operation of a loaded graph costs: ``python -m benchmarks.edits [CASE ...]``.

    python -m benchmarks.edits [--old PATH] [--rounds 3] [--json FILE]

A graph is built and loaded, then built again with ONE elementwise operation changed, each time
another one in another layer, and loaded and run again. All kernels but those of the change are in
the cache on disk.

- ``layers N``: whole transformer layers with weights of their own, at least N nodes;
- ``flat N``: branches of elementwise operations, each with a weight of its own, at least N
  nodes.

``new``: the changed operation becomes a kernel that nobody has compiled; a compiler runs.
``known``: that kernel is in the cache, the graph has not been loaded before.

Every sample is a process of its own. With ``--old``, processes with the maxlab of that checkout and
of this one take turns: old, new, new, old in each round. Told are the best of five changes, as CPU
seconds of the process and of the compilers, and as wall seconds: to the loaded model and to its
first result. Of the phases of a ``known`` change each is the shortest of five, in CPU seconds of
the process: its clock of phases is set to them. ``passes`` are said one by one too, and ``rest`` is
what a load does besides: it looks for the plan, and makes the model. Garbage collections are in it.
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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.slow_spots import ROOT, cpu_of_this_machine, samples_of, timed

CASES = ("layers 50", "layers 1000", "layers 4000", "flat 50", "flat 1000", "flat 4000")
WIDTH, HEADS, HIDDEN, ROWS = 64, 4, 256, 16
EDITS = 5
BARS = {"50": 0.100, "1000": 0.300}
"""Seconds to a first result, by the number of nodes."""


# ---------------------------------------------------------------- the graphs
def activations() -> list[Any]:
    """Elementwise operations that may take each other's place; the first is in all layers."""
    from maxlab.graph import ops

    return [ops.tanh, ops.exp, ops.sigmoid, ops.cos, ops.sin, ops.erf]


def layers(count: int, other_at: int = -1, other: int = 0) -> Any:
    """At least ``count`` nodes of transformer layers; layer ``other_at`` has another activation."""
    from maxlab.dtype import DType
    from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops

    def weight(name: str, *shape: int) -> Any:
        return Weight(name, DType.float32, list(shape), DeviceRef.CPU())

    def linear(x: Any, name: str, inner: int, outer: int) -> Any:
        return x @ ops.transpose(weight(name, outer, inner), 0, 1)

    with Graph("layers", input_types=[TensorType(DType.float32, ["rows", WIDTH])]) as graph:
        x = graph.inputs[0].tensor
        n = 0
        while len(graph.function.ops) < count:
            name = f"layer{n}"
            y = ops.layer_norm(
                x, weight(f"{name}.gamma", WIDTH), weight(f"{name}.beta", WIDTH), 1e-5
            )
            heads = []
            for which in ("q", "k", "v"):
                head = linear(y, f"{name}.{which}", WIDTH, WIDTH)
                head = ops.reshape(head, ["rows", HEADS, WIDTH // HEADS])
                heads.append(ops.transpose(head, 0, 1))
            q, k, v = heads
            scores = ops.softmax(q @ ops.transpose(k, 1, 2) * 0.25)
            mixed = ops.reshape(ops.transpose(scores @ v, 0, 1), ["rows", WIDTH])
            x = x + linear(mixed, f"{name}.o", WIDTH, WIDTH)
            activation = activations()[other if n == other_at else 0]
            hidden = activation(linear(x, f"{name}.up", WIDTH, HIDDEN))
            x = x + linear(hidden, f"{name}.down", HIDDEN, WIDTH)
            n += 1
        graph.output(x)
    return graph


def flat(count: int, other_at: int = -1, other: int = 0) -> Any:
    """At least ``count`` nodes: weights, and what is computed of each and the input."""
    from maxlab.dtype import DType
    from maxlab.graph import DeviceRef, Graph, TensorType, Weight

    with Graph("flat", input_types=[TensorType(DType.float32, ["rows", WIDTH])]) as graph:
        x = graph.inputs[0].tensor
        outputs = []
        for n in range(count // 4):
            w = Weight(f"layer{n}.w", DType.float32, [WIDTH], DeviceRef.CPU())
            y = activations()[other if n == other_at else 0](x * w)
            outputs.append(y + 1.0)
        graph.output(*outputs)
    return graph


def weights_of(graph: Any) -> dict[str, Any]:
    """Data for the weights of ``graph``."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for op in graph.function.ops:
        if op.name == "mo.constant.external":
            shape = op.result.type.shape.static_dims
            found[op.attrs["name"]] = (rng.random(shape) / 16).astype(np.float32)
    return found


# ---------------------------------------------------------------- one side, in a process of its own
def answer(case: str) -> dict[str, Any]:
    """The sample of ``case``: of the best change of each kind, seconds by name."""
    os.environ["MAXLAB_CACHE_DIR"] = tempfile.mkdtemp(prefix="maxlab-edits-")
    time.perf_counter_ns = time.process_time_ns  # of phases: others use this machine too
    from maxlab.engine import InferenceSession

    name, _, size = case.partition(" ")
    make = {"layers": layers, "flat": flat}[name]
    session = InferenceSession(num_threads=2)
    x = np.ones((ROWS, WIDTH), np.float32)
    first = make(int(size))
    data = weights_of(first)
    places = len([name for name in data if name.endswith((".up", ".w"))])
    model = session.load(first, weights_registry=data)
    model.execute(x)
    found: dict[str, Any] = {"nodes": len(first.function.ops), "steps": len(model.plan.steps)}
    models = [model]  # a person has the old one while the new one is made
    for kind, shift in (("new", 0), ("known", 1)):
        samples = []
        for turn in range(EDITS):
            place = (turn * 7 + shift + 1) % places
            graph = make(int(size), place, 1 + turn % (len(activations()) - 1))
            model, loading = timed(lambda g=graph: session.load(g, weights_registry=data))  # type: ignore[misc]
            _, running = timed(lambda m=model: m.execute(x))  # type: ignore[misc]
            models[1:] = [model]
            whole = {key: loading[key] + running[key] for key in loading}
            phases = {key: ns / 1e9 for key, ns in model.compiled.timings_ns.items()}
            phases["rest"] = loading["own"] - sum(phases.values()) + phases.pop("bind")
            phases["first run"] = running["own"]
            passes: dict[str, float] = {p.name: p.elapsed_ns / 1e9 for p in model.compiled.passes}
            samples.append({"load": loading, "result": whole, "phases": phases, "passes": passes})
        found[kind] = {
            part: {key: min(s[part][key] for s in samples) for key in ("wall", "own", "compilers")}
            for part in ("load", "result")
        }
    for part in ("phases", "passes"):
        found[part] = {name: min(s[part][name] for s in samples) for name in samples[0][part]}
    return found


# ---------------------------------------------------------------- both sides
def sample(checkout: Path, case: str) -> dict[str, Any]:
    """One sample of ``case`` with the maxlab of ``checkout``."""
    code = (
        "import sys, json; sys.path.append(sys.argv[1]); from benchmarks.edits import answer; "
        "print(json.dumps(answer(sys.argv[2])))"
    )
    with tempfile.TemporaryDirectory(prefix="maxlab-edits-") as folder:
        (Path(folder) / "benchmarks").symlink_to(ROOT / "benchmarks")
        done = subprocess.run(
            [sys.executable, "-c", code, folder, case],
            env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{checkout}"},
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def together(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Of dicts with the same names, the median of each number in them."""
    found: dict[str, Any] = {}
    for name, first in samples[0].items():
        column = [one[name] for one in samples if name in one]
        found[name] = together(column) if isinstance(first, dict) else statistics.median(column)
    return found


def told(row: dict[str, Any]) -> str:
    """``row`` in lines."""
    lines = [f"{row['nodes']:.0f} nodes, {row['steps']:.0f} steps"]
    for kind in ("new", "known"):
        parts = []
        for name in ("load", "result"):
            one = row[kind][name]
            compilers = f" + {one['compilers'] * 1e3:.0f}" if one["compilers"] > 1e-3 else ""
            parts.append(
                f"{name} {one['own'] * 1e3:.1f}{compilers} ms CPU, {one['wall'] * 1e3:.1f} ms wall"
            )
        lines.append(f"  {kind:5} {'; '.join(parts)}")
    for what in ("phases", "passes"):
        parts = [f"{name} {seconds * 1e3:.1f}" for name, seconds in row[what].items()]
        lines.append(f"  {what} of a known one, ms: {', '.join(parts)}")
    return "\n".join(lines)


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
        "unit": "seconds; medians of processes, of the best of five changes",
        "bars": BARS, "cases": {},
    }  # fmt: skip
    for case in chosen.cases or CASES:
        samples = samples_of(partial(sample, case=case), chosen.old, chosen.rounds)
        found["cases"][case] = {side: together(ones) for side, ones in samples.items()}
        for side, row in found["cases"][case].items():
            print(f"{case}, {side}: {told(row)}", flush=True)
        if chosen.old:
            rows = found["cases"][case]
            ratio = rows["new"]["known"]["load"]["own"] / rows["old"]["known"]["load"]["own"]
            print(f"  a known change costs {ratio:.2f} of the CPU time that it cost", flush=True)
    found["load_after"] = os.getloadavg()
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
