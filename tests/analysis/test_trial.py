"""Trials: the changed model computes the same, and what is told of both is what they are."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.advice import PLANTED, Planted
from maxlab import engine
from maxlab.analysis import rewrites, trial
from maxlab.analysis.advice import Action, Recipe, advice, experiments
from maxlab.analysis.runs.noise import median_interval
from maxlab.analysis.trial import Trial, try_action
from maxlab.compiler import Options
from maxlab.config import config, set_config
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError, UnsupportedError
from maxlab.graph import DeviceRef, Dim, Graph, TensorType, Weight, ops
from maxlab.lab.questions import answering
from tests.analysis import ceilings as made
from tests.analysis.test_roofline import F32, F64, model_of, profile_of


@pytest.fixture(autouse=True)
def ceilings() -> Iterator[None]:
    """The made-up machine, in a session of one thread."""
    old = set_config(replace(config(), num_threads=1))
    with made.known(made.machine()):
        yield
    set_config(old)


def tried(profile: Profile, id: str, runs: int = 3) -> Trial:
    """The trial of the action with this id."""
    actions = {a.id: a for a in (*experiments(profile), *advice(profile))}
    return try_action(profile, actions[id], runs=runs)


def of(recipe: Recipe) -> Action:
    """An action that is tried by ``recipe``."""
    return Action("it", "dtype", "It", "", (), (), 1000.0, 0.1, 800.0, 1250.0, "do it", recipe)


@pytest.mark.parametrize("case", PLANTED, ids=lambda c: c.action)
def test_each_planted_case_can_be_tried(case: Planted) -> None:
    model, inputs = case.make(8)
    profile = model.profile(*inputs, runs=3)
    found = tried(profile, case.action)
    assert found.runs == 3
    assert found.low_ns <= found.saved_ns <= found.high_ns
    assert found.before_ns > 0
    assert found.after_ns > 0
    assert found.before_kernels == len(profile.kernels)
    assert found.after_kernels <= found.before_kernels
    assert found.after_bytes < found.before_bytes
    assert found.max_abs is not None
    if case.action in ("hoist", "freeze:1"):
        assert (found.max_ulp, found.max_abs) == (0.0, 0.0)
    else:
        assert found.max_ulp is not None
        assert found.max_ulp < 100


def test_the_model_of_a_trial_is_the_changed_one() -> None:
    model, inputs = PLANTED[2].make(64)
    found = tried(model.profile(*inputs, runs=2), "fuse")
    assert found.model.options == Options()
    assert (found.before_kernels, found.after_kernels) == (24, 1)
    assert found.after_bytes * 24 == found.before_bytes
    (wanted,), (y,) = model.execute(*inputs), found.model.execute(*inputs)
    assert np.array_equal(wanted.to_numpy(), y.to_numpy())


def test_fusion_off_is_tried_too() -> None:
    model = model_of(lambda x: ops.tanh(x * 2.0) + 1.0, (F32, [256]))
    found = tried(profile_of(model, np.ones(256, np.float32)), "fuse:off")
    assert (found.before_kernels, found.after_kernels) == (1, 3)
    assert (found.before_bytes, found.after_bytes) == (2048, 6144)


def test_times_of_a_batch_are_those_of_a_part() -> None:
    model, _ = PLANTED[4].make(8)
    x = np.random.default_rng(1).standard_normal((3, 256)).astype(np.float32)
    profile = model.profile(x, runs=2)
    found = try_action(profile, of(Recipe(repeat=("rows", 8))), runs=2)
    weights = 4 * 256 * 1024
    assert found.before_bytes == weights + 4 * 3 * (256 + 1024)
    assert found.after_bytes == weights // 8 + 4 * 3 * (256 + 1024)
    assert found.max_abs == 0.0  # a row is the same in any batch


def test_what_is_a_change_to_the_graph_is_not_tried() -> None:
    model = model_of(lambda x: ops.transpose(x, 0, 1), (F32, [64, 32]))
    profile = profile_of(model, np.ones((64, 32), np.float32), ns=900.0)
    action = next(a for a in advice(profile) if a.kind == "layout")
    with pytest.raises(UnsupportedError, match="ML903"):
        try_action(profile, action)


@pytest.mark.parametrize("runs", [0, -3])
def test_there_is_one_run_at_least(runs: int) -> None:
    model = model_of(lambda x: ops.tanh(x + 1.0), (F32, [8]))
    profile = profile_of(model, np.ones(8, np.float32))
    with pytest.raises(ArgumentError, match="ML653"):
        try_action(profile, experiments(profile)[0], runs=runs)


def test_slow_models_have_fewer_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MOST_NS", 0)
    model = model_of(lambda x: ops.tanh(x + 1.0), (F32, [8]))
    found = tried(profile_of(model, np.ones(8, np.float32)), "fuse:off", runs=100)
    assert found.runs == trial.FEWEST


def test_a_trial_as_text_and_json() -> None:
    model = model_of(lambda x: ops.tanh(x * 2.0), (F32, [256]))
    profile = profile_of(model, np.ones(256, np.float32))
    data = answering.answer(profile, "try", {"id": "fuse:off"}).data
    json.dumps(data, allow_nan=False)
    assert data["version"] == 1
    assert (data["before_kernels"], data["after_kernels"], data["max_abs"]) == (1, 2, 0.0)
    with pytest.raises(ArgumentError, match="ML673"):
        answering.answer(profile, "try", {"id": "nothing"})
    found = tried(profile, "fuse:off")
    known = replace(
        found, before_ns=100.0, after_ns=120.0, saved_ns=-20.0, low_ns=-30.0, high_ns=10.0
    )
    assert "100 ns → 120 ns (+20.0%, which may be noise; medians of 3 runs)" in str(known)
    assert "bit for bit the same" in str(known)
    assert not known.is_clear
    assert replace(known, high_ns=-10.0).is_clear
    assert "NaN" in str(replace(known, max_abs=None, max_ulp=None, relative=None))
    apart = replace(known, max_abs=3.1e-5, max_ulp=22528.0, relative=2e-6)
    assert "outputs at most 3.1e-05 apart, 2e-06 of the largest number" in str(apart)
    assert "ulp" not in str(apart)


# ---------------------------------------------------------------- statistics
@pytest.mark.parametrize("count", [1, 2, 5, 7, 20, 31, 100])
def test_the_interval_holds_the_median_nineteen_times_in_twenty(count: int) -> None:
    middle, low, high = median_interval(np.arange(float(count)))
    assert middle == (count - 1) / 2
    assert (low, high) == (low, count - 1 - low)
    # the median is outside when too few samples fall on one of its sides
    outside = 2 * sum(math.comb(count, k) for k in range(int(low) + 1)) / 2**count
    wider = 2 * sum(math.comb(count, k) for k in range(int(low) + 2)) / 2**count
    assert outside <= 0.05 or low == 0
    assert wider > 0.05 or low + 1 > (count - 1) / 2


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(400):
        _, low, high = median_interval(rng.exponential(size=31) - math.log(2))
        hits += low <= 0 <= high
    assert hits >= 370  # 95 % of 400 is 380; the true rate is at least that


# ---------------------------------------------------------------- differences
def tensors(*arrays: Any) -> list[Tensor]:
    """Tensors of ``arrays``."""
    return [Tensor.from_numpy(np.asarray(x)) for x in arrays]


def test_distances_are_in_units_of_the_largest() -> None:
    x = np.array([1.0, 1e-3], np.float32)
    y = x + np.array([0.0, 2.0**-23], np.float32)
    ulp, apart, _ = trial._distance(tensors(x), tensors(y))
    assert ulp == pytest.approx(1.0, rel=1e-3)
    assert apart == pytest.approx(2.0**-23, rel=1e-3)


def test_the_narrower_dtype_decides() -> None:
    x = np.array([1.0, 2.0])
    y = x.astype(np.float32)
    y[0] += np.float32(2.0**-22)
    ulp, apart, _ = trial._distance(tensors(x), tensors(y))
    assert ulp == pytest.approx(1.0)  # of 2.0 in float32
    assert apart == pytest.approx(2.0**-22)


def test_the_same_nan_and_infinity_are_no_difference() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert trial._distance(tensors(x), tensors(x.copy())) == (0.0, 0.0, 0.0)
    y = x.copy()
    y[3] = np.nan
    assert trial._distance(tensors(x), tensors(y)) == (None, None, None)


def test_integers_differ_or_not() -> None:
    x = np.array([1, 2], np.int64)
    assert trial._distance(tensors(x), tensors(x)) == (0.0, 0.0, 0.0)
    assert trial._distance(tensors(x), tensors(x + 3)) == (None, 3.0, 1.5)


# ---------------------------------------------------------------- rewriting graphs
def test_hoisting_keeps_what_depends_on_inputs() -> None:
    w = Weight("w", F32, [16, 16], DeviceRef.CPU())
    with Graph("g", input_types=[TensorType(F32, ["n", 16])]) as graph:
        x = graph.inputs[0].tensor
        scaled = ops.tanh(w) * 2.0
        graph.output(x @ scaled, ops.sum(scaled, axis=0), x + ops.transpose(w, 0, 1)[0])
    array = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    session = engine.InferenceSession(num_threads=1)
    model = session.load(graph, weights_registry={"w": array})
    made_graph, registry = rewrites.hoisted(model)
    other = session.load(made_graph, weights_registry=registry)
    given = np.ones((3, 16), np.float32)
    for wanted, y in zip(model.execute(given), other.execute(given), strict=True):
        assert np.array_equal(wanted.to_numpy(), y.to_numpy())
    names = [op.name for op in other.compiled.source.ops]
    assert "mo.tanh" not in names
    assert "mo.add" in names
    assert "mo.tanh" in [op.name for op in model.compiled.source.ops]
    assert {"w", "g.v"} <= {name[:3] if name != "w" else name for name in registry}


def test_views_of_weights_are_left_alone() -> None:
    w = Weight("w", F32, [16, 8], DeviceRef.CPU())
    with Graph("g", input_types=[TensorType(F32, ["n", 8])]) as graph:
        graph.output(graph.inputs[0].tensor @ ops.transpose(w, 0, 1))
    session = engine.InferenceSession(num_threads=1)
    model = session.load(graph, weights_registry={"w": np.ones((16, 8), np.float32)})
    assert rewrites.from_data(model.compiled.source) == set()
    with pytest.raises(UnsupportedError, match="ML903"):
        rewrites.hoisted(model)


def test_an_input_becomes_a_weight() -> None:
    model = model_of(lambda a, b, c: a @ b + c, (F32, ["m", 8]), (F32, [8, 4]), (F32, [4]))
    rng = np.random.default_rng(2)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((3, 8), (8, 4), (4,)))
    graph, registry = rewrites.frozen(model, [1], tensors(a, b, c))
    other = engine.InferenceSession(num_threads=1).load(graph, weights_registry=registry)
    assert [spec.name for spec in other.input_metadata] == ["input0", "input2"]
    (wanted,), (y,) = model.execute(a, b, c), other.execute(a, c)
    assert np.array_equal(wanted.to_numpy(), y.to_numpy())
    with pytest.raises(UnsupportedError, match="symbolic"):
        rewrites.frozen(model, [0], tensors(a, b, c))


def test_doubles_become_floats_everywhere() -> None:
    w = Weight("w", F64, [4], DeviceRef.CPU())
    with Graph("g", input_types=[TensorType(F64, ["n", 4])]) as graph:
        x = graph.inputs[0].tensor
        y = ops.cast(ops.cast(x, F32), F64) * w + ops.constant(np.full(4, 0.1), F64)
        graph.output(ops.softmax(y), ops.cast(y, DType.int32))
    session = engine.InferenceSession(num_threads=1)
    array = np.array([1.0, 2.0, 3.0, 1.0 / 3])
    model = session.load(graph, weights_registry={"w": array})
    made_graph, registry = rewrites.retyped(model, F64, F32)
    other = session.load(made_graph, weights_registry=registry)
    types = {r.tensor_type.dtype for op in other.compiled.function.ops for r in op.results}
    assert F64 not in types
    given = np.arange(8.0).reshape(2, 4)
    wanted, whole = (y.to_numpy() for y in model.execute(given))
    found, numbers = (y.to_numpy() for y in other.execute(given.astype(np.float32)))
    assert found.dtype == np.float32
    assert np.allclose(found, wanted, rtol=1e-5)
    assert np.array_equal(numbers, whole)


def test_bfloat16_is_rounded_to() -> None:
    x = Tensor.from_numpy(np.array([1.0, 1.0 + 2.0**-9], np.float32))
    narrow = rewrites.converted(x, DType.bfloat16)
    assert narrow.dtype is DType.bfloat16
    assert rewrites.as_array(narrow).astype(np.float32).tolist() == [1.0, 1.0]


def test_floats_are_tried_as_bfloat16() -> None:
    model = model_of(lambda x: ops.tanh(x * 2.0), (F32, [4096]))
    x = np.linspace(-1, 1, 4096).astype(np.float32)
    found = try_action(profile_of(model, x), of(Recipe(rewrite="bfloat16")), runs=2)
    assert found.after_bytes * 2 == found.before_bytes
    assert found.max_ulp is not None
    assert 0 < found.max_ulp < 4


def test_sums_of_dims_are_not_guessed_at() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n"]), TensorType(F32, [Dim("n") + 1])]) as graph:
        x, y = (value.tensor for value in graph.inputs)
        graph.output(x * 2.0, y * 2.0)
    model = engine.InferenceSession(num_threads=1).load(graph)
    arrays = tensors(np.ones(4, np.float32), np.ones(5, np.float32))
    with pytest.raises(UnsupportedError, match="no plain name"):
        rewrites.tiled(model, arrays, {"n": 2})
