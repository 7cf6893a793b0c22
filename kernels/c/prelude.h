// prelude.h - the headerless C that is put, as text, ahead of every generated kernel.
//
// Generated kernels include nothing: parsing <math.h> alone would cost more than compiling a small kernel.  The code
// generator copies the sections it needs from this file instead, and from functions.h, tables.h, vectors.h, integers.h and ops/*.h,
// which are read behind it in this order.  A section is the text between
//
//     // @section NAME [needs OTHER ...]
//     // @end
//
// and its `needs` come before it, so a wanted set is closed over `needs` and printed in file order.
// Every other C file gets the whole text through mx_abi.h.  A reader of this file may find a function's section by its
// name at the start of a line (`INL ... name(`): what a macro defines is declared in that form too.

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
  f32 *tile;            /* for an epilogue of gemm_by: the tile, whose rows are `across` floats apart */
  i64 across;
  struct mx_object **made; /* the objects that this run has made so far; NULL when nobody takes them */
  int (*ask)(struct mx_ctx *ctx); /* see mx_stop; NULL when there is nobody to ask */
} mx_ctx;

/* A kernel: pointers b, sizes d, and the range [lo,hi) of its parallel axis.  0, or a code with details in ctx->err. */
typedef int (*mx_fn)(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);

/* Called by products for each finished tile, rows [r0,r1) x columns [c0,c1), while the tile is in L1/L2.  0 or a code. */
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
  const i64 *plan;                   /* query positions per item, keys per block, how k and v are read: attention_plan */
  f32 scale;                         /* used when score is NULL; a score callback scales for itself */
} mx_attention;

