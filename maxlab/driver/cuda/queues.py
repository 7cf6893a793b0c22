"""Streams and events: `CudaQueue` and `CudaMark`."""

from __future__ import annotations

from collections import deque
from typing import Any

from maxlab.driver.backend import Mark
from maxlab.driver.cuda.faults import NOT_READY
from maxlab.driver.cuda.libcuda import libcuda
from maxlab.driver.cuda.opened import Opened
from maxlab.toolchain.cffi_abi import ffi

_MOST_PARTS = 64


class CudaQueue:
    """A stream. The default one is CUDA's legacy default stream, which torch uses as well, so
    that work of both is in order; the others wait for nothing they are not told to.

    Args:
        context: the device.
        stream: PyCUDA's object, None for the default stream.
        key: what the context keeps the stream under, which frees it.

    Attributes:
        workspace: device memory that a library uses for work of this stream, 0 for none; given
            back with the stream.
    """

    __slots__ = (
        "__weakref__", "_context", "_handle", "_key", "_launched", "_parts", "pointer", "stream",
        "workspace",
    )  # fmt: skip

    def __init__(self, context: Opened, stream: Any, key: int = 0) -> None:
        self._context = context
        self._key = key
        self.stream = stream
        self.workspace = 0
        self._handle = 0 if stream is None else int(stream.handle)
        self.pointer = ffi.cast("void *", self._handle)
        # Names of kernels since the last good synchronisation: behind the last mark, and before
        # each mark that was not reached yet. A dict is a set in order.
        self._launched: dict[str, None] = {}
        self._parts: deque[tuple[int, dict[str, None]]] = deque()

    @property
    def handle(self) -> int:
        """The ``CUstream``, 0 for the default stream."""
        return self._handle

    def synchronize(self) -> None:
        """Return when everything given to the stream has ended.

        Raises:
            DeviceError: ML445, a kernel faulted; it names those that may have.
        """
        context = self._context
        context.counters.waits += 1
        context.check(libcuda().cuStreamSynchronize(self.pointer), "cuStreamSynchronize")
        self._launched.clear()
        self._parts.clear()

    def mark(self, *, timed: bool = False) -> CudaMark:
        """A mark behind everything given to the stream so far."""
        context = self._context
        event = context.take_event(timed)
        made = CudaMark(context, self, event, timed)
        context.check(libcuda().cuEventRecord(event, self.pointer), "cuEventRecord")
        if self._launched:
            self._parts.append((made.serial, self._launched))
            self._launched = {}
            if len(self._parts) > _MOST_PARTS:  # nobody waits for the marks
                _, oldest = self._parts.popleft()
                self._parts[0][1].update(oldest)
        return made

    def wait(self, mark: Mark) -> None:
        """Let what is given to the stream from now on start after ``mark``, which may be of
        another device.
        """
        assert isinstance(mark, CudaMark), "marks of one backend are not those of another"
        self._context.follow(self._handle, mark)

    def launched(self, name: str) -> None:
        """Remember that a kernel of this name was given to the stream."""
        self._launched[name] = None

    def suspects(self) -> list[str]:
        """The kernels that may not have ended well, oldest first."""
        names: dict[str, None] = {}
        for _, part in self._parts:
            names.update(part)
        names.update(self._launched)
        return list(names)

    def reached(self, serial: int) -> None:
        """The mark ``serial`` was reached and all before it ended well."""
        while self._parts and self._parts[0][0] <= serial:
            self._parts.popleft()

    def __del__(self) -> None:
        if self._key:
            self._context.drop_stream(self._key, self.workspace)

    def __repr__(self) -> str:
        name = f"{self._handle:#x}" if self._handle else "default"
        return f"CudaQueue({name} of gpu:{self._context.id})"


class CudaMark:
    """An event that was recorded. Events are used again, never destroyed while the device is
    open: a finalizer must not talk to the driver.
    """

    __slots__ = ("_context", "_queue", "_timed", "event", "serial")

    def __init__(self, context: Opened, queue: CudaQueue | None, event: Any, timed: bool):
        self._context = context
        self._queue = queue
        self._timed = timed
        self.event = event
        self.serial = context.next_serial()

    def synchronize(self) -> None:
        """Return when everything given to the stream before the mark has ended.

        Raises:
            DeviceError: ML445, a kernel faulted; it names those that may have.
        """
        self._context.counters.waits += 1
        self._context.check(libcuda().cuEventSynchronize(self.event), "cuEventSynchronize")
        if self._queue is not None:
            self._queue.reached(self.serial)

    def done(self) -> bool:
        """Whether everything given to the stream before the mark has ended."""
        status = libcuda().cuEventQuery(self.event)
        if status == NOT_READY:
            return False
        self._context.check(status, "cuEventQuery")
        if self._queue is not None:
            self._queue.reached(self.serial)
        return True

    def ms_since(self, earlier: Mark) -> float:
        """Milliseconds of the device's clock between two timed marks, both reached; the clock
        ticks every half microsecond.

        Raises:
            DeviceError: ML443, one of them is not timed or not reached.
        """
        assert isinstance(earlier, CudaMark), "marks of one backend are not those of another"
        ms = ffi.new("float *")
        status = libcuda().cuEventElapsedTime(ms, earlier.event, self.event)
        self._context.check(status, "cuEventElapsedTime")
        return float(ms[0])

    def __del__(self) -> None:
        self._context.give_event(self.event, self._timed)
