"""Runs of a model that are timed: `Timer`."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.driver import Tensor
from maxlab.driver.backend import Context
from maxlab.engine.device_clock import Clock
from maxlab.engine.observing import Observed, Observer
from maxlab.engine.stamps import Taken, side_by_side
from maxlab.engine.timing import StepTimes


class Timer:
    """Runs a model and gives the stamps of the run, those of devices by the host's clock.

    Args:
        threads: The threads of the host whose work is kept; 0 keeps that of none.

    Attributes:
        times: What sees the steps of each run.
    """

    def __init__(self, model: Observed, threads: int) -> None:
        self.times = StepTimes(model.compiled.plan.steps, threads)
        self._model = model
        self._clocks: dict[Context, Clock] = {}
        self._call = (0, 0)

    def run(self, tensors: Sequence[Any], *others: Observer) -> list[Tensor]:
        """The outputs of the model, run once, to the end; ``others`` see the run too."""
        model = self._model
        model.wait()
        self.times.clear()
        for device in model.devices.values():
            if device.context not in self._clocks:
                self._clocks[device.context] = Clock(device)
        begin_ns = time.monotonic_ns()
        made = model.run_observed(tensors, *others, self.times)
        model.wait()
        self._call = (begin_ns, time.monotonic_ns())
        return made

    def taken(self) -> Taken:
        """The stamps of the last run, which this thread made."""
        times = self.times
        for step, context, begin, end in times.marks:
            times.moved(step, *self._clocks[context].span(begin, end))
        times.marks.clear()
        steps, threads = times.steps.copy(), times.threads.copy()
        turns = np.ones(len(steps), np.int64)
        if times.is_summed:
            turns = side_by_side(steps, threads, self._call[0])
        return Taken(self._call, steps, threads, threading.get_ident(), turns)


__all__ = ["Timer"]
