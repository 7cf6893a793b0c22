// vectors.h - vectors of floats, and folds of rows: sections for generated kernels, see prelude.h.

// @section shuffle needs abi
/* MX_SHUFFLE(MASK, a, b, ...): elements of the vectors a and b, by their numbers; MASK is a type of as many integers.  gcc has
 * the other form from version 12 on. */
#ifdef __clang__
#define MX_SHUFFLE(MASK, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MX_SHUFFLE(MASK, a, b, ...) __builtin_shuffle(a, b, (MASK){__VA_ARGS__})
#endif
// @end

// @section extremes needs bits
/* What maxima and minima of floats are folded as in loops with `omp simd reduction`.  gcc makes vectors of `a = v > a ? v : a`.
 * clang does so only where NaN and the sign of zero do not matter, which they do; so with clang they are integers of the same
 * order.  A kernel notes apart whether a NaN was among them. */
#ifdef __clang__
typedef i32 mx_fold_f32;
typedef i64 mx_fold_f64;
INL i32 mx_to_fold_f32(f32 x) { i32 b = (i32)mx_bits_f32(x); return b ^ (b >> 31 & 0x7fffffff); }
INL f32 mx_of_fold_f32(i32 k) { return mx_f32_bits((u32)(k ^ (k >> 31 & 0x7fffffff))); }
INL i64 mx_to_fold_f64(f64 x) { i64 b = (i64)mx_bits_f64(x); return b ^ (b >> 63 & 0x7fffffffffffffff); }
INL f64 mx_of_fold_f64(i64 k) { return mx_f64_bits((u64)(k ^ (k >> 63 & 0x7fffffffffffffff))); }
#else
typedef f32 mx_fold_f32;
typedef f64 mx_fold_f64;
INL f32 mx_to_fold_f32(f32 x) { return x; }
INL f32 mx_of_fold_f32(f32 x) { return x; }
INL f64 mx_to_fold_f64(f64 x) { return x; }
INL f64 mx_of_fold_f64(f64 x) { return x; }
#endif
// @end

// @section lanes needs extremes shuffle
/* A vector of as many floats as the machine adds at once, and what is left of its lanes at the end of a row: their sum, their
 * maximum or minimum in the form of mx_fold_f32, or whether one has a bit.  For `omp simd reduction` gcc has one vector, whose
 * additions wait for each other, and ends with a scalar loop over its lanes; a row that keeps some of these does neither. */
#ifdef __clang__ /* which else writes out a loop of so few elements before it thinks of vectors */
#define MX_EACH_LANE _Pragma("clang loop vectorize(assume_safety) interleave(disable) unroll(disable)")
#else
#define MX_EACH_LANE _Pragma("omp simd")
#endif
#if defined(__AVX512F__)
#define MX_LANES 16
#define MX_LANES_TURNED(x, n)                                                                                          \
  MX_SHUFFLE(mx_lane_bits, x, x, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9, n + 10, n + 11,     \
             n + 12, n + 13, n + 14, n + 15)
#elif defined(__AVX__)
#define MX_LANES 8
#define MX_LANES_TURNED(x, n) MX_SHUFFLE(mx_lane_bits, x, x, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7)
#else
#define MX_LANES 4
#define MX_LANES_TURNED(x, n) MX_SHUFFLE(mx_lane_bits, x, x, n, n + 1, n + 2, n + 3)
#endif
typedef f32 __attribute__((vector_size(4 * MX_LANES), aligned(4), may_alias)) mx_lanes;
typedef i32 __attribute__((vector_size(4 * MX_LANES))) mx_lane_bits;
INL mx_lanes mx_lanes_plus(mx_lanes a, mx_lanes b) { return a + b; }
INL mx_lanes mx_lanes_or(mx_lanes a, mx_lanes b) { return (mx_lanes)((mx_lane_bits)a | (mx_lane_bits)b); }
#ifdef __clang__ /* in whose form of mx_fold_f32 they are integers */
#define MX_LANES_PICK(NAME, OP)                                                                                        \
  INL mx_lanes NAME(mx_lanes a, mx_lanes b) {                                                                          \
    mx_lane_bits x = (mx_lane_bits)a, y = (mx_lane_bits)b, m = y OP x;                                                 \
    return (mx_lanes)((y & m) | (x & ~m));                                                                             \
  }
