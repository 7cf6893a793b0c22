"""Configurations as tables: in text, and in HTML that is readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from maxlab.errors import shown
from maxlab.markup import Html, escape, table
from maxlab.tabular import aligned

_WIDEST = 60
"""Characters of a value before it is cut."""


class Row(NamedTuple):
    """A setting of a table.

    Attributes:
        section: The section it belongs to.
        name: Its name.
        value: Its value.
        origin: Where the value came from, such as ``"user"``.
        default: The value it has when nobody gives one.
        help: What it does.
        is_read: Whether a part of maxlab reads it.
    """

    section: str
    name: str
    value: Any
    origin: str
    default: Any
    help: str
    is_read: bool

    @property
    def is_default(self) -> bool:
        """True if the value is the default."""
        return self.origin == "default"

    @property
    def notes(self) -> str:
        """Where the value came from, and whether a pipeline has to read it."""
        told = self.origin
        return told if self.is_read else f"{told}; not every pipeline reads it"


def told(value: Any) -> str:
    """A value in one line: texts without quotes, enums and element types by their names."""
    if isinstance(value, (list, tuple)):
        return shown(f"[{', '.join(told(one) for one in value)}]", _WIDEST + 2)[1:-1]
    for part in ("value", "name"):  # of an enum, of an element type
        name = getattr(value, part, None)
        if isinstance(name, str):
            return name
    if hasattr(value, "device_type"):
        return value.device_type if value.id < 0 else f"{value.device_type}:{value.id}"
    if isinstance(value, str):
        text = value or "''"
    else:
        text = str(value) if hasattr(value, "as_posix") else shown(value, _WIDEST)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def text(title: str, rows: Sequence[Row]) -> str:
    """The rows as lines of text, a block for each section; ``*`` marks what is no default."""
    lines = [title]
    for section, group in groupby(rows, key=lambda row: row.section):
        cells = [
            (" " if row.is_default else "*", row.name, told(row.value), row.notes) for row in group
        ]
        lines += [section, *(f"  {line}" for line in aligned(cells))]
    return "\n".join(lines)


_STYLE = ".maxlab-config{color:inherit}.maxlab-config summary{cursor:pointer;padding:6px 0}"


def page(title: str, rows: Sequence[Row]) -> str:
    """The rows as tables of HTML: what is no default, and the defaults behind a fold.

    Values that are no defaults tell their default; the help of a setting is the tooltip of its
    name.
    """
    given = [row for row in rows if not row.is_default]
    defaults = [row for row in rows if row.is_default]
    count = "1 setting" if len(defaults) == 1 else f"{len(defaults)} settings"
    folded = f"<details><summary>{count} at the default</summary>{_table(defaults)}</details>"
    return (
        f'<style>{_STYLE}</style><div class="maxlab-config"><b>{escape(title)}</b>'
        f"{_table(given) if given else ''}{folded if defaults else ''}</div>"
    )


def _table(rows: Sequence[Row]) -> str:
    """The rows as one table, a group for each section."""
    lines: list[tuple[str, ...]] = []
    for section, group in groupby(rows, key=lambda row: row.section):
        lines.append((section,))
        for row in group:
            differs = not row.is_default and row.value != row.default
            was = f" (default {told(row.default)})" if differs else ""
            name = f'<span title="{escape(row.help, quote=True)}">{escape(row.name)}</span>'
            value = f"<code>{escape(told(row.value))}</code>"
            lines.append((Html(name), Html(value), row.notes + was))
    return table(("setting", "value", "from"), lines)


__all__ = ["Row", "page", "text", "told"]
