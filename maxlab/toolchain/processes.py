"""Compilers as processes that never outlive the call they belong to.

Each runs in a process group of its own. An interrupt (Ctrl-C), a limit of time or the end of the
program ends the whole group, so that what a compiler started ends with it. Python hands an
interrupt to the main thread alone; so the main thread never runs a compiler itself, it waits for
threads that do, and ends their compilers when it is interrupted. Threads that the user started look
whether the main thread has been.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from maxlab import progress
from maxlab.collector import paused
from maxlab.errors import ToolchainError

if TYPE_CHECKING:
    import subprocess

T = TypeVar("T")

_STEP_MS = 50
_MOST_OUTPUT = 16 << 20
_WAIT_S = 0.1
_END_S = 5.0  # for killed processes to end and their threads to tidy up


class StoppedError(ToolchainError):
    """A compiler was ended because the call that it belongs to was interrupted."""


class TimeLimitError(Exception):
    """A process was ended at its limit of time."""


class Batch:
    """Processes that end together.

    Attributes:
        stopped: Whether they were ended.
        of_main: Whether the main thread waits for them.
    """

    def __init__(self) -> None:
        self.stopped = False
        self.of_main = threading.current_thread() is threading.main_thread()
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()

    def _add(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.add(process)
            _everywhere[process] = os.getpid()
            if self.stopped or is_over():
                _end(process)

    def _remove(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.discard(process)
            _everywhere.pop(process, None)

    def stop(self) -> None:
        """End all processes of the batch; those that it would start later end at once."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                _end(process)


# All that are running, with the process that started them: a fork has its parent's in its memory.
_everywhere: dict[subprocess.Popen[bytes], int] = {}
_over: int | None = None  # the number of this process once its end has begun
_in_between: set[tuple[int, object]] = set()  # starts of those that are not in there yet
_gate = threading.Lock()


class _Here(threading.local):
    batch: Batch | None = None


_here = _Here()


@contextmanager
def together() -> Iterator[Batch]:
    """A batch that all processes belong to which the ``with`` block starts."""
    outer = _here.batch
    _here.batch = outer or Batch()
    try:
        yield _here.batch
    finally:
        _here.batch = outer


def stop_all() -> None:
    """End every process that is still running, and start no more; called when the program ends."""
    global _over
    with _gate:
        _over = os.getpid()
    # A thread that has started one would never come to say so once the interpreter has ended.
    end = time.monotonic() + _END_S
    while any(owner == os.getpid() for owner, _ in list(_in_between)) and time.monotonic() < end:
        time.sleep(0.001)
    for process, owner in list(_everywhere.items()):
        if owner == os.getpid():
            _end(process)


@contextmanager
def starting() -> Iterator[None]:
    """Let the end of the program wait for the ``with`` block, which starts something that has to be
    ended or removed then.

    Raises:
        StoppedError: The end has begun.
    """
    mark = os.getpid(), object()
    with _gate:
        if is_over():
            raise _stopped("a compiler")
        _in_between.add(mark)
    try:
        yield
    finally:
        _in_between.discard(mark)


def is_over() -> bool:
    """Whether the end of this process has begun."""
    return _over == os.getpid()


def parallel(work: Sequence[Callable[[], T]], workers: int) -> list[T]:
    """The result of each of ``work``, in order; at most ``workers`` run at a time, in threads.

    An interrupt of the calling thread ends all their processes, and is raised when they have
    ended.

    Raises:
        Exception: The first in the order of ``work`` that one of them raised, when all are done.
    """
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    numbers = iter(range(len(work)))
    count = left = min(workers, len(work))
    active = 0
    lock, ended = threading.Lock(), threading.Event()
    with together() as batch:

        def follow() -> None:
            nonlocal active, left
            _here.batch = batch
            with lock:
                active += 1
            try:
                while not batch.stopped:
                    with lock:
                        number = next(numbers, None)
                    if number is None:
                        return
                    try:
                        results[number] = work[number]()
                    except BaseException as error:
                        errors[number] = error
            finally:
                with lock:
                    active -= 1
                    left -= 1
                    if left == 0 or (batch.stopped and active == 0):
                        ended.set()

        try:
            for _ in range(count):
                # A daemon: an interpreter that ends does not wait for it.
                threading.Thread(target=follow, name="maxlab-compile", daemon=True).start()
            # Not join(), which takes a thread for ended once it was interrupted; and not for ever,
            # because a signal that comes right before a wait does not end it.
            while count and not ended.wait(_WAIT_S):
                progress.check()
        except BaseException:
            batch.stop()
            with lock:
                idle = active == 0
            if not idle:
                ended.wait(_END_S)
            raise
    if errors:
        raise errors[min(errors)]
    if len(results) < len(work):
        raise _stopped("the work")
    return [results[number] for number in range(len(work))]


