"""The requests of a scheduler: those that wait for their prompt, and those that go on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from maxlab.interfaces import RequestID


class Queues:
    """The requests of a scheduler in two queues, and the number by which each arrived.

    Attributes:
        waiting: The requests whose prompt is not computed, or only a part of it, in their order.
        active: The requests that wait for their next token, the one that waits longest first.
        replica_of: The replica of each request that has a place in the cache.
    """

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.active: dict[RequestID, Any] = {}
        self.replica_of: dict[RequestID, int] = {}
        self._arrival: dict[RequestID, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._arrival)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._arrival

    def __iter__(self) -> Iterator[Any]:
        return chain(self.waiting, self.active.values())

    def add(self, context: Any) -> None:
        """Adds a request that has just arrived.

        Args:
            context: Its state.
        """
        self._count += 1
        self._arrival[context.request_id] = self._count
        self.waiting.append(context)

    def arrival(self, context: Any) -> int:
        """The number by which a request arrived: the larger, the newer.

        Args:
            context: Its state.
        """
        return self._arrival[context.request_id]

    def wait(self, context: Any) -> None:
        """Puts a request back among those that wait, in the order of their arrival.

        Args:
            context: Its state.
        """
        self.active.pop(context.request_id, None)
        if all(one is not context for one in self.waiting):
            self.waiting.append(context)
            self.waiting.sort(key=self.arrival)

    def go_on(self, context: Any) -> None:
        """Puts a request behind all others that wait for their next token.

        Args:
            context: Its state.
        """
        if self.active.pop(context.request_id, None) is None:
            self.take(context)
        self.active[context.request_id] = context

    def take(self, context: Any) -> None:
        """Takes a request out of its queue.

        Args:
            context: Its state.
        """
        self.active.pop(context.request_id, None)
        self.waiting = [one for one in self.waiting if one is not context]

    def remove(self, context: Any) -> None:
        """Forgets a request.

        Args:
            context: Its state.
        """
        self.take(context)
        self._arrival.pop(context.request_id, None)
        self.replica_of.pop(context.request_id, None)

    def holders(self, replica: int) -> list[Any]:
        """The requests with a place in the cache of a replica, the newest last.

        Args:
            replica: The number of the replica.
        """
        found = [one for one in self if self.replica_of.get(one.request_id) == replica]
        return sorted(found, key=self.arrival)


__all__ = ["Queues"]
