// Attention over pages of latent vectors; latent.cu has it for GPUs.
//
// A page has one vector of `dim` numbers for each token and layer: a latent vector, of which keys and
// values of all heads are made, and behind it the ROPE numbers of a key that all heads share. Offsets,
// lengths, table and layer are those of attention.c. What is made of latent vectors is made for a chunk
// of them at a time: the rows of the sequence s in the chunk begin at starts[s], and the first one is
// the token firsts[s] of the sequence.

// @use attention.c

// The latent vectors of a chunk as rows, of which `count` are there; those behind are 0.
// @op latent_load(blocks: T[pages, 1, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[], count: int64[])
//   -> (y: T[rows, width])
// @types T: any
// @items rows
// @work width
// @c
const i64 row = i;
find_count();
if (row >= known) {
  __builtin_memset(y + row * width, 0, (u64)width * sizeof *y);
  continue;
}
find_cached(row);
find_page(before + row - first);
__builtin_memcpy(y + row * width, blocks + place_among(1, 0), (u64)width * sizeof *y);
// @cuda block threads=128
const i64 row = i;
find_count();
if (row >= known) {
  for (i64 c = threadIdx.x; c < width; c += blockDim.x) y[row * width + c] = 0;
  continue;
}
find_cached(row);
find_page(before + row - first);
for (i64 c = threadIdx.x; c < width; c += blockDim.x)
  y[row * width + c] = blocks[place_among(1, 0) + c];

// The same times a weight, transposed: keys and values of the chunk. The library of products is given
// the places of the vectors in their pages, so that they are not copied. A thread makes BLOCK rows and
// MOST columns.
// @op latent_expand(blocks: T[pages, 1, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[], count: int64[],
//   weight: T[out, width]) -> (y: T[rows, out])
// @types T: any
// @params BLOCK: int; MOST: int; COLUMNS: int; DEPTH: int; KIND: int; BYTES: int; LAST: int;
//   PANELS: int

// The weight in panels, where it is not known before the run.
// @part pack
// @items PANELS
// @work 64 * width
// @c
// @if T == float32
ctx->lib->pack_b_f32(packed, weight, width, out, 1, width, i, i + 1);
// @else
ctx->lib->half_pack(KIND, packed, weight, width, out, 1, width, i, i + 1);
// @endif

// @part product
// @items (rows + LAST) // BLOCK * COLUMNS
// @work BLOCK * width * MOST // 16
// @c scratch=BYTES
find_count();
const i64 r0 = i / COLUMNS * BLOCK, r1 = r0 + BLOCK < rows ? r0 + BLOCK : rows;
const i64 c0 = i % COLUMNS * MOST, c1 = c0 + MOST < out ? c0 + MOST : out;
const i64 end = known < r0 ? r0 : known < r1 ? known : r1;
const stored_T **const lines = (const stored_T **)scratch;
for (i64 row = r0; row < end; row++) {
  find_cached(row);
  find_page(before + row - first);
  lines[row - r0] = blocks + place_among(1, 0);
}
// @if T == float32
if (end > r0)
  ctx->lib->gemm_runs(y + r0 * out + c0, out, (const void *const *)lines, 1, width,
                      packed + c0 * DEPTH, end - r0, c1 - c0);
// @elif T == float64
for (i64 row = r0; row < end; row++)
  for (i64 c = c0; c < c1; c++) {
    T sum = 0;
    #pragma omp simd reduction(+ : sum)
    for (i64 k = 0; k < width; k++) sum += lines[row - r0][k] * weight[c * width + k];
    store(y, row * out + c, sum);
  }
// @else
f32 *const tile = (f32 *)(lines + BLOCK);
if (end > r0)
  ctx->lib->half_runs(KIND, tile, MOST, (const void *const *)lines, 1, width, packed + c0 * DEPTH,
                      end - r0, c1 - c0, tile + BLOCK * MOST);
