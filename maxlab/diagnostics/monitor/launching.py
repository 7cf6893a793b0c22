"""Starting the monitor's process, finding the one that runs, and ending it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxlab.diagnostics.gpu.recorder import (
    START_TIMEOUT_S,
    UNABLE,
    _how_it_ended,
    _python,
    reason,
)
from maxlab.diagnostics.monitor import _own
from maxlab.diagnostics.monitor._process import EXIT_SECOND, READY, STUCK_S
from maxlab.diagnostics.monitor.places import (
    LOG,
    STARTING,
    STATE,
    Identity,
    holder,
    identity,
    small,
)
from maxlab.errors import DeviceError

# Longer than the monitor gives itself, so that it is killed only when it cannot even end itself.
STOP_TIMEOUT_S = STUCK_S + 1.0

# After a signal that no process can refuse; it may wait inside a driver, where none arrives.
KILL_TIMEOUT_S = 2.0

# Of others who start or stop the same monitor.
TURN_TIMEOUT_S = START_TIMEOUT_S + STOP_TIMEOUT_S + KILL_TIMEOUT_S

TITLE = "maxlab-monitor"
"""The last argument of a monitor's process, for people and programs that list processes."""

_BOOT = """\
import json, sys
setup = json.loads(sys.stdin.buffer.readline())
sys.path[:] = setup["path"]
from maxlab.diagnostics.monitor._process import main
main(setup)
"""


@dataclass(frozen=True, slots=True)
class Running:
    """The monitor of a session.

    Attributes:
        process: That the system says holds the session's lock.
        period_ns: From one sample to the next; None until it has said so.
        label: Of the recording.
        run: Of the monitor.
    """

    process: Identity
    period_ns: int | None = None
    label: str = ""
    run: str = ""


def running(folder: Path) -> Running | None:
    """The monitor that records into ``folder`` now; None when there is none."""
    process = holder(folder)
    if process is None:
        return None
    try:
        state = json.loads(_own.content(folder / STATE))
        said = Running(
            Identity(int(state["pid"]), int(state["start"])),
            int(state["period_ns"]),
            str(state["label"]),
            str(state["run"]),
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Running(process)
    # Of what the file says nothing is done to a process: it may be damaged, or somebody's joke.
    return said if said.process == process else Running(process)


def start(
    folder: Path, owner: Identity, period_ns: int, label: str, max_bytes: int
) -> tuple[Running, bool]:
    """The monitor of ``folder``, and whether it is a new one. One that runs at the same pace is
    taken as it is; one that runs at another is ended first, and the recording goes on.

    Raises:
        DeviceError: ML831, the process did not start, and why; ML836, one that runs at another pace
            could not be ended.
    """
    with _turn(folder) as has_turn:
        if not has_turn:
            raise not_started(
                folder, f"another start or stop of it has not ended in {TURN_TIMEOUT_S:.0f} s"
            )
        found = running(folder)
        if found is not None and found.period_ns == period_ns and found.label == label:
            return found, False
        _end_all(folder)
        _spawn(
            folder,
            {
                "path": [os.path.abspath(entry) for entry in sys.path],
                "folder": str(folder),
                "period_ns": period_ns,
                "label": label,
                "max_bytes": max_bytes,
                "owner": [owner.pid, owner.start],
            },
        )
        made = running(folder)
    if made is None:
        raise not_started(folder, "it ended again at once")
    return made, True


def stop(folder: Path) -> None:
    """End the monitor of ``folder``, if one runs. Returns when it has ended.

    Raises:
        DeviceError: ML836, it could not be ended.
    """
    # Without a turn, as when the folder was removed, it ends the monitor all the same.
    with contextlib.suppress(OSError), _turn(folder):
        _end_all(folder)
        return
    _end_all(folder)


@contextlib.contextmanager
def _turn(folder: Path) -> Iterator[bool]:
    """One start or stop of a session at a time, whoever does it; False when others take too long.

    Raises:
        OSError: The file to wait at cannot be opened.
    """
    file = _own.opened(folder / STARTING, os.O_RDWR | os.O_CREAT)
    try:
        deadline = time.monotonic() + TURN_TIMEOUT_S
        pause_s = 0.002
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    yield False
                    return
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.05)
        yield True
    finally:
        os.close(file)


