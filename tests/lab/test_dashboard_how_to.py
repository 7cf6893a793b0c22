"""The how-to page and the docstrings of the monitor and the dashboard run as printed."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path

import pytest

from maxlab.diagnostics.monitor import marks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "watch-a-gpu.md"


def test_the_programs_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAXLAB_MONITOR_DIR", str(tmp_path / "monitor"))
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n\n.*?```text\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    scope: dict[str, object] = {}
    try:
        for program, said in blocks:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(program, str(PAGE), "exec"), scope)
            assert out.getvalue() == said
    finally:
        marks.detach()


@pytest.mark.parametrize(
    "name",
    [
        "maxlab.diagnostics.monitor.monitor",
        "maxlab.diagnostics.monitor.recording",
        "maxlab.lab.dashboard",
        "maxlab.lab.dashboard.widget",
    ],
)
def test_docstring_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXLAB_MONITOR_DIR", str(tmp_path / "monitor"))
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    try:
        result = doctest.testmod(importlib.import_module(name))
    finally:
        marks.detach()
    assert result.attempted > 0
    assert result.failed == 0
