"""Convolutions of float32 that only mix the channels of images with the channels first, on the CPU.

The result of an image is the filter, a matrix of channels out by channels in, times the image, one
of channels by pixels. Neither is turned: a block of pixels is copied into panels of the library,
and all rows of the filter are done with it.
"""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.ir.poly import ONE
from maxlab.opset.convolution_products import PANEL, Sizes
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.windows import known, number

CACHED = 256 << 10
"""Bytes that the panels of a block should have at most."""
PANELS = (4, 16)
"""How many they are at least, and at most."""
WASTE = 0.04
"""The part of the columns that may be empty, in the last panel of an image."""


def write_planes(at: Site, sizes: Sizes) -> bool:
    """The parts of a convolution that only mixes channels; False when it is none for that."""
    x = at.operands[0]
    depth, area = known(sizes["IC"]), known(sizes["OD"] * sizes["OH"] * sizes["OW"])
    one = all(known(sizes[f"{part}{axis}"]) == 1 for part in "KS" for axis in "DHW")
    padded = any(known(sizes[f"Q{axis}"]) != 0 for axis in "DHW")
    if x.dtype is not DType.float32 or at.attrs["groups"] > 1 or not one or padded:
        return False
    if not depth or not area or -(-area // PANEL) * PANEL > (1 + WASTE) * area:
        return False
    least, most = PANELS
    columns = PANEL * min(most, max(least, CACHED // (4 * PANEL * depth)))
    blocks = -(-area // columns)
    columns = -(-area // (blocks * PANEL)) * PANEL  # about equal
    blocks = -(-area // columns)
    more = {
        **sizes,
        "AREA": number(area),
        "BLOCKS": number(blocks),
        "COLUMNS": number(columns),
    }
    kernel = OwnKernel(
        at, "convolution_lines.c", "conv_channels", sizes=more, BIAS=len(at.operands) > 2,
        PANEL=PANEL, LEFT=PANEL - 1,
    )  # fmt: skip
    work = number(columns * depth) * sizes["OC"].floordiv(number(16)) + ONE
    kernel.part("product", work=work, scratch=4 * columns * depth)
    return True


__all__ = ["write_planes"]
