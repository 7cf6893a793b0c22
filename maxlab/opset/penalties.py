"""Ops that change the logits of tokens that have been there, and count tokens.

Counts are pairs of a token and how often it is there, those of each row one after another:
``offsets`` ``[rows + 1]`` say where the pairs of a row begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ShapeError
from maxlab.ir import Poly, Type
from maxlab.ir.poly import ONE
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, define
from maxlab.opset.effects import require_buffer
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.rules import same_device
from maxlab.opset.sampling import FIX, FLOATS, require, row_checks

FREE: Final = -1
"""The token of a free place among counts of tokens."""


# ---------------------------------------------------------------- rules
def _counts_infer(what: str, data: Any, offsets: Any) -> None:
    require(what, "the counts", data, (DType.int32,), 2)
    if list(data.shape[1:]) != [2]:
        raise ShapeError("ML659", f"{what}: the counts must be [entries, 2], got {data}", fix=FIX)
    require(what, "the offsets", offsets, (DType.uint32,), 1)


def _pair_checks(rows: Poly, offsets: Any) -> list[Check]:
    ends = offsets.shape[0].poly
    if (ends - rows - ONE).is_constant and not (ends - rows - ONE).value:
        return []
    return [Check(ends, "==", rows + ONE, "offsets of counts are not one more than rows")]


# ---------------------------------------------------------------- penalties
def _penalise_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what = "apply_penalties_to_logits"
    logits, data, offsets, *penalties = types
    logits = require_buffer(f"{what}: the logits", logits).as_tensor()
    require(what, "the logits", logits, FLOATS, 2)
    _counts_infer(what, data, offsets)
    for penalty in penalties:
        require(what, "a penalty of each row", penalty, (DType.float64,), 1)
    same_device(what, [logits, data, offsets, *penalties])
    return []


def _pairs(data: Array, offsets: Array, row: int) -> range:
    first, past = int(offsets[row]), int(offsets[row + 1])
    if past > len(data) or first > past:
        raise ArgumentError("ML652", f"the row {row} has the counts from {first} to {past}")
    return range(first, past)


def _penalise_reference(
    call: Call,
    logits: Array,
    data: Array,
    offsets: Array,
    frequency: Array,
    presence: Array,
    repetition: Array,
) -> list[Array]:
    largest = _largest(DType.from_numpy(logits.dtype))
    for row in range(len(logits)):
        for entry in _pairs(data, offsets, row):
            token, times = map(int, data[entry])
            if token == FREE or times <= 0:
                continue
            if not 0 <= token < logits.shape[1]:
                raise ArgumentError("ML652", f"there is no token {token}")
            v = float(logits[row, token])
            if v == -np.inf:
                continue
            v = v * repetition[row] if v < 0 else v / repetition[row]
            v -= times * frequency[row] + presence[row]
            logits[row, token] = np.clip(v, -largest, largest)
    return []


def _largest(dtype: DType) -> float:
    """The largest finite number of a float dtype."""
    if dtype is DType.bfloat16:
        return float.fromhex("0x1.fep127")
    return float(np.finfo(dtype.ml_numpy).max)


def _penalise_kernel(at: Site) -> None:
    (rows, tokens), (entries, _), (ends,) = (o.type.sizes for o in at.operands[:3])
    dims = {"rows": rows, "N": tokens, "entries": entries, "ends": ends}
    largest = _largest(at.operands[0].dtype)
    kernel = OwnKernel(at, "sampling.c", "penalise", dims=dims, LARGEST=largest)
    kernel.write(touched={at.operands[0].name: entries})


def _penalise_checks(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    rows = row_checks([operands[0], *operands[3:]], results, attrs)
    return [*_pair_checks(operands[0].shape[0].poly, operands[2]), *rows]


# ---------------------------------------------------------------- counts
def _count_infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    what = "update_frequency_data"
    data, offsets, tokens = types
    data = require_buffer(f"{what}: the counts", data).as_tensor()
    _counts_infer(what, data, offsets)
    require(what, "the tokens", tokens, (DType.int64,), 1)
    same_device(what, [data, offsets, tokens])
    return []


def _count_reference(call: Call, data: Array, offsets: Array, tokens: Array) -> list[Array]:
    for row, token in enumerate(tokens):
        if not 0 <= token < 2**31:
            raise ArgumentError("ML652", f"there is no token {token}")
        entries = _pairs(data, offsets, row)
        found = [e for e in entries if data[e, 0] == token]
        free = [e for e in entries if data[e, 0] == FREE]
        if found:
            data[found[0], 1] += 1
        elif free:
            data[free[0]] = token, 1
    return []


def _count_kernel(at: Site) -> None:
    (entries, _), (ends,), (rows,) = (o.type.sizes for o in at.operands)
    dims = {"entries": entries, "ends": ends, "rows": rows}
    OwnKernel(at, "sampling.c", "count_tokens", dims=dims).write(total=None)


def _nothing(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> Cost:
    return Cost(Poly.constant(0))


define(
    "sample.penalise",
    "kernel",
    "effect",
    "Changes the logits of tokens that have been there: frequency, presence and repetition.",
    infer=_penalise_infer,
    reference=_penalise_reference,
    kernel=_penalise_kernel,
    checks=_penalise_checks,
    effect="write",
    cost=_nothing,
)

define(
    "sample.count",
    "kernel",
    "effect",
    "Counts a token of each row among those that have been there.",
    infer=_count_infer,
    reference=_count_reference,
    kernel=_count_kernel,
    checks=lambda operands, results, attrs: _pair_checks(operands[2].shape[0].poly, operands[1]),
    effect="write",
    cost=_nothing,
)

__all__ = ["FREE"]
