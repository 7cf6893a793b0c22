// maxlab-flags: -O2
/* mapped.c - files mapped into memory, and what happens when they are no longer what was mapped.
 *
 * A page of a mapped file is read from the disk when something touches it.  When the file has become shorter, or the disk
 * fails, there is nothing to read: the system sends SIGBUS to the thread, and the process ends.  Here a handler answers
 * the signal instead.  It puts zeros where the page was, writes down that the file has lost it, and the thread goes on:
 *
 *      thread reads page 7  --SIGBUS-->  handle: lost = page 7; pages 7.. become zeros  -->  thread reads zeros
 *
 * So locks that the thread holds are given back as usual, and steps cost nothing more: no thread has to prepare for a
 * fault.  The zeros are wrong, and every execute says so: its result has the bit MX_LOST for as long as any file of the
 * process has lost a page and is still mapped.  The caller looks whether it has used that file.
 *
 * Only registered ranges are ever changed.  A fault anywhere else, and a signal that was sent, goes on to the handler that
 * was there before, or ends the process as it would have.
 *
 * What a handler may call is little: this one calls mmap and sigaction, and takes no lock.  Ranges stand in a list whose
 * entries are never freed, only used again, so it can be walked at any time.
 *
 * A watch is a look at files that a model uses: whether their size or time of change differ from what was mapped.  It asks
 * the system every MX_WATCH_NS and a coarse clock in between.
 */
#define _DEFAULT_SOURCE
#include "mx_abi.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FEW_FAULTS 16
#define LOAD(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n(&(p), (v), __ATOMIC_RELEASE)

struct mx_mapped {
  u64 begin, end;         /* its addresses; end 0: not in use, 1: being filled in */
  i64 fd, size, mtime_ns; /* what was mapped; mtime_ns -1: not looked at, for who writes through the mapping */
  i64 writable;
  i64 lost;               /* 0, or 1 + the offset of the first byte that could not be read */
  i64 changed;            /* whether a look has found another size or time; for good */
  u32 faults;
  struct mx_mapped *next;
};

static mx_mapped *files;
i64 mx_lost_files;

/* ---- the handler -------------------------------------------------------------------------------------------------- */

static struct sigaction first_before, before; /* what SIGBUS did at first, and what it did when we came last */
static u64 passing; /* the address of the fault that is being passed on; a process that has one is about to end */
static u32 passed;  /* how often */

