/* device.cpp - the driver, devices, contexts and memory. */
#include "driver.h"

using namespace fake;

static i64 setting(const char *name, i64 otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoll(text) : otherwise;
}

/* For tests: how often something happened. */
extern "C" __attribute__((visibility("default"))) i64 fakecuda_count(const char *what) {
  std::lock_guard<std::recursive_mutex> hold(big_lock);
  return counters.count(what) ? counters[what] : 0;
}

extern "C" __attribute__((visibility("default"))) i64 fakecuda_live(int id) {
  std::lock_guard<std::recursive_mutex> hold(big_lock);
  return (i64)devices[(size_t)id]->used;
}

/* For fake libraries: work of theirs in a stream. */
API fakecuda_give(void *stream, void (*run)(void *), void *data, void (*drop)(void *)) {
  NEED_CONTEXT;
  std::shared_ptr<void> held(data, drop);
  Op op;
  op.ms = 1;
  op.run = [=] {
    run(held.get());
    return OK;
  };
  return give(device, stream, std::move(op));
}

API cuInit(unsigned) {
  std::lock_guard<std::recursive_mutex> hold(big_lock);
  if (process == getpid()) return OK;
  if (process) return NOT_INITIALIZED; /* a child of a fork */
  const i64 wanted = setting("FAKECUDA_DEVICES", 1);
  if (wanted < 1) return NO_DEVICE;
  process = getpid();
  memory_limit = (size_t)setting("FAKECUDA_MEMORY", 1 << 30);
  peers_allowed = setting("FAKECUDA_PEER", 1) != 0;
  if (const char *file = getenv("FAKECUDA_REPORT")) report_file = file;
  for (i64 id = 0; id < wanted; id++) {
    devices.emplace_back(new Device());
    devices.back()->id = (int)id;
    devices.back()->legacy.device = devices.back().get();
  }
  return OK;
}

API cuDriverGetVersion(int *version) { *version = 13000; return OK; }

