"""Elementwise ops: arithmetic, comparison, logic and transcendental functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType, round_to
from maxlab.errors import ArgumentError, DTypeError
from maxlab.ir import TensorType, Type
from maxlab.opset.core import Array, Attrs, Call, Sample, define
from maxlab.opset.rules import (
    broadcast,
    require_dtype,
    require_float,
    same_device,
    same_dtype,
)


def _rng(seed: int) -> np.random.Generator:
    """Random numbers for samples; ``numpy.random`` is slow to import, and only tests need it."""
    return np.random.default_rng(seed)


def _wide(x: Array) -> Array:
    """Half-precision floats as float32: they are stored narrow and computed wide, here and in
    generated code."""
    if x.dtype.kind not in "biuf" or x.dtype == np.float16:
        return x.astype(np.float32)
    return x


# ---------------------------------------------------------------- unary
def _same(what: str, floats: bool) -> Callable[[Sequence[TensorType], Attrs], list[Type]]:
    def infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
        (x,) = types
        if floats:
            require_float(what, x)
        elif x.dtype is DType.bool:
            raise DTypeError(
                "ML106", f"{what} needs numbers, got bool", fix="cast it: ops.cast(x, DType.int32)"
            )
        return [x]

    return infer


def _unary_samples(low: float, high: float, floats: bool) -> Callable[[], list[Sample]]:
    def samples() -> list[Sample]:
        rng = _rng(7)
        x = rng.uniform(low, high, (3, 37)).astype(np.float32)
        special = np.array(
            [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e-30, 3e38, -0.5, 0.5, 2.5],
            np.float32,
        )
        found = [
            Sample((x,), shapes=(("n", "m"),), label="f32"),
            Sample((x.astype(np.float64),), label="f64"),
            Sample((special,), label="special"),
            Sample((DType.bfloat16.ml_numpy.type(x),), label="bf16"),
            Sample((x.astype(np.float16),), label="f16"),
            Sample((np.zeros((0, 4), np.float32),), label="empty"),
            Sample((np.array(0.75, np.float32),), label="rank 0"),
        ]
        if not floats:
            i = rng.integers(-100, 100, (5, 6))
            found.append(Sample((i.astype(np.int32),), label="i32"))
            found.append(Sample((i.astype(np.int8),), label="i8"))
        return found

    return samples


def _unary(
    name: str,
    summary: str,
    fn: Callable[[Array], Array],
    *,
    floats: bool = True,
    low: float = -4.0,
    high: float = 4.0,
    weight: int = 1,
    ulps: int = 0,
) -> None:
    def reference(call: Call, x: Array) -> Array:
        return np.asarray(fn(_wide(x)))

    define(
        name,
        "map",
        "elementwise",
        summary,
        infer=_same(name, floats),
        reference=reference,
        samples=_unary_samples(low, high, floats),
        weight=weight,
        ulps=ulps,
    )


def _erf(x: Array) -> Array:
    exact: Array = np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64))
    return exact.astype(x.dtype)


def _erfc(x: Array) -> Array:
    exact: Array = np.vectorize(math.erfc, otypes=[np.float64])(x)
    return exact


def _precise(fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """``fn`` computed in float64 and rounded once, so that the oracle is exact to half an ulp."""

    def wrapped(x: Array) -> Array:
        return fn(x.astype(np.float64)).astype(x.dtype)

    return wrapped


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _keep_int(fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: x if x.dtype.kind in "iu" else fn(x)


_unary("abs", "The absolute value of each element.", np.abs, floats=False)
_unary("negate", "Each element with its sign changed.", np.negative, floats=False)
_unary("floor", "Each element rounded towards minus infinity.", _keep_int(np.floor), floats=False)
_unary("trunc", "Each element rounded towards zero.", _keep_int(np.trunc), floats=False)
_unary(
    "round",
    "Each element rounded to the nearest integer, halves to even.",
    _keep_int(np.rint),
    floats=False,
)
_unary(
    "relu",
    "The larger of each element and 0; NaN stays NaN.",
    lambda x: np.maximum(x, x.dtype.type(0)),
    floats=False,
)
_unary("sqrt", "The square root of each element.", np.sqrt, low=0.0, high=9.0)
_unary(
    "rsqrt",
    "One over the square root of each element.",
    _precise(lambda x: 1 / np.sqrt(x)),
    low=0.1,
    high=9.0,
    ulps=2,
)
_unary(
    "exp", "e to the power of each element.", _precise(np.exp), low=-20, high=20, weight=8, ulps=2
)
_unary(
    "log",
    "The natural logarithm of each element.",
    _precise(np.log),
    low=0.001,
    high=50,
    weight=8,
    ulps=2,
)
_unary(
    "log1p",
    "log(1 + x) of each element, exact near 0.",
    _precise(np.log1p),
    low=-0.9,
    high=9,
    weight=8,
    ulps=3,
)
_unary("erf", "The error function of each element.", _erf, weight=8, ulps=4)
_unary("sin", "The sine of each element.", _precise(np.sin), low=-30, high=30, weight=8, ulps=2)
_unary("cos", "The cosine of each element.", _precise(np.cos), low=-30, high=30, weight=8, ulps=2)
_unary("tanh", "The hyperbolic tangent of each element.", _precise(np.tanh), weight=8, ulps=3)
_unary(
    "atanh",
    "The inverse hyperbolic tangent of each element.",
    _precise(np.arctanh),
    low=-0.99,
    high=0.99,
    weight=8,
    ulps=4,
)
_unary(
    "acos",
    "The arc cosine of each element, clamped to [-1, 1] first.",
    _precise(lambda x: np.arccos(np.clip(x, -1, 1))),
    low=-1,
    high=1,
    weight=8,
    ulps=4,
)
_unary("sigmoid", "1 / (1 + exp(-x)) of each element.", _precise(_sigmoid), weight=10, ulps=3)
_unary(
    "silu",
    "x * sigmoid(x) of each element.",
    _precise(lambda x: x * _sigmoid(x)),
    weight=11,
    ulps=3,
)

_GELU: dict[str, Callable[[Array], Array]] = {
    # 1 + erf(z) and (1 + tanh(u)) / 2, which would cancel to the left
    "none": lambda x: 0.5 * x * _erfc(-x / math.sqrt(2)),
    "tanh": lambda x: x * _sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
    "quick": lambda x: x * _sigmoid(1.702 * x),
}
_GELU_SCALAR = {"none": "gelu", "tanh": "gelu_tanh", "quick": "gelu_quick"}


def _gelu_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    require_float("gelu", types[0])
    if attrs.get("approximate", "none") not in _GELU:
        raise ArgumentError(
            "ML305",
            f"gelu: approximate must be 'none', 'tanh' or 'quick', got {attrs['approximate']!r}",
            fix="name one of the three",
        )
    return [types[0]]


def _gelu_samples() -> list[Sample]:
    base = _unary_samples(-6, 6, True)()
    return [
        Sample(s.arrays, {"approximate": how}, s.shapes, f"{how} {s.label}")
        for how in _GELU
        for s in (base if how == "none" else base[:1])
        if s.label != "special" or how == "none"
    ]


define(
    "gelu",
    "map",
    "elementwise",
    "The Gaussian error linear unit of each element (Hendrycks and Gimpel, 2016).",
    infer=_gelu_infer,
    reference=lambda call, x: _precise(_GELU[call.attrs.get("approximate", "none")])(_wide(x)),
    scalar=lambda attrs: _GELU_SCALAR[attrs.get("approximate", "none")],
    scalars=tuple(_GELU_SCALAR.values()),
    samples=_gelu_samples,
    weight=12,
    ulps=4,
)


def _to_bool(what: str) -> Callable[[Sequence[TensorType], Attrs], list[Type]]:
    def infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
        (x,) = types
        require_float(what, x)
        return [TensorType(DType.bool, x.shape, x.device)]

    return infer


for _name, _fn, _text in (
    ("is_nan", np.isnan, "Whether each element is NaN."),
    ("is_inf", np.isinf, "Whether each element is plus or minus infinity."),
):
    define(
        _name,
        "map",
        "elementwise",
        _text,
        infer=_to_bool(_name),
        reference=lambda call, x, fn=_fn: fn(_wide(x)),
        samples=_unary_samples(-3, 3, True),
    )


def _logical_not(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    require_dtype("logical_not", types[0], DType.bool)
    return [types[0]]


_BOOLS = (np.array([[True, False, True]]), np.array([[False], [True]]))
define(
    "logical_not",
    "map",
    "elementwise",
    "The negation of each bool.",
    infer=_logical_not,
    reference=lambda call, x: np.logical_not(x),
    samples=lambda: [Sample((_BOOLS[0],), shapes=((1, "n"),))],
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
    )


def _mod(x: Array, y: Array) -> Array:
    return np.mod(x, y)


def _pow(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    safe = np.where(y < 0, 0, y).astype(y.dtype)
    return np.where(y < 0, 0, np.power(x, safe)).astype(x.dtype)


_binary("add", "The sum of two tensors; integers wrap.", np.add, commutative=True)
_binary("sub", "The difference of two tensors; integers wrap.", np.subtract)
_binary("mul", "The product of two tensors; integers wrap.", np.multiply, commutative=True)
_binary("div", "The true quotient of two float tensors.", np.divide, demand="float", weight=4)
_binary(
    "floordiv",
    "The quotient of two tensors, rounded towards minus infinity.",
    np.floor_divide,
    weight=4,
    divisor=True,
)
_binary("mod", "The remainder with the sign of the divisor.", _mod, weight=4, divisor=True)
_binary(
    "pow",
    "x to the power y; an integer to a negative power is 0.",
    _pow,
    weight=16,
    exponent=True,
    ulps=2,
)
_binary("max", "The larger of two tensors; NaN where either is NaN.", np.maximum, commutative=True)
_binary("min", "The smaller of two tensors; NaN where either is NaN.", np.minimum, commutative=True)
_COMPARISONS: tuple[tuple[str, Callable[[Array, Array], Array], str], ...] = (
    ("equal", np.equal, "equals"),
    ("not_equal", np.not_equal, "differs from"),
    ("greater", np.greater, "is greater than"),
    ("greater_equal", np.greater_equal, "is at least"),
)
for _name, _op, _word in _COMPARISONS:
    _binary(
        _name,
        f"Whether the left {_word} the right; NaN equals nothing.",
        _op,
        demand="any",
        result="bool",
        commutative=_name in ("equal", "not_equal"),
    )
_LOGIC: tuple[tuple[str, Callable[[Array, Array], Array], str], ...] = (
    ("logical_and", np.logical_and, "Whether both bools are true."),
    ("logical_or", np.logical_or, "Whether either bool is true."),
    ("logical_xor", np.logical_xor, "Whether exactly one of two bools is true."),
)
for _name, _op, _word in _LOGIC:
    _binary(_name, _word, _op, demand="bool", commutative=True)


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
    samples=_where_samples,
)


def _cast_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    return [TensorType(attrs["dtype"], x.shape, x.device)]


def _cast_reference(call: Call, x: Array) -> Array:
    return convert(x, call.dtypes[0])


def convert(x: Array, dtype: DType) -> Array:
    """``x`` cast by maxlab's rule, which has no undefined case.

    float → int truncates towards zero; NaN, infinities and values out of range become the most
    negative number of a 32- or 64-bit integer (what x86 does), and narrower integers are cut from
    the 32-bit result. int → int wraps. Anything → bool asks whether it differs from 0: NaN does.
    Anything → float rounds once, to nearest even, and to an infinity beyond the largest.
    """
    target = dtype.ml_numpy
    wide = _wide(x)
    if dtype is DType.bool:
        return np.not_equal(wide, 0)
    if wide.dtype.kind == "f" and dtype.is_integral():
        bits = 64 if dtype in (DType.int64, DType.uint64, DType.uint32) else 32
        low = -(2.0 ** (bits - 1))
        top = 2.0 ** (64 if dtype is DType.uint64 else bits - 1)
        cut = np.trunc(wide.astype(np.float64))
        good = (cut >= low) & (cut < top)
        signed = np.int64 if bits == 64 else np.int32
        if dtype is DType.uint64:
            high = good & (cut >= 2.0**63)
            small = np.where(good & ~high, cut, 0).astype(np.int64).view(np.uint64)
            big = (np.where(high, cut - 2.0**63, 0).astype(np.int64)).view(np.uint64) + np.uint64(
                2**63
            )
            return np.where(high, big, np.where(good, small, np.uint64(2**63)))
        inner = np.where(good, cut, low).astype(signed)
        return inner.astype(target)
    return round_to(wide, dtype)


def _cast_samples() -> list[Sample]:
    values = np.array([0, 1.5, -2.5, 3.99, 127, -128, 300.7, -1e9], np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 1e20, -0.0], np.float32)
    found = []
    for dtype in (
        DType.bool, DType.int8, DType.uint8, DType.int16, DType.uint16, DType.int32, DType.uint32,
        DType.int64, DType.uint64, DType.float16, DType.bfloat16, DType.float32, DType.float64,
    ):  # fmt: skip
        found.append(Sample((values,), {"dtype": dtype}, label=f"f32 to {dtype.name}"))
        if dtype not in (DType.uint8, DType.uint16, DType.uint32, DType.int8, DType.int16):
            found.append(Sample((special,), {"dtype": dtype}, label=f"special to {dtype.name}"))
        whole = np.array([0, 1, -1, 127, 128, -129, 70000], np.int64)
        found.append(Sample((whole,), {"dtype": dtype}, label=f"i64 to {dtype.name}"))
        found.append(
            Sample((np.array([True, False]),), {"dtype": dtype}, label=f"bool to {dtype.name}")
        )
        half = values[:6].astype(DType.bfloat16.ml_numpy)
        found.append(Sample((half,), {"dtype": dtype}, label=f"bf16 to {dtype.name}"))
    return found


define(
    "cast",
    "map",
    "elementwise",
    "The elements converted to another dtype.",
    infer=_cast_infer,
    reference=_cast_reference,
    samples=_cast_samples,
    weight=0,  # it moves data, and computes none
)
