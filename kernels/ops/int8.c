// Products of bytes with transposed matrices w[n, k] of signed bytes: y = act((q - z) d w^T scales + bias).
//
// The bytes q of a left row are STEP apart; (q - z) d is what they stand for. KIND, ACTIVATION and ROWS are
// the numbers of kernels/c/mx_abi.h, where the library that the CPU calls is described. On a GPU bytes are
// signed, that is q - 128 and z - 128, as __dp4a multiplies them.

// @op matmul_int8(x: T[m, k], w: int8[n, k], scales: float32[n], bias: float32[n], given: float32[r])
//   -> (y: float32[m, n])
// @types T: float32 | uint8 | int8
// @params KIND: int; ACTIVATION: int; GIVEN: bool; ROWS: int; PANEL: int; TILE: int
// @sizes STEP
// @part left
// @items m
// @work 4 * k
// @c
ctx->lib->int8_left(q, d, z, x, KIND, k, GIVEN ? given : 0, i, hi);
i = hi - 1;
// @part pack
// @items (n + PANEL - 1) // PANEL
// @work PANEL * k
// @c
ctx->lib->int8_pack(packed, w, k, n, i, hi);
i = hi - 1;
// @part product
// @items ((n + PANEL - 1) // PANEL) * ((m + ROWS - 1) // ROWS)
// @work ROWS * k
// @c
if (ctx->lib->int8_product(y, n, packed, k, q, d, z, m, scales, bias, ACTIVATION, i, hi, ctx))
  return MX_STOPPED;
i = hi - 1;
// @part left_gpu
// @items m
// @work k
// @cuda block threads=128
mx_int8_left(q + i * STEP, d + i, z + i, x + i * k, k, STEP, GIVEN ? given : nullptr);
// @part product_gpu
// @items ((n + TILE - 1) // TILE) * ((m + TILE - 1) // TILE)
// @work k
// @cuda block threads=256
mx_int8_tile<ACTIVATION>(y, n, q, STEP, d, z, m, w, k, scales, bias, i);
