// Products on tensor cores, with asynchronous copies into shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// C = A B^T with A [M, K], B [N, K] in bfloat16, K a multiple of 8. A block of four warps makes 64 x 32 of C, a warp
// 16 rows of it. While one tile of 32 columns is multiplied the next one is on its way.
#define BM 64
#define BN 32
#define BK 32
#define ROW (BK + 8) // 16-byte aligned, and rows start in different banks

static __device__ __forceinline__ void fetch(__nv_bfloat16 (*to)[ROW], const __nv_bfloat16 *from, int rows, int first,
                                             int limit, int k, int K) {
  for (int i = threadIdx.x; i < rows * BK / 8; i += 128) {
    const int row = i / (BK / 8), column = i % (BK / 8) * 8;
    const bool inside = first + row < limit && k + column < K;
    mx_cp_async<16>(&to[row][column], inside ? from + (i64)(first + row) * K + k + column : from, inside ? 16 : 0);
  }
}

extern "C" __global__ void __launch_bounds__(128)
    gemm_bf16(float *__restrict__ C, const __nv_bfloat16 *__restrict__ A, const __nv_bfloat16 *__restrict__ B, int M,
              int N, int K) {
  __shared__ __align__(16) __nv_bfloat16 As[2][BM][ROW], Bs[2][BN][ROW];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, tile = lane / 8, line = lane % 8;
  const int row = blockIdx.y * BM, column = blockIdx.x * BN;
  float c[BN / 8][4] = {};
  fetch(As[0], A, BM, row, M, 0, K);
  fetch(Bs[0], B, BN, column, N, 0, K);
  mx_cp_async_commit();
  for (int k = 0, stage = 0; k < K; k += BK, stage ^= 1) {
    if (k + BK < K) {
      fetch(As[stage ^ 1], A, BM, row, M, k + BK, K);
      fetch(Bs[stage ^ 1], B, BN, column, N, k + BK, K);
    }
    mx_cp_async_commit();
    mx_cp_async_wait<1>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < BK; step += 16) {
      u32 a[4], b[BN / 16][4];
      mx_ldmatrix_x4(a, &As[stage][warp * 16 + tile % 2 * 8 + line][step + tile / 2 * 8]);
#pragma unroll
      for (int j = 0; j < BN / 16; j++)
        mx_ldmatrix_x4(b[j], &Bs[stage][j * 16 + tile / 2 * 8 + line][step + tile % 2 * 8]);
#pragma unroll
      for (int j = 0; j < BN / 8; j++) mx_mma_m16n8k16_bf16(c[j], a, &b[j / 2][j % 2 * 2]);
    }
    __syncthreads();
  }
  mx_cp_async_wait<0>();
  const int g = lane / 4, t = lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < BN / 8; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int r = row + warp * 16 + g + i / 2 * 8, n = column + j * 8 + t + i % 2;
      if (r < M && n < N) C[(i64)r * N + n] = c[j][i];
    }
}

// One 16 x 8 x 16 product in half precision, B [16, 8] by rows, read transposed.
extern "C" __global__ void mma_f16(float *C, const __half *A, const __half *B) {
  __shared__ __align__(16) __half b[16][8];
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4 * 2;
  for (int i = lane; i < 128; i += 32) b[i / 8][i % 8] = B[i];
  __syncwarp();
  const u32 *words = reinterpret_cast<const u32 *>(A);
  const u32 a[4] = {words[(g * 16 + t) / 2], words[((g + 8) * 16 + t) / 2], words[(g * 16 + t + 8) / 2],
                    words[((g + 8) * 16 + t + 8) / 2]};
  u32 r[4];
  mx_ldmatrix_x4_trans(r, b[lane % 16]);
  float c[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  mx_mma_m16n8k16_f16(c, a, r);
  for (int i = 0; i < 4; i++) C[(g + i / 2 * 8) * 8 + t + i % 2] = c[i];
}
