/* pieces.h - rows of a left operand that lie in pieces: windows of images, read where they are. */
#ifndef MX_PIECES_H
#define MX_PIECES_H
#include "mx_abi.h"

typedef u8 __attribute__((vector_size(64), aligned(1), may_alias)) mx_b64;
typedef u8 __attribute__((vector_size(32), aligned(1), may_alias)) mx_b32;
typedef u8 __attribute__((vector_size(16), aligned(1), may_alias)) mx_b16;

/* n bytes, in whole vectors of which the last may begin within the one before: pieces are so short that calling memcpy
 * would take longer. */
INL void mx_copy_bytes(char *RS to, const char *RS from, i64 n) {
  if (n >= 64) {
    for (i64 i = 0; i + 64 <= n; i += 64) *(mx_b64 *)(to + i) = *(const mx_b64 *)(from + i);
    if (n % 64) *(mx_b64 *)(to + n - 64) = *(const mx_b64 *)(from + n - 64);
  } else if (n >= 32) {
    *(mx_b32 *)to = *(const mx_b32 *)from;
    *(mx_b32 *)(to + n - 32) = *(const mx_b32 *)(from + n - 32);
  } else if (n >= 16) {
    *(mx_b16 *)to = *(const mx_b16 *)from;
    *(mx_b16 *)(to + n - 16) = *(const mx_b16 *)(from + n - 16);
  } else
    for (i64 i = 0; i < n; i += 2) __builtin_memcpy(to + i, from + i, 2);
}

/* The elements k .. k + count of a row whose pieces of `run` elements, each of `size` bytes, begin at at[0], at[1] ... */
INL void mx_copy_pieces(char *to, const void *const *at, i64 run, i64 k, i64 count, i64 size) {
  i64 piece = k / run, from = k - piece * run;
  while (count > 0) {
    const i64 n = run - from < count ? run - from : count;
    mx_copy_bytes(to, (const char *)at[piece] + from * size, n * size);
    to += n * size, count -= n, from = 0, piece++;
  }
}
#endif
