// @alone
/* assembled.c - kernels made of the parts of others, for the time until their own code is there.
 *
 * Thousands of different kernels of one loop are made of some dozen different parts: an addition, a product and a sum
 * of one, a tanh.  Each part is a kernel by itself, compiled once.  An assembled kernel is a list of parts; it takes
 * some elements at a time through all of them, and what a part gives to later ones lies on the stack:
 *
 *     y = tanh(2 x) / x        elements    0..255        256..511
 *                              part 0      t0 = 2 x      t0 = 2 x
 *                              part 1      t1 = tanh t0  t1 = tanh t0
 *                              part 2      y  = t1 / x   y  = t1 / x
 *
 * An executor knows a kernel by the address of a function.  So there are as many functions as there may be lists: each
 * is two instructions, which say its number to mx_assembled.
 *
 * A list is i64s: the number of parts; of each part its function and its number of pointers; of each pointer its kind, a
 * value and the bytes of an element.  Kinds are: 0, the value is an address (of a constant); 1, it is the number of a
 * pointer of the kernel; 2, of a place on the stack. */
#define MX_TILE 256   /* elements at a time */
#define MX_PLACES 8   /* on the stack */
#define MX_POINTERS 16 /* of a part */

const i64 *mx_assembled_lists[MX_LISTS];

__attribute__((used, visibility("hidden")))
int mx_assembled(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx, i64 number) {
  _Alignas(64) char places[MX_PLACES][MX_TILE * 8];
  const i64 *list = mx_assembled_lists[number];
  for (i64 at = lo; at < hi; at += MX_TILE) {
    const i64 end = hi - at < MX_TILE ? hi : at + MX_TILE, *p = list;
    for (i64 left = *p++; left > 0; left--) {
      void *given[MX_POINTERS];
      const mx_fn part = (mx_fn)p[0];
      const i64 count = p[1];
      p += 2;
      for (i64 n = 0; n < count; n++, p += 3) {
        if (p[0] == 1) given[n] = b[p[1]];
        else given[n] = (void *)(p[0] ? (u64)places[p[1]] - (u64)(at * p[2]) : (u64)p[1]); /* parts count from 0 */
      }
      const int code = part(given, d, at, end, ctx);
      if (code) return code;
    }
  }
  return 0;
}

/* The sixth argument of a function is in r9. */
__asm__(
    ".text\n"
    ".balign 16\n"
    ".globl mx_assembled_first\n"
    "mx_assembled_first:\n"
    ".set mx_number, 0\n"
    ".rept " MX_TEXT(MX_LISTS) "\n"
    ".balign 16\n"
    "movl $mx_number, %r9d\n"
    "jmp mx_assembled\n"
    ".set mx_number, mx_number + 1\n"
    ".endr\n");
