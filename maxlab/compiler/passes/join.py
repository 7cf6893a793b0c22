"""Convolutions of two images that a concat joined, without the concat.

A kernel of a convolution copies the lines of an image that it needs; it copies them from two images
as fast as from one. So the image of all channels, which a U-Net has on each level, is written by
nobody.
"""

from __future__ import annotations

from maxlab.compiler.passes.decompose import Expansion
from maxlab.dtype import DType
from maxlab.ir import Op, Rewriting, StaticDim
from maxlab.opset import OPSET
from maxlab.opset.builder import one
from maxlab.opset.rules import axis_of

LEAST = 16
"""Channels of the two images together below which lines of a window are read in one piece."""


def join_images(rewriting: Rewriting) -> None:
    """Let a convolution on the CPU read the two images that a concat joins for it alone."""
    for op in rewriting.function.ops:
        name = OPSET[op.name].joined
        if name and _is_joined(op):
            joined = op.operands[0].op
            assert joined is not None
            rewriting.rule("join_images", op)
            b = Expansion(rewriting, op)
            operands = [*joined.operands, op.operands[1]]
            rewriting.replace(op, [one(b, name, operands, **op.attrs)])
            rewriting.remove(joined)


def _is_joined(op: Op) -> bool:
    """Whether the kernel of ``op`` copies lines, and of an image that is joined for it alone."""
    image = op.operands[0]
    joined, type = image.op, image.tensor_type
    if joined is None or OPSET[joined.name].kind != "concat" or len(joined.operands) != 2:
        return False
    if op.attrs["channels_first"] or op.attrs["groups"] > 1 or len(op.operands) > 2:
        return False
    if type.dtype is not DType.float32 or type.device.is_gpu() or len(image.uses) > 1:
        return False
    window = op.operands[1].tensor_type.shape
    if not all(isinstance(dim, StaticDim) for dim in window):
        return False
    taps = [dim.dim for dim in window[:-2] if isinstance(dim, StaticDim)]
    channels = window[-2]
    assert isinstance(channels, StaticDim)
    last = axis_of(joined.attrs["axis"], type.rank, "concat") == type.rank - 1
    return last and channels.dim >= LEAST and max(taps) > 1


__all__ = ["join_images"]
