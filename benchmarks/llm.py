"""Llamas of float32 beside their peers: ``python -m benchmarks.llm [--models 135m …]
[--threads 1 2] [--peers PEER …] [--cases CASE …] [--rounds N] [--json FILE] [--markdown FILE]``.

Each peer runs in a process of its own. Those of 135 M parameters wait while another is timed; of
1 B there is one process at a time, and each peer gets two. All compute in float32 with the same
random weights, and the first logits must agree before anything is timed. A row is one forward pass:
one token behind 256 or 2,048 cached ones, a prompt of 512, and eight sequences of unequal lengths
with one new token each, 256 cached ones in the mean.

A ratio is that of two medians, the peer's by ours, with the interval that holds 95 % of the ratios
when turns are drawn again with replacement: above 1 maxlab is faster. The bandwidth is that of a
kernel of ours that only reads, timed between the other turns; the share of it that a step reaches
counts the weights and the cache, each byte once.

The time of the processor is that of all threads, waiting in a loop included. With one thread it is
the fair measure on a machine that others use too, since it leaves out what they are served in
between; so there all ratios are taken of it.

The peers that end in ``_genai`` draw a token too, which others leave out.

``MAXLAB_TORCH_PYTHON`` has torch, ``MAXLAB_LLM_PYTHON`` openvino, torch, llama_cpp and gguf, and
for peers that end in ``_genai`` what ``benchmarks.serve`` asks for;
``MAXLAB_LLM_OLD`` is another checkout of maxlab, the peer ``before``. A peer that is missing is
left out, and the table says so.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cores import exchange_ns, in_words
from benchmarks.llm_shapes import CASES, MODELS
from benchmarks.turns import Turns, Worker, cpu_name, flat, interpreter, missing, ratio, spread

HERE = Path(__file__).parent
PEERS = (
    "maxlab", "before", "maxlab_q4_k", "torch", "torch_compile", "openvino", "llama_cpp",
    "openvino_genai", "onnxruntime_genai",
)  # fmt: skip
COUNTS = {"135m": (8, 1), "4blocks": (8, 1), "1b": (4, 1), "tiny": (20, 10)}
"""Runs of a turn: steps of one token, and prompts."""
PAUSE_S = 0.2


def left_out(peer: str) -> str:
    """Why ``peer`` cannot run; empty where it can."""
    if peer == "before":
        return "" if "MAXLAB_LLM_OLD" in os.environ else "no other checkout"
    return missing(peer)


def started(
    peer: str, model: str, threads: int, script: str = "llm_worker.py", *more: str
) -> Worker:
    """The process of a peer, its model loaded."""
    here, name, env = HERE, peer, dict(os.environ)
    if peer == "before":
        old = Path(env["MAXLAB_LLM_OLD"]).resolve()
        here, name, env["PYTHONPATH"] = old / "benchmarks", "maxlab", str(old)
    command = [interpreter(peer), str(here / script), name, model, str(threads), *more]
    return Worker(peer, command, env)


def runs_of(peer: str, case: str) -> bool:
    """Whether ``peer`` runs ``case``."""
    if case in ("read", "decode_8"):
        return peer in ("maxlab", "before")
    return peer != "maxlab_q4_k" or case == "decode_256"


def count_of(model: str, case: str) -> int:
    """The runs of a turn."""
    if case == "read":
        return 2
    return COUNTS[model][1 if case.startswith("prefill") else 0]


# ---------------------------------------------------------------- measuring
class Bench:
    """The turns of all peers of one model and number of threads.

    Attributes:
        turns: The nanoseconds of each turn, by case and peer.
        facts: What the peers say of themselves: memory, seconds of loading, bytes moved.
        why: Why a peer is missing.
    """

    def __init__(
        self, model: str, threads: int, peers: Sequence[str], rounds: int, cases: Sequence[str]
    ) -> None:
        self.cases = cases
        self.model, self.threads, self.rounds = model, threads, rounds
        self.turns: dict[str, dict[str, Turns]] = {}
        self.facts: dict[str, dict[str, Any]] = {}
        self.why: dict[str, str] = {}
        self.logits: dict[str, dict[str, list[float]]] = {}
        self.tokens: dict[str, int] = {}
        self.peers = [p for p in peers if not self._left_out(p)]

    def _left_out(self, peer: str) -> bool:
        why = left_out(peer)
        if peer == "maxlab_q4_k" and MODELS[self.model].hidden % 256:
            why = "rows of Q4_K have multiples of 256 elements"
        if why:
            self.why[peer] = why
        return bool(why)

    def start(self, peer: str) -> Worker | None:
        """The process of a peer; None where it ended with an error."""
        try:
            worker = started(peer, self.model, self.threads)
        except RuntimeError as error:
            self.why[peer] = str(error)[:200]
            return None
        self.facts.setdefault(peer, {}).update(worker.loaded)
        return worker

    def interleaved(self) -> None:
        """All peers at once, in turns."""
        workers = [w for w in map(self.start, self.peers) if w is not None]
        for case in self.cases:
            self.case(case, workers, self.rounds)
        self.more(workers)
        for worker in workers:
            worker.close()

    def one_by_one(self) -> None:
        """One process at a time, each peer twice, in the second half the other way round."""
        for peers in (self.peers, self.peers[::-1]):
            for peer in peers:
                worker = self.start(peer)
                if worker is None:
                    continue
                for case in self.cases:
                    self.case(case, [worker], -(-self.rounds // 2))
                self.more([worker])
                worker.close()

    def case(self, case: str, workers: Sequence[Worker], rounds: int) -> None:
        """Time one case, and the reading of memory beside it."""
        able = [w for w in workers if runs_of(w.peer, case)]
        found = self.turns.setdefault(case, {})
        for worker in list(able):
            try:
                told = worker.ask(logits=case)
                self.check(case, worker.peer, told)
                worker.turn(case, count_of(self.model, case), PAUSE_S)
            except RuntimeError as error:
                self.why[f"{worker.peer}, {case}"] = str(error)[:200]
                able.remove(worker)
        for turn in range(rounds):
            for worker in able if turn % 2 == 0 else able[::-1]:
                times = worker.turn(case, count_of(self.model, case), PAUSE_S)
                found.setdefault(worker.peer, []).append(times)
                if worker.peer == "maxlab" and case.startswith("decode"):
                    read = self.turns.setdefault(f"read beside {case}", {})
                    read.setdefault("maxlab", []).append(worker.turn("read", 2, PAUSE_S))

    def check(self, case: str, peer: str, told: dict[str, Any]) -> None:
        """Raises RuntimeError unless logits and token are those of the first peer."""
        if peer == "maxlab_q4_k":
            return
        token = told.get("token")  # another checkout may not tell it
        if token is not None and token != (wanted := self.tokens.setdefault(case, token)):
            raise RuntimeError(f"the token {token} is drawn, not {wanted}")
        logits = told.get("logits")
        if logits is None:
            return
        kept = self.logits.setdefault(case, {})
        kept[peer] = logits
        first = next(iter(kept.values()))
        apart = max(abs(a - b) for a, b in zip(first, logits, strict=True))
        if apart > 1e-3 * max(map(abs, first)):
            raise RuntimeError(f"logits differ by {apart:.1e}: {logits[:3]} ≠ {first[:3]}")

    def more(self, workers: Sequence[Worker]) -> None:
        """Ask maxlab what moves, and what attention takes."""
        for worker in workers:
            if worker.peer == "maxlab":
                for case in {"decode_256", "decode_2048"} & {*self.cases}:
                    worker.ask(logits=case)
                    self.facts["maxlab"][case] = worker.ask(facts=case)
                self.facts["maxlab"]["attention_peak"] = {
                    n: started(f"attention_{n}", self.model, self.threads).loaded["peak"]
                    for n in (1024, 2048, 4096)
                }


# ---------------------------------------------------------------- numbers
def summary(bench: Bench) -> dict[str, Any]:
    """The numbers of one model and number of threads."""
    sizes, which = MODELS[bench.model], int(bench.threads == 1)
    cases: dict[str, Any] = {}
    for case, rows in bench.turns.items():
        cases[case] = {}
        own = rows.get("maxlab")
        for peer, turns in rows.items():
            times, work = sorted(flat(turns, 0)), flat(turns, 1)
            low, middle, high = statistics.quantiles(times, n=4)
            cases[case][peer] = {
                "median_ms": middle / 1e6, "q1_ms": low / 1e6, "q3_ms": high / 1e6,
                "min_ms": times[0] / 1e6, "runs": len(times),
                "cpu_ms": statistics.median(work) / 1e6,
                "ratio": ratio(turns, own, which) if own and peer != "maxlab" else None,
            }  # fmt: skip
    derived: dict[str, Any] = {}
    for case in bench.cases:
        read, own = bench.turns.get(f"read beside {case}"), bench.turns[case].get("maxlab")
        if read and own:
            total = sizes.weight_bytes + sizes.cache_bytes(sum(CASES[case].cached))
            derived[f"{case}: share of the read bandwidth"] = ratio(
                read["maxlab"], own, which, total / (1 << 30)
            )
    one = bench.turns.get("decode_256", {}).get("maxlab")
    eight = bench.turns.get("decode_8", {}).get("maxlab")
    if one and eight:
        derived["tokens/s of eight by those of one"] = ratio(one, eight, which, 8)
    few = bench.turns.get("decode_256", {}).get("maxlab_q4_k")
    if one and few:
        derived["Q4_K: tokens/s by those of float32"] = ratio(one, few, which)
    for case in ("decode_256", "decode_2048"):
        said = bench.facts.get("maxlab", {}).get(case)
        if said:
            total = sizes.weight_bytes + sizes.cache_bytes(CASES[case].cached[0])
            derived[f"{case}: bytes moved by those of weights and cache"] = [said["moved"] / total]
    peak = bench.facts.get("maxlab", {}).get("attention_peak")
    if peak:
        line = peak[2048] + 2 * (peak[2048] - peak[1024])
        name = "attention of 4,096: memory by the line through 1,024 and 2,048"
        derived[name] = [peak[4096] / line]
    return {
        "model": bench.model, "threads": bench.threads, "cases": cases, "derived": derived,
        "weights": sizes.weight_bytes, "facts": bench.facts, "missing": bench.why,
    }  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """The numbers as Markdown."""
    lines = [
        f"### {result['model']}, {result['threads']} thread{'s' * (result['threads'] > 1)}",
        "",
        "| case | who | median | quartiles | fastest | processor | peer / maxlab |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for case, rows in result["cases"].items():
        for peer, row in rows.items():
            middle, low, high, least = (row[f"{n}_ms"] for n in ("median", "q1", "q3", "min"))
            lines.append(
                f"| {case} | {peer} | {middle:.2f} ms | {low:.2f} … {high:.2f} | {least:.2f} "
                f"| {row['cpu_ms']:.2f} | {spread(row['ratio'])} |"
            )
    lines += [f"| | {peer} | {why} | | | | |" for peer, why in result["missing"].items()]
    lines += ["", "| of maxlab | |", "|---|---:|"]
    lines += [f"| {name} | {spread(numbers)} |" for name, numbers in result["derived"].items()]
    gb = result["weights"] / 1e9
    for peer, said in result["facts"].items():
        if "rss" in said:
            own = said.get("own", said["rss"])
            held = f"{said['rss'] / 1e9:.2f} GB, {own / 1e9:.2f} GB of them of no file"
            lines.append(f"| memory of {peer} with {gb:.2f} GB of weights | {held} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the tables, write the JSON."""
    options = options_of(__doc__ or "", ["135m", "1b"], PEERS, [*CASES], rounds=12)

    def measured(model: str, threads: int) -> dict[str, Any]:
        bench = Bench(model, threads, options.peers, options.rounds, options.cases)
        how: Callable[[], None] = bench.one_by_one if model == "1b" else bench.interleaved
        how()
        return summary(bench)

    report(options, measured, table)


