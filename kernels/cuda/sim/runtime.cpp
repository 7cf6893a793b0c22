/* runtime.cpp - the scheduler: CUDA threads on fibers, barriers, warp operations.
 *
 * A thread runs until it waits or ends. Then the first of these goes on: a thread whose wait is over, a thread that has
 * not begun, nobody - and if somebody still waits then, nothing will ever wake them: a divergent barrier. A thread that
 * ends hands its fiber to the next one that begins, so a kernel without barriers is a plain loop on one stack.
 *
 * A warp operation is done by the lane that arrives last, for all its members: operands lie in the threads, so no lane
 * can overwrite what another one has yet to read.
 */
#include "runtime.h"
#include "types.h"

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
  void *memory = mmap(nullptr, stacks_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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

/* ------------------------------------------------------------- warp operations */

Thread &Worker::collect(u32 mask, u32 op, const void *pc) {
  Thread &t = *current;
  Warp &w = warp();
  const u32 lane = 1u << t.index % WARP;
  t.pc = pc;
  t.mask = mask;
  t.op = op;
  Report more = Report();
  more.detail = mask;
  if (!(mask & lane)) {
    report(BAD_MASK, pc, more);
    abandon();
  }
  const u32 number = (u32)__builtin_ctz(mask);
  Slot &s = w.slot[number];
  if (!(w.pending >> number & 1u)) {
    s = {mask, 0, op};
    w.pending |= 1u << number;
  } else if (s.mask != mask || s.op != op) {
    Thread &other = threads[t.index / WARP * WARP + (u32)__builtin_ctz(s.arrived)];
    more.other_pc = (const char *)other.pc - job->image;
    more.other_block = block_index;
    more.other_thread = other.index;
    report(BAD_MASK, pc, more);
    abandon();
  }
  s.arrived |= lane;
  if (s.arrived == (mask & w.alive))
    complete(w, number);
  else
    wait(t, IN_WARP);
  return t;
}

void Worker::complete(Warp &w, u32 number) {
  const Slot s = w.slot[number];
  w.pending &= ~(1u << number);
  combine(w, s.arrived, s.op);
  Thread *lanes = &threads[(u32)(&w - warps) * WARP];
  for (u32 open = s.arrived; open; open &= open - 1) {
    Thread &t = lanes[__builtin_ctz(open)];
    if (t.state == IN_WARP) wake(t);
  }
  if (check && s.op == OP_SYNC) check_syncwarp(*check, (u32)(&w - warps), s.arrived);
}

/* Lanes that ask which of them are together: those that asked at the same place, once no other lane can still come. */
void Worker::resolve_asking(Warp &w) {
  Thread *lanes = &threads[(u32)(&w - warps) * WARP];
  const void *pc = lanes[__builtin_ctz(w.asking)].pc;
  u32 together = 0;
  for (u32 open = w.asking; open; open &= open - 1)
    if (lanes[__builtin_ctz(open)].pc == pc) together |= open & -open;
  w.asking &= ~together;
  for (u32 open = together; open; open &= open - 1) {
    lanes[__builtin_ctz(open)].out[0] = together;
    wake(lanes[__builtin_ctz(open)]);
  }
}

u32 Worker::activemask(const void *pc) {
  Thread &t = *current;
  t.pc = pc;
  warp().asking |= 1u << t.index % WARP;
  wait(t, ASKING);
  return t.out[0];
}

static u32 fold(u32 op, u32 a, u32 b) {
  switch (op) {
  case CS_ADD: return a + b;
  case CS_MIN_S: return (int32_t)b < (int32_t)a ? b : a;
  case CS_MIN_U: return b < a ? b : a;
  case CS_MAX_S: return (int32_t)a < (int32_t)b ? b : a;
  case CS_MAX_U: return a < b ? b : a;
  case CS_BIT_AND: return a & b;
  case CS_BIT_OR: return a | b;
  default: return a ^ b;
  }
}

/* C += A B with the fragments that mx_device.cuh draws. Products of 16-bit floats are exact in float. */
static void multiply(Thread *lanes, bool bf16) {
  float a[16][16], b[16][8];
  auto value = [bf16](u32 word, u32 half) {
    const u16 bits = (u16)(word >> 16 * half);
    return bf16 ? cs_bfloat16_value(bits) : cs_half_value(bits);
  };
  for (u32 lane = 0; lane < WARP; lane++) {
    const u32 g = lane / 4, t = lane % 4 * 2;
    for (u32 r = 0; r < 4; r++)
      for (u32 h = 0; h < 2; h++) a[g + r % 2 * 8][t + r / 2 * 8 + h] = value(lanes[lane].in[r], h);
    for (u32 r = 0; r < 2; r++)
      for (u32 h = 0; h < 2; h++) b[t + r * 8 + h][g] = value(lanes[lane].in[4 + r], h);
  }
  for (u32 lane = 0; lane < WARP; lane++)
    for (u32 i = 0; i < 4; i++) {
      const u32 row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = __uint_as_float(lanes[lane].in[6 + i]);
      for (u32 k = 0; k < 16; k++) sum += a[row][k] * b[k][column];
      lanes[lane].out[i] = __float_as_uint(sum);
    }
}

static void distribute(Thread *lanes, bool transposed) {
  for (u32 lane = 0; lane < WARP; lane++)
    for (u32 tile = 0; tile < 4; tile++) {
      const u32 g = lane / 4, t = lane % 4 * 2;
      auto at = [&](u32 row, u32 column) {
        return lanes[tile * 8 + row].in[column / 2] >> 16 * (column % 2) & 0xffffu;
      };
      lanes[lane].out[tile] = transposed ? at(t, g) | at(t + 1, g) << 16 : at(g, t) | at(g, t + 1) << 16;
    }
}

void Worker::combine(Warp &w, u32 members, u32 op) {
  Thread *lanes = &threads[(u32)(&w - warps) * WARP];
  const u32 first = (u32)__builtin_ctz(members);
  auto each = [members](auto f) {
    for (u32 open = members; open; open &= open - 1) f((u32)__builtin_ctz(open));
  };
  switch (op) {
  case OP_SYNC: return;
  case OP_SHUFFLE:
    each([&](u32 l) {
      const u32 source = lanes[l].in[2];
      const bool present = members >> source & 1u;
      if (!present && check) {
        Report more = Report();
        more.thread = lanes[l].index + 1;
        more.detail = source;
        report(BAD_LANE, lanes[l].pc, more);
      }
      memcpy(lanes[l].out, lanes[present ? source : l].in, 8);
    });
    return;
  case OP_VOTE: {
    u32 ballot = 0;
    each([&](u32 l) { ballot |= (u32)(lanes[l].in[0] != 0) << l; });
    each([&](u32 l) {
      const u32 how = lanes[l].in[1];
      lanes[l].out[0] = how == CS_BALLOT ? ballot : how == CS_ANY ? ballot != 0 : ballot == members;
    });
    return;
  }
  case OP_MATCH:
    each([&](u32 l) {
      u32 same = 0;
      each([&](u32 m) { same |= (u32)(memcmp(lanes[l].in, lanes[m].in, 8) == 0) << m; });
      lanes[l].out[0] = same;
    });
    return;
  case OP_FOLD: {
    u32 sum = lanes[first].in[0];
    each([&](u32 l) {
      if (l != first) sum = fold(lanes[first].in[1], sum, lanes[l].in[0]);
    });
    each([&](u32 l) { lanes[l].out[0] = sum; });
    return;
  }
  default: /* tensor cores take whole warps */
    if (members != FULL_WARP) {
      Report more = Report();
      more.thread = lanes[first].index + 1;
      more.detail = members;
      report(BAD_MASK, lanes[first].pc, more);
      abandon();
    }
    if (op == OP_BF16 || op == OP_F16)
      multiply(lanes, op == OP_BF16);
    else
      distribute(lanes, op == OP_LDMATRIX_TRANS);
  }
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

/* ------------------------------------------------------------- blocks */

void Worker::prepare_dynamic(size_t bytes) {
  const size_t pages = (bytes + PAGE - 1) / PAGE + 1;
  if (pages > dynamic_pages) {
    if (dynamic) munmap(dynamic, dynamic_pages * PAGE);
    dynamic = static_cast<char *>(mmap(nullptr, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
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
  abandoned = false;
  if (check) check_block(*check);
  Thread &t = begin();
  start(t);
  enter(t);
  cs_now = &here;
  switch_to(main, t.context);
  cs_now = nullptr;
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

void cs_syncwarp(unsigned mask) { self().collect(mask, OP_SYNC, HERE); }

unsigned long long cs_shuffle(unsigned mask, unsigned long long bits, unsigned source) {
  Worker &w = self();
  memcpy(w.current->in, &bits, 8);
  w.current->in[2] = source % WARP;
  memcpy(&bits, w.collect(mask, OP_SHUFFLE, HERE).out, 8);
  return bits;
}

unsigned cs_vote(unsigned mask, int op, int predicate) {
  Worker &w = self();
  w.current->in[0] = predicate != 0;
  w.current->in[1] = (u32)op;
  return w.collect(mask, OP_VOTE, HERE).out[0];
}

unsigned cs_match(unsigned mask, unsigned long long bits) {
  Worker &w = self();
  memcpy(w.current->in, &bits, 8);
  return w.collect(mask, OP_MATCH, HERE).out[0];
}

unsigned cs_fold(unsigned mask, int op, unsigned value) {
  Worker &w = self();
  w.current->in[0] = value;
  w.current->in[1] = (u32)op;
  return w.collect(mask, OP_FOLD, HERE).out[0];
}

unsigned cs_activemask() { return self().activemask(HERE); }

void cs_yield() { self().yield(); }

void cs_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (self().check) check_fence(*self().check);
}

void cs_mma_m16n8k16(int kind, float *c, const unsigned *a, const unsigned *b) {
  Worker &w = self();
  u32 *in = w.current->in;
  memcpy(in, a, 16), memcpy(in + 4, b, 8), memcpy(in + 6, c, 16);
  memcpy(c, w.collect(FULL_WARP, kind == CS_BF16 ? OP_BF16 : OP_F16, HERE).out, 16);
}

static void require_aligned(Worker &w, const void *p, int bytes, const void *pc) {
  if (!w.check || (uintptr_t)p % (unsigned)bytes == 0) return;
  Report more = Report();
  more.address = (i64)p;
  more.size = bytes;
  w.report(MISALIGNED, pc, more);
  w.abandon();
}

void cs_ldmatrix(unsigned *out, const void *row, int transposed) {
  Worker &w = self();
  w.current->pc = HERE;
  require_aligned(w, row, 16, HERE);
  if (w.check) check_access(*w.check, row, 16, READ, HERE);
  memcpy(w.current->in, row, 16);
  memcpy(out, w.collect(FULL_WARP, transposed ? OP_LDMATRIX_TRANS : OP_LDMATRIX, HERE).out, 16);
}

/* Copies are made when they are waited for: a kernel that forgets to wait reads what was there before. */
void cs_copy_async(void *shared, const void *global, int bytes, int valid) {
  Worker &w = self();
  w.current->pc = HERE;
  require_aligned(w, shared, bytes, HERE);
  require_aligned(w, global, bytes, HERE);
  if (w.check) {
    if (valid > 0) check_access(*w.check, global, (size_t)valid, READ, HERE);
    check_access(*w.check, shared, (size_t)bytes, ASYNC, HERE);
  }
  w.current->copying = true;
  w.copies[w.current->index].push_back({(char *)shared, (const char *)global, bytes, valid, w.current->committed, HERE});
}

void cs_copy_commit() { self().current->committed++; }

void cs_copy_wait(int pending) {
  Worker &w = self();
  std::vector<Copy> &copies = w.copies[w.current->index];
  size_t done = 0;
  w.current->pc = HERE;
  for (; done < copies.size() && copies[done].group + (u32)pending < w.current->committed; done++) {
    const Copy &c = copies[done];
    memcpy(c.to, c.from, (size_t)c.valid);
    memset(c.to + c.valid, 0, (size_t)(c.bytes - c.valid));
    if (w.check) check_copied(*w.check, c);
  }
  copies.erase(copies.begin(), copies.begin() + (long)done);
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
