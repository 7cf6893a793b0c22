// top_k and argsort on the CPU; keys.c says what keys and records are.

// @use keys.c

// A row at a time. The best so far are kept in a heap, unless K is large, or nearly every element
// goes through the heap, as where the largest come last; then the K largest are selected.
// @op top_k(x: T[rows, N]) -> (values: T[rows, K], indices: int64[rows, K])
// @types T: any
// @params K: int; TWICE: int; SLACK: int; BITS: int; DOWN: bool; HEAP: bool; SMALL: bool
// @items rows
// @work N
// @c
const i64 n = N, base = i * n;
Record *const best = (Record *)scratch;
// @if HEAP
for (i64 j = 0; j < K; j++) {
  declare_key(key, base + j);
  best[j] = record(key, j);
}
for (i64 j = K / 2 - 1; j >= 0; j--) mx_sink_Record(best, K, j, best[j]);
Key worst = (Key)(best[0] >> LOW);
i64 patience = patience_of(n);
for (i64 start = K; start < n && patience >= 0; start += 1 << 20) {
  const i64 end = n - start > 1 << 20 ? start + (1 << 20) : n;
  if (start > K && mx_stop(ctx)) return MX_STOPPED;
  for (i64 j = start; j < end && patience >= 0; j += 128) {
    Key block[128];
    const i64 count = end - j < 128 ? end - j : 128;
    u32 any = 0;
    #pragma omp simd reduction(| : any)
    for (i64 c = 0; c < count; c++) {
      declare_key(key, base + j + c);
      block[c] = key;
      any |= key < worst;
    }
    if (!any) continue;
    for (i64 c = 0; c < count; c++)
      if (block[c] < worst) {
        mx_sink_Record(best, K, 0, record(block[c], (j + c)));
        worst = (Key)(best[0] >> LOW);
        patience--;
      }
  }
}
if (patience < 0) {
  select_largest();
} else
  for (i64 j = K - 1; j > 0; j--) {
    const Record last = best[j];
    best[j] = best[0];
    mx_sink_Record(best, j, 0, last);
  }
// @else
select_largest();
// @endif
for (i64 j = 0; j < K; j++) {
  const i64 from = (i64)(u32)best[j];
  values[i * K + j] = x[base + from];
  indices[i * K + j] = from;
}

// How many elements may go through the heap. That of a few is as fast as selecting.
// @macro patience_of(COUNT) = COUNT if SMALL else COUNT / 16 + SLACK

// The K largest of a row, in order: the first and the last of their keys are found, then what is
// below is collected in order, and ties as far as they are among the K.
// @macro select_largest()
Key *const all = (Key *)(best + TWICE);
#pragma omp simd
for (i64 j = 0; j < n; j++) {
  declare_key(key, base + j);
  all[j] = key;
}
Key first, last;
if (n > 1 << 20 && mx_stop(ctx)) return MX_STOPPED;
i64 ties = mx_kth_Record(all, n, K, BITS, &first, &last, ctx), got = 0;
if (n > 1 << 20 && mx_stop(ctx)) return MX_STOPPED;
for (i64 j = 0; j < n && got < K; j++) {
  const Key key = all[j];
  const i64 below = key < first, tie = !below & (key <= last) & (ties > 0);
  best[got] = record(key, j);
  got += below | tie;
  ties -= tie;
}
mx_sort_Record(best, best + K, K, ctx);

// Whole rows are sorted, by a radix sort of their records, and the first K taken: what `top_k` did
// before, see Options.old_top_k.
// @op whole_rows(x: T[rows, N]) -> (values: T[rows, K], indices: int64[rows, K])
// @types T: any
// @params K: int; DOWN: bool
// @items rows
// @work 4 * N
// @c
const i64 n = N, base = i * n;
Record *const all = (Record *)scratch;
for (i64 j = 0; j < n; j++) {
  declare_key(key, base + j);
  all[j] = record(key, j);
}
if (n > 1 << 20 && mx_stop(ctx)) return MX_STOPPED;
mx_sort_Record(all, all + n, n, ctx);
for (i64 j = 0; j < K; j++) {
  const i64 from = (i64)(u32)all[j];
  values[i * K + j] = x[base + from];
  indices[i * K + j] = from;
}

// @op argsort_short(x: T[N]) -> (y: int64[N])
// @types T: any
// @params DOWN: bool
// @items 1
// @work N
// @c
const i64 n = N;
sort_all();

// All records sorted in the memory of the thread.
// @macro sort_all()
Record *const a = (Record *)scratch;
for (i64 j = 0; j < n; j++) {
  declare_key(key, j);
  a[j] = record(key, j);
}
mx_sort_Record(a, a + n, n, ctx);
for (i64 j = 0; j < n; j++) y[j] = (i64)(u32)a[j];

