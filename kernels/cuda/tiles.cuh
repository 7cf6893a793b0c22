/* tiles.cuh - what the products of a block are made of: elements, panels in shared memory, register tiles.
 *
 * Put behind prelude.cuh and in front of product.cuh, product_mma.cuh, gemv.cuh and attention.cuh.  A product of a
 * block reads two panels of the same shape, `outer` x `depth`: rows of A or columns of B, along k.  In shared memory
 * both lie with `outer` contiguous, whatever the order in memory was, so that one k is one row of each:
 *
 *        A panel, depth x BM           B panel, depth x BN            thread: TM x TN of C in registers
 *     k  | a a a a . . a a a a |       | b b b b . . b b b b |
 *          \strip/     \strip/          \strip/     \strip/           c[i][j] += a[i] * b[j]
 *
 * A thread's rows (and columns) are strips of 4, one 16-byte read each.  Strips of neighbouring threads are neighbours,
 * so a warp, 4 x 8 threads where the tile allows it, reads at most 128 contiguous bytes at a time: no bank twice.
 * A thread's own strips are as far apart as all threads' first strips reach.
 */
#pragma once

#if defined(__CUDASIM__)
#define MX_UNROLL _Pragma("GCC unroll 64")
#else
#define MX_UNROLL _Pragma("unroll")
#endif

/* A loop over registers.  The simulator has them in memory and needs no copy of the body for each: there it costs
 * nothing to run and much to compile. */
#if defined(__CUDASIM__)
#define MX_IN_REGISTERS
#else
#define MX_IN_REGISTERS _Pragma("unroll")
#endif

#define MX_INFINITY mx_f32_bits(0x7f800000u) /* NVRTC has no INFINITY */

/* Second argument of __launch_bounds__ for blocks of so many threads: as many on a multiprocessor as leave a thread
 * `registers` of its 65536.  Without it ptxas aims at more blocks and would rather spill. */
