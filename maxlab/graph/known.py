"""Facts that are known of values and dims while a graph is being built."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from maxlab.ir import Dim, Function, StaticDim, TensorType, Value
from maxlab.opset import is_constant, is_dim


def known_dim(value: Value) -> Dim | None:
    """The dim whose size ``value``, a rank-0 integer, always is; None when a run decides."""
    op, type = value.op, value.type
    if op is None or not isinstance(type, TensorType):
        return None
    if type.rank or not type.dtype.is_integral():
        return None
    if is_dim(op):
        dim: Dim = op.attrs["dim"]
        return dim
    data = known_data(value)
    return None if data is None else StaticDim(int(data))


def known_data(value: Value) -> np.ndarray[Any, Any] | None:
    """The elements of ``value`` if it is a constant; None otherwise."""
    op = value.op
    if op is None or not is_constant(op):
        return None
    data: np.ndarray[Any, Any] = op.attrs["value"].array
    return data


def dim_names(function: Function) -> Collection[str]:
    """The names of dims that have a size in ``function``, those of its inputs first."""
    names = dict.fromkeys(function.parameters)
    for op in function.walk():
        for result in op.results:
            if isinstance(result.type, TensorType):
                names.update((p.name, None) for p in result.type.shape.parameters)
    return names


__all__ = ["dim_names", "known_data", "known_dim"]
