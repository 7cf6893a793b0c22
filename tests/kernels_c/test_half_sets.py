"""Products of halves for each instruction set, on numbers of which sums are rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels_c.instruction_sets import SETS, open_products

Array = np.ndarray[Any, Any]
BF16, F16 = 0, 1


@pytest.fixture(scope="module", params=SETS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("halves")
    return open_products(request.param, folder, ["gemm.c", "halves.c", "taps.c"])


def numbers(rng: np.random.Generator, *shape: int, kind: int = BF16) -> Array:
    """Normal numbers, as bits of halves; of float16 some are subnormal."""
    if kind == F16:
        sizes = np.where(rng.random(shape) < 0.9, 1.0, 2.0**-16)
        return (rng.standard_normal(shape) * sizes).astype(np.float16).view(np.uint16)
    return (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def wide(bits: Array, kind: int = BF16) -> Array:
    if kind == F16:
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def product(library: Any, a: Array, b: Array, kind: int = BF16) -> Array:
    lib, ffi = library
    (m, k), n = a.shape, b.shape[1]
    panels = -(-n // 32)
    packed = np.zeros(lib.mx_half_pack_size(k, n), np.uint16)

    def at(array: Array) -> Any:
        return ffi.cast("void *", array.ctypes.data)

    lib.mx_half_pack(kind, at(packed), at(b), k, n, n, 1, 0, panels)
    scratch = np.zeros(lib.mx_half_block_scratch(kind, m) + 64, np.uint8)
    aligned = scratch[-scratch.ctypes.data % 64 :]
    c = np.full((m, panels * 32), np.nan, np.float32)
    lib.mx_half_block(kind, at(c), panels * 32, at(a), k, at(packed), m, n, k, at(aligned))
    return c[:, :n]


@pytest.mark.parametrize("kind", [BF16, F16])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 40, 33), (16, 33, 64), (35, 1100, 40), (47, 31, 70), (140, 70, 32)]
)
def test_sums_are_those_of_floats(library: Any, m: int, k: int, n: int, kind: int) -> None:
    rng = np.random.default_rng(k)
    a, b = numbers(rng, m, k, kind=kind), numbers(rng, k, n, kind=kind)
    made, left, right = product(library, a, b, kind), wide(a, kind), wide(b, kind)
    want, sizes = left @ right, np.abs(left) @ np.abs(right)
    assert (np.abs(made - want) <= (k + 2) * 2.0**-24 * sizes).all()
    # of a row, the same in any batch
    row = min(m - 1, 34)
    assert np.array_equal(made[row], product(library, a[row : row + 1].copy(), b, kind)[0])


def test_a_subnormal_that_meets_zeros_changes_nothing(library: Any) -> None:
    """Sums with subnormals are made otherwise than those without, in the same order."""
    rng = np.random.default_rng(0)
    a, b = numbers(rng, 45, 1090), numbers(rng, 1090, 64)
    b[700] = 0
    made = product(library, a, b)
    a[:, 700] = 3  # 2**-132.4
    assert np.array_equal(made, product(library, a, b))
