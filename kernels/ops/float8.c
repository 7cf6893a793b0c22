// Products with transposed matrices w[n, k] of 8-bit floats, whose bytes stay as they are in memory.
//
// Scales d stand in rows of `blocks`, one for DOWN rows and ACROSS columns of a matrix. KIND is the
// number that kernels/c/mx_abi.h has for the dtype of the matrix, OFF what its exponents are off by.
// On the CPU an item is TILE rows of the matrix, on a GPU WARPS of them, of which each is a warp's.

// Left rows x[m, k] with one matrix.
// @op matmul_float8(x: float32[m, k], w: uint8[n, k], d: float32[groups, blocks]) -> (y: float32[m, n])
// @params KIND: int; OFF: int; TILE: int; WARPS: int; BYTES: int
// @sizes DOWN; ACROSS
// @part whole
// @items (n + TILE - 1) // TILE
// @work m * k * 8
// @c scratch=BYTES
if (ctx->lib->float8(KIND, y, n, x, m, w, k, d, i * TILE, DOWN, ACROSS, blocks, ctx))
  return MX_STOPPED;
// @part warps
// @items (n + WARPS - 1) // WARPS
// @work m * k
// @cuda block threads=128
const i64 column = i * WARPS + (threadIdx.x >> 5);
if (column < n) mx_matmul_float8<OFF>(y, n, x, m, w, k, d, column, DOWN, ACROSS, blocks);

// Groups of left rows, each with a matrix of its own: the rows from starts[g] to starts[g + 1] with
// the matrix ids[g], for `active` groups. Rows of no group, and those of a matrix below 0, give 0. A
// row is of one group at most: numbers that say otherwise end the run before memory is read by them.
// @op matmul_float8_ragged(x: float32[m, k], w: uint8[experts, n, k],
//   d: float32[experts, groups, blocks], starts: uint32[ends], ids: int32[most], active: uint32[])
//   -> (y: float32[m, n])
// @params KIND: int; OFF: int; TILE: int; WARPS: int; BYTES: int
// @sizes DOWN; ACROSS
// @part whole
// @items (n + TILE - 1) // TILE
// @work m * k * 8
// @c scratch=BYTES
const i64 first = i * TILE, width = n - first < TILE ? n - first : TILE;
count_groups();
for (i64 g = 0; g <= count && count <= most; g++) {
  read_group();
  for (i64 row = seen; row < (id < 0 ? end : start); row++)
    __builtin_memset(y + row * n + first, 0, (u64)width * 4);
  if (id >= 0 &&
      ctx->lib->float8(KIND, y + start * n, n, x + start * k, end - start, w + id * n * k, k,
                       d + id * groups * blocks, first, DOWN, ACROSS, blocks, ctx))
    return MX_STOPPED;
  seen = end;
}
// @part warps
// @items (n + WARPS - 1) // WARPS
// @work m * k
// @cuda block threads=128
const i64 column = i * WARPS + (threadIdx.x >> 5);
if (column < n) {
  count_groups();
  for (i64 g = 0; g <= count && count <= most; g++) {
    read_group();
    for (i64 row = seen + (threadIdx.x & 31); row < (id < 0 ? end : start); row += 32)
      y[row * n + column] = 0.0f;
    if (id >= 0)
      mx_matmul_float8<OFF>(y + start * n, n, x + start * k, end - start, w + id * n * k, k,
                            d + id * groups * blocks, column, DOWN, ACROSS, blocks);
    seen = end;
  }
}

// How many groups there are. Behind them is one more, of what is left of the rows, with no matrix.
// @macro count_groups()
const i64 count = (i64)active[0];
i64 seen = 0;
if (count > most) { refuse(count, most); }

// @macro read_group()
const i64 start = g < count ? (i64)starts[g] : m, end = g < count ? (i64)starts[g + 1] : m;
const i64 id = g < count ? (i64)ids[g] : -1;
if (end < start || start < seen || end > m) {
  refuse(end, m);
  break;
}
if (id >= experts) {
  refuse(id, experts);
  break;
}
