/* pairs.h - the part of halves.c that multiplies pairs of halves: register tiles of vdpbf16ps, the same by multiply-adds where
 * there may be subnormals, tiles of AMX, and the blocks in which a panel of B meets rows of A.
 */
#ifndef MX_PAIRS_H
#define MX_PAIRS_H

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
#ifdef HAS_TILES
/* The same in the order of tiles: the first and the second elements of 16 pairs have sums of their own. */
static void exact_tile_of_matrices(i64 rows, f32 *RS C, i64 ldc, const u32 *RS A, const u32 *RS B, i64 n, int first) {
  for (i64 i = 0; i < rows; i++, A += KP + 16, C += ldc)
    for (i64 v = 0; v < MX_NR; v += 16) {
      sums c = first ? (sums){0} : *(const sums *)(C + v);
      for (i64 k0 = 0; k0 < n; k0 += TILE_ROWS) {
        sums one = {0}, two = {0};
        for (i64 k = k0; k < min64(n, k0 + TILE_ROWS); k++) {
          const pairs b = *(const pairs *)(B + k * MX_NR + v);
          const sums even = (sums)(b << 16), odd = (sums)(b & 0xffff0000u);
          ADD_PRODUCT(one, mx_f32_bits(A[k] << 16), even);
          ADD_PRODUCT(two, mx_f32_bits(A[k] & 0xffff0000u), odd);
        }
        c += one + two;
      }
      *(sums *)(C + v) = c;
    }
}
#ifdef HAS_F16_TILES
#define TILE_DP_F16(c, a, b) tile_dp_f16(c, a, b)
#else
#define TILE_DP_F16(c, a, b) (void)0 /* never reached */
#endif
/* 32 rows at most and the columns of a panel.  A has zeros behind its n pairs, up to a multiple of 16. */
INLINE void matrices(const int is_f16, i64 rows, f32 *C, i64 ldc, const u32 *A, const u32 *B, i64 n, int first) {
  u32 last[TILE_ROWS * MX_NR] __attribute__((aligned(64)));
  const i64 high = min64(rows, TILE_ROWS), low = rows - high, step = 4 * (KP + 16), end = n / TILE_ROWS * TILE_ROWS;
  if (end < n) {
    __builtin_memset(last, 0, sizeof last);
    __builtin_memcpy(last, B + end * MX_NR, (u64)(4 * (n - end) * MX_NR));
  }
  const tile_shapes shapes = shapes_of(high, low);
  tile_configure(&shapes); /* all tiles are 0 */
  if (!first) {
    tile_load(0, C, 4 * ldc);
    tile_load(1, C + 16, 4 * ldc);
    if (low) tile_load(2, C + TILE_ROWS * ldc, 4 * ldc);
    if (low) tile_load(3, C + TILE_ROWS * ldc + 16, 4 * ldc);
  }
  for (i64 k = 0; k < n; k += TILE_ROWS) {
    const u32 *const b = k < end ? B + k * MX_NR : last;
    tile_load(6, b, 4 * MX_NR);
    tile_load(7, b + 16, 4 * MX_NR);
    tile_load(4, A + k, step);
    if (low) tile_load(5, A + TILE_ROWS * (KP + 16) + k, step);
    if (is_f16) {
      TILE_DP_F16(0, 4, 6);
      TILE_DP_F16(1, 4, 7);
      if (low) TILE_DP_F16(2, 5, 6);
      if (low) TILE_DP_F16(3, 5, 7);
      continue;
    }
    tile_dp_bf16(0, 4, 6);
    tile_dp_bf16(1, 4, 7);
    if (low) tile_dp_bf16(2, 5, 6);
    if (low) tile_dp_bf16(3, 5, 7);
  }
  tile_store(0, C, 4 * ldc);
  tile_store(1, C + 16, 4 * ldc);
  if (low) tile_store(2, C + TILE_ROWS * ldc, 4 * ldc);
  if (low) tile_store(3, C + TILE_ROWS * ldc + 16, 4 * ldc);
}
static void matrix_tile(i64 rows, f32 *C, i64 ldc, const u32 *A, const u32 *B, i64 n, int first) {
  matrices(0, rows, C, ldc, A, B, n, first);
}
static void matrix_tile_of_f16(i64 rows, f32 *C, i64 ldc, const u32 *A, const u32 *B, i64 n, int first) {
  matrices(1, rows, C, ldc, A, B, n, first);
}
#endif
static void exact_tile(i64 rows, f32 *RS C, i64 ldc, const u32 *RS A, const u32 *RS B, i64 n, int first) {
  i64 i = 0;
  for (; i + 4 <= rows; i += 4) exact_rows(4, C + i * ldc, ldc, A + i * (KP + 16), B, n, first);
  for (; i < rows; i++) exact_rows(1, C + i * ldc, ldc, A + i * (KP + 16), B, n, first);
}

