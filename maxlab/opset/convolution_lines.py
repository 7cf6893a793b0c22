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
    indented,
    packed_filter,
    part_of,
    turned_image,
)
from maxlab.opset.kernel import Site
from maxlab.opset.windows import ceil_div, known, number

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
    """The work of an item of the parallel axis, and where its lines lie."""

    images: int
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


def _evenly(total: int | None, most: int) -> int:
    """The part of ``total`` that is ``most`` at most, where all parts are about equal."""
    if total is None:
        return most
    return -(-total // -(-total // most)) if total > most else max(total, 1)


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
        channels, run = _evenly(depth, max(DEPTH // taps, 16)), 0
        channels = min(depth, -(-channels // 16) * 16)
    out = [known(sizes[f"O{axis}"]) for axis in "DHW"]

    def made(images: int, height: int, width: int) -> _Block:
        lines = (height - 1) * stride["H"] + reach["H"]
        pixels = (width - 1) * stride["W"] + reach["W"]
        return _Block(images, height, width, lines, pixels, channels, taps, run)

    batch = known(sizes["NB"])

    def cut(pixels: int) -> tuple[_Block, int]:
        """The block of about so many pixels, and how many of them there are at least."""
        width = _evenly(out[2], 14 * 16)
        height = _evenly(out[1], max(1, pixels // width)) if out[2] is not None else 2
        images = 1
        if (out[0], out[1], out[2]) == (1, height, width):
            images = _evenly(batch, max(1, pixels // (height * width)))
        while 4 * made(images, height, width).floats(planes) > CACHED:
            if images > 1:
                images = _evenly(images, images - 1)
            elif height > 1:
                height = _evenly(height, height - 1)
            elif width > 28:
                width = _evenly(width, width - 1)
            else:
                break
        each = zip((batch, *out), (images, 1, height, width), strict=True)
        return made(images, height, width), math.prod(-(-(n or 1) // m) for n, m in each)

    for pixels in PIXELS:
        found, blocks = cut(pixels)
        if blocks >= MANY:
            break
    return found if 4 * found.floats(planes) <= CACHED * 3 // 2 else None


def write_lines(at: Site, sizes: Sizes, first: bool) -> bool:
    """The parts of a convolution of float32 with moving windows; False when it is none for that."""
    x = at.operands[0]
    block = _block(at, sizes) if x.dtype is DType.float32 else None
    if block is None:
        return False
    panels = ceil_div(sizes["GO"], PANEL)
    wide = known(panels) or 1
    heights, widths = ceil_div(sizes["OH"], block.height), ceil_div(sizes["OW"], block.width)
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
    image = x.name
    if first:
        line = known(sizes["IW"])
        if line is not None and line < SPREAD:
            image, turning = turned_image(at, x, more), False
    packed = packed_filter(at, at.operands[1], more, first, False)
    streamed = not first and block.images == 1 and known(widths) == 1
    lined = -(-block.floats(known(sizes["KD"]) or 1) // 16) * 16
    tile = f"\nf32 *const tile = lines + {lined};" if first else ""
    text = f"""\
const i64 part = i % PARTS, bw = i / PARTS % WIDTHS, bh = i / (PARTS * WIDTHS) % HEIGHTS;
const i64 od = i / (PARTS * WIDTHS * HEIGHTS) % OD, n0 = i / (PARTS * WIDTHS * HEIGHTS * OD) * MN;
const i64 w0 = bw * MW, many_w = OW - w0 < MW ? OW - w0 : MW;
const i64 h0 = bh * MH, many_h = OH - h0 < MH ? OH - h0 : MH, many_n = NB - n0 < MN ? NB - n0 : MN;
const i64 need_h = (many_h - 1) * SH + (KH - 1) * DH + 1;
const i64 need_w = (many_w - 1) * SW + (KW - 1) * DW + 1;
const i64 iw = w0 * SW - PW, none = iw < 0 ? (-iw < need_w ? -iw : need_w) : 0;
const i64 stop = IW - iw < need_w ? IW - iw : need_w, end = stop > none ? stop : none;
const i64 low = PANELS * part / PARTS * {PANEL}, next = PANELS * (part + 1) / PARTS * {PANEL};
const i64 high = next < GO ? next : GO;
i64 q0 = 0, q1 = KD; /* planes of the window that are in the image */
while (q0 < KD && od * SD - PD + q0 * DD < 0) q0++;
while (q1 > q0 && od * SD - PD + (q1 - 1) * DD >= ID) q1--;
f32 *const lines = (f32 *)ctx->scratch;{tile}
i64 places[TAPS];
i64 tap = 0;
{_places(block)}
for (i64 g = 0; g < GR; g++) {{
  for (i64 c = 0; c < GI; c += CB) {{
    const i64 count = GI - c < CB ? GI - c : CB;
{indented(_copied(image, turning), 4)}
{indented(_products(at, block, packed, first, image if streamed else None), 4)}
  }}
{indented(_after(at, first), 2)}
}}"""
    items = blocks * number(parts)
    scratch = 4 * (lined + (pixels * (columns + 16) if first else 0))
    work = number(pixels) * sizes["KK"] * sizes["OC"].floordiv(number(16 * parts)) + ONE
    part_of(at, more, text, items, work=work, scratch=number(scratch), name="product")
    return True


def _places(block: _Block) -> str:
    """Where the taps of a window lie, from its first pixel on."""
    across = "" if block.run else "\n    for (i64 s = 0; s < KW; s++)"
    last = "" if block.run else " + s * DW"
    return f"""\
for (i64 q = 0; q < KD; q++)
  for (i64 r = 0; r < KH; r++){across}
      places[tap++] = ((q * LH + r * DH) * LW{last}) * CB;"""


def _copied(image: str, turning: bool) -> str:
    """The lines of a block, from the channel ``c`` on, with zeros around them."""
    if turning:  # few channels at a time: their lines follow each other in the image
        each = "for (i64 e = 0; e < count; e += 16)\n"
        line = f"""\
if (e == 0 && none > 0) __builtin_memset(line, 0, (u64)(none * CB) * 4);
mx_turn_f32(line + none * CB + e, CB, {image} +
  (((n0 + n) * IC + g * GI + c + e) * ID + iz) * IH * IW + ih * IW + iw + none, ID * IH * IW,
  count - e < 16 ? count - e : 16, end - none);
if (e == 0 && end < need_w)
  __builtin_memset(line + end * CB, 0, (u64)((need_w - end) * CB) * 4);"""
    else:
        each = ""
        line = f"""\
const f32 *const from = {image} +
  ((((n0 + n) * ID + iz) * IH + ih) * IW + iw) * IC + g * GI + c;
if (none > 0) __builtin_memset(line, 0, (u64)(none * CB) * 4);
if (count == IC && count == CB) {{
  __builtin_memcpy(line + none * CB, from + none * IC, (u64)((end - none) * CB) * 4);
}} else {{
  for (i64 w = none; w < end; w++) {{
    #pragma omp simd
    for (i64 e = 0; e < count; e++) line[w * CB + e] = from[w * IC + e];
  }}
}}
if (end < need_w) __builtin_memset(line + end * CB, 0, (u64)((need_w - end) * CB) * 4);"""
    return f"""\
{each}for (i64 n = 0; n < many_n; n++)
  for (i64 q = q0; q < q1; q++)
    for (i64 l = 0; l < need_h; l++) {{
      f32 *const line = lines + ((n * KD + q) * LH + l) * LW * CB;
      const i64 iz = od * SD - PD + q * DD, ih = h0 * SH - PH + l;
      if (ih < 0 || ih >= IH) continue;
{indented(line, 6)}
    }}"""


def _products(at: Site, block: _Block, packed: str, first: bool, image: str | None) -> str:
    """The products of the lines with the channels ``c`` on of the filter. Meanwhile the next lines
    of the ``image`` are fetched, where it is given."""
    y = at.results[0]
    run, step = ("RUN", "RUN") if block.run else ("count", "GI")
    soon, much, ahead = "", "", "0, 0"
    if image is not None:
        # The lines of the next block follow, also where it is one of the next image.
        soon = f"""\
const char *const soon = (const char *)({image} +
  (((n0 * ID + od * SD - PD) * IH + h0 * SH - PH + need_h) * IW) * IC);
const i64 all = SH * IW * IC * 4, share = all / ((high - low + {PANEL - 1}) / {PANEL});
"""
        much = f"\n      const i64 portion = h * all + (c0 - low) / {PANEL} * share;"
        ahead = "soon + portion, share"
    across = "1" if block.run else "KW"
    to, apart = "tile + (n * MH + h) * many_w * WIDTH + c0 - low", "WIDTH"
    if not first:
        to = f"{y.name} + ((((n0 + n) * OD + od) * OH + h0 + h) * OW + w0) * OC + g * GO + c0"
        apart = "OC"
    return f"""\
{soon}for (i64 c0 = low; c0 < high; c0 += {PANEL})
  for (i64 n = 0; n < many_n; n++)
    for (i64 h = 0; h < many_h; h++) {{{much}
      const i64 ih = (h0 + h) * SH - PH;
      i64 r0 = 0, r1 = KH; /* lines of the window that are in the image: of zeros nothing comes */
      while (r0 < KH && ih + r0 * DH < 0) r0++;
      while (r1 > r0 && ih + (r1 - 1) * DH >= IH) r1--;
      const i64 planes = r1 - r0 == KH && q1 > q0 ? q1 - q0 : 1;
      for (i64 q = q0; q < q1 || q == q0; q += planes) {{
        const i64 tap = (q * KH + r0) * {across}, from = (tap * {step} + c) * {PANEL};
        ctx->lib->gemm_windows({to}, {apart},
          lines + (n * KD * LH + h * SH) * LW * CB, SW * CB, places + tap,
          q < q1 ? ((planes - 1) * KH + r1 - r0) * {across} : 0, {run},
          {packed} + (g * PANELS * {PANEL} + c0) * DEPTH + from, DEPTH, {step}, many_w,
          high - c0 < {PANEL} ? high - c0 : {PANEL}, c == 0 && q == q0, {ahead});
      }}
    }}"""


def _after(at: Site, first: bool) -> str:
    """The text behind the products of a group: the bias, and turning."""
    y = at.results[0]
    bias = at.operands[2] if len(at.operands) > 2 else None
    if not first:
        if bias is None:
            return ""
        return f"""\
for (i64 n = 0; n < many_n; n++)
  for (i64 h = 0; h < many_h; h++)
    for (i64 w = 0; w < many_w; w++) {{
      const i64 p = (((n0 + n) * OD + od) * OH + h0 + h) * OW + w0 + w;
      f32 *const pixel = {y.name} + p * OC + g * GO;
      #pragma omp simd
      for (i64 f = low; f < high; f++) pixel[f] += {bias.load("g * GO + f")};
    }}"""
    place = "(((n0 + n) * OC + g * GO + low) * OD + od) * OH * OW + (h0 + h) * OW + w0"
    added = ""
    if bias is not None:
        added = f"""
    for (i64 f = low; f < high; f++) {{
      const f32 v = {bias.load("g * GO + f")};
      f32 *const line = to + (f - low) * AREA;
      #pragma omp simd
      for (i64 e = 0; e < many; e++) line[e] += v;
    }}"""
    return f"""\
const i64 whole = many_w == OW; /* then lines follow each other in the result as in the tile */
for (i64 n = 0; n < many_n; n++)
  for (i64 h = 0; h < (whole ? 1 : many_h); h++) {{
    const i64 many = whole ? many_h * many_w : many_w;
    f32 *const to = {y.name} + {place};
    mx_turn_f32(to, AREA, tile + (n * MH + h) * many_w * WIDTH, WIDTH, many, high - low);{added}
  }}"""


__all__ = ["write_lines"]
