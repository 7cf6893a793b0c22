"""Peers that take turns: one process each, which waits while another is timed, and what their times
say. Needs nothing but Python, so that the environments of all peers can read it.

A peer is a program that reads lines of JSON, its questions, and prints one for each, its answer;
``answer_all`` is that program's loop, and ``Worker`` the other end of it.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Turns = list[list[tuple[int, int]]]
"""What each turn took: nanoseconds by the clock and of the processor, run by run."""
MODULES = {
    "torch": "torch", "torch_compile": "torch", "onnxruntime": "onnxruntime",
    "openvino": "openvino", "llama_cpp": "llama_cpp", "max": "max",
    "transformers": "transformers", "openvino_genai": "openvino_genai openvino_tokenizers",
    "onnxruntime_genai": "onnxruntime_genai onnx_ir",
}  # fmt: skip
"""What a peer imports, with spaces between."""
VARIABLES = {
    "torch": "TORCH", "torch_compile": "TORCH", "onnxruntime": "TORCH", "openvino": "LLM",
    "llama_cpp": "LLM", "max": "PEER", "transformers": "TORCH", "openvino_genai": "LLM",
    "onnxruntime_genai": "LLM",
}  # fmt: skip
"""The variable ``MAXLAB_…_PYTHON`` that names the interpreter of a peer."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "MAXLAB_NUM_THREADS")
FLAGS = (
    "avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "avx512_fp16", "amx_tile",
    "amx_bf16", "amx_int8",
)  # fmt: skip
"""The instructions that decide how fast a product can be, as ``/proc/cpuinfo`` calls them."""


# ---------------------------------------------------------------- the peer's process
def limit_threads(count: int) -> None:
    """Tell the libraries of this process, before they are imported, how many threads to take."""
    for name in THREADS:
        os.environ[name] = str(count)


def timed(run: Callable[[], Any], count: int) -> dict[str, list[int]]:
    """The nanoseconds of ``count`` runs, by the clock and of the processor."""
    times, work = [], []
    for _ in range(count):
        begin, spent = time.perf_counter_ns(), time.process_time_ns()
        run()
        work.append(time.process_time_ns() - spent)
        times.append(time.perf_counter_ns() - begin)
    return {"wall_ns": times, "cpu_ns": work}


def say(answer: Mapping[str, Any]) -> None:
    """Print an answer."""
    print(json.dumps(answer), flush=True)


def answer_all(answer: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Answer the questions of standard input until it ends."""
    for line in sys.stdin:
        say(answer(json.loads(line)))


# ---------------------------------------------------------------- the process that asks
def interpreter(peer: str) -> str:
    """The Python that has ``peer``, which is this one unless a variable names another."""
    name = VARIABLES.get(peer)
    return os.environ.get(f"MAXLAB_{name}_PYTHON", sys.executable) if name else sys.executable


def missing(peer: str) -> str:
    """Why ``peer`` cannot run; empty where it can."""
    if peer not in MODULES:
        return ""
    program = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    probe = [interpreter(peer), "-c", program, *MODULES[peer].split()]
    found = subprocess.run(probe, capture_output=True, check=False)
    return "" if found.returncode == 0 else "not installed"


class Worker:
    """A peer that waits for its turn.

    Attributes:
        peer: Its name.
        loaded: Its first answer.
    """

    def __init__(
        self, peer: str, command: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        self.peer = peer
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=dict(os.environ if env is None else env),
        )  # fmt: skip
        self.loaded = self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        _, error = self.process.communicate()
        said = error.strip().splitlines() or ["it ended"]
        raise RuntimeError(f"{self.peer}: {said[-1]}")

    def ask(self, seconds: float | None = None, **question: Any) -> Any:
        """The answer to a question. When it takes longer than ``seconds``, the process is ended.

        Raises:
            RuntimeError: The process ended, or the answer is an ``error``.
        """
        assert self.process.stdin is not None
        late = threading.Timer(seconds or 0.0, self.process.kill)
        if seconds is not None:
            late.start()
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            answer = self._answer()
        except RuntimeError:
            if late.finished.is_set():
                raise RuntimeError(f"no answer after {seconds:g} s") from None
            raise
        finally:
            late.cancel()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def turn(self, case: str, count: int, pause: float) -> list[tuple[int, int]]:
        """The nanoseconds of ``count`` runs, by the clock and of the processor, after ``pause``
        seconds in which the threads of the peer before stop waiting in a loop."""
        time.sleep(pause)
        said = self.ask(case=case, count=count)
        return list(zip(said["wall_ns"], said["cpu_ns"], strict=True))

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


# ---------------------------------------------------------------- what times say
def flat(turns: Turns, which: int) -> list[int]:
    """All times by the clock, 0, or of the processor, 1."""
    return [run[which] for turn in turns for run in turn]


def ratio(one: Turns, other: Turns, which: int, factor: float = 1.0) -> list[float]:
    """``factor`` times the median of ``one`` by that of ``other``, and the interval that holds 95 %
    of the ratios when turns are drawn again with replacement."""
    rng = random.Random(0)

    def drawn(turns: Turns) -> float:
        return statistics.median(flat(rng.choices(turns, k=len(turns)), which))

    made = sorted(factor * drawn(one) / drawn(other) for _ in range(1000))
    middle = statistics.median(flat(one, which)) / statistics.median(flat(other, which))
    return [factor * middle, made[25], made[975]]


def paired(one: Turns, other: Turns, which: int) -> list[float]:
    """The median of the ratios of ``one`` to ``other`` within each turn, and the interval that
    holds 95 % of such medians when turns are drawn again with replacement."""
    rng = random.Random(0)
    each = [
        statistics.median(flat([a], which)) / statistics.median(flat([b], which))
        for a, b in zip(one, other, strict=True)
    ]
    made = sorted(statistics.median(rng.choices(each, k=len(each))) for _ in range(1000))
    return [statistics.median(each), made[25], made[975]]


def spread(numbers: Sequence[float] | None) -> str:
    """A ratio with its interval, in words of a table."""
    if not numbers:
        return ""
    middle, *ends = numbers
    return f"{middle:.2f}" + (f" ({ends[0]:.2f} … {ends[1]:.2f})" if ends else "")


# ---------------------------------------------------------------- the machine
def _first_processor() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def cpu_name() -> str:
    """What the system calls the processor."""
    found = _first_processor()
    name, family, model = (found.get(n, "?") for n in ("model name", "cpu family", "model"))
    return f"{name}, family {family}, model {model}" if found else "unknown"


def cpu_flags() -> list[str]:
    """Those of ``FLAGS`` that the processor has."""
    has = _first_processor().get("flags", "").split()
    return [flag for flag in FLAGS if flag in has]
