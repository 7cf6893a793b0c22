"""References whose rounding errors are known: what a right kernel may compute, and how far from the
reference it may be.

Two right programs for one graph differ, because they round at other places: sums in another order,
a function of another library, a product and a sum in one instruction. How far apart that puts them
depends on the values: a small error becomes a large one where nearly equal numbers are subtracted.
A fixed tolerance is therefore too strict for one kernel and blind in the next.

Here every operation of the reference is evaluated three times: as it is, and twice with its result
moved at random by as much as its rounding may do (Monte Carlo arithmetic: D. S. Parker, *Monte
Carlo Arithmetic: exploiting randomness in floating-point arithmetic*, UCLA CSD-970002, 1997). What
comes out of the operations behind it moves by what those make of the error. `Rounded.tolerance` is
a multiple of that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.ir import Op
from maxlab.opset import evaluate, lookup

Array = np.ndarray[Any, Any]

SAMPLES = 2
FACTOR = 8.0
"""A result may differ from the reference by this many times what the samples differ by."""
REGULAR = 0.125
"""Numbers are regular where neighbours differ by this much of their size on average."""
SMOOTH = 16
"""Elements of the last axis from which on their mean error stands for each of them."""


def eps(dtype: DType) -> float:
    """The distance from 1 to the next number of a floating-point dtype."""
    return {
        DType.float64: 2.0**-52,
        DType.float32: 2.0**-23,
        DType.float16: 2.0**-10,
        DType.bfloat16: 2.0**-7,
    }.get(dtype, 2.0**-2)


def tiny(dtype: DType) -> float:
    """The smallest normal number: results below it may be flushed to 0."""
    return {DType.float64: 2.0**-1022, DType.float16: 2.0**-14}.get(dtype, 2.0**-126)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A value of the reference, and what rounding may make of it.

    Attributes:
        base: What the reference computes.
        samples: What it computes when operations round otherwise; empty for what is exact.
    """

    base: Array
    samples: tuple[Array, ...] = ()

    def tolerance(self, dtype: DType) -> Array | None:
        """How far each element may be from ``base``, infinite where rounding decides between
        numbers and infinities; None when it must be equal.
        """
        if not self.samples or not dtype.is_float():
            return None
        base = self.base.astype(np.float64)
        with np.errstate(all="ignore"):
            moved = np.zeros(base.shape)
            for sample in self.samples:
                other = sample.astype(np.float64)
                same = (other == base) | (np.isnan(other) & np.isnan(base))
                apart = np.where(same, 0.0, np.abs(other - base))
                moved = np.maximum(moved, np.where(np.isnan(apart), np.inf, apart))
            finite = np.isfinite(moved)
            squares = np.where(finite, moved, 0.0) ** 2
            if base.ndim and base.shape[-1] >= SMOOTH:
                usual = np.sqrt(squares.mean(axis=-1, keepdims=True))
            else:
                usual = np.sqrt(squares.mean()) if base.size else np.zeros(())
            size = np.where(np.isfinite(base), np.abs(base), 0.0)
            allowed = FACTOR * np.maximum(moved, usual) + eps(dtype) * size + tiny(dtype)
        return np.asarray(allowed)

    def undecided(self) -> Array:
        """Where rounding decides what an integer or a bool is."""
        found = np.zeros(self.base.shape, bool)
        for sample in self.samples:
            found |= np.asarray(sample != self.base)
        return found


def exact(array: Array) -> Rounded:
    """A value without rounding errors: what is in memory."""
    return Rounded(array)


def evaluate_rounded(
    op: Op, operands: Sequence[Rounded], env: dict[str, int], rng: np.random.Generator
) -> list[Rounded]:
    """Each result of ``op``, which runs no others, on ``operands``."""
    bases = evaluate(op, [x.base for x in operands], env)
    noisy = any(x.samples for x in operands)
    bounds = [bound_of(op, [x.base for x in operands], base, env) for base in bases]
    if not noisy and all(bound is None for bound in bounds):
        return [Rounded(base) for base in bases]
    samples: list[list[Array]] = [[] for _ in bases]
    for number in range(SAMPLES):
        made = bases
        if noisy:
            given = [x.samples[number] if x.samples else x.base for x in operands]
            made = evaluate(op, given, env)
        for place, (value, bound) in enumerate(zip(made, bounds, strict=True)):
            samples[place].append(value if bound is None else _moved(value, bound, rng))
    return [Rounded(base, tuple(s)) for base, s in zip(bases, samples, strict=True)]


def _moved(value: Array, bound: Array, rng: np.random.Generator) -> Array:
    """``value`` moved at random by half of ``bound`` to all of it, either way."""
    with np.errstate(all="ignore"):
        shift = rng.random(value.shape, np.float32) - 0.5
        shift += np.copysign(np.float32(0.5), shift)
        moved = value.astype(np.float64) + shift * bound
        return np.asarray(np.where(np.isfinite(value), moved, value).astype(value.dtype))


