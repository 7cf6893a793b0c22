"""Streams of accelerators: `DeviceStream` over a backend's queue."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from maxlab.driver.backend import Context, Mark, Queue, Watcher
from maxlab.driver.device import Device, DeviceStream
from maxlab.driver.gpu_memory import DevicePool
from maxlab.driver.lanes import follow

_numbers = itertools.count()


@runtime_checkable
class Opened(Protocol):
    """A device that a backend has opened."""

    @property
    def context(self) -> Context:
        """The device as its backend opened it."""

    @property
    def pool(self) -> DevicePool:
        """Its memory."""


class AcceleratorStream(DeviceStream):
    """A stream whose work a device does, while the threads that gave it go on.

    What went wrong in a kernel is known only when somebody waits for the stream: `checks` are
    asked then, and the first that has something to say raises.
    """

    __slots__ = ("_checks", "_context", "_lock", "_pool", "_queue", "number")

    def __init__(self, device: Device, queue: Queue | None = None) -> None:
        super().__init__(device)
        assert isinstance(device, Opened), f"{device} has no queues"
        context = self._context = device.context
        self._pool = device.pool
        self.number = next(_numbers)
        """Of this stream alone, after it has gone too."""
        self._queue = queue if queue is not None else context.call(context.queue)
        self._checks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def context(self) -> Context:
        """The opened device."""
        return self._context

    @property
    def pool(self) -> DevicePool:
        """The memory of the device."""
        return self._pool

    @property
    def queue(self) -> Queue:
        """The backend's queue."""
        return self._queue

    @property
    def handle(self) -> int:
        """The ``CUstream`` as a number, for other libraries; 0 for the default stream."""
        return self._queue.handle

    def add_check(self, check: Callable[[], None]) -> None:
        """Call ``check`` when somebody next waits for this stream."""
        with self._lock:
            if check not in self._checks:
                self._checks.append(check)

    def raise_found(self) -> None:
        """Raise what kernels that have ended found wrong.

        Raises:
            ExecutionError: an index was out of range, say; see the check.
        """
        with self._lock:
            checks, self._checks = self._checks, []
        for number, check in enumerate(checks):
            try:
                check()
            except BaseException:
                with self._lock:
                    self._checks = checks[number + 1 :] + self._checks
                raise

    def synchronize(self) -> None:
        """Return when all operations given to this stream so far have ended.

        Raises:
            ExecutionError: one of them found something wrong, such as an index out of range.
            DeviceError: ML445 (a RuntimeError), a kernel faulted and the device is lost.
        """
        self._context.call(self._queue.synchronize)
        self.raise_found()

    def come_after(self, other: DeviceStream) -> None:
        """Let what is given to this stream from now on wait for all that ``other`` was given."""
        if isinstance(other, AcceleratorStream):
            self.follow(other)
        else:
            other.wait_until(other.reached())  # the host runs its work in the threads that give it

    def follow(self, other: AcceleratorStream) -> None:
        """Start what comes next only after all that ``other`` has been given."""
        follow(self, other)

    def give(self, work: Callable[[], object], watcher: Watcher | None = None) -> None:
        """Let the owner of the device do ``work``, which calls the backend."""
        context, queue = self._context, self._queue

        def watched() -> None:
            if watcher is not None:
                watcher.begin(context, queue)
            work()
            if watcher is not None:
                watcher.end(context, queue)

        context.call(watched)

    def bytes_at(self, address: int, nbytes: int) -> Any:
        """A copy of the ``nbytes`` at ``address``, an array of uint8, when what the stream was
        given has ended."""
        made = np.empty(nbytes, np.uint8)
        if nbytes:
            context, queue, to = self._context, self._queue, made.ctypes.data
            context.call(lambda: context.download(queue, to, address, nbytes))
        return made

    def fill_bytes(self, address: int, value: int, nbytes: int) -> None:
        """Set each of the ``nbytes`` at ``address`` to ``value``, in the order of the stream."""
        if nbytes:
            context, queue = self._context, self._queue
            context.call(lambda: context.fill(queue, address, value, nbytes))

    def copy_bytes(self, target: int, source: int, nbytes: int) -> None:
        """Copy ``nbytes`` within the memory of the device, in the order of the stream."""
        context, queue = self._context, self._queue
        context.call(lambda: context.copy(queue, target, source, nbytes))

    def lead(self, handle: int) -> None:
        """Let a stream of another library, a ``CUstream`` as a number, wait for all that this
        stream has been given.
        """
        context, queue = self._context, self._queue
        context.call(lambda: context.follow(handle, queue.mark()))

    def follow_foreign(self, handle: int) -> None:
        """Start what comes next only after all that another library has given to its stream."""
        context, queue = self._context, self._queue
        context.call(lambda: queue.wait(context.mark_stream(handle)))

    def reached(self) -> Mark:
        """A mark behind everything given so far."""
        return self._context.call(self._queue.mark)

    def wait_until(self, reached: object) -> None:
        """Return when the stream has come to what `reached` gave."""
        mark: Mark = reached  # type: ignore[assignment]  # of this stream
        self._context.call(mark.synchronize)

    def run(self, operation: Callable[[], object]) -> None:
        """Run ``operation``, which touches host memory, when this stream is done."""
        self._context.call(self._queue.synchronize)
        operation()


__all__ = ["AcceleratorStream"]
