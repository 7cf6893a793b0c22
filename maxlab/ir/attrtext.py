"""How attributes, types and constants are written in MLIR's generic form."""

from __future__ import annotations

import math
import re
import struct
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import GraphError, MaxlabError
from maxlab.ir.constants import Constant, HostCall
from maxlab.ir.dims import Dim, Shape, mlir_text
from maxlab.ir.function import Call
from maxlab.ir.types import ConvInputLayout, DeviceRef, FilterLayout, HandleType, OpaqueType, Type

MLIR_ELEMENT: dict[DType, str] = {
    DType.bool: "i1",
    DType.float8_e4m3fn: "f8E4M3FN",
    DType.float8_e4m3fnuz: "f8E4M3FNUZ",
    DType.float8_e5m2: "f8E5M2",
    DType.float8_e5m2fnuz: "f8E5M2FNUZ",
    **{
        d: d.short
        for d in DType
        if d.is_integral() or d in (DType.float16, DType.bfloat16, DType.float32, DType.float64)
    },
}
"""The builtin element types; the dtypes left out have none in every MLIR in use."""

SMALL = 16
"""Constants of up to this many elements are written as numbers, larger ones as their bytes."""

METADATA = "mo."
"""Attributes of this prefix hold ids, names and scopes; an op's own ones with it are escaped."""

ESCAPED = "mo.attr:"

_PLAIN = re.compile(r"[ !#-\[\]-~]*+")
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*+")


def quote(text: str) -> str:
    """``text`` as a string literal; bytes that are not printable are written ``\\HH``."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    parts: list[str] = []
    for char in text:
        if char == '"' or char == "\\" or not char.isprintable():
            parts.extend(f"\\{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        else:
            parts.append(char)
    return '"' + "".join(parts) + '"'


def key_text(key: str) -> str:
    """The name of an op's attribute as it is written in its dictionary."""
    if key.startswith(METADATA):
        key = ESCAPED + key
    return key if _BARE.fullmatch(key) else quote(key)


def type_text(type: Type) -> str:
    """The text of a type."""
    if isinstance(type, (OpaqueType, HandleType)):
        return f"!mo.opaque<{quote(type.name)}>"
    return str(type)


def float_text(value: float) -> str:
    """A float as the shortest decimal that reads back exactly; its bits when it is not finite."""
    if math.isfinite(value):
        return _dotted(repr(value))
    return f"0x{struct.pack('>d', value).hex().upper()} : f64"


def _dotted(text: str) -> str:
    """MLIR wants a point in every float: ``1e-05`` is written ``1.0e-05``."""
    if "." in text:
        return text
    head, mark, exponent = text.partition("e")
    return f"{head}.0{mark}{exponent}"


def attr_text(value: Any) -> str:
    """The text of an attribute.

    Raises:
        GraphError: ML355, a value that no attribute can have.
    """
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "unit"
    if isinstance(value, (int, np.integer)):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return str(number)
        # Python writes no decimal number of thousands of digits.
        return f"#mo.int<{number}>" if number.bit_length() <= 1024 else f"#mo.int<{number:#x}>"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, (float, np.floating)):
        return float_text(float(value))
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    if isinstance(value, DType):
        return f"#mo.dtype<{value.short}>"
    if isinstance(value, Dim):
        return f"#mo.dim<{mlir_text(value)}>"
    if isinstance(value, Shape):
        return f"#mo.shape<{value.to_mlir()}>"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(attr_text(item) for item in value) + "]"
    if isinstance(value, Type):
        return type_text(value)
    if isinstance(value, DeviceRef):
        return f"#mo.device<{value}>"
    if isinstance(value, Constant):
        return constant_text(value.array)
    if isinstance(value, (FilterLayout, ConvInputLayout)):
        return value.to_mlir()
    if isinstance(value, Call):
        raise GraphError(
            "ML355",
            f"a call of {value.body.name} cannot be written: it is of a compiled function",
            fix="write the graph that was compiled",
        )
    if isinstance(value, HostCall):
        raise GraphError(
            "ML355",
            f"{value.name} is run by {value.kind}: a function of this process cannot be written",
            fix="save the module it comes from, and import that again",
        )
    raise GraphError(
        "ML355",
        f"{type(value).__name__} {value!r} cannot be an attribute of an op",
        fix="use numbers, strings, dims, shapes, types, devices, constants and tuples of them",
    )


def constant_text(array: np.ndarray[Any, Any]) -> str:
    """A dense attribute that holds exactly the bits of ``array``."""
    try:
        dtype = DType.from_numpy(array.dtype)
    except MaxlabError as error:
        raise GraphError(
            "ML355", f"a constant of {array.dtype} cannot be written: {error.what}"
        ) from None
    element = MLIR_ELEMENT.get(dtype)
    small = array.size <= SMALL
    if element is None or (dtype is DType.bool and not small):
        return f'#mo.dense<{dtype.short}, {list(array.shape)}, "0x{_hex(array)}">'
    kind = "tensor<" + "".join(f"{size}x" for size in array.shape) + f"{element}>"
    if not small:
        return f'dense<"0x{_hex(array)}"> : {kind}'
    if not array.size:
        return f"dense<> : {kind}"
    texts = [_element_text(item, dtype) for item in array.reshape(-1)]
    return f"dense<{_nest(texts, array.shape)}> : {kind}"


def _hex(array: np.ndarray[Any, Any]) -> str:
    return np.ascontiguousarray(array).tobytes().hex().upper()


def _element_text(item: Any, dtype: DType) -> str:
    if dtype is DType.bool:
        return "true" if item else "false"
    if not dtype.is_float():
        return str(int(item))
    value = float(item)
    if not math.isfinite(value):
        bits = np.asarray(item).reshape(1).view(f"u{dtype.size_in_bytes}")[0]
        return f"0x{int(bits):0{2 * dtype.size_in_bytes}X}"
    if dtype is DType.float32:
        short = str(item)
        if np.float32(float(short)) == item:
            return _dotted(short)
    return _dotted(repr(value))


def _nest(texts: list[str], shape: tuple[int, ...]) -> str:
    for size in reversed(shape):
        texts = [
            "[" + ", ".join(texts[start : start + size]) + "]"
            for start in range(0, len(texts), size)
        ]
    return texts[0]
