"""``MultiheadAttention``: attention of padded batches without a cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.graph import BufferValue, DeviceRef, ShardingStrategy, TensorValue, ops
from maxlab.graph.sharding import Part, share
from maxlab.nn import kernels
from maxlab.nn.attention.mask_config import MHAMaskVariant
from maxlab.nn.dense import Linear, check_size
from maxlab.nn.module import Module
from maxlab.nn.sharding import inputs_of, several, sums


class MultiheadAttention(Module):
    """Attention of every row of a sequence to all of its rows [1]_, on one device or with the heads
    divided among several.

    Scores are never all in memory.

    Args:
        num_attention_heads: The number of heads; it divides ``hidden_size``. With several devices
            there are at least as many.
        hidden_size: The size of a row.
        devices: The devices; the CPU when left out. No device of several has a whole weight.
        dtype: The element type of the weights.
        scale: The factor of the products of queries and keys; ``1 / sqrt(head size)`` when left
            out.
        qkv_has_bias: Whether queries, keys and values have biases.
        o_proj_has_bias: Whether the projection behind attention has a bias.
        stacked_qkv: Whether the projections of queries, keys and values are one layer,
            ``qkv_proj``, rows of queries first.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML519, heads that do not divide
            ``hidden_size``; ML721, no device.
        ShapeError: ML798, there are fewer heads than devices.

    Example:
        >>> from maxlab.graph import Graph, TensorType
        >>> attention = MultiheadAttention(num_attention_heads=4, hidden_size=64)
        >>> rows = TensorType(DType.float32, ["batch", "rows", 64])
        >>> Graph("attend", attention, [rows]).output_types[0].shape
        [Dim('batch'), Dim('rows'), Dim(64)]

    .. [1] A. Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762.
    """

    def __init__(
        self,
        num_attention_heads: int,
        hidden_size: int,
        devices: Sequence[DeviceRef] | None = None,
        dtype: DType = DType.float32,
        scale: float | None = None,
        qkv_has_bias: bool = False,
        o_proj_has_bias: bool = False,
        stacked_qkv: bool = False,
    ) -> None:
        what = type(self).__name__
        self.n_heads = check_size(what, "num_attention_heads", num_attention_heads)
        self.embed_dim = check_size(what, "hidden_size", hidden_size)
        if hidden_size % num_attention_heads:
            raise ArgumentError(
                "ML519",
                f"{what}: {num_attention_heads} heads do not divide hidden_size={hidden_size}",
                fix="take a number of heads that divides the size of a row",
            )
        self.head_dim = hidden_size // num_attention_heads
        self.scale = self.head_dim**-0.5 if scale is None else float(scale)
        self.devices = several(what, [DeviceRef.CPU()] if devices is None else devices)
        self.stacked_qkv = stacked_qkv
        self.qkv_has_bias = qkv_has_bias
        place = self.devices[0]

        def linear(out_dim: int, has_bias: bool) -> Linear:
            return Linear(hidden_size, out_dim, dtype, place, has_bias=has_bias)

        if stacked_qkv:
            self.qkv_proj = linear(3 * hidden_size, qkv_has_bias)
        else:
            self.q_proj, self.k_proj, self.v_proj = (
                linear(hidden_size, qkv_has_bias) for _ in range(3)
            )
        self.o_proj = linear(hidden_size, o_proj_has_bias)
        if len(self.devices) > 1:
            self._divide(len(self.devices))

    def _divide(self, count: int) -> None:
        """Sets the strategies that divide the heads among ``count`` devices."""
        heads, size = self.n_heads, self.head_dim
        self.o_proj.sharding_strategy = ShardingStrategy.head_aware_columnwise(count, heads, size)
        if self.stacked_qkv:
            self.qkv_proj.sharding_strategy = ShardingStrategy.stacked_qkv(count, heads, size)
            return

        def cut(shape: Sequence[int], index: int) -> Part:
            start, stop = share(heads, index, count)
            return (((start * size, stop * size),), *(((0, size),) for size in shape[1:]))

        for layer in (self.q_proj, self.k_proj, self.v_proj):
            layer.sharding_strategy = ShardingStrategy(count, "rowwise", cut)

    def _projections(self) -> list[Linear]:
        """The layers before attention."""
        if self.stacked_qkv:
            return [self.qkv_proj]
        return [self.q_proj, self.k_proj, self.v_proj]

    @property
    def wqkv(self) -> TensorValue:
        """The weights of queries, keys and values, one below the other:
        ``[3 * hidden_size, hidden_size]`` on the first device.

        Raises:
            NoGraphError: ML313, no graph is being built.
        """
        parts = [layer.weight.to(self.devices[0]) for layer in self._projections()]
        return parts[0] if len(parts) == 1 else ops.concat(parts, axis=0)

    @property
    def wqkv_bias(self) -> TensorValue | None:
        """The biases of queries, keys and values, one behind the other, or None.

        Raises:
            NoGraphError: ML313, no graph is being built.
        """
        found = [layer.bias for layer in self._projections() if layer.bias is not None]
        parts = [bias.to(self.devices[0]) for bias in found]
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else ops.concat(parts, axis=0)

    def __call__(
        self,
        x: TensorValue | Sequence[TensorValue],
        signal_buffers: Iterable[BufferValue] | None = None,
    ) -> Any:
        """The attention of each row of ``x``: ``[batch, rows, hidden_size]``; with several devices
        a list of it, one on each, all alike.

        Args:
            x: The rows, ``[batch, rows, hidden_size]``. With several devices a list of them, one on
                each, all alike; or one, which is brought to all.
            signal_buffers: With several devices a buffer on each, such as ``nn.comm.Signals``
                makes; without them the parts go to the other devices one by one.

        Raises:
            ShapeError: ML203, the last dim of ``x`` is not ``hidden_size``; ML659, ``x`` is not of
                rank 3.
            ArgumentError: ML437, another number of inputs than of devices; ML435, as
                ``ops.allreduce.sum`` says.
        """
        inputs = inputs_of(type(self).__name__, x, self.devices)
        if len(self.devices) == 1:
            return _attended(inputs[0], self._projections(), self.o_proj, self.head_dim, self.scale)
        shards = zip(*(layer.shard(self.devices) for layer in self._projections()), strict=True)
        parts = [
            _attended(value, before, behind, self.head_dim, self.scale)
            for value, before, behind in zip(
                inputs, shards, self.o_proj.shard(self.devices), strict=True
            )
        ]
        return sums(parts, self.devices, signal_buffers)


def _attended(
    x: TensorValue, before: Sequence[Linear], behind: Linear, size: int, scale: float
) -> TensorValue:
    """The attention of some of the heads, behind their part of the last projection."""
    made = [layer(x) for layer in before]
    parts = ops.chunk(made[0], 3, axis=-1) if len(made) == 1 else made
    heads = int(parts[0].shape[-1]) // size
    q, k, v = (ops.reshape(part, [*part.shape[:-1], heads, size]) for part in parts)
    y = kernels.flash_attention_gpu(q, k, v, MHAMaskVariant.NULL_MASK, scale)
    return behind(ops.reshape(y, [*x.shape[:-1], heads * size]))


__all__ = ["MultiheadAttention"]
