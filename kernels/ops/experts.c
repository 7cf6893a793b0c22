// Mixtures of experts on the CPU: the groups of rows that experts take, and the products of a group
// with the matrix of its expert.
//
// Rows of one expert lie one after the other, and are a *group*. Those of the group g go from starts[g]
// to starts[g + 1], and experts[g] is its expert. `usage` has the rows of the largest group, and the
// number of groups that have rows, which come first. Whatever these say, no kernel leaves its memory: a
// number that is out of range ends the run.

// A stable counting sort: rows of one expert keep their order.
// @op expert_indices(ids: E[tokens]) -> (order: uint32[tokens], starts: uint32[ends],
//   restore: uint32[tokens], experts: int32[groups], usage: uint32[2])
// @types E: int32 | int64 | uint32
// @temp places: uint32[groups]
// @items 1
// @work 8 * tokens
// @c serial
for (i64 e = 0; e < groups; e++) places[e] = 0;
along(row, 0, tokens, 262144) {
  const i64 expert = load(ids, row);
  if (expert < 0 || expert >= groups) refuse(expert, groups);
  places[expert]++;
}
u32 first = 0, most = 0;
i64 active = 0;
for (i64 e = 0; e < groups; e++) {
  const u32 many = places[e];
  if (!many) continue;
  starts[active] = places[e] = first;
  experts[active++] = (i32)e;
  first += many;
  most = many > most ? many : most;
}
usage[0] = most;
usage[1] = (u32)active;
for (; active < groups; active++) starts[active] = first, experts[active] = -1;
starts[groups] = first;
along(row, 0, tokens, 262144) {
  const u32 place = places[load(ids, row)]++;
  order[place] = (u32)row;
  restore[row] = place;
}

// A thread makes COLUMNS columns of a group, by the library of products: of the matrices `packed` when
// the model was loaded, or, where they are not known by then, of those columns, which it packs first.
// Packed matrices lie side by side as the columns of one, so that columns of an expert may begin in the
// middle of a panel: SKIP then is how far, and the tile is copied. Where they never do (WHOLE), products
// of float32 write the result themselves.
// @op grouped_product(x: T[rows, k], w: T[count, n, k], starts: uint32[ends], experts: int32[groups],
//   usage: uint32[2]) -> (y: T[rows, n])
// @types T: float32 | float16 | bfloat16
// @params PACKED: bool; WHOLE: bool; KIND: int; COLUMNS: int; PANEL: int; WIDTH: int; ROWS: int;
//   TILE: int; WIDENED: int
// @sizes CHUNKS; DEPTH
// @part product
// @c
const i64 g = i / CHUNKS, c0 = i % CHUNKS * COLUMNS, c1 = n - c0 < COLUMNS ? n : c0 + COLUMNS;
find_group();
if (expert < 0) {
  for (i64 r = first; r < last; r++)
    __builtin_memset(y + r * n + c0, 0, (u64)(c1 - c0) * sizeof *y);
  continue;
}
f32 *const tile = (f32 *)scratch;
char *const widened = (char *)(tile + TILE);
(void)tile, (void)widened;
// @if PACKED
const i64 column = expert * n + c0, skip = WHOLE ? 0 : column % PANEL;
const stored_T *const right = packed + (column - skip) * DEPTH;
// @else
const i64 skip = 0;
stored_T *const right = (stored_T *)(widened + WIDENED);
// @if T == float32
ctx->lib->pack_b_f32(right, w + (expert * n + c0) * k, k, c1 - c0, 1, k, 0,
                     (c1 - c0 + PANEL - 1) / PANEL);
// @else
ctx->lib->half_pack(KIND, right, w + (expert * n + c0) * k, k, c1 - c0, 1, k, 0,
                    (c1 - c0 + PANEL - 1) / PANEL);
// @endif
// @endif
const i64 wide = skip + c1 - c0;
// @if T == float32 and WHOLE
const i64 blocks = (last - first + ROWS - 1) / ROWS;
if (ctx->lib->gemm_f32(y + first * n + c0, n, x + first * k, k, right, last - first, wide, k,
                       ROWS, WIDTH, 0, blocks, 0, 0, 0, ctx))
  return MX_STOPPED;
// @else
const i64 width = WIDTH;
for (i64 r0 = first; r0 < last; r0 += ROWS) {
  const i64 many = last - r0 < ROWS ? last - r0 : ROWS;
  if (mx_stop(ctx)) return MX_STOPPED;
  // @if T == float32
  if (ctx->lib->gemm_f32(tile, width, x + r0 * k, k, right, many, wide, k, many, width, 0, 1, 0,
                         0, 0, ctx))
    return MX_STOPPED;
  // @else
  ctx->lib->half_block(KIND, tile, width, x + r0 * k, k, right, many, wide, k, widened);
  // @endif
  for (i64 r = 0; r < many; r++) {
    const f32 *const line = tile + r * width + skip;
    #pragma omp simd
    for (i64 c = 0; c < c1 - c0; c++) { store(y, (r0 + r) * n + c0 + c, line[c]); }
  }
}
// @endif

// The same of dtypes that the library does not know: a thread makes one column of a group.
// @op grouped_dots(x: T[rows, k], w: T[count, n, k], starts: uint32[ends], experts: int32[groups],
//   usage: uint32[2]) -> (y: T[rows, n])
// @types T: any
// @items groups * n
// @work k * 4
// @both
const i64 g = i / n, c = i % n;
find_group();
for (i64 r = first; r < last; r++) {
  T sum = 0;
  if (expert >= 0)
    for (i64 d = 0; d < k; d++) sum += load(x, r * k + d) * load(w, (expert * n + c) * k + d);
  store(y, r * n + c, sum);
}

// The rows of the group g, and its expert; the item 0 looks at the groups as a whole. What is refused
// is a row or a place, and how many there are.
// @macro find_group()
const i64 active = load(usage, 1);
if (active > groups) {
  refuse(active, (groups + 1));
  continue;
}
if (i == 0) {
  const i64 begin = load(starts, 0), end = load(starts, active);
  if (begin != 0) {
    refuse(begin, 1);
    continue;
  }
  if (end != rows) {
    refuse((end < rows ? end : end - 1), (end < rows ? end : rows));
    continue;
  }
}
if (g >= active) continue;
const i64 first = load(starts, g), last = load(starts, (g + 1)), expert = load(experts, g);
if (first > last || last > rows) {
  refuse((last > rows ? last - 1 : first), (last > rows ? rows : last));
  continue;
}
if (last - first > (i64)load(usage, 0)) {
  refuse(last - first, (i64)load(usage, 0) + 1);
  continue;
}
if (expert < -1 || expert >= count) {
  refuse(expert, count);
  continue;
}
