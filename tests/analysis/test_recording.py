"""Recordings of runs: many of them, in threads, on a simulated GPU, and that nothing stays."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from maxlab import driver, engine, trace
from maxlab.analysis import recording
from maxlab.analysis.recording import record
from maxlab.dtype import DType
from maxlab.engine.stamps import Taken
from maxlab.errors import ArgumentError, InputError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.profiler import Tracer


@pytest.fixture(scope="module")
def model() -> engine.Model:
    types = [TensorType(DType.float32, ["n"]), TensorType(DType.float32, [])]
    with Graph("scaled", input_types=types) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(ops.exp(x) * y)
    return engine.InferenceSession(num_threads=1).load(graph)


def test_outputs_are_those_of_the_model(model: engine.Model) -> None:
    x = np.linspace(0, 1, 7, dtype=np.float32)
    with record() as recorded:
        by_call = model(x, 2.0)[0].to_numpy()
        by_name = model(input0=x, input1=2.0)[0].to_numpy()
        by_execute = model.execute(x, 2.0)[0].to_numpy()
    for outputs in (by_call, by_name, by_execute):
        np.testing.assert_allclose(outputs, np.exp(x) * 2, rtol=1e-6)
    [found] = recorded.models
    assert found.calls == 3
    assert recorded.profile is found.profile
    assert found.profile.dims == {"n": 7}
    assert found.profile.stamps.runs == 3
    again = model.profile(*found.profile.inputs, runs=1)
    assert again.dims == {"n": 7}


def test_wrong_inputs_are_refused_and_not_counted(model: engine.Model) -> None:
    with record() as recorded:
        model(np.ones(3, np.float32), 1.0)
        with pytest.raises(InputError, match="ML609"):
            model(np.ones(3), 1.0)
        with pytest.raises(InputError, match="ML605"):
            model.execute(np.ones(3, np.float32))
    assert recorded.calls == 1


def test_many_runs_are_thinned_out(model: engine.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_RUNS", 8)
    rows: list[Taken] = []
    add = recording._Runs.add

    def note(runs: recording._Runs, row: Taken, args: Sequence[object]) -> None:
        rows.append(row)
        add(runs, row, args)

    monkeypatch.setattr(recording._Runs, "add", note)
    x = np.ones(3, np.float32)
    with record() as recorded:
        for _ in range(100):
            model(x, 1.0)
    [found] = recorded.models
    assert found.calls == recorded.calls == 100
    assert 4 <= found.profile.runs < 8
    calls = found.profile.stamps.calls
    assert (np.diff(calls[:, 0]) > 0).all()
    assert found.call_ns > found.profile.timed_samples_ns.sum()
    assert found.call_ns == sum(end - begin for begin, end in (row.call for row in rows))
    assert found.kernel_ns == sum(row.spent_ns for row in rows) > 0


def test_threads_record_side_by_side(model: engine.Model) -> None:
    def work(size: int) -> None:
        for _ in range(50):
            (y,) = model(np.full(size, 1.0, np.float32), 3.0)
            np.testing.assert_allclose(y.to_numpy(), np.full(size, 3 * math.e), rtol=1e-6)

    with record() as recorded:
        threads = [threading.Thread(target=work, args=(size,)) for size in (5, 6, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {m.profile.dims["n"]: m.calls for m in recorded.models} == {5: 50, 6: 100}


def test_on_a_simulated_gpu() -> None:
    with driver.simulated():
        types = [TensorType(DType.float32, ["n"], DeviceRef.GPU())]
        with Graph("far", input_types=types) as graph:
            graph.output(ops.exp(graph.inputs[0].tensor))
        gpu = driver.Accelerator()
        model = engine.InferenceSession(devices=[gpu]).load(graph)
        x = driver.Tensor.from_numpy(np.zeros(5, np.float32)).to(gpu)
        with record() as recorded:
            for _ in range(3):
                (y,) = model(x)
        assert y.to(driver.CPU()).to_numpy().tolist() == [1.0] * 5
    [found] = recorded.models
    assert found.calls == 3
    assert found.profile.device == "simulated GPU"
    assert found.kernel_ns > 0


def test_each_model_keeps_its_longest(model: engine.Model) -> None:
    before = model.revision
    heard: list[trace.Event] = []
    trace.recorder().listen(heard.append)
    try:
        with record() as recorded:
            model(np.ones(200_000, np.float32), 1.0)
            model(np.ones(1, np.float32), 1.0)
    finally:
        trace.recorder().unlisten(heard.append)
    assert recorded.models[0].call_ns >= recorded.models[1].call_ns
    assert model.last_profile is recorded.models[0].profile
    assert model.revision == before + 1
    assert [e.data["model"] for e in heard if e.kind == "profile"] == [id(model)]


def test_the_timeline_of_a_block(model: engine.Model) -> None:
    other = engine.InferenceSession(num_threads=2).load(model.graph)  # of the same name
    with Graph("third", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(ops.tanh(graph.inputs[0].tensor))
    with record() as recorded:
        third = engine.InferenceSession(num_threads=2).load(graph)

        both = threading.Barrier(2)  # the number of a thread that has ended is given again

        def work(which: engine.Model) -> None:
            both.wait()
            with Tracer(f"work {which.num_threads}"):
                for _ in range(200):
                    which(np.ones(20_000, np.float32), 1.0)
            both.wait()

        threads = [threading.Thread(target=work, args=(which,)) for which in (model, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        third(np.ones(9, np.float32))
    made = recorded.timeline
    same = (np.diff(made.track) == 0) & (np.diff(made.depth) == 0)
    assert (made.start_ns[1:] >= (made.start_ns + made.dur_ns)[:-1])[same].all()
    assert made.runs == 401
    assert sorted(made.kernels) == ["scaled/k0", "scaled/k0", "third/k0"]
    names = [made.names[n] for n in made.name_index]
    assert (names.count("scaled"), names.count("third")) == (400, 1)
    assert "load third" in names
    for number, track in enumerate(made.tracks):
        rows = made.on(number)
        if track.kind == "python" and track.name != "main thread":  # the thread that made a call
            pairs = zip(made.name_index[rows], made.depth[rows], strict=True)
            found = {made.names[name]: int(depth) for name, depth in pairs}
            assert {"work 1", "scaled"} == set(found) or {"work 2", "scaled"} == set(found)
            assert sorted(found.values()) == [0, 1]


def test_nothing_ran() -> None:
    with record() as recorded:
        pass
    assert recorded.profile is None
    assert recorded.table().endswith(": no model ran")
    assert repr(recorded) == "Recording(0 models, 0 runs)"
    assert recorded._repr_mimebundle_() is None
    assert len(recorded.timeline) == 0


def test_one_at_a_time(model: engine.Model) -> None:
    with record() as outer:
        with pytest.raises(ArgumentError, match="ML852"), record():
            pass
        model(np.ones(3, np.float32), 1.0)
    assert outer.calls == 1
    with pytest.raises(ArgumentError, match="this recording is over"), outer:
        pass
    assert trace.run_recorder is None


def test_watchers_still_hear(model: engine.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(trace, "run_watcher", lambda name, begin, end: heard.append(name))
    with record() as recorded:
        model(np.ones(3, np.float32), 1.0)
    assert heard == ["scaled"]
    assert recorded.calls == 1
