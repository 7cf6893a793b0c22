"""Cuts MLIR text into tokens and says where in the text a token stands."""

from __future__ import annotations

import re

from maxlab.errors import Location, ParseError

_STRING = r'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"?'
_BODY = rf"<(?:[^<>\"]++|{_STRING})*+>?"

# Every alternative is possessive and the last takes any character, so that one pass over the text
# is always linear: what is not closed becomes a token that the parser refuses.
_TOKEN = re.compile(
    r"(?:[ \t\r\n]++|//[^\n]*+)*+"
    rf"({_STRING}"
    r"|%[A-Za-z0-9_$.\-]++(?:\#[0-9]++)?+"
    r"|\^[A-Za-z0-9_$.\-]++"
    rf"|[!\#][A-Za-z_][A-Za-z0-9_$.]*+(?:{_BODY})?+"
    r"|tensor<[^<>\"]*+>?+"
    r"|->"
    r"|-?[0-9](?:(?<=0)x[0-9A-Fa-f]++|[0-9]*+(?:\.[0-9]*+(?:[eE][-+]?[0-9]++)?+)?+)"
    r"|[A-Za-z_][A-Za-z0-9_$.]*+"
    r"|[^ \t\r\n]"
    r"|\Z)"
)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_NAMED = {b"n": b"\n", b"t": b"\t", b"\\": b"\\", b'"': b'"'}


def tokenize(text: str) -> list[str]:
    """The tokens of ``text``, comments left out; the last is empty."""
    tokens: list[str] = _TOKEN.findall(text)
    tokens.append("")
    return tokens


def position(text: str, index: int) -> int:
    """Where in ``text`` the token ``index`` starts."""
    for number, match in enumerate(_TOKEN.finditer(text)):
        if number == index:
            return match.start(1)
    return len(text)


def error_at(text: str, offset: int, file: str, what: str, fix: str | None = None) -> ParseError:
    """The error ML350 at ``offset``, with an excerpt of the line around it."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    end = len(text) if end < 0 else end
    line = text.count("\n", 0, start) + 1
    column = offset - start
    # A line may hold megabytes of constants: show what is near.
    shown_from = max(start, offset - 60)
    shown = text[shown_from : min(end, offset + 60)]
    where = Location(file, line, offset - shown_from, shown)
    return ParseError("ML350", f"{what} (line {line}, column {column + 1})", at=where, fix=fix)


def unquote(token: str) -> str | None:
    """The text of a string literal; None when it is not a whole one."""
    if len(token) < 2 or token[0] != '"' or token[-1] != '"':
        return None
    body = token[1:-1]
    if "\\" not in body:
        return None if '"' in body else body
    raw = body.encode("utf-8", "surrogatepass")
    bad = False

    def replace(match: re.Match[bytes]) -> bytes:
        nonlocal bad
        code = match[1]
        if len(code) == 2:
            return bytes.fromhex(code.decode())
        found = _NAMED.get(code)
        if found is None:
            bad = True
            return b""
        return found

    made = _ESCAPE.sub(replace, raw)
    if bad or (len(raw) - len(raw.rstrip(b"\\"))) % 2:  # a lone backslash before the closing quote
        return None
    try:
        return made.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
