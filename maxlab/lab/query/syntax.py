"""Reads queries: ``op=matmul & time>1ms`` becomes a tree of ``Test``s.

Queries have this grammar, in which a blank between two terms means ``&``::

    query  = every ("|" every)*
    every  = term ("&"? term)*
    term   = "!" term | "(" query ")" | "in(" scope ")" | field compare value | text
    text   = word | "words" | /regular expression/
    value  = text | number unit? | "[" dims "]"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from maxlab.errors import QueryError
from maxlab.lab.protocol.query import QUERY_FIELDS, QUERY_UNITS, QueryField

FIELDS = {field["name"]: field for field in QUERY_FIELDS}

Compare = Literal["=", "!=", "<", "<=", ">", ">=", ":"]

_COMPARES: tuple[Compare, ...] = ("!=", "<=", ">=", "=", "<", ">", ":")
_ALLOWED: dict[str, tuple[Compare, ...]] = {
    "text": ("=", "!=", ":"),
    "number": ("=", "!=", "<", "<=", ">", ">="),
    "shape": ("=", "!="),
}
_ENDS = frozenset('&|!()"=<>')
_VALUE_ENDS = frozenset('&|()"')
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(.*)", re.DOTALL)
_FLAG = re.IGNORECASE


@dataclass(frozen=True)
class Text:
    """A pattern of texts, which ignores case.

    Attributes:
        how: ``whole`` compares all of a text, in which ``*`` of an unquoted pattern stands for
            anything; ``part`` finds the pattern anywhere; ``regex`` searches.
        pattern: In lower case, unless it is a regular expression.
        stars: Whether ``*`` stands for anything.
    """

    how: Literal["whole", "part", "regex"]
    pattern: str
    stars: bool = False

    def matches(self, text: str) -> bool:
        """Whether ``text`` is as the pattern says."""
        if self.how == "regex":
            return re.search(self.pattern, text, _FLAG) is not None
        low = text.lower()
        if self.how == "part":
            return self.pattern in low
        if not self.stars:
            return low == self.pattern
        return starred(self.pattern, low)


def starred(pattern: str, text: str) -> bool:
    """Whether ``text`` is ``pattern``, in which each ``*`` stands for any text."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - at >= len(rest[-1]) and text.endswith(rest[-1])


@dataclass(frozen=True)
class Words:
    """A text anywhere in what is written about an operation."""

    text: Text


@dataclass(frozen=True)
class Inside:
    """Names of scopes that follow on each other in the path of an operation, or a pattern of it."""

    text: Text


@dataclass(frozen=True)
class Has:
    """A comparison of a field with a ``Text``, a number in the field's own unit, or dims."""

    field: str
    compare: Compare
    value: Text | float | tuple[str, ...]


@dataclass(frozen=True)
class Not:
    """Finds everything that ``test`` does not find."""

    test: Test


@dataclass(frozen=True)
class All:
    """Finds everything that all of ``tests`` find."""

    tests: tuple[Test, ...]


@dataclass(frozen=True)
class Some:
    """Finds everything that one of ``tests`` finds."""

    tests: tuple[Test, ...]


Test = Words | Inside | Has | Not | All | Some


def fields_of(test: Test) -> set[str]:
    """The names of the fields that ``test`` compares."""
    match test:
        case Has(field=field):
            return {field}
        case Not(test=inner):
            return fields_of(inner)
        case All(tests=tests) | Some(tests=tests):
            return {name for inner in tests for name in fields_of(inner)}
        case _:
            return set()


