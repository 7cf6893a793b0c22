"""Observers of a run: `Observer`, the times of host steps, which observers are told, and the part
of a model that an observer needs: `Observed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Step
from maxlab.driver import Accelerator, Tensor
from maxlab.driver.backend import Context, Queue
from maxlab.engine.host_steps import HostSteps
from maxlab.ir import DeviceRef
from maxlab.toolchain.cffi_abi import ffi

Array = np.ndarray[Any, Any]


class HostTimes:
    """When steps of the host ran in one call of the executor, and on which threads.

    Attributes:
        steps: The steps.
        numbers: Their numbers in the plan.
        stamps: [steps, 2], begin and end; with ``summed`` how often the step ran, and nanoseconds.
        threads: [threads, steps, 3], as in `Stamps`; with ``summed`` 0, nanoseconds, and chunks.
        summed: Whether some of the steps say where to go on, so that steps may run more than once.
        address: Where the executor writes them: an ``mx_times *``.
    """

    def __init__(self, host: HostSteps, threads: int) -> None:
        count = len(host.walked)
        self.steps = host.walked
        self.summed = host.is_program
        self.numbers = np.array([step.number for step in host.walked], np.int64)
        self.stamps: Array = np.zeros((count, 2), np.int64)
        self.threads: Array = np.zeros((threads, count, 3), np.int64)
        rows = (ffi.cast("i64 *", x.ctypes.data) for x in (self.stamps, self.threads))
        self.address = ffi.new("mx_times *", dict(zip(("steps", "threads"), rows, strict=True)))

    def clear(self) -> None:
        """Set sums to zero."""
        if self.summed:
            self.stamps[:] = 0
            self.threads[:] = 0


class Observer:
    """Sees what one run does, in order. A method that is not overridden does nothing.

    What an observer raises ends the run.
    """

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """``step`` is about to be given to ``queue``, a kernel with these words; the owner of the
        device calls it."""

    def end(self, step: Step, context: Context, queue: Queue) -> None:
        """``step`` has been given to ``queue``."""

    def host(self, times: HostTimes) -> None:
        """Steps of the host have run."""

    def moved(self, step: Step, begin_ns: int, end_ns: int) -> None:
        """The host has moved memory itself, for ``step``."""


Observers = Sequence[Observer]


class Watching:
    """Tells observers of the work of one step, which the driver watches: a `backend.Watcher`."""

    def __init__(self, step: Step, observers: Observers) -> None:
        self._step = step
        self._observers = observers

    def begin(self, context: Context, queue: Queue) -> None:
        """The step is about to be given to ``queue``."""
        for observer in self._observers:
            observer.begin(self._step, context, queue, ())

    def end(self, context: Context, queue: Queue) -> None:
        """The step has been given to ``queue``."""
        for observer in self._observers:
            observer.end(self._step, context, queue)

    def moved(self, begin_ns: int, end_ns: int) -> None:
        """The host has done it."""
        for observer in self._observers:
            observer.moved(self._step, begin_ns, end_ns)


class Observed(Protocol):
    """A model, as far as its runs are observed."""

    @property
    def name(self) -> str:
        """The name of the graph."""

    @property
    def compiled(self) -> Compiled:
        """The graph, its kernels and its plan."""

    @property
    def devices(self) -> dict[DeviceRef, Accelerator]:
        """The accelerators that it runs on, by the names that its graph has for them."""

    def run_observed(self, args: Sequence[Any], *observers: Observer) -> list[Tensor]:
        """The outputs; ``observers`` see every step."""

    def wait(self) -> None:
        """Return when the devices have done all that they were given."""


__all__ = ["HostTimes", "Observed", "Observer", "Observers", "Watching"]
