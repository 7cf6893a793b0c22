"""Devices and their streams.

A device is one object for its lifetime: ``CPU() is CPU()``. Work on a host stream runs in
the thread that asks for it, in order: an operation starts when those before it on the
stream, and those it was told to wait for, have ended, whichever threads they run in.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn, overload

import numpy as np

from maxlab.driver.backend import Watcher
from maxlab.dtype import StaticFunction
from maxlab.errors import ArgumentTypeError, DeviceError, elsewhere, shown
from maxlab.habits import fitting
from maxlab.toolchain.cffi_abi import ffi
from maxlab.trace import emit, reading


class Device:
    """A place where tensors live and operations run: the `CPU` or an `Accelerator`."""

    __slots__ = ("__weakref__", "_id", "_stream")

    _id: int
    _stream: DeviceStream

    @property
    def api(self) -> str:
        """How the device is programmed: ``"cpu"``, ``"cuda"`` or ``"hip"``."""
        raise DeviceError("ML400", f"{type(self).__name__} has no API", fix="use CPU()")

    @property
    def label(self) -> str:
        """``"cpu"`` for the host, ``"gpu"`` for accelerators."""
        raise DeviceError("ML400", f"{type(self).__name__} has no label", fix="use CPU()")

    @property
    def id(self) -> int:
        """The number of the device among those of its label; 0 for the host."""
        return self._id

    @property
    def is_host(self) -> bool:
        """True for the CPU."""
        return self.label == "cpu"

    @property
    def is_compatible(self) -> bool:
        """True if this build of maxlab can run graphs on the device."""
        return self.is_host

    @property
    def simulated(self) -> bool:
        """True if its kernels run on the CPU in the place of an accelerator."""
        return False

    @property
    def alignment(self) -> int:
        """Fresh memory of the device begins at multiples of so many bytes."""
        return 64

    @property
    def architecture_name(self) -> str:
        """The accelerator's architecture, such as ``"sm_90"``.

        Raises:
            DeviceError: ML402 (a ValueError), for the CPU.
        """
        raise DeviceError(
            "ML402",
            f"{self} has no architecture name",
            fix="only accelerators have one; maxlab.toolchain.doctor_rows() describes the CPU",
        )

    @property
    def default_stream(self) -> DeviceStream:
        """The stream that tensors use when none is given."""
        return self._stream

    def _stream_type(self) -> type[DeviceStream]:
        """The class of the device's streams."""
        return DeviceStream

    @property
    def stats(self) -> dict[str, Any]:
        """Memory in bytes: ``total_memory`` and ``free_memory`` of the device, and what tensors
        hold of it, ``used_memory`` in ``allocations`` blocks, with ``pooled_memory`` for reuse.
        """
        from maxlab.driver.memory import memory_stats

        held = memory_stats()
        return {
            **system_memory(),
            "used_memory": held.live,
            "allocations": held.blocks,
            "pooled_memory": held.pooled,
        }

    def can_access(self, other: Device) -> bool:
        """True if this device can address the memory of ``other`` directly."""
        return other is self

    def synchronize(self) -> None:
        """Return when all operations on this device's default stream have ended.

        Raises:
            DeviceError: ML405 (a ValueError), one of them failed.
        """
        self._stream.synchronize()

    @StaticFunction
    def cpu(id: int = -1) -> Device:  # noqa: N805
        """The CPU device; the same object as ``CPU(id)``."""
        return CPU(id)

    def __eq__(self, other: object) -> bool:
        """Whether ``other`` is this device, names it as ``"gpu:1"`` does, or is a ``DeviceRef`` or
        ``torch.device`` that stands for it."""
        if self is other or isinstance(other, Device):
            return self is other
        told = _told(other)
        return NotImplemented if told is None else told == (self.label, self._id)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Device(type={self.label},id={self._id})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._id,)


chosen_cpus: list[CPU] = []
"""The devices that ``CPU(id)`` stands for, where `virtual_cpus` asked for several."""


class CPU(Device):
    """The host. There is one such device, and every ``id`` means it, unless `virtual_cpus` asked
    for several.

    Args:
        id: accepted for symmetry with `Accelerator`; the host's own id is always 0. Where there are
            virtual CPUs, the number of one of them.

    Raises:
        DeviceError: ML401 (a ValueError), a negative id other than -1; ML433, there are virtual
            CPUs, and none has this id.

    Example:
        >>> CPU().label
        'cpu'
        >>> CPU(3).id
        0
    """

    __slots__ = ()

    _instance: CPU | None = None

    def __new__(cls, id: int = -1) -> CPU:
        if not isinstance(id, int) or id < -1:
            raise DeviceError(
                "ML401", f"a CPU's id is 0 or -1, got {shown(id)}", fix="write CPU() for the host"
            )
        if id > 0 and chosen_cpus:
            if id >= len(chosen_cpus):
                raise DeviceError(
                    "ML433",
                    f"CPU {shown(id)} was asked for, and there are {len(chosen_cpus)} CPU devices",
                    fix="ask for more: driver.virtual_cpus(n)",
                )
            return chosen_cpus[id]
        found = CPU._instance
        if found is None:
            found = object.__new__(cls)
            found._id = 0
            found._stream = DeviceStream(found)
            CPU._instance = found
        return found

    @property
    def api(self) -> str:
        """``"cpu"``."""
        return "cpu"

    @property
    def label(self) -> str:
        """``"cpu"``."""
        return "cpu"


