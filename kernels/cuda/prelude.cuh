/* prelude.cuh - what generated CUDA kernels call: the names of kernels/c/prelude.h, spelt for a GPU.
 *
 * Put between mx_device.cuh (or cudasim.h) and a generated kernel. Math functions are CUDA's own, whose errors its
 * documentation bounds, but for those that composing them would spoil; tests/cuda/test_unary.py holds all to 4 ulp in
 * float. With MX_EXACT they are computed in double, and are within 1 ulp. Halves are converted by bits, so that no header of CUDA is needed.
 */
#pragma once

#define RS __restrict__
#if defined(__CUDACC_RTC__) /* NVRTC has no <math.h>, and no builtins for constants that are not numbers */
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)
#define INFINITY __builtin_inff()
#endif

/* ---- bits and halves ---------------------------------------------------------------------------------------------- */
MX_INLINE u32 mx_bits_f32(f32 x) { return __float_as_uint(x); }
MX_INLINE f32 mx_f32_bits(u32 u) { return __uint_as_float(u); }
MX_INLINE f32 mx_bf16_to_f32(u16 h) { return mx_f32_bits((u32)h << 16); }
#ifdef MX_CONVERTS /* the device has instructions for it; their NaN is another one */
MX_INLINE u16 mx_f32_to_bf16(f32 x) { return (u16)mx_pair_bf16(x, 0.0f); }
MX_INLINE f32 mx_f16_to_f32(u16 h) { return mx_half_value(h); }
MX_INLINE u16 mx_f32_to_f16(f32 x) { return (u16)mx_pair_f16(x, 0.0f); }
#else
MX_INLINE u16 mx_f32_to_bf16(f32 x) {
  const u32 u = mx_bits_f32(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (u16)((u >> 16) | 0x40u); /* NaN stays NaN */
  return (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
MX_INLINE f32 mx_f16_to_f32(u16 h) {
  const u32 sign = (u32)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  if (rest >= 0x7c00u) return mx_f32_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  const f32 scaled = mx_f32_bits(rest << 13) * 0x1p112f; /* exact, subnormals too */
  return mx_f32_bits(sign | mx_bits_f32(scaled));
}
MX_INLINE u16 mx_f32_to_f16(f32 x) {
  const u32 u = mx_bits_f32(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (u16)(sign | 0x7e00u);
  if (a >= 0x477ff000u) return (u16)(sign | 0x7c00u); /* rounds to infinity */
  if (a < 0x38800000u) {                              /* subnormal: add what aligns the last bit, then take it away */
    const f32 shifted = mx_f32_bits(a) + 0.5f;
    return (u16)(sign | (mx_bits_f32(shifted) - 0x3f000000u));
  }
  return (u16)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
}
#endif
/* rounding without storing; what to store for a value that is one of the type already */
MX_INLINE f32 mx_round_f16(f32 x) { return mx_f16_to_f32(mx_f32_to_f16(x)); }
MX_INLINE u16 mx_exact_f16(f32 x) { return mx_f32_to_f16(x); }
MX_INLINE u16 mx_exact_bf16(f32 x) { return (u16)(mx_bits_f32(x) >> 16); }
#ifdef MX_CONVERTS
MX_INLINE f32 mx_round_bf16(f32 x) { return mx_f32_bits(mx_pair_bf16(0.0f, x)); }
#else
MX_INLINE f32 mx_round_bf16(f32 x) { return mx_bf16_to_f32(mx_f32_to_bf16(x)); }
#endif
/* floats of 8 bits, see kernels/c/prelude.h: `off` is what exponents are off by, 8 in the kind without infinities and -0 */
template <u32 off> MX_INLINE f32 mx_f8_to_f32(u32 c) {
  const u32 a = c & 0x7fu;
  if (off == 7 ? a == 0x7fu : c == 0x80u) return mx_f32_bits(0x7fc00000u | (c & 0x80u) << 24);
  const f32 tiny = (f32)a * (1.0f / (f32)(1 << (off + 2)));
  return mx_f32_bits((a < 8 ? mx_bits_f32(tiny) : (a << 20) + ((127u - off) << 23)) | (c & 0x80u) << 24);
}
template <u32 off> MX_INLINE u8 mx_f32_to_f8(f32 x) {
  const u32 u = mx_bits_f32(x), a = u & 0x7fffffffu, sign = (u >> 24) & 0x80u;
  const f32 unit = (f32)(1 << (21 - off));
  const u32 r = a < ((128u - off) << 23) ? mx_bits_f32(mx_f32_bits(a) + unit) - mx_bits_f32(unit)
                                         : ((a + 0x7ffffu + ((a >> 20) & 1u)) >> 20) - ((127u - off) << 3);
  if (off == 7) return (u8)((r > 0x7eu ? 0x7fu : r) | sign);
  return (u8)(r > 0x7fu ? 0x80u : r == 0 ? 0u : r | sign);
}
MX_INLINE f32 mx_e4m3fn_to_f32(u8 c) { return mx_f8_to_f32<7>(c); }
MX_INLINE f32 mx_e4m3fnuz_to_f32(u8 c) { return mx_f8_to_f32<8>(c); }
MX_INLINE u8 mx_f32_to_e4m3fn(f32 x) { return mx_f32_to_f8<7>(x); }
MX_INLINE u8 mx_f32_to_e4m3fnuz(f32 x) { return mx_f32_to_f8<8>(x); }
/* float64 rounds to odd first, so that two roundings give what one would */
MX_INLINE f32 mx_odd_f32(f64 x) {
  f32 y = (f32)x;
  if (isnan(x) || isinf(y) || (f64)y == x) return y;
  u32 u = mx_bits_f32(y);
  if (fabs((f64)y) > fabs(x)) u -= 1;
  return mx_f32_bits(u | 1u);
}
MX_INLINE u16 mx_f64_to_bf16(f64 x) { return mx_f32_to_bf16(isinf((f32)x) ? (f32)x : mx_odd_f32(x)); }
/* integers are rounded once: of 64 bits, what a float64 may not hold becomes one odd bit */
MX_INLINE u16 mx_i32_to_bf16(i32 x) { return mx_f64_to_bf16((f64)x); }
MX_INLINE u16 mx_u32_to_bf16(u32 x) { return mx_f64_to_bf16((f64)x); }
MX_INLINE u16 mx_i64_to_bf16(i64 x) {
  const i64 odd = (x & ~0xfffll) | ((i64)((x & 0xfff) != 0) << 11);
  return mx_f64_to_bf16((f64)(x >= (1ll << 53) || x <= -(1ll << 53) ? odd : x));
}
MX_INLINE u16 mx_u64_to_bf16(u64 x) {
  const u64 odd = (x & ~0xfffull) | ((u64)((x & 0xfff) != 0) << 11);
  return mx_f64_to_bf16((f64)(x >= (1ull << 53) ? odd : x));
}
MX_INLINE u16 mx_f64_to_f16(f64 x) { return mx_f32_to_f16(isinf((f32)x) ? (f32)x : mx_odd_f32(x)); }
MX_INLINE u8 mx_f64_to_e4m3fn(f64 x) { return mx_f32_to_e4m3fn(mx_odd_f32(x)); }
MX_INLINE u8 mx_f64_to_e4m3fnuz(f64 x) { return mx_f32_to_e4m3fnuz(mx_odd_f32(x)); }

/* ---- floats ------------------------------------------------------------------------------------------------------- */
#define MX_FLOAT(T, S)                                                                                                 \
  MX_INLINE T mx_sqrt_##T(T x) { return sqrt##S(x); }                                                                  \
  MX_INLINE T mx_floor_##T(T x) { return floor##S(x); }                                                                \
  MX_INLINE T mx_trunc_##T(T x) { return trunc##S(x); }                                                                \
  MX_INLINE T mx_rint_##T(T x) { return rint##S(x); }                                                                  \
  MX_INLINE T mx_abs_##T(T x) { return fabs##S(x); }                                                                   \
  MX_INLINE T mx_max_##T(T a, T b) { const T m = a > b ? a : b; return a != a ? a : m; }                               \
  MX_INLINE T mx_min_##T(T a, T b) { const T m = a < b ? a : b; return a != a ? a : m; }                               \
  MX_INLINE T mx_mod_##T(T a, T b) {                                                                                   \
    const T r = fmod##S(a, b);                                                                                         \
    return r != 0 ? ((r < 0) != (b < 0) ? r + b : r) : copysign##S(r, b);                                              \
  }
MX_FLOAT(f32, f)
MX_FLOAT(f64, )
#define MX_FUNCTIONS(T, S)                                                                                             \
  MX_INLINE T mx_rsqrt_##T(T x) { return (T)1 / sqrt##S(x); }                                                          \
  MX_INLINE T mx_exp_##T(T x) { return exp##S(x); }                                                                    \
  MX_INLINE T mx_log_##T(T x) { return log##S(x); }                                                                    \
  MX_INLINE T mx_log1p_##T(T x) { return log1p##S(x); }                                                                \
  MX_INLINE T mx_erf_##T(T x) { return erf##S(x); }                                                                    \
  MX_INLINE T mx_sin_##T(T x) { return sin##S(x); }                                                                    \
  MX_INLINE T mx_cos_##T(T x) { return cos##S(x); }                                                                    \
  MX_INLINE T mx_tanh_##T(T x) { return tanh##S(x); }                                                                  \
  MX_INLINE T mx_atanh_##T(T x) { return atanh##S(x); }                                                                \
  MX_INLINE T mx_acos_##T(T x) { return acos##S(x); }                                                                  \
  MX_INLINE T mx_pow_##T(T x, T y) { return pow##S(x, y); }                                                            \
  MX_INLINE T mx_sigmoid_##T(T x) {                                                                                    \
    const T t = exp##S(-fabs##S(x));                                                                                   \
    return (x < 0 ? t : (T)1) / ((T)1 + t);                                                                            \
  }
MX_FUNCTIONS(f64, )
MX_INLINE f64 mx_silu_f64(f64 x) { return x * mx_sigmoid_f64(x); }
MX_INLINE f64 mx_gelu_f64(f64 x) { /* erfc at z + rest: to the left it takes what z loses to rounding x^2 times */
  const f64 half = -0.70710678118654757, z = __dmul_rn(x, half);
  const f64 rest = fabs(x) < 40.0 ? fma(x, half, -z) + x * 4.833646656726457e-17 : 0.0;
  return 0.5 * x * (erfc(z) - rest * 1.1283791670955126 * exp(-z * z));
}
MX_INLINE f64 mx_gelu_tanh_f64(f64 x) { return x * mx_sigmoid_f64(1.5957691216057308 * (x + 0.044715 * x * x * x)); }
MX_INLINE f64 mx_gelu_quick_f64(f64 x) { return x * mx_sigmoid_f64(1.702 * x); }
#ifdef MX_EXACT /* functions of float are those of double, rounded once */
#define MX_ROUNDED(NAME) MX_INLINE f32 mx_##NAME##_f32(f32 x) { return (f32)mx_##NAME##_f64((f64)x); }
MX_ROUNDED(rsqrt)
MX_ROUNDED(exp)
MX_ROUNDED(log)
MX_ROUNDED(log1p)
MX_ROUNDED(erf)
MX_ROUNDED(sin)
MX_ROUNDED(cos)
MX_ROUNDED(tanh)
MX_ROUNDED(atanh)
MX_ROUNDED(acos)
MX_ROUNDED(sigmoid)
MX_ROUNDED(silu)
MX_ROUNDED(gelu)
MX_ROUNDED(gelu_tanh)
MX_ROUNDED(gelu_quick)
MX_INLINE f32 mx_pow_f32(f32 x, f32 y) { return (f32)mx_pow_f64((f64)x, (f64)y); }
#else
MX_FUNCTIONS(f32, f)
/* silu and gelu of float. To the left these are small, and what composing CUDA's functions would lose is large: all digits
 * of a sum 1 + erf(z) or 1 + tanh(z), those of an argument of which e^z takes many, those of a sigmoid that is subnormal
 * already. Products whose rounding is computed are __fmul_rn, which the compiler does not fuse. */
MX_INLINE f32 mx_sigmoid_times_f32(f32 x, f32 z, f32 tail) { /* x sigmoid(z + tail), for a z of the sign of x */
  const bool left = z < 0.0f, deep = z < -64.0f; /* deep: e^(z + 37), which is no subnormal, and e^-37, which is a float */
  const f32 y = -fabsf(z), e = expf(deep ? y + 37.0f : y), rest = e * (left ? tail : -tail);
  const f32 p = left ? fmaf(x, e, x * rest) : x;
  const f32 q = copysignf(mx_quotient(p, 1.0f + (e + rest)) * (deep ? 8.5330476e-17f : 1.0f), x);
  return x < __builtin_inff() ? q : x; /* -inf * 0 is NaN, as composed */
}
MX_INLINE f32 mx_silu_f32(f32 x) { return mx_sigmoid_times_f32(x, x, 0.0f); }
MX_INLINE f32 mx_gelu_quick_f32(f32 x) { /* 1.702 and the product in two parts each */
  const f32 c = fminf(fmaxf(x, -110.0f), 110.0f), z = __fmul_rn(1.702f, c);
  return mx_sigmoid_times_f32(x, z, fmaf(-2.19345093e-08f, c, fmaf(1.702f, c, -z)));
}
MX_INLINE f32 mx_gelu_tanh_f32(f32 x) { /* x sigmoid(c (k + l c^2)), and the rounding of every step of that */
  const f32 c = fminf(fmaxf(x, -110.0f), 110.0f), k = 1.5957692f, l = 0.071354814f;
  const f32 s = __fmul_rn(c, c), m = __fmul_rn(l, s), w = k + m, by = w - k;
  f32 rest = fmaf(2.3988331e-09f, s, fmaf(l, fmaf(c, c, -s), fmaf(l, s, -m))); /* of l c^2 */
  rest = ((k - (w - by)) + (m - by)) + (rest + -4.534068e-08f);
  const f32 z = __fmul_rn(c, w);
  return mx_sigmoid_times_f32(x, z, fmaf(c, rest, fmaf(c, w, -z)));
}
/* near 0 x (1/2 + x P(x^2)), beyond max(x, 0) - |x|/2 erfc(|x|/sqrt 2), where that is w e^(-x^2/2) with a ratio w: the
 * fits of both are those of kernels/c/functions.h. e^(-x^2/2) = 2^n e^r is never rounded by itself, nor is r: v is -2 r,
 * and what squaring lost is added to it. x times 1 or 0 is the maximum, with NaN and -inf * 0 as composed. */
MX_INLINE f32 mx_gelu_f32(f32 x) {
  const f32 a = fminf(fabsf(x), 14.8f), s = __fmul_rn(a, a);
  f32 c = -0.00109547518f;
  c = fmaf(c, s, 0.00994818661f);
  c = fmaf(c, s, -0.0664877166f);
  c = fmaf(c, s, 0.398942202f);
  f32 p = 0.0373080834f;
  p = fmaf(p, a, 0.29767972f);
  p = fmaf(p, a, 1.09087862f);
  p = fmaf(p, a, 1.99994297f);
  f32 q = 0.0148883825f;
  q = fmaf(q, a, 0.118562417f);
  q = fmaf(q, a, 0.468422716f);
  q = fmaf(q, a, 1.00069444f);
  q = fmaf(q, a, 1.0f);
  const f32 t = __fmul_rn(a, q), w = mx_quotient(t, fmaf(t, 2.50662827f, p));
  const f32 shifted = fmaf(s, -0.721347520f, 12583103.0f), n = shifted - 12583103.0f; /* rounds, and leaves n + 191 */
  const f32 v = fmaf(n, 1.3862915f, s) + fmaf(n, 2.85721354e-06f, fmaf(a, a, -s));
  f32 e = 2.17981069e-05f;
  e = fmaf(e, v, -0.000261533161f);
  e = fmaf(e, v, 0.00260413764f);
  e = fmaf(e, v, -0.0208331477f);
  e = fmaf(e, v, 0.125f);
  e = v * fmaf(e, v, -0.5f);
  const f32 g = fmaf(w, e, w) * mx_f32_bits(mx_bits_f32(shifted) << 23); /* 2^(n + 64): 2^n may be no float */
  return a < 0.6f ? x * fmaf(x, c, 0.5f) : fmaf(g, -0x1p-64f, x * (x > 0.0f ? 1.0f : 0.0f));
}
#endif
/* Functions for what is rounded to 16 bits at once: near enough that this is all the error, but for a 20th of it. Powers
 * of 2 are made 2^64 times as large, so that none is subnormal. In gelu, what is beyond |x| has the probability 2^P(|x|). */
MX_INLINE f32 mx_gelu_half(f32 x) {
  const f32 a = fminf(fabsf(x), 14.6f);
  f32 p = -1.76707016e-09f;
  p = fmaf(p, a, 1.32980745e-07f);
  p = fmaf(p, a, -4.36868049e-06f);
  p = fmaf(p, a, 8.29354321e-05f);
  p = fmaf(p, a, -0.00101946923f);
  p = fmaf(p, a, 0.00867647491f);
  p = fmaf(p, a, -0.0540152378f);
  p = fmaf(p, a, -0.458681852f);
  p = fmaf(p, a, -1.1510489f);
  p = fmaf(p, a, 62.9999763f);
  return fmaf(a * mx_exp2_near(p), -0x1p-64f, x * (x > 0.0f ? 1.0f : 0.0f));
}
MX_INLINE f32 mx_sigmoid_times_half(f32 x, f32 z) {
  const f32 e = mx_exp2_near(fmaf(fabsf(z), -1.44269504f, 64.0f));
  return (z < 0.0f ? x * e * 0x1p-64f : x) * mx_reciprocal_near(fmaf(e, 0x1p-64f, 1.0f));
}
MX_INLINE f32 mx_sigmoid_half(f32 x) { return mx_sigmoid_times_half(1.0f, x); }
MX_INLINE f32 mx_silu_half(f32 x) { return mx_sigmoid_times_half(x, x); }
MX_INLINE f32 mx_gelu_tanh_half(f32 x) { return mx_sigmoid_times_half(x, x * fmaf(0.071354814f, x * x, 1.5957692f)); }
MX_INLINE f32 mx_gelu_quick_half(f32 x) { return mx_sigmoid_times_half(x, 1.702f * x); }
MX_INLINE f32 mx_tanh_sigmoid_f32(f32 x) { return mx_tanh_f32(x) * mx_sigmoid_f32(x); }
MX_INLINE f64 mx_floordiv_f64(f64 a, f64 b) { /* consistent with mod: a = floordiv * b + mod */
  const f64 r = fmod(a, b), q = (a - r) / b;
  const f64 n = floor((r != 0.0 && (r < 0.0) != (b < 0.0) ? q - 1.0 : q) + 0.5);
  return b == 0.0 ? a / b : n == 0.0 ? copysign(0.0, a / b) : n;
}
MX_INLINE f32 mx_floordiv_f32(f32 a, f32 b) { return (f32)mx_floordiv_f64((f64)a, (f64)b); }

/* ---- integers: they wrap and never trap --------------------------------------------------------------------------- */
#define MX_SIGNED(T, U)                                                                                                \
  MX_INLINE T mx_floordiv_##T(T a, T b) {                                                                              \
    if (b == 0) return 0;                                                                                              \
    if (b == (T)-1) return (T)((U)0 - (U)a);                                                                           \
    const T q = (T)(a / b);                                                                                            \
    return (T)(q - (T)((a % b != 0) & ((a < 0) != (b < 0))));                                                          \
  }                                                                                                                    \
  MX_INLINE T mx_mod_##T(T a, T b) {                                                                                   \
    if (b == 0 || b == (T)-1) return 0;                                                                                \
    const T r = (T)(a % b);                                                                                            \
    return (T)(r + ((r != 0) & ((r < 0) != (b < 0)) ? b : 0));                                                         \
  }                                                                                                                    \
  MX_INLINE T mx_pow_##T(T a, T n) {                                                                                   \
    u64 r = 1, x = (u64)(i64)a;                                                                                        \
    if (n < 0) return 0;                                                                                               \
    for (U k = (U)n; k; k = (U)(k >> 1), x *= x) r *= (k & 1) ? x : 1;                                                 \
    return (T)r;                                                                                                       \
  }                                                                                                                    \
  MX_INLINE T mx_abs_##T(T a) { return (T)(a < 0 ? (U)0 - (U)a : (U)a); }
