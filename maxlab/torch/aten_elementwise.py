"""Elementwise operations of ATen.

torch chooses a dtype for the result and computes in it; both operands are cast to it here, so
maxlab's own promotion never decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maxlab.dtype import DType
from maxlab.graph import TensorValue, ops
from maxlab.torch.aten import NotImported, Site, aten, tensor

Unary = Callable[[TensorValue], TensorValue]
Binary = Callable[[TensorValue, TensorValue], TensorValue]


# ---------------------------------------------------------------- arithmetic
def _pair(at: Site, x: Any, y: Any) -> tuple[TensorValue, TensorValue]:
    return at.value(x), at.value(y)


def _scaled(at: Site, y: Any, alpha: Any) -> TensorValue:
    value = at.value(y)
    return value if alpha == 1 else ops.mul(value, at.value(alpha))


@aten("add.Tensor", "add.Scalar")
def _add(at: Site, x: Any, y: Any, alpha: Any = 1) -> TensorValue:
    if at.dtype is DType.bool:
        return ops.logical_or(*_pair(at, x, y))
    return ops.add(at.value(x), _scaled(at, y, alpha))


@aten("sub.Tensor", "sub.Scalar")
def _sub(at: Site, x: Any, y: Any, alpha: Any = 1) -> TensorValue:
    return ops.sub(at.value(x), _scaled(at, y, alpha))


@aten("rsub.Tensor", "rsub.Scalar")
def _rsub(at: Site, x: Any, y: Any, alpha: Any = 1) -> TensorValue:
    return ops.sub(at.value(y), _scaled(at, x, alpha))


@aten("mul.Tensor", "mul.Scalar")
def _mul(at: Site, x: Any, y: Any) -> TensorValue:
    if at.dtype is DType.bool:
        return ops.logical_and(*_pair(at, x, y))
    return ops.mul(*_pair(at, x, y))


@aten("div.Tensor", "div.Scalar")
def _div(at: Site, x: Any, y: Any) -> TensorValue:
    return ops.div(*_pair(at, x, y))


@aten("div.Tensor_mode", "div.Scalar_mode")
def _div_mode(at: Site, x: Any, y: Any, rounding_mode: str | None = None) -> TensorValue:
    if rounding_mode is None:
        return _div(at, x, y)
    if rounding_mode == "floor":
        return _floor_divide(at, x, y)
    if not at.dtype.is_float():
        raise NotImported("integers are divided towards zero")
    return ops.trunc(ops.div(*_pair(at, x, y)))


@aten("floor_divide.default", "floor_divide.Scalar")
def _floor_divide(at: Site, x: Any, y: Any) -> TensorValue:
    left, right = _pair(at, x, y)
    return left // right


@aten("remainder.Tensor", "remainder.Scalar")
def _remainder(at: Site, x: Any, y: Any) -> TensorValue:
    return ops.mod(*_pair(at, x, y))


@aten("fmod.Tensor", "fmod.Scalar")
def _fmod(at: Site, x: Any, y: Any) -> TensorValue:
    """The rest, with the sign of ``x``."""
    left, right = _pair(at, x, y)
    rest = ops.mod(ops.abs(left), ops.abs(right))
    return ops.where(ops.greater(at.value(0), left), ops.negate(rest), rest)


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _pow(at: Site, x: Any, y: Any) -> TensorValue:
    if isinstance(y, (int, float)) and y == 2:
        value = at.value(x)
        return ops.mul(value, value)
    return ops.pow(*_pair(at, x, y))


@aten("maximum.default")
def _maximum(at: Site, x: Any, y: Any) -> TensorValue:
    return ops.max(*_pair(at, x, y))


@aten("minimum.default")
def _minimum(at: Site, x: Any, y: Any) -> TensorValue:
    return ops.min(*_pair(at, x, y))


@aten("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_min.Tensor")
def _clamp(at: Site, x: Any, min: Any = None, max: Any = None) -> TensorValue:
    value = at.value(x)
    if min is not None:
        value = ops.max(value, at.value(min))
    return value if max is None else ops.min(value, at.value(max))


@aten("hardtanh.default")
def _hardtanh(at: Site, x: Any, min_val: Any = -1, max_val: Any = 1) -> TensorValue:
    return _clamp(at, x, min_val, max_val)


@aten("clamp_max.default", "clamp_max.Tensor")
def _clamp_max(at: Site, x: Any, max: Any) -> TensorValue:
    return ops.min(*_pair(at, x, max))


# ---------------------------------------------------------------- comparisons and logic
def _compared(compare: Binary, of_bools: Binary | None) -> Callable[..., TensorValue]:
    def handler(at: Site, x: Any, y: Any) -> TensorValue:
        dtype = at.common()
        left, right = at.value(x, dtype), at.value(y, dtype)
        if dtype is not DType.bool:
            return compare(left, right)
        if of_bools is None:
            raise NotImported("bools are compared")
        return of_bools(left, right)

    return handler


def _same(x: TensorValue, y: TensorValue) -> TensorValue:
    return ops.logical_not(ops.logical_xor(x, y))


for _names, _compare, _boolean in (
    ("eq", ops.equal, _same),
    ("ne", ops.not_equal, ops.logical_xor),
    ("gt", ops.greater, None),
    ("ge", ops.greater_equal, None),
    ("lt", lambda x, y: ops.greater(y, x), None),
    ("le", lambda x, y: ops.greater_equal(y, x), None),
):
    aten(f"{_names}.Tensor", f"{_names}.Scalar")(_compared(_compare, _boolean))


def _logical(combine: Binary) -> Callable[..., TensorValue]:
    def handler(at: Site, x: Any, y: Any) -> TensorValue:
        return combine(at.value(x, DType.bool), at.value(y, DType.bool))

    return handler


def _of_bools(combine: Binary) -> Callable[..., TensorValue]:
    def handler(at: Site, x: Any, y: Any) -> TensorValue:
        if at.dtype is not DType.bool:
            raise NotImported("it combines the bits of integers")
        return combine(at.value(x, DType.bool), at.value(y, DType.bool))

    return handler


for _word, _combine in (
    ("and", ops.logical_and),
    ("or", ops.logical_or),
    ("xor", ops.logical_xor),
):
    aten(f"logical_{_word}.default")(_logical(_combine))
    aten(f"bitwise_{_word}.Tensor", f"bitwise_{_word}.Scalar")(_of_bools(_combine))


@aten("logical_not.default")
def _logical_not(at: Site, x: Any) -> TensorValue:
    return ops.logical_not(at.value(x, DType.bool))


@aten("bitwise_not.default")
def _bitwise_not(at: Site, x: Any) -> TensorValue:
    if at.dtype is not DType.bool:
        raise NotImported("it turns the bits of integers")
    return ops.logical_not(at.value(x))


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def _where(at: Site, condition: Any, x: Any, y: Any) -> TensorValue:
    return ops.where(at.value(condition, DType.bool), at.value(x), at.value(y))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(at: Site, x: Any, mask: Any, value: Any) -> TensorValue:
    return ops.where(at.value(mask, DType.bool), at.value(value), at.value(x))


# ---------------------------------------------------------------- unary
def _mapped(function: Unary) -> Callable[..., TensorValue]:
    def handler(at: Site, x: Any) -> TensorValue:
        return function(at.value(x))

    return handler


for _name, _function in (
    ("abs", ops.abs),
    ("neg", ops.negate),
    ("relu", ops.relu),
    ("sqrt", ops.sqrt),
    ("rsqrt", ops.rsqrt),
    ("exp", ops.exp),
    ("log", ops.log),
    ("log1p", ops.log1p),
    ("erf", ops.erf),
    ("sin", ops.sin),
    ("cos", ops.cos),
    ("tanh", ops.tanh),
    ("atanh", ops.atanh),
    ("acos", ops.acos),
    ("sigmoid", ops.sigmoid),
    ("silu", ops.silu),
    ("square", lambda x: ops.mul(x, x)),
    ("reciprocal", lambda x: ops.div(1, x)),
):
    aten(f"{_name}.default")(_mapped(_function))


def _rounded(function: Unary) -> Callable[..., TensorValue]:
    def handler(at: Site, x: Any) -> TensorValue:
        return function(tensor(x)) if at.dtype.is_float() else tensor(x)

    return handler


for _name, _function in (
    ("floor", ops.floor),
    ("round", ops.round),
    ("trunc", ops.trunc),
    ("ceil", lambda x: ops.negate(ops.floor(ops.negate(x)))),
):
    aten(f"{_name}.default")(_rounded(_function))


def _tested(function: Unary) -> Callable[..., TensorValue]:
    def handler(at: Site, x: Any) -> TensorValue:
        if not tensor(x).dtype.is_float():
            raise NotImported("its operand holds integers")
        return function(x)

    return handler


aten("isnan.default")(_tested(ops.is_nan))
aten("isinf.default")(_tested(ops.is_inf))


@aten("gelu.default")
def _gelu(at: Site, x: Any, approximate: str = "none") -> TensorValue:
    return ops.gelu(tensor(x), approximate)


@aten("leaky_relu.default")
def _leaky_relu(at: Site, x: Any, negative_slope: float = 0.01) -> TensorValue:
    value = tensor(x)
    return ops.where(ops.greater(value, 0), value, ops.mul(value, at.value(negative_slope)))


@aten("_to_copy.default")
def _to_copy(at: Site, x: Any, **layout: Any) -> TensorValue:
    return at.value(tensor(x))


@aten(
    "clone.default", "alias.default", "detach.default", "lift_fresh.default",
    "lift_fresh_copy.default",
)  # fmt: skip
def _same_value(at: Site, x: Any, **layout: Any) -> TensorValue:
    return tensor(x)
