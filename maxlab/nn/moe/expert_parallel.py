"""Mixtures of experts on several devices, each of which has some of the experts: tokens go to the
devices with their experts, and the results come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from maxlab.dtype import DType
from maxlab.errors import ModuleError, ShardCountError, shown
from maxlab.graph import BufferValue, DeviceRef, TensorValue, ops
from maxlab.nn.comm.ep import EPBatchManager, EPConfig
from maxlab.nn.moe.routing import Routing


class Mixture(Protocol):
    """The part that is called here of ``MoE``, or of a shard of it."""

    devices: list[DeviceRef]
    dtype: DType
    hidden_dim: int
    num_experts: int
    num_experts_per_token: int
    ep_size: int
    first_expert: int
    apply_router_weight_first: bool
    shared_experts: Any

    @property
    def sends_tokens(self) -> bool:
        """Whether tokens go to the devices with their experts."""
        ...

    @property
    def ep_batch_manager(self) -> EPBatchManager:
        """The manager that sends them."""
        ...

    def chosen(self, rows: TensorValue) -> tuple[TensorValue, TensorValue]:
        """The experts of each token, and their weights."""
        ...

    def computed(self, rows: TensorValue, routing: Routing) -> TensorValue:
        """The outputs of the experts for their rows."""
        ...

    def shard(self, devices: Iterable[DeviceRef]) -> list[Self]:
        """The shards of the layer."""
        ...


M = TypeVar("M", bound=Mixture)


def forward_moe_sharded_layers(
    layers: Sequence[Callable[[TensorValue], TensorValue]], xs: Sequence[TensorValue]
) -> list[TensorValue]:
    """The outputs of the shards of a layer, one for the tokens of each device.

    Shards of a ``MoE`` with ``ep_size`` send tokens to the devices with their experts; other shards
    are called one by one.

    Args:
        layers: The shards, one for each device.
        xs: The vectors of the tokens of each device, ``[tokens of the device, size]``.

    Raises:
        ShardCountError: ML467 (an AssertionError), another number of inputs than of shards.
        ModuleError: ML521, other shards than those of all devices.

    Example:
        >>> forward_moe_sharded_layers([lambda x: x + 1, lambda x: x * 2], [10, 20])
        [11, 40]
    """
    if len(layers) != len(xs):
        raise ShardCountError(
            "ML467",
            f"forward_moe_sharded_layers: {len(layers)} inputs, one for each layer, expected ≠ "
            f"{len(xs)} given",
            fix="pass one input of each device",
        )
    shards: list[Any] = list(layers)
    if not any(getattr(shard, "sends_tokens", False) for shard in shards):
        return [layer(x) for layer, x in zip(layers, xs, strict=True)]
    return exchange(shards, xs).outputs


@dataclass(eq=False)
class Exchange:
    """A call of a mixture on several devices.

    Attributes:
        outputs: The outputs for the tokens of each device.
        indices: The experts of the tokens of each device, integers ``[tokens, k]``.
        counts: How many vectors each device sent to each, int64 ``[devices]``.
    """

    outputs: list[TensorValue]
    indices: tuple[TensorValue, ...]
    counts: tuple[TensorValue, ...]


def exchange(shards: Sequence[Mixture], xs: Sequence[TensorValue]) -> Exchange:
    """The outputs of the shards of a layer, whose experts each get the tokens of all devices.

    Args:
        shards: The shards, one for each device.
        xs: The vectors of the tokens of each device.

    Raises:
        ModuleError: ML521, other shards than those of all devices.
    """
    first = shards[0]
    manager, many = first.ep_batch_manager, first.ep_size
    places = {shard.devices[0] for shard in shards}
    starts = [manager.config.experts_of(n).start for n in range(many)]
    fit = len(places) == many and [shard.first_expert for shard in shards] == starts
    if not fit or any(shard.ep_batch_manager is not manager for shard in shards):
        raise unfit_devices(
            f"{type(first).__name__}: all shards of a layer, on ep_size={many} different devices, "
            f"expected ≠ {len(shards)} on {', '.join(str(s.devices[0]) for s in shards)} given",
            "pass what shard gave for as many devices, in its order",
        )
    rows = [x if x.rank == 2 else ops.reshape(x, [-1, first.hidden_dim]) for x in xs]
    chosen = [shard.chosen(x) for shard, x in zip(shards, rows, strict=True)]
    weights = [ops.cast(given, x.dtype) for (_, given), x in zip(chosen, xs, strict=True)]
    for n, (x, (indices, _)) in enumerate(zip(rows, chosen, strict=True)):
        before = weights[n] if first.apply_router_weight_first else None
        manager.ep_dispatch_async(x, indices, n, before)
    counts = tuple(manager.counts(n) for n in range(many))
    received = [manager.received(n) for n in range(many)]
    for n, (shard, got) in enumerate(zip(shards, received, strict=True)):
        routing = Routing(got.indices, got.order, got.starts, got.restore, got.ids, got.usage)
        manager.ep_combine_async(shard.computed(got.rows, routing), n)
    outputs = []
    for n, (shard, x, own) in enumerate(zip(shards, xs, rows, strict=True)):
        if first.apply_router_weight_first:
            y = ops.squeeze(ops.sum(manager.ep_combine_wait(n), axis=1), 1)
        else:
            y = manager.ep_combine_wait(n, weights[n])
        if shard.shared_experts is not None:
            y = y + shard.shared_experts(own)
        outputs.append(y if x.rank == 2 else ops.reshape(y, x.shape))
    return Exchange(outputs, tuple(indices for indices, _ in chosen), counts)


def shards_for(layer: M, xs: Sequence[TensorValue]) -> list[M]:
    """The shards of a layer on the devices of ``xs``.

    Args:
        layer: The layer.
        xs: The vectors of the tokens of each device.

    Raises:
        ModuleError: ML521, the layer sends no tokens, or other devices than it is for.
    """
    what = type(layer).__name__
    if not layer.sends_tokens:
        raise unfit_devices(
            f"{what}: tokens of {len(xs)} devices were given, and none is sent with "
            f"ep_size={layer.ep_size}",
            f"pass ep_size={len(xs)} when the layer is made, or call shards of the layer",
        )
    places = [x.device for x in xs]
    if len(places) != layer.ep_size or len(set(places)) != layer.ep_size:
        raise unfit_devices(
            f"{what}: tokens on ep_size={layer.ep_size} different devices expected ≠ "
            f"{', '.join(map(str, places))} given",
            "pass one tensor of each device; driver.virtual_cpus(n) makes CPUs different",
        )
    return layer.shard(places)


def for_all_tokens(
    layer: Callable[[Sequence[TensorValue]], list[TensorValue]],
    xs: Sequence[TensorValue],
    signal_buffers: Iterable[BufferValue] | None,
) -> list[TensorValue]:
    """The outputs for tokens that all devices have: each device sends its share of them, and gets
    the outputs of the others.

    Args:
        layer: The layer, a ``MoE`` with ``ep_size``.
        xs: The vectors of all tokens on each device, ``[tokens, hidden_dim]``, all alike.
        signal_buffers: A buffer on each device, for the collective; without them outputs go to the
            other devices one by one.
    """
    many, tokens = len(xs), xs[0].shape[0]
    bounds = [tokens * n // many for n in range(many + 1)]
    made = layer([x[bounds[n] : bounds[n + 1]] for n, x in enumerate(xs)])
    if signal_buffers is not None:
        found = ops.allgather(made, signal_buffers, 0)
    else:
        found = [ops.concat([ops.transfer_to(y, x.device) for y in made], 0) for x in xs]
    return [
        ops.rebind(y, x.shape, "the tokens of all devices") for x, y in zip(xs, found, strict=True)
    ]


def manager_of(layer: Mixture, given: Any) -> EPBatchManager | None:
    """The manager that sends the tokens of ``layer``: ``given``, or a new one where it is needed.

    Raises:
        ModuleError: ML521, ``given`` does not fit.
        ShapeError: ML798, fewer experts than devices.
    """
    what, many = type(layer).__name__, layer.ep_size
    chosen = layer.num_experts_per_token
    if given is None:
        if many == 1:
            return None
        sizes = (layer.hidden_dim, chosen, layer.num_experts)
        return EPBatchManager(EPConfig(layer.dtype, layer.dtype, *sizes, None, many))
    if not isinstance(given, EPBatchManager):
        raise unfit_devices(
            f"{what}: ep_batch_manager must be an EPBatchManager, got {shown(given)}",
            "leave it out, so that one is made, or pass nn.comm.ep.EPBatchManager(config)",
        )
    config = given.config
    for name, own, theirs in (
        ("ep_size", many, config.n_gpus_per_node),
        ("hidden_dim", layer.hidden_dim, config.hidden_size),
        ("num_experts", layer.num_experts, config.n_experts),
        ("num_experts_per_token", chosen, config.top_k),
    ):
        if own != theirs:
            raise unfit_devices(
                f"{what}: {name}={theirs}, as in the config of ep_batch_manager, expected ≠ {own} "
                "given",
                "make the layer and the EPConfig with the same sizes",
            )
    return given


def unfit_devices(what: str, fix: str) -> ModuleError:
    """The error that devices of experts do not fit.

    Args:
        what: What is wrong.
        fix: What to do.
    """
    return ModuleError("ML521", what, fix=fix)


__all__ = [
    "Exchange",
    "Mixture",
    "exchange",
    "for_all_tokens",
    "forward_moe_sharded_layers",
    "manager_of",
    "shards_for",
    "unfit_devices",
]
