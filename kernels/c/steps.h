/* steps.h - the part of executor.c in which a thread works on one step: it claims chunks, runs them, counts them as done,
 * and asks in between whether to go on.
 */
#ifndef MX_STEPS_H
#define MX_STEPS_H
#include "waiting.h"

#define CHUNKS_UNASKED 8 /* a chunk of a product takes up to some milliseconds */

/* ---- whether to go on --------------------------------------------------------------------------------------------- */

static int (*caller_ends)(void);
static i64 period = 100000000;
void mx_interrupts(int (*ended)(void), i64 period_ns) {
  STORE(caller_ends, ended);
  STORE(period, period_ns);
}

static int is_over(mx_team *t) { return (LOAD_RELAXED(t->ended) | LOAD_RELAXED(t->stop)) != 0; }

/* mx_ctx.ask, also of the executor itself.  A short run never asks Python: the first time is a period away. */
static int ask(mx_ctx *ctx) {
  worker *me = (worker *)ctx; /* whose first member it is */
  mx_team *t = me->team;
  if (is_over(t)) return 1;
  int (*ends)(void) = LOAD(caller_ends);
  if (me != t->w || !ends) return 0;
  i64 now = mx_now_ns();
  if (!t->ask_at) t->ask_at = now + LOAD_RELAXED(period);
  if (now < t->ask_at) return 0;
  if (ends()) STORE(t->ended, 1);
  t->ask_at = mx_now_ns() + LOAD_RELAXED(period);
  return is_over(t);
}

static void wait_for_zero(step_state *s, worker *me) {
  mx_team *t = me->team;
  for (i64 turn = 0; turn < t->turns; turn++) {
    if (LOAD(s->left) == 0) return;
    relax();
  }
  u32 v;
  while ((v = LOAD(s->left)) != 0) {
    i64 at_most = me == t->w && !ask(&me->ctx) ? LOAD_RELAXED(period) : FOREVER;
    announce_and_sleep(&s->left, v, &s->sleepers, at_most);
  }
}

/* ---- chunks ------------------------------------------------------------------------------------------------------- */

static i64 effective_grain(const mx_step *s) {
  i64 grain = s->grain < 1 || s->grain > s->extent ? s->extent : s->grain;
  i64 least = s->extent / 0x10000 + 1; /* the counters of half the chunks have 16 bits */
  return grain < least ? least : grain;
}
static i64 chunk_count(const mx_step *s) {
  return s->extent < 1 ? 0 : (s->extent - 1) / effective_grain(s) + 1;
}

/* What a ticket says of a step of which nobody has claimed a chunk: those of the first half in the low 16 bits, then those of
 * the second half. */
static u64 ticket_of(u32 generation, i64 chunks) {
  return (u64)generation << 32 | (u64)(chunks / 2) << 16 | (u64)(chunks - chunks / 2);
}
static u32 unclaimed_in(u64 ticket) { return (u32)(ticket & 0xffff) + (u32)(ticket >> 16 & 0xffff); }

/* In which half of the chunks a thread begins: so it finds in its cache what it wrote there a step or a run before. */
static int half_of(const mx_team *t, const worker *me) { return me - t->w >= (t->size + 1) / 2; }

/* Takes one chunk, of the other half where none is left in `half`: returns how many of the first half were unclaimed before,
 * or those of the second half below 0, or 0 when there was none (or the generation has ended). */
