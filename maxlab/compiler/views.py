"""Values seen through views: what is behind them, where in it, and what is no memory at all.

Views, ranges, dims and scalar constants have no kernel of their own. Whoever reads them reads what
is behind them, at an index that the views make; `Views` answers these questions for a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from maxlab.compiler.axes import AXES, Index, shape_of
from maxlab.compiler.loops import simplify_bounds
from maxlab.ir import Function, Op, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset import OPSET
from maxlab.opset.core import ViewCall

_AXES = frozenset(AXES)
MAX_INLINE_DEPTH = 8
"""Steps of scalar arithmetic on dims that each reader computes anew; more are a kernel."""


class Views:
    """The values of a function, and the memory or the arithmetic behind them.

    Attributes:
        function: The function.
        laid_out: Views that are memory of their own, because somebody needs them in order.
        layouts: Values stored with their dims in another order, outermost first.
    """

    def __init__(self, function: Function, apart: Callable[[Op], bool] = lambda op: False) -> None:
        """``apart`` says of a map of ranges, dims and constants whether it is a kernel for all
        that.
        """
        self.function = function
        self.laid_out: set[Value] = set()
        self.layouts: dict[Value, tuple[int, ...]] = {}
        self._inline = _inline_values(function, apart)

    def resolve(self, value: Value, index: Index, extents: dict[str, Poly]) -> tuple[Value, Index]:
        """The value behind the views of ``value``, and the index in it that ``index`` of ``value``
        reads.
        """
        while self.is_view(value):
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

    def is_view(self, value: Value) -> bool:
        """Whether ``value`` is read through another value."""
        op = value.op
        return op is not None and OPSET[op.name].kind == "view" and value not in self.laid_out

    def data_of(self, value: Value) -> Value | None:
        """The weight or constant whose bytes ``value`` has, maybe on another device and by another
        shape; None if it has those of something that is computed.
        """
        while value.op is not None and value not in self.laid_out:
            row = OPSET[value.op.name]
            if row.kind in ("constant", "external"):
                return value
            if row.kind != "transfer" and not row.same_order:
                return None
            value = value.op.operands[0]
        return None

    def same_order(self, value: Value, base: Value) -> bool:
        """Whether ``value`` is ``base`` or a chain of reshapes of it, with all elements in the same
        order.
        """
        while value is not base:
            op = value.op
            if op is None or not OPSET[op.name].same_order:
                return False
            value = op.operands[0]
        return True


def _inline_values(function: Function, apart: Callable[[Op], bool]) -> set[Value]:
    """The values that are computed wherever they are read: ranges, dims, scalar constants, and a
    little arithmetic on these. A causal mask made of two ranges is such arithmetic: comparing
    indices is cheaper than reading what a kernel wrote about them.
    """
    depth: dict[Value, int] = {}

    def behind(value: Value) -> Value:
        while value.op is not None and OPSET[value.op.name].kind == "view":
            value = value.op.operands[0]
        return value

    for op in function.ops:
        row = OPSET[op.name]
        if row.kind == "iota":
            if not op.operands:
                depth[op.result] = 0
        elif row.kind == "constant":
            if op.attrs["value"].array.size == 1:
                depth[op.result] = 0
        elif row.kind == "map" and not apart(op):
            scalar = all(p == ONE for p in shape_of(op.result))
            if not scalar and row.weight > 1:
                continue
            operands = op.operands if scalar else [behind(v) for v in op.operands]
            steps = [depth.get(v, MAX_INLINE_DEPTH) for v in operands]
            if max(steps) < MAX_INLINE_DEPTH:
                depth[op.result] = max(steps) + 1
    return set(depth)


def strides_of(
    views: Views, base: Value, index: Index, rank: int, first: int = 0
) -> tuple[list[Poly], Poly] | None:
    """The stride of each axis from ``first`` on and the offset of a view of ``base``; None when it
    has no fixed strides. The offset depends on the axes before ``first``.
    """
    position = flat_index(views, base, index)
    strides: list[Poly] = []
    rest = position
    for n in range(first, rank):
        factor = position.coefficient(AXES[n])
        if factor is None or factor.depends_on(_AXES):
            return None
        strides.append(factor)
        rest = rest - factor * Poly.symbol(AXES[n])
    if rest.depends_on(AXES[first:]):
        return None
    return strides, rest


def flat_index(views: Views, value: Value, index: Index) -> Poly:
    """The element of ``value``'s memory at ``index``, counted from its start."""
    shape = shape_of(value)
    order: Iterable[int] = views.layouts.get(value, range(len(shape)))
    position = ZERO
    for n in order:
        position = position * shape[n] + index[n]
    return position
