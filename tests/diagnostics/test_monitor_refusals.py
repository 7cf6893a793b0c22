"""What a monitor or recorder cannot work with, from arguments to memory: told, not hidden."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from maxlab.diagnostics import Monitor
from maxlab.diagnostics.gpu import BackgroundRecorder
from maxlab.diagnostics.monitor import launching
from maxlab.diagnostics.monitor._settings import checked_bytes
from maxlab.errors import ArgumentTypeError, DeviceError, MaxlabError
from tests.diagnostics.children import each
from tests.diagnostics.monitoring import base as base
from tests.diagnostics.monitoring import monitors, samples, wait_for

# ---------------------------------------------------------------- arguments

PERIODS = {
    "1e300": 1e300, "1e18": 1e18, "huge": 10**400, "-huge": -(10**400), "zero": 0, "less": -1,
    "NaN": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "short": 0.009,
}  # fmt: skip


@pytest.mark.parametrize("name", list(PERIODS))
def test_periods_out_of_range(name: str, base: Path) -> None:
    for make in (Monitor.start, lambda period: BackgroundRecorder(period_s=period)):
        with pytest.raises(DeviceError, match="ML431") as caught:
            make(PERIODS[name])
        assert caught.value.fix
        assert len(str(caught.value)) < 500
    assert not base.exists()


@pytest.mark.parametrize("period", ["1", "1 s", None, [1], True, b"1", 1j], ids=repr)
def test_periods_that_are_no_numbers(period: Any) -> None:
    for make in (Monitor.start, lambda period: BackgroundRecorder(period_s=period)):
        with pytest.raises(ArgumentTypeError, match="ML431"):
            make(period)


SIZES: dict[Any, int] = {
    "1MB": 10**6, "1 MiB": 1 << 20, "500kB": 500_000, "500 KB": 500_000, "2mib": 2 << 20,
    "1.5 GB": 1_500_000_000, "1GiB": 1 << 30, "65536": 65536, "65536 B": 65536, " 1 TB ": 10**12,
    100_000: 100_000, 1e6: 10**6,
}  # fmt: skip


@pytest.mark.parametrize("size", list(SIZES), ids=repr)
def test_sizes_with_units(size: Any) -> None:
    assert checked_bytes(size) == SIZES[size]


BAD_SIZES = {
    "no number": "MB", "nonsense": "1 bananas", "half a unit": "1M", "sign": "-1MB", "empty": "",
    "exponent": "1e9MB", "two": "1MB 2MB", "NaN": float("nan"), "inf": float("inf"), "less": -1,
    "too few": "64kB", "fraction": 70000.5, "true": True, "none": None, "list": [1 << 20],
    "bytes": b"1MB", "huge": 10**400, "huge text": "9" * 5000 + "GB", "superscript": "²MB",
    "words": "NaN MB",
}  # fmt: skip


@pytest.mark.parametrize("name", list(BAD_SIZES))
def test_sizes_that_are_none(name: str, base: Path) -> None:
    size: Any = BAD_SIZES[name]
    with pytest.raises(MaxlabError, match="ML835") as caught:
        Monitor.start(max_bytes=size)
    assert "max_bytes" in caught.value.what
    assert caught.value.fix
    assert len(str(caught.value)) < 500
    assert not base.exists()


def test_a_size_with_a_unit_bounds_the_recording() -> None:
    with Monitor.start(period_s=0.01, max_bytes="66kB") as monitor:
        wait_for(lambda: len(list(monitor.folder.glob("samples-*"))) > 1, "a second segment")
        assert max(p.stat().st_size for p in monitor.folder.glob("samples-*")) <= 66_000 / 16 * 1.1


# ---------------------------------------------------------------- state that is garbage

GARBAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_text(""),
    "words": lambda path: path.write_text("garbage"),
    "a list": lambda path: path.write_text("[1, 2]"),
    "nested": lambda path: path.write_text("[" * 100_000),
    "long number": lambda path: path.write_text("9" * 10_000),
    "huge": lambda path: path.write_text('{"pid": 1e400, "start": 1, "period_ns": 1, "label": "",'
                                         ' "run": ""}'),
    "bytes": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "gone": lambda path: path.unlink(),
    "the lock": lambda path: (path.parent / "lock").unlink(),
    "both": lambda path: (path.parent / "lock").rename(path),
}  # fmt: skip


@pytest.mark.parametrize("name", list(GARBAGE))
def test_stop_ends_the_process_whatever_its_state_says(base: Path, name: str) -> None:
    monitor = Monitor.start(period_s=3600)
    pid = monitor.pid
    assert pid is not None
    GARBAGE[name](monitor.folder / "monitor.json")
    if name not in ("the lock", "both"):
        assert monitor.is_running
        assert monitor.pid == pid
        repr(monitor)
    monitor.stop()
    assert not monitor.is_running
    wait_for(lambda: not psutil.pid_exists(pid), "the process to end")
    with Monitor.start(period_s=3600) as again:
        assert again.period_s == 3600
        assert len(monitors(base)) == 1


def test_stop_ends_the_process_when_its_folder_is_gone(base: Path) -> None:
    monitor = Monitor.start(period_s=3600)
    pid = monitor.pid
    assert pid is not None
    shutil.rmtree(monitor.folder)
    monitor.stop()
    wait_for(lambda: not psutil.pid_exists(pid), "the process to end")


def test_a_process_that_its_state_names_falsely_is_left_alone(base: Path) -> None:
    """Whoever can write the file must not be able to have another process ended."""
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        monitor = Monitor.start(period_s=3600)
        pid = monitor.pid
        assert pid is not None
        state = json.loads((monitor.folder / "monitor.json").read_text())
        with open(f"/proc/{bystander.pid}/stat") as file:
            start = int(file.read().rpartition(")")[2].split()[19])
        forged = {**state, "pid": bystander.pid, "start": start}
        (monitor.folder / "monitor.json").write_text(json.dumps(forged))
        assert monitor.pid == pid
        monitor.stop()
        wait_for(lambda: not psutil.pid_exists(pid), "the process to end")
        (monitor.folder / "monitor.json").write_text(json.dumps(forged))
        assert not monitor.is_running
        monitor.stop()
        assert bystander.poll() is None, "stop ended a process that is no monitor"
    finally:
        bystander.kill()
        bystander.wait()


def test_a_monitor_that_is_held_is_ended(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "STOP_TIMEOUT_S", 0.2)
    monitor = Monitor.start(period_s=3600)
    pid = monitor.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    monitor.stop()
    wait_for(lambda: not psutil.pid_exists(pid), "the process to end")


def test_a_monitor_that_cannot_be_ended_is_told_of(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = Monitor.start(period_s=3600)
    pid = monitor.pid
    with monkeypatch.context() as patch:

        def refused(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        patch.setattr(launching, "STOP_TIMEOUT_S", 0.2)
        patch.setattr(launching, "KILL_TIMEOUT_S", 0.2)
        patch.setattr(signal, "pidfd_send_signal", refused)
        with pytest.raises(DeviceError, match="ML836") as caught:
            monitor.stop()
    assert str(pid) in caught.value.what
    assert monitor.is_running
    monitor.stop()
    assert not monitor.is_running


def test_somebody_who_never_lets_go_holds_nobody_up_for_ever(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = Monitor.start(period_s=3600)
    monkeypatch.setattr(launching, "TURN_TIMEOUT_S", 0.2)
    held = os.open(monitor.folder / "starting", os.O_RDWR)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DeviceError, match="ML831"):
            Monitor.start(period_s=1)
        monitor.stop()
        assert not monitor.is_running
    finally:
        os.close(held)


# ---------------------------------------------------------------- limits

LIMITED = """
import subprocess, threading, time
from maxlab.diagnostics.gpu import BackgroundRecorder