static i64 claim(step_state *s, u32 generation, int half) {
  u64 t = LOAD(s->ticket);
  while ((u32)(t >> 32) == generation && (u32)t != 0) {
    const int from = (t >> 16 * half & 0xffff) ? half : !half;
    const i64 unclaimed = (i64)(t >> 16 * from & 0xffff);
    if (__atomic_compare_exchange_n(&s->ticket, &t, t - (1ull << 16 * from), 1, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      return from ? -unclaimed : unclaimed;
  }
  return 0;
}

static void finish_chunks(step_state *s, u32 count) {
  if (__atomic_sub_fetch(&s->left, count, __ATOMIC_SEQ_CST) == 0) wake_sleepers(&s->left, &s->sleepers);
}

static void record_error(mx_team *t, i64 step, int code, const mx_ctx *ctx) {
  u32 none = 0;
  if (!__atomic_compare_exchange_n(&t->failed, &none, (u32)step + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return;
  t->error[0] = step;
  t->error[1] = code;
  memcpy(t->error + 2, ctx->err, sizeof ctx->err);
}

/* Where `me` writes down when it was busy with a step: {begin, end, chunks}.  Every thread has a row of `stride` steps. */
static i64 *row_of(mx_team *t, const worker *me, i64 *rows, i64 stride, i64 step) {
  return rows + ((me - t->w) * stride + step) * MX_ROW;
}

/* Runs items [lo,hi) of a step, in pieces where they take long.  What an item takes is a guess, so the pieces grow and
 * shrink until each takes from 1 to 10 ms; those of 64 items and more stay multiples of 64, so that vectors are whole. */
static int run_items(const mx_step *step, void **argp, const i64 *dims, i64 lo, i64 hi, mx_ctx *ctx) {
  void *const *b = (void *const *)argp + step->b0;
  const i64 *d = dims + step->d0;
  i64 piece = step->piece;
  if (piece < 1 || hi - lo <= piece) return step->fn(b, d, lo, hi, ctx);
  for (i64 now = mx_now_ns(); hi - lo > piece;) {
    int code = step->fn(b, d, lo, lo + piece, ctx);
    if (code) return code;
    if (ask(ctx)) return MX_STOPPED;
    lo += piece;
    const i64 begin = now, took = (now = mx_now_ns()) - begin;
    if (took < 1000000 && piece < hi - lo) piece *= 2;
    else if (took > 10000000 && piece > 1) piece = piece > 127 ? piece / 2 / 64 * 64 : piece > 64 ? 64 : piece / 2;
  }
  return hi > lo ? step->fn(b, d, lo, hi, ctx) : 0;
}

/* Works on one step until it is complete.  A thread of an ended generation claims nothing and falls through. */
static void share_step(mx_team *t, state_block *block, i64 index, u32 generation, worker *me) {
  step_state *s = &block->st[index];
  mx_ctx *ctx = &me->ctx;
  i64 *row = NULL;
  const int half = half_of(t, me);
  i64 unclaimed, unasked = 0;
  while ((unclaimed = claim(s, generation, half)) != 0) {
    /* the claim keeps mx_execute from returning: its tables may be read from here to finish_chunks */
    const mx_step *step = &LOAD_RELAXED(t->steps)[index];
    const i64 chunks = chunk_count(step), number = unclaimed > 0 ? chunks - chunks / 2 - unclaimed : chunks + unclaimed;
    i64 grain = effective_grain(step), lo = number * grain;
    i64 hi = step->extent - lo < grain ? step->extent : lo + grain;
    i64 *rows = LOAD_RELAXED(t->rows);
    if (rows && !row) {
      row = row_of(t, me, rows, LOAD_RELAXED(t->stride), index);
      row[0] = mx_now_ns();
    }
    int code = 0;
    if (!LOAD_RELAXED(t->failed))
      code = is_over(t) ? MX_STOPPED : run_items(step, LOAD_RELAXED(t->argp), LOAD_RELAXED(t->dims), lo, hi, ctx);
    if (row) {
      row[1] = mx_now_ns();
      row[2]++;
    }
    if (me == t->w && (step->piece || ++unasked % CHUNKS_UNASKED == 0)) ask(ctx);
    u32 count = 1;
    if (code) {
      record_error(t, index, code, ctx);
      u64 rest = __atomic_exchange_n(&s->ticket, (u64)generation << 32, __ATOMIC_ACQ_REL);
      count += unclaimed_in(rest); /* nobody needs to run these any more */
    }
    finish_chunks(s, count);
  }
  if ((u32)(LOAD(s->ticket) >> 32) == generation) wait_for_zero(s, me);
}

/* Runs the only chunk of a step that belongs to the caller.  It has no ticket: workers find nothing to claim, and wait for
 * it as for any other chunk.  So none of them is ahead, and no other step can fail meanwhile. */
static void run_on_caller(mx_team *t, i64 index) {
  worker *me = &t->w[0];
  const mx_step *step = &t->steps[index];
  if (step->extent < 1) return;
  i64 *row = t->rows ? row_of(t, me, t->rows, t->stride, index) : NULL;
  if (row) row[0] = mx_now_ns();
  int code = MX_STOPPED;
  if (!is_over(t)) code = step->fn((void *const *)t->argp + step->b0, t->dims + step->d0, 0, step->extent, &me->ctx);
  if (row) {
    row[1] = mx_now_ns();
    row[2] = 1;
  }
  if (code) record_error(t, index, code, &me->ctx);
  finish_chunks(&t->block->st[index], 1);
}
#endif
