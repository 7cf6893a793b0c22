"""The numbers of a kept model: its weights, mapped where they lie, and known to be those that were
saved.

Reading 90 MB to hold them against a digest takes longer than loading a model. So a file is read
once on each machine: a note in the cache of kernels says which file it was, by its number, size and
times, and that it had that digest. A file that is written to, moved or replaced has another of
these, and is read again.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from maxlab import files
from maxlab.digests import blake2b
from maxlab.driver.mapped import FileMemory
from maxlab.dtype import DType
from maxlab.engine.kept.archive import Archive
from maxlab.engine.kept.manifest import (
    COMPUTED,
    CONSTANTS,
    PACKED,
    WEIGHTS,
    ArrayEntry,
    FileEntry,
    WeightEntry,
    damaged,
)
from maxlab.errors import CacheError, FileError, MaxlabError, WeightError
from maxlab.toolchain.artefacts import SeenKey, cache

Array = np.ndarray[Any, Any]
DATA = (WEIGHTS, COMPUTED, CONSTANTS, PACKED)
"""The members that are mapped and not read."""
YOUNG_NS = 2_000_000_000
"""A file that was written to so shortly ago may be written to again within what its times tell
apart: no note is made of it."""
_STEP = 1 << 22
_DTYPES = {dtype.name: dtype for dtype in DType}


class Numbers(Mapping[str, Array]):
    """The weights of a kept model by name, each read when it is asked for.

    Args:
        archive: The model.
        is_trusted: Whether files outside of its folder are read.

    Raises:
        ParseError: ML512, an entry that cannot be; ML514, the numbers are not those that were
            saved.
        WeightError: ML516, a file outside of the folder; ML517, a file that is not there, or has
            other numbers.
    """

    def __init__(self, archive: Archive, *, is_trusted: bool) -> None:
        self._archive = archive
        self._is_trusted = is_trusted
        self._entries = {entry.name: entry for entry in archive.manifest.weights}
        self._files: dict[int, FileMemory] = {}

    def __getitem__(self, name: str) -> Array:
        entry = self._entries[name]
        if entry.file >= 0:
            memory = self._file(entry)
            return array_in(memory, 0, len(memory), entry, self._archive.path)
        begin, nbytes = self._archive.place(WEIGHTS)
        return array_in(self.own, begin, nbytes, entry, self._archive.path)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @cached_property
    def own(self) -> Any:
        """The bytes of the archive, mapped; its data members are those that were saved."""
        archive = self._archive
        handle = archive.handle
        if handle is None:
            for name in DATA:
                if name in archive:
                    archive.require(name)
            return archive.memory
        memory = FileMemory(archive.path, handle, archive.nbytes)

        def read() -> None:
            for name in DATA:
                if name in archive:
                    archive.require(name)

        require_seen(handle, archive.digest, read)
        return memory

    def _file(self, entry: WeightEntry) -> FileMemory:
        found = self._files.get(entry.file)
        if found is None:
            rows = self._archive.manifest.files
            if entry.file >= len(rows):
                raise damaged(
                    self._archive.path, f"its weight {entry.name[:80]!r} is in no file of it"
                )
            found = self._files[entry.file] = self._opened(rows[entry.file], entry.name)
        return found

    def _opened(self, row: FileEntry, name: str) -> FileMemory:
        path = self._place_of(row, name)
        fix = (
            "put the file back, or give the weights: "
            "session.load(path, weights_registry=load_weights([file]))"
        )
        told = f"the model {self._archive.path} keeps the weight {name!r} in {path}, which"
        try:
            with files.open_regular(path, "the weights") as file:
                handle, size = file.fileno(), os.fstat(file.fileno()).st_size
                if size != row.nbytes:
                    raise WeightError(
                        "ML517", f"{told} has {size} bytes, and had {row.nbytes}", fix=fix
                    )

                def read() -> None:
                    if _digest(handle, size) != row.sha256:
                        raise WeightError(
                            "ML517", f"{told} has other numbers than when it was saved", fix=fix
                        )

                memory = FileMemory(path, handle, size)
                require_seen(handle, row.sha256, read)
                return memory
        except FileError as error:
            why = error.what.rpartition(": ")[2]
            raise WeightError("ML517", f"{told} cannot be read: {why}", fix=fix) from error

    def _place_of(self, row: FileEntry, name: str) -> Path:
        """Where the file is. Of a stranger's model, only a file below its folder is read."""
        folder = Path(os.path.realpath(self._archive.path)).parent
        path = Path(folder, row.path)
        if "\0" in row.path or not row.path:
            raise damaged(self._archive.path, f"it names {row.path[:80]!r} as a file")
        inside = Path(os.path.realpath(path)).is_relative_to(folder)
        if not (inside or self._is_trusted):
            raise WeightError(
                "ML516",
                f"the model {self._archive.path} keeps the weight {name!r} in {row.path}, outside "
                "of its folder, and is not trusted to name files",
                fix="give the weights: session.load(path, weights_registry=load_weights([file])); "
                "or, of a model that you trust as a program: session.load(path, trusted=True)",
            )
        return path


