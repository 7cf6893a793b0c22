// fake_counters.h - the part of fake_nvml.c that only a monitor reads: clocks, power, temperature, links, processes.
//
//   gpu 0 ... name=Fake_GPU sm=1980 maxsm=1980 memclock=2619 maxmem=2619 power=450000 limit=700000 temp=61 arch=9
//   gpu 0 ... pcietx=1200 pcierx=300          kB/s of nvmlDeviceGetPcieThroughput
//   gpu 0 ... pcietxcount=0+1000000 nvtx=0+5  counters that only grow, of nvmlDeviceGetFieldValues: bytes, and KiB
//   gpu 0 ... window_us=166000                what lies between the driver's own samples of the utilisation
//   gpu 0 ... pid1=4242 held1=1000 pid2=7 held2=500     processes

enum { INSUFFICIENT_SIZE = 7, VALUE_ULL = 3 };

typedef union { double d; int si; unsigned ui; unsigned long ul; u64 ull; long long sll; unsigned short us; } nvmlValue_t;
typedef struct { unsigned field, scope; long long timestamp, latency; int type, code; nvmlValue_t value; } nvmlFieldValue_t;
typedef struct { u64 time; nvmlValue_t value; } nvmlSample_t;
typedef struct { unsigned pid; u64 held; unsigned gpu_instance, compute_instance; } nvmlProcessInfo_t;

static int number(nvmlDevice_t device, const char *name, unsigned *out) {
  u64 value = 0;
  int code = reach(device);
  if (!code) code = field(device, name, NOT_SUPPORTED, &value);
  if (!code) *out = (unsigned)value;
  return code;
}

API int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
  char rest[1024], *at;
  int code = reach(device);
  if (code) return code;
  if (!fake_line(device->name, rest, sizeof rest)) return UNKNOWN;
  if (!(at = strstr(rest, " name="))) return NOT_SUPPORTED;
  at += strlen(" name=");
  at[strcspn(at, " \n")] = 0;
  for (char *c = at; *c; c++) if (*c == '_') *c = ' ';
  snprintf(name, length, "%s", at);
  return SUCCESS;
}

API int nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned *arch) { return number(device, "arch", arch); }
API int nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *power) { return number(device, "power", power); }
API int nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *limit) { return number(device, "limit", limit); }

API int nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *temperature) {
  return sensor ? (int)INVALID_ARGUMENT : number(device, "temp", temperature);
}

API int nvmlDeviceGetClockInfo(nvmlDevice_t device, int kind, unsigned *clock) {
  return number(device, kind == 2 ? "memclock" : "sm", clock);
}

API int nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int kind, unsigned *clock) {
  return number(device, kind == 2 ? "maxmem" : "maxsm", clock);
}

API int nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int way, unsigned *kilobytes) {
  usleep(20000);
  return number(device, way ? "pcierx" : "pcietx", kilobytes);
}

API int nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
  int code = reach(device);
  if (code) return code;
  for (int i = 0; i < count; i++) {
    const char *name = NULL;
    switch (values[i].field) {
      case 138: name = "nvtx"; break;
      case 139: name = "nvrx"; break;
      case 197: name = "pcietxcount"; break;
      case 198: name = "pcierxcount"; break;
    }
    u64 value = 0;
    values[i].code = name ? field(device, name, NOT_SUPPORTED, &value) : NOT_SUPPORTED;
    values[i].type = VALUE_ULL;
    values[i].value.ull = value;
  }
  return SUCCESS;
}

API int nvmlDeviceGetSamples(nvmlDevice_t device, int kind, u64 since, int *type, unsigned *count, nvmlSample_t *samples) {
  u64 window = 0;
  int code = kind == 1 && !since ? reach(device) : (int)INVALID_ARGUMENT;
  if (!code) code = field(device, "window_us", NOT_SUPPORTED, &window);
  if (code) return code;
  for (unsigned i = 0; samples && i < *count; i++) {
    memset(&samples[i], 0, sizeof *samples);
    samples[i].time = 1000000 + i * window;
  }
  *type = 1;
  if (!samples) *count = 8;
  return SUCCESS;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes) {
  unsigned found = 0;
  int code = reach(device);
  for (; !code && found < 8; found++) {
    char name[16];
    u64 pid = 0, held = 0;
    snprintf(name, sizeof name, "pid%u", found + 1);
    if (field(device, name, NOT_FOUND, &pid)) break;
    snprintf(name, sizeof name, "held%u", found + 1);
    field(device, name, NOT_FOUND, &held);
    if (processes && found < *count) processes[found] = (nvmlProcessInfo_t){(unsigned)pid, held, ~0u, ~0u};
  }
  if (code) return code;
  if (found && (!processes || *count < found)) return *count = found, INSUFFICIENT_SIZE;
  *count = found;
  return SUCCESS;
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes) {
  (void)processes;
  *count = 0;
  return reach(device);
}
