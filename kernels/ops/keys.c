// The keys and records by which elements are put in order.
//
// Every element becomes an unsigned *key* of its own width whose order is that of the elements: -0
// and 0 are one key, every NaN is the largest. Keys are inverted where the largest comes first,
// DOWN. A *record* is a key above an index; no two are equal, so ties stand by index. The names here
// want an op with the operand x of the type T, and the parameter DOWN.

// @macro Key = u64 if bits(T) == 64 else u32
// @macro Record = u128 if bits(T) == 64 else u64
// @macro LOW = 64 if bits(T) == 64 else 32
// @macro Bits = u8 if bits(T) == 8 else u16 if bits(T) == 16 else u32 if bits(T) == 32 else u64
// @macro ALL = 0xffu if bits(T) == 8 else 0xffffu if bits(T) == 16 else
//   0xffffffffu if bits(T) == 32 else 0xffffffffffffffffull
// @macro SIGN = 0x80u if bits(T) == 8 else 0x8000u if bits(T) == 16 else
//   0x80000000u if bits(T) == 32 else 0x8000000000000000ull
// @macro REST = 0x7fffu if bits(T) == 16 else 0x7fffffffu if bits(T) == 32 else
//   0x7fffffffffffffffull
// The largest number that is not NaN, as bits.
// @macro INFINITE = 0x7c00u if T == float16 else 0x7f80u if T == bfloat16 else
//   0x7f800000u if T == float32 else 0x7ff0000000000000ull
// @macro raw(E) = mx_bits_f32(E) if T == float32 else E if T != float64 else
//   (u64)__double_as_longlong(E) if gpu else mx_bits_f64(E)
// @macro ordered(KEY) = KEY ^ ALL if DOWN else KEY
// @macro record(KEY, INDEX) = ((Record)KEY << LOW | (u64)INDEX)

// The key of the element AT, as a constant NAME.
// @macro declare_key(NAME, AT)
// @if is_float(T)
const Key NAME##_u = raw(x[AT]), NAME##_a = NAME##_u & REST;
const Key NAME = ordered((NAME##_a > INFINITE ? ALL
                          : NAME##_u & SIGN   ? SIGN - NAME##_a
                                              : SIGN + NAME##_a));
// @elif is_signed(T)
const Key NAME = ordered(((Key)(Bits)x[AT] ^ SIGN));
// @else
const Key NAME = ordered((Key)x[AT]);
// @endif
