/* check.cpp - sees every load and store of a kernel, and says which of them are wrong.
 *
 * A checked kernel is compiled with `-fsanitize=thread`, which puts a call in front of every access to memory; the
 * functions called are the ones below, not libtsan's. Behind every granule of a buffer stands a cell with the last
 * write and two reads of different threads. Two accesses to a granule, one of them a write, are a race unless
 *
 *   - the same thread made both, or both are atomic
 *   - a barrier of the block lies between them: `epoch` counts the barriers
 *   - a __syncwarp lies between them: every lane knows how far it is behind or ahead of the others (`Clocks`)
 *   - the first thread released what it had done by a fence and an atomic operation, which the second thread has seen
 *     (locks do that, and reductions that the last block completes)
 *
 * Blocks of a checked launch run one after another, in order, so what is reported does not depend on luck. A shuffle or
 * a vote orders nothing: neither does it on a device. Shared memory is fresh for each block; a cell knows its block.
 *
 * `-fsanitize=bounds,alignment` adds what addresses cannot tell: an index beyond a declared array that still hits
 * another one, and vectors that are not aligned.
 */
#include "runtime.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unordered_map>

namespace cs {

struct Access {
  u32 stamp; /* block + 1; 0: there was none */
  u32 epoch, clock, pc;
  u16 thread;
  AccessKind kind;
  u8 mask; /* bytes of the granule */
};

struct Cell {
  Access write, read[2];
};

struct Shadow {
  Region region;
  Cell *cells;
  size_t bytes;
};

/* clock[a][b]: how much lane a knows of lane b; its own entry grows with every __syncwarp. */
struct Clocks {
  bool used;
  u32 clock[WARP][WARP];
};

/* A release that a thread of this block has seen: what its thread did up to `clock`, and its block before `epoch`. */
struct Known {
  u32 stamp, epoch, clock, thread;
  u32 by, at; /* the thread that saw it, in which epoch */
};

/* A stray address is said to miss the buffer that it is near to; arguments.py leaves this much around each. */
constexpr i64 FAR = 1 << 20;

struct Checker {
  Worker &worker;
  std::vector<Shadow> shadows; /* by address */
  Shadow *last;
  u32 stamp = 0, epoch = 0;
  Clocks clocks[MAX_THREADS / WARP];
  bool fenced[MAX_THREADS];
  u32 first_fence = ~0u; /* epoch of the first fence of this block */
  std::unordered_map<u32, std::vector<Known>> known;
  std::unordered_map<uintptr_t, std::vector<Known>> released; /* by the address of the atomic */

  explicit Checker(Worker &w);
  ~Checker();
  void add(Region region, char *begin);
  Shadow *find(const char *p);
  void access(const char *p, size_t size, AccessKind kind, const void *pc);
  void stray(const char *p, size_t size, AccessKind kind, const void *pc);
  bool ordered(const Access &before, u32 thread);
  void race(const Shadow &s, const char *p, size_t size, const Access &now, const Access &before, const void *pc);
  void synchronise(const void *p, u32 thread);
  Clocks &clocks_of(u32 warp);
};

static void put(std::vector<Known> &list, const Known &k) {
  for (Known &old : list)
    if (old.stamp == k.stamp && old.thread == k.thread && old.by == k.by) {
      old = k;
      return;
    }
  list.push_back(k);
}

Checker::Checker(Worker &w) : worker(w) {
  const Job &job = *w.job;
  for (const Region &r : job.globals) add(r, r.begin);
  char *anchor = job.anchor();
  for (const Region &r : job.statics) add(r, anchor + (intptr_t)r.begin);
  if (job.dynamic_bytes) {
    const i64 id = (i64)(job.globals.size() + job.statics.size());
    Region r = {nullptr, (char *)job.dynamic_bytes, job.dynamic_granule, true, id};
    add(r, w.here.dynamic);
  }
  std::sort(shadows.begin(), shadows.end(),
            [](const Shadow &a, const Shadow &b) { return a.region.begin < b.region.begin; });
  last = shadows.data();
}

void Checker::add(Region region, char *begin) {
  region.end = begin + (region.end - region.begin);
  region.begin = begin;
  if (!region.granule) {
    shadows.push_back({region, nullptr, 0});
    return;
  }
  const size_t granules = (size_t)(region.end - region.begin + region.granule - 1) / region.granule;
  if (!granules) return;
  const size_t bytes = granules * sizeof(Cell);
  /* Zero pages that take memory when they are touched. */
  void *cells = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) return; /* accesses then count as stray, which is seen */
  shadows.push_back({region, static_cast<Cell *>(cells), bytes});
}

