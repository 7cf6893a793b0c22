"""The thread that measures variants, beside everything else."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable

DELAY_S = 0.2
"""How long after the newest question the first trial begins: a model that was just loaded is run
first."""
NICE = 10
"""How much less the system cares for the thread than for others."""

Stopped = Callable[[], bool]
Work = Callable[[Stopped], None]


class Measurer:
    """Does one piece of work behind the other in a thread, which lives as long as there is some."""

    def __init__(self) -> None:
        self._work: deque[Work] = deque()
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._ending = False
        self._is_ended_at_exit = False

    def add(self, work: Work) -> None:
        """Do ``work`` later. It is given what says that the process ends, and that it should."""
        with self._changed:
            if self._ending:
                return
            self._work.append(work)
            self._changed.notify_all()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="maxlab-variants", daemon=True
                )
                self._thread.start()
                if not self._is_ended_at_exit:
                    self._is_ended_at_exit = True
                    atexit.register(self._end)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether all work is done; waits for that, ``timeout_s`` at most."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout_s)

    def _run(self) -> None:
        try:
            self._go_on()
        finally:  # also when something was wrong with some work
            with self._changed:
                if self._thread is threading.current_thread():
                    self._thread = None
                self._changed.notify_all()

    def _go_on(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # not on Linux, or not allowed
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        while True:
            with self._changed:
                while self._changed.wait(DELAY_S) and not self._ending:
                    pass  # another question came
                if not self._work or self._ending:
                    self._thread = None
                    return
                works = list(self._work)
                self._work.clear()
            for work in works:
                work(lambda: self._ending)

    def _end(self) -> None:
        """Let the thread end before the interpreter takes away what it works on."""
        with self._changed:
            self._ending = True
            self._work.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


__all__ = ["DELAY_S", "Measurer"]
