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


def _block_of(sizes: dict[str, Poly], pixels: Poly) -> int:
    """Pixels of a block: their windows stay in a cache, and every thread gets some."""
    depth, count = known(sizes["KK"]), known(pixels)
    most = 128 if depth is None else max(PANEL, min(128, BLOCK_BYTES // (4 * max(depth, 1))))
    if count is not None:
        items = max(8, -(-count // most))  # so many that two or four threads have equal parts
        most = max(PANEL // 2, min(most, -(-count // items)))
    return most


def _rows(at: Site, sizes: dict[str, Poly]) -> None:
    """Channels last: rows of windows times the packed filter."""
    panels = ceil_div(sizes["GO"], PANEL)
    packed = at.temporary(DType.float32, sizes["GR"] * panels * number(PANEL) * sizes["KK"])
    pixels = sizes["NB"] * sizes["OD"] * sizes["OH"] * sizes["OW"]
    block = _block_of(sizes, pixels)
    more = {**sizes, "PANELS": panels, "PIXELS": pixels, "BLOCK": number(block)}
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
    text = f"""\
const i64 g = i % GR, p0 = i / GR * BLOCK;
const i64 p1 = p0 + BLOCK < PIXELS ? p0 + BLOCK : PIXELS;
{"" if plain else gather}
const int code = ctx->lib->gemm_f32(y0 + p0 * OC + g * GO, OC, {left}, {step},
  {packed.name} + g * PANELS * {PANEL} * KK, p1 - p0, GO, KK, BLOCK, PANELS * {PANEL},
  0, 1, 0, b, d, ctx);
if (code) return code;{bias}"""
    _part(
        at,
        more,
        text,
        ceil_div(pixels, block) * sizes["GR"],
        work=sizes["KK"] * sizes["GO"] * number(max(block // 16, 1)),
        scratch=0 if plain else number(4 * block) * sizes["KK"],
        name="product",
    )


def _columns(at: Site, sizes: dict[str, Poly]) -> None:
    """Channels first: the filter times columns of windows."""
    pixels = sizes["OD"] * sizes["OH"] * sizes["OW"]
    plain = _pointwise(at, sizes)
    stride = known(sizes["SW"]) or 1
    # Whole panels, of which the windows stay in a cache.
    depth, images = known(sizes["KK"]), known(sizes["NB"] * sizes["GR"])
    most = 2 if depth is None else max(1, min(4, BLOCK_BYTES // (4 * PANEL * max(depth, 1))))
    count, filters = known(ceil_div(pixels, PANEL)), known(sizes["GO"])
    parts = 1  # into which the channels of the result are cut where pixels are few
    if count is not None and images is not None:
        most = max(1, min(most, count * images // 8))
        blocks = -(-count // most) * images
        if filters is not None and blocks < 16:
            parts = max(1, min(16 // max(blocks, 1), filters // 64))
    block = most * PANEL
    more = {
        **sizes,
        "PIXELS": pixels,
        "BLOCK": number(block),
        "BLOCKS": ceil_div(pixels, block),
        "PARTS": number(parts),
        "EACH": ceil_div(sizes["GO"], parts),
        "FD": sizes["ID"] + sizes["QD"],
        "FH": sizes["IH"] + sizes["QH"],
        "FW": ceil_div(sizes["IW"] + sizes["QW"], stride),
    }
    source = ""
    if not plain:
        volume = more["FD"] * more["FH"] * more["FW"] * number(stride)
        # A panel is copied in whole vectors, so it may be read up to its width past the end.
        padded = at.temporary(DType.float32, sizes["NB"] * sizes["IC"] * volume + number(2 * PANEL))
        source = padded.name
        _part(at, more, _PADDING.replace("PADDED", source), sizes["NB"] * sizes["IC"] * more["FD"] *
              more["FH"], work=more["FW"] * number(2 * stride), name="pad")  # fmt: skip
        gather = _GATHER.replace("PADDED", source)
    else:
        gather = (
            "ctx->lib->pack_b_f32(columns, x0 + (nb * IC + g * GI) * PIXELS + p0, GI, p1 - p0, "
            f"PIXELS, 1, 0, (p1 - p0 + {PANEL - 1}) / {PANEL});"
        )
    bias = ""
    if len(at.operands) > 2:
        bias = """
for (i64 f = f0; f < f1; f++) {
  const f32 v = x2[g * GO + f];
  f32 *const line = y0 + (nb * OC + g * GO + f) * PIXELS;
  #pragma omp simd
  for (i64 p = p0; p < p1; p++) line[p] += v;
}"""
    text = f"""\
f32 *const columns = (f32 *){at.scratch};
const i64 part = i % PARTS, p0 = i / PARTS % BLOCKS * BLOCK;
const i64 g = i / (PARTS * BLOCKS) % GR, nb = i / (PARTS * BLOCKS * GR);
const i64 p1 = p0 + BLOCK < PIXELS ? p0 + BLOCK : PIXELS;
const i64 f0 = part * EACH, f1 = f0 + EACH < GO ? f0 + EACH : GO;
if (f0 >= f1) continue;
{gather}
const int code = ctx->lib->gemm_f32(y0 + (nb * OC + g * GO + f0) * PIXELS + p0, PIXELS,
  x1 + (g * GO + f0) * KK, KK, columns, f1 - f0, p1 - p0, KK, f1 - f0, BLOCK, 0, 1, 0, b, d, ctx);
if (code) return code;{bias}"""
    _part(
        at,
        more,
        text,
        number(parts) * more["BLOCKS"] * sizes["NB"] * sizes["GR"],
        work=sizes["KK"] * more["EACH"] * number(max(block // 16, 1)),
        scratch=number(4 * block) * sizes["KK"] + number(4 * PANEL + 256),
        name="product",
    )


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
