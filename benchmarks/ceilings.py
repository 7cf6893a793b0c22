"""The ceilings of ``maxlab.machine`` beside STREAM and BLAS, measured by other means.

    python -m benchmarks.ceilings [--rounds 5]

Memory is compared with the loops of STREAM (McCalpin, 1995) written anew here in plain C, compiled
with ``gcc -O3`` and OpenMP, which share no code with maxlab; products with a compiled graph, timed
from outside, and with the BLAS behind NumPy. All are timed in turns, because a shared machine is
never twice the same. Ceilings should be within 10 %.
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
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.graph import DeviceRef, Graph, TensorType, ops

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
        function(ctypes.c_long(count), ctypes.c_int(15), ctypes.c_int(threads), rates)
        return list(rates)

    return run


def blas(size: int = 1024) -> float:
    """GFLOP/s of NumPy's product of float32 matrices, the fastest of several."""
    x = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    best = float("inf")
    for _ in range(25):
        start = time.perf_counter()
        x @ x
        best = min(best, time.perf_counter() - start)
    return 2e-9 * size**3 / best


def graph(threads: int, size: int = 1024) -> float:
    """GFLOP/s of a compiled graph with one product of float32 matrices, timed by its caller."""
    x = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    with Graph("product", input_types=[TensorType(DType.float32, [size, size])]) as built:
        built.output(built.inputs[0].tensor @ ops.constant(x, DType.float32, DeviceRef.CPU()))
    model = InferenceSession(num_threads=threads).load(built)
    best = float("inf")
    for _ in range(25):
        start = time.perf_counter()
        model(x)
        best = min(best, time.perf_counter() - start)
    return 2e-9 * size**3 / best


def main() -> int:
    """Print each ceiling beside its peer; 1 when one is further away than it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    threads = config().num_threads
    count = max(4 * max(cache.nbytes for cache in caches()) // 8 // 2, 1 << 20)
    peer: dict[tuple[str, int], list[float]] = {}
    ours: dict[tuple[str, int], list[float]] = {}

    def note(name: str, number: int, ceiling: float, rate: float) -> None:
        ours.setdefault((name, number), []).append(ceiling)
        peer.setdefault((name, number), []).append(rate)

    with tempfile.TemporaryDirectory() as folder:
        run = stream(Path(folder))
        for _ in range(rounds):
            found = machine(threads, refresh=True)
            for number in sorted({1, threads}):
                rates = run(count, number)
                for pattern, rate in zip(("read", "copy", "triad"), rates, strict=True):
                    note(f"DRAM {pattern}", number, _level(found, number, pattern), rate)
            ceiling = _product(found, threads)
            for name, rate in (("f32 product", graph(threads)), ("f32 BLAS", blas())):
                note(name, threads, ceiling, rate)
    print(f"{'':14}{'threads':>8}{'ceiling':>10}{'peer':>10}{'apart':>8}   quartiles of the rounds")
    far = False
    for key, rates in peer.items():
        name, number = key
        # Both of a round were measured side by side: what others take of the machine is in both.
        low, apart, high = np.percentile(np.divide(ours[key], rates) - 1, [25, 50, 75])
        # A BLAS that does not know the processor may be slower, and none may be faster.
        far |= bool(apart < -CLOSE if name == "f32 BLAS" else abs(apart) > CLOSE)
        ceiling, rate = float(np.median(ours[key])), float(np.median(rates))
        spread = f"{low:+.1%} … {high:+.1%}"
        print(f"{name:14}{number:8}{ceiling:10.1f}{rate:10.1f}{apart:+8.1%}   {spread}")
    return int(far)


def _level(found: Machine, threads: int, pattern: str) -> float:
    return float(getattr(found.ceilings(threads).levels[-1], pattern))


def _product(found: Machine, threads: int) -> float:
    rate = found.ceilings(threads).rate("product", "float32")
    return rate.gflops if rate is not None else 0.0


if __name__ == "__main__":
    sys.exit(main())
