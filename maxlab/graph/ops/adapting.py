"""Products of ragged rows with the matrices of adapters of low rank (LoRA)."""

from __future__ import annotations

from typing import Any, Final

from maxlab.errors import ArgumentError, shown
from maxlab.graph.build import add as add_op
from maxlab.graph.build import buffer, staged, tensor
from maxlab.graph.operands import as_int
from maxlab.graph.value import BufferValue, TensorValue
from maxlab.ir import StaticDim
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "contract"
"""Of the functions here that are no rows of the op table themselves."""
_NAMES = ("rows", "matrices", "ids", "ranks", "bounds", "bias")


@staged
def lora_product(
    x: TensorValue,
    matrices: TensorValue,
    ids: TensorValue,
    ranks: TensorValue,
    bounds: TensorValue,
    bias: TensorValue | None = None,
    *,
    cut: str = "none",
    parts: int = 1,
    column: int = 0,
    row: int = 0,
    rows: int | None = None,
) -> TensorValue:
    """Each row of ``x`` times the transposed matrix of its adapter, ``[tokens, rows]``; 0 for rows
    of the base, for which no matrix is read.

    The rows from ``bounds[g]`` to ``bounds[g + 1]`` are those of the adapter ``ids[g]``. The id -1
    is the base, and so are rows of no group. An id or a rank that is out of range ends the run
    with ML652.

    Args:
        x: The rows, floats [tokens, width].
        matrices: A matrix for each adapter, [adapters, outputs, inputs], of the same dtype.
        ids: The adapter of each group, int32 [groups].
        ranks: How many rows or columns of its matrix count, uint32 [groups].
        bounds: Where the groups begin, and the end of the last one, uint32 [groups + 1].
        bias: What is added for each adapter, [adapters, outputs].
        cut: What ``ranks`` count: ``"rows"`` of the matrices, as of those that map down to the
            rank, ``"columns"``, as of those that map up from it, or ``"none"``.
        parts: The number of matrices that lie one below the other in each of ``matrices``, where
            rows are cut.
        column: The column of ``x`` in which the inputs begin.
        row: The first row of the matrices that is used.
        rows: The number of rows that are used; all from ``row`` on when left out.

    Raises:
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        ArgumentError: ML667, an unknown ``cut``, or numbers out of range.
        ArgumentTypeError: ML302, one of them is not an int.

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> f32, i32, u32 = DType.float32, DType.int32, DType.uint32
        >>> types = [TensorType(f32, ["t", 2]), TensorType(f32, [2, 1, 2]), TensorType(i32, ["g"]),
        ...          TensorType(u32, ["g"]), TensorType(u32, ["ends"])]
        >>> with Graph("adapt", input_types=types) as graph:
        ...     graph.output(ops.lora_product(*(value.tensor for value in graph.inputs)))
        >>> x, w = np.ones((4, 2), np.float32), np.float32([[[1, 2]], [[10, 20]]])
        >>> ids, ranks = np.int32([1, -1, 0]), np.uint32([1, 0, 1])
        >>> y, = InferenceSession().load(graph)(x, w, ids, ranks, np.uint32([0, 1, 3, 4]))
        >>> y.to_numpy()[:, 0].tolist()
        [30.0, 0.0, 0.0, 3.0]
    """
    what = "lora_product"
    operands = _operands(what, x, matrices, ids, ranks, bounds, bias)
    given: dict[str, Any] = {
        name: as_int(what, value, name)
        for name, value in (("parts", parts), ("column", column), ("row", row))
    }
    if rows is None:
        shape = operands[1].shape
        known = len(shape) == 3 and isinstance(shape[1], StaticDim)
        rows = max(int(shape[1]) - given["row"], 0) if known else 0  # the rule refuses the others
    given |= {"cut": _cut(what, cut), "rows": as_int(what, rows, "rows")}
    return add_op("lora.product", operands, **given)


