"""What torch computes for the ops of images, in our layouts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Attrs = Mapping[str, Any]


def _image(t: Any, x: Any, first: bool) -> Any:
    """``x`` with its channels first."""
    return x if first else t.movedim(x, -1, 1)


def _padded(t: Any, x: Any, padding: Any) -> Any:
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    return t.nn.functional.pad(x, [n for pair in reversed(pairs) for n in pair])


def conv(t: Any, attrs: Attrs, x: Any, w: Any, *bias: Any) -> Any:
    """A convolution of two or three dims."""
    first, f = attrs["channels_first"], t.nn.functional
    call = f.conv2d if x.dim() == 4 else f.conv3d
    w = w if first else t.movedim(w, (-1, -2), (0, 1))
    if not x.shape[1 if first else -1]:  # torch refuses an image without channels
        batch, sizes = x.shape[0], x.shape[2:] if first else x.shape[1:-1]
        x = t.zeros(batch, 1, *sizes, dtype=x.dtype)
        w, x = t.zeros(w.shape[0], 1, *w.shape[2:], dtype=w.dtype), _image(t, x, True)
    else:
        x = _image(t, x, first)
    padded = _padded(t, x, attrs["padding"])
    dtype = x.dtype
    if not dtype.is_floating_point:  # torch has no unsigned ones
        padded, w = padded.long(), w.long()
    offset = bias[0] if bias else None
    made = call(padded, w, offset, attrs["stride"], 0, attrs["dilation"], attrs["groups"])
    made = made.to(dtype)
    return made if first else t.movedim(made, 1, -1)


def conv_transpose(t: Any, attrs: Attrs, x: Any, w: Any, *bias: Any) -> Any:
    """A transposed convolution, cut by the padding afterwards."""
    top, bottom, left, right = attrs["padding"]
    dtype = x.dtype
    if not x.shape[-1]:
        x, w = t.zeros(*x.shape[:-1], 1, dtype=dtype), t.zeros(*w.shape[:2], 1, w.shape[3])
    if not dtype.is_floating_point:
        x, w = x.long(), w.long()
    made = t.nn.functional.conv_transpose2d(
        _image(t, x, False),
        w.permute(2, 3, 0, 1),
        bias[0] if bias else None,
        attrs["stride"],
        dilation=attrs["dilation"],
    )
    made = made[:, :, top : made.shape[2] - bottom, left : made.shape[3] - right]
    return t.movedim(made.to(dtype), 1, -1)


def max_pool(t: Any, attrs: Attrs, x: Any) -> Any:
    """The largest element of each window."""
    dtype = x.dtype
    wide = _image(t, x if dtype.is_floating_point else x.to(t.float64), False)
    padding = attrs["padding"]
    if attrs["dilation"] != (1, 1):  # torch wants a padding of half a window that lies close
        (rows, columns), padding = padding, 0
        wide = t.nn.functional.pad(wide, (columns, columns, rows, rows), value=-math.inf)
    made = t.nn.functional.max_pool2d(
        wide,
        attrs["kernel_size"],
        attrs["stride"],
        padding,
        attrs["dilation"],
        attrs["ceil_mode"],
    )
    return t.movedim(made.to(dtype), 1, -1)


def avg_pool(t: Any, attrs: Attrs, x: Any) -> Any:
    """The mean of each window; torch has no dilation there, so that is a convolution."""
    if attrs["dilation"] != (1, 1):
        channels, (rows, columns) = x.shape[-1], attrs["kernel_size"]
        weights = t.full((channels, 1, rows, columns), 1 / (rows * columns), dtype=x.dtype)
        made = t.nn.functional.conv2d(
            _image(t, x, False),
            weights,
            None,
            attrs["stride"],
            attrs["padding"],
            attrs["dilation"],
            channels,
        )
        return t.movedim(made, 1, -1)
    made = t.nn.functional.avg_pool2d(
        _image(t, x, False),
        attrs["kernel_size"],
        attrs["stride"],
        attrs["padding"],
        attrs["ceil_mode"],
        attrs["count_boundary"],
    )
    return t.movedim(made, 1, -1)


def fold(t: Any, attrs: Attrs, x: Any) -> Any:
    """Blocks added up in their image."""
    sizes = [int(n) for n in attrs["output_size"]]
    rest = (attrs["dilation"], attrs["padding"], attrs["stride"])
    if not x.shape[1]:
        return t.zeros(x.shape[0], 0, *sizes, dtype=x.dtype)
    dtype = x.dtype
    wide = x if dtype.is_floating_point else x.to(t.float64)
    made = t.nn.functional.fold(wide, sizes, attrs["kernel_size"], *rest)
    return made if dtype.is_floating_point else made.long().to(dtype)


def resize(t: Any, attrs: Attrs, x: Any) -> Any:
    """An image at another size."""
    mode, dtype = attrs["mode"], x.dtype
    size = [int(n) for n in attrs["shape"][2:]]
    if not x.shape[0]:  # torch refuses to resize nothing
        return t.zeros(0, x.shape[1], *size, dtype=dtype)
    wide = x if dtype.is_floating_point else x.to(t.float64)
    more = {} if mode == "nearest" else {"align_corners": False}
    return t.nn.functional.interpolate(wide, size, mode=mode, **more).to(dtype)


TORCH: dict[str, Callable[..., Any]] = {
    "mo.conv": conv,
    "mo.conv.window": conv,
    "mo.conv.joined": lambda t, a, x, other, w: conv(t, a, t.cat([x, other], -1), w),
    "mo.conv_transpose": conv_transpose,
    "mo.max_pool2d": max_pool,
    "mo.avg_pool2d": avg_pool,
    "mo.fold": fold,
    "mo.resize": resize,
}
"""The ops of images, beside torch."""
