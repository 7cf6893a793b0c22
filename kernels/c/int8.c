// maxlab-flags: -O2
/* int8.c - products of bytes, y = act((q - zero) w^T * scales + bias): left rows of 8 bits, weights that are signed bytes.
 *
 * Weights are laid out once, in panels of 32 rows of w, which are columns of the product; 4 numbers of a column side by side
 * are what one instruction multiplies with the same 4 of a left row:
 *
 *        w[n, k]                      a panel: 32 sums of whole columns, then
 *        row 0 | a b c d | ...        k = 0..3 | a b c d | p q r s | ... 32 columns
 *        row 1 | p q r s | ...        k = 4..7 | ...                        up to a multiple of 64, with zeros
 *
 * Left rows are unsigned bytes q with a scale d and a zero z each, for (q - z) d; their lines are odd in number, so that rows
 * do not collide in the first cache.  Since sum (q - z) w = sum q w - z sum w, the product is of bytes as they are.
 *
 * Sums are integers of 32 bits, exact for up to 65536 k; so all instruction sets give the same bits: tiles (AMX, matrix.h),
 * vpdpbusd (AVX512-VNNI, AVX-VNNI), vpmaddwd on bytes that were made words (AVX-512, AVX2, SSE2), and vectors of C.  A register
 * tile holds its sums over all of k, and is finished while it is near: scales, bias and activation cost no further pass.
 *
 * MX_EMULATED_VNNI puts C in the place of vpdpbusd, MX_EMULATED_TILES in that of tiles.
 */
#include "matrix.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* of functions that are inlined, all of them */
#define INLINE static inline __attribute__((always_inline))
#define PANEL MX_NR
#define FOUR (4 * PANEL)       /* bytes of 4 k of a panel */
#define MANY_ROWS MX_INT8_ROWS /* left rows of an item */

#if defined(MX_EMULATED_VNNI) || (defined(__AVX512VNNI__) && defined(__AVX512F__))
#define VB 64 /* bytes of a vector */
#define HR 12 /* left rows of a register tile; it has 2 vectors of columns */
#define WHOLE
#elif defined(__AVXVNNI__) && defined(__AVX2__)
#define VB 32
#define HR 6
#define WHOLE
#elif defined(__AVX512BW__)
#define VB 64
#define HR 10
#elif defined(__AVX2__)
#define VB 32
#define HR 4
#else
#define VB 16
#define HR 4
#endif
#define LANES (VB / 4)
typedef i32 ints __attribute__((vector_size(VB), aligned(4), may_alias));
typedef u32 words __attribute__((vector_size(VB), aligned(4), may_alias));
typedef i16 shorts __attribute__((vector_size(VB), aligned(4), may_alias));
typedef f32 floats __attribute__((vector_size(VB), aligned(4), may_alias));

INLINE i64 min64(i64 a, i64 b) { return a < b ? a : b; }
INLINE i64 lines_of(i64 bytes) { return (bytes + 63) / 64; }
i64 mx_int8_step(i64 k) { return (lines_of(k) | 1) * 64; }
INLINE i64 panel_bytes(i64 k) { return 4 * PANEL + lines_of(k) * 64 * PANEL; }
i64 mx_int8_pack_size(i64 k, i64 n) { return (n + PANEL - 1) / PANEL * panel_bytes(k); }

/* ---- the product of 4 numbers of each column with 4 of a left row ----------------------------------------------------- */

