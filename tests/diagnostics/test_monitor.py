"""What a monitor records: samples, counters, marks, and where it keeps them."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from maxlab import trace
from maxlab.diagnostics import Monitor, Recording
from maxlab.diagnostics.monitor import marks
from maxlab.diagnostics.monitor.line_format import records
from maxlab.diagnostics.monitor.places import (
    MARKER,
    Identity,
    base_folder,
    identity,
    make_private,
    make_session,
    me,
    remove_dead,
    session_folder,
    session_owner,
)
from maxlab.diagnostics.monitor.segments import Tail, Writer
from maxlab.errors import DeviceError
from tests.diagnostics.conftest import Machine
from tests.diagnostics.monitoring import GPU, samples, wait_for
from tests.diagnostics.monitoring import base as base

# ---------------------------------------------------------------- samples


def test_no_sample_is_lost_under_load() -> None:
    """Processes that fill every core for as long as it records; samples are numbered."""
    burners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range((os.cpu_count() or 1) + 1)
    ]
    try:
        with Monitor.start(period_s=0.02) as monitor:
            wait_for(lambda: samples(monitor) > 40, "samples under load")
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    recording = monitor.recording()
    assert recording.numbers.tolist() == list(range(len(recording)))
    assert np.all(np.diff(recording.times_ns) > 0)


def test_samples_are_on_the_clock_of_the_events() -> None:
    """Of many readings of both clocks around a sample, the closest bounds their distance."""
    closest_ns = float("inf")
    with Monitor.start(period_s=0.01) as monitor:
        file = monitor.folder / "samples-000001.mlrec"
        size = file.stat().st_size
        for _ in range(40):
            before_ns = time.monotonic_ns()
            while file.stat().st_size == size:
                before_ns = time.monotonic_ns()
            after_ns = time.monotonic_ns()
            size = file.stat().st_size
            line = file.read_bytes().splitlines()[-1]
            time_ns = json.loads(line)[2]
            assert time_ns <= after_ns, "a sample from the future"
            closest_ns = min(closest_ns, abs(time_ns - before_ns))
    # The sample was taken before it was written: what is left is the time of the writing.
    assert closest_ns < 5e6
    assert abs(time.monotonic_ns() - time.perf_counter_ns()) < 5e6


def test_the_ring_is_bounded_and_what_is_left_is_whole() -> None:
    most = 65536
    with Monitor.start(period_s=0.01, max_bytes=most) as monitor:
        wait_for(
            lambda: not (monitor.folder / "samples-000001.mlrec").exists(),
            "the first segment to go",
        )
        sizes = [file.stat().st_size for file in monitor.folder.glob("samples-*")]
    assert sum(sizes) <= most * 1.1
    recording = monitor.recording()
    numbers = recording.numbers
    assert numbers[0] > 0
    assert numbers.tolist() == list(range(numbers[0], numbers[0] + len(numbers)))
    assert "cpu" in [column.key for column in recording.columns]


def test_a_machine_without_a_gpu_says_why(bare_machine: Machine, base: Path) -> None:
    problems, devices = bare_machine.run(
        f"""
        os.environ["MAXLAB_MONITOR_DIR"] = {str(base)!r}
        from maxlab.diagnostics import Monitor
        with Monitor.start(period_s=0.05) as monitor:
            time.sleep(0.3)
        recording = monitor.recording()
        tell([recording.problems, sorted({{c.device for c in recording.columns}})])
        """
    )
    assert devices == ["host", "tree"]
    assert problems["gpu"].startswith("no GPU was found. NVIDIA: ")
    assert "AMD: " in problems["gpu"]


def test_the_counters_of_gpus(machine: Machine, base: Path) -> None:
    machine.gpus(
        f"""
        gpu 0 {GPU} name=Fake_One sm=1500 maxsm=1980 memclock=2600 maxmem=2619 power=450000 \
