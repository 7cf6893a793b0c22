// Tokens drawn from logits on GPUs; sampling.c says what gaps, keys and last tokens are.

// A block a row. Keys are in the memory of the op, as are the first tokens in order, where they are needed.
// @op sample_token_gpu(x: T[rows, N], k: int64[rows], temperature: float64[rows], top_p: float64[rows],
//   min_p: float64[rows], u: float64[rows], allowed: bool[rows, width]) -> (y: int64[rows])
// @types T: any
// @params MASKED: bool
// @temp gaps: uint64[rows * N]
// @temp order: uint64[rows * N * 2]
// @temp ids: uint32[rows * N * 2]
// @items rows
// @work 16 * N
// @cuda block threads=256 shared=4352
find_gaps_gpu();
if (most == 1) {
  if (threadIdx.x == 0) store(y, i, top);
  __syncthreads();
  continue;
}
find_last_gpu();
const i64 begin = n * threadIdx.x / 256, end = n * (threadIdx.x + 1) / 256;
f64 own = 0;
for (i64 j = begin; j < end; j++) own += is_kept_gpu(j) ? weight_gpu(keys[j]) : 0.0;
sum_up(own, total);
parts[threadIdx.x] = own / total;
__syncthreads();
if (threadIdx.x == 0) {
  f64 sum = 0, reach = 0;
  for (int t = 0; t < 256; t++) sum += parts[t];
  const f64 goal = load(u, i) * sum;
  int owner = -1;
  f64 before = 0;
  for (int t = 0; t < 256 && !(reach > goal); t++) {
    if (parts[t] > 0) owner = t, before = reach;
    reach += parts[t];
  }
  state[0] = (u32)owner;
  parts[0] = before, parts[1] = goal;
}
__syncthreads();
if (threadIdx.x == state[0]) {
  f64 reach = parts[0];
  i64 found = begin;
  for (i64 j = begin; j < end && !(reach > parts[1]); j++) {
    const f64 weight = is_kept_gpu(j) ? weight_gpu(keys[j]) : 0.0;
    reach += weight / total;
    if (weight > 0) found = j;
  }
  store(y, i, found);
}
__syncthreads();

// @op sample_scores_gpu(x: T[rows, N], k: int64[rows], temperature: float64[rows], top_p: float64[rows],
//   min_p: float64[rows], allowed: bool[rows, width]) -> (y: S[rows, N])
// @types T: any; S: any
// @params MASKED: bool
// @temp gaps: uint64[rows * N]
// @temp order: uint64[rows * N * 2]
// @temp ids: uint32[rows * N * 2]
// @items rows
// @work 16 * N
// @cuda block threads=256 shared=4352
find_gaps_gpu();
if (most == 1) {
  for (i64 j = threadIdx.x; j < n; j += 256) store(y, base + j, j == top ? 0 : -INFINITY);
  __syncthreads();
  continue;
}
find_last_gpu();
for (i64 j = threadIdx.x; j < n; j += 256)
  store(y, base + j, is_kept_gpu(j) ? 0 - __longlong_as_double((i64)keys[j]) : -INFINITY);
__syncthreads();

// @macro allowed_gpu(J) = ((J) < width && load(allowed, i * width + (J))) if MASKED else true
// @macro weight_gpu(KEY) = exp(-__longlong_as_double((i64)(KEY)))
// @macro is_kept_gpu(J) = ((keys[J] < last || (keys[J] == last && (J) <= last_id)) && !(weight_gpu(keys[J]) / mass < lower * (1 / mass)))

// The sum of the numbers of all threads, always in one order.
// @macro sum_up(OWN, NAME)
parts[threadIdx.x] = OWN;
__syncthreads();
for (unsigned step = 128; step; step /= 2) {
  if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
  __syncthreads();
}
const f64 NAME = parts[0];
__syncthreads();

// The keys of a row, the first token with the largest logit, and how many top-k leaves.
// @macro find_gaps_gpu()
f64 *const parts = (f64 *)shared;
i64 *const places = (i64 *)shared;
u32 *const count = (u32 *)(shared + 2048), *const sums = count + 256, *const state = sums + 256;
const i64 n = N, base = i * n;
u64 *const keys = gaps + base, *const best = order + 2 * base;
u32 *const best_ids = ids + 2 * base;
(void)best, (void)best_ids, (void)sums, (void)count;
f64 own_largest = -INFINITY;
i64 bad = n;
for (i64 j = threadIdx.x; j < n; j += 256) {
  const f64 v = load(x, base + j);
  if (!(v < INFINITY) && j < bad) bad = j;
  if (allowed_gpu(j) && v > own_largest) own_largest = v;
}
parts[threadIdx.x] = own_largest;
__syncthreads();
for (unsigned step = 128; step; step /= 2) {
  if (threadIdx.x < step && parts[threadIdx.x + step] > parts[threadIdx.x])
    parts[threadIdx.x] = parts[threadIdx.x + step];
  __syncthreads();
}
const f64 largest = parts[0];
__syncthreads();
least_of(bad, first_bad);
if (first_bad < n || largest == -INFINITY) {
  if (threadIdx.x == 0) refuse((first_bad < n ? first_bad : -1), n);
  continue;
}
const f64 heat = load(temperature, i);
const i64 wish = load(k, i), most = !(heat > 0) ? 1 : wish > 0 && wish < n ? wish : n;
i64 own_top = n;
for (i64 j = threadIdx.x; j < n; j += 256) {
  const f64 v = allowed_gpu(j) ? (f64)load(x, base + j) : -INFINITY;
  const f64 gap = v == -INFINITY ? (f64)INFINITY : heat > 0 ? (largest - v) / heat : largest - v;
  keys[j] = gap > 0 ? (u64)__double_as_longlong(gap) : 0;  // -0 is no key
  if (!(gap > 0) && j < own_top) own_top = j;
}
__syncthreads();
least_of(own_top, top);

