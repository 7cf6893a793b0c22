/* gemv.cuh - the product of product.cuh for few rows, which reads B once and is as fast as memory.
 *
 *   template <int ROWS, int COLS, class TA, class TB>      ROWS 1, 2, 4 or 8; COLS 1, 2 or 4
 *   mx_gemv(shared, left, a_row, a_col, right, b_row, b_col, items, m, n, k, finish)
 *
 * Arguments as for mx_product, with mx_gemv_block<ROWS, COLS> for CFG: 256 THREADS, BLOCKS, and SHARED bytes, aligned
 * to 16; grid of any size.  Any m is correct; B is read once for each ROWS rows of A.  Choose the smallest ROWS that m
 * fits into.  b_row == 1 decides between
 *
 *   dot   b_row == 1, as in x W^T: a warp makes ROWS x COLS results.  Its lanes read groups of four along k, COLS
 *         columns at a time, and the sums of the lanes are added by shuffles, or through shared memory where there
 *         are 16 of them or more.  A block makes 8 COLS columns.
 *
 *   axpy  else, best with b_col == 1, as in x W: lanes are columns, COLS each; the 8 warps of a block take every eighth
 *         k, and their sums are added through shared memory.  A block makes 32 COLS columns.
 *
 * COLS = 4 reads 16 bytes a lane in both.  Take 1 or 2 where n / (8 COLS) or n / (32 COLS) blocks would leave
 * multiprocessors idle.
 *
 * The orders of summation depend on ROWS, COLS, k and the layout alone; the groups of four that are not aligned are
 * added in the same order as those that are.
 *
 * Cost: 2 m n k flops; n k elements of B read, and of A m k for each block, mostly from the caches.
 */
#pragma once

template <int ROWS, int COLS> struct mx_gemv_block {
  static constexpr int THREADS = 256, BLOCKS = mx_blocks(THREADS, ROWS * COLS > 16 ? 255 : 128), WARPS = THREADS / 32;
  static constexpr int SHARED = WARPS * ROWS * 32 * COLS * 4; /* of axpy's warps, or dot's lanes */
  static_assert(ROWS == 1 || ROWS == 2 || ROWS == 4 || ROWS == 8, "1, 2, 4 or 8 rows");
  static_assert(COLS == 1 || COLS == 2 || COLS == 4, "1, 2 or 4 columns");
};

/* As mx_warp_sums, and many values by way of 128 N bytes of the warp's own: each is written and read once, with one
 * __syncwarp instead of N shuffles.  Value i is turned by i places, so that no two lanes meet in a bank. */
template <int N> MX_INLINE f32 mx_gemv_sums(f32 *own, const f32 (&v)[N]) {
  if constexpr (N < 16)
    return mx_warp_sums<N>(v);
  else {
    constexpr int LANES = 32 / N;
    const int lane = (int)threadIdx.x & 31, value = lane / LANES, first = lane % LANES * N;
    __syncwarp(); /* the values before have been read */
    MX_UNROLL
    for (int i = 0; i < N; i++) own[i * 32 + ((lane + i) & 31)] = v[i];
    __syncwarp();
    f32 sum = 0.0f;
    MX_UNROLL
    for (int e = 0; e < N; e++) sum += own[value * 32 + ((first + e + value) & 31)];
    MX_UNROLL
    for (int apart = LANES / 2; apart; apart /= 2) sum += __shfl_xor_sync(MX_FULL_WARP, sum, apart);
    return sum;
  }
}

template <int ROWS, int COLS, class TA, class TB, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_gemv_dot(f32 *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_col, i64 items, i64 m,
                           i64 n, i64 k, FINISH finish) {
  constexpr int WARPS = mx_gemv_block<ROWS, COLS>::WARPS, N = ROWS * COLS;
  const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
  const i64 tall = mx_ceil_div(m, ROWS), wide = mx_ceil_div(n, COLS), count = items * tall * wide;
  for (i64 g = (i64)blockIdx.x * WARPS + warp; g < count; g += (i64)gridDim.x * WARPS) {
    const i64 item = g / (tall * wide), row = g / wide % tall * ROWS, column = g % wide * COLS;
    const mx_stored<TA> *const a = left(item) + row * a_row;
    const mx_stored<TB> *const b = right(item) + column * b_col;
    const int high = (int)mx_least(m - row, ROWS), broad = (int)mx_least(n - column, COLS);
    const bool a_vector = a_col == 1 && mx_quads<TA>(a, a_row), b_vector = mx_quads<TB>(b, b_col);
    f32 sum[N];
    MX_UNROLL
    for (int e = 0; e < N; e++) sum[e] = 0.0f;
    for (i64 at = lane * 4; at < k; at += 128) {
      f32 v[COLS][4];
      MX_UNROLL
      for (int j = 0; j < COLS; j++) mx_group<TB>(v[j], b + j * b_col, 1, at, j < broad ? k : 0, b_vector);
      MX_UNROLL
      for (int i = 0; i < ROWS; i++) {
        f32 u[4];
        mx_group<TA>(u, a + i * a_row, a_col, at, i < high ? k : 0, a_vector);
        MX_UNROLL
        for (int j = 0; j < COLS; j++) {
          MX_UNROLL
          for (int e = 0; e < 4; e++) sum[i * COLS + j] = fmaf(u[e], v[j][e], sum[i * COLS + j]);
        }
      }
    }
    const f32 total = mx_gemv_sums<N>(shared + warp * N * 32, sum);
    const int mine = lane / (32 / N), i = mine / COLS, j = mine % COLS;
    if (lane % (32 / N) == 0 && i < high && j < broad) finish(item, row + i, column + j, total);
  }
}

