"""Which ops become one kernel.

Every op that computes is put into a *group*; a group becomes one kernel. A value that only its own
group reads never exists in memory. The rules, applied greedily from the inputs to the outputs:

1. Views, ranges, dims and scalar constants are in no group: they are index arithmetic of whoever
   reads them.
2. A map joins the group of an operand that it reads at its own index; groups of equal shape that
   feed it merge.
3. A reduction of the last axis joins the group of its operand and makes it a *row* group: several
   passes over one row, which stays in cache. Maps over the same rows, and over one value a row,
   join too: softmax and layer norm are one group.
4. A reduction of another axis is a *column* group; maps of its result join.
5. A product of matrices is a *contract* group; maps of its result join as its epilogue.
6. ``softmax(f(q @ k)) @ v`` is an *attention* group, with ``f`` as its score function.
7. A map group that one other group reads once is inlined there, also through views.

No group may come to depend on itself through another group; each group knows its ancestors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from maxlab.compiler.attention import Attention, find_attention
from maxlab.compiler.axes import AXES, MAX_OPS, Index, extents_of, own_index, shape_of
from maxlab.compiler.loops import simplify_bounds
from maxlab.ir import Function, Op, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset import OPSET
from maxlab.opset.core import ViewCall
from maxlab.opset.view import broadcast_index

GroupKind = Literal["map", "row", "col", "contract", "attention", "concat", "copy"]
_AXES = frozenset(AXES)
_POINTWISE = {"map", "gather", "pad"}
MAX_INLINE_DEPTH = 8
"""Steps of scalar arithmetic on dims that each reader computes anew; more are a kernel."""


@dataclass(eq=False, slots=True)
class Group:
    """Ops that become one kernel."""

    number: int
    kind: GroupKind
    domain: Index
    ops: list[Op] = field(default_factory=list)
    ancestors: int = 0
    main: Op | None = None
    source: Value | None = None  # what a copy group lays out
    output: int = -1  # the output that a copy group writes
    why: list[str] = field(default_factory=list)

    @property
    def bit(self) -> int:
        """This group in a set of groups."""
        return 1 << self.number

    @property
    def row_shape(self) -> Index:
        """The shape of a value that has one element a row."""
        return (*self.domain[:-1], ONE)


class Schedule:
    """The groups of a function and which values live in memory.

    Attributes:
        groups: In an order in which each group comes after those it reads.
        stored: The values that some group writes for another group or as an output.
        aliases: Outputs that share the memory of a stored value because they are reshapes of it.
        layouts: Values stored with their dims in another order, outermost first.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.groups: list[Group] = []
        self.group_of: dict[Value, Group] = {}
        self.stored: set[Value] = set()
        self.laid_out: set[Value] = set()
        self.layouts: dict[Value, tuple[int, ...]] = {}
        self.attentions: dict[int, Attention] = {}
        self.inlined: set[int] = set()
        self._inlined_into: dict[Group, Group] = {}
        self.addressed: set[Value] = (
            set()
        )  # read at an index that is data, so they must be in memory
        self._alignments: dict[tuple[Op, Value], tuple[Value, bool]] = {}
        self._copies: dict[tuple[Value, int], Value] = {}
        self._inline = _inline_values(function)
        self._parts = find_attention(function)
        self._build()

    # ------------------------------------------------------------ views
    def resolve(self, value: Value, index: Index, extents: dict[str, Poly]) -> tuple[Value, Index]:
        """The value behind the views of ``value``, and the index in it that ``index`` of ``value``
        reads.
        """
        while self._is_view(value):
            op = value.op
            assert op is not None
            row = OPSET[op.name]
            assert row.view is not None
            source = op.operands[0]
            call = ViewCall(op.attrs, shape_of(source), shape_of(value))
            made = row.view(call, index)
            shape = call.source
            index = tuple(
                ZERO if size == ONE else simplify_bounds(p, extents)
                for p, size in zip(made, shape, strict=True)
            )
            value = source
        return value, index

    def inline_value(self, value: Value) -> bool:
        """Whether ``value`` is computed wherever it is read: a range, a dim, a scalar constant."""
        return value in self._inline

    # ------------------------------------------------------------ grouping
    def _build(self) -> None:
        deferred = {
            op
            for parts in self._parts.values()
            for op in (parts.scores, *parts.maps, *parts.softmax)
        }
        for op in list(self.function.ops):  # copies are added to them
            row = OPSET[op.name]
            kind = row.kind
            if op in deferred or kind in ("view", "constant", "external", "output"):
                continue
            if kind == "iota" and not op.operands:
                continue
            if kind in _POINTWISE or kind == "iota":
                if not self.inline_value(op.result):
                    self._place_map(op)
            elif kind == "reduce":
                self._place_reduce(op)
            elif kind == "contract":
                parts = self._parts.get(op)
                if parts is not None:
                    self._place_attention(parts)
                else:
                    self._place_contract(op)
            elif kind == "concat":
                group = self._new("concat", shape_of(op.result), op)
                for operand in op.operands:
                    self._depend(group, operand)
            else:
                raise AssertionError(f"{op.name} has no lowering")
        self._find_stored()
        self._inline_groups()
        self._find_stored()
        self._place_outputs()
        self.groups = self._sorted()

    def _new(self, kind: GroupKind, domain: Index, op: Op | None) -> Group:
        group = Group(len(self.groups), kind, domain)
        self.groups.append(group)
        if op is not None:
            self._join(group, op)
            group.main = op
        return group

    def _join(self, group: Group, op: Op) -> None:
        group.ops.append(op)
        for result in op.results:
            self.group_of[result] = group

    def _bases(self, value: Value) -> Iterator[Value]:
        """The values behind ``value`` that are in a group."""
        while value.op is not None and value not in self.group_of:
            if OPSET[value.op.name].kind != "view":
                return
            value = value.op.operands[0]
        if value in self.group_of:
            yield value

    def _depend(self, group: Group, value: Value) -> None:
        """Note that ``group`` reads ``value``."""
        added = 0
        for base in self._bases(value):
            other = self.group_of[base]
            if other is not group:
                added |= other.ancestors | other.bit
        if added & ~group.ancestors:
            group.ancestors |= added
            for later in self.groups:
                if later.ancestors & group.bit:
                    later.ancestors |= group.ancestors

    def _allowed(self, group: Group, op: Op) -> bool:
        """Whether ``op`` can join ``group``: no cycle, and it reads the group's values at its own
        index only.
        """
        for operand in op.operands:
            for base in self._bases(operand):
                other = self.group_of[base]
                if other is not group:
                    if other.ancestors & group.bit:
                        return False
                elif OPSET[op.name].kind not in ("map", "reduce") or not self._reads_own(
                    op, operand
                ):
                    return False
        return True

    def _reads_own(self, op: Op, operand: Value) -> bool:
        if OPSET[op.name].kind == "reduce":
            shape = shape_of(operand)
            base, at = self.resolve(operand, own_index(shape), extents_of(shape))
            return at == own_index(shape_of(base))
        return self._aligned(op, operand)[1]

    def _aligned(self, op: Op, operand: Value) -> tuple[Value, bool]:
        """The value behind ``operand``, and whether ``op`` reads it at the index at which it is
        computed.
        """
        found = self._alignments.get((op, operand))
        if found is None:
            shape, inner = shape_of(op.result), shape_of(operand)
            if shape == inner and not self._is_view(operand):
                found = operand, True
            else:
                index = broadcast_index(own_index(shape), inner)
                base, at = self.resolve(operand, index, extents_of(shape))
                found = base, at == own_index(shape_of(base))
            self._alignments[op, operand] = found
        return found

    def _is_view(self, value: Value) -> bool:
        """Whether ``value`` is read through another value."""
        op = value.op
        return op is not None and OPSET[op.name].kind == "view" and value not in self.laid_out

    def _accepts(self, group: Group, op: Op, base: Value) -> bool:
        """Whether ``op``, which reads ``base`` of ``group`` at its own index, has a shape that the
        group computes.
        """
        shape = shape_of(op.result)
        inner = shape_of(base)
        if len(group.ops) >= MAX_OPS:
            return False
        if group.kind == "map":
            return shape == group.domain
        if group.kind == "row":
            fits = (group.domain, group.row_shape)
            return shape in fits and inner in fits
        if group.kind == "col":
            assert group.main is not None
            return shape == shape_of(group.main.result)
        if group.kind == "contract":
            return shape == group.domain
        return False

    def _place_map(self, op: Op) -> None:
        found: list[Group] = []
        pointwise = op.operands
        row = OPSET[op.name]
        if row.kind != "map":
            pointwise = []  # gather and pad read elsewhere than at their own index
        if row.kind == "gather":
            source = op.operands[0]
            base, _ = self.resolve(
                source, own_index(shape_of(source)), extents_of(shape_of(source))
            )
            if self.inline_value(base):
                self._copy(op, 0)
            else:
                self.addressed.add(base)
        for operand in pointwise:
            if self.inline_value(operand):
                continue
            base, aligned = self._aligned(op, operand)
            group = self.group_of.get(base)
            if group is None or not aligned or group in found:
                continue
            if self._accepts(group, op, base) and self._allowed(group, op):
                found.append(group)
        found.sort(key=lambda g: ("contract", "col", "row", "map").index(g.kind))
        if found:
            group = found[0]
            for other in found[1:]:
                if (
                    other.kind == "map"
                    and group.kind in ("map", "row")
                    and other.domain == group.domain
                ):
                    self._merge(group, other)
        else:
            group = self._new("map", shape_of(op.result), None)
        self._join(group, op)
        for operand in op.operands:
            self._depend(group, operand)

    def _merge(self, group: Group, other: Group) -> None:
        """Put the ops of ``other`` into ``group`` when neither depends on the other."""
        if group is other or not other.ops or len(group.ops) + len(other.ops) > MAX_OPS:
            return
        if group.ancestors & other.bit or other.ancestors & group.bit:
            return  # one reads the other, at another index or through a third
        for op in other.ops:
            self._join(group, op)
        group.ops.sort(key=self._position)
        other.ops = []
        gained = (other.ancestors | group.ancestors) & ~group.bit & ~other.bit
        group.ancestors = gained
        for later in self.groups:
            if later.ancestors & other.bit:
                later.ancestors = (later.ancestors & ~other.bit) | group.bit | gained
            elif later.ancestors & group.bit:
                later.ancestors |= gained

    def _position(self, op: Op) -> int:
        if not hasattr(self, "_order"):
            self._order = {o: n for n, o in enumerate(self.function.ops)}
        return self._order[op]

    def _place_reduce(self, op: Op) -> None:
        operand = op.operands[0]
        domain = shape_of(operand)
        axis = op.attrs["axis"] % len(domain)
        if axis != len(domain) - 1:
            group = self._new("col", domain, op)
            self._depend(group, operand)
            return
        base, at = self.resolve(operand, own_index(domain), extents_of(domain))
        group_found = self.group_of.get(base)
        if (
            group_found is not None
            and at == own_index(shape_of(base))
            and group_found.kind in ("map", "row")
            and group_found.domain == domain
            and shape_of(base) == domain
            and len(group_found.ops) < MAX_OPS
            and self._allowed(group_found, op)
        ):
            group_found.kind = "row"
            self._join(group_found, op)
            self._depend(group_found, operand)
            return
        # A sibling that reduces the same rows of the same value: one pass serves both.
        for user in base.uses:
            sibling = self.group_of.get(user.results[0]) if user.results else None
            if (
                sibling is not None
                and sibling.kind == "row"
                and sibling.domain == domain
                and len(sibling.ops) < MAX_OPS
                and self._allowed(sibling, op)
            ):
                self._join(sibling, op)
                self._depend(sibling, operand)
                return
        group = self._new("row", domain, op)
        self._depend(group, operand)

    def _place_contract(self, op: Op) -> None:
        x, y = op.operands
        self._require_strided(op, 1)
        if all(size == ONE for size in shape_of(y)[:-2]):
            if not self._is_matrix(x):
                self._copy(op, 0)
        else:
            self._require_strided(op, 0)
        group = self._new("contract", shape_of(op.result), op)
        for operand in op.operands:
            self._depend(group, operand)

    def _is_matrix(self, value: Value) -> bool:
        """Whether the rows of ``value``, all leading dims taken together, have one stride, and
        columns the stride 1.
        """
        shape = shape_of(value)
        base, index = self.resolve(value, own_index(shape), extents_of(shape))
        if self.inline_value(base):
            return False
        found = strides_of(self, base, index, len(shape))
        if found is None:
            return False
        strides, _ = found
        if shape[-1] != ONE and strides[-1] != ONE:
            return False
        rows = [n for n in range(len(shape) - 1) if shape[n] != ONE]
        return all(strides[a] == strides[b] * shape[b] for a, b in itertools.pairwise(rows))

    def _require_unit(self, op: Op, position: int, axis: int) -> None:
        """Lay the operand out in memory unless it has fixed strides and the stride 1 along
        ``axis``.
        """
        value = op.operands[position]
        shape = shape_of(value)
        axis %= len(shape)
        base, index = self.resolve(value, own_index(shape), extents_of(shape))
        found = None if self.inline_value(base) else strides_of(self, base, index, len(shape))
        if found is None or (shape[axis] != ONE and found[0][axis] != ONE):
            self._copy(op, position, axis)

    def _require_strided(self, op: Op, position: int) -> None:
        """Lay the operand out in memory unless it is a view with a fixed stride for each axis."""
        value = op.operands[position]
        shape = shape_of(value)
        base, index = self.resolve(value, own_index(shape), extents_of(shape))
        if self.inline_value(base) or strides_of(self, base, index, len(shape)) is None:
            self._copy(op, position)

    def _copy(self, op: Op, position: int, innermost: int = -1) -> None:
        """Let ``op`` read a copy of its operand, in row-major order or with the axis ``innermost``
        innermost.

        The copy is a value of its own: whoever else reads the operand goes on reading that one.
        """
        value = op.operands[position]
        copy = self._copies.get((value, innermost))
        if copy is None:
            shape = value.tensor_type.shape
            made = self.function.create(
                "mo.reshape", [value], [value.type], {"shape": shape}, loc=op.loc, scope=op.scope,
                origins=value.op.origins if value.op is not None else op.origins,
            )  # fmt: skip
            self.function.ops.insert(self.function.ops.index(op), made)
            made.block = self.function.block
            copy = self._copies[value, innermost] = made.result
            group = self._new("copy", shape_of(value), None)
            self._depend(group, value)
            group.source = copy
            self.group_of[copy] = group
            self.laid_out.add(copy)
            if innermost >= 0:
                order = [n for n in range(len(group.domain)) if n != innermost]
                self.layouts[copy] = (*order, innermost)
        op.set_operand(position, copy)

    def _place_attention(self, parts: Attention) -> None:
        self._require_unit(parts.scores, 0, -1)
        self._require_unit(parts.scores, 1, -2)
        self._require_unit(parts.product, 1, -1)
        group = self._new("attention", shape_of(parts.product.result), None)
        for op in (parts.scores, *parts.maps, *parts.softmax, parts.product):
            self._join(group, op)
            for operand in op.operands:
                self._depend(group, operand)
        group.main = parts.product
        self.attentions[group.number] = parts
        result = parts.product.result
        rank = len(shape_of(result))
        for user in result.uses:
            order = list(range(rank))
            if user.name == "mo.permute":
                order = [d % rank for d in user.attrs["dims"]]
            elif user.name == "mo.transpose":
                a, b = user.attrs["axis_1"] % rank, user.attrs["axis_2"] % rank
                order[a], order[b] = order[b], order[a]
            if order[-1] == rank - 1 and order != sorted(order):  # a head stays in one piece
                self.layouts[result] = tuple(order)
                break

    # ------------------------------------------------------------ what lives in memory
    def _readers(self, group: Group) -> Iterator[tuple[Value, Group | None]]:
        """Each value of ``group`` with every group that reads it, through views; None for an
        output.
        """
        for op in group.ops:
            for result in op.results:
                yield from self._readers_of(result)

    def _readers_of(self, value: Value) -> Iterator[tuple[Value, Group | None]]:
        stack = [value]
        while stack:
            current = stack.pop()
            for user in current.uses:
                kind = OPSET[user.name].kind
                if kind == "output":
                    yield value, None
                elif kind == "view":
                    made = user.result
                    if made in self.laid_out:
                        yield value, self.group_of[made]
                    else:
                        stack.append(made)
                else:
                    yield value, self.group_of.get(user.results[0])

    def _find_stored(self) -> None:
        self.stored = set(self.laid_out)
        for group in self.groups:
            if group.number in self.inlined:
                continue
            for value, reader in self._readers(group):
                if reader is None or (reader is not group):
                    self.stored.add(value)
        # An inlined group's own reads count for the group it went into.
        for group in self.groups:
            if group.number in self.inlined:
                for op in group.ops:
                    for operand in op.operands:
                        for base in self._bases(operand):
                            if self.group_of[base].number not in self.inlined:
                                self.stored.add(base)

    def _inline_groups(self) -> None:
        sizes: dict[Group, int] = {}  # the ops that were inlined into a group
        for group in self.groups:
            if group.kind != "map" or not group.ops:
                continue
            kept = [v for op in group.ops for v in op.results if v in self.stored]
            if len(kept) != 1 or kept[0] in self.addressed:
                continue
            readers = list(self._readers_of(kept[0]))
            outside = [r for _, r in readers if r is not group]
            if len(outside) != 1 or outside[0] is None:
                continue
            reader = outside[0]
            if reader.kind not in ("map", "row", "col", "concat", "copy"):
                continue
            if self._expansion(group, kept[0], reader):
                continue
            size = sizes.get(group, 0) + len(group.ops)
            if size + sizes.get(reader, 0) + len(reader.ops) > MAX_OPS:
                continue
            sizes[reader] = sizes.get(reader, 0) + size
            self.inlined.add(group.number)
            self._inlined_into[group] = reader

    def _expansion(self, group: Group, value: Value, reader: Group) -> bool:
        """Whether ``reader`` has more elements than ``value``, so that inlining would compute some
        of them again.
        """
        size, domain = ONE, ONE
        for p in group.domain:
            size = size * p
        for p in reader.domain:
            domain = domain * p
        if reader.kind == "concat" or all(OPSET[op.name].kind == "gather" for op in group.ops):
            return False  # reading through an index costs no more than reading what was read so
        if size == domain:
            return False
        # a slice reads fewer elements than there are: inlining computes less, not more
        gap = size - domain
        return not all(c >= 0 for _, c in gap.terms)

    def _place_outputs(self) -> None:
        output = self.function.output
        if output is None:
            return
        self.outputs: list[tuple[Value, bool]] = []
        taken: set[Value] = set()
        for operand in output.operands:
            shape = shape_of(operand)
            base, _ = self.resolve(operand, own_index(shape), extents_of(shape))
            group = self.group_of.get(base)
            same = (
                group is not None
                and group.number not in self.inlined
                and base not in taken
                and base not in self.layouts
                and self._same_order(operand, base)
            )
            if same:
                taken.add(base)
                self.stored.add(base)
                self.outputs.append((base, True))
                continue
            copy = Group(len(self.groups), "copy", shape)
            copy.source, copy.output = operand, len(self.outputs)
            self._depend(copy, operand)
            if group is not None and group.number not in self.inlined:
                self.stored.add(base)
            self.groups.append(copy)
            self.outputs.append((operand, False))

    def _same_order(self, value: Value, base: Value) -> bool:
        """Whether ``value`` is ``base`` or a chain of reshapes of it, with all elements in the same
        order.
        """
        while value is not base:
            op = value.op
            if op is None or not OPSET[op.name].same_order:
                return False
            value = op.operands[0]
        return True

    def groups_inlined_into(self, group: Group) -> list[Group]:
        """The inlined groups whose values ``group`` computes for itself."""
        return [g for g, into in self._inlined_into.items() if into is group]

    def _sorted(self) -> list[Group]:
        alive = [
            g
            for g in self.groups
            if (g.ops or g.source is not None) and g.number not in self.inlined
        ]
        return sorted(alive, key=lambda g: (g.ancestors.bit_count(), g.number))


