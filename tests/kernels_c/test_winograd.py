"""Convolutions by tiles for each instruction set, beside their definition in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cffi
import numpy as np
import pytest

from maxlab.opset.convolution_tiles import scratch_of
from tests.kernels_c.instruction_sets import SETS, open_products

Array = np.ndarray[Any, Any]
DECLARED = """
typedef int64_t i64;
typedef struct mx_winograd {
  const float *x, *u, *bias;
  float *y;
  i64 ih, iw, ic, oh, ow, oc, ph, pw, wide;
} mx_winograd;
i64 mx_winograd_scratch(i64 tiles, i64 ic, i64 most);
int mx_winograd_f32(const mx_winograd *a, i64 lo, i64 hi, i64 c0, i64 c1, i64 most, void *scratch,
                    void *ctx);
int mx_k_pack_winograd(void *const *b, const i64 *d, i64 lo, i64 hi, void *ctx);
"""


@dataclass(frozen=True)
class Library:
    """The functions of one instruction set."""

    lib: Any
    ffi: Any

    def at(self, array: Array) -> Any:
        return self.ffi.cast("void *", array.ctypes.data)

    def packed(self, filters: Array, strides: tuple[int, int, int] | None = None) -> Array:
        """``filters``, of 3 x 3 taps by channels by filters, or with other distances of these."""
        ic, oc = filters.shape[-2:] if strides is None else (filters.shape[1], filters.shape[0])
        panels = -(-oc // 32)
        out = np.full((36, panels * 32 * ic), np.nan, np.float32)
        row, column, tap = strides or (oc, 1, ic * oc)
        b = self.ffi.new("void *[2]", [self.at(out), self.at(filters)])
        assert not self.lib.mx_k_pack_winograd(
            b, [ic, oc, row, column, tap], 0, panels, self.ffi.NULL
        )
        return out

    def convolved(
        self, x: Array, filters: Array, padding: tuple[int, int, int, int], bias: Array | None,
        blocks: int = 1, most: int = 64, parts: int = 1,
    ) -> Array:  # fmt: skip
        """The image ``x`` with each of the filters, in several blocks of tiles."""
        (ih, iw, ic), oc = x.shape, filters.shape[-1]
        oh, ow = ih + padding[0] + padding[1] - 2, iw + padding[2] + padding[3] - 2
        panels, tiles = -(-oc // 32), -(-oh // 4) * -(-ow // 4)
        u, y = self.packed(filters), np.full((oh, ow, oc), np.nan, np.float32)
        made = self.ffi.new("mx_winograd *")
        for name, array in (("x", x), ("u", u), ("y", y), ("bias", bias)):
            if array is not None:
                setattr(made, name, self.ffi.cast("float *", array.ctypes.data))
        made.ih, made.iw, made.ic, made.oh, made.ow, made.oc = ih, iw, ic, oh, ow, oc
        made.ph, made.pw, made.wide = padding[0], padding[2], panels * 32
        each = -(-tiles // blocks)
        room = np.zeros(self.lib.mx_winograd_scratch(each, ic, most) + 64, np.uint8)
        scratch = room[-room.ctypes.data % 64 :]
        context = np.zeros(1024, np.uint8)  # nobody ends the run
        for n in range(blocks):
            lo, hi = tiles * n // blocks, tiles * (n + 1) // blocks
            for part in range(parts):
                c0, c1 = panels * part // parts * 32, min(panels * (part + 1) // parts * 32, oc)
                code = self.lib.mx_winograd_f32(
                    made, lo, hi, c0, c1, most, self.at(scratch), self.at(context)
                )
                assert code == 0
        return y


@pytest.fixture(scope="module", params=SETS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("winograd")
    open_products(request.param, folder, ["gemm.c", "winograd.c"])
    ffi = cffi.FFI()
    ffi.cdef(DECLARED)
    return Library(ffi.dlopen(str(folder / "products.so")), ffi)


def defined(x: Array, filters: Array, padding: tuple[int, ...], bias: Array | None) -> Array:
    """The definition, in float64."""
    wide = np.pad(x.astype(np.float64), (padding[:2], padding[2:], (0, 0)))
    oh, ow = wide.shape[0] - 2, wide.shape[1] - 2
    taps = ((r, s) for r in range(3) for s in range(3))
    made = sum(wide[r : r + oh, s : s + ow] @ filters[r, s].astype(np.float64) for r, s in taps)
    return np.asarray(made if bias is None else made + bias)


@pytest.mark.parametrize(
    ("image", "oc", "padding", "cut"),
    [
        ((8, 8, 16), 16, (1, 1, 1, 1), {}),
        ((9, 14, 32), 48, (1, 1, 1, 1), {"blocks": 3}),
        ((6, 6, 16), 32, (0, 0, 0, 0), {"blocks": 1}),
        ((13, 7, 48), 80, (2, 0, 0, 3), {"blocks": 4, "parts": 3}),
        ((3, 3, 16), 16, (0, 0, 0, 0), {}),
        ((30, 17, 64), 112, (1, 0, 2, 1), {"blocks": 5, "most": 32, "parts": 2}),
    ],
    ids=str,
)
@pytest.mark.parametrize("biased", [False, True])
def test_tiles_give_the_convolution(
    library: Library, image: tuple[int, ...], oc: int, padding: Any, cut: Any, biased: bool
) -> None:
    rng = np.random.default_rng(oc)
    x = rng.standard_normal(image).astype(np.float32)
    filters = rng.standard_normal((3, 3, image[-1], oc)).astype(np.float32)
    bias = rng.standard_normal(oc).astype(np.float32) if biased else None
    found = library.convolved(x, filters, padding, bias, **cut)
    wanted = defined(x, filters, padding, bias)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 2e-5 * np.abs(wanted).max()


def test_small_integers_are_near_to_the_last_bit(library: Library) -> None:
    """Of filters whose transforms are exact: only sums of them are rounded, and hardly."""
    rng = np.random.default_rng(4)
    x = rng.integers(-4, 5, (11, 10, 32)).astype(np.float32)
    filters = (24 * rng.integers(-2, 3, (3, 3, 32, 32))).astype(np.float32)
    wanted = defined(x, filters, (1, 1, 1, 1), None)
    found = library.convolved(x, filters, (1, 1, 1, 1), None)
    assert np.abs(found - wanted).max() <= 2e-6 * np.abs(wanted).max()


def test_filters_of_any_order_are_packed(library: Library) -> None:
    rng = np.random.default_rng(5)
    filters = rng.standard_normal((3, 3, 16, 40)).astype(np.float32)
    turned = np.ascontiguousarray(filters.transpose(3, 2, 0, 1))  # filters, channels, taps
    np.testing.assert_array_equal(library.packed(turned, (9, 16 * 9, 1)), library.packed(filters))


def test_blocks_give_the_same_bits(library: Library) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((21, 18, 32)).astype(np.float32)
    filters = rng.standard_normal((3, 3, 32, 96)).astype(np.float32)
    whole = library.convolved(x, filters, (1, 1, 1, 1), None)
    for cut in ({"blocks": 4}, {"parts": 3}, {"most": 32}, {"blocks": 30, "most": 96}):
        np.testing.assert_array_equal(
            library.convolved(x, filters, (1, 1, 1, 1), None, **cut), whole
        )  # fmt: skip


def test_plans_give_them_as_much_memory_as_they_use(library: Library) -> None:
    for tiles, ic, most in ((12, 32, 32), (48, 512, 64), (1, 16, 32)):
        assert library.lib.mx_winograd_scratch(tiles, ic, most) == scratch_of(tiles, ic, most)
