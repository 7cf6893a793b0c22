// maxlab-flags: -O2
/* inplace.c - one whole product with a B that is read where it is.
 *
 * A batched product has another B in each item, so packing it (gemm.c) is not paid for once, but in each item: for M rows
 * every element of B is copied once and used M times.  Where the columns of B lie side by side, the register tile can
 * read its rows of B from their places as well:
 *
 *   packed     copy B, then read it as one stream, all of it from one or two pages
 *   in place   no copy; the rows of a tile's columns lie N floats apart, which may cost cache sets and translations
 *
 * In place wins for few rows (twice as fast for one) and for narrow B; packed wins where B is wide and used often.  Which
 * one it is for given sizes is measured: engine/product_variants.py.  Sums are the same chain of fused multiply-adds over k
 * in ascending order, so the bits are the same.
 */
#include "tile.h"

#define WIDE 8 /* vectors of a row of the widest tile */

/* `rows` and `nv`, the vectors of a row, are literals. */
INLINE void tile(const int rows, const int nv, f32 *RS C, i64 ldc, const f32 *RS A, i64 lda, const f32 *RS B, i64 ldb,
                 i64 K, int first) {
  vec c[MR][WIDE];
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 8") for (int v = 0; v < nv; v++) c[i][v] = first ? (vec){0} : *(const vec *)(C + i * ldc + v * VW);
  for (i64 k = 0; k < K; k++) {
    vec b[WIDE];
    _Pragma("GCC unroll 8") for (int v = 0; v < nv; v++) b[v] = *(const vec *)(B + k * ldb + v * VW);
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
      vec a = A[i * lda + k] - (vec){0}; /* broadcast */
      _Pragma("GCC unroll 8") for (int v = 0; v < nv; v++) c[i][v] += a * b[v];
    }
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 8") for (int v = 0; v < nv; v++) *(vec *)(C + i * ldc + v * VW) = c[i][v];
}

typedef void (*tile_fn)(f32 *RS, i64, const f32 *RS, i64, const f32 *RS, i64, i64, int);
#define TILE(R)                                                                                                        \
  static void tile##R(f32 *RS C, i64 ldc, const f32 *RS A, i64 lda, const f32 *RS B, i64 ldb, i64 K, int first) {      \
    tile(R, NV, C, ldc, A, lda, B, ldb, K, first);                                                                     \
  }
EACH_HEIGHT(TILE)
#define NAME(R) tile##R,
static const tile_fn tiles[MR + 1] = {0, EACH_HEIGHT(NAME)};

/* Of one to three rows alone a tile has few sums, each of which waits for the one before: those have more columns. */
#define WIDE_TILE(R, V)                                                                                                \
  static void tile##R##_##V(f32 *RS C, i64 ldc, const f32 *RS A, i64 lda, const f32 *RS B, i64 ldb, i64 K, int first) { \
    tile(R, V, C, ldc, A, lda, B, ldb, K, first);                                                                      \
  }
WIDE_TILE(1, 8) WIDE_TILE(1, 4) WIDE_TILE(2, 4) WIDE_TILE(3, 4)
static const tile_fn wide_tiles[][4] = {{0, tile1_8, 0, 0}, {0, tile1_4, tile2_4, tile3_4}};

/* The tile for `rows` rows of which there are `left` more columns, and how many it takes. */
static tile_fn tile_for(i64 rows, i64 left, i64 *cols) {
  for (int n = 0; n < 2 && rows < 4; n++)
    if (wide_tiles[n][rows] && left >= (8 >> n) * VW) {
      *cols = (8 >> n) * VW;
      return wide_tiles[n][rows];
    }
  *cols = min64(TW, left);
  return tiles[rows];
}

/* The last n < TW columns of B, in rows of TW floats. */
static void copy_edge(f32 *RS out, const f32 *RS B, i64 ldb, i64 K, i64 n) {
  for (i64 k = 0; k < K; k++)
    for (i64 j = 0; j < TW; j++) out[k * TW + j] = j < n ? B[k * ldb + j] : 0;
}

/* A may have any strides, B rows of neighbouring columns.  As mx_matmul_f32 uses its scratch: B's part holds the last
 * columns. */
