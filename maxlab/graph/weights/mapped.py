"""Weight files mapped into memory: opened without surprises, and read only where bytes are.

Nothing here trusts a number of a file: a count is compared with the bytes that are left before
anything is made of it.
"""

from __future__ import annotations

import math
import mmap
import os
import stat

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import WeightError
from maxlab.opset.core import Array

MAX_RANK = 32  # what NumPy 1 can address


class MappedFile:
    """An open weight file: its path, its size in bytes, and its bytes mapped read-only.

    Args:
        path: The file.
        format: What the file should be, for messages: ``"safetensors"``.

    Raises:
        WeightError: ML632, it cannot be opened; ML633, it is empty.
    """

    def __init__(self, path: str | os.PathLike[str], format: str) -> None:
        self.path = os.fspath(path)
        self.format = format
        try:
            # Asked before it is opened: opening a pipe would wait for somebody to write to it.
            mode = os.stat(self.path).st_mode
            if not stat.S_ISREG(mode):
                what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
                raise self._closed(f"it is {what}")
            with open(self.path, "rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                if not self.size:
                    raise self.bad("it has 0 bytes")
                self.map = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            if isinstance(error, WeightError):
                raise
            raise self._closed(getattr(error, "strerror", None) or str(error)) from error

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

    def view(self, begin: int, dtype: DType, shape: tuple[int, ...]) -> Array:
        """The elements that begin at the byte ``begin``, read-only; not copied unless they are
        misaligned, as C code may not read them then."""
        kind = dtype.ml_numpy
        count = math.prod(shape)
        if not count:
            array = np.empty(shape, kind)
        else:
            array = np.frombuffer(self.map, kind, count, begin).reshape(shape)
            if begin % kind.itemsize:
                array = array.copy()
        array.flags.writeable = False
        return array


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
