// maxlab-flags: -O2
/* gemm.c - C = A B in float32, with B packed ahead of time and a callback on every finished tile.
 *
 * Why B is packed: weights never change, so their layout can be paid for once, when a model is loaded.  B becomes
 * panels of 32 columns, each panel a K x 32 block without gaps (the last one padded with zeros).  The inner loop then
 * reads B as one straight stream, the pattern that caches, prefetchers and TLBs like best.
 *
 *             N                         panel 0     panel 1
 *        +----+----+----+            k=0 |32 floats| |32 floats|
 *      K | 0  | 1  | 2  |   --->     k=1 |32 floats| |32 floats|  ...
 *        +----+----+----+            ...
 *
 * The register tile (`kernel`): up to MR rows x 32 columns of C stay in vector registers while k runs.  Per k it loads
 * one row of the panel and multiplies it by MR broadcast elements of A.  With AVX-512 that is 2 loads for up to 24
 * fused multiply-adds.  24 accumulators + 2 for B leave room in 32 registers; a chain of dependent adds has a latency
 * of 4 cycles, so 8 accumulators are needed at least to keep the units busy - short tiles reach full speed from 4 rows.
 *
 * The cache blocking, for a tile of mb x nb of C (one item of the parallel axis):
 *
 *   for k0 in steps of KC                          B block KC x nb: stays in L2 (384*256*4 = 384 KiB of 1 MiB)
 *     for each group of up to MR rows              A block MR x KC: copied to a small buffer that stays in L1 (18 KiB;
 *       copy A                                       the copy also removes the cache-set conflicts of rows that lie a
 *       for each panel of the tile                   power of two apart: they cost 10 % at 1024^3)
 *         kernel: C[MR x 32] += A[MR x KC] B[KC x 32]     B streams from L2, A is broadcast from L1, C in registers
 *   epilogue(tile)                                 C tile mb x nb: still in L2
 *
 * For few rows (M <= 2 MR) B is used only once or twice and comes from memory: then the panel is the outer loop and KC
 * is 128, so that the second group of rows finds the 16 KiB of B in L1; each group prefetches part of what follows.
 *
 * Every element of C is one chain of fused multiply-adds over k in ascending order, continued through C between k
 * blocks.  So a result does not depend on M, on the tile sizes or on the number of threads: the same row gives the same
 * bits in a batch of 1 and in a batch of 500.
 */
#include "pieces.h"
#include "tile.h"

#define KC 384       /* k block when A and B are reused */
#define KC_FEW 128   /* k block for few rows */
#define LDA_COPY (KC + 16)

/* One register tile, `rows` a literal: C[rows x TW] (+)= A[rows x kc] B[kc x TW].  `ahead` floats further down the panel
 * B is fetched into the cache. */
INLINE void tile(const int rows, f32 *RS C, i64 ldc, const f32 *RS A, i64 lda, const f32 *RS B, i64 kc, int first,
                 i64 ahead) {
  vec c[MR][NV];
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) {
      c[i][v] = first ? (vec){0} : *(const vec *)(C + i * ldc + v * VW);
      __builtin_prefetch(C + i * ldc + v * VW, 1); /* it comes into the cache while the sums are made */
    }
  for (i64 k = 0; k < kc; k++) {
    vec b[NV];
    _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) {
      b[v] = *(const vec *)(B + k * MX_NR + v * VW);
      __builtin_prefetch(B + k * MX_NR + v * VW + ahead);
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
      vec a = A[i * lda + k] - (vec){0}; /* broadcast */
      _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) c[i][v] += a * b[v];
    }
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) *(vec *)(C + i * ldc + v * VW) = c[i][v];
}

/* Two functions per height: rows of A anywhere, and rows of the copy (a literal distance: one address register). */
typedef void (*tile_fn)(f32 *RS, i64, const f32 *RS, i64, const f32 *RS, i64, int, i64);
#define TILE(R)                                                                                                        \
  static void tile##R(f32 *RS C, i64 ldc, const f32 *RS A, i64 lda, const f32 *RS B, i64 kc, int first, i64 ahead) {   \
    tile(R, C, ldc, A, lda, B, kc, first, ahead);                                                                      \
  }                                                                                                                    \
  static void copy_tile##R(f32 *RS C, i64 ldc, const f32 *RS A, i64 lda, const f32 *RS B, i64 kc, int first,           \
                           i64 ahead) {                                                                                \
    (void)lda;                                                                                                         \
    tile(R, C, ldc, A, LDA_COPY, B, kc, first, ahead);                                                                 \
  }
