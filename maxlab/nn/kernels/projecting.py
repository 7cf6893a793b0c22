"""Products of ragged batches whose results are new keys and values, which go into their pages."""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.errors import DTypeError, ShapeError
from maxlab.graph import StaticDim, TensorValue, ops
from maxlab.graph.build import staged
from maxlab.graph.operands import as_int
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.nn.kernels.given import (
    CacheParams,
    PagedCache,
    numbers,
    require_pages,
    require_rank,
)
from maxlab.nn.packed import packed_shape, product
from maxlab.nn.ranks import require_floats


@staged
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
    width = (as_int(what, n_heads, "n_heads") + 2 * heads) * size
    made = _product(what, kv_params, kv_collection, input, "wqkv", wqkv, width)
    if bias is not None:
        made = made + require_floats(what, "bias", bias, 1)
    _store(what, kv_params, kv_collection, made, input_row_offsets, layer_idx, 2, n_heads * size)
    return made[:, : n_heads * size]


@staged
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


@staged
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


@staged
def unfused_qkv_ragged_matmul_gguf_quantized(
    kv_params: CacheParams,
    input: TensorValue,
    input_row_offsets: TensorValue,
    n_heads: int,
    q_weight: TensorValue,
    k_weight: TensorValue,
    v_weight: TensorValue,
    quantization_encoding_q: QuantizationEncoding,
    quantization_encoding_k: QuantizationEncoding,
    quantization_encoding_v: QuantizationEncoding,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
) -> TensorValue:
    """The queries of a ragged batch, [tokens, n_heads * head_dim], by weights in blocks of few
    bits; its keys and values go into the pages of the cache, at the positions from
    ``cache_lengths`` on.

    Args:
        kv_params: The parameters of the cache.
        input: The rows, [tokens, hidden], of the dtype of the cache.
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        n_heads: The number of query heads.
        q_weight: The bytes of the weights of queries, uint8 [n_heads * head_dim, bytes of a row].
        k_weight: Those of keys, [heads of keys * head_dim, bytes of a row].
        v_weight: Those of values, [heads of keys * head_dim, bytes of a row].
        quantization_encoding_q: The encoding of ``q_weight``.
        quantization_encoding_k: The encoding of ``k_weight``.
        quantization_encoding_v: The encoding of ``v_weight``.
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ModuleError: ML717, an encoding that has no blocks of GGUF files; ML782, rows that are not
            of whole blocks.
        ArgumentTypeError: ML317, no tensors.
    """
    what = "unfused_qkv_ragged_matmul_gguf_quantized"
    dtype = require_pages(what, kv_params, kv_collection).dtype
    _require_dtype(what, "the rows", require_rank(what, "the input", input, 2), dtype)
    size, kv_width = kv_params.head_dim, kv_params.n_kv_heads_per_device * kv_params.head_dim
    columns = input.shape[1]
    made = []
    for name, weight, encoding, rows in (
        ("q_weight", q_weight, quantization_encoding_q, as_int(what, n_heads, "n_heads") * size),
        ("k_weight", k_weight, quantization_encoding_k, kv_width),
        ("v_weight", v_weight, quantization_encoding_v, kv_width),
    ):
        if require_rank(what, name, weight, 2).dtype is not DType.uint8:
            raise DTypeError(
                "ML666",
                f"{what}: {name} must be uint8, got {weight.dtype.name}",
                fix="pass the bytes of the blocks; fused_qkv_ragged_matmul takes numbers",
            )
        if not isinstance(columns, StaticDim):
            raise ShapeError(
                "ML659",
                f"{what}: rows of blocks need a known size, got {input.type}",
                fix="give the last dim of the input as an int",
            )
        shape = packed_shape(what, encoding, rows, int(columns))
        if list(weight.shape) != list(shape):
            raise ShapeError(
                "ML659",
                f"{what}: {name} must be {list(shape)} bytes in {encoding.value}, got "
                f"{weight.type}",
                fix="weights are [out, bytes of a row]: heads times head_dim rows",
            )
        made.append(product(input, weight, encoding))
    for part, x in enumerate(made[1:]):
        store_rows(kv_params, kv_collection, x, input_row_offsets, layer_idx, part)
    return made[0]


@staged
def store_rows(
    kv_params: CacheParams,
    kv_collection: PagedCache,
    rows: TensorValue,
    input_row_offsets: TensorValue,
    layer_idx: TensorValue,
    part: int,
) -> None:
    """Writes the keys or the values of a ragged batch, which are computed already, into the pages
    of the cache.

    Args:
        kv_params: The parameters of the cache.
        kv_collection: The cache.
        rows: The keys or values, [tokens, heads of keys * head_dim], of the dtype of the cache.
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        layer_idx: The layer, uint32 of rank 0.
        part: 0 for keys, 1 for values.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, another ``part`` (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "store_rows"
    dtype = require_pages(what, kv_params, kv_collection).dtype
    _require_dtype(what, "the rows", require_rank(what, "the rows", rows, 2), dtype)
    width = kv_params.n_kv_heads_per_device * kv_params.head_dim
    if rows.shape[1] != width:
        raise ShapeError(
            "ML659",
            f"{what}: the rows must be [tokens, {width}], got {rows.type}",
            fix="rows have heads of keys times head_dim elements",
        )
    given = numbers(what, kv_collection, input_row_offsets, layer_idx)
    ops.cache_store(kv_collection.kv_blocks, *given, rows, part=part)


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


__all__ = [
    "fused_qkv_ragged_matmul",
    "matmul_k_cache_ragged",
    "matmul_kv_cache_ragged",
    "store_rows",
    "unfused_qkv_ragged_matmul_gguf_quantized",
]
