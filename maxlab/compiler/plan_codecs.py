"""How the values that plans are made of are written and read: `codec`.

How a value is written follows from its type, as the annotation of the field of a dataclass spells
it: numbers and words as they are, sizes as expressions of dims, dataclasses field by field. Writing
and reading of one type stand beside each other here, and are exact inverses.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from maxlab.compiler import facts, launches
from maxlab.compiler import plan_parts as plans
from maxlab.compiler.conventions import Operand
from maxlab.compiler.gpu_templates import AttentionTemplate, ProductTemplate
from maxlab.compiler.guards import Guard
from maxlab.compiler.op_facts import OpFacts
from maxlab.compiler.row_shapes import RowShape
from maxlab.dtype import DType
from maxlab.errors import Location, MaxlabError
from maxlab.ir import DeviceRef
from maxlab.ir.dimtext import read_poly
from maxlab.ir.poly import FloorDiv, Poly
from maxlab.opset.checks import Check
from maxlab.opset.faults import Fault
from maxlab.opset.notes import Note


class Writing(Protocol):
    """Things that are written once and named by others that are written."""

    def location(self, at: Location) -> Any:
        """A place in the user's code."""

    def op(self, op: OpFacts) -> int:
        """The number of ``op`` in the table of ops."""


class Reading(Protocol):
    """Things that were read before, and are named by others that are read."""

    ops: list[OpFacts]

    def location(self, at: Any) -> Location | None:
        """The place in the user's code that `Writing.location` has written."""


class Codec(NamedTuple):
    """How values of one type are written and read."""

    write: Callable[[Any, Writing], Any]
    read: Callable[[Any, Reading], Any]


# ---------------------------------------------------------------- plain values
def _same(value: Any, _: Any) -> Any:
    return value


def write_poly(poly: Poly, _: Any = None) -> Any:
    """A size: an int, the text of an expression, or its terms where no text reads back as it."""
    if poly.is_constant:
        return poly.value
    return _poly_text(poly)


@functools.lru_cache(maxsize=1 << 14)
def _poly_text(poly: Poly) -> Any:
    text = str(poly)
    if poly.is_symbol and text.isidentifier():
        return text
    try:
        if read_poly(text) == poly:
            return text
    except MaxlabError:
        pass
    return _terms(poly)


def _terms(poly: Poly) -> list[Any]:
    return [
        [scale, *([_atom(atom), power] for atom, power in monomial)]
        for monomial, scale in poly.terms
    ]


def _atom(atom: str | FloorDiv) -> Any:
    return atom if isinstance(atom, str) else [_terms(atom.numerator), _terms(atom.denominator)]


def read_size(value: Any, _: Any = None) -> Poly:
    """The size that `write_poly` has written."""
    if value.__class__ is int:
        return Poly.constant(value)
    return _read_text(value) if isinstance(value, str) else _read_terms(value)


@functools.lru_cache(maxsize=1 << 14)
def _read_text(text: str) -> Poly:
    return read_poly(text)


def _read_terms(terms: list[Any]) -> Poly:
    made = tuple((tuple((_read_atom(a), p) for a, p in monomial), s) for s, *monomial in terms)
    return Poly(made)


def _read_atom(atom: Any) -> str | FloorDiv:
    if isinstance(atom, str):
        return atom
    return FloorDiv(*map(_read_terms, atom))


DTYPES = {dtype.name: dtype for dtype in DType}


@functools.cache
def _device(text: str) -> DeviceRef:
    kind, _, number = text.partition(":")
    return DeviceRef(kind, int(number))


PLAIN = Codec(_same, _same)
_CODECS: dict[str, Codec] = {
    **dict.fromkeys(("int", "str", "bool", "float"), PLAIN),
    **dict.fromkeys(("SlotKind", "FaultKind", "Literal"), PLAIN),
    "Poly": Codec(write_poly, read_size),
    "DType": Codec(lambda dtype, _: dtype.name, lambda name, _: DTYPES[name]),
    "DeviceRef": Codec(lambda device, _: str(device), lambda text, _: _device(text)),
    "range": Codec(lambda made, _: [made.start, made.stop], lambda ends, _: range(*ends)),
    "Location": Codec(lambda at, to: to.location(at), lambda at, of: of.location(at)),
    "OpFacts": Codec(lambda op, to: to.op(op), lambda number, of: of.ops[number]),
}
"""How values are written, by the name of their type in an annotation."""


# ---------------------------------------------------------------- types
@functools.cache
def codec(annotation: str) -> Codec:
    """How values of the type that ``annotation`` spells are written and read."""
    if annotation in _CODECS:
        return _CODECS[annotation]
    if annotation.endswith(" | None"):
        return _optional(codec(annotation.removesuffix(" | None")))
    return _codec(ast.parse(annotation, mode="eval").body)


def _codec(node: ast.expr) -> Codec:
    match node:
        case ast.Constant(value=None):
            return PLAIN
        case ast.Name(id=name) if name in _CODECS:
            return _CODECS[name]
        case ast.Name(id=name) if name in _ALIASES:
            return codec(_ALIASES[name])
        case ast.Name(id=name) if name in RECORDS:
            return _record_codec(name)
        case ast.BinOp(left=left, right=ast.Constant(value=None)):
            return _optional(_codec(left))
        case ast.Subscript(value=ast.Name(id="Literal")):
            return PLAIN
        case ast.Subscript(value=ast.Name(id=kind), slice=inner):
            return _collection(kind, inner)
    raise TypeError(f"a plan cannot be written with a field of the type {ast.unparse(node)}")


