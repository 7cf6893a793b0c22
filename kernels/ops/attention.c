// Writes into pages of a cache of keys and values, and attention over them; attention.cu has the
// attention of GPUs.
//
// `blocks` are pages of keys, part 0, and values, part 1, of all layers; pages of latent vectors have
// one part, and latent.c is their attention. Rows of new tokens lie one
// sequence after another: those of the sequence s from offsets[s] on. A sequence has lengths[s] tokens
// in the cache already, and its pages are in the row s of `table`. Whatever these say, no kernel leaves
// its memory: a number that is out of range ends the run.

// Rows with the new keys and values of one layer, PARTS of them side by side from COLUMN on.
// @op cache_store(inout blocks: T[pages, kinds, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[],
//   x: T[tokens, width])
// @types T: any
// @params PART: int; PARTS: int; COLUMN: int

// All rows have a place before the first one is written: a batch that does not fit changes nothing. On
// a GPU each block writes its row as soon as that has a place.
// @part check
// @items tokens
// @work 16
// @c
find_cached(i);
find_page(before + i - first);
(void)slot;
require_rows();

// @part copy
// @items tokens
// @work PARTS * heads * dim
// @c
const i64 many = heads * dim, token = i;
find_cached(token);
find_page(before + token - first);
for (i64 part = 0; part < PARTS; part++)
  __builtin_memcpy(blocks + place_among(kinds, PART + part),
                   x + token * width + COLUMN + part * many, (u64)many * sizeof *x);
// @cuda block threads=128
const i64 many = heads * dim, token = i;
find_cached(token);
find_page(before + token - first);
require_rows();
for (i64 c = threadIdx.x; c < PARTS * many; c += blockDim.x)
  blocks[place_among(kinds, PART + c / many) + c % many] = x[token * width + COLUMN + c];

// The keys or values of rows of new tokens, as they are in their pages.
// @op cache_load(blocks: T[pages, kinds, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[]) -> (y: T[tokens, heads, dim])
// @types T: any
// @params PART: int
// @items tokens
// @work heads * dim
// @c
const i64 many = heads * dim, token = i;
find_cached(token);
find_page(before + token - first);
__builtin_memcpy(y + token * many, blocks + place_among(kinds, PART), (u64)many * sizeof *y);
// @cuda block threads=128
const i64 many = heads * dim, token = i;
find_cached(token);
find_page(before + token - first);
for (i64 c = threadIdx.x; c < many; c += blockDim.x)
  y[token * many + c] = blocks[place_among(kinds, PART) + c];

// The sequence of each row.
// @op ragged_sequences(offsets: uint32[ends]) -> (y: int64[tokens])
// @sizes BATCH
// @items tokens
// @both work=8
const i64 batch = BATCH;
find_sequence(i);
(void)first;
store(y, i, seq);

// The softmax over keys is taken in one pass: TILE scores at a time, with the sums so far made smaller
// when a larger score comes. A thread takes the query heads, GROUP of them, that share a head of keys.
// @op cache_attention(blocks: T[pages, 2, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[],
//   q: T[tokens, wide, dim], stops: uint32[ends], sinks: T[wide]) -> (y: T[tokens, wide, dim])
// @types T: any
// @params MASK: str; WINDOW: int; SCALE: float; SINKS: bool; GROUP: int; TILE: int; BYTES: int;
//   POWER: int; PAGED: bool
// @items tokens * heads
// @work GROUP * page * dim
// @c scratch=BYTES
const i64 token = i / heads, head = i % heads;
find_cached(token);
see_keys();
attend(blocks, blocks);

// The same without a cache: keys and values are rows as the queries are. Where there are `known`, the
// rows of a sequence from known[s] on are not seen, and give 0.
// @op ragged_attention(q: T[tokens, wide, dim], left: T[tokens, heads, dim],
//   right: T[tokens, heads, dim], offsets: uint32[ends], known: uint32[batch]) -> (y: T[tokens, wide, dim])
// @types T: any
// @params MASK: str; WINDOW: int; SCALE: float; SINKS: bool; GROUP: int; TILE: int; BYTES: int;
//   POWER: int; PAGED: bool; KNOWN: bool
// @sizes BATCH
// @items tokens * heads
// @work GROUP * dim * 64
// @c scratch=BYTES
const i64 batch = BATCH, token = i / heads, head = i % heads;
find_sequence(token);
see_rows();
attend(left, right);

// The sequence of a row: the last one that begins at it or before. Sequences may be empty.
// @macro find_sequence(ROW)
i64 seq = 0;
for (i64 past = batch; past - seq > 1;) {
  const i64 middle = seq + (past - seq) / 2;
  if ((i64)load(offsets, middle) <= ROW) seq = middle;
  else past = middle;
}
if (batch < 1 || ROW >= (i64)load(offsets, seq + 1) || ROW < (i64)load(offsets, seq)) {
  refuse(ROW, (batch < 1 ? 0 : (i64)load(offsets, batch)));
  continue;
}
const i64 first = load(offsets, seq);

// The same of rows of a cache, and the tokens that are cached.
// @macro find_cached(ROW)
find_sequence(ROW);
if ((i64)load(layer, 0) >= layers) {
  refuse((i64)load(layer, 0), layers);
  continue;
}
const i64 before = load(lengths, seq);

