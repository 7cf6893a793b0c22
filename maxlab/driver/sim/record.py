"""The steps of every thread of one block, as a checked launch writes them down: `Recording`.

The rows are those of ``Event`` and ``End`` in ``kernels/cuda/sim/runtime.h``. They are raw: in the
order in which the simulator ran the threads, which is not the order of a device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxlab.driver.sim.reports import Index3, Place
from maxlab.toolchain.cffi_abi import ffi

EVENT = np.dtype(
    [
        ("thread", "<u4"),
        ("kind", "<u4"),
        ("pc", "<u4"),
        ("epoch", "<u4"),
        ("size", "<u4"),
        ("region", "<i4"),
        ("offset", "<i8"),
    ]
)
"""One event: ``thread`` in the block, ``kind`` (an index into `KINDS`), ``pc`` in the module,
``epoch`` (barriers of the block before it), and for accesses ``size`` in bytes, ``region`` and
``offset`` in it in bytes."""

KINDS = ("read", "write", "atomic", "asynchronous copy", "begins")
BEGINS = 4
MOST_EVENTS = 1 << 18
"""Events that are kept of a block, 8 MiB; each thread has the same part of them."""

_STATES = {-1: "not started", 0: "stopped", 1: "barrier", 2: "warp", 3: "warp", 4: "ended"}
_END = np.dtype([("state", "<i8"), ("pc", "<i8"), ("mask", "<i8"), ("cut", "<i8")])


class End(NamedTuple):
    """How a thread of the recorded block ended.

    Attributes:
        state: ``"ended"``; ``"barrier"`` or ``"warp"``, waiting in ``__syncthreads()`` or for other
            lanes of its warp; ``"stopped"``, the launch was stopped while it ran or could run;
            ``"not started"``.
        line: where it waits, or None.
        mask: the lanes it waits for, for ``"warp"``.
        cut: True if it did more than was kept.
    """

    state: str
    line: int | None
    mask: int
    cut: bool


class Region(NamedTuple):
    """A buffer of the launch.

    Attributes:
        name: the parameters that it was passed for, or the shared array.
        shared: whether it is in shared memory.
        nbytes: its size.
        origin: bytes from the beginning of the allocation that it is a part of: 4 for ``x[1:]``.
    """

    name: str
    shared: bool
    nbytes: int
    origin: int


@dataclass(frozen=True)
class Recording:
    """The steps of the threads of one block.

    Attributes:
        block: which block.
        events: rows of `EVENT`, in the order of running.
        ends: how each thread ended, by its number in the block.
        regions: the buffers, by the events' ``region``.
        lines: the line of the text for each ``pc``, None where that is not known.
        place: what ``(region, offset)`` is called in the text.
    """

    block: Index3
    events: np.ndarray[Any, Any]
    ends: tuple[End, ...]
    regions: tuple[Region, ...]
    lines: Mapping[int, int | None]
    place: Callable[[int, int], Place]

    @property
    def truncated(self) -> bool:
        """Whether there were more events than were kept."""
        return any(end.cut for end in self.ends)


def rows(pointer: Any, count: int) -> np.ndarray[Any, Any]:
    """A copy of ``count`` rows of `EVENT` at ``pointer``."""
    return _copied(pointer, count, EVENT)


def ends(pointer: Any, count: int, lines: Callable[[Sequence[int]], list[int | None]]) -> list[End]:
    """How ``count`` threads ended; ``lines`` gives the lines of program counters."""
    found = _copied(pointer, count, _END)
    counters = sorted({int(pc) for pc in found["pc"] if pc > 0})
    by_pc = dict(zip(counters, lines(counters), strict=True))
    return [
        End(_STATES[state], by_pc.get(pc), mask, bool(cut))
        for state, pc, mask, cut in found.tolist()
    ]


def _copied(pointer: Any, count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if not count:
        return np.empty(0, dtype)
    return np.frombuffer(ffi.buffer(pointer, count * dtype.itemsize)[:], dtype)
