// maxlab-flags: -O2
/* halves.c - C = A B of bfloat16 or float16, summed in float32, with B packed ahead of time as in gemm.c.
 *
 * Two ways lead there.  Where the processor multiplies pairs of bfloat16 (vdpbf16ps of AVX512_BF16: twice the products of
 * a float32 multiply-add), B is packed in pairs of rows, and the register tile is that of gemm.c with pairs for elements:
 *
 *        panel of 32 columns            one row of the packed panel, 128 bytes
 *   k=0 | a b c ... |                    a p | b q | c r | ...          lane j sums  A[k] B[k][j] + A[k+1] B[k+1][j]
 *   k=1 | p q r ... |
 *
 * A processor that multiplies matrices (AMX, matrix.h) makes 32 rows of a panel at once, of the same packed pairs; the first
 * and the second elements of 16 pairs have sums of their own there, which C gets at last.  Some do that with float16 too.
 *
 * Sums are rounded after each product, and numbers below 2^-126 are 0 in them.  Where there may be such numbers, the same
 * pairs are multiplied by fused multiply-adds of float32, in the same order: see "small numbers".  Everything else -
 * float16, other processors - is widened a block at a time into the thread's own memory and goes through gemm.c; widening is
 * exact, and paid once for up to 128 rows.
 *
 * In both, an element of C is one chain over k in ascending order, whatever the tiles and threads are.
 */
#include "matrix.h"
#include "pieces.h"
#include "tile.h"

/* MX_EMULATED_PAIRS puts C in the place of vdpbf16ps, so that tests see what it does with subnormals on any processor. */
#if defined(HAS_TILES) && !(defined(__AVX512BF16__) && defined(__AVX512F__)) && !defined(MX_EMULATED_PAIRS)
#define MX_EMULATED_PAIRS /* tests of tiles on other processors: what has tiles has pairs too */
#endif
#if defined(MX_EMULATED_PAIRS) || (defined(__AVX512BF16__) && defined(__AVX512F__))
#define HAS_PAIRS
#ifdef HAS_F16_TILES /* what has tiles of float16 has those of bfloat16 */
#define PAIRS(kind) ((kind) == MX_BF16 || mx_has_tiles())
#else
#define PAIRS(kind) ((kind) == MX_BF16)
#endif
#else
#define PAIRS(kind) ((void)(kind), 0)
#endif
#define HR 12        /* rows of a register tile */
#define KP 512       /* pairs in a block of k: 12 rows of A are 24 KiB of L1, a panel of B 64 KiB of L2 */
#define MB 128       /* rows of A that are copied at once: 264 KiB of L2 */
#define KW 256       /* elements of k that are widened at once */
#define PW 4         /* panels that are */
#define FEW (2 * HR) /* rows for which B is read from memory, once, so that it is fetched further ahead */

int mx_half_pairs(i64 kind) { return PAIRS(kind); }

/* The left operand: rows `step` apart, or in pieces where `at` is not NULL. */
typedef struct rows_of {
  const u16 *rows;
  i64 step;
  const void *const *at;
  i64 runs, run;
} rows_of;
INLINE void copy_row(u16 *to, const rows_of *A, i64 i, i64 k, i64 count) {
  if (A->at) mx_copy_pieces((char *)to, A->at + i * A->runs, A->run, k, count, 2);
  else __builtin_memcpy(to, A->rows + i * A->step + k, (u64)count * 2);
}

/* the panels, and behind them a mark for each */
i64 mx_half_pack_size(i64 K, i64 N) { return ceil_div(N, MX_NR) * (MX_NR * (K + K % 2) + 1); }

/* ---- small numbers ------------------------------------------------------------------------------------------------- */

