// The bytes of elements, as those of another dtype; both have BYTES of them.
// @op bitcast(x: T[n]) -> (y: U[m])
// @types T: any; U: any
// @sizes BYTES
// @items BYTES
// @both
((u8 *)y)[i] = ((const u8 *)x)[i];
