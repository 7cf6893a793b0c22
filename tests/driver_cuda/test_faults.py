"""Devices that are lost, devices that are not there, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.driver_cuda.conftest import Run, need_pycuda
from tests.driver_cuda.fake import harness
from tests.driver_cuda.test_device import BEGIN

LOSE = """
c = opened()
good, other, stray = kernels(c, SCALE, REVERSE, STRAY)
x = put(c, np.ones(32, np.float32))
q = c.call(c.queue)
c.call(c.default_queue.synchronize)
launch = lambda k, args: c.call(lambda: c.launch(q, k, (1, 1, 1), (32, 1, 1), 256, args))
launch(good, [x, x, 32, 2])
c.call(q.synchronize)
launch(other, [x])
launch(stray, [0])
launch(other, [x])
"""


def lose(program: str, **options: object) -> harness.Result:
    """How a program ends that loses its device: well, and silently."""
    need_pycuda()
    result = harness.run(BEGIN + LOSE + program, **options)  # type: ignore[arg-type]
    assert result.code == 0, result.err
    assert result.err == ""
    return result


def test_a_fault_names_the_kernels_since_the_last_good_wait() -> None:
    result = lose("print(error_of(lambda: c.call(q.synchronize)))")
    assert result.out == (
        "gpu:0 is lost to this process: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory "
        "access was encountered [ML445]\n"
        "  because launched since the last time all was well: k_reverse, k_stray\n"
        "  fix: start a new process. To find the line that went wrong, run the same with "
        "driver.use_simulator(check=True), or under compute-sanitizer\n"
    )


def test_every_later_call_says_it_again() -> None:
    lose(
        """
first = error_of(lambda: c.call(q.synchronize))
ran = []
for work in (lambda: ran.append(1), c.queue, lambda: c.allocate(8), c.memory, q.mark):
    error = error_of(lambda: c.call(work))
    assert error.code == "ML445" and str(error) == str(first)
    assert error is not first
assert not ran
assert error_of(lambda: c.record(lambda q: None)).code == "ML445"
assert kernels(c, SCALE, STRAY, REVERSE) == [good, stray, other]
c.later(lambda: ran.append(1))
assert error_of(lambda: c.call(int)).code == "ML445" and not ran
"""
    )


def test_whoever_waits_first_is_told() -> None:
    for wait in (
        "c.download(q, np.empty(32, np.float32).ctypes.data, x, 128)",
        "c.release(x)",
        "q.mark().synchronize()",
        "(lambda m: [m.done() for _ in range(3)])(q.mark())",
    ):
        result = lose(f"print(error_of(lambda: c.call(lambda: {wait})))")
        assert "ML445" in result.out
        assert "k_reverse, k_stray" in result.out


def test_a_mark_that_was_reached_clears_what_is_before_it() -> None:
    need_pycuda()
    result = harness.run(
        BEGIN
        + """
c = opened()
good, other, stray = kernels(c, SCALE, REVERSE, STRAY)
x = put(c, np.ones(32, np.float32))
launch = lambda k, args: c.call(
    lambda: c.launch(c.default_queue, k, (1, 1, 1), (32, 1, 1), 256, args))
launch(good, [x, x, 32, 2])
first = c.call(c.default_queue.mark)
launch(other, [x])
second = c.call(c.default_queue.mark)
launch(stray, [0])
c.call(first.synchronize)
assert c.default_queue.suspects() == ["k_reverse", "k_stray"]
c.call(second.synchronize)
print(error_of(lambda: c.call(c.default_queue.synchronize)).why[0])
"""
    )
    assert (result.code, result.err) == (0, "")
    assert result.out.strip() == "launched since the last time all was well: k_stray"


def test_marks_nobody_waits_for_do_not_pile_up(on_fake: Run) -> None:
    on_fake(
        BEGIN
        + """
c = opened()
k, = kernels(c, SCALE)
x = put(c, np.ones(8, np.float32))
q = c.default_queue
for _ in range(500):
    c.call(lambda: (c.launch(q, k, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 1]), q.mark()))
assert len(q._parts) <= 65 and q.suspects() == ["k_scale"]
"""
    )


def test_finalizers_and_the_end_are_silent() -> None:
    lose(
        """
