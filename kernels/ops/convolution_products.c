// Convolutions of floats on the CPU as products of matrices.
//
// The rows of the left operand are windows, one for each pixel of the result; the packed filter is
// the right one. Windows are not laid out: the library is given the places of their *pieces*, which
// lie in one piece in the image, and copies a few rows at a time into the nearest cache. A piece is
// the channels of one pixel (BY_PIXEL) or, where these are few, of a line of the window; what lies
// outside of the image are zeros kept aside. Images with the channels FIRST are turned before, and
// blocks of the result behind the product.
//
// Further names of sizes, besides those of convolution.c: AREA pixels of an image of the result,
// PIXELS of all, DEPTH rows of the packed filter, PANELS of a group, of PANEL columns each, RUNS
// pieces of RUN elements in a window. A thread does BLOCK pixels and MOST channels at once, in a tile
// whose rows are WIDTH floats apart; the result is cut into RANGES of pixels and COLUMNS of panels.

// @use convolution.c

// @op conv_product(x: T[n, pixels, c], filter: T[k, c, o], bias: T[o]) -> (y: T[n, out, o])
// @types T: float32 | float16 | bfloat16
// @params FINISH: bool = false; BIAS: bool; FIRST: bool; BY_PIXEL: bool; RANGES: int; COLUMNS: int; BLOCK: int; LEFT: int;
//   PANEL: int; MOST: int; WIDTH: int; TILE: int; WIDENED: int; KIND: int
// @sizes NB; IC; OC; ID; OD; KD; SD; DD; PD; IH; OH; KH; SH; DH; PH; IW; OW; KW; SW; DW; PW;
//   GR; GI; GO; KK; AREA; PIXELS; DEPTH; PANELS; RUNS; RUN
// @part product
// @c
const i64 range = i / COLUMNS, part = i % COLUMNS;
const i64 low = PIXELS * range / RANGES, high = PIXELS * (range + 1) / RANGES;
const i64 blocks = (high - low + LEFT) / BLOCK;
declare_memory();
for (i64 n = 0; n < blocks; n++) {
  const i64 p0 = low + (high - low) * n / blocks, p1 = low + (high - low) * (n + 1) / blocks;
  for (i64 g = 0; g < GR; g++) {
    // @if not BY_PIXEL
    i64 used = 0;
    // @endif
    find_pieces();
    const i64 end =
        PANELS * (part + 1) / COLUMNS * PANEL < GO ? PANELS * (part + 1) / COLUMNS * PANEL : GO;
    for (i64 c0 = PANELS * part / COLUMNS * PANEL; c0 < end; c0 += MOST) {
      const i64 c1 = c0 + MOST < end ? c0 + MOST : end;
      // @if T == float32 and not FIRST
      ctx->lib->gemm_runs(y + p0 * OC + g * GO + c0, OC, (const void *const *)pieces, RUNS, RUN,
                          packed + (g * PANELS * PANEL + c0) * DEPTH, p1 - p0, c1 - c0);
      // @if BIAS
      for (i64 p = p0; p < p1; p++) {
        f32 *const line = y + p * OC + g * GO;
        #pragma omp simd
        for (i64 f = c0; f < c1; f++) line[f] += bias[g * GO + f];
      }
      // @endif
      follow(p0, p1, g * GO + c0, g * GO + c1);
      // @else
      const i64 width = WIDTH;
      // @if T == float32
      ctx->lib->gemm_runs(tile, width, (const void *const *)pieces, RUNS, RUN,
                          packed + (g * PANELS * PANEL + c0) * DEPTH, p1 - p0, c1 - c0);
      // @else
      ctx->lib->half_runs(KIND, tile, width, (const void *const *)pieces, RUNS, RUN,
                          packed + (g * PANELS * PANEL + c0) * DEPTH, p1 - p0, c1 - c0, widened);
      // @endif
      store_tile();
      // @endif
    }
  }
}