#ifdef WHOLE
typedef ints factor; /* of the right side */
INLINE factor right_of(const u8 *p) { return *(const ints *)p; }
typedef ints left;
INLINE left left_of(const u8 *q) {
  i32 four;
  __builtin_memcpy(&four, q, 4);
  return (ints){0} + four;
}
INLINE ints dot(ints sum, left a, factor b) {
#if defined(MX_EMULATED_VNNI)
  for (int lane = 0; lane < LANES; lane++)
    for (int e = 0; e < 4; e++) sum[lane] += (a[lane] >> 8 * e & 255) * (i8)(b[lane] >> 8 * e);
#elif VB == 64
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
#endif
  return sum;
}
#else
/* Words: k and k + 2 of a column in one vector, k + 1 and k + 3 in another. */
typedef struct factor { shorts even, odd; } factor;
INLINE factor right_of(const u8 *p) {
  const shorts v = *(const shorts *)p;
  return (factor){(shorts)((words)v << 8 & 0xff00ff00u) >> 8, v >> 8};
}
typedef struct left { shorts even, odd; } left;
INLINE left left_of(const u8 *q) {
  u32 four;
  __builtin_memcpy(&four, q, 4);
  const words all = (words){0} + four;
  return (left){(shorts)(all & 0x00ff00ffu), (shorts)(all >> 8 & 0x00ff00ffu)};
}
INLINE ints add_pairs(ints sum, shorts a, shorts b) { /* two products of words and their sum, in a lane */
  ints p;
#if VB == 64
  __asm__("vpmaddwd %2, %1, %0" : "=v"(p) : "v"(a), "v"(b));
#elif defined(__AVX__)
  __asm__("vpmaddwd %2, %1, %0" : "=x"(p) : "x"(a), "x"(b));
#elif defined(__SSE2__)
  __asm__("pmaddwd %1, %0" : "=x"(p) : "x"(b), "0"(a));
#else
  p = ((ints)a << 16 >> 16) * ((ints)b << 16 >> 16) + ((ints)a >> 16) * ((ints)b >> 16);
#endif
  return sum + p;
}
INLINE ints dot(ints sum, left a, factor b) { return add_pairs(add_pairs(sum, a.even, b.even), a.odd, b.odd); }
#endif

/* ---- what becomes of the sums ----------------------------------------------------------------------------------------- */

/* Of the columns of a panel: the sums of their weights, and what products are multiplied with and what is added then. */
typedef struct end {
  f32 scales[PANEL], bias[PANEL];
  i32 sums[PANEL];
} end;

/* y = (sum - z * e->sums) * (d * e->scales) + e->bias for a vector of columns from c on */
INLINE void put(f32 *y, ints sum, f32 d, i32 z, const end *e, i64 c) {
  const words taken = (words)sum - ((words){0} + (u32)z) * *(const words *)(e->sums + c);
  const floats scale = ((floats){0} + d) * *(const floats *)(e->scales + c);
  *(floats *)(y + c) = __builtin_convertvector((ints)taken, floats) * scale + *(const floats *)(e->bias + c);
}

/* y[rows][ld] at 2 vectors of columns from c on, `rows` a literal: left rows `step` apart, `fours` times 4 k of the panel */
INLINE void tile(const int rows, f32 *RS y, i64 ld, const u8 *RS q, i64 step, const u8 *RS w, i64 fours, const f32 *RS d,
                 const i32 *RS z, const end *RS e, i64 c0) {
  ints c[HR][2];
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) c[i][0] = c[i][1] = (ints){0};
  w += 4 * c0;
  for (i64 k = 0; k < fours; k++, w += FOUR, q += 4) {
    const factor b0 = right_of(w), b1 = right_of(w + VB);
    __builtin_prefetch(w + 16 * FOUR);
    __builtin_prefetch(w + 16 * FOUR + VB);
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
      const left a = left_of(q + i * step);
      c[i][0] = dot(c[i][0], a, b0);
      c[i][1] = dot(c[i][1], a, b1);
    }
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
    put(y + i * ld, c[i][0], d[i], z[i], e, c0);
    put(y + i * ld, c[i][1], d[i], z[i], e, c0 + LANES);
  }
}
typedef void (*tile_fn)(f32 *RS, i64, const u8 *RS, i64, const u8 *RS, i64, const f32 *RS, const i32 *RS, const end *RS,
                        i64);
#define TILE(R)                                                                                                        \
  static void tile##R(f32 *RS y, i64 ld, const u8 *RS q, i64 step, const u8 *RS w, i64 fours, const f32 *RS d,         \
                      const i32 *RS z, const end *RS e, i64 c0) {                                                      \
    tile(R, y, ld, q, step, w, fours, d, z, e, c0);                                                                    \
  }
#define NAME(R) tile##R,
#if HR >= 12
#define EACH_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#elif HR >= 10
#define EACH_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10)
#elif HR >= 6
#define EACH_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define EACH_HEIGHT(X) X(1) X(2) X(3) X(4)
#endif
EACH_HEIGHT(TILE)
static const tile_fn tiles[HR + 1] = {0, EACH_HEIGHT(NAME)};

