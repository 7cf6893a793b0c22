// reference.c - what the float32 kernels are compared with: the functions in double, and where it is close in long double.
//
//                 block of 1024 inputs
//                 |            |
//        the kernel's f32   f64 of the vector library (libmvec, at most 4 ulp of a double off)
//                 |            |
//                 error in ulps of each; special results by their kind
//                 |
//     an error above the largest so far: the input again, by the C library in long double
//
// An ulp is the spacing of float32 numbers at the exact result, and not less than 2^-149.  Steps are the representable
// numbers between what the kernel computed and the correctly rounded result.
#include <math.h>
#include <string.h>

typedef long long i64;
typedef unsigned u32;
typedef unsigned long long u64;

#define VECTOR __attribute__((simd("notinbranch"), const))
#ifdef WITH_LIBMVEC
#define DOUBLE_OF(NAME) extern VECTOR double NAME(double)
DOUBLE_OF(exp); DOUBLE_OF(log); DOUBLE_OF(log1p); DOUBLE_OF(erf); DOUBLE_OF(erfc); DOUBLE_OF(sin); DOUBLE_OF(cos);
DOUBLE_OF(tanh); DOUBLE_OF(atanh); DOUBLE_OF(acos);
#endif

typedef struct {
  double ulps;        /* the largest error */
  float ulps_at;
  i64 steps;          /* the largest number of steps */
  float steps_at;
  i64 special;        /* inputs whose result is another NaN, infinity or sign of zero than the exact one */
  float special_at;
  i64 rechecked;      /* inputs computed in long double */
  double loose;       /* the largest difference of the two references seen there, in ulps */
} stats;

/* The definitions: T is double or long double, and F(name) the C library's function of that type. */
#define DEFINE(T, NAME, S, EXPRESSION) static inline T NAME##_##T(T x) { return EXPRESSION; }
typedef long double wide;
#define BOTH(NAME, D, L) DEFINE(double, NAME, , D) DEFINE(wide, NAME, l, L)
#define ROOT_HALF 0.70710678118654752440084436210484903928L
#define ROOT_TWO_BY_PI 0.79788456080286535587989211986876373695L
BOTH(exp, exp(x), expl(x))
BOTH(log, log(x), logl(x))
BOTH(log1p, log1p(x), log1pl(x))
BOTH(erf, erf(x), erfl(x))
BOTH(sin, sin(x), sinl(x))
BOTH(cos, cos(x), cosl(x))
BOTH(tanh, tanh(x), tanhl(x))
BOTH(atanh, atanh(x), atanhl(x))
BOTH(acos, acos(x > 1.0 ? 1.0 : x < -1.0 ? -1.0 : x), acosl(x > 1.0L ? 1.0L : x < -1.0L ? -1.0L : x))
BOTH(tanh_sigmoid, tanh(x) / (1.0 + exp(-x)), tanhl(x) / (1.0L + expl(-x)))
BOTH(rsqrt, 1.0 / sqrt(x), 1.0L / sqrtl(x))
BOTH(sigmoid, 1.0 / (1.0 + exp(-x)), 1.0L / (1.0L + expl(-x)))
/* x times something that goes to 0 on the left; -inf times 0 is NaN, as the formula says */
BOTH(silu, x / (1.0 + exp(-x)), x / (1.0L + expl(-x)))
BOTH(gelu_quick, x / (1.0 + exp(-1.702 * x)), x / (1.0L + expl(-1.702L * x)))
BOTH(gelu, 0.5 * x * erfc(-x * (double)ROOT_HALF), 0.5L * x * erfcl(-x * ROOT_HALF))
BOTH(gelu_tanh, x / (1.0 + exp(-2.0 * (double)ROOT_TWO_BY_PI * (x + 0.044715 * x * x * x))),
     x / (1.0L + expl(-2.0L * ROOT_TWO_BY_PI * (x + 0.044715L * x * x * x))))

static inline u64 bits64(double x) { u64 u; memcpy(&u, &x, 8); return u; }
static inline double double_of(u64 u) { double x; memcpy(&x, &u, 8); return x; }
static inline u32 bits32(float x) { u32 u; memcpy(&u, &x, 4); return u; }

/* the place of x in the order of all float32 numbers; both zeros are 0, and infinity follows the largest number */
static inline i64 place(float x) {
  int u = (int)bits32(x);
  return u < 0 ? -(i64)(u & 0x7fffffff) : u;
}
static inline double unit_inverse(double exact) { /* 1 / ulp */
  i64 e = (i64)((bits64(exact) >> 52) & 0x7ff) - 23;
  e = e < 1023 - 149 ? 1023 - 149 : e;
  e = e > 1023 + 104 ? 1023 + 104 : e; /* beyond the largest number the spacing of the last ones goes on */
  return double_of((u64)(2046 - e) << 52);
}
/* Whether got is of another kind than exact: NaN, an infinity of one sign, a zero of one sign. */
static inline int other_kind(float got, double exact) {
  float rounded = (float)exact;
  int nan = (got != got) != (exact != exact);
  int inf = (fabsf(got) == INFINITY) != (fabsf(rounded) == INFINITY);
  int sign = (got == got) & (exact == exact) & ((bits32(got) >> 31) != (u32)(bits64(exact) >> 63));
  return nan | inf | (sign & ((got == 0.0f) | (rounded == 0.0f)));
}
static inline double error_of(float got, double exact) { /* in ulps; 0 for a NaN or infinity of either side */
  double g = (double)got, off = fabs(g - exact) * unit_inverse(exact);
  return (off == off) & (off < INFINITY) ? off : 0.0;
}
static inline i64 steps_of(float got, double exact) {
  i64 d = place(got) - place((float)exact);
  d = d < 0 ? -d : d;
  return (got == got) & (exact == exact) ? d : 0;
}

