"""The lines of C that stand in Python strings of ``maxlab/opset``, where no editor helps with them.

Kernels belong into the files of ``kernels/ops``. Python is read as tokens. A string literal holds C
when it is no docstring, and one of its lines

- ends with ``;``, or with ``; }``, and has a word, or
- begins with ``#pragma``, or with a declaration or a statement of C: a type of ``TYPES`` and a
  name, ``for (``, ``if (``, ``while (``, or ``else``, and has a ``;`` or a brace of C.

All lines of the text of such a literal count, but blank ones and a lone backslash. Literals that
follow each other are one each. An error in words may have a semicolon in it; it ends with none.
"""

from __future__ import annotations

import io
import re
import token
import tokenize
from collections.abc import Iterator
from pathlib import Path

TYPES = "const|static|void|char|int|unsigned|bool|[iu](?:8|16|32|64)|u128|f32|f64|enum"
_ENDS = re.compile(r"\w.*(?:;|;\s*\}\}?)\s*$")
_BEGINS = re.compile(
    rf"\s*(?:#\s*pragma\b|(?:{TYPES})\b[\w\s*{{}}]*\w|(?:for|if|while)\s*\(|else\b)"
)
_BROKEN = re.compile(r";|\{\{|\}\}")
_START = re.compile(r"[rRbBuUfF]{0,2}(?:\"\"\"|'''|\"|')")


def holds_c(text: str) -> bool:
    """Whether ``text``, that of a literal without its quotes, has a statement of C."""
    for line in re.split(r"\n|\\n", text):
        if _ENDS.search(line):
            return True
        if line.lstrip().startswith("#pragma"):
            return True
        if _BEGINS.match(line) and _BROKEN.search(line):
            return True
    return False


def literals(source: str) -> Iterator[tuple[int, int, str]]:
    """First line, last line and text of each string literal of a module, without docstrings."""
    begins: list[tuple[int, int]] = []
    lines = source.splitlines()
    fstring = getattr(token, "FSTRING_START", -1), getattr(token, "FSTRING_END", -1)
    fresh = True  # at the beginning of a statement
    depth = 0
    for each in tokenize.generate_tokens(io.StringIO(source).readline):
        if each.type == fstring[0]:
            begins.append(each.start)
        elif each.type == fstring[1]:
            start = begins.pop()
            if not begins:
                yield start[0], each.end[0], _between(lines, start, each.end)
        elif each.type == token.STRING and not begins:
            if not (fresh and depth == 0):
                yield each.start[0], each.end[0], _between(lines, each.start, each.end)
        elif each.type == token.OP:
            depth += (each.string in "([{") - (each.string in ")]}")
        if each.type in (token.NEWLINE, token.INDENT, token.DEDENT):
            fresh = True
        elif each.type not in (token.NL, token.COMMENT):
            fresh = False


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """What stands from ``start`` to ``end``, without the quotes."""
    if start[0] == end[0]:
        text = lines[start[0] - 1][start[1] : end[1]]
    else:
        first, last = lines[start[0] - 1][start[1] :], lines[end[0] - 1][: end[1]]
        text = "\n".join([first, *lines[start[0] : end[0] - 1], last])
    opened = _START.match(text)
    assert opened is not None
    quotes = opened[0].lstrip("rRbBuUfF")
    return text[opened.end() : -len(quotes)]


def lines_of(path: Path) -> list[int]:
    """The lines of the module at ``path`` that belong to literals with C."""
    source = path.read_text("utf-8")
    found: set[int] = set()
    for first, _, text in literals(source):
        if holds_c(text):
            lines = enumerate(text.split("\n"), start=first)
            found |= {number for number, line in lines if line.strip() not in ("", "\\")}
    return sorted(found)


def sites(root: Path, folder: str = "maxlab/opset") -> list[str]:
    """Each line of C in a string below ``folder``, with its place."""
    return [
        f"{path.relative_to(root)}:{number}"
        for path in sorted((root / folder).rglob("*.py"))
        for number in lines_of(path)
    ]


__all__ = ["TYPES", "holds_c", "lines_of", "literals", "sites"]
