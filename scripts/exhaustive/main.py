"""The command: runs what is missing and keeps what was found."""

from __future__ import annotations

import argparse
import platform
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

import numpy as np

from maxlab import engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.toolchain.compiler import find_compiler
from maxlab.toolchain.prelude import BASE, prelude
from scripts.exhaustive import report
from scripts.exhaustive.cases import UnaryCase, unary_cases
from scripts.exhaustive.judge import Array, Finding, digest, judge

ALL = 1 << 32
PIECE = 1 << 20
"""Inputs of one execution."""
_FIRST = np.arange(PIECE, dtype=np.uint32)
PARTS = 16
"""Parts that a run without ``--part`` is made of; each is kept when it is done."""
_COMMENT = re.compile(r"[ \t]*(/\*.*?\*/|//[^\n]*)", re.DOTALL)
RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def main(arguments: Sequence[str], about: str | None) -> int:
    """Run what ``arguments`` name; the exit status."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", default="")
    parser.add_argument("--part", default="")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args(arguments)
    cases = list(unary_cases())
    if chosen.list:
        print("\n".join(case.name for case in cases))
        return 0
    names = [name for name in chosen.ops.split(",") if name]
    unknown = sorted(set(names) - {case.name for case in cases})
    if unknown:
        parser.error(f"no unary op is called {', '.join(unknown)}; --list names them")
    try:
        parts = [_part(chosen.part)] if chosen.part else [(k, PARTS) for k in range(PARTS)]
    except ValueError:
        parser.error(f"--part is K/N with 1 <= K <= N, not {chosen.part!r}")
    book = report.Book(chosen.out, _machine())
    for case in cases:
        if not names or case.name in names:
            _run(case, parts, chosen.threads, book)
    broken = book.broken()
    print("\n".join(broken) or "all bounds hold")
    return 1 if broken else 0


def _part(text: str) -> tuple[int, int]:
    k, n = map(int, text.split("/"))
    if not 1 <= k <= n:
        raise ValueError(text)
    return k - 1, n


def _machine() -> dict[str, str]:
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {"cpu": cpu, "compiler": find_compiler().version, "date": time.strftime("%F")}


def kernel_of(model: engine.Model) -> str:
    """What tells the code of the kernels of ``model`` from other code.

    The interface to the runtime library is left out: it changes often, and computes nothing.
    """
    texts = [step.printed.text for step in model.compiled.plan.steps if step.printed]
    sections = [s.text for s in prelude().sections_for(texts) if s.name != BASE]
    code = _COMMENT.sub("", "\n".join([*sections, *texts]))
    return digest(code, *find_compiler().machine_arguments)


def _run(
    case: UnaryCase, parts: Sequence[tuple[int, int]], threads: int, book: report.Book
) -> None:
    kernel = kernel_of(case.load())
    for k, n in parts:
        low, high = ALL * k // n, ALL * (k + 1) // n
        if book.has(case, kernel, low, high):
            continue
        start = time.monotonic()
        found = measure(case, low, high, threads)
        book.add(case, kernel, low, high, found)
        print(
            f"{case.name} {k + 1}/{n}: {found.ulps:.4f} ulps at {report.number(found.ulps_at)}, "
            f"{found.steps} steps, {found.special} special, {time.monotonic() - start:.1f} s",
            flush=True,
        )


def measure(case: UnaryCase, low: int, high: int, threads: int = 1) -> Finding:
    """What is found on the inputs whose bits are ``low`` to ``high`` - 1."""
    own = local()  # a model of its own for every thread

    def piece(at: int) -> Finding:
        if not hasattr(own, "model"):
            own.model, own.judge = case.load(), judge(case)
            own.bits = np.empty(PIECE, np.uint32)  # new memory would cost more than its numbers
        start = time.thread_time()
        bits = own.bits[: min(PIECE, high - at)]
        np.add(_FIRST[: bits.size], np.uint32(at), out=bits)
        x = bits.view(np.float32)
        found: Finding = own.judge(x, results_of(own.model, x))
        found.seconds = time.thread_time() - start
        return found

    total = Finding()
    with ThreadPoolExecutor(threads) as pool:
        for found in pool.map(piece, range(low, high, PIECE)):
            total.add(found)
    return total


def results_of(model: engine.Model, x: Array) -> Array:
    """What ``model`` computes for ``x``, as the judges take it."""
    (made,) = model.execute(Tensor.from_numpy(x))
    return as_judged(made)


def as_judged(made: object) -> Array:
    """A result of a model on the host; halves as the integers of their bits."""
    assert isinstance(made, Tensor)
    halves = made.dtype in (DType.float16, DType.bfloat16)
    return np.asarray((made.view(DType.uint16) if halves else made).to_numpy())
