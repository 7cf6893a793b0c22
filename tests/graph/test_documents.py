"""Documents of graphs: what is saved is opened the same, to the bit and to the byte."""

from __future__ import annotations

import copy
import json
import pickle
import random
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest

import maxlab
from maxlab import engine, nn
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DocumentError, GraphError
from maxlab.graph import Comment, DeviceRef, Draft, Editor, Graph, Module, Place, TensorType, ops
from maxlab.graph.document import Document, parse
from maxlab.ir import Constant, Function
from maxlab.ir.printer import generic
from maxlab.lab.snapshot import take
from maxlab.opset import custom
from tests.compiler.programs import Program
from tests.compiler.test_matrix import CASES, Case, build
from tests.compiler.whole import Whole
from tests.engine.test_saved_graphs import KERNELS, rich
from tests.ir.edit_steps import Steps, function, texts
from tests.ir.test_text import same

CPU = DeviceRef.CPU()
F32 = DType.float32
ROW = TensorType(F32, ["n", 4])


class Of:
    """A function alone, as a document takes it."""

    input_names: tuple[str, ...] = ()
    scope_types: Mapping[str, str] = MappingProxyType({})

    def __init__(self, function: Function) -> None:
        self.function = function

    def body_scopes(self) -> Mapping[Function, Mapping[str, str]]:
        """There are no modules."""
        return {}


def written(function: Function) -> str:
    """The text of the document of ``function``, which is read back the same."""
    text = Document(Of(function)).text()
    made, notes = parse(text, "<document>")
    assert generic(made) == generic(function)
    assert same(made, function)
    assert Document(Of(made), notes).text() == text
    return text


def small() -> Graph:
    """A graph with a constant of each size, a name and an output."""
    with Graph("small", input_types=[ROW]) as graph:
        table = ops.constant(np.arange(40, dtype=np.float32).reshape(10, 4), F32, CPU)
        x: Any = graph.inputs[0].tensor
        graph.output(ops.softmax((x + ops.constant([1, 2, 3, 4], F32, CPU)) @ table.T))
    return graph


# ---------------------------------------------------------------- the same graph
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_op_is_read_back_the_same(case: Case) -> None:
    written(build(case)[0])


@pytest.mark.parametrize("seed", range(64))
def test_random_programs_are_read_back_the_same(seed: int) -> None:
    program: Program = Whole(seed).make()
    written(program.function)


@pytest.mark.parametrize("name", texts())
def test_what_graphs_have_is_read_back_the_same(name: str) -> None:
    """Attributes, loops and branches, chains, weights, calls and subgraphs."""
    written(function(name))


@pytest.mark.parametrize("name", texts())
@pytest.mark.parametrize("seed", range(8))
def test_what_edits_make_is_read_back_the_same(name: str, seed: int) -> None:
    """Attributes of every kind, names with quotes, ops whose order was changed."""
    chosen = random.Random(f"{name}/{seed}")
    changed = function(name)
    steps = Steps(changed)
    actions = [steps.add_op, steps.add_region, steps.remove_op]
    for _ in range(30):
        chosen.choice(actions)(*(chosen.randrange(1000) for _ in range(3)))
    text = Document(Of(changed)).text()
    # Steps make ops that no table has, which `parse` does not ask.
    assert generic(parse(text, "<document>")[0]) == generic(changed)


def test_constants_of_every_dtype_keep_their_bits(tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 256, 8 * 40, np.uint8)
    f = Function("data")
    arrays = []
    for dtype in DType:
        kind = dtype.ml_numpy
        raw = bits & 1 if dtype is DType.bool else bits
        array = raw[: 40 * kind.itemsize].view(kind).reshape(5, 8)
        arrays.append(array)
        attrs = {"value": Constant(array), "device": CPU}
        f.block.append(f.create("mo.constant", [], [TensorType(dtype, [5, 8])], attrs))
    f.block.append(f.ending([]))
    text = written(f)
    made, _ = parse(text, "<document>")
    for op, array in zip(made.ops, arrays, strict=False):
        value: Any = op.attrs["value"]
        assert value.array.dtype == array.dtype
        assert value.array.tobytes() == array.tobytes()


