"""Accelerators: how many there are, why there are none, and the device object of each.

There are two kinds, NVIDIA's GPUs through ``driver.cuda`` and simulated ones. Simulated devices
stand in for real ones only when `use_simulator` or ``MAXLAB_SIMULATOR`` asks for them; nothing
falls back to them, or to the CPU, behind the user's back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

from maxlab.config import config
from maxlab.driver.backend import Backend, Context
from maxlab.driver.device import CPU, Device, DeviceStream, chosen_cpus
from maxlab.driver.gpu_memory import DevicePool
from maxlab.driver.gpu_stream import AcceleratorStream
from maxlab.dtype import StaticFunction
from maxlab.errors import ArgumentError, ArgumentTypeError, DeviceError, shown

K = TypeVar("K")

_backend: Backend | None = None
_opened: dict[tuple[Backend, int], Accelerator] = {}
_lock = threading.Lock()


class Accelerator(Device):
    """A GPU. One object stands for each id; the first memory limit given for it holds.

    Args:
        id: which accelerator; -1 is the first.
        device_memory_limit: most bytes that may be allocated on it; -1 is 99 % of the free
            memory.

    Raises:
        DeviceError: ML410 (a RuntimeError and a ValueError), there is no such accelerator,
            or no backend for it; says what is missing.

    Example:
        >>> from maxlab.driver import Accelerator, simulated
        >>> with simulated():
        ...     gpu = Accelerator()
        ...     gpu, gpu.api, gpu.label
        (Device(type=gpu,id=0,simulated), 'cuda', 'gpu')
    """

    __slots__ = ("_backend", "_context", "_pool")

    _backend: Backend
    _context: Context
    _pool: DevicePool
    _stream: AcceleratorStream

    def __new__(cls, id: int = -1, device_memory_limit: int = -1) -> Accelerator:
        if not isinstance(id, int) or id < -1:
            raise DeviceError(
                "ML410",
                f"an accelerator's id is an int of -1 or more, got {shown(id)}",
                fix="write Accelerator() for the first one",
            )
        limit = device_memory_limit
        if not isinstance(limit, int) or limit < -1 or limit == 0:
            raise DeviceError(
                "ML410",
                f"device_memory_limit must be a positive int, or -1, got {shown(limit)}",
                fix="give the limit in bytes",
            )
        number = max(id, 0)
        backend = _current()
        with _lock:
            found = _opened.get((backend, number))
            if found is None:
                if number >= backend.count():
                    raise DeviceError(
                        "ML410",
                        f"accelerator {shown(number)} was asked for, and there are "
                        f"{backend.count()}",
                        why=missing_for_accelerators(),
                        fix="use driver.CPU(), or driver.use_simulator() to run CUDA on the CPU",
                    )
                found = object.__new__(cls)
                found._id = number
                found._backend = backend
                found._context = backend.open(number)
                found._pool = DevicePool(found._context, limit)
                found._stream = AcceleratorStream(found, found._context.default_queue)
                _opened[backend, number] = found
        return found

    @property
    def context(self) -> Context:
        """The device as its backend opened it."""
        return self._context

    @property
    def pool(self) -> DevicePool:
        """Its memory."""
        return self._pool

    @property
    def default_stream(self) -> AcceleratorStream:
        """The stream that tensors use when none is given."""
        return self._stream

    @property
    def api(self) -> str:
        """``"cuda"``: how it is programmed, simulated or not."""
        return "cuda"

    @property
    def label(self) -> str:
        """``"gpu"``."""
        return "gpu"

    @property
    def is_compatible(self) -> bool:
        """True: what a backend opens can run graphs."""
        return True

    @property
    def alignment(self) -> int:
        """Fresh memory of the device begins at multiples of so many bytes."""
        return 256

    @property
    def simulated(self) -> bool:
        """True if its kernels run on the CPU."""
        return self._context.properties.simulated

    @property
    def architecture_name(self) -> str:
        """``"sm_90"`` and the like; a simulated device has the limits of the one it names."""
        return self._context.properties.architecture

    @property
    def stats(self) -> dict[str, Any]:
        """Memory in bytes: ``total_memory`` and ``free_memory`` of the device; what tensors hold,
        ``used_memory`` in ``allocations`` blocks and at most ``peak_memory`` so far;
        ``pooled_memory`` for reuse; ``memory_limit``. And what the device was told to do:
        ``launches``, ``uploads``, ``downloads`` and the other fields of `backend.Counters`.
        """
        held = self._pool.stats()
        free, total = self._context.call(self._context.memory)
        return {
            "total_memory": total,
            "free_memory": free,
            "used_memory": held.live,
            "allocations": held.blocks,
            "pooled_memory": held.pooled,
            "peak_memory": self._pool.peak,
            "memory_limit": self._pool.limit,
            **asdict(self._context.counters),
        }

    def can_access(self, other: Device) -> bool:
        """True if this device can address the memory of ``other`` directly."""
        if not isinstance(other, Accelerator):
            return False
        return other is self or (
            other._backend is self._backend and self._context.can_access(other._context)
        )

    def _stream_type(self) -> type[DeviceStream]:
        return AcceleratorStream

    def __repr__(self) -> str:
        kind = ",simulated" if self.simulated else ""
        return f"Device(type=gpu,id={self._id}{kind})"


def _current() -> Backend:
    """The backend that accelerators come from now."""
    global _backend
    if _backend is None:
        if config().simulator:
            from maxlab.driver.sim.device import SimBackend

            _backend = SimBackend(config().simulator, check=config().simulator_check)
        else:
            from maxlab.driver.cuda import backend

            _backend = backend
    return _backend


def use_simulator(count: int = 1, *, check: bool = False) -> None:
    """Let accelerators be ``count`` simulated GPUs from now on; 0 gives the real ones back.

    The same CUDA text that a GPU would run is compiled by g++ and runs on the CPU. Devices and
    tensors that were made before go on working. ``MAXLAB_SIMULATOR=1`` in the environment does
    this for a whole process.

    Args:
        count: how many devices there shall be.
        check: see every access of every kernel, as compute-sanitizer does: races, strays and
            barriers that not all threads reach raise with the line. Ten times slower or more.

    Raises:
        ArgumentError: ML447 (a ValueError), a negative count.

    Example:
        >>> from maxlab import driver
        >>> driver.use_simulator()
        >>> driver.Accelerator()
        Device(type=gpu,id=0,simulated)
        >>> driver.use_simulator(0)
    """
    global _backend
    if not isinstance(count, int) or count < 0:
        raise ArgumentError(
            "ML447",
            f"the number of simulated devices must be an int of 0 or more, got {shown(count)}",
            fix="write use_simulator() for one",
        )
    if count:
        from maxlab.driver.sim.device import SimBackend

        _backend = SimBackend(count, check=check)
    else:
        from maxlab.driver.cuda import backend

        _backend = backend


@contextmanager
def simulated(count: int = 1, *, check: bool = False) -> Iterator[None]:
    """A block in which accelerators are simulated; see `use_simulator`.

    Example:
        >>> from maxlab import driver
        >>> with driver.simulated(2):
        ...     driver.accelerator_count()
        2
    """
    global _backend
    before = _backend
    use_simulator(count, check=check)
    try:
        yield
    finally:
        made, _backend = _backend, before
        with _lock:
            for key in [k for k in _opened if k[0] is made]:
                del _opened[key]


def opened_accelerators() -> list[Accelerator]:
    """The accelerators that this process has opened."""
    return list(_opened.values())


def accelerators_of(devices: Mapping[K, Device]) -> dict[K, Accelerator]:
    """Those of ``devices`` that are accelerators."""
    return {key: device for key, device in devices.items() if isinstance(device, Accelerator)}


def missing_for_accelerators() -> list[str]:
    """Lines that name each thing that keeps this process from using an accelerator."""
    return _current().missing()


def accelerator_count() -> int:
    """The number of accelerators that graphs can run on."""
    return _current().count()


def _accelerator_ids() -> range:
    """The ids of the accelerators that can be opened."""
    return range(accelerator_count())


def accelerator_api() -> str:
    """How the accelerator is programmed, ``"cuda"`` or ``"hip"``; ``"cpu"`` if there is none."""
    return _first_device().api


def accelerator_architecture_name() -> str:
    """The architecture of the accelerator, such as ``"sm_90"``.

    Raises:
        DeviceError: ML402 (a ValueError), there is no accelerator.
    """
    return _first_device().architecture_name


def _first_device() -> Device:
    return Accelerator() if accelerator_count() else CPU()


@dataclass(frozen=True)
class DeviceSpec:
    """Which device to create: its number and its type.

    Raises:
        DeviceError: ML411 (a ValueError), an id that is no int, a GPU with a negative one, or an
            unknown type.

    Example:
        >>> DeviceSpec.cpu()
        DeviceSpec(id=-1, device_type='cpu')
    """

    id: int
    """The number of the device; -1 is any CPU."""

    device_type: Literal["cpu", "gpu"] = "cpu"
    """``"cpu"`` or ``"gpu"``."""

    def __post_init__(self) -> None:
        kind = self.device_type
        if not isinstance(kind, str) or kind not in ("cpu", "gpu"):
            raise DeviceError(
                "ML411",
                f"device_type is 'cpu' or 'gpu', got {shown(kind)}",
                fix="use DeviceSpec.cpu() or DeviceSpec.accelerator()",
            )
        least = 0 if kind == "gpu" else -1
        if not isinstance(self.id, int) or not least <= self.id < 1 << 31:
            raise DeviceError(
                "ML411",
                f"{shown(self.id)} is not the id of a {kind} device",
                fix="count devices from 0",
            )

    @StaticFunction
    def accelerator(id: int = 0) -> DeviceSpec:  # noqa: N805
        """The specification of accelerator ``id``."""
        return DeviceSpec(id, "gpu")

    @StaticFunction
    def cpu(id: int = -1) -> DeviceSpec:  # noqa: N805
        """The specification of the host."""
        return DeviceSpec(id, "cpu")


def scan_available_devices() -> list[DeviceSpec]:
    """A specification of every accelerator, or of the CPU if there is none."""
    found = [DeviceSpec(number, "gpu") for number in _accelerator_ids()]
    return found or [DeviceSpec.cpu()]


def devices_exist(devices: Sequence[DeviceSpec]) -> bool:
    """True if each of ``devices`` can be created; the CPU always can, and where there are virtual
    CPUs, as many as there are.

    Raises:
        ArgumentTypeError: ML411, ``devices`` is no sequence of specifications.
    """
    ids = _accelerator_ids()
    cpus = len(chosen_cpus)
    return all(
        not cpus or spec.id < cpus if spec.device_type == "cpu" else spec.id in ids
        for spec in _specs(devices)
    )


def load_devices(device_specs: Sequence[DeviceSpec]) -> list[Device]:
    """The devices of ``device_specs``, in their order.

    Raises:
        DeviceError: ML410 (a ValueError), one of them is not there.
        ArgumentTypeError: ML411, ``device_specs`` is no sequence of specifications.
    """
    return [
        CPU(spec.id) if spec.device_type == "cpu" else Accelerator(spec.id)
        for spec in _specs(device_specs)
    ]


def open_device(device_type: str, id: int) -> Device:
    """The device of this type, ``"cpu"`` or ``"gpu"``, and number.

    Raises:
        DeviceError: ML410 (a ValueError), it is not there.
    """
    return CPU(id) if device_type == "cpu" else Accelerator(id)


def _specs(given: Sequence[DeviceSpec]) -> Sequence[DeviceSpec]:
    """``given``, which must be a list or another sequence of specifications.

    Raises:
        ArgumentTypeError: ML411, it is none.
    """
    if not isinstance(given, Sequence) or not all(isinstance(one, DeviceSpec) for one in given):
        raise ArgumentTypeError(
            "ML411",
            f"devices must be a list of DeviceSpec, got {shown(given)}",
            fix="write [DeviceSpec.cpu(), DeviceSpec.accelerator(0)]",
        )
    return given
