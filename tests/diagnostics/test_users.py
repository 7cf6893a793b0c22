"""Who takes what of the host, and what cells and models leave on the time axis."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from maxlab import engine, trace
from maxlab.diagnostics import Monitor, Recording
from maxlab.diagnostics.monitor import marks
from maxlab.diagnostics.monitor._host import Host
from maxlab.diagnostics.monitor._users import UserProcesses
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "0a1b2c3d-1111-2222-3333-444455556666"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Recordings in a folder of this test's, and no marks after it."""
    monkeypatch.setenv("MAXLAB_MONITOR_DIR", str(tmp_path / "monitor"))
    yield
    marks.detach()


@pytest.fixture
def kernel() -> Iterator[subprocess.Popen[str]]:
    """A process that looks like a kernel of a notebook, with one that it started."""
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "-f", f"/run/kernel-{KERNEL}.json"],
        env={**os.environ, "JPY_SESSION_NAME": "/home/somebody/private/book.ipynb"},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    for child in psutil.Process(process.pid).children():
        child.kill()
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_each_process_has_a_kernel_and_its_notebook(kernel: subprocess.Popen[str]) -> None:
    assert kernel.stdout is not None
    child = int(kernel.stdout.readline())
    users = UserProcesses(os.getpid(), os.cpu_count() or 1)
    users.read({})
    rows, kernels = users.read({child: 4096})
    found = {row[0]: row for row in rows}
    # The folder that the notebook lies in is not told.
    assert kernels == {str(kernel.pid): [KERNEL, "book.ipynb"]}
    assert found[kernel.pid][1] == kernel.pid
    assert found[child][1] == kernel.pid
    assert found[child][4] == 4096
    rss = found[kernel.pid][3]
    assert isinstance(rss, int)
    assert rss > 1 << 20


def test_shares_are_of_all_cores() -> None:
    users = UserProcesses(os.getppid(), 4)
    first, _ = users.read({})
    assert all(row[2] is None for row in first)
    until = time.process_time() + 0.5
    began = time.monotonic()
    while time.process_time() < until:
        pass
    wall_s = time.monotonic() - began
    users._mine = -1  # this process is not the monitor
    rows, _ = users.read({})
    (mine,) = (row for row in rows if row[0] == os.getpid())
    share = mine[2]
    assert isinstance(share, float)
    # Counted in ticks of 10 ms; other threads of this process may add to it.
    assert 0.5 * 100 * 0.5 / wall_s / 4 < share <= 100


def test_processes_of_other_users_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    users = UserProcesses(1, 1)
    users._user = 12345
    assert users.read({}) == ([], {})


def test_disks_and_networks_are_counted_in_bytes_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = iter([(100, 200, 1000, 50), (600, 200, 500, 150)])
    now: list[int] = []

    def disk(**_: object) -> object:
        now[:] = next(counts)
        return SimpleNamespace(read_bytes=now[0], write_bytes=now[1])

    def network(**_: object) -> object:
        # What the machine sends to itself is no network.
        return {
            "eth0": SimpleNamespace(bytes_recv=now[2], bytes_sent=now[3]),
            "lo": SimpleNamespace(bytes_recv=10**9 * now[0], bytes_sent=10**9),
        }

    monkeypatch.setattr("psutil.disk_io_counters", disk)
    monkeypatch.setattr("psutil.net_io_counters", network)
    host = Host(os.getpid())
    keys = [column.key for column in host.columns]
    first = dict(zip(keys, host.read(), strict=True))
    assert first["disk.read"] is None
    time.sleep(0.01)
    second = dict(zip(keys, host.read(), strict=True))
    read, sent = second["disk.read"], second["net.tx"]
    assert read is not None
    assert sent is not None
    assert read > 0
    assert read / sent == pytest.approx(5)
    assert second["disk.write"] == 0
    assert second["net.rx"] is None, "a count that went back is no rate"


def test_a_machine_that_hides_its_disks_has_no_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.disk_io_counters", lambda **_: None)
    monkeypatch.setattr("psutil.net_io_counters", lambda **_: {})
    host = Host(os.getpid())
    host.read()
    found = dict(zip([column.key for column in host.columns], host.read(), strict=True))
    assert [found[key] for key in ("disk.read", "disk.write", "net.rx", "net.tx")] == [None] * 4


