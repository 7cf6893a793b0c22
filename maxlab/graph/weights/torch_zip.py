"""The members of the ZIP archives that ``torch.save`` writes: stored, so that they can be mapped.

The directory at the end of the file is read, and each claim of it checked; no member is unpacked,
so no archive can be larger than it looks.
"""

from __future__ import annotations

import struct

from maxlab.graph.weights.mapped import MappedFile, overlap

_END = struct.Struct("<4s4H2LH")
_END64_AT = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_FULL = 0xFFFFFFFF
"""The sign of a number that does not fit into 32 bits, and follows in 64."""


def members(file: MappedFile) -> dict[str, tuple[int, int]]:
    """``(begin, nbytes)`` of each member of an archive, by name.

    Raises:
        WeightError: ML633, the archive is cut off or contradicts itself; ML637, members are
            compressed or encrypted.
    """
    count, at, end = _directory(file)
    found: dict[str, tuple[int, int]] = {}
    whole: dict[str, tuple[int, int]] = {}
    if count * _ENTRY.size > end - at:
        raise file.bad(f"its directory claims {count} members, and has {end - at} bytes")
    start = at
    for _ in range(count):
        name, local, nbytes, at = _entry(file, at, end)
        if name in found:
            raise file.bad(f"it has the member {name!r} twice")
        begin = _data(file, name, local, start)
        if begin + nbytes > start:
            raise file.bad(f"the member {name!r} reaches beyond its place")
        found[name] = (begin, nbytes)
        whole[name] = (local, begin + nbytes)
    shared = overlap(whole)
    if shared:
        raise file.bad(f"the members {shared[0]!r} and {shared[1]!r} overlap")
    return found


def _directory(file: MappedFile) -> tuple[int, int, int]:
    """The count of members, and where the directory begins and ends."""
    tail = file.map[max(file.size - _END.size - 0xFFFF, 0) :]
    within = tail.rfind(b"PK\x05\x06")
    if within < 0 or len(tail) - within < _END.size:
        raise file.bad("the directory at its end is missing")
    last = file.size - len(tail) + within
    _, _, _, _, count, nbytes, begin, comment = _END.unpack_from(tail, within)
    if last + _END.size + comment != file.size:
        raise file.bad("it goes on after its end")
    end = last
    if last >= _END64_AT.size and file.map[last - 20 : last - 16] == b"PK\x06\x07":
        _, _, place, _ = _END64_AT.unpack_from(file.map, last - _END64_AT.size)
        end = last - _END64_AT.size
        if place > end - _END64.size or file.map[place : place + 4] != b"PK\x06\x06":
            raise file.bad("its directory is not where it should be")
        *_, count, nbytes, begin = _END64.unpack_from(file.map, place)
        end = place
    if begin + nbytes > end:
        raise file.bad("its directory is not where it should be")
    return count, begin, begin + nbytes


def _entry(file: MappedFile, at: int, end: int) -> tuple[str, int, int, int]:
    """The name, the place and the size of a member, and where the next entry begins."""
    if at + _ENTRY.size > end:
        raise file.bad("its directory ends inside of an entry")
    fields = _ENTRY.unpack_from(file.map, at)
    signature, _, _, flags, method = fields[:5]
    packed, nbytes, names, extras, comments = fields[8:13]
    local = fields[-1]
    at += _ENTRY.size
    if signature != b"PK\x01\x02" or at + names + extras + comments > end:
        raise file.bad("its directory has an entry that is none")
    try:
        name = file.map[at : at + names].decode("utf-8")
    except UnicodeDecodeError as error:
        raise file.bad("the name of a member is not UTF-8") from error
    extra = file.map[at + names : at + names + extras]
    if method or flags & 1:
        raise file.unreadable(
            f"its member {name!r} is {'encrypted' if flags & 1 else 'compressed'}",
            "save it again with torch.save, which stores members as they are",
        )
    wide = [number for number in (nbytes, packed, local) if number == _FULL]
    if wide:
        numbers = iter(_wide(file, extra, len(wide)))
        nbytes, packed, local = (
            next(numbers) if number == _FULL else number for number in (nbytes, packed, local)
        )
    if packed != nbytes:
        raise file.bad(f"the member {name!r} is stored and has two sizes")
    return name, local, nbytes, at + names + extras + comments


def _wide(file: MappedFile, extra: bytes, count: int) -> tuple[int, ...]:
    """The first ``count`` 64-bit numbers of an entry."""
    at = 0
    while at + 4 <= len(extra):
        kind, nbytes = struct.unpack_from("<2H", extra, at)
        at += 4
        if kind == 1 and 8 * count <= nbytes <= len(extra) - at:
            found: tuple[int, ...] = struct.unpack_from(f"<{count}Q", extra, at)
            return found
        at += nbytes
    raise file.bad("its directory lacks the size of a member")


def _data(file: MappedFile, name: str, local: int, limit: int) -> int:
    """Where the data of a member begins, by the header in front of it."""
    if local + _LOCAL.size > limit:
        raise file.bad(f"the member {name!r} lies outside of it")
    signature, *_, names, extras = _LOCAL.unpack_from(file.map, local)
    begin: int = local + _LOCAL.size + names + extras
    written = file.map[local + _LOCAL.size : local + _LOCAL.size + names]
    if signature != b"PK\x03\x04" or written != name.encode():
        raise file.bad(f"the member {name!r} is not where its directory says")
    return begin
