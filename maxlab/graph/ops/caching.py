"""Writes into a paged cache of keys and values, and attention over it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from maxlab.errors import ArgumentError, shown
from maxlab.graph.build import add as add_op
from maxlab.graph.build import buffer, is_number, staged, tensor
from maxlab.graph.operands import as_int
from maxlab.graph.value import BufferValue, TensorValue
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "effect"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def cache_store(
    blocks: BufferValue,
    x: TensorValue,
    row_offsets: TensorValue,
    cache_lengths: TensorValue,
    lookup_table: TensorValue,
    layer: TensorValue,
    part: int,
    parts: int = 1,
    column: int = 0,
) -> None:
    """Writes the keys or the values of new tokens into their pages; the rest of the pages stays.

    The token i of a sequence goes to the position ``cache_lengths + i``. A position without a page,
    a page that is not there, or a row of no sequence ends the run with ML652.

    Args:
        blocks: The pages, a float buffer [pages, 2, layers, tokens of a page, heads, dim].
        x: The rows, [tokens, width], of the dtype of the pages.
        row_offsets: Where the rows of each sequence begin, and the end, uint32 [batch + 1].
        cache_lengths: The tokens of each sequence that are cached, uint32 [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        layer: The layer, uint32 of rank 0.
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
        >>> types = [pages, TensorType(DType.float32, ["t", 32]), TensorType(u32, [4]),
        ...          TensorType(u32, [3]), TensorType(u32, [3, "most"]), TensorType(u32, [])]
        >>> with Graph("remember", input_types=types) as graph:
        ...     cache, *rest = graph.inputs
        ...     ops.cache_store(cache.buffer, *(v.tensor for v in rest), part=0, parts=2)
        ...     graph.output()
    """
    numbers = _tensors("cache_store", x, row_offsets, cache_lengths, lookup_table, layer)
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
    q: TensorValue,
    row_offsets: TensorValue,
    cache_lengths: TensorValue,
    lookup_table: TensorValue,
    layer: TensorValue,
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
        q: The queries, [tokens, query heads, dim], of the dtype of the pages; neighbouring query
            heads share a head of the pages.
        row_offsets: Where the rows of each sequence begin, and the end, uint32 [batch + 1].
        cache_lengths: The tokens of each sequence before these, uint32 [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        layer: The layer, uint32 of rank 0.
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
        >>> types = [pages, TensorType(DType.float32, ["t", 4, 8]), TensorType(u32, [4]),
        ...          TensorType(u32, [3]), TensorType(u32, [3, "most"]), TensorType(u32, [])]
        >>> with Graph("attend", input_types=types) as graph:
        ...     cache, *rest = graph.inputs
        ...     y = ops.cache_attention(cache.buffer, *(v.tensor for v in rest), scale=8**-0.5)
        ...     graph.output(y)
        >>> y.shape
        [Dim('t'), Dim(4), Dim(8)]
    """
    numbers = _tensors("cache_attention", q, row_offsets, cache_lengths, lookup_table, layer)
    if sinks is not None:
        numbers.append(tensor(sinks, "cache_attention: the sinks"))
    blocks = buffer(blocks, "cache_attention: the pages")
    if not isinstance(mask, str) or not is_number(scale) or not np.isreal(scale):
        raise ArgumentError(
            "ML667",
            f"cache_attention: mask={shown(mask)}, scale={shown(scale)} are no text and number",
            fix="pass mask='causal' and scale=head_dim**-0.5",
        )
    return add_op(
        "cache.attention",
        [blocks, *numbers],
        mask=str(mask),
        window=as_int("cache_attention", window, "window"),
        scale=float(scale),
    )


def _tensors(what: str, x: Any, *numbers: Any) -> list[TensorValue]:
    names = ("rows", "row offsets", "cache lengths", "lookup table", "layer")
    return [
        tensor(value, f"{what}: the {name}")
        for name, value in zip(names, (x, *numbers), strict=True)
    ]


__all__ = ["cache_attention", "cache_store"]
