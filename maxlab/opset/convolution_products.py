"""Convolutions of floats as products of matrices, on the CPU.

The rows of the left operand are windows, one for each pixel of the result; the packed filter is the
right one. Windows are not laid out: the library is given the places of their *pieces*, which lie in
one piece in the image, and copies a few rows at a time into the nearest cache. A piece is the
channels of one pixel or, where these are few, of a line of the window; what lies outside of the
image are zeros kept aside. Images with the channels first are turned before, and blocks of the
result behind it.

A transposed convolution is several of these, one for each place that a pixel of the result can have
between those of the image, spread by the stride: at each place the same part of the filter arrives.

Names in the text are those of ``convolution_kernels``; further ``AREA`` pixels of an image of the
result, ``PIXELS`` of all, ``DEPTH`` rows of the packed filter, ``PANELS`` of a group, ``RUNS``
pieces of ``RUN`` elements in a window.
"""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.ir import Poly
from maxlab.ir.poly import ONE
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.windows import ceil_div, declared, known, number, product

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

Sizes = dict[str, Poly]


def part_of(at: Site, sizes: Sizes, text: str, extent: Poly, **more: Any) -> None:
    """A part of the op whose text may use the names of ``sizes``."""
    at.part(text, extent, before=declared(at, sizes, text), **more)


def indented(text: str, depth: int) -> str:
    """``text`` with each line further right."""
    return "\n".join(" " * depth + line for line in text.splitlines())


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
    image = turned_image(at, x, more) if first else x.name
    packed = packed_filter(at, w, more, first, half)
    taps = """\
for (i64 s = 0; s < KW; s++) {
  const i64 v = iw + s * DW;
  *to++ = inside && v >= 0 && v < IW ? from + v * IC : none;
}"""
    if not by_pixel:
        taps = f"""\
if (!inside || (iw >= 0 && iw + KW <= IW)) {{
  *to++ = inside ? from + iw * IC : none;
  continue;
}}
{x.stored} *const edge = edges + used;
used += RUN;
*to++ = edge;
for (i64 s = 0; s < KW; s++) {{
  const i64 v = iw + s;
  if (v < 0 || v >= IW) __builtin_memset(edge + s * GI, 0, (u64)GI * sizeof *edge);
  else __builtin_memcpy(edge + s * GI, from + v * IC, (u64)GI * sizeof *edge);
}}"""
    within = ""
    if by_pixel:
        within = f"""
  const i64 h0 = oh * SH - PH, z0 = od * SD - PD;
  if (iw >= 0 && h0 >= 0 && z0 >= 0 && iw + (KW - 1) * DW < IW && h0 + (KH - 1) * DH < IH &&
      z0 + (KD - 1) * DD < ID) {{
    const {x.stored} *const from = {image} + (((nb * ID + z0) * IH + h0) * IW + iw) * IC + g * GI;
    for (i64 q = 0; q < KD; q++)
      for (i64 r = 0; r < KH; r++)
        for (i64 s = 0; s < KW; s++) *to++ = from + ((q * DD * IH + r * DH) * IW + s * DW) * IC;
    continue;
  }}"""
    windows = f"""\
i64 ow = p0 % OW - 1, oh = p0 / OW % OH, od = p0 / (OW * OH) % OD, nb = p0 / AREA;
for (i64 p = p0; p < p1; p++) {{
  if (++ow == OW) {{
    ow = 0;
    if (++oh == OH) {{
      oh = 0;
      if (++od == OD) od = 0, nb++;
    }}
  }}
  const i64 iw = ow * SW - PW;
  const {x.stored} **to = pieces + (p - p0) * RUNS;{within}
  for (i64 q = 0; q < KD; q++)
    for (i64 r = 0; r < KH; r++) {{
      const i64 iz = od * SD - PD + q * DD, ih = oh * SH - PH + r * DH;
      const int inside = iz >= 0 && iz < ID && ih >= 0 && ih < IH;
      const {x.stored} *const from = {image} + (((nb * ID + iz) * IH + ih) * IW) * IC + g * GI;
{indented(taps, 6)}
    }}
}}"""
    own = more["RUN"] if by_pixel else more["RUN"] + number(BLOCK) * sizes["KK"]
    memory, scratch = _memory(x, own, more["RUNS"], by_pixel)
    direct = not half and not first
    inner = _product(at, packed, direct, _stored(at, first, half))
    text = f"""\
const i64 range = i / {columns}, part = i % {columns};
const i64 low = PIXELS * range / {ranges}, high = PIXELS * (range + 1) / {ranges};
const i64 blocks = (high - low + {BLOCK - 1}) / {BLOCK};
{memory}
for (i64 n = 0; n < blocks; n++) {{
  const i64 p0 = low + (high - low) * n / blocks, p1 = low + (high - low) * (n + 1) / blocks;
  for (i64 g = 0; g < GR; g++) {{
{"" if by_pixel else "    i64 used = 0;"}
{indented(windows, 4)}
    const i64 end = PANELS * (part + 1) / {columns} * {PANEL} < GO ?
      PANELS * (part + 1) / {columns} * {PANEL} : GO;
    for (i64 c0 = PANELS * part / {columns} * {PANEL}; c0 < end; c0 += {COLUMNS}) {{
      const i64 c1 = c0 + {COLUMNS} < end ? c0 + {COLUMNS} : end;
{indented(inner, 6)}
    }}
  }}
}}"""
    items = ranges * columns
    work = more["PIXELS"] * sizes["KK"] * sizes["OC"]
    work = work.floordiv(number(16 * items)) + ONE
    part_of(at, more, text, number(items), work=work, scratch=scratch, name="product")


