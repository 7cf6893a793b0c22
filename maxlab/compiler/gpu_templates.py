"""Which template of ``kernels/cuda`` a product or attention calls, by its sizes and the device.

The numbers of threads and bytes here are those of the headers; generated text asserts it, so that
a header cannot change alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxlab.driver.backend import Properties
from maxlab.dtype import DType
from maxlab.toolchain.flags import Accuracy

ELEMENTS = {DType.float32: "f32", DType.bfloat16: "mx_bf16", DType.float16: "mx_f16"}
"""Dtypes that products have templates for, and what these call them."""
FEW_ROWS = {
    (DType.float32, True): 16,
    (DType.float32, False): 8,
    (DType.bfloat16, True): 4,
    (DType.bfloat16, False): 2,
    (DType.float16, True): 4,
    (DType.float16, False): 2,
}
"""Up to so many rows a product reads its right operand once, by ``gemv.cuh``; with True where its
columns are contiguous. Of 16-bit elements tensor cores are as fast from a few rows on.
"""
FEW_SIMULATED = 4
"""The same in the simulator, where lanes add their sums slowly."""
BASE = ("prelude.cuh", "tiles.cuh")
CACHE_RATE = 52.0
"""Bytes that a multiprocessor gets from the second cache in a nanosecond."""
BEGINNING = 2000.0
"""Nanoseconds until the first panels have come, and the last results have gone."""
MEETING = 2000.0
"""Nanoseconds until the last of several blocks that share a tile begins to add their sums."""
SUMS_RATE = 0.026
"""Bytes of sums that a thread of that block adds in a nanosecond."""
PARTS = (1, 2, 3, 4, 6, 8, 12, 16)
"""How many blocks may share a tile."""
COUNTERS = 16 << 10
"""Bytes of the counters by which blocks that share a tile know who comes last, 8 for each tile."""
CROWD = 4
"""Blocks to a multiprocessor above which no tile is shared: there are enough without."""
WARPGROUPS = "sm_90"
"""The architecture whose tensor cores four warps use together."""


@dataclass(frozen=True, slots=True)
class ProductTemplate:
    """A template of a product and its configuration.

    Attributes:
        function: The template's name.
        config: The type that has its sizes, its first argument; ``config::SHARED`` bytes are
            needed.
        header: The files that have it, in the order in which they are read.
        threads: Of a block.
        rows, columns: Of a tile, of the result.
        shared: Bytes of shared memory of a block, dynamic.
        depth: How much of the summed dimension a step takes, where several blocks may share a tile;
            0 where they may not.
        rate: Multiplications that a busy multiprocessor makes in a nanosecond.
        alone: The same where it has one block, which waits for each panel.
    """

    function: str
    config: str
    header: tuple[str, ...]
    threads: int
    rows: int
    columns: int
    shared: int
    depth: int = 0
    rate: float = 0.0
    alone: float = 0.0

    @property
    def headers(self) -> tuple[str, ...]:
        """The files that a kernel is read behind."""
        return (*BASE, *self.header)

    def blocks(self, items: int, m: int, n: int) -> int:
        """How many tiles there are."""
        return items * -(-m // self.rows) * -(-n // self.columns)

    def own_bytes(self, tiles: int, parts: int) -> int:
        """The memory in which ``parts`` blocks a tile leave their sums, as ``split.cuh`` has it."""
        if parts == 1:
            return 0
        return COUNTERS + tiles * parts * self.rows * self.columns * 4

    def nanoseconds(self, tiles: int, k: int, parts: int, multiprocessors: int) -> float:
        """About how long a product of so many tiles takes.

        The blocks of a multiprocessor multiply as fast as the template can or as the cache gives
        them the operands, but none faster than it does alone; then the last block of a tile adds
        the sums of the others.
        """
        area = self.rows * self.columns
        depth = -(-max(-(-k // self.depth), 1) // parts) * self.depth
        size = 4 if self.function == "mx_product" else 2
        each = max(area / self.rate, (self.rows + self.columns) * size / CACHE_RATE)
        blocks = -(-tiles * parts // multiprocessors)
        time = BEGINNING + depth * max(blocks * each, area / self.alone)
        if parts > 1:
            sums = parts * area * 4 / (SUMS_RATE * self.threads)
            time += MEETING + -(-tiles // multiprocessors) * sums
        return time


def _tile(
    rows: int, columns: int, depth: int, threads: int, shared: int, rate: float, alone: float
) -> ProductTemplate:
    name, header = f"mx_tile_{rows}x{columns}", ("split.cuh", "product.cuh")
    return ProductTemplate(
        "mx_product", name, header, threads, rows, columns, shared, depth, rate, alone
    )


def _mma(
    rows: int, columns: int, depth: int, threads: int, shared: int, rate: float, alone: float
) -> ProductTemplate:
    name, header = f"mx_mma_{rows}x{columns}", ("split.cuh", "product_mma.cuh")
    return ProductTemplate(
        "mx_product_mma", name, header, threads, rows, columns, shared, depth, rate, alone
    )


def _wgmma(rows: int, columns: int, shared: int, rate: float, alone: float) -> ProductTemplate:
    name = f"mx_wgmma_{rows}x{columns}"
    header = "split.cuh", "product_mma.cuh", "wgmma.cuh", "product_wgmma.cuh"
    return ProductTemplate(
        "mx_product_wgmma", name, header, 2 * rows, rows, columns, shared, 64, rate, alone
    )


def _dot(rows: int, columns: int, slices: int) -> ProductTemplate:
    config = f"mx_dot_block<{rows}, {columns}, {slices}>"
    wide, shared = 8 // slices * columns, 32 * rows * columns
    return ProductTemplate("mx_gemv_dot", config, ("gemv.cuh",), 256, rows, wide, shared)


def _axpy(rows: int, columns: int) -> ProductTemplate:
    config, threads = f"mx_axpy_block<{rows}, {columns}, 512>", 512
    shared = threads // 8 * rows * columns
    return ProductTemplate("mx_gemv_axpy", config, ("gemv.cuh",), threads, rows, columns, shared)


TILES = (
    _tile(64, 64, 16, 128, 34816, 135, 59),
    _tile(128, 128, 16, 256, 50688, 148, 148),
    _tile(128, 64, 16, 128, 51200, 146, 107),
    _tile(32, 64, 32, 128, 39936, 87, 70),
    _tile(32, 32, 32, 128, 27648, 80, 37),
    _tile(16, 64, 64, 128, 67584, 70, 57),
)
TENSOR_CORES = (
    _mma(64, 64, 64, 128, 65536, 934, 490),
    _mma(128, 256, 32, 256, 98304, 1317, 1317),
    _mma(128, 128, 32, 128, 65536, 1160, 714),
    _mma(128, 64, 64, 256, 73728, 1000, 835),
    _mma(16, 64, 64, 128, 40960, 280, 207),
    _wgmma(128, 256, 196608, 2163, 2163),
    _wgmma(128, 128, 131072, 1644, 1434),
)
"""Rates as they were measured on an H200, or follow from what was."""
DOTS = tuple(
    _dot(*each)
    for each in (
        (1, 2, 4), (2, 2, 4), (4, 4, 1), (4, 4, 4), (8, 4, 2), (8, 4, 8), (16, 2, 1), (16, 2, 4)
    )
)  # fmt: skip
AXPYS = tuple(_axpy(rows, columns) for rows in (1, 2, 4, 8) for columns in (32, 8))


def product_templates(dtype: DType, dot: bool) -> list[ProductTemplate]:
    """The templates that a product of ``dtype`` chooses from, the usual one first.

    ``dot``: the right operand has the stride 1 along the dimension that is summed.
    """
    few = [t for t in (DOTS if dot else AXPYS) if t.rows <= FEW_ROWS[dtype, dot]]
    return [*(TILES if dtype is DType.float32 else TENSOR_CORES), *few]


def choose_product(
    templates: Sequence[ProductTemplate],
    sizes: tuple[int, int, int, int],
    properties: Properties,
) -> tuple[int, int]:
    """The number of the template for ``sizes``, which are items, rows, columns and what is summed
    over, and how many blocks share a tile.

    The rule of ``kernels/cuda/PRODUCTS.md``. Few rows have kernels of their own, the one for the
    fewest rows that fits, and of these the one with the most columns a block that gives every
    other multiprocessor a block. Otherwise that tile and number of parts is taken that should end
    first. In the simulator nobody shares a tile: what it computes does not depend on the machine.
    """
    items, m, n, k = sizes
    busy = properties.multiprocessors
    few = [t for t in templates if not t.depth and m <= t.rows]
    if few and (m <= FEW_SIMULATED or not properties.simulated):
        rows = min(t.rows for t in few)
        few = sorted((t for t in few if t.rows == rows), key=lambda t: -t.columns)
        chosen = next((t for t in few if 2 * t.blocks(items, m, n) >= busy), few[-1])
        return list(templates).index(chosen), 1
    found = []
    for number, template in enumerate(templates):
        if not template.depth or not runs_on(template, properties):
            continue
        tiles = template.blocks(items, m, n)
        for parts in PARTS:
            is_worth = 2 * parts * template.depth <= k and tiles * parts <= CROWD * busy
            is_worth = is_worth and tiles <= COUNTERS // 8
            if parts == 1 or (is_worth and not properties.simulated):
                found.append((template.nanoseconds(tiles, k, parts, busy), parts, number))
    _, parts, number = min(found)
    return number, parts


def runs_on(template: ProductTemplate, properties: Properties) -> bool:
    """Whether a device has the instructions and the shared memory of ``template``."""
    is_known = template.function != "mx_product_wgmma" or properties.architecture == WARPGROUPS
    return is_known and template.shared <= properties.shared_bytes


@dataclass(frozen=True, slots=True)
class AttentionTemplate:
    """A template of attention and its configuration.

    Attributes:
        function: ``mx_attention``, ``mx_attention_mma`` or ``mx_attention_decode``.
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
        return (*BASE, "attention_mma.cuh" if self.on_tensor_cores else "attention.cuh")

    @property
    def on_tensor_cores(self) -> bool:
        """Whether it multiplies there, in 16 bits."""
        return self.function == "mx_attention_mma"


