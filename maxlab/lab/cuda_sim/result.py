"""`SimRun`: what is to be seen of a kernel that ran on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from maxlab.driver.sim import Recording, Report, Watch
from maxlab.driver.sim.reports import Index3
from maxlab.engine.times import plural
from maxlab.lab.cuda_sim.lockstep import LineCount
from maxlab.lab.cuda_sim.memory import MemoryAccess

_LISTED = 12


class ThreadState(NamedTuple):
    """A thread of the recorded block at the end of the launch.

    Attributes:
        thread: its index.
        warp: its warp, in the block.
        lane: its lane.
        status: ``"ended"``, ``"barrier"``, ``"warp"``, ``"stopped"``, ``"not started"`` (see
            `maxlab.driver.sim.End`), or the kind of a report that names it.
        line: where it waits or did what is reported, else the last line it is known to have
            reached.
        watched: its values of ``MX_WATCH``, in order.
    """

    thread: Index3
    warp: int
    lane: int
    status: str
    line: int | None
    watched: tuple[Watch, ...]


@dataclass(frozen=True)
class SimRun:
    """The result of a kernel's run on the simulator; a notebook draws it.

    Attributes:
        kernel: its name.
        source: the text.
        grid: blocks on each axis.
        block: threads on each axis.
        shared_bytes: dynamic shared memory.
        checked: whether accesses were checked and recorded; without, only ``watched`` is there.
        reports: what is wrong with it; empty for a good launch.
        watched: values of ``MX_WATCH`` of all blocks, in the order of running.
        shown: the block that ``threads``, ``accesses`` and ``lines`` are about: the first with a
            report, else the first; or the one that was asked for.
        threads: its threads.
        accesses: the places where it accesses memory, and what they cost.
        lines: for lines of the text, how often and with how many lanes warps ran them.
        truncated: True if the block did more than was recorded, so that ``accesses`` and ``lines``
            are of its beginning only.
        recording: what the simulator wrote down of the shown block; None without checks.
        drawn_by: makes its HTML; without, a notebook shows its text.
    """

    kernel: str
    source: str
    grid: Index3
    block: Index3
    shared_bytes: int
    checked: bool
    reports: tuple[Report, ...]
    watched: tuple[Watch, ...]
    shown: Index3
    threads: tuple[ThreadState, ...]
    accesses: tuple[MemoryAccess, ...]
    lines: Mapping[int, LineCount]
    truncated: bool
    recording: Recording | None = field(repr=False, default=None)
    drawn_by: Callable[[SimRun], str] | None = field(repr=False, compare=False, default=None)

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found."""
        return not self.reports

    @property
    def stopped(self) -> bool:
        """Whether the shown block did not run to its end, so that it is counted until then."""
        return self.recording is not None and any(
            end.state != "ended" for end in self.recording.ends
        )

    @property
    def configuration(self) -> str:
        """The launch as CUDA writes it: ``kernel<<<2, 64>>>``."""
        sizes = [_sizes(self.grid), _sizes(self.block)]
        if self.shared_bytes:
            sizes.append(str(self.shared_bytes))
        return f"{self.kernel}<<<{', '.join(sizes)}>>>"

    @property
    def verdict(self) -> str:
        """One sentence on what was found."""
        if not self.checked:
            return "ran without checks"
        if not self.reports:
            return "nothing wrong was found"
        return f"{plural(len(self.reports), 'mistake')} found"

    def __repr__(self) -> str:
        parts = [f"{self.configuration}: {self.verdict}", *map(str, self.reports)]
        if self.accesses:
            part = (
                ", the beginning"
                if self.truncated
                else ", until it stopped"
                if self.stopped
                else ""
            )
            parts.append(f"memory of block {self.shown}{part}:")
            parts += [f"  {access}" for access in self.accesses[:_LISTED]]
            if len(self.accesses) > _LISTED:
                parts.append(f"  and {len(self.accesses) - _LISTED} more")
        return "\n".join(parts)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        made = {"text/plain": repr(self)}
        if self.drawn_by is not None:
            made["text/html"] = self.drawn_by(self)
        return made


def _sizes(shape: Index3) -> str:
    used = max((n for n in range(3) if shape[n] > 1), default=0) + 1
    return str(shape[0]) if used == 1 else f"({', '.join(map(str, shape[:used]))})"
