"""Edits: every change of a function is a record, and is taken back, done again and sent as one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import GraphError, Location
from maxlab.ir import (
    BufferType,
    Constant,
    Function,
    HandleType,
    HostCall,
    Op,
    TensorType,
    Value,
)
from maxlab.ir.edit import AddOp, Edit, RemoveOp, SetAttr, SetName, SetNote, SetOperands, inverse
from maxlab.ir.edit_json import from_json, to_json
from maxlab.ir.edit_log import Log, apply, at_revision, listen, touched
from maxlab.ir.listening import ABSENT
from maxlab.ir.parser import parse_function
from maxlab.ir.printer import generic, pretty
from maxlab.ir.verifier import verify

T = TensorType(DType.float32, ["n", 2])
LOC = Location("cell [3]", 4, 2, "y = f(x)", "forward", 11)


class BoomError(Exception):
    """What goes wrong in the middle."""


def text(function: Function) -> str:
    """All that can be seen of ``function``."""
    return generic(function) + pretty(function)


def add(function: Function, name: str, *operands: Value, **attrs: Any) -> Op:
    return function.block.append(function.create(name, operands, [T], attrs, loc=LOC, scope="s"))


def small() -> Function:
    """``output(relu(x) + x)`` and, aside, a branch that gives its argument."""
    f = Function("f")
    x = f.add_input(T, "x")
    y = add(f, "mo.relu", x).result
    y.rename("hidden")
    region = f.region()
    inner = region.add_argument("b0", T, "captured")
    region.append(f.create("mo.output", [inner], []))
    branch = f.create("mo.cond", [y], [T])
    branch.add_region(region)
    f.block.append(branch)
    z = add(f, "mo.add", y, x).result
    f.block.append(f.create("mo.output", [z, branch.result], []))
    verify(f)
    return f


def test_a_note_that_was_taken_away_stands_again_where_it_was() -> None:
    f = small()
    log = listen(f)
    for key in ("c0", "c1", "c2"):
        f.set_note("comments", key, f'{{"text":"{key}"}}')
    f.set_note("comments", "c1", "{}")
    f.set_note("comments", "c1", None)
    assert log.edits()[-1] == SetNote("comments", "c1", "{}", None, "c2")
    assert touched(log.edits()) == set()
    log.undo()
    assert list(f.notes["comments"].items())[1] == ("c1", "{}")
    f.set_note("comments", "c3", "{}", before="c0")
    assert list(f.notes["comments"]) == ["c3", "c0", "c1", "c2"]
    assert f.clone().notes == f.notes


def test_a_note_of_another_revision_is_refused() -> None:
    f = small()
    f.set_note("folds", "layer", "true")
    for edit, said in (
        (SetNote("folds", "layer", "false", "true"), "'false'"),
        (SetNote("folds", "layer", None, "true"), "None"),
        (SetNote("folds", "other", None, "true", "gone"), "'gone'"),
        (SetNote("folds", "layer", "true", None, "other"), "'other'"),
    ):
        with pytest.raises(GraphError, match=said) as raised:
            apply(f, [edit])
        assert raised.value.code == "ML389"
    assert f.notes == {"folds": {"layer": "true"}}


def op(function: Function, name: str) -> Op:
    return next(op for op in function.walk() if op.name == name)


# ---------------------------------------------------------------- taking back
def test_nobody_listens_by_default() -> None:
    assert small().log is None
    log = listen(f := small())
    assert listen(f) is log
    assert len(log) == 0
    assert f.clone().log is None


def test_undoing_a_removal_restores_the_same_op_with_id_name_place_and_order() -> None:
    f = small()
    log = listen(f)
    before, gone = text(f), op(f, "mo.relu")
    with log.transaction():
        x = f.inputs[0]
        gone.result.replace_with(x)
        f.block.remove(gone)
    assert gone not in f.ops
    after = text(f)
    assert log.undo()
    assert text(f) == before
    assert f.ops[0] is gone
    assert gone.result.name == "hidden"
    assert gone.loc == LOC
    assert gone.operands == [x]
    verify(f)
    assert log.redo()
    assert text(f) == after
    assert not log.redo()
    verify(f)


def test_a_region_that_was_removed_comes_back_with_its_values() -> None:
    f = small()
    log = listen(f)
    before, gone = text(f), op(f, "mo.cond")
    inner = gone.regions[0].ops[0]
    output = f.output
    assert output is not None
    mark = log.mark()
    output.set_operands([output.operands[0]])
    f.block.remove(gone)
    assert not gone.regions[0].args[0].uses
    log.undo_to(mark)
    assert text(f) == before
    assert gone.regions[0].ops == [inner]
    verify(f)


def test_ids_are_never_given_twice() -> None:
    f = small()
    log = listen(f)
    mark = log.mark()
    first = add(f, "mo.exp", f.inputs[0]).id
    log.undo_to(mark)
    assert add(f, "mo.exp", f.inputs[0]).id != first
    g = Function("g")
    a = g.add_input(T)
    g.block.remove_argument(a)
    assert g.add_input(T).id != a.id
    f.add_input(T)
    read = parse_function(generic(f))
    kept = read.inputs[1].id
    read.inputs[0].replace_with(read.inputs[1])
    read.block.remove_argument(read.inputs[0])
    assert read.add_input(T).id != kept


@pytest.mark.parametrize("error", [BoomError, KeyboardInterrupt])
def test_a_failing_transaction_leaves_the_function_as_it_was(error: type[BaseException]) -> None:
    f = small()
    log = listen(f)
    before = text(f)

    def fail() -> None:
        with log.transaction():
            add(f, "mo.exp", f.inputs[0])
            with log.transaction():
                f.rename("g")
                op(f, "mo.relu").set_attr("k", 1)
            raise error

    with pytest.raises(error):
        fail()
    assert text(f) == before
    assert len(log) == 0
    assert not log.undo()
    verify(f)


def test_an_inner_failure_that_is_caught_takes_back_the_inner_part_only() -> None:
    f = small()
    log = listen(f)

    def inner() -> None:
        with log.transaction():
            add(f, "mo.tanh", f.inputs[0])
            raise BoomError

    with log.transaction():
        kept = add(f, "mo.exp", f.inputs[0])
        with pytest.raises(BoomError):
            inner()
    assert f.ops[-1] is kept
    assert log.undo()
    assert kept.block is None
    assert not log.undo()


def test_ops_of_a_region_that_is_being_built_are_taken_back_and_sent_with_their_op() -> None:
    f = small()
    log = listen(f)
    start = f.clone()
    region = f.region()
    arg = region.add_argument("b7", T, "c")
    mark = log.mark()
    region.append(f.create("mo.exp", [arg], [T]))
    log.undo_to(mark)
    assert region.ops == []
    assert region.args == [arg]
    region.append(f.create("mo.output", [arg], []))
    assert log.edits() == []
    branch = f.create("mo.cond", [f.inputs[0]], [T])
    branch.add_region(region)
    f.block.insert(branch, f.output)
    (edit,) = log.edits()
    assert isinstance(edit, AddOp)
    assert edit.before == f.ops[-1].id
    assert [o.name for o in edit.op.regions[0].ops] == ["mo.output"]
    apply(start, [edit])
    assert text(start) == text(f)
    region.ops[0].set_attr("k", 1)  # which now is part of the function
    assert [type(e) for e in log.edits()] == [AddOp, SetAttr]
    log.undo_to(0)
    assert text(f) == text(small())
    assert region.args == []
    assert region.ops == []


def test_what_an_interrupt_left_reads_nothing_in_a_region_that_is_being_built() -> None:
    f = small()
    log = listen(f)
    region = f.region()
    arg = region.add_argument("b7", T, "c")
    waiting = f.create("mo.exp", [arg], [T])  # made before, and put in later

    def fails() -> None:
        with log.transaction():
            f.create("mo.tanh", [arg], [T])  # Ctrl-C comes before it is put in
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert arg.uses == {waiting: 1}


def test_an_op_is_recorded_as_it_was_when_it_was_added() -> None:
    f = small()
    log = listen(f)
    made = add(f, "mo.exp", f.inputs[0], k=1)
    made.set_attr("k", 2)
    made.result.rename("late")
    first, *rest = log.edits()
    assert isinstance(first, AddOp)
    assert first.op.attrs == (("k", 1),)
    assert first.op.results[0].name == ""
    assert rest == [SetAttr(made.id, "k", 1, 2), SetName(made.result.id, "", "late")]


# ---------------------------------------------------------------- revisions
def test_who_missed_a_revision_reads_what_came_since() -> None:
    f = small()
    log = listen(f)
    seen = log.revision
    add(f, "mo.exp", f.inputs[0])
    f.ops[0].result.rename("y")
    edits = log.since(seen)
    assert edits is not None
    assert touched(edits) == {f.ops[-1].id, f.ops[0].result.id}
    assert log.since(log.revision) == []
    assert log.since(log.revision + 1) is None
    assert log.since(-1) is None


def test_a_revision_that_was_rolled_back_is_not_known() -> None:
    f = small()
    log = listen(f)
    start = log.revision
    f.rename("g")
    kept, mark = log.revision, log.mark()
    f.rename("h")
    lost = log.revision
    log.undo_to(mark)
    assert log.revision > lost
    assert log.since(lost) is None
    assert log.since(kept) == []
    assert log.since(start) == [SetName("", "f", "g")]
    f.rename("i")
    f.rename("j")
    assert log.since(lost) is None
    assert log.since(kept) == [SetName("", "g", "i"), SetName("", "i", "j")]


def test_the_past_is_read_from_a_copy() -> None:
    f = small()
    log = listen(f)
    before, revision = text(f), log.revision
    f.ops[0].result.replace_with(f.inputs[0])
    f.block.remove(f.ops[0])
    past = at_revision(f, revision)
    assert past is not None
    assert text(past) == before
    assert at_revision(f, revision + 100) is None
    assert at_revision(small(), 0) is None


# ---------------------------------------------------------------- from elsewhere
def changed() -> tuple[Function, list[Edit]]:
    """A function as it was, and edits that fit it."""
    f = small()
    log = listen(g := f.clone())
    op(g, "mo.relu").set_attr("k", (1, float("nan")))
    op(g, "mo.add").set_operands([g.inputs[0], g.inputs[0]])
    add(g, "mo.exp", g.inputs[0])
    return f, log.edits()


def test_edits_are_applied_all_or_none() -> None:
    f, edits = changed()
    before = text(f)
    bad = SetOperands("n999", (), ())
    with pytest.raises(GraphError, match="there is no op n999") as raised:
        apply(f, [*edits, bad])
    assert raised.value.code == "ML389"
    assert text(f) == before
    assert f.log is None
    apply(f, edits)
    apply(f, inverse(edits))
    assert text(f) == before


def test_an_edit_for_a_stale_revision_is_refused() -> None:
    f, edits = changed()
    log = listen(f)
    revision = log.revision
    f.rename("g")
    before = text(f)
    with pytest.raises(
        GraphError, match="for revision 0 of the graph 'g', which is at 1"
    ) as raised:
        apply(f, edits, revision)
    assert raised.value.code == "ML389"
    assert text(f) == before
    apply(f, edits, log.revision)
    assert log.undo()
    assert text(f) == before


def test_what_the_check_refuses_is_taken_back() -> None:
    f = small()
    x, late = f.inputs[0].id, f.ops[2].result.id
    with pytest.raises(GraphError):
        apply(f, [SetOperands(f.ops[0].id, (x,), (late,))], check=verify)
    assert text(f) == text(small())


def unfit() -> dict[str, Edit]:
    """Edits that do not fit what `small` makes, by what they get wrong."""
    f = small()
    relu, output = f.ops[0], f.ops[-1]
    data = from_json(json.loads(json.dumps(to_json(added()))))
    assert isinstance(data, AddOp)
    return {
        "an op that is there": AddOp((None, 0), None, removal(f, relu).op),
        "an unknown place": AddOp((None, 0), "n77", data.op),
        "an unknown block": AddOp(("n77", 0), None, data.op),
        "a region that nobody has yet": AddOp((None, -1), None, data.op),
        "a result that is read": removal(f, relu),
        "another name": SetName(relu.result.id, "other", "new"),
        "another attribute": SetAttr(relu.id, "k", 3, 4),
        "other operands": SetOperands(output.id, ("a0",), ()),
        "an unknown operand": SetOperands(relu.id, ("a0",), ("v77",)),
    }


def removal(function: Function, op: Op) -> RemoveOp:
    clone = function.clone()
    log = listen(clone)
    clone.block.remove(next(o for o in clone.ops if o.id == op.id))
    (edit,) = log.edits()
    assert isinstance(edit, RemoveOp)
    return edit


def added() -> Edit:
    f = small()
    log = listen(f)
    add(f, "mo.exp", f.inputs[0], value=Constant(np.array([1, np.nan], np.float32)))
    (edit,) = log.edits()
    return edit


@pytest.mark.parametrize("what", unfit())
def test_an_edit_that_does_not_fit_is_refused(what: str) -> None:
    f = small()
    with pytest.raises(GraphError) as raised:
        apply(f, [unfit()[what]])
    assert raised.value.code == "ML389"
    assert text(f) == text(small())


# ---------------------------------------------------------------- JSON
def test_json_is_exact() -> None:
    _, edits = changed()
    for edit in [*edits, added(), *inverse(edits)]:
        written = json.dumps(to_json(edit))
        assert json.dumps(to_json(from_json(json.loads(written)))) == written
    edit = from_json(json.loads(json.dumps(to_json(SetAttr("n1", "k", ABSENT, None)))))
    assert edit == SetAttr("n1", "k", ABSENT, None)


BAD: dict[str, Any] = {
    "no object": [],
    "no kind": {"target": "v1", "old": "", "new": ""},
    "an unknown kind": {"edit": "explode"},
    "a kind of another type": {"edit": []},
    "a missing field": {"edit": "set_name", "target": "v1", "old": ""},
    "an extra field": {"edit": "set_name", "target": "v1", "old": "", "new": "", "x": 1},
    "a number for a text": {"edit": "set_name", "target": 1, "old": "", "new": ""},
    "no type": {"edit": "set_type", "value": "v1", "old": "f32", "new": "!mo.chain"},
    "no attribute": {
        "edit": "set_attr", "op": "n1", "key": "k", "old": "[1,", "new": "1", "before": None
    },
    "two attributes": {
        "edit": "set_attr", "op": "n1", "key": "k", "old": "1 2", "new": "1", "before": None
    },
    "a place of one": {
        "edit": "order_arguments", "block": ["n1"], "old": [], "new": []
    },
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_json_that_is_no_edit_is_refused(what: str) -> None:
    with pytest.raises(GraphError) as raised:
        from_json(BAD[what])
    assert raised.value.code == "ML359"


def test_what_is_of_this_process_alone_cannot_be_written() -> None:
    call = HostCall("torch", "torch.f", "", lambda a, b: None)
    for edit in (
        SetAttr("n1", "call", ABSENT, call),
        from_json_type(HandleType("T")),
    ):
        with pytest.raises(GraphError) as raised:
            to_json(edit)
        assert raised.value.code == "ML355"


def from_json_type(type: HandleType) -> Edit:
    f = Function("f")
    log = listen(f)
    f.add_input(T).retype(type)
    return log.edits()[-1]


# ---------------------------------------------------------------- all mutators
def test_every_method_that_changes_a_function_is_logged() -> None:
    f = small()
    first = f.clone()
    log = listen(f)
    assert isinstance(f.log, Log)
    before = text(f)
    relu, branch = op(f, "mo.relu"), op(f, "mo.cond")
    f.rename("g")
    f.add_input(BufferType(DType.float32, ["m"]), "buffer")
    f.set_parameters(["n", "k"])
    f.block.order_arguments(f.inputs[::-1])
    relu.set_attrs({"b": 1, "a": 2})
    relu.set_attrs({"a": 2, "c": 3, "b": 1})
    relu.set_attr("b", ABSENT)
    relu.set_source(scope="elsewhere", origins=("n0", "n9"))
    relu.set_operand(0, f.inputs[0])
    relu.result.retype(TensorType(DType.float32, [3]))
    branch.regions[0].add_argument("b9", T, index=0)
    branch.regions[0].remove_argument(branch.regions[0].args[0])
    exp = f.block.insert(f.create("mo.exp", [f.inputs[0]], [T, T]), relu)
    exp.set_results(exp.results[:1])
    f.block.keep([o for o in f.ops if o is not exp])
    after = text(f)
    apply(first, [from_json(json.loads(json.dumps(to_json(e)))) for e in log.edits()])
    assert text(first) == after
    log.undo_to(0)
    assert text(f) == before