for (i64 row = r0; row < end; row++) {
  #pragma omp simd
  for (i64 c = c0; c < c1; c++) store(y, row * out + c, tile[(row - r0) * MOST + c - c0]);
}
// @endif
for (i64 row = end; row < r1; row++)
  __builtin_memset(y + row * out + c0, 0, (u64)(c1 - c0) * sizeof *y);

// The attention of queries over the keys and values of a chunk. The first NOPE numbers of a query meet
// those of a key, which begin its head in `keys`; the other ROPE meet the end of the vector in its
// page. The SIZE numbers of a value begin at AT of its head in `values`.
//
// The result is that of all chunks so far, if the one before is told: its `prior` result and `state`,
// the largest score of each row and the sum of exponentials above it.
// @op latent_chunk(blocks: T[pages, 1, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[], q: T[tokens, wide, depth],
//   keys: T[rows, wide, reached], values: T[rows, wide, large], starts: uint32[ends],
//   firsts: uint32[batch], prior: T[tokens, wide, SIZE], state: A[tokens, wide, 2])
//   -> (y: T[tokens, wide, SIZE], sums: A[tokens, wide, 2])
// @types T: any; A: any
// @params MASK: str; SCALE: float; POWER: int; WINDOW: int; NOPE: int; ROPE: int; AT: int; SIZE: int;
//   PRIOR: bool; QUERIES: int; LAST: int; TILE: int; COLUMNS: int; BYTES: int
// @items (tokens + LAST) // QUERIES * wide
// @work QUERIES * depth * 64
// @c scratch=BYTES
T *const query = (T *)scratch, *const made = query + QUERIES * depth,
         *const scores = made + QUERIES * SIZE, *const turned = scores + QUERIES * TILE,
         *const held = turned + TILE * TILE;
T *const tops = held + TILE * COLUMNS, *const totals = tops + QUERIES;
const i64 head = i % wide, block = i / wide * QUERIES,
          stop = block + QUERIES < tokens ? block + QUERIES : tokens;
for (i64 token = block, next = stop; token < stop; token = next, next = stop) {
  find_cached(token);
  find_chunk();
  if (first + there - before < stop) next = first + there - before;
  const i64 many = next - token, start = before + token - first;
  for (i64 g = 0; g < many; g++) {
    const i64 mine = (token + g) * wide + head;
    for (i64 c = 0; c < depth; c++) query[g * depth + c] = load(q, mine * depth + c) * SCALE;
    // @if PRIOR
    tops[g] = load(state, 2 * mine), totals[g] = load(state, 2 * mine + 1);
    for (i64 c = 0; c < SIZE; c++) made[g * SIZE + c] = load(prior, mine * SIZE + c) * totals[g];
    // @else
    tops[g] = -__builtin_inff(), totals[g] = 0;
    for (i64 c = 0; c < SIZE; c++) made[g * SIZE + c] = 0;
    // @endif
  }
  i64 end;
  {
    const i64 position = start + many - 1;
    see_chunk();
    end = seen;
  }
  for (i64 at = base; at < end;) {
    find_page(at);
    i64 some = page - slot < TILE ? page - slot : TILE, limits[QUERIES];
    if (some > end - at) some = end - at;
    const i64 row = (low + at - base) * wide + head;
    for (i64 c = 0; c < many * TILE; c++) scores[c] = 0;
    score_tile(many, depth, keys, keys + row * reached, wide * reached, 0, NOPE);
    score_tile(many, depth, blocks, blocks + place_among(1, 0) + dim - ROPE, heads * dim, NOPE,
               ROPE);
    for (i64 g = 0; g < many; g++) {
      const i64 position = start + g;
      see_chunk();
      const i64 mine = limits[g] = seen - at < 0 ? 0 : seen - at < some ? seen - at : some;
      // @if MASK == "alibi"
      find_slope(head);
      fall_away(mine);
      // @endif
      weigh(mine);
    }
    add_values(many, values, values + row * large + AT, wide * large, limits[g]);
    at += some;
  }
  for (i64 g = 0; g < many; g++) {
    const i64 mine = (token + g) * wide + head;
    store(sums, 2 * mine, tops[g]);
    store(sums, 2 * mine + 1, totals[g]);
    for (i64 c = 0; c < SIZE; c++)
      store(y, mine * SIZE + c, totals[g] == 0 ? 0 : made[g * SIZE + c] / totals[g]);
  }
}

