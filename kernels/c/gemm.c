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
 *       for each panel of the tile                   power of two apart: they cost 10 % at 1024^3 where 8 lines fit in
 *                                                    a set.  Where 12 do, or few panels use it, A is read in place)
 *         kernel: C[MR x 32] += A[MR x KC] B[KC x 32]     B streams from L2, A is broadcast from L1, C in registers
 *   epilogue(tile)                                 C tile mb x nb: still in L2.  Where other threads make the rest of its
 *                                                    rows, it is aside, and goes to C past the caches (mx_gemm_by)
 *
 * Up to 96 rows use each number of B a few times only, and B comes from memory.  If the first group of rows alone waited
 * for it, the wait would be a quarter of the whole time.  So the panels are the outer loop, in blocks of KC_SOME k, and
 * each group fetches a share of the block that comes next.  One group alone reads B as one stream.
 *
 * Every element of C is one chain of fused multiply-adds over k in ascending order, continued through C between k
 * blocks.  So a result does not depend on M, on the tile sizes or on the number of threads: the same row gives the same
 * bits in a batch of 1 and in a batch of 500.
 */
#include "pieces.h"
#include "tile.h"

#define KC 384       /* k block when A and B are reused, unless somebody measured that another one is faster */
#define KC_MOST 512
#define KC_SOME 192  /* k block of some rows: the 24 KiB of B are still in L1 when the second group needs them */
#define SOME 96      /* rows up to which the panels are the outer loop */
#define LDA_COPY (KC_MOST + 16)
#define LDA_SOME (KC_SOME + 16)
#define SOME_SUMS 256 /* rows of a panel that are summed up at the same time: 32 KiB */
#define HALVED 28     /* rows from which on two threads have a half each: 14 rows take as long as B does from memory */
#define HALVED_B (1 << 20) /* and the most numbers that B has then: larger ones take no longer in columns */
#define SOME_COPIED 320 /* rows of KC_SOME that are copied before they are used: 260 KiB, a part of the second cache */

/* One register tile, `rows` and `nv` literals: C[rows x nv * VW] (+)= A[rows x kc] B[kc x nv * VW].  What comes after B is
 * fetched into the cache from `next` on, `step` floats for each k: into L2 where it is `far`, and for short tiles, which
 * wait for it longer than they compute; and with `new` rows of A two cache lines ahead, which nobody has read yet: a row
 * for each k, so that each line of them is asked for once. */
INLINE void tile(const int rows, const int nv, f32 *RS C, i64 ldc, const f32 *RS A, i64 lda, const f32 *RS B, i64 kc,
                 int first, const f32 *next, i64 step, int far, int new) {
  vec c[MR][NV];
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) {
      c[i][v] = first ? (vec){0} : *(const vec *)(C + i * ldc + v * VW);
      __builtin_prefetch(C + i * ldc + v * VW, 1); /* it comes into the cache while the sums are made */
    }
  for (i64 k = 0; k < kc; k++) {
    vec b[NV];
    _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) {
      b[v] = *(const vec *)(B + k * MX_NR + v * VW);
      if (far || rows <= 8) __builtin_prefetch(next + k * step + v * VW, 0, 2);
      else __builtin_prefetch(next + k * step + v * VW);
    }
    if (new) __builtin_prefetch(A + (k & 15) * lda + (k | 15) + 33);
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
      vec a = A[i * lda + k] - (vec){0}; /* broadcast */
      _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) c[i][v] += a * b[v];
    }
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) *(vec *)(C + i * ldc + v * VW) = c[i][v];
}

/* Functions per height: rows of A anywhere, and rows of the copy (a literal distance: one address register); of both there
 * are some for the last columns too, where these are one vector. */
typedef void (*tile_fn)(f32 *RS, i64, const f32 *RS, i64, const f32 *RS, i64, int, const f32 *, i64, int);
#define TILE_OF(NAME, R, COLUMNS, LDA, FAR, NEW)                                                                       \
  static void NAME(f32 *RS C, i64 ldc, const f32 *RS A, i64 lda, const f32 *RS B, i64 kc, int first, const f32 *next,  \
                   i64 step, int new) {                                                                                \
    (void)lda, (void)new;                                                                                              \
    tile(R, COLUMNS, C, ldc, A, LDA, B, kc, first, next, step, FAR, NEW);                                              \
  }
