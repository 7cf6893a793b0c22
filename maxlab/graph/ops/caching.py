"""Writes into a paged cache of keys and values, and attention over it."""

from __future__ import annotations

from typing import Any, Final

from maxlab.graph.build import add as add_op
from maxlab.graph.build import buffer, staged, tensor
from maxlab.graph.operands import as_int
from maxlab.graph.ops.paging import Scoring, places, scoring
from maxlab.graph.value import BufferValue, TensorValue
from maxlab.ir import Dim, DimLike
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "effect"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def cache_store(
    blocks: BufferValue,
    row_offsets: TensorValue,
    cache_lengths: TensorValue,
    lookup_table: TensorValue,
    layer: TensorValue,
    x: TensorValue,
    part: int,
    parts: int = 1,
    column: int = 0,
) -> None:
    """Writes the keys or the values of new tokens into their pages; the rest of the pages stays.

    The token i of a sequence goes to the position ``cache_lengths + i``. A position without a page,
    a page that is not there, a row of no sequence or a sequence without its rows ends the run with
    ML652. On a CPU nothing is written then; on a GPU, rows that have a place may be.

    Args:
        blocks: The pages, a float buffer [pages, 2, layers, tokens of a page, heads, dim].
        row_offsets: Where the rows of each sequence begin, and the end, uint32 [batch + 1].
        cache_lengths: The tokens of each sequence that are cached, uint32 [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        layer: The layer, uint32 of rank 0.
        x: The rows, [tokens, width], of the dtype of the pages.
        part: 0 for keys, 1 for values.
        parts: 2 for keys and values, side by side in a row.
        column: The column of a row in which they begin.

    Raises:
        ArgumentTypeError: ML776, ``blocks`` is not a buffer.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        ArgumentError: ML667, ``part``, ``parts`` or ``column`` out of range.
        ArgumentTypeError: ML302, one of them is not an int.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, Graph, TensorType, ops
        >>> pages, u32 = BufferType(DType.float32, ["pages", 2, 1, 16, 2, 8]), DType.uint32
        >>> types = [pages, TensorType(u32, [4]), TensorType(u32, [3]),
        ...          TensorType(u32, [3, "most"]), TensorType(u32, []),
        ...          TensorType(DType.float32, ["t", 32])]
        >>> with Graph("remember", input_types=types) as graph:
        ...     cache, *rest = graph.inputs
        ...     ops.cache_store(cache.buffer, *(v.tensor for v in rest), part=0, parts=2)
        ...     graph.output()
    """
    numbers = places("cache_store", row_offsets, cache_lengths, lookup_table, layer)
    numbers.append(tensor(x, "cache_store: the rows"))
    blocks = buffer(blocks, "cache_store: the pages")
    add_op(
        "cache.store",
        [blocks, *numbers],
        part=as_int("cache_store", part, "part"),
        parts=as_int("cache_store", parts, "parts"),
        column=as_int("cache_store", column, "column"),
    )


@staged
def cache_attention(
    blocks: BufferValue,
    row_offsets: TensorValue,
    cache_lengths: TensorValue,
    lookup_table: TensorValue,
    layer: TensorValue,
    q: TensorValue,
    key_offsets: TensorValue | None = None,
    sinks: TensorValue | None = None,
    *,
    mask: str = "causal",
    window: int = 0,
    scale: float = 1.0,
) -> TensorValue:
    """The attention of the rows of new tokens over the pages of their sequences, in the shape of
    ``q``. Scores are never all in memory, and pages are read where they lie.

    The query of the token i has the position ``cache_lengths + i``; a row that sees no key is 0.
    A position without a page, a page that is not there, or a row of no sequence ends the run with
    ML652.

    Args:
        blocks: The pages, a float buffer [pages, 2, layers, tokens of a page, heads, dim].
        row_offsets: Where the rows of each sequence begin, and the end, uint32 [batch + 1].
        cache_lengths: The tokens of each sequence before these, uint32 [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        layer: The layer, uint32 of rank 0.
        q: The queries, [tokens, query heads, dim], of the dtype of the pages; neighbouring query
            heads share a head of the pages.
        key_offsets: The ends of the new keys of each sequence, uint32 [batch + 1], where these are
            not as many as its queries.
        sinks: A score of each query head that takes part in the softmax, without a value.
        mask: ``"causal"``; ``"alibi"``, the same with scores that fall with the distance, by the
            slope of the head; ``"window"``, the last ``window`` keys, the query's own among them;
            ``"chunk"``, those of the query's chunk of ``window`` positions; ``"null"``, all keys.
        window: The keys of a window or of a chunk; 0 for other masks.
        scale: The factor of the products of queries and keys; sinks are not scaled.

    Raises:
        ArgumentTypeError: ML776, ``blocks`` is not a buffer.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        ArgumentError: ML667, an unknown mask, a window that does not go with it, or a scale
            that is not a finite number.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, Graph, TensorType, ops
        >>> pages, u32 = BufferType(DType.float32, ["pages", 2, 1, 16, 2, 8]), DType.uint32
        >>> types = [pages, TensorType(u32, [4]), TensorType(u32, [3]),
        ...          TensorType(u32, [3, "most"]), TensorType(u32, []),
        ...          TensorType(DType.float32, ["t", 4, 8])]
        >>> with Graph("attend", input_types=types) as graph:
        ...     cache, *rest = graph.inputs
        ...     y = ops.cache_attention(cache.buffer, *(v.tensor for v in rest), scale=8**-0.5)
        ...     graph.output(y)
        >>> y.shape
        [Dim('t'), Dim(4), Dim(8)]
    """
    numbers = places("cache_attention", row_offsets, cache_lengths, lookup_table, layer)
    numbers.append(tensor(q, "cache_attention: the queries"))
    ends = (
        numbers[0] if key_offsets is None else tensor(key_offsets, "cache_attention: key offsets")
    )
    numbers.append(ends)
    if sinks is not None:
        numbers.append(tensor(sinks, "cache_attention: the sinks"))
    blocks = buffer(blocks, "cache_attention: the pages")
    given = _windowed("cache_attention", mask, window, scale)
    return add_op("cache.attention", [blocks, *numbers], **given)


