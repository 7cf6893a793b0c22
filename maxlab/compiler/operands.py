"""Layouts that the operands of products must have in memory, and whether they have them."""

from __future__ import annotations

import itertools

from maxlab.compiler.axes import extents_of, own_index, shape_of
from maxlab.compiler.views import Views, strides_of
from maxlab.ir import Value
from maxlab.ir.poly import ONE


def is_matrix(views: Views, value: Value) -> bool:
    """Whether the rows of ``value``, all leading dims taken together, have one stride, and columns
    the stride 1.
    """
    shape = shape_of(value)
    base, index = views.resolve(value, own_index(shape), extents_of(shape))
    if views.inline_value(base):
        return False
    found = strides_of(views, base, index, len(shape))
    if found is None:
        return False
    strides, _ = found
    if shape[-1] != ONE and strides[-1] != ONE:
        return False
    rows = [n for n in range(len(shape) - 1) if shape[n] != ONE]
    return all(strides[a] == strides[b] * shape[b] for a, b in itertools.pairwise(rows))


def has_unit_stride(views: Views, value: Value, axis: int) -> bool:
    """Whether ``value`` has fixed strides and the stride 1 along ``axis``."""
    shape = shape_of(value)
    base, index = views.resolve(value, own_index(shape), extents_of(shape))
    if views.inline_value(base):
        return False
    # A kernel of a GPU is given the place of each matrix: heads may share one.
    first = len(shape) - 2 if value.tensor_type.device.is_gpu() else 0
    found = strides_of(views, base, index, len(shape), first)
    return found is not None and (shape[axis] == ONE or found[0][axis - first] == ONE)


def is_strided(views: Views, value: Value) -> bool:
    """Whether ``value`` has a fixed stride for each axis."""
    shape = shape_of(value)
    base, index = views.resolve(value, own_index(shape), extents_of(shape))
    return not views.inline_value(base) and strides_of(views, base, index, len(shape)) is not None
