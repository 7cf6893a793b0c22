"""Products of matrices by hand-written CUDA, on the simulator against float64."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.compiler.gpu_templates import COUNTERS
from maxlab.driver.sim import SimModule
from tests.cuda.device_text import (
    ARCHITECTURES,
    DTYPES,
    compile_by_nvrtc,
    compile_for_devices,
    matrices,
    module,
    stored,
)

Array = np.ndarray[Any, Any]

HEADERS = (
    "prelude.cuh",
    "tiles.cuh",
    "split.cuh",
    "product.cuh",
    "product_mma.cuh",
    "wgmma.cuh",
    "product_wgmma.cuh",
    "gemv.cuh",
)


@dataclass(frozen=True)
class Template:
    """A template, the type that says how much shared memory and how many threads it needs."""

    function: str
    sizes: str
    a: str
    b: str
    threads: int
    tile: tuple[int, int]

    @property
    def name(self) -> str:
        """What its kernel is called."""
        plain = "".join(c if c.isalnum() else "_" for c in self.sizes)
        return f"{plain}_{self.a}_{self.b}".replace("__", "_")

    def text(self, strides: str = "a_row, a_col|b_row, b_col") -> str:
        """Its kernel; ``counts`` sees how often each element is finished."""
        left, right = strides.split("|")
        return f"""
