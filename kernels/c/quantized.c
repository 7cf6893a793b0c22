// maxlab-flags: -O2
/* quantized.c - products with weights in blocks of few bits that were laid out anew when they were loaded.
 *
 * The blocks of a file are those of one row; here 16 rows go side by side, a row a lane.  So one instruction multiplies
 * four numbers of each of 16 rows with the same four of a left row, nothing has to be added up across lanes, and the
 * scales of 16 rows are one vector.  The bits are those of the file in another order: it takes as many bytes, but for the
 * scales of Q4_K, which have 8 bits for 6.
 *
 *        file: row 0 | d q q q q q q ...           here: | d d d ... | q q q q | q q q q | ... 16 rows, then the next 4 k
 *              row 1 | d q q q q q q ...                   16 rows     row 0     row 1
 *
 *   Q4_0  2 blocks    64 bytes of d, twice 4 x 64 bytes of nibbles (k low, k + 16 high)
 *   Q4_K  1 block     32 d, 32 dmin, 8 x 16 scales, 8 x 16 mins, 32 x 64 nibbles as in the file
 *   Q6_K  1 block     32 d, 32 nothing, 16 x 16 scales; for each 16 of 64 k 8 x 64 nibbles (k low, k + 128 high; then
 *                     those of k + 64) and 4 x 64 of upper bits, those of k, k + 64, k + 128, k + 192 in a byte
 *
 * Left rows are quantised as ops/quantized.h does it.  Up to 8 of them share what is unpacked of the weights; the result
 * of one does not depend on how many there are.
 */
#include "mx_abi.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* of functions that are inlined, all of them */
#define INLINE static inline __attribute__((always_inline))
#define ROWS 16 /* of weights, side by side */
typedef i32 ints __attribute__((vector_size(64), aligned(4), may_alias));
typedef f32 floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef u8 bytes __attribute__((vector_size(64), aligned(1), may_alias));
typedef u32 words __attribute__((vector_size(64), aligned(1), may_alias));
typedef u8 few __attribute__((vector_size(16), aligned(1), may_alias));
typedef i8 few_signed __attribute__((vector_size(16), aligned(1), may_alias));

/* sum + 4 products a lane: bytes of u below 128, and the same 4 signed ones at x for all lanes */
INLINE ints dot(ints sum, bytes u, const i8 *x) {
#if defined(__AVX512VNNI__)
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(u), "m"(*(const i32 *)x));
  return sum;
#elif defined(__AVXVNNI__)
  typedef i32 half __attribute__((vector_size(32), may_alias));
  i32 four;
  __builtin_memcpy(&four, x, 4);
  const half s = (half){0} + four;
  for (int h = 0; h < 2; h++) {
    half part = ((half *)&sum)[h];
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(part) : "x"(((const half *)&u)[h]), "x"(s));
    ((half *)&sum)[h] = part;
  }
  return sum;
#elif defined(__AVX2__)
  typedef i32 half __attribute__((vector_size(32), may_alias));
  i32 four;
  __builtin_memcpy(&four, x, 4);
  const half s = (half){0} + four, ones = (half){0} + 0x00010001;
  for (int h = 0; h < 2; h++) { /* two products fit into 16 bits */
    half p, r;
    __asm__("vpmaddubsw %2, %1, %0" : "=x"(p) : "x"(((const half *)&u)[h]), "x"(s));
    __asm__("vpmaddwd %2, %1, %0" : "=x"(r) : "x"(p), "x"(ones));
    ((half *)&sum)[h] += r;
  }
  return sum;
#else
  for (int r = 0; r < ROWS; r++)
    for (int e = 0; e < 4; e++) sum[r] += (i32)u[4 * r + e] * x[e];
  return sum;
#endif
}
INLINE floats halves(const u8 *p) {
  floats v;
#if defined(__AVX512F__)
  typedef u8 b32 __attribute__((vector_size(32), aligned(1), may_alias));
  __asm__("vcvtph2ps %1, %0" : "=v"(v) : "m"(*(const b32 *)p));
#else
  for (int r = 0; r < ROWS; r++) v[r] = mx_f16_to_f32((u16)(p[2 * r] | p[2 * r + 1] << 8));
#endif
  return v;
}
/* 16 bytes as numbers; gcc 12 would move them one by one */
#if defined(__AVX512F__)
#define BYTES(NAME, TYPE, INSTRUCTION)                                                                                 \
  INLINE ints NAME(const u8 *p) {                                                                                      \
    ints v;                                                                                                            \
    __asm__(INSTRUCTION " %1, %0" : "=v"(v) : "m"(*(const TYPE *)p));                                                  \
    return v;                                                                                                          \
  }
