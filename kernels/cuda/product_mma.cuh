/* product_mma.cuh - the product of product.cuh for 16-bit floats, on tensor cores: mma.m16n8k16, sums in float32.
 *
 *   template <class CFG, class T>      CFG an mx_mma_tile below, T mx_bf16 or mx_f16, the same for A and B
 *   mx_product_mma(shared, left, a_row, a_col, right, b_row, b_col, items, m, n, k, finish)
 *
 * Arguments as for mx_product, but `shared` is CFG::SHARED bytes aligned to 128.  Needs sm_80 or later.  It has run in
 * the simulator only, never on a device.
 *
 * Panels of BK of k come by asynchronous copies of 16 bytes, STAGES - 1 of them under way while one is multiplied; one
 * barrier a panel.  A panel keeps the order that it has in memory, k or the other axis contiguous, and ldmatrix reads
 * either, transposing where needed, so no layout costs a copy.  Its 16-byte chunks are permuted within each row
 * (`mx_chunk`): the eight rows of an 8x8 tile then lie in different banks, without padding.
 *
 *     deep (k contiguous)   row = m or n   | k 0..7 | 8..15 | 16..23 | 24..31 |      ldmatrix
 *     flat                  row = k        | m 0..7 | 8..15 |   ...           |      ldmatrix.trans
 *
 * Copies are asynchronous where one stride is 1, the other a multiple of 8 and the base aligned to 16 bytes.
 * Everything else is read one element at a time by the same threads, and stored before the same barrier.  The finished
 * tile goes through shared memory, as in mx_product.
 *
 * Cost of a tile: 2 BM BN k flops, 2 (BM + BN) k bytes read, k / BK + 2 PARTS + 1 barriers.
 */
#pragma once

template <int BM_, int BN_, int BK_, int WM_, int WN_, int STAGES_> struct mx_mma_tile {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, WM = WM_, WN = WN_, STAGES = STAGES_; /* WM x WN a warp */
  static constexpr int THREADS = BM / WM * (BN / WN) * 32, BLOCKS = mx_blocks(THREADS, 168);
  /* Stages of two panels; in the end the tile takes their place, half of it where the whole does not fit.  Its rows are
   * 8 longer, so that the rows of a fragment fall into different banks. */
  static constexpr int PANELS = 2 * (BM + BN) * BK * STAGES, SUMS = BM * (BN + 8) * 4, PARTS = SUMS > PANELS ? 2 : 1;
  static constexpr int SHARED = PANELS > SUMS / PARTS ? PANELS : SUMS / PARTS;
  static_assert(BM / PARTS % 16 == 0, "parts are whole fragments");
  static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % 16 == 0 && STAGES >= 2, "whole fragments, two stages");
  static_assert(SHARED <= 48 * 1024, "static shared memory ends at 48 KiB");
};
typedef mx_mma_tile<128, 128, 32, 64, 32, 3> mx_mma_128x128;
typedef mx_mma_tile<64, 64, 32, 32, 32, 4> mx_mma_64x64;
typedef mx_mma_tile<16, 64, 64, 16, 16, 4> mx_mma_16x64;

template <class T> struct mx_mma;
template <> struct mx_mma<mx_bf16> {
  MX_INLINE void add(f32 *c, const u32 *a, const u32 *b) { mx_mma_m16n8k16_bf16(c, a, b); }
};
template <> struct mx_mma<mx_f16> {
  MX_INLINE void add(f32 *c, const u32 *a, const u32 *b) { mx_mma_m16n8k16_f16(c, a, b); }
};

/* Where chunk `c` of row `r` lies, in elements, when rows have CHUNKS chunks of 8. */
template <int CHUNKS> MX_INLINE int mx_chunk(int r, int c) {
  static_assert(CHUNKS == 2 || CHUNKS == 4 || CHUNKS % 8 == 0, "rows that tile the banks");
  constexpr int SHIFT = CHUNKS == 2 ? 2 : CHUNKS == 4 ? 1 : 0, MASK = CHUNKS >= 8 ? 7 : CHUNKS - 1;
  return (r * CHUNKS + (c ^ (r >> SHIFT & MASK))) * 8;
}

