/* attention_mma.cuh - the attention of attention.cuh for 16-bit floats, on tensor cores: mma.m16n8k16.
 *
 *   template <class CFG, class T>      CFG an mx_mma_attention_tile below, T mx_bf16 or mx_f16
 *   mx_attention_mma(shared, q, q_row, q_col, k, k_row, k_col, v, v_row, v_col,
 *                    batch, heads, tq, tk, dim, dim_v, scale, score, open, last, store)
 *
 * Arguments as for mx_attention, and two more.  Needs sm_80 or later; `shared` is CFG::SHARED bytes aligned to 128.
 *
 *   scale                            the score of raw = q . k is scale score(b, h, query, key, raw); finite, above 0.
 *                                    It costs nothing: the exponent needs a factor anyway
 *   open(b, h, query, key, raw)      what `score` gives for keys below last(b, h, query), and cheaper: without the
 *                                    comparison of a causal mask.  mx_as_score() where there is nothing cheaper
 *
 * A warp makes 16 MT rows, so that what it reads of K and V meets MT fragments of queries.  Scores never leave the
 * registers: as the sums of q k they lie just as mma wants its left operand for P v (`mx_device.cuh` draws both):
 *
 *     K, V: BK rows in shared memory, two stages or more, by asynchronous copies        top, sum   of a row so far,
 *     S = Q K   f32 in registers, the fragments of 16 x 8                                          4 lanes share a row
 *     P = 2^(S scale log2(e) - top), rounded to 16 bits, a pair of fragments of S is one of 16 x 16
 *     O = O fade + P V, where any row has a fade that is not 1
 *
 * Weights are rounded to 16 bits before they are multiplied, which mx_attention does not do; their sum is of those that
 * are not rounded.  Scores, sums and results are float32.  Rows in shared memory are D elements long, their 16-byte
 * chunks permuted (`mx_token_chunk`), so that ldmatrix meets no bank twice.
 *
 * Copies are asynchronous where elements of a head are neighbours, rows a multiple of 8 elements apart and the base is
 * aligned to 16 bytes; otherwise the same threads read one element at a time.  Blocks of queries with the most keys
 * come first among as many heads as have their keys and values in the L2 cache together.
 *
 * Infinities, NaN, missing keys: as in attention.cuh.
 *
 * Cost of a block: 2 BQ (D + DV) flops for each key in sight, one barrier for BK keys.
 */
#pragma once

/* Chunks of 8 elements from one row in shared memory to the next. */
__host__ __device__ constexpr int mx_row_chunks(int elements) {
  int chunks = 2;
  while (8 * chunks < elements) chunks *= 2;
  return chunks;
}

