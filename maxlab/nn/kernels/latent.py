"""Multi-head latent attention over a paged cache: keys and values of all heads are made of one
latent vector a token, which is all that the cache holds.

*Prefill* makes keys and values of the vectors, a chunk that fits a buffer at a time, and attends
over these. *Decode* attends over the vectors themselves, for which queries were multiplied by the
weight of keys before, and results are by the weight of values behind it.
"""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ShapeError
from maxlab.graph import BufferValue, TensorValue, ops
from maxlab.graph.build import staged
from maxlab.graph.operands import as_int
from maxlab.nn.kernels.attending import mask_of
from maxlab.nn.kernels.given import (
    CacheParams,
    PagedCache,
    moved,
    numbers,
    require_pages,
    require_rank,
)
from maxlab.nn.ranks import require_integers


@staged
def flare_mla_prefill_plan(
    kv_params: CacheParams,
    input_row_offsets: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
    buffer_size: int,
    max_chunks: int = 16,
) -> tuple[TensorValue, TensorValue, TensorValue]:
    """How the tokens of a batch, cached and new, are cut into chunks that fit a buffer.

    The tokens of all sequences, one sequence after another, are cut every ``buffer_size`` tokens.
    The three results have a row for each chunk; where there are fewer chunks, the last rows are of
    none and their lengths 0:

    - where the rows of each sequence in the buffer begin, and the end, uint32
      [max_chunks, batch + 1];
    - the token of each sequence that is its first one there, uint32 [max_chunks, batch];
    - the tokens in the buffer, int32 [max_chunks].

    A batch that needs more chunks than ``max_chunks`` ends the run with ML652.

    Args:
        kv_params: The parameters of the cache.
        input_row_offsets: Where the new tokens of each sequence begin, uint32 [batch + 1].
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0. All layers have the same plan.
        buffer_size: The tokens that a buffer holds.
        max_chunks: The number of chunks.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, ``buffer_size`` or ``max_chunks`` below 1 (a ValueError).
        ArgumentTypeError: ML317, no tensors; ML302, a size is not an int.
    """
    what = "flare_mla_prefill_plan"
    require_pages(what, kv_params, kv_collection)
    offsets, lengths, *_ = numbers(what, kv_collection, input_row_offsets, layer_idx)
    require_integers(what, "input_row_offsets", offsets, 1)
    require_integers(what, "layer_idx", layer_idx, 0)
    size = require_size(what, "buffer_size", buffer_size)
    chunks = require_size(what, "max_chunks", max_chunks)
    number = ops.range(0, chunks, 1, out_dim=chunks, dtype=DType.int64, device=offsets.device)
    starts, firsts, counts = chunk_of(offsets, lengths, ops.unsqueeze(number, 1), size)
    counts = ops.squeeze(counts, 1)
    # The count of the last chunk that is needed: looking it up refuses one that is not there. No
    # count is above ``size``, so that the maximum leaves them as they are.
    total = ops.sum(ops.cast(lengths, DType.int64), 0)[0]
    total = total + ops.cast(offsets[-1], DType.int64) - ops.cast(offsets[0], DType.int64)
    last = ops.gather(counts, (total + size - 1) // size - 1, 0)
    return starts, firsts, ops.cast(ops.max(counts, last - size), DType.int32)


def chunk_of(
    offsets: TensorValue, lengths: TensorValue, number: TensorValue, size: int
) -> tuple[TensorValue, TensorValue, TensorValue]:
    """The rows of the chunk ``number``, as ``flare_mla_prefill_plan`` has them.

    Args:
        offsets: Where the new tokens of each sequence begin, uint32 [batch + 1].
        lengths: The tokens of each sequence that are cached, uint32 [batch].
        number: int64 [1], or [chunks, 1].
        size: The tokens of a chunk.

    Returns:
        Where the rows of each sequence begin, uint32 [..., batch + 1]; the first token of each,
        uint32 [..., batch]; how many rows there are, int64 [..., 1].
    """
    wide, cached = ops.cast(offsets, DType.int64), ops.cast(lengths, DType.int64)
    batch = cached.shape[0]
    later = ops.rebind(wide[1:], [batch])
    zero = ops.constant(0, DType.int64, offsets.device)
    before = ops.cumsum(cached, 0) + later - wide[0]  # the tokens up to the end of each sequence
    ends = ops.concat([ops.reshape(zero, [1]), before], 0)
    begin = number * size
    starts = ops.min(ops.max(ends - begin, zero), ops.constant(size, DType.int64, offsets.device))
    sequences = ops.rebind(ends[:-1], [batch])
    totals = before - sequences
    firsts = ops.min(ops.max(begin - sequences, zero), totals)
    return ops.cast(starts, DType.uint32), ops.cast(firsts, DType.uint32), starts[..., -1:]


@staged
def k_cache_to_buffer(
    kv_params: CacheParams,
    buffer_row_offsets_1d: TensorValue,
    cache_offsets_1d: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
    buffer_length: TensorValue,
    buffer_size: int,
    weight_dim: int,
) -> TensorValue:
    """The latent vectors of a chunk, as they are in the cache, [buffer_size, weight_dim]. The rows
    from ``buffer_length`` on are 0.

    Args:
        kv_params: The parameters of the cache.
        buffer_row_offsets_1d: Where the rows of each sequence in the buffer begin, uint32
            [batch + 1].
        cache_offsets_1d: The token of each sequence that is its first one there, uint32 [batch].
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.
        buffer_length: The rows that are there, an integer of rank 0.
        buffer_size: The rows of the buffer.
        weight_dim: How many numbers of a vector are copied, from the first on.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, ``buffer_size`` or ``weight_dim`` out of range (a ValueError).
        ArgumentTypeError: ML317, no tensors; ML302, a size is not an int.
    """
    what = "k_cache_to_buffer"
    blocks = require_latents(what, kv_params, kv_collection)
    given = _chunk(
        what, kv_collection, buffer_row_offsets_1d, cache_offsets_1d, layer_idx, buffer_length
    )
    size = require_size(what, "buffer_size", buffer_size)
    return ops.latent_load(blocks, *given, size, weight_dim)


@staged
def flare_mla_decompress_k_cache(
    kv_params: CacheParams,
    buffer_row_offsets_1d: TensorValue,
    cache_offsets_1d: TensorValue,
    buffer_length: TensorValue,
    weight: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
    buffer_size: int,
) -> TensorValue:
    """The keys, or keys and values, of a chunk: its latent vectors times ``weight``, transposed,
    [buffer_size, out]. The rows from ``buffer_length`` on are 0, and take no time of a product.

    Args:
        kv_params: The parameters of the cache.
        buffer_row_offsets_1d: Where the rows of each sequence in the buffer begin, uint32
            [batch + 1].
        cache_offsets_1d: The token of each sequence that is its first one there, uint32 [batch].
        buffer_length: The rows that are there, an integer of rank 0.
        weight: [out, latent numbers], of the dtype of the cache.
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.
        buffer_size: The rows of the buffer.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, ``buffer_size`` below 1 (a ValueError).
        ArgumentTypeError: ML317, no tensors; ML302, ``buffer_size`` is not an int.
    """
    what = "flare_mla_decompress_k_cache"
    blocks = require_latents(what, kv_params, kv_collection)
    given = _chunk(
        what, kv_collection, buffer_row_offsets_1d, cache_offsets_1d, layer_idx, buffer_length
    )
    right = require_rank(what, "weight", weight, 2)
    size = require_size(what, "buffer_size", buffer_size)
    return ops.latent_expand(blocks, *given, right, size)


@staged
def flare_mla_prefill_ragged(
    kv_params: CacheParams,
    input: TensorValue,
    k: TensorValue,
    v: TensorValue,
    input_row_offsets: TensorValue,
    buffer_row_offsets: TensorValue,
    cache_offsets: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
    mask_variant: str,
    scale: float,
    qk_rope_dim: int = 64,
    prev_output: TensorValue | None = None,
    prev_softmax_info: TensorValue | None = None,
) -> tuple[TensorValue, TensorValue]:
    """The attention of the queries of a batch over the keys and values of a chunk, [tokens, heads,
    value's size], and the state of its softmax, float32 [tokens, heads, 2] (float64 with a cache of
    float64): the largest score of each row, and the sum of exponentials of what scores are below.

    With both results of the chunks before, they are those over all chunks so far.

    Args:
        kv_params: The parameters of the cache.
        input: The queries, [tokens, heads, nope + qk_rope_dim], of the dtype of the cache.
        k: What of the keys was made for this chunk, [rows, heads, nope]. The other ``qk_rope_dim``
            numbers, the same ones for all heads, are the last of the vectors in the cache.
        v: The values, [rows, heads, value's size].
        input_row_offsets: Where the queries of each sequence begin, uint32 [batch + 1].
        buffer_row_offsets: Where the rows of each sequence in the chunk begin, uint32 [batch + 1].
        cache_offsets: The token of each sequence that is its first one there, uint32 [batch].
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.
        mask_variant: The ``MHAMaskVariant``: causal, ALiBi or none.
        scale: The factor of the products of queries and keys.
        qk_rope_dim: The dimensions of a head that are turned by the position.
        prev_output: The first result for the chunks before.
        prev_softmax_info: Their second result.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, another mask, or one result before without the other (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "flare_mla_prefill_ragged"
    blocks = require_latents(what, kv_params, kv_collection)
    named = (("the input", input), ("k", k), ("v", v))
    q, keys, values = (require_rank(what, name, x, 3) for name, x in named)
    if q.shape[2] != keys.shape[2] + as_int(what, qk_rope_dim, "qk_rope_dim"):
        raise ShapeError(
            "ML659",
            f"{what}: queries {q.type}, keys {keys.type} and qk_rope_dim={qk_rope_dim}",
            fix="pass queries that have qk_rope_dim numbers more than the keys",
        )
    given = numbers(what, kv_collection, input_row_offsets, layer_idx)
    return ops.latent_chunk(
        blocks, *given, q, keys, values, buffer_row_offsets, cache_offsets, prev_output,
        prev_softmax_info, rope=qk_rope_dim, size=int(values.shape[2]), scale=scale,
        mask=mask_of(what, mask_variant, -1)["mask"],
    )  # fmt: skip


@staged
def flare_mla_decode_ragged(
    kv_params: CacheParams,
    input: TensorValue,
    input_row_offsets: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
    mask_variant: str,
    scale: float,
    qk_rope_dim: int = 64,
) -> TensorValue:
    """The attention of the queries of a batch over the latent vectors of its cache, [tokens, heads,
    head_dim - qk_rope_dim]: vectors are the keys of all heads, and all but their last
    ``qk_rope_dim`` numbers the values.

    The vectors of new tokens must be in the cache already. A sequence may have several queries.

    Args:
        kv_params: The parameters of the cache.
        input: The queries in the space of vectors, [tokens, heads, head_dim], of the dtype of the
            cache.
        input_row_offsets: Where the queries of each sequence begin, uint32 [batch + 1].
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.
        mask_variant: The ``MHAMaskVariant``: causal, ALiBi or none.
        scale: The factor of the products of queries and keys.
        qk_rope_dim: The numbers of a vector that are turned by the position.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, another mask (a ValueError).
        ArgumentTypeError: ML317, no tensors; ML302, ``qk_rope_dim`` is not an int.
    """
    what = "flare_mla_decode_ragged"
    blocks = require_latents(what, kv_params, kv_collection)
    q = require_rank(what, "the input", input, 3)
    given = numbers(what, kv_collection, input_row_offsets, layer_idx)
    size = kv_params.head_dim - as_int(what, qk_rope_dim, "qk_rope_dim")
    mask = mask_of(what, mask_variant, -1)["mask"]
    return ops.latent_attention(blocks, *given, q, size=size, mask=mask, scale=scale)


def require_latents(what: str, params: CacheParams, cache: PagedCache) -> BufferValue:
    """The pages of ``cache``, which are those that ``params`` describe, of latent vectors.

    Raises:
        ShapeError: ML659 (a ValueError), pages of keys and values, or sizes that differ.
        DTypeError: ML666 (a ValueError), another dtype.
    """
    blocks = require_pages(what, params, cache)
    if blocks.shape[1] != 1 or blocks.shape[4] != 1:
        raise ShapeError(
            "ML659",
            f"{what}: the cache must hold one latent vector a token, got {blocks.type}",
            fix="make it with KVCacheParams(..., n_kv_heads=1, is_mla=True)",
        )
    return blocks


def require_size(what: str, name: str, size: int) -> int:
    """``size``, an int of 1 or more.

    Raises:
        ArgumentError: ML667 (a ValueError), it is below 1.
        ArgumentTypeError: ML302, it is not an int.
    """
    found = as_int(what, size, name)
    if found < 1:
        raise ArgumentError(
            "ML667", f"{what}: {name} must be 1 or more, got {found}", fix="pass a number of rows"
        )
    return found


def _chunk(
    what: str,
    cache: PagedCache,
    row_offsets: TensorValue,
    cache_offsets: TensorValue,
    layer_idx: TensorValue,
    length: TensorValue,
) -> tuple[TensorValue, TensorValue, TensorValue, TensorValue, TensorValue]:
    """Offsets, first tokens, the table, the layer and the number of rows, on the device of the
    pages."""
    device = cache.kv_blocks.device
    starts = require_rank(what, "buffer_row_offsets_1d", row_offsets, 1)
    firsts = require_rank(what, "cache_offsets_1d", cache_offsets, 1)
    layer = require_rank(what, "layer_idx", layer_idx, 0)
    count = ops.cast(require_integers(what, "buffer_length", length, 0), DType.int64)
    return starts, firsts, cache.lookup_table, moved(layer, device), moved(count, device)


__all__ = [
    "chunk_of",
    "flare_mla_decode_ragged",
    "flare_mla_decompress_k_cache",
    "flare_mla_prefill_plan",
    "flare_mla_prefill_ragged",
    "k_cache_to_buffer",
    "require_latents",
    "require_size",
]
