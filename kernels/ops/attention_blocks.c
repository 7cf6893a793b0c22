// Attention over pages of a cache, or over rows, on CPUs, computed in float32; attention.c says what
// the operands are, and has the same for float64.
//
// Of up to 15 rows each is taken by itself. Its keys are cut into chunks that depend on nothing but
// their number, so that a row gives the same in any batch, and shared out among threads: one sequence
// then has more than one. What a chunk gives is its largest score, the sum of its weights and the
// weighted sum of its values; they become one in the order of chunks.
//
// Heads of keys lie side by side, and a thread takes up to TOGETHER of them at once: it reads memory
// from one end to the other then, which is three times as fast as with gaps.
//
// More rows are taken in blocks of ROWS, GROUP query heads of each at once, sequence by sequence;
// the only row of a sequence in a block is again taken by itself. A block goes along its keys, KEYS
// at a time: its queries lie side by side, as lanes of vectors (lanes.c), keys and values are read where they
// are, and scores never go to memory. Such single rows are items of their own, shared out among those of the
// heads that are taken at once. LANES is room for the queries, LINE how far the scores of keys are apart, WIDE
// the elements of a sum.

// @use attention.c

// @op cache_attention_blocks(blocks: T[pages, 2, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[],
//   q: T[tokens, wide, dim], stops: uint32[ends], sinks: T[wide]) -> (y: T[tokens, wide, dim])
// @types T: float32 | float16 | bfloat16
// @params MASK: str; WINDOW: int; SCALE: float; SINKS: bool; GROUP: int; POWER: int; PAGED: bool;
//   ROWS: int; KEYS: int; CHUNK: int; LANES: int; LINE: int; WIDE: int; IN_PLACE: bool; ROOM: int; BYTES: int;
//   WHOLE: bool; BESIDE: int; SLICE: int; TOGETHER: int; SINGLES: int
// @temp parts: float32[ROOM]
// @part attend
// @work GROUP * dim * CHUNK
// @c scratch=BYTES
attend_items(blocks, blocks);
// @part join
// @work GROUP * dim
// @c
join_chunks();

// The same without a cache: keys and values are rows as the queries are.
// @op ragged_attention_blocks(q: T[tokens, wide, dim], left: T[tokens, heads, dim],
//   right: T[tokens, heads, dim], offsets: uint32[ends], known: uint32[batch]) -> (y: T[tokens, wide, dim])
// @types T: float32 | float16 | bfloat16
// @params MASK: str; WINDOW: int; SCALE: float; SINKS: bool; GROUP: int; POWER: int; PAGED: bool;
//   ROWS: int; KEYS: int; CHUNK: int; LANES: int; LINE: int; WIDE: int; IN_PLACE: bool; ROOM: int; BYTES: int;
//   WHOLE: bool; BESIDE: int; SLICE: int; TOGETHER: int; SINGLES: int; KNOWN: bool
// @sizes BATCH
// @temp parts: float32[ROOM]
// @part attend
// @work GROUP * dim * CHUNK
// @c scratch=BYTES
const i64 batch = BATCH;
attend_items(left, right);
// @part join
// @work GROUP * dim
// @c
const i64 batch = BATCH;
join_chunks();

// In how many parts the keys of each row are taken; 0: rows are taken in blocks.
// @macro SPLITS = (tokens < 16 ? 32 / (tokens + 1) : 0)

// The sequence of a row.
// @macro find_row(ROW)
// @if PAGED
find_cached(ROW);
// @else
find_sequence(ROW);
// @endif

// The keys that the row `token` sees.
// @macro find_seen()
// @if PAGED
see_keys();
// @else
see_rows();
// @endif

// How the keys of a row are cut, and among how many threads they are shared.
// @macro cut_keys()
const i64 splits = SPLITS;
const i64 length = end > begin ? end - begin : 0;
const i64 each = length > 16 * CHUNK ? (length + 16 * CHUNK - 1) / (16 * CHUNK) * CHUNK : CHUNK;
const i64 chunks = (length + each - 1) / each;
const int alone = splits < 2 || chunks < 2;

