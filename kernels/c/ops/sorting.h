// sorting.h - sorting and selecting records: what top_k and argsort call.
//
// Every element becomes an unsigned *key* of its own width, so that one kind of comparison serves all dtypes (the text
// that does it is in maxlab/opset/sorting.py).  A *record* is a key above the index of its element: records are all
// different, and ascending records are ascending keys whose ties stand by index.  Keys of up to 32 bits make records of
// 64, keys of 64 bits records of 128; the key begins in the middle of both.  Who wants the largest first inverts keys.

// @section sort_macros needs stop
typedef unsigned __int128 u128;
/* mx_sort: n records ascending in a; t is as large.  Short rows by insertion, others by the highest 32 bits of
 * what keys exceed the least by, a byte at a time from the lowest; what is equal in these is then sorted by itself.
 * mx_sink: puts v into the heap of n records, the largest first, in the place of the one at `at`.
 * mx_kth: the k smallest of n keys, 1 <= k <= n, are those below *low and the first `returned` of those from *low to
 * *high; found 11 bits at a time from the highest.
 * Those that go through all records return early when the run is to end. */
#define MX_SORTING(W, K, LOW)                                                                                          \
  static __attribute__((unused)) void mx_sort_##W(W *RS a, W *RS t, i64 n, mx_ctx *ctx) {                              \
    if (n < 48) {                                                                                                      \
      for (i64 i = 1; i < n; i++) {                                                                                    \
        const W v = a[i];                                                                                              \
        i64 j = i;                                                                                                     \
        for (; j > 0 && a[j - 1] > v; j--) a[j] = a[j - 1];                                                            \
        a[j] = v;                                                                                                      \
      }                                                                                                                \
      return;                                                                                                          \
    }                                                                                                                  \
    K least = (K)(a[0] >> LOW), most = least;                                                                          \
    for (i64 i = 1; i < n; i++) {                                                                                      \
      const K key = (K)(a[i] >> LOW);                                                                                  \
      least = key < least ? key : least;                                                                               \
      most = key > most ? key : most;                                                                                  \
    }                                                                                                                  \
    if (most == least) return;                                                                                         \
    const int top = 64 - __builtin_clzll((u64)(most - least)), base = top > 32 ? top - 32 : 0;                         \
    u32 count[4][256];                                                                                                 \
    __builtin_memset(count, 0, sizeof count);                                                                          \
    for (i64 i = 0; i < n; i++) {                                                                                      \
      const u32 key = (u32)((K)((K)(a[i] >> LOW) - least) >> base);                                                    \
      count[0][key & 255]++, count[1][key >> 8 & 255]++, count[2][key >> 16 & 255]++, count[3][key >> 24]++;           \
    }                                                                                                                  \
    W *from = a, *to = t;                                                                                              \
    for (int p = 0; p < 4 && base + 8 * p < top; p++) {                                                                \
      u32 *const at = count[p];                                                                                        \
      const int shift = base + 8 * p;                                                                                  \
      if (at[(K)((K)(a[0] >> LOW) - least) >> shift & 255] == (u32)n) continue;                                        \
      if (n > 1 << 20 && mx_stop(ctx)) return;                                                                         \
      u32 sum = 0;                                                                                                     \
      for (int d = 0; d < 256; d++) { const u32 c = at[d]; at[d] = sum; sum += c; }                                    \
      for (i64 i = 0; i < n; i++) {                                                                                    \
        const W v = from[i];                                                                                           \
        to[at[(K)((K)(v >> LOW) - least) >> shift & 255]++] = v;                                                       \
      }                                                                                                                \
      W *const other = from; from = to; to = other;                                                                    \
    }                                                                                                                  \
    if (from != a) __builtin_memcpy(a, from, (u64)n * sizeof(W));                                                      \
    if (!base) return;                                                                                                 \
    for (i64 i = 0, j; i < n; i = j) {                                                                                 \
      const K key = (K)((K)(a[i] >> LOW) - least) >> base;                                                             \
      for (j = i + 1; j < n && (K)((K)(a[j] >> LOW) - least) >> base == key; j++);                                     \
      if (j - i > 1) mx_sort_##W(a + i, t, j - i, ctx);                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  static __attribute__((unused)) void mx_sink_##W(W *heap, i64 n, i64 at, W v) {                                       \
    for (;;) {                                                                                                         \
      i64 child = 2 * at + 1;                                                                                          \
      if (child >= n) break;                                                                                           \
      child += child + 1 < n && heap[child + 1] > heap[child];                                                         \
      if (heap[child] <= v) break;                                                                                     \
      heap[at] = heap[child];                                                                                          \
      at = child;                                                                                                      \
    }                                                                                                                  \
    heap[at] = v;                                                                                                      \
  }                                                                                                                    \
  static __attribute__((unused)) i64 mx_kth_##W(const K *keys, i64 n, i64 k, int bits, K *low, K *high, mx_ctx *ctx) { \
    u32 count[2048];                                                                                                   \
    K prefix = 0;                                                                                                      \
    int done = 0; /* the bits of the prefix */                                                                         \
    while (done < bits) {                                                                                              \
      const int step = bits - done < 11 ? bits - done : 11, shift = bits - done - step;                                \
      if (n > 1 << 20 && mx_stop(ctx)) break;                                                                          \
      const K mask = ((K)1 << step) - 1;                                                                               \
      __builtin_memset(count, 0, sizeof count);                                                                        \
      if (done == 0)                                                                                                   \
        for (i64 i = 0; i < n; i++) count[keys[i] >> shift]++;                                                         \
      else                                                                                                             \
        for (i64 i = 0; i < n; i++)                                                                                    \
          if (keys[i] >> shift >> step == prefix) count[(keys[i] >> shift) & mask]++;                                  \
      K d = 0;                                                                                                         \
      while ((i64)count[d] < k) k -= count[d++];                                                                       \
      prefix = prefix << step | d;                                                                                     \
      done += step;                                                                                                    \
      if ((i64)count[d] == k) break;                                                                                   \
    }                                                                                                                  \
    *low = done == bits ? prefix : prefix << (bits - done);                                                            \
    *high = done == bits ? prefix : *low | (((K)1 << (bits - done)) - 1);                                              \
    return k;                                                                                                          \
  }
// @end

// @section sort_u64 needs sort_macros
static void mx_sort_u64(u64 *RS, u64 *RS, i64, mx_ctx *);
static void mx_sink_u64(u64 *, i64, i64, u64);
static i64 mx_kth_u64(const u32 *, i64, i64, int, u32 *, u32 *, mx_ctx *);
MX_SORTING(u64, u32, 32)
// @end

// @section sort_u128 needs sort_macros
static void mx_sort_u128(u128 *RS, u128 *RS, i64, mx_ctx *);
static void mx_sink_u128(u128 *, i64, i64, u128);
static i64 mx_kth_u128(const u64 *, i64, i64, int, u64 *, u64 *, mx_ctx *);
MX_SORTING(u128, u64, 64)
// @end