Checker::~Checker() {
  for (const Shadow &s : shadows)
    if (s.cells) munmap(s.cells, s.bytes);
}

Shadow *Checker::find(const char *p) {
  if (shadows.empty()) return nullptr;
  if (p >= last->region.begin && p < last->region.end) return last;
  auto after = std::upper_bound(shadows.begin(), shadows.end(), p,
                                [](const char *q, const Shadow &s) { return q < s.region.begin; });
  if (after == shadows.begin() || p >= (after - 1)->region.end) return nullptr;
  return last = &*(after - 1);
}

/* An address in no buffer: harmless (a local variable, a table of the module, threadIdx), or out of bounds. */
void Checker::stray(const char *p, size_t size, AccessKind kind, const void *pc) {
  const Job &job = *worker.job;
  if (worker.owns_stack(p) || (p >= job.image && p < job.image_end)) return;
  if ((p >= (char *)&worker && p < (char *)(&worker + 1)) || p == (char *)&cs_now) return;
  Report more = Report();
  more.address = (i64)p;
  more.size = (i64)size;
  more.access = kind;
  more.region = -1;
  i64 nearest = 0;
  for (const Shadow &s : shadows) {
    const i64 distance = p < s.region.begin ? s.region.begin - p : p - s.region.end;
    if (distance > FAR || (more.region >= 0 && distance >= nearest)) continue;
    nearest = distance;
    more.region = s.region.id;
    more.offset = p - s.region.begin;
  }
  worker.report(OUT_OF_BOUNDS, pc, more);
  worker.abandon(); /* the access itself must not happen */
}

bool Checker::ordered(const Access &before, u32 thread) {
  if (before.stamp == stamp) {
    if (before.thread == thread || before.epoch < epoch) return true;
    const Clocks &c = clocks[thread / WARP];
    if (before.thread / WARP == thread / WARP && c.used &&
        before.clock <= c.clock[thread % WARP][before.thread % WARP])
      return true;
  }
  auto found = known.find(before.stamp);
  if (found == known.end()) return false;
  for (const Known &k : found->second)
    if ((before.epoch < k.epoch ||
         (before.epoch == k.epoch && before.thread == k.thread && before.clock <= k.clock)) &&
        (k.by == thread || k.at < epoch))
      return true;
  return false;
}

void Checker::race(const Shadow &s, const char *p, size_t size, const Access &now, const Access &before,
                   const void *pc) {
  Report more = Report();
  more.other_pc = before.pc;
  more.other_block = before.stamp - 1;
  more.other_thread = before.thread;
  more.access = now.kind;
  more.other_access = before.kind;
  more.address = (i64)p;
  more.region = s.region.id;
  more.offset = p - s.region.begin;
  more.size = (i64)size;
  worker.report(s.region.shared ? SHARED_RACE : GLOBAL_RACE, pc, more);
}

void Checker::access(const char *p, size_t size, AccessKind kind, const void *pc) {
  if (worker.owns_stack(p)) return;
  Shadow *s = find(p);
  if (!s || p + size > s->region.end) return stray(p, size, kind, pc);
  const u32 thread = worker.current->index, granule = s->region.granule;
  if (!granule) return;
  if (worker.recording)
    worker.note({thread, kind, (u32)((const char *)pc - worker.job->image), epoch, (u32)size, (i32)s->region.id,
                 p - s->region.begin});
  const Clocks &c = clocks[thread / WARP];
  if (kind == ATOMIC) synchronise(p, thread);

  Access now = {stamp, epoch, c.used ? c.clock[thread % WARP][thread % WARP] : 1,
                (u32)((const char *)pc - worker.job->image), (u16)thread, kind, 0};
  const size_t first = (size_t)(p - s->region.begin), end = first + size;
  const Access *raced = nullptr;
  bool fresh = false;
  Access found;
  for (size_t g = first / granule; g * granule < end; g++) {
    Cell &cell = s->cells[g];
    const size_t low = std::max(first, g * granule) - g * granule, high = std::min(end - g * granule, (size_t)granule);
    now.mask = (u8)((1u << high) - (1u << low));
    auto conflicts = [&](const Access &before) {
      if (!before.stamp || !(before.mask & now.mask)) return false;
      if (before.stamp != stamp && s->region.shared) return false; /* of an earlier block */
      if (before.kind == ATOMIC && kind == ATOMIC) return false;
      if (before.kind == ASYNC && before.stamp == stamp) return true; /* nobody has waited for the copy */
      return !ordered(before, thread);
    };
    if (!raced && conflicts(cell.write)) found = cell.write, raced = &found;
    if (kind == READ) {
      fresh |= s->region.shared && cell.write.stamp != stamp;
      Access *r = cell.read;
      /* Keep two readers, if possible of different warps: then a later write conflicts with one of them. */
      const u32 at = r[0].stamp == stamp && r[0].thread == thread   ? 0
                     : r[1].stamp == stamp && r[1].thread == thread ? 1
                     : !r[0].stamp || ordered(r[0], thread)         ? 0
                     : !r[1].stamp || ordered(r[1], thread)         ? 1
                     : r[0].thread / WARP == thread / WARP          ? 0
                                                                    : 1;
      r[at] = now;
    } else {
      if (!raced && conflicts(cell.read[0])) found = cell.read[0], raced = &found;
      if (!raced && conflicts(cell.read[1])) found = cell.read[1], raced = &found;
      cell.write = now;
      cell.read[0].stamp = cell.read[1].stamp = 0;
    }
  }
  if (raced) race(*s, p, size, now, *raced, pc);
  if (fresh) {
    Report more = Report();
    more.address = (i64)p;
    more.region = s->region.id;
    more.offset = (i64)first;
    more.size = (i64)size;
    worker.report(UNINITIALISED, pc, more);
  }
}

