"""Products and attention as strided memory: what every target's kernels are called with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from maxlab.compiler.attention import Attention
from maxlab.compiler.axes import AXES, Index, extents_of, own_index, shape_of
from maxlab.compiler.conventions import Operand
from maxlab.compiler.groups import Group
from maxlab.compiler.loops import Axis
from maxlab.compiler.lower import REDUCED
from maxlab.compiler.schedule import Schedule
from maxlab.compiler.views import flat_index
from maxlab.dtype import DType
from maxlab.ir import Op, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset.view import broadcast_index


@dataclass(frozen=True, slots=True)
class Contraction:
    """A product of matrices, ``m`` × ``k`` by ``k`` × ``n`` for each point of ``batch``.

    Attributes:
        batched: Whether the right operand has more than one matrix; otherwise all leading dims of
            the left one are rows of one matrix.
        left, right: Where the operands are in the memory that they are in.
    """

    m: Poly
    n: Poly
    k: Poly
    batch: list[Axis]
    batched: bool
    left: Operand
    right: Operand

    @property
    def items(self) -> Poly:
        """The number of points of ``batch``."""
        total = ONE
        for axis in self.batch:
            total = total * axis.extent
        return total

    def flat_left(self) -> tuple[Operand, Poly]:
        """The left operand as one matrix, and its rows; for a product that is not batched."""
        left = self.left
        if self.m != ONE:
            stride = left.row
        else:
            stride = left.batch[-1] if left.batch else self.k
        return Operand(left.pointer, left.offset, (), stride, left.column), self.m * self.items


def operand_of(
    schedule: Schedule,
    value: Value,
    index: Index,
    extents: dict[str, Poly],
    axes: Sequence[str],
    row: str,
    column: str,
    pointer: int,
) -> tuple[Value, Operand]:
    """The memory behind ``value`` and where its elements are in it, in fixed strides."""
    base, at = schedule.resolve(value, index, extents)
    position = flat_index(schedule, base, at)
    parts: dict[str, Poly] = {}
    rest = position
    for name in (*axes, row, column):
        factor = position.coefficient(name)
        assert factor is not None, f"{value.id} has no fixed strides"
        parts[name] = factor
        rest = rest - factor * Poly.symbol(name)
    return base, Operand(pointer, rest, tuple(parts[a] for a in axes), parts[row], parts[column])


def tile_target(schedule: Schedule, group: Group, product: Value) -> Value:
    """The value of ``group`` whose memory the raw ``product``, of float32, is written to."""
    if product in schedule.stored:
        return product
    for op in reversed(group.ops):
        result = op.result
        if result in schedule.stored and result.tensor_type.dtype is DType.float32:
            return result
    return product


def result_stays(schedule: Schedule, group: Group) -> bool:
    """Whether the product of ``group`` is read only where tiles of other products are finished.

    These are the same tiles where the products have the same sizes, so the thread that made one
    often reads it, and nothing is won by having it in memory for all.
    """
    assert group.main is not None
    readers = list(_readers(tile_target(schedule, group, group.main.result), schedule))
    homes = [schedule.group_of.get(op.results[0]) if op.results else None for op in readers]
    return bool(readers) and all(
        home is not None and home.kind == "contract" and home is not group and op is not home.main
        for op, home in zip(readers, homes, strict=True)
    )


def _readers(value: Value, schedule: Schedule) -> Iterator[Op]:
    """The ops that read ``value``, through views or not."""
    for op in value.uses:
        if op.results and not any(x in schedule.group_of for x in op.results):
            for x in op.results:
                yield from _readers(x, schedule)
        else:
            yield op


def is_batched(op: Op) -> bool:
    """Whether the right operand of the product ``op`` has more than one matrix."""
    return any(size != ONE for size in shape_of(op.operands[1])[:-2])


def contraction_of(
    schedule: Schedule, op: Op, first: int
) -> tuple[Contraction, tuple[Value, Value]]:
    """The product ``op``, and the values in whose memory its operands are, which are the pointers
    ``first`` and ``first + 1``.
    """
    shape = shape_of(op.result)
    x, y = op.operands
    k = shape_of(x)[-1]
    own = own_index(shape)
    extents = {**extents_of(shape), REDUCED: k}
    inner = ZERO if k == ONE else Poly.symbol(REDUCED)
    left_index = broadcast_index((*own[:-1], inner), shape_of(x))
    right_index = broadcast_index((*own[:-2], inner, own[-1]), shape_of(y))
    batch = [n for n in range(len(shape) - 2) if shape[n] != ONE]
    row, column = AXES[len(shape) - 2], AXES[len(shape) - 1]
    names = [AXES[b] for b in batch]
    left_base, left = operand_of(schedule, x, left_index, extents, names, row, REDUCED, first)
    right_base, right = operand_of(
        schedule, y, right_index, extents, names, REDUCED, column, first + 1
    )
    places = [Axis(AXES[b], shape[b]) for b in batch]
    found = Contraction(shape[-2], shape[-1], k, places, is_batched(op), left, right)
    return found, (left_base, right_base)


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """Fused attention: operands, and batch, heads, queries, keys, head size and value size."""

    q: Operand
    k: Operand
    v: Operand
    out: Operand
    sizes: tuple[Poly, Poly, Poly, Poly, Poly, Poly]
    axes: list[str]


def attention_of(
    schedule: Schedule, parts: Attention, first: int, *, free: bool = False
) -> tuple[AttentionCall, tuple[Value, Value, Value, Value]]:
    """The operands of ``parts``, which are the pointers from ``first`` on, and the values in whose
    memory q, k, v and the result are.

    With ``free``, their offsets may depend on batch and head in any way, and they have no strides
    for these.
    """
    scores, product = parts.scores.result, parts.product.result
    shape = shape_of(scores)
    rank = len(shape)
    q, k = parts.scores.operands
    v = parts.product.operands[1]
    dim, dim_v = shape_of(q)[-1], shape_of(v)[-1]
    own = own_index(shape)
    axes = [AXES[n] for n in range(rank - 2)]
    names = [] if free else axes
    row, column = AXES[rank - 2], AXES[rank - 1]
    extents = {**extents_of(shape), REDUCED: dim}
    d = ZERO if dim == ONE else Poly.symbol(REDUCED)
    q_base, q_op = operand_of(schedule, q, (*own[:-1], d), extents, names, row, REDUCED, first)
    k_base, k_op = operand_of(
        schedule, k, (*own[:-2], d, own[-1]), extents, names, REDUCED, column, first + 1
    )
    dv = ZERO if dim_v == ONE else Poly.symbol(REDUCED)
    extents_v = {**extents_of(shape), REDUCED: dim_v}
    v_base, v_op = operand_of(
        schedule, v, (*own[:-2], own[-1], dv), extents_v, names, column, REDUCED, first + 2
    )
    position = flat_index(schedule, product, (*own[:-1], dv))
    out = Operand(
        first + 3,
        ZERO,
        tuple(position.coefficient(a) or ZERO for a in axes),
        position.coefficient(row) or ZERO,
        ONE,
    )
    heads = shape[1] if rank == 4 else ONE
    sizes = (shape[0], heads, shape[-2], shape[-1], dim, dim_v)
    return AttentionCall(q_op, k_op, v_op, out, sizes, axes), (q_base, k_base, v_base, product)
