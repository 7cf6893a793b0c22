"""The simulator as a device: memory, queues and kernels of `backend.Context` on the CPU.

Work runs when it is given, so a queue is always done. Several simulated devices share the
machine's memory and can read each other's. The addresses they give out are the host's, and
nothing but simulated kernels and copies may touch them.
"""

from __future__ import annotations

import bisect
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from maxlab.config import config
from maxlab.driver.backend import (
    Counters,
    DeviceSource,
    Function,
    Loaded,
    Mark,
    Properties,
    Queue,
    Recording,
)
from maxlab.driver.device import system_memory
from maxlab.driver.sim.function import SimFunction
from maxlab.driver.sim.module import MAX_SHARED
from maxlab.errors import DeviceError
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.loader import libc
from maxlab.toolchain.simkernels import SimSource, compile_sim_kernels
from maxlab.trace import emit

T = TypeVar("T")
ARCHITECTURE = "sm_90"  # whose limits the simulator has
ALIGNMENT = 256
GUARD = 256
"""Bytes between blocks, in which a checked kernel that strays is caught."""


class SimMark:
    """The time at which the queue was there."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Returns at once: the mark has been reached."""

    def done(self) -> bool:
        """True."""
        return True

    def ms_since(self, earlier: Mark) -> float:
        """Milliseconds of this machine's clock."""
        assert isinstance(earlier, SimMark)
        return (self.ns - earlier.ns) / 1e6


class SimQueue:
    """An order that work is in because it runs when it is given."""

    __slots__ = ("_counters",)

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    @property
    def handle(self) -> int:
        """0: no other library can use it."""
        return 0

    def synchronize(self) -> None:
        """Counts the call, and returns: all work has ended."""
        self._counters.waits += 1

    def mark(self, *, timed: bool = False) -> SimMark:
        """A mark with the time of now."""
        return SimMark()

    def wait(self, mark: Mark) -> None:
        """Returns at once: the mark has been reached."""


