"""The widget as a page meets it: traits, messages, new profiles, threads, life and death."""

from __future__ import annotations

import gc
import json
import re
import threading
import weakref
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pytest

from maxlab import __version__
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.graph import Graph, TensorType, ops
from maxlab.lab import GraphView, bundle, widget
from maxlab.lab.protocol import GRAPH_MIME, PROTOCOL, WIDGET_MIME
from tests.lab.conftest import FakeComm
from tests.lab.graphs import layered, load, registry, small


def messages(comm: FakeComm) -> list[dict[str, Any]]:
    """The custom messages that were sent, without their buffers, and without those of progress,
    which a quick machine does not send."""
    return [content for content, _ in comm.custom() if content["type"] != "progress"]


def test_little_is_stored(comms: list[FakeComm]) -> None:
    view = GraphView(layered())
    state = json.dumps(view.get_state(), default=str)
    assert len(state) < 2_000
    assert len(widget.loader()) < 1_000
    assert "//" not in re.sub(r"https?://", "", widget.loader())
    assert view.get_state()["doc"] is None


def test_repr_is_the_same_every_time(comms: list[FakeComm]) -> None:
    assert repr(GraphView(small())) == "GraphView('small', 4 ops)"


def test_only_graphs_models_and_profiles(comms: list[FakeComm]) -> None:
    with pytest.raises(ArgumentTypeError, match="ML801"):
        GraphView(3)  # type: ignore[arg-type]


def test_the_document_comes_when_asked_for(comms: list[FakeComm]) -> None:
    view = GraphView(small())
    [page] = comms
    assert page.custom() == []
    page.say({"type": "need_document"})
    assert json.loads(page.document()) == json.loads(json.dumps(view.document))


