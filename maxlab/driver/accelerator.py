"""Accelerators: how many there are, and why there are none.

This build has one backend, the CPU. What is asked of an accelerator fails here, at the
first step, with what is missing; nothing falls back to the CPU behind the user's back.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from maxlab.driver.device import CPU, Device
from maxlab.dtype import StaticFunction
from maxlab.errors import DeviceError


class Accelerator(Device):
    """A GPU. One object stands for each id; the first memory limit given for it holds.

    Args:
        id: which accelerator; -1 is the first.
        device_memory_limit: most bytes that may be allocated on it; -1 is 99 % of the free
            memory.

    Raises:
        DeviceError: ML410 (a RuntimeError and a ValueError), there is no such accelerator,
            or no backend for it; says what is missing.
    """

    __slots__ = ()

    def __new__(cls, id: int = -1, device_memory_limit: int = -1) -> Accelerator:
        if id < -1:
            raise DeviceError(
                "ML410",
                f"an accelerator's id is -1 or more, got {id}",
                fix="write Accelerator() for the first one",
            )
        if device_memory_limit < -1 or device_memory_limit == 0:
            raise DeviceError(
                "ML410",
                f"device_memory_limit must be positive, or -1, got {device_memory_limit}",
                fix="give the limit in bytes",
            )
        raise DeviceError(
            "ML410",
            f"accelerator {max(id, 0)} was asked for, and there are {accelerator_count()}",
            why=missing_for_accelerators(),
            fix="use driver.CPU(), or choose by driver.accelerator_count()",
        )


def missing_for_accelerators() -> list[str]:
    """What stands between this process and an accelerator, a line each."""
    reasons = ["this build of maxlab has no CUDA backend"]
    if not os.path.exists("/dev/nvidiactl"):
        reasons.append("this machine shows no NVIDIA GPU (/dev/nvidiactl is missing)")
    return reasons


def accelerator_count() -> int:
    """The number of accelerators that graphs can run on."""
    return len(_accelerator_ids())


def _accelerator_ids() -> range:
    """The ids of the accelerators that a backend of this build can open."""
    return range(0)


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
        DeviceError: ML411 (a ValueError), a GPU with a negative id, or an unknown type.

    Example:
        >>> DeviceSpec.cpu()
        DeviceSpec(id=-1, device_type='cpu')
    """

    id: int
    """The number of the device; -1 is any CPU."""

    device_type: Literal["cpu", "gpu"] = "cpu"
    """``"cpu"`` or ``"gpu"``."""

    def __post_init__(self) -> None:
        if self.device_type not in ("cpu", "gpu"):
            raise DeviceError(
                "ML411",
                f"device_type is 'cpu' or 'gpu', got {self.device_type!r}",
                fix="use DeviceSpec.cpu() or DeviceSpec.accelerator()",
            )
        if self.id < (0 if self.device_type == "gpu" else -1):
            raise DeviceError(
                "ML411",
                f"{self.id} is not the id of a {self.device_type} device",
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
    """True if each of ``devices`` can be created; the CPU always can."""
    ids = _accelerator_ids()
    return all(spec.device_type == "cpu" or spec.id in ids for spec in devices)


def load_devices(device_specs: Sequence[DeviceSpec]) -> list[Device]:
    """The devices of ``device_specs``, in their order.

    Raises:
        DeviceError: ML410 (a ValueError), one of them is not there.
    """
    return [
        CPU(spec.id) if spec.device_type == "cpu" else Accelerator(spec.id) for spec in device_specs
    ]
