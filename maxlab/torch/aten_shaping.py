"""Operations of ATen that move elements without computing: views, joins, parts, lookups, and
tensors that are made from numbers.

The shapes of results are those that the export found. They are in terms of the graph's symbolic
dims already, so a -1 never has to be solved here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from maxlab.dtype import DType
from maxlab.graph import TensorValue, ops
from maxlab.ir import Dim, Shape, StaticDim
from maxlab.opset.builder import builder, one
from maxlab.torch.aten import HOST, NotImported, Site, aten, axis_of, tensor


# ---------------------------------------------------------------- views
@aten(
    "view.default",
    "_unsafe_view.default",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "unsqueeze.default",
)
def _reshape(at: Site, x: Any, *_: Any) -> TensorValue:
    value = tensor(x)
    return value if Shape(value.shape) == at.shape else ops.reshape(value, at.shape)


@aten("permute.default")
def _permute(at: Site, x: Any, dims: Sequence[int]) -> TensorValue:
    value = tensor(x)
    return ops.permute(value, [axis_of(d, value.rank) for d in dims]) if value.rank else value


@aten("transpose.int")
def _transpose(at: Site, x: Any, first: int, second: int) -> TensorValue:
    value = tensor(x)
    return ops.transpose(value, first, second) if value.rank else value


@aten("t.default")
def _t(at: Site, x: Any) -> TensorValue:
    value = tensor(x)
    return ops.transpose(value, 0, 1) if value.rank == 2 else value


@aten("expand.default")
def _expand(at: Site, x: Any, *_: Any, **__: Any) -> TensorValue:
    return ops.broadcast_to(tensor(x), at.shape)


@aten("repeat.default")
def _repeat(at: Site, x: Any, repeats: Sequence[Any]) -> TensorValue:
    value = tensor(x)
    missing = len(repeats) - value.rank
    if missing:
        value = ops.reshape(value, [1] * missing + list(value.shape))
    return ops.tile(value, repeats)


def _is_packed(sizes: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether elements with these strides lie one after another; dims of size 1 do not count."""
    distance = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1:
            if not isinstance(size, int) or stride != distance:
                return False
            distance *= size
    return True


@aten("as_strided.default")
def _as_strided(
    at: Site, x: Any, sizes: Sequence[Any], strides: Sequence[Any], offset: Any = None
) -> TensorValue:
    node = at.node.args[0]
    assert isinstance(node, torch.fx.Node)
    source = node.meta["val"]
    packed = _is_packed(sizes, strides) and _is_packed(source.shape, source.stride())
    if not packed or offset or math.prod(sizes) != math.prod(source.shape):
        raise NotImported("it has strides of its own")
    return _reshape(at, x)


@aten("copy.default")
def _copy(at: Site, x: Any, source: Any, non_blocking: bool = False) -> TensorValue:
    return ops.broadcast_to(at.value(source), at.shape)


# ---------------------------------------------------------------- parts
def _cut(x: TensorValue, axis: int, start: Dim, size: Dim, step: int = 1) -> TensorValue:
    if start == 0 and size == x.shape[axis] and step == 1:
        return x
    part: TensorValue = one(
        builder(what="a slice"),
        "slice",
        [x],
        starts=tuple(start if n == axis else Dim(0) for n in range(x.rank)),
        steps=tuple(step if n == axis else 1 for n in range(x.rank)),
        shape=Shape(size if n == axis else d for n, d in enumerate(x.shape)),
    )
    return part


def _first(start: Any, size: Dim) -> Dim:
    """Where a slice begins in a dim of ``size``: negative numbers count from the end, and what is
    out of range is brought into it."""
    if start is None:
        return Dim(0)
    if isinstance(start, int):
        if isinstance(size, StaticDim):
            return Dim(min(max(start + size.dim if start < 0 else start, 0), size.dim))
        return size + start if start < 0 else Dim(start)
    return Dim(start)


