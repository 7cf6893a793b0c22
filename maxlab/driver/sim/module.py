"""`SimModule`: a CUDA text compiled for this machine, and launches of its kernels."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from maxlab import trace
from maxlab.config import config
from maxlab.driver.sim import record as recorded
from maxlab.driver.sim.arguments import Arguments
from maxlab.driver.sim.record import Recording, Region
from maxlab.driver.sim.reports import (
    Decoder,
    Index3,
    Kind,
    Place,
    Raw,
    Report,
    Watch,
    unflatten,
)
from maxlab.driver.sim.signature import (
    Kernel,
    find_kernels,
    portable,
    shared_types,
    size_of,
)
from maxlab.errors import ArgumentTypeError, DeviceError, ExecutionError, shown
from maxlab.toolchain import gxx, loader
from maxlab.toolchain.cffi_abi import ffi

MAX_THREADS = 1024
MAX_BLOCK: Index3 = (1024, 1024, 64)
MAX_GRID: Index3 = (2**31 - 1, 65535, 65535)
MAX_STATIC_SHARED = 48 << 10
MAX_SHARED = 227 << 10  # what a block of sm_90 can have
_MAX_WORKERS = 16  # each has 192 MiB of address space for stacks
_WAIT_MS = 50
_CALL = 12  # bytes of a call, and of moves that may stand before it
_GUARD = "_ZGV"  # says whether an array of a class type was made
ANCHOR = "_ZZ16cs_shared_anchorE14cs_anchor_mark"

_FUNCTIONS = {
    "cs_job_new": "void *(*)(void *, void *, void **, const long long *)",
    "cs_job_region": "void (*)(void *, long long, long long, long long, int)",
    "cs_job_dynamic": "void (*)(void *, long long)",
    "cs_job_start": "void (*)(void *, int)",
    "cs_job_wait": "int (*)(void *, int)",
    "cs_job_cancel": "void (*)(void *)",
    "cs_job_report": "long long (*)(void *, long long, long long *)",
    "cs_job_output": "const char *(*)(void *, long long *)",
    "cs_job_watched": "long long (*)(void *, long long, long long *, double *)",
    "cs_job_record": "void (*)(void *, long long, long long)",
    "cs_job_events": "const char *(*)(void *, long long *)",
    "cs_job_ends": "const char *(*)(void *)",
    "cs_job_free": "void (*)(void *)",
}


def raws_of(api: Mapping[str, Any], job: Any) -> list[Raw]:
    """The reports of ``job``, as the runtime has them."""
    row = ffi.new("long long[]", len(fields(Raw)))
    raws = []
    for index in range(api["cs_job_report"](job, 1 << 30, row)):
        api["cs_job_report"](job, index, row)
        kind, *rest = row
        raws.append(Raw(Kind(kind), *rest))
    return raws


def lines_of(raws: Sequence[Raw], path: Path, name: str) -> dict[int, int | None]:
    """The line of the text ``name`` for each place in the code of the library at ``path``."""
    counters = sorted({pc for raw in raws for pc in (raw.pc, raw.other_pc) if pc > 0})
    found = gxx.source_lines(path, counters, name) if raws else []
    return dict(zip(counters, found, strict=True))


def reports_of(
    raws: Sequence[Raw], decoder: Decoder, place: Callable[[Raw], Place]
) -> list[Report]:
    """The reports in words; threads that wait for ever are one report.

    Args:
        raws: The reports of the runtime.
        decoder: Puts them into words.
        place: The place in memory that a report is about.
    """
    reports = []
    for raw in raws:
        if raw.kind is not Kind.STUCK:
            text = ffi.string(ffi.cast("char *", raw.text)).decode() if raw.text else ""
            report = decoder.decode(raw, place(raw), text)
            if report is not None:
                reports.append(report)
    if stuck := [raw for raw in raws if raw.kind is Kind.STUCK]:
        reports.append(decoder.stuck(stuck))
    return reports


class SimModule:
    """The kernels of a CUDA text, ready to be launched on the CPU.

    Args:
        source: what nvcc would be given. Rules and limits are in ``kernels/cuda/README.md``.
        check: see every access to memory and report what is wrong, one block after another and
            much slower; see `launch`.
        name: what the text is called in messages.
        record: with ``check``, write down what the threads of one block do; see `Recording`.
        headers: files that are read before the text, as with nvcc's ``-include``; what they
            declare is not a kernel of the module, and lines are counted without them.

    Attributes:
        kernels: `Kernel` by name.
        watched: what ``MX_WATCH`` showed in the last launch, in the order of running.
        recording: what one block did in the last launch, or None.

    Raises:
        ToolchainError: ML502, g++ refused the text, with the line; ML501, there is no g++.
        CacheError: ML510, there is nowhere to write.

    Example:
        >>> import numpy as np
        >>> text = '''
        ... extern "C" __global__ void twice(float *x, int n) {
        ...   int i = blockIdx.x * blockDim.x + threadIdx.x;
        ...   if (i < n) x[i] *= 2;
        ... }'''
        >>> module = SimModule(text)
        >>> x = np.arange(5, dtype=np.float32)
        >>> module.launch("twice", 1, 32, [x, 5])
        []
        >>> x
        array([0., 2., 4., 6., 8.], dtype=float32)
    """

    kernels: Mapping[str, Kernel]
    watched: list[Watch]
    recording: Recording | None

    def __init__(
        self,
        source: str,
        *,
        check: bool = False,
        record: bool = False,
        name: str = "kernel.cu",
        headers: Sequence[Path] = (),
    ) -> None:
        self._source = source
        self._name = re.sub(r"[^\w.+-]", "_", name) or "kernel.cu"
        self._check = check or record
        self._record = record
        self.kernels = MappingProxyType(find_kernels(portable(source)))
        self.watched = []
        self.recording = None
        self._unit = gxx.compile_sim(
            portable(source),
            name=self._name,
            kernels=list(self.kernels),
            check=self._check,
            record=record,
            headers=headers,
        )
        self._shared: list[gxx.Symbol] | None = None
        self._api = runtime_api(self._unit.runtime)

    @property
    def path(self) -> Path:
        """The compiled library."""
        return self._unit.path

    def launch(
        self,
        name: str,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[object],
        shared_bytes: int = 0,
        *,
        timeout_s: float | None = None,
        record_block: Sequence[int] | None = None,
    ) -> list[Report]:
        """The mistakes of the launch; empty for a good one. Returns when all blocks have ended.

        A module made with ``check=True`` reports everything it sees and raises nothing for what
        the kernel does; a launch stops at the first access that would leave its buffer. Without
        checks the list is empty, and a kernel that cannot end raises. What kernels print goes
        to ``sys.stdout``. Ctrl-C ends a kernel that runs for ever.

        Args:
            name: the kernel.
            grid: the number of blocks, for one to three axes.
            block: the number of threads in each, for one to three axes.
            args: arrays (`Tensor` or NumPy) for pointers, numbers for the others.
            shared_bytes: the size of the dynamic shared memory.
            timeout_s: give up after so many seconds.
            record_block: the block that a module made with ``record=True`` writes down, as
                (x, y, z); if left out, the first one that something is reported of, or block 0.

        Raises:
            DeviceError: ML440 (a ValueError), no such kernel, or a shape no device accepts.
            ArgumentTypeError: ML441 (a TypeError), arguments of another number or type.
            TensorError: ML442 (a ValueError), an array the kernel cannot take as it is.
            ExecutionError: ML656 a fault, ML657 threads that wait for ever (both only without
                checks), ML658 the time is over.
        """
        kernel = self.kernels.get(name)
        if kernel is None:
            known = ", ".join(self.kernels) or "none"
            raise DeviceError(
                "ML440",
                f"{self._name} has no kernel {name!r}",
                fix=f"launch one of: {known}; a kernel is a __global__ function, no template",
            )
        shape = _shape("grid", grid, MAX_GRID), _shape("block", block, MAX_BLOCK)
        self._check_launch(kernel, shape[1], shared_bytes)
        recorded_block = self._recorded_block(shape[0], record_block)
        arguments = Arguments(kernel, args, self._check)
        with trace.span("kernel", name, device="sim", grid=shape[0], block=shape[1]) as event:
            reports = self._run(kernel, *shape, shared_bytes, arguments, timeout_s, recorded_block)
            event.update(reports=len(reports))
        arguments.finish()
        if reports and not self._check:
            first = reports[0]
            raise ExecutionError(
                "ML657" if first.kind == "divergent-barrier" else "ML656",
                f"{first.kind} in kernel {name}: {first.message}",
                why=str(first).splitlines()[1:],
                fix=first.fix,
            )
        return reports

    # ---------------------------------------------------------------- inside

    def _check_launch(self, kernel: Kernel, block: Index3, shared_bytes: int) -> None:
        threads = block[0] * block[1] * block[2]
        limit = min(MAX_THREADS, kernel.max_threads or MAX_THREADS)
        if threads > limit:
            raise DeviceError(
                "ML440",
                f"{kernel.name} can have {limit} threads in a block, got {threads}",
                why=[f"its launch bounds are {kernel.max_threads}"] if kernel.max_threads else [],
                fix="use smaller blocks, and more of them",
            )
        own = f"_ZZ{len(kernel.name)}{kernel.name}"
        static = sum(s.nbytes for s in self._shared_arrays() if s.name.startswith(own))
        if static > MAX_STATIC_SHARED:
            raise DeviceError(
                "ML440",
                f"{kernel.name} declares {static} bytes of shared arrays; "
                f"{MAX_STATIC_SHARED} are possible",
                fix="use dynamic shared memory: MX_DYN_SHARED(T, name) and shared_bytes",
            )
        if not isinstance(shared_bytes, int) or not 0 <= shared_bytes <= MAX_SHARED - static:
            raise DeviceError(
                "ML440",
                f"a block can have 0 to {MAX_SHARED - static} bytes of dynamic shared memory, "
                f"got {shared_bytes!r}",
                why=[f"the shared arrays of {kernel.name} have {static} of {MAX_SHARED} bytes"],
                fix="use smaller tiles",
            )

    def _run(
        self,
        kernel: Kernel,
        grid: Index3,
        block: Index3,
        shared_bytes: int,
        arguments: Arguments,
        timeout_s: float | None,
        recorded_block: int | None,
    ) -> list[Report]:
        api, unit = self._api, self._unit
        entry = loader.symbol_address(unit.handle, f"cs_run_{kernel.name}", unit.path)
        anchor = loader.symbol_address(unit.handle, "cs_shared_anchor", unit.path)
        job = api["cs_job_new"](
            ffi.cast("void *", entry),
            ffi.cast("void *", anchor),
            arguments.pointer,
            ffi.new("long long[]", [*grid, *block, shared_bytes, self._check]),
        )
        if self._check:
            for buffer in arguments.buffers:
                api["cs_job_region"](job, buffer.device, buffer.nbytes, buffer.granule, 0)
            base = next(s.offset for s in self._shared_symbols() if s.name == ANCHOR)
            for symbol in self._shared_arrays():
                granule = self._shared_granule(symbol)
                api["cs_job_region"](job, symbol.offset - base, symbol.nbytes, granule, 1)
            api["cs_job_dynamic"](job, min(size_of((kernel.dynamic or ("", ""))[1]) or 1, 4))
        if recorded_block is not None:
            api["cs_job_record"](
                job, recorded_block, recorded.MOST_EVENTS // (block[0] * block[1] * block[2])
            )
        blocks = grid[0] * grid[1] * grid[2]
        workers = 1 if self._check else min(config().num_threads, blocks, _MAX_WORKERS)
        api["cs_job_start"](job, workers)
        in_time = False
        try:
            in_time = self._wait(job, timeout_s)
        finally:
            # Whatever happens, the job's memory is in use until its threads have left it.
            while not api["cs_job_wait"](job, 0 if in_time else 1):
                api["cs_job_cancel"](job)
            try:
                reports = self._reports(job, kernel, grid, block, arguments)
                self._show(job, grid, block)
                self.recording = self._recording(job, kernel, grid, arguments)
            finally:
                api["cs_job_free"](job)
        if not in_time:
            raise ExecutionError(
                "ML658",
                f"kernel {kernel.name} did not end within {timeout_s} s",
                fix="look for a loop that waits for another thread: a block runs on one core, "
                "and blocks that have not begun do not run",
            )
        return reports

    def _wait(self, job: Any, timeout_s: float | None) -> bool:
        """Whether the launch ended in time; Python can see Ctrl-C between two slices."""
        left_ms = float("inf") if timeout_s is None else timeout_s * 1e3
        while left_ms > 0:
            if self._api["cs_job_wait"](job, int(min(_WAIT_MS, max(left_ms, 1)))):
                return True
            left_ms -= _WAIT_MS
        return False

    def _reports(
        self, job: Any, kernel: Kernel, grid: Index3, block: Index3, arguments: Arguments
    ) -> list[Report]:
        raws = raws_of(self._api, job)
        lines = lines_of(raws, self._unit.path, self._name)
        decoder = Decoder(kernel.name, self._source, grid, block, lines)

        def place(raw: Raw) -> Place:
            return self._place(raw, kernel, arguments, decoder.code(lines.get(raw.pc)))

        return reports_of(raws, decoder, place)

    def _place(self, raw: Raw, kernel: Kernel, arguments: Arguments, code: str) -> Place:
        """The name that the memory of a report has in the text."""
        if raw.kind is Kind.BAD_INDEX:  # the array is on the line
            names = set(re.findall(r"(\w+)\s*\[", code))
            shared = {_plain(s.name) for s in self._shared_arrays()}
            found = sorted(names & shared) or sorted(names)
            return Place(found[0] if len(found) == 1 else "", raw.detail, None)
        if not raw.kind.has_place or raw.region < 0:
            return Place("", None, None)
        return self._place_at(raw.region, raw.offset, kernel, arguments)

    def _place_at(self, region: int, offset: int, kernel: Kernel, arguments: Arguments) -> Place:
        """The element at ``offset`` bytes of a region, which are numbered as they were given."""
        if region < len(arguments.buffers):
            return arguments.buffers[region].place(offset)
        index = region - len(arguments.buffers)
        arrays = self._shared_arrays()
        if index < len(arrays):
            name = _plain(arrays[index].name)
            types = shared_types(self._source, name)
            c_type = types.pop() if len(types) == 1 else ""
            nbytes = arrays[index].nbytes
        else:
            name, c_type = kernel.dynamic or ("dynamic shared memory", "")
            nbytes = 0
        size = size_of(c_type)
        if size is None:
            return Place(name, None, None)
        return Place(name, offset // size, nbytes // size if nbytes else None)

    def _recorded_block(self, grid: Index3, block: Sequence[int] | None) -> int | None:
        """The number of the block to record, -1 for the first with a report, None for no record."""
        if not self._record:
            return None
        if block is None:
            return -1
        x, y, z = (*block, 0, 0, 0)[:3]
        if len(block) > 3 or not all(0 <= at < n for at, n in zip((x, y, z), grid, strict=True)):
            raise DeviceError(
                "ML440",
                f"a grid of {grid} has no block {tuple(block)} to record",
                fix="blocks are counted from 0 on each axis",
            )
        return x + grid[0] * (y + grid[1] * z)

    def _recording(
        self, job: Any, kernel: Kernel, grid: Index3, arguments: Arguments
    ) -> Recording | None:
        info = ffi.new("long long[3]")
        pointer = self._api["cs_job_events"](job, info)
        block, count, threads = info
        if not self._record or block < 0:
            return None

        def lines_of(counters: Sequence[int]) -> list[int | None]:
            return gxx.source_lines(self._unit.path, counters, self._name)

        events = recorded.rows(pointer, count)
        counters = sorted(set(events["pc"].tolist()))
        lines = dict(zip(counters, lines_of(counters), strict=True))
        # Code without a line of its own, where ways meet or end, has that of the code before it.
        starts = gxx.line_starts(self._unit.path)
        for pc in set(events["pc"][events["kind"] == recorded.BEGINS].tolist()):
            if starts and starts.isdisjoint(range(pc - _CALL, pc)):
                lines[pc] = None
        regions = [
            Region(", ".join(dict.fromkeys(p.name for p, _, _ in b.users)), False, b.nbytes,
                   b.begin - b.allocation)
            for b in arguments.buffers
        ]  # fmt: skip
        regions += [Region(_plain(s.name), True, s.nbytes, 0) for s in self._shared_arrays()]
        regions.append(Region((kernel.dynamic or ("dynamic shared memory",))[0], True, 0, 0))
        return Recording(
            unflatten(block, grid),
            events,
            tuple(recorded.ends(self._api["cs_job_ends"](job), threads, lines_of)),
            tuple(regions),
            lines,
            lambda region, offset: self._place_at(region, offset, kernel, arguments),
        )

    def _show(self, job: Any, grid: Index3, block: Index3) -> None:
        length = ffi.new("long long *")
        text = self._api["cs_job_output"](job, length)
        if length[0]:
            sys.stdout.write(ffi.buffer(text, length[0])[:].decode("utf-8", "replace"))
        row, value = ffi.new("long long[]", 4), ffi.new("double *")
        watched = []
        for index in range(self._api["cs_job_watched"](job, 1 << 60, row, value)):
            self._api["cs_job_watched"](job, index, row, value)
            name = ffi.string(ffi.cast("char *", row[3])).decode()
            where = unflatten(row[0], grid), unflatten(row[1], block)
            watched.append(Watch(*where, int(row[2]), name, float(value[0])))
        self.watched = watched

    def _shared_symbols(self) -> list[gxx.Symbol]:
        if self._shared is None:
            self._shared = gxx.thread_local_symbols(self._unit.path)
        return self._shared

    def _shared_granule(self, symbol: gxx.Symbol) -> int:
        """The bytes of the array that are read and written together, 0 if it is no array."""
        if symbol.name.startswith(_GUARD):
            return 0
        sizes = map(size_of, shared_types(self._source, _plain(symbol.name)))
        return min((min(size or 1, 4) for size in sizes), default=1)

    def _shared_arrays(self) -> list[gxx.Symbol]:
        return [symbol for symbol in self._shared_symbols() if symbol.name != ANCHOR]

    def __repr__(self) -> str:
        checked = ", check=True" if self._check else ""
        return f"SimModule({self._name}: {', '.join(self.kernels)}{checked})"


_apis: dict[Path, dict[str, Any]] = {}
_lock = threading.Lock()


def runtime_api(runtime: gxx.SimRuntime) -> dict[str, Any]:
    """The functions of the simulator's library."""
    with _lock:
        found = _apis.get(runtime.path)
        if found is None:
            found = _apis[runtime.path] = {
                name: ffi.cast(c_type, loader.symbol_address(runtime.handle, name, runtime.path))
                for name, c_type in _FUNCTIONS.items()
            }
    return found


def _shape(what: str, given: int | Sequence[int], limits: Index3) -> Index3:
    """Three sizes, each 1 or more and within a device's limits."""
    sizes = (given,) if isinstance(given, int) or not isinstance(given, Sequence) else tuple(given)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, int) for n in sizes):
        raise ArgumentTypeError(
            "ML441",
            f"{what} is one to three integers, got {shown(given)}",
            fix=f"write {what}=(8, 4)",
        )
    full = (*sizes, 1, 1)[:3]
    if any(not 1 <= n <= limit for n, limit in zip(full, limits, strict=True)):
        raise DeviceError(
            "ML440",
            f"{what} {shown(sizes)} is not possible: sizes go from 1 to {limits}",
            fix="give every axis at least 1; loop in the kernel over what no grid can hold",
        )
    return full[0], full[1], full[2]


def _plain(symbol: str) -> str:
    """The variable in a mangled name: ``_ZZ4tileE2As`` is ``As``."""
    for match in re.finditer(r"E(?=(\d+)(\w+)$)", symbol):
        length, rest = int(match[1]), match[2]
        if len(rest) >= length and re.fullmatch(r"|_\d*", rest[length:]):
            return rest[:length]
    return symbol
