"""The palette: every operation of ``ops`` that can be added to a graph, with its parameters."""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from maxlab.dtype import DType
from maxlab.graph.editing import OPERATIONS
from maxlab.graph.value import Value
from maxlab.opset import OPSET
from maxlab.opset.facts import Family

Kind = Literal["value", "values", "dims", "dtype", "device", "choice", "text", "data"]
"""The kind of a parameter: a value of the graph or a number, several of them, sizes, the name of a
dtype or a device, one of a few words, a text, or anything that Python writes as a literal.
"""

_UNTYPED: Final = re.compile(r"\b(Graph|Callable|Type|TensorType|BufferType|Quantization\w+)\b")
"""Types of arguments that no field can hold: functions, graphs, types, formats."""


class Parameter(NamedTuple):
    """A parameter of an operation.

    Attributes:
        name: As ``ops`` calls it.
        kind: What it takes.
        default: What it is unless given, as it is typed; None where it must be given.
        words: What has the words, of a ``choice``.
    """

    name: str
    kind: Kind
    default: str | None
    words: type[enum.Enum] | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """The words, of a ``choice``."""
        return () if self.words is None else tuple(str(one.value) for one in self.words)


class Offer(NamedTuple):
    """An operation that can be added.

    Attributes:
        name: A function of ``ops``.
        family: What kind of operation it is, in a word of the op table.
        says: What its result is, in a sentence.
        parameters: What it takes, in order.
        many: Whether the last parameter takes all values that follow.
        takes: Whether its first operand is a tensor, a buffer, or either.
    """

    name: str
    family: Family
    says: str
    parameters: tuple[Parameter, ...]
    many: bool
    takes: Literal["tensor", "buffer", "either"]


@cache
def offers() -> Mapping[str, Offer]:
    """Every operation whose arguments can be typed, by name, in alphabetic order.

    Example:
        >>> offer = offers()["softmax"]
        >>> offer.family, [(p.name, p.kind, p.default) for p in offer.parameters]
        ('activation', [('value', 'value', None), ('axis', 'data', '-1')])
    """
    return {
        name: _offer(name)
        for name in sorted(OPERATIONS)
        if not name.startswith("_") and _can_be_typed(OPERATIONS[name])
    }


def _can_be_typed(function: Callable[..., Any]) -> bool:
    """Whether a field can hold each argument, and values alone tell which list they are of."""
    parameters = list(inspect.signature(function).parameters.values())
    lists = [
        p for p in parameters if _parameter(p).kind == "values" and p.kind is not p.VAR_KEYWORD
    ]
    return len(lists) < 2 and not any(_UNTYPED.search(str(p.annotation)) for p in parameters)


def _offer(name: str) -> Offer:
    function = OPERATIONS[name]
    parameters = list(inspect.signature(function).parameters.values())
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    says = (inspect.getdoc(function) or "").split("\n\n")[0].replace("``", "").replace("\n", " ")
    return Offer(
        name,
        _family(name),
        says,
        tuple(_parameter(p) for p in parameters if p.kind is not p.VAR_KEYWORD),
        many,
        _takes(str(parameters[0].annotation) if parameters else ""),
    )


def _takes(note: str) -> Literal["tensor", "buffer", "either"]:
    """The kind of operand that has this annotation."""
    if "BufferValue" not in note:
        return "tensor"
    return "either" if "TensorValue" in note else "buffer"


def _family(name: str) -> Family:
    """The family of the row that ``name`` is, or of the module that composes it of others."""
    row = OPSET.get(f"mo.{name}")
    if row is not None:
        return row.family
    found: Family = sys.modules[OPERATIONS[name].__module__].FAMILY
    return found


def _parameter(parameter: inspect.Parameter) -> Parameter:
    note, default = str(parameter.annotation), parameter.default
    words: type[enum.Enum] | None = None
    if isinstance(default, enum.Enum) and not isinstance(default, DType):
        words = type(default)
        kind: Kind = "choice"
    elif "Value" in note and "Iterable" not in note and "Sequence" not in note:
        kind = "value"
    elif "Value" in note and "Dim" not in note:
        kind = "values"
    elif "Dim" in note:
        kind = "dims"
    elif "DType" in note:
        kind = "dtype"
    elif parameter.name == "device":
        kind = "device"
    elif note in ("str", "str | None"):
        kind = "text"
    else:
        kind = "data"
    if parameter.kind is parameter.VAR_POSITIONAL:
        return Parameter(parameter.name, "values", "")
    if default is parameter.empty:
        return Parameter(parameter.name, kind, None, words)
    return Parameter(parameter.name, kind, _typed(default), words)


def _typed(default: object) -> str:
    """``default`` as people type it."""
    if isinstance(default, enum.Enum):
        return str(default.name if isinstance(default, DType) else default.value)
    return default if isinstance(default, str) else repr(default)


def open_parameters(offer: Offer, count: int) -> list[Parameter]:
    """The parameters of ``offer`` that ``count`` values leave open."""
    if offer.parameters and offer.parameters[0].kind == "values" and not offer.many:
        return list(offer.parameters[1:] if count else offer.parameters)
    taken = [p.name for p in offer.parameters if p.kind == "value"][:count]
    return [p for p in offer.parameters if p.name not in taken]


def missing(offer: Offer, count: int) -> tuple[str, ...] | None:
    """The parameters of ``offer`` that must be given beside ``count`` values; None where it does
    not take so many."""
    named = offer.parameters[:-1] if offer.many else offer.parameters
    lists = [p for p in named if p.kind == "values"]
    if lists and named[0] is lists[0]:  # one parameter takes them all
        return tuple(p.name for p in named[1:] if p.default is None) if count else None
    places = [p for p in named if p.kind == "value"]
    if count > len(places) and not offer.many:
        return None
    # Values are operands in the order of the parameters that take them.
    taken = {p.name for p in places[:count]}
    return tuple(p.name for p in named if p.default is None and p.name not in taken)


def bound(offer: Offer, given: Sequence[Value]) -> list[Any]:
    """The leading arguments of ``offer`` for the values ``given``."""
    if offer.parameters and offer.parameters[0].kind == "values" and not offer.many:
        return [list(given)]
    return list(given)


__all__ = ["Kind", "Offer", "Parameter", "bound", "missing", "offers", "open_parameters"]
