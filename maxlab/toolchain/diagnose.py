"""From what a compiler printed to an error that shows the line of the generated kernel."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping

from maxlab.errors import Location, ToolchainError

_ERROR = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)$",
    re.MULTILINE,
)
_FROM = re.compile(r"\s*// @from(?: (?P<file>.+):(?P<line>\d+))?$")
_CONTEXT_LINES = 2
NO_SPACE = "No space left on device"


def compile_error(code: int, output: str, sources: Mapping[str, str]) -> ToolchainError:
    """The error for a compiler that ended with status ``code``.

    Args:
        code: the exit status; negative for a signal.
        output: all it printed.
        sources: C text by the name it was compiled under (a kernel's name or a file's).
    """
    names = ", ".join(sources)
    if code < 0:
        killed = signal.Signals(-code).name
        return ToolchainError(
            "ML505",
            f"the compiler was stopped by {killed} while compiling {names}",
            why=_tail(output),
            fix="free some memory, or lower the number of parallel compilations with "
            "MAXLAB_NUM_THREADS",
        )
    found = _ERROR.search(output)
    if found is None:
        return ToolchainError(
            "ML502",
            f"the compiler refused {names} with status {code}",
            why=_tail(output),
            fix="check the installation of the compiler: maxlab.toolchain.doctor_rows()",
        )
    name, line = found["file"], int(found["line"])
    column = int(found["column"] or 0)
    where = name if name in sources else names
    if name in sources:
        at = place_of(sources[name], line)
        if at is not None:
            return refused(at, found["text"], sources[name], line, column, output)
    error = ToolchainError(
        "ML502",
        f"the compiler refused kernel {where}, line {line}: {found['text']}",
        why=excerpt(sources[name], line, column) if name in sources else _tail(output),
        fix="if you wrote this kernel, mend the line; if maxlab did, please report it with "
        "this message",
    )
    error.add_note(output.strip()[:4000])
    return error


def place_of(text: str, line: int) -> Location | None:
    """Where the user wrote line ``line`` of a kernel's text: a comment ``// @from FILE:LINE`` above
    says what the line behind it is. None when maxlab wrote it.
    """
    lines = text.splitlines()
    for number in range(min(line, len(lines)) - 1, 0, -1):
        found = _FROM.match(lines[number - 1])
        if found is not None:
            if found["file"] is None:
                return None
            return Location(found["file"], int(found["line"]) + line - number - 1)
    return None


def refused(
    at: Location, what: str, text: str, line: int, column: int, output: str
) -> ToolchainError:
    """The error for a line that a user wrote at ``at``, which is ``line`` of ``text``."""
    error = ToolchainError(
        "ML502",
        f"the compiler refused line {at.line} of {at.file}: {what}",
        at=at,
        why=excerpt(text, line, column, at.line - line),
        fix="mend the line; names of tensors, dims and parameters are replaced in what is shown",
    )
    error.add_note(output.strip()[:4000])
    return error


def excerpt(text: str, line: int, column: int, shift: int = 0) -> list[str]:
    """The lines around ``line`` with their numbers, moved by ``shift``, and a caret under
    ``column``."""
    lines = text.splitlines()
    shown: list[str] = []
    for number in range(max(line - _CONTEXT_LINES, 1), min(line + _CONTEXT_LINES, len(lines)) + 1):
        if _FROM.match(lines[number - 1]):
            continue
        shown.append(f"{number + shift:5} | {lines[number - 1]}")
        if number == line and column > 0:
            shown.append(" " * 5 + " | " + " " * (column - 1) + "^")
    return shown


def _tail(output: str) -> list[str]:
    return output.strip().splitlines()[-5:]
