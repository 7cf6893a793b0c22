"""Writes functions as text: a form to read, and MLIR's generic form, which the parser reads back.

The generic form is accepted by ``mlir-opt --allow-unregistered-dialect``. A graph is one op::

    "mo.graph"() ({
    ^bb0(%a0: !mo.tensor<[n], f32>):
      %v0 = "mo.relu"(%a0) {mo.id = "n0"} : (!mo.tensor<[n], f32>) -> !mo.tensor<[n], f32> loc(#l)
      "mo.output"(%v0) {mo.id = "n1"} : (!mo.tensor<[n], f32>) -> ()
    }) {sym_name = "f", version = 1, parameters = ["n"], inputs = ["x"]} : () -> ()

The names of values are their ids. Attributes whose name starts with ``mo.`` are not the op's own:
``mo.id``, ``mo.scope``, ``mo.origins`` and ``mo.names``. Places in the user's code are MLIR
locations, shared by aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import GraphError, Location
from maxlab.ir.attrtext import attr_text, key_text, quote, type_text
from maxlab.ir.constants import Constant, HostCall
from maxlab.ir.core import Block, Op, Value
from maxlab.ir.dims import Dim, Shape
from maxlab.ir.function import Call, Function
from maxlab.ir.types import DeviceRef, Type

VERSION = 1
"""The version of the generic form, written into every graph."""

MAX_DEPTH = 48
"""How deep regions, subgraphs and lists may be nested, for the printer and the parser."""

VALUE_ID = re.compile(r"[A-Za-z_$.][A-Za-z0-9_$.\-]*+")
"""Ids of values in text, and names of functions without quotes."""


# ---------------------------------------------------------------- to read
def pretty(function: Function) -> str:
    """``function`` as text to read: one op per line, scopes as comments, long constants shortened.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.ir import Function, TensorType
        >>> f = Function("f")
        >>> x = f.add_input(TensorType(DType.float32, ["n"]), "x")
        >>> _ = f.block.append(f.create("mo.output", [x], []))
        >>> print(pretty(f))
        mo.graph @f<n>(%a0 "x": !mo.tensor<[n], f32>) -> (!mo.tensor<[n], f32>) {
          mo.output(%a0)
        }
    """
    lines: list[str] = []
    _pretty_function(function, "", lines, 0)
    return "\n".join(lines)


def _pretty_function(function: Function, pad: str, lines: list[str], depth: int) -> None:
    _check_depth(depth, f"the subgraphs of {function.name!r}")
    types: dict[int, str] = {}
    parameters = f"<{', '.join(function.parameters)}>" if function.parameters else ""
    inputs = ", ".join(_pretty_arg(v, types) for v in function.block.args)
    output = function.output
    results = (
        "()"
        if output is None
        else f"({', '.join(_cached(v.type, types) for v in output.operands)})"
    )
    name = function.name if VALUE_ID.fullmatch(function.name) else quote(function.name)
    lines.append(f"{pad}mo.graph @{name}{parameters}({inputs}) -> {results} {{")
    for subgraph in function.subgraphs.values():
        _pretty_function(subgraph, pad + "  ", lines, depth + 1)
    _pretty_ops(function.block, pad + "  ", lines, types, depth)
    lines.append(pad + "}")


def _pretty_arg(value: Value, types: dict[int, str]) -> str:
    default = not value.name or value.name == f"input{value.index}"
    return f"%{value.id}{'' if default else ' ' + quote(value.name)}: {_cached(value.type, types)}"


def _pretty_ops(
    block: Block, pad: str, lines: list[str], types: dict[int, str], depth: int
) -> None:
    _check_depth(depth, "the regions")
    scope = ""
    for op in block.ops:
        if op.scope != scope:
            scope = op.scope
            lines.append(f"{pad}// {scope or '(top)'}")
        left = ", ".join([f"%{r.id}" for r in op.results])
        operands = ", ".join([f"%{v.id}" for v in op._operands])
        text = f"{pad}{left} = {op.name}({operands})" if left else f"{pad}{op.name}({operands})"
        if op.attrs:
            text += f" {{{', '.join(f'{k} = {_short(v)}' for k, v in op.attrs.items())}}}"
        if op.results:
            text += " : " + ", ".join([_cached(r.type, types) for r in op.results])
        named = [r.name for r in op.results if r.name]
        notes = ([f'"{", ".join(named)}"'] if named else []) + ([str(op.loc)] if op.loc else [])
        if op.origins != (op.id,):
            notes.insert(0, f"{op.id} from {', '.join(op.origins)}")
        elif notes and (not op.results or op.results[0].id != "v" + op.id[1:]):
            notes.insert(0, op.id)
        if op.regions:
            lines.append(text + " {" + (f"  // {' '.join(notes)}" if notes else ""))
            for number, region in enumerate(op.regions):
                if number:
                    lines.append(f"{pad}}}, {{")
                if region.args:
                    lines.append(
                        f"{pad}  ({', '.join(_pretty_arg(v, types) for v in region.args)}):"
                    )
                _pretty_ops(region, pad + "  ", lines, types, depth + 1)
            lines.append(pad + "}")
        else:
            lines.append(f"{text}  // {' '.join(notes)}" if notes else text)


def _short(value: Any) -> str:
    """An attribute in few characters."""
    if isinstance(value, DType):
        return value.short
    if isinstance(value, (Dim, DeviceRef)):
        return str(value)
    if isinstance(value, Shape):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, (tuple, list)):
        shown = [_short(item) for item in value[:16]]
        return f"[{', '.join(shown)}{', …' if len(value) > 16 else ''}]"
    if isinstance(value, Constant):
        array = value.array
        kind = "x".join([*map(str, array.shape), DType.from_numpy(array.dtype).short])
        items = [_number(x) for x in array.reshape(-1)[:4]]
        return f"dense<{kind}: {', '.join(items)}{', …' if array.size > 4 else ''}>"
    if isinstance(value, HostCall):
        return value.name
    if isinstance(value, Call):
        return value.body.name
    if isinstance(value, str):
        return quote(value if len(value) <= 60 else value[:59] + "…")
    if isinstance(value, float):
        return repr(value)
    return attr_text(value)


def _number(item: Any) -> str:
    if isinstance(item, (np.bool_, np.integer)):
        return str(item.item()).lower()
    return f"{float(item):.6g}"


def _cached(type: Type, types: dict[int, str]) -> str:
    """The text of ``type``; found by identity, as the function keeps its types alive."""
    text = types.get(id(type))
    if text is None:
        text = types[id(type)] = type_text(type)
    return text


def _check_depth(depth: int, what: str) -> None:
    if depth > MAX_DEPTH:
        raise GraphError(
            "ML355", f"{what} are nested more than {MAX_DEPTH} deep", fix="nest them less deep"
        )


# ---------------------------------------------------------------- to read back
def generic(function: Function) -> str:
    """``function`` in MLIR's generic form; ``parse_function`` makes the same function of it.

    Raises:
        GraphError: ML355, an attribute or an id that the form cannot hold.
    """
    writer = _Generic()
    writer.function(function, "", 0)
    return "\n".join([*writer.aliases, *writer.lines, ""])


def generic_module(functions: Iterable[Function]) -> str:
    """``functions`` in MLIR's generic form, in one module; ``parse_module`` makes the same of it.

    Raises:
        GraphError: ML355, an attribute or an id that the form cannot hold.
    """
    writer = _Generic()
    for function in functions:
        writer.function(function, "  ", 0)
    lines = ['"builtin.module"() ({', *writer.lines, "}) : () -> ()", ""]
    return "\n".join([*writer.aliases, *lines])


class _Generic:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.aliases: list[str] = []
        self._types: dict[int, str] = {}
        self._by_location: dict[Location, str] = {}
        self._by_identity: dict[int, str] = {}

    def function(self, function: Function, pad: str, depth: int) -> None:
        _check_depth(depth, f"the subgraphs of {function.name!r}")
        for key, subgraph in function.subgraphs.items():
            if key != subgraph.name:
                raise GraphError(
                    "ML355", f"the subgraph {subgraph.name!r} is filed under the name {key!r}"
                )
        self.lines.append(f'{pad}"mo.graph"() ({{')
        self._label(function.block, pad)
        self._ops(function.block, pad + "  ", depth)
        if function.subgraphs:
            self.lines.append(f"{pad}}}, {{")
            for subgraph in function.subgraphs.values():
                self.function(subgraph, pad + "  ", depth + 1)
        parameters = ", ".join(quote(p) for p in function.parameters)
        names = ", ".join(quote(v.name) for v in function.block.args)
        self.lines.append(
            f"{pad}}}) {{sym_name = {quote(function.name)}, version = {VERSION}, "
            f"parameters = [{parameters}], inputs = [{names}]}} : () -> ()"
        )

    def _label(self, block: Block, pad: str) -> None:
        if block.args:
            args = ", ".join(f"%{self._id(v)}: {_cached(v.type, self._types)}" for v in block.args)
            self.lines.append(f"{pad}^bb0({args}):")

    def _id(self, value: Value) -> str:
        if not VALUE_ID.fullmatch(value.id):
            raise GraphError("ML355", f"{value.id!r} cannot be the id of a value in text")
        return value.id

    def _ops(self, block: Block, pad: str, depth: int) -> None:
        _check_depth(depth, "the regions")
        types = self._types
        lines = self.lines
        for op in block.ops:
            results = op.results
            left = ", ".join(["%" + self._id(r) for r in results])
            operands = op._operands
            text = f"{pad}{left} = {quote(op.name)}(" if results else f"{pad}{quote(op.name)}("
            text += ", ".join(["%" + v.id for v in operands]) + ")"
            if op.regions:
                lines.append(text + " ({")
                for number, region in enumerate(op.regions):
                    if number:
                        lines.append(f"{pad}}}, {{")
                    self._label(region, pad)
                    self._ops(region, pad + "  ", depth + 1)
                text = pad + "})"
            text += f" {{{self._attrs(op)}}} : ("
            text += ", ".join([types.get(id(v.type)) or _cached(v.type, types) for v in operands])
            made = [types.get(id(r.type)) or _cached(r.type, types) for r in results]
            text += f") -> {made[0]}" if len(made) == 1 else f") -> ({', '.join(made)})"
            if op.loc is not None:
                text += f" loc({self._location(op.loc)})"
            lines.append(text)

    def _attrs(self, op: Op) -> str:
        try:
            parts = [f"{key_text(k)} = {attr_text(v)}" for k, v in op.attrs.items()]
        except GraphError as error:
            raise GraphError(
                "ML355", f"{op.name} {op.id}: {error.what}", at=op.loc, fix=error.fix
            ) from None
        parts.append(f"mo.id = {quote(op.id)}")
        if op.scope:
            parts.append(f"mo.scope = {quote(op.scope)}")
        if op.origins != (op.id,):
            parts.append(f"mo.origins = {_strings(op.origins)}")
        if any(r.name for r in op.results):
            parts.append(f"mo.names = {_strings([r.name for r in op.results])}")
        if any(v.name for region in op.regions for v in region.args):
            names = ", ".join(_strings([v.name for v in region.args]) for region in op.regions)
            parts.append(f"mo.region_names = [{names}]")
        return ", ".join(parts)

    def _location(self, location: Location) -> str:
        known = self._by_identity.get(id(location)) or self._by_location.get(location)
        if known is None:
            known = f"#loc{len(self.aliases)}"
            self._by_location[location] = known
            self.aliases.append(f"{known} = loc({_location_text(location)})")
        self._by_identity[id(location)] = known
        return known


def _strings(texts: Iterable[str] | Sequence[str]) -> str:
    return f"[{', '.join(quote(text) for text in texts)}]"


def _location_text(location: Location) -> str:
    """MLIR counts columns from 1; what it has no field for goes into the metadata."""
    place = f"{quote(location.file)}:{location.line}:{location.column + 1}"
    facts: list[str] = []
    if location.end_column:
        facts.append(f"end = {location.end_column}")
    if location.function:
        facts.append(f"function = {quote(location.function)}")
    if location.text:
        facts.append(f"text = {quote(location.text)}")
    return f"fused<{{{', '.join(facts)}}}>[{place}]" if facts else place
