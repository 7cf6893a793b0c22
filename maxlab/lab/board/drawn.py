"""A moment of a scheduler as HTML: queues, batches, pages and speed up to a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maxlab.engine.times import plural, time_text
from maxlab.lab.board.facts import RunFacts, facts_of
from maxlab.lab.requests.style import page, scrolled
from maxlab.markup import escape, table
from maxlab.pipelines.lib.scheduler import StepRecord

WINDOW = 60
"""Steps that are drawn, the last ones."""
MOST_ROWS = 12
"""Requests that are drawn, those first that had a part in a batch of these steps last."""
_PROMPT, _NEXT, _SHARED, _WAITS = "#bc6c25", "#3b76d6", "#9a4fb5", "#8b949e"
_LEFT, _CELL, _ROW, _BAR = 128, 9, 15, 42
_RIGHT, _LEAST = 70, 12
"""Room for numbers behind the columns, and the columns that there is room for at least."""


def drawn(steps: Sequence[StepRecord], state: str = "", facts: RunFacts | None = None) -> str:
    """The board after the last of some steps.

    Args:
        steps: The steps so far.
        state: Whether it is paused, replayed or live, in a word.
        facts: What these steps tell of their requests; it is found out where it is None.
    """
    if not steps:
        told = "<section><p>No steps yet: they appear as soon as a request is answered.</p>"
        return page(_joined("Scheduler", state), f"{told}</section>")
    facts = facts_of(list(steps)) if facts is None else facts
    shown = list(steps[-WINDOW:])
    rows, others = _rows(shown)
    last = steps[-1]
    label = _joined(f"Step {last.number}: {_kind(last)}", state)
    body = (
        f'<section><div class="mx-rq-numbers">{_numbers(shown, facts)}</div>'
        f"{_queues(last)}</section><section>"
        f"{scrolled('batches, queues, pages and speed by step', _picture(shown, rows))}{_legend()}"
        f"</section><section>{scrolled('requests', _table(rows, facts))}"
        f"{_of_others(others)}</section>"
    )
    return page(label, body)


def _joined(label: str, state: str) -> str:
    return f"{label} · {state}" if state else label


def _kind(step: StepRecord) -> str:
    if not step.requests:
        return "no batch"
    prompts = sum(own.prompt for own in step.requests)
    told = [f"{plural(prompts, 'prompt')}"] if prompts else []
    if len(step.requests) > prompts:
        told.append(f"next tokens of {plural(len(step.requests) - prompts, 'request')}")
    return f"{' and '.join(told)}, {plural(step.input_tokens, 'token')} in, {_time(step.seconds)}"


def _time(seconds: float) -> str:
    return time_text(round(seconds * 1e9))


def _numbers(shown: Sequence[StepRecord], facts: RunFacts) -> str:
    last = shown[-1]
    used = last.pages - last.free_pages
    told = [
        ("waiting", f"{len(last.waiting):,}"),
        ("active", f"{len(last.active):,}"),
        ("pages", f"{used:,} used, {last.shared_pages:,} shared, {last.free_pages:,} free"),
    ]
    busy = sum(step.seconds for step in shown)
    if busy > 0:
        speed = sum(step.generated_tokens for step in shown) / busy
        told.append((f"in {plural(len(shown), 'step')}", f"{speed:,.0f} tokens/s"))
    if facts.first_token_s is not None:
        told.append(("time to first token", f"{_time(facts.first_token_s)} (median)"))
    for name, count in (
        ("gave pages to others", facts.preempted),
        ("cancelled", facts.cancelled),
        ("failed", facts.failed),
    ):
        if count:
            told.append((name, f"{count:,}"))
    return "".join(f"<span>{escape(name)} <b>{escape(said)}</b></span>" for name, said in told)


def _queues(last: StepRecord) -> str:
    rows = []
    for name, ids in (("waiting for the prompt", last.waiting), ("waiting for the next token",
                                                                last.active)):  # fmt: skip
        chips = " ".join(
            f'<span class="mx-rq-token" style="border:1px solid {_WAITS}">{escape(_short(one))}'
            "</span>"
            for one in ids[:MOST_ROWS]
        )
        more = f" and {len(ids) - MOST_ROWS:,} more" if len(ids) > MOST_ROWS else ""
        rows.append(f'<p><span class="mx-rq-faint">{name}:</span> {chips or "nobody"}{more}</p>')
    return "".join(rows)


def _short(name: str, most: int = 14) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


# ---------------------------------------------------------------- the picture
def _picture(shown: Sequence[StepRecord], rows: Sequence[str]) -> str:
    """Two SVGs: names, which stay where the page is narrow, and a column for each step: who was in
    its batch, queues, pages, tokens a second."""
    columns = [_Column(step) for step in shown]
    y = 14
    names = [_said(0, 10, "batch of each step", bold=True)]
    parts: list[str] = []
    for place, name in enumerate(rows):
        names.append(_said(0, y + place * _ROW + 11, _short(name, 18)))
        parts += [_cell(one, name, n, y + place * _ROW) for n, one in enumerate(columns)]
    y += len(rows) * _ROW + 12
    bars: tuple[tuple[str, Callable[[StepRecord], list[tuple[float, str]]], float], ...] = (
        ("requests that wait", lambda s: [(len(s.waiting), _PROMPT), (len(s.active), _NEXT)],
         0),
        ("pages in use", lambda s: [
            (s.shared_pages, _SHARED), (s.pages - s.free_pages - s.shared_pages, _NEXT),
        ], shown[-1].pages),
        ("tokens a second", lambda s: [
            (s.generated_tokens / s.seconds if s.seconds else 0.0, _NEXT)
        ], 0),
    )  # fmt: skip
    for name, values, top in bars:
        names.append(_said(0, y + 12, name, bold=True))
        parts.append(_bars(shown, name, values, top, y))
        y += _BAR + 12
    parts.append(_said(0, y + 2, f"step {shown[0].number:,}"))
    if len(shown) > 16:
        parts.append(_said(len(shown) * _CELL, y + 2, f"step {shown[-1].number:,}", anchor="end"))
    label = f"steps {shown[0].number} to {shown[-1].number}: who was in each batch, and below it "
    label += "the requests that wait, the pages in use and the tokens a second"
    told = _svg(names, _LEFT, y + 8, 'aria-hidden="true"')
    told += _svg(parts, _width(shown) + _RIGHT, y + 8, f'role="img" aria-label="{label}"')
    return f'<div class="mx-rq-steps">{told}</div>'


def _width(shown: Sequence[StepRecord]) -> int:
    """Width of the columns of some steps."""
    return max(len(shown), _LEAST) * _CELL


def _svg(parts: Sequence[str], width: int, height: int, words: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" {words} font-family="sans-serif" font-size="11" '
        f'fill="currentColor">{"".join(parts)}</svg>'
    )


def _rows(shown: Sequence[StepRecord]) -> tuple[list[str], int]:
    """The requests that are drawn, in the order of their first steps, and the number of others.

    Those of the latest batches are drawn, and where there are few, those that wait first.
    """
    order: dict[str, None] = {}
    for step in shown:
        order.update(dict.fromkeys([own.request for own in step.requests]))
        order.update(dict.fromkeys(step.waiting))
    latest: dict[str, None] = {}
    for step in reversed(shown):
        latest.update(dict.fromkeys([*(own.request for own in step.requests), *step.preempted]))
        if len(latest) >= MOST_ROWS:
            break
    latest.update(dict.fromkeys(shown[-1].waiting[:MOST_ROWS]))
    chosen = set(list(latest)[:MOST_ROWS])
    order.update(dict.fromkeys(chosen))
    return [name for name in order if name in chosen], len(order) - len(chosen)


def _of_others(count: int) -> str:
    if not count:
        return ""
    had = "had a part in these steps or waited"
    return f'<p class="mx-rq-faint">{plural(count, "other request")} {had}.</p>'


class _Column:
    """A step, whose requests are found by name."""

    def __init__(self, step: StepRecord) -> None:
        self.step = step
        self.parts = {own.request: own for own in step.requests}
        self.waiting = {*step.waiting, *step.active}


def _said(x: float, y: float, words: str, *, bold: bool = False, anchor: str = "start") -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'


def _cell(column: _Column, name: str, n: int, y: int) -> str:
    """The part of a request in a step: a full box, or a line where it waited."""
    x, side = n * _CELL, _CELL - 1
    step, own = column.step, column.parts.get(name)
    if own is None:
        if name in step.preempted:
            told = "gave its pages to others"
            return (
                f'<text x="{x}" y="{y + 11}" font-weight="700">×{_title(step, name, told)}</text>'
            )
        if name in column.waiting:
            return (
                f'<rect x="{x}" y="{y + 6}" width="{side}" height="2" fill="{_WAITS}">'
                f"{_title(step, name, 'waits')}</rect>"
            )
        return ""
    words = f"{own.computed} tokens in, {own.generated} out, {own.pages} pages"
    if own.cached:
        words += f", {own.cached} found in shared pages"
    # A prompt is a taller box: told by its form too, not by its colour alone.
    top, height = (y, 13) if own.prompt else (y + 3, 8)
    return (
        f'<rect x="{x}" y="{top}" width="{side}" height="{height}" rx="1" '
        f'fill="{_PROMPT if own.prompt else _NEXT}">{_title(step, name, words)}</rect>'
    )


def _title(step: StepRecord, name: str, words: str) -> str:
    return f"<title>{escape(f'step {step.number}, {name}: {words}')}</title>"


def _bars(
    shown: Sequence[StepRecord],
    name: str,
    values: Callable[[StepRecord], list[tuple[float, str]]],
    top: float,
    y: int,
) -> str:
    """A chart with a bar of several parts for each step."""
    columns = [values(step) for step in shown]
    most = max(top, *(sum(value for value, _ in column) for column in columns), 1e-9)
    end = y + _BAR
    right = _width(shown)
    parts = [
        f'<line x1="0" x2="{right}" y1="{end}" y2="{end}" stroke="{_WAITS}"/>',
        _said(right + 6, y + 10, f"{most:,.0f}" if most >= 1 else "0"),
    ]
    for n, (step, column) in enumerate(zip(shown, columns, strict=True)):
        at = float(end)
        total = " + ".join(f"{value:,.0f}" for value, _ in column)
        title = f"<title>{escape(f'step {step.number}: {name} {total}')}</title>"
        for value, colour in column:
            height = value / most * _BAR
            at -= height
            if height > 0:
                parts.append(
                    f'<rect x="{n * _CELL}" y="{at:.1f}" width="{_CELL - 1}" '
                    f'height="{height:.1f}" fill="{colour}">{title}</rect>'
                )
    return "".join(parts)


def _legend() -> str:
    items = (
        (_PROMPT, "a prompt, or a part of it (tall); requests that wait for their prompt"),
        (_NEXT, "a next token (low); requests that wait for one; pages of one request"),
        (_SHARED, "pages of several requests"),
        (_WAITS, "waits"),
    )
    rows = "".join(
        f'<li><span style="display:inline-block;width:10px;height:10px;background:{colour}">'
        f"</span> {words}</li>"
        for colour, words in items
    )
    return f'<ul class="mx-rq-legend">{rows}<li>× gave its pages to others</li></ul>'


def _table(names: Sequence[str], facts: RunFacts) -> str:
    rows = []
    for name in names:
        one = facts.of(name)
        rows.append(
            (
                _short(name, 24),
                str(one.prompt),
                str(one.cached),
                str(one.generated),
                str(one.pages),
                "" if one.first_s is None else _time(one.first_s),
                "" if one.speed is None else f"{one.speed:,.0f}",
                one.status,
            )
        )
    heads = ("request", "prompt tokens", "found in cache", "generated", "pages",
             "time to first token", "tokens/s", "status")  # fmt: skip
    return table(heads, rows, right=(1, 2, 3, 4, 5, 6))


__all__ = ["MOST_ROWS", "WINDOW", "drawn"]
