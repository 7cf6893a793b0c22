// quantized.h - numbers in blocks of few bits, laid out as ggml has them: sections for generated kernels, see ../prelude.h.
//
//   Q4_0   32 elements in  18 bytes: f16 d, 16 bytes of nibbles (elements 0..15 low, 16..31 high)       d * (q - 8)
//   Q4_K  256 elements in 144 bytes: f16 d, f16 dmin, 8 scales and 8 mins of 6 bits in 12 bytes, nibbles
//         (32 bytes for each 64 elements: 0..31 low, 32..63 high)                          d * scale * q - dmin * min
//   Q5_K  256 elements in 176 bytes: as Q4_K, with 32 bytes of fifth bits before the nibbles
//   Q6_K  256 elements in 210 bytes: 128 bytes of low nibbles, 64 bytes of upper 2 bits, 16 scales of 8 bits, f16 d
//                                                                                           d * scale * (q - 32)
//
// A product quantises its left rows first: blocks of 32 (Q8_0) against Q4_0, of 256 (Q8_K) against the others.  Integers
// are multiplied and added exactly; a block's sum is scaled in float32.  A block with a NaN or an infinity makes NaN.
//
// On x86 with AVX-512 VNNI and VBMI, or with AVX2, the products are written in their instructions, by asm, which gcc and
// clang both read and which needs no header; elsewhere in the vectors that gcc and clang know on every machine.

// @section q_scales needs f16
/* little-endian f16 at any address */
INL f32 mx_q_half(const u8 *p) { return mx_f16_to_f32((u16)(p[0] | p[1] << 8)); }
/* the 6-bit scales and mins of Q4_K and Q5_K: byte j of each is that of elements 32 j .. 32 j + 31 */
INL void mx_q_scales(const u8 *p, u64 *scales, u64 *mins) {
  u32 a, b, c;
  __builtin_memcpy(&a, p, 4); __builtin_memcpy(&b, p + 4, 4); __builtin_memcpy(&c, p + 8, 4);
  const u32 six = 0x3f3f3f3fu, four = 0x0f0f0f0fu, two = 0x30303030u;
  *scales = (u64)(a & six) | (u64)((c & four) | ((a >> 2) & two)) << 32;
  *mins = (u64)(b & six) | (u64)(((c >> 4) & four) | ((b >> 2) & two)) << 32;
}
// @end

// @section q_dequantize needs q_scales
/* One block to float32.  Every product below is exact in float32, so there is one rounding at most, fused or not. */
INL void mx_dequantize_q4_0(f32 *RS y, const u8 *RS w) {
  const f32 d = mx_q_half(w);
  #pragma omp simd
  for (int j = 0; j < 16; j++) {
    y[j] = d * (f32)((w[2 + j] & 15) - 8);
    y[16 + j] = d * (f32)((w[2 + j] >> 4) - 8);
  }
}
INL void mx_dequantize_q4_k(f32 *RS y, const u8 *RS w) {
  const f32 d = mx_q_half(w), dmin = mx_q_half(w + 2);
  u64 scales, mins;
  mx_q_scales(w + 4, &scales, &mins);
  for (int c = 0; c < 4; c++, scales >>= 16, mins >>= 16) {
    const f32 d0 = d * (f32)(scales & 255), d1 = d * (f32)(scales >> 8 & 255);
    const f32 m0 = dmin * (f32)(mins & 255), m1 = dmin * (f32)(mins >> 8 & 255);
    #pragma omp simd
    for (int j = 0; j < 32; j++) {
      y[64 * c + j] = d0 * (f32)(w[16 + 32 * c + j] & 15) - m0;
      y[64 * c + 32 + j] = d1 * (f32)(w[16 + 32 * c + j] >> 4) - m1;
    }
  }
}
INL void mx_dequantize_q5_k(f32 *RS y, const u8 *RS w) {
  const f32 d = mx_q_half(w), dmin = mx_q_half(w + 2);
  u64 scales, mins;
  mx_q_scales(w + 4, &scales, &mins);
  for (int c = 0; c < 4; c++, scales >>= 16, mins >>= 16) {
    const f32 d0 = d * (f32)(scales & 255), d1 = d * (f32)(scales >> 8 & 255);
    const f32 m0 = dmin * (f32)(mins & 255), m1 = dmin * (f32)(mins >> 8 & 255);
    #pragma omp simd
    for (int j = 0; j < 32; j++) {
      const i32 low = w[48 + 32 * c + j], high = w[16 + j] >> (2 * c);
      y[64 * c + j] = d0 * (f32)((low & 15) | (high & 1) << 4) - m0;
      y[64 * c + 32 + j] = d1 * (f32)((low >> 4) | (high & 2) << 3) - m1;
    }
  }
}
INL void mx_dequantize_q6_k(f32 *RS y, const u8 *RS w) {
  const f32 d = mx_q_half(w + 208);
  for (int c = 0; c < 16; c++) { /* 16 elements with one scale */
    const u8 *low = w + c / 8 * 64 + c % 4 * 16, *high = w + 128 + c / 8 * 32 + c % 2 * 16;
    const f32 scaled = d * (f32)(i8)w[192 + c];
    const int up = c % 8 / 2 * 2, down = c % 8 / 4 * 4;
    #pragma omp simd
    for (int j = 0; j < 16; j++) {
      const i32 q = (low[j] >> down & 15) | (high[j] >> up & 3) << 4;
      y[16 * c + j] = scaled * (f32)(q - 32);
    }
  }
}
// @end

