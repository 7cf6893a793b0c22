/* quantized.cuh - numbers in blocks of few bits, laid out as ggml has them: see kernels/c/ops/quantized.h.
 *
 *   mx_q4_0_element(w, j), ...      element j of the block at w, as a float; w at any address
 *   mx_quantize_32(q, d, x)         a block of left numbers as Q8_0 has it; mx_quantize_256 as Q8_K
 *   mx_qmatmul<F>(y, w, q, d, group, m, n, blocks, stride)
 *       for a block of threads: each of its warps makes one column of y[m, n], that of row group * warps + warp of w,
 *       whose rows are `stride` bytes apart.  The lanes of a warp take pieces of 32 elements, multiply them with up to 4
 *       left rows by __dp4a, and add their sums by shuffles.
 *   mx_matmul_blocks<E>(y, ...)     for a thread: a left row of floats times a row of blocks, whose elements E reads
 *   mx_matmul_groups(y, ...)        the same for a column of words of a few bits a number, with a scale for each group
 *
 * Integers are multiplied and added exactly, and scaled in float.
 */
#pragma once

enum { MX_Q4_0, MX_Q4_K, MX_Q6_K };

/* ---- reading ------------------------------------------------------------------------------------------------------ */
MX_INLINE u32 mx_q_pair(const u8 *p) { /* 2 bytes at any address */
  if (((u64)p & 1) == 0) return *(const u16 *)p;
  return (u32)p[0] | (u32)p[1] << 8;
}
MX_INLINE u32 mx_q_word(const u8 *p) { return mx_q_pair(p) | mx_q_pair(p + 2) << 16; }
MX_INLINE f32 mx_q_half(const u8 *p) { return mx_f16_to_f32((u16)mx_q_pair(p)); }
/* scale and least value j (of 8) of Q4_K and Q5_K, from their 12 bytes */
MX_INLINE i32 mx_q_scale(const u8 *p, int j) {
  return j < 4 ? p[j] & 63 : (p[j + 4] & 15) | (p[j - 4] >> 6 << 4);
}
MX_INLINE i32 mx_q_least(const u8 *p, int j) {
  return j < 4 ? p[j + 4] & 63 : (p[j + 4] >> 4) | (p[j] >> 6 << 4);
}

/* ---- one element: the products are exact, so there is one rounding at most, fused or not ------------------------------ */
MX_INLINE f32 mx_q4_0_element(const u8 *w, int j) {
  const i32 q = j < 16 ? w[2 + j] & 15 : w[2 + j - 16] >> 4;
  return mx_q_half(w) * (f32)(q - 8);
}
MX_INLINE f32 mx_q4_k_element(const u8 *w, int j) {
  const int sub = j / 32;
  const i32 q = w[16 + sub / 2 * 32 + j % 32] >> (sub % 2 * 4) & 15;
  const f32 scale = mx_q_half(w) * (f32)mx_q_scale(w + 4, sub), least = mx_q_half(w + 2) * (f32)mx_q_least(w + 4, sub);
  return scale * (f32)q - least;
}
MX_INLINE f32 mx_q5_k_element(const u8 *w, int j) {
  const int sub = j / 32;
  const i32 q = (w[48 + sub / 2 * 32 + j % 32] >> (sub % 2 * 4) & 15) | (w[16 + j % 32] >> sub & 1) << 4;
  const f32 scale = mx_q_half(w) * (f32)mx_q_scale(w + 4, sub), least = mx_q_half(w + 2) * (f32)mx_q_least(w + 4, sub);
  return scale * (f32)q - least;
}
MX_INLINE f32 mx_q6_k_element(const u8 *w, int j) {
  const int half = j / 128, part = j % 128 / 32, e = j % 32;
  const i32 low = w[half * 64 + part % 2 * 32 + e] >> (part / 2 * 4) & 15, high = w[128 + half * 32 + e] >> (part * 2) & 3;
  return mx_q_half(w + 208) * (f32)(i8)w[192 + j / 16] * (f32)((low | high << 4) - 32);
}

/* ---- left rows ------------------------------------------------------------------------------------------------------ */
MX_INLINE void mx_quantize_32(i8 *q, f32 *d, const f32 *x) {
  u32 most = 0;
  for (int j = 0; j < 32; j++) {
    const u32 size = mx_bits_f32(x[j]) & 0x7fffffffu; /* as integers, so that a NaN is the largest */
    most = size > most ? size : most;
  }
  const f32 scale = mx_f32_bits(most) / 127.0f, inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  for (int j = 0; j < 32; j++) {
    const u32 u = mx_bits_f32(x[j] * inverse);
    f32 size = mx_f32_bits(u & 0x7fffffffu);
    size = size <= 127.0f ? size : size > 127.0f ? 127.0f : 0.0f;
    const i32 rounded = (i32)(size + 0.49999997f); /* with 0.5 the float below a half would be rounded up */
    q[j] = (i8)(u >> 31 ? -rounded : rounded);
  }
  *d = mx_f16_to_f32(mx_f32_to_f16(scale));
}
MX_INLINE void mx_quantize_256(i8 *q, f32 *d, const f32 *x) {
  u32 most = 0;
  f32 largest = 0.0f;
  for (int j = 0; j < 256; j++) {
    const u32 size = mx_bits_f32(x[j]) & 0x7fffffffu;
    if (size > most) most = size, largest = x[j];
  }
  const f32 inverse = most ? -127.0f / largest : 0.0f;
  for (int j = 0; j < 256; j++) {
    const f32 v = mx_rint_f32(x[j] * inverse);
    q[j] = (i8)(i32)(v >= -127.0f ? v <= 127.0f ? v : 127.0f : v < -127.0f ? -127.0f : 0.0f);
  }
  *d = most ? 1.0f / inverse : 0.0f;
}

