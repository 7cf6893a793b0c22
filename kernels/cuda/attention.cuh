/* attention.cuh - o = softmax(score(q k^T)) v; scores stay on the chip.
 *
 *   template <class CFG, class T>
 *   mx_attention(shared, q, q_row, q_col, k, k_row, k_col, v, v_row, v_col,
 *                batch, heads, tq, tk, dim, dim_v, score, last, store)
 *   mx_attention_decode(...)           the same arguments and one more, for few queries
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
 * normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention").  Threads are a grid, 16 of them a row, which
 * are half a warp; row y makes TM queries, of these every 16th score and some columns of the result:
 *
 *                K: BK x D                V: BK x DV
 *               +---------+              +---------+      top, sum  of a row so far, the same in its 16 threads
 *   Q: BQ x D   | S = q k |  -> P: BK x BQ -> | P v |     fade = exp(top before - top)
 *               +---------+              +---------+      o = o fade + P v,  after the last block o / sum
 *
 * The weights P go through shared memory, but only between the 16 threads of a row of the grid, whose warp alone waits
 * for them.  Keys and values come by asynchronous copies: the values while scores are made, the next keys while results
 * are, so that there are two barriers a block of keys and room for large ones.  Rows of Q and K are 4 longer than a
 * head and are read 4 elements at a time: 8 neighbouring lanes with 8 keys meet no bank twice.  Operands of 16 bits
 * become float32 on their way.  Blocks with most keys start first.
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

template <int BQ_, int BK_, int D_, int DV_, int THREADS_> struct mx_attention_tile {
  static constexpr int BQ = BQ_, BK = BK_, D = D_, DV = DV_, THREADS = THREADS_;
  static constexpr int TM = BQ / (THREADS / 16), TN = BK / 16, TV = DV / 16; /* queries, keys, columns of a thread */
  static constexpr int VM = TM < 4 ? TM : 4, VN = TV < 4 ? TV : 4;           /* read at once */
  static constexpr int LD = D + 4, LP = BQ + 4;
  static constexpr int SHARED = 4 * (BQ * LD + BK * LP + BK * (LD + DV));
  static constexpr int BLOCKS = mx_blocks(THREADS, TM * TN + TM * TV < 48 ? 168 : 255);
  static_assert(BQ == TM * (THREADS / 16) && BK == 16 * TN && DV == 16 * TV && D % 4 == 0, "threads fill the tile");
  static_assert(TM % VM == 0 && VM != 3 && TV % VN == 0 && VN != 3, "whole strips");
  static_assert(4 * BQ * DV <= SHARED, "the result has to fit where the panels were");
};
/* By the size of a head.  Most need dynamic shared memory. */
typedef mx_attention_tile<64, 64, 16, 16, 128> mx_attention_16;
typedef mx_attention_tile<64, 64, 32, 32, 128> mx_attention_32;
typedef mx_attention_tile<128, 128, 64, 64, 256> mx_attention_64;
typedef mx_attention_tile<128, 64, 128, 128, 256> mx_attention_128;
typedef mx_attention_tile<32, 32, 256, 256, 128> mx_attention_256;
/* For fewer heads, and for multiprocessors with less shared memory. */
typedef mx_attention_tile<64, 64, 64, 64, 128> mx_attention_64_few;
typedef mx_attention_tile<64, 32, 128, 128, 128> mx_attention_128_few;
/* For up to 16 queries, or so few heads that blocks of 64 queries would leave multiprocessors idle. */
typedef mx_attention_tile<16, 32, 32, 32, 64> mx_attention_32_short;
typedef mx_attention_tile<16, 32, 64, 64, 64> mx_attention_64_short;
typedef mx_attention_tile<16, 32, 128, 128, 64> mx_attention_128_short;

/* Powers, and the factor that makes theirs of a score: of 2, which costs less than of e, but where that is not exact
 * enough.  The factor is applied before a maximum is taken, so that its rounding is the same in all of a row. */
#ifdef MX_EXACT
#define MX_TO_POWER 1.0f
MX_INLINE f32 mx_power(f32 x) { return mx_exp_f32(x); }
#else
#define MX_TO_POWER 1.44269504f
MX_INLINE f32 mx_power(f32 x) { return mx_exp2_near(x); }
#endif
/* Where the exponent of a row is counted from, and how much of what was summed remains when it moves. */
MX_INLINE f32 mx_shift(f32 top) { return top == -MX_INFINITY ? 0.0f : top; }
MX_INLINE f32 mx_fade(f32 before, f32 top) { return before == top ? 1.0f : mx_power(before - mx_shift(top)); }

