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

from maxlab.dtype import DType
from maxlab.errors import Location, ParseError
from maxlab.opset.conditions import INNER, Condition, ConditionError, condition, conditions_in
from maxlab.opset.declarations import (
    DTYPES,
    Argument,
    Body,
    Declaration,
    Parameter,
    ParameterRule,
    Part,
    Temporary,
)
from maxlab.opset.declared_checks import check, split
from maxlab.opset.kernel import Target
from maxlab.opset.macros import Macro, MacroTextError, macros_for, without_heading
from maxlab.opset.notes import wrong_note
from maxlab.opset.opaques import (
    DIRECTIVE,
    STARTS,
    Divided,
    Opaque,
    TypeTextError,
    divided,
    types_for,
)

_COMMENT = re.compile(r"\s*//\s?(.*?)\s*$")
_NAME = re.compile(r"[A-Za-z_]\w*")
_OP = re.compile(r"([A-Za-z_][\w.]*)\s*\((.*?)\)\s*(?:->\s*\((.*)\))?", re.DOTALL)
_ARGUMENT = re.compile(r"(inout\s+)?([A-Za-z_]\w*)\s*:\s*([A-Za-z_]\w*)\s*\[(.*)\]", re.DOTALL)
_HANDLE = re.compile(r"(inout\s+)?([A-Za-z_]\w*)\s*:\s*([A-Za-z_]\w*)")
_NAMED = re.compile(r":\s*([A-Za-z_]\w*)\s*(?=[,)])")
_PARAMETER = re.compile(
    r"([A-Za-z_]\w*)\s*:\s*(bool|int|float|ints|str|DType)\s*(?:=\s*(.+?))?\s*(?:\bin\s+(.+))?"
)
_PART = re.compile(r"([A-Za-z_]\w*)(?:\s+if\s+(.+))?")
_TEMPORARY = re.compile(
    r"([A-Za-z_]\w*)\s*:\s*([A-Za-z_]\w*)\s*\[(.+?)\](?:\s+if\s+(.+))?", re.DOTALL
)
_SIZE = re.compile(r"([A-Za-z_]\w*)\s*(?:=\s*(.+))?")
_TARGETS: dict[str, tuple[Target, ...]] = {"c": ("c",), "cuda": ("cuda",), "both": ("c", "cuda")}
_EXPRESSIONS = ("items", "work", "flops")
_OPTIONS = {"items", "work", "threads", "shared", "scratch"}
_FLAGS = {"block", "serial"}
_FLOAT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf|nan")


def read_library(
    text: str,
    file: str,
    first: int = 1,
    known: Mapping[str, Sequence[Opaque]] | None = None,
    macros: Mapping[str, Sequence[Macro]] | None = None,
) -> list[Declaration]:
    """The ops that ``text``, which begins at line ``first`` of ``file``, declares, in order.

    Args:
        known: Opaque types that other texts declare, each with all of its text.
        macros: By the names of files that ``@use`` may name: the macros that they declare.

    Raises:
        ParseError: ML761, with the line.
    """
    lines = text.expandtabs(8).splitlines()
    parts = _divided(lines, file, first)
    usable, others = list(parts.macros), macros if macros is not None else {}
    for name, number in parts.uses:
        if name not in others:
            said = f"there is no file {name!r} beside it"
            raise _bad(said, file, first + number, lines[number], "load the folder of both files")
        own = {macro.name for macro in usable}
        usable += [macro for macro in others[name] if macro.name not in own]
    made = []
    for begin, end in parts.ops:
        source = "\n".join(lines[begin:end]).rstrip()
        head = "\n".join(itertools.takewhile(_COMMENT.match, lines[begin:end]))
        named = _NAMED.findall(head)
        if named:  # with brackets behind its type, an argument is a tensor
            carried = types_for(parts.types, known or {}, named)
            source = "\n".join([source, *(each.source for each in carried)])
        used = macros_for(source, usable)
        source = "\n".join([source, *(each.source for each in used)])
        made.append(declaration(source, file, first + begin))
    return made