#else
#define MX_LANES_PICK(NAME, OP)                                                                                        \
  INL mx_lanes NAME(mx_lanes a, mx_lanes b) {                                                                          \
    mx_fold_f32 x[MX_LANES], y[MX_LANES];                                                                              \
    *(mx_lanes *)x = a;                                                                                                \
    *(mx_lanes *)y = b;                                                                                                \
    MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] = y[l] OP x[l] ? y[l] : x[l];                          \
    return *(mx_lanes *)x;                                                                                             \
  }
#endif
INL mx_lanes mx_lanes_max(mx_lanes a, mx_lanes b);
INL mx_lanes mx_lanes_min(mx_lanes a, mx_lanes b);
MX_LANES_PICK(mx_lanes_max, >)
MX_LANES_PICK(mx_lanes_min, <)
INL mx_lanes mx_lanes_read(const f32 *x) { /* once: gcc would read the row again for each use, and miss the cache again */
  mx_lanes v = *(const mx_lanes *)x;
#ifdef __x86_64__
  __asm__("" : "+x"(v));
#endif
  return v;
}
INL mx_lanes mx_lanes_fold(mx_lanes x) { /* in the form of mx_fold_f32 */
#ifdef __clang__
  mx_lane_bits b = (mx_lane_bits)x;
  x = (mx_lanes)(b ^ ((b >> 31) & 0x7fffffff));
#endif
  return x;
}
INL mx_lanes mx_lanes_nan(mx_lanes x) { return (mx_lanes)(mx_lane_bits)(x != x); } /* all bits where it is one */
#define MX_LANES_TREE(NAME, T, OF_TWO)                                                                                 \
  INL T NAME(mx_lanes x) {                                                                                             \
    T first;                                                                                                           \
    if (MX_LANES > 8) x = OF_TWO(x, MX_LANES_TURNED(x, (8 % MX_LANES)));                                               \
    if (MX_LANES > 4) x = OF_TWO(x, MX_LANES_TURNED(x, (4 % MX_LANES)));                                               \
    x = OF_TWO(x, MX_LANES_TURNED(x, 2));                                                                              \
    x = OF_TWO(x, MX_LANES_TURNED(x, 1));                                                                              \
    __builtin_memcpy(&first, &x, sizeof first);                                                                        \
    return first;                                                                                                      \
  }
INL f32 mx_sum_of_lanes(mx_lanes x);
INL i32 mx_any_of_lanes(mx_lanes x);
INL mx_fold_f32 mx_max_of_lanes(mx_lanes x);
INL mx_fold_f32 mx_min_of_lanes(mx_lanes x);
MX_LANES_TREE(mx_sum_of_lanes, f32, mx_lanes_plus)
MX_LANES_TREE(mx_any_of_lanes, i32, mx_lanes_or)
MX_LANES_TREE(mx_max_of_lanes, mx_fold_f32, mx_lanes_max)
MX_LANES_TREE(mx_min_of_lanes, mx_fold_f32, mx_lanes_min)
// @end

// @section stream needs lanes
/* Stores of whole vectors that go around the caches: a result that no cache can hold is written without being read first, and
 * what is in the caches stays there.  They are for addresses of whole vectors; other threads see them after mx_streamed. */
typedef f32 __attribute__((vector_size(4 * MX_LANES), may_alias)) mx_whole_lanes;
INL i64 mx_until_whole(const f32 *p) { /* floats from p to the next such address */
  return (i64)((-(u64)p & (sizeof(mx_whole_lanes) - 1)) / sizeof *p);
}
INL void mx_stream_lanes(f32 *p, const f32 *x) {
  mx_lanes v = *(const mx_lanes *)x;
#if defined(__clang__)
  __builtin_nontemporal_store((mx_whole_lanes)v, (mx_whole_lanes *)p);
#elif defined(__AVX512F__)
  __builtin_ia32_movntps512(p, v);
#elif defined(__AVX__)
  __builtin_ia32_movntps256(p, v);
#else
  *(mx_whole_lanes *)p = v;
#endif
}
INL void mx_streamed(void) {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#elif defined(__aarch64__)
  __asm__ volatile("dmb ishst" ::: "memory");
#endif
}
// @end

