"""The builder: one protocol that everything speaks to, and a graph that keeps its promises."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import nn, opset
from maxlab.dtype import DType
from maxlab.errors import GraphError, MaxlabError, ShapeError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, TensorValue, Weight, ops
from maxlab.graph.operators import Operators
from maxlab.opset.builder import builder, current
from maxlab.opset.inference import inferred
from tests.graph import counting
from tests.graph.driven import OPERATORS, driven

F32, CPU = DType.float32, DeviceRef.CPU()
ROOT = Path(__file__).resolve().parents[2]
ROW = TensorType(F32, ["n", 4])


# ---------------------------------------------------------------- no graph needed
def test_ops_operators_and_layers_need_no_graph_class() -> None:
    """Everything that adds ops works with a builder that only counts, where nothing can import
    ``maxlab.graph.graph``; and it counts what a graph gets."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.graph.driven"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    assert counted == json.loads(json.dumps(driven()))
    assert sum(map(len, counted.values())) > 300
    assert set(OPERATORS) < set(counted)


def test_the_counting_builder_is_small() -> None:
    assert len(inspect.getsource(counting).splitlines()) <= 150


def test_every_operator_of_a_tensor_is_driven() -> None:
    special = {
        name
        for name, member in vars(Operators).items()
        if name.startswith("__") and inspect.isfunction(member)
    } - {"__hash__"}
    seen: set[str] = set()

    def watch(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("operators.py"):
            seen.add(frame.f_code.co_name)

    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        sys.setprofile(watch)
        try:
            for act in OPERATORS.values():
                act(x, x)
        finally:
            sys.setprofile(None)
    assert len(special) >= 33
    assert special - seen == set()


@pytest.mark.parametrize("folder", ["nn", "torch", "graph/ops"])
def test_what_adds_ops_touches_no_private_name_of_a_graph(folder: str) -> None:
    """``graph._x``, ``self.graph._x``, ``parent._x`` and ``b._x`` are nobody's but the graph's."""
    found = []
    for path in sorted((ROOT / "maxlab" / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                owner = ast.unparse(node.value).rpartition(".")[2]
                if owner in ("graph", "parent", "b", "builder()") and node.attr[:2] != "__":
                    found.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    assert found == []


# ---------------------------------------------------------------- who is in use
def test_the_builder_in_use_is_the_innermost_graph() -> None:
    assert current() is None
    with pytest.raises(LookupError, match=r"this needs a graph.*ML313"):
        builder(what="this")
    with Graph("outer") as outer:
        with Graph("inner") as inner:
            assert builder() is inner
        assert builder() is outer is Graph.current
    assert current() is None


def test_an_operand_may_carry_its_builder() -> None:
    class Eager:
        __builder__ = Graph("its own")

    assert builder(1, Eager()) is Eager.__builder__
    with Graph("g") as graph:
        assert builder(1, Eager()) is graph


# ---------------------------------------------------------------- bad input
def test_a_builder_is_refused_after_its_with() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        graph.output(x + 1)
    before = str(graph)
    acts: list[Callable[[], Any]] = [
        lambda: graph.op("exp", [x]),
        lambda: graph.literal(1, F32, CPU),
        lambda: graph.control("cond", [x], [], types=()),
        lambda: graph.op("chain", []),
    ]
    for act in acts:
        for inside in (nullcontext(), Graph("another")):
            with (
                inside,
                pytest.raises(MaxlabError, match="is not the one that is being built") as caught,
            ):
                act()
            assert caught.value.code == "ML314"
    assert str(graph) == before


def test_values_of_other_graphs_and_threads_are_refused() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        y = x * 2
        before = str(graph)
        with Graph("h", input_types=[ROW]) as other:
            foreign = other.inputs[0].tensor + 1
            text = str(other)
            acts: list[Callable[[], Any]] = [
                lambda: foreign + x,
                lambda: ops.exp(x),
                lambda: other.output(x),
            ]
            for act in acts:
                with pytest.raises(MaxlabError) as caught:
                    act()
                assert caught.value.code == "ML314"
            assert str(other) == text
        found: list[BaseException] = []

        def elsewhere() -> None:
            away: list[Callable[[], Any]] = [
                lambda: x + y,
                lambda: graph.op("exp", [x]),
                lambda: x[0],
            ]
            for act in away:
                try:
                    act()
                except BaseException as error:
                    found.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert [e.code for e in found if isinstance(e, MaxlabError)] == ["ML313", "ML314", "ML313"]
        assert str(graph) == before


BROKEN: list[tuple[str, Callable[[Graph, Any], Any]]] = [
    ("ops", lambda graph, x: ops.exp(x * 3 + 1)),
    ("a weight", lambda graph, x: graph.add_weight(Weight("w", F32, [4], DeviceRef.GPU()))),
    ("effects", lambda graph, x: (ops.print(x), ops.buffer_create(BufferType(F32, [2])))),
    ("a chain", lambda graph, x: (graph.always_ready_chain, graph.device_chains[CPU])),
    ("a subgraph", lambda graph, x: ops.call(graph.add_subgraph("s", lambda v: -v, [ROW]), x)),
    ("a region", lambda graph, x: ops.cond(x[0, 0] > 0, [ROW], lambda: x, lambda: ops.exp(x))),
    ("a loop", lambda graph, x: ops.while_loop(x, lambda v: v[0, 0] > 0, lambda v: v - 1)),
    ("an output", lambda graph, x: graph.output(x)),
    ("a seed", lambda graph, x: (ops.random.set_seed(4), ops.random.uniform(x.type))),
    ("a layer", lambda graph, x: nn.Linear(4, 3, F32, CPU)(x)),
    ("a hook", lambda graph, x: nn.add_layer_hook(lambda *_: None)),
]


@pytest.mark.filterwarnings("ignore:the graph")
@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize(("what", "act"), BROKEN, ids=[what for what, _ in BROKEN])
def test_a_transaction_that_raises_leaves_the_graph_as_it_was(
    what: str, act: Callable[[Graph, Any], Any], error: type[BaseException]
) -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        graph.output(x + 1)
        before, state = str(graph), dict(graph.state)
        known = (dict(graph.device_chains), dict(graph.weight_table.weights))
        uses = dict(x.to_mlir().uses)
        with suppress(error), graph.transaction():
            act(graph, x)
            raise error
        assert str(graph) == before
        assert dict(graph.state) == state
        assert (dict(graph.device_chains), dict(graph.weight_table.weights)) == known
        assert dict(x.to_mlir().uses) == uses
        assert not graph.function.calls
        act(graph, x)  # once more, as if nothing had been
    opset.verify.verify(graph.function)


@pytest.mark.filterwarnings("ignore:the graph")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a __del__
@pytest.mark.parametrize(("what", "act"), BROKEN, ids=[what for what, _ in BROKEN])
def test_an_interrupt_between_any_two_calls_leaves_the_graph_as_it_was(
    what: str, act: Callable[[Graph, Any], Any]
) -> None:
    """Ctrl-C comes with the n-th call of a function inside of a transaction, for every n."""
    calls = _calls_of(what, act)
    for number in range(1, calls):
        with Graph("g", input_types=[ROW]) as graph:
            x = graph.inputs[0].tensor
            graph.output(x + 1)
            before, state = str(graph), dict(graph.state)
            with suppress(KeyboardInterrupt), graph.transaction():
                with _interrupted(number):
                    act(graph, x)
                raise KeyboardInterrupt  # the last calls of all
            assert str(graph) == before, number
            assert dict(graph.state) == state, number
            assert not graph.weight_table.weights, number
            assert not graph.device_chains, number
            assert builder() is graph, number
            (x * 2 + 1).cast(DType.float16)
        opset.verify.verify(graph.function)


@contextmanager
def _interrupted(number: int) -> Iterator[list[int]]:
    """A block in which the ``number``-th call of a function of maxlab raises ``KeyboardInterrupt``;
    it gives the count of calls."""
    count = [0]

    def watch(frame: Any, event: str, _: object) -> None:
        if event == "call" and f"{os.sep}maxlab{os.sep}" in frame.f_code.co_filename:
            count[0] += 1
            if count[0] == number:
                raise KeyboardInterrupt

    sys.setprofile(watch)
    try:
        yield count
    finally:
        sys.setprofile(None)


def _calls_of(what: str, act: Callable[[Graph, Any], Any]) -> int:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        graph.output(x + 1)
        with _interrupted(-1) as count:
            act(graph, x)
    return count[0]


def test_ids_of_what_was_undone_are_not_given_again() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        with suppress(KeyError), graph.transaction():
            undone = ops.exp(x).to_mlir()
            raise KeyError
        assert ops.exp(x).to_mlir().id != undone.id


def test_an_error_inside_of_a_region_takes_back_only_its_own_op() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor

        def branch() -> Any:
            y = ops.exp(x)
            with pytest.raises(ShapeError):
                ops.layer_norm(
                    y + x,  # the sum is of a line before
                    np.ones(4),
                    np.ones(3),
                    1e-5,
                )
            return y

        (made,) = ops.cond(x[0, 0] > 0, [ROW], branch, lambda: x)
        graph.output(made)
    (op,) = (op for op in graph.function.ops if op.name == "mo.cond")
    assert [inner.name for inner in op.regions[0].ops] == ["mo.exp", "mo.add", "mo.output"]
    opset.verify.verify(graph.function)


def test_a_subgraph_whose_layer_fails_is_not_there() -> None:
    class Broken(nn.Module):
        def __call__(self, x: TensorValue) -> TensorValue:
            return x @ x

    with Graph("g", input_types=[ROW]) as graph:
        with pytest.raises(ShapeError):
            Broken().build_subgraph("layer", [ROW])
        with pytest.raises(GraphError):
            ops.call(Graph("layer", lambda x: x, [ROW]), graph.inputs[0])
        graph.add_subgraph("layer", lambda x: x, [ROW])  # the name is free


# ---------------------------------------------------------------- where ops stand
def test_an_importer_says_where_ops_stand() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        place = ops.exp(x).to_mlir().op.loc  # type: ignore[union-attr]
        with graph.at(place, "encoder.0"):
            with graph.at(None, ""):
                nowhere = ops.sin(x).to_mlir().op
            there = (x + 1).to_mlir().op
        here = ops.cos(x).to_mlir().op
    assert nowhere is not None
    assert there is not None
    assert here is not None
    assert (nowhere.loc, nowhere.scope) == (None, "")
    assert (there.loc, there.scope) == (place, "encoder.0")
    assert here.loc is not None
    assert here.loc != place


# ---------------------------------------------------------------- remembered types
def test_types_are_inferred_once_for_equal_operands() -> None:
    row = opset.lookup("mo.softmax")
    asked = []

    def infer(types: Any, attrs: Any) -> Any:
        asked.append(attrs)
        return row.infer(types, attrs)

    watched = _with_infer(row, infer)
    types = [TensorType(F32, ["rows", 7])]
    first = inferred(watched, types, {"axis": -1})
    assert inferred(watched, [TensorType(F32, ["rows", 7])], {"axis": -1}) is first
    assert len(asked) == 1
    inferred(watched, types, {"axis": 0})
    inferred(watched, [TensorType(F32, ["rows", 8])], {"axis": -1})
    assert len(asked) == 3


def test_an_error_is_never_remembered() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        found = []
        for _ in range(2):
            with pytest.raises(MaxlabError) as caught:
                ops.softmax(x, 5)
            found.append(caught.value)
        assert found[0] is not found[1]
        ops.softmax(x, 1)
        with pytest.raises(MaxlabError, match="ML302"):
            ops.softmax(x, True)  # equal to 1, and no axis


def test_attributes_with_data_are_inferred_each_time() -> None:
    with Graph("g"):
        for _ in range(2):
            made = ops.constant(np.ones(3, np.float32))
            assert made.shape == [3]
    from maxlab.opset import inference

    assert not [key for key in inference._known if key[0] == "mo.constant"]


def test_a_shape_that_somebody_wrote_into_spoils_no_other_graph() -> None:
    odd = TensorType(F32, [3, "odd"])
    with Graph("g", input_types=[odd]) as graph:
        made = ops.erf(graph.inputs[0].tensor)
        made.shape[0] = graph.inputs[0].tensor.shape[1]
    with Graph("h", input_types=[TensorType(F32, [3, "odd"])]) as graph:
        assert list(ops.erf(graph.inputs[0].tensor).shape) == [3, "odd"]


def _with_infer(row: opset.OpDef, infer: Any) -> opset.OpDef:
    from dataclasses import replace

    return replace(row, name="mo.softmax.watched", infer=infer)
