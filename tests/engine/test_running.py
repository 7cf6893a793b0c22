"""Runs that are ended, watched, or whose model is let go in the middle: nothing is lost, and the
next call is right. The same for every kind of plan: on the host alone, in stages, with loops, and
on simulated GPUs."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine, progress
from maxlab.dtype import DType
from maxlab.engine import executor
from maxlab.engine.frame import Frame
from maxlab.engine.observing import HostTimes, Observer
from maxlab.engine.stepping import Walk
from maxlab.engine.timer import Timer
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.toolchain import library

F32 = DType.float32
HOST, GPU = DeviceRef.CPU(), DeviceRef.GPU()
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A graph of one input, and what it gives.

    Attributes:
        place: Where its input is.
        body: The outputs for the input.
        want: The outputs for the input ``X``.
        moments: The methods of observers that a run calls.
    """

    name: str
    place: DeviceRef
    body: Callable[[Any], list[Any]]
    want: tuple[Any, ...]
    moments: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


X = np.array([0, 2, 0, 3], np.float32)


def plain(x: Any) -> list[Any]:
    """Several kernels."""
    return [ops.cumsum(x * 2, axis=0), ops.softmax(x)]


def staged(x: Any) -> list[Any]:
    """A dim that is computed, and memory on both sides of it."""
    y = ops.cumsum(x, axis=0)
    hits = ops.cast(ops.nonzero(y, "hits"), F32)
    return [ops.cumsum(hits * 2, axis=0), y]


def looped(x: Any) -> list[Any]:
    """A loop whose memory changes places."""
    zero = ops.constant(0, DType.int64, HOST)
    (_, y) = ops.while_loop([zero, x], lambda i, y: i < 5, lambda i, y: [i + 1, y * 2 + 1])
    return [y]


def carried(x: Any) -> list[Any]:
    """A loop on the GPU that exchanges two tensors of the host: these are moved behind it."""
    zero, a = ops.constant(0, DType.int64, HOST), ops.transfer_to(x, HOST)
    (_, y, a, b) = ops.while_loop(
        [zero, x, a, a + 1],
        lambda i, y, a, b: i < 5,
        lambda i, y, a, b: [i + 1, y * 2 + 1, ops.cumsum(b, axis=0), a],
    )
    return [y, a, b]


def there(x: Any) -> list[Any]:
    """A kernel on the GPU, then one on the host."""
    return [ops.cumsum(ops.transfer_to(x * 2, HOST), axis=0)]


E = np.exp(X - X.max())
PLAIN = (np.cumsum(X * 2, dtype=np.float32), E / E.sum())
STAGED = (np.array([[2], [6], [12]], np.float32), np.cumsum(X, dtype=np.float32))
LOOPED = (X * 32 + 31,)
ONCE, AGAIN = (np.cumsum(np.cumsum(X + n, dtype=np.float32)) for n in (1, 0))
CARRIED = (*LOOPED, np.cumsum(ONCE), AGAIN)
BOTH = ("begin", "end", "host")
CASES = (
    Case("host", HOST, plain, PLAIN, ("host",)),
    Case("stages", HOST, staged, STAGED, ("host",)),
    Case("loop", HOST, looped, LOOPED, ("host",)),
    Case("gpu", GPU, plain, PLAIN, ("begin", "end")),
    Case("gpu in stages", GPU, staged, STAGED, ("begin", "end")),
    Case("gpu loop", GPU, looped, LOOPED, BOTH),
    Case("gpu loop and host", GPU, carried, CARRIED, (*BOTH, "moved")),
    Case("gpu and host", GPU, there, (np.cumsum(X * 2, dtype=np.float32),), BOTH),
)


class Loaded:
    """The model of a case, where it takes its input, and what its devices hold."""

    def __init__(self, case: Case, simulated: ExitStack) -> None:
        self.case = case
        self.gpus: list[driver.Accelerator] = []
        if case.place is GPU:
            simulated.enter_context(driver.simulated())
            self.gpus = [driver.Accelerator()]
        with Graph(case.name, input_types=[TensorType(F32, ["n"], case.place)]) as graph:
            graph.output(*case.body(graph.inputs[0].tensor))
        self.models = [engine.InferenceSession(devices=self.gpus or None).load(graph)]
        self.inputs = self.model.placed([X])

    @property
    def model(self) -> engine.Model:
        """The model."""
        return self.models[0]

    def check(self, outputs: Sequence[Any]) -> None:
        """Hold ``outputs`` against what the case gives."""
        for got, want in zip(outputs, self.case.want, strict=True):
            found = got.to(driver.CPU()).to_numpy()
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)

    def held(self) -> list[int]:
        """How many frames there are, and the bytes that tensors and frames hold on the host and on
        each GPU."""
        gc.collect()
        frames = sum(type(thing) is Frame for thing in gc.get_objects())
        return [frames, *(d.stats["used_memory"] for d in (driver.CPU(), *self.gpus))]


