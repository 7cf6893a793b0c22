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
 * Its sums are rounded after each product, and numbers below 2^-126 are 0 in it.  Where there may be such numbers, the same
 * pairs are multiplied by fused multiply-adds of float32, in the same order: see "small numbers".  Everything else -
 * float16, other processors - is widened a block at a time into the thread's own memory and goes through gemm.c; widening is
 * exact, and paid once for up to 128 rows.
 *
 * In both, an element of C is one chain over k in ascending order, whatever the tiles and threads are.
 */
#include "pieces.h"
#include "tile.h"

/* MX_EMULATED_PAIRS puts C in the place of vdpbf16ps, so that tests see what it does with subnormals on any processor. */
#if defined(MX_EMULATED_PAIRS) || (defined(__AVX512BF16__) && defined(__AVX512F__))
#define HAS_PAIRS
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
  for (i64 p = lo; p < hi && PAIRS(kind); p++) marks[p] = (u16)least_exponent(packed + p * panel, panel);
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

/* ---- pairs -------------------------------------------------------------------------------------------------------- */

/* What multiplies pairs is only in SUM_PAIRS and in the table `tiles`: another instruction that flushes subnormals (AMX) takes
 * the place of those, and leaves the choice between fast and exact tiles as it is. */
#ifdef HAS_PAIRS
typedef u32 pairs __attribute__((vector_size(64), aligned(4), may_alias));
typedef f32 sums __attribute__((vector_size(64), aligned(4), may_alias));

#ifdef MX_EMULATED_PAIRS
INLINE f32 flushed(f32 x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
INLINE f32 emulated(f32 c, u32 a, u32 b) { /* the odd elements come first, and both sums are rounded */
  c = flushed(__builtin_fmaf(flushed(mx_f32_bits(a & 0xffff0000u)), flushed(mx_f32_bits(b & 0xffff0000u)), flushed(c)));
  return flushed(__builtin_fmaf(flushed(mx_f32_bits(a << 16)), flushed(mx_f32_bits(b << 16)), c));
}
#define SUM_PAIRS(c, a, b) for (int lane = 0; lane < 16; lane++) (c)[lane] = emulated((c)[lane], (a)[lane], (b)[lane])
#else
#define SUM_PAIRS(c, a, b) __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))
#endif

/* C[rows x 32] (+)= A[rows x n pairs] B[n x 32 pairs], `rows` a literal; A lies KP + 16 pairs apart. */
INLINE void tile(const int rows, f32 *RS C, i64 ldc, const u32 *RS A, const u32 *RS B, i64 n, int first, i64 ahead) {
  sums c[HR][2];
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++)
      c[i][v] = first ? (sums){0} : *(const sums *)(C + i * ldc + v * 16);
  for (i64 k = 0; k < n; k++) {
    const pairs b0 = *(const pairs *)(B + k * MX_NR), b1 = *(const pairs *)(B + k * MX_NR + 16);
    __builtin_prefetch(B + k * MX_NR + ahead);
    __builtin_prefetch(B + k * MX_NR + 16 + ahead);
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
      const pairs a = (pairs){0} + A[i * (KP + 16) + k];
      SUM_PAIRS(c[i][0], a, b0);
      SUM_PAIRS(c[i][1], a, b1);
    }
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) *(sums *)(C + i * ldc + v * 16) = c[i][v];
}
#define EACH_HEIGHT_OF_PAIRS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
typedef void (*tile_fn)(f32 *RS, i64, const u32 *RS, const u32 *RS, i64, int, i64);
#define TILE(R)                                                                                                        \
  static void tile##R(f32 *RS C, i64 ldc, const u32 *RS A, const u32 *RS B, i64 n, int first, i64 ahead) {             \
    tile(R, C, ldc, A, B, n, first, ahead);                                                                            \
  }
#define NAME(R) tile##R,
EACH_HEIGHT_OF_PAIRS(TILE)
static const tile_fn tiles[HR + 1] = {0, EACH_HEIGHT_OF_PAIRS(NAME)};

/* The same by multiply-adds, which know subnormals: bit for bit, where there are none.  The odd elements come first. */
#if defined(__FMA__) || defined(__aarch64__)
#define ADD_PRODUCT(c, a, b) c += ((sums){0} + (a)) * (b)
#else
#define ADD_PRODUCT(c, a, b) for (int lane = 0; lane < 16; lane++) (c)[lane] = __builtin_fmaf(a, (b)[lane], (c)[lane])
#endif
INLINE void exact_rows(const int rows, f32 *RS C, i64 ldc, const u32 *RS A, const u32 *RS B, i64 n, int first) {
  sums c[4][2];
  _Pragma("GCC unroll 4") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++)
      c[i][v] = first ? (sums){0} : *(const sums *)(C + i * ldc + v * 16);
  for (i64 k = 0; k < n; k++) {
    const pairs b0 = *(const pairs *)(B + k * MX_NR), b1 = *(const pairs *)(B + k * MX_NR + 16);
    const sums odd0 = (sums)(b0 & 0xffff0000u), odd1 = (sums)(b1 & 0xffff0000u);
    const sums even0 = (sums)(b0 << 16), even1 = (sums)(b1 << 16);
    _Pragma("GCC unroll 4") for (int i = 0; i < rows; i++) {
      const u32 a = A[i * (KP + 16) + k];
      const f32 odd = mx_f32_bits(a & 0xffff0000u), even = mx_f32_bits(a << 16);
      ADD_PRODUCT(c[i][0], odd, odd0);
      ADD_PRODUCT(c[i][1], odd, odd1);
      ADD_PRODUCT(c[i][0], even, even0);
      ADD_PRODUCT(c[i][1], even, even1);
    }
  }
  _Pragma("GCC unroll 4") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) *(sums *)(C + i * ldc + v * 16) = c[i][v];
}
static void exact_tile(i64 rows, f32 *RS C, i64 ldc, const u32 *RS A, const u32 *RS B, i64 n, int first) {
  i64 i = 0;
  for (; i + 4 <= rows; i += 4) exact_rows(4, C + i * ldc, ldc, A + i * (KP + 16), B, n, first);
  for (; i < rows; i++) exact_rows(1, C + i * ldc, ldc, A + i * (KP + 16), B, n, first);
}

