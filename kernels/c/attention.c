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
 * The two products use the GEMM's register tiles, so k^T is packed into panels per block, and v too or read where it is:
 * k^T can only be read where it is as the rows of the product k q^T, which is then turned.  Consecutive query
 * blocks of one head reuse them where all of them are kept (MX_PACKED_ONCE, or one block).  For up to FEW queries (generating text: one) packing would cost more than the
 * products: k and v are then read in place, by dot products and by scaled additions.
 *
 * Infinities.  A row whose scores so far are all -inf must not poison the rows of later blocks (-inf - -inf is NaN), so
 * its maximum counts as 0 until a finite score appears.  If none does, l stays 0 and 0/0 gives the NaN that the plain
 * softmax of such a row gives.  NaN or +inf scores turn their row into NaN, also as in the plain softmax.
 */
#include "mx_abi.h"

#define KB 512 /* keys per block */
#define QB 96  /* most queries per item */
#define FEW 4  /* up to this many queries neither k nor v is packed */
/* The guess, as long as nobody has measured: */
#define SHORT 8          /* more queries than that fill a good part of a vector, and keys may be rows of a product */
#define HELD (512 << 10) /* floats of packed keys that are kept for the other queries of a head */

static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 round_up(i64 a, i64 unit) { return (a + unit - 1) / unit * unit; }

typedef struct layout { /* the parts of the scratch, in floats from its start */
  i64 lds, k_step, v_step; /* from one row of S, one packed block of k or v, to the next */
  i64 s, kp, vp, max, sum, end;
} layout;

static layout lay_out(i64 tk, i64 dim, i64 dim_v, const i64 *plan) {
  const i64 qb = plan[0], way = plan[2], kb = round_up(least(tk, plan[1]), 16), across = round_up(qb, 16);
  const i64 held = way & MX_PACKED_ONCE ? (tk + plan[1] - 1) / plan[1] : 1; /* blocks that are packed at the same time */
  layout l;
  l.lds = kb + 16; /* the length of a row of S: not a power of two, see gemm.c, and a multiple of 32 above the keys fits in */
  l.s = 0;
  l.kp = l.s + qb * l.lds;
  l.k_step = way & MX_KEYS_IN_PLACE ? 0 : mx_pack_b_size(dim, kb);
  l.v_step = way & MX_VALUES_IN_PLACE ? 0 : mx_pack_b_size(kb, dim_v);
  l.vp = l.kp + (l.k_step ? round_up(held * l.k_step, 16) : mx_pack_b_size(dim, qb) + kb * across);
  l.max = l.vp + (l.v_step ? round_up(held * l.v_step, 16) : kb * MX_NR);
  l.sum = l.max + round_up(qb, 16);
  l.end = l.sum + round_up(qb, 16);
  return l;
}

void mx_attention_cut(i64 batch, i64 heads, i64 tq, i64 nthreads, i64 most, i64 *qb) {
  const i64 rows = tq < 1 ? 1 : tq;
  i64 blocks = (rows + most - 1) / most;
  while (batch * heads * blocks < 2 * nthreads && rows > 12 * blocks) blocks++; /* something for every thread */
  *qb = (rows + blocks - 1) / blocks;
}

i64 mx_attention_scratch(i64 tk, i64 dim, i64 dim_v, const i64 *plan) { return 4 * lay_out(tk, dim, dim_v, plan).end; }

i64 mx_attention_plan(i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, i64 nthreads, i64 *plan) {
  (void)dim_v;
  mx_attention_cut(batch, heads, tq, nthreads, QB, plan);
  plan[1] = KB, plan[2] = MX_VALUES_IN_PLACE;
  if (tq > SHORT && tq <= MX_NR) plan[2] |= MX_KEYS_IN_PLACE;
  else if (tq > plan[0] && tk > KB && tk * dim <= HELD) plan[2] |= MX_PACKED_ONCE;
  return tq < 1 ? 0 : batch * heads * ((tq + plan[0] - 1) / plan[0]);
}

/* S[i][j] = q_i . k_j without packing */
static void few_scores(f32 *S, i64 lds, const f32 *q, i64 qs, const f32 *k, i64 ks, i64 rows, i64 keys, i64 dim) {
  for (i64 j = 0; j < keys; j++)
    for (i64 i = 0; i < rows; i++) S[i * lds + j] = mx_dot_f32(q + i * qs, k + j * ks, dim);
}