def test_a_recording_says_who_took_what() -> None:
    with Monitor.start(period_s=0.2) as monitor:
        deadline = time.monotonic() + 30
        found = monitor.recording().processes()
        while not any(one.cpu_percent is not None for one in found):
            assert time.monotonic() < deadline
            time.sleep(0.1)
            found = monitor.recording().processes()
    mine = next(one for one in found if one.pid == os.getpid())
    assert mine.is_session
    assert mine.rss_bytes > 1 << 20
    assert monitor.recording().processes(time_ns=0) == []
    assert any(one.name == "maxlab monitor" and not one.is_session for one in found)


def test_recordings_of_older_versions_load() -> None:
    old = Recording.load(ROOT / "notebooks" / "data" / "two_gpus.mlrec")
    assert old.processes() == []
    assert {mark.cell for mark in old.marks} == {""}
    assert len(old) > 50


HEAD = b'["h",{"format":"maxlab.recording","version":1,"run":"1","period_ns":1000}]\n'


def test_lines_of_users_and_cells_are_read_and_odd_ones_passed_over() -> None:
    recording = Recording.from_bytes(
        HEAD
        + b'["m","1.0",5,null,"cell","In [3]",1,9]\n["n","1.0","c0ffee","y = model(x)"]\n'
        + b'["m","1.0",5,7,"cell","In [3]",1,9]\n["n","2.0","other","no mark"]\n["n","1.0",3]\n'
        + b'["t",10,[[7,9,12.5,1024,0,"python"]],{"9":["id","book.ipynb"]}]\n'
        + b'["t",20,[[7,9,900,1024,0,"python"]],{}]\n["t",20,[[7,9]],{}]\n["t",20,[],{"9":3}]\n'
    )
    (mark,) = recording.marks
    assert (mark.cell, mark.line, mark.dur_ns) == ("c0ffee", "y = model(x)", 7)
    (process,) = recording.processes(time_ns=15)
    assert (process.pid, process.cpu_percent, process.notebook) == (7, 12.5, "book.ipynb")
    assert process.kernel == "id"
    assert recording.processes() == [process]


def test_phases_and_ops_are_marked() -> None:
    with Monitor.start(period_s=0.05) as monitor:
        new = time.time_ns() % 2**24  # the plan of a graph that was compiled before has no passes
        with Graph("phased", input_types=[TensorType(DType.float32, ["n", 16])]) as graph:
            graph.output(ops.softmax(ops.gelu(graph.inputs[0].tensor) + new))
        model = engine.InferenceSession().load(graph)
        model.profile(np.ones((4, 16), np.float32), runs=2, warmup=0)
        recording = monitor.recording()
    phases = [mark for mark in recording.marks if mark.kind == "phase"]
    assert {"passes phased", "kernels phased"} <= {mark.name for mark in phases}
    (load,) = (mark for mark in recording.marks if mark.kind == "load")
    assert load.dur_ns is not None
    for phase in phases:
        if phase.name.endswith(" phased") and not phase.name.startswith("lay out"):
            assert load.start_ns <= phase.start_ns <= load.start_ns + load.dur_ns
    run = [mark for mark in recording.marks if mark.kind == "op"]
    assert len(run) == len(model.compiled.plan.steps)
    assert all(mark.name.endswith(" of phased") for mark in run)
    marks.detach()
    assert trace.op_watcher is None


def test_a_file_that_may_be_sent_holds_no_code(tmp_path: Path) -> None:
    with Monitor.start(period_s=0.05) as monitor:
        marker = marks._marker
        assert marker is not None
        marker._begin(3, "c0ffee", "\n  secret = 'x'\nmore")
        marker._cell_ends(None)
        time.sleep(0.1)
        (live,) = (mark for mark in monitor.recording().marks if mark.kind == "cell")
        assert (live.cell, live.line) == ("c0ffee", "secret = 'x'")
        plain = monitor.save(tmp_path / "plain.mlrec")
        whole = monitor.save(tmp_path / "whole.mlrec", cells=True)
    assert b"secret" not in plain.read_bytes()
    assert [mark.line for mark in Recording.load(plain).marks if mark.kind == "cell"] == [""]
    lines = [mark.line for mark in Recording.load(whole).marks if mark.kind == "cell"]
    assert lines == ["secret = 'x'"]


def test_the_server_says_how_busy_the_machine_is() -> None:
    pytest.importorskip("jupyter_server")
    from maxlab.lab.server.handlers import Service

    service = Service()
    assert service.now()["cpu"] is None
    time.sleep(0.1)
    now = service.now()
    assert now["cpu"] is not None
    assert 0 <= now["cpu"] <= 100
    assert 0 < now["memory"] < now["memory_total"]
    assert now["recording"] is False
