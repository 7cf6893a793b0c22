/* Products of one kind, of arrays from a file: arm KIND M K N IN OUT.
 *
 * IN has x[m, k] and w[k, n] as float32, whole numbers from -100 to 100; OUT gets y[m, n].  KIND: 0 bfloat16, 1 float16,
 * 2 float32, 3 bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include "mx_abi.h"

static void *room(i64 bytes) {
  void *made = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
  if (!made) exit(2);
  return made;
}

int main(int count, char **words) {
  if (count != 7) return 2;
  const i64 kind = atoll(words[1]), m = atoll(words[2]), k = atoll(words[3]), n = atoll(words[4]);
  const i64 panels = (n + MX_NR - 1) / MX_NR, width = panels * MX_NR;
  f32 *const x = room(4 * m * k), *const w = room(4 * k * n), *const y = room(4 * m * width);
  FILE *const in = fopen(words[5], "rb"), *const out = fopen(words[6], "wb");
  if (!in || !out) return 2;
  if (fread(x, 4, (size_t)(m * k), in) != (size_t)(m * k) || fread(w, 4, (size_t)(k * n), in) != (size_t)(k * n)) return 2;
  i64 step = width;
  if (kind == MX_F32) {
    f32 *const packed = room(4 * mx_pack_b_size(k, n));
    mx_pack_b_f32(packed, w, k, n, n, 1, 0, panels);
    i64 mb, nb;
    mx_gemm_plan(m, n, k, 1, &mb, &nb);
    step = n;
    if (mx_gemm_f32(y, n, x, k, packed, m, n, k, mb, nb, 0, (m + mb - 1) / mb * ((n + nb - 1) / nb), 0, 0, 0, 0)) return 1;
  } else if (kind < MX_F32) {
    u16 *const a = room(2 * m * k), *const b = room(2 * k * n), *const packed = room(2 * mx_half_pack_size(k, n));
    for (i64 i = 0; i < m * k; i++) a[i] = kind == MX_BF16 ? mx_f32_to_bf16(x[i]) : mx_f32_to_f16(x[i]);
    for (i64 i = 0; i < k * n; i++) b[i] = kind == MX_BF16 ? mx_f32_to_bf16(w[i]) : mx_f32_to_f16(w[i]);
    mx_half_pack(kind, packed, b, k, n, n, 1, 0, panels);
    mx_half_block(kind, y, width, a, k, packed, m, n, k, room(mx_half_block_scratch(kind, m)));
  } else {
    i8 *const a = room(m * k), *const b = room(k * n);
    u8 *const q = room(m * mx_int8_step(k)), *const packed = room(mx_int8_pack_size(k, n));
    f32 *const d = room(4 * m), *const one = room(4 * n), *const none = room(4 * n);
    i32 *const z = room(4 * m);
    const f32 given[2] = {1.0f, 0.0f};
    for (i64 i = 0; i < m * k; i++) a[i] = (i8)x[i];
    for (i64 c = 0; c < n; c++) {
      one[c] = 1.0f, none[c] = 0.0f;
      for (i64 r = 0; r < k; r++) b[c * k + r] = (i8)w[r * n + c];
    }
    mx_int8_left(q, d, z, a, MX_SIGNED, k, given, 0, m);
    mx_int8_pack(packed, b, k, n, 0, panels);
    const i64 items = panels * ((m + MX_INT8_ROWS - 1) / MX_INT8_ROWS);
    step = n;
    if (mx_int8_product(y, n, packed, k, q, d, z, m, one, none, 0, 0, items, 0)) return 1;
  }
  for (i64 i = 0; i < m; i++)
    if (fwrite(y + i * step, 4, (size_t)n, out) != (size_t)n) return 2;
  return fclose(out) ? 2 : 0;
}
