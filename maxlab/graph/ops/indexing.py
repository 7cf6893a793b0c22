"""Reading parts of a tensor: ``gather`` and everything that ``x[...]`` means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, ShapeError, shown
from maxlab.graph.build import add as add_op
from maxlab.graph.build import (
    is_array,
    is_weak,
    known_dim,
    literal,
    staged,
    tensor,
    to_numpy,
)
from maxlab.graph.ops.dims import along
from maxlab.graph.ops.dynamic import bind_dim, one_int, to_device
from maxlab.graph.value import Index, TensorValue, TensorValueLike
from maxlab.ir import Dim, Shape, StaticDim
from maxlab.opset.dynamic import out_dim_of
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "index"
"""Of the functions here that are no rows of the op table themselves."""


@along
@staged
def gather(input: TensorValueLike, indices: TensorValueLike, axis: int) -> TensorValue:
    """The slices of ``input`` at ``indices`` along ``axis``, whose dim the dims of ``indices``
    replace.

    An index counts from the end when it is negative; one that is out of range is an error when the
    model runs.

    Args:
        input: A tensor of rank 1 or more.
        indices: Integers of any shape: a tensor, number or array.
        axis: The axis that is indexed; negative from the end.

    Raises:
        DTypeError: ML109, the indices are not integers.
        AxisError: ML303, ``axis`` is out of range.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> table = TensorType(DType.float32, [1000, 64])
        >>> ids = TensorType(DType.int64, ["batch", "seq"])
        >>> with Graph("embed", input_types=[table, ids]) as graph:
        ...     ops.gather(*graph.inputs, axis=0).shape
        [Dim('batch'), Dim('seq'), Dim(64)]
    """
    x = tensor(input, "gather: the input")
    if hasattr(axis, "_ir"):
        raise ArgumentTypeError(
            "ML302",
            "gather: the axis must be an int, got a tensor: the indices come before the axis",
            fix="whole rows: ops.gather(x, i, axis=1); PyTorch's gather, an element for each "
            "index: ops.take_along_axis(x, indices, axis)",
        )
    if is_weak(indices):
        indices = literal(indices, DType.int64, x.device)
    return add_op("gather", [x, tensor(indices, "gather: the indices")], axis=axis)


@dataclass(slots=True)
class _Cut:
    """The elements that are read of one dim: ``size`` from ``start`` in steps of ``step``.

    ``drop`` removes the dim afterwards, ``pick`` is an array or tensor of the elements to choose,
    ``name`` the dim that the result is asserted to have, ``bounds`` the tensors between which the
    elements are, and whether each is still counted from either end.
    """

    start: Dim
    step: int
    size: Dim
    drop: bool = False
    pick: Any = None
    name: Dim | None = None
    bounds: list[tuple[Any, bool]] | None = None


@staged
def slice_tensor(x: TensorValueLike, indices: Iterable[Index]) -> TensorValue:
    """The part of ``x`` that ``x[indices]`` names; nothing is copied before somebody needs it.

    As NumPy's indexing, with two differences. Bounds are not clamped: a bound outside of
    ``[-dim, dim]`` (``[-dim - 1, dim - 1]`` for a negative step) is an error, while the graph is
    built or, for symbolic dims, when the model is called. And a slice may be given with the dim of
    its result, as ``(slice, dim)``: bounds may then be integer tensors of rank 0, and a new name is
    defined by the size that they give.

    Args:
        x: A tensor.
        indices: At most one entry per dim, from the first: an int or dim (removes the dim), a slice
            of ints and dims, a rank-0 integer tensor (reads one element, removes the dim), ``None``
            (a new dim of size 1), one ``...``. One may be a list, array or tensor of integers,
            whose dims replace the dim as those of ``gather`` do, or bools, one for each place.

    Raises:
        ShapeError: ML215, an index or bound is out of range; ML216, too many indices.
        ArgumentTypeError: ML344, something that is no index, or a bound that only a run can tell,
            of a slice that is given without the dim of its result.
        ArgumentError: ML345, a step of 0, more than one ``...``, or a bound that is a negative dim;
            ML728, the dim of a result is negative.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        ...     x = graph.inputs[0].tensor
        ...     ops.slice_tensor(x, [slice(1, None), 0]).shape, x[::-1, None, :4].shape
        ([Dim('n') - Dim(1)], [Dim('n'), Dim(1), Dim(4)])
    """
    value = tensor(x, "slice_tensor: the operand")
    entries = _entries(list(indices), value.rank)
    cuts: list[_Cut] = []
    for entry in entries:
        if entry is not None:
            cuts.append(_cut(entry, value.shape[len(cuts)], len(cuts)))
    value = _sliced(value, cuts)
    for axis, cut in enumerate(cuts):
        if cut.bounds is not None:
            value = _computed_slice(value, axis, cut)
    _require_one_array(entries, cuts)
    for axis in reversed(range(len(cuts))):
        if cuts[axis].pick is not None:
            index = cuts[axis].pick
            if isinstance(index, np.ndarray):
                index = literal(index, DType.int64, value.device)
            value = add_op("gather", [value, index], axis=axis)
    return _reshaped(value, entries, cuts)


def _require_one_array(entries: list[Any], cuts: list[_Cut]) -> None:
    """Raises unless at most one entry is an array, and what is dropped stands beside it: NumPy
    pairs the elements of several, and moves their dims to the front where a slice is between."""
    arrays = [i for i, cut in enumerate(cuts) if cut.pick is not None and cut.pick.ndim]
    if not arrays:
        return
    places = [i for i, entry in enumerate(entries) if entry is not None]
    one = [places[i] for i, cut in enumerate(cuts) if cut.drop or cut.pick is not None]
    if len(arrays) > 1 or one != list(range(one[0], one[-1] + 1)):
        raise ArgumentTypeError(
            "ML344",
            "an index has several lists of places, or an int apart from one, whose elements NumPy "
            "pairs",
            fix="index by one after the other, or pair them: ops.gather_nd(x, indices)",
        )


def _entries(indices: list[Any], rank: int) -> list[Any]:
    """``indices`` with one entry for each dim, and ``None`` for new ones."""
    dots = [i for i, entry in enumerate(indices) if entry is Ellipsis]
    if len(dots) > 1:
        raise ArgumentError("ML345", "an index has more than one '...'", fix="keep one of them")
    used = sum(entry is not None and entry is not Ellipsis for entry in indices)
    if used > rank:
        raise ShapeError("ML216", f"{used} indices for a tensor of rank {rank}", fix="use fewer")
    rest = [slice(None)] * (rank - used)
    at = dots[0] if dots else len(indices)
    return [*indices[:at], *rest, *indices[at + 1 :]]


def cut_of_one(entry: Any, size: Dim, axis: int) -> _Cut:
    """The part of ``axis`` of a buffer that ``entry`` reads or changes: one place, or a slice.

    Raises:
        ArgumentTypeError: ML344, a list of places, besides what is no index at all.
    """
    cut = _cut(entry, size, axis)
    if cut.pick is not None and cut.pick.ndim:
        raise ArgumentTypeError(
            "ML344",
            f"axis {axis} of a buffer is indexed by one place or a slice, got several places",
            fix="index what ops.buffer_load(x) gives, or store place by place",
        )
    return cut


def _cut(entry: Any, size: Dim, axis: int) -> _Cut:
    if isinstance(entry, slice):
        return _slice(entry, size, axis)
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], slice):
        found = _slice(entry[0], size, axis, entry[1])
        found.name = out_dim_of(entry[1])
        return found
    if hasattr(entry, "_ir") or hasattr(entry, "__tensorvalue__"):
        pick = tensor(entry)
        if not pick.dtype.is_integral():
            raise ArgumentTypeError(
                "ML344",
                f"an index tensor must have integers, got {pick.type}",
                fix="use ops.where for masks, ops.nonzero(b, 'count') for the places of one; "
                "convert numbers: ops.cast(i, DType.int64)",
            )
        return _Cut(Dim(0), 1, size, pick=pick)
    if isinstance(entry, list) or is_array(entry):
        entry = to_numpy(entry)
        if entry.ndim:
            return _Cut(Dim(0), 1, size, pick=_places(entry, size, axis))
        entry = entry[()]
    if isinstance(entry, bool) or not isinstance(entry, (int, np.integer, Dim)):
        raise ArgumentTypeError(
            "ML344",
            f"{type(entry).__name__} {shown(entry)} is not an index",
            fix="use ints, dims, slices, None and ...; ops.gather takes arrays of indices",
        )
    start = Dim(entry)
    if isinstance(start, StaticDim):
        if isinstance(size, StaticDim) and not -size.dim <= start.dim < size.dim:
            raise ShapeError(
                "ML215",
                f"the index {start} is out of range for axis {axis} of size {size}",
                fix=f"use {-size.dim} to {size.dim - 1}" if size.dim else "the axis is empty",
            )
        if start.dim < 0:
            start = size + start
    return _Cut(start, 1, Dim(1), drop=True)


def _places(entry: np.ndarray[Any, Any], size: Dim, axis: int) -> np.ndarray[Any, Any]:
    """The indices that ``entry``, an array as the index of ``axis``, names.

    Raises:
        ArgumentTypeError: ML344, neither integers nor a bool for each place.
        ShapeError: ML215, an index is out of range.
    """
    if not entry.size:
        return entry.astype(np.int64)
    if entry.dtype == bool:
        if entry.shape != (size,):
            raise ArgumentTypeError(
                "ML344",
                f"a mask of the shape {list(entry.shape)} for axis {axis} of size {size}",
                fix="give a bool for each place: x.shape has the sizes; ops.where takes masks of "
                "any shape",
            )
        return np.flatnonzero(entry)
    if entry.dtype.kind not in "iu":
        raise ArgumentTypeError(
            "ML344",
            f"an array of {entry.dtype} is not an index",
            fix="convert it: indices.astype(int); a tensor of the graph: ops.cast(i, DType.int64)",
        )
    if isinstance(size, StaticDim):
        wrong = entry[(entry < -size.dim) | (entry >= size.dim)]
        if wrong.size:
            raise ShapeError(
                "ML215",
                f"the index {wrong[0]} is out of range for axis {axis} of size {size}",
                fix=f"use {-size.dim} to {size.dim - 1}, such as x[[{-size.dim}, {size.dim - 1}]]"
                if size.dim
                else "the axis is empty",
            )
    return entry.astype(np.int64)


def _bound(bound: Any, size: Dim, axis: int, low: int, high: int) -> Dim:
    """A bound of a slice, counted from the front.

    A static one must lie in ``[-size + low, size + high]``.
    """
    if hasattr(bound, "_ir") or hasattr(bound, "__tensorvalue__"):
        found = known_dim(tensor(bound))
        if found is None:
            raise ArgumentTypeError(
                "ML344",
                f"a bound of axis {axis} is the result of a computation, so only a run can tell "
                "the size of the slice, which has no name",
                fix='name the size: x[(slice(start, stop), "part")], or use ints and dims such as '
                "x.shape[0] as bounds",
            )
        bound = found
    if isinstance(bound, bool) or not isinstance(bound, (int, np.integer, Dim)):
        raise ArgumentTypeError(
            "ML344",
            f"a bound of axis {axis} is {type(bound).__name__} {bound!r}",
            fix="use ints and dims such as x.shape[0] as bounds",
        )
    dim = Dim(bound)
    if not isinstance(dim, StaticDim):
        if all(scale < 0 for _, scale in dim.poly.terms):
            raise ArgumentError(
                "ML345",
                f"the bound {dim} of axis {axis} is a negative dim",
                fix=f"count from the front: {size} - {-dim}",
            )
        return dim
    if isinstance(size, StaticDim) and not -size.dim + low <= dim.dim <= size.dim + high:
        raise ShapeError(
            "ML215",
            f"the bound {dim} is out of range for axis {axis} of size {size}",
            fix=f"use {-size.dim + low} to {size.dim + high}; bounds are not clamped",
        )
    return size + dim if dim.dim < 0 else dim


def _slice(entry: slice, size: Dim, axis: int, name: Any = None) -> _Cut:
    step = 1 if entry.step is None else entry.step
    if isinstance(step, StaticDim):
        step = step.dim
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
        raise ArgumentTypeError(
            "ML344", f"the step of axis {axis} must be an int, got {step!r}", fix="use an int"
        )
    step = int(step)
    if not step:
        raise ArgumentError("ML345", f"the step of axis {axis} is 0", fix="use 1 or -1")
    down = step < 0
    low, high = (-1, -1) if down else (0, 0)
    if name is not None and (_is_computed(entry.start) or _is_computed(entry.stop)):
        limits: list[tuple[Any, bool]] = []
        ends = (size - 1, Dim(-1)) if down else (Dim(0), size)
        for bound, open_end in zip((entry.start, entry.stop), ends, strict=True):
            if bound is not None and _is_computed(bound):
                limits.append((_one(bound, axis), True))
            else:
                known = open_end if bound is None else _bound(bound, size, axis, low, high)
                limits.append((known, False))
        return _Cut(Dim(0), step, size, bounds=limits)
    if entry.start is None:
        start = size - 1 if down else Dim(0)
    else:
        start = _bound(entry.start, size, axis, low, high)
    if entry.stop is None:
        stop = Dim(-1) if down else size
    else:
        stop = _bound(entry.stop, size, axis, low, high)
    distance = start - stop if down else stop - start
    length = (distance + (abs(step) - 1)) // abs(step)
    if isinstance(length, StaticDim) and length.dim < 0:
        length = Dim(0)
    return _Cut(start, step, length)


def _is_computed(bound: Any) -> bool:
    """Whether ``bound`` is a tensor whose value only a run can tell."""
    if not (hasattr(bound, "_ir") or hasattr(bound, "__tensorvalue__")):
        return False
    return known_dim(tensor(bound)) is None


def _one(bound: Any, axis: int) -> TensorValue:
    value = tensor(bound)
    if value.rank or not value.dtype.is_integral():
        raise ArgumentTypeError(
            "ML344",
            f"a bound of axis {axis} must be one integer, got {value.type}",
            fix="use an integer tensor of rank 0",
        )
    return value


def _first_of(cut: _Cut, size: Dim, what: str) -> TensorValue:
    """The first index between the bounds of ``cut``, which are computed; the number of elements
    between them becomes the dim that ``cut`` names."""
    assert cut.bounds is not None
    assert cut.name is not None
    place = next(bound.device for bound, raw in cut.bounds if raw)
    bounds = [one_int(bound, place) for bound, _ in cut.bounds]
    raw = tuple(raw for _, raw in cut.bounds)
    made: Any = add_op("slice.bounds", bounds, size=size, step=cut.step, raw=raw)
    first: TensorValue
    first, count = made
    bind_dim(count, cut.name, what)
    return first


def _computed_slice(x: TensorValue, axis: int, cut: _Cut) -> TensorValue:
    """The elements of ``x`` along ``axis`` between bounds that are computed: a gather."""
    first = to_device(_first_of(cut, x.shape[axis], "slice_tensor"), x.device)
    by = literal(cut.step, DType.int64, x.device)
    index = add_op(
        "range",
        [first, first, by],
        start=Dim(0),
        step=Dim(1),
        size=cut.name,
        dtype=DType.int64,
        device=x.device,
    )
    return add_op("gather", [x, index], axis=axis)


def _sliced(x: TensorValue, cuts: list[_Cut]) -> TensorValue:
    steps = [1 if c.bounds is not None else c.step for c in cuts]
    if any(
        step != 1 or c.start != 0 or c.size != d
        for step, c, d in zip(steps, cuts, x.shape, strict=True)
    ):
        x = add_op(
            "slice",
            [x],
            starts=tuple(c.start for c in cuts),
            steps=tuple(steps),
            shape=Shape(c.size for c in cuts),
        )
    return _named(x, cuts, "slice_tensor")


def _named(x: TensorValue, cuts: list[_Cut], what: str) -> TensorValue:
    """``x`` with the dims that the entries of its index were given with."""
    names = [c.size if c.name is None or c.bounds is not None else c.name for c in cuts]
    if any(name != c.size for name, c in zip(names, cuts, strict=True)):
        x = add_op("rebind", [x], shape=Shape(names), message=f"{what}: out_dim", layout=None)
    return x


def _reshaped(x: TensorValue, entries: list[Any], cuts: list[_Cut]) -> TensorValue:
    """``x`` without the dims that an int removed and with those that ``None`` adds."""
    dims: list[Dim] = []
    added: list[int] = []
    dropped: list[int] = []
    position = axis = 0
    for entry in entries:
        if entry is None:
            added.append(len(dims))
            dims.append(Dim(1))
            continue
        cut = cuts[position]
        position += 1
        if cut.pick is not None:  # its dims have replaced the dim
            dims.extend(x.shape[axis : axis + cut.pick.ndim])
            axis += cut.pick.ndim
            continue
        if cut.drop:
            dropped.append(axis)
        else:
            dims.append(x.shape[axis])
        axis += 1
    assert axis == x.rank
    if len(dropped) == 1 and not added:
        return add_op("squeeze", [x], axis=dropped[0])
    if len(added) == 1 and not dropped:
        return add_op("unsqueeze", [x], axis=added[0])
    return add_op("reshape", [x], shape=Shape(dims)) if dropped or added else x
