"""Convolutions of float32 with windows of 3 × 3 by Winograd's tiles, on the CPU.

They take a quarter of the multiplications. Their results are off by up to some 1e-5 of the largest
one, ten times as much as sums of products, so models have them with ``accuracy="fast"``. The text
is ``convolution_tiles.c`` of ``kernels/ops``.
"""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.ir.poly import ONE
from maxlab.opset.convolution_products import PANEL, Sizes, joined_image
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.windows import ceil_div, known, number

MADE, PLACES = 4, 36
"""Pixels of a tile's side, and products that its pixels are made of."""
APART = 16
"""Floats between two of these products, so that they do not crowd few lines of the cache."""
LANES = 16
"""Channels that tiles are made of at once: images have a multiple of them."""
LEAST = 32
"""Channels of both images from which on making tiles costs less than it saves."""
LEAST_TILES = 12
"""Tiles of an image below which the filter, four times as large, is read for too little."""
WASTE = 1.35
"""How many times the pixels of the result all tiles may have."""
MOST = 64
"""Channels of the result that are done at a time."""
CACHED = 900 << 10
"""Bytes of a block's numbers that should stay in the cache."""
GROUP = 12
"""Rows that a product takes at once: a block has a multiple of them, where the image does."""
ITEMS = 8
"""Items below which channels of the result are shared out too."""


def write_tiles(at: Site, sizes: Sizes, first: bool, joined: bool = False) -> bool:
    """The part of a convolution by tiles; False when it is none for that. ``joined``: the image are
    two, ``LC`` channels of the first and then those of the second."""
    if at.accuracy != "fast" or first or at.operands[0].dtype is not DType.float32:
        return False
    here = {name: known(size) for name, size in sizes.items()}
    shape = [here[f"{part}{axis}"] for part in "KSD" for axis in "DHW"]
    if shape != [1, 3, 3] + [1] * 6 or at.attrs["groups"] > 1 or here["ID"] != 1:
        return False
    ic, oc, oh, ow = here["IC"], here["OC"], here["OH"], here["OW"]
    if not (ic and oc and oh and ow) or ic % LANES or oc % LANES or min(ic, oc) < LEAST:
        return False
    down, across = -(-oh // MADE), -(-ow // MADE)
    tiles = down * across
    if tiles < LEAST_TILES or tiles * MADE**2 > WASTE * oh * ow:
        return False
    panels = -(-oc // PANEL)
    nbytes = 4 * PLACES * panels * PANEL * ic
    packed = at.packed_tiles(at.operands[2 if joined else 1], (ic, oc, oc, 1, ic * oc), nbytes)
    if packed is None:
        return False
    most = min(MOST, panels * PANEL)
    room = CACHED // (4 * PLACES * (ic + most)) // GROUP * GROUP
    blocks = -(-tiles // min(max(room, GROUP), 4 * GROUP))
    images = known(sizes["NB"]) or 1
    parts = min(panels, -(-ITEMS // (blocks * images)))
    more = {
        **sizes,
        "DOWN": number(down), "ACROSS": number(across), "BLOCKS": number(blocks),
        "PANELS": ceil_div(sizes["OC"], PANEL), "PARTS": number(parts),
    }  # fmt: skip
    kernel = OwnKernel(
        at, "convolution_tiles.c", "conv_tiles", sizes=more,
        buffers={"x": joined_image(at, sizes) if joined else at.operands[0], "packed": packed},
        texts={"finish": at.finish}, FINISH=bool(at.finish),
        BIAS=not joined and len(at.operands) > 2, MOST=most, PANEL=PANEL,
    )  # fmt: skip
    each = -(-tiles // blocks)
    extent = sizes["NB"] * number(blocks * parts)
    work = number(each * PLACES * ic * oc // (16 * parts)) + ONE
    kernel.part("product", extent=extent, work=work, scratch=scratch_of(each, ic, most))
    return True


def scratch_of(tiles: int, ic: int, most: int) -> int:
    """Bytes in which ``winograd.c`` computes a block of tiles, ``most`` channels of the result at a
    time: ``mx_winograd_scratch`` of the library, which is not loaded where plans are made."""
    return 4 * PLACES * (tiles * (ic + most) + 2 * APART)


__all__ = ["scratch_of", "write_tiles"]