def _attention(name: str, queries: int, keys: int, head: int, threads: int) -> AttentionTemplate:
    panels = queries * (head + 4) + keys * (2 * head + 4) + keys * (queries + 4)
    return AttentionTemplate("mx_attention", name, threads, 4 * panels, queries, head)


def _mma_attention(
    name: str, queries: int, keys: int, head: int, threads: int
) -> AttentionTemplate:
    row = 16
    while row < head:
        row *= 2
    shared = max(2 * row * (queries + 2 * 2 * keys), 2 * threads * (head + 8))
    return AttentionTemplate("mx_attention_mma", name, threads, shared, queries, head)


def _decode(head: int, threads: int) -> AttentionTemplate:
    warps = threads // 32
    at_once = 32 // min(head // 4, 32)
    shared = 4 * (warps * 32 + head + warps * at_once * head + 2 * warps + 1)
    return AttentionTemplate("mx_attention_decode", f"mx_decode_{head}", threads, shared, 1, head)


ATTENTION = (
    _attention("mx_attention_16", 64, 64, 16, 128),
    _attention("mx_attention_32", 64, 64, 32, 128),
    _attention("mx_attention_64", 128, 128, 64, 256),
    _attention("mx_attention_128", 128, 64, 128, 256),
    _attention("mx_attention_256", 32, 32, 256, 128),
    _attention("mx_attention_64_few", 64, 64, 64, 128),
    _attention("mx_attention_128_few", 64, 32, 128, 128),
    _attention("mx_attention_32_short", 16, 32, 32, 64),
    _attention("mx_attention_64_short", 16, 32, 64, 64),
    _attention("mx_attention_128_short", 16, 32, 128, 64),
    _mma_attention("mx_mma_attention_32", 128, 64, 32, 128),
    _mma_attention("mx_mma_attention_64", 128, 64, 64, 128),
    _mma_attention("mx_mma_attention_128", 128, 32, 128, 128),
    _mma_attention("mx_mma_attention_256", 64, 32, 256, 128),
    _mma_attention("mx_mma_attention_32_few", 64, 64, 32, 128),
    _mma_attention("mx_mma_attention_64_few", 64, 64, 64, 128),
    _mma_attention("mx_mma_attention_128_few", 64, 64, 128, 128),
    _mma_attention("mx_mma_attention_32_short", 16, 64, 32, 32),
    _mma_attention("mx_mma_attention_64_short", 16, 64, 64, 32),
    _mma_attention("mx_mma_attention_128_short", 16, 32, 128, 32),
    _decode(32, 256),
    _decode(64, 256),
    _decode(128, 256),
    _decode(256, 256),
)
MAX_HEAD = 256
PART_KEYS = 256
"""The fewest keys that a block takes of a query that several blocks share: a round of its warps."""


