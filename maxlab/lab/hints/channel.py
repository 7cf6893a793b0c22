"""Tells the hints of this process to the pages that ask for them.

They are read on a thread of their own, so that no cell waits for them, and sent at most ten times a
second: all of them to a page that comes, and after that those of the cells and files whose hints
are others now. A Python that cannot parse on two threads at once reads them between two cells.
"""

from __future__ import annotations

import base64
import sys
import threading
from concurrent.futures import Future
from typing import Any

from maxlab import trace
from maxlab.ir.cells import kernel, latest_run, shell
from maxlab.lab import following, protocol, serving
from maxlab.lab.hints.sources import Key, Sources, nothing
from maxlab.lab.protocol import PROTOCOL, reader

TARGET = "maxlab.hints"
"""Name of the comms that pages open."""

PARSES_ALONE = sys.version_info < (3, 11, 8) or (3, 12) <= sys.version_info < (3, 12, 2)
"""Whether parsing fails where another thread parses too: this Python counts in one number how deep
both are (its issue 106905), and raises a SystemError. It would end the cell that runs, or the
report of what the cell raised."""

_EVENTS = frozenset({"profile", "check"})
"""Events that change hints without a cell."""


class Page:
    """A page that is told of the hints over its comm."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._revision = 0
        self._told: dict[Key, protocol.SourceHints] = {}

    def tell(self, hints: dict[Key, protocol.SourceHints]) -> None:
        """Send what differs from what was sent before."""
        gone = [nothing(key) for key in self._told if key not in hints]
        fresh = [found for key, found in hints.items() if self._told.get(key) != found]
        if not gone and not fresh and self._revision > 0:
            return
        message: protocol.HintsMessage = {
            "type": "hints",
            "protocol": PROTOCOL,
            "revision": self._revision,
            "sources": [*gone, *fresh],
        }
        self._comm.send(message)
        self._revision += 1
        self._told = hints


class Channel:
    """The pages that are told of the hints of this process, and the thread that reads them."""

    def __init__(self) -> None:
        self.sources = Sources()
        self._pages: dict[str, Page] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._listens = False

    def opened(self, comm: Any, message: dict[str, Any]) -> None:
        """A page opens ``comm``: it gets all hints, and then what changes."""
        number = str(comm.comm_id)
        try:
            reader.hints_open(message["content"]["data"])
        except Exception as error:  # the page says it; the kernel must go on
            comm.close(data={"error": str(error)})
            return
        self._pages[number] = Page(comm)
        comm.on_close(lambda _message: self._closed(number))
        self._listen()
        self.wake()

    def wake(self, *_: object) -> None:
        """Hints may be others now."""
        if not self._pages:
            return
        if self._thread is None or not self._thread.is_alive():
            # A daemon: a kernel that ends does not wait for it.
            self._thread = threading.Thread(target=self._work, name="maxlab-hints", daemon=True)
            self._thread.start()
        self._wake.set()

    def tell(self) -> None:
        """Send to each page what it does not know yet."""
        hints = self.sources.take()
        for number, page in list(self._pages.items()):
            try:
                page.tell(hints)
            except Exception as error:  # the other pages must go on
                self._pages.pop(number, None)
                trace.emit("warning", "hints", message=str(error))

    def _closed(self, number: str) -> None:
        self._pages.pop(number, None)
        if not self._pages:
            self._unlisten()

    def _listen(self) -> None:
        if self._listens:
            return
        self._listens = True
        trace.recorder().listen(self._heard)
        following.on_change(self.wake)
        events = getattr(shell(), "events", None)
        if events is not None:
            events.register("pre_run_cell", self._runs)
            events.register("post_run_cell", self._ran)

    def _unlisten(self) -> None:
        """Nobody asks any more: nothing is done until somebody does."""
        self._listens = False
        trace.recorder().unlisten(self._heard)
        events = getattr(shell(), "events", None)
        if events is not None:
            events.unregister("pre_run_cell", self._runs)
            events.unregister("post_run_cell", self._ran)
            self.sources.is_running = False
        self._wake.set()

    def _heard(self, event: trace.Event) -> None:
        if event.kind in _EVENTS:
            self.wake()

    def _runs(self, _info: object) -> None:
        """A cell begins."""
        self.sources.is_running = True

    def _ran(self, result: Any) -> None:
        """A cell has ended."""
        self.sources.is_running = False
        cell, run = latest_run()
        if cell and getattr(result.info, "store_history", True):
            error = result.error_in_exec or result.error_before_exec
            self.sources.failures.ended(cell, run, error)
        self.wake()

    def _work(self) -> None:
        while self._pages:
            self._wake.wait()
            self._wake.clear()
            try:
                self._tell_in_turn()
            except RuntimeError:
                # A cell has changed what was being read, and will end: then it is read again.
                continue
            except Exception as error:  # hints are missing, and all else must go on
                trace.emit("warning", "hints", message=str(error))
            threading.Event().wait(following.PERIOD)

    def _tell_in_turn(self) -> None:
        """As `tell`, when this Python may parse."""
        loop = getattr(kernel(), "io_loop", None)
        if not PARSES_ALONE or loop is None:
            self.tell()
            return
        done: Future[None] = Future()

        def tell() -> None:
            try:
                self.tell()
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        loop.add_callback(tell)  # runs on the thread of the cells
        done.result()


_channel = Channel()


def serve() -> str:
    """Answer pages that open comms named `TARGET` from now on; a text that is not empty as base64,
    by which a page knows that it can."""
    serving.serve(TARGET, _channel.opened)
    return base64.b64encode(TARGET.encode()).decode()


__all__ = ["TARGET", "Channel", "Page", "serve"]
