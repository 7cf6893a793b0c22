/* attention.cuh - o = softmax(score(q k^T)) v; scores stay on the chip.
 *
 *   template <class CFG, class T>
 *   mx_attention(shared, q, q_row, q_col, k, k_row, k_col, v, v_row, v_col,
 *                batch, heads, tq, tk, dim, dim_v, score, last, store)
 *   mx_attention_decode(...)           the same arguments, for few queries
 *
 *   CFG              an mx_attention_tile or an mx_decode_tile below; CFG::THREADS threads, grid of any size; the
 *                    kernel says __launch_bounds__(CFG::THREADS, CFG::BLOCKS)
 *   T                f32, mx_bf16 or mx_f16 (tiles.cuh), of q, k and v; sums and scores are float32
 *   shared           CFG::SHARED bytes of shared memory, aligned to 16; above 48 KiB it has to be dynamic
 *   q(b, h), k(b, h), v(b, h)         const mx_stored<T> * to element [0][0] of a head; query heads that share keys
 *                                     divide h by their number
 *   q_row, q_col, ...                 strides in elements between tokens and along a head; q_col = 1, with rows and
 *                                     bases aligned to four elements, is the fast way
 *   dim <= D, dim_v <= DV             sizes of a head
 *   score(b, h, query, key, raw)      the score of q . k = raw: scale, mask, bias
 *   last(b, h, query)                 how many keys the queries up to `query` may see; keys from there on are not read
 *                                     for any query of a block whose last one is `query`. tk where nothing is causal
 *   store(b, h, query, d, value)      called exactly once for every element of the result
 *
 * One block makes BQ queries of a head and walks over the keys in blocks of BK (Milakov and Gimelshein 2018, "Online
 * normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention"):
 *
 *                  K: D x BK                                   m, l   maximum and sum of a row so far
 *                 +---------+                                  fade = exp(m_old - m_new)
 *     Q: D x BQ   | S = q k |  -> P = exp(score(S) - m)
 *                 +---------+                                  o = o fade + P v,  after the last block o / l
 *
 * Both products use the register tiles of tiles.cuh.  Three barriers a block of keys: S is there, P is there, P has
 * been read.  V is fetched ahead of S, the next K behind the second product.  Blocks with most keys start first.
 *
 * Infinities, as in kernels/c/attention.c.  A row whose scores so far are all -inf counts its maximum as 0 until a
 * finite score appears; if none does, 0/0 gives the NaN that the plain softmax gives.  NaN and +inf scores make their
 * row NaN.  Without any key at all (tk = 0) the result is 0.  Keys that `last` excludes are not read, so what they hold
 * does not matter; those that only `score` excludes take part with weight 0, and 0 times an infinite value is NaN.
 *
 * Cost of a block: 2 BQ (D + DV) flops for each key in sight, and D + DV elements read for it.  Whole D and DV count,
 * whatever dim and dim_v are.
 */
#pragma once

/* How a thread's part of a tile is shaped: as square as powers of two can be, columns before rows. */
__host__ __device__ constexpr int mx_square_rows(int elements) {
  int rows = 1;
  while (4 * rows * rows <= elements) rows *= 2;
  return rows;
}

template <int BQ_, int BK_, int D_, int DV_, int THREADS_ = 128> struct mx_attention_tile {
  static constexpr int BQ = BQ_, BK = BK_, D = D_, DV = DV_, THREADS = THREADS_;
  static constexpr int SHARED = 4 * (D * (BQ + 4) + D * (BK + 4) + BK * (DV + 4) + BK * (BQ + 4) + BQ);
  static constexpr int PARTS = THREADS / BQ; /* threads that share a row in the softmax */
  static_assert(BQ % 4 == 0 && BK % 4 == 0 && D % 4 == 0 && DV % 4 == 0, "groups of four");
  static_assert(BQ * DV <= SHARED / 4 - BQ, "the result has to fit where the panels were");
  static_assert(THREADS % BQ == 0 && PARTS <= 32 && (PARTS & (PARTS - 1)) == 0 && BK % PARTS == 0,
                "a row belongs to 1, 2, 4 ... threads of one warp");
  static constexpr int BLOCKS = mx_blocks(THREADS, BQ * BK / THREADS < 32 ? 168 : 255);
  static constexpr int SE = BQ * BK / THREADS, SM = mx_square_rows(SE), OE = BQ * DV / THREADS, OM = mx_square_rows(OE);
  typedef mx_registers<BQ, BK, SM, SE / SM> Scores;
  typedef mx_registers<BQ, DV, OM, OE / OM> Result;
};
/* By the size of a head.  Those for 128 and 256 need dynamic shared memory. */
typedef mx_attention_tile<64, 64, 16, 16> mx_attention_16;
typedef mx_attention_tile<64, 64, 32, 32> mx_attention_32;
typedef mx_attention_tile<64, 32, 64, 64> mx_attention_64;
typedef mx_attention_tile<64, 32, 128, 128> mx_attention_128;
typedef mx_attention_tile<32, 32, 256, 256> mx_attention_256;
/* For up to 16 queries, or so few heads that blocks of 64 queries would leave multiprocessors idle. */
typedef mx_attention_tile<16, 32, 32, 32, 64> mx_attention_32_short;
typedef mx_attention_tile<16, 32, 64, 64, 64> mx_attention_64_short;
typedef mx_attention_tile<16, 32, 128, 128, 64> mx_attention_128_short;

