"""The memory of one GPU step before and after it runs: `captured`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.compiler.plan import Step
from maxlab.driver.backend import Context, Queue
from maxlab.engine.device_kernel import Captured
from maxlab.engine.observing import Observed, Observer
from maxlab.engine.program import Program

Array = np.ndarray[Any, Any]


class _Capture(Observer):
    """Copies the memory of one step before and after it runs."""

    def __init__(self, step: Step, nbytes: Sequence[int]) -> None:
        self._step = step
        self._nbytes = nbytes
        self._words: Sequence[int] = ()
        self.before: list[Array] = []
        self.after: list[Array] = []

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """Copy what the step will read, and what it will write over."""
        if step is self._step:
            self._words = list(words)
            self.before = self._memory(context, queue)

    def end(self, step: Step, context: Context, queue: Queue) -> None:
        """Copy what it has written."""
        if step is self._step:
            self.after = self._memory(context, queue)

    def _memory(self, context: Context, queue: Queue) -> list[Array]:
        made = []
        for address, nbytes in zip(self._words, self._nbytes, strict=False):
            array = np.empty(nbytes, np.uint8)
            context.download(queue, array.ctypes.data, address, nbytes)
            made.append(array)
        return made


def captured(
    model: Observed, programs: Sequence[Program], number: int, inputs: Sequence[Any]
) -> Captured:
    """The memory of the GPU step ``number`` before and after it, in a run of ``model`` on
    ``inputs``, for which it has ``programs``."""
    plan = model.compiled.plan
    step, env = plan.steps[number], programs[-1].env
    found = _Capture(step, [plan.slots[n].nbytes.evaluate(env) for n in step.pointers])
    model.run_observed(inputs, found)
    model.wait()
    kernels = (k for one in programs for segment in one.segments for k in segment.kernels)
    kernel = next(kernel for kernel in kernels if kernel.step is step)
    assert step.gpu is not None
    written = step.gpu.printed(kernel.launch.variant).written
    after = [a if w else None for a, w in zip(found.after, written, strict=True)]
    return Captured(kernel.launch, kernel.tail, found.before, after)


__all__ = ["Captured", "captured"]
