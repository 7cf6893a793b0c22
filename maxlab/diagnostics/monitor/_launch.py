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

from maxlab.diagnostics.gpu.recorder import START_TIMEOUT_S, _how_it_ended, _python
from maxlab.diagnostics.monitor._place import Identity, identity
from maxlab.diagnostics.monitor._process import EXIT_SECOND, READY, STATE, STUCK_S
from maxlab.errors import DeviceError

# Longer than the monitor gives itself, so that it is killed only when it cannot even end itself.
STOP_TIMEOUT_S = STUCK_S + 1.0

_STARTING = "starting"
_LOG = "monitor.log"

_BOOT = """\
import json, sys
setup = json.loads(sys.stdin.buffer.readline())
sys.path[:] = setup["path"]
from maxlab.diagnostics.monitor._process import main
main(setup)
"""


@dataclass(frozen=True, slots=True)
class Running:
    """The monitor of a session, as it says itself."""

    process: Identity
    period_ns: int
    label: str
    run: str


def running(folder: Path) -> Running | None:
    """The monitor that records into ``folder`` now; None when there is none."""
    try:
        state = json.loads((folder / STATE).read_text("utf-8"))
        found = Running(
            Identity(int(state["pid"]), int(state["start"])),
            int(state["period_ns"]),
            str(state["label"]),
            str(state["run"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.process.is_alive() else None


def start(
    folder: Path, owner: Identity, period_ns: int, label: str, max_bytes: int
) -> tuple[Running, bool]:
    """The monitor of ``folder``, and whether it is a new one. One that runs at the same pace is
    taken as it is; one that runs at another is ended first, and the recording goes on.

    Raises:
        DeviceError: ML831, the process did not start, and why.
    """
    with _alone(folder):
        found = running(folder)
        if found is not None:
            if found.period_ns == period_ns and found.label == label:
                return found, False
            _end(found.process)
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
        raise _not_started(folder, "it ended again at once")
    return made, True


def stop(folder: Path) -> bool:
    """End the monitor of ``folder``; False when none ran. Returns when it has ended."""
    with _alone(folder):
        found = running(folder)
        if found is None:
            return False
        _end(found.process)
    return True


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One start or stop of a session at a time, whoever does it."""
    file = os.open(folder / _STARTING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _spawn(folder: Path, setup: dict[str, Any]) -> None:
    # -P: the current directory must not shadow what the boot text imports.
    command = [_python(), "-P", "-c", _BOOT, "maxlab-monitor"]
    with (folder / _LOG).open("wb") as log:
        try:
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
        except OSError as error:
            raise _not_started(folder, f"{command[0]} cannot be run: {error}") from error
    assert child.stdin is not None, "it is a pipe"
    assert child.stdout is not None, "it is a pipe"
    # Whoever started it reaps it, so that it leaves no zombie when somebody else stops it.
    threading.Thread(target=child.wait, name="maxlab-monitor-wait", daemon=True).start()
    try:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps(setup).encode() + b"\n")
        poller = select.poll()
        poller.register(child.stdout, select.POLLIN)
        if not poller.poll(START_TIMEOUT_S * 1000):
            child.kill()
            raise _not_started(folder, f"no sample within {START_TIMEOUT_S:.0f} s")
        if child.stdout.read(len(READY)) != READY:
            code = child.wait(STOP_TIMEOUT_S)
            if code == EXIT_SECOND:
                raise _not_started(folder, "another monitor holds the lock of this session")
            raise _not_started(folder, f"it {_how_it_ended(code)}")
    finally:
        child.stdin.close()
        child.stdout.close()


def _end(process: Identity) -> None:
    if not _signal(process, signal.SIGTERM):
        return
    deadline = time.monotonic() + STOP_TIMEOUT_S
    pause_s = 0.002
    while process.is_alive():
        if time.monotonic() > deadline:
            _signal(process, signal.SIGKILL)
            return
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)


def _signal(process: Identity, number: signal.Signals) -> bool:
    """Send a signal to ``process``, and never to another that has taken its number."""
    try:
        file = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if identity(process.pid) != process:
            return False
        signal.pidfd_send_signal(file, number)
    except OSError:
        return False
    finally:
        os.close(file)
    return True


def _not_started(folder: Path, why: str) -> DeviceError:
    said: list[str] = []
    with contextlib.suppress(OSError):
        said = (folder / _LOG).read_text("utf-8", "replace").strip().splitlines()[-1:]
    return DeviceError(
        "ML831",
        "the monitor's process did not start",
        why=[why, *(f"it said: {text.strip()}" for text in said)],
        fix="mend what it names; does nvidia-smi or amd-smi answer?",
    )
