"""Memory of the simulator that is not there, and dynamic shared arrays of a whole file."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.driver.sim import SimModule
from maxlab.driver.sim.device import SimContext
from maxlab.errors import DeviceError, ExecutionError, MaxlabError
from tests.answers import assert_typed


# ---------------------------------------------------------------- memory
def _freed(context: SimContext) -> int:
    address = context.allocate(64)
    context.release(address)
    return address


FREES: dict[str, Callable[[SimContext], Any]] = {
    "twice": lambda c: c.release(_freed(c)),
    "pinned twice": lambda c: c.release_pinned(_freed(c)),
    "never allocated": lambda c: c.release(4096),
    "inside of a block": lambda c: c.release(c.allocate(64) + 8),
}


@pytest.mark.parametrize("what", FREES)
def test_free(what: str) -> None:
    with pytest.raises(DeviceError, match="block") as caught:
        FREES[what](SimContext(0, check=False))
    assert caught.value.fix


COPIES = {
    "from null": "c.copy(q, a, 0, 64)",
    "to null": "c.copy(q, 0, a, 64)",
    "too much from": "c.copy(q, b, a, 128)",
    "too much to": "c.copy(q, a, b, 128)",
    "freed": "c.release(a); c.copy(q, b, a, 64)",
    "host memory as source": "c.copy(q, a, host, 64)",
    "host memory as target": "c.copy(q, host, a, 64)",
    "upload to null": "c.upload(q, 0, host, 64)",
    "upload to the host": "c.upload(q, host, host, 64)",
    "upload too much": "c.upload(q, a, host, 128)",
    "upload from null": "c.upload(q, a, 0, 64)",
    "download from null": "c.download(q, host, 0, 64)",
    "download from the host": "c.download(q, host, host, 64)",
    "download to null": "c.download(q, 0, a, 64)",
    "download too much": "c.download(q, host, a, 128)",
    "fill null": "c.fill(q, 0, 0, 64)",
    "fill too much": "c.fill(q, a, 0, 128)",
    "negative": "c.copy(q, a, b, -1)",
    "between": "c.copy(q, b, a + 32, 64)",
}


def test_copies_of_memory_that_is_not_there() -> None:
    assert_typed(
        f"""
        import numpy as np
        from maxlab.driver.sim.device import SimContext

        for name, text in {COPIES!r}.items():
            c = SimContext(0, check=False)
            q, a, b, memory = c.default_queue, c.allocate(64), c.allocate(128), np.zeros(128, "u1")
            host = memory.ctypes.data
            attempt(name, exec, text, globals())
        """
    )


def test_good_copies() -> None:
    context, other = SimContext(0, check=False), SimContext(1, check=False)
    queue, memory = context.default_queue, np.arange(16, dtype=np.uint8)
    a, b, empty = context.allocate(16), other.allocate(16), context.allocate(0)
    context.upload(queue, a, memory.ctypes.data, 16)
    context.copy(queue, b, a + 8, 8)
    context.copy(queue, a + 16, empty, 0)
    context.fill(queue, empty, 0, 0)
    found = np.zeros(8, np.uint8)
    other.download(queue, found.ctypes.data, b, 8)
    assert found.tolist() == list(range(8, 16))
    pinned = context.allocate_pinned(16)
    context.download(queue, pinned, a, 16)
    context.upload(queue, a, pinned, 16)
    context.release_pinned(pinned)


# ---------------------------------------------------------------- shared arrays of a file
SHARED = {
    "file": """
extern __shared__ float tile[];
extern "C" __global__ void k(float *x) {
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[31 - threadIdx.x] * 2;
}""",
    "aligned bytes": """
