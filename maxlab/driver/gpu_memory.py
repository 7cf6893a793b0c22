"""Memory of accelerators: blocks recycled by size and stream, within a limit, counted while live.

A block that is dropped while kernels still use it may be given at once to what comes later on the
same stream, because a stream is an order. A block that other streams have used too waits until
they have passed the place where it was dropped. Nothing here knows how a device allocates.
"""

from __future__ import annotations

import threading
from collections import deque

from maxlab.driver.backend import Context
from maxlab.driver.lanes import Lane, follow
from maxlab.driver.memory import MemoryStats
from maxlab.errors import DeviceError
from maxlab.trace import emit

GRANULE = 512
DEFAULT_SHARE = 0.99
"""The part of the free memory that may be used when no limit is given."""


class DeviceBlock:
    """One allocation on an accelerator; goes back to its pool when nothing refers to it.

    ``streams`` are those that used the block besides its own.
    """

    __slots__ = ("__weakref__", "address", "nbytes", "pool", "stream", "streams")

    def __init__(self, pool: DevicePool, stream: Lane, nbytes: int) -> None:
        self.pool = pool
        self.stream = stream
        self.streams: list[Lane] = []
        self.nbytes = -(-max(nbytes, 1) // pool.granule) * pool.granule
        self.address = 0  # for __del__, should the next line raise
        self.address = pool.take(self.nbytes, stream)

    def used_by(self, stream: Lane) -> None:
        """Note that work on ``stream`` uses the block."""
        if stream is not self.stream and stream not in self.streams:
            self.streams.append(stream)

    def __del__(self) -> None:
        if self.address:
            self.pool.give(self.address, self.nbytes, self.stream, self.streams)


class PinnedDeviceBlock:
    """Page-locked host memory that a device can read and write; never pooled."""

    __slots__ = ("__weakref__", "address", "context", "nbytes")

    def __init__(self, context: Context, nbytes: int) -> None:
        self.address = 0
        self.nbytes = max(nbytes, 1)
        self.context = context
        self.address = context.call(lambda: context.allocate_pinned(self.nbytes))

    def __del__(self) -> None:
        if self.address:
            context, address = self.context, self.address
            context.later(lambda: context.release_pinned(address))


class DevicePool:
    """The blocks of one accelerator.

    Args:
        context: the device.
        limit: most bytes that may be taken from it; -1 is 99 % of what is free now.
    """

    def __init__(self, context: Context, limit: int) -> None:
        self.context = context
        if limit < 0:
            free, _ = context.call(context.memory)
            limit = int(free * DEFAULT_SHARE)
        self.limit = limit
        # What a checked kernel may touch on a simulated device ends where the tensor does.
        self.granule = 1 if context.properties.simulated else GRANULE
        self.live: dict[int, int] = {}  # address -> bytes
        self.peak = 0
        self._free: dict[tuple[int, int], list[int]] = {}  # (stream's number, bytes)
        self._pooled = 0
        self._used = 0
        self._lock = threading.Lock()
        # Finalizers run wherever an allocation makes the collector run, in the midst of
        # `take` too. They only append here, which needs no lock.
        self._dropped: deque[tuple[int, int, Lane, list[Lane]]] = deque()

    def take(self, nbytes: int, stream: Lane) -> int:
        """The address of ``nbytes``, a multiple of the granule, for work on ``stream``.

        Raises:
            DeviceError: ML403, the limit or the device's memory does not have it.
        """
        with self._lock:
            self._collect()
            same = self._free.get((stream.number, nbytes))
            if same:
                address = same.pop()
                self._pooled -= nbytes
            else:
                address = self._allocate(nbytes)
            self.live[address] = nbytes
            self._used += nbytes
            self.peak = max(self.peak, self._used)
            return address

    def give(
        self,
        address: int,
        nbytes: int,
        stream: Lane,
        others: list[Lane],
    ) -> None:
        """Take the block back; it never raises and takes no lock, as finalizers call it."""
        self._dropped.append((address, nbytes, stream, others))

    def _collect(self) -> None:
        """Put dropped blocks where `take` finds them."""
        while self._dropped:
            address, nbytes, stream, others = self._dropped.popleft()
            for other in others:
                follow(stream, other)
            self.live.pop(address, None)
            self._used -= nbytes
            self._free.setdefault((stream.number, nbytes), []).append(address)
            self._pooled += nbytes

    def _allocate(self, nbytes: int) -> int:
        context = self.context
        if self._used + self._pooled + nbytes > self.limit:
            self._trim()
        if self._used + nbytes > self.limit:
            raise self._exhausted(nbytes, f"the limit is {self.limit} bytes")
        try:
            return context.call(lambda: context.allocate(nbytes))
        except DeviceError as error:
            if error.code != "ML403":
                raise
        self._trim()
        try:
            return context.call(lambda: context.allocate(nbytes))
        except DeviceError as error:
            if error.code != "ML403":
                raise
            free, total = context.call(context.memory)
            why = f"the device has {free} of {total} bytes free"
            raise self._exhausted(nbytes, why) from error

    def _exhausted(self, nbytes: int, why: str) -> DeviceError:
        largest = sorted(self.live.values(), reverse=True)[:3]
        held = ", ".join(map(str, largest)) or "none"
        return DeviceError(
            "ML403",
            f"cannot allocate {nbytes} bytes on gpu:{self.context.id}",
            why=[why, f"tensors hold {self._used} bytes, the largest blocks: {held}"],
            fix="free tensors that are no longer needed, or use a smaller batch",
        )  # fmt: skip

    def trim(self) -> None:
        """Give the memory kept for reuse back to the device."""
        with self._lock:
            self._collect()
            self._trim()

    def _trim(self) -> None:
        addresses = [a for same in self._free.values() for a in same]
        self._free.clear()
        self._pooled = 0
        context = self.context

        def release() -> None:
            for address in addresses:
                context.release(address)

        if addresses:
            emit("memory", "trim", device=f"gpu:{context.id}", blocks=len(addresses))
            context.call(release)

    def stats(self) -> MemoryStats:
        """The memory that tensors hold now."""
        with self._lock:
            self._collect()
            return MemoryStats(self._used, len(self.live), self._pooled)


__all__ = ["DeviceBlock", "DevicePool", "PinnedDeviceBlock"]
