// Convolutions on the CPU that are no products: those summed directly, and those of which each
// channel is by itself.
//
// Images of two spatial dims are written as those of three, with a depth of 1. NB images; IC ID IH
// IW channels and sizes of the input, OC OD OH OW of the result, KD KH KW of the window; SD … DD …
// PD … stride, dilation and padding before; GR groups of GI channels in and GO out; KK elements of a
// window. BIAS says whether there is one.

// Channels last: the channels of one pixel at a time. SINGLE: each channel is by itself.
// @op conv_pixels(x: T[n, pixels, c], w: T[k, c, o], bias: T[o]) -> (y: T[n, out, o])
// @types T: any
// @params BIAS: bool; SINGLE: bool; FINISH: bool = false
// @sizes NB; IC; OC; ID; OD; KD; SD; DD; PD; IH; OH; KH; SH; DH; PH; IW; OW; KW; SW; DW; PW;
//   GR; GI; GO; KK
// @items NB * OD * OH * OW
// @work KK * OC
// @c scratch=8*OC
Total *RS a = (Total *)scratch;
const i64 ow = i % OW, oh = i / OW % OH, od = i / (OW * OH) % OD, nb = i / (OW * OH * OD);
for (i64 f = 0; f < OC; f++) a[f] = bias_of(f);
for (i64 q = 0; q < KD; q++) {
  const i64 iz = od * SD - PD + q * DD;
  if (iz < 0 || iz >= ID) continue;
  for (i64 r = 0; r < KH; r++) {
    const i64 ih = oh * SH - PH + r * DH;
    if (ih < 0 || ih >= IH) continue;
    for (i64 s = 0; s < KW; s++) {
      const i64 iw = ow * SW - PW + s * DW;
      if (iw < 0 || iw >= IW) continue;
      // @if SINGLE
      const stored_T *const from = x + (((nb * ID + iz) * IH + ih) * IW + iw) * IC;
      const stored_T *const by = w + ((q * KH + r) * KW + s) * OC;
      #pragma omp simd
      for (i64 f = 0; f < OC; f++) a[f] += (Total)loaded(x, from[f]) * (Total)loaded(w, by[f]);
      // @else
      for (i64 g = 0; g < GR; g++)
        for (i64 c = 0; c < GI; c++) {
          const Total v =
              (Total)load(x, (((nb * ID + iz) * IH + ih) * IW + iw) * IC + g * GI + c);
          const stored_T *const by = w + (((q * KH + r) * KW + s) * GI + c) * OC + g * GO;
          Total *const to = a + g * GO;
          #pragma omp simd
          for (i64 f = 0; f < GO; f++) to[f] += v * (Total)loaded(w, by[f]);
        }
      // @endif
    }
  }
}
#pragma omp simd
for (i64 f = 0; f < OC; f++) store(y, i * OC + f, finished(a[f]));
follow(i, i + 1, 0, OC);

// Two images as one with the channels of both, LC and the others of IC: on the CPU a pixel at a time.
// @op join_images(x: T[n, pixels, c], other: T[n, pixels, d]) -> (y: T[n, out, o])
// @types T: any
// @sizes IC; LC; PIXELS
// @c work=IC
__builtin_memcpy(whole + i * IC, x + i * LC, (u64)LC * sizeof *whole);
__builtin_memcpy(whole + i * IC + LC, other + i * (IC - LC), (u64)(IC - LC) * sizeof *whole);
// @cuda
const i64 c = i % IC, p = i / IC;
whole[i] = c < LC ? x[p * LC + c] : other[p * (IC - LC) + c - LC];

