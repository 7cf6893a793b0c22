"""The examples of ``profiler``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from maxlab import profiler, trace
from maxlab.profiler import Tracer, traced
from maxlab.trace import Event
from tests.reference.examples import example


@pytest.fixture
def heard() -> Iterator[list[Event]]:
    """The spans of the test, with profiling on."""
    found: list[Event] = []

    def hear(event: Event) -> None:
        if event.kind == "python":
            found.append(event)

    before = profiler.enable()
    trace.recorder().listen(hear)
    yield found
    trace.recorder().unlisten(hear)
    profiler.enable(before)


@example("profiler", 1)
def test_tracer(heard: list[Event]) -> None:
    tracer = Tracer("parent_operation", color="modular_purple")
    tracer.push("child_operation")
    tracer.pop()
    del tracer  # closes what is still open

    with Tracer("parent_operation", color="modular_purple") as tracer:
        tracer.push("child_operation")
        tracer.pop()
    assert [event.name for event in heard] == ["child_operation", "parent_operation"] * 2


class Work:
    """What the page calls `model` and `data`."""

    def __init__(self) -> None:
        self.done = 0

    def run(self) -> None:
        self.done += 1


@example("profiler", 2)
def test_traced(heard: list[Event]) -> None:
    model, data = Work(), Work()

    @traced(message="inference", color="red")
    def run_model() -> None:
        model.run()

    @traced
    def preprocess_data() -> None:
        data.run()

    run_model()
    preprocess_data()
    assert (model.done, data.done) == (1, 1)
    assert [(event.name, event.data["color"]) for event in heard] == [
        ("inference", "red"),
        ("preprocess_data", "modular_purple"),
    ]
    assert run_model.__name__ == "run_model"
