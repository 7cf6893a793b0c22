"""How the steps of a plan are launched for sizes that are known: the values of its formulas.

`host_launch` is about the CPU, `device_launch` about a GPU. Every generated GPU kernel walks over
its work in strides of the whole grid, so any grid is right, and the choice is about speed alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from typing import Any

from maxlab.compiler.conventions import BLOCK, HALVES, THREADS, row_bytes, split_bytes
from maxlab.compiler.gpu_templates import (
    choose_attention,
    choose_product,
    decode_parts,
    parts_bytes,
)
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
from maxlab.compiler.plan import GpuLaunch, Launch, LibraryCall
from maxlab.driver.backend import Product, Properties

Env = Mapping[str, int]

GRAIN_COST = 16_384
"""Scalar operations below which a chunk is not worth handing to another thread."""
PIECE_COST = 1 << 22
"""Scalar operations that take about a millisecond; behind so many a run can be ended."""
SMALL_PRODUCT = 400_000
"""Operations of a product that one thread makes."""
BLOCKS_PER_PROCESSOR = 16
"""Blocks of 256 threads that keep a multiprocessor full, twice over, so that none ends alone."""
MOST_BLOCKS = (1 << 31) - 1
"""Blocks of a grid, at most. Rows in registers have a block each, or some of them one, since blocks
that come and go read, compute and write at different times."""
WARP = 32
WARPS = THREADS // WARP
NARROW = 1024
"""Rows up to this width are folded by one warp each, wider ones by a block."""
LONG_ROW, PART = 1 << 15, 1 << 12
"""Rows from this length on are folded by several blocks, each of which has so many elements or
more, when there are too few rows to keep all multiprocessors busy.
"""
LARGE_PRODUCT = 1 << 27
"""Multiplications from which on a product is left to the vendor's library, if it is plain and the
library is there: 512 cubed. Below that a launch is most of the time.
"""
SHARED_ROWS = 96 << 10
"""Bytes of kept rows that a block may have in shared memory; two blocks then fit."""


# ---------------------------------------------------------------- on the CPU
def grain_of(extent: int, cost: int, threads: int) -> int:
    """Items per chunk for ``extent`` items of ``cost`` scalar operations each.

    Of each thread there are about four chunks, or fewer where these would be too small. They are
    made up to twice as large, or up to a fourth as large, if a thread's share then is a whole
    number of them: so no thread has more than others, and it finds in its caches what it wrote a
    step before.
    """
    if extent * cost < 2 * GRAIN_COST or threads == 1:
        return max(extent, 1)
    worth = max(-(-GRAIN_COST // max(cost, 1)), 1)
    least = max(-(-extent // (threads * 4)), worth)
    share = -(-extent // threads)
    most = share // least
    last = min(4 * share // least, share // worth)
    parts: int
    for parts in (*range(most, most // 2, -1), *range(most + 1, last + 1)):
        if share % parts == 0:
            return share // parts
    return least


def piece_of(extent: int, cost: int) -> int:
    """Items that take about a millisecond, of ``extent`` items of ``cost`` scalar operations each;
    0 where all of them take no longer.
    """
    if extent * cost <= PIECE_COST:
        return 0
    count = PIECE_COST // max(cost, 1)
    return max(count if count < 64 else count // 64 * 64, 1)


@singledispatch
def host_launch(formula: object, env: Env, threads: int, runtime: Any) -> Launch:
    """The launch of a step of the CPU for the sizes ``env``.

    Args:
        formula: Of the step, ``step.launch``.
        env: The sizes of the dims.
        threads: Of the team that runs it.
        runtime: The library that knows how products are cut.

    Raises:
        KeyError: The size of a dim is missing.

    Example:
        >>> from maxlab.compiler.launches import Items
        >>> from maxlab.ir.poly import Poly
        >>> host_launch(Items(Poly.symbol("n"), Poly.constant(100)), {"n": 8000}, 2, None).grain
        1000
    """
    raise TypeError(f"no step of the CPU is launched by {formula!r}")


@host_launch.register
def _(formula: Once, env: Env, threads: int, runtime: Any) -> Launch:
    return Launch((), 1, 1, 0)


@host_launch.register
def _(formula: Items, env: Env, threads: int, runtime: Any) -> Launch:
    if formula.products:
        _ = runtime.products  # loads what the text calls
    extent, unit = formula.extent.evaluate(env), formula.unit
    cost, scratch = formula.cost.evaluate(env), formula.scratch.evaluate(env)
    units = -(-extent // unit)
    few = formula.total is not None and formula.total.evaluate(env) < GRAIN_COST
    if formula.serial or few:
        return Launch(formula.extra, extent, max(extent, 1), scratch)
    grain, piece = grain_of(units, cost, threads), piece_of(units, cost)
    return Launch(formula.extra, extent, grain * unit, scratch, piece * unit)


@host_launch.register
def _(formula: Blocks, env: Env, threads: int, runtime: Any) -> Launch:
    columns = formula.columns.evaluate(env)
    items = formula.rows.evaluate(env) * -(-columns // BLOCK)
    cost = formula.weight * formula.depth.evaluate(env) * min(columns, BLOCK)
    return Launch((), items, grain_of(items, cost, threads), 0, piece_of(items, cost))


@host_launch.register
def _(formula: Gemm, env: Env, threads: int, runtime: Any) -> Launch:
    m, n, k = (size.evaluate(env) for size in (formula.m, formula.n, formula.k))
    library, work = runtime.products, 2 * m * n * k
    if formula.dtype in HALVES:
        tile = runtime.ffi.new("i64[2]")
        library.mx_half_gemm_plan(m, n, threads, tile, tile + 1)
        mb, nb = max(tile[0], 1), max(tile[1], 1)
        scratch = library.mx_half_gemm_scratch(HALVES[formula.dtype], m, mb, nb)
        extent = -(-m // mb) * -(-n // nb)
        return Launch((mb, nb), extent, _grain_of_tiles(extent, work), scratch)
    from maxlab.engine.product_variants import LEAST_WORK, PRODUCTS, tile_of
    from maxlab.toolchain.variants import choose

    choice = choose(PRODUCTS, (m, n, k, threads)) if work >= LEAST_WORK else None
    variant = PRODUCTS.guess(n) if choice is None else choice.variant
    mb, nb = tile_of(variant, m, n, k, threads)
    extent = -(-m // mb) * -(-n // nb)
    scratch, grain = library.mx_gemm_scratch(m, n, k, mb, nb), _grain_of_tiles(extent, work)
    return Launch((mb, nb, *variant.data[2:]), extent, grain, scratch, 0, choice, variant)


def _grain_of_tiles(extent: int, work: int) -> int:
    return max(extent, 1) if work < SMALL_PRODUCT else 1


@host_launch.register
def _(formula: BatchedGemm, env: Env, threads: int, runtime: Any) -> Launch:
    m, n, k = (size.evaluate(env) for size in (formula.m, formula.n, formula.k))
    items = formula.items.evaluate(env)
    cost = 2 * m * n * max(k, 1) // 16
    grain, piece = grain_of(items, cost, threads), piece_of(items, cost)
    if formula.dtype in HALVES:
        scratch = runtime.products.mx_half_matmul_scratch(HALVES[formula.dtype], m, n, k)
        return Launch((), items, grain, scratch, piece)
    from maxlab.engine.product_variants import BATCHED, LEAST_WORK, PACKED
    from maxlab.toolchain.variants import choose

    scratch = runtime.products.mx_matmul_scratch(m, n, k)
    if not formula.rowwise:
        return Launch((PACKED,), items, grain, scratch, piece)
    is_worth = 2 * items * m * n * k >= LEAST_WORK
    choice = choose(BATCHED, (items, m, n, k)) if is_worth else None
    variant = BATCHED.variants((items, m, n, k))[0] if choice is None else choice.variant
    return Launch(variant.data, items, grain, scratch, piece, choice, variant)


@host_launch.register
def _(formula: Attention, env: Env, threads: int, runtime: Any) -> Launch:
    batch, heads, queries, *each = (size.evaluate(env) for size in formula.sizes)
    case = batch * heads, queries, *each, threads
    from maxlab.engine.attention_variants import ATTENTION, plan_of
    from maxlab.toolchain.variants import choose

    choice = choose(ATTENTION, case)
    variant = choice.variant  # once: another thread may exchange it
    plan = plan_of(variant, case)
    scratch = runtime.products.mx_attention_scratch(*each, runtime.ffi.new("i64[3]", plan))
    extent = batch * heads * -(-queries // plan[0]) if queries > 0 else 0
    return Launch(plan, extent, 1, scratch, 0, choice, variant)


# ---------------------------------------------------------------- on a GPU
def grid_of(wanted: int, properties: Properties) -> tuple[int, int, int]:
    """A grid of ``wanted`` blocks, or of as many as keep the device full."""
    most = BLOCKS_PER_PROCESSOR * properties.multiprocessors
    return (min(wanted, most), 1, 1)


@singledispatch
def device_launch(formula: object, env: Env, properties: Properties) -> GpuLaunch:
    """How a step of a GPU is launched for the sizes ``env``.

    Args:
        formula: Of the step, ``step.gpu.launch``.
        env: The sizes of the dims.
        properties: Of the device.

    Raises:
        KeyError: The size of a dim is missing.
    """
    raise TypeError(f"no step of a GPU is launched by {formula!r}")


@device_launch.register
def _(formula: Strided, env: Env, properties: Properties) -> GpuLaunch:
    items = formula.extent.evaluate(env)
    grid = grid_of(-(-items // (THREADS * formula.width)), properties)
    return GpuLaunch(0, grid, (THREADS, 1, 1), 0, 0, items)


@device_launch.register
def _(formula: MappedRows, env: Env, properties: Properties) -> GpuLaunch:
    items, width = formula.rows.evaluate(env), formula.width.evaluate(env)
    vectors = -(-width // formula.vector)
    across = 1
    while across < min(vectors, THREADS):
        across *= 2
    down = THREADS // across
    rows = -(-items // down)
    columns = max(-(-vectors // across), 1)
    most = BLOCKS_PER_PROCESSOR * properties.multiprocessors
    if formula.vector > 1:  # a thread goes down rows, with what they share
        most *= 2
        beside = min(columns, most)
        grid = (min(rows, max(most // beside, 1)), beside, 1)
    else:
        grid = (min(rows, most), min(columns, max(most // max(rows, 1), 1)), 1)
    return GpuLaunch(0, grid if width else (0, 1, 1), (across, down, 1), 0, 0, items)


@device_launch.register
def _(formula: FoldedRows, env: Env, properties: Properties) -> GpuLaunch:
    items, width = formula.rows.evaluate(env), formula.width.evaluate(env)
    busy, loops = 2 * properties.multiprocessors, len(formula.shapes)
    if formula.folds and width >= LONG_ROW and 0 < items < busy:
        parts = min(-(-width // PART), -(-busy // items))
        own = split_bytes(items, parts, formula.folds)
        return GpuLaunch(loops + 3, (parts, items, 1), (THREADS, 1, 1), 0, 0, items, own)
    for number, shape in enumerate(formula.shapes):
        if shape.holds(width):
            rows = shape.rows
            while rows > 1 and rows * shape.lanes > WARP and items < rows * busy:
                rows //= 2
            grid = (min(-(-items // rows), MOST_BLOCKS), 1, 1)
            return GpuLaunch(number, grid, (shape.lanes, rows, 1), 0, 0, items)
    row = formula.kept * row_bytes(width, formula.size)
    most = min(SHARED_ROWS, properties.shared_bytes)
    if width <= NARROW and row * WARPS <= most:
        grid = grid_of(-(-items // WARPS), properties)
        return GpuLaunch(loops + 1, grid, (WARP, WARPS, 1), row * WARPS, 0, items)
    threads = min(THREADS, -(-max(width, 1) // (4 * WARP)) * WARP)
    grid = grid_of(items, properties)
    if row <= most:
        return GpuLaunch(loops, grid, (threads, 1, 1), row, 0, items)
    kept, size = formula.lean
    row = kept * row_bytes(width, size)
    if row <= most:
        return GpuLaunch(loops + 2, grid, (threads, 1, 1), row, 0, items)
    return GpuLaunch(loops + 2, grid, (threads, 1, 1), 0, row * grid[0], items)


@device_launch.register
def _(formula: Parts, env: Env, properties: Properties) -> GpuLaunch:
    items = formula.extent.evaluate(env)
    blocks = items if formula.block else -(-items // formula.threads)
    shared = formula.shared.evaluate(env)
    return GpuLaunch(0, grid_of(blocks, properties), (formula.threads, 1, 1), shared, 0, items)


@device_launch.register
def _(formula: Tiles, env: Env, properties: Properties) -> GpuLaunch:
    items, m, n, k = (size.evaluate(env) for size in formula.sizes)
    number, parts = choose_product(formula.templates, (items, m, n, k), properties)
    chosen = formula.templates[number]
    tiles = chosen.blocks(items, m, n)
    grid = (grid_of(tiles, properties)[0], parts, 1)
    own, block = chosen.own_bytes(tiles, parts), (chosen.threads, 1, 1)
    return GpuLaunch(number, grid, block, chosen.shared, 0, items * m * n, own, meets=own > 0)


@device_launch.register
def _(formula: Heads, env: Env, properties: Properties) -> GpuLaunch:
    heads, queries = formula.heads.evaluate(env), formula.queries.evaluate(env)
    number = choose_attention(formula.templates, (heads, queries), properties)
    chosen = formula.templates[number]
    grid = grid_of(heads * -(-queries // chosen.queries), properties)
    items, own = heads * queries, 0
    if chosen.function == "mx_attention_decode":
        parts = decode_parts(items, formula.keys.evaluate(env), properties)
        grid = (grid[0], parts, 1)
        own = parts_bytes(chosen, items, parts)
    return GpuLaunch(number, grid, (chosen.threads, 1, 1), chosen.shared, 0, items, own)


_FEW_ROWS = {2: 4, 4: 16}
"""Rows up to which the templates take no longer than cuBLASLt, by the bytes of an element: on an
H200, for 8 rows of float32 by 4096², 23 µs and 42 µs (kernels/cuda/PRODUCTS.md)."""


def library_call(formula: LibraryProduct, env: Env) -> LibraryCall | None:
    """The call of the vendor's library for the sizes ``env``; None where the product is small or
    has few rows, or an operand lies otherwise than the library takes it."""
    m, n, k = (size.evaluate(env) for size in formula.sizes)
    items = 1 if formula.items is None else formula.items.evaluate(env)
    if m * n * k * items < LARGE_PRODUCT or m <= _FEW_ROWS.get(formula.dtype.size_in_bytes, 0):
        return None
    operands = formula.left, formula.right
    transposed = []
    for operand, (rows, columns) in zip(operands, ((m, k), (k, n)), strict=True):
        strides = operand.row.evaluate(env), operand.column.evaluate(env)
        if strides not in ((columns, 1), (1, rows)):
            return None
        transposed.append(strides != (columns, 1))
    a, b = transposed
    made = Product(m, n, k, formula.dtype, transpose_a=a, transpose_b=b)
    if formula.items is not None:
        steps = [operand.batch[0].evaluate(env) for operand in operands]
        made = replace(made, batch=items, stride_a=steps[0], stride_b=steps[1], stride_c=m * n)
    size = formula.dtype.size_in_bytes
    first, second = (operand.offset.evaluate(env) * size for operand in operands)
    pointers = formula.target, formula.left.pointer, formula.right.pointer
    return LibraryCall(made, pointers, (0, first, second))


__all__ = ["device_launch", "grain_of", "grid_of", "host_launch", "library_call", "piece_of"]
