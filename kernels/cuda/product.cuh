/* product.cuh - C[item][row][col] = sum over k of A[item][row][k] B[item][k][col], in float32, by register tiles.
 *
 *   template <class CFG, class TA, class TB>
 *   mx_product(shared, left, a_row, a_col, right, b_row, b_col, items, m, n, k, finish)
 *
 *   CFG            an mx_tile below; blocks of CFG::THREADS threads, grid of any size (a loop over all tiles); the
 *                  kernel says __launch_bounds__(CFG::THREADS, CFG::BLOCKS)
 *   TA, TB         f32, mx_bf16 or mx_f16: what the matrices hold (tiles.cuh); 16-bit elements are read as u16
 *   shared         CFG::SHARED bytes of shared memory, aligned to 16, for this call alone
 *   left(item)     const mx_stored<TA> * to A[item][0][0]; right(item) likewise for B
 *   a_row, ...     strides in elements, of any value, 0 and negative ones too
 *   finish(item, row, col, value)   called exactly once for every element of C, k = 0 included (the sum is then 0)
 *
 * Called by all threads of the block with the same arguments.  Literal strides leave only the code of their layout.
 *
 *     extern "C" __global__ void
 *     __launch_bounds__(mx_tile_64x64::THREADS, mx_tile_64x64::BLOCKS)
 *     kernel(const f32 *a, const f32 *b, f32 *c, i64 m) {
 *       __shared__ __align__(16) f32 shared[mx_tile_64x64::SHARED / 4];
 *       mx_product<mx_tile_64x64, f32, f32>(
 *           shared, [=](i64) { return a; }, 384, 1, [=](i64) { return b; }, 1536, 1, 1, m, 1536, 384,
 *           [=](i64, i64 row, i64 col, f32 value) { c[row * 1536 + col] = value; });
 *     }
 *
 * Panels are double buffered: while one is multiplied the next is under way to registers, and one barrier for each BK
 * of k separates the two.  Groups of four are read at once where one stride is 1, the other a multiple of 4 and the
 * base aligned; everything else takes the same way one element at a time.
 *
 * A finished tile goes through shared memory, so that `finish` runs for neighbouring columns in neighbouring lanes and
 * is compiled once, not once for each of a thread's sums.
 *
 * SLICES > 1 is for few tiles and large k: that many groups of threads share a tile, each takes its part of every BK,
 * and the sums are added in the order of the slices when the tile is finished.  All orders of summation depend on CFG
 * and k alone, so results do not depend on the grid, the other rows, or the device.
 *
 * Cost of a tile: 2 BM BN k flops, (BM + BN) k elements read, k / BK + 2 PARTS + 1 barriers.
 */
#pragma once

template <int BM_, int BN_, int BK_, int TM_, int TN_, int SLICES_ = 1> struct mx_tile {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_, SLICES = SLICES_;
  static constexpr int THREADS = BM / TM * (BN / TN) * SLICES;
  static constexpr int BLOCKS = mx_blocks(THREADS, BK > 32 ? 255 : 168); /* large panels wait in many registers */
  /* Two stages of two panels; in the end the tiles of the slices take their place, in two parts if they must. */
  static constexpr int PANELS = 2 * (BM + 4 + BN + 4) * BK * 4, SUMS = SLICES * BM * BN * 4;
  static constexpr int PARTS = SUMS > PANELS && TM > 4 ? 2 : 1;
  static constexpr int SHARED = PANELS > SUMS / PARTS ? PANELS : SUMS / PARTS;
  static_assert(BK % SLICES == 0 && BM % 4 == 0 && BN % 4 == 0 && BK % 4 == 0, "groups of four, whole slices");
  static_assert(SHARED <= 48 * 1024, "static shared memory ends at 48 KiB");
};
/* The first two keep the arithmetic units busy, the last two get many blocks out of small products. */
typedef mx_tile<128, 128, 16, 8, 8> mx_tile_128x128;
typedef mx_tile<64, 64, 16, 8, 4> mx_tile_64x64;
typedef mx_tile<32, 32, 32, 4, 4, 2> mx_tile_32x32;
typedef mx_tile<16, 64, 64, 8, 4, 4> mx_tile_16x64;