def test_equal_constants_are_written_once() -> None:
    with Graph("twice") as graph:
        data = np.arange(40, dtype=np.float32)
        graph.output(*(ops.constant(data, F32, CPU) + n for n in range(3)))
    found = json.loads(graph.document.text())["constants"]
    assert len(found) == 1


def test_a_function_of_this_process_is_not_written() -> None:
    f = Function("f")
    f.block.append(f.create("mo.test", [], [], {"value": object()}))
    with pytest.raises(GraphError, match="cannot be an attribute") as caught:
        Document(Of(f)).text()
    assert caught.value.code == "ML355"


# ---------------------------------------------------------------- files
def test_saving_opening_and_saving_gives_the_same_bytes(tmp_path: Path) -> None:
    graph = rich(CPU, [KERNELS])
    first, second, third = (tmp_path / f"{n}.mlgraph" for n in range(3))
    graph.save(first)
    graph.save(second)
    opened = maxlab.open(first)
    assert isinstance(opened, Graph)
    opened.save(third)
    assert first.read_bytes() == second.read_bytes() == third.read_bytes()
    assert generic(opened.function) == generic(graph.function)
    assert opened.name == "rich"


def test_every_reader_of_graphs_reads_documents(tmp_path: Path) -> None:
    graph = small()
    path = tmp_path / "small.mlgraph"
    graph.save(path)
    text = generic(graph.function)
    assert generic(Graph(path=path).function) == text
    assert Graph("other", path=path).name == "other"
    assert generic(Module(path)["small"].function) == text
    assert generic(Graph("g").add_subgraph("small", path=path).function) == text
    x = np.ones((2, 4), np.float32)
    (want,) = engine.InferenceSession().load(graph)(x)
    (got,) = maxlab.load(path)(x)
    assert got.to_numpy().tobytes() == want.to_numpy().tobytes()


def test_what_is_in_a_file_decides_and_not_its_name(tmp_path: Path) -> None:
    graph = small()
    graph.save(tmp_path / "a.mlgraph")
    graph.save(tmp_path / "b.mlir")
    (tmp_path / "a.mlgraph").rename(tmp_path / "c.txt")
    document, text = maxlab.open(tmp_path / "c.txt"), maxlab.open(tmp_path / "b.mlir")
    assert str(document) == str(text) == str(graph)
    assert isinstance(text, Graph)
    text.save(tmp_path / "d.mlgraph")
    assert (tmp_path / "d.mlgraph").read_bytes() == (tmp_path / "c.txt").read_bytes()


def test_an_open_graph_goes_on(tmp_path: Path) -> None:
    small().save(tmp_path / "g.mlgraph")
    graph = maxlab.open(tmp_path / "g.mlgraph")
    assert isinstance(graph, Graph)
    editor = Editor(graph)
    before = graph.document.text()
    (made,) = editor.add("exp", "input0")
    editor.set_outputs(made)
    assert graph.document.text() != before
    assert editor.undo()
    assert editor.undo()
    assert graph.document.text() == before


def test_copies_keep_what_is_beside_the_graph() -> None:
    graph = small()
    graph.document.folds["layer"] = True
    for made in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert made.document.text() == graph.document.text()


def test_what_is_opened_is_drawn_as_before(tmp_path: Path) -> None:
    """With the names that the program has for inputs, and the classes of modules."""
    layers = nn.Sequential([nn.Linear(4, 8, F32, CPU), nn.Linear(8, 3, F32, CPU)])

    def forward(words: Any) -> Any:
        return layers(words)

    graph = Graph("layers", forward, [ROW])
    graph.save(tmp_path / "g.mlgraph")
    opened = maxlab.open(tmp_path / "g.mlgraph")
    assert isinstance(opened, Graph)
    drawn, again = take(graph).document, take(opened).document
    assert {**drawn, "revision": 0} == {**again, "revision": 0}
    assert "Linear" in {scope["type"] for scope in again["scopes"]}
    assert opened.document.text() == graph.document.text()
    # A scope whose operations are undone leaves nothing behind.
    editor = Editor(opened)
    with editor.step():
        nn.Linear(4, 2, F32, CPU, name="more")(opened.inputs[0].tensor)
    assert opened.document.text() != graph.document.text()
    editor.undo()
    assert opened.document.text() == graph.document.text()


