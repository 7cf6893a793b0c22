"""Checks of the arguments of convolutions, and the convolution that they describe."""

from __future__ import annotations

from typing import Any

from maxlab.errors import ArgumentError
from maxlab.graph import ConvInputLayout, FilterLayout, TensorValue, ops
from maxlab.graph.build import is_weak, literal, tensor
from maxlab.graph.ops.spatial import ints
from maxlab.nn.dense import check_size
from maxlab.opset.windows import require_counts, require_rank

LAYOUTS = {1: ("NLC", "NCL"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
"""The dims of an input by its number of spatial dims: channels last, and channels first."""
FILTERS = {2: (FilterLayout.RSCF, FilterLayout.FCRS), 3: (FilterLayout.QRSCF, FilterLayout.FCQRS)}


def counts(what: str, name: str, value: Any, rank: int, least: int = 1) -> tuple[int, ...]:
    """``value``, an int or one for each of ``rank`` spatial dims, as a tuple.

    Raises:
        ArgumentTypeError: ML302, something else than ints.
        ArgumentError: ML367, another number of them, or one below ``least``.
    """
    return require_counts(what, name, ints(what, name, value, rank), rank, least)


def margins(what: str, value: Any, rank: int) -> tuple[int, ...]:
    """The zeros before and after each of ``rank`` spatial dims: ``value`` is one number for all,
    one for each dim, or all of them.

    Raises:
        ArgumentTypeError: ML302, something else than ints.
        ArgumentError: ML367, another number of them, or one below 0.
    """
    given = ints(what, "padding", value, 1)
    if len(given) == 1:
        given *= 2 * rank
    elif len(given) == rank:
        given = tuple(size for size in given for _ in range(2))
    return require_counts(what, "padding", given, 2 * rank, 0)


def check_groups(what: str, groups: int, channels: int, filters: int) -> None:
    """Raises unless ``groups`` divides the channels of the input and those of the output.

    Raises:
        ArgumentError: ML716, a number that is not a positive int; ML724, they are not divided.
    """
    check_size(what, "num_groups", groups)
    check_size(what, "in_channels", channels)
    check_size(what, "out_channels", filters)
    for name, size in (("in_channels", channels), ("out_channels", filters)):
        if size % groups:
            raise ArgumentError(
                "ML724",
                f"{what}: {groups} groups do not divide {name}={size}",
                fix="choose a number of groups that divides in_channels and out_channels",
            )


def require_image(what: str, x: TensorValue, rank: int, first: bool) -> None:
    """Raises unless ``x`` has a dim for the batch, one for channels, and ``rank`` others.

    Raises:
        ShapeError: ML368.
    """
    require_rank(what, "the input", x.type, rank + 2, LAYOUTS[rank][first])


def convolved(
    what: str,
    x: TensorValue,
    filter: Any,
    bias: Any,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    first: bool = False,
) -> TensorValue:
    """The convolution of ``x`` over as many dims as ``stride`` has numbers.

    Args:
        what: The layer that errors name.
        x: Images, with channels last, or with channels first.
        filter: Window, channels, filters; or filters, channels, window.
        bias: A number for each filter, or None.
        stride: The distance of windows for each spatial dim.
        padding: The zeros before and after each spatial dim.
        dilation: The distance of a window's elements for each spatial dim.
        groups: The number of parts of the channels that do not see each other.
        first: Whether images and filters are channels-first.

    Raises:
        ShapeError: ML368, a wrong rank; ML369, channels that do not fit; ML370, a result of size 0.
        DTypeError: ML110, operands of several dtypes.
    """
    rank = len(stride)
    require_image(what, x, rank, first)
    layout = ConvInputLayout.NCHW if first else ConvInputLayout.NHWC
    if rank == 3:
        return ops.conv3d(
            x, filter, (stride[0], stride[1], stride[2]), (dilation[0], dilation[1], dilation[2]),
            (padding[0], padding[1], padding[2], padding[3], padding[4], padding[5]), groups, bias,
            layout, FILTERS[3][first],
        )  # fmt: skip
    w = filter
    if rank == 1:  # an image that is one row high
        axis = 2 if first else 1
        weak = is_weak(filter)
        w = literal(filter, x.dtype, x.device) if weak else tensor(filter, f"{what}: the filter")
        require_rank(what, "the filter", w.type, 3, "FCS" if first else "SCF")
        x, w = ops.unsqueeze(x, axis), ops.unsqueeze(w, 2 if first else 0)
        stride, dilation, padding = (1, *stride), (1, *dilation), (0, 0, *padding)
    made = ops.conv2d(
        x, w, (stride[0], stride[1]), (dilation[0], dilation[1]),
        (padding[0], padding[1], padding[2], padding[3]), groups, bias, layout, FILTERS[2][first],
    )  # fmt: skip
    return ops.squeeze(made, axis) if rank == 1 else made


__all__ = ["LAYOUTS", "check_groups", "convolved", "counts", "margins", "require_image"]