def _inline_values(function: Function) -> set[Value]:
    """The values that are computed wherever they are read: ranges, dims, scalar constants, and a
    little arithmetic on these.
    """
    depth: dict[Value, int] = {}
    for op in function.ops:
        kind = OPSET[op.name].kind
        if kind == "iota":
            if not op.operands:
                depth[op.result] = 0
        elif kind == "constant":
            if op.attrs["value"].array.size == 1:
                depth[op.result] = 0
        elif kind == "map" and all(p == ONE for p in shape_of(op.result)):
            steps = [depth.get(v, MAX_INLINE_DEPTH) for v in op.operands]
            if max(steps) < MAX_INLINE_DEPTH:
                depth[op.result] = max(steps) + 1
    return set(depth)


def strides_of(
    schedule: Schedule, base: Value, index: Index, rank: int
) -> tuple[list[Poly], Poly] | None:
    """The stride of each axis and the offset of a view of ``base``; None when it has no fixed
    strides.
    """
    position = flat_index(schedule, base, index)
    strides: list[Poly] = []
    rest = position
    for n in range(rank):
        factor = position.coefficient(AXES[n])
        if factor is None or factor.depends_on(_AXES):
            return None
        strides.append(factor)
        rest = rest - factor * Poly.symbol(AXES[n])
    if rest.depends_on(_AXES):
        return None
    return strides, rest


def flat_index(schedule: Schedule, value: Value, index: Index) -> Poly:
    """The element of ``value``'s memory at ``index``, counted from its start."""
    shape = shape_of(value)
    order: Iterable[int] = schedule.layouts.get(value, range(len(shape)))
    position = ZERO
    for n in order:
        position = position * shape[n] + index[n]
    return position