@staged
def cache_load(
    blocks: BufferValue,
    row_offsets: TensorValue,
    cache_lengths: TensorValue,
    lookup_table: TensorValue,
    layer: TensorValue,
    rows: DimLike,
    part: int,
) -> TensorValue:
    """A copy of the keys or the values of new tokens, [rows, heads, dim], from their pages.

    A position without a page, a page that is not there, or a row of no sequence ends the run with
    ML652.

    Args:
        blocks: The pages, a float buffer [pages, 2, layers, tokens of a page, heads, dim].
        row_offsets: Where the rows of each sequence begin, and the end, uint32 [batch + 1].
        cache_lengths: The tokens of each sequence before these, uint32 [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        layer: The layer, uint32 of rank 0.
        rows: The number of new tokens of all sequences.
        part: 0 for keys, 1 for values.

    Raises:
        ArgumentTypeError: ML776, ``blocks`` is not a buffer; ML302, ``part`` is not an int.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        ArgumentError: ML667, ``part`` out of range.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, Graph, TensorType, ops
        >>> pages, u32 = BufferType(DType.float32, ["pages", 2, 1, 16, 2, 8]), DType.uint32
        >>> types = [pages, TensorType(u32, [4]), TensorType(u32, [3]),
        ...          TensorType(u32, [3, "most"]), TensorType(u32, [])]
        >>> with Graph("recall", input_types=types) as graph:
        ...     cache, *rest = graph.inputs
        ...     graph.output(ops.cache_load(cache.buffer, *(v.tensor for v in rest), 5, part=0))
        >>> graph.output_types[0].shape
        [Dim(5), Dim(2), Dim(8)]
    """
    numbers = places("cache_load", row_offsets, cache_lengths, lookup_table, layer)
    blocks = buffer(blocks, "cache_load: the pages")
    part = as_int("cache_load", part, "part")
    return add_op("cache.load", [blocks, *numbers], rows=Dim(rows), part=part)


@staged
def ragged_attention(
    q: TensorValue,
    k: TensorValue,
    v: TensorValue,
    row_offsets: TensorValue,
    lengths: TensorValue | None = None,
    *,
    mask: str = "causal",
    window: int = 0,
    scale: float = 1.0,
) -> TensorValue:
    """The attention of the rows of each sequence of a ragged batch over its own rows, in the shape
    of ``q``. Scores are never all in memory.

    A row that sees no key is 0. A row of no sequence ends the run with ML652.

    Args:
        q: The queries, floats [tokens, query heads, dim]; neighbouring query heads share a head of
            the keys.
        k: The keys, [tokens, heads, dim], of the same dtype.
        v: The values, [tokens, heads, dim], of the same dtype.
        row_offsets: Where the rows of each sequence begin, and the end, uint32 [batch + 1].
        lengths: The rows of each sequence that count, uint32 [batch]; those behind are not seen,
            and give 0.
        mask: As of ``cache_attention``.
        window: The keys of a window or of a chunk; 0 for other masks.
        scale: The factor of the products of queries and keys.

    Raises:
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        ArgumentError: ML667, an unknown mask, a window that does not go with it, or a scale that is
            not a finite number.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> rows = TensorType(DType.float32, ["t", 4, 8])
        >>> with Graph("attend", input_types=[rows, TensorType(DType.uint32, [3])]) as graph:
        ...     x, offsets = (v.tensor for v in graph.inputs)
        ...     graph.output(ops.ragged_attention(x, x, x, offsets, scale=8**-0.5))
    """
    names = ("queries", "keys", "values", "row offsets", "lengths")
    values = [q, k, v, row_offsets, *([] if lengths is None else [lengths])]
    operands = [
        tensor(x, f"ragged_attention: the {name}") for name, x in zip(names, values, strict=False)
    ]
    return add_op(
        "ragged.attention", operands, **_windowed("ragged_attention", mask, window, scale)
    )


@staged
def ragged_sequences(row_offsets: TensorValue, rows: DimLike) -> TensorValue:
    """The sequence of each row of a ragged batch, int64 [rows].

    A row of no sequence ends the run with ML652.

    Args:
        row_offsets: Where the rows of each sequence begin, and the end, uint32 [batch + 1].
        rows: The number of rows of all sequences.

    Raises:
        DTypeError: ML666, the offsets are not uint32.
        ShapeError: ML659, they are not of rank 1.

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import Graph, ops
        >>> with Graph("whose", input_types=[]) as graph:
        ...     graph.output(ops.ragged_sequences(np.array([0, 2, 2, 5], np.uint32), 5))
        >>> InferenceSession().load(graph)()[0].to_numpy().tolist()
        [0, 0, 2, 2, 2]
    """
    offsets = tensor(row_offsets, "ragged_sequences: the row offsets")
    return add_op("ragged.sequences", [offsets], rows=Dim(rows))


class _Windowed(Scoring):
    window: int


def _windowed(what: str, mask: Any, window: Any, scale: Any) -> _Windowed:
    made = scoring(what, mask, scale)
    window = as_int(what, window, "window")
    return {"mask": made["mask"], "window": window, "scale": made["scale"]}


__all__ = ["cache_attention", "cache_load", "cache_store", "ragged_attention", "ragged_sequences"]
