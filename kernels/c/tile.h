/* tile.h - what the products of float32 share: vectors, the heights of register tiles, and how rows are cut into them. */
#ifndef MX_TILE_H
#define MX_TILE_H
#include "mx_abi.h"

#if defined(__AVX512F__)
#define VW 16 /* floats per vector */
#define NV 2  /* vectors per tile row */
#define MR 12 /* most rows per tile */
#elif defined(__AVX2__) && defined(__FMA__)
#define VW 8
#define NV 2
#define MR 6
#elif defined(__aarch64__)
#define VW 4
#define NV 4
#define MR 6
#else
#define VW 4
#define NV 2
#define MR 4
#endif
#define TW (VW * NV) /* columns of a register tile: divides MX_NR */

#if MR >= 12
#define EACH_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#elif MR >= 6
#define EACH_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define EACH_HEIGHT(X) X(1) X(2) X(3) X(4)
#endif

#define INLINE static inline __attribute__((always_inline))
typedef f32 vec __attribute__((vector_size(VW * 4), aligned(4), may_alias));
typedef f32 whole_vec __attribute__((vector_size(VW * 4), may_alias)); /* at a multiple of its size */

/* Stores that go past the caches, to memory aligned to a vector; before others may know of them, STREAMED. */
#if defined(__clang__)
#define STREAM(to, x) __builtin_nontemporal_store(x, (whole_vec *)(to))
#elif defined(__AVX512F__)
#define STREAM(to, x) __builtin_ia32_movntps512(to, (whole_vec)(x))
#elif defined(__AVX2__)
#define STREAM(to, x) __builtin_ia32_movntps256(to, (whole_vec)(x))
#elif defined(__SSE__)
#define STREAM(to, x) __builtin_ia32_movntps(to, (whole_vec)(x))
#else
#define STREAM(to, x) (*(vec *)(to) = (x))
#endif
#if defined(__x86_64__) || defined(__i386__)
#define STREAMED() __builtin_ia32_sfence()
#else
#define STREAMED() ((void)0)
#endif

INLINE i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
INLINE i64 min64(i64 a, i64 b) { return a < b ? a : b; }

/* The last columns of C, fewer than a tile has: `n` floats, in as large pieces as there are. */
INLINE void copy_few(f32 *to, const f32 *from, i64 n) {
  for (; n >= 8; n -= 8, to += 8, from += 8) __builtin_memcpy(to, from, 32);
  for (; n > 0; n--) *to++ = *from++;
}

/* Rows are cut into groups as equal as possible (64 = 11+11+11+11+10+10, not 12*5+4): short groups read B as often as
 * long ones.  Start of group g: */
INLINE i64 group_start(i64 rows, i64 groups, i64 g) { return rows * g / groups; }
#endif
