"""Scalar operators as text: one printer for every target, since C and CUDA spell them alike.

Values are computed in a *compute type*: halves in f32, rounded to the half after every op, as if
each op had stored its
result; bools as i32; everything else as itself.
"""

from __future__ import annotations

import math

import numpy as np

from maxlab.compiler.loops import Expr
from maxlab.dtype import DType

_C = {
    DType.bool: "i32",
    DType.int8: "i8",
    DType.uint8: "u8",
    DType.int16: "i16",
    DType.uint16: "u16",
    DType.int32: "i32",
    DType.uint32: "u32",
    DType.int64: "i64",
    DType.uint64: "u64",
    DType.float16: "f32",
    DType.bfloat16: "f32",
    DType.float32: "f32",
    DType.float64: "f64",
}
_STORED = {**_C, DType.bool: "u8", DType.float16: "u16", DType.bfloat16: "u16"}
_STORED |= {dtype: "u8" for dtype in DType if dtype.is_float8()}  # copied, not computed with
HALVES = {DType.float16: "f16", DType.bfloat16: "bf16"}

_INFIX = {"add": "+", "sub": "-", "mul": "*"}
_COMPARE = {"equal": "==", "not_equal": "!=", "greater": ">", "greater_equal": ">="}
_LOGIC = {"logical_and": "&", "logical_or": "|", "logical_xor": "^"}
_ROUND = {"floor": "floor", "trunc": "trunc", "round": "rint"}
_CALLS = {
    "sqrt", "rsqrt", "exp", "log", "log1p", "erf", "sin", "cos", "tanh", "atanh", "sigmoid",
    "silu", "gelu", "gelu_tanh", "gelu_quick", "pow", "floordiv", "mod",
}  # fmt: skip


def compute_type(dtype: DType) -> str:
    """The C type in which values of ``dtype`` are computed."""
    return _C[dtype]


def stored_type(dtype: DType) -> str:
    """The C type of an element of a buffer of ``dtype``."""
    return _STORED[dtype]


def is_float(dtype: DType) -> bool:
    """Whether the compute type is a float."""
    return _C[dtype] in ("f32", "f64")


def literal(value: float | int, dtype: DType) -> str:
    """``value`` as a constant of the compute type of ``dtype``, exact."""
    kind = _C[dtype]
    if kind in ("f32", "f64"):
        number = float(value)
        if math.isnan(number):
            return '__builtin_nanf("")' if kind == "f32" else '__builtin_nan("")'
        if math.isinf(number):
            text = "__builtin_inff()" if kind == "f32" else "__builtin_inf()"
            return text if number > 0 else f"(-{text})"
        # The shortest decimal that is read back as the same number.
        text = str(np.float32(number)) if kind == "f32" else repr(number)
        text += "f" if kind == "f32" else ""
        return f"({text})" if text.startswith("-") else text
    if kind == "i64":
        return "(-9223372036854775807ll - 1)" if value == -(2**63) else f"{value}ll"
    if kind == "u64":
        return f"{value}ull"
    if kind == "i32" and value == -(2**31):
        return "(-2147483647 - 1)"
    if kind == "u32":
        return f"{value}u"
    return str(value) if value >= 0 else f"({value})"


def rounded(text: str, dtype: DType) -> str:
    """``text``, an f32, rounded to the half type ``dtype``; unchanged for other types."""
    half = HALVES.get(dtype)
    return text if half is None else f"mx_{half}_to_f32(mx_f32_to_{half}({text}))"


def loaded(text: str, dtype: DType) -> str:
    """The compute value of the stored element ``text``."""
    half = HALVES.get(dtype)
    return text if half is None else f"mx_{half}_to_f32({text})"


def stored(text: str, dtype: DType) -> str:
    """The element to store for the compute value ``text``."""
    half = HALVES.get(dtype)
    if half is not None:
        return f"mx_f32_to_{half}({text})"
    return f"(u8)({text})" if dtype is DType.bool else text


