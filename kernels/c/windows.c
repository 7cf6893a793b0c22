// maxlab-flags: -O2
/* windows.c - C = A B in float32, where the rows of A are windows that move over an image.
 *
 * Windows overlap: laid out as rows of a matrix, each pixel would be there once for each place in the window, and copying
 * them costs as much as a twentieth of the product.  Here the lines of the image that a block needs are copied once, with
 * the zeros around them.  Then the windows of neighbouring pixels lie a constant distance apart, and so do the pixels of a
 * window that belong to one *tap*, one place in the filter: row i of A is, tap by tap, `run` floats from
 * A + i * lda + at[tap] on.
 *
 *        lines of a block, with zeros around        taps of a 3 x 3 window
 *          0 0 0 0 0 0 0 0                            at[0] at[1] at[2]
 *          0 a b c d e f 0       row 0 = window at 0  at[3] at[4] at[5]
 *          0 g h i j k l 0       row 1 = one further  at[6] at[7] at[8]
 *
 * At the first pixel of a line and at the last one, some taps lie in the zeros: they are left out, which is a tenth of all
 * sums where an image is 7 pixels wide.
 *
 * The tile is that of gemm.c with a loop over taps around the one over k, and two rows more: widths and heights of images
 * are multiples of 14 more often than of 12.  Each element of C is one chain of fused multiply-adds in ascending order of
 * taps and k, continued through C where a block has only some of the channels.
 */
#include "tile.h"

#if defined(__AVX512F__)
#define MW 14 /* most rows per tile: 28 accumulators, 2 vectors of B and a broadcast are 31 of 32 registers */
#define EACH_WINDOW_HEIGHT(X) EACH_HEIGHT(X) X(13) X(14)
#else
#define MW MR
#define EACH_WINDOW_HEIGHT(X) EACH_HEIGHT(X)
#endif

/* Where row i of a window is: a few of its rows have pointers, and others are 1, 2, 4 or 8 times `apart` behind one of these,
 * which an instruction adds by itself.  Taps may be short, so that what is set up for each has to be little. */
#define ROW(i)                                                                                                         \
  ((i) == 3 || (i) == 11   ? a3 + ((i)-3) * apart                                                                      \
   : (i) == 10 || (i) == 12 ? a10 + ((i)-10) * apart                                                                   \
   : (i) == 0 || (i) == 1 || (i) == 2 || (i) == 4 || (i) == 8 ? a0 + (i)*apart                                         \
                                                              : a5 + ((i)-5) * apart)

/* The sums of one tap, for rows `from` to `to` of a tile. */
INLINE void sums(const int from, const int to, const int nv, vec (*c)[NV], const char *a, i64 apart, const f32 *RS b,
                 i64 run) {
  const char *a0 = a, *a3 = a + 3 * apart, *a5 = a + 5 * apart, *a10 = a + 10 * apart;
  for (i64 k = 0; k < run; k++, b += MX_NR, a0 += 4, a3 += 4, a5 += 4, a10 += 4) {
    __asm__("" : "+r"(a0), "+r"(a3), "+r"(a5), "+r"(a10)); /* or there would be pointers to all rows, of which most spill */
    vec line[NV];
    _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) {
      line[v] = *(const vec *)(b + v * VW);
      __builtin_prefetch(b + v * VW + 512);
    }
    _Pragma("GCC unroll 16") for (int i = from; i < to; i++) {
      const vec one = *(const f32 *)ROW(i) - (vec){0}; /* broadcast */
      _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) c[i][v] += one * line[v];
    }
  }
}

/* `rows` and `nv`, its vectors, are literals.  `edges` says whether the first row of the tile, and its last one, are those
 * of the whole product: of zeros that they see nothing comes.  B has its rows MX_NR apart, those of a tap `step` rows after those of the one
 * before.  C is fetched to be written while the sums are made: it is not in the cache when it comes first.  So are, for each
 * tap, `each` cache lines from `soon` on. */
