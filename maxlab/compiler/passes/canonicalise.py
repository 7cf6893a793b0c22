"""Takes out ops that give an operand as it is, by the identities of the op table."""

from __future__ import annotations

from maxlab.ir import Rewriting, Value
from maxlab.opset import OPSET, is_constant


def number_of(value: Value) -> float | int | bool | None:
    """The number that ``value`` is everywhere; None when it is no constant of one element."""
    op = value.op
    if op is None or op.operands or not is_constant(op):
        return None
    array = op.attrs["value"].array
    if array.size != 1:
        return None
    number: float | int | bool = array.reshape(()).item()
    return number


def canonicalise(rewriting: Rewriting) -> None:
    """Apply the identities, from the inputs to the outputs."""
    for op in rewriting.function.ops:
        row = OPSET.get(op.name)
        for identity in row.identities if row is not None else ():
            simpler = identity.given(op, number_of)
            if simpler is not None:
                rewriting.rule(identity.rule, op)
                rewriting.replace(op, [simpler])
                break
