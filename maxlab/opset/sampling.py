"""Ops that draw tokens: uniform numbers of rows, and tokens and scores after temperature, top-k,
top-p and min-p.

A row is a request: what it gets depends on its own numbers alone, whatever rows are beside it.
All is computed in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.ir import Op, Poly, TensorType, Type
from maxlab.opset.attributes import DIM
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.faults import Fault
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.rules import same_device

FLOATS: Final = (DType.float32, DType.float64, DType.float16, DType.bfloat16)
_PARAMETERS: Final = ("top_k", "temperature", "top_p", "min_p")
FIX = (
    "logits are floats [rows, tokens], top_k int64 [rows], temperature, top_p and min_p float64 "
    "[rows], counts int32 [entries, 2], their offsets uint32 [rows + 1]"
)


# ---------------------------------------------------------------- rules
def require(what: str, name: str, type: Any, dtypes: Sequence[DType], rank: int) -> None:
    """Raises unless ``type`` has one of ``dtypes``, and ``rank``."""
    if type.dtype not in dtypes:
        names = ", ".join(dtype.name for dtype in dtypes)
        raise DTypeError(
            "ML666", f"{what}: {name} must be of {names}, got {type.dtype.name}", fix=FIX
        )
    if type.rank != rank:
        raise ShapeError("ML659", f"{what}: {name} must have rank {rank}, got {type}", fix=FIX)


def _sample_infer(what: str, types: Sequence[TensorType], numbers: int) -> TensorType:
    """The type of the logits; ``numbers`` float64 operands stand behind top_k."""
    logits, k, *rest = types
    require(what, "the logits", logits, FLOATS, 2)
    require(what, "top_k", k, (DType.int64,), 1)
    for number in rest[:numbers]:
        require(what, "a number of each row", number, (DType.float64,), 1)
    for allowed in rest[numbers:]:
        require(what, "the allowed tokens", allowed, (DType.bool,), 2)
    same_device(what, types)
    return logits


def row_checks(
    operands: Sequence[Any], results: Sequence[Type], attrs: Attrs, first: int = 1
) -> list[Check]:
    """All operands have as many rows as the first one."""
    rows = operands[0].shape[0].poly
    found = []
    for operand in operands[first:]:
        other = operand.shape[0].poly
        if not (rows - other).is_constant or (rows - other).value:
            found.append(Check(rows, "==", other, "a sampler: operands of several numbers of rows"))
    return found


def _draw_fault(op: Op) -> Fault:
    return Fault("sampling", "draw")


# ---------------------------------------------------------------- uniform numbers
def _uniform_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (seeds,) = types
    require("row_uniforms", "the seeds", seeds, (DType.uint64,), 1)
    return [TensorType(DType.float64, [seeds.shape[0], attrs["count"]], seeds.device)]


def _uniform_reference(call: Call, seeds: Array) -> Array:
    rows, count = call.shapes[0]
    made = [np.random.Generator(np.random.Philox(key=int(seed))).random(count) for seed in seeds]
    return np.array(made, np.float64).reshape(rows, count)


def _uniform_kernel(at: Site) -> None:
    rows, count = at.results[0].type.sizes
    quarters = (count + Poly.constant(3)).floordiv(Poly.constant(4))
    sizes = {"COUNT": count, "QUARTERS": quarters}
    dims = {"rows": rows, "count": count}
    OwnKernel(at, "sampling.c", "row_uniforms", dims=dims, sizes=sizes).write()


def _uniform_samples() -> list[Sample]:
    seeds = np.array([0, 1, 7, 2**63 + 5, 2**64 - 1], np.uint64)
    return [
        Sample((seeds,), {"count": 1}, (("rows",),), "one"),
        Sample((seeds,), {"count": 7}, (("rows",),), "several"),
        Sample((seeds[:2],), {"count": 300}, label="many"),
        Sample((seeds[:0],), {"count": 3}, label="no rows"),
    ]


# ---------------------------------------------------------------- tokens and scores
def scores_of(
    logits: Array,
    k: int,
    temperature: float,
    top_p: float,
    min_p: float,
    allowed: Array | None = None,
) -> Array:
    """The scores of one row: minus the gap to the largest logit, divided by the temperature; minus
    infinity for tokens that are not drawn.

    Args:
        logits: Of each token, [tokens].
        k: How many of the most probable tokens are left; all below 1.
        temperature: The temperature; one token is left where it is not above 0.
        top_p: Tokens stay while more probable ones have less than this together.
        min_p: Tokens stay that have this part of the probability of the most probable one.
        allowed: Which tokens may be drawn; those beyond its end may not.

    Raises:
        ArgumentError: ML183, a logit that is NaN or plus infinity; ML185, no token is left.

    Example:
        >>> scores_of(np.log([0.5, 0.3, 0.2]), 2, 1.0, 1.0, 0.0).round(2)
        array([ 0.  , -0.51,  -inf])
    """
    wide = logits.astype(np.float64)
    if not (wide < np.inf).all():
        raise ArgumentError("ML183", "a logit is NaN or plus infinity")
    if allowed is not None:
        may = np.zeros(len(wide), np.bool_)
        may[: len(allowed)] = allowed[: len(wide)]
        wide = np.where(may, wide, -np.inf)
    if not (wide > -np.inf).any():
        raise ArgumentError("ML185", "no token is left")
    scores: Array = wide - wide.max()
    if temperature > 0:
        scores = np.where(wide > -np.inf, scores / temperature, -np.inf)
    order = np.argsort(-scores, kind="stable")
    if not temperature > 0:
        order = order[:1]
    elif 0 < k < len(order):
        order = order[:k]
    weights = np.exp(scores[order])
    parts = weights / weights.sum()
    if top_p < 1:
        ahead = np.concatenate([[0.0], np.cumsum(parts)[:-1]])
        stays = ahead < top_p
        stays[0] = True
        order, parts = order[stays], parts[stays]
    order = order[~(parts < min(min_p, 1.0) * parts[0])]
    left = np.full(len(wide), -np.inf)
    left[order] = scores[order]
    return left


def _rows_of(logits: Array, numbers: Sequence[Array], allowed: Array | None) -> list[Array]:
    k, temperature, top_p, min_p = numbers
    return [
        scores_of(
            row,
            int(k[n]),
            float(temperature[n]),
            float(top_p[n]),
            float(min_p[n]),
            None if allowed is None else allowed[n],
        )
        for n, row in enumerate(logits)
    ]


def _token_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    logits = _sample_infer("sample_token", types, 4)
    return [TensorType(DType.int64, [logits.shape[0]], logits.device)]


def _token_reference(call: Call, logits: Array, *numbers: Array) -> Array:
    *given, u = numbers[:5]
    made = []
    rows = _rows_of(logits, given, numbers[5] if len(numbers) > 5 else None)
    for scores, place in zip(rows, u, strict=True):
        weights = np.exp(scores)
        sums = np.cumsum(weights / weights.sum())
        found = int(np.searchsorted(sums, place * sums[-1], side="right"))
        made.append(min(found, int(np.flatnonzero(weights)[-1])))
    return np.array(made, np.int64)


def _score_type(logits: TensorType) -> DType:
    return DType.float64 if logits.dtype is DType.float64 else DType.float32


def _scores_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    logits = _sample_infer("sample_scores", types, 3)
    return [TensorType(_score_type(logits), logits.shape, logits.device)]


def _scores_reference(call: Call, logits: Array, *numbers: Array) -> Array:
    allowed = numbers[4] if len(numbers) > 4 else None
    made = _rows_of(logits, numbers[:4], allowed)
    return np.array(made, np.float64).reshape(logits.shape)


def _sample_kernel(at: Site, name: str, numbers: int) -> None:
    (rows, tokens), masked = at.operands[0].type.sizes, len(at.operands) > numbers
    dims = {"rows": rows, "N": tokens}
    if masked:
        dims["width"] = at.operands[numbers].type.sizes[1]
    if at.target == "cuda":
        OwnKernel(at, "sampling.cu", f"{name}_gpu", dims=dims, MASKED=masked).write()
        return
    kernel = OwnKernel(at, "sampling.c", name, dims=dims, MASKED=masked)
    kernel.write(scratch=tokens * Poly.constant(48) + Poly.constant(32))


def _sample_checks(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    text = "a sampler: there are more than 2^32 - 1 tokens"
    most = Check(operands[0].sizes[1], "<=", Poly.constant(2**32 - 1), text)
    return [*row_checks(operands, results, attrs), most]


def _given(rows: int, seed: int, **fixed: float) -> list[Array]:
    """Random top_k, temperature, top_p and min_p of rows, in this order."""
    rng = np.random.default_rng(seed)
    made = {
        "top_k": rng.choice([-1, 0, 1, 2, 5, 20, 10_000], rows),
        "temperature": rng.choice([0.0, 0.3, 1.0, 2.5], rows),
        "top_p": rng.choice([0.0, 0.3, 0.7, 0.95, 1.0], rows),
        "min_p": rng.choice([0.0, 0.0, 0.05, 0.5, 1.0], rows),
    }
    for name, value in fixed.items():
        made[name] = np.full(rows, value)
    return [
        made["top_k"].astype(np.int64),
        *(made[name].astype(np.float64) for name in _PARAMETERS[1:]),
    ]


def _sample_samples(with_places: bool) -> list[Sample]:
    rng = np.random.default_rng(31)
    names = (("rows", "tokens"), *[("rows",)] * (5 if with_places else 4))

    def sample(logits: Array, label: str, *masks: Array, **fixed: float) -> Sample:
        rows = len(logits)
        given = _given(rows, logits.size, **fixed)
        if with_places:
            given.append(rng.random(rows))
        shapes = (*names, *[("rows", "width")] * len(masks))
        return Sample((logits, *given, *masks), {}, shapes, label)

    wide = rng.standard_normal((6, 700)).astype(np.float32)
    ties = np.round(rng.standard_normal((40, 50)) * 2).astype(np.float32)
    holes = np.where(rng.random((24, 30)) < 0.3, -np.inf, rng.standard_normal((24, 30)))
    holes[:, 3] = 0.5
    zeros = np.where(rng.random((9, 60)) < 0.5, 0.0, -0.0).astype(np.float32)
    mask = rng.random((40, 64)) < 0.4
    mask[:, 7] = True
    return [
        sample(rng.standard_normal((40, 30)).astype(np.float32) * 3, "f32"),
        sample(ties, "ties"),
        sample(wide, "nucleus of many", top_k=-1, temperature=3.0, top_p=0.97),
        sample(wide, "many", top_k=600, temperature=1.0),
        sample(holes, "f64 with holes"),
        sample(rng.standard_normal((9, 40)).astype(np.float16), "f16"),
        sample(rng.standard_normal((9, 40)).astype(DType.bfloat16.ml_numpy), "bf16"),
        sample(np.zeros((5, 10), np.float32), "equal", top_k=-1, temperature=1.0, top_p=0.9),
        sample(np.zeros((9, 700), np.float32), "ties beyond", top_k=3, temperature=1.0, top_p=1.0),
        sample(zeros, "signed zeros", temperature=1.0, top_p=0.3),
        sample(ties, "wide mask", mask),
        sample(ties, "narrow mask", mask[:, :20]),
        sample(np.ones((3, 1), np.float32), "one token"),
        sample(np.zeros((0, 7), np.float32), "no rows"),
    ]


define(
    "sample.uniform",
    "kernel",
    "random",
    "Uniform numbers in [0, 1) of each row, from the seed of the row: those of NumPy's Philox.",
    family="elementwise",
    attrs={"count": DIM},
    infer=_uniform_infer,
    reference=_uniform_reference,
    kernel=_uniform_kernel,
    cost=lambda operands, results, attrs: Cost(elements(results[0]) * Poly.constant(20)),
    samples=_uniform_samples,
)

define(
    "sample.token",
    "kernel",
    "random",
    "A token of each row, by temperature, top-k, top-p, min-p and a uniform number of the row.",
    family="reduce",
    infer=_token_infer,
    reference=_token_reference,
    kernel=lambda at: _sample_kernel(at, "sample_token", 6),
    checks=_sample_checks,
    cost=lambda operands, results, attrs: Cost(elements(operands[0]) * Poly.constant(8)),
    samples=lambda: _sample_samples(True),
    fault=_draw_fault,
)

define(
    "sample.scores",
    "kernel",
    "random",
    "The logits of the probabilities that tokens are drawn by; minus infinity for all others.",
    family="elementwise",
    infer=_scores_infer,
    reference=_scores_reference,
    kernel=lambda at: _sample_kernel(at, "sample_scores", 5),
    checks=_sample_checks,
    cost=lambda operands, results, attrs: Cost(elements(operands[0]) * Poly.constant(4)),
    samples=lambda: _sample_samples(False),
    fault=_draw_fault,
)

__all__ = ["FIX", "FLOATS", "require", "row_checks", "scores_of"]
