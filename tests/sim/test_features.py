"""Single features of the language against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab.driver.sim import SimModule

Array = np.ndarray[Any, Any]
Modules = Callable[[str, bool], SimModule]
FILE = "features.cu"


@pytest.mark.parametrize(
    ("grid", "block"), [(3, 40), ((2, 3), (5, 7)), ((2, 1, 3), (4, 2, 5)), (1, 1), (1, 1024)]
)
def test_indices(module: Modules, grid: Any, block: Any) -> None:
    g, b = (tuple(np.atleast_1d(v)) + (1,) * (3 - np.size(v)) for v in (grid, block))
    out = np.full((int(np.prod(g)) * int(np.prod(b)), 6), -1, np.int32)
    module(FILE, False).launch("where", grid, block, [out])
    expected = [
        [*reversed(np.unravel_index(t, b[::-1])), *reversed(np.unravel_index(k, g[::-1]))]
        for k in range(int(np.prod(g)))
        for t in range(int(np.prod(b)))
    ]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("check", [False, True])
def test_warp_operations(module: Modules, check: bool) -> None:
    x = np.random.default_rng(1).integers(-50, 50, 32).astype(np.int32)
    out = np.zeros((17, 32), np.int32)
    assert module(FILE, check).launch("warp_operations", 1, 32, [out, x]) == []
    t = np.arange(32)

    def ballot(p: Array) -> int:
        return int(np.uint32(sum(int(b) << i for i, b in enumerate(p))).astype(np.int32))

    same = [ballot(np.fmod(x, 3) == np.fmod(v, 3)) for v in x]
    other = t ^ 9
    largest = x.view(np.uint32).max().view(np.int32)
    rows = [
        np.full(32, x[5]), x[t // 8 * 8 + (t + 1) % 8],
        x[np.where(t >= 3, t - 3, t)], x[np.where(t % 16 >= 3, t - 3, t)],
        x[np.where(t < 29, t + 3, t)], x[np.where(t % 16 < 13, t + 3, t)],
        x[other], x[np.where(other < t // 8 * 8 + 8, other, t)],
        np.full(32, ballot(x > 0)), np.zeros(32), np.ones(32), same,
        np.full(32, x.sum()), np.full(32, x.min()), np.full(32, largest),
        x[t ^ 1], np.where(t % 2, ballot((t < 16) & (t % 2 == 1)), x[2]),
    ]  # fmt: skip
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(out[i], row, err_msg=f"row {i}")


def test_block_votes(module: Modules) -> None:
    x = np.random.default_rng(2).integers(-50, 50, 96).astype(np.int32)
    out = np.zeros((96, 3), np.int32)
    module(FILE, False).launch("block_votes", 1, 96, [out, x])
    assert (out == [(x > 0).sum(), 1, 0]).all()


def test_active_lanes(module: Modules) -> None:
    out = np.zeros(64, np.uint32)
    module(FILE, False).launch("active_lanes", 1, 32, [out])
    assert (out[:32] == 0xFFFFFFFF).all()
    assert (out[33::4] == 0x22222222).all()


@pytest.mark.parametrize("check", [False, True])
def test_atomics(module: Modules, check: bool) -> None:
    x = np.random.default_rng(3).integers(-99, 99, 6 * 64).astype(np.int32)
    i, u = np.zeros(6, np.int32), np.array([0, 0xFFFFFFFF, 0, 0], np.uint32)
    big = np.array([0, 1 << 40], np.uint64)
    f, d = np.zeros(7, np.float32), np.zeros(1)
    reports = module(FILE, check).launch("atomics", 6, 64, [i, u, big, f, d, x])
    # The plain read before the compare and swap is a race, if one that a device forgives.
    assert {r.buffer for r in reports} <= {"i"}
    assert {r.index for r in reports} <= {5}
    bits = x.view(np.uint32)
    ored = np.bitwise_or.reduce(bits & 0xFF00FF)
    np.testing.assert_array_equal(
        i, [x.sum(), -x.sum(), min(x.min(), 0), max(x.max(), 0), np.bitwise_xor.reduce(x),
            max(x.max(), 0)]
    )  # fmt: skip
    np.testing.assert_array_equal(
        u, [ored, np.bitwise_and.reduce(bits | 0xFF00FF00), x.size % 10, bits.max()]
    )
    np.testing.assert_array_equal(big, [(x + 1000).sum(), (x + 1000).min()])
    assert (f[0], d[0]) == (x.sum(), x.sum())
    assert (f[1:] == 7).all()


@pytest.mark.parametrize("check", [False, True])
def test_lock(module: Modules, check: bool) -> None:
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    assert module(FILE, check).launch("locked", 4, 64, [lock, count]) == []
    assert count[0] == 256


def floats() -> Array:
    """Random bit patterns, and what conversions get wrong: ties, ends, subnormals."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = halves[np.isfinite(halves)]
    middle = (halves[1:] + halves[:-1]) / 2
    random = np.random.default_rng(4).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    edges = [465.0, 464.0, 448.0, 65519.99, 65520.0, 61439.9, 61440.0, 57344.0, 3.4e38, np.inf]
    tiny = 2.0 ** np.arange(-30, -5) * np.array([[1.0], [1.5], [1.25], [0.75]])
    with np.errstate(invalid="ignore"):  # signalling NaNs
        all_of = np.concatenate(
            [halves, middle, random.view(np.float32), edges, tiny.ravel(), [0.0, -0.0]]
        )
        return np.concatenate([all_of, -all_of, np.nextafter(middle, 1)]).astype(np.float32)


