"""Convolutions over the spatial dims of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from maxlab.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_int, is_weak, literal, staged, tensor
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import ConvInputLayout, FilterLayout
from maxlab.opset.facts import Family
from maxlab.opset.windows import require_rank

FAMILY: Final[Family] = "contract"
"""Of the functions here that are no rows of the op table themselves."""

FIRST = {4: "FCRS", 5: "FCQRS"}
LAST = {4: "RSCF", 5: "QRSCF"}


def ints(what: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """``value``, an int or several, as a tuple; one int stands for ``count`` equal ones.

    Raises:
        ArgumentTypeError: ML302, something else.
    """
    if isinstance(value, (tuple, list)):
        return tuple(as_int(what, v, name) for v in value)
    return (as_int(what, value, name),) * count


def _partner(what: str, x: TensorValue, given: Any) -> TensorValue:
    """``given`` as a tensor; an array takes the dtype and the device of ``x``."""
    return literal(given, x.dtype, x.device) if is_weak(given) else tensor(given, what)


def _channels_first(what: str, layout: object) -> bool:
    if not isinstance(layout, ConvInputLayout):
        raise ArgumentError(
            "ML371",
            f"{what}: {layout!r} is no layout of an input",
            fix="pass ConvInputLayout.NHWC or ConvInputLayout.NCHW",
        )
    return layout is ConvInputLayout.NCHW


def _ordered(what: str, w: TensorValue, layout: object, wanted: str) -> TensorValue:
    """The filter ``w`` with its dims in the order ``wanted``."""
    named = layout.name if isinstance(layout, FilterLayout) else ""
    shown = named or repr(layout)
    if sorted(named) != sorted(wanted):
        fitting = [f.name for f in FilterLayout if len(f.name) == len(wanted)]
        raise ArgumentError(
            "ML371",
            f"{what}: {shown} is no layout of its filter",
            fix=f"pass FilterLayout.{' or FilterLayout.'.join(fitting)}",
        )
    require_rank(what, "the filter", w.type, len(wanted), named)
    if named == wanted:
        return w
    return add_op("permute", [w], dims=tuple(named.index(letter) for letter in wanted))


def _both_sides(what: str, rank: int, padding: Any) -> Any:
    """``padding`` for the begin and the end of each spatial dim; PyTorch's has one number for both,
    or for all."""
    if isinstance(padding, str):
        raise ArgumentTypeError(
            "ML302",
            f"{what}: padding must be ints, got {padding!r}",
            fix="give the zeros before and after each spatial dim: for 'same' and a window of 3, "
            "padding=(1, 1, 1, 1), and of 2, padding=(0, 1, 0, 1)",
        )
    if isinstance(padding, int):
        return (padding,) * (2 * rank)
    if isinstance(padding, (tuple, list)) and len(padding) == rank:
        return tuple(size for size in padding for _ in range(2))
    return padding


def _convolved(
    what: str,
    rank: int,
    x: Any,
    filter: Any,
    bias: Any,
    input_layout: object,
    filter_layout: object,
    **attrs: Any,
) -> TensorValue:
    image = tensor(x, f"{what}: the input")
    first = _channels_first(what, input_layout)
    order = (FIRST if first else LAST)[rank + 2]
    w = _ordered(what, _partner(f"{what}: the filter", image, filter), filter_layout, order)
    operands = [image, w]
    if bias is not None:
        operands.append(_partner(f"{what}: the bias", image, bias))
    groups = as_int(what, attrs.pop("groups"), "groups")
    attrs["padding"] = _both_sides(what, rank, attrs["padding"])
    attrs = {name: ints(what, name, value, rank) for name, value in attrs.items()}
    return add_op("conv", operands, **attrs, groups=groups, channels_first=first)


@staged
def conv2d(
    x: TensorValueLike,
    filter: TensorValueLike,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    groups: int = 1,
    bias: TensorValueLike | None = None,
    input_layout: ConvInputLayout = ConvInputLayout.NHWC,
    filter_layout: FilterLayout = FilterLayout.RSCF,
) -> TensorValue:
    """The convolution of the images ``x`` with ``filter``, in the layout of ``x``.

    A size of the result is ``(size + padding - dilation * (window - 1) - 1) // stride + 1``. Halves
    are summed in float32 and rounded once; integers wrap.

    Args:
        x: ``[N, H, W, C]``, or ``[N, C, H, W]`` with ``ConvInputLayout.NCHW``; numbers.
        filter: ``[R, S, C / groups, F]``, or the order of dims that ``filter_layout`` names; of the
            dtype of ``x``. Filters that are channels-first for images that are so, and
            channels-last for others, are used as they are; others are brought into that order.
        stride: How far windows lie apart: height, width.
        dilation: How far the elements of a window lie apart.
        padding: Zeros before and after the height, before and after the width.
        groups: Into how many parts the channels are cut that do not see each other.
        bias: ``[F]``, added to the result.

    Raises:
        ShapeError: ML368, a wrong rank; ML369, channels that do not fit; ML370, a result of size 0.
        ArgumentError: ML367, a stride, dilation, padding or groups that cannot be; ML371, a layout
            that is not one.
        DTypeError: ML106, bools; ML110, operands of several dtypes.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 3, 3, 1])]) as graph:
        ...     graph.output(ops.conv2d(graph.inputs[0], np.ones((2, 2, 1, 1), np.float32)))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.ones((1, 3, 3, 1), np.float32))[0].to_numpy()[0, :, :, 0]
        array([[4., 4.],
               [4., 4.]], dtype=float32)
    """
    return _convolved(
        "conv2d",
        2,
        x,
        filter,
        bias,
        input_layout,
        filter_layout,
        stride=stride,
        dilation=dilation,
        padding=padding,
        groups=groups,
    )


@staged
def conv3d(
    x: TensorValueLike,
    filter: TensorValueLike,
    stride: tuple[int, int, int] = (1, 1, 1),
    dilation: tuple[int, int, int] = (1, 1, 1),
    padding: tuple[int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0),
    groups: int = 1,
    bias: TensorValueLike | None = None,
    input_layout: ConvInputLayout = ConvInputLayout.NHWC,
    filter_layout: FilterLayout = FilterLayout.QRSCF,
) -> TensorValue:
    """The convolution of the volumes ``x`` with ``filter``, in the layout of ``x``; see ``conv2d``.

    Args:
        x: ``[N, D, H, W, C]``, or ``[N, C, D, H, W]`` with ``ConvInputLayout.NCHW``; numbers.
        filter: ``[Q, R, S, C / groups, F]``, or the order of dims that ``filter_layout`` names.
        stride: How far windows lie apart: depth, height, width.
        dilation: How far the elements of a window lie apart.
        padding: Zeros before and after the depth, the height and the width.
        groups: Into how many parts the channels are cut that do not see each other.
        bias: ``[F]``, added to the result.

    Raises:
        ShapeError: ML368, a wrong rank; ML369, channels that do not fit; ML370, a result of size 0.
        ArgumentError: ML367, a stride, dilation, padding or groups that cannot be; ML371, a layout
            that is not one.
        DTypeError: ML106, bools; ML110, operands of several dtypes.
    """
    return _convolved(
        "conv3d",
        3,
        x,
        filter,
        bias,
        input_layout,
        filter_layout,
        stride=stride,
        dilation=dilation,
        padding=padding,
        groups=groups,
    )


@staged
def conv2d_transpose(
    x: TensorValueLike,
    filter: TensorValueLike,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    output_paddings: tuple[int, int] = (0, 0),
    bias: TensorValueLike | None = None,
    input_layout: ConvInputLayout = ConvInputLayout.NHWC,
    filter_layout: FilterLayout = FilterLayout.RSCF,
) -> TensorValue:
    """The transposed convolution of the images ``x``, in the layout of ``x``: what a convolution
    with ``filter`` would have to be given for each element of ``x``, added up.

    A size of the result is ``(size - 1) * stride + dilation * (window - 1) + 1 - padding``. Halves
    are summed in float32 and rounded once; integers wrap.

    Args:
        x: ``[N, H, W, C_in]``, or ``[N, C_in, H, W]`` with ``ConvInputLayout.NCHW``; numbers.
        filter: ``[R, S, C_out, C_in]``, that of the convolution whose transpose this is: its C is
            ``C_out``, its F is ``C_in``, in the order of dims that ``filter_layout`` names.
        stride: How far the elements of ``x`` lie apart in the result: height, width.
        dilation: How far the elements of a window lie apart.
        padding: Rows cut off before and after the height, columns before and after the width.
        output_paddings: ``(0, 0)``; nothing else is supported.
        bias: ``[C_out]``, added to the result.

    Raises:
        ShapeError: ML368, a wrong rank; ML369, channels that do not fit; ML370, a result of size 0.
        ArgumentError: ML367, a stride, dilation or padding that cannot be; ML371, a layout that is
            not one.
        UnsupportedError: ML372, ``output_paddings`` that are not 0.
        DTypeError: ML106, bools; ML110, operands of several dtypes.
    """
    what = "conv2d_transpose"
    if any(ints(what, "output_paddings", output_paddings, 2)):
        raise UnsupportedError(
            "ML372",
            f"{what}: output_paddings must be (0, 0), got {output_paddings!r}",
            fix="pad the result with ops.pad, or cut less: padding may differ at both ends",
        )
    image = tensor(x, f"{what}: the input")
    first = _channels_first(what, input_layout)
    w = _ordered(what, _partner(f"{what}: the filter", image, filter), filter_layout, "RSFC")
    if first:
        require_rank(what, "the input", image.type, 4, "NCHW")
        image = _permuted(image, (0, 2, 3, 1))
    operands = [image, w]
    if bias is not None:
        operands.append(_partner(f"{what}: the bias", image, bias))
    made = add_op(
        "conv_transpose",
        operands,
        stride=ints(what, "stride", stride, 2),
        dilation=ints(what, "dilation", dilation, 2),
        padding=ints(what, "padding", padding, 4),
        channels_first=False,
    )
    return _permuted(made, (0, 3, 1, 2)) if first else made


def _permuted(x: TensorValue, dims: Sequence[int]) -> TensorValue:
    return add_op("permute", [x], dims=tuple(dims))


__all__ = ["conv2d", "conv2d_transpose", "conv3d", "ints"]
