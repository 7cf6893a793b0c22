"""Attention over a paged cache of latent vectors: ``latent.chunk`` is that over keys and values
that ``latent.expand`` made of a chunk, ``latent.attention`` that over the vectors themselves,
with queries that were brought into their space.

``latent`` says what the operands are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.ir import Shape, StaticDim, TensorType, Type
from maxlab.opset.attention import (
    batch_checks,
    require_mask,
    require_rows,
    seen,
    sequences_of,
    slopes,
    slot_of,
)
from maxlab.opset.attention_kernels import WARPS
from maxlab.opset.attributes import FLOAT, INT, TEXT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, define, elements
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.latent import accumulated, dims_of, poly, require_latents, wrong_shape
from maxlab.opset.rules import same_device

MASKS = ("causal", "alibi", "null")
"""The keys that a query sees, as of ``cache.attention``."""
QUERIES = 32
"""Rows that a thread of the CPU takes at once, so that keys are turned once for all of them."""
HEADS = 8
"""The most heads of a row that it takes at once where these share keys."""
TILE, COLUMNS = 64, 128
"""Keys that it takes at once, and numbers of their values."""


# ---------------------------------------------------------------- rules
def _require_masked(what: str, attrs: Attrs) -> None:
    require_mask(what, {**attrs, "window": 0})
    if attrs["mask"] not in MASKS:
        raise ArgumentError(
            "ML667", f"{what}: there is no mask {attrs['mask']!r}", fix=f"use one of {MASKS}"
        )


def sizes_of(x: TensorType, rank: int) -> list[int]:
    """The sizes of ``x`` behind the first; none where it has another rank, or names of sizes."""
    fits = x.rank == rank and all(isinstance(dim, StaticDim) for dim in x.shape[1:])
    return [int(dim) for dim in x.shape[1:]] if fits else []


def _latents(blocks: Array, table: Array, layer: Array, seq: int, positions: range) -> Array:
    """The vectors of some positions, in float64."""
    places = [slot_of(blocks, table, seq, position) for position in positions]
    found = [blocks[page, 0, int(layer), slot, 0] for page, slot in places]
    return np.array(found, np.float64).reshape(len(places), blocks.shape[5])


# ---------------------------------------------------------------- chunk
def _chunk_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what = "latent_chunk"
    buffer = require_latents(what, types)
    q, keys, values, starts, firsts, *before = types[5:]
    _require_masked(what, attrs)
    for rows in (q, keys, values):
        require_rows(what, buffer, rows)
    same_device(what, [q, starts, firsts, *before])
    if any(x.dtype is not DType.uint32 or x.rank != 1 for x in (starts, firsts)):
        raise wrong_shape(
            what, f"offsets of a chunk must be uint32 of rank 1, got {starts}, {firsts}"
        )
    rope, column, size = attrs["rope"], attrs["column"], attrs["size"]
    wide, depth = sizes_of(q, 3) or (0, 0)
    nope, dim = depth - rope, int(buffer.shape[5])
    left, right = sizes_of(keys, 3), sizes_of(values, 3)
    fits = wide > 0 and 0 < rope < dim and nope > 0 and column >= 0 and size > 0
    fits &= bool(left and right) and left[0] == right[0] == wide and left[1] >= nope
    if not fits or right[1] < column + size or keys.shape[0] != values.shape[0]:
        raise wrong_shape(
            what,
            f"rope={rope}, column={column}, size={size}: queries must be [tokens, heads, nope + "
            f"rope], keys [rows, heads, nope or more], values [rows, heads, column + size or more],"
            f" got {q}, {keys}, {values} and vectors of {dim} numbers",
        )
    shape = [*q.shape[:2], StaticDim(size)]
    state = TensorType(accumulated(q.dtype), Shape([*q.shape[:2], StaticDim(2)]), q.device)
    result = TensorType(q.dtype, Shape(shape), q.device)
    if before and before != [result, state]:
        raise wrong_shape(
            what, f"the result and the state before must be {result} and {state}, got {before}"
        )
    return [result, state]


def _chunk_reference(
    call: Call,
    blocks: Array,
    offsets: Array,
    lengths: Array,
    table: Array,
    layer: Array,
    q: Array,
    keys: Array,
    values: Array,
    starts: Array,
    firsts: Array,
    *before: Array,
) -> list[Array]:
    mask, scale, rope = (call.attrs[name] for name in ("mask", "scale", "rope"))
    column, size = call.attrs["column"], call.attrs["size"]
    nope, fall = q.shape[2] - rope, slopes(q.shape[1])
    made, state = np.zeros(call.shapes[0]), np.zeros(call.shapes[1])
    state[..., 0] = -np.inf
    if before:
        made[:], state[:] = before[0], before[1]
    for row, seq, position in sequences_of(offsets, lengths, len(q)):
        low, high, base = int(starts[seq]), int(starts[seq + 1]), int(firsts[seq])
        if not low <= high <= len(keys):
            raise ArgumentError("ML652", f"rows {low} to {high} of a chunk of {len(keys)}")
        total = int(lengths[seq]) + int(offsets[seq + 1]) - int(offsets[seq])
        end = min(seen(mask, 0, position, total)[1], base + high - low)
        if end <= base:
            continue
        rows = slice(low, low + end - base)
        turned = _latents(blocks, table, layer, seq, range(base, end))[:, -rope:]
        query = q[row].astype(np.float64)
        scores = np.einsum("hd,khd->hk", query[:, :nope], keys[rows, :, :nope].astype(np.float64))
        scores = (scores + query[:, nope:] @ turned.T) * scale
        if mask == "alibi":
            scores -= np.outer(fall, position - np.arange(base, end))
        top = np.maximum(state[row, :, 0], scores.max(1))
        weights, kept = np.exp(scores - top[:, None]), np.exp(state[row, :, 0] - top)
        share = state[row, :, 1] * kept
        parts = values[rows, :, column : column + size].astype(np.float64)
        whole = share + weights.sum(1)
        made[row] = made[row] * share[:, None] + np.einsum("hk,khd->hd", weights, parts)
        made[row] /= whole[:, None]
        state[row] = np.stack([top, whole], 1)
    return [made, state]


def _chunk_magnitude(arrays: Sequence[Array], attrs: Attrs) -> Array:
    """The numbers that rounding errors of a row grow with, [tokens, heads, 1]: its values, or its
    sum of exponentials, times the size of its scores."""
    shape = (*arrays[5].shape[:2], attrs["size"])
    call = Call(attrs, (shape, (*shape[:2], 2)), (), {})
    sizes = [x if x.dtype.kind in "biu" else np.abs(x) for x in arrays[:10]]
    made, state = _chunk_reference(call, *sizes)
    whole = _chunk_reference(call, *arrays)[1][..., 1]
    largest = np.maximum(made.max(2, initial=0), whole)
    scores = np.where(np.isfinite(state[..., 0]), state[..., 0], 0)
    found: Array = (largest * (1 + scores))[..., None]
    return found


def _chunk_kernel(at: Site) -> None:
    attrs = at.attrs
    (tokens, wide, depth), keys, values = (o.type.sizes for o in at.operands[5:8])
    dims = {
        **dims_of(at), "tokens": tokens, "wide": wide, "depth": depth, "rows": keys[0],
        "reached": keys[2], "large": values[2],
    }  # fmt: skip
    size, deep, heads = attrs["size"], int(depth.value), int(wide.value)
    nbytes = accumulated(at.results[0].dtype).size_in_bytes
    more: dict[str, Any] = {
        "MASK": attrs["mask"], "SCALE": float(attrs["scale"]), "POWER": _power(heads), "WINDOW": 0,
        "NOPE": deep - attrs["rope"], "ROPE": attrs["rope"], "AT": attrs["column"], "SIZE": size,
        "PRIOR": len(at.operands) > 10,
    }  # fmt: skip
    if at.target == "cuda":
        more |= {
            "EACH": -(-deep // 32), "LARGE": -(-size // 32), "WARPS": WARPS,
            "BYTES": nbytes * WARPS * (size + 2),
        }  # fmt: skip
        kernel = OwnKernel(at, "latent.cu", "latent_chunk_gpu", dims=dims, **more)
    else:
        more |= {
            "QUERIES": QUERIES, "LAST": QUERIES - 1, "TILE": TILE, "COLUMNS": COLUMNS,
            "BYTES": nbytes * _scratch(QUERIES, deep, size),
        }  # fmt: skip
        kernel = OwnKernel(at, "latent.c", "latent_chunk", dims=dims, **more)
    kernel.write(touched={at.operands[0].name: keys[0] * poly(attrs["rope"])})


def _scratch(rows: int, deep: int, size: int) -> int:
    """Numbers in the memory of a thread of the CPU that takes ``rows`` queries: these, their sums
    and scores, a tile of keys and one of values."""
    return rows * (deep + size + TILE + 2) + TILE * (TILE + COLUMNS)


def _power(heads: int) -> int:
    """The greatest power of two that is not above ``heads``."""
    return 1 << (heads.bit_length() - 1)


def _chunk_checks(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    """The numbers, and those of the chunk, are of one batch."""
    ends, lengths = operands[1].shape[0].poly, operands[2].shape[0].poly
    starts, firsts = (operands[n].shape[0].poly for n in (8, 9))
    pairs = (
        (ends, starts, "there are not as many offsets of the chunk as of rows"),
        (lengths, firsts, "there are not as many first tokens as cache lengths"),
    )
    more = [
        Check(left, "==", right, f"latent_chunk: {text}")
        for left, right, text in pairs
        if not (left - right).is_constant or (left - right).value
    ]
    return [*batch_checks(operands[:5], results, attrs), *more]


# ---------------------------------------------------------------- attention
def _attention_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what = "latent_attention"
    buffer = require_latents(what, types)
    q, dim = types[5], int(buffer.shape[5])
    require_rows(what, buffer, q)
    _require_masked(what, attrs)
    wide, depth = sizes_of(q, 3) or (0, 0)
    if not wide or depth != dim or not 0 < attrs["size"] <= dim:
        raise wrong_shape(
            what,
            f"size={attrs['size']}: the queries must be [tokens, heads, {dim}], values have up to "
            f"{dim} numbers, got {q}",
        )
    return [TensorType(q.dtype, Shape([*q.shape[:2], StaticDim(attrs["size"])]), q.device)]


def _attention_reference(
    call: Call,
    blocks: Array,
    offsets: Array,
    lengths: Array,
    table: Array,
    layer: Array,
    q: Array,
) -> Array:
    mask, scale, size = (call.attrs[name] for name in ("mask", "scale", "size"))
    made = np.zeros(call.shapes[0], np.float64)
    for row, seq, position in sequences_of(offsets, lengths, len(q)):
        total = int(lengths[seq]) + int(offsets[seq + 1]) - int(offsets[seq])
        keys = _latents(blocks, table, layer, seq, range(*seen(mask, 0, position, total)))
        scores = q[row].astype(np.float64) @ keys.T * scale
        if mask == "alibi":
            scores -= np.outer(slopes(q.shape[1]), position - np.arange(len(keys)))
        weights = np.exp(scores - scores.max(1, keepdims=True))
        made[row] = weights / weights.sum(1, keepdims=True) @ keys[:, :size]
    found: Array = made.astype(q.dtype)
    return found


def _attention_kernel(at: Site) -> None:
    attrs, (tokens, wide, dim) = at.attrs, at.operands[5].type.sizes
    dims = {**dims_of(at), "tokens": tokens, "wide": wide}
    size, deep, heads = attrs["size"], int(dim.value), int(wide.value)
    nbytes = accumulated(at.results[0].dtype).size_in_bytes
    more: dict[str, Any] = {
        "MASK": attrs["mask"], "SCALE": float(attrs["scale"]), "POWER": _power(heads), "WINDOW": 0,
        "SIZE": size,
    }  # fmt: skip
    if at.target == "cuda":
        more |= {
            "EACH": -(-deep // 32), "LARGE": -(-size // 32), "WARPS": WARPS,
            "BYTES": nbytes * WARPS * (size + 2),
        }  # fmt: skip
        kernel = OwnKernel(at, "latent.cu", "latent_attention_gpu", dims=dims, **more)
    else:
        group = max(n for n in range(1, HEADS + 1) if heads % n == 0)
        more |= {
            "GROUP": group, "TILE": TILE, "COLUMNS": COLUMNS,
            "BYTES": nbytes * _scratch(group, deep, size),
        }  # fmt: skip
        kernel = OwnKernel(at, "latent.c", "latent_attention", dims=dims, **more)
    keys = dims["batch"] * dims["most"] * dims["page"] * dim
    kernel.write(touched={at.operands[0].name: keys})


def _cost(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> Cost:
    """Two products with the keys and the values of as many tokens as a sequence has pages for."""
    most = operands[3].shape[1].poly * operands[0].shape[3].poly
    return Cost((elements(operands[5]) + elements(results[0])) * most * poly(2))


define(
    "latent.chunk",
    "kernel",
    "effect",
    "Attention of new tokens over the keys and values of a chunk, and of the chunks before.",
    attrs={"mask": TEXT, "scale": FLOAT, "rope": INT, "column": INT, "size": INT},
    infer=_chunk_infer,
    reference=_chunk_reference,
    kernel=_chunk_kernel,
    checks=_chunk_checks,
    effect="read",
    cost=_cost,
    terms=lambda arrays, attrs: arrays[6].shape[0] * 4 + arrays[5].shape[2],
    magnitude=_chunk_magnitude,
)

define(
    "latent.attention",
    "kernel",
    "effect",
    "Attention of new tokens over latent vectors in the pages of a cache.",
    attrs={"mask": TEXT, "scale": FLOAT, "size": INT},
    infer=_attention_infer,
    reference=_attention_reference,
    kernel=_attention_kernel,
    checks=batch_checks,
    effect="read",
    cost=_cost,
    terms=lambda arrays, attrs: arrays[3].shape[1] * arrays[0].shape[3] * 4 + arrays[0].shape[5],
)

__all__ = ["MASKS"]