/* ROWS tokens of a head on their way to shared memory, LD floats a row; `dim` of their WIDTH elements are there. */
template <class T, int ROWS, int WIDTH, int LD, int THREADS> struct mx_tokens {
  static constexpr int GROUPS = ROWS * WIDTH / 4, EACH = (GROUPS + THREADS - 1) / THREADS;
  const mx_stored<T> *from;
  i64 row_stride, col_stride;
  int dim;
  bool vector; /* four are read at once */

  __device__ __forceinline__ mx_tokens(const mx_stored<T> *base, i64 row_stride_, i64 col_stride_, i64 dim_)
      : from(base), row_stride(row_stride_), col_stride(col_stride_), dim((int)dim_) {
    vector = col_stride == 1 && mx_quads<T>(base, row_stride);
  }
  /* Tokens from `first` on; those from `count` on become 0. */
  __device__ __forceinline__ void copy(f32 *to, i64 first, i64 count) const {
#if defined(__CUDACC__)
#pragma unroll(EACH % 4 == 0 ? 4 : 1)
#endif
    for (int i = 0; i < EACH; i++) {
      const int group = (int)threadIdx.x + i * THREADS;
      if (GROUPS % THREADS != 0 && group >= GROUPS) return;
      const int row = group / (WIDTH / 4), d = group % (WIDTH / 4) * 4;
      const int left = first + row < count ? dim - d : 0, room = left < 0 ? 0 : left > 4 ? 4 : left;
      f32 *const place = to + row * LD + d;
      const mx_stored<T> *const p = room ? from + (first + row) * row_stride + d * col_stride : from;
      if constexpr (sizeof(mx_stored<T>) == 4) {
        if (vector)
          mx_cp_async<16>(place, p, 4 * room);
        else {
          MX_UNROLL
          for (int e = 0; e < 4; e++) mx_cp_async<4>(place + e, e < room ? p + e * col_stride : from, e < room ? 4 : 0);
        }
      } else {
        f32 x[4];
        if (vector && room == 4)
          mx_load4<T>(x, p);
        else {
          MX_UNROLL
          for (int e = 0; e < 4; e++) x[e] = e < room ? mx_load<T>(p + e * col_stride) : 0.0f;
        }
        *reinterpret_cast<float4 *>(place) = make_float4(x[0], x[1], x[2], x[3]);
      }
    }
  }
};