/* Where the exponent of a row is counted from, and how much of what was summed remains when it moves. */
MX_INLINE f32 mx_shift(f32 top) { return top == -MX_INFINITY ? 0.0f : top; }
MX_INLINE f32 mx_fade(f32 before, f32 top) { return before == top ? 1.0f : mx_exp_f32(before - mx_shift(top)); }

template <class CFG, class T, class Q, class K, class V, class SCORE, class LAST, class STORE>
MX_INLINE void mx_attention(void *shared, Q q, i64 q_row, i64 q_col, K k, i64 k_row, i64 k_col, V v, i64 v_row,
                            i64 v_col, i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, SCORE score, LAST last,
                            STORE store) {
  constexpr int BQ = CFG::BQ, BK = CFG::BK, PARTS = CFG::PARTS;
  typedef mx_panel<T, BQ, CFG::D, CFG::THREADS> Queries;
  typedef mx_panel<T, BK, CFG::D, CFG::THREADS> Keys;
  typedef mx_panel<T, CFG::DV, BK, CFG::THREADS> Values;
  constexpr int LP = BQ + 4;
  f32 *const qs = reinterpret_cast<f32 *>(shared), *const ks = qs + Queries::FLOATS, *const vs = ks + Keys::FLOATS;
  f32 *const ps = vs + Values::FLOATS, *const factor = ps + BK * LP;
  const int line = (int)threadIdx.x / PARTS, part = (int)threadIdx.x % PARTS; /* of the softmax */
  typename CFG::Scores s((int)threadIdx.x);
  typename CFG::Result o((int)threadIdx.x);
  const i64 blocks = mx_ceil_div(tq, BQ), count = batch * heads * blocks;
  for (i64 t = blockIdx.x; t < count; t += gridDim.x) {
    const i64 b = t / (heads * blocks), h = t / blocks % heads, q0 = (blocks - 1 - t % blocks) * BQ;
    const i64 limit = last(b, h, mx_least(q0 + BQ, tq) - 1), seen = limit < 0 ? 0 : mx_least(limit, tk);
    const mx_stored<T> *const keys = k(b, h);
    const Values values(v(b, h), v_col, v_row, 0, dim_v);
    f32 top = -MX_INFINITY, sum = 0.0f;
    o.clear();
    __syncthreads(); /* the result of the block before has been read */
    if (seen > 0) {
      Queries(q(b, h), q_row, q_col, q0, tq).copy(qs, 0, dim);
      Keys(keys, k_row, k_col, 0, seen).copy(ks, 0, dim);
    }
    __syncthreads();
    for (i64 j0 = 0; j0 < seen; j0 += BK) {
      values.copy(vs, j0, seen - j0);
      s.clear();
      s.add(qs, Queries::LD, ks, Keys::LD, (int)dim);
      s.put_transposed(ps, LP);
      __syncthreads();

      f32 *const p = ps + part * LP + line; /* every PARTS-th key of this thread's row */
      f32 high = -MX_INFINITY, total = 0.0f;
#if defined(__CUDACC__)
#pragma unroll 4
#endif
      for (int j = 0; j < BK; j += PARTS) {
        const i64 key = j0 + part + j;
        const f32 x = q0 + line < tq && key < seen ? score(b, h, q0 + line, key, p[j * LP]) : -MX_INFINITY;
        p[j * LP] = x;
        high = fmaxf(high, x);
      }
      MX_UNROLL
      for (int apart = PARTS / 2; apart; apart /= 2) high = fmaxf(high, __shfl_xor_sync(MX_FULL_WARP, high, apart));
      high = fmaxf(high, top);
      const f32 shift = mx_shift(high);
#if defined(__CUDACC__)
#pragma unroll 4
#endif
      for (int j = 0; j < BK; j += PARTS) {
        const f32 weight = mx_exp_f32(p[j * LP] - shift);
        p[j * LP] = weight;
        total += weight;
      }
      MX_UNROLL
      for (int apart = PARTS / 2; apart; apart /= 2) total += __shfl_xor_sync(MX_FULL_WARP, total, apart);
      const f32 fade = mx_fade(top, high);
      sum = sum * fade + total;
      top = high;
      if (part == 0) factor[line] = fade;
      __syncthreads();

      o.scale(factor);
      o.add(ps, LP, vs, Values::LD, BK);
      if (j0 + BK < seen) Keys(keys, k_row, k_col, j0 + BK, seen).copy(ks, 0, dim);
      __syncthreads();
    }
    if (part == 0) factor[line] = tk > 0 ? 1.0f / sum : 0.0f;
    __syncthreads();
    o.scale(factor);
    o.template put<1>(qs, 0); /* over the queries, which nobody needs any more */
    __syncthreads();
    mx_each<BQ, CFG::DV, 1, CFG::THREADS>(qs, (int)mx_least(tq - q0, BQ), (int)dim_v,
                                          [&](int r, int d, f32 value) { store(b, h, q0 + r, d, value); });
  }
}