__host__ __device__ constexpr int mx_blocks(int threads, int registers) {
  return 65536 / registers / threads > 1 ? 65536 / registers / threads : 1;
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */
/* What a matrix holds: f32 itself, or a name for the meaning of 16 bits.  Sums are always float32. */
struct mx_bf16 {};
struct mx_f16 {};
template <class T> struct mx_element;
template <> struct mx_element<f32> {
  typedef f32 stored;
  typedef float4 quad;
  MX_INLINE f32 value(f32 x) { return x; }
};
template <> struct mx_element<mx_bf16> {
  typedef u16 stored;
  typedef ushort4 quad;
  MX_INLINE f32 value(u16 x) { return mx_bf16_to_f32(x); }
};
template <> struct mx_element<mx_f16> {
  typedef u16 stored;
  typedef ushort4 quad;
  MX_INLINE f32 value(u16 x) { return mx_half_value(x); }
};
template <class T> using mx_stored = typename mx_element<T>::stored;

template <class T> MX_INLINE f32 mx_load(const mx_stored<T> *p) { return mx_element<T>::value(*p); }
/* Four neighbours; p is aligned to all of them. */
template <class T> MX_INLINE void mx_load4(f32 *v, const mx_stored<T> *p) {
  const typename mx_element<T>::quad q = *reinterpret_cast<const typename mx_element<T>::quad *>(p);
  v[0] = mx_element<T>::value(q.x);
  v[1] = mx_element<T>::value(q.y);
  v[2] = mx_element<T>::value(q.z);
  v[3] = mx_element<T>::value(q.w);
}
/* Whether groups of four, `stride` elements apart from `p` on, can be read at once. */
template <class T> MX_INLINE bool mx_quads(const mx_stored<T> *p, i64 stride) {
  return stride % 4 == 0 && reinterpret_cast<u64>(p) % (4 * sizeof(mx_stored<T>)) == 0;
}

MX_INLINE i64 mx_least(i64 a, i64 b) { return a < b ? a : b; }
MX_INLINE i64 mx_ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

/* Elements i .. i + 3 of n, `step` apart; 0 beyond. */
template <class T> MX_INLINE void mx_group(f32 *v, const mx_stored<T> *p, i64 step, i64 i, i64 n, bool vector) {
  if (vector && i + 4 <= n)
    mx_load4<T>(v, p + i);
  else {
    MX_UNROLL
    for (int j = 0; j < 4; j++) v[j] = i + j < n ? mx_load<T>(p + (i + j) * step) : 0.0f;
  }
}

/* Adds N values over the 2 APART neighbouring lanes of a group, N at most that many: lane l of a group gets the sum of
 * value l / (2 APART / N).  Halving the values with each exchange takes N - 1 + log2(2 APART / N) shuffles, where one
 * value at a time takes N log2(2 APART).  All lanes of the warp take part. */
template <int N, int APART = 16> MX_INLINE f32 mx_warp_sums(const f32 (&v)[N]) {
  if constexpr (N > 1) {
    const bool upper = threadIdx.x & APART;
    f32 half[N / 2];
    MX_UNROLL
    for (int i = 0; i < N / 2; i++) {
      const f32 keep = upper ? v[i + N / 2] : v[i], give = upper ? v[i] : v[i + N / 2];
      half[i] = keep + __shfl_xor_sync(MX_FULL_WARP, give, APART);
    }
    return mx_warp_sums<N / 2, APART / 2>(half);
  } else {
    f32 sum = v[0];
    MX_UNROLL
    for (int apart = APART; apart; apart /= 2) sum += __shfl_xor_sync(MX_FULL_WARP, sum, apart);
    return sum;
  }
}

/* ---- a panel on its way from memory ------------------------------------------------------------------------------ */
/* OUTER x DEPTH elements of a strided matrix, four in a group, the groups dealt to the THREADS of the block.  `fetch`
 * reads into registers and `put` writes to shared memory, so that a product can run between the two.  Elements outside
 * of the matrix are 0, which adds nothing: 0 meets 0, never an infinity. */
template <class T, int OUTER, int DEPTH, int THREADS> struct mx_panel {
  static_assert(OUTER % 4 == 0 && DEPTH % 4 == 0, "a panel is made of groups of four");
  static constexpr int GROUPS = OUTER * DEPTH / 4, EACH = (GROUPS + THREADS - 1) / THREADS;
  static constexpr int LD = OUTER + 4; /* 16-byte rows; a column of the panel spreads over the banks */
  static constexpr int FLOATS = LD * DEPTH;
  static constexpr bool WHOLE = GROUPS % THREADS == 0;

  const mx_stored<T> *from;
  i64 outer_stride, depth_stride;
  int room;          /* how many of the outer places there are */
  bool deep, vector; /* groups go along depth; they are read at once */

  /* The panel of `outer` places from `first` on. */
  __device__ __forceinline__ mx_panel(const mx_stored<T> *base, i64 outer_stride_, i64 depth_stride_, i64 first,
                                      i64 outer)
      : from(base + first * outer_stride_), outer_stride(outer_stride_), depth_stride(depth_stride_) {
    room = (int)mx_least(outer - first, OUTER);
    deep = depth_stride == 1 || outer_stride != 1;
    vector = deep ? depth_stride == 1 && mx_quads<T>(base, outer_stride) : mx_quads<T>(base, depth_stride);
  }
  __device__ __forceinline__ void place(int group, int *outer, int *depth) const {
    *outer = deep ? group / (DEPTH / 4) : group % (OUTER / 4) * 4;
    *depth = deep ? group % (DEPTH / 4) * 4 : group / (OUTER / 4);
  }
  /* Four elements at depth `at` and beyond, where there are `depths` more, and their way into shared memory. */
  __device__ __forceinline__ void read(f32 *v, int group, i64 at, int depths) const {
    int outer, depth;
    place(group, &outer, &depth);
    int count = deep ? (outer < room ? depths - depth : 0) : (depth < depths ? room - outer : 0);
    if (!WHOLE && group >= GROUPS) count = 0;
    const mx_stored<T> *p = from + outer * outer_stride + (at + depth) * depth_stride;
    if (vector && count >= 4)
      mx_load4<T>(v, p);
    else {
      const i64 step = deep ? depth_stride : outer_stride;
      MX_UNROLL
      for (int j = 0; j < 4; j++) v[j] = j < count ? mx_load<T>(p + j * step) : 0.0f;
    }
  }
  __device__ __forceinline__ void write(f32 *shared, int group, const f32 *v) const {
    if (!WHOLE && group >= GROUPS) return;
    int outer, depth;
    place(group, &outer, &depth);
    f32 *to = shared + depth * LD + outer;
    if (deep) {
      MX_UNROLL
      for (int j = 0; j < 4; j++) to[j * LD] = v[j];
    } else
      *reinterpret_cast<float4 *>(to) = make_float4(v[0], v[1], v[2], v[3]);
  }
  /* What lies at depth `at` and beyond, `left` of it. */
  __device__ __forceinline__ void fetch(f32 (&v)[EACH][4], i64 at, i64 left) const {
    const int depths = (int)mx_least(left, DEPTH);
    MX_UNROLL
    for (int i = 0; i < EACH; i++) read(v[i], (int)threadIdx.x + i * THREADS, at, depths);
  }
  __device__ __forceinline__ void put(f32 *shared, const f32 (&v)[EACH][4]) const {
    MX_UNROLL
    for (int i = 0; i < EACH; i++) write(shared, (int)threadIdx.x + i * THREADS, v[i]);
  }
};

/* ---- strips of a row --------------------------------------------------------------------------------------------- */
/* N neighbours of a row of the result. */
template <int N> struct mx_strip {
  f32 v[N];
  __device__ __forceinline__ f32 get(int i) const { return v[i]; }
  __device__ __forceinline__ void set(int i, f32 x) { v[i] = x; }
  __device__ __forceinline__ void load(const f32 *p) { /* aligned to its size */
    if constexpr (N == 4)
      mx_load4<f32>(v, p);
    else if constexpr (N == 2) {
      const float2 q = *reinterpret_cast<const float2 *>(p);
      v[0] = q.x, v[1] = q.y;
    } else
      v[0] = *p;
  }
  __device__ __forceinline__ void store(f32 *p) const {
    if constexpr (N == 4)
      *reinterpret_cast<float4 *>(p) = make_float4(v[0], v[1], v[2], v[3]);
    else if constexpr (N == 2)
      *reinterpret_cast<float2 *>(p) = make_float2(v[0], v[1]);
    else
      *p = v[0];
  }
  __device__ __forceinline__ void add(f32 x, const mx_strip &y) {
    MX_UNROLL
    for (int i = 0; i < N; i++) v[i] = fmaf(x, y.v[i], v[i]);
  }
};
#if defined(__CUDASIM__)
/* A vector of this machine: g++ would not find it in the four sums of a thread. */
template <> struct mx_strip<4> {
  typedef f32 vec __attribute__((vector_size(16)));
  vec v;
  __device__ __forceinline__ f32 get(int i) const { return v[i]; }
  __device__ __forceinline__ void set(int i, f32 x) { v[i] = x; }
  __device__ __forceinline__ void load(const f32 *p) {
    const float4 q = *reinterpret_cast<const float4 *>(p);
    v = vec{q.x, q.y, q.z, q.w};
  }
  __device__ __forceinline__ void store(f32 *p) const {
    *reinterpret_cast<float4 *>(p) = make_float4(v[0], v[1], v[2], v[3]);
  }
  __device__ __forceinline__ void add(f32 x, const mx_strip &y) {
    v = vec{fmaf(x, y.v[0], v[0]), fmaf(x, y.v[1], v[1]), fmaf(x, y.v[2], v[2]), fmaf(x, y.v[3], v[3])};
  }
};
#endif

/* ---- a tile of the result in registers --------------------------------------------------------------------------- */
/* BM x BN elements, TM x TN a thread.  `thread` counts from 0 to THREADS - 1. */
template <int BM, int BN, int TM, int TN> struct mx_registers {
  static constexpr int ROWS = TM, COLUMNS = TN; /* of one thread */
  static constexpr int GY = BM / TM, GX = BN / TN, THREADS = GY * GX;
  static constexpr int VM = TM < 4 ? TM : 4, VN = TN < 4 ? TN : 4;     /* lengths of strips */
  static constexpr int SM = GY * VM, SN = GX * VN;                     /* from one strip of a thread to its next */
  static constexpr int WX = GX < 8 ? GX : GY < 4 ? 32 / GY : 8, WY = 32 / WX;             /* threads of a warp */
  static_assert(BM % TM == 0 && BN % TN == 0 && TM % VM == 0 && TN % VN == 0, "strips must fill the tile");
  static_assert(GX % WX == 0 && GY % WY == 0 && VM != 3 && VN != 3, "warps must fill the tile");

  mx_strip<VN> c[TM][TN / VN];
  int y, x; /* the first row and column */

  __device__ __forceinline__ explicit mx_registers(int thread) {
    const int warp = thread >> 5, lane = thread & 31;
    y = (warp / (GX / WX) * WY + lane / WX) * VM;
    x = (warp % (GX / WX) * WX + lane % WX) * VN;
  }
  MX_INLINE int row(int i) { return i / VM * SM + i % VM; } /* relative to y */
  MX_INLINE int column(int j) { return j / VN * SN + j % VN; }
  __device__ __forceinline__ f32 get(int i, int j) const { return c[i][j / VN].get(j % VN); }
  __device__ __forceinline__ void set(int i, int j, f32 value) { c[i][j / VN].set(j % VN, value); }
  __device__ __forceinline__ void clear() {
    MX_UNROLL
    for (int i = 0; i < TM; i++) {
      MX_UNROLL
      for (int j = 0; j < TN; j++) set(i, j, 0.0f);
    }
  }
  /* Writes part number `part` of PARTS of the tile, BM / PARTS of its rows, to p, BN elements a row. */
  template <int PARTS> __device__ __forceinline__ void put(f32 *p, int part) const {
    static_assert(TM / VM % PARTS == 0, "parts are whole strips");
    p += (y - part * (BM / PARTS)) * BN + x;
    MX_UNROLL
    for (int i = 0; i < TM; i++)
      if (i / VM / (TM / VM / PARTS) == part) {
        MX_UNROLL
        for (int j = 0; j < TN / VN; j++) c[i][j].store(p + row(i) * BN + j * SN);
      }
  }
  /* c += a b: `depth` rows of two panels whose rows are lda and ldb apart.  Each element is one chain of fused
   * multiply-adds in ascending order. */
  template <int UNROLL = 4>
  __device__ __forceinline__ void add(const f32 *a, int lda, const f32 *b, int ldb, int depth) {
    a += y, b += x;
#if defined(__CUDACC__)
#pragma unroll UNROLL
#endif
    for (int k = 0; k < depth; k++) {
      mx_strip<VM> u[TM / VM];
      mx_strip<VN> v[TN / VN];
      MX_UNROLL
      for (int i = 0; i < TM / VM; i++) u[i].load(a + k * lda + i * SM);
      MX_UNROLL
      for (int j = 0; j < TN / VN; j++) v[j].load(b + k * ldb + j * SN);
      MX_UNROLL
      for (int i = 0; i < TM; i++) {
        MX_UNROLL
        for (int j = 0; j < TN / VN; j++) c[i][j].add(u[i / VM].get(i % VM), v[j]);
      }
    }
  }
};

/* ---- the end of a product ---------------------------------------------------------------------------------------- */
/* Calls use(row, column, value) for the rows x columns corner of a BN wide tile in shared memory, which is COPIES tiles
 * of BM rows to be added.  Neighbouring lanes get neighbouring columns, whatever they have computed: what `use` reads
 * and writes in memory is contiguous, and its code is there once, not once for each register of the tile. */
template <int BM, int BN, int COPIES, int THREADS, class USE>
MX_INLINE void mx_each(const f32 *tile, int rows, int columns, USE use) {
#if defined(__CUDACC__)
#pragma unroll 4
#endif
  for (int e = (int)threadIdx.x; e < rows * BN; e += THREADS) {
    f32 value = tile[e];
    MX_UNROLL
    for (int s = 1; s < COPIES; s++) value += tile[s * BM * BN + e];
    if (e % BN < columns) use(e / BN, e % BN, value);
  }
}

/* ---- the order of tiles ------------------------------------------------------------------------------------------ */
/* Tile number `t` of `items` matrices of rows x columns tiles.  Eight rows of tiles go together, column by column: the
 * blocks that run at one time then share their panels of A and B in the L2 cache. */
MX_INLINE void mx_tile_place(i64 t, i64 rows, i64 columns, i64 *item, i64 *row, i64 *column) {
  constexpr i64 BAND = 8;
  *item = t / (rows * columns);
  t -= *item * rows * columns;
  const i64 band = t / (BAND * columns), first = band * BAND, height = mx_least(BAND, rows - first);
  t -= first * columns;
  *row = first + t % height;
  *column = t / height;
}
