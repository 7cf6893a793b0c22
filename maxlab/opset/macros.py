"""Macros of a kernel library: texts that its kernels name.

::

    // @macro Total = u64 if bits(T) == 64 and not is_float(T) else u32 if not is_float(T) else T
    // @macro add_up(FROM, LIMIT)
    T sum = 0;
    for (i64 j = FROM; j < LIMIT; j++) sum += load(x, j);

``add_up(i * d, (i + 1) * d);`` in a kernel is that text with what stands between its commas;
``FROM##_more`` is one name. A macro of one line chooses its words, one of several its lines. Names
in it mean what they mean where it is used. An op carries the macros that it uses behind its text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from maxlab.opset.conditions import INNER, ConditionError, alternatives, conditions_in

_HEAD = re.compile(
    r"(?:from=(?P<file>.+?):(?P<line>\d+)\s+)?(?P<name>[A-Za-z_]\w*)"
    r"(?:\((?P<arguments>[\w\s,]*)\))?\s*(?:=\s*(?P<words>.*))?",
    re.DOTALL,
)
_COMMENT = re.compile(r"\s*//\s?(.*?)\s*$")
_OPEN = re.compile(r"(?:=|\belse|\bif|\band|\bor|[-+*,(])$")
_WORD = re.compile(r"[A-Za-z_]\w*")


class MacroTextError(ValueError):
    """A macro that cannot be read; ``line`` counts from 0."""

    def __init__(self, what: str, line: int, fix: str | None = None) -> None:
        super().__init__(what)
        self.what, self.line, self.fix = what, line, fix


@dataclass(frozen=True, slots=True)
class Macro:
    """One macro.

    Attributes:
        arguments: The names of its arguments; None of a macro that is used without brackets.
        text: Its words, or its lines, from line ``line`` of ``file`` on.
        words: Whether it is one of words.
    """

    name: str
    arguments: tuple[str, ...] | None
    text: str
    words: bool
    file: str
    line: int

    @property
    def source(self) -> str:
        """The text that declares it again, behind an op."""
        head = f"// @macro from={self.file}:{self.line} {self.name}"
        if self.arguments is not None:
            head += f"({', '.join(self.arguments)})"
        return f"{head} = {self.text}" if self.words else f"{head}\n{self.text}"


def without_heading(text: str) -> str:
    """``text`` without comments at its end that a blank line parts from it: they belong to what
    stands below."""
    lines = text.rstrip().split("\n")
    end = len(lines)
    while end and lines[end - 1].lstrip().startswith("//") and not INNER.match(lines[end - 1]):
        end -= 1
    kept = lines[:end] if end and not lines[end - 1].strip() else lines
    return "\n".join(kept).rstrip()


def read_macro(lines: Sequence[str], rest: str, file: str, first: int, at: int) -> Macro:
    """The macro that ``lines`` declare, of which the first has ``rest`` behind its directive.

    Args:
        first: The number of the first line in ``file``.
        at: The number of the first line in the text, for errors.

    Raises:
        MacroTextError: There is none.
    """
    below = list(lines[1:])
    while below and _OPEN.search(rest) and (more := _COMMENT.match(below[0])) is not None:
        rest += " " + more[1]
        below.pop(0)
    found = _HEAD.fullmatch(rest)
    if found is None:
        raise MacroTextError(
            f"@macro cannot be read: {rest!r}",
            at,
            fix="write // @macro NAME = words, or // @macro NAME(a, b) and the text below it",
        )
    given = found["arguments"]
    arguments = None if given is None else tuple(a.strip() for a in given.split(",") if a.strip())
    words = found["words"] is not None
    text = found["words"].strip() if words else without_heading("\n".join(below).strip("\n"))
    skipped = 0 if words else next((n for n, line in enumerate(below) if line.strip()), 0)
    if not text:
        raise MacroTextError(f"the macro {found['name']} has no text", at)
    try:
        if words:
            alternatives(text)
        for _ in conditions_in("" if words else text):
            pass
    except ConditionError as error:
        raise MacroTextError(error.what, at if words else at + 1 + skipped + error.line) from None
    line = first if words else first + len(lines) - len(below) + skipped
    return Macro(
        found["name"],
        arguments,
        text,
        words,
        found["file"] or file,
        int(found["line"]) if found["line"] else line,
    )


def macros_for(text: str, known: Sequence[Macro]) -> tuple[Macro, ...]:
    """Those of ``known`` that ``text`` names, and those that these name, in their order."""
    names = {macro.name: macro for macro in known}
    wanted: set[str] = set()
    todo = _named(text) & set(names)
    while todo:
        wanted |= todo
        todo = {word for name in todo for word in _named(names[name].text)} & set(names) - wanted
    return tuple(macro for macro in known if macro.name in wanted)


def _named(text: str) -> set[str]:
    """The words of ``text``; ``mx_exp_Kind`` names ``Kind`` too."""
    words = set(_WORD.findall(text))
    return words | {word.rpartition("_")[2] for word in words if word.startswith("mx_")}


def require_no_circle(macros: Sequence[Macro]) -> None:
    """Raise if a macro names itself, or one that does.

    Raises:
        MacroTextError: One does.
    """
    open_ones = {macro.name: set(_WORD.findall(macro.text)) for macro in macros}
    names = set(open_ones)
    while open_ones:
        ready = [name for name, words in open_ones.items() if not words & set(open_ones)]
        if not ready:
            circle = ", ".join(sorted(names & set(open_ones)))
            raise MacroTextError(f"macros name each other in a circle: {circle}", 0)
        for name in ready:
            del open_ones[name]


__all__ = [
    "Macro",
    "MacroTextError",
    "macros_for",
    "read_macro",
    "require_no_circle",
    "without_heading",
]