// @section exp_lanes needs lanes exp_f32
/* e^x of the floats of a vector, 0.56 ulp, and 0.76 of what becomes subnormal, which is rounded twice: e^x = 2^(n/16) e^r with
 * |r| < 0.022, for which a polynomial of degree 3 is enough.  The sixteen powers lie in registers, each in two parts.  AVX-512
 * multiplies by a power of two at once, with one rounding, at both ends too; no loop that gcc makes vectors of has these
 * instructions. */
#if defined(__AVX2__) && defined(__FMA__)
#define MX_POWERS                                                                                                      \
  1.0f, 1.0442737f, 1.0905077f, 1.1387886f, 1.1892071f, 1.2418578f, 1.2968396f, 1.3542556f, 1.4142135f, 1.4768262f,    \
      1.5422108f, 1.6104903f, 1.6817929f, 1.7562522f, 1.8340081f, 1.9152066f
#define MX_POWERS_REST                                                                                                 \
  0.0f, 4.83347e-08f, -1.307754e-08f, 5.3862223e-08f, 3.7976353e-08f, 4.496838e-08f, -4.0189995e-08f, -1.0123349e-08f, \
      2.4203235e-08f, -4.500899e-08f, 8.070905e-09f, 9.836217e-09f, -2.4755327e-08f, -9.23577e-09f, -1.1239278e-08f,   \
      9.845328e-09f
INL mx_lanes mx_lanes_between(mx_lanes x, f32 low, f32 high) { /* a NaN stays one */
  mx_lanes top = (mx_lanes){0} + high, bottom = (mx_lanes){0} + low;
  __asm__("vminps %1, %2, %0" : "=v"(x) : "v"(x), "v"(top));
  __asm__("vmaxps %1, %2, %0" : "=v"(x) : "v"(x), "v"(bottom));
  return x;
}
INL mx_lanes mx_lanes_size(mx_lanes x, f32 high) { /* |x|, but at most `high`; a NaN stays one */
  mx_lanes top = (mx_lanes){0} + high;
  x = (mx_lanes)((mx_lane_bits)x & 0x7fffffff);
  __asm__("vminps %1, %2, %0" : "=v"(x) : "v"(x), "v"(top));
  return x;
}
INL mx_lanes mx_lanes_of_16(const f32 *table, mx_lanes at) { /* numbers of a table; of `at`, bits 0 to 3 count */
  mx_lanes y;
#if MX_LANES == 16
  __asm__("vpermps %2, %1, %0" : "=v"(y) : "v"(at), "v"(*(const mx_lanes *)table));
#else
  mx_lanes z, sign = (mx_lanes)((mx_lane_bits)at << 28); /* bit 3, which chooses between the halves */
  __asm__("vpermps %2, %1, %0" : "=x"(y) : "x"(at), "x"(*(const mx_lanes *)table));
  __asm__("vpermps %2, %1, %0" : "=x"(z) : "x"(at), "x"(*(const mx_lanes *)(table + 8)));
  __asm__("vblendvps %3, %2, %1, %0" : "=x"(y) : "x"(y), "x"(z), "x"(sign));
#endif
  return y;
}
INL mx_lanes mx_lanes_fma(mx_lanes a, mx_lanes b, mx_lanes c) { /* a b + c: gcc at -O1 makes two operations of it */
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  return c;
}
INL mx_lanes mx_lanes_all(f32 x) { return (mx_lanes){0} + x; }
INL mx_lanes mx_lanes_pick(mx_lane_bits where, mx_lanes a, mx_lanes b) { /* a where all bits are set, b where none is */
  return (mx_lanes)(((mx_lane_bits)a & where) | ((mx_lane_bits)b & ~where));
}
INL mx_lanes mx_lanes_scaled(mx_lanes x, mx_lanes n) { /* x * 2^n, for n rounded down */
#if defined(__AVX512F__)
  __asm__("vscalefps %2, %1, %0" : "=v"(x) : "v"(x), "v"(n));
#else
  f32 y[MX_LANES], k[MX_LANES];
  *(mx_lanes *)y = x;
  *(mx_lanes *)k = n;
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) y[l] = mx_exp_scaled_f32(y[l], __builtin_floorf(k[l]));
  x = *(mx_lanes *)y;