/* The exponent, from 1 to 255, of the smallest of n numbers other than 0; 0 if one of them is subnormal. */
static u32 least_exponent(const u16 *RS x, i64 n) {
  u16 least = 0xffff; /* of the numbers without their signs, less 1: zeros are the largest */
  #pragma omp simd reduction(min : least)
  for (i64 i = 0; i < n; i++) {
    const u16 one = (u16)((x[i] & 0x7fff) - 1);
    least = one < least ? one : least;
  }
  return least == 0xffff ? 255 : (u32)(least + 1) >> 7;
}

void mx_half_mark(i64 kind, u16 *packed, i64 K, i64 N, i64 lo, i64 hi) {
  const i64 panel = MX_NR * (K + K % 2);
  u16 *const marks = packed + ceil_div(N, MX_NR) * panel;
  for (i64 p = lo; p < hi && kind == MX_BF16 && PAIRS(kind); p++) marks[p] = (u16)least_exponent(packed + p * panel, panel);
}

/* ---- packing ------------------------------------------------------------------------------------------------------ */

static void pack_pairs(u16 *RS dst, const u16 *RS B, i64 K, i64 N, i64 row, i64 column, i64 lo, i64 hi) {
  const i64 pairs = ceil_div(K, 2);
  if (row == 1 && column % 2 == 0 && K % 2 == 0 && (u64)B % 4 == 0) { /* pairs lie side by side: they move as floats do */
    mx_pack_b_f32((f32 *)dst, (const f32 *)B, pairs, N, 1, column / 2, lo, hi);
    return;
  }
  for (i64 p = lo; p < hi; p++) {
    const u16 *RS in = B + p * MX_NR * column;
    const i64 n = min64(MX_NR, N - p * MX_NR);
    for (i64 k = 0; k < pairs; k++) {
      u16 *RS to = dst + (p * pairs + k) * 2 * MX_NR;
      const u16 *RS one = in + 2 * k * row, *RS two = one + (2 * k + 1 < K ? row : 0);
      const u16 keep = 2 * k + 1 < K ? 0xffff : 0;
      if (column == 1 && n == MX_NR) {
        #pragma omp simd
        for (i64 j = 0; j < MX_NR; j++) to[2 * j] = one[j], to[2 * j + 1] = two[j] & keep;
        continue;
      }
      for (i64 j = 0; j < MX_NR; j++) {
        to[2 * j] = j < n ? one[j * column] : 0;
        to[2 * j + 1] = j < n ? two[j * column] & keep : 0;
      }
    }
  }
}

static void pack_plain(u16 *RS dst, const u16 *RS B, i64 K, i64 N, i64 row, i64 column, i64 lo, i64 hi) {
  for (i64 p = lo; p < hi; p++) {
    u16 *RS to = dst + p * (K + K % 2) * MX_NR;
    const u16 *RS in = B + p * MX_NR * column;
    const i64 n = min64(MX_NR, N - p * MX_NR);
    if (column == 1 && n == MX_NR) {
      for (i64 k = 0; k < K; k++) __builtin_memcpy(to + k * MX_NR, in + k * row, MX_NR * 2);
      continue;
    }
    for (i64 k0 = 0; k0 < K; k0 += 32) /* a cache line of each column at a time */
      for (i64 j = 0; j < MX_NR; j++)
        for (i64 k = k0; k < min64(k0 + 32, K); k++) to[k * MX_NR + j] = j < n ? in[k * row + j * column] : 0;
  }
}

void mx_half_pack(i64 kind, u16 *dst, const u16 *B, i64 K, i64 N, i64 row_stride, i64 col_stride, i64 lo, i64 hi) {
  (PAIRS(kind) ? pack_pairs : pack_plain)(dst, B, K, N, row_stride, col_stride, lo, hi);
}
int mx_k_pack_b_bf16(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)ctx;
  mx_half_pack(MX_BF16, b[0], b[1], d[0], d[1], d[2], d[3], lo, hi);
  mx_half_mark(MX_BF16, b[0], d[0], d[1], lo, hi);
  return 0;
}
int mx_k_pack_b_f16(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)ctx;
  mx_half_pack(MX_F16, b[0], b[1], d[0], d[1], d[2], d[3], lo, hi);
  return 0;
}

