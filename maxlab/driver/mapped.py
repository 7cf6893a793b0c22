"""Files mapped into memory, as tensors and weights use them: what is read where nobody copies.

A page of a mapped file is read when something touches it. `FileMemory` knows when the file is no
longer what was mapped: it became shorter, was written over, or a page of it could not be read. The
runtime library answers such a fault with zeros (``kernels/c/mapped.c``) where the process would
end, and keeps what was lost; whoever reads asks `FileMemory.require_whole` behind it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from maxlab.errors import ToolchainError, WeightFileError
from maxlab.files import AnyPath

LOST = 16
"""Added to the code of an execute while a mapped file has lost a page (``mx_abi.h``)."""
CHANGED = 32
"""The code of a watched execute that ran no step, as a file has changed."""

_FIX = (
    "load it again, and leave files alone that are in use; "
    "load_weights(paths, private=True) reads them into memory of its own"
)
_live: weakref.WeakValueDictionary[int, FileMemory] = weakref.WeakValueDictionary()
_lock = threading.Lock()


class FileMemory(mmap.mmap):
    """The bytes of a file: mapped, or read into memory of its own.

    Arrays over it keep it alive, and it keeps the file open: a file that is renamed, replaced by
    another one or deleted stays what it was.

    Attributes:
        path: The file, as it was named.
        file_nbytes: The bytes that the file had.
        private: Whether the memory is a copy, which needs the file no more.
        writable: Whether arrays over it may be written to.
    """

    path: str
    file_nbytes: int
    private: bool
    writable: bool
    _begin: int
    _file: int
    _time: int
    _found: tuple[str, str] | None
    _names: dict[tuple[int, int], str]
    _guards: dict[int, tuple[Any, Any]]

    def __new__(
        cls,
        path: AnyPath,
        handle: int,
        nbytes: int,
        *,
        access: int = mmap.ACCESS_READ,
        offset: int = 0,
    ) -> FileMemory:
        """The ``nbytes`` from ``offset`` on of the open file ``handle``, mapped.

        Args:
            path: Its name, for messages.
            handle: The open file; it is duplicated.
            nbytes: How many bytes, one or more.
            access: ``mmap.ACCESS_READ``, ``ACCESS_COPY`` or ``ACCESS_WRITE``.
            offset: Where to begin, a multiple of ``mmap.ALLOCATIONGRANULARITY``.

        Raises:
            OSError, ValueError: The system refuses.
        """
        more: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        made = super().__new__(cls, handle, nbytes, access=access, offset=offset, **more)
        found = os.fstat(handle)
        made._set(path, found.st_size, private=False, writable=access != mmap.ACCESS_READ)
        # The times of a file that is written to through its mapping change with what is written.
        made._time = found.st_mtime_ns if access != mmap.ACCESS_WRITE else -1
        made._file = os.dup(handle)
        with _lock:
            _live[made._begin] = made
        made.guard()
        return made

    @classmethod
    def copied(cls, path: AnyPath, handle: int, nbytes: int) -> FileMemory:
        """The first ``nbytes`` of the open file ``handle``, read into memory of its own.

        Raises:
            EOFError: The file has fewer bytes, or was written to meanwhile.
            OSError: It cannot be read, or there is not enough memory.
        """
        before = os.fstat(handle).st_mtime_ns
        made = super().__new__(cls, -1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        made._set(path, nbytes, private=True, writable=False)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a wish
                made.madvise(mmap.MADV_HUGEPAGE)
        with memoryview(made) as room:
            at = 0
            while at < nbytes:
                got = os.preadv(handle, [room[at : at + (1 << 30)]], at)
                if not got:
                    raise EOFError(f"it ended after {at} of {nbytes} bytes")
                at += got
        if os.fstat(handle).st_mtime_ns != before:
            raise EOFError("it was written to while it was read")
        return made

    def _set(self, path: AnyPath, size: int, *, private: bool, writable: bool) -> None:
        from maxlab.toolchain.cffi_abi import ffi

        self.path = os.fspath(path)
        self.file_nbytes = size
        self.private = private
        self.writable = writable
        self._file = -1
        self._time = -1
        self._found = None
        self._names = {}
        self._guards = {}
        with memoryview(self) as bytes_:
            self._begin = int(ffi.cast("uintptr_t", ffi.from_buffer(bytes_)))

    # ------------------------------------------------------------ what happened to it
    def guard(self) -> None:
        """Has faults in its pages come back as errors, where there is a C compiler or its work."""
        from maxlab.toolchain import runtime

        if self.private:
            return
        try:
            library = runtime()
        except ToolchainError:  # nothing is compiled here; a model will say so
            return
        self.guard_of(library)

    def guard_of(self, library: Any) -> Any:
        """The ``mx_mapped *`` of this file in the runtime library ``library``."""
        with _lock:
            found = self._guards.get(id(library))
            if found is None:
                begin = library.ffi.cast("void *", self._begin)
                made = library.lib.mx_mapped_new(
                    begin, len(self), self._file, self.file_nbytes, self._time, int(self.writable)
                )
                if made == library.ffi.NULL:
                    raise MemoryError
                found = self._guards[id(library)] = library, made
        return found[1]

    def _lost(self) -> int | None:
        """The offset of the first byte that could not be read, or None."""
        found = [library.lib.mx_mapped_lost(file) for library, file in self._guards.values()]
        return min((place - 1 for place in found if place), default=None)

    def _is_whole(self) -> bool:
        """Whether the file has the size and time of when it was mapped, and no page was lost."""
        for library, file in self._guards.values():
            if not library.lib.mx_mapped_whole(file):
                return False
        if self._guards:
            return True
        now = os.fstat(self._file)
        return now.st_size == self.file_nbytes and self._time in (-1, now.st_mtime_ns)

    @property
    def is_lost(self) -> bool:
        """Whether a page of it could not be read, and became zeros."""
        return self._lost() is not None

    def require_whole(self) -> None:
        """Raises unless the file is still what was mapped, and all that was read of it was there.

        Raises:
            WeightFileError: ML639, its size or its time of change is another; ML641, a page of it
                could not be read.
        """
        if self.private:
            return
        if self._found is None and not self._is_whole():
            self._found = self._look()
        if self._found is not None:
            code, what = self._found
            raise WeightFileError(code, f"the file {self.path} {what}", fix=_FIX)

    def _look(self) -> tuple[str, str]:
        """The code and the words of what has happened to the file."""
        lost = self._lost()
        code = "ML639" if lost is None else "ML641"
        size = os.fstat(self._file).st_size
        if size < self.file_nbytes:
            name = self._name_from(size if lost is None else min(size, lost))
            behind = f": the weight {name!r} lies beyond its end" if name else ""
            return code, f"has {size} bytes, and had {self.file_nbytes} when it was mapped{behind}"
        if lost is None:
            return code, "was written to after it was mapped"
        name = self._name_from(lost)
        part = f": a part of the weight {name!r} was lost" if name else ""
        return code, f"could not be read while it was in use{part}"

    def let_go(self, address: int, nbytes: int) -> None:
        """Gives the whole pages of ``nbytes`` from ``address`` on back to the system. Whoever reads
        them again reads the file again; memory that may have been written to is kept.
        """
        if self.private or self.writable or not hasattr(mmap, "MADV_DONTNEED"):
            return
        first = -(-(address - self._begin) // mmap.PAGESIZE) * mmap.PAGESIZE
        last = min(address - self._begin + nbytes, len(self)) // mmap.PAGESIZE * mmap.PAGESIZE
        if first < last:
            with contextlib.suppress(OSError):  # a wish
                self.madvise(mmap.MADV_DONTNEED, first, last - first)

    # ------------------------------------------------------------ names
    def name(self, name: str, begin: int, nbytes: int) -> None:
        """Keeps that ``name`` has the ``nbytes`` from the offset ``begin`` on, for messages."""
        self._names.setdefault((begin, begin + nbytes), name)

    def _name_from(self, offset: int) -> str | None:
        """The first name that has bytes at ``offset`` or behind it."""
        behind = [place for place in self._names if place[1] > offset]
        return self._names[min(behind)] if behind else None

    # ------------------------------------------------------------ the end
    def close(self) -> None:
        """Unmaps the file.

        Raises:
            BufferError: Arrays still use it.
        """
        super().close()
        self._leave()

    def _leave(self) -> None:
        guards, self._guards = self._guards, {}
        for library, file in guards.values():
            library.lib.mx_mapped_free(file)
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        if "_guards" in self.__dict__ and not sys.is_finalizing():
            self._leave()


def _finder() -> Callable[[int], FileMemory | None]:
    """A function that gives the mapped file that has an address, or None."""
    with _lock:
        live = dict(_live.items())  # files that go meanwhile stay until the end of it
    begins = sorted(live)

    def find(address: int) -> FileMemory | None:
        n = bisect_right(begins, address) - 1
        file = live[begins[n]] if n >= 0 else None
        return file if file is not None and address < begins[n] + len(file) else None

    return find


def require_whole(addresses: Iterable[int]) -> None:
    """Raises unless each mapped file that has one of ``addresses`` is still what was mapped.

    Raises:
        WeightFileError: ML639, a file has changed; ML641, a page of it could not be read.
    """
    found = dict.fromkeys(map(_finder(), addresses))
    for file in found:
        if file is not None:
            file.require_whole()


def require_read(address: int) -> None:
    """Raises when the mapped file that has ``address`` has lost a page: zeros may have been read.

    Raises:
        WeightFileError: ML641.
    """
    if _live:
        file = _finder()(address)
        if file is not None and file.is_lost:
            file.require_whole()


def file_at(address: int) -> tuple[FileMemory, int] | None:
    """The mapped file that has ``address``, and where in the file that is; None when none has."""
    file = _finder()(address)
    return None if file is None else (file, address - file._begin)


def let_go(places: Iterable[tuple[int, int]]) -> None:
    """Gives pages of mapped files back to the system: those that lie at ``places``, an address and
    a number of bytes each, and are only read."""
    find = _finder() if _live else None
    for address, nbytes in places:
        file = find(address) if find is not None else None
        if file is not None:
            file.let_go(address, nbytes)


def files_of(weights: Mapping[str, tuple[int, int]]) -> list[FileMemory]:
    """The mapped files that have any of ``weights``, which they name in messages from now on.

    Args:
        weights: The address and the bytes of each weight that is on the host, by name; 0 and 0 of
            others.
    """
    find = _finder()
    found: dict[int, FileMemory] = {}
    for name, (address, nbytes) in weights.items():
        file = find(address)
        if file is not None:
            file.name(name, address - file._begin, nbytes)
            found[id(file)] = file
    return list(found.values())


__all__ = [
    "CHANGED",
    "LOST",
    "FileMemory",
    "file_at",
    "files_of",
    "let_go",
    "require_read",
    "require_whole",
]
