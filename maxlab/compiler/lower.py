"""From a group of ops to the loop IR of its kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from maxlab.compiler.axes import AXES, extents_of, own_index, shape_of
from maxlab.compiler.collapse import collapse
from maxlab.compiler.expressions import HALVES, INNER, REDUCED, Expressions
from maxlab.compiler.groups import Group
from maxlab.compiler.loops import (
    Axis,
    Expr,
    Fold,
    Keep,
    Kernel,
    Pass,
    Store,
)
from maxlab.compiler.schedule import Schedule
from maxlab.compiler.views import flat_index
from maxlab.dtype import DType
from maxlab.ir import Op, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset import OPSET, scalar_weight
from maxlab.opset.view import broadcast_index, linear

KEEP_WEIGHT = 6
"""A value this expensive (in flops) that several passes need is kept in a row of scratch instead of
computed again.
"""

__all__ = ["INNER", "KEEP_WEIGHT", "REDUCED", "Lowered", "Lowering"]


@dataclass(slots=True)
class Lowered:
    """A kernel and the values its buffers hold.

    ``ids`` are those of the ops that the loops call by their numbers; it is empty where they call
    ops by their ids.
    """

    kernel: Kernel
    values: list[Value]
    kept: int = 0
    ids: Sequence[str] = ()


class Lowering(Expressions):
    """Lowers one group."""

    def __init__(
        self,
        schedule: Schedule,
        group: Group,
        names: Mapping[Op, str] | None = None,
        *,
        keep_loads: bool = False,
    ) -> None:
        super().__init__(schedule, group, names)
        self.keep_loads = keep_loads
        self.levels: dict[int, int] = {}

    # ------------------------------------------------------------ map and row groups
    def rows(self) -> Lowered:
        """The kernel of a map, row or copy group."""
        group = self.group
        shape = group.domain
        rank = len(shape)
        index = [*own_index(shape)]
        inner = Axis(INNER, ONE)
        rows: list[Axis] = []
        self.extents = extents_of(shape)
        if rank:
            last = rank - 1
            if group.kind != "row":
                # the innermost axis that is not 1; a row group must run over its reduced axis
                while last > 0 and shape[last] == ONE:
                    last -= 1
            if shape[last] != ONE:
                index[last] = Poly.symbol(INNER)
            inner = Axis(INNER, shape[last])
            self.extents[INNER] = shape[last]
            rows = [Axis(AXES[n], shape[n]) for n in range(last) if shape[n] != ONE]
        at = tuple(index)
        passes = [Pass()]
        reduces = [op for op in group.ops if OPSET[op.name].kind == "reduce"]
        for op in group.ops:
            if OPSET[op.name].kind != "reduce":
                # in the order of the ops, so that each finds its operands made
                self.stored_value(
                    op.result, at if shape_of(op.result) == shape else (*at[:-1], ZERO)
                )
                continue
            operand = op.operands[0]
            value = self.computed(self.read(operand, at))
            level = self._level(value)
            while len(passes) <= level:
                passes.append(Pass())
            dtype = op.result.tensor_type.dtype
            wide = DType.float32 if dtype in HALVES and OPSET[op.name].reduce == "sum" else dtype
            if value.dtype is not wide:
                value = self.exprs.make("cast", wide, value.dtype, (value,))
            number = len(self.accumulators)
            self.accumulators[op.result] = (number, wide)
            self.levels[number] = level + 1
            operator = OPSET[op.name].reduce
            passes[level].folds.append(Fold(number, operator, value, wide, self.name_of(op)))  # type: ignore[arg-type]
        for target in self._targets():
            full = shape_of(target)
            place = at if full == shape else (*at[:-1], ZERO)
            if group.source is None:
                value = self.stored_value(target, place)
                buffer = self.buffer(target, True)
            elif group.output >= 0:  # also of an input, which is not written
                value = self.read(target, at)
                buffer = self.new_buffer(target, True)
            else:
                assert target.op is not None
                value = self.read(target.op.operands[0], at)
                buffer = self.buffer(target, True)
            level = self._level(value)
            copied = group.output >= 0  # an output is in row-major order, whatever is copied
            position = linear(place, full) if copied else flat_index(self.schedule, target, place)
            store = Store(buffer, position, value)
            row_level = full != shape or not rank
            if row_level and rank:
                passes[max(level - 1, 0)].after.append(store)
            else:
                while len(passes) <= level:
                    passes.append(Pass())
                passes[level].stores.append(store)
        kernel = self._kernel("row" if reduces else "map", rows, inner, passes)
        kept = self._keep_shared(kernel)
        lowered = Lowered(kernel, self.values, kept)
        collapse(kernel)
        return lowered

    def _targets(self) -> list[Value]:
        if self.group.source is not None:
            return [self.group.source]
        return [v for op in self.group.ops for v in op.results if v in self.schedule.stored]

    def _level(self, root: Expr) -> int:
        """The first pass in which ``root`` can be computed: after all accumulators it needs."""
        level, stack, seen = 0, [root], set()
        while stack:
            node = stack.pop()
            if node.number in seen:
                continue
            seen.add(node.number)
            if node.kind == "acc":
                level = max(level, self.levels[node.data])
            stack.extend(node.args)
        return level

    def _keep_shared(self, kernel: Kernel) -> int:
        """Keep in scratch what is expensive and several passes need; the number of kept rows.

        With ``keep_loads``, what is read from memory counts as expensive too. On a GPU many rows
        are on their way at once, and the caches do not hold them all until the next pass.
        """
        passes = kernel.passes
        if len(passes) < 2:
            return 0
        computed: dict[int, int] = {}
        kept: dict[int, Expr] = {}
        weights: dict[int, int] = {}

        def weight(node: Expr) -> int:
            known = weights.get(node.number)
            if known is None:
                own = scalar_weight(node.data) if node.kind == "op" else 0
                known = weights[node.number] = own + sum(map(weight, node.args))
            return known

        done: dict[tuple[int, int], Expr] = {}

        rows = {axis.name for axis in kernel.rows}

        def expensive(node: Expr) -> bool:
            if node.kind == "load":
                return self.keep_loads and bool(rows.intersection(node.data[1].symbols()))
            return node.kind in ("op", "guard") and weight(node) >= KEEP_WEIGHT

        def visit(node: Expr, level: int) -> Expr:
            known = done.get((node.number, level))
            if known is None:
                known = done[node.number, level] = rewritten(node, level)
            return known

        def rewritten(node: Expr, level: int) -> Expr:
            if node.number in kept:
                return kept[node.number] if computed[node.number] < level else node
            first = computed.get(node.number)
            if first is not None and first < level and node.varies and expensive(node):
                number = len(kept)
                made = self.exprs.make("kept", node.dtype, number)
                kept[node.number] = made
                passes[first].keeps.append(Keep(number, done[node.number, first]))
                return made
            computed.setdefault(node.number, level)
            if node.kind == "guard":
                return node  # what is inside is computed there or not at all
            args = tuple(visit(a, level) for a in node.args)
            if args == node.args:
                return node
            made = self.exprs.make(node.kind, node.dtype, node.data, args)
            made.node = made.node or node.node
            return made

        for level, current in enumerate(passes):
            for fold in current.folds:
                fold.value = visit(fold.value, level)
            for store in (*current.stores, *current.after):
                store.value = visit(store.value, level)
        return len(kept)

    def part(self, operand: Value, axis: int, offset: Poly) -> Lowered:
        """The kernel that copies ``operand`` into the result of a concat, ``offset`` along
        ``axis``.
        """
        shape = shape_of(operand)
        rank = len(shape)
        last = rank - 1
        while last > 0 and shape[last] == ONE:
            last -= 1
        self.extents = extents_of(shape)
        index = [*own_index(shape)]
        if shape[last] != ONE:
            index[last] = Poly.symbol(INNER)
        self.extents[INNER] = shape[last]
        value = self.read(operand, tuple(index))
        assert self.group.main is not None
        target = self.group.main.result
        index[axis] = index[axis] + offset
        store = Store(
            self.buffer(target, True), flat_index(self.schedule, target, tuple(index)), value
        )
        rows = [Axis(AXES[n], shape[n]) for n in range(last) if shape[n] != ONE]
        kernel = self._kernel("map", rows, Axis(INNER, shape[last]), [Pass(stores=[store])])
        collapse(kernel)
        return Lowered(kernel, self.values)

    def _kernel(
        self,
        kind: Literal["map", "row", "col"],
        rows: list[Axis],
        inner: Axis,
        passes: list[Pass],
        reduction: Axis | None = None,
    ) -> Kernel:
        """The kernel of these loops, which tests and logs what the options say."""
        options = self.schedule.options
        begins = options.log_level == "trace"
        return Kernel(
            kind,
            rows,
            inner,
            passes,
            self.buffers,
            reduction,
            options.assert_level,
            begins,
            options.accuracy,
        )

    # ------------------------------------------------------------ column groups
    def columns(self, product: Op | None = None) -> Lowered:
        """The kernel of a column group, or of a product without a faster way (``product``)."""
        group = self.group
        op = product or group.main
        assert op is not None
        if product is None:
            operand = op.operands[0]
            shape = shape_of(operand)
            axis = op.attrs["axis"] % len(shape)
            result_shape = shape_of(op.result)
            reduction = Axis(REDUCED, shape[axis])
            place = [*own_index(result_shape)]
            operator = OPSET[op.name].reduce
        else:
            result_shape = shape_of(op.result)
            reduction = Axis(REDUCED, shape_of(op.operands[0])[-1])
            place = [*own_index(result_shape)]
            operator = "sum"
        last = len(result_shape) - 1
        while last > 0 and (result_shape[last] == ONE or (product is None and last == axis)):
            last -= 1
        self.extents = extents_of(result_shape)
        if result_shape[last] != ONE:
            place[last] = Poly.symbol(INNER)
        inner = Axis(INNER, result_shape[last])
        self.extents[INNER] = inner.extent
        self.extents[REDUCED] = reduction.extent
        rows = [
            Axis(AXES[n], size)
            for n, size in enumerate(result_shape)
            if n != last and size != ONE and not (product is None and n == axis)
        ]
        dtype = op.result.tensor_type.dtype
        wide = DType.float32 if dtype in HALVES and operator == "sum" else dtype
        if product is None:
            full = list(place)
            full[axis] = Poly.symbol(REDUCED)
            value = self.computed(self.read(operand, tuple(full)))
        else:
            k = Poly.symbol(REDUCED)
            x, y = op.operands
            left = broadcast_index((*place[:-1], k), shape_of(x))
            right = broadcast_index((*place[:-2], k, place[-1]), shape_of(y))
            factors = [self.computed(self.read(v, at)) for v, at in ((x, left), (y, right))]
            if wide is not dtype:
                factors = [self.exprs.make("cast", wide, dtype, (f,)) for f in factors]
            value = self.exprs.make("op", wide, "mul", tuple(factors))
        if value.dtype is not wide:
            value = self.exprs.make("cast", wide, value.dtype, (value,))
        self.accumulators[op.result] = (0, wide)
        self.levels[0] = 1
        first, second = Pass(), Pass()
        first.folds.append(Fold(0, operator, value, wide, self.name_of(op)))  # type: ignore[arg-type]
        at = tuple(place)
        for made in group.ops:
            self.stored_value(made.result, at)
        for target in self._targets():
            stored = self.stored_value(target, at)
            second.stores.append(
                Store(self.buffer(target, True), flat_index(self.schedule, target, at), stored)
            )
        kernel = self._kernel("col", rows, inner, [first, second], reduction)
        collapse(kernel, keep_inner=True)
        return Lowered(kernel, self.values)

    # ------------------------------------------------------------ epilogues
    def epilogue(
        self, product: Value, columns: Poly, batched: bool, store: bool = False
    ) -> Lowered:
        """The kernel that finishes a tile of ``product``: rows × ``columns``, with ``product`` read
        as the tile.

        The rows are all leading dims taken together, unless the product is ``batched``. With
        ``store``, the product itself is stored where somebody else reads it; otherwise it is where
        the tile is.
        """
        shape = shape_of(product)
        self.tile = product
        self.extents = extents_of(shape)
        index = [*own_index(shape)]
        if shape[-1] != ONE:
            index[-1] = Poly.symbol(INNER)
        self.extents[INNER] = columns
        at = tuple(index)
        finish = Pass()
        for op in self.group.ops:
            if op.result is not product:
                self.stored_value(op.result, at)
        for target in self._targets():
            if target is product and not store:
                continue
            value = self.read(product, at) if target is product else self.stored_value(target, at)
            finish.stores.append(
                Store(self.buffer(target, True), flat_index(self.schedule, target, at), value)
            )
        rows = [Axis(AXES[n], size) for n, size in enumerate(shape[:-1]) if size != ONE]
        kernel = self._kernel("map", rows, Axis(INNER, columns), [finish])
        if not batched:
            collapse(kernel, keep_inner=True)
        return Lowered(kernel, self.values)

    def score(self, logits: Value, scores: Value, maps: Sequence[Op]) -> Lowered:
        """The kernel that turns raw scores into logits; its rows are (batch, head, query), its
        inner axis the keys.
        """
        shape = shape_of(scores)
        self.tile = scores
        self.extents = extents_of(shape)
        index = [*own_index(shape)]
        if shape[-1] != ONE:
            index[-1] = Poly.symbol(INNER)
        self.extents[INNER] = shape[-1]
        at = tuple(index)
        for op in maps:
            self.stored_value(op.result, at)
        value = self.read(logits, at)
        finish = Pass(stores=[Store(-1, ZERO, value)])
        rows = [Axis(AXES[n], size) for n, size in enumerate(shape[:-1])]
        return Lowered(self._kernel("map", rows, Axis(INNER, shape[-1]), [finish]), self.values)
