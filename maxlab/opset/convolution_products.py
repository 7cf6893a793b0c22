"""Convolutions of floats as products of matrices, on the CPU: how they are cut.

The text is ``convolution_products.c`` of ``kernels/ops``, which says how they work and what the
names of sizes are.
"""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.ir import Poly
from maxlab.ir.poly import ONE
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.windows import ceil_div, known, number, product

PANEL = 32
"""Columns that the library of products packs side by side."""
BLOCK = 192
"""Pixels of the result that a thread computes at once: what the filter is read for."""
COLUMNS = 256
"""Channels of the result that it does."""
WIDTH = COLUMNS + 16
"""Floats by which rows of such a tile are apart: no power of two, which would crowd few lines of
the cache."""
WIDE = 32
"""Channels from which on those of one pixel are a piece."""
KINDS = {DType.bfloat16: 0, DType.float16: 1, DType.float32: 2}
"""The library's numbers of the dtypes that it packs."""
MOST_PLACES = 16
"""Places of a transposed convolution, each of which is a product."""
WIDENED = 4 * (4 * PANEL * 256 + BLOCK * 272) + 64
"""The most bytes that products of halves need of the thread's own memory
(``mx_half_block_scratch``).
"""

_NUMBERS: dict[str, Any] = {
    "BLOCK": BLOCK, "LEFT": BLOCK - 1, "PANEL": PANEL, "MOST": COLUMNS, "WIDTH": WIDTH,
    "TILE": BLOCK * WIDTH, "WIDENED": WIDENED,
}  # fmt: skip

Sizes = dict[str, Poly]


