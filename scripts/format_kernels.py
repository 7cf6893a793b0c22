"""Formats the files of ``kernels/ops`` with clang-format.

    python scripts/format_kernels.py           write them
    python scripts/format_kernels.py --check   print those that are not formatted; 1 when one is not

Between directives, comments that begin with ``@``, stand statements that belong into a function. So
each such text goes to clang-format within one, and comes back without it. A ``#pragma`` is as far
right as the statement below it. The style is ``.clang-format``; comments stay as they are.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT / "kernels" / "ops"
_DIRECTIVE = re.compile(r"\s*//\s*@(\w+)")
_INNER = ("if", "elif", "else", "endif")
_HEAD, _MARK = "void statements(void) {", "// end of the statements"


def stretches(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Begin and end of each text of statements: from a line that is no comment to the last one
    before the next directive, with the lines ``@if`` in front of it."""
    begin: int | None = None
    end = 0
    for number, line in enumerate([*lines, "// @end"]):
        found = _DIRECTIVE.match(line)
        if found is not None and found[1] in _INNER:
            begin = number if begin is None else begin
            end = number + 1
        elif found is not None:
            if begin is not None:
                yield begin, end
            begin = None
        elif line.strip() and not line.lstrip().startswith("//"):
            begin = number if begin is None else begin
            end = number + 1


def formatted(text: str, program: str) -> str:
    """``text``, that of a file, as it should be."""
    lines = text.split("\n")
    parts = list(stretches(lines))
    whole = "\n".join("\n".join([_HEAD, *lines[a:b], _MARK, "}"]) for a, b in parts)
    command = [program, "--assume-filename=kernel.cu", f"--style=file:{ROOT / '.clang-format'}"]
    done = subprocess.run(command, input=whole, capture_output=True, text=True, check=True)
    made = _inside(done.stdout.split("\n"))
    assert len(made) == len(parts), "clang-format moved a function"
    for (begin, end), new in reversed(list(zip(parts, made, strict=True))):
        lines[begin:end] = new
    return "\n".join(lines)


def _inside(lines: list[str]) -> list[list[str]]:
    """The statements of each function."""
    made: list[list[str]] = []
    for line in lines:
        if line == _HEAD:
            made.append([])
        elif line.strip() == _MARK:
            made[-1] = _with_pragmas(made[-1])
        elif line not in ("}", ""):
            made[-1].append(line.removeprefix("  "))
        elif line == "" and made and made[-1][-1:] != [""]:
            made[-1].append("")
    return [each[: -1 if each and not each[-1] else None] for each in made]


def _with_pragmas(lines: list[str]) -> list[str]:
    """``lines``, where a pragma, and a comment that chooses lines, is as far right as the statement
    below it; ``@endif`` as its ``@if``."""
    made: list[str] = []
    indent = ""
    for line in reversed(lines):
        found = _DIRECTIVE.match(line)
        if line.startswith("#pragma") or (found is not None and found[1] != "endif"):
            line = indent + line.lstrip()
        elif line.strip() and found is None:
            indent = line[: len(line) - len(line.lstrip())]
        made.append(line)
    opened: list[str] = []
    for number, line in enumerate(reversed(made)):
        found = _DIRECTIVE.match(line)
        if found is not None and found[1] == "if":
            opened.append(line[: len(line) - len(line.lstrip())])
        elif found is not None and found[1] == "endif":
            made[-1 - number] = opened.pop() + line.lstrip()
    return made[::-1]


def main() -> int:
    """Write or check; 1 when a file is not formatted."""
    beside = Path(sys.executable).parent / "clang-format"
    program = str(beside) if beside.is_file() else shutil.which("clang-format")
    if program is None:
        print("clang-format is missing: pip install clang-format, as the extra `test` does")
        return 1
    wrong = []
    for path in sorted(FILES.iterdir()):
        text = path.read_text("utf-8")
        made = formatted(text, program)
        if made != text:
            wrong.append(path)
            if "--check" not in sys.argv:
                path.write_text(made, "utf-8")
    if "--check" in sys.argv and wrong:
        names = " ".join(str(path.relative_to(ROOT)) for path in wrong)
        print(f"not formatted: {names}\nrun: python scripts/format_kernels.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
