"""Elementwise ops of two operands and more: arithmetic, comparison, logic, choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import DTypeError
from maxlab.ir import TensorType, Type
from maxlab.opset.core import Array, Attrs, Sample, define
from maxlab.opset.elementwise import _BOOLS, _rng, _wide
from maxlab.opset.facts import ScalarText, everywhere, foreign_names, function, wrapping
from maxlab.opset.identities import Identity, Neutral
from maxlab.opset.rules import (
    broadcast,
    require_dtype,
    require_float,
    same_device,
    same_dtype,
)


# ---------------------------------------------------------------- binary
def _binary_infer(what: str, demand: str, result: str) -> Any:
    def infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
        dtype = same_dtype(what, types)
        same_device(what, types)
        if demand == "bool":
            require_dtype(what, types[0], DType.bool)
        elif demand == "number" and dtype is DType.bool:
            raise DTypeError(
                "ML106",
                f"{what} needs numbers, got bool",
                fix="use ops.logical_and and friends, or cast to an integer",
            )
        elif demand == "float":
            require_float(what, types[0])
        shape = broadcast(what, types)
        return [TensorType(DType.bool if result == "bool" else dtype, shape, types[0].device)]

    return infer


def _binary_samples(demand: str, divisor: bool, exponent: bool) -> Callable[[], list[Sample]]:
    def samples() -> list[Sample]:
        if demand == "bool":
            return [Sample(_BOOLS), Sample((_BOOLS[0], _BOOLS[0]), shapes=((1, "n"), (1, "n")))]
        rng = _rng(11)
        x = rng.uniform(-5, 5, (4, 1, 17)).astype(np.float32)
        y = rng.uniform(-5, 5, (3, 17)).astype(np.float32)
        if exponent:
            x = np.abs(x) + np.float32(0.25)
        named = (("a", 1, "b"), ("c", "b"))
        special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 2.5, -3.0], np.float32)
        found = [
            Sample((x, y), shapes=named, label="f32"),
            Sample((x.astype(np.float64), y.astype(np.float64)), label="f64"),
            Sample((special[:, None], special[None, :]), label="special"),
            Sample(
                (DType.bfloat16.ml_numpy.type(x), DType.bfloat16.ml_numpy.type(y)), label="bf16"
            ),
            Sample((x.astype(np.float16), y.astype(np.float16)), label="f16"),
            Sample((x, np.array(2, np.float32)), label="scalar"),
            Sample((np.zeros((0, 3), np.float32), np.zeros((1, 3), np.float32)), label="empty"),
        ]
        if demand != "float":
            i = rng.integers(-9, 10, (6, 5))
            j = rng.integers(-9, 10, (6, 5))
            if divisor:
                j[j == 0] = 3
            if exponent:
                j = np.abs(j) % 5 - 1
            found.extend(
                Sample((i.astype(kind), j.astype(kind)), label=np.dtype(kind).name)
                for kind in (np.int32, np.int64, np.uint8, np.int8)
            )
        return found

    return samples


def _binary(
    name: str,
    summary: str,
    fn: Callable[[Array, Array], Array],
    *,
    demand: str = "number",
    result: str = "same",
    commutative: bool = False,
    weight: int = 1,
    ulps: int = 0,
    divisor: bool = False,
    exponent: bool = False,
    text: ScalarText | None = None,
    aten: str = "",
    onnx: str = "",
    identities: tuple[Identity, ...] = (),
    inverse: str = "",
    merges: Mapping[tuple[str, str], str] | None = None,
) -> None:
    define(
        name,
        "map",
        "elementwise",
        summary,
        infer=_binary_infer(name, demand, result),
        reference=lambda call, x, y: fn(_wide(x), _wide(y)),
        samples=_binary_samples(demand, divisor, exponent),
        commutative=commutative,
        weight=weight,
        ulps=ulps,
        scalar_text={name: text or function(name, operands=2, integers=True)},
        identities=identities,
        foreign=foreign_names(aten or name, onnx),
        inverse=inverse,
        merges=merges or {},
    )


def _mod(x: Array, y: Array) -> Array:
    return np.mod(x, y)


def _pow(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    safe = np.where(y < 0, 0, y).astype(y.dtype)
    return np.where(y < 0, 0, np.power(x, safe)).astype(x.dtype)


_binary(
    "add",
    "The sum of two tensors; integers wrap.",
    np.add,
    commutative=True,
    text=wrapping("+"),
    onnx="Add",
    # Not of floats: -0.0 + 0 is 0.0.
    identities=(
        Neutral("minus_zero", 0, 1, integers=True),
        Neutral("minus_zero", 0, 0, integers=True),
    ),
)
_binary(
    "sub",
    "The difference of two tensors; integers wrap.",
    np.subtract,
    text=wrapping("-"),
    onnx="Sub",
    identities=(Neutral("minus_zero", 0, 1),),
)
_binary(
    "mul",
    "The product of two tensors; integers wrap.",
    np.multiply,
    commutative=True,
    text=wrapping("*"),
    onnx="Mul",
    identities=(Neutral("times_one", 1, 1), Neutral("times_one", 1, 0)),
    merges={("sigmoid", "tanh"): "tanh_sigmoid"},
)
_binary(
    "div",
    "The true quotient of two float tensors.",
    np.divide,
    demand="float",
    weight=4,
    text=everywhere("{0} / {1}"),
    onnx="Div",
    identities=(Neutral("times_one", 1, 1),),
    inverse="recip",
)
_binary(
    "floordiv",
    "The quotient of two tensors, rounded towards minus infinity.",
    np.floor_divide,
    weight=4,
    divisor=True,
    aten="floor_divide",
)
_binary(
    "mod",
    "The remainder with the sign of the divisor.",
    _mod,
    weight=4,
    divisor=True,
    aten="remainder",
)
_binary(
    "pow",
    "x to the power y; an integer to a negative power is 0.",
    _pow,
    weight=16,
    exponent=True,
    ulps=2,
    onnx="Pow",
)
_binary(
    "max",
    "The larger of two tensors; NaN where either is NaN.",
    np.maximum,
    commutative=True,
    text=everywhere("mx_max_{k}({0}, {1})", "{0} > {1} ? {0} : {1}"),
    aten="maximum",
    onnx="Max",
)
_binary(
    "min",
    "The smaller of two tensors; NaN where either is NaN.",
    np.minimum,
    commutative=True,
    text=everywhere("mx_min_{k}({0}, {1})", "{0} < {1} ? {0} : {1}"),
    aten="minimum",
    onnx="Min",
)


def _infix(symbol: str, *, floats: bool = True) -> ScalarText:
    """A comparison or a connective, whose result is a bool."""
    text = f"{{0}} {symbol} {{1}}"
    return everywhere(text if floats else "", text, rounds=False)


_COMPARISONS: tuple[tuple[str, Callable[[Array, Array], Array], str, str, str, str], ...] = (
    ("equal", np.equal, "equals", "==", "eq", "Equal"),
    ("not_equal", np.not_equal, "differs from", "!=", "ne", ""),
    ("greater", np.greater, "is greater than", ">", "gt", "Greater"),
    ("greater_equal", np.greater_equal, "is at least", ">=", "ge", "GreaterOrEqual"),
)
for _name, _op, _word, _symbol, _aten, _onnx in _COMPARISONS:
    _binary(
        _name,
        f"Whether the left {_word} the right; NaN equals nothing.",
        _op,
        demand="any",
        result="bool",
        commutative=_name in ("equal", "not_equal"),
        text=_infix(_symbol),
        aten=_aten,
        onnx=_onnx,
    )
_LOGIC: tuple[tuple[str, Callable[[Array, Array], Array], str, str, str], ...] = (
    ("logical_and", np.logical_and, "Whether both bools are true.", "&", "And"),
    ("logical_or", np.logical_or, "Whether either bool is true.", "|", "Or"),
    ("logical_xor", np.logical_xor, "Whether exactly one of two bools is true.", "^", "Xor"),
)
for _name, _op, _word, _symbol, _onnx in _LOGIC:
    _binary(
        _name,
        _word,
        _op,
        demand="bool",
        commutative=True,
        text=_infix(_symbol, floats=False),
        onnx=_onnx,
    )


# ---------------------------------------------------------------- where, cast
def _where_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    condition, x, y = types
    require_dtype("where: the condition", condition, DType.bool)
    dtype = same_dtype("where", (x, y))
    same_device("where", types)
    return [TensorType(dtype, broadcast("where", types), x.device)]


def _where_samples() -> list[Sample]:
    rng = _rng(13)
    mask = rng.random((4, 1)) > 0.5
    x = rng.standard_normal((4, 9)).astype(np.float32)
    return [
        Sample((mask, x, -x), shapes=(("a", 1), ("a", "b"), ("a", "b")), label="f32"),
        Sample((mask, x.astype(np.int64), np.array(3, np.int64)), label="i64"),
        Sample((mask, mask, ~mask), label="bool"),
    ]


define(
    "where",
    "map",
    "elementwise",
    "The second operand where the first is true, else the third.",
    infer=_where_infer,
    reference=lambda call, c, x, y: np.where(c, x, y),
    scalar_text={"where": everywhere("{0} ? {1} : {2}", "{0} ? {1} : {2}", rounds=False)},
    foreign=foreign_names("where", "Where"),
    takes_float8=True,
    samples=_where_samples,
)
