"""GEMM: exact on integers at every edge, batch-invariant, epilogue once per element, plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.kernels_c.conftest import Lab, prelude

KERNELS = (
    prelude("abi")
    + """
/* b = {C, A, Bp}, d = {M, N, K, mb, nb, lda, ldc, with_epilogue} */
static int epilogue(void *const *b, const i64 *d, i64 r0, i64 r1, i64 c0, i64 c1, mx_ctx *ctx) {
  (void)b;
  if (d[7] == 2) { ctx->err[0] = r0; return 4; }
  for (i64 i = 0; i < r1 - r0; i++) {
    f32 *const row = ctx->tile + i * ctx->across;
    for (i64 j = 0; j < c1 - c0; j++) row[j] = row[j] * 2 + 1;
  }
  return 0;
}
int k_gemm(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  return ctx->lib->gemm_f32(b[0], d[6], b[1], d[5], b[2], d[0], d[1], d[2], d[3], d[4], lo, hi,
                            d[7] ? epilogue : 0, b, d, ctx);
}
/* batched product of strided operands: d = {M, N, K, ars, acs, brs, bcs, A per item, B per item} */
int k_matmul(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  for (i64 i = lo; i < hi; i++) {
    f32 *C = (f32 *)b[0] + i * d[0] * d[1];
    const f32 *A = (f32 *)b[1] + i * d[7], *B = (f32 *)b[2] + i * d[8];
    int code = ctx->lib->matmul_f32(C, d[1], A, d[3], d[4], B, d[5], d[6], d[0], d[1], d[2], 0, b,
                                    d, ctx);
    if (code) return code;
  }
  return 0;
}
"""
)

SIZES = [0, 1, 2, 5, 11, 12, 13, 16, 24, 25, 64, 96, 100]
NS = [1, 7, 16, 31, 32, 33, 64, 95, 300]
KS = [0, 1, 3, 127, 128, 191, 192, 193, 384, 385, 800, 1200]


def aligned(count: int) -> np.ndarray:
    raw = np.zeros(count + 16, np.float32)
    shift = (-raw.ctypes.data // 4) % 16
    return raw[shift : shift + count]


def pack(runtime: Any, pointer: Callable[[Any], Any], b: np.ndarray) -> np.ndarray:
    k, n = b.shape
    out = aligned(max(1, runtime.mx_pack_b_size(k, n)))
    out[:] = np.nan
    rs, cs = (s // 4 for s in b.strides)
    runtime.mx_pack_b_f32(pointer(out), pointer(b), k, n, rs, cs, 0, (n + 31) // 32)
    return out


class Gemm:
    def __init__(self, lab: Lab, runtime: Any, pointer: Callable[[Any], Any], threads: int) -> None:
        signature = "(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);"
        names = ("k_gemm", "k_matmul")
        self.kernels = lab.open_text(KERNELS, "".join(f"int {n}{signature}" for n in names))
        self.lab, self.runtime, self.pointer = lab, runtime, pointer
        self.team = runtime.mx_team_new(threads)
        self.threads = threads

    def step(self, fn: Any, arrays: list[Any], dims: list[int], extent: int, scratch: int) -> int:
        ffi = self.lab.ffi
        table = ffi.new("mx_step[]", [(fn, 0, 0, extent, 1, 0)])
        argp = ffi.new("void *[]", [ffi.cast("void *", x.ctypes.data) for x in arrays])
        null, self.err = ffi.NULL, ffi.new("i64[6]")
        return int(
            self.runtime.mx_execute(
                self.team, table, 1, argp, ffi.new("i64[]", dims), null, 0, null, scratch, null,
                self.err,
            )
        )  # fmt: skip

    def __call__(
        self, a: np.ndarray, b: np.ndarray, epilogue: int = 0, tile: tuple[int, int] | None = None
    ) -> np.ndarray:
        ffi, (m, k), n = self.lab.ffi, a.shape, b.shape[1]
        mb, nb = ffi.new("i64 *"), ffi.new("i64 *")
        self.runtime.mx_gemm_plan(m, n, k, self.threads, mb, nb)
        if tile:
            mb[0], nb[0] = tile
        assert nb[0] % 32 == 0
        assert mb[0] > 0
        c = np.full((m, n + 3), np.nan, np.float32)
        extent = -(-m // mb[0]) * -(-n // nb[0])
        lda = a.strides[0] // 4
        dims = [m, n, k, mb[0], nb[0], lda, n + 3, epilogue]
        scratch = self.runtime.mx_gemm_scratch(m, n, k, mb[0], nb[0])
        bp = pack(self.runtime, self.pointer, b)
        self.code = self.step(self.kernels.k_gemm, [c, a, bp], dims, extent, scratch)
        assert np.isnan(c[:, n:]).all(), "wrote beside C"
        return c[:, :n]


@pytest.fixture(scope="module", params=["native-1", "native-2", "x86-64-v3-2", "x86-64-1"])
def gemm(
    request: pytest.FixtureRequest, lab: Lab, runtime: Any, pointer: Callable[[Any], Any]
) -> Any:
    """One thread and two; and the tiles for narrower vectors, on this machine."""
    target, threads = request.param.rsplit("-", 1)
    library = runtime if target == "native" else lab.open_runtime(target, f"-march={target}")
    made = Gemm(lab, library, pointer, int(threads))
    yield made
    library.mx_team_free(made.team)


def integers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("m", SIZES)
def test_exact_on_integers(gemm: Gemm, m: int) -> None:
    rng = np.random.default_rng(m)
    for n in NS:
        for k in KS:
            a, b = integers(rng, m, k + 2)[:, :k], integers(rng, k, n)
            c = gemm(a, b, epilogue=1)
            assert gemm.code == 0
            assert (c == 2 * (a @ b) + 1).all(), (m, n, k)


def test_any_tile_gives_the_same_bits(gemm: Gemm) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((97, 700)).astype(np.float32)
    b = rng.standard_normal((700, 200)).astype(np.float32)
    c = gemm(a, b)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=0, atol=2e-4)
    for tile in [(1, 32), (12, 64), (24, 224), (97, 96), (50, 32)]:
        assert (gemm(a, b, tile=tile) == c).all()
    for rows in (1, 3, 16, 30):
        assert (gemm(a[:rows], b) == c[:rows]).all(), "a row depends on its batch"


def test_packs_any_strides(runtime: Any, pointer: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(0)
    b = integers(rng, 37, 70)
    want = pack(runtime, pointer, b)
    padded = np.zeros((37, 96), np.float32)
    padded[:, :70] = b
    assert (want.reshape(3, 37, 32) == padded.reshape(37, 3, 32).transpose(1, 0, 2)).all()
    assert (pack(runtime, pointer, np.asfortranarray(b)) == want).all()
    wide = np.zeros((74, 210), np.float32)
    wide[::2, ::3] = b
    assert (pack(runtime, pointer, wide[::2, ::3]) == want).all()


def test_special_values_pass(gemm: Gemm) -> None:
    a, b = np.ones((13, 5), np.float32), np.ones((5, 40), np.float32)
    a[2, 1], a[3, 0], b[4, 39] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(gemm(a, b), a @ b)


def test_epilogue_error_is_reported(gemm: Gemm) -> None:
    rng = np.random.default_rng(0)
    gemm(integers(rng, 4, 4), integers(rng, 4, 4), epilogue=2)
    assert gemm.code == 1
    assert gemm.err[1] == 4


def test_batched_matmul_with_strides(gemm: Gemm) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in [(64, 64, 32), (5, 7, 3), (30, 33, 100), (1, 1, 1), (3, 4, 0)]:
        a, b = integers(rng, 6, k, m), integers(rng, 6, n, k)
        c = np.zeros((6, m, n), np.float32)
        dims = [m, n, k, 1, m, 1, k, k * m, n * k]
        scratch = gemm.runtime.mx_matmul_scratch(m, n, k)
        assert gemm.step(gemm.kernels.k_matmul, [c, a, b], dims, 6, scratch) == 0
        assert (c == a.transpose(0, 2, 1) @ b.transpose(0, 2, 1)).all()


def test_plans_are_sensible(runtime: Any, lab: Lab) -> None:
    mb, nb = lab.ffi.new("i64 *"), lab.ffi.new("i64 *")
    for m in (1, 16, 64, 512, 1000):
        for n in (1, 32, 384, 1536, 4096):
            for threads in (1, 2, 8):
                runtime.mx_gemm_plan(m, n, 384, threads, mb, nb)
                items = -(-m // mb[0]) * -(-n // nb[0])
                assert nb[0] % 32 == 0
                assert 1 <= mb[0] <= m
                assert items >= min(threads, -(-n // 32))


def test_two_threads_have_half_of_the_rows_each(runtime: Any, lab: Lab) -> None:
    """Of products whose right operand is small, in tiles of whole rows, so that the thread that
    begins in the middle of them begins in the middle of the rows."""
    mb, nb = lab.ffi.new("i64 *"), lab.ffi.new("i64 *")
    for m in (28, 40, 97, 500, 1000, 12544):
        for n, k in ((16, 32), (80, 480), (1000, 512), (1536, 576)):
            runtime.mx_gemm_plan(m, n, k, 2, mb, nb)
            items, half = -(-m // mb[0]), -(-m // 2)
            assert nb[0] == -(-n // 32) * 32
            assert mb[0] <= 128
            first = min((items - items // 2) * mb[0], m)
            assert half <= first < half + -(-items // 2), (m, n, k)
            assert runtime.mx_gemm_scratch(m, n, k, mb[0], nb[0]) == 0
    for m, n, k, threads in ((27, 64, 64, 2), (512, 1025, 1024, 2), (512, 64, 64, 3)):
        runtime.mx_gemm_plan(m, n, k, threads, mb, nb)
        assert (mb[0], nb[0]) != (-(-m // 2), -(-n // 32) * 32)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_some_rows_are_shared_out_evenly(runtime: Any, lab: Lab, threads: int) -> None:
    """The thread with most columns of 13 to 96 rows has at most one panel more than it must."""
    mb, nb = lab.ffi.new("i64 *"), lab.ffi.new("i64 *")
    for m in (13, 40, 96):
        for panels in range(1, 3 * threads + 30):
            runtime.mx_gemm_plan(m, 32 * panels, 1 << 20, threads, mb, nb)
            assert mb[0] == m
            items, each = -(-32 * panels // nb[0]), nb[0] // 32
            most = -(-items // threads) * each
            if panels <= 16 * threads:
                assert most <= -(-panels // threads) + 1, (m, panels, items, each)
