/* product.cuh - C[item][row][col] = sum over k of A[item][row][k] B[item][k][col], in float32, by register tiles.
 *
 *   template <class CFG, class TA, class TB>
 *   mx_product(shared, left, a_row, a_col, right, b_row, b_col, items, m, n, k, finish,
 *              memory)
 *
 *   CFG            an mx_tile below; blocks of CFG::THREADS threads, grid of any size (a loop over all tiles); the
 *                  kernel says __launch_bounds__(CFG::THREADS, CFG::BLOCKS)
 *   TA, TB         f32, mx_bf16 or mx_f16: what the matrices hold (tiles.cuh); 16-bit elements are read as u16
 *   shared         CFG::SHARED bytes of shared memory, aligned to 16, for this call alone
 *   left(item)     const mx_stored<TA> * to A[item][0][0]; right(item) likewise for B
 *   a_row, ...     strides in elements, of any value, 0 and negative ones too
 *   finish(item, row, col, value)   called exactly once for every element of C, k = 0 included (the sum is then 0)
 *   memory         where the blocks of a tile leave their sums, if the launch has several (split.cuh); else left out
 *
 * Called by all threads of the block with the same arguments.  Literal strides leave only the code of their layout.
 *
 *     extern "C" __global__ void
 *     __launch_bounds__(mx_tile_64x64::THREADS, mx_tile_64x64::BLOCKS)
 *     kernel(const f32 *a, const f32 *b, f32 *c, i64 m) {
 *       MX_DYN_SHARED(f32, shared);
 *       mx_product<mx_tile_64x64, f32, f32>(
 *           shared, [=](i64) { return a; }, 384, 1, [=](i64) { return b; }, 1536, 1, 1, m, 1536, 384,
 *           [=](i64, i64 row, i64 col, f32 value) { c[row * 1536 + col] = value; });
 *     }
 *
 * Of float32, panels come by asynchronous copies, STAGES - 1 of them under way while one is multiplied; one barrier for
 * each BK of k separates them.  Other elements come by way of registers, where they become numbers, and have two
 * stages.  Groups of four are read at once where one stride is 1, the other a multiple of 4 and the base aligned;
 * everything else takes the same way one element at a time.
 *
 * A finished tile goes through shared memory, so that `finish` runs for neighbouring columns in neighbouring lanes and
 * is compiled once, not once for each of a thread's sums.
 *
 * SLICES > 1 is for few tiles and large k: that many groups of threads share a tile, each takes its part of every BK,
 * and the sums are added in the order of the slices when the tile is finished.  All orders of summation depend on CFG,
 * k and gridDim.y alone, so results do not depend on the rest of the grid, the other rows, or the device.
 *
 * Cost of a tile: 2 BM BN k flops, (BM + BN) k elements read, k / BK + 2 PARTS + 1 barriers.
 */
#pragma once

template <int BM_, int BN_, int BK_, int TM_, int TN_, int SLICES_ = 1, int STAGES_ = 3, int REGISTERS_ = 168,
          int UNROLL_ = 4>
struct mx_tile {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_, SLICES = SLICES_, STAGES = STAGES_,
                       UNROLL = UNROLL_;
  static constexpr int THREADS = BM / TM * (BN / TN) * SLICES, BLOCKS = mx_blocks(THREADS, REGISTERS_);
  /* Stages of two panels; in the end the tiles of the slices take their place, in two parts if they must. */
  static constexpr int PANELS = STAGES * (BM + 4 + BN + 4) * BK * 4, SUMS = SLICES * BM * BN * 4;
  static constexpr int PARTS = SUMS > PANELS && TM > 4 ? 2 : 1;
  static constexpr int SHARED = PANELS > SUMS / PARTS ? PANELS : SUMS / PARTS;
  static_assert(BK % SLICES == 0 && BM % 4 == 0 && BN % 4 == 0 && BK % 8 == 0, "groups of four, whole slices");
};
/* The first three keep the arithmetic units busy, the others get many blocks out of small products. */
typedef mx_tile<128, 128, 16, 8, 8, 1, 3, 128, 1> mx_tile_128x128;
typedef mx_tile<128, 64, 16, 8, 8, 1, 4, 168, 2> mx_tile_128x64;
typedef mx_tile<64, 64, 16, 8, 8, 2, 4> mx_tile_64x64;
typedef mx_tile<32, 64, 32, 4, 4, 1, 3> mx_tile_32x64;
typedef mx_tile<32, 32, 32, 4, 4, 2, 3> mx_tile_32x32;
typedef mx_tile<16, 64, 64, 4, 4, 2, 3> mx_tile_16x64;

/* OUTER x DEPTH numbers on their way from memory to shared memory, by copies that need no register.  Where k is
 * contiguous, each number is copied on its own, into the column where it belongs: a warp reads 32 bytes of each of four
 * rows, and no two lanes write to one bank.  Numbers outside of the matrix become 0. */