/* An atomic operation at `p`: sees what was released there, and releases what comes before a fence. */
void Checker::synchronise(const void *p, u32 thread) {
  auto found = released.find((uintptr_t)p);
  if (found != released.end())
    for (Known k : found->second) {
      k.by = thread, k.at = epoch;
      put(known[k.stamp], k);
    }
  if (!fenced[thread] && first_fence >= epoch) return;
  std::vector<Known> &here = released[(uintptr_t)p];
  if (found == released.end()) /* else all of these are there already, or follow from what is */
    for (const auto &earlier : known)
      for (const Known &k : earlier.second) put(here, k);
  u32 *own = clocks_of(thread / WARP).clock[thread % WARP];
  put(here, {stamp, epoch, own[thread % WARP]++, thread, 0, 0});
}

Clocks &Checker::clocks_of(u32 warp) {
  Clocks &c = clocks[warp];
  if (!c.used) {
    memset(c.clock, 0, sizeof c.clock);
    for (u32 l = 0; l < WARP; l++) c.clock[l][l] = 1;
    c.used = true;
  }
  return c;
}

/* ------------------------------------------------------------- for the scheduler */

void CheckerDeleter::operator()(Checker *c) const { delete c; }
Checker *make_checker(Worker &worker) { return new Checker(worker); }

void check_block(Checker &c) {
  c.stamp = (u32)c.worker.block_index + 1;
  c.epoch = 0;
  c.first_fence = ~0u;
  c.known.clear();
  memset(c.fenced, 0, sizeof c.fenced);
  for (Clocks &warp : c.clocks) warp.used = false;
}

void check_barrier(Checker &c) { c.epoch++; }

void check_syncwarp(Checker &c, u32 warp, u32 members) {
  Clocks &clocks = c.clocks_of(warp);
  u32 joined[WARP] = {};
  for (u32 open = members; open; open &= open - 1) {
    const u32 *lane = clocks.clock[__builtin_ctz(open)];
    for (u32 l = 0; l < WARP; l++) joined[l] = std::max(joined[l], lane[l]);
  }
  for (u32 open = members; open; open &= open - 1) {
    const u32 l = (u32)__builtin_ctz(open);
    memcpy(clocks.clock[l], joined, sizeof joined);
    clocks.clock[l][l]++;
  }
}

void check_fence(Checker &c) {
  c.fenced[c.worker.current->index] = true;
  c.first_fence = std::min(c.first_fence, c.epoch);
}

void check_access(Checker &c, const void *p, size_t size, AccessKind kind, const void *pc) {
  c.access(static_cast<const char *>(p), size, kind, pc);
}

/* An asynchronous copy has arrived: from now on its target was written by the thread that waited. */
void check_copied(Checker &c, const Copy &copy) {
  Shadow *s = c.find(copy.to);
  const Clocks &clocks = c.clocks[c.worker.current->index / WARP];
  const u32 lane = c.worker.current->index % WARP;
  const size_t first = (size_t)(copy.to - s->region.begin), granule = s->region.granule;
  for (size_t g = first / granule; g * granule < first + (size_t)copy.bytes; g++) {
    Access &write = s->cells[g].write;
    if (write.kind != ASYNC || write.thread != c.worker.current->index) continue; /* a race, and reported */
    write.kind = WRITE;
    write.epoch = c.epoch;
    write.clock = clocks.used ? clocks.clock[lane][lane] : 1;
  }
}

