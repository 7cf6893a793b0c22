"""Host memory for tensors: 64-byte aligned blocks, recycled by size, counted while they live.

A compiled model asks for outputs of the same sizes again and again. Recycling them keeps
an allocation below a microsecond and, for large ones, saves the page faults of fresh
memory, which cost more than many kernels. At most `POOL_BYTES` are kept for reuse.

Of small blocks the objects are recycled too: to make one and to end it takes longer than a kernel
on so little memory. A few of each size stay in a ring, and the next one that nobody else refers to
is given again::

    ring of 64 bytes:  [block a] [block b]          a: a tensor has it;  b: only the ring has it
    block_of(64)       [block a] [block b*]         b* is given: its count of references says so

A block that is still in use when its turn comes leaves a full ring, and is then like any other.
"""

from __future__ import annotations

import mmap
from collections import deque
from dataclasses import dataclass
from sys import getrefcount
from typing import Any

from maxlab.errors import DeviceError
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.loader import libc

ALIGNMENT = 64  # a cache line, and an AVX-512 register
POOL_BYTES = 64 << 20
_SMALL = 4096
"""Bytes up to which blocks are kept in rings."""
_RING = 4
"""Blocks of one size that a ring keeps: as many results of a model as may be in use at once."""
_RINGS = 64
"""Sizes that have a ring; then all are given up, and begin anew."""
_PAGE = 4096
_HUGE_PAGE = 2 << 20
_LARGE = 2 * _HUGE_PAGE
"""Bytes from which a block asks for huge pages: a processor that finds its way in small ones waits
for each of them, and its prefetchers stop at their ends."""
_HUGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)
_UINTPTR = ffi.typeof("uintptr_t")


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Host memory held by tensors, in bytes.

    Attributes:
        live: in blocks that tensors use.
        blocks: how many of those there are.
        pooled: in blocks kept for reuse.
    """

    live: int
    blocks: int
    pooled: int


def system_free(address: int, c: Any = libc(), cast: Any = ffi.cast) -> None:  # noqa: B008
    """Free one block, also while the interpreter is on its way out."""
    c.free(cast("void *", address))


def _unlock(address: int, nbytes: int, c: Any = libc(), cast: Any = ffi.cast) -> None:  # noqa: B008
    c.munlock(cast("void *", address), nbytes)


class _Pool:
    """Free blocks by their exact size."""

    give_back = staticmethod(system_free)

    def __init__(self) -> None:
        self.free: dict[int, list[int]] = {}
        self.bytes = 0
        self.rings: dict[int, deque[Block]] = {}
        # address -> bytes of all that the system has given, free or not: a block that goes to and
        # fro is written down once.
        self.taken: dict[int, int] = {}
        self.names: dict[int, str] = {}

    def live(self) -> dict[int, int]:
        """The bytes of each block that tensors use, by its address."""
        free = {address for same in list(self.free.values()) for address in list(same)}
        free.update(self.unused())
        return {a: n for a, n in list(self.taken.items()) if a not in free}

    def unused(self) -> dict[int, int]:
        """The bytes of each block that a ring has and nobody else, by its address."""
        found: dict[int, int] = {}
        for ring in list(self.rings.values()):
            for _ in range(len(ring)):
                try:
                    block = ring.popleft()
                except IndexError:  # another thread has it
                    break
                if getrefcount(block) == _ALONE:
                    found[block.address] = block.nbytes
                ring.append(block)
        return found

    def keep(self, block: Block) -> None:
        """Put ``block``, which is small and new, into the ring of its size."""
        ring = self.rings.get(block.nbytes)
        if ring is None:
            if len(self.rings) >= _RINGS:
                self.rings.clear()
            ring = self.rings.setdefault(block.nbytes, deque())
        ring.append(block)

    def trim(self) -> None:
        """Give all free blocks back to the system."""
        self.rings.clear()  # their blocks become free
        while self.free:
            _, addresses = self.free.popitem()
            while addresses:
                address = addresses.pop()
                self.taken.pop(address, None)
                self.give_back(address)
        self.bytes = 0


_pool = _Pool()


class Block:
    """One aligned allocation; goes back to the pool when nothing refers to it any more."""

    __slots__ = ("address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        try:
            self.address = _pool.free[nbytes].pop()
            _pool.bytes -= nbytes
        except (KeyError, IndexError):
            self.address = 0  # for __del__, should the next line raise
            self.address = address = system_allocate(nbytes, ALIGNMENT)
            _pool.taken[address] = nbytes

    # What it uses are default arguments, which outlive this module at interpreter exit.
    def __del__(
        self, pool: _Pool = _pool, limit: int = POOL_BYTES, give_back: Any = system_free
    ) -> None:
        address = self.address
        if not address:
            return
        nbytes = self.nbytes
        if pool.names:
            pool.names.pop(address, None)
        if pool.bytes + nbytes > limit:
            # Other sizes fill the pool, so the program has moved on to new ones.
            pool.trim()
            if nbytes > limit:
                pool.taken.pop(address, None)
                give_back(address)
                return
        same_size = pool.free.get(nbytes)
        if same_size is None:
            pool.free[nbytes] = [address]
        else:
            same_size.append(address)
        pool.bytes += nbytes


def _alone() -> int:
    """The count of `getrefcount` for an object that one variable of a function refers to."""
    one = object()
    return getrefcount(one)


_ALONE = _alone()


def block_of(nbytes: int) -> Block:
    """A block of ``nbytes``: what `Block` makes, in less time for small ones.

    Raises:
        DeviceError: ML403, the system has not enough.
    """
    ring = _pool.rings.get(nbytes)
    if ring is None:
        made = Block(nbytes)
        if nbytes <= _SMALL:
            _pool.keep(made)
        return made
    try:
        block = ring.popleft()
    except IndexError:  # other threads have taken all out, as this one does now
        return Block(nbytes)
    if getrefcount(block) == _ALONE:
        if _pool.names:
            _pool.names.pop(block.address, None)
        ring.append(block)
        return block
    if len(ring) < _RING - 1:
        ring.append(block)
    made = Block(nbytes)
    ring.append(made)
    return made


class PinnedBlock:
    """Page-locked memory, on pages of its own; never pooled."""

    __slots__ = ("__weakref__", "address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.address = 0
        self.nbytes = -(-max(nbytes, 1) // _PAGE) * _PAGE
        address = system_allocate(self.nbytes, _PAGE)
        if libc().mlock(ffi.cast("void *", address), self.nbytes) != 0:
            libc().free(ffi.cast("void *", address))
            raise DeviceError(
                "ML403",
                f"the system refuses to lock {self.nbytes} bytes of memory",
                fix="raise the limit of locked memory (ulimit -l), or use pinned=False",
            )
        self.address = address
        _pool.taken[address] = self.nbytes

    def __del__(
        self, pool: _Pool = _pool, unlock: Any = _unlock, give_back: Any = system_free
    ) -> None:
        if self.address:
            pool.taken.pop(self.address, None)
            pool.names.pop(self.address, None)
            unlock(self.address, self.nbytes)
            give_back(self.address)


def system_allocate(nbytes: int, alignment: int) -> int:
    """The address of fresh host memory, which no pool knows of.

    Raises:
        DeviceError: ML403, the system has not enough.
    """
    is_large = nbytes >= _LARGE and _HUGE_PAGES is not None
    alignment = _HUGE_PAGE if is_large else alignment
    size = -(-max(nbytes, 1) // alignment) * alignment
    memory: Any = ffi.NULL
    if size < 1 << 63:
        memory = libc().aligned_alloc(alignment, size)
        if memory == ffi.NULL:
            _pool.trim()
            memory = libc().aligned_alloc(alignment, size)
    if memory == ffi.NULL:
        raise DeviceError(
            "ML403",
            f"cannot allocate {nbytes} bytes of host memory",
            fix="free tensors that are no longer needed, or use a smaller batch",
        )
    if is_large:
        libc().madvise(memory, size, _HUGE_PAGES)  # a wish: without them it is only slower
    return int(ffi.cast(_UINTPTR, memory))


def memory_stats() -> MemoryStats:
    """How much host memory tensors hold now."""
    live = _pool.live()
    pooled = _pool.bytes + sum(_pool.unused().values())
    return MemoryStats(sum(live.values()), len(live), pooled)


def name_block(address: int, name: str) -> None:
    """Call the live block at ``address`` by ``name`` in `live_blocks`."""
    if isinstance(address, int) and address in _pool.live():
        _pool.names[address] = name


def live_blocks() -> list[tuple[int, int, str]]:
    """(address, bytes, name or "") of every block that tensors use, largest first."""
    rows = [(a, n, _pool.names.get(a, "")) for a, n in _pool.live().items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def trim() -> None:
    """Give the memory kept for reuse back to the system."""
    _pool.trim()