def test_large_documents_come_in_parts(
    comms: list[FakeComm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widget, "PART_BYTES", 100)
    GraphView(small())
    [page] = comms
    page.say({"type": "need_document"})
    heads = [d["content"] for _, d, _ in page.sent if "content" in d]
    assert [h["index"] for h in heads] == list(range(heads[0]["count"]))
    assert len({h["revision"] for h in heads}) == 1
    assert len(heads) > 3
    assert json.loads(page.document())["name"] == "small"


def test_the_bundle_comes_as_bytes(
    comms: list[FakeComm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "STATIC", tmp_path)
    (tmp_path / "widget.js").write_bytes(b"export const render = () => {};")
    GraphView(small())
    [page] = comms
    page.say({"type": "need_bundle"})
    [(content, buffers)] = page.custom()
    assert content == {"type": "bundle", "version": __version__}
    assert buffers == [b"export const render = () => {};"]


def test_a_missing_bundle_is_a_view_that_says_so(
    comms: list[FakeComm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "STATIC", tmp_path)
    GraphView(small())
    [page] = comms
    page.say({"type": "need_bundle"})
    [(_, [code])] = page.custom()
    assert code.startswith(b"export const render")
    assert b"ML810" in code
    assert b"jlpm build" in code


def test_sources_on_request(comms: list[FakeComm]) -> None:
    model = load(small())
    GraphView(model)
    [page] = comms
    page.say({"type": "source", "kernel": "k0"})
    [message] = messages(page)
    assert message["source"] == model.kernels["k0"].source
    assert [tuple(line) for line in message["lines"]] == model.kernels["k0"].lines
    page.say({"type": "source", "kernel": "k99"})
    [message] = messages(page)
    assert "gone" in message["source"]


# ---------------------------------------------------------------- profiles


def test_profile_of_a_model(comms: list[FakeComm]) -> None:
    model = load(layered(), weights_registry=registry())
    first, second = GraphView(model), GraphView(model)
    comms[0].say({"type": "profile"})
    assert [m["type"] for m in messages(comms[0])] == ["profile", "document", "profile"]
    for view, page in zip((first, second), comms, strict=True):
        assert view.document["profile"] is not None
        page.say({"type": "need_document"})
        assert json.loads(page.document())["profile"]["dims"] == {"batch": 8, "seq": 64}


def test_status_messages(comms: list[FakeComm]) -> None:
    GraphView(load(small()))
    [page] = comms
    page.say({"type": "profile"})
    status = [m["status"] for m in messages(page) if m["type"] == "profile"]
    assert status == ["running", "done"]


def test_profiles_of_others_are_shown(comms: list[FakeComm]) -> None:
    model, other = load(small()), load(small())
    view, apart = GraphView(model), GraphView(other)
    profile = model.profile(np.ones((3, 8), np.float32), runs=2)
    shown = view.document["profile"]
    assert shown is not None
    assert shown["kernels"][0]["ns"] == profile.kernels[0].ns
    assert apart.document["profile"] is None


def test_a_view_of_a_profile_stays_as_it_is(comms: list[FakeComm]) -> None:
    model = load(small())
    view = GraphView(model.profile(np.ones((3, 8), np.float32), runs=2))
    model.profile(np.ones((5, 8), np.float32), runs=2)
    assert view.document["profile"] is not None
    assert view.document["profile"]["dims"] == {"n": 3}


def test_profile_of_a_graph_compiles_it(comms: list[FakeComm]) -> None:
    view = GraphView(small())
    [page] = comms
    page.say({"type": "profile"})
    assert [m.get("status") for m in messages(page)][-1] == "done"
    assert view.document["kernels"]
    assert view.document["profile"] is not None


def test_profile_of_a_graph_uses_its_model(comms: list[FakeComm]) -> None:
    graph = layered()
    model = load(graph, weights_registry=registry())
    GraphView(graph)
    [page] = comms
    page.say({"type": "profile"})
    assert model.last_profile is not None


def test_failures_are_told_not_raised(comms: list[FakeComm]) -> None:
    view = GraphView(layered())  # its weights are nowhere
    [page] = comms
    page.say({"type": "profile"})
    last = messages(page)[-1]
    assert last["status"] == "failed"
    assert last["fault"]["code"] == "ML613"
    assert "weight" in last["fault"]["message"]
    assert last["fault"]["fix"] == "pass it in weights_registry={name: array}"
    assert view.document["profile"] is None


def test_the_newest_inputs_are_used_again(comms: list[FakeComm]) -> None:
    model = load(small())
    model.profile(np.ones((11, 8), np.float32), runs=1)
    view = GraphView(model)
    comms[0].say({"type": "profile"})
    assert view.document["profile"] is not None
    assert view.document["profile"]["dims"] == {"n": 11}


def test_sizes_that_last_ran_are_used(comms: list[FakeComm]) -> None:
    model = load(small())
    model(np.ones((13, 8), np.float32))
    GraphView(model)
    comms[0].say({"type": "profile"})
    assert model.last_profile.dims == {"n": 13}


def test_made_up_inputs_suit_the_graph(comms: list[FakeComm]) -> None:
    types = [TensorType(DType.int64, ["n"]), TensorType(DType.float32, [1, 4])]
    with Graph("rows", input_types=types) as graph:
        rows, table = (v.tensor for v in graph.inputs)
        graph.output(ops.gather(table, rows, 0))
    model = load(graph)
    GraphView(model)
    comms[0].say({"type": "profile"})
    assert messages(comms[0])[-1]["status"] == "done"  # row 1 is not there, row 0 is


# ---------------------------------------------------------------- what a user does


def test_select(comms: list[FakeComm]) -> None:
    view = GraphView(small())
    view.select("n1", "n3")
    assert view.selection == ["n1", "n3"]
    with pytest.raises(ArgumentError, match=r"'n99' \[ML805\]"):
        view.select("n99")
    view.select()
    assert view.selection == []


def test_a_page_selects(comms: list[FakeComm]) -> None:
    view = GraphView(small())
    seen: list[Any] = []
    view.observe(lambda change: seen.append(change["new"]), "selection")
    state = {"method": "update", "state": {"selection": ["n4"]}, "buffer_paths": []}
    comms[0].handle_msg({"content": {"data": state}, "buffers": []})
    assert seen == [["n4"]]


def test_update_draws_another_graph(comms: list[FakeComm]) -> None:
    view = GraphView(layered(2))
    view.select("n0", "n9")
    view.update(small("other"))
    assert json.loads(comms[0].document())["name"] == "other"
    assert view.selection == ["n0"]
    assert view.revision == 1


def test_update_shows_what_was_added(comms: list[FakeComm]) -> None:
    with Graph("grows", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        view = GraphView(graph)
        assert view.document["nodes"] == []
        graph.output(ops.tanh(graph.inputs[0].tensor))
    view.update()
    assert [n["op"] for n in view.document["nodes"]] == ["tanh"]


def test_reveal_reaches_callbacks(comms: list[FakeComm]) -> None:
    view = GraphView(small())
    seen: list[Any] = []
    view.on_reveal(lambda *place: seen.append(place))
    comms[0].say({"type": "reveal", "file": "cell [1]", "line": 3, "col": 4, "node": "n1"})
    assert seen == [("cell [1]", 3, 4)]


def test_it_is_an_ordinary_widget(comms: list[FakeComm]) -> None:
    left, right = GraphView(small()), GraphView(small())
    box = ipywidgets.HBox([left, right])
    link = ipywidgets.jslink((left, "selection"), (right, "selection"))
    assert box.children == (left, right)
    assert link.source[0] is left


SOURCE: dict[str, Any] = {"type": "source", "protocol": PROTOCOL, "kernel": "k0"}
ASK: dict[str, Any] = {"type": "ask", "protocol": PROTOCOL, "id": 5, "what": "memory", "args": {}}
UNREADABLE: list[tuple[Any, str, str]] = [
    (None, "ML862", "expected an object, got null"),
    (17, "ML862", "expected an object, got 17"),
    ([], "ML862", "expected an object, got a list"),
    ({}, "ML862", 'type: expected "need_bundle" or'),
    ({"type": "other"}, "ML862", "type: expected"),
    ({"type": ["source"]}, "ML862", "type: expected"),
    ({k: v for k, v in SOURCE.items() if k != "kernel"}, "ML862", "kernel: it is missing"),
    ({k: v for k, v in SOURCE.items() if k != "protocol"}, "ML862", "protocol: it is missing"),
    ({**SOURCE, "kernel": 3}, "ML862", "kernel: expected text, got 3"),
    ({**SOURCE, "more": 1}, "ML862", "more: it is not declared"),
    ({**SOURCE, "protocol": "2"}, "ML862", 'protocol: expected 2, got text "2"'),
    ({**SOURCE, "protocol": True}, "ML862", "protocol: expected 2, got a boolean"),
    ({**SOURCE, "protocol": PROTOCOL + 1}, "ML863", f"version {PROTOCOL + 1} of the protocol"),
    ({**SOURCE, "protocol": 10**400}, "ML863", "of the protocol"),
    ({**ASK, "what": 5}, "ML862", "what: expected text, got 5"),
    ({**ASK, "args": []}, "ML862", "args: expected an object, got a list"),
    ({**ASK, "args": {"dims": {"n": "9"}}}, "ML862", "dims.n: expected a whole number, got text"),
    ({**ASK, "args": {"sizes": {}}}, "ML862", "sizes: it is not declared"),
    ({**ASK, "what": "text"}, "ML862", "kernel: it is missing"),
    ({**ASK, "protocol": 1}, "ML863", "version 1 of the protocol"),
]


@pytest.mark.parametrize(("content", "code", "words"), UNREADABLE)
def test_what_cannot_be_read_is_told_and_changes_nothing(
    comms: list[FakeComm], content: Any, code: str, words: str
) -> None:
    model = load(small())
    view = GraphView(model)
    [page] = comms
    before = view.get_state()
    page.tell(content)
    [told] = messages(page)
    assert told.get("fault", told)["code"] == code
    if isinstance(content, dict) and content.get("type") == "ask":
        assert (told["type"], told["id"], told["ok"], told["data"]) == ("answer", 5, False, None)
        assert words in told["error"]
    else:
        assert told["type"] == "failed"
        assert words in told["fault"]["message"]
    assert view.get_state() == before
    page.say({"type": "ask", "id": 6, "what": "memory", "args": {"dims": {"n": 3}}})
    assert messages(page)[-1]["ok"]


def test_a_callback_that_raises_is_survived(comms: list[FakeComm]) -> None:
    view = GraphView(small())
    view.on_reveal(lambda *place: 1 / 0)
    comms[0].say({"type": "reveal", "file": "f", "line": 1, "col": 0, "node": "n1"})
    comms[0].say({"type": "need_document"})
    assert json.loads(comms[0].document())["name"] == "small"


def test_requests_from_several_threads(comms: list[FakeComm]) -> None:
    model = load(small())
    views = [GraphView(model) for _ in range(3)]
    asks = [
        threading.Thread(target=page.say, args=({"type": kind},))
        for page in comms
        for kind in ("profile", "need_document")
    ]
    for thread in asks:
        thread.start()
    for _ in range(20):
        views[0].update()
    for thread in asks:
        thread.join(60)
    assert not any(thread.is_alive() for thread in asks)
    assert all(view.document["profile"] is not None for view in views)


# ---------------------------------------------------------------- display and life


def test_displaying_twice_makes_two_views(kernel: list[FakeComm]) -> None:
    model = load(small())
    ids = [model._repr_mimebundle_()[WIDGET_MIME]["model_id"] for _ in range(2)]
    assert len(set(ids)) == 2
    model.profile(np.ones((3, 8), np.float32), runs=1)
    for page in kernel:
        page.say({"type": "need_document"})
        assert json.loads(page.document())["profile"] is not None


def test_a_view_displays_itself(kernel: list[FakeComm]) -> None:
    view = GraphView(small())
    data = view._repr_mimebundle_()
    assert data[WIDGET_MIME]["model_id"] == view.model_id
    assert data["text/plain"] == repr(view)
    assert GRAPH_MIME in data
    assert len(kernel) == 1


def test_displayed_models_can_die(kernel: list[FakeComm]) -> None:
    model = load(small())
    model._repr_mimebundle_()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    [page] = kernel
    page.say({"type": "profile"})
    last = messages(page)[-1]
    assert last["status"] == "failed"
    assert "run its cell again" in last["fault"]["fix"]
    page.say({"type": "need_document"})
    assert json.loads(page.document())["name"] == "small"


def test_displayed_graphs_can_be_profiled_from_their_view(kernel: list[FakeComm]) -> None:
    small()._repr_mimebundle_()
    gc.collect()
    [page] = kernel
    page.say({"type": "profile"})
    assert messages(page)[-1]["status"] == "done"


def test_close_lets_go(comms: list[FakeComm]) -> None:
    graph = small()
    view = GraphView(graph)
    gone = weakref.ref(graph)
    view.close()
    del graph
    gc.collect()
    assert gone() is None
    assert view.shown is None
    assert comms[0].sent[-1][0] == "comm_close"
    assert repr(view) == "GraphView('small', 4 ops)"
