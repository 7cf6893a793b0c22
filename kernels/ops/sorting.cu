// top_k and argsort on GPUs; keys.c says what keys are.

// @use keys.c

// A block a row: the K-th largest is found 8 bits at a time, then what is not smaller is collected,
// ties in order, and sorted. MANY is the next power of two, whose keys and indices are in shared
// memory if they fit in.
// @op top_k_gpu(x: T[rows, N]) -> (values: T[rows, K], indices: int64[rows, K])
// @types T: any
// @params K: int; MANY: int; HALF: int; HEAD: int; ROOM: int; BITS: int; TOP: int; FITS: bool;
//   DOWN: bool; KEY: DType
// @temp kept: KEY[rows * MANY] if not FITS
// @temp places: uint32[rows * MANY] if not FITS
// @items rows
// @work N
// @cuda block
u32 *const count = (u32 *)shared;
u32 *const sums = count + 256;
const i64 n = N, base = i * n;
// @if FITS
Key *const best = (Key *)(shared + HEAD);
u32 *const order = (u32 *)(shared + HEAD + ROOM);
// @else
Key *const best = kept + i * MANY;
u32 *const order = places + i * MANY;
// @endif
enum { chosen, left, full, slots };
u32 *const state = sums + 256;
Key prefix = 0;
u32 need = K;
for (int shift = TOP; shift >= 0; shift -= 8) {
  count[threadIdx.x] = 0;
  __syncthreads();
  for (i64 j = threadIdx.x; j < n; j += blockDim.x) {
    declare_key(key, base + j);
    if (shift == TOP || key >> shift >> 8 == prefix) atomicAdd(&count[(key >> shift) & 255], 1u);
  }
  __syncthreads();
  const u32 mine = count[threadIdx.x];
  u32 total = mine;
  for (unsigned distance = 1; distance < 256; distance *= 2) {
    sums[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x >= distance) total += sums[threadIdx.x - distance];
    __syncthreads();
  }
  if (total - mine < need && need <= total)
    state[chosen] = threadIdx.x, state[left] = need - (total - mine), state[full] = mine;
  __syncthreads();
  prefix = prefix << 8 | state[chosen];
  need = state[left];
  __syncthreads();
}
const bool simple = need == state[full];
if (threadIdx.x == 0) state[slots] = 0;
for (i64 j = K + threadIdx.x; j < MANY; j += blockDim.x) best[j] = ALL, order[j] = 0xffffffffu;
__syncthreads();
for (i64 j = threadIdx.x; j < n; j += blockDim.x) {
  declare_key(key, base + j);
  if (key < prefix || (simple && key == prefix)) {
    const u32 slot = atomicAdd(&state[slots], 1u);
    best[slot] = key, order[slot] = (u32)j;
  }
}
if (!simple) {
  u32 taken = K - need;
  for (i64 start = 0; taken < K; start += blockDim.x) {
    const i64 j = start + threadIdx.x;
    bool tie = false;
    if (j < n) {
      declare_key(key, base + j);
      tie = key == prefix;
    }
    const unsigned ties = __ballot_sync(MX_FULL_WARP, tie), lane = threadIdx.x & 31;
    if (lane == 0) sums[threadIdx.x >> 5] = __popc(ties);
    __syncthreads();
    u32 slot = taken + __popc(ties & ((1u << lane) - 1u));
    for (unsigned warp = 0; warp < 8; warp++) {
      if (warp < threadIdx.x >> 5) slot += sums[warp];
      taken += sums[warp];
    }
    if (tie && slot < K) best[slot] = prefix, order[slot] = (u32)j;
    __syncthreads();
  }
}
// @if MANY > 1
for (u32 size = 2; size <= MANY; size *= 2)
  for (u32 stride = size / 2; stride; stride /= 2) {
    __syncthreads();
    for (u32 e = threadIdx.x; e < HALF; e += blockDim.x) {
      const u32 a = 2 * e - (e & (stride - 1)), b = a + stride;
      const Key p = best[a], q = best[b];
      const u32 s = order[a], t = order[b];
      if ((p > q || (p == q && s > t)) == ((a & size) == 0))
        best[a] = q, best[b] = p, order[a] = t, order[b] = s;
    }
  }
// @endif
__syncthreads();
for (i64 j = threadIdx.x; j < K; j += blockDim.x) {
  const i64 from = order[j];
  values[i * K + j] = x[base + from];
  indices[i * K + j] = from;
}
__syncthreads();

// A block a row: a bitonic sort in memory, of as many records as the next power of two, which is
// below 2 N: what `top_k` did before, see Options.old_top_k.
// @op whole_rows_gpu(x: T[rows, N]) -> (values: T[rows, K], indices: int64[rows, K])
// @types T: any
// @params K: int; DOWN: bool; KEY: DType
// @temp kept: KEY[rows * N * 2]
// @temp places: uint32[rows * N * 2]
// @items rows
// @work 16 * N
// @cuda block
const i64 n = N, base = i * n;
Key *const all = kept + 2 * base;
u32 *const order = places + 2 * base;
i64 many = 1;
while (many < n) many *= 2;
for (i64 j = threadIdx.x; j < many; j += blockDim.x)
  if (j < n) {
    declare_key(key, base + j);
    all[j] = key, order[j] = (u32)j;
  } else {
    all[j] = ALL, order[j] = 0xffffffffu;
  }
for (i64 size = 2; size <= many; size *= 2)
  for (i64 stride = size / 2; stride; stride /= 2) {
    __syncthreads();
    for (i64 e = threadIdx.x; e < many / 2; e += blockDim.x) {
      const i64 a = 2 * e - (e & (stride - 1)), b = a + stride;
      const Key p = all[a], q = all[b];
      const u32 s = order[a], t = order[b];
      if ((p > q || (p == q && s > t)) == ((a & size) == 0))
        all[a] = q, all[b] = p, order[a] = t, order[b] = s;
    }
  }
