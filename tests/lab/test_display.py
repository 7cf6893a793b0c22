"""What objects give to a notebook, and to pages, listings and reports beside it."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any, NotRequired, get_origin, get_type_hints

import numpy as np
import pytest

import maxlab
from maxlab.errors import ArgumentError, DocumentError
from maxlab.graph import Editor
from maxlab.lab import bundle, doctor, live, mime, protocol
from maxlab.lab.protocol import GRAPH_MIME, WIDGET_MIME
from maxlab.lab.snapshot import take, unpack
from tests.lab.conftest import FakeComm
from tests.lab.graphs import layered, load, registry, small

# ---------------------------------------------------------------- MIME bundles


def test_every_form_is_there(kernel: list[FakeComm]) -> None:
    data = small()._repr_mimebundle_()
    assert set(data) >= {"text/plain", GRAPH_MIME, WIDGET_MIME}
    assert ("image/svg+xml" in data) != ("text/html" in data)
    assert unpack(data[GRAPH_MIME])["name"] == "small"
    assert set(data[WIDGET_MIME]) == {"version_major", "version_minor", "model_id"}


def test_without_a_kernel_there_is_no_widget(comms: list[FakeComm]) -> None:
    assert WIDGET_MIME not in small()._repr_mimebundle_()
    assert comms == []


def test_only_what_is_asked_for_is_made(
    kernel: list[FakeComm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maxlab.lab.svg.draw", lambda *_: pytest.fail("nobody wants a picture"))
    assert set(small()._repr_mimebundle_(include={GRAPH_MIME})) == {GRAPH_MIME}
    assert kernel == []
    without = {"image/svg+xml", "text/html", WIDGET_MIME}
    assert set(small()._repr_mimebundle_(exclude=without)) == {"text/plain", GRAPH_MIME}


def test_without_dot_the_rest_works(
    kernel: list[FakeComm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    data = small('<i>"&')._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html", GRAPH_MIME, WIDGET_MIME}
    assert "install graphviz" in data["text/html"]
    assert "<i>" not in data["text/html"]


def test_text_of_models_and_profiles(kernel: list[FakeComm]) -> None:
    model = load(small())
    plain = {"text/plain"}
    assert model._repr_mimebundle_(include=plain)["text/plain"].splitlines() == [
        repr(model),
        "  input0: f32[n, 8]",
        "  → f32[n, 8]",
    ]
    profile = model.profile(np.ones((2, 8), np.float32), runs=2)
    assert profile._repr_mimebundle_(include=plain) == {
        "text/plain": "Profile('small', 1 kernel, 2 runs)"
    }


def test_running_again_saves_the_same(kernel: list[FakeComm]) -> None:
    def saved() -> Any:
        data = load(layered(), weights_registry=registry())._repr_mimebundle_()
        del data[WIDGET_MIME]
        return data

    assert saved() == saved()


def test_long_sources_are_not_saved(
    kernel: list[FakeComm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mime, "COMFORTABLE", 100)
    saved = unpack(load(small())._repr_mimebundle_(include={GRAPH_MIME})[GRAPH_MIME])
    assert saved["kernels"][0]["source"] is None


def test_huge_graphs_are_not_saved(kernel: list[FakeComm], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mime, "MOST_SAVED", 100)
    data = small()._repr_mimebundle_()
    assert GRAPH_MIME not in data
    assert WIDGET_MIME in data


# ---------------------------------------------------------------- pages


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script of exported pages, replaced by one that has all that HTML could trip over."""
    monkeypatch.setattr(bundle, "STATIC", tmp_path)
    script = tmp_path / "export.js"
    script.write_text('const a = "</script><!-- </SCRIPT>", b = 1 < 2, c = {};')
    return script


def test_a_page_has_all_in_it(code: Path) -> None:
    graph = small("</script><script>alert(1)</script>")
    page = graph.to_html()
    assert page.count("<script") == page.count("</script>") == 2
    assert "<!-- " not in page
    assert "alert(1)" not in re.sub(r"<title>.*</title>", "", page)
    assert not re.search(r"(src|href)\s*=", page)
    match = re.search(r'<script type="application/octet-stream" id="maxlab-graph">(.*?)<', page)
    assert match is not None
    assert unpack({"encoding": "deflate+base64", "data": match[1]}) == json.loads(take(graph).json)


def test_the_script_means_the_same(code: Path) -> None:
    page = small().to_html()
    assert r'const a = "\x3c/script>\x3c!-- \x3c/SCRIPT>", b = 1 < 2, c = {};' in page


