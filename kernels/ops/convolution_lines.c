// Convolutions of float32 on the CPU that read the image in lines: as products whose rows are windows
// that move, and those that only mix channels of images with the channels first.
//
// Further names of sizes, besides those of convolution.c: MN images, MW columns and up to MH lines of
// a block of the result, since its lines are cut into HEIGHTS parts, as equal as they can be; it needs
// LH lines of LW pixels; CB channels that are done at a time; AREA pixels of an image of the result;
// DEPTH rows of the packed filter, PANELS of a group, of PANEL columns each.

// @use convolution.c

// A block of pixels of the result needs some lines of the image. They are copied into the thread's
// own memory, with the zeros around them, and the library is told how far windows are apart and where
// their taps lie. BY_LINE: a tap is a line of the window, RUN floats in one piece. TURNING: the
// channels are first, and are turned while they are copied; TILED: blocks of the result are turned
// behind the product. STREAMED: meanwhile the next lines are fetched. JOINED: the channels are those of
// the image, LC, and behind them those of another one.
// @op conv_blocks(x: float32[n, pixels, c], filter: float32[k, c, o], bias: float32[o]) ->
//   (y: float32[n, out, o])
// @params FINISH: bool = false; BIAS: bool; BY_LINE: bool; TURNING: bool; TILED: bool; STREAMED: bool;
//   JOINED: bool = false; PANEL: int; LEFT: int; LINED: int
// @sizes NB; IC; OC; ID; OD; KD; SD; DD; PD; IH; OH; KH; SH; DH; PH; IW; OW; KW; SW; DW; PW;
//   GR; GI; GO; LC; PANELS; DEPTH; AREA; HEIGHTS; WIDTHS; MN; MH; MW; LH; LW; CB; TAPS; RUN; PARTS;
//   WIDTH
// @part product
// @c
const i64 part = i % PARTS, bw = i / PARTS % WIDTHS, bh = i / (PARTS * WIDTHS) % HEIGHTS;
const i64 od = i / (PARTS * WIDTHS * HEIGHTS) % OD, n0 = i / (PARTS * WIDTHS * HEIGHTS * OD) * MN;
const i64 w0 = bw * MW, many_w = OW - w0 < MW ? OW - w0 : MW;
const i64 h0 = OH * bh / HEIGHTS, many_h = OH * (bh + 1) / HEIGHTS - h0;
const i64 many_n = NB - n0 < MN ? NB - n0 : MN;
const i64 need_h = (many_h - 1) * SH + (KH - 1) * DH + 1;
const i64 need_w = (many_w - 1) * SW + (KW - 1) * DW + 1;
const i64 iw = w0 * SW - PW, none = iw < 0 ? (-iw < need_w ? -iw : need_w) : 0;
const i64 stop = IW - iw < need_w ? IW - iw : need_w, end = stop > none ? stop : none;
const i64 low = PANELS * part / PARTS * PANEL, next = PANELS * (part + 1) / PARTS * PANEL;
const i64 high = next < GO ? next : GO;
i64 q0 = 0, q1 = KD; /* planes of the window that are in the image */
while (q0 < KD && od * SD - PD + q0 * DD < 0) q0++;
while (q1 > q0 && od * SD - PD + (q1 - 1) * DD >= ID) q1--;
f32 *const lines = (f32 *)scratch;
// @if TILED
f32 *const tile = lines + LINED;
// @endif
i64 places[TAPS]; /* where the taps of a window lie, from its first pixel on */
i64 tap = 0;
// @if BY_LINE
for (i64 q = 0; q < KD; q++)
  for (i64 r = 0; r < KH; r++) places[tap++] = ((q * LH + r * DH) * LW) * CB;
// @else
for (i64 q = 0; q < KD; q++)
  for (i64 r = 0; r < KH; r++)
    for (i64 s = 0; s < KW; s++) {
      const i64 left = iw + s * DW, right = left + (many_w - 1) * SW;
      const i64 zeros = left < 0 ? 1ll << 61 : right >= IW ? 1ll << 60 : 0; /* mx_abi.h */
      places[tap++] = (((q * LH + r * DH) * LW + s * DW) * CB) | zeros;
    }
