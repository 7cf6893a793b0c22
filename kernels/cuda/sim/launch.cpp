/* launch.cpp - from a call in Python to blocks on OS threads, and back.
 *
 * OS threads are kept: each of them has its own copy of every module's __shared__ variables, which the C library makes
 * anew for a new thread. A launch hands out one ticket to each of them that shall take part. The caller waits in
 * slices, so that Python can notice Ctrl-C; `cs_job_cancel` then stops kernels that never end by a signal.
 */
#include "runtime.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>

namespace cs {

/* ------------------------------------------------------------- OS threads */

struct Pool {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<Job *> tickets;
  std::vector<Worker *> workers;
  int idle = 0;
  pid_t process = getpid();
};

/* Never destroyed: its threads sleep until the process ends. A forked child, which has none of them, makes its own. */
static Pool &pool() {
  static std::mutex lock;
  static Pool *found = nullptr;
  std::lock_guard<std::mutex> hold(lock);
  if (!found || found->process != getpid()) found = new Pool();
  return *found;
}

constexpr size_t SIGNAL_STACK = 64 << 10;

static void work(Pool *p) {
  Worker *worker = new Worker();
  worker->thread = pthread_self();
  stack_t own = {};
  own.ss_sp = mmap(nullptr, SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  own.ss_size = SIGNAL_STACK;
  sigaltstack(&own, nullptr);
  std::unique_lock<std::mutex> hold(p->lock);
  p->workers.push_back(worker);
  p->idle++;
  for (;;) {
    p->changed.wait(hold, [&] { return !p->tickets.empty(); });
    Job *job = p->tickets.front();
    p->tickets.pop_front();
    p->idle--;
    hold.unlock();
    worker->run(*job);
    hold.lock();
    p->idle++; /* before the launch ends, so that the next one finds this thread */
    std::lock_guard<std::mutex> mine(job->lock);
    job->tickets--;
    job->changed.notify_all(); /* under the lock: the job may be freed right after */
  }
}

/* ------------------------------------------------------------- signals */

static std::mutex handlers_lock;
static int handlers_users = 0;
static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction before[4], before_cancel;
static const int CANCEL = SIGURG; /* ignored by default, so a late one does no harm */

static const char *instruction(void *context) {
  auto *machine = &static_cast<ucontext_t *>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<const char *>(machine->gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<const char *>(machine->pc);
#else
  (void)machine;
  return nullptr;
#endif
}

/* The kernel is left from within the handler: it runs on a stack of its own, and the signal is not blocked in it. */
static void handle(int signal, siginfo_t *info, void *context) {
  const char *pc = instruction(context);
  if (cs_now) {
    Worker &w = self();
    const bool in_kernel = pc >= w.job->image && pc < w.job->image_end;
    if (signal == CANCEL) {
      if (w.job->stop && in_kernel) w.abandon(); /* elsewhere locks may be held: the next signal will do */
      return;
    }
    Report more = Report();
    more.address = (i64)info->si_addr;
    more.detail = signal;
    more.region = -1;
    more.offset = w.owns_stack(info->si_addr); /* the page below a stack */
    /* A function of the runtime that the kernel called knows from where; +1 as for return addresses. */
    w.report(FAULT, in_kernel ? pc + 1 : w.current->pc, more);
    w.abandon();
  }
  if (signal == CANCEL) return;
  for (size_t i = 0; i < 4; i++) {
    if (FAULTS[i] != signal) continue;
    if (before[i].sa_flags & SA_SIGINFO)
      before[i].sa_sigaction(signal, info, context);
    else if (before[i].sa_handler != SIG_DFL && before[i].sa_handler != SIG_IGN)
      before[i].sa_handler(signal);
    else
      sigaction(signal, &before[i], nullptr); /* it happens again, and is fatal */
  }
}

void install_handlers() {
  std::lock_guard<std::mutex> hold(handlers_lock);
  if (handlers_users++) return;
  struct sigaction own = {};
  own.sa_sigaction = handle;
  own.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (size_t i = 0; i < 4; i++) sigaction(FAULTS[i], &own, &before[i]);
  own.sa_flags |= SA_RESTART;
  sigaction(CANCEL, &own, &before_cancel);
}

void remove_handlers() {
  std::lock_guard<std::mutex> hold(handlers_lock);
  if (--handlers_users) return;
  for (size_t i = 0; i < 4; i++) sigaction(FAULTS[i], &before[i], nullptr);
  sigaction(CANCEL, &before_cancel, nullptr);
}

/* ------------------------------------------------------------- the module's memory */

static int find_image(dl_phdr_info *info, size_t, void *data) {
  Job &job = *static_cast<Job *>(data);
  if ((char *)info->dlpi_addr != job.image) return 0;
  job.image_end = job.image;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD) {
      char *end = job.image + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
      if (end > job.image_end) job.image_end = end;
    }
  return 1;
}

} // namespace cs

/* ------------------------------------------------------------- for Python */

using namespace cs;

extern "C" {

/* shape: grid x y z, block x y z, bytes of dynamic shared memory, check */
void *cs_job_new(void *kernel, void *anchor, void **args, const i64 *shape) {
  Job *job = new Job();
  job->kernel = reinterpret_cast<void (*)(void **)>(kernel);
  job->anchor = reinterpret_cast<char *(*)()>(anchor);
  job->args = args;
  job->grid = dim3((unsigned)shape[0], (unsigned)shape[1], (unsigned)shape[2]);
  job->block = dim3((unsigned)shape[3], (unsigned)shape[4], (unsigned)shape[5]);
  job->blocks = shape[0] * shape[1] * shape[2];
  job->threads = (u32)(shape[3] * shape[4] * shape[5]);
  job->dynamic_bytes = (size_t)shape[6];
  job->check = shape[7] != 0;
  Dl_info where;
  dladdr(kernel, &where);
  job->image = (char *)where.dli_fbase;
  dl_iterate_phdr(find_image, job);
  return job;
}

/* Buffers first, then the __shared__ arrays by their distance from the anchor: they are numbered in this order. */
void cs_job_region(void *handle, i64 begin, i64 bytes, i64 granule, int is_shared) {
  Job &job = *static_cast<Job *>(handle);
  std::vector<Region> &list = is_shared ? job.statics : job.globals;
  const i64 id = (i64)(job.globals.size() + job.statics.size());
  list.push_back({(char *)begin, (char *)(begin + bytes), (u32)granule, is_shared != 0, id});
}

/* The granule of the dynamic shared memory. */
void cs_job_dynamic(void *handle, i64 granule) { static_cast<Job *>(handle)->dynamic_granule = (u32)granule; }

void cs_job_start(void *handle, int workers) {
  Job &job = *static_cast<Job *>(handle);
  install_handlers();
  job.tickets = workers;
  Pool &p = pool();
  std::lock_guard<std::mutex> hold(p.lock);
  for (int i = 0; i < workers; i++) p.tickets.push_back(&job);
  for (int missing = (int)p.tickets.size() - p.idle; missing > 0; missing--) std::thread(work, &p).detach();
  p.changed.notify_all();
}

/* 1 when the launch has ended, 0 when it has not after so many milliseconds. */
int cs_job_wait(void *handle, int ms) {
  Job &job = *static_cast<Job *>(handle);
  std::unique_lock<std::mutex> hold(job.lock);
  return job.changed.wait_for(hold, std::chrono::milliseconds(ms), [&] { return job.tickets == 0; });
}

/* Ask the launch to end, wherever its threads are. */
void cs_job_cancel(void *handle) {
  Job &job = *static_cast<Job *>(handle);
  job.stop = true;
  Pool &p = pool();
  std::lock_guard<std::mutex> hold(p.lock);
  for (Worker *w : p.workers)
    if (w->job == &job) pthread_kill(w->thread, CANCEL);
}

i64 cs_job_report(void *handle, i64 index, i64 *fields) {
  Job &job = *static_cast<Job *>(handle);
  const i64 count = (i64)job.reports.size();
  if (index < count) memcpy(fields, &job.reports[(size_t)index], sizeof(Report));
  return count;
}

const char *cs_job_output(void *handle, i64 *length) {
  Job &job = *static_cast<Job *>(handle);
  *length = (i64)job.output.size();
  return job.output.data();
}

i64 cs_job_watched(void *handle, i64 index, i64 *fields, double *value) {
  Job &job = *static_cast<Job *>(handle);
  const i64 count = (i64)job.watched.size();
  if (index < count) {
    memcpy(fields, &job.watched[(size_t)index], 4 * sizeof(i64));
    *value = job.watched[(size_t)index].value;
  }
  return count;
}

/* Ask for the record of a block, or of Record::ANY, of at most so many events of each thread; before the start. */
void cs_job_record(void *handle, i64 block, i64 most) {
  Job &job = *static_cast<Job *>(handle);
  job.record.block = block;
  job.record.most = (u32)most;
}

/* info: the recorded block or -1, events, threads */
const void *cs_job_events(void *handle, i64 *info) {
  const Record &r = static_cast<Job *>(handle)->record;
  info[0] = r.kept, info[1] = (i64)r.events.size(), info[2] = (i64)r.ends.size();
  return r.events.data();
}

const void *cs_job_ends(void *handle) { return static_cast<Job *>(handle)->record.ends.data(); }

void cs_job_free(void *handle) {
  remove_handlers();
  delete static_cast<Job *>(handle);
}
}