// What a chunk gives, in the parts of all: the sums first, then the largest score and the total.
// @macro part_of(CHUNK_NUMBER, HEAD) = ((token * 16 + (CHUNK_NUMBER)) * wide + (HEAD) * GROUP) * (dim + 2)

// @macro begin_weights(COUNT, TOPS, TOTALS)
for (i64 g = 0; g < COUNT; g++) {
  // @if SINKS
  TOPS[g] = load(sinks, head * GROUP + g), TOTALS[g] = 1;
  // @else
  TOPS[g] = -__builtin_inff(), TOTALS[g] = 0;
  // @endif
}

// @macro begin_row(COUNT, TOPS, TOTALS, SUMS)
begin_weights(COUNT, TOPS, TOTALS);
for (i64 c = 0; c < COUNT * dim; c++) SUMS[c] = 0;

// Takes the sums of a chunk into those of all before.
// @macro add_chunk(COUNT, TOP, TOTAL, SUM)
for (i64 g = 0; g < COUNT; g++) {
  const f32 top = TOP > tops[g] ? TOP : tops[g], less = top == -__builtin_inff() ? 0 : top;
  const f32 old = mx_exp_f32(tops[g] - less), new = mx_exp_f32(TOP - less);
  tops[g] = top, totals[g] = totals[g] * old + TOTAL * new;
  #pragma omp simd
  for (i64 c = 0; c < dim; c++) sums[g * dim + c] = sums[g * dim + c] * old + SUM * new;
}

// @macro store_row(COUNT)
for (i64 g = 0; g < COUNT; g++) {
  const f32 by = totals[g] == 0 ? 0 : 1 / totals[g];
  for (i64 c = 0; c < dim; c++)
    store(y, (token * wide + head * GROUP + g) * dim + c, sums[g * dim + c] * by);
}

// @macro attend_items(LEFT, RIGHT)
const i64 units = tokens * SPLITS;
if (i / heads < units) {
  const i64 head = i % heads;
  attend_chunks(LEFT, RIGHT);
} else if (units == 0) {
  find_place();
  const i64 head = is_block ? place % heads : place % SINGLES % (heads / TOGETHER) * TOGETHER;
  attend_block(LEFT, RIGHT);
}

// Of which block the item is: one with the rows of prompts for a head, or one with single rows. Two threads
// begin with a half of the items each: a half has every second of the former, which take longest, and then as
// many of the latter.
// @macro find_place()
const i64 large = (tokens + ROWS - 1) / ROWS * heads, items = large + large / heads * SINGLES;
const i64 half = (items + 1) / 2, is_second = i >= half, nth = is_second ? i - half : i;
const i64 enough_large = (large + !is_second) / 2, is_block = nth < enough_large;
const i64 place = is_block ? 2 * nth + is_second
                           : nth - enough_large + (is_second ? half - (large + 1) / 2 : 0);

// Some chunks of a row, or all of them, for this item and those that follow it.
// @macro attend_chunks(LEFT, RIGHT)
const i64 token = i / heads / SPLITS, split = i / heads % SPLITS;
const i64 rest = TOGETHER - head % TOGETHER, many = rest < hi - i ? rest : hi - i;
find_row(token);
attend_row(LEFT, RIGHT);
i += many - 1;

// The same, of the row `token`, whose sequence is found, for `many` heads of keys.
// @macro attend_row(LEFT, RIGHT)
find_seen();
cut_keys();
if (alone && split) continue;
const i64 asking = many * GROUP;
f32 *const query = (f32 *)scratch, *const sums = query + TOGETHER * GROUP * dim;
f32 *const fresh_sums = sums + TOGETHER * GROUP * dim;
f32 *const scores = fresh_sums + TOGETHER * GROUP * dim;
f32 *const lines = scores + TOGETHER * GROUP * CHUNK;
f32 tops[TOGETHER * GROUP], totals[TOGETHER * GROUP];
f32 fresh_tops[TOGETHER * GROUP], fresh_totals[TOGETHER * GROUP];
(void)lines;
for (i64 c = 0; c < asking * dim; c++)
  query[c] = load(q, (token * wide + head * GROUP) * dim + c) * SCALE;
