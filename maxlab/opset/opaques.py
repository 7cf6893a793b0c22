"""The opaque types of a kernel library: what its handles point to, and how that is let go.

::

    // @opaque counter drop=counter_drop
    typedef struct { i64 at, step; } counter;
    static void counter_drop(counter *c) { free(c); }

The text below is put in front of every kernel of the library that makes or takes a handle. It ends
at the next directive. An op carries the types of its library behind its own text, so that its
source is all that is needed to compile it, and to tell whether a handle is of the same types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from maxlab.digests import blake2b
from maxlab.opset.conditions import INNER
from maxlab.opset.macros import Macro, MacroTextError, read_macro, require_no_circle

_OPAQUE = re.compile(r"\s*//\s*@opaque\b\s*(.*?)\s*$")
_HEAD = re.compile(r"([A-Za-z_]\w*)(?:\s+drop=([A-Za-z_]\w*))?(?:\s+from=(.+):(\d+))?")
DIRECTIVE = re.compile(r"\s*//\s*@(\w+)\s*(.*?)\s*$")
"""A line that a library is divided by."""


class TypeTextError(ValueError):
    """A declaration of an opaque type that cannot be read; ``line`` counts from 0."""

    def __init__(self, what: str, line: int, fix: str | None = None) -> None:
        super().__init__(what)
        self.what, self.line, self.fix = what, line, fix


@dataclass(frozen=True, slots=True)
class Opaque:
    """One opaque type.

    Attributes:
        drop: The C function that lets go of what a handle points to.
        text: The C that declares both, from line ``line`` of the file called ``file`` on.
    """

    name: str
    drop: str
    text: str
    file: str
    line: int

    @property
    def source(self) -> str:
        """The text that declares it again, behind an op."""
        return f"// @opaque {self.name} drop={self.drop} from={self.file}:{self.line}\n{self.text}"


def definition(opaques: Sequence[Opaque], name: str) -> str:
    """The text that tells the type ``name``, one of ``opaques``, from others of its name: all that
    declares it, as its struct may have others in it.
    """
    (file,) = (each.file for each in opaques if each.name == name)
    digest = blake2b(digest_size=16)
    for each in opaques:
        if each.file != file:
            continue
        digest.update(f"{each.name}\0{each.drop}\0{each.text}\0".encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Divided:
    """The parts of a library.

    Attributes:
        ops: The lines of each op, begin and end.
        types: The opaque types that it declares.
        macros: Its macros.
        uses: The files whose macros it uses too, each with the line that says so, from 0.
    """

    ops: tuple[tuple[int, int], ...] = ()
    types: tuple[Opaque, ...] = ()
    macros: tuple[Macro, ...] = ()
    uses: tuple[tuple[str, int], ...] = ()


STARTS = ("op", "opaque", "macro", "use")
"""The directives that begin a part of a library."""


def divided(lines: Sequence[str], file: str, first: int) -> Divided:
    """The parts that ``lines``, those of a library, have.

    Raises:
        TypeTextError: A type cannot be read, or is declared twice.
        MacroTextError: The same of a macro.
    """
    found = [None if INNER.match(line) else DIRECTIVE.match(line) for line in lines]
    words = [each[1] if each else "" for each in found]
    starts = [n for n, word in enumerate(words) if word in STARTS]
    ops: list[tuple[int, int]] = []
    types: dict[str, Opaque] = {}
    macros: dict[str, Macro] = {}
    uses: list[tuple[str, int]] = []
    for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        if words[begin] == "op":
            ops.append((begin, end))
            continue
        head = found[begin]
        assert head is not None
        if words[begin] == "use":
            uses.append((head[2], begin))
            continue
        stop = next((n for n in range(begin + 1, end) if words[n]), end)
        if words[begin] == "macro":
            if stop < end and words[stop] != "end":
                raise MacroTextError(f"@{words[stop]} stands behind @macro", stop)
            macro = read_macro(lines[begin:stop], head[2], file, first + begin, begin)
            if macro.name in macros:
                raise MacroTextError(f"the macro {macro.name!r} is declared twice", begin)
            macros[macro.name] = macro
            continue
        if stop < end and words[stop] != "end":
            raise TypeTextError(f"@{words[stop]} stands behind @opaque", stop)
        made = _opaque(lines[begin:stop], file, first + begin, begin)
        known = types.setdefault(made.name, made)
        if (known.drop, known.text) != (made.drop, made.text):
            raise TypeTextError(f"the opaque type {made.name!r} is declared twice", begin)
    require_no_circle(list(macros.values()))
    return Divided(tuple(ops), tuple(types.values()), tuple(macros.values()), tuple(uses))


def _opaque(lines: Sequence[str], file: str, first: int, at: int) -> Opaque:
    head = _OPAQUE.match(lines[0])
    assert head is not None
    found = _HEAD.fullmatch(head[1])
    if found is None:
        raise TypeTextError(
            f"@opaque takes a name and its destructor, got {head[1]!r}",
            at,
            fix="write // @opaque table drop=table_drop, and the struct and the function below",
        )
    name, drop, base, line = found.groups()
    text = "\n".join(lines[1:]).rstrip()
    if not re.search(rf"\b{name}\b", text):
        raise TypeTextError(
            f"the text of @opaque {name} declares no type {name!r}",
            at,
            fix=f"write typedef struct {{ … }} {name}; below it",
        )
    if base is None:
        return Opaque(name, drop or "free", text, Path(file).name, first + 1)
    return Opaque(name, drop or "free", text, base, int(line))


def types_for(
    own: Sequence[Opaque], known: Mapping[str, Sequence[Opaque]], named: Sequence[str]
) -> tuple[Opaque, ...]:
    """The types that an op which names ``named`` carries: all of its text, and for a name that its
    text does not declare, all of the text that does."""
    names = {each.name for each in own}
    found = list(own)
    for name in named:
        if name not in names:
            more = known.get(name, ())
            found += [each for each in more if each.name not in names]
            names |= {each.name for each in more}
    return tuple(found)


__all__ = [
    "DIRECTIVE",
    "STARTS",
    "Divided",
    "Opaque",
    "TypeTextError",
    "definition",
    "divided",
    "types_for",
]
