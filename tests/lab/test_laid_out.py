"""What is laid beside a graph without a kernel: the page writes the text that a kernel would have
written, and the kernel that comes takes it over as one step."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.graph import Comment, Editor, Graph, Place, TensorType, ops
from maxlab.graph.reading import graph_of
from maxlab.lab import editors, following
from maxlab.lab.questions.answering import answer
from maxlab.lab.questions.change import editor_of
from tests.lab.conftest import FakeComm
from tests.lab.test_editors import Page

TABLE = Path(__file__).with_name("laid.json")
"""Steps on the notes of documents, and the texts after them; vitest does the same steps."""

TEXTS = ["why?", 'quotes " and \\ and \t', "Größe → 𝛼", "<b>no markup</b>", "a\nline", "\u2028\x7f"]
ROW = TensorType(DType.float32, ["n", 4])


def without_lines(graph: Graph) -> str:
    """The text of ``graph``, in which nothing moves when this file is edited."""
    data = json.loads(graph.document.text())
    data["graph"].pop("sources", None)
    return graph_of(json.dumps(data), "text").document.text()


def plain() -> str:
    with Graph("plain", input_types=[ROW]) as graph:
        graph.output(ops.softmax(ops.relu(graph.inputs[0].tensor) * 3))
    return without_lines(graph)


def full() -> str:
    """A document with notes, large constants, and fields of a newer version everywhere."""
    graph = graph_of(plain(), "plain")
    graph.document.places.update({"n0": Place(x=1.5, y=-2, pinned=True), "in:a0": Place(x=0, y=9)})
    graph.document.folds.update({"ö": True, "𝛼": False, "\uffee": True})
    graph.document.comments.append(Comment(id="c7", text="kept \ud83d", on="n1"))
    graph.document.comments.append(Comment(id="mine", text="at a place", x=3, y=-4.25))
    data = json.loads(graph.document.text())
    data["zeta"] = {"new": [1.0, 2]}
    data["layout"]["grid"] = 8.0
    data["layout"]["places"]["n0"]["colour"] = "red"
    data["comments"][0]["by"] = {"name": "ä"}
    return graph_of(json.dumps(data), "full").document.text()


def constants() -> str:
    with Graph("big", input_types=[ROW]) as graph:
        table = ops.constant(np.arange(64, dtype=np.float32).reshape(16, 4))
        graph.output(graph.inputs[0].tensor @ ops.transpose(table, 0, 1))
    return without_lines(graph)


def some_step(rng: random.Random, graph: Graph) -> dict[str, Any]:
    """A step that a view can ask for."""
    document = graph.document
    keys = ["in:a0", "box:ö", *(op.id for op in graph.function.ops[:-1])]
    args: dict[str, Any] = {"name": "", "on": [], "op": "", "operand": 0, "fields": {}}

    def at(key: str) -> dict[str, Any]:
        x, y = rng.randrange(-900, 900), rng.choice([0, rng.randrange(-900, 900)])
        return {"key": key, "x": x, "y": y, "pinned": rng.random() < 0.5}

    do = rng.choice(
        ["place", "place", "pin", "unplace", "fold", "comment", "set", "move", "remove"]
    )
    comments = [comment.id for comment in document.comments]
    if do == "unplace" and document.places:
        return {**args, "do": do, "on": rng.sample(list(document.places), 1)}
    if do == "fold":
        fields = {rng.choice(["a", "a.b", "ö", "𝛼"]): rng.choice(["true", "false"])}
        return {**args, "do": do, "fields": fields}
    if do == "comment":
        on = rng.choice(["", *keys[2:]])
        return {**args, "do": do, "op": on, "fields": {"text": rng.choice(TEXTS)}} | (
            {} if on else {"places": [at("")]}
        )
    if comments and do == "set":
        return {
            **args,
            "do": "set-comment",
            "on": [rng.choice(comments)],
            "fields": {"text": rng.choice(TEXTS)},
        }
    if comments and do == "move":
        return {**args, "do": "set-comment", "on": [rng.choice(comments)], "places": [at("")]}
    if comments and do == "remove":
        return {**args, "do": "remove-comment", "on": [rng.choice(comments)]}
    places = [at(key) for key in rng.sample(keys, rng.randrange(1, 3))]
    return {**args, "do": "pin" if do == "pin" else "place", "places": places}


def made_table() -> list[dict[str, Any]]:
    table = []
    for name, before in (("plain", plain()), ("full", full()), ("constants", constants())):
        for seed in range(8):
            rng = random.Random(f"{name} {seed}")
            graph = graph_of(before, name)
            steps: list[dict[str, Any]] = []
            said: list[list[Any]] = []
            for _ in range(5):
                args = some_step(rng, graph)
                if steps and rng.random() < 0.3:
                    args = {**args, "do": rng.choice(["undo", "redo"]), "on": [], "fields": {}}
                    args.pop("places", None)
                found = answer(graph, "change", args).data
                steps.append(args)
                said.append([found["said"], found["can_undo"], found["can_redo"]])
            table.append(
                {"before": before, "steps": steps, "said": said, "after": graph.document.text()}
            )
    return table


def test_a_page_writes_what_a_kernel_writes() -> None:
    """`extension/test/lab/desk.spec.ts` does these steps without one."""
    made = made_table()
    assert all(json.loads(one["after"]) for one in made)
    text = json.dumps(made, indent=1) + "\n"
    if os.environ.get("MAXLAB_WRITE_GOLDEN"):
        TABLE.write_text(text, "utf-8")
    assert TABLE.read_text("utf-8") == text, "MAXLAB_WRITE_GOLDEN=1"


@pytest.fixture(autouse=True)
def _none_open() -> Any:
    editors._open.clear()
    yield
    editors._open.clear()


@pytest.mark.parametrize("before", [plain(), full()], ids=["plain", "full"])
def test_what_was_laid_out_is_one_step_of_the_kernel_that_comes(
    before: str, comms: list[FakeComm]
) -> None:
    graph = graph_of(before, "x")
    editor = Editor(graph)
    editor.place("n1", 10, 20)
    editor.comment("laid", on="n0")
    editor.fold("scope", True)
    laid = graph.document.text()
    page = Page("x.mlgraph", laid, saved=before)
    assert page.text == laid
    assert isinstance(page.graph, Graph)
    mine = editor_of(page.graph)
    assert mine.undo()
    following.changed()
    assert page.text == before
    assert not mine.undo()
    assert mine.redo()
    following.changed()
    assert page.text == laid


def test_a_file_with_bytes_of_its_own_gets_them_back(comms: list[FakeComm]) -> None:
    ours = json.dumps(json.loads(plain()), indent=3)
    graph = graph_of(ours, "x")
    Editor(graph).place("n1", 10, 20)
    page = Page("x.mlgraph", graph.document.text(), saved=ours)
    (opened,) = [m for m in page.heard() if m["type"] == "opened"]
    assert opened["raw"] == ours
    assert opened["given"] == plain()
    assert opened["text"] == graph.document.text()


@pytest.mark.parametrize(
    "saved",
    [plain().replace("mo.relu", "mo.tanh"), "{", "", constants()],
    ids=["another", "damaged", "empty", "other"],
)
def test_where_the_graph_is_another_the_text_of_the_page_is_opened(
    saved: str, comms: list[FakeComm]
) -> None:
    page = Page("x.mlgraph", full(), saved=saved)
    assert page.text == full()
    assert isinstance(page.graph, Graph)
    assert not editor_of(page.graph).can_undo
