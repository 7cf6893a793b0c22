"""Halves and blocks of few bits, for each kind of processor: exact on integers at every edge."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import cffi
import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.opset.convolution_products import BLOCK, WIDENED
from maxlab.opset.float8 import SCRATCH, float8_numbers, random_float8
from maxlab.opset.quantized import FORMATS, random_blocks
from tests.kernels_c.conftest import FLAGS, SOURCES, cdef
from tests.kernels_c.instruction_sets import SETS

Array = np.ndarray[Any, Any]
KINDS = ("Q4_0", "Q4_K", "Q6_K")
BF16, F16, F32 = 0, 1, 2
TARGETS = {
    "native": ["-march=native", "-mprefer-vector-width=512"],
    "avx-vnni": ["-march=haswell", "-mavxvnni"],
    "avx2": ["-march=haswell"],
    "plain": [],
}


@pytest.fixture(scope="module", params=TARGETS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The library of products for one kind of processor, and its ffi."""
    missing = SETS[request.param].missing()
    if missing:
        pytest.skip(f"this processor lacks {' '.join(missing)}")
    out = tmp_path_factory.mktemp("products") / "products.so"
    plain = [flag for flag in FLAGS if not flag.startswith("-m")]
    files = [
        str(SOURCES / name) for name in ("gemm.c", "halves.c", "taps.c", "quantized.c", "float8.c")
    ]
    flags = ["-O2", "-std=gnu11", *plain, *TARGETS[request.param], f"-I{SOURCES}"]
    subprocess.run(["cc", *flags, *files, "-o", str(out)], check=True)
    ffi = cffi.FFI()
    ffi.cdef(cdef())
    return ffi.dlopen(str(out)), ffi


def pointers(ffi: Any) -> Callable[[Array], Any]:
    return lambda array: ffi.cast("void *", array.ctypes.data)


def halves(array: Array, kind: int) -> Array:
    """Whole numbers as bits of halves."""
    if kind == F16:
        return array.astype(np.float16).view(np.uint16)
    return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def test_scratch_of_halves(library: Any) -> None:
    """What convolutions reserve without asking the library is enough."""
    lib, _ = library
    for kind in (BF16, F16):
        assert lib.mx_half_block_scratch(kind, BLOCK) <= WIDENED


