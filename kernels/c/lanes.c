// maxlab-flags: -O2
/* lanes.c - attention of a block of queries that lie side by side, a query in each lane of a vector.
 *
 *              queries, packed                        S: a row for each key
 *            +-----------------+                    +-----------------+
 *        dim |                 |   keys x dim       |  keys x lanes   |   values x dim
 *            +-----------------+                    +-----------------+
 *
 *   scores    S = keys queries      keys are the rows of the left operand, read where they are in a cache
 *   weights   S = exp(S - most)     the largest of a column and its sum are lanes of one vector: nothing is folded
 *   sums      O += S^T values       a key's weights are broadcast, its values read where they are
 *
 * The other way, with queries as rows (attention.c), either packs the keys or turns S; where a few queries meet the keys of
 * each head once, as with a part of a prompt over a cache, that costs a fourth of the whole.  Keys and values come from
 * memory there: each tile of scores asks for the keys that come next, or for the values of its own.
 *
 * Scores and sums are chains of fused multiply-adds in the order of dims and of keys, so they do not depend on how many
 * queries there are, nor in how many calls the keys come.
 */
#include "tile.h"

/* Of one register tile: S[rows x nv * VW] = A[rows x dim] B.  A line of 16 rows from `next` on is asked for with each k. */
INLINE void score_tile(const int rows, const int nv, f32 *RS S, i64 lds, const f32 *RS A, i64 lda, const f32 *RS B, i64 dim,
                       const f32 *next) {
  vec s[MR][NV];
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) s[i][v] = (vec){0};
  for (i64 k = 0; k < dim; k++) {
    vec b[NV];
    __builtin_prefetch(next + (k & 15) * lda + (k & -16));
    _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) b[v] = *(const vec *)(B + k * MX_NR + v * VW);
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
      vec a = A[i * lda + k] - (vec){0}; /* broadcast */
      _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) s[i][v] += a * b[v];
    }
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) *(vec *)(S + i * lds + v * VW) = s[i][v];
}

/* The same of sums: O[rows x TW] += S^T B, where S has a row for each of `keys`. */
INLINE void sum_tile(const int rows, f32 *RS O, i64 ldo, const f32 *RS S, i64 lds, const f32 *RS B, i64 ldb, i64 keys) {
  vec o[MR][NV];
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) o[i][v] = *(const vec *)(O + i * ldo + v * VW);
  for (i64 k = 0; k < keys; k++) {
    vec b[NV];
    _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) b[v] = *(const vec *)(B + k * ldb + v * VW);
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
      vec a = S[k * lds + i] - (vec){0}; /* broadcast */
      _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) o[i][v] += a * b[v];
    }
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) *(vec *)(O + i * ldo + v * VW) = o[i][v];
}

#define SCORES(NAME, R, COLUMNS)                                                                                       \
  static void NAME(f32 *RS S, i64 lds, const f32 *RS A, i64 lda, const f32 *RS B, i64 dim, const f32 *next) {          \
    score_tile(R, COLUMNS, S, lds, A, lda, B, dim, next);                                                              \
  }