// Raises unless the sequences end where the rows do.
// @macro require_rows()
if ((i64)load(offsets, batch) != tokens) {
  refuse((i64)load(offsets, batch), tokens + 1);
  break;
}

// The page of a position of the sequence, and the slot in it.
// @macro find_page(POSITION)
const i64 turn = (POSITION) / page, slot = (POSITION) % page;
if (turn >= most) {
  refuse((POSITION), most * page);
  break;
}
const i64 entry = load(table, seq * most + turn);
if (entry >= pages) {
  refuse(entry, pages);
  break;
}

// @macro place_of(WHICH) = place_among(2, WHICH)

// Where the slot begins in the part WHICH of the KINDS parts of a page.
// @macro place_among(KINDS, WHICH) =
//   ((((entry * (KINDS) + (WHICH)) * layers + (i64)load(layer, 0)) * page + slot) * heads * dim)

// How fast the score of a query head falls with the distance, where POWER is the greatest power of two
// that is not above the number of heads.
// @macro find_slope(HEAD)
const i64 nth = HEAD;
const f64 halvings =
    (nth < POWER ? 8.0 * (f64)(nth + 1) : 4.0 * (f64)(2 * (nth - POWER) + 1)) / POWER;
const T slope = mx_exp_T((T)(-0.69314718055994531 * halvings));

// The positions of the keys that a query sees: from begin to end.
// @macro see_keys()
const i64 position = before + token - first;
const i64 fresh = (i64)load(stops, seq + 1) - (i64)load(stops, seq);
const i64 there = before + (fresh > 0 ? fresh : 0);
see_some();

// @macro see_some()
const i64 own = position + 1 < there ? position + 1 : there;
// @if MASK == "null"
const i64 begin = 0, end = there;
// @elif MASK == "window"
const i64 begin = position + 1 > WINDOW ? position + 1 - WINDOW : 0, end = own;
// @elif MASK == "chunk"
const i64 begin = position / WINDOW * WINDOW, end = own;
// @else
const i64 begin = 0, end = own;
// @endif
(void)own;

// The same of the rows of a sequence.
// @macro see_rows()
const i64 rows = (i64)load(offsets, seq + 1) - first;
// @if KNOWN
const i64 fresh = (i64)load(known, seq) < rows ? (i64)load(known, seq) : rows;
// @else
const i64 fresh = rows;
// @endif
const i64 position = token - first < fresh ? token - first : -1, there = position < 0 ? 0 : fresh;
see_some();

// The softmax of a row, in the loop over its keys from begin to end.
// @macro attend(KEYS, VALUES)
T *const query = (T *)scratch, *const sums = query + GROUP * dim,
         *const scores = sums + GROUP * dim;
T *const tops = scores + TILE, *const totals = tops + GROUP;
const i64 mine = (token * wide + head * GROUP) * dim;
for (i64 c = 0; c < GROUP * dim; c++) query[c] = load(q, mine + c) * SCALE, sums[c] = 0;
for (i64 g = 0; g < GROUP; g++) {
  // @if SINKS
  tops[g] = load(sinks, head * GROUP + g), totals[g] = 1;
  // @else
  tops[g] = -__builtin_inff(), totals[g] = 0;
  // @endif
}
for (i64 at = begin; at < end;) {
  // @if PAGED
  find_page(at);
  i64 some = page - slot < TILE ? page - slot : TILE;
  const i64 keys = place_of(0) + head * dim, values = place_of(1) + head * dim,
            step = heads * dim;
  // @else
  i64 some = TILE;
  const i64 keys = ((first + at) * heads + head) * dim, values = keys, step = heads * dim;
  // @endif
  if (some > end - at) some = end - at;
  for (i64 g = 0; g < GROUP; g++) {
    T top = tops[g];
    // @if MASK == "alibi"
    find_slope(head * GROUP + g);
    // @endif
    for (i64 k = 0; k < some; k++) {
      T score = 0;
      #pragma omp simd reduction(+ : score)
      for (i64 c = 0; c < dim; c++) score += query[g * dim + c] * load(KEYS, keys + k * step + c);
      // @if MASK == "alibi"
      score -= slope * (T)(position - at - k);
      // @endif
      scores[k] = score;
      top = score > top ? score : top;
    }
    const T less = top == -__builtin_inff() ? 0 : top, shrink = mx_exp_T(tops[g] - less);
    T total = totals[g] * shrink;
    tops[g] = top;
    for (i64 k = 0; k < some; k++) scores[k] = mx_exp_T(scores[k] - less), total += scores[k];
    totals[g] = total;
    #pragma omp simd
    for (i64 c = 0; c < dim; c++) sums[g * dim + c] *= shrink;
    for (i64 k = 0; k < some; k++) {
      const T weight = scores[k];
      #pragma omp simd
      for (i64 c = 0; c < dim; c++)
        sums[g * dim + c] += weight * load(VALUES, values + k * step + c);
    }
  }
  at += some;
}
for (i64 g = 0; g < GROUP; g++)
  for (i64 c = 0; c < dim; c++)
    store(y, mine + g * dim + c, totals[g] == 0 ? 0 : sums[g * dim + c] / totals[g]);
