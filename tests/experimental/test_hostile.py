"""What goes wrong around tensors: devices that do not fit, interrupts, threads, failing objects."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import driver
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.experimental import functional as F  # noqa: N812 - as everybody calls it
from maxlab.experimental import programs, tracing
from maxlab.experimental.tensor import Tensor, stats
from maxlab.graph import ops

ROW = np.arange(4, dtype=np.float32)


def row() -> Tensor:
    """A tensor with a value."""
    return Tensor.from_dlpack(ROW.copy())


def test_mixed_devices() -> None:
    """The operation is refused where it is written; what was recorded before is computed."""
    with driver.simulated():
        here, there = row() * 2, row().to(driver.Accelerator()) * 3
        line = sys._getframe().f_lineno + 2
        with pytest.raises(MaxlabError, match="device") as caught:
            here + there
        assert caught.value.at is not None
        assert caught.value.at.line == line
        both = here + there.to(driver.CPU())
        assert both.tolist() == (ROW * 5).tolist()


def test_ctrl_c_in_the_middle_of_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The read ends; the next one computes what it would have, once."""
    whole = programs.session_for

    def interrupted(graph: Any) -> Any:
        monkeypatch.setattr(programs, "session_for", whole)
        signal.raise_signal(signal.SIGINT)
        return whole(graph)

    x = F.tanh(row() * 0.625 + 0.0625)
    monkeypatch.setattr(programs, "session_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        x.numpy()
    assert not x.real
    before = stats()
    np.testing.assert_allclose(x.numpy(), np.tanh(ROW * 0.625 + 0.0625), rtol=1e-6)
    assert (stats() - before).runs == 1


def test_ctrl_c_while_an_operation_is_recorded() -> None:
    """Nothing of it is recorded."""

    @F.functional
    def interrupted(x: Any) -> Any:
        y = ops.exp(x)
        signal.raise_signal(signal.SIGINT)
        return y

    x = row() * 2
    with pytest.raises(KeyboardInterrupt):
        interrupted(x)
    graph = (x + 1).graph
    assert "mo.exp" not in [op.name for op in graph.function.ops]
    assert (x + 1).tolist() == (ROW * 2 + 1).tolist()


def test_an_exception_in_a_function_of_the_user() -> None:
    """It comes out as it is, and nothing is recorded."""

    @F.functional
    def failing(x: Any) -> Any:
        ops.exp(x)
        raise ZeroDivisionError

    x = row() * 2
    with pytest.raises(ZeroDivisionError):
        failing(x)
    assert len((x + 1).graph.function.ops) == len((row() * 2 + 1).graph.function.ops)


def test_an_exception_while_a_tensor_is_shown() -> None:
    """A tensor that cannot be computed raises when it is shown, and each time anew; others are
    unharmed."""
    x = row()
    wrong = F.gather(x, Tensor.constant([9], dtype=DType.int64), 0)
    right = x + 1
    for show in (repr, str, lambda t: t._repr_mimebundle_()):
        with pytest.raises(MaxlabError, match="out of range"):
            show(wrong)
    assert right.tolist() == (ROW + 1).tolist()


class Failing:
    """An object that raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")


@pytest.mark.parametrize(
    "make", [Failing, object, str, dict, complex, lambda: None, lambda: [[1], [1, 2]]]
)
def test_operands_that_are_none(make: Callable[[], Any]) -> None:
    """Each is a typed error, and nothing is recorded."""
    x, other = row() * 2, make()
    acts: list[Callable[[], Any]] = [lambda: x + other, lambda: other * x]
    acts.append(lambda: F.concat([x, other]))
    for act in acts:
        with pytest.raises((MaxlabError, TypeError)):
            act()
    assert (x + 1).tolist() == (ROW * 2 + 1).tolist()


def test_a_tensor_that_is_read_while_another_thread_computes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second reader waits and gets the same value; it is computed once."""
    whole = programs.Program.__call__

    def slow(self: Any, *given: Any) -> Any:
        time.sleep(0.1)
        return whole(self, *given)

    monkeypatch.setattr(programs.Program, "__call__", slow)
    x = F.exp(row() * 0.125)
    before = stats()
    made: list[Any] = []
    threads = [threading.Thread(target=lambda: made.append(x.numpy())) for _ in range(4)]
    for thread in threads:
        thread.start()
    y = (x + 1).numpy()
    for thread in threads:
        thread.join()
    assert (stats() - before).runs == 2  # x, and x + 1
    for one in made:
        np.testing.assert_array_equal(one, made[0])
    np.testing.assert_array_equal(y, made[0] + 1)


def test_many_threads_record_at_once() -> None:
    """Each has its own trace, also where they work on tensors of each other."""
    shared = row() * 2
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                y = shared
                for _ in range(10):
                    y = y * 0.5 + number
                wanted = ROW * 2
                for _ in range(10):
                    wanted = wanted * np.float32(0.5) + np.float32(number)
                np.testing.assert_allclose(y.numpy() if turn % 2 else list(y), wanted, rtol=1e-6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_traces_of_threads_that_ended() -> None:
    """What they recorded is still computed when it is read."""
    made: list[Tensor] = []
    thread = threading.Thread(target=lambda: made.append(row() * 7))
    thread.start()
    thread.join()
    assert (made[0] + 1).tolist() == (ROW * 7 + 1).tolist()


def test_a_loop_does_not_grow() -> None:
    """Reading in a loop while something else stays recorded keeps traces short and few."""
    x = row()
    total = x * 0
    for _ in range(600):
        total = total + x
        (x * 2).numpy()
    assert len(tracing.traces()) < 200
    assert total.tolist() == (ROW * 600).tolist()


def test_temporaries_are_freed() -> None:
    """What nobody holds is no memory, neither before nor after a read."""
    x = Tensor.from_dlpack(np.ones(100_000, np.float32))
    kept = []
    for _ in range(3):
        y = x * 2
        z = F.exp(y)
        z.numpy()
        kept.append(weakref.ref(z.driver_tensor))
        del y, z
    gc.collect()
    assert [one() for one in kept] == [None] * 3


def test_inputs_of_what_is_dropped_are_freed() -> None:
    """Nobody reads what was recorded of them; the next tensor that is made shows it."""
    x = Tensor.from_dlpack(np.ones(100_000, np.float32))
    memory = weakref.ref(x.driver_tensor)
    y = F.exp(x * 2)
    del x, y
    Tensor.zeros((1,))
    gc.collect()
    assert memory() is None
    kept = row() * 2
    Tensor.zeros((1,))
    assert kept.tolist() == (ROW * 2).tolist()


def test_a_program_is_found_for_a_trace_of_another_length() -> None:
    """What the read depends on decides, not what else was recorded."""
    x = row()
    (F.exp(x) * 3).numpy()
    before = stats()
    unused = [x - n for n in range(5)]
    (F.exp(x) * 3).numpy()  # in an assertion pytest would hold on to its parts
    assert (stats() - before).compiled == 0
    assert not any(one.real for one in unused)
