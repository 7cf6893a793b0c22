/* work.cpp - streams, events, modules, launches and graphs. */
#include "driver.h"

using namespace fake;

/* ------------------------------------------------------------- streams and events */

API cuStreamCreate(void **stream, unsigned flags) {
  NEED_CONTEXT;
  Stream *made = new Stream();
  made->blocking = !(flags & 1);
  made->device = device;
  device->streams.insert(made);
  *stream = made;
  return OK;
}
API cuStreamDestroy_v2(void *handle) {
  NEED_CONTEXT;
  Stream *stream = find(device, handle);
  if (!stream || !handle) return INVALID_HANDLE;
  run_until(stream, ~0ull);
  device->streams.erase(stream);
  delete stream;
  return OK;
}
API cuStreamSynchronize(void *handle) {
  NEED_CONTEXT;
  Stream *stream = find(device, handle);
  if (!stream) return INVALID_HANDLE;
  if (int status = forbid_capture(device)) return status;
  count("stream synchronisations");
  if (!handle)
    for (Stream *other : device->streams)
      if (other->blocking) run_until(other, ~0ull);
  return run_until(stream, ~0ull);
}
API cuStreamQuery(void *handle) {
  NEED_CONTEXT;
  Stream *stream = find(device, handle);
  if (!stream) return INVALID_HANDLE;
  return stream->pending.empty() ? OK : NOT_READY;
}
API cuEventCreate(void **event, unsigned flags) {
  NEED_CONTEXT;
  Event *made = new Event();
  made->device = device;
  made->timed = !(flags & 2);
  device->events.insert(made);
  *event = made;
  return OK;
}
API cuEventDestroy_v2(void *event) {
  NEED_CONTEXT;
  Event *given = static_cast<Event *>(event);
  if (!device->events.count(given)) return INVALID_HANDLE;
  /* The work that reaches the event may still be under way, and outlives it. */
  if (!given->reached) run_until(given->stream, given->turn + 1);
  device->events.erase(given);
  delete given;
  return OK;
}
API cuEventRecord(void *event, void *stream) {
  NEED_CONTEXT;
  Event *given = static_cast<Event *>(event);
  if (!device->events.count(given)) return INVALID_HANDLE;
  Stream *into = find(device, stream);
  if (!into) return INVALID_HANDLE;
  if (into->capturing) return CAPTURE_UNSUPPORTED;
  given->reached = given->polled = false;
  given->stream = into;
  count("events recorded");
  Op op;
  op.run = [=] {
    given->reached = true;
    given->at = device->clock;
    return OK;
  };
  const int status = give(device, stream, std::move(op));
  given->turn = last_turn();
  return status;
}
API cuEventSynchronize(void *event) {
  NEED_CONTEXT;
  Event *given = static_cast<Event *>(event);
  if (!device->events.count(given)) return INVALID_HANDLE;
  if (int status = forbid_capture(device)) return status;
  count("event synchronisations");
  return given->reached ? OK : run_until(given->stream, given->turn + 1);
}
API cuEventQuery(void *event) {
  NEED_CONTEXT;
  Event *given = static_cast<Event *>(event);
  if (!device->events.count(given)) return INVALID_HANDLE;
  if (given->reached) return OK;
  if (!given->polled) { /* time passes between two looks */
    given->polled = true;
    return NOT_READY;
  }
  return run_until(given->stream, given->turn + 1);
}
API cuEventElapsedTime_v2(float *ms, void *from, void *to) {
  NEED_CONTEXT;
  Event *a = static_cast<Event *>(from), *b = static_cast<Event *>(to);
  if (!a->timed || !b->timed || a->at < 0 || b->at < 0) return INVALID_HANDLE;
  if (!a->reached || !b->reached) return NOT_READY;
  *ms = (float)(b->at - a->at);
  return OK;
}
API cuEventElapsedTime(float *ms, void *from, void *to) { return cuEventElapsedTime_v2(ms, from, to); }
API cuStreamWaitEvent(void *stream, void *event, unsigned) {
  NEED_CONTEXT;
  Event *given = static_cast<Event *>(event);
  if (given->reached) return OK;
  count("waits");
  Stream *from = given->stream;
  const u64 turn = given->turn;
  Op op;
  op.before = [=] { run_until(from, turn + 1); };
  op.run = [] { return OK; };
  return give(device, stream, std::move(op));
}

/* ------------------------------------------------------------- modules and launches */

struct Launch {
  void *entry, *anchor;
  void *(*make)(void *, void *, void **, const i64 *);
  void (*start)(void *, int);
  int (*wait)(void *, int);
  i64 (*report)(void *, i64, i64 *);
  void (*free)(void *);
};

static int run_kernel(const Launch &api, const std::vector<char> &arguments, const std::vector<i64> &shape) {
  std::vector<void *> pointers;
  for (size_t i = 0; i + 8 <= arguments.size(); i += 8) pointers.push_back((void *)(arguments.data() + i));
  void *job = api.make(api.entry, api.anchor, pointers.data(), shape.data());
  api.start(job, 1);
  while (!api.wait(job, 1000)) {}
  const bool good = api.report(job, 1 << 30, nullptr) == 0;
  api.free(job);
  /* A real GPU tells more faults apart; here a kernel that trips is one that touched what it must not. */
  return good ? OK : ILLEGAL_ADDRESS;
}

