"""Normalisation: ``LayerNorm``, ``RMSNorm``, ``GroupNorm`` and their variants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ShapeError
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, TensorValueLike, Weight, ops
from maxlab.graph.operands import as_dtype
from maxlab.habits import fitting
from maxlab.nn.calls import Layer
from maxlab.nn.dense import check_size, first_device
from maxlab.nn.module import Module
from maxlab.nn.sharding import axes_cut, no_shards, places_of, shard_of, shards_of, unfit


def _positive(what: str, eps: float) -> float:
    if not eps > 0:
        raise ArgumentError(
            "ML722",
            f"{what}: eps must be positive, got {eps!r}",
            fix="pass a small number, such as 1e-5",
        )
    return float(eps)


def _constant(value: float, size: Any, like: TensorValue) -> TensorValue:
    one = ops.constant(value, like.dtype, like.device)
    return ops.broadcast_to(one, [size])


class LayerNorm(Module):
    """Each last-axis row shifted to mean 0 and scaled to variance 1, times ``weight`` plus
    ``bias``.

    Args:
        dims: The size of the last dim of the input.
        devices: The first is used.
        dtype: The element type of weight and bias, which must be that of the input.
        eps: A positive number added to the variance.
        use_bias: Whether a bias is added.

    Attributes:
        weight: ``[dims]``.
        bias: ``[dims]``, or None.

    Raises:
        ArgumentError: ML716, ``dims`` is not a positive int; ML721, no device; ML722, ``eps`` is
            not positive.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> norm = nn.LayerNorm(384, [DeviceRef.CPU()], DType.float32, eps=1e-12)
        >>> graph = Graph("norm", norm, [TensorType(DType.float32, ["n", 384])])
    """

    weight: Weight
    bias: Weight | None = None

    @fitting("ML975", "nn.LayerNorm(4)")
    def __init__(
        self,
        dims: int,
        devices: Sequence[DeviceRef | str] = ("cpu",),
        dtype: DType | str = DType.float32,
        eps: float = 1e-5,
        use_bias: bool = True,
    ) -> None:
        check_size("LayerNorm", "dims", dims)
        self.devices = [DeviceRef.from_device(device) for device in devices]
        first_device("LayerNorm", self.devices)
        dtype = as_dtype("LayerNorm", dtype)
        self.eps = _positive("LayerNorm", eps)
        self.weight = Weight("weight", dtype, (dims,), DeviceRef.CPU())
        if use_bias:
            self.bias = Weight("bias", dtype, (dims,), DeviceRef.CPU())

    def __call__(self, input: TensorValue) -> TensorValue:
        """The normalised ``input``, ``[..., dims]``.

        Raises:
            ShapeError: ML208, the last dim of the input is not ``dims``.
            DTypeError: The input has another dtype than the weight.
        """
        gamma = self.weight.to(input.device)
        beta = (
            _constant(0.0, input.shape[-1], gamma)
            if self.bias is None
            else self.bias.to(input.device)
        )
        return ops.layer_norm(input, gamma, beta, self.eps)

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the layer is cut into shards; None when it is not. It is only replicated: a part of a
        row has another mean.

        Raises:
            GraphError: ML381, what is set is no ``ShardingStrategy``.
            ModuleError: ML719, what is set cuts the weight.
        """
        return self.weight.sharding_strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        if axes_cut(self.weight, strategy):
            raise unfit("LayerNorm", strategy, "use ShardingStrategy.replicate")
        self.weight.sharding_strategy = strategy
        if self.bias is not None:
            self.bias.sharding_strategy = strategy

    def shard(self, devices: Iterable[DeviceRef]) -> Sequence[LayerNorm]:
        """The layer on each device, in their order.

        Raises:
            ModuleError: ML719, the layer has no sharding strategy.
            GraphError: ML796 (a ValueError), the strategy makes another number of shards.
        """
        places = places_of(devices)
        if self.sharding_strategy is None:
            raise no_shards("LayerNorm", places)
        parts = zip(places, self.weight.shard(places), shards_of(self.bias, places), strict=True)
        return [shard_of(self, devices=[p], weight=weight, bias=bias) for p, weight, bias in parts]


