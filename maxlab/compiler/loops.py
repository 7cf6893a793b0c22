"""The loop IR: what a kernel computes, for no target in particular.

A kernel runs over *rows*, the points of its parallel axes, in any order. For each row it makes one
or more *passes* over the elements of one inner axis; a pass folds expressions into accumulators,
stores them, or keeps them in a row of scratch for later passes. Between passes stand row-level
stores. An expression is a DAG whose leaves are loads at polynomial indices, constants, the index
itself, accumulators and kept rows.

Both code generators print this and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from maxlab.dtype import DType
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.toolchain.flags import Accuracy

ExprKind = Literal[
    "const", "load", "wrap", "gather", "index", "op", "cast", "guard", "acc", "kept", "tile"
]


class Expr:
    """A node of an expression DAG; equal nodes are one object while one ``Exprs`` makes them.

    ``kind``   ``data``, ``args``
    const      a Python number
    load       (buffer, index polynomial)
    wrap       a size; args: an index, counted from the end when negative, checked to be within
    gather     (buffer, index polynomial over ``$`` too); args: the ``wrap`` that ``$`` stands for
    index      a polynomial, as an int64
    op         the scalar operator's name; args
    cast       the source dtype; args
    guard      conditions ((polynomial, size), …) all of 0 ≤ polynomial < size; args: value inside,
    value outside
    acc        the accumulator's number
    kept       the kept row's number
    tile       nothing: the element of a product tile that the epilogue is at
    """

    __slots__ = ("args", "data", "dtype", "kind", "node", "number", "varies")

    def __init__(
        self,
        kind: ExprKind,
        dtype: DType,
        data: Any,
        args: tuple[Expr, ...],
        number: int,
        varies: bool,
    ) -> None:
        self.kind = kind
        self.dtype = dtype
        self.data = data
        self.args = args
        self.number = number
        self.varies = varies  # whether it depends on the inner axis
        self.node = ""  # the id of the op it came from

    def __repr__(self) -> str:
        return f"{self.kind}:{self.data}({', '.join(map(repr, self.args))})"


class Exprs:
    """Makes expression nodes, each distinct one once."""

    def __init__(self, inner: str) -> None:
        self.inner = inner
        self._known: dict[Any, Expr] = {}

    def make(self, kind: ExprKind, dtype: DType, data: Any, args: tuple[Expr, ...] = ()) -> Expr:
        """The node with these parts."""
        token = repr(data) if isinstance(data, float) else data
        key = (kind, dtype, type(data), token, *(a.number for a in args))
        found = self._known.get(key)
        if found is None:
            found = Expr(kind, dtype, data, args, len(self._known), self._varies(kind, data, args))
            self._known[key] = found
        return found

    def _varies(self, kind: ExprKind, data: Any, args: tuple[Expr, ...]) -> bool:
        if any(a.varies for a in args) or kind in ("kept", "tile"):
            return True
        inner = self.inner
        if kind == "load" or kind == "gather":
            return inner in data[1].symbols()
        if kind == "index":
            return inner in data.symbols()
        if kind == "guard":
            return any(inner in p.symbols() for p, _ in data)
        return False


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop axis: its name in index polynomials, and its extent."""

    name: str
    extent: Poly


@dataclass(slots=True)
class Buffer:
    """A pointer argument: the value it holds (an id of the schedule) and its element type."""

    value: int
    dtype: DType
    written: bool = False


@dataclass(slots=True)
class Store:
    """``buffer[index] = value``."""

    buffer: int
    index: Poly
    value: Expr
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class Fold:
    """``acc[number] = operator(acc[number], value)`` over the inner axis (and ``reduction``, when
    there is one).
    """

    number: int
    operator: Literal["sum", "max", "min"]
    value: Expr
    dtype: DType
    node: str = ""


@dataclass(slots=True)
class Keep:
    """``kept[number][inner] = value``."""

    number: int
    value: Expr


@dataclass(slots=True)
class Pass:
    """One trip over the inner axis; ``after`` are row-level stores that follow it."""

    keeps: list[Keep] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    after: list[Store] = field(default_factory=list)


