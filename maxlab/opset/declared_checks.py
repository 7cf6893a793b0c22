"""Checks that a declaration fits together: names that stand for one thing, sizes that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from maxlab.errors import MaxlabError, ParseError
from maxlab.ir.dimtext import read_poly
from maxlab.ir.poly import Poly
from maxlab.opset.conditions import Condition, conditions_in
from maxlab.opset.declarations import DTYPES, RESERVED, Argument, Declaration
from maxlab.opset.opaques import DIRECTIVE

_NAME = re.compile(r"[A-Za-z_]\w*")
_MEMBER = re.compile(r"\b([A-Za-z_]\w*)\.(\d+|size|rank)\b")


class Failing(Protocol):
    """Makes an error of a line, counted from 0, of the declaration."""

    def __call__(self, what: str, at: int | None = None, fix: str | None = None) -> ParseError:
        """The error."""
        ...


def check(made: Declaration, fail: Failing, lines: Sequence[str]) -> None:
    """Raise unless ``made``, which stands in ``lines``, fits together.

    Raises:
        ParseError: ML761, with the line.
    """
    each = _Checker(made, fail, lines)
    each.names()
    each.handles()
    each.conditions()


class _Checker:
    def __init__(self, made: Declaration, fail: Failing, lines: Sequence[str]) -> None:
        self.made, self.fail, self.lines = made, fail, lines
        self.arguments = (*made.operands, *made.results)
        self.dims = {n for a in self.arguments for n in self._dim_names(a)}

    def names(self) -> None:
        """Refuse a name that stands for two things, or for nothing."""
        made = self.made
        names = [a.name for a in self.arguments]
        names += [*made.types, *made.parameters, *made.sizes, *(t.name for t in made.temporaries)]
        names += [macro.name for macro in made.macros]
        for name in names:
            if names.count(name) > 1:
                raise self.fail(f"the name {name!r} stands for two things", 0)
        for name in (*names, *self.dims):
            if name in RESERVED:
                raise self.fail(f"the name {name!r} means something in a body", 0)
            if name in self.dims and name in names and not self._is_int(name):
                raise self.fail(f"the name {name!r} stands for a dim and something else", 0)
        elements = [(a.name, a.element, 0) for a in self.arguments if not a.opaque]
        elements += [(t.name, t.element, t.line) for t in made.temporaries]
        for name, element, line in elements:
            rule = made.parameters.get(element)
            known = element in made.types or (rule is not None and rule.kind == "DType")
            if not known and element not in DTYPES:
                raise self.fail(
                    f"{name} has the element type {element!r}, which is no dtype that "
                    "kernels read and no type variable",
                    line,
                    fix=f"declare it: // @types {element}: float32 | float16",
                )
        self._check_dims()

    def handles(self) -> None:
        """Refuse handles of types that nobody declares, and bodies that cannot have them."""
        made = self.made
        types = {each.name for each in made.opaques}
        for argument in self.arguments:
            if argument.opaque and argument.element not in types:
                raise self.fail(
                    f"{argument.name} is a handle of the type {argument.element!r}, which is not "
                    "declared",
                    0,
                    fix=f"write // @opaque {argument.element} drop=…, and the struct below it; a "
                    "tensor has dims: x: float32[n]",
                )
        if not made.has_handles:
            return
        if "cuda" in made.targets:
            raise self.fail(
                f"{made.name} has handles, which are memory of the host, and a body for GPUs",
                0,
                fix="write the body below // @c",
            )
        if len(made.parts) > 1:
            raise self.fail(
                f"{made.name} has handles, and several parts", made.parts[1].line,
                fix="write one body below // @c",
            )  # fmt: skip
        makes = any(result.opaque for result in made.results)
        ((part, body),) = made.bodies("c")
        if makes and ("items" in part.expressions or "items" in body.options):
            raise self.fail(
                f"{made.name} makes a handle, so that its body runs once, and says @items", 0
            )

    def conditions(self) -> None:
        """Refuse conditions with names that are not declared."""
        made = self.made
        for part in made.parts:
            self._condition(part.condition, part.line)
            for body in part.bodies.values():
                for line, text in ((body.line, body.text), body.before):
                    for number, test in conditions_in(text):
                        self._condition(test, line - made.line + number)
        for memory in made.temporaries:
            self._condition(memory.condition, memory.line)

    def _condition(self, test: Condition | None, at: int) -> None:
        if test is None:
            return
        made = self.made
        known = {"gpu", *self.dims, *made.types, *made.parameters, *made.sizes}
        for name in sorted(test.names() - known):
            raise self.fail(
                f"the condition {test.text!r} names {name!r}, which is no parameter, type or size",
                at,
                fix=f"the names are {', '.join(sorted(known)) or 'none'}",
            )

    def _is_int(self, name: str) -> bool:
        rule = self.made.parameters.get(name)
        return rule is not None and rule.kind == "int"

    def _dim_names(self, argument: Argument) -> Iterator[str]:
        for dim in argument.dims:
            word = dim.removeprefix("*").strip()
            if _NAME.fullmatch(word):
                yield word

    def _check_dims(self) -> None:
        made, dims = self.made, self.dims
        stars = {n for a in made.operands for d in a.dims if (n := d[1:].strip()) and d[0] == "*"}
        for argument in made.operands:
            for dim in argument.dims:
                word = dim.removeprefix("*").strip()
                if not _NAME.fullmatch(word) and not dim.isdigit():
                    raise self.fail(
                        f"{argument.name}: the dim {dim!r} of an operand is no name or number",
                        0,
                    )
                if not dim.startswith("*") and word in stars:
                    raise self.fail(f"{word!r} is one dim here and any number of dims there", 0)
        lists = {name for name, rule in made.parameters.items() if rule.kind == "ints"}
        members = {a.name for a in self.arguments} | lists
        for argument in made.results:
            for dim in argument.dims:
                if not dim.startswith("*"):
                    self._check_expression(dim, dims, {a.name for a in made.operands} | lists, 0)
        where = {
            found[1]: n for n, line in enumerate(self.lines) if (found := DIRECTIVE.match(line))
        }
        known = set(dims)
        for name, said in made.sizes.items():
            if said is not None:
                self._check_expression(said, known, members, where.get("sizes", 0))
            known.add(name)
        for memory in made.temporaries:
            self._check_expression(memory.count, known, members, memory.line)
        for part in made.parts:
            for word, text in part.expressions.items():
                self._check_expression(text, known, members, where.get(word, 0))
            for body in part.bodies.values():
                line = min(number for number in (body.line, body.before[0]) if number)
                for key, text in body.options.items():
                    if key != "threads":
                        self._check_expression(text, known, members, line - made.line - 1)

    def _check_expression(self, text: str, dims: set[str], members: set[str], at: int) -> None:
        try:
            poly = expression(text)
        except MaxlabError as error:
            raise self.fail(error.what, at, error.fix) from None
        for name in poly.symbols():
            argument, _, member = name.partition("__of_")
            if member:
                if argument not in members:
                    raise self.fail(f"{text!r} names {argument!r}, which is no argument", at)
            elif name not in dims and not self._is_int(name):
                raise self.fail(
                    f"{text!r} names {name!r}, which is no dim, no size and no int parameter",
                    at,
                    fix=f"the dims are {', '.join(sorted(dims)) or 'none'}",
                )


def split(text: str) -> list[str]:
    """The parts of ``text`` between commas that stand in no brackets and no quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def expression(text: str) -> Poly:
    """The polynomial that ``text`` spells; ``x.0``, ``x.size`` and ``x.rank`` become the symbols
    ``x__of_0``, ``x__of_size`` and ``x__of_rank``.

    Raises:
        ParseError: ML351, anything else.
    """
    return read_poly(_MEMBER.sub(lambda m: f"{m[1]}__of_{m[2]}", text))


__all__ = ["Failing", "check", "expression", "split"]
