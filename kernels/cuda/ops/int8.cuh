/* int8.cuh - products of bytes with weights of signed bytes: see kernels/ops/int8.c.
 *
 *   mx_int8_left(q, d, z, x, k, step, given)
 *       for a block of 128 threads: a left row x[k] of floats, unsigned or signed bytes as signed bytes q, with zeros up to
 *       `step`, a scale d and a zero z.  given: {scale, zero}, or NULL for those of the row, which must be of floats.
 *   mx_int8_tile<ACTIVATION>(y, n, q, step, d, z, m, w, k, scales, bias, item)
 *       for a block of 256 threads: 32 x 32 numbers of y[m, n], 2 x 2 a thread.  64 k of both sides come into shared
 *       memory at a time, 4 in a word, and are multiplied by __dp4a; sums are integers.
 */
#pragma once

enum { MX_ACT_NONE, MX_ACT_RELU, MX_ACT_GELU, MX_ACT_GELU_TANH, MX_ACT_GELU_QUICK, MX_ACT_SILU, MX_ACT_SIGMOID, MX_ACT_TANH };

/* ---- left rows: bytes are those of the CPU less 128 ------------------------------------------------------------------- */
MX_INLINE f32 mx_int8_between(f32 v, f32 low, f32 high) { /* NaN is the low one */
  v = v > low ? v : low;
  return v < high ? v : high;
}
MX_INLINE void mx_int8_left(i8 *q, f32 *d, i32 *z, const f32 *x, i64 k, i64 step, const f32 *given) {
  __shared__ u32 most[128];
  __shared__ f32 low[128], high[128];
  const unsigned t = threadIdx.x;
  u32 size = 0;
  f32 least = 0.0f, largest = 0.0f;
  for (i64 j = t; j < k; j += 128) {
    const u32 one = mx_bits_f32(x[j]) & 0x7fffffffu;
    size = one > size ? one : size;
    least = x[j] < least ? x[j] : least;
    largest = x[j] > largest ? x[j] : largest;
  }
  __syncthreads(); /* the numbers of the row before have been read */
  most[t] = size, low[t] = least, high[t] = largest;
  __syncthreads();
  for (unsigned apart = 64; apart; apart /= 2) {
    if (t < apart) {
      most[t] = most[t + apart] > most[t] ? most[t + apart] : most[t];
      low[t] = low[t + apart] < low[t] ? low[t + apart] : low[t];
      high[t] = high[t + apart] > high[t] ? high[t + apart] : high[t];
    }
    __syncthreads();
  }
  f32 scale, zero;
  bool wrong;
  if (given) {
    scale = given[0];
    zero = mx_rint_f32(mx_int8_between(given[1], 0.0f, 255.0f));
    wrong = !(scale > 0.0f) || most[0] > 0x7f800000u;
  } else {
    scale = high[0] / 255.0f - low[0] / 255.0f;
    if (scale < 1.17549435e-38f) scale = 1.17549435e-38f; /* its inverse is no infinity */
    zero = mx_rint_f32(-low[0] / scale);
    wrong = most[0] >= 0x7f800000u;
  }
  const f32 inverse = 1.0f / scale;
  for (i64 j = t; j < step; j += 128) {
    const f32 v = j < k && !wrong ? mx_int8_between(mx_rint_f32(x[j] * inverse) + zero, 0.0f, 255.0f) : 128.0f;
    q[j] = (i8)((i32)v - 128);
  }
  if (t == 0) {
    *d = wrong ? __builtin_nanf("") : scale;
    *z = wrong ? 0 : (i32)zero - 128;
  }
}
template <typename T> MX_INLINE void mx_int8_bytes(i8 *q, f32 *d, i32 *z, const T *x, i64 k, i64 step, const f32 *given, i32 off) {
  for (i64 j = threadIdx.x; j < step; j += 128) q[j] = j < k ? (i8)((i32)x[j] - off) : (i8)0;
  if (threadIdx.x) return;
  *d = given[0] > 0.0f ? given[0] : __builtin_nanf("");
  *z = (i32)mx_rint_f32(mx_int8_between(given[1], (f32)(off - 128), (f32)(off + 127))) - off;
}
MX_INLINE void mx_int8_left(i8 *q, f32 *d, i32 *z, const u8 *x, i64 k, i64 step, const f32 *given) {
  mx_int8_bytes(q, d, z, x, k, step, given, 128);
}
MX_INLINE void mx_int8_left(i8 *q, f32 *d, i32 *z, const i8 *x, i64 k, i64 step, const f32 *given) {
  mx_int8_bytes(q, d, z, x, k, step, given, 0);
}

