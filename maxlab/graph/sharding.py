"""How weights are cut into shards, one for each device: ``ShardingStrategy``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from maxlab.errors import ArgumentError
from maxlab.graph.build import as_int
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.ir import Shape, StaticDim
from maxlab.opset.rules import axis_of


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of a weight that a shard is: of ``source``, whose shape is ``whole``, the ranges
    ``parts`` along ``axis``, as ``(start, stop, start, stop, …)``; all of it without ranges."""

    source: str
    whole: Shape
    axis: int
    parts: tuple[int, ...]

    @property
    def shape(self) -> Shape:
        """The shape of the shard."""
        if not self.parts:
            return self.whole
        size = sum(self.parts[1::2]) - sum(self.parts[::2])
        return Shape([*self.whole[: self.axis], size, *self.whole[self.axis + 1 :]])


@dataclass(frozen=True, slots=True)
class ShardingStrategy:
    """A way to cut a weight for several devices.

    Make one with ``rowwise``, ``columnwise``, ``axiswise``, ``heads``, ``stacked_qkv`` or
    ``replicate``.

    Args:
        num_devices: How many shards there are.
        axis: The axis that is cut; None gives every device the whole weight.
        unit: How many elements along the axis stay together.
        stacked: How many equal blocks lie behind each other along the axis, each of which is cut.

    Raises:
        ArgumentError: ML785, a number that is not positive.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, ShardingStrategy, Weight
        >>> w = Weight("w", DType.float32, [10, 4], DeviceRef.CPU())
        >>> w.sharding_strategy = ShardingStrategy.rowwise(3)
        >>> [shard.shape for shard in w.shard([DeviceRef.GPU(i) for i in range(3)])]
        [[Dim(4), Dim(4)], [Dim(3), Dim(4)], [Dim(3), Dim(4)]]
    """

    num_devices: int
    axis: int | None = None
    unit: int = 1
    stacked: int = 1

    def __post_init__(self) -> None:
        for name in ("num_devices", "unit", "stacked"):
            number = as_int("ShardingStrategy", getattr(self, name), name)
            if number < 1:
                raise _refused(f"ShardingStrategy: {name} must be 1 or more, got {number}")

    @staticmethod
    def replicate(num_devices: int) -> ShardingStrategy:
        """Every device has the whole weight."""
        return ShardingStrategy(num_devices)

    @staticmethod
    def rowwise(num_devices: int) -> ShardingStrategy:
        """Each device has some rows: of a linear layer's ``[out, in]``, some of the outputs."""
        return ShardingStrategy(num_devices, axis=0)

    @staticmethod
    def columnwise(num_devices: int) -> ShardingStrategy:
        """Each device has some columns: of a linear layer's ``[out, in]``, some of the inputs."""
        return ShardingStrategy(num_devices, axis=1)

    @staticmethod
    def axiswise(axis: int, num_devices: int) -> ShardingStrategy:
        """Each device has a part along ``axis``, which counts from the end when it is negative."""
        return ShardingStrategy(num_devices, axis=axis)

    @staticmethod
    def heads(num_devices: int, head_dim: int, axis: int = 1) -> ShardingStrategy:
        """As ``axiswise``, with the ``head_dim`` elements of a head on one device."""
        return ShardingStrategy(num_devices, axis, head_dim)

    @staticmethod
    def stacked_qkv(num_devices: int, head_dim: int) -> ShardingStrategy:
        """Rows of queries, keys and values that lie behind each other, as many of each: a device
        has the same heads of all three."""
        return ShardingStrategy(num_devices, 0, head_dim, stacked=3)

    def cuts(
        self, name: str, shape: Shape, encoding: QuantizationEncoding | None = None
    ) -> list[Cut]:
        """The part of each device. The first ones have one unit more where they do not come out
        even.

        Args:
            name: The name of the weight.
            shape: Its shape; that of its bytes when it is quantised.
            encoding: What its bytes stand for; blocks are not cut.

        Raises:
            AxisError: ML303, the weight does not have the axis.
            ArgumentError: ML785, the axis has no known size, or cannot be cut into so many parts.
        """
        what = f"the weight {name!r}"
        axis = 0 if self.axis is None else axis_of(self.axis, shape.rank, f"sharding {what}")
        if self.axis is None:
            return [Cut(name, shape, axis, ())] * self.num_devices
        size = shape[axis]
        if not isinstance(size, StaticDim):
            raise _refused(f"{what} has the size {size} at axis {axis}, which only a run can tell")
        unit = self._unit(what, axis == shape.rank - 1, encoding)
        block, rest = divmod(size.dim, self.stacked)
        count, more = divmod(block, unit)
        if rest or more or count < self.num_devices:
            blocks = f" in {self.stacked} blocks" if self.stacked > 1 else ""
            raise _refused(
                f"{what} has {size} elements at axis {axis}{blocks}, which are not "
                f"{self.num_devices} parts or more of {unit}"
            )
        each, extra = divmod(count, self.num_devices)
        first = [i * each + min(i, extra) for i in range(self.num_devices + 1)]
        found = []
        for start, stop in itertools.pairwise(first):
            parts: list[int] = []
            for number in range(self.stacked):
                parts += [number * block + start * unit, number * block + stop * unit]
            found.append(Cut(name, shape, axis, _joined(parts)))
        return found

    def _unit(self, what: str, last: bool, encoding: QuantizationEncoding | None) -> int:
        """How many elements of the axis stay together; bytes where it is that of the blocks."""
        if encoding is None or not last:
            return self.unit
        if not encoding.is_gguf:
            raise _refused(f"{what} is {encoding.value}, whose last axis cannot be cut")
        blocks = math.lcm(self.unit, encoding.elements_per_block) // encoding.elements_per_block
        return blocks * encoding.block_size


def _joined(parts: Sequence[int]) -> tuple[int, ...]:
    """``parts`` with ranges that touch made one."""
    found = list(parts[:2])
    for start, stop in zip(parts[2::2], parts[3::2], strict=True):
        if found[-1] == start:
            found[-1] = stop
        else:
            found += [start, stop]
    return tuple(found)


def _refused(what: str) -> ArgumentError:
    return ArgumentError("ML785", what, fix="choose another strategy, or another number of devices")


__all__ = ["Cut", "ShardingStrategy"]
