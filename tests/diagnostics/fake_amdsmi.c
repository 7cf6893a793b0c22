// fake_amdsmi.c - a libamd_smi.so for machines without a GPU.
//
// The part of AMD SMI's C interface that maxlab uses. The package `amdsmi` looks up every function of the real library as
// it is imported; the tests generate the ones that are not here. What it tells stands in a text file (see fake.h):
//
//   amdinit 34                  amdsmi_init fails with this code (amdsmi_status_t)
//   amd 0 total=1000 used=300+5 gfx=40 umc=7
//   amd 1 total=!2 used=!2 gfx=65535 umc=65535
//   amd 2 activity=!16
//
// 65535 is how the library writes that a product lacks a counter.

#include "fake.h"

enum { SUCCESS = 0, INVAL = 1, NOT_SUPPORTED = 2, NOT_FOUND = 31, NOT_INIT = 32 };

typedef struct { char name[16]; u64 reads; } device_t;
typedef struct { unsigned gfx, umc, mm, reserved[13]; } usage_t;

static int running;
static int the_socket;
static device_t devices[64];

static int field(device_t *device, const char *name, u64 *value) {
  if (!running) return NOT_INIT;
  if (!device) return INVAL;
  return fake_field(device->name, name, NOT_SUPPORTED, NOT_FOUND, device->reads, value);
}

// A second start is refused, as the library did before it counted them.
API unsigned amdsmi_init(u64 flags) {
  char rest[1024];
  if (running || flags != 2) return INVAL;
  if (fake_line("amdinit", rest, sizeof rest)) return (unsigned)atoi(rest);
  running = 1;
  fake_note("amd init");
  return SUCCESS;
}

API unsigned amdsmi_shut_down(void) {
  if (!running) return NOT_INIT;
  running = 0;
  fake_note("amd shutdown");
  return SUCCESS;
}

API unsigned amdsmi_get_socket_handles(unsigned *count, void **sockets) {
  if (!running) return NOT_INIT;
  if (sockets) sockets[0] = &the_socket;
  *count = 1;
  return SUCCESS;
}

API unsigned amdsmi_get_processor_handles(void *socket, unsigned *count, void **processors) {
  char rest[1024];
  unsigned found = 0;
  if (!running) return NOT_INIT;
  if (socket != &the_socket) return INVAL;
  for (; found < 64; found++) {
    snprintf(devices[found].name, sizeof devices[found].name, "amd %u", found);
    if (!fake_line(devices[found].name, rest, sizeof rest)) break;
    if (processors) processors[found] = &devices[found];
  }
  *count = found;
  return SUCCESS;
}

API unsigned amdsmi_get_gpu_memory_total(void *device, int type, u64 *total) {
  return type ? (unsigned)INVAL : (unsigned)field(device, "total", total);
}

API unsigned amdsmi_get_gpu_memory_usage(void *device, int type, u64 *used) {
  int code = type ? INVAL : field(device, "used", used);
  if (!code) ((device_t *)device)->reads++;
  return (unsigned)code;
}

API unsigned amdsmi_get_gpu_activity(void *device, usage_t *usage) {
  u64 gfx = 0, umc = 0, failure = 0;
  int code = field(device, "activity", &failure);
  if (code && code != NOT_SUPPORTED) return (unsigned)code;
  code = field(device, "gfx", &gfx);
  if (!code) code = field(device, "umc", &umc);
  if (code) return (unsigned)code;
  usage->gfx = (unsigned)gfx;
  usage->umc = (unsigned)umc;
  usage->mm = 0xFFFF;
  return SUCCESS;
}
