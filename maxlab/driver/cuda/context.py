"""`CudaContext`: one GPU, opened through PyCUDA, owned by one thread.

The context is the device's *primary* one, which the CUDA runtime, torch and CuPy use as well, so
that memory and streams can be shared with them. Everything that PyCUDA made for it is kept in one
`Held`: PyCUDA's destructors talk to the driver, and must run in the owner's thread, while the
device is well and the process the same, or never.
"""

from __future__ import annotations

import atexit
import itertools
import os
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from maxlab.driver.backend import (
    Context,
    Counters,
    DeviceSource,
    Function,
    Loaded,
    Mark,
    Properties,
    Queue,
)
from maxlab.driver.cuda import faults
from maxlab.driver.cuda.blaslt import BlasLt
from maxlab.driver.cuda.graphs import CudaRecording, record
from maxlab.driver.cuda.held import Held
from maxlab.driver.cuda.libcuda import EVENT_DISABLE_TIMING, describe, libcuda
from maxlab.driver.cuda.modules import CudaFunction, Kernels
from maxlab.driver.cuda.owner import Owner
from maxlab.driver.cuda.queues import CudaMark, CudaQueue
from maxlab.errors import DeviceError
from maxlab.toolchain.cffi_abi import ffi
from maxlab.trace import emit

T = TypeVar("T")
_NON_BLOCKING = 1  # a stream that does not wait for the default stream


