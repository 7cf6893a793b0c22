/* types.h - CUDA's vector types, and the storage types of half, bfloat16 and 8-bit floats.
 *
 * The narrow floats are for storage: load, convert to float, compute, convert, store. Arithmetic on them is deleted,
 * because a device would round after every operation where this machine would not. Conversions give the bits that the
 * device gives: nearest-even, NaN becomes the one canonical NaN.
 */
#pragma once

/* ------------------------------------------------------------- vectors */

#define CS_VECTORS(T, N, A2, A4)                                                                                       \
  struct N##1 {                                                                                                        \
    T x;                                                                                                               \
  };                                                                                                                   \
  struct __attribute__((aligned(A2))) N##2 {                                                                           \
    T x, y;                                                                                                            \
  };                                                                                                                   \
  struct __attribute__((aligned(A4))) N##4 {                                                                           \
    T x, y, z, w;                                                                                                      \
  };                                                                                                                   \
  inline N##1 make_##N##1(T x) { return {x}; }                                                                         \
  inline N##2 make_##N##2(T x, T y) { return {x, y}; }                                                                 \
  inline N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }                                                         \
  inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define CS_VECTOR3(T, N)                                                                                               \
  struct N##3 {                                                                                                        \
    T x, y, z;                                                                                                         \
  };

CS_VECTOR3(signed char, char) CS_VECTORS(signed char, char, 2, 4)
CS_VECTOR3(unsigned char, uchar) CS_VECTORS(unsigned char, uchar, 2, 4)
CS_VECTOR3(short, short) CS_VECTORS(short, short, 4, 8)
CS_VECTOR3(unsigned short, ushort) CS_VECTORS(unsigned short, ushort, 4, 8)
CS_VECTOR3(int, int) CS_VECTORS(int, int, 8, 16)
CS_VECTORS(unsigned, uint, 8, 16) /* uint3 is the type of threadIdx: interface.h */
CS_VECTOR3(long long, longlong) CS_VECTORS(long long, longlong, 16, 16)
CS_VECTOR3(unsigned long long, ulonglong) CS_VECTORS(unsigned long long, ulonglong, 16, 16)
CS_VECTOR3(float, float) CS_VECTORS(float, float, 8, 16)
CS_VECTOR3(double, double) CS_VECTORS(double, double, 16, 16)
#undef CS_VECTOR3
#undef CS_VECTORS

/* ------------------------------------------------------------- bits */

template <class To, class From> inline __attribute__((always_inline)) To cs_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}
inline int __float_as_int(float x) { return cs_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return cs_bits<unsigned>(x); }
inline float __int_as_float(int x) { return cs_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return cs_bits<float>(x); }
inline long long __double_as_longlong(double x) { return cs_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return cs_bits<double>(x); }

/* ------------------------------------------------------------- conversions */

/* The nearest number of a format with E exponent and M mantissa bits and a bias, ties to even, as its magnitude bits;
 * the caller knows what lies beyond the largest. Exact for every float, subnormals of both sides included. */
template <int M, int BIAS> inline unsigned cs_round_magnitude(float x) {
  unsigned u = __float_as_uint(x) & 0x7fffffffu;
  int exponent = (int)(u >> 23) - 127 + BIAS; /* of the result */
  if (exponent <= 0) {                        /* subnormal or zero: count in units of the smallest */
    const float unit = __uint_as_float((unsigned)(127 + 1 - BIAS - M) << 23);
    return (unsigned)__builtin_rintf(__uint_as_float(u) / unit); /* exact: a power of two */
  }
  unsigned kept = u >> (23 - M), rest = u << (9 + M);
  kept += rest > 0x80000000u || (rest == 0x80000000u && (kept & 1u));
  return kept - ((unsigned)(127 - BIAS) << M);
}
template <int M, int BIAS> inline float cs_widen_magnitude(unsigned bits) {
  if (bits >> M == 0) return (float)bits * __uint_as_float((unsigned)(127 + 1 - BIAS - M) << 23);
  return __uint_as_float((bits << (23 - M)) + ((unsigned)(127 - BIAS) << 23));
}

