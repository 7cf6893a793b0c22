"""Completions after ``ops.``: the names of operations, their parameters and allowed words."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypedDict

from maxlab import nn
from maxlab.dtype import DType
from maxlab.graph.editing import OPERATIONS
from maxlab.ir import DeviceRef
from maxlab.lab import docstrings

MOST_TEXT = 160
"""Characters of what is said of an operation."""


class ParameterRow(TypedDict):
    """A parameter as the page completes it."""

    name: str
    default: str
    """As Python writes it; empty where it must be given."""
    values: list[str]
    """The values that it may have, as Python writes them; empty where that is no short list."""


class OperationRow(TypedDict):
    """An operation or a layer as the page completes it."""

    module: Literal["ops", "nn"]
    name: str
    signature: str
    says: str
    parameters: list[ParameterRow]


def rows() -> list[OperationRow]:
    """Every operation of ``ops``, and every layer of ``nn``, each in alphabetic order.

    Example:
        >>> row = next(row for row in rows() if row["name"] == "softmax")
        >>> row["signature"], [p["name"] for p in row["parameters"]]
        ('(value, axis=-1)', ['value', 'axis'])
    """
    operations = [n for n in sorted(OPERATIONS) if not n.startswith("_")]
    layers = [n for n in sorted(nn.__all__) if isinstance(getattr(nn, n), type)]
    return [
        *(_row("ops", name, OPERATIONS[name]) for name in operations),
        *(_row("nn", name, getattr(nn, name)) for name in layers),
    ]


def _row(module: Literal["ops", "nn"], name: str, function: Callable[..., Any]) -> OperationRow:
    parameters = list(inspect.signature(function).parameters.values())
    says = docstrings.read(function).says.replace("``", "")
    return {
        "module": module,
        "name": name,
        "signature": f"({', '.join(map(_written, parameters))})",
        "says": says if len(says) <= MOST_TEXT else f"{says[: MOST_TEXT - 1]}…",
        "parameters": [
            {"name": p.name, "default": _default(p), "values": _values(p)}
            for p in parameters
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY)
        ],
    }


def _written(parameter: inspect.Parameter) -> str:
    is_many, is_named = parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD
    star = "*" if parameter.kind is is_many else "**" if parameter.kind is is_named else ""
    default = _default(parameter)
    return f"{star}{parameter.name}" + (f"={default}" if default else "")


def _default(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is parameter.empty:
        return ""
    if isinstance(default, type):
        return default.__name__
    if isinstance(default, DeviceRef):
        return f"DeviceRef.{'GPU' if default.is_gpu() else 'CPU'}({default.id or ''})"
    return _code(default) if isinstance(default, enum.Enum) else repr(default)


def _code(value: enum.Enum) -> str:
    return f"{type(value).__name__}.{value.name}"


def _values(parameter: inspect.Parameter) -> list[str]:
    words = _words(parameter)
    return [*words, "None"] if words and parameter.default is None else words


def _words(parameter: inspect.Parameter) -> list[str]:
    note, default = str(parameter.annotation), parameter.default
    if isinstance(default, bool) or note == "bool":
        return ["True", "False"]
    if "DType" in note or isinstance(default, DType):
        return [_code(one) for one in DType]
    if isinstance(default, enum.Enum):
        return [_code(one) for one in type(default)]
    if note.startswith("Literal["):
        return [part.strip() for part in note[len("Literal[") : -1].split(",")]
    return []


__all__ = ["OperationRow", "ParameterRow", "rows"]
