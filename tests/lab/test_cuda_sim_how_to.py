"""The programs of ``docs/how-to/debug-a-cuda-kernel.md``, and the table of options in it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from maxlab.driver.sim.record import MOST_EVENTS
from maxlab.lab.cuda_sim.magic import _parser

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "debug-a-cuda-kernel.md"


def test_programs_print_what_the_page_says() -> None:
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.DOTALL)
    assert len(blocks) == 5
    scope: dict[str, Any] = {}
    for program, prints in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            exec(compile(program, PAGE.name, "exec"), scope)
        assert shown.getvalue() == prints


def test_every_option_is_in_the_table() -> None:
    table = set(re.findall(r"`(--[a-z-]+)`", PAGE.read_text("utf-8")))
    options = {option for action in _parser()._actions for option in action.option_strings}
    assert table == options - {"--check"}
    assert f"{MOST_EVENTS:,}" in PAGE.read_text("utf-8")
