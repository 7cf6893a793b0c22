/* mx_wgmma.cuh - tensor cores of Hopper (sm_90a): four warps multiply, one operand in shared memory.  Each function has
 * two bodies, as those of mx_device.cuh.
 *
 *   mx_wgmma<T, N, TURNED>(c, a, b, at, panel, clear)
 *                         c[64 x N] += a[64 x 16] b[16 x N], or = where `clear` says so, by 128 threads, whose first is
 *                         a multiple of 128.  Warp w has rows 16 w ... of c and a, in the fragments of mma.m16n8k16:
 *                         c[n] is the one of columns 8 n ... 8 n + 7.  N is 64 or 128
 *
 *     b lies in rows of 128 bytes, chunk c of 16 bytes of row r at c ^ (r & 7), rows from a multiple of 1024 bytes on:
 *     TURNED    row = column of b, its elements along k; `at` says which 16 of its 64 elements
 *     otherwise row = row of b, 64 columns, the next 64 `panel` elements on; `at` says which 16 rows
 *
 *   mx_wgmma_begin()      before the first of some products: what registers and shared memory hold is there for them
 *   mx_wgmma_end()        behind the last of them
 *   mx_wgmma_wait(c)      all products are made; c can be read and written
 *   mx_async_fence()      what this thread, or its asynchronous copies that have been waited for, wrote to shared
 *                         memory is there for products behind the next barrier
 *
 * From begin to wait, registers of c and a belong to the products.  The simulator multiplies at once.
 */
#pragma once

#if defined(__CUDASIM__)

template <class T> struct mx_wgmma_kind;
template <> struct mx_wgmma_kind<mx_bf16> {
  static constexpr int kind = CS_BF16;
};
template <> struct mx_wgmma_kind<mx_f16> {
  static constexpr int kind = CS_F16;
};
template <class T, int N, bool TURNED>
MX_INLINE void mx_wgmma(f32 (&c)[N / 8][4], const u32 *a, const u16 *b, int at, int panel, bool clear) {
  const int lane = (int)threadIdx.x & 31, tile = lane / 8, line = lane % 8;
  for (int n = 0; n < N / 16; n++) {
    u32 x[4];
    if (TURNED) {
      const int row = n * 16 + tile / 2 * 8 + line;
      mx_ldmatrix_x4(x, b + row * 64 + ((at * 2 + tile % 2) ^ (row & 7)) * 8);
    } else {
      const int row = at * 16 + tile % 2 * 8 + line;
      mx_ldmatrix_x4_trans(x, b + n / 4 * panel + row * 64 + ((n % 4 * 2 + tile / 2) ^ (row & 7)) * 8);
    }
    for (int i = 0; i < 2; i++) {
      f32 *const sums = c[2 * n + i];
      if (clear) sums[0] = sums[1] = sums[2] = sums[3] = 0.0f;
      cs_mma_m16n8k16(mx_wgmma_kind<T>::kind, sums, a, x + 2 * i);
    }
  }
}
MX_INLINE void mx_wgmma_begin() {}
MX_INLINE void mx_wgmma_end() {}
template <int COUNT> MX_INLINE void mx_wgmma_wait(f32 (&)[COUNT][4]) {}
MX_INLINE void mx_async_fence() {}

#else

template <class T> struct mx_is_bf16 {
  static constexpr bool value = false;
};
template <> struct mx_is_bf16<mx_bf16> {
  static constexpr bool value = true;
};
/* Where an operand is, as wgmma wants to be told: 16 bytes are the unit, `swizzle` 1 is the one of 128 bytes. */
MX_INLINE u64 mx_wgmma_place(const u16 *b, u32 offset, u32 leading, u32 stride) {
  const u32 address = (u32)__cvta_generic_to_shared(b) + offset;
  return (u64)((address & 0x3ffffu) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | 1ull << 62;
}
#define MX_WGMMA_4(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define MX_WGMMA_32(n)                                                                                                 \
  MX_WGMMA_4(n), MX_WGMMA_4(n + 1), MX_WGMMA_4(n + 2), MX_WGMMA_4(n + 3), MX_WGMMA_4(n + 4), MX_WGMMA_4(n + 5),        \
      MX_WGMMA_4(n + 6), MX_WGMMA_4(n + 7)
#define MX_WGMMA_TEXT_64                                                                                               \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"  \
  "%30,%31}, {%32,%33,%34,%35}, %36, more, 1, 1, %38;}"
#define MX_WGMMA_TEXT_128                                                                                              \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"  \
  "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"      \
  "%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, more, 1, 1, %70;}"
#define MX_WGMMA(KIND, N, MORE, ...)                                                                                   \
  asm volatile("{.reg .pred more; setp.ne.b32 more, %" MORE ", 0; wgmma.mma_async.sync.aligned.m64n" #N                \
               "k16.f32." KIND "." KIND " " MX_WGMMA_TEXT_##N                                                          \
               : __VA_ARGS__                                                                                           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(place), "r"(more), "n"(TURNED ? 0 : 1))
template <class T, int N, bool TURNED>
MX_INLINE void mx_wgmma(f32 (&c)[N / 8][4], const u32 *a, const u16 *b, int at, int panel, bool clear) {
  static_assert(N == 64 || N == 128, "64 or 128 columns");
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr bool bf16 = mx_is_bf16<T>::value;
  const int more = clear ? 0 : 1;
  const u64 place = TURNED ? mx_wgmma_place(b, (u32)at * 32u, 16u, 1024u)
                           : mx_wgmma_place(b, (u32)at * 2048u, 2u * (u32)panel, 1024u);
  if constexpr (N == 64 && bf16)
    MX_WGMMA("bf16", 64, "37", MX_WGMMA_32(0));
  else if constexpr (N == 64)
    MX_WGMMA("f16", 64, "37", MX_WGMMA_32(0));
  else if constexpr (bf16)
    MX_WGMMA("bf16", 128, "69", MX_WGMMA_32(0), MX_WGMMA_32(8));
  else
    MX_WGMMA("f16", 128, "69", MX_WGMMA_32(0), MX_WGMMA_32(8));
#else
  __trap(); /* only Hopper has these */
#endif
}
MX_INLINE void mx_wgmma_begin() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
MX_INLINE void mx_wgmma_end() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int COUNT> MX_INLINE void mx_wgmma_wait(f32 (&c)[COUNT][4]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  MX_UNROLL
  for (int i = 0; i < COUNT * 4; i++) asm volatile("" : "+f"(c[i / 4][i % 4])::"memory"); /* not to be read before */
#endif
}
MX_INLINE void mx_async_fence() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#endif