// @section q_products needs q_dequantize
/* y[j * n] = left row j, of x, times a row of weights, for each of `rows` left rows.  `numbers` reads a block of `each`
 * elements from `size` bytes. */
INL void mx_matmul_blocks(void (*numbers)(f32 *RS, const u8 *RS), i64 each, i64 size, f32 *RS y, i64 n,
                          const u8 *RS w, i64 blocks, const f32 *RS x, i64 rows) {
  f32 v[256];
  for (i64 j = 0; j < rows; j++) y[j * n] = 0.0f;
  for (i64 b = 0; b < blocks; b++) {
    numbers(v, w + b * size);
    for (i64 j = 0; j < rows; j++) {
      const f32 *RS left = x + (j * blocks + b) * each;
      f32 sum = 0.0f;
      #pragma omp simd reduction(+ : sum)
      for (i64 e = 0; e < each; e++) sum += left[e] * v[e];
      y[j * n] += sum;
    }
  }
}
/* A left row times up to 16 columns of a matrix of `bits` a number.  A group has `many` words, which lie n apart, and one
 * scale for each column; numbers lie around the middle of their range. */
INL void mx_matmul_groups(f32 *RS y, const i32 *RS w, const f32 *RS s, const f32 *RS x, i64 n, i64 columns,
                          i64 groups, i64 many, int bits) {
  const u32 mask = (1u << bits) - 1u;
  const i32 middle = 1 << (bits - 1);
  f32 sum[16] = {0.0f};
  for (i64 g = 0; g < groups; g++, s += n) {
    f32 part[16] = {0.0f};
    for (i64 m = 0; m < many; m++, w += n)
      for (int at = 0; at < 32; at += bits) {
        const f32 left = *x++;
        #pragma omp simd
        for (i64 c = 0; c < columns; c++) part[c] += left * (f32)((i32)((u32)w[c] >> at & mask) - middle);
      }
    for (i64 c = 0; c < columns; c++) sum[c] += part[c] * s[c];
  }
  for (i64 c = 0; c < columns; c++) y[c] = sum[c];
}
// @end

// @section q_left needs f16
/* A block of 32 floats as Q8_0 has it: q, rounded with halves away from zero, and d as a float16.  `offset` is what the
 * right side subtracts from its numbers: s = -offset * (the sum of q). */
