"""Append-only files of bounded size: a recording is a ring of segments, each readable alone."""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from maxlab.diagnostics.monitor import _own
from maxlab.diagnostics.monitor.line_format import SUFFIX, whole
from maxlab.diagnostics.monitor.places import small

SEGMENTS = 16
"""Segments of a full ring; with the next one, the oldest goes."""


def matching(folder: Path, prefix: str) -> list[Path]:
    """Files in ``folder`` with names of segments of ``prefix``, which may hold wildcards; none
    where the folder cannot be read.
    """
    try:
        names = os.listdir(folder)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return []
    return [folder / name for name in fnmatch.filter(names, f"{prefix}-*{SUFFIX}")]


def segments(folder: Path, prefix: str) -> list[Path]:
    """The segments of ``prefix`` in ``folder``, the oldest first."""
    found = []
    for path in matching(folder, prefix):
        number = small(path.stem.rpartition("-")[2])
        if number is not None:
            found.append((number, path))
    return [path for _, path in sorted(found)]


def content(path: Path, offset: int = 0, most: int = 1 << 40) -> bytes:
    """``most`` bytes at most of the segment ``path``, from ``offset`` on; none when something else
    lies in its place.

    Raises:
        FileNotFoundError: The ring has moved on.
    """
    try:
        return _own.content(path, most, offset)
    except FileNotFoundError:
        raise
    except OSError:
        return b""


def last_change_ns(path: Path) -> int:
    """When the segment ``path`` was last written to, on the clock of the calendar; 0 when it is not
    there."""
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0


class Writer:
    """Appends whole lines to the newest segment, and lets the oldest go.

    Args:
        folder: where the segments lie.
        prefix: what their names begin with; a writer adds to what earlier ones left.
        max_bytes: size of all of them together, at most.
        beginning: the lines that a segment of this number begins with.
    """

    def __init__(
        self, folder: Path, prefix: str, max_bytes: int, beginning: Callable[[int], bytes]
    ) -> None:
        self._folder = folder
        self._prefix = prefix
        self._most = max(max_bytes // SEGMENTS, 4096)
        self._beginning = beginning
        self._file = -1
        self._size = 0
        self._next()

    def _next(self) -> None:
        known = segments(self._folder, self._prefix)
        number = int(known[-1].stem.rpartition("-")[2]) + 1 if known else 1
        path = self._folder / f"{self._prefix}-{number:06d}{SUFFIX}"
        file = _own.opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        for old in known[: max(len(known) + 1 - SEGMENTS, 0)]:
            with contextlib.suppress(OSError):  # gone, or something else took its place
                old.unlink()
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size = file, 0
        self._append(self._beginning(number))

    def write(self, lines: bytes) -> None:
        """Append ``lines``.

        Raises:
            OSError: They could not be written, as when the disk is full. Nothing of them is left.
        """
        if self._size + len(lines) > self._most and self._size > 0:
            self._next()
        self._append(lines)

    def _append(self, lines: bytes) -> None:
        rest = lines
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            # Half a line would spoil the next one too.
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(lines)

    @property
    def is_removed(self) -> bool:
        """Whether somebody has removed the file that is written to."""
        return os.fstat(self._file).st_nlink == 0

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@dataclass(slots=True)
class Tail:
    """Reads what writers append to all segments of ``prefix``, piece by piece.

    Attributes:
        missed: whether segments went before they were read: what follows does not continue what
            was read, and only a new tail reads on.
    """

    folder: Path
    prefix: str
    missed: bool = False
    _offsets: dict[str, int] = field(default_factory=dict)
    _newest: int = 0

    def read(self, most: int = 1 << 26) -> bytes:
        """Whole lines that were not read before, in the order of the segments; about ``most`` bytes
        at most."""
        pieces: list[bytes] = []
        size = 0
        found = segments(self.folder, self.prefix)
        newest = int(found[-1].stem.rpartition("-")[2]) if found else 0
        if newest < self._newest:
            # Somebody has removed them all, and there may be new ones with the same names.
            self.missed = True
            return b""
        for path in found:
            number = int(path.stem.rpartition("-")[2])
            if number < self._newest:
                continue  # read to its end: a writer never goes back to it
            if self._newest and number > self._newest + 1:
                self.missed = True
            try:
                piece = content(path, self._offsets.get(path.name, 0), most - size)
            except FileNotFoundError:  # the ring has moved on
                self.missed = True
                continue
            piece = piece[: whole(piece)]
            self._offsets[path.name] = self._offsets.get(path.name, 0) + len(piece)
            self._newest = max(self._newest, number)
            pieces.append(piece)
            size += len(piece)
            if size >= most:
                break
        return b"".join(pieces)