// Channels first: one line of one channel at a time.
// @op conv_lines(x: T[n, c, pixels], w: T[o, c, k], bias: T[o]) -> (y: T[n, o, out])
// @types T: any
// @params BIAS: bool
// @sizes NB; IC; OC; ID; OD; KD; SD; DD; PD; IH; OH; KH; SH; DH; PH; IW; OW; KW; SW; DW; PW;
//   GI; GO; KK
// @items NB * OC * OD * OH
// @work KK * OW
// @c scratch=8*OW
Total *RS a = (Total *)scratch;
const i64 oh = i % OH, od = i / OH % OD, oc = i / (OH * OD) % OC, nb = i / (OH * OD * OC);
const i64 g = oc / GO;
const Total start = bias_of(oc);
for (i64 n = 0; n < OW; n++) a[n] = start;
for (i64 c = 0; c < GI; c++)
  for (i64 q = 0; q < KD; q++) {
    const i64 iz = od * SD - PD + q * DD;
    if (iz < 0 || iz >= ID) continue;
    for (i64 r = 0; r < KH; r++) {
      const i64 ih = oh * SH - PH + r * DH;
      if (ih < 0 || ih >= IH) continue;
      const stored_T *const line = x + (((nb * IC + g * GI + c) * ID + iz) * IH + ih) * IW;
      for (i64 s = 0; s < KW; s++) {
        const Total v = (Total)load(w, (((oc * GI + c) * KD + q) * KH + r) * KW + s);
        const i64 left = s * DW - PW;
        const i64 begin = left < 0 ? (-left + SW - 1) / SW : 0;
        const i64 reach = IW - left <= 0 ? 0 : (IW - 1 - left) / SW + 1;
        const i64 end = reach < OW ? reach : OW;
        #pragma omp simd
        for (i64 n = begin; n < end; n++) a[n] += v * (Total)loaded(x, line[n * SW + left]);
      }
    }
  }
#pragma omp simd
for (i64 n = 0; n < OW; n++) store(y, i * OW + n, finished(a[n]));

// Channels last, each by itself, of float32 with few taps in a line: a line of the result at a time, up
// to MANY pixels at once. LINES lines of a window; SEEN pixels of a line that MANY windows see.
// @op depthwise_lines(x: float32[n, pixels, c], w: float32[k, 1, c], bias: float32[c]) ->
//   (y: float32[n, out, c])
// @params BIAS: bool; FINISH: bool = false; MANY: int; LINES: int; ACROSS: int; APART: int; STRIDE: int
// @sizes NB; IC; OC; ID; OD; KD; SD; DD; PD; IH; OH; KH; SH; DH; PH; IW; OW; KW; SW; DW; PW; TAPS
// @items NB * OD * OH
// @work TAPS * OC * OW // 8 + 1
// @c
enum { many = MANY < MX_DEPTHWISE_MOST ? MANY : MX_DEPTHWISE_MOST };
enum { seen = (many - 1) * STRIDE + (ACROSS - 1) * APART + 1 };
const f32 *by[LINES], *from[LINES];
int n = 0;
const i64 oh = i % OH, od = i / OH % OD, nb = i / (OH * OD);
for (i64 q = 0; q < KD; q++)
  for (i64 r = 0; r < KH; r++) {
    const i64 iz = od * SD - PD + q * DD, ih = oh * SH - PH + r * DH;
    if (iz < 0 || iz >= ID || ih < 0 || ih >= IH) continue;
    by[n] = w + (q * KH + r) * KW * OC;
    from[n++] = x + ((nb * ID + iz) * IH + ih) * IW * IC;
  }
for (i64 ow = 0; ow < OW; ow += many) {
  const i64 left = ow * SW - PW, kept = OW - ow < many ? OW - ow : many;
  const i64 begin = left < 0 ? -left : 0, end = IW - left;
  f32 *const to = y + (i * OW + ow) * OC;
  i64 c = 0;
  if (begin == 0 && end >= seen && kept == many) {
    for (; c + 16 <= OC; c += 16)
      mx_depthwise_line16(many, ACROSS, APART, STRIDE, to, from, left, by, n, 0, seen, many, c,
                          OC, bias_or_none);
  } else {
    for (; c + 16 <= OC; c += 16)
      mx_depthwise_line16(many, ACROSS, APART, STRIDE, to, from, left, by, n, begin, end, kept, c,
                          OC, bias_or_none);
  }
  for (; c + 8 <= OC; c += 8)
    mx_depthwise_line8(many, ACROSS, APART, STRIDE, to, from, left, by, n, begin, end, kept, c,
                       OC, bias_or_none);
  for (; c < OC; c++)
    mx_depthwise_line1(many, ACROSS, APART, STRIDE, to, from, left, by, n, begin, end, kept, c,
                       OC, bias_or_none);
}
follow(i * OW, (i + 1) * OW, 0, OC);