struct Words { int code; const char *name, *text; };
static const Words WORDS[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {PEER_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"}};

static const Words *words(int code) {
  for (const Words &entry : WORDS)
    if (entry.code == code) return &entry;
  return nullptr;
}
API cuGetErrorString(int code, const char **text) {
  const Words *found = words(code);
  *text = found ? found->text : "unknown error";
  return OK;
}
API cuGetErrorName(int code, const char **text) {
  const Words *found = words(code);
  *text = found ? found->name : "CUDA_ERROR_UNKNOWN";
  return OK;
}

/* ------------------------------------------------------------- devices and contexts */

API cuDeviceGetCount(int *n) { ENTER; *n = (int)devices.size(); return OK; }
API cuDeviceGet(int *device, int id) {
  ENTER;
  if (id < 0 || id >= (int)devices.size()) return INVALID_DEVICE;
  *device = id;
  return OK;
}
API cuDeviceGetName(char *name, int size, int id) { ENTER; snprintf(name, (size_t)size, "Fake GPU %d", id); return OK; }
API cuDeviceComputeCapability(int *major, int *minor, int) {
  ENTER;
  *major = 9;
  *minor = 0;
  return setting("FAKECUDA_BUSY", 0) == 2 ? DEVICE_UNAVAILABLE : OK;
}
API cuDeviceTotalMem_v2(size_t *bytes, int) { ENTER; *bytes = memory_limit; return OK; }
API cuDeviceGetPCIBusId(char *text, int size, int id) {
  ENTER;
  snprintf(text, (size_t)size, "0000:%02x:00.0", id + 1);
  return OK;
}
API cuDeviceGetAttribute(int *value, int attribute, int) {
  ENTER;
  switch (attribute) {
  case 1: *value = 1024; break;   /* threads of a block */
  case 8: *value = 48 << 10; break;
  case 10: *value = 32; break;    /* warp */
  case 16: *value = 4; break;     /* multiprocessors */
  case 75: *value = 9; break;
  case 76: *value = 0; break;
  case 97: *value = 227 << 10; break; /* shared memory, opted in to */
  default: *value = 0;
  }
  return OK;
}
API cuDeviceCanAccessPeer(int *can, int a, int b) { ENTER; *can = a != b && peers_allowed; return OK; }
API cuDevicePrimaryCtxRetain(void **context, int id) {
  ENTER;
  if (setting("FAKECUDA_BUSY", 0) == 1) return DEVICE_UNAVAILABLE;
  devices[(size_t)id]->retained++;
  *context = devices[(size_t)id].get();
  return devices[(size_t)id]->fault;
}
API cuDevicePrimaryCtxRelease_v2(int id) {
  ENTER;
  Device &device = *devices[(size_t)id];
  if (!device.retained) return INVALID_CONTEXT;
  device.retained--;
  return device.fault; /* the worst that a driver might do with a lost context */
}
API cuDevicePrimaryCtxGetState(int id, unsigned *flags, int *active) {
  ENTER;
  *flags = 0;
  *active = devices[(size_t)id]->retained != 0;
  return OK;
}
API cuCtxPushCurrent_v2(void *context) {
  ENTER;
  if (!context) return INVALID_CONTEXT;
  current.push_back(static_cast<Device *>(context));
  return OK;
}
API cuCtxPopCurrent_v2(void **context) {
  ENTER;
  if (current.empty()) return INVALID_CONTEXT;
  if (context) *context = current.back();
  current.pop_back();
  return OK;
}
API cuCtxGetCurrent(void **context) { ENTER; *context = top(); return OK; }
API cuCtxSetCurrent(void *context) {
  ENTER;
  if (!current.empty()) current.pop_back();
  if (context) current.push_back(static_cast<Device *>(context));
  return OK;
}
API cuCtxGetDevice(int *id) { ENTER; if (!top()) return INVALID_CONTEXT; *id = top()->id; return OK; }
API cuCtxSynchronize() {
  NEED_CONTEXT;
  count("context synchronisations");
  if (int status = forbid_capture(device)) return status;
  return run_all(device);
}
API cuCtxEnablePeerAccess(void *peer, unsigned) {
  NEED_CONTEXT;
  const int id = static_cast<Device *>(peer)->id;
  if (!peers_allowed) return NOT_SUPPORTED;
  return device->peers.insert(id).second ? OK : PEER_ALREADY_ENABLED;
}
API cuCtxDisablePeerAccess(void *peer) {
  NEED_CONTEXT;
  device->peers.erase(static_cast<Device *>(peer)->id);
  return OK;
}

/* ------------------------------------------------------------- memory */

API cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  NEED_CONTEXT;
  *free_bytes = memory_limit - device->used;
  *total = memory_limit;
  return OK;
}
API cuMemAlloc_v2(Address *address, size_t bytes) {
  NEED_CONTEXT;
  if (!bytes) return INVALID_VALUE;
  for (Stream *stream : device->streams)
    if (stream->capturing && !stream->relaxed) return forbid_capture(device);
  if (bytes > memory_limit || device->used + bytes > memory_limit) return OUT_OF_MEMORY;
  const size_t whole = (bytes + 255) / 256 * 256;
  void *memory = aligned_alloc(256, whole);
  if (!memory) return OUT_OF_MEMORY;
  memset(memory, 0xA5, whole);
  device->memory[(Address)memory] = bytes;
  device->used += bytes;
  *address = (Address)memory;
  count("allocations");
  return OK;
}
API cuMemFree_v2(Address address) {
  NEED_CONTEXT;
  if (int status = forbid_capture(device)) return status;
  if (int status = run_all(device)) return status; /* freeing waits for the device */
  auto found = device->memory.find(address);
  if (found == device->memory.end()) return INVALID_VALUE;
  device->used -= found->second;
  device->memory.erase(found);
  free((void *)address);
  count("frees");
  return OK;
}
API cuMemHostAlloc(void **host, size_t bytes, unsigned) {
  NEED_CONTEXT;
  if (bytes > memory_limit) return OUT_OF_MEMORY;
  const size_t whole = (bytes + 4095) / 4096 * 4096;
  if (!bytes || !(*host = aligned_alloc(4096, whole))) return INVALID_VALUE;
  device->pinned[(Address)*host] = whole;
  count("pinned allocations");
  return OK;
}
API cuMemFreeHost(void *host) {
  NEED_CONTEXT;
  if (int status = forbid_capture(device)) return status;
  if (int status = run_all(device)) return status;
  if (!device->pinned.erase((Address)host)) return INVALID_VALUE;
  free(host);
  return OK;
}
API cuMemHostGetDevicePointer_v2(Address *address, void *host, unsigned) {
  NEED_CONTEXT;
  *address = (Address)host;
  return OK;
}
API cuMemGetAddressRange_v2(Address *base, size_t *bytes, Address address) {
  NEED_CONTEXT;
  auto next = device->memory.upper_bound(address);
  if (next == device->memory.begin()) return INVALID_VALUE;
  --next;
  *base = next->first;
  *bytes = next->second;
  return OK;
}
API cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *stream) {
  NEED_CONTEXT;
  if (!on_device(device, to, bytes)) return INVALID_VALUE;
  if (is_pinned(from, bytes)) return copy_op(device, stream, to, (Address)from, bytes, "uploads");
  /* Pageable memory is read before the call returns. */
  auto staged = std::make_shared<std::vector<char>>((const char *)from, (const char *)from + bytes);
  count("uploads");
  count("bytes copied", (i64)bytes);
  Op op;
  op.ms = 0.25;
  op.run = [=] {
    memcpy((void *)to, staged->data(), bytes);
    return OK;
  };
  return give(device, stream, std::move(op));
}
API cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *stream) {
  NEED_CONTEXT;
  if (!on_device(device, from, bytes)) return INVALID_VALUE;
  if (int status = copy_op(device, stream, (Address)to, from, bytes, "downloads")) return status;
  if (is_pinned(to, bytes)) return OK;
  /* Pageable memory is written when the call returns. */
  return run_until(find(device, stream), ~0ull);
}
API cuMemcpyHtoD_v2(Address to, const void *from, size_t bytes) {
  if (int status = cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr)) return status;
  NEED_CONTEXT;
  return run_until(&device->legacy, ~0ull);
}
API cuMemcpyDtoH_v2(void *to, Address from, size_t bytes) {
  if (int status = cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr)) return status;
  NEED_CONTEXT;
  return run_until(&device->legacy, ~0ull);
}
API cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void *stream) {
  NEED_CONTEXT;
  if (!on_device(device, to, bytes) || !on_device(device, from, bytes)) return INVALID_VALUE;
  return copy_op(device, stream, to, from, bytes, "copies");
}
API cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) { return cuMemcpyDtoDAsync_v2(to, from, bytes, nullptr); }
API cuMemcpyPeerAsync(Address to, void *to_context, Address from, void *from_context, size_t bytes, void *stream) {
  NEED_CONTEXT;
  Device *target = static_cast<Device *>(to_context), *source = static_cast<Device *>(from_context);
  if (!holds(target->memory, to, bytes) || !holds(source->memory, from, bytes)) return INVALID_VALUE;
  return copy_op(device, stream, to, from, bytes, "peer copies");
}
API cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void *stream) {
  NEED_CONTEXT;
  if (!on_device(device, to, bytes)) return INVALID_VALUE;
  count("fills");
  Op op;
  op.ms = 0.25;
  op.run = [=] {
    memset((void *)to, value, bytes);
    return OK;
  };
  return give(device, stream, std::move(op));
}
