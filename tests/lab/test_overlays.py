"""Overlays of one's own: names, ranges, files, and where they are then."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import numpy as np
import pytest

import maxlab
from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DocumentError
from maxlab.graph import Graph, TensorType, ops
from maxlab.lab import GraphView, overlays, protocol
from maxlab.lab.protocol import reader
from maxlab.lab.snapshot import take


def make_graph() -> Graph:
    with Graph("painted", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.tanh(x * 2) + ops.tanh(x))
    return graph


def shown(obj: Graph | engine.Model) -> list[protocol.Overlay]:
    return take(obj).document.get("overlays", [])


def test_is_in_the_document_of_the_graph_of_its_models_and_of_their_profiles() -> None:
    graph = make_graph()
    graph.overlay({"mul": 3.0, "add": 1}, "error", unit="ulp")
    model = engine.InferenceSession().load(graph)
    profile = model.profile(np.ones(8, np.float32))
    ids = {op.op: op.id for op in graph.find("!op=tanh")}
    wanted = {
        "title": "error",
        "unit": "ulp",
        "values": {ids["mul"]: 3.0, ids["add"]: 1.0},
        "scopes": {},
        "low": 0.0,
        "high": 3.0,
        "colors": "sequential",
        "combine": "sum",
    }
    for obj in (graph, model, profile):
        document = take(obj).document
        assert document["overlays"] == [wanted]
        reader.check(document, protocol.GraphDocument, closed=True)


def test_several_are_in_the_order_in_which_they_came_and_a_title_is_there_once() -> None:
    graph = make_graph()
    for title, number in (("a", 1), ("b", 2), ("a", 3)):
        graph.overlay({"mul": number}, title)
    assert [(one["title"], one["high"]) for one in shown(graph)] == [("b", 2), ("a", 3)]


def test_a_place_names_an_operation() -> None:
    graph = make_graph()
    node = next(n for n in take(graph).document["nodes"] if n["op"] == "mul")
    assert node["source"] is not None
    with pytest.raises(ArgumentError, match="ML894"):  # three operations are on that line
        graph.overlay({f"test_overlays.py:{node['source']['line']}": 1})
    with Graph("one", input_types=[TensorType(DType.float32, ["n"])]) as single:
        single.output(ops.tanh(single.inputs[0].tensor))
    [only] = take(single).document["nodes"]
    assert only["source"] is not None
    single.overlay({f"test_overlays.py:{only['source']['line']}": 1})
    assert shown(single)[0]["values"] == {only["id"]: 1.0}


def test_names_of_nothing_and_of_several_are_refused_with_what_is_near() -> None:
    graph = make_graph()
    with pytest.raises(ArgumentError, match=r"no op 'mull'[^$]*ML893") as unknown:
        graph.overlay({"mull": 1})
    assert "'mul'" in str(unknown.value.fix)
    with pytest.raises(ArgumentError, match=r"'tanh' names 2 ops[^$]*ML894") as several:
        graph.overlay({"tanh": 1})
    assert all(f"'{id}'" in str(several.value.fix) for id in graph.find("op=tanh").ids)
    assert shown(graph) == []


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"values": {}}, "names of operations"),
        ({"values": [1, 2]}, "names of operations"),
        ({"values": {"mul": float("nan")}}, "finite"),
        ({"values": {"mul": "3"}}, "finite"),
        ({"low": 2, "high": 1}, "ends below"),
        ({"high": float("inf")}, "finite"),
        ({"colors": "rainbow"}, "'diverging'"),
        ({"combine": "mean"}, "'max'"),
        ({"unit": 3}, "text"),
    ],
)
def test_what_is_no_overlay_is_refused(given: dict[str, object], what: str) -> None:
    fields: dict[str, object] = {"values": {"mul": 1}, **given}
    with pytest.raises(ArgumentError, match=f"{what}[^$]*ML895"):
        make_graph().overlay(fields.pop("values"), **fields)  # type: ignore[arg-type]


def test_numbers_around_zero_have_an_even_range() -> None:
    graph = make_graph()
    graph.overlay({"mul": -3, "add": 1}, colors="diverging")
    assert (shown(graph)[0]["low"], shown(graph)[0]["high"]) == (-3, 3)


def test_a_file_is_an_overlay(tmp_path: Path) -> None:
    graph, path = make_graph(), tmp_path / "drift.json"
    fields = {"format": "maxlab.overlay", "version": 1, "values": {"mul": 2}, "combine": "max"}
    path.write_text(json.dumps(fields))
    graph.overlay(path)
    assert [(one["title"], one["combine"]) for one in shown(graph)] == [("drift", "max")]
    graph.overlay(str(path), "other")
    assert [one["title"] for one in shown(graph)] == ["drift", "other"]


def test_what_is_said_goes_before_what_a_file_says(tmp_path: Path) -> None:
    graph, path = make_graph(), tmp_path / "drift.json"
    fields = {"format": "maxlab.overlay", "version": 1, "values": {"mul": 2}, "unit": "m"}
    path.write_text(json.dumps({**fields, "combine": "max", "high": 4}))
    graph.overlay(path, unit="dB", colors="diverging", low=-1)
    (one,) = shown(graph)
    assert (one["unit"], one["colors"], one["combine"]) == ("dB", "diverging", "max")
    assert (one["low"], one["high"]) == (-1, 4)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"format": "maxlab.overlay", "version": 2, "values": {"mul": 1}}',
        '{"format": "maxlab.overlay", "version": 1, "values": {"mul": null}}',
        '{"format": "maxlab.overlay", "version": 1, "values": {"mul": 1}, "colour": "red"}',
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(DocumentError, match="ML896"):
        make_graph().overlay(path)


def test_views_show_it_at_once_and_keep_it_while_the_graph_changes() -> None:
    graph = make_graph()
    view = GraphView(graph)
    revision = view.revision
    view.overlay({"mul": 1, "add": 2}, "error")
    assert view.revision == revision + 1
    assert len(view.document["overlays"][0]["values"]) == 2
    with graph:
        ops.tanh(graph.inputs[0].tensor)
    view.update()
    assert len(view.document["nodes"]) == 6
    assert len(view.document["overlays"][0]["values"]) == 2
    # a document that lost an operation loses its number
    document = view.document
    fewer = [node for node in document["nodes"] if node["op"] != "mul"]
    overlay = overlays.Overlay("error", {"mul": 1, "add": 2})
    found = overlays.resolved({**document, "nodes": fewer}, overlay)
    assert list(found["values"].values()) == [2]


def test_the_page_hands_in_a_file_and_is_told_what_is_wrong() -> None:
    graph = make_graph()
    view = GraphView(graph)
    sent: list[dict[str, object]] = []
    view.send = lambda content, buffers=None: sent.append(content)
    fields = {"format": "maxlab.overlay", "version": 1, "values": {"mul": 2}}
    message = {"type": "overlay", "protocol": protocol.PROTOCOL, "name": "drift.json"}
    view._received(view, {**message, "text": json.dumps(fields)}, [])
    assert [one["title"] for one in shown(graph)] == ["drift"]
    view._received(view, {**message, "text": "{"}, [])
    assert sent[-1]["type"] == "failed"
    assert sent[-1]["fault"]["code"] == "ML896"  # type: ignore[index]


def test_is_in_saved_runs_and_exported_pages(tmp_path: Path) -> None:
    graph = make_graph()
    graph.overlay({"mul": 2}, "drift")
    profile = engine.InferenceSession().load(graph).profile(np.ones(8, np.float32))
    profile.save(tmp_path / "run.mlprof")
    run = maxlab.load_run(tmp_path / "run.mlprof")
    assert [one["title"] for one in run.document["overlays"]] == ["drift"]
    run.overlay({"add": 1}, "late")
    assert "late" in [one["title"] for one in take(run).document["overlays"]]


def test_goes_with_its_graph() -> None:
    graph = make_graph()
    key = id(graph)
    graph.overlay({"mul": 2})
    kept = overlays._kept[key]
    del graph
    gc.collect()
    assert overlays._kept.get(key) is not kept


def test_stays_when_its_cell_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run = "1"
    monkeypatch.setattr(overlays, "running_cell", lambda: ("cell", run))
    first = make_graph()
    assert not overlays.carried(first, "painted")
    first.overlay({"mul": 2}, "drift")
    run = "2"
    again = make_graph()
    assert overlays.carried(again, "painted")
    assert [one["title"] for one in shown(again)] == ["drift"]
    run = "3"
    own = make_graph()
    own.overlay({"mul": 5}, "own")
    assert not overlays.carried(own, "painted")
    assert [one["title"] for one in shown(own)] == ["own"]