def _shared_out(pixels: int | None, panels: int | None) -> tuple[int, int]:
    """Into how many ranges of pixels, and of panels, the result is cut: a few for each of any few
    threads, and no smaller than the library likes them."""
    if pixels is None or panels is None:
        return 32, 1
    ranges = 1
    while ranges < 32 and pixels >= 2 * ranges * 48:
        ranges *= 2
    return ranges, min(panels, max(1, 8 // ranges))


# ---------------------------------------------------------------- convolutions
def write_products(at: Site, sizes: Sizes, first: bool) -> None:
    """The parts of a convolution of floats."""
    x, w = at.operands[0], at.operands[1]
    half = x.dtype is not DType.float32
    area = sizes["OD"] * sizes["OH"] * sizes["OW"]
    channels, panels = known(sizes["GI"]), ceil_div(sizes["GO"], PANEL)
    by_pixel = at.attrs["groups"] > 1 or set(at.attrs["dilation"]) != {1}
    by_pixel |= known(sizes["KW"]) == 1 or (channels is not None and channels >= WIDE)
    lines = sizes["KD"] * sizes["KH"]
    depth = (sizes["KK"] + ONE).floordiv(number(2)) * number(2) if half else sizes["KK"]
    ranges, columns = _shared_out(known(sizes["NB"] * area), known(panels))
    more = {
        **sizes,
        "AREA": area,
        "PIXELS": sizes["NB"] * area,
        "DEPTH": depth,
        "PANELS": panels,
        "RUNS": lines * sizes["KW"] if by_pixel else lines,
        "RUN": sizes["GI"] if by_pixel else sizes["KW"] * sizes["GI"],
    }
    image = turned_image(at, x, more) if first else x
    packed = packed_filter(at, w, more, first)
    own = more["RUN"] if by_pixel else more["RUN"] + number(BLOCK) * sizes["KK"]
    kernel = OwnKernel(
        at, "convolution_products.c", "conv_product", sizes=more,
        buffers={"image": image, "packed": packed}, texts={"finish": at.finish},
        FINISH=bool(at.finish), BIAS=len(at.operands) > 2, FIRST=first,
        BY_PIXEL=by_pixel, RANGES=ranges, COLUMNS=columns, KIND=KINDS[x.dtype], **_NUMBERS,
    )  # fmt: skip
    items = ranges * columns
    work = more["PIXELS"] * sizes["KK"] * sizes["OC"]
    work = work.floordiv(number(16 * items)) + ONE
    scratch = _memory(x, own, more["RUNS"])
    kernel.part("product", extent=number(items), work=work, scratch=scratch)


def _memory(x: Buffer, own: Poly, runs: Poly) -> Poly:
    """Bytes of a thread's own memory; ``declare_memory`` of the text says what lies there."""
    tile = 4 * BLOCK * WIDTH
    size = number(x.dtype.size_in_bytes)
    return number(2 * tile + WIDENED + 64) + number(8 * BLOCK) * runs + own * size


def turned_image(at: Site, x: Buffer, sizes: Sizes) -> Buffer:
    """The image ``x`` with the channels last, in memory of its own, which a part writes."""
    area = sizes["ID"] * sizes["IH"] * sizes["IW"]
    count = sizes["NB"] * area * sizes["IC"]
    pixels, channels = known(area), known(sizes["IC"])
    if pixels == 1 or channels == 1:
        return x  # the order of its elements is that already
    turned = at.temporary(x.dtype, count)
    more = {**sizes, "SPREAD": area, "BLOCKS": ceil_div(area, 64)}
    OwnKernel(
        at, "convolution_products.c", "turn_image", sizes=more, buffers={"image": turned}
    ).write()  # fmt: skip
    made: Buffer = turned
    return made


def joined_image(at: Site, sizes: Sizes) -> Buffer:
    """Memory of its own with the channels of two images, which a part writes."""
    left, right = at.operands[:2]
    pixels = sizes["NB"] * sizes["ID"] * sizes["IH"] * sizes["IW"]
    whole: Buffer = at.temporary(left.dtype, pixels * sizes["IC"])
    join = OwnKernel(
        at, "convolution.c", "join_images", sizes={**sizes, "PIXELS": pixels},
        buffers={"x": left, "other": right, "whole": whole},
    )  # fmt: skip
    join.write(extent=pixels if at.target == "c" else pixels * sizes["IC"])
    return whole


def packed_filter(at: Site, w: Buffer, sizes: Sizes, first: bool) -> Buffer:
    """The filter in panels: when the model is loaded, where it is known by then."""
    spatial = sizes["KD"] * sizes["KH"] * sizes["KW"]
    depth = sizes["KK"]
    if first:  # rows of the right operand: tap by tap the channels
        row, column = spatial, sizes["KK"]
        period, outer = sizes["GI"], ONE
    else:
        row, column, period, outer = sizes["OC"], ONE, depth, number(0)
    taps = (period, outer) if first and known(spatial) != 1 else ()
    if known(sizes["GR"]) == 1:
        found = at.packed(w, (depth, sizes["GO"], row, column), taps)
        if found is not None:
            known_packed: Buffer = found
            return known_packed
    count = sizes["GR"] * sizes["PANELS"] * number(PANEL) * sizes["DEPTH"]
    packed: Buffer = at.temporary(w.dtype, count)
    more = {**sizes, "ROW": row, "COLUMN": column, "PERIOD": period, "OUTER": outer}
    OwnKernel(
        at, "convolution_products.c", "pack_filter", sizes=more,
        buffers={"filter": w, "packed": packed}, FIRST=first, PANEL=PANEL, KIND=KINDS[w.dtype],
    ).write()  # fmt: skip
    return packed


# ---------------------------------------------------------------- transposed
def places_of(window: int, stride: int, dilation: int) -> list[tuple[int, int, int]]:
    """For each remainder of (a place of the result + padding) by ``stride``: the first element of
    the window that arrives there, how many do, and how far they lie apart."""
    found = []
    for place in range(stride):
        taps = [r for r in range(window) if (place - r * dilation) % stride == 0]
        step = taps[1] - taps[0] if len(taps) > 1 else 1
        found.append((taps[0] if taps else 0, len(taps), step))
    return found


def write_transposed_products(at: Site, sizes: Sizes) -> bool:
    """The parts of a transposed convolution of floats; False when its window is not known."""
    x, w = at.operands[0], at.operands[1]
    window = [known(sizes[f"K{axis}"]) for axis in "HW"]
    (sh, sw), (dh, dw) = at.attrs["stride"], at.attrs["dilation"]
    if window[0] is None or window[1] is None or sh * sw > MOST_PLACES:
        return False
    half = x.dtype is not DType.float32
    down = places_of(window[0], sh, dh)
    across = places_of(window[1], sw, dw)
    panels = ceil_div(sizes["OC"], PANEL)
    # Each place has its part of the packed filter; halves may be packed in pairs of rows.
    rows = [len_r * len_s for _, len_r, _ in down for _, len_s, _ in across]
    depths = [number(n) * sizes["IC"] for n in rows]
    if half:
        depths = [(d + ONE).floordiv(number(2)) * number(2) for d in depths]
    starts = [number(0)]
    for depth in depths:
        starts.append(starts[-1] + depth)
    packed = at.temporary(w.dtype, panels * number(PANEL) * starts[-1])
    places = [(*a, *b) for a in down for b in across]
    table = ", ".join(
        "{" + ", ".join(map(str, place)) + f", {at.size(start)}, {at.size(depth)}}}"
        for place, start, depth in zip(places, starts, depths, strict=False)
    )
    ranges, columns = _shared_out(
        known((sizes["NB"] * sizes["OH"] * sizes["OW"]).floordiv(number(sh * sw))), known(panels)
    )
    more = {**sizes, "PANELS": panels, "RUN": sizes["IC"], "GO": sizes["OC"]}
    more["RUNS"] = number(max(rows, default=0))
    kernel = OwnKernel(
        at, "convolution_products.c", "transposed_product", sizes=more,
        buffers={"packed": packed}, texts={"TABLE": f"const i64 table[][8] = {{{table}}};"},
        BIAS=len(at.operands) > 2, RANGES=ranges, COLUMNS=columns, ALL=ranges * columns,
        KIND=KINDS[x.dtype], **_NUMBERS,
    )  # fmt: skip
    most = max(rows, default=0)
    kernel.part(
        "pack",
        extent=number(len(places)) * panels,
        work=sizes["IC"] * number(64 * max(most, 1)),
        scratch=number(2 * PANEL * most) * sizes["IC"] + number(64) if half else number(0),
    )
    items = number(len(places) * ranges * columns)
    work = sizes["NB"] * product([sizes[f"O{a}"] for a in "HW"]) * starts[-1] * sizes["OC"]
    work = work.floordiv(items * number(16 * len(places))) + ONE
    scratch = _memory(x, more["RUN"], more["RUNS"])
    kernel.part("product", extent=items, work=work, scratch=scratch)
    return True


__all__ = [
    "BLOCK",
    "KINDS",
    "PANEL",
    "WIDE",
    "Sizes",
    "joined_image",
    "packed_filter",
    "turned_image",
    "write_products",
    "write_transposed_products",
]
