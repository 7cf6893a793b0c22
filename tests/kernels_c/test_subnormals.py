"""Products of bfloat16 whose operands, partial sums or results are subnormal.

The instruction that multiplies pairs of bfloat16 takes subnormals for 0 and makes 0 of them. It is
emulated here, so that its place in the library is tested on processors without it too.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import pytest

from tests.kernels_c.conftest import FLAGS, SOURCES, cdef, compiler_command

Array = np.ndarray[Any, Any]
BF16 = 0
EPILOGUE = """
#include "mx_abi.h"
int mx_t_keep(void *const *b, const i64 *d, i64 r0, i64 r1, i64 c0, i64 c1, mx_ctx *ctx) {
  const i64 width = (c1 - c0 + MX_NR - 1) / MX_NR * MX_NR;
  for (i64 i = r0; i < r1; i++)
    for (i64 j = c0; j < c1; j++)
      ((f32 *)b[0])[i * d[0] + j] = ((const f32 *)ctx->scratch)[(i - r0) * width + j - c0];
  return 0;
}
"""
KINDS = {
    "native": [],
    "emulated": ["-DMX_EMULATED_PAIRS"],
    "tiles": ["-DMX_EMULATED_TILES=1"],
}


@pytest.fixture(scope="module", params=KINDS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The library of products, as this processor runs it and with the instruction emulated."""
    folder: Path = tmp_path_factory.mktemp("subnormals")
    keep = folder / "keep.c"
    keep.write_text(EPILOGUE)
    files = [keep, *(SOURCES / name for name in ("gemm.c", "halves.c", "taps.c"))]
    out = folder / "products.so"
    flags = [*FLAGS, "-O2", *KINDS[request.param], f"-I{SOURCES}"]
    command = [*compiler_command(), *flags, *map(str, files), "-o", str(out), "-lm"]
    subprocess.run(command, check=True)
    ffi = cffi.FFI()
    epilogue = "int mx_t_keep(void *const *, const i64 *, i64, i64, i64, i64, mx_ctx *);"
    ffi.cdef(cdef() + epilogue)
    return ffi.dlopen(str(out)), ffi


def bits(array: Array) -> Array:
    """Numbers that bfloat16 has, as its bits."""
    wide = array.astype(np.float32).view(np.uint32)
    assert not (wide & 0xFFFF).any(), "these are no numbers of bfloat16"
    return (wide >> 16).astype(np.uint16)


def exact(a: Array, b: Array) -> Array:
    """The product, of which every partial sum is a float32."""
    return np.asarray((a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32))


def whole(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-3, 4, shape).astype(np.float64)


