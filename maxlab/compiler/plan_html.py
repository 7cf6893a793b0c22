"""Plans as tables in a notebook, and what such pages are made of.

The colours are those of JupyterLab's or VS Code's theme, elsewhere those of a light or dark page. A
notebook that is not trusted drops style sheets: then the same HTML is a list of plain tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maxlab.compiler.lifetimes import slot_uses
from maxlab.compiler.plan_parts import Slot, Step
from maxlab.compiler.plan_text import (
    Given,
    counted,
    formula_parts,
    holds,
    launch_of,
    launch_text,
    legend,
    shape_text,
    size_lines,
    touched_slots,
)
from maxlab.compiler.plan_whole import Whole
from maxlab.ir.poly import ZERO, Poly
from maxlab.markup import escape

MOST = 200
"""The most steps, and the most buffers, that a page shows."""
OPEN = 30
"""The most buffers that are shown without being asked for."""

_NAMES = ("bg", "soft", "line", "text", "faint")
_THEME = (
    ("--jp-layout-color1", "--vscode-editor-background"),
    ("--jp-layout-color2", "--vscode-textBlockQuote-background"),
    ("--jp-border-color2", "--vscode-panel-border"),
    ("--jp-content-font-color1", "--vscode-editor-foreground"),
    ("--jp-content-font-color2", "--vscode-descriptionForeground"),
)
_LIGHT = ("#fff", "#f3f4f6", "#d6d9de", "#1b1f24", "#59616b")
_DARK = ("#16191f", "#20252e", "#4a515e", "#e6e8eb", "#a5adb8")


def _colours(plain: Sequence[str]) -> str:
    return " ".join(
        f"--mp-{name}: var({lab}, var({code}, {colour}));"
        for name, (lab, code), colour in zip(_NAMES, _THEME, plain, strict=True)
    )


_RULES = f"""
.mx-plan {{ {_colours(_LIGHT)}
  color: var(--mp-text); background: var(--mp-bg); border: 1px solid var(--mp-line);
  border-radius: 6px; font-size: 12px; line-height: 1.45; max-width: 1400px; overflow: hidden;
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
}}
@media (prefers-color-scheme: dark) {{ .mx-plan {{ {_colours(_DARK)} }} }}
.mx-plan * {{ box-sizing: border-box; }}
.mx-plan > header, .mx-plan > section, .mx-plan > details {{
  padding: 7px 12px; border-top: 1px solid var(--mp-line); display: block;
}}
.mx-plan > header {{ border-top: 0; background: var(--mp-soft); font-size: 13px; }}
.mx-plan p {{ margin: 2px 0; }}
.mx-plan b, .mx-plan summary {{ font-weight: 600; }}
.mx-plan summary {{ cursor: pointer; }}
.mx-plan small {{ color: var(--mp-faint); font-size: 11px; }}
.mx-plan .mx-plan-scroll {{ overflow: auto; max-height: 460px; }}
.mx-plan table {{
  border-collapse: collapse; border: 0; margin: 0; font-size: inherit; color: inherit;
  width: 100%; table-layout: auto;
}}
.mx-plan table tr, .mx-plan table tbody tr:nth-child(odd),
.mx-plan table tbody tr:nth-child(even), .mx-plan table tbody tr:hover {{
  background: none; border: 0;
}}
.mx-plan table th, .mx-plan table td {{
  text-align: left; vertical-align: top; padding: 3px 8px 3px 0; border: 0; max-width: none;
  border-bottom: 1px solid var(--mp-line); white-space: normal; line-height: inherit;
  overflow-wrap: break-word; font-weight: normal;
}}
.mx-plan table thead th {{
  position: sticky; top: 0; background: var(--mp-bg); color: var(--mp-faint); white-space: nowrap;
}}
.mx-plan code, .mx-plan pre {{
  font-family: var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace);
  font-size: 11px; background: none; color: inherit; padding: 0; border: 0;
}}
.mx-plan pre {{ margin: 2px 0; white-space: pre-wrap; overflow-wrap: anywhere; }}
.mx-plan code {{ white-space: nowrap; }}
.mx-plan code.mx-plan-long {{ white-space: normal; overflow-wrap: anywhere; }}
.mx-plan dl {{
  margin: 4px 0 0; display: grid; grid-template-columns: max-content 1fr; gap: 1px 12px;
}}
.mx-plan dt, .mx-plan dd {{ margin: 0; }}
.mx-plan dd {{ color: var(--mp-faint); }}
"""
STYLE = f"<style>{' '.join(_RULES.split())}</style>"


# ---------------------------------------------------------------- a plan
def plan_page(plan: Whole, most: int = MOST) -> str:
    """``plan`` as HTML: its steps, its buffers, how sizes follow from each other, and what the
    words mean.

    Args:
        plan: The plan.
        most: How many steps, and how many buffers, to show; a sentence says how many are left out.
    """
    steps, slots = plan.steps, plan.slots
    users = _Users(plan)
    head = (
        f"<b>Plan of {escape(plan.facts.name or 'a graph')}</b> · {counted(len(steps), 'step')}, "
    )
    head += counted(len(slots), "buffer")
    if plan.cuts:
        starts = ", ".join(f"k{number}" for number in plan.cuts)
        head += f" · sizes that steps compute are known before {starts}"
    rows = [_step_row(step, slots, users) for step in steps[:most]]
    parts = [f"<header>{head}</header>"]
    if rows:
        body = table(
            ("step", "does", "reads", "writes", "items", "launch", "scratch", "costs"), rows
        )
        parts.append(f"<section>{body}{left_out('steps', len(steps), most)}</section>")
    if slots:
        made = [_slot_row(slot, plan, users) for slot in slots[:most]]
        body = table(("buffer", "kind", "holds", "shape", "bytes", "written by", "read by"), made)
        body += left_out("buffers", len(slots), most)
        shown = " open" if len(slots) <= OPEN else ""
        title = f"{counted(len(slots), 'buffer')} of memory"
        parts.append(f"<details{shown}><summary>{title}</summary>{body}</details>")
    lines = [*size_lines(plan.facts)]
    if lines:
        said = "".join(f"<p>{code(line)}</p>" for line in lines[:most])
        more = left_out("conditions", len(lines), most)
        parts.append(f"<details><summary>Sizes of dims</summary>{said}{more}</details>")
    words = "".join(
        f"<dt><code>{escape(word)}</code></dt><dd>{escape(note)}</dd>"
        for word, note in (*PAGE_NOTES.items(), *legend(plan))
    )
    if steps or slots:
        parts.append(
            f"<details open><summary>What the words mean</summary><dl>{words}</dl></details>"
        )
    return card(parts)


PAGE_NOTES = {
    "reads": "buffers, with the step that wrote each, or with what it holds",
    "writes": "buffers, with the steps that read each",
    "scratch": "bytes of memory that each thread has for itself",
    "costs": "scalar operations, and bytes that are read and written, each once",
}
"""The meaning of columns of the page that the text has not."""


class _Users:
    """Which steps write and read each buffer of ``plan``."""

    def __init__(self, plan: Whole) -> None:
        self.written: dict[int, list[Step]] = {}
        self.read: dict[int, list[Step]] = {}
        self.uses = slot_uses(plan)
        for step in plan.steps:
            written, read = touched_slots(step)
            for table, numbers in ((self.written, written), (self.read, read)):
                for number in numbers:
                    table.setdefault(number, []).append(step)

    def writer_before(self, number: int, step: Step) -> str:
        """The step that wrote the buffer last before ``step``; empty where none did."""
        found = [one.id for one in self.written.get(number, ()) if one.number < step.number]
        return found[-1] if found else ""

    def readers(self, number: int) -> str:
        """The steps that read the buffer."""
        return _steps(self.read.get(number, ()))

    def writers(self, number: int) -> str:
        """The steps that write the buffer."""
        return _steps(self.written.get(number, ()))


MOST_STEPS = 6


def _steps(steps: Sequence[Step]) -> str:
    """Steps by their ids, the first of many."""
    more = f" and {len(steps) - MOST_STEPS} more" if len(steps) > MOST_STEPS else ""
    return " ".join(step.id for step in steps[:MOST_STEPS]) + more


def _step_row(step: Step, slots: Sequence[Slot], users: _Users) -> tuple[str, ...]:
    written, read = touched_slots(step)
    reads = (
        _buffer(slots[n], (writer := users.writer_before(n, step)) and f"of {writer}") for n in read
    )
    writes = (_buffer(slots[n], (to := users.readers(n)) and f"for {to}") for n in written)
    does = f"<b>{escape(step.name)}</b><br><small>{escape(step.kind)}"
    if not step.device.is_cpu() or step.device.id:
        does += f" on {escape(str(step.device))}"
    if step.nodes:
        does += f", {escape(' '.join(step.nodes))}"
    formula = launch_of(step)
    if formula is None or step.kind in ("jump", "branch", "refuse", "exchange"):
        launch = escape(launch_text(step))
    else:
        parts = [part for part in formula_parts(formula) if part.name != "scratch"]
        launch = f"{type(formula).__name__}{_arguments(parts)}"
    scratch = getattr(formula, "scratch", None)
    return (
        f"<code>{step.id}</code>",
        f"{does}</small>",
        "<br>".join(reads),
        "<br>".join(writes),
        code(str(step.parallel), long=True),
        launch,
        code(str(scratch), long=True) if scratch is not None and str(scratch) != "0" else "",
        _cost("operations", step.flops) + _cost("bytes", step.nbytes),
    )


def _cost(word: str, amount: Poly) -> str:
    return f"<small>{word}</small> {code(str(amount), long=True)}<br>" if amount != ZERO else ""


def _arguments(parts: Iterable[Given]) -> str:
    lines = (
        f"<br><small>{escape(part.name)}</small> {code(part.text, long=True)}" for part in parts
    )
    return "".join(lines)


def _buffer(slot: Slot, who: str) -> str:
    """The id of ``slot``, and who else has to do with it, or what it holds."""
    said = who or (_named(slot) if slot.kind != "arena" else "")
    return f"<code>{slot.id}</code> <small>{escape(said)}</small>"


def _named(slot: Slot) -> str:
    """The content of ``slot``, of a packed weight by the weight's name."""
    return f"{slot.name} in panels" if slot.kind == "packed" and slot.name else holds(slot)


