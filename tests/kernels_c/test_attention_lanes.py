"""Attention of queries that are lanes of vectors, for each instruction set, beside float64."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cffi
import numpy as np
import pytest

from tests.kernels_c.instruction_sets import SETS, open_products

Array = np.ndarray[Any, Any]
DECLARED = """
typedef int64_t i64;
typedef float f32;
void mx_pack_b_f32(f32 *dst, const f32 *B, i64 K, i64 N, i64 row_stride, i64 col_stride, i64 lo,
                   i64 hi);
void mx_lane_scores(f32 *S, i64 lds, const f32 *keys, i64 step, i64 count, const f32 *queries,
                    i64 lanes, i64 dim, const f32 *values, const f32 *soon);
void mx_lane_weights(f32 *S, i64 lds, i64 count, i64 lanes, f32 *tops, f32 *totals, f32 *fades);
void mx_lane_sums(f32 *O, i64 ldo, const f32 *S, i64 lds, const f32 *values, i64 step, i64 count,
                  i64 rows, i64 dim);
"""


@dataclass(frozen=True)
class Library:
    """The functions of one instruction set."""

    lib: Any
    ffi: Any

    def at(self, array: Array) -> Any:
        return self.ffi.cast("float *", array.ctypes.data)

    def attended(
        self, q: Array, k: Array, v: Array, hidden: Array, runs: list[int], block: int
    ) -> Array:
        """What queries see of keys that come in ``runs``, ``block`` of them at a time; ``hidden``
        says which ones each query does not see."""
        (rows, dim), size = q.shape, v.shape[1]
        lanes, panels = -(-rows // 16) * 16, -(-rows // 32)
        queries = np.full((panels, dim, 32), np.nan, np.float32)
        self.lib.mx_pack_b_f32(self.at(queries), self.at(q), dim, rows, 1, dim, 0, panels)
        tops, totals, fades = (np.full(lanes, fill, np.float32) for fill in (-np.inf, 0, np.nan))
        out = np.zeros((rows, size), np.float32)
        for begin in range(0, len(k), block):
            end = min(begin + block, len(k))
            scores = np.full((end - begin, lanes + 16), np.nan, np.float32)
            cuts = sorted({begin, end, *(cut for cut in runs if begin < cut < end)})
            parts = list(pairwise(cuts))
            for lo, hi in parts:
                self.lib.mx_lane_scores(
                    self.at(scores[lo - begin :]), lanes + 16, self.at(k[lo:]), dim, hi - lo,
                    self.at(queries), lanes, dim, self.at(v[lo:]), self.at(k[lo:]),
                )  # fmt: skip
            scores[:, :rows][hidden[:, begin:end].T] = -np.inf
            self.lib.mx_lane_weights(
                self.at(scores), lanes + 16, end - begin, lanes, self.at(tops), self.at(totals),
                self.at(fades),
            )  # fmt: skip
            out *= fades[:rows, None]
            for lo, hi in parts:
                self.lib.mx_lane_sums(
                    self.at(out), size, self.at(scores[lo - begin :]), lanes + 16,
                    self.at(v[lo:]), size, hi - lo, rows, size,
                )  # fmt: skip
            assert np.isnan(scores[:, lanes:]).all()  # nothing is written beside the lanes
        some = totals[:rows, None] != 0
        made: Array = np.divide(out, totals[:rows, None], out=np.zeros_like(out), where=some)
        return made


@pytest.fixture(scope="module", params=SETS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("lanes")
    open_products(request.param, folder, ["gemm.c", "lanes.c"])
    ffi = cffi.FFI()
    ffi.cdef(DECLARED)
    return Library(ffi.dlopen(str(folder / "products.so")), ffi)


def expected(q: Array, k: Array, v: Array, hidden: Array) -> Array:
    scores = np.where(hidden, -np.inf, q.astype(np.float64) @ k.astype(np.float64).T)
    most = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(most), most, 0))
    total = weights.sum(axis=1, keepdims=True)
    made: Array = np.zeros((len(q), v.shape[1]))
    np.divide(weights @ v.astype(np.float64), total, where=total != 0, out=made)
    return made


SHAPES = [
    (1, 1, 8, 32),
    (7, 40, 16, 32),
    (16, 33, 33, 64),
    (48, 300, 64, 64),
    (72, 290, 64, 96),
    (200, 70, 40, 32),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_composition_with_the_same_bits_in_any_parts(
    library: Library, shape: tuple[int, int, int, int]
) -> None:
    rows, keys, dim, size = shape
    rng = np.random.default_rng(keys)
    q, k, v = (
        rng.standard_normal(one).astype(np.float32)
        for one in ((rows, dim), (keys, dim), (keys, size))
    )
    q /= np.float32(dim**0.5)
    hidden = rng.random((rows, keys)) < 0.3
    hidden[rows // 2] = True  # a query that sees nothing gives zeros
    made = library.attended(q, k, v, hidden, [], 128)
    np.testing.assert_allclose(made, expected(q, k, v, hidden), rtol=3e-6, atol=1e-6)
    parted = library.attended(q, k, v, hidden, [5, 16, 29, 64, 131, 160], 128)
    assert np.array_equal(made, parted)
    few = max(rows // 3, 1)
    alone = library.attended(q[:few].copy(), k, v, hidden[:few], [], 128)
    assert np.array_equal(alone, made[:few])


def test_what_is_no_number_stays_in_its_query(library: Library) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((20, 32)).astype(np.float32) for _ in range(3))
    hidden = np.zeros((20, 20), bool)
    made = library.attended(q, k, v, hidden, [], 128)
    q[3, 5] = np.nan
    other = library.attended(q, k, v, hidden, [], 128)
    assert np.isnan(other[3]).all()
    rest = np.arange(20) != 3
    assert np.array_equal(other[rest], made[rest])
