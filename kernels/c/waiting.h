/* waiting.h - the part of executor.c in which threads wait: a pause loop, then a sleep in the kernel (futex). */
#ifndef MX_WAITING_H
#define MX_WAITING_H
#include "team.h"

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

/* Some nanoseconds from now, on the clock that waiting functions of pthreads read. */
static inline struct timespec in_future(i64 ns) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  ns += t.tv_nsec;
  return (struct timespec){t.tv_sec + ns / 1000000000, ns % 1000000000};
}

#define FOREVER (-1)
#ifdef __linux__
static void sleep_while_equal(u32 *word, u32 value, i64 at_most_ns) {
  struct timespec t = {at_most_ns / 1000000000, at_most_ns % 1000000000};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, at_most_ns == FOREVER ? NULL : &t, NULL, 0);
}
static void wake_all(u32 *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0); }
#else /* one condition for every word: rare, and waiters look again anyway */
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_cond = PTHREAD_COND_INITIALIZER;
static void sleep_while_equal(u32 *word, u32 value, i64 at_most_ns) {
  struct timespec t = in_future(at_most_ns == FOREVER ? 0 : at_most_ns);
  int late = 0;
  pthread_mutex_lock(&sleep_lock);
  while (LOAD(*word) == value && !late)
    late = at_most_ns == FOREVER ? pthread_cond_wait(&sleep_cond, &sleep_lock)
                                 : pthread_cond_timedwait(&sleep_cond, &sleep_lock, &t);
  pthread_mutex_unlock(&sleep_lock);
}
static void wake_all(u32 *word) {
  (void)word;
  pthread_mutex_lock(&sleep_lock);
  pthread_cond_broadcast(&sleep_cond);
  pthread_mutex_unlock(&sleep_lock);
}
#endif

/* Sleeping and waking cannot miss each other: the sleeper announces itself, then the kernel compares the word again;
 * the waker changes the word, then looks for announced sleepers (both orders sequentially consistent). */
static void announce_and_sleep(u32 *word, u32 value, u32 *sleepers, i64 at_most_ns) {
  __atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
  sleep_while_equal(word, value, at_most_ns);
  __atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
}
static void wake_sleepers(u32 *word, u32 *sleepers) {
  if (__atomic_load_n(sleepers, __ATOMIC_SEQ_CST)) wake_all(word);
}
#endif
