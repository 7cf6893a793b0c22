"""A plan bound to sizes: `Program`. Its memory is laid out, its work cut into segments, and each of
them ready for its device.

A plan for the host alone is one segment, which is one call of the C executor. A plan that binds
dims while it runs is in stages, each a program: behind a stage the numbers are read that become
sizes, and the next one is bound for them, or found.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from maxlab import trace
from maxlab.compiler.plan import GpuKernels, GpuLaunch, Launch, LibraryCall, Slot, Step
from maxlab.driver import Accelerator, Device, Tensor
from maxlab.driver.backend import Context
from maxlab.driver.device import DeviceStream
from maxlab.driver.tensor import tensor_on
from maxlab.engine.executable import Executable
from maxlab.engine.file_watch import LOST
from maxlab.engine.frame import Arena, Frame, Layout
from maxlab.engine.host_steps import CONTROL, HostSteps, refused_steps
from maxlab.engine.launching import device_launch, library_call
from maxlab.engine.layout import (
    add_buffers,
    input_slots,
    is_of_runtime,
    layout_arena,
    output_shape,
)
from maxlab.engine.observing import Observers
from maxlab.engine.renewing import when_measured
from maxlab.engine.segments import (
    ControlSegment,
    HostSegment,
    Kernel,
    KernelSegment,
    Run,
    Segment,
    TransferSegment,
)
from maxlab.engine.whole import Outputs
from maxlab.toolchain.interrupts import STOPPED

MAX_LATER = 16
"""Tuples of computed sizes for which a stage keeps the next one; the oldest goes first."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output that a program makes: its number, its slot, and what it is."""

    number: int
    slot: int
    dtype: Any
    shape: tuple[int, ...]
    nbytes: int
    stream: DeviceStream