// Where the pieces of the windows of the pixels p0 to p1 lie.
// @macro find_pieces()
i64 ow = p0 % OW - 1, oh = p0 / OW % OH, od = p0 / (OW * OH) % OD, nb = p0 / AREA;
for (i64 p = p0; p < p1; p++) {
  if (++ow == OW) {
    ow = 0;
    if (++oh == OH) {
      oh = 0;
      if (++od == OD) od = 0, nb++;
    }
  }
  const i64 iw = ow * SW - PW;
  const stored_T **to = pieces + (p - p0) * RUNS;
  // @if BY_PIXEL
  const i64 h0 = oh * SH - PH, z0 = od * SD - PD;
  if (iw >= 0 && h0 >= 0 && z0 >= 0 && iw + (KW - 1) * DW < IW && h0 + (KH - 1) * DH < IH &&
      z0 + (KD - 1) * DD < ID) {
    const stored_T *const from = image + (((nb * ID + z0) * IH + h0) * IW + iw) * IC + g * GI;
    for (i64 q = 0; q < KD; q++)
      for (i64 r = 0; r < KH; r++)
        for (i64 s = 0; s < KW; s++) *to++ = from + ((q * DD * IH + r * DH) * IW + s * DW) * IC;
    continue;
  }
  // @endif
  for (i64 q = 0; q < KD; q++)
    for (i64 r = 0; r < KH; r++) {
      const i64 iz = od * SD - PD + q * DD, ih = oh * SH - PH + r * DH;
      const int inside = iz >= 0 && iz < ID && ih >= 0 && ih < IH;
      const stored_T *const from = image + (((nb * ID + iz) * IH + ih) * IW) * IC + g * GI;
      // @if BY_PIXEL
      for (i64 s = 0; s < KW; s++) {
        const i64 v = iw + s * DW;
        *to++ = inside && v >= 0 && v < IW ? from + v * IC : none;
      }
      // @else
      if (!inside || (iw >= 0 && iw + KW <= IW)) {
        *to++ = inside ? from + iw * IC : none;
        continue;
      }
      stored_T *const edge = edges + used;
      used += RUN;
      *to++ = edge;
      for (i64 s = 0; s < KW; s++) {
        const i64 v = iw + s;
        if (v < 0 || v >= IW) __builtin_memset(edge + s * GI, 0, (u64)GI * sizeof *edge);
        else __builtin_memcpy(edge + s * GI, from + v * IC, (u64)GI * sizeof *edge);
      }
      // @endif
    }
}

// A thread's own memory: a tile of the result and the same turned, what products of halves need, the
// places of pieces, zeros, and the pieces at the edges of the image.
// @macro declare_memory()
f32 *const tile = (f32 *)scratch, *const turned = tile + TILE;
void *const widened = turned + TILE;
const stored_T **const pieces = (const stored_T **)((char *)widened + WIDENED);
stored_T *const none = (stored_T *)(pieces + BLOCK * RUNS);
// @if not BY_PIXEL
stored_T *const edges = none + RUN;
// @endif
__builtin_memset(none, 0, (u64)RUN * sizeof *none);
(void)tile, (void)turned, (void)widened;

// A tile of the result into its memory, with the bias.
// @macro store_tile()
// @if FIRST
for (i64 p = p0; p < p1;) {
  const i64 nb = p / AREA, q = p - nb * AREA, stop = p1 < (nb + 1) * AREA ? p1 : (nb + 1) * AREA;
  const i64 many = stop - p;
  // @if T == float32
  mx_turn_f32(y + (nb * OC + g * GO + c0) * AREA + q, AREA, tile + (p - p0) * width, width, many,
              c1 - c0);
  // @if BIAS
  for (i64 f = c0; f < c1; f++) {
    const f32 v = 0 + load(bias, g * GO + f);
    f32 *const line = y + (nb * OC + g * GO + f) * AREA + q;
    #pragma omp simd
    for (i64 e = 0; e < many; e++) line[e] += v;
  }
  // @endif
  // @else
  mx_turn_f32(turned, BLOCK, tile + (p - p0) * width, width, many, c1 - c0);
  for (i64 f = c0; f < c1; f++) {
    const f32 *const line = turned + (f - c0) * BLOCK;
    #pragma omp simd
    for (i64 e = 0; e < many; e++) {
      store(y, (nb * OC + g * GO + f) * AREA + q + e, with_bias(line[e], g * GO + f));
    }
  }
  // @endif
  p = stop;
}
// @else
for (i64 p = p0; p < p1; p++) {
  #pragma omp simd
  for (i64 f = c0; f < c1; f++) {
    store(y, p * OC + g * GO + f, with_bias(tile[(p - p0) * width + f - c0], g * GO + f));
  }
}
// @endif

