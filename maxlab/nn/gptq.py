"""``GPTQLinear``: a linear map of a weight as GPTQ stores it, numbers of few bits and scales."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, Weight, ops
from maxlab.graph.operands import as_dtype
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.nn.dense import Linear, check_size, refuse_quantization
from maxlab.nn.groups import check_config, product, sorted_by_group, words_and_groups
from maxlab.nn.packed import floats_of
from maxlab.nn.sharding import axes_cut, no_shards, places_of, shard_of, shards_of, unfit


class GPTQLinear(Linear):
    """A linear map of a weight as GPTQ stores it, which stays so in memory.

    A number of the weight is ``(q - 2 ** (bits - 1)) * scale``, with a scale for each group of rows
    and each column. With ``desc_act`` the rows are in the order of their groups, and ``perm_idx``
    says which element of the input meets which; ``maxlab.nn.gptq.sorted_by_group`` makes both of a
    checkpoint.

    Args:
        in_dim: The size of the last dim of the input.
        out_dim: The size of the last dim of the output.
        dtype: The element type of the bias; float32 where it is that of bytes.
        device: Where the product is computed.
        has_bias: Whether a bias is added.
        quantization_encoding: ``GPTQ``, or None for it.
        quantization_config: How the weight was packed: 2, 4 or 8 bits, symmetric.
        float8_config: None; 8-bit floats cannot be used in this version.

    Attributes:
        qweight: ``[in_dim * bits / 32, out_dim]`` of int32.
        scales: ``[in_dim / group size, out_dim]`` of float16; another dtype of floats may be set.
        perm_idx: ``[in_dim]`` of int32 with ``desc_act``, else None.
        bias: ``[out_dim]``, or None.

    Raises:
        ArgumentError: ML716, a size that is not a positive int.
        ModuleError: ML799, a config that is not supported, or does not fit ``in_dim``; ML717, a
            ``float8_config``.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> from maxlab.graph.quantization import QuantizationConfig
        >>> config = QuantizationConfig("gptq", bits=4, group_size=128, sym=True)
        >>> linear = nn.GPTQLinear(
        ...     256, 64, DType.float32, DeviceRef.CPU(), quantization_config=config
        ... )
        >>> {name: list(weight.shape) for name, weight in linear.raw_state_dict().items()}
        {'qweight': [Dim(32), Dim(64)], 'scales': [Dim(2), Dim(64)]}
    """

    qweight: Weight
    scales: Weight
    perm_idx: Weight | None = None

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        dtype: DType | str,
        device: DeviceRef | str | None,
        has_bias: bool = False,
        quantization_encoding: QuantizationEncoding | None = None,
        quantization_config: QuantizationConfig | None = None,
        float8_config: Any = None,
    ) -> None:
        what = "GPTQLinear"
        refuse_quantization(what, float8_config=float8_config)
        check_size(what, "in_dim", in_dim)
        check_size(what, "out_dim", out_dim)
        config = check_config(what, quantization_encoding, quantization_config)
        words, groups = words_and_groups(what, config, in_dim)
        self.quantization_config = config
        self.device = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
        cpu = DeviceRef.CPU()
        self.qweight = Weight("qweight", DType.int32, (words, out_dim), cpu)
        self.scales = Weight("scales", DType.float16, (groups, out_dim), cpu)
        if config.desc_act:
            self.perm_idx = Weight("perm_idx", DType.int32, (in_dim,), cpu)
        if has_bias:
            self.bias = Weight("bias", floats_of(as_dtype(what, dtype)), (out_dim,), cpu)

    def __call__(self, x: TensorValue) -> TensorValue:
        """The product, ``[..., out_dim]`` of the dtype of ``x``, of ``x``, ``[..., in_dim]``.

        Raises:
            ShapeError: ML741, the last dim of ``x`` is not ``in_dim``.
        """
        place = self.device
        parts = (self.qweight.to(place), self.scales.to(place))
        perm = None if self.perm_idx is None else self.perm_idx.to(place)
        y = product(x, *parts, perm, self.quantization_config.bits)
        return y if self.bias is None else y + ops.cast(self.bias.to(place), y.dtype)

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the layer is cut into shards; None when it is not.

        As of ``Linear``, whose weight is the transpose: it may replicate the layer, or cut rows,
        which are the columns of ``qweight``, so that the shards' outputs are parts of the layer's.

        Raises:
            GraphError: ML381, what is set is no ``ShardingStrategy``.
            ModuleError: ML719, what is set is neither.
            ShapeError: ML798, the weight cannot be cut so.
        """
        return self._strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        cut, along_out = axes_cut(self.qweight, strategy), strategy
        if cut and strategy is not None:
            if not strategy.is_rowwise:
                fix = f"use ShardingStrategy.rowwise({strategy.num_devices}), or replicate"
                raise unfit("GPTQLinear", strategy, fix)
            along_out = ShardingStrategy.columnwise(strategy.num_devices)
            axes_cut(self.qweight, along_out)  # what cannot be cut is told here
        self._strategy = strategy
        self.qweight.sharding_strategy = self.scales.sharding_strategy = along_out
        if self.bias is not None:
            self.bias.sharding_strategy = strategy
        if self.perm_idx is not None and strategy is not None:
            self.perm_idx.sharding_strategy = ShardingStrategy.replicate(strategy.num_devices)

    _strategy: ShardingStrategy | None = None

    def shard(self, devices: Iterable[DeviceRef]) -> list[Linear]:
        """The shards of the layer, one for each device, in their order.

        Raises:
            ModuleError: ML719, the layer has no sharding strategy.
            GraphError: ML796 (a ValueError), the strategy makes another number of shards.
        """
        places = places_of(devices)
        if self.sharding_strategy is None:
            raise no_shards("GPTQLinear", places)
        weights = (self.qweight, self.scales, self.perm_idx, self.bias)
        parts = zip(places, *(shards_of(weight, places) for weight in weights), strict=True)
        return [
            shard_of(self, device=place, qweight=q, scales=s, perm_idx=perm, bias=bias)
            for place, q, s, perm, bias in parts
        ]

    def __repr__(self) -> str:
        words, out_dim = self.qweight.shape
        in_dim = words * (32 // self.quantization_config.bits)
        return f"GPTQLinear(in_dim={in_dim}, out_dim={out_dim}, bias={self.bias is not None})"


__all__ = ["GPTQLinear", "sorted_by_group"]
