"""The archive of a kept model, mapped into memory: its members, checked against its manifest."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from maxlab import files
from maxlab.engine.kept.manifest import (
    DIGEST,
    GRAPH,
    MANIFEST,
    MOST_BYTES,
    Manifest,
    MemberEntry,
    damaged,
    read_manifest,
)
from maxlab.errors import FileError, ParseError
from maxlab.stored import DamagedError, PackedError, members

_STEP = 1 << 20
"""Bytes that are read at once of a member that is only looked at."""


class _Behind:
    """The bytes of an open file, read when they are asked for: a file that becomes shorter gives
    fewer, where memory that it is mapped into would end the process.

    Attributes:
        handle: The open file.
    """

    def __init__(self, handle: int, nbytes: int) -> None:
        self.handle = handle
        self._nbytes = nbytes

    def __len__(self) -> int:
        return self._nbytes

    def __getitem__(self, part: slice) -> bytes:
        begin, end, _ = part.indices(self._nbytes)
        made = os.pread(self.handle, end - begin, begin)
        while len(made) < end - begin:  # the system reads at most 2 GiB at once
            more = os.pread(self.handle, end - begin - len(made), begin + len(made))
            if not more:
                break
            made += more
        return made + bytes(end - begin - len(made))

    def __del__(self) -> None:
        os.close(self.handle)


class Archive:
    """An open kept model: what it says of itself, and its bytes. Nothing of it is run.

    Args:
        path: The file.
        content: The bytes of the file, where they are in memory already.

    Attributes:
        path: The file, as it was named.
        nbytes: Its size.
        digest: The SHA-256 of its manifest, which has those of all members: it stands for all of
            the file.
        manifest: What it says of itself.
        places: Where each member begins, and how many bytes it has.

    Raises:
        FileError: ML001 or ML002, it cannot be read.
        ParseError: ML512, it is no whole model; ML513, a newer maxlab wrote it.
    """

    def __init__(self, path: files.AnyPath, content: bytes | None = None) -> None:
        self.path = str(files.as_path(path))
        self.memory: Any = content if content is not None else self._opened()
        self.nbytes = len(self.memory)
        try:
            self.places = members(self.memory)
        except (DamagedError, PackedError) as error:
            raise damaged(self.path, str(error)) from error
        self.digest = self._told_digest()
        self.manifest = self._manifest()

    def _opened(self) -> _Behind:
        with files.open_regular(self.path, "the model") as file:
            nbytes = os.fstat(file.fileno()).st_size
            if not nbytes:
                raise damaged(self.path, "it has 0 bytes")
            return _Behind(os.dup(file.fileno()), nbytes)

    def _told_digest(self) -> str:
        begin, nbytes = self.place(DIGEST)
        told: bytes = self.memory[begin : begin + min(nbytes, 65)]
        if nbytes != 64 or any(one not in b"0123456789abcdef" for one in told):
            raise damaged(self.path, "its digest is none")
        return told.decode()

    def _manifest(self) -> Manifest:
        begin, nbytes = self.place(MANIFEST)
        if nbytes > MOST_BYTES:
            raise damaged(self.path, f"its {MANIFEST} has {nbytes} bytes")
        text: bytes = self.memory[begin : begin + nbytes]
        made = read_manifest(text, self.path)
        if hashlib.sha256(text).hexdigest() != self.digest:
            raise changed(self.path, MANIFEST)
        for name, entry in made.members.items():
            if self.place(name)[1] != entry.nbytes:
                raise changed(self.path, name)
        for name in self.places:
            if name not in made.members and name not in (MANIFEST, DIGEST):
                raise damaged(self.path, f"its {MANIFEST} does not say what {name[:80]!r} is")
        if GRAPH not in made.members:
            raise damaged(self.path, f"it has no {GRAPH}")
        return made

    def place(self, name: str) -> tuple[int, int]:
        """Where the member ``name`` begins, and how many bytes it has.

        Raises:
            ParseError: ML512, there is none.
        """
        found = self.places.get(name)
        if found is None:
            raise damaged(self.path, f"it has no {name[:80]}")
        return found

    @property
    def handle(self) -> int | None:
        """The open file; None where the archive is in memory alone."""
        return self.memory.handle if isinstance(self.memory, _Behind) else None

    def __contains__(self, name: str) -> bool:
        return name in self.manifest.members

    def read(self, name: str) -> bytes:
        """The bytes of the member ``name``, which are those that the manifest says.

        Raises:
            ParseError: ML512, there is none; ML514, its bytes are others.
        """
        begin, nbytes = self.place(name)
        data: bytes = self.memory[begin : begin + nbytes]
        if hashlib.sha256(data).hexdigest() != self._entry(name).sha256:
            raise changed(self.path, name)
        return data

    def require(self, name: str) -> None:
        """Raises unless the bytes of the member ``name`` are those that the manifest says; it is
        read in pieces.

        Raises:
            ParseError: ML512, there is none; ML514, its bytes are others.
        """
        begin, nbytes = self.place(name)
        digest = hashlib.sha256()
        for at in range(begin, begin + nbytes, _STEP):
            digest.update(self.memory[at : min(at + _STEP, begin + nbytes)])
        if digest.hexdigest() != self._entry(name).sha256:
            raise changed(self.path, name)

    def _entry(self, name: str) -> MemberEntry:
        entry = self.manifest.members.get(name)
        if entry is None:
            raise damaged(self.path, f"it has no {name[:80]}")
        return entry

    def require_whole(self) -> None:
        """Raises unless the bytes of all members are those that the manifest says.

        Raises:
            ParseError: ML514.
        """
        for name in self.manifest.members:
            self.require(name)


def changed(file: str, name: str) -> ParseError:
    """The error of a member whose bytes are not those that were saved."""
    return ParseError(
        "ML514",
        f"{file} was changed after it was saved: {name[:80]} has other bytes than its digest says",
        fix="take the file as it was saved, or save the model again",
    )


def is_archive(path: files.AnyPath) -> bool:
    """Whether the file at ``path`` begins as a kept model does; False where it cannot be read."""
    try:
        with files.open_regular(path) as file:
            begins = file.read(64)
    except (FileError, OSError):
        return False
    return begins[:4] == b"PK\x03\x04" and begins[30 : 30 + len(MANIFEST)] == MANIFEST.encode()


__all__ = ["Archive", "changed", "is_archive"]
