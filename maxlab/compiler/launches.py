"""How steps are launched, as formulas: plain values that are symbolic in the dims.

The planner writes them into the plan, and ``engine.launching`` evaluates them when the sizes, the
threads and the device are known. A formula holds polynomials, numbers and dtypes, never a function,
so that a plan can be printed, compared and kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.compiler.conventions import Operand
from maxlab.compiler.gpu_templates import AttentionTemplate, ProductTemplate
from maxlab.compiler.row_shapes import RowShape
from maxlab.dtype import DType
from maxlab.ir.poly import ZERO, Poly


# ---------------------------------------------------------------- on the CPU
@dataclass(frozen=True, slots=True)
class Once:
    """One item on one thread: a copy between devices, a call of Python, a step that says where to
    go on."""


@dataclass(frozen=True, slots=True)
class Items:
    """Items that threads share in chunks.

    Attributes:
        extent: How many there are.
        cost: Scalar operations of one, or of ``unit`` of them.
        scratch: Bytes that each thread needs.
        unit: Items that are never parted; chunks are whole units.
        extra: Numbers that the kernel is told behind its sizes.
        serial: Whether one thread takes them all.
        total: Scalar operations of all of them, where these are known better than by ``cost``: few
            of them are left to one thread. None where they are not.
        products: Whether the text calls the library of products.
    """

    extent: Poly
    cost: Poly
    scratch: Poly = ZERO
    unit: int = 1
    extra: tuple[int, ...] = ()
    serial: bool = False
    total: Poly | None = None
    products: bool = False


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of `BLOCK` columns, each of which is folded over its rows.

    Attributes:
        rows: How often the columns are there.
        columns: Columns of one of them.
        depth: Rows that are folded.
        weight: Scalar operations of one element.
    """

    rows: Poly
    columns: Poly
    depth: Poly
    weight: int


@dataclass(frozen=True, slots=True)
class Gemm:
    """Tiles of an ``m`` × ``n`` product over ``k``; the library of products says how large."""

    m: Poly
    n: Poly
    k: Poly
    dtype: DType


@dataclass(frozen=True, slots=True)
class BatchedGemm:
    """``items`` products of ``m`` × ``k`` and ``k`` × ``n``, each by one thread.

    Attributes:
        rowwise: Whether the numbers of a row of the right operands lie side by side.
    """

    items: Poly
    m: Poly
    n: Poly
    k: Poly
    dtype: DType
    rowwise: bool = False


@dataclass(frozen=True, slots=True)
class Attention:
    """Blocks of queries; the library of products says how large.

    Attributes:
        sizes: Batch, heads, queries, keys, and the sizes of a head of keys and of values.
    """

    sizes: tuple[Poly, ...]


HostFormula = Once | Items | Blocks | Gemm | BatchedGemm | Attention


# ---------------------------------------------------------------- on a GPU
@dataclass(frozen=True, slots=True)
class Strided:
    """Threads that walk over elements in strides of the whole grid.

    Attributes:
        extent: How many elements there are.
        width: Elements that a thread takes at a time.
    """

    extent: Poly
    width: int = 1


@dataclass(frozen=True, slots=True)
class MappedRows:
    """Blocks of several rows when these are short, and several blocks a row when they are long.

    Attributes:
        rows: How many there are.
        width: Elements of a row.
        vector: Elements of a row that a thread takes at a time.
    """

    rows: Poly
    width: Poly
    vector: int = 1


@dataclass(frozen=True, slots=True)
class FoldedRows:
    """Rows in registers, a warp a row or a block a row, by their width, or several blocks a row.

    The kernels are numbered: first one for each of ``shapes``; then, from there on, 0 a block a
    row, 1 a warp a row, 2 a block a row that keeps less, which is for rows that do not fit into
    shared memory, 3 several blocks a row.

    Attributes:
        rows: How many there are.
        width: Elements of a row.
        kept: Rows of numbers that a block keeps in shared memory for each of its rows.
        size: Bytes of one such number.
        lean: ``kept`` and ``size`` of the kernel that keeps less.
        folds: Folds of the kernel that shares rows among blocks; 0 where there is none.
        shapes: How rows can be kept in registers.
    """

    rows: Poly
    width: Poly
    kept: int
    size: int
    lean: tuple[int, int]
    folds: int
    shapes: tuple[RowShape, ...] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """Items of a kernel of the op table, one for each thread or for each block.

    Attributes:
        extent: How many there are.
        threads: Of a block.
        block: Whether a block takes an item together.
        shared: Bytes of dynamic shared memory.
    """

    extent: Poly
    threads: int
    block: bool
    shared: Poly


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of products, by the template that is best for the sizes.

    Attributes:
        sizes: Products, rows and columns of each, and how much is summed over.
        templates: Those to choose from.
    """

    sizes: tuple[Poly, Poly, Poly, Poly]
    templates: tuple[ProductTemplate, ...]


@dataclass(frozen=True, slots=True)
class Heads:
    """Blocks of queries of attention, by the template that is best for the sizes.

    Attributes:
        heads: In all batches.
        queries: Of each.
        keys: Of each.
        templates: Those to choose from.
    """

    heads: Poly
    queries: Poly
    keys: Poly
    templates: tuple[AttentionTemplate, ...]


GpuFormula = Strided | MappedRows | FoldedRows | Parts | Tiles | Heads


@dataclass(frozen=True, slots=True)
class LibraryProduct:
    """A product that the vendor's library can make where it is large and its operands lie as the
    library takes them.

    Attributes:
        sizes: Rows, columns, and what is summed over.
        left, right: The operands; their pointers are those of the step.
        dtype: Of all of them.
        target: The step's pointer that is written.
        items: How many products there are; None for one that has no batch.
    """

    sizes: tuple[Poly, Poly, Poly]
    left: Operand
    right: Operand
    dtype: DType
    target: int
    items: Poly | None = None


__all__ = [
    "Attention",
    "BatchedGemm",
    "Blocks",
    "FoldedRows",
    "Gemm",
    "GpuFormula",
    "Heads",
    "HostFormula",
    "Items",
    "LibraryProduct",
    "MappedRows",
    "Once",
    "Parts",
    "Strided",
    "Tiles",
]
