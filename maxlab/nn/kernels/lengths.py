"""Lengths and rows of ragged batches."""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.errors import DTypeError, ShapeError
from maxlab.graph import TensorValue, ops
from maxlab.graph.build import staged
from maxlab.nn.kernels.given import CacheParams, PagedCache, require_rank


@staged
def kv_cache_get_max_seq_len(kv_params: CacheParams, kv_collection: PagedCache) -> TensorValue:
    """The most new tokens of a sequence of the batch, uint32 [1], on the host.

    Args:
        kv_params: The parameters of the cache.
        kv_collection: The cache.

    Raises:
        ShapeError: ML659, ``max_lengths`` of another rank (a ValueError).
        ArgumentTypeError: ML317, they are no tensor.
    """
    what = "kv_cache_get_max_seq_len"
    return require_rank(what, "max_lengths", kv_collection.max_lengths, 2)[0, 0:1]


@staged
def merge_ragged_tensors(
    a: TensorValue, a_row_offsets: TensorValue, b: TensorValue, b_row_offsets: TensorValue
) -> tuple[TensorValue, TensorValue]:
    """The rows of two ragged batches as one, and where its sequences begin: the rows of each
    sequence of ``a`` come before those of the same sequence of ``b``.

    Args:
        a: Rows, [rows of a, ...].
        a_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        b: Rows of the same dtype and other sizes.
        b_row_offsets: The same of ``b``, of as many sequences.

    Raises:
        ShapeError: ML659, ranks or sizes that differ (a ValueError).
        DTypeError: ML666, dtypes that differ (a ValueError).
        ArgumentTypeError: ML317, no tensors.

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import DeviceRef, Graph, ops
        >>> def u32(*x):
        ...     return ops.constant(np.array(x, np.uint32), device=DeviceRef.CPU())
        >>> with Graph("merged", input_types=[]) as graph:
        ...     graph.output(*merge_ragged_tensors(
        ...         u32(1, 2, 3, 4, 5, 6), u32(0, 2, 6), u32(7, 8, 9, 10), u32(0, 3, 4)))
        >>> rows, offsets = InferenceSession().load(graph)()
        >>> rows.to_numpy().tolist(), offsets.to_numpy().tolist()
        ([1, 2, 7, 8, 9, 3, 4, 5, 6, 10], [0, 5, 10])
    """
    what = "merge_ragged_tensors"
    ends = [
        require_rank(what, name, x, 1)
        for name, x in (("a_row_offsets", a_row_offsets), ("b_row_offsets", b_row_offsets))
    ]
    if not a.rank or a.rank != b.rank or list(a.shape[1:]) != list(b.shape[1:]):
        raise ShapeError(
            "ML659",
            f"{what}: rows must have the same sizes, got {a.type} and {b.type}",
            fix="pass [rows, ...] with equal dims behind the first",
        )
    if ends[0].shape != ends[1].shape:
        raise ShapeError(
            "ML659",
            f"{what}: the batches have offsets {ends[0].type} and {ends[1].type}",
            fix="pass batches of as many sequences",
        )
    if a.dtype is not b.dtype:
        raise DTypeError(
            "ML666",
            f"{what}: rows of {a.dtype.name} and of {b.dtype.name}",
            fix="cast one of them: ops.cast(x, dtype)",
        )
    wide = [ops.cast(x, DType.int64) for x in ends]
    places = []
    for x, own, other, later in ((a, 0, 1, 0), (b, 1, 0, 1)):
        rows = x.shape[0]
        sequences = ops.ragged_sequences(ends[own], rows)
        row = ops.range(0, rows, 1, out_dim=rows, dtype=DType.int64, device=x.device)
        places.append(row + ops.gather(wide[other], sequences + later, 0))
    joined = ops.concat([a, b], 0)
    at = ops.unsqueeze(ops.concat(places, 0), -1)
    return ops.scatter_nd(joined, joined, at), ends[0] + ends[1]


__all__ = ["kv_cache_get_max_seq_len", "merge_ragged_tensors"]