/* Puts zeros where the page of `address` was; 0 when it is in none of the ranges. */
static int put_zeros(u64 address) {
  for (mx_mapped *m = LOAD(files); m; m = m->next) {
    u64 end = LOAD(m->end), begin = LOAD(m->begin);
    if (address < begin || address >= end) continue;
    u64 page = (u64)sysconf(_SC_PAGESIZE), from = address & ~(page - 1), to = end;
    /* What comes behind is most likely gone too.  A file that loses pages here and there is given up as a whole, so that
     * neither faults nor pieces of memory are without end.  What was written through a mapping stays. */
    u32 faults = __atomic_fetch_add(&m->faults, 1, __ATOMIC_RELAXED);
    if (m->writable)
      to = from + page;
    else if (faults >= FEW_FAULTS)
      from = begin;
    i64 none = 0; /* first, so that nobody reads a zero and finds no word of it */
    if (__atomic_compare_exchange_n(&m->lost, &none, (i64)(address - begin) + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      __atomic_fetch_add(&mx_lost_files, 1, __ATOMIC_SEQ_CST);
    int protection = PROT_READ | (m->writable ? PROT_WRITE : 0);
    return mmap((void *)from, to - from, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return 0;
}

static void handle(int number, siginfo_t *info, void *context);

/* Does what would have happened without us.  Handlers may hand a fault round in a circle, as each of them knows the one
 * that it found: the second time it goes to who was there at first, and then it ends the process. */
static void pass_on(int number, siginfo_t *info, void *context) {
  int real = info->si_code > 0;
  u64 address = real ? (u64)info->si_addr | 1 : 0;
  if (real && passing != address) {
    passing = address;
    passed = 0;
  }
  u32 turn = passing ? passed++ : 0;
  const struct sigaction *to = turn ? &first_before : &before;
  int is_ours = to->sa_flags & SA_SIGINFO && to->sa_sigaction == handle;
  int is_function = !is_ours && to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN;
  if (turn < 2 && is_function) {
    if (to->sa_flags & SA_SIGINFO)
      to->sa_sigaction(number, info, context);
    else
      to->sa_handler(number);
    return;
  }
  if (!real && to->sa_handler == SIG_IGN) return;
  struct sigaction ends = {.sa_handler = SIG_DFL};
  sigaction(SIGBUS, &ends, NULL); /* a fault happens again, and is fatal */
  if (!real) raise(SIGBUS);
}

static void handle(int number, siginfo_t *info, void *context) {
  int saved = errno;
  int of_memory = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR;
  if (!of_memory || !put_zeros((u64)info->si_addr)) pass_on(number, info, context);
  errno = saved;
}

/* Has SIGBUS come to us; again, when another handler was set since. */
static void install(void) {
  struct sigaction now;
  if (sigaction(SIGBUS, NULL, &now) || (now.sa_flags & SA_SIGINFO && now.sa_sigaction == handle)) return;
  static int known;
  if (!__atomic_exchange_n(&known, 1, __ATOMIC_ACQ_REL)) first_before = now;
  before = now;
  struct sigaction own = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&own.sa_mask);
  sigaction(SIGBUS, &own, NULL);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

mx_mapped *mx_mapped_new(const void *begin, i64 bytes, i64 fd, i64 size, i64 mtime_ns, i64 writable) {
  mx_mapped *m = LOAD(files);
  for (; m; m = m->next) {
    u64 unused = 0;
    if (__atomic_compare_exchange_n(&m->end, &unused, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) break;
  }
  int is_new = !m;
  if (is_new && !(m = calloc(1, sizeof *m))) return NULL;
  m->fd = fd;
  m->size = size;
  m->mtime_ns = mtime_ns;
  m->writable = writable;
  m->lost = m->changed = 0;
  m->faults = 0;
  u64 page = (u64)sysconf(_SC_PAGESIZE);
  STORE(m->begin, (u64)begin);
  STORE(m->end, ((u64)begin + (u64)bytes + page - 1) & ~(page - 1));
  if (is_new) {
    m->next = LOAD(files);
    while (!__atomic_compare_exchange_n(&files, &m->next, m, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
  }
  install();
  return m;
}

void mx_mapped_free(mx_mapped *m) {
  if (LOAD(m->lost)) __atomic_fetch_sub(&mx_lost_files, 1, __ATOMIC_SEQ_CST);
  STORE(m->end, 0);
}

i64 mx_mapped_lost(mx_mapped *m) { return LOAD(m->lost); }

static i64 mtime_of(const struct stat *s) {
#ifdef __APPLE__
  return (i64)s->st_mtimespec.tv_sec * 1000000000 + s->st_mtimespec.tv_nsec;
#else
  return (i64)s->st_mtim.tv_sec * 1000000000 + s->st_mtim.tv_nsec;
#endif
}

int mx_mapped_whole(mx_mapped *m) {
  struct stat now;
  if (LOAD(m->changed) || LOAD(m->lost)) return 0;
  int same = !fstat((int)m->fd, &now) && now.st_size == m->size && (m->mtime_ns < 0 || mtime_of(&now) == m->mtime_ns);
  if (!same) STORE(m->changed, 1);
  return same;
}

/* ---- watches ------------------------------------------------------------------------------------------------------ */

static i64 coarse_now_ns(void) {
#ifdef CLOCK_MONOTONIC_COARSE
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
#else
  return mx_now_ns();
#endif
}

int mx_look(mx_watch *w) {
  if (LOAD(w->bad)) return 1;
  i64 now = coarse_now_ns();
  if (now < LOAD(w->due_ns)) return 0;
  install();
  i64 bad = 0;
  for (i64 i = 0; i < w->n; i++) bad |= !mx_mapped_whole(w->files[i]);
  STORE(w->due_ns, now + MX_WATCH_NS);
  if (bad) STORE(w->bad, 1);
  return bad != 0;
}
