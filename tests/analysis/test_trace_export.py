"""Chrome traces, against the rules of the Trace Event Format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine, profiler, trace
from maxlab.analysis import trace_export
from maxlab.analysis.timeline import Timeline, timeline
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops


@pytest.fixture(scope="module")
def made() -> Timeline:
    types = [TensorType(DType.float32, ["n", 64])]
    with Graph('say "hi"\n', input_types=types) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(x), ops.transpose(x, 0, 1) @ x)
    trace.recorder().clear()
    before = profiler.enable()
    try:
        with profiler.Tracer("outer", color="teal") as tracer:
            model = engine.InferenceSession(num_threads=2).load(graph)
            profile = model.profile(np.ones((256, 64), np.float32), runs=4)
            tracer.mark()
    finally:
        profiler.enable(before)
    return timeline(profile, runs="all", events=True)


def check(read: Any) -> dict[str, list[dict[str, Any]]]:
    """The events by phase, of a trace that is as the format asks."""
    assert read["displayTimeUnit"] in ("ms", "ns")
    assert isinstance(read["otherData"], dict)
    found: dict[str, list[dict[str, Any]]] = {"M": [], "X": [], "i": []}
    for event in read["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["ts"], int | float)
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] > 0
            assert isinstance(event["cat"], str)
        elif event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
            assert "dur" not in event
        else:
            assert event["ph"] == "M"
            assert isinstance(event["args"], dict)
        found[event["ph"]].append(event)
    return found


def test_the_file_is_a_trace(made: Timeline, tmp_path: Path) -> None:
    path = made.to_chrome(tmp_path / "run.json")
    assert path == tmp_path / "run.json"
    read = json.loads(path.read_text("utf-8"))
    found = check(read)
    assert len(found["X"]) + len(found["i"]) == len(made)
    assert read["otherData"]["model"] == 'say "hi"\n'
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_every_track_is_named_once(made: Timeline) -> None:
    events = list(trace_export.events_of(made))
    threads = {e["tid"]: e for e in events if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert len(threads) == len(made.tracks)
    assert len(processes) == len({t.process for t in made.tracks})
    for number, track in enumerate(made.tracks):
        event = threads[number + 1]
        assert event["args"] == {"name": track.name}
        assert processes[event["pid"]] == track.process
    order = {e["tid"]: e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
    assert [order[n + 1] for n in range(len(made.tracks))] == list(range(len(made.tracks)))


def test_times_are_microseconds(made: Timeline) -> None:
    slices = [e for e in trace_export.events_of(made) if e["ph"] != "M"]
    assert [round(e["ts"] * 1000) for e in slices] == made.start_ns.tolist()
    assert [round(e.get("dur", 0) * 1000) for e in slices] == made.dur_ns.tolist()
    assert [e["tid"] - 1 for e in slices] == made.track.tolist()
    assert [e["name"] for e in slices] == [made.names[n] for n in made.name_index]


def test_kernels_and_colours_are_told(made: Timeline) -> None:
    slices = [e for e in trace_export.events_of(made) if e["ph"] == "X"]
    kernels = {e["args"]["kernel"] for e in slices if e["cat"] == "thread"}
    assert kernels == set(made.kernels)
    for event in slices:
        if event["cat"] == "thread":
            at = made.kernels.index(event["args"]["kernel"])
            assert event["args"]["nodes"].split() == list(made.nodes[at])
    [outer] = [e for e in slices if e["name"] == "outer"]
    assert outer["args"] == {"color": "teal"}


def test_compressed(made: Timeline, tmp_path: Path) -> None:
    plain = made.to_chrome(tmp_path / "run.json").read_bytes()
    packed = made.to_chrome(str(tmp_path / "run.json.gz"))
    assert gzip.decompress(packed.read_bytes()) == plain
    assert packed.stat().st_size < len(plain)


@pytest.mark.parametrize("chunk", [1, 3, 10_000])
def test_chunks_do_not_show(
    made: Timeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    wanted = made.to_chrome(tmp_path / "a.json").read_text()
    monkeypatch.setattr(trace_export, "CHUNK", chunk)
    found = made.to_chrome(tmp_path / "b.json").read_text()
    assert json.loads(found) == json.loads(wanted)


def test_an_empty_timeline(tmp_path: Path) -> None:
    columns: dict[str, list[int]] = {
        name: [] for name in ("start", "dur", "track", "name", "kernel", "depth")
    }
    lists: dict[str, list[str]] = {name: [] for name in ("tracks", "names", "kernels", "nodes")}
    numbers = {"version": 1, "runs": 0, "run": -1, "t0": 0, "n": 0}
    words = {"unit": "ns", "name": "none", "device": "", "simulated": False}
    empty = Timeline.from_json({**numbers, **words, **lists, "colors": {}, "columns": columns})
    assert check(json.loads(empty.to_chrome(tmp_path / "x.json").read_text()))["X"] == []


def test_a_failure_leaves_nothing(
    made: Timeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.json").write_text("the one before")

    def fail(*_: object, **__: object) -> str:
        raise OSError("the disk is full")

    monkeypatch.setattr(json, "dumps", fail)
    with pytest.raises(OSError, match="full"):
        made.to_chrome(tmp_path / "run.json")
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
    assert (tmp_path / "run.json").read_text() == "the one before"
