"""Attention over a paged cache of latent vectors, of which keys and values of heads are made."""

from __future__ import annotations

from typing import Any, Final

from maxlab.errors import ArgumentError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import buffer, staged, tensor
from maxlab.graph.operands import as_int
from maxlab.graph.ops.paging import places, scoring
from maxlab.graph.value import BufferValue, TensorValue
from maxlab.ir import Dim, DimLike
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "effect"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def latent_load(
    blocks: BufferValue,
    row_offsets: TensorValue,
    cache_offsets: TensorValue,
    lookup_table: TensorValue,
    layer: TensorValue,
    count: TensorValue,
    rows: DimLike,
    width: int,
) -> TensorValue:
    """A copy of the latent vectors of a chunk, [rows, width], from their pages.

    The first ``count`` rows are vectors, the others 0. A position without a page, a page that is
    not there, a row of no sequence, or a count above ``rows`` ends the run with ML652.

    Args:
        blocks: The pages, a float buffer [pages, 1, layers, tokens of a page, 1, dim].
        row_offsets: Where the rows of each sequence in the chunk begin, and the end, uint32
            [batch + 1].
        cache_offsets: The token of each sequence that is its first one in the chunk, uint32
            [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        layer: The layer, uint32 of rank 0.
        count: The rows that are there, int64 of rank 0.
        rows: The number of rows of the result.
        width: How many numbers of a vector are copied, from the first on.

    Raises:
        ArgumentTypeError: ML776, ``blocks`` is not a buffer; ML302, ``width`` is not an int.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        ArgumentError: ML667, ``width`` out of range.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, Graph, TensorType, ops
        >>> pages, u32 = BufferType(DType.float32, ["pages", 1, 1, 16, 1, 12]), DType.uint32
        >>> types = [pages, TensorType(u32, [4]), TensorType(u32, [3]),
        ...          TensorType(u32, [3, "most"]), TensorType(u32, []),
        ...          TensorType(DType.int64, [])]
        >>> with Graph("copy", input_types=types) as graph:
        ...     cache, *rest = graph.inputs
        ...     graph.output(ops.latent_load(cache.buffer, *(v.tensor for v in rest), 64, 8))
        >>> graph.output_types[0].shape
        [Dim(64), Dim(8)]
    """
    what = "latent_load"
    numbers = _chunk(what, row_offsets, cache_offsets, lookup_table, layer, count)
    pages = buffer(blocks, "latent_load: the pages")
    width = as_int(what, width, "width")
    return add_op("latent.load", [pages, *numbers], rows=Dim(rows), width=width)


@staged
def latent_expand(
    blocks: BufferValue,
    row_offsets: TensorValue,
    cache_offsets: TensorValue,
    lookup_table: TensorValue,
    layer: TensorValue,
    count: TensorValue,
    weight: TensorValue,
    rows: DimLike,
) -> TensorValue:
    """The latent vectors of a chunk times a weight, transposed: [rows, out].

    The first ``count`` rows are products, the others 0. Vectors are read in their pages, and rows
    that are not there take no time of a product. A position without a page, a page that is not
    there, a row of no sequence, or a count above ``rows`` ends the run with ML652.

    Args:
        blocks: The pages, a float buffer [pages, 1, layers, tokens of a page, 1, dim].
        row_offsets: Where the rows of each sequence in the chunk begin, and the end, uint32
            [batch + 1].
        cache_offsets: The token of each sequence that is its first one in the chunk, uint32
            [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        layer: The layer, uint32 of rank 0.
        count: The rows that are there, int64 of rank 0.
        weight: [out, width], of the dtype of the pages; the first ``width`` numbers of a vector are
            multiplied.
        rows: The number of rows of the result.

    Raises:
        ArgumentTypeError: ML776, ``blocks`` is not a buffer.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, Graph, TensorType, ops
        >>> pages, u32 = BufferType(DType.float32, ["pages", 1, 1, 16, 1, 12]), DType.uint32
        >>> types = [pages, TensorType(u32, [4]), TensorType(u32, [3]),
        ...          TensorType(u32, [3, "most"]), TensorType(u32, []),
        ...          TensorType(DType.int64, []), TensorType(DType.float32, [48, 8])]
        >>> with Graph("expand", input_types=types) as graph:
        ...     cache, *rest = graph.inputs
        ...     graph.output(ops.latent_expand(cache.buffer, *(v.tensor for v in rest), 64))
        >>> graph.output_types[0].shape
        [Dim(64), Dim(48)]
    """
    what = "latent_expand"
    numbers = _chunk(what, row_offsets, cache_offsets, lookup_table, layer, count)
    pages = buffer(blocks, "latent_expand: the pages")
    right = tensor(weight, "latent_expand: the weight")
    return add_op("latent.expand", [pages, *numbers, right], rows=Dim(rows))


