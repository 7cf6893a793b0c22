// Single features of the language, one kernel each.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// Where each thread is: x y z of the thread and of the block, for every shape.
extern "C" __global__ void where(int *out) {
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  int *o = out + (block * threads + thread) * 6;
  o[0] = threadIdx.x, o[1] = threadIdx.y, o[2] = threadIdx.z;
  o[3] = blockIdx.x, o[4] = blockIdx.y, o[5] = blockIdx.z;
}

// All shuffles and votes of one warp, each as a row of 32.
extern "C" __global__ void warp_operations(int *out, const int *x) {
  const int t = threadIdx.x, v = x[t];
  const unsigned all = MX_FULL_WARP;
  int row = 0;
#define PUT(e) out[32 * row++ + t] = (int)(e)
  PUT(__shfl_sync(all, v, 5));
  PUT(__shfl_sync(all, v, t + 1, 8));
  PUT(__shfl_up_sync(all, v, 3));
  PUT(__shfl_up_sync(all, v, 3, 16));
  PUT(__shfl_down_sync(all, v, 3));
  PUT(__shfl_down_sync(all, v, 3, 16));
  PUT(__shfl_xor_sync(all, v, 9));
  PUT(__shfl_xor_sync(all, v, 9, 8));
  PUT(__ballot_sync(all, v > 0));
  PUT(__any_sync(all, v > 1000));
  PUT(__all_sync(all, v > -1000));
  PUT(__match_any_sync(all, v % 3));
  PUT(__reduce_add_sync(all, v));
  PUT(__reduce_min_sync(all, v));
  PUT(__reduce_max_sync(all, (unsigned)v));
  PUT((long long)__shfl_xor_sync(all, (long long)v << 33, 1) >> 33);
  if (t % 2) // some of the lanes
    PUT(__ballot_sync(0xaaaaaaaau, t < 16));
  else
    PUT(__shfl_sync(0x55555555u, v, 2));
#undef PUT
}

extern "C" __global__ void block_votes(int *out, const int *x) {
  const int t = threadIdx.x;
  out[t * 3] = __syncthreads_count(x[t] > 0);
  out[t * 3 + 1] = __syncthreads_and(x[t] > -100);
  out[t * 3 + 2] = __syncthreads_or(x[t] > 100);
}

extern "C" __global__ void active_lanes(unsigned *out) {
  const int t = threadIdx.x;
  out[t] = __activemask();
  if (t % 4 == 1) out[32 + t] = __activemask();
}

extern "C" __global__ void atomics(int *i, unsigned *u, unsigned long long *l, float *f, double *d, const int *x) {
  const int v = x[blockIdx.x * blockDim.x + threadIdx.x];
  atomicAdd(i, v);
  atomicSub(i + 1, v);
  atomicMin(i + 2, v);
  atomicMax(i + 3, v);
  atomicXor(i + 4, v);
  atomicOr(u, (unsigned)v & 0xff00ffu);
  atomicAnd(u + 1, (unsigned)v | 0xff00ff00u);
  atomicInc(u + 2, 9u);
  atomicMax(u + 3, (unsigned)v);
  atomicAdd(l, (unsigned long long)(v + 1000));
  atomicMin(l + 1, (unsigned long long)(v + 1000));
  atomicAdd(f, (float)v);
  atomicAdd(d, (double)v);
  int old = i[5], seen; // a maximum by compare and swap
  do {
    seen = old;
    old = atomicCAS(i + 5, seen, seen > v ? seen : v);
  } while (old != seen);
  if (threadIdx.x == 0) atomicExch(f + 1 + blockIdx.x, 7.0f);
}

// A lock that threads of one block pass on.
extern "C" __global__ void locked(int *lock, volatile int *count) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  *count = *count + 1;
  __threadfence();
  atomicExch(lock, 0);
}

extern "C" __global__ void narrow(__half *h, __nv_bfloat16 *b, __nv_fp8_e4m3 *e4, __nv_fp8_e5m2 *e5, u8 *wide4, u8 *wide5,
                                  const float *x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  h[i] = __float2half_rn(x[i]);
  b[i] = __float2bfloat16_rn(x[i]);
  e4[i] = __nv_fp8_e4m3(x[i]);
  e5[i] = __nv_fp8_e5m2(x[i]);
  wide4[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, __NV_E4M3);
  wide5[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, __NV_E5M2);
}

extern "C" __global__ void widen(float *h, float *b, float *e4, float *e5, const u16 *x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  h[i] = __half2float(__ushort_as_half(x[i]));
  b[i] = __bfloat162float(__ushort_as_bfloat16(x[i]));
  __nv_fp8_e4m3 four;
  __nv_fp8_e5m2 five;
  four.__x = five.__x = (u8)x[i];
  e4[i] = (float)four;
  e5[i] = (float)five;
}

extern "C" __global__ void to_integers(int *i, i64 *l, const float *x, int n) {
  for (int k = 0; k < n; k++) {
    i[k] = __float2int_rz(x[k]);
    l[k] = __float2ll_rn(x[k]);
  }
}

__constant__ float TABLE[4] = {1.0f, 2.0f, 4.0f, 8.0f};

extern "C" __global__ void shows(const int *x) {
  const int i = threadIdx.x;
  if (i == 0) printf("block %d of %d\n", (int)blockIdx.x, (int)gridDim.x);
  MX_WATCH(TABLE[i % 4] * x[i]);
}
