"""ZIP archives whose members are stored as they are, so that they can be mapped into memory.

`members` reads the directory at the end of an archive and checks each claim of it; no member is
unpacked, so no archive can be larger than it looks. `Writing` writes archives in which the bytes of
each member begin at a multiple of `ALIGNMENT`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO

ALIGNMENT = 64
"""Bytes of a cache line, and of the widest vectors that kernels read."""
MOST_MEMBERS = 100_000
_END = struct.Struct("<4s4H2LH")
_END64_AT = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_PADDING = struct.Struct("<2H")
_PADDING_ID = 0x4C4D
"""Which extra field of a member holds nothing but the bytes that align it."""
_FULL = 0xFFFFFFFF
"""The mark in place of a number that does not fit into 32 bits, and follows in 64."""
_UTF8 = 0x800
_DATE = (1 << 5) | 1
"""The first of January 1980: two archives of the same members are the same bytes."""

Buffer = Any
"""An object with a length that gives bytes when it is cut: ``bytes``, ``mmap.mmap``, a file
behind it."""


class DamagedError(ValueError):
    """An archive that is cut off or contradicts itself; its text says why."""


class PackedError(ValueError):
    """A member that is compressed or encrypted; its text says which."""


# ---------------------------------------------------------------- reading
def members(data: Buffer) -> dict[str, tuple[int, int]]:
    """``(begin, nbytes)`` of each member of the archive ``data``, by name.

    Raises:
        DamagedError: It is cut off or contradicts itself.
        PackedError: A member is compressed or encrypted.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> archive = Writing(file)
        >>> archive.add("a.txt", [b"hello"])
        >>> archive.close()
        >>> members(file.getvalue())
        {'a.txt': (64, 5)}
    """
    count, at, end = _directory(data)
    if count > MOST_MEMBERS:
        raise DamagedError(f"it has more than {MOST_MEMBERS} members")
    if count * _ENTRY.size > end - at:
        raise DamagedError(f"its directory claims {count} members, and has {end - at} bytes")
    found: dict[str, tuple[int, int]] = {}
    whole: list[tuple[int, int, str]] = []
    start = at
    for _ in range(count):
        name, local, nbytes, at = _entry(data, at, end)
        if name in found:
            raise DamagedError(f"it has the member {name!r} twice")
        begin = _data(data, name, local, start)
        if begin + nbytes > start:
            raise DamagedError(f"the member {name!r} reaches beyond its place")
        found[name] = (begin, nbytes)
        whole.append((local, begin + nbytes, name))
    last, before = 0, ""
    for local, behind, name in sorted(whole):
        if local < last:
            raise DamagedError(f"the members {before!r} and {name!r} overlap")
        last, before = behind, name
    return found


def _directory(data: Buffer) -> tuple[int, int, int]:
    """The count of members, and where the directory begins and ends."""
    size = len(data)
    tail = data[max(size - _END.size - 0xFFFF, 0) :]
    within = tail.rfind(b"PK\x05\x06")
    if within < 0 or len(tail) - within < _END.size:
        raise DamagedError("the directory at its end is missing")
    last = size - len(tail) + within
    _, _, _, _, count, nbytes, begin, comment = _END.unpack_from(tail, within)
    if last + _END.size + comment != size:
        raise DamagedError("it goes on after its end")
    end = last
    if last >= _END64_AT.size and data[last - 20 : last - 16] == b"PK\x06\x07":
        _, _, place, _ = _END64_AT.unpack(data[last - _END64_AT.size : last])
        end = last - _END64_AT.size
        if place > end - _END64.size or data[place : place + 4] != b"PK\x06\x06":
            raise DamagedError("its directory is not where it should be")
        *_, count, nbytes, begin = _END64.unpack(data[place : place + _END64.size])
        end = place
    if begin + nbytes > end:
        raise DamagedError("its directory is not where it should be")
    return count, begin, begin + nbytes


def _entry(data: Buffer, at: int, end: int) -> tuple[str, int, int, int]:
    """The name, the place and the size of a member, and where the next entry begins."""
    if at + _ENTRY.size > end:
        raise DamagedError("its directory ends inside of an entry")
    fields = _ENTRY.unpack(data[at : at + _ENTRY.size])
    signature, _, _, flags, method = fields[:5]
    packed, nbytes, names, extras, comments = fields[8:13]
    local = fields[-1]
    at += _ENTRY.size
    if signature != b"PK\x01\x02" or at + names + extras + comments > end:
        raise DamagedError("its directory has an entry that is none")
    try:
        name = data[at : at + names].decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedError("the name of a member is not UTF-8") from error
    extra = data[at + names : at + names + extras]
    if method or flags & 1:
        raise PackedError(f"its member {name!r} is {'encrypted' if flags & 1 else 'compressed'}")
    wide = [number for number in (nbytes, packed, local) if number == _FULL]
    if wide:
        numbers = iter(_wide(extra, len(wide)))
        nbytes, packed, local = (
            next(numbers) if number == _FULL else number for number in (nbytes, packed, local)
        )
    if packed != nbytes:
        raise DamagedError(f"the member {name!r} is stored and has two sizes")
    return name, local, nbytes, at + names + extras + comments


def _wide(extra: bytes, count: int) -> tuple[int, ...]:
    """The first ``count`` 64-bit numbers of an entry."""
    at = 0
    while at + 4 <= len(extra):
        kind, nbytes = struct.unpack_from("<2H", extra, at)
        at += 4
        if kind == 1 and 8 * count <= nbytes <= len(extra) - at:
            found: tuple[int, ...] = struct.unpack_from(f"<{count}Q", extra, at)
            return found
        at += nbytes
    raise DamagedError("its directory lacks the size of a member")


def _data(data: Buffer, name: str, local: int, limit: int) -> int:
    """Where the data of a member begins, by the header in front of it."""
    if local + _LOCAL.size > limit:
        raise DamagedError(f"the member {name!r} lies outside of it")
    signature, *_, names, extras = _LOCAL.unpack(data[local : local + _LOCAL.size])
    begin: int = local + _LOCAL.size + names + extras
    written = data[local + _LOCAL.size : local + _LOCAL.size + names]
    if signature != b"PK\x03\x04" or written != name.encode():
        raise DamagedError(f"the member {name!r} is not where its directory says")
    return begin


# ---------------------------------------------------------------- writing
class Writing:
    """An archive that is being written to ``file``, which is at its beginning; `close` ends it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self._entries: list[bytes] = []

    def add(self, name: str, parts: Sequence[Buffer]) -> None:
        """Write the member ``name``: the bytes of ``parts``, one behind the other.

        Args:
            name: What it is called.
            parts: What offers its memory as plain bytes.
        """
        views = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
        nbytes = sum(view.nbytes for view in views)
        checksum = 0
        for view in views:
            checksum = zlib.crc32(view, checksum)
        told, local = name.encode(), self._at
        wide = struct.pack("<2H2Q", 1, 16, nbytes, nbytes) if nbytes >= _FULL else b""
        begin = local + _LOCAL.size + len(told) + len(wide)
        gap = -begin % ALIGNMENT
        if 0 < gap < _PADDING.size:  # an extra field has a head of its own
            gap += ALIGNMENT
        extra = wide
        if gap:
            extra += _PADDING.pack(_PADDING_ID, gap - _PADDING.size) + bytes(gap - _PADDING.size)
        short = min(nbytes, _FULL)
        needs = 45 if wide else 20
        common = (_UTF8, 0, 0, _DATE, checksum, short, short, len(told))
        self._write(_LOCAL.pack(b"PK\x03\x04", needs, *common, len(extra)) + told + extra)
        for view in views:
            self._write(view)
        numbers = [nbytes, nbytes] if wide else []
        if local >= _FULL:
            numbers.append(local)
        behind = struct.pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers)
        behind = behind if numbers else b""
        needs = 45 if numbers else 20
        tail = (len(behind), 0, 0, 0, 0, min(local, _FULL))
        self._entries.append(
            _ENTRY.pack(b"PK\x01\x02", needs, needs, *common, *tail) + told + behind
        )

    def close(self) -> None:
        """Write the directory at the end; the file stays open."""
        begin, count = self._at, len(self._entries)
        for entry in self._entries:
            self._write(entry)
        nbytes = self._at - begin
        if begin >= _FULL or count >= 0xFFFF:
            place = self._at
            sizes = (44, 45, 45, 0, 0, count, count, nbytes, begin)
            self._write(_END64.pack(b"PK\x06\x06", *sizes))
            self._write(_END64_AT.pack(b"PK\x06\x07", 0, place, 1))
        short = min(count, 0xFFFF)
        self._write(_END.pack(b"PK\x05\x06", 0, 0, short, short, nbytes, min(begin, _FULL), 0))

    def _write(self, content: Buffer) -> None:
        self._file.write(content)
        self._at += len(content)


__all__ = ["ALIGNMENT", "DamagedError", "PackedError", "Writing", "members"]
