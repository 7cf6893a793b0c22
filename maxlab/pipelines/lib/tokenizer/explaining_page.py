"""The page of an explained prompt, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maxlab.markup import escape

MOST_TOKENS = 2000
"""The most tokens that a page has."""
MOST_LINES = 40
"""The most lines of a prompt, and the most tokens, that are shown without being asked for."""
# Colours come from the page; those of their own are between light and dark.
_STYLE = (
    ".maxlab-prompt{font-size:.9em;color:inherit;max-width:100%}"
    ".maxlab-prompt pre{white-space:pre-wrap;overflow-wrap:anywhere;color:inherit;"
    "background:transparent;border-left:3px solid rgba(128,128,128,.5);padding:2px 0 2px 8px;"
    "margin:4px 0}"
    ".maxlab-prompt mark{color:inherit;background:rgba(76,120,168,.3);border-radius:3px;"
    "padding:0 2px;font-weight:bold}"
    ".maxlab-prompt table{border-collapse:collapse;margin:4px 0;color:inherit;font-size:inherit}"
    ".maxlab-prompt th,.maxlab-prompt td{text-align:left;padding:1px 12px 1px 0;color:inherit;"
    "background:transparent;border-bottom:1px solid rgba(128,128,128,.35);"
    "font-family:var(--jp-code-font-family,monospace)}"
    ".maxlab-prompt .warning{border-left:3px solid rgb(224,138,44);padding-left:8px;margin:4px 0}"
    ".maxlab-prompt summary{cursor:pointer}"
)


def page(
    origin: str,
    template: str | None,
    parts: Iterable[tuple[str, bool]],
    warnings: Iterable[str],
    summary: str,
    tokens: Sequence[tuple[int, int, str, str, bool]],
) -> str:
    """The template's origin, the prompt with special tokens marked, warnings, and the tokens.

    Long prompts, the template and the tokens are folded.

    Args:
        origin: Where the template came from.
        template: Its text, if there is one.
        parts: The prompt in parts, each with whether it is a special token.
        warnings: What is odd, a sentence each.
        summary: The number of tokens, in words.
        tokens: The place, id, piece and text of each token, and whether it is special.
    """
    texts = list(parts)
    plain = "".join(text for text, _ in texts)
    lines = plain.count("\n") + 1
    prompt = "".join(
        f"<mark>{escape(text)}</mark>" if special else escape(text) for text, special in texts
    )
    prompt = f"<pre>{prompt}</pre>"
    if lines > MOST_LINES or len(plain) > 100 * MOST_LINES:
        prompt = _folded(f"the prompt, {lines} lines", prompt)
    notes = "".join(f'<div class="warning" role="note">⚠ {escape(one)}</div>' for one in warnings)
    source = (
        "" if template is None else _folded("the template's text", f"<pre>{escape(template)}</pre>")
    )
    return (
        f'<style>{_STYLE}</style><div class="maxlab-prompt"><div><b>Template</b> '
        f"{escape(origin)}</div>{source}{notes}{prompt}"
        f"{_folded(summary, _table(tokens), len(tokens) <= MOST_LINES)}</div>"
    )


def _folded(title: str, inner: str, is_open: bool = False) -> str:
    return (
        f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>{inner}</details>"
    )


def _table(tokens: Sequence[tuple[int, int, str, str, bool]]) -> str:
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("place", "id", "piece", "text", "special")
    )
    rows = "".join(_row(*token) for token in tokens[:MOST_TOKENS])
    left = len(tokens) - MOST_TOKENS
    more = f"<div>and {left} more: table(None), to_csv()</div>" if left > 0 else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _row(place: int, number: int, piece: str, text: str, special: bool) -> str:
    name = escape(piece)
    cells = (
        str(place),
        str(number),
        f"<mark>{name}</mark>" if special else name,
        escape(repr(text)),
        "yes" if special else "",
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


__all__ = ["MOST_LINES", "MOST_TOKENS", "page"]