/* Rows of A in pairs, with zeros up to a multiple of 16 of them. */
static void copy_pairs(u32 *RS to, const rows_of *A, i64 first, i64 rows, i64 k, i64 count) {
  const i64 whole = ceil_div(count, 2 * TILE_ROWS) * TILE_ROWS;
  for (i64 i = 0; i < rows; i++, to += KP + 16) {
    for (i64 e = count / 2; e < whole; e++) to[e] = 0;
    copy_row((u16 *)to, A, first + i, k, count);
  }
}

/* The least exponent of some rows of the copy, or that found before where it is less.  They only fall from one block of k to
 * the next, so that sums of the blocks before are no subnormals either as long as there are none. */
INLINE u32 least_of_rows(u32 before, const u32 *copy, i64 rows, i64 n) {
  for (i64 i = 0; i < rows; i++) {
    const u32 least = least_exponent((const u16 *)(copy + i * (KP + 16)), 2 * n);
    before = least < before ? least : before;
  }
  return before;
}
/* Whether no product and no sum of products is subnormal, of numbers whose least exponents are a and b.  The last digit of
 * such a number is worth 2^(a - 134), that of a product 2^(a + b - 268).  If that is 2^-126 or more, all products, and
 * therefore all sums of them, are multiples of a number that is not subnormal. */
INLINE int no_subnormals(u32 a, u32 b) { return (a != 0) & (b != 0) & (a + b >= 142); }

/* Up to MB rows.  `marks` are those of the panels, or NULL: then the least exponent of B so far is that of all panels.  A
 * panel of B meets all groups of rows, which are near in the copy, before the next one is read. */
static void rows_of_pairs(i64 kind, f32 *C, i64 ldc, const rows_of *A, i64 r0, i64 rows, const u32 *B, const u16 *marks,
                          i64 panels, i64 K, u32 *copy, mx_ctx *ctx) {
  const int small = kind == MX_BF16; /* whether subnormals have to be looked for */
#ifdef HAS_TILES
  const int has_tiles = mx_has_tiles();
  const i64 high = has_tiles ? 2 * TILE_ROWS : HR;
#else
  const i64 high = HR;
#endif
  const i64 all = ceil_div(K, 2), groups = ceil_div(rows, high), blocks = ceil_div(all, KP);
  const i64 even = ceil_div(ceil_div(all, blocks), TILE_ROWS) * TILE_ROWS;
  u32 least[MB / HR + 2], of_b = 255;
  for (i64 g = 0; g < groups; g++) least[g] = 255;
  i64 unasked = MX_ASKED;
  for (i64 k0 = 0; k0 < all; k0 += even) {
    const i64 n = min64(even, all - k0), count = min64(2 * n, K - 2 * k0);
    copy_pairs(copy, A, r0, rows, 2 * k0, count);
    for (i64 g = 0; g < groups && small; g++) {
      const i64 r = group_start(rows, groups, g), h = group_start(rows, groups, g + 1) - r;
      least[g] = least_of_rows(least[g], copy + r * (KP + 16), h, n);
    }
    for (i64 p = 0; p < panels; p++) {
      const u32 *const b = B + (p * all + k0) * MX_NR;
      if (mx_over(ctx, &unasked, rows * MX_NR * n)) return;
      if (small && !marks) {
        const u32 found = least_exponent((const u16 *)b, 2 * MX_NR * n);
        of_b = found < of_b ? found : of_b;
      }
      for (i64 g = 0; g < groups; g++) {
        const i64 r = group_start(rows, groups, g), h = group_start(rows, groups, g + 1) - r;
        f32 *const c = C + r * ldc + p * MX_NR;
        const u32 *const a = copy + r * (KP + 16);
        const int fast = !small || no_subnormals(least[g], marks ? marks[p] : of_b);
#ifdef HAS_TILES
        if (has_tiles) {
          (!small ? matrix_tile_of_f16 : fast ? matrix_tile : exact_tile_of_matrices)(h, c, ldc, a, b, n, k0 == 0);
          continue;
        }
#endif
        /* the last group of many fetches the panel that comes next */
        const i64 next = p + 1 < panels ? all * MX_NR : (even - p * all) * MX_NR;
        const i64 ahead = rows <= FEW ? 2048 : g + 1 < groups ? 512 : next;
        if (__builtin_expect(fast, 1)) tiles[h](c, ldc, a, b, n, k0 == 0, ahead);
        else exact_tile(h, c, ldc, a, b, n, k0 == 0);
      }
    }
  }
#ifdef HAS_TILES
  if (has_tiles) tile_release();
#endif
}

static void block_of_pairs(i64 kind, f32 *C, i64 ldc, const rows_of *A, const u16 *Bp, const u16 *marks, i64 rows,
                           i64 cols, i64 K, void *scratch, mx_ctx *ctx) {
  const i64 blocks = ceil_div(rows, MB);
  for (i64 g = 0; g < blocks; g++) {
    const i64 r = group_start(rows, blocks, g), h = group_start(rows, blocks, g + 1) - r;
    rows_of_pairs(kind, C + r * ldc, ldc, A, r, h, (const u32 *)Bp, marks, ceil_div(cols, MX_NR), K, scratch, ctx);
  }
}
#endif
