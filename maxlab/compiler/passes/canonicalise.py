"""Identities that hold for every value, NaN, infinities and signed zeros included."""

from __future__ import annotations

from collections.abc import Callable

from maxlab.ir import Op, Rewriting, TensorType, Value
from maxlab.opset import OPSET


def _scalar(value: Value) -> float | int | bool | None:
    """The number that ``value`` is everywhere; None when it is no constant of one element."""
    op = value.op
    if op is None or op.name != "mo.constant":
        return None
    array = op.attrs["value"].array
    if array.size != 1:
        return None
    number: float | int | bool = array.reshape(()).item()
    return number


def _same_type(op: Op, value: Value) -> Value | None:
    return value if value.type == op.result.type else None


def times_one(op: Op) -> Value | None:
    """x * 1 and x / 1 are x."""
    x, y = op.operands
    if _scalar(y) == 1:
        return _same_type(op, x)
    if op.name == "mo.mul" and _scalar(x) == 1:
        return _same_type(op, y)
    return None


def minus_zero(op: Op) -> Value | None:
    """x - 0 is x; x + 0 is not, for x = -0.0, unless x is an integer."""
    x, y = op.operands
    integral = op.result.tensor_type.dtype.is_integral()
    if op.name == "mo.sub" or integral:
        number = _scalar(y)
        if number is not None and number == 0 and str(number)[0] != "-":
            return _same_type(op, x)
    if op.name == "mo.add" and integral and _scalar(x) == 0:
        return _same_type(op, y)
    return None


def same_cast(op: Op) -> Value | None:
    """A cast to the dtype that is there already."""
    return _same_type(op, op.operands[0])


def still_view(op: Op) -> Value | None:
    """A view that changes nothing, such as a reshape to the same shape or the identity order."""
    x = op.operands[0]
    if op.name in ("mo.transpose", "mo.permute", "mo.slice"):
        if op.name == "mo.permute" and list(op.attrs["dims"]) == list(range(len(op.attrs["dims"]))):
            return _same_type(op, x)
        return None
    return _same_type(op, x)


def double_transpose(op: Op) -> Value | None:
    """Two transposes of the same axes cancel."""
    inner = op.operands[0].op
    if inner is None or inner.name != op.name:
        return None
    typed = op.result.type
    if not isinstance(typed, TensorType):
        return None
    rank = typed.rank
    outer_axes = {op.attrs["axis_1"] % rank, op.attrs["axis_2"] % rank}
    inner_axes = {inner.attrs["axis_1"] % rank, inner.attrs["axis_2"] % rank}
    return _same_type(op, inner.operands[0]) if outer_axes == inner_axes else None


def double_negate(op: Op) -> Value | None:
    """-(-x) is x."""
    inner = op.operands[0].op
    return inner.operands[0] if inner is not None and inner.name == op.name else None


Rule = Callable[[Op], "Value | None"]
RULES: dict[str, tuple[Rule, ...]] = {
    "mo.mul": (times_one,),
    "mo.div": (times_one,),
    "mo.sub": (minus_zero,),
    "mo.add": (minus_zero,),
    "mo.cast": (same_cast,),
    "mo.negate": (double_negate,),
    "mo.logical_not": (double_negate,),
    "mo.transfer": (still_view,),
    "mo.transpose": (double_transpose,),
    **{
        name: (still_view,)
        for name, row in OPSET.items()
        if row.kind == "view" and name not in ("mo.rebind", "mo.transpose")
    },
}


def canonicalise(rewriting: Rewriting) -> None:
    """Apply the identities, from the inputs to the outputs."""
    for op in rewriting.function.ops:
        for rule in RULES.get(op.name, ()):
            simpler = rule(op)
            if simpler is not None:
                rewriting.rule(rule.__name__, op)
                rewriting.replace(op, [simpler])
                break
