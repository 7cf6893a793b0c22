// maxlab-flags: -O2
/* attention.c - o = softmax(score(q k^T)) v for one block of queries at a time; the score matrix never goes to memory.
 *
 * One item of the parallel axis is (batch, head, block of up to qb queries).  It walks over the keys in blocks of KB:
 *
 *                 keys j0 .. j0+KB
 *               +-----------------+
 *   qb queries  |  S = q k^T      |   score callback (scale, mask, ...) changes S in place
 *               |  P = exp(S - m) |   m: running maximum of each row
 *               +-----------------+
 *                       |  P v                     l: running sum of each row
 *                       v
 *   o (qb x dim_v)  =  o * exp(m_old - m_new) + P v;   after the last block: o / l
 *
 * With one block (tk <= KB) this is the plain softmax: the correction factor is never used.  S (64 x 512 floats,
 * 132 KiB) and the packed block of k and v stay in L2.
 *
 * The two products use the GEMM's register tiles, so k^T and v are packed into panels per block; consecutive query
 * blocks of one head reuse them.  For up to FEW queries (generating text: one) packing would cost more than the
 * products: k and v are then read in place, by dot products and by scaled additions.
 *
 * Infinities.  A row whose scores so far are all -inf must not poison the rows of later blocks (-inf - -inf is NaN), so
 * its maximum counts as 0 until a finite score appears.  If none does, l stays 0 and 0/0 gives the NaN that the plain
 * softmax of such a row gives.  NaN or +inf scores turn their row into NaN, also as in the plain softmax.
 */
#include "mx_abi.h"

#define KB 512        /* keys per block */
#define QB 96         /* most queries per item */
#define FEW 4         /* up to this many queries k and v are not packed */
#define LDS (KB + 16) /* row length of S: not a power of two, see gemm.c */

static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 round_up(i64 a, i64 unit) { return (a + unit - 1) / unit * unit; }

typedef struct layout { /* the parts of the scratch, in floats from its start */
  i64 s, kp, vp, max, sum, end;
} layout;

static layout lay_out(i64 tk, i64 dim, i64 dim_v, i64 qb) {
  i64 kb = least(tk, KB);
  layout l;
  l.s = 0;
  l.kp = l.s + qb * LDS;
  l.vp = l.kp + round_up(mx_pack_b_size(dim, kb), 16);
  l.max = l.vp + round_up(mx_pack_b_size(kb, dim_v), 16);
  l.sum = l.max + round_up(qb, 16);
  l.end = l.sum + round_up(qb, 16);
  return l;
}

i64 mx_attention_plan(i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, i64 nthreads, i64 *qb) {
  (void)tk, (void)dim, (void)dim_v;
  i64 rows = tq < 1 ? 1 : tq, blocks = (rows + QB - 1) / QB;
  while (batch * heads * blocks < 2 * nthreads && rows > 12 * blocks) blocks++; /* something for every thread */
  *qb = (rows + blocks - 1) / blocks;
  return tq < 1 ? 0 : batch * heads * ((tq + *qb - 1) / *qb);
}

i64 mx_attention_scratch(i64 tq, i64 tk, i64 dim, i64 dim_v, i64 qb) {
  (void)tq;
  return 4 * lay_out(tk, dim, dim_v, qb).end;
}

/* S[i][j] = q_i . k_j without packing */
static void few_scores(f32 *S, const f32 *q, i64 qs, const f32 *k, i64 ks, i64 rows, i64 keys, i64 dim) {
  for (i64 j = 0; j < keys; j++)
    for (i64 i = 0; i < rows; i++) S[i * LDS + j] = mx_dot_f32(q + i * qs, k + j * ks, dim);
}

/* o_i (+)= sum_j P[i][j] v_j without packing */
static void few_values(f32 *o, i64 os, const f32 *P, const f32 *v, i64 vs, i64 rows, i64 keys, i64 dim_v, int first) {
  for (i64 i = 0; i < rows; i++) {
    f32 *RS out = o + i * os;
    for (i64 x = 0; first && x < dim_v; x++) out[x] = 0;
    i64 j = 0;
    for (; j + 4 <= keys; j += 4) { /* four keys per pass over o */
      const f32 *RS p = P + i * LDS + j, *RS b = v + j * vs;
      f32 p0 = p[0], p1 = p[1], p2 = p[2], p3 = p[3];
#pragma omp simd
      for (i64 x = 0; x < dim_v; x++)
        out[x] = out[x] + p0 * b[x] + p1 * b[vs + x] + p2 * b[2 * vs + x] + p3 * b[3 * vs + x];
    }
    for (; j < keys; j++) {
      const f32 *RS b = v + j * vs;
      f32 p = P[i * LDS + j];
#pragma omp simd
      for (i64 x = 0; x < dim_v; x++) out[x] += p * b[x];
    }
  }
}

