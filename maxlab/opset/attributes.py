"""Schemas of attributes: which ones an op has, of which kinds, and which it may leave out.

A row of the op table declares one ``Attribute`` for each name. The verifier refuses an op whose
attributes do not obey; what reads them afterwards needs no test of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import shown
from maxlab.ir import Constant, DeviceRef, Dim, HostCall, Poly, Shape, Type
from maxlab.ir.function import Call
from maxlab.ir.types import FilterLayout

AttributeKind = Literal[
    "bool",
    "int",
    "float",
    "number",
    "text",
    "dim",
    "dtype",
    "device",
    "type",
    "constant",
    "layout",
    "call",
    "function",
    "bools",
    "ints",
    "floats",
    "dims",
    "types",
    "pairs",
]
"""The kinds of values. ``int`` and ``float`` are exact: ``True`` is no ``int``; an ``int`` is a
``float``. A ``number`` may be a ``bool`` too. A ``dim`` is an int, a ``Dim`` or the text of one.
``pairs`` are sequences whose parts only their own op reads."""


def _is_int(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_float(value: object) -> bool:
    return _is_int(value) or isinstance(value, (float, np.floating))


def _is_dim(value: object) -> bool:
    return _is_int(value) or isinstance(value, (Dim, str, Poly))


def _each(test: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, (tuple, list, Shape)) and all(map(test, value))


def _a(*classes: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, classes)


_TESTS: Final[Mapping[AttributeKind, tuple[Callable[[object], bool], str]]] = {
    "bool": (_a(bool, np.bool_), "a bool"),
    "int": (_is_int, "an int"),
    "float": (_is_float, "a float"),
    "number": (lambda value: _is_float(value) or isinstance(value, (bool, np.bool_)), "a number"),
    "text": (_a(str), "a str"),
    "dim": (_is_dim, "a dim"),
    "dtype": (_a(DType), "a DType"),
    "device": (_a(DeviceRef), "a DeviceRef"),
    "type": (_a(Type), "a type"),
    "constant": (_a(Constant), "a constant"),
    "call": (_a(Call), "a call of a compiled function"),
    "function": (_a(HostCall), "a function of Python"),
    "layout": (_a(FilterLayout), "a FilterLayout"),
    "bools": (_each(_a(bool, np.bool_)), "a sequence of bools"),
    "ints": (_each(_is_int), "a sequence of ints"),
    "floats": (_each(_is_float), "a sequence of floats"),
    "dims": (_each(_is_dim), "a sequence of dims"),
    "types": (_each(_a(Type)), "a sequence of types"),
    "pairs": (_each(_a(tuple, list)), "a sequence of pairs"),
}


_USUAL: Final[Mapping[AttributeKind, frozenset[type]]] = {
    "bool": frozenset({bool}),
    "int": frozenset({int}),
    "float": frozenset({float, int}),
    "number": frozenset({float, int, bool}),
    "text": frozenset({str}),
    "dtype": frozenset({DType}),
    "device": frozenset({DeviceRef}),
    "constant": frozenset({Constant}),
}
"""Types whose values all are of a kind: the test of most attributes, of which graphs have many."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an op.

    Attributes:
        kind: The kind of its values.
        optional: Whether an op may be without it.
        default: What an op without it means.
        none: Whether it may be ``None``.

    Example:
        >>> Attribute("int").wrong(True), Attribute("int").wrong(3)
        ('an int, got True', '')
    """

    kind: AttributeKind
    optional: bool = False
    default: Any = None
    none: bool = False

    def wrong(self, value: object) -> str:
        """The expected value and the kind of ``value``; empty if it will do."""
        if value is None and self.none:
            return ""
        test, words = _TESTS[self.kind]
        if test(value):
            return ""
        return f"{words}{' or None' if self.none else ''}, got {shown(value)}"


Schema = Mapping[str, Attribute]

BOOL = Attribute("bool")
INT = Attribute("int")
FLOAT = Attribute("float")
TEXT = Attribute("text")
DIM = Attribute("dim")
DIMS = Attribute("dims")
INTS = Attribute("ints")
PAIRS = Attribute("pairs")
DTYPE = Attribute("dtype")
DEVICE = Attribute("device")
TYPE = Attribute("type")
TYPES = Attribute("types")


def wrong_attributes(schema: Schema, attrs: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """The fault of ``attrs``, and how to mend it; None if they obey ``schema``.

    Example:
        >>> wrong_attributes({"axis": INT}, {"axis": 0})
        >>> wrong_attributes({"axis": INT}, {})
        ("lacks the attribute 'axis'", None)
        >>> wrong_attributes({"axis": INT}, {"axis": 0, "axes": 1})
        ("has no attribute 'axes'", "did you mean 'axis'?")
    """
    if _obeys(schema, attrs):
        return None
    for name, rule in schema.items():
        if name not in attrs:
            if not rule.optional:
                return f"lacks the attribute {name!r}", None
            continue
        wrong = rule.wrong(attrs[name])
        if wrong:
            return f"has the wrong attribute {name!r}: expected {wrong}", None
    for name in attrs:
        if name not in schema:
            import difflib

            close = difflib.get_close_matches(name, schema, 1)
            known = ", ".join(schema) or "none"
            fix = f"did you mean {close[0]!r}?" if close else f"its attributes are: {known}"
            return f"has no attribute {name!r}", fix
    return None


def _obeys(schema: Schema, attrs: Mapping[str, Any]) -> bool:
    for name, value in attrs.items():
        rule = schema.get(name)
        if rule is None or (type(value) not in _USUAL.get(rule.kind, ()) and rule.wrong(value)):
            return False
    return len(attrs) == len(schema) or all(
        rule.optional or name in attrs for name, rule in schema.items()
    )
