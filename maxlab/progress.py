"""Progress of work: its name, how far it is, and how to end it, in one channel for all that takes
long.

Whatever may take long opens a `work`, and says by `step` what it does now. Passes, compilers, the
executor and what measures or checks models only store a few words into it: whoever listens is
called from a thread of its own, ten times a second, once the work has taken `DELAY_S`. The same
places look whether the work was cancelled, and raise ``CancelledError`` then, as an interrupt does
between two lines; so a cancelled work leaves graphs, models and sessions as an interrupted one.

A work that begins inside of another one on the same thread is a part of it.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maxlab.errors import CancelledError

DELAY_S = 0.3
"""Seconds that a work takes before anybody is told of it."""
PERIOD_S = 0.1
"""Seconds between two calls of a listener."""


class Work:
    """Something that takes a while, and that somebody waits for.

    Args:
        title: What is done, such as ``"load minilm"``.
        listener: Who is told of this work, in place of those that `listen` names.

    Attributes:
        title: As above.
        phase: What is done now, such as ``"compiling"``; empty before the first step.
        done: How many of ``total`` are done.
        total: How many there are; 0 where nobody knows.
        what: The one that is at hand, such as the name of a kernel; may be empty.
        is_cancelled: Whether somebody wants it to end.
        is_over: Whether it has ended.

    Example:
        >>> work = Work("load minilm")
        >>> work.step("compiling", 12, 58, "matmul_add")
        >>> work.text
        'compiling 12 of 58 · matmul_add'
    """

    __slots__ = (
        "_begun",
        "_is_told",
        "_lock",
        "_outline",
        "_whose",
        "done",
        "is_cancelled",
        "is_over",
        "listener",
        "phase",
        "title",
        "total",
        "what",
    )

    def __init__(self, title: str, listener: Callable[[Work], object] | None = None) -> None:
        self.title = title
        self.listener = listener
        self.phase, self.done, self.total, self.what = "", 0, 0, ""
        self.is_cancelled = self.is_over = False
        self._begun = time.monotonic()
        self._is_told = False
        self._lock = threading.Lock()
        self._outline = ""
        self._whose = contextvars.copy_context()  # such as the cell that a notebook runs

    @property
    def text(self) -> str:
        """Phase, how far it is, and what now, as one line."""
        return _line(self.phase or self.title, self.done, self.total, self.what)

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begun

    def step(self, phase: str, done: int = 0, total: int = 0, what: str = "") -> None:
        """Say what is done now.

        Raises:
            CancelledError: ML897, somebody wants the work to end.
        """
        if self.is_cancelled:
            self.check()
        if self._outline:
            self.what = f"{self._outline}: {_line(phase, done, total, what)}"
        else:
            self.phase, self.done, self.total, self.what = phase, done, total, what

    def outline(self, phase: str, done: int = 0, total: int = 0, what: str = "") -> None:
        """Say what is done now, and take the steps that follow for parts of it; without a phase,
        for steps of their own again.

        Raises:
            CancelledError: ML897, somebody wants the work to end.
        """
        self._outline = ""
        self.step(phase, done, total, what)
        self._outline = what if phase else ""

    def advance(self, count: int = 0, what: str = "") -> None:
        """Say that ``count`` more are done, and that ``what`` is at hand now; on any thread."""
        with self._lock:
            self.done += count
            self.what = what or self.what

    def check(self) -> None:
        """Return while nobody wants the work to end.

        Raises:
            CancelledError: ML897, somebody does.
        """
        if self.is_cancelled:
            at = f" at: {self.text}" if self.phase else ""
            raise CancelledError(
                "ML897",
                f"{self.title} was cancelled{at}",
                fix="start it again; nothing was changed",
            )

    def cancel(self) -> None:
        """Let the work end at its next look: within a tenth of a second in compilers and kernels,
        between two passes. Does nothing when it is over."""
        self.is_cancelled = True

    def __repr__(self) -> str:
        return f"Work({self.title!r}, {self.text!r})"


def _line(phase: str, done: int, total: int, what: str) -> str:
    many = f" {done} of {total}" if total else ""
    return f"{phase}{many}" + (f" · {what}" if what else "")


class _Here(threading.local):
    work: Work | None = None


_here = _Here()
_live: list[Work] = []
_listeners: list[Callable[[Work], object]] = []
_lock = threading.Lock()
_waking = threading.Event()
_teller: threading.Thread | None = None


def now() -> Work | None:
    """The work that this thread does; None when it does none."""
    return _here.work


def step(phase: str, done: int = 0, total: int = 0, what: str = "") -> None:
    """Say what the work of this thread does now; nothing when it does none.

    Raises:
        CancelledError: ML897, somebody wants the work to end.
    """
    work = _here.work
    if work is not None:
        work.step(phase, done, total, what)


def outline(phase: str, done: int = 0, total: int = 0, what: str = "") -> None:
    """As `Work.outline`, of the work of this thread; nothing when it does none.

    Raises:
        CancelledError: ML897, somebody wants the work to end.
    """
    work = _here.work
    if work is not None:
        work.outline(phase, done, total, what)


def check() -> None:
    """Return while nobody wants the work of this thread to end.

    Raises:
        CancelledError: ML897, somebody does.
    """
    work = _here.work
    if work is not None and work.is_cancelled:
        work.check()


def running() -> list[Work]:
    """The work that this process is doing, the oldest first."""
    return list(_live)


@contextmanager
def working(given: str | Work) -> Iterator[Work]:
    """The work that the ``with`` block does, by its title: a part of the one that this thread does
    already, if there is one.

    Raises:
        CancelledError: ML897, the work was cancelled; before it began, or when all of it was done.
    """
    outer = _here.work
    if outer is not None:
        yield outer
        return
    work = given if isinstance(given, Work) else Work(given)
    work.check()
    try:  # an interrupt may come at any line
        _here.work = work
        _live.append(work)
        if _listeners or work.listener is not None:
            _wake()
        yield work
        work.check()  # a wish that came after the last look is not forgotten
    finally:
        _here.work = None
        if work in _live:
            _live.remove(work)
        work.is_over = True
        if work._is_told:
            with _lock:  # nobody is in the middle of telling it
                _tell(work)


def listen(listener: Callable[[Work], object]) -> None:
    """Call ``listener`` from now on with each work that takes longer than `DELAY_S`, ten times a
    second, and once more when it is over. It is called on a thread of its own, at the end on that
    of the work; one that raises is dropped."""
    _listeners.append(listener)


def unlisten(listener: Callable[[Work], object]) -> None:
    """Stop calling ``listener``; does nothing when it does not listen."""
    if listener in _listeners:
        _listeners.remove(listener)


def _wake() -> None:
    """Have a thread that tells listeners; a process that was forked has none of its parent's."""
    global _teller
    if _teller is None or not _teller.is_alive():
        _teller = threading.Thread(target=_tell_all, name="maxlab-progress", daemon=True)
        _teller.start()
    _waking.set()


