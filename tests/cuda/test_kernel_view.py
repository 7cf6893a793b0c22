"""What can be read of a model's GPU kernels, and the script that runs one alone."""

from __future__ import annotations

import runpy
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver import Accelerator, Tensor
from maxlab.driver.sim import SimModule
from maxlab.dtype import DType
from maxlab.engine.device_kernel import DeviceKernelView
from maxlab.errors import ArgumentError, UnsupportedError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.toolchain import kernels_dir
from maxlab.toolchain.nvlib import find_program
from tests.cuda.conftest import ON_A_GPU
from tests.cuda.placing import GPU

F32 = DType.float32
needs_nvcc = pytest.mark.skipif(find_program("nvcc") is None, reason="nvcc was not found")


@pytest.fixture(scope="module")
def model(gpu: Accelerator) -> engine.Model:
    """A fused product, a row kernel and one of the host."""
    types = [TensorType(F32, ["m", 40], GPU), TensorType(F32, [40, 24], GPU)]
    with Graph("looked_at", input_types=types) as graph:
        x, w = (value.tensor for value in graph.inputs)
        y = ops.softmax(ops.relu(x @ w) * 0.5)
        graph.output(ops.transfer_to(y, DeviceRef.CPU()) + 1)
    return engine.InferenceSession(devices=[gpu]).load(graph)


def inputs(gpu: Accelerator, rows: int) -> list[Tensor]:
    """Numbers for the model."""
    rng = np.random.default_rng(rows)
    return [
        Tensor.from_numpy(rng.standard_normal(shape).astype("f4")).to(gpu)
        for shape in ((rows, 40), (40, 24))
    ]


def test_the_kernel_of_the_last_run_is_shown(model: engine.Model, gpu: Accelerator) -> None:
    kernel = model.kernels["k0"]
    assert isinstance(kernel, DeviceKernelView)
    model(*inputs(gpu, 3))
    assert "mx_gemv_axpy<mx_axpy_block<4, " in kernel.cuda
    assert kernel.headers == ("mx_device.cuh", "prelude.cuh", "tiles.cuh", "gemv.cuh")
    model(*inputs(gpu, 30))
    assert "mx_product<" in kernel.cuda
    assert kernel.source == kernel.cuda
    ids = {node for _, _, node in kernel.lines}
    assert ids == set(kernel.nodes)
    first, last, _ = kernel.lines[0]
    assert 1 <= first <= last <= len(kernel.source.splitlines())
    assert "looked_at" not in kernel.annotated()
    assert "test_kernel_view.py" in kernel.annotated()
    assert kernel.device == "gpu:0"
    # A step of the host beside them is as ever.
    assert not isinstance(model.kernels["k3"], DeviceKernelView)
    assert "#pragma omp simd" in model.kernels["k3"].source


def test_a_launch_is_known_for_any_sizes(model: engine.Model) -> None:
    kernel = model.kernels["k1"]
    small, large = kernel.launch(m=5), kernel.launch(m=1_000_000)
    assert small.block == (8, 4, 1)
    assert small.grid == (2, 1, 1)
    assert large.block == (8, 32, 1)
    assert large.grid[0] > 1
    assert kernel.launch(m=0).grid == (0, 1, 1)
    with pytest.raises(ArgumentError, match=r"ML655[\s\S]*launch\(m=128\)"):
        kernel.launch()


@needs_nvcc
def test_ptx_and_what_it_needs(model: engine.Model, gpu: Accelerator) -> None:
    model(*inputs(gpu, 3))
    kernel = model.kernels["k1"]
    assert f".entry {kernel.symbol}" in kernel.ptx
    found = kernel.resources
    assert found is not None
    assert 8 <= found.registers <= 128
    assert found.spill_store_bytes == found.spill_load_bytes == 0


