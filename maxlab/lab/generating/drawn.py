"""An answer as HTML: its tokens as boxes, and a table of what each was and cost."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Protocol

from maxlab.engine.times import plural, time_text
from maxlab.lab.generating.tokens import GeneratedToken
from maxlab.lab.requests.style import page, scrolled
from maxlab.markup import Html, escape, table

MOST_DRAWN = 600
"""Tokens of an answer that are drawn; of more, the last ones."""
_MARKS = str.maketrans({"\n": "↵", "\r": "␍", "\t": "⇥", " ": "·"})
_PHASES = {"prefill": "2px solid #9a6700", "decode": "1px solid #8b949e", "": "1px solid #8b949e"}


class Answer(Protocol):
    """The facts of an answer that are drawn; see `Generation`."""

    prompt: str
    prompt_tokens: list[int]
    tokens: list[GeneratedToken]
    status: str

    @property
    def prefill_s(self) -> float:
        """Seconds of the steps that computed the prompt."""
        ...

    @property
    def first_token_s(self) -> float | None:
        """Seconds from the arrival of the request to its first token; None before it."""
        ...

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens a second after the first one; None where there are none."""
        ...


def drawn(answer: Answer, is_final: bool = True) -> str:
    """The answer as HTML.

    Args:
        answer: The answer, which may still grow.
        is_final: Whether the table of tokens is part of it.
    """
    first = max(len(answer.tokens) - MOST_DRAWN, 0)
    shown = answer.tokens[first:]
    prompt = escape(_shortened(answer.prompt))
    parts = [
        f'<section><div class="mx-rq-numbers">{_numbers(answer)}</div>',
        f'<p class="mx-rq-faint" style="white-space:pre-wrap">{prompt}</p>',
        f'<p class="mx-rq-faint">{first:,} tokens before</p>' if first else "",
        '<div class="mx-rq-tokens" role="group" aria-label="tokens of the answer" tabindex="0">',
        "".join(_box(place, token) for place, token in enumerate(shown, first)),
        "</div>" + _legend(shown) + "</section>",
    ]
    if is_final and shown:
        parts.append(
            '<section><details class="mx-rq-every">'
            "<summary>Every token: probabilities and times</summary>"
            f"{scrolled('tokens, probabilities and times', _table(shown, first))}"
            "</details></section>"
        )
    status = answer.status.replace("_", " ") or "writing…"
    return page(f"{plural(len(answer.tokens), 'token')}: {status}", "".join(parts))


def _shortened(text: str, most: int = 600) -> str:
    return text if len(text) <= most else f"… {text[-most:]}"


def _numbers(answer: Answer) -> str:
    """The costs of the whole answer."""
    told = [("prompt", plural(len(answer.prompt_tokens), "token"))]
    if answer.prefill_s:
        told.append(("prefill", _time(answer.prefill_s)))
    if answer.first_token_s is not None:
        told.append(("time to first token", _time(answer.first_token_s)))
    if answer.tokens_per_second is not None:
        told.append(("then", f"{answer.tokens_per_second:,.1f} tokens/s"))
    known = [t.log_probability for t in answer.tokens if t.log_probability is not None]
    if known:
        told.append(("perplexity", f"{exp(-sum(known) / len(known)):.3g}"))
    return "".join(f"<span>{escape(name)} <b>{escape(text)}</b></span>" for name, text in told)


def _time(seconds: float) -> str:
    return time_text(round(seconds * 1e9))


def _box(place: int, token: GeneratedToken) -> str:
    said = token.text.translate(_MARKS) or "∅"
    part = token.probability
    tint = "transparent" if part is None else f"rgba(76,141,214,{0.08 + 0.34 * (1 - part):.2f})"
    bar = ""
    if part is not None:
        bar = f'<span class="mx-rq-p"><span style="width:{part:.0%}"></span></span>'
    style = f"background-color:{tint};border:{_PHASES[token.phase]}"
    title = escape(" · ".join(_facts(place, token)), quote=True)
    line = "<br>" if token.text.endswith("\n") else ""
    return (
        f'<span class="mx-rq-token" data-token="{place}" style="{style}" title="{title}">'
        f"{escape(said)}{bar}</span>{line}"
    )


def _facts(place: int, token: GeneratedToken) -> list[str]:
    """The facts that the pointer shows."""
    told = [f"token {place + 1}: {token.text!r}", f"number {token.id}"]
    if token.probability is not None:
        told.append(f"probability {token.probability:.1%}")
    if token.top:
        told.append(f"most probable: {_alternatives(token)}")
    if token.seconds is not None and token.step is not None:
        told.append(
            f"{_time(token.seconds)} in step {token.step.number} ({token.phase}, "
            f"batch of {len(token.step.requests)})"
        )
    return told


def _alternatives(token: GeneratedToken) -> str:
    return ", ".join(f"{text!r} {exp(min(value, 0.0)):.1%}" for _, text, value in token.top)


def _legend(shown: Sequence[GeneratedToken]) -> str:
    if not shown:
        return ""
    items = []
    if any(token.probability is not None for token in shown):
        items.append("the bar below a token: its probability; a strong tint: an improbable one")
    if any(token.phase == "prefill" for token in shown):
        items.append("a thick border: its step computed the prompt too")
    rows = "".join(f"<li>{item}</li>" for item in items)
    return f'<ul class="mx-rq-legend">{rows}</ul>' if rows else ""


def _table(shown: Sequence[GeneratedToken], first: int) -> str:
    rows = []
    for place, token in enumerate(shown, first + 1):
        step = token.step
        rows.append(
            (
                str(place),
                Html(f"<code>{escape(repr(token.text))}</code>"),
                "" if token.probability is None else f"{token.probability:.1%}",
                _alternatives(token),
                "" if token.seconds is None else _time(token.seconds),
                token.phase,
                "" if step is None else str(len(step.requests)),
                "" if step is None else str(step.number),
            )
        )
    heads = (
        "token", "text", "probability", "most probable", "time", "phase", "batch", "step"
    )  # fmt: skip
    return table(heads, rows, right=(0, 2, 4, 6, 7))


__all__ = ["MOST_DRAWN", "Answer", "drawn"]
