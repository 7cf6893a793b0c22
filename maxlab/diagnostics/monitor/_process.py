"""The monitor's process: samples the machine at a steady pace into a ring of files.

A fresh interpreter, started by :mod:`maxlab.diagnostics.monitor.launching`. It belongs to the
session, not to who started it: it goes on when that kernel is killed, and ends

* when it is told to, by SIGTERM;
* when the process that owns the session (the Jupyter server) is gone;
* when its files are removed.

Two monitors of one session cannot run: each holds a lock on a file of the session's folder. By that
lock others find the process, whatever its files say.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import threading
import time
from pathlib import Path
from typing import Any

from maxlab.diagnostics.monitor import _own, line_format
from maxlab.diagnostics.monitor._gpus import GPUs
from maxlab.diagnostics.monitor._host import Host
from maxlab.diagnostics.monitor._users import Owners, Row, UserProcesses, pacer
from maxlab.diagnostics.monitor.places import STATE, Identity, hold, me
from maxlab.diagnostics.monitor.segments import Writer

READY = b"ready\n"
PREFIX = "samples"

# A driver that hangs may keep a reading from coming back; the process then ends without it.
STUCK_S = 1.0
EXIT_STUCK = 75
EXIT_SECOND = 76

_LOOK_FOR_OWNER_S = 1.0
# Readings that hold the process up for tens of milliseconds are for paces that leave room for them.
_MAY_WAIT_NS = 500_000_000


def main(setup: dict[str, Any]) -> None:
    """Sample until there is a reason to stop.

    Args:
        setup: ``folder``, where to write; ``period_ns``, from one sample to the next;
            ``max_bytes``, of all samples together; ``label``, of the recording; ``owner``, number
            and start of the process that the session belongs to.
    """
    # Ctrl-C and a closed terminal are meant for the programs of the session.
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    # A vendor's library may print; only our one line may reach who started us.
    ready = os.dup(1)
    os.dup2(2, 1)

    folder = Path(setup["folder"])
    lock = hold(folder)
    if lock is None:
        os._exit(EXIT_SECOND)
    life = _Life(Identity(*setup["owner"]), lock)
    sampler = _Sampler(folder, setup, life)
    sampler.run(ready)
    # Nothing is left to tidy up.
    os._exit(0)


class _Life:
    """Watches for reasons to end, from a thread of its own: a reading may never come back."""

    def __init__(self, owner: Identity, lock: int) -> None:
        self.reason = ""
        self._owner = owner
        self._lock = lock
        self._over = threading.Event()
        self._done = threading.Event()
        self._signalled, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # The handler of the interpreter waits for the main thread; the byte in the pipe does not.
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="life", daemon=True).start()

    def wait_until(self, time_ns: int) -> bool:
        """Whether it is over; returns at ``time_ns`` of the monotonic clock at last."""
        return self._over.wait(max(time_ns - time.monotonic_ns(), 0) / 1e9)

    def finish(self) -> None:
        """The main thread has come to its end in time."""
        self._done.set()

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(self._signalled, select.POLLIN)
        with contextlib.suppress(OSError, AttributeError):  # gone already, or an old kernel
            poller.register(os.pidfd_open(self._owner.pid), select.POLLIN)
        while not self.reason:
            if not self._owner.is_alive():
                self.reason = "the session ended"
                break
            # Who looks for this process finds it by the lock, and another would start beside it.
            if os.fstat(self._lock).st_nlink == 0:
                self.reason = "its files were removed"
                break
            for file, _ in poller.poll(_LOOK_FOR_OWNER_S * 1000):
                if file == self._signalled and signal.SIGTERM in os.read(file, 64):
                    self.reason = "stopped"
        self._over.set()
        if not self._done.wait(STUCK_S):
            os._exit(EXIT_STUCK)


class _Sampler:
    def __init__(self, folder: Path, setup: dict[str, Any], life: _Life) -> None:
        self._folder = folder
        self._life = life
        self._period_ns: int = setup["period_ns"]
        self._run = secrets.token_hex(8)
        self._facts = {
            "period_ns": self._period_ns,
            "label": setup["label"],
            "pid": os.getpid(),
            # Both clocks at one moment: times can be told to a person.
            "mono_ns": time.monotonic_ns(),
            "wall_ns": time.time_ns(),
        }
        self._host = Host(setup["owner"][0])
        self._gpus = GPUs(self._period_ns >= _MAY_WAIT_NS)
        self._columns = self._host.columns
        self._problems: dict[str, str] = {}
        self._processes: dict[str, list[list[Any]]] = {}
        self._users = UserProcesses(setup["owner"][0], self._host.cores)
        self._is_table_due = pacer(self._period_ns)
        self._table: tuple[list[Row], Owners] = ([], {})
        self._then_ns = self._facts["mono_ns"]
        self._writer = Writer(folder, PREFIX, setup["max_bytes"], self._beginning)

    def _beginning(self, segment: int) -> bytes:
        """The lines that make a segment readable without those before it."""
        facts = {**self._facts, "names": self._gpus.names}
        return (
            line_format.head(self._run, segment, facts)
            + line_format.columns_line(self._columns)
            + line_format.line("p", self._then_ns, self._problems)
            + line_format.line("g", self._then_ns, self._processes)
            + line_format.line("t", self._then_ns, *self._table)
        )

    def run(self, ready: int) -> None:
        """Sample until it is over."""
        start_ns = time.monotonic_ns()
        number = tick = 0
        while True:
            # A full disk costs samples, and a gap in their numbers says how many; it may end.
            with contextlib.suppress(OSError):
                self._writer.write(self._sample(number))
            if number == 0:
                self._publish()
                os.write(ready, READY)
                os.close(ready)
            number += 1
            # On the grid of the first sample, so that lateness does not add up; what was missed
            # while a reading took long is not made up for.
            tick = max(tick + 1, -(-(time.monotonic_ns() - start_ns) // self._period_ns))
            if self._life.wait_until(start_ns + tick * self._period_ns):
                break
            if self._writer.is_removed:
                break
        self._life.finish()
        reason = self._life.reason or "its files were removed"
        with contextlib.suppress(OSError):
            self._writer.write(line_format.line("e", time.monotonic_ns(), reason))
        with contextlib.suppress(OSError):
            (self._folder / STATE).unlink()
        self._gpus.close()

    def _sample(self, number: int) -> bytes:
        began_ns = time.monotonic_ns()
        values = self._host.read()
        values += self._gpus.read(self._host.session)
        # The counters were read somewhere between the two.
        self._then_ns = time_ns = (began_ns + time.monotonic_ns()) // 2
        lines = b""
        columns = [*self._host.columns, *self._gpus.columns]
        if columns != self._columns:
            self._columns = columns
            lines += line_format.head(self._run, 0, {**self._facts, "names": self._gpus.names})
            lines += line_format.columns_line(columns)
        if self._gpus.problems != self._problems:
            self._problems = self._gpus.problems
            lines += line_format.line("p", time_ns, self._problems)
        if self._gpus.processes != self._processes:
            self._processes = self._gpus.processes
            lines += line_format.line("g", time_ns, self._processes)
        if self._is_table_due(time_ns):
            held: dict[int, int] = {}
            for rows in self._gpus.processes.values():
                for pid, _, nbytes in rows:
                    held[pid] = held.get(pid, 0) + nbytes
            table = self._users.read(held)
            if table != self._table:
                self._table = table
                lines += line_format.line("t", time_ns, *table)
        return lines + line_format.line("s", number, time_ns, [_short(value) for value in values])

    def _publish(self) -> None:
        """Say who records here, for others to find."""
        mine = me()
        state = {"pid": mine.pid, "start": mine.start, "run": self._run, **self._facts}
        _own.replace(self._folder / STATE, json.dumps(state))


def _short(value: float | None) -> float | int | None:
    """``value`` without digits that no counter has."""
    if value is None:
        return None
    rounded = round(value, 2)
    return int(rounded) if rounded == int(rounded) else rounded
