/* product_mma.cuh - the product of product.cuh for 16-bit floats, on tensor cores: mma.m16n8k16, sums in float32.
 *
 *   template <class CFG, class T>      CFG an mx_mma_tile below, T mx_bf16 or mx_f16, the same for A and B
 *   mx_product_mma(shared, left, a_row, a_col, right, b_row, b_col, items, m, n, k, finish, split)
 *
 * Arguments as for mx_product, but `shared` is CFG::SHARED bytes aligned to 128.  Needs sm_80 or later.
 *
 * Panels of BK of k come by asynchronous copies of 16 bytes, STAGES - 1 of them under way while one is multiplied; one
 * barrier a panel.  The fragments of the next 16 of k are read from shared memory while those before are multiplied,
 * over the end of a panel too.  A panel keeps the order that it has in memory, k or the other axis contiguous, and
 * ldmatrix reads either, transposing where needed, so no layout costs a copy.  Its 16-byte chunks are permuted within
 * each row (`mx_chunk`): the eight rows of an 8x8 tile then lie in different banks, without padding.
 *
 *     deep (k contiguous)   row = m or n   | k 0..7 | 8..15 | 16..23 | 24..31 |      ldmatrix
 *     flat                  row = k        | m 0..7 | 8..15 |   ...           |      ldmatrix.trans
 *
 * Copies are asynchronous where one stride is 1, the other a multiple of 8 and the base aligned to 16 bytes.
 * Everything else is read one element at a time by the same threads, and stored before the same barrier.  The finished
 * tile goes through shared memory, as in mx_product.
 *
 * A warp multiplies WM x WN.  What it reads from shared memory for each product is (WM + WN) / (WM WN): 64 x 64 leaves
 * that memory time for the copies, 32 x 32 does not.
 *
 * Cost of a tile: 2 BM BN k flops, 2 (BM + BN) k bytes read, k / BK + 2 PARTS + 1 barriers.
 */
#pragma once

template <int BM_, int BN_, int BK_, int WM_, int WN_, int STAGES_> struct mx_mma_tile {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, WM = WM_, WN = WN_, STAGES = STAGES_; /* WM x WN a warp */
  static constexpr int THREADS = BM / WM * (BN / WN) * 32, BLOCKS = mx_blocks(THREADS, WM * WN > 2048 ? 255 : 168);
  /* Stages of two panels; in the end the tile takes their place, half of it where the whole does not fit.  Its rows are
   * 8 longer, so that the rows of a fragment fall into different banks. */
  static constexpr int PANELS = 2 * (BM + BN) * BK * STAGES, SUMS = BM * (BN + 8) * 4, PARTS = SUMS > PANELS ? 2 : 1;
  static constexpr int SHARED = PANELS > SUMS / PARTS ? PANELS : SUMS / PARTS;
  static_assert(BM / PARTS % 16 == 0, "parts are whole fragments");
  static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % 16 == 0 && STAGES >= 2, "whole fragments, two stages");
};
typedef mx_mma_tile<128, 256, 32, 64, 64, 4> mx_mma_128x256;
typedef mx_mma_tile<128, 128, 32, 64, 64, 4> mx_mma_128x128;
typedef mx_mma_tile<128, 64, 64, 32, 32, 3> mx_mma_128x64;
typedef mx_mma_tile<64, 64, 64, 32, 32, 4> mx_mma_64x64;
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

/* OUTER x DEPTH elements on their way from memory to shared memory; as mx_panel, but 16-bit and in memory's order.  NARROW
 * panels that are flat are several of 64 places, one behind the other. */
