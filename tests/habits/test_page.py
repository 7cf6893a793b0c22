"""The page for those who come from NumPy, PyTorch or JAX shows rows of the table of habits, each of
which `test_table` executes."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.habits.rows import Refused, Row
from tests.pages import DOCS

pytest.importorskip("torch")

from tests.habits.test_table import FAMILIES

PAGE = DOCS / "how-to" / "coming-from-numpy-pytorch-jax.md"
_LINE = re.compile(r"^\| `(?P<typed>[^`]+)` \| (?P<here>.+) \|$", re.MULTILINE)
_REFUSED = re.compile(r"^\[(?P<code>ML\d{3})\]\(\.\./errors/\1\.md\)(?:: `(?P<call>[^`]+)`)?$")


class Shown(NamedTuple):
    """A row of the page: what is typed, and what the page says of it."""

    typed: str
    here: str


def shown() -> list[Shown]:
    """The rows of the tables of habits of the page."""
    text = PAGE.read_text("utf-8")
    tables = text[text.index("## Habit by habit") : text.index("## What can be saved")]
    return [Shown(one["typed"], one["here"]) for one in _LINE.finditer(tables)]


KNOWN: dict[str, Row] = {row.text: row for table in FAMILIES.values() for row in table}


def told(row: Row) -> str:
    """What the page says of ``row``."""
    if not isinstance(row.wanted, Refused):
        return f"`{row.wanted}`"
    link = f"[{row.wanted.code}](../errors/{row.wanted.code}.md)"
    return f"{link}: `{row.wanted.call}`" if row.wanted.call else link


@pytest.mark.parametrize("one", shown(), ids=lambda one: one.typed)
def test_a_row_of_the_page_is_one_of_the_table(one: Shown) -> None:
    assert one.typed in KNOWN, "add it to tests/habits, where it is executed"
    assert one.here == told(KNOWN[one.typed])
    if isinstance(KNOWN[one.typed].wanted, Refused):
        assert _REFUSED.match(one.here)


def test_the_page_shows_habits_of_each_kind() -> None:
    rows = shown()
    assert len(rows) >= 80
    assert len({one.typed for one in rows}) == len(rows)
    refused = sum(one.here.startswith("[ML") for one in rows)
    assert refused >= 20
    assert len(rows) - refused >= 20
