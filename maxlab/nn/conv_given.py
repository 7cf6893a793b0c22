"""Convolutions with filters that are given; the layers of ``maxlab.nn.conv`` have their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxlab.graph import TensorValue, TensorValueLike
from maxlab.nn.calls import Layer
from maxlab.nn.dense import check_size
from maxlab.nn.windows import convolved, counts, margins


def _checked(layer: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Stride, padding and dilation of ``layer``, in full.

    Raises:
        ArgumentTypeError: ML302, something else than ints.
        ArgumentError: ML367, numbers that cannot be; ML716, groups that are not a positive int.
    """
    what = type(layer).__name__
    check_size(what, "groups", layer.groups)
    return (
        counts(what, "stride", layer.stride, rank),
        margins(what, layer.padding, rank),
        counts(what, "dilation", layer.dilation, rank),
    )


def _called(layer: Any, x: TensorValue, rank: int) -> TensorValue:
    windows = _checked(layer, rank)
    return convolved(
        type(layer).__name__, x, layer.filter, layer.bias, *windows, groups=layer.groups
    )


@dataclass(eq=False)
class Conv1DV1(Layer):
    """A convolution of sequences, ``[n, length, channels]``, with a filter that is given.

    Deprecated: use ``Conv1D``.

    Args:
        filter: ``[window, channels / groups, filters]``, of the dtype of the input.
        bias: ``[filters]``, or None.
        stride: The distance of windows.
        padding: The zeros before and after the sequence.
        dilation: The distance of a window's elements.
        groups: The number of parts of the channels that do not see each other.

    Raises:
        ArgumentError: ML367, a stride, padding or dilation that cannot be; ML716, groups that are
            not a positive int.

    Example:
        >>> import numpy as np
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> conv = nn.Conv1DV1(np.ones((3, 16, 32), np.float32), padding=1)
        >>> graph = Graph("conv", conv, [TensorType(DType.float32, [2, 10, 16])])
        >>> graph.output_types[0].shape
        [Dim(2), Dim(10), Dim(32)]
    """

    filter: TensorValueLike
    bias: TensorValueLike | None = None
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1

    def __post_init__(self) -> None:
        _checked(self, 1)

    def __call__(self, x: TensorValue) -> TensorValue:
        """The convolution of ``x``, ``[n, length, channels]``."""
        return _called(self, x, 1)


@dataclass(eq=False)
class Conv2dV1(Layer):
    """A convolution of images, ``[n, height, width, channels]``, with a filter that is given.

    Deprecated: use ``Conv2d``.

    Args:
        filter: ``[height, width, channels / groups, filters]``, of the dtype of the input.
        bias: ``[filters]``, or None.
        stride: The distance of windows: one number, or height and width.
        padding: The zeros around the image: one number, or top, bottom, left, right.
        dilation: The distance of a window's elements: one number, or height and width.
        groups: The number of parts of the channels that do not see each other.

    Raises:
        ArgumentError: ML367, a stride, padding or dilation that cannot be; ML716, groups that are
            not a positive int.
    """

    filter: TensorValueLike
    bias: TensorValueLike | None = None
    stride: int | tuple[int, int] = (1, 1)
    padding: int | tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: int | tuple[int, int] = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        _checked(self, 2)

    def __call__(self, x: TensorValue) -> TensorValue:
        """The convolution of ``x``, ``[n, height, width, channels]``."""
        return _called(self, x, 2)


@dataclass(eq=False)
class Conv3DV1(Layer):
    """A convolution of volumes, ``[n, depth, height, width, channels]``, with a filter that is
    given.

    Deprecated: use ``Conv3D``.

    Args:
        filter: ``[depth, height, width, channels / groups, filters]``, of the dtype of the input.
        bias: ``[filters]``, or None.
        stride: The distance of windows: one number, or depth, height and width.
        padding: The zeros around the volume: one number, or front, back, top, bottom, left, right.
        dilation: The distance of a window's elements: one number, or depth, height and width.
        groups: The number of parts of the channels that do not see each other.

    Raises:
        ArgumentError: ML367, a stride, padding or dilation that cannot be; ML716, groups that are
            not a positive int.
    """

    filter: TensorValueLike
    bias: TensorValueLike | None = None
    stride: int | tuple[int, int, int] = (1, 1, 1)
    padding: int | tuple[int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0)
    dilation: int | tuple[int, int, int] = (1, 1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        _checked(self, 3)

    def __call__(self, x: TensorValue) -> TensorValue:
        """The convolution of ``x``, ``[n, depth, height, width, channels]``."""
        return _called(self, x, 3)


__all__ = ["Conv1DV1", "Conv2dV1", "Conv3DV1"]
