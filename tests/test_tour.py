"""The tour of the docs says what happens: its blocks run in order and print what they promise."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

TOUR = Path(__file__).parent.parent / "docs" / "tour.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)


def test_the_tour_prints_what_it_says() -> None:
    names: dict[str, Any] = {}
    blocks = list(BLOCK.finditer(TOUR.read_text()))
    assert len(blocks) >= 9
    for number, block in enumerate(blocks):
        code, expected = block[1], block[2]
        file = f"<tour block {number + 1}>"
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, file, "exec"), names)
        if expected is not None:
            assert printed.getvalue() == expected, f"block {number + 1} of {TOUR.name}"
