"""Virtual CPUs: several CPU devices in one process, each with memory of its own.

They are for programs of several devices on a machine that has one: a graph may place tensors on
``cpu:0``, ``cpu:1`` and so on, and nothing gets from one to another but by a transfer. There are
none unless `virtual_cpus` or `use_virtual_cpus` asks for them; then ``CPU(0)`` is the host as ever,
and ``CPU(1)`` and up are devices with a pool each, which may have a limit. All of them compute with
the same C kernels and threads, and the host can read what they hold, as on a machine whose memory
has several parts.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from maxlab.driver import device as devices
from maxlab.driver.device import CPU, Device, DeviceStream, system_memory
from maxlab.driver.memory import ALIGNMENT, MemoryStats, system_allocate, system_free
from maxlab.errors import ArgumentError, DeviceError, shown

_MOST = 1024
"""CPU devices; each is an object, and more are a mistake."""


class VirtualMemory:
    """The memory of one virtual CPU: blocks recycled by size, within a limit, counted while live.

    Args:
        id: of the device.
        limit: most bytes that may be taken; -1 is as many as the system gives.
    """

    def __init__(self, id: int, limit: int) -> None:
        self.id = id
        self.limit = limit
        self.peak = 0
        self._live: dict[int, int] = {}  # address -> bytes
        self._used = 0
        self._free: dict[int, list[int]] = {}  # bytes -> addresses
        self._pooled = 0
        self._lock = threading.Lock()
        # Finalizers run in the midst of `take` too; they only append here, which needs no lock.
        self._dropped: deque[int] = deque()

    def take(self, nbytes: int) -> int:
        """The address of ``nbytes`` bytes, aligned to 64.

        Raises:
            DeviceError: ML403, the limit or the system does not have them.
        """
        size = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        with self._lock:
            self._collect()
            same = self._free.get(size)
            if same:
                address = same.pop()
                self._pooled -= size
            else:
                address = self._allocate(size)
            self._live[address] = size
            self._used += size
            self.peak = max(self.peak, self._used)
            return address

    def give(self, address: int) -> None:
        """Take a block back; it never raises and takes no lock, as finalizers call it."""
        self._dropped.append(address)

    def stats(self) -> MemoryStats:
        """The memory that tensors and models hold now."""
        with self._lock:
            self._collect()
            return MemoryStats(self._used, len(self._live), self._pooled)

    def _allocate(self, size: int) -> int:
        if self.limit >= 0 and self._used + self._pooled + size > self.limit:
            self._trim()
        if self.limit >= 0 and self._used + size > self.limit:
            raise DeviceError(
                "ML403",
                f"cannot allocate {size} bytes on cpu:{self.id}",
                why=[f"the limit is {self.limit} bytes, and {self._used} are in use"],
                fix="free tensors that are no longer needed, or give the devices more memory",
            )
        return system_allocate(size, ALIGNMENT)

    def _collect(self) -> None:
        """Put dropped blocks where `take` finds them."""
        while self._dropped:
            address = self._dropped.popleft()
            size = self._live.pop(address)
            self._used -= size
            self._pooled += size
            self._free.setdefault(size, []).append(address)

    def _trim(self) -> None:
        for addresses in self._free.values():
            for address in addresses:
                system_free(address)
        self._free.clear()
        self._pooled = 0

    # What it calls is a default argument, which outlives this module at interpreter exit.
    def __del__(self, free: Any = system_free) -> None:
        for addresses in self._free.values():
            for address in addresses:
                free(address)
        for address in self._live:  # their blocks are gone: each held this object
            free(address)


class VirtualBlock:
    """One allocation on a virtual CPU; goes back to its memory when nothing refers to it."""

    __slots__ = ("__weakref__", "address", "memory", "nbytes")

    def __init__(self, memory: VirtualMemory, nbytes: int) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.address = 0  # for __del__, should the next line raise
        self.address = memory.take(nbytes)

    def __del__(self) -> None:
        if self.address:
            self.memory.give(self.address)


class VirtualCPU(CPU):
    """A CPU device besides the host, with memory of its own. `virtual_cpus` makes them, and
    ``CPU(id)`` gives them.
    """

    __slots__ = ("memory",)

    memory: VirtualMemory

    @property
    def stats(self) -> dict[str, Any]:
        """Memory in bytes: ``total_memory`` and ``free_memory`` of the machine; what tensors and
        models hold, ``used_memory`` in ``allocations`` blocks and at most ``peak_memory`` so far;
        ``pooled_memory`` for reuse; ``memory_limit``, -1 where there is none.
        """
        held = self.memory.stats()
        return {
            **system_memory(),
            "used_memory": held.live,
            "allocations": held.blocks,
            "pooled_memory": held.pooled,
            "peak_memory": self.memory.peak,
            "memory_limit": self.memory.limit,
        }

    def __repr__(self) -> str:
        return f"Device(type=cpu,id={self._id},virtual)"

    def __reduce__(self) -> tuple[Any, ...]:
        return CPU, (self._id,)


def use_virtual_cpus(count: int = 2, *, memory_limit: int = -1) -> None:
    """Let there be ``count`` CPU devices from now on: the host, which is ``CPU(0)``, and virtual
    ones; 0 lets every ``CPU(id)`` be the host again.

    Each call makes new devices. Tensors on earlier ones stay as they are.

    Args:
        count: how many, the host among them.
        memory_limit: most bytes that may be allocated on each of the virtual ones; -1 is no limit.

    Raises:
        ArgumentError: ML434 (a ValueError), a count below 0 or above 1024, or a limit that is none.

    Example:
        >>> from maxlab import driver
        >>> driver.use_virtual_cpus(4)
        >>> driver.CPU(3)
        Device(type=cpu,id=3,virtual)
        >>> driver.use_virtual_cpus(0)
        >>> driver.CPU(3)
        Device(type=cpu,id=0)
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MOST:
        raise ArgumentError(
            "ML434",
            f"the number of CPU devices must be an int of 0 to {_MOST}, got {shown(count)}",
            fix="write use_virtual_cpus(2) for the host and one more",
        )
    limit = memory_limit
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < -1 or limit == 0:
        raise ArgumentError(
            "ML434",
            f"memory_limit must be a positive int, or -1, got {shown(limit)}",
            fix="give the limit in bytes",
        )
    made: list[CPU] = [CPU()][:count]
    for number in range(1, count):
        one = object.__new__(VirtualCPU)
        one._id = number
        one.memory = VirtualMemory(number, limit)
        one._stream = DeviceStream(one)
        made.append(one)
    devices.chosen_cpus[:] = made


