"""How a kernel of one loop is assembled from parts that other kernels have too: `recipe_of`.

The expression of a kernel is cut into groups of nodes, and each group becomes a kernel of its own
that reads what others give as it would read elements of a tensor; numbers that sums and products
are made with are read so too. Thousands of kernels have some dozen different parts.

Results have to be those of the whole kernel, bit by bit. Two things could differ. A compiler fuses
a product and a sum that uses it, unless kernels are exact; so nodes stay together where the one may
end in a product and the other may begin with a sum. And a number that a compiler knows may let it
choose another instruction; so only numbers of sums, products and quotients by something are taken
out of the text, for which it has none that rounds otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.compiler.codegen.c import print_rows
from maxlab.compiler.codegen.scalar import HALVES, compute_type, is_float
from maxlab.compiler.loops import Axis, Buffer, Expr, Exprs, Kernel, Pass, Store, walk
from maxlab.compiler.lower import INNER
from maxlab.dtype import DType
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.toolchain.assembled import PLACES, POINTERS, Part, Pointer, Recipe
from maxlab.toolchain.sources import KernelSource

MOST_NODES = 64
"""The most nodes of a kernel that is cut: a long one is seldom made of what others have."""
MOST_KNOWN = 1 << 12
"""Parts that are remembered."""
_EACH = Poly.symbol(INNER)
_COMPARISONS = (
    "equal", "not_equal", "greater", "greater_equal", "is_inf", "is_nan", "logical_and",
    "logical_not", "logical_or", "logical_xor", "where",
)  # fmt: skip
_ROUNDED = ("abs", "floor", "round", "trunc", "max", "min", "relu", "sqrt")
_IN_DOUBLE = ("erf", "exp", "sigmoid", "tanh")
"""Functions of floats that compute in double, or end in a scaling, and first compare what they are
given: no product or sum of floats stands at either end."""
_NO_SUM_FIRST = frozenset((*_COMPARISONS, *_ROUNDED, "mul", "div", "recip"))
_NO_PRODUCT_LAST = frozenset((*_COMPARISONS, *_ROUNDED, "add", "sub", "div", "recip"))
_TAKEN_OUT = {"add": (0, 1), "sub": (0, 1), "mul": (0, 1), "div": (0,)}
"""Of which operators which operands may be numbers that are read."""


def recipe_of(kernel: Kernel) -> Recipe | None:
    """The parts of ``kernel``; None where it is not one loop that stores what it computes of the
    same element, or not made of parts."""
    store = _only_store(kernel)
    if store is None:
        return None
    nodes = [node for node in walk([store.value]) if node.kind != "const"]
    if len(nodes) > MOST_NODES or not all(_is_of_element(node) for node in nodes):
        return None
    if any(node.kind == "load" and node.data == (store.buffer, ZERO) for node in nodes):
        return None  # in place: the first elements would change it for the others
    inner = [node for node in nodes if node.kind != "load"]
    if not inner:
        return None
    group = _grouped(inner, kernel.accuracy == "exact")
    order = _ordered(inner, group, store.value)
    return None if order is None else _Cutter(kernel, store, inner, group).parts(order)


def _only_store(kernel: Kernel) -> Store | None:
    """The store that is all that ``kernel`` does with its one value of an element."""
    if kernel.kind != "map" or kernel.rows or len(kernel.passes) != 1:
        return None
    if kernel.tests_results or kernel.begins or kernel.accuracy == "fast":
        return None
    (only,) = kernel.passes
    if only.keeps or only.folds or only.after or len(only.stores) != 1:
        return None
    return only.stores[0] if only.stores[0].index == _EACH else None


def _is_of_element(node: Expr) -> bool:
    """Whether ``node`` depends on elements of the same number, and on numbers, alone."""
    if node.kind == "load":
        return bool(node.data[1] in (_EACH, ZERO))
    return node.kind in ("op", "cast")


def _grouped(inner: list[Expr], exact: bool) -> dict[int, int]:
    """The group of each of ``inner`` by its number: groups are called by one of their nodes."""
    group = {node.number: node.number for node in inner}

    def first(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    if not exact:
        for node in inner:
            for operand in node.args:
                if operand.number in group and _may_fuse(operand, node):
                    group[first(operand.number)] = first(node.number)
    return {number: first(number) for number in group}


def _may_fuse(one: Expr, user: Expr) -> bool:
    """Whether ``one`` may end in a product, and ``user`` begin with a sum."""
    if not is_float(one.dtype):
        return False
    return _may_end_in_product(one) and _may_begin_with_sum(user, one)


def _is_in_double(node: Expr) -> bool:
    return node.data in _IN_DOUBLE and compute_type(node.dtype) == "f32"


def _may_end_in_product(node: Expr) -> bool:
    if node.dtype in HALVES:
        return False  # it is rounded
    if node.kind == "cast":
        return compute_type(node.data) == compute_type(node.dtype)
    if node.data == "div" and node.args[1].kind == "const":
        return True  # by a power of two: a product with another one
    return node.data not in _NO_PRODUCT_LAST and not _is_in_double(node)


def _may_begin_with_sum(node: Expr, operand: Expr) -> bool:
    if node.kind == "cast":
        return compute_type(operand.dtype) == compute_type(node.dtype)
    return node.data not in _NO_SUM_FIRST and not _is_in_double(node)


def _is_taken_out(node: Expr, place: int) -> bool:
    """Whether the number that is the operand ``place`` of ``node`` is read."""
    is_whole = node.args[place].dtype not in HALVES
    return is_whole and node.kind == "op" and place in _TAKEN_OUT.get(node.data, ())


def _ordered(inner: list[Expr], group: dict[int, int], last: Expr) -> list[int] | None:
    """The groups, each behind those that it needs and that of ``last`` at the end; None where two
    need each other."""
    needs: dict[int, set[int]] = {}
    for node in inner:
        mine = needs.setdefault(group[node.number], set())
        mine |= {group[x.number] for x in node.args if x.number in group}
    for name, mine in needs.items():
        mine.discard(name)
    order: list[int] = []
    while needs:
        ready = [name for name, mine in needs.items() if not mine.difference(order)]
        if not ready:
            return None
        for name in ready:
            del needs[name]
        order += ready
    order.remove(group[last.number])
    return [*order, group[last.number]]


_known: dict[Any, KernelSource] = {}
"""The parts that were printed, by what they compute."""


class _Cutter:
    """Makes the parts of one kernel."""

    def __init__(
        self, kernel: Kernel, store: Store, inner: list[Expr], group: dict[int, int]
    ) -> None:
        self.kernel = kernel
        self.store = store
        self.members: dict[int, list[Expr]] = {}
        for node in inner:
            self.members.setdefault(group[node.number], []).append(node)
        self.group = group
        self.given = {  # what other groups use
            x.number
            for node in inner
            for x in node.args
            if x.number in group and group[x.number] != group[node.number]
        }
        self.places: dict[int, int] = {}

    def parts(self, order: list[int]) -> Recipe | None:
        """The parts, in this order."""
        made: list[Part] = []
        for name in order:
            part = self._part(self.members[name])
            if part is None:
                return None
            made.append(part)
        return tuple(made)

    def _part(self, members: list[Expr]) -> Part | None:
        """The part for the nodes ``members``, operands first; None where it has too many
        pointers."""
        pointers: list[Pointer] = []
        buffers: list[Any] = []  # the type of each pointer's elements, and whether it is written
        numbers: dict[Any, int] = {}  # of the nodes and of what is read
        key: list[Any] = []

        def pointer(one: Pointer, dtype: DType, at: str) -> int:
            known = (one, dtype, at)
            if known not in numbers:
                numbers[known] = len(pointers)
                pointers.append(one)
                buffers.append((dtype, False))
            return numbers[known]

        mine = {node.number for node in members}
        for node in members:
            row: list[Any] = [node.kind, node.dtype, node.data]
            for place, x in enumerate(node.args):
                if x.number in mine:
                    row.append(("node", numbers[x.number]))
                elif x.kind == "const" and not _is_taken_out(node, place):
                    row.append(("number", x.dtype, type(x.data), repr(x.data)))
                else:
                    one, at = self._read(x)
                    row.append((at, pointer(one, x.dtype, at), x.dtype))
            numbers[node.number] = len(key)
            key.append(tuple(row))
        stored: list[tuple[int, int]] = []
        for node in members:
            size = node.dtype.size_in_bytes
            if node.number in self.given:
                if len(self.places) == PLACES:
                    return None
                self.places[node.number] = len(self.places)
                number = pointer(
                    Pointer("place", self.places[node.number], size), node.dtype, "each"
                )
                buffers[number] = node.dtype, True
                stored.append((numbers[node.number], number))
            if node is self.store.value:
                one = Pointer("pointer", self.store.buffer, size)
                dtype = self.kernel.buffers[self.store.buffer].dtype
                number = pointer(one, dtype, "each")  # in place it is read too
                buffers[number] = dtype, True
                stored.append((numbers[node.number], number))
        if len(pointers) > POINTERS:
            return None
        whole = (self.kernel.accuracy, self.kernel.asserts, *key, *buffers, *stored)
        found = _known.get(whole)
        if found is None:
            if len(_known) >= MOST_KNOWN:
                _known.clear()
            found = _known[whole] = _printed(self.kernel, members, key, buffers, stored)
        return Part(found, tuple(pointers))

    def _read(self, node: Expr) -> tuple[Pointer, str]:
        """The pointer to read instead of ``node``, and whether to one element or one of each."""
        if node.kind == "const":
            data = np.array(node.data, node.dtype.to_numpy()).tobytes()
            return Pointer("constant", 0, len(data), data), "one"
        size = node.dtype.size_in_bytes
        if node.kind == "load":
            number, index = node.data
            return Pointer("pointer", number, size), "each" if index == _EACH else "one"
        return Pointer("place", self.places[node.number], size), "each"


def _printed(
    kernel: Kernel,
    members: list[Expr],
    key: list[Any],
    buffers: list[Any],
    stored: list[tuple[int, int]],
) -> KernelSource:
    """The kernel of a part, from what `_Cutter._part` says of it."""
    made = Exprs(INNER)
    nodes: list[Expr] = []
    for node, (kind, dtype, data, *operands) in zip(members, key, strict=True):
        args = []
        for x, (what, *rest) in zip(node.args, operands, strict=True):
            if what == "node":
                args.append(nodes[rest[0]])
            elif what == "number":
                args.append(made.make("const", x.dtype, x.data))
            else:
                number, read = rest
                args.append(made.make("load", read, (number, _EACH if what == "each" else ZERO)))
        nodes.append(made.make(kind, dtype, data, tuple(args)))
    stores = [Store(pointer, _EACH, nodes[number]) for number, pointer in stored]
    rows = [Buffer(n, dtype, written) for n, (dtype, written) in enumerate(buffers)]
    part = Kernel(
        "map", [], Axis(INNER, ONE), [Pass(stores=stores)], rows,
        asserts=kernel.asserts, accuracy=kernel.accuracy,
    )  # fmt: skip
    printed = print_rows(part)
    return KernelSource(printed.symbol, printed.text)


__all__ = ["recipe_of"]
