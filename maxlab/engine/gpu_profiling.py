"""Records of each run of a model on GPUs, for ``InferenceSession.gpu_profiling``.

``ON`` marks where the work of a run begins and ends on every device, with events of the device's
own clock. ``DETAILED`` marks every kernel and transfer besides. Both wait for the end of a run, and
draw NVTX ranges: one over a run, and with ``DETAILED`` one over the launch of each kernel. What is
found is kept by the model, ``model.gpu_runs``, and goes to the event stream as events of the kind
``"gpu"``.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from maxlab.compiler.plan import Step
from maxlab.driver import Tensor
from maxlab.engine.device_clock import mark_on, ns_between
from maxlab.engine.gpu_runs import GpuRun, GpuStep
from maxlab.engine.observing import Observed
from maxlab.engine.ranges import Ranges
from maxlab.engine.timer import Timer
from maxlab.toolchain import nvtx

Mode = Literal["on", "detailed"]
KEPT = 1024
"""Runs that a model remembers; the oldest go first."""


class GpuProfiler:
    """Records the runs of one model.

    Attributes:
        runs: The newest runs, the newest last.
    """

    def __init__(self, model: Observed, mode: Mode) -> None:
        self.mode = mode
        self.runs: deque[GpuRun] = deque(maxlen=KEPT)
        self._model = model
        self._lock = threading.Lock()  # marks of two runs are not told apart

    def run(self, args: Sequence[Any]) -> list[Tensor]:
        """The outputs of the model, run to its end and recorded."""
        model = self._model
        with self._lock, nvtx.ranges(model.name):
            model.wait()
            timer = Timer(model, 0) if self.mode == "detailed" else None
            ranges = Ranges()
            begin = {device: mark_on(device) for device in model.devices.values()}
            start_ns = time.monotonic_ns()
            if timer is None:
                made = model.run_observed(args)
            else:
                with ranges.closed():
                    made = timer.run(args, ranges)
            end = {device: mark_on(device) for device in model.devices.values()}
            model.wait()
            dur_ns = time.monotonic_ns() - start_ns
            device_ns = {f"{d.label}:{d.id}": ns_between(d, begin[d], end[d]) for d in begin}
            steps = tuple(_steps(timer, ranges.steps)) if timer is not None else ()
            run = GpuRun(model.name, start_ns, dur_ns, device_ns, steps)
            self.runs.append(run)
            run.tell(self.mode)
        return made


def _steps(timer: Timer, given: Sequence[Step]) -> Iterator[GpuStep]:
    """The work of the devices for the steps that the last run of ``timer`` has ``given`` them."""
    stamps = timer.taken().steps
    for step in given:
        start_ns, end_ns = map(int, stamps[step.number])
        yield GpuStep(step.id, step.name, str(step.device), start_ns, end_ns - start_ns)


__all__ = ["GpuProfiler", "Mode"]
