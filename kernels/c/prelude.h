// prelude.h - the headerless C that is put, as text, ahead of every generated kernel.
//
// Generated kernels include nothing: parsing <math.h> alone would cost more than compiling a small kernel.  The code
// generator copies the sections it needs from this file instead.  A section is the text between
//
//     // @section NAME [needs OTHER ...]
//     // @end
//
// and its `needs` come before it in this file, so a wanted set is closed over `needs` and printed in file order.
// Every other C file gets the whole text through mx_abi.h.  A reader of this file may find a function's section by its
// name at the start of a line (`INL ... name(`): what a macro defines is declared in that form too.
//
// Rules for the math functions
//   * scalar `static inline` functions of straight-line code: branches are `?:` over finished values, no calls, no
//     early returns.  gcc then turns a loop marked `#pragma omp simd` over them into vector code, even at -O1.
//   * strict IEEE results: NaN goes in and comes out, infinities and zeros give exact limits, subnormals are kept.
//   * the f32 functions are polynomials or ratios of polynomials (the fits and their errors are ours, see README.md);
//     f64 functions call the C library: right first, fast where it matters.
//   * a comparison with a NaN is false, so `x > hi ? hi : x` keeps a NaN while `x <= hi ? x : hi` would lose it.

// @section abi
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
#define RS __restrict
#define INL static inline __attribute__((always_inline, unused))

struct mx_lib;
struct mx_object;
typedef struct mx_ctx { /* what a kernel knows about the thread that runs it; one per thread */
  void *scratch;        /* at least the step's declared scratch bytes, 64-byte aligned */
  const struct mx_lib *lib;
  i64 err[4];           /* details of a nonzero return code */
  i64 nthreads;
  struct mx_object **made; /* the objects that this run has made so far; NULL when nobody takes them */
  int (*ask)(struct mx_ctx *ctx); /* see mx_stop; NULL when there is nobody to ask */
} mx_ctx;

/* A kernel: pointers b, sizes d, and the range [lo,hi) of its parallel axis.  0, or a code with details in ctx->err. */
typedef int (*mx_fn)(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);

/* Called by gemm_f32 for each finished tile, rows [r0,r1) x columns [c0,c1), while the tile is in L1/L2.  0 or a code. */
typedef int (*mx_epilogue)(void *const *b, const i64 *d, i64 r0, i64 r1, i64 c0, i64 c1, mx_ctx *ctx);

/* Called by attention_f32 on raw scores: S[(i-q0)*lds + (j-k0)] = q_i . k_j for i in [q0,q1), j in [k0,k1).  Changes S
 * in place (scale, mask, ...); the library then takes the softmax over j.  0 or a code. */
typedef int (*mx_score)(void *const *b, const i64 *d, f32 *S, i64 lds, i64 batch, i64 head, i64 q0, i64 q1, i64 k0,
                        i64 k1, mx_ctx *ctx);

typedef struct mx_attention {        /* o = softmax(score(q k^T)) v, all strides in elements, the last axis has stride 1 */
  const f32 *q, *k, *v;
  f32 *o;
  i64 qs[3], ks[3], vs[3], os[3];    /* strides over (batch, head, position) */
  i64 batch, heads, group;           /* query heads; query head h reads key/value head h / group (1: as many as heads) */
  i64 tq, tk, dim, dim_v;            /* positions and head sizes */
  i64 qb;                            /* query positions per item, from attention_plan */
  f32 scale;                         /* used when score is NULL; a score callback scales for itself */
} mx_attention;