// @endif
for (i64 g = 0; g < GR; g++) {
  for (i64 c = 0; c < GI; c += CB) {
    const i64 count = GI - c < CB ? GI - c : CB;
    copy_lines();
    multiply();
  }
  // @if TILED
  const i64 whole = many_w == OW; /* then lines follow each other in the result as in the tile */
  for (i64 n = 0; n < many_n; n++)
    for (i64 h = 0; h < (whole ? 1 : many_h); h++) {
      const i64 many = whole ? many_h * many_w : many_w;
      f32 *const to =
          y + (((n0 + n) * OC + g * GO + low) * OD + od) * OH * OW + (h0 + h) * OW + w0;
      mx_turn_f32(to, AREA, tile + (n * MH + h) * many_w * WIDTH, WIDTH, many, high - low);
      // @if BIAS
      for (i64 f = low; f < high; f++) {
        const f32 v = load(bias, g * GO + f);
        f32 *const line = to + (f - low) * AREA;
        #pragma omp simd
        for (i64 e = 0; e < many; e++) line[e] += v;
      }
      // @endif
    }
  // @elif BIAS or FINISH
  for (i64 n = 0; n < many_n; n++)
    for (i64 h = 0; h < many_h; h++) {
      const i64 p = (((n0 + n) * OD + od) * OH + h0 + h) * OW + w0;
      // @if BIAS
      for (i64 w = 0; w < many_w; w++) {
        f32 *const pixel = y + (p + w) * OC + g * GO;
        #pragma omp simd
        for (i64 f = low; f < high; f++) pixel[f] += load(bias, g * GO + f);
      }
      // @endif
      follow(p, p + many_w, g * GO + low, g * GO + high);
    }
  // @endif
}

// The lines of a block, from the channel c on, with zeros around them.
// @macro copy_lines()
// @if TURNING
for (i64 e = 0; e < count; e += 16) /* the lines of few channels follow each other in the image */
// @endif
  for (i64 n = 0; n < many_n; n++)
    for (i64 q = q0; q < q1; q++)
      for (i64 l = 0; l < need_h; l++) {
        f32 *const line = lines + ((n * KD + q) * LH + l) * LW * CB;
        const i64 iz = od * SD - PD + q * DD, ih = h0 * SH - PH + l;
        if (ih < 0 || ih >= IH) continue;
        // @if TURNING
        if (e == 0 && none > 0) __builtin_memset(line, 0, (u64)(none * CB) * 4);
        mx_turn_f32(
            line + none * CB + e, CB,
            image + (((n0 + n) * IC + g * GI + c + e) * ID + iz) * IH * IW + ih * IW + iw + none,
            ID * IH * IW, count - e < 16 ? count - e : 16, end - none);
        if (e == 0 && end < need_w)
          __builtin_memset(line + end * CB, 0, (u64)((need_w - end) * CB) * 4);
        // @elif JOINED
        const i64 place = (((n0 + n) * ID + iz) * IH + ih) * IW + iw, left = LC - c;
        const i64 many = left < 0 ? 0 : left < count ? left : count;
        const f32 *const one = image + place * LC + c;
        const f32 *const two = other + place * (IC - LC) + c + many - LC;
        if (none > 0) __builtin_memset(line, 0, (u64)(none * CB) * 4);
        for (i64 w = none; w < end; w++) {
          f32 *const to = line + w * CB;
          #pragma omp simd
          for (i64 e = 0; e < many; e++) to[e] = one[w * LC + e];
          #pragma omp simd
          for (i64 e = 0; e < count - many; e++) to[many + e] = two[w * (IC - LC) + e];
        }
        if (end < need_w) __builtin_memset(line + end * CB, 0, (u64)((need_w - end) * CB) * 4);
        // @else
        const f32 *const from =
            image + ((((n0 + n) * ID + iz) * IH + ih) * IW + iw) * IC + g * GI + c;
        if (none > 0) __builtin_memset(line, 0, (u64)(none * CB) * 4);
        if (count == IC && count == CB) {
          __builtin_memcpy(line + none * CB, from + none * IC, (u64)((end - none) * CB) * 4);
        } else {
          for (i64 w = none; w < end; w++) {
            #pragma omp simd
            for (i64 e = 0; e < count; e++) line[w * CB + e] = from[w * IC + e];
          }
        }
        if (end < need_w) __builtin_memset(line + end * CB, 0, (u64)((need_w - end) * CB) * 4);
        // @endif
      }

// The products of the lines with the channels c on of the filter.
// @macro multiply()
// @if STREAMED
/* The lines of the next block follow, also where it is one of the next image. */
const char *const soon =
    (const char *)(image +
                   (((n0 * ID + od * SD - PD) * IH + h0 * SH - PH + need_h) * IW) * stored);
