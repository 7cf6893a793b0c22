"""``Editor.group`` and ``Editor.dissolve``: a subgraph is made of operations, and put back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import BufferType, DeviceRef, Editor, Graph, TensorType, Weight, ops
from maxlab.opset.verify import verify

F32 = DType.float32
ROW = TensorType(F32, [4])


def run(graph: Graph, *inputs: Any) -> list[np.ndarray[Any, Any]]:
    return [y.to_numpy() for y in engine.InferenceSession().load(graph)(*inputs)]


def twice() -> Graph:
    """A graph that calls one subgraph twice."""
    with Graph("calls", input_types=[ROW]) as graph:
        body = graph.add_subgraph("body", lambda x: ops.exp(ops.tanh(x.tensor)) + 1, [ROW])
        y: Any = graph.inputs[0].tensor
        for _ in range(2):
            (y,) = ops.call(body, y)
        graph.output(y)
    return graph


def test_what_is_read_from_the_middle_of_a_call_is_computed() -> None:
    graph = twice()
    editor = Editor(graph)
    first = next(op for op in graph.function.ops if op.name == "mo.tanh")
    (made,) = editor.add("abs", first.results[0].id)
    editor.set_outputs(made)
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(run(graph, x)[0], np.abs(np.tanh(x)), rtol=1e-6)


# ---------------------------------------------------------------- random graphs
def wired(seed: int, count: int = 14) -> Graph:
    """A graph of random operations on rows of 4 numbers; some read two others."""
    rng = random.Random(seed)
    with Graph(
        "wired", input_types=[TensorType(F32, ["n", 4]), TensorType(F32, ["n", 4])]
    ) as graph:
        made: list[Any] = [v.tensor for v in graph.inputs]
        for number in range(count):
            x = rng.choice(made[-5:])
            kind = rng.randrange(5)
            if kind == 0:
                made.append(ops.tanh(x))
            elif kind == 1:
                made.append(ops.mul(x, rng.choice(made)))
            elif kind == 2:
                made.append(x + np.float32(rng.random()))
            elif kind == 3:
                made += ops.split(x, [1, 3], axis=-1)
                made.append(ops.concat([made.pop(), made.pop()], axis=-1))
            else:
                weight = ops.constant(np.eye(4, dtype=np.float32) * (1 + number), F32, CPU)
                made.append(ops.softmax(x @ weight))
        graph.output(*made[-3:])
    return graph


CPU = DeviceRef.CPU()
GIVEN = [np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4) for _ in range(2)]


def some(graph: Graph, rng: random.Random) -> list[str]:
    """Ids of operations, some of which read others of them."""
    inner = [op for op in graph.function.ops if not op.ends_block]
    start = rng.randrange(len(inner))
    near = inner[start : start + rng.randint(1, 8)]
    return [op.id for op in rng.sample(near, rng.randint(1, len(near)))]


@pytest.mark.parametrize("seed", range(48))
def test_what_is_grouped_and_dissolved_computes_the_same(seed: int) -> None:
    rng = random.Random(seed)
    graph = wired(seed)
    editor = Editor(graph)
    first = graph.document.text()
    names = {v.id: v.name for op in graph.function.ops for v in op.results}
    wanted = run(graph, *GIVEN)
    texts, scopes = [first], list[str]()
    refused: set[str] = set()
    for _ in range(12):
        calls = list(graph.function.calls)
        try:
            if scopes and rng.random() < 0.3:
                editor.dissolve(scopes.pop(rng.randrange(len(scopes))))
            else:
                scopes.append(editor.group(*some(graph, rng), name=rng.choice(("", "part"))))
        except MaxlabError as error:
            refused.add(error.code)
            assert graph.document.text() == texts[-1]
            assert graph.function.calls == calls
            scopes = [s for s in scopes if any(op.scope.startswith(s) for op in graph.function.ops)]
        else:
            texts.append(graph.document.text())
        verify(graph.function)
    assert len(texts) > 3
    assert refused <= {"ML300", "ML323", "ML817"}
    found = run(graph, *GIVEN)
    assert [x.tobytes() for x in found] == [x.tobytes() for x in wanted]
    assert {v.id: v.name for op in graph.function.ops for v in op.results} == names
    for text in reversed(texts[:-1]):
        assert editor.undo()
        assert graph.document.text() == text
    assert not editor.undo()
    assert graph.function.calls == []
    assert not graph.subgraphs
    for text in texts[1:]:
        assert editor.redo()
        assert graph.document.text() == text
    again = run(graph, *GIVEN)
    assert [x.tobytes() for x in again] == [x.tobytes() for x in wanted]


def test_groups_are_put_back_in_any_order() -> None:
    graph = wired(3)
    editor = Editor(graph)
    inner = [op.id for op in graph.function.ops if not op.ends_block]
    order = list(inner)
    editor.group(*inner[:3], name="small")
    outer = editor.group(*inner[:5], name="large")
    assert {op.scope for op in graph.function.ops[:5]} == {"large", "large.small"}
    assert list(graph.subgraphs) == ["small", "large"]
    assert [call.body.name for call in graph.function.calls] == ["large"]
    assert set(editor.dissolve(outer)) == set(inner[:5])
    assert [call.body.name for call in graph.function.calls] == ["small"]
    editor.dissolve(inner[0])
    assert graph.function.calls == []
    assert [op.id for op in graph.function.ops if not op.ends_block] == order
    assert {op.scope for op in graph.function.ops} == {""}


# ---------------------------------------------------------------- sharing
def blocks(count: int) -> tuple[Graph, list[list[str]]]:
    """``tanh(x @ w) + 1``, over and over, with a weight each; the ids of each turn."""
    turns: list[list[str]] = []
    with Graph("blocks", input_types=[TensorType(F32, ["n", 4])]) as graph:
        x: Any = graph.inputs[0].tensor
        for number in range(count):
            before = len(graph.function.ops)
            x = ops.tanh(x @ Weight(f"w{number}", F32, [4, 4], CPU)) + 1
            turns.append([op.id for op in graph.function.ops[before:]])
        graph.output(x)
    return graph, turns


def test_equal_groups_of_one_name_are_one_subgraph_that_is_compiled_once() -> None:
    graph, turns = blocks(3)
    data = {f"w{n}": np.full((4, 4), 0.1 * (n + 1), np.float32) for n in range(3)}
    session = engine.InferenceSession()
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    (before,) = session.load(graph, weights_registry=data)(x)
    editor = Editor(graph)
    scopes = [editor.group(*ids, name="block") for ids in turns]
    assert scopes == ["block", "block.1", "block.2"]
    assert list(graph.subgraphs) == ["block"]
    calls = graph.function.calls
    assert len({id(call.body) for call in calls}) == 1
    assert [call.weights for call in calls] == [{"w0": f"w{n}"} for n in range(3)]
    model = session.load(graph, weights_registry=data)
    assert model(x)[0].to_numpy().tobytes() == before.to_numpy().tobytes()
    editor.add("softmax", "input0")
    assert graph.function.calls == calls


def test_another_body_does_not_get_the_name_of_one_that_is_called() -> None:
    graph, turns = blocks(2)
    editor = Editor(graph)
    editor.group(*turns[0], name="block")
    before = graph.document.text()
    with pytest.raises(MaxlabError, match="ML323"):
        editor.group(*turns[1][:2], name="block")
    assert graph.document.text() == before
    assert editor.group(*turns[1][:2]) == "group"
    editor.undo()
    editor.undo()
    assert editor.group(*turns[1][:2], name="block") == "block"


def test_a_group_is_called_again() -> None:
    graph, turns = blocks(1)
    editor = Editor(graph)
    editor.group(*turns[0], name="block")
    (again,) = editor.call("block", graph.inputs[0])
    editor.set_outputs(again)
    data = {"w0": np.eye(4, dtype=np.float32)}
    x = np.ones((2, 4), np.float32)
    (y,) = engine.InferenceSession().load(graph, weights_registry=data)(x)
    np.testing.assert_allclose(y.to_numpy(), np.tanh(x) + 1, rtol=1e-6)
    assert {op.scope for op in graph.function.ops} == {"block", "block.1", ""}
    assert sum(op.name == "mo.constant.external" for op in graph.function.ops) == 1
    with pytest.raises(MaxlabError, match="those that it has are: block"):
        editor.call("blocks", "input0")


def test_an_edit_in_a_group_is_of_that_call_alone_until_it_is_undone() -> None:
    graph, turns = blocks(2)
    editor = Editor(graph)
    for ids in turns:
        editor.group(*ids, name="block")
    tanh = next(op for op in graph.function.ops if op.name == "mo.tanh")
    editor.replace(tanh, "exp")
    assert [call.scope for call in graph.function.calls] == ["block.1"]
    editor.undo()
    assert [call.scope for call in graph.function.calls] == ["block", "block.1"]
    editor.redo()
    editor.dissolve("block")
    assert {op.scope for op in graph.function.ops} == {"block.1", ""}


def test_a_group_that_reads_another_value_is_still_a_call() -> None:
    graph, turns = blocks(2)
    editor = Editor(graph)
    for ids in turns:
        editor.group(*ids, name="block")
    product = next(
        op for op in graph.function.ops if op.name == "mo.matmul" and op.scope == "block"
    )
    (doubled,) = editor.add("mul", "input0", 2.0)
    editor.connect(product, 0, doubled)
    data = {f"w{n}": np.eye(4, dtype=np.float32) for n in range(2)}
    x = np.ones((2, 4), np.float32)
    (y,) = engine.InferenceSession().load(graph, weights_registry=data)(x)
    np.testing.assert_allclose(y.to_numpy(), np.tanh(np.tanh(2 * x) + 1) + 1, rtol=1e-6)


def test_a_group_is_not_one_call_where_it_reads_what_it_makes_by_way_of_others() -> None:
    """After the edit a path leaves the group and comes back: what it computes is right."""
    both = TensorType(F32, [4])
    with Graph("g", input_types=[both, both]) as graph:
        a, b = (v.tensor for v in graph.inputs)
        for _ in range(2):
            a, b = ops.tanh(a), ops.exp(b)
        graph.output(a, b)
    pairs = [[op.id for op in graph.function.ops[n : n + 2]] for n in (0, 2)]
    editor = Editor(graph)
    for ids in pairs:
        editor.group(*ids, name="pair")
    (outside,) = editor.add("abs", "v0")
    editor.connect(pairs[0][1], 0, outside)
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    found = run(graph, x, x)
    np.testing.assert_allclose(found[0], np.tanh(np.tanh(x)), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.exp(np.exp(np.abs(np.tanh(x)))), rtol=1e-6)
    assert len(graph.function.calls) == 1


def test_regions_and_modules_are_grouped_with_all_they_have() -> None:
    types = [TensorType(F32, [4]), TensorType(DType.bool, [], CPU)]
    with Graph("regions", input_types=types) as graph:
        x, yes = (v.tensor for v in graph.inputs)
        (y,) = ops.cond(yes, [x.type], lambda: ops.exp(x), lambda: x * x)
        graph.output(ops.tanh(y))
    first = graph.document.text()
    given = np.linspace(-1, 1, 4, dtype=np.float32)
    wanted = [run(graph, given, np.array(flag))[0] for flag in (True, False)]
    editor = Editor(graph)
    editor.group(*(op.id for op in graph.function.ops if not op.ends_block), name="all")
    assert {op.scope.split(".")[0] for op in graph.function.walk() if op.scope} == {"all"}
    found = [run(graph, given, np.array(flag))[0] for flag in (True, False)]
    assert [x.tobytes() for x in found] == [x.tobytes() for x in wanted]
    editor.dissolve("all")
    assert [x.tobytes() for x in wanted] == [
        run(graph, given, np.array(flag))[0].tobytes() for flag in (True, False)
    ]
    editor.undo()
    editor.undo()
    assert graph.document.text() == first


# ---------------------------------------------------------------- what is refused
def _stateful() -> Graph:
    with Graph("state", input_types=[BufferType(F32, [4]), TensorType(F32, [4])]) as graph:
        ops.buffer_store(graph.inputs[0].buffer, graph.inputs[1].tensor * 2)
        graph.output(ops.exp(ops.buffer_load(graph.inputs[0].buffer)))
    return graph


def _dims() -> Graph:
    types = [TensorType(F32, ["n", 4]), TensorType(F32, ["m"])]
    with Graph("dims", input_types=types) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(ops.broadcast_to(y[:1], ["n"]) + x[:, 0])
    return graph


def op(graph: Graph, name: str) -> str:
    """The id of the first operation that is called so."""
    return next(op.id for op in graph.function.ops if op.name == f"mo.{name}")


REFUSED: dict[str, tuple[Callable[[], Graph], Callable[[Editor], object], str]] = {
    "nothing": (_stateful, lambda e: e.group(), "no operation is to be grouped [ML300]"),
    "no operation": (_stateful, lambda e: e.group("n999"), "ML300"),
    "an effect": (
        _stateful, lambda e: e.group(op(e.graph, "buffer.store")), "cannot stand in a group",
    ),
    "an order": (_stateful, lambda e: e.group(op(e.graph, "chain")), "order of effects"),
    "the output": (_stateful, lambda e: e.group(op(e.graph, "output")), "what the graph gives"),
    "a dim of others": (
        _dims, lambda e: e.group(op(e.graph, "broadcast_to")), "what has the dim 'n'",
    ),
    "a path that comes back": (
        lambda: blocks(1)[0],
        lambda e: e.group(op(e.graph, "matmul"), op(e.graph, "add")),
        "tanh n2 stands between them: it reads what the group makes, and add n4",
    ),
    "no name": (lambda: blocks(1)[0], lambda e: e.group("n1", name="a.b"), "ML326"),
    "a name of no text": (lambda: blocks(1)[0], lambda e: e.group("n1", name=3), "ML326"),  # type: ignore[arg-type]
    "no group": (lambda: blocks(1)[0], lambda e: e.dissolve("block"), "has no group 'block'"),
    "in no group": (lambda: blocks(1)[0], lambda e: e.dissolve("n1"), "matmul n1 stands in no"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_and_leaves_the_graph_as_it_was(name: str) -> None:
    build, act, message = REFUSED[name]
    graph = build()
    editor, before = Editor(graph), graph.document.text()
    with pytest.raises(MaxlabError) as caught:
        act(editor)
    assert message in str(caught.value)
    assert graph.document.text() == before
    assert not graph.function.calls
    assert not editor.can_undo