INL void mx_q8_0(i8 *RS q, i32 *RS s, f32 *RS d, const f32 *RS x, i32 offset) {
  u32 most = 0;
  i32 sum = 0;
  #pragma omp simd reduction(max : most)
  for (int j = 0; j < 32; j++) {
    const u32 size = mx_bits_f32(x[j]) & 0x7fffffffu; /* as integers, so that a NaN is the largest */
    most = size > most ? size : most;
  }
  const f32 scale = mx_f32_bits(most) / 127.0f, inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  #pragma omp simd reduction(+ : sum)
  for (int j = 0; j < 32; j++) {
    const u32 u = mx_bits_f32(x[j] * inverse);
    f32 size = mx_f32_bits(u & 0x7fffffffu);
    size = size <= 127.0f ? size : size > 127.0f ? 127.0f : 0.0f;
    const i32 rounded = (i32)(size + 0.49999997f); /* with 0.5 the float below a half would be rounded up */
    const i32 v = u >> 31 ? -rounded : rounded;
    q[j] = (i8)v;
    sum += v;
  }
  *s = -offset * sum;
  *d = mx_f16_to_f32(mx_f32_to_f16(scale));
}
INL void mx_q8_none(i8 *RS q, i32 *RS s, f32 *RS d) { /* the partner of a last block of odd number */
  __builtin_memset(q, 0, 32);
  *s = 0;
  *d = 0.0f;
}
/* A block of 256 floats as Q8_K has it: the largest by size becomes -127, halves are rounded to even, d stays float32.
 * s as above, for each `each` of q. */
INL void mx_q8_k(i8 *RS q, i32 *RS s, f32 *RS d, const f32 *RS x, i32 offset, int each) {
  u32 most = 0;
  #pragma omp simd reduction(max : most)
  for (int j = 0; j < 256; j++) {
    const u32 size = mx_bits_f32(x[j]) & 0x7fffffffu;
    most = size > most ? size : most;
  }
  int first = 0;
  while ((mx_bits_f32(x[first]) & 0x7fffffffu) != most) first++;
  const f32 inverse = most ? -127.0f / x[first] : 0.0f;
  #pragma omp simd
  for (int j = 0; j < 256; j++) {
    const f32 v = __builtin_rintf(x[j] * inverse);
    q[j] = (i8)(i32)(v >= -127.0f ? v <= 127.0f ? v : 127.0f : v < -127.0f ? -127.0f : 0.0f);
  }
  for (int j = 0; j < 256 / each; j++) {
    i32 sum = 0;
    for (int e = 0; e < each; e++) sum += q[j * each + e];
    s[j] = -offset * sum;
  }
  *d = most ? 1.0f / inverse : 0.0f;
}
// @end

// @section q_vectors needs q_scales
typedef u64 __attribute__((aligned(1), may_alias)) mx_q64;
typedef u8 __attribute__((vector_size(16), aligned(1), may_alias)) mx_q128;
typedef u8 __attribute__((vector_size(32), aligned(1), may_alias)) mx_q256;
typedef i32 __attribute__((vector_size(32), aligned(4), may_alias)) mx_q_i32h;
typedef f32 __attribute__((vector_size(32), aligned(4), may_alias)) mx_q_f32h;
typedef f32 __attribute__((vector_size(16))) mx_q_f32q;
typedef u64 __attribute__((vector_size(16))) mx_q_u64q;
/* memory answers late, and the hardware's guesses stop at pages */
#define MX_Q_AHEAD(p, lines)                                                                       \
  for (int ahead = 0; ahead < (lines); ahead++) __builtin_prefetch((p) + 8192 + 64 * ahead)
