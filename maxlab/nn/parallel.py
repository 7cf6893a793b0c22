"""``ColumnParallelLinear``: a linear map whose weight lies in parts on several devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ModuleError
from maxlab.graph import BufferValue, DeviceRef, ShardingStrategy, TensorValue, Weight, ops
from maxlab.nn.dense import Linear
from maxlab.nn.sharding import inputs_of, several


class ColumnParallelLinear(Linear):
    """A linear map whose rows of weight and bias lie in parts on several devices.

    Each device computes its part of the last dim of the output; then all get the whole output. No
    device holds the whole weight.

    Args:
        in_dim: The size of the last dim of the input.
        out_dim: The size of the last dim of the output, at least the number of devices.
        dtype: The element type of weight and bias.
        devices: The devices, each once.
        tied_weight: The weight of another layer to use, which that layer owns; it is cut by rows
            from now on. None for a weight of its own.
        **kwargs: As of ``Linear``.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML721, no device.
        ArgumentTypeError: ML712, ``tied_weight`` is not a ``Weight``.
        ModuleError: ML707, it has another shape; ML717 and ML782 as of ``Linear``.
        ShapeError: ML798, there are fewer rows than devices.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef
        >>> devices = [DeviceRef.CPU(n) for n in range(4)]
        >>> linear = nn.ColumnParallelLinear(64, 10, DType.float32, devices)
        >>> [shard.weight.shape[0] for shard in linear.shard(devices)]
        [Dim(3), Dim(3), Dim(2), Dim(2)]
    """

    devices: list[DeviceRef]

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        dtype: DType,
        devices: Sequence[DeviceRef],
        tied_weight: Weight | None = None,
        **kwargs: Any,
    ) -> None:
        places = several("ColumnParallelLinear", devices)
        super().__init__(in_dim, out_dim, dtype, places[0], **kwargs)
        if tied_weight is not None:
            own = self.weight
            self.set_shared_weight("weight", tied_weight)
            if list(tied_weight.shape) != list(own.shape):
                raise ModuleError(
                    "ML707",
                    f"ColumnParallelLinear: tied_weight has the shape {list(tied_weight.shape)}, "
                    f"expected {list(own.shape)}",
                    fix="tie a weight [out_dim, in_dim]",
                )
        self.devices = places
        self.sharding_strategy = ShardingStrategy.rowwise(len(places))

    def __call__(  # type: ignore[override]  # an input and an output for each device
        self,
        x: Sequence[TensorValue] | TensorValue,
        signal_buffers: Iterable[BufferValue] | None = None,
    ) -> list[TensorValue]:
        """The products, ``[..., out_dim]``, one on each device, all alike.

        Args:
            x: An input ``[..., in_dim]`` of each device, all alike; or one, which is brought to
                all.
            signal_buffers: A buffer on each device, such as ``nn.comm.Signals`` makes; without
                them the parts go to the other devices one by one.

        Raises:
            ArgumentError: ML437, another number of inputs than of devices; ML435, as
                ``ops.allgather`` says.
            ShapeError: ML203, the last dim of ``x`` is not ``in_dim``.
        """
        inputs = inputs_of("ColumnParallelLinear", x, self.devices)
        shards = super().shard(self.devices)
        parts = [Linear.__call__(shard, value) for shard, value in zip(shards, inputs, strict=True)]
        if signal_buffers is not None:
            return ops.allgather(parts, signal_buffers, axis=-1)
        if len(parts) == 1:
            return parts
        return [
            ops.concat([ops.transfer_to(part, device) for part in parts], axis=-1)
            for device in self.devices
        ]


__all__ = ["ColumnParallelLinear"]