elsewhere(
    Device,
    "device",
    {
        "name": "device.label and device.id; of an accelerator device.context.properties.name",
        "index": "device.id",
        "type": "device.label",
        "memory": "device.stats",
    },
)


class DeviceStream:
    """An order of execution on a device: its operations run one after another.

    Operations of different streams may run at the same time, from different threads.

    Args:
        device: where the operations run.

    Example:
        >>> side = DeviceStream(CPU())
        >>> side.wait_for(CPU().default_stream)
    """

    __slots__ = ("__weakref__", "_changed", "_device", "_ended", "_error", "_started", "_waits")

    def __new__(cls, device: Device, *_: object) -> DeviceStream:
        kind = device._stream_type() if isinstance(device, Device) else cls
        return object.__new__(kind if issubclass(kind, cls) else cls)

    def __init__(self, device: Device) -> None:
        if not isinstance(device, Device):
            raise ArgumentTypeError(
                "ML404",
                f"a stream needs a Device, got {type(device).__name__}",
                fix="pass driver.CPU() or driver.Accelerator()",
            )
        self._device = device
        self._changed = threading.Condition()
        self._started = 0  # operations that were given a place in the order
        self._ended = 0
        self._waits: list[tuple[DeviceStream, Any]] = []
        self._error: Exception | None = None

    @property
    def device(self) -> Device:
        """The device this stream executes on."""
        return self._device

    @overload
    def wait_for(self, stream: DeviceStream) -> None: ...
    @overload
    def wait_for(self, device: Device) -> None: ...
    def wait_for(  # type: ignore[misc]  # the first positional may be a device
        self, stream: DeviceStream | Device | None = None, device: Device | None = None
    ) -> None:
        """Let operations that are given to this stream from now on start only after all that
        were given to ``stream`` (or to the default stream of ``device``) before this call.

        Raises:
            ArgumentTypeError: ML404 (a TypeError), neither a stream nor a device.
        """
        other: object = device if stream is None else stream
        if stream is not None and device is not None:
            raise ArgumentTypeError(
                "ML404", "wait_for takes one of stream and device, got both", fix="call it twice"
            )
        if isinstance(other, Device):
            other = other.default_stream
        if not isinstance(other, DeviceStream):
            raise ArgumentTypeError(
                "ML404",
                f"wait_for takes a DeviceStream or a Device, got {type(other).__name__}",
                fix="pass the stream whose work must come first",
            )
        if other is not self:  # a stream is in order with itself
            self.come_after(other)

    def come_after(self, other: DeviceStream) -> None:
        """Let what is given to this stream from now on wait for all that ``other`` was given."""
        with self._changed:
            self._waits.append((other, other.reached()))

    def synchronize(self) -> None:
        """Return when all operations given to this stream so far have ended.

        Raises:
            DeviceError: ML405 (a ValueError), one of them failed since the last call.
        """
        self.wait_until(self._started)
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise DeviceError(
                "ML405",
                f"an operation on a stream of {self._device} failed: {error}",
                fix="see the error that this one was raised from",
            ) from error

    def run(self, operation: Callable[[], object]) -> None:
        """Run ``operation`` in this thread, at its place in the stream's order.

        An exception of the operation goes to the caller, and is reported once more by the
        next `synchronize`, which may be in another thread.
        """
        with self._changed:
            turn = self._started
            self._started += 1
            waits, self._waits = self._waits, []
        for stream, count in waits:
            stream.wait_until(count)
        self.wait_until(turn)
        try:
            operation()
        except Exception as error:
            self._error = error
            emit("warning", "stream", message=str(error))
            raise
        finally:
            with self._changed:
                self._ended += 1
                self._changed.notify_all()

    def give(self, work: Callable[[], object], watcher: Watcher | None = None) -> None:
        """Do ``work`` now, on the host; an accelerator is given what it calls of the backend.

        Args:
            work: What is to be done.
            watcher: What sees it.
        """
        begin_ns = time.monotonic_ns()
        work()
        if watcher is not None:
            watcher.moved(begin_ns, time.monotonic_ns())

    def bytes_at(self, address: int, nbytes: int) -> Any:
        """The ``nbytes`` at ``address``, an array of uint8: the host's own memory, or a copy of
        what is there on an accelerator when its work has come that far."""
        if not nbytes:
            return np.zeros(0, np.uint8)
        return np.frombuffer(ffi.buffer(ffi.cast("char *", address), nbytes), np.uint8)

    def fill_bytes(self, address: int, value: int, nbytes: int) -> None:
        """Set each of the ``nbytes`` at ``address`` to ``value``, in the order of the stream."""
        if nbytes:
            ffi.buffer(ffi.cast("char *", address), nbytes)[:] = bytes([value]) * nbytes

    def copy_bytes(self, target: int, source: int, nbytes: int) -> None:
        """Copy ``nbytes`` within the memory of the device, in the order of the stream."""
        ffi.memmove(ffi.cast("char *", target), ffi.cast("char *", source), nbytes)

    def reached(self) -> Any:
        """A mark of all that was given to the stream so far, for `wait_until`."""
        return self._started

    def wait_until(self, reached: Any) -> None:
        """Return when the stream has come to what `reached` gave."""
        with self._changed:
            while self._ended < reached:
                self._changed.wait()

    def __repr__(self) -> str:
        name = "default" if self is self._device.default_stream else f"{id(self):#x}"
        return f"DeviceStream({name} of {self._device})"


