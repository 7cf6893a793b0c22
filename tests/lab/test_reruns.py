"""What a view marks when its cell runs again."""

from __future__ import annotations

import base64
import json
import linecache
import zlib
from collections.abc import Callable
from typing import Any

import pytest

import maxlab
from maxlab.analysis.runs.nodes import parts_of
from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.graph import Editor, Graph, TensorType, TensorValue, ops
from maxlab.ir.cells import running_cell
from maxlab.lab import reruns
from maxlab.lab.code.bases import by_hand
from maxlab.lab.display import mimebundle
from maxlab.lab.protocol import GRAPH_MIME, GraphDocument, Marks
from maxlab.lab.questions.answering import answer
from maxlab.lab.snapshot import take
from tests.lab.chains import BF16, F32, LONGER, Step, chain, mixed
from tests.lab.conftest import FakeComm
from tests.lab.graphs import layered, small

Body = Callable[[TensorValue], TensorValue]


def built(body: Body, name: str = "cell") -> GraphDocument:
    """The document of a graph with one input."""
    with Graph(name, input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        graph.output(body(graph.inputs[0].tensor))
    return take(graph).document


def steps(count: int, factor: float = 2.0, at: int | None = None) -> Body:
    """``tanh(x * factor)``, ``count`` times; ``tanh(x * 2)`` but for the step ``at``, if given."""

    def body(x: TensorValue) -> TensorValue:
        for step in range(count):
            x = x * (factor if at in (None, step) else 2.0)
            x = ops.tanh(x)
        return x

    return body


def body_of(*lines: str) -> Body:
    """A function of the same name and file for each body: as a cell is edited."""
    source = "\n    ".join(["def body(x):", *lines, "return x"])
    linecache.cache["<cell>"] = (len(source), None, source.splitlines(True), "<cell>")
    made: dict[str, Any] = {"ops": ops}
    exec(compile(source, "<cell>", "exec"), made)
    document: Body = made["body"]
    return document


TANH, EXP, RELU = "x = ops.tanh(x)", "x = ops.exp(x)", "x = ops.relu(x)"
LOOP = "x = ops.while_loop([x], lambda y: y[0, 0] < 4, lambda y: [y + 1])[0]"


def found(old: GraphDocument, new: GraphDocument) -> tuple[list[str], list[str], int]:
    """The names of the ops that were added and changed, and how many are gone."""
    marks = reruns.marks(new, parts_of(old))
    names = {node["id"]: node["op"] for node in new["nodes"]}
    return (
        [names[id] for id in marks["added"]],
        [names[id] for id in marks["changed"]],
        marks["removed"],
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([TANH, RELU], [TANH, RELU], ([], [], 0)),
        # the op behind a new one reads something else now
        ([TANH, RELU], [TANH, EXP, RELU], (["exp"], ["relu"], 0)),
        ([TANH, EXP, RELU], [TANH, RELU], ([], ["relu"], 1)),
        ([TANH], [TANH, RELU], (["relu"], [], 0)),
        ([TANH, TANH], [TANH, TANH, TANH], (["tanh"], [], 0)),
        ([TANH, RELU], [RELU, TANH], ([], ["relu", "tanh"], 0)),
        (
            ["x = ops.softmax(x, axis=-1)", RELU],
            ["x = ops.softmax(x, axis=0)", RELU],
            ([], ["softmax"], 0),
        ),
        ([LOOP, RELU], [LOOP, RELU], ([], [], 0)),
        ([RELU], [RELU, "# and nothing more"], ([], [], 0)),
    ],
)
def test_pairs(old: list[str], new: list[str], expected: Any) -> None:
    before = built(body_of(*old))
    assert found(before, built(body_of(*new))) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (steps(4), steps(4), ([], [], 0)),
        (steps(3), steps(5), (["constant", "mul", "tanh"] * 2, [], 0)),
        (steps(5), steps(3), ([], [], 6)),
        # equal constants are not told apart
        (steps(3), steps(3, 3.0, at=1), ([], ["constant"], 0)),
        (steps(3), steps(4, 3.0, at=1), (["constant", "mul", "tanh"], ["mul"], 0)),
        # the number is in an attribute of the constants; what reads them did not change
        (steps(2), steps(2, 3.0), ([], ["constant"] * 2, 0)),
    ],
)
def test_repeated_steps(old: Body, new: Body, expected: Any) -> None:
    assert found(built(old), built(new)) == expected


