"""The ceilings of ``maxlab.machine`` beside STREAM and BLAS, measured by other means.

    python -m benchmarks.ceilings [--rounds 5]

Memory is compared with the loops of STREAM (McCalpin, 1995) written anew here in plain C, compiled
with ``gcc -O3`` and OpenMP, which share no code with maxlab; products with the BLAS behind NumPy;
multiply-adds with what the processor's clock allows, where the system tells it. All are timed in
turns, because a shared machine is never twice the same. Ceilings should be within 10 %.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from maxlab.analysis.machine import Machine, machine
from maxlab.analysis.machine.caches import caches
from maxlab.config import config

CLOSE = 0.10
_STREAM = """
#include <omp.h>
#include <stdlib.h>
#include <sys/mman.h>
static double *large(long n) { /* on huge pages, as maxlab's own tensors are */
  double *p = aligned_alloc(1 << 21, ((n * 8 + (1 << 21) - 1) >> 21) << 21);
  madvise(p, n * 8, MADV_HUGEPAGE);
  return p;
}
static double best(double a, double b) { return a > b ? a : b; }
/* GB/s of the sum, the copy and the triad of n doubles on so many threads, the fastest. */
void stream(long n, int times, int threads, double *rates) {
  double *a = large(n), *b = large(n), *c = large(n);
  omp_set_num_threads(threads);
  #pragma omp parallel for
  for (long i = 0; i < n; i++) a[i] = 1.0, b[i] = 2.0, c[i] = 0.0;
  rates[0] = rates[1] = rates[2] = 0;
  volatile double kept = 0;
  for (int t = 0; t < times; t++) {
    double start = omp_get_wtime(), sum = 0;
    #pragma omp parallel for reduction(+ : sum)
    for (long i = 0; i < n; i++) sum += a[i];
    kept += sum;
    rates[0] = best(rates[0], 8e-9 * n / (omp_get_wtime() - start));
    start = omp_get_wtime();
    #pragma omp parallel for
    for (long i = 0; i < n; i++) c[i] = a[i];
    rates[1] = best(rates[1], 16e-9 * n / (omp_get_wtime() - start));
    start = omp_get_wtime();
    #pragma omp parallel for
    for (long i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
    rates[2] = best(rates[2], 24e-9 * n / (omp_get_wtime() - start));
  }
  free(a), free(b), free(c);
}
"""


def stream(folder: Path) -> Callable[[int, int], list[float]]:
    """A function of elements and threads that gives GB/s of sum, copy and triad."""
    source, library = folder / "stream.c", folder / "stream.so"
    source.write_text(_STREAM)
    # The copy must stay a loop: memcpy stores past the caches, which no kernel of maxlab does.
    flags = [
        "-O3",
        "-march=native",
        "-fopenmp",
        "-ffast-math",
        "-fno-tree-loop-distribute-patterns",
    ]
    command = [
        shutil.which("gcc") or "cc",
        *flags,
        "-shared",
        "-fPIC",
        str(source),
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True)
    function = ctypes.CDLL(str(library)).stream

    def run(count: int, threads: int) -> list[float]:
        rates = (ctypes.c_double * 3)()
        function(ctypes.c_long(count), ctypes.c_int(6), ctypes.c_int(threads), rates)
        return list(rates)

    return run


def blas(size: int = 1024) -> float:
    """GFLOP/s of NumPy's product of float32 matrices, the fastest of several."""
    x = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        x @ x
        best = min(best, time.perf_counter() - start)
    return 2e-9 * size**3 / best


def main() -> int:
    """Print each ceiling beside its peer; 1 when one is further away than it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    threads = config().num_threads
    count = max(4 * max(cache.nbytes for cache in caches()) // 8 // 2, 1 << 20)
    peer: dict[tuple[str, int], float] = {}
    ours: dict[tuple[str, int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = stream(Path(folder))
        for _ in range(rounds):
            found = machine(threads, refresh=True)
            for number in sorted({1, threads}):
                rates = run(count, number)
                for pattern, rate in zip(("read", "copy", "triad"), rates, strict=True):
                    key = f"DRAM {pattern}", number
                    peer[key] = max(peer.get(key, 0.0), rate)
                    ours[key] = max(ours.get(key, 0.0), _level(found, number, pattern))
            key = "f32 product", threads
            peer[key] = max(peer.get(key, 0.0), blas())
            ours[key] = max(ours.get(key, 0.0), _product(found, threads))
    print(f"{'':14}{'threads':>8}{'ceiling':>10}{'peer':>10}{'apart':>8}")
    far = False
    for (name, number), rate in peer.items():
        apart = ours[name, number] / rate - 1
        far |= abs(apart) > CLOSE
        print(f"{name:14}{number:8}{ours[name, number]:10.1f}{rate:10.1f}{apart:+8.1%}")
    return int(far)


def _level(found: Machine, threads: int, pattern: str) -> float:
    return float(getattr(found.ceilings(threads).levels[-1], pattern))


def _product(found: Machine, threads: int) -> float:
    rate = found.ceilings(threads).rate("product", "float32")
    return rate.gflops if rate is not None else 0.0


if __name__ == "__main__":
    sys.exit(main())
