"""The memory of one execution: `Frame`."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Step
from maxlab.driver import Accelerator, Device
from maxlab.driver.backend import Recording
from maxlab.driver.base import block_on
from maxlab.engine.faults import Faults
from maxlab.engine.host_steps import HostSteps
from maxlab.engine.layout import allocate, room_on
from maxlab.engine.observing import HostTimes, Observers

BLOCKS = 4
"""Blocks of memory that a model keeps for the stages of its next runs."""


@dataclass(frozen=True, slots=True)
class Arena:
    """Memory on one device for intermediate values.

    Attributes:
        offsets: The place of each slot in it.
        nbytes: Its bytes.
        spill: Bytes behind it that kernels may use while they run.
        is_borrowed: Whether a frame has it for one run, because its size differs from run to run.
    """

    device: Device
    offsets: Mapping[int, int]
    nbytes: int
    spill: int
    is_borrowed: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a frame.

    Attributes:
        addresses: The address of each slot, 0 where it is not known before; behind them one more,
            for inputs that have no slot.
        arenas: The memory of intermediate values.
        own: The bytes that a step keeps for itself from run to run, by its number, and where.
        meeting: The same for steps that share them, one after the other: the bytes of each device,
            and the numbers of the steps.
        checked: By their device, the steps that say what they find wrong.
    """

    compiled: Compiled
    runtime: Any
    addresses: Sequence[int]
    arenas: Sequence[Arena]
    own: Mapping[int, tuple[Accelerator, int]]
    meeting: Mapping[Accelerator, tuple[int, Sequence[int]]]
    checked: Mapping[Accelerator, Sequence[Step]]


class Blocks:
    """Memory of the host for stages: their sizes differ from run to run, so all share blocks."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._free: list[tuple[int, Any]] = []
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> tuple[int, Any]:
        """A block of at least ``nbytes``, and how many it has.

        Raises:
            ExecutionError: ML654, there is not enough memory.
        """
        with self._lock:
            for n, (size, _) in enumerate(self._free):  # the smallest first
                if size >= nbytes:
                    return self._free.pop(n)
        size = max(nbytes + nbytes // 4, 64)  # the next run may need a little more
        return size, allocate(self._runtime, size)

    def give(self, blocks: Sequence[tuple[int, Any]]) -> None:
        """Keep ``blocks``, or the largest of those that there are."""
        with self._lock:
            self._free.extend(blocks)
            self._free.sort(key=lambda block: block[0])
            del self._free[: max(len(self._free) - BLOCKS, 0)]


class Frame:
    """The memory that one execution of a program uses, on all devices.

    Attributes:
        addresses: The address of each slot; those of inputs and outputs are set for every call.
        pointers: The same, as the executor takes it.
        info: Where the executor says what went wrong.
        call: What the executor is called with, for programs that are one call of it.
        calls: The same for parts of a program, by their steps.
        homes: By the number of a step that settles: the own addresses of the slots that it brings
            home.
        spill: The address of the memory that kernels of a device may use while they run.
        own: The address of the memory that a step keeps from run to run, by its number.
        fault: Where kernels of a device say what they found wrong.
        recordings: Launches that were recorded, by the addresses that they are for.
        borrowed: Blocks that it has for this run.
    """

    __slots__ = (
        "_keep",
        "_layout",
        "_tables",
        "_times",
        "addresses",
        "borrowed",
        "call",
        "calls",
        "fault",
        "homes",
        "info",
        "own",
        "pointers",
        "recordings",
        "spill",
    )

    def __init__(self, layout: Layout) -> None:
        ffi = layout.runtime.ffi
        self._layout = layout
        self._keep: list[object] = []
        self._tables: dict[HostSteps, tuple[Any, Any]] = {}
        self._times: dict[HostSteps, HostTimes] = {}
        self.addresses = array("Q", layout.addresses)
        self.pointers = ffi.from_buffer("void *[]", self.addresses)
        self.info = ffi.new("i64[6]")
        self.call: Any = None
        self.calls: dict[HostSteps, Any] = {}
        self.homes: dict[int, dict[int, int]] = {}
        self.spill: dict[Device, int] = {}
        self.own: dict[int, int] = {}
        self.fault: dict[Device, Faults] = {}
        self.recordings: dict[tuple[int, ...], list[Recording | None]] = {}
        self.borrowed: list[tuple[int, Any]] = []
        for arena in layout.arenas:
            if not arena.is_borrowed:
                memory, base = room_on(arena.device, layout.runtime, arena.nbytes + arena.spill)
                self._keep.append(memory)
                self._place(arena, base)
                self.spill[arena.device] = base + arena.nbytes
        for number, (device, nbytes) in layout.own.items():
            self.own[number] = self._zeros(device, nbytes)
        for device, (nbytes, numbers) in layout.meeting.items():
            self.own.update(dict.fromkeys(numbers, self._zeros(device, nbytes)))
        for device, steps in layout.checked.items():
            self.fault[device] = Faults(device, list(steps), layout.compiled)

    def _zeros(self, device: Accelerator, nbytes: int) -> int:
        """The address of memory that begins at zero and that the frame keeps."""
        block = block_on(device.default_stream, nbytes)
        device.default_stream.fill_bytes(block.address, 0, nbytes)
        self._keep.append(block)
        return block.address

    def borrow(self, blocks: Blocks) -> None:
        """Take the memory that it has for one run."""
        for arena in self._layout.arenas:
            if arena.is_borrowed:
                block = blocks.take(arena.nbytes)
                self.borrowed.append(block)
                self._place(arena, int(self._layout.runtime.ffi.cast("uintptr_t", block[1])))

    def give_back(self, blocks: Blocks) -> None:
        """Give back what `borrow` took."""
        given, self.borrowed = self.borrowed, []
        if given:
            blocks.give(given)

    def _place(self, arena: Arena, base: int) -> None:
        for number, offset in arena.offsets.items():
            self.addresses[number] = base + offset

    def table(self, host: HostSteps) -> Any:
        """The pointers of ``host``, as the executor takes them."""
        found = self._tables.get(host)
        if found is None:
            ffi = self._layout.runtime.ffi
            held = ffi.new("uintptr_t[]", [self.addresses[n] for n in host.pointers] or [0])
            found = self._tables[host] = held, ffi.cast("void **", held)
        return found[1]

    def times(self, host: HostSteps, threads: int, observers: Observers) -> HostTimes | None:
        """Where the times of ``host`` are written for ``observers``; None where there are none."""
        if not observers:
            return None
        found = self._times.get(host)
        if found is None:
            found = self._times[host] = HostTimes(host, threads)
        found.clear()
        return found


__all__ = ["Arena", "Blocks", "Frame", "Layout"]
