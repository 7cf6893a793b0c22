"""The clocks of devices: places in the order of their work, and when the host's clock was there."""

from __future__ import annotations

import time
from functools import partial

from maxlab.driver import Accelerator
from maxlab.driver.backend import Mark

ORIGINS = 5
"""Marks that are tried to lay the clock of a device over the host's."""


def mark_on(device: Accelerator) -> Mark:
    """A timed mark behind all that the default stream of ``device`` was given."""
    return device.context.call(lambda: device.default_stream.queue.mark(timed=True))


def ns_between(device: Accelerator, begin: Mark, end: Mark) -> int:
    """Nanoseconds of the clock of ``device`` from one mark to another, both reached."""
    return round(device.context.call(partial(end.ms_since, begin)) * 1e6)


class Clock:
    """The clock of one device, laid over the host's at a mark that the device, which has nothing to
    do then, reaches as soon as it is made.

    Args:
        device: A device that has nothing to do.
    """

    def __init__(self, device: Accelerator) -> None:
        self._device = device
        # Between two looks at the host's clock, the closest of a few: the thread may be put aside.
        tries = (device.context.call(partial(_tried, device)) for _ in range(ORIGINS))
        _, self._at_ns, self._origin = min(tries, key=lambda tried: tried[0])

    def span(self, begin: Mark, end: Mark) -> tuple[int, int]:
        """When two marks of the device were reached, as ``time.monotonic_ns`` counts."""
        started = self._at_ns + ns_between(self._device, self._origin, begin)
        # The length is subtracted by the device: far from the origin, its clock is coarse.
        return started, started + ns_between(self._device, begin, end)


def _tried(device: Accelerator) -> tuple[int, int, Mark]:
    """A mark that was reached between two looks at the clock: how far these are apart, their
    middle, and the mark."""
    before_ns = time.monotonic_ns()
    mark = device.default_stream.queue.mark(timed=True)
    mark.synchronize()
    after_ns = time.monotonic_ns()
    return after_ns - before_ns, (before_ns + after_ns) // 2, mark


__all__ = ["Clock", "mark_on", "ns_between"]