#ifdef HAS_PAIRS
#include "pairs.h"
#endif

/* ---- widening ----------------------------------------------------------------------------------------------------- */

static void widen(i64 kind, f32 *RS to, const u16 *RS from, i64 n) {
  i64 i = 0;
  if (kind == MX_BF16) {
    #pragma omp simd
    for (i64 j = 0; j < n; j++) to[j] = mx_bf16_to_f32(from[j]);
    return;
  }
#if defined(__AVX512F__)
  typedef f32 v16 __attribute__((vector_size(64), aligned(4), may_alias));
  typedef u16 h16 __attribute__((vector_size(32), aligned(2), may_alias));
  for (; i + 16 <= n; i += 16) {
    v16 r;
    __asm__("vcvtph2ps %1, %0" : "=v"(r) : "m"(*(const h16 *)(from + i)));
    *(v16 *)(to + i) = r;
  }
#endif
  #pragma omp simd
  for (i64 j = i; j < n; j++) to[j] = mx_f16_to_f32(from[j]);
}

static void block_widened(i64 kind, f32 *C, i64 ldc, const rows_of *A, const u16 *Bp, i64 rows, i64 cols, i64 K,
                          f32 *wide, mx_ctx *ctx) {
  u16 line[KW];
  const i64 panels = ceil_div(cols, MX_NR), even = ceil_div(K, ceil_div(K, KW));
  f32 *const left = wide + PW * MX_NR * KW;
  i64 unasked = MX_ASKED;
  for (i64 k0 = 0; k0 < K; k0 += even) {
    const i64 n = min64(even, K - k0);
    for (i64 i = 0; i < rows; i++) {
      copy_row(line, A, i, k0, n);
      widen(kind, left + i * (KW + 16), line, n);
    }
    for (i64 p = 0; p < panels; p += PW) {
      const i64 many = min64(PW, panels - p);
      if (mx_over(ctx, &unasked, (rows + 16) * many * MX_NR * n)) return;
      for (i64 q = 0; q < many; q++)
        widen(kind, wide + q * n * MX_NR, Bp + ((p + q) * (K + K % 2) + k0) * MX_NR, n * MX_NR);
      mx_gemm_block(C + p * MX_NR, ldc, left, KW + 16, wide, rows, many * MX_NR, n, k0 == 0, 0);
    }
  }
}

/* ---- products ----------------------------------------------------------------------------------------------------- */

i64 mx_half_block_scratch(i64 kind, i64 rows) {
  return PAIRS(kind) ? 4 * min64(rows, MB) * (KP + 16) : 4 * (PW * MX_NR * KW + rows * (KW + 16)) + 64;
}

static void block(i64 kind, f32 *C, i64 ldc, const rows_of *A, const u16 *Bp, const u16 *marks, i64 rows, i64 cols, i64 K,
                  void *scratch, mx_ctx *ctx) {
  if (K <= 0) {
    for (i64 i = 0; i < rows; i++) __builtin_memset(C + i * ldc, 0, (u64)cols * 4); /* an empty sum */
    return;
  }
#ifdef HAS_PAIRS
  if (PAIRS(kind)) {
    block_of_pairs(kind, C, ldc, A, Bp, marks, rows, cols, K, scratch, ctx);
    return;
  }
#endif
  (void)marks;
  block_widened(kind, C, ldc, A, Bp, rows, cols, K, scratch, ctx);
}
void mx_half_block(i64 kind, f32 *C, i64 ldc, const u16 *A, i64 lda, const u16 *Bp, i64 rows, i64 cols, i64 K,
                   void *scratch) {
  const rows_of left = {A, lda, 0, 0, 0};
  block(kind, C, ldc, &left, Bp, 0, rows, cols, K, scratch, 0);
}
void mx_half_runs(i64 kind, f32 *C, i64 ldc, const void *const *at, i64 runs, i64 run, const u16 *Bp, i64 rows, i64 cols,
                  void *scratch) {
  const rows_of left = {0, 0, at, runs, run};
  block(kind, C, ldc, &left, Bp, 0, rows, cols, runs * run, scratch, 0);
}

