"""Text of users in HTML and SVG: whatever is in it, the page around it stays whole."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Sequence

_UNSAYABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 has no way to say, and those that control a terminal."""


def visible(text: str) -> str:
    """``text`` with ``�`` for each character that XML has no way to say; as long as it was.

    Example:
        >>> visible("a\\0b")
        'a�b'
    """
    return _UNSAYABLE.sub("\ufffd", text)


def escape(text: str, quote: bool = False) -> str:
    """``text`` as it stands in HTML or XML; with ``quote``, in an attribute too.

    Example:
        >>> escape("a < b\\x1b")
        'a &lt; b�'
    """
    return html.escape(visible(text), quote)


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


# Text has the colour of the page, so that it is read on a light one and on a dark one. JupyterLab
# moves the text of all tables to the right, by a rule that is stronger than any with one class.
_TABLE = (
    "table.maxlab-table{border-collapse:collapse;font-size:12.5px;margin:4px 0;color:inherit}"
    "table.maxlab-table caption{text-align:left;font-weight:bold;padding:4px 0;color:inherit;"
    "overflow-wrap:anywhere}"
    "table.maxlab-table tr th,table.maxlab-table tr td{text-align:left!important;"
    "vertical-align:top;padding:2px 12px 2px 0;color:inherit;"
    "border-bottom:1px solid rgba(128,128,128,.35);"
    "max-width:34em;white-space:normal;overflow-wrap:break-word}"
    "table.maxlab-table tbody tr th{font-weight:normal}"
    "table.maxlab-table tr .right{text-align:right!important;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}"
    "table.maxlab-table tbody tr .group{padding-top:10px;font-weight:bold}"
    "table.maxlab-table code{color:inherit;background:transparent;white-space:pre-wrap;"
    "overflow-wrap:anywhere}"
    ".maxlab-wide{overflow-x:auto;max-width:100%}"
)


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str = "",
    right: Collection[int] = (),
    wide: bool = False,
) -> str:
    """A table of HTML, readable on light and on dark pages.

    Args:
        heads: The heads of the columns; none for a table without.
        rows: The cells of each row, texts or `Html`; the first names the row. A row of one cell,
            in a table of several columns, is the head of the rows below it.
        caption: What the table shows.
        right: The columns that stand to the right, such as those of numbers.
        wide: Whether it may be wider than the page, and is moved sideways then.

    Example:
        >>> "<td>a &amp; b</td>" in table(["name", "text"], [["1", "a & b"]])
        True
    """

    def cell(tag: str, place: int, text: str) -> str:
        side = ' class="right"' if place in right else ""
        return f"<{tag}{side}>{_as_html(text)}</{tag.partition(' ')[0]}>"

    lines = []
    for row in rows:
        if len(row) == 1 < len(heads):
            lines.append(
                f'<tr><th class="group" colspan="{len(heads)}" scope="rowgroup">'
                f"{_as_html(row[0])}</th></tr>"
            )
        else:
            cells = [cell("td" if n else 'th scope="row"', n, text) for n, text in enumerate(row)]
            lines.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(cell('th scope="col"', n, text) for n, text in enumerate(heads))
    made = (
        f'<style>{_TABLE}</style><table class="maxlab-table">'
        + (f"<caption>{_as_html(caption)}</caption>" if caption else "")
        + (f"<thead><tr>{head}</tr></thead>" if heads else "")
        + f"<tbody>{''.join(lines)}</tbody></table>"
    )
    if not wide:
        return made
    name = escape(caption or "a table", quote=True)
    return f'<div class="maxlab-wide" role="region" tabindex="0" aria-label="{name}">{made}</div>'


def _as_html(text: str) -> str:
    return text if isinstance(text, Html) else escape(text)


__all__ = ["Html", "escape", "table", "visible"]
