"""Messages of kernels while they run: ``MX_LOG`` and ``MX_ASSERT`` in the text of a kernel.

::

    MX_LOG(INFO, "row %d begins with %g", i, load(x, i));
    MX_ASSERT(load(x, i) >= 0, "a length is negative");

A kernel writes no text: it writes the number of a *note* and its values, and whoever reads them
knows the note by its number. The number follows from what the note says, so equal kernels are equal
text. What is below the level that was asked for is no part of the compiled code.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Literal

from maxlab.digests import blake2b

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
"""The levels of messages, with the numbers that Python's ``logging`` has for them."""
VALUES = 6
"""Values of one message, at most."""
INDEX, NAN, BEGINS = -1, -2, -3
"""Notes of generated kernels: an index out of range, a result that is NaN, and that it runs."""

_WORD = re.compile(r"\b(MX_LOG|MX_ASSERT)\b")
_BRACKET = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|[()\[\]{},]", re.DOTALL)
_STRING = re.compile(r'(?:"(?:\\.|[^"\\\n])*"\s*)+')
_SPEC = re.compile(r"%(?:%|([-+ #0]*\d*(?:\.\d+)?)(?:ll|l)?([diuoxXcfFeEgG]))")


_NUMBER = re.compile(r"\b(\d{10,18})ll\b")


@dataclass(frozen=True, slots=True)
class Note:
    """One ``MX_LOG`` or ``MX_ASSERT`` of a text.

    Attributes:
        level: The level as a number; of an assertion, that of its warning.
        text: The message in the format of Python's ``%``.
        kinds: ``i`` or ``f`` for each value.
        op: The user's op.
        place: File and line of the text.
    """

    kind: Literal["log", "assert"]
    level: int
    text: str
    kinds: str
    op: str = ""
    place: str = ""

    @property
    def number(self) -> int:
        """The number by which kernels name it, at least 2**32."""
        parts = (self.kind, str(self.level), self.text, self.kinds, self.op, self.place)
        digest = blake2b("\0".join(parts).encode(), digest_size=7).digest()
        return 2**32 + int.from_bytes(digest, "little")


NOTES: dict[int, Note] = {}
"""The notes of this process by their numbers."""


def remembered(note: Note) -> int:
    """The number of ``note``, which readers of messages know from now on."""
    NOTES[note.number] = note
    return note.number


def numbers_in(text: str) -> list[int]:
    """The numbers of the notes that the text of a kernel may name."""
    return [int(number) for number in _NUMBER.findall(text)]


def call_at(text: str, start: int) -> tuple[list[str], int] | None:
    """The arguments in the parentheses that open behind ``start``, and where they end."""
    opening = re.compile(r"\s*\(").match(text, start)
    if opening is None:
        return None
    depth, at, first = 1, opening.end(), opening.end()
    parts: list[str] = []
    for found in _BRACKET.finditer(text, at):
        char = found[0]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                parts.append(text[first : found.start()])
                return parts, found.end()
        elif char == "," and depth == 1:
            parts.append(text[first : found.start()])
            first = found.end()
    return None


def wrong_note(text: str) -> tuple[int, str] | None:
    """The line, counted from 0, and the fault of the first note of the kernel ``text`` that cannot
    be read; None when all can.
    """
    for found in _WORD.finditer(text):
        line = text.rfind("\n", 0, found.start()) + 1
        if "//" in text[line : found.start()]:
            continue
        call = call_at(text, found.end())
        made = f"{found[1]} has no (" if call is None else read_note(found[1], call[0])
        if isinstance(made, str):
            return text.count("\n", 0, found.start()), made
    return None


def read_note(
    word: str, arguments: list[str], op: str = "", place: str = ""
) -> tuple[Note, list[str]] | str:
    """The note that ``word(arguments)`` is, and the expressions of its values; or what is wrong.

    Args:
        word: ``MX_LOG`` or ``MX_ASSERT``.
        arguments: The texts between its commas.
    """
    given = [argument.strip() for argument in arguments]
    if word == "MX_ASSERT":
        if len(given) != 2 or not given[0] or not _STRING.fullmatch(given[1] + " "):
            return 'MX_ASSERT takes a condition and a text: MX_ASSERT(x[i] >= 0, "negative")'
        text = _text(given[1]).replace("%", "%%")
        return Note("assert", LEVELS["WARNING"], text, "", op, place), given[:1]
    if len(given) < 2 or given[0] not in LEVELS or not _STRING.fullmatch(given[1] + " "):
        levels = ", ".join(LEVELS)
        return f'MX_LOG takes a level and a text: MX_LOG(INFO, "…"); the levels are {levels}'
    kinds, text, end = "", "", 0
    raw = _text(given[1])
    for found in _SPEC.finditer(raw):
        text += raw[end : found.start()]
        end = found.end()
        if found[2] is None:
            text += "%%"
            continue
        kinds += "f" if found[2] in "fFeEgG" else "i"
        text += f"%{found[1]}{found[2]}"
    text += raw[end:]
    if "%" in _SPEC.sub("", raw):
        return f"the format {raw!r} has a % that is no number: write %d, %g or %%"
    if len(kinds) != len(given) - 2 or len(kinds) > VALUES:
        return (
            f"the format {raw!r} has {len(kinds)} values, and {len(given) - 2} are given; there "
            f"are at most {VALUES}"
        )
    return Note("log", LEVELS[given[0]], text, kinds, op, place), given[2:]


def _text(literals: str) -> str:
    """The text of C string literals."""
    try:
        return str(ast.literal_eval(f"({literals})"))
    except (SyntaxError, ValueError):
        return literals


__all__ = [
    "BEGINS",
    "INDEX",
    "LEVELS",
    "NAN",
    "NOTES",
    "VALUES",
    "Note",
    "call_at",
    "numbers_in",
    "read_note",
    "remembered",
    "wrong_note",
]