#define OF_HEIGHT(R)                                                                                                   \
  SCORES(scores##R, R, NV)                                                                                             \
  SCORES(thin_scores##R, R, 1)                                                                                         \
  static void sums##R(f32 *RS O, i64 ldo, const f32 *RS S, i64 lds, const f32 *RS B, i64 ldb, i64 keys) {              \
    sum_tile(R, O, ldo, S, lds, B, ldb, keys);                                                                         \
  }
EACH_HEIGHT(OF_HEIGHT)
#define SCORES_NAME(R) scores##R,
#define THIN_NAME(R) thin_scores##R,
#define SUMS_NAME(R) sums##R,
static void (*const scores[])(f32 *RS, i64, const f32 *RS, i64, const f32 *RS, i64, const f32 *) = {
    0, EACH_HEIGHT(SCORES_NAME)};
static void (*const thin_scores[])(f32 *RS, i64, const f32 *RS, i64, const f32 *RS, i64, const f32 *) = {
    0, EACH_HEIGHT(THIN_NAME)};
static void (*const sums[])(f32 *RS, i64, const f32 *RS, i64, const f32 *RS, i64, i64) = {0, EACH_HEIGHT(SUMS_NAME)};

void mx_lane_scores(f32 *S, i64 lds, const f32 *keys, i64 step, i64 count, const f32 *queries, i64 lanes, i64 dim,
                    const f32 *values, const f32 *soon) {
  const i64 groups = ceil_div(count, MR);
  for (i64 g = 0; g < groups; g++) {
    const i64 r = group_start(count, groups, g), rows = group_start(count, groups, g + 1) - r;
    const f32 *const key = keys + r * step, *next = g + 1 < groups ? key + rows * step : soon;
    for (i64 c = 0, n; c < lanes; c += n) {
      n = lanes - c < TW ? VW : TW; /* lanes are whole vectors */
      (n < TW ? thin_scores : scores)[rows](S + r * lds + c, lds, key, step, queries + c / MX_NR * MX_NR * dim + c % MX_NR,
                                            dim, next);
      next = c ? key : values + r * step;
    }
    for (i64 i = r; i < r + rows && lanes <= TW; i++) /* there was one tile, which asked for keys */
      for (i64 k = 0; k < dim; k += 16) __builtin_prefetch(values + i * step + k, 0, 2);
  }
}

#define AT_ONCE 128 /* lanes of weights */
static void weights(f32 *RS S, i64 lds, i64 count, i64 lanes, f32 *RS tops, f32 *RS totals, f32 *RS fades) {
  f32 most[AT_ONCE], less[AT_ONCE], added[AT_ONCE];
#pragma omp simd
  for (i64 n = 0; n < lanes; n++) most[n] = tops[n], added[n] = 0;
  for (i64 k = 0; k < count; k++)
#pragma omp simd
    for (i64 n = 0; n < lanes; n++) most[n] = S[k * lds + n] > most[n] ? S[k * lds + n] : most[n];
#pragma omp simd
  for (i64 n = 0; n < lanes; n++) { /* where nothing was seen, all of it counts as exp(-inf) */
    less[n] = most[n] == -__builtin_inff() ? 0 : most[n];
    fades[n] = mx_exp_quick_f32(tops[n] - less[n]);
    tops[n] = most[n];
  }
  for (i64 k = 0; k < count; k++)
    for (i64 c = 0; c < lanes; c += 16) {
      f32 *RS const s = S + k * lds + c, e[16];
#pragma omp simd
      for (i64 l = 0; l < 16; l++) e[l] = s[l] - less[c + l];
#ifdef __AVX512F__ /* of a vector as large as e, faster and nearer */
      mx_exp_lanes_f32(e);
#else
#pragma omp simd
      for (i64 l = 0; l < 16; l++) e[l] = mx_exp_quick_f32(e[l]);
#endif
#pragma omp simd
      for (i64 l = 0; l < 16; l++) s[l] = e[l], added[c + l] += e[l];
    }
#pragma omp simd
  for (i64 n = 0; n < lanes; n++) totals[n] = totals[n] * fades[n] + added[n];
}

void mx_lane_weights(f32 *S, i64 lds, i64 count, i64 lanes, f32 *tops, f32 *totals, f32 *fades) {
  for (i64 c = 0; c < lanes; c += AT_ONCE)
    weights(S + c, lds, count, min64(AT_ONCE, lanes - c), tops + c, totals + c, fades + c);
}

void mx_lane_sums(f32 *O, i64 ldo, const f32 *S, i64 lds, const f32 *values, i64 step, i64 count, i64 rows, i64 dim) {
  const i64 groups = ceil_div(rows, MR);
  for (i64 g = 0; g < groups; g++) {
    const i64 r = group_start(rows, groups, g), n = group_start(rows, groups, g + 1) - r;
    for (i64 c = 0; c < dim; c += TW) sums[n](O + r * ldo + c, ldo, S + r, lds, values + c, step, count);
  }
}
