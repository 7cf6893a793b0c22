"""Products of bytes, for each instruction set: all give the bits that NumPy's integers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.kernels_c.instruction_sets import SETS, open_products

Array = np.ndarray[Any, Any]
FLOATS, UNSIGNED, SIGNED = range(3)
SHAPES = [
    (1, 1, 1), (1, 3, 40), (4, 4, 31), (5, 64, 32), (12, 65, 33), (13, 127, 64), (17, 200, 5),
    (33, 130, 70), (140, 96, 65), (2, 0, 3), (0, 8, 8),
]  # fmt: skip


@pytest.fixture(scope="module", params=SETS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("int8")
    return open_products(request.param, folder, ["int8.c"])


def product(
    library: Any, x: Array, kind: int, w: Array, given: Array | None, relu: bool = False
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """The result of the library; the bytes, scales and zeros of its left rows; and the scales and
    the bias of the columns."""
    lib, ffi = library
    at: Callable[[Array | None], Any] = lambda array: (  # noqa: E731
        ffi.NULL if array is None else ffi.cast("void *", array.ctypes.data)
    )
    (m, k), n = x.shape, len(w)
    step = lib.mx_int8_step(k)
    assert step >= k
    assert step % 128 == 64
    q = np.full((m, step), 77, np.uint8)
    d, z = np.zeros(m, np.float32), np.zeros(m, np.int32)
    lib.mx_int8_left(at(q), at(d), at(z), at(x), kind, k, at(given), 0, m)
    packed = np.full(lib.mx_int8_pack_size(k, n), 99, np.uint8)
    panels = -(-n // 32)
    lib.mx_int8_pack(at(packed), at(w), k, n, 0, panels)
    rng = np.random.default_rng(len(w))
    scales = (2.0 ** rng.integers(-3, 3, n)).astype(np.float32)
    bias = rng.integers(-9, 9, n).astype(np.float32)
    y = np.full((m, n), np.nan, np.float32)
    items = panels * -(-m // 128)
    for lo in range(0, items, 3):
        code = lib.mx_int8_product(
            at(y), n, at(packed), k, at(q), at(d), at(z), m, at(scales), at(bias), int(relu), lo,
            min(lo + 3, items), ffi.NULL,
        )  # fmt: skip
        assert code == 0
    return y, q[:, :k], d, z, scales, bias


def expected(q: Array, d: Array, z: Array, w: Array, scales: Array, bias: Array) -> Array:
    whole = (q.astype(np.int64) - z[:, None]) @ w.astype(np.int64).T
    return np.asarray(whole * (d[:, None].astype(np.float64) * scales) + bias)


@pytest.mark.parametrize("kind", [UNSIGNED, SIGNED])
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_bytes_are_exact(library: Any, m: int, k: int, n: int, kind: int) -> None:
    rng = np.random.default_rng(m + k)
    low, dtype = (0, np.uint8) if kind == UNSIGNED else (-128, np.int8)
    x = rng.integers(low, low + 256, (m, k)).astype(dtype)
    w = rng.integers(-128, 128, (n, k)).astype(np.int8)
    if m and k:
        x[0], w[0] = low + 255, -128  # the largest sums there are
    given = np.array([0.5, low + 7.0], np.float32)
    y, q, d, z, scales, bias = product(library, x, kind, w, given)
    wide = q.astype(np.int64) - z[:, None]
    assert np.array_equal(wide, x.astype(np.int64) - (low + 7))
    want = expected(q, d, z, w, scales, bias)
    assert np.array_equal(y, want.astype(np.float32))
    y = product(library, x, kind, w, given, relu=True)[0]
    assert np.array_equal(y, np.maximum(want, 0).astype(np.float32))


def test_the_largest_depth_does_not_overflow(library: Any) -> None:
    x = np.full((2, 65536), 255, np.uint8)
    w = np.stack([np.full(65536, value, np.int8) for value in (-128, 127)])
    y, _, _, _, scales, bias = product(library, x, UNSIGNED, w, np.array([1.0, 0.0], np.float32))
    want = 255.0 * 65536 * np.array([-128.0, 127.0]) * scales + bias
    assert np.array_equal(y, np.tile(want, (2, 1)).astype(np.float32))


def quantised(x: Array, given: Array | None = None) -> tuple[Array, Array, Array]:
    """What left rows of floats become, in NumPy's float32."""
    f = np.float32
    if given is None:
        low, high = np.minimum(x.min(1, initial=0), 0), np.maximum(x.max(1, initial=0), 0)
        d = np.maximum(high / f(255) - low / f(255), f(2.0**-126))
        z = np.rint(-low / d)
    else:
        d, z = np.full(len(x), given[0]), np.full(len(x), np.rint(given[1]))
    q = np.clip(np.rint(x * (f(1) / d)[:, None]) + z[:, None], 0, 255)
    return q.astype(np.uint8), d, z.astype(np.int32)


@pytest.mark.parametrize("given", [None, (0.03, 100.0)])
@pytest.mark.parametrize("k", [1, 37, 64, 530])
def test_floats_become_bytes(library: Any, k: int, given: tuple[float, float] | None) -> None:
    rng = np.random.default_rng(k)
    x = rng.standard_normal((7, k)).astype(np.float32)
    x[1] = np.abs(x[1])
    x[2] = -np.abs(x[2])
    x[3] = 0
    x[4] *= np.float32(1e-38)
    x[5] *= np.float32(1e30)
    w = rng.integers(-128, 128, (3, k)).astype(np.int8)
    numbers = None if given is None else np.array(given, np.float32)
    y, q, d, z, scales, bias = product(library, x, FLOATS, w, numbers)
    for found, want in zip((q, d, z), quantised(x, numbers), strict=True):
        assert np.array_equal(found, want)
    want = expected(q, d, z, w, scales, bias)
    assert (np.abs(y - want) <= 1e-6 * (np.abs(want - bias) + np.abs(bias))).all()
    if given is None:  # a row is within half a step of what its bytes stand for
        near = (q.astype(np.float64) - z[:, None]) * d[:, None]
        assert (np.abs(near - x) <= d[:, None] * 1.01).all()


@pytest.mark.parametrize("given", [None, (0.03, 100.0)])
def test_what_is_no_number_stays_in_its_row(
    library: Any, given: tuple[float, float] | None
) -> None:
    x = np.ones((4, 70), np.float32)
    x[1, 69], x[3, 0] = np.nan, np.inf
    w = np.ones((2, 70), np.int8)
    numbers = None if given is None else np.array(given, np.float32)
    for relu in (False, True):
        y, q, *_ = product(library, x, FLOATS, w, numbers, relu)
        assert np.isnan(y[1]).all()
        assert np.isfinite(y[[0, 2]]).all()
        if given is None:
            assert np.isnan(y[3]).all()
        else:
            assert q[3, 0] == 255
            assert np.isfinite(y[3]).all()


def test_a_scale_that_is_no_scale(library: Any) -> None:
    x, w = np.ones((2, 8), np.float32), np.ones((2, 8), np.int8)
    for scale in (0.0, -1.0, np.nan):
        given = np.array([scale, 0], np.float32)
        assert np.isnan(product(library, x, FLOATS, w, given)[0]).all()
