"""``Linear``: a product with a matrix of numbers, or of blocks of few bits, and its shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ModuleError
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, Weight, ops
from maxlab.graph.operands import as_dtype
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.nn.float8.layers import (
    bias_dtype,
    check_float8,
    scale_strategy,
    scaled_product,
    scales_of,
)
from maxlab.nn.float8_config import Float8Config
from maxlab.nn.module import Module
from maxlab.nn.packed import floats_of, packed_shape, product
from maxlab.nn.sharding import (
    along,
    axes_cut,
    no_shards,
    places_of,
    several,
    shard_of,
    shards_of,
    unfit,
)


def check_size(what: str, name: str, value: int | None) -> int:
    """``value``, a number of elements.

    Raises:
        ArgumentError: ML716, not a positive int.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ArgumentError(
            "ML716",
            f"{what}: {name} must be a positive int, got {value!r}",
            fix="pass 1 or more; symbolic sizes belong to inputs, not to layers",
        )
    return value


def refuse_quantization(what: str, **given: Any) -> None:
    """Raises ModuleError unless every value is None.

    Raises:
        ModuleError: ML717, a way of storing numbers is asked for that the layer does not have.
    """
    for name, value in given.items():
        if value is not None:
            raise ModuleError(
                "ML717",
                f"{what}: {name}={value!r}, but the layer cannot be built so in this version",
                fix=f"leave {name} out and load dequantised weights",
            )


