"""Models on devices under attack: wrong devices, short memory, failures in the middle, threads,
forks, and results that share or outlive what they should not.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.driver import CPU, Accelerator, DeviceStream, Tensor
from maxlab.driver.gpu_stream import AcceleratorStream
from maxlab.driver.sim.device import SimContext
from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentTypeError,
    DeviceError,
    ExecutionError,
    InputError,
    InputTypeError,
    ShapeError,
    WeightError,
)
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from tests.compiler.interpret import host
from tests.cuda.conftest import ON_A_GPU
from tests.cuda.placing import GPU

Array = np.ndarray[Any, Any]
F32, I32, I64 = DType.float32, DType.int32, DType.int64
HOST, OTHER = DeviceRef.CPU(), DeviceRef.GPU(1)
simulated_only = pytest.mark.skipif(ON_A_GPU, reason="it reaches into the simulator")
two_devices = pytest.mark.skipif(
    "driver.accelerator_count() == 1 and __import__('os').environ.get('MAXLAB_TEST_DEVICE')",
    reason="needs two devices",
)


def typed(*shape: Any, place: DeviceRef = GPU, dtype: DType = F32) -> TensorType:
    """A type on the GPU."""
    return TensorType(dtype, list(shape), place)


def graph_of(types: Sequence[TensorType], body: Callable[..., Any]) -> Graph:
    """The graph of ``body``, which gives one value or a tuple of them."""
    with Graph("g", input_types=types) as graph:
        made = body(*(v.tensor for v in graph.inputs))
        graph.output(*(made if isinstance(made, tuple) else (made,)))
    return graph


def load(
    types: Sequence[TensorType],
    body: Callable[..., Any],
    *gpus: Accelerator,
    **weights: Any,
) -> engine.Model:
    """Its model."""
    session = engine.InferenceSession(devices=gpus)
    return session.load(graph_of(types, body), weights_registry=weights)


def up(gpu: Accelerator, array: Any) -> Tensor:
    """``array`` on ``gpu``."""
    return Tensor.from_numpy(np.require(array, requirements="C")).to(gpu)


def down(tensor: Tensor) -> Array:
    """The elements of ``tensor``."""
    return host(tensor.to(CPU()))


# ---------------------------------------------------------------- indices
def test_a_bad_index_does_not_reach_the_host_as_a_result(gpu: Accelerator) -> None:
    model = load(
        [typed("r", 4), typed("n", dtype=I32)],
        lambda x, i: ops.transfer_to(ops.gather(x, i, 0) + 1, HOST),
        gpu,
    )
    table = up(gpu, np.zeros((3, 4), np.float32))
    with pytest.raises(ExecutionError, match=r"index 7 is out of range[\s\S]*ML652"):
        model(table, up(gpu, np.array([0, 7], np.int32)))
    gpu.synchronize()  # it was said, and is not said again
    np.testing.assert_array_equal(model(table, up(gpu, np.array([-3], np.int32)))[0], [[1] * 4])


@two_devices
def test_a_bad_index_does_not_get_lost_on_the_way_over_another_device() -> None:
    one, two = Accelerator(0), Accelerator(1)
    model = load(
        [typed("r", 4), typed("n", dtype=I64)],
        lambda x, i: ops.transfer_to(ops.transfer_to(ops.gather(x, i, 0), OTHER) + 1, HOST),
        one,
        two,
    )
    with pytest.raises(ExecutionError, match="index -4 is out of range"):
        model(up(one, np.zeros((3, 4), np.float32)), up(one, np.array([0, -4])))


def test_the_same_model_is_checked_once_however_often_it_ran(gpu: Accelerator) -> None:
    gpu.synchronize()
    model = load([typed("r", 4), typed("n", dtype=I32)], lambda x, i: ops.gather(x, i, 0), gpu)
    given = up(gpu, np.zeros((3, 4), np.float32)), up(gpu, np.array([0], np.int32))
    for _ in range(20):
        model(*given)
    assert len(gpu.default_stream._checks) == 1
    gpu.synchronize()


NESTED = [
    (5, [0, -5, 4], [2, -3]), (5, [0, 7], [0, 0]), (5, [0, 7], [1]), (0, [0], [0]), (0, [], []),
    (0, [0], []), (5, [], [0]), (5, [1], [-2]), (5, [2**31 - 1], [0]), (5, [-(2**31)], [0]),
]  # fmt: skip


@pytest.mark.parametrize("dtypes", [(I32, I64), (I64, I32)])
def test_nested_gathers_refuse_what_the_cpu_refuses(
    dtypes: tuple[DType, DType], gpu: Accelerator
) -> None:
    def body(x: TensorValue, i: TensorValue, j: TensorValue) -> TensorValue:
        return ops.gather(x, ops.gather(i, j, 0), 0) * 2

    def types(place: DeviceRef) -> list[TensorType]:
        return [
            typed("r", 3, place=place),
            typed("a", place=place, dtype=dtypes[0]),
            typed("b", place=place, dtype=dtypes[1]),
        ]

    model, on_cpu = load(types(GPU), body, gpu), load(types(HOST), body)
    for rows, first, second in NESTED:
        given = [
            np.arange(3 * rows, dtype=np.float32).reshape(rows, 3),
            np.array(first, dtypes[0].to_numpy()),
            np.array(second, dtypes[1].to_numpy()),
        ]
        found = []
        for made, place in ((model, gpu), (on_cpu, CPU())):
            try:
                tensors = [Tensor.from_numpy(x).to(place) for x in given]
                found.append(down(made(*tensors)[0]).tolist())
            except ExecutionError as error:
                found.append(str(error).splitlines()[0])
        assert found[0] == found[1], (rows, first, second)


# ---------------------------------------------------------------- aliases
def test_outputs_share_no_memory_with_what_the_model_keeps(gpu: Accelerator) -> None:
    """Inputs, weights, constants and views are outputs of their own, and twice are two."""
    weight, there = np.ones(4, np.float32), up(gpu, np.full(4, 5, np.float32))

    def body(x: TensorValue) -> tuple[TensorValue, ...]:
        w = ops.constant_external("w", typed(4))
        return (
            x, x, w, ops.constant_external("v", typed(4)),
            ops.constant(np.arange(4, dtype=np.float32), F32, GPU), ops.reshape(x, [2, 2]),
            x[1:3], w[::-1], x + 0,
        )  # fmt: skip

    model = load([typed(4)], body, gpu, w=weight, v=there)
    x = up(gpu, np.arange(4, dtype=np.float32))
    made = model(x)
    first = [down(t).tolist() for t in made]
    for tensor in made:
        before = [down(t).tolist() for t in made if t is not tensor]
        tensor[...] = 99.0
        assert [down(t).tolist() for t in made if t is not tensor] == before
    assert [down(t).tolist() for t in model(x)] == first
    np.testing.assert_array_equal(down(x), np.arange(4))
    np.testing.assert_array_equal(down(there), np.full(4, 5))
    np.testing.assert_array_equal(weight, np.ones(4))


@two_devices
def test_a_weight_is_used_on_every_device() -> None:
    one, two = Accelerator(0), Accelerator(1)

    def body(*x: TensorValue) -> tuple[TensorValue, ...]:
        row = ops.constant_external("w", typed(2, 4, place=HOST))[1]
        return tuple(v + ops.transfer_to(row, v.device) for v in x)

    places = (GPU, OTHER, HOST)
    table = np.arange(8, dtype=np.float32).reshape(2, 4)
    model = load([typed("n", 4, place=p) for p in places], body, one, two, w=table)
    given = [Tensor.from_numpy(np.ones((2, 4), np.float32)).to(d) for d in (one, two, CPU())]
    before = one.stats["uploads"], two.stats["uploads"]
    made = model(*given)
    assert (one.stats["uploads"], two.stats["uploads"]) == before
    assert [t.device for t in made] == [one, two, CPU()]
    for tensor in made:
        np.testing.assert_array_equal(down(tensor), [table[1] + 1] * 2)


def test_a_weight_of_another_stream_is_waited_for(
    gpu: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = DeviceStream(gpu)
    weight = Tensor.zeros([4], F32, gpu).to(side)
    followed: list[tuple[object, object]] = []
    usual = AcceleratorStream.follow

    def follow(self: AcceleratorStream, other: AcceleratorStream) -> None:
        followed.append((self, other))
        usual(self, other)

    monkeypatch.setattr(AcceleratorStream, "follow", follow)
    load([typed(4)], lambda x: x + ops.constant_external("w", typed(4)), gpu, w=weight)
    assert (gpu.default_stream, side) in followed


# ---------------------------------------------------------------- mistakes
@simulated_only
@pytest.mark.parametrize("id", ["gpu", 1.0, None, 5, -2, "0"])
def test_ids_that_are_none(id: Any) -> None:
    with pytest.raises(DeviceError, match="ML410"):
        Accelerator(id)


@pytest.mark.parametrize("limit", ["1G", 1.5, 0, -2, None])
def test_limits_that_are_none(limit: Any) -> None:
    with pytest.raises(DeviceError, match="ML410"):
        Accelerator(0, limit)


def test_sessions_of_what_is_no_list(gpu: Accelerator) -> None:
    for devices in (gpu, GPU, "gpu", [GPU], ["gpu"]):
        assert engine.InferenceSession(devices=devices).devices[0].label == "gpu"
    for wrong in (3, [3], [None]):
        with pytest.raises(ArgumentTypeError, match="ML618"):
            engine.InferenceSession(devices=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [1, 7])
def test_devices_that_the_session_does_not_have(number: int, gpu: Accelerator) -> None:
    place = DeviceRef.GPU(number)
    for devices in ([gpu], [CPU()], []):
        with pytest.raises(DeviceError, match=rf"gpu:{number}[\s\S]*ML617"):
            engine.InferenceSession(devices=devices).load(
                graph_of([typed("n", place=place)], lambda x: x + 1)
            )


def test_inputs_that_do_not_fit(gpu: Accelerator) -> None:
    model = load([typed("n", 4)], lambda x: x + 1, gpu)
    wide = up(gpu, np.zeros((8, 8), np.float32))
    for bad, code in [
        (up(gpu, np.zeros(4, np.float32)), "ML610"),
        (up(gpu, np.zeros((2, 5), np.float32)), "ML602"),
        (up(gpu, np.zeros((2, 4))), "ML609"),
        (wide[:, ::2], "ML606"),
        (wide[::-1, :4], "ML606"),
        (np.zeros((2, 4), np.float32), "ML608"),
        ([1, 2], "ML607"),
        (None, "ML607"),
    ]:
        with pytest.raises((InputError, InputTypeError), match=code):
            model(bad)
    frozen = np.ones((2, 4), np.float32)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(down(model(Tensor.from_numpy(frozen).to(gpu))[0]), frozen + 1)
    assert model(up(gpu, np.zeros((0, 4), np.float32)))[0].shape == (0, 4)


@two_devices
def test_weights_on_devices_where_the_graph_has_them_not() -> None:
    one, two = Accelerator(0), Accelerator(1)
    table = np.zeros((2, 4), np.float32)

    def made(weight: Any, place: DeviceRef) -> engine.Model:
        def body(x: TensorValue) -> TensorValue:
            return x + ops.transfer_to(ops.constant_external("w", typed(2, 4, place=place)), GPU)

        return load([typed(2, 4)], body, one, two, w=weight)

    for weight, place in [(up(one, table), HOST), (up(one, table), OTHER), (up(two, table), GPU)]:
        with pytest.raises(WeightError, match="ML608"):
            made(weight, place)
    strided: list[Any] = [up(one, np.zeros((2, 8), "f4"))[:, ::2], np.zeros((4, 2), "f4").T]
    for bad in strided:
        with pytest.raises(WeightError, match="ML611"):
            made(bad, GPU)
    with pytest.raises(WeightError, match="ML614"):
        made(up(one, table.astype(np.float64)), GPU)
    with pytest.raises(WeightError, match="ML615"):
        made(up(one, table.T.copy()), GPU)
    made(up(two, table), OTHER)


def test_sizes_that_no_device_has(gpu: Accelerator) -> None:
    for rows in (1 << 30, 1 << 45, 1 << 60):
        model = load(
            [typed("n", dtype=DType.uint8)],
            lambda x, rows=rows: ops.broadcast_to(ops.unsqueeze(x, 0), [rows, "n"]) + 1,
            gpu,
        )
        with pytest.raises((DeviceError, ShapeError), match="ML403|ML223"):
            model(up(gpu, np.zeros(1 << 20, np.uint8)))
        assert model(up(gpu, np.zeros(0, np.uint8)))[0].shape == (rows, 0)


# ---------------------------------------------------------------- memory
@simulated_only
def test_a_run_that_does_not_fit_leaves_the_device_as_it_was() -> None:
    with driver.simulated():
        gpu = Accelerator(0, 1 << 20)
        model = load([typed("n", 256)], lambda x: ops.softmax(x @ ops.transpose(x, 0, 1)) @ x, gpu)
        rng = np.random.default_rng(0)
        for rows in (10, 600, 11, 600, 150, 10):
            data = rng.standard_normal((rows, 256)).astype(np.float32)
            x = up(gpu, data)
            if rows == 600:
                used = gpu.stats["used_memory"]
                with pytest.raises(DeviceError, match=r"ML403[\s\S]*limit is 1048576"):
                    model(x)
                assert gpu.stats["used_memory"] <= used
                continue
            scores = data @ data.T
            soft = np.exp(scores - scores.max(-1, keepdims=True))
            want = soft / soft.sum(-1, keepdims=True) @ data
            np.testing.assert_allclose(down(model(x)[0]), want, rtol=1e-3, atol=1e-3)


@simulated_only
def test_memory_kept_for_other_sizes_is_given_back() -> None:
    """Each size keeps its own memory for the next run, until another size needs it."""
    with driver.simulated():
        gpu = Accelerator(0, 1 << 20)
        model = load([typed("n", 64)], lambda x: ops.softmax(x @ ops.transpose(x, 0, 1)) @ x, gpu)
        for rows in range(100, 200, 5):
            (made,) = model(up(gpu, np.ones((rows, 64), np.float32)))
            np.testing.assert_allclose(down(made), np.ones((rows, 64)), rtol=1e-5)


@simulated_only
def test_memory_kept_by_another_model_is_given_back() -> None:
    with driver.simulated():
        gpu = Accelerator(0, 1 << 20)
        first, second = (
            load([typed("n", 64)], lambda x: ops.softmax(x @ ops.transpose(x, 0, 1)) @ x, gpu)
            for _ in range(2)
        )
        x = up(gpu, np.ones((330, 64), np.float32))
        for model in (first, second, first):
            np.testing.assert_allclose(down(model(x)[0]), np.ones((330, 64)), rtol=1e-5)


def test_a_dropped_model_gives_its_memory_back(gpu: Accelerator) -> None:
    """Without anybody waiting for the device, and with checks of indices still open."""
    gpu.synchronize()
    gc.collect()
    before = gpu.stats["used_memory"], gpu.stats["allocations"]

    def body(x: TensorValue) -> TensorValue:
        first = ops.gather(x, ops.constant(np.array([0]), I64, GPU), 0)
        return ops.softmax(first @ ops.constant_external("w", typed(64, 64)))

    model = load([typed("n", 64)], body, gpu, w=np.ones((64, 64), np.float32))
    model(up(gpu, np.ones((3, 64), np.float32)))
    assert gpu.stats["used_memory"] > before[0]
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert (gpu.stats["used_memory"], gpu.stats["allocations"]) == before
    gpu.synchronize()


def test_memory_of_a_stream_that_is_gone_is_not_taken_for_anothers(gpu: Accelerator) -> None:
    """A new stream may get the old one's id; work of the old one may still use the memory."""
    for _ in range(5):
        old = DeviceStream(gpu)
        tensor = Tensor(F32, [1234], stream=old)
        address = tensor.address
        del tensor
        assert gpu.stats["pooled_memory"] > 0
        del old
        new = DeviceStream(gpu)
        other = Tensor(F32, [1234], stream=new)
        assert other.address != address
        del other, new
        gpu.pool.trim()


