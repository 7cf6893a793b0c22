"""Ops that put elements in order: ``top_k`` and ``argsort``.

Equal elements stand by index, -0 and 0 are equal, and NaN is larger than all numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, AxisError, ShapeError
from maxlab.ir import Poly, StaticDim, TensorType, Type
from maxlab.opset.attributes import BOOL, INT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.elementwise import _wide
from maxlab.opset.facts import foreign_names
from maxlab.opset.sorting_kernels import argsort_kernel, top_kernel

_MOST = 2**32 - 1
"""Elements of a row: an index has 32 bits of a record."""


# ---------------------------------------------------------------- top_k
def _top_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    if not x.rank:
        raise AxisError(
            "ML303", "top_k: a rank-0 tensor has no axis", fix="reshape it to rank 1 first"
        )
    k, size = attrs["k"], x.shape[-1]
    most = size.dim if isinstance(size, StaticDim) else None
    if k < 0 or (most is not None and k > most):
        limit = f"0 to {most}, the size of the axis" if most is not None else "0"
        raise ArgumentError(
            "ML360",
            f"top_k: there are no {k} largest of {size} elements",
            fix=f"take k from {limit}" if most is not None else "take k from 0 on",
        )
    shape = [*x.shape[:-1], k]
    return [TensorType(x.dtype, shape, x.device), TensorType(DType.int64, shape, x.device)]


def _order(x: Array, down: bool) -> Array:
    """The indices that sort the last axis, equal elements by index, NaN as the largest."""
    wide = _wide(x)
    if not down:
        return np.argsort(wide, axis=-1, kind="stable")
    turned = np.argsort(wide[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return np.asarray(x.shape[-1] - 1 - turned)


def _top(call: Call, x: Array) -> list[Array]:
    at = _order(x, True)[..., : call.attrs["k"]]
    return [np.take_along_axis(x, at, -1), at.astype(np.int64)]


def _top_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    size = operands[0].sizes[-1]
    most = Check(
        size, "<=", Poly.constant(_MOST), "top_k: the axis has more than 2^32 - 1 elements"
    )
    k = Poly.constant(attrs["k"])
    return [Check(k, "<=", size, f"top_k: k is {attrs['k']}, the axis is smaller"), most]


def _mixed(rng: np.random.Generator, *shape: int) -> Array:
    """Floats with ties, both zeros, infinities and NaN."""
    x = np.round(rng.standard_normal(shape) * 3).astype(np.float32)
    flat = x.reshape(-1)
    for value in (np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0):
        flat[rng.integers(0, flat.size, 2)] = value
    return x


def _of_every_kind(rng: np.random.Generator, *shape: int) -> list[tuple[str, Array]]:
    """Arrays of all dtypes but float32, with ties and extremes."""
    found: list[tuple[str, Array]] = [
        ("f64", _mixed(rng, *shape).astype(np.float64)),
        ("f16", _mixed(rng, *shape).astype(np.float16)),
        ("bf16", _mixed(rng, *shape).astype(DType.bfloat16.ml_numpy)),
        ("bool", rng.integers(0, 2, shape).astype(np.bool_)),
    ]
    for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        numbers = rng.integers(low, high, shape, kind, endpoint=True)
        numbers.reshape(-1)[: numbers.size // 2] %= 5
        numbers.reshape(-1)[:2] = low, high
        found.append((kind, numbers))
    return found


def _top_samples() -> list[Sample]:
    rng = np.random.default_rng(11)
    found = [
        Sample((rng.standard_normal((5, 300)).astype(np.float32),), {"k": 7}, (("a", "n"),), "f32"),
        Sample((_mixed(rng, 2, 3, 41),), {"k": 41}, (("a", "b", "n"),), "all"),
        Sample((_mixed(rng, 2, 700),), {"k": 100}, (("a", "n"),), "ties"),
        Sample((_mixed(rng, 600),), {"k": 130}, (("n",),), "many"),
        Sample((rng.standard_normal((2, 5000)),), {"k": 4500}, label="more"),
        Sample((np.arange(500, dtype=np.float32),), {"k": 5}, label="ascending"),
        Sample((np.zeros((2, 300), np.float32),), {"k": 260}, label="equal"),
        Sample((_mixed(rng, 3, 4),), {"k": 0}, label="none"),
        Sample((np.zeros((0, 4), np.float32),), {"k": 2}, label="empty"),
        Sample((np.zeros((2, 0), np.float32),), {"k": 0}, label="empty axis"),
        Sample((_mixed(rng, 3, 1),), {"k": 1}, label="one"),
    ]
    found += [Sample((x,), {"k": 9}, label=kind) for kind, x in _of_every_kind(rng, 2, 70)]
    found += [
        Sample((x,), {"k": 150}, label=f"many {kind}")
        for kind, x in _of_every_kind(rng, 2, 200)
        if kind in ("f16", "int64", "uint8")
    ]
    return found


define(
    "top_k",
    "kernel",
    "sort",
    "The k largest along the last axis, in order, and their indices; NaN is the largest.",
    attrs={"k": INT},
    family="reduce",
    foreign=foreign_names("topk", "TopK"),
    infer=_top_infer,
    reference=_top,
    kernel=top_kernel,
    checks=_top_checks,
    cost=lambda operands, results, attrs: Cost(elements(operands[0])),
    samples=_top_samples,
)


# ---------------------------------------------------------------- argsort
def _argsort_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    if x.rank != 1:
        raise ShapeError(
            "ML361",
            f"argsort: the tensor has rank {x.rank}, expected 1",
            fix="x.argsort(dim=1) sorts along an axis",
        )
    return [TensorType(DType.int64, x.shape, x.device)]


def _argsort_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    most = Poly.constant(_MOST)
    return [Check(operands[0].sizes[0], "<=", most, "argsort: more than 2^32 - 1 elements")]


def _argsort_samples() -> list[Sample]:
    rng = np.random.default_rng(12)
    up, down = {"ascending": True}, {"ascending": False}
    found = [
        Sample((_mixed(rng, 300),), up, (("n",),), "up"),
        Sample((_mixed(rng, 300),), down, (("n",),), "down"),
        Sample((_mixed(rng, 20_000),), up, (("n",),), "long"),
        Sample((rng.standard_normal(9000).astype(np.float32),), down, label="long down"),
        Sample((np.zeros(0, np.float32),), up, (("n",),), "empty"),
        Sample((np.zeros(1, np.float32),), up, label="one"),
    ]
    found += [Sample((x,), up, label=kind) for kind, x in _of_every_kind(rng, 120)]
    found += [
        Sample((x,), down, label=f"long {kind}")
        for kind, x in _of_every_kind(rng, 10_000)
        if kind in ("f64", "bf16", "uint8", "int16", "int64")
    ]
    return found


define(
    "argsort",
    "kernel",
    "sort",
    "The indices that sort a tensor of rank 1, equal elements by index; NaN is the largest.",
    attrs={"ascending": BOOL},
    foreign=foreign_names("argsort"),
    infer=_argsort_infer,
    reference=lambda call, x: _order(x, not call.attrs["ascending"]),
    kernel=argsort_kernel,
    checks=_argsort_checks,
    cost=lambda operands, results, attrs: Cost(
        elements(operands[0]) * Poly.constant(operands[0].dtype.size_in_bytes)
    ),
    samples=_argsort_samples,
)