#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__) && defined(__AVX512VL__) && defined(__AVX512BW__)
#define MX_Q_VECTORS 1
typedef u8 __attribute__((vector_size(64), aligned(1), may_alias)) mx_q512;
typedef u64 __attribute__((vector_size(64))) mx_q_u64;
typedef i32 __attribute__((vector_size(64), aligned(4), may_alias)) mx_q_i32;
typedef f32 __attribute__((vector_size(64), aligned(4), may_alias)) mx_q_f32;
/* the first bytes at p, as the mask says; nothing is read where it is 0 */
INL mx_q512 mx_q_some(const u8 *p, u64 mask) {
  mx_q512 v;
  __asm__("vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(v) : "m"(*(const mx_q512 *)p), "Yk"(mask));
  return v;
}
/* 2 numbers, again and again */
INL mx_q_i32 mx_q_pairs(const void *p) {
  u64 v;
  __builtin_memcpy(&v, p, 8);
  return (mx_q_i32)((mx_q_u64){0} + v);
}
INL mx_q512 mx_q_twice(const u8 *p) { /* 32 bytes, and again */
  mx_q512 v;
  __asm__("vbroadcasti64x4 %1, %0" : "=v"(v) : "m"(*(const mx_q256 *)p));
  return v;
}
INL mx_q512 mx_q_bytes(mx_q512 v, mx_q512 index) {
  mx_q512 r;
  __asm__("vpermb %1, %2, %0" : "=v"(r) : "v"(v), "v"(index));
  return r;
}
INL mx_q256 mx_q_bytes_half(mx_q512 v, mx_q256 index) { /* of the first 32 bytes */
  mx_q256 r;
  __asm__("vpermb %t1, %2, %0" : "=v"(r) : "v"(v), "v"(index));
  return r;
}
INL mx_q_i32 mx_q_words(mx_q_i32 v, mx_q_i32 index) {
  mx_q_i32 r;
  __asm__("vpermd %1, %2, %0" : "=v"(r) : "v"(v), "v"(index));
  return r;
}
INL mx_q_i32 mx_q_dot(mx_q_i32 sum, mx_q512 u, mx_q512 s) { /* sum + 4 products of unsigned and signed bytes, a lane */
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "v"(s));
  return sum;
}
INL mx_q_f32 mx_q_floats(mx_q256 halves) {
  mx_q_f32 r;
  __asm__("vcvtph2ps %1, %0" : "=v"(r) : "v"(halves));
  return r;
}
INL mx_q_i32 mx_q_signed(const u8 *p) { /* 16 signed bytes */
  mx_q_i32 r;
  __asm__("vpmovsxbd %1, %0" : "=v"(r) : "m"(*(const mx_q128 *)p));
  return r;
}
INL mx_q_i32 mx_q_unsigned_wide(u64 bytes) { /* the same, and zeros */
  mx_q_i32 r;
  const mx_q_u64q v = {bytes, 0};
  __asm__("vpmovzxbd %1, %0" : "=v"(r) : "v"(v));
  return r;
}
INL f32 mx_q_total(mx_q_f32 v) {
  const f32 *p = (const f32 *)&v;
  const mx_q_f32h h = *(const mx_q_f32h *)p + *(const mx_q_f32h *)(p + 8);
  return ((h[0] + h[4]) + (h[1] + h[5])) + ((h[2] + h[6]) + (h[3] + h[7]));
}
#elif defined(__AVX2__) && defined(__F16C__)
#define MX_Q_VECTORS 2
typedef u64 __attribute__((vector_size(32))) mx_q_u64h;
typedef i16 __attribute__((vector_size(32))) mx_q_i16h;
INL mx_q256 mx_q_sixteen_twice(const u8 *p) {
  mx_q256 v;
  __asm__("vbroadcasti128 %1, %0" : "=x"(v) : "m"(*(const mx_q128 *)p));
  return v;
}
INL mx_q_i32h mx_q_dot_half(mx_q256 u, mx_q256 s) { /* 4 products a lane; two of them fit into 16 bits */
  const mx_q_i16h one = (mx_q_i16h){0} + 1;
  mx_q_i16h pairs;
  mx_q_i32h r;
  __asm__("vpmaddubsw %2, %1, %0" : "=x"(pairs) : "x"(u), "x"(s));
  __asm__("vpmaddwd %2, %1, %0" : "=x"(r) : "x"(pairs), "x"(one));
  return r;
}
INL mx_q_i32h mx_q_signed_half(const u8 *p) { /* 8 signed bytes */
  mx_q_i32h r;
  __asm__("vpmovsxbd %1, %0" : "=x"(r) : "m"(*(const mx_q64 *)p));
  return r;
}
#else
#define MX_Q_VECTORS 0
typedef u64 __attribute__((vector_size(16))) mx_q_u64h;
typedef i8 __attribute__((vector_size(16), aligned(1), may_alias)) mx_q_i8;
typedef i16 __attribute__((vector_size(32))) mx_q_i16h;
/* sum += scale * the products of 16 bytes; one fits into 16 bits, and two lie in a lane */
INL void mx_q_dot_add(mx_q_i32h *sum, mx_q128 u, const i8 *s, i32 scale) {
  const mx_q_i16h p = __builtin_convertvector(u, mx_q_i16h) * __builtin_convertvector(*(const mx_q_i8 *)s, mx_q_i16h);
  *sum += ((((mx_q_i32h)p << 16) >> 16) + ((mx_q_i32h)p >> 16)) * scale;
}
INL f32 mx_q_total_of(const mx_q_f32h *v) {
  return (((*v)[0] + (*v)[4]) + ((*v)[1] + (*v)[5])) + (((*v)[2] + (*v)[6]) + ((*v)[3] + (*v)[7]));
}
#endif
#if MX_Q_VECTORS
INL mx_q_i32h mx_q_unsigned(u64 bytes) { /* 8 unsigned bytes */
  mx_q_i32h r;
  const mx_q_u64q v = {bytes, 0};
  __asm__("vpmovzxbd %1, %0" : "=x"(r) : "x"(v));
  return r;
}
INL f32 mx_q_half_fast(const u8 *p) {
  u16 bits;
  __builtin_memcpy(&bits, p, 2);
  const mx_q_u64q v = {bits, 0};
  mx_q_f32q r;
  __asm__("vcvtph2ps %1, %0" : "=x"(r) : "x"(v));
  return r[0];
}
INL f32 mx_q_total_half(mx_q_f32h h) { return ((h[0] + h[4]) + (h[1] + h[5])) + ((h[2] + h[6]) + (h[3] + h[7])); }
#endif
// @end