extern "C" __global__ void __launch_bounds__({self.sizes}::THREADS, {self.sizes}::BLOCKS)
    {self.name}(
    f32 *c, i32 *counts, const {stored(self.a)} *a, i64 a_at, i64 a_item, i64 a_row, i64 a_col,
    const {stored(self.b)} *b, i64 b_at, i64 b_item, i64 b_row, i64 b_col, i64 items, i64 m, i64 n,
    i64 k, u8 *memory) {{
  MX_DYN_SHARED(f32, shared);
  (void)memory;
  {self.function}(
      shared, [=](i64 item) {{ return a + a_at + item * a_item; }}, {left},
      [=](i64 item) {{ return b + b_at + item * b_item; }}, {right}, items, m, n, k,
      [=](i64 item, i64 row, i64 col, f32 value) {{
        const i64 at = (item * m + row) * n + col;
        c[at] = value;
        counts[at] += 1;
      }}{", memory" if self.splits else ""});
}}
"""

    @property
    def splits(self) -> bool:
        """Whether several blocks may share a tile."""
        return not self.function.startswith("mx_gemv")


def tiled(tile: str, rows: int, columns: int, threads: int, a: str, b: str) -> Template:
    """`mx_product` with a tile of rows x columns."""
    return Template(f"mx_product<{tile}, {a}, {b}>", tile, a, b, threads, (rows, columns))


def tensor_cores(tile: str, rows: int, columns: int, threads: int, dtype: str) -> Template:
    """`mx_product_mma` with a tile of rows x columns."""
    function = f"mx_product_mma<{tile}, {dtype}>"
    return Template(function, tile, dtype, dtype, threads, (rows, columns))


def four_warps(tile: str, rows: int, columns: int, threads: int, dtype: str) -> Template:
    """`mx_product_wgmma` with a tile of rows x columns."""
    function = f"mx_product_wgmma<{tile}, {dtype}>"
    return Template(function, tile, dtype, dtype, threads, (rows, columns))


def few_rows(rows: int, columns: int, slices: int, a: str, b: str) -> Template:
    """`mx_gemv_dot` for that many rows, with so many columns and slices."""
    sizes = f"mx_dot_block<{rows}, {columns}, {slices}>"
    width = columns * 8 // slices
    return Template(f"mx_gemv_dot<{sizes}, {a}, {b}>", sizes, a, b, 256, (rows, width))


def few_rows_across(rows: int, width: int, threads: int, a: str, b: str) -> Template:
    """`mx_gemv_axpy` for that many rows, with so many columns a block."""
    sizes = f"mx_axpy_block<{rows}, {width}, {threads}>"
    return Template(f"mx_gemv_axpy<{sizes}, {a}, {b}>", sizes, a, b, threads, (rows, width))


TEMPLATES = [
    tiled("mx_tile_128x128", 128, 128, 256, "f32", "f32"),
    tiled("mx_tile_64x64", 64, 64, 128, "f32", "f32"),
    tiled("mx_tile_128x64", 128, 64, 128, "f32", "f32"),
    tiled("mx_tile_32x64", 32, 64, 128, "f32", "f32"),
    tiled("mx_tile_32x32", 32, 32, 128, "f32", "f32"),
    tiled("mx_tile_32x32", 32, 32, 128, "mx_bf16", "mx_f16"),
    tiled("mx_tile_16x64", 16, 64, 128, "f32", "f32"),
    tiled("mx_tile_16x64", 16, 64, 128, "f32", "mx_bf16"),
    tensor_cores("mx_mma_128x256", 128, 256, 256, "mx_f16"),
    tensor_cores("mx_mma_128x128", 128, 128, 128, "mx_bf16"),
    tensor_cores("mx_mma_128x64", 128, 64, 256, "mx_bf16"),
    tensor_cores("mx_mma_64x64", 64, 64, 128, "mx_bf16"),
    tensor_cores("mx_mma_64x64", 64, 64, 128, "mx_f16"),
    tensor_cores("mx_mma_16x64", 16, 64, 128, "mx_f16"),
    four_warps("mx_wgmma_128x256", 128, 256, 256, "mx_f16"),
    four_warps("mx_wgmma_128x128", 128, 128, 256, "mx_bf16"),
    few_rows(1, 1, 1, "f32", "f32"),
    few_rows(2, 2, 8, "mx_f16", "f32"),
    few_rows(4, 2, 1, "f32", "mx_bf16"),
    few_rows(4, 4, 2, "mx_bf16", "mx_bf16"),
    few_rows(8, 4, 4, "f32", "f32"),
    few_rows(16, 2, 4, "f32", "f32"),
    few_rows_across(1, 32, 512, "f32", "f32"),
    few_rows_across(2, 8, 512, "mx_f16", "mx_f16"),
    few_rows_across(4, 32, 512, "f32", "mx_bf16"),
    few_rows_across(4, 128, 256, "mx_f16", "mx_f16"),
    few_rows_across(8, 64, 256, "mx_bf16", "mx_bf16"),
    few_rows_across(8, 32, 512, "f32", "f32"),
]
each_template = pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.name)


@functools.cache
def compiled(check: bool) -> SimModule:
    """All kernels of this file in one module."""
    return module("".join(t.text() for t in TEMPLATES), HEADERS, check=check)


def run(
    template: Template,
    sizes: tuple[int, int, int, int],
    layouts: tuple[str, str] = ("rows", "rows"),
    *,
    grid: int = 0,
    parts: int = 1,
    check: bool = False,
    edit: Any = None,
) -> tuple[Array, Array, Array]:
    """The product, its operands in float64; every element is finished once, nothing reported."""
    items, m, n, k = sizes
    rng = np.random.default_rng(items + m + n + k)
    a = matrices(rng, items, m, k, layouts[0], template.a)
    b = matrices(rng, items, k, n, layouts[1], template.b)
    if edit is not None:
        edit(a, b)
    c = np.full((items, m, n), np.nan, np.float32)
    counts = np.zeros((items, m, n), np.int32)
    blocks = grid or max(1, items * -(-m // template.tile[0]) * -(-n // template.tile[1]))
    rows, columns = template.tile
    tiles = items * -(-m // rows) * -(-n // columns)
    memory = np.zeros(COUNTERS + tiles * parts * rows * columns * 4, np.uint8)
    arguments = [c, counts, a.array, *a.strides, b.array, *b.strides, items, m, n, k, memory]
    shared, _ = sizes_of()[template.sizes]
    reports = compiled(check).launch(
        template.name, (blocks, parts), template.threads, arguments, shared
    )
    assert not reports, "\n".join(map(str, reports))
    assert not memory[:COUNTERS].any(), "the counters are zero again for the next launch"
    assert (counts == 1).all()
    return c, a.values, b.values


def close(c: Array, a: Array, b: Array) -> None:
    """Every element is as near as float32 sums in any order can be held to."""
    with np.errstate(invalid="ignore"):
        exact = a @ b
    bound = (a.shape[-1] + 2) * 2.0**-24 * (np.abs(a) @ np.abs(b))
    assert (np.abs(c - exact) <= bound).all()


@each_template
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1, 1), (1, 16, 64, 32), (2, 17, 35, 23), (3, 5, 130, 67), (1, 70, 9, 200)],
    ids=str,
)
def test_product(template: Template, sizes: tuple[int, int, int, int]) -> None:
    close(*run(template, sizes))


@each_template
@pytest.mark.parametrize("right", ["rows", "columns", "columns-shifted", "strided", "shared"])
@pytest.mark.parametrize("left", ["rows-padded", "columns-padded", "rows-shifted", "strided"])
def test_every_layout(template: Template, left: str, right: str) -> None:
    close(*run(template, (2, 6, 44, 36), (left, right)))


@each_template
@pytest.mark.parametrize("left", ["rows-padded", "columns-padded"])
@pytest.mark.parametrize("right", ["rows-padded", "columns-padded"])
def test_aligned_groups_that_reach_over_the_edge(template: Template, left: str, right: str) -> None:
    close(*run(template, (2, 19, 69, 37), (left, right)))


@each_template
@pytest.mark.parametrize("sizes", [(0, 4, 4, 4), (2, 0, 5, 3), (2, 3, 0, 5)], ids=str)
def test_nothing_to_do(template: Template, sizes: tuple[int, int, int, int]) -> None:
    c, _, _ = run(template, sizes)
    assert c.size == 0


@each_template
def test_an_empty_sum_is_zero(template: Template) -> None:
    c, _, _ = run(template, (2, 3, 7, 0))
    assert (c == 0).all()


@each_template
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_the_grid_does_not_change_a_bit(template: Template, layout: str) -> None:
    sizes = (2, 40, 150, 50)
    few, many = (run(template, sizes, ("rows", layout), grid=g)[0] for g in (1, 97))
    np.testing.assert_array_equal(few, many)
    np.testing.assert_array_equal(few, run(template, sizes, ("rows", layout), grid=3)[0])


@each_template
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_infinities_and_nans_stay_in_their_row(template: Template, layout: str) -> None:
    def edit(a: Any, b: Any) -> None:
        del b
        infinity = np.array([np.inf], np.float32).astype(DTYPES[template.a])
        a.array[a.offset] = infinity.view(a.array.dtype)[0]

    c, a, b = run(template, (1, 6, 37, 21), ("rows", layout), edit=edit)
    assert np.isinf(c[0, 0]).all()
    close(c[:, 1:], a[:, 1:], b)


@each_template
@pytest.mark.parametrize("layouts", [("rows", "rows"), ("rows-padded", "columns-padded")], ids=str)
def test_no_race_and_no_stray_access(template: Template, layouts: tuple[str, str]) -> None:
    """Several tiles a block, an odd number of panels, ragged edges; with every access seen."""
    m, n = (min(size + 3, 70) for size in template.tile)
    close(*run(template, (1, m, n, 133), layouts, grid=2, check=True))


PARTED = [t for t in TEMPLATES if t.splits]


@pytest.mark.parametrize("template", PARTED, ids=lambda t: t.name)
@pytest.mark.parametrize("check", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("layout", ["rows-padded", "columns"])
def test_several_blocks_share_a_tile(template: Template, layout: str, check: bool) -> None:
    """Ragged edges, parts of k of different lengths; one grid or another changes no bit."""
    m, n = (min(size + 3, 70) for size in template.tile)
    few, a, b = run(template, (2, m, n, 300), ("rows", layout), grid=2, parts=3, check=check)
    close(few, a, b)
    many, _, _ = run(template, (2, m, n, 300), ("rows", layout), grid=9, parts=3)
    np.testing.assert_array_equal(few, many)


@pytest.mark.parametrize("template", PARTED, ids=lambda t: t.name)
def test_parts_of_which_some_have_nothing_to_sum(template: Template) -> None:
    close(*run(template, (1, 5, 9, 20), parts=7))
    c, _, _ = run(template, (1, 5, 9, 0), parts=2)
    assert (c == 0).all()


@functools.cache
def sizes_of() -> dict[str, tuple[int, int]]:
    """Bytes of shared memory and threads, as the types say them."""
    names = sorted({t.sizes for t in TEMPLATES})
    text = 'extern "C" __global__ void sizes(i32 *out) {\n'
    for at, name in enumerate(names):
        text += f"  out[{2 * at}] = {name}::SHARED, out[{2 * at + 1}] = {name}::THREADS;\n"
    out = np.zeros((len(names), 2), np.int32)
    module(text + "}\n", HEADERS).launch("sizes", 1, 1, [out])
    return {name: (row[0], row[1]) for name, row in zip(names, out.tolist(), strict=True)}


def test_shared_memory_and_threads_are_what_the_types_say() -> None:
    found = sizes_of()
    assert found["mx_dot_block<8, 4, 4>"] == (1024, 256)
    assert found["mx_axpy_block<8, 64, 256>"] == (16384, 256)
    for template in TEMPLATES:
        assert found[template.sizes][1] == template.threads


FEW_SPILLED = {
    "80": {
        "mx_axpy_block_4_32_512_f32_mx_bf16": 24,
        "mx_dot_block_1_1_1_f32_f32": 8,
        "mx_tile_128x64_f32_f32": 24,
    },
    "100": {"mx_axpy_block_4_32_512_f32_mx_bf16": 12},
}
"""The most bytes that templates may spill: tiles are made for the registers of sm_90."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_devices_get_no_warning_and_no_spill(tmp_path: Path, architecture: str) -> None:
    made = compile_for_devices(
        "".join(t.text() for t in TEMPLATES), HEADERS, tmp_path, architecture
    )
    assert set(made) == {t.name for t in TEMPLATES}
    few = FEW_SPILLED.get(architecture, {})
    for name, resources in made.items():
        assert max(resources.stack, resources.spilled) <= few.get(name, 0), (name, resources)
    assert set(few) <= set(made)


def test_nvrtc_takes_the_headers() -> None:
    chosen = [t for t in TEMPLATES if "128x128" in t.sizes or "<8, " in t.sizes]
    compile_by_nvrtc("".join(t.text() for t in chosen), HEADERS)
