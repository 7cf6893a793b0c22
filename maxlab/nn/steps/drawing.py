"""Parts that pictures of steps share: cards in the colours of the page, and shapes with titles."""

from __future__ import annotations

from maxlab.markup import escape

HUES = ("#e08a2c", "#4c78a8", "#54a24b", "#b279a2", "#9d755d", "#72b7b2")
"""Colours of things that are told apart; each stands beside its name."""
_STYLE = (
    ".maxlab-step{font-size:13px;line-height:1.45;max-width:860px;color:inherit}"
    ".maxlab-step svg{max-width:100%;height:auto;color:inherit}"
    ".maxlab-step h4{margin:8px 0 2px;font-size:13px;font-weight:600;overflow-wrap:anywhere;"
    "color:inherit}"
    ".maxlab-step .maxlab-step,.maxlab-step .maxlab-pages{margin-top:12px}"
    ".maxlab-step p{margin:2px 0 6px;color:inherit}"
    ".maxlab-step ul{margin:2px 0 6px;padding-left:20px}"
    ".maxlab-step .maxlab-step-wide{overflow-x:auto;max-width:100%}"
    ".maxlab-step .maxlab-step-wide svg{max-width:none}"
    ".maxlab-step .maxlab-step-wide:focus-visible{outline:2px solid #4c8dd6}"
)


def card(title: str, body: str) -> str:
    """A picture with its title.

    Args:
        title: A text.
        body: HTML.
    """
    name = escape(title, quote=True)
    return (
        f'<style>{_STYLE}</style><div class="maxlab-step" role="group" aria-label="{name}">'
        f"<b>{escape(title)}</b>{body}</div>"
    )


def svg(width: float, height: float, said: str, shapes: str) -> str:
    """A drawing.

    Args:
        width: In CSS pixels.
        height: In CSS pixels.
        said: What it shows, for screen readers.
        shapes: Its elements.
    """
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="{escape(said, quote=True)}">{shapes}</svg>'
    )


def wide(said: str, inner: str) -> str:
    """HTML that is moved sideways where the page is narrow, also by keyboard.

    Args:
        said: Its name for screen readers.
        inner: HTML.
    """
    name = escape(said, quote=True)
    place = f'role="region" tabindex="0" aria-label="{name}"'
    return f'<div class="maxlab-step-wide" {place}>{inner}</div>'


def rect(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    opacity: float,
    title: str,
    dashes: str = "",
    edge: float = 0.45,
) -> str:
    """A rectangle that says what it is when it is pointed at."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" '
        f'fill="{fill}" fill-opacity="{opacity:.3g}" stroke="currentColor" '
        f'stroke-opacity="{edge:g}" stroke-width="0.7" stroke-dasharray="{dashes}">'
        f"<title>{escape(title)}</title></rect>"
    )


def label(x: float, y: float, text: object, anchor: str = "middle", size: int = 10) -> str:
    """A text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="currentColor">{escape(str(text))}</text>'
    )


__all__ = ["HUES", "card", "label", "rect", "svg", "wide"]