@dataclass(slots=True)
class Kernel:
    """One kernel of the map, row and column kinds, or the epilogue of a product.

    Attributes:
        kind: ``map`` and ``row`` run over rows × inner; ``col`` folds over ``reduction`` while the
            inner axis is
            processed in blocks.
        rows: The parallel axes, outermost first.
        inner: The axis that is vectorised.
        reduction: For ``col``, the axis that is folded.
        asserts: What it tests; see ``Options.assert_level``.
        begins: Whether it logs that it begins.
        accuracy: How exact its functions are; see ``Options.accuracy``.
    """

    kind: Literal["map", "row", "col"]
    rows: list[Axis]
    inner: Axis
    passes: list[Pass]
    buffers: list[Buffer]
    reduction: Axis | None = None
    asserts: str = "safe"
    begins: bool = False
    accuracy: Accuracy = "default"

    @property
    def tests_results(self) -> bool:
        """Whether no result may be NaN."""
        return self.asserts in ("warn", "all")

    def expressions(self) -> Iterator[Expr]:
        """All root expressions."""
        for p in self.passes:
            for keep in p.keeps:
                yield keep.value
            for fold in p.folds:
                yield fold.value
            for store in (*p.stores, *p.after):
                yield store.value

    def stores(self) -> Iterator[Store]:
        """All stores."""
        for p in self.passes:
            yield from p.stores
            yield from p.after


def walk(roots: Iterator[Expr] | list[Expr]) -> Iterator[Expr]:
    """Every node below ``roots``, operands before users, each once."""
    seen: set[int] = set()
    for root in roots:
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node.number in seen and not ready:
                continue
            if ready:
                yield node
                continue
            seen.add(node.number)
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args) if a.number not in seen)


def indices(kernel: Kernel) -> Iterator[Poly]:
    """Every polynomial in which an axis may occur."""
    for node in walk(kernel.expressions()):
        if node.kind in ("load", "gather"):
            yield node.data[1]
        elif node.kind == "index":
            yield node.data
        elif node.kind == "guard":
            yield from (p for p, _ in node.data)
    for store in kernel.stores():
        yield store.index


def simplify_bounds(poly: Poly, extents: dict[str, Poly]) -> Poly:
    """``poly`` with the floor divisions carried out that the ranges of the axes decide.

    ``p // c`` is ``n`` when ``n * c ≤ p < (n + 1) * c`` for all axes within their extents, which is
    decided by polynomial identity; ``n`` is 0, or -1 when something is read backwards.
    """
    for monomial, _ in poly.terms:
        for atom, _power in monomial:
            if not isinstance(atom, str):
                return _simplified(poly, tuple(extents.items()))
    return poly


@functools.lru_cache(maxsize=1 << 14)  # identical layers ask the same again
def _simplified(poly: Poly, ranges: tuple[tuple[str, Poly], ...]) -> Poly:
    extents = dict(ranges)
    total = ZERO
    for monomial, scale in poly.terms:
        product = Poly.constant(scale)
        for atom, power in monomial:
            if isinstance(atom, str):
                factor = Poly.symbol(atom)
            else:
                top = simplify_bounds(atom.numerator, extents)
                bottom = simplify_bounds(atom.denominator, extents)
                if _within(top, bottom, extents):
                    factor = ZERO
                elif _within(top + bottom, bottom, extents):
                    factor = Poly.constant(-1)
                else:
                    factor = top.floordiv(bottom)
            for _ in range(power):
                product = product * factor
        total = total + product
    return total


def _within(top: Poly, bottom: Poly, extents: dict[str, Poly]) -> bool:
    """Whether ``0 ≤ top < bottom`` provably: every axis is in its extent, no other symbol is
    negative.
    """
    bounds = _bounds(top, extents)
    if bounds is None:
        return False
    low, high = bounds
    return low.coefficients_are_positive and (bottom - ONE - high).coefficients_are_positive


def _bounds(poly: Poly, extents: dict[str, Poly]) -> tuple[Poly, Poly] | None:
    """The least and the greatest value, as polynomials without axes; None where a division may be
    of what is negative, or by what an axis decides.
    """
    low, high = ZERO, ZERO
    for monomial, scale in poly.terms:
        first = last = Poly.constant(scale)
        for atom, power in monomial:
            if isinstance(atom, str):
                size = extents.get(atom)
                least = Poly.symbol(atom) if size is None else ZERO
                most = least if size is None else size - ONE
            else:
                top, bottom = _bounds(atom.numerator, extents), atom.denominator
                if top is None or not top[0].coefficients_are_positive:
                    return None
                if bottom.depends_on(extents) or not bottom.coefficients_are_positive:
                    return None
                least, most = ZERO, top[1].floordiv(bottom)
            for _ in range(power):
                first, last = first * least, last * most
        low, high = (low + first, high + last) if scale > 0 else (low + last, high + first)
    return low, high
