/* gemv.cuh - the product of product.cuh for few rows, which reads B once and is meant to be as fast as memory.
 *
 *   template <class CFG, class TA, class TB>
 *   mx_gemv_dot(shared, left, a_row, a_col, right, b_row, b_col, items, m, n, k, finish)
 *   mx_gemv_axpy(the same)
 *
 * Arguments as for mx_product; CFG has THREADS, BLOCKS, and SHARED bytes, aligned to 16; grid of any size.  Any m and
 * any strides are correct; B is read once for each ROWS rows of A.  Choose the smallest ROWS that m fits into.
 *
 *   dot    for b_row == 1, as in x W^T, with mx_dot_block<ROWS, COLS, SLICES>: a warp makes ROWS x COLS results.  Its
 *          lanes read 16 bytes along k of each column, and the sums of the lanes are added by shuffles.  SLICES warps
 *          share the same columns, each takes every SLICES-th piece of k, and the sums are added in their order.
 *          A block makes 8 / SLICES COLS columns.
 *
 *   axpy   for b_col == 1, as in x W, with mx_axpy_block<ROWS, WIDTH, THREADS>: a block makes WIDTH columns, few enough
 *          that every multiprocessor has some.  Lanes side by side read 16 bytes each of a row of B, WIDTH elements
 *          together; the other threads of the block take other rows, DEPTH neighbouring ones each, and all sums are
 *          added by shuffles and through shared memory.
 *
 * A thread starts all reads of a step before it uses the first one: memory answers late, and what keeps it busy is how
 * much has been asked for.  Reads of 16 bytes need a stride of 1 along them, the other stride and the base aligned;
 * everything else is read one element at a time, in the same order of summation.  That order depends on CFG, the types
 * of the elements, k and the layout alone.
 *
 * Cost: 2 m n k flops; n k elements of B read, and of A m k for each warp (dot) or block (axpy), from the caches.
 */
#pragma once

/* ---- sixteen bytes ----------------------------------------------------------------------------------------------- */
/* Elements of 16 bytes as they lie in memory, which are made numbers when they are used. */
template <class T> struct mx_sixteen {
  static constexpr int COUNT = 16 / (int)sizeof(mx_stored<T>);
  uint4 raw;
  __device__ __forceinline__ void load(const mx_stored<T> *p) { raw = *reinterpret_cast<const uint4 *>(p); }
  __device__ __forceinline__ f32 get(int i) const {
    const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
    if constexpr (COUNT == 4)
      return mx_f32_bits(words[i]);
    else
      return mx_element<T>::value((u16)(i & 1 ? words[i / 2] >> 16 : words[i / 2] & 0xffffu));
  }
};
/* Whether they can be read at once, `stride` elements apart from `p` on. */
template <class T> MX_INLINE bool mx_sixteens(const mx_stored<T> *p, i64 stride) {
  return stride % mx_sixteen<T>::COUNT == 0 && reinterpret_cast<u64>(p) % 16 == 0;
}
/* N neighbours along k of one row of A, N a multiple of 4, in 16-byte reads where `vector` is true. */
template <class T, int N> struct mx_along {
  static constexpr int EACH = mx_sixteen<T>::COUNT < N ? mx_sixteen<T>::COUNT : N;
  f32 v[N];
  __device__ __forceinline__ void load(const mx_stored<T> *p, i64 step, bool vector) {
    if (vector) {
      MX_UNROLL
      for (int i = 0; i < N; i += EACH) {
        if constexpr (EACH * sizeof(mx_stored<T>) == 16) {
          mx_sixteen<T> q;
          q.load(p + i);
          MX_UNROLL
          for (int j = 0; j < EACH; j++) v[i + j] = q.get(j);
        } else
          mx_load4<T>(v + i, p + i);
      }
    } else {
      MX_UNROLL
      for (int i = 0; i < N; i++) v[i] = mx_load<T>(p + i * step);
    }
  }
};

