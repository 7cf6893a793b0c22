/* cudasim.h - the CUDA language for a C++ compiler: `g++ -x c++ -std=c++17 -include cudasim.h kernel.cu`.
 *
 * The same text that nvcc compiles for a GPU becomes code for this machine. A CUDA thread runs on a fiber, a stack with
 * a saved stack pointer; a thread that has to wait - at a barrier, for the other lanes of its warp - switches to one
 * that can go on, which costs a few nanoseconds. All threads of a block run on one OS thread, blocks run in parallel:
 *
 *     block 0 (OS thread A)   t0 ----.  t1 ---.  t2 ---.      .- t0 --  t1 --  t2 --
 *                                    `--------'-------' barrier
 *     block 1 (OS thread B)   ...
 *
 * Here are the words of the language and the intrinsics, `sim/types.h` has vector types and narrow floats,
 * `sim/math.h` the math, `mx_device.cuh` the functions with a PTX body on the device. The scheduler is
 * `sim/runtime.cpp`, the checker of memory accesses `sim/check.cpp`. What is missing: README.md.
 */
#pragma once
#define __CUDASIM__ 1

#include "sim/interface.h"
#include "sim/types.h"
#include "sim/math.h"

/* ------------------------------------------------------------- words */

#define __global__ __attribute__((noinline)) /* one copy, called by its entry point below */
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
/* One copy for each OS thread, hence for each running block. */
#define __shared__ static thread_local

#define threadIdx (cs_now->thread)
#define blockIdx (cs_now->block)
#define blockDim (cs_now->block_dim)
#define gridDim (cs_now->grid_dim)
#define warpSize 32
#define printf cs_printf
#define assert(x) ((x) ? (void)0 : cs_trap("assertion failed: " #x))

typedef decltype(sizeof 0) size_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long int64_t; /* as the C library has it on 64-bit Linux, where nvcc takes it from */
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned uint;

CS_INLINE void __trap() { cs_trap("__trap()"); }

/* ------------------------------------------------------------- barriers and fences */

CS_INLINE void __syncthreads() { cs_syncthreads(); }
CS_INLINE int __syncthreads_count(int p) { return cs_syncthreads_fold(CS_COUNT, p); }
CS_INLINE int __syncthreads_and(int p) { return cs_syncthreads_fold(CS_AND, p); }
CS_INLINE int __syncthreads_or(int p) { return cs_syncthreads_fold(CS_OR, p); }
CS_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { cs_syncwarp(mask); }
CS_INLINE void __threadfence() { cs_fence(); }
CS_INLINE void __threadfence_block() { cs_fence(); }
CS_INLINE void __threadfence_system() { cs_fence(); }
CS_INLINE void __nanosleep(unsigned) { cs_yield(); }

/* ------------------------------------------------------------- shuffles and votes */

template <class T> CS_INLINE T cs_shuffled(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = cs_shuffle(mask, bits, source);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
/* A warp in segments of `width` lanes; a source beyond the segment means the lane's own value. */
template <class T> CS_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return cs_shuffled(mask, value, (cs_now->lane & ~(unsigned)(width - 1)) | ((unsigned)source & (unsigned)(width - 1)));
}
template <class T> CS_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  unsigned lane = cs_now->lane, at = lane & (unsigned)(width - 1);
  return cs_shuffled(mask, value, delta <= at ? lane - delta : lane);
}
template <class T> CS_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  unsigned lane = cs_now->lane, at = lane & (unsigned)(width - 1);
  return cs_shuffled(mask, value, at + delta < (unsigned)width ? lane + delta : lane);
}
template <class T> CS_INLINE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  unsigned lane = cs_now->lane, to = lane ^ (unsigned)lanes; /* earlier segments can be read, later ones not */
  return cs_shuffled(mask, value, to < (lane & ~(unsigned)(width - 1)) + (unsigned)width ? to : lane);
}
CS_INLINE unsigned __ballot_sync(unsigned mask, int p) { return cs_vote(mask, CS_BALLOT, p); }
CS_INLINE int __any_sync(unsigned mask, int p) { return (int)cs_vote(mask, CS_ANY, p); }
CS_INLINE int __all_sync(unsigned mask, int p) { return (int)cs_vote(mask, CS_ALL, p); }
CS_INLINE unsigned __activemask() { return cs_activemask(); }
template <class T> CS_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a match compares 4 or 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return cs_match(mask, bits);
}
CS_INLINE int __reduce_add_sync(unsigned mask, int v) { return (int)cs_fold(mask, CS_ADD, (unsigned)v); }
CS_INLINE unsigned __reduce_add_sync(unsigned mask, unsigned v) { return cs_fold(mask, CS_ADD, v); }
CS_INLINE int __reduce_min_sync(unsigned mask, int v) { return (int)cs_fold(mask, CS_MIN_S, (unsigned)v); }
CS_INLINE unsigned __reduce_min_sync(unsigned mask, unsigned v) { return cs_fold(mask, CS_MIN_U, v); }
CS_INLINE int __reduce_max_sync(unsigned mask, int v) { return (int)cs_fold(mask, CS_MAX_S, (unsigned)v); }
CS_INLINE unsigned __reduce_max_sync(unsigned mask, unsigned v) { return cs_fold(mask, CS_MAX_U, v); }
CS_INLINE unsigned __reduce_and_sync(unsigned mask, unsigned v) { return cs_fold(mask, CS_BIT_AND, v); }
CS_INLINE unsigned __reduce_or_sync(unsigned mask, unsigned v) { return cs_fold(mask, CS_BIT_OR, v); }
CS_INLINE unsigned __reduce_xor_sync(unsigned mask, unsigned v) { return cs_fold(mask, CS_BIT_XOR, v); }