#define MX_UNSIGNED(T)                                                                                                 \
  MX_INLINE T mx_floordiv_##T(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }                                         \
  MX_INLINE T mx_mod_##T(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }                                              \
  MX_INLINE T mx_pow_##T(T a, T n) {                                                                                   \
    u64 r = 1, x = a;                                                                                                  \
    for (T k = n; k; k = (T)(k >> 1), x *= x) r *= (k & 1) ? x : 1;                                                    \
    return (T)r;                                                                                                       \
  }                                                                                                                    \
  MX_INLINE T mx_abs_##T(T a) { return a; }
MX_SIGNED(i8, u8)
MX_SIGNED(i16, u16)
MX_SIGNED(i32, u32)
MX_SIGNED(i64, u64)
MX_UNSIGNED(u8)
MX_UNSIGNED(u16)
MX_UNSIGNED(u32)
MX_UNSIGNED(u64)

/* ---- casts: the rule of kernels/c/prelude.h, section cast ----------------------------------------------------------- */
MX_INLINE i32 mx_f64_to_i32(f64 x) { return x > -2147483649.0 && x < 0x1p31 ? (i32)x : (i32)0x80000000u; }
MX_INLINE i64 mx_f64_to_i64(f64 x) { return x >= -0x1p63 && x < 0x1p63 ? (i64)x : (i64)0x8000000000000000ull; }
MX_INLINE u64 mx_f64_to_u64(f64 x) {
  return x >= 0x1p63 && x < 0x1p64 ? (u64)mx_f64_to_i64(x - 0x1p63) + 0x8000000000000000ull : (u64)mx_f64_to_i64(x);
}
MX_INLINE u32 mx_f64_to_u32(f64 x) { return (u32)mx_f64_to_i64(x); }
MX_INLINE i8 mx_f64_to_i8(f64 x) { return (i8)mx_f64_to_i32(x); }
MX_INLINE u8 mx_f64_to_u8(f64 x) { return (u8)mx_f64_to_i32(x); }
MX_INLINE i16 mx_f64_to_i16(f64 x) { return (i16)mx_f64_to_i32(x); }
MX_INLINE u16 mx_f64_to_u16(f64 x) { return (u16)mx_f64_to_i32(x); }
#define MX_CAST(T)                                                                                                     \
  MX_INLINE T mx_f32_to_##T(f32 x) { return mx_f64_to_##T((f64)x); }
