"""The how-to page about making kernels faster, and the docstrings behind it, run as printed."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "make-a-kernel-faster.md"


def test_the_programs_print_what_the_page_says() -> None:
    blocks = re.findall(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    assert len(blocks) == 4
    scope: dict[str, object] = {"__name__": "__main__"}
    for program, said in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(program, str(PAGE), "exec"), scope)
        pattern = ".*".join(re.escape(part) for part in said.split("…"))
        assert re.fullmatch(pattern, out.getvalue(), re.DOTALL), out.getvalue()


def test_the_page_names_every_kind_of_action() -> None:
    from typing import get_args

    from maxlab.analysis.advice.action import Kind

    text = PAGE.read_text("utf-8")
    assert all(f"`{kind}`" in text for kind in get_args(Kind))


@pytest.mark.parametrize(
    "name",
    [
        "maxlab.analysis.advice",
        "maxlab.analysis.machine",
        "maxlab.analysis.roofline",
        "maxlab.analysis.trial",
        "maxlab.compiler.traffic",
    ],
)
def test_docstring_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
