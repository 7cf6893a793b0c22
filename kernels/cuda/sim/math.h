/* math.h - CUDA's math and integer intrinsics, for the host.
 *
 * The C library is declared here instead of included: <cmath> would take longer to read than most kernels take to
 * compile. Fast intrinsics (`__expf`) are the accurate functions, so results are never worse than a device's.
 */
#pragma once

extern "C" {
#define CS_UNARY(F)                                                                                                    \
  double F(double) noexcept;                                                                                           \
  float F##f(float) noexcept;
CS_UNARY(acos) CS_UNARY(acosh) CS_UNARY(asin) CS_UNARY(asinh) CS_UNARY(atan) CS_UNARY(atanh) CS_UNARY(cbrt)
CS_UNARY(ceil) CS_UNARY(cos) CS_UNARY(cosh) CS_UNARY(erf) CS_UNARY(erfc) CS_UNARY(exp) CS_UNARY(exp2) CS_UNARY(expm1)
CS_UNARY(fabs) CS_UNARY(floor) CS_UNARY(lgamma) CS_UNARY(log) CS_UNARY(log10) CS_UNARY(log1p) CS_UNARY(log2)
CS_UNARY(logb) CS_UNARY(nearbyint) CS_UNARY(rint) CS_UNARY(round) CS_UNARY(sin) CS_UNARY(sinh) CS_UNARY(sqrt)
CS_UNARY(tan) CS_UNARY(tanh) CS_UNARY(tgamma) CS_UNARY(trunc)
#undef CS_UNARY
#define CS_BINARY(F)                                                                                                   \
  double F(double, double) noexcept;                                                                                   \
  float F##f(float, float) noexcept;
CS_BINARY(atan2) CS_BINARY(copysign) CS_BINARY(fdim) CS_BINARY(fmax) CS_BINARY(fmin) CS_BINARY(fmod) CS_BINARY(hypot)
CS_BINARY(nextafter) CS_BINARY(pow) CS_BINARY(remainder)
#undef CS_BINARY
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double frexp(double, int *) noexcept;
float frexpf(float, int *) noexcept;
double modf(double, double *) noexcept;
float modff(float, float *) noexcept;
int abs(int) noexcept;
long long llabs(long long) noexcept;
}

#define CS_INLINE inline __attribute__((always_inline))

/* The overloads for float that CUDA has in the global namespace. */
#define CS_FLOAT1(F)                                                                                                   \
  CS_INLINE float F(float x) { return F##f(x); }
CS_FLOAT1(acos) CS_FLOAT1(acosh) CS_FLOAT1(asin) CS_FLOAT1(asinh) CS_FLOAT1(atan) CS_FLOAT1(atanh) CS_FLOAT1(cbrt)
CS_FLOAT1(ceil) CS_FLOAT1(cos) CS_FLOAT1(cosh) CS_FLOAT1(erf) CS_FLOAT1(erfc) CS_FLOAT1(exp) CS_FLOAT1(exp2)
CS_FLOAT1(expm1) CS_FLOAT1(fabs) CS_FLOAT1(floor) CS_FLOAT1(log) CS_FLOAT1(log10) CS_FLOAT1(log1p) CS_FLOAT1(log2)
CS_FLOAT1(rint) CS_FLOAT1(round) CS_FLOAT1(sin) CS_FLOAT1(sinh) CS_FLOAT1(sqrt) CS_FLOAT1(tan) CS_FLOAT1(tanh)
CS_FLOAT1(trunc)
#undef CS_FLOAT1
CS_INLINE float atan2(float y, float x) { return atan2f(y, x); }
CS_INLINE float fmod(float x, float y) { return fmodf(x, y); }
CS_INLINE float pow(float x, float y) { return powf(x, y); }
CS_INLINE float fma(float x, float y, float z) { return fmaf(x, y, z); }
CS_INLINE float abs(float x) { return fabsf(x); }
CS_INLINE double abs(double x) { return fabs(x); }
CS_INLINE long long abs(long long x) { return x < 0 ? -x : x; }

#define CS_MINMAX(T)                                                                                                   \
  CS_INLINE T min(T a, T b) { return b < a ? b : a; }                                                                  \
  CS_INLINE T max(T a, T b) { return a < b ? b : a; }
CS_MINMAX(int) CS_MINMAX(unsigned) CS_MINMAX(long) CS_MINMAX(unsigned long) CS_MINMAX(long long)
CS_MINMAX(unsigned long long)
#undef CS_MINMAX
CS_INLINE unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
CS_INLINE unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
CS_INLINE unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
CS_INLINE unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
CS_INLINE float min(float a, float b) { return fminf(a, b); } /* a NaN loses, as on the device */
CS_INLINE float max(float a, float b) { return fmaxf(a, b); }
CS_INLINE double min(double a, double b) { return fmin(a, b); }
CS_INLINE double max(double a, double b) { return fmax(a, b); }

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)

CS_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
CS_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
CS_INLINE float rsqrt(float x) { return rsqrtf(x); }
CS_INLINE float exp10f(float x) { return (float)__builtin_exp10((double)x); }
CS_INLINE double exp10(double x) { return __builtin_exp10(x); }
CS_INLINE float normcdff(float x) { return 0.5f * erfcf(x * -0.707106781f); }
CS_INLINE void sincosf(float x, float *s, float *c) { *s = sinf(x), *c = cosf(x); }
CS_INLINE void sincos(double x, double *s, double *c) { *s = sin(x), *c = cos(x); }