def bound_of(op: Op, operands: Sequence[Array], result: Array, env: dict[str, int]) -> Array | None:
    """How far rounding may put the result of ``op`` from the right one, its operands being right;
    None for what is exact.
    """
    row = lookup(op.name)
    dtype = op.results[0].tensor_type.dtype
    name = op.name.removeprefix("mo.")
    if dtype.is_float() and row.kind == "kernel" and row.terms is not None:
        return _summed(op, operands, result, env, row.terms(operands, op.attrs))
    if not dtype.is_float() or row.kind not in ("map", "reduce", "contract", "composite"):
        return None
    if name in ("reduce.max", "reduce.min") or (name == "cast" and _widens(op)):
        return None
    with np.errstate(all="ignore"):
        size = np.abs(result.astype(np.float64))
        half = dtype.size_in_bytes == 2
        own = eps(dtype) * size
        wide = eps(DType.float32) if half else eps(dtype)
        if row.kind == "contract":
            x, y = operands[0], operands[1]
            regular = _regular(x, -1)[..., :, None] & _regular(y, -2)[..., None, :]
            return own + wide * _growth(x.shape[-1], regular) * _lengths(x, y)
        if row.kind == "reduce" or name in ("mean", "softmax", "logsoftmax", "layer_norm"):
            return own + _folded(name, op, operands, result, wide)
        if half:
            return own
        if name == "gelu":  # near its zeros it is as exact as x is
            size = np.maximum(size, np.abs(operands[0].astype(np.float64)))
        return eps(dtype) * max(row.ulps, 1) * size


def _summed(
    op: Op, operands: Sequence[Array], result: Array, env: dict[str, int], terms: int
) -> Array:
    """The bound of a sum of products of the operands: what it is of their sizes, rounded."""
    dtype = op.results[0].tensor_type.dtype
    wide = eps(DType.float32) if dtype.size_in_bytes == 2 else eps(dtype)
    magnitude = lookup(op.name).magnitude
    with np.errstate(all="ignore"):
        if magnitude is not None:
            size = magnitude(operands, op.attrs)
        else:
            sizes = [x if x.dtype.kind in "biu" else np.abs(x) for x in operands]
            (size,) = evaluate(op, sizes, env)
        own = eps(dtype) * np.abs(result.astype(np.float64))
        # Which axes a kernel adds along is its own affair: any of them.
        summands = [x for x in operands if x.dtype.kind not in "biu" and x.ndim and x.size > 1]
        regular = np.asarray(
            all(any(_regular(x, axis).all() for axis in range(x.ndim)) for x in summands)
        )
        return np.asarray(own + wide * _growth(terms, regular) * np.abs(size.astype(np.float64)))


def _widens(op: Op) -> bool:
    old, new = op.operands[0].tensor_type.dtype, op.result.tensor_type.dtype
    return old.is_float() and new.size_in_bytes >= old.size_in_bytes


def _growth(count: int, regular: Array) -> Array:
    """How the rounding errors of a sum of ``count`` numbers grow with it: as a random walk, or,
    where the numbers are ``regular``, all to the same side.
    """
    walk = 1 + math.sqrt(count) / 4
    # Each of the sums on the way is rounded by at most half of `eps`, and they are half of the last
    # one on average; `Rounded.tolerance` is at least four times what is returned here.
    return np.where(regular, walk + count / 16, walk)


def _regular(x: Array, axis: int) -> Array:
    """For each line of ``x`` along ``axis`` whether neighbours hardly differ, as in one number over
    and over or in a ramp. To add such numbers rounds every time by about the same.
    """
    size = np.abs(x.astype(np.float64))
    if x.shape[axis] < 2:
        return np.ones(np.delete(x.shape, axis), bool)
    steps = np.abs(np.diff(x.astype(np.float64), axis=axis))
    return np.asarray(steps.mean(axis=axis) <= REGULAR * size.mean(axis=axis))


def _lengths(x: Array, y: Array) -> Array:
    """|row of x| times |column of y|, never less than the sum of |products| over the square root of
    their number times their spread (Cauchy and Schwarz).
    """
    a, b = x.astype(np.float64), y.astype(np.float64)
    rows = np.sqrt((a * a).sum(axis=-1))[..., :, None]
    columns = np.sqrt((b * b).sum(axis=-2))[..., None, :]
    return np.asarray(rows * columns)


def _folded(name: str, op: Op, operands: Sequence[Array], result: Array, wide: float) -> Array:
    x = np.abs(operands[0].astype(np.float64))
    axis = op.attrs.get("axis", -1)
    count = x.shape[axis] if x.ndim else 1
    regular = np.expand_dims(_regular(operands[0], axis), axis) if x.ndim else np.asarray(True)
    grown = wide * _growth(count, regular)
    if name == "softmax":
        return np.asarray(8 * grown * np.abs(result.astype(np.float64)))
    if name == "logsoftmax":
        return np.asarray(8 * grown * (1 + np.abs(result.astype(np.float64))))
    if name == "layer_norm":
        return np.asarray(8 * grown * (1 + np.abs(result.astype(np.float64))))
    total = x.sum(axis=axis, keepdims=True)
    if name == "mean":
        total = total / max(count, 1)
    return np.asarray(grown * total).reshape(result.shape)
