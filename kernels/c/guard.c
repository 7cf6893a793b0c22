/* guard.c - runs one kernel of a user in a process of its own, which may end with it.
 *
 * The process that wants the kernel run (maxlab/engine/guard.py) and the one that runs it (maxlab/toolchain/guarded.py) share a
 * file without a name.  Each argument is a *room* in it, some whole pages.  mx_guard_place lays the rooms out, with a zone of
 * addresses that nobody may touch in front of each and behind the last one:
 *
 *      | zone | room 0 | zone | room 1 | zone |
 *
 * The room of an operand that the kernel only reads cannot be written at all.  A kernel that leaves its rooms is ended by a
 * signal.  What the signal was, and at which address, is written into the shared file first.
 */
#define _GNU_SOURCE
#include "mx_abi.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __linux__
#include <ucontext.h>
#endif

#define FAR 65536 /* how far below the pointer of the stack an access may be that belongs to the stack */

static mx_death *death;     /* where a signal writes down what it was */
static const char *bottom;  /* an address of the stack: what the kernel has of it lies below */

/* The pointer of the stack when the signal came, and whether memory was read or written; 0 where that is not known. */
static const char *stack_of(const void *context, i64 *access) {
#if defined(__linux__) && defined(__x86_64__)
  const ucontext_t *at = context;
  *access = at->uc_mcontext.gregs[REG_ERR] & 2 ? MX_WROTE : MX_READ;
  return (const char *)at->uc_mcontext.gregs[REG_RSP];
#elif defined(__linux__) && defined(__aarch64__)
  const ucontext_t *at = context;
  (void)access;
  return (const char *)at->uc_mcontext.sp;
#else
  (void)context, (void)access;
  return 0;
#endif
}

static void on_signal(int number, siginfo_t *info, void *context) {
  i64 access = 0;
  const char *stack = stack_of(context, &access), *address = info->si_addr;
  int of_memory = (number == SIGSEGV || number == SIGBUS) && info->si_code > 0;
#ifdef SI_KERNEL
  of_memory &= info->si_code != SI_KERNEL; /* an address that no memory can have: the processor does not say which */
#endif
  death->signal = number;
  if (of_memory) {
    death->known = 1;
    death->address = (i64)(uintptr_t)address;
    death->access = access;
    death->stack = stack && address < bottom && (uintptr_t)address + FAR >= (uintptr_t)stack;
  }
  signal(number, SIG_DFL);
  raise(number); /* ends the process as it would have ended without this function */
}

i64 mx_guard_place(int file, const i64 *rooms, i64 count, i64 zone, i64 *at) {
  i64 total = zone;
  for (i64 n = 0; n < count; n++) total += rooms[3 * n + 1] + zone;
  char *base = mmap(NULL, (size_t)total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return -errno;
  char *next = base + zone;
  for (i64 n = 0; n < count; n++) {
    const i64 *room = rooms + 3 * n;
    int may = room[2] ? PROT_READ | PROT_WRITE : PROT_READ;
    if (mmap(next, (size_t)room[1], may, MAP_SHARED | MAP_FIXED, file, (off_t)room[0]) == MAP_FAILED) {
      int why = errno;
      munmap(base, (size_t)total);
      return -why;
    }
    at[n] = (i64)(uintptr_t)next;
    next += room[1] + zone;
  }
  at[count] = (i64)(uintptr_t)base;
  return total;
}

void mx_guard_leave(i64 base, i64 total) { munmap((void *)(uintptr_t)base, (size_t)total); }

int mx_guarded(mx_fn fn, void *const *b, const i64 *d, i64 extent, i64 grain, i64 threads, void *scratch, i64 *err,
               mx_death *said) {
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  static char spare[1 << 16]; /* a stack for the function above: the kernel may have used up its own */
  const stack_t other = {.ss_sp = spare, .ss_size = sizeof spare};
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  char here;
  death = said;
  bottom = &here;
  sigaltstack(&other, NULL);
  for (unsigned n = 0; n < sizeof numbers / sizeof *numbers; n++) sigaction(numbers[n], &action, NULL);
  mx_ctx ctx = {.scratch = scratch, .nthreads = threads};
  i64 chunk = threads > 1 && grain >= 1 && grain < extent ? grain : extent; /* as a team cuts them, one after another */
  int code = 0;
  for (i64 lo = 0; !code && lo < extent; lo += chunk) {
    i64 hi = extent - lo < chunk ? extent : lo + chunk;
    code = fn(b, d, lo, hi, &ctx);
  }
  memcpy(err, ctx.err, sizeof ctx.err);
  fflush(NULL); /* what the kernel has printed is not lost with a later one */
  return code;
}