#else
#define BYTES(NAME, TYPE, INSTRUCTION)                                                                                 \
  INLINE ints NAME(const u8 *p) { return __builtin_convertvector(*(const TYPE *)p, ints); }
#endif
BYTES(unsigned_bytes, few, "vpmovzxbd")
BYTES(signed_bytes, few_signed, "vpmovsxbd")
INLINE bytes low(const u8 *p) { return *(const bytes *)p & 15; }
INLINE bytes high(const u8 *p) { return (bytes)(*(const words *)p >> 4) & 15; }
INLINE floats wide(ints v) { return __builtin_convertvector(v, floats); }
INLINE i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

/* What is known of left rows: their numbers, sums and scales, and how far those of the next are. */
typedef struct left {
  const i8 *q;
  const i32 *s;
  const f32 *d;
  i64 q_step, s_step, d_step;
} left;

/* ---- tiles: `many` left rows, a literal, times 16 rows of weights ----------------------------------------------------- */

#define AHEAD(p, lines) _Pragma("GCC unroll 16") for (int e = 0; e < (lines); e++) __builtin_prefetch((p) + 8192 + 64 * e)

INLINE void tile_q4_0(const int many, floats *y, const u8 *w, i64 blocks, left x) {
  floats a[8];
  _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) a[m] = (floats){0};
  for (i64 b = 0; b < blocks; b += 2, w += 576) {
    AHEAD(w, 9);
    _Pragma("GCC unroll 2") for (int h = 0; h < 2; h++) {
      const u8 *const p = w + 64 + 256 * h;
      const floats d = halves(w + 32 * h);
      const bytes l0 = low(p), l1 = low(p + 64), l2 = low(p + 128), l3 = low(p + 192);
      const bytes h0 = high(p), h1 = high(p + 64), h2 = high(p + 128), h3 = high(p + 192);
      _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) {
        const i8 *const q = x.q + m * x.q_step + 32 * (b + h);
        ints one = (ints){0} + x.s[m * x.s_step + b + h], two = {0};
        one = dot(one, l0, q), two = dot(two, h0, q + 16), one = dot(one, l1, q + 4), two = dot(two, h1, q + 20);
        one = dot(one, l2, q + 8), two = dot(two, h2, q + 24), one = dot(one, l3, q + 12), two = dot(two, h3, q + 28);
        a[m] += wide(one + two) * (d * x.d[m * x.d_step + b + h]);
      }
    }
  }
  _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) y[m] = a[m];
}

INLINE void tile_q4_k(const int many, floats *y, const u8 *w, i64 blocks, left x) {
  floats a[8];
  _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) a[m] = (floats){0};
  for (i64 b = 0; b < blocks; b++, w += 2368) {
    ints sum[8];
    _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) sum[m] = (ints){0};
    for (int c = 0; c < 8; c++) {
      const u8 *const p = w + 320 + 512 * (c / 2);
      const ints scale = unsigned_bytes(w + 64 + 16 * c);
      bytes u[8];
      AHEAD(w + 296 * c, 5);
      _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++)
        u[j] = (bytes)(*(const words *)(p + 64 * j) >> (c % 2 * 4)) & 15;
      _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) {
        const i8 *const q = x.q + m * x.q_step + 256 * b + 32 * c;
        ints one = {0}, two = {0};
        _Pragma("GCC unroll 4") for (int j = 0; j < 8; j += 2) {
          one = dot(one, u[j], q + 4 * j);
          two = dot(two, u[j + 1], q + 4 * j + 4);
        }
        sum[m] += (one + two) * scale;
      }
    }
    const floats d = halves(w), dmin = halves(w + 32);
    _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) {
      const i32 *const s = x.s + m * x.s_step + 8 * b;
      ints below = {0};
      for (int c = 0; c < 8; c++) below += unsigned_bytes(w + 192 + 16 * c) * s[c];
      const f32 dx = x.d[m * x.d_step + b];
      a[m] += wide(sum[m]) * (d * dx) - wide(below) * (dmin * dx);
    }
  }
  _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) y[m] = a[m];
}

