"""The kernels of convolutions, for both targets.

Images of two spatial dims are written as those of three, with a depth of 1. Sizes have these names
in the text: ``NB`` images; ``IC ID IH IW`` channels and sizes of the input, ``OC OD OH OW`` of the
result, ``KD KH KW`` of the window; ``SD … DD … PD …`` stride, dilation and padding before; ``GR``
groups of ``GI`` channels in and ``GO`` out; ``KK`` elements of a window.

On the CPU, float32 goes through the library of products, a block of pixels at a time, so that a
block's windows, laid out side by side in the thread's own memory, stay in its cache:

- channels last: the windows are rows, the filter is the packed right operand.
- channels first: the windows are columns, written in the order of a packed right operand; the
  filter is the left operand as it is. A padded copy of the image, cut into the phases of the
  stride along its width, lets neighbouring pixels be read from neighbouring places.

All else is summed directly.
"""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.ir import Poly
from maxlab.ir.poly import ONE
from maxlab.opset.core import elements
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.windows import (
    ceil_div,
    declared,
    finished,
    known,
    number,
    product,
    total_type,
)

PANEL = 32
"""Columns that the library of products packs side by side."""
BLOCK_BYTES = 400_000
"""What the windows of a block of pixels may take of a thread's cache."""

Sizes = dict[str, Poly | int]


def _sizes(at: Site, first: bool, *, transposed: bool = False) -> dict[str, Poly]:
    """The sizes that texts name."""
    x, w, y = at.operands[0].type.sizes, at.operands[1].type.sizes, at.results[0].type.sizes
    rank = len(x) - 2
    missing = 3 - rank
    ones = (ONE,) * missing

    def image(sizes: tuple[Poly, ...]) -> tuple[Poly, ...]:
        return (*ones, *(sizes[2:] if first else sizes[1:-1]))

    found = {"NB": x[0], "IC": x[1] if first else x[-1], "OC": y[1] if first else y[-1]}
    window = (*ones, *(w[2:] if first else w[:-2]))
    stride = (1,) * missing + tuple(at.attrs["stride"])
    dilation = (1,) * missing + tuple(at.attrs["dilation"])
    before = (0,) * missing + tuple(at.attrs["padding"][::2])
    after = (0,) * missing + tuple(at.attrs["padding"][1::2])
    for n, axis in enumerate("DHW"):
        found[f"I{axis}"] = image(x)[n]
        found[f"O{axis}"] = image(y)[n]
        found[f"K{axis}"] = window[n]
        found[f"S{axis}"] = number(stride[n])
        found[f"D{axis}"] = number(dilation[n])
        found[f"P{axis}"] = number(before[n])
        found[f"Q{axis}"] = number(before[n] + after[n])
    if not transposed:
        groups = at.attrs["groups"]
        found["GR"] = number(groups)
        found["GI"] = w[1] if first else w[-2]
        found["GO"] = found["OC"].floordiv(number(groups))
        found["KK"] = found["GI"] * product(window)
    return found


def write_windows(at: Site) -> None:
    """The parts of a convolution."""
    first = at.attrs["channels_first"]
    sizes = _sizes(at, first)
    if at.target == "cuda":
        _each_output(at, sizes, first)
        return
    few = known(sizes["GO"])
    least = 4 if first else 16  # below, most columns of a panel would be empty
    if at.operands[0].dtype is DType.float32 and (few is None or few >= least):
        (_columns if first else _rows)(at, sizes)
    else:
        (_lines if first else _pixels)(at, sizes)


def _part(at: Site, sizes: dict[str, Poly], text: str, extent: Poly, **more: Any) -> None:
    at.part(text, extent, before=declared(at, sizes, text), **more)


def _with_bias(at: Site, index: str) -> str:
    """The start of a sum."""
    return at.operands[2].load(index) if len(at.operands) > 2 else "0"


