// Products of ragged rows with the matrices of adapters of low rank (LoRA).
//
// Rows lie in groups, each of one adapter: those of the group g from bounds[g] on. The adapter -1 is the
// base, and a row of no group is one of the base as well: no matrix is read for it. `w` has a matrix for
// each adapter, of which ranks[g] rows or columns count, as CUT says; the others may hold anything. A number
// that is out of range ends the run.

// @use attention.c

// Each row times the transposed matrix of its adapter, from the column COLUMN of the row and the row ROW of
// the matrix on, plus the bias of the adapter; 0 for rows of the base. Where CUT is "rows", the matrix is
// PARTS matrices, of each of which the first rows count. An item of the CPU is a tile of ROWS rows and CHUNK
// outputs; MANY neighbouring rows or more of one adapter, of several groups too, are computed together, the
// lanes of a vector being the rows.
// @op lora_product(x: T[tokens, width], w: T[slots, many, depth], ids: int32[groups],
//   ranks: uint32[groups], bounds: uint32[stops], bias: T[slots, many]) -> (y: T[tokens, out])
// @types T: any
// @params CUT: str; PARTS: int; COLUMN: int; ROW: int; BIAS: bool; CHUNK: int; LONG: bool; ROWS: int;
//   MANY: int; BLOCK: int; BYTES: int
// @items ((tokens + ROWS - 1) // ROWS) * ((out + CHUNK - 1) // CHUNK)
// @work ROWS * CHUNK * depth
// @c scratch=BYTES
find_outputs();
i64 run = 1;
for (i64 token = top; token < bottom; token += run) {
  run = 1;
  find_adapter(token, largest_rank);
  if (adapter < 0) {
    for (i64 o = begin; o < end; o++) store(y, token * out + o, (T)0);
    continue;
  }
  const i64 matrix = (adapter * many + ROW) * depth;
  i64 past = load(bounds, group + 1);
  for (i64 g = group + 1; g < groups && past < bottom; g++) {
    if (load(ids, g) != adapter || (i64)load(ranks, g) != rank) break;
    past = load(bounds, g + 1);
  }
  run = (past < bottom ? past : bottom) - token;
  if (run < 1) run = 1;
  if (run < MANY) few_rows();
  else many_rows();
}
// @cuda block threads=128
find_outputs();
const i64 token = top, mine = token * width + COLUMN;
find_adapter(token, largest_rank);
// @if LONG
const i64 lane = threadIdx.x & 31, own = threadIdx.x >> 5, stride = blockDim.x >> 5, lanes = 32;
// @else
const i64 lane = 0, own = threadIdx.x, stride = blockDim.x, lanes = 1;
// @endif
for (i64 o = begin + own; o < end; o += stride) {
  T sum = 0;
  if (adapter >= 0) {
    const i64 row = (adapter * many + ROW + o) * depth, count = depth_of(ROW + o);
    for (i64 k = lane; k < count; k += lanes) sum += load(x, mine + k) * load(w, row + k);
    // @if LONG
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(MX_FULL_WARP, sum, step);
    // @endif
    add_bias(ROW + o);
  }
  if (lane == 0) store(y, token * out + o, sum);
}

// The same, added to the keys, part 0, or the values, part 1, of the rows in the pages of a cache; what a row
// of the base has there is not touched. With PARTS of 2 the columns and the matrices of values lie behind
// those of keys.
// @op cache_add_lora(inout blocks: T[pages, 2, layers, page, heads, dim], offsets: uint32[ends],
//   lengths: uint32[batch], table: uint32[batch, most], layer: uint32[], x: T[tokens, width],
//   w: T[slots, many, depth], ids: int32[groups], ranks: uint32[groups], bounds: uint32[stops],
//   bias: T[slots, many])
// @types T: any
// @params CUT: str; PART: int; PARTS: int; COLUMN: int; ROW: int; BIAS: bool

// All rows have a place before the first one is changed: a batch that does not fit changes nothing. On
// a GPU each block changes its row as soon as that has a place.
// @part check
// @items tokens
// @work 16
// @c
find_adapter(i, depth);
if (adapter < 0) continue;
find_cached(i);
find_page(before + i - first);
(void)slot;
require_rows();

// @part add
// @items tokens * PARTS * heads
// @work dim * depth
// @c
find_added();
for (i64 c = 0; c < dim; c++) {
  T sum = 0;
  const i64 row = (adapter * many + from + c) * depth;
  #pragma omp simd reduction(+ : sum)
  for (i64 k = 0; k < rank; k++) sum += load(x, mine + k) * load(w, row + k);
  add_bias(from + c);
  store(blocks, place + c, load(blocks, place + c) + sum);
}
// @cuda block threads=128
find_added();
for (i64 c = threadIdx.x; c < dim; c += blockDim.x) {
  T sum = 0;
  const i64 row = (adapter * many + from + c) * depth;
  for (i64 k = 0; k < rank; k++) sum += load(x, mine + k) * load(w, row + k);
  add_bias(from + c);
  store(blocks, place + c, load(blocks, place + c) + sum);
}

