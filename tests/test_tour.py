"""The pages that are programs say what happens: their blocks run in order and print what they
promise.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

from maxlab import driver

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {"tour.md": 9, "how-to/run-on-a-gpu.md": 3}
"""Pages, and how many blocks each has at least."""
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_prints_what_it_says(page: str) -> None:
    names: dict[str, Any] = {}
    blocks = list(BLOCK.finditer((DOCS / page).read_text()))
    assert len(blocks) >= PAGES[page]
    with driver.simulated():  # puts back what a page chooses
        for number, block in enumerate(blocks):
            code, expected = block[1], block[2]
            file = f"<{page} block {number + 1}>"
            linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, file, "exec"), names)
            if expected is not None:
                assert printed.getvalue() == expected, f"block {number + 1} of {page}"
