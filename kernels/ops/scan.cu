// cumsum on GPUs; scan.c says what EXCLUSIVE, REVERSE and pieces are.

// @use scan.c

// A thread a column: neighbours read neighbours.
// @op cumsum_columns_gpu(x: T[outer, N, M]) -> (y: T[outer, N, M])
// @types T: any
// @params EXCLUSIVE: bool; REVERSE: bool
// @items outer * M
// @work N
// @cuda
const i64 base = i / M * N * M, c = i % M;
T a = 0;
for (i64 j = 0; j < N; j++) { step(base + row_of(j) * M + c, a); }

// A block takes a row. It goes along in tiles, which pass through its shared memory: each thread
// adds up neighbours, but neighbouring threads read and write neighbours.
// @op cumsum_rows_gpu(x: T[rows, N]) -> (y: T[rows, N])
// @types T: any
// @params EXCLUSIVE: bool; REVERSE: bool; THREADS: int; TILE: int; EACH: int; LAST: int;
//   SUMS: int; BYTES: int
// @items rows
// @work N
// @cuda block shared=BYTES
T *const tile = (T *)shared, *const sums = tile + SUMS;
const i64 base = i * N, first = 0, last = N;
T carry = 0;
walk();

// A block takes a piece of a long row.
// @op cumsum_pieces_gpu(x: T[rows, N]) -> (y: T[rows, N])
// @types T: any
// @params EXCLUSIVE: bool; REVERSE: bool; THREADS: int; TILE: int; EACH: int; LAST: int;
//   SUMS: int; BYTES: int; PIECES: int; LEFT: int; ENOUGH: int; LONG: int; KEPT: DType
// @temp kept: KEPT[rows * PIECES]
// @items rows * PIECES

// @part sums
// @cuda block shared=BYTES
T *const tile = (T *)shared, *const sums = tile + SUMS;
declare_piece(N < LONG || rows >= ENOUGH);
if (alone) continue;
T a = 0;
for (i64 j = first + threadIdx.x; j < last; j += THREADS) {
  const i64 at = place_in(base);
  const T v = load(x, at);
  a = added(a, v);
}
scan();
if (threadIdx.x == 0) { store(kept, i, sums[LAST]); }
__syncthreads();

// @part along
// @cuda block shared=BYTES
T *const tile = (T *)shared, *const sums = tile + SUMS;
declare_piece(N < LONG || rows >= ENOUGH);
T carry = 0;
if (!alone)
  for (i64 j = 0; j < piece; j++) carry = added(carry, load(kept, row * PIECES + j));
walk();

// In sums of each thread: the sum of its own a and those of the threads before.
// @macro scan()
sums[threadIdx.x] = a;
__syncthreads();
for (unsigned distance = 1; distance < THREADS; distance *= 2) {
  const T v = threadIdx.x >= distance ? sums[threadIdx.x - distance] : (T)0;
  __syncthreads();
  sums[threadIdx.x] = added(sums[threadIdx.x], v);
  __syncthreads();
}

// The sums from first to last, from the sum carry on.
// @macro walk()
for (i64 start = first; start < last; start += TILE) {
  for (int t = threadIdx.x; t < TILE; t += THREADS) {
    const i64 j = start + t, at = place_in(base);
    tile[t + t / 32] = j < last ? load(x, at) : (T)0;
  }
  __syncthreads();
  T a = 0;
  for (int t = threadIdx.x * EACH; t < (threadIdx.x + 1) * EACH; t++)
    a = added(a, tile[t + t / 32]);
  scan();
  a = threadIdx.x ? added(carry, sums[threadIdx.x - 1]) : carry;
  carry = added(carry, sums[LAST]);
  for (int t = threadIdx.x * EACH; t < (threadIdx.x + 1) * EACH; t++) {
    const T v = tile[t + t / 32];
    // @if EXCLUSIVE
    tile[t + t / 32] = a;
    a = added(a, v);
    // @else
    a = added(a, v);
    tile[t + t / 32] = a;
    // @endif
  }
  __syncthreads();
  for (int t = threadIdx.x; t < TILE; t += THREADS) {
    const i64 j = start + t, at = place_in(base);
    if (j < last) { store(y, at, tile[t + t / 32]); }
  }
  __syncthreads();
}
