"""Products of 8-bit floats of ragged batches whose results go into the pages of a cache."""

from __future__ import annotations

from maxlab.errors import ArgumentError, ShapeError, shown
from maxlab.graph import TensorValue, ops
from maxlab.graph.build import staged
from maxlab.graph.operands import as_int
from maxlab.nn.float8.checks import require_codes, require_rows, require_scales
from maxlab.nn.float8.products import scaled_product, scaled_rows, weight_scales
from maxlab.nn.kernels.given import CacheParams, PagedCache, numbers, require_pages, require_rank
from maxlab.nn.ranks import require_floats


@staged
def fused_qkv_ragged_matmul_scaled_float8(
    kv_params: CacheParams,
    input: TensorValue,
    input_row_offsets: TensorValue,
    wqkv: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
    n_heads: int,
    input_scale: TensorValue,
    weight_scale: TensorValue,
    bias: TensorValue | None = None,
) -> TensorValue:
    """The queries of a ragged batch, [tokens, n_heads * head_dim], of the dtype of the cache; its
    keys and values go into the pages of the cache.

    Args:
        kv_params: The parameters of the cache.
        input: The rows, 8-bit floats [tokens, hidden].
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        wqkv: The weights, 8-bit floats [(n_heads + 2 * heads of keys) * head_dim, hidden]: those of
            queries, of keys, of values.
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.
        n_heads: The number of query heads.
        input_scale: The scale of the rows, [] or [1], or one for each, [1, tokens].
        weight_scale: The scale of the weights, [] or [1], or one for each row, [rows, 1].
        bias: What is added to each row of the product.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "fused_qkv_ragged_matmul_scaled_float8"
    size, heads = kv_params.head_dim, kv_params.n_kv_heads_per_device
    width = (as_int(what, n_heads, "n_heads") + 2 * heads) * size
    dtype = require_pages(what, kv_params, kv_collection).dtype
    left = require_codes(what, "the input", input, 2)
    right = _weights(what, "wqkv", wqkv, width, left)
    scales = require_scales(what, "input_scale", input_scale)
    if scales.rank < 2:
        scales = scales.reshape([1, scales.shape[0] if scales.rank else 1])
    scales = require_rank(what, "input_scale", scales, 2)
    wide = scaled_rows(what, left, scales, 0)
    factor = require_scales(what, "weight_scale", weight_scale)
    blocks = (0 if all(dim == 1 for dim in factor.shape) else 1, 0)
    of_weights = weight_scales(what, right, factor, blocks)
    made = ops.cast(scaled_product(what, wide, right, of_weights, blocks), dtype)
    if bias is not None:
        made = made + ops.cast(require_floats(what, "bias", bias, 1), dtype)
    given = numbers(what, kv_collection, input_row_offsets, layer_idx)
    ops.cache_store(kv_collection.kv_blocks, *given, made, part=0, parts=2, column=n_heads * size)
    return made[:, : n_heads * size]


@staged
def matmul_k_cache_ragged_scaled_float8(
    kv_params: CacheParams,
    hidden_states: TensorValue,
    input_row_offsets: TensorValue,
    weight: TensorValue,
    input_scale: TensorValue,
    weight_scale: TensorValue,
    kv_collection: PagedCache,
    scales_granularity_mnk: tuple[int, int, int],
    layer_idx: TensorValue,
) -> None:
    """Writes the keys of a ragged batch into the pages of the cache, from 8-bit floats in blocks.

    Args:
        kv_params: The parameters of the cache.
        hidden_states: The rows, 8-bit floats [tokens, hidden].
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        weight: The weights, 8-bit floats [heads of keys * head_dim, hidden].
        input_scale: The scales of the rows, [ceil(hidden / k), ceil(tokens / m) or more].
        weight_scale: The scales of the weights, [ceil(rows / n), ceil(hidden / k)].
        kv_collection: The cache.
        scales_granularity_mnk: The tokens m, the rows of the weight n and the columns k that share
            a scale.
        layer_idx: The layer, uint32 of rank 0.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML698, sizes of blocks that are no positive ints (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "matmul_k_cache_ragged_scaled_float8"
    sizes = scales_granularity_mnk
    if len(sizes) != 3 or any(
        isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes
    ):
        raise ArgumentError(
            "ML698",
            f"{what}: scales_granularity_mnk must be three positive ints, got {shown(sizes)}",
            fix="pass the tokens, rows and columns of a block: (1, 128, 128)",
        )
    tokens, down, across = sizes
    dtype = require_pages(what, kv_params, kv_collection).dtype
    left = require_codes(what, "hidden_states", hidden_states, 2)
    width = kv_params.n_kv_heads_per_device * kv_params.head_dim
    right = _weights(what, "weight", weight, width, left)
    scales = require_scales(what, "input_scale", input_scale, 2)
    if tokens > 1:  # those of a block are repeated for each of its tokens
        rows = left.shape[0]
        groups, many = scales.shape
        each = ops.broadcast_to(ops.unsqueeze(scales, 2), [groups, many, tokens])
        scales = each.reshape([groups, many * tokens])
        require_rows(what, many * tokens, rows)
    wide = scaled_rows(what, left, scales, across)
    of_weights = weight_scales(what, right, weight_scale, (down, across))
    made = scaled_product(what, wide, right, of_weights, (down, across))
    given = numbers(what, kv_collection, input_row_offsets, layer_idx)
    ops.cache_store(kv_collection.kv_blocks, *given, ops.cast(made, dtype), part=0, parts=1)


def _weights(
    what: str, name: str, weight: TensorValue, width: int, left: TensorValue
) -> TensorValue:
    """``weight``, 8-bit floats of ``width`` rows."""
    value = require_codes(what, name, weight, 2)
    if value.shape[0] != width or value.shape[1] != left.shape[1]:
        raise ShapeError(
            "ML659",
            f"{what}: {name} must be [{width}, {left.shape[1]}], got {value.type}",
            fix="weights are [out, in]: heads times head_dim rows for each of what they make",
        )
    return value


__all__ = ["fused_qkv_ragged_matmul_scaled_float8", "matmul_k_cache_ragged_scaled_float8"]
