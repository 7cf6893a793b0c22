"""Collectives: one tensor of each device in, one for each device out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maxlab.errors import ArgumentError
from maxlab.graph.build import buffer, builder, staged, tensor
from maxlab.graph.value import BufferValue, TensorValue, TensorValueLike


def collective(
    name: str, inputs: Iterable[Any], signal_buffers: Iterable[Any], **attrs: Any
) -> list[TensorValue]:
    """The results of the op ``mo.<name>``, which has an effect on the devices of all inputs.

    Raises:
        ArgumentError: ML435, another number of signal buffers than of inputs.
    """
    values = [tensor(x, f"{name}: input {n}") for n, x in enumerate(inputs)]
    buffers = [buffer(x, f"{name}: signal buffer {n}") for n, x in enumerate(signal_buffers)]
    if len(values) != len(buffers):
        raise ArgumentError(
            "ML435",
            f"{name}: there are {len(values)} inputs and {len(buffers)} signal buffers",
            fix="pass one signal buffer for each input, on its device",
        )
    if not values:
        return []
    return list(builder(what=f"ops.{name}").op(name, [*values, *buffers], **attrs))


@staged
def allgather(
    inputs: Iterable[TensorValueLike], signal_buffers: Iterable[BufferValue], axis: int = 0
) -> list[TensorValue]:
    """The inputs, one of each device, joined along ``axis``: one result for each device, all alike.

    The op has its place among the effects of all devices that take part.

    Args:
        inputs: Tensors on different devices, of one dtype and rank; only their sizes along ``axis``
            may differ. None give none.
        signal_buffers: A buffer on the device of each input, such as ``nn.comm.Signals`` makes.
        axis: The axis to join them along; negative counts from the end.

    Raises:
        ArgumentError: ML435 (a ValueError), inputs that share a device, or signal buffers that are
            not one for each input, on its device.
        ShapeError: ML436, the inputs differ along another axis.
        DTypeError: ML110, they differ in their dtype.
        AxisError: ML303, there is no such axis.
        ArgumentTypeError: ML776, a signal buffer is no buffer.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, ops
        >>> devices = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
        >>> types = [TensorType(DType.float32, [2, 3], d) for d in devices]
        >>> signals = [BufferType(DType.uint8, [64], d) for d in devices]
        >>> with Graph("gather", input_types=[*types, *signals]) as graph:
        ...     made = ops.allgather(graph.inputs[:2], graph.inputs[2:])
        ...     [f"{x.shape} on {x.device}" for x in made]
        ['[4, 3] on cpu:0', '[4, 3] on cpu:1']
    """
    return collective("allgather", inputs, signal_buffers, axis=axis)


__all__ = ["allgather", "collective"]
