"""Functions as JSON data, exactly: what is read back has the same text, to the bit.

An operation is one object, with the fields that the records of edits have (``ir.edit_json``)::

    {"attrs": [["axis", "-1"]], "id": "n3", "name": "mo.softmax", "operands": ["v2"],
     "results": [{"id": "v3", "name": "scores", "type": "!mo.tensor<[n, 4], f32>"}]}

Types and attributes are the texts that they have in MLIR's generic form (``ir.attrtext``). Fields
with the value that they mostly have are left out: no attributes, no name, no scope, no regions. A
constant of more than `SMALL` elements is named by the hash of its bytes, which stand elsewhere.

The places of operations in the user's code stand apart, each once, with the operations ``of`` it: a
program whose lines move leaves the operations as they are.

Fields that this version does not know are kept, by the path of the object that has them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import GraphError, Location, MaxlabError, shown
from maxlab.ir.attrparse import AttributeReader
from maxlab.ir.attrtext import SMALL, attr_text, type_text
from maxlab.ir.constants import Constant
from maxlab.ir.core import Block, Op, Value
from maxlab.ir.function import Function
from maxlab.ir.printer import MAX_DEPTH, VALUE_ID
from maxlab.ir.types import Type

Json = dict[str, Any]
Unknown = dict[str, Json]
"""Fields that are not known, by the path of the object that has them: ``""`` is the function,
``n3`` an operation or ``a0`` an input of it, ``body/n3`` an operation of its subgraph ``body``."""
Refuse = Callable[[str, str], NoReturn]
"""Raises the error of what is wrong, at the object that has the id that is given."""

_FUNCTION = frozenset({"inputs", "name", "ops", "parameters", "sources", "subgraphs"})
_OP = frozenset({"attrs", "id", "name", "operands", "origins", "regions", "results", "scope"})
_VALUE = frozenset({"id", "name", "type"})
_PLACE = {field.name: field.default for field in fields(Location) if field.compare}
_CACHED = 80
"""Attributes with longer texts are mostly read once."""


def hash_of(content: bytes) -> str:
    """The name of the bytes of a constant."""
    return hashlib.sha256(content).hexdigest()[:32]


# ---------------------------------------------------------------- writing
class Writer:
    """Makes JSON data of functions.

    Args:
        unknown: Fields to write beside the known ones.

    Attributes:
        constants: The bytes of larger constants as base64, by their hash.
    """

    def __init__(self, unknown: Mapping[str, Mapping[str, Any]]) -> None:
        self.constants: dict[str, str] = {}
        self._unknown = unknown
        self._types: dict[int, tuple[Type, str]] = {}

    def function(self, function: Function, path: str = "", depth: int = 0) -> Json:
        """``function`` as JSON data.

        Raises:
            GraphError: ML355, an attribute or an id that a file cannot hold.
        """
        if depth > MAX_DEPTH:
            raise GraphError("ML355", f"subgraphs are nested more than {MAX_DEPTH} deep")
        made: Json = {**self._unknown.get(path, {}), "name": function.name}
        made["inputs"] = [self._value(v, path) for v in function.block.args]
        made["ops"] = [self._op(op, path, depth) for op in function.block.ops]
        sources = _sources(function)
        if sources:
            made["sources"] = sources
        if function.parameters:
            made["parameters"] = list(function.parameters)
        if function.subgraphs:
            made["subgraphs"] = [
                self.function(sub, f"{path}{name}/", depth + 1)
                for name, sub in function.subgraphs.items()
            ]
        return made

    def _op(self, op: Op, path: str, depth: int) -> Json:
        made: Json = {"id": op.id, "name": op.name}
        if self._unknown:
            made = {**self._unknown.get(path + op.id, {}), **made}
        if op.operands:
            made["operands"] = [v.id for v in op.operands]
        if op.results:
            made["results"] = [self._value(v, path) for v in op.results]
        if op.attrs:
            made["attrs"] = [[key, self._attr(op, value)] for key, value in op.attrs.items()]
        if op.scope:
            made["scope"] = op.scope
        if op.origins != (op.id,):
            made["origins"] = list(op.origins)
        if op.regions:
            if depth >= MAX_DEPTH:
                raise GraphError("ML355", f"the regions are nested more than {MAX_DEPTH} deep")
            made["regions"] = [
                {
                    "inputs": [self._value(v, path) for v in region.args],
                    "ops": [self._op(inner, path, depth + 1) for inner in region.ops],
                }
                for region in op.regions
            ]
        return made

    def _value(self, value: Value, path: str) -> Json:
        if not VALUE_ID.fullmatch(value.id):
            raise GraphError("ML355", f"{value.id!r} cannot be the id of a value in a file")
        kind = value.type
        known = self._types.get(id(kind))
        if known is None:
            known = self._types[id(kind)] = kind, type_text(kind)
        made: Json = {"id": value.id, "type": known[1]}
        if value.name:
            made["name"] = value.name
        if self._unknown:
            made = {**self._unknown.get(path + value.id, {}), **made}
        return made

    def _attr(self, op: Op, value: Any) -> str | Json:
        try:
            if not isinstance(value, Constant) or value.array.size <= SMALL:
                return attr_text(value)
            dtype = DType.from_numpy(value.array.dtype)
        except MaxlabError as error:
            raise GraphError(
                "ML355", f"{op.name} {op.id}: {error.what}", at=op.loc, fix=error.fix
            ) from None
        content = np.ascontiguousarray(value.array).tobytes()
        name = hash_of(content)
        if name not in self.constants:
            self.constants[name] = base64.b64encode(content).decode("ascii")
        return {"constant": name, "dtype": dtype.short, "shape": list(value.array.shape)}


def _sources(function: Function) -> list[Json]:
    """The places of the operations of ``function``, in the order of the first that has each."""
    of: dict[Location, list[str]] = {}
    for op in function.walk():
        if op.loc is not None:
            of.setdefault(op.loc, []).append(op.id)
    found: list[Json] = []
    for loc, ids in of.items():
        given = {name: getattr(loc, name) for name in _PLACE}
        kept = {name: value for name, value in given.items() if value != _PLACE[name]}
        found.append({**kept, "of": ids})
    return found


# ---------------------------------------------------------------- reading
class _Env:
    """The values of one function that can be read now, and the ids that it has."""

    __slots__ = ("ids", "made", "values")

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.ids: set[str] = set()
        self.made: dict[str, Op] = {}


class Reader:
    """Makes functions of JSON data that nobody vouches for.

    Args:
        constants: The bytes of larger constants as base64, by their hash.
        refuse: Raises the error for what is wrong.

    Attributes:
        unknown: Fields that are not known.
    """

    def __init__(self, constants: Mapping[str, Any], refuse: Refuse) -> None:
        self.unknown: Unknown = {}
        self._constants = constants
        self._refuse = refuse
        self._read: dict[str, bytes] = {}
        self._types: dict[str, Type] = {}
        self._attrs: dict[str, Any] = {}

    def function(self, data: Any, path: str = "", depth: int = 0) -> Function:
        """The function that ``data`` is."""
        if depth > MAX_DEPTH:
            self._refuse(f"subgraphs are nested more than {MAX_DEPTH} deep", "")
        what = f"the subgraph {path[:-1]!r}" if path else "the graph"
        data = self._object(data, what, "")
        self._note(path, data, _FUNCTION)
        function = Function(self._text(data, "name", what, "", None))
        for name in self._texts(data, "parameters", what, ""):
            function.parameters[name] = None
        env = _Env()
        self._block(data, function.block, function, env, what, path, 0)
        self._sources(data, env, what)
        for entry in self._list(data, "subgraphs", what, ""):
            inner = entry.get("name") if isinstance(entry, dict) else None
            sub = self.function(entry, f"{path}{inner}/", depth + 1)
            if sub.name in function.subgraphs:
                self._refuse(f"there are two subgraphs {shown(sub.name)}", sub.name)
            function.subgraphs[sub.name] = sub
        return function

    # ------------------------------------------------------------ blocks and ops
    def _block(
        self,
        data: Json,
        block: Block,
        function: Function,
        env: _Env,
        at: str,
        path: str,
        depth: int,
    ) -> list[str]:
        """Fill ``block``; returns the ids of the values that it has."""
        defined: list[str] = []
        for entry in self._list(data, "inputs", at, ""):
            id, kind, name = self._value(entry, at, env, path)
            env.values[id] = block.add_argument(id, kind, name)
            function.reserve(id)
            defined.append(id)
        entries = self._list(data, "ops", at, "")
        for entry in entries:
            op = self._op(entry, entries, function, env, path, depth)
            block.append(op)
            for value in op.results:
                env.values[value.id] = value
                defined.append(value.id)
        return defined

    def _op(
        self, data: Any, beside: list[Any], function: Function, env: _Env, path: str, depth: int
    ) -> Op:
        data = self._object(data, "an operation", "")
        id = self._text(data, "id", "an operation", "", None)
        if not data.keys() <= _OP:
            self._note(path + id, data, _OP)
        name = self._text(data, "name", id, id, None)
        operands = [
            env.values.get(key) or self._unmade(id, key, beside, env)
            for key in self._texts(data, "operands", id, id)
        ]
        regions = [
            self._region(entry, function, env, id, path, depth + 1)
            for entry in self._list(data, "regions", id, id)
        ]
        values = [
            self._value(entry, id, env, path) for entry in self._list(data, "results", id, id)
        ]
        scope = self._text(data, "scope", id, id, "")
        origins = tuple(self._texts(data, "origins", id, id))
        op = Op(
            id,
            name,
            operands,
            [kind for _, kind, _ in values],
            self._attributes(data, id),
            result_ids=[value for value, _, _ in values],
            scope=scope,
            origins=origins,
            regions=regions,
        )
        if id in env.made:
            self._refuse(f"two operations have the id {shown(id)}", id)
        env.made[id] = op
        for value, (_, _, label) in zip(op.results, values, strict=True):
            value.name = label
            function.reserve(value.id)
        for key in (id, *origins):
            function.reserve(key)
        return op

    def _unmade(self, id: str, key: str, beside: list[Any], env: _Env) -> NoReturn:
        """Raise the error of operation ``id``, which reads ``key``."""
        later = {
            value.get("id")
            for op in beside
            if isinstance(op, dict) and isinstance(op.get("results"), list)
            for value in op["results"]
            if isinstance(value, dict) and isinstance(value.get("id"), str)
        }
        why = "stands behind it, or is itself" if key in later else "is not there"
        if key in env.ids and key not in later:
            why = "is part of a region that it does not stand in"
        self._refuse(f"{id} reads {shown(key)}, but what makes it {why}", id)

    def _region(
        self, data: Any, function: Function, env: _Env, id: str, path: str, depth: int
    ) -> Block:
        if depth > MAX_DEPTH:
            self._refuse(f"{id}: regions are nested more than {MAX_DEPTH} deep", id)
        region = Block()
        data = self._object(data, f"a region of {id}", id)
        for value in self._block(data, region, function, env, f"a region of {id}", path, depth):
            del env.values[value]
        return region

    def _value(self, data: Any, at: str, env: _Env, path: str) -> tuple[str, Type, str]:
        data = self._object(data, f"a value of {at}", at)
        id = self._text(data, "id", f"a value of {at}", at, None)
        if id in env.ids:
            self._refuse(f"two values have the id {shown(id)}", id)
        if not VALUE_ID.fullmatch(id):
            self._refuse(f"{shown(id)} cannot be the id of a value", id)
        env.ids.add(id)
        if not data.keys() <= _VALUE:
            self._note(path + id, data, _VALUE)
        name = self._text(data, "name", id, id, "")
        text = self._text(data, "type", id, id, None)
        kind = self._types.get(text)
        if kind is None:
            kind = self._types[text] = self._parsed(id, "its type", text, AttributeReader.type)
        return id, kind, name

    def _sources(self, data: Json, env: _Env, what: str) -> None:
        """Give the operations their places; one that is not there any more needs none."""
        for entry in self._list(data, "sources", what, ""):
            given = dict(self._object(entry, "a source", ""))
            of = self._texts(given, "of", "a source", "")
            given.pop("of", None)
            for key, value in given.items():
                kind = int if key in ("line", "column", "end_column") else str
                if key not in _PLACE or value.__class__ is not kind:
                    self._refuse(f"the source of {shown(of)}: {shown(key)} is {shown(value)}", key)
            if not {"file", "line"} <= given.keys():
                self._refuse(f"the source of {shown(of)} has no file and line", "sources")
            loc = Location(**given)
            for id in of:
                if id in env.made:
                    env.made[id].loc = loc

    # ------------------------------------------------------------ attributes
    def _attributes(self, data: Json, id: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for pair in self._list(data, "attrs", id, id):
            if pair.__class__ is not list or len(pair) != 2 or pair[0].__class__ is not str:
                self._refuse(f"{id}: an attribute is {shown(pair)}, expected [name, text]", id)
            key, text = pair
            if key in made:
                self._refuse(f"{id} has two attributes {shown(key)}", id)
            if text.__class__ is str:
                made[key] = self._attribute(id, key, text)
            elif text.__class__ is dict:
                made[key] = self._constant(id, text)
            else:
                self._refuse(f"{id}: {key} is {shown(text)}, expected a text or a constant", id)
        return made

    def _attribute(self, id: str, key: str, text: str) -> Any:
        known = self._attrs.get(text)
        if known is None:
            known = self._parsed(id, f"its {key}", text, AttributeReader.attribute)
            if len(text) <= _CACHED:
                self._attrs[text] = known
        return known

    def _parsed(self, id: str, what: str, text: str, read: Callable[[AttributeReader], Any]) -> Any:
        try:
            reader = AttributeReader(text, id)
            made = read(reader)
            if reader.token:
                reader.fail("expected the end of the text")
        except MaxlabError as error:
            self._refuse(f"{id}: {what} is {shown(text)}: {error.what}", id)
        return made

    def _constant(self, id: str, data: Json) -> Constant:
        name, short, shape = data.get("constant"), data.get("dtype"), data.get("shape")
        if name.__class__ is not str or short.__class__ is not str or shape.__class__ is not list:
            self._refuse(f"{id}: a constant has a hash, a dtype and a shape, got {shown(data)}", id)
        assert isinstance(name, str)
        assert isinstance(short, str)
        assert isinstance(shape, list)
        if len(shape) > 32 or not all(n.__class__ is int and 0 <= n < 2**63 for n in shape):
            self._refuse(f"{id}: the sizes of its constant are {shown(shape)}", id)
        try:
            dtype = DType.from_short(short)
        except MaxlabError as error:
            self._refuse(f"{id}: {error.what}", id)
        content = self._bytes(id, name)
        size = dtype.ml_numpy.itemsize
        if len(content) != size * math.prod(shape):
            self._refuse(
                f"{id}: its constant has {len(content)} bytes, {short}{shown(shape)} takes "
                f"{size * math.prod(shape)}",
                id,
            )
        if dtype is DType.bool and content and max(content) > 1:
            self._refuse(f"{id}: a bool is a byte of 0 or 1", id)
        return Constant(np.frombuffer(content, dtype.ml_numpy).reshape(shape))

    def _bytes(self, id: str, name: str) -> bytes:
        known = self._read.get(name)
        if known is not None:
            return known
        text = self._constants.get(name)
        if text.__class__ is not str:
            self._refuse(f"{id} has the constant {shown(name)}, which is not in the document", id)
        assert isinstance(text, str)
        try:
            content = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            self._refuse(f"the constant {shown(name)} is no base64: {error}", name)
        if hash_of(content) != name:
            self._refuse(
                f"the bytes of the constant {shown(name)} are not those that were saved: their "
                f"hash is {hash_of(content)}",
                name,
            )
        self._read[name] = content
        return content

    # ------------------------------------------------------------ plain fields
    def _object(self, value: Any, what: str, id: str) -> Json:
        if value.__class__ is not dict:
            self._refuse(f"{what} is {shown(value)}, expected an object", id)
        found: Json = value
        return found

    def _list(self, data: Json, key: str, what: str, id: str) -> list[Any]:
        value = data.get(key)
        if value is None and key not in data:
            return []
        if value.__class__ is not list:
            self._refuse(f"{what}: {key} is {shown(value)}, expected a list", id)
        found: list[Any] = value
        return found

    def _text(self, data: Json, key: str, what: str, id: str, default: str | None) -> str:
        value = data.get(key, default)
        if value.__class__ is not str:
            told = "missing" if key not in data else shown(value)
            self._refuse(f"{what}: {key} is {told}, expected a text", id)
        found: str = value
        return found

    def _texts(self, data: Json, key: str, what: str, id: str) -> list[str]:
        found = self._list(data, key, what, id)
        for value in found:
            if value.__class__ is not str:
                self._refuse(f"{what}: {key} has {shown(value)}, expected texts", id)
        return found

    def _note(self, path: str, data: Json, known: frozenset[str]) -> None:
        more = {key: value for key, value in data.items() if key not in known}
        if more:
            self.unknown[path] = more


__all__ = ["Json", "Reader", "Refuse", "Unknown", "Writer", "hash_of"]
