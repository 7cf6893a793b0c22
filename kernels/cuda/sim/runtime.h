/* runtime.h - the inside of the simulator: threads on fibers, warps, the block that runs, the launch.
 *
 *   Job      one launch: a kernel with its arguments, its grid, and what was found wrong
 *   Worker   an OS thread that runs blocks of a job, one after another; owns the fibers' stacks
 *   Thread   a CUDA thread of the running block
 *   Warp     32 of them, and the warp operations some of them wait in
 *   Checker  sees every access to memory (check.cpp); a worker has one when the job asks for it
 */
#pragma once
#include "interface.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <string>
#include <vector>

#if defined(__x86_64__) && !defined(CS_UCONTEXT)
#define CS_ASM_FIBERS 1
#else
#include <ucontext.h>
#endif

namespace cs {

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef long long i64;

constexpr u32 MAX_THREADS = 1024, WARP = 32, FULL_WARP = ~0u;

/* ------------------------------------------------------------- fibers */

struct Context {
#if defined(CS_ASM_FIBERS)
  void *sp = nullptr;
#else
  ucontext_t machine;
#endif
};
void switch_to(Context &from, Context &to);
void prepare(Context &context, char *bottom, char *top, void (*entry)());

/* ------------------------------------------------------------- what is reported */

/* The numbers are known to maxlab/driver/sim/reports.py. */
enum Kind : i64 {
  SHARED_RACE = 0,
  GLOBAL_RACE = 1,
  OUT_OF_BOUNDS = 2, /* an address in no buffer */
  UNINITIALISED = 3,
  MIXED_BARRIER = 4, /* threads met at barriers of different places */
  STUCK = 5,         /* one for each place where threads wait for ever */
  MISALIGNED = 6,
  BAD_INDEX = 7, /* an index beyond a declared array */
  BAD_LANE = 8,  /* a shuffle from a lane that takes no part */
  BAD_MASK = 9,
  FAULT = 10, /* the machine refused an instruction */
  TRAP = 11,
};

enum AccessKind : u8 { READ = 0, WRITE = 1, ATOMIC = 2, ASYNC = 3 };

/* All fields are i64, so that Python reads a row of numbers. */
struct Report {
  i64 kind, pc, other_pc;             /* relative to the module */
  i64 block, thread;                  /* linear; -1 when there is none */
  i64 other_block, other_thread;
  i64 access, other_access;
  i64 address, region, offset, size;  /* region: the nearest buffer or -1; offset: in it, in bytes */
  i64 detail;                         /* mask, index, signal or number of threads, by kind */
  i64 text;                           /* const char *, or 0 */
  i64 count;                          /* how often the same was seen */
};
constexpr size_t MAX_REPORTS = 64;

/* ------------------------------------------------------------- the launch */

struct Region {
  char *begin, *end;
  u32 granule; /* bytes that are always accessed together; 0: a variable of the compiler's own */
  bool shared;
  i64 id;
};

struct Watched {
  i64 block, thread, line, name;
  double value;
};

/* What one thread of the recorded block did: an access to a buffer, or the beginning of a stretch of code without
 * branches (size 0, region -1). Python reads the rows as they are: maxlab/driver/sim/record.py. */
struct Event {
  u32 thread, kind, pc, epoch; /* kind: an AccessKind, or BEGINS; epoch: barriers of the block before it */
  u32 size;
  i32 region;
  i64 offset;
};
constexpr u32 BEGINS = 4;

/* How a thread of the recorded block ended. state: a State, or -1 if it never began; cut: not all events were kept */
struct End {
  i64 state, pc, mask, cut;
};

/* `block`: the one to record; ANY: the first that something is reported of, else the first of all. */
struct Record {
  static constexpr i64 NONE = -2, ANY = -1;
  i64 block = NONE, kept = -1; /* kept: the block that the events below are of */
  bool faulty = false;
  u32 most = 0; /* events of each thread: then all lanes of a warp are cut at the same place */
  std::vector<Event> events;
  std::vector<End> ends;
};

struct Job {
  void (*kernel)(void **);
  void **args;
  char *(*anchor)(void); /* see CS_MODULE in cudasim.h */
  dim3 grid, block;
  i64 blocks;
  u32 threads;
  size_t dynamic_bytes;
  u32 dynamic_granule = 1;
  bool check;
  char *image, *image_end;      /* the module's code and data */
  std::vector<Region> globals;  /* buffers of the launch */
  std::vector<Region> statics;  /* __shared__ arrays; begin is relative to the anchor */

