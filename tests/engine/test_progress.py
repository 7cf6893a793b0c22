"""Progress is told while something takes long, and a cancel ends it wherever it is."""

from __future__ import annotations

import os
import pty
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import progress
from maxlab.analysis.advice import experiments
from maxlab.analysis.check import compare
from maxlab.analysis.edit import edit_kernel
from maxlab.analysis.runs.sweep import sweep
from maxlab.analysis.trial import try_action
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.errors import CancelledError, ToolchainError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.toolchain.small import settings

HANG_S = 60.0
X = np.ones((3, 8), np.float32)


@pytest.fixture
def told() -> Iterator[list[tuple[str, bool]]]:
    """What a listener hears: text, and whether it was the end."""
    heard: list[tuple[str, bool]] = []

    def listener(work: progress.Work) -> None:
        heard.append((work.text, work.is_over))

    progress.listen(listener)
    yield heard
    progress.unlisten(listener)


def graph_of(factor: float = 2.0) -> Graph:
    with Graph("small", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(ops.tanh(x * factor)), ops.sum(x))
    return graph


def loaded() -> Model:
    return InferenceSession(num_threads=1).load(graph_of())


def loads(model: Model) -> object:
    graph = graph_of(1.0 + time.time() % 1)  # no kernel that anybody has compiled
    return InferenceSession(num_threads=1).load(graph)


def profiles(model: Model) -> object:
    return model.profile(X, runs=3, warmup=2)


def sweeps(model: Model) -> object:
    return sweep(model, n=[2, 4], runs=2)


def checks(model: Model) -> object:
    return compare(model, X)


def tries(model: Model) -> object:
    profile = model.profile(X, runs=2)
    action = next(a for a in experiments(profile) if a.can_try)
    return try_action(profile, action, runs=3)


def edits(model: Model) -> object:
    return edit_kernel(model, "k0", model.kernels["k0"].source, X, runs=2)


PLACES: list[tuple[Callable[[Model], object], str]] = [
    (loads, "passes"),
    (loads, "schedule"),
    (loads, "plan"),
    (loads, "compiling"),
    (loads, "weights"),
    (profiles, "first run"),
    (profiles, "warming up"),
    (profiles, "running"),
    (sweeps, "sweeping"),
    (checks, "checking"),
    (tries, "running in turns"),
    (edits, "first run"),
    (edits, "running in turns"),
]


# ---------------------------------------------------------------- the channel
def test_a_work_is_one_line() -> None:
    work = progress.Work("load minilm")
    assert work.text == "load minilm"
    work.step("compiling", 12, 58, "matmul_add")
    assert work.text == "compiling 12 of 58 · matmul_add"
    work.advance(2, "softmax")
    assert work.text == "compiling 14 of 58 · softmax"
    work.outline("sweeping", 1, 4, "n 8")
    work.step("running", 2, 3)
    assert work.text == "sweeping 1 of 4 · n 8: running 2 of 3"
    work.outline("")
    work.step("drawing")
    assert work.text == "drawing"


def test_a_work_inside_of_another_is_a_part_of_it() -> None:
    with progress.working("sweep") as outer:
        with progress.working("profile") as inner:
            assert inner is outer is progress.now()
        assert progress.running() == [outer]
    assert progress.now() is None
    assert outer.is_over


def test_listeners_hear_of_what_takes_long_and_of_its_end(told: list[tuple[str, bool]]) -> None:
    with progress.working("short"):
        pass
    assert told == []
    with progress.working("long"):
        progress.step("waiting", 1, 2)
        wait_until(lambda: len(told) >= 2)
    assert told[0] == ("waiting 1 of 2", False)
    assert told[-1] == ("waiting 1 of 2", True)
    count = len(told)
    time.sleep(3 * progress.PERIOD_S)
    assert len(told) == count


def test_a_listener_that_raises_is_dropped(told: list[tuple[str, bool]]) -> None:
    calls = []

    def bad(work: progress.Work) -> None:
        calls.append(work)
        raise RuntimeError("no page")

    progress.listen(bad)
    with progress.working("long"):
        wait_until(lambda: len(told) >= 3)
    assert len(calls) == 1


def test_a_work_that_was_cancelled_before_it_began_does_not_begin() -> None:
    work = progress.Work("profile")
    work.cancel()
    with pytest.raises(CancelledError, match="ML897"), progress.working(work):
        raise AssertionError
    assert progress.now() is None


