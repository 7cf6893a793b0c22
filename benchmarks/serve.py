"""Requests that share batches, beside their peers: ``python -m benchmarks.serve [--models 135m …]
[--threads 1 2] [--peers PEER …] [--cases CASE …] [--rounds N] [--json FILE] [--markdown FILE]``.

Each server runs in a process of its own, and waits while another is timed. All have the same Llama
with random float32 weights, compute in float32, draw greedily and stop at no token; their tokens
must agree.

``requests_N``: N requests come at once, with prompts of 16 to 112 tokens (64 in the mean), and get
64 tokens each, so that padded batches lose nothing by answers that end early. The time is that from
the first request to the last token, and with it come tokens a second.

``first_alone`` and ``first_beside_8``: the time to the first token of a prompt of 512 tokens, with
nothing else to do, or while eight other requests decode, both in each turn. Of these the longest
time between two tokens until then is told too, and the median one before. Servers that take whole
batches only have neither.

A ratio is that of two medians, the peer's by ours, with the interval that holds 95 % of the ratios
when turns are drawn again with replacement: above 1 maxlab is faster. What a server takes beside
others by what it takes alone is the median of such ratios within turns. With one thread all times
are those of the processor, which leave out what others on the machine are served in between; with
more they are by the clock.

``MAXLAB_TORCH_PYTHON`` has torch and transformers, ``MAXLAB_LLM_PYTHON`` openvino_genai,
openvino_tokenizers, onnxruntime_genai, onnx, torch and transformers; ``MAXLAB_LLM_OLD`` is another
checkout of maxlab, the peer ``before``. A peer that is missing is left out, and the table says so.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.llm import PAUSE_S, left_out, options_of, report, started
from benchmarks.llm_shapes import MODELS
from benchmarks.serve_cases import CASES, CONCURRENT, FIRST, NEW
from benchmarks.serve_folder import write
from benchmarks.turns import Turns, Worker, flat, paired, ratio, spread

PEERS = ("maxlab", "before", "transformers", "openvino_genai", "onnxruntime_genai")
PADDED = ("transformers", "onnxruntime_genai")
"""Peers that take whole batches."""
AGREEING = 0.9
"""The part of the tokens that must be those of the first server; a tie may be broken otherwise."""


class Bench:
    """The turns of all servers of one model and number of threads.

    Attributes:
        turns: The nanoseconds of each turn, by case and peer.
        facts: What the servers say of themselves.
        why: Why a peer is missing.
    """

    def __init__(
        self, model: str, threads: int, peers: Sequence[str], rounds: int, cases: Sequence[str]
    ) -> None:
        self.model, self.threads, self.rounds, self.cases = model, threads, rounds, cases
        self.turns: dict[str, dict[str, Turns]] = {}
        self.facts: dict[str, dict[str, Any]] = {}
        self.why = {peer: why for peer in peers if (why := left_out(peer))}
        self.peers = [peer for peer in peers if peer not in self.why]
        self.tokens: dict[str, list[list[int]]] = {}
        self.turn = 0

    def run(self) -> None:
        """Time all cases."""
        with tempfile.TemporaryDirectory() as folder:
            write(MODELS[self.model], Path(folder))
            workers = [one for peer in self.peers if (one := self._started(peer, folder))]
            for case in self.cases:
                if case not in FIRST:
                    self._time([case], workers)
            self._time([case for case in self.cases if case in FIRST], workers)
            for worker in workers:
                worker.close()

    def _started(self, peer: str, folder: str) -> Worker | None:
        try:
            worker = started(peer, self.model, self.threads, "serve_worker.py", folder)
        except RuntimeError as error:
            self.why[peer] = str(error)[:200]
            return None
        self.facts[peer] = worker.loaded
        return worker

    def _time(self, cases: Sequence[str], workers: Sequence[Worker]) -> None:
        """Time ``cases``, one after the other in each turn; the first turn of each server is not
        told. What is compared with itself has to meet the machine in the same state."""
        able = [w for w in workers if w.peer not in PADDED or not set(cases) & set(FIRST)]
        for number in range(self.rounds + 1 if cases else 0):
            self.turn += 1
            for worker in (able if number % 2 else able[::-1]) if number else list(able):
                found = self._asked(cases, worker)
                if found is None:
                    able = [one for one in able if one is not worker]
                elif number:
                    for case, times in found.items():
                        self._keep(case, worker.peer, times)

    def _asked(self, cases: Sequence[str], worker: Worker) -> dict[str, dict[str, Any]] | None:
        """What ``worker`` says of each case in one turn; None, of all, once it fails in one."""
        answers = {}
        for case in cases:
            time.sleep(PAUSE_S)
            try:
                answers[case] = found = worker.ask(case=case, turn=self.turn)
                self._check(f"{case} {self.turn if case in FIRST else ''}", found["tokens"])
            except RuntimeError as error:
                self.why[f"{worker.peer}, {case}"] = str(error)[:200]
                return None
        return answers

    def _keep(self, case: str, peer: str, found: dict[str, Any]) -> None:
        for name in ("total", "first", "step", "longest"):
            if name in found:
                row = case if name == "total" else f"{case}: {name}"
                self.turns.setdefault(row, {}).setdefault(peer, []).append([tuple(found[name])])

    def _check(self, case: str, tokens: list[list[int]]) -> None:
        """Raises RuntimeError unless the tokens are those of the first server."""
        first = self.tokens.setdefault(case, tokens)
        pairs = [
            pair for a, b in zip(first, tokens, strict=True) for pair in zip(a, b, strict=True)
        ]
        same = sum(a == b for a, b in pairs) / len(pairs)
        if same < AGREEING:
            raise RuntimeError(f"{same:.0%} of the tokens agree")


# ---------------------------------------------------------------- numbers
def summary(bench: Bench) -> dict[str, Any]:
    """The numbers of one model and number of threads."""
    which = int(bench.threads == 1)
    cases: dict[str, Any] = {}
    for case, rows in bench.turns.items():
        own, cases[case] = rows.get("maxlab"), {}
        for peer, turns in rows.items():
            low, middle, high = quartiles([float(n) for n in flat(turns, which)])
            cases[case][peer] = {
                "median_ms": middle / 1e6, "q1_ms": low / 1e6, "q3_ms": high / 1e6,
                "wall_ms": statistics.median(flat(turns, 0)) / 1e6,
                "cpu_ms": statistics.median(flat(turns, 1)) / 1e6, "runs": len(turns),
                "ratio": ratio(turns, own, which) if own and peer != "maxlab" else None,
            }  # fmt: skip
            if case in CONCURRENT:
                cases[case][peer]["tokens_s"] = CONCURRENT[case] * NEW / middle * 1e9
    derived: dict[str, Any] = {}
    for peer in bench.turns.get("first_beside_8: first", {}):
        beside = {
            name: bench.turns[f"first_beside_8: {name}"] for name in ("first", "step", "longest")
        }
        alone = bench.turns.get("first_alone: first", {}).get(peer)
        if alone:
            derived[f"{peer}: first token beside eight by alone"] = paired(
                beside["first"][peer], alone, which
            )
        derived[f"{peer}: longest time between tokens by the median"] = paired(
            beside["longest"][peer], beside["step"][peer], which
        )
    return {
        "model": bench.model, "threads": bench.threads, "cases": cases, "derived": derived,
        "facts": bench.facts, "missing": bench.why,
        "turns": bench.turns,
    }  # fmt: skip


def quartiles(times: list[float]) -> list[float]:
    """The quartiles, of one time that time."""
    return statistics.quantiles(times, n=4) if len(times) > 1 else times * 3


def table(result: dict[str, Any]) -> str:
    """The numbers as Markdown."""
    clock = "the processor" if result["threads"] == 1 else "the clock"
    threads = f"{result['threads']} thread{'s' * (result['threads'] > 1)}"
    lines = [
        f"### {result['model']}, {threads}, times of {clock}",
        "",
        "| case | who | median | quartiles | tokens/s | peer / maxlab |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for case, rows in result["cases"].items():
        for peer, row in rows.items():
            middle, low, high = (row[f"{n}_ms"] for n in ("median", "q1", "q3"))
            rate = f"{row['tokens_s']:.1f}" if "tokens_s" in row else ""
            lines.append(
                f"| {case} | {peer} | {middle:.1f} ms | {low:.1f} … {high:.1f} | {rate} "
                f"| {spread(row['ratio'])} |"
            )
    lines += [f"| | {peer} | {why} | | | |" for peer, why in result["missing"].items()]
    lines += ["", "| | |", "|---|---:|"]
    lines += [f"| {name} | {spread(numbers)} |" for name, numbers in result["derived"].items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the tables, write the JSON."""
    options = options_of(__doc__ or "", ["135m"], PEERS, [*CASES], rounds=8)

    def measured(model: str, threads: int) -> dict[str, Any]:
        bench = Bench(model, threads, options.peers, options.rounds, options.cases)
        bench.run()
        return summary(bench)

    report(options, measured, table)


if __name__ == "__main__":
    main()
