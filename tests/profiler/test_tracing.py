"""Spans: what is recorded when, what nests in what, and that nothing is recorded when off."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator

import pytest

from maxlab import profiler, trace
from maxlab.errors import ArgumentTypeError, SpanError
from maxlab.profiler import Tracer, traced
from maxlab.trace import Event


@pytest.fixture
def heard() -> Iterator[list[Event]]:
    """Every span and mark of the test, with profiling on."""
    found: list[Event] = []

    def hear(event: Event) -> None:
        if event.kind in ("python", "mark"):
            found.append(event)

    before = profiler.enable()
    trace.recorder().listen(hear)
    yield found
    trace.recorder().unlisten(hear)
    profiler.enable(before)


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


def inside(inner: Event, outer: Event) -> bool:
    return (
        outer.start_ns <= inner.start_ns
        and inner.start_ns + inner.dur_ns <= outer.start_ns + outer.dur_ns
    )


def test_spans_nest(heard: list[Event]) -> None:
    with Tracer("outer", color="teal") as tracer:
        tracer.push("first")
        tracer.push("deep")
        tracer.pop()
        tracer.next("second")
        tracer.mark()
    assert names(heard) == ["deep", "first", "second", "second", "outer"]
    deep, first, mark, second, outer = heard
    assert inside(deep, first)
    assert inside(first, outer)
    assert inside(second, outer)
    assert mark.kind == "mark"
    assert mark.dur_ns == 0
    assert inside(mark, second)
    assert first.start_ns + first.dur_ns <= second.start_ns
    assert outer.data == {"color": "teal"}
    assert second.data == {"color": "modular_purple"}
    assert {event.thread for event in heard} == {threading.get_ident()}


def test_pushes_without_a_message_keep_the_stack_even(heard: list[Event]) -> None:
    tracer = Tracer()
    tracer.push()
    tracer.mark()
    tracer.push("named")
    tracer.pop()
    tracer.pop()
    tracer.pop()  # more pops than pushes do no harm
    assert names(heard) == ["named"]


@pytest.mark.parametrize(("call", "kind"), [("mark", AssertionError), ("next", IndexError)])
def test_nothing_is_open(call: str, kind: type[Exception]) -> None:
    tracer = Tracer()
    arguments = ["x"] if call == "next" else []
    with pytest.raises(kind, match=f"Tracer.{call}: no span is open") as caught:
        getattr(tracer, call)(*arguments)
    assert isinstance(caught.value, SpanError)
    tracer.pop()


def test_the_exception_is_recorded(heard: list[Event]) -> None:
    tracer = Tracer("outer")

    def fail() -> None:
        with tracer:
            tracer.push("inner")
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert [(e.name, e.data["error"]) for e in heard] == [
        ("inner", "KeyError"),
        ("outer", "KeyError"),
    ]
    tracer.push("by hand")
    tracer.pop(exc_value=ValueError("y"))
    assert heard[-1].data["error"] == "ValueError"


def test_a_deleted_tracer_closes_its_spans(heard: list[Event]) -> None:
    tracer = Tracer("a")
    tracer.push("b")
    del tracer
    assert names(heard) == ["b", "a"]


def test_cleanup_closes_all(heard: list[Event]) -> None:
    tracer = Tracer("a")
    tracer.push("b")
    tracer.cleanup()
    tracer.cleanup()
    assert names(heard) == ["b", "a"]


def test_nothing_is_recorded_while_off(heard: list[Event]) -> None:
    profiler.enable(False)

    @traced
    def work() -> int:
        return 1

    with Tracer("outer") as tracer:
        tracer.push("inner")
        tracer.mark()
        tracer.next("other")
        profiler.enable()
        assert work() == 1
    assert names(heard) == ["work"]


def test_traced_functions(heard: list[Event]) -> None:
    @traced(message="inference", color="red")
    def run(x: int, *, y: int = 1) -> int:
        """Doc."""
        return x + y

    @traced
    def fail() -> None:
        raise OSError("no")

    assert run(1, y=2) == 3
    assert (run.__name__, run.__doc__) == ("run", "Doc.")
    with pytest.raises(OSError, match="no"):
        fail()
    assert [(e.name, e.data) for e in heard] == [
        ("inference", {"color": "red"}),
        ("fail", {"color": "modular_purple", "error": "OSError"}),
    ]


def test_traced_coroutines_last_until_they_end(heard: list[Event]) -> None:
    @traced
    async def wait(turns: int) -> int:
        for _ in range(turns):
            with Tracer("turn"):
                await asyncio.sleep(0)
        return turns

    async def both() -> list[int]:
        return list(await asyncio.gather(wait(3), wait(1)))

    assert asyncio.run(both()) == [3, 1]
    assert names(heard).count("wait") == 2
    assert names(heard).count("turn") == 4
    assert names(heard)[-1] == "wait"
    assert all(inside(event, heard[-1]) for event in heard[:-1])


def test_traced_generators_last_until_they_end(heard: list[Event]) -> None:
    @traced
    def echo() -> Generator[int, int, str]:
        got = yield 1
        yield got
        return "end"

    steps = echo()
    assert next(steps) == 1
    assert heard == []
    assert steps.send(5) == 5
    with pytest.raises(StopIteration, match="end"):
        next(steps)
    assert names(heard) == ["echo"]


def test_what_cannot_be_traced() -> None:
    async def items() -> object:
        yield 1

    with pytest.raises(ArgumentTypeError, match="an asynchronous generator"):
        traced(items)
    with pytest.raises(ArgumentTypeError, match="got int"):
        traced(3)  # type: ignore[call-overload]


@pytest.mark.parametrize(("value", "on"), [("1", True), ("0", False), ("", False), (None, False)])
def test_the_environment_turns_it_on(value: str | None, on: bool) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "MAXLAB_ENABLE_PROFILING"}
    if value is not None:
        environment["MAXLAB_ENABLE_PROFILING"] = value
    code = "from maxlab import profiler; print(profiler.is_enabled())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(on)