if (alone) { begin_row(asking, tops, totals, sums); }
const i64 last = alone ? chunks : chunks * (split + 1) / splits;
for (i64 chunk = alone ? 0 : chunks * split / splits; chunk < last; chunk++) {
  const i64 stop = begin + (chunk + 1) * each < end ? begin + (chunk + 1) * each : end;
  for (i64 g = 0; g < asking; g++) fresh_tops[g] = -__builtin_inff(), fresh_totals[g] = 0;
  for (i64 c = 0; c < asking * dim; c++) fresh_sums[c] = 0;
  for (i64 at = begin + chunk * each; at < stop;) {
    attend_piece(LEFT, RIGHT);
    at += some;
  }
  if (alone) {
    add_chunk(asking, fresh_tops[g], fresh_totals[g], fresh_sums[g * dim + c]);
  } else {
    for (i64 h = 0; h < many; h++) {
      f32 *const part = parts + part_of(chunk, head + h);
      for (i64 c = 0; c < GROUP * dim; c++) part[c] = fresh_sums[h * GROUP * dim + c];
      for (i64 g = 0; g < GROUP; g++) {
        part[GROUP * dim + g] = fresh_tops[h * GROUP + g];
        part[GROUP * (dim + 1) + g] = fresh_totals[h * GROUP + g];
      }
    }
  }
}
if (alone) { store_row(asking); }

// Keys of a row that lie side by side, CHUNK at most.
// @macro attend_piece(LEFT, RIGHT)
// @if PAGED
find_page(at);
i64 some = page - slot < CHUNK ? page - slot : CHUNK;
const i64 keys = place_of(0) + head * dim, values = place_of(1) + head * dim;
// @else
i64 some = CHUNK;
const i64 keys = ((first + at) * heads + head) * dim, values = keys;
// @endif
if (some > stop - at) some = stop - at;
// @if T == float32
const f32 *const left_lines = LEFT + keys, *const right_lines = RIGHT + values;
const i64 step = heads * dim;
// @else
const f32 *const left_lines = lines, *const right_lines = lines;
const i64 step = many * dim;
for (i64 k = 0; k < some; k++)
  #pragma omp simd
  for (i64 c = 0; c < step; c++) lines[k * step + c] = load(LEFT, keys + k * heads * dim + c);
// @endif
i64 k = 0;
// @if WHOLE
for (; k + 4 <= some; k += 4) { score_four(); }
// @endif
for (; k < some; k++)
  for (i64 g = 0; g < asking; g++)
    scores[g * CHUNK + k] =
        mx_dot_f32(query + g * dim, left_lines + k * step + g / GROUP * dim, dim);
// @if T != float32
for (i64 k = 0; k < some; k++)
  #pragma omp simd
  for (i64 c = 0; c < step; c++) lines[k * step + c] = load(RIGHT, values + k * heads * dim + c);
// @endif
for (i64 g = 0; g < asking; g++) {
  f32 *const line = scores + g * CHUNK, *const sum = fresh_sums + g * dim;
  // @if MASK == "alibi"
  find_slope(head * GROUP + g);
  for (i64 k = 0; k < some; k++) line[k] -= slope * (f32)(position - at - k);
  // @endif
  f32 top = mx_row_max_f32(line, some);
  top = fresh_tops[g] > top ? fresh_tops[g] : top;
  const f32 less = top == -__builtin_inff() ? 0 : top, shrink = mx_exp_f32(fresh_tops[g] - less);
  fresh_tops[g] = top;
  #pragma omp simd
  for (i64 k = 0; k < some; k++) line[k] = mx_exp_quick_f32(line[k] - less);
  fresh_totals[g] = fresh_totals[g] * shrink + mx_row_sum_f32(line, some);
  #pragma omp simd
  for (i64 c = 0; c < dim; c++) sum[c] *= shrink;
}
// @if WHOLE
for (i64 g = 0; g < asking; g += BESIDE)
  for (i64 c = 0; c < dim; c += SLICE) { add_slice(); }
