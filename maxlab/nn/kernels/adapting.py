"""Products of ragged batches with the matrices of adapters of low rank (LoRA)."""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ShapeError, shown
from maxlab.graph import TensorValue, ops
from maxlab.graph.build import staged
from maxlab.graph.operands import as_int
from maxlab.ir import StaticDim
from maxlab.nn.kernels.given import CacheParams, PagedCache, numbers, require_pages, require_rank
from maxlab.nn.ranks import require_integers


@staged
def sgmv_kernel(
    input: TensorValue,
    lora: TensorValue,
    lora_ids: TensorValue,
    lora_ranks: TensorValue,
    input_row_offsets: TensorValue,
    max_lora_seq_len: int | None,
    bias: TensorValue | None = None,
    *,
    expand: bool | None = None,
) -> TensorValue:
    """Each row of ``input`` times the transposed matrix of its adapter, A or B:
    ``[tokens, outputs]``; 0 for rows of the base, whose id is -1, and of no group.

    Only as many outputs of A, or inputs of B, count as the adapter's rank says; the other outputs
    of A are 0.

    Args:
        input: The rows, floats [tokens, inputs].
        lora: A matrix for each adapter, [adapters, outputs, inputs], of the same dtype.
        lora_ids: The adapter of each group of rows, integers [groups].
        lora_ranks: The rank of each group, integers [groups].
        input_row_offsets: Where the groups begin, and the end of the last one, integers
            [groups + 1].
        max_lora_seq_len: The most rows of a group, or None. Rows are found by their offsets, so
            groups of any length are computed.
        bias: What is added to the rows of an adapter, [adapters, outputs].
        expand: Whether ``lora`` is B, whose inputs are the rank, or A, whose outputs are. When left
            out, the rank is the smaller of the two sizes; of equal ones all is used.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, ``max_lora_seq_len`` is not positive (a ValueError).
        ArgumentTypeError: ML317, no tensors; ML302, ``max_lora_seq_len`` is not an int.
    """
    what = "sgmv_kernel"
    x, (matrices,), groups = _given(
        what, input, (("lora", lora),), lora_ids, lora_ranks, input_row_offsets, max_lora_seq_len
    )
    outputs, inputs = map(int, matrices.shape[1:])
    if expand is None and outputs == inputs:
        cut = "none"
    else:
        cut = "columns" if (inputs < outputs if expand is None else expand) else "rows"
    return ops.lora_product(x, matrices, *groups, _bias(what, bias), cut=cut)


@staged
def sgmv_lora_kernel(
    input: TensorValue,
    lora_a: TensorValue,
    lora_b: TensorValue,
    lora_ids: TensorValue,
    lora_ranks: TensorValue,
    grouped_row_offsets: TensorValue,
    max_lora_seq_len: int | None,
    bias: TensorValue | None = None,
) -> TensorValue:
    """The sum that adapters add to a linear map: ``x @ A.T @ B.T`` plus the bias,
    [tokens, outputs]; 0 for rows of the base, whose id is -1, and of no group.

    Adapters have the ranks that ``lora_ranks`` say; the matrices may hold anything behind them.

    Args:
        input: The rows, floats [tokens, inputs].
        lora_a: The matrices A, [adapters, largest rank, inputs], of the same dtype.
        lora_b: The matrices B, [adapters, outputs, largest rank], of the same dtype.
        lora_ids: The adapter of each group of rows, integers [groups].
        lora_ranks: The rank of each group, integers [groups].
        grouped_row_offsets: Where the groups begin, and the end of the last one, integers
            [groups + 1].
        max_lora_seq_len: The most rows of a group, or None. Rows are found by their offsets, so
            groups of any length are computed.
        bias: What is added to the rows of an adapter, [adapters, outputs].

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, ``max_lora_seq_len`` is not positive (a ValueError).
        ArgumentTypeError: ML317, no tensors; ML302, ``max_lora_seq_len`` is not an int.
    """
    what = "sgmv_lora_kernel"
    named = (("lora_a", lora_a), ("lora_b", lora_b))
    x, (a, b), groups = _given(
        what, input, named, lora_ids, lora_ranks, grouped_row_offsets, max_lora_seq_len
    )
    _require_pair(what, a, b, 1)
    low = ops.lora_product(x, a, *groups, cut="rows")
    return ops.lora_product(low, b, *groups, _bias(what, bias), cut="columns")