template <class CFG, class T, class Q, class K, class V, class SCORE, class LAST, class STORE>
MX_INLINE void mx_attention(void *shared, Q q, i64 q_row, i64 q_col, K k, i64 k_row, i64 k_col, V v, i64 v_row,
                            i64 v_col, i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, SCORE score, LAST last,
                            STORE store) {
  constexpr int BQ = CFG::BQ, BK = CFG::BK, TM = CFG::TM, TN = CFG::TN, TV = CFG::TV, VM = CFG::VM, VN = CFG::VN;
  constexpr int LD = CFG::LD, LP = CFG::LP, DV = CFG::DV;
  typedef mx_tokens<T, BQ, CFG::D, LD, CFG::THREADS> Queries;
  typedef mx_tokens<T, BK, CFG::D, LD, CFG::THREADS> Keys;
  typedef mx_tokens<T, BK, DV, DV, CFG::THREADS> Values;
  f32 *const qs = reinterpret_cast<f32 *>(shared), *const ps = qs + BQ * LD;
  f32 *const ks = ps + BK * LP, *const vs = ks + BK * LD;
  const int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16 * TM; /* column of the grid, first place in P */
  /* Its queries are every other one of its warp's, so that the two rows of the grid in a warp read different banks. */
  const int first = (int)threadIdx.x / 32 * 2 * TM + (int)threadIdx.x / 16 % 2;
  const int depth = (int)(dim + 3) / 4 * 4;
  const i64 blocks = mx_ceil_div(tq, BQ), count = batch * heads * blocks;
  for (i64 t = blockIdx.x; t < count; t += gridDim.x) {
    const i64 b = t / (heads * blocks), h = t / blocks % heads, q0 = (blocks - 1 - t % blocks) * BQ;
    const i64 limit = last(b, h, mx_least(q0 + BQ, tq) - 1), seen = limit < 0 ? 0 : mx_least(limit, tk);
    const Keys keys(k(b, h), k_row, k_col, dim);
    const Values values(v(b, h), v_row, v_col, dim_v);
    f32 top[TM], sum[TM];
    mx_strip<VN> o[TM][TV / VN];
    MX_IN_REGISTERS
    for (int i = 0; i < TM; i++) {
      top[i] = -MX_INFINITY, sum[i] = 0.0f;
      MX_IN_REGISTERS
      for (int j = 0; j < TV; j++) o[i][j / VN].set(j % VN, 0.0f);
    }
    if (seen > 0) Queries(q(b, h), q_row, q_col, dim).copy(qs, q0, tq);
    if (seen > 0) keys.copy(ks, 0, seen);
    mx_cp_async_commit();
    for (i64 j0 = 0; j0 < seen; j0 += BK) {
      mx_cp_async_wait<0>();
      __syncthreads(); /* these keys are there for all, and the last values have been read by all */
      values.copy(vs, j0, seen);
      mx_cp_async_commit();

      f32 s[TM][TN];
      MX_IN_REGISTERS
      for (int e = 0; e < TM * TN; e++) s[e / TN][e % TN] = 0.0f;
#if defined(__CUDACC__)
#pragma unroll 2
#endif
      for (int d = 0; d < depth; d += 4) {
        mx_strip<4> key[TN];
        MX_IN_REGISTERS
        for (int j = 0; j < TN; j++) key[j].load(ks + (x + j * 16) * LD + d);
        MX_IN_REGISTERS
        for (int i = 0; i < TM; i++) {
          mx_strip<4> query;
          query.load(qs + (first + 2 * i) * LD + d);
          MX_IN_REGISTERS
          for (int j = 0; j < TN; j++) {
            MX_UNROLL
            for (int e = 0; e < 4; e++) s[i][j] = fmaf(query.get(e), key[j].get(e), s[i][j]);
          }
        }
      }

      mx_cp_async_wait<0>();
      __syncthreads(); /* these values are there for all, and the keys have been read by all */
      if (j0 + BK < seen) keys.copy(ks, j0 + BK, seen);
      mx_cp_async_commit();
      MX_IN_REGISTERS
      for (int i = 0; i < TM; i++) {
        f32 high = -MX_INFINITY;
        MX_IN_REGISTERS
        for (int j = 0; j < TN; j++) {
          const i64 query = q0 + first + 2 * i, key = j0 + x + j * 16;
          s[i][j] = query < tq && key < seen ? score(b, h, query, key, s[i][j]) * MX_TO_POWER : -MX_INFINITY;
          high = fmaxf(high, s[i][j]);
        }
        MX_IN_REGISTERS
        for (int apart = 8; apart; apart /= 2) high = fmaxf(high, __shfl_xor_sync(MX_FULL_WARP, high, apart));
        high = fmaxf(high, top[i]);
        const f32 shift = mx_shift(high), fade = mx_fade(top[i], high);
        top[i] = high;
        sum[i] *= fade;
        MX_IN_REGISTERS
        for (int j = 0; j < TN; j++) {
          s[i][j] = mx_power(s[i][j] - shift);
          sum[i] += s[i][j];
        }
        MX_IN_REGISTERS
        for (int j = 0; j < TV; j++) o[i][j / VN].set(j % VN, o[i][j / VN].get(j % VN) * fade);
      }
      MX_IN_REGISTERS
      for (int j = 0; j < TN; j++) {
        MX_IN_REGISTERS
        for (int i = 0; i < TM; i += VM) {
          mx_strip<VM> column;
          MX_UNROLL
          for (int e = 0; e < VM; e++) column.set(e, s[i + e][j]);
          column.store(ps + (x + j * 16) * LP + y + i);
        }
      }
      __syncwarp(); /* the weights of these queries are there */
#if defined(__CUDACC__)
#pragma unroll 4
#endif
      for (int j = 0; j < BK; j++) {
        mx_strip<VM> weight[TM / VM];
        mx_strip<VN> value[TV / VN];
        MX_IN_REGISTERS
        for (int i = 0; i < TM / VM; i++) weight[i].load(ps + j * LP + y + i * VM);
        MX_IN_REGISTERS
        for (int e = 0; e < TV / VN; e++) value[e].load(vs + j * DV + (e * 16 + x) * VN);
        MX_IN_REGISTERS
        for (int i = 0; i < TM; i++) {
          MX_IN_REGISTERS
          for (int e = 0; e < TV / VN; e++) o[i][e].add(weight[i / VM].get(i % VM), value[e]);
        }
      }
    }
    mx_cp_async_wait<0>();
    __syncthreads(); /* nobody needs the queries, keys and values any more */
    MX_IN_REGISTERS
    for (int i = 0; i < TM; i++) {
      MX_IN_REGISTERS
      for (int apart = 8; apart; apart /= 2) sum[i] += __shfl_xor_sync(MX_FULL_WARP, sum[i], apart);
      const f32 share = tk > 0 ? 1.0f / sum[i] : 0.0f;
      MX_IN_REGISTERS
      for (int e = 0; e < TV / VN; e++) {
        MX_IN_REGISTERS
        for (int j = 0; j < VN; j++) o[i][e].set(j, o[i][e].get(j) * share);
        o[i][e].store(qs + (first + 2 * i) * DV + (e * 16 + x) * VN);
      }
    }
    __syncthreads();
    mx_each<BQ, DV, 1, CFG::THREADS>(qs, (int)mx_least(tq - q0, BQ), (int)dim_v,
                                     [&](int r, int d, f32 value) { store(b, h, q0 + r, d, value); });
    __syncthreads(); /* before the next block's copies */
  }
}

