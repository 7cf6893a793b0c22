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
FEW_ROWS = 8
"""Up to so many rows a product reads its right operand once, by ``gemv.cuh``."""
SMALL_TILE = 32
"""Rows of the tile for products that keep no device busy: below it only very few rows are left."""
BASE = ("prelude.cuh", "tiles.cuh")


@dataclass(frozen=True, slots=True)
class ProductTemplate:
    """A template of a product and its configuration.

    Attributes:
        function: The template's name.
        config: The type that has its sizes; ``config::SHARED`` bytes are needed.
        arguments: The template's first arguments.
        header: The file that has it.
        threads: Of a block.
        rows, columns: Of a tile, of the result.
    """

    function: str
    config: str
    arguments: str
    header: str
    threads: int
    rows: int
    columns: int

    @property
    def headers(self) -> tuple[str, ...]:
        """The files that a kernel is read behind."""
        return (*BASE, self.header)


def _tile(rows: int, columns: int, threads: int) -> ProductTemplate:
    name = f"mx_tile_{rows}x{columns}"
    return ProductTemplate("mx_product", name, name, "product.cuh", threads, rows, columns)


def _mma(rows: int, columns: int, threads: int) -> ProductTemplate:
    name = f"mx_mma_{rows}x{columns}"
    header = "product_mma.cuh"
    return ProductTemplate("mx_product_mma", name, name, header, threads, rows, columns)


def _gemv(rows: int, columns: int, dot: bool) -> ProductTemplate:
    config = f"mx_gemv_block<{rows}, {columns}>"
    wide = (8 if dot else 32) * columns
    return ProductTemplate("mx_gemv", config, f"{rows}, {columns}", "gemv.cuh", 256, rows, wide)


TILES = (_tile(64, 64, 128), _tile(128, 128, 256), _tile(32, 32, 128), _tile(16, 64, 128))
TENSOR_CORES = (_mma(64, 64, 128), _mma(128, 128, 256), _mma(16, 64, 128))


def product_templates(dtype: DType, dot: bool) -> list[ProductTemplate]:
    """The templates that a product of ``dtype`` chooses from, the usual one first.

    ``dot``: the right operand has the stride 1 along the dimension that is summed.
    """
    few = [_gemv(rows, columns, dot) for rows in (1, 2, 4, 8) for columns in (4, 2, 1)]
    return [*(TILES if dtype is DType.float32 else TENSOR_CORES), *few]


def choose_product(
    templates: Sequence[ProductTemplate],
    sizes: tuple[int, int, int],
    properties: Properties,
) -> int:
    """The number of the template for ``sizes``, which are items, rows and columns.

    The rule of ``kernels/cuda/PRODUCTS.md``. Few rows have kernels of their own. Otherwise a tile
    reads less memory for each product the larger it is, so the largest is taken that gives every
    multiprocessor a tile and is not twice as high as the result.
    """
    items, m, n = sizes
    busy = properties.multiprocessors

    def blocks(template: ProductTemplate) -> int:
        return items * -(-m // template.rows) * -(-n // template.columns)

    few = m <= FEW_ROWS
    fitting = [t for t in templates if (t.header == "gemv.cuh") == few]
    fitting.sort(key=lambda t: -t.rows * t.columns)
    if few:
        rows = min(t.rows for t in fitting if m <= t.rows)
        fitting = [t for t in fitting if t.rows == rows]
        chosen = next((t for t in fitting if blocks(t) >= 2 * busy), fitting[-1])
    else:
        chosen = next(
            (
                t
                for t in fitting
                if t.rows < 2 * m and (blocks(t) >= busy or (t.rows == SMALL_TILE and m > 16))
            ),
            fitting[-1],
        )
    return list(templates).index(chosen)


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
