"""The hand-written C sources: where they are, and the parts of the prelude a kernel needs.

Generated kernels include no headers, because parsing even a small one costs more than
compiling a small kernel. They get those sections of the files of ``kernels/c`` in ``FILES``, and
of those in ``kernels/c/ops`` behind them, whose functions they call, and what these need in turn.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from maxlab.digests import blake2b
from maxlab.errors import ToolchainError

_SECTION = re.compile(
    r"^// @section (?P<name>\w+)(?: needs (?P<needs>[\w ,]+))?\n(?P<text>.*?)^// @end\b",
    re.MULTILINE | re.DOTALL,
)
_FUNCTION = re.compile(r"^(?:INL|static|extern)\b[^;{}=]*?\b(\w+)\s*\((?!\()", re.MULTILINE)
_MACRO = re.compile(r"^#define\s+(\w+)", re.MULTILINE)
_TYPE = re.compile(r"^(?:typedef\b.*?\b|\}\s*)(\w+);", re.MULTILINE)
_FUNCTION_TYPE = re.compile(r"^typedef\b[^;{}]*?\(\*(\w+)\)\s*\(", re.MULTILINE)
_TABLE = re.compile(r"^static const \w+ (\w+)\[", re.MULTILINE)
_NAMES = (_FUNCTION, _MACRO, _TYPE, _FUNCTION_TYPE, _TABLE)
_WORD = re.compile(r"[A-Za-z_]\w*")
BASE = "abi"
FILES = ("prelude.h", "functions.h", "tables.h", "vectors.h", "integers.h")


@functools.cache
def kernels_dir() -> Path:
    """The folder of hand-written kernels: ``maxlab/_kernels`` of a wheel, else the checkout's.

    Raises:
        ToolchainError: ML504, neither is there.
    """
    package = Path(__file__).resolve().parent.parent
    places = (package / "_kernels", package.parent / "kernels")
    for place in places:
        if (place / "c" / "prelude.h").is_file():
            return place
    raise ToolchainError(
        "ML504",
        "the hand-written kernel sources are missing",
        why=[f"looked in {place}" for place in places],
        fix="reinstall maxlab: pip install --force-reinstall . in its checkout",
    )


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the prelude: its C text, the names it defines and the sections it needs."""

    name: str
    text: str
    needs: tuple[str, ...]
    defines: frozenset[str]


class Prelude:
    """The sections of a prelude file, in file order; found when one is first asked for, which is
    when something is compiled."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = blake2b(text.encode(), digest_size=4).hexdigest()

    @functools.cached_property
    def sections(self) -> dict[str, Section]:
        """The sections by name.

        Raises:
            ToolchainError: ML504, a section needs one that does not stand before it.
        """
        found: dict[str, Section] = {}
        for match in _SECTION.finditer(self.text):
            body = match["text"]
            names = {name for pattern in _NAMES for name in pattern.findall(body)}
            needs = tuple((match["needs"] or "").replace(",", " ").split())
            unknown = [need for need in needs if need not in found]
            if unknown:
                raise ToolchainError(
                    "ML504",
                    f"prelude section {match['name']} needs {', '.join(unknown)}, "
                    "which no section before it is called",
                    fix="reinstall maxlab, or put the sections of prelude.h in order",
                )
            section = Section(match["name"], body, needs, frozenset(names))
            found[section.name] = section
        return found

    @functools.cached_property
    def _owner(self) -> dict[str, str]:
        """The section that defines each name."""
        return {name: s.name for s in self.sections.values() for name in s.defines}

    def sections_for(self, texts: Iterable[str]) -> list[Section]:
        """The base section and those that define a name used in ``texts``, in file order."""
        wanted = {BASE} if BASE in self.sections else set()
        queue = list(wanted)
        for text in texts:
            queue += {self._owner[w] for w in set(_WORD.findall(text)) if w in self._owner}
        while queue:
            name = queue.pop()
            wanted.add(name)
            queue += [need for need in self.sections[name].needs if need not in wanted]
        return [section for section in self.sections.values() if section.name in wanted]


def _headers(folder: Path) -> list[Path]:
    """The headers in ``folder``, by name."""
    return sorted(folder / name for name in os.listdir(folder) if name.endswith(".h"))


@functools.cache
def prelude() -> Prelude:
    """The prelude of this installation, and what ops add to it, read once."""
    folder = kernels_dir() / "c"
    files = [*(folder / name for name in FILES), *_headers(folder / "ops")]
    return Prelude("\n".join(file.read_text(encoding="utf-8") for file in files))


def prelude_for(*texts: str) -> str:
    """The C text to put before ``texts`` so that every prelude name in them is defined."""
    return "\n".join(section.text for section in prelude().sections_for(texts))