@staged
def sgmv_qkv_lora_kernel(
    input: TensorValue,
    lora_a: TensorValue,
    lora_b: TensorValue,
    lora_ids: TensorValue,
    lora_ranks: TensorValue,
    input_row_offsets: TensorValue,
    lora_grouped_offsets: TensorValue,
    kv_collection: PagedCache,
    kv_params: CacheParams,
    layer_idx: TensorValue,
    max_lora_seq_len: int | None,
    max_rank: int,
    q_dim: int,
    kv_dim: int,
    bias: TensorValue | None = None,
) -> TensorValue:
    """The sum that adapters add to the queries of a ragged batch, [tokens, q_dim].

    What they add to keys and values is added in the pages of the cache, where these are already.
    Keys and values of rows of the base are not touched.

    Args:
        input: The rows, [tokens, inputs], of the dtype of the cache.
        lora_a: The matrices A of queries, keys and values, one below the other,
            [adapters, 3 * max_rank, inputs].
        lora_b: The matrices B of queries, keys and values, one below the other,
            [adapters, q_dim + 2 * kv_dim, max_rank].
        lora_ids: The adapter of each group of rows, integers [groups]; -1 is the base.
        lora_ranks: The rank of each group, integers [groups].
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        lora_grouped_offsets: Where the groups begin, and the end of the last one, integers
            [groups + 1].
        kv_collection: The cache.
        kv_params: The parameters of the cache.
        layer_idx: The layer, uint32 of rank 0.
        max_lora_seq_len: The most rows of a group, or None. Rows are found by their offsets, so
            groups of any length are computed.
        max_rank: The largest rank.
        q_dim: The number of outputs for queries.
        kv_dim: The number of outputs for keys, and for values.
        bias: What is added to the rows of an adapter, [adapters, q_dim + 2 * kv_dim].

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, ``max_lora_seq_len`` is not positive (a ValueError).
        ArgumentTypeError: ML317, no tensors; ML302, a size is not an int.
    """
    what = "sgmv_qkv_lora_kernel"
    named = (("lora_a", lora_a), ("lora_b", lora_b))
    x, (a, b), groups = _given(
        what, input, named, lora_ids, lora_ranks, lora_grouped_offsets, max_lora_seq_len
    )
    rank, q_rows, kv_rows = (
        as_int(what, value, name)
        for name, value in (("max_rank", max_rank), ("q_dim", q_dim), ("kv_dim", kv_dim))
    )
    _require_pair(what, a, b, 3)
    blocks = require_pages(what, kv_params, kv_collection)
    width = kv_params.n_kv_heads_per_device * kv_params.head_dim
    if kv_rows != width or b.shape[2] != rank or b.shape[1] != q_rows + 2 * kv_rows:
        raise ShapeError(
            "ML659",
            f"{what}: q_dim={q_rows}, kv_dim={kv_rows} and max_rank={rank} do not fit lora_b, "
            f"{b.type}, and heads of keys of {width} elements in all",
            fix="lora_b is [adapters, q_dim + 2 * kv_dim, max_rank], kv_dim is heads times "
            "head_dim of kv_params",
        )
    given = numbers(what, kv_collection, input_row_offsets, layer_idx)
    shift = _bias(what, bias)
    low = ops.lora_product(x, a, *groups, cut="rows", parts=3)
    ops.cache_add_lora(
        blocks, *given, low, b, *groups, shift, part=0, parts=2, column=rank, row=q_rows
    )
    return ops.lora_product(low, b, *groups, shift, cut="columns", rows=q_rows)


