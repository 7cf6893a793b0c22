"""One kernel, run in the process of a `Child` on memory that both processes have.

``engine.guard`` lays the memory out and calls `run` there. The first room holds what both write
down of the run: see `Notes`.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple, TypedDict

from maxlab.errors import ToolchainError
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.flags import Accuracy, Flags
from maxlab.toolchain.library import runtime
from maxlab.toolchain.units import KernelSource, compile_units

ZONES = (1 << 24, 1 << 20, 1 << 16)
"""Bytes of addresses around each room that nobody may touch; the first that the system gives."""
WORDS = 6
"""Words of the notes in front of the addresses of the rooms."""


class Job(TypedDict):
    """A kernel to run.

    Attributes:
        process: The process that ``file`` and ``kernel`` are of.
        file: The number of the file of the shared memory.
        rooms: Each room in it: where it begins, its bytes, 1 if the kernel may write there.
        kernel: The address that `load` gave.
        pointers: What each pointer of the kernel is: the number of a room, and a byte of it.
        scratch: The same of its scratch memory.
        log: The same of what it writes messages to; None if it writes none.
        dims: Its sizes.
        extent: The items of its parallel axis, ``grain`` those of a chunk.
        threads: The threads of the team that would run it.
    """

    process: int | None
    file: int
    rooms: list[tuple[int, int, int]]
    kernel: int
    pointers: list[tuple[int, int]]
    scratch: tuple[int, int]
    log: tuple[int, int] | None
    dims: list[int]
    extent: int
    grain: int
    threads: int


class Notes(NamedTuple):
    """The content of the first room: ``mx_death`` of ``mx_abi.h``, the zone, and where each room
    was.

    Attributes:
        signal: The signal that ended the kernel; 0 if none did.
        known: Whether it is about the memory at ``address``.
        address: An address in that process.
        access: 1 for a read, 2 for a write, 0 where that is not known.
        stack: Whether it was the stack that had no room.
        zone: Bytes around each room that nobody may touch.
        rooms: The address of each room.
    """

    signal: int
    known: int
    address: int
    access: int
    stack: int
    zone: int
    rooms: tuple[int, ...]

    @classmethod
    def read(cls, words: list[int], rooms: int) -> Notes:
        """The notes of a job with so many rooms."""
        signal, known, address, access, stack, zone = words[:WORDS]
        at = tuple(words[WORDS : WORDS + rooms])
        return cls(signal, known, address, access, stack, zone, at)


def load(symbol: str, text: str, accuracy: Accuracy) -> int:
    """The address in this process of the kernel ``symbol``, which is in the cache already.

    Raises:
        ToolchainError: As `compile_units`.
    """
    flags = Flags(accuracy=accuracy)
    (kernel,) = compile_units([KernelSource(symbol, text)], flags=flags)
    return kernel.address


def run(job: Job) -> dict[str, Any]:
    """Run a kernel: its code, and the numbers that say more about it.

    Raises:
        ToolchainError: ML778, the system has no addresses for its memory, or another process was
            meant.
    """
    if job["process"] != os.getpid():
        raise ToolchainError(
            "ML778",
            "the process beside this one was ended by somebody, and is another one now",
            fix="run the model again",
        )
    lib = runtime().lib
    count = len(job["rooms"])
    flat = ffi.new("i64[]", [number for room in job["rooms"] for number in room])
    at = ffi.new("i64[]", count + 1)
    zone = total = 0
    for zone in ZONES:
        total = lib.mx_guard_place(job["file"], flat, count, zone, at)
        if total > 0:
            break
    else:
        raise ToolchainError(
            "ML778",
            f"the process beside this one has no addresses for {sum(r[1] for r in job['rooms'])} "
            f"bytes: error {-total} of the system",
            fix="raise the limit of the address space (ulimit -v), or use smaller sizes",
        )
    try:
        notes = ffi.cast("i64 *", at[0])
        notes[0:WORDS] = [0] * (WORDS - 1) + [zone]
        notes[WORDS : WORDS + count] = list(at[0:count])

        def place(of: tuple[int, int]) -> int:
            return int(at[of[0]]) + of[1]

        pointers = ffi.new("uintptr_t[]", [place(of) for of in job["pointers"]] or [0])
        # The word in front of the sizes is where a kernel with messages writes them.
        dims = ffi.new("i64[]", [place(job["log"]) if job["log"] else 0, *job["dims"]])
        err = ffi.new("i64[4]")
        code = lib.mx_guarded(
            ffi.cast("mx_fn", job["kernel"]),
            ffi.cast("void **", pointers),
            dims + 1,
            job["extent"],
            job["grain"],
            job["threads"],
            ffi.cast("void *", place(job["scratch"])),
            err,
            ffi.cast("mx_death *", notes),
        )
        return {"code": code, "err": list(err)}
    finally:
        lib.mx_guard_leave(at[count], total)


__all__ = ["Job", "Notes", "load", "run"]
