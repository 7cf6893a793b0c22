"""Virtual CPUs: devices with memory of their own, and models over several of them."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.analysis.check import compare
from maxlab.driver import CPU, Tensor
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DeviceError, InputError, MaxlabError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, Weight, ops
from maxlab.opset import OPSET, OpDef
from tests.devices.places import load, put, taken
from tests.opset.test_reference import attrs_of, typed

F32 = DType.float32
C0, C1, C2 = (DeviceRef.CPU(n) for n in range(3))
RNG = np.random.default_rng(7)


def f32(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


# ---------------------------------------------------------------- devices
def test_every_cpu_is_the_host_unless_several_are_asked_for() -> None:
    assert CPU(3) is CPU()
    assert CPU(3).id == 0
    assert driver.cpu_count() == 1
    with driver.virtual_cpus(3) as cpus:
        assert driver.cpu_count() == 3
        assert cpus[0] is CPU() is CPU(-1) is CPU(0)
        assert [CPU(n) is cpu for n, cpu in enumerate(cpus)] == [True] * 3
        assert [cpu.id for cpu in cpus] == [0, 1, 2]
        assert {cpu.label for cpu in cpus} == {"cpu"}
        assert C2.to_device() is cpus[2]
        assert DeviceRef.from_device(cpus[2]) == C2
        assert driver.load_devices([driver.DeviceSpec.cpu(1)]) == [cpus[1]]
        assert driver.devices_exist([driver.DeviceSpec.cpu(2)])
        assert not driver.devices_exist([driver.DeviceSpec.cpu(3)])
        assert not cpus[1].can_access(cpus[2])
        with driver.virtual_cpus(2) as inner:
            assert inner[1] is not cpus[1]
        assert CPU(1) is cpus[1]
    assert CPU(1) is CPU()
    assert driver.devices_exist([driver.DeviceSpec.cpu(3)])


def test_a_function_chooses_them_for_good() -> None:
    try:
        driver.use_virtual_cpus(2)
        assert CPU(1).id == 1
    finally:
        driver.use_virtual_cpus(0)
    assert CPU(1).id == 0


WRONG: list[tuple[str, type[Exception], Callable[[], Any]]] = [
    ("ML433", ValueError, lambda: CPU(2)),
    ("ML401", ValueError, lambda: CPU(-2)),
    ("ML434", ValueError, lambda: driver.use_virtual_cpus(-1)),
    ("ML434", ValueError, lambda: driver.use_virtual_cpus(1.5)),  # type: ignore[arg-type]
    ("ML434", ValueError, lambda: driver.use_virtual_cpus(2, memory_limit=0)),
    ("ML434", ValueError, lambda: driver.use_virtual_cpus(2, memory_limit="1")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("code", "kind", "make"), WRONG)
def test_wrong_devices(code: str, kind: type[Exception], make: Callable[[], Any]) -> None:
    with driver.virtual_cpus(2) as cpus:
        with pytest.raises(kind) as caught:
            make()
        assert isinstance(caught.value, (DeviceError, ArgumentError))
        assert caught.value.code == code
        assert CPU(1) is cpus[1], "what failed has changed nothing"


# ---------------------------------------------------------------- memory
def test_tensors_live_in_the_memory_of_their_device() -> None:
    with driver.virtual_cpus(3) as cpus:
        x = put(np.arange(100, dtype=np.float32), cpus[1])
        assert x.device is cpus[1]
        assert cpus[1].stats["used_memory"] == 448  # 400, in steps of 64
        assert cpus[2].stats["used_memory"] == 0
        y = x.to(cpus[2])
        y[0] = 5.0
        assert taken(x)[0] == 0.0
        assert x.to(cpus[1]) is x
        assert x.copy().device is cpus[1]
        assert x[::2].contiguous().device is cpus[1]
        np.testing.assert_array_equal(taken(x[::3]), np.arange(0, 100, 3))
        np.testing.assert_array_equal(taken(x[::-1].to(cpus[2])), np.arange(99, -1, -1))
        assert Tensor.zeros([4], DType.int32, cpus[1]).to_numpy().sum() == 0
        del x, y
        gc.collect()
        assert [cpu.stats["used_memory"] for cpu in cpus[1:]] == [0, 0]
        assert cpus[1].stats["peak_memory"] >= 896


def test_a_limit_holds_and_freed_memory_counts_no_more() -> None:
    with driver.virtual_cpus(2, memory_limit=1 << 12) as cpus:
        half = Tensor(F32, [512], cpus[1])
        with pytest.raises(DeviceError, match="ML403.*\n.*limit is 4096"):
            Tensor(F32, [513], cpus[1])
        del half
        assert Tensor(F32, [1024], cpus[1]).device is cpus[1]  # in other blocks than before
        assert Tensor(F32, [1 << 16], cpus[0]).device is CPU(), "the host has no limit"


def test_a_tensor_outlives_the_block_that_made_its_device() -> None:
    with driver.virtual_cpus(2) as cpus:
        x = put(np.ones(3, np.float32), cpus[1])
        packed = pickle.dumps(x)
        assert pickle.loads(packed).device is cpus[1]
    assert taken(x).sum() == 3
    assert pickle.loads(packed).device is CPU()


# ---------------------------------------------------------------- rules of the graph
MIXED: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a @ b.T,
    lambda a, b: ops.where(a > 0, b, b),
    lambda a, b: ops.concat([a, b]),
    lambda a, b: ops.stack([a, b]),
    lambda a, b: ops.gather(a, ops.cast(b, DType.int64), 0),
    lambda a, b: ops.layer_norm(a, b[0], b[0], 1e-5),
    lambda a, b: ops.scatter(a, b, ops.cast(b, DType.int64)),
    lambda a, b: ops.assert_same_device(a, other=b),
    lambda a, b: ops.buffer_store(
        ops.buffer_create(BufferType(F32, [4, 4], a.device)),
        b,
    ),
]


@pytest.mark.parametrize("make", MIXED)
def test_nothing_reads_another_device(make: Callable[[Any, Any], Any]) -> None:
    types = [TensorType(F32, [4, 4], place) for place in (C1, C2)]
    with Graph("g", input_types=types) as graph:
        a, b = (v.tensor for v in graph.inputs)
        with pytest.raises(MaxlabError, match="cpu:1.*cpu:2") as caught:
            make(a, b)
        assert caught.value.code == "ML304"
        moved = ops.transfer_to(b, C1)
        assert moved.device == C1
        make(a, moved)


def elsewhere() -> list[Any]:
    """Each row with several operands, and the number of one of them."""
    return [
        pytest.param(row, number, id=f"{name} {number}")
        for name, row in sorted(OPSET.items())
        if row.samples is not None
        for number in range(1, max((len(s.arrays) for s in row.samples()), default=0))
    ]


@pytest.mark.parametrize(("row", "number"), elsewhere())
def test_no_row_of_the_op_table_takes_operands_of_two_devices(row: OpDef, number: int) -> None:
    assert row.samples is not None
    for sample in row.samples():
        if number >= len(sample.arrays):
            continue
        types, env = typed(sample, False)
        here = types[number]
        types[number] = TensorType(here.dtype, here.shape, C1)
        with pytest.raises(MaxlabError) as caught:
            row.infer(types, attrs_of(row, sample, env))
        assert caught.value.code == "ML304"


# ---------------------------------------------------------------- models
def two_places() -> Graph:
    types = [TensorType(F32, ["n", 64], C1), TensorType(F32, ["n", 64], C0)]
    with Graph("two", input_types=types) as graph:
        a, b = (v.tensor for v in graph.inputs)
        hidden = ops.softmax(ops.relu(a) @ Weight("w", F32, [64, 32], C1))
        back = ops.transfer_to(ops.relu(hidden * 2), C0)
        ones = ops.constant(np.ones((64, 32), np.float32), F32, C0)
        graph.output(hidden, back + b @ ones)
    return graph


def two_places_in_numpy(a: Any, b: Any, w: Any) -> tuple[Any, Any]:
    scores = np.exp(np.maximum(a, 0) @ w)
    hidden = scores / scores.sum(-1, keepdims=True)
    return hidden, hidden * 2 + b.sum(-1, keepdims=True)


def test_a_model_runs_on_two_cpus() -> None:
    w = f32(64, 32)
    with driver.virtual_cpus(2) as cpus:
        model = load(two_places(), cpus, w=w)
        assert model.device_name == "cpu"
        for rows in (5, 1, 0, 5):  # sizes are bound anew
            a, b = f32(rows, 64), f32(rows, 64)
            found = model(put(a, cpus[1]), b)
            assert [x.device for x in found] == [cpus[1], cpus[0]]
            for x, wanted in zip(found, two_places_in_numpy(a, b, w), strict=True):
                np.testing.assert_allclose(taken(x), wanted, rtol=1e-5, atol=1e-5)
        assert cpus[1].stats["used_memory"] >= w.nbytes
        assert compare(model, put(a, cpus[1]), b).ok
        again = model.reload()
        np.testing.assert_array_equal(taken(again(put(a, cpus[1]), b)[0]), taken(found[0]))
        profile = model.profile(put(a, cpus[1]), b, runs=2, warmup=1)
        assert len(profile.kernels) == len(model.kernels)


def a_map_that_is_moved() -> Graph:
    with Graph("map", input_types=[TensorType(F32, ["n"], C1)]) as graph:
        moved = ops.transfer_to(ops.relu(graph.inputs[0].tensor * 2), C0)
        graph.output(moved + 1)
    return graph


@pytest.mark.parametrize("make", [two_places, a_map_that_is_moved])
def test_kernels_of_each_cpu_touch_its_own_memory_but_for_copies(
    make: Callable[[], Graph],
) -> None:
    with driver.virtual_cpus(2) as cpus:
        plan = load(make(), cpus, w=f32(64, 32)).compiled.plan
    crossing = []
    for step in plan.steps:
        others = {plan.slots[n].device for n in step.pointers} - {step.device}
        if others:
            crossing.append((step.kind, step.name, step.device, others))
    assert crossing == [("copy", "transfer", C0, {C1})]


def test_without_virtual_cpus_all_cpus_are_the_host() -> None:
    a, b, w = f32(5, 64), f32(5, 64), f32(64, 32)
    found = engine.InferenceSession().load(two_places(), weights_registry={"w": w})(a, b)
    for x, wanted in zip(found, two_places_in_numpy(a, b, w), strict=True):
        assert x.device is CPU()
        np.testing.assert_allclose(taken(x), wanted, rtol=1e-5, atol=1e-5)


def test_two_names_of_the_host_share_an_arena_beside_a_gpu() -> None:
    """Intermediate values of ``cpu:0`` once had no memory where ``cpu:1`` had some too."""
    gpu = DeviceRef.GPU()
    with Graph("g", input_types=[TensorType(F32, [8, 8], C0)]) as graph:
        x = ops.cumsum(graph.inputs[0].tensor, axis=0)  # a kernel each, so that values are stored
        y = ops.cumsum(ops.transfer_to(ops.cumsum(x, axis=1), C1), axis=0)
        z = ops.cumsum(ops.transfer_to(y, C0), axis=1)
        graph.output(ops.transfer_to(ops.transfer_to(z, gpu) * 2, C0))
    value = f32(8, 8)
    with driver.simulated():
        (found,) = load(graph, [driver.Accelerator()])(value)
        wanted = value.cumsum(0).cumsum(1).cumsum(0).cumsum(1) * 2
        np.testing.assert_allclose(taken(found), wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("given", ["array", "host", "other", "number"])
def test_an_input_on_the_wrong_device_is_refused(given: str) -> None:
    with Graph("g", input_types=[TensorType(F32, [2], C1), TensorType(F32, [], C1)]) as graph:
        graph.output(graph.inputs[0].tensor * graph.inputs[1].tensor)
    with driver.virtual_cpus(3) as cpus:
        model = load(graph, cpus)
        x = np.ones(2, np.float32)
        if given == "number":  # numbers are put where they are wanted
            (y,) = model(put(x, cpus[1]), 3.0)
            np.testing.assert_array_equal(taken(y), [3, 3])
            return
        wrong = {"array": x, "host": Tensor.from_numpy(x), "other": put(x, cpus[2])}[given]
        with pytest.raises(InputError, match=r"ML608[\s\S]*to\(driver.CPU\(1\)\)"):
            model(wrong, 3.0)


def test_a_model_of_the_host_refuses_other_cpus() -> None:
    with Graph("g", input_types=[TensorType(F32, [2])]) as graph:
        graph.output(graph.inputs[0].tensor * 2)
    with driver.virtual_cpus(2) as cpus:
        model = load(graph, cpus)
        with pytest.raises(InputError, match="ML608"):
            model(put(np.ones(2, np.float32), cpus[1]))
        assert taken(model(np.ones(2, np.float32))[0]).sum() == 4


def test_devices_that_the_session_has_not() -> None:
    graph = two_places()
    with driver.virtual_cpus(2) as cpus:
        with pytest.raises(DeviceError, match=r"ML617[\s\S]*driver.CPU\(1\)"):
            engine.InferenceSession().load(graph, weights_registry={"w": f32(64, 32)})
        session = engine.InferenceSession(devices=cpus)
    with Graph("third", input_types=[TensorType(F32, [2], C2)]) as third:
        third.output(third.inputs[0])
    with pytest.raises(DeviceError, match="cpu:2"):  # also when the block has ended
        session.load(third)


def test_a_device_named_only_in_a_branch_is_found() -> None:
    with Graph("g", input_types=[TensorType(DType.bool, []), TensorType(F32, [3])]) as graph:
        flag, x = (v.tensor for v in graph.inputs)
        there = lambda: ops.transfer_to(ops.exp(ops.transfer_to(x, C2)), C0)  # noqa: E731
        graph.output(*ops.cond(flag, [TensorType(F32, [3])], there, lambda: x * 2))
    value = f32(3)
    with driver.virtual_cpus(3) as cpus:
        with pytest.raises(DeviceError, match="cpu:2"):
            load(graph, cpus[:2])
        model = load(graph, cpus)
        for flag_value, wanted in ((True, np.exp(value)), (False, value * 2)):
            np.testing.assert_allclose(taken(model(flag_value, value)[0]), wanted, rtol=1e-6)


def test_weights_and_constants_are_copied_to_their_device_at_load() -> None:
    with Graph("g", input_types=[TensorType(F32, [4], C1)]) as graph:
        table = ops.constant(np.arange(4, dtype=np.float32), F32, C1)
        graph.output(graph.inputs[0].tensor * Weight("w", F32, [4], C1) + table)
    w = np.full(4, 2, np.float32)
    with driver.virtual_cpus(3) as cpus:
        x = put(np.ones(4, np.float32), cpus[1])
        for given in (w, put(w, cpus[1]), put(w, cpus[2])):  # wherever it comes from
            model = engine.InferenceSession(devices=cpus).load(graph, weights_registry={"w": given})
            np.testing.assert_array_equal(taken(model(x)[0]), [2, 3, 4, 5])
        used = cpus[1].stats["used_memory"]
        del model
        gc.collect()
        assert cpus[1].stats["used_memory"] < used


def test_the_memory_of_a_model_counts_against_the_limit() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n"], C1)]) as graph:
        x = ops.cumsum(graph.inputs[0].tensor)
        graph.output(ops.cumsum(x))
    with driver.virtual_cpus(2, memory_limit=1 << 14) as cpus:
        model = load(graph, cpus)
        fits = put(np.ones(1024, np.float32), cpus[1])  # input, intermediate and output: 12 KiB
        np.testing.assert_array_equal(taken(model(fits)[0])[:3], [1, 3, 6])
        much = put(np.ones(1408, np.float32), cpus[1])
        with pytest.raises(DeviceError, match="ML403.*cpu:1|cpu:1.*ML403"):
            model(much)


def test_sizes_that_a_run_computes_and_buffers_of_other_cpus() -> None:
    types = [TensorType(F32, ["n"], C1), BufferType(F32, [2], C2)]
    with Graph("g", input_types=types) as graph:
        x: Any = graph.inputs[0].tensor
        total: Any = graph.inputs[1].buffer
        hits = ops.nonzero(x, "hits")
        total[0] = total[0] + ops.transfer_to(ops.sum(x)[0], C2)
        total[1] = ops.transfer_to(ops.cast(ops.shape_to_tensor(hits.shape)[0], F32), C2)
        graph.output(hits, ops.transfer_to(hits, C0) * 2)
    with driver.virtual_cpus(3) as cpus:
        model = load(graph, cpus)
        total = Tensor.zeros([2], F32, cpus[2])
        for value in ([0, 3, 0, 4], [1, 1], [0.0]):
            x = np.array(value, np.float32)
            found, doubled = model(put(x, cpus[1]), total)
            np.testing.assert_array_equal(taken(found)[:, 0], np.flatnonzero(x))
            np.testing.assert_array_equal(taken(doubled), taken(found) * 2)
            assert found.device is cpus[1]
            assert taken(total)[1] == np.count_nonzero(x)
        assert taken(total)[0] == 9


def test_loops_run_on_several_cpus() -> None:
    types = [TensorType(DType.int64, []), TensorType(F32, [3], C1)]
    with Graph("g", input_types=types) as graph:
        n: Any = graph.inputs[0].tensor
        x: Any = graph.inputs[1].tensor

        def body(turn: Any, value: Any) -> Any:
            there = ops.transfer_to(value, C2) * 2
            return turn + 1, ops.transfer_to(there, C1) + 1

        zero = ops.constant(0, DType.int64, C0)
        graph.output(ops.while_loop([zero, x], lambda turn, value: turn < n, body)[1])
    with driver.virtual_cpus(3) as cpus:
        model = load(graph, cpus)
        x = np.arange(3, dtype=np.float32)
        for turns in (0, 1, 5):
            (found,) = model(turns, put(x, cpus[1]))
            np.testing.assert_array_equal(taken(found), x * 2**turns + 2**turns - 1)


def test_what_a_kernel_of_another_cpu_finds_wrong_is_raised() -> None:
    types = [TensorType(F32, ["n"], C1), TensorType(DType.int64, ["m"], C1)]
    with Graph("g", input_types=types) as graph:
        x, index = (v.tensor for v in graph.inputs)
        graph.output(ops.transfer_to(ops.gather(x, index, 0), C0))
    with driver.virtual_cpus(2) as cpus:
        model = load(graph, cpus)
        x_there = put(np.arange(3, dtype=np.float32), cpus[1])
        with pytest.raises(MaxlabError, match="ML652"):
            model(x_there, put(np.array([0, 3]), cpus[1]))
        (found,) = model(x_there, put(np.array([2, -3]), cpus[1]))
        np.testing.assert_array_equal(taken(found), [2, 0])


def test_threads_run_one_model_at_once() -> None:
    w = f32(64, 32)
    with driver.virtual_cpus(2) as cpus:
        model = load(two_places(), cpus, w=w)
        given = [(f32(rows, 64), f32(rows, 64)) for rows in (1, 2, 5, 5)]
        wrong: list[int] = []

        def run(number: int) -> None:
            a, b = given[number]
            wanted = two_places_in_numpy(a, b, w)
            for _ in range(50):
                found = model(put(a, cpus[1]), b)
                for x, right in zip(found, wanted, strict=True):
                    if not np.allclose(taken(x), right, rtol=1e-5, atol=1e-5):
                        wrong.append(number)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