// @section q4_0 needs q_vectors
/* `rows` (1 or 4) rows of Q4_0 at w, `stride` bytes apart, times one left row of `blocks` blocks that mx_q8_0 wrote with
 * offset 8; its last block has a zeroed partner where their number is odd. */
#if MX_Q_VECTORS == 1
#define MX_Q4_0_ROW(a, LOAD)                                                                       \
  do {                                                                                             \
    const mx_q512 v = LOAD;                                                                        \
    const mx_q512 u = (mx_q512)((mx_q_u64)mx_q_bytes(v, spread) >> down) & 15;                     \
    a += __builtin_convertvector(mx_q_dot(start, u, x), mx_q_f32) *                                \
         (mx_q_floats(mx_q_bytes_half(v, scale)) * dx);                                            \
  } while (0)
#endif
INL void mx_q4_0_rows(f32 *RS y, const u8 *RS w, i64 stride, i64 blocks, const i8 *RS q, const i32 *RS s,
                      const f32 *RS d, i64 rows) {
#if MX_Q_VECTORS == 1
  const mx_q512 spread = {2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 2,  3,  4,  5,  6,  7,
                          8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                          32, 33, 34, 35, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35};
  const mx_q256 scale = {0,  1,  0,  1,  0,  1,  0,  1,  0,  1,  0,  1,  0,  1,  0,  1,
                         18, 19, 18, 19, 18, 19, 18, 19, 18, 19, 18, 19, 18, 19, 18, 19};
  const mx_q_u64 down = {0, 0, 4, 4, 0, 0, 4, 4};
  const mx_q_i32 once = {-1, 0, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0};
  const mx_q_i32 pick = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  mx_q_f32 a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0};
  i64 b = 0;
  for (; b < blocks; b += 2) {
    const mx_q512 x = *(const mx_q512 *)(q + 32 * b);
    const mx_q_i32 start = mx_q_pairs(s + b) & once;
    const mx_q_f32 dx = (mx_q_f32)mx_q_words(mx_q_pairs(d + b), pick);
    const u8 *p = w + 18 * b;
    if (18 * b + 64 <= stride) {
      /* 2 KB ahead in each row, or in the rows behind them: memory answers late, and hardware does not guess this. */
      const u8 *ahead = p + 2048 + (18 * b + 2048 < stride ? 0 : (rows - 1) * stride);
      __builtin_prefetch(ahead);
      MX_Q4_0_ROW(a0, *(const mx_q512 *)p);
      if (rows == 4) {
        __builtin_prefetch(ahead + stride);
        __builtin_prefetch(ahead + 2 * stride);
        __builtin_prefetch(ahead + 3 * stride);
        MX_Q4_0_ROW(a1, *(const mx_q512 *)(p + stride));
        MX_Q4_0_ROW(a2, *(const mx_q512 *)(p + 2 * stride));
        MX_Q4_0_ROW(a3, *(const mx_q512 *)(p + 3 * stride));
      }
    } else { /* not to read behind the end of the matrix */
      const u64 mask = b + 1 < blocks ? (1ull << 36) - 1 : (1ull << 18) - 1;
      MX_Q4_0_ROW(a0, mx_q_some(p, mask));
      if (rows == 4) {
        MX_Q4_0_ROW(a1, mx_q_some(p + stride, mask));
        MX_Q4_0_ROW(a2, mx_q_some(p + 2 * stride, mask));
        MX_Q4_0_ROW(a3, mx_q_some(p + 3 * stride, mask));
      }
    }
  }
  y[0] = mx_q_total(a0);
  if (rows == 4) y[1] = mx_q_total(a1), y[2] = mx_q_total(a2), y[3] = mx_q_total(a3);
