"""``maxlab.merge``: what two sides changed becomes one document, and what it cannot decide is said.

Laws are held on random edits: a side that changed nothing gives the other one; without conflicts
the sides can be swapped; edits that do not touch give what doing both gives.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab.analysis.merging.front import merge_parts
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, FileError, GraphError, MaxlabError, ParseError
from maxlab.graph import Comment, DeviceRef, Editor, Graph, Place, TensorType, Weight, ops
from maxlab.graph.becoming import become
from maxlab.graph.document import Notes, contents
from maxlab.graph.parted import join, split
from maxlab.graph.reading import graph_of, graph_with
from maxlab.ir import Function
from maxlab.ir.constants import Constant
from maxlab.opset.verify import verify

F32, CPU = DType.float32, DeviceRef.CPU()
Edit = Callable[[Editor], object]


def towers(extra: bool = False) -> Graph:
    """Two towers of operations that meet at the end."""
    with Graph("towers", input_types=[TensorType(F32, ["m", 8]), TensorType(F32, ["n", 8])]) as g:
        left, right = (x.tensor for x in g.inputs)
        if extra:
            left = ops.abs(left)
        left = ops.sum(ops.tanh(ops.softmax(ops.exp(left), axis=-1)), axis=0)
        b = ops.constant(np.arange(8, dtype=np.float32), F32, CPU)
        right = ops.relu(ops.sqrt(right) + b) @ Weight("w", F32, [8, 8], CPU)
        g.output(left + right)
    return g


def copy(graph: Graph, *edits: Edit) -> Graph:
    made = graph_of(graph.document.text(), "copy")
    editor = Editor(made)
    for edit in edits:
        edit(editor)
    # What a side is, is its file.
    return graph_of(made.document.text(), "side")


def text(graph: Graph) -> str:
    return graph.document.text()


def merged(base: Graph, ours: Graph, theirs: Graph) -> Graph:
    """The merge without the short cuts for sides that changed nothing."""
    return graph_with(*merge_parts(*(split(g.document.data()) for g in (base, ours, theirs))))


def names(graph: Graph) -> list[str]:
    return [op.name.removeprefix("mo.") for op in graph.function.ops]


def op(graph: Graph, name: str) -> str:
    (found,) = [op.id for op in graph.function.ops if op.name == f"mo.{name}"]
    return found


def random_edit(editor: Editor, rng: random.Random, tower: int | None = None) -> None:
    """One edit of those that people make; of one tower alone, where it is given."""
    graph = editor.graph
    inside = [o for o in graph.function.ops if not o.ends_block]
    if tower is not None:
        mine = {graph.function.inputs[tower]}
        chosen = []
        for one in inside:
            reads = [v in mine for v in one.operands if v.op is None or v.op.operands]
            if any(reads) and all(reads):
                mine.update(one.results)
                chosen.append(one)
        inside = chosen
    target = rng.choice(inside)
    unary = ["relu", "exp", "tanh", "sigmoid", "negate"]
    kind = rng.randrange(8)
    if kind == 0:
        editor.insert(rng.choice(unary), target, 0)
    elif kind == 1:
        editor.replace(target, rng.choice(unary))
    elif kind == 2:
        editor.remove(target)
    elif kind == 3 and target.name == "mo.softmax":
        editor.set_attribute(target, "axis", rng.choice([0, -1]))
    elif kind == 4:
        editor.place(target.id, rng.randrange(5), rng.randrange(5))
    elif kind == 5:
        editor.comment(f"note {rng.randrange(99)}", on=target.id)
    elif kind == 6:
        editor.rename(target.results[0].id, rng.choice("pqrs"))
    elif tower is None:
        values = [v for o in inside for v in o.results]
        editor.connect(target, 0, rng.choice(values).id)


def edited(graph: Graph, rng: random.Random, count: int, tower: int | None = None) -> Graph:
    made = graph_of(text(graph), "side")
    editor = Editor(made)
    for _ in range(count):
        try:
            random_edit(editor, rng, tower)
        except (MaxlabError, IndexError):
            pass
    return graph_of(text(made), "side")


@pytest.mark.parametrize("seed", range(120))
def test_laws_of_merging(seed: int) -> None:
    rng = random.Random(seed)
    base = edited(towers(), rng, rng.randrange(4))
    ours, theirs = (edited(base, rng, rng.randrange(1, 7)) for _ in range(2))
    assert text(merged(base, base, theirs)) == text(theirs)
    assert text(merged(base, ours, base)) == text(ours)
    assert text(merged(base, ours, ours)) == text(ours)
    made, turned = merged(base, ours, theirs), merged(base, theirs, ours)
    verify(made.function)
    assert text(graph_of(text(made), "again")) == text(made)
    is_clean = not made.document.conflicts
    assert is_clean is not bool(turned.document.conflicts)
    if is_clean:
        assert text(made) == text(turned)
    while made.document.conflicts:  # each is decided by a step, which undo takes back
        before, editor = text(made), Editor(made)
        one = rng.choice(list(made.document.conflicts)).id
        try:
            editor.resolve(one, "theirs")
        except GraphError as error:
            if error.code != "ML858" or text(made) != before:
                raise
            editor.resolve(one, "ours")
        after = text(made)
        verify(made.function)
        assert editor.undo()
        assert text(made) == before
        assert editor.redo()
        assert text(made) == after


@pytest.mark.parametrize("seed", range(60))
def test_edits_that_do_not_touch_give_what_both_give(seed: int) -> None:
    rng = random.Random(seed)
    base, seeds = towers(), (rng.random(), rng.random())
    ours, theirs = (edited(base, random.Random(seeds[tower]), 5, tower) for tower in (0, 1))
    made = maxlab.merge(base, ours, theirs)
    assert made.is_clean, str(made)
    both = edited(ours, random.Random(seeds[1]), 5, 1)
    assert not maxlab.diff(both, made.graph), str(maxlab.diff(both, made.graph))


@pytest.mark.parametrize("seed", range(40))
def test_a_graph_becomes_a_later_one_and_comes_back(seed: int) -> None:
    rng = random.Random(seed)
    graph = towers()
    wanted = edited(graph, rng, 8)
    now, editor = copy(graph), None
    before, editor = text(now), Editor(now)
    with editor.step():
        become(now, wanted.function)
    assert text(now) == text(wanted)
    verify(now.function)
    if editor.undo():
        assert text(now) == before


def axis(value: int) -> Edit:
    return lambda e: e.set_attribute(op(e.graph, "softmax"), "axis", value)


def insert(name: str, before: str, number: int = 0) -> Edit:
    return lambda e: e.insert(name, op(e.graph, before), number)


def remove(name: str) -> Edit:
    return lambda e: e.remove(op(e.graph, name))


def read(reader: str, made: str) -> Edit:
    """Lets ``reader`` read what ``made`` makes."""
    return lambda e: e.connect(op(e.graph, reader), 0, e.op(op(e.graph, made)).results[0].id)


def place(name: str, x: int) -> Edit:
    return lambda e: e.place(op(e.graph, name), x, 0)


ROWS: dict[str, tuple[Edit, Edit, list[str]]] = {
    "one attribute": (axis(0), axis(1), ["changed"]),
    "the same attribute": (axis(0), axis(0), []),
    "two operations on one edge": (
        insert("relu", "softmax"),
        insert("abs", "softmax"),
        ["changed"],
    ),
    "an attribute and an operation before it": (axis(0), insert("abs", "softmax"), []),
    "what one removes, the other changes": (remove("softmax"), axis(0), ["removed"]),
    "what one changes, the other removes": (axis(0), remove("softmax"), ["removed"]),
    "a circle": (read("exp", "relu"), read("sqrt", "tanh"), ["unfit"]),
    "a place": (place("exp", 1), place("exp", 2), ["added"]),
    "two places": (place("exp", 1), place("relu", 2), []),
    "a comment each": (lambda e: e.comment("a"), lambda e: e.comment("b"), []),
    "a draft and an operation": (
        lambda e: e.draft("mo.matmul", ["a0", None], "no weight"),
        insert("abs", "exp"),
        [],
    ),
    "types of an input": (
        lambda e: e.set_type("input0", TensorType(F32, [4, 8])),
        lambda e: e.set_type("input0", TensorType(F32, [2, 8])),
        ["changed"],
    ),
    "names": (
        lambda e: e.rename(e.op(op(e.graph, "exp")).results[0].id, "a"),
        lambda e: e.rename(e.op(op(e.graph, "tanh")).results[0].id, "b"),
        [],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_a_conflict(name: str) -> None:
    ours, theirs, kinds = ROWS[name]
    base = towers()
    found = maxlab.merge(base, copy(base, ours), copy(base, theirs))
    assert [conflict.kind for conflict in found.conflicts] == kinds, str(found)
    assert found.is_clean is not bool(kinds)
    verify(found.graph.function)
    for conflict in found.conflicts:
        assert conflict.says
        assert conflict.on
        assert all(part.ours != part.theirs for part in conflict.parts)


def test_types_follow_what_both_changed() -> None:
    base = towers()
    ours = copy(base, lambda e: e.set_type("input0", TensorType(F32, [4, 8])))
    theirs = copy(base, insert("abs", "tanh"))
    made = maxlab.merge(base, ours, theirs)
    assert made.is_clean
    (shape,) = {str(o.results[0].type) for o in made.graph.function.ops if o.name == "mo.abs"}
    assert "[4, 8]" in shape


def test_a_graph_that_a_program_builds_anew_is_matched_by_what_it_computes() -> None:
    base, theirs = towers(), towers(extra=True)  # one operation at the start: all ids are others
    ours = copy(base, axis(0), lambda e: e.comment("cold", on=op(e.graph, "softmax")))
    made = maxlab.merge(base, ours, theirs)
    assert made.is_clean, str(made)
    assert "abs" in names(made.graph)
    softmax = made.graph.function.find(op(made.graph, "softmax"))
    assert softmax is not None
    assert softmax.attrs["axis"] == 0
    assert made.graph.document.comments[0].on == softmax.id


def test_larger_constants_come_with_the_side_that_is_taken() -> None:
    def constant(value: float) -> Edit:
        return lambda e: e.set_attribute(
            op(e.graph, "constant"), "value", Constant(np.full(64, value, np.float32))
        )

    with Graph("sum", input_types=[TensorType(F32, [64])]) as base:
        base.output(base.inputs[0].tensor + ops.constant(np.zeros(64, np.float32), F32, CPU))
    ours, theirs = copy(base, constant(1)), copy(base, constant(2))
    found = maxlab.merge(base, ours, theirs)
    (conflict,) = found.conflicts
    assert len(conflict.constants) == 3
    again = graph_of(found.text(), "again")
    Editor(again).resolve(conflict.id, "theirs")
    assert maxlab.load(again)(np.zeros(64, np.float32))[0].to_numpy()[0] == 2


def test_fields_of_newer_versions_are_kept_from_both_sides() -> None:
    base = towers().document.text()
    sides = [base.replace('"format"', f'"from_{side}": 1,\n "format"', 1) for side in "ab"]
    made = maxlab.merge(*(graph_of(one, "x") for one in (base, *sides)))
    assert made.is_clean
    assert '"from_a": 1' in made.text()
    assert '"from_b": 1' in made.text()


def test_files_and_a_base_that_is_not_there(tmp_path: Path) -> None:
    ours, theirs = towers(), towers(extra=True)
    ours.save(tmp_path / "ours.mlgraph")
    theirs.save(tmp_path / "theirs.mlgraph")
    (tmp_path / "base.mlgraph").touch()
    found = maxlab.merge(*(tmp_path / f"{name}.mlgraph" for name in ("base", "ours", "theirs")))
    assert [conflict.kind for conflict in found.conflicts] == ["added"]
    found.save(tmp_path / "out.mlgraph")
    graph = maxlab.open(tmp_path / "out.mlgraph")
    Editor(graph).resolve("m0", "theirs")
    assert not maxlab.diff(theirs, graph)


def test_mutated_documents_are_merged_or_refused() -> None:
    base = towers()
    ours = copy(base, axis(0), lambda e: e.comment("x", on="n0"), lambda e: e.place("n1", 1, 2))
    lines = text(copy(base, axis(1), insert("abs", "exp")))
    tried = refused = 0
    for seed in range(150):
        rng = random.Random(seed)
        at = rng.randrange(len(lines))
        cut = rng.choice(["", "0", '"', "}", "n1", "v3", "null", lines[at : at + 9] * 2])
        damaged = lines[:at] + cut + lines[at + rng.randrange(4) :]
        tried += 1
        try:
            theirs = graph_of(damaged, "damaged")
        except MaxlabError:
            refused += 1
            continue
        made = maxlab.merge(base, ours, theirs)
        assert text(graph_of(made.text(), "again")) == made.text()
    assert 0 < refused < tried


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('"conflicts": 3', "conflicts is 3"),
        ('"conflicts": [{"id": 1}]', "id of a conflict"),
        ('"conflicts": [{"id": "m0", "kind": "changed", "says": 1}]', "says is 1"),
        ('"conflicts": [{"id": "m0", "kind": "k", "says": "", "parts": [1]}]', "a part is 1"),
        ('"conflicts": [{"id": "m0", "kind": "k", "says": "", "on": [1]}]', "on is"),
    ],
)
def test_conflicts_that_are_none_are_refused(written: str, said: str) -> None:
    with pytest.raises(ParseError, match=said) as caught:
        graph_of(text(towers()).replace('"format"', f'{written},\n "format"', 1), "x")
    assert caught.value.code == "ML864"


def test_a_hostile_side_does_not_get_in() -> None:
    graph = towers()
    data = graph.document.data()
    parts = [
        {"of": ["op", "n2"], "name": "operands", "base": None, "ours": None, "theirs": ["v99"]},
        {"of": ["graph", ""], "name": "", "base": None, "ours": None, "theirs": 7},
    ]
    for part in parts:
        data["conflicts"] = [{"id": "m0", "kind": "changed", "says": "x", "parts": [part]}]
        now = graph_with(*_read(data))
        before = text(now)
        with pytest.raises(GraphError, match="does not fit") as caught:
            Editor(now).resolve("m0", "theirs")
        assert caught.value.code == "ML858"
        assert text(now) == before


def _read(data: dict[str, Any]) -> tuple[Function, Notes]:
    return contents(data, "", "x", 1000)


def test_errors(tmp_path: Path) -> None:
    graph = towers()
    with pytest.raises(ArgumentTypeError) as caught:
        maxlab.merge(graph, graph, 3)
    assert caught.value.code == "ML856"
    with pytest.raises(GraphError) as missing:
        Editor(graph).resolve("m0")
    assert missing.value.code == "ML857"
    with pytest.raises(FileError) as revision:
        maxlab.merge(graph, graph, "HEAD~1:nothing.mlgraph")
    assert revision.value.code == "ML855"


def test_parts_are_the_document() -> None:
    graph = towers()
    graph.document.comments.append(Comment(id="c0", text="a", x=3, y=0))
    graph.document.places["n1"] = Place(x=1, y=2, pinned=True)
    graph.document.folds["a.b"] = True
    assert text(graph_with(*_read(join(split(graph.document.data()))))) == text(graph)