# ---------------------------------------------------------------- what Git shows
def test_one_more_op_is_few_lines() -> None:
    graph = small()
    before = graph.document.text().splitlines()
    Editor(graph).insert("exp", "n5", 0)
    after = graph.document.text().splitlines()
    gone, new = set(before) - set(after), set(after) - set(before)
    assert sum('"mo.exp"' in line for line in new) == 1
    assert sum('"name": "mo.' in line for line in gone) == 1  # the one that reads it
    assert len(gone) <= 2  # and the place in the program that it came from


def test_keys_are_sorted_and_lists_have_a_line_an_item() -> None:
    graph = small()
    graph.document.places["n1"] = Place(x=1, y=2)
    graph.document.comments.append(Comment(id="c0", text="é \u2028 \ud800 </script>"))
    text = graph.document.text()
    text.encode("utf-8")  # half of a surrogate pair is escaped
    data = json.loads(text)

    def check(value: Any) -> None:
        if isinstance(value, dict):
            assert list(value) == sorted(value)
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, (dict, list)):
                check(inner)

    check(data)
    lines = text.splitlines()
    for op in data["graph"]["ops"]:
        assert sum(f'"id": "{op["id"]}", "name": "mo.' in line for line in lines) == 1
    assert data["comments"][0]["text"] == "é \u2028 \ud800 </script>"


# ---------------------------------------------------------------- beside the graph
def annotated() -> Graph:
    """A graph with everything that stands beside one."""
    graph = small()
    document = graph.document
    document.places["n3"] = Place(x=40, y=-1.5, pinned=True)
    document.places["box:encoder.0"] = Place(x=0, y=0)
    document.folds["encoder.0"] = True
    document.comments.append(Comment(id="c0", text="why?", on="n3"))
    document.comments.append(Comment(id="c1", text="two\nlines", x=3, y=4))
    document.drafts.append(
        Draft(
            id="n90",
            name="mo.matmul",
            reason="operand 1 is missing",
            operands=("a0", None),
            attrs={"axis": "-1"},
        )
    )
    return graph


def test_layout_comments_and_drafts_are_kept(tmp_path: Path) -> None:
    graph = annotated()
    graph.save(tmp_path / "g.mlgraph")
    opened = Graph(path=tmp_path / "g.mlgraph")
    mine, its = graph.document, opened.document
    assert its.notes == mine.notes
    assert its.places == mine.places
    assert its.folds == mine.folds
    assert its.comments == mine.comments
    assert its.drafts == mine.drafts
    assert opened.document.text() == graph.document.text()
    assert "n90" not in str(opened)  # a draft is no operation of the graph
    x = np.ones((2, 4), np.float32)
    assert engine.InferenceSession().load(opened)(x)[0].shape == (2, 10)  # which runs


def test_new_ops_get_no_id_that_something_speaks_of(tmp_path: Path) -> None:
    annotated().save(tmp_path / "g.mlgraph")
    opened = Graph(path=tmp_path / "g.mlgraph")
    Editor(opened).add("exp", "input0")
    assert opened.function.find("n91") is not None


def test_what_is_saved_is_opened_though_an_op_has_the_id_of_a_draft() -> None:
    graph = annotated()
    graph.document.drafts.append(Draft(id="n3", name="mo.exp", reason="an operand is missing"))
    made, notes = parse(graph.document.text(), "<document>")
    assert generic(made) == generic(graph.function)
    assert Document(Of(made), notes).drafts == graph.document.drafts


def test_new_ops_do_not_get_the_ids_of_drafts() -> None:
    graph = annotated()
    Editor(graph).add("exp", "input0")
    assert graph.function.find("n91") is not None


