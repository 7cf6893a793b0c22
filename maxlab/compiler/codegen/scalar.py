"""Scalar expressions as text; the op table has the spelling of each operator in each language.

Values are computed in a *compute type*: halves in f32, rounded to the half after every op, as if
each op had stored its result; bools as i32; everything else as itself. Floats of 8 bits are f32
too; they are cast and moved, and nothing else is done with them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from maxlab.compiler.loops import Expr, walk
from maxlab.dtype import DType
from maxlab.errors import DTypeError
from maxlab.opset.core import scalar_text
from maxlab.opset.facts import Language

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
    DType.float8_e4m3fn: "f32",
    DType.float8_e4m3fnuz: "f32",
    DType.float32: "f32",
    DType.float64: "f64",
}
_STORED = {**_C, DType.bool: "u8", DType.float16: "u16", DType.bfloat16: "u16"}
_STORED |= {dtype: "u8" for dtype in DType if dtype.is_float8()}  # copied at least
HALVES = {
    DType.float16: "f16",
    DType.bfloat16: "bf16",
    DType.float8_e4m3fn: "e4m3fn",
    DType.float8_e4m3fnuz: "e4m3fnuz",
}
"""The dtypes that are computed in f32: names of the functions that read and round them."""
SIXTEEN = frozenset({DType.float16, DType.bfloat16})
"""Those for which a GPU has instructions."""
_UNSIGNED = {"i8": "u32", "i16": "u32", "i32": "u32", "i64": "u64", "u8": "u32", "u16": "u32"}
"""The types in which integers wrap: C computes nothing narrower than 32 bits."""


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


def rounded(text: str, dtype: DType, language: Language = "c") -> str:
    """``text``, an f32, rounded to the half type ``dtype``; unchanged for other types."""
    half = HALVES.get(dtype)
    if language == "cuda" and half is not None and dtype in SIXTEEN:
        return f"mx_round_{half}({text})"
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


@functools.cache
def _names(dtype: DType) -> Mapping[str, str]:
    """Types and constants that templates of scalar operators name, for operands of ``dtype``."""
    kind = _C[dtype]
    floats = is_float(dtype)
    return {
        "k": kind,
        "u": _UNSIGNED.get(kind, kind),
        "zero": literal(0, dtype),
        "one": literal(1, dtype),
        "minus_one": literal(-1, dtype) if floats else "",
        "infinity": literal(math.inf, dtype) if floats else "",
    }


def operator(name: str, dtype: DType, operand: DType, a: Sequence[str], language: Language) -> str:
    """The text of the scalar operator ``name`` with result ``dtype`` on operands of ``operand``
    spelt ``a``.

    Raises:
        GraphError: ML301, there is no such operator.
        DTypeError: ML107 or ML109, it takes no integers, or no floats.
    """
    spelling = scalar_text(name)[language]
    template = spelling.floats if is_float(operand) else spelling.integers
    if not template:
        raise _takes_none(name, operand)
    text = template.format(*a, **_names(operand))
    return rounded(text, dtype, language) if spelling.rounds else text


def _takes_none(name: str, operand: DType) -> DTypeError:
    code, wanted = ("ML109", "integers") if is_float(operand) else ("ML107", "floats")
    return DTypeError(
        code, f"{name} takes {wanted}, got {operand.name}", fix="cast the operand with ops.cast"
    )


def conversion(source: DType, target: DType, a: str, language: Language = "c") -> str:
    """The text of a cast of the compute value ``a``."""
    if source is target:
        return a
    kind, into = _C[source], _C[target]
    if target is DType.bool:
        return f"{a} != 0"
    if kind in ("f32", "f64") and target.is_integral():
        return f"mx_{kind}_to_{into}({a})"
    half = HALVES.get(target)
    # Through an f32 it would be rounded twice.
    # Of integers that an f32 rounds, a float16 and a float of 8 bits are past their largest.
    wide = ("f64", "i64", "u64", "i32", "u32") if half == "bf16" else ("f64",)
    if half is not None and kind in wide and source is not DType.bool:
        return f"mx_{half}_to_f32(mx_{kind}_to_{half}({a}))"
    return rounded(a if kind == into else f"({into}){a}", target, language)


def is_representable(node: Expr) -> bool:
    """Whether the compute value of ``node`` surely is one of its dtype, so that to store it rounds
    nothing: what is summed up may be more exact than that.
    """
    known: dict[int, bool] = {}
    for n in walk([node]):
        if n.kind in ("acc", "tile"):
            known[n.number] = False
        elif n.kind == "op" and n.dtype in HALVES and scalar_text(n.data)["cuda"].rounds:
            known[n.number] = True
        elif n.kind in ("op", "guard") or (n.kind == "cast" and n.data is n.dtype):
            values = [known[a.number] for a in n.args if a.dtype is n.dtype]
            known[n.number] = bool(values) and all(values)
        else:
            known[n.number] = True
    return known[node.number]


def expression(node: Expr, a: Sequence[str], language: Language) -> str:
    """The text of an ``op``, ``cast`` or ``const`` node whose operands are spelt ``a``."""
    if node.kind == "const":
        return literal(node.data, node.dtype)
    if node.kind == "cast":
        return conversion(node.data, node.dtype, a[0], language)
    # Of three operands the first is a condition.
    operand = node.args[1 if len(node.args) == 3 else 0].dtype
    return operator(node.data, node.dtype, operand, a, language)
