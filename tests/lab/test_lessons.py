"""Goals of documents: what meets them, what does not and why, and checks beside edits."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DocumentError, ParseError
from maxlab.graph import Case, Editor, Graph, Lesson, TensorType, ops
from maxlab.graph import Goal as MadeGoal
from maxlab.graph.reading import graph_of
from maxlab.lab import editors, following
from maxlab.lab.lessons import Part, Watch, check, goal_of
from tests.lab.conftest import FakeComm
from tests.lab.test_editors import Page

ROW = TensorType(DType.float32, ["n", 4])
X = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)


def solution() -> Graph:
    return Graph("s", lambda x: ops.relu(x.tensor) * 2, [ROW])


def goal() -> MadeGoal:
    return goal_of(solution(), [X])


def parts_of(graph: Graph, wanted: MadeGoal | None = None) -> list[tuple[str, bool]]:
    return [(part.says, part.met) for part in check(graph, wanted or goal())]


def test_another_way_to_the_same_numbers_meets_it() -> None:
    mine = Graph("mine", lambda x: ops.max(x.tensor * 2, 0), [TensorType(DType.float32, ["m", 4])])
    assert all(met for _, met in parts_of(mine))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: x.tensor * 2, "[0, 0] is -4, not 0"),
        (lambda x: (x.tensor, x.tensor), "gives 1 output"),
        (lambda x: ops.sum(x.tensor), "float32[n, 4], not float32[n, 1]"),
        (lambda x: ops.cast(x.tensor, DType.int32), "float32[n, 4], not int32[n, 4]"),
        (lambda x: ops.log(x.tensor), "is nan, not 0"),
    ],
)
def test_what_is_wrong_is_said(make: Any, says: str) -> None:
    found = parts_of(Graph("mine", make, [ROW]))
    (wrong, *_) = [text for text, met in found if not met]
    assert says in wrong


def test_inputs_and_sizes_that_do_not_fit_are_said() -> None:
    two = Graph("mine", lambda x, y: x.tensor + y.tensor, [ROW, ROW])
    assert parts_of(two)[-1] == ("the right numbers: for 1 inputs, not 2", False)
    fixed = Graph("mine", lambda x: x.tensor, [TensorType(DType.float32, [3, 4])])
    assert parts_of(fixed)[1][1] is False
    assert parts_of(Graph("empty"))[0] == ("gives 1 output", False)
    # Numbers alone: what cannot run says why.
    numbers = MadeGoal(cases=goal().cases)
    (says, met) = parts_of(fixed, numbers)[-1]
    assert not met
    assert "it does not run" in says


def test_types_alone_and_numbers_alone_are_goals() -> None:
    assert parts_of(solution(), MadeGoal(types=("float32[any, 4]",)))[-1] == (
        "the output is float32[any, 4]",
        True,
    )
    assert parts_of(solution(), MadeGoal(cases=goal().cases)) == [("the right numbers", True)]


@pytest.mark.parametrize(
    "make",
    [
        MadeGoal,
        lambda: MadeGoal(types=("float32[n]",), tolerance=-1),
        lambda: MadeGoal(cases=(Case(inputs=(), outputs=()),)),
        lambda: MadeGoal(cases=(Case(inputs=(), outputs=(np.array([np.nan]),)),)),
        lambda: MadeGoal(cases=(Case(inputs=(), outputs=(np.array(["a"]),)),)),
        lambda: MadeGoal(cases=(Case(inputs=(), outputs=(np.zeros(1 << 17),)),)),
        lambda: check(solution(), MadeGoal(types=("float31[n]",))),
    ],
)
def test_a_goal_that_is_none_is_refused(make: Any) -> None:
    with pytest.raises(ArgumentError, match="ML824"):
        make()


def test_a_document_keeps_its_lesson_and_its_goal() -> None:
    graph = solution()
    graph.document.lesson = Lesson(
        title="One", says="two", text="three\n\n<b>", hints=("four",), more={"new": 1}
    )
    graph.document.goal = goal()
    text = graph.document.text()
    again = graph_of(text, "x")
    assert again.document.text() == text
    assert again.document.lesson == graph.document.lesson
    assert again.document.goal is not None
    (case,) = again.document.goal.cases
    assert (case.outputs[0] == np.maximum(X, 0) * 2).all()
    assert case.outputs[0].dtype == np.float32
    again.document.goal = None
    assert '"goal"' not in again.document.text()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"title": "One"', '"title": 1'),
        ('"hints": ["four"]', '"hints": "four"'),
        ('"tolerance": 0.0001', '"tolerance": true'),
        ('"tolerance": 0.0001', '"tolerance": -1'),
        ('"shape": [2, 4]', '"shape": [2, 5]'),
        ('"shape": [2, 4]', '"shape": [-2, -4]'),
        ('"dtype": "float32"', '"dtype": "object"'),
        ('"types": ["float32[n, 4]"]', '"types": [1]'),
        ('"data": [-2.0', '"data": [true'),
    ],
)
def test_a_damaged_lesson_or_goal_is_refused_with_its_place(old: str, new: str) -> None:
    graph = solution()
    graph.document.lesson = Lesson(title="One", hints=("four",))
    graph.document.goal = goal()
    text = graph.document.text()
    assert old in text
    with pytest.raises(ParseError) as caught:
        graph_of(text.replace(old, new, 1), "x.mlgraph")
    assert caught.value.code == "ML864"
    assert caught.value.at is not None


def told(page: Page, state: str) -> dict[str, Any]:
    """The newest word about the goal, when it is this."""
    seen: list[dict[str, Any]] = []
    wait = threading.Event()
    for _ in range(600):
        seen += [m for m in page.heard() if m["type"] in ("goal", "failed")]
        if seen and seen[-1].get("state") == state:
            return seen[-1]
        wait.wait(0.02)
    raise AssertionError(f"the goal was never {state}: {seen}")


def test_an_editor_is_told_beside_its_edits(comms: list[FakeComm]) -> None:
    graph = Graph("mine", lambda x: ops.relu(x.tensor), [ROW])
    graph.document.goal = goal()
    page = Page("lesson.mlgraph", graph.document.text())
    assert [part["met"] for part in told(page, "unmet")["parts"]] == [True, True, False]
    mine: Any = page.graph
    editor = Editor(mine)
    editor.insert("mul", mine.function.output, 0, 2.0)
    following.changed()
    assert all(part["met"] for part in told(page, "met")["parts"])
    editor.undo()
    following.changed()
    told(page, "unmet")
    # What nothing depends on is not looked at.
    mine.document.folds["encoder"] = True
    following.changed()
    page.close()
    assert editors._open == []


def test_a_lesson_and_a_goal_that_python_sets_are_steps_of_the_graph() -> None:
    graph = solution()
    editor = Editor(graph)
    texts = [graph.document.text()]
    graph.document.lesson = Lesson(title="One")
    texts.append(graph.document.text())
    with editor.step():
        graph.document.goal = goal()
        editor.comment("reach this", on="n0")
    texts.append(graph.document.text())
    graph.document.lesson = None
    texts.append(graph.document.text())
    for text in reversed(texts[:-1]):
        editor.undo()
        assert graph.document.text() == text
    for text in texts[1:]:
        editor.redo()
        assert graph.document.text() == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lesson", "One"),
        ("lesson", Lesson(title=1)),  # type: ignore[arg-type]
        ("lesson", Lesson(title="One", more={"new": object()})),
        ("goal", "float32[n]"),
        ("goal", MadeGoal(types=("float32[n]",), more={"new": object()})),
    ],
)
def test_what_no_file_can_hold_is_refused_when_it_is_set(name: str, value: Any) -> None:
    graph = solution()
    before = graph.document.text()
    with pytest.raises(DocumentError, match="ML867"):
        setattr(graph.document, name, value)
    assert graph.document.text() == before


def test_an_open_document_is_held_against_a_goal_that_python_sets(comms: list[FakeComm]) -> None:
    page = Page("later.mlgraph", solution().document.text())
    page.heard()
    mine: Any = page.graph
    editor = Editor(mine)
    mine.document.goal = goal()
    following.changed()
    told(page, "met")
    assert '"goal"' in page.text
    mine.document.goal = goal_of(Graph("other", lambda x: x.tensor * 3, [ROW]), [X])
    following.changed()
    told(page, "unmet")
    editor.undo()
    following.changed()
    told(page, "met")
    editor.undo()
    following.changed()
    assert '"goal"' not in page.text
    page.close()


def test_only_the_newest_text_is_looked_at() -> None:
    seen: list[int] = []
    done = threading.Event()

    def tell(number: int, parts: list[Part] | None, error: Exception | None) -> None:
        if parts is not None:
            seen.append(number)
            done.set()

    graph = solution()
    graph.document.goal = goal()
    text = graph.document.text()
    watch = Watch(tell)
    for number in range(20):
        watch.look(number, text)
    assert done.wait(60)
    watch.stop()
    assert seen == [19]
