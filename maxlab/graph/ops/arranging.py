"""Orders and places of elements by the names that NumPy and PyTorch have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from maxlab.graph.build import as_int, staged, tensor
from maxlab.graph.ops import indexing, joining, shaping, spectral
from maxlab.graph.ops.dims import along, worded
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.opset.facts import Family
from maxlab.opset.rules import axis_of

FAMILY: Final[Family] = "view"
"""Of the functions here that are no rows of the op table themselves."""


@along
def cat(tensors: Iterable[TensorValueLike], axis: int = 0) -> TensorValue:
    """The tensors side by side along ``axis``; see ``concat``."""
    return joining.concat(tensors, axis)


concatenate = cat


@staged
def hstack(tensors: Sequence[TensorValueLike]) -> TensorValue:
    """The tensors side by side along their second dim, or along the only one."""
    values = [tensor(x, "hstack: an operand") for x in tensors]
    return joining.concat(values, 0 if values and values[0].rank == 1 else 1)


@staged
def vstack(tensors: Sequence[TensorValueLike]) -> TensorValue:
    """The tensors below each other; those of rank 1 are rows."""
    values = [tensor(x, "vstack: an operand") for x in tensors]
    return joining.concat([shaping.unsqueeze(x, 0) if x.rank == 1 else x for x in values], 0)


@staged
def swapaxes(x: TensorValueLike, axis1: int, axis2: int) -> TensorValue:
    """``x`` with two dims swapped; see ``transpose``."""
    return shaping.transpose(x, axis1, axis2)


@staged
def moveaxis(x: TensorValueLike, source: int, destination: int) -> TensorValue:
    """``x`` with the dim ``source`` at the place ``destination``; the others keep their order."""
    value = tensor(x, "moveaxis: the operand")
    moved = axis_of(source, value.rank, "moveaxis")
    order = [i for i in range(value.rank) if i != moved]
    order.insert(axis_of(destination, value.rank, "moveaxis"), moved)
    return shaping.permute(value, order)


movedim = moveaxis


@staged
def expand_dims(x: TensorValueLike, axis: int) -> TensorValue:
    """``x`` with a dim of size 1 at ``axis``; see ``unsqueeze``."""
    return shaping.unsqueeze(x, axis)


@staged
def ravel(x: TensorValueLike) -> TensorValue:
    """The elements as one row; see ``reshape``."""
    return shaping.reshape(x, (-1,))


@worded(shifts="shift", dims="axis", dim="axis")
@staged
def roll(
    x: TensorValueLike, shift: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> TensorValue:
    """``x`` with its elements moved by ``shift`` places along ``axis``, round the end; along the
    flattened tensor when it is None; along several axes, by as many shifts or by one for all."""
    value = tensor(x, "roll: the operand")
    if isinstance(axis, (tuple, list)):
        shifts = shift if isinstance(shift, (tuple, list)) else [shift] * len(axis)
        for by, place in zip(shifts, axis, strict=True):
            value = roll(value, by, place)
        return value
    if axis is None:
        return shaping.reshape(roll(shaping.reshape(value, (-1,)), shift, 0), value.shape)
    axis = axis_of(axis, value.rank, "roll")
    size = as_int("roll", value.shape[axis], "the size of the axis")
    at = -as_int("roll", shift, "shift") % size if size else 0
    if not at:
        return value
    head = [slice(None)] * axis
    parts = [indexing.slice_tensor(value, [*head, part]) for part in (slice(at, None), slice(at))]
    return joining.concat(parts, axis)


@worded(diagonal="k")
@staged
def tril(x: TensorValueLike, k: int = 0) -> TensorValue:
    """``x`` with zeros above its diagonal ``k``; see ``band_part``."""
    if k >= 0:
        return spectral.band_part(x, None, k)
    return spectral.band_part(x, -k - 1, None, exclude=True)


@worded(diagonal="k")
@staged
def triu(x: TensorValueLike, k: int = 0) -> TensorValue:
    """``x`` with zeros below its diagonal ``k``; see ``band_part``."""
    if k <= 0:
        return spectral.band_part(x, -k, None)
    return spectral.band_part(x, None, k - 1, exclude=True)


@staged
def dropped(x: TensorValueLike, axis: int | None = None) -> TensorValue:
    """``x`` without the dim ``axis`` of size 1, or without all of size 1: NumPy's ``squeeze``."""
    value = tensor(x, "squeeze: the operand")
    if axis is not None:
        return shaping.squeeze(value, axis)
    return shaping.reshape(value, [dim for dim in value.shape if dim != 1])


@staged
def cut_evenly(
    x: TensorValueLike, sections: int | Sequence[int], axis: int = 0
) -> list[TensorValue]:
    """NumPy's ``split``: into ``sections`` equal parts, or at these places."""
    value = tensor(x, "split: the operand")
    if isinstance(sections, int):
        return joining.chunk(value, sections, axis)
    size = as_int("split", value.shape[axis_of(axis, value.rank, "split")], "the size of the axis")
    bounds = [0, *sections, size]
    return joining.split(value, [b - a for a, b in pairwise(bounds)], axis)


__all__ = [
    "cat",
    "concatenate",
    "cut_evenly",
    "dropped",
    "expand_dims",
    "hstack",
    "moveaxis",
    "movedim",
    "ravel",
    "roll",
    "swapaxes",
    "tril",
    "triu",
    "vstack",
]