#ifdef HAS_TILES
/* 32 rows and the 32 columns of a panel at most; `low` is how many rows there are behind the first 16. */
static void matrix_tile(i64 low, i32 *sums, const u8 *q, i64 step, const u8 *w, i64 lines) {
  tile_zero(0);
  tile_zero(1);
  tile_zero(2);
  tile_zero(3);
  for (i64 l = 0; l < lines; l++, q += TILE_BYTES, w += TILE_ROWS * FOUR) {
    tile_load(6, w, FOUR);
    tile_load(7, w + TILE_BYTES, FOUR);
    tile_load(4, q, step);
    tile_dp_u8_s8(0, 4, 6);
    tile_dp_u8_s8(1, 4, 7);
    if (low <= 0) continue;
    tile_load(5, q + TILE_ROWS * step, step);
    tile_dp_u8_s8(2, 5, 6);
    tile_dp_u8_s8(3, 5, 7);
  }
  tile_store(0, sums, 4 * PANEL);
  tile_store(1, sums + 16, 4 * PANEL);
  if (low <= 0) return;
  tile_store(2, sums + TILE_ROWS * PANEL, 4 * PANEL);
  tile_store(3, sums + TILE_ROWS * PANEL + 16, 4 * PANEL);
}
#endif

/* ---- what follows ----------------------------------------------------------------------------------------------------- */

#define EACH_NUMBER MX_EACH_LANE for (i64 j = 0; j < count; j++)
INLINE void activate(i64 activation, f32 *RS v, i64 count) {
  switch (activation) {
  case MX_RELU: EACH_NUMBER v[j] = v[j] < 0.0f ? 0.0f : v[j]; break;
  case MX_GELU: EACH_NUMBER v[j] = mx_gelu_fast_f32(v[j]); break; /* bytes are a thousand times as far off */
  case MX_GELU_TANH: EACH_NUMBER v[j] = mx_gelu_tanh_f32(v[j]); break;
  case MX_GELU_QUICK: EACH_NUMBER v[j] = mx_gelu_quick_f32(v[j]); break;
  case MX_SILU: EACH_NUMBER v[j] = mx_silu_f32(v[j]); break;
  case MX_SIGMOID: EACH_NUMBER v[j] = mx_sigmoid_f32(v[j]); break;
  case MX_TANH: EACH_NUMBER v[j] = mx_tanh_f32(v[j]); break;
  default: break;
  }
}
/* y[rows][n] at some columns of a panel, from v[rows][PANEL] */
static void finish(f32 *RS y, i64 n, i64 columns, f32 *RS v, i64 rows, i64 activation) {
  activate(activation, v, rows * PANEL);
  for (i64 i = 0; i < rows; i++, v += PANEL, y += n) {
    if (columns == PANEL) __builtin_memcpy(y, v, 4 * PANEL);
    else __builtin_memcpy(y, v, (u64)columns * 4);
  }
}

int mx_int8_product(f32 *y, i64 n, const u8 *w, i64 k, const u8 *q, const f32 *d, const i32 *z, i64 m, const f32 *scales,
                    const f32 *bias, i64 activation, i64 lo, i64 hi, mx_ctx *ctx) {
  const i64 step = mx_int8_step(k), fours = (k + 3) / 4, down = (m + MANY_ROWS - 1) / MANY_ROWS;
  i64 unasked = MX_ASKED;
  int code = 0;
#ifdef HAS_TILES
  const int has_tiles = mx_has_tiles() && m > 4;
#endif
  for (i64 item = lo; item < hi && !code; item++) { /* down the rows first: a panel stays near */
    const i64 c0 = item / down * PANEL, columns = min64(PANEL, n - c0);
    const i64 r0 = item % down * MANY_ROWS, rows = min64(MANY_ROWS, m - r0);
    const u8 *const panel = w + item / down * panel_bytes(k);
    end e = {{0}, {0}, {0}};
    __builtin_memcpy(e.sums, panel, sizeof e.sums);
    __builtin_memcpy(e.scales, scales + c0, (u64)columns * 4);
    __builtin_memcpy(e.bias, bias + c0, (u64)columns * 4);
    if (mx_over(ctx, &unasked, rows * PANEL * k / 2)) {
      code = MX_STOPPED;
      break;
    }
#ifdef HAS_TILES
    i32 sums[2 * TILE_ROWS * PANEL] __attribute__((aligned(64)));
    f32 made[2 * TILE_ROWS * PANEL] __attribute__((aligned(64)));
    i64 shaped = 0; /* the rows that tiles are set for; whoever was asked above may have used them */
    for (i64 r = 0; has_tiles && r < rows; r += 2 * TILE_ROWS) {
      const i64 high = min64(TILE_ROWS, rows - r), low = min64(TILE_ROWS, rows - r - high);
      if (shaped != high + low) {
        const tile_shapes shapes = shapes_of(high, low);
        tile_configure(&shapes);
        shaped = high + low;
      }
      const i64 at = r0 + r;
      matrix_tile(low, sums, q + at * step, step, panel + 4 * PANEL, lines_of(k));
      for (i64 i = 0; i < high + low; i++)
        for (i64 c = 0; c < PANEL; c += LANES)
          put(made + i * PANEL, *(const ints *)(sums + i * PANEL + c), d[at + i], z[at + i], &e, c);
      finish(y + at * n + c0, n, columns, made, high + low, activation);
    }
    if (has_tiles) continue;
#else
    f32 made[HR * PANEL] __attribute__((aligned(64)));
#endif
    const int in_place = columns == PANEL && !activation;
    const i64 groups = (rows + HR - 1) / HR;
    for (i64 g = 0; g < groups; g++) { /* as equal as possible */
      const i64 at = r0 + rows * g / groups, h = r0 + rows * (g + 1) / groups - at;
      f32 *const to = y + at * n + c0;
      for (i64 c = 0; c < PANEL; c += 2 * LANES)
        tiles[h](in_place ? to : made, in_place ? n : PANEL, q + at * step, step, panel + 4 * PANEL, fours, d + at, z + at,
                 &e, c);
      if (!in_place) finish(to, n, columns, made, h, activation);
    }
  }
#ifdef HAS_TILES
  if (has_tiles) tile_release();
#endif
  return code;
}

