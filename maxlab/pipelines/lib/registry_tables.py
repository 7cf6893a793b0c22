"""Tables of architectures: in text, and in HTML for light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.markup import escape
from maxlab.tabular import aligned


def text_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows as aligned lines, under a line with the title."""
    cells = [head, *rows] if head else rows
    return "\n".join([title, *(aligned(cells) if rows else [])])


# Colours come from the page, so that it is read on a light one and on a dark one.
_STYLE = (
    ".maxlab-registry{border-collapse:collapse;font-size:.9em;max-width:100%}"
    ".maxlab-registry caption{text-align:left;font-weight:bold;padding:4px 0}"
    ".maxlab-registry th,.maxlab-registry td{text-align:left;vertical-align:top;"
    "padding:2px 12px 2px 0;border-bottom:1px solid rgba(128,128,128,.35);color:inherit;"
    "background:transparent;overflow-wrap:anywhere}"
)


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows as a table of HTML, whose first column names them."""
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<style>{_STYLE}</style><table class="maxlab-registry"><caption>{escape(title)}</caption>'
        + (f"<thead><tr>{heads}</tr></thead>" if head else "")
        + f"<tbody>{lines}</tbody></table>"
    )


__all__ = ["html_table", "text_table"]