// The attention of queries that were brought into the space of latent vectors: these are keys, and
// their first SIZE numbers values, of all heads. A thread takes GROUP heads of a row.
// @op latent_attention(blocks: T[pages, 1, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[], q: T[tokens, wide, dim])
//   -> (y: T[tokens, wide, SIZE])
// @types T: any
// @params MASK: str; SCALE: float; POWER: int; WINDOW: int; SIZE: int; GROUP: int; TILE: int;
//   COLUMNS: int; BYTES: int
// @items tokens * (wide // GROUP)
// @work GROUP * page * dim
// @c scratch=BYTES
const i64 token = i * GROUP / wide, mine = i * GROUP;
T *const query = (T *)scratch, *const made = query + GROUP * dim,
         *const scores = made + GROUP * SIZE, *const turned = scores + GROUP * TILE,
         *const held = turned + TILE * TILE;
T *const tops = held + TILE * COLUMNS, *const totals = tops + GROUP;
find_cached(token);
see_rows_of();
for (i64 c = 0; c < GROUP * dim; c++) query[c] = load(q, mine * dim + c) * SCALE;
for (i64 c = 0; c < GROUP * SIZE; c++) made[c] = 0;
for (i64 g = 0; g < GROUP; g++) tops[g] = -__builtin_inff(), totals[g] = 0;
for (i64 at = begin; at < end;) {
  find_page(at);
  i64 some = page - slot < TILE ? page - slot : TILE;
  if (some > end - at) some = end - at;
  const stored_T *const lines = blocks + place_among(1, 0);
  for (i64 c = 0; c < GROUP * TILE; c++) scores[c] = 0;
  score_tile(GROUP, dim, blocks, lines, heads * dim, 0, dim);
  for (i64 g = 0; g < GROUP; g++) {
    // @if MASK == "alibi"
    find_slope(mine % wide + g);
    fall_away(some);
    // @endif
    weigh(some);
  }
  add_values(GROUP, blocks, lines, heads * dim, some);
  at += some;
}
for (i64 g = 0; g < GROUP; g++)
  for (i64 c = 0; c < SIZE; c++)
    store(y, (mine + g) * SIZE + c, totals[g] == 0 ? 0 : made[g * SIZE + c] / totals[g]);

// How many rows of a chunk are there.
// @macro find_count()
const i64 known = load(count, 0);
if (known < 0 || known > rows) {
  refuse(known, rows + 1);
  continue;
}

// The rows of the sequence in the chunk, low to high, are its tokens from base on; it has `there`.
// @macro find_chunk()
const i64 base = load(firsts, seq), low = load(starts, seq), high = load(starts, seq + 1);
const i64 there = before + (i64)load(offsets, seq + 1) - first;
if (high > rows || low > high) {
  refuse(high > rows ? high : low, rows + 1);
  continue;
}

// Where the keys of the chunk end that the query at `position` sees.
// @macro see_chunk()
const i64 reach = base + high - low < there ? base + high - low : there;
// @if MASK == "null"
const i64 seen = reach;
// @else
const i64 seen = position + 1 < reach ? position + 1 : reach;
// @endif
(void)position;

// The positions, from begin to end, of the keys that a row sees.
// @macro see_rows_of()
const i64 position = before + token - first, there = before + (i64)load(offsets, seq + 1) - first;
see_some();