CS_INLINE float __expf(float x) { return expf(x); }
CS_INLINE float __exp10f(float x) { return exp10f(x); }
CS_INLINE float __logf(float x) { return logf(x); }
CS_INLINE float __log2f(float x) { return log2f(x); }
CS_INLINE float __log10f(float x) { return log10f(x); }
CS_INLINE float __sinf(float x) { return sinf(x); }
CS_INLINE float __cosf(float x) { return cosf(x); }
CS_INLINE float __tanf(float x) { return tanf(x); }
CS_INLINE float __powf(float x, float y) { return powf(x, y); }
CS_INLINE float __fdividef(float x, float y) { return x / y; }
CS_INLINE float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); } /* NaN gives 0 */
CS_INLINE float __fadd_rn(float x, float y) { return x + y; }
CS_INLINE float __fsub_rn(float x, float y) { return x - y; }
CS_INLINE float __fmul_rn(float x, float y) { return x * y; }
CS_INLINE float __fdiv_rn(float x, float y) { return x / y; }
CS_INLINE float __frcp_rn(float x) { return 1.0f / x; }
CS_INLINE float __fsqrt_rn(float x) { return sqrtf(x); }
CS_INLINE float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
CS_INLINE float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
CS_INLINE double __dadd_rn(double x, double y) { return x + y; }
CS_INLINE double __dmul_rn(double x, double y) { return x * y; }
CS_INLINE double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

/* Float to integer as the device does it: out of range gives the nearest end, NaN gives 0 (32 bits) or the end that is
 * farthest from 0 (64 bits). A plain cast out of range is undefined in C++ and differs between the two machines. */
#define CS_TO_INT(name, T, F, lo, hi, nan, how)                                                                        \
  CS_INLINE T name(F x) {                                                                                              \
    if (x != x) return nan;                                                                                            \
    F r = how(x);                                                                                                      \
    return r < (F)(lo) ? (T)(lo) : r >= (F)(hi) ? (T)(hi) : (T)r;                                                      \
  }
#define CS_TO_INTS(P, F, trunc, rint, floor, ceil)                                                                     \
  CS_TO_INT(__##P##2int_rz, int, F, -2147483648LL, 2147483647LL, 0, trunc)                                             \
  CS_TO_INT(__##P##2int_rn, int, F, -2147483648LL, 2147483647LL, 0, rint)                                              \
  CS_TO_INT(__##P##2int_rd, int, F, -2147483648LL, 2147483647LL, 0, floor)                                             \
  CS_TO_INT(__##P##2int_ru, int, F, -2147483648LL, 2147483647LL, 0, ceil)                                              \
  CS_TO_INT(__##P##2uint_rz, unsigned, F, 0, 4294967295LL, 0, trunc)                                                   \
  CS_TO_INT(__##P##2uint_rn, unsigned, F, 0, 4294967295LL, 0, rint)                                                    \
  CS_TO_INT(__##P##2ll_rz, long long, F, (-9223372036854775807LL - 1), 9223372036854775807LL,                          \
            (-9223372036854775807LL - 1), trunc)                                                                       \
  CS_TO_INT(__##P##2ll_rn, long long, F, (-9223372036854775807LL - 1), 9223372036854775807LL,                          \
            (-9223372036854775807LL - 1), rint)                                                                        \
  CS_TO_INT(__##P##2ull_rz, unsigned long long, F, 0, 18446744073709551615ULL, (1ULL << 63), trunc)                    \
  CS_TO_INT(__##P##2ull_rn, unsigned long long, F, 0, 18446744073709551615ULL, (1ULL << 63), rint)
CS_TO_INTS(float, float, truncf, rintf, floorf, ceilf)
CS_TO_INTS(double, double, trunc, rint, floor, ceil)
#undef CS_TO_INTS
#undef CS_TO_INT
CS_INLINE float __int2float_rn(int x) { return (float)x; }
CS_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
CS_INLINE float __ll2float_rn(long long x) { return (float)x; }
CS_INLINE float __ull2float_rn(unsigned long long x) { return (float)x; }
CS_INLINE float __double2float_rn(double x) { return (float)x; }

CS_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
CS_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
CS_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
CS_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
CS_INLINE int __ffs(int x) { return __builtin_ffs(x); }
CS_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (x >> i & 1u) << (31 - i);
  return r;
}
CS_INLINE int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
CS_INLINE unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
CS_INLINE long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
CS_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
CS_INLINE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
  return (unsigned)((((unsigned long long)hi << 32 | lo) << (s & 31)) >> 32);
}
CS_INLINE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) >> (s & 31));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    unsigned s = selector >> (4 * i);
    unsigned byte = (unsigned)(both >> (8 * (s & 7))) & 0xffu;
    if (s & 8) byte = byte & 0x80u ? 0xffu : 0; /* the sign, replicated */
    r |= byte << (8 * i);
  }
  return r;
}
inline int __dp4a(int x, int y, int sum) {
  for (int i = 0; i < 4; i++) sum += (int)(signed char)(x >> 8 * i) * (int)(signed char)(y >> 8 * i);
  return sum;
}
inline unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
  for (int i = 0; i < 4; i++) sum += (x >> 8 * i & 0xffu) * (y >> 8 * i & 0xffu);
  return sum;
}
