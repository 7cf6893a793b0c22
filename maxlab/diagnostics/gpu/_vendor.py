"""Functions that a vendor's library must offer to be read by the diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from maxlab.diagnostics.gpu.stats import GPUStats, MemoryStats, UtilizationStats


class VendorError(Exception):
    """A vendor's GPUs cannot be read at all; the text says why."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU of a vendor, read once.

    ``stats`` is None when the GPU could not be read; ``problem`` then says why. With both,
    ``problem`` names counters that the GPU does not have.
    """

    index: int
    stats: GPUStats | None
    problem: str | None = None


class Vendor(Protocol):
    """One vendor's GPUs, through the library of that vendor."""

    prefix: str
    """The beginning of its GPUs' identifiers."""

    def open(self) -> bool:
        """Whether the library runs now; False where there is nothing to read.

        Raises:
            VendorError: There seem to be GPUs, and the library cannot be used.
        """

    def close(self) -> None:
        """Let go of the library. Never raises: nobody could do anything about it."""

    def read(self) -> Iterator[Reading]:
        """Every GPU, in the order of the library. One that fails does not hide the others."""


def reading(
    index: int,
    memory: MemoryStats | None,
    utilization: UtilizationStats | None,
    missing: Sequence[str],
) -> Reading:
    """The reading of a GPU whose counters are known as far as they are given.

    ``missing`` names what it does not report. A GPU that reports nothing has no stats.
    """
    problem = f"does not report {', '.join(missing)}" if missing else None
    if memory is None and utilization is None:
        return Reading(index, None, problem)
    stats = GPUStats(
        memory or MemoryStats(0, 0, 0, None),
        utilization or UtilizationStats(0, None),
    )
    return Reading(index, stats, problem)
