"""Pages of the documentation that are programs: their blocks run in order, and print what they
promise."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run_page(name: str, least: int, *, silent: bool = True, without: str = "") -> None:
    """Run the programs of ``docs/<name>``, one after another in one scope, and assert that each
    prints the text behind it, in which ``…`` stands for anything.

    Args:
        name: The page.
        least: How many programs it has at least.
        silent: Whether a program without a text behind it may print nothing.
        without: A package that may be missing: programs that name it are left out.
    """
    blocks = _BLOCK.findall((DOCS / name).read_text("utf-8"))
    assert sum(kind == "python" for kind, _ in blocks) >= least
    scope: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    is_program = False  # whether the block before was one: its output may follow
    for number, (kind, text) in enumerate(blocks):
        if kind == "text" and is_program:
            pattern = ".*".join(re.escape(part) for part in text.split("…"))
            assert re.fullmatch(pattern, printed, re.DOTALL), f"block {number} of {name}: {printed}"
            printed = ""
        is_program = kind == "python" and not (without and without in text)
        if not is_program:
            continue
        assert not silent or printed == "", f"{name} does not show {printed!r}"
        file = f"<{name} block {number}>"  # where errors show the line
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, file, "exec"), scope)
        printed = out.getvalue()
    assert not silent or printed == "", f"{name} does not show {printed!r}"