/* ---- left rows -------------------------------------------------------------------------------------------------------- */

/* a > b ? a : b and a < b ? a : b in each lane: b where one of them is NaN */
#if VB == 64 && defined(__AVX512F__)
#define PICKED(NAME, OP) __asm__("v" NAME " %2, %1, %0" : "=v"(r) : "v"(a), "v"(b))
#elif VB == 32 && defined(__AVX__)
#define PICKED(NAME, OP) __asm__("v" NAME " %2, %1, %0" : "=x"(r) : "x"(a), "x"(b))
#elif VB == 16 && defined(__SSE2__)
#define PICKED(NAME, OP) __asm__(NAME " %1, %0" : "=x"(r) : "x"(b), "0"(a))
#else
#define PICKED(NAME, OP) for (int lane = 0; lane < LANES; lane++) r[lane] = a[lane] OP b[lane] ? a[lane] : b[lane]
#endif
INLINE floats larger(floats a, floats b) {
  floats r;
  PICKED("maxps", >);
  return r;
}
INLINE floats smaller(floats a, floats b) {
  floats r;
  PICKED("minps", <);
  return r;
}
INLINE floats added(floats a, floats b) { return a + b; }
#if VB == 64
#define FOLDED(v, WITH)                                                                                                \
  (v = WITH(v, (floats)MX_TURN(v, 8)), v = WITH(v, (floats)MX_TURN(v, 4)), v = WITH(v, (floats)MX_TURN(v, 2)),         \
   v = WITH(v, (floats)MX_TURN(v, 1)))
#else
#define FOLDED(v, WITH)                                                                                                \
  for (int lane = 1; lane < LANES; lane++) v = WITH(v, (floats){0} + v[lane])
#endif

/* Of a row, 2 vectors at a time: its least and its largest number, or 0, and 0 or, where one is no number, NaN. */
typedef struct span { floats low[2], high[2], none[2]; } span;
INLINE void widen(const int takes_infinities, span *s, const f32 *x) {
  _Pragma("GCC unroll 2") for (int p = 0; p < 2; p++) {
    const floats largest = (floats){0} + 0x1.fffffep127f;
    floats v = *(const floats *)(x + p * LANES);
    s->low[p] = smaller(v, s->low[p]);
    s->high[p] = larger(v, s->high[p]);
    if (takes_infinities) v = larger(-largest, smaller(largest, v));
    s->none[p] += v * 0.0f;
  }
}
INLINE f32 span_of(const int takes_infinities, const f32 *x, i64 k, f32 *low, f32 *high) {
  const floats zero = {0};
  span s = {{zero, zero}, {zero, zero}, {zero, zero}};
  i64 j = 0;
  for (; j + 2 * LANES <= k; j += 2 * LANES) widen(takes_infinities, &s, x + j);
  if (j < k) {
    f32 rest[2 * LANES] = {0};
    __builtin_memcpy(rest, x + j, (u64)(k - j) * 4);
    widen(takes_infinities, &s, rest);
  }
  floats least = smaller(s.low[0], s.low[1]), most = larger(s.high[0], s.high[1]), none = s.none[0] + s.none[1];
  FOLDED(least, smaller);
  FOLDED(most, larger);
  FOLDED(none, added);
  *low = least[0];
  *high = most[0];
  return none[0];
}