# ---------------------------------------------------------------- what programs of this kind share
def options_of(
    text: str, models: list[str], peers: Sequence[str], cases: Sequence[str], *, rounds: int
) -> argparse.Namespace:
    """The options of a program.

    Args:
        text: Its docstring.
        models: The models that are timed unless others are named.
        peers: All peers.
        cases: All cases.
        rounds: The turns of each, unless told otherwise.
    """
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    parser.add_argument("--models", nargs="*", default=models, choices=[*MODELS])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="*", default=peers, choices=peers)
    parser.add_argument("--cases", nargs="*", default=cases, choices=cases)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


def report(
    options: argparse.Namespace,
    measured: Callable[[str, int], dict[str, Any]],
    table: Callable[[dict[str, Any]], str],
) -> None:
    """Measure each model with each number of threads, print the tables, write what there is.

    Args:
        options: What `options_of` gave.
        measured: Gives the numbers of a model and a number of threads.
        table: Gives them as Markdown.
    """
    results: list[dict[str, Any]] = []
    text = ""
    for model in options.models:
        for threads in options.threads:
            before, cores = os.getloadavg()[0], exchange_ns()
            found = measured(model, threads) | {"load": [before, os.getloadavg()[0]]}
            found["exchange_ns"] = [cores, exchange_ns()]
            results.append(found)
            load = "load before and after: {:.1f}, {:.1f}".format(*found["load"])
            load += "".join(f"; {told}" for told in [in_words(found["exchange_ns"])] if told)
            text += f"{table(found)}\n{cpu_name()}; {load}.\n\n"
            print(table(found), load, sep="\n", flush=True)
            _keep(options, results, text)


def _keep(options: argparse.Namespace, results: list[dict[str, Any]], text: str) -> None:
    if options.json:
        record = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "cpu": cpu_name(), "cpus": len(os.sched_getaffinity(0)), "results": results,
        }  # fmt: skip
        options.json.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    if options.markdown:
        options.markdown.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
