"""Variants of the samples of the op table: other dtypes, other sizes, operands that are views.

A sample says on which arrays an op is tested. Its variants keep the attributes and change what the
op finds in memory, so that they need no table of their own: an op that is new in the table has
them all. What a rule of the table refuses is no variant.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.ir import Dim, Shape, TensorType, Value
from maxlab.opset import OpDef, Sample
from maxlab.opset.core import Call, concrete
from tests.compiler.interpret import Array, Builder

LAYOUTS = ("transposed", "sliced", "backwards", "repeated", "computed")
"""How an operand lies in memory: turned about, a part of something larger, in the other direction,
one row that stands for several, or nowhere, as the result of another op."""
SIZES = (0, 1, 2, 13, 67)
"""For dims that a sample names: empty, single, small, prime, more than the lanes of a vector."""
NUMBERS = (
    DType.float32, DType.float64, DType.float16, DType.bfloat16, DType.int8, DType.int16,
    DType.int32, DType.int64, DType.uint8, DType.uint16, DType.uint32, DType.uint64, DType.bool,
)  # fmt: skip
PREPARED = {"mo.nonzero", "mo.masked_scatter", "mo.repeat.index", "mo.irfft.rows"}
"""Ops whose last operands another op has computed from the first: their elements stay."""
LARGEST, DEAREST = 1 << 22, 10**9
"""Elements of a result, and its arithmetic, beyond which a reference would take minutes."""
GARBAGE = 77
"""What lies around a slice: a kernel that reads it shows."""


def taken(row: OpDef, sample: Sample) -> bool:
    """Whether the op takes this sample: by its rule, its checks, and its reference, if that is soon
    done."""
    types = [TensorType(DType.from_numpy(a.dtype), a.shape) for a in sample.arrays]
    try:
        results = row.infer(types, sample.attrs)
        typed = [r for r in results if isinstance(r, TensorType)]
        if any(list(Shape(t.shape).parameters) for t in typed):
            return False
        if row.checks is not None:
            if not all(check.holds({}) for check in row.checks(types, results, sample.attrs)):
                return False
        shapes = tuple(concrete(t.shape, {}) for t in typed)
        if any(math.prod(shape) > LARGEST for shape in shapes):
            return False
        if (
            row.cost is not None
            and row.cost(types, results, sample.attrs).flops.evaluate({}) > DEAREST
        ):
            return False
        call = Call(sample.attrs, shapes, tuple(t.dtype for t in typed), {})
        with np.errstate(all="ignore"):
            made = row.reference(call, *sample.arrays)
    except (MaxlabError, ValueError, IndexError, TypeError, ZeroDivisionError, KeyError):
        return False
    arrays = made if isinstance(made, (list, tuple)) else [made]
    return all(np.shape(a) == shape for a, shape in zip(arrays, shapes, strict=True))


def retyped(row: OpDef, sample: Sample) -> Iterator[Sample]:
    """``sample`` in every other dtype that the op takes for its first operand and those like it."""
    if not sample.arrays or DType.from_numpy(sample.arrays[0].dtype) not in NUMBERS:
        return
    first = sample.arrays[0].dtype
    for dtype in NUMBERS:
        kind = dtype.ml_numpy
        if np.dtype(kind) == first:
            continue
        arrays = tuple(_cast(a, dtype) if a.dtype == first else a for a in sample.arrays)
        made = replace(sample, arrays=arrays, label=f"{sample.label} as {dtype.name}")
        if taken(row, made):
            yield made


def _cast(array: Array, dtype: DType) -> Array:
    wide = np.nan_to_num(array.astype(np.float64), nan=3.0, posinf=9.0, neginf=-9.0)
    if dtype.is_float() or dtype is DType.bool:
        with np.errstate(all="ignore"):
            return np.asarray(array).astype(dtype.ml_numpy)
    if not np.issubdtype(dtype.ml_numpy, np.signedinteger):
        wide = np.abs(wide)
    return np.clip(wide, -100, 100).astype(dtype.ml_numpy)


def resized(row: OpDef, sample: Sample, sizes: Sequence[int]) -> Sample | None:
    """``sample`` with its named dims of other sizes, taken from ``sizes`` in turn; ``None`` when
    the op does not take it so. Integers beside floats, which may be indices, become small."""
    if sample.shapes is None:
        return None
    names: list[str] = []
    for dims in sample.shapes:
        names += [d for d in dims if isinstance(d, str) and d not in names]
    if not names:
        return None
    env = {name: sizes[n % len(sizes)] for n, name in enumerate(names)}
    first = sample.arrays[0].dtype
    least = min((s for s in env.values() if s), default=1)
    arrays = []
    for array, dims in zip(sample.arrays, sample.shapes, strict=True):
        shape = tuple(env[d] if isinstance(d, str) else d for d in dims)
        made = np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
        if array.dtype != first and array.dtype.kind in "iu":
            made = np.where(np.abs(made.astype(np.int64)) < least, made, 0).astype(array.dtype)
        arrays.append(made)
    found = replace(
        sample, arrays=tuple(arrays), label=f"{sample.label} of {'x'.join(map(str, env.values()))}"
    )
    return found if taken(row, found) else None


# ---------------------------------------------------------------- operands that are views
def laid_out(b: Builder, array: Array, layout: str, inputs: list[Array]) -> tuple[Value, Array]:
    """A value whose elements are those of ``array``, read through ``layout``, and its elements.

    The inputs that it needs are appended to ``inputs``. ``repeated`` has the first row in all rows,
    and so other elements; where a layout means nothing the operand is an input itself.
    """
    dtype, rank, sizes = DType.from_numpy(array.dtype), array.ndim, array.shape

    def given(x: Array) -> Value:
        inputs.append(np.ascontiguousarray(x).reshape(x.shape))
        return b.input(dtype, *x.shape)

    if layout == "transposed" and rank > 1:
        order = tuple(reversed(range(rank)))
        return b.op("permute", given(array.transpose(order)), dims=order), array
    if layout in ("sliced", "backwards") and rank:
        step = 2 if layout == "sliced" else -1
        first = 2 if layout == "sliced" else max(sizes[-1] - 1, 0)
        large = np.full((*(n + 2 for n in sizes[:-1]), 2 * sizes[-1] + 3), GARBAGE)
        large = large.astype(array.dtype)
        inside = tuple(slice(1, 1 + n) for n in sizes[:-1])
        if layout == "sliced":
            large[(*inside, slice(2, 2 + 2 * sizes[-1], 2))] = array
        else:
            large[(*inside, slice(0, sizes[-1]))] = np.flip(array, -1)
        starts = (*(Dim(1) for _ in inside), Dim(first))
        steps = (*(1 for _ in inside), step)
        shape = tuple(Dim(n) for n in sizes)
        return b.op("slice", given(large), starts=starts, steps=steps, shape=shape), array
    if layout == "repeated" and rank and sizes[0]:
        wide = np.ascontiguousarray(np.broadcast_to(array[:1], sizes))
        shape = tuple(Dim(n) for n in sizes)
        return b.op("broadcast_to", given(array[:1]), shape=shape), wide
    if layout == "computed" and dtype in NUMBERS:
        twice = "logical_not" if dtype is DType.bool else "negate"
        return b.op(twice, b.op(twice, given(array))), array
    return given(array), array


def applied(
    b: Builder, row: OpDef, sample: Sample, layouts: Sequence[str], inputs: list[Array]
) -> Sequence[Value] | None:
    """The results of the op of ``row`` on operands in ``layouts``, taken in turn; ``None`` when it
    does not take the elements that the operands then have."""
    trial, kept = Builder(), []
    for n, array in enumerate(sample.arrays):
        kept.append(laid_out(trial, array, layouts[n % len(layouts)], [])[1])
    if not taken(row, replace(sample, arrays=tuple(kept))):
        return None
    operands = [
        laid_out(b, array, layouts[n % len(layouts)], inputs)[0]
        for n, array in enumerate(sample.arrays)
    ]
    return b.all_of(row.name.removeprefix("mo."), *operands, **sample.attrs)


def any_variant(
    row: OpDef, rng: random.Random, samples: Sequence[Sample], free: bool = True
) -> Sample | None:
    """A random variant of one of ``samples``, with other elements or sizes if they are ``free``;
    ``None`` when it came out impossible."""
    sample = rng.choice(samples)
    if free and rng.random() < 0.4:
        made = resized(row, sample, [rng.choice(SIZES) for _ in range(3)])
        sample = made if made is not None else sample
    if free and rng.random() < 0.4:
        others = list(retyped(row, sample))
        if others:
            sample = rng.choice(others)
    return sample if taken(row, sample) else None
