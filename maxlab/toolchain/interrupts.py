"""How Ctrl-C reaches a run that is in C: what the executor asks ten times a second.

Python runs the handlers of signals on its main thread, and only between two steps of its own; while
that thread is in a kernel there are none. So the executor calls a function of Python now and then
(``mx_interrupts``). That the function begins is enough: the interpreter looks for signals there, as
between any two lines. What a handler raises is kept for the thread, since C cannot pass it on, and
the run ends; where it raises nothing, the run goes on. On other threads than the main one no
handler runs, so Ctrl-C does not end what they run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from maxlab import progress
from maxlab.toolchain.cffi_abi import ffi

STOPPED = 5
"""The executor's code for a run that was ended (``MX_STOPPED`` in prelude.h)."""
PERIOD_NS = 100_000_000
"""How often it asks. To ask takes the lock of the interpreter, for which other threads of Python
may keep it waiting for 5 ms each time."""

_raised = threading.local()


class Interrupts:
    """Callbacks of the executor of one runtime library; they live as long as the library.

    Args:
        lib: The functions of the library.
    """

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self._listener: Callable[[], object] | None = None
        self._entry = ffi.callback("int(void)", self._ended, error=1, onerror=_keep)
        lib.mx_interrupts(self._entry, PERIOD_NS)

    def _ended(self) -> int:
        """0: the run goes on. Signals have been handled when this is called; a work that somebody
        cancelled raises."""
        progress.check()
        if self._listener is not None:
            self._listener()
        return 0

    @contextmanager
    def heard_by(self, listener: Callable[[], object], period_ns: int) -> Iterator[None]:
        """Calls ``listener`` too whenever the executor asks, about every ``period_ns``, while the
        ``with`` block lasts; what it raises ends the run.
        """
        self._listener = listener
        self._lib.mx_interrupts(self._entry, period_ns)
        try:
            yield
        finally:
            self._listener = None
            self._lib.mx_interrupts(self._entry, PERIOD_NS)


def _keep(kind: Any, error: BaseException, traceback: Any) -> None:
    """Keeps what was raised for the run that ends now on this thread."""
    _raised.error = error.with_traceback(None)


def raised() -> BaseException:
    """The exception that ended the run of this thread: usually a KeyboardInterrupt. A SystemExit,
    which ends a thread without a word, when the process itself comes to its end.
    """
    error: BaseException | None = getattr(_raised, "error", None)
    _raised.error = None
    return SystemExit() if error is None else error


__all__ = ["PERIOD_NS", "STOPPED", "Interrupts", "raised"]