EACH_HEIGHT(TILE)
#define NAME(R) tile##R,
#define COPY_NAME(R) copy_tile##R,
static const tile_fn tiles[2][MR + 1] = {{0, EACH_HEIGHT(NAME)}, {0, EACH_HEIGHT(COPY_NAME)}};

/* One group of rows times one panel, of which `cols` (1..32) columns exist in C. */
static void group_times_panel(const tile_fn run, i64 rows, i64 cols, f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B,
                              i64 kc, int first, i64 ahead) {
  for (i64 c0 = 0; c0 < cols; c0 += TW) {
    if (cols - c0 >= TW) {
      run(C + c0, ldc, A, lda, B + c0, kc, first, ahead);
      continue;
    }
    f32 edge[MR * TW] __attribute__((aligned(64))); /* the last columns: a full tile aside, then the part that exists */
    i64 n = cols - c0;
    if (!first)
      for (i64 i = 0; i < rows; i++)
        for (i64 j = 0; j < TW; j++) edge[i * TW + j] = j < n ? C[i * ldc + c0 + j] : 0;
    run(edge, TW, A, lda, B + c0, kc, first, ahead);
    for (i64 i = 0; i < rows; i++)
      for (i64 j = 0; j < n; j++) C[i * ldc + c0 + j] = edge[i * TW + j];
  }
}

static void few_rows(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 rows, i64 cols, i64 K, int first,
                     mx_ctx *ctx) {
  i64 groups = ceil_div(rows, MR), kc_max = groups == 1 ? K : KC_FEW, left = MX_ASKED;
  for (i64 c0 = 0; c0 < cols; c0 += MX_NR, B += K * MX_NR) {
    if (mx_over(ctx, &left, 2 * MR * MX_NR * K)) return;
    for (i64 k0 = 0; k0 < K; k0 += kc_max) {
      i64 kc = min64(kc_max, K - k0);
      for (i64 g = 0; g < groups; g++) {
        i64 r = group_start(rows, groups, g), n = group_start(rows, groups, g + 1) - r;
        group_times_panel(tiles[0][n], n, min64(MX_NR, cols - c0), C + r * ldc + c0, ldc, A + r * lda + k0, lda,
                          B + k0 * MX_NR, kc, first && k0 == 0, groups == 1 ? 2048 : KC_FEW * MX_NR);
      }
    }
  }
}

static void many_rows(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 rows, i64 cols, i64 K, int first,
                      mx_ctx *ctx) {
  f32 copy[MR * LDA_COPY] __attribute__((aligned(64)));
  i64 left = MX_ASKED;
  i64 groups = ceil_div(rows, MR), blocks = ceil_div(K, KC), kc_even = ceil_div(ceil_div(K, blocks), 16) * 16;
  for (i64 k0 = 0; k0 < K; k0 += kc_even) {
    i64 kc = min64(kc_even, K - k0);
    for (i64 g = 0; g < groups; g++) {
      i64 r = group_start(rows, groups, g), n = group_start(rows, groups, g + 1) - r;
      const f32 *a = A + r * lda + k0;
      if (mx_over(ctx, &left, MR * cols * kc)) return;
      for (i64 i = 0; i < n; i++) __builtin_memcpy(copy + i * LDA_COPY, a + i * lda, (unsigned long)kc * 4);
      for (i64 c0 = 0; c0 < cols; c0 += MX_NR)
        group_times_panel(tiles[1][n], n, min64(MX_NR, cols - c0), C + r * ldc + c0, ldc, copy, LDA_COPY,
                          B + c0 * K + k0 * MX_NR, kc, first && k0 == 0, 512);
    }
  }
}

/* C[rows x cols] = A B, or += with first = 0; B starts at a panel. */
void mx_gemm_block(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 rows, i64 cols, i64 K, int first,
                   mx_ctx *ctx) {
  if (K <= 0) {
    for (i64 i = 0; first && i < rows; i++)
      for (i64 j = 0; j < cols; j++) C[i * ldc + j] = 0; /* an empty sum */
  } else if (rows <= 2 * MR)
    few_rows(C, ldc, A, lda, B, rows, cols, K, first, ctx);
  else
    many_rows(C, ldc, A, lda, B, rows, cols, K, first, ctx);
}

