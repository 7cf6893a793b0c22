/* ceilings.c - the loops whose speed is called a ceiling: what memory and the vector units of this machine can do.
 *
 * Each function is a kernel like any other and is run by the executor, so that a ceiling is what a kernel could reach
 * here, not what a data sheet says.  An item of the parallel axis is one thread's share: thread i works on memory of its
 * own, d[0] floats from i * d[0] on, d[1] times over.  Every trip ends with a barrier for the compiler, which would
 * otherwise see that all trips but one are for nothing.
 *
 * b = {a, b, c}: two arrays that are read, one that is written.  Sums go to c, so that somebody needs them.
 */
#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
typedef f32 vf __attribute__((vector_size(WIDTH), aligned(4), may_alias));
typedef f64 vd __attribute__((vector_size(WIDTH), aligned(8), may_alias));
#define LANES ((i64)(WIDTH / 4))
#define AGAIN __asm__ volatile("" ::: "memory")

/* Eight sums: an add takes four cycles and two start in each. */
int ceiling_read(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)ctx;
  for (i64 item = lo; item < hi; item++) {
    const f32 *RS a = (const f32 *)b[0] + item * d[0];
    vf s[8] = {{0}};
    for (i64 trip = 0; trip < d[1]; trip++) {
      for (i64 i = 0; i < d[0]; i += 8 * LANES)
        _Pragma("GCC unroll 8") for (i64 n = 0; n < 8; n++) s[n] += *(const vf *)(a + i + n * LANES);
      AGAIN;
    }
    vf all = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
    *(vf *)((f32 *)b[2] + item * d[0]) = all;
  }
  return 0;
}

int ceiling_copy(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)ctx;
  for (i64 item = lo; item < hi; item++) {
    const f32 *RS a = (const f32 *)b[0] + item * d[0];
    f32 *RS c = (f32 *)b[2] + item * d[0];
    for (i64 trip = 0; trip < d[1]; trip++) {
      for (i64 i = 0; i < d[0]; i += 4 * LANES)
        _Pragma("GCC unroll 4") for (i64 n = 0; n < 4; n++)
          *(vf *)(c + i + n * LANES) = *(const vf *)(a + i + n * LANES);
      AGAIN;
    }
  }
  return 0;
}

int ceiling_triad(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)ctx;
  for (i64 item = lo; item < hi; item++) {
    const f32 *RS a = (const f32 *)b[0] + item * d[0], *RS e = (const f32 *)b[1] + item * d[0];
    f32 *RS c = (f32 *)b[2] + item * d[0];
    for (i64 trip = 0; trip < d[1]; trip++) {
      for (i64 i = 0; i < d[0]; i += 4 * LANES)
        _Pragma("GCC unroll 4") for (i64 n = 0; n < 4; n++)
          *(vf *)(c + i + n * LANES) = *(const vf *)(a + i + n * LANES) + 3.0f * *(const vf *)(e + i + n * LANES);
      AGAIN;
    }
  }
  return 0;
}

/* Twelve chains of multiply-adds in registers, unlike each other lest they become one: what the fastest loop without any memory does.  d[1] trips of 12 vectors. */
#define CHAINS 12
#define FMA(NAME, VEC, SCALAR)                                                                                         \
  int NAME(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {                                                \
    (void)ctx;                                                                                                         \
    for (i64 item = lo; item < hi; item++) {                                                                           \
      const SCALAR *a = b[0];                                                                                          \
      VEC s[CHAINS], x = (VEC){0} + a[0], y = (VEC){0} + a[1];                                                         \
      _Pragma("GCC unroll 12") for (int n = 0; n < CHAINS; n++) s[n] = y * (SCALAR)(n + 1);                                      \
      for (i64 trip = 0; trip < d[1]; trip++)                                                                          \
        _Pragma("GCC unroll 12") for (int n = 0; n < CHAINS; n++) s[n] = s[n] * x + y;                                 \
      VEC all = s[0];                                                                                                  \
      _Pragma("GCC unroll 12") for (int n = 1; n < CHAINS; n++) all += s[n];                                           \
      *(VEC *)((char *)b[2] + item * WIDTH) = all;                                                                     \
    }                                                                                                                  \
    return 0;                                                                                                          \
  }
FMA(ceiling_fma_f32, vf, f32)
FMA(ceiling_fma_f64, vd, f64)

/* Pairs of bfloat16 multiplied and added to float32, where the processor has an instruction for it; else code 2. */
int ceiling_dot_bf16(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)ctx;
#if defined(__AVX512BF16__)
  for (i64 item = lo; item < hi; item++) {
    vf s[CHAINS], x = (vf){0} + *(const f32 *)b[0];
    _Pragma("GCC unroll 12") for (int n = 0; n < CHAINS; n++) s[n] = (vf){0};
    for (i64 trip = 0; trip < d[1]; trip++)
      _Pragma("GCC unroll 12") for (int n = 0; n < CHAINS; n++)
        __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(s[n]) : "v"(x));
    vf all = s[0];
    _Pragma("GCC unroll 12") for (int n = 1; n < CHAINS; n++) all += s[n];
    *(vf *)((char *)b[2] + item * WIDTH) = all;
  }
  return 0;
#else
  (void)b, (void)d, (void)lo, (void)hi;
  return 2;
#endif
}

/* How many bytes a vector of this file has, into c. */
int ceiling_width(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)d, (void)lo, (void)hi, (void)ctx;
  *(i64 *)b[2] = WIDTH;
  return 0;
}

/* Nothing: what is left is what it costs to be started. */
int ceiling_nothing(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)b, (void)d, (void)lo, (void)hi, (void)ctx;
  return 0;
}
