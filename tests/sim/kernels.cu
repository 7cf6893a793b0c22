// Correct kernels of the usual kinds: the simulator must agree with NumPy and find nothing.
#include <cuda_fp16.h>

extern "C" __global__ void gelu(float *__restrict__ y, const float *__restrict__ x, i64 n) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)
    y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.707106781f));
}

// Four at a time, then the rest.
extern "C" __global__ void scale(float *__restrict__ y, const float *__restrict__ x, float by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 4) {
    const float4 v = reinterpret_cast<const float4 *>(x)[i];
    reinterpret_cast<float4 *>(y)[i] = make_float4(v.x * by, v.y * by, v.z * by, v.w * by);
  }
  if (i < n % 4) y[n / 4 * 4 + i] = x[n / 4 * 4 + i] * by;
}

#define TILE 16
extern "C" __global__ void __launch_bounds__(TILE *TILE)
    matmul(float *__restrict__ C, const float *__restrict__ A, const float *__restrict__ B, int M, int N, int K) {
  __shared__ float As[TILE][TILE + 1], Bs[TILE][TILE + 1];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
  float sum = 0.0f;
  for (int k = 0; k < K; k += TILE) {
    As[ty][tx] = row < M && k + tx < K ? A[row * K + k + tx] : 0.0f;
    Bs[ty][tx] = k + ty < K && column < N ? B[(k + ty) * N + column] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; i++) sum = fmaf(As[ty][i], Bs[i][tx], sum);
    __syncthreads();
  }
  if (row < M && column < N) C[row * N + column] = sum;
}

static __device__ __forceinline__ float warp_max(float v) {
  for (int lanes = 16; lanes; lanes /= 2) v = fmaxf(v, __shfl_xor_sync(MX_FULL_WARP, v, lanes));
  return v;
}
static __device__ __forceinline__ float warp_sum(float v) {
  for (int lanes = 16; lanes; lanes /= 2) v += __shfl_xor_sync(MX_FULL_WARP, v, lanes);
  return v;
}

// A block for each row; the number of threads is a multiple of 32.
extern "C" __global__ void softmax(float *__restrict__ y, const float *__restrict__ x, int columns) {
  __shared__ float partial[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  x += (i64)blockIdx.x * columns;
  y += (i64)blockIdx.x * columns;
  float top = -INFINITY, sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, x[i]);
  top = warp_max(top);
  if (lane == 0) partial[warp] = top;
  __syncthreads();
  top = warp_max(lane < warps ? partial[lane] : -INFINITY);
  __syncthreads(); // before partial is used again
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const float e = __expf(x[i] - top);
    y[i] = e;
    sum += e;
  }
  sum = warp_sum(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  sum = warp_sum(lane < warps ? partial[lane] : 0.0f);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] /= sum;
}

extern "C" __global__ void histogram(int *counts, float *total, const u8 *x, int n) {
  __shared__ int local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&local[x[i]], 1);
    atomicAdd(total, (float)x[i]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    if (local[i]) atomicAdd(&counts[i], local[i]);
}

// 32 x 32 tiles by 32 x 8 threads; (32 * 33) floats of dynamic shared memory.
extern "C" __global__ void transpose(float *__restrict__ y, const float *__restrict__ x, int rows, int columns) {
  MX_DYN_SHARED(float, tile);
  const int row = blockIdx.y * 32, column = blockIdx.x * 32;
  for (int i = threadIdx.y; i < 32; i += blockDim.y)
    if (row + i < rows && column + threadIdx.x < columns)
      tile[i * 33 + threadIdx.x] = x[(row + i) * columns + column + threadIdx.x];
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += blockDim.y)
    if (column + i < columns && row + threadIdx.x < rows)
      y[(column + i) * rows + row + threadIdx.x] = tile[threadIdx.x * 33 + i];
}

// Threads that have left do not hold up a barrier.
extern "C" __global__ void early_exit(int *y, const int *x, int n) {
  __shared__ int s[128];
  const int i = threadIdx.x;
  if (i >= n) return;
  s[i] = x[i];
  __syncthreads();
  y[i] = s[n - 1 - i] + __syncthreads_count(x[i] > 0);
}

// Causal attention, a warp for each query of 64 values, keys and values in tiles of 32.
extern "C" __global__ void __launch_bounds__(128)
    attention(float *__restrict__ out, const __half *__restrict__ q, const __half *__restrict__ k,
              const __half *__restrict__ v, int length, float scale) {
  const int D = 64, STRIDE = D + 1;
  MX_DYN_SHARED(float, shared);
  float *ks = shared, *vs = shared + 32 * STRIDE;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int query = blockIdx.x * 4 + warp;
  const i64 head = (i64)blockIdx.y * length * D;
  float q0 = 0.0f, q1 = 0.0f, o0 = 0.0f, o1 = 0.0f, top = -INFINITY, sum = 0.0f;
  if (query < length) {
    q0 = __half2float(q[head + query * D + lane]);
    q1 = __half2float(q[head + query * D + lane + 32]);
  }
  for (int first = 0; first < length && first <= (int)blockIdx.x * 4 + 3; first += 32) {
    for (int i = threadIdx.x; i < 32 * D; i += blockDim.x) {
      const bool inside = first + i / D < length;
      ks[i / D * STRIDE + i % D] = inside ? __half2float(k[head + (i64)first * D + i]) : 0.0f;
      vs[i / D * STRIDE + i % D] = inside ? __half2float(v[head + (i64)first * D + i]) : 0.0f;
    }
    __syncthreads();
    float score = 0.0f;
    for (int c = 0; c < 32; c++) {
      score = fmaf(__shfl_sync(MX_FULL_WARP, q0, c), ks[lane * STRIDE + c], score);
      score = fmaf(__shfl_sync(MX_FULL_WARP, q1, c), ks[lane * STRIDE + c + 32], score);
    }
    score = first + lane <= query ? score * scale : -INFINITY;
    const float next = fmaxf(top, warp_max(score));
    const float weight = __expf(score - next), keep = __expf(top - next);
    sum = sum * keep + warp_sum(weight);
    o0 *= keep;
    o1 *= keep;
    top = next;
    for (int j = 0; j < 32; j++) {
      const float w = __shfl_sync(MX_FULL_WARP, weight, j);
      o0 = fmaf(w, vs[j * STRIDE + lane], o0);
      o1 = fmaf(w, vs[j * STRIDE + lane + 32], o1);
    }
    __syncthreads();
  }
  if (query >= length) return;
  out[head + query * D + lane] = o0 / sum;
  out[head + query * D + lane + 32] = o1 / sum;
}

// One pass over memory: the block that is last adds the partial sums of all.
extern "C" __global__ void sum_all(float *result, float *partial, unsigned *done, const float *x, int n) {
  __shared__ float s[8];
  __shared__ bool last;
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0.0f;
    for (int i = 0; i < (int)blockDim.x / 32; i++) sum += s[i];
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(done, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x < 32) {
    sum = 0.0f;
    for (int i = threadIdx.x; i < (int)gridDim.x; i += 32) sum += partial[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) *result = sum;
  }
}

// A warp's own barrier is enough where only its lanes share data.
extern "C" __global__ void reverse_in_warps(int *y, const int *x) {
  __shared__ int s[256];
  const int t = threadIdx.x, first = t / 32 * 32;
  s[t] = x[t];
  __syncwarp();
  const int v = s[first + 31 - t % 32];
  __syncwarp();
  s[t] = v;
  y[t] = s[t];
}