def record():
    with BackgroundRecorder(period_s=0.05):
        pass

def monitor():
    with Monitor.start(period_s=0.05):
        pass

def tell(work):
    try:
        work()
        print("fine")
    except MaxlabError as error:
        print(error.code if len(str(error)) < 1500 else str(error))
    except BaseException as error:
        print("bare", type(error).__name__, error)

def limit_children(megabytes):
    start = subprocess.Popen
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)
    subprocess.Popen = lambda *a, **k: start(*a, **k, preexec_fn=limit)

def limit_this(megabytes):
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * 4096
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (held + (megabytes << 20), most))

def fail(error):
    def failing(*_, **__):
        raise error
    return failing

def lives(process):
    try:
        return process.status() != "zombie"
    except psutil.NoSuchProcess:  # it ended since it was listed
        return False

def left():
    resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
    deadline = time.monotonic() + 20
    found = []
    while time.monotonic() < deadline:
        found = [c.pid for c in psutil.Process().children() if lives(c)]
        if not found:
            break
        time.sleep(0.02)
    print(found, Monitor().is_running)
"""

UNABLE = {
    "thread": 'threading.Thread.start = fail(RuntimeError("can\'t start new thread"))',
    "memory for a thread": "threading.Thread.start = fail(MemoryError())",
    "process": "subprocess.Popen.__init__ = fail(BlockingIOError(11, 'try again'))",
    "memory for a process": "subprocess.Popen.__init__ = fail(MemoryError())",
    # This process, and those that it starts, may write files of no size.
    "disk": "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))",
    "memory for marks": "marks.attach = fail(MemoryError())",
}


def test_under_limits_it_is_told_and_no_process_is_left(base: Path) -> None:
    """Too little memory to begin, to import or to start a thread, in the new process or this one;
    and this one unable to start what it needs."""
    before = {
        **{f"{most} MB": f"limit_children({most})" for most in (12, 26, 40)},
        **{f"{spare} MB to spare": f"limit_this({spare})" for spare in (0, 4)},
        **UNABLE,
    }
    programs = {
        name: f"{limit}\ntell(record)\ntell(monitor)\nleft()" for name, limit in before.items()
    }
    faults = {}
    for name, said in each(programs, LIMITED).items():
        lines = said.splitlines()
        if (
            len(lines) != 3
            or lines[0] not in ("fine", "ML432")
            or lines[1] not in ("fine", "ML831", "ML832")
            or lines[2] != "[] False"
        ):
            faults[name] = said[-600:]
    assert not faults


def test_old_samples_stay_when_it_starts_again(base: Path) -> None:
    with Monitor.start(period_s=0.02) as monitor:
        wait_for(lambda: samples(monitor) > 3, "samples")
    before = samples(monitor)
    with Monitor.start(period_s=0.02):
        pass
    assert samples(monitor) > before
