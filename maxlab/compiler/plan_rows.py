"""Lines of a plan's text: `Row`."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """A line of a plan's text: its word, what it has, and the lines of code behind it."""

    word: str
    made: Any
    line: str


__all__ = ["Row"]