class Linear(Module):
    """The linear map ``y = x @ weight.T + bias``: ``[..., in_dim]`` to ``[..., out_dim]``.

    Weights are declared on the CPU and move to ``device`` where they are used.

    Args:
        in_dim: The size of the last dim of the input.
        out_dim: The size of the last dim of the output.
        dtype: The element type of weight and bias. With an encoding, that of the bias alone, which
            is float32 where the dtype is that of bytes.
        device: Where the product is computed.
        has_bias: Whether a bias is added.
        quantization_encoding: How the weight is packed, as in GGUF files: it then is bytes, and
            stays so in memory. With ``Q4_0``, ``Q4_K`` and ``Q6_K`` inputs are quantised first, as
            ``ops.qmatmul`` does, with ``Q5_K`` they are not. None for a weight of numbers.
        float8_config: How weight and input are scaled, where ``dtype`` is float8_e4m3fn: the weight
            stays of 8 bits in memory, and rows of the input are rounded to 8 bits too. The bias has
            the config's ``bias_dtype``, or float32. None for other weights.
        name: The weights are named ``<name>.weight`` and ``<name>.bias`` when given, else
            ``weight`` and ``bias``.
        clip_weight: When given, weights are used as if cut to ``[-clip_weight, clip_weight]``.
        in_features: ``in_dim``, as PyTorch calls it.
        out_features: ``out_dim``, as PyTorch calls it.
        bias: ``has_bias``, as PyTorch calls it; here a layer has none unless it is asked for.

    Attributes:
        weight: ``[out_dim, in_dim]``; packed, ``[out_dim, bytes of a row]`` of uint8.
        bias: ``[out_dim]``, or None.
        weight_scale: With ``float8_config``, what the weight is multiplied with: ``[]``,
            ``[out_dim, 1]``, or one for each block.
        input_scale: With static scales of inputs, what they are divided by: ``[]``.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML718, a negative ``clip_weight``.
        ModuleError: ML717, an encoding that the layer does not have, or one beside
            ``clip_weight``, or a ``float8_config`` that does not fit; ML782, ``in_dim`` is not of
            whole blocks.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> linear = nn.Linear(256, 128, DType.float32, DeviceRef.CPU(), has_bias=True)
        >>> graph = Graph("linear", linear, [TensorType(DType.float32, ["batch", 256])])
        >>> graph.output_types[0].shape
        [Dim('batch'), Dim(128)]
    """

    weight: Weight
    bias: Weight | None = None
    input_scale: Weight | None = None
    weight_scale: Weight | None = None
    device: DeviceRef

    def __init__(
        self,
        in_dim: int | None = None,
        out_dim: int | None = None,
        dtype: DType | str = DType.float32,
        device: DeviceRef | str | None = None,
        has_bias: bool = False,
        quantization_encoding: QuantizationEncoding | None = None,
        float8_config: Float8Config | None = None,
        name: str | None = None,
        clip_weight: float | None = None,
        *,
        in_features: int | None = None,
        out_features: int | None = None,
        bias: bool | None = None,
    ) -> None:
        in_dim = in_features if in_dim is None else in_dim
        out_dim = out_features if out_dim is None else out_dim
        has_bias = has_bias if bias is None else bias
        encoding = quantization_encoding
        columns = check_size("Linear", "in_dim", in_dim)
        rows = check_size("Linear", "out_dim", out_dim)
        if clip_weight is not None and not clip_weight >= 0:
            raise ArgumentError(
                "ML718",
                f"Linear: clip_weight must be 0 or more, got {clip_weight}",
                fix="pass the largest absolute value that weights may have, or None",
            )
        self.device = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
        dtype = as_dtype("Linear", dtype)
        self.clip_weight = clip_weight
        stem = f"{name}." if name else ""
        cpu, shape, kind = DeviceRef.CPU(), (rows, columns), dtype
        if encoding is not None:
            shape = packed_shape("Linear", encoding, rows, columns)
            kind, dtype = DType.uint8, floats_of(dtype)
            if clip_weight is not None:
                refuse_quantization("Linear with clip_weight", quantization_encoding=encoding)
        self.float8_config = None
        if float8_config is not None:
            beside = {"quantization_encoding": encoding, "clip_weight": clip_weight}
            self.float8_config = check_float8("Linear", float8_config, kind, **beside)
            self.input_scale, self.weight_scale = scales_of(stem, float8_config, rows, columns)
            dtype = bias_dtype(float8_config)
        self._was_packed = encoding is not None
        self.weight = Weight(f"{stem}weight", kind, shape, cpu, encoding)
        if has_bias:
            self.bias = Weight(f"{stem}bias", dtype, (rows,), cpu)

    def __call__(self, x: TensorValue) -> TensorValue:
        """The product, ``[..., out_dim]``, of ``x``, ``[..., in_dim]``.

        Raises:
            ShapeError: ML203, or packed ML741, the last dim of ``x`` is not ``in_dim``.
        """
        weight = self.weight.to(self.device)
        encoding = self.weight.quantization_encoding
        if encoding is not None:
            y = product(x, weight, encoding)
        elif self.float8_config is not None and self.weight_scale is not None:
            static = self.input_scale
            y = scaled_product(
                x,
                weight,
                self.weight_scale.to(self.device),
                None if static is None else static.to(self.device),
                self.float8_config,
            )
        else:
            if self._was_packed:  # a file may have numbers of any dtype in its place
                weight = ops.cast(weight, x.dtype)
            if self.clip_weight is not None:
                limit = float(self.clip_weight)
                weight = ops.max(ops.min(weight, limit), -limit)
            y = x @ weight.T
        if self.bias is None:
            return y
        bias = self.bias.to(self.device)
        casts = self._was_packed or self.float8_config is not None
        return y + (ops.cast(bias, y.dtype) if casts else bias)

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the weight is cut into shards; None when it is not.

        It may replicate the layer; cut rows, so that the shards' outputs are parts of the layer's
        output, along its last dim; or cut columns, so that each shard takes its part of the input,
        and the shards' outputs add up to the layer's output. Then the first shard has the bias.

        Raises:
            GraphError: ML381, what is set is no ``ShardingStrategy``.
            ModuleError: ML719, what is set cuts both axes, or inside of a block of the scales.
            ShapeError: ML798, the weight cannot be cut so.
        """
        return self.weight.sharding_strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        if len(axes_cut(self.weight, strategy)) > 1:
            raise unfit(type(self).__name__, strategy, "cut its rows, or its columns")
        if self.float8_config is not None and self.weight_scale is not None:
            config = self.float8_config
            of_scale = scale_strategy(type(self).__name__, self.weight, config, strategy)
            self.weight_scale.sharding_strategy = of_scale
            if self.input_scale is not None:
                count = 0 if strategy is None else strategy.num_devices
                self.input_scale.sharding_strategy = (
                    ShardingStrategy.replicate(count) if count else None
                )
        self.weight.sharding_strategy = strategy
        if self.bias is not None:
            self.bias.sharding_strategy = along(self.weight, strategy, 0)

    def shard(self, devices: Iterable[DeviceRef]) -> list[Linear]:
        """The shards of the layer, one for each device, in their order.

        Raises:
            ModuleError: ML719, the layer has no sharding strategy.
            GraphError: ML796 (a ValueError), the strategy makes another number of shards.
        """
        places = places_of(devices)
        strategy = self.sharding_strategy
        if strategy is None:
            raise no_shards(type(self).__name__, places)
        biases = shards_of(self.bias, places)
        if 1 in axes_cut(self.weight, strategy):  # the outputs are added up
            biases[1:] = [None] * (len(biases) - 1)
        parts: dict[str, list[Any]] = {
            "device": places,
            "weight": self.weight.shard(places),
            "bias": biases,
            "weight_scale": shards_of(self.weight_scale, places),
            "input_scale": shards_of(self.input_scale, places),
        }
        return [
            shard_of(self, **{name: values[number] for name, values in parts.items()})
            for number in range(len(places))
        ]

    def __repr__(self) -> str:
        out_dim, in_dim = self.weight.shape
        encoding = self.weight.quantization_encoding
        if encoding is not None:
            in_dim = in_dim // encoding.block_size * encoding.elements_per_block
        return f"Linear(in_dim={in_dim}, out_dim={out_dim}, bias={self.bias is not None})"


def first_device(what: str, devices: Sequence[DeviceRef]) -> DeviceRef:
    """The first of ``devices``.

    Raises:
        ArgumentError: ML721, there is none.
    """
    return several(what, devices)[0]


__all__ = ["Linear", "check_size", "first_device", "refuse_quantization"]
