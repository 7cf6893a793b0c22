"""``EPConfig``: how the experts of a model are divided among devices."""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ModuleError, ShapeError
from maxlab.graph.operands import as_dtype
from maxlab.graph.sharding import share
from maxlab.nn.dense import check_size


@dataclass
class EPConfig:
    """How the experts of a mixture are divided among devices, and how tokens go to them.

    Where the experts do not divide, the first devices have one more.

    Attributes:
        dispatch_dtype: The float dtype of vectors on their way to experts.
        combine_dtype: The float dtype of the results of experts on their way back.
        hidden_size: The size of the vectors of tokens.
        top_k: The experts that a token takes.
        n_experts: The number of experts.
        max_tokens_per_rank: The most tokens that a device may have in a batch; None for any number.
            Memory follows the tokens that there are, not this.
        n_gpus_per_node: The number of devices.
        n_nodes: 1: all devices belong to this process.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML675, more experts for a token
            than there are.
        DTypeError: ML666, a dtype on the way that is no float of 16 bits or more.
        ModuleError: ML526, several nodes.
        ShapeError: ML798, fewer experts than devices.

    Example:
        >>> from maxlab.dtype import DType
        >>> config = EPConfig(DType.bfloat16, DType.bfloat16, 64, 2, 10, None, 4)
        >>> [list(config.experts_of(device)) for device in range(4)]
        [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]
    """

    dispatch_dtype: DType
    combine_dtype: DType
    hidden_size: int
    top_k: int
    n_experts: int
    max_tokens_per_rank: int | None
    n_gpus_per_node: int
    n_nodes: int = 1

    def __post_init__(self) -> None:
        what = "EPConfig"
        self.dispatch_dtype = _on_the_way(self.dispatch_dtype, "dispatch_dtype")
        self.combine_dtype = _on_the_way(self.combine_dtype, "combine_dtype")
        for name in ("hidden_size", "top_k", "n_experts", "n_gpus_per_node", "n_nodes"):
            check_size(what, name, getattr(self, name))
        if self.max_tokens_per_rank is not None:
            check_size(what, "max_tokens_per_rank", self.max_tokens_per_rank)
        if self.top_k > self.n_experts:
            raise ArgumentError(
                "ML675",
                f"{what}: a token cannot take {self.top_k} of {self.n_experts} experts",
                fix=f"pass top_k={self.n_experts}, or more experts",
            )
        if self.n_nodes != 1:
            raise ModuleError(
                "ML526",
                f"{what}: n_nodes=1 expected ≠ {self.n_nodes} given: all devices with experts "
                "belong to this process",
                fix="pass n_nodes=1, and the number of devices of this process as n_gpus_per_node",
            )
        if self.n_experts < self.n_gpus_per_node:
            raise ShapeError(
                "ML798",
                f"{what}: {self.n_experts} experts cannot be divided among {self.n_gpus_per_node} "
                "devices",
                fix="use as many devices as experts, or fewer",
            )

    def experts_of(self, device_id: int) -> range:
        """The numbers of the experts that a device has.

        Args:
            device_id: The number of the device, from 0 on.
        """
        return range(*share(self.n_experts, device_id, self.n_gpus_per_node))


def _on_the_way(dtype: DType, name: str) -> DType:
    """``dtype``, in which vectors can travel.

    Raises:
        DTypeError: ML666, it is no float of 16 bits or more.
    """
    found = as_dtype("EPConfig", dtype)
    if not found.is_float() or found.is_float8():
        raise DTypeError(
            "ML666",
            f"EPConfig: {name} must be a float of 16 bits or more, got {found.name}",
            fix="pass DType.bfloat16, for example; MoEFp8 rounds vectors to 8 bits where the "
            "experts are",
        )
    return found


__all__ = ["EPConfig"]