# ---------------------------------------------------------------- failures
@simulated_only
def test_a_failure_in_the_middle_leaves_a_model_that_works(
    gpu: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(
        [typed("n", 4)],
        lambda x: ops.softmax(ops.tanh(x) @ ops.transpose(ops.exp(x), 0, 1)) @ x,
        gpu,
    )
    x = up(gpu, np.random.default_rng(0).random((5, 4), np.float32))
    want = down(model(x)[0])
    used = gpu.stats["used_memory"]
    usual = SimContext.launch
    for bad in range(len(model.plan.steps)):
        count = iter(range(100))

        def launch(self: SimContext, *given: Any, bad: int = bad, count: Any = count) -> None:
            if next(count) == bad:
                raise RuntimeError("the wire was cut")
            usual(self, *given)

        monkeypatch.setattr(SimContext, "launch", launch)
        with pytest.raises(RuntimeError, match="wire"):
            model(x)
        monkeypatch.setattr(SimContext, "launch", usual)
        np.testing.assert_array_equal(down(model(x)[0]), want)
    gc.collect()
    assert gpu.stats["used_memory"] == used


@simulated_only
def test_a_long_kernel_can_be_interrupted(gpu: Accelerator) -> None:
    model = load([typed(1024, 1024)], lambda x: (x @ x) @ (x @ x), gpu)
    x = up(gpu, np.ones((1024, 1024), np.float32))

    def run_for_minutes() -> None:
        for _ in range(200):
            model(x)

    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_for_minutes()
    timer.join()
    small = load([typed("n")], lambda x: x + 1, gpu)
    np.testing.assert_array_equal(down(small(up(gpu, np.ones(3, np.float32)))[0]), [2, 2, 2])


@two_devices
@pytest.mark.parametrize("reachable", [True, False])
def test_threads_run_one_model_at_once(reachable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where devices cannot reach each other, and what goes over is staged on the host."""
    if not reachable:
        monkeypatch.setattr(Accelerator, "can_access", lambda self, other: self is other)
    one, two = Accelerator(0), Accelerator(1)

    def body(x: TensorValue, w: TensorValue) -> tuple[TensorValue, ...]:
        soft = ops.softmax(x @ ops.transfer_to(w, GPU))
        return (
            ops.transfer_to(soft, HOST) + 1,
            ops.transfer_to(ops.transfer_to(x * 2, OTHER) + 1, GPU) - 1,
        )

    model = load([typed("n", 16), typed(16, 16, place=HOST)], body, one, two)
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(25):
                rows = int(rng.integers(0, 9))
                a, w = (rng.standard_normal((n, 16)).astype(np.float32) for n in (rows, 16))
                first, second = model(up(one, a), w)
                e = np.exp(a @ w - (a @ w).max(-1, keepdims=True))
                want = e / e.sum(-1, keepdims=True) + 1
                np.testing.assert_allclose(down(first), want, rtol=1e-4)
                np.testing.assert_allclose(down(second), a * 2, atol=1e-5)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


@simulated_only
def test_a_fork_goes_on_with_simulated_devices(gpu: Accelerator) -> None:
    model = load([typed("n", 4)], lambda x: ops.softmax(x) * 2, gpu)
    x = up(gpu, np.ones((2, 4), np.float32))
    model(x)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)
            more = up(gpu, np.ones((5, 4), np.float32))
            good = (down(model(x)[0]) == 0.5).all() and down(model(more)[0]).shape == (5, 4)
            code = 0 if good else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@simulated_only
def test_what_was_made_before_goes_on_without_the_simulator() -> None:
    with driver.simulated(2):
        gpu = Accelerator()
        model = load([typed("n", 4)], lambda x: x * 2, gpu)
        x = up(gpu, np.ones((2, 4), np.float32))
        with driver.simulated():
            other = up(Accelerator(), np.ones((2, 4), np.float32))
            assert other.device is not gpu
            np.testing.assert_array_equal(down(model(x)[0]), np.full((2, 4), 2))
            with pytest.raises(InputError, match=r"ML608[\s\S]*before"):
                model(other)
            np.testing.assert_array_equal(down(x.to(other.device)), np.ones((2, 4)))
