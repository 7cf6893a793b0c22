// Ops that have one element for each element that is not zero. They take two walks. The first counts
// in chunks of CHUNK elements and adds the counts up, so that in the second every chunk knows where
// it writes. On a GPU a chunk is a block's, EACH elements a thread's; on the CPU it is a part of what
// a thread does.

// @op count_chunks(x: T[n]) -> (starts: int64[chunks], sum_of_all: int64[])
// @types T: any
// @params CHUNK: int; EACH: int; ROOM: int
// @sizes CHUNKS; SIZE
// @temp counts: int64[CHUNKS]

// @part chunks
// @items CHUNKS
// @work CHUNK
// @c
items_of(i * CHUNK, CHUNK, SIZE);
i32 mine = 0;
for (i64 j = first; j < last; j++) mine += load(x, j) != 0;
store(counts, i, mine);
// @cuda block shared=ROOM
items_of(i * CHUNK + threadIdx.x * EACH, EACH, SIZE);
i64 mine = 0;
for (i64 j = first; j < last; j++) mine += load(x, j) != 0;
scan_block();
if (threadIdx.x == 0) store(counts, i, total);

// @part starts
// @items 1
// @work CHUNKS
// @c
i64 sum = 0;
for (i64 j = 0; j < CHUNKS; j++) {
  const i64 v = load(counts, j);
  store(starts, j, sum);
  sum += v;
}
store(sum_of_all, i, sum);
// @cuda block shared=ROOM
const i64 each = (CHUNKS + blockDim.x - 1) / blockDim.x;
items_of(threadIdx.x * each, each, CHUNKS);
i64 mine = 0;
for (i64 j = first; j < last; j++) mine += load(counts, j);
scan_block();
i64 sum = before;
for (i64 j = first; j < last; j++) {
  const i64 v = load(counts, j);
  store(starts, j, sum);
  sum += v;
}
if (threadIdx.x == 0) store(sum_of_all, i, total);

// The indices of the elements that are not zero; NOTE stores those of the element j at the row at.
// @op nonzero(x: T[n], starts: int64[chunks]) -> (y: int64[n, rank])
// @types T: any
// @params CHUNK: int; EACH: int; ROOM: int
// @sizes CHUNKS; SIZE
// @items CHUNKS
// @work CHUNK
// @c
items_of(i * CHUNK, CHUNK, SIZE);
find_hits(load(x, j));
for (i64 k = 0; k < many; k++) {
  const i64 j = first + hits[k];
  NOTE;
  at++;
}
// @cuda block shared=ROOM
items_of(i * CHUNK + threadIdx.x * EACH, EACH, SIZE);
count_hits(load(x, j));
for (i64 j = first; j < last; j++)
  if ((load(x, j) != 0)) {
    NOTE;
    at++;
  }

// The operand with the updates where the mask is true.
// @op masked_scatter(x: T[n], mask: bool[n], updates: T[m], starts: int64[chunks]) -> (y: T[n])
// @types T: any
// @params CHUNK: int; EACH: int; ROOM: int
// @sizes CHUNKS; SIZE
// @items CHUNKS
// @work CHUNK
// @c
items_of(i * CHUNK, CHUNK, SIZE);
for (i64 j = first; j < last; j++) store(y, j, load(x, j));
find_hits(load(mask, j));
for (i64 k = 0; k < many; k++) {
  const i64 j = first + hits[k];
  store(y, j, load(updates, at));
  at++;
}
// @cuda block shared=ROOM
items_of(i * CHUNK + threadIdx.x * EACH, EACH, SIZE);
for (i64 j = first; j < last; j++) store(y, j, load(x, j));
count_hits(load(mask, j));
for (i64 j = first; j < last; j++)
  if ((load(mask, j) != 0)) {
    store(y, j, load(updates, at));
    at++;
  }

// Which element of the operand each of repeat_interleave repeats, found in the ends of repetitions:
// by halving on a GPU, and for the first of a chunk.
// @op repeat_index(ends: T[N]) -> (y: int64[count])
// @types T: any
// @params CHUNK: int
// @sizes COUNT
// @c
items_of(i * CHUNK, CHUNK, COUNT);
find_first(first);
for (i64 j = first; j < last; j++) {
  while (low < N && load(ends, low) <= j) low++;
  store(y, j, low);
}
// @cuda work=32
find_first(i);
store(y, i, low);

// @macro find_first(PLACE)
i64 low = 0, high = N;
while (low < high) {
  const i64 middle = low + (high - low) / 2;
  if (load(ends, middle) <= PLACE) low = middle + 1;
  else high = middle;
}

// The items from first to last, of SIZE ones.
// @macro items_of(FIRST, MANY, ALL)
const i64 first = FIRST, last = first + MANY < ALL ? first + MANY : ALL;

// On the CPU: where the hits of a chunk are, noted without a branch, which nobody could predict.
// @macro find_hits(VALUE)
i32 hits[CHUNK];
i64 many = 0, at = load(starts, i);
for (i64 j = first; j < last; j++) {
  hits[many] = (i32)(j - first);
  many += (VALUE != 0);
}

// On a GPU: at which place the first hit of a thread belongs.
// @macro count_hits(VALUE)
i64 mine = 0;
for (i64 j = first; j < last; j++) mine += (VALUE != 0);
scan_block();
i64 at = load(starts, i) + before;

// In a block, from mine of each thread: the sum before it, and the total.
// @macro scan_block()
i64 *const sums = (i64 *)shared;
sums[threadIdx.x] = mine;
__syncthreads();
for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
  const i64 v = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
  __syncthreads();
  sums[threadIdx.x] += v;
  __syncthreads();
}
const i64 before = sums[threadIdx.x] - mine, total = sums[blockDim.x - 1];
(void)before, (void)total;
__syncthreads();
