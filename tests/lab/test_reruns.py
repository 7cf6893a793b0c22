"""What a view marks when its cell runs again."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest

from maxlab.analysis.runs.nodes import parts_of
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, TensorValue, ops
from maxlab.ir.cells import running_cell
from maxlab.lab import reruns
from maxlab.lab.display import mimebundle
from maxlab.lab.protocol import GRAPH_MIME, GraphDocument, Marks
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