def test_conversions_to_narrow_floats(module: Modules) -> None:
    x = floats()
    n = x.size
    half, brain = np.zeros(n, np.float16), np.zeros(n, ml_dtypes.bfloat16)
    e4, e5 = np.zeros(n, ml_dtypes.float8_e4m3fn), np.zeros(n, ml_dtypes.float8_e5m2)
    wide4, wide5 = np.zeros(n, np.uint8), np.zeros(n, np.uint8)
    arguments = [half, brain, e4, e5, wide4, wide5, x, n]
    module(FILE, False).launch("narrow", -(-n // 256), 256, arguments)
    real = ~np.isnan(x)
    with np.errstate(over="ignore", invalid="ignore"):
        expected: list[tuple[Array, Array, int]] = [
            (half.view(np.uint16), x.astype(np.float16).view(np.uint16), 0x7FFF),
            (brain.view(np.uint16), x.astype(ml_dtypes.bfloat16).view(np.uint16), 0x7FFF),
            (wide5, x.astype(ml_dtypes.float8_e5m2).view(np.uint8), 0x7F),
        ]
    for found, wanted, nan in expected:
        np.testing.assert_array_equal(found[real], wanted[real])
        assert (found[~real] == nan).all()
    # 464 rounds to 448 and more is NaN, which has one pattern here.
    with np.errstate(over="ignore", invalid="ignore"):
        wanted4 = x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    np.testing.assert_array_equal(wide4[real], wanted4[real])
    assert (wide4[~real] == 0x7F).all()
    # The types themselves saturate.
    sign = np.signbit(x[real]).astype(np.uint8) << 7
    large = np.where(wide4[real] & 0x7F == 0x7F, sign | 0x7E, wide4[real])
    np.testing.assert_array_equal(e4.view(np.uint8)[real], large)
    large = np.where(wide5[real] & 0x7F == 0x7C, sign | 0x7B, wide5[real])
    np.testing.assert_array_equal(e5.view(np.uint8)[real], large)


def test_conversions_from_narrow_floats(module: Modules) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    outs = [np.zeros(1 << 16, np.float32) for _ in range(4)]
    module(FILE, False).launch("widen", 256, 256, [*outs, bits])
    kinds = [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
    for out, kind in zip(outs, kinds, strict=True):
        source = bits if np.dtype(kind).itemsize == 2 else bits.astype(np.uint8)
        wanted = source.view(kind).astype(np.float32)
        np.testing.assert_array_equal(out, wanted)
        real = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(out)[real], np.signbit(wanted)[real])


def test_float_to_integer(module: Modules) -> None:
    x = np.array([1.9, -1.9, 2.5, 3e9, -3e9, 1e30, -1e30, np.nan, np.inf], np.float32)
    i, wide = np.zeros(x.size, np.int32), np.zeros(x.size, np.int64)
    module(FILE, False).launch("to_integers", 1, 1, [i, wide, x, x.size])
    top, low = 2**31 - 1, -(2**31)
    assert i.tolist() == [1, -1, 2, top, low, top, low, 0, top]
    top, low = 2**63 - 1, -(2**63)
    assert wide.tolist() == [2, -2, 2, 3 * 10**9, -3 * 10**9, top, low, low, top]


def test_output_and_watched_values(module: Modules, capsys: pytest.CaptureFixture[str]) -> None:
    m = module(FILE, True)
    x = np.arange(3, dtype=np.int32) + 5
    assert m.launch("shows", 2, 3, [x]) == []
    assert capsys.readouterr().out == "block 0 of 2\nblock 1 of 2\n"
    assert [(w.block[0], w.thread[0], w.value) for w in m.watched] == [
        (b, t, float(2**t * x[t])) for b in (0, 1) for t in range(3)
    ]
    assert {w.name for w in m.watched} == {"TABLE[i % 4] * x[i]"}
    assert "MX_WATCH" in m._source.splitlines()[m.watched[0].line - 1]