/* o_i (+)= sum_j P[i][j] v_j without packing */
static void few_values(f32 *o, i64 os, const f32 *P, i64 lds, const f32 *v, i64 vs, i64 rows, i64 keys, i64 dim_v,
                       int first) {
  for (i64 i = 0; i < rows; i++) {
    f32 *RS out = o + i * os;
    for (i64 x = 0; first && x < dim_v; x++) out[x] = 0;
    i64 j = 0;
    for (; j + 4 <= keys; j += 4) { /* four keys per pass over o */
      const f32 *RS p = P + i * lds + j, *RS b = v + j * vs;
      f32 p0 = p[0], p1 = p[1], p2 = p[2], p3 = p[3];
#pragma omp simd
      for (i64 x = 0; x < dim_v; x++)
        out[x] = out[x] + p0 * b[x] + p1 * b[vs + x] + p2 * b[2 * vs + x] + p3 * b[3 * vs + x];
    }
    for (; j < keys; j++) {
      const f32 *RS b = v + j * vs;
      f32 p = P[i * lds + j];
#pragma omp simd
      for (i64 x = 0; x < dim_v; x++) out[x] += p * b[x];
    }
  }
}

typedef f32 v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef i32 m4 __attribute__((vector_size(16)));

/* S[i][j] = T[j][i], where rows of T are `across` floats, a multiple of 4 */
static void turn(f32 *RS S, i64 lds, const f32 *RS T, i64 across, i64 rows, i64 keys) {
  i64 j = 0;
  for (; j + 4 <= keys; j += 4)
    for (i64 i = 0; i < rows; i += 4) {
      const f32 *RS t = T + j * across + i;
      const v4 r0 = *(const v4 *)t, r1 = *(const v4 *)(t + across);
      const v4 r2 = *(const v4 *)(t + 2 * across), r3 = *(const v4 *)(t + 3 * across);
      const v4 lo01 = MX_SHUFFLE(m4, r0, r1, 0, 4, 1, 5), hi01 = MX_SHUFFLE(m4, r0, r1, 2, 6, 3, 7);
      const v4 lo23 = MX_SHUFFLE(m4, r2, r3, 0, 4, 1, 5), hi23 = MX_SHUFFLE(m4, r2, r3, 2, 6, 3, 7);
      const i64 n = rows - i;
      f32 *RS s = S + i * lds + j;
      *(v4 *)s = MX_SHUFFLE(m4, lo01, lo23, 0, 1, 4, 5);
      if (n > 1) *(v4 *)(s + lds) = MX_SHUFFLE(m4, lo01, lo23, 2, 3, 6, 7);
      if (n > 2) *(v4 *)(s + 2 * lds) = MX_SHUFFLE(m4, hi01, hi23, 0, 1, 4, 5);
      if (n > 3) *(v4 *)(s + 3 * lds) = MX_SHUFFLE(m4, hi01, hi23, 2, 3, 6, 7);
    }
  for (; j < keys; j++)
    for (i64 i = 0; i < rows; i++) S[i * lds + j] = T[j * across + i];
}

static inline void larger_of(f32 *RS most, const f32 *RS s) {
#pragma omp simd
  for (i64 l = 0; l < 16; l++) most[l] = s[l] > most[l] ? s[l] : most[l];
}

/* s * scale in place, filled up to pairs of vectors with -inf; the largest of them.  NaN counts as nothing here: it comes back
 * in the exponentials. */
static f32 scaled_max(f32 *RS s, i64 keys, f32 scale) {
  f32 one[16], two[16];
  i64 j = 0;
#pragma omp simd
  for (i64 l = 0; l < 16; l++) one[l] = two[l] = -__builtin_inff();
  for (; j + 32 <= keys; j += 32) {
#pragma omp simd
    for (i64 l = 0; l < 32; l++) s[j + l] *= scale;
    larger_of(one, s + j);
    larger_of(two, s + j + 16);
  }
  if (j < keys) {
#pragma omp simd
    for (i64 i = j; i < keys; i++) s[i] *= scale;
    for (i64 i = keys; i < j + 32; i++) s[i] = -__builtin_inff();
    larger_of(one, s + j);
    larger_of(two, s + j + 16);
  }
  larger_of(one, two);
  return mx_row_max_f32(one, 16);
}

/* s becomes exp(s - shift); their sum. */
static f32 exponentials(f32 *RS s, i64 whole, f32 shift) {
  mx_v16 sum = {0};
  for (i64 j = 0; j < whole; j += 16) {
    f32 e[16];
#ifdef __AVX512F__ /* of a vector as large as e, faster and nearer */
#pragma omp simd
    for (i64 l = 0; l < 16; l++) e[l] = s[j + l] - shift;
    mx_exp_lanes_f32(e);
#else
#pragma omp simd
    for (i64 l = 0; l < 16; l++) e[l] = mx_exp_quick_f32(s[j + l] - shift);
#endif
    *(mx_v16 *)(s + j) = *(mx_v16 *)e;
    sum += *(mx_v16 *)e;
  }
  return mx_lanes_sum(sum);
}

/* One row of S becomes exp(S * scale - max); the running maximum, sum and output row are brought along.  What fills the row up
 * to whole vectors adds 0 to the sum. */