/* One tile of a product, from `row` and `column` on; the block has passed a barrier since it last used `shared`. */
template <class CFG, class TA, class TB, class FINISH>
MX_INLINE void mx_product_tile(void *shared, const mx_stored<TA> *left, i64 a_row, i64 a_col,
                               const mx_stored<TB> *right, i64 b_row, i64 b_col, i64 row, i64 column, i64 m, i64 n,
                               i64 k, FINISH finish) {
  typedef mx_panel<TA, CFG::BM, CFG::BK, CFG::THREADS> A;
  typedef mx_panel<TB, CFG::BN, CFG::BK, CFG::THREADS> B;
  typedef mx_registers<CFG::BM, CFG::BN, CFG::TM, CFG::TN> Tile;
  constexpr int STAGE = A::FLOATS + B::FLOATS, SLICE = CFG::BK / CFG::SLICES, ROWS = CFG::BM / CFG::PARTS;
  f32 *const panels = reinterpret_cast<f32 *>(shared);
  const int slice = (int)threadIdx.x / Tile::THREADS, thread = (int)threadIdx.x % Tile::THREADS;
  Tile tile(thread);
  int stage = 0;
  const A a(left, a_row, a_col, row, m);
  const B b(right, b_col, b_row, column, n);
  f32 from_a[A::EACH][4], from_b[B::EACH][4];
  tile.clear();
  if (k > 0) {
    a.fetch(from_a, 0, k);
    b.fetch(from_b, 0, k);
  }
  for (i64 k0 = 0; k0 < k; k0 += CFG::BK) {
    f32 *const now = panels + stage * STAGE;
    /* Nobody reads this stage any more: its readers have passed the barrier of the other one. */
    a.put(now, from_a);
    b.put(now + A::FLOATS, from_b);
    __syncthreads();
    if (k0 + CFG::BK < k) {
      a.fetch(from_a, k0 + CFG::BK, k - k0 - CFG::BK);
      b.fetch(from_b, k0 + CFG::BK, k - k0 - CFG::BK);
    }
    tile.add(now + slice * SLICE * A::LD, A::LD, now + A::FLOATS + slice * SLICE * B::LD, B::LD, SLICE);
    stage ^= 1;
  }
  for (int part = 0; part < CFG::PARTS; part++) {
    const i64 first = row + part * ROWS;
    __syncthreads(); /* the panels, or the part before, have been read */
    tile.template put<CFG::PARTS>(panels + slice * ROWS * CFG::BN, part);
    __syncthreads();
    mx_each<ROWS, CFG::BN, CFG::SLICES, CFG::THREADS>(
        panels, (int)mx_least(m - first, ROWS), (int)mx_least(n - column, CFG::BN),
        [&](int r, int c, f32 value) { finish(first + r, column + c, value); });
  }
  __syncthreads(); /* before the next tile's panels */
}

template <class CFG, class TA, class TB, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_product(void *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_row, i64 b_col, i64 items,
                          i64 m, i64 n, i64 k, FINISH finish) {
  const i64 rows = mx_ceil_div(m, CFG::BM), columns = mx_ceil_div(n, CFG::BN), tiles = items * rows * columns;
  for (i64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    i64 item, row, column;
    mx_tile_place(t, rows, columns, &item, &row, &column);
    mx_product_tile<CFG, TA, TB>(
        shared, left(item), a_row, a_col, right(item), b_row, b_col, row * CFG::BM, column * CFG::BN, m, n, k,
        [&](i64 r, i64 c, f32 value) { finish(item, r, c, value); });
  }
}
