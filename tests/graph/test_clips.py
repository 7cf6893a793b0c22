"""``Editor.copy`` and ``Editor.paste``: operations as a text, from graph to graph."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import GraphError, MaxlabError, ParseError
from maxlab.graph import BufferType, DeviceRef, Editor, Graph, Place, TensorType, Weight, ops
from maxlab.ir.printer import generic
from maxlab.opset.verify import verify

F32, CPU = DType.float32, DeviceRef.CPU()
ROWS = TensorType(F32, ["n", 4])


def run(graph: Graph, *inputs: Any, **weights: Any) -> list[np.ndarray[Any, Any]]:
    model = engine.InferenceSession().load(graph, weights_registry=weights)
    return [y.to_numpy() for y in model(*inputs)]


def net() -> Graph:
    """``softmax(tanh(x @ w) * 2)``; the product is called ``scores``."""
    with Graph("net", input_types=[ROWS]) as graph:
        scores = graph.inputs[0].tensor @ Weight("w", F32, [4, 4], CPU)
        graph.output(ops.softmax(ops.tanh(scores) * 2))
    Editor(graph).rename("v1", "scores")
    return graph


def other(*types: Any) -> Graph:
    with Graph("other", input_types=types or [ROWS]) as graph:
        graph.output(graph.inputs[0])
    return graph


def ids(graph: Graph, *names: str) -> list[str]:
    return [op.id for op in graph.function.ops if op.name.removeprefix("mo.") in names]


X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
W = np.linspace(1, -1, 16, dtype=np.float32).reshape(4, 4)


def test_all_of_a_graph_computes_the_same_in_another() -> None:
    graph, target = net(), other()
    text = Editor(graph).copy(*(op.id for op in graph.function.ops if not op.ends_block))
    editor = Editor(target)
    made = editor.paste(text)
    assert [op.name for op in made] == [op.name for op in graph.function.ops[:-1]]
    assert [v.name for v in target.function.inputs] == ["input0"]
    editor.set_outputs(made[-1].results[0].id)
    np.testing.assert_array_equal(run(target, X, w=W)[0], run(graph, X, w=W)[0])
    assert editor.undo()
    assert editor.undo()
    assert not editor.undo()


def test_equal_operations_have_equal_texts() -> None:
    graph = net()
    text = Editor(graph).copy(*ids(graph, "tanh", "mul"))
    assert text == Editor(graph).copy(*reversed(ids(graph, "tanh", "mul")))
    data = json.loads(text)
    assert (data["format"], data["version"]) == ("maxlab.clip", 1)
    assert data["from"]["reads"] == ["v1", "v3"]
    assert [v.get("name") for v in data["graph"]["inputs"]] == ["scores", None]
    assert "sources" not in data["graph"]
    assert [op["name"] for op in data["graph"]["ops"][:2]] == ["mo.tanh", "mo.mul"]


def test_what_is_pasted_where_it_was_copied_reads_the_same_values() -> None:
    graph = net()
    editor = Editor(graph)
    made = editor.paste(editor.copy(*ids(graph, "tanh", "mul")))
    assert [v.id for v in made[0].operands] == ["v1"]
    assert len(graph.function.inputs) == 1
    verify(graph.function)


def test_values_of_the_same_name_and_type_are_read_and_others_become_inputs() -> None:
    graph = net()
    text = Editor(graph).copy(*ids(graph, "tanh"))
    named = other(ROWS, ROWS)
    Editor(named).rename("input1", "scores")
    (made,) = Editor(named).paste(text)
    assert made.operands[0] is named.function.inputs[1]
    for target in (other(), other(TensorType(F32, [4, 4]))):
        (made,) = Editor(target).paste(text)
        assert made.operands[0] is target.function.inputs[1]
        assert (target.function.inputs[1].name, target.function.inputs[1].type) == ("scores", ROWS)
    twice = other(TensorType(F32, [3]))
    Editor(twice).rename("input0", "scores")
    Editor(twice).paste(text)
    assert [v.name for v in twice.function.inputs] == ["scores", "scores_2"]


@pytest.mark.parametrize("dims", [["n", 4], ["batch", 4], [2, 4], [2, 3, 4]])
def test_what_is_selected_is_read_whatever_its_sizes(dims: list[int | str]) -> None:
    graph = net()
    text = Editor(graph).copy(*ids(graph, "tanh", "softmax", "mul", "constant"))
    target = other(TensorType(F32, dims))
    editor = Editor(target)
    made = editor.paste(text, onto="input0")
    editor.set_outputs(made[-1].results[0].id)
    assert target.output_types == [TensorType(F32, dims)]
    verify(target.function)
    x = np.linspace(-1, 1, 24 if len(dims) == 3 else 8, dtype=np.float32)
    x = x.reshape([2, 3, 4] if len(dims) == 3 else [2, 4])
    e = np.exp(2 * np.tanh(x))
    np.testing.assert_allclose(run(target, x)[0], e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_dims_in_attributes_are_those_of_what_is_read() -> None:
    with Graph("g", input_types=[ROWS]) as graph:
        graph.output(ops.reshape(graph.inputs[0].tensor, ["n", 2, 2]))
    text = Editor(graph).copy(*ids(graph, "reshape"))
    target = other(TensorType(F32, ["batch", 4]))
    editor = Editor(target)
    (made,) = editor.paste(text, onto=["input0"])
    assert made.results[0].type == TensorType(F32, ["batch", 2, 2])


def test_a_weight_of_the_graph_is_not_added_again() -> None:
    graph = net()
    editor = Editor(graph)
    text = editor.copy(*ids(graph, "constant.external", "matmul"))
    made = editor.paste(text)
    assert [op.name for op in made] == ["mo.matmul"]
    with Graph("wide", input_types=[ROWS]) as wide:
        wide.output(wide.inputs[0].tensor @ Weight("w", F32, [4, 8], CPU))
    before = wide.document.text()
    with pytest.raises(GraphError, match="ML321"):
        Editor(wide).paste(text)
    assert wide.document.text() == before


def test_effects_come_behind_those_that_are_there() -> None:
    with Graph("store", input_types=[BufferType(F32, [4]), TensorType(F32, [4])]) as graph:
        ops.buffer_store(graph.inputs[0].buffer, graph.inputs[1].tensor * 2)
        graph.output(graph.inputs[1])
    text = Editor(graph).copy(*ids(graph, "buffer.store"))
    with Graph("target", input_types=[BufferType(F32, [4]), TensorType(F32, [4])]) as target:
        ops.buffer_store(target.inputs[0].buffer, target.inputs[1].tensor)
        target.output(target.inputs[1])
    Editor(target).paste(text, onto=["input0", "input1"])
    verify(target.function)
    with Editor(target).step():
        loaded = ops.buffer_load(target.inputs[0].buffer)
        Editor(target).set_outputs(loaded, target.inputs[1])
    memory = np.zeros(4, np.float32)
    assert run(target, memory, np.full(4, 3, np.float32))[0].tolist() == [3.0] * 4
    # In a graph of its own, where nothing comes before, it begins an order.
    alone = Graph("alone", input_types=[BufferType(F32, [4]), TensorType(F32, [4])])
    Editor(alone).paste(text, onto=["input0", "input1"])
    verify(alone.function)


def test_a_dim_that_a_run_tells_is_named_once() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 4])]) as graph:
        graph.output(ops.nonzero(graph.inputs[0].tensor > 0, "found"))
    everything = [op.id for op in graph.function.ops if not op.ends_block]
    editor = Editor(graph)
    text = editor.copy(*everything)
    with pytest.raises(GraphError, match="names the dim 'found'"):
        editor.paste(text)
    Editor(other()).paste(text)


@pytest.mark.parametrize("form", ["generic", "document"])
def test_a_graph_that_was_saved_is_pasted_whole(form: str) -> None:
    graph, target = net(), other(TensorType(F32, ["rows", 4]))
    graph.document.places["n2"] = Place(x=3, y=4)
    text = generic(graph.function) if form == "generic" else graph.document.text()
    editor = Editor(target)
    made = editor.paste(text, onto="input0")
    editor.set_outputs(made[-1].results[0].id)
    np.testing.assert_array_equal(run(target, X, w=W)[0], run(graph, X, w=W)[0])


KERNEL = """
// @op twice(x: float32[n]) -> (y: float32[n])
// @c serial
store(y, i, 2 * load(x, i));
"""


def test_kernels_of_strangers_are_pasted_and_not_run() -> None:
    row = TensorType(F32, ["n"])
    with Graph("mine", input_types=[row], custom_extensions=[KERNEL]) as graph:
        graph.output(*ops.custom("twice", CPU, [graph.inputs[0]], [row]))
    text = Editor(graph).copy("n0")
    program = """
