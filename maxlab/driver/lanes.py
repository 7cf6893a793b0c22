"""The order of work on a device, as far as memory needs to know it."""

from __future__ import annotations

from typing import Protocol

from maxlab.driver.backend import Context, Queue


class Lane(Protocol):
    """A stream of an accelerator: work given to it runs in the order in which it was given.

    Attributes:
        number: Of this lane alone, after it has gone too.
    """

    number: int

    @property
    def context(self) -> Context:
        """The opened device."""

    @property
    def queue(self) -> Queue:
        """The backend's queue."""


def follow(lane: Lane, other: Lane) -> None:
    """Start what ``lane`` is given from now on only after all that ``other`` has been given."""
    if other is lane:
        return
    mark = other.context.call(other.queue.mark)
    queue = lane.queue
    lane.context.call(lambda: queue.wait(mark))


__all__ = ["Lane", "follow"]
