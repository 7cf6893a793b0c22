"""Turns a schedule into a plan: lowers and prints each group, and says what each step needs at run
time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from maxlab.compiler.axes import extents_of, own_index, shape_of
from maxlab.compiler.groups import Group
from maxlab.compiler.launches import Once
from maxlab.compiler.plan import Plan, Slot, Step
from maxlab.compiler.plan_sink import PlanSink, nbytes_of
from maxlab.compiler.programs import add_program
from maxlab.compiler.schedule import Schedule
from maxlab.compiler.steps_host import HostSteps
from maxlab.compiler.traffic import Counted, Touch
from maxlab.ir import Function, HostCall, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset import OPSET

if TYPE_CHECKING:
    from maxlab.compiler.steps_gpu import GpuSteps


class Planner:
    """Turns a schedule into a plan.

    Args:
        schedule: The groups.
        look: Is called with the steps of the plan whenever there are more, where somebody begins
            to compile them.
    """

    def __init__(
        self, schedule: Schedule, look: Callable[[Sequence[Step]], object] | None = None
    ) -> None:
        self._look = look
        self._sink = PlanSink(schedule, self._fill)

    @property
    def functions(self) -> list[Function]:
        """The bodies of loops and branches, after all passes."""
        return self._sink.functions

    @property
    def schedules(self) -> list[tuple[Function | None, Schedule]]:
        """The schedules of bodies, by their subgraph."""
        return self._sink.schedules

    @property
    def slots(self) -> dict[Value, int]:
        """The number of the slot of each value that has one."""
        return self._sink.slots

    def build(self) -> Plan:
        """The plan."""
        return self._sink.fill()

    def _fill(self, sink: PlanSink) -> None:
        """Add the steps of all groups of ``sink``, the plan's own or a body's, to its plan."""
        _Filling(sink, self._look if sink is self._sink else None).run()


class _Filling:
    """Which part of the compiler adds the steps of a group."""

    def __init__(self, sink: PlanSink, look: Callable[[Sequence[Step]], object] | None) -> None:
        self.sink = sink
        self._look = look
        self.schedule = sink.schedule
        self.plan = sink.plan
        self._host = HostSteps(sink)
        self._gpu: GpuSteps | None = None

    def run(self) -> None:
        """Add them all."""
        schedule = self.schedule
        for number, (value, direct) in enumerate(schedule.outputs):
            if direct:
                self.sink.outputs[value] = number
        stage = 0
        for group in schedule.groups:
            if self._look is not None:
                self._look(self.plan.steps)
            if group.stage != stage:
                stage = group.stage
                self.plan.cuts.append(len(self.plan.steps))
            target = self.target(group)
            if group.output >= 0:
                self._output_copy(group)
            elif group.kind == "transfer":
                self._transfer(group)
            elif group.kind == "host":
                self._host_call(group)
            elif group.kind == "kernel":
                from maxlab.compiler.steps_kernel import add_kernel  # few plans have one

                add_kernel(self.sink, group)
            elif group.kind == "program":
                add_program(self.sink, group)
            elif group.kind == "contract":
                target.contract(group)
            elif group.kind == "attention":
                target.attention(group)
            elif group.kind == "concat":
                self._concat(group)
            elif group.kind == "col":
                target.columns(group)
            else:
                target.rows(group)
        if schedule.groups and schedule.groups[-1].binds:  # something is asserted at the end
            self.plan.cuts.append(len(self.plan.steps))
        by_output = {s.index: s.number for s in self.plan.slots if s.kind == "output"}
        for number, value in schedule.aliases.items():
            self.plan.aliases[number] = by_output[number] = self.sink.slot(value)
        self.plan.outputs = [by_output[n] for n in range(len(schedule.outputs))]

    def target(self, group: Group) -> HostSteps | GpuSteps:
        """The steps of the device of ``group``, which add those of the group."""
        if not group.device.is_gpu():
            return self._host
        if self._gpu is None:
            from maxlab.compiler.steps_gpu import GpuSteps  # what most plans need not

            self._gpu = GpuSteps(self.sink)
        return self._gpu

    def _output_copy(self, group: Group) -> None:
        source = group.source
        assert source is not None
        typed, shape, slots = source.tensor_type, shape_of(source), self.plan.slots

        def slot() -> int:
            nbytes = nbytes_of(shape, typed.dtype)
            made = Slot(
                len(slots), "output", typed.dtype, nbytes, shape, source.id, group.output,
                device=typed.device,
            )  # fmt: skip
            slots.append(made)
            return made.number

        self.target(group).output(group, slot)

    def _transfer(self, group: Group) -> None:
        op = group.main
        assert op is not None
        base, _ = self.schedule.resolve(
            op.operands[0], own_index(group.domain), extents_of(group.domain)
        )
        pointers = [self.sink.slot(op.result), self.sink.slot(base)]
        elements = _size_of(op.result)

        touching = Counted({0: Touch(written=elements), 1: Touch(elements)})
        self.sink.add(group, "transfer", None, pointers, Once(), ONE, touching=touching)

    def _host_call(self, group: Group) -> None:
        op = group.main
        assert op is not None
        make = OPSET[op.name].host
        call: HostCall = op.attrs["call"] if make is None else make(op)
        pointers = [self.sink.slot(result) for result in op.results]
        for operand in op.operands:
            shape = shape_of(operand)
            base, _ = self.schedule.resolve(operand, own_index(shape), extents_of(shape))
            pointers.append(self.sink.slot(base))
        shapes = [shape_of(value) for value in (*op.results, *op.operands)]

        made = len(op.results)
        elements = [_size_of(value) for value in (*op.results, *op.operands)]

        touched = {n: Touch(written=p) if n < made else Touch(p) for n, p in enumerate(elements)}
        symbol = f"host_k{len(self.plan.steps)}"
        step = self.sink.add(
            group,
            call.kind,
            None,
            pointers,
            Once(),
            ONE,
            sizes=[size for shape in shapes for size in shape],
            builtin=symbol,
            touching=Counted(touched),
        )
        step.call, step.ranks = call, tuple(map(len, shapes))
        step.name = call.name

    def _concat(self, group: Group) -> None:
        op = group.main
        assert op is not None
        axis = op.attrs["axis"] % len(group.domain)
        offset = ZERO
        for operand in op.operands:
            self.target(group).part(group, operand, axis, offset)
            offset = offset + shape_of(operand)[axis]


def _size_of(value: Value) -> Poly:
    total = ONE
    for size in shape_of(value):
        total = total * size
    return total