/* ---- along the rows of W^T --------------------------------------------------------------------------------------- */
template <int ROWS_, int COLS_, int SLICES_> struct mx_dot_block {
  static constexpr int ROWS = ROWS_, COLS = COLS_, SLICES = SLICES_, THREADS = 256, WARPS = THREADS / 32;
  static constexpr int N = ROWS * COLS, GROUPS = WARPS / SLICES; /* groups of warps, with columns of their own */
  static constexpr int AHEAD = N > 16 ? 2 : COLS > 4 ? 1 : 8 / COLS; /* reads of each column under way */
  static constexpr int BLOCKS = mx_blocks(THREADS, N > 4 ? 168 : N > 1 ? 128 : 80);
  static constexpr int LANES = N < 32 ? N : 32; /* values that are added over the lanes at once */
  static constexpr int SHARED = WARPS * N * 4;
  static_assert(N <= 64 && N % LANES == 0 && WARPS % SLICES == 0, "sums that fit, whole groups");
};

template <class CFG, class TA, class TB, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_gemv_dot(void *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_row, i64 b_col, i64 items,
                           i64 m, i64 n, i64 k, FINISH finish) {
  constexpr int ROWS = CFG::ROWS, COLS = CFG::COLS, N = CFG::N, SLICES = CFG::SLICES, AHEAD = CFG::AHEAD;
  constexpr int EACH = mx_sixteen<TB>::COUNT, STEP = 32 * EACH, LANES = CFG::LANES;
  const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, slice = warp % SLICES;
  f32 *const sums = reinterpret_cast<f32 *>(shared);
  const i64 tall = mx_ceil_div(m, ROWS), wide = mx_ceil_div(n, COLS * CFG::GROUPS), count = items * tall * wide;
  for (i64 g = blockIdx.x; g < count; g += gridDim.x) {
    const i64 item = g / (tall * wide), row = g / wide % tall * ROWS, first = g % wide * (COLS * CFG::GROUPS);
    const i64 column = first + warp / SLICES * COLS;
    const mx_stored<TA> *const a = left(item) + row * a_row;
    const mx_stored<TB> *const b = right(item) + column * b_col;
    const int high = (int)mx_least(m - row, ROWS), broad = (int)mx_least(n - column, COLS);
    const bool a_vector = a_col == 1 && mx_sixteens<TA>(a, a_row);
    const bool b_vector = b_row == 1 && mx_sixteens<TB>(b, b_col);
    f32 sum[N];
    MX_UNROLL
    for (int e = 0; e < N; e++) sum[e] = 0.0f;
    /* Pieces of STEP go to the slices in turn; a lane has EACH neighbours of each.  Rows and columns that are not there
     * are read as the last one that is: their sums go nowhere. */
    i64 at = broad > 0 ? (i64)slice * STEP + lane * EACH : k;
    if (b_vector && broad > 0) {
      const i64 last = k - EACH;
      for (; at <= last; at += AHEAD * SLICES * STEP) {
        mx_sixteen<TB> v[AHEAD][COLS];
        MX_UNROLL
        for (int q = 0; q < AHEAD; q++) {
          const i64 place = at + q * SLICES * STEP;
          MX_UNROLL
          for (int j = 0; j < COLS; j++)
            if (q == 0 || place <= last) v[q][j].load(b + (j < broad ? j : broad - 1) * b_col + place);
        }
        MX_UNROLL
        for (int q = 0; q < AHEAD; q++) {
          const i64 place = at + q * SLICES * STEP;
          if (q == 0 || place <= last) {
            MX_UNROLL
            for (int i = 0; i < ROWS; i++) {
              mx_along<TA, EACH> u;
              u.load(a + (i < high ? i : high - 1) * a_row + place * a_col, a_col, a_vector);
              MX_UNROLL
              for (int j = 0; j < COLS; j++) {
                MX_UNROLL
                for (int e = 0; e < EACH; e++) sum[i * COLS + j] = fmaf(u.v[e], v[q][j].get(e), sum[i * COLS + j]);
              }
            }
          }
        }
      }
      at = k / EACH * EACH; /* less than a piece is left, for one lane of one slice */
      if (at / EACH % (32 * SLICES) != slice * 32 + lane) at = k;
    }
    for (; at < k; at += SLICES * STEP) {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
      for (int e = 0; e < EACH && at + e < k; e++) {
        f32 v[COLS];
        MX_UNROLL
        for (int j = 0; j < COLS; j++) v[j] = mx_load<TB>(b + (at + e) * b_row + (j < broad ? j : broad - 1) * b_col);
        MX_UNROLL
        for (int i = 0; i < ROWS; i++) {
          const f32 u = mx_load<TA>(a + (i < high ? i : high - 1) * a_row + (at + e) * a_col);
          MX_UNROLL
          for (int j = 0; j < COLS; j++) sum[i * COLS + j] = fmaf(u, v[j], sum[i * COLS + j]);
        }
      }
    }
    if constexpr (SLICES > 1) __syncthreads(); /* the sums before have been read */
    MX_UNROLL
    for (int e = 0; e < N; e += LANES) {
      f32 part[LANES];
      MX_UNROLL
      for (int i = 0; i < LANES; i++) part[i] = sum[e + i];
      const f32 total = mx_warp_sums<LANES>(part);
      const int mine = e + lane / (32 / LANES), i = mine / COLS, j = mine % COLS;
      if (lane % (32 / LANES) == 0) {
        if constexpr (SLICES > 1)
          sums[warp * N + mine] = total;
        else if (i < high && j < broad)
          finish(item, row + i, column + j, total);
      }
    }
    if constexpr (SLICES > 1) {
      __syncthreads();
      for (int e = (int)threadIdx.x; e < CFG::GROUPS * N; e += CFG::THREADS) {
        const int i = e / (CFG::GROUPS * COLS), j = e % (CFG::GROUPS * COLS); /* neighbours are columns */
        const f32 *const of = sums + j / COLS * SLICES * N + i * COLS + j % COLS;
        f32 total = of[0];
        MX_UNROLL
        for (int s = 1; s < SLICES; s++) total += of[s * N];
        if (i < high && first + j < n) finish(item, row + i, first + j, total);
      }
    }
  }
}

