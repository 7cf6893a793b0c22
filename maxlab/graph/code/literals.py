"""Attributes of operations as expressions of Python: numbers, dims, dtypes, devices and types."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import GraphError
from maxlab.graph.code.text import (
    Atom,
    Call,
    Listed,
    Node,
    call,
    items,
    method,
    name,
    number,
    string,
    together,
)
from maxlab.ir import (
    BufferType,
    Constant,
    DeviceRef,
    Dim,
    FilterLayout,
    Shape,
    StaticDim,
    SymbolicDim,
    TensorType,
)
from maxlab.ir.types import OpaqueType, Typed
from maxlab.opset.core import Array

ROW = 72
"""Characters of a line of numbers."""
_SUM = 5
"""How tightly a sum holds together; see ``text``."""


def literal(value: Any) -> Node:
    """The expression whose value is ``value``, an attribute.

    Raises:
        GraphError: ML837, no expression has it.
    """
    if value is None or isinstance(value, (bool, np.bool_)):
        return Atom(str(value))
    if isinstance(value, DType):
        return name(f"DType.{value.name}")
    if isinstance(value, enum.Enum):
        return name(f"{type(value).__name__}.{value.name}")
    if isinstance(value, (int, np.integer)):
        return number(str(int(value)))
    if isinstance(value, (float, np.floating)):
        return real(float(value))
    if isinstance(value, str):
        return string(value)
    if isinstance(value, Dim):
        return dim(value)
    if isinstance(value, Shape):
        return items(map(dim, value))
    if isinstance(value, tuple):
        return together(map(literal, value))
    if isinstance(value, list):
        return items(map(literal, value))
    if isinstance(value, DeviceRef):
        return device(value)
    if isinstance(value, Typed):
        return type_(value)
    if isinstance(value, OpaqueType):
        return call("OpaqueType", string(value.name))
    if isinstance(value, Constant):
        return call("Constant", array(value.array))
    raise GraphError(
        "ML837",
        f"its {value!r} is of this process alone",
        fix="leave the operation out of what is written",
    )


def real(value: float) -> Node:
    """The float ``value``."""
    if math.isfinite(value):
        return number(repr(value).replace("e+", "e"))
    return call("float", string(str(value)))


def dim(value: Dim, *, alone: bool = False) -> Node:
    """The dim ``value``, where a dim may be written as a number or as a name; ``alone`` where only
    a ``Dim`` will do."""
    if isinstance(value, StaticDim):
        return call("Dim", number(str(value.dim))) if alone else number(str(value.dim))
    if isinstance(value, SymbolicDim):
        return call("Dim", string(value.name)) if alone else string(value.name)
    text = value.poly.source(lambda name: f'Dim("{name}")')
    return Atom(re.sub(r'\((Dim\("\w+"\))\)', r"\1", text), _SUM)


def dims(shape: Iterable[Any]) -> Node:
    """A shape, as a list."""
    return items(dim(Dim(size)) for size in shape)


def device(value: DeviceRef) -> Node:
    """The device ``value``."""
    made = "DeviceRef.GPU" if value.is_gpu() else "DeviceRef.CPU"
    return call(made, *([number(str(value.id))] if value.id else []))


def type_(value: Typed) -> Call:
    """The type ``value``; the CPU is not told."""
    kind = "BufferType" if isinstance(value, BufferType) else "TensorType"
    assert isinstance(value, (TensorType, BufferType))
    parts = [literal(value.dtype), items(map(dim, value.shape))]
    if value.device != DeviceRef.CPU():
        parts.append(device(value.device))
    for layout in FilterLayout:
        if value == type(value)(value.dtype, value.shape, value.device, layout):
            device_ = [] if len(parts) > 2 else [device(value.device)]
            return call(kind, *parts, *device_, literal(layout))
    return call(kind, *parts)


def has_layout(value: Typed) -> bool:
    """Whether ``value`` is the type of a filter, which says how its dims are ordered."""
    return value != type(value)(value.dtype, value.shape, value.device)


# ---------------------------------------------------------------- arrays
def numbers(array: Array) -> Iterator[Node]:
    """The elements of ``array`` as nested lists: first as short as they can be, then exactly."""
    if array.dtype == np.bool_ or array.dtype.kind in "iu":
        yield _nested(array.tolist())
        return
    if array.dtype != np.float64:
        yield _nested(_shortest(array))
    yield _nested(array.astype(np.float64).tolist())


def _shortest(array: Array) -> Any:
    """The elements in as few digits as tell them apart from others of their dtype."""
    flat = [float(str(item)) for item in array.reshape(-1)]
    return np.array(flat, np.float64).reshape(array.shape).tolist()


def _nested(value: Any) -> Node:
    return items(map(_nested, value)) if isinstance(value, list) else literal(value)


def array(value: Array) -> Node:
    """An array with exactly the bits of ``value``: by its numbers where that is possible."""
    kind = DType.from_numpy(value.dtype)
    for node in numbers(value):
        found = np.array(_value_of(node), np.float64 if kind.is_float() else value.dtype)
        if value.size and found.astype(value.dtype).tobytes() == value.tobytes():
            return _in_rows(node, value) or call("np.array", node, _dtype(kind))
    raw = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
    made = call("np.frombuffer", call("bytes.fromhex", string(raw.tobytes().hex())), _dtype(kind))
    if value.ndim == 1:
        return made
    sizes = [number(str(size)) for size in value.shape]
    return method(made, "reshape", together(sizes))


def is_wide(node: Node) -> bool:
    """Whether ``node``, nested lists, has a list of numbers that is too long for a line."""
    if not isinstance(node, Listed):
        return False
    if any(isinstance(item, Listed) for item in node.items):
        return any(map(is_wide, node.items))
    return len(node.flat()) > ROW


def _in_rows(node: Node, value: Array) -> Node | None:
    """The array ``value``, whose numbers are ``node``, in rows that fit in a line each; None where
    they do anyway. The formatter would put each number of a longer list on a line of its own."""
    if not is_wide(node):
        return None
    kind = DType.from_numpy(value.dtype)
    flat = list(_leaves(node))
    most = max(ROW // (max(len(one.flat()) for one in flat) + 2), 1)
    width = max((n for n in range(1, most + 1) if len(flat) % n == 0), default=1)
    sizes = [number(str(size)) for size in value.shape]
    if width * 2 >= most:
        rows = [items(flat[at : at + width]) for at in range(0, len(flat), width)]
        return method(call("np.array", items(rows), _dtype(kind)), "reshape", *sizes)
    rows = [items(flat[at : at + most]) for at in range(0, len(flat), most)]
    made = method(call("np.concatenate", items(rows)), "astype", _dtype(kind))
    return made if value.ndim == 1 else method(made, "reshape", *sizes)


def _leaves(node: Node) -> Iterator[Node]:
    if isinstance(node, Listed):
        for item in node.items:
            yield from _leaves(item)
    else:
        yield node


def _dtype(kind: DType) -> Node:
    """NumPy's dtype of ``kind``."""
    native = np.dtype(kind.ml_numpy)
    if native.isbuiltin == 1:
        return name(f"np.{'bool_' if kind is DType.bool else native.name}")
    return name(f"DType.{kind.name}.ml_numpy")


