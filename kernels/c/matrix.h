/* matrix.h - the instructions that multiply whole matrices (AMX), and C that does the same where a processor has none.
 *
 *   8 tiles of up to 16 rows of 64 bytes.  Bytes come in fours, bfloat16 in pairs: what meets in one number of the result.
 *
 *        A  16 x 64 bytes          B  16 x 64 bytes                    C  16 x 16 numbers of 4 bytes
 *        row m: k = 0 1 2 3 | ..   row k/4: column 0's k = 0 1 2 3 |   C[m][n] += sum over k of A[m][k] B[k][n]
 *
 * mx_has_tiles() asks the system once a process whether it may use them, as they make what a thread has to keep 8 KiB larger.
 * MX_EMULATED_TILES, 1 or 0, puts C in their place, and is what the system answers: so tests run the same text anywhere.
 */
#ifndef MX_MATRIX_H
#define MX_MATRIX_H
#include "mx_abi.h"

#define TILE_ROWS 16
#define TILE_BYTES 64

typedef struct tile_shapes { /* as ldtilecfg reads it */
  u8 palette, start_row, none[14];
  u16 bytes[16];
  u8 rows[16];
} tile_shapes;

/* Of tiles 0 to 7: C in 0 and 1 of `high` rows and in 2 and 3 of `low` rows, A in 4 and 5, B in 6 and 7. */
static inline tile_shapes shapes_of(i64 high, i64 low) {
  tile_shapes shapes = {.palette = 1};
  for (int t = 0; t < 8; t++) {
    const int second = t == 2 || t == 3 || t == 5;
    shapes.bytes[t] = TILE_BYTES;
    shapes.rows[t] = (u8)(t >= 6 ? TILE_ROWS : second ? (low > 0 ? low : 1) : high);
  }
  return shapes;
}

#if defined(MX_EMULATED_TILES)
#define HAS_TILES
static __thread struct {
  tile_shapes shapes;
  u8 at[8][TILE_ROWS][TILE_BYTES];
} tiles_of;

static inline void tile_configure(const tile_shapes *shapes) {
  tiles_of.shapes = *shapes;
  __builtin_memset(tiles_of.at, 0, sizeof tiles_of.at);
}
static inline void tile_release(void) { __builtin_memset(&tiles_of, 0, sizeof tiles_of); }
static inline void tile_zero(int t) { __builtin_memset(tiles_of.at[t], 0, sizeof tiles_of.at[t]); }
static inline void tile_load(int t, const void *from, i64 stride) {
  for (int r = 0; r < tiles_of.shapes.rows[t]; r++)
    __builtin_memcpy(tiles_of.at[t][r], (const u8 *)from + r * stride, tiles_of.shapes.bytes[t]);
}
static inline void tile_store(int t, void *to, i64 stride) {
  for (int r = 0; r < tiles_of.shapes.rows[t]; r++)
    __builtin_memcpy((u8 *)to + r * stride, tiles_of.at[t][r], tiles_of.shapes.bytes[t]);
}
static inline void emulated_dp(int c, int a, int b, int is_signed) {
  for (int m = 0; m < tiles_of.shapes.rows[c]; m++)
    for (int n = 0; n < 16; n++) {
      u32 sum;
      __builtin_memcpy(&sum, &tiles_of.at[c][m][4 * n], 4);
      for (int k = 0; k < TILE_BYTES; k++) {
        const u8 left = tiles_of.at[a][m][k];
        sum += (u32)((is_signed ? (i8)left : left) * (i8)tiles_of.at[b][k / 4][4 * n + k % 4]);
      }
      __builtin_memcpy(&tiles_of.at[c][m][4 * n], &sum, 4);
    }
}
#define tile_dp_u8_s8(c, a, b) emulated_dp(c, a, b, 0) /* tdpbusd */
#define tile_dp_s8_s8(c, a, b) emulated_dp(c, a, b, 1) /* tdpbssd */
/* tdpbf16ps: the first elements of pairs and the second ones have sums of their own, which are added to C at last.
 * Subnormals are 0, going in and coming out. */