@aten("slice.Tensor")
def _slice(
    at: Site, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> TensorValue:
    value = tensor(x)
    axis = axis_of(dim, value.rank)
    size = at.shape[axis]
    if size == 0:
        return _cut(value, axis, Dim(0), size)
    return _cut(value, axis, _first(start, value.shape[axis]), size, step)


@aten("select.int")
def _select(at: Site, x: Any, dim: int, index: Any) -> TensorValue:
    value = tensor(x)
    axis = axis_of(dim, value.rank)
    part = _cut(value, axis, _first(index, value.shape[axis]), Dim(1))
    return ops.squeeze(part, axis)


@aten("split.Tensor", "split_with_sizes.default")
def _split(at: Site, x: Any, sizes: Any, dim: int = 0) -> tuple[TensorValue, ...]:
    value = tensor(x)
    axis = axis_of(dim, value.rank)
    parts, start = [], Dim(0)
    for type in at.types:
        assert type is not None
        size = type.shape[axis]
        parts.append(_cut(value, axis, start, size))
        start = start + size
    return tuple(parts)


@aten("unbind.int")
def _unbind(at: Site, x: Any, dim: int = 0) -> tuple[TensorValue, ...]:
    value = tensor(x)
    axis = axis_of(dim, value.rank)
    return tuple(ops.squeeze(_cut(value, axis, Dim(n), Dim(1)), axis) for n in range(len(at.types)))


def _replaced(x: TensorValue, part: TensorValue, axis: int, start: Dim) -> TensorValue:
    """``x``, where ``part`` stands instead of what lies from ``start`` on along ``axis``."""
    end = start + part.shape[axis]
    rest = x.shape[axis] - end
    before = [] if start == 0 else [_cut(x, axis, Dim(0), start)]
    after = [] if rest == 0 else [_cut(x, axis, end, rest)]
    return ops.concat([*before, part, *after], axis) if before or after else part


@aten("slice_scatter.default")
def _slice_scatter(
    at: Site, x: Any, part: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> TensorValue:
    if step != 1:
        raise NotImported("it replaces elements in steps")
    value, given = tensor(x), at.value(tensor(part))
    axis = axis_of(dim, value.rank)
    return _replaced(value, given, axis, _first(start, value.shape[axis]))


@aten("select_scatter.default")
def _select_scatter(at: Site, x: Any, part: Any, dim: int, index: Any) -> TensorValue:
    value = tensor(x)
    axis = axis_of(dim, value.rank)
    given = ops.unsqueeze(at.value(tensor(part)), axis)
    return _replaced(value, given, axis, _first(index, value.shape[axis]))


# ---------------------------------------------------------------- joins
@aten("cat.default")
def _cat(at: Site, parts: Sequence[Any], dim: int = 0) -> TensorValue:
    rank = at.type.rank
    # torch leaves out empty vectors, whatever the rank of the others.
    kept = [p for p in parts if tensor(p).rank == rank]
    return ops.concat([at.value(p) for p in kept], axis_of(dim, rank))


@aten("stack.default")
def _stack(at: Site, parts: Sequence[Any], dim: int = 0) -> TensorValue:
    return ops.stack([at.value(p) for p in parts], axis_of(dim, at.type.rank))


@aten("constant_pad_nd.default", "pad.default")
def _pad(at: Site, x: Any, pads: Sequence[Any], *rest: Any, **names: Any) -> TensorValue:
    rest = tuple(v for v in (*rest, *names.values()) if v is not None)
    if any(isinstance(v, str) and v != "constant" for v in rest):
        raise NotImported(f"it pads by {rest[0]}")
    if any(isinstance(p, int) and p < 0 for p in pads):
        raise NotImported("it removes elements instead of adding them")
    value = tensor(x)
    pairs = [(pads[n], pads[n + 1]) for n in range(0, len(pads), 2)]  # the last axis first
    pairs += [(0, 0)] * (value.rank - len(pairs))
    filler = next((v for v in rest if not isinstance(v, str)), 0)
    return ops.pad(value, [p for pair in reversed(pairs) for p in pair], value=filler)


# ---------------------------------------------------------------- lookups
@aten("embedding.default")
def _embedding(at: Site, table: Any, indices: Any, *_: Any, **__: Any) -> TensorValue:
    return ops.gather(tensor(table), tensor(indices), axis=0)


@aten("index_select.default")
def _index_select(at: Site, x: Any, dim: int, index: Any) -> TensorValue:
    return ops.gather(tensor(x), tensor(index), axis_of(dim, tensor(x).rank))


@aten("gather.default")
def _gather(at: Site, x: Any, dim: int, index: Any, **_: Any) -> TensorValue:
    """Each element from its own place, which differs from the result's along ``dim`` alone."""
    value, chosen = tensor(x), tensor(index)
    if value.rank == 0:
        return value
    axis = axis_of(dim, value.rank)
    place: TensorValue | None = None  # in the elements as a row, counted axis by axis
    for n in range(value.rank):
        if n == axis:
            along = _wrapped(at, chosen, value.shape[n])
        else:
            along = ops.range(0, at.shape[n], 1, dtype=DType.int64, device=HOST)
            along = ops.reshape(along, [at.shape[n] if m == n else 1 for m in range(value.rank)])
        if place is not None:
            along = ops.add(ops.mul(place, at.value(value.shape[n], DType.int64)), along)
        place = along
    assert place is not None
    return ops.gather(ops.reshape(value, [-1]), ops.broadcast_to(place, at.shape), 0)


@aten("index.Tensor", "_unsafe_index.Tensor")
def _index(at: Site, x: Any, indices: Sequence[Any]) -> TensorValue:
    value = tensor(x)
    axes = [n for n, index in enumerate(indices) if index is not None]
    given = [tensor(indices[n]) for n in axes]
    if not all(index.dtype.is_integral() for index in given):
        raise NotImported("it indexes by a mask")
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise NotImported("the dims that it indexes are not side by side")
    if len(given) == 1:
        return ops.gather(value, given[0], axes[0])
    # Several indices at once: the place in the dims taken as one, whose last index counts ones.
    sizes = [value.shape[n] for n in axes]
    place, whole = _wrapped(at, given[0], sizes[0]), sizes[0]
    for index, size in zip(given[1:], sizes[1:], strict=True):
        scaled = ops.mul(place, at.value(size, DType.int64))
        place, whole = ops.add(scaled, _wrapped(at, index, size)), whole * size
    merged = [*value.shape[: axes[0]], whole, *value.shape[axes[-1] + 1 :]]
    return ops.gather(ops.reshape(value, merged), place, axes[0])


def _wrapped(at: Site, index: TensorValue, size: Dim) -> TensorValue:
    """``index`` as int64, counted from the start where it is negative.

    One that is out of range becomes another element's place when dims are taken as one, where torch
    refuses it: the largest number instead, which a gather refuses too.
    """
    wide = at.value(index, DType.int64)
    limit = at.value(size, DType.int64)
    seen = ops.where(ops.greater_equal(wide, 0), wide, ops.add(wide, limit))
    inside = ops.logical_and(ops.greater_equal(seen, 0), ops.greater(limit, seen))
    return ops.where(inside, seen, at.value(2**40, DType.int64))


# ---------------------------------------------------------------- tensors made from numbers
@aten("arange.start_step", "arange.start", "arange.default")
def _arange(at: Site, *bounds: Any, **layout: Any) -> TensorValue:
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    if any(isinstance(b, float) and not b.is_integer() for b in (start, end, step)):
        raise NotImported("it counts in fractions")
    start, end, step = (int(b) if isinstance(b, float) else b for b in (start, end, step))
    counted = at.dtype if at.dtype.is_integral() else DType.int64
    return at.value(ops.range(start, end, step, dtype=counted, device=HOST))


def _filled(at: Site, number: Any) -> TensorValue:
    return ops.broadcast_to(at.value(number), at.shape)


@aten("full.default", "full_like.default", "new_full.default")
def _full(at: Site, like: Any, *rest: Any, **layout: Any) -> TensorValue:
    return _filled(at, rest[-1])


@aten("zeros.default", "zeros_like.default", "new_zeros.default")
def _zeros(at: Site, *_: Any, **layout: Any) -> TensorValue:
    return _filled(at, 0)


@aten("ones.default", "ones_like.default", "new_ones.default")
def _ones(at: Site, *_: Any, **layout: Any) -> TensorValue:
    return _filled(at, 1)


@aten("scalar_tensor.default")
def _scalar_tensor(at: Site, number: Any, **layout: Any) -> TensorValue:
    return at.value(number)


def _triangle(at: Site, x: Any, diagonal: int, lower: bool) -> TensorValue:
    value = tensor(x)
    count, width = value.shape[-2], value.shape[-1]
    rows = ops.range(0, count, 1, dtype=DType.int64, device=HOST)
    columns = ops.range(0, width, 1, dtype=DType.int64, device=HOST)
    place = ops.sub(ops.unsqueeze(columns, 0), ops.unsqueeze(rows, 1))  # how far to the right
    kept = ops.greater_equal(ops.constant(diagonal, DType.int64, HOST), place)
    if not lower:
        kept = ops.greater_equal(place, diagonal)
    if at.dtype is DType.bool:
        return ops.logical_and(value, kept)
    return ops.where(kept, value, 0)


@aten("tril.default")
def _tril(at: Site, x: Any, diagonal: int = 0) -> TensorValue:
    return _triangle(at, x, diagonal, lower=True)


@aten("triu.default")
def _triu(at: Site, x: Any, diagonal: int = 0) -> TensorValue:
    return _triangle(at, x, diagonal, lower=False)