/* ---- products --------------------------------------------------------------------------------------------------------- */
template <int ACTIVATION> MX_INLINE f32 mx_int8_activated(f32 v) {
  if constexpr (ACTIVATION == MX_ACT_RELU) return v < 0.0f ? 0.0f : v;
  else if constexpr (ACTIVATION == MX_ACT_GELU) return mx_gelu_f32(v);
  else if constexpr (ACTIVATION == MX_ACT_GELU_TANH) return mx_gelu_tanh_f32(v);
  else if constexpr (ACTIVATION == MX_ACT_GELU_QUICK) return mx_gelu_quick_f32(v);
  else if constexpr (ACTIVATION == MX_ACT_SILU) return mx_silu_f32(v);
  else if constexpr (ACTIVATION == MX_ACT_SIGMOID) return mx_sigmoid_f32(v);
  else if constexpr (ACTIVATION == MX_ACT_TANH) return mx_tanh_f32(v);
  else return v;
}
/* 4 bytes of a row at k, of which those from `end` on are 0 */
MX_INLINE i32 mx_int8_word(const i8 *row, i64 k, i64 end) {
  if (k + 4 <= end && ((u64)(row + k) & 3) == 0) return *(const i32 *)(row + k);
  u32 word = 0;
  for (int e = 0; e < 4; e++)
    if (k + e < end) word |= (u32)(u8)row[k + e] << 8 * e;
  return (i32)word;
}
template <int ACTIVATION>
MX_INLINE void mx_int8_tile(f32 *y, i64 n, const i8 *q, i64 step, const f32 *d, const i32 *z, i64 m, const i8 *w, i64 k,
                            const f32 *scales, const f32 *bias, i64 item) {
  __shared__ i32 left[32][17], right[32][17]; /* 17: rows begin in different banks */
  const i64 down = (m + 31) / 32, r0 = item % down * 32, c0 = item / down * 32;
  const int t = threadIdx.x, row = t / 16, column = t % 16;
  i32 sums[2][2] = {{0, 0}, {0, 0}}, whole[2] = {0, 0};
  for (i64 k0 = 0; k0 < k; k0 += 64) {
    __syncthreads(); /* what was there before has been read */
    for (int e = t; e < 512; e += 256) {
      const int r = e / 16, word = e % 16;
      left[r][word] = r0 + r < m ? *(const i32 *)(q + (r0 + r) * step + k0 + 4 * word) : 0;
      right[r][word] = c0 + r < n ? mx_int8_word(w + (c0 + r) * k, k0 + 4 * word, k) : 0;
    }
    __syncthreads();
    for (int word = 0; word < 16; word++)
      for (int b = 0; b < 2; b++) {
        const i32 other = right[column + 16 * b][word];
        whole[b] = __dp4a(other, 0x01010101, whole[b]);
        for (int a = 0; a < 2; a++) sums[a][b] = __dp4a(left[row + 16 * a][word], other, sums[a][b]);
      }
  }
  for (int a = 0; a < 2; a++)
    for (int b = 0; b < 2; b++) {
      const i64 r = r0 + row + 16 * a, c = c0 + column + 16 * b;
      if (r >= m || c >= n) continue;
      const f32 v = (f32)(i32)((u32)sums[a][b] - (u32)z[r] * (u32)whole[b]) * (d[r] * scales[c]) + bias[c];
      y[r * n + c] = mx_int8_activated<ACTIVATION>(v);
    }
}
