"""Times single ops beside torch and NumPy: ``python -m benchmarks.ops [--only conv2d,top_k]``.

All sides run in one process, on the same operands and with the same number of threads. Before they
are timed our result is compared with a peer's. They take short turns, forwards and backwards by
rounds; a turn begins with a pause, in which thread pools that wait in a loop go to sleep, and a
call that is not counted. What a round gives is the ratio ``peer / maxlab`` of their medians in it,
above 1 where maxlab is faster; what a row says is the median of these ratios, their quartiles, and
the ratio of the fastest calls. On a machine that others use too, only ratios mean something, and
not even these where threads wait for others that are not running: ``--threads 1`` compares the CPU
time of one thread with that of one, which hardly depends on what else is running.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.ops_cases import Case, Made
    from maxlab.engine import InferenceSession

RESULTS = Path(__file__).parent / "results"
PAUSE_S = 0.02
"""Between turns: longer than the threads of torch wait in a loop."""
TURN_NS = 12_000_000
"""What a turn takes at least, unless it is ``MOST`` calls."""
MOST = 200


def turn(call: Callable[[], Any], clock: Callable[[], int]) -> list[int]:
    """Nanoseconds of each call of a turn."""
    time.sleep(PAUSE_S)
    call()
    times: list[int] = []
    end = clock() + TURN_NS
    while len(times) < MOST:
        start = clock()
        call()
        stop = clock()
        times.append(stop - start)
        if stop > end:
            break
    return times


def measure(made: Made, rounds: int, clock: Callable[[], int]) -> dict[str, Any]:
    """Medians and ratios of all sides."""
    made.check()
    sides = {"maxlab": made.ours, **made.peers}
    medians: dict[str, list[float]] = {side: [] for side in sides}
    fastest = dict.fromkeys(sides, sys.maxsize)
    for number in range(-1, rounds):
        order = list(sides) if number % 2 == 0 else list(reversed(sides))
        for side in order:
            times = turn(sides[side], clock)
            if number >= 0:  # the first round is to warm up
                medians[side].append(statistics.median(times))
                fastest[side] = min(fastest[side], *times, sys.maxsize)
    own = medians.pop("maxlab")
    peers = {}
    for peer, theirs in medians.items():
        ratios = [a / b for a, b in zip(theirs, own, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        peers[peer] = {
            "median_us": statistics.median(theirs) / 1e3, "min_us": fastest[peer] / 1e3,
            "ratio": middle, "q1": low, "q3": high, "best": fastest[peer] / fastest["maxlab"],
            "goal": made.goals.get(peer),
        }  # fmt: skip
    median, least = statistics.median(own) / 1e3, fastest["maxlab"] / 1e3
    return {"median_us": median, "min_us": least, "peers": peers}


def time_text(us: float) -> str:
    """A time in the unit that fits it."""
    return f"{us / 1e3:.2f} ms" if us >= 1000 else f"{us:.1f} µs"


def lines(result: dict[str, Any]) -> Iterator[str]:
    """The rows of a result, one for each peer."""
    for peer, row in result["peers"].items():
        goal = row["goal"]
        mark = "" if goal is None else f"{goal:.2f}" + (" ✗" if row["ratio"] < goal else "")
        yield (
            f"| {result['group']} | {result['case']} | {time_text(result['median_us'])} | {peer} "
            f"| {time_text(row['median_us'])} | {row['ratio']:.2f} "
            f"| {row['q1']:.2f} … {row['q3']:.2f} | {row['best']:.2f} | {mark} |"
        )


HEAD = """\
| op | case | maxlab | peer | its time | ratio | quartiles | of the fastest | goal |
|---|---|---:|---|---:|---:|---:|---:|---:|"""


def processor() -> str:
    """What the machine calls its processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line]
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), [])
    return (
        f"{names[0] if names else platform.machine()} ({' '.join(f for f in wanted if f in flags)})"
    )


def chosen(only: str, cases: list[Case]) -> list[Case]:
    """The cases whose group is named in ``only``, or whose name has a part that is; all of none."""
    words = [word for word in only.split(",") if word]
    return [c for c in cases if not words or any(w == c.group or w in c.name for w in words)]


def run(cases: list[Case], session: InferenceSession, rounds: int) -> list[dict[str, Any]]:
    """The results of all cases, printed as they come."""
    clock = time.thread_time_ns if session.num_threads == 1 else time.perf_counter_ns
    print(HEAD, flush=True)
    results = []
    for case in cases:
        result: dict[str, Any] = {"group": case.group, "case": case.name}
        try:
            result |= measure(case.make(session), rounds, clock)
        except (AssertionError, RuntimeError) as error:
            result |= {"error": str(error).strip().splitlines()[0], "peers": {}}
            print(f"| {case.group} | {case.name} | {result['error']} |", flush=True)
        results.append(result)
        for line in lines(result):
            print(line, flush=True)
    return results


def main() -> None:
    """Measure, print, write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="groups, or parts of names, with commas between")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, help="a file name without its ending; none: not kept")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)  # before anybody reads them

    import numpy as np
    import torch

    from benchmarks.ops_cases import cases
    from maxlab.engine import InferenceSession

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    session = InferenceSession(num_threads=options.threads)
    before = os.getloadavg()[0]
    results = run(chosen(options.only, cases()), session, options.rounds)
    load = [before, os.getloadavg()[0]]
    short = [
        f"{r['group']} {r['case']} ({peer} {row['ratio']:.2f})"
        for r in results
        for peer, row in r["peers"].items()
        if row["goal"] is not None and row["ratio"] < row["goal"]
    ]
    goals = sum(row["goal"] is not None for r in results for row in r["peers"].values())
    about = (
        f"{processor()}, {options.threads} threads, {options.rounds} rounds, load {load[0]:.1f} "
        f"before and {load[1]:.1f} after; torch {torch.__version__}, NumPy {np.__version__}"
    )
    print(f"\n{about}\n{goals - len(short)} of {goals} goals met", *short, sep="\n  ")
    if options.out is None:
        return
    date = dt.datetime.now(dt.UTC).date().isoformat()
    record = {"date": date, "about": about, "load": load, "results": results}
    text = json.dumps(record, indent=1, ensure_ascii=False)
    options.out.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    rows = "\n".join(line for result in results for line in lines(result))
    table = f"# Single ops, {date}\n\n{about}.\n\n{HEAD}\n{rows}\n"
    options.out.with_suffix(".md").write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
