"""Functions of Python as ops: called between the kernels, on the thread that runs the model."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.compiler.plan import Launch
from maxlab.dtype import DType
from maxlab.errors import DeviceError, ExecutionError, GraphError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.graph.build import add
from maxlab.ir import HostCall

Array = np.ndarray[Any, Any]
ROWS = TensorType(DType.float32, ["n", 64])


def arrays(addresses: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Arrays over float32 memory."""
    return [
        np.ctypeslib.as_array((ctypes.c_float * int(np.prod(s))).from_address(a)).reshape(s)
        for a, s in zip(addresses, shapes, strict=True)
    ]


def calling(run: Callable[[list[Array]], None]) -> HostCall:
    return HostCall("torch", "a.call", "# what it does\n", lambda a, s: run(arrays(a, s)))


def host(call: HostCall, *operands: Any, types: Sequence[TensorType], flops: int = 0) -> Any:
    return add("host", list(operands), call=call, types=tuple(types), flops=flops)


def between(run: Callable[[list[Array]], None], threads: int) -> engine.Model:
    """A model in which ``run`` makes two tensors of one that a kernel made, for another kernel."""
    with Graph("between", input_types=[ROWS]) as graph:
        y = ops.exp(graph.inputs[0].tensor) * 0.5
        a, b = host(calling(run), y, types=(ROWS, ROWS), flops=7)
        graph.output(ops.sum(a + b, axis=-1), a)
    return engine.InferenceSession(num_threads=threads).load(graph)


def twice(found: list[Array]) -> None:
    found[0][...], found[1][...] = found[2] * 2, found[2] + 1


def expected(x: Array) -> tuple[Array, Array]:
    y = np.exp(x) * np.float32(0.5)
    return (3 * y + 1).sum(-1, keepdims=True), 2 * y


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("rows", [0, 1, 3000])
def test_it_is_a_step_between_kernels(threads: int, rows: int) -> None:
    model = between(twice, threads)
    x = np.random.default_rng(rows).standard_normal((rows, 64), np.float32)
    for _ in range(20):
        made = [t.to_numpy() for t in model(x)]
        for got, want in zip(made, expected(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_it_runs_on_the_thread_that_runs_the_model() -> None:
    threads: list[int] = []

    def run(found: list[Array]) -> None:
        threads.append(threading.get_ident())
        twice(found)

    model = between(run, 4)
    x = np.ones((4000, 64), np.float32)  # enough for several threads: the kernels are shared
    launches = model.bind(((4000, 64),)).launches.values()
    assert any(isinstance(x, Launch) and x.grain < x.extent for x in launches)
    for _ in range(30):
        model(x)
    assert set(threads) == {threading.get_ident()}
    others: list[int] = []

    def work() -> None:
        others.append(threading.get_ident())
        model(x)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set(threads) == {threading.get_ident(), *others}


@pytest.mark.parametrize("threads", [1, 3])
def test_what_it_raises_ends_the_run_and_names_the_line(threads: int) -> None:
    def run(found: list[Array]) -> None:
        if found[2].max() > 100:
            raise ValueError("too large")
        twice(found)

    model = between(run, threads)
    x = np.zeros((3000, 64), np.float32)
    for _ in range(3):
        with pytest.raises(ExecutionError) as caught:
            model(x + 9)
        error = caught.value
        assert error.code == "ML685"
        assert "too large" in error.what
        assert isinstance(error.__cause__, ValueError)
        assert error.at is not None
        assert error.at.function == "host"
        np.testing.assert_allclose(model(x)[1].to_numpy(), 1.0)  # the next run is whole


def test_an_interrupt_passes_through() -> None:
    def run(found: list[Array]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        between(run, 2)(np.zeros((4, 64), np.float32))


def test_it_is_profiled_like_a_kernel() -> None:
    model = between(twice, 2)
    profile = model.profile(np.ones((500, 64), np.float32), runs=3)
    (call,) = [k for k in profile.kernels if k.kind == "torch"]
    assert call.name == "a.call"
    assert call.ns > 0
    assert call.flops == 7
    assert call.nbytes == 3 * 500 * 64 * 4
    assert call.busy_ns == ()  # torch's own threads are not ours to count
    assert call.imbalance == 0
    assert model.kernels[call.id].source == "# what it does\n"
    assert [op.name for op in model.compiled.source.ops if op.id in call.nodes] == ["mo.host"]


def test_views_and_constants_are_laid_out_for_it() -> None:
    def run(found: list[Array]) -> None:
        out, turned, part, number = found
        out[...] = turned * number + part

    square = TensorType(DType.float32, [8, 8])
    with Graph("views", input_types=[square]) as graph:
        x = graph.inputs[0].tensor
        wide = ops.broadcast_to(x[:1], [8, 8])
        three = ops.constant(3.0, DType.float32, DeviceRef.CPU())
        graph.output(host(calling(run), ops.permute(x, [1, 0]), wide, three, types=[square]))
    data = np.arange(64, dtype=np.float32).reshape(8, 8)
    (made,) = engine.InferenceSession().load(graph)(data)
    np.testing.assert_array_equal(made.to_numpy(), data.T * 3 + data[:1])


def test_equal_calls_stay_two() -> None:
    """They may draw random numbers: nothing takes one for the other."""
    count = [0]

    def run(found: list[Array]) -> None:
        count[0] += 1
        found[0][...] = count[0]

    call = [calling(run), calling(run)]
    with Graph("two", input_types=[ROWS]) as graph:
        x = graph.inputs[0].tensor
        graph.output(*(host(c, x, types=[ROWS]) for c in call))
    made = engine.InferenceSession().load(graph)(np.zeros((2, 64), np.float32))
    assert {float(t.to_numpy()[0, 0]) for t in made} == {1.0, 2.0}


def test_a_result_that_nobody_reads_is_computed_into_nothing() -> None:
    with Graph("half", input_types=[ROWS]) as graph:
        a, _ = host(calling(twice), graph.inputs[0].tensor, types=(ROWS, ROWS))
        graph.output(a)
    (made,) = engine.InferenceSession().load(graph)(np.ones((5, 64), np.float32))
    np.testing.assert_array_equal(made.to_numpy(), 2.0)


def test_it_is_refused_on_a_gpu() -> None:
    there = TensorType(DType.float32, [4, 64], DeviceRef.GPU())
    with (
        Graph("gpu", input_types=[there]) as graph,
        pytest.raises(DeviceError, match="runs it on the CPU") as caught,
    ):
        host(calling(twice), graph.inputs[0].tensor, types=[there])
    assert caught.value.code == "ML682"


def test_it_cannot_be_written(tmp_path: Any) -> None:
    with Graph("saved", input_types=[ROWS]) as graph:
        graph.output(host(calling(twice), graph.inputs[0].tensor, types=[ROWS]))
    assert "a.call" in str(graph)
    with pytest.raises(GraphError, match="a function of this process") as caught:
        graph.save(tmp_path / "graph.mlir")
    assert caught.value.code == "ML355"
