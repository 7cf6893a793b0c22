"""Errands of pages that take long: done one after the other, reported on, and cancelled.

In a kernel an errand is done on a thread of its own, so that the thread that brings messages is
free to bring the wish to cancel it.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

from maxlab.ir.cells import kernel
from maxlab.lab import protocol
from maxlab.lab.protocol import PROTOCOL
from maxlab.progress import Work


class Errands:
    """The errands of one view, each with the number that its page knows it by.

    Args:
        tell: Sends a message to the pages of the view.
    """

    def __init__(self, tell: Callable[[protocol.ProgressMessage], object]) -> None:
        self._tell = tell
        self._works: dict[int, list[Work]] = {}

    def do(self, number: int, title: str, call: Callable[[Work], object]) -> None:
        """Do ``call`` with a work of this title, after all errands that came before it."""
        work = Work(title, partial(self._told, number))
        self._works.setdefault(number, []).append(work)

        def run() -> None:
            try:
                call(work)
            finally:
                left = self._works.get(number, [])
                if work in left:
                    left.remove(work)
                if not left:
                    self._works.pop(number, None)

        if kernel() is not None:  # a notebook, whose messages must not be held up
            _queue.put(partial(contextvars.copy_context().run, run))
            _have_worker()
        else:
            run()

    def cancel(self, number: int) -> None:
        """Let the errand ``number`` end, and its pages know that this was heard."""
        for work in list(self._works.get(number, [])):
            work.cancel()
            self._told(number, work)

    def _told(self, number: int, work: Work) -> None:
        self._tell({"type": "progress", "protocol": PROTOCOL, "id": number, **state_of(work)})


def state_of(work: Work) -> protocol.WorkState:
    """The progress of ``work`` now, as pages are told it."""
    return {
        "title": work.title,
        "phase": work.phase,
        "done": work.done,
        "total": work.total,
        "what": work.what,
        "elapsed_s": round(work.elapsed_s, 1),
        "status": "over" if work.is_over else "cancelling" if work.is_cancelled else "running",
    }


_queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
_worker: threading.Thread | None = None


def _have_worker() -> None:
    global _worker
    if _worker is None or not _worker.is_alive():
        # A daemon: a kernel that ends does not wait for it.
        _worker = threading.Thread(target=_work, name="maxlab-errands", daemon=True)
        _worker.start()


def _work() -> None:
    while True:
        _queue.get()()