/* bytes that are a multiple of a cache line */
INLINE i64 lines_of(i64 bytes) { return (bytes + 63) / 64 * 64; }
INLINE i64 tile_bytes(i64 rows, i64 cols) { return lines_of(4 * rows * (ceil_div(cols, MX_NR) * MX_NR)); }

i64 mx_half_gemm_scratch(i64 kind, i64 M, i64 mb, i64 nb) {
  const i64 rows = min64(M < 1 ? 1 : M, mb);
  return tile_bytes(rows, nb) + mx_half_block_scratch(kind, rows);
}

int mx_half_gemm(i64 kind, const u16 *A, i64 lda, const u16 *Bp, i64 M, i64 N, i64 K, i64 mb, i64 nb, i64 lo, i64 hi,
                 mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx) {
  f32 *const C = ctx->scratch;
  const i64 depth = K + K % 2;
  const u16 *const marks = Bp + ceil_div(N, MX_NR) * MX_NR * depth;
  for (i64 item = lo; item < hi; item++) { /* down the rows first, as in gemm.c */
    const i64 down = ceil_div(M, mb), r0 = item % down * mb, c0 = item / down * nb;
    const i64 r1 = min64(M, r0 + mb), c1 = min64(N, c0 + nb), ldc = ceil_div(c1 - c0, MX_NR) * MX_NR;
    const rows_of left = {A + r0 * lda, lda, 0, 0, 0};
    if (item > lo && mx_stop(ctx)) return MX_STOPPED;
    block(kind, C, ldc, &left, Bp + c0 * depth, marks + c0 / MX_NR, r1 - r0, c1 - c0, K,
          (char *)C + tile_bytes(r1 - r0, c1 - c0), ctx);
    const int code = epilogue(b, d, r0, r1, c0, c1, ctx);
    if (code) return code;
  }
  return 0;
}

i64 mx_half_matmul_scratch(i64 kind, i64 M, i64 N, i64 K) {
  return tile_bytes(M, N) + lines_of(2 * mx_half_pack_size(K, N)) + lines_of(2 * M * K) + mx_half_block_scratch(kind, M);
}

int mx_half_matmul(i64 kind, const u16 *A, i64 ars, i64 acs, const u16 *B, i64 brs, i64 bcs, i64 M, i64 N, i64 K,
                   mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx) {
  char *const Bp = (char *)ctx->scratch + tile_bytes(M, N), *const copy = Bp + lines_of(2 * mx_half_pack_size(K, N));
  const i64 panels = ceil_div(N, MX_NR), some = K * N < MX_ASKED / 32 ? panels : MX_ASKED / 1024 / K + 1;
  for (i64 lo = 0; lo < panels; lo += some) {
    if (lo && mx_stop(ctx)) return MX_STOPPED;
    mx_half_pack(kind, (u16 *)Bp, B, K, N, brs, bcs, lo, min64(panels, lo + some));
  }
  if (acs != 1) {
    u16 *const to = (u16 *)copy;
    for (i64 i = 0; i < M; i++)
      for (i64 k = 0; k < K; k++) to[i * K + k] = A[i * ars + k * acs];
    A = to, ars = K;
  }
  const rows_of left = {A, ars, 0, 0, 0};
  block(kind, ctx->scratch, ceil_div(N, MX_NR) * MX_NR, &left, (const u16 *)Bp, 0, M, N, K, copy + lines_of(2 * M * K),
        ctx);
  return epilogue(b, d, 0, M, 0, N, ctx);
}