// The adapter of a row, -1 for the base, and its rank.
// @macro find_adapter(TOKEN, LARGEST)
i64 group = 0, adapter = -1, rank = 0;
for (i64 past = groups; past - group > 1;) {
  const i64 middle = group + (past - group) / 2;
  if ((i64)load(bounds, middle) <= TOKEN) group = middle;
  else past = middle;
}
if (groups > 0 && TOKEN >= (i64)load(bounds, group) && TOKEN < (i64)load(bounds, group + 1))
  adapter = load(ids, group), rank = load(ranks, group);
if (adapter < -1 || adapter >= slots) {
  refuse(adapter, slots);
  continue;
}
if (adapter >= 0 && rank > LARGEST) {
  refuse(rank, LARGEST + 1);
  continue;
}

// @macro largest_rank = (many / PARTS) if CUT == "rows" else depth if CUT == "columns" else rank
// @macro depth_of(AT) = ((AT) % (many / PARTS) < rank ? depth : 0) if CUT == "rows" else
//   rank if CUT == "columns" else depth
// @macro deepest_row = rank if CUT == "columns" else depth

// The rows of an item from top to bottom, and the outputs from begin to end that it computes.
// @macro find_outputs()
const i64 chunks = (out + CHUNK - 1) / CHUNK, top = i / chunks * ROWS, begin = i % chunks * CHUNK;
const i64 bottom = top + ROWS < tokens ? top + ROWS : tokens;
const i64 end = begin + CHUNK < out ? begin + CHUNK : out;
(void)bottom;

// The outputs of `run` rows, one product of a row and a row of the matrix after the other.
// @macro few_rows()
for (i64 r = token; r < token + run; r++)
  for (i64 o = begin; o < end; o++) {
    const i64 count = depth_of(ROW + o), mine = r * width + COLUMN, row = matrix + o * depth;
    T sum = 0;
    #pragma omp simd reduction(+ : sum)
    for (i64 k = 0; k < count; k++) sum += load(x, mine + k) * load(w, row + k);
    add_bias(ROW + o);
    store(y, r * out + o, sum);
  }

// The outputs of `run` rows, four at once. The rows are first laid out column by column, BLOCK columns at a
// time.
// @macro many_rows()
{
  typedef T lanes __attribute__((vector_size(ROWS * sizeof(T)), aligned(sizeof(T)), may_alias));
  lanes *const columns = (lanes *)scratch, *const sums = columns + BLOCK, zero = {0};
  for (i64 o = 0; o < CHUNK; o++) sums[o] = zero;
  const i64 deepest = deepest_row;
  for (i64 k0 = 0; k0 < deepest; k0 += BLOCK) {
    const i64 some = deepest - k0 < BLOCK ? deepest - k0 : BLOCK;
    for (i64 k = 0; k < some; k++) columns[k] = zero;
    for (i64 r = 0; r < run; r++) {
      T *const lane = (T *)scratch + r;
      const i64 mine = (token + r) * width + COLUMN + k0;
      for (i64 k = 0; k < some; k++) lane[k * ROWS] = load(x, mine + k);
    }
    for (i64 o = begin; o < end; o += 4) {
      lanes s0 = sums[o - begin], s1 = sums[o - begin + 1], s2 = sums[o - begin + 2],
            s3 = sums[o - begin + 3];
      const i64 r0 = matrix + o * depth + k0;
      const i64 r1 = o + 1 < end ? r0 + depth : r0, r2 = o + 2 < end ? r0 + 2 * depth : r0,
                r3 = o + 3 < end ? r0 + 3 * depth : r0;
      for (i64 k = 0; k < some; k++) {
        const lanes column = columns[k];
        s0 += column * load(w, r0 + k);
        s1 += column * load(w, r1 + k);
        s2 += column * load(w, r2 + k);
        s3 += column * load(w, r3 + k);
      }
      sums[o - begin] = s0, sums[o - begin + 1] = s1, sums[o - begin + 2] = s2,
               sums[o - begin + 3] = s3;
    }
  }
  for (i64 r = 0; r < run; r++)
    for (i64 o = begin; o < end; o++) {
      T sum = depth_of(ROW + o) ? ((T *)(sums + (o - begin)))[r] : (T)0;
      add_bias(ROW + o);
      store(y, (token + r) * out + o, sum);
    }
}

// The row and the head of an item, and where its keys or values are. A row of the base is done then.
// @macro find_added()
const i64 token = i / (PARTS * heads), part = i / heads % PARTS, head = i % heads;
find_adapter(token, depth);
if (adapter < 0) continue;
find_cached(token);
find_page(before + token - first);
const i64 place = place_of(PART + part) + head * dim, from = ROW + (part * heads + head) * dim;
const i64 mine = token * width + COLUMN + part * depth;

// @macro add_bias(AT)
// @if BIAS
sum += load(bias, adapter * many + AT);
// @endif
