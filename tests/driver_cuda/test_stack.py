"""Tensors and compiled graphs on the CUDA backend: everything above it, on the fake driver."""

from __future__ import annotations

from tests.driver_cuda.conftest import Run

BEGIN = """
import numpy as np
from maxlab import driver
from maxlab.driver import CPU, Accelerator, DeviceStream, Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.driver_cuda.fake.harness import counted
gpu = Accelerator()
back = lambda tensor: tensor.to(CPU()).to_numpy()
rng = np.random.default_rng(0)
"""


def test_tensors_go_and_come_back(on_fake: Run) -> None:
    on_fake(
        BEGIN
        + """
assert not gpu.simulated and gpu.api == "cuda" and gpu.architecture_name == "sm_90"
x = rng.normal(size=(5, 12)).astype(np.float32)
t = Tensor.from_numpy(x).to(gpu)
assert (back(t) == x).all()
assert (back(t[1:4, ::3]) == x[1:4, ::3]).all()
side = DeviceStream(gpu)
side.wait_for(gpu.default_stream)
side.synchronize()
gpu.synchronize()
for _ in range(20):
    t = Tensor.from_numpy(x).to(gpu)
assert gpu.stats["used_memory"] <= 1024
"""
    )


def test_a_compiled_graph(on_fake: Run) -> None:
    on_fake(
        BEGIN
        + """
kind = TensorType(DType.float32, ("n", 24), device=DeviceRef.GPU())
with Graph("softmax", input_types=[kind]) as graph:
    graph.output(ops.softmax(graph.inputs[0].tensor * 2 + 1))
model = InferenceSession(devices=[gpu]).load(graph)
for rows in (1, 7, 33):
    x = rng.normal(size=(rows, 24)).astype(np.float32)
    y = model.execute(Tensor.from_numpy(x).to(gpu))[0]
    assert not y.is_host
    e = np.exp(x * 2 - (x * 2).max(-1, keepdims=True))
    np.testing.assert_allclose(back(y), e / e.sum(-1, keepdims=True), rtol=1e-5)
assert counted("kernels run") >= 3
"""
    )


def test_memory_runs_out_and_comes_back(on_fake: Run) -> None:
    on_fake(
        BEGIN
        + """
big = Tensor(DType.float32, [100_000], device=gpu)
try:
    Tensor(DType.float32, [200_000], device=gpu)
except Exception as error:
    assert error.code == "ML403", error
else:
    raise AssertionError
del big
Tensor(DType.float32, [200_000], device=gpu)
""",
        memory=1 << 20,
    )


def test_large_plain_products_are_left_to_cublaslt(on_fake: Run) -> None:
    """With and without transposes and batches; what is small or fused is maxlab's own."""
    on_fake(
        BEGIN
        + """
g = DeviceRef.GPU()
f32 = DType.float32
def model(left, right, forward):
    with Graph("product", input_types=[TensorType(f32, s, g) for s in (left, right)]) as graph:
        graph.output(forward(*(v.tensor for v in graph.inputs)))
    return InferenceSession(devices=[gpu]).load(graph)
def check(left, right, forward, expected, calls):
    a, b = (rng.normal(size=s).astype(np.float32) for s in (left, right))
    made = model(left, right, forward)
    got = back(made(*(Tensor.from_numpy(x).to(gpu) for x in (a, b)))[0])
    kernels = [k for s in made.bind((left, right)).segments for k in s.kernels]
    assert sum(k.call is not None for k in kernels) == calls, kernels
    np.testing.assert_allclose(got, expected(a, b), rtol=1e-4, atol=1e-3)
plain = lambda x, w: x @ w
check((512, 512), (512, 512), plain, plain, 1)
check((4, 128, 512), (512, 512), plain, plain, 1)
check((600, 500), (500, 500), lambda x, w: x @ ops.transpose(w, 0, 1), lambda x, w: x @ w.T, 1)
check((2, 512, 256), (2, 256, 512), plain, plain, 1)
check((64, 64), (64, 64), plain, plain, 0)
check((512, 512), (512, 512), lambda x, w: ops.relu(x @ w),
      lambda x, w: np.maximum(x @ w, 0), 0)
""",
        blas=True,
        timeout_s=200,
    )


def test_memory_is_shared_with_pycuda_without_copies(on_fake: Run) -> None:
    """A GPUArray is an input as it is, and an output is a GPUArray's memory."""
    on_fake(
        BEGIN
        + """
gpuarray = gpu.context.call(lambda: __import__("pycuda.gpuarray").gpuarray)
with Graph("twice", input_types=[TensorType(DType.float32, ["n"], DeviceRef.GPU())]) as graph:
    graph.output(graph.inputs[0].tensor * 2)
model = InferenceSession(devices=[gpu]).load(graph)
x = np.arange(5, dtype=np.float32)
theirs = gpu.context.call(lambda: gpuarray.to_gpu(x))
before = gpu.stats
ours = Tensor.from_dlpack(theirs)
assert ours.address == int(theirs.gpudata) and ours.device is gpu
(y,) = model(theirs)
after = gpu.stats
assert after["copies"] == before["copies"] and after["uploads"] == before["uploads"]
facts = y.__cuda_array_interface__
gpu.synchronize()
def read():
    shared = gpuarray.GPUArray(facts["shape"], np.float32, gpudata=facts["data"][0], base=y)
    return shared.get()
assert (gpu.context.call(read) == 2 * x).all()
assert y.__dlpack_device__() == (2, 0)
capsule = y.__dlpack__(stream=None)
again = Tensor.from_dlpack(y)
assert again.address == y.address
def drop():
    global theirs, ours
    del theirs, ours  # PyCUDA frees in the thread that owns the device
del capsule
gpu.context.call(drop)
"""
    )
