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
 * Its sums are rounded after each product and numbers below 2^-126 are 0 in it, which bfloat16 would hardly notice: a
 * float32 sum has 16 bits more than the result.  Everything else - float16, other processors - is widened a block at a
 * time into the thread's own memory and goes through gemm.c; widening is exact, and paid once for up to 128 rows.
 *
 * In both, an element of C is one chain over k in ascending order, whatever the tiles and threads are.
 */
#include "pieces.h"
#include "tile.h"

#if defined(__AVX512BF16__) && defined(__AVX512F__)
#define PAIRS(kind) ((kind) == MX_BF16)
#else
#define PAIRS(kind) ((void)(kind), 0)
#endif
#define HR 12        /* rows of a register tile */
#define KP 384       /* pairs in a block of k: 12 rows of A are 18 KiB of L1, 512 columns of B 768 KiB of L2 */
#define KW 256       /* elements of k that are widened at once */
#define PW 4         /* panels that are */
#define FEW (2 * HR) /* rows for which B is read from memory, once */

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

i64 mx_half_pack_size(i64 K, i64 N) { return ceil_div(N, MX_NR) * MX_NR * (K + K % 2); }

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
  return 0;
}
int mx_k_pack_b_f16(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)ctx;
  mx_half_pack(MX_F16, b[0], b[1], d[0], d[1], d[2], d[3], lo, hi);
  return 0;
}

/* ---- pairs -------------------------------------------------------------------------------------------------------- */

#if defined(__AVX512BF16__) && defined(__AVX512F__)
typedef u32 pairs __attribute__((vector_size(64), aligned(4), may_alias));

/* C[rows x 32] (+)= A[rows x n pairs] B[n x 32 pairs], `rows` a literal; A lies KP + 16 pairs apart. */
INLINE void tile(const int rows, f32 *RS C, i64 ldc, const u32 *RS A, const u32 *RS B, i64 n, int first, i64 ahead) {
  vec c[HR][2];
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) c[i][v] = first ? (vec){0} : *(const vec *)(C + i * ldc + v * 16);
  for (i64 k = 0; k < n; k++) {
    const pairs b0 = *(const pairs *)(B + k * MX_NR), b1 = *(const pairs *)(B + k * MX_NR + 16);
    __builtin_prefetch(B + k * MX_NR + ahead);
    __builtin_prefetch(B + k * MX_NR + 16 + ahead);
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
      const pairs a = (pairs){0} + A[i * (KP + 16) + k];
      __asm__("vdpbf16ps %2, %1, %0" : "+v"(c[i][0]) : "v"(a), "v"(b0));
      __asm__("vdpbf16ps %2, %1, %0" : "+v"(c[i][1]) : "v"(a), "v"(b1));
    }
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) *(vec *)(C + i * ldc + v * 16) = c[i][v];
}
typedef void (*tile_fn)(f32 *RS, i64, const u32 *RS, const u32 *RS, i64, int, i64);
#define TILE(R)                                                                                                        \
  static void tile##R(f32 *RS C, i64 ldc, const u32 *RS A, const u32 *RS B, i64 n, int first, i64 ahead) {             \
    tile(R, C, ldc, A, B, n, first, ahead);                                                                            \
  }
#define NAME(R) tile##R,
EACH_HEIGHT(TILE)
static const tile_fn tiles[HR + 1] = {0, EACH_HEIGHT(NAME)};

/* Rows of A in pairs, an odd last element beside 0. */
static void copy_pairs(u32 *RS to, const rows_of *A, i64 first, i64 rows, i64 k, i64 count) {
  for (i64 i = 0; i < rows; i++) {
    to[i * (KP + 16) + ceil_div(count, 2) - 1] = 0;
    copy_row((u16 *)(to + i * (KP + 16)), A, first + i, k, count);
  }
}

