"""The compiler: passes, schedule, loops, C, plan. ``compile_function`` runs them all."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from maxlab import trace
from maxlab.compiler.passes import PIPELINE, PassRecord, run
from maxlab.compiler.plan import Plan, Step
from maxlab.compiler.planner import Planner
from maxlab.compiler.schedule import Schedule
from maxlab.errors import GraphError
from maxlab.ir import Function
from maxlab.toolchain import KernelSource, LoadedKernel, compile_units


@dataclass(slots=True)
class Compiled:
    """A compiled function.

    Attributes:
        function: The function after all passes; ``source`` is the one that was compiled.
        plan: Slots and steps.
        passes: What each pass did.
        kernels: The loaded machine code of each step, by step number; built-in kernels have none.
        timings_ns: Nanoseconds of the phases ``passes``, ``schedule``, ``plan`` and ``kernels``.
    """

    source: Function
    function: Function
    plan: Plan
    schedule: Schedule
    passes: list[PassRecord]
    kernels: dict[int, LoadedKernel] = field(default_factory=dict)
    timings_ns: dict[str, int] = field(default_factory=dict)

    def step(self, id: str) -> Step:
        """The step ``k<number>``.

        Raises:
            KeyError: There is no such step.
        """
        for step in self.plan.steps:
            if step.id == id:
                return step
        raise KeyError(id)


def compile_function(function: Function) -> Compiled:
    """The compiled ``function``, its kernels loaded; ``function`` itself is not changed.

    Raises:
        GraphError: ML322, it has no output.
        DTypeError: ML107, a dtype the CPU cannot compute with.
        ToolchainError: No compiler, or one that failed.
    """
    if function.output is None:
        raise GraphError(
            "ML322", f"the graph {function.name!r} has no output yet", fix="call graph.output(...)"
        )
    marks = [time.perf_counter_ns()]

    def lap() -> None:
        marks.append(time.perf_counter_ns())

    work = function.clone()
    passes = run(work, PIPELINE)
    lap()
    schedule = Schedule(work)
    lap()
    plan = Planner(schedule).build()
    lap()
    units = {
        s.number: KernelSource(s.printed.symbol, s.printed.text) for s in plan.steps if s.printed
    }
    loaded = compile_units(list(units.values()))
    kernels = dict(zip(units, loaded, strict=True))
    lap()
    names = ("passes", "schedule", "plan", "kernels")
    timings = {n: b - a for n, a, b in zip(names, marks, marks[1:], strict=False)}
    misses = sum(not k.hit for k in kernels.values())
    trace.emit("compile", function.name, steps=len(plan.steps), misses=misses, **timings)
    return Compiled(function, work, plan, schedule, passes, kernels, timings)


__all__ = ["Compiled", "compile_function"]