/* ---- few queries ------------------------------------------------------------------------------------------------- */
/* gridDim.y blocks for each query of each head, which share its keys.  The warps of a block take keys by turns, 32 at a
 * time, and know nothing of each other until the end, when their maxima, sums and results are merged:
 *
 *     scores   8 lanes read one key, 16 bytes each, 8 keys in a row; the sums of the lanes are exchanged by halves, and
 *              each lane has the score of one key
 *     values   lanes are the columns of v, 4 each; the weights are passed through shared memory
 *
 * Where a query has several blocks, each leaves its maximum, sum and result in `own`, and the last to come merges them
 * in their order, so that no result depends on who that was.  `own` is memory for a number for each query of each head,
 * 8 bytes, all of them zero, which they are again in the end; behind them 4 (2 + DV) bytes for each of the blocks.
 * With gridDim.y = 1 it is not looked at.
 *
 * Every byte of k and v is read once for each query head. */
template <int D_, int DV_, int THREADS_ = 256> struct mx_decode_tile {
  static constexpr int D = D_, DV = DV_, THREADS = THREADS_, WARPS = THREADS / 32, BLOCKS = mx_blocks(THREADS, 128);
  static constexpr int LANES = DV / 4 < 32 ? DV / 4 : 32, AT_ONCE = 32 / LANES; /* lanes for a row of v; rows at once */
  static constexpr int SHARED = 4 * (WARPS * 32 + D + WARPS * AT_ONCE * DV + 2 * WARPS + 1);
  static_assert(DV <= 256 && D % 32 == 0 && (DV & (DV - 1)) == 0 && DV >= 4, "whole groups of lanes");
};
typedef mx_decode_tile<32, 32> mx_decode_32;
typedef mx_decode_tile<64, 64> mx_decode_64;
typedef mx_decode_tile<128, 128> mx_decode_128;
typedef mx_decode_tile<256, 256> mx_decode_256;