API cuModuleLoadDataEx(void **module, const void *image, unsigned options, int *names, void **values) {
  NEED_CONTEXT;
  for (unsigned i = 0; i < options; i++)
    if (names[i] == 4 || names[i] == 6) values[i] = nullptr; /* the length of a log: nothing was said */
  const std::string text(static_cast<const char *>(image), strnlen(static_cast<const char *>(image), 4096));
  if (text.rfind("FAKECUDA\n", 0) != 0) return INVALID_IMAGE;
  const size_t one = text.find('\n') + 1, two = text.find('\n', one) + 1, three = text.find('\n', two);
  void *runtime = dlopen(text.substr(one, two - one - 1).c_str(), RTLD_NOW);
  void *code = dlopen(text.substr(two, three - two).c_str(), RTLD_NOW);
  if (!runtime || !code) return INVALID_IMAGE;
  /* The simulator is asked for through the kernels: the process may have another copy of it, which they are bound to. */
  Module *made = new Module{device, code, code};
  device->modules.insert(made);
  count("modules");
  *module = made;
  return OK;
}
API cuModuleUnload(void *module) {
  NEED_CONTEXT;
  Module *given = static_cast<Module *>(module);
  if (!device->modules.erase(given)) return INVALID_HANDLE;
  for (auto it = device->functions.begin(); it != device->functions.end();)
    it = it->first.first == given ? device->functions.erase(it) : std::next(it);
  delete given;
  return OK;
}
API cuModuleGetFunction(void **function, void *module, const char *name) {
  NEED_CONTEXT;
  Module *given = static_cast<Module *>(module);
  if (!dlsym(given->code, (std::string("cs_run_") + name).c_str())) return NOT_FOUND;
  auto &made = device->functions[{given, name}];
  if (!made) made.reset(new Function{given, name});
  *function = made.get();
  return OK;
}
API cuFuncGetAttribute(int *value, int attribute, void *function) {
  NEED_CONTEXT;
  switch (attribute) {
  case 0: *value = 1024; break; /* threads of a block */
  case 1: *value = 16; break;   /* static shared memory */
  case 3: *value = 0; break;    /* local memory */
  case 4: *value = 24; break;   /* registers */
  case 8: *value = static_cast<Function *>(function)->max_dynamic; break;
  default: *value = 0;
  }
  return OK;
}
API cuFuncSetAttribute(void *function, int attribute, int value) {
  NEED_CONTEXT;
  if (attribute != 8 || value < 0 || value + 16 > 227 << 10) return INVALID_VALUE;
  static_cast<Function *>(function)->max_dynamic = value;
  return OK;
}
API cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  NEED_CONTEXT;
  Function *given = static_cast<Function *>(function);
  if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 || gy > 65535 || gz > 65535) return INVALID_VALUE;
  if ((int)shared > given->max_dynamic || parameters || !extra) return INVALID_VALUE;
  std::vector<char> arguments;
  const char *bytes = nullptr;
  for (void **at = extra; *at; at += 2) {
    if ((size_t)*at == 1) bytes = static_cast<const char *>(at[1]);
    if ((size_t)*at == 2) arguments.resize(*static_cast<size_t *>(at[1]));
  }
  if (!arguments.empty()) memcpy(arguments.data(), bytes, arguments.size());
  const std::vector<i64> shape = {gx, gy, gz, bx, by, bz, shared, 0};
  Launch api;
  void *runtime = given->module->runtime, *code = given->module->code;
  api.entry = dlsym(code, ("cs_run_" + given->name).c_str());
  api.anchor = dlsym(code, "cs_shared_anchor");
  *(void **)&api.make = dlsym(runtime, "cs_job_new");
  *(void **)&api.start = dlsym(runtime, "cs_job_start");
  *(void **)&api.wait = dlsym(runtime, "cs_job_wait");
  *(void **)&api.report = dlsym(runtime, "cs_job_report");
  *(void **)&api.free = dlsym(runtime, "cs_job_free");
  count("launches");
  Op op;
  op.ms = 1;
  op.run = [=] {
    count("kernels run");
    return run_kernel(api, arguments, shape);
  };
  return give(device, stream, std::move(op));
}

/* ------------------------------------------------------------- graphs */

API cuStreamBeginCapture_v2(void *handle, int mode) {
  NEED_CONTEXT;
  Stream *stream = find(device, handle);
  if (!stream || !handle) return CAPTURE_UNSUPPORTED;
  if (stream->capturing) return INVALID_VALUE;
  stream->capturing = new Graph();
  stream->invalid = false;
  stream->relaxed = mode == 2;
  return OK;
}
API cuStreamEndCapture(void *handle, void **graph) {
  NEED_CONTEXT;
  Stream *stream = find(device, handle);
  *graph = nullptr;
  if (!stream || !stream->capturing) return INVALID_VALUE;
  Graph *made = stream->capturing;
  stream->capturing = nullptr;
  if (stream->invalid) {
    delete made;
    return CAPTURE_INVALIDATED;
  }
  device->graphs.insert(made);
  *graph = made;
  count("captures");
  return OK;
}
API cuGraphInstantiateWithFlags(void **executable, void *graph, u64) {
  NEED_CONTEXT;
  Graph *made = new Graph(*static_cast<Graph *>(graph));
  device->graphs.insert(made);
  *executable = made;
  return OK;
}
API cuGraphLaunch(void *executable, void *stream) {
  NEED_CONTEXT;
  Graph *given = static_cast<Graph *>(executable);
  if (!device->graphs.count(given)) return INVALID_HANDLE;
  count("graph launches");
  for (Op &op : given->ops)
    if (int status = give(device, stream, op)) return status;
  return OK;
}
static int destroy_graph(void *graph) {
  NEED_CONTEXT;
  if (!device->graphs.erase(static_cast<Graph *>(graph))) return INVALID_HANDLE;
  delete static_cast<Graph *>(graph);
  return OK;
}
API cuGraphDestroy(void *graph) { return destroy_graph(graph); }
API cuGraphExecDestroy(void *graph) { return destroy_graph(graph); }