def _memory(x: Buffer, own: Poly, runs: Poly, by_pixel: bool) -> tuple[str, Poly]:
    """The declarations of a thread's own memory, and how much it is: the places of pieces, a tile
    of the result and the same turned, what products of halves need, zeros, and the pieces at the
    edges of the image."""
    tile = 4 * BLOCK * WIDTH
    edges = "" if by_pixel else f"\n{x.stored} *const edges = none + RUN;"
    text = f"""\
f32 *const tile = (f32 *)@, *const turned = tile + {BLOCK * WIDTH};
void *const widened = turned + {BLOCK * WIDTH};
const {x.stored} **const pieces = (const {x.stored} **)((char *)widened + {WIDENED});
{x.stored} *const none = ({x.stored} *)(pieces + {BLOCK} * RUNS);{edges}
__builtin_memset(none, 0, (u64)RUN * sizeof *none);
(void)tile, (void)turned, (void)widened;""".replace("@", "ctx->scratch")
    size = number(x.dtype.size_in_bytes)
    total = number(2 * tile + WIDENED + 64) + number(8 * BLOCK) * runs + own * size
    return text, total


def _product(at: Site, packed: str, direct: bool, store: str) -> str:
    """The product of the windows of the pixels ``p0`` to ``p1`` with the channels ``c0`` to ``c1``
    of the group ``g``, into the result where it is ``direct``, and what follows."""
    x, y = at.operands[0], at.results[0]
    filters = f"{packed} + (g * PANELS * {PANEL} + c0) * DEPTH"
    if direct:
        bias = ""
        if len(at.operands) > 2:
            bias = """
for (i64 p = p0; p < p1; p++) {
  f32 *const line = y0 + p * OC + g * GO;
  #pragma omp simd
  for (i64 f = c0; f < c1; f++) line[f] += x2[g * GO + f];
}"""
        return f"""\
ctx->lib->gemm_runs({y.name} + p0 * OC + g * GO + c0, OC, (const void *const *)pieces, RUNS, RUN,
  {filters}, p1 - p0, c1 - c0);{bias}"""
    call = "gemm_runs(tile"
    tail = ""
    if x.dtype is not DType.float32:
        call, tail = f"half_runs({KINDS[x.dtype]}, tile", ", widened"
    return f"""\
const i64 width = {WIDTH};
ctx->lib->{call}, width, (const void *const *)pieces, RUNS, RUN,
  {filters}, p1 - p0, c1 - c0{tail});
{store}"""


def _stored(at: Site, first: bool, half: bool) -> str:
    """A tile of the result into its memory, with the bias."""
    y = at.results[0]
    added = f" + {at.operands[2].load('g * GO + f')}" if len(at.operands) > 2 else ""
    if not first:
        value = f"tile[(p - p0) * width + f - c0]{added}"
        return f"""\
for (i64 p = p0; p < p1; p++) {{
  #pragma omp simd
  for (i64 f = c0; f < c1; f++) {{ {y.store("p * OC + g * GO + f", value)} }}
}}"""
    turn = """\
for (i64 p = p0; p < p1;) {
  const i64 nb = p / AREA, q = p - nb * AREA, stop = p1 < (nb + 1) * AREA ? p1 : (nb + 1) * AREA;
  const i64 many = stop - p;
  INTO
  p = stop;
}"""
    place = "(nb * OC + g * GO + f) * AREA + q"
    if half:
        into = f"""\
mx_turn_f32(turned, {BLOCK}, tile + (p - p0) * width, width, many, c1 - c0);
for (i64 f = c0; f < c1; f++) {{
  const f32 *const line = turned + (f - c0) * {BLOCK};
  #pragma omp simd
  for (i64 e = 0; e < many; e++) {{ {y.store(f"{place} + e", f"line[e]{added}")} }}
}}"""
    else:
        start = place.replace("+ f)", "+ c0)")
        into = (
            f"mx_turn_f32({y.name} + {start}, AREA, tile + (p - p0) * width, width, many, c1 - c0);"
        )
        if added:
            into += f"""
for (i64 f = c0; f < c1; f++) {{
  const f32 v = 0{added};
  f32 *const line = {y.name} + {place};
  #pragma omp simd
  for (i64 e = 0; e < many; e++) line[e] += v;
}}"""
    return turn.replace("INTO", indented(into, 2).lstrip())


