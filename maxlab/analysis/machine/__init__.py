"""The ceilings of a machine, measured on it: what a roofline is drawn with.

The loops are compiled C, run by the executor that runs models, for 1 thread and for all: sums,
copies and triads in each level of cache and in memory, multiply-adds in registers, and maxlab's own
products and functions. It takes about a second once; the figures are kept in the cache of kernels,
by processor, threads and compiler.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from maxlab import files, trace
from maxlab.analysis.machine.caches import Cache, caches, cpu_model
from maxlab.analysis.machine.ceilings import VERSION, Ceilings, Level, Machine, Rate, at_least
from maxlab.config import config
from maxlab.driver import Accelerator
from maxlab.errors import ArgumentError, FileError
from maxlab.habits import fitting
from maxlab.toolchain import find_compiler

if TYPE_CHECKING:
    from maxlab.analysis.machine import streams
    from maxlab.toolchain import Runtime

_MOST_BYTES = 1 << 20
_known: dict[Path, Machine] = {}
_lock = threading.Lock()


@fitting("ML975", "maxlab.machine()")
def machine(
    threads: int | None = None, *, device: Accelerator | None = None, refresh: bool = False
) -> Machine:
    """The ceilings of this machine: GB/s of each level of memory and GFLOP/s of each arithmetic.

    Measures them at the first call, about a second, while nothing else should run; afterwards they
    are read from the cache.

    Args:
        threads: Threads to measure besides 1; by default those of a session.
        device: A GPU to measure instead of the CPU.
        refresh: Measure anew, for example because the machine was busy.

    Raises:
        ArgumentError: ML616, fewer than one thread.
        DeviceError: ML670, a simulated GPU.
        ToolchainError: No C compiler, or one that failed.

    Example:
        >>> import maxlab
        >>> found = maxlab.machine()
        >>> ceilings = found.ceilings(1)
        >>> [level.name for level in ceilings.levels][-1], ceilings.levels[0].read > 0
        ('DRAM', True)
    """
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ArgumentError(
            "ML616",
            f"threads must be an int of 1 or more, got {threads!r}",
            fix="leave it out for all usable cores",
        )
    place = _place(threads or config().num_threads, device)
    path = _path(place)
    with _lock:
        found = None if refresh else _read(path)
        if found is None:
            with trace.span("measure", "machine", threads=place.threads):
                found = _measured(place)
            _write(path, found)
            _known[path] = found
        return found


def known(threads: int, device: Accelerator | None = None) -> Machine | None:
    """The ceilings that ``machine`` measured before, here or in another process; None when it did
    not. Measures nothing."""
    place = _place(threads, device)
    return None if place.simulated else _read(_path(place))


@dataclass(frozen=True, slots=True)
class _Host:
    """The host, with so many threads."""

    threads: int
    simulated = False

    def key(self) -> list[str]:
        """The texts that tell this machine from others."""
        from maxlab.analysis.machine.streams import source

        compiler = find_compiler()
        sizes = [f"{c.level}:{c.nbytes}/{c.shared_by}" for c in caches()]
        made = [str(self.threads), compiler.digest, compiler.cpu, source()]
        return [cpu_model(), str(os.cpu_count()), *sizes, *made]

    def measure(self) -> Machine:
        """Its ceilings."""
        from maxlab.analysis.machine import streams
        from maxlab.toolchain import runtime

        start = time.perf_counter()
        library = runtime()
        found = caches()
        memory = streams.Memory(library, streams.array_bytes(found))
        at = {1: _ceilings(library, 1, found, memory, None)}
        if self.threads > 1:
            several = _ceilings(library, self.threads, found, memory, at[1])
            at[self.threads] = at_least(several, at[1])
        return Machine(cpu_model(), time.time(), time.perf_counter() - start, at)


@dataclass(frozen=True, slots=True)
class _Gpu:
    """A GPU, whose work one thread gives."""

    device: Accelerator
    threads = 1

    @property
    def simulated(self) -> bool:
        """Whether it has no ceilings of its own."""
        return self.device.simulated

    def key(self) -> list[str]:
        """The texts that tell this device from others."""
        properties = self.device.context.properties
        return ["gpu", properties.name, properties.architecture]

    def measure(self) -> Machine:
        """Its ceilings."""
        from maxlab.analysis.machine.gpu import measure_gpu

        return measure_gpu(self.device)


def _place(threads: int, device: Accelerator | None) -> _Host | _Gpu:
    return _Host(threads) if device is None else _Gpu(device)


def _measured(place: _Host | _Gpu) -> Machine:
    return place.measure()


def _ceilings(
    library: Runtime,
    threads: int,
    found: Sequence[Cache],
    memory: streams.Memory,
    alone: Ceilings | None,
) -> Ceilings:
    from maxlab.analysis.machine import loops, streams

    table = streams.Loops(library, threads)
    before = (alone.levels, alone.rates) if alone is not None else ((), ())
    levels, peaks = streams.memory_and_peaks(table, found, memory, before)
    alone_ns, shared_ns = streams.dispatch(table)
    own = loops.arithmetic(threads)
    start = own.start_ns
    shared = start + shared_ns - alone_ns
    return Ceilings("cpu", threads, levels, (*peaks, *own.rates), start, shared, own.fast)


# ---------------------------------------------------------------- kept on disk
def _path(place: _Host | _Gpu) -> Path:
    text = "\0".join([str(VERSION), *place.key()])
    name = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    return config().cache_dir / "machine" / f"{name}.json"


def _read(path: Path) -> Machine | None:
    known = _known.get(path)
    if known is not None:
        return known
    try:
        text = files.read_text(path, "the measured ceilings", _MOST_BYTES)
        found = Machine.from_json(json.loads(text))
    except (FileError, ValueError, RecursionError):  # not measured yet, or not by this version
        return None
    _known[path] = found
    return found


def _write(path: Path, found: Machine) -> None:
    """Keep ``found``; a cache that cannot be written costs measuring again, and nothing else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(found.to_json(), indent=1, sort_keys=True)
        files.write_text(path, text, "the measured ceilings")
    except OSError as error:
        trace.emit("warning", "machine", message=str(error))


__all__ = ["Ceilings", "Level", "Machine", "Rate", "known", "machine"]