#endif
  return x;
}
#if defined(__AVX512F__)
INL mx_lanes mx_lanes_inverse(mx_lanes x) { /* 1 / x to 1 ulp, for x from 2^-126 to 2^126: 14 bits, then a step of Newton's */
  mx_lanes y;
  f32 u[MX_LANES], v[MX_LANES];
  __asm__("vrcp14ps %1, %0" : "=v"(y) : "v"(x));
  *(mx_lanes *)u = x;
  *(mx_lanes *)v = y;
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) v[l] = __builtin_fmaf(v[l], __builtin_fmaf(-u[l], v[l], 1.0f), v[l]);
  return *(mx_lanes *)v;
}
#endif
/* e^x = 2^floor(n) (high + the result), for x from -110 to 90 */
INL mx_lanes mx_exp_parts(mx_lanes x, mx_lanes *high, mx_lanes *n) {
  static const f32 powers[16] = {MX_POWERS}, rests[16] = {MX_POWERS_REST};
  mx_lanes t = mx_lanes_fma(x, mx_lanes_all(1.44269504f), mx_lanes_all(0x1.8p19f));
  mx_lanes k = t - 0x1.8p19f, q; /* 16 k is whole, and in the last bits of t */
  x = mx_lanes_fma(k, mx_lanes_all(-3.19461833e-05f), mx_lanes_fma(k, mx_lanes_all(-0.693115234f), x));
  q = mx_lanes_fma(x * x, mx_lanes_fma(x, mx_lanes_all(0.166667193f), mx_lanes_all(0.500016212f)), x);
  *high = mx_lanes_of_16(powers, t);
  *n = k;
  return mx_lanes_fma(*high, q, mx_lanes_of_16(rests, t));
}
#endif
INL void mx_exp_lanes_f32(f32 *x) {
#if defined(__AVX2__) && defined(__FMA__) && !defined(MX_EXACT)
  mx_lanes high, n, rest = mx_exp_parts(mx_lanes_between(*(mx_lanes *)x, -105.0f, 90.0f), &high, &n);
  *(mx_lanes *)x = mx_lanes_scaled(high + rest, n);
#else
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] = mx_exp_f32(x[l]);
#endif
}
// @end

// @section piece_lanes needs exp_lanes
/* A function by its table, see tables.h: p(d) with d = a - m, and f(m) + d p(d).  The last four bits of `at` name the piece;
 * `terms`, 5 to 7, are known when it is compiled. */
#if defined(__AVX2__) && defined(__FMA__)
INL mx_lanes mx_factor_of(const f32 (*table)[16], i32 terms, mx_lanes at, mx_lanes d) {
  mx_lanes p = mx_lanes_of_16(table[terms + 1], at);
  if (terms > 6) p = mx_lanes_fma(p, d, mx_lanes_of_16(table[7], at));
  if (terms > 5) p = mx_lanes_fma(p, d, mx_lanes_of_16(table[6], at));
  p = mx_lanes_fma(p, d, mx_lanes_of_16(table[5], at));
  p = mx_lanes_fma(p, d, mx_lanes_of_16(table[4], at));
  p = mx_lanes_fma(p, d, mx_lanes_of_16(table[3], at));
  return mx_lanes_fma(p, d, mx_lanes_of_16(table[2], at));
}
INL mx_lanes mx_growing_of(const f32 (*table)[16], i32 terms, f32 scale, mx_lanes a) { /* of pieces by 1 + scale a */
  mx_lanes v = mx_lanes_fma(a, mx_lanes_all(scale), mx_lanes_all(1.0f));
  mx_lanes at = (mx_lanes)((mx_lane_bits)v >> 21), d = a - mx_lanes_of_16(table[0], at);
  return mx_lanes_fma(mx_factor_of(table, terms, at, d), d, mx_lanes_of_16(table[1], at));
}
/* `right`, and e^x times it where x < 0; scaled at the end, so that what becomes subnormal has all its digits before.  Near 0,
 * where e^x is 1, the sum might lose the sign of a zero. */
