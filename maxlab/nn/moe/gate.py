"""``MoEGate``: which experts each token takes, and with which weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ShapeError
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, ops
from maxlab.nn.dense import Linear, check_size
from maxlab.nn.module import Module
from maxlab.nn.sharding import no_shards, places_of, several, shard_of, unfit


class MoEGate(Module):
    """The gate of a mixture of experts: the experts with the highest scores of a linear map, and
    these scores.

    Models differ in how scores become weights: a softmax before or after the choice, a sigmoid, or
    none. A subclass with a ``__call__`` of its own says so, and is the ``gate_cls`` of ``MoE``.

    Args:
        devices: The first is used.
        hidden_dim: The size of the vectors of tokens.
        num_experts: The number of experts.
        num_experts_per_token: The experts that a token takes.
        dtype: The element type of the linear map.

    Attributes:
        gate_score: The linear map, ``[num_experts, hidden_dim]``.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML675, more experts for a token
            than there are; ML721, no device.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.graph import ops
        >>> class SoftmaxGate(nn.moe.MoEGate):
        ...     def __call__(self, hidden_state):
        ...         indices, scores = super().__call__(hidden_state)
        ...         return indices, ops.softmax(scores)
    """

    def __init__(
        self,
        devices: Sequence[DeviceRef],
        hidden_dim: int,
        num_experts: int,
        num_experts_per_token: int,
        dtype: DType,
    ) -> None:
        self.devices = several("MoEGate", devices)
        self.hidden_dim = check_size("MoEGate", "hidden_dim", hidden_dim)
        self.num_experts = check_size("MoEGate", "num_experts", num_experts)
        self.num_experts_per_token = check_chosen("MoEGate", num_experts_per_token, num_experts)
        self.gate_score = Linear(hidden_dim, num_experts, dtype, self.devices[0])

    def __call__(self, hidden_state: TensorValue) -> tuple[TensorValue, TensorValue]:
        """The experts of each token, int64 ``[tokens, num_experts_per_token]``, the one with the
        highest score first, and their scores, of the dtype of ``hidden_state``.

        Args:
            hidden_state: The vectors of the tokens, ``[tokens, hidden_dim]``.
        """
        scores, indices = ops.top_k(self.gate_score(hidden_state), self.num_experts_per_token)
        return indices, scores

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the gate is cut into shards, each of which is the whole gate; None when it is not.

        Raises:
            GraphError: ML381, what is set is no ``ShardingStrategy``.
            ModuleError: ML719, what is set does not replicate.
        """
        return self.gate_score.sharding_strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        if isinstance(strategy, ShardingStrategy) and not strategy.is_replicate:
            fix = f"use ShardingStrategy.replicate({strategy.num_devices})"
            raise unfit(type(self).__name__, strategy, fix)
        self.gate_score.sharding_strategy = strategy

    def shard(self, devices: Iterable[DeviceRef]) -> Sequence[MoEGate]:
        """The gate on each of ``devices``, in their order.

        Raises:
            ModuleError: ML719, the gate has no sharding strategy.
            GraphError: ML796 (a ValueError), the strategy makes another number of shards.
        """
        places = places_of(devices)
        if self.sharding_strategy is None:
            raise no_shards(type(self).__name__, places)
        shards = zip(places, self.gate_score.shard(places), strict=True)
        return [shard_of(self, gate_score=scores, devices=[place]) for place, scores in shards]


def check_chosen(what: str, chosen: int, experts: int) -> int:
    """``chosen``, a number of experts of ``experts``.

    Raises:
        ArgumentError: ML716, not a positive int; ML675, more than there are.
    """
    check_size(what, "num_experts_per_token", chosen)
    if chosen > experts:
        raise ArgumentError(
            "ML675",
            f"{what}: a token cannot take {chosen} of {experts} experts",
            fix=f"pass num_experts_per_token={experts}, or more experts",
        )
    return chosen


def checked_choice(what: str, given: Any, chosen: int) -> tuple[TensorValue, TensorValue]:
    """The choice of a gate: the experts of each token, and their weights.

    Args:
        what: The layer that called the gate.
        given: What it gave.
        chosen: How many experts a token takes.

    Raises:
        ShapeError: ML677, something else.
    """
    good = isinstance(given, (tuple, list)) and len(given) == 2
    good = good and all(
        isinstance(one, TensorValue) and one.rank == 2 and one.shape[1] == chosen for one in given
    )
    if not good or not given[0].dtype.is_integral() or not given[1].dtype.is_float():
        types = ", ".join(str(getattr(one, "type", one)) for one in given) if good else given
        raise ShapeError(
            "ML677",
            f"{what}: the gate must give experts, integers, and weights, floats, each [tokens, "
            f"{chosen}], got {types}",
            fix="return the indices and then the values of ops.top_k, for example",
        )
    return given[0], given[1]


__all__ = ["MoEGate", "check_chosen", "checked_choice"]