template <int OUTER, int DEPTH, int THREADS> struct mx_async_panel {
  static constexpr int LD = OUTER + 4, FLOATS = LD * DEPTH;
  static constexpr int EACH = (OUTER * DEPTH / 4 + THREADS - 1) / THREADS; /* copies of 16 bytes */
  static constexpr bool WHOLE = OUTER * DEPTH / 4 % THREADS == 0;
  static constexpr int DOWN = THREADS * 4 / OUTER;               /* rows of copies of 16 bytes that threads reach */
  static constexpr int SINGLES = OUTER * DEPTH / THREADS;        /* copies of 4 bytes */
  static constexpr int ACROSS = THREADS / 8;                     /* eight threads along k, these along the other axis */
  static_assert(THREADS % (OUTER / 4) == 0 && OUTER * DEPTH % THREADS == 0, "every thread copies as much");
  static_assert(OUTER % ACROSS == 0 || ACROSS % OUTER == 0, "threads fill the panel evenly");

  const f32 *from; /* the thread's first number of the panel that comes next */
  i64 outer_stride, depth_stride;
  int outer, depth; /* where it is */
  int room;         /* how many of the outer places there are from there on */
  bool deep, vector;

  /* The panel of `places` places from `first` on that begins at depth `at`. */
  __device__ __forceinline__ mx_async_panel(const f32 *base, i64 outer_stride_, i64 depth_stride_, i64 first,
                                            i64 places, i64 at)
      : outer_stride(outer_stride_), depth_stride(depth_stride_) {
    const int thread = (int)threadIdx.x;
    deep = depth_stride == 1 || outer_stride != 1;
    vector = !deep && mx_quads<f32>(base, depth_stride);
    outer = deep ? thread / 8 % OUTER : vector ? thread % (OUTER / 4) * 4 : thread % OUTER;
    depth = deep ? thread / 8 / OUTER * 8 + thread % 8 : vector ? thread / (OUTER / 4) : thread / OUTER;
    room = (int)mx_least(places - first, OUTER) - outer;
    from = base + (first + outer) * outer_stride + (at + depth) * depth_stride;
  }
  /* Starts copying a panel of which there are `left` of k, and goes on to the next. */
  __device__ __forceinline__ void copy(f32 *shared, int left) {
    const int depths = left - depth;
    f32 *const to = shared + depth * LD + outer;
    if (vector) {
      const int bytes = room < 0 ? 0 : room > 4 ? 16 : room * 4;
      MX_UNROLL
      for (int i = 0; i < EACH; i++) {
        const int count = i * DOWN < depths ? bytes : 0;
        if (WHOLE || depth + i * DOWN < DEPTH)
          mx_cp_async<16>(to + i * DOWN * LD, from + i * DOWN * depth_stride, count);
      }
    } else if (deep) {
      MX_UNROLL
      for (int i = 0; i < SINGLES; i++) {
        const int o = i * ACROSS % OUTER, d = i * ACROSS / OUTER * 8;
        const bool there = o < room && d < depths;
        mx_cp_async<4>(to + d * LD + o, from + o * outer_stride + d * depth_stride, there ? 4 : 0);
      }
    } else {
      constexpr int ALONG = THREADS < OUTER ? OUTER : THREADS; /* with fewer threads than places, these take turns */
      MX_UNROLL
      for (int i = 0; i < SINGLES; i++) {
        const int o = i * THREADS % OUTER, d = i * (ALONG / OUTER) / (ALONG / THREADS);
        const bool there = o < room && d < depths;
        mx_cp_async<4>(to + d * LD + o, from + o + d * depth_stride, there ? 4 : 0);
      }
    }
    from += DEPTH * depth_stride;
  }
};

/* The sums of one tile over k, panels by way of registers: for elements that are not numbers yet. */
template <class CFG, class TA, class TB, class TILE>
MX_INLINE void mx_tile_sums(TILE &tile, int slice, f32 *panels, const mx_stored<TA> *left, i64 a_row, i64 a_col,
                            const mx_stored<TB> *right, i64 b_row, i64 b_col, i64 row, i64 column, i64 m, i64 n,
                            i64 begin, i64 end) {
  typedef mx_panel<TA, CFG::BM, CFG::BK, CFG::THREADS> A;
  typedef mx_panel<TB, CFG::BN, CFG::BK, CFG::THREADS> B;
  constexpr int STAGE = A::FLOATS + B::FLOATS, SLICE = CFG::BK / CFG::SLICES;
  int stage = 0;
  const A a(left, a_row, a_col, row, m);
  const B b(right, b_col, b_row, column, n);
  f32 from_a[A::EACH][4], from_b[B::EACH][4];
  if (begin < end) {
    a.fetch(from_a, begin, end - begin);
    b.fetch(from_b, begin, end - begin);
  }
  for (i64 k0 = begin; k0 < end; k0 += CFG::BK) {
    f32 *const now = panels + stage * STAGE;
    /* Nobody reads this stage any more: its readers have passed the barrier of the other one. */
    a.put(now, from_a);
    b.put(now + A::FLOATS, from_b);
    __syncthreads();
    if (k0 + CFG::BK < end) {
      a.fetch(from_a, k0 + CFG::BK, end - k0 - CFG::BK);
      b.fetch(from_b, k0 + CFG::BK, end - k0 - CFG::BK);
    }
    tile.template add<CFG::UNROLL>(now + slice * SLICE * A::LD, A::LD, now + A::FLOATS + slice * SLICE * B::LD, B::LD, SLICE);
    stage ^= 1;
  }
}