INL mx_lanes mx_to_the_left(const f32 *x, mx_lanes right) {
  mx_lanes high, k, rest = mx_exp_parts(mx_lanes_between(*(const mx_lanes *)x, -110.0f, 0.0f), &high, &k);
  mx_lane_bits left = *(const mx_lanes *)x < mx_lanes_all(-0x1p-100f);
  right = mx_lanes_pick(left, mx_lanes_fma(right, high, right * rest), right);
  return mx_lanes_scaled(right, (mx_lanes)((mx_lane_bits)k & left));
}
#endif
// @end

// @section erf_lanes needs piece_lanes erf_table erf_f32
/* erf of the floats of a vector, 0.64 ulp: a piece has a polynomial of degree 6, whose error counts little beside the value at
 * its middle, or near 0 beside the number itself. */
INL void mx_erf_lanes_f32(f32 *x) {
#if defined(__AVX2__) && defined(__FMA__) && !defined(MX_EXACT)
  const f32 shift = 0x1.8p23f; /* in a sum with it the last bits are the nearest integer */
  mx_lanes a = mx_lanes_size(*(mx_lanes *)x, 3.97f), at = mx_lanes_fma(a, mx_lanes_all(3.9f), mx_lanes_all(shift));
  mx_lanes d = a - mx_lanes_of_16(mx_erf_table[0], at), p = mx_factor_of(mx_erf_table, 6, at, d);
  mx_lanes near = mx_lanes_fma(a, p, a), far = mx_lanes_fma(d, p, mx_lanes_of_16(mx_erf_table[1], at));
  mx_lane_bits sign = (mx_lane_bits){0} + ~0x7fffffff;
  *(mx_lanes *)x = mx_lanes_pick(sign, *(mx_lanes *)x, mx_lanes_pick(at > mx_lanes_all(shift + 3.0f), far, near));
#else
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] = mx_erf_f32(x[l]);
#endif
}
// @end

// @section gelu_lanes needs piece_lanes normal_table gelu_f32
/* gelu of the floats of a vector, 2.6 ulp: max(x, 0) - |x| Q(|x|), where Q is the part of the normal distribution to the left,
 * and a Q(a) is e^(-a^2/2) times what the table has. */
INL void mx_gelu_lanes_f32(f32 *x) {
#if defined(__AVX512F__) && !defined(MX_EXACT) && !defined(MX_FAST)
  static const f32 powers[16] = {MX_POWERS};
  mx_lanes a = mx_lanes_size(*(mx_lanes *)x, 14.8f), s = a * a, t, k, r, q, high;
  f32 g[MX_LANES];
  t = mx_lanes_fma(s, mx_lanes_all(-0.72134752f), mx_lanes_all(0x1.8p19f)); /* see mx_exp_parts: e^(-r/2) is left of e^(-s/2) */
  k = t - 0x1.8p19f;
  high = mx_lanes_of_16(powers, t);
  r = mx_lanes_fma(k, mx_lanes_all(2.0f * 3.19461833e-05f), mx_lanes_fma(k, mx_lanes_all(2.0f * 0.693115234f), s));
  r += mx_lanes_fma(a, a, -s); /* what s lost when it was rounded */
  q = mx_lanes_fma(r, mx_lanes_fma(r, mx_lanes_all(-0.0208333991f), mx_lanes_all(0.125004053f)), mx_lanes_all(-0.5f));
  q = mx_lanes_fma(high * r, q, high);
  *(mx_lanes *)g = mx_lanes_scaled(mx_growing_of(mx_normal_table, 6, 1.0f, a) * q, k);
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] = (x[l] > 0.0f ? x[l] : 0.0f * x[l]) - g[l];
#else
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] = mx_gelu_f32(x[l]);
#endif
}
// @end

// @section sigmoid_lanes needs piece_lanes sigmoid_table sigmoid_f32 silu_f32
/* sigmoid(x), 1.3 ulp, and x sigmoid(x), 2.3 ulp: with h of |x| from the table h to the right of 0, and e^x h to the left.
 * With MX_FAST a quotient by an inverse that is not divided. */