static inline f32 tile_flushed(f32 x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
static inline f32 tile_half(const u8 *p) {
  return tile_flushed(mx_f32_bits((u32)p[0] << 16 | (u32)p[1] << 24));
}
static inline void tile_dp_bf16(int c, int a, int b) {
  for (int m = 0; m < tiles_of.shapes.rows[c]; m++)
    for (int n = 0; n < 16; n++) {
      f32 sums[2] = {0.0f, 0.0f}, sum;
      __builtin_memcpy(&sum, &tiles_of.at[c][m][4 * n], 4);
      for (int k = 0; k < TILE_BYTES / 2; k++)
        sums[k % 2] = tile_flushed(__builtin_fmaf(tile_half(&tiles_of.at[a][m][2 * k]),
                                                  tile_half(&tiles_of.at[b][k / 2][4 * n + k % 2 * 2]), sums[k % 2]));
      sum = tile_flushed(tile_flushed(sum) + tile_flushed(sums[0] + sums[1]));
      __builtin_memcpy(&tiles_of.at[c][m][4 * n], &sum, 4);
    }
}
/* tdpfp16ps: the same of float16, whose subnormals are numbers as others are; no product of them is a small float32. */
#define HAS_F16_TILES
static inline void tile_dp_f16(int c, int a, int b) {
  for (int m = 0; m < tiles_of.shapes.rows[c]; m++)
    for (int n = 0; n < 16; n++) {
      f32 sums[2] = {0.0f, 0.0f}, sum;
      __builtin_memcpy(&sum, &tiles_of.at[c][m][4 * n], 4);
      for (int k = 0; k < TILE_BYTES / 2; k++) {
        u16 left, right;
        __builtin_memcpy(&left, &tiles_of.at[a][m][2 * k], 2);
        __builtin_memcpy(&right, &tiles_of.at[b][k / 2][4 * n + k % 2 * 2], 2);
        sums[k % 2] = __builtin_fmaf(mx_f16_to_f32(left), mx_f16_to_f32(right), sums[k % 2]);
      }
      sum += sums[0] + sums[1];
      __builtin_memcpy(&tiles_of.at[c][m][4 * n], &sum, 4);
    }
}
static inline int mx_has_tiles(void) { return MX_EMULATED_TILES; }

#elif defined(__AMX_TILE__) && defined(__AMX_INT8__) && defined(__AMX_BF16__) && defined(__x86_64__)
#define HAS_TILES
#define tile_configure(shapes) __asm__ volatile("ldtilecfg %0" ::"m"(*(shapes)))
#define tile_release() __asm__ volatile("tilerelease")
#define tile_zero(t) __asm__ volatile("tilezero %%tmm" #t ::: "memory")
#define tile_load(t, from, stride)                                                                                     \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"((const void *)(from)), "r"((i64)(stride)) : "memory")
#define tile_store(t, to, stride)                                                                                      \
  __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"((void *)(to)), "r"((i64)(stride)) : "memory")
#define tile_dp_u8_s8(c, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #c :::)
#define tile_dp_s8_s8(c, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c :::)
#define tile_dp_bf16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c :::)
#ifdef __AMX_FP16__
#define HAS_F16_TILES
#define tile_dp_f16(c, a, b) __asm__ volatile("tdpfp16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c :::)
#endif

static inline int mx_has_tiles(void) {
  static int known; /* 1: no, 2: yes; whoever asks at the same time gets the same answer */
  int found = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (!found) {
    i64 answer = 158;                   /* arch_prctl */
    const i64 wish = 0x1023, data = 18; /* ARCH_REQ_XCOMP_PERM, XTILEDATA */
    __asm__ volatile("syscall" : "+a"(answer) : "D"(wish), "S"(data) : "rcx", "r11", "memory");
    found = answer == 0 ? 2 : 1;
    __atomic_store_n(&known, found, __ATOMIC_RELAXED);
  }
  return found == 2;
}
#endif
#endif
