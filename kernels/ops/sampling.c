// Tokens drawn from logits, penalties of logits, and counts of tokens; sampling.cu has the draws of GPUs.
//
// A token has a *gap*: how far its logit is below the largest one, divided by the temperature. Its weight is
// exp(-gap). Gaps are not negative, so the bits of a gap, its *key*, have the order of gaps. What top-k, top-p and
// min-p leave is the beginning of the tokens in order, equal ones by their ids: all up to one *last* token.
// All of it is computed in double.

// Numbers in [0, 1), of 53 bits: Philox 4x64 with 10 rounds (J. Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC11), whose key is the seed of the row and whose counter begins at 1, as in NumPy.
// @op row_uniforms(seeds: uint64[rows]) -> (y: float64[rows, count])
// @sizes COUNT; QUARTERS
// @items rows * QUARTERS
// @both work=40
const i64 many = COUNT, quarters = QUARTERS, row = i / quarters, quarter = i % quarters;
u64 key0 = load(seeds, row), key1 = 0;
u64 c0 = (u64)quarter + 1, c1 = 0, c2 = 0, c3 = 0;
for (int round = 0; round < 10; round++) {
  const u64 low0 = 0xd2e7470ee14c6c93ull * c0, low1 = 0xca5a826395121157ull * c2;
  const u64 high0 = upper_half(0xd2e7470ee14c6c93ull, c0),
            high1 = upper_half(0xca5a826395121157ull, c2);
  c0 = high1 ^ c1 ^ key0, c1 = low1, c2 = high0 ^ c3 ^ key1, c3 = low0;
  key0 += 0x9e3779b97f4a7c15ull, key1 += 0xbb67ae8584caa73bull;
}
const u64 words[4] = {c0, c1, c2, c3};
for (i64 part = 0; part < 4 && 4 * quarter + part < many; part++)
  store(y, row * many + 4 * quarter + part, (f64)(words[part] >> 11) * 0x1p-53);

// @macro upper_half(A, B) = __umul64hi(A, B) if gpu else (u64)((unsigned __int128)(A) * (B) >> 64)

// A token of each row, where `u` are numbers in [0, 1).
// @op sample_token(x: T[rows, N], k: int64[rows], temperature: float64[rows], top_p: float64[rows],
//   min_p: float64[rows], u: float64[rows], allowed: bool[rows, width]) -> (y: int64[rows])
// @types T: any
// @params MASKED: bool
// @items rows
// @work 16 * N
// @c
find_gaps();
if (most == 1) {
  i64 best = 0;
  while (keys[best]) best++;
  store(y, i, best);
  continue;
}
find_last();
f64 total = 0, sum = 0, reach = 0;
i64 found = 0;
if (left) {  // few tokens, which are put in the order of their ids
  for (i64 j = 0; j < left; j++) order[j] = order[j] << 64 | order[j] >> 64;
  mx_sort_u128(order, order + left, left, ctx);
  for (i64 j = 0; j < left; j++) {
    weights[j] = mx_exp_f64(-mx_f64_bits((u64)order[j]));
    total += weights[j];
  }
  pick_token(left);
  store(y, i, (i64)(order[found] >> 64));
} else {
  for (i64 j = 0; j < n; j++) {
    if (is_cut(weights[j])) weights[j] = 0;
    total += weights[j];
  }
  pick_token(n);
  store(y, i, found);
}

// The place among COUNT weights where their sum exceeds the uniform number's part of it; where rounding keeps it
// below, the last one.
// @macro pick_token(COUNT)
for (i64 j = 0; j < COUNT; j++) sum += weights[j] / total;
const f64 goal = load(u, i) * sum;
for (i64 j = 0; j < COUNT && !(reach > goal); j++) {
  reach += weights[j] / total;
  if (weights[j] > 0) found = j;
}