// A radix sort by 11 bits at a time, or fewer, of the highest 33 of what keys exceed the least by, or of all
// where they are short. In every pass each part of the records counts its digits, then moves its
// records to where the counts of all parts before it say. What is equal in these bits is sorted by
// itself in the end.
// @op argsort(x: T[N]) -> (y: int64[N])
// @types T: any
// @params DOWN: bool; SHORT: int; PARTS: int; BUCKETS: int; PER: int; MASK: int; USED: int;
//   BYTES: int; OFFSET: int; FINAL: bool = false; ODD: bool = false
// @temp one: uint64[N * PER]
// @temp other: uint64[N * PER]
// @temp counts: uint32[PARTS * BUCKETS]
// @temp ends: uint64[2 * PARTS] if bits(T) == 64
// @items PARTS
// @work (N + PARTS) // PARTS * 4

// The first part makes the records. It counts too, unless it has to learn first which bits.
// @part records
// @c
// @before
Record *const r0 = (Record *)one;
// @each
const i64 n = N;
if (n <= SHORT) {
  if (i) continue;
  sort_all();
  continue;
}
own_share();
// @if bits(T) == 64
u64 least = ~0ull, most = 0;
// @else
no_counts();
// @endif
along(j, first, last) {
  declare_key(key, j);
  const Record v = record(key, j);
  r0[j] = v;
  // @if bits(T) == 64
  least = key < least ? key : least, most = key > most ? key : most;
  // @else
  count[digit(v)]++;
  // @endif
}
// @if bits(T) == 64
ends[i] = least, ends[PARTS + i] = most;
// @endif

// @part count
// @c
// @before
// @if ODD
Record *const r1 = (Record *)other;
// @else
Record *const r0 = (Record *)one;
// @endif
// @each
share_of_long();
no_counts();
along(j, first, last) count[digit(here[j])]++;

// @part move
// @c
// @before
// @if ODD
Record *const r1 = (Record *)other;
// @if not FINAL
Record *const r0 = (Record *)one;
// @endif
// @else
Record *const r0 = (Record *)one;
// @if not FINAL
Record *const r1 = (Record *)other;
// @endif
// @endif
// @each
share_of_long();
u32 to[USED], all[USED];
for (i64 d = 0; d <= MASK; d++) to[d] = 0, all[d] = 0;
for (i64 p = 0; p < PARTS; p++) {
  const u32 *const count = counts + p * BUCKETS;
  if (p == i)
    for (i64 d = 0; d <= MASK; d++) to[d] = all[d];
  #pragma omp simd
  for (i64 d = 0; d <= MASK; d++) all[d] += count[d];
}
u32 sum = 0;
for (i64 d = 0; d <= MASK; d++) {
  to[d] += sum;
  sum += all[d];
}
along(j, first, last) {
  const Record v = here[j];
  const u32 d = digit(v);
  // @if FINAL
  y[to[d]++] = (i64)(u32)v;
  // @else
  there[to[d]++] = v;
  // @endif
}

// A run of keys that are equal in the bits above is sorted by the part in which it begins.
// @part finish if bits(T) == 64
// @c
// @before
Record *const r0 = (Record *)one;
Record *const r1 = (Record *)other;
// @each
share_of_long();
if (!shift) {
  along(j, first, last) y[j] = (i64)(u32)r1[j];
  continue;
}
i64 j = first;
if (j)
  while (j < last && upper(j) == upper(j - 1)) j++;
while (j < last) {
  i64 stop = j + 1;
  if (j % (1 << 20) == 0 && mx_stop(ctx)) return MX_STOPPED;
  while (stop < n && upper(stop) == upper(j)) stop++;
  if (stop - j > 1) mx_sort_Record(r1 + j, r0 + j, stop - j, ctx);
  for (; j < stop; j++) y[j] = (i64)(u32)r1[j];
}

// @macro here = r1 if ODD else r0
// @macro there = r0 if ODD else r1
// @macro upper(INDEX) = ((u64)(r1[INDEX] >> LOW) - least) >> shift
// @macro digit(RECORD) = ((u32)(((u64)(RECORD >> LOW) - least) >> (shift + OFFSET)) & MASK) if
//   bits(T) == 64 else ((u32)(RECORD >> OFFSET) & MASK)

// The records that the part i of a long tensor has.
// @macro own_share()
const i64 first = n * i / PARTS, last = n * (i + 1) / PARTS;

// The same; a short tensor is sorted already. Of wide keys, what they exceed the least by is shifted
// so far that 33 bits are left.
// @macro share_of_long()
const i64 n = N;
if (n <= SHORT) continue;
own_share();
// @if bits(T) == 64
u64 least = ends[0], most = ends[PARTS];
for (i64 p = 1; p < PARTS; p++) {
  least = ends[p] < least ? ends[p] : least;
  most = ends[PARTS + p] > most ? ends[PARTS + p] : most;
}
const int shift = (most - least) >> 33 ? 31 - __builtin_clzll(most - least) : 0;
// @endif

// The counts of digits that the part i takes, which are 0.
// @macro no_counts()
u32 *const count = counts + i * BUCKETS;
__builtin_memset(count, 0, BYTES);
