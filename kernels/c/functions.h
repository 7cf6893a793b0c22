// functions.h - functions of floats: sections for generated kernels, see prelude.h.
//
//   * scalar `static inline` functions of straight-line code: branches are `?:` over finished values, no calls, no
//     early returns.  gcc then turns a loop marked `#pragma omp simd` over them into vector code, even at -O1.
//   * strict IEEE results: NaN goes in and comes out, infinities and zeros give exact limits, subnormals are kept.
//   * the f32 functions are polynomials or ratios of polynomials (the fits and their errors are ours, see README.md);
//     f64 functions call the C library: right first, fast where it matters.
//   * a comparison with a NaN is false, so `x > hi ? hi : x` keeps a NaN while `x <= hi ? x : hi` would lose it.
//   * three accuracies, of which docs/accuracy.md has the errors: with MX_EXACT results are within 1 ulp, by products and
//     sums that are fused only where the text says so; with MX_FAST formulas are shorter; else they are no less exact than
//     those of torch.  Where one text is as fast as the next, both have it.

// @section exp_wide needs bits
/* e^x of a double, for functions that are rounded to float once, at their end: e^x = *power (1 + the result), which is
 * right to 2^-34 of itself and hands on what e^x - 1 is near 0.  For x from -700 to 700. */
INL f64 mx_exp_wide(f64 x, f64 *power) {
  const f64 shift = 0x1.8p52 + 1023.0; /* in a sum with it the last bits are the nearest integer, and 1023 */
  f64 t = __builtin_fma(x, 1.4426950408889634, shift), n = t - shift, r = __builtin_fma(n, -0.6931471805599453, x);
  f64 p = 0.00019790244191336673;
  p = __builtin_fma(p, r, 0.0013944758581551653);
  p = __builtin_fma(p, r, 0.008333497673573689);
  p = __builtin_fma(p, r, 0.04166629363443769);
  p = __builtin_fma(p, r, 0.1666666586459389);
  p = __builtin_fma(p, r, 0.5000000068037367);
  *power = mx_f64_bits(mx_bits_f64(t) << 52);
  return __builtin_fma(p * r, r, r);
}
INL f64 mx_exp_whole(f64 x) {
  f64 power, q = mx_exp_wide(x, &power);
  return __builtin_fma(power, q, power);
}
// @end

// @section exp_f32 needs exp_wide
/* exp(x) = 2^n * e^r with r from -0.288 to 0.406: the rounding of e^r - 1, at most a quarter to the left, then counts
 * little beside that of e^r.  2^n is applied as two factors, so that the result runs smoothly into infinity above 88.72
 * and through the subnormals to 0 below -103.97 with no extra selects. */
