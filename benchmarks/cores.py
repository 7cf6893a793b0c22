"""How far apart the cores are that a benchmark runs on.

Virtual machines are moved: now two of their processors share a last cache, now they are on
different dies of a package. There a line of the cache takes five times as long from one to the
other, programs of several threads a fifth longer, and reads of memory, which has a link for each
die, are faster. So times of several threads tell little without how far apart their cores were.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_TEXT = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
enum { TIMES = 100000 };
static _Alignas(128) atomic_int line;
static void stay_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}
static void *answer(void *cpu) {
  stay_on(*(int *)cpu);
  for (int n = 0; n < TIMES; n++) {
    while (atomic_load_explicit(&line, memory_order_acquire) != 2 * n + 1) {}
    atomic_store_explicit(&line, 2 * n + 2, memory_order_release);
  }
  return 0;
}
int main(int count, char **cpus) {
  int other = count > 2 ? atoi(cpus[2]) : 1;
  pthread_t thread;
  struct timespec a, b;
  stay_on(count > 1 ? atoi(cpus[1]) : 0);
  if (pthread_create(&thread, 0, answer, &other)) return 1;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int n = 0; n < TIMES; n++) {
    atomic_store_explicit(&line, 2 * n + 1, memory_order_release);
    while (atomic_load_explicit(&line, memory_order_acquire) != 2 * n + 2) {}
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  pthread_join(thread, 0);
  printf("%f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / TIMES / 2);
}
"""


@functools.cache
def _program() -> Path | None:
    """The compiled program; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="maxlab-cores-"))
    (folder / "cores.c").write_text(_TEXT)
    command = [compiler, "-O2", "-pthread", "cores.c", "-o", "cores"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return folder / "cores" if done.returncode == 0 else None


def exchange_ns() -> float | None:
    """Nanoseconds that a line of the cache takes from one processor of this process to another one,
    the median of three; None where there is only one, or no C compiler."""
    cpus = sorted(os.sched_getaffinity(0))
    program = _program() if len(cpus) > 1 else None
    if program is None:
        return None
    times = []
    for _ in range(3):
        command = [str(program), str(cpus[0]), str(cpus[1])]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        times.append(float(done.stdout))
    return round(sorted(times)[1], 1)


def in_words(times: list[float | None]) -> str:
    """How long lines of the cache took, in words; empty where nobody knows."""
    known = sorted(round(time) for time in times if time is not None)
    if not known:
        return ""
    span = f"{known[0]}" if known[0] == known[-1] else f"{known[0]} to {known[-1]}"
    return f"a line of the cache goes from one core to the other in {span} ns"


__all__ = ["exchange_ns", "in_words"]
