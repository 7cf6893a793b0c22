/* driver.h - a CUDA driver without a GPU, for tests: a real libcuda.so.1 that PyCUDA is loaded with.
 *
 * Memory is host memory, kernels run on maxlab's simulator. What a driver promises is kept and nothing more:
 *
 *   - Work is put into its stream and runs as late as possible: when somebody waits for it. So a missing
 *     synchronisation shows as old data, every time. What runs then is what CUDA's rules order before it: the same
 *     stream, events waited for, and the legacy default stream.
 *   - A thread needs a current context (201), a process that forked has none at all (3).
 *   - A fault of a kernel is sticky: from then on every call on the device fails with it (700), until the
 *     process ends.
 *   - Memory outside of an allocation is refused (1), fresh memory is 0xA5, a limit can be set, leaks are counted.
 *
 * Settings, read by cuInit: FAKECUDA_DEVICES (1), FAKECUDA_MEMORY (bytes, 1 GiB), FAKECUDA_PEER (1), FAKECUDA_BUSY
 * (1: another process has the device, 2: it says so a little later), FAKECUDA_REPORT (a file that gets the counters,
 * and what was not given back, when the process ends).
 * A module image is "FAKECUDA\n<runtime library>\n<module library>\n".
 */
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

typedef unsigned long long u64;
typedef long long i64;
typedef u64 Address;

enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEVICE_UNAVAILABLE = 46, NO_DEVICE = 100, INVALID_DEVICE = 101,
  INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
  ILLEGAL_ADDRESS = 700, PEER_ALREADY_ENABLED = 704, NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_IMPLICIT = 906
};

#define API extern "C" __attribute__((visibility("default"))) int

namespace fake {

struct Stream;
struct Device;

struct Op {
  u64 turn = 0; /* the order in which work was given; whatever an operation depends on has a lower one */
  std::function<int()> run;
  std::function<void()> before; /* runs what it waits for */
  double ms = 0;
};

struct Graph { std::vector<Op> ops; };

struct Stream {
  Device *device;
  std::deque<Op> pending;
  Graph *capturing = nullptr;
  bool invalid = false, relaxed = false;
  bool blocking = true; /* waits for the legacy default stream, and it for this one */
};

struct Event {
  Device *device;
  bool timed, reached = true, polled = false;
  Stream *stream = nullptr;
  u64 turn = 0;
  double at = -1;
};

struct Module { Device *device; void *runtime, *code; };
struct Function { Module *module; std::string name; int max_dynamic = 48 << 10; };

struct Device {
  int id = 0, fault = 0;
  unsigned retained = 0;
  std::map<Address, size_t> memory;
  std::map<Address, size_t> pinned;
  size_t used = 0;
  std::set<Stream *> streams;
  std::set<Event *> events;
  std::set<Module *> modules;
  std::set<Graph *> graphs;
  std::set<int> peers;
  Stream legacy;
  double clock = 0;
  std::map<std::pair<Module *, std::string>, std::unique_ptr<Function>> functions;
};

extern std::recursive_mutex big_lock;
extern std::vector<std::unique_ptr<Device>> devices;
extern std::map<std::string, i64> counters;
extern size_t memory_limit;
extern bool peers_allowed;
extern pid_t process;
extern std::string report_file;
extern thread_local std::vector<Device *> current; /* a context is its device: only primary ones are made */

Device *top();
void count(const char *what, i64 by = 1);

/* The stream of a handle, null if there is none. */
Stream *find(Device *device, void *handle);
/* Put work into a stream, or into what it records. */
int give(Device *device, void *handle, Op op);
/* The turn of what was given last. */
u64 last_turn();
/* Run what a stream was given before a turn, and what that depends on; the device's fault or 0. */
int run_until(Stream *stream, u64 turn);
int run_all(Device *device);
/* What may not happen while a stream of the device records. */
int forbid_capture(Device *device);

bool holds(const std::map<Address, size_t> &blocks, Address address, size_t bytes);
bool on_device(Device *device, Address address, size_t bytes);
bool is_pinned(const void *host, size_t bytes);
int copy_op(Device *device, void *stream, Address to, Address from, size_t bytes, const char *what);

} // namespace fake

#define ENTER                                                                                                          \
  std::lock_guard<std::recursive_mutex> hold(big_lock);                                                                \
  if (process != getpid()) return NOT_INITIALIZED
#define NEED_CONTEXT                                                                                                   \
  ENTER;                                                                                                               \
  Device *device = top();                                                                                              \
  if (!device) return INVALID_CONTEXT;                                                                                 \
  if (device->fault) return device->fault