def system_memory() -> dict[str, int]:
    """The host's memory in bytes; what a container may use counts, where it is told."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = os.sysconf("SC_PHYS_PAGES") * page
    free = os.sysconf("SC_AVPHYS_PAGES") * page
    try:
        with open("/proc/meminfo", encoding="ascii") as info:
            for line in info:
                if line.startswith("MemAvailable:"):
                    free = int(line.split()[1]) * 1024
                    break
    except OSError:
        pass
    return {"total_memory": total, "free_memory": free}


@fitting("ML975", "maxlab.device('cpu')")
def device_named(name: Any) -> Device:
    """The device that ``name`` names: ``"cpu"``, ``"gpu"``, ``"gpu:1"``; ``cuda`` is a GPU too. A
    device, a reference to one or a ``torch.device`` stands for itself.

    Raises:
        ArgumentTypeError: ML421 (a TypeError), it names none.
        DeviceError: ML401, the device is not there.

    Example:
        >>> from maxlab.driver.device import device_named
        >>> device_named("cpu")
        Device(type=cpu,id=0)
    """
    if isinstance(name, Device):
        return name
    if hasattr(name, "device_type"):  # a reference, as graphs have them
        named: Device = name.to_device()
        return named
    told = _told(name)
    if told is None:
        raise ArgumentTypeError(
            "ML421",
            f"no device is called {shown(name)}",
            fix='write "cpu" or "gpu:0", or driver.CPU() and driver.Accelerator(0)',
        )
    found: Device = reading("open_device")(*told)
    return found


def _told(name: object) -> tuple[str, int] | None:
    """The label and id of the device that ``name``, a text, a reference or a ``torch.device``,
    stands for; None of other objects."""
    kind = type(name)  # of torch its devices alone: some tensors cannot be printed
    is_torch = (kind.__module__, kind.__name__) == ("torch", "device")
    if not (isinstance(name, str) or is_torch or hasattr(name, "device_type")):
        return None
    match = re.fullmatch(r"(cpu|gpu|cuda)(?::(\d{1,9}))?", str(name))
    return None if match is None else (match[1].replace("cuda", "gpu"), int(match[2] or 0))


def stream_of(target: object) -> DeviceStream:
    """The stream that a stream, a device or nothing stands for."""
    if target is None:
        return CPU().default_stream
    if isinstance(target, DeviceStream):
        return target
    if isinstance(target, Device):
        return target.default_stream
    if isinstance(target, str):
        return device_named(target).default_stream
    raise ArgumentTypeError(
        "ML421",
        f"expected a Device or a DeviceStream, got {type(target).__name__}",
        fix="write driver.CPU() or driver.Accelerator()",
    )


def one_stream(stream: object, device: object) -> DeviceStream:
    """The stream meant by a stream, a device, or both if the stream is the device's."""
    found = stream_of(device if stream is None else stream)
    if stream is not None and device is not None and found._device is not device:
        raise ArgumentTypeError(
            "ML421",
            f"the stream {stream} is not of the device {device}",
            fix="give the stream alone; it knows its device",
        )
    return found


class _Module(ModuleType):
    """This module, which refuses to be called as PyTorch's ``torch.device`` is."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise ArgumentTypeError(
            "ML970",
            "driver.device is a module and cannot be called",
            fix="write driver.CPU() or driver.Accelerator()",
        )


sys.modules[__name__].__class__ = _Module
