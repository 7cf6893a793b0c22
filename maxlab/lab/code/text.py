"""A source text by lines as Python counts them, and replacements in it.

Python's parser and its code objects count lines from 1 and columns in bytes of UTF-8. Texts here
are cut by code points, and pages count units of UTF-16.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\r|\n")


class Replacement(NamedTuple):
    """``text`` instead of what stands between two offsets, in code points."""

    start: int
    end: int
    text: str


class Source:
    """A text and where its lines begin.

    Example:
        >>> source = Source("é = 1\\r\\ny = é")
        >>> source.offset(2, 4), source.text[source.offset(2, 4):]
        (11, 'é')
    """

    def __init__(self, text: str) -> None:
        self.text = text
        ends = [found.end() for found in _LINE_END.finditer(text)]
        self.starts = [0, *ends]
        breaks = [found.start() for found in _LINE_END.finditer(text)]
        self.ends = [*breaks, len(text)]

    def line(self, number: int) -> str:
        """The line ``number``, counted from 1, without its end."""
        return self.text[self.starts[number - 1] : self.ends[number - 1]]

    def offset(self, line: int, column: int) -> int:
        """The offset in code points of a place that Python tells.

        Raises:
            IndexError: There is no such line.
            UnicodeDecodeError: The column is in the middle of a letter.
        """
        text = self.line(line)
        if text.isascii():
            return self.starts[line - 1] + column
        return self.starts[line - 1] + len(text.encode()[:column].decode())

    def line_at(self, offset: int) -> int:
        """The number of the line that ``offset`` is in."""
        low = 0
        for number, start in enumerate(self.starts):
            if start <= offset:
                low = number
        return low + 1

    def indent(self, line: int) -> str:
        """The text before the first letter of a line."""
        text = self.line(line)
        return text[: len(text) - len(text.lstrip(" \t\f"))]

    @property
    def newline(self) -> str:
        """How its lines end; that of the first one."""
        found = _LINE_END.search(self.text)
        return found[0] if found is not None else "\n"


def replaced(text: str, replacements: Iterable[Replacement]) -> str:
    """``text`` with ``replacements``, which do not overlap.

    Raises:
        ValueError: Two of them overlap.
    """
    at, parts = 0, []
    for start, end, new in sorted(replacements):
        if start < at:
            raise ValueError(f"two replacements overlap at {start}")
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def smallest(text: str, replacements: Iterable[Replacement]) -> list[Replacement]:
    """``replacements`` without what stays the same at their ends."""
    found = []
    for start, end, new in sorted(replacements):
        old = text[start:end]
        if old == new:
            continue
        head = 0
        while head < min(len(old), len(new)) and old[head] == new[head]:
            head += 1
        tail = 0
        while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        found.append(Replacement(start + head, end - tail, new[head : len(new) - tail]))
    return found


def utf16(text: str, offset: int) -> int:
    """``offset`` in units of UTF-16, as pages count.

    Example:
        >>> utf16("𝛼 = 1", 2)
        3
    """
    return len(text[:offset].encode("utf-16-le", "surrogatepass")) // 2


__all__ = ["Replacement", "Source", "replaced", "smallest", "utf16"]