def attention_templates(
    head: int, dtype: DType = DType.float32, accuracy: Accuracy = "default"
) -> list[AttentionTemplate]:
    """The templates for heads of size ``head``, up to `MAX_HEAD`, the usual one first.

    Halves are multiplied on tensor cores unless the weights of the softmax, which these take in 16
    bits, have to be exact.
    """
    functions = ["mx_attention", "mx_attention_decode"]
    if dtype is not DType.float32 and accuracy != "exact":
        functions = ["mx_attention_mma", "mx_attention_decode"]
    found: list[AttentionTemplate] = []
    for function in functions:
        size = min(
            (t.head for t in ATTENTION if t.function == function and t.head >= head), default=0
        )
        found += [t for t in ATTENTION if t.function == function and t.head == size]
    if found[0].head == 16:  # there is no short one of its own
        found += [t for t in ATTENTION if t.config == "mx_attention_32_short"]
    return found


def decode_parts(queries: int, keys: int, properties: Properties) -> int:
    """How many blocks share the keys of a query where there are ``queries`` in all heads.

    Four blocks a multiprocessor keep memory busy; below `PART_KEYS` keys a block has less to do
    than the last one that merges them.
    """
    wanted = -(-4 * properties.multiprocessors // max(queries, 1))
    return max(1, min(wanted, keys // PART_KEYS))


def parts_bytes(template: AttentionTemplate, queries: int, parts: int) -> int:
    """The memory in which ``parts`` blocks of a query leave what they have; see attention.cuh."""
    return queries * (8 + 4 * parts * (2 + template.head)) if parts > 1 else 0


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
    tiled = [t for t in tiled if t.shared <= properties.shared_bytes] or tiled[-1:]
    if queries <= 16:
        return order.index(tiled[-1])
    # On tensor cores a warp makes 16 rows in all of them: blocks of one warp win nothing.
    tiled = [t for t in tiled if t.queries > 16 or not t.on_tensor_cores]
    return order.index(
        next((t for t in tiled if blocks(t) >= properties.multiprocessors), tiled[-1])
    )
