"""The text of a kernel library: ops that users declare in comments above their own C and CUDA.

::

    // @op grayscale(x: T[h, w, 3]) -> (y: T[h, w])
    // @types T: float32 | float16
    // @params GAIN: int = 1
    // @both
    store(y, i, GAIN * (load(x, 3 * i) + load(x, 3 * i + 1) + load(x, 3 * i + 2)) / 3);

``read_library`` reads a text into declarations; ``custom`` binds one to types and writes kernels of
it. docs/how-to/write-a-kernel.md describes the language.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from maxlab.dtype import DType
from maxlab.errors import Location, MaxlabError, ParseError
from maxlab.ir.dimtext import read_poly
from maxlab.ir.poly import Poly
from maxlab.opset.kernel import Target
from maxlab.opset.notes import wrong_note
from maxlab.opset.opaques import DIRECTIVE, Opaque, TypeTextError, divided, types_for

ParameterKind = Literal["bool", "int", "str", "DType"]
Parameter = bool | int | str | DType

_COMMENT = re.compile(r"\s*//\s?(.*?)\s*$")
_NAME = re.compile(r"[A-Za-z_]\w*")
_OP = re.compile(r"([A-Za-z_][\w.]*)\s*\((.*?)\)\s*(?:->\s*\((.*)\))?", re.DOTALL)
_ARGUMENT = re.compile(r"(inout\s+)?([A-Za-z_]\w*)\s*:\s*([A-Za-z_]\w*)\s*\[(.*)\]", re.DOTALL)
_HANDLE = re.compile(r"(inout\s+)?([A-Za-z_]\w*)\s*:\s*([A-Za-z_]\w*)")
_NAMED = re.compile(r":\s*([A-Za-z_]\w*)\s*(?=[,)])")
_PARAMETER = re.compile(
    r"([A-Za-z_]\w*)\s*:\s*(bool|int|str|DType)\s*(?:=\s*(.+?))?\s*(?:\bin\s+(.+))?"
)
_MEMBER = re.compile(r"\b([A-Za-z_]\w*)\.(\d+|size|rank)\b")
DTYPES = {d.name: d for d in DType if not d.name.startswith(("float8", "float4"))}
"""The dtypes of tensors that kernels read and write, by their names."""
_TARGETS: dict[str, tuple[Target, ...]] = {"c": ("c",), "cuda": ("cuda",), "both": ("c", "cuda")}
_EXPRESSIONS = ("items", "work", "flops")
_OPTIONS = {"items", "work", "threads", "shared", "scratch"}
_FLAGS = {"block", "serial"}
RESERVED = frozenset({"i", "load", "store", "shared", "scratch"})
"""Names that a body has anyway, so that no argument, dim or parameter is called so."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An operand or a result as it is declared.

    Attributes:
        element: The name of a dtype, of a type variable, or of a ``DType`` parameter.
        dims: Names, numbers, in results expressions; ``*name`` stands for any number of dims.
        inout: Whether the op changes this operand, a buffer or what a handle holds, in place.
        opaque: Whether it is a handle; ``element`` is the name of its type then.
    """

    name: str
    element: str
    dims: tuple[str, ...]
    inout: bool = False
    opaque: bool = False

    def __str__(self) -> str:
        word = "inout " if self.inout else ""
        if self.opaque:
            return f"{word}{self.name}: {self.element}"
        return f"{word}{self.name}: {self.element}[{', '.join(self.dims)}]"


@dataclass(frozen=True, slots=True)
class ParameterRule:
    """The values that a parameter may have; ``default`` is None when it must be given."""

    name: str
    kind: ParameterKind
    default: Parameter | None = None
    choices: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """The statements for one target, from line ``line`` of the file on."""

    line: int
    text: str
    options: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Declaration:
    """One op of a kernel library.

    Attributes:
        source: Its text, from ``@op`` on, which is all that is needed to declare it again.
        file: Where that text stands; ``line`` is the line of ``@op``, counted from 1.
        opaques: The types of the handles that it makes and takes, and what they are declared with.
    """

    name: str
    operands: tuple[Argument, ...]
    results: tuple[Argument, ...]
    types: Mapping[str, tuple[DType, ...]]
    parameters: Mapping[str, ParameterRule]
    expressions: Mapping[str, str]
    bodies: Mapping[Target, Body]
    source: str
    file: str
    line: int
    opaques: tuple[Opaque, ...] = ()

    @property
    def has_handles(self) -> bool:
        """Whether an operand or a result is an opaque handle."""
        return any(argument.opaque for argument in (*self.operands, *self.results))

    @property
    def changed(self) -> tuple[int, ...]:
        """The numbers of the operands that are buffers the op changes in place."""
        found = enumerate(self.operands)
        return tuple(n for n, operand in found if operand.inout and not operand.opaque)

    @property
    def location(self) -> Location:
        """The line that declares the op."""
        return Location(self.file, self.line, 0, self.source.partition("\n")[0])

    def __str__(self) -> str:
        head = f"{self.name}({', '.join(map(str, self.operands))})"
        return f"{head} -> ({', '.join(map(str, self.results))})" if self.results else head


def read_library(
    text: str, file: str, first: int = 1, known: Mapping[str, Sequence[Opaque]] | None = None
) -> list[Declaration]:
    """The ops that ``text``, which begins at line ``first`` of ``file``, declares, in order.

    Args:
        known: Opaque types that other texts declare, each with all of its text.

    Raises:
        ParseError: ML761, with the line.
    """
    lines = text.expandtabs(8).splitlines()
    ops, types = _divided(lines, file, first)
    made = []
    for begin, end in ops:
        source = "\n".join(lines[begin:end]).rstrip()
        head = "\n".join(itertools.takewhile(_COMMENT.match, lines[begin:end]))
        named = _NAMED.findall(head)
        if named:  # with brackets behind its type, an argument is a tensor
            carried = types_for(types, known or {}, named)
            source = "\n".join([source, *(each.source for each in carried)])
        made.append(declaration(source, file, first + begin))
    return made


def read_types(text: str, file: str, first: int = 1) -> list[Opaque]:
    """The opaque types that ``text`` declares, in order.

    Raises:
        ParseError: ML761, with the line.
    """
    return _divided(text.expandtabs(8).splitlines(), file, first)[1]


def _divided(
    lines: Sequence[str], file: str, first: int
) -> tuple[list[tuple[int, int]], list[Opaque]]:
    words = [(n, found) for n, line in enumerate(lines) if (found := DIRECTIVE.match(line))]
    if not any(found[1] in ("op", "opaque") for _, found in words):
        return [], []
    number, word = words[0]
    if word[1] not in ("op", "opaque"):
        raise _bad(f"@{word[1]} stands before any @op", file, first + number, lines[number])
    try:
        return divided(lines, file, first)
    except TypeTextError as error:
        raise _bad(error.what, file, first + error.line, lines[error.line], error.fix) from None


@functools.lru_cache(maxsize=512)
def declaration(source: str, file: str, line: int) -> Declaration:
    """The op that ``source``, a text from ``@op`` on, declares.

    Raises:
        ParseError: ML761, with the line.
    """
    return _Reader(source, file, line).read()


def _bad(what: str, file: str, line: int, text: str = "", fix: str | None = None) -> ParseError:
    return ParseError(
        "ML761",
        f"the kernel library cannot be read: {what}",
        at=Location(file, line, len(text) - len(text.lstrip()), text),
        fix=fix
        or "docs/how-to/write-a-kernel.md has the directives: @op, @types, @params, "
        "@items, @work, @flops, @opaque, @c, @cuda, @both, @end",
    )


class _Reader:
    """Reads one declaration."""

    def __init__(self, source: str, file: str, line: int) -> None:
        self.source, self.file, self.first = source, file, line
        lines = source.splitlines()
        ops, self.opaques = _divided(lines, file, line)
        self.lines = lines[: ops[0][1]]
        self.at = 0
        self.operands: tuple[Argument, ...] = ()
        self.results: tuple[Argument, ...] = ()
        self.types: dict[str, tuple[DType, ...]] = {}
        self.parameters: dict[str, ParameterRule] = {}
        self.expressions: dict[str, str] = {}
        self.bodies: dict[Target, Body] = {}

    def fail(self, what: str, at: int | None = None, fix: str | None = None) -> ParseError:
        """The error ``what`` at a line, the current one when ``at`` is None."""
        number = self.at if at is None else at
        text = self.lines[number] if number < len(self.lines) else ""
        return _bad(what, self.file, self.first + number, text, fix)

    def read(self) -> Declaration:
        """The declaration."""
        name = ""
        for word, rest, number in self._directives():
            if word == "op":
                name = self._op(rest, number)
            elif word == "types":
                self._types(rest, number)
            elif word == "params":
                self._params(rest, number)
            elif word in _EXPRESSIONS:
                if word in self.expressions:
                    raise self.fail(f"@{word} stands twice", number)
                self.expressions[word] = rest
            else:
                raise self.fail(f"there is no directive @{word}", number)
        if not self.bodies:
            raise self.fail(
                f"{name} has no body", 0, fix="write // @both, and the statements below it"
            )
        made = Declaration(
            name,
            self.operands,
            self.results,
            self.types,
            self.parameters,
            self.expressions,
            self.bodies,
            self.source,
            self.file,
            self.first,
            tuple(self.opaques),
        )
        self._check(made)
        self._check_handles(made)
        return made

    def _directives(self) -> Iterator[tuple[str, str, int]]:
        """The directives of the head, each with its line; bodies are taken on the way."""
        while self.at < len(self.lines):
            number, line = self.at, self.lines[self.at]
            found = DIRECTIVE.match(line)
            self.at += 1
            if found is None:
                if line.strip() and _COMMENT.match(line) is None:
                    raise self.fail(
                        f"{line.strip()[:40]!r} stands outside of any body",
                        number,
                        fix="write // @both, // @c or // @cuda above the statements",
                    )
                continue
            word, rest = found[1], found[2]
            if word in _TARGETS:
                self._body(word, rest, number)
                continue
            if word == "end":
                continue
            while self.at < len(self.lines):
                more = _COMMENT.match(self.lines[self.at])
                if more is None or DIRECTIVE.match(self.lines[self.at]):
                    break
                whole = rest.count("(") <= rest.count(")")
                if whole and not (
                    word == "op" and more[1].lstrip().startswith("->") and "->" not in rest
                ):
                    break
                rest += " " + more[1]
                self.at += 1
            yield word, rest, number

    def _body(self, word: str, rest: str, number: int) -> None:
        options: dict[str, str] = {}
        flags = set()
        for part in rest.split():
            key, equals, value = part.partition("=")
            if equals and key in _OPTIONS and value:
                options[key] = value
            elif not equals and key in _FLAGS:
                flags.add(key)
            else:
                raise self.fail(
                    f"@{word} does not know {part!r}",
                    number,
                    fix="it takes block, serial, threads=256, items=…, work=…, shared=…, "
                    "scratch=…, without spaces around =",
                )
        threads = options.get("threads", "256")
        if not threads.isdigit() or not 0 < int(threads) <= 1024:
            raise self.fail("threads= takes a number from 1 to 1024", number)
        start = self.at
        while self.at < len(self.lines) and DIRECTIVE.match(self.lines[self.at]) is None:
            self.at += 1
        text = "\n".join(self.lines[start : self.at]).rstrip()
        if not text.strip():
            raise self.fail(f"the body of @{word} is empty", number)
        body = Body(self.first + start, text, options, frozenset(flags))
        wrong = wrong_note(text)
        if wrong is not None:
            raise self.fail(wrong[1], start + wrong[0])
        for target in _TARGETS[word]:
            if target in self.bodies:
                raise self.fail(f"there are two bodies for {target}", number)
            self.bodies[target] = body

    def _op(self, rest: str, number: int) -> str:
        found = _OP.fullmatch(rest)
        if found is None:
            raise self.fail(
                "an op is declared as `name(x: T[n]) -> (y: T[n])`",
                number,
                fix="write // @op scale(x: float32[n]) -> (y: float32[n])",
            )
        self.operands = self._arguments(found[2], number)
        self.results = self._arguments(found[3] or "", number)
        if any(result.inout for result in self.results):
            raise self.fail(
                "a result cannot be inout: what is changed in place is an operand", number
            )
        if not self.results and not any(operand.inout for operand in self.operands):
            raise self.fail(
                f"{found[1]} has no result, and changes no operand",
                number,
                fix="write -> (y: float32[n]), or inout x: float32[n] for a buffer that it changes",
            )
        return found[1]

    def _arguments(self, text: str, number: int) -> tuple[Argument, ...]:
        made = []
        for part in _split(text):
            handle = _HANDLE.fullmatch(part)
            if handle is not None and handle[3] not in DTYPES:
                made.append(Argument(handle[2], handle[3], (), handle[1] is not None, opaque=True))
                continue
            found = _ARGUMENT.fullmatch(part)
            if found is None:
                raise self.fail(
                    f"{part!r} is not an argument",
                    number,
                    fix="write the name, the dtype and the dims: x: float32[n, 4]",
                )
            dims = tuple(_split(found[4]))
            if sum(dim.startswith("*") for dim in dims) > 1:
                raise self.fail(f"{part!r} has two dims with a star", number)
            made.append(Argument(found[2], found[3], dims, found[1] is not None))
        return tuple(made)

    def _types(self, rest: str, number: int) -> None:
        for part in rest.split(";"):
            name, colon, choices = (p.strip() for p in part.partition(":"))
            if not colon or not _NAME.fullmatch(name):
                raise self.fail(
                    f"{part.strip()!r} is not a type variable",
                    number,
                    fix="write // @types T: float32 | float16; U: int32",
                )
            self.types[name] = tuple(self._dtype(c.strip(), number) for c in choices.split("|"))

    def _dtype(self, name: str, number: int) -> DType:
        dtype = DTYPES.get(name)
        if dtype is None:
            raise self.fail(
                f"{name!r} is not a dtype that kernels read",
                number,
                fix=f"the dtypes are {', '.join(DTYPES)}",
            )
        return dtype

    def _params(self, rest: str, number: int) -> None:
        for part in rest.split(";"):
            found = _PARAMETER.fullmatch(part.strip())
            if found is None:
                raise self.fail(
                    f"{part.strip()!r} is not a parameter",
                    number,
                    fix='write // @params GAIN: int = 1; MODE: str = "mean" in "mean", "max"',
                )
            name, kind, default, choices = found.groups()
            chosen = tuple(self._value(kind, c, number) for c in _split(choices or ""))
            value = None if default is None else self._value(kind, default, number)
            if chosen and value is not None and value not in chosen:
                raise self.fail(f"the default of {name} is none of its choices", number)
            self.parameters[name] = ParameterRule(name, kind, value, chosen)  # type: ignore[arg-type]

    def _value(self, kind: str, text: str, number: int) -> Parameter:
        if kind == "DType":
            return self._dtype(text.removeprefix("DType."), number)
        if kind == "bool" and text in ("true", "false", "True", "False"):
            return text.lower() == "true"
        if kind == "int" and re.fullmatch(r"-?\d{1,19}", text):
            return int(text)
        if kind == "str" and re.fullmatch(r'"[^"\\]*"', text):
            return text[1:-1]
        raise self.fail(f"{text!r} is not a value of the type {kind}", number)

    # ------------------------------------------------------------ what belongs together
    def _check(self, made: Declaration) -> None:
        names = [a.name for a in (*made.operands, *made.results)]
        names += [*made.types, *made.parameters]
        for name in names:
            if names.count(name) > 1:
                raise self.fail(f"the name {name!r} stands for two things", 0)
        dims = {n for a in (*made.operands, *made.results) for n in self._dim_names(a)}
        for name in (*names, *dims):
            if name in RESERVED:
                raise self.fail(f"the name {name!r} means something in a body", 0)
            if name in dims and name in names and not self._is_int(name):
                raise self.fail(f"the name {name!r} stands for a dim and something else", 0)
        for argument in (*made.operands, *made.results):
            element = argument.element
            if argument.opaque:
                continue
            rule = made.parameters.get(element)
            known = element in made.types or (rule is not None and rule.kind == "DType")
            if not known and element not in DTYPES:
                raise self.fail(
                    f"{argument.name} has the element type {element!r}, which is no dtype that "
                    "kernels read and no type variable",
                    0,
                    fix=f"declare it: // @types {element}: float32 | float16",
                )
        self._check_dims(made, dims, set(names))

    def _check_handles(self, made: Declaration) -> None:
        """Refuse handles of types that nobody declares, and bodies that cannot have them."""
        types = {each.name for each in made.opaques}
        for argument in (*made.operands, *made.results):
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
        if "cuda" in made.bodies:
            raise self.fail(
                f"{made.name} has handles, which are memory of the host, and a body for GPUs",
                0,
                fix="write the body below // @c",
            )
        makes = any(result.opaque for result in made.results)
        if makes and ("items" in made.expressions or "items" in made.bodies["c"].options):
            raise self.fail(
                f"{made.name} makes a handle, so that its body runs once, and says @items", 0
            )

    def _is_int(self, name: str) -> bool:
        rule = self.parameters.get(name)
        return rule is not None and rule.kind == "int"

    def _dim_names(self, argument: Argument) -> Iterator[str]:
        for dim in argument.dims:
            word = dim.removeprefix("*").strip()
            if _NAME.fullmatch(word):
                yield word

    def _check_dims(self, made: Declaration, dims: set[str], names: set[str]) -> None:
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
        members = {a.name for a in (*made.operands, *made.results)}
        for argument in made.results:
            for dim in argument.dims:
                if not dim.startswith("*"):
                    self._check_expression(dim, dims, {a.name for a in made.operands}, 0)
        where = {
            found[1]: n for n, line in enumerate(self.lines) if (found := DIRECTIVE.match(line))
        }
        for word, text in made.expressions.items():
            self._check_expression(text, dims, members, where.get(word, 0))
        for body in made.bodies.values():
            for key, text in body.options.items():
                if key != "threads":
                    self._check_expression(text, dims, members, body.line - self.first - 1)

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
                    f"{text!r} names {name!r}, which is no dim and no int parameter",
                    at,
                    fix=f"the dims are {', '.join(sorted(dims)) or 'none'}",
                )


def _split(text: str) -> list[str]:
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


__all__ = [
    "DTYPES",
    "RESERVED",
    "Argument",
    "Body",
    "Declaration",
    "Parameter",
    "ParameterRule",
    "declaration",
    "expression",
    "read_library",
    "read_types",
]