static void again(stats *s, float x, float got, wide exact, double first) {
  double e = (double)exact, error, loose;
  wide unit = (wide)unit_inverse(e), off = fabsl((wide)got - exact) * unit;
  s->rechecked++;
  error = off == off && off < INFINITY ? (double)off : 0.0;
  loose = (double)(fabsl((wide)first - exact) * unit);
  if (loose > s->loose && fabsl(exact) < 0x1p128L) s->loose = loose;
  if (error > s->ulps) s->ulps = error, s->ulps_at = x;
  i64 steps = place(got) - place((float)exact);
  steps = got == got && exact == exact ? (steps < 0 ? -steps : steps) : 0;
  if (steps > s->steps) s->steps = steps, s->steps_at = x;
  if (other_kind(got, e) && !s->special++) s->special_at = x;
}

#define MANY 1000 /* wrong special results are not computed again beyond these: all of a range may be wrong */
#define SMALL 0.49 /* ulps: below it a result is correctly rounded whatever the last bits of the double are */
/* every_recheck: each so-many-th input is computed in long double however small its error is, to judge the double. */
static inline int normal(u32 u) { return ((u >> 23) & 255) - 1u < 254u; }
#define COMPARE(NAME)                                                                                                  \
  void compare_##NAME(const float *x, const float *got, i64 n, i64 every_recheck, stats *s) {                          \
    double exact[1024];                                                                                                \
    for (i64 from = 0; from < n; from += 1024) {                                                                       \
      i64 m = n - from < 1024 ? n - from : 1024;                                                                       \
      const float *a = x + from, *b = got + from;                                                                      \
      double most = 0;                                                                                                 \
      int steps = 0, odd = 0;                                                                                          \
      for (i64 i = 0; i < m; i++) exact[i] = NAME##_double((double)a[i]);                                              \
      /* two normal numbers of one sign: their bits tell the steps, and neither is of another kind */                  \
      _Pragma("omp simd reduction(max : most, steps) reduction(| : odd)") for (i64 i = 0; i < m; i++) {                \
        u32 g = bits32(b[i]), r = bits32((float)exact[i]);                                                             \
        int k = (int)(g - r);                                                                                          \
        double e = fabs((double)b[i] - exact[i]) * unit_inverse(exact[i]);                                             \
        k = k < 0 ? -k : k;                                                                                            \
        most = e > most ? e : most;                                                                                    \
        steps = k > steps ? k : steps;                                                                                 \
        odd |= (int)((g ^ r) >> 31) | !normal(g) | !normal(r);                                                         \
      }                                                                                                                \
      double close = s->ulps - 1e-6 > SMALL ? s->ulps - 1e-6 : SMALL;                                                  \
      if (odd) {                                                                                                       \
        most = 0, odd = 0;                                                                                             \
        i64 far = 0;                                                                                                   \
        _Pragma("omp simd reduction(max : most, far) reduction(| : odd)") for (i64 i = 0; i < m; i++) {                \
          double e = error_of(b[i], exact[i]);                                                                         \
          i64 k = steps_of(b[i], exact[i]);                                                                            \
          most = e > most ? e : most;                                                                                  \
          far = k > far ? k : far;                                                                                     \
          odd |= other_kind(b[i], exact[i]);                                                                           \
        }                                                                                                              \
        steps = far > 0x7fffffff ? 0x7fffffff : (int)far;                                                              \
      }                                                                                                                \
      if (most <= SMALL && most > s->ulps)                                                                             \
        for (i64 i = 0; i < m; i++)                                                                                    \
          if (error_of(b[i], exact[i]) == most) s->ulps = most, s->ulps_at = a[i];                                     \
      if (most > close || steps > s->steps || odd)                                                                     \
        for (i64 i = 0; i < m; i++)                                                                                    \
          if (s->special >= MANY && other_kind(b[i], exact[i]))                                                        \
            s->special++;                                                                                              \
          else if (error_of(b[i], exact[i]) > close || steps_of(b[i], exact[i]) > s->steps ||                          \
                   other_kind(b[i], exact[i]))                                                                         \
            again(s, a[i], b[i], NAME##_wide((wide)a[i]), exact[i]);                                                   \
      if (every_recheck && (from >> 10) % every_recheck == 0 && !other_kind(b[0], exact[0]))                           \
        again(s, a[0], b[0], NAME##_wide((wide)a[0]), exact[0]);                                                       \
    }                                                                                                                  \
  }
COMPARE(exp)
COMPARE(log)
COMPARE(log1p)
COMPARE(erf)
COMPARE(sin)
COMPARE(cos)
COMPARE(tanh)
COMPARE(atanh)
COMPARE(acos)
COMPARE(rsqrt)
COMPARE(sigmoid)
COMPARE(tanh_sigmoid)
COMPARE(silu)
COMPARE(gelu)
COMPARE(gelu_tanh)
COMPARE(gelu_quick)
