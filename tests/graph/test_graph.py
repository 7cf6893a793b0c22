"""Graphs: the context, inputs and outputs, ids, scopes, current graph, import time."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import maxlab.graph
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import BufferType, BufferValue, Dim, Graph, TensorType, TensorValue, Value, ops
from maxlab.ir import OpaqueType
from tests.graph.interpreter import run

F32 = DType.float32
ROW = TensorType(F32, ["n"])


def test_forward_gets_inputs_and_arguments() -> None:
    def forward(x: Any, scale: float, *, shift: float) -> Any:
        return x * scale + shift

    graph = Graph("g", forward, [ROW], None, 2.0, shift=1.0)
    assert run(graph, np.ones(3, np.float32))[0].tolist() == [3, 3, 3]


@pytest.mark.parametrize(
    ("result", "count"),
    [
        (lambda x: None, 0),
        (lambda x: x, 1),
        (lambda x: [x, x + 1], 2),
        (lambda x: (v for v in (x, x)), 2),
        (lambda x: {"a": x, "b": x}.values(), 2),
        (lambda x: x.shape, 1),
        (lambda x: x.shape[0], 1),
        (lambda x: 3.0, 1),
        (lambda x: np.ones(3), 1),
    ],
)
def test_what_forward_may_return(result: Any, count: int) -> None:
    graph = Graph("g", result, [ROW])
    assert len(graph.output_types) == count
    run(graph, np.ones(2, np.float32))


def test_current_is_a_stack_of_each_thread() -> None:
    found: list[object] = []
    with Graph("a") as a:
        assert Graph.current is a
        with Graph("b") as b:
            assert Graph.current is b
        assert Graph.current is a
        with a:
            assert Graph.current is a
        assert Graph.current is a

        def look() -> None:
            try:
                found.append(Graph.current)
            except LookupError as error:
                found.append(error)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert isinstance(found[0], LookupError)
    with pytest.raises(LookupError):
        _ = Graph.current


def test_an_exception_leaves_the_context() -> None:
    with pytest.raises(RuntimeError, match="mine"), Graph("a"):
        raise RuntimeError("mine")
    with pytest.raises(LookupError):
        _ = Graph.current
    with pytest.raises(MaxlabError):
        Graph("b", lambda x: x + np.ones(3) + np.ones(4), [ROW])
    with pytest.raises(LookupError):
        _ = Graph.current


def test_a_second_output_replaces_the_first() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        graph.output(x)
        with pytest.warns(UserWarning, match="replaces it"):
            graph.output(x + 1, x.shape, 2, Dim("n"))
    assert [op.name for op in graph.function.ops].count("mo.output") == 1
    found = run(graph, np.zeros(3, np.float32))
    assert found[0].tolist() == [1, 1, 1]
    assert [a.tolist() for a in found[1:]] == [[3], 2, 3]


def test_ops_after_the_output_come_before_it() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        graph.output(x)
        ops.exp(x)
    assert [op.name for op in graph.function.ops] == ["mo.exp", "mo.output"]


def test_output_outside_of_the_context() -> None:
    graph = Graph("g", input_types=[ROW])
    graph.output(graph.inputs[0])
    assert graph.output_types == [ROW]


def test_values() -> None:
    types = [ROW, BufferType(F32, ["n"]), OpaqueType("handle")]
    with Graph("g", input_types=types) as graph:
        x, buffer, handle = graph.inputs
        assert isinstance(x, TensorValue)
        assert isinstance(buffer, BufferValue)
        assert x.tensor is x
        assert buffer.buffer is buffer
        assert handle.opaque is handle
        assert (buffer.dtype, buffer.rank, str(buffer.device)) == (F32, 1, "cpu:0")
        assert buffer.shape == ["n"]
        assert BufferValue(buffer).type == types[1]
        again = Value.from_mlir(x.to_mlir())
        assert isinstance(again, TensorValue)
        assert again.to_mlir() is x.to_mlir()
        assert TensorValue.from_mlir(x.to_mlir()).type == ROW
        assert TensorValue(x.to_mlir()).type == ROW
        assert TensorValue([1, 2]).dtype is DType.int64
        assert TensorValue([1.5]).dtype is F32
        assert TensorValue(x.shape).shape == [1]
        assert repr(x) == "TensorValue(dtype=DType.float32, shape=[Dim('n')], device=cpu:0)"
        assert "opaque" in repr(handle)

        class Holder:
            def __tensorvalue__(self) -> TensorValue:
                return x.tensor

        assert TensorValue(Holder()).to_mlir() is x.to_mlir()
        assert (x + Holder()).shape == ["n"]
        assert ops.exp(Holder()).shape == ["n"]


def test_ids_are_stable_and_lines_are_known() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        y = ops.exp(x)
        z = (
            y
            + 1.0
        )  # fmt: skip
    first, constant, second = graph.function.ops
    assert (first.id, constant.id, second.id) == ("n0", "n1", "n2")
    assert first.loc is not None
    assert second.loc is not None
    assert first.loc.text.strip() == "y = ops.exp(x)"
    assert second.loc.line == first.loc.line + 2
    assert z.to_mlir().id == "v2"


def test_scopes_follow_the_calls() -> None:
    def block(x: Any) -> Any:
        return ops.relu(x)

    def model(x: Any) -> Any:
        return block(block(x))

    graph = Graph("g", model, [ROW])
    scopes = [op.scope for op in graph.function.ops if op.name == "mo.relu"]
    assert scopes == ["model.block", "model.block.1"]


def test_parameters() -> None:
    graph = Graph("g", input_types=[TensorType(F32, ["b", Dim("s") * 2]), TensorType(F32, ["b"])])
    assert graph.parameters == ["b", "s"]


def test_public_names() -> None:
    for name in maxlab.graph.__all__:
        assert hasattr(maxlab.graph, name)
    assert maxlab.graph.dim.Dim is maxlab.graph.Dim
    assert maxlab.graph.shape.Shape is maxlab.graph.Shape
    assert maxlab.graph.type.TensorType is maxlab.graph.TensorType


def test_import_is_light() -> None:
    code = (
        "import sys, maxlab.graph;"
        "print(*sorted({n.split('.')[0] for n in sys.modules} & "
        "{'cffi', 'torch', 'ml_dtypes', 'safetensors', 'IPython', 'asyncio', 'multiprocessing'}))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.split() == []
