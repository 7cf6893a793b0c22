"""Layers that are cut for several devices: which axes a strategy cuts, and the layers of the
shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from maxlab.errors import ArgumentError, GraphError, ModuleError
from maxlab.graph import BufferValue, DeviceRef, ShardingStrategy, TensorValue, Weight, ops
from maxlab.graph.sharding import Part, part_of
from maxlab.nn.calls import Layer

L = TypeVar("L", bound=Layer)


def places_of(devices: Iterable[Any]) -> list[DeviceRef]:
    """``devices`` as references.

    Raises:
        ArgumentTypeError: ML397, something that is no device.
    """
    return [DeviceRef.from_device(device) for device in devices]


def several(what: str, devices: Sequence[DeviceRef]) -> list[DeviceRef]:
    """``devices``, of which there is at least one.

    Raises:
        ArgumentError: ML721, there is none.
    """
    places = places_of(devices)
    if not places:
        raise ArgumentError("ML721", f"{what}: devices is empty", fix="pass [DeviceRef.CPU()]")
    return places


def distribute_value(v: TensorValue, devices: Sequence[DeviceRef]) -> list[TensorValue]:
    """``v`` on each of ``devices``, in their order; where it lies already it is not copied.

    Args:
        v: The value.
        devices: The devices.

    Raises:
        ArgumentTypeError: ML397, something that is no device.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> from maxlab.nn.attention.attention_with_rope import distribute_value
        >>> places = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
        >>> with Graph("copies", input_types=[TensorType(DType.float32, [2], places[0])]) as graph:
        ...     [str(one.device) for one in distribute_value(graph.inputs[0].tensor, places)]
        ['cpu:0', 'cpu:1']
    """
    return [ops.transfer_to(v, device) for device in places_of(devices)]


def inputs_of(what: str, given: Any, devices: Sequence[DeviceRef]) -> list[TensorValue]:
    """The input of each device: ``given`` has them, or is one that is brought to all.

    Raises:
        ArgumentError: ML437, another number of inputs than of devices.
    """
    if not isinstance(given, (list, tuple)):
        return distribute_value(given, devices)
    if len(given) != len(devices):
        raise ArgumentError(
            "ML437",
            f"{what}: it was made for {len(devices)} devices, got {len(given)} inputs",
            fix="pass one tensor of each device",
        )
    return [ops.transfer_to(x, device) for x, device in zip(given, devices, strict=True)]


def total(parts: Sequence[TensorValue], device: DeviceRef) -> TensorValue:
    """The sum of ``parts``, in their order, on ``device``."""
    made = ops.transfer_to(parts[0], device)
    for part in parts[1:]:
        made = made + ops.transfer_to(part, device)
    return made


def sums(
    parts: Sequence[TensorValue],
    devices: Sequence[DeviceRef],
    signal_buffers: Iterable[BufferValue] | None,
) -> list[TensorValue]:
    """The sum of ``parts``, of which each device has one, on all of ``devices``.

    Args:
        parts: What is added, in the order of the devices.
        devices: The devices.
        signal_buffers: A buffer on each device, for the collective; without them the parts go to
            the other devices one by one.

    Raises:
        ArgumentError: ML435, as ``ops.allreduce.sum`` says.
    """
    if signal_buffers is not None:
        return ops.allreduce.sum(parts, signal_buffers)
    return [total(parts, device) for device in devices]


def axes_cut(weight: Weight, strategy: ShardingStrategy | None) -> set[int]:
    """The axes of ``weight`` that ``strategy`` cuts; none of them where it replicates.

    Raises:
        GraphError: ML381, ``strategy`` is no ``ShardingStrategy``.
        ShapeError: ML798, the weight cannot be cut so.
    """
    if strategy is None:
        return set()
    if not isinstance(strategy, ShardingStrategy):
        raise GraphError(
            "ML381",
            f"the weight {weight.name!r} would have the sharding strategy {strategy!r}, which is "
            "no ShardingStrategy",
            fix="pass ShardingStrategy.rowwise(2), for example",
        )
    sizes = [int(dim) for dim in weight.shape]
    found: set[int] = set()
    for index in range(strategy.num_devices):
        part = part_of(weight, strategy, index)
        found |= {axis for axis, runs in enumerate(part) if runs != ((0, sizes[axis]),)}
    return found


def along(weight: Weight, strategy: ShardingStrategy | None, axis: int) -> ShardingStrategy | None:
    """How a vector is cut that has a number for each index of ``axis`` of ``weight``: as that axis
    is by ``strategy``."""
    if strategy is None:
        return None

    def cut(shape: Sequence[int], index: int) -> Part:
        return (part_of(weight, strategy, index)[axis],)

    return ShardingStrategy(strategy.num_devices, strategy.name, cut)


def shards_of(weight: Weight | None, places: Sequence[DeviceRef]) -> list[Any]:
    """The shards of ``weight``; None for each place where there is no weight."""
    return [None] * len(places) if weight is None else weight.shard(places)


_OWN = ("_local_names", "_shared_weights", "_tree_cache", "_whole")


def shard_of(layer: L, **parts: Any) -> L:
    """A layer like ``layer``, but with the attributes ``parts``.

    Its weights, which are shards, stay with the whole layer in state dicts.
    """
    made: L = object.__new__(type(layer))
    for name, value in {**layer.__dict__, **parts}.items():
        if name not in _OWN:
            setattr(made, name, value)
    made.__dict__["_whole"] = (layer,)  # which names the weights; no layer below this one
    return made


def no_shards(what: str, places: Sequence[DeviceRef]) -> ModuleError:
    """The error that ``what`` has no strategy to cut it for ``places``."""
    return ModuleError(
        "ML719",
        f"{what} has no sharding strategy to cut it for {len(places)} devices",
        fix=f"set one first: layer.sharding_strategy = ShardingStrategy.replicate({len(places)})",
    )


def unfit(what: str, strategy: ShardingStrategy | None, fix: str) -> ModuleError:
    """The error that ``what`` cannot be cut by ``strategy``."""
    name = None if strategy is None else strategy.name
    return ModuleError("ML719", f"{what} cannot be sharded {name}", fix=fix)


__all__ = [
    "along",
    "axes_cut",
    "distribute_value",
    "inputs_of",
    "no_shards",
    "places_of",
    "several",
    "shard_of",
    "shards_of",
    "sums",
    "total",
    "unfit",
]
