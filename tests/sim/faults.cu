// Kernels that a run without checks must survive.

extern "C" __global__ void stuck(int *out) {
  if (threadIdx.x < 16)
    __syncthreads(); // @1
  else
    __syncwarp(); // @2
  out[threadIdx.x] = 1;
}

extern "C" __global__ void wild(int *out, long long far) {
  out[threadIdx.x] = 1;
  if (blockIdx.x == 3) out[far] = 2; // @1
}

extern "C" __global__ void divide(int *out, int by) {
  out[threadIdx.x] = 100 / by; // @1
}

static __device__ __noinline__ int deep(int n, volatile int *x) {
  volatile int local[256];
  local[n & 255] = n;
  return n == 0 ? x[0] : deep(n - 1, x) + local[n & 255];
}

extern "C" __global__ void recursive(int *out, int n) { out[threadIdx.x] = deep(n, out); }

extern "C" __global__ void endless(volatile int *flag) {
  while (*flag == 0) {
  }
}

extern "C" __global__ void too_large(float *out) {
  __shared__ float s[13000];
  s[threadIdx.x] = 1.0f;
  out[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(64) bounded(int *out) { out[threadIdx.x] = 1; }