MX_CAST(i8)
MX_CAST(u8)
MX_CAST(i16)
MX_CAST(u16)
MX_CAST(i32)
MX_CAST(u32)
MX_CAST(i64)
MX_CAST(u64)

/* ---- elements that are read or written at once ------------------------------------------------------------------------ */
template <class T, int N> struct __align__(sizeof(T) * N) mx_pack {
  T v[N];
  __device__ __forceinline__ T at(int e) const { return v[e]; }
  __device__ __forceinline__ void put(int e, T x) { v[e] = x; }
};
/* two of 16 bits in a register, where taking them apart is one instruction; they are put in order */
template <int N> struct __align__(2 * N) mx_pack<u16, N> {
  u32 v[N / 2];
  __device__ __forceinline__ u16 at(int e) const { return (u16)(e & 1 ? v[e / 2] >> 16 : v[e / 2]); }
  __device__ __forceinline__ void put(int e, u16 x) { v[e / 2] = e & 1 ? v[e / 2] | (u32)x << 16 : x; }
};
template <> struct mx_pack<u16, 1> {
  u16 v[1];
  __device__ __forceinline__ u16 at(int) const { return v[0]; }
  __device__ __forceinline__ void put(int, u16 x) { v[0] = x; }
};

/* ---- a warp or a block folds one value of each thread; every thread gets the result ---------------------------------- */
struct mx_add {
  template <class T> MX_INLINE T of(T a, T b) { return a + b; }
};
struct mx_larger {
  template <class T> MX_INLINE T of(T a, T b) { return a != a || a > b ? a : b; } /* NaN is handed on */
  MX_INLINE f32 of(f32 a, f32 b) { return mx_max_nan(a, b); }
};
struct mx_smaller {
  template <class T> MX_INLINE T of(T a, T b) { return a != a || a < b ? a : b; }
  MX_INLINE f32 of(f32 a, f32 b) { return mx_min_nan(a, b); }
};
template <class OP, class T> MX_INLINE T mx_warp_fold(T x) {
#pragma unroll
  for (int step = 16; step; step >>= 1) x = OP::of(x, (T)__shfl_xor_sync(MX_FULL_WARP, x, step)); /* bytes come back as int */
  return x;
}
template <class OP, class T> MX_INLINE T mx_block_fold(T x) {
  __shared__ T part[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
  x = mx_warp_fold<OP>(x);
  __syncthreads(); /* the last fold's results have been read */
  if (lane == 0) part[warp] = x;
  __syncthreads();
  x = part[0];
  for (int n = 1; n < warps; n++) x = OP::of(x, part[n]);
  return x;
}
template <class T> MX_INLINE T mx_warp_sum(T x) { return mx_warp_fold<mx_add, T>(x); }
template <class T> MX_INLINE T mx_warp_max(T x) { return mx_warp_fold<mx_larger, T>(x); }
template <class T> MX_INLINE T mx_warp_min(T x) { return mx_warp_fold<mx_smaller, T>(x); }
template <class T> MX_INLINE T mx_block_sum(T x) { return mx_block_fold<mx_add, T>(x); }
template <class T> MX_INLINE T mx_block_max(T x) { return mx_block_fold<mx_larger, T>(x); }
template <class T> MX_INLINE T mx_block_min(T x) { return mx_block_fold<mx_smaller, T>(x); }

/* ---- rows in registers: vector n * LANES + lane of a row is in v[n] of the lane ----------------------------------------- */
/* SURE: so many vectors of a lane all rows fill. `whole`: they are aligned; else their elements are taken one by one. */
template <int SURE, int LANES, class T, int V, int N>
MX_INLINE void mx_row_read(mx_pack<T, V> (&to)[N], const T *row, int lane, int columns, bool whole) {
  if (whole) {
#pragma unroll
    for (int n = 0; n < N; n++)
      if (n < SURE || (n * LANES + lane) * V < columns) to[n] = ((const mx_pack<T, V> *)row)[n * LANES + lane];
  } else {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < V; e++)
        if (n < SURE || (n * LANES + lane) * V < columns) to[n].put(e, row[(n * LANES + lane) * V + e]);
  }
}
template <class T, int V> MX_INLINE void mx_put(T *to, const mx_pack<T, V> &from, bool whole) {
  if (whole) {
    *(mx_pack<T, V> *)to = from;
  } else {
#pragma unroll
    for (int e = 0; e < V; e++) to[e] = from.at(e);
  }
}
/* LANES threads beside each other, a power of two, fold one value of each. More than a warp need shared memory: each
 * SITE has its own, and takes the halves of it by turns, so that one barrier is enough. */