template <class CFG, class T, class Q, class K, class V, class SCORE, class LAST, class STORE>
MX_INLINE void mx_attention_decode(void *shared, Q q, i64 q_row, i64 q_col, K k, i64 k_row, i64 k_col, V v, i64 v_row,
                                   i64 v_col, i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, SCORE score,
                                   LAST last, STORE store, void *own) {
  constexpr int WARPS = CFG::WARPS, DV = CFG::DV, LANES = CFG::LANES, AT_ONCE = CFG::AT_ONCE;
  constexpr int GROUPS = DV / 4 / LANES; /* of a row of v, for one lane */
  const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
  f32 *const weights = reinterpret_cast<f32 *>(shared) + warp * 32; /* of this warp */
  f32 *const qs = reinterpret_cast<f32 *>(shared) + WARPS * 32, *const results = qs + CFG::D;
  f32 *const tops = results + WARPS * AT_ONCE * DV, *const sums = tops + WARPS;
  int *const is_last = reinterpret_cast<int *>(sums + WARPS);
  const i64 count = batch * heads * tq, parts = gridDim.y, part = blockIdx.y;
  unsigned long long *const arrived = reinterpret_cast<unsigned long long *>(own);
  for (i64 t = blockIdx.x; t < count; t += gridDim.x) {
    const i64 b = t / (heads * tq), h = t / tq % heads, query = t % tq;
    const i64 limit = last(b, h, query), all = limit < 0 ? 0 : mx_least(limit, tk);
    const i64 each = mx_ceil_div(mx_ceil_div(all, 32), parts) * 32, seen = mx_least((part + 1) * each, all);
    const mx_stored<T> *const keys = k(b, h), *const values = v(b, h), *const own = q(b, h) + query * q_row;
    const bool k_vector = k_col == 1 && mx_quads<T>(keys, k_row), v_vector = v_col == 1 && mx_quads<T>(values, v_row);
    for (int d = (int)threadIdx.x; d < CFG::D; d += CFG::THREADS) qs[d] = d < dim ? mx_load<T>(own + d * q_col) : 0.0f;
    __syncthreads(); /* and the results of the query before have been read */
    f32 top = -MX_INFINITY, sum = 0.0f, o[GROUPS][4];
    MX_UNROLL
    for (int e = 0; e < GROUPS * 4; e++) o[e / 4][e % 4] = 0.0f;
    for (i64 j0 = part * each + warp * 32; j0 < seen; j0 += WARPS * 32) {
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
      const f32 s = j0 + lane < seen ? score(b, h, query, j0 + lane, raw) * MX_TO_POWER : -MX_INFINITY;
      f32 high = s;
      MX_UNROLL
      for (int apart = 16; apart; apart /= 2) high = fmaxf(high, __shfl_xor_sync(MX_FULL_WARP, high, apart));
      high = fmaxf(high, top);
      const f32 weight = mx_power(s - mx_shift(high)), fade = mx_fade(top, high);
      sum = sum * fade + weight; /* of this lane's keys */
      top = high;
      __syncwarp(); /* the weights before have been read */
      weights[lane] = weight;
      __syncwarp();
      MX_UNROLL
      for (int e = 0; e < GROUPS * 4; e++) o[e / 4][e % 4] *= fade;
#if defined(__CUDACC__)
#pragma unroll(AT_ONCE > 1 ? 4 : 8 / GROUPS)
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
    f32 *const left = reinterpret_cast<f32 *>(arrived + count) + t * parts * (2 + DV); /* of this query's blocks */
    for (int d = (int)threadIdx.x; d < dim_v; d += CFG::THREADS) {
      f32 value = 0.0f;
      for (int w = 0; w < WARPS; w++) {
        f32 some = 0.0f;
        for (int i = 0; i < AT_ONCE; i++) some += results[(w * AT_ONCE + i) * DV + d];
        value += some * mx_fade(tops[w], highest);
      }
      if (parts == 1)
        store(b, h, query, d, tk > 0 ? value / total : 0.0f);
      else
        __stcg(left + part * (2 + DV) + 2 + d, value);
    }
    if (parts == 1) continue;
    if (threadIdx.x == 0) {
      __stcg(left + part * (2 + DV), highest);
      __stcg(left + part * (2 + DV) + 1, total);
    }
    __threadfence();
    __syncthreads(); /* all of this block is there before it counts as arrived */
    if (threadIdx.x == 0) *is_last = atomicAdd(arrived + t, 1ull) == (unsigned long long)parts - 1;
    __syncthreads();
    if (!*is_last) continue;
    __threadfence();
    highest = -MX_INFINITY, total = 0.0f;
    for (i64 n = 0; n < parts; n++) highest = fmaxf(highest, __ldcg(left + n * (2 + DV)));
    for (i64 n = 0; n < parts; n++)
      total += __ldcg(left + n * (2 + DV) + 1) * mx_fade(__ldcg(left + n * (2 + DV)), highest);
    for (int d = (int)threadIdx.x; d < dim_v; d += CFG::THREADS) {
      f32 value = 0.0f;
      for (i64 n = 0; n < parts; n++)
        value += __ldcg(left + n * (2 + DV) + 2 + d) * mx_fade(__ldcg(left + n * (2 + DV)), highest);
      store(b, h, query, d, tk > 0 ? value / total : 0.0f);
    }
    if (threadIdx.x == 0) arrived[t] = 0;
  }
}
