"""Values of the IR in the words that a reader sees: types, sizes, attributes, places."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import Location
from maxlab.ir import Constant, DeviceRef, Dim, HostCall, Op, Poly, Shape, StaticDim, Type
from maxlab.ir.types import HandleType, Typed
from maxlab.lab import protocol
from maxlab.opset import OPSET

SMALL = 8
"""Constants of up to this many elements are written out."""

LONGEST = 160
"""Characters of an attribute's text."""


def dtype_text(dtype: DType) -> str:
    """The short name of ``dtype``: ``f32``, ``i64``, ``u8``."""
    short = dtype.short
    return short[0].replace("s", "i") + short[2:] if short[:2] in ("si", "ui") else short


def type_text(type: Type) -> str:
    """A type in one line: ``f32[batch, seq, 384]``; the device only when it is not the CPU."""
    if not isinstance(type, Typed) or isinstance(type, HandleType):
        return str(type)
    device = "" if type.device == DeviceRef.CPU() else f" on {type.device}"
    return f"{dtype_text(type.dtype)}{dims_text(type)}{device}"


def dims_text(type: Typed) -> str:
    """The dims of ``type`` in brackets: ``[batch, 10]``."""
    return f"[{', '.join(map(str, type.shape))}]"


def dims_of(type: Type) -> list[protocol.Dim]:
    """The dims as a document has them."""
    if not isinstance(type, Typed) or isinstance(type, HandleType):
        return []
    return [dim.dim if isinstance(dim, StaticDim) else str(dim) for dim in type.shape]


def nbytes_of(type: Type) -> int | None:
    """The bytes of a value, when all its dims are numbers."""
    if not isinstance(type, Typed) or isinstance(type, HandleType):
        return None
    total = 1
    for dim in type.shape:
        if not isinstance(dim, StaticDim):
            return None
        total *= dim.dim
    return total * type.dtype.size_in_bytes


def quantity(poly: Poly) -> int | str:
    """``poly`` as a number, or as an expression of the dims."""
    return poly.value if poly.is_constant else str(poly)


def constant_text(array: np.ndarray[Any, Any]) -> str:
    """The value of a small array; the size of a larger one."""
    if array.size > SMALL:
        return f"{array.size:,} values"
    return _plain(array.tolist())


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, float):
        return f"{value:.8g}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def attr_text(value: Any) -> str:
    """An attribute as text."""
    if isinstance(value, Constant):
        text = constant_text(value.array)
    elif isinstance(value, HostCall):
        text = value.name
    elif isinstance(value, DType):
        text = dtype_text(value)
    elif isinstance(value, Type):
        text = type_text(value)
    elif isinstance(value, (Dim, DeviceRef, str)):
        text = str(value)
    elif isinstance(value, (Shape, tuple, list)):
        text = "[" + ", ".join(attr_text(v) for v in value) + "]"
    elif value is None:
        text = "none"
    else:
        text = _plain(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def attrs_of(op: Op) -> dict[str, str]:
    """The attributes that a reader asks for, as the row of ``op`` says; that something is on the
    CPU goes without saying."""
    row = OPSET.get(op.name)
    if row is not None and row.shown is not None:
        return {key: attr_text(value) for key, value in row.shown(op.attrs).items()}
    return {key: attr_text(value) for key, value in op.attrs.items() if value != DeviceRef.CPU()}


def source_of(at: Location | None) -> protocol.Source | None:
    """The user's line as a document has it."""
    if at is None:
        return None
    made: protocol.Source = {
        "file": at.file,
        "line": at.line,
        "col": at.column,
        "text": at.text[:400],
        "function": at.function or None,
    }
    if at.end_column > at.column:
        made["end"] = at.end_column
    if at.cell:
        made["cell"] = at.cell
    return made