template <int BQ_, int BK_, int D_, int DV_, int WARPS_, int STAGES_, bool HELD_> struct mx_mma_attention_tile {
  static constexpr int BQ = BQ_, BK = BK_, D = D_, DV = DV_, THREADS = WARPS_ * 32, STAGES = STAGES_;
  static constexpr bool HELD = HELD_;           /* queries stay in registers, or are read again for each BK keys */
  static constexpr int MT = BQ / (16 * WARPS_); /* fragments of 16 rows for a warp */
  static constexpr int QUERIES = BQ * 8 * mx_row_chunks(D), KEYS = BK * 8 * mx_row_chunks(D); /* elements */
  static constexpr int STAGE = KEYS + BK * 8 * mx_row_chunks(DV);
  /* In the end 16 rows of each warp's result go through the same memory, 8 longer, so that banks differ. */
  static constexpr int LD = DV + 8, PANELS = 2 * (QUERIES + STAGES * STAGE), RESULT = 4 * 16 * WARPS_ * LD;
  static constexpr int SHARED = PANELS > RESULT ? PANELS : RESULT, BLOCKS = mx_blocks(THREADS, 255);
  static_assert(BQ == 16 * WARPS_ * MT && BK % 16 == 0 && D % 16 == 0 && DV % 16 == 0, "whole fragments");
  static_assert(STAGES >= 2, "two stages");
};
typedef mx_mma_attention_tile<128, 64, 32, 32, 4, 2, true> mx_mma_attention_32;
typedef mx_mma_attention_tile<128, 64, 64, 64, 4, 2, false> mx_mma_attention_64;
typedef mx_mma_attention_tile<128, 32, 128, 128, 4, 2, false> mx_mma_attention_128;
typedef mx_mma_attention_tile<64, 32, 256, 256, 4, 2, false> mx_mma_attention_256;
/* For so few heads that larger blocks would leave multiprocessors idle. */
typedef mx_mma_attention_tile<64, 64, 32, 32, 4, 2, true> mx_mma_attention_32_few;
typedef mx_mma_attention_tile<64, 64, 64, 64, 4, 2, true> mx_mma_attention_64_few;
typedef mx_mma_attention_tile<64, 64, 128, 128, 4, 2, true> mx_mma_attention_128_few;
/* For up to 16 queries. */
typedef mx_mma_attention_tile<16, 64, 32, 32, 1, 2, true> mx_mma_attention_32_short;
typedef mx_mma_attention_tile<16, 64, 64, 64, 1, 2, true> mx_mma_attention_64_short;
typedef mx_mma_attention_tile<16, 32, 128, 128, 1, 2, true> mx_mma_attention_128_short;

template <class T> struct mx_mma16;
template <> struct mx_mma16<mx_bf16> {
  MX_INLINE void add(f32 *c, const u32 *a, const u32 *b) { mx_mma_m16n8k16_bf16(c, a, b); }
  MX_INLINE u32 pair(f32 low, f32 high) { return mx_pair_bf16(low, high); }
};
template <> struct mx_mma16<mx_f16> {
  MX_INLINE void add(f32 *c, const u32 *a, const u32 *b) { mx_mma_m16n8k16_f16(c, a, b); }
  MX_INLINE u32 pair(f32 low, f32 high) { return mx_pair_f16(low, high); }
};

struct mx_as_score {}; /* in place of `open` */
template <class OPEN> struct mx_is_open {
  static constexpr bool own = true;
};
template <> struct mx_is_open<mx_as_score> {
  static constexpr bool own = false;
};

/* Where chunk `c` of row `r` of ROWS rows lies, in elements.  Rows of more than 128 bytes lie in panels of 64 elements.
 * The same chunk of eight rows in a row lies in different banks. */
template <int CHUNKS, int ROWS> MX_INLINE int mx_token_chunk(int r, int c) {
  constexpr int WIDTH = CHUNKS < 8 ? CHUNKS : 8, SHIFT = WIDTH == 2 ? 2 : WIDTH == 4 ? 1 : 0;
  return c / WIDTH * (ROWS * WIDTH * 8) + (r * WIDTH + (c % WIDTH ^ (r >> SHIFT & (WIDTH - 1)))) * 8;
}