def test_cuda_of_kernels_of_the_cpu() -> None:
    with Graph("row", input_types=[TensorType(F32, ["rows", 100])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(ops.gelu(x * 0.5 + 1.0)))
    model = engine.InferenceSession().load(graph)
    kernel = model.kernels["k0"]
    data = np.random.default_rng(1).standard_normal((7, 100)).astype(np.float32)
    (want,) = model(data)
    text = kernel.cuda
    name = text[text.index("g_") : text.index("(", text.index("g_"))]
    module = SimModule(text, headers=[kernels_dir() / "cuda" / "prelude.cuh"])
    made, fault = np.zeros_like(data), np.zeros(4, np.int64)
    module.launch(name, 7, 128, [data, made, 7, None, fault], shared_bytes=4096)
    np.testing.assert_allclose(made, want.to_numpy(), rtol=3e-6)
    assert kernel.source != text


def test_a_product_of_the_cpu_says_that_it_has_none() -> None:
    types = [TensorType(F32, ["m", 8]), TensorType(F32, [8, 8])]
    with Graph("product", input_types=types) as graph:
        x, y = (value.tensor for value in graph.inputs)
        graph.output(x @ y)
    model = engine.InferenceSession().load(graph)
    kinds = {kernel.kind: kernel for kernel in model.kernels.values()}
    with pytest.raises(UnsupportedError, match=r"ML902[\s\S]*DeviceRef.GPU\(\)"):
        _ = kinds["contract"].cuda


# ---------------------------------------------------------------- a script of its own
@pytest.mark.parametrize("kernel", ["k0", "k1"])
def test_a_script_runs_one_kernel_alone(
    model: engine.Model,
    gpu: Accelerator,
    kernel: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The script is run as it is: by PyCUDA, or by one whose device is the simulator."""
    path = model.kernels[kernel].to_pycuda(tmp_path / "alone.py", *inputs(gpu, 30))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["alone.npz", "alone.py"]
    text = path.read_text()
    assert "maxlab" not in text.replace("maxlab's", "") or "import maxlab" not in text
    if ON_A_GPU:
        printed = subprocess.run(
            [sys.executable, path], capture_output=True, text=True, check=True
        ).stdout
    else:
        for name, made in pycuda_on_the_simulator().items():
            monkeypatch.setitem(sys.modules, name, made)
        runpy.run_path(str(path))
        printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("g_")
    assert "largest difference 0" in lines[1]


def test_a_script_has_the_memory_in_which_blocks_meet(
    gpu: Accelerator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The last block of a long row adds what the others have left."""
    with Graph("long", input_types=[TensorType(F32, [1, 40_000], GPU)]) as graph:
        graph.output(ops.sum(graph.inputs[0].tensor, axis=-1))
    model = engine.InferenceSession(devices=[gpu]).load(graph)
    x = Tensor.from_numpy(np.ones((1, 40_000), "f4")).to(gpu)
    model(x)
    assert model.kernels["k0"].launch().own > 0
    path = model.kernels["k0"].to_pycuda(tmp_path / "alone.py", x)
    for name, made in pycuda_on_the_simulator().items():
        monkeypatch.setitem(sys.modules, name, made)
    runpy.run_path(str(path))
    assert "largest difference 0" in capsys.readouterr().out


def pycuda_on_the_simulator() -> dict[str, types.ModuleType]:
    """The part of PyCUDA that scripts use."""

    class Memory(int):
        pass

    blocks: dict[int, Any] = {}

    def mem_alloc(nbytes: int) -> Memory:
        array = np.full(nbytes, 0xFF, np.uint8)
        address = Memory(array.ctypes.data)
        blocks[address] = array
        return address

    def htod(target: Memory, source: Any) -> None:
        blocks[target][: source.nbytes] = source.view(np.uint8)

    def dtoh(target: Any, source: Memory) -> None:
        target[...] = blocks[source][: target.nbytes].view(target.dtype)

    def memset(target: Memory, value: int, count: int) -> None:
        blocks[target][:count] = value

    class Event:
        def record(self) -> None: ...
        def synchronize(self) -> None: ...
        def time_till(self, other: Event) -> float:
            return 0.0

    class Module:
        def __init__(self, text: str, arch: str, no_extern_c: bool) -> None:
            assert arch.startswith("sm_")
            assert no_extern_c
            # The simulator brings the first header itself.
            begin = text.index("/* prelude.cuh")
            self.module = SimModule(text[begin:])

        def get_function(self, name: str) -> Any:
            def launch(*arguments: Any, block: Any, grid: Any, shared: int) -> None:
                given = [blocks[a] if isinstance(a, Memory) else a for a in arguments]
                parameters = self.module.kernels[name].parameters
                typed = [
                    given_one
                    if not p.pointer
                    else None
                    if not isinstance(a, Memory)
                    else given_one.view(p.dtype.ml_numpy if p.dtype else np.uint8)
                    for p, a, given_one in zip(parameters, arguments, given, strict=True)
                ]
                self.module.launch(name, grid, block, typed, shared)

            launch.set_attribute = lambda *_: None  # type: ignore[attr-defined]
            return launch

    driver = types.ModuleType("pycuda.driver")
    for name, value in {
        "mem_alloc": mem_alloc, "memcpy_htod": htod, "memcpy_dtoh": dtoh, "memset_d8": memset,
        "Event": Event, "function_attribute": types.SimpleNamespace(
            MAX_DYNAMIC_SHARED_SIZE_BYTES=8
        ),
    }.items():  # fmt: skip
        setattr(driver, name, value)
    compiler = types.ModuleType("pycuda.compiler")
    compiler.SourceModule = Module  # type: ignore[attr-defined]
    package = types.ModuleType("pycuda")
    package.driver = driver  # type: ignore[attr-defined]
    package.autoprimaryctx = None  # type: ignore[attr-defined]
    return {
        "pycuda": package,
        "pycuda.driver": driver,
        "pycuda.compiler": compiler,
        "pycuda.autoprimaryctx": types.ModuleType("pycuda.autoprimaryctx"),
    }