def turned_image(at: Site, x: Buffer, sizes: Sizes) -> str:
    """The image ``x`` with the channels last, in memory of its own, which a part writes."""
    area = sizes["ID"] * sizes["IH"] * sizes["IW"]
    count = sizes["NB"] * area * sizes["IC"]
    pixels, channels = known(area), known(sizes["IC"])
    if pixels == 1 or channels == 1:
        return x.name  # the order of its elements is that already
    turned = at.temporary(x.dtype, count)
    name = "f32" if x.dtype is DType.float32 else "u16"
    text = f"""\
const i64 first = i % BLOCKS * 64, many = SPREAD - first < 64 ? SPREAD - first : 64;
mx_turn_{name}({turned.name} + (i / BLOCKS * SPREAD + first) * IC, IC,
  {x.name} + i / BLOCKS * IC * SPREAD + first, SPREAD, IC, many);"""
    more = {**sizes, "SPREAD": area, "BLOCKS": ceil_div(area, 64)}
    items = sizes["NB"] * more["BLOCKS"]
    part_of(at, more, text, items, work=sizes["IC"] * number(64), name="turn")
    return str(turned.name)


def packed_filter(at: Site, w: Buffer, sizes: Sizes, first: bool, half: bool) -> str:
    """The filter in panels: when the model is loaded, where it is known by then."""
    spatial = sizes["KD"] * sizes["KH"] * sizes["KW"]
    depth = sizes["KK"]
    if first:  # rows of the right operand: tap by tap the channels
        row, column = spatial, sizes["KK"]
        period, outer = sizes["GI"], ONE
    else:
        row, column, period, outer = sizes["OC"], ONE, depth, number(0)
    taps = (period, outer) if first and known(spatial) != 1 else ()
    if at.attrs["groups"] == 1:
        found = at.packed(w, (depth, sizes["GO"], row, column), taps)
        if found is not None:
            return str(found.name)
    count = sizes["GR"] * sizes["PANELS"] * number(PANEL) * sizes["DEPTH"]
    packed = at.temporary(w.dtype, count)
    more = {**sizes, "ROW": row, "COLUMN": column, "PERIOD": period, "OUTER": outer}
    start = "g * GO * KK" if first else "g * GO"
    into = f"{packed.name} + g * PANELS * {PANEL} * DEPTH, {w.name} + {start}, KK, GO, ROW, COLUMN"
    if first:
        call = f"pack_taps({KINDS[w.dtype]}, {into}, PERIOD, OUTER, p, p + 1)"
    elif half:
        call = f"half_pack({KINDS[w.dtype]}, {into}, p, p + 1)"
    else:
        call = f"pack_b_f32({into}, p, p + 1)"
    text = f"const i64 g = i / PANELS, p = i % PANELS;\nctx->lib->{call};"
    part_of(at, more, text, sizes["GR"] * sizes["PANELS"], work=depth * number(64), name="pack")
    return str(packed.name)


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
    head = f"const i64 table[][8] = {{{table}}};"
    if half:  # pairs of rows reach over taps, so the filter is packed as rows of one matrix
        packing = f"""\
u16 *const line = (u16 *)ctx->scratch;
for (i64 r = 0; r < t[1]; r++)
  for (i64 s = 0; s < t[4]; s++)
    for (i64 c = 0; c < IC; c++)
      __builtin_memcpy(line + ((r * t[4] + s) * IC + c) * {PANEL},
        x1 + (((t[0] + r * t[2]) * KW + t[3] + s * t[5]) * IC + c) * OC + p * {PANEL},
        (u64)many * 2);
ctx->lib->half_pack({KINDS[w.dtype]}, to, line, t[1] * t[4] * IC, many, {PANEL}, 1, 0, 1);"""
        scratch = number(2 * PANEL * max(rows, default=0)) * sizes["IC"] + number(64)
    else:
        packing = f"""\
for (i64 r = 0; r < t[1]; r++)
  for (i64 s = 0; s < t[4]; s++)
    ctx->lib->pack_b_f32(to + (r * t[4] + s) * IC * {PANEL},
      x1 + ((t[0] + r * t[2]) * KW + t[3] + s * t[5]) * IC * OC + p * {PANEL},
      IC, many, OC, 1, 0, 1);"""
        scratch = number(0)
    text = f"""\
{head}
const i64 *const t = table[i / PANELS];
const i64 p = i % PANELS, many = OC - p * {PANEL} < {PANEL} ? OC - p * {PANEL} : {PANEL};
{w.stored} *const to = {packed.name} + (t[6] * PANELS + p * t[7]) * {PANEL};
{packing}"""
    work = sizes["IC"] * number(64 * max(max(rows, default=0), 1))
    items = number(len(places)) * panels
    part_of(at, more, text, items, work=work, scratch=scratch, name="pack")
    windows = f"""\
for (i64 p = p0; p < p1; p++) {{
  const i64 oh = h0 + p / MW % MH * SH, ow = w0 + p % MW * SW, nb = p / (MW * MH);
  const {x.stored} **to = pieces + (p - p0) * taps;
  for (i64 r = 0; r < t[1]; r++) {{
    const i64 ih = (oh + PH - (t[0] + r * t[2]) * DH) / SH;
    for (i64 s = 0; s < t[4]; s++) {{
      const i64 iw = (ow + PW - (t[3] + s * t[5]) * DW) / SW;
      const int inside = ih >= 0 && ih < IH && iw >= 0 && iw < IW;
      *to++ = inside ? x0 + ((nb * IH + ih) * IW + iw) * IC : none;
    }}
  }}
}}"""
    memory, own = _memory(x, more["RUN"], more["RUNS"], True)
    call, tail = (
        ("gemm_runs(tile", "") if not half else (f"half_runs({KINDS[x.dtype]}, tile", ", widened")
    )
    y = at.results[0]
    added = f" + {at.operands[2].load('f')}" if len(at.operands) > 2 else ""
    value = f"tile[(p - p0) * width + f - c0]{added}"
    text = f"""\
{head}
const i64 range = i / {columns} % {ranges}, part = i % {columns}, place = i / {ranges * columns};
const i64 *const t = table[place];
const i64 h0 = (place / SW + SH - PH % SH) % SH, w0 = (place % SW + SW - PW % SW) % SW;
const i64 MH = OH > h0 ? (OH - h0 + SH - 1) / SH : 0, MW = OW > w0 ? (OW - w0 + SW - 1) / SW : 0;
const i64 PIXELS = NB * MH * MW, taps = t[1] * t[4];
const i64 low = PIXELS * range / {ranges}, high = PIXELS * (range + 1) / {ranges};
const i64 blocks = (high - low + {BLOCK - 1}) / {BLOCK};
{memory}
for (i64 n = 0; n < blocks; n++) {{
  const i64 p0 = low + (high - low) * n / blocks, p1 = low + (high - low) * (n + 1) / blocks;
{indented(windows, 2)}
  const i64 end = PANELS * (part + 1) / {columns} * {PANEL} < OC ?
    PANELS * (part + 1) / {columns} * {PANEL} : OC;
  for (i64 c0 = PANELS * part / {columns} * {PANEL}; c0 < end; c0 += {COLUMNS}) {{
    const i64 c1 = c0 + {COLUMNS} < end ? c0 + {COLUMNS} : end;
    const i64 width = {WIDTH};
    ctx->lib->{call}, width, (const void *const *)pieces, taps, RUN,
      {packed.name} + t[6] * PANELS * {PANEL} + c0 * t[7], p1 - p0, c1 - c0{tail});
    for (i64 p = p0; p < p1; p++) {{
      const i64 oh = h0 + p / MW % MH * SH, ow = w0 + p % MW * SW, nb = p / (MW * MH);
      const i64 at = ((nb * OH + oh) * OW + ow) * OC;
      #pragma omp simd
      for (i64 f = c0; f < c1; f++) {{ {y.store("at + f", value)} }}
    }}
  }}
}}"""
    items = number(len(places) * ranges * columns)
    work = sizes["NB"] * product([sizes[f"O{a}"] for a in "HW"]) * starts[-1] * sizes["OC"]
    work = work.floordiv(items * number(16 * len(places))) + ONE
    part_of(at, more, text, items, work=work, scratch=own, name="product")
    return True


__all__ = [
    "BLOCK",
    "KINDS",
    "PANEL",
    "WIDE",
    "WIDENED",
    "Sizes",
    "indented",
    "packed_filter",
    "part_of",
    "turned_image",
    "write_products",
    "write_transposed_products",
]
