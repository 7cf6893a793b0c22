/* state.cpp - what there is, and the order in which work runs. */
#include "driver.h"

namespace fake {

std::recursive_mutex big_lock;
std::vector<std::unique_ptr<Device>> devices;
std::map<std::string, i64> counters;
size_t memory_limit = (size_t)1 << 30;
bool peers_allowed = true;
pid_t process = 0;
static u64 turns = 0;
std::string report_file;
thread_local std::vector<Device *> current;

Device *top() { return current.empty() ? nullptr : current.back(); }
void count(const char *what, i64 by) { counters[what] += by; }

/* ------------------------------------------------------------- order of work */

u64 last_turn() { return turns; }

static int run_one(Stream *stream) {
  Device *device = stream->device;
  Op op = std::move(stream->pending.front());
  stream->pending.pop_front();
  /* The legacy default stream and all blocking ones wait for each other. */
  if (stream == &device->legacy) {
    for (Stream *other : device->streams)
      if (other->blocking) run_until(other, op.turn);
  } else if (stream->blocking) {
    run_until(&device->legacy, op.turn);
  }
  if (op.before) op.before();
  if (device->fault) return device->fault;
  device->clock += op.ms;
  if (int status = op.run()) device->fault = status;
  return device->fault;
}

int run_until(Stream *stream, u64 turn) {
  while (!stream->pending.empty() && stream->pending.front().turn < turn)
    if (int status = run_one(stream)) return status;
  return stream->device->fault;
}

int run_all(Device *device) {
  run_until(&device->legacy, ~0ull);
  for (Stream *stream : device->streams) run_until(stream, ~0ull);
  return device->fault;
}

Stream *find(Device *device, void *handle) {
  /* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are the default stream by other names. */
  if (!handle || handle == (void *)1 || handle == (void *)2) return &device->legacy;
  Stream *stream = static_cast<Stream *>(handle);
  return device->streams.count(stream) ? stream : nullptr;
}

int give(Device *device, void *handle, Op op) {
  Stream *stream = find(device, handle);
  if (!stream) return INVALID_HANDLE;
  if (stream->capturing) {
    stream->capturing->ops.push_back(std::move(op));
    return OK;
  }
  if (stream == &device->legacy)
    for (Stream *other : device->streams)
      if (other->capturing && other->blocking) {
        other->invalid = true;
        return CAPTURE_IMPLICIT;
      }
  op.turn = ++turns;
  stream->pending.push_back(std::move(op));
  return OK;
}

int forbid_capture(Device *device) {
  for (Stream *stream : device->streams)
    if (stream->capturing) {
      stream->invalid = true;
      return CAPTURE_UNSUPPORTED;
    }
  return OK;
}

/* ------------------------------------------------------------- memory */

bool holds(const std::map<Address, size_t> &blocks, Address address, size_t bytes) {
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return false;
  --next;
  return address + bytes <= next->first + next->second;
}

bool on_device(Device *device, Address address, size_t bytes) {
  if (holds(device->memory, address, bytes)) return true;
  for (int id : device->peers)
    if (holds(devices[(size_t)id]->memory, address, bytes)) return true;
  return false;
}

bool is_pinned(const void *host, size_t bytes) {
  for (auto &device : devices)
    if (holds(device->pinned, (Address)host, bytes)) return true;
  return false;
}

int copy_op(Device *device, void *stream, Address to, Address from, size_t bytes, const char *what) {
  count(what);
  count("bytes copied", (i64)bytes);
  Op op;
  op.ms = 0.25;
  op.run = [=] {
    memcpy((void *)to, (const void *)from, bytes);
    return OK;
  };
  return give(device, stream, std::move(op));
}

struct AtExit {
  ~AtExit() {
    if (report_file.empty() || process != getpid()) return;
    FILE *file = fopen(report_file.c_str(), "w");
    if (!file) return;
    fprintf(file, "{");
    for (auto &entry : counters) fprintf(file, "\"%s\": %lld, ", entry.first.c_str(), entry.second);
    i64 left[7] = {0};
    for (auto &device : devices) {
      left[0] += (i64)device->memory.size();
      left[1] += (i64)device->pinned.size();
      left[2] += (i64)device->streams.size();
      left[3] += (i64)device->events.size();
      left[4] += (i64)device->modules.size();
      left[5] += (i64)device->graphs.size();
      left[6] += device->retained;
    }
    fprintf(file, "\"left\": {\"memory\": %lld, \"pinned\": %lld, \"streams\": %lld, \"events\": %lld, "
            "\"modules\": %lld, \"graphs\": %lld, \"contexts\": %lld}}\n",
            left[0], left[1], left[2], left[3], left[4], left[5], left[6]);
    fclose(file);
  }
} at_exit;

} // namespace fake
