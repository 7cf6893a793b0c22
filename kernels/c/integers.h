// integers.h - arithmetic of integers: sections for generated kernels, see prelude.h.

// @section int_macros needs abi
/* Integer arithmetic wraps and never traps.  Division and remainder round towards minus infinity (remainder has the
 * divisor's sign); x / 0 and x mod 0 are 0; INT_MIN / -1 wraps to INT_MIN.  A negative power of an integer is 0.
 * A shift by a negative count or by the width or more gives 0, or the sign for a right shift of a signed number. */
#define MX_INT_SIGNED(T, U, W)                                                                                         \
  INL T mx_floordiv_##T(T a, T b) {                                                                                    \
    if (b == 0) return 0;                                                                                              \
    if (b == -1) return (T)((U)0 - (U)a);                                                                              \
    T q = (T)(a / b);                                                                                                  \
    return (T)(q - ((a % b != 0) & ((a < 0) != (b < 0))));                                                             \
  }                                                                                                                    \
  INL T mx_mod_##T(T a, T b) {                                                                                         \
    if (b == 0 || b == -1) return 0;                                                                                   \
    T r = (T)(a % b);                                                                                                  \
    return (T)(r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0));                                                       \
  }                                                                                                                    \
  INL T mx_pow_##T(T a, T n) {                                                                                         \
    u64 r = 1, x = (u64)(i64)a;                                                                                        \
    if (n < 0) return 0;                                                                                               \
    for (U k = (U)n; k; k = (U)(k >> 1), x *= x) r *= (k & 1) ? x : 1;                                                 \
    return (T)r;                                                                                                       \
  }                                                                                                                    \
  INL T mx_abs_##T(T a) { return (T)(a < 0 ? (U)0 - (U)a : (U)a); }                                                    \
  INL T mx_shl_##T(T a, i64 n) { return (u64)n < W ? (T)((u64)(i64)a << ((u64)n & 63)) : (T)0; }                       \
  INL T mx_shr_##T(T a, i64 n) { return (T)(a >> ((u64)n < W ? n : W - 1)); }
#define MX_INT_UNSIGNED(T, W)                                                                                          \
  INL T mx_floordiv_##T(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }                                               \
  INL T mx_mod_##T(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }                                                    \
  INL T mx_pow_##T(T a, T n) {                                                                                         \
    u64 r = 1, x = a;                                                                                                  \
    for (T k = n; k; k = (T)(k >> 1), x *= x) r *= (k & 1) ? x : 1;                                                    \
    return (T)r;                                                                                                       \
  }                                                                                                                    \
  INL T mx_abs_##T(T a) { return a; }                                                                                  \
  INL T mx_shl_##T(T a, i64 n) { return (u64)n < W ? (T)((u64)a << ((u64)n & 63)) : (T)0; }                            \
  INL T mx_shr_##T(T a, i64 n) { return (u64)n < W ? (T)(a >> ((u64)n & (W - 1))) : (T)0; }
// @end

// @section int_i8 needs int_macros
INL i8 mx_floordiv_i8(i8, i8);
INL i8 mx_mod_i8(i8, i8);
INL i8 mx_pow_i8(i8, i8);
INL i8 mx_abs_i8(i8);
INL i8 mx_shl_i8(i8, i64);
INL i8 mx_shr_i8(i8, i64);
MX_INT_SIGNED(i8, u8, 8)
// @end

// @section int_i16 needs int_macros
INL i16 mx_floordiv_i16(i16, i16);
INL i16 mx_mod_i16(i16, i16);
INL i16 mx_pow_i16(i16, i16);
INL i16 mx_abs_i16(i16);
INL i16 mx_shl_i16(i16, i64);
INL i16 mx_shr_i16(i16, i64);
MX_INT_SIGNED(i16, u16, 16)
// @end

// @section int_i32 needs int_macros
INL i32 mx_floordiv_i32(i32, i32);
INL i32 mx_mod_i32(i32, i32);
INL i32 mx_pow_i32(i32, i32);
INL i32 mx_abs_i32(i32);
INL i32 mx_shl_i32(i32, i64);
INL i32 mx_shr_i32(i32, i64);
MX_INT_SIGNED(i32, u32, 32)
// @end

// @section int_i64 needs int_macros
INL i64 mx_floordiv_i64(i64, i64);
INL i64 mx_mod_i64(i64, i64);
INL i64 mx_pow_i64(i64, i64);
INL i64 mx_abs_i64(i64);
INL i64 mx_shl_i64(i64, i64);
INL i64 mx_shr_i64(i64, i64);
MX_INT_SIGNED(i64, u64, 64)
// @end

// @section int_u8 needs int_macros
INL u8 mx_floordiv_u8(u8, u8);
INL u8 mx_mod_u8(u8, u8);
INL u8 mx_pow_u8(u8, u8);
INL u8 mx_abs_u8(u8);
INL u8 mx_shl_u8(u8, i64);
INL u8 mx_shr_u8(u8, i64);
MX_INT_UNSIGNED(u8, 8)
// @end

// @section int_u16 needs int_macros
INL u16 mx_floordiv_u16(u16, u16);
INL u16 mx_mod_u16(u16, u16);
INL u16 mx_pow_u16(u16, u16);
INL u16 mx_abs_u16(u16);
INL u16 mx_shl_u16(u16, i64);
INL u16 mx_shr_u16(u16, i64);
MX_INT_UNSIGNED(u16, 16)
// @end

// @section int_u32 needs int_macros
INL u32 mx_floordiv_u32(u32, u32);
INL u32 mx_mod_u32(u32, u32);
INL u32 mx_pow_u32(u32, u32);
INL u32 mx_abs_u32(u32);
INL u32 mx_shl_u32(u32, i64);
INL u32 mx_shr_u32(u32, i64);
MX_INT_UNSIGNED(u32, 32)
// @end

// @section int_u64 needs int_macros
INL u64 mx_floordiv_u64(u64, u64);
INL u64 mx_mod_u64(u64, u64);
INL u64 mx_pow_u64(u64, u64);
INL u64 mx_abs_u64(u64);
INL u64 mx_shl_u64(u64, i64);
INL u64 mx_shr_u64(u64, i64);
MX_INT_UNSIGNED(u64, 64)
// @end
