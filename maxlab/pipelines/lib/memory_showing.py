"""A picture of memory: a bar of what is taken, and tables, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.markup import escape

_WIDTH = 640
_COLOURS = {"weights": "#4c78a8", "activations": "#e08a2c", "cache": "#54a24b", "left": "none"}
_STYLE = (
    ".maxlab-memory{font-size:0.9em;max-width:680px;color:inherit}"
    ".maxlab-memory svg{width:100%;height:auto}"
    ".maxlab-memory table{border-collapse:collapse;margin:6px 24px 6px 0;display:inline-table;"
    "vertical-align:top;font-size:inherit}"
    ".maxlab-memory th,.maxlab-memory td{text-align:right;padding:2px 10px 2px 0;color:inherit;"
    "background:transparent;border-bottom:1px solid rgba(128,128,128,.35)}"
    ".maxlab-memory th:first-child,.maxlab-memory td:first-child{text-align:left}"
    ".maxlab-memory i{display:inline-block;width:.8em;height:.8em;margin-right:.5em;"
    "border:1px solid currentColor}"
)


def _bar(parts: Sequence[tuple[str, int, str]], budget: int, told_budget: str) -> str:
    """The parts beside each other, to scale, with a line at the budget."""
    taken = sum(nbytes for name, nbytes, _ in parts if name != "left")
    whole = max(taken, budget, 1)
    told = ", ".join(f"{name} {text}" for name, _, text in parts)
    shapes, place = [], 0.0
    for name, nbytes, text in parts:
        width = nbytes / whole * _WIDTH
        shapes.append(
            f'<rect x="{place:.2f}" y="8" width="{width:.2f}" height="28" '
            f'fill="{_COLOURS[name]}"><title>{escape(f"{name}: {text}")}</title></rect>'
        )
        if width > 9 * len(name) and name != "left":
            shapes.append(
                f'<text x="{place + 6:.2f}" y="27" font-size="13" fill="#000">{escape(name)}</text>'
            )
        place += width
    line = budget / whole * _WIDTH
    anchor = "end" if line > _WIDTH / 2 else "start"
    return (
        f'<svg viewBox="-1 0 {_WIDTH + 2} 56" role="img" '
        f'aria-label="{escape(told, quote=True)}"><rect x="0" y="8" width="{_WIDTH}" height="28" '
        'fill="none" stroke="currentColor" stroke-opacity="0.5"/>'
        f'{"".join(shapes)}<line x1="{line:.2f}" x2="{line:.2f}" y1="3" y2="41" '
        'stroke="currentColor" stroke-width="2"/>'
        f'<text x="{line:.2f}" y="53" font-size="12" fill="currentColor" '
        f'text-anchor="{anchor}">budget {escape(told_budget)}</text></svg>'
    )


def page(
    title: str,
    caption: str,
    parts: Sequence[tuple[str, int, str]],
    budget: int,
    told_budget: str,
    batches: Sequence[tuple[int, int]],
    lengths: Sequence[tuple[int, int]],
) -> str:
    """The bar, the parts as a table, and tables of what would fit.

    Args:
        title: What the picture says, in a line.
        caption: What was asked for.
        parts: The name, the bytes and the text of each part.
        budget: Bytes that may be taken.
        told_budget: Its text.
        batches: Lengths, with the largest batch of each.
        lengths: Batches, with the longest length of each.
    """
    rows = "".join(
        f'<tr><td><i style="background:{_COLOURS[name]}"></i>{escape(name)}</td>'
        f"<td>{escape(text)}</td></tr>"
        for name, _, text in parts
    )
    return (
        f'<style>{_STYLE}</style><div class="maxlab-memory"><b>{escape(title)}</b>'
        f"<div>{escape(caption)}</div>{_bar(parts, budget, told_budget)}"
        f"<div>{_table(('part', 'memory'), rows)}"
        f"{_table(('tokens each', 'largest batch'), _numbers(batches))}"
        f"{_table(('sequences', 'most tokens each'), _numbers(lengths))}</div></div>"
    )


def _numbers(pairs: Sequence[tuple[int, int]]) -> str:
    return "".join(f"<tr><td>{one}</td><td>{other}</td></tr>" for one, other in pairs)


def _table(heads: Sequence[str], rows: str) -> str:
    told = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return f"<table><thead><tr>{told}</tr></thead><tbody>{rows}</tbody></table>"


__all__ = ["page"]
