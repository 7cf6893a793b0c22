"""Products of ragged batches whose results are new keys and values, which go into their pages."""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.errors import DTypeError, ShapeError
from maxlab.graph import TensorValue, ops
from maxlab.nn.kernels.given import (
    CacheParams,
    PagedCache,
    numbers,
    require_pages,
    require_rank,
)


def fused_qkv_ragged_matmul(
    kv_params: CacheParams,
    input: TensorValue,
    input_row_offsets: TensorValue,
    wqkv: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
    n_heads: int,
    bias: TensorValue | None = None,
) -> TensorValue:
    """The queries of a ragged batch, [tokens, n_heads * head_dim]; its keys and values go into the
    pages of the cache, at the positions from ``cache_lengths`` on.

    Args:
        kv_params: The parameters of the cache.
        input: The rows, [tokens, hidden], of the dtype of the cache.
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        wqkv: The weights, [(n_heads + 2 * heads of keys) * head_dim, hidden]: those of queries, of
            keys, of values.
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.
        n_heads: The number of query heads.
        bias: What is added to each row of the product.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "fused_qkv_ragged_matmul"
    size, heads = kv_params.head_dim, kv_params.n_kv_heads_per_device
    made = _product(
        what, kv_params, kv_collection, input, "wqkv", wqkv, (n_heads + 2 * heads) * size
    )
    if bias is not None:
        made = made + require_rank(what, "bias", bias, 1)
    _store(what, kv_params, kv_collection, made, input_row_offsets, layer_idx, 2, n_heads * size)
    return made[:, : n_heads * size]


def matmul_kv_cache_ragged(
    kv_params: CacheParams,
    hidden_states: TensorValue,
    input_row_offsets: TensorValue,
    weight: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
) -> None:
    """Writes the keys and values of a ragged batch into the pages of the cache.

    Args:
        kv_params: The parameters of the cache.
        hidden_states: The rows, [tokens, hidden], of the dtype of the cache.
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        weight: The weights, [2 * heads of keys * head_dim, hidden]: those of keys, of values.
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "matmul_kv_cache_ragged"
    width = 2 * kv_params.n_kv_heads_per_device * kv_params.head_dim
    made = _product(what, kv_params, kv_collection, hidden_states, "weight", weight, width)
    _store(what, kv_params, kv_collection, made, input_row_offsets, layer_idx, 2)


def matmul_k_cache_ragged(
    kv_params: CacheParams,
    hidden_states: TensorValue,
    input_row_offsets: TensorValue,
    weight: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
) -> None:
    """Writes the keys of a ragged batch into the pages of the cache.

    Args:
        kv_params: The parameters of the cache.
        hidden_states: The rows, [tokens, hidden], of the dtype of the cache.
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        weight: The weights, [heads of keys * head_dim, hidden].
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "matmul_k_cache_ragged"
    width = kv_params.n_kv_heads_per_device * kv_params.head_dim
    made = _product(what, kv_params, kv_collection, hidden_states, "weight", weight, width)
    _store(what, kv_params, kv_collection, made, input_row_offsets, layer_idx, 1)


def _product(
    what: str,
    params: CacheParams,
    cache: PagedCache,
    x: TensorValue,
    name: str,
    weight: TensorValue,
    width: int,
) -> TensorValue:
    """The rows ``x`` times ``weight``, transposed, of ``width`` rows."""
    dtype = require_pages(what, params, cache).dtype
    _require_dtype(what, "the rows", require_rank(what, "the input", x, 2), dtype)
    _require_dtype(what, name, require_rank(what, name, weight, 2), dtype)
    if weight.shape[0] != width or weight.shape[1] != x.shape[1]:
        raise ShapeError(
            "ML659",
            f"{what}: {name} must be [{width}, {x.shape[1]}], got {weight.type}",
            fix="weights are [out, in]: heads times head_dim rows for each of what they make",
        )
    return x @ weight.T


def _require_dtype(what: str, name: str, x: TensorValue, dtype: DType) -> None:
    if x.dtype is not dtype:
        raise DTypeError(
            "ML666",
            f"{what}: {name} must be {dtype.name}, as the cache is, got {x.dtype.name}",
            fix=f"cast it: ops.cast(x, DType.{dtype.name})",
        )


def _store(
    what: str,
    params: CacheParams,
    cache: PagedCache,
    rows: TensorValue,
    row_offsets: TensorValue,
    layer_idx: TensorValue,
    parts: int,
    column: int = 0,
) -> None:
    """Writes ``parts`` of ``rows``, keys first, that begin at ``column``."""
    given = numbers(what, cache, row_offsets, layer_idx)
    ops.cache_store(cache.kv_blocks, *given, rows, part=0, parts=parts, column=column)


__all__ = ["fused_qkv_ragged_matmul", "matmul_k_cache_ragged", "matmul_kv_cache_ragged"]
