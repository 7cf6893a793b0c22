"""Identities of an op: when it gives an operand as it is.

They hold for every value, NaN, infinities and signed zeros included. A row of the op table lists
those of its op; the pass ``canonicalise`` asks each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from maxlab.ir import Op, Value

IdentityRule = Literal[
    "times_one", "minus_zero", "same_cast", "still_view", "double_transpose", "double_negate"
]
IDENTITY_RULES: Final[Mapping[IdentityRule, str]] = {
    "times_one": "x * 1 and x / 1 are x",
    "minus_zero": "x - 0 is x; x + 0 is not, for x = -0.0, unless x is an integer",
    "same_cast": "A cast to the dtype that is there already",
    "still_view": "A view that changes nothing, such as a reshape to the same shape or the "
    "identity order",
    "double_transpose": "Two transposes of the same axes cancel",
    "double_negate": "-(-x) is x",
}
"""The sentence about each rule that readers of a compilation see."""

NumberOf = Callable[[Value], "float | int | bool | None"]
"""The number that a value is everywhere; None when it is no constant of one element."""


def _typed(op: Op, value: Value) -> Value | None:
    return value if value.type == op.result.type else None


@dataclass(frozen=True, slots=True)
class Neutral:
    """An operand of this value leaves the other operand as it is: ``x * 1`` is ``x``.

    Attributes:
        rule: The name under which compilation reports it.
        value: The value; 0 is +0.0, not -0.0.
        operand: The number of the operand that has the value.
        integers: Whether it holds for integers only.
    """

    rule: IdentityRule
    value: int
    operand: int
    integers: bool = False

    def given(self, op: Op, number_of: NumberOf) -> Value | None:
        """The operand that ``op`` gives by this identity; None where it does not hold."""
        operands = op.operands
        number = number_of(operands[self.operand])
        if number is None or number != self.value or str(number)[0] == "-":
            return None
        if self.integers and not op.result.tensor_type.dtype.is_integral():
            return None
        return _typed(op, operands[1 - self.operand])


@dataclass(frozen=True, slots=True)
class Idle:
    """The op gives its first operand as it is where that has the type of the result.

    Attributes:
        rule: The name under which compilation reports it.
        when: What else the attributes must fulfil.
    """

    rule: IdentityRule
    when: Callable[[Mapping[str, Any]], bool] | None = None

    def given(self, op: Op, number_of: NumberOf) -> Value | None:
        """The operand that ``op`` gives by this identity; None where it does not hold."""
        if self.when is not None and not self.when(op.attrs):
            return None
        return _typed(op, op.operands[0])


@dataclass(frozen=True, slots=True)
class Cancels:
    """The op after itself gives the first operand: ``-(-x)`` is ``x``.

    Attributes:
        rule: The name under which compilation reports it.
        axes: The attributes that must name the same axes in both ops, in any order.
    """

    rule: IdentityRule
    axes: tuple[str, ...] = ()

    def given(self, op: Op, number_of: NumberOf) -> Value | None:
        """The operand of the inner op, if ``op`` undoes that; None where it does not."""
        inner = op.operands[0].op
        if inner is None or inner.name != op.name:
            return None
        if self.axes:
            rank = op.result.tensor_type.rank
            outer, within = ({o.attrs[a] % rank for a in self.axes} for o in (op, inner))
            if outer != within:
                return None
        return _typed(op, inner.operands[0])


Identity = Neutral | Idle | Cancels
