// maxlab-flags: -O2
/* float8.c - products with weights that are floats of 8 bits, which stay bytes in memory.
 *
 * With few left rows, weights become float32 in registers and are multiplied at once: reading them is what takes the time.
 * With many, 32 rows of weights are unpacked, STRIP columns at a time, into a panel as gemm.c has them, which stays near
 * while all left rows meet it.
 *
 *   w, bytes            near, float32 times scales        panel
 *   row 0 |qqqq...|     row 0 |ffff...|             k=0 |32 floats, one of each row|
 *   row 1 |qqqq...|     row 1 |ffff...|   -->       k=1 |32 floats                 |    -->  x times panel: gemm.c
 *
 * With AVX-512 a code becomes a float16 first, which is a shift, as both have a sign, then exponent, then mantissa; a
 * float16 so made is 2^-8 (e4m3fn) or 2^-7 (e4m3fnuz) of the number, subnormals too.  NaN is seen apart: its row of weights
 * then makes NaN, whatever the left row is.
 */
#include "tile.h"

#define STRIP 512
#define FEW 8     /* from this many left rows on weights are unpacked */
#define LEFT 128  /* left rows that meet a panel at once */
typedef f32 wide __attribute__((vector_size(64), aligned(4), may_alias));
#pragma GCC diagnostic ignored "-Wpsabi" /* of functions that are inlined, all of them */

/* ---- numbers --------------------------------------------------------------------------------------------------------- */

#if defined(__AVX512BW__)
#define UNIT(KIND) ((KIND) == 7 ? 256.0f : 128.0f)
typedef i16 words __attribute__((vector_size(64), may_alias));
typedef i16 half __attribute__((vector_size(32), may_alias));
typedef u8 few __attribute__((vector_size(32), aligned(1), may_alias));
/* 32 numbers, over UNIT; `seen` is all ones in some bits 14 once there was a NaN */
INLINE void numbers(int kind, const u8 *w, wide *a, wide *b, words *seen) {
  words h;
  __asm__("vpmovsxbw %1, %0" : "=v"(h) : "m"(*(const few *)w));
  h = (h << 7) & (i16)0xbf80;
  if (kind == 7) *seen |= h + (i16)0x80;
  else *seen |= (words)(h == (i16)0x8000);
  half low, high;
  __builtin_memcpy(&low, &h, 32);
  __builtin_memcpy(&high, (const char *)&h + 32, 32);
  __asm__("vcvtph2ps %1, %0" : "=v"(*a) : "v"(low));
  __asm__("vcvtph2ps %1, %0" : "=v"(*b) : "v"(high));
}
INLINE int any(words seen) {
  i16 all = 0;
  for (int e = 0; e < 32; e++) all |= seen[e];
  return all & 0x4000;
}
#else
#define UNIT(KIND) 1.0f
typedef int words;
INLINE void numbers(int kind, const u8 *w, wide *a, wide *b, words *seen) {
  f32 v[32];
  (void)seen;
  MX_EACH_LANE for (int e = 0; e < 32; e++) v[e] = kind == 7 ? mx_e4m3fn_to_f32(w[e]) : mx_e4m3fnuz_to_f32(w[e]);
  __builtin_memcpy(a, v, 64);
  __builtin_memcpy(b, v + 16, 64);
}
INLINE int any(words seen) { return seen; }
#endif
INLINE f32 one(int kind, u8 c) { return kind == 7 ? mx_e4m3fn_to_f32(c) : mx_e4m3fnuz_to_f32(c); }
typedef f32 narrow __attribute__((vector_size(32), may_alias));
typedef f32 least __attribute__((vector_size(16), may_alias));
INLINE f32 sum(wide v) { /* halves of it, and halves of those */
  narrow a, b;
  least c, d;
  __builtin_memcpy(&a, &v, 32);
  __builtin_memcpy(&b, (const char *)&v + 32, 32);
  a += b;
  __builtin_memcpy(&c, &a, 16);
  __builtin_memcpy(&d, (const char *)&a + 16, 16);
  c += d;
  return (c[0] + c[2]) + (c[1] + c[3]);
}