# ---------------------------------------------------------------- cancel at each phase
@pytest.mark.parametrize(("act", "phase"), PLACES, ids=lambda x: getattr(x, "__name__", x))
def test_a_cancel_ends_every_phase_and_leaves_all_as_it_was(
    act: Callable[[Model], object],
    phase: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = loaded()
    revision, before = model.revision, model.execute(X)[0].to_numpy()
    real = progress.Work.step
    seen: list[str] = []

    def stepped(work: progress.Work, now: str, *args: Any) -> None:
        real(work, now, *args)
        seen.append(now)
        if now == phase:
            work.cancel()

    monkeypatch.setattr(progress.Work, "step", stepped)
    with settings(cache_dir=tmp_path / "cache"), pytest.raises(CancelledError, match="ML897"):
        act(model)
    assert seen[-1] == phase
    assert progress.running() == []
    monkeypatch.undo()
    assert model.revision - revision <= (1 if act is tries else 0)  # which profiles it first
    np.testing.assert_array_equal(model.execute(X)[0].to_numpy(), before)
    assert act(model) is not None


def test_a_cancel_ends_compilers_and_what_they_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    compiler = tmp_path / "fakecc"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo cc 1.0 && exit 0\n'
        f'sleep 1000 & echo $! > "{pids}/$!"; echo $$ > "{pids}/$$"; wait\n'
    )
    compiler.chmod(0o755)
    loaded()  # the runtime is compiled by the real one
    errors: list[BaseException] = []

    def load() -> None:
        try:
            loads(loaded_model)
        except BaseException as error:
            errors.append(error)

    loaded_model = loaded()
    with settings(cache_dir=tmp_path / "cache", cc=str(compiler)):
        worker = threading.Thread(target=load)
        worker.start()
        wait_until(lambda: len(list(pids.iterdir())) >= 2)
        [work] = progress.running()
        work.cancel()
        worker.join(HANG_S)
    assert [type(error) for error in errors] == [CancelledError]
    wait_until(lambda: not any(is_alive(int(entry.name)) for entry in pids.iterdir()))
    assert loads(loaded_model) is not None


def test_a_cancel_ends_a_kernel_that_runs(told: list[tuple[str, bool]]) -> None:
    with Graph("long", input_types=[TensorType(DType.float32, ["n", 0])]) as graph:
        n = graph.inputs[0].tensor.shape[0]
        ones = ops.broadcast_to(ops.constant(1, DType.float32, DeviceRef.CPU()), [n, 1 << 20])
        graph.output(ops.sum(ops.tanh(ones)))
    model = InferenceSession(num_threads=2).load(graph)
    threading.Thread(target=cancel_later, args=(told,)).start()
    with pytest.raises(CancelledError, match="first run"):
        model.profile(np.empty((1 << 20, 0), np.float32))
    assert len(model.execute(np.empty((2, 0), np.float32))) == 1


def cancel_later(told: list[tuple[str, bool]]) -> None:
    wait_until(lambda: any("first run" in text for text, _ in told))
    for work in progress.running():
        work.cancel()


def test_a_compiler_that_fails_is_told_as_itself_and_ends_the_work(tmp_path: Path) -> None:
    compiler = tmp_path / "fakecc"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo cc 1.0 && exit 0\necho no; exit 1\n'
    )
    compiler.chmod(0o755)
    model = loaded()
    with settings(cache_dir=tmp_path / "cache", cc=str(compiler)), pytest.raises(ToolchainError):
        loads(model)
    assert progress.running() == []
    assert progress.now() is None


# ---------------------------------------------------------------- a terminal
PROGRAM = """
import maxlab, time
from maxlab import progress
with progress.working("load deep"):
    progress.step("compiling", 3, 9, "softmax")
    time.sleep(1.2)
print("DO" + "NE")
"""


def test_a_terminal_shows_one_line_that_goes_away() -> None:
    """In plain IPython, whose standard streams are a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        arguments = ["-m", "IPython", "--no-banner", "--quick", "--simple-prompt", "-c", PROGRAM]
        os.execv(sys.executable, [sys.executable, *arguments])
    text = read_until(terminal, b"DONE")
    os.close(terminal)
    os.waitpid(pid, 0)
    assert b"\r\x1b[2Kload deep: compiling 3 of 9 \xc2\xb7 softmax  0." in text
    before, _, _ = text.partition(b"DONE")
    assert b"\n" not in before.strip()  # one line, written over and over
    assert before.endswith(b"\r\x1b[2K")  # and taken away


def test_nothing_is_written_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    line = progress.TerminalLine()
    progress.listen(line)
    try:
        with progress.working("long"):
            time.sleep(progress.DELAY_S + 2 * progress.PERIOD_S)
    finally:
        progress.unlisten(line)
    assert capfd.readouterr().err == ""


def read_until(terminal: int, mark: bytes) -> bytes:
    text = b""
    end = time.monotonic() + HANG_S
    while mark not in text and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            try:
                text += os.read(terminal, 4096)
            except OSError:  # the program has ended
                break
    return text


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