static void softmax_row(f32 *RS s, i64 keys, f32 scale, int first, f32 *max, f32 *sum, f32 *RS o, i64 dim_v) {
  f32 m = scaled_max(s, keys, scale);
  if (!first && *max > m) m = *max;
  f32 shift = m == -__builtin_inff() ? 0.0f : m;
  f32 total = exponentials(s, round_up(keys, 16), shift);
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
  const i64 qb = a->plan[0], kb = least(a->tk, a->plan[1]), way = a->plan[2];
  const layout at = lay_out(a->tk, a->dim, a->dim_v, a->plan);
  const i64 lds = at.lds, across = round_up(qb, 16);
  f32 *scratch = ctx->scratch, *S = scratch + at.s, *packs = scratch + at.kp, *v_packs = scratch + at.vp;
  f32 *max = scratch + at.max, *sum = scratch + at.sum, *turned = packs + mx_pack_b_size(a->dim, qb);
  const i64 blocks = (a->tq + qb - 1) / qb, group = a->group < 1 ? 1 : a->group;
  const int few = a->tq <= FEW, k_packed = !few && !(way & MX_KEYS_IN_PLACE), v_packed = !few && !(way & MX_VALUES_IN_PLACE);
  const int once = a->tk <= kb || way & MX_PACKED_ONCE;
  const f32 *packed = 0; /* the k whose blocks are packed, all of them */
  i64 left = MX_ASKED;

  for (i64 item = lo; item < hi; item++) {
    i64 head = item / blocks % a->heads, batch = item / blocks / a->heads;
    i64 q0 = item % blocks * qb, rows = least(qb, a->tq - q0), q1 = q0 + rows;
    const f32 *q = a->q + batch * a->qs[0] + head * a->qs[1] + q0 * a->qs[2];
    const f32 *k = a->k + batch * a->ks[0] + head / group * a->ks[1];
    const f32 *v = a->v + batch * a->vs[0] + head / group * a->vs[1];
    f32 *o = a->o + batch * a->os[0] + head * a->os[1] + q0 * a->os[2];

    if (!few && !k_packed) mx_pack_b_f32(packs, q, a->dim, rows, 1, a->qs[2], 0, (rows + MX_NR - 1) / MX_NR);
    for (i64 j0 = 0; j0 < a->tk; j0 += kb) {
      i64 keys = least(kb, a->tk - j0);
      const f32 *kj = k + j0 * a->ks[2], *vj = v + j0 * a->vs[2];
      if (mx_over(ctx, &left, (rows + 16) * keys * (a->dim + a->dim_v + 16))) return MX_STOPPED;
      const int first = j0 == 0;
      f32 *const kp = once ? packs + j0 / kb * at.k_step : packs, *const vp = v_packs + (once ? j0 / kb * at.v_step : 0);
      if (k_packed && packed != k) mx_pack_b_f32(kp, kj, a->dim, keys, 1, a->ks[2], 0, (keys + MX_NR - 1) / MX_NR);
      if (v_packed && packed != k)
        mx_pack_b_f32(vp, vj, keys, a->dim_v, a->vs[2], 1, 0, (a->dim_v + MX_NR - 1) / MX_NR);
      if (few)
        few_scores(S, lds, q, a->qs[2], kj, a->ks[2], rows, keys, a->dim);
      else if (k_packed)
        mx_gemm_block(S, lds, q, a->qs[2], kp, rows, keys, a->dim, 1, 0);
      else {
        mx_gemm_block(turned, across, kj, a->ks[2], kp, keys, round_up(rows, 16), a->dim, 1, 0);
        turn(S, lds, turned, across, rows, keys);
      }
      if (score) {
        int code = score(b, d, S, lds, batch, head, q0, q1, j0, j0 + keys, ctx);
        if (code) return code;
      }
      for (i64 i = 0; i < rows; i++)
        softmax_row(S + i * lds, keys, score ? 1.0f : a->scale, first, &max[i], &sum[i], o + i * a->os[2], a->dim_v);
      if (few)
        few_values(o, a->os[2], S, lds, vj, a->vs[2], rows, keys, a->dim_v, first);
      else if (v_packed)
        mx_gemm_block(o, a->os[2], S, lds, vp, rows, a->dim_v, keys, first, 0);
      else
        mx_rows_block(o, a->os[2], S, lds, vj, a->vs[2], rows, a->dim_v, keys, first, vp);
    }
    if (once) packed = k;
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

int mx_k_attention(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  const i64 heads = d[0], tq = d[1], tk = d[2], dim = d[3], dim_v = d[4];
  const mx_attention a = {.q = b[1], .k = b[2], .v = b[3], .o = b[0],
                          .qs = {0, tq * dim, dim}, .ks = {0, tk * dim, dim}, .vs = {0, tk * dim_v, dim_v},
                          .os = {0, tq * dim_v, dim_v}, .batch = 1, .heads = heads, .group = 1,
                          .tq = tq, .tk = tk, .dim = dim, .dim_v = dim_v, .plan = d + 5, .scale = 1.0f};
  return mx_attention_f32(&a, lo, hi, 0, b, d, ctx);
}