#elif MX_Q_VECTORS == 2
  const mx_q_u64h down = {0, 0, 4, 4};
  for (i64 r = 0; r < rows; r++) {
    const u8 *p = w + r * stride;
    mx_q_f32h a = {0};
    for (i64 b = 0; b < blocks; b++, p += 18) {
      MX_Q_AHEAD(p, 1);
      const mx_q256 u = (mx_q256)((mx_q_u64h)mx_q_sixteen_twice(p + 2) >> down) & 15;
      const mx_q_i32h start = {s[b], 0, 0, 0, 0, 0, 0, 0};
      const mx_q_i32h sum = mx_q_dot_half(u, *(const mx_q256 *)(q + 32 * b)) + start;
      a += __builtin_convertvector(sum, mx_q_f32h) * (mx_q_half_fast(p) * d[b]);
    }
    y[r] = mx_q_total_half(a);
  }
#else
  for (i64 r = 0; r < rows; r++) {
    const u8 *p = w + r * stride;
    mx_q_f32h a = {0};
    for (i64 b = 0; b < blocks; b++, p += 18) {
      const mx_q128 v = *(const mx_q128 *)(p + 2);
      mx_q_i32h sum = {s[b], 0, 0, 0, 0, 0, 0, 0};
      mx_q_dot_add(&sum, v & 15, q + 32 * b, 1);
      mx_q_dot_add(&sum, (mx_q128)((mx_q_u64h)v >> 4) & 15, q + 32 * b + 16, 1);
      a += __builtin_convertvector(sum, mx_q_f32h) * (mx_q_half(p) * d[b]);
    }
    y[r] = mx_q_total_of(&a);
  }
#endif
}
// @end