INL f32 mx_exp_turns_f32(f32 x) { return __builtin_rintf(__builtin_fmaf(x, 1.44269504f, -0.0848f)); } /* n */
INL f32 mx_exp_poly_f32(f32 r) { /* (e^r - 1 - r) / r^2 */
  f32 p = 0.00146524084f;
  p = __builtin_fmaf(p, r, 0.00836021826f);
  p = __builtin_fmaf(p, r, 0.0416581705f);
  p = __builtin_fmaf(p, r, 0.166665718f);
  return __builtin_fmaf(p, r, 0.500000179f);
}
INL f32 mx_exp_rest_f32(f32 x, f32 n) { /* e^x / 2^n */
  f32 r = __builtin_fmaf(n, -0.693145752f, x);   /* ln2 in two parts: n * (the first) is exact */
  r = __builtin_fmaf(n, -1.42860677e-06f, r);
  return __builtin_fmaf(mx_exp_poly_f32(r) * r, r, r) + 1.0f;
}
INL f32 mx_exp_scaled_f32(f32 x, f32 n) { /* x * 2^n, in two steps: 2^n alone may be no float */
  i32 m = (i32)n, h = m >> 1;
  return mx_f32_bits(mx_bits_f32(x) + ((u32)h << 23)) * mx_f32_bits((u32)(m - h + 127) << 23);
}
INL f32 mx_exp_quick_f32(f32 x) { /* 1 ulp, for weights of which many are added up */
  x = x > 90.0f ? 90.0f : x;
  x = x < -105.0f ? -105.0f : x;
  f32 n = mx_exp_turns_f32(x);
  return mx_exp_scaled_f32(mx_exp_rest_f32(x, n), n);
}
#ifdef MX_FAST
INL f32 mx_exp_f32(f32 x) { return mx_exp_quick_f32(x); }
#else
INL f32 mx_exp_f32(f32 x) { /* vectors of floats have a faster way: see exp_lanes */
  x = x > 90.0f ? 90.0f : x;
  x = x < -110.0f ? -110.0f : x;
  return (f32)mx_exp_whole((f64)x);
}
#endif
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
/* log(1 + x) = e ln2 + log(1 + f) in double, rounded once; f is x itself where e is 0, so that 1 + x loses nothing. */
INL f32 mx_log1p_f32(f32 x) {
  f64 d = (f64)x, s = 1.0 + d;
  u64 u = mx_bits_f64(s) - 0x3fe6a09e667f3bcdull;        /* sqrt(1/2) */
  i32 e = (i32)(u >> 32) >> 20;
  f64 m = mx_f64_bits((u & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull), f = e == 0 ? d : m - 1.0;
  f64 p = 0.06725053004177697;
  p = __builtin_fma(p, f, -0.11676044066934167);
  p = __builtin_fma(p, f, 0.11900954650400397);
  p = __builtin_fma(p, f, -0.1240733918644422);
  p = __builtin_fma(p, f, 0.14217681116949954);
  p = __builtin_fma(p, f, -0.16667688947614104);
  p = __builtin_fma(p, f, 0.20002219979286806);
  p = __builtin_fma(p, f, -0.2500002570301245);
  p = __builtin_fma(p, f, 0.3333331081198506);
  p = __builtin_fma(p, f, -0.49999999753519314);
  f32 r = (f32)__builtin_fma((f64)e, 0.6931471805599453, __builtin_fma(p * f, f, f));
  return mx_log_edge_f32((f32)s, __builtin_copysignf(r, x));
}
// @end

// @section tanh_f32 needs exp_f32
#ifdef MX_FAST
/* m / (m + 2) with m = e^2x - 1: in e^2x = 2^n (1 + s) neither s nor 2^n - 1 has lost anything near 0. */
INL f32 mx_exp_short_f32(f32 x, f32 n) { /* s in e^x = 2^n (1 + s), for x of some tens */
  f32 r = __builtin_fmaf(n, -0.693147182f, x);
  return __builtin_fmaf(mx_exp_poly_f32(r) * r, r, r);
}
INL f32 mx_tanh_f32(f32 x) {
  f32 c = x > 9.5f ? 9.5f : x;
  c = c < -9.5f ? -9.5f : c;
  c += c;
  f32 n = mx_exp_turns_f32(c), power = mx_f32_bits((u32)((i32)n + 127) << 23);
  f32 m = __builtin_fmaf(power, mx_exp_short_f32(c, n), power - 1.0f);
  return m / (m + 2.0f);
}
#else
INL f32 mx_tanh_f32(f32 x) { /* the same in double, of |x| */
  f32 a = __builtin_fabsf(x);
  a = a > 10.0f ? 10.0f : a;
  f64 power, q = mx_exp_wide((f64)(a + a), &power), m = __builtin_fma(power, q, power - 1.0);
  return __builtin_copysignf((f32)(m / (m + 2.0)), x);
}
#endif
// @end

// @section erf_f32 needs abi
/* x P(x^2) in double: the terms alternate, and take 24 bits from each other on the right.  Vectors have a faster way: see
 * erf_lanes. */
INL f32 mx_erf_f32(f32 x) {
  f32 c = x > 4.0f ? 4.0f : x;
  c = c < -4.0f ? -4.0f : c;
  f64 a = (f64)c, s = a * a;
  f64 p = -9.874092395428832e-20;
  p = __builtin_fma(p, s, 1.5520876583585266e-17);
  p = __builtin_fma(p, s, -1.1393292474579084e-15);
  p = __builtin_fma(p, s, 5.204374832178278e-14);
  p = __builtin_fma(p, s, -1.665160714163264e-12);
  p = __builtin_fma(p, s, 3.989029117852474e-11);
  p = __builtin_fma(p, s, -7.484017233751327e-10);
  p = __builtin_fma(p, s, 1.1381825396259358e-08);
  p = __builtin_fma(p, s, -1.4433641933471676e-07);
  p = __builtin_fma(p, s, 1.5615206170278544e-06);
  p = __builtin_fma(p, s, -1.4643456572699614e-05);
  p = __builtin_fma(p, s, 0.0001198583727941283);
  p = __builtin_fma(p, s, -0.0008536153213705567);
  p = __builtin_fma(p, s, 0.005222541775674005);
  p = __builtin_fma(p, s, -0.026865122083522562);
  p = __builtin_fma(p, s, 0.11283750494337476);
  p = __builtin_fma(p, s, -0.37612632342251273);
  p = __builtin_fma(p, s, 1.1283791653035986);
  return (f32)(a * p);
}
// @end

// @section sigmoid_f32 needs exp_f32
#ifdef MX_FAST
INL f32 mx_sigmoid_f32(f32 x) { /* t / (1 + t) with t = e^x, which from 80 on is as good as its limit */
  f32 t = mx_exp_f32(x > 80.0f ? 80.0f : x);
  return t / (1.0f + t);
}
#else
/* (x t) / (1 + t) with t = e^z, in double: for x of 1 the sigmoid of z.  It does not overflow, and what becomes a
 * subnormal float has all its digits before. */
INL f64 mx_sigmoid_times(f64 x, f64 z) {
  f64 t = mx_exp_whole(z);
  return x * t / (1.0 + t);
}
INL f32 mx_sigmoid_f32(f32 x) {
  f32 c = x < -110.0f ? -110.0f : x;
  c = c > 110.0f ? 110.0f : c;
  return (f32)mx_sigmoid_times(1.0, (f64)c);
}
#endif
// @end

// @section tanh_sigmoid_f32 needs tanh_f32 sigmoid_f32
/* tanh(x) sigmoid(x), which share e^x = t: it is t (t - 1) / (t^2 + 1) */
#ifdef MX_FAST
INL f32 mx_tanh_sigmoid_above_f32(f32 x, f32 n, f32 power, f32 *below) { /* numerator and denominator, for power = 2^n */
  f32 r = __builtin_fmaf(n, -1.42860677e-06f, __builtin_fmaf(n, -0.693145752f, x));
  f32 s = __builtin_fmaf(mx_exp_poly_f32(r) * r, r, r), t = __builtin_fmaf(power, s, power);
  *below = __builtin_fmaf(t, t, 1.0f);
  return t * __builtin_fmaf(power, s, power - 1.0f);
}
INL f32 mx_tanh_sigmoid_f32(f32 x) {
  f32 c = x > 40.0f ? 40.0f : x, below;
  c = c < -105.0f ? -105.0f : c;
  f32 n = mx_exp_turns_f32(c), above = mx_tanh_sigmoid_above_f32(c, n, mx_exp_scaled_f32(1.0f, n), &below);
  return above / below;
}
#else
INL f32 mx_tanh_sigmoid_f32(f32 x) { return mx_tanh_f32(x) * mx_sigmoid_f32(x); }
#endif
// @end

// @section silu_f32 needs sigmoid_f32
#ifdef MX_FAST
INL f32 mx_silu_f32(f32 x) { return x * mx_sigmoid_f32(x); }
#else
INL f32 mx_silu_f32(f32 x) {
  f32 v = x < -110.0f ? -110.0f : x;                     /* there the result is 0 */
  f32 c = v > 110.0f ? 110.0f : v;
  f32 y = (f32)mx_sigmoid_times((f64)v, (f64)c);
  return x > -__builtin_inff() ? y : x - x;              /* -inf * 0 is NaN, as composed */
}
#endif
// @end

// @section gelu_f32 needs exp_f32 exp_wide
/* x/2 (1 + erf(x/sqrt 2)) = max(x, 0) - |x|/2 erfc(|x|/sqrt 2), where erfc(|x|/sqrt 2) = e^(-x^2/2) / (|x| sqrt(pi/2) +
 * P(|x|)/Q(|x|)): nothing cancels, and the left tail is right down to its last subnormal at -14.1. */
INL f32 mx_gelu_fast_f32(f32 x) { /* x (1/2 + x P(2/25 x^2 - 1)) up to 5; its error is 4e-7 of |x| */
  f32 t = x > -5.0f ? x : -5.0f;
  t = t < 5.0f ? t : 5.0f;
  f32 u = __builtin_fmaf(t * t, 0.08f, -1.0f);
  f32 p = 0.000608724018f;
  p = __builtin_fmaf(p, u, -0.00161326386f);
  p = __builtin_fmaf(p, u, 0.00172280869f);
  p = __builtin_fmaf(p, u, -0.00268557831f);
  p = __builtin_fmaf(p, u, 0.0064105005f);
  p = __builtin_fmaf(p, u, -0.0111643365f);
  p = __builtin_fmaf(p, u, 0.0164021794f);
  p = __builtin_fmaf(p, u, -0.0232686531f);
  p = __builtin_fmaf(p, u, 0.0314421728f);
  p = __builtin_fmaf(p, u, -0.0404426083f);
  p = __builtin_fmaf(p, u, 0.0515205227f);
  p = __builtin_fmaf(p, u, -0.0702962801f);
  p = __builtin_fmaf(p, u, 0.141363785f);
  p = __builtin_fmaf(p, t, 0.5f);
  return x * (x > -5.0f ? p : 0.0f);                     /* -inf * 0 is NaN, as composed */
}
#if defined(MX_FAST)
INL f32 mx_gelu_f32(f32 x) { return mx_gelu_fast_f32(x); }
#elif defined(MX_EXACT)
INL f32 mx_gelu_f32(f32 x) {
  f32 c = __builtin_fabsf(x);
  c = c > 14.8f ? 14.8f : c;
  f64 a = (f64)c, power, e = mx_exp_wide(-0.5 * a * a, &power);
  f64 p = 0.003149138015544588;
  p = __builtin_fma(p, a, 0.037582517850924285);
  p = __builtin_fma(p, a, 0.20889225548517845);
  p = __builtin_fma(p, a, 0.6315969549075776);
  p = __builtin_fma(p, a, 1.0000000006905978);
  f64 q = 0.002512412112565878;
  q = __builtin_fma(q, a, 0.029998509560203893);
  q = __builtin_fma(q, a, 0.17143226665670908);
  q = __builtin_fma(q, a, 0.5673357868513272);
  q = __builtin_fma(q, a, 1.0870265898470592);
  q = __builtin_fma(q, a, 1.0);
  f64 t = a * q, w = 0.5 * t / __builtin_fma(t, 1.2533141373155001, p);
  f64 g = __builtin_fma(w, e, w) * power;
  return (f32)((f64)(x > 0.0f ? x : 0.0f * x) - g);      /* 0 x is NaN for -inf, as composed, and has the sign of x */
}
#else
INL f32 mx_gelu_tail_f32(f32 a, f32 *n) { /* a/2 erfc(a/sqrt 2) / 2^n, for a from 0.6 to 14.8 */
  f32 s = a * a, h = -0.5f * s, low = -0.5f * __builtin_fmaf(a, a, -s);
  *n = mx_exp_turns_f32(h);
  f32 r = __builtin_fmaf(*n, -0.693145752f, h) + __builtin_fmaf(*n, -1.42860677e-06f, low);
  f32 e = __builtin_fmaf(mx_exp_poly_f32(r) * r, r, r);
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
  return __builtin_fmaf(w, e, w);
}
INL f32 mx_gelu_ends_f32(f32 x, f32 a, f32 g) { /* near 0 x (1/2 + x P(x^2)), from 0.6 on what g leaves of x */
  f32 s = a * a;
  f32 c = -0.00109547518f;
  c = __builtin_fmaf(c, s, 0.00994818661f);
  c = __builtin_fmaf(c, s, -0.0664877166f);
  c = __builtin_fmaf(c, s, 0.398942202f);
  f32 far = (x > 0.0f ? x : 0.0f * x) - g;               /* 0 x is NaN for -inf, as composed */
  return a < 0.6f ? x * __builtin_fmaf(x, c, 0.5f) : far;
}
INL f32 mx_gelu_f32(f32 x) {
  f32 a = __builtin_fabsf(x), n, g;
  a = a > 14.8f ? 14.8f : a;
  g = mx_gelu_tail_f32(a, &n);
  return mx_gelu_ends_f32(x, a, mx_exp_scaled_f32(g, n));
}
#endif
// @end

// @section gelu_tanh_f32 needs sigmoid_f32
/* x/2 (1 + tanh u) = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3) */
#ifdef MX_FAST
INL f32 mx_gelu_tanh_f32(f32 x) { return x * mx_sigmoid_f32(x * __builtin_fmaf(0.0713548163f, x * x, 1.59576912f)); }
#else
INL f32 mx_gelu_tanh_f32(f32 x) {
  f32 v = x < -11.0f ? -11.0f : x;                       /* there the result is 0 */
  f32 c = v > 11.0f ? 11.0f : v;
  f64 w = (f64)c, z = w * __builtin_fma(0.0713548162726009, w * w, 1.5957691216057308);
  f32 y = (f32)mx_sigmoid_times((f64)v, z);
  return x > -__builtin_inff() ? y : x - x;              /* -inf * 0 is NaN, as composed */
}
#endif
// @end

// @section gelu_quick_f32 needs sigmoid_f32
/* x sigmoid(1.702 x) */
#ifdef MX_FAST
INL f32 mx_gelu_quick_f32(f32 x) { return x * mx_sigmoid_f32(1.702f * x); }
#else
INL f32 mx_gelu_quick_f32(f32 x) {
  f32 v = x < -70.0f ? -70.0f : x;                       /* there the result is 0 */
  f32 c = v > 70.0f ? 70.0f : v;
  f32 y = (f32)mx_sigmoid_times((f64)v, 1.702 * (f64)c);
  return x > -__builtin_inff() ? y : x - x;              /* -inf * 0 is NaN, as composed */
}
#endif
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
