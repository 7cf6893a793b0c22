"""`run`: a kernel on the simulator."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.driver.sim import Recording, Report, SimModule, Watch
from maxlab.driver.sim.reports import Index3
from maxlab.driver.sim.signature import find_kernels
from maxlab.errors import NotebookError
from maxlab.lab.cuda_sim.lockstep import WARP, Replay, replay
from maxlab.lab.cuda_sim.memory import summarise
from maxlab.lab.cuda_sim.result import SimRun, ThreadState
from maxlab.lab.cuda_sim.view import page

NAME = "kernel.cu"
"""The name of a text in messages."""


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
    """The result of running a kernel of a CUDA text on this machine's CPU.

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
        page,
    )


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