@contextmanager
def virtual_cpus(count: int = 2, *, memory_limit: int = -1) -> Iterator[list[CPU]]:
    """A block in which there are ``count`` CPU devices, which it gives; see `use_virtual_cpus`.

    Example:
        >>> import numpy as np
        >>> from maxlab import driver
        >>> with driver.virtual_cpus(2) as cpus:
        ...     x = driver.Tensor.from_numpy(np.ones(3, np.float32)).to(cpus[1])
        ...     x.device, cpus[1].stats["used_memory"]
        (Device(type=cpu,id=1,virtual), 64)
    """
    before = list(devices.chosen_cpus)
    use_virtual_cpus(count, memory_limit=memory_limit)
    try:
        yield list(devices.chosen_cpus)
    finally:
        devices.chosen_cpus[:] = before


def cpu_count() -> int:
    """The number of CPU devices: 1, unless `use_virtual_cpus` asked for more."""
    return max(len(devices.chosen_cpus), 1)


class Place(Protocol):
    """The name of a device in a graph."""

    @property
    def id(self) -> int: ...
    def is_cpu(self) -> bool: ...


def names_host(place: Place, devices: Iterable[Device]) -> bool:
    """Whether ``place`` is a name of the host, where ``devices`` can be used: the first CPU always
    is, and every other one while there are no virtual CPUs."""
    is_one = cpu_count() == 1 and not any(isinstance(d, VirtualCPU) for d in devices)
    return place.is_cpu() and (is_one or not place.id)


def memory_of(device: Device) -> VirtualMemory | None:
    """The memory that only ``device`` uses; None for the host and accelerators."""
    return device.memory if isinstance(device, VirtualCPU) else None


__all__ = [
    "VirtualBlock",
    "VirtualCPU",
    "VirtualMemory",
    "cpu_count",
    "memory_of",
    "names_host",
    "use_virtual_cpus",
    "virtual_cpus",
]
