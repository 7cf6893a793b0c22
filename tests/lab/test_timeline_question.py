"""The answer to ``timeline``: live with columns, saved as lists, and both the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from maxlab.analysis.timeline import timeline
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.lab.questions import timeline as module
from maxlab.lab.questions.answering import answer
from maxlab.lab.snapshot import take
from tests.lab.graphs import load, small


@pytest.fixture(scope="module")
def profile() -> Profile:
    model = load(small())
    inputs = [
        np.ones([4 if size is None else size for size in spec.shape], np.float32)
        for spec in model.input_metadata
    ]
    made: Profile = model.profile(*inputs, runs=5)
    return made


def columns_of(data: Any, buffers: list[bytes]) -> dict[str, list[int]]:
    """The columns of an answer, wherever they are."""
    return {
        name: ref
        if isinstance(ref, list)
        else np.frombuffer(buffers[ref["buffer"]], f"<{ref['dtype']}").astype(int).tolist()
        for name, ref in data["columns"].items()
    }


def test_saved_and_live_are_the_same(profile: Profile) -> None:
    live = answer(profile, "timeline", {})
    saved: Any = take(profile).document["answers"]["timeline"]
    assert columns_of(live.data, live.buffers) == columns_of(saved, [])
    heads = [{k: v for k, v in d.items() if k != "columns"} for d in (live.data, saved)]
    assert heads[0] == heads[1]
    json.dumps([live.data, saved], allow_nan=False)
    columns = columns_of(saved, [])
    assert {len(column) for column in columns.values()} == {live.data["n"]}
    assert {live.data["kernels"][k] for k in columns["kernel"] if k >= 0} == {
        k.id for k in profile.kernels
    }


def test_all_runs_with_events(profile: Profile) -> None:
    made = answer(profile.model, "timeline", {"runs": "all", "events": True})
    wanted = timeline(profile, runs="all", events=True)
    assert columns_of(made.data, made.buffers) == {
        name: column.tolist() for name, column in wanted.columns().items()
    }
    assert made.data["runs"] == 5
    assert {track["kind"] for track in made.data["tracks"]} >= {"python", "compile", "thread"}


@pytest.mark.parametrize("args", [{"runs": "some"}, {"runs": []}, {"events": 1}])
def test_other_arguments(profile: Profile, args: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="ML862"):
        answer(profile, "timeline", args)


def test_there_must_be_a_profile() -> None:
    with pytest.raises(ArgumentError, match="there are no times yet"):
        answer(load(small()), "timeline", {})


def test_large_timelines_are_not_saved(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SAVED_SLICES", 0)
    assert module.to_save(profile) is None
