"""``RaggedAttention``: attention without rotary embeddings over a paged cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, TensorValue, ops
from maxlab.nn.attention.cached import CachedAttention
from maxlab.nn.attention.mask_config import MHAMaskVariant
from maxlab.nn.dense import Linear

if TYPE_CHECKING:
    from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues


class RaggedAttention(CachedAttention):
    """Self-attention of a ragged batch with a mask, whose keys and values are kept in a paged cache
    as they are projected.

    Args:
        mask_variant: The mask. Masks of windows and chunks need their size too: set
            ``local_window_size``.
        num_attention_heads: The number of query heads.
        num_key_value_heads: The number of heads of keys, and of values.
        hidden_size: The size of a token's vector.
        kv_params: The parameters of the cache, with the size of a head.
        devices: The first is used; the CPU when left out.
        dtype: The element type of the weights.
        linear_cls: Makes the projections; called as ``Linear`` is.
        stacked_qkv: Whether the projections of queries, keys and values are one weight, named
            ``qkv_proj.weight``, rows of queries first.
        scale: The factor of the products of queries and keys; ``1 / sqrt(head_dim)`` when left out.
        has_bias: Whether queries, keys and values have biases.
        clip_qkv: When given, the weights of queries, keys and values are used as if cut to
            ``[-clip_qkv, clip_qkv]``.

    Attributes:
        local_window_size: The keys of a window or of a chunk; -1 for other masks.

    Raises:
        ArgumentError: ML519, arguments that exclude one another, or heads that do not fit; ML716, a
            size that is not a positive int; ML718, a negative ``clip_qkv``; ML721, no device.

    Example:
        >>> from maxlab.nn.kv_cache import KVCacheParams
        >>> params = KVCacheParams(DType.float32, n_kv_heads=2, head_dim=16, page_size=128)
        >>> attention = RaggedAttention(
        ...     mask_variant=MHAMaskVariant.CAUSAL_ALIBI_MASK,
        ...     num_attention_heads=4,
        ...     num_key_value_heads=2,
        ...     hidden_size=64,
        ...     kv_params=params,
        ...     has_bias=True,
        ... )
        >>> len(attention.state_dict())
        7
    """

    def __init__(
        self,
        *,
        mask_variant: MHAMaskVariant,
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
        clip_qkv: float | None = None,
    ) -> None:
        super().__init__(
            num_attention_heads=num_attention_heads,
            num_key_value_heads=num_key_value_heads,
            hidden_size=hidden_size,
            kv_params=kv_params,
            scale=kv_params.head_dim**-0.5 if scale is None else float(scale),
            devices=devices,
            dtype=dtype,
            linear_cls=linear_cls,
            stacked_qkv=stacked_qkv,
            has_bias=has_bias,
            clip_qkv=clip_qkv,
        )
        self.mask_variant = mask_variant

    def __call__(
        self,
        layer_idx: TensorValue,
        x: TensorValue,
        kv_collection: PagedCacheValues,
        input_row_offsets: TensorValue,
    ) -> TensorValue:
        """The attention of each row of ``x``, ``[tokens, hidden_size]``.

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            x: The rows of all sequences, ``[tokens, hidden_size]``.
            kv_collection: The cache; keys and values of these rows are added to it.
            input_row_offsets: Where the rows of each sequence begin, uint32 ``[batch + 1]``.

        Raises:
            ShapeError: ML659, shapes that do not fit (a ValueError).
            DTypeError: ML666, other dtypes than that of the cache (a ValueError).
            ArgumentError: ML667, no mask, or a mask that needs ``local_window_size`` (a
                ValueError).
        """
        q = self.project(layer_idx, x, kv_collection, input_row_offsets)
        q = ops.reshape(q, [x.shape[0], self.n_heads, self.kv_params.head_dim])
        return self.attend(layer_idx, q, kv_collection, input_row_offsets)


__all__ = ["RaggedAttention"]
