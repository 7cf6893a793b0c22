"""The kernels of convolutions, for both targets.

Images of two spatial dims are written as those of three, with a depth of 1. Sizes have these names
in the text: ``NB`` images; ``IC ID IH IW`` channels and sizes of the input, ``OC OD OH OW`` of the
result, ``KD KH KW`` of the window; ``SD … DD … PD …`` stride, dilation and padding before; ``GR``
groups of ``GI`` channels in and ``GO`` out; ``KK`` elements of a window.

On the CPU, convolutions of floats are products where they mix channels, which
``convolution_lines``, ``convolution_planes`` and ``convolution_products`` write, and have kernels
of their own where each channel is by itself. All else is summed directly.
"""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.ir import Poly
from maxlab.ir.poly import ONE
from maxlab.opset.convolution_lines import write_lines
from maxlab.opset.convolution_planes import write_planes
from maxlab.opset.convolution_products import (
    indented,
    write_products,
    write_transposed_products,
)
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

_KIND = {DType.float32: "f32", DType.bfloat16: "bf16", DType.float16: "f16"}
"""The floats that have fast kernels, by what texts call them."""
LEAST = 12
"""Channels of a result's group below which most columns of a product would be empty."""
MOST_TAPS = 256
"""Elements of a window for which a depthwise kernel keeps places on its stack."""

Sizes = dict[str, Poly]


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
    few, depth = known(sizes["GO"]), known(sizes["GI"])
    taps = known(product([sizes[f"K{axis}"] for axis in "DHW"]))
    fast = at.operands[0].dtype in _KIND
    flat = all(known(sizes[f"{part}D"]) == 1 for part in "IK")
    few_taps = taps is not None and taps <= MOST_TAPS
    if fast and few == depth == 1 and few_taps and (flat or not first):
        (_depthwise_planes if first else _depthwise_pixels)(at, sizes)
    elif fast and (few is None or few >= LEAST):
        if not (write_lines(at, sizes, first) or (first and write_planes(at, sizes))):
            write_products(at, sizes, first)
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
{indented(inner, 6)}
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


# ---------------------------------------------------------------- depthwise
def _depthwise_pixels(at: Site, sizes: Sizes) -> None:
    """Channels last, each by itself: a line of the result at a time, four pixels where their
    windows are inside of the line, else one."""
    x, y = at.operands[0], at.results[0]
    kind = _KIND[x.dtype]
    half = kind != "f32"
    bias = at.operands[2].name if len(at.operands) > 2 else "0"
    stored = ""
    if half:
        stored = f"""
#pragma omp simd
for (i64 f = 0; f < many * OC; f++) {{ {y.store("(i * OW + ow) * OC + f", "to[f]")} }}"""
    text = f"""\
const {x.stored} *by[TAPS], *from[TAPS], *some[TAPS];
i64 taps[TAPS];
int n = 0;
const i64 oh = i % OH, od = i / OH % OD, nb = i / (OH * OD);
for (i64 q = 0; q < KD; q++)
  for (i64 r = 0; r < KH; r++) {{
    const i64 iz = od * SD - PD + q * DD, ih = oh * SH - PH + r * DH;
    if (iz < 0 || iz >= ID || ih < 0 || ih >= IH) continue;
    for (i64 s = 0; s < KW; s++, n++) {{
      by[n] = x1 + ((q * KH + r) * KW + s) * OC;
      taps[n] = (((nb * ID + iz) * IH + ih) * IW + s * DW) * IC;
    }}
  }}
for (i64 ow = 0, many; ow < OW; ow += many) {{
  const i64 iw = ow * SW - PW;
  f32 *const to = {f"(f32 *){at.scratch}" if half else f"{y.name} + (i * OW + ow) * OC"};
  if (iw >= 0 && ow + 4 <= OW && iw + 3 * SW + (KW - 1) * DW < IW) {{
    many = 4;
    mx_depthwise_four_{kind}(to, x0 + iw * IC, SW * IC, taps, by, n, OC, {bias});
  }} else {{
    int got = 0;
    many = 1;
    for (int t = 0; t < n; t++) {{
      const i64 v = iw + t % KW * DW;
      if (v < 0 || v >= IW) continue;
      some[got] = by[t];
      from[got++] = x0 + taps[t] + iw * IC;
    }}
    mx_depthwise_{kind}(to, from, some, got, OC, {bias});
  }}{indented(stored, 2)}
}}"""
    lines = sizes["NB"] * sizes["OD"] * sizes["OH"]
    work = (sizes["KK"] * sizes["OC"] * sizes["OW"]).floordiv(number(8)) + ONE
    scratch = sizes["OC"] * number(16) if half else 0
    more = {**sizes, "TAPS": sizes["KK"]}
    _part(at, more, text, lines, work=work, scratch=scratch)


