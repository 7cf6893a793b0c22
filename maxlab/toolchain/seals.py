"""The seal at the end of a file in the cache, by which it is known to be whole and to be itself.

A seal is the names that the file may have, their length, a mark and a digest of all before it. It
says nothing of who wrote the file: that is what `trust` is for.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from maxlab.digests import blake2b
from maxlab.toolchain.trust import is_private

_MAGIC = b"mxsealed"
_DIGEST_BYTES = 32
_END = struct.Struct("<I8s")  # the length of the names, the mark; then comes the digest
_SEAL_BYTES = _END.size + _DIGEST_BYTES
_MOST_BYTES = 1 << 28  # of a library; a larger file is none of ours


@dataclass(slots=True)
class Content:
    """The content of a file, as it was found or made.

    Attributes:
        digest: stands for the bytes and the names together.
        names: the file names that it may be kept under.
        size: the number of bytes of the whole file.
        data: the bytes without the seal; empty once somebody keeps what he made of them, by
            ``digest``.
    """

    digest: bytes
    names: frozenset[str]
    size: int
    data: bytes


def seal(path: Path, names: Sequence[str]) -> Content:
    """The content of the finished file at ``path``, which from now on may have these names.

    The loader maps the segments the ELF header names and never looks behind them.
    """
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "r+b") as file:
        data = file.read()
        listed = "\n".join(names).encode()
        behind = listed + _END.pack(len(listed), _MAGIC)
        digest = blake2b(data + behind, digest_size=_DIGEST_BYTES).digest()
        file.write(behind + digest)
        os.fchmod(handle, 0o600)  # a compiler makes it by the umask, which may let the group in
    return Content(digest, frozenset(names), len(data) + len(listed) + _SEAL_BYTES, data)


def unsealed(data: bytes) -> Content | None:
    """The content of a sealed file whose bytes are ``data``; None if they are not as sealed."""
    end = len(data) - _SEAL_BYTES
    if end < 0:
        return None
    length, magic = _END.unpack_from(data, end)
    digest = data[-_DIGEST_BYTES:]
    if magic != _MAGIC or length > end:
        return None
    sealed = memoryview(data)[:-_DIGEST_BYTES]
    if blake2b(sealed, digest_size=_DIGEST_BYTES).digest() != digest:
        return None
    names = data[end - length : end].decode("utf-8", "replace").split("\n")
    return Content(digest, frozenset(names), len(data), data[: end - length])


def is_whole(path: Path) -> bool:
    """True if ``path`` is a private, sealed file whose content and name are what was sealed.

    Raises:
        FileNotFoundError: there is no such file.
    """
    handle = open_own(path)
    try:
        info = os.fstat(handle)
        content = unsealed(read_own(handle, info.st_size)) if is_own_file(info) else None
    finally:
        os.close(handle)
    return content is not None and Path(path).name in content.names


def open_own(path: str | Path) -> int:
    """A descriptor of a file that is not a link; a pipe is not waited for."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


def is_own_file(info: os.stat_result) -> bool:
    """Whether ``info`` is of a private regular file of a size that libraries have."""
    return stat.S_ISREG(info.st_mode) and info.st_size <= _MOST_BYTES and is_private(info)


def read_own(handle: int, size: int) -> bytes:
    """The first ``size`` bytes of an open file, fewer if it has been cut."""
    data = os.read(handle, size)
    while len(data) < size:
        more = os.read(handle, size - len(data))
        if not more:
            break
        data += more
    return data


def mark_of(info: os.stat_result) -> tuple[int, ...]:
    """A mark that stays the same while a file does: its number, size and time of change."""
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
