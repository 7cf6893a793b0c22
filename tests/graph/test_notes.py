"""What people lay beside a graph is changed, undone and redone in one order with the graph."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import DocumentError, MaxlabError
from maxlab.graph import Comment, Draft, Editor, Graph, Place, TensorType, ops
from maxlab.graph.document import Document, parse
from maxlab.ir import Function, at_revision
from maxlab.ir.edit_json import from_json, to_json
from maxlab.ir.edit_log import apply
from maxlab.lab.models import model_for

ROW = TensorType(DType.float32, ["n", 4])


def small() -> Graph:
    with Graph("small", input_types=[ROW, ROW]) as graph:
        x, y = (value.tensor for value in graph.inputs)
        graph.output(ops.softmax(ops.relu(x) + y))
    return graph


def ids(graph: Graph) -> dict[str, str]:
    """The ids of the operations by their names."""
    return {op.name.removeprefix("mo."): op.id for op in graph.function.ops}


class Kept:
    """A function alone, as a document takes it."""

    input_names: tuple[str, ...] = ()
    scope_types: Mapping[str, str] = MappingProxyType({})

    def __init__(self, function: Function) -> None:
        self.function = function

    def body_scopes(self) -> Mapping[Function, Mapping[str, str]]:
        """There are no modules."""
        return {}


# ---------------------------------------------------------------- one order
def test_places_and_operations_are_undone_in_one_order() -> None:
    graph = small()
    editor, relu = Editor(graph), ids(graph)["relu"]
    texts = [graph.document.text()]

    def then(step: Callable[[], object]) -> None:
        step()
        texts.append(graph.document.text())

    then(lambda: editor.place(relu, 40, 120.5))
    then(lambda: editor.replace(relu, "exp"))
    then(lambda: editor.comment("why?", on=ids(graph)["exp"]))
    then(lambda: editor.fold("encoder", True))
    then(lambda: editor.remove(ids(graph)["exp"]))
    then(lambda: graph.document.places.update(n1=Place(x=0, y=0), n2=Place(x=1, y=1)))
    then(lambda: editor.draft("mo.matmul", ["a0", None], "operand 1 is missing"))
    assert len(set(texts)) == len(texts)
    for text in texts[-2::-1]:
        assert editor.undo()
        assert graph.document.text() == text
    assert not editor.undo()
    for text in texts[1:]:
        assert editor.redo()
        assert graph.document.text() == text
    assert not editor.redo()


def test_what_takes_the_place_of_an_operation_has_its_place_and_comments() -> None:
    graph = small()
    editor, relu = Editor(graph), ids(graph)["relu"]
    editor.place(relu, 40, 120)
    comment = editor.comment("why?", on=relu)
    editor.replace(relu, "exp")
    exp = ids(graph)["exp"]
    assert dict(graph.document.places) == {exp: Place(x=40, y=120, pinned=True)}
    assert graph.document.comments == [Comment(id=comment, text="why?", on=exp)]


def test_what_is_removed_takes_its_place_and_comments_along() -> None:
    graph = small()
    editor, relu, add = Editor(graph), ids(graph)["relu"], ids(graph)["add"]
    relu_value = graph.function.find(relu).result.id  # type: ignore[union-attr]
    editor.place_all({relu: Place(x=1, y=2), add: Place(x=3, y=4)})
    editor.comment("first", on=add)
    editor.comment("gone", on=relu)
    editor.comment("free", x=5, y=6)
    draft = editor.draft("mo.matmul", [relu_value, "a0"], "the inner dims differ")
    before = graph.document.text()
    editor.remove(relu)
    document = graph.document
    assert list(document.places) == [add]
    assert [comment.text for comment in document.comments] == ["first", "free"]
    assert list(document.drafts) == [
        Draft(
            id=draft,
            name="mo.matmul",
            operands=(None, "a0"),
            reason="the inner dims differ; operand 0 is missing",
        )
    ]
    editor.undo()
    assert graph.document.text() == before
    assert [comment.text for comment in document.comments] == ["first", "gone", "free"]


def test_a_removed_input_takes_its_place_along() -> None:
    graph = small()
    editor = Editor(graph)
    made = editor.add_input(ROW, "more")._ir()
    editor.place(f"in:{made.id}", 1, 2)
    editor.comment("where from?", on=f"in:{made.id}")
    editor.remove_input("more")
    assert not graph.document.places
    assert not graph.document.comments
    editor.undo()
    assert list(graph.document.places) == [f"in:{made.id}"]


def test_a_step_that_fails_leaves_places_as_they_were() -> None:
    graph = small()
    editor, relu = Editor(graph), ids(graph)["relu"]
    before = graph.document.text()

    def fails() -> None:
        with editor.step():
            editor.place(relu, 1, 2)
            editor.comment("why?", on=relu)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    with pytest.raises(DocumentError):
        editor.place_all({relu: Place(x=1, y=2), "in:a0": Place(x=float("nan"), y=0)})
    assert graph.document.text() == before
    assert not editor.can_undo


# ---------------------------------------------------------------- comments and drafts
def test_comments_are_changed_by_their_ids_and_stay_in_order() -> None:
    graph = small()
    editor = Editor(graph)
    first, second, third = (editor.comment(text, x=1, y=2) for text in ("a", "b", "c"))
    assert (first, second, third) == ("c0", "c1", "c2")
    editor.set_comment(second, text="<b>bold</b>", y=5)
    assert graph.document.comments[1] == Comment(id="c1", text="<b>bold</b>", x=1, y=5)
    editor.remove_comment(second)
    assert [comment.id for comment in graph.document.comments] == ["c0", "c2"]
    assert editor.undo()
    assert [comment.id for comment in graph.document.comments] == ["c0", "c1", "c2"]
    editor.set_comment(first, on=ids(graph)["relu"])
    assert graph.document.comments[0].on == ids(graph)["relu"]


def test_drafts_are_changed_by_their_ids() -> None:
    graph = small()
    editor = Editor(graph)
    draft = editor.draft("mo.matmul", ["a0", None], "operand 1 is missing")
    editor.place(draft, 3, 4)
    editor.comment("which one?", on=draft)
    editor.set_draft(draft, operands=["a0", "a1"], reason="")
    assert graph.document.drafts[0].operands == ("a0", "a1")
    (made,) = editor.add("exp", "input0")
    assert made._ir().op.id != draft  # type: ignore[union-attr]
    before = graph.document.text()
    editor.remove_draft(draft)
    assert not graph.document.drafts
    assert not graph.document.places
    assert not graph.document.comments
    editor.undo()
    assert graph.document.text() == before


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("step", "code", "said"),
    [
        (lambda e: e.place("n99", 1, 2), "ML300", "'n99'"),
        (lambda e: e.place("box:", 1, 2), "ML300", "'box:'"),
        (lambda e: e.place(7, 1, 2), "ML300", "called 7"),
        (lambda e: e.place("in:a0", NAN, 2), "ML867", "x is nan"),
        (lambda e: e.place("in:a0", 1, -INF), "ML867", "y is -inf"),
        (lambda e: e.place("in:a0", True, 2), "ML867", "x is True"),
        (lambda e: e.place("in:a0", "1", 2), "ML867", "x is '1'"),
        (lambda e: e.place("in:a0", 1, 2, pinned=1), "ML867", "pinned is 1"),
        (lambda e: e.place_all({"in:a0": (1, 2)}), "ML867", "expected a Place"),
        (lambda e: e.unplace("in:a0"), "ML812", "no place of 'in:a0'"),
        (lambda e: e.fold("encoder", 1), "ML867", "expected true or false"),
        (lambda e: e.fold(None, True), "ML867", "no text"),
        (lambda e: e.comment("x", on="n99"), "ML300", "'n99'"),
        (lambda e: e.comment(b"x"), "ML867", "text is b'x'"),
        (lambda e: e.comment("x", x=NAN), "ML867", "x is nan"),
        (lambda e: e.set_comment("c0", text="x"), "ML812", "no comment 'c0'"),
        (lambda e: e.remove_comment(None), "ML812", "no comment None"),
        (lambda e: e.draft("mo.exp", ["v99"]), "ML300", "'v99'"),
        (lambda e: e.draft("mo.exp", [1]), "ML867", "operands is"),
        (lambda e: e.draft("mo.exp", attrs={"axis": 1}), "ML867", "expected texts by name"),
        (lambda e: e.set_draft("n9", name="mo.exp"), "ML812", "no draft 'n9'"),
        (lambda e: e.remove_draft("n9"), "ML812", "no draft 'n9'"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(step: Any, code: str, said: str) -> None:
    graph = small()
    editor = Editor(graph)
    before, revision = graph.document.text(), graph.revision
    with pytest.raises(MaxlabError) as raised:
        step(editor)
    assert raised.value.code == code
    assert said in raised.value.what
    assert raised.value.fix
    assert graph.document.text() == before
    assert graph.revision in (revision, revision + 1)  # a step that began and was taken back
    assert not editor.can_undo


# ---------------------------------------------------------------- dicts and lists
def test_the_dicts_and_lists_behave_as_dicts_and_lists() -> None:
    document = small().document
    places: dict[str, Place] = {f"n{n}": Place(x=n, y=-n) for n in range(5)}
    document.places.update(places)
    assert document.places == places
    assert document.places.pop("n3") == places.pop("n3")
    assert document.places.popitem() == places.popitem()
    assert document.places.setdefault("n9", Place(x=0, y=0)) == Place(x=0, y=0)
    assert repr(document.folds) == "{}"
    document.places.clear()
    assert not document.places
    with pytest.raises(KeyError):
        document.places.popitem()
    with pytest.raises(KeyError):
        del document.places["n0"]

    rows = [Comment(id=f"c{n}", text=str(n)) for n in range(10)]
    made, wanted = document.comments, list(rows[:4])
    made.extend(wanted)
    changes: list[Callable[[Any], object]] = [
        lambda one: one.insert(1, rows[4]),
        lambda one: one.insert(-1, rows[5]),
        lambda one: one.pop(2),
        lambda one: one.reverse(),
        lambda one: one.__setitem__(0, rows[6]),
        lambda one: one.__setitem__(slice(1, 3), [rows[7]]),
        lambda one: one.__delitem__(-1),
        lambda one: one.remove(one[0]),
        lambda one: one.append(rows[8]),
        lambda one: one.__setitem__(-1, rows[9]),
    ]
    for change in changes:
        change(wanted)
        change(made)
        assert made == wanted
        assert list(made) == wanted
        assert made[0] == wanted[0]
        assert made[1:] == wanted[1:]
    with pytest.raises(IndexError):
        made[99]
    with pytest.raises(DocumentError, match="two comments have the id"):
        made.append(made[0])


def test_a_change_of_a_dict_is_a_step_by_itself() -> None:
    graph = small()
    editor = Editor(graph)
    graph.document.places["n1"] = Place(x=1, y=2)
    graph.document.places["n1"] = Place(x=1, y=2)  # which changes nothing
    graph.document.comments.append(Comment(id="c0", text="why?"))
    assert editor.undo()
    assert editor.undo()
    assert not editor.undo()
    assert not graph.document.places


# ---------------------------------------------------------------- any sequence
def act(editor: Editor, choose: random.Random) -> None:
    """One random step, of the graph or of what stands beside it."""
    graph = editor.graph
    document, function = graph.document, graph.function
    op = choose.choice(function.ops).id
    value = choose.choice([v.id for v in function.inputs] + [f"v{o.id[1:]}" for o in function.ops])
    keys = [op, f"in:{choose.choice(function.inputs).id}", "box:layer", "n404"]
    number = choose.choice([0, -3, 17.25, 1e-9, 10**6, NAN])
    comment = choose.choice([*(c.id for c in document.comments), "c404"])
    draft = choose.choice([*(d.id for d in document.drafts), "n404"])
    steps: list[Callable[[], object]] = [
        lambda: editor.add(choose.choice(["exp", "relu", "tanh"]), value),
        lambda: editor.insert("tanh", op, 0),
        lambda: editor.replace(op, "sigmoid"),
        lambda: editor.remove(op),
        lambda: editor.duplicate(op),
        lambda: editor.connect(op, 0, value),
        lambda: editor.add_input(ROW),
        lambda: editor.place(choose.choice(keys), number, 1, pinned=choose.random() < 0.5),
        lambda: editor.place_all({op: Place(x=1, y=2), keys[1]: Place(x=3, y=4)}),
        lambda: editor.unplace(*choose.sample([*document.places], min(2, len(document.places)))),
        lambda: editor.fold(choose.choice(["a", "b.0"]), choose.random() < 0.5),
        lambda: editor.comment("text é \u2028", on=choose.choice(["", *keys])),
        lambda: editor.set_comment(comment, text=str(number), x=number),
        lambda: editor.remove_comment(comment),
        lambda: editor.draft("mo.matmul", [value, None], "operand 1 is missing"),
        lambda: editor.set_draft(draft, operands=[value], reason=""),
        lambda: editor.remove_draft(draft),
        document.comments.reverse,
        document.places.clear,
        editor.undo,
        editor.redo,
    ]
    with suppress(MaxlabError):
        choose.choice(steps)()


@pytest.mark.parametrize("seed", range(60))
def test_any_sequence_is_taken_back_and_done_again(seed: int) -> None:
    graph, choose = small(), random.Random(seed)
    editor = Editor(graph)
    first, revision = graph.document.text(), graph.revision
    start = parse(first, "<document>")[0]
    for _ in range(choose.randrange(1, 60)):
        act(editor, choose)
    while editor.redo():  # what the last of them undid
        pass
    last = graph.document.text()
    made, notes = parse(last, "<document>")
    assert Document(Kept(made), notes).text() == last

    # The records alone, as JSON, say it all.
    edits = graph.log.since(revision)
    if edits is not None:
        apply(start, [from_json(json.loads(json.dumps(to_json(edit)))) for edit in edits])
        assert start.notes == graph.function.notes
        then = at_revision(graph.function, revision)
        assert then is not None
        assert not any(then.notes.values())

    while editor.undo():
        pass
    assert graph.document.text() == first
    while editor.redo():
        pass
    assert graph.document.text() == last


def test_a_thousand_places_are_set_and_taken_back_in_a_step() -> None:
    graph = small()
    editor = Editor(graph)
    for _ in range(1000):
        editor.add("exp", "input0")
    places = {op.id: Place(x=n, y=n) for n, op in enumerate(graph.function.ops)}
    before = graph.document.text()
    editor.place_all(places)
    after = graph.document.text()
    editor.unplace(*places)
    assert editor.undo()
    assert graph.document.text() == after
    assert editor.undo()
    assert graph.document.text() == before


def test_places_leave_what_was_compiled_alone() -> None:
    graph = small()
    model = engine.InferenceSession().load(graph)
    Editor(graph).place(ids(graph)["relu"], 1, 2)
    assert model_for(graph) is model