__syncthreads();
for (i64 j = threadIdx.x; j < K; j += blockDim.x) {
  const i64 from = order[j];
  values[i * K + j] = x[base + from];
  indices[i * K + j] = from;
}
__syncthreads();

// A thread an element, which goes behind all that are smaller.
// @op argsort_few(x: T[N]) -> (y: int64[N])
// @types T: any
// @params DOWN: bool
// @items N
// @work N
// @cuda
const i64 n = N;
declare_key(mine, i);
i64 place = 0;
for (i64 j = 0; j < n; j++) {
  declare_key(key, j);
  place += key < mine || (key == mine && j < i);
}
y[place] = i;

// A radix sort, 8 bits at a time: each tile of records counts its digits, a block for each digit
// adds these up, and the tiles move their records. Within a tile, the lanes of a warp that have one
// digit find each other, which keeps their order. In pass 0 records are made of x, later they lie in
// the one or the other memory.
// @op argsort_gpu(x: T[N]) -> (y: int64[N])
// @types T: any
// @params DOWN: bool; THREADS: int; ITEMS: int; TILE: int; SHIFT: int = 0; FIRST: bool = true;
//   ODD: bool = false; LAST: bool = false; KEY: DType
// @sizes TILES
// @temp keys0: KEY[N]
// @temp keys1: KEY[N]
// @temp order0: uint32[N]
// @temp order1: uint32[N]
// @temp counts: uint32[TILES * 256]
// @temp totals: uint32[256]

// @part count
// @items TILES
// @work TILE
// @cuda block shared=1024
u32 *const count = (u32 *)shared;
const i64 n = N, tiles = TILES;
count[threadIdx.x] = 0;
__syncthreads();
for (int e = 0; e < ITEMS; e++) {
  const i64 j = i * TILE + e * THREADS + threadIdx.x;
  if (j < n) {
    take_key();
    atomicAdd(&count[(key >> SHIFT) & 255], 1u);
  }
}
__syncthreads();
counts[threadIdx.x * tiles + i] = count[threadIdx.x];
__syncthreads();

// @part add
// @items 256
// @work TILES
// @cuda block threads=128 shared=512
u32 *const sums = (u32 *)shared;
const i64 tiles = TILES;
const i64 each = (tiles + blockDim.x - 1) / blockDim.x;
const i64 first = i * tiles + (threadIdx.x * each < tiles ? threadIdx.x * each : tiles);
const i64 last = first + each < (i + 1) * tiles ? first + each : (i + 1) * tiles;
u32 mine = 0;
for (i64 j = first; j < last; j++) mine += counts[j];
u32 total = mine;
for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
  sums[threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.x >= distance) total += sums[threadIdx.x - distance];
  __syncthreads();
}
if (threadIdx.x == blockDim.x - 1) totals[i] = total;
total -= mine;
for (i64 j = first; j < last; j++) {
  const u32 c = counts[j];
  counts[j] = total;
  total += c;
}

// @part move
// @items TILES
// @work TILE
// @cuda block shared=9216
u32 *const sums = (u32 *)shared;
u32 *const warps = sums + 256;
const i64 n = N, tiles = TILES;
const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
const u32 here = totals[threadIdx.x];
u32 start = here;
for (unsigned distance = 1; distance < 256; distance *= 2) {
  sums[threadIdx.x] = start;
  __syncthreads();
  if (threadIdx.x >= distance) start += sums[threadIdx.x - distance];
  __syncthreads();
}
start += counts[threadIdx.x * tiles + i] - here;
for (int e = 0; e < 8; e++) warps[e * 256 + threadIdx.x] = 0;
__syncthreads();
Key found[ITEMS];
u32 records[ITEMS], places[ITEMS];
for (int e = 0; e < ITEMS; e++) {
  const i64 j = i * TILE + (warp * ITEMS + e) * 32 + lane;
  u32 digit = 256;
  if (j < n) {
    take_key();
    found[e] = key, records[e] = number_of(j);
    digit = (u32)(key >> SHIFT) & 255;
  }
  const unsigned same = __match_any_sync(MX_FULL_WARP, digit);
  const u32 rank = __popc(same & ((1u << lane) - 1u));
  if (digit < 256) places[e] = warps[warp * 256 + digit] + rank;
  __syncwarp();
  if (digit < 256 && rank == 0) warps[warp * 256 + digit] += __popc(same);
  __syncwarp();
}
__syncthreads();
for (int e = 0; e < 8; e++) {
  const u32 c = warps[e * 256 + threadIdx.x];
  warps[e * 256 + threadIdx.x] = start;
  start += c;
}
__syncthreads();
for (int e = 0; e < ITEMS; e++) {
  const i64 j = i * TILE + (warp * ITEMS + e) * 32 + lane;
  if (j < n) {
    const u32 to = warps[warp * 256 + ((u32)(found[e] >> SHIFT) & 255)] + places[e];
    // @if LAST
    y[to] = (i64)records[e];
    // @elif ODD
    keys0[to] = found[e], order0[to] = records[e];
    // @else
    keys1[to] = found[e], order1[to] = records[e];
    // @endif
  }
}
__syncthreads();

// @macro number_of(J) = (u32)J if FIRST else order1[J] if ODD else order0[J]

// The key of the record j.
// @macro take_key()
// @if FIRST
declare_key(key, j);
// @elif ODD
const Key key = keys1[j];
// @else
const Key key = keys0[j];
// @endif
