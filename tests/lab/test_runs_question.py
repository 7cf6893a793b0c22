"""The questions ``runs`` and ``sweep``: what views are told, and what is saved with a graph."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import numpy as np
import pytest

from maxlab.analysis.runs.history import HISTORY, MOST_KEPT
from maxlab.analysis.runs.noise import ENOUGH_RUNS, Rules, estimate
from maxlab.compiler import Options
from maxlab.errors import ArgumentError
from maxlab.lab.inputs import MOST_PROFILE_S, MOST_RUNS, runs_of
from maxlab.lab.questions import answering
from maxlab.lab.snapshot import take
from tests.analysis.runs.made import batch, layered, loaded


def test_the_newest_two_runs_are_compared() -> None:
    model = loaded(layered(3))
    first = model.profile(batch(), runs=6)
    alone = answering.answer(first, "runs", {}).data
    assert [side["number"] for side in alone["sides"]] == [1]
    assert alone["pairs"] == []
    model.profile(batch(), runs=6)
    model.profile(batch(), runs=6)
    found = answering.answer(model, "runs", {}).data
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert [side["label"] for side in found["sides"]] == ["#1", "#2", "#3"]
    [pair] = found["pairs"]
    assert (pair["before"], pair["side"]) == (1, 2)
    assert sorted(row["kernels"] for row in pair["rows"]) == ["k0", "k1", "k2"]
    assert {node for row in pair["rows"] for node in row["nodes"]} <= {
        node["id"] for node in take(model).document["nodes"]
    }


def test_any_two_are_compared() -> None:
    model = loaded(layered(2))
    for _ in range(3):
        answering.answer(model.profile(batch(), runs=5), "runs", {})
    found = answering.answer(model, "runs", {"before": 3, "after": 1}).data
    [pair] = found["pairs"]
    assert (pair["before"], pair["side"]) == (2, 0)
    for wrong in ({"before": 9, "after": 1}, {"after": 1}):
        with pytest.raises(ArgumentError, match="ML806"):
            answering.answer(model, "runs", wrong)
    with pytest.raises(ArgumentError, match=r"ML862|before: expected a whole number"):
        answering.answer(model, "runs", {"before": "1", "after": 1})


def test_a_model_loaded_again_is_compared_with_what_it_was() -> None:
    model = loaded(layered(2))
    answering.answer(model.profile(batch(), runs=5), "runs", {})
    apart = model.reload(options=Options(fuse=False))
    found = answering.answer(apart.profile(batch(), runs=5), "runs", {}).data
    assert [side["options"] for side in found["sides"]] == ["defaults", "fuse=False"]
    [pair] = found["pairs"]
    assert all(row["regrouped"] for row in pair["rows"])


def test_history_is_short_and_keeps_no_model_alive() -> None:
    graph = layered(1)
    model = loaded(graph)
    for _ in range(MOST_KEPT + 3):
        profile = model.profile(batch(), runs=1)
        HISTORY.remember(profile)
        HISTORY.remember(profile)
    numbers = [one.number for one in HISTORY.of(model)]
    assert numbers == list(range(4, MOST_KEPT + 4))
    gone = weakref.ref(model)
    del model, profile
    gc.collect()
    assert gone() is None


def test_profiles_that_nobody_drew_are_remembered() -> None:
    model = loaded(layered(1))
    for _ in range(2):
        model.profile(batch(), runs=6)
    assert [one.number for one in HISTORY.of(model)] == [1, 2]
    found = answering.answer(model.profile(batch(), runs=6), "runs", {}).data
    assert [side["number"] for side in found["sides"]] == [1, 2, 3]


@pytest.mark.parametrize("seconds", [1e-6, 0.02, 0.1, 0.3, 1.0, 2.4, 5.0, 60.0])
def test_the_button_takes_enough_runs_to_compare(seconds: float) -> None:
    count = runs_of(seconds)
    assert 1 <= count <= MOST_RUNS
    assert count * seconds <= MOST_PROFILE_S or count == 1
    assert count >= ENOUGH_RUNS or (count + 1) * seconds > MOST_PROFILE_S


def test_a_slow_model_is_told_to_be_slower() -> None:
    """What the button takes of a run of 0.2 s shows that it takes three times as long."""
    noise = np.random.default_rng(0)
    samples = [0.2 * (1 + 0.05 * noise.standard_normal(runs_of(0.2))) for _ in range(2)]
    assert estimate([samples[0]], [3 * samples[1]]).state(Rules()) == "slower"


def test_a_comparison_is_saved_with_the_graph() -> None:
    model = loaded(layered(2))
    once = take(model.profile(batch(), runs=6)).document
    assert "runs" not in once["answers"], "there is nothing to compare with"
    twice = take(model.profile(batch(), runs=6)).document
    data = twice["answers"]["runs"]
    assert isinstance(data, dict)
    assert (data["kind"], len(data["sides"]), len(data["pairs"])) == ("history", 2, 1)


def test_a_view_sweeps() -> None:
    model = loaded(layered(2))
    found = answering.answer(model, "sweep", {"sizes": {"batch": [1, 4]}}).data
    assert (found["kind"], found["points"]) == ("sweep", [{"batch": 1}, {"batch": 4}])
    wrong: dict[str, Any]
    for wrong in ({}, {"sizes": [1]}, {"sizes": {"batch": 3}}, {"sizes": {"batch": [1.5]}}):
        with pytest.raises(ArgumentError, match="ML862"):
            answering.answer(model, "sweep", wrong)
    with pytest.raises(ArgumentError, match="ML848"):
        answering.answer(model, "sweep", {"sizes": {"rows": [3]}})


def test_a_long_sweep_is_left_to_a_cell() -> None:
    model = loaded(layered(2))
    model.profile(np.ones((1, 32), np.float32), runs=2)
    with pytest.raises(ArgumentError, match=r"too long for a view.*\n.*maxlab.sweep\(model, batch"):
        answering.answer(model, "sweep", {"sizes": {"batch": [10**9]}})
