"""The garbage collector waits while a graph is compiled, and goes on afterwards, as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from maxlab.compiler import compile_function, schedule
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain.collector import paused


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave the collector on."""
    yield
    gc.enable()


def small() -> Graph:
    """A graph of one op."""
    with Graph("small", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(ops.tanh(graph.inputs[0].tensor))
    return graph


def test_it_waits_while_a_graph_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    build = schedule.Schedule._build

    def looking(self: schedule.Schedule) -> None:
        seen.append(gc.isenabled())
        build(self)

    monkeypatch.setattr(schedule.Schedule, "_build", looking)
    compile_function(small().function)
    assert seen == [False]
    assert gc.isenabled()


def test_it_goes_on_after_an_error_and_behind_the_last_of_several_threads() -> None:
    with pytest.raises(ZeroDivisionError), paused():
        raise ZeroDivisionError
    assert gc.isenabled()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with paused():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with paused():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_it_stays_off_where_it_was_off() -> None:
    gc.disable()
    compile_function(small().function)
    assert not gc.isenabled()
