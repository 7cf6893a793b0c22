"""Which template of ``kernels/cuda`` a product or attention calls, by its sizes and the device.

The numbers of threads and bytes here are those of the headers; generated text asserts it, so that
a header cannot change alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxlab.driver.backend import Properties
from maxlab.dtype import DType

ELEMENTS = {DType.float32: "f32", DType.bfloat16: "mx_bf16", DType.float16: "mx_f16"}
"""Dtypes that products have templates for, and what these call them."""
FEW_ROWS = {DType.float32: 16, DType.bfloat16: 4, DType.float16: 4}
"""Up to so many rows a product reads its right operand once, by ``gemv.cuh``. Of 16-bit elements
tensor cores are as fast from a few rows on.
"""
SMALL_TILE = 32
"""Rows of the tile for products that keep no device busy: below it only very few rows are left."""
BASE = ("prelude.cuh", "tiles.cuh")


@dataclass(frozen=True, slots=True)
class ProductTemplate:
    """A template of a product and its configuration.

    Attributes:
        function: The template's name.
        config: The type that has its sizes, its first argument; ``config::SHARED`` bytes are
            needed.
        header: The file that has it.
        threads: Of a block.
        rows, columns: Of a tile, of the result.
        shared: Bytes of shared memory of a block, dynamic.
        depth: How much of the summed dimension a step takes, where several blocks may share a tile;
            0 where they may not.
    """

    function: str
    config: str
    header: str
    threads: int
    rows: int
    columns: int
    shared: int
    depth: int = 0

    @property
    def headers(self) -> tuple[str, ...]:
        """The files that a kernel is read behind."""
        return (*BASE, "split.cuh", self.header) if self.depth else (*BASE, self.header)

    def blocks(self, items: int, m: int, n: int) -> int:
        """How many tiles there are."""
        return items * -(-m // self.rows) * -(-n // self.columns)

    def own_bytes(self, tiles: int, parts: int) -> int:
        """The memory in which ``parts`` blocks a tile leave their sums, as ``split.cuh`` has it."""
        if parts == 1:
            return 0
        return (tiles + 1) // 2 * 16 + tiles * parts * self.rows * self.columns * 4


def _tile(rows: int, columns: int, depth: int, threads: int, shared: int) -> ProductTemplate:
    name = f"mx_tile_{rows}x{columns}"
    return ProductTemplate(
        "mx_product", name, "product.cuh", threads, rows, columns, shared, depth
    )


def _mma(rows: int, columns: int, depth: int, threads: int, shared: int) -> ProductTemplate:
    name = f"mx_mma_{rows}x{columns}"
    return ProductTemplate(
        "mx_product_mma", name, "product_mma.cuh", threads, rows, columns, shared, depth
    )


def _dot(rows: int, columns: int, slices: int) -> ProductTemplate:
    config = f"mx_dot_block<{rows}, {columns}, {slices}>"
    wide, shared = 8 // slices * columns, 32 * rows * columns
    return ProductTemplate("mx_gemv_dot", config, "gemv.cuh", 256, rows, wide, shared)


def _axpy(rows: int, columns: int, threads: int) -> ProductTemplate:
    config = f"mx_axpy_block<{rows}, {columns}, {threads}>"
    shared = threads // 8 * rows * columns
    return ProductTemplate("mx_gemv_axpy", config, "gemv.cuh", threads, rows, columns, shared)


TILES = (
    _tile(64, 64, 16, 128, 34816),
    _tile(128, 128, 16, 256, 50688),
    _tile(32, 32, 32, 128, 27648),
    _tile(16, 64, 64, 128, 45056),
)
TENSOR_CORES = (
    _mma(64, 64, 64, 128, 65536),
    _mma(128, 256, 32, 256, 98304),
    _mma(128, 128, 32, 128, 65536),
    _mma(16, 64, 64, 128, 40960),
)
DOTS = tuple(_dot(rows, 2, slices) for rows in (1, 2, 4, 8, 16) for slices in (1, 8))
AXPYS = tuple(_axpy(rows, 32, 512 if rows == 1 else 256) for rows in (1, 2, 4, 8, 16))


def product_templates(dtype: DType, dot: bool) -> list[ProductTemplate]:
    """The templates that a product of ``dtype`` chooses from, the usual one first.

    ``dot``: the right operand has the stride 1 along the dimension that is summed.
    """
    few = [t for t in (DOTS if dot else AXPYS) if t.rows <= FEW_ROWS[dtype]]
    return [*(TILES if dtype is DType.float32 else TENSOR_CORES), *few]


def choose_product(
    templates: Sequence[ProductTemplate],
    sizes: tuple[int, int, int, int],
    properties: Properties,
) -> tuple[int, int]:
    """The number of the template for ``sizes``, which are items, rows, columns and what is summed
    over, and how many blocks share a tile.

    The rule of ``kernels/cuda/PRODUCTS.md``. Few rows have kernels of their own. Otherwise a tile
    reads less memory for each product the larger it is, so the largest is taken that gives every
    multiprocessor a tile and is not twice as high as the result.
    """
    items, m, n, k = sizes
    busy = properties.multiprocessors
    fitting = [t for t in templates if not t.depth and m <= t.rows]
    if fitting:
        rows = min(t.rows for t in fitting)
        fitting = sorted((t for t in fitting if t.rows == rows), key=lambda t: -t.columns)
        chosen = next((t for t in fitting if t.blocks(items, m, n) >= busy), fitting[-1])
        return list(templates).index(chosen), 1
    fitting = sorted((t for t in templates if t.depth), key=lambda t: -t.rows * t.columns)
    chosen = next(
        (
            t
            for t in fitting
            if t.rows < 2 * m
            and (t.blocks(items, m, n) >= busy or (t.rows == SMALL_TILE and m > 16))
        ),
        fitting[-1],
    )
    return list(templates).index(chosen), 1


@dataclass(frozen=True, slots=True)
class AttentionTemplate:
    """A template of attention and its configuration.

    Attributes:
        function: ``mx_attention`` or ``mx_attention_decode``.
        config: The type that has its sizes; ``config::SHARED`` bytes are needed.
        threads: Of a block.
        shared: Bytes of shared memory of a block, dynamic.
        queries: That a block makes.
        head: The largest size of a head.
    """

    function: str
    config: str
    threads: int
    shared: int
    queries: int
    head: int

    @property
    def headers(self) -> tuple[str, ...]:
        """The files that a kernel is read behind."""
        return (*BASE, "attention.cuh")


def _attention(name: str, queries: int, keys: int, head: int, threads: int) -> AttentionTemplate:
    panels = head * (queries + 4) + head * (keys + 4) + keys * (head + 4) + keys * (queries + 4)
    shared = 4 * (panels + queries)
    return AttentionTemplate("mx_attention", name, threads, shared, queries, head)


def _decode(head: int, threads: int) -> AttentionTemplate:
    warps = threads // 32
    at_once = 32 // min(head // 4, 32)
    shared = 4 * (warps * 32 + head + warps * at_once * head + 2 * warps)
    return AttentionTemplate("mx_attention_decode", f"mx_decode_{head}", threads, shared, 1, head)


ATTENTION = (
    _attention("mx_attention_16", 64, 64, 16, 128),
    _attention("mx_attention_32", 64, 64, 32, 128),
    _attention("mx_attention_64", 64, 32, 64, 128),
    _attention("mx_attention_128", 64, 32, 128, 128),
    _attention("mx_attention_256", 32, 32, 256, 128),
    _attention("mx_attention_32_short", 16, 32, 32, 64),
    _attention("mx_attention_64_short", 16, 32, 64, 64),
    _attention("mx_attention_128_short", 16, 32, 128, 64),
    _decode(32, 256),
    _decode(64, 256),
    _decode(128, 256),
    _decode(256, 256),
)
MAX_HEAD = 256


def attention_templates(head: int) -> list[AttentionTemplate]:
    """The templates for heads of size ``head``, up to `MAX_HEAD`, the usual one first."""
    size = next(n for n in (16, 32, 64, 128, 256) if head <= n)
    found = [t for t in ATTENTION if t.head == size]
    if size == 16:  # there is no short one of its own
        found += [t for t in ATTENTION if t.head == 32 and t.queries < 64]
    return found


def choose_attention(
    templates: Sequence[AttentionTemplate],
    sizes: tuple[int, int],
    properties: Properties,
) -> int:
    """The number of the template for ``sizes``, which are heads in all batches, and queries."""
    heads, queries = sizes
    order = list(templates)

    def blocks(template: AttentionTemplate) -> int:
        return heads * -(-queries // template.queries)

    if queries <= 4:
        return next(n for n, t in enumerate(order) if t.queries == 1)
    tiled = sorted((t for t in order if t.queries > 1), key=lambda t: -t.queries)
    if queries <= 16:
        return order.index(tiled[-1])
    return order.index(
        next((t for t in tiled if blocks(t) >= properties.multiprocessors), tiled[-1])
    )
