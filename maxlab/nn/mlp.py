"""``MLP``: three linear maps with an activation between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ModuleError
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, ops
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.nn.dense import Linear, first_device, refuse_quantization
from maxlab.nn.float8_config import Float8Config
from maxlab.nn.module import Module
from maxlab.nn.sharding import axes_cut, no_shards, places_of, shard_of, unfit

_ACTIVATIONS: dict[str, Callable[[TensorValue], TensorValue]] = {
    "silu": ops.silu,
    "gelu": ops.gelu,
    "gelu_tanh": lambda x: ops.gelu(x, "tanh"),
    "relu": ops.relu,
    "tanh": ops.tanh,
    "sigmoid": ops.sigmoid,
}


@dataclass
class DistributedGemmConfig:
    """How products over several devices are computed.

    Attributes:
        enable_matmul_allreduce: Whether a product and the sum over devices behind it are one
            kernel. There is none in this version: layers refuse a config that asks for it.

    Example:
        >>> from maxlab import nn
        >>> nn.linear.DistributedGemmConfig.generate()
        DistributedGemmConfig(enable_matmul_allreduce=False)
    """

    enable_matmul_allreduce: bool

    @staticmethod
    def generate() -> DistributedGemmConfig | None:
        """The usual config: products, then sums."""
        return DistributedGemmConfig(enable_matmul_allreduce=False)


def refuse_fused(what: str, **config: Any) -> None:
    """Raises ModuleError unless the config, given by its name, is None or asks for usual products.

    Raises:
        ModuleError: ML717, it is something else.
    """
    for name, asked in config.items():
        if not isinstance(asked, DistributedGemmConfig):
            refuse_quantization(what, **{name: asked})
        elif asked.enable_matmul_allreduce:
            raise ModuleError(
                "ML717",
                f"{what}: {name} asks for a kernel of a product and the sum over devices, which is "
                "not there in this version",
                fix="pass enable_matmul_allreduce=False",
            )


class MLP(Module):
    """Three linear maps: ``down(activation(gate(x)) * up(x))``.

    Args:
        dtype: The element type of the weights.
        quantization_encoding: How the weights are packed, as ``Linear`` has it, or None.
        hidden_dim: The size of the last dim of input and output.
        feed_forward_length: The size of the last dim in between.
        devices: The first is used.
        linear_cls: Makes the three layers; called as ``Linear`` is.
        has_bias: Whether the layers have biases.
        activation_function: ``silu``, ``gelu``, ``gelu_tanh``, ``relu``, ``tanh`` or ``sigmoid``.
        float8_config: How weights and inputs are scaled, where ``dtype`` is float8_e4m3fn, as
            ``Linear`` has it, or None.
        dist_gemm_config: None, or a config that does not ask for fused kernels.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML720, an unknown activation;
            ML721, no device.
        ModuleError: ML717, an encoding or a kernel that the layers do not have; ML782, a size that
            is not of whole blocks.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef
        >>> mlp = nn.MLP(DType.float32, None, 64, 256, [DeviceRef.CPU()])
        >>> list(mlp.state_dict())
        ['gate_proj.weight', 'down_proj.weight', 'up_proj.weight']
    """

    def __init__(
        self,
        dtype: DType,
        quantization_encoding: QuantizationEncoding | None,
        hidden_dim: int,
        feed_forward_length: int,
        devices: Sequence[DeviceRef],
        linear_cls: Callable[..., Linear] = Linear,
        has_bias: bool = False,
        activation_function: str = "silu",
        float8_config: Float8Config | None = None,
        dist_gemm_config: DistributedGemmConfig | None = None,
    ) -> None:
        more: dict[str, Any] = {} if float8_config is None else {"float8_config": float8_config}
        refuse_fused("MLP", dist_gemm_config=dist_gemm_config)
        if activation_function not in _ACTIVATIONS:
            raise ArgumentError(
                "ML720",
                f"MLP: no activation {activation_function!r}",
                fix="use one of " + ", ".join(_ACTIVATIONS),
            )
        device = first_device("MLP", devices)
        self.activation_function = activation_function

        def linear(in_dim: int, out_dim: int) -> Linear:
            return linear_cls(
                in_dim=in_dim,
                out_dim=out_dim,
                dtype=dtype,
                device=device,
                has_bias=has_bias,
                quantization_encoding=quantization_encoding,
                **more,
            )

        self.gate_proj = linear(hidden_dim, feed_forward_length)
        self.down_proj = linear(feed_forward_length, hidden_dim)
        self.up_proj = linear(hidden_dim, feed_forward_length)

    def __call__(self, x: TensorValue) -> TensorValue:
        """The output, of the type of ``x``, ``[..., hidden_dim]``."""
        activation = _ACTIVATIONS[self.activation_function]
        made: TensorValue = self.down_proj(activation(self.gate_proj(x)) * self.up_proj(x))
        return made

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the layers are cut into shards; None when they are not.

        It may replicate the layers, or cut rows: then each shard has its rows of ``gate_proj`` and
        ``up_proj``, and their columns of ``down_proj``, and the shards' outputs add up to the
        output.

        Raises:
            GraphError: ML381, what is set is no ``ShardingStrategy``.
            ModuleError: ML719, what is set is neither.
            ShapeError: ML798, the weights cannot be cut so.
        """
        return self.gate_proj.sharding_strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        down = strategy
        if axes_cut(self.gate_proj.weight, strategy):
            assert strategy is not None
            if not strategy.is_rowwise:
                fix = f"use ShardingStrategy.rowwise({strategy.num_devices}), or replicate"
                raise unfit("MLP", strategy, fix)
            down = ShardingStrategy.columnwise(strategy.num_devices)
        self.down_proj.sharding_strategy = down
        self.gate_proj.sharding_strategy = strategy
        self.up_proj.sharding_strategy = strategy

    def shard(self, devices: Iterable[DeviceRef]) -> list[MLP]:
        """The shards of the layer, one for each device, in their order.

        Raises:
            ModuleError: ML719, the layer has no sharding strategy.
            GraphError: ML796 (a ValueError), the strategy makes another number of shards.
        """
        places = places_of(devices)
        if self.sharding_strategy is None:
            raise no_shards("MLP", places)
        layers = (self.gate_proj, self.down_proj, self.up_proj)
        parts = zip(*(layer.shard(places) for layer in layers), strict=True)
        return [shard_of(self, gate_proj=g, down_proj=d, up_proj=u) for g, d, u in parts]


__all__ = ["MLP", "DistributedGemmConfig", "refuse_fused"]