/* ---- products ------------------------------------------------------------------------------------------------------- */
template <int F> struct mx_q_block {
  static constexpr int ELEMENTS = F == MX_Q4_0 ? 32 : 256, BYTES = F == MX_Q4_0 ? 18 : F == MX_Q4_K ? 144 : 210;
  static constexpr int OFFSET = F == MX_Q4_0 ? 8 : F == MX_Q6_K ? 32 : 0;
};

/* 32 elements: unsigned bytes, 4 in a word; a scale for each 16 of them, and what is taken off for the sum of the left */
struct mx_q_part {
  u32 u[8];
  f32 scale[2], least;
};

template <int F> MX_INLINE mx_q_part mx_q_read(const u8 *w, int sub) {
  mx_q_part r;
  r.least = 0.0f;
  if constexpr (F == MX_Q4_0) {
    r.scale[0] = r.scale[1] = mx_q_half(w);
    for (int e = 0; e < 4; e++) {
      const u32 v = mx_q_word(w + 2 + 4 * e);
      r.u[e] = v & 0x0f0f0f0fu;
      r.u[4 + e] = v >> 4 & 0x0f0f0f0fu;
    }
  } else if constexpr (F == MX_Q4_K) {
    r.scale[0] = r.scale[1] = mx_q_half(w) * (f32)mx_q_scale(w + 4, sub);
    r.least = mx_q_half(w + 2) * (f32)mx_q_least(w + 4, sub);
    for (int e = 0; e < 8; e++) r.u[e] = mx_q_word(w + 16 + sub / 2 * 32 + 4 * e) >> (sub % 2 * 4) & 0x0f0f0f0fu;
  } else {
    const int half = sub / 4, part = sub % 4;
    const f32 d = mx_q_half(w + 208);
    r.scale[0] = d * (f32)(i8)w[192 + 2 * sub];
    r.scale[1] = d * (f32)(i8)w[193 + 2 * sub];
    for (int e = 0; e < 8; e++) {
      const u32 low = mx_q_word(w + half * 64 + part % 2 * 32 + 4 * e) >> (part / 2 * 4) & 0x0f0f0f0fu;
      const u32 high = mx_q_word(w + 128 + half * 32 + 4 * e) >> (part * 2) & 0x03030303u;
      r.u[e] = low | high << 4;
    }
  }
  return r;
}

template <int F>
MX_INLINE void mx_qmatmul(f32 *y, const u8 *w, const i8 *q, const f32 *d, i64 group, i64 m, i64 n, i64 blocks,
                          i64 stride) {
  using block = mx_q_block<F>;
  constexpr int ROWS = 4, PARTS = block::ELEMENTS / 32;
  const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
  const i64 column = group * (blockDim.x >> 5) + warp;
  if (column >= n) return; /* all lanes of the warp */
  w += column * stride;
  for (i64 first = 0; first < m; first += ROWS) {
    f32 sum[ROWS] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (i64 p = lane; p < blocks * PARTS; p += 32) {
      const i64 b = p / PARTS;
      const mx_q_part v = mx_q_read<F>(w + b * block::BYTES, (int)(p % PARTS));
      for (int r = 0; r < ROWS; r++) {
        if (first + r >= m) break;
        const int *const x = (const int *)(q + ((first + r) * blocks + b) * block::ELEMENTS + p % PARTS * 32);
        i32 dot[2] = {0, 0}, total[2] = {0, 0};
        for (int e = 0; e < 8; e++) {
          const int left = x[e];
          dot[e / 4] = __dp4a(left, (int)v.u[e], dot[e / 4]);
          total[e / 4] = __dp4a(left, 0x01010101, total[e / 4]);
        }
        f32 scaled = v.scale[0] * (f32)(dot[0] - block::OFFSET * total[0]);
        scaled += v.scale[1] * (f32)(dot[1] - block::OFFSET * total[1]);
        scaled -= v.least * (f32)(total[0] + total[1]);
        sum[r] += scaled * d[(first + r) * blocks + b];
      }
    }
    for (int r = 0; r < ROWS; r++) {
      for (int apart = 16; apart; apart /= 2) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], apart);
      if (lane == 0 && first + r < m) y[(first + r) * n + column] = sum[r];
    }
  }
}

/* ---- floats on the left -------------------------------------------------------------------------------------------- */
template <f32 (*E)(const u8 *, int)>
MX_INLINE void mx_matmul_blocks(f32 *y, const f32 *x, const u8 *w, i64 blocks, int each, int size) {
  f32 sum = 0.0f;
  for (i64 b = 0; b < blocks; b++, w += size) {
    f32 part = 0.0f;
    for (int e = 0; e < each; e++) part += *x++ * E(w, e);
    sum += part;
  }
  *y = sum;
}
MX_INLINE void mx_matmul_groups(f32 *y, const i32 *w, const f32 *s, const f32 *x, i64 n, i64 groups, i64 many, int bits) {
  const u32 mask = (1u << bits) - 1u;
  const i32 middle = 1 << (bits - 1);
  f32 sum = 0.0f;
  for (i64 g = 0; g < groups; g++, s += n) {
    f32 part = 0.0f;
    for (i64 m = 0; m < many; m++, w += n)
      for (int at = 0; at < 32; at += bits) part += *x++ * (f32)((i32)((u32)*w >> at & mask) - middle);
    sum += part * *s;
  }
  *y = sum;
}
