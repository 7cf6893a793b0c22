"""From what a CUDA compiler printed to an error that shows the line of the kernel's text.

There are four speakers, each with its own form: the compiler (``name(3): error: ...``), its
preprocessor (gcc's form), ptxas, which knows no lines of the text, and nvcc or NVRTC about options.
"""

from __future__ import annotations

import re
from pathlib import Path

from maxlab.errors import ToolchainError
from maxlab.toolchain.diagnose import excerpt, place_of, refused

_PLACE = "/maxlab/kernels"
_OWN_FILE = re.compile(rf"{_PLACE}/(\w+)\.cu\b")
_ERROR = re.compile(
    r"^(?P<file>[^\s(:][^(:\n]*)"
    r"(?:\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: "  # of the compiler
    r"|:(?P<line_too>\d+):\d+: (?:fatal )?error: )"  # of the preprocessor, which is gcc
    r"(?P<text>.*)$",
    re.MULTILINE,
)
_USED_AT = re.compile(r"at line (?P<line>\d+) of (?P<file>\S+)")
_PTXAS_ERROR = re.compile(
    r"^ptxas [^,\n]+, line \d+; (?:fatal|error)\s*:\s*(?P<text>.*)$|"
    r"^ptxas (?:fatal|error)\s*:\s*(?P<more>.*)$",
    re.MULTILINE,
)
_OPTION_ERROR = re.compile(
    r"^nvcc fatal\s*:\s*(?P<nvcc>.*)$|^nvrtc: error:\s*(?P<nvrtc>.*)$", re.MULTILINE
)


def line_name(kernel: str) -> str:
    """The name of a kernel's text in line tables and for the compiler. A full path, for to a mere
    name the compiler adds the directory it runs in, and no two builds would be the same.
    """
    return f"{_PLACE}/{kernel}.cu"


def compile_error(status: int, log: str, sources: dict[str, str]) -> ToolchainError:
    """The error for a compiler that ended with ``status``, with the line of the text."""
    names = ", ".join(sources)
    log = _OWN_FILE.sub(r"\1", log)
    if status < 0:
        return ToolchainError(
            "ML505",
            f"the CUDA compiler was stopped by signal {-status} while compiling {names}",
            why=log.strip().splitlines()[-5:],
            fix="free some memory, or lower the number of parallel compilations with "
            "MAXLAB_NUM_THREADS",
        )
    option = _OPTION_ERROR.search(log)
    if option is not None:
        return ToolchainError(
            "ML502",
            f"the CUDA compiler refused its options: {option['nvcc'] or option['nvrtc']}",
            why=[f"it was asked to compile {names}"],
            fix="if the architecture is newer than the compiler, update that: "
            "pip install -U nvidia-cuda-nvrtc; else mend CudaFlags",
        )
    fix = (
        "if you wrote this kernel, mend the line; if maxlab did, please report it with this message"
    )
    found = _ERROR.search(log)
    if found is not None:
        theirs = _of_a_user(found, log, sources)
        if theirs is not None:
            return theirs
        what, why = _at_the_line(found, log[found.end() :], sources)
    else:
        later = _PTXAS_ERROR.search(log)
        reason = (later["text"] or later["more"]) if later else f"status {status}"
        what = f"the CUDA compiler refused {names}: {reason}"
        why = [] if later else log.strip().splitlines()[-5:]
    error = ToolchainError("ML502", what, why=why, fix=fix)
    error.add_note(log.strip()[:4000])
    return error


def _of_a_user(found: re.Match[str], log: str, sources: dict[str, str]) -> ToolchainError | None:
    """The error for a line that a user wrote; None for all others."""
    name, line = found["file"], int(found["line"] or found["line_too"])
    at = place_of(sources[name], line) if name in sources else None
    if at is None:
        return None
    column = _column(log[found.end() :], sources[name], line)
    return refused(at, found["text"], sources[name], line, column, log)


def _at_the_line(
    found: re.Match[str], after: str, sources: dict[str, str]
) -> tuple[str, list[str]]:
    """The text of an error and the lines around it, which are those of a text also when the
    compiler found the error in a header that the text uses.
    """
    name, line = found["file"], int(found["line"] or found["line_too"])
    if name in sources:
        column = _column(after, sources[name], line)
    else:
        user = next((u for u in _USED_AT.finditer(after) if u["file"] in sources), None)
        if user is None:
            place = f"{Path(name).name}, line {line}"
            return (
                f"the CUDA compiler refused {', '.join(sources)} at {place}: {found['text']}",
                after.strip().splitlines()[:2],
            )
        name, line, column = user["file"], int(user["line"]), 0
    what = f"the CUDA compiler refused kernel {name}, line {line}: {found['text']}"
    return what, excerpt(sources[name], line, column)


def _column(after: str, text: str, line: int) -> int:
    """The column that the caret below an error stands under, 0 if there is none.

    The compiler prints the line without its own indentation but with two or four spaces.
    """
    shown = after.strip("\n").splitlines()[:2]
    lines = text.splitlines()
    if len(shown) < 2 or shown[1].strip() != "^" or not 1 <= line <= len(lines):
        return 0
    original = lines[line - 1]
    inset = len(shown[0]) - len(shown[0].lstrip())
    return len(original) - len(original.lstrip()) + shown[1].index("^") - inset + 1