@pytest.mark.parametrize("kind", [BF16, F16])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 1, 1), (2, 2, 31), (5, 3, 33), (12, 767, 64), (13, 768, 65), (25, 771, 40), (30, 0, 7)],
)
def test_halves(library: Any, m: int, k: int, n: int, turned: bool, kind: int) -> None:
    lib, ffi = library
    at, rng = pointers(ffi), np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    left = halves(a, kind)
    right = halves(b.T.copy() if turned else b, kind)
    packed = np.full(lib.mx_half_pack_size(k, n), 0x7FFF, np.uint16)  # NaN
    rows, columns = (1, k) if turned else (n, 1)
    lib.mx_half_pack(kind, at(packed), at(right), k, n, rows, columns, 0, -(-n // 32))
    width = -(-n // 32) * 32
    c = np.full((m, width), np.nan, np.float32)
    scratch = np.zeros(lib.mx_half_block_scratch(kind, m) + 64, np.uint8)
    lib.mx_half_block(kind, at(c), width, at(left), k, at(packed), m, n, k, at(scratch))
    np.testing.assert_array_equal(c[:, :n], a @ b)


@pytest.mark.parametrize("kind", [BF16, F16, F32])
@pytest.mark.parametrize(
    ("runs", "run", "m", "n"), [(1, 1, 1, 1), (9, 5, 13, 33), (7, 121, 30, 64)]
)
def test_rows_in_pieces(library: Any, runs: int, run: int, m: int, n: int, kind: int) -> None:
    lib, ffi = library
    at, rng = pointers(ffi), np.random.default_rng(1)
    pieces = rng.integers(-3, 4, (40, run))
    which = rng.integers(0, 40, (m, runs))
    # A filter with the channels first: columns, channels, taps.
    b = rng.integers(-3, 4, (n, run, runs))
    k = runs * run
    bits = pieces.astype(np.float32) if kind == F32 else halves(pieces, kind)
    filters = b.astype(np.float32) if kind == F32 else halves(b, kind)
    places = np.uint64(bits.ctypes.data) + which.astype(np.uint64) * np.uint64(run * bits.itemsize)
    size = lib.mx_pack_b_size(k, n) if kind == F32 else lib.mx_half_pack_size(k, n)
    packed = np.zeros(size, bits.dtype)
    lib.mx_pack_taps(kind, at(packed), at(filters), k, n, runs, k, run, 1, 0, -(-n // 32))
    width = -(-n // 32) * 32
    c = np.full((m, width), np.nan, np.float32)
    where = ffi.cast("const void *const *", places.ctypes.data)
    if kind == F32:
        lib.mx_gemm_runs(at(c), width, where, runs, run, at(packed), m, n)
    else:
        scratch = np.zeros(lib.mx_half_block_scratch(kind, m) + 64, np.uint8)
        lib.mx_half_runs(kind, at(c), width, where, runs, run, at(packed), m, n, at(scratch))
    wanted = pieces[which].reshape(m, k) @ b.transpose(2, 1, 0).reshape(k, n)
    np.testing.assert_array_equal(c[:, :n], wanted)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("m", "n", "blocks"), [(1, 1, 1), (2, 17, 2), (15, 40, 3)])
def test_blocks(library: Any, m: int, n: int, blocks: int, name: str) -> None:
    lib, ffi = library
    at, rng = pointers(ffi), np.random.default_rng(2)
    form, kind = FORMATS[name], KINDS.index(name)
    w = random_blocks(rng, name, (n, blocks))
    packed = np.full(lib.mx_q_pack_size(kind, blocks, n), 255, np.uint8)
    given = ffi.new("void *[]", [at(packed), at(w)])
    sizes = ffi.new("i64[]", [blocks, n])
    getattr(lib, f"mx_k_pack_{name.lower()}")(given, sizes, 0, -(-n // 16), ffi.NULL)
    have = blocks + blocks % 2 if name == "Q4_0" else blocks
    each = {"Q4_0": 32, "Q4_K": 32, "Q6_K": 16}[name]
    offset = {"Q4_0": 8, "Q4_K": -1, "Q6_K": 32}[name]
    q = np.zeros((m, have, form.elements), np.int8)
    q[:, :blocks] = rng.integers(-127, 128, (m, blocks, form.elements))
    s = (-offset * q.reshape(m, -1, each).astype(np.int32).sum(-1)).astype(np.int32)
    d = np.zeros((m, have), np.float32)
    d[:, :blocks] = rng.random((m, blocks))
    y = np.full((m, n), np.nan, np.float32)
    lib.mx_q_product(
        kind, at(y), n, at(packed), blocks, at(q), at(s), at(d), m, 0, -(-n // 16), ffi.NULL
    )
    found = form.blocks(w)
    full = found.d[..., None] * found.q
    if found.least is not None and found.dmin is not None:
        full = full - found.dmin[..., None] * found.least
    left = (q[:, :blocks] * d[:, :blocks, None].astype(np.float64)).reshape(m, -1)
    wanted = left @ full.reshape(n, -1).T
    sizes_of = np.abs(left) @ np.abs(full.reshape(n, -1)).T
    assert (np.abs(y - wanted) <= 1e-5 * sizes_of).all()


@pytest.mark.parametrize(("m", "block"), [(1, (1, 0)), (7, (48, 40)), (9, (16, 64)), (40, (0, 0))])
def test_float8(library: Any, m: int, block: tuple[int, int]) -> None:
    lib, ffi = library
    at, n, k = pointers(ffi), 51, 579
    down, across = (size or whole for size, whole in zip(block, (n, k), strict=True))
    rng = np.random.default_rng(m)
    for kind, dtype in enumerate((DType.float8_e4m3fn, DType.float8_e4m3fnuz)):
        x = rng.standard_normal((m, k)).astype(np.float32)
        w = random_float8(rng, (n, k), dtype)
        d = rng.uniform(1e-3, 1e-2, (-(-n // down), -(-k // across))).astype(np.float32)
        y = np.full((m, n), np.nan, np.float32)
        ctx, scratch = ffi.new("mx_ctx *"), ffi.new("char[]", lib.mx_float8_scratch() + 64)
        ctx.scratch = scratch + (-int(ffi.cast("intptr_t", scratch)) % 64)
        for first in range(0, n, 32):
            given = (at(y), n, at(x), m, at(w), k, at(d), first, down, across, d.shape[1])
            assert lib.mx_float8(kind, *given, ctx) == 0
        wide = float8_numbers(w, d, *block)
        sizes_of = np.abs(x.astype(np.float64)) @ np.abs(wide).T
        assert (np.abs(y - x.astype(np.float64) @ wide.T) <= 1e-5 * sizes_of).all()


def test_scratch_of_float8(library: Any) -> None:
    """What ops reserve without asking the library is enough."""
    assert library[0].mx_float8_scratch() <= SCRATCH