static int in_place(f32 *C, i64 ldc, const f32 *A, i64 ars, i64 acs, const f32 *B, i64 ldb, i64 M, i64 N, i64 K,
                    mx_ctx *ctx) {
  f32 edge[MR * TW] __attribute__((aligned(64))), *last = ctx->scratch, *Ac = last + mx_pack_b_size(K, N);
  const i64 groups = ceil_div(M, MR);
  i64 left = MX_ASKED;
  if (acs != 1 && K > 1) {
    for (i64 i = 0; i < M; i++)
      for (i64 k = 0; k < K; k++) Ac[i * (K + 16) + k] = A[i * ars + k * acs];
    A = Ac;
    ars = K + 16;
  }
  for (i64 c0 = 0, cols; c0 < N; c0 += cols) {
    const tile_fn one = tile_for(groups > 1 ? MR : M, N - c0, &cols);
    if (cols < TW) copy_edge(last, B + c0, ldb, K, cols);
    for (i64 g = 0; g < groups; g++) {
      const i64 r = group_start(M, groups, g), rows = group_start(M, groups, g + 1) - r;
      if (mx_over(ctx, &left, MR * TW * K)) return MX_STOPPED;
      if (cols >= TW) {
        (groups > 1 ? tiles[rows] : one)(C + r * ldc + c0, ldc, A + r * ars, ars, B + c0, ldb, K, 1);
        continue;
      }
      tiles[rows](edge, TW, A + r * ars, ars, last, TW, K, 1);
      for (i64 i = 0; i < rows; i++)
        for (i64 j = 0; j < cols; j++) C[(r + i) * ldc + c0 + j] = edge[i * TW + j];
    }
  }
  return 0;
}

void mx_rows_block(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 ldb, i64 M, i64 N, i64 K, int first,
                   f32 *last) {
  f32 edge[MR * TW] __attribute__((aligned(64)));
  const i64 groups = ceil_div(M, MR);
  for (i64 c0 = 0; c0 < N; c0 += TW) {
    const i64 cols = min64(TW, N - c0);
    if (cols < TW) copy_edge(last, B + c0, ldb, K, cols);
    for (i64 g = 0; g < groups; g++) {
      const i64 r = group_start(M, groups, g), rows = group_start(M, groups, g + 1) - r;
      f32 *const c = C + r * ldc + c0;
      if (cols == TW) {
        tiles[rows](c, ldc, A + r * lda, lda, B + c0, ldb, K, first);
        continue;
      }
      for (i64 i = 0; i < rows && !first; i++)
        for (i64 j = 0; j < TW; j++) edge[i * TW + j] = j < cols ? c[i * ldc + j] : 0;
      tiles[rows](edge, TW, A + r * lda, lda, last, TW, K, first);
      for (i64 i = 0; i < rows; i++) copy_few(c + i * ldc, edge + i * TW, cols);
    }
  }
}

i64 mx_matmul_guess(i64 M, i64 N, i64 K) {
  (void)K;
  return N >= MX_NR && (M <= 2 * MR || N <= 4 * MX_NR) ? MX_IN_PLACE : MX_PACKED;
}

int mx_matmul_by(i64 way, f32 *C, i64 ldc, const f32 *A, i64 ars, i64 acs, const f32 *B, i64 brs, i64 bcs, i64 M, i64 N,
                 i64 K, mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx) {
  if (way != MX_IN_PLACE || (bcs != 1 && N > 1))
    return mx_matmul_f32(C, ldc, A, ars, acs, B, brs, bcs, M, N, K, epilogue, b, d, ctx);
  if (in_place(C, ldc, A, ars, acs, B, brs, M, N, K, ctx)) return MX_STOPPED;
  return epilogue ? epilogue(b, d, 0, M, 0, N, ctx) : 0;
}

int mx_k_matmul(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  const i64 M = d[0], N = d[1], K = d[2];
  for (i64 i = lo; i < hi; i++) {
    const f32 *A = (const f32 *)b[1] + i * M * K, *B = (const f32 *)b[2] + i * K * N;
    const int code = mx_matmul_by(d[3], (f32 *)b[0] + i * M * N, N, A, K, 1, B, N, 1, M, N, K, 0, b, d, ctx);
    if (code) return code;
  }
  return 0;
}