@pytest.fixture(params=CASES, ids=str)
def loaded(request: pytest.FixtureRequest) -> Iterator[Loaded]:
    with ExitStack() as simulated:
        yield Loaded(request.param, simulated)


# ---------------------------------------------------------------- observers
class Ends(Observer):
    """Raises ``error``, or sends the signal of Ctrl-C, at the first call of a method."""

    def __init__(self, moment: str, error: type[BaseException] | None) -> None:
        self.moment = moment
        self.error = error
        self.ended = False

    def _at(self, moment: str) -> None:
        if moment == self.moment and not self.ended:
            self.ended = True
            if self.error is None:
                signal.raise_signal(signal.SIGINT)
            else:
                raise self.error("ended here")

    def begin(self, step: Any, context: Any, queue: Any, words: Sequence[int]) -> None:
        self._at("begin")

    def end(self, step: Any, context: Any, queue: Any) -> None:
        self._at("end")

    def host(self, times: HostTimes) -> None:
        self._at("host")

    def moved(self, step: Any, begin_ns: int, end_ns: int) -> None:
        self._at("moved")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, None], ids=str)
def test_an_observer_that_raises_ends_one_run(
    loaded: Loaded, error: type[BaseException] | None
) -> None:
    model, inputs = loaded.model, loaded.inputs
    loaded.check(model(*inputs))
    before = loaded.held()
    for moment in loaded.case.moments:
        for _ in range(3):
            observer = Ends(moment, error)
            with pytest.raises(error or KeyboardInterrupt):
                model.run_observed(inputs, observer)
            assert observer.ended
            loaded.check(model(*inputs))
            loaded.check(model.run_observed(inputs, observer))
    assert loaded.held() == before


def test_several_observers_see_the_same(loaded: Loaded) -> None:
    seen: list[list[str]] = [[], []]

    class Notes(Observer):
        def __init__(self, found: list[str]) -> None:
            self.found = found

        def begin(self, step: Any, context: Any, queue: Any, words: Sequence[int]) -> None:
            self.found.append(f"begin {step.id}")

        def end(self, step: Any, context: Any, queue: Any) -> None:
            self.found.append(f"end {step.id}")

        def host(self, times: HostTimes) -> None:
            self.found.extend(f"host {step.id}" for step in times.steps)

        def moved(self, step: Any, begin_ns: int, end_ns: int) -> None:
            self.found.append(f"moved {step.id}")

    loaded.check(loaded.model.run_observed(loaded.inputs, *map(Notes, seen)))
    assert seen[0] == seen[1]
    assert {text.split()[0] for text in seen[0]} == set(loaded.case.moments)
    begun = [text.split()[1] for text in seen[0] if text.startswith("begin")]
    assert begun == [text.split()[1] for text in seen[0] if text.startswith("end")]


def test_times_after_a_run_that_was_ended(loaded: Loaded) -> None:
    """Those of the timer that was ended, and those of a profile: each step ran as often as ever,
    within its call."""
    model, inputs = loaded.model, loaded.inputs
    turns = model.profile(*inputs, runs=1, warmup=0).stamps.turns
    threads = model.num_threads if loaded.case.place is HOST else 0
    for moment in loaded.case.moments:
        timer = Timer(model, threads)
        with pytest.raises(KeyboardInterrupt):
            timer.run(inputs, Ends(moment, KeyboardInterrupt))
        loaded.check(timer.run(inputs))
        again = timer.taken()
        np.testing.assert_array_equal(again.turns, turns[0])
        assert again.steps[again.turns > 0].min() >= again.call[0]
        stamps = model.profile(*inputs, runs=2, warmup=0).stamps
        np.testing.assert_array_equal(stamps.turns, np.repeat(turns, 2, axis=0))
        assert (stamps.spent >= 0).all()


def many_steps(x: Any) -> list[Any]:
    """More steps than the executor runs without a look at signals."""
    for _ in range(150):
        x = ops.cumsum(x, axis=0)
    return [x]


def many_turns(x: Any) -> list[Any]:
    """A loop of so many."""
    zero = ops.constant(0, DType.int64, HOST)
    (_, y) = ops.while_loop(
        [zero, x], lambda i, y: i < 150, lambda i, y: [i + 1, ops.cumsum(y, axis=0)]
    )
    return [y]


@pytest.mark.parametrize("body", [many_steps, many_turns], ids=["steps", "turns"])
def test_ctrl_c_between_two_steps_of_the_host(body: Callable[[Any], list[Any]]) -> None:
    """At each of the places where the executor looks, one after another."""
    want = X
    for _ in range(150):
        want = np.cumsum(want, dtype=np.float32)
    looks, end = 0, -1

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks - 1 == end:
            raise KeyboardInterrupt

    def run() -> None:
        nonlocal looks
        looks = 0
        with library.runtime().interrupts.heard_by(look, period_ns=0):
            many.check(many.model(*many.inputs))

    with ExitStack() as nothing:
        many = Loaded(Case("many", HOST, body, (want,), ("host",)), nothing)
        run()
        before, count = many.held(), looks
        assert count >= 4
        for place in range(count):
            end = place
            with pytest.raises(KeyboardInterrupt):
                run()
            end = -1
            run()
            assert looks == count
        assert many.held() == before


