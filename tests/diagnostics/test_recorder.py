"""BackgroundRecorder end to end: a real process over nvidia-ml-py and a library with NVML's ABI.

Times on a busy machine are not to be trusted, so what is asserted of them is what must hold
however slow it is: order, grid, and that nothing is lost.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import signal
import time
from typing import Any

import psutil
import pytest

from maxlab.diagnostics.gpu import (
    BackgroundRecorder,
    GPUStats,
    MemoryStats,
    UtilizationStats,
    _wire,
)
from maxlab.errors import DeviceError
from tests.diagnostics.conftest import Machine

GPU = "total=1000000 free=600 reserved=100 util=40 memutil=7"
# Far longer than anything takes; a test that waits this long has failed.
PATIENCE_S = 60.0


def recorders() -> list[psutil.Process]:
    """The recorders of this process that are alive."""
    return [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "maxlab-gpu-recorder" in child.cmdline()
    ]


def wait_for_end(process: psutil.Process) -> None:
    """Return when ``process`` is gone, and was reaped by whoever it belongs to now."""
    deadline = time.monotonic() + PATIENCE_S
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"{process} is still there"
        time.sleep(0.02)


# ---------------------------------------------------------------- what is recorded


def test_values_change_over_time(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {GPU} used=300+5\ngpu 1 {GPU} used=7")
    times, stats, left_ns = machine.run(
        """
        with BackgroundRecorder(period_s=0.02) as recorder:
            time.sleep(0.5)
        left = time.monotonic_ns()
        tell([recorder.times_ns, [flat(s) for s in recorder.stats], left])
        """
    )
    assert len(times) == len(stats)
    assert all(list(sample) == ["nv0", "nv1"] for sample in stats)
    # Every reading is one sample: none is lost and none is taken twice.
    assert [sample["nv0"][2] for sample in stats] == [300 + 5 * i for i in range(len(stats))]
    assert {sample["nv1"][2] for sample in stats} == {7}
    assert all(sample["nv0"][4:] == [40, 7] for sample in stats)
    assert times == sorted(set(times))
    # One on entry, then one a period: fewer on a busy machine, never more.
    assert 2 <= len(times) <= (left_ns - times[0]) / 20e6 + 2
    # On the grid of the first sample or after it, never before.
    periods = [(now - times[0]) / 20e6 for now in times]
    assert all(after > index - 1 for index, after in enumerate(periods))


def test_samples_are_on_the_clock_of_the_events() -> None:
    before = time.monotonic_ns()
    with BackgroundRecorder() as recorder:
        entered = time.monotonic_ns()
    assert before < recorder.times_ns[0] < entered


def test_the_default_is_one_sample_a_second() -> None:
    with BackgroundRecorder() as recorder:
        time.sleep(2.2)
    assert len(recorder.stats) >= 2
    assert recorder.times_ns[1] - recorder.times_ns[0] > 0.5e9


def test_no_gpus_is_an_empty_snapshot(bare_machine: Machine) -> None:
    found = bare_machine.run(
        """
        with BackgroundRecorder() as recorder:
            pass
        tell([recorder.stats, recorder.problems])
        """
    )
    assert found == [[{}], {}]


def test_a_gpu_that_disappears_and_comes_back(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {GPU} used=1 log=1\ngpu 1 {GPU} used=1")
    samples, problems = machine.run(
        f"""
        def readings():
            return Path(os.environ["FAKE_GPUS_LOG"]).read_text().count("read")

        def change(middle):  # and wait for a whole sample of it
            gpus("gpu 0 {GPU} used=1 log=1\\ngpu 1 " + middle)
            enough = readings() + 3
            while readings() < enough:
                time.sleep(0.01)

        with BackgroundRecorder(period_s=0.01) as recorder:
            change("handle=!15")
            change("{GPU} used=3")
        tell([[flat(s) for s in recorder.stats], recorder.problems])
        """
    )
    assert all("nv0" in sample for sample in samples)
    there = [sample["nv1"][2] if "nv1" in sample else None for sample in samples]
    assert [key for key, _ in itertools.groupby(there)] == [1, None, 3]
    assert problems == {"nv1": "cannot be read: GPU is lost"}


def test_a_slow_driver_loses_the_grid_but_no_order(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {GPU} used=1+1 delay_ms=20")
    times, used = machine.run(
        """
        with BackgroundRecorder(period_s=0.01) as recorder:
            time.sleep(0.5)
        tell([recorder.times_ns, [s["nv0"].memory.used_bytes for s in recorder.stats]])
        """
    )
    assert times == sorted(set(times))
    assert used == list(range(1, len(used) + 1))
    # A missed sample is not made up for: readings never follow each other faster than they take.
    assert all(later - sooner >= 20e6 for sooner, later in itertools.pairwise(times))


# ---------------------------------------------------------------- rules of use


def test_stats_before_the_block_inside_it_and_after() -> None:
    recorder = BackgroundRecorder()
    for name in ("stats", "times_ns", "problems"):
        with pytest.raises(RuntimeError, match="has not recorded anything"):
            getattr(recorder, name)
    with recorder as entered:
        assert entered is recorder
        for name in ("stats", "times_ns", "problems"):
            with pytest.raises(RuntimeError, match="still recording"):
                getattr(recorder, name)
    assert recorder.stats is recorder.stats
    assert isinstance(recorder.stats[0], dict)


def test_entering_twice_leaving_twice_and_again() -> None:
    recorder = BackgroundRecorder(period_s=0.01)
    with pytest.raises(RuntimeError, match="not recording"):
        recorder.__exit__(None, None, None)
    with recorder:
        with pytest.raises(RuntimeError, match="recording already"):
            recorder.__enter__()
        time.sleep(0.1)
    first = recorder.times_ns
    with recorder, pytest.raises(RuntimeError, match="still recording"):
        _ = recorder.stats
    assert recorder.times_ns[0] > first[-1]
    assert recorders() == []


def test_recorders_nest(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {GPU} used=1")
    found = machine.run(
        """
        with BackgroundRecorder(period_s=0.05) as outer:
            with BackgroundRecorder(period_s=0.02) as inner, GPUDiagContext() as context:
                here = flat(context.get_stats())
                time.sleep(0.1)
        tell([here, flat(outer.stats[0]), flat(inner.stats[-1]),
              outer.times_ns[0] < inner.times_ns[0] < inner.times_ns[-1] < time.monotonic_ns()])
        """
    )
    assert found[0] == found[1] == found[2]
    assert found[3] is True


@pytest.mark.parametrize("period", [0, -1, 0.001, math.nan, math.inf])
def test_periods_that_make_no_sense(period: float) -> None:
    with pytest.raises(ValueError, match="ML431"):
        BackgroundRecorder(period_s=period)


@pytest.mark.parametrize("period", ["1", None, True])
def test_periods_that_are_no_numbers(period: Any) -> None:
    with pytest.raises(TypeError, match="ML431"):
        BackgroundRecorder(period_s=period)


def test_the_exception_of_the_block_goes_on_and_the_samples_stay() -> None:
    recorder = BackgroundRecorder()
    with pytest.raises(KeyError, match="mine"), recorder:
        raise KeyError("mine")
    assert len(recorder.stats) >= 1
    assert recorders() == []


# ---------------------------------------------------------------- the process


def test_it_is_a_process_of_its_own_and_is_reaped() -> None:
    with BackgroundRecorder() as recorder:
        (process,) = recorders()
        assert "maxlab-gpu-recorder" in process.cmdline()
        assert os.getsid(process.pid) != os.getsid(0)
    assert not process.is_running()
    assert recorders() == []
    assert recorder.stats


def test_leaving_takes_about_a_second_at_most() -> None:
    # The best of a few: the bound is of the recorder, not of the load on this machine.
    taken = []
    for _ in range(3):
        with BackgroundRecorder(period_s=3600.0):
            told = time.monotonic()
        taken.append(time.monotonic() - told)
    assert min(taken) < 1.0


def test_no_state_of_the_program_is_inherited(machine: Machine) -> None:
    """The main module is not run again, and only standard files and the samples are open."""
    machine.gpus(f"gpu 0 {GPU} used=1")
    mains, files = machine.run(
        """
        import psutil
        Path("mains").open("a").write("x")
        mine = open("mine.txt", "w")
        os.set_inheritable(mine.fileno(), True)
        with BackgroundRecorder():
            (child,) = psutil.Process().children()
            files = sorted(os.readlink(f"/proc/{child.pid}/fd/{fd}")
                           for fd in os.listdir(f"/proc/{child.pid}/fd"))
        tell([Path("mains").read_text(), files])
        """
    )
    assert mains == "x"
    assert not any("mine.txt" in file for file in files)
    assert all(file.startswith(("pipe:", "/memfd:", "/tmp/")) for file in files), files


def test_killed_recorder_is_an_error_and_keeps_its_samples(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {GPU} used=300+5")
    message, used, again = machine.run(
        """
        import psutil, signal
        recorder = BackgroundRecorder(period_s=0.01)
        try:
            with recorder:
                time.sleep(0.3)
                (child,) = psutil.Process().children()
                child.send_signal(signal.SIGKILL)
                time.sleep(0.1)
        except RuntimeError as error:
            message = str(error)
        used = [s["nv0"].memory.used_bytes for s in recorder.stats]
        assert psutil.Process().children() == []
        with recorder:
            pass
        tell([message, used, len(recorder.stats)])
        """
    )
    assert "killed by SIGKILL" in message
    assert "ML432" in message
    assert f"the {len(used)} samples until then are kept" in message
    assert used == [300 + 5 * i for i in range(len(used))]
    assert len(used) > 1
    assert again >= 1


def test_killed_recorder_does_not_hide_the_exception_of_the_block() -> None:
    recorder = BackgroundRecorder()

    def work() -> None:
        with recorder:
            recorders()[0].kill()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        work()
    assert any("killed by SIGKILL" in note for note in caught.value.__notes__)
    assert len(recorder.stats) == 1


def test_ctrl_c_stops_the_program_and_the_recorder_in_order() -> None:
    recorder = BackgroundRecorder()

    def work() -> None:
        with recorder:
            recorders()[0].send_signal(signal.SIGINT)  # as a terminal would
            time.sleep(0.2)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert not hasattr(caught.value, "__notes__"), "the recorder itself was interrupted"
    assert recorder.stats
    assert recorders() == []


@pytest.mark.parametrize("how", ["SIGKILL", "_exit", "forgotten"])
def test_the_recorder_goes_when_its_program_goes(how: str, machine: Machine) -> None:
    machine.gpus(f"gpu 0 {GPU} used=1")
    ending = {"SIGKILL": "time.sleep(600)", "_exit": "os._exit(3)", "forgotten": "pass"}[how]
    program = machine.start(
        f"""
        import psutil
        recorder = BackgroundRecorder(period_s=3600)
        recorder.__enter__()
        tell([child.pid for child in psutil.Process().children()])
        {"sys.stdin.close()" if how == "SIGKILL" else ""}
        {ending}
        """
    )
    assert program.stdout is not None
    with program, program.stdout:
        (pid,) = json.loads(program.stdout.readline())
        recorder = found(pid)
        if how == "SIGKILL":
            program.kill()
    if recorder is not None:
        wait_for_end(recorder)


def found(pid: int) -> psutil.Process | None:
    """The process, which may end at any moment; None when it has."""
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def test_the_recorder_goes_though_its_driver_hangs(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {GPU} used=1 log=1")
    program = machine.start(
        f"""
        import psutil
        recorder = BackgroundRecorder(period_s=0.01)
        recorder.__enter__()
        gpus("gpu 0 {GPU} used=1 delay_ms=600000")
        time.sleep(0.5)
        tell([child.pid for child in psutil.Process().children()])
        os._exit(0)
        """
    )
    assert program.stdout is not None
    with program, program.stdout:
        (pid,) = json.loads(program.stdout.readline())
    recorder = found(pid)
    if recorder is not None:
        wait_for_end(recorder)


def test_the_recorder_goes_though_a_fork_outlives_its_program(machine: Machine) -> None:
    """A forked worker holds the lifeline open; the recorder looks for its parent too."""
    program = machine.start(
        """
        import psutil
        recorder = BackgroundRecorder(period_s=3600)
        recorder.__enter__()
        (child,) = psutil.Process().children()
        worker = os.fork()
        if worker == 0:
            os.close(1)
            time.sleep(600)
            os._exit(0)
        tell([child.pid, worker])
        os._exit(0)
        """
    )
    assert program.stdout is not None
    with program, program.stdout:
        recorder_pid, worker_pid = json.loads(program.stdout.readline())
    try:
        if psutil.pid_exists(recorder_pid):
            wait_for_end(psutil.Process(recorder_pid))
        assert psutil.pid_exists(worker_pid)
    finally:
        os.kill(worker_pid, signal.SIGKILL)


def test_a_fork_that_leaves_the_block_stops_nothing(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {GPU} used=1+1")
    used, went_on = machine.run(
        """
        with BackgroundRecorder(period_s=0.02) as recorder:
            if (leaving := os.fork()) > 0:
                assert os.waitpid(leaving, 0)[1] == 0
                if (ending := os.fork()) == 0:
                    import atexit
                    atexit._run_exitfuncs()  # as at the end of a fork that never leaves the block
                    os._exit(0)
                assert os.waitpid(ending, 0)[1] == 0
                gone = time.monotonic_ns()
                time.sleep(0.5)
        if leaving > 0:
            tell([[s["nv0"].memory.used_bytes for s in recorder.stats],
                  recorder.times_ns[-1] > gone])
        """
    )
    assert used == list(range(1, len(used) + 1))
    assert went_on


def test_a_driver_that_hangs_holds_nobody_up(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {GPU} used=1")
    message, kept, left = machine.run(
        f"""
        import psutil
        recorder = BackgroundRecorder(period_s=0.01)
        try:
            with recorder:
                gpus("gpu 0 {GPU} used=2 delay_ms=600000")
                time.sleep(3.5)
        except RuntimeError as error:
            message = str(error)
        tell([message, len(recorder.stats), len(psutil.Process().children())])
        """
    )
    assert "hung" in message
    assert f"the {kept} samples" in message
    assert kept >= 1
    assert left == 0


def test_a_recorder_that_cannot_start_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from multiprocessing import spawn

    monkeypatch.setattr(spawn, "_python_exe", str(tmp_path / "no-python"))
    with pytest.raises(DeviceError, match=r"no-python cannot be run"):
        BackgroundRecorder().__enter__()
    monkeypatch.setattr(spawn, "_python_exe", "/bin/false")
    with pytest.raises(DeviceError, match=r"did not start.*\n.*status 1"):
        BackgroundRecorder().__enter__()
    monkeypatch.undo()
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(DeviceError, match=r"it said: ModuleNotFoundError"):
        BackgroundRecorder().__enter__()
    assert recorders() == []


def test_a_recorder_that_does_not_start_in_time(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {GPU} used=1 delay_ms=600000")
    message = machine.run(
        """
        import psutil
        from maxlab.diagnostics.gpu import recorder
        recorder.START_TIMEOUT_S = 1.0
        try:
            with BackgroundRecorder():
                pass
        except RuntimeError as error:
            message = str(error)
        assert psutil.Process().children() == []
        tell(message)
        """
    )
    assert "no sample within 1 s" in message


def test_a_dropped_recorder_stops() -> None:
    recorder = BackgroundRecorder()
    recorder.__enter__()
    (process,) = recorders()
    del recorder
    gc.collect()
    assert not process.is_running()


def test_no_file_stays_open() -> None:
    with BackgroundRecorder():
        pass
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with BackgroundRecorder():
            pass
    assert len(os.listdir("/proc/self/fd")) == before


# ---------------------------------------------------------------- lines on the wire


def test_lines_decode_to_what_was_encoded() -> None:
    one = {"nv0": GPUStats(MemoryStats(2**40, 1, 2, None), UtilizationStats(100, None))}
    two = {"amd0": GPUStats(MemoryStats(4, 1, 2, 3), UtilizationStats(0, 5))}
    lines = [
        _wire.encode(1, one, {"nv1": "a"}),
        _wire.encode(2, two, None),
        _wire.encode(3, {}, {"nv1": "b", "nv2": "c\n"}),
    ]
    whole = b"".join(lines)
    decoded = _wire.decode(whole + _wire.END)
    assert decoded == _wire.decode(whole)
    assert decoded == _wire.Recording([1, 2, 3], [one, two, {}], {"nv1": "b", "nv2": "c\n"})
    assert _wire.is_complete(whole + _wire.END)
    assert not _wire.is_complete(whole)
    assert _wire.summary(whole) == _wire.summary(whole + _wire.END) == (3, 3)
    for cut in range(len(whole)):
        torn = _wire.decode(whole[:cut])
        assert torn.times_ns == [1, 2, 3][: whole[:cut].count(b"\n")]
        assert _wire.summary(whole[:cut])[0] == len(torn.stats)