def array_in(
    memory: Any, begin: int, nbytes: int, entry: WeightEntry | ArrayEntry, file: str
) -> Array:
    """The array that ``entry`` says, in the ``nbytes`` of ``memory`` from ``begin`` on; read-only,
    and copied only where it is misaligned.

    Raises:
        ParseError: ML512, it cannot be there.
    """
    dtype = _DTYPES.get(entry.dtype)
    fits = (
        dtype is not None
        and len(entry.shape) <= 32
        and min((*entry.shape, entry.offset, entry.nbytes)) >= 0
        and entry.offset + entry.nbytes <= nbytes
        and math.prod(entry.shape) * dtype.size_in_bytes == entry.nbytes
    )
    if dtype is None or not fits:
        raise damaged(file, f"{entry.name[:80]!r} is not where it should be")
    kind = dtype.ml_numpy
    count = entry.nbytes // max(kind.itemsize, 1)
    if not count:
        made: Array = np.empty(entry.shape, kind)
    else:
        at = begin + entry.offset
        raw = np.frombuffer(memory, np.uint8, entry.nbytes, at)
        if at % kind.itemsize:
            raw = raw.copy()
        made = raw.view(kind).reshape(entry.shape)
    made.flags.writeable = False
    return made


# ---------------------------------------------------------------- seen before
def require_seen(handle: int, digest: str, read: Callable[[], None]) -> None:
    """Runs ``read``, which raises unless the open file has the contents that ``digest`` stands for,
    if this machine has not seen so before."""
    info = os.fstat(handle)
    mark = info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
    text = blake2b(f"{mark} {digest}".encode(), digest_size=16).hexdigest()
    if text in _SEEN or cache().find(SeenKey(text))[0] is not None:
        _SEEN.add(text)
        return
    read()
    now = os.fstat(handle)
    same = mark == (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    if not same or abs(time.time_ns() - info.st_ctime_ns) < YOUNG_NS:
        return
    _SEEN.add(text)

    def make(folder: Path) -> Path:
        return files.write_bytes(folder / "seen", b"", "a note")

    try:
        cache().build([SeenKey(text)], make)
    except (CacheError, MaxlabError, OSError):  # it is read again next time
        return


_SEEN: set[str] = set()


def forget() -> None:
    """Forget which files this process has seen, so that the cache on disk is asked again."""
    _SEEN.clear()


def _digest(handle: int, size: int) -> str:
    import hashlib

    found = hashlib.sha256()
    at = 0
    while at < size:
        part = os.pread(handle, min(_STEP, size - at), at)
        if not part:
            break
        found.update(part)
        at += len(part)
    return found.hexdigest()


__all__ = ["DATA", "YOUNG_NS", "Numbers", "array_in", "forget", "require_seen"]