inline unsigned short cs_half_bits(float x) {
  if (x != x) return 0x7fff;
#if defined(__F16C__)
  return cs_bits<unsigned short>((_Float16)x);
#else
  unsigned sign = __float_as_uint(x) >> 16 & 0x8000u, m = cs_round_magnitude<10, 15>(x);
  return (unsigned short)(sign | (__builtin_fabsf(x) >= 65520.0f ? 0x7c00u : m));
#endif
}
inline float cs_half_value(unsigned short h) {
#if defined(__F16C__)
  return (float)cs_bits<_Float16>(h);
#else
  unsigned magnitude = h & 0x7fffu, sign = (h & 0x8000u) << 16;
  if (magnitude >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  return __uint_as_float(sign | __float_as_uint(cs_widen_magnitude<10, 15>(magnitude)));
#endif
}
inline unsigned short cs_bfloat16_bits(float x) {
  if (x != x) return 0x7fff;
  unsigned u = __float_as_uint(x);
  return (unsigned short)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
inline float cs_bfloat16_value(unsigned short b) { return __uint_as_float((unsigned)b << 16); }

struct __half {
  unsigned short bits;
  __half() = default;
  __half(float x) : bits(cs_half_bits(x)) {}
  operator float() const { return cs_half_value(bits); }
};
struct __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  __nv_bfloat16(float x) : bits(cs_bfloat16_bits(x)) {}
  operator float() const { return cs_bfloat16_value(bits); }
};
#define CS_STORAGE_ONLY(T)                                                                                             \
  T operator+(T, T) = delete; /* compute in float: a device rounds here, this machine would not */                     \
  T operator-(T, T) = delete;                                                                                          \
  T operator*(T, T) = delete;                                                                                          \
  T operator/(T, T) = delete;
CS_STORAGE_ONLY(__half)
CS_STORAGE_ONLY(__nv_bfloat16)
#undef CS_STORAGE_ONLY
typedef __half half;
typedef __nv_bfloat16 nv_bfloat16;

inline __half __float2half(float x) { return x; }
inline __half __float2half_rn(float x) { return x; }
inline float __half2float(__half h) { return h; }
inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
inline float __bfloat162float(__nv_bfloat16 b) { return b; }
inline unsigned short __half_as_ushort(__half h) { return h.bits; }
inline __half __ushort_as_half(unsigned short bits) { return cs_bits<__half>(bits); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 b) { return b.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return cs_bits<__nv_bfloat16>(bits); }
/* From float64 in one rounding: float is rounded to odd on the way, which keeps the tie information. */
inline float cs_to_odd(double x) {
  float f = (float)x;
  double back = f;
  if (back == x || x != x || __builtin_isinf(f)) return f;
  unsigned u = __float_as_uint(f);
  if (__builtin_fabs(back) > __builtin_fabs(x)) u -= 1; /* truncate, then set the last bit */
  return __uint_as_float(u | 1u);
}
inline __half __double2half(double x) { return cs_to_odd(x); }
inline __nv_bfloat16 __double2bfloat16(double x) { return cs_to_odd(x); }

struct __attribute__((aligned(4))) __half2 {
  __half x, y;
};
struct __attribute__((aligned(4))) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
typedef __half2 half2;
typedef __nv_bfloat162 nv_bfloat162;
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }

/* ------------------------------------------------------------- 8-bit floats */

typedef unsigned char __nv_fp8_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
struct __half_raw {
  unsigned short x;
  operator __half() const { return cs_bits<__half>(x); }
};

/* e4m3: no infinity, 448 is the largest, 0x7f NaN.  e5m2: like half with 2 mantissa bits, 57344 is the largest. */
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
  unsigned sign = __float_as_uint(x) >> 24 & 0x80u;
  bool finite = saturate == __NV_SATFINITE;
  if (kind == __NV_E4M3) {
    if (x != x) return 0x7f;
    if (__builtin_fabsf(x) > 464.0f) return (unsigned char)(sign | (finite ? 0x7eu : 0x7fu)); /* 464 ties down to 448 */
    return (unsigned char)(sign | cs_round_magnitude<3, 7>(x));
  }
  if (x != x) return 0x7f;
  if (__builtin_fabsf(x) >= 61440.0f) return (unsigned char)(sign | (finite ? 0x7bu : 0x7cu));
  return (unsigned char)(sign | cs_round_magnitude<2, 15>(x));
}
inline float cs_fp8_value(unsigned char b, __nv_fp8_interpretation_t kind) {
  unsigned sign = (b & 0x80u) << 24, magnitude = b & 0x7fu;
  if (kind == __NV_E4M3) {
    if (magnitude == 0x7fu) return __uint_as_float(0x7fffffffu);
    return __uint_as_float(sign | __float_as_uint(cs_widen_magnitude<3, 7>(magnitude)));
  }
  if (magnitude > 0x7cu) return __uint_as_float(0x7fffffffu);
  if (magnitude == 0x7cu) return __uint_as_float(sign | 0x7f800000u);
  return __uint_as_float(sign | __float_as_uint(cs_widen_magnitude<2, 15>(magnitude)));
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t b, __nv_fp8_interpretation_t kind) {
  return {cs_half_bits(cs_fp8_value(b, kind))};
}

struct __nv_fp8_e4m3 {
  __nv_fp8_storage_t __x;
  __nv_fp8_e4m3() = default;
  explicit __nv_fp8_e4m3(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)) {}
  explicit operator float() const { return cs_fp8_value(__x, __NV_E4M3); }
};
struct __nv_fp8_e5m2 {
  __nv_fp8_storage_t __x;
  __nv_fp8_e5m2() = default;
  explicit __nv_fp8_e5m2(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2)) {}
  explicit operator float() const { return cs_fp8_value(__x, __NV_E5M2); }
};