def run_process(
    command: Sequence[str],
    *,
    cwd: Path | None,
    env: Mapping[str, str],
    timeout_s: float,
    errors: bool = True,
) -> tuple[int, bytes]:
    """How ``command`` ended, negative for a signal, and what it printed.

    Args:
        command: The program and its arguments; it reads nothing.
        cwd: The folder it runs in.
        env: Its environment.
        timeout_s: Seconds after which it is ended.
        errors: Whether its standard error is a part of what it printed.

    Raises:
        OSError: It cannot be started.
        TimeLimitError: It was ended at the limit.
        StoppedError: It was ended because the call was interrupted.
    """

    def work() -> tuple[int, bytes]:
        return _run(command, cwd, env, timeout_s, errors)

    if threading.current_thread() is threading.main_thread():
        return parallel([work], 1)[0]
    with together():
        return work()


def _run(
    command: Sequence[str],
    cwd: Path | None,
    env: Mapping[str, str],
    timeout_s: float,
    errors: bool,
) -> tuple[int, bytes]:
    import subprocess

    batch = _here.batch
    assert batch is not None, "its callers have one"
    if batch.stopped or is_over() or _is_interrupted(batch):
        raise _stopped(command[0])
    end = time.monotonic() + timeout_s
    with starting():
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if errors else subprocess.DEVNULL,
            process_group=0,
        )
        batch._add(process)
    try:
        output = _read(process, batch, end)
        _wait(process, batch, end)
    except subprocess.TimeoutExpired:
        raise TimeLimitError from None
    finally:
        if process.returncode is None:
            _end(process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        if process.stdout is not None:
            process.stdout.close()
        batch._remove(process)
    if batch.stopped or is_over():
        raise _stopped(command[0])
    return process.returncode, output


def _read(process: subprocess.Popen[bytes], batch: Batch, end: float) -> bytes:
    """All that ``process`` prints, cut where it is more than anyone reads.

    A process that it has started and that goes on, such as the server of a compiler cache, may
    hold the other end of the pipe; it is not waited for.
    """
    import subprocess

    assert process.stdout is not None, "it is a pipe"
    pipe, kept = process.stdout.fileno(), bytearray()
    ready = select.poll()
    ready.register(pipe, select.POLLIN)
    while True:
        if ready.poll(_STEP_MS):
            piece = os.read(pipe, 1 << 16)
            if not piece:
                return bytes(kept)
            kept += piece[: _MOST_OUTPUT - len(kept)]
        elif process.poll() is not None:
            return bytes(kept)
        else:
            _look(batch)
        if time.monotonic() > end:
            raise subprocess.TimeoutExpired(process.args, 0)


def _wait(process: subprocess.Popen[bytes], batch: Batch, end: float) -> None:
    import subprocess

    while True:
        try:
            process.wait(min(max(end - time.monotonic(), 0), _STEP_MS / 1000))
            return
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                raise
            _look(batch)


def _look(batch: Batch) -> None:
    """End the batch if nobody waits for it any more.

    Raises:
        CancelledError: ML897, the work that this thread does was cancelled.
    """
    progress.check()
    if _is_interrupted(batch):
        batch.stop()
        if _is_ending():  # nobody is left to be told
            raise SystemExit


def _is_interrupted(batch: Batch) -> bool:
    """Whether the main thread is handling an interrupt, or was ended by one.

    It may do so while it waits for the threads that the batch belongs to. Its own batches it stops
    itself.
    """
    if _is_ending():
        return getattr(sys, "last_type", None) is KeyboardInterrupt
    if batch.of_main:
        return False
    # Before Python 3.12 the call holds a lock of the interpreter that freeing a threading.local
    # needs, and hangs when a collection frees one (github.com/python/cpython/issues/106883).
    with paused():
        # A tuple before Python 3.12.
        found: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
    return isinstance(found[1] if isinstance(found, tuple) else found, KeyboardInterrupt)


def _is_ending() -> bool:
    """Whether the main thread is through with the program, and waits for other threads."""
    return getattr(threading, "_SHUTTING_DOWN", False) or not threading.main_thread().is_alive()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill ``process`` and all that it has started, unless it has ended already."""
    if process.returncode is None:  # not waited for yet, so its number is still its own
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _stopped(name: str) -> StoppedError:
    return StoppedError(
        "ML505",
        f"{os.path.basename(name)} was stopped, because the program was interrupted",
        fix="compile again",
    )
