"""Arrays in shared memory, for messages that would otherwise carry megabytes.

One process writes a segment and sends its name; the one that reads it removes it. A segment is
never left behind: Python's resource tracker removes those of a process that was killed, and
`remove_orphans` those that outlived their process in any other way.
"""

from __future__ import annotations

import atexit
import mmap
import os
import re
import threading
from _posixshmem import shm_open, shm_unlink  # type: ignore[import-not-found]
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.dtype import DType
from maxlab.errors import DocumentError, shown
from maxlab.interfaces import fields

_FOLDER = Path("/dev/shm")
_NAME = re.compile(r"maxlab-msg-(\d{1,10})-[0-9a-f]{16}")
_KIND = "shared_memory"
_MOST_AXES = 64

_unread: set[str] = set()
"""Names of segments that this process made and has not seen removed yet."""
_unread_of = os.getpid()
_lock = threading.Lock()
_making = threading.local()
"""``names``: the segments that a thread has made since somebody began to watch."""


def dtype_of(name: object) -> np.dtype[Any]:
    """The NumPy dtype with the name that a message gave.

    Raises:
        DocumentError: No dtype of maxlab has this name.
    """
    found = DType.__members__.get(name) if isinstance(name, str) else None
    if found is None:
        raise DocumentError("ML983", f"an array of the dtype {shown(name)}, which there is not")
    return found.ml_numpy


def sizes(shape: object) -> tuple[int, ...]:
    """The shape that a message gave, as a tuple.

    Raises:
        DocumentError: It is no list of sizes.
    """
    if (
        not isinstance(shape, Sequence)
        or len(shape) > _MOST_AXES
        or not all(isinstance(size, int) and 0 <= size <= fields.INT64 for size in shape)
    ):
        raise DocumentError("ML983", f"an array of the shape {shown(shape)}, which is none")
    return tuple(shape)


