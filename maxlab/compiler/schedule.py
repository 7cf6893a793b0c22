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
5. A product of matrices is a *contract* group; maps of its result join as its epilogue. So do those
   of an op with kernels of its own whose row ``finishes``: a convolution with the channels last.
   A cheap one that only reductions of rows read goes with them, where its operand is in memory.
6. ``softmax(f(q @ k)) @ v`` is an *attention* group, with ``f`` as its score function.
7. A transfer to another device is a group of its own; weights and constants are transferred when
   a model is loaded, which is no group. So is a call of a function of Python.
8. A map group that one other group reads once is inlined there, also through views.
9. What names a dim that is bound while the model runs (``mo.bind_dim``) comes in a later *stage*
   than the op that binds it. The ops that bind are the last of their stage.

10. An op with an effect is a group of its own, behind the op with an effect before it.

No group may come to depend on itself through another group; each group knows its ancestors.

``Options`` can forbid all or some of it: with ``fuse`` off, only the pieces that one op of the
graph was written out in meet in a group; an op of ``apart`` is in no group with what it reads; a
value of ``keep`` is in memory, whoever reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from maxlab.compiler.attention import Attention, find_attention, has_kernel
from maxlab.compiler.axes import MAX_OPS, Index, extents_of, own_index, shape_of
from maxlab.compiler.effects import has_effect
from maxlab.compiler.groups import Group, GroupKind
from maxlab.compiler.inlining import Inliner
from maxlab.compiler.limits import Limits
from maxlab.compiler.operands import has_unit_stride, is_matrix, is_strided
from maxlab.compiler.options import DEFAULT, Options
from maxlab.compiler.reasons import Reason
from maxlab.compiler.views import Views
from maxlab.ir import BufferType, Function, Op, Value
from maxlab.ir.poly import ONE
from maxlab.opset import OPSET, named
from maxlab.opset.dynamic import late_dims, named_dims
from maxlab.opset.view import broadcast_index

CHEAP = 2
"""The most operations of an element that a reduction does for itself, where it reads what they are
made of as fast as their result."""
_POINTWISE = {"map", "gather", "pad"}
_ENDS = ("contract", "kernel", "col")
"""The kinds of groups whose maps are computed of their results."""
_JOINED = {"map": "own index", "row": "row map", "col": "column"}
_JOINED |= {"contract": "epilogue", "kernel": "epilogue"}
"""By the kind of a group, the rule by which a map joins it."""


