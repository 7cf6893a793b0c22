"""Convolutions and pools of ATen, whose images and filters have their channels first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maxlab.graph import ConvInputLayout, FilterLayout, TensorValue, ops
from maxlab.ir import StaticDim
from maxlab.torch.aten import NotImported, Site, aten, tensor

FIRST = ConvInputLayout.NCHW


def _ints(values: Any, count: int) -> Any:
    """A tuple of ``count`` ints, of which torch may have written one for all."""
    found = tuple(values) if isinstance(values, (list, tuple)) else (values,)
    if not all(isinstance(v, int) for v in found):
        raise NotImported("a stride, a padding or a window is not known")
    return found * count if len(found) == 1 else found


def _both(padding: Sequence[int]) -> Any:
    return tuple(n for size in padding for n in (size, size))


@aten("convolution.default")
def _convolution(
    at: Site,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> TensorValue:
    image, w = tensor(x), tensor(weight)
    offset = None if bias is None else tensor(bias)
    rank = image.rank - 2
    if rank not in (1, 2, 3):
        raise NotImported(f"it has {rank} spatial dims")
    steps, apart = _ints(stride, rank), _ints(dilation, rank)
    pads = _ints(padding, rank)
    flat = rank == 1
    if flat:  # a line is an image one pixel high
        image, w = ops.unsqueeze(image, 2), ops.unsqueeze(w, 2)
        steps, apart, pads, rank = (1, *steps), (1, *apart), (0, *pads), 2
    made: TensorValue
    if transposed:
        if rank != 2 or groups != 1 or any(_ints(output_padding, 1)):
            raise NotImported("it is transposed, with groups, output padding or a depth")
        made = ops.conv2d_transpose(
            image, w, steps, apart, _both(pads), (0, 0), offset, FIRST, FilterLayout.FCRS
        )
    elif rank == 2:
        made = ops.conv2d(
            image, w, steps, apart, _both(pads), groups, offset, FIRST, FilterLayout.FCRS
        )
    else:
        made = ops.conv3d(
            image, w, steps, apart, _both(pads), groups, offset, FIRST, FilterLayout.FCQRS
        )
    return ops.squeeze(made, 2) if flat else made


def _channels_last(x: Any, pool: Callable[[TensorValue], TensorValue]) -> TensorValue:
    """The result of ``pool`` for the image ``x``, of a batch or alone."""
    image = tensor(x)
    alone = image.rank == 3
    if alone:
        image = ops.unsqueeze(image, 0)
    made = ops.permute(pool(ops.permute(image, [0, 2, 3, 1])), [0, 3, 1, 2])
    return ops.squeeze(made, 0) if alone else made


@aten("max_pool2d.default")
def _max_pool(
    at: Site,
    x: Any,
    window: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> TensorValue:
    size, steps = _ints(window, 2), _ints(stride or window, 2)
    pads, apart = _ints(padding, 2), _ints(dilation, 2)
    return _channels_last(
        x,
        lambda image: ops.max_pool2d(image, size, steps, apart, pads, ceil_mode),
    )


@aten("avg_pool2d.default")
def _avg_pool(
    at: Site,
    x: Any,
    window: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> TensorValue:
    if divisor_override is not None:
        raise NotImported("it divides by a number of its own")
    size, steps, pads = _ints(window, 2), _ints(stride or window, 2), _ints(padding, 2)
    return _channels_last(
        x,
        lambda image: ops.avg_pool2d(image, size, steps, 1, pads, ceil_mode, count_include_pad),
    )


@aten("_adaptive_avg_pool2d.default")
def _adaptive_avg_pool(at: Site, x: Any, size: Any) -> TensorValue:
    found = []
    for length, parts in zip(tensor(x).shape[-2:], at.shape[-2:], strict=True):
        if not isinstance(length, StaticDim) or not isinstance(parts, StaticDim):
            raise NotImported("a size is not known")
        if length.dim % parts.dim:
            raise NotImported("it has windows of several sizes")
        found.append(length.dim // parts.dim)
    if found == [1, 1]:
        return tensor(x)
    height, width = found
    window = (height, width)
    return _channels_last(x, lambda image: ops.avg_pool2d(image, window, window))


@aten("upsample_bilinear2d.vec")
def _bilinear(
    at: Site, x: Any, size: Any, align_corners: bool = False, scales: Any = None
) -> TensorValue:
    image = tensor(x)
    if align_corners:
        raise NotImported("its corners stay where they are")
    # With a scale torch reads in steps of the scale, which may not be the ratio of the sizes.
    for length, scale in zip(image.shape[-2:], scales or (), strict=False):
        if not isinstance(length, StaticDim) or not float(length.dim * scale).is_integer():
            raise NotImported("it has a scale that is not the ratio of the sizes")
    return ops.resize(image, at.shape)


@aten("upsample_nearest2d.vec")
def _nearest(at: Site, x: Any, size: Any, scales: Any = None) -> TensorValue:
    image = tensor(x)
    for length, new in zip(image.shape[-2:], at.shape[-2:], strict=True):
        if not isinstance(length, StaticDim) or not isinstance(new, StaticDim):
            raise NotImported("a size is not known")
        times, rest = divmod(new.dim, length.dim)
        # torch multiplies places by a rounded fraction, which only powers of two leave exact.
        if rest or times & (times - 1):
            raise NotImported("it enlarges by no power of two")
    return ops.resize(image, at.shape, ops.InterpolationMode.NEAREST)
