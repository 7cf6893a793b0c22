"""The how-to page on kernels of users says what happens."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from maxlab import driver

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "write-a-kernel.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "__main__"}
    printed, programs = "", 0
    with driver.simulated():
        for number, (kind, text) in enumerate(BLOCK.findall(PAGE.read_text("utf-8"))):
            if kind == "text":
                pattern = ".*".join(re.escape(part) for part in text.split("…"))
                assert re.fullmatch(pattern, printed, re.DOTALL), f"block {number}: {printed}"
                printed = ""
                continue
            assert not printed, f"the page does not show {printed!r}"
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, f"<block {number}>", "exec"), scope)
            printed, programs = out.getvalue(), programs + 1
    assert programs == 6