class SimContext:
    """One simulated GPU."""

    def __init__(self, id: int, *, check: bool) -> None:
        self.id = id
        self.check = check
        self.counters = Counters()
        self.properties = Properties(
            name="maxlab simulator",
            architecture=ARCHITECTURE,
            multiprocessors=config().num_threads,
            shared_bytes=MAX_SHARED,
            simulated=True,
        )
        self.default_queue = SimQueue(self.counters)
        self._owner = threading.RLock()
        self._later: deque[Callable[[], object]] = deque()
        self._blocks: dict[int, tuple[Any, int]] = {}  # address -> (what malloc gave, bytes)
        self._order: list[int] = []  # the addresses, sorted
        self._freed: deque[tuple[int, int]] = deque(maxlen=256)  # the newest, for messages
        _CONTEXTS.add(self)

    def call(self, work: Callable[[], T]) -> T:
        """The result of ``work()``; one piece of work runs at a time."""
        with self._owner:
            while self._later:
                self._later.popleft()()
            return work()

    def later(self, work: Callable[[], object]) -> None:
        """Run ``work`` before the next `call`."""
        self._later.append(work)

    def queue(self) -> SimQueue:
        """A new queue."""
        return SimQueue(self.counters)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of this machine."""
        found = system_memory()
        return found["free_memory"], found["total_memory"]

    def allocate(self, nbytes: int) -> int:
        """The address of ``nbytes`` bytes of host memory, with room around them."""
        wanted = nbytes + 2 * GUARD
        size = -(-wanted // ALIGNMENT) * ALIGNMENT
        memory = libc().aligned_alloc(ALIGNMENT, size) if size < 1 << 63 else ffi.NULL
        if memory == ffi.NULL:
            raise DeviceError(
                "ML403",
                f"cannot allocate {nbytes} bytes for a simulated device",
                fix="free tensors that are no longer needed",
            )
        address = int(ffi.cast("uintptr_t", memory)) + GUARD
        self._blocks[address] = memory, nbytes
        bisect.insort(self._order, address)
        return address

    def release(self, address: int) -> None:
        """Give back what `allocate` gave.

        Raises:
            DeviceError: ML449, no block begins there.
        """
        found = self._blocks.pop(address, None)
        if found is None:
            raise DeviceError(
                "ML449",
                f"no block of gpu:{self.id} begins at {address:#x}: it cannot be given back",
                why=[self._said_of(address)],
                fix="give back each block once, by the address that allocate returned",
            )
        del self._order[bisect.bisect_left(self._order, address)]
        self._freed.append((address, found[1]))
        libc().free(found[0])

    def _has(self, address: int, nbytes: int) -> bool:
        """Whether the bytes lie in one block."""
        place = bisect.bisect_right(self._order, address) - 1
        if place < 0:
            return False
        begin = self._order[place]
        return address + nbytes <= begin + self._blocks[begin][1]

    def _said_of(self, address: int) -> str:
        """A text of all that is known of ``address``."""
        if address < 4096:
            return f"{address:#x} is a null pointer"
        for begin, nbytes in reversed(self._freed):
            if begin <= address < begin + max(nbytes, 1):
                return f"{address:#x} was in a block of {nbytes} bytes that has been given back"
        place = bisect.bisect_right(self._order, address) - 1
        if place >= 0:
            begin = self._order[place]
            nbytes = self._blocks[begin][1]
            if address - begin <= nbytes + GUARD:
                return f"{address:#x} is byte {address - begin} of a block of {nbytes} bytes"
        return f"{address:#x} is in no block: it may be the host's"

    def _require(self, address: int, nbytes: int, *, near: bool = False) -> None:
        """Raises unless the bytes are memory of this device; of any simulated one with ``near``.

        Raises:
            DeviceError: ML448, they are not.
        """
        if nbytes == 0 or (nbytes > 0 and self._has(address, nbytes)):
            return
        if near and nbytes > 0 and any(c._has(address, nbytes) for c in list(_CONTEXTS)):
            return
        raise DeviceError(
            "ML448",
            f"{nbytes} bytes at {address:#x} are not memory of gpu:{self.id}",
            why=[self._said_of(address)],
            fix="copy between blocks that allocate returned and that have not been given back; the "
            "host's memory is uploaded and downloaded",
        )

    def allocate_pinned(self, nbytes: int) -> int:
        """The address of ``nbytes`` bytes of host memory."""
        return self.allocate(nbytes)

    def release_pinned(self, address: int) -> None:
        """Give back what `allocate_pinned` gave."""
        self.release(address)

    def upload(self, queue: Queue, target: int, source: int, nbytes: int) -> None:
        """Copy host memory to the device."""
        self._require(target, nbytes)
        _require_host(source, nbytes)
        self.counters.uploads += 1
        self.counters.upload_bytes += nbytes
        _move(target, source, nbytes)

    def download(self, queue: Queue, target: int, source: int, nbytes: int) -> None:
        """Copy device memory to the host."""
        self._require(source, nbytes)
        _require_host(target, nbytes)
        self.counters.downloads += 1
        self.counters.waits += 1  # the host reads what arrives
        self.counters.download_bytes += nbytes
        _move(target, source, nbytes)

    def copy(self, queue: Queue, target: int, source: int, nbytes: int) -> None:
        """Copy device memory."""
        self._require(target, nbytes, near=True)
        self._require(source, nbytes, near=True)
        self.counters.copies += 1
        _move(target, source, nbytes)

    def fill(self, queue: Queue, target: int, value: int, nbytes: int) -> None:
        """Set every byte to ``value``."""
        self._require(target, nbytes)
        self.counters.fills += 1
        ffi.buffer(ffi.cast("char *", target), nbytes)[:] = bytes([value]) * nbytes

    def can_access(self, other: object) -> bool:
        """True for simulated devices."""
        return isinstance(other, SimContext)

    def load(self, sources: Sequence[DeviceSource]) -> list[Loaded]:
        """The kernels of ``sources``, compiled by g++ where the cache has none."""
        made = compile_sim_kernels(
            [SimSource(s.name, s.text, s.headers, s.accuracy) for s in sources], check=self.check
        )
        return [Loaded(SimFunction(k, self.check), k.hit, k.why_miss, k.ms) for k in made]

    def launch(
        self,
        queue: Queue,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
    ) -> None:
        """Run a kernel to its end.

        Raises:
            ExecutionError: ML656 a fault, ML657 threads that wait for ever, or, when launches are
                checked, the first thing that is wrong with it.
        """
        assert isinstance(function, SimFunction)
        self.counters.launches += 1
        regions = [(a, n) for a, (_, n) in self._blocks.items()] if self.check else []
        function.run(grid, block, shared_bytes, arguments, regions)

    def follow(self, handle: int, mark: Mark) -> None:
        """Returns at once: no other library has streams here, and all work has ended."""

    def mark_stream(self, handle: int) -> SimMark:
        """A mark with the time of now."""
        return SimMark()

    def blas(self) -> None:
        """None: a simulated device runs maxlab's own kernels."""

    def record(self, work: Callable[[Queue], None]) -> Recording | None:
        """None: launching is a function call here."""
        return None

    def __repr__(self) -> str:
        return f"SimContext({self.id})"


class SimBackend:
    """Simulated devices, as many as were asked for."""

    name = "sim"

    def __init__(self, count: int, *, check: bool = False) -> None:
        self._count = count
        self._check = check

    def count(self) -> int:
        """How many there are."""
        return self._count

    def missing(self) -> list[str]:
        """Why there are no more."""
        return [f"{self._count} simulated devices were asked for: driver.use_simulator"]

    def open(self, id: int) -> SimContext:
        """A simulated device."""
        emit("device", f"gpu:{id}", simulated=True, check=self._check)
        return SimContext(id, check=self._check)


_CONTEXTS: weakref.WeakSet[SimContext] = weakref.WeakSet()
"""The simulated devices that are open: each may read the memory of the others."""


def _require_host(address: int, nbytes: int) -> None:
    """Raises if there are bytes to copy and ``address`` is a null pointer.

    Raises:
        DeviceError: ML448, it is.
    """
    if nbytes and address < 4096:
        raise DeviceError(
            "ML448",
            f"{nbytes} bytes at {address:#x} are no memory of the host: it is a null pointer",
            fix="pass the address of an array that is still there",
        )


def _move(target: int, source: int, nbytes: int) -> None:
    if nbytes:
        ffi.memmove(ffi.cast("char *", target), ffi.cast("char *", source), nbytes)


__all__ = ["SimBackend", "SimContext"]
