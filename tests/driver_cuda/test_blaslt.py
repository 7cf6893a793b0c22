"""What is passed to cuBLASLt, against a stand-in with its documented interface."""

from __future__ import annotations

from tests.driver_cuda.conftest import Run
from tests.driver_cuda.test_device import BEGIN

SETUP = (
    BEGIN
    + """
import ctypes, itertools
import ml_dtypes
from maxlab.driver.backend import Product
from maxlab.driver.cuda.blaslt import BlasLt
from maxlab.dtype import DType
c = opened()
blas = c.blas()
q = c.call(c.queue)
rng = np.random.default_rng(0)
NUMPY = {DType.float32: np.float32, DType.float16: np.float16, DType.bfloat16: ml_dtypes.bfloat16}
stand_in = ctypes.CDLL(blas._lib.path)
def device(array, shift=0):
    address = c.call(lambda: c.allocate(array.nbytes + shift)) + shift
    c.call(lambda: c.upload(q, address, array.ctypes.data, array.nbytes))
    return address
def run(p, a, b, shift=0, filled=None):
    out = np.full((p.batch, p.m, p.n), 7, NUMPY[p.out or p.dtype])
    x, y, z = (device(np.ascontiguousarray(v), shift) for v in (a, b, out))
    c.call(lambda: blas.run(q, p, z, x, y))
    c.call(lambda: c.download(q, out.ctypes.data, z, out.nbytes))
    for address in (x, y, z):
        c.call(lambda: c.release(address - shift))
    return out
def check(p, got, a, b):
    a = np.swapaxes(a, -1, -2) if p.transpose_a else a
    b = np.swapaxes(b, -1, -2) if p.transpose_b else b
    want = a.astype(np.float64) @ b.astype(np.float64)
    kind = NUMPY[p.out or p.dtype]
    eps = float(ml_dtypes.finfo(kind).eps)
    assert np.allclose(got.astype(np.float64), want, rtol=2 * eps, atol=2 * eps * p.k), p
"""
)
PLACED = (
    SETUP
    + """
a, b = rng.normal(size=(8, 64)).astype(np.float32), rng.normal(size=(64, 4)).astype(np.float32)
p = Product(8, 4, 64, DType.float32)
x, y, z = device(a), device(b), device(np.zeros((8, 4), np.float32))
"""
)
"""Behind it there is a product ``p``, and its matrices on the device."""


def test_products(on_fake: Run) -> None:
    on_fake(
        SETUP
        + """
sizes = [(1, 1, 1), (3, 5, 7), (16, 24, 64), (1, 33, 129), (20, 1, 5)]
for (m, n, k), ta, tb, dtype in itertools.product(sizes, (0, 1), (0, 1), NUMPY):
    for out in {dtype, DType.float32}:
        p = Product(m, n, k, dtype, out, bool(ta), bool(tb))
        a = rng.normal(size=(k, m) if ta else (m, k)).astype(NUMPY[dtype])
        b = rng.normal(size=(n, k) if tb else (k, n)).astype(NUMPY[dtype])
        check(p, run(p, a, b), a, b)
""",
        blas=True,
    )


def test_batches(on_fake: Run) -> None:
    on_fake(
        SETUP
        + """
for ta, tb in itertools.product((False, True), repeat=2):
    a = rng.normal(size=(4, 6, 5) if ta else (4, 5, 6)).astype(np.float32)
    b = rng.normal(size=(4, 7, 6) if tb else (4, 6, 7)).astype(np.float32)
    p = Product(5, 7, 6, DType.float32, None, ta, tb, batch=4)
    check(p, run(p, a, b), a, b)
    p = Product(5, 7, 6, DType.float32, None, ta, tb, batch=4, stride_b=0)
    check(p, run(p, a, b[2]), a, b[2])
    p = Product(5, 7, 6, DType.float32, None, ta, tb, batch=2, stride_a=60)
    check(p, run(p, a, b[:2]), a[::2], b[:2])
""",
        blas=True,
    )


def test_heuristics_are_asked_once(on_fake: Run) -> None:
    on_fake(
        SETUP
        + """
a, b = rng.normal(size=(8, 16)).astype(np.float32), rng.normal(size=(16, 4)).astype(np.float32)
p = Product(8, 4, 16, DType.float32)
for _ in range(3):
    run(p, a, b)
assert stand_in.fakeblas_heuristics() == 1
run(p, a, b, shift=4)  # an algorithm for aligned matrices must not get these
assert stand_in.fakeblas_heuristics() == 2
run(Product(8, 4, 16, DType.float32), a, b)
assert stand_in.fakeblas_heuristics() == 2
""",
        blas=True,
    )


def test_workspaces_belong_to_queues(on_fake: Run) -> None:
    on_fake(
        PLACED
        + """
c.call(lambda: blas.run(q, p, z, x, y))
other = c.call(c.queue)
c.call(lambda: blas.run(other, p, z, x, y))
assert q.workspace and other.workspace and q.workspace != other.workspace
held = len(c._held.allocations)
del other
c.call(int)
assert len(c._held.allocations) == held - 1
c.call(lambda: blas.run(c.default_queue, p, z, x, y))
""",
        blas=True,
    )


def test_products_in_recordings(on_fake: Run) -> None:
    on_fake(
        PLACED
        + """
c.call(q.synchronize)
held = len(c._held.allocations)
recording = c.record(lambda queue: blas.run(queue, p, z, x, y))  # takes its workspace meanwhile
assert len(c._held.allocations) == held + 1
assert (get(c, z, 32, q) == 0).all()
for scale in (1, 2):
    scaled = a * scale
    c.call(lambda: (c.upload(q, x, scaled.ctypes.data, a.nbytes), recording.launch(q)))
    check(p, get(c, z, 32, q).reshape(8, 4), scaled, b)
del recording
c.call(int)
assert len(c._held.allocations) == held
""",
        blas=True,
    )


def test_what_it_does_not_have(on_fake: Run) -> None:
    on_fake(
        SETUP
        + """
assert blas.supports(Product(2, 2, 2, DType.bfloat16, DType.float32))
assert not blas.supports(Product(2, 2, 2, DType.int32))
assert not blas.supports(Product(2, 2, 2, DType.float32, DType.float16))
nothing = Product(2, 7777, 2, DType.float32)
assert not blas.supports(nothing)
x = device(np.zeros(20000, np.float32))
assert error_of(lambda: c.call(lambda: blas.run(q, nothing, x, x, x))).code == "ML443"
assert c.blas() is blas
""",
        blas=True,
    )


def test_everything_is_given_back(on_fake: Run) -> None:
    result = on_fake(
        SETUP
        + """
run(Product(8, 4, 16, DType.float32), np.ones((8, 16), np.float32), np.ones((16, 4), np.float32))
print(stand_in.fakeblas_live())
c.close()
print(stand_in.fakeblas_live())
""",
        blas=True,
    )
    assert result.out.split() == ["5", "0"]


def test_a_machine_without_it(on_fake: Run) -> None:
    result = on_fake(
        BEGIN
        + """
from maxlab.driver.cuda import blaslt
blaslt.library_paths = lambda *a: ["libno-such-thing.so.13"]
print(opened().blas())
"""
    )
    assert result.out.strip() == "None"