// Adds to the scores of ROWS queries, of DEPTH numbers each, with a tile of keys: the products of
// COUNT numbers of both, from FIRST on in a query. LINES are those of keys, STRIDE apart, which belong
// to the operand X. Keys are turned, so that the scores of a query are next to each other.
// @macro score_tile(ROWS, DEPTH, X, LINES, STRIDE, FIRST, COUNT)
for (i64 c0 = 0; c0 < COUNT; c0 += TILE) {
  const i64 part = COUNT - c0 < TILE ? COUNT - c0 : TILE;
  // @if T == float32
  mx_turn_f32(turned, TILE, LINES + c0, STRIDE, some, part);
  // @else
  const stored_T *const from = LINES + c0;
  for (i64 k = 0; k < some; k++)
    for (i64 c = 0; c < part; c++) turned[c * TILE + k] = loaded(X, from[k * (STRIDE) + c]);
  // @endif
  for (i64 g = 0; g < ROWS; g++)
    add_rows(scores + g * TILE, TILE, turned, TILE, query + g * DEPTH + FIRST + c0, part);
}

// Adds the values of a tile, times the weights of ROWS queries, to their sums: of each the first LIMIT.
// @macro add_values(ROWS, X, LINES, STRIDE, LIMIT)
for (i64 c0 = 0; c0 < SIZE; c0 += COLUMNS) {
  const i64 part = SIZE - c0 < COLUMNS ? SIZE - c0 : COLUMNS;
  const stored_T *const from = LINES + c0;
  // @if is_half(T)
  for (i64 k = 0; k < some; k++) {
    #pragma omp simd
    for (i64 c = 0; c < part; c++) held[k * COLUMNS + c] = loaded(X, from[k * (STRIDE) + c]);
  }
  for (i64 g = 0; g < ROWS; g++)
    add_rows(made + g * SIZE + c0, part, held, COLUMNS, scores + g * TILE, LIMIT);
  // @else
  for (i64 g = 0; g < ROWS; g++)
    add_rows(made + g * SIZE + c0, part, from, STRIDE, scores + g * TILE, LIMIT);
  // @endif
}

// Adds MANY lines of WIDTH numbers, STRIDE apart, times a factor each, to the line TO.
// @macro add_rows(TO, WIDTH, FROM, STRIDE, FACTORS, MANY)
{
  T *const to = TO;
  const T *const by = FACTORS;
  i64 m = 0;
  for (; m + 4 <= MANY; m += 4) {
    const T *const l0 = FROM + m * (STRIDE), *const l1 = l0 + (STRIDE), *const l2 = l1 + (STRIDE),
                   *const l3 = l2 + (STRIDE);
    const T f0 = by[m], f1 = by[m + 1], f2 = by[m + 2], f3 = by[m + 3];
    #pragma omp simd
    for (i64 c = 0; c < WIDTH; c++) to[c] += f0 * l0[c] + f1 * l1[c] + f2 * l2[c] + f3 * l3[c];
  }
  for (; m < MANY; m++) {
    const T *const l0 = FROM + m * (STRIDE);
    const T f0 = by[m];
    #pragma omp simd
    for (i64 c = 0; c < WIDTH; c++) to[c] += f0 * l0[c];
  }
}

// Lets the scores of a query fall with the distance of the key, as ALiBi has it.
// @macro fall_away(SOME)
for (i64 k = 0; k < SOME; k++) scores[g * TILE + k] -= slope * (T)(position - at - k);

// Makes weights of SOME scores of the query g, in one pass: the sums so far become smaller when a
// larger one comes.
// @macro weigh(SOME)
T *const mine_of = scores + g * TILE;
T top = tops[g];
for (i64 k = 0; k < SOME; k++) top = mine_of[k] > top ? mine_of[k] : top;
const T less = top == -__builtin_inff() ? 0 : top, shrink = mx_exp_T(tops[g] - less);
T total = totals[g] * shrink;
tops[g] = top;
#pragma omp simd reduction(+ : total)
for (i64 k = 0; k < SOME; k++) {
  const T weight = mx_exp_T(mine_of[k] - less);
  mine_of[k] = weight;
  total += weight;
}
totals[g] = total;
if (shrink != 1)
  for (i64 c = 0; c < SIZE; c++) made[g * SIZE + c] *= shrink;
