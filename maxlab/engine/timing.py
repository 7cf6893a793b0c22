"""When the steps of a run were: `StepTimes`, by stamps of the executor and by marks of devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.compiler.plan import Step
from maxlab.driver.backend import Context, Mark, Queue
from maxlab.engine.host_steps import CONTROL
from maxlab.engine.observing import HostTimes, Observer
from maxlab.engine.stamps import BEGIN, CHUNKS, END


class StepTimes(Observer):
    """Keeps when each step of a run began and ended, and how long threads of the host were busy.

    Args:
        steps: All steps of the plan.
        threads: The threads whose work is kept; 0 keeps that of none.

    Attributes:
        is_summed: Whether steps may run more than once: their rows are sums then.
        steps: [steps, 2], begin and end; with ``is_summed`` how often the step ran, and
            nanoseconds.
        threads: [threads, steps, 3], as in `Stamps`; with ``is_summed`` 0, nanoseconds, and chunks.
        marks: What devices were given: the step, where, and the marks around it.
    """

    def __init__(self, steps: Sequence[Step], threads: int) -> None:
        self.is_summed = any(step.kind in CONTROL for step in steps)
        self.steps = np.zeros((len(steps), 2), np.int64)
        self.threads = np.zeros((threads, len(steps), 3), np.int64)
        self.marks: list[tuple[Step, Context, Mark, Mark]] = []
        self._begin: Mark | None = None

    def clear(self) -> None:
        """Forget the run before."""
        self.marks.clear()
        if self.is_summed:
            self.steps[:] = 0
            self.threads[:] = 0

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """Mark where the step begins."""
        self._begin = queue.mark(timed=True)

    def end(self, step: Step, context: Context, queue: Queue) -> None:
        """Mark where it ends."""
        assert self._begin is not None
        self.marks.append((step, context, self._begin, queue.mark(timed=True)))

    def moved(self, step: Step, begin_ns: int, end_ns: int) -> None:
        """Note the time of one step."""
        if self.is_summed:
            self.steps[step.number] += 1, end_ns - begin_ns
        else:
            self.steps[step.number] = begin_ns, end_ns

    def host(self, times: HostTimes) -> None:
        """Note the times of steps of the host."""
        at, stamps, threads = times.numbers, times.stamps, times.threads
        if not self.is_summed:
            self.steps[at] = stamps
            if len(self.threads):
                self.threads[:, at] = threads
            return
        if not times.summed:  # stamps become sums
            stamps = np.stack([np.ones(len(at), np.int64), stamps[:, 1] - stamps[:, 0]], axis=1)
        self.steps[at] += stamps
        if len(self.threads):
            self.threads[:, at, END] += threads[..., END] - threads[..., BEGIN]
            self.threads[:, at, CHUNKS] += threads[..., CHUNKS]


__all__ = ["StepTimes"]