/* ---- along the rows of W ----------------------------------------------------------------------------------------- */
template <int ROWS_, int WIDTH_, int THREADS_> struct mx_axpy_block {
  static constexpr int ROWS = ROWS_, WIDTH = WIDTH_, THREADS = THREADS_, WARPS = THREADS / 32;
  static constexpr int DEPTH = ROWS > 4 ? 4 : 8; /* neighbours along k, whose rows of B are under way together */
  static constexpr int BLOCKS = mx_blocks(THREADS, ROWS > 2 ? 168 : ROWS > 1 ? 128 : 64);
  static constexpr int SHARED = WARPS * ROWS * WIDTH * 4; /* the sums of all warps */
  static_assert(SHARED <= 48 * 1024, "static shared memory ends at 48 KiB");
};

template <class CFG, class TA, class TB, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_gemv_axpy(void *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_row, i64 b_col, i64 items,
                            i64 m, i64 n, i64 k, FINISH finish) {
  constexpr int ROWS = CFG::ROWS, WIDTH = CFG::WIDTH, DEPTH = CFG::DEPTH, EACH = mx_sixteen<TB>::COUNT;
  constexpr int SPAN = WIDTH / EACH, DOWN = 32 / SPAN, STEP = CFG::THREADS / SPAN * DEPTH;
  static_assert(SPAN >= 1 && DOWN >= 1 && SPAN * EACH == WIDTH && SPAN * DOWN == 32, "whole warps");
  constexpr int N = EACH < DOWN ? EACH : DOWN; /* sums of one row that are added over the lanes at once */
  const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
  const int across = lane / DOWN * EACH, down = (int)(threadIdx.x / 32) * DOWN + lane % DOWN;
  f32 *const sums = reinterpret_cast<f32 *>(shared);
  const i64 tall = mx_ceil_div(m, ROWS), wide = mx_ceil_div(n, WIDTH), count = items * tall * wide;
  for (i64 g = blockIdx.x; g < count; g += gridDim.x) {
    const i64 item = g / (tall * wide), row = g / wide % tall * ROWS, first = g % wide * WIDTH;
    const i64 column = first + across;
    const mx_stored<TA> *const a = left(item) + row * a_row;
    const mx_stored<TB> *const b = right(item) + column * b_col;
    const int high = (int)mx_least(m - row, ROWS), broad = (int)mx_least(n - column, EACH);
    const bool a_vector = a_col == 1 && mx_sixteens<TA>(a, a_row);
    const bool b_vector = b_col == 1 && broad == EACH && mx_sixteens<TB>(b, b_row);
    f32 sum[ROWS][EACH];
    MX_UNROLL
    for (int e = 0; e < ROWS * EACH; e++) sum[e / EACH][e % EACH] = 0.0f;
    i64 at = broad > 0 ? (i64)down * DEPTH : k;
    if (b_vector)
      for (; at + DEPTH <= k; at += STEP) {
        mx_sixteen<TB> v[DEPTH];
        MX_UNROLL
        for (int q = 0; q < DEPTH; q++) v[q].load(b + (at + q) * b_row);
        MX_UNROLL
        for (int i = 0; i < ROWS; i++) {
          mx_along<TA, DEPTH> u;
          u.load(a + (i < high ? i : high - 1) * a_row + at * a_col, a_col, a_vector);
          MX_UNROLL
          for (int q = 0; q < DEPTH; q++) {
            MX_UNROLL
            for (int j = 0; j < EACH; j++) sum[i][j] = fmaf(u.v[q], v[q].get(j), sum[i][j]);
          }
        }
      }
    for (; at < k; at += STEP) { /* the rest, and what cannot be read at once */
#if defined(__CUDACC__)
#pragma unroll 1
#endif
      for (int q = 0; q < DEPTH && at + q < k; q++) {
        f32 v[EACH];
        MX_UNROLL
        for (int j = 0; j < EACH; j++) v[j] = j < broad ? mx_load<TB>(b + (at + q) * b_row + j * b_col) : 0.0f;
        MX_UNROLL
        for (int i = 0; i < ROWS; i++) {
          const f32 u = mx_load<TA>(a + (i < high ? i : high - 1) * a_row + (at + q) * a_col);
          MX_UNROLL
          for (int j = 0; j < EACH; j++) sum[i][j] = fmaf(u, v[j], sum[i][j]);
        }
      }
    }
    __syncthreads(); /* the sums before have been read */
    MX_UNROLL
    for (int i = 0; i < ROWS; i++) {
      MX_UNROLL
      for (int e = 0; e < EACH; e += N) { /* DOWN neighbouring lanes have the same columns */
        f32 part[N];
        MX_UNROLL
        for (int j = 0; j < N; j++) part[j] = sum[i][e + j];
        f32 total = part[0];
        if constexpr (DOWN > 1) total = mx_warp_sums<N, DOWN / 2>(part);
        if (lane % (DOWN / N) == 0) sums[(warp * ROWS + i) * WIDTH + across + e + lane % DOWN / (DOWN / N)] = total;
      }
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < high * WIDTH; e += CFG::THREADS) {
      f32 total = sums[e];
      MX_UNROLL
      for (int w = 1; w < CFG::WARPS; w++) total += sums[w * ROWS * WIDTH + e];
      if (first + e % WIDTH < n) finish(item, row + e / WIDTH, first + e % WIDTH, total);
    }
  }
}
