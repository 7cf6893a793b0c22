"""Reports of a launch on its mistakes: `Report`, and how the runtime's numbers become one.

The numbers of the kinds are those of ``kernels/cuda/sim/runtime.h``.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

Index3 = tuple[int, int, int]


class Kind(IntEnum):
    """The runtime's numbers for what it reports."""

    SHARED_RACE = 0
    GLOBAL_RACE = 1
    OUT_OF_BOUNDS = 2
    UNINITIALISED = 3
    MIXED_BARRIER = 4
    STUCK = 5
    MISALIGNED = 6
    BAD_INDEX = 7
    BAD_LANE = 8
    BAD_MASK = 9
    FAULT = 10
    TRAP = 11

    @property
    def has_place(self) -> bool:
        """Whether a report of this kind is about an element of a buffer."""
        return self <= Kind.UNINITIALISED


_NAMES = {
    Kind.SHARED_RACE: "shared-race",
    Kind.GLOBAL_RACE: "global-race",
    Kind.OUT_OF_BOUNDS: "out-of-bounds",
    Kind.UNINITIALISED: "uninitialised-read",
    Kind.MIXED_BARRIER: "divergent-barrier",
    Kind.STUCK: "divergent-barrier",
    Kind.MISALIGNED: "misaligned",
    Kind.BAD_INDEX: "out-of-bounds",
    Kind.BAD_LANE: "inactive-lane",
    Kind.BAD_MASK: "warp-mask",
    Kind.FAULT: "fault",
    Kind.TRAP: "trap",
}
_ACCESS = ("read", "write", "atomic", "asynchronous copy")
_DID = {"read": "read", "write": "wrote", "atomic": "updated", "asynchronous copy": "copies into"}
_DOES = {
    "read": "reads",
    "write": "writes",
    "atomic": "updates",
    "asynchronous copy": "starts a copy into",
}
FIXES = {
    "shared-race": "put __syncthreads() between the two lines, or __syncwarp() if both threads "
    "are of one warp",
    "global-race": "let one thread write each element, use an atomic operation, or split the "
    "kernel: threads of different blocks cannot wait for each other",
    "out-of-bounds": "compare the index with the size before the access",
    "uninitialised-read": "write the shared element before a barrier, and read it after",
    "divergent-barrier": "let all threads of the block reach the same barrier: put it outside of "
    "the branch",
    "misaligned": "read vectors only where the address is a multiple of their size",
    "inactive-lane": "shuffle from lanes that run and are named in the mask",
    "warp-mask": "give all lanes that are to take part the same mask, and only these",
    "fault": "launch it with SimModule(source, check=True), which names the access",
    "trap": "the kernel itself found this; see the line",
}