@staged
def cache_add_lora(
    blocks: BufferValue,
    row_offsets: TensorValue,
    cache_lengths: TensorValue,
    lookup_table: TensorValue,
    layer: TensorValue,
    x: TensorValue,
    matrices: TensorValue,
    ids: TensorValue,
    ranks: TensorValue,
    bounds: TensorValue,
    bias: TensorValue | None = None,
    *,
    part: int,
    parts: int = 1,
    column: int = 0,
    row: int = 0,
) -> None:
    """Adds products with the matrices of adapters to the keys or the values of new tokens, which
    are in their pages already. Those of rows of the base, and the rest of the pages, stay.

    A position without a page, a page that is not there, a row of no sequence, and an id or a rank
    that is out of range end the run with ML652.

    Args:
        blocks: The pages, a float buffer [pages, 2, layers, tokens of a page, heads, dim].
        row_offsets: Where the rows of each sequence begin, and the end, uint32 [batch + 1].
        cache_lengths: The tokens of each sequence before these, uint32 [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        layer: The layer, uint32 of rank 0.
        x: The rows, already mapped down to the rank, [tokens, width], of the dtype of the pages.
        matrices: A matrix for each adapter, [adapters, outputs, largest rank].
        ids: The adapter of each group, int32 [groups]; -1 is the base.
        ranks: How many columns of its matrix count, uint32 [groups].
        bounds: Where the groups begin, and the end of the last one, uint32 [groups + 1].
        bias: What is added for each adapter, [adapters, outputs].
        part: 0 for keys, 1 for values.
        parts: 2 for keys and values, whose columns and matrices lie side by side.
        column: The column of ``x`` in which the inputs begin.
        row: The first row of the matrices that is used.

    Raises:
        ArgumentTypeError: ML776, ``blocks`` is not a buffer; ML302, a number is not an int.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        ArgumentError: ML667, ``part``, ``parts``, ``column`` or ``row`` out of range.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, Graph, TensorType, ops
        >>> f32, i32, u32 = DType.float32, DType.int32, DType.uint32
        >>> pages, table = BufferType(f32, ["pages", 2, 1, 16, 2, 8]), TensorType(u32, [3, "most"])
        >>> types = [pages, TensorType(u32, [4]), TensorType(u32, [3]), table, TensorType(u32, []),
        ...          TensorType(f32, ["t", 4]), TensorType(f32, [9, 16, 4]),
        ...          TensorType(i32, ["g"]), TensorType(u32, ["g"]), TensorType(u32, ["ends"])]
        >>> with Graph("adapt", input_types=types) as graph:
        ...     cache, *rest = graph.inputs
        ...     ops.cache_add_lora(cache.buffer, *(v.tensor for v in rest), part=0)
        ...     graph.output()
    """
    what = "cache_add_lora"
    names = ("row offsets", "cache lengths", "lookup table", "layer")
    numbers = zip(names, (row_offsets, cache_lengths, lookup_table, layer), strict=True)
    operands = [tensor(value, f"{what}: the {name}") for name, value in numbers]
    operands += _operands(what, x, matrices, ids, ranks, bounds, bias)
    blocks = buffer(blocks, f"{what}: the pages")
    given = {
        name: as_int(what, value, name)
        for name, value in (("part", part), ("parts", parts), ("column", column), ("row", row))
    }
    add_op("cache.add_lora", [blocks, *operands], **given)


def _operands(what: str, *given: Any) -> list[TensorValue]:
    """The values that are given, of which the last, the bias, may be None."""
    return [
        tensor(value, f"{what}: the {name}")
        for name, value in zip(_NAMES, given, strict=True)
        if name != "bias" or value is not None
    ]


def _cut(what: str, cut: Any) -> str:
    if not isinstance(cut, str):
        raise ArgumentError(
            "ML667", f"{what}: cut={shown(cut)} is no text", fix="pass cut='rows' or cut='columns'"
        )
    return str(cut)


__all__ = ["cache_add_lora", "lora_product"]
