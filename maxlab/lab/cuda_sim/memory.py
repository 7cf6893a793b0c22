"""The cost of the memory instructions of a block: 32-byte sectors, and conflicts of banks.

Global memory is moved in sectors of 32 bytes: a warp instruction that touches ``n`` of them costs
``n``, whatever part of them is used. Shared memory has 32 banks of 4 bytes; lanes that need
different words of one bank are served one after another. Accesses of 8 bytes are served to half a
warp at a time, those of 16 bytes to a quarter (CUDA C++ Programming Guide, "Compute Capability
5.x", and Best Practices Guide, "Coalesced Access to Global Memory").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxlab.driver.sim import Recording
from maxlab.lab.cuda_sim.lockstep import Request

SECTOR = 32
BANKS = 32
_WORD = 4


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A place in the text where the recorded block accesses a buffer, and what that costs.

    Attributes:
        line: the place.
        buffer: the parameter, or the shared array.
        space: ``"global"`` or ``"shared"``.
        kind: ``"read"``, ``"write"``, ``"atomic"`` or ``"asynchronous copy"``.
        size: bytes for each lane.
        requests: warp instructions.
        cost: of all of them: sectors of global memory, passes over shared memory.
        ideal: what the same number of different bytes costs at best, in the same unit.
        ways: for shared memory the most words of one bank that a request needs at once: 1 is free
            of conflicts; 0 for global memory.
        worst: the request with the highest cost, the first of these.
    """

    line: int | None
    buffer: str
    space: str
    kind: str
    size: int
    requests: int
    cost: int
    ideal: int
    ways: int
    worst: Request

    @property
    def per_request(self) -> float:
        """Sectors, or passes, for each request."""
        return self.cost / self.requests

    @property
    def sectors_per_request(self) -> float | None:
        """32-byte sectors for each request; None for shared memory."""
        return self.per_request if self.space == "global" else None

    @property
    def efficiency(self) -> float:
        """The best cost divided by the cost, at most 1."""
        return self.ideal / self.cost

    def __str__(self) -> str:
        what = f"line {self.line or '?'}: {self.kind} {self.buffer}, {self.size} B a lane"
        count = f"{self.requests} request" + ("s" if self.requests != 1 else "")
        if self.space == "shared":
            ways = f"{self.ways}-way bank conflict" if self.ways > 1 else "no bank conflict"
            return f"{what}: {count}, {ways}"
        sector = "sector" if self.cost == self.requests else "sectors"
        best = self.ideal / self.requests
        return f"{what}: {count}, {self.per_request:.4g} {sector} a request (at best {best:.4g})"


def sectors(request: Request, origin: int) -> dict[int, set[int]]:
    """The sectors that a request touches, and of each the 4-byte words.

    Args:
        request: of global memory.
        origin: bytes from the beginning of the allocation to the buffer; allocations begin at
            multiples of 256.
    """
    touched: dict[int, set[int]] = {}
    for _, offset in request.offsets:
        begin = origin + offset
        for word in range(begin // _WORD, (begin + request.size - 1) // _WORD + 1):
            touched.setdefault(word * _WORD // SECTOR, set()).add(word * _WORD % SECTOR // _WORD)
    return touched


def phases(request: Request) -> list[list[set[int]]]:
    """For each group of lanes that is served at a time, the words that each bank must give."""
    lanes_at_once = {8: 16, 16: 8}.get(request.size, 32)
    found: dict[int, list[set[int]]] = {}
    for lane, offset in request.offsets:
        banks = found.setdefault(lane // lanes_at_once, [set() for _ in range(BANKS)])
        for word in range(offset // _WORD, (offset + request.size - 1) // _WORD + 1):
            banks[word % BANKS].add(word)
    return [found[group] for group in sorted(found)]


def cost_of(request: Request, origin: int, shared: bool) -> tuple[int, int, int]:
    """(cost, best cost, ways) of one request; see `MemoryAccess`."""
    if not shared:
        distinct = len({offset for _, offset in request.offsets}) * request.size
        return len(sectors(request, origin)), -(-distinct // SECTOR), 0
    served = [max(len(words) for words in banks) for banks in phases(request)]
    return sum(served), len(served), max(served)


def summarise(recording: Recording, requests: Sequence[Request]) -> tuple[MemoryAccess, ...]:
    """The cost of each place in the text, in the order of lines."""
    groups: dict[tuple[int, str, str, str, int], list[Request]] = {}
    for request in requests:
        region = recording.regions[request.region]
        place = recording.place(request.region, request.offsets[0][1])
        space = "shared" if region.shared else "global"
        key = (request.line or 0, space, place.buffer, request.kind, request.size)
        groups.setdefault(key, []).append(request)
    made = []
    for (line, space, buffer, kind, size), group in sorted(groups.items(), key=lambda g: g[0]):
        shared = space == "shared"
        costs = [cost_of(r, recording.regions[r.region].origin, shared) for r in group]
        worst = max(range(len(group)), key=lambda n: (costs[n][0] / costs[n][1], -n))
        made.append(
            MemoryAccess(
                line or None,
                buffer,
                space,
                kind,
                size,
                len(group),
                sum(cost for cost, _, _ in costs),
                sum(best for _, best, _ in costs),
                max(ways for _, _, ways in costs),
                group[worst],
            )
        )
    return tuple(made)
