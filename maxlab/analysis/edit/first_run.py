"""The first run of an edited kernel, in a process of its own."""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from maxlab.analysis.check.alone import Alone
from maxlab.files import open_regular
from maxlab.toolchain.child import Child, ChildEndedError

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
    """The outcome of a kernel's first run.

    Attributes:
        state: ``"ran"``, ``"compile_error"`` or ``"crashed"``.
        errors: The errors of the compiler.
        log: What the compiler or the process said.
        made: For each place of the kernel, what each of its pointers holds afterwards; None for
            those that it only reads.
    """

    state: Literal["ran", "compile_error", "crashed"]
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
        simulated = kernels[0].simulated
        child = Child(captured=True, folder=folder)
        try:
            run = "maxlab.analysis.edit.child:run"
            result = child.call(run, str(folder), simulated, seconds=timeout_s)
        except ChildEndedError as ended:
            return FirstRun("crashed", log=_how(ended, timeout_s))
        finally:
            child.end()
        if result["code"]:
            return _refused(kernels[0].symbol, result)
        found = FirstRun("ran")
        for number, kernel in enumerate(kernels):
            made = folder / f"{number}.out.npz"
            with open_regular(made) as out, np.load(out, allow_pickle=False) as file:
                names = set(file.files)
                pointers = range(len(kernel.memory))
                found.made.append([file[str(n)] if str(n) in names else None for n in pointers])
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _how(ended: ChildEndedError, timeout_s: float) -> str:
    """How the process ended, and what it said."""
    if ended.late:
        return f"it did not end within {timeout_s:.0f} s and was stopped"
    words = f"the process {ended.how}"
    if ended.signal in (signal.SIGSEGV, signal.SIGBUS):
        words += ": it read or wrote outside of its memory"
    return "\n".join(filter(None, [words, ended.said]))


def _refused(symbol: str, result: dict[str, Any]) -> FirstRun:
    """The outcome that an error of the process means."""
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
