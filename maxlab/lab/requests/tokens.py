"""The tokens of a context, drawn by state: a box each, with its text; long runs are folded.

What a colour tells, a line tells too: the underline says where a token comes from, and the border
what the model did with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp

from maxlab.engine.times import plural
from maxlab.markup import escape
from maxlab.pipelines.core.showing import (
    Kind,
    Run,
    ShownContext,
    Work,
    probabilities_of,
    speech_runs_of,
)

EDGE = 40
"""Tokens that are drawn of each end of a run that is folded."""
MOST_DRAWN = 600
"""Boxes of one context; the runs after them are folded whole."""
MOST_FOLDED = 20_000
"""Tokens that a context lists in folded runs; more are counted."""
MOST_TEXT = 24
"""Characters of a token in its box."""
_LINE = 32

# Tints, which leave the text in the colour of the theme; and a line that tells the same.
_KINDS = {
    Kind.PROMPT: ("rgba(110,119,129,.16)", "none"),
    Kind.IMAGE: ("rgba(137,87,229,.30)", "underline dotted"),
    Kind.RETURNED: ("rgba(46,160,67,.30)", "underline"),
    Kind.UNRETURNED: ("rgba(210,153,34,.34)", "underline double"),
    Kind.END: ("rgba(207,34,46,.28)", "overline"),
    Kind.RESERVED: ("transparent", "none"),
    Kind.SPEECH_DECODED: ("rgba(46,160,67,.30)", "underline"),
    Kind.SPEECH: ("rgba(210,153,34,.34)", "underline double"),
}
_WORKS = {
    Work.COMPUTED: "1px solid #6e7781",
    Work.NEXT: "2px dashed #4c8dd6",
    Work.WAITS: "2px dotted #8b949e",
    Work.NONE: "1px solid #8b949e",
}
_SEEN = str.maketrans({"\n": "↵", "\r": "␍", "\t": "⇥", " ": "·"})

Probabilities = Mapping[int, tuple[float, Mapping[int, float]]]


def style_of(kind: Kind, work: Work) -> str:
    """The inline style of a token: also where the style sheet is dropped.

    Args:
        kind: Where the token comes from.
        work: What was done with it.
    """
    colour, line = _KINDS[kind]
    return f"background-color:{colour};border:{_WORKS[work]};text-decoration:{line}"


def body(shown: ShownContext) -> str:
    """The sections of a context: its tokens, its speech tokens, and a legend.

    Args:
        shown: The context, with what gives its texts.
    """
    context = shown.context
    runs = shown.runs()
    known = probabilities_of(context, shown.outputs)
    parts = [_section("tokens", runs, context.all_tokens.tolist(), shown, known)]
    if speech := speech_runs_of(context):
        without = ShownContext(context)
        parts.append(_section("speech tokens", speech, context.speech_tokens.tolist(), without, {}))
    return "".join(parts) + _legend([*runs, *speech], bool(known))


def _section(
    title: str,
    runs: Sequence[Run],
    tokens: Sequence[int],
    shown: ShownContext,
    known: Probabilities,
) -> str:
    drawer = _Drawer(tokens, shown, known)
    boxes = " ".join(drawer.run(run) for run in runs)
    region = (
        f'<div class="mx-rq-tokens" role="region" tabindex="0" aria-label="{title}">{boxes}</div>'
    )
    return f"<section><h4>{title}</h4>{region}</section>"


class _Drawer:
    """Draws the runs of one context, within the bounds of all of them together."""

    def __init__(self, tokens: Sequence[int], shown: ShownContext, known: Probabilities) -> None:
        self._tokens = tokens
        self._shown = shown
        self._known = known
        self._boxes_left = MOST_DRAWN
        self._folded_left = MOST_FOLDED

    def run(self, run: Run) -> str:
        """A run as a group of boxes; of a long one the ends, and the middle folded."""
        size = run.stop - run.start
        if run.kind is Kind.RESERVED:
            return _whole(run, f"{size} reserved", "mx-rq-room")
        if run.kind is Kind.IMAGE:
            return _whole(run, f"image: {plural(size, 'token')}", "")
        # Folding two tokens or three saves nothing.
        edge = size if size <= 2 * EDGE + 4 else EDGE
        if min(size, 2 * edge) > self._boxes_left:
            parts = [self._fold(run, run.start, run.stop)]
        elif edge == size:
            parts = [self._boxes(run, run.start, run.stop)]
        else:
            parts = [
                self._boxes(run, run.start, run.start + edge),
                self._fold(run, run.start + edge, run.stop - edge),
                self._boxes(run, run.stop - edge, run.stop),
            ]
        label = f"{run.state}: {_span(run.start, run.stop)}"
        return (
            f'<span role="group" aria-label="{escape(label, quote=True)}">{"".join(parts)}</span>'
        )

    def _texts(self, start: int, stop: int) -> list[str] | None:
        tokens = self._tokens[start:stop]
        if self._shown.texts is None:
            return None
        try:
            return self._shown.texts(tokens)
        except Exception:  # a tokenizer that does not know a token: the numbers are left
            return None

    def _boxes(self, run: Run, start: int, stop: int) -> str:
        self._boxes_left -= stop - start
        texts = self._texts(start, stop)
        style = style_of(run.kind, run.work)
        return "".join(
            self._box(run, place, style, None if texts is None else texts[place - start])
            for place in range(start, stop)
        )

    def _box(self, run: Run, place: int, style: str, text: str | None) -> str:
        token = self._tokens[place]
        title = [f"place {place}", f"token {token}"]
        if text is not None:
            title.append(repr(text))
        title.append(run.state)
        bar = ""
        if place in self._known:
            value, tops = self._known[place]
            part = min(max(exp(min(value, 0.0)), 0.0), 1.0)
            title.append(f"log probability {value:.4g} ({part:.1%})")
            if tops:
                title.append("most probable: " + self._told(tops))
            bar = f'<span class="mx-rq-p"><span style="width:{part:.0%}"></span></span>'
        said = str(token) if text is None else (text.translate(_SEEN) or "∅")
        said = said if len(said) <= MOST_TEXT else f"{said[: MOST_TEXT - 1]}…"
        return (
            f'<span class="mx-rq-token" style="{style}" '
            f'title="{escape(" · ".join(title), quote=True)}">{escape(said)}{bar}</span>'
        )

    def _told(self, tops: Mapping[int, float]) -> str:
        ids = sorted(tops, key=lambda token: -tops[token])[:5]
        try:
            names = None if self._shown.texts is None else self._shown.texts(ids)
        except Exception:
            names = None
        said = ids if names is None else [repr(name) for name in names]
        return ", ".join(
            f"{name} {exp(min(tops[t], 0.0)):.1%}" for name, t in zip(said, ids, strict=True)
        )

    def _fold(self, run: Run, start: int, stop: int) -> str:
        listed = min(stop - start, self._folded_left)
        self._folded_left -= listed
        texts = self._texts(start, start + listed)
        lines = []
        for first in range(start, start + listed, _LINE):
            last = min(first + _LINE, start + listed)
            if texts is None:
                words = " ".join(map(str, self._tokens[first:last]))
            else:
                words = "".join(texts[first - start : last - start]).translate(_SEEN)
            lines.append(f"{first}: {words}")
        if listed < stop - start:
            lines.append(f"and {stop - start - listed} more: show(start={start + listed})")
        style = style_of(run.kind, run.work)
        return (
            f'<details class="mx-rq-fold"><summary style="{style}">'
            f"{stop - start:,} folded: {_span(start, stop)}</summary>"
            f'<pre tabindex="0">{escape(chr(10).join(lines))}</pre></details>'
        )


def _span(start: int, stop: int) -> str:
    return f"{start:,} … {stop - 1:,}" if stop - start > 1 else f"{start:,}"


def _whole(run: Run, words: str, extra: str) -> str:
    title = f"places {_span(run.start, run.stop)} · {run.state}"
    return (
        f'<span class="mx-rq-token {extra}" style="{style_of(run.kind, run.work)}" '
        f'title="{escape(title, quote=True)}">{escape(words)}</span>'
    )


def _legend(runs: Sequence[Run], has_bars: bool) -> str:
    """The states that there are, each with its line and tint and the number of tokens."""
    sizes: Counter[tuple[Kind, Work]] = Counter()
    for run in runs:
        sizes[run.kind, run.work] += run.stop - run.start
    items = [
        f'<li><span class="mx-rq-token" style="{style_of(kind, work)}">{size:,}</span> '
        f"{escape(', '.join(filter(None, (kind.value, work.value))))}</li>"
        for (kind, work), size in sizes.items()
    ]
    if has_bars:
        items.append("<li>the bar below a token: its probability when it was drawn</li>")
    return f'<section><ul class="mx-rq-legend">{" ".join(items)}</ul></section>'


__all__ = ["body", "style_of"]
