"""Subgraphs: their bodies are compiled once, and everything still speaks of the calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.compiler import Options, schedule
from maxlab.config import config, set_config
from maxlab.dtype import DType
from maxlab.errors import ExecutionError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, Weight, ops

CPU = DeviceRef.CPU()
call: Any = ops.call
SIZE = 8
ROWS = TensorType(DType.float32, ["n", SIZE], CPU)
SQUARE = TensorType(DType.float32, [SIZE, SIZE], CPU)


def layered(calls: int, device: DeviceRef = CPU) -> tuple[Graph, dict[str, Any]]:
    """A graph that calls a layer with two weights ``calls`` times, and their data."""
    rows = TensorType(DType.float32, ["n", SIZE], device)

    def layer(x: Any) -> Any:
        w = Weight("w", DType.float32, [SIZE, SIZE], device, _placeholder=True)
        b = Weight("b", DType.float32, [SIZE], device, _placeholder=True)
        return x + ops.tanh(ops.softmax(x @ w) + b)

    with Graph("net", input_types=[rows]) as graph:
        body = graph.add_subgraph("layer", layer, [rows])
        x: Any = graph.inputs[0]
        for n in range(calls):
            (x,) = call(body, x, prefix=f"layers.{n}.")
        graph.output(x)
    rng = np.random.default_rng(0)
    data: dict[str, Any] = {}
    for n in range(calls):
        data[f"layers.{n}.w"] = rng.standard_normal((SIZE, SIZE)).astype(np.float32)
        data[f"layers.{n}.b"] = rng.standard_normal(SIZE).astype(np.float32)
    return graph, data


def by_numpy(x: Any, calls: int, data: dict[str, Any]) -> Any:
    x = x.astype(np.float64)
    for n in range(calls):
        y = x @ data[f"layers.{n}.w"]
        y = np.exp(y - y.max(-1, keepdims=True))
        x = x + np.tanh(y / y.sum(-1, keepdims=True) + data[f"layers.{n}.b"])
    return x


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the functions that are scheduled."""
    seen: list[str] = []
    before = schedule.Schedule.__init__

    def init(self: Any, function: Any, *args: Any, **kwargs: Any) -> None:
        seen.append(function.name)
        before(self, function, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(schedule.Schedule, "__init__", init)
        yield seen


@pytest.fixture
def empty_cache(tmp_path: Path) -> Iterator[None]:
    """A cache without the plans of earlier runs."""
    before = set_config(replace(config(), cache_dir=tmp_path / "cache"))
    yield
    set_config(before)


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("calls", [1, 2, 50])
def test_a_body_is_compiled_once(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, data = layered(calls)
    with counted(monkeypatch) as seen:
        model = engine.InferenceSession().load(graph, weights_registry=data)
    assert seen == (["net"] if calls == 1 else ["net", "layer"])
    x = np.random.default_rng(1).standard_normal((5, SIZE)).astype(np.float32)
    wanted = by_numpy(x, calls, data)
    np.testing.assert_allclose(model(x)[0].to_numpy(), wanted, rtol=2e-5, atol=2e-5)
    plain = engine.InferenceSession().load(
        graph, weights_registry=data, options=Options(outline=False)
    )
    np.testing.assert_allclose(plain(x)[0].to_numpy(), wanted, rtol=2e-5, atol=2e-5)


def test_kernels_name_the_ops_of_their_calls() -> None:
    graph, data = layered(3)
    model = engine.InferenceSession().load(graph, weights_registry=data)
    named = [set(step.nodes) for step in model.plan.steps if step.printed is not None]
    assert len(named) % 3 == 0
    each = len(named) // 3
    seen: set[str] = set()
    for n in range(3):
        mine = set().union(*named[n * each : (n + 1) * each])
        assert mine, "every kernel stands for ops of the graph"
        assert not mine & seen, "no kernel stands for ops of another call"
        seen |= mine
    known = {op.id for op in graph.function.ops}
    assert seen <= known
    for kernel in model.kernels.values():
        for _, _, node in kernel.lines if hasattr(kernel, "lines") else ():
            assert node in known


def test_a_body_is_called_by_a_body() -> None:
    row = TensorType(DType.float32, ["n"], CPU)
    with Graph("outer", input_types=[row]) as graph:

        def twice(x: Any) -> Any:
            inner = Graph.current.add_subgraph("inner", lambda v: ops.exp(v) - 1, [row])
            (y,) = call(inner, x)
            (y,) = call(inner, y)
            return y

        body = graph.add_subgraph("twice", twice, [row])
        (a,) = call(body, graph.inputs[0])
        (b,) = call(body, a)
        graph.output(a, b)
    x = np.array([-0.5, 0.1], np.float32)
    a, b = (y.to_numpy() for y in engine.InferenceSession().load(graph)(x))
    wanted = np.exp(np.exp(x) - 1) - 1
    np.testing.assert_allclose(a, wanted, rtol=1e-5)
    np.testing.assert_allclose(b, np.exp(np.exp(wanted) - 1) - 1, rtol=1e-5)


def test_what_is_only_passed_through() -> None:
    row = TensorType(DType.float32, ["n"], CPU)
    with Graph("g", input_types=[row]) as graph:

        def body(x: Any) -> Any:
            y = x + 1
            return x, y, y, ops.constant(np.ones(2, np.float32))

        sub = graph.add_subgraph("body", body, [row])
        first = call(sub, graph.inputs[0])
        second = call(sub, first[1])
        graph.output(*first, *second)
    x = np.array([1, 2], np.float32)
    found = [y.to_numpy().tolist() for y in engine.InferenceSession().load(graph)(x)]
    assert found == [[1, 2], [2, 3], [2, 3], [1, 1], [2, 3], [3, 4], [3, 4], [1, 1]]


def test_loops_and_branches_in_a_body() -> None:
    row = TensorType(DType.float32, ["n"], CPU)
    with Graph("g", input_types=[row]) as graph:

        def body(x: Any) -> Any:
            big = ops.while_loop(
                x, lambda v: ops.sum(v, axis=0)[0] < 100, lambda v: v + v
            )[0]  # fmt: skip
            return ops.cond(ops.max(x, axis=0)[0] > 3, [row], lambda: big, lambda: x)[0]

        sub = graph.add_subgraph("body", body, [row])
        (a,) = call(sub, graph.inputs[0])
        (b,) = call(sub, a + 1)
        graph.output(a, b)
    model = engine.InferenceSession().load(graph)
    a, b = (y.to_numpy().tolist() for y in model(np.array([1, 4], np.float32)))
    assert a == [32, 128]
    assert b == [33, 129]
    a, b = (y.to_numpy().tolist() for y in model(np.array([1, 2], np.float32)))
    assert a == [1, 2]
    assert b == [2, 3]
    nodes = {n for step in model.plan.steps for n in step.nodes}
    assert nodes <= {op.id for op in graph.function.walk()}


def test_stores_of_calls_are_in_order() -> None:
    """Bodies with effects are compiled with what is around them."""
    cell_type = BufferType(DType.int32, [1], CPU)
    with Graph("g", input_types=[cell_type]) as graph:
        sub = graph.add_subgraph(
            "twice", lambda c: ops.buffer_store(c, ops.buffer_load(c) * 2 + 1), [cell_type]
        )
        for _ in range(3):
            call(sub, graph.inputs[0])
        graph.output()
    memory = np.zeros(1, np.int32)
    engine.InferenceSession().load(graph)(memory)
    assert memory[0] == 7


def test_a_fault_in_a_body_names_its_line() -> None:
    type = TensorType(DType.int64, [], CPU)
    row = TensorType(DType.float32, ["n"], CPU)
    with Graph("g", input_types=[row, type]) as graph:
        sub = graph.add_subgraph(
            "pick",
            lambda x, i: (x + 1, ops.gather(x, i, axis=0) * 2),  # here
            [row, type],
        )
        x, _ = call(sub, *graph.inputs)
        _, y = call(sub, x, graph.inputs[1])
        graph.output(y)
    model = engine.InferenceSession().load(graph)
    assert model(np.arange(3, dtype=np.float32), 2)[0].item() == 6
    with pytest.raises(ExecutionError, match="index 3 is out of range") as caught:
        model(np.arange(3, dtype=np.float32), 3)
    assert caught.value.at is not None
    assert "# here" in Path(__file__).read_text().splitlines()[caught.value.at.line - 1]


def test_compare_checks_each_call() -> None:
    graph, data = layered(3)
    model = engine.InferenceSession().load(graph, weights_registry=data)
    x = np.random.default_rng(2).standard_normal((5, SIZE)).astype(np.float32)
    assert maxlab.compare(model, x).ok
    kernel = next(k for k in model.kernels.values() if "tanh" in k.source)
    start = kernel.source.index("mx_tanh_f32(v", kernel.source.index("int k_"))
    bad = kernel.source[:start] + "0.5f * " + kernel.source[start:]
    planted = model.reload(options=Options(replaced={kernel.symbol: bad}))
    result = maxlab.compare(planted, x)
    assert not result.ok
    known = {op.id for op in graph.function.ops}
    assert {n.id for n in result.nodes if not n.ok} <= known


def test_calls_on_a_device(gpu: driver.Accelerator) -> None:
    graph, data = layered(3, DeviceRef.GPU())
    model = engine.InferenceSession(devices=[gpu]).load(graph, weights_registry=data)
    x = np.random.default_rng(1).standard_normal((4, SIZE)).astype(np.float32)
    (y,) = model(driver.Tensor.from_numpy(x).to(gpu))
    wanted = by_numpy(x, 3, data)
    np.testing.assert_allclose(y.to(driver.CPU()).to_numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_weights_that_are_passed_are_packed_when_the_model_is_loaded() -> None:
    with Graph("g", input_types=[ROWS]) as graph:
        sub = graph.add_subgraph("product", lambda x, w: ops.tanh(x @ w), [ROWS, SQUARE])
        x: Any = graph.inputs[0]
        for n in range(3):
            w = graph.add_weight(Weight(f"w{n}", DType.float32, [SIZE, SIZE], CPU))
            (x,) = call(sub, x, w)
        graph.output(x)
    rng = np.random.default_rng(5)
    data = {f"w{n}": rng.standard_normal((SIZE, SIZE)).astype(np.float32) for n in range(3)}
    model = engine.InferenceSession().load(graph, weights_registry=data)
    assert not [step for step in model.plan.steps if step.kind == "pack"]
    x = rng.standard_normal((2, SIZE)).astype(np.float32)
    wanted: Any = x
    for n in range(3):
        wanted = np.tanh(wanted @ data[f"w{n}"])
    np.testing.assert_allclose(model(x)[0].to_numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_a_failed_call_leaves_the_graph_as_it_was() -> None:
    graph, data = layered(2)
    with graph:
        wrong = ops.constant(1.0, DType.float32, CPU)
        calls, text = len(graph.function.calls), str(graph)
        with pytest.raises(ValueError, match="layer"):
            call(graph._subgraphs["layer"], wrong)
        assert len(graph.function.calls) == calls
        assert str(graph) == text
    model = engine.InferenceSession().load(graph, weights_registry=data)
    assert len(model.output_metadata) == 1
