"""The how-to page about profiles, and the docstrings behind it, run as printed."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "profile-a-model.md"


def test_the_programs_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    assert len(blocks) == 5
    scope: dict[str, object] = {"__name__": "__main__"}
    for program, said in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(program, str(PAGE), "exec"), scope)
        pattern = ".*".join(re.escape(part) for part in said.split("…"))
        assert re.fullmatch(pattern, out.getvalue(), re.DOTALL), out.getvalue()
    assert (tmp_path / "head.json").is_file()


@pytest.mark.parametrize(
    "name",
    [
        "maxlab.analysis.recording",
        "maxlab.analysis.slices",
        "maxlab.analysis.timeline",
        "maxlab.analysis.trace_export",
        "maxlab.engine.stamps",
        "maxlab.profiler",
        "maxlab.profiler.tracing",
    ],
)
def test_docstring_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
