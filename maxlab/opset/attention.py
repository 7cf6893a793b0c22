"""Ops of a paged cache of keys and values: ``cache.store`` writes rows of new tokens into their
pages, ``cache.load`` reads these rows, ``cache.attention`` all that a row sees.

The operands are those of ``PagedCacheValues``: pages ``[pages, 2, layers, page, heads, dim]``,
``lengths`` ``[batch]`` of the tokens that are cached, ``table`` ``[batch, most]`` of pages, whose
unassigned entries are the number of pages; ``offsets`` ``[batch + 1]`` say where the rows of a
sequence begin, and ``layer`` is a number. No page is copied: what is read and written is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.ir import BufferType, Poly, Shape, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE, ZERO
from maxlab.opset.attention_kernels import power_below, write_attention
from maxlab.opset.attributes import DIM, FLOAT, INT, TEXT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, define, elements
from maxlab.opset.effects import require_buffer
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.rules import same_device

MASKS = ("causal", "alibi", "window", "chunk", "null")
"""The keys that a query sees: those up to its own, without and with a score that falls with the
distance; the last ``window`` of these; those of its own chunk of ``window`` positions; all."""
FLOATS = (DType.float32, DType.float64, DType.float16, DType.bfloat16)


# ---------------------------------------------------------------- rules
def require_cache(
    what: str, pages: Any, numbers: Sequence[Any], kinds: Sequence[int] = (2,)
) -> BufferType:
    """The type of the pages.

    Args:
        what: The function, for errors.
        pages: The type of the pages.
        numbers: The types of the offsets, the lengths, the table and the layer.
        kinds: The parts that a page may have: 2 for keys and values, 1 for latent vectors.

    Raises:
        ArgumentTypeError: ML776, the pages are no buffer.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        DeviceError: The operands are on several devices.
    """
    buffer = require_buffer(f"{what}: the pages", pages)
    names = ("row offsets", "cache lengths", "lookup table", "layer")
    for name, type, rank in zip(names, numbers, (1, 1, 2, 0), strict=True):
        if type.dtype is not DType.uint32:
            raise DTypeError(
                "ML666",
                f"{what}: the {name} must be uint32, got {type.dtype.name}",
                fix="cast it: ops.cast(x, DType.uint32)",
            )
        if type.rank != rank:
            raise wrong_shape(what, f"the {name} must have rank {rank}, got {type}")
    if buffer.rank != 6 or not all(isinstance(dim, StaticDim) for dim in buffer.shape[1:]):
        raise wrong_shape(
            what, f"the pages must be [pages, 2, layers, page, heads, dim], got {buffer}"
        )
    if int(buffer.shape[1]) not in kinds or 0 in [int(dim) for dim in buffer.shape[3:]]:
        held = {1: "latent vectors", 2: "keys and values"}
        parts = " or ".join(held[kind] for kind in sorted(kinds, reverse=True))
        raise wrong_shape(what, f"a page has {parts} of one token or more, got {buffer}")
    same_device(what, [buffer.as_tensor(), *numbers])
    if buffer.dtype not in FLOATS:
        raise DTypeError(
            "ML666",
            f"{what}: pages must be of floats, got {buffer.dtype.name}",
            fix="use float32, float64, float16 or bfloat16",
        )
    return buffer


def require_rows(what: str, buffer: BufferType, rows: TensorType) -> None:
    """Raises unless ``rows`` have the dtype of the pages, and lie on their device."""
    same_device(what, [buffer.as_tensor(), rows])
    if rows.dtype is not buffer.dtype:
        raise DTypeError(
            "ML666",
            f"{what}: rows and pages must be of one float dtype, got {rows.dtype.name} and "
            f"{buffer.dtype.name}",
            fix=f"cast the rows: ops.cast(x, DType.{buffer.dtype.name})",
        )


def wrong_shape(what: str, why: str) -> ShapeError:
    return ShapeError(
        "ML659",
        f"{what}: {why}",
        fix="pages are [pages, 2, layers, page, heads, dim], rows [tokens, heads, dim], offsets "
        "[batch + 1], lengths [batch], the table [batch, pages of a sequence], the layer []",
    )


def batch_checks(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    """The numbers are of one batch."""
    offsets, lengths, table = (operands[n].shape[0].poly for n in (1, 2, 3))
    what = "a cache of keys and values"
    pairs = [
        (offsets, lengths + ONE, "row offsets are not one more than cache lengths"),
        (lengths, table, "the lookup table has not as many rows as there are cache lengths"),
    ]
    if len(operands) > 6:
        ends = operands[6].shape[0].poly
        pairs.append((offsets, ends, "there are not as many offsets of keys as of queries"))
    return [
        Check(left, "==", right, f"{what}: {text}")
        for left, right, text in pairs
        if not (left - right).is_constant or (left - right).value
    ]


# ---------------------------------------------------------------- places
def sequences_of(offsets: Array, lengths: Array, rows: int) -> Iterator[tuple[int, int, int]]:
    """The row, the sequence and the position of each new token."""
    if len(lengths) and offsets[-1] > rows:
        raise ArgumentError("ML652", f"{rows} rows, and offsets up to {offsets[-1]}")
    seen = 0
    for seq, length in enumerate(lengths):
        for row in range(int(offsets[seq]), int(offsets[seq + 1])):
            yield row, seq, int(length) + row - int(offsets[seq])
            seen += 1
    if seen != rows:
        raise ArgumentError("ML652", f"{rows} rows, of which {seen} belong to a sequence")


def slot_of(blocks: Array, table: Array, seq: int, position: int) -> tuple[int, int]:
    """The page of a position, and the slot in it."""
    turn, slot = divmod(position, blocks.shape[3])
    if turn >= table.shape[1] or int(table[seq, turn]) >= blocks.shape[0]:
        raise ArgumentError("ML652", f"the sequence {seq} has no page for the position {position}")
    return int(table[seq, turn]), slot


def sizes_of(at: Site, rows: Sequence[Poly]) -> dict[str, Poly]:
    """Sizes by the names that dims have in the text of kernels; ``rows`` has new tokens."""
    blocks, offsets, lengths, table, _ = (o.type.sizes for o in at.operands[:5])
    pages, kinds, layers, page, heads, dim = blocks
    return {
        "pages": pages, "kinds": kinds, "layers": layers, "page": page, "heads": heads, "dim": dim,
        "tokens": rows[0], "wide" if len(rows) == 3 else "width": rows[1], "ends": offsets[0],
        "batch": lengths[0], "most": table[1],
    }  # fmt: skip


# ---------------------------------------------------------------- store
def _store_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what = "cache_store"
    buffer = require_cache(what, types[0], types[1:5], (1, 2))
    x = types[5]
    require_rows(what, buffer, x)
    part, parts, column = attrs["part"], attrs["parts"], attrs["column"]
    if part < 0 or parts < 1 or part + parts > int(buffer.shape[1]) or column < 0:
        raise ArgumentError(
            "ML667",
            f"{what}: part={part}, parts={parts}, column={column} are no keys or values of a row",
            fix="part=0 for keys, part=1 for values, parts=2 for both from part 0 on",
        )
    needed = column + parts * int(buffer.shape[4]) * int(buffer.shape[5])
    if x.rank != 2 or not isinstance(x.shape[1], StaticDim) or int(x.shape[1]) < needed:
        raise wrong_shape(what, f"the rows must be [tokens, {needed} or more], got {x}")
    return []


def _store_reference(
    call: Call, blocks: Array, offsets: Array, lengths: Array, table: Array, layer: Array, x: Array
) -> list[Array]:
    part, parts, column = (call.attrs[name] for name in ("part", "parts", "column"))
    shape = (parts, *blocks.shape[4:])
    for row, seq, position in sequences_of(offsets, lengths, len(x)):
        page, slot = slot_of(blocks, table, seq, position)
        made = x[row, column : column + math.prod(shape)].reshape(shape)
        blocks[page, part : part + parts, int(layer), slot] = made
    return []


def _store_kernel(at: Site) -> None:
    attrs, dims = at.attrs, sizes_of(at, at.operands[5].type.sizes)
    many = dims["tokens"] * dims["heads"] * dims["dim"] * Poly.constant(attrs["parts"])
    given = {name.upper(): attrs[name] for name in ("part", "parts", "column")}
    kernel = OwnKernel(at, "attention.c", "cache_store", dims=dims, **given)
    if at.target == "c":
        kernel.part("check", touched={at.operands[n].name: ZERO for n in (0, 5)})
    kernel.part("copy", touched={at.operands[0].name: many, at.operands[5].name: many})


# ---------------------------------------------------------------- load
def _load_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    buffer = require_cache("cache_load", types[0], types[1:5], (1, 2))
    if not 0 <= attrs["part"] < int(buffer.shape[1]):
        raise ArgumentError(
            "ML667",
            f"cache_load: there is no part {attrs['part']}",
            fix="part=0 for keys, part=1 for values",
        )
    shape = Shape([attrs["rows"], *buffer.shape[4:]])
    return [TensorType(buffer.dtype, shape, buffer.device)]


def _load_reference(
    call: Call, blocks: Array, offsets: Array, lengths: Array, table: Array, layer: Array
) -> Array:
    made = np.zeros(call.shapes[0], blocks.dtype)
    for row, seq, position in sequences_of(offsets, lengths, len(made)):
        page, slot = slot_of(blocks, table, seq, position)
        made[row] = blocks[page, call.attrs["part"], int(layer), slot]
    return made


def _load_kernel(at: Site) -> None:
    dims = sizes_of(at, at.results[0].type.sizes)
    kernel = OwnKernel(at, "attention.c", "cache_load", dims=dims, PART=at.attrs["part"])
    kernel.write(touched={at.operands[0].name: elements(at.results[0].type)})


# ---------------------------------------------------------------- attention
def require_mask(what: str, attrs: Attrs) -> None:
    """Raises ML667 unless there is such a mask, with such a window and scale."""
    mask, window = attrs["mask"], attrs["window"]
    if mask not in MASKS or not (0 < window < 2**62 if mask in ("window", "chunk") else not window):
        raise ArgumentError(
            "ML667",
            f"{what}: there is no mask {mask!r} with the window {window}",
            fix="use 'causal', 'alibi' or 'null' with window=0, 'window' or 'chunk' with more",
        )
    if not math.isfinite(attrs["scale"]):
        raise ArgumentError(
            "ML667", f"{what}: the scale {attrs['scale']} is not finite", fix="pass 1 / sqrt(dim)"
        )


def _attention_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what = "cache_attention"
    buffer = require_cache(what, types[0], types[1:5])
    q, ends, *sinks = types[5:]
    require_rows(what, buffer, q)
    if ends.dtype is not DType.uint32 or ends.rank != 1:
        raise wrong_shape(what, f"the offsets of keys must be uint32 [batch + 1], got {ends}")
    same_device(what, [q, ends, *sinks])
    heads, dim = int(buffer.shape[4]), int(buffer.shape[5])
    static = q.rank == 3 and all(isinstance(size, StaticDim) for size in q.shape[1:])
    if not static or int(q.shape[2]) != dim or not int(q.shape[1]) or int(q.shape[1]) % heads:
        raise wrong_shape(what, f"the rows must be [tokens, a multiple of {heads}, {dim}], got {q}")
    require_mask(what, attrs)
    for sink in sinks:
        if sink.dtype is not q.dtype or list(sink.shape) != [q.shape[1]]:
            raise wrong_shape(what, f"sinks must be {q.dtype.name} [{q.shape[1]}], got {sink}")
    return [TensorType(q.dtype, Shape(q.shape), q.device)]


def seen(mask: str, window: int, position: int, total: int) -> tuple[int, int]:
    """The first position that a query at ``position`` sees, and the end of those.

    Args:
        mask: One of ``MASKS``.
        window: The keys of a window or of a chunk.
        position: The position of the query.
        total: The tokens of its sequence, cached and new.

    Example:
        >>> seen("window", 3, 7, 10), seen("chunk", 4, 7, 10), seen("null", 0, 7, 10)
        ((5, 8), (4, 8), (0, 10))
    """
    if mask == "null":
        return 0, total
    if mask == "chunk":
        return position // window * window, min(position + 1, total)
    first = max(position + 1 - window, 0) if mask == "window" else 0
    return first, min(position + 1, total)


def slopes(heads: int) -> Array:
    """The slope of the score of each query head, by which it falls with the distance of the key.

    Example:
        >>> slopes(2), slopes(3)
        (array([0.0625    , 0.00390625]), array([0.0625    , 0.00390625, 0.25      ]))
    """
    power = power_below(heads)
    even = [2.0 ** (-8 * (n + 1) / power) for n in range(power)]
    return np.array(even + [2.0 ** (-4 * (2 * n + 1) / power) for n in range(heads - power)])


def _attention_reference(
    call: Call,
    blocks: Array,
    offsets: Array,
    lengths: Array,
    table: Array,
    layer: Array,
    q: Array,
    ends: Array,
    *sinks: Array,
) -> Array:
    mask, window, scale = (call.attrs[name] for name in ("mask", "window", "scale"))
    made = np.zeros(q.shape, np.float64)
    group = q.shape[1] // blocks.shape[4]
    for row, seq, position in sequences_of(offsets, lengths, len(q)):
        total = int(lengths[seq]) + max(int(ends[seq + 1]) - int(ends[seq]), 0)
        places = [
            slot_of(blocks, table, seq, p) for p in range(*seen(mask, window, position, total))
        ]
        if not places:
            continue
        pages, slots = np.array(places).T
        keys, values = (
            np.repeat(blocks[pages, part, int(layer), slots].astype(np.float64), group, axis=1)
            for part in (0, 1)
        )
        scores = np.einsum("hd,khd->hk", q[row].astype(np.float64), keys) * scale
        if mask == "alibi":
            scores -= np.outer(slopes(q.shape[1]), position - np.arange(len(places)))
        if sinks:
            scores = np.concatenate([scores, sinks[0].astype(np.float64)[:, None]], axis=1)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights = (weights / weights.sum(1, keepdims=True))[:, : len(places)]
        made[row] = np.einsum("hk,khd->hd", weights, values)
    found: Array = made.astype(q.dtype)
    return found


def _attention_kernel(at: Site) -> None:
    dims = sizes_of(at, at.results[0].type.sizes)
    keys = dims["batch"] * dims["most"] * dims["page"] * dims["heads"] * dims["dim"]
    touched = {at.operands[0].name: keys * Poly.constant(2)}
    write_attention(at, "cache_attention", dims, len(at.operands) == 8, touched=touched)


def _attention_cost(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> Cost:
    """Two products with the keys and the values of as many tokens as a sequence has pages for."""
    most = operands[3].shape[1].poly * operands[0].shape[3].poly
    return Cost(elements(operands[5]) * most * Poly.constant(4))


define(
    "cache.store",
    "kernel",
    "effect",
    "Writes keys and values of new tokens into the pages of a cache.",
    attrs={"part": INT, "parts": INT, "column": INT},
    infer=_store_infer,
    reference=_store_reference,
    kernel=_store_kernel,
    checks=batch_checks,
    effect="write",
    cost=lambda operands, results, attrs: Cost(Poly.constant(0)),
)

define(
    "cache.load",
    "kernel",
    "effect",
    "Keys or values of new tokens, as they are in the pages of a cache.",
    attrs={"part": INT, "rows": DIM},
    infer=_load_infer,
    reference=_load_reference,
    kernel=_load_kernel,
    checks=batch_checks,
    effect="read",
    cost=lambda operands, results, attrs: Cost(Poly.constant(0)),
)

define(
    "cache.attention",
    "kernel",
    "effect",
    "Attention of the rows of new tokens over the pages of a cache.",
    attrs={"mask": TEXT, "window": INT, "scale": FLOAT},
    infer=_attention_infer,
    reference=_attention_reference,
    kernel=_attention_kernel,
    checks=batch_checks,
    effect="read",
    cost=_attention_cost,
    terms=lambda arrays, attrs: arrays[3].shape[1] * arrays[0].shape[3] * 4 + arrays[0].shape[5],
)

__all__ = [
    "FLOATS",
    "MASKS",
    "batch_checks",
    "require_cache",
    "require_mask",
    "require_rows",
    "seen",
    "sequences_of",
    "sizes_of",
    "slopes",
    "slot_of",
    "wrong_shape",
]
