"""Multi-head latent attention with rotary embeddings, over a paged cache of latent vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, shown
from maxlab.graph import DeviceRef, ShardingStrategy, TensorType, TensorValue, ops
from maxlab.graph.sharding import Part, share
from maxlab.nn import kernels
from maxlab.nn.attention.latent_chunks import Latents, attended
from maxlab.nn.attention.mask_config import MHAMaskVariant
from maxlab.nn.dense import Linear, check_size, first_device
from maxlab.nn.module import Module
from maxlab.nn.norm import RMSNorm
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.sharding import no_shards, places_of, shard_of, unfit

if TYPE_CHECKING:
    from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues

_EPS = 1e-6
"""The number that norms of latent vectors add to the mean square, in every checkpoint."""


class LatentAttentionWithRope(Module):
    """Causal self-attention of a ragged batch whose keys and values are made of one latent vector a
    token, which is all that the cache holds [1]_.

    A part of each query and key is turned by its position; that of keys is the same for all heads,
    and lies behind the latent vector in the cache.

    There are two ways to the same numbers. *Prefill* makes keys and values of the vectors, up to
    ``buffer_size`` tokens at a time, and is the fast way for many new tokens. *Decode* multiplies
    queries and results by the weights instead, and reads the vectors alone: the fast way for one
    new token of each text. With ``"auto"``, each run takes decode where no text has several.

    Args:
        rope: The rotary embedding, which turns ``qk_rope_head_dim`` dimensions.
        num_attention_heads: The number of heads.
        num_key_value_heads: As many, since each head has keys and values of its own; or 1, for the
            one vector in the cache. It changes no number.
        hidden_size: The size of a token's vector.
        kv_params: The parameters of the cache: ``is_mla``, one head, and ``head_dim`` the sum of
            ``kv_lora_rank`` and ``qk_rope_head_dim``.
        dtype: The element type of the weights, that of the cache: bfloat16, or float32, float64 and
            float16.
        devices: The first is used; the CPU when left out.
        linear_cls: Makes the projection of the results; called as ``Linear`` is.
        scale: The factor of the products of queries and keys before ``rope`` adjusts it; one over
            the root of the size of a query when left out.
        q_lora_rank: The size of the latent vectors that queries are made of; None where queries
            are made of the input.
        kv_lora_rank: The size of the latent vectors of keys and values.
        qk_nope_head_dim: The dimensions of a query that are not turned.
        qk_rope_head_dim: Those that are.
        v_head_dim: The size of a value.
        buffer_size: The most tokens of which prefill holds keys and values at a time.
        graph_mode: ``"prefill"`` or ``"decode"``, for a graph that has only this way, or
            ``"auto"``, also when left out.

    Attributes:
        q_proj: Makes queries of the input, where ``q_lora_rank`` is None; else ``q_a_proj``,
            ``q_a_layernorm`` and ``q_b_proj`` do.
        kv_a_proj_with_mqa: Makes the vectors of the cache.
        kv_a_layernorm: Normalises their latent part.
        kv_b_proj: Makes keys and values of it, for each head one behind the other.
        o_proj: Makes the result.

    Raises:
        ArgumentError: ML519, arguments that do not go together; ML716, a size that is not a
            positive int; ML721, no device.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.nn.kv_cache import KVCacheParams
        >>> params = KVCacheParams(
        ...     DType.float32, n_kv_heads=1, head_dim=24, page_size=128, is_mla=True)
        >>> attention = LatentAttentionWithRope(
        ...     rope=nn.rotary_embedding.RotaryEmbedding(32, 4, 10000.0, 512, head_dim=8),
        ...     num_attention_heads=4,
        ...     num_key_value_heads=4,
        ...     hidden_size=64,
        ...     kv_params=params,
        ...     dtype=DType.float32,
        ...     kv_lora_rank=16,
        ...     qk_nope_head_dim=12,
        ...     qk_rope_head_dim=8,
        ...     v_head_dim=10,
        ... )
        >>> [(name, list(weight.shape)) for name, weight in attention.state_dict().items()][:2]
        [('q_proj.weight', [80, 64]), ('kv_a_proj_with_mqa.weight', [24, 64])]

    .. [1] DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts
       Language Model", 2024, arXiv:2405.04434, section 2.1.
    """

    rope: RotaryEmbedding
    _strategy: ShardingStrategy | None = None

    def __init__(
        self,
        *,
        rope: RotaryEmbedding,
        num_attention_heads: int,
        num_key_value_heads: int,
        hidden_size: int,
        kv_params: KVCacheParams,
        dtype: DType,
        devices: Sequence[DeviceRef] | None = None,
        linear_cls: Callable[..., Linear] = Linear,
        scale: float | None = None,
        q_lora_rank: int | None = None,
        kv_lora_rank: int = 512,
        qk_nope_head_dim: int = 128,
        qk_rope_head_dim: int = 64,
        v_head_dim: int = 128,
        buffer_size: int = 16384,
        graph_mode: str | None = None,
    ) -> None:
        what = type(self).__name__
        self.rope = rope
        self.n_heads = check_size(what, "num_attention_heads", num_attention_heads)
        self.num_key_value_heads = check_size(what, "num_key_value_heads", num_key_value_heads)
        self.hidden_size = check_size(what, "hidden_size", hidden_size)
        self.kv_lora_rank = check_size(what, "kv_lora_rank", kv_lora_rank)
        self.qk_nope_head_dim = check_size(what, "qk_nope_head_dim", qk_nope_head_dim)
        self.qk_rope_head_dim = check_size(what, "qk_rope_head_dim", qk_rope_head_dim)
        self.v_head_dim = check_size(what, "v_head_dim", v_head_dim)
        self.buffer_size = check_size(what, "buffer_size", buffer_size)
        self.kv_params = kv_params
        self.dtype = dtype
        self.graph_mode = "auto" if graph_mode is None else graph_mode
        self._check(what)
        self.devices = [DeviceRef.CPU()] if devices is None else list(devices)
        self.device = first_device(what, self.devices)
        self.qk_head_dim = qk_nope_head_dim + qk_rope_head_dim
        self.scale = rope.compute_scale(self.qk_head_dim**-0.5 if scale is None else scale)

        def linear(in_dim: int, out_dim: int) -> Linear:
            return Linear(in_dim, out_dim, dtype, self.device)

        rows = self.n_heads * self.qk_head_dim
        self.q_lora_rank = q_lora_rank
        if q_lora_rank is None:
            self.q_proj = linear(hidden_size, rows)
        else:
            check_size(what, "q_lora_rank", q_lora_rank)
            self.q_a_proj = linear(hidden_size, q_lora_rank)
            self.q_a_layernorm = RMSNorm(q_lora_rank, dtype, _EPS, multiply_before_cast=False)
            self.q_b_proj = linear(q_lora_rank, rows)
        self.kv_a_proj_with_mqa = linear(hidden_size, kv_params.head_dim)
        self.kv_a_layernorm = RMSNorm(kv_lora_rank, dtype, _EPS, multiply_before_cast=False)
        self.kv_b_proj = linear(kv_lora_rank, self.n_heads * (qk_nope_head_dim + v_head_dim))
        self.o_proj = linear_cls(
            in_dim=self.n_heads * v_head_dim, out_dim=hidden_size, dtype=dtype, device=self.device
        )

    def _check(self, what: str) -> None:
        """Raises ML519 unless the arguments go together."""
        params, wrong = self.kv_params, None
        width = self.kv_lora_rank + self.qk_rope_head_dim
        turned = 2 * len(self.rope.inverse_frequencies())
        if not params.is_mla or params.n_kv_heads != 1:
            wrong = f"kv_params are is_mla={params.is_mla}, n_kv_heads={params.n_kv_heads}"
        elif params.head_dim != width:
            wrong = (
                f"kv_params have vectors of {params.head_dim} numbers, and kv_lora_rank and "
                f"qk_rope_head_dim are {width}"
            )
        elif params.dtype is not self.dtype:
            wrong = f"the dtype is {self.dtype.name}, and that of kv_params {params.dtype.name}"
        elif turned != self.qk_rope_head_dim:
            wrong = f"rope turns {turned} dimensions, and qk_rope_head_dim={self.qk_rope_head_dim}"
        elif self.num_key_value_heads not in (1, self.n_heads):
            wrong = (
                f"num_key_value_heads={self.num_key_value_heads}, and each of {self.n_heads} heads "
                "has keys and values of its own"
            )
        elif self.graph_mode not in ("prefill", "decode", "auto"):
            wrong = f"graph_mode={shown(self.graph_mode)}"
        if wrong is not None:
            raise ArgumentError(
                "ML519",
                f"{what}: {wrong}",
                fix="make the cache with KVCacheParams(dtype, n_kv_heads=1, is_mla=True, "
                "head_dim=kv_lora_rank + qk_rope_head_dim, ...), with the weights' dtype, and take "
                "'prefill', 'decode' or 'auto' as graph_mode",
            )

    # ------------------------------------------------------------ weights
    @property
    def w_uk_uv(self) -> list[TensorValue]:
        """The weights that bring queries into the space of latent vectors, ``[heads,
        qk_nope_head_dim, kv_lora_rank]``, and results out of it, ``[heads, kv_lora_rank,
        v_head_dim]``: the two parts of the weight of ``kv_b_proj``.

        Raises:
            NoGraphError: ML313, no graph is being built.
        """
        nope, size = self.qk_nope_head_dim, self.v_head_dim
        weight = self.kv_b_proj.weight.to(self.device)
        heads = ops.reshape(weight, [self.n_heads, nope + size, self.kv_lora_rank])
        return [heads[:, :nope], ops.transpose(heads[:, nope:], 1, 2)]

    # ------------------------------------------------------------ what it computes
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
            kv_collection: The cache; the vectors of these rows are added to it.
            freqs_cis: The table of ``rope``, ``[positions, qk_rope_head_dim]``.
            input_row_offsets: Where the rows of each sequence begin, uint32 ``[batch + 1]``.

        Raises:
            ShapeError: ML659, shapes that do not fit (a ValueError).
            DTypeError: ML666, other dtypes than that of the cache (a ValueError).
        """
        params, nope = self.kv_params, self.qk_nope_head_dim
        rows = x.shape[0]
        q = ops.reshape(self._queries(x), [rows, self.n_heads, self.qk_head_dim])
        kernels.store_rows(
            params, kv_collection, self.kv_a_proj_with_mqa(x), input_row_offsets, layer_idx, 0
        )
        norm = self.kv_a_layernorm
        kernels.rms_norm_key_cache(
            params,
            kv_collection,
            norm.weight.to(self.device),
            norm.eps,
            layer_idx,
            rows,
            input_row_offsets,
            weight_offset=0.0,
            rms_norm_cols=self.kv_lora_rank,
            multiply_before_cast=norm.multiply_before_cast,
        )
        turned = kernels.fused_qk_ragged_rope(
            params,
            q[:, :, nope:],
            input_row_offsets,
            kv_collection,
            freqs_cis.to(self.device),
            layer_idx,
            interleaved=self.rope.interleaved,
        )
        made = self._attend(q[:, :, :nope], turned, input_row_offsets, kv_collection, layer_idx)
        return self.o_proj(ops.reshape(made, [rows, self.n_heads * self.v_head_dim]))

    def _queries(self, x: TensorValue) -> TensorValue:
        """The queries, ``[tokens, heads * (nope + rope)]``, not turned yet."""
        if self.q_lora_rank is None:
            return self.q_proj(x)
        return self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))

    def _attend(
        self,
        q: TensorValue,
        turned: TensorValue,
        offsets: TensorValue,
        cache: PagedCacheValues,
        layer_idx: TensorValue,
    ) -> TensorValue:
        """The attention, ``[tokens, heads, v_head_dim]``, of queries in two parts."""
        params = self.kv_params

        def prefill() -> TensorValue:
            weight = self.kv_b_proj.weight.to(self.device)
            latents = Latents(params, cache, offsets, layer_idx, weight, self.buffer_size)
            whole = ops.concat([q, turned], 2)
            return attended(latents, whole, self.qk_nope_head_dim, self.v_head_dim, self.scale)

        def decode() -> TensorValue:
            w_uk, w_uv = self.w_uk_uv  # views, which products read where they lie
            inside = ops.transpose(ops.transpose(q, 0, 1) @ w_uk, 0, 1)  # [tokens, heads, latent]
            made = kernels.flare_mla_decode_ragged(
                params,
                ops.concat([inside, turned], 2),
                offsets,
                cache,
                layer_idx,
                MHAMaskVariant.CAUSAL_MASK,
                self.scale,
                self.qk_rope_head_dim,
            )
            return ops.transpose(ops.transpose(made, 0, 1) @ w_uv, 0, 1)

        if self.graph_mode == "prefill":
            return prefill()
        if self.graph_mode == "decode":
            return decode()
        longest = kernels.kv_cache_get_max_seq_len(params, cache)[0]
        result = TensorType(q.dtype, [*q.shape[:2], self.v_head_dim], q.device)
        return ops.cond(longest > 1, [result], prefill, decode)[0]

    # ------------------------------------------------------------ several devices
    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the layer is cut into shards; None when it is not.

        ``ShardingStrategy.replicate`` gives each device the whole layer. ``rowwise`` and
        ``head_aware_columnwise`` alike give each one its share of the heads; the outputs of the
        shards add up to that of the layer, and each has a whole cache of latent vectors.

        Raises:
            GraphError: ML381, what is set is no ``ShardingStrategy``.
            ModuleError: ML719, what is set is another strategy.
            ShapeError: ML798, there are fewer heads than devices.
        """
        return self._strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        whole = made = queries = pairs = strategy
        if isinstance(strategy, ShardingStrategy):
            count, heads = strategy.num_devices, self.n_heads
            if not (strategy.is_replicate or _divides(strategy)):
                raise unfit(type(self).__name__, strategy, "use replicate, or rowwise for heads")
            whole = made = queries = pairs = ShardingStrategy.replicate(count)
            if _divides(strategy):
                size = self.qk_nope_head_dim + self.v_head_dim
                made = ShardingStrategy.head_aware_columnwise(count, heads, self.v_head_dim)
                queries = _rows_of_heads(count, heads, self.qk_head_dim)
                pairs = _rows_of_heads(count, heads, size)
        self.o_proj.sharding_strategy = made
        self.kv_b_proj.sharding_strategy = pairs
        self.kv_a_proj_with_mqa.sharding_strategy = whole
        self.kv_a_layernorm.sharding_strategy = whole
        if self.q_lora_rank is None:
            self.q_proj.sharding_strategy = queries
        else:
            self.q_a_proj.sharding_strategy = whole
            self.q_a_layernorm.sharding_strategy = whole
            self.q_b_proj.sharding_strategy = queries
        self._strategy = strategy

    def shard(self, devices: Iterable[DeviceRef]) -> list[LatentAttentionWithRope]:
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
        names = ["kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "o_proj"]
        names += (
            ["q_proj"] if self.q_lora_rank is None else ["q_a_proj", "q_a_layernorm", "q_b_proj"]
        )
        parts = {name: getattr(self, name).shard(places) for name in names}
        made = []
        for index, place in enumerate(places):
            heads = self.n_heads
            if _divides(strategy):
                start, stop = share(heads, index, strategy.num_devices)
                heads = stop - start
            own: dict[str, Any] = {name: shards[index] for name, shards in parts.items()}
            made.append(shard_of(self, device=place, devices=[place], n_heads=heads, **own))
        return made


def _divides(strategy: ShardingStrategy) -> bool:
    """Whether ``strategy`` divides heads among devices."""
    return strategy.is_rowwise or strategy.is_head_aware_colwise


def _rows_of_heads(count: int, heads: int, size: int) -> ShardingStrategy:
    """Shards of the first axis, ``[heads * size, ...]``, that keep heads in one piece."""

    def cut(shape: Sequence[int], index: int) -> Part:
        start, stop = share(heads, index, count)
        return (((start * size, stop * size),), *(((0, other),) for other in shape[1:]))

    return ShardingStrategy(count, "rowwise", cut)


__all__ = ["LatentAttentionWithRope"]