def read_types(text: str, file: str, first: int = 1) -> list[Opaque]:
    """The opaque types that ``text`` declares, in order.

    Raises:
        ParseError: ML761, with the line.
    """
    return list(_divided(text.expandtabs(8).splitlines(), file, first).types)


def read_macros(text: str, file: str, first: int = 1) -> list[Macro]:
    """The macros that ``text`` declares, in order.

    Raises:
        ParseError: ML761, with the line.
    """
    return list(_divided(text.expandtabs(8).splitlines(), file, first).macros)


def _divided(lines: Sequence[str], file: str, first: int) -> Divided:
    words = [(n, found) for n, line in enumerate(lines) if (found := DIRECTIVE.match(line))]
    if not any(found[1] in STARTS for _, found in words):
        return Divided()
    number, word = words[0]
    if word[1] not in STARTS:
        raise _bad(f"@{word[1]} stands before any @op", file, first + number, lines[number])
    try:
        return divided(lines, file, first)
    except (TypeTextError, MacroTextError) as error:
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
        "@sizes, @temp, @part, @items, @work, @flops, @c, @cuda, @both, @before, @each, @if, "
        "@elif, @else, @endif, @opaque, @macro, @use, @end",
    )


class _Reader:
    """Reads one declaration."""

    def __init__(self, source: str, file: str, line: int) -> None:
        self.source, self.file, self.first = source, file, line
        lines = source.splitlines()
        self.parts = _divided(lines, file, line)
        self.lines = lines[: self.parts.ops[0][1]]
        self.at = 0
        self.operands: tuple[Argument, ...] = ()
        self.results: tuple[Argument, ...] = ()
        self.types: dict[str, tuple[DType, ...]] = {}
        self.parameters: dict[str, ParameterRule] = {}
        self.sizes: dict[str, str | None] = {}
        self.temporaries: list[Temporary] = []
        self.common: dict[str, str] = {}
        self.made: list[Part] = []
        self.part = Part()
        self.expressions = self.common
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
            elif word == "sizes":
                self._sizes(rest, number)
            elif word == "temp":
                self._temporary(rest, number)
            elif word == "part":
                self._begin(rest, number)
            elif word in _EXPRESSIONS:
                if word in self.expressions:
                    raise self.fail(f"@{word} stands twice", number)
                self.expressions[word] = rest
            else:
                raise self.fail(f"there is no directive @{word}", number)
        self._finish(name)
        made = Declaration(
            name,
            self.operands,
            self.results,
            self.types,
            self.parameters,
            tuple(self.made),
            self.source,
            self.file,
            self.first,
            self.parts.types,
            self.parts.macros,
            tuple(self.temporaries),
            self.sizes,
        )
        check(made, self.fail, self.lines)
        return made

    def _begin(self, rest: str, number: int) -> None:
        """Begin another part; what was said before the first one holds for all."""
        found = _PART.fullmatch(rest)
        if found is None:
            raise self.fail(
                f"{rest!r} is no part", number, fix="write // @part sums, or // @part sums if n > 4"
            )
        if self.part.name:
            self._finish(self.part.name)
        elif self.bodies:
            raise self.fail("@part stands behind a body that is of no part", number)
        if any(part.name == found[1] for part in self.made):
            raise self.fail(f"there are two parts {found[1]!r}", number)
        self.part = Part(found[1], self._condition(found[2], number), line=number)
        self.expressions, self.bodies = {}, {}

    def _finish(self, name: str) -> None:
        """End the part whose bodies were read last."""
        if not self.bodies:
            raise self.fail(
                f"{name} has no body",
                self.part.line,
                fix="write // @both, and the statements below it",
            )
        said = {**self.common, **self.expressions}
        part = self.part
        self.made.append(Part(part.name, part.condition, said, self.bodies, part.line))

    def _condition(self, text: str | None, number: int) -> Condition | None:
        if text is None:
            return None
        try:
            return condition(text)
        except ConditionError as error:
            raise self.fail(error.what, number) from None

    def _sizes(self, rest: str, number: int) -> None:
        for part in rest.split(";"):
            found = _SIZE.fullmatch(part.strip())
            if found is None or found[1] in self.sizes:
                raise self.fail(
                    f"{part.strip()!r} is no size, or stands twice",
                    number,
                    fix="write // @sizes half = n // 2; rest = n - half",
                )
            self.sizes[found[1]] = found[2]

    def _temporary(self, rest: str, number: int) -> None:
        found = _TEMPORARY.fullmatch(rest)
        if found is None:
            raise self.fail(
                f"{rest!r} is no memory", number, fix="write // @temp sums: float32[rows * 16]"
            )
        test = self._condition(found[4], number)
        self.temporaries.append(Temporary(found[1], found[2], found[3], test, number))

    def _directives(self) -> Iterator[tuple[str, str, int]]:
        """The directives of the head, each with its line; bodies are taken on the way."""
        while self.at < len(self.lines):
            number, line = self.at, self.lines[self.at]
            found = DIRECTIVE.match(line)
            if INNER.match(line) is not None:
                raise self.fail("it stands outside of any body", number)
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
                whole = rest.count("(") <= rest.count(")") and not rest.endswith((";", "->"))
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
        body = self._statements(word, options, frozenset(flags), number)
        for target in _TARGETS[word]:
            if target in self.bodies:
                raise self.fail(f"there are two bodies for {target}", number)
            self.bodies[target] = body

    def _statements(
        self, word: str, options: dict[str, str], flags: frozenset[str], number: int
    ) -> Body:
        """The body below the directive ``word``, to the next one."""
        first, text = self._text()
        before = (0, "")
        found = DIRECTIVE.match(self.lines[self.at]) if self.at < len(self.lines) else None
        if found is not None and found[1] == "before":
            if text.strip():
                raise self.fail("@before stands behind statements of the items", self.at)
            self.at += 1
            before = self._text()
            text = ""
            found = DIRECTIVE.match(self.lines[self.at]) if self.at < len(self.lines) else None
            if found is not None and found[1] == "each":
                self.at += 1
                first, text = self._text()
        if not (text.strip() or before[1].strip()):
            raise self.fail(f"the body of @{word} is empty", number)
        return Body(first, text, options, flags, before)

    def _text(self) -> tuple[int, str]:
        """Lines to the next directive, but those that choose lines; and the number of the first."""
        start = self.at
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if DIRECTIVE.match(line) and not INNER.match(line):
                break
            self.at += 1
        text = without_heading("\n".join(self.lines[start : self.at]))
        wrong = wrong_note(text)
        if wrong is not None:
            raise self.fail(wrong[1], start + wrong[0])
        try:
            for _ in conditions_in(text):
                pass
        except ConditionError as error:
            raise self.fail(error.what, start + error.line) from None
        return self.first + start, text

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
        for part in split(text):
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
            dims = tuple(split(found[4]))
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
            if choices == "any":
                self.types[name] = tuple(DTYPES.values())
                continue
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
            chosen = tuple(self._value(kind, c, number) for c in split(choices or ""))
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
        if kind == "float" and _FLOAT.fullmatch(text):
            return float(text)
        if kind == "ints" and re.fullmatch(r"\((?:\s*-?\d{1,19}\s*,?)*\)", text):
            return tuple(int(each) for each in re.findall(r"-?\d+", text))
        if kind == "str" and re.fullmatch(r'"[^"\\]*"', text):
            return text[1:-1]
        raise self.fail(f"{text!r} is not a value of the type {kind}", number)


__all__ = [
    "DTYPES",
    "Argument",
    "Body",
    "Declaration",
    "Parameter",
    "ParameterRule",
    "declaration",
    "read_library",
    "read_macros",
    "read_types",
]