@staged
def latent_chunk(
    blocks: BufferValue,
    row_offsets: TensorValue,
    cache_lengths: TensorValue,
    lookup_table: TensorValue,
    layer: TensorValue,
    q: TensorValue,
    k: TensorValue,
    v: TensorValue,
    chunk_offsets: TensorValue,
    cache_offsets: TensorValue,
    previous: TensorValue | None = None,
    previous_state: TensorValue | None = None,
    *,
    rope: int,
    size: int,
    column: int = 0,
    mask: str = "causal",
    scale: float = 1.0,
) -> tuple[TensorValue, TensorValue]:
    """The attention of new tokens over the keys and values of a chunk, [tokens, heads, size], and
    the state of its softmax, [tokens, heads, 2]: the largest score, and the sum of exponentials of
    what scores are below it.

    With the result and the state of the chunks before, the result is that over all of them. Scores
    are never all in memory. A row that sees no key is 0, and its state minus infinity and 0. The
    state is float32, or float64 with pages of float64.

    A position without a page, a page that is not there, a row of no sequence, or offsets beyond the
    rows of the chunk end the run with ML652.

    Args:
        blocks: The pages, a float buffer [pages, 1, layers, tokens of a page, 1, dim]. The last
            ``rope`` numbers of a vector end the keys of all heads.
        row_offsets: Where the queries of each sequence begin, and the end, uint32 [batch + 1].
        cache_lengths: The tokens of each sequence before these, uint32 [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        layer: The layer, uint32 of rank 0.
        q: The queries, [tokens, heads, nope + rope], of the dtype of the pages.
        k: The keys of the chunk, [rows, heads, nope or more]; the first ``nope`` numbers are used.
        v: Its values, [rows, heads, column + size or more].
        chunk_offsets: Where the rows of each sequence in the chunk begin, and the end, uint32
            [batch + 1].
        cache_offsets: The token of each sequence that is its first one in the chunk, uint32
            [batch].
        previous: The result of the chunks before.
        previous_state: Their state.
        rope: The numbers of a key that are in the pages.
        size: The numbers of a value.
        column: Where they begin in a head of ``v``.
        mask: ``"causal"``; ``"alibi"``, the same with scores that fall with the distance; or
            ``"null"``, all keys.
        scale: The factor of the products of queries and keys.

    Raises:
        ArgumentTypeError: ML776, ``blocks`` is not a buffer; ML302, a size is not an int.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        ArgumentError: ML667, an unknown mask, a scale that is not a finite number, or one of
            ``previous`` and ``previous_state`` without the other.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, Graph, TensorType, ops
        >>> pages, u32 = BufferType(DType.float32, ["pages", 1, 1, 16, 1, 12]), DType.uint32
        >>> types = [pages, TensorType(u32, [4]), TensorType(u32, [3]),
        ...          TensorType(u32, [3, "most"]), TensorType(u32, []),
        ...          TensorType(DType.float32, ["t", 2, 10]),
        ...          TensorType(DType.float32, [64, 2, 6]), TensorType(DType.float32, [64, 2, 6]),
        ...          TensorType(u32, [4]), TensorType(u32, [3])]
        >>> with Graph("attend", input_types=types) as graph:
        ...     cache, *rest = graph.inputs
        ...     graph.output(*ops.latent_chunk(
        ...         cache.buffer, *(v.tensor for v in rest), rope=4, size=6, scale=10**-0.5))
        >>> [str(type.shape) for type in graph.output_types]
        ['[t, 2, 6]', '[t, 2, 2]']
    """
    what = "latent_chunk"
    if (previous is None) != (previous_state is None):
        raise ArgumentError(
            "ML667",
            f"{what}: previous and previous_state go together",
            fix="pass both results of the chunk before, or none of them",
        )
    numbers = places(what, row_offsets, cache_lengths, lookup_table, layer)
    named = [
        ("queries", q), ("keys", k), ("values", v), ("offsets of the chunk", chunk_offsets),
        ("first tokens", cache_offsets), ("previous result", previous),
        ("previous state", previous_state),
    ]  # fmt: skip
    numbers += [tensor(x, f"{what}: the {name}") for name, x in named if x is not None]
    pages = buffer(blocks, "latent_chunk: the pages")
    sizes = {
        name: as_int(what, value, name)
        for name, value in (("rope", rope), ("size", size), ("column", column))
    }
    found: Any = add_op("latent.chunk", [pages, *numbers], **scoring(what, mask, scale), **sizes)
    made, state = found
    return made, state