INLINE void tile_q6_k(const int many, floats *y, const u8 *w, i64 blocks, left x) {
  floats a[8];
  _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) a[m] = (floats){0};
  for (i64 b = 0; b < blocks; b++, w += 3392) {
    ints sum[8];
    _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) sum[m] = (ints){0};
    for (int part = 0; part < 4; part++) { /* 16 elements of each quarter of the block, with one scale each */
      const u8 *const here = w + 320 + 768 * part, *const upper = here + 512;
      _Pragma("GCC unroll 4") for (int quarter = 0; quarter < 4; quarter++) {
        const int c = part + 4 * quarter;
        const u8 *const p = here + 256 * (quarter % 2);
        AHEAD(w + 832 * part + 208 * quarter, 4);
        const ints scale = signed_bytes(w + 64 + 16 * c);
        bytes u[4];
        _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) {
          const bytes nibbles = quarter < 2 ? low(p + 64 * j) : high(p + 64 * j);
          const words more = *(const words *)(upper + 64 * j);
          const words turned = quarter == 0 ? more << 4 : quarter == 1 ? more << 2 : quarter == 2 ? more : more >> 2;
          u[j] = nibbles | ((bytes)turned & 48);
        }
        _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) {
          const i8 *const q = x.q + m * x.q_step + 256 * b + 16 * c;
          ints one = (ints){0} + x.s[m * x.s_step + 16 * b + c], two = {0};
          one = dot(one, u[0], q), two = dot(two, u[1], q + 4), one = dot(one, u[2], q + 8), two = dot(two, u[3], q + 12);
          sum[m] += (one + two) * scale;
        }
      }
    }
    const floats d = halves(w);
    _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) a[m] += wide(sum[m]) * (d * x.d[m * x.d_step + b]);
  }
  _Pragma("GCC unroll 8") for (int m = 0; m < many; m++) y[m] = a[m];
}

/* ---- products ------------------------------------------------------------------------------------------------------- */

typedef void (*tile_fn)(floats *y, const u8 *w, i64 blocks, left x);
#define TILE(NAME, MANY)                                                                                               \
  static void NAME##_##MANY(floats *y, const u8 *w, i64 blocks, left x) { NAME(MANY, y, w, blocks, x); }
#define TILES(NAME) TILE(NAME, 1) TILE(NAME, 2) TILE(NAME, 4) TILE(NAME, 8)
TILES(tile_q4_0)
TILES(tile_q4_k)
TILES(tile_q6_k)
#define NAMES(NAME) {NAME##_1, NAME##_2, NAME##_4, NAME##_8}
static const tile_fn tiles[3][4] = {NAMES(tile_q4_0), NAMES(tile_q4_k), NAMES(tile_q6_k)};
static const i64 file_bytes[3] = {18, 144, 210};

INLINE i64 group_bytes(i64 kind, i64 blocks) {
  return kind == MX_Q4_0 ? ceil_div(blocks, 2) * 576 : kind == MX_Q4_K ? blocks * 2368 : blocks * 3392;
}
i64 mx_q_pack_size(i64 kind, i64 blocks, i64 n) { return ceil_div(n, ROWS) * group_bytes(kind, blocks); }

int mx_q_product(i64 kind, f32 *y, i64 n, const u8 *w, i64 blocks, const i8 *q, const i32 *s, const f32 *d, i64 m, i64 lo,
                 i64 hi, mx_ctx *ctx) {
  i64 unasked = MX_ASKED;
  const i64 have = kind == MX_Q4_0 ? ceil_div(blocks, 2) * 2 : blocks, each = kind == MX_Q4_0 ? 32 : 256;
  const i64 sums = kind == MX_Q4_0 ? 1 : kind == MX_Q4_K ? 8 : 16, step = group_bytes(kind, blocks);
  for (i64 i = 0, many; i < m; i += many) {
    const int size = m - i >= 8 ? 3 : m - i >= 4 ? 2 : m - i >= 2 ? 1 : 0;
    many = 1 << size;
    if (mx_over(ctx, &unasked, (hi - lo) * ROWS * blocks * each * many)) return MX_STOPPED;
    const left x = {q + i * have * each, s + i * have * sums, d + i * have, have * each, have * sums, have};
    for (i64 g = lo; g < hi; g++) {
      floats made[8];
      tiles[kind][size](made, w + g * step, blocks, x);
      const i64 count = n - g * ROWS < ROWS ? n - g * ROWS : ROWS;
      for (i64 e = 0; e < many; e++) __builtin_memcpy(y + (i + e) * n + g * ROWS, &made[e], (u64)count * 4);
    }
  }
  return 0;
}

