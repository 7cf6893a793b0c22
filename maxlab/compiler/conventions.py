"""Conventions that the text of kernels shares with those that launch them."""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.dtype import DType
from maxlab.ir.poly import Poly

AROUND = "around the caches"
"""The name of the variant of a map kernel whose stores go there."""
BLOCK = 256
"""Columns that a column kernel folds at a time: their accumulators stay in L1."""
LONG_ROW_COST = 1 << 28
"""Scalar operations of a row that is gone through in strips. They take a tenth of a second: few
models have rows as long, and the loop over strips would cost short ones a third of their time."""
THREADS = 256
"""Threads of a block, at most."""
HALVES = {DType.bfloat16: 0, DType.float16: 1}
"""The halves that the library multiplies, by what it calls them."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A strided operand: its pointer argument, its offset, and the strides of batch dims, rows and
    columns.
    """

    pointer: int
    offset: Poly
    batch: tuple[Poly, ...]
    row: Poly
    column: Poly


def row_bytes(columns: int, size: int) -> int:
    """The bytes of one kept row of elements of ``size`` bytes; ``codegen.cuda`` prints the same."""
    return (columns * size + 127) // 128 * 128


def split_bytes(rows: int, parts: int, folds: int) -> int:
    """The memory that a split kernel needs, all zero before its first launch: a counter for each
    row, then 8 bytes for each fold of each part. The counters are zero again after a launch.
    """
    return rows * (8 + parts * folds * 8)


__all__ = ["BLOCK", "HALVES", "LONG_ROW_COST", "THREADS", "Operand", "row_bytes", "split_bytes"]