const i64 all = SH * IW * stored * 4, share = all / ((high - low + LEFT) / PANEL);
// @endif
for (i64 c0 = low; c0 < high; c0 += PANEL)
  for (i64 n = 0; n < many_n; n++)
    for (i64 h = 0; h < many_h; h++) {
      // @if STREAMED
      const i64 portion = h * all + (c0 - low) / PANEL * share;
      // @endif
      const i64 ih = (h0 + h) * SH - PH;
      i64 r0 = 0, r1 = KH; /* lines of the window that are in the image: of zeros nothing comes */
      while (r0 < KH && ih + r0 * DH < 0) r0++;
      while (r1 > r0 && ih + (r1 - 1) * DH >= IH) r1--;
      const i64 planes = r1 - r0 == KH && q1 > q0 ? q1 - q0 : 1;
      for (i64 q = q0; q < q1 || q == q0; q += planes) {
        const i64 tap = (q * KH + r0) * across, from = (tap * depth_of_tap + c) * PANEL;
        ctx->lib->gemm_windows(
            // @if TILED
            tile + (n * MH + h) * many_w * WIDTH + c0 - low, WIDTH,
            // @else
            y + ((((n0 + n) * OD + od) * OH + h0 + h) * OW + w0) * OC + g * GO + c0, OC,
            // @endif
            lines + (n * KD * LH + h * SH) * LW * CB, SW * CB, places + tap,
            q < q1 ? ((planes - 1) * KH + r1 - r0) * across : 0, floats_of_tap,
            packed + (g * PANELS * PANEL + c0) * DEPTH + from, DEPTH, depth_of_tap, many_w,
            high - c0 < PANEL ? high - c0 : PANEL, c == 0 && q == q0, ahead);
      }
    }

// @macro across = 1 if BY_LINE else KW
// @macro depth_of_tap = RUN if BY_LINE else GI
// @macro floats_of_tap = RUN if BY_LINE else count
// @macro stored = LC if JOINED else IC
// @macro ahead = soon + portion, share if STREAMED else 0, 0

// A transposed convolution whose windows lie side by side, without padding: each pixel of the image
// becomes a window of the result by itself, a line of it for each line of the window.
// @op transposed_lines(x: float32[n, h, v, c], filter: float32[kh, kw, c, o], bias: float32[o]) ->
//   (y: float32[n, oh, ow, o])
// @params BIAS: bool; PANEL: int
// @sizes NB; IC; OC; IH; OH; KH; IW; OW; KW; DEPTH
// @part product
// @items NB * OH
// @work IW * IC * KW * OC // 16 + 1
// @c
const i64 oh = i % OH, nb = i / OH, ih = oh / KH, none = 0;
const f32 *const line = x + (nb * IH + ih) * IW * IC;
f32 *const to = y + i * OW * OC;
for (i64 s = 0; s < KW; s++)
  ctx->lib->gemm_windows(to + s * OC, KW * OC, line, IC, &none, 1, IC,
                         packed + (oh % KH * KW + s) * IC * PANEL, DEPTH, 0, IW, OC, 1, 0, 0);
// @if BIAS
for (i64 ow = 0; ow < OW; ow++) {
  f32 *const pixel = to + ow * OC;
  #pragma omp simd
  for (i64 f = 0; f < OC; f++) pixel[f] += load(bias, f);
}
// @endif

// Only channels are mixed: the result of an image is the filter, a matrix of channels out by channels
// in, times the image, one of channels by pixels. Neither is turned: a block of COLUMNS pixels is
// copied into panels of the library, and all rows of the filter are done with it.
// @op conv_channels(x: float32[n, c, pixels], filter: float32[o, c], bias: float32[o]) ->
//   (y: float32[n, o, pixels])
// @params BIAS: bool; PANEL: int; LEFT: int
// @sizes NB; IC; OC; AREA; BLOCKS; COLUMNS
// @part product
// @items NB * BLOCKS
// @c
const i64 p0 = i % BLOCKS * COLUMNS, many = AREA - p0 < COLUMNS ? AREA - p0 : COLUMNS;
f32 *const panels = (f32 *)scratch;
f32 *const to = y + i / BLOCKS * OC * AREA + p0;
ctx->lib->pack_b_f32(panels, x + i / BLOCKS * IC * AREA + p0, IC, many, AREA, 1, 0,
                     (many + LEFT) / PANEL);
ctx->lib->gemm_f32(to, AREA, filter, IC, panels, OC, many, IC, OC, COLUMNS, 0, 1, 0, 0, 0, ctx);
// @if BIAS
for (i64 f = 0; f < OC; f++) {
  const f32 v = load(bias, f);
  f32 *const line = to + f * AREA;
  #pragma omp simd
  for (i64 e = 0; e < many; e++) line[e] += v;
}
// @endif
