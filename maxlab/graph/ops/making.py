"""Tensors that begin with a shape: ``zeros``, ``arange``, ``eye`` and the like.

The shape may have dims of the graph; the dtype is float32 and the device the CPU when left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError
from maxlab.graph.build import as_dtype, as_int, cast, literal, staged, tensor
from maxlab.graph.ops import creation, elementwise, shaping
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import DeviceRef, Dim, DimLike, Shape
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "source"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def full(
    shape: DimLike | Iterable[DimLike], fill_value: Any, dtype: Any = None, device: Any = None
) -> TensorValue:
    """A tensor of ``shape`` whose elements are all ``fill_value``, a number.

    Example:
        >>> from maxlab.graph import Graph, ops
        >>> with Graph("g"):
        ...     ops.full((2, 3), 1.5)
        TensorValue(dtype=DType.float32, shape=[Dim(2), Dim(3)], device=cpu:0)
    """
    if isinstance(dtype, (int, np.integer)) and isinstance(shape, (int, np.integer)):
        raise ArgumentTypeError(
            "ML399",
            f"the dtype must be a DType, got {dtype}: the sizes of a shape stand in a list",
            fix=f"write ops.zeros([{shape}, {dtype}]), ops.ones([{shape}, {dtype}])",
        )
    dims = Shape([shape] if isinstance(shape, (int, str, Dim, np.integer)) else shape)
    kind = as_dtype("full", DType.float32 if dtype is None else dtype)
    place = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
    return shaping.broadcast_to(literal(fill_value, kind, place), dims)


@staged
def zeros(shape: DimLike | Iterable[DimLike], dtype: Any = None, device: Any = None) -> TensorValue:
    """A tensor of zeros; see ``full``."""
    return full(shape, 0, dtype, device)


@staged
def ones(shape: DimLike | Iterable[DimLike], dtype: Any = None, device: Any = None) -> TensorValue:
    """A tensor of ones; see ``full``."""
    return full(shape, 1, dtype, device)


@staged
def full_like(x: TensorValueLike, fill_value: Any, dtype: Any = None) -> TensorValue:
    """A tensor of ``fill_value`` with the shape, device and, unless given, dtype of ``x``."""
    like = tensor(x, "full_like: the operand")
    return full(like.shape, fill_value, like.dtype if dtype is None else dtype, like.device)


@staged
def zeros_like(x: TensorValueLike, dtype: Any = None) -> TensorValue:
    """A tensor of zeros like ``x``; see ``full_like``."""
    return full_like(x, 0, dtype)


@staged
def ones_like(x: TensorValueLike, dtype: Any = None) -> TensorValue:
    """A tensor of ones like ``x``; see ``full_like``."""
    return full_like(x, 1, dtype)


@staged
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, device: Any = None
) -> TensorValue:
    """``range`` as NumPy and PyTorch write it: ``arange(stop)`` begins at 0; int64 unless a bound
    is a float."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        floats = any(isinstance(x, (float, np.floating)) for x in (start, stop, step))
        dtype = DType.float32 if floats else DType.int64
    kind = as_dtype("arange", dtype)
    place = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
    return creation.range(start, stop, step, dtype=kind, device=place)


@staged
def linspace(
    start: float, stop: float, num: int = 50, dtype: Any = None, device: Any = None
) -> TensorValue:
    """``num`` numbers from ``start`` to ``stop``, both included, equally far apart."""
    count = as_int("linspace", num, "num")
    kind = as_dtype("linspace", DType.float32 if dtype is None else dtype)
    values = np.linspace(start, stop, count)
    place = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
    return creation.constant(values, kind, place)


@staged
def eye(n: DimLike, m: DimLike | None = None, dtype: Any = None, device: Any = None) -> TensorValue:
    """``[n, m]``, or ``[n, n]``, with ones on the diagonal and zeros elsewhere."""
    place = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
    kind = as_dtype("eye", DType.float32 if dtype is None else dtype)
    rows = arange(0, Dim(n), device=place)
    columns = arange(0, Dim(n if m is None else m), device=place)
    return cast(elementwise.equal(shaping.unsqueeze(rows, 1), columns), kind)


@staged
def one_hot(indices: TensorValueLike, num_classes: DimLike) -> TensorValue:
    """``[..., num_classes]`` int64: 1 at the place that an index names, 0 elsewhere.

    The number of classes is never taken from the values, which only a run knows.
    """
    value = tensor(indices, "one_hot: the indices")
    classes = arange(0, Dim(num_classes), device=value.device)
    wide = shaping.unsqueeze(cast(value, DType.int64), -1)
    return cast(elementwise.equal(wide, classes), DType.int64)


__all__ = [
    "arange",
    "eye",
    "full",
    "full_like",
    "linspace",
    "one_hot",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]
