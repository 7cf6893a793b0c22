/* products.c - the table of everything a generated kernel may call, reached by ctx->lib.
 *
 * gemm.c, inplace.c, windows.c, winograd.c, taps.c, halves.c, quantized.c, float8.c, int8.c, attention.c and lanes.c are
 * linked with this file into one library; the executor is told of it by mx_use_lib.
 */
#include "mx_abi.h"

static const mx_lib library = {
    MX_VERSION,        mx_gemm_plan,  mx_gemm_scratch,   mx_gemm_f32,          mx_pack_b_size,   mx_pack_b_f32,
    mx_matmul_scratch, mx_matmul_f32, mx_attention_plan, mx_attention_scratch, mx_attention_f32,
    mx_half_pack_size, mx_half_pack,  mx_gemm_runs,      mx_pack_taps,         mx_half_runs,
    mx_q_product,      mx_half_block, mx_half_gemm,      mx_half_matmul,       mx_gemm_windows,
    mx_half_mark,      mx_float8,     mx_gemm_by,        mx_matmul_by,
    mx_matmul_guess,   mx_int8_pack,  mx_int8_left,      mx_int8_product,
    mx_winograd_f32,   mx_lane_scores, mx_lane_weights, mx_lane_sums,
};

const mx_lib *mx_get_lib(void) { return &library; }