/* Where the rows of a tile come from, tokens of a head, and where their chunks lie in shared memory. */
template <int ROWS, int D, int THREADS> struct mx_token_rows {
  static constexpr int CHUNKS = mx_row_chunks(D), STEP = THREADS / CHUNKS, EACH = (ROWS + STEP - 1) / STEP;
  static constexpr bool EVEN = ROWS % STEP == 0; /* all threads copy as many */
  static_assert(THREADS % CHUNKS == 0, "threads are whole rows");
  const u16 *from;
  i64 row_stride, col_stride;
  int dim;
  bool chunked, whole; /* chunks are copied at once; heads have the size of the tile */

  __device__ __forceinline__ mx_token_rows(const u16 *base, i64 row_stride_, i64 col_stride_, i64 dim_)
      : from(base), row_stride(row_stride_), col_stride(col_stride_), dim((int)dim_) {
    chunked = col_stride == 1 && row_stride % 8 == 0 && reinterpret_cast<u64>(base) % 16 == 0;
    whole = chunked && dim == D;
  }
  /* Tokens from `first` on; those from `count` on, and the elements of a head that there are not, become 0. */
  __device__ __forceinline__ void copy(u16 *to, i64 first, i64 count) const {
    const int row = (int)threadIdx.x / CHUNKS, chunk = (int)threadIdx.x % CHUNKS;
    if (CHUNKS * 8 > D && chunk * 8 >= D) return;
    if (whole && first + ROWS <= count) {
      const u16 *const p = from + (first + row) * row_stride + chunk * 8;
      MX_IN_REGISTERS
      for (int i = 0; i < EACH; i++)
        if (EVEN || row + i * STEP < ROWS)
          mx_cp_async<16>(to + mx_token_chunk<CHUNKS, ROWS>(row + i * STEP, chunk), p + i * STEP * row_stride);
      return;
    }
    const int left = dim - chunk * 8, some = left < 0 ? 0 : left > 8 ? 8 : left;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (int i = 0; i < EACH; i++) {
      if (!EVEN && row + i * STEP >= ROWS) return;
      const i64 token = first + row + i * STEP;
      const int room = token < count ? some : 0;
      u16 *const place = to + mx_token_chunk<CHUNKS, ROWS>(row + i * STEP, chunk);
      const u16 *const p = from + token * row_stride + chunk * 8 * col_stride;
      if (chunked)
        mx_cp_async<16>(place, room ? p : from, 2 * room);
      else {
        MX_UNROLL
        for (int e = 0; e < 8; e++) place[e] = e < room ? p[e * col_stride] : (u16)0;
      }
    }
  }
};

/* Four 8 x 8 tiles of 16 rows and 16 elements at a time, read by ldmatrix.  The lane's number has the last bits of its
 * row, so its chunk is permuted alike for all rows: the next pair of chunks is one exclusive or away. */
template <int ROWS, int D> struct mx_token_tiles {
  static constexpr int CHUNKS = mx_row_chunks(D), WIDTH = CHUNKS < 8 ? CHUNKS : 8, PAIRS = WIDTH / 2;
  int place;
  /* ACROSS: the second tile is 8 elements along the row, the third 8 rows on; otherwise the other way round. */
  __device__ __forceinline__ mx_token_tiles(int first, bool across) {
    const int lane = (int)threadIdx.x & 31, tile = lane / 8, line = lane % 8;
    const int row = (across ? tile / 2 : tile % 2) * 8 + line, chunk = across ? tile % 2 : tile / 2;
    place = mx_token_chunk<CHUNKS, ROWS>(first + row, chunk);
  }
  /* The place of the tiles 16 row16 rows and 16 column16 elements on. */
  __device__ __forceinline__ int at(int row16, int column16) const {
    return (place ^ column16 % PAIRS * 16) + (row16 * 16 + column16 / PAIRS * ROWS) * WIDTH * 8;
  }
};

/* Which block of queries number `t` is.  Heads go in sections whose keys and values the L2 cache can hold together; in
 * a section the blocks with the most keys, which are the last ones of a causal head, come first. */
MX_INLINE void mx_attention_place(i64 t, i64 heads, i64 blocks, i64 bytes, int *head, int *block) {
  constexpr i64 CACHED = 24 << 20;
  const i64 fitting = mx_least(CACHED / (bytes + 1) + 1, heads);
  const i64 section = t / (fitting * blocks), first = section * fitting, width = mx_least(fitting, heads - first);
  const i64 place = t - first * blocks;
  *head = (int)(first + place % width);
  *block = (int)(blocks - 1 - place / width);
}

