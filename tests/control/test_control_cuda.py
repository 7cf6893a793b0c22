"""``cond`` and ``while_loop`` on a simulated GPU: results, and what goes to and fro."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.engine.observing import HostTimes, Observer
from maxlab.errors import ExecutionError, InputError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, TensorValue, Weight, ops

CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()
ROW = TensorType(DType.float32, ["n"], GPU)
INT = TensorType(DType.int64, [], CPU)
loop: Any = ops.while_loop
branch: Any = ops.cond


def tensors(graph: Graph) -> list[Any]:
    return [v.tensor for v in graph.inputs if isinstance(v, TensorValue)]


def integer(value: int, device: DeviceRef = GPU) -> Any:
    return ops.constant(value, DType.int64, device)


def placed(model: Any, *arrays: Any) -> list[np.ndarray[Any, Any]]:
    return [y.to(driver.CPU()).to_numpy() for y in model(*model.placed(arrays))]


def load(graph: Graph, gpu: driver.Accelerator, **kwargs: Any) -> Any:
    return engine.InferenceSession(devices=[gpu]).load(graph, **kwargs)


def test_a_counter_on_the_device(gpu: driver.Accelerator) -> None:
    """One flag a turn comes to the host, and nothing else goes either way."""
    with Graph("g", input_types=[ROW]) as graph:
        (x,) = tensors(graph)
        i, y = loop((integer(0), x), lambda i, y: i < 7, lambda i, y: (i + 1, y * 2 + x))
        graph.output(i, y)
    model = load(graph, gpu)
    x = np.array([1, 2, 3], np.float32)
    seen: dict[str, int] = {}

    class Counter(Observer):
        def begin(self, step: Any, context: Any, queue: Any, words: Any) -> None:
            kind = "kernel"
            if step.kind == "settle":
                kind = "gpu to gpu"
            if step.kind == "transfer":
                target, source = (model.plan.slots[n].device for n in step.pointers)
                kind = f"{source.device_type.value} to {target.device_type.value}"
            seen[kind] = seen.get(kind, 0) + 1

        def host(self, times: HostTimes) -> None:
            seen["host"] = seen.get("host", 0) + len(times.steps)

    i, y = (v.to(driver.CPU()).to_numpy() for v in model.run_observed(model.placed([x]), Counter()))
    assert i == 7
    np.testing.assert_array_equal(y, x * (2**7 + 2**7 - 1))
    assert seen.pop("gpu to cpu") == 8
    assert "cpu to gpu" not in seen
    assert "host" not in seen
    assert seen["kernel"] <= 8 + 2 * 7 + 2
    assert seen["gpu to gpu"] == 1, "the counter, once it has ended"


@pytest.mark.parametrize("flag", [True, False])
def test_branches(gpu: driver.Accelerator, flag: bool) -> None:
    pred_type = TensorType(DType.bool, [], GPU)
    with Graph("g", input_types=[ROW, pred_type]) as graph:
        x, pred = tensors(graph)
        w = Weight("w", DType.float32, [1], GPU)
        y = branch(pred, [ROW], lambda: ops.exp(x) * w, lambda: ops.cumsum(x))[0]
        graph.output(y + 1)
    weight = np.array([3], np.float32)
    model = load(graph, gpu, weights_registry={"w": weight})
    x = np.arange(5, dtype=np.float32)
    (y,) = placed(model, x, np.array(flag))
    np.testing.assert_allclose(y, (np.exp(x) * 3 if flag else np.cumsum(x)) + 1, rtol=1e-6)


def test_a_loop_of_the_host_and_one_of_the_device(gpu: driver.Accelerator) -> None:
    with Graph("g", input_types=[ROW, INT]) as graph:
        x, count = tensors(graph)
        here = loop(integer(0, CPU), lambda i: i < count, lambda i: i + 2)[0]

        def body(i: Any, y: Any) -> Any:
            inner = loop(y, lambda y: ops.max(y, axis=0)[0] < 100, lambda y: y + y)[0]
            return i + 1, inner / 64

        _, y = loop((integer(0, CPU), x), lambda i, y: i < here, body)
        graph.output(y, here)
    model = load(graph, gpu)
    x = np.array([1, 3], np.float32)
    y, here = placed(model, x, 3)
    wanted = x
    for _ in range(4):
        while wanted.max() < 100:
            wanted = wanted + wanted
        wanted = wanted / 64
    assert here == 4
    np.testing.assert_array_equal(y, wanted)
    profile = model.profile(*model.placed([x, np.array(3)]), runs=2, warmup=1)
    assert sum(k.ns for k in profile.kernels) > 0
    result = maxlab.compare(model, *model.placed([x, np.array(3)]))
    assert result.ok, str(result)


def test_stores_and_prints(gpu: driver.Accelerator, capsys: pytest.CaptureFixture[str]) -> None:
    with Graph("g", input_types=[BufferType(DType.int32, [3], GPU), INT]) as graph:
        cell, count = graph.inputs[0].buffer, tensors(graph)[0]

        def body(i: Any) -> Any:
            def store() -> None:
                ops.buffer_store(cell, ops.buffer_load(cell) * 2 + 1)
                ops.print("stored")

            branch(i % 2 == 0, None, store, lambda: None)
            return i + 1

        loop(integer(0, CPU), lambda i: i < count, body)
        graph.output(ops.buffer_load(cell))
    model = load(graph, gpu)
    memory = driver.Tensor.from_numpy(np.array([0, 1, 2], np.int32)).to(gpu)
    (y,) = model(memory, 4)
    np.testing.assert_array_equal(y.to(driver.CPU()).to_numpy(), [3, 7, 11])
    np.testing.assert_array_equal(memory.to(driver.CPU()).to_numpy(), [3, 7, 11])
    assert capsys.readouterr().out.split() == ["stored"] * 2


def test_faults_and_sizes(gpu: driver.Accelerator) -> None:
    flag = TensorType(DType.bool, [], CPU)
    four = TensorType(DType.float32, [4], GPU)
    with Graph("g", input_types=[ROW, flag, INT]) as graph:
        x, pred, at = tensors(graph)
        there = ops.transfer_to(at, GPU)

        def other() -> Any:
            return ops.broadcast_to(ops.gather(x, there, axis=0), [4])

        graph.output(*branch(pred, [four], lambda: x[:4] * 2, other))
    model = load(graph, gpu)
    long, short = np.arange(6, dtype=np.float32), np.arange(2, dtype=np.float32)
    np.testing.assert_array_equal(placed(model, long, True, 0)[0], long[:4] * 2)
    np.testing.assert_array_equal(placed(model, short, False, 1)[0], np.ones(4))
    with pytest.raises(InputError, match="does not hold"):
        placed(model, short, True, 1)
    with pytest.raises(ExecutionError, match="index 2 is out of range"):
        placed(model, short, False, 2)
    np.testing.assert_array_equal(placed(model, long, True, 0)[0], long[:4] * 2)


def test_products_in_a_loop(gpu: driver.Accelerator) -> None:
    rng = np.random.default_rng(3)
    w = (rng.standard_normal((32, 32)) / 6).astype(np.float32)
    with Graph("g", input_types=[TensorType(DType.float32, ["b", 32], GPU)]) as graph:
        (h,) = tensors(graph)
        weight = Weight("w", DType.float32, [32, 32], GPU)
        _, y = loop((integer(0), h), lambda i, h: i < 3, lambda i, h: (i + 1, ops.tanh(h @ weight)))
        graph.output(y)
    model = load(graph, gpu, weights_registry={"w": w})
    x = rng.standard_normal((5, 32)).astype(np.float32)
    (y,) = placed(model, x)
    wanted = x.astype(np.float64)
    for _ in range(3):
        wanted = np.tanh(wanted @ w)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-6)
