"""From a graph to its plan and kernels: passes, schedule, loops, text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from maxlab import progress, trace
from maxlab.collector import paused
from maxlab.compiler.compiled import Compiled, Debug, compilable, early_for, loaded_kernels
from maxlab.compiler.effects import take_chains_out
from maxlab.compiler.marking import Marker
from maxlab.compiler.options import DEFAULT, Options
from maxlab.compiler.outlining import outline
from maxlab.compiler.passes import recorded, whole_pipeline
from maxlab.compiler.passes.ahead import ComputeAhead
from maxlab.compiler.plan import Step
from maxlab.compiler.planner import Planner
from maxlab.compiler.recording import recorded_facts
from maxlab.compiler.replacing import replace_texts
from maxlab.compiler.schedule import Schedule
from maxlab.ir import Function, at_revision, listen


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
    function = compilable(function, options)
    with early_for(options) as early:
        debug = debugged(function, options, early.look)
        timings = dict(debug.timings_ns)
        start = time.perf_counter_ns()
        early.wait()
        kernels = loaded_kernels(debug.plan, options, early.made)
    timings["kernels"] = time.perf_counter_ns() - start
    misses = sum(not k.hit for k in kernels.values())
    trace.emit("compile", function.name, steps=len(debug.plan.steps), misses=misses, **timings)
    return Compiled(debug.plan, debug, kernels, timings, options)


def debugged(
    function: Function,
    options: Options,
    look: Callable[[Sequence[Step]], object] | None = None,
) -> Debug:
    """The plan of ``function`` and how it came about, without kernels; ``look`` as for
    ``Planner``."""
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
        planner = Planner(schedule, look)
        plan = planner.build()
        replace_texts(plan, options.replaced)
        plan.facts = recorded_facts(function, work, planner.functions, plan, ahead)
    lap()
    phases = zip(("passes", "schedule", "plan"), marks, marks[1:], strict=False)
    timings = {name: end - start for name, start, end in phases}
    return Debug(
        function, work, plan, schedule, passes, kept, planner.slots, planner.functions,
        planner.schedules, ahead, timings,
    )  # fmt: skip


def _begun(function: Function, options: Options) -> tuple[Function, Marker]:
    """A copy of ``function`` as the first pass gets it, and what marks the values to keep."""
    work = function.clone()
    outline(work, options)
    take_chains_out(work)
    return work, Marker(work, options.keep)


__all__ = ["compile_function", "debugged"]