// @macro with_bias(SUM, CHANNEL) = SUM + load(bias, CHANNEL) if BIAS else SUM

// The image with the channels last.
// @op turn_image(x: T[n, c, pixels]) -> (y: T[n, out, o])
// @types T: float32 | float16 | bfloat16
// @sizes NB; IC; SPREAD; BLOCKS
// @part turn
// @items NB * BLOCKS
// @work 64 * IC
// @c
const i64 first = i % BLOCKS * 64, many = SPREAD - first < 64 ? SPREAD - first : 64;
mx_turn_Word(image + (i / BLOCKS * SPREAD + first) * IC, IC, x + i / BLOCKS * IC * SPREAD + first,
             SPREAD, IC, many);

// @macro Word = f32 if T == float32 else u16

// The filter in panels. Rows of the right operand lie ROW elements apart, columns COLUMN; with the
// channels FIRST they are, tap by tap, the channels: row k begins at k / PERIOD * OUTER + k % PERIOD *
// ROW.
// @op pack_filter(x: T[n, pixels, c], filter: T[k, c, o]) -> (y: T[n, out, o])
// @types T: float32 | float16 | bfloat16
// @params FIRST: bool; PANEL: int; KIND: int
// @sizes GR; GO; KK; DEPTH; PANELS; ROW; COLUMN; PERIOD; OUTER
// @part pack
// @items GR * PANELS
// @work 64 * KK
// @c
const i64 g = i / PANELS, p = i % PANELS;
// @if FIRST
ctx->lib->pack_taps(KIND, packed + g * PANELS * PANEL * DEPTH, filter + g * GO * KK, KK, GO, ROW,
                    COLUMN, PERIOD, OUTER, p, p + 1);
// @elif T != float32
ctx->lib->half_pack(KIND, packed + g * PANELS * PANEL * DEPTH, filter + g * GO, KK, GO, ROW,
                    COLUMN, p, p + 1);
// @else
ctx->lib->pack_b_f32(packed + g * PANELS * PANEL * DEPTH, filter + g * GO, KK, GO, ROW, COLUMN, p,
                     p + 1);
// @endif

// A transposed convolution is several products, one for each place that a pixel of the result can
// have between those of the image, spread by the stride: at each place the same part of the filter
// arrives. A row of the table has for such a place, down and across, the first element of the window
// that arrives there, how many do and how far they lie apart; then where the rows of the packed
// filter begin that are for it, and how many these are.
// @op transposed_product(x: T[n, h, v, c], filter: T[kh, kw, o, c], bias: T[o]) ->
//   (y: T[n, oh, ow, o])
// @types T: float32 | float16 | bfloat16
// @params BIAS: bool; RANGES: int; COLUMNS: int; ALL: int; BLOCK: int; LEFT: int; PANEL: int;
//   MOST: int; WIDTH: int; TILE: int; WIDENED: int; KIND: int; BY_PIXEL: bool = true
// @sizes NB; IC; OC; IH; OH; SH; DH; PH; IW; OW; KW; SW; DW; PW; PANELS; RUNS; RUN

// Pairs of rows of halves reach over taps, so the filter is packed as rows of one matrix.
// @part pack
// @c
TABLE;
const i64 *const t = table[i / PANELS];
const i64 p = i % PANELS, many = OC - p * PANEL < PANEL ? OC - p * PANEL : PANEL;
stored_T *const to = packed + (t[6] * PANELS + p * t[7]) * PANEL;
// @if T == float32
for (i64 r = 0; r < t[1]; r++)
  for (i64 s = 0; s < t[4]; s++)
    ctx->lib->pack_b_f32(
        to + (r * t[4] + s) * IC * PANEL,
        filter + ((t[0] + r * t[2]) * KW + t[3] + s * t[5]) * IC * OC + p * PANEL, IC, many, OC,
        1, 0, 1);
