// maxlab-flags: -O2
/* executor.c - runs a compiled program: a table of steps, walked by a small team of threads.
 *
 * A program is a list of kernel launches in order.  Every launch has a parallel axis of `extent` items, cut into chunks
 * of `grain` items.  The thread that calls mx_execute is thread 0; N-1 workers sleep until there is something to share.
 * Then all threads walk the same table side by side:
 *
 *          step 0         step 1 (one chunk)      step 2
 *   T0  [chunk 0][1][2] . [ the chunk ]           [0][1][2] .
 *   T1  [chunk 3][4]    .  waits      .           [3][4]    .        . = all chunks of the step are done
 *
 * Nobody assigns work: a thread *claims* the next chunk of the current step, runs it, and counts it as done.  Half of the
 * threads begin with the first chunk, the others in the middle, and where one half is done they go on with the other: so a
 * thread finds in its own cache what it wrote a step before, or read a run before.  When no chunk is left to claim it waits
 * for the counter of finished chunks to reach zero and goes on to the next step.  So a step is a barrier, but one that never
 * waits for a thread that holds no chunk: a worker that the system has put aside, or that has not woken up yet, costs
 * nothing but its help.
 *
 * The two counters of a step
 *   ticket = (generation << 32) | chunks of the second half not yet claimed << 16 | those of the first half.  A claim is a
 *            compare-and-swap that takes one away.  Every execute has a new generation number, so a worker that comes back
 *            late from an earlier execute cannot claim: its number is old.  This is what lets mx_execute return without
 *            waiting for idle workers.
 *   left   = chunks not yet finished.  Zero means the step is complete; waiters sleep on this word (futex).
 * Only a thread that holds a claim may touch the caller's tables, and mx_execute cannot return while one is held.
 *
 * Waiting is some turns of a pause loop, then a sleep in the kernel.  20000 turns (half a millisecond or less) cover the
 * gap between two steps or two executes.  Whoever sleeps must be woken: where a machine is a guest of another one that
 * takes a millisecond, in which the others have done its share, and it goes to sleep again; so a convolution of 1.3 ms
 * took 2.4 with a tenth of the turns.  Teams with more threads than there are processors get that tenth: their threads
 * wait for others that wait for a processor.
 *
 * If no step has more than one chunk (a small model), or the team is one thread, the table is simply walked by the
 * caller: one uncontended lock, no wake-ups.
 *
 * A step of the kind MX_ON_CALLER has one chunk that only thread 0 runs: a call of Python, whose lock it may hold.
 *
 * Errors: the first chunk that returns nonzero records itself, takes all unclaimed chunks of its step away, and the
 * walk ends after that step.
 *
 * Ending early: Ctrl-C and other signals reach Python only when its main thread looks for them.  So thread 0 asks Python
 * (mx_interrupts) ten times a second: between steps, between the pieces of a step, in kernels that call mx_stop, while it
 * waits for a chunk of another thread and while it waits for the team.  What Python does then is what it does between two
 * lines of a program: a handler that returns lets the run go on, and one that raises ends it.  `ended` tells the other
 * threads; all chunks that are still to come then return MX_STOPPED, and so do kernels that ask.
 *
 * Times, for who asks: every thread stamps where its first chunk of a step begins and its last one ends.  Between them it
 * only claims, so that is when it was busy; what is missing to the end of the step is waiting.  Each thread writes rows of
 * its own, while it holds a claim: mx_execute has not returned.  A step ends with its last chunk, whoever ran that, and
 * the next one begins there: thread 0 may be put aside while workers are steps ahead, so its own clock would be wrong.
 * The clock is read once or twice per chunk, and never when nobody asks.
 */
#include "steps.h"

#define SPIN_TURNS 20000
#define FEW_TURNS 2000
#define STEPS_UNASKED 32 /* a step of one piece takes up to some milliseconds */
#define REPAIRING (-1)

/* What kernels get as ctx->lib.  The products stand in a library of their own (products.c), which is compiled and loaded
 * only when a graph has some: a small graph does not wait for the matrix code. */
static const mx_lib *library;
void mx_use_lib(const mx_lib *lib) { STORE(library, lib); }

i64 mx_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- workers ------------------------------------------------------------------------------------------------------ */

