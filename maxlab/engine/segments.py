"""The segments of a program: steps that follow each other on one device, copies between devices,
and steps that say where to go on.

Kernels of a segment are given to the device one behind the other, and nothing in between waits for
it: the host goes on as soon as the last one is in the queue. Only a transfer to the host waits,
because the host reads what arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from maxlab.compiler.plan import GpuLaunch, Launch, LibraryCall, Step
from maxlab.driver import Accelerator, Device
from maxlab.driver.backend import Context, Function, Queue, Recording
from maxlab.driver.base import block_on
from maxlab.driver.device import DeviceStream
from maxlab.driver.moving import move_bytes
from maxlab.engine.exchanging import exchange, in_turn
from maxlab.engine.executor import Executor
from maxlab.engine.frame import Frame
from maxlab.engine.host_steps import HostSteps
from maxlab.engine.observing import Observers, Watching
from maxlab.toolchain.cffi_abi import ffi

RECORDINGS = 8
"""Recordings that a frame keeps, each for other addresses of inputs and outputs."""


class Segment:
    """A part of a program.

    Attributes:
        kernels: The kernels that it gives to a device.
    """

    kernels: Sequence[Kernel] = ()

    @property
    def devices(self) -> Sequence[Device]:
        """The devices that it gives work to; the host does its own at once."""
        return ()

    @property
    def numbers(self) -> list[int]:
        """The numbers of its steps."""
        raise NotImplementedError

    @property
    def launches(self) -> dict[int, Launch | GpuLaunch]:
        """How each of its steps is launched, by the number of the step."""
        return {number: Launch((), 1, 1, 0) for number in self.numbers}

    def run(self, frame: Frame, observers: Observers) -> int | None:
        """Do the work, or give it to a device. The number of the step to go on with, where that is
        not the next one."""
        raise NotImplementedError

    def pieces(self, ends: dict[int, int]) -> Iterator[tuple[Segment, Step]]:
        """The segment in pieces of one step, each with the last step in it; what is run in one go,
        the steps from a key of ``ends`` to its value, is one piece."""
        return iter(())


class HostSegment(Segment):
    """Steps of the host."""

    def __init__(self, executor: Executor, steps: HostSteps, at: int = 0, count: int = -1) -> None:
        self.executor = executor
        self.steps = steps
        self.at = at
        self.count = len(steps.walked) - at if count < 0 else count

    @property
    def numbers(self) -> list[int]:
        return [step.number for step in self.steps.walked[self.at : self.at + self.count]]

    @property
    def launches(self) -> dict[int, Launch | GpuLaunch]:
        steps = zip(self.steps.walked, self.steps.launches, strict=True)
        return {step.number: launch for step, launch in steps}

    def run(self, frame: Frame, observers: Observers) -> None:
        if self.count:
            self.executor.run(self.steps, self.at, self.count, frame, observers)

    def pieces(self, ends: dict[int, int]) -> Iterator[tuple[Segment, Step]]:
        walked, at = self.steps.walked, 0
        while at < len(walked):
            count = 1
            last = ends.get(walked[at].number, walked[at].number)
            while at + count < len(walked) and walked[at + count].number <= last:
                count += 1
            piece = HostSegment(self.executor, self.steps, at, count)
            yield piece, walked[at + count - 1]
            at += count


@dataclass(slots=True)
class Kernel:
    """A kernel of a segment: what to launch, and where each of its words comes from.

    ``pointers`` are slot numbers; ``tail`` are the sizes and ``items``. Behind them go ``spill``
    and ``fault``. With ``call``, the vendor's library does it instead.
    """

    step: Step
    function: Function
    launch: GpuLaunch
    pointers: list[int]
    tail: list[int]
    call: LibraryCall | None = None


@dataclass(slots=True)
class KernelSegment(Segment):
    """Kernels of one accelerator. ``is_recordable`` says whether nothing else is in the program, so
    that the launches may be recorded and replayed."""

    device: Accelerator
    kernels: list[Kernel] = field(default_factory=list)
    is_recordable: bool = False

    @property
    def devices(self) -> Sequence[Device]:
        return (self.device,)

    @property
    def numbers(self) -> list[int]:
        return [kernel.step.number for kernel in self.kernels]

    @property
    def launches(self) -> dict[int, Launch | GpuLaunch]:
        return {kernel.step.number: kernel.launch for kernel in self.kernels}

    def run(self, frame: Frame, observers: Observers) -> None:
        context, queue = self.device.context, self.device.default_stream.queue

        def work() -> None:
            if self.is_recordable and not observers:
                recording = self._recording(frame, context)
                if recording is not None:
                    recording.launch(queue)
                    return
            self._launch(frame, context, queue, observers)

        context.call(work)

    def _launch(self, frame: Frame, context: Context, queue: Queue, observers: Observers) -> None:
        addresses, device = frame.addresses, self.device
        spill = frame.spill.get(device, 0)
        faults = frame.fault[device].addresses if device in frame.fault else {}
        for kernel in self.kernels:
            step, launch = kernel.step, kernel.launch
            words = [addresses[n] for n in kernel.pointers]
            words += kernel.tail
            words.append(frame.own.get(step.number, spill if launch.spill else 0))
            words.append(faults.get(step.number, 0))
            for observer in observers:
                observer.begin(step, context, queue, words)
            if kernel.call is not None:
                _run_library(context, queue, kernel.call, words)
            elif 0 not in launch.grid:
                context.launch(
                    queue, kernel.function, launch.grid, launch.block, launch.shared, words
                )
            for observer in observers:
                observer.end(step, context, queue)

    def _recording(self, frame: Frame, context: Context) -> Recording | None:
        """The recorded launches for the addresses of this call; made when these come again."""
        key = tuple(frame.addresses)
        known = frame.recordings.get(key)
        if known is None:
            if len(frame.recordings) >= RECORDINGS:
                del frame.recordings[next(iter(frame.recordings))]
            frame.recordings[key] = []
            return None
        if not known:
            known.append(context.record(lambda queue: self._launch(frame, context, queue, ())))
        return known[0]

    def pieces(self, ends: dict[int, int]) -> Iterator[tuple[Segment, Step]]:
        for kernel in self.kernels:
            yield KernelSegment(self.device, [kernel]), kernel.step


@dataclass(slots=True)
class TransferSegment(Segment):
    """One copy between devices, or between parts of one: slots, and bytes.

    ``behind`` are the devices that have come to this place in the plan when the copy has ended.
    """

    step: Step
    nbytes: int
    to: DeviceStream
    origin: DeviceStream
    behind: tuple[Device, ...]

    @property
    def numbers(self) -> list[int]:
        return [self.step.number]

    @property
    def devices(self) -> Sequence[Device]:
        return (self.to.device,)

    def run(self, frame: Frame, observers: Observers) -> None:
        target, source = (frame.addresses[n] for n in self.step.pointers)
        watching = Watching(self.step, observers)
        if move_bytes(self.to, target, self.origin, source, self.nbytes, watching):
            for device in self.behind:  # which the host may not wait for again
                if device in frame.fault:
                    frame.fault[device].check()

    def pieces(self, ends: dict[int, int]) -> Iterator[tuple[Segment, Step]]:
        yield self, self.step


@dataclass(slots=True)
class ControlSegment(Segment):
    """A step that says where to go on, of a program in which accelerators work.

    ``nbytes`` and ``stream`` are of what a step that settles brings home.
    """

    step: Step
    nbytes: int
    stream: DeviceStream

    @property
    def numbers(self) -> list[int]:
        return [self.step.number]

    def run(self, frame: Frame, observers: Observers) -> int:
        step = self.step
        further = step.jump
        if step.exchange is not None:
            further = 1
            if step.kind == "settle":
                self._settle(frame, observers)
            else:
                exchange(step, frame)
        if step.kind == "branch":  # the flag is the host's: its maker has been waited for
            flag = ffi.cast("unsigned char *", frame.addresses[step.pointers[0]])
            further = 1 if flag[0] else step.jump
        return step.number + further

    def _settle(self, frame: Frame, observers: Observers) -> None:
        """Bring what a loop has carried home, and let its slots have their own memory again."""
        step = self.step
        assert step.exchange is not None
        living = step.pointers[: len(step.pointers) // 2]
        homes = frame.homes[step.number]
        copies = in_turn({homes[n]: frame.addresses[n] for n in living})
        if copies and self.nbytes:
            self.stream.give(lambda: self._copy(copies), Watching(step, observers))
        for slot, _ in step.exchange.moves:
            frame.addresses[slot] = homes[slot]

    def _copy(self, copies: Sequence[tuple[int | None, int | None]]) -> None:
        is_needed = any(target is None for target, _ in copies)
        spare = block_on(self.stream, self.nbytes) if is_needed else None
        address = spare.address if spare is not None else 0
        for target, source in copies:
            to, at = (address if a is None else a for a in (target, source))
            self.stream.copy_bytes(to, at, self.nbytes)


def _run_library(context: Context, queue: Queue, call: LibraryCall, words: Sequence[int]) -> None:
    blas = context.blas()
    assert blas is not None, "it was there when the sizes were bound"
    c, a, b = (words[p] + o for p, o in zip(call.pointers, call.offsets, strict=True))
    blas.run(queue, call.product, c, a, b)


Run = Callable[[Frame, Observers], object]
"""Runs a part of a program."""

__all__ = [
    "ControlSegment",
    "HostSegment",
    "Kernel",
    "KernelSegment",
    "Run",
    "Segment",
    "TransferSegment",
]
