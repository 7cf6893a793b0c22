"""Launches that are refused, kernels that fail without checks, and errors of the compiler."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import trace
from maxlab.driver import Tensor
from maxlab.driver.sim import SimModule
from maxlab.driver.sim.signature import find_kernels, portable
from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentTypeError,
    DeviceError,
    ExecutionError,
    TensorError,
    ToolchainError,
)
from maxlab.toolchain import kernels_dir
from maxlab.toolchain.nvlib import find_program

Modules = Callable[[str, bool], SimModule]
FOLDER = Path(__file__).parent
SOURCE = (FOLDER / "faults.cu").read_text("utf-8").splitlines()
INTS = np.zeros(64, np.int32)
FLOATS = np.zeros(64, np.float32)


@pytest.fixture
def faults(module: Modules) -> SimModule:
    return module("faults.cu", False)


# ------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "shared", "message"),
    [
        ("stuck", 1, 1025, 0, "block (1025,) is not possible: sizes go from 1 to (1024, 1024, 64)"),
        ("stuck", 1, (32, 32, 2), 0, "can have 1024 threads in a block, got 2048"),
        ("stuck", 0, 32, 0, "grid (0,) is not possible"),
        ("stuck", (1, 70000), 32, 0, "grid (1, 70000) is not possible"),
        ("stuck", 1, (1, 1, 65), 0, "block (1, 1, 65) is not possible"),
        ("stuck", 1, -1, 0, "block (-1,) is not possible"),
        ("stuck", 1, 32, 232449, "0 to 232448 bytes of dynamic shared memory"),
        ("stuck", 1, 32, -1, "0 to 232448 bytes of dynamic shared memory"),
        ("too_large", 1, 32, 0, "declares 52000 bytes of shared arrays"),
        ("bounded", 1, 65, 0, "can have 64 threads in a block, got 65"),
        ("nothing", 1, 1, 0, "has no kernel 'nothing'"),
    ],
)
def test_launch_no_device_accepts(
    faults: SimModule, kernel: str, grid: Any, block: Any, shared: int, message: str
) -> None:
    with pytest.raises(DeviceError) as caught:
        faults.launch(kernel, grid, block, [FLOATS if kernel == "too_large" else INTS], shared)
    assert caught.value.code == "ML440"
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([INTS], "wild takes 2 arguments, got 1"),
        ([FLOATS, 1], "takes an array of int32 for int *out, got float32"),
        ([3, 1], "takes an array for int *out, got int"),
        ([INTS, 1.5], "takes one int64 for long long far, got 1.5"),
        ([INTS, INTS], "takes one int64 for long long far"),
        ([INTS, 2**63], "does not fit into the parameter long long far"),
    ],
)
def test_arguments_of_the_wrong_type(faults: SimModule, args: list[Any], message: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        faults.launch("wild", 1, 1, args)
    assert caught.value.code == "ML441"
    assert message in str(caught.value)


def test_arrays_that_cannot_be_passed(faults: SimModule) -> None:
    with pytest.raises(TensorError, match=r"shape \(32,\), is not contiguous"):
        faults.launch("divide", 1, 1, [INTS[::2], 1])
    fixed = np.zeros(4, np.int32)
    fixed.flags.writeable = False
    for argument in (fixed, Tensor.from_numpy(fixed)):
        with pytest.raises(TensorError, match="may write its parameter out"):
            faults.launch("divide", 1, 1, [argument, 1])


# ------------------------------------------------------------------ failing


def marked(kernel: str, mark: str) -> str:
    start = next(i for i, text in enumerate(SOURCE) if f"void {kernel}(" in text)
    index = next(i for i in range(start, len(SOURCE)) if mark in SOURCE[i])
    return f"{index + 1:5} | {SOURCE[index]}"


@pytest.mark.parametrize(
    ("kernel", "args", "code", "message", "marks"),
    [
        ("stuck", [INTS], "ML657", "16 threads, the first (16, 0, 0)", ["@1", "@2"]),
        ("wild", [INTS, 1 << 45], "ML656", "of block (3, 0, 0) uses address", ["@1"]),
        ("divide", [INTS, 0], "ML656", "divides an integer by zero", ["@1"]),
        ("recursive", [INTS, 1 << 20], "ML656", "needs more stack", []),
    ],
)
def test_failure_is_an_error_with_the_line(
    faults: SimModule, kernel: str, args: list[Any], code: str, message: str, marks: list[str]
) -> None:
    for _ in range(2):  # the simulator goes on after it
        with pytest.raises(ExecutionError) as caught:
            faults.launch(kernel, 4, 32, args)
        assert caught.value.code == code
        assert message in str(caught.value)
        for mark in marks:
            assert marked(kernel, mark) in str(caught.value)
    assert faults.launch("divide", 2, 32, [out := np.zeros(32, np.int32), 5]) == []
    assert (out == 20).all()


def test_a_kernel_that_never_ends(faults: SimModule) -> None:
    with pytest.raises(ExecutionError, match=r"did not end within 0\.2 s") as caught:
        faults.launch("endless", 3, 32, [np.zeros(1, np.int32)], timeout_s=0.2)
    assert caught.value.code == "ML658"
    assert faults.launch("endless", 3, 32, [np.ones(1, np.int32)], timeout_s=10) == []


def test_ctrl_c_ends_a_kernel(faults: SimModule) -> None:
    interrupt = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        faults.launch("endless", 2, 32, [np.zeros(1, np.int32)])
    interrupt.join()


def test_text_is_compiled_once(module: Modules) -> None:
    trace.recorder().clear()  # the ring buffer may be full
    module("faults.cu", False)
    events = len(trace.recorder().events("compile"))
    again = SimModule("\n".join(SOURCE) + "\n", name="faults.cu")
    assert again.path == module("faults.cu", False).path
    assert len(trace.recorder().events("compile")) == events


def test_launches_are_events(faults: SimModule) -> None:
    faults.launch("divide", (2, 3), 32, [INTS, 1])
    event = trace.recorder().events("kernel")[-1]
    assert (event.name, event.data["device"], event.data["grid"]) == ("divide", "sim", (2, 3, 1))


def test_launches_from_several_threads(module: Modules) -> None:
    m = module("kernels.cu", False)

    def work(seed: int) -> bool:
        x = np.random.default_rng(seed).standard_normal((8, 100), dtype=np.float32)
        y = np.zeros_like(x)
        for _ in range(5):
            m.launch("softmax", 8, 64, [y, x, 100])
        return bool(np.allclose(y.sum(1), 1, atol=1e-5))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_arguments_that_share_memory_do_so_when_checked(module: Modules) -> None:
    x = np.arange(64, dtype=np.float32)
    m = module("kernels.cu", True)
    assert m.launch("scale", 1, 32, [x, x, 3.0, 64]) == []
    np.testing.assert_array_equal(x, np.arange(64) * 3)
    assert m.launch("scale", 1, 32, [x[32:], x[:32], 2.0, 32]) == []
    np.testing.assert_array_equal(x[32:], np.arange(32) * 6)


def test_integers_stand_for_what_they_store() -> None:
    text = """