#if defined(__AVX512F__)
INL mx_lanes mx_sigmoid_size(f32 *x) { /* of |x| */
  return mx_growing_of(mx_sigmoid_table, 5, 0.8f, mx_lanes_size(*(mx_lanes *)x, 18.7f)); /* of more it is 1 */
}
#endif
INL void mx_sigmoid_lanes_f32(f32 *x) {
#if defined(__AVX512F__) && defined(MX_FAST)
  f32 n[MX_LANES];
  *(mx_lanes *)x = mx_lanes_between(*(mx_lanes *)x, -105.0f, 80.0f);
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) {
    n[l] = mx_exp_turns_f32(x[l]);
    x[l] = mx_exp_rest_f32(x[l], n[l]);
  }
  *(mx_lanes *)x = mx_lanes_scaled(*(mx_lanes *)x, *(mx_lanes *)n);
  *(mx_lanes *)x *= mx_lanes_inverse(*(mx_lanes *)x + 1.0f);
#elif defined(__AVX512F__) && !defined(MX_EXACT)
  *(mx_lanes *)x = mx_to_the_left(x, mx_sigmoid_size(x));
#else
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] = mx_sigmoid_f32(x[l]);
#endif
}
INL void mx_silu_lanes_f32(f32 *x) {
#if defined(MX_FAST)
  f32 y[MX_LANES];
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) y[l] = x[l];
  mx_sigmoid_lanes_f32(y);
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] *= y[l];
#elif defined(__AVX512F__) && !defined(MX_EXACT)
  f32 h[MX_LANES];
  *(mx_lanes *)h = mx_sigmoid_size(x);
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) /* NaN for -inf, as composed */
    h[l] *= x[l] > -110.0f ? x[l] : 0.0f * x[l] - 110.0f;
  *(mx_lanes *)x = mx_to_the_left(x, *(mx_lanes *)h);
#else
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] = mx_silu_f32(x[l]);
#endif
}
// @end

// @section fast_lanes needs sigmoid_lanes tanh_f32
/* More functions of vectors with MX_FAST: their quotients by an inverse that is not divided. */
INL void mx_tanh_lanes_f32(f32 *x) {
#if defined(__AVX512F__) && defined(MX_FAST)
  f32 n[MX_LANES], power[MX_LANES];
  *(mx_lanes *)x = mx_lanes_between(*(mx_lanes *)x, -9.5f, 9.5f);
  *(mx_lanes *)x += *(mx_lanes *)x;
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) n[l] = mx_exp_turns_f32(x[l]);
  *(mx_lanes *)power = mx_lanes_scaled((mx_lanes){0} + 1.0f, *(mx_lanes *)n);
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++)
    x[l] = __builtin_fmaf(power[l], mx_exp_short_f32(x[l], n[l]), power[l] - 1.0f);
  *(mx_lanes *)x *= mx_lanes_inverse(*(mx_lanes *)x + 2.0f);
#else
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] = mx_tanh_f32(x[l]);
#endif
}
INL void mx_gelu_quick_lanes_f32(f32 *x) {
  f32 y[MX_LANES];
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) y[l] = 1.702f * x[l];
  mx_sigmoid_lanes_f32(y);
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] *= y[l];
}
INL void mx_gelu_tanh_lanes_f32(f32 *x) {
  f32 y[MX_LANES];
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) y[l] = x[l] * __builtin_fmaf(0.0713548163f, x[l] * x[l], 1.59576912f);
  mx_sigmoid_lanes_f32(y);
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] *= y[l];
}
// @end

// @section tanh_sigmoid_lanes needs piece_lanes tanh_sigmoid_table tanh_sigmoid_f32
/* tanh(x) sigmoid(x) of the floats of a vector, 2.9 ulp: with h of |x| from the table h to the right of 0, and -e^x h to the
 * left.  With MX_FAST a quotient by an inverse that is not divided. */
INL void mx_tanh_sigmoid_lanes_f32(f32 *x) {
#if defined(__AVX512F__) && defined(MX_FAST)
  f32 n[MX_LANES], power[MX_LANES], below[MX_LANES];
  *(mx_lanes *)x = mx_lanes_between(*(mx_lanes *)x, -105.0f, 40.0f);
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) n[l] = mx_exp_turns_f32(x[l]);
  *(mx_lanes *)power = mx_lanes_scaled((mx_lanes){0} + 1.0f, *(mx_lanes *)n);
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] = mx_tanh_sigmoid_above_f32(x[l], n[l], power[l], &below[l]);
  *(mx_lanes *)x *= mx_lanes_inverse(*(mx_lanes *)below);
