"""What people lay beside a graph is asked for by a view, sent to it, and saved with the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import maxlab
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import Comment, Editor, Graph, Place, TensorType, ops
from maxlab.lab.differences import applied, difference
from maxlab.lab.questions.answering import answer
from maxlab.lab.seen import Seen
from maxlab.lab.snapshot import take
from maxlab.lab.widget import GraphView


def shown() -> Graph:
    with Graph("g", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        graph.output(ops.tanh(ops.exp(graph.inputs[0].tensor)))
    return graph


def change(graph: Any, do: str, **more: Any) -> Any:
    args = {"do": do, "name": "", "on": [], "op": "", "operand": 0, "fields": {}, **more}
    return answer(graph, "change", args).data


def at(key: str, x: float, y: float, *, pinned: bool = False) -> dict[str, Any]:
    return {"key": key, "x": x, "y": y, "pinned": pinned}


def test_items_are_moved_pinned_and_left_to_the_layout() -> None:
    graph = shown()
    places = graph.document.places
    places["n0"] = Place(x=0, y=0, more={"w": 7})
    made = change(graph, "place", places=[at("n0", 1.5, 2), at("in:a0", -3, 4)])
    assert (made["said"], made["can_undo"]) == ("moved 2 items", True)
    assert places == {"n0": Place(x=1.5, y=2, more={"w": 7}), "in:a0": Place(x=-3, y=4)}
    assert change(graph, "pin", places=[at("n0", 1.5, 2, pinned=True)])["said"] == "pinned 1 item"
    assert places["n0"].pinned
    assert change(graph, "unplace", on=["in:a0"])["said"] == "left 1 item to the layout"
    for _ in range(3):
        change(graph, "undo")
    assert places == {"n0": Place(x=0, y=0, more={"w": 7})}


def test_comments_are_added_changed_moved_and_removed() -> None:
    graph = shown()
    comments = graph.document.comments
    change(graph, "comment", op="n0", fields={"text": " why? "})
    change(graph, "comment", places=[at("", 5, 6)], fields={"text": "<b>here</b>"})
    assert comments == [
        Comment(id="c0", text="why?", on="n0"),
        Comment(id="c1", text="<b>here</b>", x=5, y=6),
    ]
    change(graph, "set-comment", on=["c1"], fields={"text": "there"})
    change(graph, "set-comment", on=["c1"], places=[at("", 7, 8)])
    assert comments[1] == Comment(id="c1", text="there", x=7, y=8)
    assert change(graph, "remove-comment", on=["c0", "c1"])["said"] == "removed 2 comments"
    assert not comments
    change(graph, "undo")
    assert [comment.id for comment in comments] == ["c0", "c1"]
    assert change(graph, "comment", op="n0")["wrong"][0]["name"] == "text"


def test_folds_are_remembered() -> None:
    graph = shown()
    change(graph, "fold", fields={"encoder": "true", "encoder.0": "false"})
    assert dict(graph.document.folds) == {"encoder": True, "encoder.0": False}
    change(graph, "undo")
    assert not graph.document.folds


@pytest.mark.parametrize(
    ("do", "more"),
    [
        ("place", {"places": [at("n404", 1, 2)]}),
        ("place", {"places": [at("n0", float("nan"), 2)]}),
        ("unplace", {"on": ["n0"]}),
        ("comment", {"op": "n404", "fields": {"text": "x"}}),
        ("set-comment", {"on": ["c404"], "fields": {"text": "x"}}),
        ("remove-comment", {"on": ["c404"]}),
    ],
)
def test_what_is_not_there_is_refused(do: str, more: Any) -> None:
    graph = shown()
    before = graph.document.text()
    with pytest.raises(MaxlabError):
        change(graph, do, **more)
    assert graph.document.text() == before


# ---------------------------------------------------------------- what a view gets
def test_a_document_has_what_is_beside_the_graph(tmp_path: Path) -> None:
    graph = shown()
    plain = take(graph).document
    assert not {"places", "folds", "comments", "drafts"} & set(plain)
    editor = Editor(graph)
    editor.place("n0", 1, 2.5)
    editor.fold("encoder", True)
    editor.comment("why?", on="n0")
    editor.draft("mo.matmul", ["v0", None], "operand 1 is missing", {"axis": "-1"})
    drawn = take(graph).document
    assert drawn["places"] == [at("n0", 1, 2.5, pinned=True)]
    assert drawn["folds"] == {"encoder": True}
    assert drawn["comments"] == [{"id": "c0", "text": "why?", "on": "n0", "x": 0, "y": 0}]
    (draft,) = drawn["drafts"]
    assert draft["operands"] == ["v0", None]
    assert draft["reason"] == "operand 1 is missing"
    graph.save(tmp_path / "g.mlgraph")
    opened = maxlab.open(tmp_path / "g.mlgraph")
    assert isinstance(opened, Graph)
    assert {**take(opened).document, "revision": 0} == {**drawn, "revision": 0}


def test_a_view_gets_what_changed_and_no_more() -> None:
    graph = shown()
    editor, before = Editor(graph), take(graph)
    seen = Seen(graph)
    steps: list[Any] = [
        lambda: editor.place("n0", 1, 2),
        lambda: editor.place("n1", 3, 4),
        lambda: editor.place("n0", 5, 6),
        lambda: editor.comment("why?", on="n0"),
        lambda: editor.draft("mo.exp", [None], "operand 0 is missing"),
        lambda: editor.remove("n0"),
        editor.undo, editor.undo, editor.undo, editor.undo, editor.undo, editor.undo,
    ]  # fmt: skip
    sent = []
    for step in steps:
        step()
        assert seen.is_old(graph)
        after = seen.retake(graph, before)
        made = difference(before.document, after.document)
        assert made is not None, "the whole document is not needed"
        assert applied(before.document, made) == after.document
        sent.append(made)
        before = after
    assert set(sent[0]) == {"revision", "places"}
    assert sent[2]["places"]["changed"] == [at("n0", 5, 6, pinned=True)]
    assert sent[2]["places"]["added"] == []
    assert set(sent[3]) == {"revision", "comments"}
    assert {"nodes", "places", "comments"} < set(sent[5])
    assert {k: v for k, v in before.document.items() if v != []} == {
        **{k: v for k, v in take(graph).document.items() if v != []},
    }


def test_moving_a_node_sends_a_difference_to_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = shown()
    view = GraphView(graph)
    sent: list[Any] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=None: sent.append(content))
    args = {
        "do": "place", "name": "", "on": [], "op": "", "operand": 0, "fields": {},
        "places": [at("n0", 1, 2)],
    }  # fmt: skip
    view._received(
        view, {"type": "ask", "protocol": 2, "id": 1, "what": "change", "args": args}, []
    )
    (made,) = [message for message in sent if message["type"] == "difference"]
    assert made["difference"]["places"]["added"] == [{"before": None, "place": at("n0", 1, 2)}]
