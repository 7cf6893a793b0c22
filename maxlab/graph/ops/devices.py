"""Where tensors live."""

from __future__ import annotations

from typing import Any, Final

from maxlab.errors import ArgumentError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import staged, tensor
from maxlab.graph.value import BufferValue, TensorValue, TensorValueLike
from maxlab.ir import DeviceRef
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "device"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def transfer_to(x: TensorValueLike, device: Any) -> TensorValue:
    """``x`` on ``device``; ``x`` itself when it lives there.

    Args:
        x: A tensor of any shape and dtype.
        device: A ``DeviceRef`` or ``driver.Device``.

    Raises:
        ArgumentTypeError: ML397, ``device`` is no device; ML317, ``x`` is not a tensor of the
            graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     ops.transfer_to(graph.inputs[0], DeviceRef.GPU()).device
        DeviceRef(gpu:0)
    """
    value = tensor(x, "transfer_to: the operand")
    place = DeviceRef.from_device(device)
    if value.device == place:
        return value
    return add_op("transfer", [value], device=place)


@staged
def assert_same_device(
    *values: TensorValue | BufferValue, **named_values: TensorValue | BufferValue
) -> None:
    """Raises unless all the values live on one device.

    Args:
        *values: Tensors and buffers.
        **named_values: More of them, under the names that the error shows.

    Raises:
        ArgumentError: ML304, they live on different devices; the message lists each.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> row = TensorType(DType.float32, ["n"])
        >>> with Graph("sum", input_types=[row, row]) as graph:
        ...     x, y = (value.tensor for value in graph.inputs)
        ...     ops.assert_same_device(x, y)
        ...     graph.output(x + y)
    """
    places = {f"operand {i}": v.device for i, v in enumerate(values)}
    places |= {name: v.device for name, v in named_values.items()}
    if len(set(places.values())) > 1:
        listed = ", ".join(f"{name} on {device}" for name, device in places.items())
        raise ArgumentError(
            "ML304",
            f"the values live on different devices: {listed}",
            fix="move them to one: ops.transfer_to(x, device)",
        )