def _value_of(node: Node) -> Any:
    return eval(node.flat(), {"__builtins__": {"float": float}})  # numbers and brackets alone


def uniform(value: Array) -> Node | None:
    """An array like ``value``, all of whose elements are one number; None where they differ."""
    if value.size < 2:
        return None
    first = value.reshape(-1)[:1]
    if np.broadcast_to(first, value.size).tobytes() != np.ascontiguousarray(value).tobytes():
        return None
    kind = DType.from_numpy(value.dtype)
    if np.dtype(kind.ml_numpy).isbuiltin != 1:
        return None
    sizes = [number(str(size)) for size in value.shape]
    shape = sizes[0] if len(sizes) == 1 else together(sizes)
    if not first.tobytes().strip(b"\0"):
        return call("np.zeros", shape, _dtype(kind))
    if first.tobytes() == np.ones(1, value.dtype).tobytes():
        return call("np.ones", shape, _dtype(kind))
    for node in numbers(first):
        filled = next(iter(node.items)) if hasattr(node, "items") else node
        if np.full(1, _value_of(filled)).astype(value.dtype).tobytes() == first.tobytes():
            return call("np.full", shape, filled, _dtype(kind))
    if kind.is_float() and np.isinf(first[0]):
        sign = "-" if first[0] < 0 else ""
        return call("np.full", shape, Atom(f"{sign}np.inf", 7), _dtype(kind))
    return None


__all__ = [
    "array",
    "device",
    "dim",
    "dims",
    "has_layout",
    "is_wide",
    "literal",
    "numbers",
    "real",
    "type_",
    "uniform",
]
