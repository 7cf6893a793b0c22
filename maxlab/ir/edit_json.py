"""Records as JSON, exactly: what is read back says the same, to the bit.

Types and attributes are the texts that they have in MLIR's generic form (``ir.attrtext``)::

    {"edit": "set_attr", "op": "n3", "key": "axis", "old": "-1", "new": "0", "before": null}

An attribute that is not there is ``null``. Keys stand in one order, so equal records have equal
texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NoReturn, TypeVar

from maxlab.errors import GraphError, Location, MaxlabError, shown
from maxlab.ir.attrparse import AttributeReader
from maxlab.ir.attrtext import attr_text, type_text
from maxlab.ir.edit import (
    AddArgument,
    AddOp,
    BlockData,
    Edit,
    MoveOp,
    OpData,
    OrderArguments,
    RemoveArgument,
    RemoveOp,
    ReplaceUses,
    SetAttr,
    SetName,
    SetNote,
    SetOperands,
    SetParameters,
    SetResults,
    SetSource,
    SetType,
    SourceData,
    ValueData,
)
from maxlab.ir.listening import ABSENT
from maxlab.ir.types import HandleType, Type

KINDS: tuple[type[Edit], ...] = (
    AddOp,
    RemoveOp,
    MoveOp,
    AddArgument,
    RemoveArgument,
    OrderArguments,
    SetOperands,
    ReplaceUses,
    SetResults,
    SetAttr,
    SetName,
    SetType,
    SetSource,
    SetParameters,
    SetNote,
)
"""All records."""

_MAX_DEPTH = 48
T = TypeVar("T")


def _name(kind: type[Edit]) -> str:
    return re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


_BY_NAME = {_name(kind): kind for kind in KINDS}


# ---------------------------------------------------------------- writing
def to_json(edit: Edit) -> dict[str, Any]:
    """``edit`` as JSON data.

    Raises:
        GraphError: ML355, an attribute or a type is of this process alone, such as a ``HostCall``.

    Example:
        >>> from maxlab.ir.edit import SetName
        >>> to_json(SetName("v3", "", "hidden"))
        {'edit': 'set_name', 'target': 'v3', 'old': '', 'new': 'hidden'}
    """
    made: dict[str, Any] = {"edit": _name(type(edit))}
    for field in fields(edit):
        value = getattr(edit, field.name)
        attribute = isinstance(edit, SetAttr) and field.name in ("old", "new")
        made[field.name] = _attr(value) if attribute else _written(value)
    return made


def _attr(value: Any) -> str | None:
    return None if value is ABSENT else attr_text(value)


def _written(value: Any) -> Any:
    if isinstance(value, (OpData, ValueData, BlockData, SourceData, Location)):
        return {
            f.name: [[key, attr_text(attr)] for key, attr in value.attrs]
            if isinstance(value, OpData) and f.name == "attrs"
            else _written(getattr(value, f.name))
            for f in fields(value)
            if f.compare
        }
    if isinstance(value, tuple):
        return [_written(item) for item in value]
    if isinstance(value, HandleType):
        raise GraphError(
            "ML355",
            f"{value} cannot be written: it is of a compiled function",
            fix="write the graph that was compiled",
        )
    return type_text(value) if isinstance(value, Type) else value


# ---------------------------------------------------------------- reading
def from_json(data: Any) -> Edit:
    """The record that ``data`` is.

    Raises:
        GraphError: ML359, it is no record: a field is missing, is too much or has another type than
            it should.

    Example:
        >>> from_json({"edit": "set_name", "target": "v3", "old": "", "new": "hidden"})
        SetName(target='v3', old='', new='hidden')
    """
    name = data.get("edit") if isinstance(data, dict) else None
    kind = _BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        _fail("the edit", f"one of {', '.join(_BY_NAME)}", data)
    given = {key: value for key, value in data.items() if key != "edit"}
    made: Edit = kind(**_fields(_name(kind), given, _READERS[kind]))
    return made


Reader = Callable[[str, Any], Any]


def _fail(where: str, expected: str, got: Any) -> NoReturn:
    raise GraphError(
        "ML359",
        f"{where}: expected {expected}, got {shown(got)}",
        fix="write what maxlab.ir.edit_json.to_json gives",
    )


def _fields(where: str, data: Any, readers: Mapping[str, Reader]) -> dict[str, Any]:
    if not isinstance(data, dict):
        _fail(where, "an object", data)
    if set(data) != set(readers):
        _fail(where, f"the fields {', '.join(readers)}", sorted(map(str, data)))
    return {key: read(f"{where}.{key}", data[key]) for key, read in readers.items()}


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        _fail(where, "a text", value)
    return value


def _number(where: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        _fail(where, "a whole number", value)
    return value


def _maybe(read: Callable[[str, Any], T]) -> Callable[[str, Any], T | None]:
    return lambda where, value: None if value is None else read(where, value)


def _list(read: Callable[[str, Any], T]) -> Callable[[str, Any], tuple[T, ...]]:
    def each(where: str, value: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            _fail(where, "a list", value)
        return tuple([read(f"{where}[{n}]", item) for n, item in enumerate(value)])

    return each


def _pair(first: Reader, second: Reader) -> Reader:
    def both(where: str, value: Any) -> tuple[Any, Any]:
        if not isinstance(value, list) or len(value) != 2:
            _fail(where, "a list of two", value)
        return first(f"{where}[0]", value[0]), second(f"{where}[1]", value[1])

    return both


def _parsed(where: str, value: Any, what: str, read: Callable[[AttributeReader], T]) -> T:
    text = _text(where, value)
    try:
        reader = AttributeReader(text, where)
        made = read(reader)
        if reader.token:
            reader.fail("expected the end of the text")
    except MaxlabError as error:
        raise GraphError(
            "ML359",
            f"{where}: expected {what}, got {shown(text)}: {error.what}",
            fix="write what maxlab.ir.edit_json.to_json gives",
        ) from None
    return made


def _type(where: str, value: Any) -> Type:
    return _parsed(where, value, "a type", AttributeReader.type)


def _attribute(where: str, value: Any) -> Any:
    return _parsed(where, value, "an attribute", AttributeReader.attribute)


def _absent_or_attr(where: str, value: Any) -> Any:
    return ABSENT if value is None else _attribute(where, value)


def _object(kind: Callable[..., T], readers: Mapping[str, Reader]) -> Callable[[str, Any], T]:
    return lambda where, value: kind(**_fields(where, value, readers))


_value = _object(ValueData, {"id": _text, "type": _type, "name": _text})
_location = _object(
    Location,
    {
        "file": _text,
        "line": _number,
        "column": _number,
        "text": _text,
        "function": _text,
        "end_column": _number,
        "cell": _text,
    },
)
_source = _object(SourceData, {"loc": _maybe(_location), "scope": _text, "origins": _list(_text)})


def _op(where: str, value: Any) -> OpData:
    if where.count(".regions[") > _MAX_DEPTH:
        _fail(where, f"regions that are nested at most {_MAX_DEPTH} deep", value)
    made: OpData = _object(OpData, _OP)(where, value)
    return made


_block = _object(BlockData, {"args": _list(_value), "ops": _list(_op)})
_OP: dict[str, Reader] = {
    "id": _text,
    "name": _text,
    "operands": _list(_text),
    "results": _list(_value),
    "attrs": _list(_pair(_text, _attribute)),
    "source": _source,
    "regions": _list(_block),
}
_place = _pair(_maybe(_text), _number)
_texts = _list(_text)
_ADDED_OP: dict[str, Reader] = {"block": _place, "before": _maybe(_text), "op": _op}
_ADDED_ARGUMENT: dict[str, Reader] = {"block": _place, "index": _number, "value": _value}
_READERS: dict[type[Edit], dict[str, Reader]] = {
    AddOp: _ADDED_OP,
    RemoveOp: _ADDED_OP,
    MoveOp: {"block": _place, "op": _text, "old": _maybe(_text), "new": _maybe(_text)},
    AddArgument: _ADDED_ARGUMENT,
    RemoveArgument: _ADDED_ARGUMENT,
    OrderArguments: {"block": _place, "old": _texts, "new": _texts},
    SetOperands: {"op": _text, "old": _texts, "new": _texts},
    ReplaceUses: {"old": _text, "new": _text, "places": _list(_pair(_text, _number))},
    SetResults: {"op": _text, "old": _list(_value), "new": _list(_value)},
    SetAttr: {
        "op": _text,
        "key": _text,
        "old": _absent_or_attr,
        "new": _absent_or_attr,
        "before": _maybe(_text),
    },
    SetName: {"target": _text, "old": _text, "new": _text},
    SetType: {"value": _text, "old": _type, "new": _type},
    SetSource: {"op": _text, "old": _source, "new": _source},
    SetParameters: {"old": _texts, "new": _texts},
    SetNote: {
        "table": _text,
        "key": _text,
        "old": _maybe(_text),
        "new": _maybe(_text),
        "before": _maybe(_text),
    },
}


__all__ = ["KINDS", "from_json", "to_json"]