def _depthwise_planes(at: Site, sizes: Sizes) -> None:
    """Channels first, each by itself: an image of one channel at a time, which is padded before and
    cut into the phases of the stride along its width, so that neighbouring sums read neighbours."""
    x, w, y = at.operands[0], at.operands[1], at.results[0]
    stride = known(sizes["SW"]) or 1
    # Whole vectors are read and written, in four rows at once.
    line = ceil_div(sizes["IW"] + sizes["QW"], stride) + number(16)
    wide = ceil_div(sizes["OW"], 16) * number(16)
    more = {
        **sizes,
        "FW": line,
        "LINE": line * number(stride),
        "FH": sizes["IH"] + sizes["QH"],
        "WIDE": wide,
        "TAPS": sizes["KH"] * sizes["KW"],
    }
    rows = more["FH"] + number(4 * (known(sizes["SH"]) or 1))
    plane = rows * more["LINE"] + number(32)
    text = f"""\
f32 *const plane = (f32 *){at.scratch}, *const sums = plane + {at.size(plane)};
f32 by[TAPS];
i64 taps[TAPS];
for (i64 h = 0; h < FH; h++) {{
  const i64 ih = h - PH;
  f32 *const lines = plane + h * LINE;
  if (ih < 0 || ih >= IH) {{
    __builtin_memset(lines, 0, (u64)LINE * 4);
    continue;
  }}
  const {x.stored} *const from = x0 + (i * IH + ih) * IW;
  for (i64 phase = 0; phase < SW; phase++) {{
    f32 *const line = lines + phase * FW;
    const i64 left = phase - PW;
    const i64 inside = left < 0 ? (-left + SW - 1) / SW : 0, begin = inside < FW ? inside : FW;
    const i64 reach = left >= IW ? 0 : (IW - 1 - left) / SW + 1, end = reach < FW ? reach : FW;
    for (i64 n = 0; n < begin; n++) line[n] = 0;
    #pragma omp simd
    for (i64 n = begin; n < end; n++) line[n] = {_at(x, "from[n * SW + left]")};
    for (i64 n = end > begin ? end : begin; n < FW - 16; n++) line[n] = 0;
  }}
}}
const i64 oc = i % OC;
for (i64 r = 0; r < KH; r++)
  for (i64 s = 0; s < KW; s++) {{
    by[r * KW + s] = {w.load("(oc * KH + r) * KW + s")};
    taps[r * KW + s] = r * DH * LINE + s * DW % SW * FW + s * DW / SW;
  }}
const f32 start = {_with_bias(at, "oc")};
mx_depthwise_plane(sums, WIDE, plane, SH * LINE, by, taps, (int)TAPS, OH, OW, start);
for (i64 h = 0; h < OH; h++) {{
  #pragma omp simd
  for (i64 n = 0; n < OW; n++) {{ {y.store("(i * OH + h) * OW + n", "sums[h * WIDE + n]")} }}
}}"""
    scratch = (plane + (sizes["OH"] + number(4)) * wide) * number(4)
    work = (more["TAPS"] * sizes["OH"] * sizes["OW"]).floordiv(number(8)) + ONE
    _part(at, more, text, sizes["NB"] * sizes["OC"], work=work, scratch=scratch)


# ---------------------------------------------------------------- transposed
def write_transposed(at: Site) -> None:
    """The part of a transposed convolution: each output gathers what reaches it."""
    x, w, y = at.operands[0], at.operands[1], at.results[0]
    sizes = _sizes(at, False, transposed=True)
    filters = known(sizes["OC"])
    few = filters is not None and filters < LEAST
    fast = at.target == "c" and x.dtype in _KIND and not few
    if fast and write_transposed_products(at, sizes):
        return
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
{taps.replace("INNER", indented(inner, 4))}
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
{taps.replace("INNER", indented(inner, 4))}
#pragma omp simd
for (i64 f = 0; f < OC; f++) {y.store("i * OC + f", finished(y, "a[f]"))}"""
    pixels = sizes["NB"] * sizes["OH"] * sizes["OW"]
    _part(at, sizes, text, pixels, work=work * sizes["OC"], scratch=sizes["OC"] * number(8))


__all__ = ["write_transposed", "write_windows"]
