"""Plans as text that is read without their source beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from maxlab.ir.poly import ONE, ZERO, Poly

LONGEST = 40
"""Characters of a name; the rest is left out."""


class Listed(Protocol):
    """What is read of a ``plan.Plan``, which is made of these tables; this module is below it."""

    steps: list[Any]
    slots: list[Any]
    cuts: list[int]


def plan_text(plan: Listed, rows: int | None = None) -> str:
    """The steps of ``plan`` in their order, then its buffers, a line each.

    Args:
        plan: The plan.
        rows: How many steps, and how many buffers, to list; None lists all.
    """
    parts = [f"{_count(len(plan.steps), 'step')}, {_count(len(plan.slots), 'buffer')}"]
    if plan.cuts:
        starts = ", ".join(f"k{number}" for number in plan.cuts)
        parts[0] += f"; sizes that steps compute are known before {starts}"
    steps = [_step_cells(step) for step in plan.steps]
    buffers = [_slot_cells(slot) for slot in plan.slots]
    if steps:
        parts += ["", *_columns(STEP_HEADS, steps, rows, "steps")]
    if buffers:
        parts += ["", *_columns(SLOT_HEADS, buffers, rows, "buffers")]
    kinds = {step.kind for step in plan.steps} | {slot.kind for slot in plan.slots}
    notes = [f"{kind}: {note}" for kind, note in NOTES.items() if kind in kinds]
    return "\n".join([*parts, *(["", *notes] if notes else [])])


NOTES = {
    "map": "each element by itself",
    "row": "rows that are folded, and what is made of the result",
    "reduce": "columns that are folded",
    "contract": "a product of matrices, and what is made of each tile of it",
    "attention": "fused attention",
    "concat": "a part of a larger value",
    "kernel": "a part of an operation that has kernels of its own",
    "pack": "the right operand of a product in panels of columns",
    "transfer": "a copy from one device to another",
    "copy": "what a loop begins with",
    "branch": "goes on elsewhere where a flag is 0",
    "jump": "goes on elsewhere",
    "refuse": "ends the run where sizes do not fit each other",
    "exchange": "buffers that take each other's memory from one turn of a loop to the next",
    "settle": "brings what a loop carries home",
    "arena": "memory of one run, shared by buffers that are not needed at the same time",
    "packed": "a weight in panels of columns, packed when the model is loaded",
}
"""What kinds of steps and of buffers are, where the word alone does not say it."""

STEP_HEADS = ("step", "name", "kind", "on", "writes", "reads", "items", "launch", "ops")
SLOT_HEADS = ("buffer", "kind", "holds", "dtype", "shape", "bytes", "on")


def _step_cells(step: Any) -> tuple[str, ...]:
    touched = step.traffic()
    written = [n for n in step.pointers if n in touched and touched[n][1] != ZERO]
    read = [n for n in step.pointers if n not in touched or touched[n][0] != ZERO]
    if step.kind == "exchange":  # it says whose memory they have
        read = []
    return (
        step.id,
        _shortened(step.name),
        step.kind,
        str(step.device),
        _listed(written),
        _listed(read),
        str(step.parallel),
        _launch(step),
        " ".join(step.nodes),
    )


def _launch(step: Any) -> str:
    """How a step is launched, or where it lets the run go on and with which memory."""
    behind = f"k{step.number + step.jump}"
    match step.kind:
        case "jump":
            return f"goes on at {behind}"
        case "branch":
            return f"goes on at {behind} if b{step.pointers[0]} is 0"
        case "refuse":
            return f"steps before {behind} only for sizes that fit"
        case "exchange" if step.exchange is not None:
            moves = [(a, b) for a, b in step.exchange.moves if a != b]
            if not moves:
                return f"{_listed(step.pointers)} in their own memory"
            return ", ".join(f"b{a} in the memory of b{b}" for a, b in moves)
    return formula_text(step.gpu.launch if step.gpu is not None else step.launch)


def _slot_cells(slot: Any) -> tuple[str, ...]:
    if slot.kind == "packed" and slot.packing is not None:
        holds = f"b{slot.packing.source} in panels"
    elif slot.kind in ("input", "output"):
        holds = f"{slot.kind} {slot.index}"
    else:
        holds = slot.name or slot.value
    if slot.kind == "input" and slot.name:
        holds += f", {slot.name}"
    shape = ", ".join(map(str, slot.shape))
    return (
        slot.id, slot.kind, _shortened(holds), slot.dtype.name, f"[{shape}]", str(slot.nbytes),
        str(slot.device),
    )  # fmt: skip


def formula_text(formula: Any) -> str:
    """A formula of a launch in a line: its name, and what it is given that is no default.

    Example:
        >>> from maxlab.compiler.launches import Items
        >>> formula_text(Items(Poly.symbol("n"), Poly.constant(640), unit=64))
        'Items(extent=n, cost=640, unit=64)'
    """
    if formula is None:
        return ""
    given = []
    for field in dataclasses.fields(formula):
        value = getattr(formula, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            given.append(f"{field.name}={_value_text(value)}")
    return f"{type(formula).__name__}({', '.join(given)})"


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        if value and not isinstance(value[0], Poly | int):
            return _count(len(value), "template")
        return f"({', '.join(map(_value_text, value))})"
    name = getattr(value, "name", None)  # of a dtype
    return name if isinstance(name, str) else str(value)


def _columns(
    heads: Sequence[str], cells: Sequence[Sequence[str]], rows: int | None, what: str
) -> list[str]:
    """The cells below their heads; columns that say nothing, or ``cpu`` alone, are left out."""
    shown = cells if rows is None else cells[: max(rows, 0)]
    plain = {"", "cpu:0", str(ONE)} if what == "steps" else {"", "cpu:0"}
    kept = [n for n in range(len(heads)) if any(row[n] not in plain for row in shown)]
    table = [[row[n] for n in kept] for row in (heads, *shown)]
    widths = [max(len(row[n]) for row in table) for n in range(len(kept))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    left = len(cells) - len(shown)
    return [*lines, f"… {left} more {what}"] if left else lines


def _listed(numbers: Iterable[int]) -> str:
    return " ".join(f"b{n}" for n in dict.fromkeys(numbers))


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


__all__ = ["formula_text", "plan_text"]