/* ---- few queries ------------------------------------------------------------------------------------------------- */
/* A block for each query of each head.  Its warps take the keys by turns, 32 at a time, and know nothing of each other
 * until the end, when their maxima, sums and results are merged:
 *
 *     scores   8 lanes read one key, 16 bytes each, 8 keys in a row; the sums of the lanes are exchanged by halves, and
 *              each lane has the score of one key
 *     values   lanes are the columns of v, 4 each; the weights are passed through shared memory
 *
 * Every byte of k and v is read once for each query head. */
template <int D_, int DV_, int THREADS_ = 256> struct mx_decode_tile {
  static constexpr int D = D_, DV = DV_, THREADS = THREADS_, WARPS = THREADS / 32, BLOCKS = mx_blocks(THREADS, 168);
  static constexpr int LANES = DV / 4 < 32 ? DV / 4 : 32, AT_ONCE = 32 / LANES; /* lanes for a row of v; rows at once */
  static constexpr int SHARED = 4 * (WARPS * 32 + D + WARPS * AT_ONCE * DV + 2 * WARPS);
  static_assert(DV <= 256 && D % 32 == 0 && (DV & (DV - 1)) == 0 && DV >= 4, "whole groups of lanes");
};
typedef mx_decode_tile<32, 32> mx_decode_32;
typedef mx_decode_tile<64, 64> mx_decode_64;
typedef mx_decode_tile<128, 128> mx_decode_128;
typedef mx_decode_tile<256, 256> mx_decode_256;