template <class OP, int LANES, int SITE, class T> MX_INLINE T mx_lanes_fold(T x, int turn) {
#pragma unroll
  for (int step = (LANES < 32 ? LANES : 32) / 2; step; step >>= 1) x = OP::of(x, (T)__shfl_xor_sync(MX_FULL_WARP, x, step));
  if (LANES > 32) {
    constexpr int warps = LANES > 32 ? LANES / 32 : 1;
    __shared__ T part[2][warps];
    if ((threadIdx.x & 31) == 0) part[turn][threadIdx.x >> 5] = x;
    __syncthreads();
    x = part[turn][threadIdx.x & (warps - 1)];
#pragma unroll
    for (int step = warps / 2; step; step >>= 1) x = OP::of(x, (T)__shfl_xor_sync(MX_FULL_WARP, x, step));
  }
  return x;
}
template <class T, int LANES, int SITE> MX_INLINE T mx_lanes_sum(T x, int turn) {
  return mx_lanes_fold<mx_add, LANES, SITE, T>(x, turn);
}
template <class T, int LANES, int SITE> MX_INLINE T mx_lanes_max(T x, int turn) {
  return mx_lanes_fold<mx_larger, LANES, SITE, T>(x, turn);
}
template <class T, int LANES, int SITE> MX_INLINE T mx_lanes_min(T x, int turn) {
  return mx_lanes_fold<mx_smaller, LANES, SITE, T>(x, turn);
}

