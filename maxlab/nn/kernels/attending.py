"""Attention of ragged batches over a paged cache of keys and values."""

from __future__ import annotations

from typing import TypedDict

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError, shown
from maxlab.graph import TensorValue, ops
from maxlab.graph.build import staged
from maxlab.graph.operands import as_int
from maxlab.nn.kernels.given import (
    CacheParams,
    PagedCache,
    moved,
    numbers,
    require_pages,
    require_rank,
)

_MASKS = {"0": "causal", "1": "alibi", "2": "null", "3": "chunk", "4": "window"}
"""The masks of the op by the values of ``MHAMaskVariant``."""


class Mask(TypedDict):
    """The attributes of the op for a mask."""

    mask: str
    window: int


def mask_of(what: str, variant: str, window: int) -> Mask:
    """The attributes of the op for a mask.

    Args:
        what: The function, for errors.
        variant: A ``MHAMaskVariant``.
        window: The keys of a window or of a chunk; -1 where the mask has none.

    Raises:
        ArgumentError: ML667 (a ValueError), no such mask, or a window that does not go with it.
        ArgumentTypeError: ML302, ``window`` is not an int.
    """
    mask = _MASKS.get(variant) if isinstance(variant, str) else None
    if mask is None:
        raise ArgumentError(
            "ML667",
            f"{what}: mask_variant must be a MHAMaskVariant, got {shown(variant)}",
            fix="use MHAMaskVariant.CAUSAL_MASK, or another member",
        )
    window = as_int(what, window, "local_window_size")
    if (mask in ("chunk", "window")) != (window > 0) or (window < 1 and window != -1):
        raise ArgumentError(
            "ML667",
            f"{what}: the mask {mask!r} does not go with local_window_size={window}",
            fix="pass the keys of a window or of a chunk for such masks, and -1 for others",
        )
    return {"mask": mask, "window": max(window, 0)}