limit=700000 temp=61 arch=9 pcietx=1200 pcierx=300 window_us=166000 pid1=1 held1=250 nvtx=0+1000
        gpu 1 {GPU} pcietxcount=0+1 pcierxcount=0+1
        gpu 2 handle=!15
        """.replace("\\\n", "")
    )
    columns, values, names, problems, processes = machine.run(
        f"""
        os.environ["MAXLAB_MONITOR_DIR"] = {str(base)!r}
        from dataclasses import asdict
        from maxlab.diagnostics import Monitor
        with Monitor.start(period_s=0.5) as monitor:
            time.sleep(1.3)
        r = monitor.recording()
        last = lambda v: [x for x in v.tolist() if x == x][-1:]
        tell([{{c.key: asdict(c) for c in r.columns}}, {{c.key: last(r[c.key]) for c in r.columns}},
              r.names, r.problems, json.loads(r._decoder.processes[-1][1])])
        """
    )
    assert names == {"nv0": "Fake One", "nv1": ""}
    assert problems == {"nv2": "cannot be read: GPU is lost"}
    assert processes["nv0"][0][0] == 1
    assert processes["nv0"][0][2] == 250
    got = {key: value[0] for key, value in values.items() if value and key.startswith("nv0")}
    rate = got.pop("nv0.nvlink.tx")
    assert rate > 0
    assert got == {
        "nv0.util": 40, "nv0.memutil": 7, "nv0.mem": 300, "nv0.mem.session": 0,
        "nv0.clock.sm": 1.5e9, "nv0.clock.mem": 2.6e9, "nv0.power": 450, "nv0.temp": 61,
        "nv0.pcie.tx": 1.2e6, "nv0.pcie.rx": 3e5,
    }  # fmt: skip
    # What this GPU lacks has no value; its bytes over PCIe it counts itself.
    assert {key for key, value in values.items() if value and key.startswith("nv1")} == {
        "nv1.util", "nv1.memutil", "nv1.mem", "nv1.pcie.tx", "nv1.pcie.rx",
    }  # fmt: skip
    assert columns["nv0.util"]["window_ns"] == 166_000_000
    assert columns["nv0.power"] == {
        "key": "nv0.power", "device": "nv0", "quantity": "power", "unit": "W", "label": "power",
        "top": 700.0, "average": True, "window_ns": 1_000_000_000,
    }  # fmt: skip
    assert columns["nv0.pcie.tx"]["window_ns"] == 20_000_000
    assert columns["nv1.pcie.tx"]["window_ns"] is None
    assert columns["nv0.temp"]["average"] is False


def test_a_fine_period_leaves_out_what_holds_it_up(machine: Machine, base: Path) -> None:
    machine.gpus(f"gpu 0 {GPU} pcietx=1200 pcierx=300")
    found = machine.run(
        f"""
        os.environ["MAXLAB_MONITOR_DIR"] = {str(base)!r}
        from maxlab.diagnostics import Monitor
        with Monitor.start(period_s=0.02) as monitor:
            time.sleep(0.3)
        r = monitor.recording()
        tell([v for v in r["nv0.pcie.tx"].tolist() if v == v])
        """
    )
    assert found == []


# ---------------------------------------------------------------- marks


def test_runs_and_events_are_marked_and_close_ones_join() -> None:
    with Monitor.start(period_s=0.05) as monitor:
        watcher = trace.run_watcher
        assert watcher is not None
        now = time.monotonic_ns()
        for n in range(100):
            watcher("model", now + n * 1000, now + n * 1000 + 900)
        watcher("other", now + 200_000, now + 300_000)
        with trace.span("load", "graph"):
            time.sleep(0.01)
        with trace.span("pass", "not shown"):
            time.sleep(0.001)
        found = monitor.recording().marks
    by_name = {mark.name: mark for mark in found}
    assert set(by_name) == {"model", "other", "graph"}
    assert by_name["model"].count == 100
    assert by_name["model"].kind == "run"
    assert by_name["model"].dur_ns == 99_900
    assert by_name["graph"].dur_ns is not None
    assert by_name["graph"].dur_ns > 5e6


def test_nothing_is_marked_while_nothing_records() -> None:
    monitor = Monitor.start(period_s=0.05)
    monitor.stop()
    marks._marker._looked_ns = 0  # type: ignore[union-attr]
    with trace.span("load", "graph"):
        time.sleep(0.001)
    assert monitor.recording().marks == []


def test_detaching_leaves_models_as_fast_as_before() -> None:
    Monitor.start(period_s=0.05)
    assert trace.run_watcher is not None
    marks.detach()
    assert trace.run_watcher is None


# ---------------------------------------------------------------- places


def test_files_are_private(base: Path) -> None:
    monitor = Monitor.start(period_s=0.05)
    for folder in (base, monitor.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in monitor.folder.glob("*.mlrec"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_place_that_is_not_ours_is_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base.parent.mkdir(exist_ok=True)
    base.write_text("a file")
    with pytest.raises(DeviceError, match="ML832"):
        Monitor.start()
    base.unlink()
    (base.parent / "elsewhere").mkdir()
    base.symlink_to(base.parent / "elsewhere")
    with pytest.raises(DeviceError, match="ML832"):
        make_private(base)
    base.unlink()


def test_where_recordings_lie(tmp_path: Path) -> None:
    assert base_folder({"MAXLAB_MONITOR_DIR": "/a"}) == Path("/a")
    assert base_folder({"JUPYTER_RUNTIME_DIR": "/r"}) == Path("/r/maxlab-monitor")
    assert base_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/maxlab/monitor")


def test_whose_session_it_is() -> None:
    assert session_owner({}) == me()
    assert session_owner({"JPY_PARENT_PID": str(os.getppid())}) == identity(os.getppid())
    for wrong in ("", "x", "1", "999999999"):
        assert session_owner({"JPY_PARENT_PID": wrong}) == me()
    assert not Identity(os.getpid(), 1).is_alive()


def test_sessions_that_ended_go_but_for_the_newest(base: Path) -> None:
    base.mkdir(parents=True)
    mine = session_folder(me(), base)
    boot = mine.name.split("-")[0]
    old = [base / f"{boot}-{n}-1" for n in range(900_000_001, 900_000_006)]
    for n, folder in enumerate([*old, mine]):
        make_session(folder)
        for file in (folder / "samples-000001.mlrec", folder / MARKER):
            file.touch()
            os.utime(file, (n, n))
        os.utime(folder, (n, n))
    (base / "somebody-elses").mkdir()
    remove_dead(base, keep=2)
    assert {path.name for path in base.iterdir()} == {
        mine.name,
        "somebody-elses",
        *(f.name for f in old[-2:]),
    }


def test_saved_recordings_load_again(tmp_path: Path) -> None:
    with Monitor.start(period_s=0.02, label="mine") as monitor:
        wait_for(lambda: samples(monitor) > 5, "samples")
    path = monitor.save(tmp_path / "a.mlrec")
    loaded = Recording.load(path)
    assert len(loaded) == samples(monitor)
    assert loaded.label == "mine"
    table = loaded.to_csv(tmp_path / "a.csv").read_text().splitlines()
    assert table[0].startswith("time [s],cpu [%]")
    assert len(table) == len(loaded) + 1


def test_a_tail_reads_everything_once_and_tells_when_it_cannot(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "samples", 65536, lambda number: b'["h",%d]\n' % number)
    tail = Tail(tmp_path, "samples")
    read = tail.read()
    for number in range(400):
        writer.write(b'["s",%d]\n' % number)
        if number % 7 == 0:
            read += tail.read()
    read += tail.read()
    assert [r[1] for r in records(io.BytesIO(read)) if r[0] == "s"] == list(range(400))
    assert tail.missed is False
    for number in range(20_000):
        writer.write(b'["s",%d]\n' % number)
    tail.read()
    missed: bool = tail.missed
    assert missed, "the ring went round unread"
    again = Tail(tmp_path, "samples")
    assert again.read()
    for file in tmp_path.iterdir():
        file.unlink()
    assert writer.is_removed
    writer.close()
    Writer(tmp_path, "samples", 65536, lambda _number: b"").close()
    assert again.read() == b""
    assert again.missed, "the files were removed, and there are new ones"


def test_amd_gpus_have_columns_too(amd_machine: Machine, base: Path) -> None:
    """What the package cannot tell of a GPU has no value, and hides nothing else."""
    amd_machine.gpus("amd 0 total=1000 used=300 gfx=40 umc=7")
    values, problems = amd_machine.run(
        f"""
        os.environ["MAXLAB_MONITOR_DIR"] = {str(base)!r}
        from maxlab.diagnostics import Monitor
        with Monitor.start(period_s=0.05) as monitor:
            time.sleep(0.3)
        r = monitor.recording()
        tell([{{c.key: [v for v in r[c.key].tolist() if v == v][-1:] for c in r.columns
               if c.device == "amd0"}}, r.problems])
        """
    )
    found = {key: value[0] for key, value in values.items() if value}
    assert found == {"amd0.util": 40, "amd0.memutil": 7, "amd0.mem": 300}
    assert {"amd0.power", "amd0.temp", "amd0.clock.sm"} <= set(values)
    assert problems == {}