/* The same for float32, by asynchronous copies. */
template <class CFG, class TILE>
MX_INLINE void mx_tile_sums_async(TILE &tile, int slice, f32 *panels, const f32 *left, i64 a_row, i64 a_col,
                                  const f32 *right, i64 b_row, i64 b_col, i64 row, i64 column, i64 m, i64 n, i64 begin,
                                  i64 end) {
  typedef mx_async_panel<CFG::BM, CFG::BK, CFG::THREADS> A;
  typedef mx_async_panel<CFG::BN, CFG::BK, CFG::THREADS> B;
  constexpr int STAGE = A::FLOATS + B::FLOATS, SLICE = CFG::BK / CFG::SLICES, AHEAD = CFG::STAGES - 1;
  A a(left, a_row, a_col, row, m, begin);
  B b(right, b_col, b_row, column, n, begin);
  i64 fetched = begin;   /* where in k the next panel begins */
  int next = 0, now = 0; /* the stages that are filled and multiplied next */
  const auto fetch = [&]() {
    if (fetched < end) {
      const int depths = (int)mx_least(end - fetched, CFG::BK);
      a.copy(panels + next * STAGE, depths);
      b.copy(panels + next * STAGE + A::FLOATS, depths);
    }
    mx_cp_async_commit(); /* a group for every step, empty or not: waiting counts groups */
    fetched += CFG::BK;
    next = next + 1 == CFG::STAGES ? 0 : next + 1;
  };
  MX_UNROLL
  for (int step = 0; step < AHEAD; step++) fetch();
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (i64 k0 = begin; k0 < end; k0 += CFG::BK) {
    mx_cp_async_wait<AHEAD - 1>();
    __syncthreads(); /* this panel is there for all, and the last one has been read by all */
    fetch();
    const f32 *const panel = panels + now * STAGE;
    now = now + 1 == CFG::STAGES ? 0 : now + 1;
    tile.template add<CFG::UNROLL>(panel + slice * SLICE * A::LD, A::LD, panel + A::FLOATS + slice * SLICE * B::LD, B::LD, SLICE);
  }
  mx_cp_async_wait<0>();
}

/* One tile of a product, from `row` and `column` on; the block has passed a barrier since it last used `shared`.  `at`
 * is its number. */
template <class CFG, class TA, class TB, class FINISH>
MX_INLINE void mx_product_tile(void *shared, const mx_stored<TA> *left, i64 a_row, i64 a_col,
                               const mx_stored<TB> *right, i64 b_row, i64 b_col, i64 row, i64 column, i64 m, i64 n,
                               i64 k, FINISH finish, const mx_split &split, i64 at) {
  typedef mx_registers<CFG::BM, CFG::BN, CFG::TM, CFG::TN> Tile;
  constexpr int ROWS = CFG::BM / CFG::PARTS;
  f32 *const panels = reinterpret_cast<f32 *>(shared);
  const int slice = (int)threadIdx.x / Tile::THREADS, thread = (int)threadIdx.x % Tile::THREADS;
  Tile tile(thread);
  i64 begin, end;
  split.range(k, CFG::BK, &begin, &end);
  tile.clear();
  if constexpr (sizeof(mx_stored<TA>) == 4 && sizeof(mx_stored<TB>) == 4)
    mx_tile_sums_async<CFG>(tile, slice, panels, left, a_row, a_col, right, b_row, b_col, row, column, m, n, begin, end);
  else
    mx_tile_sums<CFG, TA, TB>(tile, slice, panels, left, a_row, a_col, right, b_row, b_col, row, column, m, n, begin,
                              end);
  mx_finish_tile<CFG, CFG::BN, CFG::SLICES>(
      panels, split, at, row, column, m, n,
      [&](int part) { tile.template put<CFG::PARTS>(panels + slice * ROWS * CFG::BN, part); }, finish);
  __syncthreads(); /* before the next tile's panels */
}

template <class CFG, class TA, class TB, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_product(void *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_row, i64 b_col, i64 items,
                          i64 m, i64 n, i64 k, FINISH finish, unsigned char *memory = nullptr) {
  const i64 rows = mx_ceil_div(m, CFG::BM), columns = mx_ceil_div(n, CFG::BN), tiles = items * rows * columns;
  const mx_split split(memory);
  for (i64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    i64 item, row, column;
    mx_tile_place(t, rows, columns, &item, &row, &column);
    mx_product_tile<CFG, TA, TB>(
        shared, left(item), a_row, a_col, right(item), b_row, b_col, row * CFG::BM, column * CFG::BN, m, n, k,
        [&](i64 r, i64 c, f32 value) { finish(item, r, c, value); }, split, t);
  }
}
