/* runtime.cpp - the scheduler: CUDA threads on fibers, and the barrier of the block.
 *
 * A thread runs until it waits or ends. Then the first of these goes on: a thread whose wait is over, a thread that has
 * not begun, nobody - and if somebody still waits then, nothing will ever wake them: a divergent barrier. A thread that
 * ends hands its fiber to the next one that begins, so a kernel without barriers is a plain loop on one stack.
 */
#include "runtime.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

__thread cs_here *cs_now __attribute__((tls_model("initial-exec"))) = nullptr;

namespace cs {

/* ------------------------------------------------------------- fibers */

#if defined(CS_ASM_FIBERS)

extern "C" void cs_switch(void **from, void *to);
/* What the calling convention lets a function change is saved by its caller; the rest is saved here. */
asm(R"(
.text
.type cs_switch, @function
cs_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cs_switch, .-cs_switch
)");

void switch_to(Context &from, Context &to) { cs_switch(&from.sp, to.sp); }

void prepare(Context &context, char *, char *top, void (*entry)()) {
  void **sp = reinterpret_cast<void **>(top);
  *--sp = nullptr; /* where the entry would return to; keeps the alignment that a call leaves */
  *--sp = reinterpret_cast<void *>(entry);
  context.sp = sp - 6;
}

#else

void switch_to(Context &from, Context &to) { swapcontext(&from.machine, &to.machine); }

void prepare(Context &context, char *bottom, char *top, void (*entry)()) {
  getcontext(&context.machine);
  context.machine.uc_stack.ss_sp = bottom;
  context.machine.uc_stack.ss_size = (size_t)(top - bottom);
  context.machine.uc_link = nullptr;
  makecontext(&context.machine, entry, 0);
}

#endif

/* Address space, not memory: a stack takes pages as it is used. The lowest page of each faults on overflow. */
constexpr size_t PAGE = 4096, STACK = 192 << 10;

size_t Worker::stacks_bytes() { return STACK * MAX_THREADS; }

Worker::Worker() {
  const int lazily = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *memory = mmap(nullptr, stacks_bytes(), PROT_READ | PROT_WRITE, lazily, -1, 0);
  if (memory == MAP_FAILED) {
    perror("cudasim: stacks");
    abort();
  }
  stacks = static_cast<char *>(memory);
}

u32 Worker::take_stack() {
  if (free_count) return free_stacks[--free_count];
  mprotect(stacks + STACK * stacks_made, PAGE, PROT_NONE);
  return stacks_made++;
}

static void run_fiber() {
  for (;;) {
    Worker &w = self();
    w.job->kernel(w.job->args);
    w.end_thread(); /* returns when this fiber has another thread to run */
  }
}

/* ------------------------------------------------------------- who runs */

void Worker::enter(Thread &t) {
  current = &t;
  here.thread = t.id;
  here.lane = t.index % WARP;
}

Thread &Worker::begin() {
  Thread &t = threads[started];
  t.index = (u16)started++;
  t.id = next_id;
  t.state = RUNNING;
  t.copying = false;
  t.committed = 0;
  if (++next_id.x == here.block_dim.x) {
    next_id.x = 0;
    if (++next_id.y == here.block_dim.y) next_id.y = 0, ++next_id.z;
  }
  return t;
}

void Worker::start(Thread &t) {
  t.stack = take_stack();
  char *bottom = stacks + STACK * t.stack;
  /* Tops at the same offset of every stack would all fall into the same sets of the caches. */
  char *top = bottom + STACK - (t.stack * 320 & 0x7ff0u);
  prepare(t.context, bottom + PAGE, top, run_fiber);
}

static inline void prefetch_stack([[maybe_unused]] const Thread &t) {
#if defined(CS_ASM_FIBERS)
  __builtin_prefetch(t.context.sp);
  __builtin_prefetch((const char *)t.context.sp + 64);
#endif
}

/* Run whoever can run until `t` can. Threads that have not begun come last, unless `t` only lets others go first. */
void Worker::go_on(Thread &t, bool polite) {
  Thread *next;
  if (ready_count && !(polite && started < job->threads)) {
    next = &threads[ready[ready_at]];
    ready_at = (ready_at + 1) % MAX_THREADS;
    ready_count--;
    /* Stale entries of the ring name threads too, so these are always addresses of some thread. */
    __builtin_prefetch(&threads[ready[(ready_at + 2) % MAX_THREADS]]);
    prefetch_stack(threads[ready[ready_at]]);
  } else if (started < job->threads) {
    next = &begin();
    start(*next);
  } else {
    stuck();
  }
  enter(*next);
  if (next != &t) switch_to(t.context, next->context);
  if (job->stop.load(std::memory_order_relaxed)) abandon();
}

void Worker::wait(Thread &t, State state) {
  Warp &w = warp();
  t.state = state;
  w.running &= ~(1u << t.index % WARP);
  if (w.asking && !w.running) resolve_asking(w);
  go_on(t);
}

void Worker::wake(Thread &t) {
  t.state = RUNNING;
  warps[t.index / WARP].running |= 1u << t.index % WARP;
  ready[(ready_at + ready_count++) % MAX_THREADS] = t.index;
}

void Worker::yield() {
  Thread &t = *current;
  ready[(ready_at + ready_count++) % MAX_THREADS] = t.index;
  go_on(t, true);
}

void Worker::end_thread() {
  Thread &t = *current;
  Warp &w = warp();
  const u32 lane = 1u << t.index % WARP;
  t.state = ENDED;
  if (t.copying) copies[t.index].clear();
  w.alive &= ~lane;
  w.running &= ~lane;
  alive--;
  /* Those that wait for this thread wait no longer. */
  if (arrived && arrived == alive) complete_barrier();
  for (u32 open = w.pending; open; open &= open - 1) {
    const u32 s = (u32)__builtin_ctz(open);
    if (w.slot[s].arrived == (w.slot[s].mask & w.alive)) complete(w, s);
  }
  if (w.asking && !w.running) resolve_asking(w);

  if (job->stop.load(std::memory_order_relaxed)) abandon();
  if (!ready_count && started < job->threads) {
    Thread &next = begin();
    next.stack = t.stack; /* the fiber goes on as the next thread */
    enter(next);
    return;
  }
  free_stacks[free_count++] = (u16)t.stack;
  if (alive) go_on(t);
  switch_to(discarded, main);
  __builtin_unreachable();
}

void Worker::abandon() {
  abandoned = true;
  job->stop = true;
  switch_to(discarded, main);
  __builtin_unreachable();
}

/* ------------------------------------------------------------- the barrier of the block */

void Worker::syncthreads(int predicate, const void *pc) {
  Thread &t = *current;
  t.pc = pc;
  if (!arrived)
    barrier_pc = pc;
  else if (pc != barrier_pc && check) {
    Report more = Report();
    more.other_pc = (const char *)barrier_pc - job->image;
    report(MIXED_BARRIER, pc, more);
  }
  predicates += predicate != 0;
  arrived++;
  if (arrived == alive)
    complete_barrier();
  else
    wait(t, AT_BARRIER);
}

void Worker::complete_barrier() {
  folded = predicates;
  members = arrived;
  predicates = arrived = 0;
  for (u32 i = 0; i < started; i++)
    if (threads[i].state == AT_BARRIER) wake(threads[i]);
  if (check) check_barrier(*check);
}

/* ------------------------------------------------------------- what goes wrong */

void Job::add(Report report) {
  std::lock_guard<std::mutex> hold(lock);
  for (Report &r : reports)
    if (r.kind == report.kind && r.pc == report.pc && r.other_pc == report.other_pc && r.kind != STUCK) {
      r.count++;
      return;
    }
  report.count = 1;
  if (reports.size() < MAX_REPORTS) reports.push_back(report);
}

/* `more` has what the kind knows; a thread in it is counted from 1, so that 0 stands for the running one. */
void Worker::report(Kind kind, const void *pc, Report more) {
  more.kind = kind;
  more.pc = (const char *)pc - job->image;
  more.block = block_index;
  more.thread = more.thread ? more.thread - 1 : current->index;
  if (!more.other_pc) more.other_pc = -1;
  reported = true;
  job->add(more);
}

void Worker::stuck() {
  struct Place {
    const void *pc;
    State state;
    u32 op, mask, first, count;
  };
  std::vector<Place> places;
  for (u32 i = 0; i < started; i++) {
    Thread &t = threads[i];
    if (t.state != AT_BARRIER && t.state != IN_WARP) continue;
    const u32 op = t.state == IN_WARP ? t.op : ~0u, mask = t.state == IN_WARP ? t.mask : 0u;
    Place *found = nullptr;
    for (Place &p : places)
      if (p.pc == t.pc && p.op == op && p.mask == mask) found = &p;
    if (found)
      found->count++;
    else
      places.push_back({t.pc, t.state, op, mask, t.index, 1});
  }
  for (Place &p : places) {
    Report more = Report();
    more.thread = p.first + 1;
    more.detail = p.state == AT_BARRIER ? -1 : (i64)p.mask;
    more.size = p.count;
    report(STUCK, p.pc, more);
  }
  abandon();
}

/* ------------------------------------------------------------- the record of a block */

void Worker::note(Event event) {
  if (noted[event.thread]++ < job->record.most) events.push_back(event);
}

void Worker::keep_record() {
  Record &r = job->record;
  if (r.kept >= 0 && (!reported || r.faulty)) return;
  r.kept = block_index;
  r.faulty = reported;
  r.events.swap(events);
  r.ends.clear();
  for (u32 i = 0; i < job->threads; i++) {
    const Thread &t = threads[i];
    const i64 cut = noted[i] > r.most;
    if (i >= started)
      r.ends.push_back({-1, 0, 0, 0});
    else if (t.state == ENDED || t.state == RUNNING)
      r.ends.push_back({t.state, 0, 0, cut});
    else
      r.ends.push_back({t.state, (const char *)t.pc - job->image, t.state == IN_WARP ? t.mask : 0, cut});
  }
}

/* ------------------------------------------------------------- blocks */

void Worker::prepare_dynamic(size_t bytes) {
  const size_t pages = (bytes + PAGE - 1) / PAGE + 1;
  if (pages > dynamic_pages) {
    if (dynamic) munmap(dynamic, dynamic_pages * PAGE);
    void *memory = mmap(nullptr, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      perror("cudasim: shared memory");
      abort();
    }
    dynamic = static_cast<char *>(memory);
    dynamic_pages = pages;
    mprotect(dynamic + (pages - 1) * PAGE, PAGE, PROT_NONE);
  }
  /* It ends where the page without access begins, as near as the alignment allows. */
  here.dynamic = dynamic + (dynamic_pages - 1) * PAGE - (bytes + 127) / 128 * 128;
}

void Worker::run(Job &j) {
  job = &j;
  here.block_dim = j.block;
  here.grid_dim = j.grid;
  prepare_dynamic(j.dynamic_bytes);
  if (j.check) check.reset(make_checker(*this));
  for (;;) {
    const i64 index = j.next.fetch_add(1, std::memory_order_relaxed);
    if (index >= j.blocks || j.stop.load(std::memory_order_relaxed)) break;
    run_block(index);
  }
  check.reset();
  job = nullptr;
}

void Worker::run_block(i64 index) {
  block_index = index;
  here.block = {(unsigned)(index % here.grid_dim.x), (unsigned)(index / here.grid_dim.x % here.grid_dim.y),
                (unsigned)(index / here.grid_dim.x / here.grid_dim.y)};
  const u32 n = job->threads;
  for (u32 i = 0; i * WARP < n; i++) {
    const u32 lanes = n - i * WARP;
    Warp &w = warps[i];
    w.alive = w.running = lanes >= WARP ? FULL_WARP : (1u << lanes) - 1;
    w.asking = w.pending = 0;
  }
  started = arrived = predicates = 0;
  alive = n;
  ready_count = 0;
  next_id = {0, 0, 0};
  abandoned = reported = false;
  recording = check && (job->record.block == index || job->record.block == Record::ANY);
  events.clear();
  memset(noted, 0, sizeof noted);
  if (check) check_block(*check);
  Thread &t = begin();
  start(t);
  enter(t);
  cs_now = &here;
  switch_to(main, t.context);
  cs_now = nullptr;
  if (recording) keep_record();
  if (abandoned) { /* fibers were left where they stood: take all stacks back */
    free_count = 0;
    for (u32 i = stacks_made; i--;) free_stacks[free_count++] = (u16)i;
    for (u32 i = 0; i < n; i++) copies[i].clear();
  }
}

} // namespace cs

/* ------------------------------------------------------------- what kernels call */

using namespace cs;
#define HERE __builtin_return_address(0)

void cs_syncthreads() { self().syncthreads(0, HERE); }

int cs_syncthreads_fold(int op, int predicate) {
  Worker &w = self();
  w.syncthreads(predicate, HERE);
  return op == CS_COUNT ? (int)w.folded : op == CS_AND ? w.folded == w.members : w.folded != 0;
}

void cs_yield() { self().yield(); }

void cs_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (self().check) check_fence(*self().check);
}

int cs_printf(const char *format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  Job &job = *self().job;
  std::lock_guard<std::mutex> hold(job.lock);
  if (job.output.size() < 1 << 20) job.output += line; /* a device has a buffer of this size too */
  return length;
}

void cs_watch(const char *name, double value, int line) {
  Worker &w = self();
  std::lock_guard<std::mutex> hold(w.job->lock);
  if (w.job->watched.size() < 1 << 20)
    w.job->watched.push_back({w.block_index, w.current->index, line, (i64)name, value});
}

void cs_trap(const char *what) {
  Worker &w = self();
  Report more = Report();
  more.text = (i64)what;
  w.report(TRAP, HERE, more);
  w.abandon();
}
