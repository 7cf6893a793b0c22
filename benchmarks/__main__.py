"""Times maxlab beside its peers, in turns, in one run: ``python -m benchmarks [CASE …] [--json
FILE]``.

Each peer runs in a process of its own and waits while another is timed. A table row has the median
of each peer, its quartiles, and the ratio ``peer / maxlab``, which is above 1 where maxlab is
faster. Ratios of one run can be compared; milliseconds of different runs on a shared machine
cannot. The CPU time is that of all threads, waiting in a loop included: with ``--threads 1`` it is
the fair measure on a machine that others use too.

Interpreters of the peers: ``MAXLAB_TORCH_PYTHON`` (torch, transformers, onnxruntime, onnx),
``MAXLAB_JAX_PYTHON`` (jax) and ``MAXLAB_PEER_PYTHON`` (max). A peer without one is left out, and
the table says so.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CASES: dict[str, tuple[str, ...]] = {
    "dispatch": ("torch", "jax", "max"),
    "softmax_gelu_64x2048": ("torch", "jax", "max"),
    "minilm_8x64": ("torch", "onnxruntime"),
    "minilm_1x16": ("torch", "onnxruntime"),
    "matmul_64x512x2048": ("torch", "max"),
    "matmul_1024": ("torch", "max"),
    "matmul_512x4096x4096": ("torch", "max"),
}
RUNS = {"dispatch": 5000, "softmax_gelu_64x2048": 300, "minilm_8x64": 3, "minilm_1x16": 20}
PAUSE_S = 0.25
"""Between two turns: until the threads of the peer before have stopped waiting in a loop, which
keeps a core from the next one."""


def interpreter(peer: str) -> str | None:
    """The Python that has ``peer``; None when there is none."""
    if peer == "maxlab":
        return sys.executable
    variable = {"torch": "TORCH", "onnxruntime": "TORCH", "jax": "JAX", "max": "PEER"}[peer]
    found = os.environ.get(f"MAXLAB_{variable}_PYTHON")
    if found is None and peer != "max":
        module = {"torch": "torch", "onnxruntime": "onnxruntime", "jax": "jax"}[peer]
        probe = subprocess.run(
            [sys.executable, "-c", f"import {module}"], capture_output=True, check=False
        )
        return sys.executable if probe.returncode == 0 else None
    return found


class Worker:
    """A peer that waits for its turn."""

    def __init__(self, peer: str, case: str, threads: int) -> None:
        python = interpreter(peer)
        assert python is not None
        self.peer = peer
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py"), peer, case, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.times: list[int] = []
        self.cpu: list[int] = []

    def answer(self) -> Any:
        """The next line that the worker prints."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(("[", "{")):
                return json.loads(line)
        _, error = self.process.communicate()
        raise RuntimeError(
            f"{self.peer}: {error.strip().splitlines()[-1] if error.strip() else 'ended'}"
        )

    def turn(self, count: int) -> None:
        """Time ``count`` runs."""
        assert self.process.stdin is not None
        time.sleep(PAUSE_S)
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        answer = self.answer()
        self.times.extend(answer["wall_ns"])
        self.cpu.append(answer["cpu_ns"])

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def measure(case: str, rounds: int, threads: int) -> dict[str, Any]:
    """The medians, quartiles and ratios of ``case``."""
    workers: list[Worker] = []
    missing: dict[str, str] = {}
    for peer in ("maxlab", *CASES[case]):
        if interpreter(peer) is None:
            missing[peer] = "not installed"
            continue
        worker = Worker(peer, case, threads)
        try:
            worker.answer()
            workers.append(worker)
        except RuntimeError as error:
            missing[peer] = str(error)[:200]
            worker.close()
    count = RUNS.get(case, 5)
    for worker in workers:
        worker.turn(count)
        worker.times.clear()
        worker.cpu.clear()
    for turn in range(rounds):
        for worker in workers if turn % 2 == 0 else reversed(workers):
            worker.turn(count)
    rows: dict[str, Any] = {}
    for worker in workers:
        worker.close()
        low, middle, high = statistics.quantiles(worker.times, n=4)
        rows[worker.peer] = {
            "median_us": middle / 1e3, "q1_us": low / 1e3, "q3_us": high / 1e3,
            "min_us": min(worker.times) / 1e3, "runs": len(worker.times),
            "cpu_us": statistics.median(worker.cpu) / 1e3,
        }  # fmt: skip
    own = rows.get("maxlab")
    for row in rows.values():
        row["ratio"] = row["median_us"] / own["median_us"] if own else None
        row["cpu_ratio"] = row["cpu_us"] / own["cpu_us"] if own else None
    return {"case": case, "peers": rows, "missing": missing}


def number(ratio: float | None) -> str:
    """``ratio`` with two decimals; nothing when maxlab itself was not measured."""
    return "" if ratio is None else f"{ratio:.2f}"


def table(results: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = [
        "| case | peer | median | quartiles | min | CPU | peer / maxlab | of CPU |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        for peer, row in result["peers"].items():
            unit, scale = ("ms", 1e3) if row["median_us"] > 1000 else ("µs", 1.0)
            median, low, high, least, cpu = (
                f"{row[name] / scale:.2f}"
                for name in ("median_us", "q1_us", "q3_us", "min_us", "cpu_us")
            )
            ratios = f"{number(row['ratio'])} | {number(row['cpu_ratio'])}"
            lines.append(
                f"| {result['case']} | {peer} | {median} {unit} | {low}–{high} | {least} | {cpu} "
                f"| {ratios} |"
            )
        lines += [
            f"| {result['case']} | {peer} | {why} | | | | | |"
            for peer, why in result["missing"].items()
        ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="all when none is named")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    results = [measure(case, options.rounds, options.threads) for case in options.cases or CASES]
    load = [before, os.getloadavg()[0]]
    print(table(results))
    print(f"\n{options.threads} threads; load before and after: {load[0]:.1f}, {load[1]:.1f}")
    if options.json:
        record = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "cpu": platform.processor() or platform.machine(),
            "threads": options.threads,
            "load": load,
            "results": results,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