static void block_of_pairs(f32 *C, i64 ldc, const rows_of *A, const u16 *Bp, i64 rows, i64 cols, i64 K) {
  u32 copy[FEW * (KP + 16)] __attribute__((aligned(64)));
  const i64 all = ceil_div(K, 2), panels = ceil_div(cols, MX_NR), groups = ceil_div(rows, HR);
  const i64 even = ceil_div(all, ceil_div(all, KP));
  const u32 *B = (const u32 *)Bp;
  for (i64 k0 = 0; k0 < all; k0 += even) {
    const i64 n = min64(even, all - k0), count = min64(2 * n, K - 2 * k0);
    if (rows <= FEW) {
      copy_pairs(copy, A, 0, rows, 2 * k0, count);
      for (i64 p = 0; p < panels; p++)
        for (i64 g = 0; g < groups; g++) {
          const i64 r = group_start(rows, groups, g), h = group_start(rows, groups, g + 1) - r;
          tiles[h](C + r * ldc + p * MX_NR, ldc, copy + r * (KP + 16), B + (p * all + k0) * MX_NR, n, k0 == 0, 2048);
        }
      continue;
    }
    for (i64 g = 0; g < groups; g++) {
      const i64 r = group_start(rows, groups, g), h = group_start(rows, groups, g + 1) - r;
      copy_pairs(copy, A, r, h, 2 * k0, count);
      for (i64 p = 0; p < panels; p++)
        tiles[h](C + r * ldc + p * MX_NR, ldc, copy, B + (p * all + k0) * MX_NR, n, k0 == 0, 512);
    }
  }
}
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
                          f32 *wide) {
  u16 line[KW];
  const i64 panels = ceil_div(cols, MX_NR), even = ceil_div(K, ceil_div(K, KW));
  f32 *const left = wide + PW * MX_NR * KW;
  for (i64 k0 = 0; k0 < K; k0 += even) {
    const i64 n = min64(even, K - k0);
    for (i64 i = 0; i < rows; i++) {
      copy_row(line, A, i, k0, n);
      widen(kind, left + i * (KW + 16), line, n);
    }
    for (i64 p = 0; p < panels; p += PW) {
      const i64 many = min64(PW, panels - p);
      for (i64 q = 0; q < many; q++)
        widen(kind, wide + q * n * MX_NR, Bp + ((p + q) * (K + K % 2) + k0) * MX_NR, n * MX_NR);
      mx_gemm_block(C + p * MX_NR, ldc, left, KW + 16, wide, rows, many * MX_NR, n, k0 == 0);
    }
  }
}

/* ---- products ----------------------------------------------------------------------------------------------------- */

i64 mx_half_block_scratch(i64 kind, i64 rows) {
  return PAIRS(kind) ? 0 : 4 * (PW * MX_NR * KW + rows * (KW + 16)) + 64;
}

static void block(i64 kind, f32 *C, i64 ldc, const rows_of *A, const u16 *Bp, i64 rows, i64 cols, i64 K,
                  void *scratch) {
  if (K <= 0) {
    for (i64 i = 0; i < rows; i++) __builtin_memset(C + i * ldc, 0, (u64)cols * 4); /* an empty sum */
    return;
  }
#if defined(__AVX512BF16__) && defined(__AVX512F__)
  if (PAIRS(kind)) {
    block_of_pairs(C, ldc, A, Bp, rows, cols, K);
    return;
  }
#endif
  block_widened(kind, C, ldc, A, Bp, rows, cols, K, scratch);
}
void mx_half_block(i64 kind, f32 *C, i64 ldc, const u16 *A, i64 lda, const u16 *Bp, i64 rows, i64 cols, i64 K,
                   void *scratch) {
  const rows_of left = {A, lda, 0, 0, 0};
  block(kind, C, ldc, &left, Bp, rows, cols, K, scratch);
}
void mx_half_runs(i64 kind, f32 *C, i64 ldc, const void *const *at, i64 runs, i64 run, const u16 *Bp, i64 rows, i64 cols,
                  void *scratch) {
  const rows_of left = {0, 0, at, runs, run};
  block(kind, C, ldc, &left, Bp, rows, cols, runs * run, scratch);
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
  for (i64 item = lo; item < hi; item++) { /* down the rows first, as in gemm.c */
    const i64 down = ceil_div(M, mb), r0 = item % down * mb, c0 = item / down * nb;
    const i64 r1 = min64(M, r0 + mb), c1 = min64(N, c0 + nb), ldc = ceil_div(c1 - c0, MX_NR) * MX_NR;
    mx_half_block(kind, C, ldc, A + r0 * lda, lda, Bp + c0 * depth, r1 - r0, c1 - c0, K,
                  (char *)C + tile_bytes(r1 - r0, c1 - c0));
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
  mx_half_pack(kind, (u16 *)Bp, B, K, N, brs, bcs, 0, ceil_div(N, MX_NR));
  if (acs != 1) {
    u16 *const to = (u16 *)copy;
    for (i64 i = 0; i < M; i++)
      for (i64 k = 0; k < K; k++) to[i * K + k] = A[i * ars + k * acs];
    A = to, ars = K;
  }
  mx_half_block(kind, ctx->scratch, ceil_div(N, MX_NR) * MX_NR, A, ars, (const u16 *)Bp, M, N, K,
                copy + lines_of(2 * M * K));
  return epilogue(b, d, 0, M, 0, N, ctx);
}