template <int ROWS, int COLS, class TA, class TB, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_gemv_axpy(f32 *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_row, i64 b_col, i64 items,
                            i64 m, i64 n, i64 k, FINISH finish) {
  constexpr int THREADS = mx_gemv_block<ROWS, COLS>::THREADS, WARPS = THREADS / 32, WIDTH = 32 * COLS;
  constexpr int AHEAD = 4; /* rows of B that are read before the first is used */
  const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
  const i64 tall = mx_ceil_div(m, ROWS), wide = mx_ceil_div(n, WIDTH), count = items * tall * wide;
  for (i64 g = blockIdx.x; g < count; g += gridDim.x) {
    const i64 item = g / (tall * wide), row = g / wide % tall * ROWS, first = g % wide * WIDTH;
    const i64 column = first + lane * COLS;
    const mx_stored<TA> *const a = left(item) + row * a_row;
    const mx_stored<TB> *const b = right(item) + column * b_col;
    const int high = (int)mx_least(m - row, ROWS), broad = (int)mx_least(n - column, COLS);
    const bool vector = COLS == 4 && b_col == 1 && broad == 4 && mx_quads<TB>(b, b_row);
    f32 sum[ROWS][COLS];
    MX_UNROLL
    for (int e = 0; e < ROWS * COLS; e++) sum[e / COLS][e % COLS] = 0.0f;
    for (i64 at = warp; at < k; at += WARPS * AHEAD) {
      f32 v[AHEAD][COLS];
      MX_UNROLL
      for (int q = 0; q < AHEAD; q++) {
        const i64 depth = at + q * WARPS;
        const mx_stored<TB> *const p = b + depth * b_row;
        if (COLS == 4 && vector && depth < k)
          mx_load4<TB>(v[q], p);
        else {
          MX_UNROLL
          for (int j = 0; j < COLS; j++) v[q][j] = depth < k && j < broad ? mx_load<TB>(p + j * b_col) : 0.0f;
        }
      }
      MX_UNROLL
      for (int q = 0; q < AHEAD; q++) {
        const i64 depth = at + q * WARPS;
        MX_UNROLL
        for (int i = 0; i < ROWS; i++) {
          const f32 u = depth < k && i < high ? mx_load<TA>(a + i * a_row + depth * a_col) : 0.0f;
          MX_UNROLL
          for (int j = 0; j < COLS; j++) sum[i][j] = fmaf(u, v[q][j], sum[i][j]);
        }
      }
    }
    __syncthreads(); /* the sums of the tile before have been read */
    MX_UNROLL
    for (int e = 0; e < ROWS * COLS; e++) /* columns of one row together: WIDTH neighbours a row */
      shared[(warp * ROWS + e / COLS) * WIDTH + lane * COLS + e % COLS] = sum[e / COLS][e % COLS];
    __syncthreads();
    for (int e = (int)threadIdx.x; e < high * WIDTH; e += THREADS) {
      f32 total = shared[e];
      for (int w = 1; w < WARPS; w++) total += shared[w * ROWS * WIDTH + e];
      if (first + e % WIDTH < n) finish(item, row + e / WIDTH, first + e % WIDTH, total);
    }
  }
}

template <int ROWS, int COLS, class TA, class TB, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_gemv(void *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_row, i64 b_col, i64 items,
                       i64 m, i64 n, i64 k, FINISH finish) {
  f32 *const sums = reinterpret_cast<f32 *>(shared);
  if (b_row == 1)
    mx_gemv_dot<ROWS, COLS, TA, TB>(sums, left, a_row, a_col, right, b_col, items, m, n, k, finish);
  else
    mx_gemv_axpy<ROWS, COLS, TA, TB>(sums, left, a_row, a_col, right, b_row, b_col, items, m, n, k, finish);
}