/* ------------------------------------------------------------- memory */

template <class T> CS_INLINE T __ldg(const T *p) { return *p; }
template <class T> CS_INLINE T __ldcg(const T *p) { return *p; }
template <class T> CS_INLINE T __ldcs(const T *p) { return *p; }
template <class T> CS_INLINE void __stcg(T *p, T v) { *p = v; }
template <class T> CS_INLINE void __stcs(T *p, T v) { *p = v; }

/* Atomics for exactly the types that a device has them for; each returns the old value. Relaxed, as on the device. */
typedef unsigned long long cs_u64;
#define CS_ATOMIC(name, T, how)                                                                                        \
  CS_INLINE T name(T *p, T v) { return how(p, v, __ATOMIC_RELAXED); }
#define CS_ATOMICS(name, how)                                                                                          \
  CS_ATOMIC(name, int, how) CS_ATOMIC(name, unsigned, how) CS_ATOMIC(name, cs_u64, how)
CS_ATOMICS(atomicAdd, __atomic_fetch_add)
CS_ATOMIC(atomicSub, int, __atomic_fetch_sub)
CS_ATOMIC(atomicSub, unsigned, __atomic_fetch_sub)
CS_ATOMICS(atomicAnd, __atomic_fetch_and)
CS_ATOMICS(atomicOr, __atomic_fetch_or)
CS_ATOMICS(atomicXor, __atomic_fetch_xor)
CS_ATOMICS(atomicExch, __atomic_exchange_n)
#undef CS_ATOMICS
#undef CS_ATOMIC

/* The others by compare and swap of the same number of bits. */
template <class Bits, class T, class F> CS_INLINE T cs_atomic_update(T *p, F f) {
  Bits *q = (Bits *)p, old = __atomic_load_n(q, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(q, &old, cs_bits<Bits>((T)f(cs_bits<T>(old))), true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  return cs_bits<T>(old);
}
#define CS_ATOMIC(name, T, Bits, expression)                                                                           \
  CS_INLINE T name(T *p, T v) {                                                                                        \
    return cs_atomic_update<Bits>(p, [v](T old) { return expression; });                                               \
  }
CS_ATOMIC(atomicAdd, float, unsigned, old + v)
CS_ATOMIC(atomicAdd, double, cs_u64, old + v)
CS_ATOMIC(atomicExch, float, unsigned, ((void)old, v))
#define CS_ATOMICS(T, Bits)                                                                                            \
  CS_ATOMIC(atomicMin, T, Bits, v < old ? v : old)                                                                     \
  CS_ATOMIC(atomicMax, T, Bits, old < v ? v : old)
CS_ATOMICS(int, unsigned)
CS_ATOMICS(unsigned, unsigned)
CS_ATOMICS(long long, cs_u64)
CS_ATOMICS(cs_u64, cs_u64)
CS_ATOMIC(atomicInc, unsigned, unsigned, old >= v ? 0u : old + 1u)
CS_ATOMIC(atomicDec, unsigned, unsigned, old == 0u || old > v ? v : old - 1u)
#undef CS_ATOMICS
#undef CS_ATOMIC
template <class T> CS_INLINE T cs_compare_and_swap(T *p, T expected, T desired) {
  if (!__atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    cs_yield(); /* the thread that holds the lock may be one of this block */
  return expected;
}
CS_INLINE int atomicCAS(int *p, int expected, int v) { return cs_compare_and_swap(p, expected, v); }
CS_INLINE unsigned atomicCAS(unsigned *p, unsigned expected, unsigned v) { return cs_compare_and_swap(p, expected, v); }
CS_INLINE cs_u64 atomicCAS(cs_u64 *p, cs_u64 expected, cs_u64 v) { return cs_compare_and_swap(p, expected, v); }
CS_INLINE unsigned short atomicCAS(unsigned short *p, unsigned short expected, unsigned short v) {
  return cs_compare_and_swap(p, expected, v);
}

/* ------------------------------------------------------------- clocks */

CS_INLINE long long clock64() {
#if defined(__x86_64__)
  return (long long)__builtin_ia32_rdtsc();
#else
  long long t;
  asm volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
#endif
}
CS_INLINE int clock() { return (int)clock64(); }

/* ------------------------------------------------------------- entry points */

namespace cs {
template <unsigned... I> struct Indices {};
template <unsigned N, unsigned... I> struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I> struct Count<0, I...> {
  typedef Indices<I...> type;
};
template <class... A, unsigned... I> CS_INLINE void call(void (*kernel)(A...), void **args, Indices<I...>) {
  kernel(*(A *)args[I]...);
}
template <class... A> CS_INLINE void call(void (*kernel)(A...), void **args) {
  call(kernel, args, typename Count<sizeof...(A)>::type());
}
} // namespace cs

#include "mx_device.cuh"

/* One for each kernel, added behind the text: arguments arrive as an array of pointers to them, as cuLaunchKernel has
 * it. The anchor tells where this OS thread's copies of the __shared__ variables are. */
#define CS_KERNEL(K)                                                                                                   \
  extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) void cs_run_##K(void **args) {              \
    cs::call(K, args);                                                                                                 \
  }
#define CS_MODULE                                                                                                      \
  extern "C" __attribute__((visibility("default"))) char *cs_shared_anchor(void) {                                     \
    static thread_local char cs_anchor_mark;                                                                           \
    return &cs_anchor_mark;                                                                                            \
  }
