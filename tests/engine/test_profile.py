"""Profiles: what they measure, what they say, and what a kernel says of itself."""

from __future__ import annotations

import re

import numpy as np
import pytest

from maxlab import engine, trace
from maxlab.dtype import DType
from maxlab.engine.profile import Profile
from maxlab.engine.times import time_text
from maxlab.errors import ArgumentError, InputError
from maxlab.graph import Graph, TensorType, ops


@pytest.fixture(scope="module")
def model() -> engine.Model:
    types = [TensorType(DType.float32, ["n", 32]), TensorType(DType.float32, [32, "m"])]
    with Graph("two", input_types=types) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(ops.softmax(ops.relu(x) + 1.0), ops.matmul(x, y))
    return engine.InferenceSession(num_threads=1).load(graph)


@pytest.fixture(scope="module")
def profile(model: engine.Model) -> Profile:
    made: Profile = model.profile(
        np.ones((64, 32), np.float32), np.ones((32, 48), np.float32), runs=7, warmup=2
    )
    return made


def test_every_kernel_is_timed(model: engine.Model, profile: Profile) -> None:
    assert [k.id for k in profile.kernels] == list(model.kernels)
    assert profile.runs == 7
    assert profile.threads == 1
    assert profile.dims == {"n": 64, "m": 48}
    for kernel in profile.kernels:
        assert 0 < kernel.ns_min <= kernel.ns
        assert kernel.ns_iqr >= 0
    assert sum(k.share for k in profile.kernels) == pytest.approx(1)
    assert profile.kernel_ns == pytest.approx(sum(k.ns for k in profile.kernels))


def test_rates_follow_from_the_plan(profile: Profile) -> None:
    product = next(k for k in profile.kernels if k.kind == "contract")
    assert product.flops == 2 * 64 * 32 * 48
    assert product.gflops == pytest.approx(product.flops / product.ns)
    assert product.gbs == pytest.approx(product.nbytes / product.ns)
    assert product.nbytes >= 4 * (64 * 32 + 64 * 48)


def test_wall_time_is_measured_without_timing_too(profile: Profile) -> None:
    assert 0 < profile.wall_ns_min <= profile.wall_ns
    assert profile.kernel_ns < profile.timed_ns
    assert profile.overhead == pytest.approx(profile.timed_ns / profile.wall_ns - 1)


def test_it_is_the_models_newest(model: engine.Model) -> None:
    heard: list[trace.Event] = []
    trace.recorder().listen(heard.append)
    before = model.revision
    try:
        made = model.profile(np.ones((4, 32), np.float32), np.ones((32, 1), np.float32), runs=1)
    finally:
        trace.recorder().unlisten(heard.append)
    assert model.last_profile is made
    assert model.revision == before + 1
    [event] = [e for e in heard if e.kind == "profile" and "model" in e.data]
    assert event.data["model"] == id(model)


def test_repr_has_no_times(profile: Profile) -> None:
    assert repr(profile) == f"Profile('two', {len(profile.kernels)} kernels, 7 runs)"


def test_table_lists_the_hottest_first(profile: Profile) -> None:
    lines = profile.table().splitlines()
    assert lines[0] == "two on cpu, 1 thread, n = 64, m = 48"
    told = r"a run .+, the median of \d+ \(fastest .+\); its kernels .+; timing them adds (\d|no )"
    assert re.search(told, lines[1])
    assert lines[3].split() == [
        "kernel",
        "name",
        "kind",
        "time",
        "±",
        "iqr",
        "share",
        "GFLOP/s",
        "GB/s",
    ]
    assert profile.hottest is not None
    assert lines[4].startswith(profile.hottest.id)
    assert profile.table(rows=1).splitlines()[-1].startswith(f"… {len(profile.kernels) - 1} more")
    assert len(profile.table(rows=None).splitlines()) == 4 + len(profile.kernels)


def test_kernel_by_id(profile: Profile) -> None:
    assert profile.kernel("k0") is profile.kernels[0]
    with pytest.raises(KeyError):
        profile.kernel("k99")


@pytest.mark.parametrize(("runs", "warmup"), [(0, 0), (-1, 3), (1, -1)])
def test_impossible_counts(model: engine.Model, runs: int, warmup: int) -> None:
    with pytest.raises(ArgumentError, match="ML653"):
        model.profile(np.ones((1, 32)), np.ones((32, 1)), runs=runs, warmup=warmup)


def test_wrong_inputs_are_refused(model: engine.Model) -> None:
    with pytest.raises(InputError, match="ML609"):
        model.profile(np.ones((1, 32)), np.ones((32, 1)))


def test_numbers_as_inputs() -> None:
    types = [TensorType(DType.float32, ["n"]), TensorType(DType.float32, [])]
    with Graph("scaled", input_types=types) as graph:
        graph.output(graph.inputs[0].tensor * graph.inputs[1].tensor)
    model = engine.InferenceSession(num_threads=1).load(graph)
    assert model.profile(np.ones(5, np.float32), 2.0, runs=2).dims == {"n": 5}


def test_a_graph_without_kernels() -> None:
    with Graph("same", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(*graph.inputs)
    model = engine.InferenceSession(num_threads=1).load(graph)
    made = model.profile(np.ones(5, np.float32), runs=2)
    assert len(made.kernels) == len(model.compiled.plan.steps)
    assert made.table()


def test_kernel_views(model: engine.Model) -> None:
    row = next(k for k in model.kernels.values() if k.kind == "row")
    assert row.symbol in row.source
    ids = {op.id for op in model.compiled.source.ops}
    total = len(row.source.splitlines())
    assert row.lines
    for first, last, node in row.lines:
        assert 1 <= first <= last <= total
        assert node in ids
        assert node in row.nodes
    assert re.search(r"// n\d+ relu .*test_profile\.py:\d+", row.annotated())
    assert repr(row) == f"Kernel({row.id}, {row.name!r}, row, {len(row.nodes)} ops)"


def test_kernels_of_the_runtime_say_where_they_are(model: engine.Model) -> None:
    pack = next(k for k in model.kernels.values() if k.kind == "pack")
    assert pack.symbol.startswith("mx_k_pack")
    assert "runtime library" in pack.source
    assert pack.lines == []


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (12_345, "12.3 µs"),
        (123_456_789, "123 ms"),
        (2.5e9, "2.50 s"),
    ],
)
def test_time_text(ns: float, text: str) -> None:
    assert time_text(ns) == text