// @macro least_of(OWN, NAME)
places[threadIdx.x] = OWN;
__syncthreads();
for (unsigned step = 128; step; step /= 2) {
  if (threadIdx.x < step && places[threadIdx.x + step] < places[threadIdx.x])
    places[threadIdx.x] = places[threadIdx.x + step];
  __syncthreads();
}
const i64 NAME = places[0];
__syncthreads();

// @macro find_last_gpu()
const f64 part = load(top_p, i), lower = load(min_p, i) < 1 ? load(min_p, i) : 1;
u64 last = 0x7ff0000000000000ull;
i64 last_id = -1;
f64 mass = 0;
if (most == n) {
  f64 own_mass = 0;
  for (i64 j = threadIdx.x; j < n; j += 256) own_mass += weight_gpu(keys[j]);
  sum_up(own_mass, all);
  mass = all;
}
if (most < n || part < 1) {
  i64 many = most < n ? most : n < 1024 ? n : 1024;
  for (;;) {
    order_first_gpu(many);
    if (most < n) {
      f64 own_mass = 0;
      for (i64 j = threadIdx.x; j < many; j += 256) own_mass += weight_gpu(best[j]);
      sum_up(own_mass, all);
      mass = all;
    }
    if (threadIdx.x == 0) {
      f64 ahead = 0;
      i64 left = 0;
      for (; left < many && (!left || !(part < 1) || ahead < part); left++)
        ahead += weight_gpu(best[left]) / mass;
      places[0] = left;
    }
    __syncthreads();
    const i64 left = places[0];
    __syncthreads();
    last = best[left - 1], last_id = best_ids[left - 1];
    if (left < many || many == most) break;
    many = most;
    __syncthreads();
  }
}

// The first MANY tokens in order: their last key is found 8 bits at a time, then tokens are collected, of equal ones
// those with the smallest ids, and sorted.
// @macro order_first_gpu(MANY)
u64 prefix = 0;
i64 need = MANY;
for (int shift = 56; shift >= 0; shift -= 8) {
  count[threadIdx.x] = 0;
  __syncthreads();
  for (i64 j = threadIdx.x; j < n; j += 256)
    if (shift == 56 || keys[j] >> shift >> 8 == prefix)
      atomicAdd(&count[(keys[j] >> shift) & 255], 1u);
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 digit = 0;
    i64 rest = need;
    while ((i64)count[digit] < rest) rest -= count[digit++];
    state[0] = digit, state[1] = (u32)rest;
  }
  __syncthreads();
  prefix = prefix << 8 | state[0];
  need = state[1];
  __syncthreads();
}
i64 room = 1, taken = 0, ties = 0;
while (room < MANY) room *= 2;
for (i64 start = 0; start < n; start += 256) {
  const i64 j = start + threadIdx.x;
  const bool below = j < n && keys[j] < prefix, tie = j < n && keys[j] == prefix;
  count[threadIdx.x] = below, sums[threadIdx.x] = tie;
  __syncthreads();
  for (unsigned distance = 1; distance < 256; distance *= 2) {
    const u32 more = threadIdx.x >= distance ? count[threadIdx.x - distance] : 0;
    const u32 equal = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
    __syncthreads();
    count[threadIdx.x] += more, sums[threadIdx.x] += equal;
    __syncthreads();
  }
  const i64 rank = ties + sums[threadIdx.x] - 1;
  const i64 slot = below ? taken + count[threadIdx.x] - 1 : MANY - need + rank;
  if (below || (tie && rank < need)) best[slot] = keys[j], best_ids[slot] = (u32)j;
  taken += count[255], ties += sums[255];
  __syncthreads();
}
for (i64 j = MANY + threadIdx.x; j < room; j += 256) best[j] = ~0ull, best_ids[j] = 0xffffffffu;
for (i64 size = 2; size <= room; size *= 2)
  for (i64 stride = size / 2; stride; stride /= 2) {
    __syncthreads();
    for (i64 e = threadIdx.x; e < room / 2; e += 256) {
      const i64 a = 2 * e - (e & (stride - 1)), b = a + stride;
      const u64 p = best[a], q = best[b];
      const u32 s = best_ids[a], t = best_ids[b];
      if ((p > q || (p == q && s > t)) == ((a & size) == 0))
        best[a] = q, best[b] = p, best_ids[a] = t, best_ids[b] = s;
    }
  }
__syncthreads();
