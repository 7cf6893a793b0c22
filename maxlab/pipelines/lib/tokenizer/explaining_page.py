"""The page of an explained prompt, readable on light and on dark pages."""

from __future__ import annotations

from maxlab.markup import escape
from maxlab.pipelines.lib.tokenizer.explaining import (
    MOST_LINES,
    PromptExplanation,
    PromptToken,
)

MOST_TOKENS = 2000
"""The most tokens that a page has."""
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


def page(found: PromptExplanation) -> str:
    """The template's origin, the prompt with special tokens marked, warnings, and the tokens.

    Long prompts, the template and the tokens are folded.

    Args:
        found: The explanation.
    """
    prompt = "".join(
        f"<mark>{escape(text)}</mark>" if special else escape(text)
        for text, special in found.parts()
    )
    lines = found.prompt.count("\n") + 1
    folded = lines > MOST_LINES or len(found.prompt) > 100 * MOST_LINES
    warnings = "".join(
        f'<div class="warning" role="note">⚠ {escape(one)}</div>' for one in found.warnings
    )
    template = (
        ""
        if found.template is None
        else _folded("the template's text", f"<pre>{escape(found.template.source)}</pre>")
    )
    return (
        f'<style>{_STYLE}</style><div class="maxlab-prompt"><div><b>Template</b> '
        f"{escape(found.origin)}</div>{template}{warnings}"
        + (
            _folded(f"the prompt, {lines} lines", f"<pre>{prompt}</pre>")
            if folded
            else f"<pre>{prompt}</pre>"
        )
        + _folded(found.summary(), _table(found), len(found.tokens) <= MOST_LINES)
        + "</div>"
    )


def _folded(title: str, inner: str, is_open: bool = False) -> str:
    return (
        f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>{inner}</details>"
    )


def _table(found: PromptExplanation) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in found._heads())
    rows = "".join(map(_row, found.tokens[:MOST_TOKENS]))
    left = len(found.tokens) - MOST_TOKENS
    more = f"<div>and {left} more: table(None), to_csv()</div>" if left > 0 else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _row(token: PromptToken) -> str:
    piece = escape(token.piece)
    cells = (
        str(token.place),
        str(token.id),
        f"<mark>{piece}</mark>" if token.special else piece,
        escape(repr(token.text)),
        "yes" if token.special else "",
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


__all__ = ["MOST_TOKENS", "page"]
