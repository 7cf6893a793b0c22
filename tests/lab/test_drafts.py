"""Drafts by hand: put down unfinished, kept when what they read goes, and whole again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import BufferType, Draft, Editor, Graph, TensorType, ops
from maxlab.graph.drafting import put_aside, readers_of, result_id
from maxlab.ir import Value
from maxlab.lab.models import model_for
from maxlab.lab.protocol import reader
from maxlab.lab.snapshot import take
from tests.lab.test_changes import ask, change, ids

F32 = DType.float32


def net() -> Graph:
    types = [TensorType(F32, ["n", 8]), TensorType(F32, [8, 4]), TensorType(F32, ["n", 8])]
    with Graph("net", input_types=types) as graph:
        x, w, y = (value.tensor for value in graph.inputs)
        graph.output(ops.softmax(ops.relu(x) @ w, axis=0), ops.exp(y))
    return graph


def drafts(graph: Graph) -> dict[str, Draft]:
    """The drafts by the names of their operations."""
    return {one.name.removeprefix("mo."): one for one in graph.document.drafts}


def states(graph: Graph, value: str = "", op: str = "", operand: int = 0) -> dict[str, Any]:
    data = ask(graph, "reach", value=value, op=op, operand=operand)
    question = reader.question_of("reach")
    assert question is not None
    reader.check(json.loads(json.dumps(data)), reader.types_of(question)[1], closed=True)
    return {
        (f"{e['op']}.{e['operand']}" if value else e["value"]): (e["state"], e["says"])
        for e in data["ends"]
    }


def outputs_of(graph: Graph) -> list[Value]:
    output = graph.function.output
    return [] if output is None else list(output.operands)


def whole_text(graph: Graph) -> str:
    """All that is saved of the graph, without the lines of programs."""
    data = json.loads(graph.document.text())
    data["graph"].pop("sources", None)
    return json.dumps(data)


# ---------------------------------------------------------------- from the palette
def test_an_operation_is_put_down_unfinished_and_becomes_whole_in_the_step_that_ends_it() -> None:
    graph = net()
    before = str(graph)
    done = change(graph, "draft", "matmul", on=("a0",))
    (draft,) = graph.document.drafts
    assert done["select"] == [draft.id]
    assert (draft.name, draft.operands, draft.reason) == ("matmul", ("a0", None), "rhs is missing")
    assert str(graph) == before
    (y,) = model_for(graph)(*(np.ones(s, np.float32) for s in ((2, 8), (8, 4), (2, 8))))[1:]
    assert y.shape == (2, 8)
    text = whole_text(graph)

    done = change(graph, "connect", on=("a1",), op=draft.id, operand=1)
    assert not graph.document.drafts
    (made,) = done["select"]
    assert done["said"].endswith(f"matmul {made} is whole")
    assert graph.function.find(made) is not None
    assert "mo.matmul(%a0, %a1)" in str(graph)
    after = whole_text(graph)

    change(graph, "undo")
    assert whole_text(graph) == text
    assert [one.id for one in graph.document.drafts] == [draft.id]
    change(graph, "redo")
    assert whole_text(graph) == after
    change(graph, "undo")
    change(graph, "undo")
    assert not graph.document.drafts


def test_a_wrong_operand_is_told_in_the_words_of_the_operation() -> None:
    graph = net()
    change(graph, "draft", "matmul", on=("a0",))
    (draft,) = graph.document.drafts
    change(graph, "connect", on=("a2",), op=draft.id, operand=1)
    (draft,) = graph.document.drafts
    assert draft.operands == ("a0", "a2")
    assert draft.reason == "matmul: the inner dims differ, 8 ≠ n: [n, 8] @ [n, 8]"


def test_what_was_tried_is_no_error_of_the_graph() -> None:
    """Views draw the graph, and not the operation that could not be made."""
    graph = net()
    change(graph, "draft", "matmul", on=("a0",))
    (draft,) = graph.document.drafts
    change(graph, "connect", on=("a2",), op=draft.id, operand=1)
    assert take(graph).document["error"] is None
    change(graph, "remove", on=("a1",))
    assert take(graph).document["error"] is None
    with pytest.raises(MaxlabError):
        change(graph, "add", "matmul", on=("a0", "a2"))
    assert take(graph).document["error"] is None


def test_fields_of_a_draft_are_changed_by_typing() -> None:
    graph = net()
    change(graph, "draft", "reshape", on=("a0",))
    (draft,) = graph.document.drafts
    assert draft.reason == "shape is missing"
    found = {f["name"]: f["text"] for f in ask(graph, "details", item=draft.id)["fields"]}
    assert found["x"] == "a0"
    assert found["shape"] == ""
    change(graph, "set", op=draft.id, shape="n, 3")
    (draft,) = graph.document.drafts
    assert "reshape" in draft.reason
    wrong = change(graph, "set", op=draft.id, x="nothing")["wrong"]
    assert wrong[0]["name"] == "x"
    done = change(graph, "set", op=draft.id, shape="n, 2, 4")
    assert done["said"].endswith("is whole")
    assert "mo.reshape" in str(graph)


def test_attributes_of_a_draft_that_was_an_operation_are_changed_by_typing() -> None:
    graph = net()
    (softmax,) = (op for op in graph.function.ops if op.name == "mo.softmax")
    put_aside(Editor(graph), [softmax])
    (draft,) = (one for one in graph.document.drafts if one.name == "mo.softmax")
    (axis,) = (f for f in ask(graph, "details", item=draft.id)["fields"] if f["name"] == "axis")
    assert (axis["text"], axis["kind"]) == ("0", "data")
    (wrong,) = change(graph, "set", op=draft.id, axis="nothing(")["wrong"]
    assert wrong["name"] == "axis"
    change(graph, "set", op=draft.id, axis="-1")
    (made,) = (op for op in graph.function.ops if op.name == "mo.softmax")
    assert made.attrs["axis"] == -1
    assert graph.document.drafts == []


def test_a_chain_of_drafts_becomes_whole_from_its_beginning() -> None:
    graph = net()
    change(graph, "draft", "matmul", on=("a0",))
    (first,) = graph.document.drafts
    change(graph, "draft", "relu")
    second = drafts(graph)["relu"]
    change(graph, "connect", on=(result_id(first.id),), op=second.id)
    second = drafts(graph)["relu"]
    assert second.reason == f"x reads matmul {first.id}, which is a draft itself"
    with pytest.raises(MaxlabError, match="ML815"):  # in a circle
        change(graph, "connect", on=(result_id(second.id),), op=first.id, operand=1)
    with pytest.raises(MaxlabError, match="ML815"):  # into the graph
        change(graph, "connect", on=(result_id(first.id),), op=ids(graph)["exp"])
    done = change(graph, "connect", on=("a1",), op=first.id, operand=1)
    assert len(done["select"]) == 2
    assert not graph.document.drafts
    assert "mo.relu(%v" in str(graph)


def test_what_a_drag_would_do_to_drafts_is_told() -> None:
    graph = net()
    change(graph, "draft", "matmul", on=("a0",))
    (first,) = graph.document.drafts
    change(graph, "draft", "add")
    second = drafts(graph)["add"]
    found = states(graph, "a1")
    assert found[f"{first.id}.1"] == ("fits", "float32[n, 4]")
    assert found[f"{second.id}.0"] == ("fits", "a draft still: rhs is missing")
    assert states(graph, "a2")[f"{first.id}.1"][0] == "refused"
    found = states(graph, "", first.id, 1)
    assert found["a1"][0] == "fits"
    assert found["a2"][0] == "refused"
    assert found[result_id(second.id)] == ("fits", "a draft")
    found = states(graph, result_id(first.id))
    assert found[f"{second.id}.1"][0] == "fits"
    assert {state for key, (state, _) in found.items() if not key.startswith(second.id)} == {
        "refused"
    }
    with pytest.raises(MaxlabError, match="ML300"):
        states(graph, "", first.id, 7)


def test_a_draft_is_removed_and_its_readers_lack_it() -> None:
    graph = net()
    change(graph, "draft", "matmul", on=("a0",))
    (first,) = graph.document.drafts
    change(graph, "draft", "relu")
    change(graph, "connect", on=(result_id(first.id),), op=drafts(graph)["relu"].id)
    change(graph, "remove", on=(first.id,))
    (left,) = graph.document.drafts
    assert (left.operands, left.reason) == ((None,), "x is missing")


def test_drafts_are_saved_and_opened(tmp_path: Path) -> None:
    graph = net()
    change(graph, "draft", "matmul", on=("a0",))
    graph.save(str(tmp_path / "net.mlgraph"))
    opened = maxlab.open(tmp_path / "net.mlgraph")
    assert isinstance(opened, Graph)
    (draft,) = opened.document.drafts
    change(opened, "connect", on=("a1",), op=draft.id, operand=1)
    assert not opened.document.drafts


def test_what_is_added_at_a_place_is_drawn_there() -> None:
    graph = net()
    before = whole_text(graph)
    place = {"key": "", "x": 40.0, "y": 90.0, "pinned": False}
    args = {"name": "relu", "on": ["a0"], "op": "", "operand": 0, "fields": {}, "places": [place]}
    (made,) = ask(graph, "change", do="add", **args)["select"]
    assert (graph.document.places[made].x, graph.document.places[made].y) == (40, 90)
    change(graph, "undo")
    assert whole_text(graph) == before
    (draft,) = ask(graph, "change", do="draft", **{**args, "name": "matmul"})["select"]
    assert graph.document.places[draft].x == 40
    (made,) = change(graph, "connect", on=("a1",), op=draft, operand=1)["select"]
    assert graph.document.places[made].y == 90
    assert draft not in graph.document.places


# ---------------------------------------------------------------- what was whole
def test_what_reads_an_input_that_goes_is_kept_when_people_say_so() -> None:
    graph = net()
    before, at = whole_text(graph), ids(graph)
    refused = change(graph, "remove", on=("a1",))["refused"]
    assert refused["drafts"] == 2
    assert f"matmul {at['matmul']} reads input1" in refused["says"]
    assert whole_text(graph) == before
    change(graph, "remove", on=("a1",), drafts="yes")
    kept = drafts(graph)
    assert set(kept) == {"matmul", "softmax", "output"}
    matmul = kept["matmul"]
    assert (matmul.operands[1], matmul.reason) == (None, "rhs is missing")
    assert kept["softmax"].operands == (result_id(matmul.id),)
    # The rest runs.
    (y,) = model_for(graph)(np.ones((2, 8), np.float32), np.ones((2, 8), np.float32))
    np.testing.assert_allclose(y.to_numpy(), np.full((2, 8), math.e), rtol=1e-6)
    # Another right side, and all of it is whole again, with its attributes and outputs.
    change(graph, "input", type="float32[8, 3]", name="v")
    value = graph.function.inputs[-1].id
    change(graph, "connect", on=(value,), op=matmul.id, operand=1)
    assert not graph.document.drafts
    assert "{axis = 0}" in str(graph)
    assert [str(value.tensor_type.shape) for value in outputs_of(graph)] == ["[n, 3]", "[n, 8]"]
    for _ in range(3):
        change(graph, "undo")
    assert whole_text(graph) == before


def test_what_does_not_take_another_operand_is_kept_when_people_say_so() -> None:
    graph = net()
    at = ids(graph)
    editor = Editor(graph)
    editor.place(at["matmul"], 30, 40, pinned=True)
    editor.comment("the right side", on=at["matmul"])
    before = whole_text(graph)
    args: dict[str, Any] = {"on": ("a2",), "op": at["matmul"], "operand": 1}
    refused = change(graph, "connect", **args)["refused"]
    assert refused["drafts"] == 2
    assert "matmul" in refused["says"]
    assert whole_text(graph) == before
    (kept,) = change(graph, "connect", **args, drafts="yes")["select"]
    found = drafts(graph)
    assert set(found) == {"matmul", "softmax", "output"}
    assert kept == found["matmul"].id
    assert found["matmul"].operands[1] == "a2"
    assert "matmul" in found["matmul"].reason
    assert graph.document.places[kept].pinned
    assert [comment.on for comment in graph.document.comments] == [kept]
    # What is whole runs, and what fits makes the rest whole, where it was.
    ran = ask(graph, "run", inputs={})
    assert [value["name"] for value in ran["outputs"]] == ["output0"]
    (made, *_) = change(graph, "connect", on=("a1",), op=kept, operand=1)["select"]
    assert not graph.document.drafts
    assert graph.document.places[made].x == 30
    assert [comment.on for comment in graph.document.comments] == [made]
    for _ in range(2):
        change(graph, "undo")
    assert whole_text(graph) == before


def test_fields_that_do_not_fit_make_drafts_of_their_operation() -> None:
    graph = net()
    at, before = ids(graph), whole_text(graph)
    fields: Any = {"operand 1": "a2"}
    assert change(graph, "set", op=at["matmul"], **fields)["refused"]["drafts"] == 2
    # A draft has no name: with one it is refused.
    fields["name"] = "y"
    with pytest.raises(MaxlabError, match="ML2"):
        change(graph, "set", op=at["matmul"], **fields)
    assert change(graph, "set", op=at["softmax"], axis="7")["refused"]["drafts"] == 1
    change(graph, "set", op=at["softmax"], axis="7", drafts="yes")
    (softmax, output) = graph.document.drafts
    assert softmax.attrs["axis"].startswith("7")
    assert output.operands[0] == result_id(softmax.id)
    change(graph, "set", op=softmax.id, axis="1")
    assert not graph.document.drafts
    for _ in range(2):
        change(graph, "undo")
    assert whole_text(graph) == before


def test_only_what_is_not_whole_becomes_a_draft() -> None:
    types = [TensorType(F32, ["n", 8]), TensorType(F32, [8, 4]), TensorType(F32, [8, 5])]
    with Graph("net", input_types=types) as graph:
        x, w, _v = (value.tensor for value in graph.inputs)
        two = ops.constant(np.full((8, 4), 2, np.float32), F32)
        graph.output(ops.relu(x @ w) + ops.exp(x @ two))
    first, second = (op for op in graph.function.ops if op.name == "mo.matmul")
    assert change(graph, "connect", on=("a2",), op=first.id, operand=1)["refused"]["drafts"] == 1
    change(graph, "connect", on=("a2",), op=first.id, operand=1, drafts="yes")
    assert set(drafts(graph)) == {"add", "output"}
    assert graph.function.find(first.id) is not None
    # An output that is a draft gives nothing: what nothing reads is run instead.
    ran = ask(graph, "run", inputs={})["outputs"]
    assert [value["name"].split(" ")[0] for value in ran] == ["relu", "exp"]
    assert [value["type"] for value in ran] == ["float32[4, 5]", "float32[4, 4]"]
    # A constant that nothing reads is nothing to run.
    change(graph, "connect", on=("a1",), op=second.id, operand=1)
    ran = ask(graph, "run", inputs={})["outputs"]
    assert [value["name"].split(" ")[0] for value in ran] == ["relu", "exp"]


def test_an_operation_that_would_read_itself_is_not_kept() -> None:
    graph = net()
    at = ids(graph)
    with pytest.raises(MaxlabError, match="ML315"):
        change(graph, "connect", on=(at["softmax"],), op=at["matmul"], operand=0)


def test_an_operation_without_an_operand_to_heal_with_goes_and_leaves_drafts() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 4])]) as graph:
        row = ops.constant(np.arange(4, dtype=np.float32), F32)
        graph.output(ops.exp(graph.inputs[0].tensor) + row)
    at = ids(graph)
    assert change(graph, "remove", on=(at["constant"],))["refused"]["drafts"] == 1
    change(graph, "remove", on=(at["constant"],), drafts="yes")
    assert drafts(graph)["add"].operands[1] is None


def test_a_type_that_an_operation_cannot_take_makes_drafts() -> None:
    graph = net()
    before = whole_text(graph)
    refused = change(graph, "set", op="a1", type="float32[7, 4]")["refused"]
    assert refused["drafts"] == 2
    said, *more = refused["says"].split("\n")
    assert "inner dims" in said
    assert "[ML203]" in said  # as a change that is refused without such an offer says it
    assert any("fix:" in line for line in more)
    assert whole_text(graph) == before
    change(graph, "set", op="a1", type="float32[7, 4]", drafts="yes")
    kept = drafts(graph)
    assert kept["matmul"].operands == (f"v{ids(graph)['relu'][1:]}", "a1")
    assert kept["matmul"].reason.startswith("matmul: the inner dims differ")
    # The type that fits makes them whole in the same step.
    done = change(graph, "set", op="a1", type="float32[8, 6]")
    assert not graph.document.drafts
    assert "are whole" in done["said"]
    change(graph, "undo")
    change(graph, "undo")
    assert whole_text(graph) == before


def test_what_cannot_be_a_draft_is_refused_as_before() -> None:
    types = [BufferType(F32, [4]), TensorType(F32, [4])]
    with Graph("g", input_types=types) as graph:
        graph.inputs[0].buffer[...] = graph.inputs[1].tensor
        graph.output(graph.inputs[0].buffer[...])
    with pytest.raises(MaxlabError, match="ML315"):
        change(graph, "remove", on=("a1",))
    editor = Editor(graph)
    with pytest.raises(MaxlabError, match="ML814"):
        put_aside(editor, readers_of(editor, [graph.function.inputs[1]]))


def test_a_step_that_needs_no_drafts_makes_none() -> None:
    graph = net()
    at = ids(graph)
    change(graph, "remove", on=(at["exp"],), drafts="yes")
    assert not any(one.name == "mo.exp" for one in graph.document.drafts)
    with pytest.raises(MaxlabError):
        change(graph, "remove", on=("n99",))