// @else
for (i64 g = 0; g < asking; g++)
  for (i64 e = 0; e < some; e++)
    #pragma omp simd
    for (i64 c = 0; c < dim; c++)
      fresh_sums[g * dim + c] +=
          scores[g * CHUNK + e] * right_lines[e * step + g / GROUP * dim + c];
// @endif

// The scores of four keys, of BESIDE queries at a time: sums of products, of which four at once
// become one number each. Their values come into the second cache meanwhile, and the keys that follow.
// @macro score_four()
for (i64 e = 0; e < 4; e++)
  for (i64 c = 0; c < many * dim; c += 16) {
    __builtin_prefetch(right_lines + (k + e) * step + c, 0, 2);
    __builtin_prefetch(left_lines + (k + e + 8) * step + c, 0, 2);
  }
for (i64 g = 0; g < asking; g += BESIDE) {
  const f32 *const asked = left_lines + g / GROUP * dim;
  mx_v16 a[BESIDE][4];
  unrolled(n, BESIDE) unrolled(e, 4) a[n][e] = (mx_v16){0};
  _Pragma("GCC unroll 8") for (i64 c = 0; c < dim; c += 16) {
    mx_v16 key[4];
    unrolled(e, 4) key[e] = *(const mx_v16 *)(asked + (k + e) * step + c);
    unrolled(n, BESIDE) {
      const mx_v16 one = *(const mx_v16 *)(query + (g + n) * dim + c);
      unrolled(e, 4) a[n][e] += one * key[e];
    }
  }
  unrolled(n, BESIDE) {
    const mx_v16 ab = MX_SHUFFLE(mx_m16, a[n][0], a[n][1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19,
                                 20, 21, 22, 23) +
                      MX_SHUFFLE(mx_m16, a[n][0], a[n][1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25,
                                 26, 27, 28, 29, 30, 31);
    const mx_v16 cd = MX_SHUFFLE(mx_m16, a[n][2], a[n][3], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19,
                                 20, 21, 22, 23) +
                      MX_SHUFFLE(mx_m16, a[n][2], a[n][3], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25,
                                 26, 27, 28, 29, 30, 31);
    mx_v16 all =
        MX_SHUFFLE(mx_m16, ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
        MX_SHUFFLE(mx_m16, ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    all += MX_SHUFFLE(mx_m16, all, all, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    all += MX_SHUFFLE(mx_m16, all, all, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    all = MX_SHUFFLE(mx_m16, all, all, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    __builtin_memcpy(scores + (g + n) * CHUNK + k, &all, 16);
  }
}

// Adds values by their weights, SLICE elements of them to the sums of BESIDE queries at a time.
// @macro add_slice()
mx_v16 a[BESIDE][SLICE / 16];
unrolled(n, BESIDE) unrolled(v, SLICE / 16) a[n][v] =
    *(const mx_v16 *)(fresh_sums + (g + n) * dim + c + 16 * v);
for (i64 e = 0; e < some; e++) {
  const f32 *const from = right_lines + e * step + g / GROUP * dim + c;
  mx_v16 value[SLICE / 16];
  unrolled(v, SLICE / 16) value[v] = *(const mx_v16 *)(from + 16 * v);
  unrolled(n, BESIDE) unrolled(v, SLICE / 16) a[n][v] += value[v] * scores[(g + n) * CHUNK + e];
}
unrolled(n, BESIDE) unrolled(v, SLICE / 16) *
    (mx_v16 *)(fresh_sums + (g + n) * dim + c + 16 * v) = a[n][v];

// @macro unrolled(N, COUNT) = _Pragma("GCC unroll 8") for (i64 N = 0; N < COUNT; N++)

// What the chunks of a row give together, where several threads took them.
// @macro join_chunks()
const i64 token = i / heads, head = i % heads;
if (token >= tokens) continue;
find_row(token);
find_seen();
cut_keys();
if (alone) continue;
f32 sums[GROUP * dim], tops[GROUP], totals[GROUP];
begin_row(GROUP, tops, totals, sums);
for (i64 chunk = 0; chunk < chunks; chunk++) {
  const f32 *const part = parts + part_of(chunk, head);
  add_chunk(GROUP, part[GROUP * dim + g], part[GROUP * (dim + 1) + g], part[g * dim + c]);
}
store_row(GROUP);

// A block of rows: those of one sequence after those of another. Blocks are counted from the end, where
// prompts are in a batch that begins with single rows. Each has an item for each head, which takes all
// sequences with several rows, and SINGLES items with a part of its single rows each, for TOGETHER heads.
// @macro attend_block(LEFT, RIGHT)
f32 *const query = (f32 *)scratch, *const queries = query + LANES * dim;
f32 *const sums = queries + LANES * dim, *const scores = sums + ROWS * GROUP * WIDE;
f32 *const left_lines = scores + KEYS * LINE, *const right_lines = left_lines + KEYS * dim;
f32 tops[LANES], totals[LANES], fades[LANES];
i64 lows[ROWS], highs[ROWS], places[ROWS], singles = 0;
(void)left_lines, (void)right_lines;
const i64 turns = SINGLES / (heads / TOGETHER), turn_of = place % SINGLES / (heads / TOGETHER);
const i64 enough =
    tokens - place / (is_block ? heads : SINGLES) * ROWS;  // the last rows first: they see most
for (i64 row = enough > ROWS ? enough - ROWS : 0, next; row < enough; row = next) {
  next = row + 1;
  find_row(row);
  next = (i64)load(offsets, seq + 1) < enough ? (i64)load(offsets, seq + 1) : enough;
  if ((next - row == 1) == is_block) continue;
  if (!is_block) {  // it gives what it gives by itself, with the heads of keys beside it
    if (singles++ % turns == turn_of) {
      const i64 token = row, split = 0, many = TOGETHER;
      attend_row(LEFT, RIGHT);
    }
    continue;
  }
  const i64 count = (next - row) * GROUP, panels = (count + 31) / 32,
            lanes = (count + 15) / 16 * 16;
  i64 low = -1, high = 0;
  for (i64 token = row; token < next; token++) {
    find_seen();
    const i64 r = token - row;
    lows[r] = begin, highs[r] = end, places[r] = position;
    if (begin < end) low = low < 0 || begin < low ? begin : low, high = end > high ? end : high;
    for (i64 c = 0; c < GROUP * dim; c++)
      query[r * GROUP * dim + c] = load(q, (token * wide + head * GROUP) * dim + c) * SCALE;
    f32 *const top = tops + r * GROUP, *const total = totals + r * GROUP;
    begin_weights(GROUP, top, total);
  }
  for (i64 c = count * dim; c < panels * 32 * dim; c++) query[c] = 0;
  for (i64 n = count; n < lanes; n++) tops[n] = 0, totals[n] = 0;
  for (i64 c = 0; c < count * WIDE; c++) sums[c] = 0;
  ctx->lib->pack_b_f32(queries, query, dim, panels * 32, 1, dim, 0, panels);
  for (i64 at = low < 0 ? high : low; at < high; at += KEYS) {
    const i64 some = high - at < KEYS ? high - at : KEYS;
    if (mx_stop(ctx)) return MX_STOPPED;
    for (i64 k = 0, run; k < some; k += run) {
      find_run(LEFT, RIGHT);
      // @if not IN_PLACE
      make_lines(LEFT, RIGHT);
      // @endif
      find_soon(LEFT);
      ctx->lib->lane_scores(scores + k * LINE, LINE, near_keys, step, run, queries, lanes, dim,
                            near_values, soon);
    }
    hide_keys();
    ctx->lib->lane_weights(scores, LINE, some, lanes, tops, totals, fades);
    for (i64 n = 0; n < count; n++)
      if (fades[n] != 1)
        #pragma omp simd
        for (i64 c = 0; c < WIDE; c++) sums[n * WIDE + c] *= fades[n];
    for (i64 k = 0, run; k < some; k += run) {
      find_run(LEFT, RIGHT);
      ctx->lib->lane_sums(sums, WIDE, scores + k * LINE, LINE, near_values, across, run, count,
                          WIDE);
    }
  }
  for (i64 n = 0; n < count; n++) {
    const f32 by = totals[n] == 0 ? 0 : 1 / totals[n];
    const i64 to = ((row + n / GROUP) * wide + head * GROUP + n % GROUP) * dim;
    for (i64 c = 0; c < dim; c++) store(y, to + c, sums[n * WIDE + c] * by);
  }
}

// Keys that lie side by side from the position `at + k` on, and their values: where they are, or as lines of
// float32 with zeros behind the values.
// @macro find_run(LEFT, RIGHT)
// @if PAGED
find_page(at + k);
run = page - slot < some - k ? page - slot : some - k;
const i64 keys = place_of(0) + head * dim, values = place_of(1) + head * dim;
// @else
run = some - k;
const i64 keys = ((first + at + k) * heads + head) * dim, values = keys;
// @endif
// @if IN_PLACE
const f32 *const near_keys = LEFT + keys, *const near_values = RIGHT + values;
const i64 step = heads * dim, across = step;
// @else
f32 *const near_keys = left_lines + k * dim, *const near_values = right_lines + k * WIDE;
const i64 step = dim, across = WIDE;
// @endif

// @macro make_lines(LEFT, RIGHT)
for (i64 e = 0; e < run; e++) {
  const i64 key = keys + e * heads * dim, value = values + e * heads * dim;
  for (i64 c = 0; c < dim; c += 64 / (i64)sizeof *LEFT) {
    __builtin_prefetch(LEFT + key + 8 * heads * dim + c, 0, 2);
    __builtin_prefetch(RIGHT + value + 8 * heads * dim + c, 0, 2);
  }
  #pragma omp simd
  for (i64 c = 0; c < dim; c++) near_keys[e * dim + c] = load(LEFT, key + c);
  #pragma omp simd
  for (i64 c = 0; c < dim; c++) near_values[e * WIDE + c] = load(RIGHT, value + c);
  for (i64 c = dim; c < WIDE; c++) near_values[e * WIDE + c] = 0;
}

// Where the keys behind a run are, if there are some.
// @macro find_soon(LEFT)
const f32 *soon = near_keys;
// @if IN_PLACE and PAGED
const i64 after = (at + k + run) / page;
if (at + k + run < high && after < most) {
  const i64 entry = load(table, seq * most + after), slot = 0;
  soon = LEFT + place_of(0) + head * dim;
}
// @endif

// Lets the rows of the block not see the keys that they do not see.
// @macro hide_keys()
// @if MASK == "alibi"
f32 slopes[LANES], from_here[LANES];
for (i64 n = 0; n < count; n++) {
  find_slope(head * GROUP + n % GROUP);
  slopes[n] = slope, from_here[n] = (f32)(places[n / GROUP] - at);
}
for (i64 k = 0; k < some; k++)
  #pragma omp simd
  for (i64 n = 0; n < count; n++) scores[k * LINE + n] -= slopes[n] * (from_here[n] - (f32)k);
// @endif
for (i64 r = 0; r < next - row; r++) {
  i64 from = lows[r] - at < some ? lows[r] - at : some, to = highs[r] - at;
  from = from > 0 ? from : 0;
  to = to > from ? to : from;
  for (i64 k = 0; k < from; k++)
    for (i64 g = 0; g < GROUP; g++) scores[k * LINE + r * GROUP + g] = -__builtin_inff();
  for (i64 k = to; k < some; k++)
    for (i64 g = 0; g < GROUP; g++) scores[k * LINE + r * GROUP + g] = -__builtin_inff();
}
(void)places;
