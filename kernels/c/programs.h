/* programs.h - the part of executor.c that walks programs: tables with loops and branches between their straight pieces. */
#ifndef MX_PROGRAMS_H
#define MX_PROGRAMS_H

/* Adds what a segment of `count` steps from `first` on took (`seen`) to the sums of the caller (`times`). */
static void add_times(mx_team *t, const mx_step *steps, const mx_times *times, const mx_times *seen, i64 nsteps,
                      i64 first, i64 count) {
  for (i64 s = first; s < first + count; s++) {
    times->steps[2 * s] += steps[s].extent > 0;
    times->steps[2 * s + 1] += seen->steps[2 * s + 1] - seen->steps[2 * s];
    seen->steps[2 * s] = seen->steps[2 * s + 1] = 0;
    if (!times->threads) continue;
    for (i64 i = 0; i < t->size; i++) {
      i64 *from = seen->threads + (i * nsteps + s) * MX_ROW, *to = times->threads + (i * nsteps + s) * MX_ROW;
      to[1] += from[1] - from[0];
      to[2] += from[2];
      from[0] = from[1] = from[2] = 0;
    }
  }
}

/* Gives pointers of the table those of others; nobody reads it meanwhile. */
static void exchange(void **argp, const i64 *list, void **held) {
  i64 n = *list++;
  for (i64 i = 0; i < n; i++) held[i] = argp[*list++];
  n = *list++;
  for (i64 i = 0; i < n; i++, list += 2) argp[list[0]] = held[list[1]];
}

/* The straight pieces of a program are tables like any other; between them one byte says where to go on.  A piece whose
 * steps have one chunk each is walked right here: a turn of a small loop costs its calls. */
static int walk_program(mx_team *t, const mx_step *steps, i64 nsteps, void **argp, const i64 *dims, int together,
                        const mx_times *times, const mx_times *seen, i64 *at, i64 slice_ns) {
  i64 pc = *at, until = 0, turns = 0, unasked = 0;
  while (pc < nsteps) {
    const mx_step *p = &steps[pc];
    if (p->kind == MX_BRANCH) {
      pc += *(const u8 *)argp[p->b0] ? 1 : p->extent;
      continue;
    }
    if (p->kind == MX_JUMP) {
      i64 back = p->extent < 0;
      pc += p->extent;
      if (back && (++turns & 255) == 1) { /* the clock is asked in the first turn, and then seldom */
        i64 now = mx_now_ns();
        if (!until) until = now + slice_ns;
        if (now >= until) {
          *at = pc;
          return MX_PAUSED;
        }
      }
      continue;
    }
    if (p->kind == MX_EXCHANGE) {
      exchange(argp, dims + p->d0, t->w[0].ctx.scratch);
      pc++;
      continue;
    }
    i64 end = pc;
    int shared = 0;
    for (; end < nsteps && steps[end].kind <= MX_ON_CALLER; end++)
      shared |= steps[end].kind == MX_KERNEL && steps[end].grain >= 1 && steps[end].grain < steps[end].extent;
    int result = MX_OK;
    if (!times && !(shared && together)) {
      mx_ctx *ctx = &t->w[0].ctx;
      for (; pc < end; pc++) {
        int code = 0;
        if (++unasked >= STEPS_UNASKED) unasked = 0, code = ask(ctx) ? MX_STOPPED : 0;
        if (!code && (p = &steps[pc])->extent > 0) code = run_items(p, argp, dims, 0, p->extent, ctx);
        if (code) {
          record_error(t, pc, code, ctx);
          return MX_ERR_STEP;
        }
      }
      continue;
    }
    mx_times part = {0};
    if (times) {
      part.steps = seen->steps + 2 * pc;
      part.threads = times->threads ? seen->threads + pc * MX_ROW : NULL;
    }
    result = (shared && together ? run_together : run_alone)(t, steps + pc, end - pc, argp, dims, times ? &part : NULL);
    if (times) add_times(t, steps, times, seen, nsteps, pc, end - pc);
    if (result) {
      if (result == MX_ERR_STEP) t->error[0] += pc;
      return result;
    }
    if ((unasked += end - pc) >= STEPS_UNASKED) {
      unasked = 0;
      if (ask(&t->w[0].ctx)) return MX_STOPPED;
    }
    pc = end;
  }
  *at = pc;
  return MX_OK;
}
#endif
