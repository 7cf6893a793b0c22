"""The questions of pieces of a graph: groups, clips, and what is pasted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import Editor, Graph, TensorType, ops
from maxlab.lab.snapshot import take
from tests.lab.test_changes import ask, change

F32 = DType.float32


def net(count: int = 2) -> Graph:
    with Graph("net", input_types=[TensorType(F32, ["n", 4])]) as graph:
        x: Any = graph.inputs[0].tensor
        for _ in range(count):
            x = ops.tanh(ops.exp(x))
        graph.output(x)
    return graph


def boxes(graph: Graph) -> list[str]:
    return [scope["path"] for scope in take(graph).document["scopes"]]


def test_a_group_is_a_box_and_is_dissolved_by_its_box() -> None:
    graph = net()
    text = graph.document.text()
    made = change(graph, "group", on=("n0", "n1"), name="squash")
    assert made["said"] == "made the group squash of 2 operations"
    assert made["select"] == ["n0", "n1"]
    assert boxes(graph) == ["squash"]
    assert change(graph, "group", on=("n2", "n3"), name="squash")["said"].startswith(
        "made the group squash.1 "
    )
    # A view numbers the first of several, too.
    assert boxes(graph) == ["squash.0", "squash.1"]
    assert change(graph, "dissolve", op="squash.0")["select"] == ["n0", "n1"]
    assert {op.scope for op in graph.function.ops} == {"", "squash.1"}
    assert change(graph, "dissolve", on=("n3",))["said"] == "dissolved the group of tanh n3"
    assert boxes(graph) == []
    while change(graph, "look")["can_undo"]:
        change(graph, "undo")
    assert graph.document.text() == text


def test_groups_in_groups_and_in_scopes_of_code_are_dissolved_one_at_a_time() -> None:
    def layer(x: Any) -> Any:
        return ops.tanh(ops.exp(x))

    with Graph("net", input_types=[TensorType(F32, ["n", 4])]) as graph:
        graph.output(layer(layer(graph.inputs[0].tensor)))
    assert boxes(graph) == ["layer.0", "layer.1"]
    change(graph, "group", on=("n0",), name="inner")
    assert boxes(graph) == ["layer.0", "layer.0.inner", "layer.1"]
    change(graph, "dissolve", op="layer.0.inner")
    assert boxes(graph) == ["layer.0", "layer.1"]
    change(graph, "group", on=("n0", "n1", "n2", "n3"))
    assert boxes(graph)[0] == "group"
    change(graph, "dissolve", op="group")
    change(graph, "dissolve", op="layer.1")
    assert {op.scope for op in graph.function.ops} == {"layer", ""}


def at(key: str, x: float, y: float, pinned: bool = False) -> dict[str, Any]:
    return {"key": key, "x": x, "y": y, "pinned": pinned}


def regroup(graph: Graph, do: str, places: list[dict[str, Any]], **args: Any) -> None:
    given = {"name": "", "on": [], "op": "", "operand": 0, "fields": {}, **args}
    ask(graph, "change", do=do, places=places, **given)


def test_what_is_grouped_and_dissolved_stands_where_the_view_says() -> None:
    graph = net(3)
    editor = Editor(graph)
    editor.place("n1", 40, 260)
    before = graph.document.text()
    places = [at("n0", 0, 0), at("n1", 10, 90, pinned=True), at("", 12, 136)]
    regroup(graph, "group", places, on=["n0", "n1"], fields={"name": "squash"})
    found = graph.document.places
    assert {key: (p.x, p.y, p.pinned) for key, p in found.items()} == {
        "n0": (0, 0, False),
        "n1": (10, 90, True),
        "box:squash": (12, 136, False),
    }
    change(graph, "undo")
    assert graph.document.text() == before
    change(graph, "redo")
    places = [at("n0", 30, 170), at("n1", 40, 260, pinned=True)]
    regroup(graph, "dissolve", places, op="squash")
    assert {key: (p.x, p.y, p.pinned) for key, p in found.items()} == {
        "n0": (30, 170, False),
        "n1": (40, 260, True),
    }


def test_notes_on_boxes_go_with_their_operations() -> None:
    graph = net(3)
    change(graph, "group", on=("n0", "n1"), name="squash")
    editor = Editor(graph)
    editor.place("box:squash", 5, 6)
    editor.comment("the first", on="box:squash")
    editor.fold("squash", True)
    # Another of the name: the first has a number then.
    change(graph, "group", on=("n2", "n3"), name="squash")
    document = graph.document
    assert (list(document.places), list(document.folds)) == (["box:squash.0"], ["squash.0"])
    assert [comment.on for comment in document.comments] == ["box:squash.0"]
    # In a group, and out of it again.
    change(graph, "group", on=("n0", "n1", "n2", "n3"), name="both")
    assert list(document.places) == ["box:both.squash.0"]
    regroup(graph, "dissolve", [at("box:both.squash.0", 70, 80)], op="both")
    assert document.places["box:squash.0"].x == 70
    # Of a box that is no more the comment goes to its first operation.
    change(graph, "dissolve", op="squash.0")
    assert (list(document.places), list(document.folds)) == ([], [])
    assert [comment.on for comment in document.comments] == ["n0"]


def test_a_branch_is_no_group() -> None:
    types = [TensorType(F32, [4]), TensorType(DType.bool, [])]
    with Graph("g", input_types=types) as graph:
        x, yes = (v.tensor for v in graph.inputs)
        graph.output(*ops.cond(yes, [x.type], lambda: ops.exp(x), lambda: x * x))
    before = graph.document.text()
    for box in boxes(graph):
        with pytest.raises(MaxlabError, match="has no group"):
            change(graph, "dissolve", op=box)
    with pytest.raises(MaxlabError, match="0 operations are selected"):
        change(graph, "dissolve")
    assert graph.document.text() == before


def test_what_is_copied_is_pasted_into_another_graph() -> None:
    graph, target = net(), net(1)
    found = ask(graph, "clip", on=["n0", "n1"])
    assert found["said"] == "copied 2 operations"
    assert json.loads(found["text"])["format"] == "maxlab.clip"
    made = change(target, "paste", on=("n1",), text=found["text"])
    assert made["said"] == "pasted 2 operations"
    first = target.function.find(made["select"][0])
    assert first is not None
    assert [v.id for v in first.operands] == ["v1"]
    alone = Graph("alone")
    assert change(alone, "paste", text=found["text"])["said"] == (
        "pasted 2 operations, with 1 new input"
    )


def test_a_bad_text_changes_nothing_and_says_why() -> None:
    graph = net()
    before = graph.document.text()
    with pytest.raises(MaxlabError, match="ML819"):
        change(graph, "paste", text="hello")
    assert graph.document.text() == before
    assert not Editor(graph).can_redo


def test_what_is_copied_can_be_read_as_a_text() -> None:
    graph = net()
    found = ask(graph, "clip", on=["n2", "n1"])
    assert found["said"] == "copied 2 operations"
    assert found["listing"].splitlines()[1:] == [
        "  %v0 = mo.tanh(%a0) : !mo.tensor<[n, 4], f32>",
        "  %v1 = mo.exp(%v0) : !mo.tensor<[n, 4], f32>",
        "  mo.output(%v1)",
        "}",
    ]
    # What is printed cannot be pasted, and that is said.
    for text in (found["listing"], str(graph)):
        with pytest.raises(MaxlabError, match=r"print\(graph\) writes it, in which .* cut short"):
            change(graph, "paste", text=text)