extern "C" __global__ void first(u16 *bits, const u8 *flags, const __half *h, float *out) {
  out[0] = flags[0] ? __half2float(h[0]) : 0.0f;
  bits[0] = 0x3f80;
}
"""
    bits, flags = Tensor.zeros([1], DType.bfloat16), np.array([True])
    out = np.zeros(1, np.float32)
    m = SimModule(text)
    m.launch("first", 1, 1, [bits, flags, np.array([0x3C00], np.uint16), out])
    assert (bits[0].item(), out[0]) == (1.0, 1.0)
    wrong = np.zeros(1, np.int16), Tensor.zeros([1], DType.bfloat16)
    for h in wrong:
        with pytest.raises(ArgumentTypeError, match="takes an array of float16"):
            m.launch("first", 1, 1, [bits, flags, h, out])


def test_headers_are_read_before_the_text(tmp_path: Path) -> None:
    header = tmp_path / "twice.cuh"
    header.write_text(
        "#pragma once\ntemplate <class T> MX_INLINE T twice(T x) {\n  __shared__ T s[32];\n"
        "  s[threadIdx.x] = x + x;\n  return s[threadIdx.x ^ 1];\n}\n"
    )
    text = 'extern "C" __global__ void k(float *x) {\n  x[threadIdx.x] = twice(x[threadIdx.x]);\n}'
    for check in (False, True):
        module = SimModule(text, headers=[header], check=check)
        x = np.arange(32, dtype=np.float32)
        reports = module.launch("k", 1, 32, [x])
        assert (len(reports) > 0) is check
        assert {(r.line, r.buffer) for r in reports} <= {(2, "s")}  # where the text calls it


def test_error_of_the_compiler_names_the_line() -> None:
    text = "\n__global__ void broken(float *y) {\n  y[0] = nowhere(y[1]);\n}\n"
    with pytest.raises(ToolchainError, match=r"kernel broken\.cu, line 3: .*nowhere") as caught:
        SimModule(text, name="broken.cu")
    assert caught.value.code == "ML502"
    text = "__global__ void broken(__half *y) {\n  y[0] = y[1] + y[2];\n}\n"
    with pytest.raises(ToolchainError, match=r"kernel broken\.cu, line 2: use of deleted"):
        SimModule(text, name="broken.cu")


# ------------------------------------------------------------------ the text


def test_signatures() -> None:
    text = """
    // __global__ void commented(int x) {}
    __global__ void declared(int x);
    template <class T> __global__ void generic(T *x) {}
    extern "C" __global__ void __launch_bounds__(128, 2)
    one(const float4 *__restrict__ a, __half *b, unsigned long long n, i64 m, bool flag,
        float const *c, float *const *d, int e[]) { MX_DYN_SHARED(float, s); }
    extern "C" __launch_bounds__(64) __global__ void none(void) {}
    """
    kernels = find_kernels(text)
    assert list(kernels) == ["one", "none"]
    one = kernels["one"]
    assert (one.line, one.max_threads, one.dynamic) == (6, 128, ("s", "float"))
    assert [(p.name, p.dtype, p.pointer, p.constant) for p in one.parameters] == [
        ("a", DType.float32, True, True),
        ("b", DType.float16, True, False),
        ("n", DType.uint64, False, False),
        ("m", DType.int64, False, False),
        ("flag", DType.bool, False, False),
        ("c", DType.float32, True, True),
        ("d", None, True, True),
        ("e", DType.int32, True, False),
    ]
    assert kernels["none"].parameters == ()


def test_dynamic_shared_memory_as_cuda_writes_it() -> None:
    kernel = "__global__ void k() {{ {} }}".format
    assert portable(kernel("extern __shared__ float s[];")) == kernel("MX_DYN_SHARED(float, s);")
    text = "extern __shared__ __align__(16) unsigned char  raw [];"
    assert portable(kernel(text)) == kernel("MX_DYN_SHARED(unsigned char, raw);")
    use = "raw[0] = 1;"
    assert portable(f"{text}\n{kernel(use)}") == "\n" + kernel(use).replace(
        "{", "{ MX_DYN_SHARED(unsigned char, raw);"
    )


@pytest.mark.parametrize("name", ["kernels.cu", "tensor_core.cu", "features.cu"])
def test_nvcc_takes_the_same_text(name: str, tmp_path: Path) -> None:
    nvcc = find_program("nvcc")
    if nvcc is None:
        pytest.skip("nvcc was not found")
    target = str(tmp_path / "kernels.fatbin")
    archs = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (80, 90, 100)]
    header = str(kernels_dir() / "cuda" / "mx_device.cuh")
    done = subprocess.run(
        [nvcc, "-fatbin", *archs, "-std=c++17", "-include", header, FOLDER / name, "-o", target],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
