"""Weight files in memory: opened without surprises, and read only where bytes are.

Nothing here trusts a number of a file: a count is compared with the bytes that are left before
anything is made of it.
"""

from __future__ import annotations

import math
import os
import weakref
from abc import ABC, abstractmethod

import numpy as np

from maxlab.driver.mapped import FileMemory
from maxlab.dtype import DType
from maxlab.errors import FileError, WeightError, WeightFileError
from maxlab.files import open_regular
from maxlab.opset.core import Array

MAX_RANK = 32  # what NumPy 1 can address
MOST_HEAD = 1 << 28
"""Bytes of the description in front of the data, at most, where it is read into memory."""
_STEP = 1 << 18
"""Bytes that are read at once of the head of a file, at the least."""


class WeightBytes(ABC):
    """An open weight file: its path, its size in bytes, and its bytes, read-only.

    ``MappedFile`` has them as memory; ``UnmappedFile`` reads those that are asked for.

    Args:
        path: The file.
        format: What the file should be, for messages: ``"safetensors"``.

    Raises:
        WeightError: ML632, it cannot be opened; ML633, it is empty.
    """

    head: FileMemory | bytearray
    """The bytes from the first one on, up to what was reached."""

    def __init__(self, path: str | os.PathLike[str], format: str) -> None:
        self.path = os.fspath(path)
        self.format = format
        try:
            with open_regular(self.path, "the weights") as file:
                self.size = os.fstat(file.fileno()).st_size
                if not self.size:
                    raise self.bad("it has 0 bytes")
                self._hold(file.fileno())
        except EOFError as error:
            raise self.bad(str(error)) from error
        except WeightError:
            raise
        except FileError as error:
            why = error.what.rpartition(": ")[2]  # "it is a pipe"
            if error.code == "ML001":
                why += ", not a regular file"
            elif error.errno:
                why = os.strerror(error.errno)
            raise self._closed(why) from error
        except (OSError, ValueError) as error:
            raise self._closed(getattr(error, "strerror", None) or str(error)) from error

    @abstractmethod
    def _hold(self, handle: int) -> None:
        """Keep the open file ``handle``, which is closed behind this."""

    @abstractmethod
    def reach(self, end: int) -> None:
        """Have ``head`` hold all bytes before ``end``.

        Raises:
            WeightFileError: ML639, the file has become shorter.
        """

    @abstractmethod
    def require_whole(self) -> None:
        """Raises unless the file still is the one that was opened.

        Raises:
            WeightFileError: ML639, its size or its time of change is another; ML641, a part of it
                could not be read.
        """

    @abstractmethod
    def view(self, name: str, begin: int, dtype: DType, shape: tuple[int, ...]) -> Array:
        """The elements of the weight ``name``, which begin at the byte ``begin``, read-only.

        Raises:
            WeightFileError: ML639 or ML641, the file is no longer what was opened.
        """

    def take(self, begin: int, end: int) -> bytes:
        """The bytes from ``begin`` to ``end``.

        Raises:
            WeightFileError: ML639, the file has become shorter.
        """
        self.reach(end)
        return bytes(self.head[begin:end])

    def _closed(self, why: str) -> WeightError:
        return WeightError(
            "ML632", f"cannot open the weights {self.path}: {why}", fix="check the path"
        )

    def bad(self, why: str) -> WeightError:
        """The error of a file that is cut off or claims what cannot be."""
        return WeightError(
            "ML633",
            f"{self.path} is not a whole {self.format} file: {why}",
            fix="download or save it again",
        )

    def unreadable(self, why: str, fix: str) -> WeightError:
        """The error of a file that is whole, in a variant of the format that is not read."""
        return WeightError("ML637", f"{self.path} cannot be read: {why}", fix=fix)