/* What a lane has of the rows of its warp: row g + 8 r of fragment m, which it shares with 3 other lanes. */
template <class T, int MT, int BK, int DV> struct mx_softmax_rows {
  f32 o[MT][DV / 8][4], top[MT][2], sum[MT][2], shift[MT][2];
  f32 factor; /* of scores, to powers of 2 */

  __device__ __forceinline__ explicit mx_softmax_rows(f32 scale) : factor(scale * 1.44269504f) {}
  __device__ __forceinline__ void clear() {
    MX_IN_REGISTERS
    for (int m = 0; m < MT; m++) {
      MX_IN_REGISTERS
      for (int e = 0; e < DV / 2; e++) o[m][e / 4][e % 4] = 0.0f;
      MX_IN_REGISTERS
      for (int r = 0; r < 2; r++) top[m][r] = -MX_INFINITY, sum[m][r] = 0.0f;
    }
  }
  /* Raw scores, of which the first is that of `row` and `key`, become scores.  ALL: no check is needed. */
  template <class SCORE, class OPEN>
  MX_INLINE void score(f32 (&s)[MT][BK / 8][4], i64 b, i64 h, i64 row, int key, i64 tq, int seen, bool all, SCORE score,
                       OPEN open) {
    if (mx_is_open<OPEN>::own && all) {
      MX_IN_REGISTERS
      for (int m = 0; m < MT; m++) {
        MX_IN_REGISTERS
        for (int e = 0; e < BK / 2; e++) {
          f32 *const x = &s[m][e / 4][e % 4];
          if constexpr (mx_is_open<OPEN>::own)
            *x = open(b, h, row + m * 16 + e % 4 / 2 * 8, key + e / 4 * 8 + e % 2, *x);
        }
      }
    } else {
      MX_IN_REGISTERS
      for (int m = 0; m < MT; m++) {
        MX_IN_REGISTERS
        for (int e = 0; e < BK / 2; e++) {
          f32 *const x = &s[m][e / 4][e % 4];
          const i64 i = row + m * 16 + e % 4 / 2 * 8;
          const int j = key + e / 4 * 8 + e % 2;
          *x = all || (i < tq && j < seen) ? score(b, h, i, j, *x) : -MX_INFINITY;
        }
      }
    }
  }
  /* The maxima with these scores; what was summed fades. */
  __device__ __forceinline__ void move(const f32 (&s)[MT][BK / 8][4]) {
    f32 fade[MT][2];
    bool moved = false;
    MX_IN_REGISTERS
    for (int m = 0; m < MT; m++) {
      MX_IN_REGISTERS
      for (int r = 0; r < 2; r++) {
        f32 high = -MX_INFINITY;
        MX_IN_REGISTERS
        for (int n = 0; n < BK / 8; n++) high = fmaxf(high, fmaxf(s[m][n][r * 2], s[m][n][r * 2 + 1]));
        high = fmaxf(high, __shfl_xor_sync(MX_FULL_WARP, high, 1));
        high = fmaxf(high, __shfl_xor_sync(MX_FULL_WARP, high, 2));
        const f32 before = top[m][r];
        top[m][r] = fmaxf(before, high * factor);
        shift[m][r] = top[m][r] == -MX_INFINITY ? 0.0f : top[m][r];
        fade[m][r] = before == top[m][r] ? 1.0f : mx_exp2_near(before - shift[m][r]);
        moved |= fade[m][r] != 1.0f;
      }
    }
    if (!__any_sync(MX_FULL_WARP, moved)) return; /* the rule once the largest scores have been seen */
    MX_IN_REGISTERS
    for (int m = 0; m < MT; m++) {
      MX_IN_REGISTERS
      for (int r = 0; r < 2; r++) sum[m][r] *= fade[m][r];
      MX_IN_REGISTERS
      for (int e = 0; e < DV / 2; e++) o[m][e / 4][e % 4] *= fade[m][e % 4 / 2];
    }
  }
  /* The weights of 16 keys, from key 16 kk on, as the left operand of a product. */
  __device__ __forceinline__ void weigh(u32 (&p)[4], const f32 (&s)[MT][BK / 8][4], int m, int kk) {
    MX_IN_REGISTERS
    for (int e = 0; e < 4; e++) {
      const int r = e % 2;
      const f32 *const x = &s[m][2 * kk + e / 2][r * 2];
      const f32 low = mx_exp2_near(fmaf(x[0], factor, -shift[m][r])), high = mx_exp2_near(fmaf(x[1], factor, -shift[m][r]));
      sum[m][r] += low + high;
      p[e] = mx_mma16<T>::pair(low, high);
    }
  }
  /* Stores the rows from `first` on; `result` is 16 rows of shared memory that are this warp's. */
  template <int LD, class STORE>
  MX_INLINE void put(f32 *result, i64 b, i64 h, i64 first, i64 tq, i64 tk, i64 dim_v, mx_softmax_rows &rows,
                     STORE store) {
    const int lane = (int)threadIdx.x & 31;
    MX_IN_REGISTERS
    for (int m = 0; m < MT; m++) {
      MX_IN_REGISTERS
      for (int r = 0; r < 2; r++) {
        f32 total = rows.sum[m][r];
        total += __shfl_xor_sync(MX_FULL_WARP, total, 1);
        total += __shfl_xor_sync(MX_FULL_WARP, total, 2);
        const f32 share = tk > 0 ? 1.0f / total : 0.0f;
        f32 *const to = result + (lane / 4 + r * 8) * LD + lane % 4 * 2;
        MX_IN_REGISTERS
        for (int n = 0; n < DV / 8; n++)
          *reinterpret_cast<float2 *>(to + n * 8) =
              make_float2(rows.o[m][n][r * 2] * share, rows.o[m][n][r * 2 + 1] * share);
      }
      __syncwarp();
      const int there = (int)mx_least(tq - first - m * 16, 16);
      for (int i = 0; i < there; i++) {
        for (int d = lane; d < dim_v; d += 32) store(b, h, first + m * 16 + i, d, result[i * LD + d]);
      }
      __syncwarp();
    }
  }
};

