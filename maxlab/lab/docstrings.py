"""Reads the docstring of a function or class, part by part."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_SECTION = re.compile(r"^(\w+):$", re.MULTILINE)
_ARGUMENT = re.compile(r"^    \*{0,2}(\w+): ", re.MULTILINE)


class Docs(NamedTuple):
    """The parts of a docstring.

    Attributes:
        says: Its first paragraph, on one line.
        arguments: What it says of each parameter, on one line.
        example: The statements of its example, as people would type them; empty where it has none.
    """

    says: str
    arguments: Mapping[str, str]
    example: str


def read(documented: Any) -> Docs:
    """The docstring of ``documented``.

    Example:
        >>> def half(x):
        ...     '''Half of ``x``.
        ...
        ...     Args:
        ...         x: A number,
        ...             of any size.
        ...     '''
        >>> read(half)
        Docs(says='Half of ``x``.', arguments={'x': 'A number, of any size.'}, example='')
    """
    text = inspect.getdoc(documented) or ""
    parts = _SECTION.split(text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    found = _ARGUMENT.split(sections.get("Args", ""))
    arguments = {
        name: _line(says.split("\n\n")[0])
        for name, says in zip(found[1::2], found[2::2], strict=True)
    }
    says = _line(parts[0].split("\n\n")[0])
    return Docs(says, arguments, _statements(sections.get("Example", "")))


def _line(text: str) -> str:
    return " ".join(text.split())


def _statements(text: str) -> str:
    """The statements of a doctest, without what they print."""
    lines = [line.strip() for line in text.split("\n")]
    return "\n".join(line[4:] for line in lines if f"{line} ".startswith((">>> ", "... ")))


__all__ = ["Docs", "read"]
