"""Connecting by hand: the question of a port is answered, and what is dragged is connected."""

from __future__ import annotations

import json

import pytest

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import Graph, TensorType, ops
from maxlab.lab.fields import type_text
from maxlab.lab.protocol import reader
from tests.lab.test_changes import ask, change, ids

F32 = DType.float32


def net() -> Graph:
    types = [TensorType(F32, ["n", 8]), TensorType(F32, [8, 4]), TensorType(F32, ["n", 8])]
    with Graph("net", input_types=types) as graph:
        x, w, y = (value.tensor for value in graph.inputs)
        graph.output(ops.tanh(ops.relu(x) @ w), ops.exp(y))
    return graph


def reach(graph: Graph, value: str = "", op: str = "", operand: int = 0) -> dict[str, str]:
    """The state of each other end, by its operand or value."""
    data = ask(graph, "reach", value=value, op=op, operand=operand)
    question = reader.question_of("reach")
    assert question is not None
    reader.check(json.loads(json.dumps(data)), reader.types_of(question)[1], closed=True)
    return {
        (f"{end['op']}.{end['operand']}" if value else end["value"]): end["state"]
        for end in data["ends"]
    }


def test_both_ends_of_an_edge_are_told_what_fits() -> None:
    graph = net()
    at = ids(graph)
    found = reach(graph, "a2")
    assert found[f"{at['relu']}.0"] == "fits"
    assert found[f"{at['matmul']}.1"] == "refused"
    assert found[f"{at['exp']}.0"] == "same"
    assert found["output.0"] == "fits"
    found = reach(graph, "", at["matmul"], 0)
    assert (found["a0"], found["a1"], found["a2"]) == ("fits", "refused", "fits")
    assert found[f"v{at['tanh'][1:]}"] == "refused"
    assert reach(graph, "", "output", 0)["a1"] == "fits"


@pytest.mark.parametrize("what", [{"value": "a9"}, {"op": "n9"}, {"op": "n1", "operand": 5}])
def test_an_end_that_is_gone_is_refused(what: dict[str, object]) -> None:
    with pytest.raises(MaxlabError, match="ML300"):
        ask(net(), "reach", **{"value": "", "op": "", "operand": 0, **what})


def test_a_value_is_connected_and_the_step_is_undone() -> None:
    graph = net()
    at, before = ids(graph), str(graph)
    done = change(graph, "connect", on=("a2",), op=at["matmul"])
    assert done["said"] == f"matmul {at['matmul']} reads input2"
    assert done["select"] == [at["matmul"]]
    assert "mo.matmul(%a2" in str(graph)
    change(graph, "undo")
    assert str(graph) == before
    done = change(graph, "connect", on=(at["relu"],), op="output", operand=1)
    assert done["said"].startswith("the output reads relu")
    refused = change(graph, "connect", on=("a2",), op=at["matmul"], operand=1)["refused"]
    assert "inner dims" in refused["says"]
    with pytest.raises(MaxlabError, match="2 values"):
        change(graph, "connect", on=("a1", "a2"), op=at["matmul"])


def test_an_operation_is_put_on_an_edge() -> None:
    graph = net()
    at, before = ids(graph), str(graph)
    done = change(graph, "splice", on=(at["exp"],), op=at["matmul"])
    assert done == {**done, "said": f"put exp {at['exp']} on the edge", "select": [at["exp"]]}
    text = str(graph)
    value = f"%v{at['exp'][1:]}"
    assert f"mo.exp(%v{at['relu'][1:]})" in text
    assert f"mo.matmul({value}, %a1)" in text
    change(graph, "undo")
    assert str(graph) == before
    # What reads the operation on the edge now stands before it.
    change(graph, "splice", on=(at["tanh"],), op=at["matmul"])
    assert f"mo.tanh(%v{at['relu'][1:]})" in str(graph)
    change(graph, "undo")
    # An input has nothing to read with: it is connected. What does not fit is refused whole.
    with pytest.raises(MaxlabError, match="inner dims"):
        change(graph, "splice", on=("a1",), op=at["matmul"])
    assert str(graph) == before


def test_the_first_operand_that_takes_what_flows_there_reads_it() -> None:
    types = [TensorType(F32, [3, 7]), TensorType(F32, [4, 3]), TensorType(F32, [3, 5])]
    with Graph("g", input_types=types) as graph:
        x, left, right = (value.tensor for value in graph.inputs)
        graph.output(ops.relu(x), left @ right)
    at = ids(graph)
    change(graph, "splice", on=(at["matmul"],), op=at["relu"])
    assert "mo.matmul(%a1, %a0)" in str(graph)


