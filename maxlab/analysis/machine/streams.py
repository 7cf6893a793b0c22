"""Memory and arithmetic ceilings of the CPU: compiled loops, run by the executor.

Every figure is the best of several runs: whatever else the machine does can only make a loop
slower, so the fastest run is the nearest to what the machine can do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from maxlab.analysis.machine.caches import Cache
from maxlab.analysis.machine.ceilings import Level, Rate
from maxlab.driver.mapped import LOST
from maxlab.errors import ExecutionError
from maxlab.toolchain import KernelSource, Runtime, compile_units, loader
from maxlab.toolchain.flags import Flags
from maxlab.toolchain.interrupts import STOPPED, raised
from maxlab.toolchain.prelude import kernels_dir

RUN_NS = 2_000_000
"""Nanoseconds that one timed run takes at least: many times what waking a thread does."""
ROUNDS = 7
MORE_ROUNDS = 20
"""Rounds for loops that several threads run no faster than one: on a busy machine the others may
come late."""
MOST_NS = 1_200_000_000
"""Nanoseconds after which no further round begins."""
LINE = 8 * 16
"""Floats by which a loop goes on: its length is a multiple."""
DRAM_SHARE = 4
"""How many times the largest cache the arrays are that have to come from memory."""
MOST_BYTES = 256 << 20
_ARRAYS = {"read": 1, "copy": 2, "triad": 3}
_CHAINS = 12


def source() -> str:
    """The C of the loops."""
    return (kernels_dir() / "c" / "measure" / "ceilings.c").read_text(encoding="utf-8")


class Loops:
    """The compiled loops, for one number of threads.

    Raises:
        ToolchainError: No C compiler, or one that failed.
    """

    def __init__(self, runtime: Runtime, threads: int) -> None:
        [kernel] = compile_units([KernelSource("ceiling_read", source())], flags=Flags(optimize=2))
        self._kernel = kernel
        self._runtime = runtime
        self._team = runtime.team(threads)
        self.threads = threads

    def run(
        self, name: str, arrays: Sequence[int], sizes: Sequence[int], *, items: int, steps: int = 1
    ) -> int:
        """Nanoseconds of one execution of ``steps`` steps of ``items`` chunks; -1 when the loop
        says that this processor cannot do it."""
        ffi = self._runtime.ffi
        address = loader.symbol_address(self._kernel.handle, name, self._kernel.path)
        row = (ffi.cast("mx_fn", address), 0, 0, items, 1, 0)
        table = ffi.new("mx_step[]", [row] * steps)
        pointers = ffi.new("uintptr_t[]", list(arrays))
        argp = ffi.cast("void **", pointers)
        dims = ffi.new("i64[]", list(sizes))
        info, null = ffi.new("i64[6]"), ffi.NULL
        execute = self._runtime.lib.mx_execute
        start = time.perf_counter_ns()
        code = execute(self._team, table, steps, argp, dims, null, 0, null, 64, null, info) & ~LOST
        took = time.perf_counter_ns() - start
        if code == 1 and info[1] == 2:
            return -1
        if code == STOPPED:
            raise raised()
        if code:
            raise ExecutionError(
                "ML651",
                f"the loop {name} failed with code {code}",
                fix="please report it with this message",
            )
        return took


class Task:
    """A loop to be timed: ``run`` takes a number of trips, each of which does ``amount``, and
    returns the nanoseconds they took; ``alone`` is the rate of one thread, where there are several.
    """

    def __init__(self, amount: float, run: Callable[[int], int], alone: float = 0.0) -> None:
        self._amount = amount
        self._run = run
        self._alone = alone
        self._trips = 1
        self._best = 0

    def prepare(self, wanted: int) -> None:
        """Find how many trips take ``wanted`` nanoseconds."""
        while True:
            took = self._run(self._trips)
            if took < 0:
                return  # the processor cannot do it
            if took >= wanted // 2 or self._trips > 1 << 40:
                self._best = took
                return
            more = self._trips * wanted // max(took, 1)
            self._trips = max(self._trips * 2, min(self._trips * 64, more))

    def again(self) -> None:
        """Time it once more."""
        if self._best:
            self._best = min(self._best, max(self._run(self._trips), 1))

    @property
    def rate(self) -> float:
        """Amounts a nanosecond in the fastest run; 0 when the processor cannot do it."""
        return self._amount * self._trips / self._best if self._best else 0.0

    @property
    def is_late(self) -> bool:
        """Whether several threads did no more than one."""
        return self._best > 0 and self.rate < 1.3 * self._alone


def time_all(tasks: Sequence[Task], threads: int) -> None:
    """Time ``tasks``, one after the other and then all again, so that no burst of other work falls
    on all runs of one."""
    for task in tasks:
        task.prepare(RUN_NS if threads == 1 else 2 * RUN_NS)
    deadline = time.perf_counter_ns() + MOST_NS
    for number in range(MORE_ROUNDS):
        if time.perf_counter_ns() > deadline:
            break
        wanted = tasks if number < ROUNDS else [task for task in tasks if task.is_late]
        for task in wanted:
            task.again()


class Memory:
    """Three arrays that are as large as the largest measurement needs."""

    def __init__(self, runtime: Runtime, nbytes: int) -> None:
        self._arrays: list[Any] = []
        self.addresses: list[int] = []
        ffi = self.ffi = runtime.ffi
        for _ in range(3):
            block = runtime.lib.mx_alloc(nbytes)
            if block == ffi.NULL:
                raise ExecutionError(
                    "ML654",
                    f"there is no memory for {3 * nbytes / 2**20:.0f} MiB to measure with",
                    fix="free some memory",
                )
            self._arrays.append(ffi.gc(block, runtime.lib.mx_free, nbytes))
            np.frombuffer(ffi.buffer(block, nbytes), np.float32)[:] = 1.0
            self.addresses.append(int(ffi.cast("uintptr_t", block)))


def array_bytes(found: Sequence[Cache]) -> int:
    """The bytes of each array: so many that all threads together read from memory."""
    largest = max(cache.nbytes for cache in found)
    return min(largest * DRAM_SHARE // 2, MOST_BYTES)


def memory_and_peaks(
    loops: Loops,
    found: Sequence[Cache],
    memory: Memory,
    alone: tuple[Sequence[Level], Sequence[Rate]] = ((), ()),
) -> tuple[tuple[Level, ...], tuple[Rate, ...]]:
    """The levels of memory, and the arithmetic that registers alone can do, as fast as all threads
    of ``loops`` together; ``alone`` are those of one thread."""
    levels = {level.name: level for level in alone[0]}
    peaks = {rate.name: rate.gflops for rate in alone[1]}
    tasks: dict[tuple[str, str], Task] = {}
    sizes: dict[str, int] = {}
    for name, nbytes, each in _places(found, loops.threads):
        sizes[name] = nbytes
        for pattern in _ARRAYS:
            one = float(getattr(levels[name], pattern)) if name in levels else 0.0
            tasks[name, pattern] = _stream(loops, memory, pattern, each, one)
    for name, _, symbol, lanes in _arithmetic(_vector_bytes(loops, memory)):
        tasks[name, ""] = _peak(loops, memory, symbol, lanes, peaks.get(name, 0.0))
    time_all(list(tasks.values()), loops.threads)
    made = tuple(
        Level(name, nbytes, **{pattern: tasks[name, pattern].rate for pattern in _ARRAYS})
        for name, nbytes in sizes.items()
    )
    rates = [
        Rate(name, tasks[name, ""].rate, "peak", dtype) for name, dtype, _, _ in _arithmetic(64)
    ]
    return made, tuple(rate for rate in rates if rate.gflops)


def _places(found: Sequence[Cache], threads: int) -> Iterator[tuple[str, int, int]]:
    """(name, bytes of all threads, bytes of one array of one thread) of each level."""
    inner = 0
    for cache in found:
        # Three arrays in 3/4 of a thread's share, and more than the level before holds.
        share = cache.share(threads)
        each = max(share // 4, inner)
        inner = max(share // 2, inner)
        yield f"L{cache.level}", share * threads, each
    yield "DRAM", 0, array_bytes(found) // threads


def _stream(loops: Loops, memory: Memory, pattern: str, each: int, alone: float) -> Task:
    floats = max(each // 4 // LINE, 1) * LINE

    def run(trips: int) -> int:
        sizes = [floats, trips]
        return loops.run(f"ceiling_{pattern}", memory.addresses, sizes, items=loops.threads)

    return Task(floats * 4 * _ARRAYS[pattern] * loops.threads, run, alone)


def _arithmetic(width: int) -> Iterator[tuple[str, str, str, int]]:
    """(name, dtype, symbol, numbers in a vector) of each peak."""
    yield "f32 FMA", "float32", "ceiling_fma_f32", width // 4
    yield "f64 FMA", "float64", "ceiling_fma_f64", width // 8
    yield "bf16 dot", "bfloat16", "ceiling_dot_bf16", width // 2


def _peak(loops: Loops, memory: Memory, symbol: str, lanes: int, alone: float) -> Task:
    def run(trips: int) -> int:
        return loops.run(symbol, memory.addresses, [0, trips], items=loops.threads)

    return Task(2 * lanes * _CHAINS * loops.threads, run, alone)


def _vector_bytes(loops: Loops, memory: Memory) -> int:
    """Bytes of a vector of ceilings.c, which knows what the compiler compiles for."""
    loops.run("ceiling_width", memory.addresses, [0], items=1)
    return int(memory.ffi.cast("i64 *", memory.addresses[2])[0])


def dispatch(loops: Loops) -> tuple[float, float]:
    """Nanoseconds of a step that does nothing: alone, and shared by all threads."""
    steps = 200

    def of(items: int) -> float:
        best = min(
            loops.run("ceiling_nothing", [0], [0], items=items, steps=steps) for _ in range(12)
        )
        return best / steps

    return of(1), of(4 * loops.threads if loops.threads > 1 else 1)
