"""Reads the parts of MLIR text below ops: types, attributes, constants and locations."""

from __future__ import annotations

import math
import re
import struct
from typing import Any, NoReturn

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import Location, MaxlabError, ParseError
from maxlab.ir.attrtext import ESCAPED, METADATA, MLIR_ELEMENT
from maxlab.ir.constants import Constant
from maxlab.ir.core import Op
from maxlab.ir.dims import Shape, parse_dim
from maxlab.ir.printer import MAX_DEPTH
from maxlab.ir.tokens import error_at, position, tokenize, unquote
from maxlab.ir.types import (
    BufferType,
    ChainType,
    ConvInputLayout,
    DeviceRef,
    FilterLayout,
    OpaqueType,
    TensorType,
    Type,
)

_ELEMENTS = {text: dtype for dtype, text in MLIR_ELEMENT.items()}
_DEVICE = re.compile(r"(cpu|gpu):(\d{1,9})")
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*+")
_INT = re.compile(r"-?\d+")
_FLOAT = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?")
_HEX = re.compile(r"0x[0-9A-Fa-f]+")
_SPLAT_LIMIT = 1 << 26
_METADATA = frozenset({"mo.id", "mo.scope", "mo.origins", "mo.names", "mo.region_names"})


class AttributeReader:
    """A cursor over the tokens of a text."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._tokens = tokenize(text)
        self.at = 0
        self.token = self._tokens[0]
        self._depth = 0
        self._types: dict[str, Type] = {}
        self._strings: dict[str, str] = {}
        self._places: dict[str, Location | str | None] = {}
        self._later: list[tuple[Op, str]] = []

    # ------------------------------------------------------------ the cursor
    def next(self) -> None:
        """Go to the next token."""
        try:
            self.token = self._tokens[self.at + 1]
            self.at += 1
        except IndexError:  # the last token is the end of the text, again and again
            pass

    def expect(self, token: str) -> None:
        """Go past ``token``."""
        if self.token != token:
            self.fail(f"expected {token!r}")
        try:
            self.token = self._tokens[self.at + 1]
            self.at += 1
        except IndexError:
            pass

    def error(self, what: str, at: int | None = None, fix: str | None = None) -> ParseError:
        """The error ``what`` at a token, the current one when ``at`` is None."""
        index = self.at if at is None else at
        if at is None:
            shown = self.token if len(self.token) <= 40 else self.token[:39] + "…"
            what += f", found {shown!r}" if shown else ", found the end of the text"
        return error_at(self._text, position(self._text, index), self._file, what, fix)

    def fail(self, what: str, at: int | None = None, fix: str | None = None) -> NoReturn:
        """Raise ``ParseError`` at the token ``at``, or the current one."""
        raise self.error(what, at, fix)

    def string(self) -> str:
        """The text of the string literal here."""
        token = self.token
        text = self._strings.get(token)
        if text is None:
            text = unquote(token)
            if text is None:
                self.fail(
                    "expected a string"
                    if not token.startswith('"')
                    else "the string is not well formed"
                )
            if len(token) < 200:  # long ones are constants, which do not repeat
                self._strings[token] = text
        self.next()
        return text

    def _body(self, token: str, head: str) -> str:
        """The text between ``head<`` and ``>``."""
        if not token.startswith(head + "<") or not token.endswith(">"):
            self.fail(f"expected {head}<…>")
        return token[len(head) + 1 : -1]

    # ------------------------------------------------------------ types
    def type(self) -> Type:
        """The type here."""
        token = self.token
        known = self._types.get(token)
        if known is None:
            if not token.startswith("!"):
                self.fail("expected a type, such as !mo.tensor<[batch, 4], f32>")
            try:
                known = self._types[token] = self._read_type(token)
            except MaxlabError as error:
                if error.code == "ML350":
                    raise
                self.fail(error.what)
        self.next()
        return known

    def _read_type(self, token: str) -> Type:
        if token == "!mo.chain":
            return ChainType()
        if token.startswith("!mo.opaque<"):
            name = unquote(self._body(token, "!mo.opaque"))
            if name is None:
                self.fail('expected !mo.opaque<"name">')
            return OpaqueType(name)
        buffer = token.startswith("!mo.buffer<")
        body = self._body(token, "!mo.buffer" if buffer else "!mo.tensor")
        dims, bracket, rest = body.rpartition("]")
        parts = [part.strip() for part in rest.split(",")]
        if not bracket or not dims.startswith("[") or parts[0] or not 2 <= len(parts) <= 4:
            self.fail("expected [dims], dtype and perhaps a device")
        shape = self._read_shape(dims[1:])
        dtype = DType.from_short(parts[1])
        device: DeviceRef | None = None
        layout: FilterLayout | None = None
        for part in parts[2:]:
            if part.startswith("layout = ") and layout is None:
                layout = FilterLayout.from_mlir(part.removeprefix("layout = "))
            elif device is None and layout is None:
                device = self._read_device(part)
            else:
                self.fail(f"{part!r} is not expected in a type")
        cls = BufferType if buffer else TensorType
        return cls(dtype, shape, device, layout)

    def _read_shape(self, text: str) -> Shape:
        if not text.strip():
            return Shape()
        return Shape(parse_dim(part) for part in text.split(","))

    def _read_device(self, text: str) -> DeviceRef:
        match = _DEVICE.fullmatch(text)
        if match is None:
            self.fail(f"{text!r} is not a device")
        return DeviceRef(match[1], int(match[2]))

    # ------------------------------------------------------------ attributes
    def dictionary(self) -> dict[str, Any]:
        """The attributes between braces here, by name."""
        self.expect("{")
        found: dict[str, Any] = {}
        while self.token != "}":
            token = self.token
            if token.startswith('"'):
                key = self.string()
                if key.startswith(METADATA) and not key.startswith(ESCAPED):
                    self.fail(f"{key!r} is not a known attribute of the dialect")
            else:
                key = token
                if key not in _METADATA:
                    if not _BARE.fullmatch(key):
                        self.fail("expected the name of an attribute")
                    if key.startswith(METADATA):
                        self.fail(f"{key!r} is not a known attribute of the dialect")
                self.next()
            if key in found:
                self.fail(f"the attribute {key!r} occurs twice")
            if self.token == "=":
                self.next()
                found[key] = self.attribute()
            else:  # MLIR writes a unit attribute as its name alone
                found[key] = None
            if self.token != "}":
                self.expect(",")
        self.next()
        return found

    @staticmethod
    def unescaped(attrs: dict[str, Any]) -> dict[str, Any]:
        """An op's own attributes, once the metadata has been taken out."""
        if not any(key.startswith(ESCAPED) for key in attrs):
            return attrs
        return {key.removeprefix(ESCAPED): value for key, value in attrs.items()}

    def attribute(self) -> Any:
        """The attribute here."""
        token = self.token
        first = token[:1]
        if first == '"':
            return self.string()
        if first == "[":
            return self._tuple()
        if first == "!":
            return self.type()
        if first == "#":
            return self._dialect_attribute(token)
        if first == "-" or first.isdigit():
            return self._number(token)
        if token == "dense":
            return self._dense()
        if token in ("true", "false", "unit"):
            self.next()
            return None if token == "unit" else token == "true"
        raise self.error("expected an attribute")

    def _tuple(self) -> tuple[Any, ...]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail("lists are nested too deep")
        self.next()
        items: list[Any] = []
        while self.token != "]":
            items.append(self.attribute())
            if self.token != "]":
                self.expect(",")
        self.next()
        self._depth -= 1
        return tuple(items)

    def _number(self, token: str) -> int | float:
        at = self.at
        self.next()
        suffix = ""
        if self.token == ":":
            self.next()
            suffix = self.token
            self.next()
        if _HEX.fullmatch(token) and suffix == "f64":
            if len(token) != 18:
                self.fail("the bits of a float are 16 hexadecimal digits", at)
            value: float = struct.unpack(">d", bytes.fromhex(token[2:]))[0]
            return value
        if _FLOAT.fullmatch(token) and suffix in ("", "f64"):
            return float(token)
        if _INT.fullmatch(token) and suffix in ("", "i64", "i32", "index", "si64", "ui64"):
            return self._int(token, at)
        raise self.error(
            f"{token[:40]!r} is not a number" + (f" of type {suffix}" if suffix else ""), at
        )

    def _int(self, text: str, at: int | None = None) -> int:
        if len(text) > 4000:
            self.fail("the number is too long", at)
        return int(text)

    def _dialect_attribute(self, token: str) -> Any:
        try:
            made = self._read_dialect(token)
        except MaxlabError as error:
            if error.code == "ML350":
                raise
            self.fail(error.what)
        self.next()
        return made

    def _read_dialect(self, token: str) -> Any:
        head, _, _ = token.partition("<")
        body = self._body(token, head)
        match head:
            case "#mo.dim":
                return parse_dim(body)
            case "#mo.shape":
                if not (body.startswith("[") and body.endswith("]")):
                    self.fail("expected #mo.shape<[dims]>")
                return self._read_shape(body[1:-1])
            case "#mo.dtype":
                return DType.from_short(body)
            case "#mo.device":
                return self._read_device(body)
            case "#mo.int":
                if _HEX.fullmatch(body.removeprefix("-")):
                    return int(body, 16)
                if not _INT.fullmatch(body):
                    self.fail("expected #mo.int<number>")
                return self._int(body)
            case "#mo.layout":
                name = body.strip('"')
                if name in FilterLayout.__members__:
                    return FilterLayout[name]
                if name in ConvInputLayout.__members__:
                    return ConvInputLayout[name]
                self.fail(f"{name!r} is not a layout")
            case "#mo.dense":
                return self._opaque_dense(body)
        raise self.error(f"{head} is not an attribute of the dialect")

    # ------------------------------------------------------------ constants
    def _opaque_dense(self, body: str) -> Constant:
        match = re.fullmatch(r'(\w+), \[([\d, ]*+)\], "0x([0-9A-Fa-f]*+)"', body)
        if match is None:
            self.fail('expected #mo.dense<dtype, [sizes], "0x…">')
        sizes = [part.strip() for part in match[2].split(",")] if match[2].strip() else []
        dtype = DType.from_short(match[1])
        data = self._bytes(match[3], dtype, self._sizes(sizes))
        if dtype is DType.bool and data.size and data.view(np.uint8).max() > 1:
            self.fail("a bool is a byte of 0 or 1")
        return Constant(data)

    def _sizes(self, texts: list[str]) -> tuple[int, ...]:
        if len(texts) > 32 or not all(text.isdigit() and len(text) < 16 for text in texts):
            self.fail("expected the sizes of a constant")
        return tuple(int(text) for text in texts)

    def _bytes(self, digits: str, dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if len(digits) % 2:
            self.fail("the bytes of a constant are pairs of hexadecimal digits")
        raw = np.frombuffer(bytes.fromhex(digits), np.uint8)
        size = dtype.ml_numpy.itemsize
        if raw.size == size * math.prod(shape):
            return raw.view(dtype.ml_numpy).reshape(shape)
        if raw.size == size:
            return self._splat(raw.view(dtype.ml_numpy), shape)
        raise self.error(f"{raw.size} bytes for a constant of {math.prod(shape)} × {size}")

    def _splat(self, one: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if math.prod(shape) * one.itemsize > _SPLAT_LIMIT:
            self.fail("one value stands for a constant that is too large")
        return np.broadcast_to(one.reshape(()), shape).copy()

    def _dense(self) -> Constant:
        start = self.at
        self.next()
        self.expect("<")
        digits: str | None = None
        items: list[str] = []
        structure: list[int] | None = None
        if self.token.startswith('"'):
            digits = self.string()
        elif self.token != ">":
            structure = []
            self._items(items, structure, 0)
        self.expect(">")
        self.expect(":")
        dtype, shape = self._tensor()
        if digits is not None:
            if not re.fullmatch(r"0x[0-9A-Fa-f]*+", digits) or dtype is DType.bool:
                self.fail("expected the bytes of the constant as 0x…", start)
            return Constant(self._bytes(digits[2:], dtype, shape))
        if structure is None:
            if math.prod(shape):
                self.fail(f"no elements for a constant of the sizes {list(shape)}", start)
            return Constant(np.zeros(shape, dtype.ml_numpy))
        flat = self._elements(items, dtype, start)
        if not structure and shape:
            return Constant(self._splat(flat, shape))
        if tuple(structure) != shape:
            self.fail(f"elements of the sizes {structure} for a constant of {list(shape)}", start)
        return Constant(flat.reshape(shape))

    def _items(self, items: list[str], structure: list[int], level: int) -> None:
        """Collect nested lists of numbers; ``structure`` becomes their sizes."""
        if self.token != "[":
            if level < len(structure):
                self.fail("expected a list here as at the places before")
            items.append(self.token)
            self.next()
            return
        if level > 32:
            self.fail("the constant is nested too deep")
        if level == len(structure):
            if items:
                self.fail("expected a number here as at the places before")
            structure.append(-1)
        self.next()
        count = 0
        while self.token != "]":
            self._items(items, structure, level + 1)
            count += 1
            if self.token != "]":
                self.expect(",")
        if structure[level] not in (-1, count):
            self.fail(f"a list of {count} elements, the ones before have {structure[level]}")
        structure[level] = count
        self.next()

    def _elements(self, items: list[str], dtype: DType, start: int) -> np.ndarray[Any, Any]:
        made = np.zeros(len(items), dtype.ml_numpy)
        bits = made.view(f"u{dtype.ml_numpy.itemsize}")
        low, high = int(dtype.lowest) if not dtype.is_float() else 0, dtype.largest
        with np.errstate(all="ignore"):
            for i, text in enumerate(items):
                if dtype is DType.bool and text in ("true", "false"):
                    made[i] = text == "true"
                elif (
                    dtype.is_float() and _HEX.fullmatch(text) and len(text) == 2 + 2 * made.itemsize
                ):
                    bits[i] = int(text, 16)
                elif dtype.is_float() and _FLOAT.fullmatch(text):
                    made[i] = float(text)
                elif (
                    dtype.is_integral()
                    and _INT.fullmatch(text)
                    and len(text) < 24
                    and low <= int(text) <= high
                ):
                    made[i] = int(text)
                else:
                    self.fail(f"{text[:40]!r} is not an element of {dtype.short}", start)
        return made

    def _tensor(self) -> tuple[DType, tuple[int, ...]]:
        *sizes, element = self._body(self.token, "tensor").split("x")
        dtype = _ELEMENTS.get(element)
        if dtype is None:
            self.fail("expected the type of a constant, such as tensor<2x3xf32>")
        shape = self._sizes(sizes)
        self.next()
        return dtype, shape

    # ------------------------------------------------------------ locations
    def alias(self) -> None:
        """Read a definition ``#loc0 = loc(…)``."""
        name = self.token
        if "<" in name:
            self.fail("expected the name of a location")
        if name in self._places:
            self.fail(f"{name} is defined twice")
        self.next()
        self.expect("=")
        if self.token != "loc":
            self.fail("expected loc(…)")
        self._places[name] = self.location()

    def location(self) -> Location | str | None:
        """The location here: a place, the name of an alias, or None for none or unknown."""
        if self.token != "loc":
            return None
        self.next()
        self.expect("(")
        found = self._place()
        self.expect(")")
        return found

    def _place(self) -> Location | str | None:
        token = self.token
        if token.startswith("#"):
            self.next()
            return token
        if token == "unknown":
            self.next()
            return None
        facts: dict[str, Any] = {}
        if token == "fused":
            self.next()
            if self.token == "<":
                self.next()
                facts = self.dictionary()
                self.expect(">")
            self.expect("[")
            if self.token.startswith("#"):
                target = self._resolve(self.token)
                self.next()
                self.expect("]")
                return self._with_facts(target, facts)
            place = self._file_place()
            self.expect("]")
            return self._with_facts(place, facts)
        return self._file_place()

    def _file_place(self) -> Location:
        file = self.string()
        self.expect(":")
        line = self._count()
        self.expect(":")
        column = self._count()
        return Location(file, line, max(column - 1, 0))

    def _count(self) -> int:
        token = self.token
        if not (token.isascii() and token.isdigit()) or len(token) > 18:
            self.fail("expected a line or column number")
        self.next()
        return int(token)

    def _with_facts(self, place: Location | None, facts: dict[str, Any]) -> Location | None:
        if place is None:
            return None
        text, function, end = facts.get("text", ""), facts.get("function", ""), facts.get("end", 0)
        if not (isinstance(text, str) and isinstance(function, str) and type(end) is int):
            self.fail("the facts of a location are text, function and end")
        return Location(place.file, place.line, place.column, text, function, end)

    def later(self, op: Op, alias: str) -> None:
        """Give ``op`` the location ``alias`` when all aliases are known."""
        known = self._places.get(alias)
        if isinstance(known, Location):
            op.loc = known
        else:
            self._later.append((op, alias))

    def _resolve(self, name: str) -> Location | None:
        for _ in range(4):  # an alias may stand for an alias, in no circle
            if name not in self._places:
                self.fail(f"the location {name} is not defined")
            found = self._places[name]
            if not isinstance(found, str):
                return found
            name = found
        raise self.error("locations stand for each other in a circle")

    def resolve_locations(self) -> None:
        """Give ops their locations whose aliases are defined after them."""
        for op, name in self._later:
            op.loc = self._resolve(name)
