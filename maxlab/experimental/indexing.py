"""Indexing as NumPy's: ints, slices, ``None``, ``...``, masks, and arrays of places."""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, PlaceError, ShapeError, shown
from maxlab.experimental import functional, recording
from maxlab.experimental.mirror import memory_of
from maxlab.experimental.recording import Recorded, made_of, type_in
from maxlab.graph import TensorValue, ops
from maxlab.graph.build import literal
from maxlab.graph.operands import is_array, to_numpy
from maxlab.ir import StaticDim, user_location

Places: TypeAlias = Any
"""An array of NumPy, or a tensor, of integers: one index of an axis for each element."""


def indexed(x: Any, index: Any) -> Any:
    """The part of the tensor ``x`` that ``x[index]`` is in NumPy.

    Slices are cut at the ends of an axis. A mask is read at once, since it decides the shape;
    places that are a tensor are not.

    Raises:
        PlaceError: ML215 (an IndexError), an index is out of range.
        ShapeError: ML216, too many indices.
        ArgumentTypeError: ML344, something that is no index.
        ArgumentError: ML345, a step of 0, or several ``...``.
    """
    sizes = tuple(type_in(x).shape.static_dims)
    entries = _for_each_axis(index if type(index) is tuple else (index,), sizes)
    if any(_is_places(entry) for entry in entries):
        return _by_places(x, entries, sizes)
    return _taken(x, _basic(entries, sizes), sizes)


# ---------------------------------------------------------------- reading an index
def _for_each_axis(index: tuple[Any, ...], sizes: tuple[int, ...]) -> list[Any]:
    """An int, a slice or places for each axis; and ``None`` for each new one."""
    dots = [n for n, entry in enumerate(index) if entry is Ellipsis]
    if len(dots) > 1:
        raise ArgumentError(
            "ML345", "an index has more than one '...'", at=user_location(), fix="keep one of them"
        )
    before = list(index[: dots[0]] if dots else index)
    after = list(index[dots[0] + 1 :]) if dots else []
    used = sum(_axes(entry) for entry in (*before, *after))
    if used > len(sizes):
        raise ShapeError(
            "ML216",
            f"{used} indices for a tensor of rank {len(sizes)}",
            at=user_location(),
            fix="use one for each axis at most",
        )
    made: list[Any] = []
    axis = 0
    for entry in (*before, *[slice(None)] * (len(sizes) - used), *after):
        found = _read(entry, sizes, axis)
        made += found
        axis += sum(one is not None for one in found)
    return made


def _axes(entry: Any) -> int:
    """How many axes ``entry`` indexes."""
    if entry is None:
        return 0
    if isinstance(entry, Recorded):
        type = type_in(entry)
        return len(type.shape) if type.dtype is DType.bool else 1
    if isinstance(entry, (list, np.ndarray)) or is_array(entry):
        array = to_numpy(entry)
        return array.ndim if array.dtype == bool else 1
    return 1


def _read(entry: Any, sizes: tuple[int, ...], axis: int) -> list[Any]:
    """The meaning of ``entry`` for the axes from ``axis`` on."""
    if entry is None:
        return [None]
    if isinstance(entry, slice):
        return [_slice(entry)]
    if isinstance(entry, Recorded):
        dtype = type_in(entry).dtype
        if dtype is DType.bool:
            return _places_of(np.asarray(entry), sizes, axis)
        if dtype.is_integral():
            return [entry]
        raise _no_index(f"a tensor of {dtype.name}")
    if isinstance(entry, StaticDim):
        return [entry.dim]
    if isinstance(entry, (list, np.ndarray)) or is_array(entry):
        array = to_numpy(entry)
        if array.dtype == bool:
            return _places_of(array, sizes, axis)
        if array.dtype.kind in "iu" or not array.size:
            return [_in_range(array.astype(np.int64), sizes[axis], axis)]
        raise _no_index(f"an array of {array.dtype}")
    if isinstance(entry, (bool, np.bool_)) or not hasattr(entry, "__index__"):
        raise _no_index(f"{type(entry).__name__} {shown(entry)}")
    place = operator.index(entry)
    _in_range(np.array(place), sizes[axis], axis)
    return [place]


def _slice(entry: slice) -> slice:
    bounds = []
    for bound in (entry.start, entry.stop, entry.step):
        if bound is not None and not hasattr(bound, "__index__"):
            raise _no_index(f"a slice with {shown(bound)}")
        bounds.append(None if bound is None else operator.index(bound))
    if bounds[2] == 0:
        raise ArgumentError(
            "ML345", "the step of a slice is 0", at=user_location(), fix="leave it out, or use -1"
        )
    return slice(*bounds)


def _places_of(mask: np.ndarray[Any, Any], sizes: tuple[int, ...], axis: int) -> list[Any]:
    """The places where ``mask`` is true, along each of its axes."""
    found = sizes[axis : axis + mask.ndim]
    if not mask.ndim or mask.shape != found:
        raise ArgumentTypeError(
            "ML344",
            f"a mask of shape {mask.shape} for axes of the sizes {found}",
            at=user_location(),
            fix="give a bool for each place of these axes",
        )
    return [np.asarray(one, np.int64) for one in np.nonzero(mask)]


def _in_range(places: np.ndarray[Any, Any], size: int, axis: int) -> np.ndarray[Any, Any]:
    """``places`` counted from the front."""
    wrong = places[(places < -size) | (places >= size)]
    if wrong.size:
        raise PlaceError(
            "ML215",
            f"the index {wrong.flat[0]} is out of range for axis {axis} of size {size}",
            at=user_location(),
            fix=f"use {-size} to {size - 1}" if size else "the axis is empty",
        )
    counted: np.ndarray[Any, Any] = np.where(places < 0, places + size, places)
    return counted