# ---------------------------------------------------------------- direct
def _each_output(at: Site, sizes: dict[str, Poly], first: bool) -> None:
    """A GPU's kernel: a thread sums one element of the result."""
    x, w, y = at.operands[0], at.operands[1], at.results[0]
    kind = total_type(x)
    if first:
        place = """\
const i64 ow = i % OW, oh = i / OW % OH, od = i / (OW * OH) % OD;
const i64 oc = i / (OW * OH * OD) % OC, nb = i / (OW * OH * OD * OC);"""
        read = "((nb * IC + g * GI + c) * ID + iz) * IH * IW + ih * IW + iw"
        weight = "(oc * GI + c) * (KD * KH * KW) + (q * KH + r) * KW + s"
    else:
        place = """\
const i64 oc = i % OC, ow = i / OC % OW, oh = i / (OC * OW) % OH;
const i64 od = i / (OC * OW * OH) % OD, nb = i / (OC * OW * OH * OD);"""
        read = "(((nb * ID + iz) * IH + ih) * IW + iw) * IC + g * GI + c"
        weight = "(((q * KH + r) * KW + s) * GI + c) * OC + oc"
    text = f"""\
{place}
const i64 g = oc / GO;
{kind} a = {_with_bias(at, "oc")};
for (i64 q = 0; q < KD; q++) {{
  const i64 iz = od * SD - PD + q * DD;
  if (iz < 0 || iz >= ID) continue;
  for (i64 r = 0; r < KH; r++) {{
    const i64 ih = oh * SH - PH + r * DH;
    if (ih < 0 || ih >= IH) continue;
    for (i64 s = 0; s < KW; s++) {{
      const i64 iw = ow * SW - PW + s * DW;
      if (iw < 0 || iw >= IW) continue;
      for (i64 c = 0; c < GI; c++)
        a += ({kind}){x.load(read)} * ({kind}){w.load(weight)};
    }}
  }}
}}
{y.store("i", finished(y, "a"))}"""
    _part(at, sizes, text, elements(y.type), work=sizes["KK"] * number(2))


def _pixels(at: Site, sizes: dict[str, Poly]) -> None:
    """Channels last, summed directly: the channels of one pixel at a time."""
    x, w, y = at.operands[0], at.operands[1], at.results[0]
    kind = total_type(x)
    if known(sizes["GI"]) == 1 and known(sizes["GO"]) == 1:
        inner = f"""\
const {x.stored} *const from = x0 + (((nb * ID + iz) * IH + ih) * IW + iw) * IC;
const {w.stored} *const by = x1 + ((q * KH + r) * KW + s) * OC;
#pragma omp simd
for (i64 f = 0; f < OC; f++)
  a[f] += ({kind}){_at(x, "from[f]")} * ({kind}){_at(w, "by[f]")};"""
    else:
        inner = f"""\
for (i64 g = 0; g < GR; g++)
  for (i64 c = 0; c < GI; c++) {{
    const {kind} v = ({kind}){x.load("(((nb * ID + iz) * IH + ih) * IW + iw) * IC + g * GI + c")};
    const {w.stored} *const by = x1 + (((q * KH + r) * KW + s) * GI + c) * OC + g * GO;
    {kind} *const to = a + g * GO;
    #pragma omp simd
    for (i64 f = 0; f < GO; f++) to[f] += v * ({kind}){_at(w, "by[f]")};
  }}"""
    text = f"""\
{kind} *RS a = ({kind} *){at.scratch};
const i64 ow = i % OW, oh = i / OW % OH, od = i / (OW * OH) % OD, nb = i / (OW * OH * OD);
for (i64 f = 0; f < OC; f++) a[f] = {_with_bias(at, "f")};
for (i64 q = 0; q < KD; q++) {{
  const i64 iz = od * SD - PD + q * DD;
  if (iz < 0 || iz >= ID) continue;
  for (i64 r = 0; r < KH; r++) {{
    const i64 ih = oh * SH - PH + r * DH;
    if (ih < 0 || ih >= IH) continue;
    for (i64 s = 0; s < KW; s++) {{
      const i64 iw = ow * SW - PW + s * DW;
      if (iw < 0 || iw >= IW) continue;
{_indented(inner, 6)}
    }}
  }}
}}
#pragma omp simd
for (i64 f = 0; f < OC; f++) {y.store("i * OC + f", finished(y, "a[f]"))}"""
    pixels = sizes["NB"] * sizes["OD"] * sizes["OH"] * sizes["OW"]
    work = sizes["KK"] * sizes["OC"]
    _part(at, sizes, text, pixels, work=work, scratch=sizes["OC"] * number(8))