def _wrapping(symbol: str, kind: str, a: str, b: str) -> str:
    """Integer arithmetic through the unsigned type: it wraps and is never undefined."""
    unsigned = {"i8": "u32", "i16": "u32", "i32": "u32", "i64": "u64"}.get(kind, kind)
    if kind in ("u8", "u16"):
        unsigned = "u32"
    return f"({kind})(({unsigned}){a} {symbol} ({unsigned}){b})"


def operator(name: str, dtype: DType, operand: DType, a: list[str]) -> str:
    """The text of the scalar operator ``name`` with result ``dtype`` on operands of ``operand``
    spelt ``a``.
    """
    kind = _C[operand]
    floats = kind in ("f32", "f64")
    if name in _INFIX:
        text = f"{a[0]} {_INFIX[name]} {a[1]}" if floats else _wrapping(_INFIX[name], kind, *a)
    elif name == "div":
        text = f"{a[0]} / {a[1]}"
    elif name == "recip":
        text = f"{literal(1, operand)} / {a[0]}"
    elif name in _COMPARE:
        return f"{a[0]} {_COMPARE[name]} {a[1]}"
    elif name in _LOGIC:
        return f"{a[0]} {_LOGIC[name]} {a[1]}"
    elif name == "logical_not":
        return f"!{a[0]}"
    elif name == "is_nan":
        return f"{a[0]} != {a[0]}"
    elif name == "is_inf":
        return f"mx_abs_{kind}({a[0]}) == {literal(math.inf, operand)}"
    elif name == "where":
        return f"{a[0]} ? {a[1]} : {a[2]}"
    elif name in ("max", "min"):
        sign = ">" if name == "max" else "<"
        text = (
            f"mx_{name}_{kind}({a[0]}, {a[1]})"
            if floats
            else f"{a[0]} {sign} {a[1]} ? {a[0]} : {a[1]}"
        )
    elif name == "negate":
        text = f"-{a[0]}" if floats else _wrapping("-", kind, literal(0, operand), a[0])
    elif name == "relu":
        zero = literal(0, operand)
        text = f"mx_max_{kind}({a[0]}, {zero})" if floats else f"{a[0]} > {zero} ? {a[0]} : {zero}"
    elif name == "abs":
        text = f"mx_abs_{kind}({a[0]})"
    elif name in _ROUND:
        text = f"mx_{_ROUND[name]}_{kind}({a[0]})" if floats else a[0]
    elif name == "acos":  # of the nearest number in [-1, 1]
        one, low = literal(1, operand), literal(-1, operand)
        text = f"mx_acos_{kind}(mx_max_{kind}(mx_min_{kind}({a[0]}, {one}), {low}))"
    elif name in _CALLS:
        text = f"mx_{name}_{kind}({', '.join(a)})"
    else:
        raise AssertionError(f"the scalar operator {name} has no text")
    return rounded(text, dtype)


def conversion(source: DType, target: DType, a: str) -> str:
    """The text of a cast of the compute value ``a``."""
    if source is target:
        return a
    kind, into = _C[source], _C[target]
    if target is DType.bool:
        return f"{a} != 0"
    if kind in ("f32", "f64") and target.is_integral():
        return f"mx_{kind}_to_{into}({a})"
    half = HALVES.get(target)
    # Through an f32 it would be rounded twice; what a float16 holds of an integer is exact there.
    wide = ("f64",) if half == "f16" else ("f64", "i64", "u64", "i32", "u32")
    if half is not None and kind in wide and source is not DType.bool:
        return f"mx_{half}_to_f32(mx_{kind}_to_{half}({a}))"
    return rounded(a if kind == into else f"({into}){a}", target)


def expression(node: Expr, a: list[str]) -> str:
    """The text of an ``op``, ``cast`` or ``const`` node whose operands are spelt ``a``."""
    if node.kind == "const":
        return literal(node.data, node.dtype)
    if node.kind == "cast":
        return conversion(node.data, node.dtype, a[0])
    operand = node.args[1].dtype if node.data == "where" else node.args[0].dtype
    return operator(node.data, node.dtype, operand, a)
