"""Reads the texts in the fields of a view: values, sizes, types and arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, MaxlabError
from maxlab.graph.editing import Editor
from maxlab.graph.value import Value
from maxlab.ir import BufferType, DeviceRef, Shape, TensorType, Type
from maxlab.ir.dims import parse_dim
from maxlab.ir.types import Typed
from maxlab.lab.palette import Kind, Offer, Parameter
from maxlab.opset import lookup


class FieldError(ArgumentError):
    """Raised when the text that was typed for a parameter cannot be read.

    Attributes:
        field: The parameter.
        said: What is wrong.
    """

    def __init__(self, field: str, what: str, fix: str) -> None:
        super().__init__("ML808", f"{field}: {what}", fix=fix)
        self.field = field
        self.said = what


def arguments(
    editor: Editor, offer: Offer, values: Sequence[Value | str], typed: Mapping[str, str]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of ``offer``: its operands, and the rest by name.

    Args:
        editor: Of the graph, whose values fields may name.
        offer: The operation.
        values: What its first operands are.
        typed: What was typed for parameters; empty texts and parameters that are not there keep
            their defaults.

    Raises:
        FieldError: ML808, a text that its parameter cannot have, or none where one is needed.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Editor, Graph, TensorType
        >>> from maxlab.lab.fields import arguments
        >>> from maxlab.lab.palette import offers
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 6])]) as graph:
        ...     graph.output(graph.inputs[0].tensor)
        >>> typed = {"x": "input0", "shape": "n, 2, 3"}
        >>> arguments(Editor(graph), offers()["reshape"], [], typed)[1]
        {'shape': [Dim('n'), Dim(2), Dim(3)]}
    """
    given: list[Any] = [editor.value(v) for v in values]
    named = offer.parameters[:-1] if offer.many else offer.parameters
    operands: list[Any] = []
    others: dict[str, Any] = {}
    if named and named[0].kind == "values":
        first = typed.get(named[0].name, "").strip()
        operands = [given + (read_values(editor, named[0].name, first) if first else [])]
        named, given = named[1:], []
        if not operands[0]:
            raise _nothing(offer.parameters[0])
    is_leading = True
    for parameter in named:
        text = typed.get(parameter.name, "").strip()
        if parameter.kind == "value" and given:
            value: Any = given.pop(0)
        elif text == "" or text == parameter.default:
            if parameter.default is None:
                raise _nothing(parameter)
            is_leading = False
            continue
        else:
            value = read(editor, parameter, text)
        if parameter.kind == "value" and is_leading and not others:
            operands.append(value)
        else:
            others[parameter.name] = value
    if offer.many:
        rest = offer.parameters[-1].name
        text = typed.get(rest, "").strip()
        operands += given + (read_values(editor, rest, text) if text else [])
    return operands, others


def _nothing(parameter: Parameter) -> FieldError:
    return FieldError(parameter.name, "nothing is given", f"{WRITE[parameter.kind]}")


WRITE: Final[Mapping[str, str]] = {
    "value": "write the name or id of a value, such as input0 or v3, or a number",
    "values": "write names or ids of values with commas between them",
    "dims": "write sizes with commas between them, such as batch, 4",
    "dtype": "write the name of a dtype, such as float32",
    "device": "write cpu, or gpu:0",
    "choice": "write one of the words that are offered",
    "text": "write a text",
    "data": "write a number, or several with commas between them, as in Python",
    "type": "write a dtype and sizes, such as float32[batch, 8]",
}
"""How each kind is typed."""


def read(editor: Editor, parameter: Parameter, text: str) -> Any:
    """The value of ``text`` for ``parameter``.

    Raises:
        FieldError: ML808, it means nothing there.
    """
    name, kind = parameter.name, parameter.kind
    if kind == "value":
        return read_value(editor, name, text)
    if kind == "values":
        return read_values(editor, name, text)
    if kind == "text":
        return text
    try:
        if kind == "dims":
            return read_dims(text)
        if kind == "dtype":
            return DType[text]
        if kind == "device":
            return DeviceRef.from_mlir(text if ":" in text else f"{text}:0")
        if kind == "choice":
            return _choice(parameter, text)
        return _literal(text)
    except (MaxlabError, ValueError, SyntaxError, KeyError, TypeError, RecursionError) as error:
        told = f"{text!r} cannot be read"
        fix = WRITE[kind]
        if parameter.choices:
            fix = f"write one of {', '.join(parameter.choices)}"
        raise FieldError(name, told, fix) from error


def _choice(parameter: Parameter, text: str) -> Any:
    if parameter.words is None:
        raise ValueError(text)
    return {str(member.value): member for member in parameter.words}[text]


