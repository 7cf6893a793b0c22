"""The sink that a plan is written into while it is made: its slots and its steps.

The parts of the compiler that add steps, for hosts, GPUs, kernels of the op table and programs, are
given a ``PlanSink``; ``Planner`` says which of them adds those of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxlab.compiler.axes import Index, shape_of
from maxlab.compiler.groups import Group
from maxlab.compiler.guards import Guard
from maxlab.compiler.launches import HostFormula
from maxlab.compiler.lower import Lowered
from maxlab.compiler.plan import GpuKernels, Packing, Plan, Slot, Step
from maxlab.compiler.printed import Printed
from maxlab.compiler.schedule import Schedule
from maxlab.compiler.traffic import Touching
from maxlab.dtype import DType
from maxlab.ir import Function, Op, Value
from maxlab.ir.poly import ZERO, Poly
from maxlab.opset import flops_of, is_weight
from maxlab.opset.custom import label_of


@dataclass(slots=True)
class Body:
    """A region, compiled.

    Attributes:
        function: Its ops after all passes.
        schedule: Their groups.
        plan: Its plan, whose inputs and outputs are those of the region.
        guard: What must hold of the sizes.
        outputs: The numbers of what it gives that is not what it was given at the same place.
        origins: Of a subgraph, by the id of a compiled op those of the ops that it stands for.
        homes: Of a loop, by the place of an output in ``outputs``, the number of what is carried
            whose memory it is written to.
    """

    function: Function
    schedule: Schedule
    plan: Plan
    guard: Guard
    outputs: list[int]
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    homes: dict[int, int] = field(default_factory=dict)


InPlace = Callable[[int, int], Step | None]
"""Makes a step once more for a result that is the memory of an operand, given the numbers of the
two pointers; None where that would be wrong."""


class PlanSink:
    """The plan of one function, as it is made.

    Args:
        schedule: The groups of the function.
        fill: Adds the steps of all groups of a sink to its plan; bodies of programs are planned
            by it too.

    Attributes:
        plan: What was added so far.
        functions: Bodies of loops and branches, after all passes.
        subgraphs: Those that were compiled for their calls.
        root: The subgraph that is planned; None for the graph itself.
        schedules: Those of bodies, by their subgraph.
        outputs: The number of each output that its value is written to directly.
    """

    def __init__(self, schedule: Schedule, fill: Callable[[PlanSink], None]) -> None:
        self.schedule = schedule
        self.plan = Plan()
        self.functions: list[Function] = []
        self.subgraphs: dict[Function, Body] = {}
        self.root: Function | None = None
        self.schedules: list[tuple[Function | None, Schedule]] = []
        self.outputs: dict[Value, int] = {}
        self._fill = fill
        self._known: dict[Any, int] = {}
        self._seen = 0  # the slots that are known
        self._slots: dict[Value, int] = {}
        self._in_place: dict[int, tuple[Step, InPlace]] = {}

    def inner(self, schedule: Schedule, root: Function | None) -> PlanSink:
        """The sink, filled, of a body with these groups.

        Args:
            schedule: The groups of the body.
            root: The subgraph that the body is part of.
        """
        made = PlanSink(schedule, self._fill)
        made.subgraphs, made.schedules = self.subgraphs, self.schedules
        made.root = root
        made.schedules.append((root, schedule))
        made.fill()
        return made

    def fill(self) -> Plan:
        """The plan, with all of its steps."""
        self._fill(self)
        return self.plan

    # ------------------------------------------------------------ slots
    @property
    def slots(self) -> dict[Value, int]:
        """The number of the slot of each value that has one."""
        return dict(self._slots)

    def known_data(self) -> dict[Any, int]:
        """The slots of data by what they hold, as ``data_key`` says it, to be added to."""
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

    def slots_of(self, values: Sequence[Value]) -> list[int]:
        """The numbers of the slots that hold ``values``."""
        return [self.slot(value) for value in values]

    def slots_with(self, lowered: Lowered, output: Callable[[], int]) -> list[int]:
        """The numbers of the slots that ``lowered`` reads, and, where it writes, that which
        ``output`` makes."""
        pairs = zip(lowered.values, lowered.kernel.buffers, strict=True)
        return [output() if buffer.written else self.slot(value) for value, buffer in pairs]

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
        elif value in self.outputs:
            slot.kind, slot.index = "output", self.outputs[value]
        self.plan.slots.append(slot)
        return slot.number

    # ------------------------------------------------------------ steps
    def add(
        self,
        group: Group,
        kind: str,
        printed: Printed | None,
        pointers: Sequence[int],
        launch: HostFormula | None,
        parallel: Poly,
        *,
        sizes: Sequence[Poly] | None = None,
        builtin: str = "",
        touching: Touching,
        computed: Sequence[Op] | None = None,
        flops: Poly | None = None,
        loops: Lowered | None = None,
        gpu: GpuKernels | None = None,
    ) -> Step:
        """A new step of the plan; ``launch`` is None for what a GPU runs.

        ``touching`` says what it reads and writes of its pointers, ``computed`` are the ops whose
        arithmetic is done here, where these are not those of ``group`` and of what is inlined
        there; ``flops`` is that arithmetic where it is known.
        """
        nodes, names, called = _origins(self.schedule, group)
        schedule, slots = self.schedule, self.plan.slots

        if flops is None:
            ops = schedule.inliner.ops_of(group) if computed is None else computed
            flops = sum(map(flops_of, ops), ZERO)
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
            flops,
            touching,
            {n: (slots[n].nbytes, slots[n].dtype.size_in_bytes) for n in pointers},
            builtin,
            names,
            loops,
            group.device,
            gpu,
            group=group.number,
        )
        self.plan.steps.append(step)
        return step

    def let_in_place(self, step: Step, made: InPlace) -> None:
        """Let ``made`` be what makes ``step`` once more for a result that is the memory of an
        operand."""
        self._in_place[id(step)] = step, made

    def in_place(self, step: Step, target: int, source: int) -> Step | None:
        """``step`` with its pointer ``target``, a result, being its pointer ``source``; None where
        that would be wrong."""
        _, made = self._in_place.get(id(step), (None, None))
        return made(target, source) if made is not None else None

    def apart(self, add: Callable[[], None]) -> Step:
        """The step that ``add`` adds to the plan, which does not keep it."""
        add()
        return self.plan.steps.pop()


def data_key(slot: Slot) -> tuple[Any, ...]:
    """A key that slots that hold the same data share; empty for other slots."""
    if slot.kind == "weight":
        return "weight", slot.name, slot.device
    if slot.kind == "constant":
        return "constant", id(slot.data), slot.device
    if slot.kind == "packed" and slot.packing is not None:
        of = slot.packing
        return "packed", slot.device, of.source, of.kernel, of.sizes, of.items, of.nbytes, of.offset
    return ()


def nbytes_of(shape: Index, dtype: DType) -> Poly:
    """The bytes of a contiguous value."""
    total = Poly.constant(dtype.size_in_bytes)
    for size in shape:
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