def _no_index(what: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML344",
        f"{what} is not an index",
        at=user_location(),
        fix="use ints, slices, None, ..., and arrays of ints or bools",
    )


def _is_places(entry: Any) -> bool:
    return isinstance(entry, (np.ndarray, Recorded))


# ---------------------------------------------------------------- taking the part
def _basic(entries: list[Any], sizes: tuple[int, ...]) -> list[Any]:
    """``entries`` without places, as ``ops.slice_tensor`` takes them: within each axis."""
    axes = iter(sizes)
    made: list[Any] = []
    for entry in entries:
        if entry is None:
            made.append(None)
            continue
        size = next(axes)
        if not isinstance(entry, slice):
            made.append(entry)
            continue
        start, stop, step = entry.indices(size)
        if not range(start, stop, step):
            made.append(slice(0, 0))
        elif step > 0:
            made.append(slice(start, stop, None if step == 1 else step))
        else:
            made.append(slice(start, None if stop < 0 else stop, step))
    return made


def _taken(x: Any, entries: list[Any], sizes: tuple[int, ...]) -> Any:
    """The part of ``x`` at ``entries``, which have no places. What begins at one place after the
    other, in a loop for example, is taken by the number where it begins, so that all of them are
    one program; anything else by the bounds, which costs nothing where it is used."""
    kind = type_in(x)
    axes = iter(sizes)
    fixed: list[Any] = []
    moving: list[tuple[int, int, int, int | None]] = []  # axis of the result, start, step, length
    for entry in entries:
        if entry is None:
            fixed.append(None)
            continue
        size = next(axes)
        if isinstance(entry, int):
            start, step, length = entry, 1, None
        else:
            start, stop, step = entry.indices(size)
            length = len(range(start, stop, step))
        if length in (0, size) or not _moves((kind, len(fixed), step, length), start):
            fixed.append(entry)
        else:
            moving.append((len(fixed), start, step, length))
            fixed.append(slice(None))
    if not moving:
        return functional.slice_tensor(x, entries)
    if fixed != [slice(None)] * len(sizes):
        ints = [n for n, entry in enumerate(fixed) if isinstance(entry, int)]
        x = functional.slice_tensor(x, fixed)
        moving = [
            (at - sum(n < at for n in ints), start, step, length)
            for at, start, step, length in moving
        ]
    for at, start, step, length in reversed(moving):
        x = recording.from_number(x, start, _take, (at, step, length))
    return x


_MANY = 2
"""How many beginnings are programs of their own."""
_begun: dict[Any, set[int] | None] = {}


def _moves(key: Any, start: int) -> bool:
    """Whether parts of the kind ``key`` begin at many places."""
    if len(_begun) > 65536:
        _begun.clear()
    seen = _begun.setdefault(key, set())
    if seen is None:
        return True
    seen.add(start)
    if len(seen) <= _MANY:
        return False
    _begun[key] = None
    return True


def _take(x: TensorValue, start: int, at: int, step: int, length: int | None) -> TensorValue:
    """The part of ``x`` along the axis ``at`` that begins at the number ``start``."""
    places = literal(start, DType.int64, x.device)
    if length is not None:
        count = ops.range(0, length * step, step, dtype=DType.int64, device=x.device)
        places = ops.add(count, places)
    return ops.gather(x, places, at)


def _by_places(x: Any, entries: list[Any], sizes: tuple[int, ...]) -> Any:
    """The part of ``x`` at places, among which ints count. Their axes become one place after the
    other: in front, or where the first was, if all stand side by side."""
    chosen = [n for n, entry in enumerate(entries) if _is_places(entry) or isinstance(entry, int)]
    places = [entries[n] for n in chosen]
    rest = [slice(None) if n in chosen else entry for n, entry in enumerate(entries)]
    made = _taken(x, _basic(rest, sizes), sizes)
    others = [n for n in range(len(entries)) if n not in chosen]
    order = [*chosen, *others]
    if order != sorted(order):
        made = functional.permute(made, order)
    common = _common(places)
    if len(places) == 1:
        made = functional.gather(made, _tensor(places[0]), 0)
    else:
        made = functional.gather_nd(made, _together(places, common))
    if chosen[-1] - chosen[0] == len(chosen) - 1 and chosen[0] > 0:
        front, back = len(common), len(common) + len(others)
        before = range(front, front + chosen[0])
        made = functional.permute(made, [*before, *range(front), *range(front + chosen[0], back)])
    return made


def _common(places: list[Places]) -> tuple[int, ...]:
    """The shape that ``places`` broadcast to."""
    shapes = [
        tuple(type_in(one).shape.static_dims) if isinstance(one, Recorded) else np.shape(one)
        for one in places
    ]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        both = " ".join(map(str, shapes))
        raise ShapeError(
            "ML201",
            "shape mismatch: indexing arrays could not be broadcast together with shapes " + both,
            at=user_location(),
            fix="give arrays of one shape, or of size 1 where they differ",
        ) from None


def _tensor(places: Places) -> Any:
    if isinstance(places, Recorded):
        return places
    return made_of(memory_of(np.array(places, np.int64)))


def _together(places: list[Places], common: tuple[int, ...]) -> Any:
    """``places`` side by side along a new last axis."""
    if not any(isinstance(one, Recorded) for one in places):
        return _tensor(np.stack([np.broadcast_to(one, common) for one in places], -1))
    parts = []
    for one in places:
        same = functional.cast(_tensor(one), DType.int64)
        parts.append(functional.unsqueeze(functional.broadcast_to(same, common), -1))
    return functional.concat(parts, -1)


__all__ = ["indexed"]