def test_what_is_too_large_to_be_opened_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = annotated()
    text = graph.document.text()
    for name, place in (
        ("MOST_OPS", "maxlab.graph.document"),
        ("MOST_VALUES", "maxlab.graph.document_json"),
        ("MOST_BYTES", "maxlab.graph.document_json"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"{place}.{name}", 5)
            with pytest.raises(DocumentError, match=r"\.mlir") as caught:
                graph.document.text()
            assert caught.value.code == "ML867"
    assert graph.document.text() == text


def test_fields_that_are_not_known_are_kept() -> None:
    data = json.loads(annotated().document.text())
    data["later"] = {"ops": [1, 2]}
    data["graph"]["colour"] = "red"
    data["graph"]["ops"][1]["ink"] = {"b": 1, "a": [None]}
    data["graph"]["inputs"][0]["form"] = "random"
    data["layout"]["zoom"] = 0.5
    data["layout"]["places"]["n3"]["w"] = 7
    data["comments"][0]["by"] = "ada"
    data["drafts"][0]["since"] = 1
    made, notes = parse(json.dumps(data), "<document>")
    again = Document(Of(made), notes).text()
    assert json.loads(again) == data
    made, notes = parse(again, "<document>")
    assert Document(Of(made), notes).text() == again


def test_fields_of_regions_and_subgraphs_that_are_not_known_are_kept() -> None:
    for name in ("regions", "subgraph"):
        data = json.loads(written(function(name)))

        def mark(graph: dict[str, Any]) -> None:
            for inner in (*graph.get("subgraphs", []), *graph["ops"]):
                inner["x-mark"] = inner.get("id", inner["name"])
                for region in inner.get("regions", []):
                    mark(region)
                if "ops" in inner:
                    mark(inner)

        mark(data["graph"])
        made, notes = parse(json.dumps(data), "<document>")
        assert json.loads(Document(Of(made), notes).text()) == data


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.places.update(n1=Place(x=float("inf"), y=0)), "x is inf"),
        (lambda d: d.places.update({3: Place(x=1, y=0)}), "3"),
        (lambda d: d.folds.update(a="yes"), "expected true or false"),
        (lambda d: d.comments.append(Comment(id="c9", text=cast("Any", b"x"))), "expected a text"),
        (lambda d: d.comments.extend([Comment(id="c", text="")] * 2), "two comments"),
        (lambda d: d.comments.append(Comment(id="c", text="", more={"a": {1, 2}})), "set"),
        (
            lambda d: d.drafts.append(
                Draft(id="d", name="x", reason="", operands=cast("Any", (1,)))
            ),
            "operands",
        ),
    ],
)
def test_what_no_file_can_hold_is_refused_at_once(change: Any, said: str) -> None:
    graph = annotated()
    before = graph.document.text()
    with pytest.raises(DocumentError) as caught:
        change(graph.document)
    assert caught.value.code == "ML867"
    assert said in caught.value.what
    assert graph.document.text() == before


# ---------------------------------------------------------------- trust
def test_kernels_of_a_stranger_run_only_when_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = KERNELS.replace("BY * load", "1 * BY * load")  # which nothing else declares
    with Graph("g", input_types=[ROW], custom_extensions=[text]) as graph:
        graph.output(*ops.custom("scaled", CPU, [graph.inputs[0]], [ROW], {"BY": 3}))
    path = tmp_path / "g.mlgraph"
    graph.save(path)
    x = np.ones((2, 4), np.float32)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "another user"))
    with mock.patch.dict(custom.DECLARED, clear=True):  # as in another process
        opened = maxlab.open(path)
        assert isinstance(opened, Graph)
        with pytest.raises(ArgumentError, match=r"trusted=True") as caught:
            engine.InferenceSession().load(opened)
        assert caught.value.code == "ML760"
        assert not custom.DECLARED
        # All else works.
        editor = Editor(opened)
        editor.insert("exp", "n1", 0)
        editor.undo()
        opened.save(tmp_path / "again.mlgraph")
        assert (tmp_path / "again.mlgraph").read_bytes() == path.read_bytes()
        assert [node["name"] for node in take(opened).document["nodes"]] == ["scaled"]
        trusted = maxlab.open(path, trusted=True)
        assert isinstance(trusted, Graph)
        (y,) = engine.InferenceSession().load(trusted)(x)
    assert (y.to_numpy() == 3).all()