class ConstantLayerNorm(Module):
    """Rows over the last dims shifted to mean 0 and scaled to variance 1, with no weights to learn.

    Args:
        dims: The size of the last dim of the input, or the sizes of its last dims.
        device: Where gamma and beta live.
        dtype: The element type of gamma and beta; the input is converted to it, and the result
            back.
        eps: A positive number added to the variance.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML722, ``eps`` is not positive.
    """

    def __init__(
        self, dims: int | tuple[int, ...], device: DeviceRef, dtype: DType, eps: float = 1e-5
    ) -> None:
        sizes = dims if isinstance(dims, tuple) else (dims,)
        for size in sizes or (0,):
            check_size("ConstantLayerNorm", "dims", size)
        self.gamma = np.ones(sizes, dtype.ml_numpy)
        self.beta = np.zeros(sizes, dtype.ml_numpy)
        self.eps = _positive("ConstantLayerNorm", eps)
        self.device = DeviceRef.from_device(device)
        self.dtype = dtype

    def __call__(self, input: TensorValue) -> TensorValue:
        """The normalised ``input``, of its type.

        Raises:
            ShapeError: ML723, the last dims of the input are not ``dims``.
        """
        sizes = self.gamma.shape
        if list(input.shape[-len(sizes) :]) != list(sizes):
            raise ShapeError(
                "ML723",
                f"ConstantLayerNorm: the input is [{', '.join(map(str, input.shape))}], expected "
                f"the last dims {list(sizes)}",
                fix="pass dims that are the last dims of the input, or transpose the input",
            )
        x = ops.cast(input, self.dtype)
        if len(sizes) > 1:
            x = ops.flatten(x, -len(sizes), -1)
        gamma = ops.constant(self.gamma.reshape(-1), self.dtype, self.device)
        beta = ops.constant(self.beta.reshape(-1), self.dtype, self.device)
        y = ops.layer_norm(x, gamma, beta, self.eps)
        return ops.cast(ops.reshape(y, input.shape), input.dtype)


def _rms(
    x: TensorValue, weight: TensorValue, eps: float, offset: float, before_cast: bool
) -> TensorValue:
    """``x`` over the root of its mean square, times ``weight + offset``; summed in float32 at
    least."""
    wide = DType.float64 if x.dtype is DType.float64 else DType.float32
    w = ops.cast(x, wide)
    normal = w * ops.rsqrt(ops.mean(w * w) + eps)
    if before_cast:
        scale = ops.cast(weight, wide)
        return ops.cast(normal * (scale + offset if offset else scale), x.dtype)
    scale = ops.cast(weight, x.dtype)
    return ops.cast(normal, x.dtype) * (scale + offset if offset else scale)