/* ---- what a kernel finds wrong: the first thing is kept, as {kind, which, value, limit} -------------------------------- */
MX_INLINE void mx_found(i64 *fault, i64 kind, i64 which, i64 value, i64 limit) {
  if (atomicCAS((unsigned long long *)fault, 0ull, (unsigned long long)kind) == 0ull)
    fault[1] = which, fault[2] = value, fault[3] = limit;
}
MX_INLINE void mx_fault(i64 *fault, i64 check, i64 at, i64 size) { mx_found(fault, 1, check, at, size); }
MX_INLINE void mx_assert(i64 *fault, i64 note, i64 item) { mx_found(fault, 2, note, item, 0); }
MX_INLINE void mx_nan(i64 *fault, i64 check, i64 at) { mx_found(fault, 3, check, at, 0); }

/* What a kernel writes down while it runs: kernels/c/ops/log.h says what a log is. It stands behind `fault`. */
MX_INLINE void mx_log(i64 *log, i64 note, i64 item, i64 thread, i64 a, i64 b, i64 c, i64 e, i64 f, i64 g) {
  const i64 place = (i64)atomicAdd((unsigned long long *)log, 1ull);
  if (place >= log[1]) return;
  i64 *const record = log + 2 + place * 9;
  record[0] = note, record[1] = item, record[2] = thread;
  record[3] = a, record[4] = b, record[5] = c, record[6] = e, record[7] = f, record[8] = g;
}
