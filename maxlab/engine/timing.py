"""When the steps of a model ran: stamps of the executor, and of the clocks of devices."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Step
from maxlab.driver import Accelerator, Tensor
from maxlab.driver.backend import Context, Mark, Queue
from maxlab.engine.host_steps import CONTROL
from maxlab.engine.observing import HostTimes, Observer
from maxlab.engine.stamps import BEGIN, CHUNKS, END, Taken, side_by_side
from maxlab.ir import DeviceRef

ORIGINS = 5
"""Marks that are tried to lay the clock of a device over the host's."""


class Observed(Protocol):
    """A model, as far as its runs are observed."""

    name: str
    compiled: Compiled

    @property
    def devices(self) -> dict[DeviceRef, Accelerator]:
        """The accelerators that it runs on, by the names that its graph has for them."""

    def run_observed(self, args: Sequence[Any], *observers: Observer) -> list[Tensor]:
        """The outputs; ``observers`` see every step."""

    def wait(self) -> None:
        """Return when the devices have done all that they were given."""


class Timer(Observer):
    """Runs a model and keeps when each step ran, and on which threads of the host; on a device
    between a mark before and one behind it, in the device's own clock.

    The clock of a device is laid over the host's at a mark that the device, which has nothing to
    do then, reaches as soon as it is made.

    Args:
        threads: The threads whose work is kept; 0 keeps that of none.
    """

    def __init__(self, model: Observed, threads: int) -> None:
        steps = model.compiled.plan.steps
        self._model = model
        self._steps = np.zeros((len(steps), 2), np.int64)
        self._threads = np.zeros((threads, len(steps), 3), np.int64)
        self._marks: list[tuple[Step, Context, Mark, Mark]] = []
        self._origins: dict[Context, tuple[Mark, int]] = {}
        self._begin: Mark | None = None
        self._call = (0, 0)
        self._summed = any(step.kind in CONTROL for step in steps)

    def run(self, tensors: Sequence[Any]) -> list[Tensor]:
        """The outputs of the model, run once, to the end."""
        model = self._model
        model.wait()
        self._marks.clear()
        if self._summed:
            self._steps[:] = 0
            self._threads[:] = 0
        for device in model.devices.values():
            if device.context not in self._origins:
                self._origins[device.context] = device.context.call(partial(_origin, device))
        begin_ns = time.monotonic_ns()
        made = model.run_observed(tensors, self)
        model.wait()
        self._call = (begin_ns, time.monotonic_ns())
        return made

    def taken(self) -> Taken:
        """The stamps of the last run, which this thread made."""
        for step, context, begin, end in self._marks:
            origin, at_ns = self._origins[context]
            started = at_ns + round(context.call(partial(begin.ms_since, origin)) * 1e6)
            # Its length is subtracted by the device: far from the origin, the clock is coarse.
            self.moved(
                step, started, started + round(context.call(partial(end.ms_since, begin)) * 1e6)
            )
        self._marks.clear()
        steps, threads = self._steps.copy(), self._threads.copy()
        turns = np.ones(len(steps), np.int64)
        if self._summed:
            turns = side_by_side(steps, threads, self._call[0])
        return Taken(self._call, steps, threads, threading.get_ident(), turns)

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """Mark where the step begins."""
        self._begin = queue.mark(timed=True)

    def end(self, step: Step, context: Context, queue: Queue) -> None:
        """Mark where it ends."""
        assert self._begin is not None
        self._marks.append((step, context, self._begin, queue.mark(timed=True)))

    def moved(self, step: Step, begin_ns: int, end_ns: int) -> None:
        """Note the time of one step."""
        if self._summed:
            self._steps[step.number] += 1, end_ns - begin_ns
        else:
            self._steps[step.number] = begin_ns, end_ns

    def host(self, times: HostTimes) -> None:
        """Note the times of steps of the host."""
        at, stamps, threads = times.numbers, times.stamps, times.threads
        if not self._summed:
            self._steps[at] = stamps
            if len(self._threads):
                self._threads[:, at] = threads
            return
        if not times.summed:  # stamps become sums
            stamps = np.stack([np.ones(len(at), np.int64), stamps[:, 1] - stamps[:, 0]], axis=1)
        self._steps[at] += stamps
        if len(self._threads):
            self._threads[:, at, END] += threads[..., END] - threads[..., BEGIN]
            self._threads[:, at, CHUNKS] += threads[..., CHUNKS]


def _origin(device: Accelerator) -> tuple[Mark, int]:
    """A mark of ``device``, which has nothing to do, and when it was reached: between two looks at
    the clock, the closest of a few, because the thread may be put aside between them."""
    queue = device.default_stream.queue
    found: list[tuple[int, int, Mark]] = []
    for _ in range(ORIGINS):
        before_ns = time.monotonic_ns()
        mark = queue.mark(timed=True)
        mark.synchronize()
        after_ns = time.monotonic_ns()
        found.append((after_ns - before_ns, (before_ns + after_ns) // 2, mark))
    _, at_ns, mark = min(found, key=lambda tried: tried[0])
    return mark, at_ns


__all__ = ["Observed", "Timer"]