void mx_gemm_runs(f32 *C, i64 ldc, const void *const *at, i64 runs, i64 run, const f32 *B, i64 rows, i64 cols) {
  f32 copy[MR * LDA_COPY] __attribute__((aligned(64)));
  const i64 K = runs * run;
  if (K <= 0) {
    for (i64 i = 0; i < rows; i++)
      for (i64 j = 0; j < cols; j++) C[i * ldc + j] = 0;
    return;
  }
  const i64 groups = ceil_div(rows, MR), even = ceil_div(ceil_div(K, ceil_div(K, KC)), 16) * 16;
  for (i64 k0 = 0; k0 < K; k0 += even) {
    const i64 kc = min64(even, K - k0);
    for (i64 g = 0; g < groups; g++) {
      const i64 r = group_start(rows, groups, g), n = group_start(rows, groups, g + 1) - r;
      for (i64 i = 0; i < n; i++) mx_copy_pieces((char *)(copy + i * LDA_COPY), at + (r + i) * runs, run, k0, kc, 4);
      for (i64 c0 = 0; c0 < cols; c0 += MX_NR)
        group_times_panel(tiles[1][n], n, min64(MX_NR, cols - c0), C + r * ldc + c0, ldc, copy, LDA_COPY,
                          B + c0 * K + k0 * MX_NR, kc, k0 == 0, 512);
    }
  }
}

i64 mx_pack_b_size(i64 K, i64 N) { return ceil_div(N, MX_NR) * MX_NR * K; }

typedef i32 m4 __attribute__((vector_size(16)));
/* out[k][j] = in[j][k] for 4 x 4 floats: rows of `in` are `step` apart, rows of the panel MX_NR. */
INLINE void transpose4(f32 *RS out, const f32 *RS in, i64 step) {
  typedef f32 v4 __attribute__((vector_size(16), aligned(4), may_alias));
  v4 r0 = *(const v4 *)in, r1 = *(const v4 *)(in + step), r2 = *(const v4 *)(in + 2 * step);
  v4 r3 = *(const v4 *)(in + 3 * step);
  v4 lo01 = MX_SHUFFLE(m4, r0, r1, 0, 4, 1, 5), hi01 = MX_SHUFFLE(m4, r0, r1, 2, 6, 3, 7);
  v4 lo23 = MX_SHUFFLE(m4, r2, r3, 0, 4, 1, 5), hi23 = MX_SHUFFLE(m4, r2, r3, 2, 6, 3, 7);
  *(v4 *)(out) = MX_SHUFFLE(m4, lo01, lo23, 0, 1, 4, 5);
  *(v4 *)(out + MX_NR) = MX_SHUFFLE(m4, lo01, lo23, 2, 3, 6, 7);
  *(v4 *)(out + 2 * MX_NR) = MX_SHUFFLE(m4, hi01, hi23, 0, 1, 4, 5);
  *(v4 *)(out + 3 * MX_NR) = MX_SHUFFLE(m4, hi01, hi23, 2, 3, 6, 7);
}

void mx_pack_b_f32(f32 *RS dst, const f32 *RS B, i64 K, i64 N, i64 row_stride, i64 col_stride, i64 lo, i64 hi) {
  for (i64 p = lo; p < hi; p++) {
    f32 *RS out = dst + p * K * MX_NR;
    const f32 *RS in = B + p * MX_NR * col_stride;
    i64 n = min64(MX_NR, N - p * MX_NR), k = 0;
    if (col_stride == 1 && n == MX_NR) { /* rows of B: copied */
      for (; k < K; k++) __builtin_memcpy(out + k * MX_NR, in + k * row_stride, MX_NR * 4);
    } else if (row_stride == 1 && n == MX_NR) { /* a transposed B: a cache line of each of its rows at a time */
      for (; k + 16 <= K; k += 16)
        for (i64 j = 0; j < MX_NR; j += 4)
          for (i64 x = k; x < k + 16; x += 4) transpose4(out + x * MX_NR + j, in + x + j * col_stride, col_stride);
    }
    for (; k < K; k++) { /* what is left of K, the last panel, and any other strides */
      for (i64 j = 0; j < n; j++) out[k * MX_NR + j] = in[k * row_stride + j * col_stride];
      for (i64 j = n; j < MX_NR; j++) out[k * MX_NR + j] = 0;
    }
  }
}

