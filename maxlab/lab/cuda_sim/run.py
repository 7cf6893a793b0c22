"""`run`: a kernel on the simulator, and `SimRun`, what is to be seen of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from maxlab.driver.sim import Recording, Report, SimModule, Watch
from maxlab.driver.sim.reports import Index3
from maxlab.driver.sim.signature import find_kernels
from maxlab.errors import NotebookError
from maxlab.lab.cuda_sim.lockstep import WARP, LineCount, Replay, replay
from maxlab.lab.cuda_sim.memory import MemoryAccess, summarise

NAME = "kernel.cu"
"""What a text is called in messages."""

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
    """What happened when a kernel ran on the simulator; a notebook draws it.

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
        from maxlab.lab.cuda_sim.view import page

        return {"text/plain": repr(self), "text/html": page(self)}


def run(
    text: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[object] = (),
    shared_bytes: int = 0,
    *,
    kernel: str | None = None,
    check: bool = True,
    timeout_s: float | None = None,
    view_block: Sequence[int] | None = None,
) -> SimRun:
    """What happens when a kernel of a CUDA text runs on this machine's CPU.

    Args:
        text: what nvcc would be given; see ``kernels/cuda/README.md``.
        grid: the number of blocks, for one to three axes.
        block: the number of threads in each, for one to three axes.
        args: NumPy arrays or `Tensor` for pointers, which are changed in place, and numbers.
        shared_bytes: the size of the dynamic shared memory.
        kernel: which kernel; may be left out when the text has one.
        check: see every access to memory. Without it kernels run much faster, a mistake is found
            only where the machine itself faults, and there are no accesses to look at.
        timeout_s: give up after so many seconds.
        view_block: the block to show.

    Raises:
        NotebookError: ML822, the text has no kernel, or several and ``kernel`` names none of them.
        MaxlabError: what `SimModule` and its ``launch`` raise.

    Example:
        >>> import numpy as np
        >>> text = '''extern "C" __global__ void twice(float *x) {
        ...   x[threadIdx.x] *= 2;
        ... }'''
        >>> x = np.arange(4, dtype=np.float32)
        >>> run(text, 1, 4, [x])
        twice<<<1, 4>>>: nothing wrong was found
        memory of block (0, 0, 0):
          line 2: read x, 4 B a lane: 1 request, 1 sector a request (at best 1)
          line 2: write x, 4 B a lane: 1 request, 1 sector a request (at best 1)
        >>> x
        array([0., 2., 4., 6.], dtype=float32)
    """
    name = _kernel_of(list(find_kernels(text)), kernel)
    module = SimModule(text, record=check, name=NAME)
    reports = module.launch(
        name,
        grid,
        block,
        args,
        shared_bytes,
        timeout_s=timeout_s,
        record_block=view_block if check else None,
    )
    recording, watched = module.recording, tuple(module.watched)
    shape = _three(block)
    found = Replay((), {}, ()) if recording is None else replay(recording, text)
    shown = _three(view_block, 0) if recording is None else recording.block
    return SimRun(
        name,
        text,
        _three(grid),
        shape,
        shared_bytes,
        check,
        tuple(reports),
        watched,
        shown,
        _threads(shape, shown, recording, found, reports, watched),
        () if recording is None else summarise(recording, found.requests),
        found.lines,
        recording is not None and recording.truncated,
        recording,
    )


def plural(count: int, word: str) -> str:
    """``"1 thread"``, ``"2 threads"``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _sizes(shape: Index3) -> str:
    used = max((n for n in range(3) if shape[n] > 1), default=0) + 1
    return str(shape[0]) if used == 1 else f"({', '.join(map(str, shape[:used]))})"


def _three(given: int | Sequence[int] | None, fill: int = 1) -> Index3:
    sizes = (given,) if isinstance(given, int) else tuple(given or ())
    x, y, z = (*sizes, fill, fill, fill)[:3]
    return x, y, z


def _kernel_of(names: Sequence[str], wanted: str | None) -> str:
    if not names:
        raise NotebookError(
            "ML822",
            "the text has no kernel",
            fix='write one: extern "C" __global__ void name(float *x) { ... }',
        )
    if wanted is None and len(names) > 1:
        raise NotebookError(
            "ML822",
            f"the text has {len(names)} kernels, and none was chosen: {', '.join(names)}",
            fix=f"name one: --kernel {names[0]}, or run(..., kernel={names[0]!r})",
        )
    if wanted is not None and wanted not in names:
        raise NotebookError(
            "ML822",
            f"the text has no kernel {wanted!r}",
            fix=f"name one that it has: {', '.join(names)}",
        )
    return wanted or names[0]


def _threads(
    shape: Index3,
    shown: Index3,
    recording: Recording | None,
    found: Replay,
    reports: Sequence[Report],
    watched: Sequence[Watch],
) -> tuple[ThreadState, ...]:
    values: dict[Index3, list[Watch]] = {}
    for watch in watched:
        if watch.block == shown:
            values.setdefault(watch.thread, []).append(watch)
    named: dict[Index3, tuple[str, int | None]] = {}
    for report in reports:
        if report.kind == "divergent-barrier" and recording is not None:
            number = report.thread[0] + shape[0] * (report.thread[1] + shape[1] * report.thread[2])
            if report.block == shown and recording.ends[number].state != "ended":
                continue  # each of its threads waits, and says so
        if report.block == shown:
            named.setdefault(report.thread, (report.kind, report.line))
        if report.other_thread is not None and report.other_block == shown:
            named.setdefault(report.other_thread, (report.kind, report.other_line))
    made = []
    for number in range(shape[0] * shape[1] * shape[2]):
        x, y, z = number % shape[0], number // shape[0] % shape[1], number // shape[0] // shape[1]
        if recording is None:
            status, line = "ended", None
        else:
            end = recording.ends[number]
            status, line = end.state, end.line or found.last[number]
        status, line = named.get((x, y, z), (status, line))
        own = tuple(values.get((x, y, z), ()))
        made.append(ThreadState((x, y, z), number // WARP, number % WARP, status, line, own))
    return tuple(made)
