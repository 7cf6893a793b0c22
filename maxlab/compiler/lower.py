"""From a group of ops to the loop IR of its kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from maxlab.compiler.axes import AXES, Index, extents_of, own_index, shape_of
from maxlab.compiler.collapse import collapse
from maxlab.compiler.groups import Group
from maxlab.compiler.loops import (
    Axis,
    Buffer,
    Expr,
    Exprs,
    Fold,
    Keep,
    Kernel,
    Pass,
    Store,
)
from maxlab.compiler.schedule import Schedule
from maxlab.compiler.views import flat_index
from maxlab.dtype import DType
from maxlab.errors import DTypeError
from maxlab.ir import Dim, Op, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset import OPSET, scalar_weight
from maxlab.opset.view import broadcast_index, linear

INNER = "%j"
REDUCED = "%k"
KEEP_WEIGHT = 6
"""A value this expensive (in flops) that several passes need is kept in a row of scratch instead of
computed again.
"""

_HALVES = (DType.bfloat16, DType.float16)


@dataclass(slots=True)
class Lowered:
    """A kernel and the values its buffers hold."""

    kernel: Kernel
    values: list[Value]
    kept: int = 0


class Lowering:
    """Lowers one group."""

    def __init__(self, schedule: Schedule, group: Group, *, keep_loads: bool = False) -> None:
        self.schedule = schedule
        self.keep_loads = keep_loads
        self.group = group
        self.exprs = Exprs(INNER)
        self.buffers: list[Buffer] = []
        self.values: list[Value] = []
        self.accumulators: dict[Value, tuple[int, DType]] = {}
        self.levels: dict[int, int] = {}
        self.tile: Value | None = None
        self.extents: dict[str, Poly] = {}
        self._memo: dict[tuple[Value, Index], Expr] = {}

    # ------------------------------------------------------------ expressions
    def buffer(self, value: Value, written: bool = False) -> int:
        """The number of the pointer argument that holds ``value``."""
        for number, known in enumerate(self.values):
            if known is value:
                self.buffers[number].written |= written
                return number
        return self._new_buffer(value, written)

    def _new_buffer(self, value: Value, written: bool) -> int:
        typed = value.tensor_type
        if typed.dtype.is_float8() or typed.dtype is DType.float4_e2m1fn:
            raise DTypeError(
                "ML107",
                f"{typed.dtype.name} cannot be computed with on the CPU in this version",
                fix="cast the data to bfloat16 before it enters the graph",
            )
        self.values.append(value)
        self.buffers.append(Buffer(len(self.values) - 1, typed.dtype, written))
        return len(self.values) - 1

    def read(self, value: Value, index: Index) -> Expr:
        """The expression of ``value`` at ``index``."""
        key = (value, index)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._read(value, index)
        return found

    def _read(self, value: Value, index: Index) -> Expr:
        value, index = self.schedule.resolve(value, index, self.extents)
        key = (value, index)
        found = self._memo.get(key)
        if found is not None:
            return found
        found = self._memo[key] = self._read_base(value, index)
        return found

    def _read_base(self, value: Value, index: Index) -> Expr:
        dtype = value.tensor_type.dtype
        if value is self.tile:
            wide = DType.float32 if dtype in _HALVES else dtype
            node = self.exprs.make("tile", wide, None)
            return node if wide is dtype else self.exprs.make("cast", dtype, wide, (node,))
        accumulator = self.accumulators.get(value)
        if accumulator is not None:
            number, wide = accumulator
            node = self.exprs.make("acc", wide, number)
            return node if wide is dtype else self.exprs.make("cast", dtype, wide, (node,))
        op = value.op
        group = self.schedule.group_of.get(value)
        mine = group is not None and (group is self.group or group.number in self.schedule.inlined)
        if op is not None and value not in self.schedule.laid_out:
            kind = OPSET[op.name].kind
            if kind == "constant":
                array = op.attrs["value"].array
                if array.size == 1:
                    number = array.reshape(())[()]
                    plain = float(number) if dtype.is_float() else int(number)
                    return self.exprs.make("const", dtype, plain)
            elif kind == "iota" and not op.operands:
                return self._iota(op, index)
            elif (mine or self.schedule.inline_value(value)) and kind in (
                "map",
                "gather",
                "pad",
                "iota",
            ):
                return self._expand(op, index)
        position = flat_index(self.schedule, value, index)
        return self.exprs.make("load", dtype, (self.buffer(value), position))

    def _iota(self, op: Op, index: Index) -> Expr:
        dtype = op.result.tensor_type.dtype
        if op.name == "mo.dim":
            position = Dim(op.attrs["dim"]).poly
        elif op.name == "mo.iota":
            position = index[op.attrs["axis"]]
        else:
            position = Dim(op.attrs["start"]).poly + index[0] * Dim(op.attrs["step"]).poly
        node = self.exprs.make("index", DType.int64, position)
        return (
            node if dtype is DType.int64 else self.exprs.make("cast", dtype, DType.int64, (node,))
        )

    def _expand(self, op: Op, index: Index) -> Expr:
        row = OPSET[op.name]
        dtype = op.result.tensor_type.dtype
        if row.kind == "gather":
            node = self._gather(op, index)
        elif row.kind == "pad":
            node = self._pad(op, index)
        elif row.kind == "iota":
            node = self._tensor_range(op, index)
        else:
            args = tuple(self.read(v, broadcast_index(index, shape_of(v))) for v in op.operands)
            if op.name == "mo.cast":
                node = (
                    args[0]
                    if args[0].dtype is dtype
                    else self.exprs.make("cast", dtype, args[0].dtype, args)
                )
            elif op.name == "mo.div" and self._by_reciprocal(dtype, args):
                one = self.exprs.make("op", dtype, "recip", args[1:])
                node = self.exprs.make("op", dtype, "mul", (args[0], one))
            else:
                node = self.exprs.make("op", dtype, row.scalar_name(op.attrs), args)
        if not node.node:
            node.node = op.id
        return node

    def _by_reciprocal(self, dtype: DType, args: tuple[Expr, ...]) -> bool:
        """Whether a division is a product with what is divided by once for a whole row."""
        return (
            self.schedule.options.fast_math
            and dtype in (DType.float32, DType.float64)
            and args[0].varies
            and not args[1].varies
        )

    def _tensor_range(self, op: Op, index: Index) -> Expr:
        dtype = op.result.tensor_type.dtype
        start, _, step = (self.read(v, ()) for v in op.operands)
        place = self.exprs.make("index", DType.int64, index[0])
        count = (
            place if dtype is DType.int64 else self.exprs.make("cast", dtype, DType.int64, (place,))
        )
        offset = self.exprs.make("op", dtype, "mul", (count, step))
        return self.exprs.make("op", dtype, "add", (start, offset))

    def _gather(self, op: Op, index: Index) -> Expr:
        source, indices = op.operands
        rank = len(shape_of(source))
        axis = op.attrs["axis"] % rank
        width = len(shape_of(indices))
        at = self.read(indices, index[axis : axis + width])
        wide = (
            at if at.dtype is DType.int64 else self.exprs.make("cast", DType.int64, at.dtype, (at,))
        )
        place = (*index[:axis], Poly.symbol("$"), *index[axis + width :])
        size = shape_of(source)[axis]
        base, found = self.schedule.resolve(source, place, self.extents)
        # The operand was laid out if it is no plain buffer, so that this is one address.
        position = flat_index(self.schedule, base, found)
        checked = self.exprs.make("wrap", DType.int64, size, (wide,))
        checked.node = checked.node or op.id
        return self.exprs.make(
            "gather", source.tensor_type.dtype, (self.buffer(base), position), (checked,)
        )

    def _pad(self, op: Op, index: Index) -> Expr:
        source = op.operands[0]
        shape = shape_of(source)
        before = [Dim(p).poly for p in op.attrs["paddings"][::2]]
        inside = tuple(i - p for i, p in zip(index, before, strict=True))
        dtype = op.result.tensor_type.dtype
        conditions = tuple(
            (p, size)
            for p, size, i, b, after in zip(
                inside, shape, index, before, op.attrs["paddings"][1::2], strict=True
            )
            if not (b == ZERO and Dim(after).poly == ZERO)
        )
        value = self.read(source, inside)
        if not conditions:
            return value
        plain = float(op.attrs["value"]) if dtype.is_float() else int(op.attrs["value"])
        fill = self.exprs.make("const", dtype, plain)
        return self.exprs.make("guard", dtype, conditions, (value, fill))

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
                self._stored_value(
                    op.result, at if shape_of(op.result) == shape else (*at[:-1], ZERO)
                )
                continue
            operand = op.operands[0]
            value = self.read(operand, at)
            level = self._level(value)
            while len(passes) <= level:
                passes.append(Pass())
            dtype = op.result.tensor_type.dtype
            wide = DType.float32 if dtype in _HALVES and OPSET[op.name].reduce == "sum" else dtype
            if value.dtype is not wide:
                value = self.exprs.make("cast", wide, value.dtype, (value,))
            number = len(self.accumulators)
            self.accumulators[op.result] = (number, wide)
            self.levels[number] = level + 1
            operator = OPSET[op.name].reduce
            passes[level].folds.append(Fold(number, operator, value, wide, op.id))  # type: ignore[arg-type]
        for target in self._targets():
            full = shape_of(target)
            place = at if full == shape else (*at[:-1], ZERO)
            if group.source is None:
                value = self._stored_value(target, place)
                buffer = self.buffer(target, True)
            elif group.output >= 0:  # also of an input, which is not written
                value = self.read(target, at)
                buffer = self._new_buffer(target, True)
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

    def _stored_value(self, target: Value, place: Index) -> Expr:
        accumulator = self.accumulators.get(target)
        if accumulator is not None:
            return self._read_base(target, place)
        op = target.op
        assert op is not None
        key = (target, place)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._expand(op, place)
        return found

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
            kind, rows, inner, passes, self.buffers, reduction, options.assert_level, begins
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
        wide = DType.float32 if dtype in _HALVES and operator == "sum" else dtype
        if product is None:
            full = list(place)
            full[axis] = Poly.symbol(REDUCED)
            value = self.read(operand, tuple(full))
        else:
            k = Poly.symbol(REDUCED)
            x, y = op.operands
            left = broadcast_index((*place[:-1], k), shape_of(x))
            right = broadcast_index((*place[:-2], k, place[-1]), shape_of(y))
            factors = [self.read(x, left), self.read(y, right)]
            if wide is not dtype:
                factors = [self.exprs.make("cast", wide, dtype, (f,)) for f in factors]
            value = self.exprs.make("op", wide, "mul", tuple(factors))
        if value.dtype is not wide:
            value = self.exprs.make("cast", wide, value.dtype, (value,))
        self.accumulators[op.result] = (0, wide)
        self.levels[0] = 1
        first, second = Pass(), Pass()
        first.folds.append(Fold(0, operator, value, wide, op.id))  # type: ignore[arg-type]
        at = tuple(place)
        for made in group.ops:
            self._stored_value(made.result, at)
        for target in self._targets():
            stored = self._stored_value(target, at)
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
                self._stored_value(op.result, at)
        for target in self._targets():
            if target is product and not store:
                continue
            value = self.read(product, at) if target is product else self._stored_value(target, at)
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
            self._stored_value(op.result, at)
        value = self.read(logits, at)
        finish = Pass(stores=[Store(-1, ZERO, value)])
        rows = [Axis(AXES[n], size) for n, size in enumerate(shape[:-1])]
        return Lowered(self._kernel("map", rows, Axis(INNER, shape[-1]), [finish]), self.values)
