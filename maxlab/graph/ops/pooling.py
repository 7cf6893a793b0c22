"""Pools of images, and blocks laid back into images."""

from __future__ import annotations

from typing import Any

from maxlab.errors import ArgumentError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import staged, tensor
from maxlab.graph.ops.spatial import ints
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import Dim, DimLike


@staged
def max_pool2d(
    input: TensorValueLike,
    kernel_size: tuple[DimLike, DimLike],
    stride: int | tuple[int, int] = 1,
    dilation: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    ceil_mode: bool = False,
) -> TensorValue:
    """The largest element of each window of the images ``input``; NaN if one of them is.

    A size of the result is ``(size + 2 * padding - dilation * (window - 1) - 1) / stride + 1``,
    rounded down, or up with ``ceil_mode`` where the last window still begins in front of the
    padding at the end.

    Args:
        input: ``[N, H, W, C]``, numbers.
        kernel_size: Height and width of a window, known when the graph is built.
        stride: How far windows lie apart; an int stands for both axes, here and below.
        dilation: How far the elements of a window lie apart.
        padding: Elements on both sides of an axis that are below all others; at most half of what
            a window reaches over.
        ceil_mode: Whether a last window may reach beyond the padding.

    Raises:
        ShapeError: ML368, the rank is not 4; ML370, a result of size 0.
        ArgumentError: ML367, sizes that cannot be; ML373, more padding than half of a window.
        DTypeError: ML106, bools.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.int32, [1, 2, "w", 1])]) as graph:
        ...     graph.output(ops.max_pool2d(graph.inputs[0], (2, 2)))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.arange(6, dtype=np.int32).reshape(1, 2, 3, 1))[0].to_numpy().ravel()
        array([4, 5], dtype=int32)
    """
    return add_op(
        "max_pool2d",
        [tensor(input, "max_pool2d: the input")],
        **_windows("max_pool2d", kernel_size, stride, dilation, padding),
        ceil_mode=bool(ceil_mode),
    )


@staged
def avg_pool2d(
    input: TensorValueLike,
    kernel_size: tuple[DimLike, DimLike],
    stride: int | tuple[int, int] = 1,
    dilation: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    ceil_mode: bool = False,
    count_boundary: bool = True,
) -> TensorValue:
    """The mean of each window of the images ``input``; sizes are those of ``max_pool2d``.

    The sum of a window is divided by the number of its elements that lie in the image, or, with
    ``count_boundary``, in the image and its padding: not by those beyond, which ``ceil_mode`` lets
    a window reach. Halves are summed in float32 and rounded once.

    Args:
        input: ``[N, H, W, C]``, floats.
        kernel_size: Height and width of a window, known when the graph is built.
        stride: How far windows lie apart; an int stands for both axes, here and below.
        dilation: How far the elements of a window lie apart.
        padding: Zeros on both sides of an axis; at most half of what a window reaches over.
        ceil_mode: Whether a last window may reach beyond the padding.
        count_boundary: Whether elements of the padding are counted.

    Raises:
        ShapeError: ML368, the rank is not 4; ML370, a result of size 0.
        ArgumentError: ML367, sizes that cannot be; ML373, more padding than half of a window.
        DTypeError: ML107, no floats.
    """
    return add_op(
        "avg_pool2d",
        [tensor(input, "avg_pool2d: the input")],
        **_windows("avg_pool2d", kernel_size, stride, dilation, padding),
        ceil_mode=bool(ceil_mode),
        count_boundary=bool(count_boundary),
    )


@staged
def fold(
    input: TensorValueLike,
    output_size: tuple[DimLike, DimLike],
    kernel_size: tuple[DimLike, DimLike],
    stride: int | tuple[int, int] = 1,
    dilation: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
) -> TensorValue:
    """``[N, C, *output_size]``: blocks laid where windows of an image lie, and added up where they
    overlap. Halves are summed in float32 and rounded once; integers wrap.

    Args:
        input: ``[N, C * kernel_size[0] * kernel_size[1], L]``, numbers. ``L`` is the number of
            windows: the product of ``(size + 2 * padding - dilation * (window - 1) - 1) // stride
            + 1`` for both axes.
        output_size: Height and width of the result, which may be symbolic.
        kernel_size: Height and width of a block, known when the graph is built.
        stride: How far blocks lie apart; an int stands for both axes, here and below.
        dilation: How far the elements of a block lie apart.
        padding: What is cut off on both sides of an axis.

    Raises:
        ShapeError: ML368, the rank is not 3; ML370, no block fits; ML374, another number of blocks,
            or of rows.
        ArgumentError: ML367, sizes that cannot be.
        DTypeError: ML106, bools.
    """
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,)
    if len(given) != 2:
        raise ArgumentError(
            "ML367",
            f"fold: output_size must be a height and a width, got {output_size!r}",
            fix="pass two sizes, such as (32, 32)",
        )
    return add_op(
        "fold",
        [tensor(input, "fold: the input")],
        output_size=tuple(Dim(size) for size in given),
        **_windows("fold", kernel_size, stride, dilation, padding),
    )


def _windows(
    what: str, kernel_size: Any, stride: Any, dilation: Any, padding: Any
) -> dict[str, tuple[int, ...]]:
    """The attributes of windows, each a height and a width."""
    sizes = {"kernel_size": kernel_size, "stride": stride, "dilation": dilation, "padding": padding}
    return {name: ints(what, name, value, 2) for name, value in sizes.items()}


__all__ = ["avg_pool2d", "fold", "max_pool2d"]