/* Everything a generated kernel may call, reached by ctx->lib (explained in mx_abi.h). */
typedef struct mx_lib {
  i64 version;
  void (*gemm_plan)(i64 M, i64 N, i64 K, i64 nthreads, i64 *mb, i64 *nb);
  i64 (*gemm_scratch)(i64 M, i64 N, i64 K, i64 mb, i64 nb);
  int (*gemm_f32)(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *Bp, i64 M, i64 N, i64 K, i64 mb, i64 nb, i64 lo,
                  i64 hi, mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
  i64 (*pack_b_size)(i64 K, i64 N);
  void (*pack_b_f32)(f32 *dst, const f32 *B, i64 K, i64 N, i64 row_stride, i64 col_stride, i64 lo, i64 hi);
  i64 (*matmul_scratch)(i64 M, i64 N, i64 K);
  int (*matmul_f32)(f32 *C, i64 ldc, const f32 *A, i64 ars, i64 acs, const f32 *B, i64 brs, i64 bcs, i64 M, i64 N, i64 K,
                    mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
  i64 (*attention_plan)(i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, i64 nthreads, i64 *qb);
  i64 (*attention_scratch)(i64 tq, i64 tk, i64 dim, i64 dim_v, i64 qb);
  int (*attention_f32)(const mx_attention *a, i64 lo, i64 hi, mx_score score, void *const *b, const i64 *d, mx_ctx *ctx);
  i64 (*half_pack_size)(i64 K, i64 N);
  void (*half_pack)(i64 kind, u16 *dst, const u16 *B, i64 K, i64 N, i64 row_stride, i64 col_stride, i64 lo, i64 hi);
  void (*gemm_runs)(f32 *C, i64 ldc, const void *const *at, i64 runs, i64 run, const f32 *Bp, i64 rows, i64 cols);
  void (*pack_taps)(i64 kind, void *dst, const void *B, i64 K, i64 N, i64 row, i64 column, i64 period, i64 outer, i64 lo,
                    i64 hi);
  void (*half_runs)(i64 kind, f32 *C, i64 ldc, const void *const *at, i64 runs, i64 run, const u16 *Bp, i64 rows,
                    i64 cols, void *scratch);
  int (*q_product)(i64 kind, f32 *y, i64 n, const u8 *w, i64 blocks, const i8 *q, const i32 *s, const f32 *d, i64 m,
                   i64 lo, i64 hi, mx_ctx *ctx);
  void (*half_block)(i64 kind, f32 *C, i64 ldc, const u16 *A, i64 lda, const u16 *Bp, i64 rows, i64 cols, i64 K,
                     void *scratch);
  int (*half_gemm)(i64 kind, const u16 *A, i64 lda, const u16 *Bp, i64 M, i64 N, i64 K, i64 mb, i64 nb, i64 lo, i64 hi,
                   mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
  int (*half_matmul)(i64 kind, const u16 *A, i64 ars, i64 acs, const u16 *B, i64 brs, i64 bcs, i64 M, i64 N, i64 K,
                     mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
  void (*gemm_windows)(f32 *C, i64 ldc, const f32 *A, i64 lda, const i64 *at, i64 taps, i64 run, const f32 *B, i64 depth,
                       i64 step, i64 rows, i64 cols, int first, const void *soon, i64 bytes);
  void (*half_mark)(i64 kind, u16 *packed, i64 K, i64 N, i64 lo, i64 hi);
} mx_lib;
// @end

// @section stop needs abi
/* Whether the run is to end now, because of Ctrl-C for example.  A kernel then returns MX_STOPPED, in the middle of whatever
 * it does: nobody looks at its results.  To ask takes as long as reading the clock, so loops ask once in 0.1 to 10 ms of
 * work.  The executor asks between the pieces of a step and between steps; a kernel whose single item may take longer than
 * that asks for itself. */
#define MX_STOPPED 5
INL int mx_stop(mx_ctx *ctx) { return ctx->ask && ctx->ask(ctx); }
/* The same for products: asked once for MX_ASKED multiplications, about a millisecond; `left` of them are still to come.
 * Nobody is asked when ctx is NULL. */
#define MX_ASKED (1 << 26)
INL int mx_over(mx_ctx *ctx, i64 *left, i64 products) {
  if ((*left -= products) > 0 || !ctx) return 0;
  *left = MX_ASKED;
  return mx_stop(ctx);
}
// @end

// @section objects needs abi
/* What an opaque handle points to: memory of a user's library, `self`, and who still has it.  The run that makes an object
 * holds one reference to its end, every handle that Python has another one; the last who lets go calls `drop`. */
typedef struct mx_object {
  i64 refs;
  void *self;
  void (*drop)(void *self);
  struct mx_object *next; /* in the list of the run that made it */
} mx_object;

extern void *malloc(__SIZE_TYPE__ bytes);
extern void *calloc(__SIZE_TYPE__ count, __SIZE_TYPE__ bytes);
extern void *realloc(void *memory, __SIZE_TYPE__ bytes);
extern void free(void *memory);

/* An object for `self`, which is its own from here on; NULL, and `self` dropped, when there is no memory or no run. */
INL mx_object *mx_make(mx_ctx *ctx, void *self, void (*drop)(void *)) {
  mx_object *o = ctx->made ? (mx_object *)malloc(sizeof *o) : (mx_object *)0;
  if (!o) {
    drop(self);
    return o;
  }
  o->refs = 1;
  o->self = self;
  o->drop = drop;
  o->next = *ctx->made;
  *ctx->made = o;
  return o;
}
// @end

// @section bits needs abi
INL u32 mx_bits_f32(f32 x) { u32 u; __builtin_memcpy(&u, &x, 4); return u; }
INL f32 mx_f32_bits(u32 u) { f32 x; __builtin_memcpy(&x, &u, 4); return x; }
INL u64 mx_bits_f64(f64 x) { u64 u; __builtin_memcpy(&u, &x, 8); return u; }
INL f64 mx_f64_bits(u64 u) { f64 x; __builtin_memcpy(&x, &u, 8); return x; }
// @end

// @section bf16 needs bits
/* bfloat16 is the upper half of a float32, kept in a u16.  Narrowing rounds to nearest, ties to even; NaN stays quiet. */
INL f32 mx_bf16_to_f32(u16 h) { return mx_f32_bits((u32)h << 16); }
INL u16 mx_f32_to_bf16(f32 x) {
  u32 u = mx_bits_f32(x), r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (u16)(x != x ? (u >> 16) | 0x40u : r);
}
INL u16 mx_f64_to_bf16(f64 x) { /* through f32 rounded to odd, so that the two roundings give what one would */
  f32 f = (f32)x; f64 g = (f64)f; u32 u = mx_bits_f32(f);
  u32 away = (g < 0 ? -g : g) > (x < 0 ? -x : x); /* |f| > |x|: one step back gives truncation */
  u32 inexact = (u32)(g != x) & (u32)(x == x);
  u = inexact ? ((u - away) | 1u) : u;
  return mx_f32_to_bf16(mx_f32_bits(u));
}
/* Integers are rounded once: 32 bits are exact in an f64; of 64 bits, what an f64 may not hold becomes one odd bit. */
#define MX_INT_TO_BF16(T, FAR)                                                                                         \
  INL u16 mx_##T##_to_bf16(T x) {                                                                                      \
    T odd = (T)((x & ~(T)0xfff) | ((T)((x & 0xfff) != 0) << 11));                                                      \
    return mx_f64_to_bf16((f64)((FAR) ? odd : x));                                                                     \
  }
INL u16 mx_i32_to_bf16(i32);
INL u16 mx_u32_to_bf16(u32);
INL u16 mx_i64_to_bf16(i64);
INL u16 mx_u64_to_bf16(u64);
MX_INT_TO_BF16(i32, 0)
MX_INT_TO_BF16(u32, 0)
MX_INT_TO_BF16(i64, (x >= (1ll << 53)) | (x <= -(1ll << 53)))
MX_INT_TO_BF16(u64, x >= (1ull << 53))
// @end

// @section f16 needs bits
/* IEEE half in a u16, by integer steps and one multiply: gcc vectorises these (it does not vectorise _Float16 casts
 * without AVX512-FP16), and they need nothing from the target.  Nearest-even, subnormals, infinities and NaN kept. */
INL f32 mx_f16_to_f32(u16 h) {
  u32 e = (u32)(h & 0x7fffu) << 13, s = (u32)(h & 0x8000u) << 16;
  f32 v = mx_f32_bits(e) * 0x1p112f;                       /* rebias the exponent; exact, for subnormals too */
  u32 u = e >= 0x0f800000u ? (e | 0x7f800000u) : mx_bits_f32(v);
  return mx_f32_bits(u | s);
}
INL u16 mx_f32_to_f16(f32 x) {
  u32 u = mx_bits_f32(x), s = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  u32 normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;  /* a carry out of the mantissa raises the exponent */
  u32 tiny = mx_bits_f32(mx_f32_bits(a) + 0.5f) - 0x3f000000u;       /* adding 0.5 rounds at the 2^-24 place for us */
  u32 r = a < 0x38800000u ? tiny : normal;
  r = a >= 0x477ff000u ? 0x7c00u : r;                      /* 65520 and above round to infinity */
  r = a > 0x7f800000u ? (0x7e00u | ((a >> 13) & 0x3ffu)) : r;
  return (u16)(r | s);
}
INL u16 mx_f64_to_f16(f64 x) { /* round to odd first, see mx_f64_to_bf16 */
  f32 f = (f32)x; f64 g = (f64)f; u32 u = mx_bits_f32(f);
  u32 away = (g < 0 ? -g : g) > (x < 0 ? -x : x);
  u32 inexact = (u32)(g != x) & (u32)(x == x);
  u = inexact ? ((u - away) | 1u) : u;
  return mx_f32_to_f16(mx_f32_bits(u));
}
// @end

// @section basic needs abi
INL f32 mx_sqrt_f32(f32 x) { return __builtin_sqrtf(x); }
INL f64 mx_sqrt_f64(f64 x) { return __builtin_sqrt(x); }
INL f32 mx_rsqrt_f32(f32 x) { /* 1/root, and what root and quotient lost to rounding: 0.51 ulp, not 1.5 */
  f32 v = x < 0x1p-60f ? x * 0x1p64f : x;                /* so that root^2 - v is no subnormal */
  f32 z = __builtin_sqrtf(v), y = 1.0f / z;
  f32 off = __builtin_fmaf(-0.5f * __builtin_fmaf(-z, z, v) * y, y, __builtin_fmaf(-z, y, 1.0f));
  f32 r = ((x > 0.0f) & (x < __builtin_inff())) ? __builtin_fmaf(y, off, y) : y;
  return x < 0x1p-60f ? r * 0x1p32f : r;
}
INL f64 mx_rsqrt_f64(f64 x) { return 1.0 / __builtin_sqrt(x); }
INL f32 mx_floor_f32(f32 x) { return __builtin_floorf(x); }
INL f64 mx_floor_f64(f64 x) { return __builtin_floor(x); }
INL f32 mx_ceil_f32(f32 x) { return __builtin_ceilf(x); }
INL f64 mx_ceil_f64(f64 x) { return __builtin_ceil(x); }
INL f32 mx_trunc_f32(f32 x) { return __builtin_truncf(x); }
INL f64 mx_trunc_f64(f64 x) { return __builtin_trunc(x); }
INL f32 mx_rint_f32(f32 x) { return __builtin_rintf(x); } /* halves to even */
INL f64 mx_rint_f64(f64 x) { return __builtin_rint(x); }
INL f32 mx_abs_f32(f32 x) { return __builtin_fabsf(x); }
INL f64 mx_abs_f64(f64 x) { return __builtin_fabs(x); }
INL f32 mx_fma_f32(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
/* max and min hand on a NaN from either side, as numpy.maximum does */
INL f32 mx_max_f32(f32 a, f32 b) { f32 m = a > b ? a : b; return a != a ? a : m; }
INL f64 mx_max_f64(f64 a, f64 b) { f64 m = a > b ? a : b; return a != a ? a : m; }
INL f32 mx_min_f32(f32 a, f32 b) { f32 m = a < b ? a : b; return a != a ? a : m; }
INL f64 mx_min_f64(f64 a, f64 b) { f64 m = a < b ? a : b; return a != a ? a : m; }
// @end

// @section exp_f32 needs bits
/* exp(x) = 2^n * e^r with r from -0.288 to 0.406: the rounding of e^r - 1, at most a quarter to the left, then counts
 * little beside that of e^r.  2^n is applied as two factors, so that the result runs smoothly into infinity above 88.72
 * and through the subnormals to 0 below -103.97 with no extra selects.  1 ulp. */
INL f32 mx_exp_turns_f32(f32 x) { return __builtin_rintf(__builtin_fmaf(x, 1.44269504f, -0.0848f)); } /* n */
INL f32 mx_exp_poly_f32(f32 r) { /* (e^r - 1 - r) / r^2 */
  f32 p = 0.00146524084f;
  p = __builtin_fmaf(p, r, 0.00836021826f);
  p = __builtin_fmaf(p, r, 0.0416581705f);
  p = __builtin_fmaf(p, r, 0.166665718f);
  return __builtin_fmaf(p, r, 0.500000179f);
}
INL f32 mx_exp_f32(f32 x) {
  x = x > 90.0f ? 90.0f : x;
  x = x < -105.0f ? -105.0f : x;
  f32 n = mx_exp_turns_f32(x);
  f32 r = __builtin_fmaf(n, -0.693145752f, x);   /* ln2 in two parts: n * (the first) is exact */
  r = __builtin_fmaf(n, -1.42860677e-06f, r);
  f32 p = __builtin_fmaf(mx_exp_poly_f32(r) * r, r, r) + 1.0f;
  i32 m = (i32)n, h = m >> 1;
  return mx_f32_bits(mx_bits_f32(p) + ((u32)h << 23)) * mx_f32_bits((u32)(m - h + 127) << 23);
}
/* e^(x + tail) for x from -160 to 0: the sum of the result and *rest, times *a, times *b.  Right to 0.1 ulp, for
 * functions whose own rounding takes the rest. */
INL f32 mx_exp_parts_f32(f32 x, f32 tail, f32 *rest, f32 *a, f32 *b) {
  f32 n = mx_exp_turns_f32(x);
  f32 high = __builtin_fmaf(n, -0.693145752f, x), low = __builtin_fmaf(n, -1.42860677e-06f, tail);
  f32 r = high + low;
  f32 u = __builtin_fmaf(mx_exp_poly_f32(r) * r, r, (high - r) + low); /* e^r = 1 + (r + u) */
  f32 s = r + u, p = 1.0f + s;
  i32 m = (i32)n, h = m >> 1;
  *rest = ((1.0f - p) + s) + ((r - s) + u);
  *a = mx_f32_bits((u32)(h + 127) << 23);
  *b = mx_f32_bits((u32)(m - h + 127) << 23);
  return p;
}
// @end

// @section log_f32 needs bits
/* x = 2^e * m with m in [sqrt(1/2), sqrt 2); log x = e ln2 + log m.  log(1+f) = f - f^2/2 + f^3 P(f).  0.9 ulp. */
INL f32 mx_log_sum_f32(f32 x, f32 e0, f32 tail) { /* e0 ln2 + log(x) + tail, for a tail below some ulps */
  u32 u = mx_bits_f32(x) - 0x3f3504f3u;                  /* 0x3f3504f3 = sqrt(1/2) */
  f32 e = e0 + (f32)((i32)u >> 23);
  f32 f = mx_f32_bits((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  f32 p = 0.0674664006f;
  p = __builtin_fmaf(p, f, -0.116756514f);
  p = __builtin_fmaf(p, f, 0.11888162f);
  p = __builtin_fmaf(p, f, -0.124055892f);
  p = __builtin_fmaf(p, f, 0.142195523f);
  p = __builtin_fmaf(p, f, -0.166679963f);
  p = __builtin_fmaf(p, f, 0.200021192f);
  p = __builtin_fmaf(p, f, -0.250000089f);
  p = __builtin_fmaf(p, f, 0.333333135f);
  f32 s = f * f;
  f32 r = __builtin_fmaf(e, 1.42860677e-06f, __builtin_fmaf(p, s * f, tail)); /* the small parts first */
  return __builtin_fmaf(e, 0.693145752f, __builtin_fmaf(s, -0.5f, r) + f);
}
INL f32 mx_log_edge_f32(f32 x, f32 r) { /* r, but where log(x) is not a finite number */
  r = x == 0.0f ? -__builtin_inff() : r;
  r = x < 0.0f ? __builtin_nanf("") : r;
  return x < __builtin_inff() ? r : x;                   /* +inf and NaN return themselves */
}
INL f32 mx_log_f32(f32 x) {
  f32 lifted = x < 0x1p-126f ? x * 0x1p23f : x;          /* subnormals */
  return mx_log_edge_f32(x, mx_log_sum_f32(lifted, x < 0x1p-126f ? -23.0f : 0.0f, -0.0f));
}
// @end

// @section log1p_f32 needs log_f32
/* log(u) for u = fl(1+x), plus the relative rounding error of that sum.  0.9 ulp. */
INL f32 mx_log1p_f32(f32 x) {
  f32 u = 1.0f + x;
  f32 r = mx_log_edge_f32(u, mx_log_sum_f32(u, 0.0f, (x - (u - 1.0f)) / u));
  return __builtin_fabsf(x) < 0x1p-25f ? x : r;          /* keeps -0 and subnormals */
}
// @end

// @section tanh_f32 needs abi
/* Near 0 an odd polynomial; from 0.6 on 1 - 1/P(|x|)^2, where P approximates (1 - tanh)^(-1/2): as 1/P^2 is the smaller
 * part, its rounding errors hardly show; for large |x| P overflows and 1 is left.  2.3 ulp (a ratio of polynomials: 5). */
INL f32 mx_tanh_f32(f32 x) {
  f32 a = __builtin_fabsf(x);
  f32 s = a * a;
  f32 q = -0.00589515781f;
  q = __builtin_fmaf(q, s, 0.0207959712f);
  q = __builtin_fmaf(q, s, -0.0537838303f);
  q = __builtin_fmaf(q, s, 0.133319244f);
  q = __builtin_fmaf(q, s, -0.333332986f);
  f32 small = __builtin_fmaf(q * s, a, a);
  f32 p = 3.41022883e-06f;
  p = __builtin_fmaf(p, a, -5.6047953e-05f);
  p = __builtin_fmaf(p, a, 0.000501071627f);
  p = __builtin_fmaf(p, a, -0.00210765679f);
  p = __builtin_fmaf(p, a, 0.00674998295f);
  p = __builtin_fmaf(p, a, 0.00057270762f);
  p = __builtin_fmaf(p, a, 0.0173558258f);
  p = __builtin_fmaf(p, a, 0.153330609f);
  p = __builtin_fmaf(p, a, 0.370467246f);
  p = __builtin_fmaf(p, a, 0.501422703f);
  p = __builtin_fmaf(p, a, 0.999814808f);
  f32 large = 1.0f - 1.0f / (p * p);
  return __builtin_copysignf(a < 0.6f ? small : large, x);
}
// @end

// @section erf_f32 needs abi
/* Near 0 an odd polynomial; from 1.2 on 1 - 1/P(|x|)^8, where P approximates erfc^(-1/8): as 1/P^8 is the smaller part,
 * its rounding errors hardly show; for large |x| P^8 overflows and 1 is left.  2.6 ulp. */
INL f32 mx_erf_small_f32(f32 a) { /* erf(a), 0 <= a <= 1.2 */
  f32 s = a * a;
  f32 q = 6.52739618e-05f;
  q = __builtin_fmaf(q, s, -0.000756219204f);
  q = __builtin_fmaf(q, s, 0.00513127353f);
  q = __builtin_fmaf(q, s, -0.0268201716f);
  q = __builtin_fmaf(q, s, 0.112826854f);
  q = __builtin_fmaf(q, s, -0.376125365f);
  q = __builtin_fmaf(q, s, 1.12837911f);
  return q * a;
}
INL f32 mx_erfc_large_f32(f32 a) { /* 1 - erf(a), a >= 1.2 */
  f32 p = 0.000708753767f;
  p = __builtin_fmaf(p, a, -0.00608524447f);
  p = __builtin_fmaf(p, a, 0.0288334377f);
  p = __builtin_fmaf(p, a, -0.0652750134f);
  p = __builtin_fmaf(p, a, 0.129170716f);
  p = __builtin_fmaf(p, a, -0.00693352195f);
  p = __builtin_fmaf(p, a, 0.190590724f);
  p = __builtin_fmaf(p, a, 0.989097238f);
  p = p * p;
  p = p * p;
  return 1.0f / (p * p);
}
INL f32 mx_erf_f32(f32 x) {
  f32 a = __builtin_fabsf(x), small = mx_erf_small_f32(a), large = 1.0f - mx_erfc_large_f32(a);
  return __builtin_copysignf(a < 1.2f ? small : large, x);
}
// @end

// @section sigmoid_f32 needs exp_f32
/* 1/(1+e^-z) = p / (1+t) with t = e^-|z|: p is 1 to the right and t to the left, so that nothing overflows and the left
 * tail keeps its digits.  The quotient gets what its rounding and those of t and 1+t lost.  0.8 ulp. */
INL f32 mx_sigmoid_parts_f32(f32 z, f32 *rest, f32 *a, f32 *b) { /* in the parts of mx_exp_parts_f32 */
  f32 low, x = -__builtin_fabsf(z);
  f32 t = mx_exp_parts_f32(x < -110.0f ? -110.0f : x, 0.0f, &low, a, b);
  f32 ab = *a * *b, th = t * ab, tl = low * ab;
  f32 d = 1.0f + th, dl = ((1.0f - d) + th) + tl, y = 1.0f / d;
  f32 p = z < 0.0f ? t : 1.0f, pl = z < 0.0f ? low : 0.0f, q = p * y;
  *rest = __builtin_fmaf(-q, dl, __builtin_fmaf(-q, d, p) + pl) * y;
  *a = z < 0.0f ? *a : 1.0f;
  *b = z < 0.0f ? *b : 1.0f;
  return q;
}
INL f32 mx_sigmoid_f32(f32 x) {
  f32 rest, a, b, q = mx_sigmoid_parts_f32(x, &rest, &a, &b);
  return (q + rest) * a * b;
}
// @end

// @section silu_f32 needs sigmoid_f32
INL f32 mx_silu_f32(f32 x) { /* -inf * 0 is NaN, as composed.  0.9 ulp. */
  f32 rest, a, b, q = mx_sigmoid_parts_f32(x, &rest, &a, &b);
  f32 v = x < -110.0f ? -110.0f : x;                     /* where the sigmoid is no longer right, but small enough */
  f32 h = v * q, l = __builtin_fmaf(v, q, -h);
  f32 y = __builtin_copysignf((h + __builtin_fmaf(v, rest, l)) * a * b, x); /* -0 + 0 is 0 */
  return __builtin_fabsf(x) < __builtin_inff() ? y : (x > 0.0f ? x : x - x);
}
// @end

// @section gelu_f32 needs exp_f32
/* x/2 (1 + erf(x/sqrt 2)): near 0 x (1/2 + x P(x^2)), from 0.6 on max(x, 0) - |x|/2 erfc(|x|/sqrt 2), where
 * erfc(|x|/sqrt 2) = e^(-x^2/2) / (|x| sqrt(pi/2) + d(|x|)).  d, a ratio of polynomials, is the smaller part, and nothing
 * cancels: the left tail is right down to its last subnormal at -14.1.  3 ulp. */
INL f32 mx_gelu_f32(f32 x) {
  f32 a = __builtin_fabsf(x), rest, up, more;
  a = a > 14.8f ? 14.8f : a;
  f32 s = a * a;
  f32 e = mx_exp_parts_f32(-0.5f * s, -0.5f * __builtin_fmaf(a, a, -s), &rest, &up, &more);
  f32 c = -0.00109547518f;
  c = __builtin_fmaf(c, s, 0.00994818661f);
  c = __builtin_fmaf(c, s, -0.0664877166f);
  c = __builtin_fmaf(c, s, 0.398942202f);
  f32 near = x * __builtin_fmaf(x, c, 0.5f);
  f32 p = 0.0186540417f;
  p = __builtin_fmaf(p, a, 0.14883986f);
  p = __builtin_fmaf(p, a, 0.545439309f);
  p = __builtin_fmaf(p, a, 0.999971484f);
  f32 q = 0.0148883825f;
  q = __builtin_fmaf(q, a, 0.118562417f);
  q = __builtin_fmaf(q, a, 0.468422716f);
  q = __builtin_fmaf(q, a, 1.00069444f);
  q = __builtin_fmaf(q, a, 1.0f);
  f32 t = a * q, w = 0.5f * t / __builtin_fmaf(t, 1.25331414f, p); /* its error cancels in the quotient */
  f32 g = __builtin_fmaf(w, e, w * rest) * up * more;
  f32 far = x > 0.0f ? x - g : -g;
  f32 y = a < 0.6f ? near : far;
  return x > -__builtin_inff() ? y : x - x;              /* -inf * 0 is NaN, as composed */
}
// @end

// @section gelu_tanh_f32 needs exp_f32
/* x sigmoid(z + tail) for a z of the sign of x: the left tail needs more than 24 bits of z.  2.5 ulp. */
INL f32 mx_sigmoid_times_f32(f32 x, f32 z, f32 tail) {
  f32 low, a, b, y = -__builtin_fabsf(z);
  f32 t = mx_exp_parts_f32(y < -110.0f ? -110.0f : y, z < 0.0f ? tail : -tail, &low, &a, &b);
  f32 v = x < -110.0f ? -110.0f : x;                     /* there e^z is no longer right, but small enough */
  f32 p = __builtin_fmaf(v, z < 0.0f ? t : 1.0f, z < 0.0f ? v * low : -0.0f); /* -0 stays -0 */
  f32 q = p / __builtin_fmaf(t, a * b, 1.0f);
  q = q * (z < 0.0f ? a : 1.0f) * (z < 0.0f ? b : 1.0f);
  return x > -__builtin_inff() ? q : x - x;              /* -inf * 0 is NaN, as composed */
}
/* x/2 (1 + tanh u) = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3) */
INL f32 mx_gelu_tanh_f32(f32 x) {
  f32 c = x < -110.0f ? -110.0f : x;
  c = c > 110.0f ? 110.0f : c;
  f64 w = (f64)c, u = w * __builtin_fma(0.0713548162726009, w * w, 1.5957691216057308);
  f32 z = (f32)u;
  return mx_sigmoid_times_f32(x, z, (f32)(u - (f64)z));
}
// @end

// @section gelu_quick_f32 needs gelu_tanh_f32
/* x sigmoid(1.702 x), with the product and 1.702 in two parts each.  2.5 ulp. */
INL f32 mx_gelu_quick_f32(f32 x) {
  f32 c = x < -110.0f ? -110.0f : x;
  c = c > 110.0f ? 110.0f : c;
  f32 z = 1.702f * c;
  return mx_sigmoid_times_f32(x, z, __builtin_fmaf(-2.19345093e-08f, c, __builtin_fmaf(1.702f, c, -z)));
}
// @end

// @section atanh_f32 needs log_f32
/* below 1/2 an odd polynomial, above it log((1+a)/(1-a))/2, where 1-a is exact and what 1+a and the quotient lost to
 * rounding is added to the logarithm.  0.7 ulp. */
INL f32 mx_atanh_f32(f32 x) {
  f32 a = __builtin_fabsf(x), s = x * x;
  f32 p = 0.177196473f;
  p = __builtin_fmaf(p, s, 0.0509855114f);
  p = __builtin_fmaf(p, s, 0.118339606f);
  p = __builtin_fmaf(p, s, 0.142214864f);
  p = __builtin_fmaf(p, s, 0.200025871f);
  p = __builtin_fmaf(p, s, 0.333332986f);
  f32 small = __builtin_fmaf(p * s, x, x);
  f32 n = 1.0f + a, d = 1.0f - a, u = n / d;
  f32 lost = (__builtin_fmaf(-u, d, n) + (a - (n - 1.0f))) / n;
  f32 big = 0.5f * mx_log_edge_f32(u, mx_log_sum_f32(u, 0.0f, lost));
  return a < 0.5f ? small : __builtin_copysignf(big, x);
}
// @end

// @section acos_f32 needs abi
/* asin z = z + z^3 P(z^2) on |z| <= 1/2; beyond, acos x = 2 asin sqrt((1-x)/2).  NaN outside [-1,1].  0.6 ulp: what the
 * root and the difference from pi/2 or pi lose to rounding is added at the end. */
INL f32 mx_acos_f32(f32 x) {
  f32 a = __builtin_fabsf(x), inner = a <= 0.5f ? 1.0f : 0.0f, left = x < 0.0f ? 1.0f : 0.0f;
  f32 s = a <= 0.5f ? x * x : 0.5f * (1.0f - a);
  f32 root = __builtin_sqrtf(s);
  f32 lost = __builtin_fmaf(-root, root, s) / (2.0f * root + 0x1p-100f); /* not 0/0 at the ends */
  f32 z = a <= 0.5f ? x : root;
  lost = a <= 0.5f ? 0.0f : lost;
  f32 p = 0.0376951583f;
  p = __builtin_fmaf(p, s, 0.0143141672f);
  p = __builtin_fmaf(p, s, 0.0318398364f);
  p = __builtin_fmaf(p, s, 0.0445132069f);
  p = __builtin_fmaf(p, s, 0.0750052333f);
  p = __builtin_fmaf(p, s, 0.166666597f);
  f32 rest = __builtin_fmaf(p * s, z, lost);             /* asin z = z + rest */
  f32 turn = inner + (1.0f - inner) * 2.0f * left;       /* acos x = turn pi/2 - by asin z */
  f32 by = a <= 0.5f ? 1.0f : (x < 0.0f ? 2.0f : -2.0f);
  f32 c = turn * 1.57079637f, y = by * z, h = c - y;     /* pi/2 in two parts; by * z is exact */
  return h + (((c - h) - y) - (by * rest + turn * 4.37113883e-08f));
}
// @end

// @section sincos_f32 needs bits
/* Reduction modulo pi/2, exact enough for every float up to 2^128 and still free of branches: |x| = m * 2^(8j) with m
 * an integer below 2^32 (or j = 0), and 2^(8j) * 2/pi mod 4 is tabled in three parts: 29 + 29 bits, whose products
 * with the 24 significant bits of m are exact in a double, and the rest.  Returns the angle in [-pi/4,pi/4] (as f64)
 * and the quadrant. */
static const f64 mx_trig_hi[14] = {0x1.45f306cp-1, -0x1.067c91cp+0, 0x1.836e4e4p+0, -0x1.236377cp-1, -0x1.b1bbeaep+0,
  -0x1.bbead6p+0, 0x1.529fc2p-4, 0x1.29fc276p+0, 0x1.fc2757ep+0, 0x1.3abe9p-3, -0x1.505c158p-1, -0x1.705659p-3,
  0x1.f534ddcp+0, 0x1.34ddc0ep+0};
static const f64 mx_trig_mid[14] = {0x1.c9c882ap-29, 0x1.c882a54p-29, 0x1.054a7fp-30, -0x1.5ac07b2p-29, 0x1.3f84ebp-29,
  -0x1.ec5417p-31, 0x1.d5f47d4p-30, -0x1.05c1596p-29, -0x1.c159644p-29, -0x1.596447ep-29, -0x1.6447e4ap-29,
  -0x1.1f924e8p-31, 0x1.b6c52cp-33, -0x1.275a99cp-30};
static const f64 mx_trig_lo[14] = {0x1.4fe13abe8fa9ap-59, -0x1.ec54170565912p-63, 0x1.3abe8fa9a6eep-59,
  0x1.5f47d4d377037p-58, -0x1.70565911f924fp-59, -0x1.596447e493ad5p-61, 0x1.a6ee06db14acdp-59, -0x1.11f924eb53362p-59,
  -0x1.f924eb53361dep-59, -0x1.24eb53361de38p-59, 0x1.8a5664f10e41p-58, -0x1.a99b0ef1bef8p-58, -0x1.9b0ef1bef806cp-58,
  0x1.e21c820ff28b2p-59};
INL f64 mx_trig_reduce(f32 ax, i32 *quadrant) {
  i32 j = (i32)(mx_bits_f32(ax) >> 23) - 150;
  j = j > 0 ? j >> 3 : 0;
  f64 m = (f64)ax * mx_f64_bits((u64)(1023 - 8 * j) << 52);
  f64 a = m * mx_trig_hi[j], b = m * mx_trig_mid[j];
  f64 qa = __builtin_rint(a), qb = __builtin_rint(b);
  f64 r = (a - qa) + (b - qb), qr = __builtin_rint(r);
  r = (r - qr) + m * mx_trig_lo[j];
  f64 q = qa + qb + qr;
  q = q - 4.0 * __builtin_floor(q * 0.25);               /* 0..3; NaN only when ax is not finite */
  *quadrant = (i32)(q == q ? q : 0.0);
  return r * 1.5707963267948966;
}
INL f32 mx_trig_eval(f64 t, i32 quadrant) { /* sine of the angle turned by `quadrant` right angles; 0.51 ulp */
  f64 s = t * t;
  f64 ps = 2.7175644969818128e-06;
  ps = __builtin_fma(ps, s, -0.0001983925663971523);
  ps = __builtin_fma(ps, s, 0.0083333291439406428);
  ps = __builtin_fma(ps, s, -0.16666666639558197);
  f64 pc = 2.4431205003721911e-05;
  pc = __builtin_fma(pc, s, -0.001388730604360367);
  pc = __builtin_fma(pc, s, 0.041666645652888891);
  pc = __builtin_fma(pc, s, -0.5);
  /* t + t s ps or 1 + s pc: the same two operations, on numbers that the quadrant chooses */
  f64 base = (quadrant & 1) ? 1.0 : t, p = (quadrant & 1) ? pc : ps * t;
  f32 v = (f32)__builtin_fma(p, s, base);
  return mx_f32_bits(mx_bits_f32(v) ^ ((u32)(quadrant & 2) << 30));
}
INL f32 mx_sin_f32(f32 x) {
  i32 q;
  f64 t = mx_trig_reduce(__builtin_fabsf(x), &q);
  return mx_f32_bits(mx_bits_f32(mx_trig_eval(t, q)) ^ (mx_bits_f32(x) & 0x80000000u));
}
INL f32 mx_cos_f32(f32 x) {
  i32 q;
  f64 t = mx_trig_reduce(__builtin_fabsf(x), &q);
  return mx_trig_eval(t, q + 1);
}
// @end

// @section pow_f32 needs bits
/* 2^(y log2|x|) in double, rounded to float once at the end, then the IEEE cases of pow(). */
INL f32 mx_pow_f32(f32 x, f32 y) {
  f64 ax = (f64)__builtin_fabsf(x), yd = (f64)y, inf = __builtin_inf();
  u64 u = mx_bits_f64(ax) - 0x3fe6a09e667f3bcdull;       /* sqrt(1/2) */
  f64 e = (f64)((i32)(u >> 32) >> 20);
  f64 m = mx_f64_bits((u & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
  f64 s = (m - 1.0) / (m + 1.0), z = s * s;
  f64 p = 0.28290522686181;
  p = __builtin_fma(p, z, 0.31990536650159);
  p = __builtin_fma(p, z, 0.41220925981356);
  p = __builtin_fma(p, z, 0.57707794229762);
  p = __builtin_fma(p, z, 0.96179669411356);
  p = __builtin_fma(p, z, 2.88539008177785);
  f64 l = __builtin_fma(p, s, e);
  l = ax == 0.0 ? -inf : (ax == inf ? inf : l);
  l = ax == ax ? l : ax;
  f64 t = yd * l;
  t = t > 200.0 ? 200.0 : t;
  t = t < -200.0 ? -200.0 : t;
  f64 n = __builtin_rint(t), r = t - n;
  f64 g = 1.5201920261010e-05;
  g = __builtin_fma(g, r, 1.546929111871e-04);
  g = __builtin_fma(g, r, 1.3333922569182e-03);
  g = __builtin_fma(g, r, 9.6180272537341e-03);
  g = __builtin_fma(g, r, 5.5504103534412e-02);
  g = __builtin_fma(g, r, 2.40226511981572e-01);
  g = __builtin_fma(g, r, 6.93147180728449e-01);
  g = __builtin_fma(g, r, 9.99999999961682e-01);
  i32 k = (i32)(n == n ? n : 0.0);
  f32 v = (f32)(g * mx_f64_bits((u64)(i64)(k + 1023) << 52));
  v = ((ax == 1.0) & (y == y)) ? 1.0f : v;               /* also (-1)^inf */
  f32 ty = __builtin_truncf(y), hy = 0.5f * y;
  f32 neg = x < 0.0f ? 1.0f : (x == 0.0f && (mx_bits_f32(x) >> 31) ? 1.0f : 0.0f);
  f32 odd = ty == y ? (__builtin_truncf(hy) == hy ? 0.0f : 1.0f) : 0.0f;
  v = neg * odd != 0.0f ? -v : v;
  v = ((x < 0.0f) & (ax < inf) & (ty != y)) ? __builtin_nanf("") : v;
  v = x == 1.0f ? 1.0f : v;
  return y == 0.0f ? 1.0f : v;
}
// @end

// @section fmod needs abi
/* remainder with the sign of the divisor (5.5 mod -3 = -0.5, as Python and numpy): fmod is exact, then one step. */
INL f32 mx_mod_f32(f32 a, f32 b) {
  f32 r = __builtin_fmodf(a, b);
  return r != 0.0f ? ((r < 0.0f) != (b < 0.0f) ? r + b : r) : __builtin_copysignf(r, b);
}
INL f64 mx_mod_f64(f64 a, f64 b) {
  f64 r = __builtin_fmod(a, b);
  return r != 0.0 ? ((r < 0.0) != (b < 0.0) ? r + b : r) : __builtin_copysign(r, b);
}
INL f64 mx_floordiv_f64(f64 a, f64 b) {                  /* consistent with mod: a = floordiv * b + mod */
  f64 r = __builtin_fmod(a, b), q = (a - r) / b;         /* q is whole but for rounding */
  q = ((r != 0.0) & ((r < 0.0) != (b < 0.0))) ? q - 1.0 : q;
  f64 n = __builtin_floor(q + 0.5);
  n = n == 0.0 ? __builtin_copysign(0.0, a / b) : n;
  return b == 0.0 ? a / b : n;
}
INL f32 mx_floordiv_f32(f32 a, f32 b) { return (f32)mx_floordiv_f64((f64)a, (f64)b); }
// @end

// @section math_f64 needs abi
/* double precision: the C library's functions */
INL f64 mx_exp_f64(f64 x) { return __builtin_exp(x); }
INL f64 mx_log_f64(f64 x) { return __builtin_log(x); }
INL f64 mx_log1p_f64(f64 x) { return __builtin_log1p(x); }
INL f64 mx_tanh_f64(f64 x) { return __builtin_tanh(x); }
INL f64 mx_erf_f64(f64 x) { return __builtin_erf(x); }
INL f64 mx_sin_f64(f64 x) { return __builtin_sin(x); }
INL f64 mx_cos_f64(f64 x) { return __builtin_cos(x); }
INL f64 mx_acos_f64(f64 x) { return __builtin_acos(x); }
INL f64 mx_atanh_f64(f64 x) { return __builtin_atanh(x); }
INL f64 mx_pow_f64(f64 x, f64 y) { return __builtin_pow(x, y); }
INL f64 mx_sigmoid_f64(f64 x) { f64 t = __builtin_exp(-__builtin_fabs(x)); return (x < 0.0 ? t : 1.0) / (1.0 + t); }
INL f64 mx_silu_f64(f64 x) { return x * mx_sigmoid_f64(x); }
/* 1 + erf(z) and 1 + tanh(u), with nothing that cancels to the left */
INL f64 mx_gelu_f64(f64 x) { return 0.5 * x * __builtin_erfc(x * -0.70710678118654752); }
INL f64 mx_gelu_tanh_f64(f64 x) { return x * mx_sigmoid_f64(1.5957691216057308 * (x + 0.044715 * x * x * x)); }
INL f64 mx_gelu_quick_f64(f64 x) { return x * mx_sigmoid_f64(1.702 * x); }
// @end

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

// @section int_macros needs abi
/* Integer arithmetic wraps and never traps.  Division and remainder round towards minus infinity (remainder has the
 * divisor's sign); x / 0 and x mod 0 are 0; INT_MIN / -1 wraps to INT_MIN.  A negative power of an integer is 0.
 * A shift by a negative count or by the width or more gives 0, or the sign for a right shift of a signed number. */
#define MX_INT_SIGNED(T, U, W)                                                                                         \
  INL T mx_floordiv_##T(T a, T b) {                                                                                    \
    if (b == 0) return 0;                                                                                              \
    if (b == -1) return (T)((U)0 - (U)a);                                                                              \
    T q = (T)(a / b);                                                                                                  \
    return (T)(q - ((a % b != 0) & ((a < 0) != (b < 0))));                                                             \
  }                                                                                                                    \
  INL T mx_mod_##T(T a, T b) {                                                                                         \
    if (b == 0 || b == -1) return 0;                                                                                   \
    T r = (T)(a % b);                                                                                                  \
    return (T)(r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0));                                                       \
  }                                                                                                                    \
  INL T mx_pow_##T(T a, T n) {                                                                                         \
    u64 r = 1, x = (u64)(i64)a;                                                                                        \
    if (n < 0) return 0;                                                                                               \
    for (U k = (U)n; k; k = (U)(k >> 1), x *= x) r *= (k & 1) ? x : 1;                                                 \
    return (T)r;                                                                                                       \
  }                                                                                                                    \
  INL T mx_abs_##T(T a) { return (T)(a < 0 ? (U)0 - (U)a : (U)a); }                                                    \
  INL T mx_shl_##T(T a, i64 n) { return (u64)n < W ? (T)((u64)(i64)a << ((u64)n & 63)) : (T)0; }                       \
  INL T mx_shr_##T(T a, i64 n) { return (T)(a >> ((u64)n < W ? n : W - 1)); }
#define MX_INT_UNSIGNED(T, W)                                                                                          \
  INL T mx_floordiv_##T(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }                                               \
  INL T mx_mod_##T(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }                                                    \
  INL T mx_pow_##T(T a, T n) {                                                                                         \
    u64 r = 1, x = a;                                                                                                  \
    for (T k = n; k; k = (T)(k >> 1), x *= x) r *= (k & 1) ? x : 1;                                                    \
    return (T)r;                                                                                                       \
  }                                                                                                                    \
  INL T mx_abs_##T(T a) { return a; }                                                                                  \
  INL T mx_shl_##T(T a, i64 n) { return (u64)n < W ? (T)((u64)a << ((u64)n & 63)) : (T)0; }                            \
  INL T mx_shr_##T(T a, i64 n) { return (u64)n < W ? (T)(a >> ((u64)n & (W - 1))) : (T)0; }
// @end

// @section int_i8 needs int_macros
INL i8 mx_floordiv_i8(i8, i8);
INL i8 mx_mod_i8(i8, i8);
INL i8 mx_pow_i8(i8, i8);
INL i8 mx_abs_i8(i8);
INL i8 mx_shl_i8(i8, i64);
INL i8 mx_shr_i8(i8, i64);
MX_INT_SIGNED(i8, u8, 8)
// @end

// @section int_i16 needs int_macros
INL i16 mx_floordiv_i16(i16, i16);
INL i16 mx_mod_i16(i16, i16);
INL i16 mx_pow_i16(i16, i16);
INL i16 mx_abs_i16(i16);
INL i16 mx_shl_i16(i16, i64);
INL i16 mx_shr_i16(i16, i64);
MX_INT_SIGNED(i16, u16, 16)
// @end

// @section int_i32 needs int_macros
INL i32 mx_floordiv_i32(i32, i32);
INL i32 mx_mod_i32(i32, i32);
INL i32 mx_pow_i32(i32, i32);
INL i32 mx_abs_i32(i32);
INL i32 mx_shl_i32(i32, i64);
INL i32 mx_shr_i32(i32, i64);
MX_INT_SIGNED(i32, u32, 32)
// @end

// @section int_i64 needs int_macros
INL i64 mx_floordiv_i64(i64, i64);
INL i64 mx_mod_i64(i64, i64);
INL i64 mx_pow_i64(i64, i64);
INL i64 mx_abs_i64(i64);
INL i64 mx_shl_i64(i64, i64);
INL i64 mx_shr_i64(i64, i64);
MX_INT_SIGNED(i64, u64, 64)
// @end

// @section int_u8 needs int_macros
INL u8 mx_floordiv_u8(u8, u8);
INL u8 mx_mod_u8(u8, u8);
INL u8 mx_pow_u8(u8, u8);
INL u8 mx_abs_u8(u8);
INL u8 mx_shl_u8(u8, i64);
INL u8 mx_shr_u8(u8, i64);
MX_INT_UNSIGNED(u8, 8)
// @end

// @section int_u16 needs int_macros
INL u16 mx_floordiv_u16(u16, u16);
INL u16 mx_mod_u16(u16, u16);
INL u16 mx_pow_u16(u16, u16);
INL u16 mx_abs_u16(u16);
INL u16 mx_shl_u16(u16, i64);
INL u16 mx_shr_u16(u16, i64);
MX_INT_UNSIGNED(u16, 16)
// @end

// @section int_u32 needs int_macros
INL u32 mx_floordiv_u32(u32, u32);
INL u32 mx_mod_u32(u32, u32);
INL u32 mx_pow_u32(u32, u32);
INL u32 mx_abs_u32(u32);
INL u32 mx_shl_u32(u32, i64);
INL u32 mx_shr_u32(u32, i64);
MX_INT_UNSIGNED(u32, 32)
// @end

// @section int_u64 needs int_macros
INL u64 mx_floordiv_u64(u64, u64);
INL u64 mx_mod_u64(u64, u64);
INL u64 mx_pow_u64(u64, u64);
INL u64 mx_abs_u64(u64);
INL u64 mx_shl_u64(u64, i64);
INL u64 mx_shr_u64(u64, i64);
MX_INT_UNSIGNED(u64, 64)
// @end

// @section cast needs abi
/* float -> integer truncates.  The rule for values that do not fit: i32 and i64 give INT_MIN (NaN and infinities too,
 * what x86 does); narrower types take the low bits of the i32; u32 the low bits of the i64; u64 the i64 below 2^63,
 * the true value up to 2^64, else 2^63.  Exact on every machine, no undefined behaviour. */
INL i32 mx_f32_to_i32(f32 x) { i32 ok = (x >= -0x1p31f) & (x < 0x1p31f); return ok ? (i32)(ok ? x : 0.0f) : (i32)(-2147483647 - 1); }
INL i32 mx_f64_to_i32(f64 x) { i32 ok = (x > -2147483649.0) & (x < 0x1p31); return ok ? (i32)(ok ? x : 0.0) : (i32)(-2147483647 - 1); }
INL i64 mx_f64_to_i64(f64 x) { i32 ok = (x >= -0x1p63) & (x < 0x1p63); return ok ? (i64)(ok ? x : 0.0) : -9223372036854775807ll - 1; }
INL i64 mx_f32_to_i64(f32 x) { return mx_f64_to_i64((f64)x); }
INL i8 mx_f32_to_i8(f32 x) { return (i8)mx_f32_to_i32(x); }
INL i8 mx_f64_to_i8(f64 x) { return (i8)mx_f64_to_i32(x); }
INL i16 mx_f32_to_i16(f32 x) { return (i16)mx_f32_to_i32(x); }
INL i16 mx_f64_to_i16(f64 x) { return (i16)mx_f64_to_i32(x); }
INL u8 mx_f32_to_u8(f32 x) { return (u8)mx_f32_to_i32(x); }
INL u8 mx_f64_to_u8(f64 x) { return (u8)mx_f64_to_i32(x); }
INL u16 mx_f32_to_u16(f32 x) { return (u16)mx_f32_to_i32(x); }
INL u16 mx_f64_to_u16(f64 x) { return (u16)mx_f64_to_i32(x); }
INL u32 mx_f64_to_u32(f64 x) { return (u32)mx_f64_to_i64(x); }
INL u32 mx_f32_to_u32(f32 x) { return (u32)mx_f64_to_i64((f64)x); }
INL u64 mx_f64_to_u64(f64 x) { return x >= 0x1p63 && x < 0x1p64 ? (u64)mx_f64_to_i64(x - 0x1p63) + 0x8000000000000000ull : (u64)mx_f64_to_i64(x); }
INL u64 mx_f32_to_u64(f32 x) { return mx_f64_to_u64((f64)x); }
// @end