// Channels last, each by itself: a line of the result at a time, four pixels where their windows are
// inside of the line, else up to four of which some read zeros.
// @op depthwise_pixels(x: T[n, pixels, c], w: T[k, 1, c], bias: T[c]) -> (y: T[n, out, c])
// @types T: float32 | float16 | bfloat16
// @params BIAS: bool; FINISH: bool = false
// @sizes NB; IC; OC; ID; OD; KD; SD; DD; PD; IH; OH; KH; SH; DH; PH; IW; OW; KW; SW; DW; PW; TAPS
// @items NB * OD * OH
// @work TAPS * OC * OW // 8 + 1
// @c
const stored_T *by[TAPS], *from[4 * TAPS];
i64 taps[TAPS];
int n = 0;
stored_T *const none = (stored_T *)scratch;
__builtin_memset(none, 0, (u64)IC * sizeof *none);
const i64 oh = i % OH, od = i / OH % OD, nb = i / (OH * OD);
for (i64 q = 0; q < KD; q++)
  for (i64 r = 0; r < KH; r++) {
    const i64 iz = od * SD - PD + q * DD, ih = oh * SH - PH + r * DH;
    if (iz < 0 || iz >= ID || ih < 0 || ih >= IH) continue;
    for (i64 s = 0; s < KW; s++, n++) {
      by[n] = w + ((q * KH + r) * KW + s) * OC;
      taps[n] = (((nb * ID + iz) * IH + ih) * IW + s * DW) * IC;
    }
  }
for (i64 ow = 0, many; ow < OW; ow += many) {
  const i64 iw = ow * SW - PW;
  many = OW - ow < 4 ? OW - ow : 4;
  // @if T == float32
  f32 *const to = y + (i * OW + ow) * OC;
  // @else
  f32 *const to = (f32 *)((char *)scratch + (OC * 2 + 63) / 64 * 64);
  // @endif
  if (iw >= 0 && many == 4 && iw + 3 * SW + (KW - 1) * DW < IW) {
    mx_depthwise_four_Kind(to, x + iw * IC, SW * IC, taps, by, n, OC, bias_or_none);
  } else {
    for (int t = 0; t < n; t++)
      for (i64 q = 0; q < 4; q++) {
        const i64 left = iw + q * SW, v = left + t % KW * DW;
        from[4 * t + q] = q < many && v >= 0 && v < IW ? x + taps[t] + left * IC : none;
      }
    mx_depthwise_edge_Kind(to, (int)many, from, by, n, OC, bias_or_none);
  }
  // @if T != float32
  #pragma omp simd
  for (i64 f = 0; f < many * OC; f++) { store(y, (i * OW + ow) * OC + f, to[f]); }
  // @endif
}
follow(i * OW, (i + 1) * OW, 0, OC);

