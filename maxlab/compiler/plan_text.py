"""Plans as text that is read without their source beside it."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from maxlab.compiler.facts import Facts
from maxlab.compiler.guards import Guard
from maxlab.compiler.plan_parts import Slot, Step
from maxlab.compiler.plan_whole import Whole
from maxlab.ir.poly import ONE, ZERO, Poly

LONGEST = 40
"""Characters of a name; the rest is left out."""


def plan_text(plan: Whole, rows: int | None = None) -> str:
    """The steps of ``plan`` in their order, then its buffers, a line each.

    Args:
        plan: The plan.
        rows: How many steps, and how many buffers, to list; None lists all.
    """
    parts = [f"{counted(len(plan.steps), 'step')}, {counted(len(plan.slots), 'buffer')}"]
    if plan.cuts:
        starts = ", ".join(f"k{number}" for number in plan.cuts)
        parts[0] += f"; sizes that steps compute are known before {starts}"
    steps = [_step_cells(step) for step in plan.steps]
    buffers = [_slot_cells(slot) for slot in plan.slots]
    if steps:
        parts += ["", *_columns(STEP_HEADS, steps, rows, "steps")]
    if buffers:
        parts += ["", *_columns(SLOT_HEADS, buffers, rows, "buffers")]
    notes = [
        textwrap.fill(f"{word}: {note}", WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        for word, note in legend(plan)
    ]
    return "\n".join([*parts, *(["", *notes] if notes else [])])


def legend(plan: Whole) -> list[tuple[str, str]]:
    """The words that the tables of ``plan`` use, with what they mean."""
    steps, slots = plan.steps, plan.slots
    used = {step.kind for step in steps} | {slot.kind for slot in slots}
    used |= {"k0, k1 …", "launch"} if steps else set()
    used |= {"b0, b1 …"} if slots else set()
    used |= {"items"} if any(step.parallel != ONE for step in steps) else set()
    used |= {"…_2_more"} if any(step.name.endswith("_more") for step in steps) else set()
    used |= {"n0, n1 …"} if any(step.nodes for step in steps) else set()
    used |= {"v0, v1 …"} if any(holds(slot) == slot.value for slot in slots) else set()
    notes = COLUMN_NOTES | NOTES
    found = [(word, note) for word, note in notes.items() if word in used]
    given: dict[str, set[str]] = {}
    for formula in map(launch_of, steps):
        if formula is not None:
            told = given.setdefault(type(formula).__name__, set())
            told.update(part.name for part in formula_parts(formula))
    for name, (note, fields) in LAUNCH_NOTES.items():
        if name in given:
            of = [f"{field}: {text}" for field, text in fields.items() if field in given[name]]
            found.append((name, "; ".join([note, *of])))
    return found


COLUMN_NOTES = {
    "k0, k1 …": "steps in the order in which they run; most are one kernel",
    "b0, b1 …": "buffers of memory; bytes and shapes are formulas of the dims of the inputs",
    "…_2_more": "the first operations of a step, and how many more kinds there are",
    "items": "the parts of a step that threads can share",
    "launch": "how threads share the items: a formula, evaluated when the sizes are known",
    "n0, n1 …": "operations of the graph, as its listing numbers them",
    "v0, v1 …": "values of the graph that a buffer holds",
}
"""The meaning of the columns of the tables."""

NOTES = {
    "map": "each element by itself",
    "row": "a row at a time: its sum or maximum, say, and elements that are computed with it",
    "reduce": "a column at a time: its sum or maximum, say",
    "contract": "a product of matrices; what is computed of each tile of it follows at once",
    "attention": "softmax of queries times keys, times values, block by block",
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
    "input": "memory of the caller, read where it lies",
    "output": "memory that a run makes and gives to the caller",
    "weight": "an array of the weights registry, by its name, used where it lies",
    "constant": "numbers that the graph has",
    "arena": "memory of one run, shared by buffers that are not needed at the same time",
    "packed": "a weight in panels of columns, packed when the model is loaded",
}
"""The meaning of the kinds of steps and of buffers."""

LAUNCH_NOTES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Once": ("one item, on one thread", {}),
    "Items": (
        "threads take chunks of items",
        {
            "extent": "how many there are",
            "cost": "scalar operations of one, or of a unit",
            "scratch": "bytes that each thread needs",
            "unit": "items that are never parted",
            "extra": "what the kernel is told besides its sizes",
            "serial": "one thread takes all",
            "total": "scalar operations of all",
            "products": "the kernel calls the library of products",
        },
    ),
    "Blocks": (
        "threads take blocks of columns, and reduce each column",
        {
            "rows": "matrices",
            "columns": "of each matrix",
            "depth": "numbers of a column",
            "weight": "scalar operations of a number",
        },
    ),
    "Gemm": (
        "threads take tiles of a product of m × k by k × n; the runtime library says how large",
        {},
    ),
    "BatchedGemm": (
        "threads take products of m × k by k × n",
        {
            "items": "how many there are",
            "rowwise": "whether the numbers of a row of the right operands lie side by side",
        },
    ),
    "Attention": (
        "threads take blocks of queries",
        {"sizes": "batch, heads, queries, keys, width of a head of keys, and of values"},
    ),
    "Strided": (
        "threads of the GPU walk over elements in strides of the grid",
        {"extent": "how many there are", "width": "elements that a thread takes at a time"},
    ),
    "MappedRows": (
        "blocks of the GPU take rows; several share a long one",
        {
            "rows": "how many there are",
            "width": "elements of a row",
            "vector": "elements of a row that a thread takes at a time",
        },
    ),
    "FoldedRows": (
        "threads of the GPU take a row: part of a warp, a warp, or a block",
        {
            "rows": "how many there are",
            "width": "elements of a row",
            "kept": "rows of numbers that a block keeps in shared memory",
            "size": "bytes of such a number",
            "lean": "kept and size of the kernel for rows that do not fit into shared memory",
            "folds": "of the kernel whose blocks share a row",
            "shapes": "how rows can be kept in registers",
        },
    ),
    "Parts": (
        "a thread of the GPU takes an item",
        {
            "extent": "how many there are",
            "threads": "of a block",
            "block": "a block takes an item together",
            "shared": "bytes of shared memory",
        },
    ),
    "Tiles": (
        "blocks of the GPU take tiles of products, by the template that fits the sizes best",
        {"sizes": "products, rows and columns of each, and how much is summed over"},
    ),
    "Heads": (
        "blocks of the GPU take queries, by the template that fits the sizes best",
        {"heads": "in all batches", "queries": "of each head", "keys": "of each head"},
    ),
}
"""The meaning of the formulas of launches, and of their arguments."""
WIDTH = 80
"""Characters of a line of the legend."""

STEP_HEADS = ("step", "name", "kind", "on", "writes", "reads", "items", "launch", "ops")
SLOT_HEADS = ("buffer", "kind", "holds", "dtype", "shape", "bytes", "on")


def touched_slots(step: Step) -> tuple[list[int], list[int]]:
    """The buffers that ``step`` writes, and those that it reads."""
    touched = step.traffic()
    written = [n for n in step.pointers if n in touched and touched[n][1] != ZERO]
    read = [n for n in step.pointers if n not in touched or touched[n][0] != ZERO]
    if step.kind == "exchange":  # it says whose memory they have
        read = []
    return [*dict.fromkeys(written)], [*dict.fromkeys(read)]


def _step_cells(step: Step) -> tuple[str, ...]:
    written, read = touched_slots(step)
    return (
        step.id,
        _shortened(step.name),
        step.kind,
        str(step.device),
        listed(written),
        listed(read),
        str(step.parallel),
        launch_text(step),
        " ".join(step.nodes),
    )


def launch_of(step: Step) -> Any:
    """The formula of the launch of ``step``, on the CPU or on a GPU."""
    return step.launch if step.gpu is None else step.gpu.launch


def launch_text(step: Step) -> str:
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
                return f"{listed(step.pointers)} in their own memory"
            return ", ".join(f"b{a} in the memory of b{b}" for a, b in moves)
    return formula_text(launch_of(step))


def conditions(guard: Guard) -> list[str]:
    """The conditions on sizes, a line for each."""
    found = [f"{size} of {op.word} must be 0 or more" for size, op in guard.differences.items()]
    return found + [
        f"{check.left} {check.relation} {check.right} must hold for {op.word}"
        for op, check in guard.checks
    ]


def size_lines(facts: Facts) -> Iterator[str]:
    """How the sizes of dims are found, and what must hold of them, a line each."""
    sizes = facts.sizes

    def axis(number: int, axis: int) -> str:
        return f"axis {axis} of input {number}"

    for name, number, n in sizes.names:
        yield f"{name} is {axis(number, n)}"
    for name, number, n, rest, factor in sizes.solved:
        over = f" over {factor}" if factor != 1 else ""
        less = f" less {rest}" if rest != ZERO else ""
        yield f"{name} is {axis(number, n)}{less}{over}"
    for number, n, size in sizes.checks:
        yield f"{axis(number, n)} must be {size}"
    for number, stage in enumerate(sizes.stages):
        late = f" (stage {number})" if number else ""
        for name, size, op in stage.definitions:
            yield f"{name} is {size}, says {op.word}{late}"
        yield from (text + late for text in conditions(stage.guard))
        for size, op in stage.counts.items():
            yield f"{size} of {op.word} must be below 2^63{late}"
        for bound in stage.binds:
            yield f"{bound.defines or bound.dim} is what {bound.what} counts{late}"


def holds(slot: Slot) -> str:
    """The content of ``slot``, in words."""
    if slot.kind == "packed" and slot.packing is not None:
        return f"b{slot.packing.source} in panels"
    if slot.kind == "input" and slot.name:
        return f"input {slot.index}, {slot.name}"
    if slot.kind in ("input", "output"):
        return f"{slot.kind} {slot.index}"
    return slot.name or slot.value


def slot_words(slot: Slot) -> str:
    """The id of ``slot``, and what it holds."""
    held = _shortened(holds(slot))
    return f"{slot.id} ({held})" if held else slot.id


def buffer_words(slot: Slot) -> str:
    """A line that describes ``slot``."""
    return f"{slot.kind} {holds(slot)}: {slot.dtype.name} {shape_text(slot)}, {slot.nbytes} bytes"


def shape_text(slot: Slot) -> str:
    """The shape of ``slot``, whose sizes are formulas."""
    return f"[{', '.join(map(str, slot.shape))}]"


def _slot_cells(slot: Slot) -> tuple[str, ...]:
    return (
        slot.id, slot.kind, _shortened(holds(slot)), slot.dtype.name, shape_text(slot),
        str(slot.nbytes), str(slot.device),
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
    given = ", ".join(f"{part.name}={part.text}" for part in formula_parts(formula))
    return f"{type(formula).__name__}({given})"


class Given(NamedTuple):
    """One thing that a formula is given."""

    name: str
    text: str


def formula_parts(formula: Any) -> Iterator[Given]:
    """The arguments of ``formula`` that differ from their defaults."""
    for field in dataclasses.fields(formula):
        value = getattr(formula, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            yield Given(field.name, _value_text(value))


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        if value and not isinstance(value[0], Poly | int):
            return counted(len(value), "template")
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


def listed(numbers: Iterable[int]) -> str:
    """Buffers by their ids, each once."""
    return " ".join(f"b{n}" for n in dict.fromkeys(numbers))


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def counted(number: int, word: str) -> str:
    """A number with the word for so many."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


__all__ = [
    "Given",
    "buffer_words",
    "conditions",
    "counted",
    "formula_parts",
    "formula_text",
    "holds",
    "launch_of",
    "launch_text",
    "legend",
    "listed",
    "plan_text",
    "shape_text",
    "size_lines",
    "slot_words",
    "touched_slots",
]
