"""What ``InferenceSession.gpu_profiling`` records of each run of a model on GPUs.

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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from maxlab import trace
from maxlab.engine.timing import Observed, Timer
from maxlab.toolchain import nvtx

if TYPE_CHECKING:
    from maxlab.compiler.plan import Step
    from maxlab.driver import Accelerator, Tensor
    from maxlab.driver.backend import Context, Mark, Queue

Mode = Literal["on", "detailed"]
KEPT = 1024
"""Runs that a model remembers; the oldest go first."""


@dataclass(frozen=True, slots=True)
class GpuStep:
    """One kernel or transfer of a run.

    Attributes:
        id: Of the step, such as ``"k3"``.
        name: What it computes.
        device: Where, such as ``"gpu:0"``.
        start_ns: ``time.monotonic_ns`` at which it began.
        dur_ns: Nanoseconds that it took, by the clock of the device.
    """

    id: str
    name: str
    device: str
    start_ns: int
    dur_ns: int


@dataclass(frozen=True, slots=True)
class GpuRun:
    """One run of a model.

    Attributes:
        model: Its name.
        start_ns: ``time.monotonic_ns`` at the call.
        dur_ns: Nanoseconds until all devices had come to its end, by the clock of the host.
        device_ns: Nanoseconds from the first to the last of its work on each device, by the clock
            of the device.
        steps: Every kernel and transfer, in ``DETAILED`` mode.
    """

    model: str
    start_ns: int
    dur_ns: int
    device_ns: dict[str, int]
    steps: tuple[GpuStep, ...] = ()


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
            timer = _RangedTimer(model, 0) if self.mode == "detailed" else None
            begin = {d: _mark(d) for d in model.devices.values()}
            start_ns = time.monotonic_ns()
            made = model.run_observed(args) if timer is None else timer.run(args)
            end = {d: _mark(d) for d in model.devices.values()}
            model.wait()
            dur_ns = time.monotonic_ns() - start_ns
            device_ns = {f"{d.label}:{d.id}": _between(d, begin[d], end[d]) for d in begin}
            steps = tuple(timer.gpu_steps()) if timer is not None else ()
            self._keep(GpuRun(model.name, start_ns, dur_ns, device_ns, steps))
        return made

    def _keep(self, run: GpuRun) -> None:
        self.runs.append(run)
        thread = threading.get_ident()
        data = {"mode": self.mode, "device_ns": run.device_ns}
        trace.recorder().add(
            trace.Event("gpu", run.model, run.start_ns, run.dur_ns, dict(data), thread)
        )
        for step in run.steps:
            about = {"model": run.model, "step": step.id, "device": step.device}
            trace.recorder().add(
                trace.Event("gpu", step.name, step.start_ns, step.dur_ns, dict(about), thread)
            )


class _RangedTimer(Timer):
    """Times every step, with a range over each launch."""

    def __init__(self, model: Observed, threads: int) -> None:
        super().__init__(model, threads)
        self._given: list[Step] = []

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """Mark where the step begins."""
        self._given.append(step)
        nvtx.push(f"{step.id} {step.name}")
        super().begin(step, context, queue, words)

    def end(self, step: Step, context: Context, queue: Queue) -> None:
        """Mark where it ends."""
        super().end(step, context, queue)
        nvtx.pop()

    def gpu_steps(self) -> list[GpuStep]:
        """What the devices did in the last run."""
        stamps = self.taken().steps
        return [
            GpuStep(
                step.id,
                step.name,
                str(step.device),
                int(stamps[step.number, 0]),
                int(stamps[step.number, 1] - stamps[step.number, 0]),
            )
            for step in self._given
        ]


def _mark(device: Accelerator) -> Mark:
    return device.context.call(lambda: device.default_stream.queue.mark(timed=True))


def _between(device: Accelerator, begin: Mark, end: Mark) -> int:
    return round(device.context.call(partial(end.ms_since, begin)) * 1e6)


__all__ = ["GpuProfiler", "GpuRun", "GpuStep"]
