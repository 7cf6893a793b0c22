"""When the steps of a model ran on its devices: stamps of their own clocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from maxlab.compiler.plan import Step
from maxlab.driver import Accelerator, Tensor
from maxlab.driver.backend import Context, Mark, Queue
from maxlab.engine.binding import CONTROL
from maxlab.engine.observing import Observed
from maxlab.engine.stamps import Taken, side_by_side

ORIGINS = 5
"""Marks that are tried to lay the clock of a device over the host's."""


class DeviceTimer:
    """Runs a model with a mark before and behind every step, in the devices' own clocks.

    The clock of a device is laid over the host's at a mark that the device, which has nothing to
    do then, reaches as soon as it is made.
    """

    def __init__(self, model: Observed) -> None:
        self._model = model
        self._steps = np.zeros((len(model.compiled.plan.steps), 2), np.int64)
        self._marks: list[tuple[Step, Context, Mark, Mark]] = []
        self._origins: dict[Context, tuple[Mark, int]] = {}
        self._begin: Mark | None = None
        self._call = (0, 0)
        self._summed = any(step.kind in CONTROL for step in model.compiled.plan.steps)

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of the model, run once, to the end."""
        model = self._model
        model.wait()
        self._marks.clear()
        if self._summed:
            self._steps[:] = 0
        for device in model.devices.values():
            if device.context not in self._origins:
                self._origins[device.context] = device.context.call(partial(_origin, device))
        begin_ns = time.monotonic_ns()
        made = model.run_observed(tensors, self)
        model.wait()
        self._call = (begin_ns, time.monotonic_ns())
        return made

    def taken(self) -> Taken:
        """The stamps of the last run, which this thread made; there are none of threads."""
        for step, context, begin, end in self._marks:
            origin, at_ns = self._origins[context]
            started = at_ns + round(context.call(partial(begin.ms_since, origin)) * 1e6)
            # Its length is subtracted by the device: far from the origin, the clock is coarse.
            lasted = round(context.call(partial(end.ms_since, begin)) * 1e6)
            if self._summed:
                self._steps[step.number] += 1, lasted
            else:
                self._steps[step.number] = started, started + lasted
        none = np.zeros((0, len(self._steps), 3), np.int64)
        turns = np.ones(len(self._steps), np.int64)
        if self._summed:
            turns = side_by_side(self._steps, none, self._call[0])
        return Taken(self._call, self._steps.copy(), none, threading.get_ident(), turns)

    @property
    def timed_steps(self) -> list[Step]:
        """The steps of the last run that devices did, in order."""
        return [step for step, *_ in self._marks]

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """Mark where the step begins."""
        self._begin = queue.mark(timed=True)

    def end(self, step: Step, context: Context, queue: Queue) -> None:
        """Mark where it ends."""
        assert self._begin is not None
        self._marks.append((step, context, self._begin, queue.mark(timed=True)))

    def host(self, step: Step, begin_ns: int, end_ns: int) -> None:
        """Note the host's own time."""
        if self._summed:
            self._steps[step.number] += 1, end_ns - begin_ns
        else:
            self._steps[step.number] = begin_ns, end_ns


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


__all__ = ["DeviceTimer"]