@staged
def latent_attention(
    blocks: BufferValue,
    row_offsets: TensorValue,
    cache_lengths: TensorValue,
    lookup_table: TensorValue,
    layer: TensorValue,
    q: TensorValue,
    *,
    size: int,
    mask: str = "causal",
    scale: float = 1.0,
) -> TensorValue:
    """The attention of new tokens over latent vectors, [tokens, heads, size]: vectors are the keys
    of all heads, and their first ``size`` numbers the values.

    Scores are never all in memory, and pages are read where they lie. A position without a page, a
    page that is not there, or a row of no sequence ends the run with ML652.

    Args:
        blocks: The pages, a float buffer [pages, 1, layers, tokens of a page, 1, dim].
        row_offsets: Where the queries of each sequence begin, and the end, uint32 [batch + 1].
        cache_lengths: The tokens of each sequence before these, uint32 [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        layer: The layer, uint32 of rank 0.
        q: The queries, [tokens, heads, dim], of the dtype of the pages.
        size: The numbers of a value.
        mask: As of ``latent_chunk``.
        scale: The factor of the products of queries and keys.

    Raises:
        ArgumentTypeError: ML776, ``blocks`` is not a buffer; ML302, ``size`` is not an int.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        ArgumentError: ML667, an unknown mask, or a scale that is not a finite number.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, Graph, TensorType, ops
        >>> pages, u32 = BufferType(DType.float32, ["pages", 1, 1, 16, 1, 12]), DType.uint32
        >>> types = [pages, TensorType(u32, [4]), TensorType(u32, [3]),
        ...          TensorType(u32, [3, "most"]), TensorType(u32, []),
        ...          TensorType(DType.float32, ["t", 4, 12])]
        >>> with Graph("attend", input_types=types) as graph:
        ...     cache, *rest = graph.inputs
        ...     graph.output(ops.latent_attention(
        ...         cache.buffer, *(v.tensor for v in rest), size=8, scale=12**-0.5))
        >>> graph.output_types[0].shape
        [Dim('t'), Dim(4), Dim(8)]
    """
    what = "latent_attention"
    numbers = places(what, row_offsets, cache_lengths, lookup_table, layer)
    numbers.append(tensor(q, "latent_attention: the queries"))
    pages = buffer(blocks, "latent_attention: the pages")
    given = scoring(what, mask, scale)
    size = as_int(what, size, "size")
    return add_op("latent.attention", [pages, *numbers], size=size, **given)


def _chunk(what: str, *numbers: Any) -> list[TensorValue]:
    names = ("row offsets", "cache offsets", "lookup table", "layer", "number of rows")
    return [tensor(x, f"{what}: the {name}") for name, x in zip(names, numbers, strict=True)]


__all__ = ["latent_attention", "latent_chunk", "latent_expand", "latent_load"]
