"""What binds each kernel: where its bytes come from, and which of four terms is the largest."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.analysis.bounds import Estimate, bound_of, dtype_of, estimates, traffic_of
from maxlab.analysis.roofline import Roofline, roofline
from maxlab.dtype import DType
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentTypeError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.lab.questions import answering
from maxlab.lab.questions.roofline import told
from tests.analysis import ceilings as made

F32, F64, BF16 = DType.float32, DType.float64, DType.bfloat16
MIB = 1 << 20


def model_of(
    build: Callable[..., Any],
    *types: tuple[DType, Sequence[int | str]],
    threads: int = 1,
) -> engine.Model:
    """The model of the graph that ``build`` makes of inputs of ``types``."""
    kinds = [TensorType(dtype, list(shape)) for dtype, shape in types]
    with Graph("f", input_types=kinds) as graph:
        out = build(*(value.tensor for value in graph.inputs))
        graph.output(*(out if isinstance(out, tuple) else (out,)))
    return engine.InferenceSession(num_threads=threads).load(graph)


def profile_of(model: engine.Model, *inputs: Any, ns: float | None = None) -> Profile:
    """A profile of one run; with ``ns``, of eight in each of which all kernels took as long."""
    found: Profile = model.profile(*inputs, runs=1, warmup=0)
    if ns is not None:
        found.kernels = [
            replace(k, ns=ns, ns_min=round(ns), busy_ns=(), imbalance=0.0) for k in found.kernels
        ]
        found.kernel_samples_ns = np.full((8, len(found.kernels)), ns)
        found.wall_samples_ns = np.full(8, ns * max(len(found.kernels), 1))
    return found


def read(profile: Profile) -> Roofline:
    """Its roofline on the made-up machine."""
    with made.known(made.machine()):
        return roofline(profile)


# ---------------------------------------------------------------- where bytes come from
def test_what_is_touched_once_a_run_was_touched_a_run_ago() -> None:
    model = model_of(lambda x: x + 1.0, (F32, ["n"]))
    ((first, second),) = traffic_of(model.plan, {"n": 1000})
    assert (first.read, first.written, second.read, second.written) == (4000, 0, 0, 4000)
    assert first.distance == second.distance == 8000


def test_what_was_just_written_is_near() -> None:
    # x (4000) -> exp -> a (4000) -> sum over rows, in a kernel of its own: a is 8000 bytes away
    def build(x: Any) -> Any:
        a = ops.exp(x)
        return a, ops.sum(a, axis=0)

    model = model_of(build, (F32, [10, 100]))
    first, second = traffic_of(model.plan, {})
    assert [step.kind for step in model.plan.steps] == ["map", "reduce"]
    # between the kernel that wrote it and the one that reads it, x, itself and the sum are touched
    assert {t.distance for t in (*first, *second)} == {4000 + 4000 + 400}


def test_a_weight_that_two_kernels_read_in_turn_stays_in_cache() -> None:
    def build(x: Any, w: Any) -> Any:
        return ops.sum(x * w, axis=0), ops.max(x - w, axis=0)

    model = model_of(build, (F32, [8, 64]), (F32, [8, 64]))
    first, second = traffic_of(model.plan, {})
    shared = {t.slot for t in first if t.read} & {t.slot for t in second if t.read}
    assert len(shared) == 2
    # between two touches of x come x, w and one result of 256 bytes, then the other
    assert {t.distance for t in second if t.slot in shared} == {2048 * 2 + 2 * 256}


def test_larger_data_comes_from_further_away() -> None:
    model = model_of(lambda x: x + 1.0, (F32, ["n"]))
    levels = []
    for count in (1 << 10, 1 << 16, 1 << 20, 1 << 24):
        (found,) = estimates(model.plan, {"n": count}, 1, model.runtime, made.ceilings())
        levels.append(found.level)
        # as many bytes read as written: the rate of a copy
        copy = {"L1": 200.0, "L2": 100.0, "L3": 40.0, "DRAM": 16.0}[found.level]
        assert found.memory_ns == pytest.approx(8 * count / copy)
    assert levels == ["L1", "L2", "L3", "DRAM"]


# ---------------------------------------------------------------- arithmetic
def test_products_are_held_against_the_peak_and_expected_at_the_rate_of_products() -> None:
    model = model_of(ops.matmul, (F32, [2, 64, 64]), (F32, [2, 64, 64]))
    (found,) = estimates(model.plan, {}, 1, model.runtime, made.ceilings())
    flops = 2 * 2 * 64**3
    assert found.compute_ns == pytest.approx(flops / 100)
    assert found.expected_ns == pytest.approx(flops / 90)
    assert found.rate is not None
    assert found.rate.name == "f32 FMA"


def test_functions_are_held_against_generated_loops() -> None:
    model = model_of(ops.exp, (F32, [1000]))
    (found,) = estimates(model.plan, {}, 1, model.runtime, made.ceilings())
    assert found.compute_ns == pytest.approx(8000 / 25)


def test_sums_do_half_of_what_multiply_adds_do() -> None:
    model = model_of(lambda x: x + 1.0, (F32, [1000]))
    (found,) = estimates(model.plan, {}, 1, model.runtime, made.ceilings())
    assert found.compute_ns == pytest.approx(1000 / 50)


def test_doubles_have_ceilings_of_their_own() -> None:
    model = model_of(ops.exp, (F64, [1000]))
    (found,) = estimates(model.plan, {}, 1, model.runtime, made.ceilings())
    assert found.compute_ns == pytest.approx(8000 / 2)
    assert dtype_of(model.plan, model.plan.steps[0]) == "float64"


def test_what_computes_nothing_has_no_arithmetic() -> None:
    model = model_of(lambda x: ops.permute(x, [1, 0]), (F32, [8, 8]))
    (found,) = estimates(model.plan, {}, 1, model.runtime, made.ceilings())
    assert (found.compute_ns, found.expected_ns, found.rate) == (0.0, 0.0, None)


def test_a_step_that_one_thread_runs_has_the_ceilings_of_one() -> None:
    small = model_of(lambda x: x + 1.0, (F32, [16]), threads=2)
    large = model_of(lambda x: x + 1.0, (F32, [1 << 22]), threads=2)
    for model, wanted in ((small, made.ceilings(1)), (large, made.ceilings(2))):
        given = estimates(model.plan, {}, 2, model.runtime, made.ceilings(2), made.ceilings(1))
        alone = estimates(model.plan, {}, 2, model.runtime, wanted)
        assert [e.compute_ns for e in given] == [e.compute_ns for e in alone]


# ---------------------------------------------------------------- bounds
@pytest.mark.parametrize(
    ("terms", "waited", "bound"),
    [
        ((100.0, 50.0, 10.0), 0.0, "bandwidth"),
        ((50.0, 100.0, 10.0), 20.0, "compute"),
        ((5.0, 4.0, 30.0), 0.0, "launch"),
        ((50.0, 40.0, 30.0), 60.0, "imbalance"),
    ],
)
def test_the_largest_term_binds(
    terms: tuple[float, float, float], waited: float, bound: str
) -> None:
    memory, compute, start = terms
    found = Estimate(memory, "L1", compute, compute, None, start)
    assert bound_of(found, waited)[0] == bound


def test_a_stream_is_bound_by_bandwidth() -> None:
    count = 16 * MIB
    model = model_of(lambda x: x + 1.0, (F32, ["n"]))
    profile = profile_of(model, np.ones(count, np.float32), ns=8 * count / 12)
    (point,) = read(profile).points
    assert (point.bound, point.level) == ("bandwidth", "DRAM")
    assert point.fraction == pytest.approx(12 / 16)
    assert point.gbs == pytest.approx(12)
    assert point.intensity == pytest.approx(1 / 8)
    assert "75% of that roof" in point.why


def test_a_product_is_bound_by_arithmetic() -> None:
    model = model_of(ops.matmul, (F32, [1, 256, 256]), (F32, [1, 256, 256]))
    x = np.ones((1, 256, 256), np.float32)
    points = read(profile_of(model, x, x, ns=2 * 256**3 / 80)).points
    point = max(points, key=lambda p: p.flops)
    assert point.bound == "compute"
    assert point.fraction == pytest.approx(0.8)
    assert "100 GFLOP/s (f32 FMA)" in point.why


def test_a_tiny_kernel_is_bound_by_being_started() -> None:
    model = model_of(lambda x: x + 1.0, (F32, [4]))
    (point,) = read(profile_of(model, np.ones(4, np.float32), ns=40.0)).points
    assert point.bound == "launch"
    assert "Being started takes 30 ns" in point.why


def test_threads_that_wait_bind() -> None:
    model = model_of(ops.exp, (F32, [1000]), threads=2)
    profile = profile_of(model, np.ones(1000, np.float32))
    profile.kernels = [replace(profile.kernels[0], ns=400.0, busy_ns=(400.0, 0.0), imbalance=0.5)]
    (point,) = read(profile).points
    assert (point.bound, point.imbalance_ns) == ("imbalance", 200.0)


# ---------------------------------------------------------------- the object
@pytest.fixture(scope="module")
def profile() -> Profile:
    """Three kinds of kernels."""

    def build(x: Any, w: Any) -> Any:
        return ops.softmax(ops.relu(x @ w)), ops.sum(x, axis=0)

    model = model_of(build, (F32, ["n", 64]), (F32, [64, 48]))
    found: Profile = model.profile(
        np.ones((32, 64), np.float32), np.ones((64, 48), np.float32), runs=2
    )
    return found


def test_the_answer_is_plain_json(profile: Profile) -> None:
    with made.known(made.machine()):
        data = answering.answer(profile, "roofline", {}).data
    text = json.dumps(data, allow_nan=False)
    assert data["version"] == 2
    assert data["device"] == "a made-up processor"
    assert {c["name"] for c in data["ceilings"]["bandwidth"]} == {"L1", "L2", "L3", "DRAM"}
    assert [p["kernel"] for p in data["points"]] == [k.id for k in profile.kernels]
    assert all(
        p["bound"] in ("bandwidth", "compute", "launch", "imbalance") for p in data["points"]
    )
    assert len(text) < 4000


def test_it_is_saved_only_when_that_measures_nothing(profile: Profile) -> None:
    with made.known(None):
        assert "roofline" not in answering.answers_to_save(profile)
    with made.known(made.machine()):
        assert answering.answers_to_save(profile)["roofline"] == told(roofline(profile))


def test_it_is_made_once_for_a_machine(profile: Profile) -> None:
    first, second = made.machine(), made.machine()
    with made.known(first):
        found = roofline(profile)
        assert roofline(profile) is found
    with made.known(second):
        assert roofline(profile) is not found


def test_unknown_ceilings_are_not_measured_unasked(profile: Profile) -> None:
    with made.known(None), pytest.raises(LookupError):
        roofline(profile, measure=False)


def test_a_table_says_what_binds(profile: Profile) -> None:
    found = read(profile)
    lines = found.table().splitlines()
    assert lines[0] == "cpu: DRAM 20.0 GB/s, 200 GFLOP/s with 1 thread, measured"
    assert len(lines) == 3 + len(profile.kernels)
    assert len(found.table(rows=1).splitlines()) == 4
    assert found.point("k0").kernel == "k0"
    with pytest.raises(KeyError):
        found.point("k99")


def test_only_a_profile_has_one(profile: Profile) -> None:
    wrong: Any = profile.model
    with pytest.raises(ArgumentTypeError, match="ML671"):
        roofline(wrong)


def test_a_simulated_gpu_has_points_and_no_ceilings() -> None:
    with driver.simulated():
        kind = TensorType(F32, ["n"], DeviceRef.GPU())
        with Graph("f", input_types=[kind]) as graph:
            graph.output(graph.inputs[0].tensor * 2.0)
        device = driver.Accelerator()
        model = engine.InferenceSession(devices=[device]).load(graph)
        x = driver.Tensor.from_numpy(np.ones(64, np.float32)).to(device)
        found = roofline(model.profile(x, runs=1))
    data = told(found)
    assert data["simulated"]
    assert data["ceilings"] == {"bandwidth": [], "compute": []}
    (point,) = data["points"]
    assert (point["bound"], point["fraction"], point["bytes"]) == (None, None, 512)
    assert "simulated" in found.table()