import sys
import maxlab
from maxlab.graph import Editor, Graph, TensorType
with Graph("target", input_types=[TensorType(maxlab.float32, ["n"])]) as graph:
    graph.output(graph.inputs[0])
editor = Editor(graph)
(made,) = editor.paste(sys.stdin.read())
editor.set_outputs(made.results[0].id)
maxlab.load(graph)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert "[ML760]" in done.stderr
    assert "no kernel library that was loaded" in done.stderr


# ---------------------------------------------------------------- bad texts
BAD: dict[str, tuple[Any, str]] = {
    "no text": (3, "it is 3, and no text"),
    "words": ("hello", "cannot be pasted"),
    "a listing": (str(net()), "it is a listing, as print(graph) writes it"),
    "another format": ('{"format": "maxlab.clap"}', "the format is 'maxlab.clap'"),
    "newer": ('{"format": "maxlab.clip", "version": 2}', "it is of version 2"),
    "huge": ("x" * (64 << 20) + "x", "characters, and at most"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_clip_is_refused(name: str) -> None:
    text, message = BAD[name]
    graph = net()
    before = graph.document.text()
    with pytest.raises(ParseError) as caught:
        Editor(graph).paste(text)
    assert caught.value.code == "ML819"
    assert message in str(caught.value)
    assert graph.document.text() == before


def test_a_clip_that_ends_too_early_is_refused_wherever_it_ends() -> None:
    graph, target = net(), other()
    text = Editor(graph).copy(*(op.id for op in graph.function.ops if not op.ends_block))
    editor, before = Editor(target), target.document.text()
    for percent in range(100):
        with pytest.raises(ParseError, match="ML819"):
            editor.paste(text[: len(text) * percent // 100])
        assert target.document.text() == before
    assert not editor.can_undo
    assert editor.paste(text)


@pytest.mark.parametrize("seed", range(40))
def test_a_clip_with_other_characters_is_pasted_whole_or_not_at_all(seed: int) -> None:
    rng = random.Random(seed)
    graph, target = net(), other()
    text = Editor(graph).copy(*(op.id for op in graph.function.ops if not op.ends_block))
    editor, before = Editor(target), target.document.text()
    for _ in range(10):
        changed = list(text)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = chr(rng.choice((34, 44, 48, 91, 110, 123, 233)))
        try:
            editor.paste("".join(changed))
        except MaxlabError:
            assert target.document.text() == before
        else:
            verify(target.function)
            assert editor.undo()
            assert target.document.text() == before


def test_the_output_is_not_copied_and_neither_is_nothing() -> None:
    graph = net()
    with pytest.raises(GraphError, match="the output of the graph cannot be copied"):
        Editor(graph).copy(*(op.id for op in graph.function.ops))
    with pytest.raises(GraphError, match="no operation is to be copied"):
        Editor(graph).copy()


def test_what_is_too_large_to_be_pasted_is_not_copied() -> None:
    with Graph("large", input_types=[]) as graph:
        graph.output(ops.constant(np.zeros(14 << 20, np.float32), F32, CPU))
    with pytest.raises(GraphError, match="ML819"):
        Editor(graph).copy(*ids(graph, "constant"))
