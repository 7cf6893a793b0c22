// Kernels with one mistake each. A line that a report must name is marked: @1 the access, @2 the other place.

extern "C" __global__ void missing_barrier(float *out, const float *x) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  s[t] = x[t]; // @2
  out[t] = s[t ^ 1]; // @1
}

extern "C" __global__ void missing_second_barrier(float *out, const float *x, int rounds) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  float sum = 0.0f;
  for (int r = 0; r < rounds; r++) {
    s[t] = x[r * 64 + t]; // @1
    __syncthreads();
    sum += s[63 - t]; // @2
  }
  out[t] = sum;
}

extern "C" __global__ void missing_syncwarp(int *out) {
  MX_DYN_SHARED(int, s);
  const int t = threadIdx.x;
  s[t] = t; // @2
  out[t] = __shfl_sync(MX_FULL_WARP, s[t ^ 1], 0); // @1
}

extern "C" __global__ void divergent_deadlock(int *out) {
  if (threadIdx.x < 16)
    __syncthreads(); // @1
  else
    __syncwarp(); // @2
  out[threadIdx.x] = 1;
}

extern "C" __global__ void divergent_places(int *out) {
  if (threadIdx.x < 32) {
    out[threadIdx.x] = 1;
    __syncthreads(); // @2
  } else {
    out[threadIdx.x] = 2;
    __syncthreads(); // @1
  }
}

extern "C" __global__ void global_beyond(float *y, const float *x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = 1.0f; // @1
}

extern "C" __global__ void global_before(float *y, const float *x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i - 1] + x[i]; // @1
}

extern "C" __global__ void null_pointer(float *y, const float *x) {
  y[0] = x[3]; // @1
}

extern "C" __global__ void shared_beyond(float *out, int at) {
  __shared__ float first[64], second[64];
  first[threadIdx.x] = second[threadIdx.x] = 0.0f;
  __syncthreads();
  out[threadIdx.x] = first[threadIdx.x + at]; // @1
}

extern "C" __global__ void dynamic_beyond(float *out) {
  MX_DYN_SHARED(float, tile);
  tile[threadIdx.x + 1] = 0.0f; // @1
  out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void uninitialised(float *out, const float *x, int n) {
  __shared__ float s[64];
  if ((int)threadIdx.x < n) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x]; // @1
}

extern "C" __global__ void same_element(int *out) {
  out[0] = threadIdx.x; // @1 @2
}

extern "C" __global__ void across_blocks(float *sums, float *out, const float *x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i]; // @2
  __syncthreads();
  if (i) sums[i] = x[i] + out[i - 1]; // @1
}

extern "C" __global__ void no_fence(float *partial, unsigned *done, float *result) {
  partial[blockIdx.x] = 1.0f; // @2
  if (atomicAdd(done, 1u) == gridDim.x - 1)
    for (unsigned i = 0; i < gridDim.x; i++) *result += partial[i]; // @1
}

extern "C" __global__ void half_atomic(int *count) {
  if (threadIdx.x < 32)
    atomicAdd(count, 1); // @2
  else
    *count += 1; // @1
}

extern "C" __global__ void byte_race(u8 *out, const u8 *x) {
  __shared__ u8 s[64];
  const int t = threadIdx.x;
  s[t] = x[t]; // @2
  out[t] = s[t ^ 1]; // @1
}

extern "C" __global__ void forgotten_wait(float *out, const float *x) {
  __shared__ __align__(16) float s[128];
  const int t = threadIdx.x;
  mx_cp_async<16>(&s[4 * t], &x[4 * t]); // @2
  mx_cp_async_commit();
  __syncthreads();
  out[t] = s[t]; // @1
}

extern "C" __global__ void unaligned_vector(float *out, const float *x) {
  const float4 v = *reinterpret_cast<const float4 *>(x + 1); // @1
  out[0] = v.x + v.w;
}

extern "C" __global__ void shuffle_from_nobody(int *out, int n) {
  const int t = threadIdx.x;
  if (t >= n) return;
  out[t] = __shfl_down_sync(MX_FULL_WARP, t, 1); // @1
}

extern "C" __global__ void wrong_mask(int *out) {
  const int t = threadIdx.x;
  out[t] = __ballot_sync(0x0000ffffu, 1); // @1
}

extern "C" __global__ void different_masks(int *out) {
  const int t = threadIdx.x;
  if (t < 16)
    out[t] = __ballot_sync(MX_FULL_WARP, 1); // @2
  else
    out[t] = __ballot_sync(0xffff0001u, 1); // @1
}

extern "C" __global__ void asserts(const int *x) {
  if (x[threadIdx.x] < 0) __trap(); // @1
}
