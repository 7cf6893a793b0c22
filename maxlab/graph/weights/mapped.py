"""Weight files in memory: opened without surprises, and read only where bytes are.

Nothing here trusts a number of a file: a count is compared with the bytes that are left before
anything is made of it.
"""

from __future__ import annotations

import math
import os

import numpy as np

from maxlab.driver.mapped import FileMemory
from maxlab.dtype import DType
from maxlab.errors import FileError, WeightError
from maxlab.files import open_regular
from maxlab.opset.core import Array

MAX_RANK = 32  # what NumPy 1 can address


class MappedFile:
    """An open weight file: its path, its size in bytes, and its bytes, read-only.

    Args:
        path: The file.
        format: What the file should be, for messages: ``"safetensors"``.
        private: Read the file into memory of its own, where it is mapped otherwise.

    Raises:
        WeightError: ML632, it cannot be opened; ML633, it is empty.
    """

    def __init__(self, path: str | os.PathLike[str], format: str, private: bool = False) -> None:
        self.path = os.fspath(path)
        self.format = format
        try:
            with open_regular(self.path, "the weights") as file:
                self.size = os.fstat(file.fileno()).st_size
                if not self.size:
                    raise self.bad("it has 0 bytes")
                if private:
                    self.map = FileMemory.copied(self.path, file.fileno(), self.size)
                else:
                    self.map = FileMemory(self.path, file.fileno(), self.size)
            self._bytes = np.frombuffer(self.map, np.uint8)
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
