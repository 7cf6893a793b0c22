"""Reads the text of dims: names, integers, ``+ - *``, floor division and parentheses.

Nothing is evaluated and nothing recurses without a bound, so that text from a file can neither
run code nor hang. Names are taken letter by letter: a dim may be called ``lambda`` or ``floordiv``.
"""

from __future__ import annotations

import re

from maxlab.errors import ParseError
from maxlab.ir.poly import Poly

_TOKEN = re.compile(r"\s*+(//|[-+*()]|[^\s()+\-*/]++|.)")
_MAX_LENGTH = 8192
_MAX_DEPTH = 64
_MAX_DIVISIONS = 96
_MAX_TERMS = 4096


def read_poly(text: str) -> Poly:
    """The polynomial that ``text`` spells, with ``//`` or ``floordiv`` for division.

    Raises:
        ParseError: ML351, anything else, or an expression too large to be a dim.

    Example:
        >>> print(read_poly("(batch + 1) * 2"))
        batch * 2 + 2
    """
    word = text.strip()
    return Poly.symbol(word) if word.isidentifier() else _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > _MAX_LENGTH:
            raise self._bad("it is longer than any dim can be")
        self._tokens: list[str] = _TOKEN.findall(text.rstrip())
        self._tokens.append("")
        self._at = 0
        self._depth = 0
        self._divisions = 0

    def _bad(self, why: str = "") -> ParseError:
        shown = self._text if len(self._text) <= 80 else self._text[:77] + "…"
        return ParseError(
            "ML351",
            f"{shown!r} is not a dim" + (f": {why}" if why else ""),
            fix="write names, integers, + - * // and ( )",
        )

    def read(self) -> Poly:
        made = self._sum()
        if self._tokens[self._at]:
            raise self._bad(f"{self._tokens[self._at]!r} is not expected here")
        return made

    def _take(self) -> str:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _bounded(self, poly: Poly) -> Poly:
        if len(poly.terms) > _MAX_TERMS:
            raise self._bad("it has too many terms")
        return poly

    def _sum(self) -> Poly:
        total = self._product()
        while self._tokens[self._at] in ("+", "-"):
            sign = self._take()
            term = self._product()
            total = self._bounded(total + term if sign == "+" else total - term)
        return total

    def _product(self) -> Poly:
        total = self._factor()
        while True:
            token = self._tokens[self._at]
            if token == "*":
                self._at += 1
                right = self._factor()
                if len(total.terms) * len(right.terms) > _MAX_TERMS:
                    raise self._bad("it has too many terms")
                total = total * right
            elif token in ("//", "floordiv"):
                self._at += 1
                self._divisions += 1
                if self._divisions > _MAX_DIVISIONS:
                    raise self._bad("it has too many divisions")
                try:
                    total = total.floordiv(self._factor())
                except ZeroDivisionError:
                    raise self._bad("it divides by zero") from None
            else:
                return total

    def _factor(self) -> Poly:
        negative = False
        token = self._take()
        while token == "-":
            negative = not negative
            token = self._take()
        if token == "(":
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise self._bad("its parentheses are too deep")
            made = self._sum()
            self._depth -= 1
            if self._take() != ")":
                raise self._bad("a parenthesis is not closed")
        elif token.isascii() and token.isdigit():
            if len(token) > 1000:
                raise self._bad("a number is too long")
            made = Poly.constant(int(token))
        elif token.isidentifier():
            made = Poly.symbol(token)
        else:
            raise self._bad(f"{token!r} is not expected here" if token else "it ends too early")
        return -made if negative else made
