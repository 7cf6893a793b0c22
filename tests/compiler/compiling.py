"""Compiles the kernels of many functions together: in parallel, and several a compiler run."""

from __future__ import annotations

from collections.abc import Iterable

from maxlab.compiler.passes import PIPELINE
from maxlab.compiler.passes import run as run_passes
from maxlab.compiler.planner import Planner
from maxlab.compiler.schedule import Schedule
from maxlab.ir import Function
from maxlab.toolchain import KernelSource, compile_units


def compile_all(functions: Iterable[Function]) -> None:
    """Put the kernels of ``functions`` into the cache; what cannot be planned is left out, for the
    test that loads it to say why.

    Raises:
        ToolchainError: A kernel does not compile.
    """
    units: dict[KernelSource, None] = {}
    for function in functions:
        try:
            work = function.clone()
            run_passes(work, PIPELINE)
            plan = Planner(Schedule(work)).build()
        except Exception:  # whoever loads the function says what is wrong
            continue
        for step in plan.steps:
            if step.printed:
                units[KernelSource(step.printed.symbol, step.printed.text)] = None
    compile_units(list(units))
