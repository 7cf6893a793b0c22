"""A plan with steps on GPUs, bound to sizes: memory on each device, and the work cut into segments.

A segment is a run of steps of one device, or one transfer. Kernels of a segment are given to the
device one behind the other, and nothing in between waits for it: the host goes on as soon as the
last one is in the queue. Only a transfer to the host waits, because the host reads what arrives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from maxlab.compiler import Compiled
from maxlab.compiler.plan import GpuKernels, GpuLaunch, Launch, LibraryCall, Slot, Step
from maxlab.driver import CPU, Accelerator, Device, Tensor
from maxlab.driver.backend import Context, Function, Queue, Recording
from maxlab.driver.device import DeviceStream
from maxlab.driver.gpu_memory import DeviceBlock, PinnedDeviceBlock
from maxlab.driver.tensor import tensor_on
from maxlab.engine.binding import (
    CONTROL,
    HostSteps,
    allocate,
    layout_arena,
    out_of_range,
    output_shape,
    refused_steps,
    room_on,
    slot_uses,
    stage_slots,
)
from maxlab.engine.exchanging import exchange, settle
from maxlab.engine.kernel_log import (
    ROOM,
    WORDS,
    assertion_error,
    nan_error,
    place_of,
    tell,
)
from maxlab.engine.launching import device_launch, library_call
from maxlab.engine.observing import Observer
from maxlab.ir import DeviceRef
from maxlab.toolchain.cffi_abi import ffi

FAULT_BYTES = 32
LOG_BYTES = WORDS * 8
RECORDINGS = 8
"""Recordings that a frame keeps, each for other addresses of inputs and outputs."""

Devices = Mapping[DeviceRef, Accelerator]
Hosts = Mapping[DeviceRef, CPU]
"""CPUs with memory of their own, by their names; every other CPU that a graph names is the host."""


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
class Segment:
    """Steps that follow each other on one device; ``device`` is None for the host. Or one
    ``transfer``, or one step that says where to go on: ``control``."""

    device: Accelerator | None
    first: int
    kernels: list[Kernel] = field(default_factory=list)
    host: HostSteps | None = None
    transfer: Transfer | None = None
    control: Step | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """One copy between devices: slots, and bytes.

    ``behind`` are the devices that have come to this place in the plan when the copy has ended.
    """

    step: Step
    target: int
    source: int
    nbytes: int
    origin: Accelerator | None
    behind: tuple[Accelerator, ...]


class DeviceFrame:
    """The memory that one execution uses, on all devices.

    ``addresses`` has the place of each slot; those of inputs and outputs are set for every call.
    ``homes`` are those of slots that have others' memory in a loop, by the step that settles them.
    """

    def __init__(self, binding: DeviceBinding) -> None:
        plan = binding.compiled.plan
        self.addresses = [0] * len(plan.slots)
        self.keep: list[object] = []
        self.homes: dict[int, dict[int, int]] = {}
        self.spill: dict[Accelerator, int] = {}
        self.fault: dict[Accelerator, Faults] = {}
        self.recordings: dict[tuple[int, ...], list[Recording | None]] = {}
        for number, address in binding.fixed.items():
            self.addresses[number] = address
        for device, (offsets, nbytes, spill) in binding.arenas.items():
            if not isinstance(device, Accelerator):
                memory, base = room_on(device, binding.runtime, nbytes)
                self.keep.append(memory)
            else:
                block = DeviceBlock(device.pool, device.default_stream, nbytes + spill)
                base = block.address
                self.keep.append(block)
                self.spill[device] = base + nbytes
            for number, offset in offsets.items():
                self.addresses[number] = base + offset
        self.own: dict[int, int] = {}
        for segment in binding.segments:
            for kernel in segment.kernels:
                if kernel.launch.own and segment.device is not None:
                    self.own[kernel.step.number] = self._zeros(segment.device, kernel.launch.own)
        for device, steps in binding.checked.items():
            self.fault[device] = Faults(device, steps, binding.compiled)

    def _zeros(self, device: Accelerator, nbytes: int) -> int:
        """Memory of this frame alone, which kernels leave as they find it: zero where it counts."""
        block = DeviceBlock(device.pool, device.default_stream, nbytes)
        self.keep.append(block)
        context, queue = device.context, device.default_stream.queue
        context.call(lambda: context.fill(queue, block.address, 0, nbytes))
        return block.address


class Faults:
    """Where kernels of one frame and device say what they found wrong, and write messages.

    It is pinned host memory: a kernel writes to it only when something is wrong, and the host can
    look whenever the device has come by, without another copy.
    """

    def __init__(self, device: Accelerator, steps: list[Step], compiled: Compiled) -> None:
        self.steps = steps
        self._stream = device.default_stream
        self._compiled = compiled
        sizes = [FAULT_BYTES + LOG_BYTES * step_logs(step) for step in steps]
        starts = [0, *itertools.accumulate(sizes)]
        self._block = PinnedDeviceBlock(device.context, starts[-1])
        self.addresses = {
            step.number: self._block.address + start
            for step, start in zip(steps, starts, strict=False)
        }
        buffer = ffi.buffer(ffi.cast("char *", self._block.address), starts[-1])
        self._words = np.frombuffer(buffer, np.int64)
        self._words[:] = 0
        self._starts = [start // 8 for start in starts[:-1]]
        self._logs = {
            n: self._words[first + FAULT_BYTES // 8 : first + sizes[n] // 8]
            for n, first in enumerate(self._starts)
            if step_logs(steps[n])
        }
        for log in self._logs.values():
            log[1] = ROOM

    def tell(self) -> None:
        """Tell the messages of kernels that have ended."""
        for n, log in self._logs.items():
            tell(log, self.steps[n], self._compiled)

    @property
    def writes_messages(self) -> bool:
        """Whether any of its kernels does."""
        return bool(self._logs)

    def take(self) -> tuple[Step, list[int]] | None:
        """The first step that found something wrong, and its words: what kind of thing, which
        check or note, an index or item, and a size. None when all was well. It is forgotten then.
        """
        words, found = self._words, None
        for step, first in zip(self.steps, self._starts, strict=True):
            if words[first] and found is None:
                found = step, [int(word) for word in words[first : first + 4]]
            words[first : first + 4] = 0
        return found

    def check(self) -> None:
        """Raise what kernels that have ended found.

        Raises:
            ExecutionError: ML652, an index was out of range; ML791, an assertion does not hold;
                ML792, a result is NaN.
        """
        if not any(self._words[first] for first in self._starts):
            return
        context, queue = self._stream.context, self._stream.queue
        context.call(queue.synchronize)  # a later kernel may be writing down its own
        found = self.take()
        if found is None:  # another thread has told
            return
        step, (kind, number, index, size) = found
        assert step.printed is not None
        if kind == 2:
            raise assertion_error(number, index, place_of(self._compiled.plan, step))
        if kind == 3:
            raise nan_error(self._compiled.plan, step, number, index)
        node = next(iter(step.nodes_of(step.printed.checked[number])), "")
        raise out_of_range(self._compiled.plan, node, index, size)


def step_logs(step: Step) -> bool:
    """Whether a kernel of ``step`` writes messages."""
    return step.gpu is not None and step.gpu.printed().logs


class DeviceBinding:
    """A stage of a plan for one tuple of sizes, on the devices that it names. Most plans have one
    stage.

    ``later`` is the next stage, by the sizes that this one computes.
    """

    def __init__(
        self,
        compiled: Compiled,
        env: dict[str, int],
        addresses: Mapping[int, int],
        threads: int,
        runtime: Any,
        builtins: Mapping[str, int],
        devices: Devices,
        functions: Mapping[tuple[int, int], Function],
        stage: int = 0,
        hosts: Hosts | None = None,
    ) -> None:
        self.compiled = compiled
        self.stage = stage
        self.later: dict[tuple[int, ...], DeviceBinding] = {}
        self.env = env
        self.runtime = runtime
        self.threads = threads
        self.devices = devices
        self.fixed = dict(addresses)
        plan = compiled.plan
        self.steps = [plan.steps[n] for n in plan.stages[stage]]
        self.is_last = stage == len(plan.cuts)
        self.launches: list[GpuLaunch | Launch] = []
        self._index: dict[int, int] = {}  # the segment that begins with, or has, a step
        self.segments = self._cut(functions, builtins)
        self.checked: dict[Accelerator, list[Step]] = {}
        for step in self.steps:
            if step.gpu is not None and step.gpu.printed().reports:
                self.checked.setdefault(devices[step.device], []).append(step)
        uses = slot_uses(compiled)
        by_stage = stage_slots(compiled)
        mine = by_stage[stage]
        self.inherited = [s.number for slots in by_stage[:stage] for s in slots]
        self.arenas: dict[Device, tuple[dict[int, int], int, int]] = {}
        homes: Mapping[DeviceRef, Device] = {**devices, **(hosts or {})}
        host = CPU()
        by_device: dict[Device, list[Slot]] = {}  # several names may mean the host
        for slot in plan.slots:
            by_device.setdefault(homes.get(slot.device, host), [])
        for slot in mine:
            by_device[homes.get(slot.device, host)].append(slot)
        for device, here in by_device.items():
            entries, nbytes = layout_arena(here, uses, env)
            spill = max(
                (k.launch.spill for s in self.segments if s.device is device for k in s.kernels),
                default=0,
            )
            offsets = {entry.slot: entry.offset for entry in entries}
            if offsets or spill:
                self.arenas[device] = (offsets, -(-nbytes // 256) * 256, spill)
        self.arena_nbytes = sum(n + s for _, n, s in self.arenas.values())
        self.outputs: list[tuple[Any, tuple[int, ...], int, DeviceStream]] = []
        self.output_numbers = sorted(slot.index for slot in mine if slot.kind == "output")
        for number in self.output_numbers:
            output = plan.facts.outputs[number]
            shape, total = output_shape(output, env)
            stream = homes.get(output.device, host).default_stream
            self.outputs.append((output.dtype, shape, total, stream))
        # Segments of one GPU alone are handed to its owner together.
        gpus = {s.device for s in self.segments if s.device is not None}
        self.only = next(iter(gpus)) if len(gpus) == 1 else None
        # What runs on one device without the host can be recorded and replayed.
        self.recordable = len(self.segments) == 1 and self.segments[0].kernels != []
        self.free: list[DeviceFrame] = []
        self.held: object = None  # data that only this binding needs any more

    def _cut(
        self, functions: Mapping[tuple[int, int], Function], builtins: Mapping[str, int]
    ) -> list[Segment]:
        compiled, env, devices = self.compiled, self.env, self.devices
        slots = compiled.plan.slots
        segments: list[Segment] = []
        host: list[Step] = []
        behind: dict[Accelerator | None, dict[Accelerator, None]] = {}

        refused = refused_steps(self.steps, env)
        walked = self._walked_here()
        targets = {n + compiled.plan.steps[n].jump for n in walked} | {n + 1 for n in walked}

        def end_host() -> None:
            if host:
                made = HostSteps(host, compiled, env, self.threads, self.runtime, builtins, refused)
                segments.append(Segment(None, host[0].number, host=made))
                self.launches.extend(made.launches)
                host.clear()

        for step in self.steps:
            lands = step.number in targets
            if lands:
                end_host()
            self._index[step.number] = len(segments)
            if step.number in walked:
                end_host()
                self._index[step.number] = len(segments)
                segments.append(Segment(None, step.number, control=step))
                self.launches.append(Launch((), 1, 1, 0))
                continue
            if step.number in refused and (step.gpu is not None or step.kind == "transfer"):
                self.launches.append(Launch((), 0, 1, 0))
                continue
            if step.kind == "transfer":
                end_host()
                target, source = step.pointers
                origin = slots[source].device
                place = devices[step.device] if step.device.is_gpu() else None
                start = devices[origin] if origin.is_gpu() else None
                known = behind.setdefault(place, {})
                if start is not None:
                    known |= {start: None} | behind.get(start, {})
                copy = Transfer(
                    step, target, source, slots[target].nbytes.evaluate(env), start, tuple(known)
                )
                segments.append(Segment(place, step.number, transfer=copy))
                self.launches.append(Launch((), 1, 1, 0))
                continue
            if step.gpu is None:
                host.append(step)
                continue
            end_host()
            device = devices[step.device]
            last = segments[-1] if segments else None
            if last is None or lands or last.device is not device or last.transfer is not None:
                last = Segment(device, step.number)
                segments.append(last)
            launch = device_launch(step.gpu.launch, env, device.context.properties)
            self.launches.append(launch)
            sizes = [env[name] for name in step.gpu.printed(launch.variant).symbols]
            kernel = Kernel(
                step,
                functions[step.number, launch.variant],
                launch,
                step.pointers,
                [*sizes, launch.items],
                _library_call(step.gpu, env, device.context),
            )
            last.kernels.append(kernel)
        end_host()
        return segments

    def _walked_here(self) -> set[int]:
        """The numbers of the steps that say where to go on, of programs in which devices work; the
        others are walked by the executor."""
        plan = self.compiled.plan
        found: set[int] = set()
        for program in plan.programs:
            steps = [plan.steps[n] for n in program]
            if any(step.gpu is not None or step.kind == "transfer" for step in steps):
                found.update(s.number for s in steps if s.kind in CONTROL or s.kind == "settle")
        return found

    def frame(self) -> DeviceFrame:
        """A frame that nobody uses."""
        try:
            return self.free.pop()
        except IndexError:
            return DeviceFrame(self)

    def new_outputs(self) -> list[Tensor]:
        """Tensors for the outputs that it makes, on their devices."""
        return [
            tensor_on(stream, dtype, shape, nbytes) for dtype, shape, nbytes, stream in self.outputs
        ]

    def place(
        self,
        frame: DeviceFrame,
        before: DeviceFrame | None,
        inputs: Sequence[Tensor],
        outputs: Mapping[int, Tensor],
    ) -> None:
        """Write down in ``frame`` where what it does not own is: inputs, outputs, and what the
        stages ``before`` have made.
        """
        addresses = frame.addresses
        if before is not None:
            for number in self.inherited:
                addresses[number] = before.addresses[number]
        for slot in self.compiled.plan.slots:
            if slot.kind == "input":
                addresses[slot.number] = inputs[slot.index].address
            elif slot.kind == "output" and slot.index in outputs:
                addresses[slot.number] = outputs[slot.index].address

    def sizes(self, frame: DeviceFrame) -> tuple[int, ...]:
        """The numbers that it computed for sizes of the next stage; devices are waited for.

        Raises:
            ExecutionError: ML652, an index was out of range where they are computed.
        """
        found = np.zeros(1, np.int64)
        sizes = []
        for step in self.steps:
            if step.binds is None:
                continue
            address = frame.addresses[step.binds.slot]
            if not step.device.is_gpu():
                found[:] = np.frombuffer(ffi.buffer(ffi.cast("char *", address), 8), np.int64)
            else:
                device = self.devices[step.device]
                device.context.call(partial(_download, device, found, address))
                if device in frame.fault:
                    frame.fault[device].check()
            sizes.append(int(found[0]))
        return tuple(sizes)

    # ------------------------------------------------------------ running
    def run(self, frame: DeviceFrame, host: HostRunner, observer: Observer | None) -> None:
        """Give all work to the devices, the host's own done on the way."""
        if self.only is not None:
            self.only.context.call(lambda: self._all(frame, host, observer))
        else:
            self._all(frame, host, observer)

    def _all(self, frame: DeviceFrame, host: HostRunner, observer: Observer | None) -> None:
        self.run_part(frame, host, observer, 0, len(self.segments))

    def run_part(
        self, frame: DeviceFrame, host: HostRunner, observer: Observer | None, at: int, end: int
    ) -> None:
        """Run the segments from ``at`` to ``end``, which nothing in between jumps out of."""
        while at < end:
            segment = self.segments[at]
            at += 1
            if segment.control is not None:
                at = self._gone_on(segment.control, frame, observer)
            elif segment.transfer is not None:
                self._transfer(segment.device, segment.transfer, frame, observer)
            elif segment.device is None:
                assert segment.host is not None
                host(segment.host, frame.addresses, observer)
            else:
                self._launch_segment(segment, segment.device, frame, observer)

    def _gone_on(self, step: Step, frame: DeviceFrame, observer: Observer | None) -> int:
        """The number of the segment at which a run goes on behind ``step``."""
        further = step.jump
        if step.exchange is not None:
            further = 1
            if step.kind == "settle":
                settle(step, self, frame, observer)
            else:
                exchange(step, frame)
        if step.kind == "branch":  # the flag is the host's: whoever made it has been waited for
            flag = ffi.cast("unsigned char *", frame.addresses[step.pointers[0]])
            further = 1 if flag[0] else step.jump
        return self.segment_at(step.number + further)

    def segment_at(self, number: int) -> int:
        """The number of the segment that begins with the step ``number``."""
        return self._index.get(number, len(self.segments))

    def _launch_segment(
        self,
        segment: Segment,
        device: Accelerator,
        frame: DeviceFrame,
        observer: Observer | None,
    ) -> None:
        context = device.context
        queue = device.default_stream.queue
        addresses = frame.addresses
        spill = frame.spill.get(device, 0)
        faults = frame.fault[device].addresses if device in frame.fault else {}

        def launch_on(queue: Queue) -> None:
            for kernel in segment.kernels:
                launch = kernel.launch
                words = [addresses[n] for n in kernel.pointers]
                words += kernel.tail
                words.append(frame.own.get(kernel.step.number, spill if launch.spill else 0))
                words.append(faults.get(kernel.step.number, 0))
                if observer is not None:
                    observer.begin(kernel.step, context, queue, words)
                if kernel.call is not None:
                    _run_library(context, queue, kernel.call, words)
                elif 0 not in launch.grid:
                    context.launch(
                        queue, kernel.function, launch.grid, launch.block, launch.shared, words
                    )
                if observer is not None:
                    observer.end(kernel.step, context, queue)

        def work() -> None:
            if self.recordable and observer is None:
                recording = self._recording(frame, context, launch_on)
                if recording is not None:
                    recording.launch(queue)
                    return
            launch_on(queue)

        context.call(work)

    def _recording(
        self, frame: DeviceFrame, context: Context, work: Callable[[Queue], None]
    ) -> Recording | None:
        """The recorded launches for the addresses of this call; made when these come again."""
        key = tuple(frame.addresses)
        known = frame.recordings.get(key)
        if known is None:
            if len(frame.recordings) >= RECORDINGS:
                del frame.recordings[next(iter(frame.recordings))]
            frame.recordings[key] = []
            return None
        if not known:
            known.append(context.record(work))
        return known[0]

    def _transfer(
        self,
        to: Accelerator | None,
        copy: Transfer,
        frame: DeviceFrame,
        observer: Observer | None,
    ) -> None:
        target, source = frame.addresses[copy.target], frame.addresses[copy.source]
        start, nbytes = copy.origin, copy.nbytes
        place = to or start
        assert place is not None, "a transfer has a device"
        context, queue = place.context, place.default_stream.queue
        between = to is not None and start is not None and to is not start
        if between and to is not None and start is not None:
            to.default_stream.follow(start.default_stream)
            if not to.can_access(start):
                # Of this call alone: other threads may run the same binding.
                staged = self._staged(start, source, nbytes)
                source, start = int(self.runtime.ffi.cast("uintptr_t", staged)), None

        def work() -> None:
            if observer is not None:
                observer.begin(copy.step, context, queue, ())
            if not nbytes:
                pass
            elif to is None:
                context.download(queue, target, source, nbytes)
            elif start is None:
                context.upload(queue, target, source, nbytes)
            else:
                context.copy(queue, target, source, nbytes)
            if observer is not None:
                observer.end(copy.step, context, queue)

        context.call(work)
        if to is None:  # the host waited for what arrived, and may not wait again
            for device in copy.behind:
                if device in frame.fault:
                    frame.fault[device].check()
        if between and to is not None and copy.origin is not None:
            # What was read may be written again only when the copy is done.
            copy.origin.default_stream.follow(to.default_stream)

    def _staged(self, device: Accelerator, source: int, nbytes: int) -> Any:
        """A copy on the host of device memory that no other device can reach."""
        memory = allocate(self.runtime, nbytes)
        address = int(self.runtime.ffi.cast("uintptr_t", memory))
        context = device.context
        queue = device.default_stream.queue
        context.call(lambda: context.download(queue, address, source, nbytes))
        return memory


def _download(device: Accelerator, into: Any, address: int) -> None:
    queue = device.default_stream.queue
    device.context.download(queue, into.ctypes.data, address, into.nbytes)


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


def _run_library(context: Context, queue: Queue, call: LibraryCall, words: Sequence[int]) -> None:
    blas = context.blas()
    assert blas is not None, "it was there when the sizes were bound"
    c, a, b = (words[p] + o for p, o in zip(call.pointers, call.offsets, strict=True))
    blas.run(queue, call.product, c, a, b)


HostRunner = Callable[[HostSteps, list[int], "Observer | None"], None]
"""Walks host steps, given the address of each slot."""