// extern __shared__ int tile[]; is not this one
extern __shared__ __align__(16) unsigned char tile[];
extern "C" __global__ void k(float *x) {
  float *t = reinterpret_cast<float *>(tile);
  t[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = t[31 - threadIdx.x] * 2;
}""",
    "functions": """
extern "C" {
extern __shared__ float tile[];
struct Pair { float a, b; };
static __device__ float get(int i) { const char *text = "tile {"; return text ? tile[i] : 0; }
static __device__ void put(int i,
                           float value) {
  tile[i] = value;
}
static __device__ float own(float tile) { return tile * 2; }
__global__ void __launch_bounds__(64) k(float *x) {
  put(threadIdx.x, x[threadIdx.x]);
  __syncthreads();
  { int tile = 3; x[threadIdx.x] = tile; }
  x[threadIdx.x] = own(get(31 - threadIdx.x));
}
}""",
    "inside of the kernel": """
extern "C" __global__ void k(float *x) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[31 - threadIdx.x] * 2;
}""",
}


def test_dynamic_shared_arrays() -> None:
    """In a process of its own, as is a stray in one of them."""
    program = """
        import numpy as np
        from maxlab.driver.sim import SimModule
        from tests.sim.test_hostile import SHARED

        for check in (False, True):
            for name, text in SHARED.items():
                x = np.arange(32, dtype=np.float32)
                module = SimModule(text, check=check)
                assert module.launch("k", 1, 32, [x], 128) == [], name
                assert x.tolist() == [2 * (31 - i) for i in range(32)], (name, x)
        module = SimModule(SHARED["file"], check=True)
        report = module.launch("k", 1, 32, [np.ones(32, np.float32)], 64)[0]
        print(report.kind, report.line, report.buffer)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.stdout.split() == ["out-of-bounds", "4", "tile"], (run.returncode, run.stderr[-500:])


# ---------------------------------------------------------------- faults of kernels
FAULTS = """
extern "C" __global__ void null(float *x, float *y) {
  x[threadIdx.x] = y[threadIdx.x];
}
extern "C" __global__ void far(float *x, long long n) {
  x[n] = 1;
}
extern "C" __global__ void call(float *x) {
  void (*f)() = x[0] > 5 ? (void (*)())1 : (void (*)())0;
  f();
}
__device__ int deep(int n) {
  volatile char a[1000];
  a[0] = n;
  return n ? deep(n + 1) + a[0] : 0;
}
extern "C" __global__ void stack(float *x) {
  x[0] = deep(1);
}
extern "C" __global__ void atomic(float *x) {
  atomicAdd(x + (1LL << 50), 1.f);
}
"""
FAULTY: dict[str, tuple[int | None, list[Any]]] = {
    "null": (3, [None]),
    "far": (6, [1 << 45]),
    "call": (None, []),
    "stack": (None, []),
    "atomic": (21, []),
}


@pytest.mark.parametrize("kernel", FAULTY)
def test_a_fault_names_kernel_block_thread_and_line(kernel: str) -> None:
    line, rest = FAULTY[kernel]
    x = np.ones(32, np.float32)
    with pytest.raises(ExecutionError) as caught:
        SimModule(FAULTS).launch(kernel, 1, 32, [x, *rest])
    text = str(caught.value)
    assert caught.value.code == "ML656"
    assert kernel in text
    assert "thread (0, 0, 0) of block (0, 0, 0)" in text
    assert line is None or f"{line} |" in text
    reports = SimModule(FAULTS, check=True).launch(kernel, 1, 32, [x, *rest])
    assert reports
    assert line is None or reports[0].line == line


def test_faults_of_others_keep_their_handler() -> None:
    """A fault outside of kernels reaches the handler that was there before the launch."""
    program = f"""
        import ctypes, faulthandler
        import numpy as np
        from maxlab.driver.sim import SimModule

        faulthandler.enable()
        module = SimModule({FAULTS!r})
        try:
            module.launch("null", 1, 32, [np.ones(32, "f4"), None])
        except ValueError:
            pass
        ctypes.string_at(0)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode < 0
    assert "Segmentation fault" in run.stderr


@pytest.mark.parametrize(
    "value", [1, "x", 4096, np.float32(1), object()], ids=lambda v: type(v).__name__
)
def test_addresses_are_no_arrays(value: Any) -> None:
    with pytest.raises(MaxlabError):
        SimModule(FAULTS).launch("null", 1, 32, [np.ones(32, np.float32), value])