class MappedFile(WeightBytes):
    """A weight file in memory: mapped, or read into memory of its own.

    Args:
        path: The file.
        format: What the file should be, for messages: ``"safetensors"``.
        private: Read the file into memory of its own, where it is mapped otherwise.

    Raises:
        WeightError: ML632, it cannot be opened; ML633, it is empty.
    """

    def __init__(self, path: str | os.PathLike[str], format: str, private: bool = False) -> None:
        self._private = private
        super().__init__(path, format)

    def _hold(self, handle: int) -> None:
        if self._private:
            self.map = FileMemory.copied(self.path, handle, self.size)
        else:
            self.map = FileMemory(self.path, handle, self.size)
        self.head = self.map
        self._bytes = np.frombuffer(self.map, np.uint8)

    def reach(self, end: int) -> None:
        """Returns at once: all bytes are there."""

    def require_whole(self) -> None:
        """Raises unless the file still is the one that was opened; see ``WeightBytes``."""
        self.map.require_whole()

    def view(self, name: str, begin: int, dtype: DType, shape: tuple[int, ...]) -> Array:
        """The elements of the weight ``name``, which begin at the byte ``begin``, read-only; not
        copied unless they are misaligned, as C code may not read them then.

        Raises:
            WeightFileError: ML639 or ML641, the file is no longer what was opened.
        """
        kind = dtype.ml_numpy
        count = math.prod(shape)
        if not count:
            array = np.empty(shape, kind)
        else:
            self.map.name(name, begin, count * kind.itemsize)
            end = begin + count * kind.itemsize
            array = self._bytes[begin:end].view(kind).reshape(shape)
            if begin % kind.itemsize:
                array = array.copy()
        self.map.require_whole()
        array.flags.writeable = False
        return array


class UnmappedFile(WeightBytes):
    """A weight file that is read where it is asked for, and never mapped: for a process that has to
    live on, whatever becomes of the file, and that has no C compiler to guard it.

    Args:
        path: The file.
        format: What the file should be, for messages: ``"safetensors"``.

    Raises:
        WeightError: ML632, it cannot be opened; ML633, it is empty.
    """

    def _hold(self, handle: int) -> None:
        self.head = self._head = bytearray()
        self._time = os.fstat(handle).st_mtime_ns
        self._handle = os.dup(handle)
        self._close = weakref.finalize(self, os.close, self._handle)

    def reach(self, end: int) -> None:
        """Have ``head`` hold all bytes before ``end``; see ``WeightBytes``.

        Raises:
            WeightError: ML633, that is more than any description takes.
            WeightFileError: ML639, the file has become shorter; ML641, it cannot be read.
        """
        have = len(self.head)
        if end > MOST_HEAD:
            raise self.bad(f"its description takes more than {MOST_HEAD} bytes")
        if end > have:
            more = min(max(end - have, _STEP), self.size - have)
            self._head += self.read(have, have + max(more, end - have))

    def read(self, begin: int, end: int) -> bytearray:
        """The bytes from ``begin`` to ``end``, which are not kept.

        Raises:
            WeightFileError: ML639, the file has become shorter; ML641, it cannot be read.
        """
        found = bytearray(end - begin)
        at = 0
        with memoryview(found) as room:
            while at < len(found):
                try:
                    got = os.preadv(self._handle, [room[at : at + (1 << 30)]], begin + at)
                except OSError as error:
                    raise WeightFileError(
                        "ML641",
                        f"the file {self.path} could not be read: {error.strerror}",
                        fix="copy it to another disk, and open it again",
                    ) from error
                if not got:
                    self.require_whole()
                    raise self._changed("ends earlier than it did")
                at += got
        return found

    def require_whole(self) -> None:
        """Raises unless the file still is the one that was opened; see ``WeightBytes``."""
        now = os.fstat(self._handle)
        if now.st_size != self.size:
            raise self._changed(f"has {now.st_size} bytes, and had {self.size} when it was opened")
        if now.st_mtime_ns != self._time:
            raise self._changed("was written to after it was opened")

    def _changed(self, what: str) -> WeightFileError:
        return WeightFileError("ML639", f"the file {self.path} {what}", fix="open it again")

    def view(self, name: str, begin: int, dtype: DType, shape: tuple[int, ...]) -> Array:
        """The elements of the weight ``name``, read now; see ``WeightBytes``."""
        kind = dtype.ml_numpy
        raw = self.read(begin, begin + math.prod(shape) * kind.itemsize)
        array = np.frombuffer(raw, kind).reshape(shape)
        self.require_whole()
        array.flags.writeable = False
        return array

    def let_go(self) -> None:
        """Forget the bytes of ``head``, which is empty from now on."""
        self.head = self._head = bytearray()

    def close(self) -> None:
        """Close the file; nothing more can be read of it."""
        self._close()


def addressable(shape: tuple[int, ...], itemsize: int) -> bool:
    """Whether an array of this shape can be described at all, whatever memory it would take."""
    return len(shape) <= MAX_RANK and math.prod(n for n in shape if n) * max(itemsize, 1) < 2**63


def overlap(extents: dict[str, tuple[int, int]]) -> tuple[str, str] | None:
    """Two names whose ``(begin, end)`` share a byte, or None."""
    before = ""
    at = 0
    for name, (begin, end) in sorted(extents.items(), key=lambda item: item[1]):
        if begin == end:
            continue
        if begin < at:
            return before, name
        before, at = name, end
    return None
