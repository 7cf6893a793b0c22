"""What a recorded launch writes down of a block: accesses, branches, and how threads ended."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.driver.sim import SimModule
from maxlab.driver.sim.record import BEGINS, KINDS, MOST_EVENTS
from maxlab.errors import DeviceError

TEXT = """extern "C" __global__ void steps(float *y, const float *x, int n) {
  __shared__ float s[32];
  const int t = threadIdx.x;
  s[t] = x[blockIdx.x * 32 + t];
  __syncthreads();
  if (t < n)
    atomicAdd(&y[blockIdx.x], s[31 - t]);
}

extern "C" __global__ void many(float *x, int n) {
  for (int i = 0; i < n; i++) x[threadIdx.x] += 1;
}

extern "C" __global__ void stops(float *x, int at) {
  if (threadIdx.x < 4) __syncthreads();
  x[threadIdx.x + (blockIdx.x == at ? 1000 : 0)] = 1;
}"""


@pytest.fixture(scope="module")
def module() -> SimModule:
    return SimModule(TEXT, record=True)


def accesses(module: SimModule, thread: int) -> list[tuple[str, int | None, int, str]]:
    """(kind, line, barriers before it, element) of each access of a thread."""
    assert module.recording is not None
    recording = module.recording
    return [
        (KINDS[kind], recording.lines[pc], epoch, str(recording.place(region, offset)))
        for number, kind, pc, epoch, _, region, offset in recording.events.tolist()
        if number == thread and kind != BEGINS
    ]


def test_accesses_of_a_thread(module: SimModule) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(2, np.float32)
    assert module.launch("steps", 2, 32, [y, x, 8], record_block=(1,)) == []
    recording = module.recording
    assert recording is not None
    assert recording.block == (1, 0, 0)
    assert not recording.truncated
    before = [("read", 4, 0, "x[35]"), ("write", 4, 0, "s[3]")]
    after = accesses(module, 3)
    assert after[:2] == before
    assert ("read", 7, 1, "s[28]") in after
    assert ("atomic", 7, 1, "y[1]") in after
    assert accesses(module, 8) == [("read", 4, 0, "x[40]"), ("write", 4, 0, "s[8]")]
    assert [(r.name, r.shared, r.nbytes, r.origin) for r in recording.regions][:3] == [
        *sorted((("y", False, 8, 0), ("x", False, 256, 0)), key=lambda r: _at(r[0], x, y)),
        ("s", True, 128, 0),
    ]
    assert {end.state for end in recording.ends} == {"ended"}


def _at(name: str, x: np.ndarray[tuple[int], np.dtype[np.float32]],
        y: np.ndarray[tuple[int], np.dtype[np.float32]]) -> int:  # fmt: skip
    return {"x": x, "y": y}[name].ctypes.data


def test_views_tell_where_their_memory_begins(module: SimModule) -> None:
    x = np.zeros(100, np.float32)
    module.launch("many", 1, 32, [x[10:][5:], 1])
    assert module.recording is not None
    assert module.recording.regions[0].origin == 60


def test_the_first_block_with_a_report_is_kept(module: SimModule) -> None:
    reports = module.launch("stops", 4, 8, [np.zeros(8, np.float32), 2])
    assert {report.block[0] for report in reports if report.kind == "out-of-bounds"} == {2}
    assert module.recording is not None
    first = min(report.block[0] for report in reports)
    assert module.recording.block == (first, 0, 0)
    states = [end.state for end in module.recording.ends]
    assert len(states) == 8


def test_how_threads_end(module: SimModule) -> None:
    module.launch("stops", 1, 8, [np.zeros(8, np.float32), 0])
    assert module.recording is not None
    states = [(end.state, end.line) for end in module.recording.ends]
    assert states[:4] == [("barrier", 15)] * 4
    assert states[4:] == [("stopped", None)] + [("not started", None)] * 3


def test_a_record_is_bounded(module: SimModule) -> None:
    x = np.zeros(32, np.float32)
    assert module.launch("many", 1, 32, [x, 5000]) == []
    assert (x == 5000).all()
    assert module.recording is not None
    assert module.recording.truncated
    assert len(module.recording.events) == MOST_EVENTS
    counts = np.bincount(module.recording.events["thread"])
    assert (counts == MOST_EVENTS // 32).all()


@pytest.mark.parametrize("block", [(2,), (0, 1), (-1,), (0, 0, 0, 0)])
def test_a_block_that_is_not_there(module: SimModule, block: tuple[int, ...]) -> None:
    with pytest.raises(DeviceError, match="no block") as error:
        module.launch("many", 2, 32, [np.zeros(32, np.float32), 1], record_block=block)
    assert error.value.code == "ML440"


def test_nothing_is_recorded_unasked() -> None:
    module = SimModule(TEXT, check=True)
    module.launch("many", 1, 32, [np.zeros(32, np.float32), 1])
    assert module.recording is None
