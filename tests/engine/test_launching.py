"""How steps are launched: formulas of the plan, and their values for sizes, threads and devices."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from maxlab.compiler.conventions import Operand
from maxlab.compiler.gpu_templates import TENSOR_CORES, attention_templates
from maxlab.compiler.launches import (
    Attention,
    BatchedGemm,
    Blocks,
    FoldedRows,
    Gemm,
    Heads,
    Items,
    LibraryProduct,
    MappedRows,
    Once,
    Parts,
    Strided,
    Tiles,
)
from maxlab.compiler.plan import GpuLaunch, Launch
from maxlab.compiler.row_shapes import RowShape
from maxlab.driver.backend import Product, Properties
from maxlab.dtype import DType
from maxlab.engine.launching import (
    GRAIN_COST,
    device_launch,
    grain_of,
    host_launch,
    library_call,
    piece_of,
)
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.toolchain import runtime
from scripts.structure.plans import plans

N, M = Poly.symbol("n"), Poly.symbol("m")
F32 = DType.float32
H200 = Properties("test", "sm_90", 132, 227 << 10, False)


def c(value: int) -> Poly:
    """A size that is known."""
    return Poly.constant(value)


HOST: list[tuple[Any, dict[str, int], Launch]] = [
    (Once(), {}, Launch((), 1, 1, 0)),
    (Items(N, c(1)), {"n": 100}, Launch((), 100, 100, 0)),  # not worth another thread
    (Items(N, c(100)), {"n": 8000}, Launch((), 8000, 1000, 0)),
    (Items(N, c(1 << 20), c(64) * M), {"n": 9, "m": 2}, Launch((), 9, 1, 128, 4)),
    (Items(N, c(0)), {"n": 0}, Launch((), 0, 1, 0)),
    (Items(N, c(8), unit=64), {"n": 65}, Launch((), 65, 128, 0)),  # whole units
    (Items(N, c(512), unit=4096, extra=(3,)), {"n": 1 << 22}, Launch((3,), 1 << 22, 128 * 4096, 0)),
    (Items(N, c(1 << 20), serial=True), {"n": 50}, Launch((), 50, 50, 0)),
    (Items(N, c(1 << 20), total=c(10)), {"n": 50}, Launch((), 50, 50, 0)),
    (Items(N, c(1 << 20), total=c(1 << 20)), {"n": 50}, Launch((), 50, 5, 0, 4)),
    (Blocks(N, M, c(1000), 5), {"n": 2, "m": 300}, Launch((), 4, 1, 0, 3)),
    (Blocks(ONE, M, ZERO, 5), {"m": 300}, Launch((), 2, 2, 0)),
]


@pytest.mark.parametrize(("formula", "sizes", "want"), HOST, ids=str)
def test_on_the_cpu(formula: Any, sizes: dict[str, int], want: Launch) -> None:
    assert host_launch(formula, sizes, 2, None) == want


@pytest.mark.parametrize(
    "formula",
    [
        Gemm(N, c(64), c(64), F32),
        Gemm(N, c(64), c(64), DType.bfloat16),
        BatchedGemm(c(7), N, c(64), c(64), F32),
        BatchedGemm(c(7), N, c(64), c(64), DType.float16),
        Attention((ONE, c(4), N, N, c(64), c(64))),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_the_library_of_products_says_how_a_product_is_cut(formula: Any, size: int) -> None:
    found = host_launch(formula, {"n": size}, 2, runtime())
    assert found.grain >= 1
    if isinstance(formula, BatchedGemm):
        assert found.extent == 7
    else:
        assert (found.extent > 0) == (size > 0)


OPERANDS = Operand(1, ZERO, (), N, ONE), Operand(2, c(3), (), ONE, N)
DEVICE: list[tuple[Any, dict[str, int], GpuLaunch]] = [
    (Strided(N, 4), {"n": 5000}, GpuLaunch(0, (5, 1, 1), (256, 1, 1), 0, 0, 5000)),
    (Strided(N), {"n": 1 << 30}, GpuLaunch(0, (2112, 1, 1), (256, 1, 1), 0, 0, 1 << 30)),
    (Strided(N), {"n": 0}, GpuLaunch(0, (0, 1, 1), (256, 1, 1), 0, 0, 0)),
    (MappedRows(N, M), {"n": 9, "m": 20}, GpuLaunch(0, (2, 1, 1), (32, 8, 1), 0, 0, 9)),
    (MappedRows(N, M), {"n": 1, "m": 9999}, GpuLaunch(0, (1, 40, 1), (256, 1, 1), 0, 0, 1)),
    (MappedRows(N, M), {"n": 3, "m": 0}, GpuLaunch(0, (0, 1, 1), (1, 256, 1), 0, 0, 3)),
    (MappedRows(N, M, 4), {"n": 9, "m": 20}, GpuLaunch(0, (1, 1, 1), (8, 32, 1), 0, 0, 9)),
    (MappedRows(N, M, 4), {"n": 20_000, "m": 4096},
     GpuLaunch(0, (1056, 4, 1), (256, 1, 1), 0, 0, 20_000)),
    (MappedRows(N, M, 4), {"n": 3, "m": 0}, GpuLaunch(0, (0, 1, 1), (1, 256, 1), 0, 0, 3)),
    (Parts(N, 64, True, c(16)), {"n": 3}, GpuLaunch(0, (3, 1, 1), (64, 1, 1), 16, 0, 3)),
    (Parts(N, 128, False, ZERO), {"n": 300}, GpuLaunch(0, (3, 1, 1), (128, 1, 1), 0, 0, 300)),
    (Tiles((ONE, N, c(64), c(64)), TENSOR_CORES[:1]), {"n": 9000},
     GpuLaunch(0, (141, 1, 1), (128, 1, 1), 65536, 0, 576_000)),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "sizes", "want"), DEVICE, ids=str)
def test_on_a_gpu(formula: Any, sizes: dict[str, int], want: GpuLaunch) -> None:
    assert device_launch(formula, sizes, H200) == want


@pytest.mark.parametrize(
    ("rows", "width", "variant", "spills"),
    [
        (1000, 100, 1, False),  # a warp a row
        (1000, 5000, 0, False),  # a block a row
        (1000, 20_000, 2, False),  # a block a row that keeps less
        (1000, 50_000, 2, True),
        (3, 50_000, 3, False),  # several blocks a row
    ],
)
def test_rows_are_folded_by_their_width(rows: int, width: int, variant: int, spills: bool) -> None:
    formula = FoldedRows(N, M, 2, 4, (1, 4), 1)
    found = device_launch(formula, {"n": rows, "m": width}, H200)
    assert found.variant == variant
    assert bool(found.spill) == spills
    assert bool(found.own) == (variant == 3)
    assert found.shared <= 96 << 10


@pytest.mark.parametrize(
    ("rows", "width", "variant", "grid", "block"),
    [
        (1 << 20, 128, 0, 1 << 15, (8, 32, 1)),  # some rows a block
        (100, 128, 0, 25, (8, 4, 1)),  # fewer, so that there are more blocks
        (1 << 20, 132, 1, 1 << 20, (64, 1, 1)),
        (1 << 20, 130, 2, 1 << 17, (32, 8, 1)),  # no vectors of four
        (0, 128, 0, 0, (8, 1, 1)),
        (1000, 4000, 3, 1000, (256, 1, 1)),  # too long: a block loops
        (1000, 516, 4, 125, (32, 8, 1)),  # too long: a warp loops
        (3, 50_000, 6, 13, (256, 1, 1)),  # several blocks a row
    ],
)
def test_rows_are_kept_by_the_shape_that_holds_them(
    rows: int, width: int, variant: int, grid: int, block: tuple[int, int, int]
) -> None:
    shapes = RowShape(8, 32, 4, 4), RowShape(64, 1, 4, 2, 128), RowShape(32, 8, 1, 16)
    formula = FoldedRows(N, M, 2, 4, (1, 4), 1, shapes)
    found = device_launch(formula, {"n": rows, "m": width}, H200)
    assert (found.variant, found.grid[0]) == (variant, grid)
    assert rows == 0 or found.block == block


def test_attention_takes_the_template_for_its_queries() -> None:
    templates = tuple(attention_templates(64))
    formula = Heads(c(8), N, c(2048), templates)
    one, many = (device_launch(formula, {"n": n}, H200) for n in (1, 10_000))
    assert templates[one.variant].function == "mx_attention_decode"
    assert one.grid == (8, 8, 1)  # 256 keys a block, where more blocks have nothing to do
    assert one.own == 8 * (8 + 8 * 4 * (2 + 64))
    few = device_launch(Heads(c(200), ONE, c(100_000), templates), {}, H200)
    assert few.grid == (200, 3, 1)
    alone = device_launch(Heads(c(8), ONE, c(500), templates), {}, H200)
    assert (alone.grid, alone.own) == ((8, 1, 1), 0)
    assert templates[many.variant].queries == 128
    assert many.items == 80_000


def test_a_large_plain_product_is_left_to_the_library() -> None:
    formula = LibraryProduct((N, N, N), *OPERANDS, F32, 0)
    assert library_call(formula, {"n": 500}) is None  # small
    few = LibraryProduct((c(16), N, N), OPERANDS[0], OPERANDS[1], F32, 0)
    assert library_call(few, {"n": 4096}) is None
    assert library_call(replace(few, sizes=(c(17), N, N)), {"n": 4096}) is not None
    assert library_call(replace(few, dtype=DType.bfloat16), {"n": 4096}) is not None
    found = library_call(formula, {"n": 1024})
    assert found is not None
    assert found.product == Product(1024, 1024, 1024, F32, transpose_b=True)
    assert (found.pointers, found.offsets) == ((0, 1, 2), (0, 0, 12))
    rows = Operand(1, ZERO, (), c(2) * N, ONE)  # every other row
    assert library_call(LibraryProduct((N, N, N), rows, OPERANDS[1], F32, 0), {"n": 1024}) is None


def test_a_batch_for_the_library() -> None:
    left = Operand(1, ZERO, (N * N,), N, ONE)
    right = Operand(2, ZERO, (ZERO,), N, ONE)  # one matrix for all
    found = library_call(LibraryProduct((N, N, N), left, right, F32, 0, c(4)), {"n": 1024})
    assert found is not None
    assert (found.product.batch, found.product.stride_a, found.product.stride_b) == (4, 1 << 20, 0)


def test_a_missing_size_is_named() -> None:
    with pytest.raises(KeyError, match="n"):
        host_launch(Items(N, ONE), {}, 2, None)
    with pytest.raises(KeyError, match="n"):
        device_launch(Strided(N), {}, H200)


def test_what_is_no_formula_is_refused() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="no step of the CPU"):
        host_launch(nothing, {}, 1, None)
    with pytest.raises(TypeError, match="no step of a GPU"):
        device_launch(Once(), {}, H200)


def test_chunks_are_never_empty() -> None:
    for extent in (0, 1, 63, 64, 1 << 20):
        for cost in (0, 1, 1 << 30):
            assert grain_of(extent, cost, 8) >= 1
            assert 0 <= piece_of(extent, cost) <= max(extent, 1 << 22)


@pytest.mark.parametrize("extent", range(2, 400))
def test_two_threads_have_equal_shares_of_chunks(extent: int) -> None:
    for cost in (1 << 30, 1 << 14, 1 << 10):
        share, grain = -(-extent // 2), grain_of(extent, cost, 2)
        worth = max(-(-GRAIN_COST // cost), 1)
        if extent * cost < 2 * GRAIN_COST:
            assert grain == extent
            continue
        least = max(-(-extent // 8), worth)
        assert max(worth, least / 4) <= grain <= 2 * least or grain == least
        near = [n for n in range(max(worth, -(-least // 4)), 2 * least) if share % n == 0]
        assert share % grain == 0 or not near


def test_formulas_of_plans_are_equal_by_value_and_can_be_kept() -> None:
    found = 0
    for one, other in zip(plans(), plans(), strict=True):
        for a, b in zip(one.steps, other.steps, strict=True):
            for x, y in ((a.launch, b.launch), (a.gpu and a.gpu.launch, b.gpu and b.gpu.launch)):
                if x is not None:
                    assert x == y
                    assert hash(x) == hash(y)
                    assert pickle.loads(pickle.dumps(x)) == x
                    found += 1
    assert found > 40
