"""Convolutions of float32 as products of matrices whose rows are windows that move, on the CPU.

A block of pixels of the result needs some lines of the image. They are copied into the thread's own
memory, with the zeros around them, and the library is told how far windows are apart and where
their taps lie: nothing is laid out for each pixel, as ``convolution_products`` has to. A sum is
finished before the next begins: to go over sums again costs more than to read the filter from
further away. Only where a panel of the filter would not stay in the second cache are the channels
done in parts. Images with the channels first are turned while their lines are copied, and blocks
of the result behind the product.

Names in the text are those of ``convolution_kernels`` and ``convolution_products``; further ``MN``
images, ``MH`` lines and ``MW`` columns of a block, which needs ``LH`` lines of ``LW`` pixels, and
``CB`` channels that are done at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from maxlab.dtype import DType
from maxlab.ir.poly import ONE
from maxlab.opset.convolution_products import (
    PANEL,
    WIDE,
    Sizes,
    packed_filter,
    turned_image,
)
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.windows import ceil_div, evenly, known, number

PIXELS = (392, 196)
"""Pixels of the result that a block has: the most, and what they are where this leaves too few
blocks."""
MANY = 32
"""Blocks that are enough for any few threads."""
DEPTH = 5120
"""Rows of the filter that a block does at a time."""
CACHED = 680 << 10
"""Bytes that the lines of a block should have at most, and half as many more that they may have."""
PANELS = 16
"""Panels of the filter that an item does at most."""
SPREAD = 16
"""Pixels from which on a line with the channels first is turned by itself."""
MOST_TAPS = 1024
"""Places of taps that a thread keeps on its stack."""
ITEMS = 8
"""Items that even a small convolution is cut into, a few for each of two threads."""


@dataclass(frozen=True)
class _Block:
    """The work of an item of the parallel axis, and where its lines lie.

    Attributes:
        heights: How many blocks the lines of an image are cut into; 0 where those are not known.
        height: The lines of the largest of them.
    """

    images: int
    heights: int
    height: int
    width: int
    lines: int
    pixels: int
    channels: int
    taps: int
    run: int
    """Floats of a tap that lie in one piece; 0: as many as channels are done at a time."""

    def floats(self, planes: int) -> int:
        """Floats that the lines have."""
        return self.images * planes * self.lines * self.pixels * self.channels


def _block(at: Site, sizes: Sizes) -> _Block | None:
    """The block of a convolution; None where one would not stay in the cache, or not be known."""
    counts = [known(sizes[name]) or 0 for name in ("GI", "OC", "KD", "KH", "KW")]
    if 0 in counts:
        return None
    depth, _, planes, kh, kw = counts
    stride = {axis: known(sizes[f"S{axis}"]) or 1 for axis in "HW"}
    reach = {
        "H": (kh - 1) * (known(sizes["DH"]) or 1) + 1,
        "W": (kw - 1) * (known(sizes["DW"]) or 1) + 1,
    }
    by_line = at.attrs["groups"] == 1 and set(at.attrs["dilation"]) == {1} and depth < WIDE
    taps = planes * kh * (1 if by_line else kw)
    if planes * kh * kw == 1 or taps > MOST_TAPS or (depth < 16 and not by_line):
        return None  # one tap has no windows; short pieces are better copied together
    channels, run = depth, kw * depth
    if not by_line:
        channels, run = evenly(depth, max(DEPTH // taps, 16)), 0
        channels = min(depth, -(-channels // 16) * 16)
    out = [known(sizes[f"O{axis}"]) for axis in "DHW"]

    def made(images: int, height: int, width: int) -> _Block:
        heights = 0 if out[1] is None else -(-out[1] // height)
        if out[1] is not None and heights > 1:
            heights += heights % 2  # two threads have as many lines each
            height = -(-out[1] // heights)
        lines = (height - 1) * stride["H"] + reach["H"]
        pixels = (width - 1) * stride["W"] + reach["W"]
        return _Block(images, heights, height, width, lines, pixels, channels, taps, run)

    batch = known(sizes["NB"])

    def cut(pixels: int) -> tuple[_Block, int]:
        """The block of about so many pixels, and how many of them there are at least."""
        width = evenly(out[2], 14 * 16)
        height = evenly(out[1], max(1, pixels // width)) if out[2] is not None else 2
        images = 1
        if (out[0], out[1], out[2]) == (1, height, width):
            images = evenly(batch, max(1, pixels // (height * width)))
        while 4 * made(images, height, width).floats(planes) > CACHED:
            if images > 1:
                images = evenly(images, images - 1)
            elif height > 1:
                height = evenly(height, height - 1)
            elif width > 28:
                width = evenly(width, width - 1)
            else:
                break
        block = made(images, height, width)
        others = zip((batch, out[0], out[2]), (images, 1, width), strict=True)
        return block, max(block.heights, 1) * math.prod(-(-(n or 1) // m) for n, m in others)

    for pixels in PIXELS:
        found, blocks = cut(pixels)
        if blocks >= MANY:
            break
    return found if 4 * found.floats(planes) <= CACHED * 3 // 2 else None


def write_lines(at: Site, sizes: Sizes, first: bool, joined: bool = False) -> bool:
    """The parts of a convolution of float32 with moving windows; False when it is none for that.
    ``joined``: the image are two, ``LC`` channels of the first and then those of the second."""
    x, w = at.operands[0], at.operands[2 if joined else 1]
    block = _block(at, sizes) if x.dtype is DType.float32 else None
    if block is None:
        return False
    panels = ceil_div(sizes["GO"], PANEL)
    wide = known(panels) or 1
    heights = number(block.heights) if block.heights else ceil_div(sizes["OH"], block.height)
    widths = ceil_div(sizes["OW"], block.width)
    blocks = ceil_div(sizes["NB"], block.images) * sizes["OD"] * heights * widths
    parts = max(-(-wide // PANELS), min(wide, -(-ITEMS // max(known(blocks) or 1, 1))))
    columns = -(-wide // parts) * PANEL
    pixels = block.images * block.height * block.width
    numbers = {
        "MN": block.images, "MH": block.height, "MW": block.width, "LH": block.lines,
        "LW": block.pixels, "CB": block.channels, "TAPS": block.taps, "RUN": block.run,
        "PARTS": parts, "WIDTH": columns + 16,
    }  # fmt: skip
    more = {
        **sizes,
        "PANELS": panels,
        "DEPTH": sizes["KK"],
        "AREA": sizes["OD"] * sizes["OH"] * sizes["OW"],
        "HEIGHTS": heights,
        "WIDTHS": widths,
        **{name: number(value) for name, value in numbers.items()},
    }
    turning = first
    image = x
    if first:
        line = known(sizes["IW"])
        if line is not None and line < SPREAD:
            image, turning = turned_image(at, x, more), False
    packed = packed_filter(at, w, more, first)
    streamed = not first and block.images == 1 and known(widths) == 1
    lined = -(-block.floats(known(sizes["KD"]) or 1) // 16) * 16
    kernel = OwnKernel(
        at, "convolution_lines.c", "conv_blocks", sizes=more,
        buffers={"image": image, "other": at.operands[1], "packed": packed},
        texts={"finish": at.finish}, FINISH=bool(at.finish), JOINED=joined,
        BIAS=not joined and len(at.operands) > 2, BY_LINE=block.run > 0, TURNING=turning,
        TILED=first, STREAMED=streamed, PANEL=PANEL, LEFT=PANEL - 1, LINED=lined,
    )  # fmt: skip
    scratch = 4 * (lined + (pixels * (columns + 16) if first else 0))
    work = number(pixels) * sizes["KK"] * sizes["OC"].floordiv(number(16 * parts)) + ONE
    kernel.part("product", extent=blocks * number(parts), work=work, scratch=scratch)
    return True


def write_transposed_lines(at: Site, sizes: Sizes) -> bool:
    """The part of a transposed convolution of float32 whose windows lie side by side, without
    padding; False for others."""
    window = [known(sizes[f"K{axis}"]) for axis in "HW"]
    beside = window == [*at.attrs["stride"]] and set(at.attrs["dilation"]) == {1}
    if at.operands[0].dtype is not DType.float32 or not beside or any(at.attrs["padding"]):
        return False
    depth = sizes["KH"] * sizes["KW"] * sizes["IC"]
    # One matrix, whose rows are tap by tap the channels.
    found = {"GR": ONE, "GI": sizes["IC"], "GO": sizes["OC"], "KK": depth}
    more = {**sizes, **found, "DEPTH": depth, "PANELS": ceil_div(sizes["OC"], PANEL)}
    packed = packed_filter(at, at.operands[1], more, False)
    kernel = OwnKernel(
        at, "convolution_lines.c", "transposed_lines", sizes=more, buffers={"packed": packed},
        BIAS=len(at.operands) > 2, PANEL=PANEL,
    )  # fmt: skip
    kernel.write()
    return True


__all__ = ["write_lines", "write_transposed_lines"]
