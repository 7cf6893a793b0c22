// fake_nvml.c - a libnvidia-ml.so.1 for machines without a GPU.
//
// The part of NVML's C interface that maxlab uses, with NVML's own struct layouts and error codes. What it tells stands
// in a text file (see fake.h), read anew at every call:
//
//   init 18                     nvmlInit fails with this code (nvmlError_t)
//   count 999                   so does counting the GPUs
//   gpu 0 total=1000 free=600 used=300 reserved=100 util=40 memutil=7
//   gpu 1 total=1000 free=600 used=300+5 memory_v2=!13 util=!3
//   gpu 2 handle=!15 mig=1 slots=7 delay_ms=50
//   gpu 2.1 total=500 free=400 used=100 reserved=0                 a MIG instance, in slot 1 of GPU 2
//
// Clocks, power, temperature, links and processes are in fake_counters.h. `memory` and `memory_v2` are the two calls for memory, `util` is that of nvmlDeviceGetUtilizationRates. A GPU without
// `mig` has no MIG mode. `delay_ms` is how long each call takes. `log=1` notes each reading of the memory in the log.

#include "fake.h"


enum {
  SUCCESS = 0,
  UNINITIALIZED = 1,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  GPU_IS_LOST = 15,
  ARGUMENT_VERSION_MISMATCH = 25,
  UNKNOWN = 999,
};

typedef struct nvmlDevice_st { char name[16]; u64 reads; int stale; } *nvmlDevice_t;
typedef struct { u64 total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; u64 total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;

#define MEMORY_V2 ((unsigned)(sizeof(nvmlMemory_v2_t) | 2u << 24))

static int users;
static struct nvmlDevice_st devices[256];

static int field(nvmlDevice_t device, const char *name, int missing, u64 *value) {
  return fake_field(device->name, name, missing, UNKNOWN, device->reads, value);
}

// Whether a call on this device can be made at all: it is still there, and it answers after its time. The handle of a GPU
// that was lost stays lost when the GPU is back.
static int reach(nvmlDevice_t device) {
  u64 value = 0;
  if (users == 0) return UNINITIALIZED;
  if (!device) return INVALID_ARGUMENT;
  if (field(device, "delay_ms", NOT_FOUND, &value) == SUCCESS) usleep((useconds_t)(value * 1000));
  int code = field(device, "handle", SUCCESS, &value);
  if (code) device->stale = 1;
  return device->stale ? (code ? code : GPU_IS_LOST) : SUCCESS;
}

static int device_named(const char *name, nvmlDevice_t *device) {
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    if (!devices[i].name[0]) snprintf(devices[i].name, sizeof devices[i].name, "%s", name);
    if (strcmp(devices[i].name, name)) continue;
    *device = &devices[i];
    devices[i].stale = 0;
    return reach(*device);
  }
  return UNKNOWN;
}

API int nvmlInitWithFlags(unsigned flags) {
  char rest[1024];
  if (flags) return INVALID_ARGUMENT;
  if (fake_line("init", rest, sizeof rest)) return atoi(rest);
  users++;
  fake_note("init");
  return SUCCESS;
}

API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

API int nvmlShutdown(void) {
  if (users == 0) return UNINITIALIZED;
  users--;
  fake_note("shutdown");
  return SUCCESS;
}

API const char *nvmlErrorString(int code) {
  static char text[32];
  snprintf(text, sizeof text, "fake error %d", code);
  return text;
}

API int nvmlDeviceGetCount_v2(unsigned *count) {
  char name[16], rest[1024];
  if (users == 0) return UNINITIALIZED;
  if (fake_line("count", rest, sizeof rest)) return atoi(rest);
  for (*count = 0;; ++*count) {
    snprintf(name, sizeof name, "gpu %u", *count);
    if (!fake_line(name, rest, sizeof rest)) return SUCCESS;
  }
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
  char name[16];
  if (users == 0) return UNINITIALIZED;
  snprintf(name, sizeof name, "gpu %u", index);
  return device_named(name, device);
}

API int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  u64 failure = 0, reserved = 0;
  int code = reach(device);
  if (!code) code = field(device, "memory", SUCCESS, &failure);
  if (!code) code = field(device, "total", NOT_SUPPORTED, &memory->total);
  if (!code) code = field(device, "free", NOT_SUPPORTED, &memory->free);
  if (!code) code = field(device, "used", NOT_SUPPORTED, &memory->used);
  if (code) return code;
  // The older call counts what the driver holds as used.
  if (!field(device, "reserved", NOT_SUPPORTED, &reserved)) memory->used += reserved;
  device->reads++;
  return SUCCESS;
}

#ifndef WITHOUT_MEMORY_V2
API int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
  u64 failure = 0;
  int code = reach(device);
  if (!code && memory->version != MEMORY_V2) code = ARGUMENT_VERSION_MISMATCH;
  if (!code) code = field(device, "memory_v2", SUCCESS, &failure);
  if (!code) code = field(device, "total", NOT_SUPPORTED, &memory->total);
  if (!code) code = field(device, "reserved", NOT_SUPPORTED, &memory->reserved);
  if (!code) code = field(device, "free", NOT_SUPPORTED, &memory->free);
  if (!code) code = field(device, "used", NOT_SUPPORTED, &memory->used);
  if (code) return code;
  device->reads++;
  u64 log = 0;
  if (!field(device, "log", NOT_SUPPORTED, &log)) fake_note("read");
  return SUCCESS;
}
#endif

API int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
  u64 gpu = 0, memory = 0;
  int code = reach(device);
  if (!code) code = field(device, "util", NOT_SUPPORTED, &gpu);
  if (!code) code = field(device, "memutil", NOT_SUPPORTED, &memory);
  if (code) return code;
  utilization->gpu = (unsigned)gpu;
  utilization->memory = (unsigned)memory;
  return SUCCESS;
}

API int nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
  u64 mode = 0;
  int code = reach(device);
  if (!code) code = field(device, "mig", NOT_SUPPORTED, &mode);
  if (code) return code;
  *current = *pending = (unsigned)mode;
  return SUCCESS;
}

API int nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
  u64 slots = 0;
  int code = reach(device);
  if (!code) code = field(device, "slots", NOT_SUPPORTED, &slots);
  if (code) return code;
  *count = (unsigned)slots;
  return SUCCESS;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *instance) {
  char name[32], rest[1024];
  int code = reach(device);
  if (code) return code;
  snprintf(name, sizeof name, "%s.%u", device->name, index);
  if (!fake_line(name, rest, sizeof rest)) return NOT_FOUND;
  return device_named(name, instance);
}

#include "fake_counters.h"
