/* split.cuh - the end of a tile of a product: from the sums of its threads to the caller, or to other blocks first.
 *
 * Put behind tiles.cuh and in front of product.cuh and product_mma.cuh.  Where a product has too few tiles to keep a
 * device busy, several blocks share a tile: each sums over its own part of k and leaves what it has in memory, and the
 * last one to come adds the parts in their order, so that a result does not depend on who came last.  No block waits
 * for another.
 *
 * A launch says by gridDim.y how many parts there are.  The memory is MX_COUNTERS bytes of counters, one of 8 bytes for
 * each tile, which are zero before the first launch and zero again after each, then 4 BM BN bytes for each part of each
 * tile.  So launches that come one after the other can all have the same memory.
 */
#pragma once

#define MX_COUNTERS 16384

struct mx_split {
  unsigned char *memory; /* null where nobody shares a tile */
  int part, parts;
  __device__ __forceinline__ explicit mx_split(unsigned char *memory_)
      : memory(memory_), part(memory ? (int)blockIdx.y : 0), parts(memory ? (int)gridDim.y : 1) {}
  /* The part of k, in panels of `depth`, that is this block's: from *begin to *end. */
  __device__ __forceinline__ void range(i64 k, int depth, i64 *begin, i64 *end) const {
    const i64 each = mx_ceil_div(mx_ceil_div(k, depth), parts) * depth;
    *begin = mx_least(part * each, k);
    *end = mx_least(*begin + each, k);
  }
};

/* Calls use(row, column, value) for the rows x columns corner of a tile in shared memory, whose rows are LD apart, and
 * which is COPIES tiles to be added, `copy` elements apart.  Neighbouring lanes get neighbouring columns, whatever they
 * have computed: what `use` reads and writes in memory is contiguous, and its code is there once, not once for each
 * register of the tile.  A thread stays in its column where the tile allows it. */
template <int BN, int LD, int COPIES, int THREADS, class USE>
MX_INLINE void mx_each_column(const f32 *tile, int copy, int rows, int columns, USE use) {
  static_assert(THREADS % BN == 0, "whole rows of threads");
  const int column = (int)threadIdx.x % BN;
  if (column >= columns) return;
#if defined(__CUDACC__)
#pragma unroll 4
#endif
  for (int row = (int)threadIdx.x / BN; row < rows; row += THREADS / BN) {
    f32 value = tile[row * LD + column];
    MX_UNROLL
    for (int s = 1; s < COPIES; s++) value += tile[s * copy + row * LD + column];
    use(row, column, value);
  }
}

/* Finishes tile number `at`, which begins at `row` and `column`.  put(part) writes part number `part` of
 * CFG::PARTS, CFG::BM / CFG::PARTS rows of LD, as COPIES tiles that are to be added; all barriers are made here. */
template <class CFG, int LD, int COPIES, class PUT, class FINISH>
MX_INLINE void mx_finish_tile(f32 *sums, const mx_split &split, i64 at, i64 row, i64 column, i64 m, i64 n,
                              PUT put, FINISH finish) {
  constexpr int ROWS = CFG::BM / CFG::PARTS, BN = CFG::BN, THREADS = CFG::THREADS;
  const int columns = (int)mx_least(n - column, BN);
  f32 *const left = reinterpret_cast<f32 *>(split.memory + MX_COUNTERS) + at * split.parts * (CFG::BM * BN);
  for (int part = 0; part < CFG::PARTS; part++) {
    const i64 first = row + part * ROWS;
    const int rows = (int)mx_least(m - first, ROWS);
    __syncthreads(); /* the panels, or the part before, have been read */
    put(part);
    __syncthreads();
    if (split.parts == 1)
      mx_each_column<BN, LD, COPIES, THREADS>(sums, ROWS * LD, rows, columns,
                                              [&](int r, int c, f32 value) { finish(first + r, column + c, value); });
    else
      mx_each_column<BN, LD, COPIES, THREADS>(
          sums, ROWS * LD, rows, columns, [&](int r, int c, f32 value) {
            left[((i64)split.part * CFG::BM + part * ROWS + r) * BN + c] = value;
          });
  }
  if (split.parts == 1) return;
  __threadfence(); /* what this thread has left is there before the block is counted */
  __syncthreads();
  int *const last = reinterpret_cast<int *>(sums);
  unsigned long long *const arrived = reinterpret_cast<unsigned long long *>(split.memory) + at;
  if (threadIdx.x == 0) *last = atomicAdd(arrived, 1ull) == (unsigned long long)split.parts - 1;
  __syncthreads();
  if (!*last) return;
  __threadfence();
  if (threadIdx.x == 0) *arrived = 0;
  const int rows = (int)mx_least(m - row, CFG::BM);
  if ((int)threadIdx.x % BN >= columns) return;
#if defined(__CUDACC__)
#pragma unroll 4
#endif
  for (int r = (int)threadIdx.x / BN; r < rows; r += THREADS / BN) {
    const int c = (int)threadIdx.x % BN;
    f32 value = mx_load_fresh(left + r * BN + c);
    for (int p = 1; p < split.parts; p++) value += mx_load_fresh(left + ((i64)p * CFG::BM + r) * BN + c);
    finish(row + r, column + c, value);
  }
}