/* ---- laying out ----------------------------------------------------------------------------------------------------- */

static void lay_q4_0(u8 *to, const u8 *row, i64 r, i64 blocks) {
  for (i64 b = 0; b < blocks; b++, row += 18) {
    u8 *const unit = to + b / 2 * 576 + b % 2 * 32;
    __builtin_memcpy(unit + 2 * r, row, 2);
    for (i64 j = 0; j < 4; j++) __builtin_memcpy(to + b / 2 * 576 + 64 + b % 2 * 256 + 64 * j + 4 * r, row + 2 + 4 * j, 4);
  }
}
static void lay_q4_k(u8 *to, const u8 *row, i64 r, i64 blocks) {
  for (i64 b = 0; b < blocks; b++, row += 144, to += 2368) {
    __builtin_memcpy(to + 2 * r, row, 2);
    __builtin_memcpy(to + 32 + 2 * r, row + 2, 2);
    for (i64 c = 0; c < 8; c++) {
      const u8 *const six = row + 4;
      to[64 + 16 * c + r] = c < 4 ? six[c] & 63 : (six[c + 4] & 15) | (six[c - 4] >> 6) << 4;
      to[192 + 16 * c + r] = c < 4 ? six[c + 4] & 63 : six[c + 4] >> 4 | (six[c] >> 6) << 4;
    }
    for (i64 j = 0; j < 32; j++) __builtin_memcpy(to + 320 + 64 * j + 4 * r, row + 16 + 4 * j, 4);
  }
}
static void lay_q6_k(u8 *to, const u8 *row, i64 r, i64 blocks) {
  for (i64 b = 0; b < blocks; b++, row += 210, to += 3392) {
    u8 v[256];
    for (i64 k = 0; k < 256; k++) { /* see the head of ops/quantized.h */
      const i64 half = k / 128, c = k % 128;
      const i64 nibble = row[half * 64 + c % 64] >> (c / 64 * 4) & 15, two = row[128 + half * 32 + c % 32] >> (c / 32 * 2) & 3;
      v[k] = (u8)(nibble | two << 4);
    }
    __builtin_memcpy(to + 2 * r, row + 208, 2);
    for (i64 c = 0; c < 16; c++) to[64 + 16 * c + r] = row[192 + c];
    for (i64 k = 0; k < 128; k++)
      to[320 + 768 * (k / 16 % 4) + 256 * (k / 64) + k % 16 / 4 * 64 + 4 * r + k % 4] =
          (u8)((v[k] & 15) | (v[k + 128] & 15) << 4);
    for (i64 k = 0; k < 64; k++)
      to[832 + 768 * (k / 16) + k % 16 / 4 * 64 + 4 * r + k % 4] =
          (u8)(v[k] >> 4 | v[k + 64] >> 4 << 2 | v[k + 128] >> 4 << 4 | v[k + 192] >> 4 << 6);
  }
}

static int lay(i64 kind, void *const *b, const i64 *d, i64 lo, i64 hi) {
  const i64 blocks = d[0], n = d[1], stride = blocks * file_bytes[kind], step = group_bytes(kind, blocks);
  for (i64 g = lo; g < hi; g++) {
    u8 *const to = (u8 *)b[0] + g * step;
    __builtin_memset(to, 0, (u64)step); /* rows that do not exist, and the partner of an odd block */
    for (i64 r = 0; r < ROWS && g * ROWS + r < n; r++) {
      const u8 *const row = (const u8 *)b[1] + (g * ROWS + r) * stride;
      (kind == MX_Q4_0 ? lay_q4_0 : kind == MX_Q4_K ? lay_q4_k : lay_q6_k)(to, row, r, blocks);
    }
  }
  return 0;
}
#define LAY(NAME, KIND)                                                                                                \
  int NAME(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {                                                \
    (void)ctx;                                                                                                         \
    return lay(KIND, b, d, lo, hi);                                                                                    \
  }
LAY(mx_k_pack_q4_0, MX_Q4_0)
LAY(mx_k_pack_q4_k, MX_Q4_K)
LAY(mx_k_pack_q6_k, MX_Q6_K)
