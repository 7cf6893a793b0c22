/* attention_wgmma.cuh - the attention of attention_mma.cuh by the tensor cores of Hopper: wgmma, sm_90a.
 *
 *   template <class CFG, class T>      CFG an mx_wgmma_attention_tile below, T mx_bf16 or mx_f16
 *   mx_attention_wgmma(...)            the arguments of mx_attention_mma; `shared` is CFG::SHARED bytes
 *
 * Four warps make 64 rows; they read keys and values where the copies have put them, and have queries and weights in
 * registers.  BQ / 64 groups of four warps share the keys of a block: while one group makes weights, another
 * multiplies.
 * The product of the weights goes on during the barrier and the first product of the next keys; so a stage is filled
 * again only when that is over, which is why there are three.
 *
 * All else is as in attention_mma.cuh, whose functions it uses.
 */
#pragma once

template <int BQ_, int BK_, int D_, int STAGES_> struct mx_wgmma_attention_tile {
  static constexpr int BQ = BQ_, BK = BK_, D = D_, STAGES = STAGES_, THREADS = 2 * BQ;
  static constexpr int QUERIES = BQ * D, KEYS = BK * D, STAGE = 2 * KEYS; /* elements */
  static constexpr int LD = D + 8, PANELS = 2 * (QUERIES + STAGES * STAGE), RESULT = 4 * BQ * LD;
  static constexpr int SHARED = 1024 + (PANELS > RESULT ? PANELS : RESULT); /* to begin at a multiple of 1024 */
  static constexpr int BLOCKS = mx_blocks(THREADS, 255);
  static_assert(BQ % 64 == 0 && (D == 64 || D == 128) && (BK == 64 || BK == 128), "as the tensor cores take it");
  static_assert(STAGES >= 2, "two stages");
};
typedef mx_wgmma_attention_tile<128, 128, 64, 3> mx_wgmma_attention_64;
typedef mx_wgmma_attention_tile<128, 128, 128, 3> mx_wgmma_attention_128;

template <class CFG, class T, class Q, class K, class V, class SCORE, class OPEN, class LAST, class STORE>
MX_INLINE void mx_attention_wgmma(void *shared, Q q, i64 q_row, i64 q_col, K k, i64 k_row, i64 k_col, V v, i64 v_row,
                                  i64 v_col, i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, f32 scale,
                                  SCORE score, OPEN open, LAST last, STORE store) {
  constexpr int BQ = CFG::BQ, BK = CFG::BK, D = CFG::D;
  constexpr bool LAZY = CFG::STAGES > 2;                    /* the last product may go on during the next barrier */
  constexpr int AHEAD = LAZY ? CFG::STAGES - 2 : 1;
  typedef mx_token_rows<BQ, D, CFG::THREADS> Queries;
  typedef mx_token_rows<BK, D, CFG::THREADS> Tokens;
  typedef mx_softmax_rows<T, 1, BK, D> Rows;
  const u32 skip = (u32)(-reinterpret_cast<u64>(shared) & 1023u);
  u16 *const qs = reinterpret_cast<u16 *>(reinterpret_cast<u8 *>(shared) + skip), *const ring = qs + CFG::QUERIES;
  const int warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31, own = warp * 16;
  const mx_token_tiles<BQ, D> q_tiles(own, false);
  Rows rows(scale);
  const i64 blocks = mx_ceil_div(tq, BQ), count = batch * heads * blocks;
  for (i64 t = blockIdx.x; t < count; t += gridDim.x) {
    int item, block;
    mx_attention_place(t, batch * heads, blocks, 2 * tk * (dim + dim_v), &item, &block);
    const i64 b = item / (int)heads, h = item % (int)heads, q0 = (i64)block * BQ;
    const i64 limit = last(b, h, mx_least(q0 + BQ, tq) - 1), most = mx_least(limit, tk);
    const int seen = most < 0 ? 0 : (int)most;
    const int clear = q0 + BQ <= tq ? (int)mx_least(last(b, h, q0), seen) : 0; /* keys that all queries see */
    const Tokens keys(k(b, h), k_row, k_col, dim), values(v(b, h), v_row, v_col, dim_v);
    int fetched = 0, next = 0, now = 0; /* the stages that are filled and multiplied next */
    const auto fetch = [&]() {
      if (fetched < seen) {
        u16 *const stage = ring + next * CFG::STAGE;
        keys.copy(stage, fetched, seen);
        values.copy(stage + CFG::KEYS, fetched, seen);
      }
      mx_cp_async_commit(); /* a group for every step, empty or not: waiting counts groups */
      fetched += BK;
      next = next + 1 == CFG::STAGES ? 0 : next + 1;
    };
    if (seen > 0) Queries(q(b, h), q_row, q_col, dim).copy(qs, q0, tq);
    MX_IN_REGISTERS
    for (int step = 0; step < AHEAD; step++) fetch();
    u32 held[D / 16][4];
    mx_cp_async_wait<AHEAD - 1>();
    __syncthreads();
    if (seen > 0) {
      MX_IN_REGISTERS
      for (int kk = 0; kk < D / 16; kk++) mx_ldmatrix_x4(held[kk], qs + q_tiles.at(0, kk));
    }
    rows.clear();
    for (int j0 = 0; j0 < seen; j0 += BK) {
      mx_cp_async_wait<AHEAD - 1>();
      mx_async_fence();
      __syncthreads(); /* these keys are there for all, and the stage to be filled has been read by all */
      fetch();
      const u16 *const ks = ring + now * CFG::STAGE, *const vs = ks + CFG::KEYS;
      now = now + 1 == CFG::STAGES ? 0 : now + 1;
      f32 s[1][BK / 8][4];
      mx_wgmma_begin();
      MX_IN_REGISTERS
      for (int kk = 0; kk < D / 16; kk++)
        mx_wgmma<T, BK, true>(s[0], held[kk], ks + kk / 4 * BK * 64, kk % 4, 0, kk == 0);
      mx_wgmma_end();
      mx_wgmma_wait(s[0]);
      if (LAZY) mx_wgmma_wait(rows.o[0]);
      Rows::score(s, b, h, q0 + own + lane / 4, j0 + lane % 4 * 2, tq, seen, j0 + BK <= clear, score, open);
      rows.move(s);
      u32 p[BK / 16][4];
      MX_IN_REGISTERS
      for (int kk = 0; kk < BK / 16; kk++) rows.weigh(p[kk], s, 0, kk);
      mx_wgmma_begin();
      MX_IN_REGISTERS
      for (int kk = 0; kk < BK / 16; kk++) mx_wgmma<T, D, false>(rows.o[0], p[kk], vs, kk, BK * 64, false);
      mx_wgmma_end();
      if (!LAZY) mx_wgmma_wait(rows.o[0]);
    }
    mx_wgmma_wait(rows.o[0]);
    mx_cp_async_wait<0>();
    __syncthreads(); /* queries, keys and values have been read by all */
    f32 *const result = reinterpret_cast<f32 *>(qs) + warp * 16 * CFG::LD;
    mx_forget(item), mx_forget(block); /* where they are is computed again, not kept in registers meanwhile */
    Rows::template put<CFG::LD>(result, item / (int)heads, item % (int)heads, (i64)block * BQ + own, tq, tk, dim_v,
                                rows, store);
    __syncthreads(); /* before the next block's copies */
  }
}