def test_ctrl_c_between_two_slices_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the thread comes back from the executor to look for signals: the next call begins at
    the first turn."""
    want = X
    for _ in range(150):
        want = np.cumsum(want, dtype=np.float32)
    monkeypatch.setattr(executor, "SLICE_NS", 0)
    with ExitStack() as nothing:
        many = Loaded(Case("many", HOST, many_turns, (want,), ("host",)), nothing)
        many.check(many.model(*many.inputs))
        before = many.held()
        for end in (1, 2, 70):
            left = iter(range(end))

            def look(left: Iterator[int] = left) -> None:
                if next(left, None) is None:
                    raise KeyboardInterrupt

            with monkeypatch.context() as ended:
                ended.setattr(progress, "check", look)
                with pytest.raises(KeyboardInterrupt):
                    many.model(X + 1)
            many.check(many.model(*many.inputs))
        assert many.held() == before


def test_runs_of_other_threads_go_on_beside_one_that_is_ended(loaded: Loaded) -> None:
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                loaded.check(loaded.model(*loaded.inputs))
        except BaseException as error:
            wrong.append(error)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for _ in range(20):
        with pytest.raises(ValueError, match="ended here"):
            loaded.model.run_observed(loaded.inputs, Ends(loaded.case.moments[-1], ValueError))
    for worker in workers:
        worker.join()
    assert not wrong


# ---------------------------------------------------------------- between two stages
@pytest.mark.parametrize("case", [c for c in CASES if "stages" in c.name], ids=str)
def test_ctrl_c_between_two_stages(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as simulated:
        loaded = Loaded(case, simulated)
        loaded.check(loaded.model(*loaded.inputs))
        before = loaded.held()
        (program,) = (loaded.model.bind((X.shape,)),)
        sizes = type(program).sizes

        def ended(self: Any, frame: Any) -> tuple[int, ...]:
            signal.raise_signal(signal.SIGINT)
            return sizes(self, frame)

        monkeypatch.setattr(type(program), "sizes", ended)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                loaded.model(*loaded.inputs)
        monkeypatch.undo()
        loaded.check(loaded.model(*loaded.inputs))
        assert loaded.held() == before


# ---------------------------------------------------------------- models that are let go
class Waits(Observer):
    """Holds a run at its first step until ``go`` is set."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    def _wait(self) -> None:
        self.entered.set()
        assert self.go.wait(30)

    def begin(self, step: Any, context: Any, queue: Any, words: Sequence[int]) -> None:
        self._wait()

    def host(self, times: HostTimes) -> None:
        self._wait()


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("is_closed", [False, True], ids=["kept", "closed"])
def test_a_model_that_is_let_go_while_another_thread_runs_it(case: Case, is_closed: bool) -> None:
    """And whose devices are those of a block of simulated ones that has ended."""
    with ExitStack() as simulated:
        loaded = Loaded(case, simulated)
        inputs, waits = loaded.inputs, Waits()
        known = weakref.ref(loaded.model)
        made: list[Any] = []

        def work() -> None:
            made.extend(loaded.models.pop().run_observed(inputs, waits))

        worker = threading.Thread(target=work)
        worker.start()
        assert waits.entered.wait(30)
        gc.collect()
        assert not loaded.models
        if is_closed:
            simulated.close()
        waits.go.set()
        worker.join()
        loaded.check(made)
        del worker, work
        gc.collect()
        assert known() is None
        loaded.check(made)


def test_a_model_that_is_let_go_before_its_outputs_are_there(loaded: Loaded) -> None:
    made: list[Any] = []
    for _ in range(3):
        made += loaded.model(*loaded.inputs)
    loaded.models.clear()
    gc.collect()
    for n in range(3):
        count = len(loaded.case.want)
        loaded.check(made[n * count : (n + 1) * count])


# ---------------------------------------------------------------- walks
def test_a_walk_that_is_left_disturbs_no_run(loaded: Loaded) -> None:
    loaded.check(loaded.model(*loaded.inputs))
    before = loaded.held()
    count = sum(1 for _ in Walk(loaded.model, loaded.inputs))
    assert count
    for end in range(count + 1):
        walk = Walk(loaded.model, loaded.inputs)
        for _, _ in zip(range(end), walk, strict=False):
            loaded.check(loaded.model(*loaded.inputs))
        if end == count:
            loaded.check(walk.outputs)
        del walk
    assert loaded.held() == before
