"""The cost of the accesses of a block, as tables, with the costliest request of each drawn."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.engine.times import plural
from maxlab.lab.cuda_sim.lockstep import Request
from maxlab.lab.cuda_sim.memory import BANKS, SECTOR, MemoryAccess, phases, sectors
from maxlab.lab.cuda_sim.result import SimRun
from maxlab.markup import escape

_GLOBAL_WORDS = (
    "Memory moves in sectors of 32 bytes. A request is one instruction of one warp; the fewer "
    "sectors its lanes touch, the better."
)
_SHARED_WORDS = (
    "There are 32 banks of 4 bytes. Lanes that need different words of one bank wait for each "
    "other: an n-way conflict takes n passes."
)
_MOST_SECTORS = 16
_MOST_ROWS = 40
_TOUCHED = "background-color:#1f6feb;color:#ffffff"
_HOT = "background-color:#c62f38;color:#ffffff"


def grade(access: MemoryAccess) -> str:
    """The class for how far a cost is from the best one."""
    factor = access.cost / access.ideal
    return "" if factor <= 1.5 else "mx-cs-some" if factor < 4 else "mx-cs-much"


def costs(run: SimRun) -> str:
    """The tables of global and of shared memory; nothing when there were no accesses."""
    parts = []
    for space, title, words in (
        (
            "global",
            "Global memory: coalescing",
            _GLOBAL_WORDS,
        ),
        (
            "shared",
            "Shared memory: bank conflicts",
            _SHARED_WORDS,
        ),
    ):
        found = [access for access in run.accesses if access.space == space]
        if found:
            parts.append(_table(run, found, title, words))
    if not parts:
        return ""
    note = ""
    if run.truncated:
        note = (
            "<p><b>The block did more than was recorded: the numbers are of its beginning.</b></p>"
        )
    elif run.stopped:
        note = "<p><b>The block did not run to its end: the numbers are of what it did.</b></p>"
    return f"<section>{note}{''.join(parts)}</section>"


def _table(run: SimRun, accesses: Sequence[MemoryAccess], title: str, words: str) -> str:
    is_global = accesses[0].space == "global"
    unit = "sectors / request" if is_global else "passes / request"
    rows = []
    for access in accesses[:_MOST_ROWS]:
        pill = f"{100 * access.efficiency:.3g}%" if is_global else (
            f"{access.ways}-way" if access.ways > 1 else "none"
        )  # fmt: skip
        picture = _sectors(run, access) if is_global else _banks(access)
        rows.append(
            f'<tr><td class="mx-cs-number">{access.line or "?"}</td>'
            f"<td><code>{escape(access.buffer)}</code></td><td>{access.kind}</td>"
            f'<td class="mx-cs-number">{access.size}</td>'
            f'<td class="mx-cs-number">{access.requests}</td>'
            f'<td class="mx-cs-number">{access.per_request:.4g}</td>'
            f'<td class="mx-cs-number">{access.ideal / access.requests:.4g}</td>'
            f'<td><span class="mx-cs-pill {grade(access)}">{pill}</span></td>'
            f'</tr><tr class="mx-cs-drawn"><td></td><td colspan="7">{picture}</td></tr>'
        )
    last = "efficiency" if is_global else "conflict"
    names = ("line", "buffer", "access", "bytes / lane", "requests", unit, "at best", last)
    numbers = (0, 3, 4, 5, 6)
    head = "".join(
        f'<th scope="col"{" class=mx-cs-number" if n in numbers else ""}>{name}</th>'
        for n, name in enumerate(names)
    )
    more = len(accesses) - _MOST_ROWS
    rest = f"<p>{plural(more, 'more place')} not shown.</p>" if more > 0 else ""
    return (
        f"<h4>{title}</h4><p class=mx-cs-faint>{words}</p>"
        f'<div class="mx-cs-scroll"><table class="mx-cs-costs"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{rest}"
    )


def _who(request: Request) -> str:
    return f"warp {request.warp}, {plural(len(request.offsets), 'lane')}"


def _sectors(run: SimRun, access: MemoryAccess) -> str:
    """The sectors that the costliest request touches, word by word."""
    assert run.recording is not None, "accesses come from a recording"
    request = access.worst
    touched = sectors(request, run.recording.regions[request.region].origin)
    head, cells = [], []
    for number in sorted(touched)[:_MOST_SECTORS]:
        head.append(f'<th colspan="8" scope="col">{number}</th>')
        for word in range(SECTOR // 4):
            used = f' style="{_TOUCHED}"' if word in touched[number] else ""
            edge = ' class="mx-cs-sector"' if word == 0 else ""
            state = "used" if used else "moved for nothing"
            place = f"sector {number}, bytes {word * 4} to {word * 4 + 3}: {state}"
            cells.append(f'<td{edge}{used} title="{place}"></td>')
    more = len(touched) - _MOST_SECTORS
    rest = f" The first {_MOST_SECTORS} are drawn." if more > 0 else ""
    used_bytes = 4 * sum(map(len, touched.values()))
    words = (
        f"{_who(request)}: {plural(len(touched), 'sector')}, {SECTOR * len(touched)} bytes moved, "
        f"{min(used_bytes, len({o for _, o in request.offsets}) * request.size)} used.{rest}"
    )
    return (
        f"<details><summary>the sectors of a request</summary>"
        f'<div class="mx-cs-scroll"><table class="mx-cs-strip"><caption>{words}</caption>'
        f"<thead><tr>{''.join(head)}</tr></thead><tbody><tr>{''.join(cells)}</tr></tbody></table>"
        "</div></details>"
    )


def _banks(access: MemoryAccess) -> str:
    """How many words each bank must give in the worst pass of the costliest request."""
    request = access.worst
    served = phases(request)
    banks = max(served, key=lambda group: max(map(len, group)))
    head = "".join(f'<th scope="col">{bank}</th>' for bank in range(BANKS))
    cells = []
    for bank, words in enumerate(banks):
        count = len(words)
        colour = "" if not count else f' style="{_TOUCHED if count == 1 else _HOT}"'
        title = f"bank {bank}: {plural(count, 'word')}"
        cells.append(f'<td{colour} title="{title}">{count or ""}</td>')
    part = "" if len(served) == 1 else f" (one of {len(served)} parts, served in turn)"
    words_ = f"{_who(request)}{part}: words that each bank must give"
    return (
        f"<details><summary>the banks of a request</summary>"
        f'<div class="mx-cs-scroll"><table class="mx-cs-strip mx-cs-banks">'
        f"<caption>{words_}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody><tr>{''.join(cells)}</tr></tbody></table></div></details>"
    )
