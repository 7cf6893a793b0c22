"""Questions of panels: answered with data and columns, or with why not; saved with the profile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from maxlab import trace
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.lab import GraphView
from maxlab.lab.protocol.questions import COMPILE, MEMORY, Question
from maxlab.lab.questions import answering, asking
from maxlab.lab.questions.asking import Answer, Shown, model_of, profile_of
from maxlab.lab.snapshot import take
from tests.lab.conftest import FakeComm
from tests.lab.graphs import load, small


@pytest.fixture(autouse=True)
def _own() -> Iterator[None]:
    """Questions of a test are gone after it, and only its own answers are saved."""
    answering.handlers()
    tables: tuple[dict[str, Any], ...] = (asking.HANDLERS, asking.SAVERS)
    before = [dict(table) for table in tables]
    asking.SAVERS.clear()
    yield
    for table, kept in zip(tables, before, strict=True):
        table.clear()
        table.update(kept)


def ask(comm: FakeComm, what: str, **args: Any) -> tuple[dict[str, Any], list[Any]]:
    """The answer to one question, and its buffers."""
    comm.say({"type": "ask", "id": 5, "what": what, "args": args})
    content, buffers = comm.custom()[-1]
    assert content["type"] == "answer"
    assert content["id"] == 5
    return content, [bytes(b) for b in buffers]


def free(name: str) -> Question[Any, Any]:
    """A question whose answer may be anything."""
    return Question(name)


def test_data_and_columns(comms: list[FakeComm]) -> None:
    @asking.question(MEMORY)
    def _(shown: Shown, args: Any) -> Answer[Any]:
        double = 2 * args["dims"]["n"]
        return Answer({"of": model_of(shown).name, "n": double}, [np.arange(3.0).tobytes()])

    model = load(small())
    GraphView(model)
    content, [column] = ask(comms[0], "memory", dims={"n": 21})
    assert content["ok"]
    assert content["data"] == {"of": "small", "n": 42}
    assert list(np.frombuffer(column)) == [0, 1, 2]


def test_what_cannot_be_answered_is_said(comms: list[FakeComm]) -> None:
    @asking.question(COMPILE)
    def broken(shown: Shown, args: Any) -> Answer[Any]:
        raise ZeroDivisionError

    view = GraphView(small())
    for what, words in (
        ("nothing", "there is no answer to 'nothing'"),
        ("compile", "ZeroDivisionError"),
    ):
        content, _ = ask(comms[0], what)
        assert not content["ok"]
        assert content["data"] is None
        assert words in content["error"]
    view.close()


def test_a_graph_has_no_model_and_a_model_has_no_times_yet() -> None:
    with pytest.raises(ArgumentError, match="not compiled"):
        model_of(small())
    model = load(small())
    with pytest.raises(ArgumentError, match="press Profile"):
        profile_of(model)


def test_answers_are_saved_with_a_profile_and_failing_ones_left_out() -> None:
    asking.saved(free("peak"))(lambda profile: {"kernels": len(profile.kernels)})
    asking.saved(free("nothing"))(lambda profile: None)
    asking.saved(free("large"))(lambda profile: {"text": "x" * (answering.MOST_SAVED + 1)})

    def fails(profile: Profile) -> Mapping[str, Any]:
        raise RuntimeError("no")

    asking.saved(free("fails"))(fails)
    model = load(small())
    assert "answers" not in take(model).document
    inputs = [np.ones((3, 4), np.float32) for _ in model.input_metadata]
    shapes = [[4 if s is None else s for s in spec.shape] for spec in model.input_metadata]
    inputs = [
        np.ones(shape, spec.dtype.to_numpy())
        for shape, spec in zip(shapes, model.input_metadata, strict=True)
    ]
    profile = model.profile(*inputs, runs=1)
    trace.recorder().clear()
    document = take(profile).document
    mine = {k: v for k, v in document["answers"].items() if k in ("peak", "nothing", "large")}
    assert mine == {"peak": {"kernels": len(profile.kernels)}}
    assert "fails" not in document["answers"]
    [event] = [e for e in trace.recorder().events("warning") if e.data.get("question") == "fails"]
    assert event.data["message"] == "no"
    json.dumps(document, allow_nan=False)
