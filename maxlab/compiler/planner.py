"""Turns a schedule into a plan: lowers and prints each group, and says what each step needs at run
time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.compiler.axes import Index, extents_of, own_index, shape_of
from maxlab.compiler.codegen.c import Printed
from maxlab.compiler.groups import Group
from maxlab.compiler.lower import Lowered, Lowering
from maxlab.compiler.plan import Env, GpuKernels, Launch, Packing, Plan, Slot, Step
from maxlab.compiler.programs import Body, add_program, data_key
from maxlab.compiler.schedule import Schedule
from maxlab.compiler.steps_gpu import GpuSteps
from maxlab.compiler.steps_host import HostSteps
from maxlab.compiler.steps_kernel import add_kernel
from maxlab.compiler.traffic import Touch, Touched, in_bytes
from maxlab.dtype import DType
from maxlab.ir import Function, HostCall, Op, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset import OPSET, flops_of, is_weight
from maxlab.opset.custom import label_of


class Planner:
    """Turns a schedule into a plan."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.plan = Plan()
        self.functions: list[Function] = []  # bodies of loops and branches, after all passes
        self.subgraphs: dict[Function, Body] = {}  # those that were compiled for their calls
        self.root: Function | None = None  # the subgraph that is planned
        self.schedules: list[tuple[Function | None, Schedule]] = []  # of bodies, by their subgraph
        self._known: dict[Any, int] = {}
        self._seen = 0  # the slots that are known
        self._slots: dict[Value, int] = {}
        self._outputs: dict[Value, int] = {}
        self._host = HostSteps(self)
        self._gpu = GpuSteps(self)

    def build(self) -> Plan:
        """The plan."""
        schedule = self.schedule
        for number, (value, direct) in enumerate(schedule.outputs):
            if direct:
                self._outputs[value] = number
        stage = 0
        for group in schedule.groups:
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
                add_kernel(self, group)
            elif group.kind == "program":
                add_program(self, group)
            elif group.kind == "contract":
                target.contract(group)
            elif group.kind == "attention":
                target.attention(group)
            elif group.kind == "concat":
                self._concat(group)
            elif group.kind == "col":
                target.columns(group, Lowering(schedule, group).columns())
            else:
                lowering = Lowering(schedule, group, keep_loads=group.device.is_gpu())
                target.rows(group, lowering.rows())
        if schedule.groups and schedule.groups[-1].binds:  # something is asserted at the end
            self.plan.cuts.append(len(self.plan.steps))
        by_output = {s.index: s.number for s in self.plan.slots if s.kind == "output"}
        for number, value in schedule.aliases.items():
            self.plan.aliases[number] = by_output[number] = self.slot(value)
        self.plan.outputs = [by_output[n] for n in range(len(schedule.outputs))]
        return self.plan

    def target(self, group: Group) -> HostSteps | GpuSteps:
        """What adds the steps of ``group``: those of its device."""
        return self._gpu if group.device.is_gpu() else self._host

    # ------------------------------------------------------------ slots
    @property
    def slots(self) -> dict[Value, int]:
        """The number of the slot of each value that has one."""
        return dict(self._slots)

    def known_data(self) -> dict[Any, int]:
        """The slots of data by what they hold, as ``programs.data_key`` says it, to be added to."""
        for slot in self.plan.slots[self._seen :]:
            key = data_key(slot)
            if key:
                self._known.setdefault(key, slot.number)
        self._seen = len(self.plan.slots)
        return self._known

    def slot(self, value: Value) -> int:
        """The number of the slot that holds ``value``."""
        value = self.schedule.states.get(value, value)
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = self._new_slot(value)
        return found

    def packed_slot(self, packing: Packing, dtype: DType, shape: tuple[Poly, ...]) -> int:
        """The number of a slot that is packed from another when the model is loaded."""
        slots = self.plan.slots
        nbytes = Poly.constant(packing.nbytes)
        source = slots[packing.source]
        slot = Slot(
            len(slots), "packed", dtype, nbytes, shape, packing=packing, device=source.device
        )
        slot.name = source.name
        slots.append(slot)
        return slot.number

    def _new_slot(self, value: Value) -> int:
        typed = value.tensor_type
        shape = shape_of(value)
        slot = Slot(
            len(self.plan.slots), "arena", typed.dtype, nbytes_of(shape, typed.dtype), shape,
            value.id, device=typed.device, order=self.schedule.layouts.get(value, ()),
        )  # fmt: skip
        data = self.schedule.data_of(value)
        if value.op is None:
            slot.kind, slot.index, slot.name = "input", value.index, value.name
        elif data is not None and data.op is not None:  # also what is transferred when it is loaded
            if is_weight(data.op):
                slot.kind, slot.name = "weight", data.op.attrs["name"]
            else:
                slot.kind, slot.data = (
                    "constant",
                    np.ascontiguousarray(data.op.attrs["value"].array),
                )
        elif value in self._outputs:
            slot.kind, slot.index = "output", self._outputs[value]
        self.plan.slots.append(slot)
        return slot.number

    # ------------------------------------------------------------ steps
    def add(
        self,
        group: Group,
        kind: str,
        printed: Printed | None,
        pointers: Sequence[int],
        launch: Callable[[Env, int, Any], Launch],
        parallel: Poly,
        *,
        sizes: Sequence[Poly] | None = None,
        builtin: str = "",
        touches: Callable[[], Touched],
        computed: Sequence[Op] | None = None,
        loops: Lowered | None = None,
        gpu: GpuKernels | None = None,
    ) -> Step:
        """A new step of the plan.

        ``touches`` counts what it reads and writes of its pointers, ``computed`` are the ops whose
        arithmetic is done here, where these are not those of ``group`` and of what is inlined
        there.
        """
        nodes, names, called = _origins(self.schedule, group)
        schedule, slots = self.schedule, self.plan.slots

        @functools.cache  # profiles, views and rooflines ask again
        def traffic() -> dict[int, tuple[Poly, Poly]]:
            sizes = {n: (slots[n].nbytes, slots[n].dtype.size_in_bytes) for n in set(pointers)}
            return in_bytes(touches(), pointers, sizes)

        @functools.cache
        def cost() -> tuple[Poly, Poly]:
            flops = moved = ZERO
            ops = schedule.inliner.ops_of(group) if computed is None else computed
            for op in ops:
                flops = flops + flops_of(op)
            for read, written in traffic().values():
                moved = moved + read + written
            return flops, moved

        step = Step(
            len(self.plan.steps),
            _label(called, kind),
            kind,
            printed,
            list(pointers),
            list(sizes)
            if sizes is not None
            else [Poly.symbol(s) for s in (printed.symbols if printed else [])],
            nodes,
            parallel,
            launch,
            cost,
            traffic,
            builtin,
            names,
            loops,
            group.device,
            gpu,
            group=group.number,
        )
        self.plan.steps.append(step)
        return step

    def apart(self, add: Callable[[], None]) -> Step:
        """The step that ``add`` adds to the plan, which does not keep it."""
        add()
        return self.plan.steps.pop()

    def _output_copy(self, group: Group) -> None:
        lowered = Lowering(self.schedule, group).rows()
        pointers: list[int] = []
        source = group.source
        assert source is not None
        for value, buffer in zip(lowered.values, lowered.kernel.buffers, strict=True):
            if not buffer.written:
                pointers.append(self.slot(value))
                continue
            typed = source.tensor_type
            shape = shape_of(source)
            slot = Slot(
                len(self.plan.slots),
                "output",
                typed.dtype,
                nbytes_of(shape, typed.dtype),
                shape,
                source.id,
                group.output,
                device=typed.device,
            )
            self.plan.slots.append(slot)
            pointers.append(slot.number)
        self.target(group).rows(group, lowered, pointers)

    def _transfer(self, group: Group) -> None:
        op = group.main
        assert op is not None
        base, _ = self.schedule.resolve(
            op.operands[0], own_index(group.domain), extents_of(group.domain)
        )
        pointers = [self.slot(op.result), self.slot(base)]
        elements = _size_of(op.result)

        def touches() -> Touched:
            return {0: Touch(written=elements), 1: Touch(elements)}

        def launch(env: Env, threads: int, runtime: Any) -> Launch:
            return Launch((), 1, 1, 0)

        self.add(group, "transfer", None, pointers, launch, ONE, touches=touches)

    def _host_call(self, group: Group) -> None:
        op = group.main
        assert op is not None
        make = OPSET[op.name].host
        call: HostCall = op.attrs["call"] if make is None else make(op)
        pointers = [self.slot(result) for result in op.results]
        for operand in op.operands:
            shape = shape_of(operand)
            base, _ = self.schedule.resolve(operand, own_index(shape), extents_of(shape))
            pointers.append(self.slot(base))
        shapes = [shape_of(value) for value in (*op.results, *op.operands)]

        def launch(env: Env, threads: int, runtime: Any) -> Launch:
            return Launch((), 1, 1, 0)

        made = len(op.results)
        elements = [_size_of(value) for value in (*op.results, *op.operands)]

        def touches() -> Touched:
            return {n: Touch(written=p) if n < made else Touch(p) for n, p in enumerate(elements)}

        symbol = f"host_k{len(self.plan.steps)}"
        step = self.add(
            group,
            call.kind,
            None,
            pointers,
            launch,
            ONE,
            sizes=[size for shape in shapes for size in shape],
            builtin=symbol,
            touches=touches,
        )
        step.call, step.ranks = call, tuple(map(len, shapes))
        step.name = call.name

    def _concat(self, group: Group) -> None:
        op = group.main
        assert op is not None
        axis = op.attrs["axis"] % len(group.domain)
        offset = ZERO
        for operand in op.operands:
            lowered = Lowering(self.schedule, group).part(operand, axis, offset)
            inlined = self.schedule.inliner.ops_for(group, operand)
            self.target(group).rows(group, lowered, computed=inlined)
            offset = offset + shape_of(operand)[axis]


def nbytes_of(shape: Index, dtype: DType) -> Poly:
    """The bytes of a contiguous value."""
    total = Poly.constant(dtype.size_in_bytes)
    for size in shape:
        total = total * size
    return total


def _size_of(value: Value) -> Poly:
    total = ONE
    for size in shape_of(value):
        total = total * size
    return total


def _origins(
    schedule: Schedule, group: Group
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The ids of the user's ops that ``group`` computes, the names of what it is made of, and what
    the user calls that.
    """
    ops: list[Op] = list(group.ops)
    for other in schedule.inliner.groups_in(group):
        ops.extend(other.ops)
    if group.source is not None and group.source.op is not None:
        ops.append(group.source.op)
    ids = dict.fromkeys(i for op in ops for i in op.origins)
    written = schedule.function.written
    called = []
    for op in ops:
        name = written.get(op.origins[0], op.name) if op.origins else op.name
        called.append(label_of(op) if name == op.name else name.removeprefix("mo."))
    return tuple(ids), tuple(label_of(op) for op in ops), tuple(called)


def _label(names: Sequence[str], kind: str) -> str:
    short = list(dict.fromkeys(n.removeprefix("reduce.") for n in names))
    if kind == "attention":
        return "attention"
    if len(short) > 4:
        short = [*short[:3], f"{len(short) - 3}_more"]
    return ("pack_" if kind == "pack" else "") + "_".join(short) if short else kind
