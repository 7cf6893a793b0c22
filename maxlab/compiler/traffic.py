"""Reads and writes of a kernel, of each buffer, counted from its loops.

A kernel that reads a slice of a buffer reads only that, and one that is part of a concat writes
only its part. An element that is read several times, by a broadcast or in several passes, counts
once: that is what has to come from memory when caches do their work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from maxlab.compiler.conventions import Operand
from maxlab.ir.poly import ONE, ZERO, Poly

if TYPE_CHECKING:
    from maxlab.compiler.loops import Expr, Kernel
    from maxlab.compiler.products import AttentionCall, Contraction


class Touch(NamedTuple):
    """Elements of one buffer: read at indices that are known, written, and read at indices that are
    data."""

    read: Poly = ZERO
    written: Poly = ZERO
    gathered: Poly = ZERO


Touched = dict[int, Touch]
"""The touched bytes, by the number of a pointer."""


# ---------------------------------------------------------------- what a step says of itself
@dataclass(frozen=True, slots=True)
class Counted:
    """A count of touched bytes, as it is."""

    elements: Touched = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loops:
    """The bytes that the loops of ``kernel`` touch."""

    kernel: Kernel


@dataclass(frozen=True, slots=True)
class ProductLoops:
    """The bytes that a product touches, with all that is fused to it.

    Attributes:
        epilogue: What is done with each tile.
        product: The product; its operands are pointers.
        result: The pointer that raw tiles are written to, or -1 where ``epilogue`` stores them.
        panels: Elements of the right operand where it is packed: all of them, the zeros of the last
            panel too. None where it is read as it lies.
    """

    epilogue: Kernel
    product: Contraction
    result: int
    panels: Poly | None = None


@dataclass(frozen=True, slots=True)
class AttentionLoops:
    """The bytes that fused attention touches, with its score function."""

    score: Kernel
    call: AttentionCall


Touching = Counted | Loops | ProductLoops | AttentionLoops


def touched_by(said: Touching) -> Touched:
    """The elements that a step reads and writes of its pointers, as it says.

    Example:
        >>> touched_by(Counted({0: Touch(read=ONE)}))[0].read == ONE
        True
    """
    match said:
        case Counted():
            return said.elements
        case Loops():
            return touched(said.kernel)
        case ProductLoops():
            found = product_touched(said.epilogue, said.product, said.result)
            if said.panels is not None:
                found[said.product.right.pointer] = Touch(said.panels)
            return found
        case AttentionLoops():
            return attention_touched(said.score, said.call)


def touched(kernel: Kernel) -> Touched:
    """The elements that ``kernel`` reads and writes of each of its buffers.

    Example:
        >>> from maxlab.compiler.loops import Axis, Exprs, Kernel, Pass, Store
        >>> from maxlab.dtype import DType
        >>> i, n, exprs = Poly.symbol("%j"), Poly.symbol("n"), Exprs("%j")
        >>> value = exprs.make("load", DType.float32, (0, i))
        >>> kernel = Kernel("map", [], Axis("%j", n), [Pass(stores=[Store(1, i, value)])], [])
        >>> found = touched(kernel)
        >>> str(found[0].read), str(found[1].written)
        ('n', 'n')
    """
    from maxlab.compiler.loops import walk

    extents = {axis.name: axis.extent for axis in kernel.rows}
    extents[kernel.inner.name] = kernel.inner.extent
    if kernel.reduction is not None:
        extents[kernel.reduction.name] = kernel.reduction.extent
    reads: dict[tuple[int, Poly, frozenset[str], bool], None] = {}
    for node in walk(list(kernel.expressions())):
        if node.kind in ("load", "gather"):
            names = set(node.data[1].symbols())
            is_gather = node.kind == "gather"
            if is_gather:  # a row for each index, not the whole table
                names |= _axes_below(node)
            reads[node.data[0], node.data[1], frozenset(names & extents.keys()), is_gather] = None
    found: Touched = {}
    for buffer, _, axes, is_gather in reads:
        count = _product(extents[name] for name in sorted(axes))
        add(found, buffer, gathered=count) if is_gather else add(found, buffer, read=count)
    places = dict.fromkeys((s.buffer, s.index) for s in kernel.stores() if s.buffer >= 0)
    for buffer, index in places:
        names = set(index.symbols()) & extents.keys()
        add(found, buffer, written=_product(extents[name] for name in sorted(names)))
    return found


def _axes_below(node: Expr) -> set[str]:
    from maxlab.compiler.loops import walk

    names: set[str] = set()
    for below in walk(list(node.args)):
        if below.kind in ("load", "gather"):
            names.update(below.data[1].symbols())
        elif below.kind == "index":
            names.update(below.data.symbols())
    return names


def add(
    found: Touched, buffer: int, *, read: Poly = ZERO, written: Poly = ZERO, gathered: Poly = ZERO
) -> None:
    """Count elements that are touched besides those in ``found``."""
    before = found.get(buffer, Touch())
    found[buffer] = Touch(before.read + read, before.written + written, before.gathered + gathered)


def add_operand(found: Touched, operand: Operand, sizes: Sequence[tuple[str, Poly, Poly]]) -> None:
    """Count what a product reads of a strided operand.

    Args:
        found: Where to count it.
        operand: The operand; its offset may depend on axes too.
        sizes: (axis, stride, extent) of each axis that the product runs over. An axis whose stride
            is 0, and which the offset does not name, is a broadcast.
    """
    used = set(operand.offset.symbols())
    read = _product(extent for name, stride, extent in sizes if stride != ZERO or name in used)
    add(found, operand.pointer, read=read)


def in_bytes(
    elements: Touched, pointers: Sequence[int], slots: Mapping[int, tuple[Poly, int]]
) -> dict[int, tuple[Poly, Poly]]:
    """Bytes read and written of each slot.

    Args:
        elements: Elements, by pointer.
        pointers: The slot of each pointer.
        slots: The bytes that a slot holds, and those of one element of it.
    """
    total: Touched = {}
    for pointer, touch in elements.items():
        slot = pointers[pointer]
        size = Poly.constant(slots[slot][1])
        add(
            total,
            slot,
            read=touch.read * size,
            written=touch.written * size,
            gathered=touch.gathered * size,
        )
    found: dict[int, tuple[Poly, Poly]] = {}
    for slot, (read, written, gathered) in total.items():
        held = slots[slot][0]
        # Two slices may overlap, and several rows may read at one index: no more than all is read.
        read = read if _is_most(held, read) else held
        # The same row may be asked for many times, but tables are large.
        gathered = held if _is_most(gathered, held) else gathered
        both = read + gathered
        found[slot] = (
            held if gathered != ZERO and _is_most(both, held) else both,
            held if _is_most(written, held) else written,
        )
    return found


def _is_most(large: Poly, small: Poly) -> bool:
    """Whether ``small`` is provably not more than ``large`` for sizes of 1 and above."""
    gap = large - small
    above = {name: Poly.symbol(name) + ONE for name in gap.symbols()}
    return all(scale >= 0 for _, scale in gap.substitute(above).terms)


def _product(extents: Iterable[Poly]) -> Poly:
    total = ONE
    for extent in extents:
        total = total * extent
    return total


def product_touched(epilogue: Kernel, product: Contraction, result: int) -> Touched:
    """The elements that a product reads and writes, with what is fused to it.

    Args:
        epilogue: What is done with each tile.
        product: The product; its operands are pointers.
        result: The pointer that raw tiles are written to, or -1 where ``epilogue`` stores them.
    """
    found = touched(epilogue)
    k, row, column = product.k, "%row", "%column"
    batch = [axis.extent for axis in product.batch]
    for operand, rows, columns in (
        (product.left, product.m, k),
        (product.right, k, product.n),
    ):
        strides = zip(product.batch, operand.batch, batch, strict=True)
        sizes = [(axis.name, stride, extent) for axis, stride, extent in strides]
        sizes += [(row, operand.row, rows), (column, operand.column, columns)]
        add_operand(found, operand, sizes)
    if result >= 0 and found.get(result, Touch()).written == ZERO:
        add(found, result, written=product.items * product.m * product.n)
    return found


def attention_touched(score: Kernel, call: AttentionCall) -> Touched:
    """The elements that fused attention reads and writes, with those of its score function."""
    found = touched(score)
    batch, heads, queries, keys, dim, dim_v = call.sizes
    outer = [batch, heads][: len(call.axes)]
    for operand, rows, columns in (
        (call.q, queries, dim),
        (call.k, dim, keys),
        (call.v, keys, dim_v),
    ):
        strides = operand.batch or (ZERO,) * len(outer)
        sizes = list(zip(call.axes, strides, outer, strict=True))
        sizes += [("%row", operand.row, rows), ("%column", operand.column, columns)]
        add_operand(found, operand, sizes)
    add(found, call.out.pointer, written=batch * heads * queries * dim_v)
    return found