#elif defined(__AVX2__) && defined(__FMA__) && !defined(MX_EXACT) && !defined(MX_FAST)
  f32 e[MX_LANES], h[MX_LANES];
  *(mx_lanes *)e = *(mx_lanes *)x;
  mx_exp_lanes_f32(e);
  *(mx_lanes *)h = mx_growing_of(mx_tanh_sigmoid_table, 7, 0.8f, mx_lanes_size(*(mx_lanes *)x, 18.7f)); /* of more it is 1 */
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) /* -e h, with the sign where it is 0 */
    x[l] = (i32)mx_bits_f32(x[l]) < 0 ? __builtin_fmaf(-e[l], h[l], -0.0f) : h[l];
#else
  MX_EACH_LANE for (i32 l = 0; l < MX_LANES; l++) x[l] = mx_tanh_sigmoid_f32(x[l]);
#endif
}
// @end

// @section rows needs shuffle
/* Sum, maximum, minimum of n floats, and the dot product, with 16 partial results.  For `omp simd reduction` gcc ends with
 * a scalar loop over the lanes, which for rows of some hundred elements takes longer than the row; these end with a
 * tree.  Maximum and minimum hand on NaN; of no elements they are -inf and +inf. */
typedef f32 mx_v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef i32 mx_m16 __attribute__((vector_size(64)));
#define MX_TURN(x, n)                                                                                                  \
  MX_SHUFFLE(mx_m16, x, x, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9, n + 10, n + 11, n + 12,   \
             n + 13, n + 14, n + 15)
#define MX_PICK(a, b, OP) ((mx_v16)(((mx_m16)(a) & ((a OP b) | (a != a))) | ((mx_m16)(b) & ~((a OP b) | (a != a)))))
INL f32 mx_lanes_sum(mx_v16 x) {
  x += MX_TURN(x, 8);
  x += MX_TURN(x, 4);
  x += MX_TURN(x, 2);
  x += MX_TURN(x, 1);
  return x[0];
}
INL f32 mx_row_sum_f32(const f32 *x, i64 n) {
  mx_v16 s = {0};
  f32 rest = 0;
  i64 i = 0;
  for (; i + 16 <= n; i += 16) s += *(const mx_v16 *)(x + i);
  for (; i < n; i++) rest += x[i];
  return mx_lanes_sum(s) + rest;
}
INL f32 mx_dot_f32(const f32 *x, const f32 *y, i64 n) {
  mx_v16 s = {0};
  f32 rest = 0;
  i64 i = 0;
  for (; i + 16 <= n; i += 16) s += *(const mx_v16 *)(x + i) * *(const mx_v16 *)(y + i);
  for (; i < n; i++) rest += x[i] * y[i];
  return mx_lanes_sum(s) + rest;
}
#define MX_ROW_PICK(NAME, OP, START)                                                                                   \
  INL f32 NAME(const f32 *x, i64 n) {                                                                                  \
    f32 m = START;                                                                                                     \
    i64 i = 0;                                                                                                         \
    if (n >= 16) {                                                                                                     \
      mx_v16 v = *(const mx_v16 *)x, t;                                                                                \
      for (i = 16; i + 16 <= n; i += 16) t = *(const mx_v16 *)(x + i), v = MX_PICK(t, v, OP);                          \
      t = MX_TURN(v, 8), v = MX_PICK(t, v, OP);                                                                        \
      t = MX_TURN(v, 4), v = MX_PICK(t, v, OP);                                                                        \
      t = MX_TURN(v, 2), v = MX_PICK(t, v, OP);                                                                        \
      t = MX_TURN(v, 1), v = MX_PICK(t, v, OP);                                                                        \
      m = v[0];                                                                                                        \
    }                                                                                                                  \
    for (; i < n; i++) m = ((x[i] OP m) | (x[i] != x[i])) ? x[i] : m;                                                  \
    return m;                                                                                                          \
  }
INL f32 mx_row_max_f32(const f32 *x, i64 n);
INL f32 mx_row_min_f32(const f32 *x, i64 n);
MX_ROW_PICK(mx_row_max_f32, >, -__builtin_inff())
MX_ROW_PICK(mx_row_min_f32, <, __builtin_inff())
// @end
