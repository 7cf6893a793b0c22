"""Ops of a paged cache of latent vectors, of which keys and values of all heads are made [1]_:
``latent.load`` copies vectors of a chunk, ``latent.expand`` makes their keys and values. Attention
over these, and over the vectors themselves, is in ``latent_attention``.

The operands are those of ``cache.attention``, but pages ``[pages, 1, layers, page, 1, dim]`` have
one vector for keys and values. Its last numbers are the part of keys that is turned by positions,
and that all heads share.

A chunk has rows of several sequences: those of the sequence s begin at ``starts[s]``, and the first
one is the token ``firsts[s]`` of the sequence.

.. [1] DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language
   Model", 2024, arXiv:2405.04434, section 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.ir import BufferType, Poly, Shape, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.attention import (
    batch_checks,
    require_cache,
    require_rows,
    sequences_of,
    slot_of,
)
from maxlab.opset.attributes import DIM, INT
from maxlab.opset.convolution_products import KINDS, PANEL, WIDENED
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, define, elements
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.rules import same_device

BLOCK, MOST = 64, 256
"""Rows and columns of a product that a thread of the CPU makes at once."""
SIDE, STEP = 64, 16
"""Rows and columns that a block of a GPU makes, and how many terms it adds at a time."""


# ---------------------------------------------------------------- rules
def wrong_shape(what: str, why: str) -> ShapeError:
    return ShapeError(
        "ML659",
        f"{what}: {why}",
        fix="pages are [pages, 1, layers, page, 1, dim], offsets [batch + 1], lengths [batch], the "
        "table [batch, pages of a sequence], the layer []; a chunk has rows [rows, heads, size]",
    )


def require_latents(what: str, types: Sequence[Any]) -> BufferType:
    """The type of the pages, which have one latent vector of each token."""
    buffer = require_cache(what, types[0], types[1:5], (1,))
    if int(buffer.shape[4]) != 1:
        raise wrong_shape(what, f"latent vectors have one head, got {buffer}")
    return buffer


def _require_count(what: str, buffer: BufferType, count: TensorType) -> None:
    same_device(what, [buffer.as_tensor(), count])
    if count.dtype is not DType.int64 or count.rank:
        raise DTypeError(
            "ML666",
            f"{what}: the number of rows must be int64 of rank 0, got {count}",
            fix="cast it: ops.cast(x, DType.int64)",
        )


def accumulated(dtype: DType) -> DType:
    """The dtype in which sums of ``dtype`` are kept."""
    return DType.float64 if dtype is DType.float64 else DType.float32


def poly(value: int) -> Poly:
    return Poly.constant(value)


def dims_of(at: Site) -> dict[str, Poly]:
    """Sizes by the names that dims have in the text of kernels."""
    blocks, offsets, lengths, table, _ = (o.type.sizes for o in at.operands[:5])
    pages, _, layers, page, heads, dim = blocks
    return {
        "pages": pages, "layers": layers, "page": page, "heads": heads, "dim": dim,
        "ends": offsets[0], "batch": lengths[0], "most": table[1],
    }  # fmt: skip


def _row_checks(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    """The numbers of a chunk are of one batch."""
    return batch_checks(operands[:5], results, attrs)


# ---------------------------------------------------------------- load
def _load_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what = "latent_load"
    buffer = require_latents(what, types)
    _require_count(what, buffer, types[5])
    if not 0 < attrs["width"] <= int(buffer.shape[5]):
        raise ArgumentError(
            "ML667",
            f"{what}: width={attrs['width']} of vectors of {buffer.shape[5]} numbers",
            fix="pass how many numbers of a vector are copied, from the first on",
        )
    shape = Shape([attrs["rows"], StaticDim(attrs["width"])])
    return [TensorType(buffer.dtype, shape, buffer.device)]


def _load_reference(
    call: Call,
    blocks: Array,
    offsets: Array,
    firsts: Array,
    table: Array,
    layer: Array,
    count: Array,
) -> Array:
    made = np.zeros(call.shapes[0], blocks.dtype)
    width = made.shape[1]
    if not 0 <= count <= len(made):
        raise ArgumentError("ML652", f"{count} rows of a chunk of {len(made)}")
    for row, seq, position in sequences_of(offsets, firsts, int(count)):
        page, slot = slot_of(blocks, table, seq, position)
        made[row] = blocks[page, 0, int(layer), slot, 0, :width]
    return made


def _load_kernel(at: Site) -> None:
    rows, width = at.results[0].type.sizes
    dims = {**dims_of(at), "rows": rows, "width": width}
    kernel = OwnKernel(at, "latent.c", "latent_load", dims=dims)
    kernel.write(touched={at.operands[0].name: elements(at.results[0].type)})


# ---------------------------------------------------------------- expand
def _expand_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what = "latent_expand"
    buffer = require_latents(what, types)
    _require_count(what, buffer, types[5])
    weight = types[6]
    require_rows(what, buffer, weight)
    static = weight.rank == 2 and all(isinstance(dim, StaticDim) for dim in weight.shape)
    if not static or not 0 < int(weight.shape[1]) <= int(buffer.shape[5]):
        raise wrong_shape(
            what, f"the weight must be [out, {buffer.shape[5]} or fewer numbers], got {weight}"
        )
    return [TensorType(buffer.dtype, Shape([attrs["rows"], weight.shape[0]]), buffer.device)]


def _expand_reference(
    call: Call,
    blocks: Array,
    offsets: Array,
    firsts: Array,
    table: Array,
    layer: Array,
    count: Array,
    weight: Array,
) -> Array:
    rows, wide = call.shapes[0][0], weight.astype(np.float64)
    load = Call({}, ((rows, weight.shape[1]),), call.dtypes, call.env, call.op)
    vectors = _load_reference(load, blocks, offsets, firsts, table, layer, count)
    made: Array = (vectors.astype(np.float64) @ wide.T).astype(blocks.dtype)
    return made


def _expand_kernel(at: Site) -> None:
    rows, out = at.results[0].type.sizes
    width = at.operands[6].type.sizes[1]
    dims = {**dims_of(at), "rows": rows, "out": out, "width": width}
    touched = {at.operands[0].name: rows * width}
    columns, dtype = int(out.value), at.results[0].dtype
    if at.target == "cuda":
        nbytes = 8 * SIDE + 2 * STEP * (SIDE + 1) * accumulated(dtype).size_in_bytes
        OwnKernel(
            at, "latent.cu", "latent_expand_gpu", dims=dims, SIDE=SIDE, STEP=STEP,
            COLUMNS=-(-columns // SIDE), BYTES=nbytes, LAST=SIDE - 1,
        ).write(touched=touched)  # fmt: skip
        return
    depth, panels = int(width.value), -(-columns // PANEL)
    half, known = dtype in (DType.float16, DType.bfloat16), dtype is DType.float64
    deep = depth + depth % 2 if half else depth
    packed: Any = None
    laid_out = True
    if not known:
        packed = at.packed(at.operands[6], (width, out, ONE, width))
        laid_out = packed is not None
        if packed is None:
            packed = at.temporary(dtype, poly(panels * PANEL * deep))
    nbytes = 8 * BLOCK + (4 * BLOCK * MOST + WIDENED + 64 if half else 0)
    kernel = OwnKernel(
        at, "latent.c", "latent_expand", dims=dims, buffers={} if known else {"packed": packed},
        BLOCK=BLOCK, MOST=MOST, COLUMNS=-(-columns // MOST), DEPTH=deep,
        KIND=KINDS.get(dtype, 0), BYTES=nbytes, LAST=BLOCK - 1, PANELS=panels,
    )  # fmt: skip
    if not laid_out:
        kernel.part("pack")
    kernel.part("product", touched=touched)


def _expand_cost(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> Cost:
    """The product of as many vectors as the sequences have pages for; how many of them a chunk has
    is seen in a run."""
    vectors = elements(operands[3]) * operands[0].shape[3].poly
    return Cost(vectors * elements(operands[6]) * poly(2))


define(
    "latent.load",
    "kernel",
    "effect",
    "Latent vectors of a chunk, as they are in the pages of a cache.",
    attrs={"rows": DIM, "width": INT},
    infer=_load_infer,
    reference=_load_reference,
    kernel=_load_kernel,
    checks=_row_checks,
    effect="read",
    cost=lambda operands, results, attrs: Cost(Poly.constant(0)),
)

define(
    "latent.expand",
    "kernel",
    "effect",
    "Keys and values of a chunk of latent vectors, which are in the pages of a cache.",
    attrs={"rows": DIM},
    infer=_expand_infer,
    reference=_expand_reference,
    kernel=_expand_kernel,
    checks=_row_checks,
    effect="read",
    cost=_expand_cost,
    terms=lambda arrays, attrs: int(arrays[6].shape[1]),
)

__all__ = ["accumulated", "dims_of", "poly", "require_latents", "wrong_shape"]
