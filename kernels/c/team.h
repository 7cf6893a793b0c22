/* team.h - the part of executor.c that says what a team is: its threads, the counters of steps, the run in flight. */
#ifndef MX_TEAM_H
#define MX_TEAM_H
#include "mx_abi.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#define MAX_THREADS 1024

#define LOAD(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define LOAD_RELAXED(p) __atomic_load_n(&(p), __ATOMIC_RELAXED)
#define STORE(p, v) __atomic_store_n(&(p), (v), __ATOMIC_RELEASE)
#define STORE_RELAXED(p, v) __atomic_store_n(&(p), (v), __ATOMIC_RELAXED)

typedef struct step_state { /* 16 bytes; executor.c says how they are used */
  u64 ticket;
  u32 left;
  u32 sleepers;
} step_state;

typedef struct state_block { /* the states of all steps; old blocks are kept until the team is freed (late readers) */
  struct state_block *older;
  i64 capacity;
  step_state st[];
} state_block;

typedef struct worker { /* a cache line or more per thread: its context is written while it runs */
  mx_ctx ctx;
  i64 scratch_capacity;
  mx_team *team;
  pthread_t thread;
  u32 seen; /* the generation that it does not wait for */
} __attribute__((aligned(128))) worker;

struct mx_team {
  i64 size;               /* threads, the caller included */
  i64 turns;              /* of the pause loop, before a thread sleeps */
  i64 started;            /* worker threads that exist in this process */
  i64 owner;              /* the process they were started in, as `forks` counts, or REPAIRING */
  pthread_mutex_t lock;   /* one execute at a time */
  u64 holder;             /* the thread that has the lock, 0: none */
  i64 ask_at;             /* when it asks next whether to go on; 0: it has not asked yet */

  /* the execute in flight; written under the lock, read by workers with atomics */
  u32 generation __attribute__((aligned(64))); /* idle workers sleep on this word */
  u32 sleepers;
  u32 stop;
  u32 failed;             /* 0, or 1 + the step that returned an error */
  u32 ended;              /* whether the execute in flight is to end at once */
  i64 current;            /* a hint: where a late worker may start */
  i64 nsteps;
  state_block *block;
  const mx_step *steps;
  void **argp;
  const i64 *dims;
  i64 *rows;              /* mx_times.threads, or NULL */
  i64 stride;             /* steps in a row of `rows`: a segment of a program has fewer of its own */
  i64 error[6];
  worker w[];
};
#endif