// The scores that tokens are drawn by: minus the gap, and minus infinity for those that are not.
// @op sample_scores(x: T[rows, N], k: int64[rows], temperature: float64[rows], top_p: float64[rows],
//   min_p: float64[rows], allowed: bool[rows, width]) -> (y: S[rows, N])
// @types T: any; S: any
// @params MASKED: bool
// @items rows
// @work 16 * N
// @c
find_gaps();
if (most == 1) {
  int first = 1;
  for (i64 j = 0; j < n; j++) {
    store(y, base + j, first && !keys[j] ? 0 : -__builtin_inf());
    if (!keys[j]) first = 0;
  }
  continue;
}
find_last();
if (left) {
  for (i64 j = 0; j < n; j++) store(y, base + j, -__builtin_inf());
  for (i64 j = 0; j < left; j++)
    store(y, base + (i64)(u64)order[j], 0 - mx_f64_bits((u64)(order[j] >> 64)));
} else
  for (i64 j = 0; j < n; j++)
    store(y, base + j, is_cut(weights[j]) ? -__builtin_inf() : 0 - mx_f64_bits(keys[j]));

// @macro may(J) = ((J) < width && load(allowed, i * width + (J))) if MASKED else 1

// The keys of a row, and how many tokens top-k leaves: 1 without a temperature.
// @macro find_gaps()
const i64 n = N, base = i * n;
u128 *const order = (u128 *)scratch;
u64 *const keys = (u64 *)(order + 2 * n + 2);
f64 *const weights = (f64 *)(keys + n);
f64 largest = -__builtin_inf();
i64 bad = -1;
for (i64 j = 0; j < n; j++) {
  const f64 v = load(x, base + j);
  if (!(v < __builtin_inf()) && bad < 0) bad = j;
  if (may(j) && v > largest) largest = v;
}
if (bad >= 0 || largest == -__builtin_inf()) refuse(bad, n);
const f64 heat = load(temperature, i);
const i64 wish = load(k, i), most = !(heat > 0) ? 1 : wish > 0 && wish < n ? wish : n;
for (i64 j = 0; j < n; j++) {
  const f64 v = may(j) ? load(x, base + j) : -__builtin_inf();
  const f64 gap = v == -__builtin_inf() ? __builtin_inf()
                  : heat > 0            ? (largest - v) / heat
                                        : largest - v;
  keys[j] = gap > 0 ? mx_bits_f64(gap) : 0;  // -0 is no key
}
if (n > 1 << 20 && mx_stop(ctx)) return MX_STOPPED;

// What is left. Where only the first tokens in order can be, these are `order`, and `left` is how many there are: top-p
// needs few of them, and more are put in order only where they are not enough. Otherwise `left` is 0, and `weights` are
// those of all tokens. `mass` is the sum of the weights that top-k leaves.
// @macro find_last()
const f64 part = load(top_p, i), lower = load(min_p, i) < 1 ? load(min_p, i) : 1;
i64 left = 0;
f64 mass = 0;
if (most == n)
  for (i64 j = 0; j < n; j++) {
    weights[j] = mx_exp_f64(-mx_f64_bits(keys[j]));
    mass += weights[j];
  }
if (most < n || part < 1) {
  i64 many = most < n ? most : n < 256 ? n : 256;
  for (;;) {
    order_first(many);
    if (most < n) {
      mass = 0;
      for (i64 j = 0; j < many; j++) mass += weight_of(order[j]);
    }
    f64 ahead = 0;
    for (left = 0; left < many && (!left || !(part < 1) || ahead < part); left++)
      ahead += weight_of(order[left]) / mass;
    if (left < many || many == most) break;
    many = 8 * many < most ? 8 * many : most;
  }
  while (left > 1 && is_cut(weight_of(order[left - 1]))) left--;
}

// @macro weight_of(RECORD) = mx_exp_f64(-mx_f64_bits((u64)((RECORD) >> 64)))
// @macro is_cut(WEIGHT) = (WEIGHT / mass < lower * (1 / mass))

