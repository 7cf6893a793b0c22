"""``maxlab.diff`` of two graphs: what it finds, as text and as a document."""

from __future__ import annotations

from typing import Any

import pytest

import maxlab
from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.graph import Graph, TensorType, ops
from maxlab.lab.display import mimebundle
from maxlab.lab.documents import checked_document
from maxlab.lab.graph_diff import GraphDiff
from maxlab.lab.protocol import GRAPH_MIME
from tests.lab.graphs import layered


def build(is_new: bool, dtype: DType = DType.float32) -> Graph:
    with Graph("model", input_types=[TensorType(dtype, ["n", 8])]) as graph:
        x = ops.relu(graph.inputs[0].tensor * (2.0 if is_new else 3.0))
        x = ops.tanh(x) if is_new else x
        x = ops.softmax(x, axis=-1 if is_new else 0)
        x = x if is_new else ops.exp(x)
        graph.output(ops.sqrt(x))
    return graph


def test_what_came_went_and_changed() -> None:
    found = maxlab.diff(build(False), build(True))
    assert isinstance(found, GraphDiff)
    assert str(found).splitlines() == [
        "model (before) → model (after): 1 added, 1 removed, 3 changed",
        "~ constant (n0)",
        "    value: 3 → 2",
        "+ tanh (n3)",
        "    → f32[n, 8]",
        "~ softmax (n3 → n4)",
        "    axis: 0 → -1",
        "    operand 0: relu n2 → tanh n3",
        "- exp (n4)",
        "    → f32[n, 8]",
        "~ sqrt (n5)",
        "    operand 0: exp n4 → softmax n4",
    ]
    assert repr(found) == "GraphDiff(model (before) → model (after): 1 added, 1 removed, 3 changed)"
    assert found.pairs["n3"] == "n4"
    assert found.table(1).endswith("… 4 more")


def test_types_and_ends() -> None:
    found = maxlab.diff(build(True), build(True, DType.float64))
    told = {one["name"]: one["what"] for one in found.differences}
    assert told["input 0"] == ["dtype: float32 → float64"]
    assert told["softmax"] == ["dtype: float32 → float64"]
    assert told["output 0"] == ["dtype: float32 → float64"]
    assert {one["kind"] for one in found.differences} == {"changed"}


def test_what_an_attribute_says_is_said_once() -> None:
    def narrowed(dtype: DType) -> Graph:
        with Graph("narrowed", input_types=[TensorType(DType.float32, [4])]) as graph:
            graph.output(ops.cast(graph.inputs[0].tensor, dtype))
        return graph

    [cast, _] = maxlab.diff(narrowed(DType.float16), narrowed(DType.bfloat16)).differences
    assert (cast["name"], cast["what"]) == ("cast", ["dtype: f16 → bf16"])


def test_inputs_more_and_less() -> None:
    def added(count: int) -> Graph:
        with Graph("sum", input_types=[TensorType(DType.float32, [4])] * count) as graph:
            x = graph.inputs[0].tensor
            for other in graph.inputs[1:]:
                x = x + other.tensor
            graph.output(x)
        return graph

    grown = maxlab.diff(added(2), added(3))
    assert [(one["kind"], one["name"]) for one in grown.differences] == [
        ("added", "input 2"),
        ("added", "add"),
        ("changed", "output 0"),
    ]
    assert grown.differences[-1]["what"] == ["comes from: add n0 → add n1"]
    less = maxlab.diff(added(3), added(2))
    assert [one["kind"] for one in less.differences] == ["removed", "removed", "changed"]


def test_the_same() -> None:
    found = maxlab.diff(layered(3), layered(3))
    assert found.differences == []
    assert str(found) == "layered (before) → layered (after): no difference"


def test_models_stand_for_their_graphs() -> None:
    graphs = [build(is_new) for is_new in (False, True)]
    models = [engine.InferenceSession().load(graph) for graph in graphs]
    assert str(maxlab.diff(*models)) == str(maxlab.diff(*graphs))


def test_the_document_brings_both_graphs() -> None:
    found = maxlab.diff(layered(2), layered(3))
    document: Any = checked_document(found.document)
    assert checked_document(document["beside"]["before"])["name"] == "layered"
    assert len(document["beside"]["pairs"]) == len(found.pairs)
    assert GRAPH_MIME in mimebundle(found)


def test_what_cannot_be_compared() -> None:
    graph = build(True)
    with pytest.raises(ArgumentTypeError, match="ML898"):
        maxlab.diff(graph, "before.mlprof")
    with pytest.raises(ArgumentTypeError, match="ML899"):
        maxlab.diff(graph, graph, graph)
    with pytest.raises(ArgumentError, match="ML887"):
        maxlab.diff(graph)


# ---------------------------------------------------------------- plans
def test_plans_are_compared_by_what_runs() -> None:
    models = [engine.InferenceSession().load(build(is_new)) for is_new in (False, True)]
    one, other = (model.plan for model in models)
    found = maxlab.diff(one, other)
    assert found == one.diff(other)
    assert found
    assert not maxlab.diff(one, one)
    assert str(found) != str(maxlab.diff(*models)), "of models, the graphs are compared"


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("what", ["model", "graph", "run"])
def test_a_plan_is_compared_with_a_plan_alone(what: str, turned: bool) -> None:
    model = engine.InferenceSession().load(build(True))
    other = {"model": model, "graph": model.graph, "run": "before.mlprof"}[what]
    given = (other, model.plan) if turned else (model.plan, other)
    with pytest.raises(ArgumentTypeError, match="ML898") as caught:
        maxlab.diff(*given)
    assert "a Plan" in caught.value.what
    assert "diff(model_a.plan, model_b.plan)" in str(caught.value.fix)


@pytest.mark.parametrize("count", [1, 3])
def test_two_plans_are_compared(count: int) -> None:
    plan = engine.InferenceSession().load(build(True)).plan
    with pytest.raises(ArgumentTypeError, match=f"two plans are compared, got {count}"):
        maxlab.diff(*[plan] * count)
