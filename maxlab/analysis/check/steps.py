"""Reads and writes of each step of a plan, in terms of the compiled function's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxlab.compiler import Compiled
from maxlab.compiler.axes import shape_of
from maxlab.compiler.effects import written_buffers
from maxlab.compiler.groups import Group
from maxlab.compiler.plan import Step
from maxlab.ir import Value
from maxlab.ir.poly import ZERO, Poly


@dataclass(frozen=True, slots=True)
class Written:
    """A value that a step writes to a slot; of a concat it is the place of one operand, ``source``,
    from ``first`` along ``axis``.
    """

    slot: int
    value: Value
    source: Value | None = None
    axis: int = 0
    first: Poly = ZERO

    @property
    def made(self) -> Value:
        """The value whose elements are written."""
        return self.value if self.source is None else self.source


@dataclass(slots=True)
class StepFacts:
    """One step of a plan.

    Attributes:
        step: The step.
        group: The group that it came from.
        writes: What it writes; nothing for a step that packs an operand.
        reads: The slots that it reads, with the values that they hold.
        changes: The slots and the values of the buffers that it changes in place.
    """

    step: Step
    group: Group
    writes: list[Written]
    reads: dict[int, Value]
    changes: tuple[tuple[int, Value], ...] = ()


def facts_of(compiled: Compiled) -> list[StepFacts]:
    """The facts of every step, in the order in which they run; an op with regions is one step, the
    last that it has."""
    values = {v.id: v for v in compiled.function.inputs}
    values |= {v.id: v for op in compiled.function.ops for v in op.results}
    slots = compiled.plan.slots
    packed: dict[int, Value] = {}
    ends = {step.group: step for step in compiled.plan.steps}
    found = []
    inside = {n for steps in compiled.plan.programs for n in steps[:-1]}
    for step, group, part in _grouped(compiled):
        if step.number in inside:
            continue
        pointers = step.pointers
        if step.kind == "pack":
            packed[step.pointers[0]] = values[slots[step.pointers[1]].value]
            writes: list[Written] = []
            mine = {step.pointers[0]}
        elif group.kind == "program":
            pointers = [n for n in step.keeps if slots[n].value]
            writes = _writes(compiled, pointers, group, part, values)
            mine = {w.slot for w in writes}
        elif group.kind == "kernel":
            # What is between the steps of one op is its own; the last step has made the results.
            if step is not ends[group.number]:
                found.append(StepFacts(step, group, [], {}))
                continue
            pointers = [n for n in (*pointers, *step.keeps) if slots[n].value]
            writes = _writes(compiled, pointers, group, part, values)
            mine = {w.slot for w in writes}
        else:
            writes = _writes(compiled, pointers, group, part, values)
            mine = {w.slot for w in writes}
        changed = written_buffers(group.main) if group.main is not None else ()
        changes: dict[int, Value] = {}
        reads: dict[int, Value] = {}
        for number in pointers:
            slot = slots[number]
            if number in mine:
                continue
            if any(slot.value == value.id for value in changed):
                changes[number] = values[slot.value]
                continue
            if number in packed:
                reads[number] = packed[number]
            elif slot.packing is not None:
                reads[slot.packing.source] = values[slots[slot.packing.source].value]
            else:
                reads[number] = values[slot.value]
        found.append(StepFacts(step, group, writes, reads, tuple(changes.items())))
    return found


def _grouped(compiled: Compiled) -> list[tuple[Step, Group, int]]:
    """Each step with its group and its number among the group's steps, which stand side by side in
    the plan: one for each operand of a concat, those that an op's own kernels are, and for others
    one behind those that pack.
    """
    groups = {group.number: group for group in compiled.schedule.groups}
    found: list[tuple[Step, Group, int]] = []
    parts: dict[int, int] = {}
    for step in compiled.plan.steps:
        part = 0
        if step.kind != "pack":
            part = parts.get(step.group, 0)
            parts[step.group] = part + 1
        found.append((step, groups[step.group], part))
    return found


def _writes(
    compiled: Compiled,
    pointers: Sequence[int],
    group: Group,
    part: int,
    values: dict[str, Value],
) -> list[Written]:
    slots = compiled.plan.slots
    if group.output >= 0:
        assert group.source is not None
        number = next(
            n for n in pointers if slots[n].kind == "output" and slots[n].index == group.output
        )
        return [Written(number, group.source)]
    if group.kind == "transfer":
        assert group.main is not None
        return [Written(pointers[0], group.main.result)]
    made = {v for op in group.ops for v in op.results}
    if group.source is not None:
        made.add(group.source)
    found = {
        number: values[slots[number].value]
        for number in pointers
        if slots[number].value and values[slots[number].value] in made
    }
    if group.kind == "concat":
        assert group.main is not None
        axis = group.main.attrs["axis"] % len(group.domain)
        sizes = [shape_of(v)[axis] for v in group.main.operands]
        first = ZERO
        for size in sizes[:part]:
            first = first + size
        return [Written(n, v, group.main.operands[part], axis, first) for n, v in found.items()]
    return [Written(n, v) for n, v in found.items()]


__all__ = ["StepFacts", "Written", "facts_of"]
