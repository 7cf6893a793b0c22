/* product_wgmma.cuh - the product of product_mma.cuh on the tensor cores of sm_90, four warps at a time.
 *
 *   template <class CFG, class T>      CFG an mx_wgmma_tile below, T mx_bf16 or mx_f16, the same for A and B
 *   mx_product_wgmma(shared, left, a_row, a_col, right, b_row, b_col, items, m, n, k, finish, memory)
 *
 * Arguments as for mx_product_mma, but `shared` is aligned to 1024.  Needs code for sm_90a.
 *
 * These tensor cores read both operands from shared memory, by a description of how they lie there, and work on their
 * own until they are waited for.  Panels have 64 of k and are what product_mma.cuh copies: rows of 128 bytes whose
 * 16-byte chunks are permuted within eight rows, which is the order that the description calls a swizzle of 128 bytes.
 *
 *     deep (k contiguous)   row = m or n, 64 of k
 *     flat                  row = k, 64 of m or n; one such panel behind the other
 *
 * Four warps make 64 rows of the tile and all of its columns.  While they multiply one panel the next are under way:
 * the copies go STAGES - 2 panels ahead, for a panel is only free when all warps have waited for its product.
 */
#pragma once

template <int BM_, int BN_, int STAGES_> struct mx_wgmma_tile {
  static constexpr int BM = BM_, BN = BN_, BK = 64, STAGES = STAGES_;
  static constexpr int THREADS = BM / 64 * 128, BLOCKS = mx_blocks(THREADS, BN > 128 ? 255 : 128);
  static constexpr int PANELS = 2 * (BM + BN) * BK * STAGES, SUMS = BM * (BN + 8) * 4, PARTS = SUMS > PANELS ? 2 : 1;
  static constexpr int SHARED = PANELS > SUMS / PARTS ? PANELS : SUMS / PARTS;
  static_assert(BM % 64 == 0 && BN % 64 == 0 && STAGES >= 3, "whole warpgroups, a stage that is read and one that is not");
};
typedef mx_wgmma_tile<128, 256, 4> mx_wgmma_128x256;
typedef mx_wgmma_tile<128, 128, 4> mx_wgmma_128x128;
typedef mx_wgmma_tile<64, 128, 4> mx_wgmma_64x128;

/* c += a b for 64 rows and BN columns, all 16-bit elements of T at 16 of k, number `step` in a panel.  DEEP says how a
 * panel lies in shared memory.  Lane 4 g + t of warp w has c[4 j], c[4 j + 1] at row 16 w + g, columns 8 j + 2 t and the
 * next, and c[4 j + 2], c[4 j + 3] eight rows below. */
