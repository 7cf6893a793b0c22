"""Random sequences of edits: taken back they give the first text, done again the second, also from
JSON, on a copy, and with failures in the middle."""

from __future__ import annotations

import json
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxlab.errors import GraphError
from maxlab.ir import Function, listen
from maxlab.ir.edit import Edit, SetName, inverse
from maxlab.ir.edit_json import KINDS, from_json, to_json
from maxlab.ir.edit_log import Log, apply
from maxlab.ir.printer import generic, pretty
from maxlab.ir.verifier import verify
from tests.ir.edit_steps import STEPS, Steps, function, texts

CI, ALL, EACH = 200, 5000, 500
"""How many sequences a push and ``--all`` run, and how often each kind of record occurs in all."""

NUMBER = st.integers(0, 63)
STEP = st.tuples(st.sampled_from(STEPS), NUMBER, NUMBER, NUMBER)
SEQUENCE = st.tuples(st.lists(STEP, min_size=6, max_size=24), st.integers(0, 10**6))


def text(f: Function) -> str:
    """All that can be seen of ``f``: its text, its form to read, the order of its ids, notes."""
    notes = {table: list(notes.items()) for table, notes in sorted(f.notes.items()) if notes}
    return f"{generic(f)}{pretty(f)}{notes}"


@pytest.mark.parametrize("name", texts())
def test_sequences(request: pytest.FixtureRequest, name: str) -> None:
    whole = request.config.getoption("--all")
    counts: Counter[type[Edit]] = Counter()

    @settings(
        max_examples=-(-(ALL if whole else CI) // len(texts())),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(SEQUENCE)
    def sequence(drawn: tuple[list[Any], int]) -> None:
        steps, number = drawn
        counts.update(map(type, one(name, steps, number)))

    sequence()
    least = -(-EACH // len(texts())) if whole else 0
    assert {kind.__name__: counts[kind] for kind in KINDS if counts[kind] < least} == {}


def one(name: str, steps: list[Any], number: int) -> list[Edit]:
    """The records of one sequence, which keeps what the log promises."""
    f = function(name)
    first = text(f)
    log = listen(f)
    with log.transaction():
        change(f, steps)
    second, edits = text(f), log.edits()
    verify(f)

    log.undo()
    assert text(f) == first
    verify(f)
    log.redo()
    assert text(f) == second
    verify(f)
    log.undo_to(0)
    assert text(f) == first
    verify(f)
    assert not log.undo()

    sent = [json.dumps(to_json(edit)) for edit in edits]
    received = [from_json(json.loads(line)) for line in sent]
    assert [json.dumps(to_json(edit)) for edit in received] == sent
    copy = function(name)
    apply(copy, received)
    assert text(copy) == second
    verify(copy)
    apply(copy, inverse(received))
    assert text(copy) == first
    verify(copy)

    failing(copy, received, number)
    assert text(copy) == first
    verify(copy)
    interrupted(name, steps, number)
    return edits


def change(f: Function, steps: list[Any]) -> None:
    """Do the steps."""
    for step, a, b, c in steps:
        step(Steps(f), a, b, c)


def failing(f: Function, edits: list[Edit], number: int) -> None:
    """Apply ``edits`` with one in the middle that does not fit."""
    at = number % (len(edits) + 1)
    with pytest.raises(GraphError) as raised:
        apply(f, [*edits[:at], SetName("nobody", "", "x"), *edits[at:]])
    assert raised.value.code == "ML389"


def interrupted(name: str, steps: list[Any], number: int) -> None:
    """Do the steps with Ctrl-C at some line of the methods that change a function."""
    f = function(name)
    first, log = text(f), listen(f)
    lines = Interrupt(None)
    with lines:
        change(f, steps)
    log.undo_to(0)
    if lines.seen == 0:
        return
    start, interrupt = log.mark(), Interrupt(number % lines.seen)

    def run() -> None:
        with log.transaction(), interrupt:
            change(f, steps)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert len(log) == start
    assert text(f) == first
    verify(f)


class Interrupt:
    """Ctrl-C at the line ``at``, counted in the modules that change a function."""

    FILES = ("/ir/core.py", "/ir/rewriting.py", "/ir/edit_log.py", "/ir/edit_objects.py")
    # Ctrl-C comes between calls: not between the two lines that go together in `Log.settle`.
    APART = (Log.settle.__code__,)

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.seen = 0
        self._old: Any = None

    def __enter__(self) -> Interrupt:
        self._old = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._old)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code in self.APART or not code.co_filename.endswith(self.FILES):
            return None
        if event == "line":
            self.seen += 1
            if self.seen - 1 == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace
