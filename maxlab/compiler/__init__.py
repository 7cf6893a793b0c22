"""The compiler: passes, schedule, loops, C, plan. ``compile_function`` runs them all."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from maxlab import progress, trace
from maxlab.compiler.conventions import LONG_ROW_COST
from maxlab.compiler.effects import take_chains_out
from maxlab.compiler.handles import numbered
from maxlab.compiler.options import DEFAULT, Marker, Options, check_ids
from maxlab.compiler.outlining import outline
from maxlab.compiler.passes import PassRecord, recorded, whole_pipeline
from maxlab.compiler.passes.ahead import Ahead, ComputeAhead
from maxlab.compiler.plan import Plan, Slot, Step
from maxlab.compiler.planner import Planner
from maxlab.compiler.recording import recorded_facts
from maxlab.compiler.replacing import replace_texts
from maxlab.compiler.schedule import Schedule
from maxlab.errors import GraphError
from maxlab.ir import Function, Op, Value, at_revision, listen
from maxlab.toolchain import KernelSource, LoadedKernel, compile_units
from maxlab.toolchain.collector import paused
from maxlab.toolchain.flags import Flags


@dataclass(slots=True)
class Compiled:
    """A compiled function.

    Attributes:
        function: The function after all passes; ``source`` is the one that was compiled.
        plan: Slots and steps.
        passes: What each pass did.
        kernels: The loaded machine code of each step, by step number; built-in kernels have none.
        timings_ns: Nanoseconds of the phases ``passes``, ``schedule``, ``plan`` and ``kernels``, to
            which the engine adds ``weights`` and the newest ``bind``.
        options: What was asked for.
        kept: By the ids of ``options.keep``, the value of ``function`` that each became; of an op,
            also by the ids of its results.
        slots: The number of the slot that holds a value of ``function``, for those in memory.
        bodies: The functions that loops and branches run, after all passes.
        schedules: The schedules of all bodies, each with the subgraph that it is of, or that it is
            a part of; None for what the graph itself runs.
        long_kernels: The kernels for sizes with very long rows, by symbol; see ``address_of``.
        log: Where its kernels on the host write messages, once the engine has made it.
        ahead: What is computed when the model is loaded, if anything.
        guard: What runs its kernels of users in another process, where the engine guards them.
    """

    source: Function
    function: Function
    plan: Plan
    schedule: Schedule
    passes: list[PassRecord]
    kernels: dict[int, LoadedKernel] = field(default_factory=dict)
    timings_ns: dict[str, int] = field(default_factory=dict)
    options: Options = DEFAULT
    kept: dict[str, Value] = field(default_factory=dict)
    slots: dict[Value, int] = field(default_factory=dict)
    bodies: list[Function] = field(default_factory=list)
    schedules: list[tuple[Function | None, Schedule]] = field(default_factory=list)
    log: Any = None
    long_kernels: dict[str, LoadedKernel] = field(default_factory=dict)
    guard: Any = None
    ahead: Ahead | None = None

    def address_of(self, step: Step, env: Mapping[str, int]) -> int:
        """The address of the kernel that ``step``, which has a text, runs for dims of these sizes.

        Raises:
            ToolchainError: A kernel for long rows, which is compiled when it is first needed, could
                not be compiled.
        """
        if step.long is None or step.long.evaluate(env) <= LONG_ROW_COST:
            return self.kernels[step.number].address
        printed = step.in_strips()
        assert printed is not None, "what may have long rows has a text for them"
        found = self.long_kernels.get(printed.symbol)
        if found is None:
            source = KernelSource(printed.symbol, printed.text)
            (found,) = compile_units([source], flags=Flags(fast_math=self.options.fast_math))
            self.long_kernels[printed.symbol] = found
        return found.address

    def find(self, id: str) -> Op | None:
        """The op with this id, as it was compiled or as it was written."""
        for function in (self.function, *self.bodies, self.source):
            found = function.find(id)
            if found is not None:
                return found
        return None

    def slot_of(self, value: Value) -> Slot | None:
        """The slot that holds ``value`` of ``function``, or, of a view, what it looks at; None when
        it is in no memory.
        """
        base = value
        while base not in self.slots and self.schedule.is_view(base):
            assert base.op is not None
            base = base.op.operands[0]
        number = self.slots.get(base)
        return None if number is None else self.plan.slots[number]

    def step(self, id: str) -> Step:
        """The step ``k<number>``.

        Raises:
            KeyError: There is no such step.
        """
        for step in self.plan.steps:
            if step.id == id:
                return step
        raise KeyError(id)


def compile_function(function: Function, options: Options = DEFAULT) -> Compiled:
    """The compiled ``function``, its kernels loaded; ``function`` itself is not changed.

    Raises:
        GraphError: ML322, it has no output.
        GraphError: ML784, two kernels declare one opaque type otherwise.
        ArgumentError: ML626, ``options`` name what the function does not have; ML627, they replace
            a kernel that it does not become.
        DTypeError: ML107, a dtype the CPU cannot compute with.
        ToolchainError: No compiler, or one that failed.
    """
    if function.output is None:
        raise GraphError(
            "ML322", f"the graph {function.name!r} has no output yet", fix="call graph.output(...)"
        )
    function = numbered(function)
    check_ids(function, options)
    marks = [time.perf_counter_ns()]

    def lap() -> None:
        marks.append(time.perf_counter_ns())

    log, source = listen(function), function
    revision = log.revision

    def once_more() -> Function:
        then = at_revision(source, revision)  # it may have been changed since
        return _begun(then if then is not None else source, options)[0]

    with paused():
        work, marker = _begun(function, options)
        chosen = whole_pipeline(options)
        passes = recorded(work, chosen, once_more)
        ahead = next((apply.found for _, apply in chosen if isinstance(apply, ComputeAhead)), None)
        kept = marker.taken_out()
        lap()
        progress.step("schedule")
        schedule = Schedule(work, options, kept.values())
        lap()
        progress.step("plan")
        planner = Planner(schedule)
        plan = planner.build()
        replace_texts(plan, options.replaced)
        plan.facts = recorded_facts(function, work, planner.functions, plan)
    lap()
    units = {
        s.number: KernelSource(s.printed.symbol, s.printed.text)
        for s in plan.steps
        if s.printed and s.gpu is None
    }
    flags = Flags(fast_math=options.fast_math)
    names = {unit.name: plan.steps[number].name for number, unit in units.items()}
    loaded = compile_units(list(units.values()), flags=flags, called=names)
    kernels = dict(zip(units, loaded, strict=True))
    lap()
    phases = ("passes", "schedule", "plan", "kernels")
    timings = {n: b - a for n, a, b in zip(phases, marks, marks[1:], strict=False)}
    misses = sum(not k.hit for k in kernels.values())
    trace.emit("compile", function.name, steps=len(plan.steps), misses=misses, **timings)
    return Compiled(
        function, work, plan, schedule, passes, kernels, timings, options, kept, planner.slots,
        planner.functions, planner.schedules, ahead=ahead,
    )  # fmt: skip


def _begun(function: Function, options: Options) -> tuple[Function, Marker]:
    """A copy of ``function`` as the first pass gets it, and what marks the values to keep."""
    work = function.clone()
    outline(work, options)
    take_chains_out(work)
    return work, Marker(work, options.keep)


__all__ = ["Compiled", "Options", "compile_function"]
