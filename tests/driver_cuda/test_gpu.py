"""Programs that must end alike on the fake driver and on a GPU, where this machine has one."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tests.driver_cuda.conftest import need_pycuda
from tests.driver_cuda.fake import harness
from tests.driver_cuda.test_device import BEGIN

Run = Callable[[str], harness.Result]


@functools.cache
def has_gpu() -> bool:
    """Whether PyCUDA finds a GPU in a process of its own."""
    asked = harness.run(
        "from maxlab.driver.cuda import backend\nprint(backend.count())", fake=False
    )
    return asked.out.strip() not in ("", "0")


@pytest.fixture(params=["fake", "gpu"])
def on_device(request: pytest.FixtureRequest) -> Run:
    """Runs a program, which must end well and say nothing on stderr."""
    need_pycuda()
    if request.param == "gpu" and not has_gpu():
        pytest.skip("no NVIDIA GPU: driver.cuda.backend.missing() says why")

    def run(program: str) -> harness.Result:
        result = harness.run(BEGIN + program, fake=request.param == "fake", blas=True)
        assert result.code == 0, result.err
        assert result.err == ""
        return result

    return run


def test_copies(on_device: Run) -> None:
    on_device(
        """
from maxlab.toolchain.cffi_abi import ffi
c = opened()
q = c.call(c.queue)
x = np.random.default_rng(0).normal(size=1 << 21).astype(np.float32)
free, total = c.call(c.memory)
a, b = put(c, x, q), c.call(lambda: c.allocate(x.nbytes))
assert a % 256 == b % 256 == 0
assert c.call(c.memory)[0] < free <= total
c.call(lambda: (c.copy(q, b, a, x.nbytes), c.fill(q, b, 0, 400)))
assert (get(c, b, x.size, q) == np.r_[np.zeros(100), x[100:]]).all()
host = c.call(lambda: c.allocate_pinned(x.nbytes))
pinned = np.frombuffer(ffi.buffer(ffi.cast("char *", host), x.nbytes), np.float32)
c.call(lambda: c.download(q, host, a, x.nbytes))
assert (pinned == x).all()
pinned *= 2
c.call(lambda: (c.upload(q, b, host, x.nbytes), q.synchronize()))
assert (get(c, b, x.size, q) == 2 * x).all()
c.call(lambda: (c.release(a), c.release(b), c.release_pinned(host)))
"""
    )


def test_kernels(on_device: Run) -> None:
    on_device(
        """
c = opened()
scale, reverse = kernels(c, SCALE, REVERSE)
assert 4 <= scale.facts.registers <= 255
x = np.random.default_rng(1).normal(size=100_003).astype(np.float32)
a, b = put(c, x), put(c, np.zeros(x.size + 5, np.float32))
grid = (-(-x.size // 256), 1, 1)
c.call(lambda: c.launch(c.default_queue, scale, grid, (256, 1, 1), 0, [a, b, x.size, -7]))
assert (get(c, b, x.size + 5) == np.r_[x * np.float32(-7), np.zeros(5)]).all()
x = x[:1024]
a = put(c, x)
for shared in (4096, 100 * 1024):
    c.call(lambda: c.launch(c.default_queue, reverse, (1, 1, 1), (1024, 1, 1), shared, [a]))
assert (get(c, a, 1024) == x).all()
error = error_of(lambda: c.call(lambda: c.launch(
    c.default_queue, scale, (1, 1, 1), (2048, 1, 1), 0, [a, a, 1, 1])))
assert error.code == "ML443" and "k_scale" in error.what
assert (get(c, a, 1024) == x).all()
"""
    )


def test_streams_and_marks(on_device: Run) -> None:
    on_device(
        """
c = opened()
scale, = kernels(c, SCALE)
n = 1 << 20
x = np.ones(n, np.float32)
one, two = c.call(c.queue), c.call(c.queue)
a = put(c, x, one)
c.call(one.synchronize)
go = lambda q, by: c.call(
    lambda: c.launch(q, scale, (n // 256, 1, 1), (256, 1, 1), 0, [a, a, n, by]))
start = c.call(lambda: one.mark(timed=True))
for number in range(1, 9):
    q, other = (one, two) if number % 2 else (two, one)
    go(q, 2)
    mark = c.call(q.mark)
    c.call(lambda: other.wait(mark))
c.call(lambda: c.default_queue.wait(mark))
end = c.call(lambda: one.mark(timed=True))
assert (get(c, a, n) == 256).all()  # on the default queue
c.call(end.synchronize)
assert c.call(end.done) and c.call(start.done)
assert c.call(lambda: end.ms_since(start)) > 0
"""
    )


def test_recordings(on_device: Run) -> None:
    on_device(
        """
c = opened()
scale, = kernels(c, SCALE)
x, y = put(c, np.ones(64, np.float32)), put(c, np.zeros(64, np.float32))
c.call(c.default_queue.synchronize)
def work(q):
    c.launch(q, scale, (1, 1, 1), (64, 1, 1), 0, [x, y, 64, 3])
    c.copy(q, x, y, 256)
recording = c.record(work)
assert (get(c, x, 64) == 1).all()
q = c.call(c.queue)
for times in range(1, 5):
    c.call(lambda: recording.launch(q))
    assert (get(c, x, 64, q) == 3.0**times).all()
"""
    )


def test_faults(on_device: Run) -> None:
    result = on_device(
        """
c = opened()
scale, stray = kernels(c, SCALE, STRAY)
x = put(c, np.ones(32, np.float32))
q = c.call(c.queue)
c.call(lambda: c.launch(q, stray, (1, 1, 1), (32, 1, 1), 0, [16]))
print(error_of(lambda: c.call(q.synchronize)))
assert error_of(lambda: c.call(lambda: c.allocate(8))).code == "ML445"
"""
    )
    assert "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in result.out
    assert "launched since the last time all was well: k_stray" in result.out


def test_products(on_device: Run) -> None:
    result = on_device(
        """
import ml_dtypes
from maxlab.driver.backend import Product
from maxlab.dtype import DType
c = opened()
blas = c.blas()
print(blas is not None)
rng = np.random.default_rng(0)
q = c.call(c.queue)
kinds = ((DType.float32, np.float32), (DType.float16, np.float16),
         (DType.bfloat16, ml_dtypes.bfloat16))
for (m, n, k), (dtype, kind), ta, tb in (
    ((s, d, a, b) for s in ((16, 32, 64), (7, 24, 40), (1, 64, 8))
     for d in kinds for a in (False, True) for b in (False, True)) if blas else ()
):
    p = Product(m, n, k, dtype, DType.float32, ta, tb)
    if not c.call(lambda: blas.supports(p)):
        continue
    a, b = (rng.normal(size=s).astype(kind) for s in ((m, k), (k, n)))
    x, y = put(c, a.T.copy() if ta else a, q), put(c, b.T.copy() if tb else b, q)
    z = put(c, np.zeros((m, n), np.float32), q)
    c.call(lambda: blas.run(q, p, z, x, y))
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(get(c, z, m * n, q).reshape(m, n), want, rtol=1e-5, atol=1e-5)
"""
    )
    if "False" in result.out:
        pytest.skip("cuBLASLt is not installed")