class CudaContext:
    """A GPU; see `maxlab.driver.backend.Context` for what may be called by whom.

    Args:
        id: the number of the device, as CUDA counts those it shows to this process.
        driver: ``pycuda.driver``, initialised.

    Raises:
        DeviceError: ML443, the device cannot be opened.
    """

    def __init__(self, id: int, driver: Any) -> None:
        self.id = id
        self.counters = Counters()
        self.properties: Properties
        self._driver = driver
        self._held = Held()
        self._process = os.getpid()
        self._lost: DeviceError | None = None
        self._serials = itertools.count(1)
        self._events: tuple[list[Any], list[Any]] = ([], [])  # free ones: untimed, timed
        self._all_events: list[Any] = []
        self._queues: weakref.WeakSet[CudaQueue] = weakref.WeakSet()
        self._executables: dict[int, Any] = {}
        self._last: list[Callable[[], object]] = []
        self._blas: BlasLt | None = None
        self._blas_asked = False
        self._peers: dict[int, bool] = {id: True}
        self._recording = False
        self._postponed: deque[Callable[[], object]] = deque()
        self._kernels = Kernels(self, driver)
        self._owner = Owner(id)
        try:
            self._owner.call(self._enter)
        except DeviceError:
            self._owner.close(self._back_out)
            raise
        self.default_queue = CudaQueue(self, None)
        self._queues.add(self.default_queue)
        atexit.register(self.close)
        _open.add(self)

    # ---------------------------------------------------------------- owner

    def call(self, work: Callable[[], T]) -> T:
        """The result of ``work()``, run by the owner.

        Raises:
            DeviceError: ML445, a kernel faulted, now or earlier; ML443, the driver refused
                something; ML444, this process is a fork, or the interpreter is ending.
        """
        return self._owner.call(lambda: self._guarded(work))

    def later(self, work: Callable[[], object]) -> None:
        """Run ``work`` by the owner soon; does nothing on a device that is lost or closed."""
        self._owner.later(lambda: self._lost or work())

    def _guarded(self, work: Callable[[], T]) -> T:
        if self._lost is not None:
            raise self._again()
        try:
            return work()
        except self._driver.Error as error:
            raise self.translate(error, "a call") from error

    def check(self, status: int, what: str) -> None:
        """Return if a call of the driver was successful.

        Raises:
            DeviceError: ML445 or ML443.
        """
        if status:
            raise (
                self._lose(status)
                if status in faults.STICKY
                else faults.refused(self.id, what, describe(status))
            )

    def translate(self, error: Exception, what: str) -> DeviceError:
        """The error for an exception of PyCUDA's, which does not tell its number: a fault stays,
        so the driver is asked again.
        """
        status = libcuda().cuStreamQuery(ffi.NULL)
        if status in faults.STICKY:
            return self._lose(status)
        return faults.refused(self.id, what, str(error))

    def _lose(self, status: int) -> DeviceError:
        if self._lost is None:
            names = dict.fromkeys(n for queue in list(self._queues) for n in queue.suspects())
            self._lost = faults.lost(self.id, describe(status), names)
            self._held.leak()
            emit("warning", f"gpu:{self.id}", message=self._lost.what, kernels=list(names))
        return self._again()

    def _again(self) -> DeviceError:
        """The error of the fault, without the tracebacks of those who saw it before."""
        first = self._lost
        assert first is not None, "only a lost device says so again"
        return DeviceError(first.code, first.what, why=first.why, fix=first.fix)

    def _enter(self) -> None:
        driver, held = self._driver, self._held
        try:
            device = driver.Device(self.id)
            held.primary = device.retain_primary_context()
            held.primary.push()
            major, minor = device.compute_capability()
            attribute = driver.device_attribute
            self.properties = Properties(
                name=device.name(),
                architecture=f"sm_{major}{minor}",
                multiprocessors=device.get_attribute(attribute.MULTIPROCESSOR_COUNT),
                shared_bytes=device.get_attribute(attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                simulated=False,
            )
        except driver.Error as error:
            raise faults.refused(self.id, "to open the device", str(error)) from error

    def _back_out(self) -> None:
        """Give back what a device that could not be opened has got so far."""
        held = self._held
        if held.primary is not None:
            if self._driver.Context.get_current() is not None:
                held.primary.pop()
            held.primary.detach()

    def close(self) -> None:
        """Wait for the device, give everything back and end the owner; called at exit."""
        atexit.unregister(self.close)
        _open.discard(self)
        if self._process == os.getpid():
            self._owner.close(self._leave)

    def _leave(self) -> None:
        held, library = self._held, libcuda()
        if self._lost is None:
            try:
                held.primary.synchronize()
            except self._driver.Error as error:
                self.translate(error, "the last synchronisation")
        if self._lost is None:
            for work in self._last:
                work()
            for executable in self._executables.values():
                CudaRecording.destroy(executable)
            for event in self._all_events:
                library.cuEventDestroy_v2(event)
            self._kernels.forget()
            held.modules.clear()
            for queue in list(self._queues):
                queue.stream = None
            held.streams.clear()
            for block in (*held.allocations.values(), *held.pinned.values()):
                block.free()
            held.allocations.clear()
            held.pinned.clear()
        # A thread that ends with a context on PyCUDA's stack takes the process with it.
        held.primary.pop()
        if self._lost is None:
            held.primary.detach()

    def at_close(self, work: Callable[[], object]) -> None:
        """Let the owner run ``work`` when the device is given back, if it is well."""
        self._last.append(work)

    def abandon(self) -> None:
        """In a forked child: touch nothing of the parent's."""
        self._held.leak()

    # ---------------------------------------------------------------- queues and events

    def queue(self) -> CudaQueue:
        """A new stream."""
        stream = self._driver.Stream(_NON_BLOCKING)
        key = next(self._serials)
        self._held.streams[key] = stream
        made = CudaQueue(self, stream, key)
        self._queues.add(made)
        return made

    def drop_stream(self, key: int, workspace: int) -> None:
        """Destroy a stream when its work is done; called by finalizers."""

        def drop() -> None:
            stream = self._held.streams.get(key)
            if stream is not None:
                self.check(
                    libcuda().cuStreamSynchronize(ffi.cast("void *", int(stream.handle))),
                    "cuStreamSynchronize",
                )
                del self._held.streams[key]
            if workspace:
                self.release(workspace)

        self.later(drop)

    def follow(self, handle: int, mark: Mark) -> None:
        """Let a stream, given as a number and perhaps another library's, wait for ``mark``."""
        assert isinstance(mark, CudaMark), "marks of one backend are not those of another"
        stream = ffi.cast("void *", handle)
        self.check(libcuda().cuStreamWaitEvent(stream, mark.event, 0), "cuStreamWaitEvent")

    def mark_stream(self, handle: int) -> CudaMark:
        """A mark behind all that another library has given to its stream."""
        event = self.take_event(False)
        mark = CudaMark(self, None, event, False)
        stream = ffi.cast("void *", handle)
        self.check(libcuda().cuEventRecord(event, stream), "cuEventRecord")
        return mark

    def next_serial(self) -> int:
        """A number larger than all before it."""
        return next(self._serials)

    def take_event(self, timed: bool) -> Any:
        """An event nobody uses."""
        try:
            return self._events[timed].pop()
        except IndexError:
            made = ffi.new("void **")
            flags = 0 if timed else EVENT_DISABLE_TIMING
            self.check(libcuda().cuEventCreate(made, flags), "cuEventCreate")
            self._all_events.append(made[0])
            return made[0]

    def give_event(self, event: Any, timed: bool) -> None:
        """Take an event back; called by finalizers."""
        self._events[timed].append(event)

    # ---------------------------------------------------------------- memory

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of the device."""
        free, total = self._driver.mem_get_info()
        return int(free), int(total)

    def allocate(self, nbytes: int) -> int:
        """The address of ``nbytes`` fresh bytes, aligned to 256.

        Raises:
            DeviceError: ML403, the device has not enough memory.
        """
        try:
            block = self._driver.mem_alloc(max(nbytes, 1))
        except (self._driver.MemoryError, OverflowError) as error:
            # Another library's kernels may have lost the device: then this raises that instead.
            free, total = self.memory()
            raise faults.exhausted(self.id, nbytes, free, total) from error
        except self._driver.Error as error:
            raise self.translate(error, "cuMemAlloc") from error
        address = int(block)
        self._held.allocations[address] = block
        return address

    def release(self, address: int) -> None:
        """Give back what `allocate` gave, when the work given before has ended."""
        self._free(self._held.allocations, address)

    def allocate_pinned(self, nbytes: int) -> int:
        """The host address of ``nbytes`` page-locked bytes.

        Raises:
            DeviceError: ML403, the system does not lock that many.
        """
        try:
            array = self._driver.pagelocked_empty(
                max(nbytes, 1), "u1", mem_flags=self._driver.host_alloc_flags.PORTABLE
            )
        except self._driver.MemoryError as error:
            raise faults.pinned_exhausted(nbytes, str(error)) from error
        address = int(array.ctypes.data)
        self._held.pinned[address] = array.base
        return address

    def release_pinned(self, address: int) -> None:
        """Give back what `allocate_pinned` gave, when the work given before has ended."""
        self._free(self._held.pinned, address)

    def _free(self, blocks: dict[int, Any], address: int) -> None:
        if self._recording:  # waiting would end the recording
            self._postponed.append(lambda: self._free(blocks, address))
            return
        # Freeing waits for the device anyway; PyCUDA prints what goes wrong while it frees, and
        # raises what goes wrong while it waits.
        self._held.primary.synchronize()
        blocks.pop(address).free()

    def upload(self, queue: Queue, target: int, source: int, nbytes: int) -> None:
        """Copy host memory to the device."""
        self.counters.uploads += 1
        self.counters.upload_bytes += nbytes
        if nbytes:
            memory = ffi.buffer(ffi.cast("char *", source), nbytes)
            self._driver.memcpy_htod_async(target, memory, _stream(queue))

    def download(self, queue: Queue, target: int, source: int, nbytes: int) -> None:
        """Copy device memory to the host and wait for it."""
        self.counters.downloads += 1
        self.counters.download_bytes += nbytes
        if nbytes:
            memory = ffi.buffer(ffi.cast("char *", target), nbytes)
            self._driver.memcpy_dtoh_async(memory, source, _stream(queue))
        queue.synchronize()

    def copy(self, queue: Queue, target: int, source: int, nbytes: int) -> None:
        """Copy within the device, or from a peer for which `can_access` was True."""
        self.counters.copies += 1
        if nbytes:
            self._driver.memcpy_dtod_async(target, source, nbytes, _stream(queue))

    def fill(self, queue: Queue, target: int, value: int, nbytes: int) -> None:
        """Set every byte to ``value``."""
        self.counters.fills += 1
        if nbytes:
            self._driver.memset_d8_async(target, value, nbytes, _stream(queue))

    def can_access(self, other: Context) -> bool:
        """Whether kernels and copies here can read the memory of ``other``; enables it."""
        if not isinstance(other, CudaContext):
            return False
        found = self._peers.get(other.id)
        if found is None:
            found = self._peers[other.id] = self.call(lambda: self._enable(other))
        return found

    def _enable(self, other: CudaContext) -> bool:
        driver = self._driver
        if not driver.Device(self.id).can_access_peer(driver.Device(other.id)):
            return False
        try:
            driver.Context.enable_peer_access(other._held.primary)
        except driver.Error as error:
            return "already enabled" in str(error)  # by another library of this process
        return True

    # ---------------------------------------------------------------- kernels

    @property
    def target(self) -> str:
        """The architecture kernels are compiled for: the device's own, with the instructions
        that only it has (``sm_90a`` for ``sm_90``), for no other device runs this code.
        """
        own = self.properties.architecture
        return f"{own}a" if own == "sm_90" else own

    def load(self, sources: Sequence[DeviceSource]) -> list[Loaded]:
        """The kernels of ``sources``, compiled where the cache has none. The compiler runs in the
        calling thread, which need not be the owner.

        Raises:
            ToolchainError: no compiler, or it refused a text.
            DeviceError: ML443, the driver refused the code; ML445, the device is lost.
        """
        return self._kernels.load(sources)

    def keep_module(self, module: Any) -> None:
        """Keep one of PyCUDA's modules as long as the device is open."""
        self._held.modules.append(module)

    def launch(
        self,
        queue: Queue,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
    ) -> None:
        """Start a kernel.

        Raises:
            DeviceError: ML443, no device accepts this shape; ML445, the device was lost.
        """
        assert isinstance(function, CudaFunction), "kernels of one backend are not another's"
        assert isinstance(queue, CudaQueue), "queues of one backend are not those of another"
        self.counters.launches += 1
        try:
            function.launch(grid, block, shared_bytes, arguments, queue.stream)
        except self._driver.Error as error:
            what = f"kernel {function.name} (grid {grid}, block {block}, {shared_bytes} shared)"
            # Without its traceback, which would keep the module loaded as long as the error lives.
            raise self.translate(error, what) from error.with_traceback(None)
        queue.launched(function.name)

    def record(self, work: Callable[[Queue], None]) -> CudaRecording | None:
        """The launches of ``work``, as a CUDA graph; None for a driver that has none."""
        return self.call(lambda: self._record(work))

    def _record(self, work: Callable[[Queue], None]) -> CudaRecording | None:
        queue = self.queue()
        self._recording = True
        try:
            made = record(self, queue, work)
        finally:
            self._recording = False
            while self._postponed:
                self._postponed.popleft()()
        return made

    def keep_executable(self, key: int, executable: Any) -> None:
        """Keep an instantiated graph until `drop_executable` or the end."""
        self._executables[key] = executable

    def drop_executable(self, key: int, workspace: int) -> None:
        """Destroy an instantiated graph; called by finalizers."""

        def drop() -> None:
            executable = self._executables.pop(key, None)
            if executable is not None:
                CudaRecording.destroy(executable)
            if workspace:
                self.release(workspace)

        self.later(drop)

    def blas(self) -> BlasLt | None:
        """cuBLASLt for this device, None where it is not installed; asked for once."""
        if not self._blas_asked:
            self._blas = self.call(lambda: BlasLt.find(self))
            self._blas_asked = True
        return self._blas

    @property
    def handle(self) -> int:
        """The ``CUcontext`` as a number, for other libraries."""
        return int(self._held.primary.handle)

    def __repr__(self) -> str:
        return f"CudaContext({self.id}: {self.properties.name})"


_open: set[CudaContext] = set()


def _abandon_all() -> None:
    for context in _open:
        context.abandon()


os.register_at_fork(after_in_child=_abandon_all)


def _stream(queue: Queue) -> Any:
    assert isinstance(queue, CudaQueue), "queues of one backend are not those of another"
    return queue.stream