template <class T, int N> struct mx_wgmma;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MX_WGMMA(...) asm volatile(__VA_ARGS__)
#else
#define MX_WGMMA(...) __trap() /* only this architecture has the instructions */
#endif
#if defined(__CUDASIM__)
MX_INLINE f32 mx_wgmma_element(const u16 *panel, bool deep, int outer, int depth, f32 (*value)(u16)) {
  return value(deep ? panel[mx_chunk<8>(outer, depth / 8) + depth % 8]
                    : panel[outer / 64 * 4096 + mx_chunk<8>(depth, outer % 64 / 8) + outer % 8]);
}
template <class T, int N, bool DEEP_A, bool DEEP_B>
MX_INLINE void mx_wgmma_add(f32 *c, const u16 *a, const u16 *b, int step) {
  const int lane = (int)threadIdx.x & 31, row = (int)threadIdx.x / 32 % 4 * 16 + lane / 4;
  for (int e = 0; e < N / 2; e++) {
    const int r = row + e / 2 % 2 * 8, q = e / 4 * 8 + lane % 4 * 2 + e % 2;
    for (int k = step * 16; k < step * 16 + 16; k++)
      c[e] += mx_wgmma_element(a, DEEP_A, r, k, mx_element<T>::value) *
              mx_wgmma_element(b, DEEP_B, q, k, mx_element<T>::value);
  }
}
MX_INLINE void mx_wgmma_fence() {}
MX_INLINE void mx_wgmma_commit() {}
template <int LEFT> MX_INLINE void mx_wgmma_wait() {}
MX_INLINE void mx_fence_async() {}
#else
template <> struct mx_wgmma<mx_bf16, 128> {
  template <int TA, int TB> MX_INLINE void add(f32 *c, u64 a, u64 b) {
    MX_WGMMA(
      "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
      "%59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, %66, %67; }"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]),
        "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]),
        "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]),
        "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
        "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]),
        "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]),
        "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]),
        "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
      : "l"(a), "l"(b), "n"(TA), "n"(TB));
  }
};
template <> struct mx_wgmma<mx_f16, 128> {
  template <int TA, int TB> MX_INLINE void add(f32 *c, u64 a, u64 b) {
    MX_WGMMA(
      "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
      "%59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, %66, %67; }"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]),
        "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]),
        "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]),
        "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
        "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]),
        "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]),
        "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]),
        "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
      : "l"(a), "l"(b), "n"(TA), "n"(TB));
  }
};
template <> struct mx_wgmma<mx_bf16, 256> {
  template <int TA, int TB> MX_INLINE void add(f32 *c, u64 a, u64 b) {
    MX_WGMMA(
      "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
      "%59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, "
      "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, "
      "%97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, "
      "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, p, 1, 1, %130, %131; }"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]),
        "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]),
        "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]),
        "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
        "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]),
        "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]),
        "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]),
        "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]),
        "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]),
        "+f"(c[71]), "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]),
        "+f"(c[78]), "+f"(c[79]), "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]),
        "+f"(c[85]), "+f"(c[86]), "+f"(c[87]), "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]),
        "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]), "+f"(c[96]), "+f"(c[97]), "+f"(c[98]),
        "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]), "+f"(c[104]), "+f"(c[105]),
        "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]), "+f"(c[112]),
        "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]),
        "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]),
        "+f"(c[127])
      : "l"(a), "l"(b), "n"(TA), "n"(TB));
  }
};
template <> struct mx_wgmma<mx_f16, 256> {
  template <int TA, int TB> MX_INLINE void add(f32 *c, u64 a, u64 b) {
    MX_WGMMA(
      "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
      "%59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, "
      "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, "
      "%97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, "
      "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, p, 1, 1, %130, %131; }"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]),
        "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]),
        "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]),
        "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
        "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]),
        "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]),
        "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]),
        "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]),
        "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]),
        "+f"(c[71]), "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]),
        "+f"(c[78]), "+f"(c[79]), "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]),
        "+f"(c[85]), "+f"(c[86]), "+f"(c[87]), "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]),
        "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]), "+f"(c[96]), "+f"(c[97]), "+f"(c[98]),
        "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]), "+f"(c[104]), "+f"(c[105]),
        "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]), "+f"(c[112]),
        "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]),
        "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]),
        "+f"(c[127])
      : "l"(a), "l"(b), "n"(TA), "n"(TB));
  }
};
/* The description of a panel from `p` on: rows of 128 bytes, eight of them together, `apart` bytes from one panel of 64
 * places to the next where k is not contiguous. */
