/* mx_device.cuh - what maxlab's CUDA text is written with, on the device and in the simulator.
 *
 * Put in front of every .cu text: `nvcc -include mx_device.cuh`, `--pre-include` for NVRTC; `cudasim.h` ends with it.
 * Whatever needs PTX is a function here with two bodies, so that kernels themselves contain none. Headers of CUDA
 * (cuda_fp16.h ...) are included by the texts that use their types, because reading them costs more than a kernel.
 *
 *   mx_mma_m16n8k16_bf16/f16(c, a, b)     c[16x8] += a[16x16] b[16x8] on tensor cores, by all 32 lanes of a warp:
 *
 *     lane = 4 g + t             column of A, row of B
 *     A  row g:     a[0] 2t 2t+1    a[2] 2t+8 2t+9          each register holds two 16-bit values, the one with
 *        row g + 8: a[1] 2t 2t+1    a[3] 2t+8 2t+9          the lower index in the lower half
 *     B  column g:  b[0] 2t 2t+1    b[1] 2t+8 2t+9
 *     C  row g:     c[0] c[1] at columns 2t 2t+1;   row g + 8: c[2] c[3]
 *
 *   mx_ldmatrix_x4(r, row), .._x4_trans   four 8x8 tiles of 16-bit values from shared memory into that layout: lane
 *                                         8 i + j names row j (16 bytes, aligned) of tile i; r[i] is the lane's part of
 *                                         tile i: row g, columns 2t 2t+1 (trans: rows 2t 2t+1, column g)
 *   mx_pair_bf16(low, high), mx_pair_f16  two floats rounded to 16 bits, the first in the lower half
 *   mx_half_value(bits)                   the float that a float16 is
 *   mx_forget(x)                          the compiler takes x for unknown: what was computed of it is computed again
 *   mx_max_nan(a, b), mx_min_nan(a, b)    NaN if either is; which of two zeros is open
 *   mx_exp2_near(x)                       2^x within 2 ulp, 0 where that is subnormal
 *   mx_quotient(a, b)                     a / b within 1 ulp, where a and it are finite, and neither b nor 1 / b is subnormal or infinite
 *   mx_reciprocal_near(x)                 1 / x within 2 ulp, where neither it nor x is subnormal or infinite
 *   mx_cp_async<BYTES>(shared, global)    starts copying 4, 8 or 16 bytes, aligned to their size; with a third argument
 *                                         only that many are read and the rest become 0
 *   mx_cp_async_commit()                  makes one group of the copies started since the last one
 *   mx_cp_async_wait<N>()                 waits until at most N groups are under way; then a barrier shows the data to
 *                                         the other threads
 *   mx_load_fresh(p)                      what other blocks have written before: read past this multiprocessor's cache
 */
#pragma once

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

#define MX_INLINE static __device__ __forceinline__
#define MX_FULL_WARP 0xffffffffu

#if defined(__CUDASIM__)

/* Dynamic shared memory as T *name; `shared_bytes` of the launch says how much there is. */
#define MX_DYN_SHARED(T, name) T *name = reinterpret_cast<T *>(cs_now->dynamic)
/* In the simulator, lists the value under its text and line for every thread; on the device, only the value. */
#define MX_WATCH(x) (cs_watch(#x, (double)(x), __LINE__))