static void *worker_main(void *arg) {
  worker *me = arg;
  mx_team *t = me->team;
  u32 seen = me->seen;
  for (;;) {
    u32 g = LOAD(t->generation);
    for (i64 turn = 0; g == seen && turn < t->turns; turn++) {
      relax();
      g = LOAD(t->generation);
    }
    while (g == seen) {
      announce_and_sleep(&t->generation, seen, &t->sleepers, FOREVER);
      g = LOAD(t->generation);
    }
    if (LOAD(t->stop)) return NULL;
    seen = g;
    /* These may already belong to a later execute.  That is harmless: its tickets carry another generation, and the
     * walk stays inside the block it holds. */
    state_block *block = LOAD(t->block);
    i64 n = LOAD(t->nsteps), s = LOAD(t->current);
    if (n > block->capacity) n = block->capacity;
    for (; s < n && LOAD(t->generation) == g && !LOAD(t->failed); s++) share_step(t, block, s, g, me);
  }
}

static void start_workers(mx_team *t) {
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS); /* a fault of the thread itself: blocked, it would end the process whoever handles it */
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGFPE);
  sigdelset(&all, SIGILL);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the host program's threads */
  while (t->started < t->size - 1) {
    worker *w = &t->w[t->started + 1];
    w->seen = t->generation; /* that of an execute before, or of a rest: the one that starts it is the next */
    if (pthread_create(&w->thread, NULL, worker_main, w)) break; /* fewer threads: slower, still right */
    t->started++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* How often this process is the child of a fork() since the library was loaded: what its number would say, for which each
 * execute would ask the system. */
static i64 forks;
static void count_fork(void) { STORE(forks, forks + 1); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

/* fork() copies the team but not its threads, and perhaps a lock that another thread of the parent held.  The first thread of
 * the child that uses the team makes it new, any other waits for it. */
static void check_process(mx_team *t) {
  i64 self = LOAD(forks), owner = LOAD(t->owner);
  while (owner != self) {
    if (owner == REPAIRING ||
        !__atomic_compare_exchange_n(&t->owner, &owner, REPAIRING, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      relax();
      owner = LOAD(t->owner);
      continue;
    }
    pthread_mutex_init(&t->lock, NULL);
    t->started = 0;
    t->sleepers = 0;
    t->stop = 0;
    t->holder = 0;
    if (t->block) memset(t->block->st, 0, (size_t)t->block->capacity * sizeof(step_state));
    STORE(t->owner, self);
    return;
  }
}

/* How many this process may run on. */
static i64 processors(void) {
#ifdef __linux__
  u64 mask[MAX_THREADS / 64]; /* the call itself: the function of the C library is hidden behind a macro */
  long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  i64 found = 0;
  for (long i = 0; i < bytes / (long)sizeof *mask; i++) found += __builtin_popcountll(mask[i]);
  if (found) return found;
#endif
  return sysconf(_SC_NPROCESSORS_ONLN);
}

mx_team *mx_team_new(i64 nthreads) {
  if (nthreads < 1) nthreads = 1;
  if (nthreads > MAX_THREADS) nthreads = MAX_THREADS;
  void *memory;
  size_t bytes = sizeof(mx_team) + (size_t)nthreads * sizeof(worker);
  if (posix_memalign(&memory, 128, bytes)) return NULL;
  memset(memory, 0, bytes);
  mx_team *t = memory;
  t->size = nthreads;
  t->turns = nthreads <= processors() ? SPIN_TURNS : FEW_TURNS;
  t->owner = LOAD(forks);
  pthread_mutex_init(&t->lock, NULL);
  for (i64 i = 0; i < nthreads; i++) {
    t->w[i].ctx.lib = LOAD(library);
    t->w[i].ctx.nthreads = nthreads;
    t->w[i].ctx.ask = ask;
    t->w[i].team = t;
  }
  return t; /* threads start with the first execute that can use them */
}

void mx_team_rest(mx_team *t) {
  check_process(t);
  STORE(t->stop, 1);
  pthread_mutex_lock(&t->lock); /* an execute in another thread ends first */
  __atomic_fetch_add(&t->generation, 1, __ATOMIC_SEQ_CST);
  wake_all(&t->generation);
  for (i64 i = 1; i <= t->started; i++) pthread_join(t->w[i].thread, NULL);
  t->started = 0;
  STORE(t->stop, 0);
  pthread_mutex_unlock(&t->lock);
}

void mx_team_free(mx_team *t) {
  if (!t) return;
  mx_team_rest(t);
  for (i64 i = 0; i < t->size; i++) mx_free(t->w[i].ctx.scratch);
  for (state_block *b = t->block; b;) {
    state_block *older = b->older;
    free(b);
    b = older;
  }
  pthread_mutex_destroy(&t->lock);
  free(t);
}

i64 mx_team_size(mx_team *t) { return t->size; }

/* ---- execute ------------------------------------------------------------------------------------------------------ */

static int grow_scratch(mx_team *t, i64 threads, i64 bytes) {
  for (i64 i = 0; i < threads; i++) {
    worker *w = &t->w[i];
    if (w->scratch_capacity >= bytes) continue;
    i64 size = (bytes + 4095) / 4096 * 4096;
    void *p = mx_alloc(size);
    if (!p) return MX_ERR_MEMORY;
    mx_free(w->ctx.scratch);
    w->ctx.scratch = p;
    w->scratch_capacity = size;
  }
  return MX_OK;
}

static int grow_states(mx_team *t, i64 nsteps) {
  if (t->block && t->block->capacity >= nsteps) return MX_OK;
  i64 capacity = nsteps < 64 ? 64 : nsteps * 2;
  state_block *b = calloc(1, sizeof *b + (size_t)capacity * sizeof(step_state));
  if (!b) return MX_ERR_MEMORY;
  b->capacity = capacity;
  b->older = t->block;
  STORE(t->block, b);
  return MX_OK;
}

/* Writes the times of a complete step: it lasts from `*now`, the end of the one before, to the end of its last chunk. */
static void stamp(mx_team *t, const mx_times *times, i64 step, i64 *now) {
  i64 end = *now;
  if (times->threads) {
    for (i64 i = 0; i < t->size; i++) {
      i64 last = row_of(t, &t->w[i], times->threads, t->stride, step)[1];
      if (last > end) end = last;
    }
  } else {
    end = mx_now_ns();
  }
  times->steps[2 * step] = *now;
  times->steps[2 * step + 1] = *now = end;
}

static int run_alone(mx_team *t, const mx_step *steps, i64 nsteps, void **argp, const i64 *dims,
                     const mx_times *times) {
  mx_ctx *ctx = &t->w[0].ctx;
  i64 now = times ? mx_now_ns() : 0;
  for (i64 s = 0; s < nsteps; s++) {
    const mx_step *p = &steps[s];
    int code = 0;
    if (s % STEPS_UNASKED == STEPS_UNASKED - 1 && ask(ctx)) code = MX_STOPPED;
    else if (p->extent > 0) code = run_items(p, argp, dims, 0, p->extent, ctx);
    if (times) {
      if (times->threads && p->extent > 0) {
        i64 *row = row_of(t, &t->w[0], times->threads, t->stride, s);
        row[0] = now;
        row[1] = mx_now_ns();
        row[2] = 1;
      }
      stamp(t, times, s, &now);
    }
    if (code) {
      record_error(t, s, code, ctx);
      return MX_ERR_STEP;
    }
  }
  return MX_OK;
}

static int run_together(mx_team *t, const mx_step *steps, i64 nsteps, void **argp, const i64 *dims,
                        const mx_times *times) {
  if (t->started < t->size - 1) start_workers(t);
  if (grow_states(t, nsteps)) return MX_ERR_MEMORY;
  u32 g = t->generation + 1;
  if (g == 0) g = 1;
  for (i64 s = 0; s < nsteps; s++) {
    int mine = steps[s].kind == MX_ON_CALLER;
    u32 chunks = mine ? steps[s].extent > 0 : (u32)chunk_count(&steps[s]);
    STORE_RELAXED(t->block->st[s].left, chunks);
    STORE(t->block->st[s].ticket, ticket_of(g, mine ? 0 : chunks));
  }
  STORE_RELAXED(t->steps, steps);
  STORE_RELAXED(t->argp, argp);
  STORE_RELAXED(t->dims, dims);
  STORE_RELAXED(t->rows, times ? times->threads : NULL);
  STORE_RELAXED(t->current, 0);
  STORE(t->nsteps, nsteps);
  i64 now = times ? mx_now_ns() : 0; /* before any worker can begin */
  __atomic_store_n(&t->generation, g, __ATOMIC_SEQ_CST);
  wake_sleepers(&t->generation, &t->sleepers);

  /* Thread 0 completes every step it enters, and ends after the step that failed, not before it: a worker may already be
   * ahead and fail there while others still run chunks. */
  for (i64 s = 0; s < nsteps && (s == 0 || LOAD(t->failed) != (u32)s); s++) {
    STORE_RELAXED(t->current, s);
    if (s % STEPS_UNASKED == STEPS_UNASKED - 1) ask(&t->w[0].ctx);
    if (steps[s].kind == MX_ON_CALLER)
      run_on_caller(t, s);
    else
      share_step(t, t->block, s, g, &t->w[0]);
    if (times) stamp(t, times, s, &now);
  }
  if (!LOAD(t->failed)) return MX_OK;
  /* Void the steps that did not run: a worker that is late in noticing `failed` must find nothing to claim.  One that is
   * later still, of an execute before, may sleep until such a step is complete, for it saw the old ticket and then the new
   * number of chunks: it is woken. */
  for (i64 s = t->error[0] + 1; s < nsteps; s++) {
    step_state *state = &t->block->st[s];
    STORE(state->ticket, (u64)g << 32);
    __atomic_store_n(&state->left, 0, __ATOMIC_SEQ_CST);
    wake_sleepers(&state->left, &state->sleepers);
  }
  return MX_ERR_STEP;
}

/* Readies the team for a table: whether some step can be shared, memory, pointers.  The lock is held. */
static int prepare(mx_team *t, const mx_step *steps, i64 nsteps, void **argp, const mx_patch *patches, i64 npatch,
                   void *const *io, i64 scratch_bytes, i64 last_kind, int *together) {
  *together = 0;
  for (i64 s = 0; s < nsteps; s++) {
    if (steps[s].kind < MX_KERNEL || steps[s].kind > last_kind) {
      t->error[0] = s;
      return MX_ERR_KIND;
    }
    *together |= steps[s].kind == MX_KERNEL && steps[s].grain >= 1 && steps[s].grain < steps[s].extent;
  }
  *together &= t->size > 1;
  const mx_lib *lib = LOAD(library);
  if (t->w[0].ctx.lib != lib)
    for (i64 i = 0; i < t->size; i++) t->w[i].ctx.lib = lib;
  mx_object **const made = mx_collected();
  if (t->w[0].ctx.made != made)
    for (i64 i = 0; i < t->size; i++) t->w[i].ctx.made = made;
  int result = grow_scratch(t, *together ? t->size : 1, scratch_bytes);
  if (result) return result;
  for (i64 i = 0; i < npatch; i++) argp[patches[i].dst] = io[patches[i].src];
  STORE_RELAXED(t->failed, 0);
  STORE_RELAXED(t->ended, 0);
  t->ask_at = 0;
  return MX_OK;
}

/* Takes a team for this thread alone.  A thread that has it already gets a new team of one instead: it is in a function of
 * Python that runs in the middle of a run, the handler of a signal for example. */
static int enter(mx_team **team) {
  mx_team *t = *team;
  check_process(t);
  if (LOAD_RELAXED(t->holder) == (u64)pthread_self()) {
    *team = t = mx_team_new(1);
    if (!t) return MX_ERR_MEMORY;
  }
#ifdef __linux__
  while (pthread_mutex_trylock(&t->lock)) {
    struct timespec until = in_future(LOAD_RELAXED(period) + 1000000);
    if (!pthread_mutex_timedlock(&t->lock, &until)) break;
    int (*ends)(void) = LOAD(caller_ends);
    if (ends && ends()) return MX_STOPPED;
  }
#else
  pthread_mutex_lock(&t->lock);
#endif
  STORE_RELAXED(t->holder, (u64)pthread_self());
  return MX_OK;
}

/* Gives back what enter took in the place of the team `asked`. */
static void leave(mx_team *t, const mx_team *asked) {
  STORE_RELAXED(t->holder, 0);
  pthread_mutex_unlock(&t->lock);
  if (t != asked) mx_team_free(t);
}

/* A run that somebody has ended gives MX_STOPPED, even if its last kernel came to its end. */
static int outcome(mx_team *t, int result) {
  return LOAD_RELAXED(t->ended) || (result == MX_ERR_STEP && LOAD_RELAXED(t->stop)) ? MX_STOPPED : result;
}

static int lost(void) { return LOAD_RELAXED(mx_lost_files) ? MX_LOST : MX_OK; }

int mx_execute(mx_team *t, const mx_step *steps, i64 nsteps, void **argp, const i64 *dims, const mx_patch *patches,
               i64 npatch, void *const *io, i64 scratch_bytes, const mx_times *times, i64 *errinfo) {
  const mx_team *asked = t;
  int together, result = enter(&t);
  if (result) return result;
  result = prepare(t, steps, nsteps, argp, patches, npatch, io, scratch_bytes, MX_ON_CALLER, &together);
  if (!result) {
    STORE_RELAXED(t->stride, nsteps);
    if (times && times->threads) memset(times->threads, 0, (size_t)(t->size * nsteps * MX_ROW) * sizeof(i64));
    result = outcome(t, (together ? run_together : run_alone)(t, steps, nsteps, argp, dims, times));
  }
  if (result && errinfo) memcpy(errinfo, t->error, sizeof t->error);
  leave(t, asked);
  return result | lost();
}

/* ---- programs ----------------------------------------------------------------------------------------------------- */

#include "programs.h"

int mx_execute_program(mx_team *t, const mx_step *steps, i64 nsteps, void **argp, const i64 *dims,
                       const mx_patch *patches, i64 npatch, void *const *io, i64 scratch_bytes, const mx_times *times,
                       i64 *errinfo, i64 *at, i64 slice_ns) {
  const mx_team *asked = t;
  mx_times seen = {0};
  int together, result = enter(&t);
  if (result) return result;
  result = prepare(t, steps, nsteps, argp, patches, npatch, io, scratch_bytes, MX_EXCHANGE, &together);
  if (!result && times) {
    seen.steps = calloc((size_t)(2 * nsteps + 1), sizeof(i64));
    seen.threads = calloc((size_t)(t->size * nsteps * MX_ROW + 1), sizeof(i64));
    if (!seen.steps || !seen.threads) result = MX_ERR_MEMORY;
  }
  if (!result) {
    STORE_RELAXED(t->stride, nsteps);
    result = outcome(t, walk_program(t, steps, nsteps, argp, dims, together, times, &seen, at, slice_ns));
  }
  free(seen.steps);
  free(seen.threads);
  if (result && result != MX_PAUSED && errinfo) memcpy(errinfo, t->error, sizeof t->error);
  leave(t, asked);
  return result | lost();
}

int mx_k_copy(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)d, (void)ctx;
  memcpy((char *)b[0] + lo, (const char *)b[1] + lo, (size_t)(hi - lo));
  return 0;
}

int mx_k_settle(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  i64 n = d[0], away = 0;
  for (i64 i = 0; i < n; i++) away += b[i] != b[n + i];
  for (i64 at = lo; away && at < hi; at += MX_SETTLE) {
    size_t count = (size_t)(hi - at < MX_SETTLE ? hi - at : MX_SETTLE);
    char *held = ctx->scratch;
    for (i64 i = 0; i < n; i++) memcpy(held + i * MX_SETTLE, (const char *)b[n + i] + at, count);
    for (i64 i = 0; i < n; i++) memcpy((char *)b[i] + at, held + i * MX_SETTLE, count);
  }
  return 0;
}

int mx_k_refuse(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)b, (void)d, (void)lo, (void)hi, (void)ctx;
  return MX_REFUSED;
}

/* ---- prepared calls ------------------------------------------------------------------------------------------------ */

int mx_run(mx_call *c) {
  if (c->watch && mx_look(c->watch)) return MX_CHANGED;
  if (!c->is_program)
    return mx_execute(c->team, c->steps, c->nsteps, c->argp, c->dims, c->patches, c->npatch, c->io, c->scratch_bytes,
                      c->times, c->errinfo);
  if (!c->paused) c->at = 0;
  int code = mx_execute_program(c->team, c->steps, c->nsteps, c->argp, c->dims, c->patches, c->paused ? 0 : c->npatch, c->io,
                                c->scratch_bytes, c->times, c->errinfo, &c->at, c->slice_ns);
  c->paused = (code & ~MX_LOST) == MX_PAUSED;
  return code;
}
