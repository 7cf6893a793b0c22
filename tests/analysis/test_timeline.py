"""Timelines: the slices of a profile, of a simulated GPU and of the event stream, as JSON too."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import maxlab  # noqa: F401 - sets the readings
from maxlab import driver, engine, profiler, trace
from maxlab.analysis.slices import Builder, depths
from maxlab.analysis.timeline import Timeline, in_order, timeline
from maxlab.analysis.trace_export import events_of
from maxlab.dtype import DType
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError, DocumentError
from maxlab.graph import DeviceRef, Graph, TensorType, ops


def profile_with(threads: int, shift: float = 1.0) -> Profile:
    types = [TensorType(DType.float32, ["n", 256]), TensorType(DType.float32, [256, 512])]
    with Graph("two", input_types=types) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(ops.softmax(ops.gelu(x @ y) + shift))
    model = engine.InferenceSession(num_threads=threads).load(graph)
    rng = np.random.default_rng(0)
    inputs = (rng.random(shape, np.float32) for shape in ((300, 256), (256, 512)))
    made: Profile = model.profile(*inputs, runs=5)
    return made


@pytest.fixture(scope="module")
def profile() -> Profile:
    return profile_with(2)


def check(made: Timeline) -> None:
    """What holds of every timeline."""
    keys = np.stack([made.track, made.depth, made.start_ns])
    order = np.lexsort(keys[::-1])
    assert (order == np.arange(len(made))).all(), "not sorted"
    assert (made.dur_ns >= 0).all()
    if len(made):
        assert made.start_ns.min() == 0
        assert made.track.max() < len(made.tracks)
        assert made.name_index.max() < len(made.names)
        assert made.kernel.max() < len(made.kernels)
    same = (np.diff(made.track) == 0) & (np.diff(made.depth) == 0)
    ends = made.start_ns + made.dur_ns
    assert (made.start_ns[1:] >= ends[:-1])[same].all(), "slices overlap"


def rows(made: Timeline, track: int) -> list[tuple[int, int, str, str]]:
    """(start, end, name, kernel) of the slices of a track."""
    part = made.on(track)
    return [
        (int(start), int(start + dur), made.names[name], made.kernels[k] if k >= 0 else "")
        for start, dur, name, k in zip(
            made.start_ns[part],
            made.dur_ns[part],
            made.name_index[part],
            made.kernel[part],
            strict=True,
        )
    ]


def test_one_run_is_the_median_one(profile: Profile) -> None:
    made = timeline(profile)
    check(made)
    totals = profile.stamps.spent.sum(axis=1)
    assert made.run == profile.stamps.representative
    assert totals[made.run] == np.sort(totals)[2]
    assert [(t.name, t.kind, t.process) for t in made.tracks][:2] == [
        ("runs", "python", "Python"),
        ("thread 0", "thread", "two on cpu"),
    ]
    [(begin, end, name, kernel)] = rows(made, 0)
    assert (begin, name, kernel) == (0, "two", "")
    call = profile.stamps.calls[made.run]
    assert end == call[1] - call[0]
    assert made.t0_ns == call[0]


def test_slices_are_what_threads_did(profile: Profile) -> None:
    made = timeline(profile, runs="all")
    check(made)
    stamps = profile.stamps
    assert made.runs == 5
    assert made.run == -1
    for number, track in enumerate(made.tracks[1:], 1):
        thread = int(track.name.removeprefix("thread "))
        found = [
            (begin + made.t0_ns, end + made.t0_ns, kernel)
            for begin, end, _, kernel in rows(made, number)
        ]
        wanted = [
            (int(begin), int(end), kernel.id)
            for run in stamps.threads[:, thread]
            for (begin, end, chunks), kernel in zip(run, profile.kernels, strict=True)
            if chunks
        ]
        assert found == sorted(wanted)
    kernels = [n for n, t in enumerate(made.tracks) if t.kind == "thread"]
    busy = sum(made.busy_ns(track) for track in kernels)
    assert busy == stamps.busy.sum()


def test_kernels_fill_the_calls(profile: Profile) -> None:
    """Steps follow each other without gaps, and lie inside of the call."""
    stamps = profile.stamps
    assert (stamps.steps[:, 1:, 0] == stamps.steps[:, :-1, 1]).all()
    assert (stamps.calls[:, 0] <= stamps.steps[:, 0, 0]).all()
    assert (stamps.steps[:, -1, 1] <= stamps.calls[:, 1]).all()
    busy = stamps.threads[stamps.threads[..., 2] > 0]
    assert (busy[:, 0] < busy[:, 1]).all()
    covered = (stamps.steps[:, -1, 1] - stamps.steps[:, 0, 0]) / (
        stamps.calls[:, 1] - stamps.calls[:, 0]
    )
    assert profile.accounted == pytest.approx(np.median(covered))
    assert 0 < profile.accounted <= 1


def test_busy_threads_of_a_kernel(profile: Profile) -> None:
    for kernel, busy in zip(profile.kernels, np.median(profile.stamps.busy, axis=0).T, strict=True):
        assert kernel.busy_ns == tuple(busy)
        assert max(kernel.busy_ns) <= kernel.ns
        assert 0 <= kernel.imbalance <= 0.5
        mean, longest = sum(busy) / 2, max(busy)
        assert kernel.imbalance == pytest.approx(1 - mean / longest)


def test_one_thread_is_never_out_of_balance() -> None:
    made = profile_with(1)
    assert {kernel.imbalance for kernel in made.kernels} == {0.0}
    assert [track.name for track in timeline(made).tracks] == ["runs", "thread 0"]


def test_a_model_without_kernels() -> None:
    with Graph("same", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(*graph.inputs)
    model = engine.InferenceSession(num_threads=1).load(graph)
    made = timeline(model.profile(np.ones(5, np.float32), runs=2))
    check(made)
    assert made.table().splitlines()[0].split() == ["process", "track", "slices", "busy"]


def test_events_stand_on_the_same_axis() -> None:
    trace.recorder().clear()
    before = profiler.enable()
    try:
        with profiler.Tracer("everything", color="teal") as tracer:
            made = profile_with(2, shift=random.random())  # a kernel that is in no cache
            tracer.mark()
    finally:
        profiler.enable(before)
    found: Timeline = made.timeline
    check(found)
    main = next(n for n, t in enumerate(found.tracks) if t.kind == "python")
    spans = {name: (start, end) for start, end, name, _ in rows(found, main)}
    assert {"everything", "profile two runs", "two", "mark in everything"} <= set(spans)
    assert found.colors == {"everything": "teal"}
    assert spans["everything"][0] <= spans["profile two runs"][0] <= spans["two"][0]
    assert spans["two"][1] <= spans["profile two runs"][1] <= spans["everything"][1]
    inner = [name for _, _, name, _ in rows(found, main)]
    assert inner.count("two") == 5
    depth = dict(zip((found.names[n] for n in found.name_index), found.depth.tolist(), strict=True))
    assert [depth[n] for n in ("everything", "profile two runs", "two")] == [0, 1, 2]

    compiler = [n for n, t in enumerate(found.tracks) if t.kind == "compile"]
    told = {name: (start, end) for n in compiler for start, end, name, _ in rows(found, n)}
    assert {"load two", "compile two", "passes", "kernels", "bind two"} <= set(told)
    loading = told["load two"]
    for name in ("compile two", "passes", "schedule", "plan", "kernels"):
        assert loading[0] <= told[name][0] <= told[name][1] <= loading[1]
    assert told["passes"][1] == told["schedule"][0]
    assert told["passes"][0] == told["compile two"][0]
    passes = [name for name in told if name.startswith("pass ")]
    assert passes
    for name in passes:
        assert told["passes"][0] <= told[name][0] <= told[name][1] <= told["passes"][1]
    titles = [f"{kernel.id} {kernel.name}" for kernel in made.kernels]
    assert any(f"cache miss: {title}" in told for title in titles)
    assert any(name.startswith(f"compile {title}") for title in titles for name in told)


def span_of(name: str) -> Callable[[], None]:
    """A function that is a span of that name."""

    @profiler.traced(message=name)
    def run() -> None:
        pass

    return run


def test_threads_are_numbered_as_they_come() -> None:
    trace.recorder().clear()
    before = profiler.enable()
    try:
        with profiler.Tracer("here"):
            for name in ("first", "second"):
                thread = threading.Thread(target=span_of(name))
                thread.start()
                thread.join()
    finally:
        profiler.enable(before)
    made = timeline()
    check(made)
    found = {made.tracks[t].name: rows(made, t)[0][2] for t in range(len(made.tracks))}
    # The system may give the number of a thread that has ended to the next one.
    assert found in (
        {"main thread": "here", "other thread 1": "first", "other thread 2": "second"},
        {"main thread": "here", "other thread 1": "first"},
    )


def test_events_alone() -> None:
    trace.recorder().clear()
    empty = timeline()
    check(empty)
    assert (len(empty), empty.end_ns, empty.tracks) == (0, 0, ())
    profile_with(1)
    made = timeline()
    check(made)
    assert made.kernels == ()
    assert repr(made).startswith("Timeline('events', ")


def test_streams_and_copies_of_a_simulated_gpu() -> None:
    gpu = DeviceRef.GPU()
    with driver.simulated():
        types = [TensorType(DType.float32, ["n"])]
        with Graph("there_and_back", input_types=types) as graph:
            x = graph.inputs[0].tensor
            far = ops.exp(x.to(gpu)) + 1.0
            graph.output(ops.exp(far.to(DeviceRef.CPU())) * 2.0)
        device = driver.Accelerator()
        model = engine.InferenceSession(devices=[driver.CPU(), device]).load(graph)
        profile: Profile = model.profile(np.ones(3000, np.float32), runs=3, warmup=1)
        made = timeline(profile, runs="all")
    check(made)
    assert made.simulated
    assert profile.kernels[0].busy_ns == ()
    tracks = {track.name: (track.kind, track.process) for track in made.tracks}
    assert tracks == {
        "runs": ("python", "Python"),
        "host": ("thread", "there_and_back on cpu"),
        "stream of gpu:0": ("stream", "there_and_back on simulated GPU"),
        "copies to gpu:0": ("transfer", "there_and_back on simulated GPU"),
        "copies to the host": ("transfer", "there_and_back on simulated GPU"),
    }
    calls = rows(made, 0)
    assert len(calls) == 3
    for number, track in enumerate(made.tracks):
        if track.kind != "python":
            found = rows(made, number)
            assert len(found) % 3 == 0
            assert found
            for start, end, _, _ in found:
                inside = [c for c in calls if c[0] <= start and end <= c[1]]
                assert len(inside) == 1, "a slice outside of its call"


def test_json_and_back(profile: Profile) -> None:
    made = timeline(profile, runs="all", events=True)
    text = json.dumps(made.to_json(), allow_nan=False)
    again = Timeline.from_json(json.loads(text))
    assert again == made
    assert hash(again) == hash(made)
    assert again != timeline(profile)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"unit": "ms"},
        {"n": 1},
        {"n": "many"},
        {"tracks": [{"name": "x", "kind": "other", "process": "p"}]},
        {"tracks": [{"name": "x"}]},
        {"tracks": []},
        {"names": []},
        {"names": None},
        {"kernels": []},
        {"nodes": [[]]},
        {"colors": []},
        {"columns": {}},
        {"columns": []},
        {"start": [2**70]},
        {"start": ["x"]},
        {"start": []},
        {"dur": [-1]},
        {"kernel": [-2]},
        {"track": [99]},
        {"depth": [[0]]},
    ],
)
def test_what_is_no_timeline(profile: Profile, change: dict[str, Any]) -> None:
    data = copy.deepcopy(timeline(profile).to_json())
    for key, value in change.items():
        if key in data["columns"]:
            if len(value) == 1 and not isinstance(value[0], list):
                value = data["columns"][key][:-1] + value
            data["columns"][key] = value
        else:
            data[key] = value
    with pytest.raises(DocumentError, match="ML850"):
        Timeline.from_json(data)


@pytest.mark.parametrize("data", [None, 3, "x", [], {}])
def test_what_is_no_timeline_at_all(data: object) -> None:
    with pytest.raises(DocumentError, match="ML850"):
        Timeline.from_json(data)


def test_runs_is_one_or_all(profile: Profile) -> None:
    with pytest.raises(ArgumentError, match="ML851"):
        timeline(profile, runs="some")  # type: ignore[arg-type]


def test_depths_never_overlap() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        begin = rng.integers(0, 50, 30)
        end = begin + rng.integers(0, 20, 30)
        builder = Builder()
        track = builder.track("t", "python", "p")
        builder.add_spans(track, [(int(b), int(e), "x") for b, e in zip(begin, end, strict=True)])
        built = builder.finish()
        columns = built.columns
        for depth in range(columns.depth.max() + 1):
            at = columns.depth == depth
            starts, ends = columns.start[at], (columns.start + columns.dur)[at]
            assert (starts[1:] >= ends[:-1]).all()
        assert sorted(columns.dur.tolist()) == sorted((end - begin).tolist())
    assert depths([], []) == []


def test_in_order_keeps_lengths() -> None:
    rng = np.random.default_rng(2)
    lasts = rng.integers(1, 1000, 500)
    end = np.cumsum(lasts + rng.integers(0, 50, 500))
    begin = end - lasts + rng.integers(-3, 4, 500)  # a coarse clock
    later, until = in_order(begin, begin + lasts)
    assert (until - later == lasts).all()
    assert (later[1:] >= until[:-1]).all()
    assert (later >= begin).all()
    assert in_order(np.empty(0, np.int64), np.empty(0, np.int64))[0].shape == (0,)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_slices_of_a_loop_say_how_many_turns_they_are(device: str) -> None:
    with contextlib.ExitStack() as stack:
        if device == "gpu":
            stack.enter_context(driver.simulated(1))
        where = DeviceRef.CPU() if device == "cpu" else DeviceRef.GPU()
        row = TensorType(DType.float32, [5000], where)
        with Graph("loop", input_types=[row, TensorType(DType.int64, [], DeviceRef.CPU())]) as g:
            x, turns = (v.tensor for v in g.inputs)
            zero = ops.constant(0, DType.int64, DeviceRef.CPU())
            loop: Any = ops.while_loop
            _, y = loop((zero, x * 3), lambda i, y: i < turns, lambda i, y: (i + 1, ops.sin(y)))
            g.output(y)
        gpus = [driver.Accelerator(0)] if device == "gpu" else []
        model = engine.InferenceSession(devices=gpus, num_threads=2).load(g)
        given = model.placed([np.ones(5000, np.float32), np.array(7)]) if gpus else None
        made = model.profile(*(given or (np.ones(5000, np.float32), 7)), runs=3)
        found = timeline(made)
        check(found)
        told = {
            found.names[name]: turns
            for name, turns, kernel in zip(found.name_index, found.turns, found.kernel, strict=True)
            if kernel >= 0
        }
        assert (told["sin"], told["add"], told["mul"], told["greater"]) == (7, 7, 1, 8)
        assert Timeline.from_json(json.loads(json.dumps(found.to_json()))) == found
        args = {e["name"]: e["args"].get("turns") for e in events_of(found) if e["ph"] == "X"
                and "args" in e}  # fmt: skip
        assert (args["sin"], args["mul"]) == (7, None)


def test_an_older_timeline_has_no_turns(profile: Profile) -> None:
    made = timeline(profile)
    document = made.to_json()
    del document["columns"]["turns"]
    assert Timeline.from_json(document) == made
    document["columns"]["turns"] = [-1] * len(made)
    with pytest.raises(DocumentError, match="ML850"):
        Timeline.from_json(document)