/* OUTER x DEPTH elements on their way from memory to shared memory; as mx_panel, but 16-bit and in memory's order. */
template <int OUTER, int DEPTH, int THREADS> struct mx_mma_panel {
  static constexpr int CHUNKS = OUTER * DEPTH / 8, ELEMENTS = OUTER * DEPTH;
  static_assert(CHUNKS % THREADS == 0, "every thread copies the same number of chunks");

  const u16 *from;
  i64 outer_stride, depth_stride;
  int room;
  bool deep, whole; /* k is contiguous in shared memory; chunks are copied at once */

  __device__ __forceinline__ mx_mma_panel(const u16 *base, i64 outer_stride_, i64 depth_stride_, i64 first, i64 outer)
      : from(base + first * outer_stride_), outer_stride(outer_stride_), depth_stride(depth_stride_) {
    room = (int)mx_least(outer - first, OUTER);
    deep = depth_stride == 1 || outer_stride != 1;
    whole = (deep ? depth_stride == 1 && outer_stride % 8 == 0 : depth_stride % 8 == 0) &&
            reinterpret_cast<u64>(base) % 16 == 0;
  }
  __device__ __forceinline__ void copy(u16 *shared, i64 at, i64 left) const {
    const int depths = (int)mx_least(left, DEPTH);
    MX_UNROLL
    for (int i = 0; i < CHUNKS / THREADS; i++) {
      const int chunk = (int)threadIdx.x + i * THREADS;
      const int outer = deep ? chunk / (DEPTH / 8) : chunk % (OUTER / 8) * 8;
      const int depth = deep ? chunk % (DEPTH / 8) * 8 : chunk / (OUTER / 8);
      const int rest = deep ? (outer < room ? depths - depth : 0) : (depth < depths ? room - outer : 0);
      const int count = rest < 0 ? 0 : rest > 8 ? 8 : rest;
      u16 *const to = shared + (deep ? mx_chunk<DEPTH / 8>(outer, depth / 8) : mx_chunk<OUTER / 8>(depth, outer / 8));
      const u16 *const p = from + outer * outer_stride + (at + depth) * depth_stride;
      if (whole)
        mx_cp_async<16>(to, count ? p : from, 2 * count);
      else {
        const i64 step = deep ? depth_stride : outer_stride;
        MX_UNROLL
        for (int j = 0; j < 8; j++) to[j] = j < count ? p[j * step] : (u16)0;
      }
    }
  }
  /* The fragment of 16 places from `outer` on at the 16 of k from `depth` on.  SWAP false: four tiles in A's order,
   * outer first; true: in B's, k first. */
  template <bool SWAP> __device__ __forceinline__ void fragment(u32 *r, const u16 *shared, int outer, int depth) const {
    const int lane = (int)threadIdx.x & 31, tile = lane / 8, line = lane % 8;
    const int next_outer = (SWAP ? tile / 2 : tile % 2) * 8, next_depth = (SWAP ? tile % 2 : tile / 2) * 8;
    if (deep)
      mx_ldmatrix_x4(r, shared + mx_chunk<DEPTH / 8>(outer + next_outer + line, (depth + next_depth) / 8));
    else
      mx_ldmatrix_x4_trans(r, shared + mx_chunk<OUTER / 8>(depth + next_depth + line, (outer + next_outer) / 8));
  }
};