#define TILE(R)                                                                                                        \
  TILE_OF(tile##R, R, NV, lda, 1, new)                                                                                 \
  TILE_OF(copy_tile##R, R, NV, LDA_COPY, 0, 0)                                                                         \
  TILE_OF(some_tile##R, R, NV, LDA_SOME, 1, 0)                                                                         \
  TILE_OF(thin_tile##R, R, 1, lda, 1, new)                                                                             \
  TILE_OF(thin_copy_tile##R, R, 1, LDA_COPY, 0, 0)
EACH_HEIGHT(TILE)
#define NAME(R) tile##R,
#define COPY_NAME(R) copy_tile##R,
#define THIN_NAME(R) thin_tile##R,
#define THIN_COPY_NAME(R) thin_copy_tile##R,
#define SOME_NAME(R) some_tile##R,
static const tile_fn some_tiles[MR + 1] = {0, EACH_HEIGHT(SOME_NAME)};
static const tile_fn tiles[2][MR + 1] = {{0, EACH_HEIGHT(NAME)}, {0, EACH_HEIGHT(COPY_NAME)}};
static const tile_fn thin_tiles[2][MR + 1] = {{0, EACH_HEIGHT(THIN_NAME)}, {0, EACH_HEIGHT(THIN_COPY_NAME)}};

/* One group of rows, copied or not, times one panel, of which `cols` (1..32) columns exist in C. `next` with a step of
 * MX_NR is as far before each tile's part as before the panel; with another one it is fetched by each tile. */
static void group_times_panel(int copied, i64 rows, i64 cols, f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 kc,
                              int first, const f32 *next, i64 step, int new) {
  const tile_fn run = tiles[copied][rows], thin = thin_tiles[copied][rows];
  for (i64 c0 = 0; c0 < cols; c0 += TW, next += step == MX_NR ? TW : 0) {
    const i64 n = cols - c0;
    if (n >= TW || n == VW) {
      (n == VW ? thin : run)(C + c0, ldc, A, lda, B + c0, kc, first, next, step, new && c0 == 0);
      continue;
    }
    f32 edge[MR * TW] __attribute__((aligned(64))); /* the last columns: a full tile aside, then the part that exists */
    if (!first)
      for (i64 i = 0; i < rows; i++)
        for (i64 j = 0; j < TW; j++) edge[i * TW + j] = j < n ? C[i * ldc + c0 + j] : 0;
    (n <= VW ? thin : run)(edge, TW, A, lda, B + c0, kc, first, next, step, new && c0 == 0);
    for (i64 i = 0; i < rows; i++) copy_few(C + i * ldc + c0, edge + i * TW, n);
  }
}

/* One group of rows: all of K at a time, as each panel is read once.  Up to NEAR rows take no longer than memory: there the
 * processor's own prefetcher does best, helped over the ends of pages.  Of 1 row by 226 MB, two threads on two dies read 68
 * GB/s so and 47 with what is FAR; of 8 rows it is 25 and 52, since they come slowly enough for what is asked for to be here. */
#define NEAR 5
#define NEAR_AHEAD 256
#define FAR_AHEAD 2048
static void few_rows(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 rows, i64 cols, i64 K, int first,
                     mx_ctx *ctx) {
  const i64 ahead = rows <= NEAR ? NEAR_AHEAD : FAR_AHEAD;
  i64 left = MX_ASKED;
  for (i64 c0 = 0; c0 < cols; c0 += MX_NR, B += K * MX_NR) {
    if (mx_over(ctx, &left, MR * MX_NR * K)) return;
    group_times_panel(0, rows, min64(MX_NR, cols - c0), C + c0, ldc, A, lda, B, K, first, B + ahead, MX_NR, 0);
  }
}

/* Rows [lo,hi) of A, kc floats each, into the second cache: some with each panel, for what comes next.
 * Another core may have written them last, and it takes a fifth of a microsecond until such a line is here where that
 * core has another last cache. */
static void fetch_rows(const f32 *A, i64 lda, i64 lo, i64 hi, i64 kc) {
  for (i64 i = lo; i < hi; i++)
    for (i64 k = 0; k < kc; k += 16) __builtin_prefetch(A + i * lda + k, 0, 2);
}

/* Some groups. The rows are copied block by block as the first panels need them, while those of the next block are
 * fetched: several panels for each block, as one alone would be done before these are here.  Each group of rows fetches
 * its share of the block of B that comes next.  Panels are summed up aside and go to C once: cores that share C go along
 * its rows with a border between them, and what their prefetchers take from each other there would come back for every
 * block. */
static void some_rows(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 rows, i64 cols, i64 K, int first,
                      mx_ctx *ctx) {
  f32 copy[SOME_COPIED * LDA_SOME] __attribute__((aligned(64))), sums[SOME_SUMS * MX_NR] __attribute__((aligned(64)));
  const i64 groups = ceil_div(rows, MR), step = ceil_div(MX_NR, groups), each = rows * LDA_SOME;
  const i64 even = ceil_div(ceil_div(K, ceil_div(K, KC_SOME)), 16) * 16, deep = SOME_COPIED / rows * even;
  const i64 panels = ceil_div(cols, MX_NR);
  i64 left = MX_ASKED;
  for (i64 k1 = 0; k1 < K; k1 += deep) {
    const i64 last = min64(K, k1 + deep);
    const int begins = first && k1 == 0;
    fetch_rows(A + k1, lda, 0, rows, min64(even, last - k1));
    for (i64 p0 = 0, p1; p0 < panels; p0 = p1) {
      p1 = p0 ? p0 + 1 : min64(panels, SOME_SUMS / rows);
      if (mx_over(ctx, &left, (p1 - p0) * rows * MX_NR * (last - k1))) return;
      for (i64 p = p0; p < p1 && !begins; p++)
        for (i64 i = 0; i < rows; i++)
          for (i64 j = 0; j < MX_NR; j++)
            sums[((p - p0) * rows + i) * MX_NR + j] = j < cols - p * MX_NR ? C[i * ldc + p * MX_NR + j] : 0;
      for (i64 k0 = k1; k0 < last; k0 += even) {
        f32 *const a = copy + (k0 - k1) / even * each;
        const i64 kc = min64(even, last - k0);
        if (p0 == 0)
          for (i64 i = 0; i < rows; i++) __builtin_memcpy(a + i * LDA_SOME, A + i * lda + k0, (unsigned long)kc * 4);
        for (i64 p = p0; p < p1; p++) {
          const f32 *b = B + (p * K + k0) * MX_NR;
          const f32 *next = B + (p + 1 < p1 ? (p + 1) * K + k0 : k0 + kc < last ? p0 * K + k0 + kc : p1 * K + k1) * MX_NR;
          if (p0 == 0)
            fetch_rows(A + k0 + kc, lda, rows * p / p1, rows * (p + 1) / p1, min64(even, last - k0 - kc));
          for (i64 g = 0; g < groups; g++) {
            const i64 r = group_start(rows, groups, g), m = group_start(rows, groups, g + 1) - r;
            const f32 *soon = next + g * step * kc;
            if (k0 + kc == last) /* here when the sums are */
              for (i64 i = r; i < r + m; i++)
                for (i64 j = p * MX_NR; j < min64(cols, (p + 1) * MX_NR); j += 16) __builtin_prefetch(C + i * ldc + j, 1);
            for (i64 c = 0; c < MX_NR; c += TW)
              some_tiles[m](sums + ((p - p0) * rows + r) * MX_NR + c, MX_NR, a + r * LDA_SOME, LDA_SOME, b + c, kc,
                            begins && k0 == 0, soon, step, 0);
          }
        }
      }
      for (i64 p = p0; p < p1; p++)
        for (i64 i = 0; i < rows; i++)
          copy_few(C + i * ldc + p * MX_NR, sums + ((p - p0) * rows + i) * MX_NR, min64(MX_NR, cols - p * MX_NR));
    }
  }
}

static void many_rows(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 rows, i64 cols, i64 K, int first,
                      i64 deep, i64 direct, mx_ctx *ctx) {
  f32 copy[MR * LDA_COPY] __attribute__((aligned(64)));
  i64 left = MX_ASKED;
  i64 groups = ceil_div(rows, MR), blocks = ceil_div(K, deep), kc_even = ceil_div(ceil_div(K, blocks), 16) * 16;
  for (i64 k0 = 0; k0 < K; k0 += kc_even) {
    i64 kc = min64(kc_even, K - k0);
    for (i64 g = 0; g < groups; g++) {
      i64 r = group_start(rows, groups, g), n = group_start(rows, groups, g + 1) - r;
      const f32 *a = A + r * lda + k0;
      if (mx_over(ctx, &left, MR * cols * kc)) return;
      for (i64 i = 0; i < n && !direct; i++)
        __builtin_memcpy(copy + i * LDA_COPY, a + i * lda, (unsigned long)kc * 4);
      const i64 soon = g + 1 < groups ? group_start(rows, groups, g + 2) - r - n : 0;
      for (i64 c0 = 0; c0 < cols; c0 += MX_NR) {
        const f32 *b = B + c0 * K + k0 * MX_NR;
        fetch_rows(a + n * lda, lda, soon * c0 / cols, soon * min64(cols, c0 + MX_NR) / cols, kc);
        group_times_panel(!direct, n, min64(MX_NR, cols - c0), C + r * ldc + c0, ldc, direct ? a : copy, lda,
                          b, kc, first && k0 == 0, b + 512, MX_NR, direct && c0 == 0);
      }
    }
  }
}

/* C[rows x cols] = A B, or += with first = 0, in blocks of `deep` k, A copied unless `direct`; B starts at a panel. */
static void block(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 rows, i64 cols, i64 K, int first, i64 deep,
                  i64 direct, mx_ctx *ctx) {
  if (K <= 0) {
    for (i64 i = 0; first && i < rows; i++)
      for (i64 j = 0; j < cols; j++) C[i * ldc + j] = 0; /* an empty sum */
  } else if (rows <= MR)
    few_rows(C, ldc, A, lda, B, rows, cols, K, first, ctx);
  else if (rows <= SOME)
    some_rows(C, ldc, A, lda, B, rows, cols, K, first, ctx);
  else
    many_rows(C, ldc, A, lda, B, rows, cols, K, first, deep, direct, ctx);
}

void mx_gemm_block(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 rows, i64 cols, i64 K, int first,
                   mx_ctx *ctx) {
  block(C, ldc, A, lda, B, rows, cols, K, first, KC, 0, ctx);
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
        group_times_panel(1, n, min64(MX_NR, cols - c0), C + r * ldc + c0, ldc, copy, LDA_COPY,
                          B + c0 * K + k0 * MX_NR, kc, k0 == 0, B + c0 * K + k0 * MX_NR + 512, MX_NR, 0);
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

/* Panels [lo,hi), whole ones, of a B with rows of neighbours: 8 rows at a time, each of them from its begin to its end. */
static void copy_panels(f32 *RS dst, const f32 *RS B, i64 K, i64 row_stride, i64 lo, i64 hi) {
  for (i64 k0 = 0; k0 < K; k0 += 8)
    for (i64 p = lo; p < hi; p++)
      for (i64 k = k0; k < min64(K, k0 + 8); k++)
        __builtin_memcpy(dst + (p * K + k) * MX_NR, B + k * row_stride + p * MX_NR, MX_NR * 4);
}

void mx_pack_b_f32(f32 *RS dst, const f32 *RS B, i64 K, i64 N, i64 row_stride, i64 col_stride, i64 lo, i64 hi) {
  const i64 whole = min64(hi, N / MX_NR);
  if (col_stride == 1 && lo < whole) {
    copy_panels(dst, B, K, row_stride, lo, whole);
    lo = whole;
  }
  for (i64 p = lo; p < hi; p++) {
    f32 *RS out = dst + p * K * MX_NR;
    const f32 *RS in = B + p * MX_NR * col_stride;
    i64 n = min64(MX_NR, N - p * MX_NR), k = 0;
    if (row_stride == 1 && n == MX_NR) { /* a transposed B: a cache line of each of its rows at a time */
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

/* Two threads take a half of the rows each, with all columns, where these are enough to take as long as B from memory, and B
 * is small: each reads all of it.  Then both write memory that is their own, from one step to the next, since the kernels
 * of rows are cut in the middle too; and C stays in their caches. */
static int is_halved(i64 M, i64 N, i64 K, i64 nthreads) {
  return nthreads == 2 && M >= HALVED && N > 0 && K * ceil_div(N, MX_NR) * MX_NR <= HALVED_B;
}

/* The tile is a compromise: large enough that B (read from L3 or memory once per mb rows) is cheap and the C tile fits
 * L2, small enough to give every thread several items, so that a late or slowed thread does not hold up the others. */
static void tile_of(i64 M, i64 N, i64 nthreads, i64 rows_most, i64 panels_most, i64 *mb, i64 *nb) {
  i64 panels = ceil_div(N < 1 ? 1 : N, MX_NR), rows = M < 1 ? 1 : M, per = panels_most;
  /* Items. Each copies its rows: of some rows few columns are not worth that. */
  i64 want = nthreads > 1 ? (rows <= MR ? 8 : rows <= SOME ? 1 : 4) * nthreads : 1;
  if (rows > rows_most) rows = ceil_div(rows, ceil_div(rows, rows_most));
  while (per > 1 && ceil_div(M, rows) * ceil_div(panels, per) < want) per--;
  if (rows > MR && rows <= SOME && nthreads > 1) { /* the share of the thread that has most is as small as it can be */
    i64 best = per;
    for (; per > 1 && ceil_div(panels, per) < 3 * nthreads; per--)
      if (ceil_div(ceil_div(panels, per), nthreads) * per < ceil_div(ceil_div(panels, best), nthreads) * best) best = per;
    per = best;
  }
  *mb = rows;
  *nb = ceil_div(panels, ceil_div(panels, per)) * MX_NR; /* equal items */
}

void mx_gemm_tile(i64 M, i64 N, i64 K, i64 nthreads, i64 rows_most, i64 panels_most, i64 *mb, i64 *nb) {
  if (is_halved(M, N, K, nthreads)) {
    const i64 half = ceil_div(M, 2);
    *mb = ceil_div(half, ceil_div(half, rows_most));
    *nb = ceil_div(N, MX_NR) * MX_NR;
  } else
    tile_of(M, N, nthreads, rows_most, panels_most, mb, nb);
}

#define ROWS_MOST 128
#define PANELS_MOST 16
void mx_gemm_plan(i64 M, i64 N, i64 K, i64 nthreads, i64 *mb, i64 *nb) {
  mx_gemm_tile(M, N, K, nthreads, ROWS_MOST, PANELS_MOST, mb, nb);
}

void mx_half_gemm_plan(i64 M, i64 N, i64 nthreads, i64 *mb, i64 *nb) {
  tile_of(M, N, nthreads, ROWS_MOST, PANELS_MOST, mb, nb);
}

/* A tile aside has rows of whole panels and a cache line, so that they are no power of two apart. */
static i64 width_aside(i64 cols) { return ceil_div(cols, MX_NR) * MX_NR + 16; }

i64 mx_gemm_scratch(i64 M, i64 N, i64 K, i64 mb, i64 nb) {
  (void)K;
  return N > nb ? min64(M < 1 ? 1 : M, mb) * width_aside(nb) * 4 : 0;
}

/* A row of a tile to its place, past the caches. */
static void put_row(f32 *to, const f32 *from, i64 n) {
  const i64 before = min64(n, (i64)(-(unsigned long)to % (VW * 4) / 4));
  copy_few(to, from, before);
  i64 i = before;
  for (; i + VW <= n; i += VW) STREAM(to + i, *(const vec *)(from + i));
  copy_few(to + i, from + i, n - i);
}

int mx_gemm_by(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *Bp, i64 M, i64 N, i64 K, const i64 *plan, int stays,
               i64 lo, i64 hi, mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx) {
  const i64 mb = plan[0], nb = plan[1], deep = plan[2] < 16 ? KC : min64(plan[2], KC_MOST);
  f32 *const own = ctx && ctx->nthreads > 1 && !stays && N > nb ? ctx->scratch : 0;
  for (i64 item = lo; item < hi; item++) {
    /* consecutive items go down the rows, so the B block of a column of tiles stays in L2; in the second of two columns
     * from the middle on, so that two threads are not on both sides of the border in the same rows */
    i64 down = ceil_div(M, mb), column = item / down, c0 = column * nb;
    i64 r0 = (item + (column == 1 && N <= 2 * nb ? down / 2 : 0)) % down * mb;
    i64 r1 = min64(M, r0 + mb), c1 = min64(N, c0 + nb);
    f32 *const tile = own ? own : C + r0 * ldc + c0;
    const i64 width = own ? width_aside(c1 - c0) : ldc;
    if (item > lo && mx_stop(ctx)) return MX_STOPPED;
    block(tile, width, A + r0 * lda, lda, Bp + c0 * K, r1 - r0, c1 - c0, K, 1, deep, plan[3], ctx);
    if (epilogue) {
      ctx->tile = tile, ctx->across = width;
      const int code = epilogue(b, d, r0, r1, c0, c1, ctx);
      if (code) return code;
    }
    for (i64 i = r0; own && i < r1; i++) put_row(C + i * ldc + c0, own + (i - r0) * width, c1 - c0);
  }
  if (own) STREAMED();
  return 0;
}

int mx_gemm_f32(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *Bp, i64 M, i64 N, i64 K, i64 mb, i64 nb, i64 lo, i64 hi,
                mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx) {
  const i64 plan[4] = {mb, nb, KC, 0};
  return mx_gemm_by(C, ldc, A, lda, Bp, M, N, K, plan, 0, lo, hi, epilogue, b, d, ctx);
}

int mx_k_gemm(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  return mx_gemm_by(b[0], d[1], b[1], d[2], b[2], d[0], d[1], d[2], d + 3, 0, lo, hi, 0, b, d, ctx);
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
