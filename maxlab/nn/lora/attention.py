"""``AttentionWithRopeAndLoRA``: attention whose projections have adapters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from maxlab.dtype import DType
from maxlab.errors import ModuleError
from maxlab.graph import DeviceRef, TensorValue
from maxlab.nn import kernels
from maxlab.nn.attention import AttentionWithRope
from maxlab.nn.dense import Linear
from maxlab.nn.lora.batches import require_batch
from maxlab.nn.lora.linear import LinearLoRA
from maxlab.nn.rotary_embedding import RotaryEmbedding

if TYPE_CHECKING:
    from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues


class AttentionWithRopeAndLoRA(AttentionWithRope):
    """Attention as ``AttentionWithRope`` whose projections of queries, keys and values have
    adapters of low rank, one for each sequence of a batch.

    What adapters add to keys and values is added in the pages of the cache. Rows of the base are
    not touched.

    Args:
        rope: The rotary embedding, which says how pairs are laid out and what the scale is.
        num_attention_heads: The number of query heads.
        num_key_value_heads: The number of heads of keys, and of values.
        hidden_size: The size of a token's vector.
        kv_params: The parameters of the cache, with the size of a head.
        devices: The first is used; the CPU when left out.
        dtype: The element type of the weights, which is that of the cache.
        linear_cls: Makes the projections, as ``functools.partial(LinearLoRA, max_num_loras=4,
            max_lora_rank=16)`` does.
        stacked_qkv: As of ``AttentionWithRope``; a stacked weight takes no adapters.
        scale: The factor of the products of queries and keys; that of ``rope`` when left out.
        has_bias: Whether queries, keys and values have biases.
        float8_config: None; 8-bit floats cannot be used in this version.
        clip_qkv: When given, the weights of queries, keys and values are used as if cut to
            ``[-clip_qkv, clip_qkv]``; adapters are not cut.

    Raises:
        ArgumentError: ML519, arguments that exclude one another, or heads that do not fit; ML716, a
            size that is not a positive int; ML718, a negative ``clip_qkv``; ML721, no device.
        ModuleError: ML717, ``float8_config`` is given.

    Example:
        >>> from functools import partial
        >>> from maxlab.nn.kv_cache import KVCacheParams
        >>> params = KVCacheParams(DType.float32, n_kv_heads=2, head_dim=16, page_size=128)
        >>> attention = AttentionWithRopeAndLoRA(
        ...     rope=RotaryEmbedding(64, 4, 10000.0, 512, interleaved=False),
        ...     num_attention_heads=4,
        ...     num_key_value_heads=2,
        ...     hidden_size=64,
        ...     kv_params=params,
        ...     linear_cls=partial(LinearLoRA, max_num_loras=4, max_lora_rank=8),
        ... )
        >>> [layer.lora_B.shape for layer in attention.qkv_loras]
        [[Dim(4), Dim(64), Dim(8)], [Dim(4), Dim(32), Dim(8)], [Dim(4), Dim(32), Dim(8)]]
    """

    rope: RotaryEmbedding

    def __init__(
        self,
        *,
        rope: RotaryEmbedding,
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
        float8_config: Any = None,
        clip_qkv: float | None = None,
    ) -> None:
        super().__init__(
            rope=rope,
            num_attention_heads=num_attention_heads,
            num_key_value_heads=num_key_value_heads,
            hidden_size=hidden_size,
            kv_params=kv_params,
            devices=devices,
            dtype=dtype,
            linear_cls=linear_cls,
            stacked_qkv=stacked_qkv,
            scale=scale,
            has_bias=has_bias,
            float8_config=float8_config,
            clip_qkv=clip_qkv,
        )

    @property
    def qkv_loras(self) -> list[LinearLoRA]:
        """The projections of queries, keys and values.

        Raises:
            ModuleError: ML536 (a ValueError), they have no adapters.
        """
        layers = [] if self.stacked_qkv else [self.q_proj, self.k_proj, self.v_proj]
        found = [layer for layer in layers if isinstance(layer, LinearLoRA)]
        if len(found) != 3:
            made = "one stacked weight" if self.stacked_qkv else repr(layers[0])
            raise ModuleError(
                "ML536",
                f"{type(self).__name__}: the projections have no adapters, they are {made}",
                fix="pass linear_cls=functools.partial(LinearLoRA, max_num_loras=…, "
                "max_lora_rank=…), and stacked_qkv=False",
            )
        return found

    def fused_qkv_lora(
        self,
        x: TensorValue,
        kv_collection: PagedCacheValues,
        input_row_offsets: TensorValue,
        layer_idx: TensorValue,
    ) -> TensorValue:
        """The sum that adapters add to queries, ``[tokens, heads * head_dim]``; sums for keys and
        values are added in the cache, where these are already.

        Args:
            x: The rows of all sequences, ``[tokens, hidden_size]``.
            kv_collection: The cache.
            input_row_offsets: Where the rows of each sequence begin, uint32 ``[batch + 1]``.
            layer_idx: The layer of the cache, uint32 of rank 0.

        Raises:
            ModuleError: ML535 (a ValueError), ``set_lora_batch_info`` has not been called on the
                projections; ML536 (a ValueError), they have no adapters.
            ShapeError: ML659, shapes that do not fit (a ValueError).
            DTypeError: ML666, other dtypes than that of the cache (a ValueError).
        """
        q, *others = self.qkv_loras
        what = type(self).__name__
        batches = [require_batch(what, layer.batch_info) for layer in (*others, q)]
        for part, (layer, batch) in enumerate(zip(others, batches, strict=False)):
            a, b, bias = layer.lora_values()
            kernels.lora_kv_cache_add(
                self.kv_params,
                kv_collection,
                x,
                a,
                b,
                batch.ids,
                batch.ranks,
                input_row_offsets,
                batch.offsets,
                layer_idx,
                part,
                bias,
            )
        return q.apply_lora(x)

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
            ModuleError: ML535, ML536, as of ``fused_qkv_lora``.
            ShapeError: ML659, shapes that do not fit (a ValueError).
            DTypeError: ML666, other dtypes than that of the cache (a ValueError).
        """
        q, *others = self.qkv_loras
        for part, layer in enumerate(others):
            kernels.store_rows(
                self.kv_params, kv_collection, layer.base(x), input_row_offsets, layer_idx, part
            )
        return q.base(x) + self.fused_qkv_lora(x, kv_collection, input_row_offsets, layer_idx)


__all__ = ["AttentionWithRopeAndLoRA"]
