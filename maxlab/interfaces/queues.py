"""Queues that never wait: their two ends as protocols, and what is read from an end at once."""

from __future__ import annotations

import queue
import time
from typing import Protocol, TypeVar, runtime_checkable

from maxlab.interfaces import fields

PushItemType_contra = TypeVar("PushItemType_contra", contravariant=True)
PullItemType_co = TypeVar("PullItemType_co", covariant=True)
_Item = TypeVar("_Item")

_SPINS = 100
_NAP = 0.0005


@runtime_checkable
class MAXPushQueue(Protocol[PushItemType_contra]):
    """The end of a queue that takes items, and says at once when it cannot."""

    def put_nowait(self, item: PushItemType_contra) -> None:
        """Adds ``item`` without waiting.

        Args:
            item: What to add.

        Raises:
            queue.Full: There is no room now.
        """
        ...


@runtime_checkable
class MAXPullQueue(Protocol[PullItemType_co]):
    """The end of a queue that gives items, and says at once when there are none."""

    def get_nowait(self) -> PullItemType_co:
        """The oldest item, which is taken from the queue.

        Raises:
            queue.Empty: There is none now.
        """
        ...


def drain_queue(pull_queue: MAXPullQueue[_Item], max_items: int | None = None) -> list[_Item]:
    """The items that are in ``pull_queue`` now, oldest first; empty when there are none.

    Args:
        pull_queue: The queue that the items are taken from.
        max_items: At most so many are taken, 0 or more; None takes all.

    Raises:
        InputTypeError, InputError: ``max_items`` is no int, or negative.

    Example:
        >>> import queue
        >>> items = queue.Queue()
        >>> for item in "abc":
        ...     items.put(item)
        >>> drain_queue(items, 2), drain_queue(items), drain_queue(items)
        (['a', 'b'], ['c'], [])
    """
    fields.optional(fields.integer(0))("drain_queue.max_items", max_items)
    found: list[_Item] = []
    while max_items is None or len(found) < max_items:
        try:
            found.append(pull_queue.get_nowait())
        except queue.Empty:
            break
    return found


def get_blocking(pull_queue: MAXPullQueue[_Item]) -> _Item:
    """The next item of ``pull_queue``, whenever it comes.

    It asks again and again, after a while with naps of half a millisecond, so that a queue that
    stays empty does not keep a core busy.

    Args:
        pull_queue: The queue that the item is taken from.
    """
    spins = 0
    while True:
        try:
            return pull_queue.get_nowait()
        except queue.Empty:
            spins += 1
            if spins > _SPINS:
                time.sleep(_NAP)
