"""Reads functions in MLIR's generic form: the inverse of ``printer.generic``.

The text comes from files, so nothing in it is trusted: no evaluation, one linear pass over the
characters, bounded nesting, and ``ParseError`` with line, column and excerpt for whatever is not a
graph. What ``mlir-opt`` prints after a pass over our text is read too; ids are taken from the
``mo.id`` attributes then, as MLIR renames its values.
"""

from __future__ import annotations

from typing import Any

from maxlab.errors import Location
from maxlab.ir.attrparse import AttributeReader
from maxlab.ir.core import Block, Op, Value
from maxlab.ir.function import Function
from maxlab.ir.printer import MAX_DEPTH, VERSION
from maxlab.ir.tokens import unquote
from maxlab.ir.types import Type


def parse_function(text: str, file: str = "<graph>") -> Function:
    """The function that ``text``, in MLIR's generic form, describes.

    Args:
        text: What ``generic`` wrote, alone or inside of a ``module``.
        file: The name of the text in error messages.

    Raises:
        ParseError: ML350, with the line and column of what is wrong.

    Example:
        >>> text = '"mo.graph"() ({ "mo.output"() : () -> () }) {sym_name = "f"} : () -> ()'
        >>> parse_function(text).name
        'f'
    """
    parser = _Parser(text, file)
    first, *more = parser.module()
    if more:
        parser.fail(f"the text has {1 + len(more)} graphs, expected one")
    return first


def parse_module(text: str, file: str = "<graph>") -> list[Function]:
    """The functions that ``text``, in MLIR's generic form, describes, in order.

    Args:
        text: What ``generic`` or ``generic_module`` wrote.
        file: The name of the text in error messages.

    Raises:
        ParseError: ML350, with the line and column of what is wrong.

    Example:
        >>> text = '"mo.graph"() ({ "mo.output"() : () -> () }) {sym_name = "f"} : () -> ()'
        >>> [function.name for function in parse_module(text)]
        ['f']
    """
    return _Parser(text, file).module()


class _Env:
    """The values of one function by their names in the text, and its ids."""

    __slots__ = ("ids", "values")

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.ids: set[str] = set()


