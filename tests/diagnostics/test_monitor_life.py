"""The monitor's process outlives its starter, ends when it should, and loses no history."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from maxlab import trace
from maxlab.diagnostics import Monitor
from maxlab.diagnostics.monitor.places import (
    identity,
    session_owner,
)
from maxlab.errors import ArgumentTypeError, DeviceError
from tests.diagnostics.conftest import Machine
from tests.diagnostics.monitoring import GPU, kernel, monitors, samples, wait_for
from tests.diagnostics.monitoring import base as base

# ---------------------------------------------------------------- start and stop


def test_nothing_runs_before_start_or_after_stop(base: Path) -> None:
    assert Monitor.current() is None
    assert not Monitor().is_running
    assert repr(Monitor()) == "Monitor(never started)"
    assert not base.exists()
    monitor = Monitor.start(period_s=0.05)
    assert monitor.is_running
    assert monitor.period_s == 0.05
    assert repr(monitor) == "Monitor(recording every 0.05 s)"
    pid = monitor.pid
    assert pid is not None
    process = psutil.Process(pid)
    assert pid != os.getpid()
    assert os.getsid(pid) == pid
    monitor.stop()
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    wait_for(lambda: not psutil.pid_exists(pid), "the process to be reaped")
    assert Monitor().pid is None
    assert repr(monitor) == "Monitor(stopped)"
    before = samples(monitor)
    monitor.stop()
    time.sleep(0.2)
    assert samples(monitor) == before >= 1


def test_a_second_start_takes_over_the_first() -> None:
    first = Monitor.start(period_s=0.05)
    second = Monitor.start(period_s=0.05)
    assert second.pid == first.pid
    other = Monitor.start(period_s=0.02)
    assert other.period_s == 0.02
    assert not psutil.pid_exists(first.pid or 0) or other.pid == first.pid
    wait_for(lambda: samples(other) > 5, "samples")
    other.stop()
    recording = other.recording()
    assert recording.period_ns == 20_000_000
    assert len(recording.starts) == 2


def test_many_starts_at_once_make_one_monitor(base: Path) -> None:
    program = """
        from maxlab.diagnostics import Monitor
        print(Monitor.start(period_s=0.1).pid)
    """
    kernels = [kernel(program) for _ in range(4)]
    pids = {process.communicate(timeout=60)[0].strip() for process in kernels}
    assert len(pids) == 1
    assert len(monitors(base)) == 1
    Monitor(session_owner({"JPY_PARENT_PID": str(os.getpid())})).stop()


def test_as_a_context_manager() -> None:
    with Monitor.start(period_s=0.02) as monitor:
        wait_for(lambda: samples(monitor) > 2, "samples")
    assert not monitor.is_running


@pytest.mark.parametrize("period", [0, -1, 0.001, float("nan"), float("inf")])
def test_periods_that_make_no_sense(period: float) -> None:
    with pytest.raises(DeviceError, match="ML431"):
        Monitor.start(period)


def test_arguments_of_the_wrong_kind() -> None:
    period: Any = "1"
    with pytest.raises(ArgumentTypeError, match="ML431"):
        Monitor.start(period)
    with pytest.raises(DeviceError, match="max_bytes"):
        Monitor.start(max_bytes=100)


def test_a_monitor_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    from multiprocessing import spawn

    monkeypatch.setattr(spawn, "_python_exe", "/no/python")
    with pytest.raises(DeviceError, match=r"cannot be run.*ML831|ML831"):
        Monitor.start()
    monkeypatch.setattr(spawn, "_python_exe", "/bin/false")
    with pytest.raises(DeviceError, match="status 1"):
        Monitor.start()
    monkeypatch.undo()


def test_a_hanging_driver_holds_neither_start_of_others_nor_stop_up(
    machine: Machine, base: Path
) -> None:
    machine.gpus(f"gpu 0 {GPU}")
    took, left = machine.run(
        f"""
        import psutil
        from maxlab.diagnostics import Monitor
        os.environ["MAXLAB_MONITOR_DIR"] = {str(base)!r}
        monitor = Monitor.start(period_s=0.05)
        gpus("gpu 0 {GPU} delay_ms=600000")
        time.sleep(0.5)
        began = time.monotonic()
        pid = monitor.pid
        monitor.stop()
        took = time.monotonic() - began
        while psutil.pid_exists(pid):
            time.sleep(0.02)
        tell([took, len(monitor.recording())])
        """
    )
    assert took < 10
    assert left >= 1


# ---------------------------------------------------------------- who dies, and what stays


def test_a_killed_kernel_keeps_its_history_and_the_next_finds_it(base: Path) -> None:
    first = kernel(
        """
        import time
        from maxlab import trace
        from maxlab.diagnostics import Monitor
        monitor = Monitor.start(period_s=0.02)
        with trace.span("load", "mine"):
            time.sleep(0.3)
        print(monitor.pid, flush=True)
        time.sleep(600)
        """
    )
    assert first.stdout is not None
    with first, first.stdout:
        pid = int(first.stdout.readline())
        first.kill()
    monitor = Monitor(session_owner({"JPY_PARENT_PID": str(os.getpid())}))
    assert monitor.pid == pid, "the monitor went with the kernel"
    before = samples(monitor)
    wait_for(lambda: samples(monitor) > before + 5, "more samples after the kernel's death")

    second = kernel(
        """
        import json
        from maxlab.diagnostics import Monitor
        monitor = Monitor.current()
        again = Monitor.start(period_s=0.02)
        recording = again.recording()
        print(json.dumps([again.pid, len(recording), [m.name for m in recording.marks],
                          recording.numbers.tolist()]))
        """
    )
    said, _ = second.communicate(timeout=60)
    found, count, names, numbers = json.loads(said)
    assert found == pid
    assert count > before
    assert names == ["mine"]
    assert numbers == list(range(count)), "a sample was lost"
    monitor.stop()


def test_the_monitor_ends_with_the_session(base: Path) -> None:
    server = kernel(
        """
        import time
        from maxlab.diagnostics import Monitor
        print(Monitor.start(period_s=3600).pid, flush=True)
        time.sleep(600)
        """,
        JPY_PARENT_PID="",
    )
    assert server.stdout is not None
    with server, server.stdout:
        pid = int(server.stdout.readline())
        (folder,) = base.iterdir()
        server.kill()
    wait_for(lambda: not is_there(pid), "the monitor to end with its session")
    last = (folder / "samples-000001.mlrec").read_bytes().splitlines()[-1]
    assert json.loads(last)[2] == "the session ended"


def is_there(pid: int) -> bool:
    """Whether the process runs; one that waits to be reaped by a stranger does not."""
    found = identity(pid)
    return found is not None and found.is_alive()


def test_a_killed_monitor_keeps_its_samples_and_is_replaced(base: Path) -> None:
    monitor = Monitor.start(period_s=0.02)
    wait_for(lambda: samples(monitor) > 5, "samples")
    pid = monitor.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(pid), "the killed monitor to be reaped")
    assert not monitor.is_running
    kept = samples(monitor)
    assert kept > 5
    again = Monitor.start(period_s=0.02)
    assert again.pid != pid
    wait_for(lambda: samples(again) > kept, "samples of the next monitor")
    again.stop()
    assert len(again.recording().starts) == 2


def test_a_torn_record_costs_itself_alone(base: Path) -> None:
    monitor = Monitor.start(period_s=0.02)
    wait_for(lambda: samples(monitor) > 5, "samples")
    pid = monitor.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(pid), "the killed monitor to be reaped")
    file = monitor.folder / "samples-000001.mlrec"
    whole = file.read_bytes()
    kept = samples(monitor)
    start = whole.rstrip(b"\n").rfind(b"\n") + 1
    # Without its line break alone, the record is whole all the same.
    for cut in range(start + 1, len(whole) - 1):
        file.write_bytes(whole[:cut])
        assert samples(monitor) == kept - 1
    again = Monitor.start(period_s=0.02)
    wait_for(lambda: samples(again) > kept + 1, "samples behind the torn one")
    again.stop()
    recording = again.recording()
    assert len(recording.starts) == 2
    assert np.all(np.diff(recording.times_ns) > 0)


def test_removed_files_end_it() -> None:
    monitor = Monitor.start(period_s=0.02)
    pid = monitor.pid
    assert pid is not None
    for file in monitor.folder.glob("samples-*"):
        file.unlink()
    wait_for(lambda: not psutil.pid_exists(pid), "the monitor to end")


def test_a_fork_neither_marks_nor_stops() -> None:
    monitor = Monitor.start(period_s=0.02)
    child = os.fork()
    if child == 0:
        trace.emit("load", "in the fork")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert monitor.is_running
    assert monitor.recording().marks == []