// @section q4_k needs q_vectors
/* One row of Q4_K at w times one left row of `blocks` blocks that mx_q8_k wrote with offset -1 and sums of 32. */
INL void mx_q4_k_row(f32 *RS y, const u8 *RS w, i64 blocks, const i8 *RS q, const i32 *RS s, const f32 *RS d) {
#if MX_Q_VECTORS == 1
  const mx_q_u64 down = {0, 0, 0, 0, 4, 4, 4, 4};
  const mx_q_i32 pick = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  mx_q_f32 a = {0};
  mx_q_f32h below = {0};
  for (i64 b = 0; b < blocks; b++, w += 144, q += 256, s += 8) {
    MX_Q_AHEAD(w, 3);
    u64 scales, mins;
    mx_q_scales(w + 4, &scales, &mins);
    const mx_q_i32 each = mx_q_unsigned_wide(scales);
    mx_q_i32 sum = {0};
    for (int c = 0; c < 4; c++) {
      const mx_q512 u = (mx_q512)((mx_q_u64)mx_q_twice(w + 16 + 32 * c) >> down) & 15;
      sum += mx_q_dot((mx_q_i32){0}, u, *(const mx_q512 *)(q + 64 * c)) * mx_q_words(each, pick + 2 * c);
    }
    a += __builtin_convertvector(sum, mx_q_f32) * (mx_q_half_fast(w) * d[b]);
    below += __builtin_convertvector(mx_q_unsigned(mins) * *(const mx_q_i32h *)s, mx_q_f32h) *
             (mx_q_half_fast(w + 2) * d[b]);
  }
  *y = mx_q_total(a) - mx_q_total_half(below);
#elif MX_Q_VECTORS == 2
  mx_q_f32h a = {0};
  for (i64 b = 0; b < blocks; b++, w += 144, q += 256, s += 8) {
    MX_Q_AHEAD(w, 3);
    u64 scales, mins;
    mx_q_scales(w + 4, &scales, &mins);
    const mx_q_i32h least = mx_q_unsigned(mins) * *(const mx_q_i32h *)s;
    mx_q_i32h sum = {0};
    for (int c = 0; c < 4; c++, scales >>= 16) {
      const mx_q256 v = *(const mx_q256 *)(w + 16 + 32 * c), high = (mx_q256)((mx_q_u64h)v >> 4) & 15;
      sum += mx_q_dot_half(v & 15, *(const mx_q256 *)(q + 64 * c)) * (i32)(scales & 255);
      sum += mx_q_dot_half(high, *(const mx_q256 *)(q + 64 * c + 32)) * (i32)(scales >> 8 & 255);
    }
    a += __builtin_convertvector(sum, mx_q_f32h) * (mx_q_half_fast(w) * d[b]);
    a -= __builtin_convertvector(least, mx_q_f32h) * (mx_q_half_fast(w + 2) * d[b]);
  }
  *y = mx_q_total_half(a);
#else
  mx_q_f32h a = {0};
  f32 below = 0.0f;
  for (i64 b = 0; b < blocks; b++, w += 144, q += 256, s += 8) {
    u64 scales, mins;
    mx_q_scales(w + 4, &scales, &mins);
    mx_q_i32h sum = {0};
    i32 least = 0;
    for (int c = 0; c < 8; c++, mins >>= 8) least += s[c] * (i32)(mins & 255);
    for (int c = 0; c < 8; c++) { /* 16 bytes */
      const mx_q128 v = *(const mx_q128 *)(w + 16 + 16 * c);
      const i8 *x = q + 64 * (c / 2) + 16 * (c % 2);
      const i32 one = scales >> (c / 2 * 16) & 255, two = scales >> (c / 2 * 16 + 8) & 255;
      mx_q_dot_add(&sum, v & 15, x, one);
      mx_q_dot_add(&sum, (mx_q128)((mx_q_u64h)v >> 4) & 15, x + 32, two);
    }
    a += __builtin_convertvector(sum, mx_q_f32h) * (mx_q_half(w) * d[b]);
    below += (f32)least * (mx_q_half(w + 2) * d[b]);
  }
  *y = mx_q_total_of(&a) - below;
#endif
}
// @end