class _Parser(AttributeReader):
    def module(self) -> list[Function]:
        """The graphs of the text: one, or those of a module."""
        self._aliases()
        wrapped = ""
        if self.token == "module":
            self.next()
            if self.token == "{":
                wrapped = "module"
                self.next()
            else:
                self.fail("expected '{' after 'module'")
        elif self.token == '"builtin.module"':
            wrapped = "builtin"
            for expected in ('"builtin.module"', "(", ")", "(", "{"):
                self.expect(expected)
        if self.token != '"mo.graph"':
            self.fail(
                'expected "mo.graph"' if self.token else "the text ends before a graph begins",
                fix="the text must be MLIR in generic form, as Graph.save writes it",
            )
        functions = [self._graph(0)]
        while wrapped and self.token == '"mo.graph"':
            at = self.at
            functions.append(self._graph(0))
            if any(functions[-1].name == known.name for known in functions[:-1]):
                self.fail(f"there are two graphs {functions[-1].name!r}", at)
        if wrapped:
            self.expect("}")
            if wrapped == "builtin":
                for expected in (")", ":", "(", ")", "->", "(", ")"):
                    self.expect(expected)
            self.location()
        self._aliases()
        if self.token:
            self.fail("expected the end of the text", fix="a text holds one graph")
        self.resolve_locations()
        return functions

    def _aliases(self) -> None:
        while self.token.startswith("#"):
            self.alias()

    # ------------------------------------------------------------ graphs
    def _graph(self, depth: int) -> Function:
        if depth > MAX_DEPTH:
            self.fail("subgraphs are nested too deep")
        start = self.at
        for expected in ('"mo.graph"', "(", ")", "(", "{"):
            self.expect(expected)
        function = Function("")
        env = _Env()
        self._block(function.block, env, 0)
        self.expect("}")
        if self.token == ",":
            self.next()
            self.expect("{")
            if self.token.startswith("^"):
                self.next()
                self.expect(":")
            while self.token == '"mo.graph"':
                at = self.at
                subgraph = self._graph(depth + 1)
                if subgraph.name in function.subgraphs:
                    self.fail(f"there are two subgraphs {subgraph.name!r}", at)
                function.subgraphs[subgraph.name] = subgraph
            self.expect("}")
        self.expect(")")
        attrs = self.dictionary() if self.token == "{" else {}
        for expected in (":", "(", ")", "->", "(", ")"):
            self.expect(expected)
        self.location()
        self._header(function, attrs, start)
        function._next = 1 + self._largest(function)
        return function

    def _header(self, function: Function, attrs: dict[str, Any], start: int) -> None:
        version = attrs.get("version", VERSION)
        if version != VERSION:
            self.fail(
                f"this is version {version!r} of the graph format, expected {VERSION}",
                start,
                fix="read it with the version of maxlab that wrote it",
            )
        name = attrs.get("sym_name")
        if not isinstance(name, str):
            self.fail("the graph has no name: sym_name is missing", start)
        function.name = name
        for parameter in self._texts(attrs.get("parameters", ()), "parameters", start):
            function.parameters[parameter] = None
        names = self._texts(attrs.get("inputs", ()), "inputs", start)
        if names and len(names) != len(function.block.args):
            self.fail(f"{len(names)} names for {len(function.block.args)} inputs", start)
        for value, text in zip(function.block.args, names, strict=False):
            value.name = text

    def _texts(self, value: Any, what: str, at: int) -> tuple[str, ...]:
        if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
            self.fail(f"{what} must be a list of strings", at)
        return value

    def _largest(self, function: Function) -> int:
        """The largest number in an id, so that new ids are new."""
        largest = -1
        stack = [function.block]
        while stack:
            for op in stack.pop().ops:
                if op.regions:
                    stack.extend(op.regions)
                ids = [op.id, *[r.id for r in op.results]]
                if len(op.origins) > 1 or op.origins[0] != op.id:
                    ids.extend(op.origins)
                for name in ids:
                    digits = name[1:].partition("_")[0]
                    if (
                        digits.isdigit()
                        and digits.isascii()
                        and len(digits) < 19
                        and name[0] in "nv"
                    ):
                        number = int(digits)
                        if number > largest:
                            largest = number
        return largest

    # ------------------------------------------------------------ blocks and ops
    def _block(self, block: Block, env: _Env, depth: int) -> list[str]:
        """Read a block up to its closing brace; the names it defines are returned."""
        defined: list[str] = []
        if self.token.startswith("^"):
            self.next()
            if self.token == "(":
                self.next()
                while self.token != ")":
                    name = self._defined(env)
                    self.expect(":")
                    kind = self.type()
                    self.location()
                    index = len(block.args)
                    own = name[1:]
                    if depth == 0 and own.startswith("arg") and own[3:].isdigit():
                        own = f"a{index}"  # mlir-opt renames inputs, and counts on in subgraphs
                    value = block.add_argument(self._claim(own, env), kind)
                    env.values[name] = value
                    defined.append(name)
                    if self.token != ")":
                        self.expect(",")
                self.next()
            self.expect(":")
        while self.token != "}":
            if not self.token:
                self.fail("expected '}'")
            op = self._op(env, defined, depth)
            block.append(op)
        return defined

    def _defined(self, env: _Env) -> str:
        name = self.token
        if not name.startswith("%") or "#" in name or len(name) < 2:
            self.fail("expected the name of a value, such as %v0")
        if name in env.values:
            self.fail(f"{name} is defined twice")
        self.next()
        return name

    def _claim(self, id: str, env: _Env) -> str:
        if id in env.ids:
            self.fail(f"the id {id!r} occurs twice")
        env.ids.add(id)
        return id

    def _op(self, env: _Env, defined: list[str], depth: int) -> Op:
        start = self.at
        names, packed = self._results(env)
        name = self._op_name()
        operands = self._operands(env)
        regions: list[Block] = []
        attrs: dict[str, Any] = {}
        if self.token == "<":  # properties, which mlir-opt prints apart
            self.next()
            attrs = self.dictionary()
            self.expect(">")
        if self.token == "(":
            self._regions(regions, env, depth)
        if self.token == "{":
            attrs.update(self.dictionary())
        self.expect(":")
        types = self._signature(operands, start)
        count = packed if packed is not None else len(names)
        if len(types) != count:
            self.fail(
                f"{name} is given names for {count} results, its type has {len(types)}", start
            )
        loc = self.location()
        return self._make(
            env, defined, start, name, operands, types, attrs, names, packed, regions, loc
        )

    def _results(self, env: _Env) -> tuple[list[str], int | None]:
        names: list[str] = []
        packed: int | None = None
        if self.token.startswith("%"):
            while True:
                names.append(self._defined(env))
                if self.token != ",":
                    break
                self.next()
            if self.token == ":":  # %1:2, as mlir-opt names several results
                self.next()
                if (
                    len(names) != 1
                    or not self.token.isdigit()
                    or not 0 < int(self.token[:6]) < 100000
                ):
                    self.fail("expected a number of results")
                packed = int(self.token[:6])
                self.next()
            self.expect("=")
            if len(set(names)) != len(names):
                self.fail("two results have one name")
        return names, packed

    def _op_name(self) -> str:
        token = self.token
        name = unquote(token)
        if not name:
            self.fail('expected the name of an op, such as "mo.add"')
        if name == "mo.graph":
            self.fail("a graph cannot stand here")
        self.next()
        return name

    def _operands(self, env: _Env) -> list[Value]:
        self.expect("(")
        operands: list[Value] = []
        values = env.values
        while self.token != ")":
            value = values.get(self.token)
            if value is None:
                if not self.token.startswith("%"):
                    self.fail("expected an operand, such as %v0")
                self.fail(f"{self.token} is read before any op makes it")
            operands.append(value)
            self.next()
            if self.token != ")":
                self.expect(",")
        self.next()
        return operands

    def _regions(self, regions: list[Block], env: _Env, depth: int) -> None:
        if depth >= MAX_DEPTH:
            self.fail("regions are nested too deep")
        self.next()
        while True:
            self.expect("{")
            region = Block()
            for name in self._block(region, env, depth + 1):
                del env.values[name]
            self.expect("}")
            regions.append(region)
            if self.token != ",":
                break
            self.next()
        self.expect(")")

    def _signature(self, operands: list[Value], start: int) -> list[Type]:
        self.expect("(")
        count = 0
        while self.token != ")":
            at = self.at
            kind = self.type()
            if count >= len(operands):
                self.fail(f"more operand types than the {len(operands)} operands", at)
            known = operands[count].type
            if kind is not known and kind != known:
                self.fail(f"%{operands[count].id} is {known}, not {kind}", at)
            count += 1
            if self.token != ")":
                self.expect(",")
        self.next()
        if count != len(operands):
            self.fail(f"{count} operand types for {len(operands)} operands", start)
        self.expect("->")
        if self.token != "(":
            return [self.type()]
        self.next()
        types: list[Type] = []
        while self.token != ")":
            types.append(self.type())
            if self.token != ")":
                self.expect(",")
        self.next()
        return types

    def _make(
        self,
        env: _Env,
        defined: list[str],
        start: int,
        name: str,
        operands: list[Value],
        types: list[Type],
        attrs: dict[str, Any],
        names: list[str],
        packed: int | None,
        regions: list[Block],
        loc: Location | str | None,
    ) -> Op:
        own = attrs.pop("mo.id", None)
        scope = attrs.pop("mo.scope", "")
        origins = attrs.pop("mo.origins", ())
        value_names = attrs.pop("mo.names", ())
        region_names = attrs.pop("mo.region_names", ())
        if own is None:
            first = names[0][1:] if names else ""
            own = "n" + first[1:] if first.startswith("v") else f"op{start}"
        if not isinstance(own, str) or not isinstance(scope, str):
            self.fail("mo.id and mo.scope must be strings", start)
        self._claim(f"op {own}", env)
        if packed is not None or (names and names[0][1:].isdigit()):  # mlir-opt's own names
            stem = own.replace("n", "v", 1) if own.startswith("n") else f"v.{own}"
            count = len(types)
            ids = [self._claim(stem if i == 0 else f"{stem}_{i}", env) for i in range(count)]
            labels = [f"{names[0]}#{i}" for i in range(count)] if packed is not None else names
        else:
            ids = [self._claim(label[1:], env) for label in names]
            labels = names
        op = Op(
            own,
            name,
            operands,
            types,
            self.unescaped(attrs),
            result_ids=ids,
            loc=loc if isinstance(loc, Location) else None,
            scope=scope,
            origins=self._texts(origins, "mo.origins", start) if origins else (),
            regions=regions,
        )
        if isinstance(loc, str):
            self.later(op, loc)
        if value_names:
            value_names = self._texts(value_names, "mo.names", start)
            if len(value_names) != len(types):
                self.fail(f"{len(value_names)} names for {len(types)} results", start)
            for value, text in zip(op.results, value_names, strict=True):
                value.name = text
        if region_names:
            self._name_regions(regions, region_names, start)
        for label, value in zip(labels, op.results, strict=True):
            env.values[label] = value
            defined.append(label)
        if packed is not None:
            env.values[names[0]] = op.results[0]
            defined.append(names[0])
        return op

    def _name_regions(self, regions: list[Block], names: Any, start: int) -> None:
        if not isinstance(names, tuple) or len(names) != len(regions):
            self.fail("mo.region_names must have one list for each region", start)
        for region, texts in zip(regions, names, strict=True):
            found = self._texts(texts, "mo.region_names", start)
            if len(found) != len(region.args):
                self.fail("mo.region_names must name each argument", start)
            for value, text in zip(region.args, found, strict=True):
                value.name = text
