"""``StepView``: what it shows of steps that come, and of those that its controls choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.errors import ArgumentTypeError
from maxlab.lab import StepView
from maxlab.nn.steps import StepRecording
from maxlab.nn.steps.packing import packed
from maxlab.nn.steps.pages import SeenPages


def add(recording: StepRecording, step: int, queries: int, keys: int) -> None:
    """A step of one layer of attention with 2 heads, and of one with experts."""
    weights = np.tri(queries, keys, keys - queries, np.float32)
    weights = np.stack([weights / weights.sum(1, keepdims=True)] * 2)
    attention: dict[str, Any] = {
        "what": "attention",
        "layer": "a",
        "mask": "causal",
        "window": 0,
        "weights": [packed(weights)],
        "first": [keys - queries],
        "poisoned": [],
    }
    cached, new = np.array([keys - queries]), np.array([queries])
    pages = SeenPages(np.array([[3]], np.uint32), cached, new, 128, 5)
    experts = {"what": "experts", "layer": "<e>", "counts": packed(np.array([step, 1]))}
    for data in (attention, {"what": "pages", **pages.data()}, experts):
        recording.add({"step": step, **data}, 100)


@pytest.fixture
def recording() -> StepRecording:
    made = StepRecording()
    add(made, 0, 4, 4)
    add(made, 1, 1, 5)
    return made


def test_it_follows_and_stays(recording: StepRecording) -> None:
    view = StepView(recording)
    assert repr(view) == "StepView(step 1, 2 kept)"
    box = view.box
    assert box is view.box
    add(recording, 2, 1, 6)
    view.refresh()
    assert "query at position 5" in view._shown.value
    view._steps.value = 0
    assert "query at position 3" in view._shown.value
    assert not view._follow.value
    view._queries.value = 1
    assert "query at position 1" in view._shown.value
    add(recording, 3, 1, 7)
    view.refresh()
    assert "query at position 1" in view._shown.value, "it stays where it was put"
    view._follow.value = True
    assert "query at position 6" in view._shown.value


def test_pictures_without_a_kernel(recording: StepRecording) -> None:
    data = StepView(recording)._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"}
    assert "SeenAttention: a: 2 heads × 5 keys" in data["text/plain"]
    for part in ("1 of 5 pages", "&lt;e&gt;", "head 1, key 4: 0.2000"):
        assert part in data["text/html"]
    assert "<e>" not in data["text/html"]
    empty = StepView(StepRecording())
    assert "No step" in empty._repr_mimebundle_()["text/html"]
    assert empty.box.children[1].value == "<p>No step was recorded yet.</p>"


def test_a_damaged_step_is_said(recording: StepRecording) -> None:
    recording.add({"step": 2, "what": "experts", "layer": "e", "counts": "<b>"}, 10)
    page = StepView(recording)._repr_mimebundle_()["text/html"]
    assert "ML474" in page


def test_what_it_takes() -> None:
    wrong: Any = 3
    with pytest.raises(ArgumentTypeError, match="ML475"):
        StepView(wrong)
