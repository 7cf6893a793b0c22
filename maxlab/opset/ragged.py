"""Ops of ragged batches, whose rows lie one sequence after another: ``offsets`` ``[batch + 1]`` say
where the rows of each sequence begin. A row of no sequence ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError
from maxlab.ir import Poly, Shape, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.attention import (
    FLOATS,
    require_mask,
    seen,
    sequences_of,
    slopes,
    wrong_shape,
)
from maxlab.opset.attention_kernels import write_attention
from maxlab.opset.attributes import DIM, FLOAT, INT, TEXT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.rules import same_device


# ---------------------------------------------------------------- sequences
def _sequences_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (offsets,) = types
    if offsets.dtype is not DType.uint32:
        raise DTypeError(
            "ML666",
            f"ragged_sequences: the row offsets must be uint32, got {offsets.dtype.name}",
            fix="cast them: ops.cast(x, DType.uint32)",
        )
    if offsets.rank != 1:
        raise wrong_shape("ragged_sequences", f"the row offsets must have rank 1, got {offsets}")
    return [TensorType(DType.int64, [attrs["rows"]], offsets.device)]


def _sequences_reference(call: Call, offsets: Array) -> Array:
    rows = np.arange(call.shapes[0][0])
    if len(rows) and (len(offsets) < 2 or offsets[0] > 0 or offsets[-1] < len(rows)):
        raise ArgumentError("ML652", f"{len(rows)} rows, of which some belong to no sequence")
    found: Array = np.searchsorted(offsets, rows, side="right") - 1
    return found


def _sequences_kernel(at: Site) -> None:
    (rows,), (ends,) = at.results[0].type.sizes, at.operands[0].type.sizes
    dims, sizes = {"tokens": rows, "ends": ends}, {"BATCH": ends - ONE}
    OwnKernel(at, "attention.c", "ragged_sequences", dims=dims, sizes=sizes).write()


def _sequences_samples() -> list[Sample]:
    def sample(offsets: Sequence[int], label: str) -> Sample:
        array = np.array(offsets, np.uint32)
        return Sample((array,), {"rows": int(array[-1])}, label=label)

    return [
        sample([0, 3, 4, 9], "plain"),
        sample([0, 0, 2, 2, 2, 5, 5], "empty sequences"),
        sample([0], "no sequences"),
        sample(np.arange(0, 700, 7).tolist(), "many"),
    ]


# ---------------------------------------------------------------- attention
def _ragged_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    what = "ragged_attention"
    q, k, v, *numbers = types
    require_mask(what, attrs)
    same_device(what, types)
    if q.dtype not in FLOATS or k.dtype is not q.dtype or v.dtype is not q.dtype:
        raise DTypeError(
            "ML666",
            f"{what}: queries, keys and values must be of one float dtype, got {q.dtype.name}, "
            f"{k.dtype.name} and {v.dtype.name}",
            fix="cast them: ops.cast(x, dtype)",
        )
    if any(x.dtype is not DType.uint32 or x.rank != 1 for x in numbers):
        raise wrong_shape(what, f"offsets and lengths must be uint32 of rank 1, got {numbers}")
    static = all(
        x.rank == 3 and all(isinstance(dim, StaticDim) and int(dim) for dim in x.shape[1:])
        for x in (q, k, v)
    )
    if (
        not static
        or list(k.shape) != list(v.shape)
        or [k.shape[0], k.shape[2]] != [q.shape[0], q.shape[2]]
        or int(q.shape[1]) % int(k.shape[1])
    ):
        raise wrong_shape(
            what,
            "queries must be [tokens, a multiple of heads, dim], keys and values [tokens, heads, "
            f"dim], got {q}, {k} and {v}",
        )
    return [TensorType(q.dtype, Shape(q.shape), q.device)]


def _ragged_reference(
    call: Call, q: Array, k: Array, v: Array, offsets: Array, *known: Array
) -> Array:
    mask, window, scale = (call.attrs[name] for name in ("mask", "window", "scale"))
    made = np.zeros(q.shape, np.float64)
    group = q.shape[1] // k.shape[1]
    wide = [np.repeat(x.astype(np.float64), group, axis=1) for x in (k, v)]
    for row, seq, position in sequences_of(offsets, np.zeros(len(offsets) - 1, int), len(q)):
        first = int(offsets[seq])
        total = int(offsets[seq + 1]) - first
        total = min(total, int(known[0][seq])) if known else total
        begin, end = seen(mask, window, position, total)
        if position >= total or begin >= end:
            continue
        keys, values = (x[first + begin : first + end] for x in wide)
        scores = np.einsum("hd,khd->hk", q[row].astype(np.float64), keys) * scale
        if mask == "alibi":
            scores -= np.outer(slopes(q.shape[1]), position - np.arange(end))
        weights = np.exp(scores - scores.max(1, keepdims=True, initial=-np.inf))
        weights /= weights.sum(1, keepdims=True)
        made[row] = np.einsum("hk,khd->hd", weights, values)
    found: Array = made.astype(q.dtype)
    return found


def _ragged_kernel(at: Site) -> None:
    (tokens, wide, dim), (_, heads, _), _, (ends,) = (o.type.sizes for o in at.operands[:4])
    dims = {"tokens": tokens, "wide": wide, "dim": dim, "heads": heads, "ends": ends}
    known = len(at.operands) == 5
    write_attention(at, "ragged_attention", dims, False, sizes={"BATCH": ends - ONE}, KNOWN=known)


def _ragged_samples() -> list[Sample]:
    rng = np.random.default_rng(12)
    found = []
    for mask, window, kind in (
        ("causal", 0, DType.float32),
        ("null", 0, DType.float16),
        ("window", 3, DType.float64),
        ("chunk", 4, DType.bfloat16),
        ("alibi", 0, DType.float32),
    ):
        attrs = {"mask": mask, "window": window, "scale": 0.3}
        shapes = ((17, 6, 5), (17, 2, 5), (17, 2, 5))
        rows = [rng.standard_normal(shape).astype(kind.ml_numpy) for shape in shapes]
        offsets = np.array([0, 1, 1, 8, 17], np.uint32)
        names = (("t", 6, 5), ("t", 2, 5), ("t", 2, 5), ("ends",))
        found.append(Sample((*rows, offsets), attrs, names, mask))
        known = np.array([1, 0, 3, 100], np.uint32)
        found.append(Sample((*rows, offsets, known), attrs, label=f"{mask} of some"))
    return found


def _ragged_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    if len(operands) < 5:
        return []
    ends, batch = operands[3].shape[0].poly, operands[4].shape[0].poly + ONE
    if (ends - batch).is_constant and not (ends - batch).value:
        return []
    text = "ragged_attention: row offsets are not one more than the lengths"
    return [Check(ends, "==", batch, text)]


define(
    "ragged.sequences",
    "kernel",
    "index",
    "The sequence of each row of a ragged batch.",
    attrs={"rows": DIM},
    infer=_sequences_infer,
    reference=_sequences_reference,
    kernel=_sequences_kernel,
    cost=lambda operands, results, attrs: Cost(Poly.constant(0)),
    samples=_sequences_samples,
)

define(
    "ragged.attention",
    "kernel",
    "contract",
    "Attention of the rows of each sequence of a ragged batch over its own rows.",
    attrs={"mask": TEXT, "window": INT, "scale": FLOAT},
    infer=_ragged_infer,
    reference=_ragged_reference,
    kernel=_ragged_kernel,
    checks=_ragged_checks,
    cost=lambda operands, results, attrs: Cost(
        elements(operands[0]) * operands[1].shape[0].poly * Poly.constant(4)
    ),
    samples=_ragged_samples,
    terms=lambda arrays, attrs: arrays[1].shape[0] * 4 + arrays[1].shape[2],
)