/* One row of S becomes exp(S - max); the running maximum, sum and output row are brought along.  The row is first
 * filled up to whole vectors with -inf, which add 0 to the sum. */
static void softmax_row(f32 *RS s, i64 keys, int first, f32 *max, f32 *sum, f32 *RS o, i64 dim_v) {
  i64 whole = round_up(keys, 16);
  for (i64 j = keys; j < whole; j++) s[j] = -__builtin_inff();
  f32 m = mx_row_max_f32(s, whole);
  if (!first && *max > m) m = *max;
  f32 shift = m == -__builtin_inff() ? 0.0f : m;
#pragma omp simd
  for (i64 j = 0; j < whole; j++) s[j] = mx_exp_f32(s[j] - shift);
  f32 total = mx_row_sum_f32(s, whole);
  if (!first) {
    f32 fade = *max == m ? 1.0f : mx_exp_f32(*max - shift);
    total += *sum * fade;
    if (fade != 1.0f) {
#pragma omp simd
      for (i64 x = 0; x < dim_v; x++) o[x] *= fade;
    }
  }
  *max = m;
  *sum = total;
}

int mx_attention_f32(const mx_attention *a, i64 lo, i64 hi, mx_score score, void *const *b, const i64 *d, mx_ctx *ctx) {
  layout at = lay_out(a->tk, a->dim, a->dim_v, a->qb);
  f32 *scratch = ctx->scratch, *S = scratch + at.s, *kp = scratch + at.kp, *vp = scratch + at.vp;
  f32 *max = scratch + at.max, *sum = scratch + at.sum;
  i64 blocks = (a->tq + a->qb - 1) / a->qb, group = a->group < 1 ? 1 : a->group;
  const f32 *packed = 0; /* the k whose only block kp and vp hold */
  i64 left = MX_ASKED;

  for (i64 item = lo; item < hi; item++) {
    i64 head = item / blocks % a->heads, batch = item / blocks / a->heads;
    i64 q0 = item % blocks * a->qb, rows = least(a->qb, a->tq - q0), q1 = q0 + rows;
    const f32 *q = a->q + batch * a->qs[0] + head * a->qs[1] + q0 * a->qs[2];
    const f32 *k = a->k + batch * a->ks[0] + head / group * a->ks[1];
    const f32 *v = a->v + batch * a->vs[0] + head / group * a->vs[1];
    f32 *o = a->o + batch * a->os[0] + head * a->os[1] + q0 * a->os[2];

    for (i64 j0 = 0; j0 < a->tk; j0 += KB) {
      i64 keys = least(KB, a->tk - j0);
      const f32 *kj = k + j0 * a->ks[2], *vj = v + j0 * a->vs[2];
      if (mx_over(ctx, &left, (rows + 16) * keys * (a->dim + a->dim_v + 16))) return MX_STOPPED;
      int first = j0 == 0, few = rows <= FEW, reuse = packed == k && a->tk <= KB;
      if (!few && !reuse) {
        mx_pack_b_f32(kp, kj, a->dim, keys, 1, a->ks[2], 0, (keys + MX_NR - 1) / MX_NR);
        mx_pack_b_f32(vp, vj, keys, a->dim_v, a->vs[2], 1, 0, (a->dim_v + MX_NR - 1) / MX_NR);
        packed = k;
      }
      if (few)
        few_scores(S, q, a->qs[2], kj, a->ks[2], rows, keys, a->dim);
      else
        mx_gemm_block(S, LDS, q, a->qs[2], kp, rows, keys, a->dim, 1, 0);
      if (score) {
        int code = score(b, d, S, LDS, batch, head, q0, q1, j0, j0 + keys, ctx);
        if (code) return code;
      }
      for (i64 i = 0; i < rows; i++) {
        f32 *RS s = S + i * LDS;
        if (!score)
#pragma omp simd
          for (i64 j = 0; j < keys; j++) s[j] *= a->scale;
        softmax_row(s, keys, first, &max[i], &sum[i], o + i * a->os[2], a->dim_v);
      }
      if (few)
        few_values(o, a->os[2], S, vj, a->vs[2], rows, keys, a->dim_v, first);
      else
        mx_gemm_block(o, a->os[2], S, LDS, vp, rows, a->dim_v, keys, first, 0);
    }
    for (i64 i = 0; i < rows; i++) { /* no keys at all: an empty sum, 0 */
      f32 *RS out = o + i * a->os[2], inverse = a->tk > 0 ? 1.0f / sum[i] : 0.0f;
      if (a->tk > 0) {
#pragma omp simd
        for (i64 x = 0; x < a->dim_v; x++) out[x] *= inverse;
      } else
        for (i64 x = 0; x < a->dim_v; x++) out[x] = 0;
    }
  }
  return 0;
}
