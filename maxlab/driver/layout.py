"""Shapes, strides and indices: pure functions, shared by everything that views memory."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from maxlab.errors import ArgumentTypeError, TensorError, shown

MAX_RANK = 64
"""The most axes of a tensor: those of NumPy 2 and of PyTorch."""


class TensorIndexError(TensorError, IndexError):
    """An index outside of the tensor, or with more axes than it has."""


def check_shape(shape: Any) -> tuple[int, ...]:
    """The sizes as a tuple of ints.

    Raises:
        TensorError: ML420, negative sizes, more elements than memory can hold, or too many axes.
        ArgumentTypeError: ML421, not a sequence of ints.
    """
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except Exception as error:
        raise ArgumentTypeError(
            "ML421",
            f"a shape is a sequence of ints, got {shown(shape)}",
            fix="write Tensor(DType.float32, [2, 3])",
        ) from error
    if len(sizes) > MAX_RANK:
        raise TensorError(
            "ML420",
            f"a tensor has a rank of up to {MAX_RANK}, got rank {len(sizes)}",
            fix="merge axes that are not needed",
        )
    # Strides are products of sizes, so those count that stand beside one of 0.
    if any(size < 0 for size in sizes) or math.prod(size or 1 for size in sizes) >= 1 << 60:
        raise TensorError(
            "ML420",
            f"a tensor of shape {shown(sizes)} cannot be: sizes are 0 or more, and fit into memory",
            fix="check how the shape was computed",
        )
    return sizes


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of contiguous memory: the last axis is the fastest."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def canonical_strides(
    shape: tuple[int, ...], strides: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """None if memory with these strides is contiguous, else the strides."""
    if strides is None or 0 in shape:
        return None
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return strides
            step *= size
        elif stride < 0:
            return strides
    return None


def check_index(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """``index`` for a NumPy view: checked, and with ``...``, so that no scalar comes out.

    Raises:
        TensorIndexError: ML426, out of range, too many, or not an index.
    """
    items = tuple(_one_index(i) for i in (index if isinstance(index, tuple) else (index,)))
    given = [i for i in items if i is not None and i is not ...]
    if len(given) > len(shape) or sum(i is ... for i in items) > 1:
        raise TensorIndexError(
            "ML426",
            f"{len(given)} indices for a tensor of rank {len(shape)}",
            fix="give at most one index for each axis, and ... once",
        )
    axis = 0
    for i in items:
        if i is ...:
            axis += len(shape) - len(given)
        elif i is not None:
            size = shape[axis]
            if isinstance(i, int) and not -size <= i < size:
                raise TensorIndexError(
                    "ML426",
                    f"index {shown(i)} is outside of axis {axis}, which has size {size}",
                    fix=f"use an index from {-size} to {size - 1}" if size else "the axis is empty",
                )
            axis += 1
    return items if ... in items else (*items, ...)


def places_of(index: Any) -> Any:
    """``index`` for an array of NumPy where it has lists, arrays or tensors of places, or masks;
    None where it has ints and slices alone."""
    items = index if isinstance(index, tuple) else (index,)
    found = [_array_of(item) for item in items]
    if all(item is None for item in found):
        return None
    return tuple(item if array is None else array for item, array in zip(items, found, strict=True))


def _array_of(item: Any) -> Any:
    """The array of ``item``, a list, array or tensor with axes; None for other indices."""
    try:
        if isinstance(item, list):
            array = np.asarray(item)
            return array if array.size else array.astype(np.int64)
        if not hasattr(item, "__dlpack__") or not getattr(item, "ndim", 0):
            return None
        return np.asarray(item)
    except Exception as error:  # rows of several lengths, or what another library raises
        raise _no_index(item) from error


def _one_index(item: Any) -> Any:
    """``item``, with every kind of integer as an int."""
    if item is None or item is ...:
        return item
    try:
        if isinstance(item, slice):
            bounds = (item.start, item.stop, item.step)
            start, stop, step = (b if b is None else operator.index(b) for b in bounds)
            if step != 0:
                return slice(start, stop, step)
        elif not isinstance(item, bool):
            return operator.index(item)
    except Exception as error:
        raise _no_index(item) from error
    raise _no_index(item)


def _no_index(item: Any) -> TensorIndexError:
    return TensorIndexError(
        "ML426",
        f"a tensor cannot be indexed by {type(item).__name__} {shown(item)}",
        fix="use integers, slices with integers and a step that is not 0, ... and None",
    )
