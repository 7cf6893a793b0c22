"""The first run of an edited kernel, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import maxlab.analysis
from maxlab.analysis.check.alone import Alone
from maxlab.config import config

Array = np.ndarray[Any, Any]

_GNU = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)$",
    re.MULTILINE,
)
_NVIDIA = re.compile(
    r"^(?P<file>[^(\n]+)\((?P<line>\d+)\): (?:catastrophic )?error(?: #\S+)?: (?P<text>.*)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error of a compiler.

    Attributes:
        line: Line of the edited text, from 1; None for one that is about no line of it.
        column: Column, from 1; None if the compiler names none.
        text: The compiler's words.
    """

    line: int | None
    column: int | None
    text: str


@dataclass(slots=True)
class FirstRun:
    """What became of a kernel in its first run.

    Attributes:
        state: ``"ran"``, ``"compile_error"`` or ``"crashed"``.
        errors: The errors of the compiler.
        log: What the compiler or the process said.
        made: For each place of the kernel, what each of its pointers holds afterwards; None for
            those that it only reads.
    """

    state: str
    errors: tuple[Diagnostic, ...] = ()
    log: str = ""
    made: list[list[Array | None]] = field(default_factory=list)


def first_run(kernels: Sequence[Alone], text: str, timeout_s: float) -> FirstRun:
    """The first run of ``kernels``, which all have the symbol of ``text``, with that text."""
    folder = Path(tempfile.mkdtemp(prefix="maxlab-edit-"))
    try:
        (folder / "edited.txt").write_text(text, "utf-8")
        for number, kernel in enumerate(kernels):
            kernel.save(folder / f"{number}.npz", compress=False)
        device = kernels[0].device
        simulated = device is not None and device.simulated
        started = _start(folder, "simulated" if simulated else "real", timeout_s)
        if started is not None:
            return started
        result = json.loads((folder / "result.json").read_text("utf-8"))
        if result["code"]:
            return _refused(kernels[0].symbol, result)
        found = FirstRun("ran")
        for number, kernel in enumerate(kernels):
            with np.load(folder / f"{number}.out.npz", allow_pickle=False) as file:
                names = set(file.files)
                pointers = range(len(kernel.memory))
                found.made.append([file[str(n)] if str(n) in names else None for n in pointers])
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, target: str, timeout_s: float) -> FirstRun | None:
    """None for a process that ended well; else how it ended."""
    settings = config()
    root = Path(maxlab.analysis.__file__).resolve().parents[2]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "MAXLAB_CACHE_DIR": str(settings.cache_dir),
        "MAXLAB_NUM_THREADS": str(settings.num_threads),
        **({"MAXLAB_CC": settings.cc} if settings.cc else {}),
    }
    command = [sys.executable, "-m", "maxlab.analysis.edit.child", str(folder), target]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return FirstRun("crashed", log=f"it did not end within {timeout_s:.0f} s and was stopped")
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        what = "it read or wrote outside of its memory" if name in ("SIGSEGV", "SIGBUS") else ""
        words = f"the process was ended by {name}" + (f": {what}" if what else "")
        return FirstRun("crashed", log="\n".join(filter(None, [words, said[-2000:]])))
    if done.returncode:
        return FirstRun("crashed", log=f"the process ended with {done.returncode}\n{said[-2000:]}")
    return None


def _refused(symbol: str, result: dict[str, Any]) -> FirstRun:
    """What an error of the process means."""
    log = "\n".join(filter(None, [result["what"], *result["why"], result["log"]]))
    if not result["code"].startswith("ML50"):
        return FirstRun("crashed", log=log)  # an index out of range, a race, a guard overwritten
    errors = []
    for pattern in (_GNU, _NVIDIA):
        for found in pattern.finditer(result["log"]):
            facts = found.groupdict()
            mine = Path(facts["file"]).stem == symbol
            errors.append(
                Diagnostic(
                    int(facts["line"]) if mine else None,
                    int(facts["column"]) if mine and facts.get("column") else None,
                    facts["text"],
                )
            )
    if not errors:
        errors = [Diagnostic(None, None, result["what"])]
    return FirstRun("compile_error", tuple(dict.fromkeys(errors)), log)


__all__ = ["Diagnostic", "FirstRun", "first_run"]