template <class CFG, class T, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_product_mma(void *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_row, i64 b_col,
                              i64 items, i64 m, i64 n, i64 k, FINISH finish) {
  typedef mx_mma_panel<CFG::BM, CFG::BK, CFG::THREADS> A;
  typedef mx_mma_panel<CFG::BN, CFG::BK, CFG::THREADS> B;
  constexpr int STAGE = A::ELEMENTS + B::ELEMENTS, FM = CFG::WM / 16, FN = CFG::WN / 8, AHEAD = CFG::STAGES - 1;
  constexpr int ROWS = CFG::BM / CFG::PARTS, LD = CFG::BN + 8;
  u16 *const panels = reinterpret_cast<u16 *>(shared);
  const int warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
  const int y = warp / (CFG::BN / CFG::WN) * CFG::WM, x = warp % (CFG::BN / CFG::WN) * CFG::WN;
  const i64 rows = mx_ceil_div(m, CFG::BM), columns = mx_ceil_div(n, CFG::BN), tiles = items * rows * columns;
  for (i64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    i64 item, row, column;
    mx_tile_place(t, rows, columns, &item, &row, &column);
    row *= CFG::BM;
    column *= CFG::BN;
    const A a(left(item), a_row, a_col, row, m);
    const B b(right(item), b_col, b_row, column, n);
    i64 fetched = 0;       /* where in k the next panel begins */
    int next = 0, now = 0; /* the stages that are filled and multiplied next */
    const auto fetch = [&]() {
      if (fetched < k) {
        a.copy(panels + next * STAGE, fetched, k - fetched);
        b.copy(panels + next * STAGE + A::ELEMENTS, fetched, k - fetched);
      }
      mx_cp_async_commit(); /* a group for every step, empty or not: waiting counts groups */
      fetched += CFG::BK;
      next = next + 1 == CFG::STAGES ? 0 : next + 1;
    };
    f32 c[FM][FN][4];
    MX_UNROLL
    for (int e = 0; e < FM * FN * 4; e++) c[e / (FN * 4)][e / 4 % FN][e % 4] = 0.0f;
    MX_UNROLL
    for (int step = 0; step < AHEAD; step++) fetch();
    for (i64 done = 0; done < k; done += CFG::BK) {
      mx_cp_async_wait<AHEAD - 1>();
      __syncthreads(); /* this panel is there for all, and the last one has been read by all */
      fetch();
      const u16 *const panel = panels + now * STAGE;
      now = now + 1 == CFG::STAGES ? 0 : now + 1;
      MX_UNROLL
      for (int depth = 0; depth < CFG::BK; depth += 16) {
        u32 u[FM][4], v[FN / 2][4];
        MX_UNROLL
        for (int i = 0; i < FM; i++) a.template fragment<false>(u[i], panel, y + i * 16, depth);
        MX_UNROLL
        for (int j = 0; j < FN / 2; j++) b.template fragment<true>(v[j], panel + A::ELEMENTS, x + j * 16, depth);
        MX_UNROLL
        for (int i = 0; i < FM; i++) {
          MX_UNROLL
          for (int j = 0; j < FN; j++) mx_mma<T>::add(c[i][j], u[i], &v[j / 2][j % 2 * 2]);
        }
      }
    }
    mx_cp_async_wait<0>();
    f32 *const sums = reinterpret_cast<f32 *>(shared);
    for (int part = 0; part < CFG::PARTS; part++) {
      const i64 first = row + part * ROWS;
      __syncthreads(); /* the panels, or the part before, have been read */
      MX_UNROLL
      for (int i = 0; i < FM; i++) {
        const int r = y + i * 16 + lane / 4 - part * ROWS;
        if (r >= 0 && r < ROWS) {
          MX_UNROLL
          for (int j = 0; j < FN; j++) {
            MX_UNROLL
            for (int e = 0; e < 4; e += 2)
              *reinterpret_cast<float2 *>(sums + (r + e * 4) * LD + x + j * 8 + lane % 4 * 2) =
                  make_float2(c[i][j][e], c[i][j][e + 1]);
          }
        }
      }
      __syncthreads();
      mx_each<ROWS, LD, 1, CFG::THREADS>(
          sums, (int)mx_least(m - first, ROWS), (int)mx_least(n - column, CFG::BN),
          [&](int r, int q, f32 value) { finish(item, first + r, column + q, value); });
    }
    __syncthreads(); /* before the next tile's copies */
  }
}