def distance(a: str, b: str) -> int:
    """The letters to add, remove or replace between ``a`` and ``b``."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (left != right))
    return row[-1]


def near(name: str, known: Sequence[str], most: int = 1) -> list[str]:
    """Up to ``most`` of ``known`` that ``name`` may have been meant as: at most two letters, or
    a third of a longer name, are other ones."""
    limit = 1 if len(name) < 4 else max(2, len(name) // 3)
    found = [(distance(name.lower(), other.lower()), n) for n, other in enumerate(known)]
    return [known[n] for away, n in sorted(found) if away <= limit][:most]


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    # ------------------------------------------------------------ letters
    def fail(self, what: str, at: int | None = None) -> NoReturn:
        place = self.at if at is None else at
        fix = 'queries read like op=matmul & time>1ms & in(layers.3); quote a text: "a & b"'
        raise QueryError("ML910", what, self.text, place, fix)

    def expected(self, what: str) -> NoReturn:
        got = f"'{self.text[self.at]}'" if self.at < len(self.text) else "the end"
        self.fail(f"expected {what}, got {got}")

    def blank(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        self.blank()
        return self.text[self.at : self.at + 1]

    def take(self, *wanted: str) -> str | None:
        self.blank()
        for one in wanted:
            if self.text.startswith(one, self.at):
                self.at += len(one)
                return one
        return None

    def run(self, ends: frozenset[str]) -> str:
        """The letters up to a blank or one of ``ends``."""
        start = self.at
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter.isspace() or letter in ends:
                break
            self.at += 1
        return self.text[start : self.at]

    # ------------------------------------------------------------ grammar
    def query(self) -> Test:
        tests = [self.every()]
        while self.take("||", "|"):
            tests.append(self.every())
        return tests[0] if len(tests) == 1 else Some(tuple(tests))

    def every(self) -> Test:
        tests = [self.term()]
        while True:
            joined = self.take("&&", "&") is not None
            if not joined and self.peek() in ("", "|", ")"):
                return tests[0] if len(tests) == 1 else All(tuple(tests))
            tests.append(self.term())

    def term(self) -> Test:
        first = self.peek()
        if first == "!":
            self.at += 1
            return Not(self.term())
        if first == "(":
            self.at += 1
            inner = self.query()
            if self.take(")") is None:
                self.expected("')'")
            return inner
        if first in ('"', "/"):
            return Words(self.quoted())
        start = self.at
        word = self.run(_ENDS)
        if word == "":
            self.expected("something to look for, such as op=matmul or a word")
        if word == "in" and self.text.startswith("(", self.at):
            return self.inside()
        # A colon is part of a word, unless it stands behind the name of a field.
        name, colon, _ = word.partition(":")
        if colon and name in FIELDS:
            self.at = start + len(name)
            word = name
        known = FIELDS.get(word)
        end = self.at
        compare = self.take("==", *_COMPARES)
        if compare == "!=" and known is None and self.text[end : end + 1].isspace():
            self.at, compare = end, None
        if compare is None:
            self.at = end
            return Words(Text("part", word.lower()))
        if known is None:
            meant = near(word, list(FIELDS))
            hint = f"did you mean '{meant[0]}'?" if meant else f"fields are {', '.join(FIELDS)}"
            self.fail(f"no field is called '{word}'; {hint}", start)
        return self.comparison(known, compare, end)

    def comparison(self, field: QueryField, taken: str, place: int) -> Test:
        allowed = _ALLOWED[field["kind"]]
        compare = next(one for one in _COMPARES if one == ("=" if taken == "==" else taken))
        if compare not in allowed:
            self.at = place
            self.blank()
            self.expected(f"{' '.join(allowed)} behind {field['name']}")
        self.blank()
        if field["kind"] == "shape":
            return Has(field["name"], compare, self.dims())
        if field["kind"] == "number":
            return Has(field["name"], compare, self.number(field))
        if self.peek() in ('"', "/"):
            text = self.quoted()
            if text.how == "part" and compare != ":":
                text = Text("whole", text.pattern)
            return Has(field["name"], compare, text)
        value = self.run(_VALUE_ENDS)
        if value == "":
            self.expected(f"a text behind {field['name']}{compare}")
        if compare == ":":
            return Has(field["name"], compare, Text("part", value.lower()))
        return Has(field["name"], compare, Text("whole", value.lower(), "*" in value))

    def quoted(self) -> Text:
        """A text in quotes or a regular expression, which begins here."""
        start, end = self.at, self.text[self.at]
        self.at += 1
        letters: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != end:
            letter = self.text[self.at]
            if letter == "\\" and self.at + 1 < len(self.text):
                self.at += 1
                following = self.text[self.at]
                # Of a regular expression the backslash is a part, unless it guards the slash.
                letter = following if end == '"' or following == "/" else letter + following
            letters.append(letter)
            self.at += 1
        if self.at >= len(self.text):
            what = "quotes are" if end == '"' else "regular expression is"
            self.fail(f"the {what} not closed: expected {end} at the end", start)
        self.at += 1
        made = "".join(letters)
        if end == '"':
            return Text("part", made.lower())
        try:
            re.compile(made, _FLAG)
        except re.error:
            self.fail("this regular expression cannot be read", start)
        return Text("regex", made)

    def inside(self) -> Test:
        self.at += 1
        if self.peek() in ('"', "/"):
            text = self.quoted()
            if text.how == "part":
                text = Text("whole", text.pattern)
        else:
            value = self.run(_VALUE_ENDS)
            if value == "":
                self.expected("the path of a scope, such as layers.3")
            text = Text("whole", value.lower(), "*" in value)
        if self.take(")") is None:
            self.expected("')'")
        return Inside(text)

    def dims(self) -> tuple[str, ...]:
        if self.take("[") is None:
            self.expected("a shape such as [*, 64]")
        made: list[str] = []
        if self.take("]"):
            return ()
        while True:
            self.blank()
            dim = self.run(frozenset(",]&|"))
            if dim == "":
                self.expected("a size, a name, * for any axis or ... for any number of them")
            made.append(dim)
            if self.take("]"):
                return tuple(made)
            if self.take(",") is None:
                self.expected("',' or ']'")

    def number(self, field: QueryField) -> float:
        units = QUERY_UNITS[field["units"]]
        start = self.at
        value = self.run(_VALUE_ENDS)
        found = _NUMBER.fullmatch(value)
        if found is None:
            self.at = start
            self.expected(f"a number, as in {field['says'].rpartition(': ')[2]}")
        unit = found[2]
        if unit == "" and units:
            behind = self.at
            self.blank()
            word = self.run(_ENDS)
            unit = word if word in units else ""
            if unit == "":
                self.at = behind
        amount = float(found[1])
        if unit == "":
            if field["units"] == "time" and amount != 0:
                self.fail(f"expected a unit behind the number: {', '.join(units)}", start)
            return amount
        if unit not in units:
            known = f"units are {', '.join(units)}" if units else "it has no unit"
            self.fail(f"no unit of {field['name']} is called '{unit}'; {known}", start)
        return amount * units[unit]


def read(text: str) -> Test:
    """The tree of the query ``text``.

    Raises:
        QueryError: ML910, it cannot be read; ``place`` of the error is the index of the character.

    Example:
        >>> read("op=relu & !in(first)").tests[0]
        Has(field='op', compare='=', value=Text(how='whole', pattern='relu', stars=False))
    """
    reader = _Reader(text)
    made = reader.query()
    if reader.peek() != "":
        reader.expected("& or |")
    return made
