/* product_wgmma.cuh - the product of product_mma.cuh on the tensor cores of sm_90, four warps at a time.
 *
 *   template <class CFG, class T>      CFG an mx_wgmma_tile below, T mx_bf16 or mx_f16, the same for A and B
 *   mx_product_wgmma(shared, left, a_row, a_col, right, b_row, b_col, items, m, n, k, finish, memory)
 *
 * Arguments as for mx_product_mma, but `shared` is aligned to 1024.  Needs code for sm_90a.
 *
 * These tensor cores read both operands from shared memory, by a description of how they lie there, and work on their
 * own until they are waited for.  Panels have 64 of k and are what product_mma.cuh copies: rows of 128 bytes whose
 * 16-byte chunks are permuted within eight rows, which is the order that the description calls a swizzle of 128 bytes.
 *
 *     deep (k contiguous)   row = m or n, 64 of k
 *     flat                  row = k, 64 of m or n; one such panel behind the other
 *
 * Four warps make 64 rows of the tile and all of its columns.  While they multiply one panel the next are under way:
 * the copies go STAGES - 2 panels ahead, for a panel is only free when all warps have waited for its product.
 */
#pragma once

template <int BM_, int BN_, int STAGES_> struct mx_wgmma_tile {
  static constexpr int BM = BM_, BN = BN_, BK = 64, STAGES = STAGES_;
  static constexpr int THREADS = BM / 64 * 128, BLOCKS = mx_blocks(THREADS, 168);
  static constexpr int PANELS = 2 * (BM + BN) * BK * STAGES, SUMS = BM * (BN + 8) * 4, PARTS = SUMS > PANELS ? 2 : 1;
  static constexpr int SHARED = PANELS > SUMS / PARTS ? PANELS : SUMS / PARTS;
  static_assert(BM % 64 == 0 && BN % 64 == 0 && STAGES >= 3, "whole warpgroups, a stage that is read and one that is not");
};
typedef mx_wgmma_tile<128, 256, 4> mx_wgmma_128x256;
typedef mx_wgmma_tile<128, 128, 4> mx_wgmma_128x128;

template <class CFG, class T, bool DEEP_A, bool DEEP_B, class A, class B>
MX_INLINE void mx_wgmma_sums(f32 (&c)[CFG::BN / 2], u16 *panels, A &a, B &b, i64 begin, i64 end) {
  constexpr int STAGE = (CFG::BM + CFG::BN) * CFG::BK, AHEAD = CFG::STAGES - 2, OF_A = CFG::BM * CFG::BK;
  const int group = (int)threadIdx.x / 128;
  i64 fetched = begin;
  int next = 0, now = 0;
  const auto fetch = [&]() {
    if (fetched < end) {
      const int depths = (int)mx_least(end - fetched, CFG::BK);
      a.copy(panels + next * STAGE, depths);
      b.copy(panels + next * STAGE + OF_A, depths);
    }
    mx_cp_async_commit();
    fetched += CFG::BK;
    next = next + 1 == CFG::STAGES ? 0 : next + 1;
  };
  MX_UNROLL
  for (int step = 0; step < AHEAD; step++) fetch();
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (i64 done = begin; done < end; done += CFG::BK) {
    mx_cp_async_wait<AHEAD - 1>();
    mx_fence_async(); /* what this thread has copied is seen by the tensor cores */
    __syncthreads();  /* this panel is there for all, and the one before the last has been multiplied by all */
    fetch();
    const u16 *const panel = panels + now * STAGE;
    now = now + 1 == CFG::STAGES ? 0 : now + 1;
    mx_wgmma_fence();
    MX_UNROLL
    for (int step = 0; step < CFG::BK / 16; step++)
      mx_wgmma_add<T, CFG::BN, DEEP_A, DEEP_B>(c, panel + group * 64 * CFG::BK, panel + OF_A, step);
    mx_wgmma_commit();
    mx_wgmma_wait<1>();
  }
  mx_wgmma_wait<0>();
  mx_cp_async_wait<0>();
}

template <class CFG, class T, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_product_wgmma(void *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_row, i64 b_col,
                                i64 items, i64 m, i64 n, i64 k, FINISH finish, unsigned char *memory = nullptr) {
  typedef mx_mma_panel<CFG::BM, CFG::BK, CFG::THREADS, true> A;
  typedef mx_mma_panel<CFG::BN, CFG::BK, CFG::THREADS, true> B;
  constexpr int ROWS = CFG::BM / CFG::PARTS, LD = CFG::BN + 8;
  u16 *const panels = reinterpret_cast<u16 *>(shared);
  const int warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
  const i64 rows = mx_ceil_div(m, CFG::BM), columns = mx_ceil_div(n, CFG::BN), tiles = items * rows * columns;
  const mx_split split(memory);
  i64 begin, end;
  split.range(k, CFG::BK, &begin, &end);
  for (i64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    i64 item, row, column;
    mx_tile_place(t, rows, columns, &item, &row, &column);
    row *= CFG::BM;
    column *= CFG::BN;
    A a(left(item), a_row, a_col, row, m, begin);
    B b(right(item), b_col, b_row, column, n, begin);
    f32 c[CFG::BN / 2];
    MX_UNROLL
    for (int e = 0; e < CFG::BN / 2; e++) c[e] = 0.0f;
    if (a.deep && b.deep)
      mx_wgmma_sums<CFG, T, true, true>(c, panels, a, b, begin, end);
    else if (a.deep)
      mx_wgmma_sums<CFG, T, true, false>(c, panels, a, b, begin, end);
    else if (b.deep)
      mx_wgmma_sums<CFG, T, false, true>(c, panels, a, b, begin, end);
    else
      mx_wgmma_sums<CFG, T, false, false>(c, panels, a, b, begin, end);
    f32 *const sums = reinterpret_cast<f32 *>(shared);
    mx_finish_tile<CFG, LD, 1>(
        sums, split, t, row, column, m, n,
        [&](int part) {
          const int r = warp * 16 + lane / 4 - part * ROWS;
          if (r >= 0 && r < ROWS) {
            MX_UNROLL
            for (int e = 0; e < CFG::BN / 2; e += 2)
              *reinterpret_cast<float2 *>(sums + (r + e / 2 % 2 * 8) * LD + e / 4 * 8 + lane % 4 * 2) =
                  make_float2(c[e], c[e + 1]);
          }
        },
        [&](i64 r, i64 q, f32 value) { finish(item, r, q, value); });
    __syncthreads(); /* before the next tile's copies */
  }
}