INLINE void tile(const int rows, const int nv, f32 *RS C, i64 ldc, const f32 *RS A, i64 lda, const i64 *RS at, i64 taps, i64 run,
                 const f32 *RS B, i64 step, int first, const char *soon, i64 each, i64 edges) {
  const i64 apart = 4 * lda;
  vec c[MW][NV];
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) {
      c[i][v] = first ? (vec){0} : *(const vec *)(C + i * ldc + v * VW);
      __builtin_prefetch(C + i * ldc + v * VW, 1);
    }
  for (i64 t = 0; t < taps; t++) {
    for (i64 e = 0; e < each; e++, soon += 64) __builtin_prefetch(soon, 0, 2);
    const char *const a = (const char *)(A + (at[t] & ~(MX_FIRST_ZERO | MX_LAST_ZERO)));
    const f32 *RS const b = B + t * step * MX_NR;
    const i64 zeros = at[t] & edges;
    if (zeros == MX_FIRST_ZERO) sums(1, rows, nv, c, a, apart, b, run);
    else if (zeros == MX_LAST_ZERO) sums(0, rows - 1, nv, c, a, apart, b, run);
    else sums(0, rows, nv, c, a, apart, b, run);
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) *(vec *)(C + i * ldc + v * VW) = c[i][v];
}

typedef void (*tile_fn)(f32 *RS, i64, const f32 *RS, i64, const i64 *RS, i64, i64, const f32 *RS, i64, int, const char *,
                        i64, i64);
#define TILE_OF(NAME, R, COLUMNS)                                                                                      \
  static void NAME(f32 *RS C, i64 ldc, const f32 *RS A, i64 lda, const i64 *RS at, i64 taps, i64 run,                  \
                   const f32 *RS B, i64 step, int first, const char *soon, i64 each, i64 edges) {                      \
    tile(R, COLUMNS, C, ldc, A, lda, at, taps, run, B, step, first, soon, each, edges);                                \
  }
#define TILE(R) TILE_OF(tile##R, R, NV) TILE_OF(thin_tile##R, R, 1)
EACH_WINDOW_HEIGHT(TILE)
#define NAME(R) tile##R,
#define THIN_NAME(R) thin_tile##R,
static const tile_fn tiles[MW + 1] = {0, EACH_WINDOW_HEIGHT(NAME)};
static const tile_fn thin_tiles[MW + 1] = {0, EACH_WINDOW_HEIGHT(THIN_NAME)}; /* of one vector */

void mx_gemm_windows(f32 *C, i64 ldc, const f32 *A, i64 lda, const i64 *at, i64 taps, i64 run, const f32 *B, i64 depth,
                     i64 step, i64 rows, i64 cols, int first, const void *soon, i64 bytes) {
  const i64 groups = ceil_div(rows, MW), times = groups * ceil_div(cols, TW) * taps;
  const i64 each = times > 0 ? ceil_div(bytes, 64 * times) : 0;
  const char *ahead = soon;
  for (i64 g = 0; g < groups; g++) {
    const i64 r = group_start(rows, groups, g), n = group_start(rows, groups, g + 1) - r;
    const f32 *const a = A + r * lda;
    f32 *const to = C + r * ldc;
    const i64 edges = (g == 0 ? MX_FIRST_ZERO : 0) | (g == groups - 1 ? MX_LAST_ZERO : 0);
    for (i64 c0 = 0; c0 < cols; c0 += TW, ahead += 64 * each * taps) {
      const f32 *const b = B + c0 / MX_NR * MX_NR * depth + c0 % MX_NR;
      const i64 many = cols - c0;
      if (many >= TW || many == VW) {
        (many == VW ? thin_tiles : tiles)[n](to + c0, ldc, a, lda, at, taps, run, b, step, first, ahead, each, edges);
        continue;
      }
      f32 edge[MW * TW] __attribute__((aligned(64))); /* the last columns, of which only some exist in C */
      for (i64 i = 0; !first && i < n; i++)
        for (i64 j = 0; j < TW; j++) edge[i * TW + j] = j < many ? to[i * ldc + c0 + j] : 0;
      (many < VW ? thin_tiles : tiles)[n](edge, TW, a, lda, at, taps, run, b, step, first, ahead, each, edges);
      for (i64 i = 0; i < n; i++) copy_few(to + i * ldc + c0, edge + i * TW, many);
    }
  }
}