  std::atomic<i64> next{0};
  std::atomic<bool> stop{false};
  std::mutex lock; /* of all below */
  std::condition_variable changed;
  int tickets = 0; /* workers that have not ended */
  std::vector<Report> reports;
  std::string output;
  std::vector<Watched> watched;
  Record record; /* only for checked launches, which have one worker */

  void add(Report report);
};

/* ------------------------------------------------------------- a block */

enum State : u8 { RUNNING, AT_BARRIER, IN_WARP, ASKING, ENDED };

enum WarpOp : u32 { OP_SYNC, OP_SHUFFLE, OP_VOTE, OP_MATCH, OP_FOLD, OP_BF16, OP_F16, OP_LDMATRIX, OP_LDMATRIX_TRANS };

struct Copy { /* an asynchronous copy under way */
  char *to;
  const char *from;
  int bytes, valid;
  u32 group;
  const void *pc;
};

/* What a switch reads and writes is in the first cache line: with hundreds of threads the rest is not in the L1. */
struct alignas(64) Thread {
  Context context;
  uint3 id;
  u16 index;
  State state;
  bool copying; /* has asynchronous copies under way */
  u32 stack;
  u32 mask, op;  /* of the warp operation it waits in */
  const void *pc;
  u32 committed; /* groups of asynchronous copies */
  u32 in[12], out[4]; /* operands and result of the warp operation */
};

struct Slot { /* a warp operation that some lanes have reached; its number is the lowest lane of its mask */
  u32 mask, arrived, op;
};

struct Warp {
  u32 alive;   /* lanes that have not ended */
  u32 running; /* of these, the ones that do not wait */
  u32 asking;  /* lanes in __activemask */
  u32 pending; /* slots in use */
  Slot slot[WARP];
};

struct Checker;
struct CheckerDeleter {
  void operator()(Checker *) const;
};

struct Worker {
  cs_here here; /* first: cs_now points at it */
  Job *job = nullptr;
  Thread *current = nullptr;
  std::unique_ptr<Checker, CheckerDeleter> check;
  i64 block_index = 0;
  bool abandoned = false;
  bool recording = false, reported = false; /* the running block */
  std::vector<Event> events;
  u32 noted[MAX_THREADS]; /* events of each thread */

  u32 started = 0, alive = 0, arrived = 0;
  u32 predicates = 0;           /* of the barrier that fills */
  u32 folded = 0, members = 0;  /* of the last complete one */
  const void *barrier_pc = nullptr;
  uint3 next_id;
  u32 ready_at = 0, ready_count = 0;
  u16 ready[MAX_THREADS] = {}; /* a ring */
  Thread threads[MAX_THREADS];
  Warp warps[MAX_THREADS / WARP];
  std::vector<Copy> copies[MAX_THREADS];

  Context main, discarded;
  char *stacks = nullptr;
  u32 stacks_made = 0, free_count = 0;
  u16 free_stacks[MAX_THREADS];
  char *dynamic = nullptr; /* pages, the last of them without access */
  size_t dynamic_pages = 0;
  pthread_t thread;

  Worker();
  void run(Job &job);
  void run_block(i64 index);

  void syncthreads(int predicate, const void *pc);
  Thread &collect(u32 mask, u32 op, const void *pc);
  u32 activemask(const void *pc);
  void yield();
  void end_thread();
  [[noreturn]] void abandon(); /* the launch, from within a fiber */
  void report(Kind kind, const void *pc, Report more = Report());
  void note(Event event);

  Warp &warp() { return warps[current->index / WARP]; }
  bool owns_stack(const void *p) const { return (size_t)((const char *)p - stacks) < stacks_bytes(); }
  static size_t stacks_bytes();

private:
  void enter(Thread &t);
  Thread &begin();
  void start(Thread &t);
  void wait(Thread &t, State state);
  void wake(Thread &t);
  void go_on(Thread &t, bool polite = false);
  void complete_barrier();
  void complete(Warp &w, u32 slot);
  void resolve_asking(Warp &w);
  void combine(Warp &w, u32 members, u32 op);
  [[noreturn]] void stuck();
  u32 take_stack();
  void keep_record();
  void prepare_dynamic(size_t bytes);
};

inline Worker &self() { return *reinterpret_cast<Worker *>(cs_now); }

/* ------------------------------------------------------------- check.cpp */

Checker *make_checker(Worker &worker);
void check_block(Checker &);
void check_barrier(Checker &);
void check_syncwarp(Checker &, u32 warp, u32 members);
void check_fence(Checker &);
void check_access(Checker &, const void *p, size_t size, AccessKind kind, const void *pc);
void check_copied(Checker &, const Copy &copy);

/* ------------------------------------------------------------- launch.cpp */

void install_handlers();
void remove_handlers();

} // namespace cs
