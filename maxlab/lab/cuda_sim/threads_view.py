"""The threads of the shown block as grids, a row for each warp: how they ended, what they watched,
and where warps went different ways. One grid is seen at a time, chosen by radio buttons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from maxlab.driver.sim import Watch
from maxlab.engine.times import plural
from maxlab.lab.cuda_sim.lockstep import WARP
from maxlab.lab.cuda_sim.result import SimRun, ThreadState
from maxlab.lab.cuda_sim.style import MOST_PANELS
from maxlab.markup import escape

MOST_CELLS = 5_000
"""Cells of all grids together: with more the output is no longer fit for a notebook."""

_MOST_BRANCHES = 8
_VALUES = 3  # watched values that are told with a thread's end
_ALIKE = 4 * WARP  # threads that all ended well are folded when there are more of them
# (sign, colours, meaning): the sign tells what the colour tells.
_STATUS = {
    "ended": ("✓", "background-color:#2b7a3d;color:#ffffff", "ran to its end"),
    "barrier": ("‖", "background-color:#9a5b00;color:#ffffff", "waits in __syncthreads()"),
    "warp": ("~", "background-color:#8250df;color:#ffffff", "waits for other lanes"),
    "stopped": ("■", "background-color:#59616b;color:#ffffff", "the launch was stopped"),
    "not started": ("–", "background-color:#8b939c;color:#000000", "had not begun"),
}
_CULPRIT = ("✗", "background-color:#c62f38;color:#ffffff", "named by a report")
# Viridis in ten steps; each with the text colour that can be read on it.
_RAMP = (
    "#440154", "#482878", "#3e4989", "#31688e", "#26828e",
    "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
)  # fmt: skip
_DARK_STEPS = 5
_ACTIVE = "background-color:#1f6feb;color:#ffffff"
_Cell = Callable[[ThreadState], tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class _Panel:
    label: str
    body: str
    button: str
    group: str  # stands in front of the first of several that have it


def grids(run: SimRun) -> str:
    """The section of the threads; nothing for an unchecked launch without watched values."""
    if not run.checked and not any(t.watched for t in run.threads):
        return ""
    panels = [_status_panel(run)] if run.checked else []
    most = max(MOST_CELLS // len(run.threads), 2)
    most = min(most, MOST_PANELS) - len(panels)
    watched = _watched(run)
    branches = _branches(run)[: max(min(_MOST_BRANCHES, most // 2), most - len(watched))]
    kept = watched[: most - len(branches)]
    panels += [_watch_panel(run, *step) for step in kept]
    panels += [_branch_panel(run, line) for line in branches]
    note = ""
    if len(kept) < len(watched):
        note = f"<p>The first {len(kept)} of {len(watched)} watched steps are shown.</p>"
    buttons = ""
    group = ""
    for number, panel in enumerate(panels):
        if panel.group != group:
            buttons += f" <span>{panel.group}</span> "
        group = panel.group
        label = escape(panel.label, quote=True)
        buttons += (
            f'<label title="{label}"><input type="radio" name="panel" '
            f'aria-label="{label}"'
            f"{'' if number else ' checked'}>{panel.button}</label> "
        )
    bodies = "".join(f"<div>{panel.body}</div>" for panel in panels)
    title = f"Threads of block {run.shown}"
    return (
        f"<section><h4>{title}</h4>{note}"
        f'<form class="mx-cs-choice" aria-label="{title}">{buttons}'
        f'<div class="mx-cs-panels">{bodies}</div></form></section>'
    )


def _status_panel(run: SimRun) -> _Panel:
    used: dict[str, tuple[str, str, str]] = {}

    def cell(thread: ThreadState) -> tuple[str, str, str]:
        look = _STATUS.get(thread.status, _CULPRIT)
        meaning = look[2] if thread.status in _STATUS else thread.status
        if thread.status in ("barrier", "warp") and thread.line:
            meaning += f" on line {thread.line}"
        used.setdefault(meaning, look)
        last = f", last seen on line {thread.line}" if thread.line else ""
        if thread.status in ("barrier", "warp"):
            last = ""
        values = {watch.name: watch.value for watch in thread.watched}
        said = "".join(f", {name} = {value!r}" for name, value in list(values.items())[-_VALUES:])
        return look[0], look[1], meaning + last + said

    table = _grid(run, cell, "How each thread ended")
    legend = "".join(
        f'<li><span style="{colours}">{sign}</span> {escape(meaning)}</li>'
        for meaning, (sign, colours, _) in used.items()
    )
    if list(used) == [_STATUS["ended"][2]] and len(run.threads) > _ALIKE:
        table = (
            f"<details><summary>all {len(run.threads)} threads ran to their ends"
            f"</summary>{table}</details>"
        )
        legend = ""
    body = f'{table}<ul class="mx-cs-legend">{legend}</ul>'
    return _Panel("how each thread ended", body, "status", "")


def _watched(run: SimRun) -> list[tuple[str, int, int, dict[int, Watch]]]:
    """For each watched place and each time it was passed: name, line, time, values by thread.

    The n-th time of a thread is put beside the n-th time of the others; steps are in the order in
    which the first thread came to them.
    """
    steps: dict[tuple[int, str, int], dict[int, Watch]] = {}
    order: dict[tuple[int, str, int], int] = {}
    for number, thread in enumerate(run.threads):
        times: dict[tuple[int, str], int] = {}
        for at, watch in enumerate(thread.watched):
            place = watch.line, watch.name
            times[place] = time = times.get(place, 0) + 1
            steps.setdefault((*place, time), {})[number] = watch
            order[*place, time] = min(order.get((*place, time), at), at)
    keys = sorted(steps, key=lambda key: (order[key], key[0], key[2]))
    return [(name, line, time, steps[line, name, time]) for line, name, time in keys]


def _watch_panel(run: SimRun, name: str, line: int, time: int, values: dict[int, Watch]) -> _Panel:
    finite = [w.value for w in values.values() if math.isfinite(w.value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)

    def cell(thread: ThreadState) -> tuple[str, str, str]:
        watch = values.get(thread.warp * WARP + thread.lane)
        if watch is None:
            return "", "", f"did not pass line {line} this time"
        return _number(watch.value), _heat(watch.value, low, high), f"{name} = {watch.value!r}"

    here = f", {len(values)} of {plural(len(run.threads), 'thread')}"
    ordinal = f"time {time}"
    caption = (
        f"<code>{escape(name)}</code> on line {line}, {ordinal}{here}: "
        f"from {_number(low)} to {_number(high)}"
    )
    return _Panel(f"{name} on line {line}, {ordinal}", _grid(run, cell, caption), str(time),
                  f"<code>{escape(name)}</code> line {line}")  # fmt: skip


def _branches(run: SimRun) -> list[int]:
    """Lines that some lanes of a warp never ran although others did."""
    lanes = {t.warp: 0 for t in run.threads}
    for thread in run.threads:
        lanes[thread.warp] |= 1 << thread.lane
    return [
        line
        for line, count in sorted(run.lines.items())
        if any(mask != lanes[warp] for warp, mask in count.masks.items())
    ]


def _branch_panel(run: SimRun, line: int) -> _Panel:
    masks = run.lines[line].masks
    texts = run.source.splitlines()
    text = texts[line - 1].strip() if line <= len(texts) else ""

    def cell(thread: ThreadState) -> tuple[str, str, str]:
        if masks.get(thread.warp, 0) >> thread.lane & 1:
            return "●", _ACTIVE, f"ran line {line}"
        return "", "", f"never ran line {line}"

    caption = f"Which threads ran line {line}: <code>{escape(text[:80])}</code>"
    return _Panel(f"which threads ran line {line}", _grid(run, cell, caption), f"line {line}",
                  "branches")  # fmt: skip


def _grid(run: SimRun, cell: _Cell, caption: str) -> str:
    """A grid of the threads; ``cell`` gives the text, the colours and the words of each."""
    width = min(WARP, len(run.threads))
    head = "".join(f'<th scope="col">{lane}</th>' for lane in range(width))
    rows = []
    for begin in range(0, len(run.threads), WARP):
        warp: Sequence[ThreadState] = run.threads[begin : begin + WARP]
        cells = []
        for thread in warp:
            text, colours, says = cell(thread)
            title = f"thread {thread.thread}, lane {thread.lane} of warp {thread.warp}: {says}"
            look = f' style="{colours}"' if colours else ' class="mx-cs-none"'
            cells.append(f'<td{look} title="{escape(title, quote=True)}">{escape(text)}</td>')
        rows.append(f'<tr><th scope="row">warp {warp[0].warp}</th>{"".join(cells)}</tr>')
    return (
        f'<div class="mx-cs-scroll"><table class="mx-cs-grid"><caption>{caption}</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _heat(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return "background-color:#c62f38;color:#ffffff"
    part = 0.5 if high == low else (value - low) / (high - low)
    step = min(int(part * len(_RAMP)), len(_RAMP) - 1)
    return f"background-color:{_RAMP[step]};color:{'#ffffff' if step < _DARK_STEPS else '#000000'}"


def _number(value: float) -> str:
    """A value in at most five characters, if that can be."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e5:
        return str(int(value))
    return f"{value:.3g}"
