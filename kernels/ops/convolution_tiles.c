// Convolutions of float32 on the CPU by tiles of 4 x 4 pixels: Winograd's F(4 x 4, 3 x 3), which winograd.c
// of the library explains.
//
// Further names of sizes, besides those of convolution.c: DOWN times ACROSS tiles of an image, in
// BLOCKS that a thread does at a time; PANELS of 32 channels of the result, in PARTS.

// @use convolution.c

// @op conv_tiles(x: float32[n, pixels, c], filter: float32[k, c, o], bias: float32[o]) ->
//   (y: float32[n, out, o])
// @params FINISH: bool = false; BIAS: bool; MOST: int; PANEL: int
// @sizes NB; IC; OC; IH; OH; PH; IW; OW; PW; DOWN; ACROSS; BLOCKS; PANELS; PARTS
// @part product
// @c
const i64 part = i % PARTS, block = i / PARTS % BLOCKS, n = i / (PARTS * BLOCKS);
const i64 lo = DOWN * ACROSS * block / BLOCKS, hi = DOWN * ACROSS * (block + 1) / BLOCKS;
const i64 low = PANELS * part / PARTS * PANEL, next = PANELS * (part + 1) / PARTS * PANEL;
const i64 high = next < OC ? next : OC;
const mx_winograd given = {.x = x + n * IH * IW * IC,
                           .u = packed,
                           .bias = bias_or_null,
                           .y = y + n * OH * OW * OC,
                           .ih = IH,
                           .iw = IW,
                           .ic = IC,
                           .oh = OH,
                           .ow = OW,
                           .oc = OC,
                           .ph = PH,
                           .pw = PW,
                           .wide = PANELS * PANEL};
if (ctx->lib->winograd_f32(&given, lo, hi, low, high, MOST, scratch, ctx)) return MX_STOPPED;
// @if FINISH
/* the tiles of a line of them, whose pixels follow each other in four lines of the result */
for (i64 t = lo, end; t < hi; t = end) {
  const i64 down = t / ACROSS, w0 = t % ACROSS * 4;
  end = (down + 1) * ACROSS < hi ? (down + 1) * ACROSS : hi;
  const i64 w1 = (end - down * ACROSS) * 4;
  for (i64 h = down * 4; h < down * 4 + 4 && h < OH; h++) {
    const i64 line = (n * OH + h) * OW;
    follow(line + w0, line + (w1 < OW ? w1 : OW), low, high);
  }
}
// @endif

// @macro bias_or_null = bias if BIAS else 0
