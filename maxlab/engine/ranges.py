"""Ranges of NVIDIA's tools over what a run gives to its devices: `Ranges`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from maxlab.compiler.plan import Step
from maxlab.driver.backend import Context, Queue
from maxlab.engine.observing import Observer
from maxlab.errors import DeviceError
from maxlab.toolchain import nvtx


class Ranges(Observer):
    """Draws a range over each launch and transfer.

    Attributes:
        steps: What was given to devices, in order.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._open: Context | None = None

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """Begin a range."""
        self.steps.append(step)
        self._open = context
        nvtx.push(f"{step.id} {step.name}")

    def end(self, step: Step, context: Context, queue: Queue) -> None:
        """End it."""
        nvtx.pop()
        self._open = None

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Let no range last longer than the ``with`` block: a run may be ended between `begin` and
        `end`. The owner of the device ends a range, which is of the thread that began it."""
        try:
            yield
        finally:
            context, self._open = self._open, None
            if context is not None:
                with suppress(DeviceError):  # the device was lost, which the run says
                    context.call(nvtx.pop)


__all__ = ["Ranges"]
