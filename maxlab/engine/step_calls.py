"""How single steps of a program are called, for who calls their kernels alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from maxlab.compiler.plan import GpuLaunch, Step
from maxlab.driver import Accelerator
from maxlab.engine.launching import host_launch
from maxlab.engine.program import Program
from maxlab.engine.segments import KernelSegment


@dataclass(frozen=True, slots=True)
class HostCall:
    """How a step of the CPU is called: its numbers, and the chunks it is cut into."""

    dims: tuple[int, ...]
    extent: int
    grain: int
    scratch: int


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """How a step of a GPU is launched: its launch, and the words behind its pointers."""

    launch: GpuLaunch
    tail: tuple[int, ...]
    device: Accelerator = field(repr=False)


def call_of(programs: Sequence[Program], step: Step) -> HostCall | DeviceCall | None:
    """How ``step`` of ``programs``, the stages of one plan, is called; None for a transfer or a
    vendor's library."""
    for program in programs:
        for segment in program.segments:
            if isinstance(segment, KernelSegment):
                for kernel in segment.kernels:
                    if kernel.step is step:
                        if kernel.call is not None:
                            return None
                        return DeviceCall(kernel.launch, tuple(kernel.tail), segment.device)
    if step.kind == "transfer":
        return None
    executable, env = programs[-1].executable, programs[-1].env
    launch = host_launch(step.launch, env, executable.threads, executable.runtime)
    sizes = [size.evaluate(env) for size in step.sizes]
    return HostCall((*sizes, *launch.extra), launch.extent, launch.grain, launch.scratch)


__all__ = ["DeviceCall", "HostCall", "call_of"]