// @else
u16 *const line = (u16 *)scratch;
for (i64 r = 0; r < t[1]; r++)
  for (i64 s = 0; s < t[4]; s++)
    for (i64 c = 0; c < IC; c++)
      __builtin_memcpy(
          line + ((r * t[4] + s) * IC + c) * PANEL,
          filter + (((t[0] + r * t[2]) * KW + t[3] + s * t[5]) * IC + c) * OC + p * PANEL,
          (u64)many * 2);
ctx->lib->half_pack(KIND, to, line, t[1] * t[4] * IC, many, PANEL, 1, 0, 1);
// @endif

// @part product
// @c
TABLE;
const i64 range = i / COLUMNS % RANGES, part = i % COLUMNS, place = i / ALL;
const i64 *const t = table[place];
const i64 h0 = (place / SW + SH - PH % SH) % SH, w0 = (place % SW + SW - PW % SW) % SW;
const i64 MH = OH > h0 ? (OH - h0 + SH - 1) / SH : 0, MW = OW > w0 ? (OW - w0 + SW - 1) / SW : 0;
const i64 PIXELS = NB * MH * MW, taps = t[1] * t[4];
const i64 low = PIXELS * range / RANGES, high = PIXELS * (range + 1) / RANGES;
const i64 blocks = (high - low + LEFT) / BLOCK;
declare_memory();
for (i64 n = 0; n < blocks; n++) {
  const i64 p0 = low + (high - low) * n / blocks, p1 = low + (high - low) * (n + 1) / blocks;
  for (i64 p = p0; p < p1; p++) {
    const i64 oh = h0 + p / MW % MH * SH, ow = w0 + p % MW * SW, nb = p / (MW * MH);
    const stored_T **to = pieces + (p - p0) * taps;
    for (i64 r = 0; r < t[1]; r++) {
      const i64 ih = (oh + PH - (t[0] + r * t[2]) * DH) / SH;
      for (i64 s = 0; s < t[4]; s++) {
        const i64 iw = (ow + PW - (t[3] + s * t[5]) * DW) / SW;
        const int inside = ih >= 0 && ih < IH && iw >= 0 && iw < IW;
        *to++ = inside ? x + ((nb * IH + ih) * IW + iw) * IC : none;
      }
    }
  }
  const i64 end =
      PANELS * (part + 1) / COLUMNS * PANEL < OC ? PANELS * (part + 1) / COLUMNS * PANEL : OC;
  for (i64 c0 = PANELS * part / COLUMNS * PANEL; c0 < end; c0 += MOST) {
    const i64 c1 = c0 + MOST < end ? c0 + MOST : end;
    // @if T == float32
    for (i64 p = p0, stop; p < p1; p = stop) { /* the pixels of a line, which lie evenly apart */
      const i64 oh = h0 + p / MW % MH * SH, ow = w0 + p % MW * SW, nb = p / (MW * MH);
      stop = p1 - p < MW - p % MW ? p1 : p + MW - p % MW;
      f32 *const line = y + ((nb * OH + oh) * OW + ow) * OC;
      ctx->lib->gemm_runs(line + c0, SW * OC, (const void *const *)(pieces + (p - p0) * taps),
                          taps, RUN, packed + t[6] * PANELS * PANEL + c0 * t[7], stop - p,
                          c1 - c0);
      // @if BIAS
      for (i64 n = 0; n < stop - p; n++) {
        f32 *const pixel = line + n * SW * OC;
        #pragma omp simd
        for (i64 f = c0; f < c1; f++) pixel[f] += load(bias, f);
      }
      // @endif
    }
    // @else
    const i64 width = WIDTH;
    ctx->lib->half_runs(KIND, tile, width, (const void *const *)pieces, taps, RUN,
                        packed + t[6] * PANELS * PANEL + c0 * t[7], p1 - p0, c1 - c0, widened);
    for (i64 p = p0; p < p1; p++) {
      const i64 oh = h0 + p / MW % MH * SH, ow = w0 + p % MW * SW, nb = p / (MW * MH);
      const i64 at = ((nb * OH + oh) * OW + ow) * OC;
      #pragma omp simd
      for (i64 f = c0; f < c1; f++) {
        store(y, at + f, with_bias(tile[(p - p0) * width + f - c0], f));
      }
    }
    // @endif
  }
}
