// Attention over pages of latent vectors on GPUs; latent.c says what the operands are.

// @use attention.c
// @use latent.c

// A block makes a tile of SIDE x SIDE elements, of which each thread has SIDE * SIDE / THREADS in
// registers; STEP columns of the vectors and of the weight are in shared memory at a time.
// @op latent_expand_gpu(blocks: T[pages, 1, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[], count: int64[],
//   weight: T[out, width]) -> (y: T[rows, out])
// @types T: any
// @params SIDE: int; STEP: int; COLUMNS: int; BYTES: int; LAST: int
// @items (rows + LAST) // SIDE * COLUMNS
// @work SIDE * width * SIDE // 16
// @cuda block threads=256 shared=BYTES
T *const left = (T *)(shared + SIDE * sizeof(i64)), *const right = left + STEP * (SIDE + 1);
i64 *const lines = (i64 *)shared;
find_count();
const i64 r0 = i / COLUMNS * SIDE, c0 = i % COLUMNS * SIDE;
for (i64 row = r0 + threadIdx.x; row < r0 + SIDE; row += blockDim.x) {
  lines[row - r0] = -1;
  if (row >= known) continue;
  find_cached(row);
  find_page(before + row - first);
  lines[row - r0] = place_among(1, 0);
}
__syncthreads();
const int across = threadIdx.x % 16, down = threadIdx.x / 16;
const int columns = out - c0 < SIDE ? out - c0 : SIDE, end = r0 < known ? width : 0;
T sum[SIDE / 16][SIDE / 16];
for (int r = 0; r < SIDE / 16; r++)
  for (int c = 0; c < SIDE / 16; c++) sum[r][c] = 0;
for (int k0 = 0; k0 < end; k0 += STEP) {
  for (int n = threadIdx.x; n < SIDE * STEP; n += 256) {
    const int line = n / STEP, k = k0 + n % STEP, to = n % STEP * (SIDE + 1) + line;
    left[to] = k < end && lines[line] >= 0 ? load(blocks, lines[line] + k) : (T)0;
    right[to] = k < end && line < columns ? load(weight, (c0 + line) * width + k) : (T)0;
  }
  __syncthreads();
  for (int k = 0; k < STEP; k++)
    for (int r = 0; r < SIDE / 16; r++)
      for (int c = 0; c < SIDE / 16; c++)
        sum[r][c] +=
            left[k * (SIDE + 1) + down + 16 * r] * right[k * (SIDE + 1) + across + 16 * c];
  __syncthreads();
}
for (int r = 0; r < SIDE / 16; r++)
  for (int c = 0; c < SIDE / 16; c++) {
    const i64 row = r0 + down + 16 * r;
    const int column = across + 16 * c;
    if (row < rows && column < columns) store(y, row * out + c0 + column, sum[r][c]);
  }
__syncthreads();

// A block a row and head. Its WARPS warps take keys in turn, the lanes of a warp take the numbers of a
// vector; in the end the sums of the warps become one, with that of the chunks before.
// @op latent_chunk_gpu(blocks: T[pages, 1, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[], q: T[tokens, wide, depth],
//   keys: T[rows, wide, reached], values: T[rows, wide, large], starts: uint32[ends],
//   firsts: uint32[batch], prior: T[tokens, wide, SIZE], state: A[tokens, wide, 2])
//   -> (y: T[tokens, wide, SIZE], sums: A[tokens, wide, 2])
// @types T: any; A: any
// @params MASK: str; SCALE: float; POWER: int; WINDOW: int; NOPE: int; ROPE: int; AT: int; SIZE: int;
//   PRIOR: bool; EACH: int; LARGE: int; WARPS: int; BYTES: int
// @items tokens * wide
// @work depth * 64
// @cuda block threads=128 shared=BYTES
const i64 token = i / wide, head = i % wide;
find_cached(token);
find_chunk();
const i64 position = before + token - first;
see_chunk();
begin_row(q, depth);
for (i64 at = base + warp; at < seen; at += WARPS) {
  find_page(at);
  const i64 turned = place_among(1, 0) + dim - ROPE - NOPE;
  const i64 row = (low + at - base) * wide + head;
  T score = 0;
  for (int e = 0; e < EACH; e++) {
    const i64 c = lane + 32 * e;
    if (c < NOPE) score += query[e] * load(keys, row * reached + c);
    else if (c < depth) score += query[e] * load(blocks, turned + c);
  }
  weigh_one(load(values, row * large + AT + c));
}
join_warps();
if (threadIdx.x == 0) {
  store(sums, 2 * i, peak);
  store(sums, 2 * i + 1, whole);
}
__syncthreads();