// Channels first, each by itself: an image of one channel at a time, which is padded before and cut
// into the phases of the stride along its width, so that neighbouring sums read neighbours. FH lines
// of LINE elements, FW of a phase; WIDE sums of a line.
// @op depthwise_planes(x: T[n, c, pixels], w: T[c, 1, k], bias: T[c]) -> (y: T[n, c, out])
// @types T: float32 | float16 | bfloat16
// @params BIAS: bool
// @sizes NB; OC; IH; OH; KH; SH; DH; PH; IW; OW; KW; SW; DW; PW; FW; LINE; FH; WIDE; TAPS; PLANE
// @items NB * OC
// @work TAPS * OH * OW // 8 + 1
// @c
f32 *const plane = (f32 *)scratch, *const sums = plane + PLANE;
f32 by[TAPS];
i64 taps[TAPS];
for (i64 h = 0; h < FH; h++) {
  const i64 ih = h - PH;
  f32 *const lines = plane + h * LINE;
  if (ih < 0 || ih >= IH) {
    __builtin_memset(lines, 0, (u64)LINE * 4);
    continue;
  }
  const stored_T *const from = x + (i * IH + ih) * IW;
  for (i64 phase = 0; phase < SW; phase++) {
    f32 *const line = lines + phase * FW;
    const i64 left = phase - PW;
    const i64 inside = left < 0 ? (-left + SW - 1) / SW : 0, begin = inside < FW ? inside : FW;
    const i64 reach = left >= IW ? 0 : (IW - 1 - left) / SW + 1, end = reach < FW ? reach : FW;
    for (i64 n = 0; n < begin; n++) line[n] = 0;
    #pragma omp simd
    for (i64 n = begin; n < end; n++) line[n] = loaded(x, from[n * SW + left]);
    for (i64 n = end > begin ? end : begin; n < FW - 16; n++) line[n] = 0;
  }
}
const i64 oc = i % OC;
for (i64 r = 0; r < KH; r++)
  for (i64 s = 0; s < KW; s++) {
    by[r * KW + s] = load(w, (oc * KH + r) * KW + s);
    taps[r * KW + s] = r * DH * LINE + s * DW % SW * FW + s * DW / SW;
  }
const f32 start = bias_of(oc);
mx_depthwise_plane(sums, WIDE, plane, SH * LINE, by, taps, (int)TAPS, OH, OW, start);
for (i64 h = 0; h < OH; h++) {
  #pragma omp simd
  for (i64 n = 0; n < OW; n++) { store(y, (i * OH + h) * OW + n, sums[h * WIDE + n]); }
}

// Each output of a transposed convolution gathers what reaches it.
// @op transposed(x: T[n, h, v, c], w: T[kh, kw, o, c], bias: T[o]) -> (y: T[n, oh, ow, o])
// @types T: any
// @params BIAS: bool
// @sizes NB; IC; OC; IH; OH; KH; SH; DH; PH; IW; OW; KW; SW; DW; PW
// @items NB * OH * OW
// @work IC * KH * KW * OC
// @c scratch=8*OC
Total *RS a = (Total *)scratch;
const i64 ow = i % OW, oh = i / OW % OH, nb = i / (OW * OH);
for (i64 f = 0; f < OC; f++) a[f] = bias_of(f);
for (i64 r = 0; r < KH; r++) {
  const i64 h = oh + PH - r * DH, ih = h / SH;
  if (h < 0 || h % SH || ih >= IH) continue;
  for (i64 s = 0; s < KW; s++) {
    const i64 v = ow + PW - s * DW, iw = v / SW;
    if (v < 0 || v % SW || iw >= IW) continue;
    for (i64 c = 0; c < IC; c++) {
      const Total e = (Total)load(x, ((nb * IH + ih) * IW + iw) * IC + c);
      const stored_T *const by = w + ((r * KW + s) * IC + c) * OC;
      #pragma omp simd
      for (i64 f = 0; f < OC; f++) a[f] += e * (Total)loaded(w, by[f]);
    }
  }
}
#pragma omp simd
for (i64 f = 0; f < OC; f++) store(y, i * OC + f, finished(a[f]));

// What follows the result, of these pixels and channels.
// @macro follow(P0, P1, C0, C1)
// @if FINISH
{
  const int code = finish(b, d, P0, P1, C0, C1, ctx);
  if (code) return code;
}
// @endif

// Sums of integers wrap.
// @macro Total = T if is_float(T) else u64 if bits(T) == 64 else u32
// @macro finished(SUM) = SUM if is_float(T) else (T)(SUM)
// @macro bias_of(CHANNEL) = load(bias, CHANNEL) if BIAS else 0
// @macro bias_or_none = bias if BIAS else 0
// @macro Kind = f32 if T == float32 else bf16 if T == bfloat16 else f16