class SharedMemoryArray:
    """An array in a segment of shared memory: its name, shape and dtype.

    A message carries it as ``{"__shm__": True, "name": …, "shape": …, "dtype": …}``, and the
    decoder puts the array in its place.

    Args:
        name: The name of the segment.
        shape: The shape of the array.
        dtype: The name of its dtype, such as ``"float32"``.

    Raises:
        InputTypeError: ``name`` or ``dtype`` is no string, or ``shape`` no tuple of ints.
        DocumentError: There is no such dtype (a ValueError).

    Example:
        >>> import numpy as np
        >>> there = SharedMemoryArray.put(np.arange(3))
        >>> there.shape, there.dtype, there.take()
        ((3,), 'int64', array([0, 1, 2]))
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        fields.word("SharedMemoryArray.name", name)
        fields.text("SharedMemoryArray.dtype", dtype)
        fields.listed(fields.integer(0), kinds=(tuple, list))("SharedMemoryArray.shape", shape)
        dtype_of(dtype)
        self.name = name
        self.shape = tuple(shape)
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"SharedMemoryArray({self.name!r}, {self.shape}, {self.dtype!r})"

    @classmethod
    def put(cls, array: npt.NDArray[Any]) -> SharedMemoryArray | None:
        """A copy of ``array`` in a new segment; None where shared memory has no room for it.

        Args:
            array: An array of at least one byte.
        """
        from multiprocessing import resource_tracker

        settle()
        name = f"maxlab-msg-{os.getpid()}-{os.urandom(8).hex()}"
        # Before the segment is there: a process that is killed in between leaves nothing.
        resource_tracker.register(f"/{name}", _KIND)
        try:
            _fill(name, array)
        except OSError:
            resource_tracker.unregister(f"/{name}", _KIND)
            return None
        with _lock:
            _unread.add(name)
        if (made := getattr(_making, "names", None)) is not None:
            made.append(name)
        return cls(name, array.shape, DType.from_numpy(array.dtype).name)

    def take(self, *, copy: bool = True) -> npt.NDArray[Any]:
        """The array; its segment is removed.

        Args:
            copy: Whether the array is a copy in this process, or the segment itself, which is given
                back with the array.

        Raises:
            DocumentError: There is no such segment, it is not one of maxlab's, or it is smaller
                than the array (a ValueError).
        """
        dtype = dtype_of(self.dtype)
        size = prod(self.shape) * dtype.itemsize
        if not _NAME.fullmatch(self.name):
            raise DocumentError(
                "ML985", f"the segment {shown(self.name)} was not written by this package"
            )
        try:
            handle = shm_open(f"/{self.name}", os.O_RDWR, mode=0o600)
        except OSError as error:
            raise DocumentError(
                "ML985",
                f"the segment {self.name} of shared memory is gone",
                why=[str(error)],
                fix="read each message once, and before the process that wrote it ends",
            ) from error
        try:
            there = os.fstat(handle).st_size
            if size > there or size == 0:
                raise DocumentError(
                    "ML985",
                    f"the segment {self.name} has {there} bytes, and not the {size} of "
                    f"{self.dtype}{list(self.shape)}",
                )
            view = mmap.mmap(handle, there)
        finally:
            os.close(handle)
        remove(self.name)
        array = np.frombuffer(view, dtype, prod(self.shape)).reshape(self.shape)
        return array.copy() if copy else array


def _fill(name: str, array: npt.NDArray[Any]) -> None:
    """Makes the segment ``name`` with a copy of ``array``; raises OSError without room."""
    handle = shm_open(f"/{name}", os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
    try:
        # Not ftruncate: writing to a segment that memory ran out for would end the process.
        os.posix_fallocate(handle, 0, array.nbytes)
        with mmap.mmap(handle, array.nbytes) as view:
            target = np.frombuffer(view, array.dtype, array.size).reshape(array.shape)
            np.copyto(target, array)
            del target
    except BaseException:
        remove(name)
        raise
    finally:
        os.close(handle)


@contextmanager
def taken_back_on_errors() -> Iterator[None]:
    """Removes the segments that this thread makes inside, if an exception comes out: nobody will
    read them."""
    before, _making.names = getattr(_making, "names", None), []
    made: list[str] = _making.names
    try:
        yield
    except BaseException:
        for name in made:
            remove(name)
        raise
    finally:
        _making.names = before


def remove(name: str) -> None:
    """Removes the segment ``name``, if it is there."""
    try:
        shm_unlink(f"/{name}")
    except FileNotFoundError:
        return


def settle() -> None:
    """Forgets the segments of this process that their readers have removed."""
    global _unread_of
    if not _unread:
        _unread_of = os.getpid()
        return
    from multiprocessing import resource_tracker

    with _lock:
        if _unread_of != os.getpid():  # a fork: the segments are those of the parent
            _unread.clear()
            _unread_of = os.getpid()
        for name in [name for name in _unread if not (_FOLDER / name).exists()]:
            _unread.discard(name)
            resource_tracker.unregister(f"/{name}", _KIND)


def remove_orphans() -> list[str]:
    """The names of the segments that were removed because the process that made them has ended.

    The resource tracker removes those of a process and of its children once all have ended; this
    removes them at once, and also after a kill of the tracker.
    """
    removed = []
    for path in sorted(_FOLDER.glob("maxlab-msg-*")):
        found = _NAME.fullmatch(path.name)
        if found and not _made_by_a_living(int(found[1]), path):
            remove(path.name)
            removed.append(path.name)
    return removed


def _made_by_a_living(pid: int, path: Path) -> bool:
    """Whether the process ``pid`` runs and is old enough to have made ``path``."""
    import psutil

    try:
        process = psutil.Process(pid)
        # A tick of a second aside, which the two clocks may differ by.
        old_enough = process.create_time() <= path.stat().st_mtime + 1
        return bool(old_enough and process.status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, FileNotFoundError):
        return False
    except psutil.AccessDenied:
        return True


atexit.register(settle)
