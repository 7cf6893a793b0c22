// maxlab-flags: -O2
/* taps.c - packs the filters of convolutions for gemm.c, windows.c and halves.c.
 *
 * A *tap* is one place in a filter.  Panels are those of gemm.c and halves.c, with their rows in the order in which
 * convolutions read an image: all channels of the first tap, then all of the second.
 */
#include "tile.h"

/* Filters of images with the channels first: rows of B are counted tap by tap, see mx_abi.h. */
void mx_pack_taps(i64 kind, void *dst, const void *B, i64 K, i64 N, i64 row, i64 column, i64 period, i64 outer, i64 lo,
                  i64 hi) {
  const int single = kind == MX_F32, paired = !single && mx_half_pairs(kind);
  const i64 depth = single ? K : K + K % 2;
  for (i64 p = lo; p < hi; p++)
    for (i64 j = 0; j < MX_NR; j++) {
      const i64 n = p * MX_NR + j;
      i64 from = n * column, inside = 0, tap = 0;
      for (i64 k = 0; k < depth; k++) {
        const int none = n >= N || k >= K;
        const i64 place = p * depth + k, to = paired ? (place / 2 * MX_NR + j) * 2 + place % 2 : place * MX_NR + j;
        if (single) ((f32 *)dst)[to] = none ? 0 : ((const f32 *)B)[from + inside * row];
        else ((u16 *)dst)[to] = none ? 0 : ((const u16 *)B)[from + inside * row];
        if (++inside == period) inside = 0, tap++, from = n * column + tap * outer;
      }
    }
}
#define PACK_TAPS(NAME, KIND)                                                                                          \
  int NAME(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {                                                \
    (void)ctx;                                                                                                         \
    mx_pack_taps(KIND, b[0], b[1], d[0], d[1], d[2], d[3], d[4], d[5], lo, hi);                                        \
    return 0;                                                                                                          \
  }
PACK_TAPS(mx_k_pack_taps_f32, MX_F32)
PACK_TAPS(mx_k_pack_taps_bf16, MX_BF16)
PACK_TAPS(mx_k_pack_taps_f16, MX_F16)
