"""Attention with rotary embeddings over a paged cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ModuleError, shown
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, ops
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.nn import kernels
from maxlab.nn.attention.cached import CachedAttention
from maxlab.nn.attention.not_opaque import AttentionWithRopeNoOpaque
from maxlab.nn.attention.on_devices import DataParallel, TensorParallel
from maxlab.nn.dense import Linear, refuse_quantization
from maxlab.nn.float8_config import Float8Config
from maxlab.nn.gptq import GPTQLinear
from maxlab.nn.groups import stacked
from maxlab.nn.norm import RMSNorm
from maxlab.nn.packed import check_encoding
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.sharding import distribute_value

if TYPE_CHECKING:
    from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues


class AttentionWithRope(CachedAttention):
    """Causal self-attention of a ragged batch. Queries and keys are turned by their positions, and
    keys and values are kept in a paged cache.

    Several query heads share a head of keys where there are fewer of these [1]_.

    Args:
        rope: The rotary embedding, which says how pairs are laid out and what the scale is.
        sharding_strategy: How the layer is cut into shards, or None.
        num_attention_heads: The number of query heads.
        num_key_value_heads: The number of heads of keys, and of values.
        hidden_size: The size of a token's vector.
        kv_params: The parameters of the cache, with the size of a head.
        devices: The first is used; the CPU when left out.
        dtype: The element type of the weights.
        linear_cls: Makes the projections; called as ``Linear`` is.
        stacked_qkv: Whether the projections of queries, keys and values are one weight, named
            ``qkv_proj.weight``, rows of queries first.
        scale: The factor of the products of queries and keys; that of ``rope`` when left out.
        has_bias: Whether queries, keys and values have biases.
        float8_config: How weights and inputs are scaled, where ``dtype`` is float8_e4m3fn, as
            ``Linear`` has it, or None. Norms then have the dtype of the cache.
        clip_qkv: When given, the weights of queries, keys and values are used as if cut to
            ``[-clip_qkv, clip_qkv]``.
        use_qk_norm: Whether each head of queries and keys is normalised by its root mean square,
            before it is turned.
        rms_norm_eps: Added to the mean square.

    Attributes:
        mask_variant: The mask, ``CAUSAL_MASK``; subclasses may set another one.
        local_window_size: The keys of a window or of a chunk; -1 for other masks.

    Raises:
        ArgumentError: ML519, arguments that exclude one another, or heads that do not fit; ML716, a
            size that is not a positive int; ML718, a negative ``clip_qkv``; ML721, no device;
            ML722, ``rms_norm_eps`` is not positive.
        ModuleError: ML717, a ``float8_config`` that does not fit; ML719, a ``sharding_strategy``
            that the layer cannot be cut by.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.nn.kv_cache import KVCacheParams
        >>> params = KVCacheParams(DType.float32, n_kv_heads=2, head_dim=16, page_size=128)
        >>> attention = AttentionWithRope(
        ...     rope=nn.rotary_embedding.RotaryEmbedding(64, 4, 10000.0, 512, interleaved=False),
        ...     num_attention_heads=4,
        ...     num_key_value_heads=2,
        ...     hidden_size=64,
        ...     kv_params=params,
        ... )
        >>> sorted(attention.state_dict())
        ['k_proj.weight', 'o_proj.weight', 'q_proj.weight', 'v_proj.weight']

    .. [1] J. Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from
       Multi-Head Checkpoints", 2023, arXiv:2305.13245.
    """

    rope: RotaryEmbedding

    def __init__(
        self,
        *,
        rope: RotaryEmbedding,
        sharding_strategy: ShardingStrategy | None = None,
        num_attention_heads: int,
        num_key_value_heads: int,
        hidden_size: int,
        kv_params: KVCacheParams,
        devices: Sequence[DeviceRef] | None = None,
        dtype: DType = DType.float32,
        linear_cls: Callable[..., Linear] = Linear,
        stacked_qkv: bool = False,
        scale: float | None = None,
        has_bias: bool = False,
        float8_config: Float8Config | None = None,
        clip_qkv: float | None = None,
        use_qk_norm: bool = False,
        rms_norm_eps: float = 1e-6,
    ) -> None:
        self.rope = rope
        super().__init__(
            num_attention_heads=num_attention_heads,
            num_key_value_heads=num_key_value_heads,
            hidden_size=hidden_size,
            kv_params=kv_params,
            scale=rope.compute_scale(scale),
            devices=devices,
            dtype=dtype,
            linear_cls=linear_cls,
            stacked_qkv=stacked_qkv,
            has_bias=has_bias,
            clip_qkv=clip_qkv,
            float8_config=float8_config,
        )
        self.use_qk_norm = use_qk_norm
        if use_qk_norm:
            kind = dtype if float8_config is None else kv_params.dtype
            self.q_norm, self.k_norm = (
                RMSNorm(kv_params.head_dim, kind, rms_norm_eps, multiply_before_cast=False)
                for _ in range(2)
            )
        if sharding_strategy is not None:
            self.sharding_strategy = sharding_strategy

    def _check_heads(self) -> None:
        super()._check_heads()
        size = self.kv_params.head_dim
        if self.rope.head_dim != size:
            raise self._misfit(
                f"rope turns heads of {self.rope.head_dim}, and those of kv_params have {size}"
            )

    def _small_layers(self) -> list[str]:
        return ["q_norm", "k_norm"] if self.use_qk_norm else []

    def __call__(
        self,
        layer_idx: TensorValue,
        x: TensorValue,
        kv_collection: PagedCacheValues,
        freqs_cis: TensorValue,
        input_row_offsets: TensorValue,
    ) -> TensorValue:
        """The attention of each row of ``x``, ``[tokens, hidden_size]``.

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            x: The rows of all sequences, ``[tokens, hidden_size]``.
            kv_collection: The cache; keys and values of these rows are added to it.
            freqs_cis: The table of ``rope``, ``[positions, head_dim]``.
            input_row_offsets: Where the rows of each sequence begin, uint32 ``[batch + 1]``.

        Raises:
            ShapeError: ML659, shapes that do not fit (a ValueError).
            DTypeError: ML666, other dtypes than that of the cache (a ValueError).
        """
        params = self.kv_params
        q = self.project(layer_idx, x, kv_collection, input_row_offsets)
        q = ops.reshape(q, [x.shape[0], self.n_heads, params.head_dim])
        if self.use_qk_norm:
            q = self.q_norm(q)
            kernels.rms_norm_key_cache(
                params,
                kv_collection,
                ops.cast(self.k_norm.weight.to(self.device), params.dtype),
                self.k_norm.eps,
                layer_idx,
                x.shape[0],
                input_row_offsets,
                weight_offset=self.k_norm.weight_offset,
                multiply_before_cast=self.k_norm.multiply_before_cast,
            )
        q = kernels.fused_qk_ragged_rope(
            params,
            q,
            input_row_offsets,
            kv_collection,
            freqs_cis.to(self.device),
            layer_idx,
            interleaved=self.rope.interleaved,
        )
        return self.attend(layer_idx, q, kv_collection, input_row_offsets)


class TensorParallelAttentionWithRope(TensorParallel, AttentionWithRope):  # type: ignore[misc]
    """``AttentionWithRope`` whose heads are divided among devices: each has the weights of its
    heads, and a cache of their keys and values, and the outputs add up.

    Args:
        **kwargs: As of ``AttentionWithRope``, without ``sharding_strategy``; ``devices`` has two
            or more, and ``kv_params`` are made for as many.

    Raises:
        ArgumentError: ML466 (a ValueError), fewer than two devices; ML519, ML716, ML718, ML722, as
            for ``AttentionWithRope``.
        ModuleError: ML717, as for it; ML719, a cache for another number of devices.

    Example:
        >>> from maxlab.nn.kv_cache import KVCacheParams
        >>> places = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
        >>> attention = TensorParallelAttentionWithRope(
        ...     rope=RotaryEmbedding(64, 4, 10000.0, 512, interleaved=False),
        ...     num_attention_heads=4,
        ...     num_key_value_heads=2,
        ...     hidden_size=64,
        ...     kv_params=KVCacheParams(DType.float32, 2, 16, page_size=128, n_devices=2),
        ...     devices=places,
        ... )
        >>> [shard.q_proj.weight.shape for shard in attention.shard(places)]
        [[Dim(32), Dim(64)], [Dim(32), Dim(64)]]
    """

    _least = 2


class DataParallelAttentionWithRope(DataParallel, AttentionWithRope):  # type: ignore[misc]
    """``AttentionWithRope`` that each device has whole, for sequences and a cache of its own.
    Devices exchange nothing.

    Args:
        **kwargs: As of ``AttentionWithRope``, without ``sharding_strategy``; ``devices`` has one
            or more, and in ``kv_params`` each device has all heads.

    Raises:
        ArgumentError: ML519, ML716, ML718, ML721, ML722, as for ``AttentionWithRope``.
        ModuleError: ML717, as for it; ML719, a cache whose heads are divided.
    """


class GGUFQAttentionWithRope(AttentionWithRope):
    """``AttentionWithRope`` with weights in blocks of few bits, as in GGUF files. They stay packed
    in memory.

    Args:
        rope: The rotary embedding, which says how pairs are laid out and what the scale is.
        num_attention_heads: The number of query heads.
        num_key_value_heads: The number of heads of keys, and of values.
        hidden_size: The size of a token's vector.
        kv_params: The parameters of the cache, with the size of a head.
        dtype: uint8, as the weights are bytes. Biases are float32.
        quantization_encoding: How the weights are packed. When weights are loaded with
            ``override_quantization_encoding``, each may have an encoding of its own.
        devices: The first is used; the CPU when left out.
        linear_cls: Makes the projections; called as ``Linear`` is.
        scale: The factor of the products of queries and keys; that of ``rope`` when left out.
        has_bias: Whether queries, keys and values have biases.
        clip_qkv: None; packed weights cannot be cut.

    Raises:
        ArgumentError: ML519, heads that do not fit, or another ``dtype``; ML716, a size that is not
            a positive int; ML721, no device.
        ModuleError: ML717, an encoding without blocks of GGUF files, or ``clip_qkv`` is given;
            ML782, rows that are not of whole blocks.
    """

    def __init__(
        self,
        *,
        rope: RotaryEmbedding,
        num_attention_heads: int,
        num_key_value_heads: int,
        hidden_size: int,
        kv_params: KVCacheParams,
        dtype: DType,
        quantization_encoding: QuantizationEncoding,
        devices: list[DeviceRef] | None = None,
        linear_cls: Callable[..., Linear] = Linear,
        scale: float | None = None,
        has_bias: bool = False,
        clip_qkv: float | None = None,
    ) -> None:
        what = type(self).__name__
        check_encoding(what, quantization_encoding)
        if dtype is not DType.uint8:
            raise ArgumentError(
                "ML519",
                f"{what}: dtype must be uint8, got {shown(dtype)}",
                fix="pass DType.uint8: the weights are bytes",
            )
        if clip_qkv is not None:
            refuse_quantization(
                f"{what} with clip_qkv", quantization_encoding=quantization_encoding
            )
        super().__init__(
            rope=rope,
            num_attention_heads=num_attention_heads,
            num_key_value_heads=num_key_value_heads,
            hidden_size=hidden_size,
            kv_params=kv_params,
            devices=devices,
            dtype=dtype,
            linear_cls=partial(linear_cls, quantization_encoding=quantization_encoding),
            scale=scale,
            has_bias=has_bias,
        )

    @property
    def wqkv(self) -> TensorValue:
        """The weights of queries, keys and values, one below the other, uint8
        ``[(heads + 2 * heads of keys) * head_dim, bytes of a row]``.

        Raises:
            ModuleError: ML717, the three have several encodings.
            NoGraphError: ML313, no graph is being built.
        """
        layers = (self.q_proj, self.k_proj, self.v_proj)
        kinds = {layer.weight.quantization_encoding for layer in layers}
        if len(kinds) > 1:
            raise ModuleError(
                "ML717",
                f"{type(self).__name__}: weights of queries, keys and values in several encodings, "
                f"{', '.join(sorted(str(kind) for kind in kinds))}, are not one tensor",
                fix="read the weights of q_proj, k_proj and v_proj",
            )
        return super().wqkv


class GPTQAttentionWithRope(AttentionWithRope):
    """``AttentionWithRope`` with weights as GPTQ stores them. They stay packed in memory.

    Args:
        quantization_config: How the weights were packed; see ``GPTQLinear``.
        rope: The rotary embedding, which says how pairs are laid out and what the scale is.
        num_attention_heads: The number of query heads.
        num_key_value_heads: The number of heads of keys, and of values.
        hidden_size: The size of a token's vector.
        kv_params: The parameters of the cache, with the size of a head.
        devices: The first is used; the CPU when left out.
        dtype: The element type of what is not packed; there is nothing such in this layer.
        scale: The factor of the products of queries and keys; that of ``rope`` when left out.
        linear_cls: Makes the projections; called as ``GPTQLinear`` is, which ``Linear`` stands for.

    Raises:
        ArgumentError: ML519, heads that do not fit; ML716, a size that is not a positive int;
            ML721, no device.
        ModuleError: ML799, a config that is not supported, or does not fit the sizes.
    """

    def __init__(
        self,
        quantization_config: QuantizationConfig,
        rope: RotaryEmbedding,
        num_attention_heads: int,
        num_key_value_heads: int,
        hidden_size: int,
        kv_params: KVCacheParams,
        devices: list[DeviceRef] | None = None,
        dtype: DType = DType.float32,
        scale: float | None = None,
        linear_cls: Callable[..., Linear] = Linear,
    ) -> None:
        made = GPTQLinear if linear_cls is Linear else linear_cls
        super().__init__(
            rope=rope,
            num_attention_heads=num_attention_heads,
            num_key_value_heads=num_key_value_heads,
            hidden_size=hidden_size,
            kv_params=kv_params,
            devices=devices,
            dtype=dtype,
            linear_cls=partial(made, quantization_config=quantization_config),
            scale=scale,
        )

    @property
    def wqkv(self) -> TensorValue:
        """The weights of queries, keys and values as bytes, uint8, in the columns of each other:
        ``[hidden_size * bits / 8 + 2 * groups, (heads + 2 * heads of keys) * head_dim]``.

        The rows are the bytes of the packed words, 4 rows for each, and behind them those of the
        scales, 2 rows for each, as ``kernels.fused_qkv_ragged_matmul_quantized`` takes them. With
        ``desc_act`` that function takes the order of one, ``q_proj.perm_idx``; a checkpoint has
        the same for all three, as they have the same input.

        Raises:
            ModuleError: ML717, ``linear_cls`` made projections that are not packed by GPTQ, or
                scales that are not of 16 bits.
            NoGraphError: ML313, no graph is being built.
        """
        layers = [
            layer
            for layer in (self.q_proj, self.k_proj, self.v_proj)
            if isinstance(layer, GPTQLinear) and layer.scales.dtype is DType.float16
        ]
        if len(layers) < 3:
            raise ModuleError(
                "ML717",
                f"{type(self).__name__}: words of GPTQ and scales of float16 make wqkv, and "
                "projections of another kind have none",
                fix="leave linear_cls out, or read the weights of q_proj, k_proj and v_proj",
            )
        return stacked(
            [layer.qweight.to(self.device) for layer in layers],
            [layer.scales.to(self.device) for layer in layers],
        )


__all__ = [
    "AttentionWithRope",
    "AttentionWithRopeNoOpaque",
    "DataParallelAttentionWithRope",
    "GGUFQAttentionWithRope",
    "GPTQAttentionWithRope",
    "TensorParallelAttentionWithRope",
    "distribute_value",
]