class Watch(NamedTuple):
    """A value that a thread showed with ``MX_WATCH(expression)``."""

    block: Index3
    thread: Index3
    line: int
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Report:
    """Something wrong with a kernel, seen while it ran.

    Attributes:
        kind: ``"shared-race"``, ``"global-race"``, ``"out-of-bounds"``, ``"uninitialised-read"``,
            ``"divergent-barrier"``, ``"misaligned"``, ``"inactive-lane"``, ``"warp-mask"``,
            ``"fault"`` or ``"trap"``.
        kernel: the kernel's name.
        message: what happened, in a sentence.
        line: where in the text, from 1; None where that is not known.
        other_line: the second place: the earlier access of a race, the other barrier.
        block: the block of the thread that did it.
        thread: the thread, in its block.
        other_block: the block of the thread that made the earlier access, or None.
        other_thread: that thread, or None.
        buffer: the parameter or the shared array; ``""`` where there is none.
        index: the element of the buffer, counted flat in elements of its type; None if unknown.
        address: the address of the access in this process, or 0.
        access: ``"read"``, ``"write"``, ``"atomic"`` or ``"asynchronous copy"``; else ``""``.
        other_access: the same for the earlier access.
        count: how many times the same two lines did it.
        code: the line's text.
        other_code: the other line's text.
    """

    kind: str
    kernel: str
    message: str
    line: int | None
    other_line: int | None
    block: Index3
    thread: Index3
    other_block: Index3 | None = None
    other_thread: Index3 | None = None
    buffer: str = ""
    index: int | None = None
    address: int = 0
    access: str = ""
    other_access: str = ""
    count: int = 1
    code: str = ""
    other_code: str = ""

    @property
    def fix(self) -> str:
        """The change that mends the mistake."""
        return FIXES[self.kind]

    def __str__(self) -> str:
        lines = [f"{self.kind} in {self.kernel}: {self.message}"]
        places = [(self.line, self.code)]
        if self.other_line is not None and self.other_line != self.line:
            places.append((self.other_line, self.other_code))
        lines += [f"{line:5} | {code}" for line, code in places if line is not None]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Raw:
    """The numbers of ``cs::Report``, in its order."""

    kind: Kind
    pc: int
    other_pc: int
    block: int
    thread: int
    other_block: int
    other_thread: int
    access: int
    other_access: int
    address: int
    region: int
    offset: int
    size: int
    detail: int
    text: int
    count: int


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer and the element of it that an access meant."""

    buffer: str
    index: int | None
    length: int | None  # in elements

    def __str__(self) -> str:
        return self.buffer if self.index is None else f"{self.buffer}[{self.index}]"


class Decoder:
    """Makes the reports of one launch.

    Args:
        kernel: its name.
        source: the text.
        grid: the launch's blocks.
        block: the threads of each.
        lines: the line of each program counter that the reports have.
    """

    def __init__(
        self, kernel: str, source: str, grid: Index3, block: Index3, lines: dict[int, int | None]
    ) -> None:
        self._kernel = kernel
        self._source = source.splitlines()
        self._grid = grid
        self._block = block
        self._lines = lines

    def decode(self, raw: Raw, place: Place, text: str) -> Report | None:
        """The report of ``raw``; None if it turns out to be nothing.

        Args:
            raw: the runtime's numbers.
            place: the buffer it is about, with an empty name if there is none.
            text: the text that ``raw.text`` points at.
        """
        kind = _NAMES[raw.kind]
        line, other_line = self._lines.get(raw.pc), self._lines.get(raw.other_pc)
        if raw.kind is Kind.MIXED_BARRIER and line == other_line:
            return None  # the compiler made two of one barrier
        races = kind.endswith("race")
        thread = unflatten(raw.thread, self._block)
        has_other = races or (kind == "warp-mask" and raw.other_pc >= 0)
        accessed = races or kind in ("out-of-bounds", "uninitialised-read")
        return Report(
            kind,
            self._kernel,
            self._message(raw, kind, place, text, thread),
            line,
            other_line,
            unflatten(raw.block, self._grid),
            thread,
            unflatten(raw.other_block, self._grid) if has_other else None,
            unflatten(raw.other_thread, self._block) if has_other else None,
            place.buffer,
            place.index,
            raw.address,
            _ACCESS[raw.access] if accessed and raw.kind is not Kind.BAD_INDEX else "",
            _ACCESS[raw.other_access] if races else "",
            raw.count,
            self.code(line),
            self.code(other_line),
        )

    def stuck(self, rows: Sequence[Raw]) -> Report:
        """The report of a block whose threads wait for ever, a row for each place they wait at."""
        rows = [row for row in rows if row.block == rows[0].block]
        groups = []
        for row in rows:
            line = self._lines.get(row.pc)
            count = "1 thread" if row.size == 1 else f"{row.size} threads"
            what = (
                "in __syncthreads()" if row.detail < 0 else f"for the lanes of mask {row.detail:#x}"
            )
            first = unflatten(row.thread, self._block)
            groups.append(f"{count}, the first {first}, at line {line or '?'} {what}")
        line = self._lines.get(rows[0].pc)
        other = self._lines.get(rows[1].pc) if len(rows) > 1 else None
        return Report(
            "divergent-barrier",
            self._kernel,
            f"block {unflatten(rows[0].block, self._grid)} waits for ever: " + "; ".join(groups),
            line,
            other,
            unflatten(rows[0].block, self._grid),
            unflatten(rows[0].thread, self._block),
            unflatten(rows[1].block, self._grid) if len(rows) > 1 else None,
            unflatten(rows[1].thread, self._block) if len(rows) > 1 else None,
            code=self.code(line),
            other_code=self.code(other),
        )

    def code(self, line: int | None) -> str:
        """The text of a line."""
        if line is None or not 0 < line <= len(self._source):
            return ""
        return self._source[line - 1].rstrip()

    def _message(self, raw: Raw, kind: str, place: Place, text: str, thread: Index3) -> str:
        who = f"thread {thread} of block {unflatten(raw.block, self._grid)}"
        if kind.endswith("race"):
            return self._race(raw, place, who)
        if raw.kind is Kind.BAD_INDEX:
            return f"{who} uses index {raw.detail} of {place.buffer or 'an array'}, a {text}"
        if kind == "out-of-bounds":
            does = _DOES[_ACCESS[raw.access]]
            if not place.buffer:
                where = "a null pointer" if raw.address < 4096 else "in no buffer"
                return f"{who} {does} {raw.size} bytes at address {raw.address:#x}, {where}"
            size = "" if place.length is None else f", which has {place.length} elements"
            return f"{who} {does} {place}{size}"
        if kind == "uninitialised-read":
            return f"{who} reads {place}, which no thread of the block has written"
        if kind == "divergent-barrier":
            return f"{who} waits at another barrier than the other threads of its block"
        if kind == "misaligned":
            what = f"{raw.address:#x}, for a {text}" if text else f"{raw.address:#x}"
            return f"{who} uses address {what}, which is not a multiple of {raw.size}"
        if kind == "inactive-lane":
            return f"{who} reads the value of lane {raw.detail}, which does not take part"
        if kind == "warp-mask":
            if raw.other_pc >= 0:
                return f"{who} is in another warp operation than the lane it meets"
            return f"{who} takes part in an operation of the lanes {raw.detail:#x}"
        if kind == "trap":
            return f"{who}: {text}"
        if raw.detail == signal.SIGFPE:
            return f"{who} divides an integer by zero"
        if raw.offset:
            return f"{who} needs more stack than the simulator has: smaller local arrays, please"
        return f"{who} uses address {raw.address:#x} ({signal.Signals(raw.detail).name})"

    def _race(self, raw: Raw, place: Place, who: str) -> str:
        other = f"thread {unflatten(raw.other_thread, self._block)}"
        if raw.other_block != raw.block:
            other += f" of block {unflatten(raw.other_block, self._grid)}"
        does, did = _DOES[_ACCESS[raw.access]], _DID[_ACCESS[raw.other_access]]
        if raw.other_access == 3:
            return f"{who} {does} {place}, which {other} {did} without having waited for it"
        return f"{who} {does} {place}, which {other} {did} with nothing to order the two"


def unflatten(number: int, sizes: Index3) -> Index3:
    """The (x, y, z) of the block or thread ``number``; x is fastest."""
    x, y, _ = sizes
    return (number % x, number // x % y, number // (x * y))
