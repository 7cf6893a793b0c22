"""The page on reading what the compiler did, and the docstrings it leads to, run as printed."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "read-what-the-compiler-did.md"


def test_the_programs_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 7
    scope: dict[str, object] = {}
    for program, said in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(program, str(PAGE), "exec"), scope)
        assert out.getvalue() == said


@pytest.mark.parametrize(
    "name",
    [
        "maxlab.analysis.compile_report",
        "maxlab.analysis.edit.trial",
        "maxlab.analysis.fusion",
        "maxlab.analysis.memory",
        "maxlab.analysis.stages",
        "maxlab.compiler.options",
        "maxlab.engine.model",
    ],
)
def test_docstring_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