template <class CFG, class T, class Q, class K, class V, class SCORE, class LAST, class STORE>
MX_INLINE void mx_attention_decode(void *shared, Q q, i64 q_row, i64 q_col, K k, i64 k_row, i64 k_col, V v, i64 v_row,
                                   i64 v_col, i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, SCORE score,
                                   LAST last, STORE store) {
  constexpr int WARPS = CFG::WARPS, DV = CFG::DV, LANES = CFG::LANES, AT_ONCE = CFG::AT_ONCE;
  constexpr int GROUPS = DV / 4 / LANES; /* of a row of v, for one lane */
  const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
  f32 *const weights = reinterpret_cast<f32 *>(shared) + warp * 32; /* of this warp */
  f32 *const qs = reinterpret_cast<f32 *>(shared) + WARPS * 32, *const results = qs + CFG::D;
  f32 *const tops = results + WARPS * AT_ONCE * DV, *const sums = tops + WARPS;
  for (i64 t = blockIdx.x; t < batch * heads * tq; t += gridDim.x) {
    const i64 b = t / (heads * tq), h = t / tq % heads, query = t % tq;
    const i64 limit = last(b, h, query), seen = limit < 0 ? 0 : mx_least(limit, tk);
    const mx_stored<T> *const keys = k(b, h), *const values = v(b, h), *const own = q(b, h) + query * q_row;
    const bool k_vector = k_col == 1 && mx_quads<T>(keys, k_row), v_vector = v_col == 1 && mx_quads<T>(values, v_row);
    for (int d = (int)threadIdx.x; d < CFG::D; d += CFG::THREADS) qs[d] = d < dim ? mx_load<T>(own + d * q_col) : 0.0f;
    __syncthreads(); /* and the results of the query before have been read */
    f32 top = -MX_INFINITY, sum = 0.0f, o[GROUPS][4];
    MX_UNROLL
    for (int e = 0; e < GROUPS * 4; e++) o[e / 4][e % 4] = 0.0f;
    for (i64 j0 = warp * 32; j0 < seen; j0 += WARPS * 32) {
      f32 dots[8];
      MX_UNROLL
      for (int i = 0; i < 8; i++) dots[i] = 0.0f;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
      for (int d = lane % 8 * 4; d < CFG::D; d += 32) {
        const float4 u = *reinterpret_cast<const float4 *>(qs + d);
        f32 x[8][4]; /* all of them under way before the first is used */
        MX_UNROLL
        for (int i = 0; i < 8; i++) {
          const i64 key = j0 + lane / 8 * 8 + i;
          mx_group<T>(x[i], keys + key * k_row, k_col, d, key < seen ? dim : 0, k_vector);
        }
        MX_UNROLL
        for (int i = 0; i < 8; i++)
          dots[i] = fmaf(u.x, x[i][0], fmaf(u.y, x[i][1], fmaf(u.z, x[i][2], fmaf(u.w, x[i][3], dots[i]))));
      }
      const f32 raw = mx_warp_sums<8, 4>(dots);
      const f32 s = j0 + lane < seen ? score(b, h, query, j0 + lane, raw) : -MX_INFINITY;
      f32 high = s;
      MX_UNROLL
      for (int apart = 16; apart; apart /= 2) high = fmaxf(high, __shfl_xor_sync(MX_FULL_WARP, high, apart));
      high = fmaxf(high, top);
      const f32 weight = mx_exp_f32(s - mx_shift(high)), fade = mx_fade(top, high);
      sum = sum * fade + weight; /* of this lane's keys */
      top = high;
      __syncwarp(); /* the weights before have been read */
      weights[lane] = weight;
      __syncwarp();
      MX_UNROLL
      for (int e = 0; e < GROUPS * 4; e++) o[e / 4][e % 4] *= fade;
#if defined(__CUDACC__)
#pragma unroll(4 / GROUPS)
#endif
      for (int i = lane / LANES; i < 32; i += AT_ONCE) {
        const i64 n = j0 + i < seen ? dim_v : 0;
        MX_UNROLL
        for (int e = 0; e < GROUPS; e++) {
          f32 x[4];
          mx_group<T>(x, values + (j0 + i) * v_row, v_col, (e * LANES + lane % LANES) * 4, n, v_vector);
          MX_UNROLL
          for (int c = 0; c < 4; c++) o[e][c] = fmaf(weights[i], x[c], o[e][c]);
        }
      }
    }
    MX_UNROLL
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(MX_FULL_WARP, sum, apart);
    if (lane == 0) tops[warp] = top, sums[warp] = sum;
    MX_UNROLL
    for (int e = 0; e < GROUPS; e++)
      *reinterpret_cast<float4 *>(results + (warp * AT_ONCE + lane / LANES) * DV + (e * LANES + lane % LANES) * 4) =
          make_float4(o[e][0], o[e][1], o[e][2], o[e][3]);
    __syncthreads();
    f32 highest = -MX_INFINITY, total = 0.0f;
    for (int w = 0; w < WARPS; w++) highest = fmaxf(highest, tops[w]);
    for (int w = 0; w < WARPS; w++) total += sums[w] * mx_fade(tops[w], highest);
    for (int d = (int)threadIdx.x; d < dim_v; d += CFG::THREADS) {
      f32 value = 0.0f;
      for (int w = 0; w < WARPS; w++) {
        f32 part = 0.0f;
        for (int i = 0; i < AT_ONCE; i++) part += results[(w * AT_ONCE + i) * DV + d];
        value += part * mx_fade(tops[w], highest);
      }
      store(b, h, query, d, tk > 0 ? value / total : 0.0f);
    }
  }
}
