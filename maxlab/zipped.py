"""ZIP archives that nobody vouches for, read in memory: no part may be larger than it claims, and
nothing is unpacked before its claim was looked at.
"""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np

Array = np.ndarray[Any, Any]

MOST_PARTS = 100_000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENTRY = b"PK\x01\x02"
"""The beginning of each entry in the directory of an archive."""
_BROKEN = (
    zipfile.BadZipFile,  # the archive itself, the head of a part, or its checksum
    zlib.error,
    EOFError,
    NotImplementedError,  # a version of the format that nobody writes
    RuntimeError,  # encrypted
    OSError,
    ValueError,
    OverflowError,
    struct.error,
)


class DamagedError(ValueError):
    """An archive, or a part of one, that is not what it claims to be; its text says why."""


class Zipped:
    """The parts of a ZIP archive.

    Attributes:
        sizes: The bytes that each part claims to have when it is unpacked, by its name.

    Args:
        content: The archive: its bytes, or an open file.

    Raises:
        DamagedError: It is none, two parts have one name, or a part is packed in another way than
            ZIP's usual one.

    Example:
        >>> content = io.BytesIO()
        >>> with zipfile.ZipFile(content, "w") as archive:
        ...     archive.writestr("a.txt", "hello")
        >>> found = Zipped(content.getvalue())
        >>> found.sizes, found.read("a.txt")
        ({'a.txt': 5}, b'hello')
    """

    def __init__(self, content: bytes | BinaryIO) -> None:
        if isinstance(content, bytes) and content.count(_ENTRY) > MOST_PARTS:
            raise DamagedError(f"it has more than {MOST_PARTS} parts")
        file = io.BytesIO(content) if isinstance(content, bytes) else content
        try:
            self._archive = zipfile.ZipFile(file)
        except _BROKEN as error:
            raise DamagedError(_words(error)) from error
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in self._archive.infolist():
            if entry.filename in self._entries:
                raise DamagedError(f"it has two parts {entry.filename[:80]!r}")
            self._entries[entry.filename] = entry
        self.sizes = {name: entry.file_size for name, entry in self._entries.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def read(self, name: str) -> bytes:
        """The part ``name``, unpacked: as many bytes as it claims, or it is refused.

        Raises:
            DamagedError: It is not there, is damaged, or has more or fewer bytes than it claims.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise DamagedError(f"it has no part {name[:80]!r}")
        if entry.compress_type not in _METHODS:
            raise DamagedError(f"{name[:80]} is packed in an unusual way")
        try:
            with self._archive.open(entry) as file:
                found = file.read(entry.file_size + 1)
        except _BROKEN as error:
            raise DamagedError(f"{name[:80]}: {_words(error)}") from error
        if len(found) != entry.file_size:
            raise DamagedError(f"{name[:80]} is not as long as it says")
        return found


# What NumPy raises for a head that is not one: it reads it as Python's literals.
_NO_HEAD = (SyntaxError, tokenize.TokenError, TypeError, RecursionError, MemoryError)


def array_of(name: str, raw: bytes, dtype: str) -> Array:
    """The array in ``raw``, a part of ``.npy``'s version 1.0; it shares the memory of ``raw``.

    Args:
        name: What the part is called, for messages.
        raw: The bytes of the part.
        dtype: What its elements must be, in NumPy's words: ``"<i8"``.

    Raises:
        DamagedError: Its head claims another dtype or order, or as many elements as there are not.
    """
    file = io.BytesIO(raw)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise DamagedError(f"{name} is not of .npy's version 1.0")
        shape, by_column, found = np.lib.format.read_array_header_1_0(file, max_header_size=4096)
    except DamagedError:
        raise
    except (*_BROKEN, *_NO_HEAD) as error:
        raise DamagedError(f"{name}: {_words(error)}") from error
    if found != np.dtype(dtype) or (by_column and len(shape) > 1) or any(n < 0 for n in shape):
        raise DamagedError(f"{name} has another type or order")
    start, count = file.tell(), math.prod(shape)
    if len(raw) - start != count * found.itemsize:
        raise DamagedError(f"{name} has {len(raw) - start} bytes for {str(count)[:40]} numbers")
    made: Array = np.frombuffer(raw, found, count, start) if count else np.zeros(0, found)
    return made.reshape(shape)


def _words(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


__all__ = ["DamagedError", "Zipped", "array_of"]
