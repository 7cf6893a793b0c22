"""A run of a model: all stages of its plan, one behind the other."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from maxlab import trace
from maxlab.driver import Tensor
from maxlab.driver.mapped import require_read
from maxlab.engine.executable import Executable
from maxlab.engine.frame import Frame
from maxlab.engine.layout import add_buffers
from maxlab.engine.observing import Observers
from maxlab.engine.program import Program, run
from maxlab.engine.whole import Outputs
from maxlab.errors import DeviceError

PROGRAMS: weakref.WeakSet[Program] = weakref.WeakSet()
"""Programs that have run, whose free frames are given back where memory is short."""


def execute(
    first: Program, inputs: Sequence[Tensor], observers: Observers = ()
) -> tuple[Outputs, list[Program]]:
    """The outputs for ``inputs``, and the programs that made them, ``first`` and the stages behind.

    Tensors on accelerators may not be finished: they belong to the default stream of their device,
    and readers wait for it. What a kernel finds wrong is raised by the first wait, which is in the
    call only where something comes back to the host.

    Raises:
        ExecutionError: Something was found wrong while it ran.
        WeightFileError: ML639 or ML641, a file that weights are mapped from has changed.
    """
    executable = first.executable
    watch = executable.prepared.watch
    if watch is not None:
        watch.look()
    passed: list[tuple[Program, Frame]] = []
    made: dict[int, Tensor] = {}
    try:
        with _span(executable):
            program = first
            while True:
                frame = _frame(program, passed[-1][1] if passed else None, inputs, made)
                passed.append((program, frame))
                run(program, frame, observers)
                for faults in frame.fault.values():
                    faults.raise_later()
                if program.is_last:
                    break
                program = program.next(program.sizes(frame))
        if watch is not None:  # copies read files too
            watch.require_read()
        if executable.placed:
            _settle(executable, inputs, passed)
    except BaseException:
        # Frames of a run that ended are not used again: what they hold is freed, when the devices
        # do not write to it any more.
        for device in executable.accelerators:
            with suppress(Exception):
                device.context.call(device.default_stream.queue.synchronize)
        for _, frame in passed:
            frame.give_back(executable.blocks)
        raise
    for program, frame in passed:
        frame.give_back(executable.blocks)
        program.free.append(frame)
    add_buffers(executable.compiled.plan, inputs, made)
    return Outputs(made[n] for n in sorted(made)), [program for program, _ in passed]


def _span(executable: Executable) -> AbstractContextManager[object]:
    if not executable.placed:
        return nullcontext()
    device = list(executable.placed.values())[-1]
    return trace.span("execute", executable.compiled.plan.facts.name, device=str(device))


def _settle(
    executable: Executable, inputs: Sequence[Tensor], passed: Sequence[tuple[Program, Frame]]
) -> None:
    """Look at what was copied from files, tell the messages of kernels, and let the memory of
    ``inputs`` wait for them."""
    for x in inputs:
        require_read(x.host_span[0])
    faults = [found for _, frame in passed for found in frame.fault.values()]
    if any(found.writes_messages for found in faults):  # a run tells its own messages
        for device in executable.accelerators:
            device.context.call(device.default_stream.queue.synchronize)
        for found in faults:
            found.tell()
    for x in inputs:
        x.note_use(x.stream)


def _frame(
    program: Program, before: Frame | None, inputs: Sequence[Tensor], made: dict[int, Tensor]
) -> Frame:
    """Memory for one run. Where a device is short of it, frames that programs keep for their next
    runs are given back first.

    Raises:
        DeviceError: ML403, that is not enough.
    """
    PROGRAMS.add(program)
    try:
        return _entered(program, before, inputs, made)
    except DeviceError as error:
        if error.code != "ML403":
            raise
    for other in list(PROGRAMS):
        other.free.clear()
    return _entered(program, before, inputs, made)


def _entered(
    program: Program, before: Frame | None, inputs: Sequence[Tensor], made: dict[int, Tensor]
) -> Frame:
    frame = program.frame()
    try:
        program.place(frame, before, inputs, made)
    except BaseException:
        frame.give_back(program.executable.blocks)
        raise
    return frame


__all__ = ["execute"]