static void begins(Checker &c, const void *pc) {
  c.worker.note({c.worker.current->index, BEGINS, (u32)((const char *)pc - c.worker.job->image), c.epoch, 0, -1, 0});
}

static void seen(const volatile void *p, size_t size, AccessKind kind, const void *pc) {
  if (!cs_now) return;
  Worker &w = self();
  if (w.check) check_access(*w.check, const_cast<const void *>(p), size, kind, pc);
}

} // namespace cs

/* ------------------------------------------------------------- what the compiler calls */

using namespace cs;
#define HERE __builtin_return_address(0)

extern "C" {
/* -fsanitize-coverage=trace-pc, for recorded launches: at the beginning of every stretch of code without branches. */
void __sanitizer_cov_trace_pc() {
  if (cs_now && self().recording) begins(*self().check, HERE);
}

void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_read_range(void *p, size_t n) { seen(p, n, READ, HERE); }
void __tsan_write_range(void *p, size_t n) { seen(p, n, WRITE, HERE); }

#define SEEN(n)                                                                                                        \
  void __tsan_read##n(void *p) { seen(p, n, READ, HERE); }                                                             \
  void __tsan_write##n(void *p) { seen(p, n, WRITE, HERE); }                                                           \
  void __tsan_unaligned_read##n(void *p) { seen(p, n, READ, HERE); }                                                   \
  void __tsan_unaligned_write##n(void *p) { seen(p, n, WRITE, HERE); }
SEEN(1) SEEN(2) SEEN(4) SEEN(8) SEEN(16)
#undef SEEN

#define UPDATE(T, bits, name, builtin)                                                                                 \
  T __tsan_atomic##bits##_##name(volatile T *p, T v, int) {                                                            \
    seen(p, sizeof(T), ATOMIC, HERE);                                                                                  \
    return builtin(p, v, __ATOMIC_SEQ_CST);                                                                            \
  }
#define ATOMICS(T, bits)                                                                                               \
  UPDATE(T, bits, exchange, __atomic_exchange_n)                                                                       \
  UPDATE(T, bits, fetch_add, __atomic_fetch_add)                                                                       \
  UPDATE(T, bits, fetch_sub, __atomic_fetch_sub)                                                                       \
  UPDATE(T, bits, fetch_and, __atomic_fetch_and)                                                                       \
  UPDATE(T, bits, fetch_or, __atomic_fetch_or)                                                                         \
  UPDATE(T, bits, fetch_xor, __atomic_fetch_xor)                                                                       \
  T __tsan_atomic##bits##_load(const volatile T *p, int) {                                                             \
    seen(p, sizeof(T), ATOMIC, HERE);                                                                                  \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                                       \
  }                                                                                                                    \
  void __tsan_atomic##bits##_store(volatile T *p, T v, int) {                                                          \
    seen(p, sizeof(T), ATOMIC, HERE);                                                                                  \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                                          \
  }                                                                                                                    \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile T *p, T *expected, T v, int, int) {                      \
    seen(p, sizeof(T), ATOMIC, HERE);                                                                                  \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
  }                                                                                                                    \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile T *p, T *expected, T v, int, int) {                        \
    seen(p, sizeof(T), ATOMIC, HERE);                                                                                  \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
  }
ATOMICS(u8, 8) ATOMICS(u16, 16) ATOMICS(u32, 32) ATOMICS(u64, 64)
#undef ATOMICS
#undef UPDATE

/* -fsanitize=bounds,alignment: the place is found by the return address, as for the others. */
struct TypeName {
  u16 kind, info;
  char text[1];
};
struct Place {
  const char *file;
  u32 line, column;
};
struct IndexData {
  Place place;
  const TypeName *array, *index;
};
struct PointerData {
  Place place;
  const TypeName *type;
  u8 alignment, use; /* as a power of two; what was done */
};

void __ubsan_handle_out_of_bounds(IndexData *data, void *index) {
  Worker &w = self();
  Report more = Report();
  more.detail = (i64)index;
  /* Odd: signed. Narrow indices come without their sign. */
  const int bits = 1 << (data->index->info >> 1);
  if (data->index->info & 1 && bits < 64) more.detail = (i64)((u64)more.detail << (64 - bits)) >> (64 - bits);
  more.text = (i64)data->array->text;
  w.report(BAD_INDEX, HERE, more);
  w.abandon();
}

void __ubsan_handle_type_mismatch_v1(PointerData *data, void *p) {
  Worker &w = self();
  Report more = Report();
  more.address = (i64)p;
  more.size = 1ll << data->alignment;
  more.text = (i64)data->type->text;
  w.report(MISALIGNED, HERE, more);
  w.abandon();
}
}
