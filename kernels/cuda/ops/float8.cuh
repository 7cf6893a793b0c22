/* float8.cuh - products with weights that are floats of 8 bits, which stay bytes in memory: see kernels/c/ops/float8.h.
 *
 *   mx_matmul_float8<OFF>(y, n, x, m, w, k, d, column, down, across, blocks)
 *       for a warp: y[m, n] at a column, from left rows x[m, k], the matrix w[n, k] and its scales in rows of `blocks`,
 *       one for `down` rows and `across` columns.  The lanes take pieces of 4 columns, and add their sums by shuffles.
 */
#pragma once

template <u32 OFF>
MX_INLINE void mx_matmul_float8(f32 *y, i64 n, const f32 *x, i64 m, const u8 *w, i64 k, const f32 *d, i64 column, i64 down,
                                i64 across, i64 blocks) {
  const int lane = threadIdx.x & 31;
  const u8 *const row = w + column * k;
  const f32 *const scales = d + column / down * blocks;
  const bool words = k % 4 == 0 && ((u64)row & 3) == 0; /* whether 4 codes are read at once */
  for (i64 first = 0; first < m; first += 4) {
    const int many = (int)(m - first < 4 ? m - first : 4);
    f32 sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (i64 c = 4 * lane; c < k; c += 128) {
      const int some = (int)(k - c < 4 ? k - c : 4);
      u32 codes = 0;
      if (words) codes = *(const u32 *)(row + c);
      else
        for (int e = 0; e < some; e++) codes |= (u32)row[c + e] << 8 * e;
      for (int e = 0; e < some; e++) {
        const f32 v = mx_f8_to_f32<OFF>(codes >> 8 * e & 255) * scales[(c + e) / across];
        for (int r = 0; r < many; r++) sum[r] += v * x[(first + r) * k + c + e];
      }
    }
    for (int r = 0; r < 4; r++) {
      for (int apart = 16; apart; apart /= 2) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], apart);
      if (lane == 0 && r < many) y[(first + r) * n + column] = sum[r];
    }
  }
}