def of_all_sizes(
    rng: np.random.Generator, m: int, k: int, n: int
) -> dict[str, tuple[Array, Array]]:
    """Operands with subnormals at different places."""
    a, b = whole(rng, m, k), whole(rng, k, n)
    few = a.copy()
    few[m // 2, k - 1] = 2.0**-133
    least = b * 2.0**20
    least[0, n - 1] = 2.0**-130
    ends = a.copy()
    ends[:, : k // 2] = 0
    return {
        "left": (a * 2.0**-133, b * 2.0**20),
        "right": (a * 2.0**20, b * 2.0**-133),
        "one on the left": (few, np.where(np.arange(k)[:, None] == k - 1, 2.0**10, 0.0) + b * 0),
        "one on the right": (np.where(np.arange(k)[None, :] == 0, 2.0**7, 0.0) + a * 0, least),
        "sums": (a * 2.0**-70, b * 2.0**-72),
        "some sums": (ends * 2.0**-66, b * 2.0**-66),
        "results": (a * 2.0**-60, b * 2.0**-73),
        "none": (a, b),
        "least normal": (a * 2.0**-62, b * 2.0**-63),
    }


SHAPES = [(1, 1, 1), (1, 9, 40), (3, 800, 70), (13, 771, 33), (30, 64, 65)]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_blocks(library: Any, m: int, k: int, n: int) -> None:
    """A block by one thread, and the same with rows in pieces."""
    lib, ffi = library

    def at(array: Array) -> Any:
        return ffi.cast("void *", array.ctypes.data)

    for name, (a, b) in of_all_sizes(np.random.default_rng(m), m, k, n).items():
        left, right = bits(a), bits(b)
        packed = np.zeros(lib.mx_half_pack_size(k, n), np.uint16)
        lib.mx_half_pack(BF16, at(packed), at(right), k, n, n, 1, 0, -(-n // 32))
        width = -(-n // 32) * 32
        scratch = np.zeros(lib.mx_half_block_scratch(BF16, m) + 64, np.uint8)
        c = np.full((m, width), np.nan, np.float32)
        lib.mx_half_block(BF16, at(c), width, at(left), k, at(packed), m, n, k, at(scratch))
        np.testing.assert_array_equal(c[:, :n], exact(a, b), name)
        places = (left.ctypes.data + 2 * k * np.arange(m)).astype(np.uint64)
        pieces = np.full((m, width), np.nan, np.float32)
        where = ffi.cast("void *const *", places.ctypes.data)
        lib.mx_half_runs(BF16, at(pieces), width, where, 1, k, at(packed), m, n, at(scratch))
        np.testing.assert_array_equal(pieces, c, name)


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
@pytest.mark.parametrize("ahead", [True, False], ids=["packed-ahead", "unpacked"])
def test_products(library: Any, m: int, k: int, n: int, ahead: bool) -> None:
    """Whole products, with the right operand packed ahead of time and not."""
    lib, ffi = library

    def at(array: Array) -> Any:
        return ffi.cast("void *", array.ctypes.data)

    for name, (a, b) in of_all_sizes(np.random.default_rng(n), m, k, n).items():
        left, right = bits(a), bits(b)
        c = np.full((m, n), np.nan, np.float32)
        pointers = np.array([c.ctypes.data], np.uint64)
        sizes = np.array([n], np.int64)
        b_, d_ = ffi.cast("void *const *", at(pointers)), ffi.cast("i64 *", at(sizes))
        context = ffi.new("mx_ctx *")
        mb, nb = min(m, 12), 32
        need = max(
            lib.mx_half_matmul_scratch(BF16, m, n, k), lib.mx_half_gemm_scratch(BF16, m, mb, nb)
        )
        memory = np.zeros(need + 64, np.uint8)
        context.scratch = ffi.cast("void *", (memory.ctypes.data + 63) // 64 * 64)
        keep = ffi.addressof(lib, "mx_t_keep")
        if ahead:
            packed = np.zeros(lib.mx_half_pack_size(k, n), np.uint16)
            step = np.array([packed.ctypes.data, right.ctypes.data], np.uint64)
            layout = np.array([k, n, n, 1], np.int64)
            panels = -(-n // 32)
            pack = ffi.cast("i64 *", at(layout))
            lib.mx_k_pack_b_bf16(ffi.cast("void *const *", at(step)), pack, 0, panels, context)
            items = -(-m // mb) * -(-n // nb)
            lib.mx_half_gemm(
                BF16, at(left), k, at(packed), m, n, k, mb, nb, 0, items, keep, b_, d_, context
            )
        else:
            lib.mx_half_matmul(
                BF16, at(left), k, 1, at(right), n, 1, m, n, k, keep, b_, d_, context
            )
        np.testing.assert_array_equal(c, exact(a, b), name)


def test_order_of_sums_is_the_same_with_subnormals_and_without(library: Any) -> None:
    """An element does not depend on the subnormals in other rows: every way rounds alike."""
    lib, ffi = library
    rng = np.random.default_rng(5)
    m, k, n = 12, 500, 64
    a = (rng.standard_normal((m, k)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    b = (rng.standard_normal((k, n)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)

    def at(array: Array) -> Any:
        return ffi.cast("void *", array.ctypes.data)

    packed = np.zeros(lib.mx_half_pack_size(k, n), np.uint16)
    lib.mx_half_pack(BF16, at(packed), at(b), k, n, n, 1, 0, n // 32)
    scratch = np.zeros(lib.mx_half_block_scratch(BF16, m) + 64, np.uint8)
    made = []
    for _ in range(2):
        c = np.full((m, n), np.nan, np.float32)
        lib.mx_half_block(BF16, at(c), n, at(a), k, at(packed), m, n, k, at(scratch))
        made.append(c)
        a[3] = 1  # the least number there is, in a row of its own
    np.testing.assert_array_equal(np.delete(made[0], 3, 0), np.delete(made[1], 3, 0))