/* Rows of A in pairs, an odd last element beside 0. */
static void copy_pairs(u32 *RS to, const rows_of *A, i64 first, i64 rows, i64 k, i64 count) {
  for (i64 i = 0; i < rows; i++) {
    to[i * (KP + 16) + ceil_div(count, 2) - 1] = 0;
    copy_row((u16 *)(to + i * (KP + 16)), A, first + i, k, count);
  }
}

/* What is known of the numbers of one block so far: the least exponents of A and, where the panels have no marks, of B.  They
 * only fall, so that sums of the blocks of k before are no subnormals either as long as there are none. */
typedef struct smallest {
  u32 a, b;
  const u16 *marks;
} smallest;
INLINE void see_rows(smallest *seen, const u32 *copy, i64 rows, i64 n) {
  for (i64 i = 0; i < rows; i++) {
    const u32 least = least_exponent((const u16 *)(copy + i * (KP + 16)), 2 * n);
    seen->a = least < seen->a ? least : seen->a;
  }
}
INLINE void see_panel(smallest *seen, const u32 *B, i64 n) {
  if (seen->marks) return;
  const u32 least = least_exponent((const u16 *)B, 2 * MX_NR * n);
  seen->b = least < seen->b ? least : seen->b;
}
/* Whether no product and no sum of products is subnormal, of numbers whose least exponents are a and b.  The last digit of
 * such a number is worth 2^(a - 134), that of a product 2^(a + b - 268).  If that is 2^-126 or more, all products, and
 * therefore all sums of them, are multiples of a number that is not subnormal. */
INLINE int no_subnormals(u32 a, u32 b) { return (a != 0) & (b != 0) & (a + b >= 142); }

INLINE void any_tile(const smallest *seen, i64 panel, i64 h, f32 *RS C, i64 ldc, const u32 *RS A, const u32 *RS B, i64 n,
                     int first, i64 ahead) {
  const int fast = no_subnormals(seen->a, seen->marks ? seen->marks[panel] : seen->b);
  if (__builtin_expect(fast, 1)) tiles[h](C, ldc, A, B, n, first, ahead);
  else exact_tile(h, C, ldc, A, B, n, first);
}

/* `marks` are those of the panels, or NULL. */
static void block_of_pairs(f32 *C, i64 ldc, const rows_of *A, const u16 *Bp, const u16 *marks, i64 rows, i64 cols, i64 K,
                           mx_ctx *ctx) {
  u32 copy[FEW * (KP + 16)] __attribute__((aligned(64)));
  smallest seen = {255, 255, marks};
  const i64 all = ceil_div(K, 2), panels = ceil_div(cols, MX_NR), groups = ceil_div(rows, HR);
  const i64 even = ceil_div(all, ceil_div(all, KP));
  const u32 *B = (const u32 *)Bp;
  i64 unasked = MX_ASKED;
  for (i64 k0 = 0; k0 < all; k0 += even) {
    const i64 n = min64(even, all - k0), count = min64(2 * n, K - 2 * k0);
    if (rows <= FEW) {
      copy_pairs(copy, A, 0, rows, 2 * k0, count);
      see_rows(&seen, copy, rows, n);
      for (i64 p = 0; p < panels; p++) {
        const u32 *const b = B + (p * all + k0) * MX_NR;
        if (mx_over(ctx, &unasked, 2 * HR * MX_NR * n)) return;
        see_panel(&seen, b, n);
        for (i64 g = 0; g < groups; g++) {
          const i64 r = group_start(rows, groups, g), h = group_start(rows, groups, g + 1) - r;
          any_tile(&seen, p, h, C + r * ldc + p * MX_NR, ldc, copy + r * (KP + 16), b, n, k0 == 0, 2048);
        }
      }
      continue;
    }
    for (i64 g = 0; g < groups; g++) {
      const i64 r = group_start(rows, groups, g), h = group_start(rows, groups, g + 1) - r;
      if (mx_over(ctx, &unasked, HR * cols * n)) return;
      copy_pairs(copy, A, r, h, 2 * k0, count);
      see_rows(&seen, copy, h, n);
      for (i64 p = 0; p < panels; p++) {
        const u32 *const b = B + (p * all + k0) * MX_NR;
        if (g == 0) see_panel(&seen, b, n);
        any_tile(&seen, p, h, C + r * ldc + p * MX_NR, ldc, copy, b, n, k0 == 0, 512);
      }
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
  return PAIRS(kind) ? 0 : 4 * (PW * MX_NR * KW + rows * (KW + 16)) + 64;
}

static void block(i64 kind, f32 *C, i64 ldc, const rows_of *A, const u16 *Bp, const u16 *marks, i64 rows, i64 cols, i64 K,
                  void *scratch, mx_ctx *ctx) {
  if (K <= 0) {
    for (i64 i = 0; i < rows; i++) __builtin_memset(C + i * ldc, 0, (u64)cols * 4); /* an empty sum */
    return;
  }
#ifdef HAS_PAIRS
  if (PAIRS(kind)) {
    block_of_pairs(C, ldc, A, Bp, marks, rows, cols, K, ctx);
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