typedef struct mx_winograd {         /* an image, the channels of a pixel side by side, and what becomes of it */
  const f32 *x, *u, *bias;           /* the image; the filter as mx_k_pack_winograd writes it; of each channel, or NULL */
  f32 *y;
  i64 ih, iw, ic, oh, ow, oc;        /* lines, pixels of a line, channels (multiples of 16) */
  i64 ph, pw;                        /* zeros before the first line, and before the first pixel of each */
  i64 wide;                          /* oc in whole panels of 32 */
} mx_winograd;

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
  i64 (*attention_plan)(i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, i64 nthreads, i64 *plan);
  i64 (*attention_scratch)(i64 tk, i64 dim, i64 dim_v, const i64 *plan);
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
  int (*float8)(i64 kind, f32 *y, i64 n, const f32 *x, i64 m, const u8 *w, i64 k, const f32 *d, i64 first, i64 down,
                i64 across, i64 blocks, mx_ctx *ctx);
  int (*gemm_by)(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *Bp, i64 M, i64 N, i64 K, const i64 *plan, int stays,
                 i64 lo, i64 hi, mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
  int (*matmul_by)(i64 way, f32 *C, i64 ldc, const f32 *A, i64 ars, i64 acs, const f32 *B, i64 brs, i64 bcs, i64 M,
                   i64 N, i64 K, mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
  i64 (*matmul_guess)(i64 M, i64 N, i64 K);
  void (*int8_pack)(u8 *dst, const i8 *w, i64 k, i64 n, i64 lo, i64 hi);
  void (*int8_left)(u8 *q, f32 *d, i32 *z, const void *x, i64 kind, i64 k, const f32 *given, i64 lo, i64 hi);
  int (*int8_product)(f32 *y, i64 n, const u8 *w, i64 k, const u8 *q, const f32 *d, const i32 *z, i64 m, const f32 *scales,
                      const f32 *bias, i64 activation, i64 lo, i64 hi, mx_ctx *ctx);
  int (*winograd_f32)(const mx_winograd *a, i64 lo, i64 hi, i64 c0, i64 c1, i64 most, void *scratch, mx_ctx *ctx);
  void (*lane_scores)(f32 *S, i64 lds, const f32 *keys, i64 step, i64 count, const f32 *queries, i64 lanes, i64 dim,
                      const f32 *values, const f32 *soon);
  void (*lane_weights)(f32 *S, i64 lds, i64 count, i64 lanes, f32 *tops, f32 *totals, f32 *fades);
  void (*lane_sums)(f32 *O, i64 ldo, const f32 *S, i64 lds, const f32 *values, i64 step, i64 count, i64 rows, i64 dim);
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

// @section f8 needs bits
/* Floats of 4 exponent and 3 mantissa bits in a u8, by integer steps as above.  e4m3fn: the exponent is off by 7, the
 * largest number is 448, 0x7f and 0xff are NaN.  e4m3fnuz: off by 8, the largest is 240, 0x80 is NaN and there is no -0.
 * Narrowing rounds to nearest, ties to even; what is past the largest number is NaN, as there is no infinity. */
#define MX_F8(NAME, OFF, NOT_A_NUMBER, LAST)                                                                            \
  INL f32 mx_##NAME##_to_f32(u8 c) {                                                                                   \
    const u32 a = c & 0x7fu, m = mx_bits_f32((f32)(c & 7) * (1.0f / (f32)(1 << (OFF + 2)))); /* of subnormals */       \
    const u32 u = a < 8 ? m : (a << 20) + ((127u - OFF) << 23);                                                        \
    return mx_f32_bits(((NOT_A_NUMBER) ? 0x7fc00000u : u) | (u32)(c & 0x80) << 24);                                    \
  }                                                                                                                    \
  INL u8 mx_f32_to_##NAME(f32 x) {                                                                                     \
    const u32 u = mx_bits_f32(x), a = u & 0x7fffffffu;                                                                 \
    const u32 normal = ((a + 0x7ffffu + ((a >> 20) & 1u)) >> 20) - ((127u - OFF) << 3);                                \
    const f32 unit = (f32)(1 << (21 - OFF)); /* adding it rounds at the place of the last subnormal bit */             \
    const u32 tiny = mx_bits_f32(mx_f32_bits(a) + unit) - mx_bits_f32(unit);                                           \
    const u32 r = a < ((128u - OFF) << 23) ? tiny : normal;                                                            \
    return (u8)(LAST);                                                                                                 \
  }                                                                                                                    \
  INL u8 mx_f64_to_##NAME(f64 x) { /* round to odd first, see mx_f64_to_bf16 */                                        \
    f32 f = (f32)x; f64 g = (f64)f; u32 u = mx_bits_f32(f);                                                            \
    u32 away = (g < 0 ? -g : g) > (x < 0 ? -x : x);                                                                    \
    u32 inexact = (u32)(g != x) & (u32)(x == x);                                                                       \
    u = inexact ? ((u - away) | 1u) : u;                                                                               \
    return mx_f32_to_##NAME(mx_f32_bits(u));                                                                           \
  }
INL f32 mx_e4m3fn_to_f32(u8);
INL u8 mx_f32_to_e4m3fn(f32);
INL u8 mx_f64_to_e4m3fn(f64);
INL f32 mx_e4m3fnuz_to_f32(u8);
INL u8 mx_f32_to_e4m3fnuz(f32);
INL u8 mx_f64_to_e4m3fnuz(f64);
MX_F8(e4m3fn, 7, a == 0x7f, (r > 0x7eu ? 0x7fu : r) | ((u >> 24) & 0x80u))
MX_F8(e4m3fnuz, 8, c == 0x80, r > 0x7fu ? 0x80u : r == 0 ? 0u : r | ((u >> 24) & 0x80u))
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
#define MX_KNOWN(b) (__builtin_constant_p(b) && (b) == (b)) /* then one comparison also tells a NaN */
INL f32 mx_max_f32(f32 a, f32 b) { return MX_KNOWN(b) ? (!(a <= b) ? a : b) : a != a ? a : a > b ? a : b; }
INL f64 mx_max_f64(f64 a, f64 b) { return MX_KNOWN(b) ? (!(a <= b) ? a : b) : a != a ? a : a > b ? a : b; }
INL f32 mx_min_f32(f32 a, f32 b) { return MX_KNOWN(b) ? (!(a >= b) ? a : b) : a != a ? a : a < b ? a : b; }
INL f64 mx_min_f64(f64 a, f64 b) { return MX_KNOWN(b) ? (!(a >= b) ? a : b) : a != a ? a : a < b ? a : b; }
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