/* q = round(x / scale) + zero, within a byte; the scale and the zero are given, or such that the least and the largest number
 * of the row, and 0, are what 0 and 255 stand for.  A row with a NaN gives NaN, and so does an infinity that has to be scaled. */
static void bytes_of(u8 *RS q, f32 *RS d, i32 *RS z, const f32 *RS x, i64 k, const f32 *given) {
  f32 low, high, scale, zero;
  if (given) {
    const f32 none = span_of(1, x, k, &low, &high);
    scale = given[0] > 0.0f && none == 0.0f ? given[0] : __builtin_nanf("");
    zero = mx_rint_f32(given[1] > 0.0f ? given[1] < 255.0f ? given[1] : 255.0f : 0.0f);
  } else {
    const f32 none = span_of(0, x, k, &low, &high);
    scale = high / 255.0f - low / 255.0f;
    if (scale < 0x1p-126f) scale = 0x1p-126f; /* its inverse is no infinity */
    zero = mx_rint_f32(-low / scale);
    if (none != 0.0f) scale = __builtin_nanf("");
  }
  *d = scale;
  *z = scale == scale ? (i32)zero : 0;
  if (scale != scale) {
    __builtin_memset(q, 0, (u64)k);
    return;
  }
  const f32 inverse = 1.0f / scale, first = -zero, last = 255.0f - zero;
  const u32 from = (u32)*z;
  #pragma omp simd
  for (i64 j = 0; j < k; j++) {
    f32 v = x[j] * inverse;
    v = v > first ? v : first;
    v = v < last ? v : last;
    q[j] = (u8)(mx_bits_f32(v + 0x1.8p23f) + from); /* the last byte of that is the integer next to v */
  }
}

void mx_int8_left(u8 *q, f32 *d, i32 *z, const void *x, i64 kind, i64 k, const f32 *given, i64 lo, i64 hi) {
  const i64 step = mx_int8_step(k);
  for (i64 i = lo; i < hi; i++) {
    u8 *const to = q + i * step;
    __builtin_memset(to + k, 0, (u64)(step - k));
    if (kind == MX_FLOATS) {
      bytes_of(to, d + i, z + i, (const f32 *)x + i * k, k, given);
      continue;
    }
    const i64 middle = kind == MX_SIGNED ? 128 : 0;
    const f32 low = (f32)-middle, high = low + 255.0f, zero = given[1];
    const u8 *RS from = (const u8 *)x + i * k;
    #pragma omp simd
    for (i64 j = 0; j < k; j++) to[j] = (u8)(from[j] + middle);
    d[i] = given[0] > 0.0f ? given[0] : __builtin_nanf("");
    z[i] = (i32)(mx_rint_f32(zero > low ? zero < high ? zero : high : low) + (f32)middle);
  }
}

/* ---- laying out ------------------------------------------------------------------------------------------------------- */

void mx_int8_pack(u8 *to, const i8 *w, i64 k, i64 n, i64 lo, i64 hi) {
  const i64 size = panel_bytes(k);
  for (i64 p = lo; p < hi; p++) {
    u8 *const panel = to + p * size;
    i32 sums[PANEL] = {0};
    __builtin_memset(panel, 0, (u64)size);
    for (i64 r = 0; r < PANEL && p * PANEL + r < n; r++) {
      const i8 *RS row = w + (p * PANEL + r) * k;
      i32 sum = 0;
      #pragma omp simd reduction(+ : sum)
      for (i64 j = 0; j < k; j++) sum += row[j];
      sums[r] = sum;
    }
    for (i64 j = 0; j < k; j += 64) /* a cache line of each row at a time */
      for (i64 r = 0; r < PANEL && p * PANEL + r < n; r++)
        for (i64 e = j; e < min64(k, j + 64); e += 4)
          __builtin_memcpy(panel + 4 * PANEL + e / 4 * FOUR + 4 * r, w + (p * PANEL + r) * k + e, (u64)min64(4, k - e));
    __builtin_memcpy(panel, sums, sizeof sums);
  }
}
int mx_k_pack_int8(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)ctx;
  mx_int8_pack(b[0], b[1], d[0], d[1], lo, hi);
  return 0;
}