MX_INLINE void mx_mma_m16n8k16_bf16(float *c, const u32 *a, const u32 *b) { cs_mma_m16n8k16(CS_BF16, c, a, b); }
MX_INLINE void mx_mma_m16n8k16_f16(float *c, const u32 *a, const u32 *b) { cs_mma_m16n8k16(CS_F16, c, a, b); }
MX_INLINE void mx_ldmatrix_x4(u32 *r, const void *row) { cs_ldmatrix(r, row, 0); }
MX_INLINE void mx_ldmatrix_x4_trans(u32 *r, const void *row) { cs_ldmatrix(r, row, 1); }
MX_INLINE u32 mx_pair_bf16(f32 low, f32 high) {
  return cs_bfloat16_bits(low) | (u32)cs_bfloat16_bits(high) << 16;
}
MX_INLINE u32 mx_pair_f16(f32 low, f32 high) {
  return cs_half_bits(low) | (u32)cs_half_bits(high) << 16;
}
MX_INLINE f32 mx_half_value(u16 bits) { return cs_half_value(bits); }
MX_INLINE void mx_forget(int &) {}
MX_INLINE f32 mx_max_nan(f32 a, f32 b) { return a != a || a > b ? a : b; }
MX_INLINE f32 mx_min_nan(f32 a, f32 b) { return a != a || a < b ? a : b; }
MX_INLINE f32 mx_exp2_near(f32 x) { return x < -126.0f ? 0.0f : exp2f(x); }
MX_INLINE f32 mx_quotient(f32 a, f32 b) { return a / b; }
MX_INLINE f32 mx_reciprocal_near(f32 x) { return 1.0f / x; }
template <int BYTES> MX_INLINE void mx_cp_async(void *shared, const void *global, int valid = BYTES) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "copies are of 4, 8 or 16 bytes");
  cs_copy_async(shared, global, BYTES, valid);
}
MX_INLINE void mx_cp_async_commit() { cs_copy_commit(); }
template <int N> MX_INLINE void mx_cp_async_wait() { cs_copy_wait(N); }
MX_INLINE f32 mx_load_fresh(const f32 *p) { return *p; }

#else

#define MX_DYN_SHARED(T, name)                                                                                         \
  extern __shared__ __align__(1024) unsigned char mx_dynamic_shared[];                                                  \
  T *name = reinterpret_cast<T *>(mx_dynamic_shared)
#define MX_WATCH(x) ((void)(x))

MX_INLINE void mx_mma_m16n8k16_bf16(float *c, const u32 *a, const u32 *b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap(); /* tensor cores for bfloat16 begin with sm_80 */
#endif
}
MX_INLINE void mx_mma_m16n8k16_f16(float *c, const u32 *a, const u32 *b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap();
#endif
}
MX_INLINE void mx_ldmatrix_x4(u32 *r, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}
MX_INLINE void mx_ldmatrix_x4_trans(u32 *r, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}
MX_INLINE u32 mx_pair_bf16(f32 low, f32 high) {
  u32 pair = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  __trap();
#endif
  return pair;
}
MX_INLINE u32 mx_pair_f16(f32 low, f32 high) {
  u32 pair = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  __trap();
#endif
  return pair;
}
MX_INLINE f32 mx_half_value(u16 bits) {
  f32 value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
MX_INLINE void mx_forget(int &x) { asm volatile("" : "+r"(x)); }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MX_CONVERTS 1 /* mx_pair_bf16 and its kind are instructions */
MX_INLINE f32 mx_max_nan(f32 a, f32 b) {
  f32 c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
MX_INLINE f32 mx_min_nan(f32 a, f32 b) {
  f32 c;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
#else
MX_INLINE f32 mx_max_nan(f32 a, f32 b) { return a != a || a > b ? a : b; }
MX_INLINE f32 mx_min_nan(f32 a, f32 b) { return a != a || a < b ? a : b; }
#endif
MX_INLINE f32 mx_exp2_near(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
MX_INLINE f32 mx_reciprocal_near(f32 x) {
  f32 r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
MX_INLINE f32 mx_quotient(f32 a, f32 b) {
  const f32 r = mx_reciprocal_near(b);
  const f32 q = __fmul_rn(a, r);
  return fmaf(fmaf(-q, b, a), r, q);
}
template <int BYTES> MX_INLINE void mx_cp_async(void *shared, const void *global, int valid = BYTES) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "copies are of 4, 8 or 16 bytes");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const u32 to = (u32)__cvta_generic_to_shared(shared);
  if constexpr (BYTES == 16) /* .cg: past L1, which only this size can */
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(valid) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(BYTES), "r"(valid)
                 : "memory");
#else
  for (int i = 0; i < BYTES; i++) ((char *)shared)[i] = i < valid ? ((const char *)global)[i] : 0;
#endif
}
MX_INLINE void mx_cp_async_commit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N> MX_INLINE void mx_cp_async_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}
MX_INLINE f32 mx_load_fresh(const f32 *p) { return __ldcg(p); }

#endif