template <int OUTER, int DEPTH, int THREADS, bool NARROW = false> struct mx_mma_panel {
  static constexpr int CHUNKS = OUTER * DEPTH / 8, ELEMENTS = OUTER * DEPTH, EACH = (CHUNKS + THREADS - 1) / THREADS;
  static_assert(CHUNKS % THREADS == 0 || CHUNKS < THREADS, "every thread copies the same number of chunks");

  static constexpr int OUTERS = THREADS * 8 / DEPTH, DEPTHS = THREADS * 8 / OUTER; /* from one chunk to the next */

  const u16 *from; /* the thread's first chunk of the panel that comes next */
  i64 outer_stride, depth_stride;
  int outer, depth; /* of that chunk */
  int room;         /* how many of the outer places there are from that chunk on */
  bool deep, whole; /* k is contiguous in shared memory; chunks are copied at once */

  /* The panel of `places` places from `first` on that begins at depth `at`. */
  __device__ __forceinline__ mx_mma_panel(const u16 *base, i64 outer_stride_, i64 depth_stride_, i64 first, i64 places,
                                          i64 at)
      : outer_stride(outer_stride_), depth_stride(depth_stride_) {
    deep = depth_stride == 1 || outer_stride != 1;
    whole = (deep ? depth_stride == 1 && outer_stride % 8 == 0 : depth_stride % 8 == 0) &&
            reinterpret_cast<u64>(base) % 16 == 0;
    const int chunk = (int)threadIdx.x;
    outer = deep ? chunk / (DEPTH / 8) : chunk % (OUTER / 8) * 8;
    depth = deep ? chunk % (DEPTH / 8) * 8 : chunk / (OUTER / 8);
    room = (int)mx_least(places - first, OUTER) - outer;
    from = base + (first + outer) * outer_stride + (at + depth) * depth_stride;
  }
  /* Where the thread's chunk number i lies in shared memory. */
  __device__ __forceinline__ int place(int i) const {
    if (deep) {
      if constexpr (OUTERS % 8 == 0) return mx_chunk<DEPTH / 8>(outer, depth / 8) + i * OUTERS * DEPTH;
      return mx_chunk<DEPTH / 8>(outer + i * OUTERS, depth / 8);
    }
    if constexpr (NARROW) return outer / 64 * 64 * DEPTH + mx_chunk<8>(depth + i * DEPTHS, outer % 64 / 8);
    if constexpr (DEPTHS % 8 == 0) return mx_chunk<OUTER / 8>(depth, outer / 8) + i * DEPTHS * OUTER;
    return mx_chunk<OUTER / 8>(depth + i * DEPTHS, outer / 8);
  }
  /* Starts copying a panel of which there are `left` of k, and goes on to the next. */
  __device__ __forceinline__ void copy(u16 *shared, int left) {
    if (CHUNKS < THREADS && (int)threadIdx.x >= CHUNKS) return;
    MX_UNROLL
    for (int i = 0; i < EACH; i++) {
      const int rest = deep ? (i * OUTERS < room ? left - depth : 0) : (i * DEPTHS < left - depth ? room : 0);
      const int count = rest < 0 ? 0 : rest > 8 ? 8 : rest;
      u16 *const to = shared + place(i);
      const u16 *const p = from + i * (deep ? OUTERS * outer_stride : DEPTHS * depth_stride);
      if (whole)
        mx_cp_async<16>(to, p, 2 * count); /* of an address that is not there, nothing is read */
      else {
        const i64 step = deep ? depth_stride : outer_stride;
        MX_UNROLL
        for (int j = 0; j < 8; j++) to[j] = j < count ? p[j * step] : (u16)0;
      }
    }
    from += DEPTH * depth_stride;
  }
};

/* A warp's way through a panel: fragments of 16 places of the outer axis and 16 of k.  SWAP false: their four tiles in
 * A's order, outer first; true: in B's, k first.  What the permutation of chunks does to a lane's address is the same
 * for all fragments but for one exclusive or with a constant. */
template <int OUTER, int DEPTH, bool SWAP> struct mx_mma_reader {
  int row, chunk; /* the lane's row, and its place there, in elements */
  bool deep;

  /* For the fragments from `outer` on, which is a multiple of the largest distance that is read. */
  __device__ __forceinline__ mx_mma_reader(bool deep_, int outer) : deep(deep_) {
    const int lane = (int)threadIdx.x & 31, tile = lane / 8, line = lane % 8;
    const int next_outer = (SWAP ? tile / 2 : tile % 2) * 8, next_depth = (SWAP ? tile % 2 : tile / 2) * 8;
    const int of = deep ? outer + next_outer + line : next_depth + line;
    row = of * (deep ? DEPTH : OUTER);
    chunk = deep ? mx_chunk<DEPTH / 8>(of, next_depth / 8) - row : mx_chunk<OUTER / 8>(of, (outer + next_outer) / 8) - row;
  }
  /* Fragment number i at step number `step`. */
  __device__ __forceinline__ void read(u32 *r, const u16 *panel, int i, int step) const {
    if (deep)
      mx_ldmatrix_x4(r, panel + row + i * 16 * DEPTH + (chunk ^ (step * 16)));
    else
      mx_ldmatrix_x4_trans(r, panel + row + step * 16 * OUTER + (chunk ^ (i * 16)));
  }
};