def _slot_row(slot: Slot, plan: Whole, users: _Users) -> tuple[str, ...]:
    device = f" on {slot.device}" if not slot.device.is_cpu() or slot.device.id else ""
    in_use = ""
    if slot.kind == "arena" and slot.number in users.uses:
        first, last = users.uses[slot.number]
        in_use = f"<br><small>in use from k{first} to k{last}</small>"
    return (
        f"<code>{slot.id}</code>",
        escape(f"{slot.kind}{device}"),
        f"{escape(_named(slot))}{in_use}",
        f"{slot.dtype.name} {code(shape_text(slot), long=True)}",
        code(str(slot.nbytes), long=True),
        f"<code>{users.writers(slot.number)}</code>",
        f"<code>{users.readers(slot.number)}</code>",
    )


# ---------------------------------------------------------------- pieces
def card(parts: Iterable[str]) -> str:
    """A page of ``parts``, each a header, a section or details."""
    return f'{STYLE}<div class="mx-plan">{"".join(parts)}</div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML; columns that say nothing are left out."""
    made = [*rows]
    kept = [n for n in range(len(heads)) if any(row[n] for row in made)]
    head = "".join(f"<th>{heads[n]}</th>" for n in kept)
    lines = (f"<tr>{''.join(f'<td>{row[n]}</td>' for n in kept)}</tr>" for row in made)
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="mx-plan-scroll">{body}</div>'


def left_out(what: str, count: int, most: int) -> str:
    """The sentence about what is left out; empty where nothing is."""
    if count <= most:
        return ""
    return f"<p>The first {most} of {count} {what} are shown; print(…) of it lists all.</p>"


def code(text: str, *, long: bool = False) -> str:
    """``text`` as code, broken anywhere where it is ``long``."""
    kind = ' class="mx-plan-long"' if long else ""
    return f"<code{kind}>{escape(text)}</code>"


__all__ = ["MOST", "STYLE", "card", "code", "left_out", "plan_page", "table"]