@staged
def lora_kv_cache_add(
    kv_params: CacheParams,
    kv_collection: PagedCache,
    input: TensorValue,
    lora_a: TensorValue,
    lora_b: TensorValue,
    lora_ids: TensorValue,
    lora_ranks: TensorValue,
    input_row_offsets: TensorValue,
    lora_grouped_offsets: TensorValue,
    layer_idx: TensorValue,
    part: int,
    bias: TensorValue | None = None,
) -> None:
    """Adds what adapters add to the keys or the values of a ragged batch, which are in the cache
    already; those of rows of the base are not touched.

    Args:
        kv_params: The parameters of the cache.
        kv_collection: The cache.
        input: The rows, [tokens, inputs], of the dtype of the cache.
        lora_a: The matrices A, [adapters, largest rank, inputs].
        lora_b: The matrices B, [adapters, heads of keys * head_dim, largest rank].
        lora_ids: The adapter of each group of rows, integers [groups]; -1 is the base.
        lora_ranks: The rank of each group, integers [groups].
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        lora_grouped_offsets: Where the groups begin, and the end of the last one, integers
            [groups + 1].
        layer_idx: The layer, uint32 of rank 0.
        part: 0 for keys, 1 for values.
        bias: What is added to the rows of an adapter, [adapters, heads of keys * head_dim].

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, another ``part`` (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "lora_kv_cache_add"
    named = (("lora_a", lora_a), ("lora_b", lora_b))
    x, (a, b), groups = _given(what, input, named, lora_ids, lora_ranks, lora_grouped_offsets, None)
    _require_pair(what, a, b, 1)
    blocks = require_pages(what, kv_params, kv_collection)
    width = kv_params.n_kv_heads_per_device * kv_params.head_dim
    if b.shape[1] != width:
        raise ShapeError(
            "ML659",
            f"{what}: lora_b must be [adapters, {width}, largest rank], got {b.type}",
            fix="matrices B have heads of keys times head_dim rows",
        )
    given = numbers(what, kv_collection, input_row_offsets, layer_idx)
    low = ops.lora_product(x, a, *groups, cut="rows")
    ops.cache_add_lora(blocks, *given, low, b, *groups, _bias(what, bias), part=part)


Groups = tuple[TensorValue, TensorValue, TensorValue]
"""Ids, ranks and bounds of the groups."""


def _given(
    what: str,
    x: TensorValue,
    named: tuple[tuple[str, TensorValue], ...],
    ids: TensorValue,
    ranks: TensorValue,
    offsets: TensorValue,
    longest: int | None,
) -> tuple[TensorValue, list[TensorValue], Groups]:
    """The rows, the matrices, and the groups in the dtypes that the ops take."""
    if longest is not None and as_int(what, longest, "max_lora_seq_len") < 1:
        raise ArgumentError(
            "ML667",
            f"{what}: max_lora_seq_len must be 1 or more, got {shown(longest)}",
            fix="pass the most rows that an adapter has in a batch",
        )
    rows = require_rank(what, "the input", x, 2)
    matrices = [require_rank(what, name, value, 3) for name, value in named]
    for (name, _), matrix in zip(named, matrices, strict=True):
        if not all(isinstance(dim, StaticDim) for dim in matrix.shape):
            raise ShapeError(
                "ML659",
                f"{what}: {name} must have known sizes, got {matrix.type}",
                fix="give the matrices as a Weight, or as an input whose dims are numbers",
            )
    if rows.shape[1] != matrices[0].shape[2]:
        raise ShapeError(
            "ML659",
            f"{what}: rows {rows.type} and matrices {named[0][0]} {matrices[0].type}",
            fix="rows are [tokens, inputs], and the first matrices [adapters, ..., inputs]",
        )
    groups = (
        _whole(what, "the ids", ids, DType.int32),
        _whole(what, "the ranks", ranks, DType.uint32),
        _whole(what, "the offsets of groups", offsets, DType.uint32),
    )
    return rows, matrices, groups


def _whole(what: str, name: str, x: TensorValue, dtype: DType) -> TensorValue:
    """``x``, integers of rank 1, as ``dtype``."""
    value = require_integers(what, name, x, 1)
    return value if value.dtype is dtype else ops.cast(value, dtype)


def _require_pair(what: str, a: TensorValue, b: TensorValue, parts: int) -> None:
    """Raises unless A maps down to the rank from which B maps up, ``parts`` times."""
    if a.shape[0] != b.shape[0] or a.shape[1] != parts * int(b.shape[2]):
        times = "" if parts == 1 else f"{parts} * "
        raise ShapeError(
            "ML659",
            f"{what}: lora_a, {a.type}, and lora_b, {b.type}, are no pair",
            fix=f"lora_a is [adapters, {times}largest rank, inputs], lora_b is [adapters, outputs, "
            "largest rank]",
        )


def _bias(what: str, bias: TensorValue | None) -> TensorValue | None:
    return None if bias is None else require_rank(what, "the bias", bias, 2)


__all__ = ["lora_kv_cache_add", "sgmv_kernel", "sgmv_lora_kernel", "sgmv_qkv_lora_kernel"]