// The same for queries in the space of latent vectors.
// @op latent_attention_gpu(blocks: T[pages, 1, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[], q: T[tokens, wide, dim])
//   -> (y: T[tokens, wide, SIZE])
// @types T: any
// @params MASK: str; SCALE: float; POWER: int; WINDOW: int; SIZE: int; EACH: int; LARGE: int;
//   WARPS: int; BYTES: int; PRIOR: bool = false
// @items tokens * wide
// @work page * dim
// @cuda block threads=128 shared=BYTES
const i64 token = i / wide;
find_cached(token);
see_rows_of();
begin_row(q, dim);
for (i64 at = begin + warp; at < end; at += WARPS) {
  find_page(at);
  const i64 line = place_among(1, 0);
  T score = 0;
  for (int e = 0; e < EACH; e++)
    if (lane + 32 * e < dim) score += query[e] * load(blocks, line + lane + 32 * e);
  weigh_one(load(blocks, line + c));
}
join_warps();
__syncthreads();

// The query of the row in the registers of each warp, and sums of no keys.
// @macro begin_row(Q, DEPTH)
T *const tops = (T *)shared, *const totals = tops + WARPS, *const all = totals + WARPS;
const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
// @if MASK == "alibi"
find_slope(i % wide);
const T mine = (T)position;
// @endif
T query[EACH], made[LARGE];
for (int e = 0; e < EACH; e++)
  query[e] = lane + 32 * e < DEPTH ? load(Q, i * DEPTH + lane + 32 * e) * SCALE : (T)0;
for (int e = 0; e < LARGE; e++) made[e] = 0;
T top = -INFINITY, total = 0;

// One more key, of which each lane has a part of the score; VALUE is its value at c.
// @macro weigh_one(VALUE)
for (int step = 16; step; step >>= 1) score += __shfl_xor_sync(MX_FULL_WARP, score, step);
// @if MASK == "alibi"
score -= slope * (mine - (T)at);
// @endif
const T above = score > top ? score : top, base_of = above == -INFINITY ? (T)0 : above;
const T shrink = mx_exp_T(top - base_of), weight = mx_exp_T(score - base_of);
top = above;
total = total * shrink + weight;
for (int e = 0; e < LARGE; e++) {
  const i64 c = lane + 32 * e;
  if (c < SIZE) made[e] = made[e] * shrink + weight * VALUE;
}

// The result of the row, of what the warps have and of the chunks before.
// @macro join_warps()
if (lane == 0) tops[warp] = top, totals[warp] = total;
for (int e = 0; e < LARGE; e++)
  if (lane + 32 * e < SIZE) all[warp * SIZE + lane + 32 * e] = made[e];
__syncthreads();
// @if PRIOR
const T sooner = load(state, 2 * i), share = load(state, 2 * i + 1);
T peak = sooner;
// @else
T peak = -INFINITY;
// @endif
for (int w = 0; w < WARPS; w++) peak = tops[w] > peak ? tops[w] : peak;
const T less = peak == -INFINITY ? (T)0 : peak;
// @if PRIOR
const T kept = share * mx_exp_T(sooner - less);
// @else
const T kept = 0;
// @endif
T whole = kept;
for (int w = 0; w < WARPS; w++) whole += totals[w] * mx_exp_T(tops[w] - less);
for (i64 c = threadIdx.x; c < SIZE; c += blockDim.x) {
  // @if PRIOR
  T sum = kept * load(prior, i * SIZE + c);
  // @else
  T sum = 0;
  // @endif
  for (int w = 0; w < WARPS; w++) sum += all[w * SIZE + c] * mx_exp_T(tops[w] - less);
  store(y, i * SIZE + c, whole == 0 ? (T)0 : sum / whole);
}