def test_pages_of_models_and_profiles(code: Path, tmp_path: Path) -> None:
    model = load(small())
    profile = model.profile(np.ones((2, 8), np.float32), runs=1)
    for obj in (model, profile):
        path = tmp_path / f"{type(obj).__name__}.html"
        assert obj.to_html(path) == path
        assert path.read_text("utf-8") == obj.to_html()


def test_without_a_front_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "STATIC", tmp_path)
    with pytest.raises(DocumentError, match=r"(?s)ML810.*jlpm build"):
        small().to_html()


# ---------------------------------------------------------------- live objects


def test_live_objects_are_listed_with_their_names() -> None:
    graph = small("alive")
    model = load(graph)
    namespace = {"g": graph, "again": graph, "m": model, "_hidden": model, "n": 3}
    mine = {item.id: item for item in live.listing(namespace) if item.title == "alive"}
    assert sorted((i.kind, i.names) for i in mine.values()) == [
        ("Graph", ("again", "g")),
        ("Model", ("m",)),
    ]
    assert all(live.find(key) in (graph, model) for key in mine)


def test_stamps_change_with_the_object() -> None:
    def stamps() -> dict[str, str]:
        return {i.kind: i.stamp for i in live.listing() if i.title == "stamped"}

    graph = small("stamped")
    model = load(graph)
    first = stamps()
    assert stamps() == first
    model.profile(np.ones((2, 8), np.float32), runs=1)
    second = stamps()
    assert (second["Graph"] == first["Graph"], second["Model"] == first["Model"]) == (True, False)
    with graph, pytest.warns(UserWarning, match="replaces it"):
        graph.output(graph.inputs[0])
    assert stamps()["Graph"] != first["Graph"]


def test_answers_are_base64_of_json(kernel: list[FakeComm]) -> None:
    graph = small("answered")
    found = json.loads(base64.b64decode(live.answer({"g": graph})))
    [item] = [i for i in found if i["title"] == "answered"]
    assert live.find(item["id"]) is graph
    assert kernel == []


def test_dead_ids_are_refused() -> None:
    with pytest.raises(ArgumentError, match="ML807"):
        live.find("g0")


def test_what_the_side_panel_evaluates(kernel: list[FakeComm]) -> None:
    """The expression of ``extension/src/lab/probe.ts``: one MIME type, no view made."""
    bundle_ = small()._repr_mimebundle_(include={GRAPH_MIME})
    data = bundle_[0] if isinstance(bundle_, tuple) else bundle_
    assert json.loads(json.dumps(data[GRAPH_MIME]))["encoding"] == "deflate+base64"
    assert kernel == []


# ---------------------------------------------------------------- doctor and protocol


def test_doctor_reports() -> None:
    report = maxlab.doctor()
    names = [row.name for row in report.rows]
    assert {"maxlab", "C compiler", "graphviz", "front end", "ipywidgets", "anywidget"} <= {*names}
    assert str(report) == repr(report)
    assert len(str(report).splitlines()) >= len(names)
    for row in report.rows:
        assert row.found or row.fix


def test_doctor_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "STATIC", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = {row.name: row for row in doctor.rows()}
    assert not rows["graphviz"].found
    assert "graphviz" in rows["graphviz"].fix
    assert not rows["front end"].found
    assert not maxlab.doctor().ok


def test_documents_have_the_fields_of_the_protocol() -> None:
    model = load(small())
    model.profile(np.ones((2, 8), np.float32), runs=1)
    model.overlay({"n1": 1})
    editor = Editor(model.graph)
    editor.place("n0", 1, 2)
    editor.fold("encoder", True)
    editor.comment("here", on="n0")
    editor.draft("mo.exp", [None], "operand 0 is missing")
    document = take(model).document
    # A panel is named by what is drawn for its sake, a comparison; conflicts come of merges.
    known = set(protocol.GraphDocument.__annotations__)
    assert set(document) == known - {"panel", "beside", "conflicts"}
    pairs: list[tuple[Any, type]] = [
        (document["nodes"][1], protocol.Node),
        (document["values"][0], protocol.Value),
        (document["kernels"][0], protocol.Kernel),
        (document["passes"][0], protocol.Pass),
        (document["profile"], protocol.Profile),
        (document["overlays"][0], protocol.Overlay),
    ]
    for item, kind in pairs:
        fields = get_type_hints(kind, include_extras=True)
        required = {name for name, hint in fields.items() if get_origin(hint) is not NotRequired}
        assert required <= set(item) <= set(fields)
