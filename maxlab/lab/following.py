"""Follows the causes of changes to a graph: a change that was made in a view, and the end of each
cell of a notebook, told at most ten times a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from maxlab.ir import cells

PERIOD = 0.1
"""Least seconds between two calls."""


_told: list[Callable[[], None]] = []


def on_change(call: Callable[[], None]) -> None:
    """Call ``call`` before views show what a change or a cell has made another, once each time."""
    if call not in _told:
        _told.append(call)


def changed() -> None:
    """Tell those who asked by `on_change`."""
    for call in _told:
        call()


def after_each_cell(call: Callable[[], None]) -> bool:
    """Call ``call`` when a cell has ended, on the thread that runs cells; False without a notebook.

    Cells that end in quick succession are told of once, when the last of them has.
    """
    if cells.kernel() is None:
        return False
    cells.shell().events.register("post_run_cell", Paced(call).cell_ended)
    return True


class Paced:
    """Calls ``call`` for a stream of events, `PERIOD` apart by ``clock``; the last event is never
    forgotten."""

    def __init__(
        self, call: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._call = call
        self._clock = clock
        self._called = float("-inf")
        self._waiting = False

    def cell_ended(self, *_result: object) -> None:
        """One more event: calls now, or as soon as the period is over."""
        wait = self._called + PERIOD - self._clock()
        if self._waiting:
            return
        loop = _running_loop() if wait > 0 else None
        if loop is None:
            self._now()
        else:
            self._waiting = True
            loop.call_later(wait, self._now)

    def _now(self) -> None:
        self._waiting = False
        self._called = self._clock()
        self._call()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs this thread; None where nothing could be called later."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
