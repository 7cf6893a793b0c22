"""Notes of the versions of compilers, kept from process to process.

To ask a compiler for its version is to start a process, which takes longer than a load that finds
all else in the cache. So the answer is kept there, in a sealed note, by the compiler's file: its
name, number, size and times. No note is made where these may stay while the answer changes: of
scripts, of programs that call another one, such as ``ccache gcc``, and of a file that was changed
so shortly ago that its times might not tell the next change.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from maxlab.digests import blake2b
from maxlab.errors import MaxlabError
from maxlab.toolchain.artefacts import VersionKey, cache, content_of
from maxlab.toolchain.seals import mark_of

FAMILIES = ("gcc", "clang")
YOUNG_NS = 2_000_000_000
_NAME = re.compile(r"(?:[\w.]+-)*(?:gcc|cc|clang)(?:-[\d.]+)?")
"""Names of compilers, such as ``x86_64-linux-gnu-gcc-12``; ``ccache`` is none."""
_MOST_BYTES = 1 << 28
_MOST_TOLD = 1000
_ELF = b"\x7fELF"


class Told(NamedTuple):
    """The answer of a compiler that was asked for its version.

    Attributes:
        version: The first line that it prints for ``--version``.
        family: ``"gcc"`` or ``"clang"``.
    """

    version: str
    family: str


def key_of(command: Sequence[str], path: str) -> VersionKey | None:
    """The name of the note of ``command``, whose program is at ``path``; None where none is made of
    it."""
    if len(command) != 1 or _NAME.fullmatch(os.path.basename(os.path.realpath(path))) is None:
        return None
    try:
        with open(path, "rb") as program:
            info = os.fstat(program.fileno())
            begins = program.read(len(_ELF))
    except OSError:
        return None
    if begins != _ELF or abs(time.time_ns() - info.st_ctime_ns) < YOUNG_NS:
        return None
    text = "\0".join(("version", path, *map(str, mark_of(info))))
    return VersionKey(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest())


def recall(key: VersionKey | None) -> Told | None:
    """The answer that the note ``key`` has; None where there is none that is whole."""
    if key is None:
        return None
    try:
        found, _ = cache().find(key)
        text = "" if found is None else content_of(found).decode("utf-8")
    except (MaxlabError, UnicodeDecodeError):
        return None
    family, _, version = text.partition("\n")
    is_told = family in FAMILIES and version.isprintable() and 0 < len(version) <= _MOST_TOLD
    return Told(version, family) if is_told else None


def keep(key: VersionKey | None, path: str, told: Told) -> None:
    """Makes the note ``key`` of what the program at ``path`` said, if the program has the words of
    it in itself: one that calls another has not."""
    fits = told.version.isprintable() and len(told.version) <= _MOST_TOLD
    if key is None or told.family not in FAMILIES or not fits:
        return
    words = told.version.split(" ")[1:]  # the first is the name that it was called by
    try:
        if not words or os.path.getsize(path) > _MOST_BYTES:
            return
        program = Path(path).read_bytes()
        if not all(word.encode() in program for word in words) or key_of([path], path) != key:
            return

        def make(folder: Path) -> Path:
            note = folder / "version"
            note.write_bytes(f"{told.family}\n{told.version}".encode())  # one that is lost is asked
            return note

        cache().build([key], make)
    except (MaxlabError, OSError):
        return  # it is asked again next time


__all__ = ["FAMILIES", "YOUNG_NS", "Told", "keep", "key_of", "recall"]
