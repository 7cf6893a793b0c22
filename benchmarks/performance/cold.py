"""Cold first numbers: from the start of a process to the first number that it computes, with no
kernel, plan or compiled graph in any cache. Byte code of Python is there, as after an installation,
and so are the machine code that wheels of maxlab bring (`scripts.prebuild`), the files of ONNX that
ONNX Runtime and OpenVINO read, and files of inputs and weights for the others.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.performance.rows import COLD
from benchmarks.turns import Turns, interpreter

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).parent / "worker.py"
SECONDS = 300
"""After so many seconds a peer has no first number."""


def first_number(peer: str, name: str, threads: int, files: Path) -> tuple[int, int]:
    """The nanoseconds of a process to its first number, by the clock and of processors, those of
    compilers that it starts included; ``files`` has its inputs, weights and ONNX.

    Raises:
        RuntimeError: It ended without one, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="maxlab-cold-") as folder:
        caches = {
            "MAXLAB_CACHE_DIR": f"{folder}/maxlab", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "MODULAR_HOME": f"{folder}/max", "XDG_CACHE_HOME": f"{folder}/other",
        }  # fmt: skip
        command = [interpreter(peer), str(WORKER), peer, str(threads), name, str(files)]
        told = Path(folder) / "told"
        with told.open("w") as out, (Path(folder) / "errors").open("w+") as errors:
            begin = time.perf_counter_ns()
            process = subprocess.Popen(
                command, stdout=out, stderr=errors, env={**os.environ, **caches}
            )
            used = _waited(process, begin)
            wall = time.perf_counter_ns() - begin
            errors.seek(0)
            said = errors.read().strip().splitlines() or ["it ended"]
        if used is None:
            raise RuntimeError(f"no number after {SECONDS} s")
        if process.returncode or "number" not in told.read_text("utf-8"):
            raise RuntimeError(said[-1][:200])
        return wall, int((used.ru_utime + used.ru_stime) * 1e9)


def _waited(process: subprocess.Popen[Any], begin: int) -> Any:
    """What the process used, when it ended; None when it took too long and was ended."""
    while time.perf_counter_ns() - begin < SECONDS * 1_000_000_000:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return used
        time.sleep(0.002)
    process.kill()
    process.wait()
    return None


def measured(
    name: str, peers: Sequence[str], rounds: int, threads: int, files: Path, missing: dict[str, str]
) -> dict[str, Turns]:
    """The turns of all peers, one process each; a first round fills what byte code lacks. Why a
    peer has none goes into ``missing``."""
    turns: dict[str, Turns] = {}
    able = [peer for peer in COLD[name].peers if peer in peers]
    if "maxlab" in able:
        command = [interpreter("maxlab"), "-m", "scripts.prebuild"]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for turn in range(rounds + 1):
        for peer in list(able) if turn % 2 else able[::-1]:
            try:
                found = first_number(peer, name, threads, files)
            except RuntimeError as error:
                missing[peer] = str(error)
                able.remove(peer)
                turns.pop(peer, None)
                continue
            if turn:
                turns.setdefault(peer, []).append([found])
            elif found[0] > 30e9:  # once is enough of what takes that long
                turns.setdefault(peer, []).append([found])
                able.remove(peer)
    return turns
