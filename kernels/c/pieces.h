/* pieces.h - rows of a left operand that lie in pieces: windows of images, read where they are. */
#ifndef MX_PIECES_H
#define MX_PIECES_H
#include "mx_abi.h"

/* The elements k .. k + count of a row whose pieces of `run` elements, each of `size` bytes, begin at at[0], at[1] ... */
INL void mx_copy_pieces(char *to, const void *const *at, i64 run, i64 k, i64 count, i64 size) {
  i64 piece = k / run, from = k - piece * run;
  while (count > 0) {
    const i64 n = run - from < count ? run - from : count;
    __builtin_memcpy(to, (const char *)at[piece] + from * size, (u64)(n * size));
    to += n * size, count -= n, from = 0, piece++;
  }
}
#endif
