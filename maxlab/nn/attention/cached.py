"""Projections, attention and shards of all layers of attention over a paged cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ModuleError
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, Weight, ops
from maxlab.graph.sharding import Part
from maxlab.nn import kernels
from maxlab.nn.attention.mask_config import MHAMaskVariant
from maxlab.nn.clamp import clamp
from maxlab.nn.dense import Linear, check_size, first_device
from maxlab.nn.float8.layers import check_float8, joined_scale, largest_scale, rescaled
from maxlab.nn.float8_config import Float8Config
from maxlab.nn.module import Module
from maxlab.nn.sharding import no_shards, places_of, shard_of, unfit

if TYPE_CHECKING:
    from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues


Attended: TypeAlias = "tuple[TensorValue, TensorValue, PagedCacheValues, TensorValue]"


class CachedAttention(Module):
    """Projections to queries, keys and values, attention of a ragged batch over a paged cache, and
    the projection behind it.

    Args:
        num_attention_heads: The number of query heads.
        num_key_value_heads: The number of heads of keys, and of values.
        hidden_size: The size of a token's vector.
        kv_params: The parameters of the cache, with the size of a head.
        scale: The factor of the products of queries and keys.
        devices: The first is used; the CPU when left out.
        dtype: The element type of the weights.
        linear_cls: Makes the projections; called as ``Linear`` is.
        stacked_qkv: Whether the projections of queries, keys and values are one weight, named
            ``qkv_proj.weight``, rows of queries first.
        has_bias: Whether queries, keys and values have biases.
        clip_qkv: When given, the weights of queries, keys and values are used as if cut to
            ``[-clip_qkv, clip_qkv]``.
        float8_config: How weights and inputs are scaled, where ``dtype`` is float8_e4m3fn, or None.

    Attributes:
        mask_variant: The mask, ``CAUSAL_MASK``; subclasses may set another one.
        local_window_size: The keys of a window or of a chunk; -1 for other masks.
        sinks: A score of each head, ``[heads]``, that takes part in the softmax without a value;
            None, which subclasses may replace by a weight.

    Raises:
        ArgumentError: ML519, arguments that exclude one another, or heads that do not fit; ML716, a
            size that is not a positive int; ML718, a negative ``clip_qkv``; ML721, no device.
        ModuleError: ML717, a ``float8_config`` that does not fit, or is beside ``clip_qkv`` or
            ``stacked_qkv``.
    """

    mask_variant: MHAMaskVariant = MHAMaskVariant.CAUSAL_MASK
    local_window_size: int = -1
    sinks: Weight | None = None

    def __init__(
        self,
        *,
        num_attention_heads: int,
        num_key_value_heads: int,
        hidden_size: int,
        kv_params: KVCacheParams,
        scale: float,
        devices: Sequence[DeviceRef] | None = None,
        dtype: DType = DType.float32,
        linear_cls: Callable[..., Linear] = Linear,
        stacked_qkv: bool = False,
        has_bias: bool = False,
        clip_qkv: float | None = None,
        float8_config: Float8Config | None = None,
    ) -> None:
        what = type(self).__name__
        if float8_config is not None:
            beside = {"clip_qkv": clip_qkv, "stacked_qkv": stacked_qkv or None}
            float8_config = check_float8(what, float8_config, dtype, **beside)
        self.float8_config = float8_config
        if stacked_qkv and (has_bias or clip_qkv is not None):
            name, value = ("has_bias", True) if has_bias else ("clip_qkv", clip_qkv)
            raise ArgumentError(
                "ML519",
                f"{what}: stacked_qkv=True does not go with {name}={value}",
                fix=f"pass the weights of queries, keys and values apart, or leave {name} out",
            )
        self.n_heads = check_size(what, "num_attention_heads", num_attention_heads)
        self.num_key_value_heads = check_size(what, "num_key_value_heads", num_key_value_heads)
        self.hidden_size = check_size(what, "hidden_size", hidden_size)
        self.kv_params = kv_params
        self._check_heads()
        self.dtype = dtype
        self.devices = [DeviceRef.CPU()] if devices is None else places_of(devices)
        self.device = first_device(what, self.devices)
        self.scale = scale
        self.clip_qkv = clip_qkv
        self.has_bias = has_bias
        self.stacked_qkv = stacked_qkv
        self._strategy: ShardingStrategy | None = None
        size = kv_params.head_dim
        rows, kv_rows = num_attention_heads * size, num_key_value_heads * size

        def linear(in_dim: int, out_dim: int, **more: Any) -> Linear:
            if float8_config is not None:
                more["float8_config"] = float8_config
            return linear_cls(
                in_dim=in_dim, out_dim=out_dim, dtype=dtype, device=self.device, **more
            )

        if stacked_qkv:
            shape = (rows + 2 * kv_rows, hidden_size)
            self.qkv_proj = Weight("qkv_proj.weight", dtype, shape, DeviceRef.CPU())
        else:
            more: dict[str, Any] = {"has_bias": has_bias}
            if clip_qkv is not None:
                more["clip_weight"] = clip_qkv
            self.q_proj = linear(hidden_size, rows, **more)
            self.k_proj = linear(hidden_size, kv_rows, **more)
            self.v_proj = linear(hidden_size, kv_rows, **more)
        self.o_proj = linear(rows, hidden_size)

    def _check_heads(self) -> None:
        """Raises unless heads of queries can share those of keys, which are the cache's."""
        heads, kv_heads, params = self.n_heads, self.num_key_value_heads, self.kv_params
        if heads % kv_heads:
            raise self._misfit(
                f"{heads} query heads cannot share {kv_heads} heads of keys in equal parts"
            )
        if kv_heads != params.n_kv_heads:
            raise self._misfit(
                f"num_key_value_heads={kv_heads}, and kv_params have {params.n_kv_heads} heads"
            )

    def _misfit(self, wrong: str) -> ArgumentError:
        """The error that heads do not fit."""
        return ArgumentError(
            "ML519",
            f"{type(self).__name__}: {wrong}",
            fix="take the heads and their size from one config.json, for the layer, the cache and "
            "the rotary embedding",
        )

    # ------------------------------------------------------------ weights
    @property
    def wqkv(self) -> TensorValue:
        """The weights of queries, keys and values, one below the other:
        ``[(heads + 2 * heads of keys) * head_dim, hidden_size]``.

        Raises:
            NoGraphError: ML313, no graph is being built.
        """
        if self.stacked_qkv:
            return self.qkv_proj.to(self.device)
        layers = (self.q_proj, self.k_proj, self.v_proj)
        parts = [layer.weight.to(self.device) for layer in layers]
        if self.float8_config is not None and self.float8_config.weight_scale.is_tensor:
            # One scale for all three: numbers are rounded anew where theirs was smaller.
            scale = self.qkv_weight_scale
            parts = [
                rescaled(weight, layer.weight_scale.to(self.device), scale)
                for weight, layer in zip(parts, layers, strict=True)
                if layer.weight_scale is not None
            ]
        weights = ops.concat(parts, axis=0)
        return weights if self.clip_qkv is None else clamp(weights, -self.clip_qkv, self.clip_qkv)

    @property
    def wqkv_bias(self) -> TensorValue | None:
        """The biases of queries, keys and values, one behind the other, or None.

        Raises:
            NoGraphError: ML313, no graph is being built.
        """
        if not self.has_bias:
            return None
        biases = (layer.bias for layer in (self.q_proj, self.k_proj, self.v_proj))
        return ops.concat([bias.to(self.device) for bias in biases if bias is not None], axis=0)

    @property
    def qkv_input_scale(self) -> TensorValue | None:
        """The largest of the input scales of queries, keys and values, of rank 0; None where inputs
        are not rounded to 8 bits, or by scales that are found in them.

        Raises:
            NoGraphError: ML313, no graph is being built.
        """
        if self.float8_config is None or self.float8_config.is_dynamic:
            return None
        return largest_scale(
            [layer.input_scale for layer in (self.q_proj, self.k_proj, self.v_proj)], self.device
        )

    @property
    def qkv_weight_scale(self) -> TensorValue:
        """The scale of ``wqkv``: the largest of those of queries, keys and values, of rank 0. Where
        rows or blocks have scales, those of all three, one below the other.

        Raises:
            ModuleError: ML717, the weights are not quantised and have no scale.
            NoGraphError: ML313, no graph is being built.
        """
        if self.float8_config is not None:
            layers = (self.q_proj, self.k_proj, self.v_proj)
            scales = [layer.weight_scale for layer in layers]
            if self.float8_config.weight_scale.is_tensor:
                return largest_scale(scales, self.device)
            return joined_scale(type(self).__name__, self.float8_config, layers, self.device)
        raise ModuleError(
            "ML717",
            f"{type(self).__name__}: the weights have no scale, as they are not quantised",
            fix="read wqkv, the weights themselves",
        )

    # ------------------------------------------------------------ what it computes
    def project(
        self,
        layer_idx: TensorValue,
        x: TensorValue,
        kv_collection: PagedCacheValues,
        input_row_offsets: TensorValue,
    ) -> TensorValue:
        """The queries of ``x``, ``[tokens, heads * head_dim]``; its keys and values go into the
        cache.

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            x: The rows of all sequences, ``[tokens, hidden_size]``.
            kv_collection: The cache.
            input_row_offsets: Where the rows of each sequence begin, uint32 ``[batch + 1]``.

        Raises:
            ShapeError: ML659, shapes that do not fit (a ValueError).
            DTypeError: ML666, other dtypes than that of the cache (a ValueError).
        """
        if self.stacked_qkv:
            return kernels.fused_qkv_ragged_matmul(
                self.kv_params,
                x,
                input_row_offsets,
                self.wqkv,
                kv_collection,
                layer_idx,
                self.n_heads,
            )
        # Three products and no concatenated weight, which would be copied in every run.
        for part, layer in enumerate((self.k_proj, self.v_proj)):
            kernels.store_rows(
                self.kv_params, kv_collection, layer(x), input_row_offsets, layer_idx, part
            )
        return self.q_proj(x)

    def attend(
        self,
        layer_idx: TensorValue,
        q: TensorValue,
        kv_collection: PagedCacheValues,
        input_row_offsets: TensorValue,
    ) -> TensorValue:
        """The attention of queries over the cache, behind the last projection:
        ``[tokens, hidden_size]``.

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            q: The queries, ``[tokens, heads, head_dim]``.
            kv_collection: The cache, which has the new keys and values already.
            input_row_offsets: Where the rows of each sequence begin, uint32 ``[batch + 1]``.

        Raises:
            ShapeError: ML659, shapes that do not fit (a ValueError).
            DTypeError: ML666, other dtypes than that of the cache (a ValueError).
            ArgumentError: ML667, a mask and a window that do not go together (a ValueError).
        """
        sinks = self.sinks
        # For hooks behind the layer, which see no queries otherwise.
        self._attended = (layer_idx, q, kv_collection, input_row_offsets)
        attended = kernels.flash_attention_ragged(
            self.kv_params,
            q,
            input_row_offsets,
            kv_collection,
            layer_idx,
            self.mask_variant,
            self.scale,
            self.local_window_size,
            None if sinks is None else ops.cast(sinks.to(self.device), self.kv_params.dtype),
        )
        return self.o_proj(ops.reshape(attended, [q.shape[0], self.n_heads * q.shape[2]]))

    @property
    def attended(self) -> Attended | None:
        """The arguments of the last call of `attend`, values of the graph where it was: the layer
        of the cache, the queries, the cache and the offsets of rows; None before. Hooks behind the
        layer read it."""
        found: Attended | None = self.__dict__.get("_attended")
        return found

    # ------------------------------------------------------------ several devices
    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the layer is cut into shards; None when it is not.

        It may be replicated, with a cache that has all heads on each device. Or each shard has some
        of the heads (``rowwise``, ``head_aware_columnwise`` and ``stacked_qkv`` say this alike),
        those that ``kv_params`` keep on its device; then the shards' outputs add up to the layer's.

        Raises:
            ModuleError: ML719, what is set is no such strategy, or not one for the cache.
        """
        return self._strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        if strategy is not None:
            self._check_strategy(strategy)
        whole, params = strategy is None or strategy.is_replicate, self.kv_params
        count, size = 1 if strategy is None else strategy.num_devices, params.head_dim
        rows = strategy if whole else ShardingStrategy.rowwise(count)
        if self.stacked_qkv:
            blocks = [n * size for n in (self.n_heads, *[self.num_key_value_heads] * 2)]
            self.qkv_proj.sharding_strategy = strategy if whole else _parts_of(blocks, count)
        else:
            for layer in (self.q_proj, self.k_proj, self.v_proj):
                layer.sharding_strategy = rows
        self.o_proj.sharding_strategy = (
            strategy if whole else ShardingStrategy.head_aware_columnwise(count, self.n_heads, size)
        )
        if self.sinks is not None:
            self.sinks.sharding_strategy = rows
        for name in self._small_layers():
            getattr(self, name).sharding_strategy = (
                None if strategy is None else ShardingStrategy.replicate(count)
            )
        self._strategy = strategy

    def _check_strategy(self, strategy: ShardingStrategy) -> None:
        """Raises unless the layer can be cut by ``strategy`` as its cache is."""
        what, params = type(self).__name__, self.kv_params
        if not isinstance(strategy, ShardingStrategy) or not (
            strategy.is_replicate
            or strategy.is_rowwise
            or strategy.is_head_aware_colwise
            or strategy.is_stacked_qkv
        ):
            name = getattr(strategy, "name", strategy)
            raise ModuleError(
                "ML719",
                f"{what} cannot be sharded {name}",
                fix="replicate it, or divide its heads: ShardingStrategy.rowwise(2)",
            )
        if strategy.is_replicate:
            fits = params.n_kv_heads_per_device == params.n_kv_heads
        else:
            fits = params.n_kv_heads_per_device * strategy.num_devices == params.n_kv_heads
        if not fits:
            raise unfit(
                f"{what} with {params.n_kv_heads_per_device} of {params.n_kv_heads} heads of keys "
                f"in the cache of a device, for {strategy.num_devices} devices,",
                strategy,
                "make kv_params for as many devices: n_devices divides the heads, with "
                "data_parallel_degree each device has all",
            )
        if self.mask_variant is MHAMaskVariant.CAUSAL_ALIBI_MASK and not strategy.is_replicate:
            raise unfit(
                what,
                strategy,
                "replicate it: with ALiBi what a head computes depends on its number",
            )

    def shard(self, devices: Iterable[DeviceRef]) -> list[Self]:
        """The shards of the layer, one for each device, in their order.

        Args:
            devices: The devices.

        Raises:
            ModuleError: ML719, the layer has no sharding strategy.
            GraphError: ML796 (a ValueError), the strategy makes another number of shards.
        """
        places, strategy = places_of(devices), self._strategy
        if strategy is None:
            raise no_shards(type(self).__name__, places)
        names = ["o_proj", *self._small_layers()]
        names += ["qkv_proj"] if self.stacked_qkv else ["q_proj", "k_proj", "v_proj"]
        names += [] if self.sinks is None else ["sinks"]
        parts = {name: getattr(self, name).shard(places) for name in names}
        count = 1 if strategy.is_replicate else len(places)
        return [
            shard_of(
                self,
                devices=[place],
                device=place,
                n_heads=self.n_heads // count,
                num_key_value_heads=self.num_key_value_heads // count,
                **{name: parts[name][number] for name in names},
            )
            for number, place in enumerate(places)
        ]

    def _small_layers(self) -> list[str]:
        """The layers that every shard has whole, by attribute."""
        return []


def _parts_of(blocks: Sequence[int], count: int) -> ShardingStrategy:
    """Shards of the first axis that have an equal part of each of ``blocks`` of rows."""

    def cut(shape: Sequence[int], index: int) -> Part:
        runs, start = [], 0
        for size in blocks:
            each = size // count
            runs.append((start + index * each, start + (index + 1) * each))
            start += size
        return (tuple(runs), *(((0, size),) for size in shape[1:]))

    return ShardingStrategy(count, "stacked_qkv", cut)


__all__ = ["CachedAttention"]