int mx_k_pack_b_f32(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)ctx;
  mx_pack_b_f32(b[0], b[1], d[0], d[1], d[2], d[3], lo, hi);
  return 0;
}

/* The tile is a compromise: large enough that B (read from L3 or memory once per mb rows) is cheap and the C tile fits
 * L2, small enough to give every thread several items, so that a late or slowed thread does not hold up the others. */
void mx_gemm_plan(i64 M, i64 N, i64 K, i64 nthreads, i64 *mb, i64 *nb) {
  (void)K;
  i64 panels = ceil_div(N < 1 ? 1 : N, MX_NR), rows = M < 1 ? 1 : M, per = 16; /* 128 x 512 at most */
  i64 want = nthreads > 1 ? (rows <= 2 * MR ? 8 : 4) * nthreads : 1;           /* items */
  if (rows > 128) rows = ceil_div(rows, ceil_div(rows, 128));
  while (per > 1 && ceil_div(M, rows) * ceil_div(panels, per) < want) per--;
  *mb = rows;
  *nb = ceil_div(panels, ceil_div(panels, per)) * MX_NR; /* equal items */
}

i64 mx_gemm_scratch(i64 M, i64 N, i64 K, i64 mb, i64 nb) {
  (void)M, (void)N, (void)K, (void)mb, (void)nb;
  return 0; /* A is copied 12 rows at a time, on the stack */
}

int mx_gemm_f32(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *Bp, i64 M, i64 N, i64 K, i64 mb, i64 nb, i64 lo, i64 hi,
                mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx) {
  for (i64 item = lo; item < hi; item++) {
    /* consecutive items go down the rows, so the B block of a column of tiles stays in L2 */
    i64 down = ceil_div(M, mb), r0 = item % down * mb, c0 = item / down * nb;
    i64 r1 = min64(M, r0 + mb), c1 = min64(N, c0 + nb);
    if (item > lo && mx_stop(ctx)) return MX_STOPPED;
    mx_gemm_block(C + r0 * ldc + c0, ldc, A + r0 * lda, lda, Bp + c0 * K, r1 - r0, c1 - c0, K, 1, ctx);
    int code = epilogue ? epilogue(b, d, r0, r1, c0, c1, ctx) : 0;
    if (code) return code;
  }
  return 0;
}

i64 mx_matmul_scratch(i64 M, i64 N, i64 K) { return 4 * (mx_pack_b_size(K, N) + M * (K + 16)) + 128; }

/* The same for a B of LARGE elements or more; MX_STOPPED when the run is to end. */
#define LARGE (MX_ASKED / 32)
static __attribute__((noinline)) int pack_large(f32 *Bp, const f32 *B, i64 K, i64 N, i64 brs, i64 bcs, mx_ctx *ctx) {
  const i64 panels = ceil_div(N, MX_NR), some = MX_ASKED / 1024 / K + 1;
  for (i64 lo = 0; lo < panels; lo += some) {
    if (mx_stop(ctx)) return MX_STOPPED;
    mx_pack_b_f32(Bp, B, K, N, brs, bcs, lo, min64(panels, lo + some));
  }
  return 0;
}

int mx_matmul_f32(f32 *C, i64 ldc, const f32 *A, i64 ars, i64 acs, const f32 *B, i64 brs, i64 bcs, i64 M, i64 N, i64 K,
                  mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx) {
  f32 *Bp = ctx->scratch, *Ac = Bp + mx_pack_b_size(K, N);
  if (K * N < LARGE) mx_pack_b_f32(Bp, B, K, N, brs, bcs, 0, ceil_div(N, MX_NR));
  else if (pack_large(Bp, B, K, N, brs, bcs, ctx)) return MX_STOPPED;
  if (acs != 1) {
    for (i64 i = 0; i < M; i++)
      for (i64 k = 0; k < K; k++) Ac[i * (K + 16) + k] = A[i * ars + k * acs];
    A = Ac;
    ars = K + 16;
  }
  mx_gemm_block(C, ldc, A, ars, Bp, M, N, K, 1, ctx);
  return epilogue ? epilogue(b, d, 0, M, 0, N, ctx) : 0;
}
