"""Expressions that a kernel computes for a value at a place, down to loads from memory."""

from __future__ import annotations

from collections.abc import Mapping

from maxlab.compiler.axes import Index, shape_of
from maxlab.compiler.groups import Group
from maxlab.compiler.loops import Buffer, Expr, Exprs
from maxlab.compiler.schedule import Schedule
from maxlab.compiler.views import flat_index
from maxlab.dtype import DType
from maxlab.errors import DTypeError
from maxlab.ir import Dim, Op, Value
from maxlab.ir.poly import ZERO, Poly
from maxlab.opset import OPSET
from maxlab.opset.view import broadcast_index

INNER = "%j"
"""The symbol of the innermost loop."""
REDUCED = "%k"
"""The symbol of the loop over a reduced axis that is not the innermost."""
HALVES = (DType.bfloat16, DType.float16)
MOVED = (DType.float8_e4m3fn, DType.float8_e4m3fnuz)
"""Floats of 8 bits that are cast and moved; nothing is computed with them."""


def not_computed(dtype: DType) -> DTypeError:
    """The error that something would be computed with ``dtype``."""
    return DTypeError(
        "ML107",
        f"{dtype.name} cannot be computed with in this version",
        fix="cast it: ops.cast(x, DType.bfloat16)"
        if dtype in MOVED
        else "cast the data to bfloat16 before it enters the graph",
    )


class Expressions:
    """Those of one kernel, and the pointer arguments that they read.

    ``names`` has what the loops call each op by; without it that is its id.
    """

    def __init__(
        self, schedule: Schedule, group: Group, names: Mapping[Op, str] | None = None
    ) -> None:
        self.schedule = schedule
        self.group = group
        self._names = names
        self.exprs = Exprs(INNER)
        self.buffers: list[Buffer] = []
        self.values: list[Value] = []
        self.accumulators: dict[Value, tuple[int, DType]] = {}
        self.tile: Value | None = None
        self.extents: dict[str, Poly] = {}
        self._memo: dict[tuple[Value, Index], Expr] = {}

    def name_of(self, op: Op) -> str:
        """The name of ``op`` in the loops."""
        return op.id if self._names is None else self._names[op]

    def buffer(self, value: Value, written: bool = False) -> int:
        """The number of the pointer argument that holds ``value``."""
        for number, known in enumerate(self.values):
            if known is value:
                self.buffers[number].written |= written
                return number
        return self.new_buffer(value, written)

    def new_buffer(self, value: Value, written: bool) -> int:
        """The number of one more pointer argument, for ``value``.

        Raises:
            DTypeError: ML107, nothing computes with its dtype.
        """
        typed = value.tensor_type
        stored = typed.dtype.is_float8() and typed.dtype not in MOVED
        if stored or typed.dtype is DType.float4_e2m1fn:
            raise not_computed(typed.dtype)
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
            wide = DType.float32 if dtype in HALVES else dtype
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
        position = OPSET[op.name].position
        assert position is not None
        node = self.exprs.make("index", DType.int64, position(op.attrs, index))
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
            if row.role == "cast":
                node = (
                    args[0]
                    if args[0].dtype is dtype
                    else self.exprs.make("cast", dtype, args[0].dtype, args)
                )
            elif row.inverse and self._by_reciprocal(dtype, args):
                one = self.exprs.make("op", dtype, row.inverse, args[1:])
                node = self.exprs.make("op", dtype, "mul", (args[0], one))
            elif row.merges and (merged := self._merged(op, args)):
                node = self.exprs.make("op", dtype, merged, args[0].args)
            else:
                if not row.takes_float8:
                    for arg in args:
                        self.computed(arg)
                node = self.exprs.make("op", dtype, row.scalar_name(op.attrs), args)
        if not node.node:
            node.node = self.name_of(op)
        return node

    @staticmethod
    def computed(node: Expr) -> Expr:
        """``node``, with which something is computed.

        Raises:
            DTypeError: ML107, it is of a dtype that is only cast and moved.
        """
        if node.dtype in MOVED:
            raise not_computed(node.dtype)
        return node

    def _by_reciprocal(self, dtype: DType, args: tuple[Expr, ...]) -> bool:
        """Whether a division is a product with what is divided by once for a whole row."""
        return (
            self.schedule.options.accuracy == "fast"
            and dtype in (DType.float32, DType.float64)
            and args[0].varies
            and not args[1].varies
        )

    def _merged(self, op: Op, args: tuple[Expr, ...]) -> str:
        """The scalar operator that computes at once what ``op`` makes of two functions of one
        number; empty for none. It takes about as long as one of them, so that it is worth it even
        where that one is stored, too."""
        if self.schedule.options.accuracy == "exact" or args[0].dtype is not DType.float32:
            return ""
        if any(a.kind != "op" for a in args) or args[0].args != args[1].args:
            return ""
        first, second = sorted(a.data for a in args)
        return OPSET[op.name].merges.get((first, second), "")

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
        checked.node = checked.node or self.name_of(op)
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

    def stored_value(self, target: Value, place: Index) -> Expr:
        """The expression of ``target``, which is made here even if it is stored elsewhere too."""
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