def _optional(inner: Codec) -> Codec:
    return Codec(
        lambda value, to: None if value is None else inner.write(value, to),
        lambda value, of: None if value is None else inner.read(value, of),
    )


def _collection(kind: str, inner: ast.expr) -> Codec:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    many = [_codec(part) for part in parts if not isinstance(part, ast.Constant)]
    if kind in ("dict", "Mapping"):
        key, value = many
        return Codec(
            lambda pairs, to: [[key.write(k, to), value.write(v, to)] for k, v in pairs.items()],
            lambda pairs, of: {key.read(k, of): value.read(v, of) for k, v in pairs},
        )
    if kind == "tuple" and len(many) > 1:
        return Codec(
            lambda row, to: [c.write(x, to) for c, x in zip(many, row, strict=True)],
            lambda row, of: tuple([c.read(x, of) for c, x in zip(many, row, strict=True)]),
        )
    (one,) = many
    make = {"tuple": tuple, "list": list, "frozenset": frozenset}[kind]
    order = sorted if kind == "frozenset" else list
    if one is PLAIN:
        return Codec(lambda row, _: order(row), lambda row, _: make(row))
    return Codec(
        lambda row, to: [one.write(x, to) for x in order(row)],
        lambda row, of: make([one.read(x, of) for x in row]),
    )


_ALIASES = {
    "Index": "tuple[Poly, ...]",
    "Part": "tuple[tuple[tuple[int, int], ...], ...]",
}
RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        plans.Packing, plans.Binds, plans.Exchange, plans.KernelArgument, Operand, ProductTemplate,
        AttentionTemplate, launches.LibraryProduct, Guard, Check, Fault, Note, facts.InputFacts,
        facts.OutputFacts, facts.WeightFacts, facts.Bound, facts.Conditions, facts.SizeFacts,
        facts.AheadFacts, RowShape,
    )
}  # fmt: skip
"""The dataclasses that a plan is made of, which are written field by field."""
FORMULAS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        launches.Once, launches.Items, launches.Blocks, launches.Gemm, launches.BatchedGemm,
        launches.Attention, launches.Strided, launches.MappedRows, launches.FoldedRows,
        launches.Parts, launches.Tiles, launches.Heads,
    )
}  # fmt: skip
"""The formulas of launches, which are written with their name."""


class _Field(NamedTuple):
    name: str
    codec: Codec
    default: Any


@functools.cache
def fields_of(kind: type, left_out: frozenset[str] = frozenset()) -> tuple[_Field, ...]:
    """The fields of a dataclass that are written, all but those ``left_out``."""
    found = []
    for one in dataclasses.fields(kind):
        if one.name in left_out or not one.init:
            continue
        default: Any = one.default
        if one.default_factory is not dataclasses.MISSING:
            default = one.default_factory()
        found.append(_Field(one.name, codec(str(one.type)), default))
    return tuple(found)


def write_record(made: Any, to: Writing, left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields of the dataclass ``made`` that are not as by default."""
    found = {}
    kind: Any = type(made)
    for name, (write, _), default in fields_of(kind, left_out):
        value = getattr(made, name)
        if default is dataclasses.MISSING or value != default:
            found[name] = write(value, to)
    return found


def read_record(
    kind: type, given: Mapping[str, Any], of: Reading, left_out: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The arguments for ``kind`` that `write_record` has written."""
    readers = _readers_of(kind, left_out)
    made: dict[str, Any] = {}
    for name, value in given.items():
        read = readers.get(name)
        if read is _same:
            made[name] = value
        elif read is not None:
            made[name] = read(value, of)
    return made


@functools.cache
def _readers_of(kind: type, left_out: frozenset[str]) -> dict[str, Callable[[Any, Reading], Any]]:
    return {one.name: one.codec.read for one in fields_of(kind, left_out)}


@functools.cache
def _record_codec(name: str) -> Codec:
    kind = RECORDS[name]
    return Codec(write_record, lambda given, of: kind(**read_record(kind, given, of)))


def write_formula(formula: Any, to: Writing) -> Any:
    return None if formula is None else {type(formula).__name__: write_record(formula, to)}


def read_formula(given: Any, of: Reading) -> Any:
    if given is None:
        return None
    ((name, inside),) = given.items()
    return FORMULAS[name](**read_record(FORMULAS[name], inside, of))


_CODECS["HostFormula"] = _CODECS["GpuFormula"] = Codec(write_formula, read_formula)


# ---------------------------------------------------------------- by hand
SLOT_BY_HAND = frozenset({"data"})
"""The fields of a buffer that are written in another way than their type says, or left out."""
STEP_BY_HAND = frozenset(
    {"printed", "gpu", "call", "touching", "loops", "held", "launch", "strips", "others"}
) | {"renamed"}
"""The same of a step."""
RENAMED = codec("dict[str, tuple[str, ...]]")
"""How the ids that `Step.renamed` has are written."""


def held_of(pointers: list[int], slots: list[plans.Slot]) -> dict[int, tuple[Poly, int]]:
    """The bytes of the slots, and those of one element, as most steps have them."""
    return {n: (slots[n].nbytes, slots[n].dtype.size_in_bytes) for n in pointers}


__all__ = [
    "DTYPES",
    "FORMULAS",
    "RECORDS",
    "RENAMED",
    "SLOT_BY_HAND",
    "STEP_BY_HAND",
    "codec",
    "fields_of",
    "held_of",
    "read_formula",
    "read_record",
    "read_size",
    "write_formula",
    "write_poly",
    "write_record",
]