template <class CFG, class T, class Q, class K, class V, class SCORE, class OPEN, class LAST, class STORE>
MX_INLINE void mx_attention_mma(void *shared, Q q, i64 q_row, i64 q_col, K k, i64 k_row, i64 k_col, V v, i64 v_row,
                                i64 v_col, i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, f32 scale,
                                SCORE score, OPEN open, LAST last, STORE store) {
  constexpr int BQ = CFG::BQ, BK = CFG::BK, D = CFG::D, DV = CFG::DV, MT = CFG::MT, AHEAD = CFG::STAGES - 1;
  typedef mx_token_rows<BQ, D, CFG::THREADS> Queries;
  typedef mx_token_rows<BK, D, CFG::THREADS> Keys;
  typedef mx_token_rows<BK, DV, CFG::THREADS> Values;
  typedef mx_softmax_rows<T, MT, BK, DV> Rows;
  u16 *const qs = reinterpret_cast<u16 *>(shared), *const ring = qs + CFG::QUERIES;
  const int warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
  const int own = warp * 16 * MT; /* the first of this warp's rows */
  const mx_token_tiles<BQ, D> q_tiles(own, false);
  const mx_token_tiles<BK, D> k_tiles(0, true);
  const mx_token_tiles<BK, DV> v_tiles(0, false);
  Rows rows(scale);
  const i64 blocks = mx_ceil_div(tq, BQ), count = batch * heads * blocks;
  for (i64 t = blockIdx.x; t < count; t += gridDim.x) {
    int item, block;
    mx_attention_place(t, batch * heads, blocks, 2 * tk * (dim + dim_v), &item, &block);
    const i64 b = item / (int)heads, h = item % (int)heads, q0 = (i64)block * BQ;
    const i64 limit = last(b, h, mx_least(q0 + BQ, tq) - 1), most = mx_least(limit, tk);
    const int seen = most < 0 ? 0 : (int)most;
    const int clear = q0 + BQ <= tq ? (int)mx_least(last(b, h, q0), seen) : 0; /* keys that all queries see */
    const Keys keys(k(b, h), k_row, k_col, dim);
    const Values values(v(b, h), v_row, v_col, dim_v);
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
    u32 held[CFG::HELD ? D / 16 : 1][MT][4];
    if (CFG::HELD) {
      mx_cp_async_wait<AHEAD - 1>();
      __syncthreads();
      if (seen > 0) {
        MX_IN_REGISTERS
        for (int kk = 0; kk < (CFG::HELD ? D / 16 : 0); kk++) {
          MX_IN_REGISTERS
          for (int m = 0; m < MT; m++) mx_ldmatrix_x4(held[kk][m], qs + q_tiles.at(m, kk));
        }
      }
    }
    rows.clear();
    for (int j0 = 0; j0 < seen; j0 += BK) {
      mx_cp_async_wait<AHEAD - 1>();
      __syncthreads(); /* these keys are there for all, and the last ones have been read by all */
      fetch();
      const u16 *const ks = ring + now * CFG::STAGE, *const vs = ks + CFG::KEYS;
      now = now + 1 == CFG::STAGES ? 0 : now + 1;
      f32 s[MT][BK / 8][4];
      MX_IN_REGISTERS
      for (int e = 0; e < MT * BK / 2; e++) s[e / (BK / 2)][e / 4 % (BK / 8)][e % 4] = 0.0f;
      MX_IN_REGISTERS
      for (int kk = 0; kk < D / 16; kk++) {
        u32 a[MT][4];
        MX_IN_REGISTERS
        for (int m = 0; m < MT; m++) {
          if (!CFG::HELD) mx_ldmatrix_x4(a[m], qs + q_tiles.at(m, kk));
        }
        MX_IN_REGISTERS
        for (int n = 0; n < BK / 16; n++) {
          u32 x[4];
          mx_ldmatrix_x4(x, ks + k_tiles.at(n, kk));
          MX_IN_REGISTERS
          for (int m = 0; m < MT; m++) {
            const u32 *const left = CFG::HELD ? held[CFG::HELD ? kk : 0][m] : a[m];
            mx_mma16<T>::add(s[m][2 * n], left, x);
            mx_mma16<T>::add(s[m][2 * n + 1], left, x + 2);
          }
        }
      }
      Rows::score(s, b, h, q0 + own + lane / 4, j0 + lane % 4 * 2, tq, seen, j0 + BK <= clear, score, open);
      rows.move(s);
      MX_IN_REGISTERS
      for (int kk = 0; kk < BK / 16; kk++) {
        u32 p[MT][4];
        MX_IN_REGISTERS
        for (int m = 0; m < MT; m++) rows.weigh(p[m], s, m, kk);
        MX_IN_REGISTERS
        for (int n = 0; n < DV / 16; n++) {
          u32 x[4];
          mx_ldmatrix_x4_trans(x, vs + v_tiles.at(kk, n));
          MX_IN_REGISTERS
          for (int m = 0; m < MT; m++) {
            mx_mma16<T>::add(rows.o[m][2 * n], p[m], x);
            mx_mma16<T>::add(rows.o[m][2 * n + 1], p[m], x + 2);
          }
        }
      }
    }
    mx_cp_async_wait<0>();
    __syncthreads(); /* queries, keys and values have been read by all */
    f32 *const result = reinterpret_cast<f32 *>(shared) + warp * 16 * CFG::LD;
    mx_forget(item), mx_forget(block); /* where they are is computed again, not kept in registers meanwhile */
    Rows::template put<CFG::LD>(result, item / (int)heads, item % (int)heads, (i64)block * BQ + own, tq, tk, dim_v,
                                rows, store);
    __syncthreads(); /* before the next block's copies */
  }
}
