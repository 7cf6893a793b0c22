"""The programs of ``docs/how-to/find-a-wrong-kernel.md`` print what it says they print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "find-a-wrong-kernel.md"


def test_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    scope: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for kind, text in blocks:
        if kind == "text":
            assert printed == text
            printed = ""
            continue
        assert printed == "", f"the page does not show {printed!r}"
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, str(PAGE), "exec"), scope)
        printed = out.getvalue()
    assert printed == ""
    assert sum(kind == "text" for kind, _ in blocks) >= 6
