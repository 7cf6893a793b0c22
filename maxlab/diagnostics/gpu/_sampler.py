"""The recorder's process: reads the GPUs at a steady pace and writes each sample down.

It is started as a fresh interpreter by :mod:`maxlab.diagnostics.gpu.recorder`, shares nothing with
the program but three open files, and ends by itself when that program is gone:

* standard input is the lifeline. A byte means stop; its end means that the program died.
* standard output carries one line, after the first sample: the program may go on.
* the file ``setup["samples"]`` takes the samples.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from typing import Any

from maxlab.diagnostics.gpu import _wire
from maxlab.diagnostics.gpu.context import GPUDiagContext

READY = b"ready\n"
# A driver that hangs may keep a reading from coming back; the process then ends without it.
STUCK_S = 1.0
EXIT_STUCK = 75

_LOOK_FOR_PARENT_MS = 1000


def main(setup: dict[str, Any]) -> None:
    """Sample until told to stop.

    Args:
        setup: ``samples``, the file descriptor to write to; ``period_ns``, the time from one
            sample to the next; ``parent``, the process that is recorded for.
    """
    # Ctrl-C is meant for the program, which then stops the recorder in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A vendor's library may print; only our one line may reach the program.
    ready = os.dup(1)
    os.dup2(2, 1)

    lifeline = _Lifeline(setup["parent"])
    with GPUDiagContext() as context:
        _sample(context, setup["samples"], setup["period_ns"], lifeline, ready)
        if lifeline.told_to_stop:
            _write(setup["samples"], _wire.END)
    # Nothing is left to tidy up, and the program is waiting.
    os._exit(0)


def _sample(
    context: GPUDiagContext, samples: int, period_ns: int, lifeline: _Lifeline, ready: int
) -> None:
    start_ns = time.monotonic_ns()
    known: dict[str, str] | None = None
    tick = 0
    while True:
        began_ns = time.monotonic_ns()
        stats = context.get_stats()
        # The counters were read somewhere between the two.
        time_ns = (began_ns + time.monotonic_ns()) // 2
        problems = context.problems
        _write(samples, _wire.encode(time_ns, stats, None if problems == known else problems))
        known = problems
        if tick == 0:
            os.write(ready, READY)
            os.close(ready)
        # On the grid of the first sample, so that lateness does not add up; what was missed
        # while a reading took long is not made up for.
        tick = max(tick + 1, -(-(time.monotonic_ns() - start_ns) // period_ns))
        if lifeline.wait_until(start_ns + tick * period_ns):
            return


class _Lifeline:
    """Watches standard input and the parent process from a thread of its own."""

    def __init__(self, parent: int) -> None:
        self.told_to_stop = False
        self._parent = parent
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def wait_until(self, time_ns: int) -> bool:
        """Whether the recording is over; returns at ``time_ns`` of the monotonic clock at last."""
        return self._over.wait(max(time_ns - time.monotonic_ns(), 0) / 1e9)

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(0, select.POLLIN)
        while not poller.poll(_LOOK_FOR_PARENT_MS):
            # Processes that the program forked hold the lifeline open after its death.
            if os.getppid() != self._parent:
                break
        else:
            self.told_to_stop = os.read(0, 1) != b""
        self._over.set()
        time.sleep(STUCK_S)
        os._exit(EXIT_STUCK)


def _write(file: int, line: bytes) -> None:
    while line:
        line = line[os.write(file, line) :]
