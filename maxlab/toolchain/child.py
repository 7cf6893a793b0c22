"""A process beside this one, for what may end the process that does it: `Child`.

A kernel that somebody has just written may read where no memory is, call ``exit``, or never end.
`Child` calls a function of maxlab in another process, which it starts when it is first needed,
keeps for the next call, and starts anew when it has ended. Whatever becomes of that process, this
one gets an exception. ``toolchain.child_main`` is the other side.

The other process is a new one, not a fork: a process with threads cannot be forked safely. It ends
when this one does, in whatever way: it waits for a message on a socket, and the system sends it a
signal when the pipe that only this process holds is closed.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import IO, Any

from maxlab.config import config
from maxlab.errors import ToolchainError

START_S = 60.0
"""Seconds that the process may take to start."""
KEPT = 1 << 26
"""Bytes of shared memory that are kept for the next call; what is more is given back."""
_SAID = 2000
"""Characters of what a process has printed that are told."""


class ChildEndedError(Exception):
    """The process ended, or was stopped, before it answered.

    Attributes:
        signal: The number of the signal that ended it; None if none did.
        status: What it called ``exit`` with; None if it did not.
        late: Whether it was stopped because it took too long.
        said: The end of what it printed, where that is captured.
    """

    def __init__(
        self,
        *,
        signal: int | None = None,
        status: int | None = None,
        late: bool = False,
        said: str = "",
    ) -> None:
        self.signal, self.status, self.late, self.said = signal, status, late, said
        super().__init__(self.how)

    @property
    def how(self) -> str:
        """How it ended, in words that follow a subject."""
        if self.late:
            return "did not end in time and was stopped"
        if self.signal is not None:
            return f"was ended by {signal_name(self.signal)}"
        return f"ended with the exit code {self.status}"


def signal_name(number: int) -> str:
    """The name of a signal, such as ``"SIGSEGV"``."""
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return f"the signal {number}"


class _Process:
    """One process: how it is talked to, and the memory that it shares."""

    def __init__(self, captured: bool, folder: Path | None) -> None:
        self.owner = os.getpid()
        import socket
        import subprocess
        import tempfile

        self.view: mmap.mmap | None = None
        self.size = 0
        self.received = b""
        self.output: IO[bytes] | None = None
        with contextlib.ExitStack() as mine, contextlib.ExitStack() as given:
            self.memory = os.memfd_create("maxlab")
            mine.callback(os.close, self.memory)
            self.here, there = socket.socketpair()
            mine.callback(self.here.close)
            given.callback(there.close)
            listened, self.alive = os.pipe()
            mine.callback(os.close, self.alive)
            given.callback(os.close, listened)
            if captured:
                self.output = mine.enter_context(tempfile.TemporaryFile())
            # -P: files that lie in the current folder must not stand for modules of Python. A
            # session of its own: what a terminal sends to the notebook is not for it.
            numbers = map(str, (there.fileno(), listened))
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "maxlab.toolchain.child_main", *numbers],
                pass_fds=(there.fileno(), listened, self.memory),
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=self.output,
                env=_environment(),
                cwd=folder,
                start_new_session=True,
            )
            self._files = mine.pop_all()

    def send(self, message: Any) -> None:
        """Send ``message``; to a process that has ended nothing is sent."""
        self.here.settimeout(None)
        try:
            self.here.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # it has ended, and `receive` says so

    def receive(self, seconds: float) -> Any:
        """The message that the process sends.

        Raises:
            EOFError: It has ended, or sent no message.
            TimeoutError: It has sent nothing for ``seconds``.
        """
        end = time.monotonic() + seconds
        while b"\n" not in self.received:
            self.here.settimeout(max(end - time.monotonic(), 0.001))
            try:
                part = self.here.recv(1 << 16)
            except ConnectionError:
                part = b""
            if not part:
                raise EOFError
            self.received += part
        line, _, self.received = self.received.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict) or not {"ready", "made", "raised"} & message.keys():
            raise EOFError  # the kernel wrote into what is none of its business
        return message

    def end(self) -> tuple[int, str]:
        """End the process: its code, that of a signal when it is negative, and what it said."""
        self.process.kill()
        code = self.process.wait()
        said = ""
        if self.output is not None:
            self.output.seek(0)
            said = self.output.read().decode("utf-8", "replace").strip()[-_SAID:]
        self.forget()
        return code, said

    def forget(self) -> None:
        """Let go of all that this side has of it."""
        self.view = None
        self._files.close()


def _environment() -> dict[str, str]:
    """The environment of the process: this maxlab, with these settings."""
    settings = config()
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "MAXLAB_CACHE_DIR": str(settings.cache_dir),
        "MAXLAB_NUM_THREADS": str(settings.num_threads),
        **({"MAXLAB_CC": settings.cc} if settings.cc else {}),
    }


class Child:
    """A process beside this one, which starts when something is called in it.

    Threads may share it: who calls several functions that belong together holds ``lock``.

    Args:
        captured: Whether what the process prints is kept, for `ChildEndedError`; else it goes where
            this process prints.
        folder: Where it runs; the current folder when left out.
    """

    def __init__(self, *, captured: bool = False, folder: Path | None = None) -> None:
        self.lock = threading.RLock()
        self._folder = folder
        self._captured = captured
        self._found: list[_Process] = []  # none, or one
        self._known: dict[tuple[str, tuple[Any, ...]], Any] = {}
        weakref.finalize(self, _end_all, self._found)
        _CHILDREN.add(self)

    @property
    def pid(self) -> int | None:
        """The number of the process; None when none is running."""
        return self._found[0].process.pid if self._found else None

    def call(self, function: str, *args: Any, seconds: float) -> Any:
        """The result of ``function`` on ``args`` in the process.

        Args:
            function: ``module:name``, a function of maxlab.
            *args: Numbers, texts, lists and dictionaries, as in JSON; so is what it gives.
            seconds: After how long the process is stopped.

        Raises:
            ChildEndedError: The process ended before the function did.
            ToolchainError: ML778, no process can be started; another, one that the function raised.
        """
        with self.lock:
            process = self._started()
            try:
                process.send({"call": function, "args": args, "seconds": seconds})
                answer = process.receive(seconds)
            except EOFError:
                raise self._ended(late=False) from None
            except TimeoutError:
                raise self._ended(late=True) from None
            except BaseException:  # an interrupt: what the process does meanwhile is of no use
                self.end()
                raise
        if "raised" in answer:
            raise ToolchainError(answer["code"], answer["raised"], fix=answer["fix"])
        return answer["made"]

    def once(self, function: str, *args: Any) -> Any:
        """As `call` with the time that a start may take; for a process that has answered the same
        before, what it gave then.

        Raises:
            ToolchainError: As `call`; ML778, the process ended before it answered.
        """
        with self.lock:
            self._started()
            key = function, args
            if key not in self._known:
                try:
                    self._known[key] = self.call(function, *args, seconds=START_S)
                except ChildEndedError as ended:
                    raise _unusable(f"it {ended.how}", ended.said) from None
            return self._known[key]

    def memory(self, nbytes: int) -> tuple[int, mmap.mmap]:
        """Memory that both processes have, at least ``nbytes`` of it: the number of its file there,
        and what it is here. What it holds stays until the process ends.

        Raises:
            MemoryError: The system has no more.
            ToolchainError: ML778, no process can be started.
        """
        with self.lock:
            process = self._started()
            size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
            if process.view is None or process.size < size:
                try:
                    os.posix_fallocate(process.memory, 0, size)
                    process.view = mmap.mmap(process.memory, size)
                except OSError as error:
                    raise MemoryError(str(error)) from None
                process.size = size
            return process.memory, process.view

    def spare(self) -> None:
        """Give shared memory back, when there is more than calls usually need."""
        with self.lock:
            if self._found and self._found[0].size > KEPT:
                process = self._found[0]
                assert process.view is not None
                process.view.madvise(mmap.MADV_REMOVE)  # who still looks at it sees zeros
                process.size = 0

    def end(self) -> None:
        """End the process, if there is one; the next call starts another."""
        with self.lock:
            _end_all(self._found)

    def _started(self) -> _Process:
        if self._found and self._found[0].process.poll() is not None:
            self._found.pop().end()  # somebody has ended it between two calls
        if self._found:
            return self._found[0]
        if not hasattr(os, "memfd_create"):
            raise _unusable(f"{sys.platform} has no memory that two processes share by a file")
        try:
            process = _Process(self._captured, self._folder)
        except OSError as error:
            raise _unusable(str(error)) from None
        self._found.append(process)
        self._known.clear()
        try:
            process.receive(START_S)
        except (EOFError, TimeoutError):
            ended = self._ended(late=False)
            raise _unusable(f"{sys.executable} {ended.how}", ended.said) from None
        except BaseException:
            self.end()
            raise
        return process

    def _ended(self, *, late: bool) -> ChildEndedError:
        """How the process ended, which is ended now if it was not."""
        import subprocess

        process = self._found.pop()
        if not late:
            try:
                process.process.wait(2)
            except subprocess.TimeoutExpired:
                pass  # it closed the socket and goes on
        code, said = process.end()
        if late or code == -signal.SIGALRM:
            return ChildEndedError(late=True, said=said)
        if code < 0:
            return ChildEndedError(signal=-code, said=said)
        return ChildEndedError(status=code, said=said)


def _unusable(why: str, said: str = "") -> ToolchainError:
    return ToolchainError(
        "ML778",
        f"the process beside this one cannot be used: {why}",
        why=[said] if said else [],
        fix="run maxlab in a Python on Linux that can start itself: sys.executable says which",
    )


def _end_all(found: list[_Process]) -> None:
    while found:
        process = found.pop()
        if process.owner == os.getpid():
            process.end()


_CHILDREN: weakref.WeakSet[Child] = weakref.WeakSet()


def _forget_after_fork() -> None:
    """Let go of the processes of the one that this is a fork of: they are not its own."""
    for child in _CHILDREN:
        child.lock = threading.RLock()  # another thread of it may have held the lock
        for process in child._found:
            process.forget()
            process.process.returncode = 0  # nobody here waits for it
        child._found.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)

__all__ = ["Child", "ChildEndedError", "signal_name"]
