"""Ops that read and write at many indices at once: ``gather_nd``, ``scatter``, ``scatter_nd``.

A negative index counts from the end; one that is out of range ends the run. Where several updates
go to one place, the last of them, in row-major order, is the one that stays, on both targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ExecutionError, ShapeError
from maxlab.ir import Dim, StaticDim, TensorType, Type
from maxlab.opset.attributes import INT
from maxlab.opset.core import Array, Attrs, Call, Check, Sample, define
from maxlab.opset.facts import foreign_names
from maxlab.opset.rules import axis_of, require_integral, same_device, same_dtype
from maxlab.opset.scattering_kernels import gather_kernel, scatter_kernel, scatter_nd_kernel


def _wrapped(what: str, indices: Array, size: int) -> Array:
    """``indices`` of an axis of ``size``, from 0 on."""
    if indices.size and (indices.min() < -size or indices.max() >= size):
        bad = indices[(indices < -size) | (indices >= size)].ravel()[0]
        raise ExecutionError(
            "ML652",
            f"{what}: the index {bad} is out of range for a dim of size {size}",
            fix=f"indices go from {-size} to {size - 1}",
        )
    places = indices.astype(np.int64)  # a narrow dtype may not hold the size
    return np.where(places < 0, places + size, places)


def _depth(what: str, x: TensorType, indices: TensorType, batch: int = 0) -> int:
    """The number of dims that each row of ``indices`` indexes.

    Raises:
        ShapeError: ML363, it is not known, or larger than the rank.
    """
    last = indices.shape[-1] if indices.rank > batch else None
    if not isinstance(last, StaticDim):
        raise ShapeError(
            "ML363",
            f"{what}: the indices have no last dim of known size"
            if last is None
            else f"{what}: the last dim of the indices is {last}, expected a known size",
            fix="the last dim says how many dims are indexed: rebind it to its number, or add it "
            "with ops.unsqueeze(indices, -1)",
        )
    if batch + last.dim > x.rank:
        raise ShapeError(
            "ML363",
            f"{what}: {last.dim} indices for a tensor of rank {x.rank}"
            + (f" with {batch} batch dims" if batch else ""),
            fix=f"the last dim of the indices is at most {x.rank - batch}",
        )
    return last.dim


# ---------------------------------------------------------------- gather_nd
def _gather_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, indices = types
    require_integral("gather_nd: the indices", indices)
    same_device("gather_nd", types)
    batch = attrs["batch_dims"]
    if not 0 <= batch <= x.rank:
        raise ArgumentError(
            "ML362",
            f"gather_nd: {batch} batch dims for a tensor of rank {x.rank}",
            fix=f"take batch_dims from 0 to {x.rank}",
        )
    depth = _depth("gather_nd", x, indices, batch)
    for axis in range(batch):
        if x.shape[axis] != indices.shape[axis]:
            raise ShapeError(
                "ML362",
                f"gather_nd: the batch dims differ at axis {axis}: {x.shape[axis]} ≠ "
                f"{indices.shape[axis]}",
                fix="make them equal, or rebind one of them; they do not broadcast",
            )
    shape = [*indices.shape[:-1], *x.shape[batch + depth :]]
    return [TensorType(x.dtype, shape, x.device)]


def _gather(call: Call, x: Array, indices: Array) -> Array:
    batch, depth = call.attrs["batch_dims"], indices.shape[-1]
    places: list[Array] = []
    for axis in range(batch):
        shape = [1] * (indices.ndim - 1)
        shape[axis] = x.shape[axis]
        places.append(np.arange(x.shape[axis]).reshape(shape))
    places += [_wrapped("gather_nd", indices[..., d], x.shape[batch + d]) for d in range(depth)]
    if not places:
        return np.broadcast_to(x, call.shapes[0])
    return np.asarray(x[tuple(np.broadcast_arrays(*places))])


def _gather_samples() -> list[Sample]:
    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    rng = np.random.default_rng(21)

    def at(shape: tuple[int, ...], limits: Sequence[int]) -> Array:
        return np.stack([rng.integers(-n, n, shape) for n in limits], -1)

    found = [
        Sample((x, at((7,), (2, 3, 4, 5))), {"batch_dims": 0}, (("a", 3, 4, 5), ("m", 4)), "full"),
        Sample((x, at((2, 6), (2, 3))), {"batch_dims": 0}, (("a", "b", "c", "d"), ("m", "n", 2))),
        Sample((x, at((2, 6), (3, 4))), {"batch_dims": 1}, (("a", "b", 4, "d"), ("a", "n", 2))),
        Sample((x, at((2, 3), (4, 5)).astype(np.int32)), {"batch_dims": 2}, label="two batch dims"),
        Sample((x, at((2,), (3,))), {"batch_dims": 1}, label="one of a batch"),
        Sample((x, np.zeros((3, 0), np.int64)), {"batch_dims": 0}, label="no index"),
        Sample((x, np.zeros((0, 2), np.int64)), {"batch_dims": 0}, label="no rows"),
        Sample((x, np.array([1, -1], np.int64)), {"batch_dims": 0}, label="one row"),
        Sample((np.zeros((0, 3), np.float32), np.zeros((0, 1), np.int64)), {"batch_dims": 1}),
        Sample((x[..., :0], at((3,), (2, 3))), {"batch_dims": 0}, label="empty slices"),
        Sample((x.reshape(6, 20), at((9,), (6,)).astype(np.uint8) % 6), {"batch_dims": 0}),
    ]
    return found + [
        Sample((x[0].astype(kind), at((5,), (3, 4))), {"batch_dims": 0}, label=label)
        for label, kind in _kinds()
    ]


def _kinds() -> list[tuple[str, np.dtype[Any]]]:
    dtypes = [
        DType.bool, DType.int8, DType.uint16, DType.int32, DType.uint64, DType.float16,
        DType.bfloat16, DType.float64,
    ]  # fmt: skip
    return [(d.name, np.dtype(d.ml_numpy)) for d in dtypes]


define(
    "gather_nd",
    "kernel",
    "index",
    "The operand's parts at rows of indices, each of which indexes its leading dims; the dims "
    "before them are shared.",
    attrs={"batch_dims": INT},
    foreign=foreign_names(onnx="GatherND"),
    infer=_gather_infer,
    reference=_gather,
    kernel=gather_kernel,
    takes_float8=True,
    samples=_gather_samples,
)


# ---------------------------------------------------------------- scatter
def _scatter_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, updates, indices = types
    require_integral("scatter: the indices", indices)
    same_dtype("scatter: the input and the updates", [x, updates])
    same_device("scatter", types)
    axis = axis_of(attrs["axis"], x.rank, "scatter")
    if updates.shape != indices.shape:
        raise ShapeError(
            "ML364",
            f"scatter: the updates have the shape {_text(updates)}, the indices {_text(indices)}",
            fix="give an index for each update",
        )
    if updates.rank != x.rank:
        raise ShapeError(
            "ML364",
            f"scatter: the updates have rank {updates.rank}, the input has rank {x.rank}",
            fix="give them one rank, with ops.unsqueeze for example",
        )
    for position, (few, many) in enumerate(zip(updates.shape, x.shape, strict=True)):
        if position != axis and _exceeds(few, many):
            raise ShapeError(
                "ML364",
                f"scatter: the updates have the size {few} at axis {position}, the input has only "
                f"{many}",
                fix=f"only axis {axis}, which is indexed, may be longer than that of the input",
            )
    return [x]


def _text(type: TensorType) -> str:
    return f"[{', '.join(map(str, type.shape))}]"


def _exceeds(few: Dim, many: Dim) -> bool:
    return isinstance(few, StaticDim) and isinstance(many, StaticDim) and few.dim > many.dim


def _scatter_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    x, updates, _ = operands
    axis = axis_of(attrs["axis"], x.rank, "scatter")
    return [
        Check(few, "<=", many, f"scatter: the updates are longer than the input at axis {position}")
        for position, (few, many) in enumerate(zip(updates.sizes, x.sizes, strict=True))
        if position != axis and few != many
    ]


def _scatter(call: Call, x: Array, updates: Array, indices: Array) -> Array:
    axis = call.attrs["axis"] % x.ndim
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis] = _wrapped("scatter", indices, x.shape[axis])
    made = x.copy()
    # NumPy writes one after another, so the last of several updates stays.
    made[tuple(np.broadcast_arrays(*places))] = updates
    return made


def _scatter_samples() -> list[Sample]:
    rng = np.random.default_rng(22)

    def case(
        shape: tuple[int, ...],
        updated: tuple[int, ...],
        axis: int,
        kind: str = "float32",
        index: str = "int64",
    ) -> tuple[tuple[Array, Array, Array], dict[str, int]]:
        x = rng.standard_normal(shape).astype(kind)
        u = (rng.standard_normal(updated) + 100).astype(kind)
        n = shape[axis]
        return (x, u, rng.integers(-n, max(n, 1), updated).astype(index)), {"axis": axis}

    names = (("a", "b"), ("a", "m"), ("a", "m"))
    other = (("a", "b"), ("m", "n"), ("m", "n"))
    third = (("a", "b", "c"), ("a", "m", "c"), ("a", "m", "c"))
    found = [
        Sample(*case((4, 9), (4, 30), -1), names, "rows"),
        Sample(
            *case((6, 5), (20, 5), 0, index="int32"),
            (("a", "b"), ("m", "b"), ("m", "b")),
            "columns",
        ),
        Sample(*case((3, 7, 4), (3, 12, 4), 1), third, "middle"),
        Sample(*case((4, 9), (2, 5), 1), other, "fewer rows"),
        Sample(*case((4, 9), (7, 5), 0), other, "fewer columns"),
        Sample(*case((3, 4, 5, 2), (2, 3, 9, 1), 2), label="fewer of all"),
        Sample(*case((3, 4, 5, 6), (3, 9, 2, 5), 1), label="fewer behind"),
        Sample(*case((50,), (300,), 0), (("n",), ("m",), ("m",)), "one line"),
        Sample(*case((20_000,), (30_000,), 0), (("n",), ("m",), ("m",)), "long"),
        Sample(*case((3000, 4), (5000, 4), 0), label="long columns"),
        Sample(*case((4, 9), (4, 0), 1), label="no updates"),
        Sample(*case((0, 9), (0, 5), 1), label="no lines"),
        Sample(*case((4, 0), (4, 0), 1), label="empty"),
    ]
    found += [
        Sample(
            (
                rng.integers(0, 2, (3, 8)).astype(kind),
                rng.integers(0, 2, (3, 6)).astype(kind),
                rng.integers(-8, 8, (3, 6)),
            ),
            {"axis": 1},
            label=label,
        )
        for label, kind in _kinds()
    ]
    return found


define(
    "scatter",
    "kernel",
    "index",
    "The operand with updates at the given indices of one axis; of several at one place, the last.",
    attrs={"axis": INT},
    foreign=foreign_names("scatter", "ScatterElements"),
    infer=_scatter_infer,
    reference=_scatter,
    kernel=scatter_kernel,
    takes_float8=True,
    checks=_scatter_checks,
    samples=_scatter_samples,
)


# ---------------------------------------------------------------- scatter_nd
def _scatter_nd_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, updates, indices = types
    require_integral("scatter_nd: the indices", indices)
    same_dtype("scatter_nd: the input and the updates", [x, updates])
    same_device("scatter_nd", types)
    depth = _depth("scatter_nd", x, indices)
    wanted = [*indices.shape[:-1], *x.shape[depth:]]
    if list(updates.shape) != wanted:
        raise ShapeError(
            "ML364",
            f"scatter_nd: the updates have the shape {_text(updates)}, expected "
            f"[{', '.join(map(str, wanted))}]",
            fix="give a slice of the input for each row of the indices; rebind sizes that are "
            "always equal",
        )
    return [x]


def _scatter_nd(call: Call, x: Array, updates: Array, indices: Array) -> Array:
    made, depth = x.copy(), indices.shape[-1]
    rows = indices.reshape(-1, depth) if depth else np.zeros((_rows(indices), 0), np.int64)
    places = [_wrapped("scatter_nd", rows[:, d], x.shape[d]) for d in range(depth)]
    slices = updates.reshape(len(rows), *x.shape[depth:])
    for number in range(len(rows)):
        made[tuple(place[number] for place in places)] = slices[number]
    return made


def _rows(indices: Array) -> int:
    return int(np.prod(indices.shape[:-1], dtype=np.int64))


def _scatter_nd_samples() -> list[Sample]:
    rng = np.random.default_rng(23)

    def case(
        shape: tuple[int, ...], rows: tuple[int, ...], depth: int, kind: str = "float32"
    ) -> tuple[tuple[Array, Array, Array], dict[str, int]]:
        x = rng.standard_normal(shape).astype(kind)
        u = (rng.standard_normal((*rows, *shape[depth:])) + 100).astype(kind)
        parts = [rng.integers(-n, max(n, 1), rows) for n in shape[:depth]]
        return (x, u, np.stack(parts, -1) if parts else np.zeros((*rows, 0), np.int64)), {}

    found = [
        Sample(*case((4, 5), (30,), 2), (("a", "b"), ("m",), ("m", 2)), "full"),
        Sample(*case((6, 5), (20,), 1), (("a", "b"), ("m", "b"), ("m", 1)), "rows"),
        Sample(*case((3, 4, 30), (2, 5), 2), (("a", 4, "c"), ("m", "n", "c"), ("m", "n", 2))),
        Sample(*case((3, 2), (4,), 0), label="no index"),
        Sample(*case((3, 4), (0,), 1), label="no rows"),
        Sample(*case((3, 4), (), 1), label="one row"),
        Sample(*case((0, 4), (0,), 1), label="empty"),
        Sample(*case((3, 0), (4,), 1), label="empty slices"),
        Sample(*case((20_000,), (30_000,), 1), (("n",), ("m",), ("m", 1)), "long"),
        Sample(*case((400, 40), (500,), 1), label="long rows"),
    ]
    found += [
        Sample(
            (
                rng.integers(0, 2, (3, 4)).astype(kind),
                rng.integers(0, 2, (7, 4)).astype(kind),
                rng.integers(-3, 3, (7, 1)).astype(np.int32),
            ),
            label=label,
        )
        for label, kind in _kinds()
    ]
    return found


define(
    "scatter_nd",
    "kernel",
    "index",
    "The operand with updates at rows of indices, each of which indexes its leading dims; of "
    "several at one place, the last.",
    foreign=foreign_names(onnx="ScatterND"),
    infer=_scatter_nd_infer,
    reference=_scatter_nd,
    kernel=scatter_nd_kernel,
    takes_float8=True,
    samples=_scatter_nd_samples,
)
