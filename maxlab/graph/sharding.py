"""How a weight is cut into shards, one for each of several devices.

A strategy says which ranges of which axes a shard takes. Nothing is computed in the graph: a shard
is a part of the one array in the weights registry, and only that part is brought to its device,
when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from maxlab.errors import ArgumentError, ShapeError
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.staged import placed
from maxlab.ir import Shape, StaticDim

Range: TypeAlias = tuple[int, int]
Part: TypeAlias = tuple[tuple[Range, ...], ...]
"""For each axis, the (start, stop) of each run of indices, one behind the other."""


class Whole(Protocol):
    """The facts of a weight that a cut needs."""

    name: str
    quantization_encoding: QuantizationEncoding | None

    @property
    def shape(self) -> Shape:
        """The dims of its data."""
        ...


def share(size: int, index: int, count: int) -> Range:
    """The part of ``range(size)`` that number ``index`` of ``count`` gets; the first ones get one
    more where it does not divide.

    Example:
        >>> [share(8, n, 3) for n in range(3)]
        [(0, 3), (3, 6), (6, 8)]
    """
    even, rest = divmod(size, count)
    start = index * even + min(index, rest)
    return start, start + even + (index < rest)


@dataclass(frozen=True)
class ShardingStrategy:
    """How a weight is cut. Its static methods make the usual ones.

    Attributes:
        num_devices: How many shards there are.
        name: Which strategy it is, such as ``"rowwise"``.
        cut: From the shape of the whole weight and the number of a shard to what the shard takes.

    Raises:
        ArgumentError: ML795 (a ValueError), not a positive number of devices.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, ShardingStrategy, Weight
        >>> w = Weight("w", DType.float32, [6, 4], DeviceRef.CPU())
        >>> w.sharding_strategy = ShardingStrategy.rowwise(2)
        >>> w.shard([DeviceRef.CPU(0), DeviceRef.CPU(1)])[1].shape
        [Dim(3), Dim(4)]
    """

    num_devices: int
    name: str
    cut: Callable[[Sequence[int], int], Part]

    def __post_init__(self) -> None:
        require_positive(f"{self.name}: num_devices", self.num_devices)

    @staticmethod
    @placed
    def rowwise(num_devices: int) -> ShardingStrategy:
        """Shards of the first axis."""
        return _along("rowwise", num_devices, 0)

    @staticmethod
    @placed
    def columnwise(num_devices: int) -> ShardingStrategy:
        """Shards of the second axis."""
        return _along("columnwise", num_devices, 1)

    @staticmethod
    @placed
    def axiswise(axis: int, num_devices: int) -> ShardingStrategy:
        """Shards of ``axis``, which counts from the end when it is negative."""
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise ArgumentError("ML795", f"axiswise: the axis must be an int, got {axis!r}")
        return _along("axiswise", num_devices, axis)

    @staticmethod
    @placed
    def replicate(num_devices: int) -> ShardingStrategy:
        """The whole weight for each device."""

        def cut(shape: Sequence[int], index: int) -> Part:
            return tuple(((0, size),) for size in shape)

        return ShardingStrategy(num_devices, "replicate", cut)

    @staticmethod
    @placed
    def head_aware_columnwise(num_devices: int, num_heads: int, head_dim: int) -> ShardingStrategy:
        """Shards of the second axis, ``[…, num_heads * head_dim]``, that keep heads in one piece:
        for the projection behind attention.
        """
        require_positive("head_aware_columnwise: num_heads", num_heads)
        require_positive("head_aware_columnwise: head_dim", head_dim)

        def cut(shape: Sequence[int], index: int) -> Part:
            _require_size("head_aware_columnwise", shape, 1, num_heads * head_dim)
            start, stop = _some("head_aware_columnwise", num_heads, index, num_devices)
            return _with(shape, 1, [(start * head_dim, stop * head_dim)])

        return ShardingStrategy(num_devices, "head_aware_columnwise", cut)

    @staticmethod
    @placed
    def stacked_qkv(num_devices: int, num_heads: int, head_dim: int) -> ShardingStrategy:
        """Shards of queries, keys and values that lie behind each other along the first axis, each
        of ``num_heads * head_dim`` rows: every shard has the same heads of the three.
        """
        require_positive("stacked_qkv: num_heads", num_heads)
        require_positive("stacked_qkv: head_dim", head_dim)

        def cut(shape: Sequence[int], index: int) -> Part:
            rows = num_heads * head_dim
            _require_size("stacked_qkv", shape, 0, 3 * rows)
            start, stop = _some("stacked_qkv", num_heads, index, num_devices)
            runs = [(n * rows + start * head_dim, n * rows + stop * head_dim) for n in range(3)]
            return _with(shape, 0, runs)

        return ShardingStrategy(num_devices, "stacked_qkv", cut)

    @staticmethod
    @placed
    def expert_parallel(num_devices: int) -> ShardingStrategy:
        """Shards of a mixture of experts that have some of the experts, whole; see ``nn.moe.MoE``.
        Of other weights every shard has the whole.
        """
        return ShardingStrategy(
            num_devices, "expert_parallel", ShardingStrategy.replicate(num_devices).cut
        )

    @property
    def is_rowwise(self) -> bool:
        """Whether shards are rows."""
        return self.name == "rowwise"

    @property
    def is_colwise(self) -> bool:
        """Whether shards are columns."""
        return self.name == "columnwise"

    @property
    def is_replicate(self) -> bool:
        """Whether every shard is the whole weight."""
        return self.name == "replicate"

    @property
    def is_expert_parallel(self) -> bool:
        """Whether shards have some of the experts."""
        return self.name == "expert_parallel"

    @property
    def is_head_aware_colwise(self) -> bool:
        """Whether shards are columns of whole heads."""
        return self.name == "head_aware_columnwise"

    @property
    def is_stacked_qkv(self) -> bool:
        """Whether shards are heads of queries, keys and values."""
        return self.name == "stacked_qkv"


def part_of(weight: Whole, strategy: ShardingStrategy, index: int) -> Part:
    """The part of the data of ``weight`` that shard ``index`` takes; of a quantised one, in bytes.

    Raises:
        ShapeError: ML798, the weight cannot be cut so.
    """
    what = f"the weight {weight.name!r}"
    if not all(isinstance(dim, StaticDim) for dim in weight.shape):
        raise ShapeError(
            "ML798",
            f"{what} has the shape [{', '.join(map(str, weight.shape))}], which is not static",
            fix="give a weight that is sharded a shape of ints",
        )
    shape = [int(dim) for dim in weight.shape]
    encoding = weight.quantization_encoding
    if encoding is None or not shape:
        return strategy.cut(shape, index)
    if not encoding.is_gguf:
        part = strategy.cut(shape, index)
        if part[-1] != ((0, shape[-1]),):
            raise ShapeError(
                "ML798",
                f"{what} is packed as {encoding.value}, whose last axis cannot be cut",
                fix="shard it along another axis, or replicate it",
            )
        return part
    elements, nbytes = encoding.elements_per_block, encoding.block_size
    part = strategy.cut([*shape[:-1], shape[-1] // nbytes * elements], index)
    if any(place % elements for run in part[-1] for place in run):
        raise ShapeError(
            "ML798",
            f"{what} is quantised in blocks of {elements} numbers, and {strategy.name} would cut "
            "through one",
            fix="use a number of devices that divides the blocks of a row, or shard another axis",
        )
    last = tuple((a // elements * nbytes, b // elements * nbytes) for a, b in part[-1])
    return (*part[:-1], last)


def require_positive(what: str, number: object) -> None:
    """Raises unless ``number`` is a positive int.

    Raises:
        ArgumentError: ML795.
    """
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ArgumentError("ML795", f"{what} must be an int of 1 or more, got {number!r}")


def _along(name: str, num_devices: int, axis: int) -> ShardingStrategy:
    def cut(shape: Sequence[int], index: int) -> Part:
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(
                "ML798",
                f"{name}: a weight of the shape {list(shape)} has no axis {axis}",
                fix="use ShardingStrategy.replicate",
            )
        place = axis % len(shape)
        return _with(shape, place, [_some(name, shape[place], index, num_devices)])

    return ShardingStrategy(num_devices, name, cut)


def _some(name: str, size: int, index: int, count: int) -> Range:
    if size < count:
        raise ShapeError(
            "ML798",
            f"{name}: {size} rows, columns or heads cannot be cut for {count} devices",
            fix="use fewer devices, or ShardingStrategy.replicate",
        )
    return share(size, index, count)


def _with(shape: Sequence[int], axis: int, runs: Sequence[Range]) -> Part:
    """All of every axis but ``axis``, of which it is ``runs``."""
    return tuple(tuple(runs) if n == axis else ((0, size),) for n, size in enumerate(shape))


def _require_size(name: str, shape: Sequence[int], axis: int, size: int) -> None:
    if len(shape) <= axis or shape[axis] != size:
        raise ShapeError(
            "ML798",
            f"{name}: axis {axis} of a weight must have the size {size} for these heads, the shape "
            f"is {list(shape)}",
            fix="check num_heads and head_dim",
        )


__all__ = ["Part", "ShardingStrategy", "part_of", "share"]
