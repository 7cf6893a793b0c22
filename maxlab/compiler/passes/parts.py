"""Long reductions in parts, which run side by side.

A kernel gives each row of a reduction to one thread, or to one block of a GPU: right for many rows,
and a waste of all other threads for the sum of a whole tensor. So a long axis is reduced in parts,
and their results in one more step. How many parts there are depends on sizes alone: a model
gives the same bits with any number of threads.
"""

from __future__ import annotations

from math import prod

from maxlab.compiler.passes.decompose import Expansion
from maxlab.dtype import DType
from maxlab.ir import Op, Rewriting, Value
from maxlab.opset import OPSET
from maxlab.opset.builder import one

LEAST = 1 << 18
"""The shortest axis that is reduced in parts: a thread takes some 15 µs for it."""
EACH = 1 << 16
"""Elements that a part has at least."""
MOST = 64
"""Parts of all rows together, at most."""
MOST_ROWS = MOST // 4
"""Rows from which on there is enough to share out."""


def parts_of(length: int, rows: int) -> int:
    """In how many equal parts each of ``rows`` axes of ``length`` elements is reduced.

    Example:
        >>> [parts_of(n, 1) for n in (1 << 17, 1 << 18, 1_000_000, 1 << 22, 1 << 30)]
        [1, 4, 10, 64, 64]
        >>> parts_of(1 << 22, 8), parts_of(1 << 22, 100), parts_of(1_000_003, 1)
        (8, 1, 1)
    """
    if length < LEAST or not 0 < rows <= MOST_ROWS:
        return 1
    most = min(length // EACH, MOST // rows)
    return next((n for n in range(most, 1, -1) if length % n == 0), 1)


def part_reductions(rewriting: Rewriting) -> None:
    """Write the reductions of few long rows in parts."""
    for op in rewriting.function.ops:
        if OPSET[op.name].kind == "reduce" and (parts := _parts_for(op)) > 1:
            rewriting.rule("parts", op)
            rewriting.replace(op, [_in_parts(Expansion(rewriting, op), op, parts)])


def _sizes_of(op: Op) -> list[int] | None:
    """The sizes of what ``op`` reduces; None where one is not known."""
    shape = op.operands[0].tensor_type.shape
    sizes = shape.static_dims
    return sizes if len(sizes) == len(shape) else None


def _axis_of(op: Op) -> int:
    return int(op.attrs["axis"]) % op.operands[0].tensor_type.rank


def _parts_for(op: Op) -> int:
    sizes = _sizes_of(op)
    if sizes is None:
        return 1
    length = sizes.pop(_axis_of(op))
    return parts_of(length, prod(sizes))


def _in_parts(b: Expansion, op: Op, parts: int) -> Value:
    x, axis, sizes = op.operands[0], _axis_of(op), _sizes_of(op)
    assert sizes is not None
    dtype = x.tensor_type.dtype
    is_narrow = dtype in (
        DType.float16,
        DType.bfloat16,
    )  # a sum is rounded to them once, at the end
    if is_narrow:
        x = one(b, "cast", [x], dtype=DType.float32)
    cut = (*sizes[:axis], parts, sizes[axis] // parts, *sizes[axis + 1 :])
    partial = one(
        b, op.name.removeprefix("mo."), [one(b, "reshape", [x], shape=cut)], axis=axis + 1
    )
    joined = (*sizes[:axis], parts, *sizes[axis + 1 :])
    partial = one(b, "reshape", [partial], shape=joined)
    total = one(b, op.name.removeprefix("mo."), [partial], axis=axis)
    return one(b, "cast", [total], dtype=dtype) if is_narrow else total


__all__ = ["part_reductions", "parts_of"]
