"""Groups that are one subgraph, in a document that is closed and opened again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import engine, nn
from maxlab.dtype import DType
from maxlab.errors import ParseError
from maxlab.graph import DeviceRef, Editor, Graph, TensorType, Weight, ops
from maxlab.graph.reading import graph_of
from maxlab.lab.questions.answering import answer

ROW = TensorType(DType.float32, ["n", 4])


def grouped() -> Graph:
    """Two operations that are one group, called twice."""
    with Graph("twice", input_types=[ROW]) as graph:
        graph.output(ops.tanh(ops.exp(graph.inputs[0].tensor)))
    editor = Editor(graph)
    editor.group("n0", "n1", name="squash")
    output = graph.function.output
    assert output is not None
    editor.set_outputs(*editor.call("squash", output.operands[0].id))
    return graph


def nested() -> Graph:
    """A group in a group, which has a large constant, and a call of the inner one outside."""
    with Graph("nested", input_types=[ROW]) as graph:
        table = ops.constant(np.arange(64, dtype=np.float32).reshape(16, 4) / 64)
        graph.output(ops.relu(ops.exp(graph.inputs[0].tensor) @ ops.transpose(table, 0, 1)))
    editor = Editor(graph)
    found = {op.name: op.id for op in graph.function.ops}
    editor.group(found["mo.exp"], name="inner")
    editor.group(*(op.id for op in graph.function.ops if op.name != "mo.output"), name="outer")
    editor.call("inner", graph.inputs[0])
    return graph


def written() -> Graph:
    """A subgraph of the program, whose inputs are read in another order, one of them by nobody."""
    kind = TensorType(DType.float32, [4])
    with Graph("program", input_types=[ROW, ROW]) as graph:

        def body(a: Any, b: Any, c: Any) -> Any:
            scale = ops.constant(np.float32(2), DType.float32, DeviceRef.CPU())
            return (b.tensor - a.tensor) * scale

        part = graph.add_subgraph("part", body, [ROW, ROW, kind])
        zeros = ops.constant(np.zeros(4, np.float32))
        x, y = graph.inputs
        (first,) = ops.call(part, x, y, zeros)
        (second,) = ops.call(part, first, first, zeros)
        graph.output(second)
    return graph


def weighted() -> Graph:
    """A subgraph with a weight that both of its calls have."""
    with Graph("weighted", input_types=[ROW]) as graph:
        part = graph.add_subgraph("part", input_types=[ROW])
        with part:
            weight = Weight("w", DType.float32, [4], DeviceRef.CPU())
            part.output(part.inputs[0].tensor * part.add_weight(weight))
        (a,) = ops.call(part, graph.inputs[0], prefix="one.")
        (b,) = ops.call(part, a, prefix="two.")
        graph.output(b)
    return graph


BUILT = [grouped, nested, written, weighted]


def reopened(graph: Graph) -> Graph:
    return graph_of(graph.document.text(), graph.name)


@pytest.mark.parametrize("build", BUILT)
def test_a_group_is_called_after_reopening_as_if_it_had_stayed_open(
    build: Callable[[], Graph],
) -> None:
    graph = build()
    other = reopened(graph)
    assert other.document.text() == graph.document.text()
    assert [call.scope for call in other.function.calls] == [
        call.scope for call in graph.function.calls
    ]
    assert list(other.subgraphs) == list(graph.subgraphs)
    for one in (graph, other):
        editor = Editor(one)
        for name, subgraph in list(one.subgraphs.items()):
            given = [
                next(v for v in values(one) if v.type == wanted.type)
                for wanted in subgraph.body.inputs
            ]
            editor.call(name, *(value.id for value in given))
    assert other.document.text() == graph.document.text()
    assert len(other.function.calls) == len(graph.function.calls)
    assert reopened(other).document.text() == graph.document.text()


def values(graph: Graph) -> list[Any]:
    made = [value for op in graph.function.ops for value in op.results]
    return [*graph.function.inputs, *made]


def test_the_palette_offers_it_and_an_edit_ends_it(tmp_path: Any) -> None:
    grouped().save(tmp_path / "g.mlgraph")
    graph = maxlab.open(tmp_path / "g.mlgraph")
    assert isinstance(graph, Graph)
    args = {"way": "add", "on": ["a0"], "op": "", "operand": 0}
    offers = answer(graph, "offer", args).data["offers"]
    assert "call squash" in [offer["name"] for offer in offers]
    Editor(graph).replace("n0", "abs")
    assert len(graph.function.calls) == 1
    Editor(graph).dissolve("squash.1")
    assert graph.function.calls == []
    assert "groups" not in json.loads(graph.document.text())


def test_it_is_compiled_as_it_was() -> None:
    graph = grouped()
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    session = engine.InferenceSession()
    (mine,), (theirs,) = (
        [out.to_numpy() for out in session.load(one)(x)] for one in (graph, reopened(graph))
    )
    assert (mine == theirs).all()


def edited(change: Callable[[dict[str, Any]], None]) -> str:
    data = json.loads(grouped().document.text())
    change(data)
    return json.dumps(data)


def test_a_call_whose_operations_are_others_is_none() -> None:
    """As after a merge: what the graph computes is in its operations alone."""

    def change(data: dict[str, Any]) -> None:
        next(op for op in data["graph"]["ops"] if op["id"] == "n0")["name"] = "mo.relu"

    graph = graph_of(edited(change), "merged")
    assert [call.scope for call in graph.function.calls] == ["squash.1"]

    def removed(data: dict[str, Any]) -> None:
        data.pop("groups")

    assert graph_of(edited(removed), "old").function.calls == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda groups: groups.update(subgraphs=3), "the subgraphs of the groups are 3"),
        (lambda groups: groups.update(calls=[3]), "a call of the groups is 3"),
        (lambda groups: groups["calls"][0].update(of=7), "of the subgraph 7, and 1 are before it"),
        (lambda groups: groups["calls"][0].update(of=True), "of the subgraph True"),
        (lambda groups: groups["calls"][0].update(ids={"n0": 3}), "the ids of a call"),
        (lambda groups: groups["calls"][0].update(operands="a0"), "the operands of a call"),
        (lambda groups: groups["calls"][0].update(scope=None), "the scope of a call is None"),
        (
            lambda groups: groups["subgraphs"][0].update(calls=[{"of": 0, "ids": {}}]),
            "of the subgraph 0, and 0 are before it",
        ),
    ],
)
def test_what_is_no_group_is_refused(change: Any, says: str) -> None:
    with pytest.raises(ParseError, match="ML864") as caught:
        graph_of(edited(lambda data: change(data["groups"])), "damaged")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda call: call.update(operands=["v99"]),
        lambda call: call.update(operands=[]),
        lambda call: call.update(ids={}),
        lambda call: call.update(ids=dict.fromkeys(call["ids"], "n99")),
        lambda call: call.update(scope="elsewhere"),
    ],
)
def test_a_call_that_speaks_of_what_is_not_there_is_none(change: Any) -> None:
    graph = graph_of(edited(lambda data: change(data["groups"]["calls"][0])), "damaged")
    assert [call.scope for call in graph.function.calls] == ["squash.1"]
    x = np.ones((2, 4), np.float32)
    assert np.isfinite(engine.InferenceSession().load(graph)(x)[0].to_numpy()).all()


def layered() -> Graph:
    """Two layers of a module that are one group."""
    layer = nn.Sequential(nn.Linear(4, 4, DType.float32, DeviceRef.CPU()), nn.ReLU())
    with Graph("layers", input_types=[ROW]) as graph:
        graph.output(layer(graph.inputs[0].tensor))
    ids = [op.id for op in graph.function.ops if op.name != "mo.output"]
    Editor(graph).group(*ids, name="block")
    return graph


def test_the_classes_of_modules_in_a_group_are_kept() -> None:
    """Called once more after it is opened, it is drawn as the layers that it is made of."""
    graph = layered()
    again = graph_of(graph.document.text(), "x")
    assert again.document.text() == graph.document.text()
    for one in (graph, again):
        before = dict(one.scope_types)
        for path in before:
            if path.startswith("block"):
                del one.scope_types[path]
        Editor(one).call("block", one.inputs[0])
        assert dict(one.scope_types) == before
        assert before["block.0"] == "Linear"


@pytest.mark.parametrize("scopes", [[], "Linear", {"0": 1}])
def test_classes_of_modules_in_a_group_are_texts(scopes: Any) -> None:
    data = json.loads(layered().document.text())
    data["groups"]["subgraphs"][0]["scopes"] = scopes
    with pytest.raises(ParseError, match="ML864"):
        graph_of(json.dumps(data), "x")
