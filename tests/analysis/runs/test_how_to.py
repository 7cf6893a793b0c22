"""The commands of the how-to page about runs are as it says."""

from __future__ import annotations

import re

import pytest

from maxlab.__main__ import main
from maxlab.analysis.runs.noise import Rules
from tests.pages import DOCS

PAGE = DOCS / "how-to" / "compare-runs.md"


def test_the_commands_take_what_the_page_gives(capsys: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(r"^python -m maxlab (\w+) (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {command for command, _ in commands} == {"diff", "show", "trace"}
    for command, arguments in commands:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        options = set(re.findall(r"(?<!\S)(--?[a-z][\w-]*)", arguments))
        assert options
        said = capsys.readouterr().out
        assert all(option in said for option in options)


def test_the_fractions_are_those_of_the_rules() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    rules = Rules()
    assert f"it is at least {100 * rules.least:g} %" in text
    assert f"a difference of more than {100 * rules.margin:g} % is ruled out" in text
    assert f"the ratio of medians lies with {100 * rules.confidence:g} %" in text