def _spawn(folder: Path, setup: dict[str, Any]) -> None:
    # -P: the current directory must not shadow what the boot text imports.
    command = [_python(), "-P", "-c", _BOOT, TITLE]
    try:
        text = json.dumps(setup).encode() + b"\n"
        with open(_own.created(folder / LOG), "wb") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                cwd="/",
                # Signals to a kernel and its group, as at a restart, do not reach the monitor.
                start_new_session=True,
            )
    except UNABLE as error:
        raise not_started(folder, f"{command[0]} cannot be run: {reason(error)}") from error
    try:
        # Whoever started it reaps it, so that it leaves no zombie when somebody else stops it.
        threading.Thread(target=child.wait, name="maxlab-monitor-wait", daemon=True).start()
        _await_first_sample(folder, child, text)
    except BaseException as error:
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STOP_TIMEOUT_S)
        if isinstance(error, UNABLE) and not isinstance(error, DeviceError):
            raise not_started(folder, reason(error)) from error
        raise
    finally:
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def _await_first_sample(folder: Path, child: subprocess.Popen[bytes], setup: bytes) -> None:
    assert child.stdin is not None, "it is a pipe"
    assert child.stdout is not None, "it is a pipe"
    with contextlib.suppress(BrokenPipeError):  # it died; why is told below
        while setup:
            setup = setup[child.stdin.write(setup) :]
    poller = select.poll()
    poller.register(child.stdout, select.POLLIN)
    if not poller.poll(START_TIMEOUT_S * 1000):
        raise not_started(folder, f"no sample within {START_TIMEOUT_S:.0f} s")
    if child.stdout.read(len(READY)) != READY:
        code = child.wait(STOP_TIMEOUT_S)
        if code == EXIT_SECOND:
            raise not_started(folder, "another monitor holds the lock of this session")
        raise not_started(folder, f"it {_how_it_ended(code)}")


# ---------------------------------------------------------------- ending


def _end_all(folder: Path) -> None:
    """End each process that records into ``folder``; returns when they are gone.

    Raises:
        DeviceError: ML836, one of them could not be ended.
    """
    found = {holder(folder), *_strays(folder)} - {None}
    left = [process for process in found if process is not None and not _end(process)]
    if left:
        numbers = ", ".join(str(process.pid) for process in left)
        raise DeviceError(
            "ML836",
            f"the monitor's process {numbers} could not be stopped: it goes on recording",
            why=[f"it did not end within {STOP_TIMEOUT_S + KILL_TIMEOUT_S:.0f} s of being told to"],
            fix=f"stop it as its owner: kill -9 {numbers}; if it stays, its GPU's driver hangs",
        )


def _strays(folder: Path) -> list[Identity]:
    """Monitors that have files below ``folder`` open, though their lock was removed."""
    found = []
    place = os.path.join(os.path.realpath(folder), "")
    for pid in filter(None, map(small, os.listdir("/proc"))):
        with contextlib.suppress(OSError):  # it ended, or belongs to somebody else
            # The title is the last argument, and the text before it is the one that is run.
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[-3:] != [_BOOT.encode(), TITLE.encode(), b""]:
                continue
            files = os.listdir(f"/proc/{pid}/fd")
            if any(os.readlink(f"/proc/{pid}/fd/{file}").startswith(place) for file in files):
                process = identity(pid)
                if process is not None:
                    found.append(process)
    return found


def _end(process: Identity) -> bool:
    """Whether ``process`` is gone, told to end and in the end killed."""
    for number, patience_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, KILL_TIMEOUT_S)):
        _signal(process, number)
        deadline = time.monotonic() + patience_s
        pause_s = 0.002
        while process.is_alive():
            if time.monotonic() > deadline:
                break
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.05)
        else:
            return True
    return False


def _signal(process: Identity, number: signal.Signals) -> None:
    """Send a signal to ``process``, and never to another that has taken its number."""
    with contextlib.suppress(OSError):
        file = os.pidfd_open(process.pid)
        try:
            if identity(process.pid) == process:
                signal.pidfd_send_signal(file, number)
        finally:
            os.close(file)


def not_started(folder: Path, why: str) -> DeviceError:
    """The error for a monitor of ``folder`` that does not run, with its last words."""
    said: list[str] = []
    with contextlib.suppress(OSError, MemoryError):
        text = _own.content(folder / LOG).decode("utf-8", "replace")
        said = [line[:200] for line in text.strip().splitlines()[-1:]]
    return DeviceError(
        "ML831",
        "the monitor's process did not start",
        why=[why, *(f"it said: {text.strip()}" for text in said)],
        fix="mend what it names; does nvidia-smi or amd-smi answer?",
    )
