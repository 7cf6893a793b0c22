"""Attention over latent vectors whose keys and values are made a chunk of tokens at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Dim, TensorValue, ops
from maxlab.nn import kernels
from maxlab.nn.kernels.given import numbers
from maxlab.nn.kernels.latent import chunk_of, require_latents

if TYPE_CHECKING:
    from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues


@dataclass
class Latents:
    """The latent vectors of a batch, and the weight that makes keys and values of them.

    Attributes:
        params: The parameters of the cache.
        cache: The cache, which has the vectors of new tokens already.
        offsets: Where the new tokens of each sequence begin, uint32 [batch + 1].
        layer_idx: The layer, uint32 of rank 0.
        weight: [heads * (nope + value's size), latent numbers].
        buffer_size: The most tokens of a chunk.
    """

    params: KVCacheParams
    cache: PagedCacheValues
    offsets: TensorValue
    layer_idx: TensorValue
    weight: TensorValue
    buffer_size: int


def attended(latents: Latents, q: TensorValue, nope: int, size: int, scale: float) -> TensorValue:
    """The causal attention of queries over the keys and values of all chunks, [tokens, heads,
    size].

    A loop makes one chunk after the other, in one buffer, for as many as the tokens of a run need.

    Args:
        latents: The latent vectors and their weight.
        q: The queries, [tokens, heads, nope + rope].
        nope: The numbers of a key that are made of a latent vector.
        size: The size of a value.
        scale: The factor of the products of queries and keys.
    """
    what, given, cache = "LatentAttentionWithRope", latents, latents.cache
    offsets, cached, rows = given.offsets, cache.cache_lengths, given.buffer_size
    pages = require_latents(what, given.params, cache)
    place = numbers(what, cache, offsets, given.layer_idx)
    rope = int(q.shape[2]) - nope
    device, heads = q.device, int(q.shape[1])
    new = ops.cast(offsets[-1] - offsets[0], DType.int64)
    total = ops.sum(ops.cast(cached, DType.int64), 0)[0] + new
    total = ops.transfer_to(total, DeviceRef.CPU())
    wide = DType.float64 if q.dtype is DType.float64 else DType.float32
    shape: list[int | str | Dim] = [*q.shape[:2], 1]
    nothing = [
        ops.broadcast_to(ops.constant(value, wide, device), shape) for value in (float("-inf"), 0.0)
    ]
    start = (
        ops.constant(0, DType.int64, DeviceRef.CPU()),
        ops.broadcast_to(ops.constant(0.0, q.dtype, device), [*q.shape[:2], size]),
        ops.concat(nothing, 2),
    )

    def more(number: TensorValue, made: TensorValue, state: TensorValue) -> TensorValue:
        return number * rows < total

    def one(
        number: TensorValue, made: TensorValue, state: TensorValue
    ) -> tuple[TensorValue, TensorValue, TensorValue]:
        there = ops.transfer_to(ops.reshape(number, [1]), device)
        starts, firsts, count = chunk_of(offsets, cached, there, rows)
        both = kernels.flare_mla_decompress_k_cache(
            given.params, starts, firsts, count[0], given.weight, cache, given.layer_idx, rows
        )
        both = ops.reshape(both, [rows, heads, nope + size])
        made, state = ops.latent_chunk(
            pages, *place, q, both, both, starts, firsts, made, state,
            rope=rope, size=size, column=nope, mask="causal", scale=scale,
        )  # fmt: skip
        return number + 1, made, state

    return ops.while_loop(start, more, one)[1]


__all__ = ["Latents", "attended"]