def _lines(at: Site, sizes: dict[str, Poly]) -> None:
    """Channels first, summed directly: one line of one channel at a time."""
    x, w, y = at.operands[0], at.operands[1], at.results[0]
    kind = total_type(x)
    text = f"""\
{kind} *RS a = ({kind} *){at.scratch};
const i64 oh = i % OH, od = i / OH % OD, oc = i / (OH * OD) % OC, nb = i / (OH * OD * OC);
const i64 g = oc / GO;
const {kind} start = {_with_bias(at, "oc")};
for (i64 n = 0; n < OW; n++) a[n] = start;
for (i64 c = 0; c < GI; c++)
  for (i64 q = 0; q < KD; q++) {{
    const i64 iz = od * SD - PD + q * DD;
    if (iz < 0 || iz >= ID) continue;
    for (i64 r = 0; r < KH; r++) {{
      const i64 ih = oh * SH - PH + r * DH;
      if (ih < 0 || ih >= IH) continue;
      const {x.stored} *const line = x0 + (((nb * IC + g * GI + c) * ID + iz) * IH + ih) * IW;
      for (i64 s = 0; s < KW; s++) {{
        const {kind} v = ({kind}){w.load("(((oc * GI + c) * KD + q) * KH + r) * KW + s")};
        const i64 left = s * DW - PW;
        const i64 begin = left < 0 ? (-left + SW - 1) / SW : 0;
        const i64 reach = IW - left <= 0 ? 0 : (IW - 1 - left) / SW + 1;
        const i64 end = reach < OW ? reach : OW;
        #pragma omp simd
        for (i64 n = begin; n < end; n++)
          a[n] += v * ({kind}){_at(x, "line[n * SW + left]")};
      }}
    }}
  }}
#pragma omp simd
for (i64 n = 0; n < OW; n++) {y.store("i * OW + n", finished(y, "a[n]"))}"""
    lines = sizes["NB"] * sizes["OC"] * sizes["OD"] * sizes["OH"]
    _part(at, sizes, text, lines, work=sizes["KK"] * sizes["OW"], scratch=sizes["OW"] * number(8))


def _at(buffer: Buffer, text: str) -> str:
    """The element ``text``, which a pointer into ``buffer`` reaches, in the compute type."""
    return buffer.load("@").replace(f"{buffer.name}[@]", text)


def _indented(text: str, depth: int) -> str:
    return "\n".join(" " * depth + line for line in text.splitlines())


# ---------------------------------------------------------------- products
def _pointwise(at: Site, sizes: dict[str, Poly]) -> bool:
    """Whether the windows are the pixels themselves."""
    ones = all(known(sizes[f"K{axis}"]) == 1 for axis in "DHW")
    return ones and set(at.attrs["stride"]) == {1} and not any(at.attrs["padding"])


