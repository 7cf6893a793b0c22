"""Correct kernels: NumPy's results, with checks and without, and nothing reported."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab.driver import Tensor
from maxlab.driver.sim import SimModule

Array = np.ndarray[Any, Any]
Modules = Callable[[str, bool], SimModule]
RNG = np.random.default_rng(7)

pytestmark = pytest.mark.parametrize("check", [False, True], ids=["plain", "checked"])


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape, dtype=np.float32)


def test_grid_stride(module: Modules, check: bool) -> None:
    x = normal(10_007)
    erf = np.array([math.erf(v * 0.707106781) for v in x], np.float32)
    for grid in (1, 40):
        y = np.zeros_like(x)
        assert module("kernels.cu", check).launch("gelu", grid, 256, [y, x, x.size]) == []
        np.testing.assert_allclose(y, 0.5 * x * (1 + erf), rtol=2e-6, atol=1e-7)


def test_vectors(module: Modules, check: bool) -> None:
    x = Tensor.from_numpy(normal(1027))
    y = Tensor.zeros([1027], x.dtype)
    assert module("kernels.cu", check).launch("scale", 3, 128, [y, x, 2.5, 1027]) == []
    np.testing.assert_array_equal(y.to_numpy(), x.to_numpy() * np.float32(2.5))


@pytest.mark.parametrize("sizes", [(33, 50, 17), (16, 16, 48), (1, 1, 1)])
def test_matmul(module: Modules, check: bool, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b, c = normal(m, k), normal(k, n), np.zeros((m, n), np.float32)
    grid = (-(-n // 16), -(-m // 16))
    launch = module("kernels.cu", check).launch
    assert launch("matmul", grid, (16, 16), [c, a, b, m, n, k]) == []
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [32, 256])
def test_softmax(module: Modules, check: bool, threads: int) -> None:
    x = normal(5, 333) * 4
    y = np.zeros_like(x)
    assert module("kernels.cu", check).launch("softmax", 5, threads, [y, x, 333]) == []
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-8)


def test_histogram(module: Modules, check: bool) -> None:
    x = RNG.integers(0, 256, 5000, dtype=np.uint8)
    counts, total = np.zeros(256, np.int32), np.zeros(1, np.float32)
    launch = module("kernels.cu", check).launch
    assert launch("histogram", 7, 128, [counts, total, x, x.size]) == []
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=256))
    assert total[0] == x.sum()  # exact: below 2**24


def test_transpose_in_dynamic_shared_memory(module: Modules, check: bool) -> None:
    x = normal(45, 70)
    y = np.zeros((70, 45), np.float32)
    launch = module("kernels.cu", check).launch
    assert launch("transpose", (3, 2), (32, 8), [y, x, 45, 70], 32 * 33 * 4) == []
    np.testing.assert_array_equal(y, x.T)


def test_threads_that_leave_early(module: Modules, check: bool) -> None:
    x = RNG.integers(-9, 9, 128, dtype=np.int32)
    y = np.zeros(100, np.int32)
    assert module("kernels.cu", check).launch("early_exit", 1, 128, [y, x, 100]) == []
    np.testing.assert_array_equal(y, x[99::-1] + (x[:100] > 0).sum())


@pytest.mark.parametrize("length", [70, 3])
def test_attention(module: Modules, check: bool, length: int) -> None:
    q, k, v = (normal(2, length, 64).astype(np.float16) for _ in range(3))
    out = np.zeros((2, length, 64), np.float32)
    arguments = [out, q, k, v, length, 0.125]
    launch = module("kernels.cu", check).launch
    assert launch("attention", (-(-length // 4), 2), 128, arguments, 2 * 32 * 65 * 4) == []
    score = np.float32(0.125) * q.astype(np.float32) @ k.astype(np.float32).swapaxes(1, 2)
    score[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
    weight = np.exp(score - score.max(-1, keepdims=True))
    weight /= weight.sum(-1, keepdims=True)
    np.testing.assert_allclose(out, weight @ v.astype(np.float32), rtol=1e-4, atol=1e-5)


def test_last_block_completes(module: Modules, check: bool) -> None:
    x = RNG.integers(-8, 8, 9000).astype(np.float32)
    result, partial = np.zeros(1, np.float32), np.zeros(37, np.float32)
    done = np.zeros(1, np.uint32)
    launch = module("kernels.cu", check).launch
    assert launch("sum_all", 37, 64, [result, partial, done, x, x.size]) == []
    assert result[0] == x.sum()


def test_barrier_of_a_warp(module: Modules, check: bool) -> None:
    x = np.arange(256, dtype=np.int32)
    y = np.zeros_like(x)
    assert module("kernels.cu", check).launch("reverse_in_warps", 1, 256, [y, x]) == []
    np.testing.assert_array_equal(y, x.reshape(8, 32)[:, ::-1].reshape(-1))


@pytest.mark.parametrize("sizes", [(64, 32, 64), (70, 40, 72), (5, 3, 8)])
def test_bfloat16_tensor_cores(module: Modules, check: bool, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = (normal(rows, k).astype(ml_dtypes.bfloat16) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    launch = module("tensor_core.cu", check).launch
    assert launch("gemm_bf16", (-(-n // 32), -(-m // 64)), 128, [c, a, b, m, n, k]) == []
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c, exact, rtol=1e-5, atol=1e-5)


def test_float16_tensor_cores(module: Modules, check: bool) -> None:
    a, b = normal(16, 16).astype(np.float16), normal(16, 8).astype(np.float16)
    c = np.zeros((16, 8), np.float32)
    assert module("tensor_core.cu", check).launch("mma_f16", 1, 32, [c, a, b]) == []
    np.testing.assert_allclose(
        c, 1 + a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5
    )