def test_names_of_operands_are_told() -> None:
    names = ask(net(), "ports")["names"]
    assert names["matmul"] == ["lhs", "rhs"]
    assert names["concat"] == ["original_vals 0"]


# ---------------------------------------------------------------- out of the palette
def carry(graph: Graph, name: str) -> dict[str, tuple[str, str]]:
    """What is said of each value, and of each operand, that ``name`` is dragged to."""
    return {
        f"{end['op']}.{end['operand']}" if end["op"] else end["value"]: (end["state"], end["says"])
        for end in ask(graph, "carry", name=name)["ends"]
    }


def test_what_is_dragged_out_of_the_palette_is_told_where_it_fits() -> None:
    graph = net()
    at, before = ids(graph), graph.document.text()
    found = carry(graph, "tanh")
    assert found["a1"] == ("fits", "float32[8, 4]")
    assert {state for state, _ in found.values()} == {"fits"}
    assert carry(graph, "reshape")["a0"] == ("fits", "asks for shape")
    assert carry(graph, "logical_not")["a0"][0] == "refused"
    # The result goes on to what reads the edge: there its type has to fit.
    found = carry(graph, "argmax")
    assert found["a0"][0] == "fits"
    assert found[f"{at['matmul']}.0"][0] == "refused"
    assert found["output.0"][0] == "fits"
    found = carry(graph, "nn.LayerNorm")
    assert found[f"{at['matmul']}.0"] == ("fits", "float32[n, 8]")
    assert carry(graph, "nn.Embedding")["a0"][0] == "refused"
    assert carry(graph, "conv_block")["a0"][0] == "refused"
    change(graph, "group", on=(at["exp"],), name="squash")
    assert carry(graph, "call squash")["a2"] == ("fits", "float32[n, 8]")
    assert carry(graph, "call squash")["a1"][0] == "refused"
    change(graph, "undo")
    assert carry(graph, "no such")["a0"] == ("refused", "no such does not read it")
    assert graph.document.text() == before


@pytest.mark.parametrize("name", ["tanh", "argmax", "reshape", "softmax", "nn.ReLU", "nn.RMSNorm"])
def test_what_is_said_of_a_drop_is_what_it_does(name: str) -> None:
    graph = net()
    typed = {"shape": "-1"} if name == "reshape" else {}
    for end in ask(graph, "carry", name=name)["ends"]:
        way = {"do": "insert" if end["op"] else "add", "on": [] if end["op"] else [end["value"]]}
        args = {"name": name, "op": end["op"], "operand": end["operand"], "fields": typed, **way}
        try:
            done = ask(graph, "change", **args)
        except MaxlabError:
            # What has yet to be typed is not known before.
            assert end["state"] != "fits" or end["says"].startswith("asks for"), end
            continue
        assert end["state"] != "refused", end
        if not end["says"].startswith("asks for"):
            made = graph.function.ops[
                [op.id for op in graph.function.ops].index(done["select"][-1])
            ]
            assert type_text(made.results[0].type) == end["says"]
        change(graph, "undo")


def test_a_large_graph_is_told_of_at_once() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 8])]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(600):
            x = ops.tanh(x)
        graph.output(x)
    ends = ask(graph, "carry", name="relu")["ends"]
    assert len(ends) == 1202
    assert {end["state"] for end in ends} == {"fits"}


# ---------------------------------------------------------------- what is known of an entry
def test_an_entry_tells_its_parameters_and_an_example() -> None:
    graph = net()
    found = ask(graph, "about", name="softmax", way="add", on=["input0"], op="", operand=0)
    assert [p["name"] for p in found["parameters"]] == ["value", "axis"]
    assert found["parameters"][1]["default"] == "-1"
    assert "ops.softmax(" in found["example"]
    found = ask(graph, "about", name="nn.Linear", way="add", on=["input0"], op="", operand=0)
    assert found["says"].startswith("The linear map y = x @ weight.T + bias")
    assert "nn.Linear(256, 128" in found["example"]
    named = {p["name"]: p for p in found["parameters"]}
    assert named["in_dim"]["says"] == "The size of the last dim of the input."
    assert "seed" in named
    assert (
        "mlp"
        in ask(graph, "about", name="mlp", way="add", on=["input0"], op="", operand=0)["example"]
    )
    with pytest.raises(MaxlabError, match="no 'nothing' to add"):
        ask(graph, "about", name="nothing", way="add", on=[], op="", operand=0)
