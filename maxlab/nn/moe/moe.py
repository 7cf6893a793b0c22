"""``MoE``: a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, overload

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ModuleError, ShapeError
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, ops
from maxlab.graph.operands import as_dtype
from maxlab.graph.sharding import share
from maxlab.nn.comm.ep import EPBatchManager
from maxlab.nn.dense import check_size, refuse_quantization
from maxlab.nn.lists import LayerList
from maxlab.nn.mlp import MLP
from maxlab.nn.module import Module
from maxlab.nn.moe.expert_parallel import exchange, manager_of, shards_for, unfit_devices
from maxlab.nn.moe.gate import MoEGate, check_chosen, checked_choice
from maxlab.nn.moe.routing import Routing, tokens_per_expert
from maxlab.nn.sharding import no_shards, places_of, several, shard_of, total, unfit


class MoE(Module):
    """A mixture of experts: each token is the input of the few experts that the gate chooses, and
    the output is the weighted sum of theirs.

    An expert is an ``MLP``: ``down(silu(gate(x)) * up(x))``. Only chosen experts are computed, and
    only their weights are read. Tokens are sorted by expert, so that the tokens of one expert are
    one product.

    Args:
        devices: The first is used.
        hidden_dim: The size of the vectors of tokens.
        num_experts: The number of experts.
        num_experts_per_token: The experts that a token takes.
        moe_dim: The size inside of an expert.
        gate_cls: Makes the gate; called with ``devices``, ``hidden_dim``, ``num_experts``,
            ``num_experts_per_token`` and ``dtype`` by name. What it makes gives the experts of each
            token, integers, and their weights, both ``[tokens, num_experts_per_token]``.
        has_shared_experts: Whether every token is also the input of an ``MLP`` of its own, whose
            output is added without a weight.
        shared_experts_dim: The size inside of that.
        ep_size: The number of devices among which experts are divided, whose tokens go to the
            devices with their experts. The layer is then called with the tokens of each device,
            and its sharding strategy is ``ShardingStrategy.expert_parallel(ep_size)``. With 1, the
            default, shards have the tokens of all devices, and no token is sent.
        dtype: The element type of the weights.
        apply_router_weight_first: Whether the input of an expert has the weight, instead of its
            output.
        ep_batch_manager: What sends tokens to other devices and takes results back; made where it
            is None and ``ep_size`` is not 1. Layers of a model may share one.
        float8_config: None; ``MoEFp8`` takes one.

    Attributes:
        gate: The gate.
        experts: The experts; their weights are named ``experts.N.gate_proj.weight``, ``up_proj``
            and ``down_proj``.
        shared_experts: The ``MLP`` of all tokens, or None.
        first_expert: The number of the first of ``experts``; 0 unless the layer is a shard.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML675, more experts for a token
            than there are, or a size of shared experts without these; ML721, no device.
        ModuleError: ML521, a manager that does not fit; ML717, a ``float8_config``.
        ShapeError: ML798, fewer experts than ``ep_size``.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> layer = nn.moe.MoE([DeviceRef.CPU()], 16, 8, 2, 32, dtype=DType.float32)
        >>> list(layer.state_dict())[:3]
        ['gate.gate_score.weight', 'experts.0.gate_proj.weight', 'experts.0.down_proj.weight']
        >>> graph = Graph("moe", layer, [TensorType(DType.float32, ["tokens", 16])])
        >>> graph.output_types[0].shape
        [Dim('tokens'), Dim(16)]
    """

    gate: Any
    experts: Any
    shared_experts: MLP | None
    _strategy: ShardingStrategy | None

    def __init__(
        self,
        devices: Sequence[DeviceRef],
        hidden_dim: int,
        num_experts: int,
        num_experts_per_token: int,
        moe_dim: int,
        gate_cls: Callable[..., MoEGate] = MoEGate,
        has_shared_experts: bool = False,
        shared_experts_dim: int = 0,
        ep_size: int = 1,
        dtype: DType = DType.bfloat16,
        apply_router_weight_first: bool = False,
        ep_batch_manager: Any = None,
        float8_config: Any = None,
    ) -> None:
        what = type(self).__name__
        self._take_float8(float8_config, dtype, moe_dim)
        self.devices = several(what, devices)
        self.hidden_dim = check_size(what, "hidden_dim", hidden_dim)
        self.num_experts = check_size(what, "num_experts", num_experts)
        self.num_experts_per_token = check_chosen(what, num_experts_per_token, num_experts)
        self.moe_dim = check_size(what, "moe_dim", moe_dim)
        self.dtype = as_dtype(what, dtype)
        self.apply_router_weight_first = apply_router_weight_first
        self.ep_size = check_size(what, "ep_size", ep_size)
        self._manager = manager_of(self, ep_batch_manager)
        if shared_experts_dim and not has_shared_experts:
            raise ArgumentError(
                "ML675",
                f"{what}: shared_experts_dim={shared_experts_dim} without shared experts",
                fix="pass has_shared_experts=True, or leave the size out",
            )
        self.gate = gate_cls(
            devices=self.devices,
            hidden_dim=hidden_dim,
            num_experts=num_experts,
            num_experts_per_token=num_experts_per_token,
            dtype=self.dtype,
        )
        self.experts = self._make_experts()
        self.shared_experts = None
        if has_shared_experts:
            check_size(what, "shared_experts_dim", shared_experts_dim)
            self.shared_experts = self._expert(shared_experts_dim)
        self.first_expert, self._strategy = 0, None
        if self._manager is not None:
            self.sharding_strategy = ShardingStrategy.expert_parallel(ep_size)

    # ------------------------------------------------------------ parts
    def _take_float8(self, float8_config: Any, dtype: Any, moe_dim: Any) -> None:
        """Keeps the configuration of 8-bit floats, if the class takes one and it fits the rest."""
        refuse_quantization("MoE", float8_config=float8_config)

    def _make_experts(self) -> Any:
        """The experts, whose weights are those of the attribute ``experts``."""
        return LayerList([self._expert(self.moe_dim) for _ in range(self.num_experts)])

    def _expert(self, size: int) -> MLP:
        return MLP(self.dtype, None, self.hidden_dim, size, self.devices)

    @property
    def gate_up_proj(self) -> TensorValue:
        """The matrices ``gate_proj`` and ``up_proj`` of all experts here, one above the other,
        ``[experts, 2 * moe_dim, hidden_dim]``. They are stacked when a model is loaded."""
        place = self.devices[0]
        layers = [layer for e in self.experts for layer in (e.gate_proj, e.up_proj)]
        parts = [layer.weight.to(place) for layer in layers]  # first, so that they go there once
        size, hidden = (int(dim) for dim in parts[0].shape)
        return ops.reshape(ops.stack(parts, 0), [len(self.experts), 2 * size, hidden])

    @property
    def down_proj(self) -> TensorValue:
        """The matrices ``down_proj`` of all experts here, ``[experts, hidden_dim, moe_dim]``. They
        are stacked when a model is loaded."""
        place = self.devices[0]
        return ops.stack([e.down_proj.weight.to(place) for e in self.experts], 0)

    @property
    def ep_batch_manager(self) -> EPBatchManager:
        """The manager that sends tokens to the devices with their experts, and takes results back.

        Raises:
            ModuleError: ML676, the layer was made without one, and with ``ep_size=1``.
        """
        if self._manager is None:
            raise ModuleError(
                "ML676",
                f"{type(self).__name__} has no ep_batch_manager, as ep_size={self.ep_size}",
                fix="pass ep_size, the number of devices among which experts are divided",
            )
        return self._manager

    @property
    def sends_tokens(self) -> bool:
        """Whether tokens go to the devices with their experts: then the layer is called with the
        tokens of each device."""
        strategy = self._strategy
        return self._manager is not None and strategy is not None and strategy.is_expert_parallel

    # ------------------------------------------------------------ calls
    @overload
    def __call__(self, x: TensorValue) -> TensorValue: ...
    @overload
    def __call__(self, x: Sequence[TensorValue]) -> list[TensorValue]: ...
    def __call__(self, x: TensorValue | Sequence[TensorValue]) -> TensorValue | list[TensorValue]:
        """The output, of the type of ``x``, ``[..., hidden_dim]``. Of a shard it is a part, and the
        outputs of all shards add up, unless the layer is replicated.

        Args:
            x: The vectors of tokens, ``[..., hidden_dim]``. With ``ep_size`` those of each device,
                any number; then the outputs are those of the tokens of each device, and a device
                computes the experts that it has.

        Raises:
            ShapeError: ML677, the gate gives something else than experts and weights; others as of
                ``Linear``.
            ModuleError: ML521, devices that do not fit, or a shard whose tokens would be sent.
        """
        if isinstance(x, (list, tuple)):
            called = exchange(shards_for(self, x), x)
            self._indices, self._sent = called.indices, called.counts
            return called.outputs
        if self.sends_tokens and len(self.experts) < self.num_experts:
            raise unfit_devices(
                f"{type(self).__name__}: a shard of a layer with ep_size={self.ep_size} needs the "
                "tokens of all devices",
                "call the layer itself with the list of what each device has",
            )
        assert isinstance(x, TensorValue)
        rows = x if x.rank == 2 else ops.reshape(x, [-1, self.hidden_dim])  # [tokens, hidden_dim]
        indices, weights = self.chosen(rows)
        self._indices, self._sent = (indices,), ()
        here = 0 if len(self.experts) == self.num_experts else len(self.experts)
        routing = Routing.of(indices, self.num_experts, self.first_expert, here)
        inputs = routing.rows(rows)  # [tokens * k, hidden_dim]
        weights = ops.cast(weights, x.dtype)
        if self.apply_router_weight_first:
            factors = ops.gather(ops.reshape(weights, [-1, 1]), routing.order, 0)
            made = routing.back(self.computed(inputs * factors, routing))
        else:
            made = routing.back(self.computed(inputs, routing)) * ops.unsqueeze(weights, -1)
        y = ops.squeeze(ops.sum(made, axis=1), 1)  # [tokens, hidden_dim]
        if self.shared_experts is not None:
            y = y + self.shared_experts(rows)
        return y if x.rank == 2 else ops.reshape(y, x.shape)

    def computed(self, rows: TensorValue, routing: Routing) -> TensorValue:
        """The outputs of the experts for their rows, ``[rows, hidden_dim]``.

        Args:
            rows: The inputs of the experts, ``[rows, hidden_dim]``, in the order of ``routing``.
            routing: Which rows are of which expert.
        """
        inner = routing.product(rows, self.gate_up_proj)  # [rows, 2 * moe_dim]
        half = int(inner.shape[1]) // 2
        inner = ops.silu(inner[:, :half]) * inner[:, half:]
        return routing.product(inner, self.down_proj)

    @property
    def tokens_per_expert(self) -> TensorValue:
        """The number of tokens that each expert got in the last call, int64 ``[num_experts]``; an
        output of the same graph, or what ``ops.watch`` gives to a function.

        Raises:
            ModuleError: ML668, the layer was not called.
        """
        parts = [tokens_per_expert(ids, self.num_experts) for ids in self._called("_indices")]
        return total(parts, parts[0].device)

    @property
    def tokens_sent(self) -> TensorValue:
        """How many vectors of tokens each device sent to the experts of each in the last call,
        int64 ``[devices, devices]`` on the host: a row for each device that has tokens, a column
        for each that has experts. Those on the diagonal stay where they are. A token that takes k
        experts is sent k times.

        Raises:
            ModuleError: ML668, the layer was not called, or not with the tokens of several devices.
        """
        host = DeviceRef.CPU()
        return ops.stack([ops.transfer_to(one, host) for one in self._called("_sent")], 0)

    @property
    def has_sent(self) -> bool:
        """Whether the last call was with the tokens of several devices."""
        return bool(self.__dict__.get("_sent"))

    def _called(self, name: str) -> tuple[TensorValue, ...]:
        """The tensors that the last call left."""
        found: tuple[TensorValue, ...] = self.__dict__.get(name, ())
        if not found:
            raise ModuleError(
                "ML668",
                f"{type(self).__name__} was not called, so no expert has tokens"
                if name == "_indices"
                else f"{type(self).__name__} was not called with the tokens of several devices",
                fix="call the layer in a graph first, then ask in the same graph",
            )
        return found

    def chosen(self, rows: TensorValue) -> tuple[TensorValue, TensorValue]:
        """The experts of each token, integers, and their weights, floats, both ``[tokens,
        num_experts_per_token]``.

        Args:
            rows: The vectors of the tokens, ``[tokens, hidden_dim]``.

        Raises:
            ShapeError: ML677, the gate gives something else.
        """
        return checked_choice(type(self).__name__, self.gate(rows), self.num_experts_per_token)

    # ------------------------------------------------------------ shards
    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the layer is cut into shards; None when it is not.

        It may replicate the layer; cut rows, so that each shard has a part of the inside of every
        expert; or be ``ShardingStrategy.expert_parallel``, so that each shard has some of the
        experts, whole. Every shard has the gate. Unless replicated, the outputs of shards add up;
        with ``ep_size`` they are those of the tokens of each device, and every shard has all of
        the shared experts.

        Raises:
            GraphError: ML381, what is set is no ``ShardingStrategy``.
            ModuleError: ML719, what is set is none of these.
            ShapeError: ML798, there are fewer experts or sizes than devices.
        """
        return self._strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        count = 1 if strategy is None else getattr(strategy, "num_devices", 1)
        whole = None if strategy is None else ShardingStrategy.replicate(count)
        cut = strategy
        if isinstance(strategy, ShardingStrategy):
            if strategy.is_expert_parallel:
                if self.num_experts < count:
                    raise ShapeError(
                        "ML798",
                        f"expert_parallel: {self.num_experts} experts cannot be cut for {count} "
                        "devices",
                        fix="use fewer devices, or ShardingStrategy.replicate",
                    )
                cut = ShardingStrategy.rowwise(count)
                if self._manager is not None:
                    if count != self.ep_size:
                        raise unfit_devices(
                            f"expert_parallel: ep_size={self.ep_size} devices expected ≠ {count} "
                            "given",
                            "make the layer with the number of its devices as ep_size",
                        )
                    cut = whole
            elif not strategy.is_rowwise and not strategy.is_replicate:
                fix = f"use ShardingStrategy.rowwise({count}), or expert_parallel, or replicate"
                raise unfit(type(self).__name__, strategy, fix)
        self._cut_experts(strategy)
        if self.shared_experts is not None:
            self.shared_experts.sharding_strategy = cut
        self.gate.sharding_strategy = whole
        self._strategy = strategy

    def shard(self, devices: Iterable[DeviceRef]) -> list[Self]:
        """The shards of the layer, one for each device, in their order.

        Raises:
            ModuleError: ML719, the layer has no sharding strategy.
            GraphError: ML796 (a ValueError), the strategy makes another number of shards.
        """
        places = places_of(devices)
        strategy = self.sharding_strategy
        if strategy is None:
            raise no_shards(type(self).__name__, places)
        gates = self.gate.shard(places)
        many = len(places)
        shared: list[Any] = [None] * many
        if self.shared_experts is not None:
            shared = self.shared_experts.shard(places)
        firsts = [0] * many
        if strategy.is_expert_parallel:
            firsts = [share(self.num_experts, n, many)[0] for n in range(many)]
        parts = zip(places, gates, self._shard_experts(places), shared, firsts, strict=True)
        return [
            shard_of(
                self, devices=[place], gate=gate, experts=some, shared_experts=own,
                first_expert=first,
            )
            for place, gate, some, own, first in parts
        ]  # fmt: skip

    def _cut_experts(self, strategy: ShardingStrategy | None) -> None:
        """Sets how each expert is cut for ``strategy``."""
        is_whole = isinstance(strategy, ShardingStrategy) and strategy.is_expert_parallel
        for expert in self.experts:
            expert.sharding_strategy = ShardingStrategy.replicate(1) if is_whole else strategy

    def _shard_experts(self, places: list[DeviceRef]) -> Sequence[Any]:
        """The experts, or parts of experts, on each of ``places``."""
        many = len(places)
        if self._strategy is not None and self._strategy.is_expert_parallel:
            runs = [range(*share(self.num_experts, n, many)) for n in range(many)]
            return [
                LayerList([self.experts[e].shard([place])[0] for e in run])
                for run, place in zip(runs, places, strict=True)
            ]
        cut = [expert.shard(places) for expert in self.experts]
        return [LayerList(list(each)) for each in zip(*cut, strict=True)]


__all__ = ["MoE"]