template <class CFG, class T, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_product_mma(void *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_row, i64 b_col,
                              i64 items, i64 m, i64 n, i64 k, FINISH finish, unsigned char *memory = nullptr) {
  typedef mx_mma_panel<CFG::BM, CFG::BK, CFG::THREADS> A;
  typedef mx_mma_panel<CFG::BN, CFG::BK, CFG::THREADS> B;
  constexpr int STAGE = A::ELEMENTS + B::ELEMENTS, FM = CFG::WM / 16, FN = CFG::WN / 8, AHEAD = CFG::STAGES - 1;
  constexpr int ROWS = CFG::BM / CFG::PARTS, LD = CFG::BN + 8, STEPS = CFG::BK / 16;
  u16 *const panels = reinterpret_cast<u16 *>(shared);
  const int warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
  const int y = warp / (CFG::BN / CFG::WN) * CFG::WM, x = warp % (CFG::BN / CFG::WN) * CFG::WN;
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
    const mx_mma_reader<CFG::BM, CFG::BK, false> read_a(a.deep, y);
    const mx_mma_reader<CFG::BN, CFG::BK, true> read_b(b.deep, x);
    i64 fetched = begin;   /* where in k the next panel begins */
    int next = 0, now = 0; /* the stages that are filled and multiplied next */
    const auto fetch = [&]() {
      if (fetched < end) {
        const int depths = (int)mx_least(end - fetched, CFG::BK);
        a.copy(panels + next * STAGE, depths);
        b.copy(panels + next * STAGE + A::ELEMENTS, depths);
      }
      mx_cp_async_commit(); /* a group for every step, empty or not: waiting counts groups */
      fetched += CFG::BK;
      next = next + 1 == CFG::STAGES ? 0 : next + 1;
    };
    u32 u[2][FM][4], v[2][FN / 2][4]; /* fragments that are multiplied, and that are on their way */
    const auto read = [&](int to, int step) {
      const u16 *const panel = panels + now * STAGE;
      MX_UNROLL
      for (int i = 0; i < FM; i++) read_a.read(u[to][i], panel, i, step);
      MX_UNROLL
      for (int j = 0; j < FN / 2; j++) read_b.read(v[to][j], panel + A::ELEMENTS, j, step);
    };
    f32 c[FM][FN][4];
    MX_UNROLL
    for (int e = 0; e < FM * FN * 4; e++) c[e / (FN * 4)][e / 4 % FN][e % 4] = 0.0f;
    MX_UNROLL
    for (int step = 0; step < AHEAD; step++) fetch();
    mx_cp_async_wait<AHEAD - 1>();
    __syncthreads(); /* the first panel is there for all */
    if (begin < end) read(0, 0);
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (i64 done = begin; done < end; done += CFG::BK) {
      fetch(); /* into the stage of the panel before, whose last fragments all have read */
      MX_UNROLL
      for (int step = 0; step < STEPS; step++) {
        if (step + 1 < STEPS)
          read((step + 1) & 1, step + 1);
        else {
          mx_cp_async_wait<AHEAD - 1>();
          __syncthreads(); /* the next panel is there for all, and this one has been read by all */
          now = now + 1 == CFG::STAGES ? 0 : now + 1;
          if (done + CFG::BK < end) read((step + 1) & 1, 0);
        }
        MX_UNROLL
        for (int i = 0; i < FM; i++) {
          MX_UNROLL
          for (int j = 0; j < FN; j++) mx_mma<T>::add(c[i][j], u[step & 1][i], &v[step & 1][j / 2][j % 2 * 2]);
        }
      }
      static_assert(STEPS % 2 == 0, "the first fragments of a panel are always in the same registers");
    }
    mx_cp_async_wait<0>();
    f32 *const sums = reinterpret_cast<f32 *>(shared);
    mx_finish_tile<CFG, LD, 1>(
        sums, split, t, row, column, m, n,
        [&](int part) {
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
        },
        [&](i64 r, i64 q, f32 value) { finish(item, r, q, value); });
    __syncthreads(); /* before the next tile's copies */
  }
}