@staged
def flash_attention_ragged(
    kv_params: CacheParams,
    input: TensorValue,
    input_row_offsets: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
    mask_variant: str,
    scale: float,
    local_window_size: int = -1,
    sink_weights: TensorValue | None = None,
) -> TensorValue:
    """The attention of the queries of a ragged batch over the pages of its cache, in their shape.

    Keys and values of the new tokens must be in the cache already. Query i of a sequence has the
    position ``cache_lengths + i``; neighbouring query heads share a head of keys. Scores are never
    all in memory, and pages are read where they lie. A query that sees no key gives 0.

    Args:
        kv_params: The parameters of the cache.
        input: The queries, [tokens, heads, head_dim], of the dtype of the cache.
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.
        mask_variant: The ``MHAMaskVariant``.
        scale: The factor of the products of queries and keys.
        local_window_size: The keys of a sliding window, the query's own among them, or the
            positions of a chunk; -1 for other masks.
        sink_weights: A score of each head, [heads], that takes part in the softmax without a value;
            it is not scaled.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, a mask and a window that do not go together (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "flash_attention_ragged"
    require_pages(what, kv_params, kv_collection)
    require_rank(what, "the input", input, 3)
    given = numbers(what, kv_collection, input_row_offsets, layer_idx)
    mask = mask_of(what, mask_variant, local_window_size)
    return ops.cache_attention(
        kv_collection.kv_blocks, *given, input, sinks=sink_weights, scale=scale, **mask
    )


@staged
def cross_attention_ragged(
    kv_params: CacheParams,
    input: TensorValue,
    input_row_offsets: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
    mask_variant: str,
    kv_input_row_offsets: TensorValue,
    q_max_seq_len: TensorValue,
    scale: float,
    local_window_size: int = -1,
) -> TensorValue:
    """The attention of the queries of a ragged batch over the pages of other tokens, in their
    shape.

    A sequence has ``cache_lengths`` keys, and those that ``kv_input_row_offsets`` add, which are in
    the cache already. Query i has the position ``cache_lengths + i``. A query that sees no key
    gives 0.

    Args:
        kv_params: The parameters of the cache.
        input: The queries, [tokens, heads, head_dim], of the dtype of the cache.
        input_row_offsets: Where the queries of each sequence begin, uint32 [batch + 1].
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.
        mask_variant: The ``MHAMaskVariant``.
        kv_input_row_offsets: Where the new keys of each sequence begin, uint32 [batch + 1].
        q_max_seq_len: The most queries of a sequence, uint32 [1]. It is tested and changes no
            number: the offsets say how many queries there are.
        scale: The factor of the products of queries and keys.
        local_window_size: The keys of a sliding window, or the positions of a chunk; -1 for other
            masks.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, a mask and a window that do not go together (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "cross_attention_ragged"
    require_pages(what, kv_params, kv_collection)
    require_rank(what, "the input", input, 3)
    _require_length(what, "q_max_seq_len", q_max_seq_len)
    given = numbers(what, kv_collection, input_row_offsets, layer_idx)
    keys = require_rank(what, "kv_input_row_offsets", kv_input_row_offsets, 1)
    mask = mask_of(what, mask_variant, local_window_size)
    return ops.cache_attention(kv_collection.kv_blocks, *given, input, keys, scale=scale, **mask)


@staged
def flash_attention_ragged_gpu(
    q: TensorValue,
    k: TensorValue,
    v: TensorValue,
    input_row_offsets: TensorValue,
    max_seq_len: TensorValue,
    mask_variant: str,
    scale: float,
    local_window_size: int = -1,
) -> TensorValue:
    """The attention of a ragged batch over its own rows, without a cache, in the shape of ``q``; on
    a CPU as on a GPU.

    Args:
        q: The queries, floats [tokens, heads, head_dim].
        k: The keys, [tokens, heads of keys, head_dim], of the same dtype.
        v: The values, of the shape and dtype of the keys.
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        max_seq_len: The most rows of a sequence, uint32 [1]. It is tested and changes no number:
            the offsets say how many rows there are.
        mask_variant: The ``MHAMaskVariant``.
        scale: The factor of the products of queries and keys.
        local_window_size: The keys of a sliding window, or the positions of a chunk; -1 for other
            masks.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, a mask and a window that do not go together (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "flash_attention_ragged_gpu"
    q, k, v = (require_rank(what, name, x, 3) for name, x in (("q", q), ("k", k), ("v", v)))
    offsets = require_rank(what, "input_row_offsets", input_row_offsets, 1)
    _require_length(what, "max_seq_len", max_seq_len)
    mask = mask_of(what, mask_variant, local_window_size)
    return ops.ragged_attention(q, k, v, offsets, scale=scale, **mask)


@staged
def flash_attention_gpu(
    q: TensorValue,
    k: TensorValue,
    v: TensorValue,
    mask_variant: str,
    scale: float,
    local_window_size: int = -1,
    valid_length: TensorValue | None = None,
) -> TensorValue:
    """The attention of a padded batch, in the shape of ``q``; on a CPU as on a GPU.

    Args:
        q: The queries, floats [batch, rows, heads, head_dim].
        k: The keys, [batch, rows, heads of keys, head_dim], of the same dtype.
        v: The values, of the shape and dtype of the keys.
        mask_variant: The ``MHAMaskVariant``.
        scale: The factor of the products of queries and keys.
        local_window_size: The keys of a sliding window, or the positions of a chunk; -1 for other
            masks.
        valid_length: The rows of each sequence that are no padding, uint32 [batch]; those behind
            are not seen, and give 0.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, a mask and a window that do not go together (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "flash_attention_gpu"
    rows = [require_rank(what, name, x, 4) for name, x in (("q", q), ("k", k), ("v", v))]
    batch, size = rows[0].shape[:2]
    if any(list(x.shape[:2]) != [batch, size] for x in rows):
        raise ShapeError(
            "ML659",
            f"{what}: queries, keys and values must have equal batches and rows, got "
            f"{', '.join(str(x.type) for x in rows)}",
            fix="pass [batch, rows, heads, head_dim] with equal first dims",
        )
    q, k, v = (ops.reshape(x, [batch * size, *x.shape[2:]]) for x in rows)
    device, count = rows[0].device, batch + 1
    number = ops.range(0, count, 1, out_dim=count, dtype=DType.int64, device=device)
    offsets = ops.cast(number * moved(ops.shape_to_tensor([size])[0], device), DType.uint32)
    lengths = None
    if valid_length is not None:
        lengths = require_rank(what, "valid_length", valid_length, 1)
    mask = mask_of(what, mask_variant, local_window_size)
    made = ops.ragged_attention(q, k, v, offsets, lengths, scale=scale, **mask)
    return ops.reshape(made, rows[0].shape)


def _require_length(what: str, name: str, x: TensorValue) -> None:
    """Raises unless ``x`` is the length of a sequence, uint32 [1]."""
    most = require_rank(what, name, x, 1)
    if most.dtype is not DType.uint32:
        raise DTypeError(
            "ML666",
            f"{what}: {name} must be uint32, got {most.dtype.name}",
            fix="cast it: ops.cast(x, DType.uint32)",
        )


__all__ = [
    "Mask",
    "cross_attention_ragged",
    "flash_attention_gpu",
    "flash_attention_ragged",
    "flash_attention_ragged_gpu",
    "mask_of",
]