def _literal(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    return words[text] if text in words else ast.literal_eval(text)


def read_dims(text: str) -> Any:
    """The sizes ``text`` names: ``batch, 2 * n``, with or without brackets.

    Raises:
        ParseError: It names none.
    """
    inner = re.fullmatch(r"\s*[\[(](.*)[\])]\s*", text, re.DOTALL)
    return [parse_dim(part) for part in _split(inner[1] if inner else text)]


def _split(text: str) -> list[str]:
    """``text`` at its commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def read_value(editor: Editor, field: str, text: str) -> Any:
    """The value that ``text`` names, or the number or numbers that it is.

    Raises:
        FieldError: ML808, neither.
    """
    name = text.removeprefix("%")
    try:
        return editor.value(name)
    except MaxlabError as error:
        try:
            found = _literal(text)
        except (ValueError, SyntaxError, KeyError, TypeError, RecursionError):
            raise FieldError(field, f"there is no value {text!r}", WRITE["value"]) from error
        if found is None or isinstance(found, (str, dict, set)):
            raise FieldError(field, f"{text!r} is no number", WRITE["value"]) from error
        return found


def read_values(editor: Editor, field: str, text: str) -> list[Any]:
    """The values that ``text`` names, with commas between them.

    Raises:
        FieldError: ML808, one of them is none.
    """
    return [read_value(editor, field, part) for part in _split(text)]


# ---------------------------------------------------------------- attributes and types
_KINDS: Final[Mapping[str, Kind]] = {
    "bool": "data",
    "int": "data",
    "float": "data",
    "number": "data",
    "text": "text",
    "dtype": "dtype",
    "ints": "data",
    "floats": "data",
    "bools": "data",
    "dims": "dims",
}
"""How each kind of attribute is typed; others are not."""


def readable_attributes(op: str) -> Iterable[str]:
    """The attributes of the operation ``op`` that can be changed by typing."""
    return [name for name, rule in lookup(op).attrs.items() if rule.kind in _KINDS]


def attribute(op: str, key: str) -> Parameter:
    """The attribute ``key`` of the operation ``op`` as a parameter.

    Raises:
        FieldError: ML808, ``op`` has no such attribute that can be typed.
    """
    rule = lookup(op).attrs.get(key)
    if rule is None or rule.kind not in _KINDS:
        known = ", ".join(readable_attributes(op)) or "none"
        raise FieldError(key, "it has no such attribute", f"those that it has are {known}")
    return Parameter(key, _KINDS[rule.kind], None if not rule.optional else "")


def attribute_text(value: object) -> str:
    """The value of an attribute as it is typed; empty for none."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, DType):
        return str(value.name)
    if isinstance(value, (Shape, tuple, list)):
        return ", ".join(attribute_text(item) for item in value)
    return str(value)


def as_attribute(value: object) -> object:
    """The value that was read for an attribute, as attributes are kept."""
    return tuple(value) if isinstance(value, list) else value


def type_text(type: Type) -> str:
    """A type as it is typed: ``float32[batch, 8]``; with the device where that is not the CPU."""
    if not isinstance(type, Typed):
        return str(type)
    text = f"{type.dtype.name}[{', '.join(map(str, type.shape))}]"
    if isinstance(type, BufferType):
        text = f"buffer {text}"
    return text if str(type.device) == "cpu:0" else f"{text} {type.device}"


_TYPE = re.compile(r"\s*(buffer\s+)?(\w+)\s*(?:\[(.*)\])?\s*([a-z]+:\d+|cpu|gpu)?\s*", re.DOTALL)


def read_type(field: str, text: str) -> TensorType | BufferType:
    """The type that ``text`` stands for.

    Raises:
        FieldError: ML808, it stands for none.

    Example:
        >>> from maxlab.lab.fields import read_type
        >>> read_type("type", "float32[batch, 8]")
        TensorType(dtype=DType.float32, shape=[Dim('batch'), Dim(8)], device=cpu:0)
    """
    found = _TYPE.fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)
        device = found[4] or "cpu"
        place = DeviceRef.from_mlir(device if ":" in device else f"{device}:0")
        dims = read_dims(found[3]) if (found[3] or "").strip() else []
        kind = BufferType if found[1] else TensorType
        return kind(DType[found[2]], Shape(dims), place)
    except (MaxlabError, ValueError, KeyError, TypeError) as error:
        raise FieldError(field, f"{text!r} is no type", WRITE["type"]) from error


__all__ = [
    "FieldError",
    "WRITE",
    "arguments",
    "as_attribute",
    "attribute",
    "attribute_text",
    "read",
    "read_type",
    "read_value",
    "readable_attributes",
    "type_text",
]
