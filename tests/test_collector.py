"""The garbage collector waits while a graph is compiled, and goes on afterwards, as it was."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from maxlab.collector import importing, paused
from maxlab.compiler import compile_function, schedule
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops


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


def test_what_an_import_makes_is_old_at_once() -> None:
    gc.collect()
    with importing():
        assert not gc.isenabled()
        made = [[n] for n in range(100)]
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    old = {id(one) for one in gc.get_objects(generation=2)}
    assert all(id(one) in old for one in made)


def test_cycles_of_an_import_are_found() -> None:
    with importing():
        cycle: list[object] = []
        cycle.append(cycle)
        held = weakref.finalize(_Held(cycle), lambda: None)
        del cycle
    assert held.alive
    gc.collect()
    assert not held.alive


def test_what_somebody_keeps_from_the_collector_stays_there() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with importing():
            pass
        # Other threads free some of theirs meanwhile; to thaw all leaves none.
        assert gc.get_freeze_count() >= before * 99 // 100 > 0
    finally:
        gc.unfreeze()


class _Held:
    """Refers to itself through a list, so that the collector alone can free it."""

    def __init__(self, cycle: list[object]) -> None:
        cycle.append(self)
        self.cycle = cycle
