"""A distribution of the next token as a chart: bars before and after, and what cut a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from maxlab.engine.times import plural
from maxlab.lab.requests.style import scrolled
from maxlab.markup import escape
from maxlab.pipelines.core.showing import Texts
from maxlab.pipelines.lib.sampling_reference import RULES, Distribution, Rule, entropy_of
from maxlab.tabular import aligned

# Each with a text colour that can be read on it.
_RULES = {
    Rule.KEPT: ("kept", "#1a7f37", "#ffffff"),
    Rule.IMPOSSIBLE: ("impossible", "#59616b", "#ffffff"),
    Rule.FORBIDDEN: ("forbidden", "#59616b", "#ffffff"),
    Rule.TOP_K: ("cut by top-k", "#8250df", "#ffffff"),
    Rule.TOP_P: ("cut by top-p", "#9a5b00", "#ffffff"),
    Rule.MIN_P: ("cut by min-p", "#b42318", "#ffffff"),
}


def token_text(token: int, texts: Texts | None) -> str:
    """A token as it is called in a table: its text in quotes, or its number.

    Args:
        token: A token id.
        texts: Gives the texts, if there is a tokenizer.

    Example:
        >>> token_text(1, lambda tokens: ["a b" for _ in tokens]), token_text(1, None)
        ("'a b'", '1')
    """
    if texts is None:
        return str(token)
    try:
        return repr(texts([token])[0])
    except Exception:  # a tokenizer that does not know a token: its number is left
        return str(token)


def summary(found: Distribution) -> list[tuple[str, str]]:
    """The numbers of a distribution, each with its name.

    Args:
        found: The distribution.

    Example:
        >>> import numpy as np
        >>> from maxlab.interfaces import SamplingParams
        >>> from maxlab.pipelines.lib.sampling_reference import distribution
        >>> summary(distribution(np.zeros(4), SamplingParams(top_k=2)))[0]
        ('kept', '2 of 4 tokens')
    """
    cut = Counter(RULES[int(rule)] for rule in found.rules)
    said = [("kept", f"{found.kept:,} of {plural(len(found.rules), 'token')}")]
    said += [(_RULES[rule][0], f"{cut[rule]:,}") for rule in RULES[1:] if cut[rule]]
    before = entropy_of(found.before)
    return [*said, ("entropy", f"{before:.2f} → {found.entropy:.2f} bits")]


def text(found: Distribution, texts: Texts | None, count: int) -> str:
    """The distribution as lines of text.

    Args:
        found: The distribution.
        texts: Gives the texts of tokens, if there is a tokenizer.
        count: How many tokens are listed, the most probable ones.
    """
    rows = [("token", "before", "after", "")]
    rows += [
        (
            token_text(int(token), texts),
            f"{found.before[token]:.1%}",
            f"{found.after[token]:.1%}",
            _RULES[found.rule(int(token))][0],
        )
        for token in found.order(count)
    ]
    head = ", ".join(f"{name} {number}" for name, number in summary(found))
    return "\n".join([head, *(f"  {line}" for line in aligned(rows, (1, 2)))])


def body(found: Distribution, texts: Texts | None, count: int, drawn: Sequence[int] = ()) -> str:
    """The chart as sections of HTML: numbers, bars of the most probable tokens, and draws.

    Args:
        found: The distribution.
        texts: Gives the texts of tokens, if there is a tokenizer.
        count: How many tokens have bars.
        drawn: Tokens that were drawn.
    """
    numbers = "".join(
        f"<span>{escape(name)} <b>{escape(number)}</b></span>" for name, number in summary(found)
    )
    order = [int(token) for token in found.order(count)]
    times = Counter(drawn)
    most = max(float(found.before[order].max()), float(found.after[order].max()))
    rows = "".join(_row(found, token, texts, most, times) for token in order)
    heads = '<th>token</th><th class="mx-rq-number">before</th><th class="mx-rq-number">after</th>'
    heads += "<th>before (grey) and after (green)</th><th>rule</th>"
    if drawn:
        heads += '<th class="mx-rq-number">drawn</th>'
    table = (
        f'<table class="mx-rq-bars"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    )
    left = len(found.before) - len(order)
    rest = ""
    if left > 0:
        before = max(0.0, 1 - float(found.before[order].sum()))
        after = max(0.0, 1 - float(found.after[order].sum()))
        rest = (
            f'<p class="mx-rq-faint">and {left:,} more, with {before:.1%} before and '
            f"{after:.1%} after</p>"
        )
    shown = scrolled("probabilities of the next token", table)
    return (
        f'<section><div class="mx-rq-numbers">{numbers}</div>'
        f"{shown}{rest}{_draws(drawn, texts)}</section>"
    )


def _row(
    found: Distribution, token: int, texts: Texts | None, most: float, times: Counter[int]
) -> str:
    before, after = float(found.before[token]), float(found.after[token])
    rule = found.rule(token)
    word, colour, ink = _RULES[rule]
    cut = "" if rule is Rule.KEPT else ' class="mx-rq-cut"'
    bars = "".join(
        f'<div class="mx-rq-{name}" style="width:{100 * part / most:.4g}%"></div>'
        for name, part in (("before", before), ("after", after))
    )
    count = f'<td class="mx-rq-number">{times[token] or ""}</td>' if times else ""
    return (
        f'<tr{cut}><th title="token {token}">{escape(token_text(token, texts))}</th>'
        f'<td class="mx-rq-number">{before:.2%}</td><td class="mx-rq-number">{after:.2%}</td>'
        f'<td class="mx-rq-bar" aria-hidden="true">{bars}</td>'
        f'<td><span class="mx-rq-rule" style="background-color:{colour};color:{ink}">{word}</span>'
        f"</td>{count}</tr>"
    )


def _draws(drawn: Sequence[int], texts: Texts | None) -> str:
    if not drawn:
        return ""
    if len(drawn) == 1:
        return f"<p>drawn: <b>{escape(token_text(drawn[0], texts))}</b></p>"
    kinds = Counter(drawn).most_common(12)
    said = ", ".join(f"{token_text(token, texts)} × {count}" for token, count in kinds)
    more = len(set(drawn)) - len(kinds)
    tail = f" and {plural(more, 'other token')}" if more > 0 else ""
    return f"<p>{plural(len(drawn), 'draw')}: {escape(said)}{tail}</p>"


__all__ = ["body", "summary", "text", "token_text"]
