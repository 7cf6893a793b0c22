"""Elementwise ops of one operand: signs, rounding, transcendental functions, tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError
from maxlab.ir import TensorType, Type
from maxlab.opset.attributes import Attribute
from maxlab.opset.core import Array, Attrs, Call, Sample, define
from maxlab.opset.facts import Family, ScalarText, everywhere, foreign_names, function
from maxlab.opset.identities import Cancels, Identity
from maxlab.opset.rules import (
    require_dtype,
    require_float,
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
    text: ScalarText | None = None,
    aten: str = "",
    onnx: str = "",
    family: Family = "elementwise",
    identities: tuple[Identity, ...] = (),
    parts_of: tuple[str, ...] = (),
) -> None:
    def reference(call: Call, x: Array) -> Array:
        return np.asarray(fn(_wide(x)))

    define(
        name,
        "map",
        "elementwise",
        summary,
        family=family,
        infer=_same(name, floats),
        reference=reference,
        samples=_unary_samples(low, high, floats),
        weight=weight,
        ulps=ulps,
        scalar_text={name: text or function(name), **{one: function(one) for one in parts_of}},
        identities=identities,
        foreign=foreign_names(aten or name, onnx),
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


_unary(
    "abs",
    "The absolute value of each element.",
    np.abs,
    floats=False,
    text=function("abs", integers=True),
    onnx="Abs",
)
_unary(
    "negate",
    "Each element with its sign changed.",
    np.negative,
    floats=False,
    text=everywhere("-{0}", "({k})(({u}){zero} - ({u}){0})"),
    aten="neg",
    onnx="Neg",
    identities=(Cancels("double_negate"),),
)
_unary(
    "floor",
    "Each element rounded towards minus infinity.",
    _keep_int(np.floor),
    floats=False,
    text=everywhere("mx_floor_{k}({0})", "{0}"),
    onnx="Floor",
)
_unary(
    "trunc",
    "Each element rounded towards zero.",
    _keep_int(np.trunc),
    floats=False,
    text=everywhere("mx_trunc_{k}({0})", "{0}"),
)
_unary(
    "round",
    "Each element rounded to the nearest integer, halves to even.",
    _keep_int(np.rint),
    floats=False,
    text=everywhere("mx_rint_{k}({0})", "{0}"),
    onnx="Round",
)
_unary(
    "relu",
    "The larger of each element and 0; NaN stays NaN.",
    lambda x: np.maximum(x, x.dtype.type(0)),
    floats=False,
    text=everywhere("mx_max_{k}({0}, {zero})", "{0} > {zero} ? {0} : {zero}"),
    onnx="Relu",
    family="activation",
)
_unary("sqrt", "The square root of each element.", np.sqrt, low=0.0, high=9.0, onnx="Sqrt")
_unary(
    "rsqrt",
    "One over the square root of each element.",
    _precise(lambda x: 1 / np.sqrt(x)),
    low=0.1,
    high=9.0,
    ulps=2,
)
_unary(
    "exp",
    "e to the power of each element.",
    _precise(np.exp),
    low=-20,
    high=20,
    weight=8,
    ulps=2,
    onnx="Exp",
)
_unary(
    "log",
    "The natural logarithm of each element.",
    _precise(np.log),
    low=0.001,
    high=50,
    weight=8,
    ulps=2,
    onnx="Log",
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
_unary("erf", "The error function of each element.", _erf, weight=8, ulps=4, onnx="Erf")
_unary(
    "sin",
    "The sine of each element.",
    _precise(np.sin),
    low=-30,
    high=30,
    weight=8,
    ulps=2,
    onnx="Sin",
)
_unary(
    "cos",
    "The cosine of each element.",
    _precise(np.cos),
    low=-30,
    high=30,
    weight=8,
    ulps=2,
    onnx="Cos",
)
_unary(
    "tanh",
    "The hyperbolic tangent of each element.",
    _precise(np.tanh),
    weight=8,
    ulps=3,
    onnx="Tanh",
    family="activation",
    parts_of=("tanh_sigmoid",),
)
_unary(
    "atanh",
    "The inverse hyperbolic tangent of each element.",
    _precise(np.arctanh),
    low=-0.99,
    high=0.99,
    weight=8,
    ulps=4,
    onnx="Atanh",
)
_unary(
    "acos",
    "The arc cosine of each element, clamped to [-1, 1] first.",
    _precise(lambda x: np.arccos(np.clip(x, -1, 1))),
    low=-1,
    high=1,
    weight=8,
    ulps=4,
    text=everywhere("mx_acos_{k}(mx_max_{k}(mx_min_{k}({0}, {one}), {minus_one}))"),
    onnx="Acos",
)
_unary(
    "sigmoid",
    "1 / (1 + exp(-x)) of each element.",
    _precise(_sigmoid),
    weight=10,
    ulps=3,
    onnx="Sigmoid",
    family="activation",
)
_unary(
    "silu",
    "x * sigmoid(x) of each element.",
    _precise(lambda x: x * _sigmoid(x)),
    weight=11,
    ulps=3,
    family="activation",
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
    family="activation",
    attrs={"approximate": Attribute("text", optional=True, default="none")},
    scalar=lambda attrs: _GELU_SCALAR[attrs.get("approximate", "none")],
    scalar_text={name: function(name) for name in _GELU_SCALAR.values()},
    foreign=foreign_names("gelu", "Gelu"),
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


_TESTS: tuple[tuple[str, Callable[[Array], Array], str, str, str], ...] = (
    ("is_nan", np.isnan, "Whether each element is NaN.", "{0} != {0}", "IsNaN"),
    (
        "is_inf",
        np.isinf,
        "Whether each element is plus or minus infinity.",
        "mx_abs_{k}({0}) == {infinity}",
        "IsInf",
    ),
)
for _name, _fn, _text, _spelt, _onnx in _TESTS:
    define(
        _name,
        "map",
        "elementwise",
        _text,
        infer=_to_bool(_name),
        reference=lambda call, x, fn=_fn: fn(_wide(x)),
        samples=_unary_samples(-3, 3, True),
        scalar_text={_name: everywhere(_spelt, rounds=False)},
        foreign=foreign_names(_name.replace("_", ""), _onnx),
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
    scalar_text={"logical_not": everywhere(integers="!{0}", rounds=False)},
    identities=(Cancels("double_negate"),),
    foreign=foreign_names("logical_not", "Not"),
    samples=lambda: [Sample((_BOOLS[0],), shapes=((1, "n"),))],
)
