"""``ops.allreduce``: what devices have each, folded into one result that all of them get."""

from __future__ import annotations

from collections.abc import Iterable

from maxlab.graph.build import staged
from maxlab.graph.ops.collectives import collective
from maxlab.graph.value import BufferValue, TensorValue, TensorValueLike


@staged
def sum(
    inputs: Iterable[TensorValueLike], signal_buffers: Iterable[BufferValue]
) -> list[TensorValue]:
    """The sum of the inputs, one of each device: one result for each device, all alike.

    Every device adds in the order of the inputs, so that all of them come to the same bits; float16
    and bfloat16 are added in float32 and rounded once. The op has its place among the effects of
    all devices that take part.

    Args:
        inputs: Tensors on different devices, of one dtype and shape. None give none.
        signal_buffers: A buffer on the device of each input, such as ``nn.comm.Signals`` makes.

    Raises:
        ArgumentError: ML435 (a ValueError), inputs that share a device, or signal buffers that are
            not one for each input, on its device.
        ShapeError: ML436, the inputs have different shapes.
        DTypeError: ML110, they differ in their dtype; ML106, they are bools.
        ArgumentTypeError: ML776, a signal buffer is no buffer.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, ops
        >>> devices = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
        >>> types = [TensorType(DType.float32, ["n"], d) for d in devices]
        >>> signals = [BufferType(DType.uint8, [64], d) for d in devices]
        >>> with Graph("reduce", input_types=[*types, *signals]) as graph:
        ...     made = ops.allreduce.sum(graph.inputs[:2], graph.inputs[2:])
        ...     [f"{x.shape} on {x.device}" for x in made]
        ['[n] on cpu:0', '[n] on cpu:1']
    """
    return collective("allreduce.sum", inputs, signal_buffers)


__all__ = ["sum"]