def _block_of(depth: int | None) -> int:
    """Pixels of a block whose windows of ``depth`` elements stay in a cache, in whole panels."""
    if depth is None:
        return 2 * PANEL
    return PANEL * max(1, min(4, BLOCK_BYTES // (4 * PANEL * max(depth, 1))))


def _items_of(count: int | None, least: int) -> int:
    """Into how many ranges ``count`` things are cut: even ones, for any few threads."""
    if count is None or count >= 32 * least:
        return 32
    return 16 if count >= 16 * least else 8


def _rows(at: Site, sizes: dict[str, Poly]) -> None:
    """Channels last: rows of windows times the packed filter."""
    panels = ceil_div(sizes["GO"], PANEL)
    packed = at.temporary(DType.float32, sizes["GR"] * panels * number(PANEL) * sizes["KK"])
    pixels = sizes["NB"] * sizes["OD"] * sizes["OH"] * sizes["OW"]
    block, items = _block_of(known(sizes["KK"])), _items_of(known(pixels), 24)
    more = {
        **sizes,
        "PANELS": panels,
        "PIXELS": pixels,
        "BLOCK": number(block),
        "ITEMS": number(items),
    }
    text = f"""\
const i64 g = i / PANELS, p = i % PANELS;
f32 *const to = {packed.name} + g * PANELS * {PANEL} * KK;
ctx->lib->pack_b_f32(to, x1 + g * GO, KK, GO, OC, 1, p, p + 1);"""
    _part(at, more, text, sizes["GR"] * panels, work=sizes["KK"] * number(64), name="pack")
    plain = _pointwise(at, sizes)
    gather = f"""\
f32 *const rows = (f32 *){at.scratch};
for (i64 p = p0; p < p1; p++) {{
  const i64 ow = p % OW, oh = p / OW % OH, od = p / (OW * OH) % OD, nb = p / (OW * OH * OD);
  const i64 iw = ow * SW - PW;
  f32 *to = rows + (p - p0) * KK;
  for (i64 q = 0; q < KD; q++) {{
    const i64 iz = od * SD - PD + q * DD;
    for (i64 r = 0; r < KH; r++, to += KW * GI) {{
      const i64 ih = oh * SH - PH + r * DH;
      if (iz < 0 || iz >= ID || ih < 0 || ih >= IH) {{
        __builtin_memset(to, 0, (u64)(KW * GI) * 4);
        continue;
      }}
      const f32 *const from = x0 + (((nb * ID + iz) * IH + ih) * IW) * IC + g * GI;
      if (DW == 1 && GR == 1 && iw >= 0 && iw + KW <= IW) {{
        __builtin_memcpy(to, from + iw * IC, (u64)(KW * GI) * 4);
        continue;
      }}
      for (i64 s = 0; s < KW; s++) {{
        const i64 w = iw + s * DW;
        if (w < 0 || w >= IW) __builtin_memset(to + s * GI, 0, (u64)GI * 4);
        else __builtin_memcpy(to + s * GI, from + w * IC, (u64)GI * 4);
      }}
    }}
  }}
}}"""
    left, step = ("x0 + p0 * IC + g * GI", "IC") if plain else ("rows", "KK")
    bias = ""
    if len(at.operands) > 2:
        bias = """
for (i64 p = p0; p < p1; p++) {
  #pragma omp simd
  for (i64 f = 0; f < GO; f++) y0[p * OC + g * GO + f] += x2[g * GO + f];
}"""
    each = f"""\
{"" if plain else gather}
const int code = ctx->lib->gemm_f32(y0 + p0 * OC + g * GO, OC, {left}, {step},
  {packed.name} + g * PANELS * {PANEL} * KK, p1 - p0, GO, KK, BLOCK, PANELS * {PANEL},
  0, 1, 0, b, d, ctx);
if (code) return code;{bias}"""
    text = f"""\
const i64 first = PIXELS * i / ITEMS, last = PIXELS * (i + 1) / ITEMS;
const i64 blocks = (last - first + BLOCK - 1) / BLOCK;
for (i64 n = 0; n < blocks; n++) {{
  const i64 p0 = first + (last - first) * n / blocks;
  const i64 p1 = first + (last - first) * (n + 1) / blocks;
  for (i64 g = 0; g < GR; g++) {{
{_indented(each, 4)}
  }}
}}"""
    _part(
        at,
        more,
        text,
        number(items),
        work=_shared_work(sizes, pixels, items),
        scratch=0 if plain else number(4 * block) * sizes["KK"],
        name="product",
    )


def _shared_work(sizes: dict[str, Poly], pixels: Poly, items: int) -> Poly:
    """The scalar operations of one of ``items`` parts of a product."""
    return (pixels * sizes["KK"] * sizes["OC"]).floordiv(number(16 * items)) + number(1)


def _columns(at: Site, sizes: dict[str, Poly]) -> None:
    """Channels first: the filter times columns of windows."""
    pixels = sizes["OD"] * sizes["OH"] * sizes["OW"]
    panels, images = ceil_div(pixels, PANEL), sizes["NB"] * sizes["GR"]
    stride = known(sizes["SW"]) or 1
    block = _block_of(known(sizes["KK"]))
    more = {
        **sizes,
        "PIXELS": pixels,
        "PANELS": panels,
        "BLOCK": number(block // PANEL),
        "FD": sizes["ID"] + sizes["QD"],
        "FH": sizes["IH"] + sizes["QH"],
        "FW": ceil_div(sizes["IW"] + sizes["QW"], stride),
    }
    if _pointwise(at, sizes):
        gather = (
            "ctx->lib->pack_b_f32(columns, x0 + (nb * IC + g * GI) * PIXELS + p0, GI, p1 - p0, "
            f"PIXELS, 1, 0, (p1 - p0 + {PANEL - 1}) / {PANEL});"
        )
    else:
        volume = more["FD"] * more["FH"] * more["FW"] * number(stride)
        # A panel is copied in whole vectors, so it may be read up to its width past the end.
        padded = at.temporary(DType.float32, sizes["NB"] * sizes["IC"] * volume + number(2 * PANEL))
        lines = sizes["NB"] * sizes["IC"] * more["FD"] * more["FH"]
        text = _PADDING.replace("PADDED", padded.name)
        _part(at, more, text, lines, work=more["FW"] * number(2 * stride), name="pad")
        gather = _GATHER.replace("PADDED", padded.name)
    scratch = number(4 * block) * sizes["KK"] + number(4 * PANEL + 256)
    count = known(panels * images)
    if count is not None and known(sizes["KK"] * sizes["GO"]) is not None and count < 16:
        _few_columns(at, more, gather, scratch)
        return
    items = _items_of(count, 2)
    more["ITEMS"] = number(items)
    text = f"""\
f32 *const columns = (f32 *){at.scratch};
const i64 last = PANELS * NB * GR * (i + 1) / ITEMS;
for (i64 n = PANELS * NB * GR * i / ITEMS; n < last;) {{
  const i64 image = n / PANELS, nb = image / GR, g = image % GR, place = n - image * PANELS;
  i64 much = last - n < BLOCK ? last - n : BLOCK;
  if (much > PANELS - place) much = PANELS - place;
  n += much;
  const i64 p0 = place * {PANEL}, end = (place + much) * {PANEL};
  const i64 p1 = end < PIXELS ? end : PIXELS, f0 = 0, f1 = GO;
{_indented(gather, 2)}
{_indented(_multiplied(at, "columns"), 2)}
}}"""
    work = _shared_work(sizes, sizes["NB"] * pixels, items)
    _part(at, more, text, number(items), work=work, scratch=scratch, name="product")


def _multiplied(at: Site, columns: str) -> str:
    """The product of the rows ``f0`` to ``f1`` of a group's filter with the pixels ``p0`` to
    ``p1``, whose windows are in ``columns``, and the bias."""
    text = f"""\
const int code = ctx->lib->gemm_f32(y0 + (nb * OC + g * GO + f0) * PIXELS + p0, PIXELS,
  x1 + (g * GO + f0) * KK, KK, {columns}, f1 - f0, p1 - p0, KK, f1 - f0, p1 - p0 + {PANEL},
  0, 1, 0, b, d, ctx);
if (code) return code;"""
    if len(at.operands) < 3:
        return text
    return f"""{text}
for (i64 f = f0; f < f1; f++) {{
  const f32 v = x2[g * GO + f];
  f32 *const line = y0 + (nb * OC + g * GO + f) * PIXELS;
  #pragma omp simd
  for (i64 p = p0; p < p1; p++) line[p] += v;
}}"""


def _few_columns(at: Site, sizes: dict[str, Poly], gather: str, scratch: Poly) -> None:
    """As ``_columns``, for few pixels: their windows are laid out once, and the channels of the
    result are shared by threads too."""
    count, depth, filters = (known(sizes[name]) or 0 for name in ("PANELS", "KK", "GO"))
    images = known(sizes["NB"] * sizes["GR"]) or 0
    # Of the ways to cut the result into parts, the one that reads the least.
    ways = [(8, 1), (4, 2), (2, 4), (1, 8)]
    fitting = [(f, p) for f, p in ways if p <= count and f * 8 <= filters] or [(1, 1)]
    rows, blocks = min(fitting, key=lambda way: way[0] * count * PANEL + way[1] * filters)
    columns = at.temporary(
        DType.float32, sizes["NB"] * sizes["GR"] * sizes["PANELS"] * sizes["KK"] * number(PANEL)
    )
    more = {**sizes, "ROWS": number(rows), "BLOCKS": number(blocks)}
    text = f"""\
f32 *const columns = (f32 *){at.scratch};
const i64 nb = i / (PANELS * GR), g = i / PANELS % GR, p0 = i % PANELS * {PANEL};
const i64 p1 = p0 + {PANEL} < PIXELS ? p0 + {PANEL} : PIXELS;
{gather}
__builtin_memcpy({columns.name} + i * KK * {PANEL}, columns, (u64)KK * {4 * PANEL});"""
    work = number(PANEL * depth)
    _part(at, more, text, number(images * count), work=work, scratch=scratch, name="columns")
    text = f"""\
const i64 part = i % ROWS, block = i / ROWS % BLOCKS, image = i / (ROWS * BLOCKS);
const i64 nb = image / GR, g = image % GR;
const i64 f0 = GO * part / ROWS, f1 = GO * (part + 1) / ROWS;
const i64 first = PANELS * block / BLOCKS, end = PANELS * (block + 1) / BLOCKS * {PANEL};
const i64 p0 = first * {PANEL}, p1 = end < PIXELS ? end : PIXELS;
const f32 *const windows = {columns.name} + (image * PANELS + first) * KK * {PANEL};
{_multiplied(at, "windows")}"""
    items = images * rows * blocks
    work = number(max(1, depth * filters * count * PANEL // (16 * rows * blocks)))
    _part(at, more, text, number(items), work=work, name="product")


_PADDING = """\
const i64 h = i % FH - PH, z = i / FH % FD - PD, c = i / (FH * FD);
f32 *const to = PADDED + i * (FW * SW);
if (h < 0 || h >= IH || z < 0 || z >= ID) {
  __builtin_memset(to, 0, (u64)(FW * SW) * 4);
  continue;
}
const f32 *const from = x0 + ((c * ID + z) * IH + h) * IW;
for (i64 phase = 0; phase < SW; phase++) {
  f32 *const line = to + phase * FW;
  const i64 left = phase - PW;
  const i64 inside = left < 0 ? (-left + SW - 1) / SW : 0, begin = inside < FW ? inside : FW;
  const i64 reach = left >= IW ? 0 : (IW - 1 - left) / SW + 1, end = reach < FW ? reach : FW;
  for (i64 n = 0; n < begin; n++) line[n] = 0;
  #pragma omp simd
  for (i64 n = begin; n < end; n++) line[n] = from[n * SW + left];
  for (i64 n = end > begin ? end : begin; n < FW; n++) line[n] = 0;
}"""

# Runs of pixels of one line are copied 32 floats at once: what is too much is overwritten by the
# next run, by the next row of the panel or, behind the last one, lies in memory kept free for it.
_GATHER = """\
for (i64 p = p0; p < p1; p += 32) {
  f32 *const panel = columns + (p - p0) * KK;
  const i64 stop = p + 32 < p1 ? p + 32 : p1;
  i64 at[33], where[33], runs = 0;
  for (i64 n = p; n < stop; runs++) {
    const i64 ow = n % OW, oh = n / OW % OH, od = n / (OW * OH);
    at[runs] = n - p;
    where[runs] = ((nb * IC + g * GI) * FD + od * SD) * FH * (FW * SW) + oh * SH * (FW * SW) + ow;
    n += OW - ow;
  }
  f32 *to = panel;
  for (i64 c = 0; c < GI; c++)
    for (i64 q = 0; q < KD; q++)
      for (i64 r = 0; r < KH; r++)
        for (i64 s = 0; s < KW; s++, to += 32) {
          const i64 place = s * DW % SW * FW + s * DW / SW;
          const i64 tap = ((c * FD + q * DD) * FH + r * DH) * (FW * SW) + place;
          for (i64 n = 0; n < runs; n++)
            __builtin_memcpy(to + at[n], PADDED + where[n] + tap, 128);
        }
}"""


# ---------------------------------------------------------------- transposed
def write_transposed(at: Site) -> None:
    """The part of a transposed convolution: each output gathers what reaches it."""
    x, w, y = at.operands[0], at.operands[1], at.results[0]
    sizes = _sizes(at, False, transposed=True)
    kind = total_type(x)
    read = "((nb * IH + ih) * IW + iw) * IC + c"
    taps = """\
for (i64 r = 0; r < KH; r++) {
  const i64 h = oh + PH - r * DH, ih = h / SH;
  if (h < 0 || h % SH || ih >= IH) continue;
  for (i64 s = 0; s < KW; s++) {
    const i64 v = ow + PW - s * DW, iw = v / SW;
    if (v < 0 || v % SW || iw >= IW) continue;
INNER
  }
}"""
    work = sizes["IC"] * sizes["KH"] * sizes["KW"]
    if at.target == "cuda":
        weight = w.load("((r * KW + s) * IC + c) * OC + oc")
        inner = f"""\
for (i64 c = 0; c < IC; c++)
  a += ({kind}){x.load(read)} * ({kind}){weight};"""
        text = f"""\
const i64 oc = i % OC, ow = i / OC % OW, oh = i / (OC * OW) % OH, nb = i / (OC * OW * OH);
{kind} a = {_with_bias(at, "oc")};
{taps.replace("INNER", _indented(inner, 4))}
{y.store("i", finished(y, "a"))}"""
        _part(at, sizes, text, elements(y.type), work=work * number(2))
        return
    inner = f"""\
for (i64 c = 0; c < IC; c++) {{
  const {kind} e = ({kind}){x.load(read)};
  const {w.stored} *const by = x1 + ((r * KW + s) * IC + c) * OC;
  #pragma omp simd
  for (i64 f = 0; f < OC; f++) a[f] += e * ({kind}){_at(w, "by[f]")};
}}"""
    text = f"""\
{kind} *RS a = ({kind} *){at.scratch};
const i64 ow = i % OW, oh = i / OW % OH, nb = i / (OW * OH);
for (i64 f = 0; f < OC; f++) a[f] = {_with_bias(at, "f")};
{taps.replace("INNER", _indented(inner, 4))}
#pragma omp simd
for (i64 f = 0; f < OC; f++) {y.store("i * OC + f", finished(y, "a[f]"))}"""
    pixels = sizes["NB"] * sizes["OH"] * sizes["OW"]
    _part(at, sizes, text, pixels, work=work * sizes["OC"], scratch=sizes["OC"] * number(8))


__all__ = ["write_transposed", "write_windows"]
