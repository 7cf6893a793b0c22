"""A `SimRun` as HTML: its verdict, its reports on the source, its threads, its accesses.

The HTML has no script and no ids, so that it works in a saved notebook, several times on a page,
and in front ends that know nothing of maxlab. Everything that comes from the user is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maxlab.driver.sim import Report
from maxlab.engine.times import plural
from maxlab.lab.cuda_sim.lockstep import LineCount
from maxlab.lab.cuda_sim.memory import MemoryAccess
from maxlab.lab.cuda_sim.memory_view import costs, grade
from maxlab.lab.cuda_sim.result import SimRun
from maxlab.lab.cuda_sim.style import CSS
from maxlab.lab.cuda_sim.threads_view import grids
from maxlab.markup import escape

_TITLES = {
    "shared-race": "Race in shared memory",
    "global-race": "Race in global memory",
    "out-of-bounds": "Out of bounds",
    "uninitialised-read": "Uninitialised read",
    "divergent-barrier": "Divergent barrier",
    "misaligned": "Misaligned access",
    "inactive-lane": "Shuffle from an inactive lane",
    "warp-mask": "Wrong warp mask",
    "fault": "Fault",
    "trap": "Trap",
}
_MEANS = {
    "shared-race": "Which of the two comes first is left to chance: on a device the result differs "
    "from run to run.",
    "global-race": "Which of the two comes first is left to chance: on a device the result differs "
    "from run to run.",
    "out-of-bounds": "On a device this reads or destroys other data, or ends the context. Here the "
    "launch was stopped before the access.",
    "uninitialised-read": "Shared memory begins with whatever the block before left there.",
    "divergent-barrier": "A barrier needs all threads of the block at the same place; a device "
    "hangs, or goes on with wrong data.",
    "misaligned": "A device faults when the address is not a multiple of the access's size.",
    "inactive-lane": "The value that such a shuffle gives is undefined.",
    "warp-mask": "Lanes that disagree on who takes part wait for each other for ever, or compute "
    "nonsense.",
    "fault": "The machine refused the instruction.",
    "trap": "The kernel stopped itself.",
}

_ROOT = 'class="mx-cs" role="group"'
# Also without the style sheet.
_MARKED = {
    "mx-cs-at": "background-color:rgba(209,36,47,0.15)",
    "mx-cs-also": "background-color:rgba(179,89,0,0.17)",
}
_MOST_LINES = 60
_AROUND = 3


def page(run: SimRun) -> str:
    """The view of ``run``."""
    good = "mx-cs-good" if run.ok and run.checked else "mx-cs-bad" if run.reports else ""
    sign = "✗ " if run.reports else "✓ " if run.checked else ""
    threads = run.block[0] * run.block[1] * run.block[2]
    blocks = run.grid[0] * run.grid[1] * run.grid[2]
    head = (
        f'<div class="mx-cs-head"><code>{escape(run.configuration)}</code>'
        f' <span class="mx-cs-verdict {good}">{sign}{escape(run.verdict)}</span> '
        f'<span class="mx-cs-faint">{plural(blocks, "block")} of {plural(threads, "thread")}'
        f" in {plural(-(-threads // 32), 'warp')}"
        + (f"; below: block {run.shown}" if run.checked and blocks > 1 else "")
        + "</span></div>"
    )
    parts = [head, _source_section(run), grids(run), costs(run)]
    label = escape(f"{run.configuration}: {run.verdict}", quote=True)
    return f'<style>{CSS}</style><div {_ROOT} aria-label="{label}">{"".join(parts)}</div>'


def refused(text: str, line: int, message: str) -> str:
    """The view of a text that the compiler refused at ``line``."""
    said = f'<div class="mx-cs-said"><b>The compiler says:</b> {escape(message)}</div>'
    table = _source_table(text, {line: "mx-cs-at"}, {line: [said]}, {}, ())
    return (
        f'<style>{CSS}</style><div {_ROOT} aria-label="The compiler refused the text">'
        f'<div class="mx-cs-head"><span class="mx-cs-verdict mx-cs-bad">✗ does not compile</span>'
        f'<span class="mx-cs-faint">line {line} of the text</span></div>'
        f"<section>{table}</section></div>"
    )


def _source_section(run: SimRun) -> str:
    marks: dict[int, str] = {}
    notes: dict[int, list[str]] = {}
    nowhere: list[str] = []
    for number, report in enumerate(run.reports, 1):
        main = _said(number, report)
        if report.line is None:
            nowhere.append(main)
            continue
        marks[report.line] = "mx-cs-at"
        notes.setdefault(report.line, []).append(main)
        other = report.other_line
        if other is not None and other != report.line:
            marks.setdefault(other, "mx-cs-also")
            notes.setdefault(other, []).append(_also(number, report))
    table = _source_table(run.source, marks, notes, run.lines, run.accesses)
    return f"<section>{''.join(nowhere)}{table}</section>"


def _said(number: int, report: Report) -> str:
    times = f" Seen {report.count} times at these lines." if report.count > 1 else ""
    message = report.message[:1].upper() + report.message[1:]
    return (
        f'<div class="mx-cs-said"><span class="mx-cs-tag">{number}</span> '
        f"<b>{_TITLES[report.kind]}.</b> {escape(message)}.{times} {_MEANS[report.kind]}"
        f"<br><b>Fix:</b> {escape(report.fix)}.</div>"
    )


def _also(number: int, report: Report) -> str:
    if report.kind == "divergent-barrier":
        what = "here other threads of the block wait"
    elif report.other_thread is None:
        what = "the other place"
    elif report.kind.endswith("race"):
        what = f"the earlier {report.other_access}, by thread {report.other_thread}"
        if report.other_block != report.block:
            what += f" of block {report.other_block}"
    else:
        what = f"where thread {report.other_thread} is"
    return (
        f'<div class="mx-cs-said mx-cs-earlier"><span class="mx-cs-tag">{number}</span> '
        f"{escape(what)}</div>"
    )


def _source_table(
    text: str,
    marks: dict[int, str],
    notes: dict[int, list[str]],
    lanes: Mapping[int, LineCount],
    accesses: Sequence[MemoryAccess],
) -> str:
    by_line: dict[int, list[MemoryAccess]] = {}
    for access in accesses:
        by_line.setdefault(access.line or 0, []).append(access)
    rows = []
    lines = text.rstrip().splitlines()
    span = 1 + bool(lanes) + bool(accesses)
    shown = _shown({*marks, *lanes}, len(lines))
    for number, line in enumerate(lines, 1):
        if number not in shown:
            if number == 1 or number - 1 in shown:
                left = next(
                    (n for n in range(number, len(lines) + 1) if n in shown), len(lines) + 1
                )
                rows.append(
                    f'<tr class="mx-cs-left-out"><th></th><td colspan="{span}">'
                    f"⋯ {plural(left - number, 'line')}</td></tr>"
                )
            continue
        cells = f'<th scope="row">{number}</th>'
        if lanes:
            cells += _lanes_cell(lanes.get(number))
        cells += f'<td style="text-align:left"><pre>{escape(line) or " "}</pre></td>'
        if accesses:
            pills = " ".join(_pill(access) for access in by_line.get(number, ()))
            cells += f'<td class="mx-cs-cost">{pills}</td>'
        mark = marks.get(number, "")
        kind = f' class="{mark}" style="{_MARKED[mark]}"' if mark else ""
        rows.append(f"<tr{kind}>{cells}</tr>")
        if number in notes:
            inner = "".join(notes[number])
            rows.append(
                '<tr class="mx-cs-note"><td></td>'
                f'<td colspan="{span}" style="text-align:left">{inner}</td></tr>'
            )
    head = ""
    if lanes:
        head = '<thead><tr><th scope="col">line</th><th scope="col">lanes</th><th scope="col"></th>'
        head += '<th scope="col">memory</th>' if accesses else ""
        head += "</tr></thead>"
    return (
        '<div class="mx-cs-scroll"><table class="mx-cs-source" aria-label="The kernel\'s text">'
        f"{head}<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _shown(interesting: set[int], count: int) -> set[int]:
    """The lines to show of ``count``: all of a short text, of a long one those around what ran."""
    if count <= _MOST_LINES or not interesting:
        return set(range(1, count + 1))
    near = {n for line in interesting for n in range(line - _AROUND, line + _AROUND + 1)}
    return near & set(range(1, count + 1))


def _lanes_cell(count: LineCount | None) -> str:
    if count is None:
        return '<td class="mx-cs-lanes"></td>'
    active = f"{count.active / count.issues:.3g}"
    lanes = f"{count.lanes / count.issues:.3g}"
    diverged = " mx-cs-diverged" if count.diverged else ""
    title = (
        f"warps of this block ran the line {plural(count.issues, 'time')}, "
        f"on average with {active} of their {lanes} lanes"
    )
    return (
        f'<td class="mx-cs-lanes{diverged}" title="{title}">'
        f"{active}/{lanes}{' ◐' if count.diverged else ''}</td>"
    )


def _pill(access: MemoryAccess) -> str:
    """The cost of an access, in a few characters."""
    if access.space == "shared":
        if access.ways <= 1:
            return ""
        words = f"{access.ways}-way bank conflict"
    else:
        words = f"{access.per_request:.3g} sector{'' if access.cost == access.requests else 's'}"
    title = escape(str(access), quote=True)
    arrow = {"read": "←", "write": "→"}.get(access.kind, "↔")
    return (
        f'<span class="mx-cs-pill {grade(access)}" title="{title}">'
        f"{escape(access.buffer)} {arrow} {words}</span>"
    )