MX_INLINE u64 mx_wgmma_panel(const u16 *p, int apart) {
  const u64 address = (u32)__cvta_generic_to_shared(p) >> 4 & 0x3fff;
  return address | (u64)(apart / 16) << 16 | (u64)(1024 / 16) << 32 | 1ull << 62;
}
template <class T, int N, bool DEEP_A, bool DEEP_B>
MX_INLINE void mx_wgmma_add(f32 *c, const u16 *a, const u16 *b, int step) {
  /* 16 of k are 32 bytes of every row, or 16 rows */
  const u64 left = mx_wgmma_panel(a, DEEP_A ? 16 : 8192) + (DEEP_A ? 2 : 128) * step;
  const u64 right = mx_wgmma_panel(b, DEEP_B ? 16 : 8192) + (DEEP_B ? 2 : 128) * step;
  mx_wgmma<T, N>::template add<!DEEP_A, !DEEP_B>(c, left, right);
}
MX_INLINE void mx_wgmma_fence() { MX_WGMMA("wgmma.fence.sync.aligned;" ::: "memory"); }
MX_INLINE void mx_wgmma_commit() { MX_WGMMA("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> MX_INLINE void mx_wgmma_wait() {
  MX_WGMMA("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
MX_INLINE void mx_fence_async() { MX_WGMMA("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif

template <class CFG, class T, bool DEEP_A, bool DEEP_B, class A, class B>
MX_INLINE void mx_wgmma_sums(f32 (&c)[CFG::BN / 2], u16 *panels, A &a, B &b, i64 begin, i64 end) {
  constexpr int STAGE = (CFG::BM + CFG::BN) * CFG::BK, AHEAD = CFG::STAGES - 2, OF_A = CFG::BM * CFG::BK;
  const int group = (int)threadIdx.x / 128;
  i64 fetched = begin;
  int next = 0, now = 0;
  const auto fetch = [&]() {
    if (fetched < end) {
      const int depths = (int)mx_least(end - fetched, CFG::BK);
      a.copy(panels + next * STAGE, depths);
      b.copy(panels + next * STAGE + OF_A, depths);
    }
    mx_cp_async_commit();
    fetched += CFG::BK;
    next = next + 1 == CFG::STAGES ? 0 : next + 1;
  };
  MX_UNROLL
  for (int step = 0; step < AHEAD; step++) fetch();
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (i64 done = begin; done < end; done += CFG::BK) {
    mx_cp_async_wait<AHEAD - 1>();
    mx_fence_async(); /* what this thread has copied is seen by the tensor cores */
    __syncthreads();  /* this panel is there for all, and the one before the last has been multiplied by all */
    fetch();
    const u16 *const panel = panels + now * STAGE;
    now = now + 1 == CFG::STAGES ? 0 : now + 1;
    mx_wgmma_fence();
    MX_UNROLL
    for (int step = 0; step < CFG::BK / 16; step++)
      mx_wgmma_add<T, CFG::BN, DEEP_A, DEEP_B>(c, panel + group * 64 * CFG::BK, panel + OF_A, step);
    mx_wgmma_commit();
    mx_wgmma_wait<1>();
  }
  mx_wgmma_wait<0>();
  mx_cp_async_wait<0>();
}

template <class CFG, class T, class LEFT, class RIGHT, class FINISH>
MX_INLINE void mx_product_wgmma(void *shared, LEFT left, i64 a_row, i64 a_col, RIGHT right, i64 b_row, i64 b_col,
                                i64 items, i64 m, i64 n, i64 k, FINISH finish, unsigned char *memory = nullptr) {
  typedef mx_mma_panel<CFG::BM, CFG::BK, CFG::THREADS, true> A;
  typedef mx_mma_panel<CFG::BN, CFG::BK, CFG::THREADS, true> B;
  constexpr int ROWS = CFG::BM / CFG::PARTS, LD = CFG::BN + 8;
  u16 *const panels = reinterpret_cast<u16 *>(shared);
  const int warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
  const i64 rows = mx_ceil_div(m, CFG::BM), columns = mx_ceil_div(n, CFG::BN), tiles = items * rows * columns;
  const mx_split split(memory);
  i64 begin, end;
  split.range(k, CFG::BK, &begin, &end);
  for (i64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    i64 item, row, column;
    mx_tile_place(t, rows, columns, &item, &row, &column);
    row *= CFG::BM;
    column *= CFG::BN;
    A a(left(item), a_row, a_col, row, m, begin);
    B b(right(item), b_col, b_row, column, n, begin);
    f32 c[CFG::BN / 2];
    MX_UNROLL
    for (int e = 0; e < CFG::BN / 2; e++) c[e] = 0.0f;
    if (a.deep && b.deep)
      mx_wgmma_sums<CFG, T, true, true>(c, panels, a, b, begin, end);
    else if (a.deep)
      mx_wgmma_sums<CFG, T, true, false>(c, panels, a, b, begin, end);
    else if (b.deep)
      mx_wgmma_sums<CFG, T, false, true>(c, panels, a, b, begin, end);
    else
      mx_wgmma_sums<CFG, T, false, false>(c, panels, a, b, begin, end);
    f32 *const sums = reinterpret_cast<f32 *>(shared);
    mx_finish_tile<CFG, LD, 1>(
        sums, split, t, tiles, row, column, m, n,
        [&](int part) {
          const int r = warp * 16 + lane / 4 - part * ROWS;
          if (r >= 0 && r < ROWS) {
            MX_UNROLL
            for (int e = 0; e < CFG::BN / 2; e += 2)
              *reinterpret_cast<float2 *>(sums + (r + e / 2 % 2 * 8) * LD + e / 4 * 8 + lane % 4 * 2) =
                  make_float2(c[e], c[e + 1]);
          }
        },
        [&](i64 r, i64 q, f32 value) { finish(item, r, q, value); });
    __syncthreads(); /* before the next tile's copies */
  }
}
