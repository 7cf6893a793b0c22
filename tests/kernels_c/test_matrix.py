"""The instructions that multiply matrices: the system is asked for them, and what stands in for
them does what the processor's manual says."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import pytest

from tests.kernels_c.conftest import SOURCES, compiler_command
from tests.kernels_c.instruction_sets import TILES, InstructionSet

Array = np.ndarray[Any, Any]
ASKS = """
#include "matrix.h"
int asked(void) { return mx_has_tiles(); }
"""
PRODUCTS = """
#include "matrix.h"
void products(u8 *const *a, const u8 *b, int *c, int *d, float *e, long long high, long long low) {
  const tile_shapes shapes = shapes_of(high, low);
  tile_configure(&shapes);
  tile_load(6, b, 64);
  tile_load(4, a[0], 64);
  tile_dp_u8_s8(0, 4, 6);
  tile_store(0, c, 64);
  tile_zero(0);
  tile_dp_s8_s8(0, 4, 6);
  tile_store(0, d, 64);
  tile_load(7, a[1], 64);
  tile_load(5, a[2], 64);
  tile_load(2, e, 64);
  tile_dp_bf16(2, 5, 7);
  tile_store(2, e, 64);
  tile_release();
}
"""
DECLARED = (
    "void products(uint8_t **a, uint8_t *b, int *c, int *d, float *e, long long high,"
    " long long low);"
)


def compiled(folder: Path, text: str, *flags: str) -> Path:
    source, out = folder / "text.c", folder / "text.so"
    source.write_text(text)
    command = [*compiler_command(), "-O1", "-fPIC", "-shared", *flags, f"-I{SOURCES}"]
    subprocess.run([*command, str(source), "-o", str(out), "-lm"], check=True)
    return out


def has_tiles() -> bool:
    return not InstructionSet((), ("amx_tile", "amx_int8", "amx_bf16")).missing()


def test_the_system_is_asked(tmp_path: Path) -> None:
    if InstructionSet((), ("sse2",)).missing():
        pytest.skip("tiles are of x86")
    ffi = cffi.FFI()
    ffi.cdef("int asked(void);")
    asked = ffi.dlopen(str(compiled(tmp_path, ASKS, *TILES))).asked
    first = asked()
    assert first in (0, 1)
    assert asked() == first
    if not has_tiles():
        assert first == 0


@pytest.mark.parametrize("flags", [["-DMX_EMULATED_TILES=1"], list(TILES)], ids=["C", "tiles"])
@pytest.mark.parametrize(("high", "low"), [(16, 16), (5, 0), (16, 3)])
def test_products(tmp_path: Path, flags: list[str], high: int, low: int) -> None:
    if flags == list(TILES) and not has_tiles():
        pytest.skip("this processor has no tiles")
    ffi = cffi.FFI()
    ffi.cdef(DECLARED)
    lib = ffi.dlopen(str(compiled(tmp_path, PRODUCTS, *flags)))
    rng = np.random.default_rng(high + low)
    left, right = (rng.integers(0, 256, (16, 64)).astype(np.uint8) for _ in range(2))
    halves = rng.integers(-50, 50, (2, 16, 32)).astype(np.float32)
    halves[1, 0, 0] = 2.0**-130  # is 0 in the sum
    bits = (halves.view(np.uint32) >> 16).astype(np.uint16)
    sums, signed = np.full((2, 16, 16), -1, np.int32)
    floats = rng.integers(-9, 9, (16, 16)).astype(np.float32)
    before = floats.copy()

    def at(array: Array, kind: str) -> Any:
        return ffi.cast(kind, array.ctypes.data)

    rows = [at(one, "uint8_t *") for one in (left, bits[0], bits[1])]
    lib.products(
        rows, at(right, "uint8_t *"), at(sums, "int *"), at(signed, "int *"),
        at(floats, "float *"), high, low,
    )  # fmt: skip
    columns = right.view(np.int8).reshape(16, 16, 4).transpose(0, 2, 1).reshape(64, 16)
    wide = columns.astype(np.int64)
    assert np.array_equal(sums[:high], left[:high].astype(np.int64) @ wide)
    assert np.array_equal(signed[:high], left.view(np.int8)[:high].astype(np.int64) @ wide)
    assert (sums[high:] == -1).all()
    pairs = halves[0].reshape(16, 16, 2).transpose(0, 2, 1).reshape(32, 16).astype(np.float64)
    halves[1, 0, 0] = 0
    low = max(low, 1)
    assert np.array_equal(floats[:low], before[:low] + halves[1, :low].astype(np.float64) @ pairs)
    assert np.array_equal(floats[low:], before[low:])