/* y[m * n] = the left rows, `many` of them, a literal, times a row of weights; `d` are its scales, one for each `each` */
INLINE void row(int kind, const int many, f32 *y, i64 n, const f32 *x, const u8 *w, i64 k, const f32 *d, i64 each) {
  wide sums[4];
  f32 rest[4];
  words seen = {0};
  _Pragma("GCC unroll 4") for (int m = 0; m < many; m++) sums[m] = (wide){0}, rest[m] = 0.0f;
  for (i64 k0 = 0; k0 < k; k0 += each, d++) {
    const i64 end = k - k0 < each ? k : k0 + each;
    wide part[4], also[4], a, b;
    i64 c = k0;
    _Pragma("GCC unroll 4") for (int m = 0; m < many; m++) part[m] = also[m] = (wide){0};
    for (; c + 32 <= end; c += 32) {
      numbers(kind, w + c, &a, &b, &seen);
      _Pragma("GCC unroll 4") for (int m = 0; m < many; m++) {
        part[m] += a * *(const wide *)(x + m * k + c);
        also[m] += b * *(const wide *)(x + m * k + c + 16);
      }
    }
    _Pragma("GCC unroll 4") for (int m = 0; m < many; m++) sums[m] += (part[m] + also[m]) * (*d * UNIT(kind));
    for (; c < end; c++) {
      const f32 v = one(kind, w[c]) * *d;
      _Pragma("GCC unroll 4") for (int m = 0; m < many; m++) rest[m] += v * x[m * k + c];
    }
  }
  const f32 odd = any(seen) ? __builtin_nanf("") : 0.0f;
  _Pragma("GCC unroll 4") for (int m = 0; m < many; m++) y[m * n] = sum(sums[m]) + rest[m] + odd;
}

/* The columns from `first` on, `n` of them, of a row of weights, times their scales. */
INLINE void unpack(int kind, f32 *to, const u8 *w, i64 first, i64 n, const f32 *d, i64 each) {
  words seen = {0};
  i64 c = 0;
  while (c < n) {
    const i64 block = (first + c) / each, end = (block + 1) * each - first < n ? (block + 1) * each - first : n;
    const f32 scale = d[block], units = scale * UNIT(kind);
    wide a, b;
    for (; c + 32 <= end; c += 32) {
      numbers(kind, w + first + c, &a, &b, &seen);
      *(wide *)(to + c) = a * units, *(wide *)(to + c + 16) = b * units;
    }
    for (; c < end; c++) to[c] = one(kind, w[first + c]) * scale;
  }
  if (n > 0 && any(seen)) to[0] = __builtin_nanf("");
}

/* ---- products ------------------------------------------------------------------------------------------------------- */

static void few_rows(i64 kind, const int many, f32 *y, i64 n, const f32 *x, const u8 *w, i64 k, const f32 *d, i64 each) {
#define ROW(KIND, MANY) row(KIND, MANY, y, n, x, w, k, d, each)
  if (kind == MX_E4M3FN) {
    if (many == 4) ROW(7, 4);
    else if (many == 2) ROW(7, 2);
    else ROW(7, 1);
  } else {
    if (many == 4) ROW(8, 4);
    else if (many == 2) ROW(8, 2);
    else ROW(8, 1);
  }
}
static void unpack_any(i64 kind, f32 *to, const u8 *w, i64 first, i64 n, const f32 *d, i64 each) {
  if (kind == MX_E4M3FN) unpack(7, to, w, first, n, d, each);
  else unpack(8, to, w, first, n, d, each);
}

i64 mx_float8_scratch(void) { return 4 * (2 * MX_NR * STRIP + LEFT * MX_NR); }

int mx_float8(i64 kind, f32 *y, i64 n, const f32 *x, i64 m, const u8 *w, i64 k, const f32 *d, i64 first, i64 down, i64 across,
              i64 blocks, mx_ctx *ctx) {
  const i64 rows = min64(n - first, MX_NR);
  i64 unasked = MX_ASKED;
  w += first * k, y += first;
  if (m < FEW) {
    for (i64 i = 0, many; i < m; i += many) {
      many = m - i >= 4 ? 4 : m - i >= 2 ? 2 : 1;
      if (mx_over(ctx, &unasked, many * rows * k)) return MX_STOPPED;
      for (i64 r = 0; r < rows; r++)
        few_rows(kind, (int)many, y + i * n + r, n, x + i * k, w + r * k, k, d + (first + r) / down * blocks, across);
    }
    return 0;
  }
  f32 *const near = ctx->scratch, *const panel = near + MX_NR * STRIP, *const C = panel + MX_NR * STRIP;
  for (i64 k0 = 0; k0 == 0 || k0 < k; k0 += STRIP) {
    const i64 count = min64(k - k0, STRIP);
    for (i64 r = 0; r < rows; r++)
      unpack_any(kind, near + r * STRIP, w + r * k, k0, count, d + (first + r) / down * blocks, across);
    for (i64 r = rows; r < MX_NR; r++) __builtin_memset(near + r * STRIP, 0, STRIP * 4);
    mx_pack_b_f32(panel, near, count, MX_NR, 1, STRIP, 0, 1);
    for (i64 i = 0; i < m; i += LEFT) {
      const i64 some = min64(m - i, LEFT);
      if (mx_over(ctx, &unasked, some * MX_NR * count)) return MX_STOPPED;
      mx_gemm_block(C, MX_NR, x + i * k + k0, k, panel, some, MX_NR, count, 1, ctx);
      for (i64 e = 0; e < some; e++) {
        f32 *const to = y + (i + e) * n;
        if (k0 == 0) __builtin_memcpy(to, C + e * MX_NR, (u64)rows * 4);
        else
          for (i64 r = 0; r < rows; r++) to[r] += C[e * MX_NR + r];
      }
    }
  }
  return 0;
}