def test_a_layer_that_differs_is_found_among_its_like() -> None:
    marks = reruns.marks(take(layered(6, odd=3)).document, parts_of(take(layered()).document))
    assert (marks["added"], marks["removed"]) == ([], 0)
    [id] = marks["changed"]
    [node] = [n for n in take(layered(6, odd=3)).document["nodes"] if n["id"] == id]
    assert (node["op"], node["scope"]) == ("layer_norm", "layer.3")


Edit = Callable[[list[Step], int], None]


def insert(steps: list[Step], at: int) -> None:
    steps.insert(at, ("neg", F32))


def remove(steps: list[Step], at: int) -> None:
    del steps[at]


def replace(steps: list[Step], at: int) -> None:
    steps[at] = ("neg", F32)


def repeat(steps: list[Step], at: int) -> None:
    steps.insert(at, steps[at])


@pytest.mark.parametrize(
    ("count", "is_mixed"), [(10, False), (1_000, False), (10, True), (10_000, True)]
)
@pytest.mark.parametrize(
    ("edit", "expected"),
    # What stands behind the edit reads something else now, and has changed itself.
    [(insert, (1, 1, 0)), (remove, (0, 1, 1)), (replace, (1, 1, 1)), (repeat, (1, 1, 0))],
)
def test_an_edit_of_a_long_chain_is_found_alone(
    edit: Edit, expected: tuple[int, int, int], count: int, is_mixed: bool
) -> None:
    if edit is repeat and not is_mixed:
        expected = (1, 0, 0)  # one more at the end is all that can be told
    elif edit is remove and not is_mixed:
        expected = (0, 0, 1)
    old = mixed(count) if is_mixed else [("tanh", F32)] * count
    new = [*old]
    edit(new, count // 3)
    added, changed, removed = found(chain(old), chain(new))
    assert (len(added), len(changed), removed) == expected


@pytest.mark.parametrize("count", [10, 1_000, 10_000])
def test_edits_of_both_ends_leave_the_middle_alone(count: int) -> None:
    old = mixed(count)
    new = [*old]
    insert(new, count - 2)
    insert(new, 2)
    added, changed, removed = found(chain(old), chain(new))
    assert (added, len(changed), removed) == (["neg", "neg"], 2, 0)


def test_many_edits_are_found() -> None:
    old = mixed(10_000)
    new = [*old]
    for at in range(9_990, 0, -20):
        insert(new, at)
    added, changed, removed = found(chain(old), chain(new))
    assert (added, len(changed), removed) == (["neg"] * 500, 500, 0)


@pytest.mark.parametrize("type", [BF16, LONGER])
def test_another_type_alone_is_a_change(type: str) -> None:
    old = mixed(9)
    new = [*old]
    new[4] = (new[4][0], type)
    added, changed, removed = found(chain(old), chain(new))
    assert (added, changed, removed) == ([], [old[4][0]], 0)


@pytest.mark.parametrize(("left", "right"), [(ops.tanh, ops.exp), (ops.tanh, ops.tanh)])
def test_branches_in_another_order_are_the_same(left: Any, right: Any) -> None:
    def written(is_swapped: bool) -> GraphDocument:
        with Graph("branches", input_types=[TensorType(DType.float32, [4])] * 2) as graph:
            x, y = (value.tensor for value in graph.inputs)
            if is_swapped:
                b = right(y)
                a = left(x)
            else:
                a = left(x)
                b = right(y)
            graph.output(a - b)
        return take(graph).document

    assert found(written(False), written(True)) == ([], [], 0)


# ---------------------------------------------------------------- cells


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Let a cell begin a run."""
    monkeypatch.setattr(reruns, "_cells", type(reruns._cells)())

    def begin(cell: str, message: str) -> None:
        monkeypatch.setattr(reruns, "running_cell", lambda: (cell, message))

    return begin


def shown(comms: list[FakeComm], graph: Graph) -> Marks | None:
    """What a page is told to mark after ``graph`` was displayed."""
    bundle = mimebundle(graph)
    assert "marks" not in str(bundle[GRAPH_MIME])
    page = comms[-1]
    page.say({"type": "need_document", "protocol": 2})
    kinds = {content["type"]: content for content, _ in page.custom()}
    assert "document" in kinds
    return kinds["marks"]["marks"] if "marks" in kinds else None


def test_a_cell_that_runs_again(kernel: list[FakeComm], run: Callable[[str, str], None]) -> None:
    run("a", "1")
    assert shown(kernel, layered(2)) is None
    run("b", "2")
    assert shown(kernel, layered(2)) is None  # another cell
    run("a", "3")
    assert shown(kernel, small()) is None  # another graph
    assert shown(kernel, layered(2)) == reruns.NOTHING
    run("a", "4")
    marks = shown(kernel, layered(2, odd=1))
    assert marks is not None
    assert len(marks["changed"]) == 1
    # the second one of the name in this run has nothing to be compared with
    assert shown(kernel, layered(2)) is None
    run("a", "5")
    assert shown(kernel, layered(2, odd=1)) == reruns.NOTHING
    assert shown(kernel, layered(2)) == reruns.NOTHING


def part(x: TensorValue) -> TensorValue:
    return ops.tanh(ops.exp(x))


def first() -> Graph:
    """A graph as a cell builds it in its first run."""
    return Graph("net", lambda x: ops.relu(part(x)), [TensorType(DType.float32, ["n", 8])])


def second() -> Graph:
    """That graph with a line more, so that ids are others."""
    return Graph("net", lambda x: ops.relu(part(x * 2)), [TensorType(DType.float32, ["n", 8])])


def without() -> Graph:
    """That graph without the function and what it made."""
    return Graph("net", ops.relu, [TensorType(DType.float32, ["n", 8])])


def value_of(graph: Graph, name: str) -> str:
    return next(op.result.id for op in graph.function.ops if op.name == f"mo.{name}")


def id_of(graph: Graph, name: str) -> str:
    return next(op.id for op in graph.function.ops if op.name == f"mo.{name}")


def laid(graph: Graph) -> None:
    """Lay all kinds of things beside ``graph``, by hand."""
    tanh, relu = id_of(graph, "tanh"), id_of(graph, "relu")
    with by_hand(graph):
        editor = Editor(graph)
        editor.place(tanh, 10, 20)
        editor.place(relu, 30, 40, pinned=False)
        editor.place("in:a0", 1, 2)
        editor.place(f"out:{value_of(graph, 'relu')}", 3, 4)
        editor.place("box:part", 5, 6)
        editor.fold("part", True)
        editor.comment("of tanh", tanh)
        editor.comment("of the input", "in:a0")
        editor.comment("of nothing", "", 7, 8)
        value = value_of(graph, "tanh")
        made = editor.draft("mo.matmul", [value, None], "a right side is missing", {"note": "x"})
        editor.draft("mo.exp", [f"v{made[1:]}"], "its operand is missing")
        editor.place(made, 50, 60)
        editor.comment("of a draft", made)
        editor.rename(value, "hidden")
        editor.rename("a0", "rows")


def told(graph: Graph) -> dict[str, Any]:
    """What lies beside ``graph``, by what it is about."""
    names = {op.id: op.name.removeprefix("mo.") for op in graph.function.ops}
    makers = {v.id: names[op.id] for op in graph.function.ops for v in op.results}
    document = graph.document
    names |= {draft.id: f"draft {draft.name}" for draft in document.drafts}
    makers |= {f"v{id[1:]}": name for id, name in names.items() if name.startswith("draft")}

    def called(key: str) -> str:
        return key.partition(":")[0] if ":v" in key else names.get(key, key)

    return {
        "places": {
            called(key): (place.x, place.y, place.pinned) for key, place in document.places.items()
        },
        "folds": dict(document.folds),
        "comments": [(one.text, called(one.on), one.x, one.y) for one in document.comments],
        "drafts": [
            (one.name, [makers.get(o or "", o) for o in one.operands], one.reason, dict(one.attrs))
            for one in document.drafts
        ],
        "names": {
            makers.get(v.id, v.id): v.name
            for v in [*graph.function.inputs, *(r for op in graph.function.ops for r in op.results)]
            if v.name
        },
    }


LAID: dict[str, Any] = {
    "places": {
        "tanh": (10, 20, True),
        "relu": (30, 40, False),
        "in:a0": (1, 2, True),
        "out": (3, 4, True),
        "box:part": (5, 6, True),
        "draft mo.matmul": (50, 60, True),
    },
    "folds": {"part": True},
    "comments": [
        ("of tanh", "tanh", 0, 0),
        ("of the input", "in:a0", 0, 0),
        ("of nothing", "", 7, 8),
        ("of a draft", "draft mo.matmul", 0, 0),
    ],
    "drafts": [
        ("mo.matmul", ["tanh", None], "a right side is missing", {"note": "x"}),
        ("mo.exp", ["draft mo.matmul"], "its operand is missing", {}),
    ],
    "names": {"a0": "rows", "tanh": "hidden"},
}


def test_what_people_laid_beside_a_graph_is_beside_the_next_one(
    kernel: list[FakeComm], run: Callable[[str, str], None]
) -> None:
    run("a", "1")
    graph = first()
    shown(kernel, graph)
    laid(graph)
    assert told(graph) == LAID
    for number in range(2, 5):  # what was brought along is brought along again
        run("a", str(number))
        graph = second()
        shown(kernel, graph)
        assert told(graph) == LAID
    with by_hand(graph):
        Editor(graph).rename("a0", "samples")
    run("a", "5")
    graph = first()
    shown(kernel, graph)
    assert told(graph) == {**LAID, "names": {"a0": "samples", "tanh": "hidden"}}


def test_what_lay_at_things_that_are_gone(
    kernel: list[FakeComm], run: Callable[[str, str], None]
) -> None:
    run("a", "1")
    graph = first()
    shown(kernel, graph)
    laid(graph)
    run("a", "2")
    graph = without()
    shown(kernel, graph)
    found = told(graph)
    assert set(found["places"]) == {"relu", "in:a0", "out", "draft mo.matmul"}
    assert ("of tanh", "", 0, 0) in found["comments"]  # its text is not lost
    assert found["drafts"][0][1] == [None, None]
    assert found["names"] == {"a0": "rows"}


def test_names_of_the_cell_win(kernel: list[FakeComm], run: Callable[[str, str], None]) -> None:
    run("a", "1")
    graph = first()
    shown(kernel, graph)
    laid(graph)
    run("a", "2")
    graph = second()
    Editor(graph).rename(value_of(graph, "tanh"), "mixed")
    shown(kernel, graph)
    assert told(graph)["names"] == {"a0": "rows", "tanh": "mixed"}


def test_a_graph_with_notes_of_its_own_keeps_them(
    kernel: list[FakeComm], run: Callable[[str, str], None]
) -> None:
    run("a", "1")
    graph = first()
    shown(kernel, graph)
    laid(graph)
    run("a", "2")
    graph = first()
    Editor(graph).comment("mine")
    shown(kernel, graph)
    found = told(graph)
    assert found["comments"] == [("mine", "", 0, 0)]
    assert (found["places"], found["folds"], found["drafts"]) == ({}, {}, [])
    assert found["names"] == LAID["names"]


def test_what_was_selected_is_selected(
    kernel: list[FakeComm], run: Callable[[str, str], None]
) -> None:
    class View:
        def __init__(self) -> None:
            self.selection: list[str] = []

    run("a", "1")
    one, graph = View(), first()
    reruns.marks_in_cell(take(graph).document, graph, one)
    one.selection = [id_of(graph, "tanh"), id_of(graph, "exp")]
    run("a", "2")
    two, graph = View(), second()
    reruns.marks_in_cell(take(graph).document, graph, two)
    assert two.selection == [id_of(graph, "tanh"), id_of(graph, "exp")]
    run("a", "3")
    three, graph = View(), without()
    reruns.marks_in_cell(take(graph).document, graph, three)
    assert three.selection == []


def test_without_a_cell_nothing_is_marked(kernel: list[FakeComm]) -> None:
    assert running_cell() == ("", "")
    assert shown(kernel, small()) is None
    assert shown(kernel, small()) is None


def test_few_graphs_are_remembered(run: Callable[[str, str], None]) -> None:
    document = take(small()).document
    for number in range(reruns.RECENT + 5):
        run(str(number), "1")
        reruns.marks_in_cell(document)
    assert len(reruns._cells) == reruns.RECENT


def _forget_graphs() -> None:
    """As if no variable had the graphs that were shown any more."""
    for known in reruns._cells.values():
        for one in known.now:
            one.graph = None


def test_a_graph_is_compared_with_the_run_before(
    kernel: list[FakeComm], run: Callable[[str, str], None]
) -> None:
    """Also where nobody has kept that one, and with the one before, of two of a name its own."""
    run("a", "1")
    shown(kernel, layered(2))
    shown(kernel, layered(1))
    _forget_graphs()
    run("a", "2")
    changed, same = layered(2, odd=1), layered(1)
    shown(kernel, changed)
    shown(kernel, same)
    difference = maxlab.diff(changed)
    assert [one.kind for one in difference.changes] == ["changed"]
    assert "the run before" in str(difference)
    assert difference._repr_mimebundle_() is not None
    assert not maxlab.diff(same)
    model = maxlab.InferenceSession().load(small())
    with pytest.raises(ArgumentError, match="no cell has shown it"):
        maxlab.diff(model)


def test_a_graph_that_was_edited_by_hand_is_compared_as_it_was_last(
    kernel: list[FakeComm], run: Callable[[str, str], None]
) -> None:
    run("a", "1")
    first = layered(1)
    shown(kernel, first)
    Editor(first).insert("abs", first.function.ops[-1].id, 0)
    run("a", "2")
    second = layered(1)
    shown(kernel, second)
    assert {one.kind for one in maxlab.diff(second).changes} == {"removed", "changed"}
    with pytest.raises(ArgumentError, match="has not run before"):
        maxlab.diff(first)


def test_what_was_shown_too_long_ago_is_said(
    kernel: list[FakeComm], run: Callable[[str, str], None]
) -> None:
    run("a", "1")
    shown(kernel, layered(1))
    run("a", "2")
    graph = layered(1)
    shown(kernel, graph)
    for known in reruns._cells.values():
        for one in known.before:
            one.graph = None
    document = take(small()).document
    for number in range(reruns.DRAWN):
        run(f"other {number}", "1")
        reruns.marks_in_cell(document)
    with pytest.raises(ArgumentError, match="too much has been shown"):
        maxlab.diff(graph)


def test_a_page_is_given_both_runs(kernel: list[FakeComm], run: Callable[[str, str], None]) -> None:
    run("a", "1")
    shown(kernel, layered(2))
    run("a", "2")
    graph = layered(2, odd=1)
    shown(kernel, graph)
    data = answer(graph, "rerun", {}).data
    assert data["count"] == 1
    document = json.loads(zlib.decompress(base64.b64decode(data["document"]["data"])))
    assert document["beside"]["before"]["name"] == graph.name
