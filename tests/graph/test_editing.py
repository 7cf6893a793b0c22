"""``Editor``: each step does what it says, whole or not at all, and is taken back exactly."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import GraphError, MaxlabError, ShapeError
from maxlab.graph import BufferType, DeviceRef, Editor, Graph, TensorType, Weight, ops
from maxlab.ir.printer import generic
from maxlab.opset.verify import verify

F32, CPU = DType.float32, DeviceRef.CPU()


def mlp() -> Graph:
    """``softmax(relu(x @ w + b) @ v)``."""
    with Graph("mlp", input_types=[TensorType(F32, ["n", 8])]) as graph:
        x = graph.inputs[0].tensor
        w = Weight("w", F32, [8, 16], CPU)
        v = Weight("v", F32, [16, 4], CPU)
        b = ops.constant(np.arange(16, dtype=np.float32), F32, CPU)
        graph.output(ops.softmax(ops.relu(x @ w + b) @ v))
    return graph


WEIGHTS = {
    "w": np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16),
    "v": np.linspace(1, -1, 64, dtype=np.float32).reshape(16, 4),
}
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(3, 8)


def run(graph: Graph, *inputs: Any) -> list[np.ndarray[Any, Any]]:
    model = engine.InferenceSession().load(graph, weights_registry=WEIGHTS)
    return [y.to_numpy() for y in model(*inputs)]


def op(graph: Graph, name: str) -> str:
    """The id of the only op of the graph that is called so."""
    (found,) = [op.id for op in graph.function.ops if op.name == f"mo.{name}"]
    return found


def text(graph: Graph) -> str:
    return generic(graph.function)


@pytest.mark.parametrize("way", ["insert", "replace"])
def test_what_is_read_may_have_been_made_later(way: str) -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 4])]) as graph:
        graph.output(ops.exp(graph.inputs[0].tensor))
    editor = Editor(graph)
    (last,) = editor.add("tanh", editor.add("constant", np.ones(4, np.float32))[0])
    if way == "insert":
        editor.insert("mul", op(graph, "exp"), 0, last)
    else:
        editor.replace(op(graph, "exp"), "mul", last)
    verify(graph.function)
    x = np.ones((2, 4), np.float32)
    factor = np.tanh(np.float32(1))
    want = np.exp(x * factor) if way == "insert" else x * factor
    np.testing.assert_allclose(run(graph, x)[0], want, rtol=1e-6)
    first = text(graph)
    assert editor.undo()
    assert editor.redo()
    assert text(graph) == first


def test_what_is_made_of_an_operation_is_not_put_before_it() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 4])]) as graph:
        graph.output(ops.tanh(ops.exp(graph.inputs[0].tensor)))
    editor, before = Editor(graph), text(graph)
    later = graph.function.ops[1].results[0].id
    with pytest.raises(GraphError, match="ML315"):
        editor.insert("mul", op(graph, "exp"), 0, later)
    assert text(graph) == before


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max(-1, keepdims=True))
    made: np.ndarray[Any, Any] = e / e.sum(-1, keepdims=True)
    return made


HIDDEN = X @ WEIGHTS["w"] + np.arange(16, dtype=np.float32)


# ---------------------------------------------------------------- what steps do
def _insert(editor: Editor) -> None:
    editor.insert("tanh", op(editor.graph, "softmax"), 0)


def _insert_with_more(editor: Editor) -> None:
    editor.insert("mul", op(editor.graph, "relu"), 0, 0.5)


def _replace(editor: Editor) -> None:
    editor.replace(op(editor.graph, "relu"), "abs")


def _replace_with_arguments(editor: Editor) -> None:
    editor.replace(op(editor.graph, "softmax"), "sum", axis=-1)


def _remove(editor: Editor) -> None:
    editor.remove(op(editor.graph, "relu"))


def _remove_an_addition(editor: Editor) -> None:
    editor.remove(op(editor.graph, "add"))


def _connect(editor: Editor) -> None:
    relu = editor.graph.function.find(op(editor.graph, "relu"))
    assert relu is not None
    editor.connect(relu, 0, relu.operands[0].op.operands[0].id)  # type: ignore[union-attr]


def _connect_to_what_comes_later(editor: Editor) -> None:
    (made,) = editor.add("exp", "input0")
    (later,) = editor.add("mul", made, 2.0)
    matmul = next(o for o in editor.graph.function.ops if o.name == "mo.matmul")
    editor.connect(matmul, 0, later)


def _outputs(editor: Editor) -> None:
    relu = editor.graph.function.find(op(editor.graph, "relu"))
    assert relu is not None
    editor.set_outputs(relu.results[0].id, "input0")


def _attribute(editor: Editor) -> None:
    editor.set_attribute(op(editor.graph, "softmax"), "axis", 0)


STEPS: dict[str, tuple[Callable[[Editor], None], Callable[[], list[np.ndarray[Any, Any]]]]] = {
    "insert": (_insert, lambda: [softmax(np.tanh(np.maximum(HIDDEN, 0) @ WEIGHTS["v"]))]),
    "insert with more": (
        _insert_with_more,
        lambda: [softmax(np.maximum(HIDDEN * 0.5, 0) @ WEIGHTS["v"])],
    ),
    "replace": (_replace, lambda: [softmax(np.abs(HIDDEN) @ WEIGHTS["v"])]),
    "replace with arguments": (
        _replace_with_arguments,
        lambda: [(np.maximum(HIDDEN, 0) @ WEIGHTS["v"]).sum(-1, keepdims=True)],
    ),
    "remove": (_remove, lambda: [softmax(HIDDEN @ WEIGHTS["v"])]),
    "remove an addition": (
        _remove_an_addition,
        lambda: [softmax(np.maximum(X @ WEIGHTS["w"], 0) @ WEIGHTS["v"])],
    ),
    "connect": (_connect, lambda: [softmax(np.maximum(X @ WEIGHTS["w"], 0) @ WEIGHTS["v"])]),
    "connect to what comes later": (
        _connect_to_what_comes_later,
        lambda: [
            softmax(
                np.maximum(np.exp(X) * 2 @ WEIGHTS["w"] + np.arange(16), 0) @ WEIGHTS["v"]
            ).astype(np.float32)
        ],
    ),
    "outputs": (_outputs, lambda: [np.maximum(HIDDEN, 0), X]),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_changes_what_the_graph_computes_and_undo_takes_it_back(name: str) -> None:
    step, expected = STEPS[name]
    graph = mlp()
    before = text(graph)
    editor = Editor(graph)
    step(editor)
    verify(graph.function)
    after = text(graph)
    assert after != before
    for found, wanted in zip(run(graph, X), expected(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)
    done = 0
    while editor.undo():
        done += 1
    assert done
    assert text(graph) == before
    assert not editor.can_undo
    while editor.redo():
        done -= 1
    assert done == 0
    assert text(graph) == after
    np.testing.assert_allclose(run(graph, X)[0], expected()[0], rtol=2e-5, atol=1e-6)


def test_an_attribute_is_set_as_its_row_declares_it() -> None:
    with Graph("g", input_types=[TensorType(F32, [4, 6])]) as graph:
        graph.output(ops.sum(graph.inputs[0].tensor, axis=0))
    (reduce,) = [o for o in graph.function.ops if "axis" in o.attrs]
    editor = Editor(graph)
    editor.set_attribute(reduce, "axis", 1)
    assert graph.output_types == [TensorType(F32, [4, 1])]
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_allclose(run(graph, x)[0], x.sum(1, keepdims=True))
    with pytest.raises(GraphError, match="ML300"):
        editor.set_attribute(reduce, "axes", 1)
    with pytest.raises(GraphError, match="an int, got 'one'"):
        editor.set_attribute(reduce, "axis", "one")
    assert graph.output_types == [TensorType(F32, [4, 1])]


# ---------------------------------------------------------------- types flow
def test_a_symbolic_dim_that_becomes_a_number_is_one_wherever_it_is_named() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 8])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(
            ops.reshape(x, [x.shape[0], 2, 4]) + ops.broadcast_to(x[:, :1, None], ["n", 2, 4])
        )
    editor = Editor(graph)
    editor.set_type("input0", TensorType(F32, [3, 8]))
    assert graph.output_types == [TensorType(F32, [3, 2, 4])]
    assert graph.parameters == []
    assert run(graph, X)[0].shape == (3, 2, 4)
    editor.undo()
    assert graph.output_types == [TensorType(F32, ["n", 2, 4])]


def test_dtypes_flow_into_branches_and_loops() -> None:
    types = [TensorType(F32, [4]), TensorType(DType.bool, [], CPU)]
    with Graph("regions", input_types=types) as graph:
        x, yes = (v.tensor for v in graph.inputs)
        (y,) = ops.cond(yes, [x.type], lambda: ops.exp(x), lambda: x * x)
        (z,) = ops.while_loop([y], lambda v: ops.max(v, axis=0)[0] < 100, lambda v: [v + x])
        graph.output(z)
    before = text(graph)
    editor = Editor(graph)
    editor.set_type("input0", TensorType(F32, [6]))
    verify(graph.function)
    assert graph.output_types == [TensorType(F32, [6])]
    given = np.full(6, 3, np.float32)
    assert run(graph, given, np.array(False))[0].tolist() == [102.0] * 6
    editor.undo()
    assert text(graph) == before


def test_an_edit_of_a_called_subgraph_changes_that_call_alone() -> None:
    with Graph("calls", input_types=[TensorType(F32, [4])]) as graph:
        body = graph.add_subgraph("body", lambda x: ops.tanh(x.tensor) + 1, [TensorType(F32, [4])])
        y: Any = graph.inputs[0].tensor
        for _ in range(2):
            (y,) = ops.call(body, y)
        graph.output(y)
    first = next(o for o in graph.function.ops if o.name == "mo.tanh")
    Editor(graph).replace(first, "abs")
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(run(graph, x)[0], np.tanh(np.abs(x) + 1) + 1, rtol=1e-6)


def test_inputs_come_and_go() -> None:
    graph = mlp()
    editor = Editor(graph)
    scale = editor.add_input(TensorType(F32, ["m"]), "scale")
    assert [v.type for v in graph.inputs][1] == scale.type
    assert [str(p) for p in graph.parameters] == ["n", "m"]
    with pytest.raises(GraphError, match="ML315"):
        editor.remove_input("input0")
    editor.remove_input("scale")
    assert len(graph.inputs) == 1
    assert [str(p) for p in graph.parameters] == ["n"]
    editor.undo()
    editor.undo()
    assert len(graph.inputs) == 1
    assert graph.inputs[0].tensor.shape == ["n", 8]


def test_effects_stay_in_order_when_one_goes() -> None:
    with Graph("state", input_types=[BufferType(F32, [4]), TensorType(F32, [4])]) as graph:
        b, x = graph.inputs[0].buffer, graph.inputs[1].tensor
        ops.buffer_store(b, x)
        ops.buffer_store(b, x * 2)
        graph.output(ops.buffer_load(b))
    stores = [o for o in graph.function.ops if "store" in o.name]
    editor = Editor(graph)
    editor.remove(stores[1])
    with graph:
        ops.buffer_store(graph.inputs[0].buffer, graph.inputs[1].tensor * 3)
    verify(graph.function)
    memory = np.zeros(4, np.float32)
    assert run(graph, memory, np.ones(4, np.float32))[0].tolist() == [1.0] * 4
    assert memory.tolist() == [3.0] * 4


def test_a_weight_that_was_removed_can_be_added_again() -> None:
    graph = mlp()
    w = Weight("w", F32, [8, 16], CPU)
    editor = Editor(graph)
    with editor.step():
        editor.set_outputs("input0")
        editor.remove(*[o.id for o in graph.function.ops if not o.ends_block])
    assert [o.name for o in graph.function.ops] == ["mo.output"]
    with graph:
        value = graph.add_weight(w)
        editor.set_outputs(graph.inputs[0].tensor @ value)
    np.testing.assert_allclose(run(graph, X)[0], X @ WEIGHTS["w"], rtol=1e-5)


def _stores(graph: Graph) -> None:
    ops.buffer_store(graph.inputs[0].buffer, graph.inputs[1].tensor * 2)


def _ready(graph: Graph) -> None:
    assert graph.always_ready_chain._ir().block is graph.function.block


def _weighs(graph: Graph) -> None:
    graph.output(graph.add_weight(W) + 1)


def _calls(graph: Graph) -> None:
    graph.output(*ops.call(graph.subgraphs["body"], graph.inputs[1]))


W = Weight("w", F32, [4], CPU)


@pytest.mark.parametrize("build", [_stores, _ready, _weighs, _calls])
@pytest.mark.filterwarnings("ignore:the graph")
def test_what_an_undo_took_back_is_not_remembered(build: Callable[[Graph], None]) -> None:
    """What a graph keeps beside its operations, chains and weights, is as if the step never was."""
    types = [BufferType(F32, [4]), TensorType(F32, [4])]
    with Graph("again", input_types=types) as graph:
        graph.add_subgraph("body", lambda x: x.tensor * W, [TensorType(F32, [4])])
        graph.output(graph.inputs[1])
    before = text(graph)
    editor = Editor(graph)
    for _ in range(3):
        with editor.step():
            build(graph)
        verify(graph.function)
        after = text(graph)
        editor.undo()
        assert text(graph) == before
        editor.redo()
        assert text(graph) == after
        editor.undo()


def test_copies_read_each_other() -> None:
    graph = mlp()
    editor = Editor(graph)
    ids = [o.id for o in graph.function.ops if o.name in ("mo.relu", "mo.softmax")]
    made = editor.duplicate(*ids, op(graph, "add"))
    assert len(made) == 3
    editor.set_outputs(made[1])
    np.testing.assert_allclose(run(graph, X)[0], np.maximum(HIDDEN, 0), rtol=1e-5)


# ---------------------------------------------------------------- what is refused
def _cycle(editor: Editor) -> None:
    add, relu = op(editor.graph, "add"), editor.graph.function.find(op(editor.graph, "relu"))
    assert relu is not None
    editor.connect(add, 0, relu.results[0].id)


REFUSED: dict[str, tuple[Callable[[Editor], object], str]] = {
    "cycle": (_cycle, "ML315"),
    "no op": (lambda e: e.remove("n999"), "has no operation 'n999'"),
    "no value": (lambda e: e.connect(op(e.graph, "relu"), 0, "nothing"), "has no value 'nothing'"),
    "no operand": (lambda e: e.connect(op(e.graph, "relu"), 1, "input0"), "has 1 operands"),
    "no such operation": (lambda e: e.add("sofmax", "input0"), "ML301"),
    "no operation of the language": (lambda e: e.add("__doc__", "input0"), "ML301"),
    "output removed": (lambda e: e.remove(op(e.graph, "output")), "ML315"),
    "input removed that is read": (lambda e: e.remove_input("input0"), "ML315"),
    "weight removed that is read": (
        lambda e: e.remove(next(o.id for o in e.graph.function.ops if not o.operands)), "ML315",
    ),
    "type of no input": (
        lambda e: e.set_type("v1", TensorType(F32, [2])), "ML300",
    ),
    "no type": (lambda e: e.set_type("input0", 3), "ML320"),  # type: ignore[arg-type]
    "another rank": (lambda e: e.set_type("input0", TensorType(F32, [8])), "matmul"),
    "another size": (lambda e: e.set_type("input0", TensorType(F32, ["n", 7])), "matmul"),
    "a buffer for a tensor": (lambda e: e.set_type("input0", BufferType(F32, ["n", 8])), "ML320"),
    "replaced by too many": (
        lambda e: e.replace(op(e.graph, "relu"), "split", [8, 8], axis=1), "has 2 results",
    ),
    "more results on an edge": (
        lambda e: e.insert("split", op(e.graph, "softmax"), 0, [2, 2], axis=1), "has 2 results",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_and_leaves_the_graph_as_it_was(name: str) -> None:
    act, message = REFUSED[name]
    graph = mlp()
    editor = Editor(graph)
    editor.insert("tanh", op(graph, "softmax"), 0)
    before = text(graph)
    with pytest.raises(MaxlabError) as caught:
        act(editor)
    assert message in str(caught.value)
    assert text(graph) == before
    verify(graph.function)
    assert editor.undo()
    assert not editor.undo()


def test_an_error_of_types_names_the_op_that_would_read_it() -> None:
    graph = mlp()
    with pytest.raises(ShapeError, match=r"matmul n\d+ reads what is changed"):
        Editor(graph).set_type("input0", TensorType(F32, ["n", 7]))


def test_an_exception_in_a_step_takes_all_of_it_back() -> None:
    graph = mlp()
    before = text(graph)
    editor = Editor(graph)

    def interrupted() -> None:
        with editor.step():
            editor.remove(op(graph, "relu"))
            editor.add_input(TensorType(F32, [3]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert text(graph) == before
    assert len(graph.inputs) == 1
    assert not editor.can_undo


def test_only_steps_made_since_the_editor_was_are_undone() -> None:
    graph = mlp()
    editor = Editor(graph)
    assert not editor.undo()
    assert not editor.redo()
    editor.remove(op(graph, "relu"))
    other = Editor(graph)
    assert not other.can_undo
    assert editor.can_undo


def test_editors_take_graphs() -> None:
    with pytest.raises(MaxlabError, match="ML300"):
        Editor("mlp")  # type: ignore[arg-type]


# ---------------------------------------------------------------- random sequences
SIZES: tuple[list[int | str], ...] = (["n", 8], [3, 8], ["m", 8], [8, 8], ["n", "k"])
UNARY = ("relu", "tanh", "exp", "abs", "negate", "softmax", "sigmoid")


def _random_step(editor: Editor, rng: random.Random) -> None:
    function = editor.graph.function
    inner = [o for o in function.ops if not o.ends_block]
    values = [*function.inputs, *(v for o in inner for v in o.results)]
    value, target = rng.choice(values), rng.choice(function.ops)
    number = rng.randrange(max(len(target.operands), 1))
    choice = rng.randrange(9)
    if choice == 0:
        editor.add(rng.choice(UNARY), value.id)
    elif choice == 1:
        editor.add(rng.choice(("add", "mul", "matmul")), value.id, rng.choice(values).id)
    elif choice == 2:
        editor.insert(rng.choice(UNARY), target, number)
    elif choice == 3:
        editor.connect(target, number, value.id)
    elif choice == 4:
        editor.replace(target, rng.choice(UNARY))
    elif choice == 5:
        editor.remove(target)
    elif choice == 6:
        editor.set_type(function.inputs[0].id, TensorType(F32, rng.choice(SIZES)))
    elif choice == 7:
        editor.duplicate(target)
    else:
        editor.set_outputs(*(v.id for v in rng.sample(values, min(2, len(values)))))


@pytest.mark.parametrize("seed", range(120))
def test_random_steps_are_whole_or_nothing_and_are_taken_back_exactly(seed: int) -> None:
    rng = random.Random(seed)
    graph = mlp()
    editor = Editor(graph)
    texts = [text(graph)]
    refused = 0
    for _ in range(60):
        try:
            _random_step(editor, rng)
        except MaxlabError:
            refused += 1
            assert text(graph) == texts[-1]
        else:
            texts.append(text(graph))
        verify(graph.function)
    assert refused < 60
    for wanted in reversed(texts[:-1]):
        assert editor.undo()
        assert text(graph) == wanted
    assert not editor.undo()
    for wanted in texts[1:]:
        assert editor.redo()
        assert text(graph) == wanted
    assert not editor.redo()
