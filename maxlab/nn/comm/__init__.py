"""Communication between devices: signal buffers, and the layer that adds up what each has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from maxlab.driver import CPU, Accelerator, Device, Tensor, accelerator_count, cpu_count
from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.graph import BufferType, BufferValue, DeviceRef, TensorValue, ops
from maxlab.nn.module import Module


class Signals:
    """The signal buffers of several devices: a graph with collectives takes one of each.

    They stand for the devices that take part, and for the memory that peers may exchange through.
    The collectives of this version are ordered by streams and events, and leave the buffers alone.

    Args:
        devices: The devices that communicate, each once.

    Raises:
        ArgumentError: ML435 (a ValueError), a device is named twice.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.graph import DeviceRef
        >>> signals = nn.comm.Signals([DeviceRef.GPU(0), DeviceRef.GPU(1)])
        >>> [str(type.device) for type in signals.input_types()]
        ['gpu:0', 'gpu:1']
    """

    NUM_BYTES: ClassVar[int] = 537_919_488
    """The bytes of a signal buffer: 1 MiB of flags, and 512 MiB for what is on its way."""

    devices: list[DeviceRef]
    """The devices that communicate."""

    def __init__(self, devices: Iterable[DeviceRef]) -> None:
        self.devices = [DeviceRef.from_device(device) for device in devices]
        if len(set(self.devices)) < len(self.devices):
            raise ArgumentError(
                "ML435",
                f"Signals: a device is named twice: {', '.join(map(str, self.devices))}",
                fix="name each device once",
            )

    def buffers(self) -> list[Tensor]:
        """A new buffer on each device, its content undefined: ``[NUM_BYTES]`` of uint8.

        On the host, virtual CPUs and simulated devices it takes no memory until something writes
        to it.

        Raises:
            DeviceError: ML410 or ML433, one of the devices is not there; ML403, it has not enough
                memory.
        """
        return [
            Tensor(DType.uint8, [self.NUM_BYTES], device=device.to_device())
            for device in self.devices
        ]

    def input_types(self) -> list[BufferType]:
        """The types of the inputs by which a graph takes the buffers."""
        return [BufferType(DType.uint8, [self.NUM_BYTES], device) for device in self.devices]


class Allreduce(Module):
    """The sum of what each of several devices has, on all of them.

    Where a device can address the memory of another, it reads from there; where it cannot, what is
    to be added goes through the host.

    Args:
        num_accelerators: How many devices take part: accelerators, or where there are none, as many
            CPU devices (``driver.virtual_cpus``).

    Raises:
        ArgumentError: ML437 (a ValueError), fewer than 1.
        DeviceError: ML410 (a ValueError), there are not as many.

    Example:
        >>> from maxlab import driver, nn
        >>> with driver.virtual_cpus(2):
        ...     nn.comm.Allreduce(2).devices
        [Device(type=cpu,id=0), Device(type=cpu,id=1,virtual)]
    """

    devices: list[Device]
    """The devices that take part."""

    def __init__(self, num_accelerators: int) -> None:
        count = num_accelerators
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ArgumentError(
                "ML437",
                f"Allreduce: num_accelerators must be an int of 1 or more, got {count!r}",
                fix="pass the number of devices that take part",
            )
        on_cpus = not accelerator_count() and count <= cpu_count()
        self.devices = [CPU(n) if on_cpus else Accelerator(n) for n in range(count)]

    def __call__(
        self, inputs: Iterable[TensorValue], signal_buffers: Iterable[BufferValue]
    ) -> list[TensorValue]:
        """The sum of ``inputs``, one tensor of each device, on each of these devices.

        Raises:
            ArgumentError: ML437, another number of inputs than of devices; ML435, as
                ``ops.allreduce.sum`` says.
        """
        values = list(inputs)
        if len(values) != len(self.devices):
            raise ArgumentError(
                "ML437",
                f"Allreduce: it was made for {len(self.devices)} devices, got {len(values)} inputs",
                fix="pass one tensor of each device",
            )
        return ops.allreduce.sum(values, signal_buffers)


__all__ = ["Allreduce", "Signals"]