// The first MANY records in order.
// @macro order_first(MANY)
u64 low, high;
i64 ties = mx_kth_u128(keys, n, MANY, 64, &low, &high, ctx), got = 0;
for (i64 j = 0; j < n && got < MANY; j++) {
  const i64 below = keys[j] < low, tie = !below & (keys[j] <= high) & (ties > 0);
  order[got] = (u128)keys[j] << 64 | (u64)j;
  got += below | tie;
  ties -= tie;
}
mx_sort_u128(order, order + MANY, MANY, ctx);

// Logits of the tokens in `data` of each row: pairs of a token and how often it is there. A row's pairs are those from
// offsets[row] on. The token -1 is a free place.
// @op penalise(inout x: T[rows, N], data: int32[entries, 2], offsets: uint32[ends], frequency: float64[rows],
//   presence: float64[rows], repetition: float64[rows])
// @types T: any
// @params LARGEST: float
// @items rows
// @work 256
// @c
find_pairs();
for (i64 e = first; e < past; e++) { change_logit(e); }
// @cuda block threads=128
find_pairs();
for (i64 e = first + threadIdx.x; e < past; e += blockDim.x) { change_logit(e); }

// @macro find_pairs()
const i64 first = load(offsets, i), past = load(offsets, i + 1);
if (past > entries || first > past) {
  refuse(past, entries + 1);
  continue;
}

// @macro change_logit(E)
const i64 n = N, token = load(data, 2 * E), times = load(data, 2 * E + 1);
if (token == -1 || times <= 0) continue;
if (token < 0 || token >= n) {
  refuse(token, n);
  continue;
}
f64 v = load(x, i * n + token);
if (v < -LARGEST) continue;
v = v < 0 ? v * load(repetition, i) : v / load(repetition, i);
v -= (f64)times * load(frequency, i) + load(presence, i);
store(x, i * n + token, v > LARGEST ? LARGEST : v < -LARGEST ? -LARGEST : v);

// One more of the token of each row: in its pair, else in the first free place; without one it is not counted.
// @op count_tokens(inout data: int32[entries, 2], offsets: uint32[ends], tokens: int64[rows])
// @items rows
// @work 256
// @c
find_pairs();
const i64 token = load(tokens, i);
if (token < 0 || token > 0x7fffffff) {
  refuse(token, 0x80000000ll);
  continue;
}
i64 place = -1, open = -1;
for (i64 e = first; e < past && place < 0; e++) {
  if (data[2 * e] == token) place = e;
  if (data[2 * e] == -1 && open < 0) open = e;
}
add_token();
// @cuda block threads=128 shared=1024
find_pairs();
const i64 token = load(tokens, i);
if (token < 0 || token > 0x7fffffff) {
  refuse(token, 0x80000000ll);
  continue;
}
i64 *const nearest = (i64 *)shared;
i64 place = -1, open = -1;
for (i64 e = first + threadIdx.x; e < past && place < 0; e += blockDim.x) {
  if (data[2 * e] == token) place = e;
  if (data[2 * e] == -1 && open < 0) open = e;
}
nearest[threadIdx.x] = place;
__syncthreads();
for (int t = 0; t < 128; t++)
  if (nearest[t] >= 0 && (place < 0 || nearest[t] < place)) place = nearest[t];
__syncthreads();
nearest[threadIdx.x] = open;
__syncthreads();
for (int t = 0; t < 128; t++)
  if (nearest[t] >= 0 && (open < 0 || nearest[t] < open)) open = nearest[t];
__syncthreads();
if (threadIdx.x == 0) { add_token(); }

// @macro add_token()
{
  const i64 to = place >= 0 ? place : open;
  if (to >= 0) {
    data[2 * to + 1] = place >= 0 ? data[2 * to + 1] + 1 : 1;
    data[2 * to] = (i32)token;
  }
}
