"""Edits of a view and of Python, in any order: the page, the graph and the undo list agree."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import (
    Case,
    DeviceRef,
    Editor,
    Goal,
    Graph,
    Lesson,
    TensorType,
    Weight,
    ops,
)
from maxlab.lab.snapshot import take
from maxlab.lab.widget import GraphView
from maxlab.opset.verify import verify
from tests.lab.conftest import FakeComm
from tests.lab.test_view_differences import Page, long

F32, CPU = DType.float32, DeviceRef.CPU()
UNARY = ("relu", "tanh", "exp", "abs", "softmax", "sigmoid")
TYPES = ("float32[n, 8]", "float32[3, 8]", "float32[m, 8]", "float32[n, k]", "int32[n]")


def mlp() -> Graph:
    with Graph("mlp", input_types=[TensorType(F32, ["n", 8])]) as graph:
        x = graph.inputs[0].tensor
        w, v = Weight("w", F32, [8, 16], CPU), Weight("v", F32, [16, 4], CPU)
        b = ops.constant(np.arange(16, dtype=np.float32), F32, CPU)
        graph.output(ops.softmax(ops.relu(x @ w + b) @ v))
    return graph


class Hands:
    """Someone who edits a graph in a view and in cells, at random."""

    def __init__(self, graph: Graph, page: Page, rng: random.Random) -> None:
        self.graph = graph
        self.page = page
        self.rng = rng
        self.editor = Editor(graph)
        self.asked = 0
        self.answers: list[dict[str, Any]] = []
        self.clips: list[str] = []
        self.ways: list[Callable[[], object]] = [
            *(self._add, self._insert, self._replace, self._remove, self._duplicate),
            *(self._set, self._type, self._outputs, self._input, self._connect),
            *(self._group, self._group, self._dissolve, self._copy, self._paste),
            *(self._place, self._unplace, self._comment, self._fold),
            *(self._splice, self._align, self._changed_comment, self._no_comment),
            *(self._put_down, self._draft_fields, self._draft_connect, self._kept_drafts),
            *(self._undo, self._undo, self._redo),
            *(self._python, self._draft, self._several, self._build),
            *(self._lesson, self._goal),
        ]

    # ------------------------------------------------------------ asking
    def ask(self, what: str, **args: Any) -> dict[str, Any]:
        """Ask as a page does; the answer."""
        self.asked += 1
        self.page.comm.say(
            {"type": "ask", "protocol": 2, "id": self.asked, "what": what, "args": args}
        )
        for _, data, _ in self.page.comm.sent:
            content = data.get("content", {})
            if content.get("type") == "answer" and content["id"] == self.asked:
                self.answers.append(content)
        self.page.take()
        assert self.answers[-1]["id"] == self.asked
        return self.answers[-1]

    def change(self, do: str, **given: Any) -> dict[str, Any]:
        usual = {"name": "", "on": [], "op": "", "operand": 0, "fields": {}}
        return self.ask("change", do=do, **{**usual, **given})

    # ------------------------------------------------------------ what there is
    def op(self) -> str:
        return self.rng.choice([op.id for op in self.graph.function.ops])

    def some(self) -> list[str]:
        ids = [op.id for op in self.graph.function.ops if not op.ends_block]
        start = self.rng.randrange(len(ids)) if ids else 0
        near = ids[start : start + 4]
        return self.rng.sample(near, self.rng.randint(1, len(near))) if near else []

    def value(self) -> str:
        function = self.graph.function
        values = [*function.inputs, *(v for op in function.ops for v in op.results)]
        return self.rng.choice([v.id for v in values])

    # ------------------------------------------------------------ in the view
    def _add(self) -> object:
        return self.change("add", name=self.rng.choice((*UNARY, "add")), on=[self.value()])

    def _insert(self) -> object:
        return self.change("insert", name=self.rng.choice(UNARY), op=self.op())

    def _replace(self) -> object:
        return self.change("replace", name=self.rng.choice(UNARY), op=self.op())

    def _remove(self) -> object:
        return self.change("remove", on=self.some())

    def _duplicate(self) -> object:
        return self.change("duplicate", on=self.some())

    def _set(self) -> object:
        fields = self.rng.choice(({"name": "h"}, {"axis": "0"}, {"axis": "one"}, {"name": ""}))
        return self.change("set", op=self.op(), fields=fields)

    def _type(self) -> object:
        return self.change("set", op="a0", fields={"type": self.rng.choice(TYPES)})

    def _outputs(self) -> object:
        return self.change("outputs", on=[self.value()])

    def _input(self) -> object:
        return self.change("input", fields={"type": self.rng.choice(TYPES)})

    def _connect(self) -> object:
        return self.change("connect", op=self.op(), on=[self.value()])

    def _group(self) -> object:
        name = self.rng.choice(("", "part", "a.b"))
        return self.change("group", on=self.some(), fields={"name": name})

    def _dissolve(self) -> object:
        scopes = [scope["path"] for scope in self.page.document["scopes"]]
        return self.change("dissolve", op=self.rng.choice(scopes) if scopes else "none")

    def _copy(self) -> object:
        answer = self.ask("clip", on=self.some())
        if answer["ok"]:
            self.clips.append(answer["data"]["text"])
        return answer

    def _paste(self) -> object:
        text = self.rng.choice(self.clips) if self.clips else "nothing"
        cut = text[: self.rng.choice((len(text), len(text), len(text) // 2))]
        onto = [self.value()] if self.rng.random() < 0.4 else []
        return self.change("paste", on=onto, fields={"text": cut})

    def _place(self) -> object:
        x = float(self.rng.randrange(400))
        places = [
            {"key": key, "x": x, "y": 2.5 * n, "pinned": True} for n, key in enumerate(self.some())
        ]
        return self.change(self.rng.choice(("place", "pin", "unpin")), places=places)

    def _align(self) -> object:
        places = [
            {"key": key, "x": 40.0, "y": 90.5 * n, "pinned": False}
            for n, key in enumerate(self.some())
        ]
        return self.change("align", places=places)

    def _splice(self) -> object:
        return self.change("splice", on=[self.value()], op=self.op())

    def _unplace(self) -> object:
        return self.change("unplace", on=list(self.graph.document.places)[:2] or ["n0"])

    def _comment(self) -> object:
        on = self.rng.choice((self.op(), "", "nowhere"))
        return self.change("comment", op=on, fields={"text": "why?"})

    def _comment_id(self) -> str:
        comments = self.graph.document.comments
        return self.rng.choice(comments).id if comments else "nobody's"

    def _changed_comment(self) -> object:
        given = self.rng.choice(
            (
                {"fields": {"text": "because"}},
                {"places": [{"key": "", "x": 7.0, "y": 8.5, "pinned": False}]},
            )
        )
        return self.change("set-comment", on=[self._comment_id()], **given)

    def _no_comment(self) -> object:
        return self.change("remove-comment", on=[self._comment_id()])

    def _draft_id(self) -> str:
        drafts = self.graph.document.drafts
        return self.rng.choice(drafts).id if drafts else "none"

    def _put_down(self) -> object:
        name = self.rng.choice(("matmul", "add", "reshape", "concat"))
        place = [{"key": "", "x": 3.0, "y": 4.0, "pinned": False}]
        return self.change("draft", name=name, on=[self.value()], places=place)

    def _draft_fields(self) -> object:
        fields = self.rng.choice(({"rhs": self.value()}, {"rhs": ""}, {"shape": "8, n"}))
        return self.change("set", op=self._draft_id(), fields=fields)

    def _draft_connect(self) -> object:
        on = [self.value()]
        return self.change("connect", op=self._draft_id(), operand=self.rng.choice((0, 1)), on=on)

    def _kept_drafts(self) -> object:
        if self.rng.random() < 0.5:
            return self.change("remove", on=["a0"], fields={"drafts": "yes"})
        fields = {"type": self.rng.choice(TYPES), "drafts": "yes"}
        return self.change("set", op="a0", fields=fields)

    def _fold(self) -> object:
        return self.change("fold", fields={"part": self.rng.choice(("true", "false"))})

    def _undo(self) -> object:
        return self.change("undo")

    def _redo(self) -> object:
        return self.change("redo")

    # ------------------------------------------------------------ in a cell
    def _python(self) -> object:
        return self.editor.insert(self.rng.choice(UNARY), self.op(), 0)

    def _draft(self) -> object:
        drafts = self.graph.document.drafts
        if drafts and self.rng.random() < 0.5:
            return self.editor.set_draft(drafts[0].id, operands=[self.value(), None])
        return self.editor.draft("mo.matmul", [self.value(), None], "operand 1 is missing")

    def _several(self) -> object:
        with self.editor.step():
            self.editor.add("tanh", self.value())
            self._python()
            if self.rng.random() < 0.3:
                raise MaxlabError("ML300", "changed my mind")
        return None

    def _build(self) -> object:
        with self.graph:
            return ops.relu(self.graph.inputs[0].tensor * 2)

    def _lesson(self) -> object:
        lesson = Lesson(title=self.rng.choice(("One", "Two")), hints=("look at the shapes",))
        self.graph.document.lesson = self.rng.choice((None, lesson))
        return None

    def _goal(self) -> object:
        row = np.full(self.rng.randint(1, 4), 0.1, np.float32)
        goal = Goal(types=("float32[n]",), cases=(Case(inputs=(row,), outputs=(row * 2,)),))
        self.graph.document.goal = self.rng.choice((None, goal))
        return None

    # ------------------------------------------------------------ a turn
    def turn(self) -> None:
        """One edit, or what is refused; the page shows the graph as it is then."""
        try:
            self.rng.choice(self.ways)()
        except (MaxlabError, AttributeError, IndexError):  # there may be no value to read
            pass
        self.look()

    def look(self) -> None:
        verify(self.graph.function)
        if self.view.document["revision"] != take(self.graph).document["revision"]:
            self.view.update()
        self.page.take()
        assert _told(self.page.document) == _told(json.loads(json.dumps(take(self.graph).document)))

    view: GraphView


def _told(document: dict[str, Any]) -> dict[str, Any]:
    """``document``, in which a list of nothing is like none."""
    return {name: value for name, value in document.items() if value not in ([], {})}


@pytest.fixture
def hands(comms: list[FakeComm]) -> Callable[[Graph, int], Hands]:
    """Shows a graph in a page; who edits it, by a seed."""

    def made(graph: Graph, seed: int) -> Hands:
        view = GraphView(graph)
        found = Hands(graph, Page(comms[-1]).open(), random.Random(seed))
        found.view = view
        return found

    return made


BLOCK = 20


@pytest.mark.parametrize("first", range(0, 5000, BLOCK))
def test_any_sequence_that_is_undone_gives_the_first_document(
    hands: Callable[[Graph, int], Hands], first: int
) -> None:
    for seed in range(first, first + BLOCK):
        graph = mlp()
        hand = hands(graph, seed)
        document = graph.document.text()
        assert not hand.change("look")["data"]["can_undo"]
        for _ in range(hand.rng.randint(4, 16)):
            hand.turn()
        last = graph.document.text()
        steps = 0
        while hand.change("undo")["data"]["said"] == "undone":
            steps += 1
            if steps % 4 == 0:
                hand.look()
        hand.look()
        assert graph.document.text() == document
        for _ in range(steps):
            assert hand.change("redo")["data"]["said"] == "done again"
        hand.look()
        assert graph.document.text() == last


def test_a_thousand_steps_are_undone_and_done_again(hands: Callable[[Graph, int], Hands]) -> None:
    graph = mlp()
    hand = hands(graph, 7)
    document = graph.document.text()
    hand.change("look")
    ways = (hand._duplicate, hand._place, hand._comment, hand._group, hand._dissolve, hand._set)
    texts = [document]
    while len(texts) <= 1000:
        (ways[len(texts) % len(ways)] if hand.rng.random() < 0.5 else hand._duplicate)()
        if hand.answers[-1]["ok"] and graph.document.text() != texts[-1]:
            texts.append(graph.document.text())
        if len(graph.function.ops) > 60:
            hand.change(
                "remove",
                on=[
                    op.id for op in graph.function.ops[30:-1] if not any(v.uses for v in op.results)
                ],
            )
            texts.append(graph.document.text())
    for text in reversed(texts[:-1]):
        assert hand.change("undo")["data"]["said"] == "undone"
        assert graph.document.text() == text
    assert not hand.answers[-1]["data"]["can_undo"]
    for text in texts[1:]:
        assert hand.change("redo")["data"]["said"] == "done again"
        assert graph.document.text() == text
    hand.look()


def test_five_hundred_edits_in_a_row_come_in_order(hands: Callable[[Graph, int], Hands]) -> None:
    graph = long()
    hand = hands(graph, 3)
    for number in range(500):
        answer = hand.change("input", fields={"name": f"x{number}", "type": "float32[n]"})
        assert answer["data"]["said"] == f"added the input x{number}"
    assert [v.name for v in graph.function.inputs[1:]] == [f"x{n}" for n in range(500)]
    hand.look()
    assert hand.page.kinds.count("difference") == 500


def test_two_views_that_edit_at_once_show_the_same(
    comms: list[FakeComm], hands: Callable[[Graph, int], Hands]
) -> None:
    graph = mlp()
    first, second = hands(graph, 1), hands(graph, 2)
    document = graph.document.text()
    first.change("look")
    for _ in range(60):
        for hand in (first, second):
            hand.turn()
        first.look()
        second.look()
    while first.change("undo")["data"]["said"] == "undone":
        second.page.take()
        second.look()
    assert graph.document.text() == document


def test_an_edit_of_what_is_gone_is_refused_and_said(hands: Callable[[Graph, int], Hands]) -> None:
    """A page that shows an older revision asks for what another view has removed meanwhile."""
    graph = mlp()
    hand = hands(graph, 1)
    before = hand.page.document
    (relu,) = [op.id for op in graph.function.ops if op.name == "mo.relu"]
    Editor(graph).remove(relu)  # no cell has ended: the page does not know
    assert hand.page.document == before
    text = graph.document.text()
    for do, given in (
        ("replace", {"op": relu, "name": "tanh"}),
        ("remove", {"on": [relu]}),
        ("add", {"on": [relu], "name": "tanh"}),
        ("group", {"on": [relu]}),
        ("pin", {"places": [{"key": relu, "x": 0.0, "y": 0.0, "pinned": True}]}),
    ):
        answer = hand.change(do, **given)
        assert not answer["ok"]
        assert relu in answer["error"]
        assert graph.document.text() == text
    hand.view.update()
    hand.page.take()
    hand.look()