class Schedule(Views):
    """The groups of a function and which values live in memory.

    Attributes:
        groups: In an order in which each group comes after those it reads.
        stored: The values that some group writes for another group or as an output.
        addressed: Values that are read at an index that is data, so they must be in memory.
        reasons: By an op and a value that it reads through views, the rule of ``reasons`` by which
            it joined, or did not join, the group of that value.
        effects: The groups of ops with effects, in their order.
        aliases: By the number of an output that is no memory of its own, the buffer that it is.
        states: By the copy of what a loop begins with, the result of the loop that is the same
            memory.
    """

    def __init__(
        self, function: Function, options: Options = DEFAULT, kept: Iterable[Value] = ()
    ) -> None:
        self.options = options
        self.limits = Limits(options, kept)
        super().__init__(function, self.limits.is_kernel)
        self._late = late_dims(function)
        self.groups: list[Group] = []
        self.group_of: dict[Value, Group] = {}
        self.stored: set[Value] = set()
        self.attentions: dict[int, Attention] = {}
        self.inlined: set[int] = set()
        self.addressed: set[Value] = set()
        self.reasons: dict[tuple[Op, Value], Reason] = {}
        self.effects: dict[Op, Group] = {}
        self.aliases: dict[int, Value] = {}
        self.states: dict[Value, Value] = {}
        self.inliner = Inliner(self)
        self._alignments: dict[tuple[Op, Value], tuple[Value, bool]] = {}
        self._copies: dict[tuple[Value, int], Value] = {}
        self._parts = {
            op: parts
            for op, parts in find_attention(function).items()
            if has_kernel(parts) and self.limits.may_attend(parts)
        }
        self._build()

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
            elif kind == "transfer":
                self._place_transfer(op)
            elif kind in ("host", "kernel"):
                self._place_whole(op, kind)
                if has_effect(op):
                    self._place_effect(op)
            elif kind == "program":
                self._place_program(op)
            elif kind == "concat":
                group = self._new("concat", shape_of(op.result), op)
                for operand in op.operands:
                    self._depend(group, operand)
                    self._note(op, operand, "begins")
            else:
                raise AssertionError(f"{op.name} has no lowering")
        self.stored = self.inliner.stored()
        self.inliner.inline(self.stored)
        self.inlined = {group.number for group in self.inliner.into}
        self.stored = self.inliner.stored()
        self._place_outputs()
        self.groups = self._sorted()

    def _new(self, kind: GroupKind, domain: Index, op: Op | None) -> Group:
        group = Group(len(self.groups), kind, domain)
        self.groups.append(group)
        if op is not None:
            self._join(group, op)
            group.main = op
        return group

    def _join(self, group: Group, op: Op, rule: str = "") -> None:
        if rule:
            group.why.append((op, rule))
        group.ops.append(op)
        for result in op.results:
            self.group_of[result] = group
        if self._late:
            group.follow(self._binders(op))

    def bases(self, value: Value) -> Iterator[Value]:
        """The values behind ``value`` that are in a group."""
        while value.op is not None and value not in self.group_of:
            if OPSET[value.op.name].kind != "view":
                return
            value = value.op.operands[0]
        if value in self.group_of:
            yield value

    def _note(self, op: Op, operand: Value, rule: str, **facts: Any) -> None:
        """Remember the rule by which ``op`` joined, or did not join, the group of ``operand``."""
        for base in self.bases(operand):
            self.reasons[op, base] = Reason(rule, facts)

    def _depend(self, group: Group, value: Value) -> None:
        """Note that ``group`` reads ``value``."""
        group.follow(self.group_of[base] for base in self.bases(value))
        if self._late:
            group.follow(self._behind_dims(value))

    def _binders(self, op: Op) -> Iterator[Group]:
        """The groups that bind the dims that ``op`` itself names."""
        for name in named_dims(op):
            for bind in self._late.get(name, ()):
                if bind is not op and bind.result in self.group_of:  # it may define the dim
                    yield self.group_of[bind.result]

    def _behind_dims(self, value: Value) -> Iterator[Group]:
        """The groups that bind the dims that ``value`` is made with outside of any group."""
        stack = [value]
        while stack:
            one = stack.pop()
            if one.op is not None and one not in self.group_of:
                yield from self._binders(one.op)
                stack.extend(one.op.operands)

    def _hindrance(self, group: Group, op: Op) -> str:
        """The rule by which ``op`` cannot join ``group``: a cycle, or it reads values of the group
        at another index than its own; empty if it can.
        """
        if self._late:
            behind = [*self._binders(op)]
            for operand in op.operands:
                behind.extend(self._behind_dims(operand))
            if any(other.ancestors & group.bit for other in behind):
                return "cycle"
        for operand in op.operands:
            for base in self.bases(operand):
                other = self.group_of[base]
                if other is not group:
                    if other.ancestors & group.bit:
                        return "cycle"
                elif OPSET[op.name].kind not in ("map", "reduce") or not self._reads_own(
                    op, operand
                ):
                    return "mixed"
        return ""

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
            if shape == inner and not self.is_view(operand):
                found = operand, True
            else:
                index = broadcast_index(own_index(shape), inner)
                base, at = self.resolve(operand, index, extents_of(shape))
                found = base, at == own_index(shape_of(base))
            self._alignments[op, operand] = found
        return found

    def _refusal(self, group: Group, op: Op, base: Value) -> str:
        """The rule by which ``op``, which reads ``base`` of ``group`` at its own index, has no
        shape that the group computes; empty if it has.
        """
        shape = shape_of(op.result)
        if len(group.ops) >= MAX_OPS:
            return "size"
        if group.kind == "map":
            return "" if shape == group.domain else "shape"
        if group.kind == "row":
            fits = (group.domain, group.row_shape)
            return "" if shape in fits and shape_of(base) in fits else "row shape"
        if group.kind in ("col", "contract") or _finishes(group):
            assert group.main is not None
            return "" if shape == shape_of(group.main.result) else "result only"
        return "kind"

    def _better_with_rows(self, group: Group, op: Op, base: Value) -> str:
        """The rule by which ``op``, which could be the end of a kernel that computes ``base``, is
        better computed by the reduction of rows that is its only reader, such as the squares of a
        norm: ``base`` is in memory for others anyway, and so its result never is. Empty otherwise.
        """
        if group.kind not in _ENDS or OPSET[op.name].weight > CHEAP or len(base.uses) < 2:
            return ""
        rank = len(shape_of(op.result))
        for user in op.result.uses:
            if OPSET[user.name].kind != "reduce" or user.attrs["axis"] % rank != rank - 1:
                return ""
        return "with rows" if op.result.uses else ""

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
            if group is None or group in found:
                continue
            rule = "another index" if not aligned else self.limits.parted(op, base.op)
            rule = rule or self._refusal(group, op, base) or self._hindrance(group, op)
            rule = rule or self._better_with_rows(group, op, base)
            if rule:
                self._refused(op, operand, group, rule)
            else:
                found.append(group)
        # Of two of a kind the later one: the other can run, and let go of what it reads, before it.
        kinds = ("contract", "kernel", "col", "row", "map")
        found.sort(key=lambda g: (kinds.index(g.kind), -g.ancestors.bit_count()))
        homes = [(v, self.group_of[base]) for v in op.operands for base in self.bases(v)]
        merges: dict[Group, str] = {}
        if found:
            group = found[0]
            for other in found[1:]:
                merges[other] = self._merge(group, other)
        else:
            group = self._new("map", shape_of(op.result), None)
        for operand, home in homes:
            if found and home is group:
                self._note(op, operand, _JOINED[group.kind])
            elif home in merges and not merges[home]:
                self._note(op, operand, "merged")
            elif home in merges:
                self._note(op, operand, "other kernel", merge=merges[home])
            elif not pointwise:
                self._note(op, operand, "begins")
        self._join(group, op, _JOINED[group.kind] if found else "")
        for operand in op.operands:
            self._depend(group, operand)

    def _refused(self, op: Op, operand: Value, group: Group, rule: str) -> None:
        """Note why ``op`` does not join ``group``, which computes ``operand``."""
        facts: dict[str, Any] = {"kind": group.kind}
        if rule in ("shape", "row shape", "result only"):
            main = group.main.result if group.main is not None else None
            of_result = rule == "result only" and main is not None
            facts["shape"] = shape_of(op.result)
            facts["domain"] = shape_of(main) if of_result and main is not None else group.domain
        self._note(op, operand, rule, **facts)

    def _merge(self, group: Group, other: Group) -> str:
        """Put the ops of ``other`` into ``group`` when neither depends on the other; the rule by
        which they stay two.
        """
        if other.kind != "map" or group.kind not in ("map", "row"):
            return "kinds"
        if other.domain != group.domain:
            return "domain"
        if len(group.ops) + len(other.ops) > MAX_OPS:
            return "size"
        if group.ancestors & other.bit or other.ancestors & group.bit:
            return "cycle"  # one reads the other, at another index or through a third
        if any(map(self.limits.begins, (*group.ops, *other.ops))):
            return "apart"
        for op in other.ops:
            self._join(group, op, "merged")
        group.ops.sort(key=self._position)
        other.ops = []
        group.replace(other)
        return ""

    def _position(self, op: Op) -> int:
        if not hasattr(self, "_order"):
            self._order = {o: n for n, o in enumerate(self.function.ops)}
        return self._order[op]

    def _place_reduce(self, op: Op) -> None:
        operand = op.operands[0]
        domain = shape_of(operand)
        axis = op.attrs["axis"] % len(domain)
        if axis != len(domain) - 1:
            self._note(op, operand, "columns begin")
            group = self._new("col", domain, op)
            self._depend(group, operand)
            return
        base, at = self.resolve(operand, own_index(domain), extents_of(domain))
        group_found = self.group_of.get(base)
        if group_found is not None:
            rule = self._reduce_refusal(group_found, op, base, at)
            if not rule:
                group_found.kind = "row"
                self._note(op, operand, "row")
                self._join(group_found, op, "row")
                self._depend(group_found, operand)
                return
            self._refused(op, operand, group_found, rule)
        # A sibling that reduces the same rows of the same value: one pass serves both.
        for user in base.uses:
            sibling = self.group_of.get(user.results[0]) if user.results else None
            if (
                sibling is not None
                and sibling.kind == "row"
                and sibling.domain == domain
                and len(sibling.ops) < MAX_OPS
                and not any(self.limits.parted(op, other) for other in sibling.ops)
                and not self._hindrance(sibling, op)
            ):
                self._join(sibling, op, "same rows")
                self._depend(sibling, operand)
                return
        group = self._new("row", domain, op)
        self._depend(group, operand)

    def _reduce_refusal(self, group: Group, op: Op, base: Value, at: Index) -> str:
        """The rule by which the reduction ``op`` of the last axis, which reads ``base`` of
        ``group`` at the index ``at``, cannot join the group; empty if it can.
        """
        domain = shape_of(op.operands[0])
        if at != own_index(shape_of(base)) or shape_of(base) != domain:
            return "another index"
        if group.kind not in ("map", "row"):
            return "kind" if group.kind not in ("contract", "col") else "rows begin"
        if group.domain != domain:
            return "row shape"
        if len(group.ops) >= MAX_OPS:
            return "size"
        return self.limits.parted(op, base.op) or self._hindrance(group, op)

    def _place_contract(self, op: Op) -> None:
        x, y = op.operands
        self._require_strided(op, 1)
        if all(size == ONE for size in shape_of(y)[:-2]):
            if not is_matrix(self, x):
                self._copy(op, 0)
        else:
            self._require_strided(op, 0)
        group = self._new("contract", shape_of(op.result), op)
        for operand in op.operands:
            self._depend(group, operand)
            self._note(op, operand, "product reads memory")

    def _require_unit(self, op: Op, position: int, axis: int) -> None:
        """Lay the operand out in memory unless it has fixed strides and the stride 1 along
        ``axis``.
        """
        value = op.operands[position]
        axis %= len(shape_of(value))
        if not has_unit_stride(self, value, axis):
            self._copy(op, position, axis)

    def _require_strided(self, op: Op, position: int) -> None:
        """Lay the operand out in memory unless it is a view with a fixed stride for each axis."""
        if not is_strided(self, op.operands[position]):
            self._copy(op, position)

    def _place_program(self, op: Op) -> None:
        """Let ``op`` be a group of its own; what a loop carries begins as a copy that nobody else
        reads.
        """
        for position in range(op.attrs.get("carried", 0)):
            self._copy(op, position, alone=True)
            self.states[op.operands[position]] = op.results[position]
        self._place_whole(op, "program")
        if has_effect(op):
            self._place_effect(op)

    def _copy(self, op: Op, position: int, innermost: int = -1, alone: bool = False) -> None:
        """Let ``op`` read a copy of its operand, in row-major order or with the axis ``innermost``
        innermost; one of its own if ``alone``.

        The copy is a value of its own: whoever else reads the operand goes on reading that one.
        """
        value = op.operands[position]
        copy = self._copies.get((value, innermost)) if not alone else None
        if copy is None:
            shape = value.tensor_type.shape
            made = self.function.create(
                named("reshape"), [value], [value.type], {"shape": shape},
                loc=op.loc, scope=op.scope,
                origins=value.op.origins if value.op is not None else op.origins,
            )  # fmt: skip
            self.function.block.insert(made, op)
            copy = made.result
            if not alone:
                self._copies[value, innermost] = copy
            group = self._new("copy", shape_of(value), None)
            self._depend(group, value)
            group.source = copy
            self.group_of[copy] = group
            self.laid_out.add(copy)
            if innermost >= 0:
                order = [n for n in range(len(group.domain)) if n != innermost]
                self.layouts[copy] = (*order, innermost)
        op.set_operand(position, copy)

    def _place_transfer(self, op: Op) -> None:
        """Copy whole buffers; what is no whole buffer is laid out before."""
        value = op.operands[0]
        base = self.data_of(value)
        if base is not None:
            return
        shape = shape_of(value)
        if not (value.tensor_type.device.is_gpu() or op.result.tensor_type.device.is_gpu()):
            group = self._new("copy", shape, None)  # whatever it is, the host can address both
            self._depend(group, value)
            group.source = op.result
            self.group_of[op.result] = group
            self.laid_out.add(op.result)
            return
        base, _ = self.resolve(value, own_index(shape), extents_of(shape))
        if self.inline_value(base) or not self.same_order(value, base) or base in self.layouts:
            self._copy(op, 0)
        group = self._new("transfer", shape, op)
        self._depend(group, op.operands[0])
        self._note(op, op.operands[0], "begins")

    def _place_whole(self, op: Op, kind: GroupKind) -> None:
        """Let ``op`` be a group of its own, whose operands are whole buffers in row-major order."""
        for position, value in enumerate(list(op.operands)):
            if self.data_of(value) is not None and not self.inline_value(value):
                continue
            base, _ = self.resolve(value, own_index(shape_of(value)), extents_of(shape_of(value)))
            if self.inline_value(base) or not self.same_order(value, base) or base in self.layouts:
                self._copy(op, position)
        shaped = (*op.results, *op.operands)
        group = self._new(kind, shape_of(shaped[0]) if shaped else (), op)
        for operand in op.operands:
            self._depend(group, operand)
            self._note(op, operand, "begins")

    def _place_effect(self, op: Op) -> None:
        """Let the group of ``op``, which is the newest, run behind all effects before it."""
        group = self.groups[-1]
        assert group.main is op
        if self.effects:
            group.follow([next(reversed(self.effects.values()))])
        self.effects[op] = group

    def _place_attention(self, parts: Attention) -> None:
        self._require_unit(parts.scores, 0, -1)
        self._require_unit(parts.scores, 1, -2)
        self._require_unit(parts.product, 1, -1)
        group = self._new("attention", shape_of(parts.product.result), None)
        whole = (parts.scores, *parts.maps, *parts.softmax, parts.product)
        for op in whole:
            self._join(group, op, "attention")
        for op in whole:
            for operand in op.operands:
                self._depend(group, operand)
                inside = all(self.group_of[base] is group for base in self.bases(operand))
                self._note(op, operand, "attention" if inside else "product reads memory")
        group.main = parts.product
        self.attentions[group.number] = parts
        result = parts.product.result
        rank = len(shape_of(result))
        for user in result.uses:
            axes = OPSET[user.name].axes
            order = list(range(rank) if axes is None else axes(user.attrs, rank))
            if order[-1] == rank - 1 and order != sorted(order):  # a head stays in one piece
                self.layouts[result] = tuple(order)
                break

    # ------------------------------------------------------------ outputs
    def _place_outputs(self) -> None:
        output = self.function.output
        if output is None:
            return
        self.outputs: list[tuple[Value, bool]] = []
        taken: set[Value] = set()
        for operand in output.operands:
            if isinstance(operand.type, BufferType) and (operand.op is None or operand in taken):
                self.aliases[len(self.outputs)] = operand
                self.outputs.append((operand, False))
                continue
            shape = shape_of(operand)
            base, _ = self.resolve(operand, own_index(shape), extents_of(shape))
            group = self.group_of.get(base)
            same = (
                group is not None
                and group.number not in self.inlined
                and base not in taken
                and base not in self.layouts
                and self.same_order(operand, base)
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

    def _sorted(self) -> list[Group]:
        alive = [
            g
            for g in self.groups
            if (g.ops or g.source is not None) and g.number not in self.inlined
        ]
        binding = sorted((g for g in alive if g.binds), key=lambda g: g.ancestors.bit_count())
        for known in (binding, alive) if binding else ():  # the others ask those that bind
            for g in known:
                before = (b.stage + 1 for b in binding if g.ancestors & b.bit)
                g.stage = max(before, default=0)
        return sorted(alive, key=lambda g: (g.stage, g.binds, g.ancestors.bit_count(), g.number))


def _finishes(group: Group) -> bool:
    """Whether the op of ``group`` has kernels that let maps of its result follow."""
    if group.kind != "kernel" or group.main is None:
        return False
    finishes = OPSET[group.main.name].finishes
    return finishes is not None and finishes(group.main)
