"""A model of a kept one that is trusted and fits: `load_kept`. Neither passes nor a compiler run,
and what builds graphs is not even imported."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from maxlab import progress, trace
from maxlab.collector import paused
from maxlab.driver.device import Device
from maxlab.engine.executable import Executable
from maxlab.engine.front_loader import LOADER
from maxlab.engine.kept.archive import Archive
from maxlab.engine.kept.manifest import GRAPH, INSIDE
from maxlab.engine.kept.opening import (
    adopt_runtime,
    compiled_of,
    computed_of,
    foreign,
    packed_of,
)
from maxlab.engine.kept.weights import Numbers
from maxlab.engine.model import Model
from maxlab.engine.placing import placed_of
from maxlab.engine.weights import prepare
from maxlab.ir.types import DeviceRef
from maxlab.toolchain.library import runtime

if TYPE_CHECKING:
    from maxlab.compiler.compiled import Compiled, Debug
    from maxlab.compiler.options import Options
    from maxlab.compiler.plan import Plan
    from maxlab.driver import Tensor
    from maxlab.engine.weights import Prepared


def load_kept(
    archive: Archive,
    options: Options,
    registry: Mapping[str, Any],
    *,
    devices: Sequence[Device],
    threads: int,
    profiling: Literal["off", "on", "detailed"] = "off",
) -> Model:
    """The model of ``archive``, whose plan fits this maxlab.

    Args:
        archive: The kept model; it is trusted.
        options: What it was compiled with.
        registry: Weights in the place of its own, by name.
        devices: What a session has.
        threads: Of the host.
        profiling: How runs on GPUs are recorded.

    Raises:
        ParseError: ML512 or ML514, a part of it is missing or changed.
        WeightError: ML517, a file of weights is not there or another one; or as `prepare`.
        DeviceError: ML617, it runs on a device that is not among ``devices``.
        ToolchainError: ML503, its machine code cannot be loaded; on another CPU, no compiler was
            found, or it failed.
    """

    @cache
    def graph() -> Any:
        from maxlab.engine.kept.reading import graph_in

        return graph_in(archive, is_trusted=True)

    def debug() -> Debug:
        from maxlab.engine.kept.reading import debug_of

        return debug_of(graph(), options)

    name = archive.manifest.name
    with progress.working(f"load {name}"), trace.span("load", name), paused():
        archive.require(GRAPH)  # which is read when somebody asks for it
        if not foreign(archive):
            adopt_runtime(archive)
        compiled = compiled_of(archive, options, debug)
        placed = placed_of(_places(compiled.plan), name, devices)
        library = runtime()
        start = time.perf_counter_ns()
        numbers = Numbers(archive, is_trusted=True)
        packed = packed_of(archive, numbers, compiled.plan) if not (registry or placed) else {}
        computed = computed_of(archive, numbers)
        weights = ChainMap(dict(registry), numbers)  # type: ignore[arg-type]  # read only
        prepared = prepare(compiled, weights, library, threads, placed, computed, packed)
        compiled.timings_ns["weights"] = time.perf_counter_ns() - start
        if compiled.plan.facts.ahead is not None:
            prepared.again = lambda: _computed_again(compiled, prepared, devices, threads)
        executable = Executable(compiled, prepared, threads, library, placed)
        made = Model(executable, None, LOADER, graph)
        if profiling != "off":
            made.profile_gpus(profiling)
        return made


def is_loadable(archive: Archive, registry: Mapping[str, Any]) -> bool:
    """Whether ``archive``, whose plan fits, has all that depends on the weights it will have."""
    ahead = archive.manifest.ahead
    return not ahead or (ahead == INSIDE and not registry and not foreign(archive))


def _computed_again(
    compiled: Compiled, prepared: Prepared, devices: Sequence[Device], threads: int
) -> dict[str, Tensor]:
    """The tensors that ``compiled`` has computed of weights ahead of all runs, by name."""
    found: dict[str, Tensor] = trace.reading("computed_again")(
        compiled, prepared.tensors, devices, threads
    )
    return found


def _places(plan: Plan) -> Iterable[tuple[DeviceRef, str, None]]:
    """The devices of ``plan``, and what is on each, in words."""
    for x in plan.facts.inputs:
        yield x.device, f"the input {x.name}", None
    for slot in plan.slots:
        yield slot.device, "values", None
    for step in plan.steps:
        yield step.device, step.name, None


__all__ = ["is_loadable", "load_kept"]
