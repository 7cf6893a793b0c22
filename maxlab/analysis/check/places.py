"""Which value of the graph each scalar of a kernel is, and at which index: `Places`.

Lowering turns a value that is read at an index into a scalar expression, and the printers name
expressions by their numbers: ``v12`` is expression 12. A group is lowered here once more, exactly
as it was compiled, and every value that is read on the way is written down with its index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxlab.analysis.check.steps import Written
from maxlab.compiler.axes import AXES, Index, shape_of
from maxlab.compiler.groups import Group
from maxlab.compiler.loops import Expr, Kernel, walk
from maxlab.compiler.lower import INNER, REDUCED, Lowered, Lowering
from maxlab.compiler.plan import Step
from maxlab.compiler.products import contraction_of
from maxlab.compiler.schedule import Schedule
from maxlab.ir import Op, Value
from maxlab.ir.poly import ONE, Poly

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Scalar:
    """One named scalar of a kernel.

    Attributes:
        number: Of its expression: ``v<number>`` in the text.
        value: The value of the compiled function that it is an element of.
        index: Where in the value, as polynomials of the kernel's axes.
        loaded: Whether it is read from memory.
    """

    number: int
    value: Value
    index: Index
    loaded: bool


@dataclass(slots=True)
class Places:
    """The scalars of a kernel in the order in which they depend on each other.

    Attributes:
        scalars: By the number of their expression.
        axes: Names and extents of the axes, outermost first, the inner one left out.
        inner: The extent of the inner axis.
        outer: How many of ``axes`` the kernel has as rows; the others are one with its inner axis.
        width: The extent of the inner axis of the kernel, with these.
        reduced: The extent of the axis that a column kernel folds; None for other kernels.
        batch: How many of ``axes`` are those of a batch, which a product counts as ``item``.
        kind: ``"rows"``, ``"columns"``, ``"product"`` or ``"scores"``.
        folds: The op that folds into each accumulator, by its number.
        stores: The op whose result each pointer is written with, by its number.
    """

    kind: str
    axes: list[tuple[str, Poly]]
    inner: Poly
    reduced: Poly | None = None
    batch: int = 0
    outer: int = 0
    width: Poly = ONE
    scalars: dict[int, Scalar] = field(default_factory=dict)
    folds: dict[int, Op] = field(default_factory=dict)
    stores: dict[int, Op] = field(default_factory=dict)


class _Recorder(Lowering):
    """A lowering that writes down what is read where."""

    def __init__(self, schedule: Schedule, group: Group, *, keep_loads: bool = False) -> None:
        super().__init__(schedule, group, keep_loads=keep_loads)
        self.seen: dict[int, tuple[Value, Index]] = {}
        self.by_number: dict[int, Expr] = {}
        self.before: dict[Any, int] = {}

    def _read_base(self, value: Value, index: Index) -> Expr:
        node = super()._read_base(value, index)
        self._note(node, value, index)
        return node

    def _expand(self, op: Op, index: Index) -> Expr:
        node = super()._expand(op, index)
        self._note(node, op.result, index)
        return node

    def _note(self, node: Expr, value: Value, index: Index) -> None:
        if node.kind != "const" and node.number not in self.seen:
            self.seen[node.number] = (value, index)
            self.by_number[node.number] = node

    def _keep_shared(self, kernel: Kernel) -> int:
        # Expressions that are made anew here say the same as those before them.
        for number, node in self.by_number.items():
            self.before.setdefault(_identity(node, {}), number)
        kept = super()._keep_shared(kernel)
        keeps = {k.number: k.value for current in kernel.passes for k in current.keeps}
        for node in walk(kernel.expressions()):
            if node.number in self.seen or node.kind == "const":
                continue
            first = self.before.get(_identity(node, keeps))
            if first is not None:
                self.seen[node.number] = self.seen[first]
        return kept


def _identity(node: Expr, keeps: dict[int, Expr]) -> Any:
    """The identity of ``node``: equal for an expression and for one that reads kept rows in its
    place.
    """
    if node.kind == "kept":
        found = keeps.get(node.data)
        return _identity(found, keeps) if found is not None else ("kept", node.data)
    if not node.args or node.kind == "guard":
        return node.number
    data = node.data[0] if node.kind == "gather" else node.data
    return (node.kind, node.dtype, str(data), *(_identity(a, keeps) for a in node.args))


def places_of(
    schedule: Schedule, group: Group, step: Step, variant: int = 0, written: Written | None = None
) -> Places | None:
    """The scalars of the kernel that ``group`` became; None for kernels that have none: copies of
    the library, transfers, kernels that an op brings, and what branches, loops and calls run.

    Args:
        schedule: The schedule that the group is of.
        group: The group.
        step: Its step.
        variant: Which of its kernels a GPU took.
        written: What it writes, when that is a part of a concat.
    """
    if group.kind in ("transfer", "kernel", "program") or step.kind == "pack":
        return None
    if written is not None and written.source is not None:
        return _part(schedule, group, written)
    gpu = step.gpu is not None
    if group.kind == "contract" and step.is_product:
        return _product(schedule, group, gpu)
    if group.kind == "attention":
        return _scores(schedule, group)
    if group.kind in ("contract", "col"):
        return _columns(schedule, group)
    recorder = _Recorder(schedule, group, keep_loads=gpu and variant != 2)
    lowered = recorder.rows()
    shape = group.domain
    last = len(shape) - 1
    if group.kind != "row":
        while last > 0 and shape[last] == ONE:
            last -= 1
    axes = [(AXES[n], shape[n]) for n in range(max(last, 0)) if shape[n] != ONE]
    inner = shape[last] if shape else ONE
    return _filled(Places("rows", axes, inner), recorder, lowered)


def _part(schedule: Schedule, group: Group, written: Written) -> Places:
    operand = written.made
    recorder = _Recorder(schedule, group)
    lowered = recorder.part(operand, written.axis, written.first)
    shape = shape_of(operand)
    last = len(shape) - 1
    while last > 0 and shape[last] == ONE:
        last -= 1
    axes = [(AXES[n], shape[n]) for n in range(last) if shape[n] != ONE]
    return _filled(Places("rows", axes, shape[last]), recorder, lowered)


def _columns(schedule: Schedule, group: Group) -> Places:
    op = group.main
    assert op is not None
    recorder = _Recorder(schedule, group)
    product = op if group.kind == "contract" else None
    lowered = recorder.columns(product)
    shape = shape_of(op.result)
    axis = -1
    if product is None:
        source = shape_of(op.operands[0])
        axis = op.attrs["axis"] % len(source)
        reduced = source[axis]
    else:
        reduced = shape_of(op.operands[0])[-1]
    last = len(shape) - 1
    while last > 0 and (shape[last] == ONE or last == axis):
        last -= 1
    axes = [
        (AXES[n], size) for n, size in enumerate(shape) if n not in (last, axis) and size != ONE
    ]
    return _filled(Places("columns", axes, shape[last], reduced), recorder, lowered)


def _product(schedule: Schedule, group: Group, gpu: bool) -> Places:
    op = group.main
    assert op is not None
    shape = shape_of(op.result)
    found, _ = contraction_of(schedule, op, 0)
    recorder = _Recorder(schedule, group)
    lowered = recorder.epilogue(op.result, shape[-1], found.batched, gpu)
    axes = [(AXES[n], size) for n, size in enumerate(shape[:-1]) if size != ONE]
    batch = len(found.batch) if found.batched else 0
    names = [axis.name for axis in found.batch]
    if found.batched and [name for name, _ in axes[:batch]] != names:
        batch = sum(name in names for name, _ in axes)
    return _filled(Places("product", axes, shape[-1], None, batch), recorder, lowered)


def _scores(schedule: Schedule, group: Group) -> Places:
    parts = schedule.attentions[group.number]
    scores = parts.scores.result
    recorder = _Recorder(schedule, group)
    lowered = recorder.score(parts.logits, scores, parts.maps)
    shape = shape_of(scores)
    axes = [(AXES[n], size) for n, size in enumerate(shape[:-1])]
    return _filled(Places("scores", axes, shape[-1]), recorder, lowered)


def _filled(places: Places, recorder: _Recorder, lowered: Lowered) -> Places:
    """``places`` with the scalars that the kernel really has, operands first."""
    rows = {axis.name for axis in lowered.kernel.rows}
    places.outer = max(
        (n + 1 for n, (name, _) in enumerate(places.axes) if name in rows), default=0
    )
    places.width = lowered.kernel.inner.extent
    order = list(walk(lowered.kernel.expressions()))
    ops = {op.id: op for op in recorder.schedule.function.ops}
    for current in lowered.kernel.passes:
        for fold in current.folds:
            places.folds[fold.number] = ops[fold.node]
        for store in (*current.stores, *current.after):
            maker = lowered.values[store.buffer].op if store.buffer >= 0 else None
            if maker is not None:
                places.stores[store.buffer] = maker
    for node in order:
        known = recorder.seen.get(node.number)
        if known is None:
            continue
        value, index = known
        places.scalars[node.number] = Scalar(node.number, value, index, node.kind == "load")
    return places


def element_grid(places: Places, env: dict[str, int], inner: bool, reduced: bool) -> dict[str, Any]:
    """The values of all axes over the whole kernel, as arrays that broadcast to a grid: axes, then
    the reduced one, then the inner one.

    Args:
        places: The kernel's places.
        env: The sizes of symbolic dims; they are in the result too.
        inner: Whether the grid has the inner axis.
        reduced: Whether it has the reduced axis.
    """
    axes = places.axes if inner else places.axes[: places.outer]
    names = [(name, size.evaluate(env)) for name, size in axes]
    if reduced:
        assert places.reduced is not None
        names.append((REDUCED, places.reduced.evaluate(env)))
    if inner:
        names.append((INNER, places.inner.evaluate(env)))
    # A scalar of a row does not vary with the axes that are one with the inner axis.
    found: dict[str, Any] = env | {name: 0 for name, _ in (*places.axes, (INNER, ONE))}
    rank = len(names)
    for place, (name, size) in enumerate(names):
        shape = [1] * rank
        shape[place] = size
        found[name] = np.arange(size).reshape(shape)
    return found


def elements_of(
    scalar: Scalar, array: Array, grid: dict[str, Any], shape: tuple[int, ...]
) -> Array:
    """The elements of ``array`` that the scalar is, over a grid of ``shape``; where its index is
    out of range, which only a guarded scalar's is, any element.
    """
    if not array.size:
        return np.zeros(shape, array.dtype)
    if not scalar.index or not array.ndim:
        return np.broadcast_to(array.reshape(()), shape)
    at = indices_of(scalar, array.shape, grid, shape)
    assert at is not None
    return np.asarray(array[at])


def indices_of(
    scalar: Scalar, sizes: tuple[int, ...], grid: dict[str, Any], shape: tuple[int, ...]
) -> tuple[Array, ...] | None:
    """The index of every element of a grid of ``shape`` in a value of ``sizes``, an array for each
    axis; None when the value has no elements.
    """
    if 0 in sizes:
        return None
    at = []
    for poly, size in zip(scalar.index, sizes, strict=True):
        place = np.asarray(_evaluated(poly, grid))
        at.append(np.broadcast_to(np.clip(place, 0, size - 1), shape))
    return tuple(at)


def _evaluated(poly: Poly, grid: Mapping[str, Any]) -> Any:
    """``poly`` with arrays for names."""
    total: Any = 0
    for monomial, scale in poly.terms:
        product: Any = scale
        for atom, power in monomial:
            if isinstance(atom, str):
                factor = grid[atom]
            else:
                bottom = _evaluated(atom.denominator, grid)
                factor = _evaluated(atom.numerator, grid) // bottom
            product = product * factor**power
        total = total + product
    return total


__all__ = ["Places", "Scalar", "element_grid", "elements_of", "indices_of", "places_of"]
