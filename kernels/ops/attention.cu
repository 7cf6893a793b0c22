// Attention over pages of a cache on GPUs; attention.c says what its operands are.

// @use attention.c

// A block a row and query head. Its WARPS warps take keys in turn, the lanes of a warp take the
// elements of a head, EACH at most; in the end the sums of the warps become one.
// @op cache_attention_gpu(blocks: T[pages, 2, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[],
//   q: T[tokens, wide, dim], stops: uint32[ends], sinks: T[wide]) -> (y: T[tokens, wide, dim])
// @types T: any
// @params MASK: str; WINDOW: int; SCALE: float; SINKS: bool; GROUP: int; EACH: int; WARPS: int;
//   BYTES: int; POWER: int; PAGED: bool
// @items tokens * wide
// @work page * dim
// @cuda block threads=128 shared=BYTES
const i64 token = i / wide, head = i % wide / GROUP;
find_cached(token);
see_keys();
attend_gpu(blocks, blocks);

// The same without a cache.
// @op ragged_attention_gpu(q: T[tokens, wide, dim], left: T[tokens, heads, dim],
//   right: T[tokens, heads, dim], offsets: uint32[ends], known: uint32[batch])
//   -> (y: T[tokens, wide, dim])
// @types T: any
// @params MASK: str; WINDOW: int; SCALE: float; SINKS: bool; GROUP: int; EACH: int; WARPS: int;
//   BYTES: int; POWER: int; PAGED: bool; KNOWN: bool
// @sizes BATCH
// @items tokens * wide
// @work dim * 64
// @cuda block threads=128 shared=BYTES
const i64 batch = BATCH, token = i / wide, head = i % wide / GROUP;
find_sequence(token);
see_rows();
attend_gpu(left, right);

// The softmax of a row, in the loop over its keys from begin to end.
// @macro attend_gpu(KEYS, VALUES)
T *const tops = (T *)shared, *const totals = tops + WARPS, *const all = totals + WARPS;
const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
T query[EACH], sums[EACH];
for (int e = 0; e < EACH; e++) {
  query[e] = lane + 32 * e < dim ? load(q, i * dim + lane + 32 * e) * SCALE : (T)0;
  sums[e] = 0;
}
// @if MASK == "alibi"
find_slope(i % wide);
// @endif
T top = -INFINITY, total = 0;
for (i64 at = begin + warp; at < end; at += WARPS) {
  // @if PAGED
  find_page(at);
  const i64 keys = place_of(0) + head * dim, values = place_of(1) + head * dim;
  // @else
  const i64 keys = ((first + at) * heads + head) * dim, values = keys;
  // @endif
  T score = 0;
  for (int e = 0; e < EACH; e++)
    if (lane + 32 * e < dim) score += query[e] * load(KEYS, keys + lane + 32 * e);
  for (int step = 16; step; step >>= 1) score += __shfl_xor_sync(MX_FULL_WARP, score, step);
  // @if MASK == "alibi"
  score -= slope * (T)(position - at);
  // @endif
  const T high = score > top ? score : top, less = high == -INFINITY ? (T)0 : high;
  const T shrink = mx_exp_T(top - less), weight = mx_exp_T(score - less);
  top = high;
  total = total * shrink + weight;
  for (int e = 0; e < EACH; e++)
    if (lane + 32 * e < dim)
      sums[e] = sums[e] * shrink + weight * load(VALUES, values + lane + 32 * e);
}
if (lane == 0) tops[warp] = top, totals[warp] = total;
for (int e = 0; e < EACH; e++)
  if (lane + 32 * e < dim) all[warp * dim + lane + 32 * e] = sums[e];
__syncthreads();
// @if SINKS
T high = load(sinks, i % wide);
// @else
T high = -INFINITY;
// @endif
for (int w = 0; w < WARPS; w++) high = tops[w] > high ? tops[w] : high;
const T less = high == -INFINITY ? (T)0 : high;
// @if SINKS
T whole = mx_exp_T(load(sinks, i % wide) - less);
// @else
T whole = 0;
// @endif
for (int w = 0; w < WARPS; w++) whole += totals[w] * mx_exp_T(tops[w] - less);
for (i64 c = threadIdx.x; c < dim; c += blockDim.x) {
  T sum = 0;
  for (int w = 0; w < WARPS; w++) sum += all[w * dim + c] * mx_exp_T(tops[w] - less);
  store(y, i * dim + c, whole == 0 ? (T)0 : sum / whole);
}
__syncthreads();
