"""A picture of the pages of a cache, readable on light and dark pages, and by screen readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxlab.markup import Html, escape, table

MOST_ROWS = 24
"""More requests than this are told as a number."""
MOST_PAGES = 24
"""Of more pages of a request the first and the last ones are drawn."""
_SIDE = 26
_NAMES = 150
_LOOKS = {
    "shared": ("#e08a2c", "0.55", ""),
    "prefix": ("#4c78a8", "0.45", ""),
    "own": ("#54a24b", "0.35", ""),
    "kept": ("#4c78a8", "0.15", "4 2"),
    "empty": ("#888888", "0", "1 3"),
    "host": ("#b279a2", "0.25", "6 2"),
    "poisoned": ("#d62728", "0.75", "5 1 1 1"),
}
"""The colour, its opacity and the dashes of the border of each state: none differs by colour
alone."""
_STYLE = (
    ".maxlab-pages{font-size:13px;line-height:1.45;max-width:860px;color:inherit}"
    ".maxlab-pages svg{max-width:100%;height:auto;vertical-align:middle}"
)


@dataclass(frozen=True)
class Line:
    """A request: its name, what is told of it, and its pages with their states."""

    name: str
    told: str
    pages: list[tuple[int, str]]


def _square(x: float, y: float, state: str, text: str, title: str) -> str:
    """A page, with its number."""
    colour, opacity, dashes = _LOOKS[state]
    return (
        f'<g><title>{escape(title)}</title><rect x="{x:.0f}" y="{y:.0f}" width="{_SIDE - 3}" '
        f'height="{_SIDE - 3}" rx="3" fill="{colour}" fill-opacity="{opacity}" '
        f'stroke="currentColor" stroke-opacity="0.7" stroke-dasharray="{dashes}"/>'
        f'<text x="{x + (_SIDE - 3) / 2:.1f}" y="{y + 15:.0f}" font-size="10" '
        f'text-anchor="middle" fill="currentColor">{escape(text)}</text></g>'
    )


def _line(line: Line, y: float) -> str:
    """The name of a request and its pages beside it; many are folded."""
    name = line.name if len(line.name) <= 20 else line.name[:19] + "…"
    parts = [
        (
            f'<text x="0" y="{y + 15:.0f}" font-size="12" fill="currentColor">'
            f"<title>{escape(f'{line.name}: {line.told}')}</title>{escape(name)}</text>"
        )
    ]
    shown: list[tuple[int, str] | None] = list(line.pages)
    if len(shown) > MOST_PAGES:
        half = (MOST_PAGES - 2) // 2
        shown = [*shown[:half], None, *shown[-half:]]
    x = float(_NAMES)
    for one in shown:
        if one is None:
            hidden = len(line.pages) - len(shown) + 1
            parts.append(
                f'<text x="{x:.0f}" y="{y + 15:.0f}" font-size="10" fill="currentColor">'
                f"… {hidden}</text>"
            )
            x += 2 * _SIDE
            continue
        page, state = one
        parts.append(_square(x, y, state, str(page), f"page {page}: {state}"))
        x += _SIDE
    return "".join(parts)


def page(
    title: str, lines: Sequence[Line], counts: Sequence[tuple[str, int, str]], notes: Sequence[str]
) -> str:
    """The picture, and tables of the same.

    Args:
        title: What it says, in a line.
        lines: The requests.
        counts: The states of pages, how many are in each, and what they mean.
        notes: Sentences below.
    """
    drawn = list(lines[:MOST_ROWS])
    height = max(len(drawn), 1) * _SIDE + 4
    shapes = "".join(_line(line, number * _SIDE + 2) for number, line in enumerate(drawn))
    longest = max((len(line.pages) for line in drawn), default=0)
    width = _NAMES + (longest if longest <= MOST_PAGES else MOST_PAGES + 2) * _SIDE
    more = len(lines) - len(drawn)
    folded = f"<div>… and {more} more requests</div>" if more else ""
    legend = [
        (
            Html(
                f'<span style="white-space:nowrap"><svg width="{_SIDE}" height="{_SIDE}" '
                f'aria-hidden="true">{_square(1, 1, state, "", state)}</svg> {escape(state)}</span>'
            ),
            str(count),
            said,
        )
        for state, count, said in counts
    ]
    rows = [
        (line.name, line.told, " ".join(f"{number} ({state})" for number, state in line.pages))
        for line in drawn
    ]
    svg = (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{escape(title, quote=True)}; the table below has the numbers">{shapes}</svg>'
    )
    return (
        f'<style>{_STYLE}</style><div class="maxlab-pages"><b>{escape(title)}</b>'
        f"<div>{svg if drawn else ''}</div>{folded}"
        f"{table(('state', 'pages', 'meaning'), legend, right=(1,))}"
        f"{''.join(f'<div>{escape(note)}</div>' for note in notes)}"
        "<details><summary>pages of each request, as numbers</summary>"
        f"{table(('request', 'tokens', 'pages'), rows)}</details></div>"
    )


__all__ = ["Line", "page"]
