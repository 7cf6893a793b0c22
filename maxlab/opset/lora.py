"""Ops of adapters of low rank (LoRA) [1]_: ``lora.product`` multiplies each row of a ragged batch
by the matrix of its adapter, ``cache.add_lora`` adds such products to keys or values in pages.

``w`` ``[slots, rows, columns]`` has a matrix for each adapter. Rows lie in groups, each of one
adapter: ``bounds`` ``[groups + 1]`` say where groups begin, ``ids`` ``[groups]`` name adapters, of
which -1 is the base, ``ranks`` ``[groups]`` say how many rows or columns of a matrix count. No
matrix is read for rows of the base. The way of batching is that of Punica [2]_.

.. [1] E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, arXiv:2106.09685.
.. [2] L. Chen et al., "Punica: Multi-Tenant LoRA Serving", 2023, arXiv:2310.18547.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.ir import Poly, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE, ZERO
from maxlab.opset.attention import (
    FLOATS,
    batch_checks,
    require_cache,
    require_rows,
    sequences_of,
    sizes_of,
    slot_of,
)
from maxlab.opset.attributes import INT, TEXT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.rules import same_device

CUTS = ("rows", "columns", "none")
"""The part of a matrix that counts: its first ``rank`` rows, as of the matrix A; its first ``rank``
columns, as of B; or all of it."""
LONG = 64
"""The columns of a matrix from which on the threads of a warp share an output."""
ROWS, MANY, BLOCK = 16, 4, 512
"""On the CPU: the rows of a tile; those of one adapter that are computed together, as vectors, at
least; and the columns that are laid out for that at once."""


# ---------------------------------------------------------------- rules
def _require_product(what: str, types: Sequence[Any], attrs: Attrs, taken: int) -> TensorType:
    """The type of the matrices, of which ``taken`` rows are used from ``attrs["row"]`` on.

    Raises:
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.
        ArgumentError: ML667, attributes out of range.
        DeviceError: The operands are on several devices.
    """
    x, w, ids, ranks, bounds, *bias = types
    same_device(what, types)
    if x.dtype not in FLOATS or any(each.dtype is not x.dtype for each in (w, *bias)):
        names = ", ".join(each.dtype.name for each in (x, w, *bias))
        raise DTypeError(
            "ML666",
            f"{what}: rows, matrices and bias must be of one float dtype, got {names}",
            fix="cast them: ops.cast(x, dtype)",
        )
    for name, each, dtype in (
        ("ids", ids, DType.int32),
        ("ranks", ranks, DType.uint32),
        ("bounds", bounds, DType.uint32),
    ):
        if each.dtype is not dtype:
            raise DTypeError(
                "ML666",
                f"{what}: the {name} must be {dtype.name}, got {each.dtype.name}",
                fix=f"cast them: ops.cast(x, DType.{dtype.name})",
            )
        if each.rank != 1:
            raise _wrong(what, f"the {name} must have rank 1, got {each}")
    static = x.rank == 2 and w.rank == 3 and all(
        isinstance(dim, StaticDim) for dim in (x.shape[1], *w.shape)
    )  # fmt: skip
    if not static:
        raise _wrong(what, f"rows must be [tokens, width], matrices of known sizes, got {x}, {w}")
    cut, parts, column, row = (attrs[name] for name in ("cut", "parts", "column", "row"))
    slots, many, depth = map(int, w.shape)
    if cut not in CUTS or parts < 1 or column < 0 or row < 0 or (cut == "rows" and many % parts):
        raise ArgumentError(
            "ML667",
            f"{what}: cut={cut!r}, parts={parts}, column={column}, row={row} do not fit {w}",
            fix=f"cut is one of {', '.join(CUTS)}; parts divide the rows; the others are not "
            "negative",
        )
    width = column + depth * (parts if cut == "columns" else 1)
    if int(x.shape[1]) < width or many < row + taken:
        raise _wrong(
            what,
            f"rows of {x.shape[1]} columns and matrices of {many} rows, of which columns up to "
            f"{width} and rows up to {row + taken} are used",
        )
    if bias and list(bias[0].shape) != [slots, many]:
        raise _wrong(what, f"the bias must be [{slots}, {many}], got {bias[0]}")
    found: TensorType = w
    return found


def _wrong(what: str, why: str) -> ShapeError:
    return ShapeError(
        "ML659",
        f"{what}: {why}",
        fix="rows are [tokens, width], matrices [adapters, rows, columns], ids and ranks [groups], "
        "bounds [groups + 1], the bias [adapters, rows]",
    )


def _group_checks(what: str, ids: Any, ranks: Any, bounds: Any) -> list[Check]:
    """Ids, ranks and bounds are of the same groups."""
    many = ids.shape[0].poly
    pairs = (
        (bounds.shape[0].poly, many + ONE, "bounds are not one more than the ids"),
        (ranks.shape[0].poly, many, "there are not as many ranks as ids"),
    )
    return [
        Check(left, "==", right, f"{what}: {text}")
        for left, right, text in pairs
        if not (left - right).is_constant or (left - right).value
    ]


def _adapters(ids: Array, ranks: Array, bounds: Array, slots: int) -> Iterator[tuple[int, int]]:
    """The rows of adapters, with the group of each."""
    for group, (adapter, first, end) in enumerate(zip(ids, bounds[:-1], bounds[1:], strict=True)):
        if not -1 <= adapter < slots:
            raise ArgumentError("ML652", f"there is no adapter {adapter} among {slots}")
        if adapter >= 0:
            yield from ((row, group) for row in range(int(first), int(end)))


def _cut(matrix: Array, rank: int, cut: str, parts: int) -> Array:
    """``matrix`` in float64, with zeros where it does not count."""
    made = np.zeros(matrix.shape)
    if rank > (matrix.shape[1] if cut == "columns" else len(matrix) // parts) and cut != "none":
        raise ArgumentError("ML652", f"the rank {rank} is above that of the matrices")
    if cut == "columns":
        made[:, :rank] = matrix[:, :rank]
    elif cut == "rows":
        size = len(matrix) // parts
        kept = np.arange(len(matrix)) % size < rank
        made[kept] = matrix[kept]
    else:
        made[:] = matrix
    return made


# ---------------------------------------------------------------- product
def _product_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what, rows = "lora_product", attrs["rows"]
    if rows < 0:
        raise ArgumentError("ML667", f"{what}: rows={rows} is negative", fix="pass 0 or more")
    if attrs["cut"] == "columns" and attrs["parts"] != 1:
        raise ArgumentError(
            "ML667",
            f"{what}: parts={attrs['parts']} with cut='columns'",
            fix="make a product for each part",
        )
    _require_product(what, types, attrs, rows)
    x = types[0]
    return [TensorType(x.dtype, [x.shape[0], rows], x.device)]


def _product_reference(
    call: Call, x: Array, w: Array, ids: Array, ranks: Array, bounds: Array, *bias: Array
) -> Array:
    cut, parts, column, row = (call.attrs[name] for name in ("cut", "parts", "column", "row"))
    made = np.zeros(call.shapes[0])
    for token, group in _adapters(ids, ranks, bounds, len(w)):
        if token < len(x):
            matrix = _cut(w[ids[group]], int(ranks[group]), cut, parts)
            sums = matrix @ x[token, column : column + w.shape[2]].astype(np.float64)
            if bias:
                sums = sums + bias[0][ids[group]]
            made[token] = sums[row : row + made.shape[1]]
    found: Array = made.astype(x.dtype)
    return found


def _product_kernel(at: Site) -> None:
    attrs = at.attrs
    (tokens, width), (slots, many, depth), (groups,), _, (stops,) = (
        o.type.sizes for o in at.operands[:5]
    )
    dims = {
        "tokens": tokens, "width": width, "slots": slots, "many": many, "depth": depth,
        "groups": groups, "stops": stops, "out": at.results[0].type.sizes[1],
    }  # fmt: skip
    long = int(depth.value) >= LONG and attrs["cut"] != "columns"
    rows, chunk, nbytes = 1, 4 if long else 128, 0
    if at.target == "c":
        rows, chunk = ROWS, 16 if long else 256
        size = 8 if at.results[0].dtype is DType.float64 else 4
        nbytes = (BLOCK + chunk) * ROWS * size
    kernel = OwnKernel(
        at, "lora.c", "lora_product", dims=dims, CUT=attrs["cut"], PARTS=attrs["parts"],
        COLUMN=attrs["column"], ROW=attrs["row"], BIAS=len(at.operands) == 6, CHUNK=chunk,
        LONG=long, ROWS=rows, MANY=MANY, BLOCK=BLOCK, BYTES=nbytes,
    )  # fmt: skip
    kernel.write()


def _product_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    return _group_checks("lora_product", *operands[2:5])


def _product_cost(operands: Sequence[Any], results: Sequence[Any], attrs: Attrs) -> Cost:
    """All rows are counted as those of adapters with the largest rank."""
    return Cost(elements(results[0]) * operands[1].shape[2].poly * Poly.constant(2))


def _product_samples() -> list[Sample]:
    rng = np.random.default_rng(21)

    def sample(
        cut: str,
        kind: DType,
        sizes: tuple[int, int, int],
        label: str,
        biased: bool,
        times: int = 1,
        split: int = 1,
        **more: int,
    ) -> Sample:
        numbers = {"parts": 1, "column": 0, "row": 0, "rows": sizes[1]} | more
        width = sizes[2] + numbers["column"] + 1
        x, w = (rng.standard_normal(s).astype(kind.ml_numpy) for s in ((13 * times, width), sizes))
        ids: Array = np.array([1, -1, 0, sizes[0] - 1], np.int32)
        most = {"rows": sizes[1] // numbers["parts"], "columns": sizes[2], "none": 9}[cut]
        ranks: Array = np.array([most, 7000, max(most // 2, 1), 0], np.uint32)
        bounds = np.array([1, 4, 6, 10, 11], np.uint32) * np.uint32(times)
        if split > 1:  # several groups of one adapter
            ids, ranks = (np.repeat(array, split) for array in (ids, ranks))
            bounds = np.arange(len(ids) + 1, dtype=np.uint32) + bounds[0]
        bias = (rng.standard_normal(sizes[:2]).astype(kind.ml_numpy),) if biased else ()
        names = (("t", width), sizes, ("groups",), ("groups",), ("stops",), *([sizes[:2]] * biased))
        return Sample((x, w, ids, ranks, bounds, *bias), {"cut": cut, **numbers}, names, label)

    return [
        sample("rows", DType.float32, (3, 12, 90), "down", False, parts=3),
        sample("rows", DType.bfloat16, (3, 8, 33), "down to a few", False),
        sample("rows", DType.float32, (2, 7, 600), "down from many", False, 9),
        sample("rows", DType.float32, (3, 5, 70), "rows of their own", False, 3, 9),
        sample("columns", DType.float32, (3, 300, 8), "up", True),
        sample("columns", DType.float32, (3, 267, 9), "up of many", False, 8),
        sample("columns", DType.float16, (3, 40, 4), "up, a part", True, column=4, row=8, rows=24),
        sample("none", DType.float64, (3, 5, 70), "whole", True),
    ]


# ---------------------------------------------------------------- addition to a cache
def _add_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what, part, parts = "cache_add_lora", attrs["part"], attrs["parts"]
    buffer = require_cache(what, types[0], types[1:5])
    require_rows(what, buffer, types[5])
    if part < 0 or parts < 1 or part + parts > 2:
        raise ArgumentError(
            "ML667",
            f"{what}: part={part}, parts={parts} are no keys or values",
            fix="part=0 for keys, part=1 for values, parts=2 for both from part 0 on",
        )
    taken = parts * int(buffer.shape[4]) * int(buffer.shape[5])
    _require_product(what, types[5:], {**attrs, "cut": "columns"}, taken)
    return []


def _add_reference(
    call: Call,
    blocks: Array,
    offsets: Array,
    lengths: Array,
    table: Array,
    layer: Array,
    x: Array,
    w: Array,
    ids: Array,
    ranks: Array,
    bounds: Array,
    *bias: Array,
) -> list[Array]:
    part, parts, column, row = (call.attrs[name] for name in ("part", "parts", "column", "row"))
    places = {token: (seq, pos) for token, seq, pos in sequences_of(offsets, lengths, len(x))}
    heads = blocks.shape[4:]
    size, depth = heads[0] * heads[1], w.shape[2]
    for token, group in _adapters(ids, ranks, bounds, len(w)):
        if token >= len(x):
            continue
        page, slot = slot_of(blocks, table, *places[token])
        matrix = _cut(w[ids[group]], int(ranks[group]), "columns", 1)
        for number in range(parts):
            start = row + number * size
            values = x[token, column + number * depth :][:depth].astype(np.float64)
            sums = matrix[start : start + size] @ values
            if bias:
                sums = sums + bias[0][ids[group], start : start + size]
            there = blocks[page, part + number, int(layer), slot]
            there[:] = (there.astype(np.float64) + sums.reshape(heads)).astype(blocks.dtype)
    return []


def _add_kernel(at: Site) -> None:
    attrs, (tokens, width) = at.attrs, at.operands[5].type.sizes
    (slots, many, depth), (groups,), _, (stops,) = (o.type.sizes for o in at.operands[6:10])
    dims = sizes_of(at, (tokens, width)) | {
        "slots": slots, "many": many, "depth": depth, "groups": groups, "stops": stops,
    }  # fmt: skip
    parts = attrs["parts"]
    touched = tokens * dims["heads"] * dims["dim"] * Poly.constant(parts)
    kernel = OwnKernel(
        at, "lora.c", "cache_add_lora", dims=dims, CUT="columns", PART=attrs["part"], PARTS=parts,
        COLUMN=attrs["column"], ROW=attrs["row"], BIAS=len(at.operands) == 11,
    )  # fmt: skip
    if at.target == "c":
        kernel.part("check", touched={at.operands[0].name: ZERO})
    kernel.part("add", touched={at.operands[0].name: touched})


def _add_checks(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    found = batch_checks(operands[:6], results, attrs)
    return [*found, *_group_checks("cache_add_lora", *operands[7:10])]


def _add_cost(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> Cost:
    """All rows are counted as those of adapters with the largest rank."""
    blocks, x, w = operands[0], operands[5], operands[6]
    made = x.shape[0].poly * blocks.shape[4].poly * blocks.shape[5].poly
    return Cost(made * w.shape[2].poly * Poly.constant(2 * attrs["parts"]))


define(
    "lora.product",
    "kernel",
    "contract",
    "Each row times the matrix of its adapter; 0 for rows of the base.",
    attrs={"cut": TEXT, "parts": INT, "column": INT, "row": INT, "rows": INT},
    infer=_product_infer,
    reference=_product_reference,
    kernel=_product_kernel,
    checks=_product_checks,
    cost=_product_cost,
    samples=_product_samples,
    terms=lambda arrays, attrs: arrays[1].shape[2] + 1,
)

define(
    "cache.add_lora",
    "kernel",
    "effect",
    "Adds products with the matrices of adapters to keys and values of new tokens in their pages.",
    attrs={"part": INT, "parts": INT, "column": INT, "row": INT},
    infer=_add_infer,
    reference=_add_reference,
    kernel=_add_kernel,
    checks=_add_checks,
    effect="write",
    cost=_add_cost,
)

__all__ = ["CUTS", "LONG"]