class Program:
    """A stage of a plan for one tuple of sizes. Most plans have one stage.

    Attributes:
        executable: The code, weights and devices that it runs with.
        env: The size of every symbol that is known in it.
        stage: Which stage it is.
        steps: The steps of the stage.
        segments: Its work.
        arenas: The memory of the slots that it is the first to use, on each device.
        outputs: The outputs that it is the first to write; ``rows`` are the same, for the dispatch.
        inputs: The slot of each input; of those that no step reads, one behind all slots.
        later: The next stage, by the sizes that this one computes.
        free: Frames that no run uses.
        direct: The one call of the executor that does all of its work, on tensors of the host; None
            where there is more to do.
    """

    def __init__(self, executable: Executable, env: dict[str, int], stage: int = 0) -> None:
        compiled = executable.compiled
        plan = compiled.plan
        self.executable = executable
        self.env = env
        self.stage = stage
        self.steps = [plan.steps[n] for n in plan.stages[stage]]
        self.is_last = stage == len(plan.cuts)
        self.later: dict[tuple[int, ...], Program] = {}
        self.free: list[Frame] = []
        by_stage = executable.stage_slots
        mine = by_stage[stage]
        self.inherited = [s.number for slots in by_stage[:stage] for s in slots]
        self.inputs = input_slots(plan)
        self.outputs = self._outputs(mine)
        self.rows = [(one.slot, one.dtype, one.shape, one.nbytes) for one in self.outputs]
        self._refused = refused_steps(self.steps, env)
        self._walked = self._walked_here()
        self._index: dict[int, int] = {}  # the segment that begins with, or has, a step
        arenas = self._arenas()
        self.segments = self._cut(self._kept(arenas))
        self.arenas = [self._with_spill(arena) for arena in arenas]
        self.arenas = [arena for arena in self.arenas if arena.offsets or arena.spill]
        # Segments of one accelerator alone are handed to its owner together.
        used = {device for segment in self.segments for device in segment.devices}
        busy = [device for device in executable.accelerators if device in used]
        self.only = busy[0] if len(busy) == 1 else None
        first = self.segments[0]
        if isinstance(first, KernelSegment):
            first.is_recordable = len(self.segments) == 1
        self.direct: Any = None
        executor = executable.executor
        is_plain = not executable.placed and executable.handles is None and not plan.cuts
        if is_plain and isinstance(first, HostSegment):
            self.direct = executor.execute
        self.has_buffers = bool(plan.aliases)
        self._layout = self._frame_layout()

    # ------------------------------------------------------------ memory
    def _outputs(self, mine: Sequence[Slot]) -> list[Output]:
        facts = self.executable.compiled.plan.facts
        found = []
        for slot in sorted(mine, key=lambda slot: slot.index):
            if slot.kind == "output":
                output = facts.outputs[slot.index]
                shape, nbytes = output_shape(output, self.env)
                stream = self.executable.device_of(output.device).default_stream
                found.append(Output(slot.index, slot.number, output.dtype, shape, nbytes, stream))
        return found

    def _arenas(self) -> list[Arena]:
        compiled = self.executable.compiled
        uses = self.executable.slot_uses
        found = []
        for device, slots in self.executable.stage_arenas[self.stage].items():
            entries, nbytes = layout_arena(slots, uses, self.env, self.executable.layouts)
            is_borrowed = is_of_runtime(device) and bool(compiled.plan.cuts)
            offsets = {entry.slot: entry.offset for entry in entries}
            found.append(Arena(device, offsets, nbytes, 0, is_borrowed))
        return found

    def _with_spill(self, arena: Arena) -> Arena:
        """``arena`` with the memory behind it that kernels use while they run."""
        kernels = [
            kernel
            for segment in self.segments
            if isinstance(segment, KernelSegment) and segment.device is arena.device
            for kernel in segment.kernels
        ]
        spill = max((kernel.launch.spill for kernel in kernels), default=0)
        step = arena.device.alignment
        return replace(arena, nbytes=-(-arena.nbytes // step) * step, spill=spill)

    def _kept(self, arenas: Sequence[Arena]) -> set[int]:
        """The slots whose addresses a frame never changes."""
        kept = set(self.executable.prepared.addresses)
        for arena in arenas:
            if not arena.is_borrowed:
                kept.update(arena.offsets)
        for step in self.steps:
            if step.number in self._walked and step.exchange is not None:
                kept.difference_update(slot for slot, _ in step.exchange.moves)
        return kept

    def _frame_layout(self) -> Layout:
        executable, slots = self.executable, self.executable.compiled.plan.slots
        addresses = [executable.prepared.addresses.get(slot.number, 0) for slot in slots]
        own: dict[int, tuple[Accelerator, int]] = {}
        meeting: dict[Accelerator, tuple[int, list[int]]] = {}
        checked: dict[Accelerator, list[Step]] = {}
        for segment in self.segments:
            if isinstance(segment, KernelSegment):
                for kernel in segment.kernels:
                    nbytes, number = kernel.launch.own, kernel.step.number
                    if kernel.launch.meets:
                        most, numbers = meeting.get(segment.device, (0, []))
                        meeting[segment.device] = max(most, nbytes), [*numbers, number]
                    elif nbytes:
                        own[number] = segment.device, nbytes
        for step in self.steps:
            if step.gpu is not None and step.gpu.printed().reports:
                checked.setdefault(executable.devices[step.device], []).append(step)
        return Layout(
            executable.compiled, executable.runtime, [*addresses, 0], self.arenas, own, meeting,
            checked,
        )  # fmt: skip

    def new_frame(self) -> Frame:
        """A frame of its own; `free` has those that were used before."""
        frame = Frame(self._layout)
        if self.direct is not None:
            (segment,) = self.segments
            assert isinstance(segment, HostSegment)
            frame.call = self.executable.executor.prepared(segment.steps, frame)
        return frame

    def frame(self) -> Frame:
        """A frame that nobody uses."""
        try:
            return self.free.pop()
        except IndexError:
            return self.new_frame()

    def place(
        self,
        frame: Frame,
        before: Frame | None,
        inputs: Sequence[Tensor],
        made: dict[int, Tensor],
    ) -> None:
        """Write down in ``frame`` where what it does not own is: inputs, what stages ``before``
        have made, and outputs, which are added to ``made`` by their numbers.

        Raises:
            ExecutionError: ML654, the host has not enough memory.
            DeviceError: ML403, a device has not enough memory.
        """
        addresses = frame.addresses
        if before is not None:
            for number in self.inherited:
                addresses[number] = before.addresses[number]
        for x, slot in zip(inputs, self.inputs, strict=True):
            addresses[slot] = x.address
        frame.borrow(self.executable.blocks)
        for one in self.outputs:
            x = made[one.number] = tensor_on(one.stream, one.dtype, one.shape, one.nbytes)
            addresses[one.slot] = x.address

    def with_buffers(self, inputs: Sequence[Tensor], made: Sequence[Tensor]) -> Outputs:
        """All outputs: those that it ``made``, and those that are buffers."""
        found = {one.number: x for one, x in zip(self.outputs, made, strict=True)}
        add_buffers(self.executable.compiled.plan, inputs, found)
        return Outputs(found[n] for n in sorted(found))

    def settle(self, code: int, frame: Frame, memory: Sequence[int]) -> None:
        """As `Executor.settle`, for the call that does all of its work. The frame of a run that was
        ended is not kept: a user who ends a run wants its memory back."""
        (segment,) = self.segments
        assert isinstance(segment, HostSegment)
        executor = self.executable.executor
        code = executor.finished(code, frame.call)
        try:
            executor.settle(code, segment.steps, frame, memory)
        except BaseException:
            if code & ~LOST != STOPPED:
                self.free.append(frame)
            raise

    # ------------------------------------------------------------ segments
    def _cut(self, kept: set[int]) -> list[Segment]:
        executable, env = self.executable, self.env
        compiled = executable.compiled
        slots, executor = compiled.plan.slots, executable.executor
        segments: list[Segment] = []
        host: list[Step] = []
        behind: dict[Device, dict[Device, None]] = {}
        targets = {n + compiled.plan.steps[n].jump for n in self._walked}
        targets |= {n + 1 for n in self._walked}

        def end_host(is_needed: bool = False) -> None:
            if host or is_needed:
                made = HostSteps(
                    list(host),
                    compiled,
                    executable.formulas,
                    env,
                    executable.threads,
                    executable.runtime,
                    executor.builtins,
                    kept,
                    self._refused,
                )
                segments.append(HostSegment(executor, made))
                host.clear()

        for step in self.steps:
            lands = step.number in targets
            if lands:
                end_host()
            self._index[step.number] = len(segments)
            if step.number in self._walked:
                end_host()
                self._index[step.number] = len(segments)
                first = slots[step.pointers[0]] if step.kind == "settle" else None
                place = executable.device_of(first.device if first is not None else step.device)
                nbytes = first.nbytes.evaluate(env) if first is not None else 0
                segments.append(ControlSegment(step, nbytes, place.default_stream))
            elif step.number in self._refused and (step.gpu is not None or step.kind == "transfer"):
                pass
            elif step.kind == "transfer":
                end_host()
                target, source = step.pointers
                to = executable.device_of(step.device)
                origin = executable.device_of(slots[source].device)
                known = behind.setdefault(to, {})
                known |= {origin: None} | behind.get(origin, {})
                nbytes = slots[target].nbytes.evaluate(env)
                streams = to.default_stream, origin.default_stream
                segments.append(TransferSegment(step, nbytes, *streams, tuple(known)))
            elif step.gpu is None:
                host.append(step)
            else:
                end_host()
                device = executable.devices[step.device]
                last = segments[-1] if segments else None
                if not isinstance(last, KernelSegment) or lands or last.device is not device:
                    last = KernelSegment(device)
                    segments.append(last)
                last.kernels.append(self._kernel(step, step.gpu, device))
        end_host(is_needed=not segments)
        return segments

    def _kernel(self, step: Step, gpu: GpuKernels, device: Accelerator) -> Kernel:
        env = self.env
        launch = device_launch(gpu.launch, env, device.context.properties)
        sizes = [env[name] for name in gpu.printed(launch.variant).symbols]
        return Kernel(
            step,
            self.executable.functions[step.number, launch.variant],
            launch,
            step.pointers,
            [*sizes, launch.items],
            _library_call(gpu, env, device.context),
        )

    def _walked_here(self) -> set[int]:
        """The numbers of the steps that say where to go on, of programs in which accelerators work;
        the others are walked by the executor."""
        plan = self.executable.compiled.plan
        found: set[int] = set()
        for program in plan.programs:
            steps = [plan.steps[n] for n in program]
            if any(step.gpu is not None or step.kind == "transfer" for step in steps):
                found.update(s.number for s in steps if s.kind in CONTROL or s.kind == "settle")
        return found

    @property
    def launches(self) -> dict[int, Launch | GpuLaunch]:
        """How each step is launched, by its number; those that cannot run are missing."""
        return {n: launch for one in self.segments for n, launch in one.launches.items()}

    # ------------------------------------------------------------ running
    def walk(self, frame: Frame, observers: Observers, at: int, end: int) -> None:
        """Run the segments from ``at`` to ``end``, which nothing in between jumps out of."""
        while at < end:
            step = self.segments[at].run(frame, observers)
            at = at + 1 if step is None else self._index.get(step, len(self.segments))

    def sizes(self, frame: Frame) -> tuple[int, ...]:
        """The numbers that it computed for sizes of the next stage; devices are waited for.

        Raises:
            ExecutionError: ML652, an index was out of range where they are computed.
        """
        sizes = []
        for step in self.steps:
            if step.binds is not None:
                device = self.executable.device_of(step.device)
                found = device.default_stream.bytes_at(frame.addresses[step.binds.slot], 8)
                if device in frame.fault:
                    frame.fault[device].check()
                sizes.append(int(found.view(np.int64)[0]))
        return tuple(sizes)

    def next(self, sizes: tuple[int, ...]) -> Program:
        """The stage behind this one, which computed ``sizes``.

        Raises:
            InputError: ML603, a condition that an op states.
            ExecutionError: ML726, a dim has another size already; ML727, a size is negative.
        """
        found = self.later.get(sizes)
        if found is not None:
            return found
        with self.executable.lock:
            found = self.later.get(sizes)
            if found is None:
                env = self.executable.rules.bind(self.env, self.stage, sizes)
                found = bound(self.executable, env, self.stage + 1)
                kept = dict(list(self.later.items())[1 - MAX_LATER :])
                self.later = {**kept, sizes: found}  # other threads may look at the old one
        self._renew_later(sizes, found)
        return found

    def _renew_later(self, sizes: tuple[int, ...], found: Program) -> None:
        """Bind the stage ``found`` behind this one anew when its variants are measured."""
        mine, old = weakref.ref(self), weakref.ref(found)

        def renew() -> None:
            program, later = mine(), old()
            if program is None or later is None:
                return
            with program.executable.lock:
                if program.later.get(sizes) is later:
                    made = bound(program.executable, later.env, later.stage)
                    program.later = {**program.later, sizes: made}

        when_measured(found.launches, renew)

    def pieces(self) -> Iterator[tuple[Run, Step]]:
        """Runs of the program a step at a time, each with the step that it ends with. An op with
        regions is run in one go, with all of its turns.
        """
        ends = {steps.start: steps[-1] for steps in self.executable.compiled.plan.programs}
        steps = self.executable.compiled.plan.steps
        at = 0
        while at < len(self.segments):
            segment = self.segments[at]
            numbers = segment.numbers
            last = ends.get(numbers[0], -1) if numbers else -1
            if numbers and last > numbers[-1]:  # accelerators work in it
                end = self._index.get(last + 1, len(self.segments))
                yield partial(self.walk, at=at, end=end), steps[last]
                at = end
                continue
            for piece, step in segment.pieces(ends):
                yield piece.run, step
            at += 1


def run(program: Program, frame: Frame, observers: Observers = ()) -> None:
    """Give all work of ``program`` to its devices, the host's own done on the way.

    Args:
        frame: The memory of the run.
        observers: What watches it.

    Raises:
        ExecutionError: A step of the host, or one that the host waited for, found something wrong.
    """
    count = len(program.segments)
    if program.only is not None:
        program.only.context.call(lambda: program.walk(frame, observers, 0, count))
    else:
        program.walk(frame, observers, 0, count)


def bound(executable: Executable, env: dict[str, int], stage: int) -> Program:
    """A stage of the plan for the sizes ``env``; the lock of ``executable`` is held."""
    compiled = executable.compiled
    steps = [compiled.plan.steps[n] for n in compiled.plan.stages[stage]]
    refused = refused_steps(steps, env)
    with trace.span("bind", compiled.plan.facts.name, dims=dict(env)):
        executable.load(
            (step.number, _variant(executable, step, step.gpu, env))
            for step in steps
            if step.gpu is not None and step.number not in refused
        )
        start = time.perf_counter_ns()
        made = Program(executable, env, stage)
    compiled.timings_ns["bind"] = time.perf_counter_ns() - start
    for segment in made.segments:
        for kernel in segment.kernels:
            executable.chosen[kernel.step.number] = kernel.launch.variant
    return made


def _variant(executable: Executable, step: Step, gpu: GpuKernels, env: Mapping[str, int]) -> int:
    properties = executable.devices[step.device].context.properties
    return device_launch(gpu.launch, env, properties).variant


def _library_call(
    kernels: GpuKernels, env: Mapping[str, int], context: Context
) -> LibraryCall | None:
    """The call of the vendor's library for these sizes, if it is there and can do it."""
    call = library_call(kernels.library, env) if kernels.library is not None else None
    blas = context.blas() if call is not None else None
    if call is None or blas is None:
        return None
    product = call.product
    return call if context.call(lambda: blas.supports(product)) else None


__all__ = ["MAX_LATER", "Output", "Program", "bound", "run"]
