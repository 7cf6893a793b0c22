"""Batches and outputs of pipelines: a row for each context, and for each token of an output."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

from maxlab.engine.times import plural
from maxlab.interfaces import (
    AudioGenerationInputs,
    AudioGenerationOutput,
    EmbeddingsGenerationInputs,
    LogProbabilities,
    SchedulerResult,
    TextGenerationInputs,
    TextGenerationOutput,
)
from maxlab.lab.requests import audio, facts
from maxlab.lab.requests.style import scrolled
from maxlab.lab.requests.tokens import style_of
from maxlab.markup import escape
from maxlab.pipelines.core.showing import ShowsTokens, runs_of
from maxlab.tabular import aligned

MOST_ROWS = 200
"""Contexts, and tokens of an output, that a table lists; the rest is counted."""

_BATCHES = (TextGenerationInputs, EmbeddingsGenerationInputs, AudioGenerationInputs)
_HEADS = ("request", "device", "tokens", "computed", "next", "generated", "status")
_RIGHT = range(1, 6)


def is_batch(obj: Any) -> bool:
    """Whether ``obj`` is shown by a table of this module."""
    return isinstance(obj, (*_BATCHES, TextGenerationOutput, LogProbabilities, SchedulerResult))


def label(obj: Any) -> str:
    """The heading of the view of ``obj``.

    Args:
        obj: A batch or an output.

    Example:
        >>> label(TextGenerationInputs([{}, {}], num_steps=3))
        'TextGenerationInputs: TG, 0 requests on 2 devices, 3 steps'
    """
    name = type(obj).__name__
    if isinstance(obj, SchedulerResult):
        state = "done" if obj.is_done else "goes on"
        return f"{name}: {state}" + (", without a result" if obj.result is None else "")
    if isinstance(obj, TextGenerationOutput):
        state = obj.final_status.value.replace("_", " ")
        return f"{name} {obj.request_id.value!r}: {plural(len(obj.tokens), 'token')}, {state}"
    if isinstance(obj, LogProbabilities):
        return f"{name}: {plural(len(obj.token_log_probabilities), 'token')}"
    devices = _devices(obj)
    size = plural(sum(map(len, devices)), "request")
    on = f" on {plural(len(devices), 'device')}" if len(devices) != 1 else ""
    if isinstance(obj, TextGenerationInputs):
        return f"{name}: {obj.batch_type.value}, {size}{on}, {plural(obj.num_steps, 'step')}"
    return f"{name}: {size}{on}"


def _devices(obj: Any) -> list[Mapping[Any, Any]]:
    return [obj.batch] if isinstance(obj, AudioGenerationInputs) else list(obj.batches)


def _rows(obj: Any) -> list[tuple[str, ...]]:
    """The contexts of a batch: what `_HEADS` says of each."""
    return [
        (
            request.value,
            str(device),
            *_lengths(context),
            getattr(getattr(context, "status", ""), "value", "").replace("_", " "),
        )
        for device, batch in enumerate(_devices(obj))
        for request, context in batch.items()
    ]


def _lengths(context: Any) -> tuple[str, str, str, str]:
    """Tokens, those computed, those computed next, and those generated; ``–`` where unknown."""
    if isinstance(context, ShowsTokens):
        known: Any = context
        return (
            str(known.current_length),
            str(known.start_idx),
            str(known.active_length),
            str(len(known.generated_tokens)),
        )
    tokens = getattr(context, "tokens", None)
    return ("–" if tokens is None else str(len(tokens)), "–", "–", "–")


def text(obj: Any) -> str:
    """A batch or an output as lines of text.

    Args:
        obj: It.
    """
    if isinstance(obj, SchedulerResult):
        inner = obj.result
        below = "" if inner is None else text(inner) if is_batch(inner) else facts.text(inner)
        return "\n".join(filter(None, (label(obj), below)))
    if isinstance(obj, (TextGenerationOutput, LogProbabilities)):
        rows: list[tuple[str, ...]] = [("place", "token", "log probability"), *_output_rows(obj)]
        right = range(3)
    else:
        rows, right = [_HEADS, *_rows(obj)], _RIGHT
    lines = aligned(rows[: MOST_ROWS + 1], right) if len(rows) > 1 else []
    if (rest := len(rows) - 1 - MOST_ROWS) > 0:
        lines.append(f"and {rest} more")
    return "\n".join([label(obj), *(f"  {line}" for line in lines)])


def body(obj: Any) -> str:
    """A batch or an output as sections with tables.

    Args:
        obj: It.
    """
    if isinstance(obj, SchedulerResult):
        inner = obj.result
        if inner is None:
            return "<section>The request was cancelled: there is no result.</section>"
        told = label(inner) if is_batch(inner) else facts.label(inner)
        made = body(inner) if is_batch(inner) else facts.body(inner)
        if isinstance(inner, AudioGenerationOutput):
            told, made = audio.label(inner), audio.body(inner) + made
        return f"<section><h4>{escape(told)}</h4></section>{made}"
    if isinstance(obj, (TextGenerationOutput, LogProbabilities)):
        return _output(obj)
    rows = _rows(obj)
    contexts = [context for batch in _devices(obj) for context in batch.values()]
    heads = "".join(_th(head, n in _RIGHT) for n, head in enumerate((*_HEADS, "places")))
    lines = "".join(
        "<tr>"
        + "".join(_td(cell, n) for n, cell in enumerate(row))
        + f"<td>{_places(context)}</td></tr>"
        for row, context in zip(rows[:MOST_ROWS], contexts, strict=False)
    )
    more = len(rows) - MOST_ROWS
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    note = f"<p>and {plural(more, 'more request')}</p>" if more > 0 else ""
    if not rows:
        table = "no request"
    return f"<section>{scrolled('requests of the batch', table)}{note}</section>"


def _th(head: str, is_number: bool) -> str:
    return f"<th{' class=mx-rq-number' if is_number else ''}>{head}</th>"


def _td(cell: str, column: int) -> str:
    if column == 0:
        return f"<th>{escape(cell)}</th>"
    return f"<td{' class=mx-rq-number' if column in _RIGHT else ''}>{escape(cell)}</td>"


def _places(context: Any) -> str:
    """The runs of a context as a bar: as wide as they are long."""
    if not isinstance(context, ShowsTokens):
        return ""
    runs = runs_of(context)
    whole = max(run.stop for run in runs)
    label = ", ".join(f"{run.stop - run.start} {run.state}" for run in runs)
    parts = "".join(
        f'<span style="width:{100 * (run.stop - run.start) / whole:.4g}%;'
        f'{style_of(run.kind, run.work)}"></span>'
        for run in runs
    )
    return (
        f'<div class="mx-rq-places" role="img" aria-label="{escape(label, quote=True)}" '
        f'title="{escape(label, quote=True)}">{parts}</div>'
    )


# ---------------------------------------------------------------- outputs
def _output_rows(obj: Any) -> list[tuple[str, str, str]]:
    """Place, token and log probability of each token that an output tells of."""
    if isinstance(obj, LogProbabilities):
        return [(str(n), "", f"{value:.4g}") for n, value in enumerate(obj.token_log_probabilities)]
    kept = obj.log_probabilities or []
    values = [one.token_log_probabilities[-1:] for one in kept]
    known = len(kept) == len(obj.tokens)
    return [
        (str(n), str(token), f"{values[n][0]:.4g}" if known and values[n] else "")
        for n, token in enumerate(obj.tokens)
    ]


def _output(obj: Any) -> str:
    tops: list[Mapping[int, float]] = []
    if isinstance(obj, LogProbabilities):
        tops = list(obj.top_log_probabilities)
    elif obj.log_probabilities and len(obj.log_probabilities) == len(obj.tokens):
        tops = [
            one.top_log_probabilities[-1] if one.top_log_probabilities else {}
            for one in obj.log_probabilities
        ]
    rows = _output_rows(obj)
    lines = "".join(
        f'<tr><td class="mx-rq-number">{n}</td><td class="mx-rq-number">{token}</td>'
        f'<td class="mx-rq-number">{value}</td>'
        f"<td>{_most_probable(tops[int(n)]) if int(n) < len(tops) else ''}</td></tr>"
        for n, token, value in rows[:MOST_ROWS]
    )
    heads = "".join(_th(head, True) for head in ("place", "token", "log probability"))
    table = (
        f"<table><thead><tr>{heads}<th>most probable tokens</th></tr></thead>"
        f"<tbody>{lines}</tbody></table>"
    )
    more = len(rows) - MOST_ROWS
    note = f"<p>and {plural(more, 'more token')}</p>" if more > 0 else ""
    shown = scrolled("tokens of the output", table if rows else "no token")
    return f"<section>{shown}{note}</section>"


def _most_probable(tops: Mapping[int, float]) -> str:
    best = sorted(tops, key=lambda token: -tops[token])[:5]
    return escape(", ".join(f"{token}: {exp(min(tops[token], 0.0)):.1%}" for token in best))


__all__ = ["body", "is_batch", "label", "text"]
