"""Vectors of elements side by side that threads of a GPU read and write at once.

A load or store at ``base + j``, where ``j`` is the place on the inner axis, is a vector of places
that begin at a multiple of its width, if ``base`` is such a multiple too. Whether it is follows
from the polynomial, or from sizes that a kernel looks at when it begins; that memory is aligned is
always looked at, since a tensor may begin anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from maxlab.compiler.codegen.c import Printer, eager
from maxlab.compiler.codegen.scalar import compute_type
from maxlab.compiler.loops import Expr, Kernel, Store, walk
from maxlab.compiler.lower import INNER
from maxlab.compiler.row_shapes import MAX_VECTOR, VECTOR_BYTES
from maxlab.ir.poly import Poly

_J = Poly.symbol(INNER)
_FOUND = "$"
"""The name of a gathered index in a polynomial."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """The widest vectors of a kernel.

    Attributes:
        width: Elements of one; 1 where some access cannot be part of one.
        sizes: Dims that must be multiples of the width, which a kernel has to look at.
    """

    width: int
    sizes: tuple[str, ...] = ()


def base_of(index: Poly) -> Poly | None:
    """Where the row begins that ``index`` goes along, one element after the other; None if it does
    not."""
    base = index - _J
    return None if base.depends_on([INNER]) else base


def reads(roots: Iterable[Expr]) -> list[Expr]:
    """The loads below ``roots`` that vary along the inner axis, and gathers that find a row; none
    of what a guard allows only for some elements."""
    return [n for n in eager(list(roots)) if n.varies and (n.kind == "load" or finds_row(n))]


def finds_row(node: Expr) -> bool:
    """Whether ``node`` is a gather of elements side by side."""
    if node.kind != "gather" or any(a.varies for a in node.args):
        return False
    return base_of(node.data[1]) is not None


def stores(kernel: Kernel) -> list[Store]:
    """The stores of single elements."""
    return [store for current in kernel.passes for store in current.stores]


def vectors_of(kernel: Kernel, *, tail: bool = False) -> Vectors:
    """The widest vectors that all accesses of ``kernel`` along its inner axis can be parts of. With
    ``tail`` the kernel takes what is left behind the last one by itself.
    """
    nodes = list(walk(kernel.expressions()))
    if any(n.kind == "guard" and n.varies for n in nodes):
        return Vectors(1)  # what is inside may not be read everywhere
    places: list[Poly] = []
    found = reads(kernel.expressions())
    for node in found:
        base = base_of(node.data[1])
        if base is None:
            return Vectors(1)
        places.append(base)
    for store in stores(kernel):
        base = base_of(store.index)
        if base is None:
            return Vectors(1)
        places.append(base)
    numbers = {n.data[0] for n in found} | {s.buffer for s in stores(kernel)}
    sizes = [kernel.buffers[n].dtype.size_in_bytes for n in numbers]
    if not sizes:
        return Vectors(1)
    axes = {_FOUND, *(axis.name for axis in kernel.rows)}
    width = min(VECTOR_BYTES // max(sizes), MAX_VECTOR)
    while width > 1:
        tested: dict[str, None] = {}
        extents = () if tail else (kernel.inner.extent,)
        if all(_divides(width, poly, axes, tested) for poly in (*places, *extents)):
            return Vectors(width, tuple(tested))
        width //= 2
    return Vectors(1)


def _divides(width: int, poly: Poly, axes: set[str], tested: dict[str, None]) -> bool:
    """Whether ``poly`` is a multiple of ``width``, given that the dims ``tested`` are."""
    for monomial, scale in poly.terms:
        if scale % width == 0:
            continue
        dims = [atom for atom, _ in monomial if isinstance(atom, str) and atom not in axes]
        if not dims:
            return False
        tested[next((d for d in dims if d in tested), dims[0])] = None
    return True


def is_whole(printer: Printer, kernel: Kernel, vectors: Vectors) -> str:
    """The C of whether all vectors of ``kernel`` are where the device can take them at once."""
    numbers = {n.data[0] for n in reads(kernel.expressions())}
    numbers |= {store.buffer for store in stores(kernel)}
    wide = max(kernel.buffers[n].dtype.size_in_bytes for n in numbers) * vectors.width
    together = " | ".join(f"(u64)p{n}" for n in sorted(numbers))
    tests = [f"(({together}) & {wide - 1}) == 0"]
    tests += [f"{printer.poly(Poly.symbol(s))} % {vectors.width} == 0" for s in vectors.sizes]
    return " && ".join(tests)


def place_of(printer: Printer, node: Expr) -> str:
    """The C of the pointer to where the row of the load or gather ``node`` begins."""
    number, index = node.data
    base = base_of(index)
    assert base is not None
    if node.kind == "gather":
        printer.axes[_FOUND] = printer.names[node.args[0].number]
    text = printer.poly(base)
    printer.axes.pop(_FOUND, None)
    return f"p{number} + {text}"


def depends_on_row(node: Expr, kernel: Kernel) -> bool:
    """Whether the load or gather ``node`` reads other elements for other rows."""
    return node.kind == "gather" or node.data[1].depends_on([a.name for a in kernel.rows])


def register_bytes(kernel: Kernel, nodes: Sequence[Expr], kept: Sequence[Expr]) -> int:
    """The bytes of registers that an element of each of the vectors ``nodes`` takes, and of what is
    ``kept``: what is read and kept takes them once, as one or the other.
    """
    sizes = {n.number: max(kernel.buffers[n.data[0]].dtype.size_in_bytes, 2) for n in nodes}
    for node in kept:
        wide = compute_type(node.dtype) in ("f64", "i64", "u64")
        sizes[node.number] = max(8 if wide else 4, sizes.get(node.number, 0))
    return sum(sizes.values())


__all__ = [
    "Vectors",
    "base_of",
    "depends_on_row",
    "finds_row",
    "is_whole",
    "place_of",
    "reads",
    "register_bytes",
    "stores",
    "vectors_of",
]