def _tell_all() -> None:
    while True:
        _waking.wait()
        _waking.clear()
        while _live:
            time.sleep(PERIOD_S)
            for work in _live:
                if work.elapsed_s >= DELAY_S:
                    with _lock:
                        if not work.is_over:
                            work._is_told = True
                            _tell(work)


def _tell(work: Work) -> None:
    listeners = _listeners[:] if work.listener is None else [work.listener]
    for listener in listeners:
        try:
            work._whose.run(listener, work)
        except Exception:  # whoever draws progress must not end what it draws
            unlisten(listener)


class TerminalLine:
    """Writes the newest work on one line of the terminal that ``sys.stderr`` is, over and over, and
    takes the line away when it is over; a listener. Nothing is written elsewhere than to a
    terminal."""

    def __call__(self, work: Work) -> None:
        out = sys.stderr
        if out is None or not out.isatty():
            return
        import shutil

        room = shutil.get_terminal_size().columns - 1
        line = "" if work.is_over else f"{work.title}: {work.text}  {work.elapsed_s:.1f} s"
        out.write(f"\r\x1b[2K{line[:room]}")
        out.flush()


__all__ = [
    "TerminalLine",
    "Work",
    "check",
    "listen",
    "now",
    "outline",
    "running",
    "step",
    "unlisten",
    "working",
]
