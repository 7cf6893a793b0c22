"""Masks as grids: rows are queries, columns are keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.markup import escape

MOST_ROWS, MOST_COLUMNS = 32, 64
"""The most queries and keys that are drawn: the last ones, which see most."""
CELL = 13
LEFT, TOP = 44, 34


@dataclass(frozen=True, eq=False)
class Grid:
    """A mask to be drawn.

    Attributes:
        name: The name of its rule.
        says: The rule in words.
        allowed: Whether a query sees a key, bool ``[queries, keys]``.
        cached: The position of the first query.
    """

    name: str
    says: str
    allowed: np.ndarray[Any, Any]
    cached: int


def _shown(mask: Grid) -> tuple[range, range]:
    """The rows and columns that are drawn."""
    rows, columns = mask.allowed.shape
    return range(max(0, rows - MOST_ROWS), rows), range(max(0, columns - MOST_COLUMNS), columns)


def text_of(mask: Grid) -> str:
    """The mask as text: a line for each query, ``#`` where it sees a key and ``.`` where not.

    Example:
        >>> from maxlab.nn.attention import MHAMaskVariant, attention_mask
        >>> print(attention_mask(MHAMaskVariant.CAUSAL_MASK, 2, cached=1))
        causal: a query sees itself and all keys before it
        rows: queries at positions 1 to 2; columns: keys 0 to 2
        ##.
        ###
    """
    rows, columns = _shown(mask)
    lines = [f"{mask.name}: {mask.says}", f"rows: {_extent(mask)}"]
    lines += ["".join(".#"[int(mask.allowed[row, key])] for key in columns) for row in rows]
    return "\n".join(lines)


def _extent(mask: Grid) -> str:
    """The positions of the rows and columns that are drawn, in words."""
    rows, columns = _shown(mask)
    first, last = mask.cached + rows[0], mask.cached + rows[-1]
    return f"queries at positions {first} to {last}; columns: keys {columns[0]} to {columns[-1]}"


def page_of(mask: Grid) -> str:
    """The mask as HTML: a grid in the colours of the page around it, light or dark."""
    from maxlab.compiler.plan_html import card

    left = ""
    if mask.allowed.shape != tuple(map(len, _shown(mask))):
        left = f" The last of {mask.allowed.shape[0]} × {mask.allowed.shape[1]} are drawn."
    border = " The line is where the cache ends and new tokens begin." if mask.cached else ""
    note = (
        "A row is a query, at its position in the sequence; a column is a key. Filled: the query "
        f"sees the key.{border}{left}"
    )
    return card(
        [
            f"<header><b>{escape(mask.name)}</b> <span>{escape(mask.says)}</span></header>",
            f"<section>{_grid(mask)}<p><small>{note}</small></p></section>",
        ]
    )


def _grid(mask: Grid) -> str:
    """The drawing, with a title for each cell."""
    rows, columns = _shown(mask)
    parts = []
    for y, row in enumerate(rows):
        parts.append(_label(LEFT - 5, TOP + (y + 0.75) * CELL, mask.cached + row, "end"))
        for x, column in enumerate(columns):
            seen = bool(mask.allowed[row, column])
            fill = 'fill="currentColor" fill-opacity=".72"' if seen else 'fill="none"'
            words = f"query {mask.cached + row} {'sees' if seen else 'does not see'} key {column}"
            parts.append(
                f'<rect x="{LEFT + x * CELL + 1}" y="{TOP + y * CELL + 1}" width="{CELL - 2}" '
                f'height="{CELL - 2}" rx="2" {fill} stroke="currentColor" stroke-opacity=".25">'
                f"<title>{words}</title></rect>"
            )
    step = 1 if len(columns) <= 16 else 5
    for x, column in enumerate(columns):
        if column % step == 0:
            parts.append(_label(LEFT + (x + 0.5) * CELL, TOP - 4, column, "middle"))
    width, height = LEFT + len(columns) * CELL, TOP + len(rows) * CELL
    if columns[0] < mask.cached <= columns[-1]:
        x = LEFT + (mask.cached - columns[0]) * CELL
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="{TOP - 2}" y2="{height}" stroke="currentColor" '
            'stroke-width="1.5" stroke-dasharray="3 2"/>'
        )
    parts.append(_label(LEFT, 10, "key →", "start"))
    parts.append(_label(LEFT - 5, TOP - 4, "query ↓", "end"))
    return (
        f'<svg role="img" aria-label="{escape(mask.says, quote=True)}" width="{width + 2}" '
        f'height="{height + 2}" viewBox="0 0 {width + 2} {height + 2}" '
        f'style="max-width:100%;height:auto;font-size:9px">{"".join(parts)}</svg>'
    )


def _label(x: float, y: float, text: object, anchor: str) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="currentColor">'
        f"{escape(str(text))}</text>"
    )


__all__ = ["Grid", "page_of", "text_of"]
