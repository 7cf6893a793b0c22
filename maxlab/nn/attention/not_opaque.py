"""Attention with rotary embeddings that never changes what is in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, TensorValue, ops
from maxlab.nn import kernels
from maxlab.nn.attention.cached import CachedAttention
from maxlab.nn.dense import Linear
from maxlab.nn.kernels.changing import positions
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.rotary_embedding.rotation import at_positions, rotated

if TYPE_CHECKING:
    from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues


class AttentionWithRopeNoOpaque(CachedAttention):
    """``AttentionWithRope`` that turns keys before they go into the cache, and never changes what
    is there. It has no biases, limits, norms and stacked or 8-bit weights.

    Args:
        rope: The rotary embedding, which says how pairs are laid out and what the scale is.
        num_attention_heads: The number of query heads.
        num_key_value_heads: The number of heads of keys, and of values.
        hidden_size: The size of a token's vector.
        kv_params: The parameters of the cache, with the size of a head.
        devices: The first is used; the CPU when left out.
        dtype: The element type of the weights.
        linear_cls: Makes the projections; called as ``Linear`` is.
        scale: The factor of the products of queries and keys; that of ``rope`` when left out.

    Raises:
        ArgumentError: ML519, heads that do not fit; ML716, a size that is not a positive int;
            ML721, no device.
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
        scale: float | None = None,
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
        )

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
        params, rows, size = self.kv_params, x.shape[0], self.kv_params.head_dim
        table = ops.reshape(freqs_cis.to(self.device), [freqs_cis.shape[0], size // 2, 2])
        places = positions(kv_collection, input_row_offsets, rows)
        turns = at_positions(table, places)

        def turned(flat: TensorValue, heads: int) -> TensorValue:
            return rotated(ops.reshape(flat, [rows, heads, size]), turns, self.rope.interleaved)

        width = self.num_key_value_heads * size
        keys = ops.reshape(turned(self.k_proj(x), self.num_key_value_heads), [rows, width])
        for part, made in enumerate((keys, self.v_proj(x))):
            kernels.store_rows(params, kv_collection, made, input_row_offsets, layer_idx, part)
        q = turned(self.q_proj(x), self.n_heads)
        return self.attend(layer_idx, q, kv_collection, input_row_offsets)


__all__ = ["AttentionWithRopeNoOpaque"]