class RMSNorm(Module):
    """Each last-axis row over the root of its mean square, times ``weight + weight_offset``.

    Rows are summed and scaled in float32 (float64 for float64 inputs).

    Args:
        dim: The size of the last dim of the input.
        dtype: The element type of the weight.
        eps: A positive number added to the mean square.
        weight_offset: Added to the weight when it is used; 1.0 for Gemma.
        multiply_before_cast: Whether the product with the weight is rounded to the input's dtype
            (as Gemma 3), or the factors are (as Llama). It only matters below float32.

    Attributes:
        weight: ``[dim]``.

    Raises:
        ArgumentError: ML716, ``dim`` is not a positive int; ML722, ``eps`` is not positive.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> norm = nn.RMSNorm(64, DType.float32)
        >>> graph = Graph("norm", norm, [TensorType(DType.float32, ["n", 64])])
    """

    weight: Weight

    @fitting("ML975", "nn.RMSNorm(4)")
    def __init__(
        self,
        dim: int,
        dtype: DType | str = DType.float32,
        eps: float = 1e-6,
        weight_offset: float = 0.0,
        multiply_before_cast: bool = True,
    ) -> None:
        check_size("RMSNorm", "dim", dim)
        self.weight = Weight("weight", as_dtype("RMSNorm", dtype), (dim,), DeviceRef.CPU())
        self.eps = _positive("RMSNorm", eps)
        self.weight_offset = float(weight_offset)
        self.multiply_before_cast = multiply_before_cast

    def __call__(self, x: TensorValue) -> TensorValue:
        """The normalised ``x``, ``[..., dim]``.

        Raises:
            ShapeError: The last dim of ``x`` is not ``dim``.
        """
        _same_last("RMSNorm", x, self.weight)
        return _rms(
            x, self.weight.to(x.device), self.eps, self.weight_offset, self.multiply_before_cast
        )

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the layer is cut into shards; None when it is not. It is only replicated: a part of a
        row has another mean.

        Raises:
            GraphError: ML381, what is set is no ``ShardingStrategy``.
            ModuleError: ML719, what is set cuts the weight.
        """
        return self.weight.sharding_strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        if axes_cut(self.weight, strategy):
            raise unfit("RMSNorm", strategy, "use ShardingStrategy.replicate")
        self.weight.sharding_strategy = strategy

    def shard(self, devices: Iterable[DeviceRef]) -> Sequence[RMSNorm]:
        """The layer on each device, in their order.

        Raises:
            ModuleError: ML719, the layer has no sharding strategy.
            GraphError: ML796 (a ValueError), the strategy makes another number of shards.
        """
        places = places_of(devices)
        if self.sharding_strategy is None:
            raise no_shards("RMSNorm", places)
        return [shard_of(self, weight=weight) for weight in self.weight.shard(places)]


def _same_last(what: str, x: TensorValue, weight: TensorValue) -> None:
    """Raises unless a row of ``x`` has as many elements as ``weight``: a row of 1 must not
    broadcast.
    """
    if not x.rank or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            "ML723",
            f"{what}: the input is [{', '.join(map(str, x.shape))}], expected the last dim "
            f"{weight.shape[-1]}",
            fix=f"make the {what} of the size of the input's last dim, or transpose the input",
        )


class GroupNorm(Module):
    """Groups of channels of ``[batch, channels, ...]``, each shifted to mean 0 and scaled to
    variance 1.

    Args:
        num_groups: The number of groups; it divides ``num_channels``.
        num_channels: The size of the second dim of the input.
        eps: A positive number added to the variance.
        affine: Whether each channel is then scaled by ``weight`` and shifted by ``bias``, float32
            ``[num_channels]``.
        device: Where the weights move to.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML722, ``eps`` is not positive;
            ML724, the groups do not divide the channels.
    """

    weight: Weight | None = None
    bias: Weight | None = None

    @fitting("ML975", "nn.GroupNorm(2, 4)")
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceRef = DeviceRef.GPU(),  # noqa: B008 - the documented default, an immutable
    ) -> None:
        check_size("GroupNorm", "num_groups", num_groups)
        check_size("GroupNorm", "num_channels", num_channels)
        if num_channels % num_groups:
            raise ArgumentError(
                "ML724",
                f"GroupNorm: {num_groups} groups do not divide {num_channels} channels",
                fix="choose a number of groups that divides the number of channels",
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = _positive("GroupNorm", eps)
        self.device = DeviceRef.from_device(device)
        if affine:
            self.weight = Weight("weight", DType.float32, (num_channels,), DeviceRef.CPU())
            self.bias = Weight("bias", DType.float32, (num_channels,), DeviceRef.CPU())

    def __call__(self, x: TensorValue) -> TensorValue:
        """The normalised ``x``, of its type.

        Raises:
            ShapeError: ML723, ``x`` is not ``[batch, num_channels, ...]``.
        """
        if x.rank < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(
                "ML723",
                f"GroupNorm: the input is [{', '.join(map(str, x.shape))}], expected "
                f"[batch, {self.num_channels}, ...]",
                fix="channels are axis 1: transpose the input, or change num_channels",
            )
        wide = DType.float64 if x.dtype is DType.float64 else DType.float32
        size = x.shape[1] // self.num_groups
        for dim in x.shape[2:]:
            size = size * dim
        groups = ops.reshape(ops.cast(x, wide), [x.shape[0], self.num_groups, size])
        centred = groups - ops.mean(groups)
        normal = centred * ops.rsqrt(ops.mean(centred * centred) + self.eps)
        y = ops.reshape(normal, x.shape)
        if self.weight is not None and self.bias is not None:
            channel = [self.num_channels] + [1] * (x.rank - 2)
            scale, shift = (
                ops.reshape(ops.cast(w.to(self.device), wide), channel)
                for w in (self.weight, self.bias)
            )
            y = y * scale + shift
        return ops.cast(y, x.dtype)


@dataclass(eq=False)
class LayerNormV1(Layer):
    """Layer normalisation with a weight and bias that are given.

    Deprecated: use ``LayerNorm``.
    """

    weight: TensorValue
    bias: TensorValue | None = None
    eps: float = 1e-6

    def __call__(self, input: TensorValue) -> TensorValue:
        """The normalised ``input``, of its type."""
        beta = self.bias
        if beta is None:
            beta = _constant(0.0, input.shape[-1], self.weight)
        return ops.layer_norm(input, self.weight, beta, self.eps)


@dataclass(eq=False)
class RMSNormV1(Layer):
    """Root-mean-square normalisation with a weight that is given.

    Deprecated: use ``RMSNorm``.
    """

    weight: TensorValueLike
    eps: float = 1e-6
    weight_offset: float = 0.0
    multiply_before_cast: bool = True

    def __call__(self, x: TensorValue) -> TensorValue:
        """The normalised ``x``, of its type."""
        weight = TensorValue(self.weight)
        _same_last("RMSNormV1", x, weight)
        return _rms(x, weight, self.eps, self.weight_offset, self.multiply_before_cast)