import gc
held = [c.call(c.queue), c.call(lambda: q.mark(timed=True)), c.call(lambda: c.allocate_pinned(64))]
recording = c.record(lambda q: c.launch(q, good, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 1]))
assert error_of(lambda: c.call(q.synchronize)).code == "ML445"
del held, recording, q, good, other, stray
gc.collect()
c.later(lambda: c.release(x))
"""
    )


def test_a_fault_that_nobody_waited_for_is_silent_at_the_end() -> None:
    lose("")


def test_the_other_device_survives() -> None:
    lose(
        """
d = opened(1)
k, = kernels(d, SCALE)
assert error_of(lambda: c.call(q.synchronize)).code == "ML445"
y = put(d, np.ones(8, np.float32))
d.call(lambda: d.launch(d.default_queue, k, (1, 1, 1), (8, 1, 1), 0, [y, y, 8, 4]))
assert (get(d, y, 8) == 4).all()
""",
        devices=2,
    )


def test_a_fault_in_a_recording_names_its_kernels() -> None:
    need_pycuda()
    result = harness.run(
        BEGIN
        + """
c = opened()
good, stray = kernels(c, SCALE, STRAY)
x = put(c, np.ones(8, np.float32))
recording = c.record(lambda q: (
    c.launch(q, good, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 1]),
    c.launch(q, stray, (1, 1, 1), (8, 1, 1), 0, [0])))
c.call(c.default_queue.synchronize)
c.call(lambda: recording.launch(c.default_queue))
print(error_of(lambda: c.call(c.default_queue.synchronize)).why[0])
"""
    )
    assert (result.code, result.err) == (0, "")
    assert result.out.strip().endswith("k_scale, k_stray")


def test_a_warning_event_is_in_the_stream() -> None:
    lose(
        """
from maxlab import trace
error_of(lambda: c.call(q.synchronize))
event, = trace.recorder().events("warning")
assert event.name == "gpu:0" and event.data["kernels"] == ["k_reverse", "k_stray"]
"""
    )


# ---------------------------------------------------------------- nothing there

ASK = """
from maxlab.driver.cuda import backend
print(backend.count())
for line in backend.missing(): print(line)
try: backend.open(0)
except Exception as error: print(error.code)
"""


def test_without_the_nvidia_driver() -> None:
    need_pycuda()
    result = harness.run(ASK, fake=False)
    lines = result.out.splitlines()
    if lines[0] != "0":
        return  # a machine with a driver: then there is nothing to say
    assert result.err == ""
    assert lines[1].startswith("the NVIDIA driver is not installed: libcuda.so.1 was not found")
    assert lines[-1] == "ML410"


def test_without_pycuda(tmp_path: Path) -> None:
    (tmp_path / "pycuda").mkdir()
    (tmp_path / "pycuda" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'pycuda'\", name='pycuda')"
    )
    result = harness.run(ASK, fake=False, path=[tmp_path])
    assert result.out.splitlines()[:2] == [
        "0",
        "PyCUDA is not installed: pip install pycuda",
    ]


def test_with_a_pycuda_that_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "pycuda").mkdir()
    (tmp_path / "pycuda" / "__init__.py").write_text(
        "raise ImportError('_driver.so: undefined symbol: cuCtxCreate_v9')"
    )
    result = harness.run(ASK, fake=False, path=[tmp_path])
    lines = result.out.splitlines()
    assert lines[1].startswith("PyCUDA cannot be imported: _driver.so: undefined symbol")
    assert "--force-reinstall" in lines[2]


def test_a_driver_without_a_gpu() -> None:
    need_pycuda()
    result = harness.run(ASK + "backend.open(0)\n", devices=0)
    lines = result.out.splitlines()
    assert lines[0] == "0"
    assert lines[1].startswith("the NVIDIA driver finds no GPU it can use: ")
    assert "no CUDA-capable device is detected" in lines[1]
    assert lines[-1] == "ML410"
    assert "ML410" in result.err  # and what was not caught ends the program


def test_a_device_that_another_process_has(on_fake: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKECUDA_BUSY", "1")
    result = on_fake(
        BEGIN
        + """
import threading
for _ in range(2):
    error = error_of(opened)
    print(error.code, error.what)
print(threading.active_count())
"""
    )
    one, two, threads = result.out.splitlines()
    assert one == two
    assert one.startswith("ML443 the CUDA driver refused to open the device on gpu:0: ")
    assert "busy or unavailable" in one
    assert threads == "1"


def test_hidden_devices_are_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    need_pycuda()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = harness.run(ASK, devices=0)
    assert "CUDA_VISIBLE_DEVICES is ''" in result.out