// @section q6_k needs q_vectors
/* One row of Q6_K at w times one left row of `blocks` blocks that mx_q8_k wrote with offset 32 and sums of 16. */
INL void mx_q6_k_row(f32 *RS y, const u8 *RS w, i64 blocks, const i8 *RS q, const i32 *RS s, const f32 *RS d) {
#if MX_Q_VECTORS == 1
  const mx_q_u64 up = {4, 4, 4, 4, 2, 2, 2, 2}, down = {0, 0, 0, 0, 2, 2, 2, 2};
  const mx_q_i32 pick = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  mx_q_f32 a = {0};
  for (i64 b = 0; b < blocks; b++, w += 210, q += 256, s += 16) {
    MX_Q_AHEAD(w, 4);
    const mx_q_i32 each = mx_q_signed(w + 192), zero = {0};
    mx_q_i32 sum = each * *(const mx_q_i32 *)s;
    for (int c = 0; c < 2; c++) {
      const mx_q512 low = *(const mx_q512 *)(w + 64 * c), high = mx_q_twice(w + 128 + 32 * c);
      const mx_q512 u0 = (low & 15) | ((mx_q512)((mx_q_u64)high << up) & 48);
      const mx_q512 u1 = ((mx_q512)((mx_q_u64)low >> 4) & 15) | ((mx_q512)((mx_q_u64)high >> down) & 48);
      const i8 *x = q + 128 * c;
      sum += mx_q_dot(zero, u0, *(const mx_q512 *)x) * mx_q_words(each, pick + 8 * c);
      sum += mx_q_dot(zero, u1, *(const mx_q512 *)(x + 64)) * mx_q_words(each, pick + (8 * c + 4));
    }
    a += __builtin_convertvector(sum, mx_q_f32) * (mx_q_half_fast(w + 208) * d[b]);
  }
  *y = mx_q_total(a);
#elif MX_Q_VECTORS == 2
  mx_q_f32h a = {0};
  for (i64 b = 0; b < blocks; b++, w += 210, q += 256, s += 16) {
    MX_Q_AHEAD(w, 4);
    mx_q_i32h sum = mx_q_signed_half(w + 192) * *(const mx_q_i32h *)s;
    sum += mx_q_signed_half(w + 200) * *(const mx_q_i32h *)(s + 8);
    for (int c = 0; c < 8; c++) { /* 32 elements */
      const mx_q_u64h low = (mx_q_u64h)*(const mx_q256 *)(w + c / 4 * 64 + c % 2 * 32) >> (c % 4 / 2 * 4);
      const mx_q_u64h high = (mx_q_u64h)*(const mx_q256 *)(w + 128 + c / 4 * 32) >> (c % 4 * 2);
      const mx_q256 u = ((mx_q256)low & 15) | (mx_q256)((mx_q_u64h)((mx_q256)high & 3) << 4);
      const i32 one = (i8)w[192 + 2 * c], two = (i8)w[193 + 2 * c];
      const mx_q_i32h each = {one, one, one, one, two, two, two, two};
      sum += mx_q_dot_half(u, *(const mx_q256 *)(q + 32 * c)) * each;
    }
    a += __builtin_convertvector(sum, mx_q_f32h) * (mx_q_half_fast(w + 208) * d[b]);
  }
  *y = mx_q_total_half(a);
#else
  mx_q_f32h a = {0};
  for (i64 b = 0; b < blocks; b++, w += 210, q += 256, s += 16) {
    mx_q_i32h sum = {0};
    for (int c = 0; c < 16; c++) { /* 16 elements with one scale */
      const mx_q_u64h low = (mx_q_u64h)*(const mx_q128 *)(w + c / 8 * 64 + c % 4 * 16) >> (c % 8 / 4 * 4);
      const mx_q_u64h high = (mx_q_u64h)*(const mx_q128 *)(w + 128 + c / 8 * 32 + c % 2 * 16) >> (c % 8 / 2 * 2);
      const mx_q128 u = ((mx_q128)low & 15) | (mx_q128)((mx_q_u64h)((mx_q128)high & 3) << 4);
      const i32 scale = (i8)w[192 + c];
      mx_q_dot_add(&sum, u, q + 16 * c, scale);
      sum[0] += scale * s[c];
    }
    a += __builtin_convertvector(sum, mx_q_f32h) * (mx_q_half(w + 208) * d[b]);
  }
  *y = mx_q_total_of(&a);
#endif
}
// @end
